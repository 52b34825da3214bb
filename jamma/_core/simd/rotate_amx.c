/* Products of packed variants with columns on the matrix unit (AMX), and their sums at the nodes.
 *
 * A column is written as an integer of 48 bits times a power of two that its largest entry sets, and the integer as six
 * signed digits in base 256. A product of a variant's 0, 1, 2 with a digit's column is then an exact sum of 8-bit
 * products in 32 bits (while n < 2^23), and the six sums are put together in double precision with one rounding. The
 * only error is that of writing down the column: at most 2^-47 of its largest entry, an entry, below what a sum of n
 * doubles loses. Being exact, the sums do not depend on any order.
 *
 * What is where, for a block of up to some thousand variants:
 * - the variants as bytes, in tiles of 16 variants x 64 samples, are made once per block and streamed;
 * - a panel of 32 columns as digits, 12 tiles of 64 samples x 16 columns per 64 samples, stays in the second level;
 * - 32 variants x 32 columns are rotated, put together and added to their sums while in the first level: two tiles of
 *   variants and two of digits give four products, which keeps loads from the second level at what it delivers.
 *
 * A missing call is 0 in the tiles. A variant's mean times the sum of the rows of its missing calls is added in double
 * precision: from a list of the calls, or, where a variant lacks so many that this would take longer, from one more
 * product, of the indicators of its missing calls.
 */
#ifdef JAMMA_LEVEL_amx

#include "rotate_amx.h"

#include <immintrin.h>
#include <string.h>

/* Adds the products of `n` depths of two tiles of calls with two of digits to `products`, or starts with them. Asks for
 * some lines of the next variants' tiles at each depth, so that all have come when all digits are done. */
static void multiply_tiles(const uint8_t *calls, const int8_t *digits, int64_t n, int is_first, const uint8_t *next,
                           int32_t *products)
{
    enum { ROW = SIDE * sizeof(int32_t) };
    if (is_first) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    } else {
        _tile_loadd(0, products, ROW);
        _tile_loadd(1, products + PRODUCT, ROW);
        _tile_loadd(2, products + 2 * PRODUCT, ROW);
        _tile_loadd(3, products + 3 * PRODUCT, ROW);
    }
    for (; n > 0; n--, calls += 2 * TILE, digits += 2 * TILE, next += 2 * TILE) {
        for (int i = 0; i < LINES_AHEAD; i++)
            _mm_prefetch((const char *)next + i * DEPTH, _MM_HINT_T1);
        _tile_loadd(4, calls, DEPTH);
        _tile_loadd(6, digits, DEPTH);
        _tile_dpbusd(0, 4, 6);
        _tile_loadd(7, digits + TILE, DEPTH);
        _tile_dpbusd(1, 4, 7);
        _tile_loadd(5, calls + TILE, DEPTH);
        _tile_dpbusd(2, 5, 6);
        _tile_dpbusd(3, 5, 7);
    }
    _tile_stored(0, products, ROW);
    _tile_stored(1, products + PRODUCT, ROW);
    _tile_stored(2, products + 2 * PRODUCT, ROW);
    _tile_stored(3, products + 3 * PRODUCT, ROW);
}

/* 256 a + b, exact while the result has at most 53 bits. */
static inline __m512d append(__m512d a, const int32_t *b)
{
    const __m512d digit = _mm512_cvtepi32_pd(_mm256_load_si256((const __m256i *)b));
    return _mm512_fmadd_pd(a, _mm512_set1_pd(256.0), digit);
}

/* b->tile = the sums over the digits, times the columns' units. Three digits at a time are exact, so that only the last
 * addition rounds. */
static void put_together(amx_block *b)
{
    const int64_t stride = 4 * PRODUCT; /* of the digits */
    for (int v = 0; v < VARIANTS; v++)
        for (int j = 0; j < COLUMNS; j += 8) {
            const int32_t *c = b->products + (v / SIDE * 2 + j / SIDE) * PRODUCT + v % SIDE * SIDE + j % SIDE;
            const __m512d zero = _mm512_setzero_pd();
            const __m512d high = append(append(append(zero, c + 5 * stride), c + 4 * stride), c + 3 * stride);
            const __m512d low = append(append(append(zero, c + 2 * stride), c + stride), c);
            const __m512d sum = _mm512_fmadd_pd(high, _mm512_set1_pd(0x1p24), low);
            _mm512_storeu_pd(b->tile + (j / 8 * VARIANTS + v) * 8, _mm512_mul_pd(sum, _mm512_loadu_pd(b->unit + j)));
        }
}

/* Adds to each of the n_variants variants from `start` on its mean times the rows of the samples that it lacks. */
static void add_missing(const double *means, int64_t start, int64_t n_variants, amx_block *b)
{
    for (int64_t v = 0; v < n_variants; v++) {
        const int64_t end = b->first_missing[start + v + 1];
        __m512d sum[COLUMNS / 8];
        for (int j = 0; j < COLUMNS / 8; j++)
            sum[j] = b->heavy[start + v] < 0
                         ? _mm512_setzero_pd()
                         : _mm512_loadu_pd(b->absent_sums + (int64_t)b->heavy[start + v] * COLUMNS + 8 * j);
        for (int64_t i = b->first_missing[start + v]; i < end; i++) {
            const double *row = b->rows + (int64_t)b->missing[i] * COLUMNS;
            for (int j = 0; j < COLUMNS / 8; j++)
                sum[j] = _mm512_add_pd(sum[j], _mm512_loadu_pd(row + 8 * j));
        }
        for (int j = 0; j < COLUMNS / 8; j++) {
            double *to = b->tile + (j * VARIANTS + v) * 8;
            _mm512_storeu_pd(to, _mm512_fmadd_pd(_mm512_set1_pd(means[v]), sum[j], _mm512_loadu_pd(to)));
        }
    }
}

/* b->tile = the products of 32 rows of calls (or indicators) with the panel's columns. */
static void multiply(const uint8_t *tiles, const uint8_t *next, amx_block *b)
{
    for (int64_t depth = 0; depth < b->n_depths; depth += DEPTHS_AT_ONCE) {
        const int64_t left = b->n_depths - depth, n = left < DEPTHS_AT_ONCE ? left : DEPTHS_AT_ONCE;
        for (int d = 0; d < DIGITS; d++)
            multiply_tiles(tiles + depth * 2 * TILE, b->digits + (d * b->n_depths + depth) * 2 * TILE, n, depth == 0,
                           next + depth * 2 * TILE + d * LINES_AHEAD * DEPTH, b->products + d * 4 * PRODUCT);
    }
    put_together(b);
}

/* b->absent_sums = the panel's rows added up over the missing calls of the variants that lack many. */
static void sum_absent(amx_block *b)
{
    const int64_t bytes = b->n_depths * 2 * TILE;
    for (int64_t v = 0; v < b->n_heavy; v += VARIANTS) {
        const uint8_t *tiles = b->absent + v / VARIANTS * bytes;
        multiply(tiles, v + VARIANTS < b->n_heavy ? tiles + bytes : b->calls, b);
        for (int64_t i = 0; i < VARIANTS; i++)
            for (int64_t j = 0; j < COLUMNS; j += 8)
                memcpy(b->absent_sums + (v + i) * COLUMNS + j, b->tile + (j / 8 * VARIANTS + i) * 8,
                       8 * sizeof(double));
    }
}

/* b->tile = the products of 32 variants, from `start` on in the block, with the panel's columns. */
static void rotate_tile(const jamma_calls *calls, int64_t first, int64_t start, amx_block *b)
{
    const int64_t bytes = b->n_depths * 2 * TILE, left = b->n_variants - start;
    const uint8_t *tiles = b->calls + start / VARIANTS * bytes;
    multiply(tiles, left > VARIANTS ? tiles + bytes : b->calls, b);
    if (calls->missing)
        add_missing(calls->means + first + start, start, left < VARIANTS ? left : VARIANTS, b);
}

/* --- a block ----------------------------------------------------------------------------------------------------- */

static inline int64_t at_most(int64_t n, int64_t most)
{
    return n < most ? n : most;
}

/* The digits of a panel, and the sums over missing calls that are made by products. Returns the panel's columns. */
static int64_t prepare_panel(const jamma_rotation *job, const jamma_columns *columns, int64_t start, amx_block *b)
{
    const int64_t n_columns = at_most(columns->n - start, COLUMNS);
    amx_split_columns(columns, start, n_columns, job->calls.n_samples, job->calls.missing != NULL, b);
    sum_absent(b);
    return n_columns;
}

static void rotate_basis(const jamma_rotation *job, int64_t first, amx_block *b)
{
    const int64_t n_nodes = job->nodes.n_nodes;
    for (int64_t column = 0; column < job->basis.n; column += COLUMNS) {
        const int64_t n = prepare_panel(job, &job->basis, column, b);
        for (int64_t v = 0; v < b->n_variants; v += VARIANTS) {
            rotate_tile(&job->calls, first, v, b);
            KERNEL(node_sums)(&job->nodes, b->tile, column, n, VARIANTS, b->state + v * n_nodes, b->sums + v * n_nodes);
        }
    }
    KERNEL(store_sums)(b->sums, n_nodes, b->n_variants, job->xx + first * n_nodes);
}

static void rotate_extra(const jamma_rotation *job, int64_t first, amx_block *b)
{
    for (int64_t column = 0; column < job->extra.n; column += COLUMNS) {
        const int64_t n_columns = prepare_panel(job, &job->extra, column, b);
        for (int64_t start = 0; start < b->n_variants; start += VARIANTS) {
            rotate_tile(&job->calls, first, start, b);
            for (int64_t v = 0; v < at_most(b->n_variants - start, VARIANTS); v++)
                for (int64_t j = 0; j < n_columns; j += 8)
                    memcpy(job->xz + (first + start + v) * job->extra.n + column + j,
                           b->tile + (j / 8 * VARIANTS + v) * 8, at_most(n_columns - j, 8) * sizeof(double));
        }
    }
}

static void free_block(amx_block *b)
{
    if (!b)
        return;
    free(b->calls);
    free(b->digits);
    free(b->rows);
    free(b->sums);
    free(b->first_missing);
    free(b->missing);
    free(b->heavy);
    free(b->absent);
    free(b->absent_sums);
    free(b);
}

/* NULL where memory could not be allocated. */
static amx_block *new_block(const jamma_rotation *job, int64_t first, int64_t n_variants)
{
    amx_block *b = amx_allocate(sizeof *b);
    if (!b)
        return NULL;
    memset(b, 0, sizeof *b);
    const int64_t padded = (n_variants + VARIANTS - 1) / VARIANTS * VARIANTS;
    const int64_t n_sums = padded * job->nodes.n_nodes, n_state = job->nodes.l ? n_sums : 0;
    b->n_variants = n_variants;
    b->n_depths = (job->calls.n_samples + DEPTH - 1) / DEPTH;
    b->calls = amx_allocate(padded * b->n_depths * DEPTH);
    b->digits = amx_allocate(DIGITS * b->n_depths * 2 * TILE);
    b->rows = amx_allocate((job->calls.missing ? b->n_depths : 1) * DEPTH * COLUMNS * sizeof(double));
    b->sums = amx_allocate((n_sums + n_state) * sizeof(double));
    if (!b->calls || !b->digits || !b->rows || !b->sums ||
        (job->calls.missing && amx_prepare_missing(&job->calls, first, b) != 0)) {
        free_block(b);
        return NULL;
    }
    b->state = b->sums + n_sums;
    memset(b->sums, 0, (n_sums + n_state) * sizeof(double));
    memset(b->calls, 0, padded * b->n_depths * DEPTH); /* also samples and variants that do not exist */
    amx_expand_calls(&job->calls, first, b);
    return b;
}

/* All eight tiles have 16 rows of 64 bytes. */
static void configure_tiles(void)
{
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config;
    memset(&config, 0, sizeof config);
    config.palette = 1;
    for (int i = 0; i < 8; i++) {
        config.row_bytes[i] = DEPTH;
        config.rows[i] = SIDE;
    }
    _tile_loadconfig(&config);
}

int KERNEL(rotate)(const jamma_rotation *job, int64_t first, int64_t n_variants)
{
    amx_block *b = new_block(job, first, n_variants);
    if (!b)
        return -1;
    configure_tiles();
    rotate_basis(job, first, b);
    rotate_extra(job, first, b);
    _tile_release();
    free_block(b);
    return 0;
}

#endif
