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
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from jamma.core.errors import NumericalError
from jamma.core.threads import blas_threads
from jamma.lmm.interpolation import (
    chebyshev_matrix,
    choose_nodes,
    interpolation_error,
    interpolation_weights,
    interval_points,
    n_terms,
)  # fmt: skip
from jamma.lmm.null_model import Scaling
from jamma.lmm.schema import F64
from jamma.lmm.search import n_intervals

Gram = Callable[[F64], F64]

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
    decays : ndarray of bool, shape (J,)
        Where slopes in t = ln(lambda) are kept as df/dt + f instead of df/dt; see `slope_weights`.
    weights : ndarray, shape (J, R, T)
        Chebyshev coefficients in u of c_r on each interval, where u from -1 to 1 runs through the interval.
    slope_weights : ndarray, shape (J, R, T)
        Those that give the slope in t of a sum: weights of dh/dt = -lambda d h^2 where lambda d is small, and of
        dh/dt + h = h^2 where it is large. Each is small where the likelihood flattens towards that end, so that
        its slope keeps its relative accuracy; a difference of larger numbers would not.
    end_weights, end_slopes : ndarray, shape (R, E)
        Both at the ends, in the form of the interval to the right, padded with zeros to a multiple of 8.
    zero_weights : ndarray, shape (R,)
        c_r at lambda = 0.
    half_log_h : ndarray, shape (J, T)
        Chebyshev coefficients of 1/2 sum ln h_i over all eigenvalues of K.
    half_log_h_slope : ndarray, shape (J, T)
        Those of its derivative in t, plus n/2 where `decays`.
    eigenvalues : ndarray, shape (n,)
        Of K.
    error : float
        Largest relative error with which an h(lambda) is interpolated.
    """

    l_min: float
    l_max: float
    lambdas: F64
    ends: F64
    decays: NDArray[np.bool_]
    weights: F64
    slope_weights: F64
    end_weights: F64
    end_slopes: F64
    zero_weights: F64
    half_log_h: F64
    half_log_h_slope: F64
    eigenvalues: F64
    error: float

    @property
    def points(self) -> F64:
        """ln(lambda) at the T Chebyshev points of each interval, shape (J, T)."""
        return interval_points(self.ends, self.weights.shape[2])

    def series_at_ends(self, series: F64) -> F64:
        """A series at the ends of the intervals, from the interval to the right, padded as `end_weights`."""
        out = np.zeros(self.end_weights.shape[1])
        out[: len(series)] = chebyshev.chebval(-1.0, series.T)
        out[len(series)] = chebyshev.chebval(1.0, series[-1])
        return out

    def locate(self, t: float) -> tuple[int, float]:
        """The interval that holds ln(lambda) = t, and u within it."""
        ends = self.ends
        j = min(max(int(np.searchsorted(ends, t, side="right")) - 1, 0), len(ends) - 2)
        u = (2.0 * t - ends[j] - ends[j + 1]) / (ends[j + 1] - ends[j])
        return j, min(max(u, -1.0), 1.0)


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


def _thin(rows: F64) -> F64:
    """The ends of each stretch of ln(d) of `_SPACING`: h of what lies between follows from theirs, as in a gap."""
    stretch = np.floor(np.log(rows, out=np.full(len(rows), -np.inf), where=rows > 0) / _SPACING)
    new = np.concatenate([[True], np.diff(stretch) > 0])
    return rows[new | np.roll(new, -1)]


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
    rows = _thin(_fill(found, l_max) if has_gaps else found)
    lambdas = choose_nodes(rows, l_min, l_max)
    ends = np.linspace(math.log(l_min), math.log(l_max), n_intervals(l_min, l_max, n_region) + 1)
    terms = n_terms(float(ends[1] - ends[0]))
    sums = _log_h(eigenvalues, ends, terms)
    weights, slope_weights, end_weights, end_slopes, zero_weights = interpolation_weights(
        rows, lambdas, ends, terms, sums[2]
    )
    error = interpolation_error(np.union1d(rows, found), lambdas, ends, weights)
    if not error < 1e-10:
        raise NumericalError(f"nodes for eigenvalues {rows[0]:g} to {rows[-1]:g}: relative error {error:.1e}")
    return Nodes(
        l_min=l_min, l_max=l_max, lambdas=lambdas, ends=ends, decays=sums[2], weights=weights,
        slope_weights=slope_weights, end_weights=end_weights, end_slopes=end_slopes, zero_weights=zero_weights,
        half_log_h=sums[0], half_log_h_slope=sums[1], eigenvalues=eigenvalues, error=error,
    )  # fmt: skip


def _log_h(eigenvalues: F64, ends: F64, terms: int) -> tuple[F64, F64, NDArray[np.bool_]]:
    """`Nodes.half_log_h`, `half_log_h_slope` and `decays`: from where the mean of h is below a half."""
    n_intervals = len(ends) - 1
    values, slopes, decays = np.empty((n_intervals, terms)), np.empty((n_intervals, terms)), np.empty(n_intervals, bool)
    for j, points in enumerate(interval_points(ends, terms)):
        s = np.outer(np.exp(points), eigenvalues)
        h = 1.0 / (s + 1.0)
        values[j] = -0.5 * np.log1p(s).sum(axis=1)
        decays[j] = h[terms // 2].mean() < 0.5
        slopes[j] = 0.5 * h.sum(axis=1) if decays[j] else -0.5 * (s * h).sum(axis=1)
    to_series = chebyshev_matrix(terms)
    return values @ to_series, slopes @ to_series, decays


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
    residual, residual_slope : ndarray, shape (J, T)
        Chebyshev coefficients of y'Py and of its slope, in the form of `Nodes.slope_weights`, on each interval.
    half_log_det, half_log_det_slope : ndarray, shape (J, T)
        Those of 1/2 (ln|Q'H^-1 Q| - ln|Q'Q|) and of its derivative in ln(lambda), plus c/2 where `Nodes.decays`.
    gram : callable
        lambdas (L,) -> Gram matrices of [Q, y] at each, shape (L, c + 1, c + 1).
    """

    nodes: Nodes
    scaling: Scaling
    whitening: F64
    whitened_y: F64
    node_residual: F64
    residual: F64
    residual_slope: F64
    half_log_det: F64
    half_log_det_slope: F64
    gram: Gram

    def null_log_part(self, restricted: bool) -> tuple[F64, F64]:
        """The part of REML or ML that holds neither y nor a variant, and its slope, as series on the intervals."""
        nodes = self.nodes
        if not restricted:
            return nodes.half_log_h, nodes.half_log_h_slope
        return nodes.half_log_h - self.half_log_det, nodes.half_log_h_slope - self.half_log_det_slope


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
    r_factor = np.eye(c) if r_factor is None else r_factor
    scaling = Scaling(n_samples, c, y_mean, y_scale, r_factor, np.zeros(c) if ones is None else ones)
    points = nodes.points
    to_series = chebyshev_matrix(points.shape[1])
    at_points = gram(np.exp(points.ravel()))
    residual = _residual(at_points, _whiten(at_points, c)[1])
    log_det = 0.5 * (_log_det(at_points, c) - _log_det(gram(np.zeros(1)), c)).reshape(points.shape) @ to_series
    sums = gram(nodes.lambdas)
    inverse, whitened_y = _whiten(sums, c)
    node_residual = _residual(sums, whitened_y)
    return PhenotypeTables(
        nodes=nodes, scaling=scaling, whitening=np.ascontiguousarray(inverse.transpose(1, 2, 0)),
        whitened_y=np.ascontiguousarray(whitened_y.T), node_residual=node_residual,
        residual=residual.reshape(points.shape) @ to_series,
        residual_slope=np.einsum("jrt,r->jt", nodes.slope_weights, node_residual), half_log_det=log_det,
        half_log_det_slope=_log_det_slope(nodes, log_det, gram, c), gram=gram,
    )  # fmt: skip


def _whiten(sums: F64, c: int) -> tuple[F64, F64]:
    """L^-1 of the covariates' block of each Gram matrix, shape (l, c, c), and L^-1 Q'H^-1 y, shape (l, c)."""
    inverse = np.linalg.inv(np.linalg.cholesky(sums[:, :c, :c]))
    return np.tril(inverse), np.einsum("lij,lj->li", inverse, sums[:, :c, c])


def _log_det(sums: F64, c: int) -> F64:
    """ln|Q'H^-1 Q| from each Gram matrix."""
    return np.linalg.slogdet(sums[:, :c, :c])[1]


def _log_det_slope(nodes: Nodes, series: F64, gram: Gram, c: int) -> F64:
    """`PhenotypeTables.half_log_det_slope`: the series' derivative, except where lambda d is below 1 for all d.

    There the slope is of the order of lambda, and is taken from a polynomial in lambda itself on [0, 1/d_max], so that
    its rounding error is too.
    """
    half_width = 0.5 * (nodes.ends[1] - nodes.ends[0])
    terms = series.shape[1]
    slopes = np.zeros_like(series)
    slopes[:, :-1] = chebyshev.chebder(series, axis=1) / half_width
    low = np.flatnonzero(np.exp(nodes.ends[1:]) * nodes.eigenvalues.max() <= 1.0)
    if low.size:
        width = 1.0 / nodes.eigenvalues.max() if nodes.eigenvalues.max() > 0 else nodes.l_max
        at = interval_points(np.array([0.0, width]), terms)[0]
        polynomial = chebyshev.Chebyshev(0.5 * _log_det(gram(at), c) @ chebyshev_matrix(terms), domain=[0.0, width])
        lambdas = np.exp(nodes.points[low])
        slopes[low] = (lambdas * polynomial.deriv()(lambdas)) @ chebyshev_matrix(terms)
    slopes[nodes.decays, 0] += 0.5 * c
    return slopes


def _residual(sums: F64, whitened_y: F64) -> F64:
    """y'Py of each Gram matrix."""
    return sums[:, -1, -1] - np.einsum("lk,lk->l", whitened_y, whitened_y)
