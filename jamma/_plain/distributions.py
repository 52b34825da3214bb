"""Upper tails of F(1, df) and chi-square(1): `jamma.lmm.tails` under the extension's names."""

from __future__ import annotations

from numpy.typing import ArrayLike

from jamma.lmm.schema import F64
from jamma.lmm.tails import chi2_1_tail, f_tail


def f_sf(f: ArrayLike, df: float) -> F64:
    """P(F > f)."""
    return f_tail(f, df)[0]


def f_logsf(f: ArrayLike, df: float) -> F64:
    """ln P(F > f)."""
    return f_tail(f, df)[1]


def chi2_1_sf(x: ArrayLike) -> F64:
    """P(X > x)."""
    return chi2_1_tail(x)[0]


def chi2_1_logsf(x: ArrayLike) -> F64:
    """ln P(X > x)."""
    return chi2_1_tail(x)[1]
