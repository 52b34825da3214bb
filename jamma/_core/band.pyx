"""Reduction of a symmetric matrix to a band of 8, A = Q B Qᵀ.

The first of the two stages of Bischof, Lang and Sun (ACM TOMS 26, 2000), with the updates delayed as in LAPACK's
DLATRD: panels of 8 columns, outer blocks of 8 panels. Within an outer block the trailing matrix is A − V Wᵀ − W Vᵀ
with the A
of the block's start, so that a panel

1. takes its own columns out of that (`panel_rows`),
2. is factored, its 8 columns below the band being V_p and R (`factor_panel`),
3. multiplies Y = A V_p − V (Wᵀ V_p) − W (Vᵀ V_p), which reads the lower triangle of A once (`multiply`, `collect`),
4. gives W_p = Y T − ½ V_p Tᵀ(V_pᵀ Y T) (`write_back`), since (I − V T Vᵀ)ᵀ A (I − V T Vᵀ) = A − V Wᵀ − W Vᵀ;

and only at the block's end are V and W applied to A, 128 columns at once, by DGEMM on tiles. A is thus read once per 8
columns, where DSYTRD reads it once per column; that reading is what both of them wait for.

Rows are shared out to the threads in fixed pieces, whatever their number, and pieces are summed in order, so the band
does not depend on the number of threads. The BLAS is to have one thread here: DGEMM is called from each of ours.
"""
from cython.parallel cimport prange
from libc.math cimport sqrt
from libc.string cimport memcpy, memset

from jamma._blas.blas cimport available, blas_int, gemm, NOT_LOADED

include "levels.pxi"


cdef extern from *:
    """
    #include "band.h"
    static band_symm_fn *const band_symm_table[] = JAMMA_TABLE(band_symm);
    static band_dot_fn *const band_dot_table[] = JAMMA_TABLE(band_dot);
    static band_update_fn *const band_update_table[] = JAMMA_TABLE(band_update);
    static band_qr_fn *const band_qr_table[] = JAMMA_TABLE(band_qr);
    static inline band_symm_fn *band_symm_now(void) { return JAMMA_PICK(band_symm_table); }
    static inline band_dot_fn *band_dot_now(void) { return JAMMA_PICK(band_dot_table); }
    static inline band_update_fn *band_update_now(void) { return JAMMA_PICK(band_update_table); }
    static inline band_qr_fn *band_qr_now(void) { return JAMMA_PICK(band_qr_table); }
    """
    enum:
        JAMMA_BAND
    ctypedef void band_symm_fn(
        const double *a, blas_int lda, blas_int m, blas_int c0, blas_int c1, const double *v, double *y) noexcept nogil
    ctypedef void band_dot_fn(
        const double *x, blas_int ldx, blas_int k, const double *v, blas_int rows, double *out) noexcept nogil
    ctypedef void band_update_fn(
        const double *x, blas_int ldx, blas_int k, const double *s, double *y, blas_int ldy,
        blas_int rows) noexcept nogil
    ctypedef void band_qr_fn(double *p, blas_int rows, blas_int n_reflectors, double *tau) noexcept nogil
    band_symm_fn *band_symm_now() noexcept nogil
    band_dot_fn *band_dot_now() noexcept nogil
    band_update_fn *band_update_now() noexcept nogil
    band_qr_fn *band_qr_now() noexcept nogil

cdef enum:
    PANELS = 8                      # panels of an outer block
    WIDTH = 2 * JAMMA_BAND * PANELS  # columns of V and W of an outer block, panel by panel: V_0 W_0 V_1 W_1 …
    ROWS = 256                      # rows of one piece of a panel
    SUMS = JAMMA_BAND * (WIDTH + JAMMA_BAND)  # what a piece gives: (V, W)ᵀ V_p and V_pᵀ V_p
    CHUNK = 256                     # about n / CHUNK pieces of the triangle, each with its own Y
    MAX_CHUNKS = 64
    TILE_COLUMNS = 256              # of one DGEMM at a block's end
    TILE_ROWS = 1024

cdef struct Reduction:
    double* a            # n × n, column-major, lower triangle
    blas_int n
    int n_threads
    double* tau          # n − 8
    double* panel        # rows of 8: the panel's own 8 rows, then V_p; one row more than n
    double* x            # n × WIDTH: V and W of the outer block, row 0 is the block's first
    double* swapped      # the same with V and W exchanged
    double* y            # n × 8
    double* chunk_y      # MAX_CHUNKS or fewer times n × 8
    double* sums         # one SUMS for each piece of ROWS rows
    blas_int start       # first column of the outer block
    blas_int column      # first column of the panel
    blas_int k           # columns of x in use: 16 for each panel before this one
    blas_int n_chunks
    blas_int chunk_start[MAX_CHUNKS + 1]
    double top[JAMMA_BAND * JAMMA_BAND]     # the first 8 rows of the factored panel: R, and V below its diagonal
    double t[JAMMA_BAND * JAMMA_BAND]       # −T, by rows
    double s[JAMMA_BAND * WIDTH]            # factors of x


cdef inline blas_int pieces(blas_int rows) noexcept nogil:
    return (rows + ROWS - 1) // ROWS


cdef void panel_rows(Reduction* r, blas_int piece) noexcept nogil:
    """One piece of the panel: its columns of A, less those of V Wᵀ + W Vᵀ."""
    cdef blas_int first = piece * ROWS
    cdef blas_int rows = min(<blas_int>ROWS, r.n - r.column - first)
    cdef const double* a = r.a + r.column * r.n + r.column + first
    cdef double* p = r.panel + JAMMA_BAND * first
    cdef blas_int i, c
    for i in range(rows):
        for c in range(JAMMA_BAND):
            p[i * JAMMA_BAND + c] = a[c * r.n + i]
    band_update_now()(r.x + (r.column - r.start + first) * WIDTH, WIDTH, r.k, r.s, p, JAMMA_BAND, rows)


cdef void panel_factors(Reduction* r) noexcept nogil:
    """s for `panel_rows`: W and V in the panel's own 8 rows, transposed."""
    cdef const double* rows = r.swapped + (r.column - r.start) * WIDTH
    cdef blas_int k, c
    for k in range(r.k):
        for c in range(JAMMA_BAND):
            r.s[k * JAMMA_BAND + c] = rows[c * WIDTH + k]


cdef void factor_panel(Reduction* r, blas_int rows) noexcept nogil:
    """QR of the panel below the band; its first rows go to r.top, and V_p gets its ones and zeros there."""
    cdef double* v = r.panel + JAMMA_BAND * JAMMA_BAND
    cdef blas_int n_reflectors = min(<blas_int>JAMMA_BAND, rows - 1)
    cdef blas_int i, c
    cdef double tau[JAMMA_BAND]
    band_qr_now()(v, rows, n_reflectors, tau)
    for c in range(min(<blas_int>JAMMA_BAND, rows)):
        r.tau[r.column + c] = tau[c]
    memcpy(r.top, v, min(<blas_int>JAMMA_BAND, rows) * JAMMA_BAND * sizeof(double))
    for i in range(min(<blas_int>JAMMA_BAND, rows)):
        for c in range(i, JAMMA_BAND):
            v[i * JAMMA_BAND + c] = 1.0 if c == i and c < n_reflectors else 0.0


cdef void share_triangle(Reduction* r, blas_int rows) noexcept nogil:
    """Columns of a triangle in pieces of about equal area, whose number depends on its size alone."""
    cdef blas_int c
    r.n_chunks = min(<blas_int>MAX_CHUNKS, 2 * max(<blas_int>1, rows // (2 * CHUNK)))
    for c in range(r.n_chunks + 1):  # the columns from x on hold (1 − x/m)² of the area
        r.chunk_start[c] = min(rows, <blas_int>(
            rows * (1.0 - sqrt(<double>(r.n_chunks - c) / <double>r.n_chunks))) // JAMMA_BAND * JAMMA_BAND)
    r.chunk_start[r.n_chunks] = rows


cdef void multiply(Reduction* r, blas_int task, blas_int rows) noexcept nogil:
    """A V_p of one piece of the triangle, or the sums over one piece of rows."""
    cdef blas_int start = r.column + JAMMA_BAND
    cdef const double* v = r.panel + JAMMA_BAND * JAMMA_BAND
    cdef blas_int first = r.chunk_start[task] if task < r.n_chunks else (task - r.n_chunks) * ROWS
    cdef blas_int count
    cdef double* sums
    if task < r.n_chunks:
        # rows above the piece's first column get nothing from it
        memset(r.chunk_y + (task * r.n + first) * JAMMA_BAND, 0, (rows - first) * JAMMA_BAND * sizeof(double))
        band_symm_now()(
            r.a + start * r.n + start, r.n, rows, first, r.chunk_start[task + 1], v,
            r.chunk_y + task * r.n * JAMMA_BAND)
    else:
        sums = r.sums + (task - r.n_chunks) * SUMS
        count = min(<blas_int>ROWS, rows - first)
        band_dot_now()(
            r.x + (start - r.start + first) * WIDTH, WIDTH, r.k, v + first * JAMMA_BAND, count, sums)
        band_dot_now()(
            v + first * JAMMA_BAND, JAMMA_BAND, JAMMA_BAND, v + first * JAMMA_BAND, count, sums + r.k * JAMMA_BAND)


cdef void add_up(Reduction* r, blas_int n_pieces, blas_int size) noexcept nogil:
    """The pieces' sums, added to those of the first."""
    cdef blas_int piece, i
    for piece in range(1, n_pieces):
        for i in range(size):
            r.sums[i] += r.sums[piece * SUMS + i]


cdef void panel_t(Reduction* r) noexcept nogil:
    """−T of the panel from V_pᵀ V_p and tau, by rows; and s for `collect`, where V meets Wᵀ V_p and W meets Vᵀ V_p."""
    cdef const double* gram = r.sums + r.k * JAMMA_BAND
    cdef blas_int i, j, l, k
    cdef double total, tau
    memset(r.t, 0, sizeof(r.t))
    for j in range(JAMMA_BAND):
        tau = r.tau[r.column + j] if r.column + j < r.n - JAMMA_BAND else 0.0
        r.t[j * JAMMA_BAND + j] = -tau
        for i in range(j):
            total = 0.0
            for l in range(i, j):
                total += r.t[i * JAMMA_BAND + l] * gram[l * JAMMA_BAND + j]
            r.t[i * JAMMA_BAND + j] = -tau * total
    for k in range(r.k):
        memcpy(r.s + (k ^ JAMMA_BAND) * JAMMA_BAND, r.sums + k * JAMMA_BAND, JAMMA_BAND * sizeof(double))


cdef void collect(Reduction* r, blas_int piece, blas_int rows) noexcept nogil:
    """One piece of rows of Y, and its part of V_pᵀ Y."""
    cdef blas_int first = piece * ROWS
    cdef blas_int count = min(<blas_int>ROWS, rows - first)
    cdef blas_int start = r.column + JAMMA_BAND
    cdef double* y = r.y + first * JAMMA_BAND
    cdef const double* chunk_y
    cdef blas_int c, i
    memset(y, 0, count * JAMMA_BAND * sizeof(double))
    for c in range(r.n_chunks):
        if r.chunk_start[c] >= first + count:
            break
        chunk_y = r.chunk_y + (c * r.n + first) * JAMMA_BAND
        for i in range(max(<blas_int>0, r.chunk_start[c] - first) * JAMMA_BAND, count * JAMMA_BAND):
            y[i] += chunk_y[i]
    band_update_now()(
        r.x + (start - r.start + first) * WIDTH, WIDTH, r.k, r.s, y, JAMMA_BAND, count)
    band_dot_now()(
        y, JAMMA_BAND, JAMMA_BAND, r.panel + (JAMMA_BAND + first) * JAMMA_BAND, count, r.sums + piece * SUMS)


cdef void panel_w(Reduction* r) noexcept nogil:
    """½ Tᵀ(V_pᵀ Y) T, by rows, in s; r.sums holds Yᵀ V_p."""
    cdef double half[JAMMA_BAND * JAMMA_BAND]
    cdef blas_int i, j, l
    cdef double total
    for i in range(JAMMA_BAND):  # (Vᵀ Y) T, and −T twice gives + again
        for j in range(JAMMA_BAND):
            total = 0.0
            for l in range(JAMMA_BAND):
                total += r.sums[l * JAMMA_BAND + i] * r.t[l * JAMMA_BAND + j]
            half[i * JAMMA_BAND + j] = 0.5 * total
    for i in range(JAMMA_BAND):
        for j in range(JAMMA_BAND):
            total = 0.0
            for l in range(JAMMA_BAND):
                total += r.t[l * JAMMA_BAND + i] * half[l * JAMMA_BAND + j]
            r.s[i * JAMMA_BAND + j] = total


cdef void write_back(Reduction* r, blas_int piece, blas_int rows) noexcept nogil:
    """One piece of rows of V_p and W_p in x, and of the panel in A."""
    cdef blas_int first = piece * ROWS
    cdef blas_int count = min(<blas_int>ROWS, rows - first)
    cdef blas_int start = r.column + JAMMA_BAND
    cdef const double* v = r.panel + (JAMMA_BAND + first) * JAMMA_BAND
    cdef double* x = r.x + (start - r.start + first) * WIDTH + r.k
    cdef double* swapped = r.swapped + (start - r.start + first) * WIDTH + r.k
    cdef double* a = r.a + r.column * r.n + start + first
    cdef const double* w
    cdef blas_int i, c
    for i in range(count):
        memcpy(x + i * WIDTH, v + i * JAMMA_BAND, JAMMA_BAND * sizeof(double))
        memset(x + i * WIDTH + JAMMA_BAND, 0, JAMMA_BAND * sizeof(double))
    band_update_now()(
        r.y + first * JAMMA_BAND, JAMMA_BAND, JAMMA_BAND, r.t, x + JAMMA_BAND, WIDTH, count)
    band_update_now()(v, JAMMA_BAND, JAMMA_BAND, r.s, x + JAMMA_BAND, WIDTH, count)
    for i in range(count):
        memcpy(swapped + i * WIDTH, x + i * WIDTH + JAMMA_BAND, JAMMA_BAND * sizeof(double))
        memcpy(swapped + i * WIDTH + JAMMA_BAND, x + i * WIDTH, JAMMA_BAND * sizeof(double))
        w = v + i * JAMMA_BAND
        if first + i < JAMMA_BAND:
            w = &r.top[i * JAMMA_BAND]
        for c in range(JAMMA_BAND):
            a[c * r.n + i] = w[c]


cdef void own_rows(Reduction* r) noexcept nogil:
    """The panel's own 8 rows, which belong to the band, back to A."""
    cdef double* a = r.a + r.column * r.n + r.column
    cdef blas_int i, c
    for c in range(JAMMA_BAND):
        for i in range(JAMMA_BAND):
            a[c * r.n + i] = r.panel[i * JAMMA_BAND + c]


cdef void reduce_panel(Reduction* r) noexcept nogil:
    """The panel at r.column."""
    cdef blas_int rows = r.n - r.column - JAMMA_BAND
    cdef blas_int n_pieces = pieces(rows)
    cdef blas_int n_panel_pieces = pieces(rows + JAMMA_BAND)
    cdef int n_threads = r.n_threads
    cdef blas_int i
    panel_factors(r)
    for i in prange(n_panel_pieces, num_threads=n_threads, schedule="static"):
        panel_rows(r, i)
    own_rows(r)
    factor_panel(r, rows)
    share_triangle(r, rows)
    for i in prange(r.n_chunks + n_pieces, num_threads=n_threads, schedule="dynamic"):
        multiply(r, i, rows)
    add_up(r, n_pieces, (r.k + JAMMA_BAND) * JAMMA_BAND)
    panel_t(r)
    for i in prange(n_pieces, num_threads=n_threads, schedule="static"):
        collect(r, i, rows)
    add_up(r, n_pieces, JAMMA_BAND * JAMMA_BAND)
    panel_w(r)
    for i in prange(n_pieces, num_threads=n_threads, schedule="static"):
        write_back(r, i, rows)
    r.column += JAMMA_BAND
    r.k += 2 * JAMMA_BAND


cdef void update_tile(Reduction* r, blas_int first, blas_int left) noexcept nogil:
    """A −= V Wᵀ + W Vᵀ on one tile. What it writes above the diagonal is never read."""
    cdef blas_int rows = min(<blas_int>TILE_ROWS, r.n - first)
    cdef blas_int columns = min(<blas_int>TILE_COLUMNS, r.n - left)
    gemm(
        c'T', c'N', rows, columns, r.k, -1.0, r.x + (first - r.start) * WIDTH, WIDTH,
        r.swapped + (left - r.start) * WIDTH, WIDTH, 1.0, r.a + left * r.n + first, r.n)


cdef void update_trailing(Reduction* r) noexcept nogil:
    """V and W of the outer block applied to what is right of it."""
    cdef blas_int n_left = (r.n - r.column + TILE_COLUMNS - 1) // TILE_COLUMNS
    cdef blas_int n_down = (r.n - r.column + TILE_ROWS - 1) // TILE_ROWS
    cdef int n_threads = r.n_threads
    cdef blas_int task, left, first
    for task in prange(n_left * n_down, num_threads=n_threads, schedule="dynamic"):
        left = r.column + task // n_down * TILE_COLUMNS
        first = left + task % n_down * TILE_ROWS
        if first < r.n:
            update_tile(r, first, left)


def reduce_to_band(double[::1, :] a, double[::1] tau, double[::1, :] band, int n_threads, double[::1] work):
    """Reduce a symmetric matrix to a band of 8, A = Q B Qᵀ.

    Parameters
    ----------
    a : (n, n) array, Fortran order, n ≥ 9
        Lower triangle of A, of magnitude about 1; becomes the reflectors that `reflectors.form_q` takes with shift 8.
    tau : (n − 8,) array
        Becomes their factors.
    band : (9, n) array, Fortran order
        Becomes B, ``band[k, j] = B[j + k, j]``, 0 where there is no such element.
    n_threads : int
        Threads; each calls DGEMM, so the BLAS must be held to one.
    work : array
        At least ``reduce_to_band_work(n)`` elements.

    Returns
    -------
    int
        0, or jamma._blas.blas.NOT_LOADED.
    """
    cdef Reduction r
    cdef blas_int n = a.shape[0]
    cdef blas_int j, k
    if not available():
        return NOT_LOADED
    r.a = &a[0, 0]
    r.n = n
    r.n_threads = n_threads
    r.tau = &tau[0]
    r.panel = <double*>((<size_t>&work[0] + 63) // 64 * 64)  # whole cache lines for the rows of 8
    r.x = r.panel + JAMMA_BAND * (n + 1)
    r.swapped = r.x + WIDTH * n
    r.y = r.swapped + WIDTH * n
    r.sums = r.y + JAMMA_BAND * n
    r.chunk_y = r.sums + SUMS * (pieces(n) + 1)
    with nogil:
        memset(r.tau, 0, (n - JAMMA_BAND) * sizeof(double))
        r.column = 0
        while n - r.column - JAMMA_BAND >= 2:  # with one row left below the band, there is nothing outside it
            r.start = r.column
            r.k = 0
            while r.k < WIDTH and n - r.column - JAMMA_BAND >= 2:
                reduce_panel(&r)
            update_trailing(&r)
        for j in range(n):
            for k in range(JAMMA_BAND + 1):
                band[k, j] = a[j + k, j] if j + k < n else 0.0
    return 0


def reduce_to_band_work(blas_int n):
    """Elements of `reduce_to_band`'s workspace."""
    cdef blas_int n_chunks = min(<blas_int>MAX_CHUNKS, 2 * max(<blas_int>1, n // (2 * CHUNK)))
    return 8 + JAMMA_BAND * (n + 1) + (2 * WIDTH + JAMMA_BAND) * n + SUMS * (pieces(n) + 1) + n_chunks * n * JAMMA_BAND
