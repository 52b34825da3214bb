"""The NumPy reference against the independent oracle, GEMMA's logs, and dense matrices."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, stats

from jamma.core.errors import NumericalError
from jamma.lmm import reference, search
from jamma.lmm.schema import STATISTICS, LmmConfig

ALL = LmmConfig(lmm_mode=4)

pytestmark = pytest.mark.usefixtures("one_blas_thread")


def dense_log_likelihood(t, kinship, w, y, restricted):
    """REML or ML of the model with design w, from the inverse of lambda K + I."""
    n, q = w.shape
    v = np.exp(t) * kinship + np.eye(n)
    vi = np.linalg.inv(v)
    xvx = w.T @ vi @ w
    residual = y - w @ np.linalg.solve(xvx, w.T @ vi @ y)
    rss = residual @ vi @ residual
    df = n - q if restricted else n
    logl = 0.5 * df * (np.log(df / (2 * np.pi)) - 1) - 0.5 * np.linalg.slogdet(v)[1] - 0.5 * df * np.log(rss)
    if restricted:
        logl -= 0.5 * (np.linalg.slogdet(xvx)[1] - np.linalg.slogdet(w.T @ w)[1])
    return logl


def dense_maximum(kinship, w, y, restricted):
    """Maximum over [1e-5, 1e5] by a fine grid and SciPy's bounded minimiser around its best point."""
    grid = np.linspace(np.log(1e-5), np.log(1e5), 101)
    values = [dense_log_likelihood(t, kinship, w, y, restricted) for t in grid]
    best = int(np.argmax(values))
    lo, hi = grid[max(best - 1, 0)], grid[min(best + 1, 100)]
    found = optimize.minimize_scalar(
        lambda t: -dense_log_likelihood(t, kinship, w, y, restricted), bounds=(lo, hi), options={"xatol": 1e-10}
    )
    return (found.x, -found.fun) if -found.fun > values[best] else (grid[best], values[best])


def test_oracle(mouse_case):
    """Every column to 1e-9 of an independent program's 17 digits; logl_H1 of the oracle is REML's."""
    c = mouse_case
    out = c.reference
    for name in ("beta", "se", "logl_H1", "l_remle", "l_mle", "p_wald", "p_lrt", "p_score"):
        expected = c.oracle[name]
        scale = np.maximum(abs(expected), c.oracle["se"]) if name == "beta" else abs(expected)
        found = out["logl_remle" if name == "logl_H1" else name]
        assert np.max(abs(found - expected) / scale) < 1e-9, name


@pytest.mark.parametrize("index", range(3, 480, 97))
def test_dense(hard_cases, index):
    """Likelihoods at the optimum, effects and p-values as from dense matrices."""
    case = hard_cases[index]
    out = reference.associate(case.eigenvalues, case.u, case.w, case.y, case.x, ALL)
    null = reference.fit_null(case.eigenvalues, case.u, case.w, case.y, ALL)
    _, logl = dense_maximum(case.kinship, case.w, case.y, True)
    assert null.logl_remle == pytest.approx(logl, abs=1e-8)
    _, logl_0 = dense_maximum(case.kinship, case.w, case.y, False)
    assert null.logl_mle == pytest.approx(logl_0, abs=1e-8)
    n, df = len(case.y), len(case.y) - case.w.shape[1] - 1
    for j in range(case.x.shape[1]):
        design = np.column_stack([case.w, case.x[:, j]])
        _, reml = dense_maximum(case.kinship, design, case.y, True)
        _, ml = dense_maximum(case.kinship, design, case.y, False)
        assert out["logl_remle"][j] == pytest.approx(reml, abs=1e-8)
        assert out["logl_mle"][j] == pytest.approx(ml, abs=1e-8)
        assert out["p_lrt"][j] == pytest.approx(stats.chi2.sf(max(2 * (ml - logl_0), 0), 1), abs=1e-4, rel=1e-6)
        vi = np.linalg.inv(out["l_remle"][j] * case.kinship + np.eye(n))
        xvx = np.linalg.inv(design.T @ vi @ design)
        effects = xvx @ design.T @ vi @ case.y
        residual = case.y - design @ effects
        se = np.sqrt(residual @ vi @ residual / df * xvx[-1, -1])
        assert out["beta"][j] == pytest.approx(effects[-1], rel=1e-7, abs=1e-9)
        assert out["se"][j] == pytest.approx(se, rel=1e-7)
        assert out["p_wald"][j] == pytest.approx(stats.f.sf((effects[-1] / se) ** 2, 1, df), rel=1e-6)


@pytest.mark.parametrize("index", [1, 12, 50, 117])
def test_null_model(hard_cases, index):
    """Covariate effects, variances and PVE as generalised least squares gives them at the REML lambda."""
    case = hard_cases[index]
    null = reference.fit_null(case.eigenvalues, case.u, case.w, case.y, ALL)
    n, c = case.w.shape
    vi = np.linalg.inv(null.lambda_remle * case.kinship + np.eye(n))
    cov = np.linalg.inv(case.w.T @ vi @ case.w)
    effects = cov @ case.w.T @ vi @ case.y
    residual = case.y - case.w @ effects
    ve = residual @ vi @ residual / (n - c)
    assert null.beta == pytest.approx(effects, rel=1e-8, abs=1e-10)
    assert null.ve == pytest.approx(ve, rel=1e-9)
    assert null.vg == pytest.approx(ve * null.lambda_remle, rel=1e-9)
    assert null.se_beta == pytest.approx(np.sqrt(np.diag(cov) * ve), rel=1e-8)
    s = np.trace(case.kinship) / n
    assert null.pve == pytest.approx(s * null.lambda_remle / (s * null.lambda_remle + 1), rel=1e-9)
    step = 0.05
    near = np.log(null.lambda_remle * (1 + step * np.arange(-2, 3)))
    values = [dense_log_likelihood(t, case.kinship, case.w, case.y, True) for t in near]
    curvature = np.array([-1, 16, -30, 16, -1]) @ values / (12 * (step * null.lambda_remle) ** 2)
    if null.pve_se is not None:
        expected = s / (s * null.lambda_remle + 1) ** 2 * np.sqrt(-1 / curvature)
        assert null.pve_se == pytest.approx(expected, rel=1e-3)
    else:
        assert curvature > -1e-9


@pytest.mark.parametrize("mode", [1, 2, 3, 4])
def test_modes(hard_cases, mode):
    """Each mode gives its own columns; the values are those of mode 4, and of one variant at a time."""
    case = hard_cases[10]
    data = (case.eigenvalues, case.u, case.w, case.y)
    out = reference.associate(*data, case.x, LmmConfig(lmm_mode=mode))
    full = reference.associate(*data, case.x, ALL)
    assert set(STATISTICS[mode]) <= set(out)
    p_name = {1: "p_wald", 2: "p_lrt", 3: "p_score", 4: "p_wald"}[mode]
    assert out["neg_log10_p"] == pytest.approx(-np.log10(out[p_name]), rel=1e-12)
    for name in ("l_remle", "l_mle", "p_wald", "p_lrt", "p_score"):
        if name in out:
            assert np.array_equal(out[name], full[name])
    single = reference.associate(*data, case.x[:, 1:2], LmmConfig(lmm_mode=mode))
    for name in STATISTICS[mode]:
        assert single[name][0] == pytest.approx(out[name][1], rel=1e-12)


def test_scale_of_the_phenotype(hard_cases):
    """A shift of 1e8 and a factor of 1e-12 change no test, and beta, se and logl as they should."""
    case = hard_cases[8]
    data = (case.eigenvalues, case.u, case.w)
    plain = reference.associate(*data, case.y, case.x, ALL)
    tiny = reference.associate(*data, case.y * 1e-12, case.x, ALL)
    for name in ("l_remle", "l_mle", "p_wald", "p_lrt", "p_score"):
        assert tiny[name] == pytest.approx(plain[name], rel=1e-11)
    assert tiny["beta"] == pytest.approx(plain["beta"] * 1e-12, rel=1e-11)
    assert tiny["se"] == pytest.approx(plain["se"] * 1e-12, rel=1e-11)
    assert tiny["logl_mle"] == pytest.approx(plain["logl_mle"] + 12 * np.log(10) * len(case.y), rel=1e-12)
    rounded = np.round(case.y * 1024) / 1024  # so that adding 1e8 loses no digit
    near, far = (reference.associate(*data, rounded + shift, case.x, ALL) for shift in (0.0, 2.0**27))
    for name in STATISTICS[4]:
        assert far[name] == pytest.approx(near[name], rel=1e-9), name
    null = reference.fit_null(*data, rounded + 2.0**27, ALL)
    assert null.beta[0] == pytest.approx(2.0**27 + reference.fit_null(*data, rounded, ALL).beta[0], rel=1e-14)


def test_reasons(hard_cases):
    """A variant that cannot be tested has nan with a reason, and its neighbours their numbers."""
    case = hard_cases[4]
    n = len(case.y)
    flawed = np.column_stack(
        [case.x[:, 0], np.full(n, 2.0), case.w @ np.arange(1.0, 1 + case.w.shape[1]), case.y, np.full(n, np.inf)]
    )
    with np.errstate(invalid="ignore"):
        out = reference.associate(case.eigenvalues, case.u, case.w, case.y, flawed, ALL)
    assert out["reason"].tolist() == [
        search.REASON_OK, search.REASON_COLLINEAR, search.REASON_COLLINEAR, search.REASON_PERFECT_FIT,
        search.REASON_NOT_FINITE,
    ]  # fmt: skip
    for name in STATISTICS[4]:
        assert np.isfinite(out[name]).tolist() == [True, False, False, False, False]
    assert set(search.REASONS) == set(range(4))


def test_covariates_explain_the_phenotype(hard_cases):
    case = hard_cases[4]
    with pytest.raises(NumericalError, match="perfectly"):
        reference.fit_null(case.eigenvalues, case.u, case.w, case.w @ np.ones(case.w.shape[1]), ALL)


def test_gemma_log(mouse_case, shared_data):
    """The null model's numbers to the six digits of GEMMA's log."""
    c = mouse_case
    null = reference.fit_null(c.eigenvalues, c.u, c.w, c.y, ALL)
    lines = (shared_data / "gemma_reference" / f"{c.name}.log.txt").read_text().splitlines()
    value = {line.split(" = ")[0].strip("# "): line.split(" = ")[1] for line in lines if " = " in line}
    for key, found in (
        ("REMLE log-likelihood in the null model", null.logl_remle),
        ("MLE log-likelihood in the null model", null.logl_mle),
        ("pve estimate in the null model", null.pve),
        ("se(pve) in the null model", null.pve_se),
        ("vg estimate in the null model", null.vg),
        ("ve estimate in the null model", null.ve),
    ):
        assert found == pytest.approx(float(value[key]), rel=1e-5), key
    assert null.se_beta == pytest.approx([float(v) for v in value["se(beta)"].split()], rel=1e-5)
