"""Numbers and fields of lines of text to arrays.

The caller gives whole lines; each thread parses lines of its own and reports, for every line, how many fields it has
and the first that is not a number. Nothing here knows files, names or errors.
"""
from cython.parallel cimport prange
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memchr, memcmp

import numpy as np

include "decimal.pxi"


def line_starts(const uint8_t[::1] data):
    r"""Where each line begins, and, last, the length of the data (one more where the last line has no ``\n``).

    Parameters
    ----------
    data : buffer of uint8

    Returns
    -------
    ndarray of int64, shape (lines + 1,)
        Line i is ``data[starts[i]:starts[i + 1] - 1]``.
    """
    cdef int64_t n = data.shape[0], count = 0, i
    if n == 0:
        return np.zeros(1, dtype=np.int64)
    cdef const char *begin = <const char *>&data[0]
    cdef const char *end = begin + n
    cdef const char *at = begin
    with nogil:
        while at < end:
            at = <const char *>memchr(at, c'\n', end - at)
            if at == NULL:
                break
            at += 1
            count += 1
    cdef int64_t open_line = begin[n - 1] != c'\n'
    starts = np.zeros(count + open_line + 1, dtype=np.int64)
    cdef int64_t[::1] view = starts
    at = begin
    with nogil:
        for i in range(count):
            at = <const char *>memchr(at, c'\n', end - at) + 1
            view[i + 1] = at - begin
        if open_line:
            view[count + 1] = n + 1
    return starts


cdef inline bint is_delimiter(char c) noexcept nogil:
    return c == c' ' or c == c'\t' or c == c',' or c == c'\r'


cdef void parse_line(
    const char *s, const char *end, double *out, int64_t n_columns, int64_t *count, int64_t *bad
) noexcept nogil:
    """The numbers of one line, their count, and the index of the first field that is not a number (-1: none)."""
    cdef int64_t k = 0
    cdef double x = 0
    cdef const char *after
    bad[0] = -1
    while True:
        while s < end and is_delimiter(s[0]):
            s += 1
        if s == end:
            break
        after = decimal_read(s, end, &x)
        if after == NULL or (after < end and not is_delimiter(after[0])):
            if bad[0] < 0:
                bad[0] = k
            after = s
            while after < end and not is_delimiter(after[0]):
                after += 1
        elif k < n_columns:
            out[k] = x
        s = after
        k += 1
    count[0] = k


def parse_numbers(const uint8_t[::1] data, const int64_t[::1] starts, double[:, ::1] out, int n_threads=1):
    """Numbers of whole lines; any run of space, tab, comma and carriage return separates two.

    Parameters
    ----------
    data : buffer of uint8
        Lines, of which line i is ``data[starts[i]:starts[i + 1] - 1]``.
    starts : ndarray of int64, shape (lines + 1,)
        As from `line_starts`.
    out : ndarray of float64, shape (lines, columns)
        Filled with the first numbers of each line; entries that a line lacks, or that are no numbers, are left.
    n_threads : int
        Threads to use.

    Returns
    -------
    counts, bad : ndarray of int64, shape (lines,)
        Fields in each line, and the index of the first that is not a number, or -1.
    """
    cdef int64_t m = starts.shape[0] - 1, n_columns = out.shape[1], i
    if out.shape[0] != m or (m and (starts[0] < 0 or starts[m] > data.shape[0] + 1)):
        raise ValueError(f"{m} lines, room for {out.shape[0]}")
    counts = np.zeros(m, dtype=np.int64)
    bad = np.full(m, -1, dtype=np.int64)
    cdef int64_t[::1] counts_view = counts, bad_view = bad
    if m == 0 or data.shape[0] == 0:
        return counts, bad
    cdef double dummy = 0
    cdef double *first = &out[0, 0] if n_columns else &dummy
    cdef const char *begin = <const char *>&data[0]
    for i in prange(m, nogil=True, num_threads=n_threads, schedule="dynamic", chunksize=16):
        parse_line(
            begin + starts[i], begin + starts[i + 1] - 1, first + i * n_columns, n_columns, &counts_view[i],
            &bad_view[i],
        )
    return counts, bad


cdef int64_t parse_fields(
    const char *s, const char *end, const int32_t *wanted, int64_t n_wanted, double **numbers,
    int64_t **token_starts, int64_t row, const char *begin
) noexcept nogil:
    """Wanted fields of one tab-separated line; returns its number of fields, or -1 - column of a non-number."""
    cdef int64_t column = 0, w = 0
    cdef const char *stop
    cdef const char *after
    cdef double x = 0
    if end > s and end[-1] == c'\r':
        end -= 1
    while True:
        stop = <const char *>memchr(s, c'\t', end - s)
        if stop == NULL:
            stop = end
        while w < n_wanted and wanted[w] == column:
            if numbers[w] != NULL:
                after = decimal_read(s, stop, &x)
                if after != stop:
                    return -1 - column
                numbers[w][row] = x
            else:
                token_starts[w][2 * row] = s - begin
                token_starts[w][2 * row + 1] = stop - begin
            w += 1
        column += 1
        if stop == end:
            return column
        s = stop + 1


def parse_table(const uint8_t[::1] data, const int64_t[::1] starts, columns, outputs, int n_threads=1):
    """Some columns of whole tab-separated lines.

    Parameters
    ----------
    data, starts
        As in `parse_numbers`.
    columns : sequence of int
        The columns wanted, ascending.
    outputs : sequence of ndarray
        For each of `columns`: float64 of shape (lines,), filled with numbers; or int64 of shape (lines, 2), filled
        with begin and end of the field's text in `data`.
    n_threads : int
        Threads to use.

    Returns
    -------
    ndarray of int64, shape (lines,)
        Fields in each line; ``-1 - column`` where that field should be a number and is not.
    """
    cdef int64_t m = starts.shape[0] - 1, i, w, n_wanted = len(columns)
    cdef double *numbers[64]
    cdef int64_t *tokens[64]
    cdef double[::1] f
    cdef int64_t[:, ::1] t
    if n_wanted > 64 or len(outputs) != n_wanted or list(columns) != sorted(columns):
        raise ValueError("at most 64 columns, ascending, each with its output")
    if m and (starts[0] < 0 or starts[m] > data.shape[0] + 1):
        raise ValueError("lines outside the data")
    counts = np.zeros(m, dtype=np.int64)
    if m == 0 or data.shape[0] == 0:
        return counts
    cdef int32_t[::1] wanted = np.asarray(columns, dtype=np.int32).reshape(-1)
    for w in range(n_wanted):
        numbers[w] = NULL
        tokens[w] = NULL
        if len(outputs[w]) != m:
            raise ValueError(f"{m} lines, output for {len(outputs[w])}")
        if outputs[w].ndim == 1:
            f = outputs[w]
            numbers[w] = &f[0]
        else:
            t = outputs[w]
            if t.shape[1] != 2:
                raise ValueError("text columns need an output of shape (lines, 2)")
            tokens[w] = &t[0, 0]
    cdef int64_t[::1] counts_view = counts
    cdef const char *begin = <const char *>&data[0]
    cdef const int32_t *wanted_ptr = &wanted[0] if n_wanted else NULL
    for i in prange(m, nogil=True, num_threads=n_threads, schedule="dynamic", chunksize=256):
        counts_view[i] = parse_fields(
            begin + starts[i], begin + starts[i + 1] - 1, wanted_ptr, n_wanted, numbers, tokens, i, begin
        )
    return counts


def runs(const uint8_t[::1] data, const int64_t[:, ::1] tokens):
    """Rows whose text differs from the row before: where a new run of equal texts begins.

    Parameters
    ----------
    data : buffer of uint8
    tokens : ndarray of int64, shape (m, 2)
        Begin and end of each row's text in `data`.

    Returns
    -------
    ndarray of int64
        Row numbers, ascending; the first is 0 where m > 0.
    """
    cdef int64_t m = tokens.shape[0], i, n
    is_new = np.ones(m, dtype=np.uint8)
    cdef uint8_t[::1] view = is_new
    with nogil:
        for i in range(1, m):
            n = tokens[i, 1] - tokens[i, 0]
            if n == tokens[i - 1, 1] - tokens[i - 1, 0]:
                view[i] = n > 0 and memcmp(&data[tokens[i, 0]], &data[tokens[i - 1, 0]], n) != 0
    return np.flatnonzero(is_new)


def read_number(bytes text):
    """The number that is all of `text`, None where it is not one."""
    cdef double x = 0
    cdef const char *s = text
    if len(text) == 0 or decimal_read(s, s + len(text), &x) != s + len(text):
        return None
    return x


def _count_slow():
    """How many numbers since the last call needed the C library (tests)."""
    return decimal_count_slow()
