"""Sums of products of hard calls over variants: the kinship's integer part and its sparse corrections."""
from cython.parallel cimport prange
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t

import numpy as np

include "levels.pxi"


cdef extern from *:
    """
    #include "gram.h"
    static gram_pack_fn *const gram_pack_table[] = JAMMA_TABLE(gram_pack);
    static gram_product_fn *const gram_product_table[] = JAMMA_TABLE(gram_product);
    static gram_weigh_fn *const gram_weigh_table[] = JAMMA_TABLE(gram_weigh);
    static gram_missing_fn *const gram_missing_table[] = JAMMA_TABLE(gram_missing);
    static inline gram_pack_fn *gram_pack_now(void) { return JAMMA_PICK(gram_pack_table); }
    static inline gram_product_fn *gram_product_now(void) { return JAMMA_PICK(gram_product_table); }
    static inline gram_weigh_fn *gram_weigh_now(void) { return JAMMA_PICK(gram_weigh_table); }
    static inline gram_missing_fn *gram_missing_now(void) { return JAMMA_PICK(gram_missing_table); }
    """
    enum:
        JAMMA_GRAM_TILE
        JAMMA_GRAM_PANEL
        JAMMA_GRAM_WORD
        JAMMA_GRAM_GROUP
        JAMMA_GRAM_VARIANTS
    ctypedef void gram_pack_fn(
        const int8_t *const *rows, int64_t m, int64_t n, int64_t first, int64_t n_words, uint8_t *words, uint8_t *lines
    ) noexcept nogil
    ctypedef void gram_product_fn(
        const uint8_t *a, const uint8_t *a_lines, const uint8_t *b, int64_t n_words, int32_t *out
    ) noexcept nogil
    ctypedef void gram_weigh_fn(
        const int8_t *const *rows, const double *means, const int32_t *which, int64_t m, int64_t first, int64_t last,
        double missing, double *out
    ) noexcept nogil
    ctypedef int64_t gram_missing_fn(const int8_t *row, int64_t n, int32_t *out) noexcept nogil
    gram_pack_fn *gram_pack_now() noexcept nogil
    gram_product_fn *gram_product_now() noexcept nogil
    gram_weigh_fn *gram_weigh_now() noexcept nogil
    gram_missing_fn *gram_missing_now() noexcept nogil

# Samples of one slice of the row sums: enough for long vectors, few enough for every thread to have several.
cdef enum:
    SLICE = 256

MAX_VARIANTS = JAMMA_GRAM_VARIANTS


cdef void add_panel(
    gram_product_fn *product, const uint8_t *words, const uint8_t *lines, int64_t n_words, int64_t i, int64_t j,
    int64_t n, double *half, int64_t stride,
) noexcept nogil:
    """half[32i.., 32j..] += the product of panels i >= j; below the diagonal whole, on it by half."""
    cdef int32_t sums[JAMMA_GRAM_PANEL * JAMMA_GRAM_PANEL]
    cdef int64_t panel_bytes = 2 * 64 * n_words
    cdef int64_t row, column, r, c, last
    product(words + i * panel_bytes, lines + i * panel_bytes, words + j * panel_bytes, n_words, sums)
    for r in range(JAMMA_GRAM_PANEL):
        row = i * JAMMA_GRAM_PANEL + r
        if row >= n:
            break
        column = j * JAMMA_GRAM_PANEL
        last = JAMMA_GRAM_PANEL if i > j else r
        for c in range(last):
            half[row * stride + column + c] += sums[r * JAMMA_GRAM_PANEL + c]
        if i == j:
            half[row * stride + row] += 0.5 * sums[r * JAMMA_GRAM_PANEL + r]


def missing_by_sample(const int8_t[:, ::1] calls, const int64_t[::1] which, const int32_t[::1] n_miss, int n_threads=1):
    """The missing calls of some variants, sorted by sample, then variant.

    Parameters
    ----------
    calls : ndarray of int8, shape (m, n)
    which : ndarray of int64, shape (k,)
        Rows of `calls`.
    n_miss : ndarray of int32, shape (k,)
        Missing calls of each of them.
    n_threads : int

    Returns
    -------
    start : ndarray of int64, shape (n + 1,)
    variant : ndarray of int32, shape (start[n],)
        variant[start[i]:start[i + 1]] are the positions in `which` of the variants that sample i lacks, ascending.
    """
    cdef int64_t n = calls.shape[1], k = which.shape[0], v, j
    cdef int64_t[::1] first = np.concatenate([[0], np.cumsum(n_miss, dtype=np.int64)])
    sample_array = np.empty(first[k], dtype=np.int32)
    variant_array = np.empty(first[k], dtype=np.int32)
    start_array = np.zeros(n + 2, dtype=np.int64)
    cdef int32_t[::1] sample = sample_array, variant = variant_array
    cdef int64_t[::1] start = start_array
    cdef gram_missing_fn *find = gram_missing_now()
    with nogil:
        for v in prange(k, num_threads=n_threads, schedule="static"):
            if first[v + 1] > first[v]:
                find(&calls[which[v], 0], n, &sample[first[v]])
        # Counting sort: start[i + 1] is where sample i's next variant goes, and ends as where sample i + 1 begins.
        for j in range(first[k]):
            start[sample[j] + 2] += 1
        for j in range(n):
            start[j + 2] += start[j + 1]
        for v in range(k):
            for j in range(first[v], first[v + 1]):
                variant[start[sample[j] + 1]] = <int32_t>v
                start[sample[j] + 1] += 1
    return start_array[: n + 1], variant_array


def add_calls(
    const int8_t[:, ::1] calls, const int64_t[::1] which, const double[::1] means, const int64_t[::1] miss_start,
    const int32_t[::1] miss_variant, double[:, ::1] half, double[::1] row_terms, int n_threads=1,
):
    """Add some variants to the sums of which a kinship is made; see `jamma.kinship.KinshipSum`.

    Parameters
    ----------
    calls : ndarray of int8, shape (m, n)
        Copies of allele1, negative missing.
    which : ndarray of int64, shape (k,), k <= MAX_VARIANTS
        Rows of `calls` to add.
    means : ndarray of float64, shape (k,)
        Of each of them.
    miss_start, miss_variant : ndarray of int64 and int32
        From `missing_by_sample`.
    half : ndarray of float64, shape (n, n)
        Its sum with its transpose gains sum_s (g_i g_j + mu (g_i e_j + e_i g_j) + mu^2 e_i e_j), where e marks missing
        calls and g is 0 there.
    row_terms : ndarray of float64, shape (n,)
        Gains sum_s mu x_i, missing x_i as the mean.
    n_threads : int
        Threads to use; the result does not depend on it.

    Returns
    -------
    int
        Status: 0, or -2 where the sizes do not agree.
    """
    cdef int64_t n = calls.shape[1], k = which.shape[0], v, i, p, t, first
    cdef int64_t n_words = (k + JAMMA_GRAM_WORD * JAMMA_GRAM_GROUP - 1) // (
        JAMMA_GRAM_WORD * JAMMA_GRAM_GROUP) * JAMMA_GRAM_GROUP
    cdef int64_t n_panels = (n + JAMMA_GRAM_PANEL - 1) // JAMMA_GRAM_PANEL
    cdef int64_t n_slices = (n + SLICE - 1) // SLICE, n_pairs = n_panels * (n_panels + 1) // 2
    if (half.shape[0] != n or half.shape[1] != n or row_terms.shape[0] != n or means.shape[0] != k
            or miss_start.shape[0] != n + 1 or k > JAMMA_GRAM_VARIANTS):
        return -2
    if k == 0 or n == 0:
        return 0
    cdef gram_pack_fn *pack = gram_pack_now()
    cdef gram_product_fn *product = gram_product_now()
    cdef gram_weigh_fn *weigh = gram_weigh_now()
    # Tile 2t + 1 of the last panel may lie beyond n: packed as zeros, since a panel is always read whole.
    words_array = np.empty(n_panels * 2 * 64 * n_words, dtype=np.uint8)
    lines_array = np.empty(n_panels * 2 * 64 * n_words if level() == "amx" else 1, dtype=np.uint8)
    rows_array = np.empty(k, dtype=np.uintp)
    first_row_array, first_column_array = np.tril_indices(n_panels)
    cdef const int64_t[::1] pair_row = first_row_array.astype(np.int64)
    cdef const int64_t[::1] pair_column = first_column_array.astype(np.int64)
    cdef uint8_t[::1] words = words_array, lines = lines_array
    cdef size_t[::1] row_pointers = rows_array
    cdef uint8_t *lines_ptr = &lines[0]
    cdef int64_t lines_stride = 64 * n_words if lines_array.size > 1 else 0
    for v in range(k):
        if which[v] < 0 or which[v] >= calls.shape[0]:
            return -2
        row_pointers[v] = <size_t>&calls[which[v], 0]
    cdef const int8_t *const *rows = <const int8_t *const *>&row_pointers[0]
    with nogil:
        for t in prange(2 * n_panels, num_threads=n_threads, schedule="static"):
            pack(rows, k, n, t * JAMMA_GRAM_TILE, n_words, &words[t * 64 * n_words], lines_ptr + t * lines_stride)
        for p in prange(n_pairs, num_threads=n_threads, schedule="dynamic", chunksize=4):
            add_panel(product, &words[0], lines_ptr, n_words, pair_row[p], pair_column[p], n, &half[0, 0], n)
        for t in prange(n_slices, num_threads=n_threads, schedule="static"):
            first = t * SLICE
            weigh(rows, &means[0], NULL, k, first, min(first + SLICE, n), 1.0, &row_terms[0])
        for i in prange(n, num_threads=n_threads, schedule="dynamic", chunksize=8):
            if miss_start[i + 1] > miss_start[i]:
                weigh(
                    rows, &means[0], &miss_variant[miss_start[i]], miss_start[i + 1] - miss_start[i], 0, n, 0.5,
                    &half[i, 0],
                )
    return 0


def finish(double[:, ::1] half, const double[::1] row_terms, double constant, double divisor, int n_threads=1):
    """half <- (half + half' - r_i - r_j + constant) / divisor, in place; symmetric to the bit.

    Parameters
    ----------
    half : ndarray of float64, shape (n, n)
    row_terms : ndarray of float64, shape (n,)
    constant, divisor : float
    n_threads : int
    """
    cdef int64_t n = half.shape[0], b, n_blocks = (half.shape[0] + 63) // 64
    for b in prange(n_blocks, nogil=True, num_threads=n_threads, schedule="dynamic"):
        finish_block(&half[0, 0], &row_terms[0], n, 64 * b, constant, divisor)


cdef void finish_block(
    double *half, const double *r, int64_t n, int64_t first, double constant, double divisor
) noexcept nogil:
    """Rows first..first+63 and their mirror image, by blocks of 64 columns that stay in cache."""
    cdef int64_t i, j, column, last = min(first + 64, n)
    cdef double x
    column = 0
    while column < last:
        for i in range(first, last):
            for j in range(column, min(column + 64, i + 1)):
                x = (half[i * n + j] + half[j * n + i] - (r[i] + r[j]) + constant) / divisor
                half[i * n + j] = x
                half[j * n + i] = x
        column += 64
