"""Tests of Hardy-Weinberg proportions on counts of genotypes: chi-square, and Wigginton's exact test."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]

NEGLIGIBLE = 1e-290  # of a table's probability relative to the likeliest; smaller p-values are 0


def hwe_chi2_p(counts: NDArray[np.int32]) -> F64:
    """P-value of the chi-square test (df 1) of Hardy-Weinberg proportions.

    With n0, n1, n2 individuals with 0, 1, 2 copies, n calls, a = 2 n2 + n1 and b = 2 n0 + n1 copies of the alleles, the
    sum over the three genotypes of (observed - expected)²/expected is n ((4 n0 n2 - n1²) / (a b))².

    Parameters
    ----------
    counts : ndarray of int32, shape (m, 4)

    Returns
    -------
    ndarray of float64, shape (m,)
        1 for a variant with one allele.
    """
    n0, n1, n2 = (counts[:, k].astype(np.float64) for k in range(3))
    both = (2 * n0 + n1) * (2 * n2 + n1)
    f = np.divide(4 * n0 * n2 - n1 * n1, both, out=np.zeros(len(n0)), where=both > 0)
    z = np.abs(f) * np.sqrt((n0 + n1 + n2) / 2)  # chi-square is 2 z², and its tail erfc(z)
    return np.fromiter(map(math.erfc, z.tolist()), np.float64, len(z))


def hwe_exact_below(counts: NDArray[np.int32], threshold: float) -> NDArray[np.bool_]:
    """Whether the exact Hardy-Weinberg p-value is below `threshold`, shape (m,).

    The observed table's own probability P bounds the p-value: it is at least P, and at most P times the number of
    tables that the allele counts allow. Log factorials so settle most variants; the others need `hwe_exact_p`.
    """
    keys = _hwe_keys(counts)
    log_p = _log_table_probability(keys)
    n_tables = keys[:, 1] // 2 + 1
    slack = 1e-7  # of the log factorials' sums, far above their error and without effect on the result
    below = log_p + np.log(n_tables) < math.log(threshold) - slack
    open_ = np.flatnonzero(~below & (log_p < math.log(threshold) + slack))
    below[open_] = hwe_exact_p(counts[open_]) < threshold
    return below


def hwe_exact_p(counts: NDArray[np.int32]) -> F64:
    """Exact p-value of Hardy-Weinberg proportions.

    The probability, given the alleles' counts, of all tables that are no more likely than the one observed.

    Parameters
    ----------
    counts : ndarray of int32, shape (m, 4)

    Returns
    -------
    ndarray of float64, shape (m,)

    References
    ----------
    Wigginton, Cutler, Abecasis (2005), Am J Hum Genet 76:887-893, equations 1 and 2.
    """
    keys, inverse = np.unique(_hwe_keys(counts), axis=0, return_inverse=True)
    return _exact_p_of_keys(keys)[inverse.reshape(-1)]


def _hwe_keys(counts: NDArray[np.int32]) -> NDArray[np.int64]:
    """What the exact test depends on, shape (m, 3): calls, copies of the rarer allele, heterozygotes."""
    n0, n1, n2 = (counts[:, k].astype(np.int64) for k in range(3))
    return np.column_stack([n0 + n1 + n2, 2 * np.minimum(n0, n2) + n1, n1])


def _log_factorials(n: int) -> F64:
    """Logarithms of 0! to n!."""
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])


def _log_table_probability(keys: NDArray[np.int64]) -> F64:
    """Log probability of each table given its allele counts (Wigginton et al., equation 1)."""
    n, rare, het = keys.T
    lf = _log_factorials(2 * int(n.max(initial=0)))
    hom_rare, hom_common = (rare - het) // 2, n - het - (rare - het) // 2
    tables = lf[n] - lf[hom_rare] - lf[het] - lf[hom_common]
    return het * math.log(2) + tables + lf[rare] + lf[2 * n - rare] - lf[2 * n]


def _exact_p_of_keys(keys: NDArray[np.int64]) -> F64:
    """P-values of sorted, distinct keys; those that share n and the rarer allele's count share one distribution."""
    p = np.ones(len(keys))
    if len(keys) == 0:
        return p
    starts = np.flatnonzero(np.r_[True, (keys[1:, :2] != keys[:-1, :2]).any(axis=1)])
    ends = [*starts[1:].tolist(), len(keys)]
    for start, stop in zip(starts.tolist(), ends, strict=True):
        first, probability = _het_distribution(int(keys[start, 0]), int(keys[start, 1]))
        total = probability.sum()
        for row, k in enumerate((keys[start:stop, 2] - first) // 2, start):
            own = probability[k] if 0 <= k < len(probability) else 0.0
            p[row] = min(1.0, probability[probability <= own].sum() / total)
    return p


def _het_distribution(n: int, rare: int) -> tuple[int, F64]:
    """Relative probabilities of h = first, first + 2, ... heterozygotes.

    P(h + 2)/P(h) = 4 r c / ((h + 1)(h + 2)) with r and c homozygotes of the two alleles at h heterozygotes. The
    recurrence starts near the mode and stops in both directions where nothing is left that a float64 holds.
    """
    middle = rare * (2 * n - rare) // (2 * n) if n else 0
    middle = min(rare, middle + (middle - rare) % 2)

    def ratio(het: F64) -> F64:
        hom_rare = (rare - het) / 2
        return 4 * hom_rare * (n - het - hom_rare) / ((het + 1) * (het + 2))

    up = _products(lambda k: ratio(middle + 2 * k), (rare - middle) // 2)
    down = _products(lambda k: 1 / ratio(middle - 2 - 2 * k), middle // 2)
    return middle - 2 * len(down), np.concatenate([down[::-1], [1.0], up])


def _products(factor: Callable[[F64], F64], n: int, block: int = 512) -> F64:
    """Running products of factor(0), factor(1), ..., n of them or until they are negligible."""
    parts: list[F64] = [np.empty(0)]
    last = 1.0
    for start in range(0, n, block):
        k = np.arange(start, min(start + block, n), dtype=np.float64)
        products: F64 = last * np.cumprod(factor(k), dtype=np.float64)
        parts.append(products)
        last = float(products[-1])
        if last < NEGLIGIBLE:
            break
    return np.concatenate(parts)
