"""The search for lambda and the tests of variants; the mathematics is that of jamma/_core/simd/likelihood.c."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev, legendre
from numpy.typing import NDArray

from jamma.lmm.null_model import PERFECT_FIT
from jamma.lmm.reference import COLLINEAR, NEAR
from jamma.lmm.schema import F64, STATISTICS
from jamma.lmm.search import FLAT, REASON_COLLINEAR, REASON_NOT_FINITE, REASON_PERFECT_FIT, Likelihood, maximise
from jamma.lmm.tails import LN_10, chi2_1_tail, f_tail

_BLOCK = 256  # variants whose series are held at a time


def _combine(sums: F64, table: F64) -> F64:
    """Sums at the nodes (k, R) times a table (R, ...), added in the order of the nodes: a variant's own affair."""
    total = np.zeros((len(sums), *table.shape[1:]))
    for column, row in zip(sums.T, table, strict=True):
        total += column.reshape(-1, *[1] * row.ndim) * row
    return total


class Series:
    """a = x'Px, b = x'Py, e = y'Py and their slopes of some variants as Chebyshev series, each of shape (k, J, T).

    `shift` (k,) is the effect taken out of y: 0, or the estimate at one node where x explains more than half of y.
    """

    def __init__(self, search: Search, a: F64, b: F64):
        self.search = search
        tables, node = search.arrays, search.numbers["shift_node"]
        e = np.broadcast_to(tables["node_residual"], a.shape)
        beta = b[:, node] / a[:, node]
        self.shift = np.where(b[:, node] * beta > 0.5 * e[:, node], beta, 0.0)
        strong, beta = self.shift != 0.0, self.shift[:, None]
        shifted = b - beta * a
        e, b = e - beta * b - beta * shifted, np.where(strong[:, None], shifted, b)
        values, slopes = (np.swapaxes(tables[name], 0, 1) for name in ("weights", "slope_weights"))
        self.values = [_combine(sums, values) for sums in (a, b, e)]
        self.slopes = [_combine(sums, slopes) for sums in (a, b, e)]
        self.values[2][~strong] = tables["residual"]
        self.slopes[2][~strong] = tables["residual_slope"]

    def at(self, t: F64, which: NDArray[np.int64]) -> tuple[list[F64], list[F64], list[F64], F64, NDArray[Any]]:
        """a, b, e; their slopes; the slopes' derivatives; the Chebyshev polynomials; the interval, all at t."""
        ends = self.search.arrays["ends"]
        t = np.broadcast_to(t, which.shape)
        j = np.clip(np.searchsorted(ends, t, side="right") - 1, 0, len(ends) - 2)
        u = np.clip((2.0 * t - ends[j] - ends[j + 1]) / (ends[j + 1] - ends[j]), -1.0, 1.0)
        basis: F64 = chebyshev.chebvander(u, self.search.n_terms - 1).astype(np.float64)
        values = [(series[which, j] * basis).sum(axis=1) for series in self.values]
        slopes = [(series[which, j] * basis).sum(axis=1) for series in self.slopes]
        derivative = self.search.derivative(basis)
        return values, slopes, [(series[which, j] * derivative).sum(axis=1) for series in self.slopes], basis, j

    def likelihood(self, restricted: bool) -> Likelihood:
        """REML or ML without their constants, with derivatives in t = ln(lambda)."""
        numbers, tables = self.search.numbers, self.search.arrays
        name, half, half_df = (
            ("log_reml", 0.5, 0.5 * numbers["df"]) if restricted else ("log_ml", 0.0, 0.5 * numbers["n"])
        )
        unit = 1.0 if restricted else numbers["null_residual"]

        def evaluate(t: F64, which: NDArray[np.int64]) -> tuple[F64, F64, F64]:
            (a, b, e), (a1, b1, e1), (a2, b2, e2), basis, j = self.at(t, which)
            log_part, log_slope = tables[name][j], tables[f"{name}_slope"][j]
            decay, beta = tables["decays"][j], b / a
            turn, r = b1 - beta * a1, e - beta * b
            r1 = e1 - beta * (b1 + turn)
            r2 = e2 - beta * (2.0 * b2 - beta * a2) - 2.0 * turn * turn / a
            in_a, in_r = a1 / a, r1 / r
            value = (log_part * basis).sum(axis=1) - half * np.log(a) - half_df * np.log(r / unit)
            slope = (log_slope * basis).sum(axis=1) - half * in_a - half_df * in_r
            curvature = (log_slope * self.search.derivative(basis)).sum(axis=1)
            curvature -= half * (a2 / a - in_a * (in_a - decay)) + half_df * (r2 / r - in_r * (in_r - decay))
            return value, slope, curvature

        return evaluate

    def maximum(self, restricted: bool) -> tuple[F64, F64]:
        """lambda and the log-likelihood there."""
        s = self.search
        numbers, n_intervals = s.numbers, len(s.arrays["ends"]) - 1
        return maximise(
            self.likelihood(restricted), len(self.shift), numbers["l_min"], numbers["l_max"], FLAT * numbers["n"],
            n_intervals,
        )  # fmt: skip


class Search:
    """The tables of one phenotype; made by `jamma.lmm.search.make_search`."""

    def __init__(
        self, n_nodes: int, n_cvt: int, n_intervals: int, n_terms: int, numbers: dict[str, Any], arrays: dict[str, F64]
    ):
        self.n_terms, self.numbers, self.arrays = n_terms, numbers, arrays
        ends = arrays["ends"]
        self._derivative = chebyshev.chebder(np.eye(n_terms)) * (2.0 / (ends[1] - ends[0]))

    def derivative(self, basis: F64) -> F64:
        """The derivatives in t of Chebyshev polynomials given by their values, shape (k, T)."""
        return _combine(basis[:, :-1], self._derivative)

    def fit(self, xx: F64, xq: F64, xy: F64, mode: int, n_threads: int = 1) -> tuple[F64, F64, NDArray[np.uint8]]:
        """Statistics (columns of the mode, k), -log10 of the first p (k,), and why a variant was not tested (k,)."""
        k = len(xx)
        statistics, neg_log10_p = np.full((len(STATISTICS[mode]), k), np.nan), np.full(k, np.nan)
        reason = np.zeros(k, dtype=np.uint8)
        for start in range(0, k, _BLOCK):
            at = slice(start, min(start + _BLOCK, k))
            a, b, reason[at] = self._project(xx[at], xq[at], xy[at])
            rows = start + np.flatnonzero(reason[at] == 0)
            if not rows.size:
                continue
            with np.errstate(all="ignore"):
                columns, log_p = self._test(a[rows - start], b[rows - start], mode)
            bad = ~np.isfinite(np.vstack([*columns, log_p])).all(axis=0)
            reason[rows[bad]] = REASON_NOT_FINITE
            statistics[:, rows[~bad]] = np.stack(columns)[:, ~bad]
            neg_log10_p[rows[~bad]] = 0.0 - log_p[~bad] / LN_10
        return statistics, neg_log10_p, reason

    def _project(self, xx: F64, xq: F64, xy: F64) -> tuple[F64, F64, NDArray[np.int64]]:
        """x'Px and x'Py at the nodes, shape (k, R), and why a variant cannot be tested."""
        with np.errstate(all="ignore"):
            z = np.einsum("ilr,klr->kir", self.arrays["whitening"], xq)
            a = xx - (z * z).sum(axis=1)
            b = xy - (z * self.arrays["whitened_y"]).sum(axis=1)
            e = self.arrays["node_residual"][0]
            finite = np.isfinite(xx[:, 0]) & np.isfinite(a).all(axis=1) & np.isfinite(b).all(axis=1)
            collinear = ~(a[:, 0] > COLLINEAR * xx[:, 0])
            perfect = ~(e - b[:, 0] * (b[:, 0] / a[:, 0]) > PERFECT_FIT * e)
        reasons = [REASON_NOT_FINITE, REASON_COLLINEAR, REASON_PERFECT_FIT]
        return a, b, np.select([~finite, collinear, perfect], reasons, 0)

    def _test(self, a: F64, b: F64, mode: int) -> tuple[list[F64], F64]:
        """The mode's columns, and the logarithm of the first p-value."""
        found, first = {}, {}
        series = None if mode == 3 else Series(self, a, b)
        if mode in (3, 4):
            found["beta"], found["se"], found["p_score"], first[3] = self._score(a, b)
        if series is not None and mode in (2, 4):
            found["l_mle"], found["logl_H1"], lrt = self._likelihood_ratio(series, a, b)
            found["p_lrt"], first[2] = chi2_1_tail(lrt)
        if series is not None and mode in (1, 4):
            found["beta"], found["se"], found["l_remle"], logl, f = self._wald(series, a)
            found.setdefault("logl_H1", logl)  # mode 4 prints that of ML
            found["p_wald"], first[1] = f_tail(f, self.numbers["df"])
        return [found[name] for name in STATISTICS[mode]], first[1 if mode == 4 else mode]

    def _at_null(self, sums: F64) -> F64:
        """Sums at the null model's ML lambda."""
        return (sums * self.arrays["score_weights"]).sum(axis=1)

    def _score(self, a: F64, b: F64) -> tuple[F64, F64, F64, F64]:
        """beta, se, p and its logarithm of the score test."""
        a, b = self._at_null(a), self._at_null(b)
        residual, df, scale = (self.numbers[name] for name in ("score_residual", "df", "scale"))
        beta = b / a
        se = np.sqrt((residual - b * beta) / df / a)
        return beta * scale, se * scale, *f_tail(self.numbers["n"] * (b * beta) / residual, df)

    def _wald(self, series: Series, a: F64) -> tuple[F64, F64, F64, F64, F64]:
        """beta, se, lambda, log-likelihood and F at the REML optimum."""
        numbers, everyone = self.numbers, np.arange(len(a))
        lambda_, logl = series.maximum(restricted=True)
        (at_a, at_b, at_e), *_ = series.at(np.log(lambda_), everyone)
        r = at_e - at_b * (at_b / at_a)
        beta = series.shift + at_b / at_a
        logl = logl + numbers["constant_reml"] + 0.5 * np.log((a * self.arrays["zero_weights"]).sum(axis=1))
        se = np.sqrt(r / numbers["df"] / at_a) * numbers["scale"]
        return beta * numbers["scale"], se, lambda_, logl, beta * beta * at_a * numbers["df"] / r

    def _likelihood_ratio(self, series: Series, a: F64, b: F64) -> tuple[F64, F64, F64]:
        """lambda, log-likelihood and the statistic at the ML optimum.

        Near the null model's optimum the statistic is integrated from there, as the extension does.
        """
        numbers, ends = self.numbers, self.arrays["ends"]
        lambda_, value = series.maximum(restricted=False)
        t0, t1 = numbers["start_ml"], np.log(lambda_)
        near = np.flatnonzero((series.shift == 0.0) & (np.abs(t1 - t0) < NEAR))
        low, high = np.minimum(t0, t1[near]), np.maximum(t0, t1[near])
        likelihood, gain = series.likelihood(restricted=False), np.zeros(len(near))
        for left, right in pairwise(ends):
            begin, stop = np.maximum(low, left), np.minimum(high, right)
            inside = np.flatnonzero(stop > begin)
            middle, half = 0.5 * (begin + stop)[inside], 0.5 * (stop - begin)[inside]
            for point, weight in zip(*legendre.leggauss(4), strict=True):
                gain[inside] += weight * half * likelihood(middle + point * half, near[inside])[1]
        at_a, at_b = self._at_null(a)[near], self._at_null(b)[near]
        explained = -numbers["n"] * np.log1p(-at_b * (at_b / at_a) / numbers["score_residual"])
        ratio = 2.0 * value
        ratio[near] = 2.0 * np.where(t1[near] < t0, -gain, gain) + explained
        return lambda_, numbers["null_logl"] + value, np.fmax(ratio, 0.0)
