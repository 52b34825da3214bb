/* Counts of the calls in a row of int8 genotypes, and rows packed for the rotation.
 *
 * Counting: three comparisons a vector, added up in 8-bit lanes, which hold 255 vectors. Homozygotes of allele0 are
 * what is left, so the zero padding of the last vector needs no care.
 *
 * Packing: 32 calls at a time as four words of 64 bits. In each word neighbours are joined, x0 + 3 x1 in 16-bit fields
 * and then (x0 + 3 x1) + 9 (x2 + 3 x3) in 32-bit fields. Base 3 and not 2 bits a call, because the rotation's tables
 * then have 81 rows one after the other, which spread over all sets of the first-level cache; with 2 bits a call they
 * would be 81 of 256 rows that fall on 27 of its 64 sets.
 *
 * The byte order is assumed to be little-endian, as it is wherever this is built.
 */
#include <stdint.h>
#include <string.h>

#include "genotypes.h"

#if defined(__AVX512BW__)
#define WIDTH 64
#elif defined(__AVX2__)
#define WIDTH 32
#else
#define WIDTH 16
#endif
typedef int8_t lanes __attribute__((vector_size(WIDTH)));

static inline lanes load(const void *from)
{
    lanes v;
    memcpy(&v, from, sizeof v);
    return v;
}

/* The lanes' counts, as unsigned bytes, added up. */
static inline int32_t total(lanes counts)
{
    uint8_t lane[WIDTH];
    int32_t sum = 0;
    memcpy(lane, &counts, sizeof lane);
    for (int i = 0; i < WIDTH; i++)
        sum += lane[i];
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

/* Packs 32 calls into a word of codes and a word of missing bits. */
static inline void pack_32(const int8_t *calls, uint64_t *code, uint32_t *missing)
{
    uint64_t word[4], sign[4];
    memcpy(word, calls, sizeof word);
    for (int i = 0; i < 4; i++) {
        sign[i] = word[i] >> 7 & 0x0101010101010101u;
        uint64_t w = word[i] & ~(sign[i] * 0xFF);
        w = (w + 3 * (w >> 8)) & 0x00FF00FF00FF00FFu;
        w = (w + 9 * (w >> 16)) & 0x000000FF000000FFu;
        word[i] = (w | w >> 24) & 0xFFFF;
    }
    *code = word[0] | word[1] << 16 | word[2] << 32 | word[3] << 48;
    *missing = 0;
    if (sign[0] | sign[1] | sign[2] | sign[3])
        for (int i = 0; i < 4; i++) /* the product gathers the bytes' lowest bits in the topmost byte */
            *missing |= (uint32_t)(sign[i] * 0x0102040810204080u >> 56) << (8 * i);
}

void KERNEL(pack_rows)(const int8_t *const *rows, int64_t n_rows, int64_t n, int64_t stride, uint64_t *codes,
                       uint32_t *missing)
{
    for (int64_t i = 0; i < n; i += JAMMA_WORD_SAMPLES) {
        const int64_t at = i / JAMMA_WORD_SAMPLES * stride;
        for (int64_t r = 0; r < n_rows; r++) {
            int8_t last[JAMMA_WORD_SAMPLES] = {0};
            const int8_t *calls = rows[r] + i;
            uint32_t bits;
            if (i + JAMMA_WORD_SAMPLES > n)
                calls = memcpy(last, calls, n - i);
            pack_32(calls, &codes[at + r], &bits);
            if (bits)
                missing[at + r] = bits;
        }
    }
}
