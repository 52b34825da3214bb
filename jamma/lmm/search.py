"""The global maximum of likelihoods in lambda: of any function in NumPy, of variants from their sums by the kernel."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from jamma.lmm.schema import F64, STATISTICS, NullModel

if TYPE_CHECKING:
    from jamma._core.likelihood import Search
    from jamma.lmm.nodes import PhenotypeTables

#: (ln(lambda) of each, which) -> log-likelihood, first and second derivative in ln(lambda).
Likelihood = Callable[[F64, NDArray[np.int64]], tuple[F64, F64, F64]]

# Slopes in ln(lambda) per sample that are rounding error: a likelihood with no larger ones is flat.
FLAT = 1e-11
TOLERANCE = 1e-8  # of the last Newton step in ln(lambda); the step is applied, so the error left is its square
MAX_STEPS = 100
_WIDEST_INTERVAL = 2.6
REASON_OK, REASON_COLLINEAR, REASON_PERFECT_FIT, REASON_NOT_FINITE = 0, 1, 2, 3
#: Why the statistics of a variant are nan, by the code in `AssocChunk.reason`.
REASONS: dict[int, str] = {
    REASON_OK: "tested",
    REASON_COLLINEAR: "genotype is constant or explained by the covariates",
    REASON_PERFECT_FIT: "genotype and covariates explain the phenotype perfectly",
    REASON_NOT_FINITE: "a statistic is not finite",
}


def n_intervals(l_min: float, l_max: float, n_region: int = 10) -> int:
    """`n_region` (GEMMA's default is 10), or the multiple of it that keeps an interval of ln(lambda) below 2.6."""
    return n_region * math.ceil(math.log(l_max / l_min) / (n_region * _WIDEST_INTERVAL))


def _polish(f: Likelihood, which: NDArray[np.int64], lo: F64, hi: F64) -> F64:
    """Root of the derivative, falling from + at `lo` to - at `hi`, by Newton's method inside its bracket."""
    lo, hi = lo.copy(), hi.copy()
    t = 0.5 * (lo + hi)
    active = np.arange(len(t))
    for _ in range(MAX_STEPS):
        here = t[active]
        _, slope, curvature = f(here, which[active])
        rising = slope > 0
        lo[active] = np.where(rising, here, lo[active])
        hi[active] = np.where(rising, hi[active], here)
        newton = here - slope / np.where(curvature < 0, curvature, -np.inf)
        inside = (curvature < 0) & (newton > lo[active]) & (newton < hi[active])
        middle = 0.5 * (lo[active] + hi[active])
        new = np.where((curvature < 0) & (np.abs(newton - here) < TOLERANCE), newton, np.where(inside, newton, middle))
        t[active] = new
        active = active[np.abs(new - here) >= TOLERANCE]
        if not active.size:
            break
    return t


def maximise(
    f: Likelihood, k: int, l_min: float, l_max: float, flat_slope: float, n_region: int = 10
) -> tuple[F64, F64]:
    """Global maximum of `k` likelihoods over [l_min, l_max], flat where no slope at the 11 ends exceeds `flat_slope`.

    Returns
    -------
    lambda_, logl : ndarray, shape (k,)
        The best of both bounds and every polished maximum, and the log-likelihood there. A likelihood that is flat
        to rounding error has its maximum at l_min.
    """
    ends = np.linspace(math.log(l_min), math.log(l_max), n_intervals(l_min, l_max, n_region) + 1)
    everyone = np.arange(k)
    at_ends = [f(np.array([end]), everyone) for end in ends]
    best_t, best = np.full(k, ends[0]), at_ends[0][0]
    candidates = [(everyone, np.full(k, ends[-1]), at_ends[-1][0])]
    for j in range(len(ends) - 1):
        which = np.flatnonzero((at_ends[j][1] > 0) & (at_ends[j + 1][1] <= 0))
        if which.size:
            t = _polish(f, which, np.full(which.size, ends[j]), np.full(which.size, ends[j + 1]))
            candidates.append((which, t, f(t, which)[0]))
    flat = np.max([np.abs(slope) for _, slope, _ in at_ends], axis=0) <= flat_slope
    for which, t, logl in candidates:
        better = (logl > best[which]) & ~flat[which]
        best_t[which[better]] = t[better]
        best[which[better]] = logl[better]
    lambda_ = np.select([best_t == ends[0], best_t == ends[-1]], [l_min, l_max], np.exp(best_t))
    return lambda_, best


def fit_variants(
    tables: PhenotypeTables, null: NullModel, xx: F64, xq: F64, xy: F64, mode: int, n_threads: int = 1
) -> tuple[dict[str, F64], F64, NDArray[np.uint8]]:
    """Test variants from their sums at the nodes.

    Parameters
    ----------
    tables : PhenotypeTables
        Of the phenotype.
    null : NullModel
        Of the same phenotype (`jamma.lmm.null_model.fit_null_model`).
    xx : ndarray of float64, shape (k, R)
        x'(lambda_r K + I)^-1 x of each variant.
    xq : ndarray of float64, shape (k, c, R)
        The same sums with the covariates' basis Q; a variant's are contiguous.
    xy : ndarray of float64, shape (k, R)
        The same with the centred, scaled phenotype.
    mode : {1, 2, 3, 4}
        Wald, likelihood ratio, score, all three.
    n_threads : int

    Returns
    -------
    statistics : dict of ndarray of float64, shape (k,)
        The mode's columns (`jamma.lmm.schema.STATISTICS`) on the scale of the phenotype as given.
    neg_log10_p : ndarray of float64, shape (k,)
        -log10 of the mode's first p-value (Wald, likelihood ratio, score), finite where p underflows.
    reason : ndarray of uint8, shape (k,)
        0 for a tested variant, else a key of `REASONS`, and its statistics are nan.
    """
    rows, neg_log10_p, reason = make_search(tables, null).fit(xx, xq, xy, mode, n_threads)
    return dict(zip(STATISTICS[mode], rows, strict=True)), neg_log10_p, reason


def make_search(tables: PhenotypeTables, null: NullModel) -> Search:
    """The kernel's form of a phenotype's tables."""
    from jamma._core.likelihood import Search

    nodes, scaling = tables.nodes, tables.scaling
    n, df = scaling.n_samples, scaling.n_samples - scaling.n_cvt - 1
    j, u = nodes.locate(math.log(null.lambda_mle))
    null_log_ml, null_residual = (
        float(chebyshev.chebval(u, series[j])) for series in (nodes.half_log_h, tables.residual)
    )
    log_ml = nodes.half_log_h.copy()
    log_ml[:, 0] -= null_log_ml
    log_reml, log_reml_slope = tables.null_log_part(restricted=True)
    basis = chebyshev.chebvander(np.array([u]), nodes.weights.shape[2] - 1)[0]
    numbers = {
        "n": n, "df": df, "scale": scaling.scale, "l_min": nodes.l_min, "l_max": nodes.l_max,
        "start_reml": math.log(null.lambda_remle), "start_ml": math.log(null.lambda_mle),
        "constant_reml": 0.5 * df * (math.log(df / (2.0 * math.pi)) - 1.0) - df * math.log(scaling.scale),
        "null_logl": null.logl_mle, "null_residual": null_residual, "score_residual": null_residual,
        "shift_node": int(np.abs(nodes.lambdas - null.lambda_mle).argmin()),
    }  # fmt: skip
    pairs = (
        (tables.residual, tables.residual_slope), (log_reml, log_reml_slope), (log_ml, nodes.half_log_h_slope),
    )  # fmt: skip
    arrays = {
        "ends": nodes.ends, "decays": nodes.decays, "weights": nodes.weights, "slope_weights": nodes.slope_weights,
        "end_weights": nodes.end_weights, "end_slopes": nodes.end_slopes, "zero_weights": nodes.zero_weights,
        "score_weights": nodes.weights[j] @ basis, "whitening": tables.whitening, "whitened_y": tables.whitened_y,
        "node_residual": tables.node_residual, "residual": tables.residual, "residual_slope": tables.residual_slope,
        "log_reml": log_reml, "log_reml_slope": log_reml_slope,
        "log_ml": log_ml, "log_ml_slope": nodes.half_log_h_slope,
        "end_values": np.stack([nodes.series_at_ends(series) for pair in pairs for series in pair]),
    }  # fmt: skip
    return Search(len(nodes.lambdas), scaling.n_cvt, len(nodes.ends) - 1, nodes.weights.shape[2], numbers, arrays)
