"""Tests of Hardy-Weinberg proportions, against SciPy and against exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from jamma.hwe import hwe_chi2_p, hwe_exact_below, hwe_exact_p


def counts(*rows):
    return np.array([[*row, 7] for row in rows], np.int32)


def exact_p(n0: int, n1: int, n2: int) -> Fraction:
    """Wigginton et al. (2005), equations 1 and 2, in rational numbers."""
    n, rare = n0 + n1 + n2, 2 * min(n0, n2) + n1

    def weight(het: int) -> int:
        r, c = (rare - het) // 2, n - het - (rare - het) // 2
        return 2**het * math.factorial(n) // (math.factorial(r) * math.factorial(het) * math.factorial(c))

    weights = [weight(het) for het in range(rare % 2, rare + 1, 2)]
    return Fraction(sum(w for w in weights if w <= weight(n1)), sum(weights))


TABLES = [
    (0, 0, 5),
    (5, 0, 0),
    (0, 5, 0),
    (1, 0, 0),
    (3, 0, 3),
    (10, 8, 1),
    (57, 14, 50),
    (0, 1, 99),
    (1, 2, 97),
    (20, 60, 20),
]


@pytest.mark.parametrize("table", TABLES)
def test_exact(table):
    assert hwe_exact_p(counts(table))[0] == pytest.approx(float(exact_p(*table)), rel=1e-12)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 60)] * 3).filter(any), min_size=1, max_size=12), st.floats(1e-6, 1.0))
def test_exact_of_any_table(tables, threshold):
    p = hwe_exact_p(counts(*tables))
    np.testing.assert_allclose(p, [float(exact_p(*t)) for t in tables], rtol=1e-11)
    np.testing.assert_array_equal(hwe_exact_below(counts(*tables), threshold), p < threshold)
    np.testing.assert_array_equal(p, hwe_exact_p(counts(*[t[::-1] for t in tables])))


def test_exact_of_large_cohorts():
    n = 500_000  # GEMMA's own integers overflow above 46,000 individuals
    q = np.array([0.5, 0.1, 1e-3])
    ideal = np.column_stack([n * (1 - q) ** 2, 2 * n * q * (1 - q), n * q**2]).round().astype(int)
    assert (hwe_exact_p(counts(*ideal)) > 0.9).all()
    skewed = [(90_000, 300_000, 110_000), (250_000, 0, 250_000), (400_000, 100_000, 0)]
    p = hwe_exact_p(counts(*skewed))
    assert (p < 1e-300).all()
    near = [(125_000 + k, 250_000 - 2 * k, 125_000 + k) for k in (500, 1000)]
    np.testing.assert_allclose(hwe_exact_p(counts(*near)), hwe_chi2_p(counts(*near)), rtol=0.02)


def test_nothing_called():
    assert hwe_exact_p(counts((0, 0, 0))).tolist() == [1]
    assert hwe_chi2_p(counts((0, 0, 0))).tolist() == [1]
    assert hwe_exact_p(np.empty((0, 4), np.int32)).shape == (0,)
    assert hwe_exact_below(np.empty((0, 4), np.int32), 0.1).shape == (0,)


@settings(max_examples=100, deadline=None)
@given(st.tuples(*[st.integers(0, 3000)] * 3).filter(any))
def test_chi2_against_scipy(table):
    _, n1, n2 = table
    n, a = sum(table), 2 * n2 + n1
    q = a / (2 * n)
    expected = n * np.array([(1 - q) ** 2, 2 * q * (1 - q), q**2])
    if a in (0, 2 * n):
        assert hwe_chi2_p(counts(table))[0] == 1
        return
    statistic = ((np.array(table) - expected) ** 2 / expected).sum()
    assert hwe_chi2_p(counts(table))[0] == pytest.approx(stats.chi2.sf(statistic, 1), rel=1e-9, abs=1e-300)
