"""Counts and packed forms of hard calls: int8, one row a variant, copies of allele1 (0, 1, 2), negative missing."""
from cython.parallel cimport prange
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t

import numpy as np

include "levels.pxi"


cdef extern from *:
    """
    #include "genotypes.h"
    static count_row_fn *const count_row_table[] = JAMMA_TABLE(count_row);
    static inline count_row_fn *count_row_now(void) { return JAMMA_PICK(count_row_table); }
    """
    ctypedef void count_row_fn(
        const int8_t *row, const uint8_t *mask, int64_t n, int32_t n_counted, int32_t *out
    ) noexcept nogil
    count_row_fn *count_row_now() noexcept nogil


def count_calls(const int8_t[:, ::1] calls, const uint8_t[::1] mask=None, int n_threads=1):
    """How many samples have 0, 1, 2 copies and no call, for each variant.

    Parameters
    ----------
    calls : ndarray of int8, shape (m, n_samples)
        Copies of allele1, negative missing.
    mask : ndarray of uint8, shape (n_samples,), optional
        Only samples with a nonzero entry are counted.
    n_threads : int
        Threads to use.

    Returns
    -------
    ndarray of int32, shape (m, 4)
        Samples with 0, 1, 2 copies, and missing.
    """
    cdef int64_t m = calls.shape[0], n = calls.shape[1], v
    cdef const uint8_t *mask_ptr = NULL
    cdef int32_t n_counted = <int32_t>n
    if mask is not None:
        if mask.shape[0] != n:
            raise ValueError(f"mask of {mask.shape[0]} samples, calls of {n}")
        n_counted = np.count_nonzero(mask)
        mask_ptr = &mask[0] if n > 0 else NULL
    counts = np.zeros((m, 4), dtype=np.int32)
    cdef int32_t[:, ::1] out = counts
    cdef count_row_fn *count_row = count_row_now()
    if n == 0:
        return counts
    for v in prange(m, nogil=True, num_threads=n_threads, schedule="static"):
        count_row(&calls[v, 0], mask_ptr, n, n_counted, &out[v, 0])
    return counts
