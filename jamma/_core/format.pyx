"""Rows of text from arrays and back: .assoc.txt, kinship and eigen matrices; all numbers correctly rounded.

Writing: rows are split into one run of rows per thread, each run into its own stretch of one buffer that is large
enough for the longest text, so that nothing is shared and the bytes do not depend on the number of threads.
Reading: the caller gives whole lines; each thread parses lines of its own and reports, for every line, how many
fields it has and the first that is not a number. Nothing here knows files, names or errors.
"""
from cython.parallel cimport prange
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

import numpy as np


cdef extern from "decimal.h" nogil:
    int DECIMAL_MIN_POWER, DECIMAL_MAX_POWER, DECIMAL_MAX_BYTES
    void decimal_set_power(int k, uint64_t g, int t)
    char *decimal_write_e6(char *out, double x)
    char *decimal_write_f3(char *out, double x)
    char *decimal_write_g10(char *out, double x)
    char *decimal_write_p(char *out, double p, double neg_log10_p)
    char *decimal_write_int(char *out, int64_t x)
    const char *decimal_read(const char *s, const char *end, double *x)
    int64_t decimal_count_slow()


def _fill_powers():
    """Set the table of powers of ten, 10**k in [g, g + 1) * 2**t, from Python's integers."""
    for k in range(int(DECIMAL_MIN_POWER), int(DECIMAL_MAX_POWER) + 1):
        power = 10 ** int(abs(k))
        t = power.bit_length() - 64 if k >= 0 else -power.bit_length() - 63
        g = (power << 400) >> (400 + t) if k >= 0 else (1 << -t) // power
        if g >> 64:
            t += 1
            g >>= 1
        decimal_set_power(k, g, t)


_fill_powers()


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


def _read(bytes text):
    """The number that is all of `text`, or None (tests)."""
    cdef double x = 0
    cdef const char *s = text
    if len(text) == 0 or decimal_read(s, s + len(text), &x) != s + len(text):
        return None
    return x


def _count_slow():
    """How many numbers since the last call needed the C library (tests)."""
    return decimal_count_slow()
