/* Counts of calls in a row of int8 genotypes.
 *
 * Three comparisons a 64-byte vector, counted in 8-bit lanes, which hold 255 vectors; then the lanes are added up.
 * Homozygotes of allele0 are what is left, so the zero padding of the last vector needs no care.
 */
#include <stdint.h>
#include <string.h>

#include "genotypes.h"

#define WIDTH 64
typedef int8_t lanes __attribute__((vector_size(WIDTH)));

static inline lanes load(const void *from)
{
    lanes v;
    memcpy(&v, from, sizeof v);
    return v;
}

/* The lanes' counts, negated by the comparisons, as one number. */
static inline int32_t total(lanes counts)
{
    int32_t sum = 0;
    for (int i = 0; i < WIDTH; i++)
        sum += (uint8_t)counts[i];
    return sum;
}

typedef struct {
    lanes one, two, missing;
} tally;

static inline void add(tally *t, lanes calls, lanes keep)
{
    const lanes zero = {0};
    t->one -= (calls == zero + 1) & keep;
    t->two -= (calls == zero + 2) & keep;
    t->missing -= (calls < zero) & keep;
}

void KERNEL(count_row)(const int8_t *row, const uint8_t *mask, int64_t n, int32_t n_counted, int32_t *out)
{
    const lanes zero = {0};
    int32_t one = 0, two = 0, missing = 0;
    for (int64_t start = 0; start < n; start += 255 * WIDTH) {
        const int64_t stop = start + 255 * WIDTH < n ? start + 255 * WIDTH : n;
        tally t = {{0}, {0}, {0}};
        int64_t i = start;
        for (; i + WIDTH <= stop; i += WIDTH)
            add(&t, load(row + i), mask ? load(mask + i) != zero : zero - 1);
        if (i < stop) {
            int8_t last[WIDTH] = {0}, last_mask[WIDTH] = {0};
            memcpy(last, row + i, stop - i);
            if (mask)
                memcpy(last_mask, mask + i, stop - i);
            else
                memset(last_mask, 1, stop - i);
            add(&t, load(last), load(last_mask) != zero);
        }
        one += total(t.one);
        two += total(t.two);
        missing += total(t.missing);
    }
    out[0] = n_counted - one - two - missing;
    out[1] = one;
    out[2] = two;
    out[3] = missing;
}
