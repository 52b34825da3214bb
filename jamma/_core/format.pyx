"""Rows of text from arrays: .assoc.txt, kinship and eigen matrices; all numbers correctly rounded.

Rows are split into one run of rows per thread, each run into its own stretch of one buffer that is large enough for
the longest text, so that nothing is shared and the bytes do not depend on the number of threads. Nothing here knows
files, names or errors.
"""
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from cython.parallel cimport prange
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

import numpy as np

include "decimal.pxi"


cdef inline char *append(char *at, str text) except NULL:
    """Copy a string as UTF-8; UnicodeEncodeError where it holds bytes that were no UTF-8."""
    cdef Py_ssize_t n
    cdef const char *utf8 = PyUnicode_AsUTF8AndSize(text, &n)
    memcpy(at, utf8, n)
    return at + n


def variant_texts(chrom, rs, const int64_t[::1] ps, allele1, allele0, const int64_t[::1] index):
    """The names of some variants as one run of bytes, the form that `format_rows` takes.

    Parameters
    ----------
    chrom, rs, allele1, allele0 : sequence of str
        Columns of a .bim.
    ps : ndarray of int64
    index : ndarray of int64, shape (m,)
        Rows of the .bim.

    Returns
    -------
    text : ndarray of uint8
        ``chr rs ps`` and ``allele1 allele0`` of each variant, tabs between.
    offsets : ndarray of int64, shape (2 m + 1,)
        Where each text begins, and where the last ends.

    Raises
    ------
    UnicodeEncodeError
        A name holds bytes that were no UTF-8.
    """
    cdef int64_t m = index.shape[0], k, i, bound = 0
    cdef str a, b, c, d
    for k in range(m):
        i = index[k]
        if not 0 <= i < ps.shape[0]:
            raise ValueError(f"row {i} of {ps.shape[0]} variants")
        a, b, c, d = chrom[i], rs[i], allele1[i], allele0[i]
        bound += 4 * (len(a) + len(b) + len(c) + len(d)) + 3 + DECIMAL_MAX_BYTES
    text = np.empty(max(bound, 1), dtype=np.uint8)
    offsets = np.zeros(2 * m + 1, dtype=np.int64)
    cdef uint8_t[::1] text_view = text
    cdef int64_t[::1] offsets_view = offsets
    cdef char *begin = <char *>&text_view[0]
    cdef char *at = begin
    for k in range(m):
        i = index[k]
        at = append(at, chrom[i])
        at[0] = c'\t'
        at = append(at + 1, rs[i])
        at[0] = c'\t'
        at = decimal_write_int(at + 1, ps[i])
        offsets_view[2 * k + 1] = at - begin
        at = append(at, allele1[i])
        at[0] = c'\t'
        at = append(at + 1, allele0[i])
        offsets_view[2 * k + 2] = at - begin
    return text[: at - begin], offsets


cdef int64_t write_rows(
    char *out, const char *text, const int64_t[::1] offsets, const int64_t[::1] rows, const uint8_t[::1] layout,
    const double[:, ::1] values, int64_t start, int64_t stop,
) noexcept nogil:
    """Rows start to stop of `format_rows` at out; returns the number of bytes."""
    cdef char *at = out
    cdef int64_t i, c, v, a
    cdef uint8_t code
    cdef double x
    for i in range(start, stop):
        v = 0
        for c in range(layout.shape[0]):
            code = layout[c]
            if code == c'A' or code == c'B':
                a = 2 * rows[i] + (code == c'B')
                memcpy(at, text + offsets[a], offsets[a + 1] - offsets[a])
                at += offsets[a + 1] - offsets[a]
            else:
                x = values[v, i]
                v += 1
                if code == c'd':
                    at = decimal_write_int(at, <int64_t>x)
                elif code == c'f':
                    at = decimal_write_f3(at, x)
                elif code == c'p':
                    at = decimal_write_p(at, x, values[v, i])
                    v += 1
                else:
                    at = decimal_write_e6(at, x)
            at[0] = c'\t'
            at += 1
        at[-1] = c'\n'
    return at - out


def format_rows(
    const uint8_t[::1] text, const int64_t[::1] offsets, const int64_t[::1] rows, const uint8_t[::1] layout,
    const double[:, ::1] values, int n_threads=1,
):
    """Tab-separated rows of text and numbers.

    Parameters
    ----------
    text : buffer of uint8
        The variants' texts, one after the other.
    offsets : ndarray of int64, shape (2 p + 1,)
        Text A of variant j is ``text[offsets[2 j]:offsets[2 j + 1]]``, its text B the next one.
    rows : ndarray of int64, shape (m,)
        The variants, as rows of `offsets`.
    layout : bytes
        One code a field: ``A`` and ``B`` text; ``d`` integer, ``e`` as %.6e, ``f`` as %.3f, ``p`` as %.6e of a
        p-value and its -log10, which decides where the p-value is too small for a double.
    values : ndarray of float64, shape (number of codes other than A and B, with p counted twice; m)
        The numbers, in the order of their codes; integers must be below 2**53.
    n_threads : int
        Threads to use; the bytes do not depend on it.

    Returns
    -------
    list of memoryview
        Pieces of the text, in order.

    Raises
    ------
    ValueError
        Shapes do not agree or a row is out of range.
    """
    cdef int64_t m = rows.shape[0], p = (offsets.shape[0] - 1) // 2, n_numbers = 0, i, b, bound
    cdef int64_t n_blocks = max(1, min(n_threads, m // 64))
    for i in range(layout.shape[0]):
        n_numbers += (layout[i] != c'A' and layout[i] != c'B') + (layout[i] == c'p')
    if values.shape[0] != n_numbers or (n_numbers and values.shape[1] != m) or layout.shape[0] == 0:
        raise ValueError(f"values of shape {values.shape[0]} x {values.shape[1]}, expected {n_numbers} x {m}")
    if m == 0:
        return []
    at = np.zeros(n_blocks + 1, dtype=np.int64)
    cdef int64_t[::1] at_view = at
    cdef int64_t per_row = layout.shape[0] + n_numbers * DECIMAL_MAX_BYTES, n_text
    for b in range(n_blocks):
        bound = 0
        for i in range(b * m // n_blocks, (b + 1) * m // n_blocks):
            if not 0 <= rows[i] < p:
                raise ValueError(f"row {rows[i]} of {p} variants")
            n_text = offsets[2 * rows[i] + 2] - offsets[2 * rows[i]]
            if n_text < 0 or offsets[2 * rows[i]] < 0 or offsets[2 * rows[i] + 2] > text.shape[0]:
                raise ValueError("offsets outside the text")
            bound += n_text + per_row
        at_view[b + 1] = at_view[b] + bound
    out = np.empty(at[n_blocks], dtype=np.uint8)
    lengths = np.zeros(n_blocks, dtype=np.int64)
    cdef uint8_t[::1] out_view = out
    cdef int64_t[::1] lengths_view = lengths
    cdef const char *text_ptr = <const char *>&text[0] if text.shape[0] else NULL
    for b in prange(n_blocks, nogil=True, num_threads=n_blocks, schedule="static"):
        lengths_view[b] = write_rows(
            <char *>&out_view[at_view[b]], text_ptr, offsets, rows, layout, values,
            b * m // n_blocks, (b + 1) * m // n_blocks,
        )
    return [memoryview(out[at[b] : at[b] + lengths[b]]) for b in range(n_blocks)]


cdef int64_t write_matrix_rows(
    char *out, const double[:, :] values, int64_t start, int64_t stop
) noexcept nogil:
    """Rows start to stop of `format_matrix` at out; returns the number of bytes."""
    cdef char *at = out
    cdef int64_t i, j
    for i in range(start, stop):
        for j in range(values.shape[1]):
            at = decimal_write_g10(at, values[i, j])
            at[0] = c'\t'
            at += 1
        at[-1] = c'\n'
    return at - out


def format_matrix(const double[:, :] values, int n_threads=1):
    """Tab-separated rows of numbers as %.10g, the form of GEMMA's matrices.

    Parameters
    ----------
    values : ndarray of float64, shape (rows, columns), any strides
    n_threads : int
        Threads to use; the bytes do not depend on it.

    Returns
    -------
    list of memoryview
        Pieces of the text, in order.
    """
    cdef int64_t m = values.shape[0], b, n_blocks = max(1, min(n_threads, m))
    cdef int64_t width = values.shape[1] * (DECIMAL_MAX_BYTES + 1)
    if m == 0 or values.shape[1] == 0:
        return []
    out = np.empty(m * width, dtype=np.uint8)
    lengths = np.zeros(n_blocks, dtype=np.int64)
    cdef uint8_t[::1] out_view = out
    cdef int64_t[::1] lengths_view = lengths
    for b in prange(n_blocks, nogil=True, num_threads=n_blocks, schedule="static"):
        lengths_view[b] = write_matrix_rows(
            <char *>&out_view[b * m // n_blocks * width], values, b * m // n_blocks, (b + 1) * m // n_blocks
        )
    starts = [b * m // n_blocks * width for b in range(n_blocks)]
    return [memoryview(out[s : s + n]) for s, n in zip(starts, lengths, strict=True)]


def _write(double x, str form):
    """One number as text; `form` is "e6", "f3", "g10" or "int" (tests)."""
    cdef char text[64]
    cdef char *end = text
    if form == "e6":
        end = decimal_write_e6(text, x)
    elif form == "f3":
        end = decimal_write_f3(text, x)
    elif form == "g10":
        end = decimal_write_g10(text, x)
    else:
        end = decimal_write_int(text, <int64_t>x)
    return text[: end - text].decode()


def _write_many(const double[::1] x, str form):
    """Numbers as text, one a line (tests)."""
    out = np.empty(x.shape[0] * (DECIMAL_MAX_BYTES + 1) + 1, dtype=np.uint8)
    cdef uint8_t[::1] view = out
    cdef char *begin = <char *>&view[0]
    cdef char *at = begin
    cdef int64_t i
    cdef int kind = {"e6": 0, "f3": 1, "g10": 2}[form]
    with nogil:
        for i in range(x.shape[0]):
            if kind == 0:
                at = decimal_write_e6(at, x[i])
            elif kind == 1:
                at = decimal_write_f3(at, x[i])
            else:
                at = decimal_write_g10(at, x[i])
            at[0] = c'\n'
            at += 1
    return begin[: at - begin].decode()


def _write_p(double p, double neg_log10_p):
    """A p-value as text (tests)."""
    cdef char text[64]
    cdef char *end = decimal_write_p(text, p, neg_log10_p)
    return text[: end - text].decode()


def _count_slow():
    """How many numbers since the last call needed the C library (tests)."""
    return decimal_count_slow()
