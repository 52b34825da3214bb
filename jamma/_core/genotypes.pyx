"""Counts and packed forms of hard calls: int8, one row a variant, copies of allele1 (0, 1, 2), negative missing."""
from cython.parallel cimport prange
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memmove

import numpy as np

include "levels.pxi"


cdef extern from *:
    """
    #include "genotypes.h"
    static count_row_fn *const count_row_table[] = JAMMA_TABLE(count_row);
    static pack_rows_fn *const pack_rows_table[] = JAMMA_TABLE(pack_rows);
    static inline count_row_fn *count_row_now(void) { return JAMMA_PICK(count_row_table); }
    static inline pack_rows_fn *pack_rows_now(void) { return JAMMA_PICK(pack_rows_table); }
    """
    enum:
        JAMMA_WORD_SAMPLES
        JAMMA_PACK_ROWS
    ctypedef void count_row_fn(
        const int8_t *row, const uint8_t *mask, int64_t n, int32_t n_counted, int32_t *out
    ) noexcept nogil
    ctypedef void pack_rows_fn(
        const int8_t *const *rows, int64_t n_rows, int64_t n, int64_t stride, uint64_t *codes, uint32_t *missing
    ) noexcept nogil
    count_row_fn *count_row_now() noexcept nogil
    pack_rows_fn *pack_rows_now() noexcept nogil


# The four calls that each code of a byte stands for.
_CALLS_OF_CODE = (np.arange(81)[:, None] // np.array([1, 3, 9, 27]) % 3).astype(np.float64)


class PackedCalls:
    """Hard calls of the variants to be tested, four in a byte, in the order in which the rotation reads them.

    Attributes
    ----------
    n_samples, n_variants : int
        Samples, and variants packed.
    codes : ndarray of uint64, shape (ceil(n_samples / 32), n_variants), rows contiguous
        Byte j of word (g, v) is x0 + 3 x1 + 9 x2 + 27 x3 of variant v's samples 32g + 4j to 32g + 4j + 3; a missing
        call counts as 0.
    missing : ndarray of uint32, shape of `codes`, or None
        Bit i of word (g, v): sample 32g + i has no call. None: no call is missing.
    counts : ndarray of int32, shape (n_variants, 4)
        Samples with 0, 1, 2 copies, and missing.
    means : ndarray of float64, shape (n_variants,)
        Mean of the calls, which stands for the missing ones; 0 where every call is missing.
    """

    def __init__(self, n_samples, codes, missing, counts):
        self.n_samples = n_samples
        self.n_variants = len(counts)
        self.codes = codes
        self.missing = missing if counts[:, 3].any() else None
        self.counts = counts
        called = n_samples - counts[:, 3]
        self.means = (counts[:, 1] + 2.0 * counts[:, 2]) / np.maximum(called, 1)

    def __len__(self):
        return self.n_variants

    def take(self, rows):
        """The packed calls of some variants, given as an array of their positions or a mask."""
        missing = None if self.missing is None else np.ascontiguousarray(self.missing[:, rows])
        return PackedCalls(self.n_samples, np.ascontiguousarray(self.codes[:, rows]), missing, self.counts[rows])

    def decode(self, start=0, stop=None):
        """Dosages of the variants `start` to `stop`: float64, shape (stop - start, n_samples), missing as the mean."""
        codes = np.ascontiguousarray(self.codes[:, start:stop].T)
        x = _CALLS_OF_CODE[codes.view(np.uint8)].reshape(len(codes), 4 * 8 * codes.shape[1])[:, : self.n_samples]
        if self.missing is None:
            return np.ascontiguousarray(x)
        bits = np.ascontiguousarray(self.missing[:, start:stop].T).view(np.uint8)
        absent = np.unpackbits(bits, axis=1, bitorder="little")[:, : self.n_samples].astype(bool)
        return np.where(absent, self.means[start:stop, None], x)


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


cdef void pack_block(
    const int8_t *calls, const int64_t *rows, int64_t n_rows, int64_t n, int64_t stride,
    uint64_t *codes, uint32_t *missing, pack_rows_fn *pack_rows,
) noexcept nogil:
    """Pack `n_rows` <= JAMMA_PACK_ROWS of the rows of `calls` into neighbouring columns."""
    cdef const int8_t *row[JAMMA_PACK_ROWS]
    cdef int64_t i
    for i in range(n_rows):
        row[i] = calls + rows[i] * n
    pack_rows(row, n_rows, n, stride, codes, missing)


def pack_calls(const int8_t[:, ::1] calls, rows=None, int n_threads=1):
    """Pack some variants' calls for the rotation.

    Parameters
    ----------
    calls : ndarray of int8, shape (m, n_samples)
        Copies of allele1, negative missing.
    rows : ndarray of int64, shape (k,), optional
        Rows of `calls` to pack, in this order; None: all.
    n_threads : int
        Threads to use.

    Returns
    -------
    PackedCalls
        With `n_variants` = k.
    """
    cdef int64_t n = calls.shape[1], b
    cdef const int64_t[::1] which = (
        np.arange(calls.shape[0]) if rows is None else np.ascontiguousarray(rows, dtype=np.int64)
    )
    cdef int64_t k = which.shape[0]
    cdef int64_t n_words = (n + JAMMA_WORD_SAMPLES - 1) // JAMMA_WORD_SAMPLES
    codes = np.zeros((n_words, k), dtype=np.uint64)
    missing = np.zeros((n_words, k), dtype=np.uint32)
    counts = np.zeros((k, 4), dtype=np.int32)
    cdef uint64_t[:, ::1] codes_view = codes
    cdef uint32_t[:, ::1] missing_view = missing
    cdef int32_t[:, ::1] counts_view = counts
    cdef count_row_fn *count_row = count_row_now()
    cdef pack_rows_fn *pack_rows = pack_rows_now()
    cdef int64_t v
    if k and (np.min(which) < 0 or np.max(which) >= calls.shape[0]):
        raise IndexError(f"rows {np.min(which)} to {np.max(which)} of {calls.shape[0]} variants")
    if n > 0:
        for b in prange((k + JAMMA_PACK_ROWS - 1) // JAMMA_PACK_ROWS, nogil=True, num_threads=n_threads):
            for v in range(b * JAMMA_PACK_ROWS, min((b + 1) * JAMMA_PACK_ROWS, k)):
                count_row(&calls[which[v], 0], NULL, n, <int32_t>n, &counts_view[v, 0])
            pack_block(
                &calls[0, 0], &which[b * JAMMA_PACK_ROWS], min(JAMMA_PACK_ROWS, k - b * JAMMA_PACK_ROWS), n, k,
                &codes_view[0, b * JAMMA_PACK_ROWS], &missing_view[0, b * JAMMA_PACK_ROWS], pack_rows,
            )
    return PackedCalls(n, codes, missing, counts)


# Rows that one thread counts, judges and packs before it takes the next ones.
cdef enum:
    SWEEP_ROWS = 64


cdef struct filter_limits:
    double miss, maf
    bint skip_maf
    uint8_t missing_code, maf_code, monomorphic_code


cdef inline uint8_t judge(const int32_t *counts, const filter_limits *limits) noexcept nogil:
    """0 for a variant to keep, else the code of the first filter that drops it."""
    cdef double called = <double>counts[0] + counts[1] + counts[2]
    cdef double total = called + counts[3]
    cdef double af
    if total > 0 and counts[3] / total > limits.miss:
        return limits.missing_code
    if not limits.skip_maf and called > 0:
        af = (counts[1] + 2.0 * counts[2]) / (2.0 * called)
        if af < limits.maf or af > 1.0 - limits.maf:
            return limits.maf_code
    if (counts[0] > 0) + (counts[1] > 0) + (counts[2] > 0) < 2:
        return limits.monomorphic_code
    return 0


cdef int64_t sweep_rows(
    const int8_t *calls, int64_t first, int64_t stop, int64_t n, int64_t stride, const filter_limits *limits,
    int32_t *counts, uint8_t *reason, uint64_t *codes, uint32_t *missing,
    count_row_fn *count_row, pack_rows_fn *pack_rows,
) noexcept nogil:
    """Count and judge rows `first` to `stop`, pack those kept from column `first` on; returns how many these are."""
    cdef int64_t rows[JAMMA_PACK_ROWS]
    cdef int64_t v, waiting = 0, packed = 0
    for v in range(first, stop):
        count_row(calls + v * n, NULL, n, <int32_t>n, counts + 4 * v)
        reason[v] = judge(counts + 4 * v, limits)
        if reason[v]:
            continue
        rows[waiting] = v
        waiting += 1
        if waiting == JAMMA_PACK_ROWS:
            pack_block(
                calls, rows, waiting, n, stride, codes + first + packed, missing + first + packed, pack_rows
            )
            packed += waiting
            waiting = 0
    pack_block(calls, rows, waiting, n, stride, codes + first + packed, missing + first + packed, pack_rows)
    return packed + waiting


cdef void close_gaps(
    uint64_t *codes, uint32_t *missing, const int64_t *kept, int64_t n_blocks
) noexcept nogil:
    """Move what is packed in each block of SWEEP_ROWS columns of one row to the row's beginning."""
    cdef int64_t b, to = 0
    for b in range(n_blocks):
        if to != b * SWEEP_ROWS:
            memmove(codes + to, codes + b * SWEEP_ROWS, kept[b] * sizeof(uint64_t))
            memmove(missing + to, missing + b * SWEEP_ROWS, kept[b] * sizeof(uint32_t))
        to += kept[b]


def sweep(
    const int8_t[:, ::1] calls, double max_missing, double maf, int n_threads=1, bint skip_maf=False,
    *, reason_codes=(7, 8, 9),
):
    """Count the calls, drop variants by the filters that need counts alone, and pack the others, in one pass.

    Parameters
    ----------
    calls : ndarray of int8, shape (m, n_samples)
        Copies of allele1, negative missing.
    max_missing : float
        A variant with more than this fraction of missing calls is dropped.
    maf : float
        So is one whose frequency of allele1 is below this, or above 1 - `maf`.
    n_threads : int
        Threads to use.
    skip_maf : bool
        Do not filter by frequency.
    reason_codes : tuple of int
        What `reason` says of a variant that has too many missing calls, is too rare, or has fewer than two of the three
        genotypes; by default the keys of `jamma.variants.REASONS`.

    Returns
    -------
    counts : ndarray of int32, shape (m, 4)
        As from `count_calls`.
    reason : ndarray of uint8, shape (m,)
        0 for a variant that is kept, else the first of the reasons that applies, in the order above.
    packed : PackedCalls
        The variants kept, in their order.
    """
    cdef int64_t m = calls.shape[0], n = calls.shape[1], b, g
    cdef int64_t n_words = (n + JAMMA_WORD_SAMPLES - 1) // JAMMA_WORD_SAMPLES
    cdef int64_t n_blocks = (m + SWEEP_ROWS - 1) // SWEEP_ROWS
    cdef filter_limits limits
    limits.miss, limits.maf, limits.skip_maf = max_missing, maf, skip_maf
    limits.missing_code, limits.maf_code, limits.monomorphic_code = reason_codes
    counts, reason = np.zeros((m, 4), dtype=np.int32), np.zeros(m, dtype=np.uint8)
    codes, missing = np.empty((n_words, m), dtype=np.uint64), np.zeros((n_words, m), dtype=np.uint32)
    kept = np.zeros(n_blocks, dtype=np.int64)
    if m == 0 or n == 0:
        reason[:] = limits.monomorphic_code
        return counts, reason, PackedCalls(n, codes[:, :0], missing[:, :0], counts[:0])
    cdef int32_t[:, ::1] counts_view = counts
    cdef uint8_t[::1] reason_view = reason
    cdef uint64_t[:, ::1] codes_view = codes
    cdef uint32_t[:, ::1] missing_view = missing
    cdef int64_t[::1] kept_view = kept
    cdef count_row_fn *count_row = count_row_now()
    cdef pack_rows_fn *pack_rows = pack_rows_now()
    for b in prange(n_blocks, nogil=True, num_threads=n_threads):
        kept_view[b] = sweep_rows(
            &calls[0, 0], b * SWEEP_ROWS, min((b + 1) * SWEEP_ROWS, m), n, m, &limits, &counts_view[0, 0],
            &reason_view[0], &codes_view[0, 0], &missing_view[0, 0], count_row, pack_rows,
        )
    k = int(kept.sum())
    if k < m:
        for g in prange(n_words, nogil=True, num_threads=n_threads):
            close_gaps(&codes_view[g, 0], &missing_view[g, 0], &kept_view[0], n_blocks)
    return counts, reason, PackedCalls(n, codes[:, :k], missing[:, :k], counts[reason == 0])
