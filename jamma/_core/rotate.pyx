"""Packed variants times the columns of a basis, and the sums of their squares at the nodes."""
from cython.parallel cimport prange
from libc.stdint cimport int64_t, uint32_t, uint64_t

import numpy as np

from jamma.core.errors import check_status

include "levels.pxi"


cdef extern from *:
    """
    #include "rotate.h"
    static rotate_fn *const rotate_table[] = JAMMA_TABLE(rotate);
    static inline rotate_fn *rotate_now(void) { return JAMMA_PICK(rotate_table); }
    """
    ctypedef struct jamma_calls:
        int64_t n_samples, n_words, stride
        const uint64_t *codes
        const uint32_t *missing
        const double *means
    ctypedef struct jamma_columns:
        const double *data
        int64_t n, stride
    ctypedef struct jamma_nodes:
        int64_t n_nodes
        const double *h
        const double *l
    ctypedef struct jamma_rotation:
        jamma_calls calls
        jamma_columns basis, extra
        jamma_nodes nodes
        double *xx
        double *xz
    ctypedef int rotate_fn(const jamma_rotation *job, int64_t first, int64_t n_variants) noexcept nogil
    rotate_fn *rotate_now() noexcept nogil


# What is prepared of the basis serves this many variants at most: enough to pay for it, few enough for their sums to
# stay in the second-level cache.
MAX_BLOCK = 4096

# The matrix unit's form holds a block's calls as bytes, in each thread.
MAX_BLOCK_BYTES = 128 << 20


cdef jamma_columns columns_of(const double[:, ::1] rows):
    """The rows of an array (m, n), as columns for the kernel."""
    cdef jamma_columns columns
    columns.n = rows.shape[0]
    columns.stride = rows.shape[1]
    columns.data = &rows[0, 0] if rows.shape[0] and rows.shape[1] else NULL
    return columns


cdef jamma_calls calls_of(packed):
    """The packed calls' arrays, for the kernel."""
    cdef jamma_calls calls
    cdef const uint64_t[:, :] codes = packed.codes
    cdef const uint32_t[:, :] missing
    cdef const double[::1] means = packed.means
    calls.n_samples = packed.n_samples
    calls.n_words = codes.shape[0]
    calls.stride = codes.strides[0] // 8
    calls.codes = &codes[0, 0]
    calls.missing = NULL
    calls.means = &means[0]
    if packed.missing is not None:
        missing = packed.missing
        calls.missing = &missing[0, 0]
    return calls


def block_size(int64_t n_variants, int64_t n_samples, int n_threads):
    """Variants of a block: within the limits above, in a multiple of `n_threads` blocks of about the same size."""
    cdef int64_t most = max(min(MAX_BLOCK, MAX_BLOCK_BYTES // max(n_samples, 1)), 32)
    cdef int64_t n_blocks = (n_variants + most - 1) // most
    n_blocks = max((n_blocks + n_threads - 1) // n_threads, 1) * n_threads
    return max((n_variants + n_blocks - 1) // n_blocks, 1)


def rotate_sums(
    packed, const double[:, ::1] basis, const double[:, ::1] columns, const double[:, ::1] h, l=None, int n_threads=1,
):
    """Sums at the nodes of packed variants in a basis, and their products with further columns.

    Parameters
    ----------
    packed : PackedCalls
        k variants of n samples.
    basis : ndarray of float64, shape (m, n)
        Row i is the basis vector q_i; x_i = q_iᵀx.
    columns : ndarray of float64, shape (M, n)
        Further vectors.
    h : ndarray of float64, shape (m, R), R a multiple of 8
        Weights at the nodes.
    l : ndarray of float64, shape (m, R), optional
        Factors of the forward solve.
    n_threads : int
        Threads to use; the result does not depend on it.

    Returns
    -------
    xx : ndarray of float64, shape (k, R)
        Σ_i h[i, r] s_i², where s_i = x_i, or with `l` s_i = x_i - l[i, r] s_{i-1}.
    xz : ndarray of float64, shape (k, M)
        Products with `columns`.
    """
    cdef int64_t k = packed.n_variants, n = packed.n_samples, n_nodes = h.shape[1], size, b
    xx = np.zeros((k, n_nodes))
    xz = np.zeros((k, columns.shape[0]))
    if k == 0 or n == 0:
        return xx, xz
    if basis.shape[1] != n or columns.shape[1] != n or h.shape[0] != basis.shape[0] or n_nodes % 8:
        raise ValueError("array sizes do not agree")
    cdef const double[:, ::1] l_view
    cdef double[:, ::1] xx_view = xx, xz_view = xz
    cdef jamma_rotation job
    job.calls = calls_of(packed)
    job.basis = columns_of(basis)
    job.extra = columns_of(columns)
    job.nodes.n_nodes = n_nodes
    job.nodes.h = &h[0, 0] if h.size else NULL
    job.nodes.l = NULL
    if l is not None:
        l_view = l
        if l_view.shape[0] != h.shape[0] or l_view.shape[1] != n_nodes:
            raise ValueError("array sizes do not agree")
        job.nodes.l = &l_view[0, 0]
    job.xx = &xx_view[0, 0] if n_nodes else NULL
    job.xz = &xz_view[0, 0] if columns.shape[0] else NULL
    size = block_size(k, n, n_threads)
    cdef rotate_fn *rotate = rotate_now()
    cdef int failed = 0
    for b in prange((k + size - 1) // size, nogil=True, num_threads=n_threads, schedule="static", chunksize=1):
        failed += rotate(&job, b * size, min(size, k - b * size))
    check_status(failed and -1, "rotation of variants")
    return xx, xz


def rotate_calls(const double[:, ::1] columns, packed, int n_threads=1):
    """The products of packed variants with some vectors.

    Parameters
    ----------
    columns : ndarray of float64, shape (M, n)
    packed : PackedCalls
        k variants of n samples; a missing call counts as the variant's mean.
    n_threads : int
        Threads to use; the result does not depend on it.

    Returns
    -------
    ndarray of float64, shape (k, M)
    """
    return rotate_sums(packed, np.empty((0, packed.n_samples)), columns, np.empty((0, 0)), None, n_threads)[1]
