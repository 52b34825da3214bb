"""Interpolation of h(lambda) = 1/(lambda d + 1), for many d at once, from a few nodes; see `jamma.lmm.nodes`."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from jamma.lmm.schema import F64

PIVOT_TOLERANCE = 1e-13
_N_CANDIDATES = 401
_RCOND = 1e-15  # of the least squares: below are only other weights with the same sums


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


def h_matrix(d: F64, lambdas: F64) -> F64:
    """h of each eigenvalue and lambda, shape (len(d), len(lambdas))."""
    return 1.0 / (np.outer(d, lambdas) + 1.0)


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


def choose_nodes(rows: F64, l_min: float, l_max: float) -> F64:
    """The nodes for a set of eigenvalues."""
    candidates = np.concatenate([[0.0], np.geomspace(l_min, l_max, _N_CANDIDATES)])
    a = h_matrix(rows, candidates) * np.sqrt(np.maximum(rows, 1.0 / l_max))[:, None]
    a /= np.linalg.norm(a, axis=0)
    if len(rows) > len(candidates):
        a = np.asarray(np.linalg.qr(a, mode="r"))  # the same inner products of columns
    return candidates[_pivots(a, PIVOT_TOLERANCE)]


def interpolation_weights(
    rows: F64, lambdas: F64, ends: F64, terms: int, decays: NDArray[np.bool_]
) -> tuple[F64, F64, F64, F64, F64]:
    """Weights of h and of its slopes, from h at the nodes.

    Parameters
    ----------
    rows : ndarray, shape (d,)
        Eigenvalues.
    lambdas : ndarray, shape (R,)
        Nodes.
    ends : ndarray, shape (J + 1,)
        Ends of the intervals of ln(lambda).
    terms : int
        Chebyshev terms T on each interval.
    decays : ndarray of bool, shape (J,)
        Where the slope is to be dh/dt + h = h^2 instead of dh/dt = -lambda d h^2.

    Returns
    -------
    weights, slope_weights : ndarray, shape (J, R, T)
        Chebyshev coefficients.
    end_weights, end_slopes : ndarray, shape (R, E)
        The same at the ends (of the interval to the right), padded with zeros to a multiple of 8.
    zero_weights : ndarray, shape (R,)
        Those of h at lambda = 0.
    """
    points = np.exp(interval_points(ends, terms))
    n = len(ends) - 1
    at_ends, end_slopes = np.zeros((2, len(lambdas), 8 * math.ceil((n + 1) / 8)))
    values, slopes = np.empty((2, n, len(lambdas), terms))
    for j in range(n):
        scale = 1.0 / h_matrix(rows, np.array([math.exp(0.5 * (ends[j] + ends[j + 1]))]))
        columns = h_matrix(rows, lambdas) * scale
        norms = np.linalg.norm(columns, axis=0)
        q, r = np.linalg.qr(columns / norms)
        at = np.concatenate([points[j], np.exp(ends[j : j + 2]), [0.0]])
        h = h_matrix(rows, at)
        change = h if decays[j] else -np.outer(rows, at) * h
        targets = np.concatenate([h, change * h], axis=1) * scale
        found = np.linalg.lstsq(r, q.T @ targets, rcond=_RCOND)[0] / norms[:, None]
        values[j], slopes[j] = found[:, :terms], found[:, terms + 3 : -3]
        # the next interval overwrites the right end
        at_ends[:, j : j + 2], end_slopes[:, j : j + 2] = found[:, terms : terms + 2], found[:, -3:-1]
        if j == 0:
            zero = found[:, terms + 2]
    to_series = chebyshev_matrix(terms)
    return values @ to_series, slopes @ to_series, at_ends, end_slopes, zero


def interpolation_error(rows: F64, lambdas: F64, ends: F64, weights: F64) -> float:
    """Largest relative error of the interpolated h, between the points where it was fitted."""
    terms = weights.shape[2]
    u = -np.cos(math.pi * np.arange(terms + 1) / terms)
    basis = np.polynomial.chebyshev.chebvander(u, terms - 1).T
    at_nodes, worst = h_matrix(rows, lambdas), 0.0
    for j, w in enumerate(weights):
        t = 0.5 * (ends[j] + ends[j + 1]) + 0.5 * (ends[j + 1] - ends[j]) * u
        worst = max(worst, float(np.abs(at_nodes @ (w @ basis) / h_matrix(rows, np.exp(t)) - 1.0).max()))
    return worst
