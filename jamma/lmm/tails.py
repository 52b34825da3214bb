"""Upper tails of F(1, df) and chi-square(1) in plain NumPy: the fallback without `jamma._core`, and its oracle.

With a = df/2, w = f/(df + f) and x = 1 - w, the tail of F(1, df) is the regularised incomplete beta function
I_x(a, 1/2) = 1 - I_w(1/2, a) (DLMF 8.17.2 and 8.17.4). It is taken from the continued fraction DLMF 8.17.22 where w is
large, and from the power series of I_w (DLMF 8.17.8: positive terms only) where w is small, so that neither a small
tail nor its logarithm near p = 1 suffers cancellation.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from jamma.lmm.schema import F64

LN_10 = math.log(10.0)
_HALF_LN_PI = 0.5 * math.log(math.pi)
# Below this shape the asymptotic series of the gamma ratio is entered after upward recurrence.
_ASYMPTOTIC_FROM = 24.0


def log_gamma_ratio(a: float) -> float:
    """ln(Gamma(a + 1/2) / Gamma(a)) for a > 0, without the cancellation of two log-gammas.

    Asymptotic series in 1/a (from DLMF 5.11.8), entered by Gamma(a + 1) = a Gamma(a) where `a` is small.
    """
    shift = 0.0
    while a < _ASYMPTOTIC_FROM:
        shift += math.log1p(-0.5 / (a + 0.5))
        a += 1.0
    r = 1.0 / a
    r2 = r * r
    series = -r * (1 / 8 - r2 * (1 / 192 - r2 * (1 / 640 - r2 * (17 / 14336 - r2 * (31 / 18432)))))
    return 0.5 * math.log(a) + series + shift


def _beta_fraction(a: float, x: F64, w: F64) -> F64:
    """I_x(a, 1/2) without its front factor x^a w^(1/2) / B: the even part of DLMF 8.17.22 by Lentz's method.

    In this form (DiDonato & Morris 1992, ACM TOMS 18, 360, eq. 9) the difference a - (a + 1/2) x = a w - x/2, which
    would lose log10(a) digits, enters once.
    """
    b = 0.5
    lambda_ = a * w - b * x
    h = a / (a + 1.0) * (lambda_ + 1.0)
    c, d = h.copy(), np.zeros_like(h)
    for n in range(1, 1000):
        m = a + 2 * n
        part = n * (b - n) * x / (m - 1)
        alpha = (a + n - 1) * (a + b + n - 1) * x / (m - 1) * part
        beta = n + part + (a + n) / (m + 1) * (lambda_ + 1 + n * (1 + w))
        d = 1.0 / (beta + alpha * d)
        c = beta + alpha / c
        h = h * (c * d)
        if np.all(np.abs(c * d - 1.0) < 2e-16):
            break
    return 1.0 / h


def _head_series(a: float, w: F64) -> F64:
    """Sum over k of (a + 1/2)_k / (3/2)_k w^k, the power series of I_w(1/2, a) without its front factor."""
    term = np.ones_like(w)
    total = np.ones_like(w)
    for k in range(1000):
        term = term * ((a + 0.5 + k) / (1.5 + k)) * w
        total = total + term
        if np.all(term < 1e-17 * total):
            break
    return total


def f_tail(f: ArrayLike, df: float) -> tuple[F64, F64]:
    """P(F > f) and its natural logarithm for F with 1 and `df` degrees of freedom.

    Parameters
    ----------
    f : array_like of float64
        Statistics; anything not above 0 has tail 1, nan stays nan.
    df : float
        Denominator degrees of freedom, at least 1.

    Returns
    -------
    sf, logsf : ndarray of float64
        Tail and logarithm, of the shape of `f`; the logarithm stays finite where the tail underflows.
    """
    f = np.asarray(f, dtype=np.float64)
    sf = np.where(np.isnan(f), np.nan, np.where(f == np.inf, 0.0, 1.0))
    logsf = np.where(np.isnan(f), np.nan, np.where(f == np.inf, -np.inf, 0.0))
    a = 0.5 * df
    w = np.zeros_like(f)
    inside = (f > 0) & (f < np.inf)
    log_front = np.zeros_like(f)
    with np.errstate(over="ignore", divide="ignore"):  # w is 0 and its logarithm -inf for the smallest doubles
        w[inside] = 1.0 / (1.0 + df / f[inside])
        log_front[inside] = -a * np.log1p(f[inside] / df) + 0.5 * np.log(w[inside]) + (log_gamma_ratio(a) - _HALF_LN_PI)
    head = inside & (w <= 2.5 / (a + 4.5))
    below = 2.0 * np.exp(log_front[head]) * _head_series(a, w[head])
    sf[head] = 1.0 - below
    logsf[head] = np.log1p(-below)
    tail = inside & ~head
    factor = _beta_fraction(a, 1.0 / (1.0 + f[tail] / df), w[tail])
    with np.errstate(under="ignore"):
        sf[tail] = np.exp(log_front[tail]) * factor
    logsf[tail] = log_front[tail] + np.log(factor)
    return sf, logsf


def _erfcx_fraction(z: F64) -> F64:
    """exp(z^2) erfc(z) for z of at least 2 by its continued fraction (DLMF 7.9.1), from its 120th level upwards."""
    t = z.copy()
    for k in range(120, 0, -1):
        t = z + 0.5 * k / t
    return 1.0 / (t * math.sqrt(math.pi))


def chi2_1_tail(x: ArrayLike) -> tuple[F64, F64]:
    """P(X > x) = erfc(sqrt(x/2)) and its natural logarithm for X with one degree of freedom.

    Parameters
    ----------
    x : array_like of float64
        Statistics; anything not above 0 has tail 1, nan stays nan.

    Returns
    -------
    sf, logsf : ndarray of float64
        Tail and logarithm, of the shape of `x`.
    """
    x = np.asarray(x, dtype=np.float64)
    z = np.sqrt(0.5 * np.where(x > 0, x, 0.0))
    sf = np.where(np.isnan(x), np.nan, np.array([math.erfc(v) for v in z.ravel()]).reshape(z.shape))
    logsf = np.full_like(sf, np.nan)
    near = z < 0.5
    logsf[near] = np.log1p([-math.erf(v) for v in z[near]])
    middle = (z >= 0.5) & (z < 2.0)
    logsf[middle] = np.log(sf[middle])
    far = (z >= 2.0) & (z < np.inf)
    logsf[far] = -0.5 * x[far] + np.log(_erfcx_fraction(z[far]))
    logsf[z == np.inf] = -np.inf
    logsf[np.isnan(x)] = np.nan
    return sf, logsf
