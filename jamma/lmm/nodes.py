"""The nodes in lambda from which every sum of the likelihood follows.

Write P(lambda) for the projection of (lambda K + I)^-1 past the covariates W, and S for an orthonormal basis of
their complement. Then P = S (lambda S'KS + I)^-1 S', so every a'P(lambda)b is a combination of h(lambda) =
1/(lambda d + 1) over the eigenvalues d of S'KS. By Cauchy's interlacing they lie between those of K, and as functions
of lambda the h(lambda) of all d in such a range are nearly dependent: some tens, R of them, span the rest to rounding
error. Hence

    a'P(lambda)b = sum over r of c_r(lambda) a'P(lambda_r)b

for all a and b, with weights c_r that depend on the range of d alone. Per variant the R numbers at the nodes are all
that has to be computed from n samples.

The nodes lambda_r are the pivots of a QR decomposition of h on a fine grid of lambda. Rows are scaled by sqrt(d) and
columns to unit length, which turns h into 1/cosh((ln lambda + ln d)/2), so that no part of the range is slighted. The
weights are found by least squares, for each interval of ln lambda with rows divided by h at its middle: the error of
the interpolation is then *relative* for each d, hence relative to a'Pa too, however small a'Pa is beside a'a. They are
kept as Chebyshev series in each interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from jamma.core.errors import NumericalError
from jamma.core.threads import blas_threads
from jamma.lmm.null_model import Scaling
from jamma.lmm.schema import F64
from jamma.lmm.search import n_intervals

Gram = Callable[[F64], F64]

PIVOT_TOLERANCE = 1e-13
_N_CANDIDATES = 401
_RCOND = 1e-15  # of the least squares: below are only other weights with the same sums
_ZERO = 1e-14  # lambda d below this: h is 1
_SPACING = 0.05  # of ln(d) where the range is filled; h varies over 1


@dataclass(frozen=True)
class Nodes:
    """Nodes, and the weights that carry sums from them to every lambda; see the module.

    Attributes
    ----------
    l_min, l_max : float
        Bounds of lambda.
    lambdas : ndarray, shape (R,)
        The nodes, ascending; R is a multiple of 8.
    ends : ndarray, shape (J + 1,)
        ln(lambda) at the ends of J equal intervals, J a multiple of 10.
    weights : ndarray, shape (J, R, T)
        Chebyshev coefficients in u of c_r on each interval, where u from -1 to 1 runs through the interval.
    end_weights, end_slopes : ndarray, shape (R, E)
        c_r and its derivative in ln(lambda) at the ends, padded with zeros to a multiple of 8.
    zero_weights : ndarray, shape (R,)
        c_r at lambda = 0.
    half_log_h : ndarray, shape (J, T)
        Chebyshev coefficients of 1/2 sum ln h_i over all eigenvalues of K.
    trace_g : float
        Mean eigenvalue of K.
    error : float
        Largest relative error with which an h(lambda) is interpolated.
    """

    l_min: float
    l_max: float
    lambdas: F64
    ends: F64
    weights: F64
    end_weights: F64
    end_slopes: F64
    zero_weights: F64
    half_log_h: F64
    trace_g: float
    error: float

    @property
    def points(self) -> F64:
        """ln(lambda) at the T Chebyshev points of each interval, shape (J, T)."""
        return interval_points(self.ends, self.weights.shape[2])

    def locate(self, t: float) -> tuple[int, float]:
        """The interval that holds ln(lambda) = t, and u within it."""
        ends = self.ends
        j = min(max(int(np.searchsorted(ends, t, side="right")) - 1, 0), len(ends) - 2)
        u = (2.0 * t - ends[j] - ends[j + 1]) / (ends[j + 1] - ends[j])
        return j, min(max(u, -1.0), 1.0)


def n_terms(width: float) -> int:
    """Chebyshev terms that hold h to rounding error on an interval of ln(lambda), a multiple of 8.

    The poles of h are pi from the real axis, so the series converges by rho = s + sqrt(s^2 + 1), s = 2 pi/width.
    """
    s = 2.0 * math.pi / width
    return 8 * math.ceil(math.log(1e18) / math.log(s + math.sqrt(s * s + 1.0)) / 8)


def interval_points(ends: F64, terms: int) -> F64:
    """Chebyshev points (roots) of each interval, ascending, shape (J, terms)."""
    u = -np.cos(math.pi * (np.arange(terms) + 0.5) / terms)
    return 0.5 * (ends[1:] + ends[:-1])[:, None] + 0.5 * np.diff(ends)[:, None] * u


def chebyshev_matrix(terms: int) -> F64:
    """Matrix M with coefficients = values at the Chebyshev points @ M."""
    k = np.arange(terms)
    angles = math.pi * (np.arange(terms) + 0.5) / terms
    # The points ascend, so the angle of point i is pi - angles[i].
    m = 2.0 / terms * np.cos(k[None, :] * (math.pi - angles)[:, None])
    m[:, 0] *= 0.5
    return m


def _h(d: F64, lambdas: F64) -> F64:
    return 1.0 / (np.outer(d, lambdas) + 1.0)


def _range_of(eigenvalues: F64, l_max: float, gram: Gram | None) -> tuple[F64, bool]:
    """Distinct eigenvalues that S'KS may have, and whether gaps between them may hold others.

    Covariates that are null vectors of K (the intercept, of a centred K) take zeros away and move no other eigenvalue.
    """
    positive = np.unique(eigenvalues[eigenvalues * l_max > _ZERO])
    n_zero = len(eigenvalues) - int(np.count_nonzero(eigenvalues * l_max > _ZERO))
    n_null = n_cvt = 0
    if gram is not None:
        at_zero, at_most = gram(np.array([0.0, l_max]))
        n_cvt = len(at_zero)
        chol = np.linalg.inv(np.linalg.cholesky(at_zero))
        n_null = int(np.sum(np.linalg.eigvalsh(chol @ at_most @ chol.T) > 1.0 - 1e-12))
    rows = positive if n_zero <= n_null and len(positive) else np.concatenate([[0.0], positive])
    return rows, gram is None or n_null < n_cvt


def _fill(rows: F64, l_max: float) -> F64:
    """The range of `rows` without gaps in ln(d) over `_SPACING`; from the smallest d that matters if 0 is in it."""
    lowest = rows[0] if rows[0] > 0 else min(_ZERO / l_max, rows[-1])
    if not lowest > 0:
        return rows
    count = 2 + int(math.log(rows[-1] / lowest) / _SPACING)
    return np.unique(np.concatenate([rows[:1], np.geomspace(lowest, rows[-1], count)]))


def _pivots(a: F64, tolerance: float) -> np.ndarray:
    """Columns that a QR decomposition takes until its pivots fall below `tolerance`, then up to a multiple of 8.

    Modified Gram-Schmidt with re-orthogonalisation; `a` is overwritten.
    """
    taken: list[int] = []
    basis: list[F64] = []
    first = 0.0
    while len(taken) < a.shape[1]:
        norms = np.einsum("ij,ij->j", a, a)
        norms[taken] = -1.0
        j = int(norms.argmax())
        pivot = math.sqrt(max(norms[j], 0.0))
        first = first or pivot
        if (pivot < tolerance * first or len(basis) == len(a)) and len(taken) % 8 == 0:
            break
        taken.append(j)
        if pivot <= 1e-15 * first or len(basis) == len(a):
            continue  # rounding error: the node is filling only
        v = a[:, j] / pivot
        for q in basis:
            v -= q * (q @ v)
        v /= np.linalg.norm(v)
        basis.append(v)
        a -= np.outer(v, v @ a)
    return np.sort(np.array(taken))


def _choose(rows: F64, l_min: float, l_max: float) -> F64:
    """The nodes for a set of eigenvalues."""
    candidates = np.concatenate([[0.0], np.geomspace(l_min, l_max, _N_CANDIDATES)])
    a = _h(rows, candidates) * np.sqrt(np.maximum(rows, 1.0 / l_max))[:, None]
    a /= np.linalg.norm(a, axis=0)
    if len(rows) > len(candidates):
        a = np.asarray(np.linalg.qr(a, mode="r"))  # the same inner products of columns
    return candidates[_pivots(a, PIVOT_TOLERANCE)]


class _Solver:
    """Weights of the nodes by least squares, with rows divided by h at lambda = `middle`."""

    def __init__(self, rows: F64, lambdas: F64, middle: float):
        self._rows = rows
        self._scale = 1.0 / _h(rows, np.array([middle]))
        columns = _h(rows, lambdas) * self._scale
        self._norms = np.linalg.norm(columns, axis=0)
        self._q, self._r = np.linalg.qr(columns / self._norms)

    def weights(self, targets: F64) -> F64:
        """Weights that give the columns of `targets`, shape (rows, targets), from h at the nodes."""
        right = self._q.T @ (targets * self._scale)
        return np.linalg.lstsq(self._r, right, rcond=_RCOND)[0] / self._norms[:, None]

    def at(self, lambdas: F64) -> F64:
        """Weights of h at `lambdas`, shape (R, len(lambdas))."""
        return self.weights(_h(self._rows, lambdas))

    def slope_at(self, lambda_: float) -> F64:
        """Weights of dh/d ln(lambda) = -lambda d h^2 at `lambda_`, shape (R,)."""
        h = _h(self._rows, np.array([lambda_]))
        return self.weights(-lambda_ * self._rows[:, None] * h * h)[:, 0]


def _weights(rows: F64, lambdas: F64, ends: F64, terms: int) -> tuple[F64, F64, F64, F64]:
    """`Nodes.weights`, `end_weights`, `end_slopes` and `zero_weights`."""
    points = np.exp(interval_points(ends, terms))
    n = len(ends)
    at_ends, slopes = np.zeros((2, len(lambdas), 8 * math.ceil(n / 8)))
    values = np.empty((n - 1, len(lambdas), terms))
    for j in range(n - 1):
        solver = _Solver(rows, lambdas, math.exp(0.5 * (ends[j] + ends[j + 1])))
        values[j] = solver.at(points[j])
        if j == 0:
            zero = solver.at(np.zeros(1))[:, 0]
        for k in (j,) if j < n - 2 else (j, j + 1):
            at_ends[:, k] = solver.at(np.exp(ends[k : k + 1]))[:, 0]
            slopes[:, k] = solver.slope_at(math.exp(ends[k]))
    return values @ chebyshev_matrix(terms), at_ends, slopes, zero


def _error(rows: F64, lambdas: F64, ends: F64, weights: F64) -> float:
    """Largest relative error of the interpolated h, between the points where it was fitted."""
    terms = weights.shape[2]
    u = -np.cos(math.pi * np.arange(terms + 1) / terms)
    basis = np.polynomial.chebyshev.chebvander(u, terms - 1).T
    at_nodes, worst = _h(rows, lambdas), 0.0
    for j, w in enumerate(weights):
        t = 0.5 * (ends[j] + ends[j + 1]) + 0.5 * (ends[j + 1] - ends[j]) * u
        worst = max(worst, float(np.abs(at_nodes @ (w @ basis) / _h(rows, np.exp(t)) - 1.0).max()))
    return worst


@blas_threads(1)  # small matrices, and the same bits whatever the number of threads
def make_nodes(
    eigenvalues: F64, l_min: float, l_max: float, covariate_gram: Gram | None = None, n_region: int = 10
) -> Nodes:
    """Choose the nodes for a kinship and tabulate their weights.

    Parameters
    ----------
    eigenvalues : ndarray of float64, shape (n,)
        Of the kinship, none negative.
    l_min, l_max : float
        Bounds of lambda.
    covariate_gram : callable, optional
        lambdas (L,) -> Q'(lambda K + I)^-1 Q, shape (L, c, c), with Q a basis of the covariates. It tells which
        eigenvalues the projection takes away, which saves a quarter of the nodes where the intercept is the only
        covariate. Without it the nodes serve any covariates.
    n_region : int
        Intervals of ln(lambda) that are searched (GEMMA's ``-region``).

    Returns
    -------
    Nodes

    Raises
    ------
    NumericalError
        If no set of nodes reaches 1e-10.
    """
    found, has_gaps = _range_of(eigenvalues, l_max, covariate_gram)
    rows = _fill(found, l_max) if has_gaps else found
    lambdas = _choose(rows, l_min, l_max)
    ends = np.linspace(math.log(l_min), math.log(l_max), n_intervals(l_min, l_max, n_region) + 1)
    terms = n_terms(float(ends[1] - ends[0]))
    weights, end_weights, end_slopes, zero_weights = _weights(rows, lambdas, ends, terms)
    error = _error(rows, lambdas, ends, weights)
    if not error < 1e-10:
        raise NumericalError(f"nodes for eigenvalues {rows[0]:g} to {rows[-1]:g}: relative error {error:.1e}")
    log_h = [-0.5 * np.log1p(np.outer(np.exp(p), eigenvalues)).sum(axis=1) for p in interval_points(ends, terms)]
    return Nodes(
        l_min=l_min, l_max=l_max, lambdas=lambdas, ends=ends, weights=weights, end_weights=end_weights,
        end_slopes=end_slopes, zero_weights=zero_weights, half_log_h=np.array(log_h) @ chebyshev_matrix(terms),
        trace_g=float(np.mean(eigenvalues)), error=error,
    )  # fmt: skip


@dataclass(frozen=True)
class PhenotypeTables:
    """What the search needs of one phenotype and the covariates; no variant enters.

    With L_r L_r' = Q'H(lambda_r)^-1 Q, the projected sums at a node are x'Px = xx - |z|^2 and x'Py = xy - z'z_y, where
    z = L_r^-1 xq.

    Attributes
    ----------
    nodes : Nodes
    scaling : Scaling
        The way back to the phenotype and the covariates as given.
    whitening : ndarray, shape (c, c, R)
        L_r^-1, lower triangle.
    whitened_y : ndarray, shape (c, R)
        z_y.
    node_residual : ndarray, shape (R,)
        y'Py at the nodes.
    residual : ndarray, shape (J, T)
        Chebyshev coefficients of y'Py on each interval.
    half_log_det : ndarray, shape (J, T)
        Those of 1/2 (ln|Q'H^-1 Q| - ln|Q'Q|).
    gram : callable
        lambdas (L,) -> Gram matrices of [Q, y] at each, shape (L, c + 1, c + 1).
    """

    nodes: Nodes
    scaling: Scaling
    whitening: F64
    whitened_y: F64
    node_residual: F64
    residual: F64
    half_log_det: F64
    gram: Gram


@blas_threads(1)
def phenotype_tables(
    nodes: Nodes, gram: Gram, n_samples: int, n_cvt: int, *, y_mean: float = 0.0, y_scale: float = 1.0,
    r_factor: F64 | None = None, ones: F64 | None = None,
) -> PhenotypeTables:  # fmt: skip
    """Tabulate the sums without a variant, exactly at the Chebyshev points.

    Parameters
    ----------
    nodes : Nodes
    gram : callable
        lambdas (L,) -> Gram matrices under (lambda K + I)^-1 of [Q, y], shape (L, c + 1, c + 1): Q a basis of the
        covariates, y the phenotype less `y_mean`, divided by `y_scale`.
    n_samples, n_cvt : int
        n and c.
    y_mean, y_scale : float
        What was taken from the phenotype.
    r_factor : ndarray of float64, shape (c, c), optional
        Covariates as given W = Q `r_factor`; default: Q itself.
    ones : ndarray of float64, shape (c,), optional
        W `ones` = 1; needed where `y_mean` is not 0.
    """
    c = n_cvt
    scaling = Scaling(
        n_samples,
        c,
        y_mean,
        y_scale,
        np.eye(c) if r_factor is None else r_factor,
        np.zeros(c) if ones is None else ones,
    )
    at_zero = gram(np.zeros(1))
    reference = float(np.linalg.slogdet(at_zero[0, :c, :c])[1])
    points = nodes.points
    sums = gram(np.exp(points.ravel()))
    inverse, whitened_y = _whiten(sums, c)
    residual = _residual(sums, whitened_y)
    log_det = -2.0 * np.log(np.einsum("lkk->lk", inverse)).sum(axis=1) - reference
    to_series = chebyshev_matrix(points.shape[1])
    sums = gram(nodes.lambdas)
    inverse, whitened_y = _whiten(sums, c)
    return PhenotypeTables(
        nodes=nodes, scaling=scaling, whitening=np.ascontiguousarray(inverse.transpose(1, 2, 0)),
        whitened_y=np.ascontiguousarray(whitened_y.T), node_residual=_residual(sums, whitened_y),
        residual=residual.reshape(points.shape) @ to_series,
        half_log_det=0.5 * log_det.reshape(points.shape) @ to_series, gram=gram,
    )  # fmt: skip


def _whiten(sums: F64, c: int) -> tuple[F64, F64]:
    """L^-1 of the covariates' block of each Gram matrix, shape (l, c, c), and L^-1 Q'H^-1 y, shape (l, c)."""
    inverse = np.linalg.inv(np.linalg.cholesky(sums[:, :c, :c]))
    return np.tril(inverse), np.einsum("lij,lj->li", inverse, sums[:, :c, c])


def _residual(sums: F64, whitened_y: F64) -> F64:
    """y'Py of each Gram matrix."""
    return sums[:, -1, -1] - np.einsum("lk,lk->l", whitened_y, whitened_y)
