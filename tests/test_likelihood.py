"""The search kernel against the independent oracle and the NumPy reference, at every CPU level, in any threads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from jamma._core import likelihood
from jamma.lmm import reference, search
from jamma.lmm.null_model import fit_null_model
from jamma.lmm.schema import STATISTICS, LmmConfig

from .lmm_problems import make_tables, node_sums

ALL = LmmConfig(lmm_mode=4)

pytestmark = pytest.mark.usefixtures("one_blas_thread")


@pytest.fixture(params=likelihood.available_levels())
def level(request):
    likelihood.set_level(request.param)
    yield request.param
    likelihood.set_level(None)


def fit(problem, x, mode=4, *, know_covariates=True, n_threads=1):
    """Statistics of the columns of x by nodes and kernel; -log10 p and reason among them."""
    tables, basis = make_tables(problem, know_covariates=know_covariates)
    sums = node_sums(tables, basis, problem, x)
    statistics, neg_log10_p, reason = search.fit_variants(tables, fit_null_model(tables), *sums, mode, n_threads)
    return {**statistics, "neg_log10_p": neg_log10_p, "reason": reason}


def test_oracle(mouse_case, level):
    """Every column to 1e-9 of an independent program's 17 digits, from centred variants and from raw ones."""
    c = mouse_case
    tables, basis = c.tables
    null = fit_null_model(tables)
    for x in (c.x, c.x - c.x.mean(0)):
        sums = node_sums(tables, basis, c, x)
        out = search.fit_variants(tables, null, *sums, 4)[0]
        out["logl_H1"] = search.fit_variants(tables, null, *sums, 1)[0]["logl_H1"]  # the oracle's is REML's
        for name in STATISTICS[4]:
            expected = c.oracle[name]
            scale = np.maximum(abs(expected), c.oracle["se"]) if name == "beta" else abs(expected)
            assert np.max(abs(out[name] - expected) / scale) < 1e-9, name


@pytest.mark.parametrize("know_covariates", [True, False])
def test_mouse_reference(mouse_case, know_covariates):
    """To 1e-11 of the reference, p-values near 1 and the log-likelihoods included."""
    c = mouse_case
    tables, basis = make_tables(c) if know_covariates else c.tables
    sums = node_sums(tables, basis, c, c.x - c.x.mean(0))
    out, neg_log10_p, _ = search.fit_variants(tables, fit_null_model(tables), *sums, 4)
    for name in STATISTICS[4]:
        expected = c.reference[name]
        scale = np.maximum(abs(expected), c.reference["se"]) if name == "beta" else abs(expected)
        assert np.max(abs(out[name] - expected) / scale) < 1e-11, name
    assert neg_log10_p == pytest.approx(c.reference["neg_log10_p"], rel=1e-10)


@pytest.mark.parametrize(
    "part", [pytest.param(slice(1, None, 11), id="some"), pytest.param(slice(None), id="all", marks=pytest.mark.slow)]
)
def test_hard_cases(hard_cases, part):
    """Small and low-rank kinships, heritabilities to 0.999, optima on bounds, flat likelihoods.

    lambda is as good as the curvature there lets it be: 1e-10 for 99 of 100, 1e-8 for all.
    """
    errors = []
    for case in hard_cases[part]:
        expected = reference.associate(case.eigenvalues, case.u, case.w, case.y, case.x, ALL)
        out = fit(case, case.x - case.x.mean(0))
        assert np.array_equal(out["reason"], expected["reason"])
        assert not out["reason"].any()
        for name, tolerance in (("logl_H1", 1e-11), ("p_lrt", 1e-9), ("p_score", 1e-9), ("p_wald", 2e-9), ("se", 1e-9)):
            assert np.max(abs(out[name] / expected[name] - 1)) < tolerance, name
        assert np.max(abs(out["beta"] - expected["beta"]) / np.maximum(abs(expected["beta"]), expected["se"])) < 1e-9
        errors.extend(abs(out[name] / expected[name] - 1) for name in ("l_remle", "l_mle"))
    errors = np.concatenate(errors)
    assert np.quantile(errors, 0.99) < 1e-10
    assert errors.max() < 1e-8


@pytest.mark.parametrize("bounds", [(1e-5, 1e-3), (1e2, 1e5), (0.3, 3.0), (1e-12, 1e9)])
def test_bounds_of_lambda(hard_cases, bounds):
    """Other bounds; an optimum outside is exactly the bound."""
    case = next(c for c in hard_cases[7:] if c.kind == "full" and c.w.shape[1] == 2)
    config = LmmConfig(lmm_mode=4, l_min=bounds[0], l_max=bounds[1])
    expected = reference.associate(case.eigenvalues, case.u, case.w, case.y, case.x, config)
    tables, basis = make_tables(case, bounds=bounds)
    sums = node_sums(tables, basis, case, case.x - case.x.mean(0))
    out = search.fit_variants(tables, fit_null_model(tables), *sums, 4)[0]
    for name in STATISTICS[4]:
        assert out[name] == pytest.approx(expected[name], rel=1e-9), name
        if name.startswith("l_"):
            on_bound = np.isin(expected[name], bounds)
            assert np.array_equal(out[name][on_bound], expected[name][on_bound])


@pytest.mark.parametrize("mode", [1, 2, 3, 4])
def test_same_bits(hard_cases, mode):
    """Alone, in any company, in any number of threads and at every CPU level: the same bits."""
    case = hard_cases[19]
    rng = np.random.default_rng(3)
    x = rng.binomial(2, 0.3, (len(case.y), 101)).astype(float)
    x[:, 40] = 1.0
    tables, basis = make_tables(case)
    null = fit_null_model(tables)
    xx, xq, xy = node_sums(tables, basis, case, x)

    def run(rows, n_threads=1):
        out, p, reason = search.fit_variants(tables, null, xx[rows], xq[rows], xy[rows], mode, n_threads)
        return [*out.values(), p, reason]

    expected = run(slice(None))
    assert list(search.fit_variants(tables, null, xx, xq, xy, mode)[0]) == list(STATISTICS[mode])
    for n_threads in (2, 3, 8):
        for a, b in zip(run(slice(None), n_threads), expected, strict=True):
            assert np.array_equal(a, b, equal_nan=True)
    for rows in (slice(7, 8), slice(30, 60), np.arange(100, -1, -1)):
        for a, b in zip(run(rows, 2), expected, strict=True):
            assert np.array_equal(a, b[rows], equal_nan=True)
    for name in likelihood.available_levels():
        likelihood.set_level(name)
        try:
            for a, b in zip(run(slice(None), 2), expected, strict=True):
                assert np.array_equal(a, b, equal_nan=True), name
        finally:
            likelihood.set_level(None)


def test_modes_agree(hard_cases):
    case = hard_cases[15]
    full = fit(case, case.x)
    for mode, first in ((1, "p_wald"), (2, "p_lrt"), (3, "p_score")):
        out = fit(case, case.x, mode)
        for name in set(STATISTICS[mode]) - {"logl_H1", "beta", "se"}:
            assert np.array_equal(out[name], full[name])
        assert out["neg_log10_p"] == pytest.approx(-np.log10(out[first]), rel=1e-12)
    assert full["neg_log10_p"] == pytest.approx(-np.log10(full["p_wald"]), rel=1e-12)
    score = reference.associate(case.eigenvalues, case.u, case.w, case.y, case.x, LmmConfig(lmm_mode=3))
    for name in STATISTICS[3]:
        assert fit(case, case.x, 3)[name] == pytest.approx(score[name], rel=1e-10)


def test_strong_effects(hard_cases):
    """Residuals down to 1e-9 of the phenotype's variance: digits are lost to the sums only, and p underflows."""
    case = hard_cases[8]
    rng = np.random.default_rng(2)
    x = case.x[:, 0]
    for noise, tolerance in ((1.0, 1e-9), (1e-2, 1e-9), (1e-4, 1e-7), (3e-5, 1e-6)):
        problem = replace(case, y=x + noise * rng.normal(size=len(x)))
        expected = reference.associate(case.eigenvalues, case.u, case.w, problem.y, x[:, None], ALL)
        out = fit(problem, x[:, None] - x.mean())
        for name in ("neg_log10_p", "se", "beta", "logl_H1"):
            assert out[name] == pytest.approx(expected[name], rel=tolerance), (noise, name)
        assert not out["reason"].any()
    wide = replace(case, **tile(case, x, 6))
    out = fit(wide, np.tile(x, 6)[:, None])
    assert out["p_wald"][0] == 0.0
    assert 310 < out["neg_log10_p"][0] < np.inf


def tile(case, x, times):
    """A block-diagonal problem of several copies of one, with a strong effect of x."""
    n = len(case.y)
    y = np.tile(x, times) + 1e-3 * np.random.default_rng(0).normal(size=n * times)
    return {
        "eigenvalues": np.tile(case.eigenvalues, times), "u": np.kron(np.eye(times), case.u),
        "w": np.tile(case.w, (times, 1)), "y": y,
    }  # fmt: skip


def test_reasons(hard_cases):
    """No nan without a reason, no reason without nan; the neighbours are not touched."""
    case = hard_cases[4]
    n = len(case.y)
    x = np.column_stack([case.x[:, 0], np.full(n, 2.0), case.w @ np.arange(1.0, 1 + case.w.shape[1]), case.y])
    tables, basis = make_tables(case)
    null = fit_null_model(tables)
    xx, xq, xy = node_sums(tables, basis, case, x[:, [0, 1, 2, 3, 0, 0]])
    xx[4, 3] = np.inf
    xy[5] = np.nan
    for mode in (1, 2, 3, 4):
        out, p, reason = search.fit_variants(tables, null, xx, xq, xy, mode)
        assert reason.tolist()[:4] == [
            search.REASON_OK, search.REASON_COLLINEAR, search.REASON_COLLINEAR, search.REASON_PERFECT_FIT,
        ]  # fmt: skip
        assert (reason[4:] == search.REASON_NOT_FINITE).all()
        for values in (*out.values(), p):
            assert np.array_equal(np.isnan(values), reason != 0)


def test_scale_of_the_phenotype(hard_cases):
    """A factor of 1e-12 and a shift of 1e8 change no test, and beta, se and logl as they should."""
    case = hard_cases[21]
    plain = fit(case, case.x)
    tiny = fit(replace(case, y=1e8 + case.y), case.x)
    for name in ("p_wald", "p_lrt", "p_score", "beta", "se"):
        assert tiny[name] == pytest.approx(plain[name], rel=1e-6), name
    tiny = fit(replace(case, y=1e-12 * case.y), case.x)
    for name in ("l_remle", "l_mle", "p_wald", "p_lrt", "p_score"):
        assert tiny[name] == pytest.approx(plain[name], rel=1e-10), name
    for name in ("beta", "se"):
        assert tiny[name] == pytest.approx(1e-12 * plain[name], rel=1e-10), name
    assert tiny["logl_H1"] == pytest.approx(plain["logl_H1"] + len(case.y) * 12 * np.log(10), rel=1e-12)


def test_phenotypes_share_the_sums(hard_cases):
    """xx and xq of one phenotype serve another, whose tables use the same nodes."""
    case = hard_cases[26]
    other = replace(case, y=case.y[::-1].copy())
    tables, basis = make_tables(case)
    other_tables, _ = make_tables(other)
    assert np.array_equal(tables.nodes.lambdas, other_tables.nodes.lambdas)
    xx, xq, _ = node_sums(tables, basis, case, case.x)
    xy = node_sums(other_tables, basis, other, case.x)[2]
    both = np.stack([xy, xy], axis=1)  # strided, as a slice of all phenotypes' sums is
    out = search.fit_variants(other_tables, fit_null_model(other_tables), xx, xq, both[:, 1], 4)[0]
    expected = fit(other, case.x)
    for name in STATISTICS[4]:
        assert out[name] == pytest.approx(expected[name], rel=1e-10), name


def test_sizes(hard_cases):
    case = hard_cases[0]
    tables, basis = make_tables(case)
    null = fit_null_model(tables)
    xx, xq, xy = node_sums(tables, basis, case, case.x)
    out, p, reason = search.fit_variants(tables, null, xx[:0], xq[:0], xy[:0], 4)
    assert len(p) == len(reason) == len(out["beta"]) == 0
    for wrong in ((xx[:, :-8], xq, xy), (xx, xq[:-1], xy), (xx, xq, xy[:, 1:]), (xx, xq[:, :0], xy)):
        with pytest.raises(ValueError, match="another shape"):
            search.fit_variants(tables, null, *wrong, 4)
    with pytest.raises(ValueError, match="contiguous"):
        search.fit_variants(tables, null, np.asfortranarray(xx), xq, xy, 4)
    with pytest.raises(ValueError, match="mode 9"):
        search.fit_variants(tables, null, xx, xq, xy, 9)
    with pytest.raises(ValueError, match="0 threads"):
        search.fit_variants(tables, null, xx, xq, xy, 4, 0)
