#ifndef JAMMA_GENOTYPES_H
#define JAMMA_GENOTYPES_H

#include <stdint.h>

#include "levels.h"

/* Samples of one word of packed calls, and of one of its 8 bytes. */
enum { JAMMA_WORD_SAMPLES = 32, JAMMA_CODE_SAMPLES = 4, JAMMA_N_CODES = 81 };

/* Rows that are packed side by side, so that a cache line of words is written at once. */
enum { JAMMA_PACK_ROWS = 8 };

/* out[0..3] = how many of the row's samples with a nonzero mask (NULL: all) have 0, 1, 2 copies and a missing
 * (negative) call; n_counted is the number of nonzero masks. */
typedef void count_row_fn(const int8_t *row, const uint8_t *mask, int64_t n, int32_t n_counted, int32_t *out);
JAMMA_DECLARE(count_row_fn, count_row);

/* Packs n_rows <= JAMMA_PACK_ROWS rows of n calls. Row r's word of samples 32g .. 32g+31 goes to codes[g * stride + r]:
 * byte j is x0 + 3 x1 + 9 x2 + 27 x3 of samples 32g+4j .. +3, where a missing call and samples from n on count as 0.
 * Bit i of missing[g * stride + r] says that sample 32g+i is missing; only words with a bit set are written. */
typedef void pack_rows_fn(const int8_t *const *rows, int64_t n_rows, int64_t n, int64_t stride, uint64_t *codes,
                          uint32_t *missing);
JAMMA_DECLARE(pack_rows_fn, pack_rows);

#endif
