/* Columns of doubles as digits in tiles; see rotate_amx.c. */
#ifdef JAMMA_LEVEL_amx

#include "rotate_amx.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

/* The power of two by which a column is multiplied so that it is an integer of six digits: its largest entry becomes
 * at most 0.99 * 2^47, since the digits are from -128 to 127. */
static int column_exponent(const double *column, int64_t n)
{
    double largest = 0.0;
    int exponent;
    for (int64_t i = 0; i < n; i++)
        largest = fabs(column[i]) > largest ? fabs(column[i]) : largest;
    if (largest == 0.0)
        return 0;
    const double fraction = frexp(largest, &exponent);
    exponent = DIGITS * BYTE_BITS - 1 - exponent - (fraction > 0.99);
    return exponent < 1000 ? exponent : 1000; /* 2^exponent is to be finite */
}

/* 8 x 8 doubles transposed: column[j] points to 8 samples of column j; rows are COLUMNS apart. */
static inline void transpose(const double *const *column, double *rows)
{
    __m512d a[8], b[8];
    for (int j = 0; j < 8; j += 2) { /* pairs of columns: samples 0 2 4 6, and 1 3 5 7 */
        const __m512d x = _mm512_loadu_pd(column[j]), y = _mm512_loadu_pd(column[j + 1]);
        a[j] = _mm512_unpacklo_pd(x, y);
        a[j + 1] = _mm512_unpackhi_pd(x, y);
    }
    for (int odd = 0; odd < 2; odd++) { /* four columns: samples 0 4 and 2 6 (of the odd ones: 1 5 and 3 7) */
        const __m512d x = a[odd], y = a[odd + 2], z = a[odd + 4], w = a[odd + 6];
        b[odd] = _mm512_shuffle_f64x2(x, y, 0x88);
        b[odd + 2] = _mm512_shuffle_f64x2(x, y, 0xDD);
        b[odd + 4] = _mm512_shuffle_f64x2(z, w, 0x88);
        b[odd + 6] = _mm512_shuffle_f64x2(z, w, 0xDD);
    }
    for (int i = 0; i < 4; i++) { /* x: columns 0 1 of samples i and i + 4, then columns 2 3 */
        const __m512d x = b[i], y = b[i + 4];
        _mm512_storeu_pd(rows + i * COLUMNS, _mm512_shuffle_f64x2(x, y, 0x88));
        _mm512_storeu_pd(rows + (i + 4) * COLUMNS, _mm512_shuffle_f64x2(x, y, 0xDD));
    }
}

/* 64 samples of the panel's columns to [sample][column]; samples and columns that do not exist are 0. */
static void gather_rows(const jamma_columns *columns, int64_t start, int64_t n_columns, int64_t depth, int64_t n_samples,
                        double *rows)
{
    static const double none[DEPTH];
    const int64_t first = depth * DEPTH, n = n_samples - first < DEPTH ? n_samples - first : DEPTH;
    const double *column[COLUMNS];
    double last[COLUMNS][DEPTH];
    for (int64_t j = 0; j < COLUMNS; j++) {
        column[j] = j < n_columns ? columns->data + (start + j) * columns->stride + first : none;
        if (n < DEPTH && j < n_columns) {
            memset(last[j], 0, sizeof last[j]);
            column[j] = memcpy(last[j], column[j], n * sizeof(double));
        }
    }
    for (int64_t i = 0; i < DEPTH; i += 8)
        for (int64_t j = 0; j < COLUMNS; j += 8) {
            transpose(column + j, rows + i * COLUMNS + j);
            for (int64_t k = j; k < j + 8; k++)
                column[k] += 8;
        }
}

/* The digits of 4 samples x 8 columns: bytes of round(rows * scale), each from -128 to 127, to six places of 32 bytes. */
static inline void write_digits(const double *rows, __m512d scale, int8_t *to, int64_t digit_stride)
{
    const __m512i bias = _mm512_set1_epi64(0x808080808080), flip = bias;
    const __m512i first_two = _mm512_setr_epi32(0, 16, 4, 20, 8, 24, 12, 28, 1, 17, 5, 21, 9, 25, 13, 29);
    __m512i s[4];
    for (int i = 0; i < 4; i++) {
        const __m512i integer = _mm512_cvtpd_epi64(_mm512_mul_pd(_mm512_loadu_pd(rows + i * COLUMNS), scale));
        s[i] = _mm512_xor_si512(_mm512_add_epi64(integer, bias), flip);
    }
    /* Byte d of sample i of column c to byte i of word d of column c, even columns and odd ones apart. */
    const __m512i even01 = _mm512_unpacklo_epi8(s[0], s[1]), even23 = _mm512_unpacklo_epi8(s[2], s[3]);
    const __m512i odd01 = _mm512_unpackhi_epi8(s[0], s[1]), odd23 = _mm512_unpackhi_epi8(s[2], s[3]);
    const __m512i even03 = _mm512_unpacklo_epi16(even01, even23), even45 = _mm512_unpackhi_epi16(even01, even23);
    const __m512i odd03 = _mm512_unpacklo_epi16(odd01, odd23), odd45 = _mm512_unpackhi_epi16(odd01, odd23);
    const __m512i next_two = _mm512_add_epi32(first_two, _mm512_set1_epi32(2));
    const __m512i pair[3] = {_mm512_permutex2var_epi32(even03, first_two, odd03),
                             _mm512_permutex2var_epi32(even03, next_two, odd03),
                             _mm512_permutex2var_epi32(even45, first_two, odd45)};
    for (int d = 0; d < DIGITS; d++) {
        const __m256i half = d % 2 ? _mm512_extracti64x4_epi64(pair[d / 2], 1) : _mm512_castsi512_si256(pair[d / 2]);
        _mm256_storeu_si256((__m256i *)(to + d * digit_stride), half);
    }
}

void amx_split_columns(const jamma_columns *columns, int64_t start, int64_t n_columns, int64_t n_samples, int keep_rows,
                       amx_block *b)
{
    double scale[COLUMNS] = {0};
    for (int64_t j = 0; j < n_columns; j++) {
        const int exponent = column_exponent(columns->data + (start + j) * columns->stride, n_samples);
        scale[j] = ldexp(1.0, exponent);
        b->unit[j] = ldexp(1.0, -exponent);
    }
    for (int64_t depth = 0; depth < b->n_depths; depth++) {
        double *rows = b->rows + (keep_rows ? depth * DEPTH * COLUMNS : 0);
        gather_rows(columns, start, n_columns, depth, n_samples, rows);
        for (int64_t i = 0; i < DEPTH; i += 4)
            for (int64_t j = 0; j < COLUMNS; j += 8)
                write_digits(rows + i * COLUMNS + j, _mm512_loadu_pd(scale + j),
                             b->digits + (depth * 2 + j / SIDE) * TILE + i / 4 * DEPTH + j % SIDE * 4,
                             b->n_depths * 2 * TILE);
    }
}

#endif
