/* The hot loops of the reduction of a symmetric matrix to a band of 8, one panel of 8 columns after the other.
 *
 * What bounds the reduction is reading the trailing matrix once per panel for Y = A V (band_symm). So:
 *
 * - The panels V and Y have 8 columns and contiguous rows: one row is one AVX-512 register, and an element of A meets
 *   it as a broadcast. Each element of the lower triangle is loaded once and used twice, for both of its indices.
 * - Columns of A go in groups (GROUP) whose rows of V and sums of Y stay in registers while the group runs down its
 *   rows: per row, one load of a row of V, one load and store of a row of Y, and 2 * GROUP fused multiply-adds.
 * - V and Y (64 bytes a row) stay in the L2 cache; A streams through, 8 columns at a time.
 *
 * The other kernels touch m x 8 and m x 128 panels, an order of magnitude less, and follow the same layout.
 */
#include "band.h"

#include <math.h>
#include <string.h>

#if defined(__AVX512F__)
#include <immintrin.h>
enum { GROUP = 8, TILE_K = 16, TILE_ROWS = 8 };
typedef __m512d v8;
static inline v8 load(const double *p) { return _mm512_loadu_pd(p); }
static inline void store(double *p, v8 a) { _mm512_storeu_pd(p, a); }
static inline v8 splat(double a) { return _mm512_set1_pd(a); }
static inline v8 fma8(v8 a, v8 b, v8 c) { return _mm512_fmadd_pd(a, b, c); }
static inline v8 fnma8(v8 a, v8 b, v8 c) { return _mm512_fnmadd_pd(a, b, c); }
#elif defined(__AVX2__)
#include <immintrin.h>
enum { GROUP = 2, TILE_K = 4, TILE_ROWS = 4 };
typedef struct {
    __m256d a, b;
} v8;
static inline v8 load(const double *p) { return (v8){_mm256_loadu_pd(p), _mm256_loadu_pd(p + 4)}; }
static inline void store(double *p, v8 x)
{
    _mm256_storeu_pd(p, x.a);
    _mm256_storeu_pd(p + 4, x.b);
}
static inline v8 splat(double x) { return (v8){_mm256_set1_pd(x), _mm256_set1_pd(x)}; }
static inline v8 fma8(v8 x, v8 y, v8 z)
{
    return (v8){_mm256_fmadd_pd(x.a, y.a, z.a), _mm256_fmadd_pd(x.b, y.b, z.b)};
}
static inline v8 fnma8(v8 x, v8 y, v8 z)
{
    return (v8){_mm256_fnmadd_pd(x.a, y.a, z.a), _mm256_fnmadd_pd(x.b, y.b, z.b)};
}
#else
/* Pairs: NEON has 32 registers of two doubles, SSE2 16 of them. */
#ifdef __aarch64__
#include <arm_neon.h>
enum { GROUP = 2, TILE_K = 4, TILE_ROWS = 4 };
typedef float64x2_t v2;
static inline v2 fma2(v2 a, v2 b, v2 c) { return vfmaq_f64(c, a, b); }
static inline v2 fnma2(v2 a, v2 b, v2 c) { return vfmsq_f64(c, a, b); }
#else
enum { GROUP = 1, TILE_K = 2, TILE_ROWS = 2 };
typedef double v2 __attribute__((vector_size(16)));
static inline v2 fma2(v2 a, v2 b, v2 c) { return a * b + c; }
static inline v2 fnma2(v2 a, v2 b, v2 c) { return c - a * b; }
#endif
typedef struct {
    v2 a, b, c, d;
} v8;
static inline v8 load(const double *p)
{
    v8 x;
    memcpy(&x, p, sizeof x);
    return x;
}
static inline void store(double *p, v8 x) { memcpy(p, &x, sizeof x); }
static inline v8 splat(double a)
{
    const v2 x = {a, a};
    return (v8){x, x, x, x};
}
static inline v8 fma8(v8 x, v8 y, v8 z)
{
    return (v8){fma2(x.a, y.a, z.a), fma2(x.b, y.b, z.b), fma2(x.c, y.c, z.c), fma2(x.d, y.d, z.d)};
}
static inline v8 fnma8(v8 x, v8 y, v8 z)
{
    return (v8){fnma2(x.a, y.a, z.a), fnma2(x.b, y.b, z.b), fnma2(x.c, y.c, z.c), fnma2(x.d, y.d, z.d)};
}
#endif

/* c - a b of one element, rounded as fnma8 rounds it. */
static inline double fnma1(double a, double b, double c)
{
#if defined(__FMA__) || defined(__aarch64__)
    return __builtin_fma(-a, b, c);
#else
    return c - a * b;
#endif
}

static inline void add_product(double *y, double a, const double *v)
{
    store(y, fma8(splat(a), load(v), load(y)));
}

/* The elements of columns j .. j+width-1 down to row j+width-1: their triangle at the diagonal. */
static inline void symm_triangle(const double *a, int64_t lda, int64_t j, int64_t width, const double *v, double *y)
{
    for (int64_t c = j; c < j + width; c++) {
        add_product(y + 8 * c, a[c * lda + c], v + 8 * c);
        for (int64_t i = c + 1; i < j + width; i++) {
            add_product(y + 8 * i, a[c * lda + i], v + 8 * c);
            add_product(y + 8 * c, a[c * lda + i], v + 8 * i);
        }
    }
}

void KERNEL(band_symm)(const double *a, int64_t lda, int64_t m, int64_t c0, int64_t c1, const double *v, double *y)
{
    int64_t j = c0;
    for (; j + GROUP <= c1; j += GROUP) {
        symm_triangle(a, lda, j, GROUP, v, y);
        v8 column[GROUP], sum[GROUP];
        const double *below[GROUP];
        for (int c = 0; c < GROUP; c++) {
            column[c] = load(v + 8 * (j + c));
            sum[c] = splat(0.0);
            below[c] = a + (j + c) * lda;
        }
        for (int64_t i = j + GROUP; i < m; i++) {
            const v8 vi = load(v + 8 * i);
            v8 yi = load(y + 8 * i);
#pragma GCC unroll 8
            for (int c = 0; c < GROUP; c++) {
                const v8 element = splat(below[c][i]);
                yi = fma8(element, column[c], yi);
                sum[c] = fma8(element, vi, sum[c]);
            }
            store(y + 8 * i, yi);
        }
        for (int c = 0; c < GROUP; c++)
            store(y + 8 * (j + c), fma8(splat(1.0), sum[c], load(y + 8 * (j + c))));
    }
    for (; j < c1; j++) {
        symm_triangle(a, lda, j, 1, v, y);
        for (int64_t i = j + 1; i < m; i++) {
            add_product(y + 8 * i, a[j * lda + i], v + 8 * j);
            add_product(y + 8 * j, a[j * lda + i], v + 8 * i);
        }
    }
}

void KERNEL(band_dot)(const double *x, int64_t ldx, int64_t k, const double *v, int64_t rows, double *out)
{
    for (int64_t first = 0; first < k;) {
        const int64_t width = k - first < TILE_K ? k - first : TILE_K;
        if (width == TILE_K) {
            v8 sum[TILE_K];
            for (int c = 0; c < TILE_K; c++)
                sum[c] = splat(0.0);
            for (int64_t i = 0; i < rows; i++) {
                const v8 vi = load(v + 8 * i);
                const double *xi = x + i * ldx + first;
#pragma GCC unroll 16
                for (int c = 0; c < TILE_K; c++)
                    sum[c] = fma8(splat(xi[c]), vi, sum[c]);
            }
            for (int c = 0; c < TILE_K; c++)
                store(out + 8 * (first + c), sum[c]);
        } else { /* 8 of the 16 of an AVX-512 tile */
            v8 sum[8];
            for (int c = 0; c < 8; c++)
                sum[c] = splat(0.0);
            for (int64_t i = 0; i < rows; i++) {
                const v8 vi = load(v + 8 * i);
                const double *xi = x + i * ldx + first;
#pragma GCC unroll 8
                for (int c = 0; c < 8; c++)
                    sum[c] = fma8(splat(xi[c]), vi, sum[c]);
            }
            for (int c = 0; c < 8; c++)
                store(out + 8 * (first + c), sum[c]);
        }
        first += width;
    }
}

void KERNEL(band_update)(const double *x, int64_t ldx, int64_t k, const double *s, double *y, int64_t ldy,
                         int64_t rows)
{
    int64_t i = 0;
    for (; i + TILE_ROWS <= rows; i += TILE_ROWS) {
        v8 sum[TILE_ROWS];
        for (int r = 0; r < TILE_ROWS; r++)
            sum[r] = load(y + (i + r) * ldy);
        for (int64_t c = 0; c < k; c++) {
            const v8 sc = load(s + 8 * c);
#pragma GCC unroll 8
            for (int r = 0; r < TILE_ROWS; r++)
                sum[r] = fnma8(splat(x[(i + r) * ldx + c]), sc, sum[r]);
        }
        for (int r = 0; r < TILE_ROWS; r++)
            store(y + (i + r) * ldy, sum[r]);
    }
    for (; i < rows; i++) {
        v8 sum = load(y + i * ldy);
        for (int64_t c = 0; c < k; c++)
            sum = fnma8(splat(x[i * ldx + c]), load(s + 8 * c), sum);
        store(y + i * ldy, sum);
    }
}

/* Products of column c with all 8, over the rows below row c. */
static void column_products(const double *p, int64_t rows, int64_t c, double *s)
{
    v8 sum = splat(0.0);
    for (int64_t i = c + 1; i < rows; i++)
        sum = fma8(splat(p[8 * i + c]), load(p + 8 * i), sum);
    store(s, sum);
}

/* One row below c: column c becomes the reflector's element, the others lose factor times it; returns the row, of which
 * lane c is not valid, and its element of column c + 1. That one is computed again and not read back, which would wait
 * for the store; but to the same bit, since after cancellation the last bits are all that is left of a column. */
static inline v8 reflect_row(double *row, int64_t c, double inverse, const double *factor, double *next)
{
    const double element = row[c] * inverse;
    *next = fnma1(element, factor[c + 1], row[c + 1]);
    const v8 rest = fnma8(splat(element), load(factor), load(row));
    store(row, rest);
    row[c] = element;
    return rest;
}

/* Rows from `first` on: reflector c, and in the same pass the products of column c + 1, of which there is one for
 * c < 7, with all columns. Four sums hide the latency of the adds. */
static void reflect_rows(double *p, int64_t first, int64_t rows, int64_t c, double inverse, const double *factor,
                         double *s)
{
    v8 sum[4] = {splat(0.0), splat(0.0), splat(0.0), splat(0.0)};
    double next;
    int64_t i = first;
    for (; i + 4 <= rows; i += 4) {
#pragma GCC unroll 4
        for (int r = 0; r < 4; r++) {
            const v8 row = reflect_row(p + 8 * (i + r), c, inverse, factor, &next);
            sum[r] = fma8(splat(next), row, sum[r]);
        }
    }
    for (; i < rows; i++) {
        const v8 row = reflect_row(p + 8 * i, c, inverse, factor, &next);
        sum[0] = fma8(splat(next), row, sum[0]);
    }
    const v8 one = splat(1.0);
    store(s, fma8(one, fma8(one, sum[0], sum[1]), fma8(one, sum[2], sum[3])));
}

/* Squared length below which a column counts as 0: its squares would lose bits to underflow, and a reflector with a
 * wrong length is not orthogonal. The matrix is of magnitude 1, so nothing is lost. */
#define NEGLIGIBLE 1e-200

void KERNEL(band_qr)(double *p, int64_t rows, int64_t n_reflectors, double *tau)
{
    double s[8], factor[9] = {0.0};
    column_products(p, rows, 0, s);
    for (int64_t c = 0; c < 8; c++) {
        tau[c] = 0.0;
        if (c >= n_reflectors)
            continue;
        double *const row = p + 8 * c;
        const double alpha = row[c], below = s[c];
        double inverse = 0.0;
        if (below > NEGLIGIBLE) {
            const double beta = -copysign(sqrt(alpha * alpha + below), alpha);
            tau[c] = (beta - alpha) / beta;
            inverse = 1.0 / (alpha - beta);
            row[c] = beta;
        }
        for (int64_t k = 0; k < 8; k++) { /* v'x of column k, v = (1, p / (alpha - beta)) */
            factor[k] = k > c ? tau[c] * (row[k] + s[k] * inverse) : 0.0;
            if (k > c)
                row[k] -= factor[k];
        }
        if (c + 1 < rows) /* row c + 1 holds the next column's alpha, which is no part of its products */
            reflect_rows(p, c + 1, c + 2, c, inverse, factor, s);
        reflect_rows(p, c + 2, rows, c, inverse, factor, s);
    }
}
