"""Upper tails of the F and chi-square distributions and their natural logarithms; the mathematics is in tails.c."""
from libc.stdint cimport int64_t

import numpy as np

include "tails.pxi"


cdef tuple f_both(f, double df):
    """Tail and logarithm, flat, with the shape they are to have."""
    values = np.asarray(f, dtype=np.float64)
    cdef const double[::1] x = values.ravel()
    cdef int64_t i, k = x.shape[0]
    cdef double[::1] sf = np.empty(k), logsf = np.empty(k)
    cdef jamma_f_tail tail
    if not df >= 1.0:
        raise ValueError(f"df {df}: expected at least 1")
    jamma_f_tail_init(&tail, df)
    with nogil:
        for i in range(k):
            jamma_f_tail_both(&tail, x[i], &sf[i], &logsf[i])
    return np.asarray(sf).reshape(values.shape), np.asarray(logsf).reshape(values.shape)


cdef tuple chi2_both(statistic):
    """Tail and logarithm, with the shape they are to have."""
    values = np.asarray(statistic, dtype=np.float64)
    cdef const double[::1] x = values.ravel()
    cdef int64_t i, k = x.shape[0]
    cdef double[::1] sf = np.empty(k), logsf = np.empty(k)
    with nogil:
        for i in range(k):
            jamma_chi2_1_both(x[i], &sf[i], &logsf[i])
    return np.asarray(sf).reshape(values.shape), np.asarray(logsf).reshape(values.shape)


def f_sf(f, double df):
    """P(F > f) for F with 1 and `df` degrees of freedom.

    Parameters
    ----------
    f : array_like of float64
        Statistics. Anything not above 0 gives 1, infinity 0, nan nan.
    df : float
        Denominator degrees of freedom, at least 1.

    Returns
    -------
    ndarray of float64
        Of the shape of `f`; 0 below the smallest double.
    """
    return f_both(f, df)[0]


def f_logsf(f, double df):
    """ln P(F > f), finite where the tail itself underflows. Arguments as for `f_sf`."""
    return f_both(f, df)[1]


def chi2_1_sf(x):
    """P(X > x) = erfc(sqrt(x/2)) for X chi-square with one degree of freedom.

    Parameters
    ----------
    x : array_like of float64
        Statistics. Anything not above 0 gives 1, infinity 0, nan nan.

    Returns
    -------
    ndarray of float64
        Of the shape of `x`; 0 below the smallest double.
    """
    return chi2_both(x)[0]


def chi2_1_logsf(x):
    """ln P(X > x), finite where the tail itself underflows. Argument as for `chi2_1_sf`."""
    return chi2_both(x)[1]
