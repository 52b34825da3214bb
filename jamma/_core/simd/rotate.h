#ifndef JAMMA_ROTATE_H
#define JAMMA_ROTATE_H

#include <stdint.h>

#include "levels.h"

/* Columns that are rotated side by side, and those whose rotated values are kept before they go into the sums. */
enum { JAMMA_GROUP = 8, JAMMA_PANEL = 32 };

/* Packed calls of genotypes.h, shape (n_words, k) with rows `stride` apart; missing is NULL where no call is. */
typedef struct {
    int64_t n_samples, n_words, stride;
    const uint64_t *codes;
    const uint32_t *missing;
    const double *means;
} jamma_calls;

/* Columns of length n_samples, `stride` apart, to multiply variants by. */
typedef struct {
    const double *data;
    int64_t n, stride;
} jamma_columns;

/* Sums over the basis of squares of rotated variants, at n_nodes (a multiple of 8) nodes.
 * diagonal:     xx[v, r] = sum_i h[i, r] x_i²
 * tridiagonal:  xx[v, r] = sum_i h[i, r] s_i², s_i = x_i - l[i, r] s_{i-1}
 */
typedef struct {
    int64_t n_nodes;
    const double *h, *l; /* shape (basis.n, n_nodes); l is NULL for the diagonal */
} jamma_nodes;

/* All of a chunk: basis.n rotated values a variant go into xx (k, n_nodes), the products with extra into xz (k, extra.n).
 */
typedef struct {
    jamma_calls calls;
    jamma_columns basis, extra;
    jamma_nodes nodes;
    double *xx, *xz;
} jamma_rotation;

/* The variants first .. first + n_variants - 1 of the chunk. Returns 0, or -1 where memory could not be allocated. */
typedef int rotate_fn(const jamma_rotation *job, int64_t first, int64_t n_variants);
JAMMA_DECLARE(rotate_fn, rotate);

/* Variants of a block are padded with zeros to a multiple of this. */
enum { JAMMA_VARIANTS = 8 };

/* Adds `n` <= JAMMA_PANEL rotated columns, of which the first is basis column `start`, to the sums of n_variants
 * variants (a multiple of JAMMA_VARIANTS); destroys tile. Column j of variant v is
 * tile[((j / 8) * n_variants + v) * 8 + j % 8]. state holds s of the last column; sums and state, n_variants * n_nodes
 * each and 0 before the first column, are in an order that only node_sums.c knows. */
typedef void node_sums_fn(const jamma_nodes *nodes, double *tile, int64_t start, int64_t n, int64_t n_variants,
                          double *state, double *sums);
JAMMA_DECLARE(node_sums_fn, node_sums);

/* xx[v, r] = the sums of the first n_variants variants. */
typedef void store_sums_fn(const double *sums, int64_t n_nodes, int64_t n_variants, double *xx);
JAMMA_DECLARE(store_sums_fn, store_sums);

#endif
