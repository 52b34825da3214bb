"""The nodes carry every projected sum to every lambda, whatever the spectrum."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from numpy.polynomial import chebyshev

from jamma.lmm import interpolation
from jamma.lmm.basis import EigenBasis
from jamma.lmm.nodes import make_nodes

from .lmm_problems import make_tables

SPECTRA = {
    "one eigenvalue": np.array([0.0, 1.0, 1.0, 1.0]),
    "all zero": np.zeros(5),
    "duplicates": np.repeat([0.0, 0.3, 2.0], 40),
    "narrow": np.linspace(0.5, 1.5, 200),
    "wide": np.concatenate([[0.0], np.geomspace(1e-6, 300.0, 300)]),
    "low rank": np.concatenate([np.zeros(150), np.geomspace(0.1, 9.0, 50)]),
    "clusters": np.concatenate([[0.0], 1e-4 * (1 + 1e-3 * np.arange(3)), np.linspace(0.2, 0.3, 80), [11.0, 40.0]]),
}

pytestmark = pytest.mark.usefixtures("one_blas_thread")


def interpolate(nodes, at_nodes: np.ndarray, t: float) -> tuple[np.ndarray, np.ndarray]:
    """Values and slopes in ln(lambda) at t from values at the nodes (last axis)."""
    j, u = nodes.locate(t)
    value, slope = (at_nodes @ chebyshev.chebval(u, w[j].T) for w in (nodes.weights, nodes.slope_weights))
    return value, slope - nodes.decays[j] * value


@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize(
    ("bounds", "slope_error"), [((1e-5, 1e5), 1e-10), ((0.01, 30.0), 1e-10), ((1e-12, 1e9), 1e-9)], ids=str
)
def test_h_is_interpolated(name, bounds, slope_error):
    """Value (1e-11) and slope of h for each eigenvalue and for those that lie between, relative to h itself."""
    d = SPECTRA[name]
    nodes = make_nodes(d, *bounds)
    assert len(nodes.lambdas) % 8 == 0
    assert np.all(np.diff(nodes.lambdas) > 0)
    assert nodes.error < 1e-11
    between = np.concatenate([d, np.linspace(d.min(), d.max(), 53), np.geomspace(max(d.max() * 1e-9, 1e-9), 1.0, 40)])
    between = np.unique(between[(between >= d.min()) & (between <= d.max())])
    at_nodes = interpolation.h_matrix(between, nodes.lambdas)
    rng = np.random.default_rng(5)
    for t in np.concatenate([nodes.ends, rng.uniform(nodes.ends[0], nodes.ends[-1], 60)]):
        value, slope = interpolate(nodes, at_nodes, t)
        h = interpolation.h_matrix(between, np.array([np.exp(t)]))[:, 0]
        assert np.max(abs(value / h - 1)) < 1e-11
        assert np.max(abs(slope / h + np.exp(t) * between * h)) < slope_error
    for k, t in enumerate(nodes.ends):
        h = interpolation.h_matrix(between, np.array([np.exp(t)]))[:, 0]
        assert np.max(abs(at_nodes @ nodes.end_weights[:, k] / h - 1)) < 1e-11
        decay = nodes.decays[min(k, len(nodes.decays) - 1)]
        assert np.max(abs(at_nodes @ nodes.end_slopes[:, k] / h + np.exp(t) * between * h - decay)) < slope_error
    assert np.max(abs(at_nodes @ nodes.zero_weights - 1)) < 1e-11
    assert not nodes.end_weights[:, len(nodes.ends) :].any()


@pytest.mark.parametrize("index", range(0, 480, 53))
@pytest.mark.parametrize("know_covariates", [True, False])
def test_projected_sums(hard_cases, index, know_covariates):
    """x'Px and x'Py between the nodes, relative to their size, with nodes that know the covariates and that do not."""
    case = hard_cases[index]
    tables, basis = make_tables(case, know_covariates=know_covariates)
    nodes = tables.nodes
    vectors = np.column_stack([np.linalg.qr(case.w)[0], case.x - case.x.mean(0), case.y - case.y.mean()])
    c = case.w.shape[1]

    def projected(lambdas):
        gram = basis.gram(vectors, lambdas)
        solved = np.linalg.solve(gram[:, :c, :c], gram[:, :c, c:])
        return gram[:, c:, c:] - np.einsum("lki,lkj->lij", gram[:, :c, c:], solved)

    at_nodes = projected(nodes.lambdas).transpose(1, 2, 0)
    for t in np.linspace(nodes.ends[0], nodes.ends[-1], 37):
        value = interpolate(nodes, at_nodes, t)[0]
        exact = projected(np.array([np.exp(t)]))[0]
        size = np.sqrt(np.outer(np.diag(exact), np.diag(exact)))
        assert np.max(abs(value - exact) / size) < 1e-10
        j, u = nodes.locate(t)
        assert chebyshev.chebval(u, tables.residual[j]) == pytest.approx(exact[-1, -1] / case.y.var(), rel=1e-11)
    log_h = -0.5 * np.log1p(case.eigenvalues * np.exp(t)).sum()
    assert chebyshev.chebval(u, nodes.half_log_h[j]) == pytest.approx(log_h, rel=1e-13)
    log_det = np.linalg.slogdet(basis.gram(vectors[:, :c], np.exp([t]))[0])[1]
    assert chebyshev.chebval(u, tables.half_log_det[j]) == pytest.approx(0.5 * log_det, rel=1e-11, abs=1e-12)


def test_slopes_of_the_parts_without_y(hard_cases):
    """Slopes of the log-determinants against differences of their values, at both ends of the range too."""
    for case in hard_cases[1:6]:
        tables, _ = make_tables(case)
        nodes, c, n = tables.nodes, case.w.shape[1], len(case.y)
        for t in np.linspace(nodes.ends[0] + 0.1, nodes.ends[-1] - 0.1, 23):
            (j, u), step = nodes.locate(t), 1e-3
            width = nodes.ends[1] - nodes.ends[0]
            at = u + np.array([-2, -1, 1, 2]) * step * 2 / width
            for series, slopes, constant in (
                (nodes.half_log_h, nodes.half_log_h_slope, n), (tables.half_log_det, tables.half_log_det_slope, c),
            ):  # fmt: skip
                slope = np.array([1, -8, 8, -1]) @ chebyshev.chebval(at, series[j]) / (12 * step)
                found = chebyshev.chebval(u, slopes[j]) - 0.5 * constant * nodes.decays[j]
                assert found == pytest.approx(slope, abs=1e-9)


def test_intercept_alone_needs_fewer_nodes():
    """Where projection only takes the null vector away, the eigenvalues are known exactly."""
    rng = np.random.default_rng(1)
    n = 300
    d = np.concatenate([[0.0], np.geomspace(1e-4, 2.0, 12), rng.uniform(0.2, 0.5, n - 14), [30.0]])
    basis_vectors = np.linalg.qr(np.column_stack([np.ones(n), rng.normal(size=(n, n - 1))]))[0]
    basis = EigenBasis(d, basis_vectors)
    one = np.full((n, 1), n**-0.5)
    known = make_nodes(d, 1e-5, 1e5, partial(basis.gram, one))
    two = make_nodes(d, 1e-5, 1e5, partial(basis.gram, np.linalg.qr(np.column_stack([one, rng.normal(size=n)]))[0]))
    unknown = make_nodes(d, 1e-5, 1e5)
    assert len(known.lambdas) < len(two.lambdas) < len(unknown.lambdas)
    assert max(known.error, two.error, unknown.error) < 1e-12


def test_number_of_terms():
    """The series is as long as the interval is wide, and reproduces a function with the poles of h."""
    assert interpolation.n_terms(2.3) == 24
    assert interpolation.n_terms(0.1) == 16
    assert interpolation.n_terms(0.05) == 8
    for width in (0.3, 2.3, 2.6):
        ends, terms = np.array([1.0, 1.0 + width]), interpolation.n_terms(width)
        f = lambda t: 1.0 / (1.0 + np.exp(t - 1.0))  # noqa: E731
        series = f(interpolation.interval_points(ends, terms)[0]) @ interpolation.chebyshev_matrix(terms)
        u = np.linspace(-1, 1, 101)
        assert np.max(abs(chebyshev.chebval(u, series) / f(1.0 + 0.5 * width * (u + 1.0)) - 1)) < 5e-14
