"""Categorical covariates and weighted residuals in whole runs: against GEMMA, and against dense likelihoods."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from gemma import DATA, assert_close

from jamma import gwas
from jamma.core.errors import InputError
from jamma.io import load_plink_binary

COHORT = DATA / "cohort"
CENTRED = DATA / "gk1.cXX.txt.gz"
ROWS = [line.split() for line in (DATA / "covariates.txt").read_text().splitlines()]


@pytest.mark.parametrize("names", [("0", "1"), ("female", "male"), ("b", "a")])
def test_category_of_two_levels_is_gemmas_column_of_0_and_1(tmp_path, names):
    """Whichever level is the reference, the columns span the same space."""
    covariates = tmp_path / "c.txt"
    covariates.write_text("".join(" ".join([r[0], r[1], names[int(r[2])], r[3]]) + "\n" for r in ROWS))
    result = gwas(
        COHORT, kinship_file=CENTRED, covariate_file=covariates, categorical_columns=[3], lmm_mode=4,
        output_dir=tmp_path, telemetry=False,
    )  # fmt: skip
    assert_close(result.assoc_path, DATA / "lmm4_cov.assoc.txt.gz")
    first, second = sorted(names)
    log = result.log_path.read_text()
    assert f"covariate 3 is categorical: 2 levels {first}, {second}; {first} is the reference" in log


def test_category_of_many_levels_is_its_columns(tmp_path):
    """Three ages to columns by hand; the same numbers."""
    age = [int(r[1]) // 20 for r in ROWS]
    levels = sorted(set(age))
    assert len(levels) > 2
    by_hand, category = tmp_path / "h.txt", tmp_path / "c.txt"
    by_hand.write_text("".join("1 " + " ".join(str(int(a == v)) for v in levels[1:]) + "\n" for a in age))
    category.write_text("".join(f"1 decade{a}\n" for a in age))
    options = dict(kinship_file=CENTRED, lmm_mode=4, output_dir=tmp_path, telemetry=False)
    expected = gwas(COHORT, covariate_file=by_hand, output_prefix="h", **options)
    result = gwas(COHORT, covariate_file=category, categorical_columns=[2], output_prefix="c", **options)
    assert result.assoc_path.read_bytes() == expected.assoc_path.read_bytes()


def test_a_category_for_each_sample_is_refused(tmp_path):
    covariates = tmp_path / "c.txt"
    covariates.write_text("".join(f"1 s{k}\n" for k in range(len(ROWS))))
    with pytest.raises(InputError, match="115 levels for 115 individuals"):
        gwas(COHORT, covariate_file=covariates, categorical_columns=[2], output_dir=tmp_path, telemetry=False)


def dense_wald(v_of_lambda, y, design):
    """REML by its definition with the dense covariance of each lambda: lambda, last effect, its error, p."""
    n, c = design.shape

    def fit(log_lambda):
        v = v_of_lambda(math.exp(log_lambda))
        solved = np.linalg.solve(v, np.column_stack([design, y]))
        information = design.T @ solved[:, :c]
        beta = np.linalg.solve(information, design.T @ solved[:, c])
        residual = float((y - design @ beta) @ (solved[:, c] - solved[:, :c] @ beta))
        logl = -0.5 * ((n - c) * math.log(residual) + np.linalg.slogdet(v)[1] + np.linalg.slogdet(information)[1])
        return logl, beta[-1], math.sqrt(residual / (n - c) * np.linalg.inv(information)[-1, -1])

    grid = np.linspace(math.log(1e-5), math.log(1e5), 60)
    best = grid[np.argmax([fit(t)[0] for t in grid])]
    step = grid[1] - grid[0]
    t = scipy.optimize.minimize_scalar(
        lambda t: -fit(t)[0], bounds=(max(best - step, grid[0]), min(best + step, grid[-1])), method="bounded",
        options={"xatol": 1e-10},
    ).x  # fmt: skip
    _, beta, se = fit(t)
    return math.exp(t), beta, se, scipy.stats.f.sf((beta / se) ** 2, 1, n - c)


def test_residual_weights_are_variances_of_the_residuals(tmp_path):
    """Var(y) = vg K + ve diag(w): against the likelihood of the dense covariance."""
    data = load_plink_binary(COHORT)
    n = len(ROWS)
    w = np.random.default_rng(3).uniform(0.3, 3.0, n)
    weights = tmp_path / "w.txt"
    weights.write_text("".join(f"{float(v)!r}\n" for v in w))
    result = gwas(
        COHORT, kinship_file=CENTRED, covariate_file=DATA / "covariates.txt", residual_weight_file=weights,
        output_dir=tmp_path, telemetry=False, legacy_text=True,
    )  # fmt: skip
    rows = result.associations()
    kinship, y = np.loadtxt(CENTRED), data.phenotypes[:, 0]
    kept = ~np.isnan(y)
    k, y, w = kinship[np.ix_(kept, kept)], y[kept], w[kept]
    centre = np.eye(len(y)) - 1.0 / len(y)
    k = centre @ k @ centre
    covariates = np.array(ROWS, float)[kept]
    names = [info["rs"] for info in data.snp_info()]
    inside = [r for r in rows if 1e-4 < r["l_remle"] < 1e4]  # elsewhere the likelihood is flat
    assert len(inside) > 100
    for row in inside[:: len(inside) // 12]:
        x = data.genotypes[kept, names.index(row["rs"])].astype(float)
        x = np.where(x < 0, x[x >= 0].mean(), x)
        lambda_, beta, se, p = dense_wald(lambda lam: lam * k + np.diag(w), y, np.column_stack([covariates, x]))
        assert row["l_remle"] == pytest.approx(lambda_, rel=1e-4)
        assert row["beta"] == pytest.approx(beta, rel=1e-5, abs=1e-6 * se)
        assert row["se"] == pytest.approx(se, rel=1e-5)
        assert row["p_wald"] == pytest.approx(p, rel=1e-4)
