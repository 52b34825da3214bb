"""Tails of F(1, df) and chi-square(1): compiled and NumPy forms against mpmath and SciPy."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from scipy import special, stats

from jamma._core import distributions
from jamma.lmm import tails

DFS = (1.0, 2.0, 3.0, 7.0, 50.0, 1408.0, 30_000.5, 1e6)


def exact_f_tail(f: float, df: float) -> tuple[mp.mpf, mp.mpf]:
    """P(F > f) and its logarithm to 40 digits, by one of two series with positive terms (not the code's fraction).

    I_w(1/2, a) = 2 w^(1/2) (1-w)^a / B 2F1(a + 1/2, 1; 3/2; w), I_x(a, 1/2) = x^a (1-x)^(1/2) / (a B)
    2F1(a + 1/2, 1; a + 1; x): the first where w is small (with as many digits more as 1 - I_w loses), else the second.
    """
    near = f < 0.01 * df
    with mp.workdps(45 + int(0.25 * f) if near else 45):
        half, f, df = mp.mpf(1) / 2, mp.mpf(f), mp.mpf(df)
        a, w, x = df / 2, f / (df + f), df / (df + f)
        front = mp.exp(a * mp.log(x) - mp.log(mp.beta(a, half))) * mp.sqrt(w)
        bottom, z = (mp.mpf(3) / 2, w) if near else (a + 1, x)
        term = total = mp.mpf(1)
        k = 0
        while term > total * mp.eps:
            term *= (a + half + k) / (bottom + k) * z
            total += term
            k += 1
        if near:
            return 1 - 2 * front * total, mp.log1p(-2 * front * total)
        return front * total / a, mp.log(front * total / a)


def relative(found: float, exact: mp.mpf) -> float:
    return float(abs((mp.mpf(float(found)) - exact) / exact))


@pytest.mark.parametrize("df", DFS)
def test_f_exact(df):
    """1e-12 in tail and logarithm, from p near 1 to 1e-300, and in the logarithm far beyond."""
    with mp.workdps(40):
        for f in (1e-20, 1e-9, 1e-4, 0.05, 0.7, 1.9, 2.9, 3.1, 4.9, 5.1, 9.0, 31.0, 250.0, 1370.0, 50_000.0, 1e8):
            tail, log_tail = exact_f_tail(f, df)
            for sf, logsf in ((distributions.f_sf(f, df), distributions.f_logsf(f, df)), tails.f_tail(f, df)):
                assert relative(logsf, log_tail) < 1e-12, f
                if tail > 1e-300:
                    assert relative(sf, tail) < 1e-12, f


def test_f_far_tail():
    """A -log10 p of 400 and of 10,000 is finite and right where p itself is 0."""
    with mp.workdps(40):
        for f, df in ((4950.0, 1408.0), (1900.0, 1e6), (2e7, 1408.0), (47_000.0, 1e6)):
            neg_log10_p = -float(distributions.f_logsf(f, df)) / tails.LN_10
            exact = -exact_f_tail(f, df)[1] / mp.log(10)
            assert exact > 390
            assert relative(neg_log10_p, exact) < 1e-12
            assert distributions.f_sf(f, df) == 0.0
    assert float(distributions.f_logsf(1e300, 1e6)) < -1e8


@pytest.mark.parametrize("df", DFS)
def test_f_scipy(df):
    """SciPy's incomplete beta function over a dense range; the two forms of ours agree too."""
    f = np.geomspace(1e-12, 1e4, 2001)
    sf, logsf = distributions.f_sf(f, df), distributions.f_logsf(f, df)
    expected = special.betaincc(0.5, df / 2, f / (df + f))  # in w: x = 1 - w would lose digits at large df
    good = (expected > 1e-290) & (f > 1e-3)
    assert np.max(abs(sf - expected)[good] / expected[good]) < 2e-12
    plain, log_plain = tails.f_tail(f, df)
    assert np.max(abs(logsf - log_plain) / abs(log_plain)) < 1e-13
    assert np.max(abs(sf - plain)[good] / plain[good]) < 1e-12
    assert np.all(np.diff(logsf) < 0)


def test_chi2_exact():
    with mp.workdps(40):
        for x in (1e-300, 1e-20, 1e-6, 0.3, 0.4999, 0.5001, 1.0, 3.84, 7.99, 8.01, 20.0, 80.0, 700.0, 1370.0, 1e4, 1e8):
            exact = mp.erfc(mp.sqrt(mp.mpf(x) / 2))
            log_exact = mp.log1p(-mp.erf(mp.sqrt(mp.mpf(x) / 2))) if x < 1 else mp.log(exact)
            for sf, logsf in ((distributions.chi2_1_sf(x), distributions.chi2_1_logsf(x)), tails.chi2_1_tail(x)):
                assert relative(logsf, log_exact) < 1e-12, x
                if exact > 1e-300:
                    assert relative(sf, exact) < 1e-12, x


def test_chi2_scipy():
    x = np.geomspace(1e-10, 1390.0, 3001)
    sf, logsf = distributions.chi2_1_sf(x), distributions.chi2_1_logsf(x)
    assert np.max(abs(sf / stats.chi2.sf(x, 1) - 1)) < 1e-12
    assert np.max(abs(logsf / tails.chi2_1_tail(x)[1] - 1)) < 1e-13
    assert np.all(np.diff(logsf) < 0)


@pytest.mark.parametrize("df", [1.0, 12.0, 1e6])
def test_edges(df):
    """Nothing above 0 is certain, infinity impossible, nan stays; shapes are kept, scalars too."""
    values = np.array([[-1.0, 0.0, -0.0], [np.inf, np.nan, 5e-324]])
    for sf, logsf in (
        (distributions.f_sf(values, df), distributions.f_logsf(values, df)),
        (distributions.chi2_1_sf(values), distributions.chi2_1_logsf(values)),
        tails.f_tail(values, df),
        tails.chi2_1_tail(values),
    ):
        assert np.array_equal(sf, [[1.0, 1.0, 1.0], [0.0, np.nan, 1.0]], equal_nan=True)
        assert np.array_equal(logsf[:, :2], [[0.0, 0.0], [-np.inf, np.nan]], equal_nan=True)
        assert -1e-150 < logsf[1, 2] <= 0.0
    assert distributions.f_sf(1.0, df).shape == ()
    assert distributions.chi2_1_sf([]).shape == (0,)


def test_df_out_of_range():
    for bad in (0.5, 0.0, -3.0, float("nan")):
        with pytest.raises(ValueError, match="expected at least 1"):
            distributions.f_sf(1.0, bad)
