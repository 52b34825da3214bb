/* Products of packed variants with columns by table look-up, and their sums at the nodes.
 *
 * Four samples of a variant have 81 combinations of 0, 1 and 2 copies. For 8 columns at a time the 81 weighted sums of
 * the columns' four rows are tabulated; a variant then needs one row of the table and one addition of 8 doubles where
 * a matrix product needs 4 multiply-adds of 8. A word of packed calls holds the row numbers of 8 tables.
 *
 * What is where, for a block of up to some thousand variants:
 * - the 8 tables of 32 samples x 8 columns, 41 kB, in the first-level cache; they are built once per block;
 * - the block's rotated values, [variant][8], are streamed through it once per 32 samples;
 * - four such tiles (32 columns) and the block's sums stay in the second level. The sums are read and written once per
 *   32 columns, and the rotated variants never reach memory.
 *
 * A missing call is 0 in the tables; the mean times its row of the columns is added after each 32 samples, while these
 * rows are in the first-level cache. The calls come from a list that is made once for all columns: a test for each word
 * would cost a mispredicted branch where a call is missing.
 *
 * Every variant's sums are formed in an order that depends on n alone.
 *
 * The level amx has its own form, rotate_amx.c.
 */
#ifndef JAMMA_LEVEL_amx

#include "rotate.h"

#include <stdlib.h>

#include "genotypes.h"
#include "vec.h"

enum {
    ROWS = JAMMA_N_CODES,
    ROW_BYTES = JAMMA_GROUP * sizeof(double),
    TABLE_BYTES = ROWS * ROW_BYTES,
    TABLES = 8, /* of a word */
    VECS = JAMMA_GROUP / VEC_LANES,
    ALIGNMENT = 64,
    SAMPLE_BITS = 5, /* of the number of a sample within its word */
    DENSE = 3,       /* missing calls of a word that cost as much as to look it up once more */
};

/* The missing calls of a block, by word; see list_missing. */
typedef struct {
    int64_t *first_single, *first_dense; /* n_words + 1 each */
    uint32_t *single;                    /* variant << SAMPLE_BITS | sample */
    struct {
        int64_t variant;
        uint64_t codes;
    } *dense;
} missing_list;

/* What a block of variants needs while it is rotated. */
typedef struct {
    _Alignas(ALIGNMENT) double tables[TABLES * ROWS * JAMMA_GROUP];
    double rows[JAMMA_WORD_SAMPLES * JAMMA_GROUP]; /* [sample][column] of the current 32 samples */
    int64_t padded;                                /* variants, as node_sums counts them */
    double *tile, *sums, *state;
    missing_list missing;
} block;

/* Copies samples 32 g .. 32 g + 31 of up to 8 columns to [sample][column]; what does not exist is 0. */
static void gather_rows(const jamma_columns *columns, int64_t start, int64_t n_columns, int64_t g, int64_t n_samples,
                        double *rows)
{
    const int64_t first = g * JAMMA_WORD_SAMPLES;
    const int64_t n = n_samples - first < JAMMA_WORD_SAMPLES ? n_samples - first : JAMMA_WORD_SAMPLES;
    if (n < JAMMA_WORD_SAMPLES || n_columns < JAMMA_GROUP)
        memset(rows, 0, JAMMA_WORD_SAMPLES * ROW_BYTES);
    for (int64_t j = 0; j < n_columns; j++) {
        const double *column = columns->data + (start + j) * columns->stride + first;
        for (int64_t i = 0; i < n; i++)
            rows[i * JAMMA_GROUP + j] = column[i];
    }
}

/* pair[a + 3 b] = a rows[0] + b rows[1]. */
static inline void pair_sums(const double *rows, int part, vec pair[9])
{
    const vec first = vec_load(rows + part * VEC_LANES), second = vec_load(rows + JAMMA_GROUP + part * VEC_LANES);
    const vec zero = {0};
    const vec multiple[3] = {zero, second, second + second};
    for (int b = 0; b < 3; b++) {
        pair[3 * b] = multiple[b];
        pair[3 * b + 1] = multiple[b] + first;
        pair[3 * b + 2] = multiple[b] + (first + first);
    }
}

/* Row x0 + 3 x1 + 9 x2 + 27 x3 of the table of four samples is the sum of x_i times row i. */
static void build_tables(const double *rows, double *tables)
{
    for (int t = 0; t < TABLES; t++) {
        const double *four = rows + t * JAMMA_CODE_SAMPLES * JAMMA_GROUP;
        double *table = tables + t * ROWS * JAMMA_GROUP;
        for (int part = 0; part < VECS; part++) {
            vec low[9], high[9];
            pair_sums(four, part, low);
            pair_sums(four + 2 * JAMMA_GROUP, part, high);
            for (int h = 0; h < 9; h++)
                for (int l = 0; l < 9; l++)
                    vec_store(table + (9 * h + l) * JAMMA_GROUP + part * VEC_LANES, high[h] + low[l]);
        }
    }
}

/* The row of table t that a word of codes asks for. Rotated, not shifted: one instruction without a copy where BMI2 is. */
static inline const double *table_row(const double *tables, uint64_t word, int t)
{
    const int shift = (8 * t - 6) & 63; /* a row has 2^6 bytes */
    const uint64_t offset = (word >> shift | word << (64 - shift)) & (0xFF * ROW_BYTES);
    return (const double *)((const char *)tables + t * TABLE_BYTES + offset);
}

/* The sum of the rows that a word of codes asks for. */
static inline void look_up_word(const double *tables, uint64_t word, vec sum[VECS])
{
    const double *row[TABLES];
    for (int t = 0; t < TABLES; t++)
        row[t] = table_row(tables, word, t);
    for (int part = 0; part < VECS; part++) {
        const int at = part * VEC_LANES;
        const vec a = vec_load(row[0] + at) + vec_load(row[1] + at), b = vec_load(row[2] + at) + vec_load(row[3] + at);
        const vec c = vec_load(row[4] + at) + vec_load(row[5] + at), d = vec_load(row[6] + at) + vec_load(row[7] + at);
        sum[part] = (a + b) + (c + d);
    }
}

static void look_up(const double *tables, const uint64_t *codes, int64_t n_variants, double *tile)
{
    for (int64_t v = 0; v < n_variants; v++) {
        vec sum[VECS];
        look_up_word(tables, codes[v], sum);
        for (int part = 0; part < VECS; part++) {
            double *to = tile + v * JAMMA_GROUP + part * VEC_LANES;
            vec_store(to, vec_load(to) + sum[part]);
        }
    }
}

/* The code of four samples of which those with a bit set have one copy, for each byte of a word. */
static uint64_t codes_of_bits(uint32_t bits)
{
    uint64_t codes = 0;
    for (int t = 0; t < TABLES; t++) {
        const uint32_t four = bits >> (JAMMA_CODE_SAMPLES * t);
        const uint64_t code = (four & 1) + 3 * (four >> 1 & 1) + 9 * (four >> 2 & 1) + 27 * (four >> 3 & 1);
        codes |= code << (8 * t);
    }
    return codes;
}

/* Lists the missing calls of the block's variants by word: single calls where a word lacks fewer than DENSE, else the
 * whole word as indices into the tables. Which it is depends on that word of that variant alone. */
static void list_missing(const jamma_calls *calls, int64_t first, int64_t n_variants, missing_list *list)
{
    int64_t n_single = 0, n_dense = 0;
    for (int64_t g = 0; g < calls->n_words; g++) {
        const uint32_t *bits = calls->missing + g * calls->stride + first;
        list->first_single[g] = n_single;
        list->first_dense[g] = n_dense;
        for (int64_t v = 0; v < n_variants; v++) {
            if (__builtin_popcount(bits[v]) >= DENSE) {
                list->dense[n_dense].variant = v;
                list->dense[n_dense++].codes = codes_of_bits(bits[v]);
                continue;
            }
            for (uint32_t rest = bits[v]; rest; rest &= rest - 1)
                list->single[n_single++] = (uint32_t)v << SAMPLE_BITS | (uint32_t)__builtin_ctz(rest);
        }
    }
    list->first_single[calls->n_words] = n_single;
    list->first_dense[calls->n_words] = n_dense;
}

/* Adds the means times the rows of the calls missing in word g; means is the block's first. */
static void add_missing(const missing_list *list, int64_t g, const double *means, const block *b, double *tile)
{
    for (int64_t i = list->first_single[g]; i < list->first_single[g + 1]; i++) {
        const int64_t v = list->single[i] >> SAMPLE_BITS;
        const double *row = b->rows + (list->single[i] & (JAMMA_WORD_SAMPLES - 1)) * JAMMA_GROUP;
        for (int part = 0; part < VECS; part++) {
            double *to = tile + v * JAMMA_GROUP + part * VEC_LANES;
            vec_store(to, vec_fma(vec_all(means[v]), vec_load(row + part * VEC_LANES), vec_load(to)));
        }
    }
    for (int64_t i = list->first_dense[g]; i < list->first_dense[g + 1]; i++) {
        const int64_t v = list->dense[i].variant;
        vec sum[VECS];
        look_up_word(b->tables, list->dense[i].codes, sum);
        for (int part = 0; part < VECS; part++) {
            double *to = tile + v * JAMMA_GROUP + part * VEC_LANES;
            vec_store(to, vec_fma(vec_all(means[v]), sum[part], vec_load(to)));
        }
    }
}

/* tile[v][j] = product of variant first + v with column start + j, for 8 columns; those that do not exist give 0. */
static void rotate_group(const jamma_calls *calls, int64_t first, int64_t n_variants, const jamma_columns *columns,
                         int64_t start, block *b, double *tile)
{
    const int64_t left = columns->n - start, n_columns = left < JAMMA_GROUP ? left : JAMMA_GROUP;
    memset(tile, 0, n_variants * ROW_BYTES);
    for (int64_t g = 0; g < calls->n_words; g++) {
        gather_rows(columns, start, n_columns, g, calls->n_samples, b->rows);
        build_tables(b->rows, b->tables);
        look_up(b->tables, calls->codes + g * calls->stride + first, n_variants, tile);
        if (calls->missing)
            add_missing(&b->missing, g, calls->means + first, b, tile);
    }
}

static void rotate_basis(const jamma_rotation *job, int64_t first, int64_t n_variants, block *b)
{
    for (int64_t start = 0; start < job->basis.n; start += JAMMA_PANEL) {
        const int64_t left = job->basis.n - start, n = left < JAMMA_PANEL ? left : JAMMA_PANEL;
        for (int64_t j = 0; j < n; j += JAMMA_GROUP) {
            double *tile = b->tile + j * b->padded;
            rotate_group(&job->calls, first, n_variants, &job->basis, start + j, b, tile);
            memset(tile + n_variants * JAMMA_GROUP, 0, (b->padded - n_variants) * ROW_BYTES);
        }
        KERNEL(node_sums)(&job->nodes, b->tile, start, n, b->padded, b->state, b->sums);
    }
    KERNEL(store_sums)(b->sums, job->nodes.n_nodes, n_variants, job->xx + first * job->nodes.n_nodes);
}

static void rotate_extra(const jamma_rotation *job, int64_t first, int64_t n_variants, block *b)
{
    for (int64_t start = 0; start < job->extra.n; start += JAMMA_GROUP) {
        const int64_t left = job->extra.n - start, n = left < JAMMA_GROUP ? left : JAMMA_GROUP;
        rotate_group(&job->calls, first, n_variants, &job->extra, start, b, b->tile);
        for (int64_t v = 0; v < n_variants; v++)
            memcpy(job->xz + (first + v) * job->extra.n + start, b->tile + v * JAMMA_GROUP, n * sizeof(double));
    }
}

static void *allocate(size_t bytes)
{
    return aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
}

/* How much room the lists need: at most all calls that the variants lack. Returns 0, or -1 without memory. */
static int allocate_lists(const jamma_calls *calls, int64_t first, int64_t n_variants, missing_list *list)
{
    int64_t n_single = 0, n_dense = 0;
    for (int64_t g = 0; g < calls->n_words; g++)
        for (int64_t v = first; v < first + n_variants; v++) {
            const int n = __builtin_popcount(calls->missing[g * calls->stride + v]);
            n_dense += n >= DENSE;
            n_single += n >= DENSE ? 0 : n;
        }
    list->first_single = allocate((calls->n_words + 1) * sizeof *list->first_single);
    list->first_dense = allocate((calls->n_words + 1) * sizeof *list->first_dense);
    list->single = allocate((n_single + 1) * sizeof *list->single);
    list->dense = allocate((n_dense + 1) * sizeof *list->dense);
    return list->first_single && list->first_dense && list->single && list->dense ? 0 : -1;
}

static void free_block(block *b)
{
    free(b->missing.first_single);
    free(b->missing.first_dense);
    free(b->missing.single);
    free(b->missing.dense);
    free(b);
}

int KERNEL(rotate)(const jamma_rotation *job, int64_t first, int64_t n_variants)
{
    const int64_t padded = (n_variants + JAMMA_VARIANTS - 1) / JAMMA_VARIANTS * JAMMA_VARIANTS;
    const int64_t n_sums = padded * job->nodes.n_nodes, n_state = job->nodes.l ? n_sums : 0;
    const int64_t n_tile = padded * JAMMA_PANEL;
    block *b = allocate(sizeof(block) + (n_tile + n_sums + n_state) * sizeof(double));
    if (!b)
        return -1;
    b->padded = padded;
    b->tile = (double *)(b + 1);
    b->sums = b->tile + n_tile;
    b->state = b->sums + n_sums;
    memset(b->sums, 0, (n_sums + n_state) * sizeof(double));
    memset(&b->missing, 0, sizeof b->missing);
    int status = 0;
    if (job->calls.missing) {
        status = allocate_lists(&job->calls, first, n_variants, &b->missing);
        if (status == 0)
            list_missing(&job->calls, first, n_variants, &b->missing);
    }
    if (status == 0) {
        rotate_basis(job, first, n_variants, b);
        rotate_extra(job, first, n_variants, b);
    }
    free_block(b);
    return status;
}

#endif
