#ifndef JAMMA_GRAM_H
#define JAMMA_GRAM_H

#include <stdint.h>

#include "levels.h"

/* Samples of one packed tile; samples of one panel, the unit of the product; variants of one packed word. */
enum { JAMMA_GRAM_TILE = 16, JAMMA_GRAM_PANEL = 32, JAMMA_GRAM_WORD = 4 };

/* Words of 4 variants come in groups of 16 (one AMX tile is 64 variants deep), padded with zeros. */
enum { JAMMA_GRAM_GROUP = 16 };

/* Most variants of one product: AVX2 sums pairs of products of at most 4 in 16 bits, so 4095 words would fit; 4096
 * variants keep the two packed panels (128 KiB each) in the second-level cache. */
enum { JAMMA_GRAM_VARIANTS = 4096 };

/* Packs the samples first .. first+15 (0 beyond n) of m rows of calls; a missing (negative) call counts as 0.
 * words[w][sample][4]: 4 consecutive variants of each sample, n_words (a multiple of 16) of them.
 * lines[w / 16][sample][64]: the same bytes with each sample's 64 variants together (AMX only; else untouched). */
typedef void gram_pack_fn(const int8_t *const *rows, int64_t m, int64_t n, int64_t first, int64_t n_words,
                          uint8_t *words, uint8_t *lines);
JAMMA_DECLARE(gram_pack_fn, gram_pack);

/* out[i][j] = sum over variants of x_i x_j for the 32 samples i of panel a and 32 samples j of panel b, each two packed
 * tiles one after the other. a_lines is panel a's second form. */
typedef void gram_product_fn(const uint8_t *a, const uint8_t *a_lines, const uint8_t *b, int64_t n_words, int32_t *out);
JAMMA_DECLARE(gram_product_fn, gram_product);

/* out[i] += sum over the m rows of mean * x_i for i = first .. last-1, a missing call counting as missing * mean. The order
 * of the sum is that of the rows. */
typedef void gram_weigh_fn(const int8_t *const *rows, const double *means, const int32_t *which, int64_t m, int64_t first,
                           int64_t last, double missing, double *out);
JAMMA_DECLARE(gram_weigh_fn, gram_weigh);

/* Positions of the missing calls of a row, ascending; returns how many. */
typedef int64_t gram_missing_fn(const int8_t *row, int64_t n, int32_t *out);
JAMMA_DECLARE(gram_missing_fn, gram_missing);

#endif
