"""What a Manhattan and a QQ plot show, as numbers: places along the genome, thinned points, quantiles, lambda_GC."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from jamma.core.errors import InputError, UsageError
from jamma.io.results import Names, column_names, read_blocks

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

P_COLUMNS = ("p_wald", "p_lrt", "p_score", "p_value", "neg_log10_p")
GRID = (1600, 700)  # cells across and up
MANY = 20_000  # more points than this become an image inside an SVG or PDF
NAMED_PER_BLOCK = 200  # lowest p-values of a block whose variants' names are kept
SMALLEST = 5e-324
SEX_AND_OTHER = {"X": 0, "Y": 1, "XY": 2, "PAR1": 2, "PAR2": 3, "MT": 4, "M": 4}
MEDIAN_CHI2 = 0.45493642311957283  # of 1 degree of freedom


@dataclass
class Points:
    """The variants of a result that have a p-value: number of the chromosome (in `chromosomes`), place, -log10 p."""

    chromosomes: list[str]
    code: NDArray[np.int32]
    ps: F64
    y: F64
    names: dict[int, str]
    n_without: int
    n_zero: int
    n_unplaced: int = 0


def chromosome_key(name: str) -> tuple[int, tuple[tuple[int, int, str], ...]]:
    """Sorts chromosomes as people do: 1, 2, 10, then X, Y, XY, MT, then other names, and 0 (unplaced) last."""
    short = name[3:] if name[:3].lower() == "chr" else name
    parts = tuple((0, int(t), "") if t.isdecimal() else (1, 0, t) for t in re.findall(r"\d+|\D+", short))
    if short in ("0", "", "-9", "NA"):
        return 3, parts
    if short.isdecimal():
        return 0, parts
    if short.upper() in SEX_AND_OTHER:
        return 1, ((0, SEX_AND_OTHER[short.upper()], short),)
    return 2, parts


def choose_column(path: str | os.PathLike[str], column: str | None = None) -> tuple[str, bool]:
    """The column to plot, and whether it holds -log10 of the p-value.

    Raises
    ------
    UsageError
        The file has no such column.
    """
    names = column_names(path)
    present = [name for name in P_COLUMNS if name in names]
    if column is None:
        if not present:
            raise UsageError(f"{path}: no column of p-values ({', '.join(P_COLUMNS)}); name one with --column")
        column = present[0]
    if column not in names:
        raise UsageError(f"{path}: no column {column}; it has {', '.join(names)}")
    # neg_log10_p belongs to the first p-value and is exact where that underflows
    if "neg_log10_p" in names and present and column == present[0]:
        return "neg_log10_p", True
    return column, column == "neg_log10_p"


def read_points(path: str | os.PathLike[str], column: str, is_log: bool, n_threads: int = 1) -> Points:
    """The variants of a result file, ready to draw.

    Raises
    ------
    InputError
        The file cannot be read, or no row has a p-value between 0 and 1.
    """
    numbers: dict[str, int] = {}
    parts: list[tuple[NDArray[np.int32], F64, F64]] = []
    names: dict[int, str] = {}
    n_kept = n_rows = n_zero = 0
    wanted = ["chr", "rs", "ps", column] if "rs" in column_names(path) else ["chr", "ps", column]
    for block in read_blocks(path, wanted, n_threads):
        chrom, ps, p = block["chr"], block["ps"], block[column]
        assert isinstance(chrom, Names)
        assert not isinstance(p, Names)
        assert not isinstance(ps, Names)
        first, texts = chrom.runs()
        codes = np.array([numbers.setdefault(t, len(numbers)) for t in texts], dtype=np.int32)
        code = np.repeat(codes, np.diff(np.append(first, len(p))))
        good = np.isfinite(p) & ((p >= 0) if is_log else (p >= 0) & (p <= 1))
        n_rows += len(p)
        if not is_log:
            zero = good & (p == 0)
            n_zero += int(zero.sum())
            y = -np.log10(np.where(good, np.maximum(p, SMALLEST), 1.0))
        else:
            y = p
        if isinstance(block.get("rs"), Names) and len(y):
            lowest = np.argpartition(np.where(good, -y, 1.0), min(NAMED_PER_BLOCK, len(y) - 1))[:NAMED_PER_BLOCK]
            lowest = np.sort(lowest[good[lowest]])
            place = n_kept + np.cumsum(good)[lowest] - 1
            names.update(zip(place.tolist(), block["rs"][lowest], strict=True))
        parts.append((code[good], ps[good], y[good]))
        n_kept += len(parts[-1][0])
    if n_kept == 0:
        raise InputError(f"{path}: none of its {n_rows} rows has a number from 0 to 1 in {column}")
    code, ps, y = (np.concatenate([part[k] for part in parts]) for k in range(3))
    order = sorted(numbers, key=chromosome_key)
    rank = np.empty(len(order), dtype=np.int32)
    rank[[numbers[name] for name in order]] = np.arange(len(order), dtype=np.int32)
    code = rank[code]
    ps, n_unplaced = fill_positions(code, ps)
    return Points(order, code, ps, y, names, n_rows - n_kept, n_zero, n_unplaced)


def fill_positions(code: NDArray[np.int32], ps: F64) -> tuple[F64, int]:
    """Positions in which each unknown one (below 1) lies between its neighbours in file order.

    Maps that have no position for a variant still list it in map order. On a chromosome without any position the
    variants are a unit apart.

    Returns
    -------
    ndarray of float64
    int
        How many were unknown.
    """
    unknown = ~(ps > 0)
    if not unknown.any():
        return ps, 0
    ps = ps.copy()
    order = np.argsort(code, kind="stable")
    edges = np.searchsorted(code[order], np.arange(int(code.max()) + 2))
    for first, last in pairwise(edges):
        rows = order[first:last]
        lost = unknown[rows]
        if lost.all():
            ps[rows] = np.arange(1, len(rows) + 1)
        elif lost.any():
            place = np.arange(len(rows))
            ps[rows[lost]] = np.interp(place[lost], place[~lost], ps[rows[~lost]])
    return ps, int(unknown.sum())


def genome_positions(points: Points) -> tuple[F64, F64]:
    """Where each variant is along the axis, and where each chromosome begins (and, last, the end).

    Chromosomes are as long as their variants reach, with a gap between two.
    """
    n = len(points.chromosomes)
    low, high = np.full(n, np.inf), np.full(n, -np.inf)
    np.minimum.at(low, points.code, points.ps)
    np.maximum.at(high, points.code, points.ps)
    length = np.where(high >= low, high - low, 0.0)
    gap = max(length.sum() * 0.01, 1.0) / math.sqrt(max(n, 1))
    starts = np.concatenate([[0.0], np.cumsum(length + gap)])
    return (starts[:-1] - low)[points.code] + points.ps, starts


def thin(x: F64, y: F64, top: float, grid: tuple[int, int] = GRID) -> I64:
    """One variant of each cell of a grid over [min x, max x] × [0, top], the one with the lowest p-value first.

    Returns
    -------
    ndarray of int64
        Their numbers, ascending. Every cell that holds a variant keeps one of its own.
    """
    if len(x) <= MANY:
        return np.arange(len(x), dtype=np.int64)
    span = max(float(np.ptp(x)), 1e-300)
    cell = ((x - x.min()) * ((grid[0] - 1) / span)).astype(np.int64) * grid[1]
    cell += np.minimum(y * ((grid[1] - 1) / top), grid[1] - 1).astype(np.int64)
    kept = np.full(grid[0] * grid[1], -1, dtype=np.int64)
    kept[cell] = np.arange(len(x))
    return np.sort(kept[kept >= 0])


def lambda_gc(y: F64) -> float:
    """Genomic control: the median chi-square (1 degree of freedom) over its expectation, from -log10 p-values."""
    p = 10.0 ** -float(np.median(y))
    return NormalDist().inv_cdf(max(p, SMALLEST) / 2) ** 2 / MEDIAN_CHI2 if p < 1 else 0.0


def order_statistic_quantile(rank: int, n: int, q: float) -> float:
    """Quantile q of the rank-th smallest of n uniform variables, which is Beta(rank, n + 1 - rank).

    Up to rank 40 by bisection of P(Binomial(n, x) >= rank); above it and in the upper half (by symmetry) by the
    normal approximation to the cube root of the underlying F variable (Paulson), good to 1e-3 there.
    """
    a, b = rank, n + 1 - rank
    if b < a:
        return 1 - order_statistic_quantile(b, n, 1 - q)
    if a > 40:
        z = NormalDist().inv_cdf(q)
        u, v = 1 - 1 / (9 * a), 1 - 1 / (9 * b)
        s, t = 1 / (9 * a), 1 / (9 * b)
        # the root w of (v w - u)^2 = z^2 (t w^2 + s) on the side of z; F = w^3 with (2a, 2b) degrees of freedom
        root = math.sqrt(max(u * u * t + v * v * s - z * z * s * t, 0.0))
        w = (u * v + z * root) / (v * v - z * z * t)
        f = w**3
        return a * f / (a * f + b)
    low, high = 0.0, 1.0
    logs = [math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in range(a)]
    for _ in range(100):
        x = (low + high) / 2
        below = sum(math.exp(c + k * math.log(x) + (n - k) * math.log1p(-x)) for k, c in enumerate(logs))
        low, high = (x, high) if 1 - below < q else (low, x)
    return (low + high) / 2


def qq_points(y: F64) -> tuple[F64, F64, F64, F64]:
    """Expected and observed -log10 p, lowest p-value first, and the 95% band of each rank; ranks thinned.

    The i-th smallest of n p-values is compared with its median under the null, about (i - 1/3) / (n + 1/3).
    """
    n = len(y)
    ordered = np.sort(y)[::-1]
    ranks = np.arange(1, n + 1)
    if n > 3000:
        ranks = np.unique(np.concatenate([ranks[:1000], np.geomspace(1000, n, 2000).astype(np.int64)]))
    expected = -np.log10((ranks - 1 / 3) / (n + 1 / 3))
    knots = np.unique(np.geomspace(1, n, min(n, 120)).astype(np.int64))
    at = -np.log10((knots - 1 / 3) / (n + 1 / 3))
    low, high = (
        np.interp(expected[::-1], at[::-1],
                  [-math.log10(order_statistic_quantile(int(k), n, q)) for k in knots[::-1]])[::-1]
        for q in (0.975, 0.025)
    )  # fmt: skip
    return expected, ordered[ranks - 1], low, high


def lead_variants(points: Points, threshold_y: float) -> list[int]:
    """The variant with the lowest p-value of each chromosome that has one beyond the threshold, lowest first."""
    passing = np.flatnonzero(points.y > threshold_y)
    best: dict[int, int] = {}
    for i in passing[np.argsort(-points.y[passing], kind="stable")].tolist():
        best.setdefault(int(points.code[i]), i)
    return list(best.values())
