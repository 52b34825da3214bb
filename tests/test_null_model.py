"""The null model from the tables against the NumPy reference (which is held against dense matrices)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from jamma.core.errors import NumericalError
from jamma.lmm import reference
from jamma.lmm.null_model import fit_null_model, null_likelihood
from jamma.lmm.schema import LmmConfig

from .lmm_problems import make_tables

pytestmark = pytest.mark.usefixtures("one_blas_thread")


def assert_equal(found, expected, lambda_tolerance):
    """lambda to the tolerance, what depends on it to the same, log-likelihoods to 1e-12."""
    for name in ("lambda_remle", "lambda_mle", "pve", "vg", "ve"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=lambda_tolerance), name
    for name in ("logl_remle", "logl_mle"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-12, abs=1e-11), name
    assert (found.pve_se is None) == (expected.pve_se is None)
    if found.pve_se is not None:
        assert found.pve_se == pytest.approx(expected.pve_se, rel=1e-4 if found.pve_se > 1e-3 else 1e-8)
    assert found.beta == pytest.approx(expected.beta, rel=1e-9, abs=1e-11)
    assert found.se_beta == pytest.approx(expected.se_beta, rel=1e-9)


@pytest.mark.parametrize(
    "part", [pytest.param(slice(2, None, 13), id="some"), pytest.param(slice(None), id="all", marks=pytest.mark.slow)]
)
def test_hard_cases(hard_cases, part):
    for case in hard_cases[part]:
        expected = reference.fit_null(case.eigenvalues, case.u, case.w, case.y, LmmConfig())
        assert_equal(fit_null_model(make_tables(case)[0]), expected, 1e-9)


def test_mouse(mouse_case):
    expected = reference.fit_null(mouse_case.eigenvalues, mouse_case.u, mouse_case.w, mouse_case.y, LmmConfig())
    for know_covariates in (True, False):
        tables = (make_tables(mouse_case) if know_covariates else mouse_case.tables)[0]
        found = fit_null_model(tables)
        assert_equal(found, expected, 1e-11)
        assert found.pve_se == pytest.approx(expected.pve_se, rel=1e-10)


@pytest.mark.parametrize("restricted", [True, False])
def test_likelihood_and_derivatives(hard_cases, restricted):
    """Value and both derivatives of the tables' likelihood over the whole range."""
    for case in hard_cases[3:480:97]:
        model = reference.make_model(case.eigenvalues, case.u, case.w, case.y)
        expected = reference.log_likelihood(model, None, restricted)
        found = null_likelihood(make_tables(case)[0], restricted)
        for t in np.linspace(np.log(1e-5), np.log(1e5), 41):
            for a, b, tolerance in zip(
                found(np.array([t]), np.arange(1)),
                expected(np.array([t]), np.arange(1)),
                (1e-11, 1e-11, 1e-9),
                strict=True,
            ):
                assert a[0] == pytest.approx(b[0], rel=tolerance, abs=tolerance * len(case.y))


@pytest.mark.parametrize("bounds", [(1e-5, 1e-3), (1e3, 1e5), (1e-12, 1e9)], ids=str)
def test_bounds(hard_cases, bounds):
    """Other bounds of lambda; an optimum outside is at one of them, exactly."""
    case = hard_cases[3]
    expected = reference.fit_null(case.eigenvalues, case.u, case.w, case.y, LmmConfig(l_min=bounds[0], l_max=bounds[1]))
    found = fit_null_model(make_tables(case, bounds=bounds)[0])
    assert_equal(found, expected, 1e-9)
    if bounds[0] != 1e-12:
        assert found.lambda_remle == expected.lambda_remle
        assert found.lambda_remle in bounds


def test_no_kinship(hard_cases):
    """K = 0: lambda means nothing; ordinary least squares, and no standard error of the PVE."""
    case = hard_cases[3]
    null = fit_null_model(make_tables(replace(case, eigenvalues=np.zeros_like(case.eigenvalues)))[0])
    effects, rss = np.linalg.lstsq(case.w, case.y, rcond=None)[:2]
    assert (null.lambda_remle, null.pve, null.pve_se) == (1e-5, 0.0, None)
    assert null.beta == pytest.approx(effects, rel=1e-10)
    assert null.ve == pytest.approx(rss[0] / (len(case.y) - case.w.shape[1]), rel=1e-12)


def test_covariates_explain_the_phenotype(hard_cases):
    case = hard_cases[4]
    with pytest.raises(NumericalError, match="perfectly"):
        fit_null_model(make_tables(replace(case, y=case.w @ np.arange(1.0, 1 + case.w.shape[1])))[0])
