/* What the sources of the matrix unit's form share; rotate_amx.c describes it. */
#ifndef JAMMA_ROTATE_AMX_H
#define JAMMA_ROTATE_AMX_H

#include <stdlib.h>

#include "rotate.h"

enum {
    SIDE = 16,                /* rows of a tile, and its 32-bit columns */
    DEPTH = 64,               /* samples of a tile */
    TILE = SIDE * DEPTH,      /* bytes */
    VARIANTS = 2 * SIDE,      /* rotated at a time */
    COLUMNS = JAMMA_PANEL,    /* = 2 * SIDE */
    DIGITS = 6,
    PRODUCT = SIDE * SIDE,    /* 32-bit results of a pair of tiles */
    DEPTHS_AT_ONCE = 64,      /* tiles along the samples before the results are set aside, so that they fit the caches */
    BYTE_BITS = 8,
    HEAVY = 25,               /* a variant that lacks more than 1 / HEAVY of its calls has one more product */
    LINES_AHEAD = 5,          /* 64-byte lines of the next variants asked for at a time: most of 2 tiles / DIGITS */
    ALIGNMENT = 64,
};

/* What a block of variants needs while it is rotated. */
typedef struct {
    int64_t n_variants, n_depths; /* tiles along the samples */
    uint8_t *calls;         /* [variant / 32][depth][variant / 16 % 2][variant % 16][sample % 64] */
    int8_t *digits;         /* [digit][depth][column / 16][sample / 4 % 16][column % 16][sample % 4] */
    double *rows;           /* [sample][column], of the whole panel where calls are missing, else of one depth */
    double *sums, *state;   /* as node_sums has them */
    int64_t *first_missing; /* of each variant, and the end */
    int32_t *missing;       /* samples */
    int64_t n_heavy;        /* variants that lack many calls; they have no list */
    int32_t *heavy;         /* of each variant: which of them it is, or -1 */
    uint8_t *absent;        /* indicators of their missing calls, as calls */
    double *absent_sums;    /* [heavy variant][column] of the panel: sums of the rows of their missing calls */
    double unit[COLUMNS];   /* of the columns' integers */
    _Alignas(ALIGNMENT) int32_t products[DIGITS * 4 * PRODUCT]; /* [digit][variant / 16][column / 16][16][16] */
    _Alignas(ALIGNMENT) double tile[COLUMNS * VARIANTS];        /* as node_sums has it */
} amx_block;

static inline void *amx_allocate(size_t bytes)
{
    return aligned_alloc(ALIGNMENT, (bytes / ALIGNMENT + 1) * ALIGNMENT);
}

/* amx_calls.c: the bytes of the block's variants, of which `first` is the first, into b->calls. */
void amx_expand_calls(const jamma_calls *calls, int64_t first, amx_block *b);

/* amx_calls.c: allocates and makes what is needed of the missing calls. Returns 0, or -1 without memory. */
int amx_prepare_missing(const jamma_calls *calls, int64_t first, amx_block *b);

/* amx_columns.c: the digits of columns start .. start + n_columns - 1, 0 for those up to COLUMNS; and their rows, all of
 * them or only those of one depth at a time. */
void amx_split_columns(const jamma_columns *columns, int64_t start, int64_t n_columns, int64_t n_samples, int keep_rows,
                       amx_block *b);

#endif
