#ifndef JAMMA_GENOTYPES_H
#define JAMMA_GENOTYPES_H

#include <stdint.h>

#include "levels.h"

/* out[0..3] = how many of the row's samples with a nonzero mask (NULL: all) have 0, 1, 2 copies and a missing
 * (negative) call; n_counted is the number of nonzero masks. */
typedef void count_row_fn(const int8_t *row, const uint8_t *mask, int64_t n, int32_t n_counted, int32_t *out);
JAMMA_DECLARE(count_row_fn, count_row);

#endif
