/* A block's calls as bytes in tiles, and its missing calls as lists or as bytes; see rotate_amx.c. */
#ifdef JAMMA_LEVEL_amx

#include "rotate_amx.h"

#include <string.h>

#include "genotypes.h"

/* Where the bytes of word g of variant v are. */
static inline uint8_t *place(uint8_t *tiles, const amx_block *b, int64_t v, int64_t g)
{
    return tiles + ((v / VARIANTS * b->n_depths + g / 2) * 2 + v / SIDE % 2) * TILE + v % SIDE * DEPTH +
           g % 2 * JAMMA_WORD_SAMPLES;
}

void amx_expand_calls(const jamma_calls *calls, int64_t first, amx_block *b)
{
    uint32_t four[JAMMA_N_CODES];
    for (uint32_t code = 0; code < JAMMA_N_CODES; code++)
        four[code] = code % 3 | code / 3 % 3 << 8 | code / 9 % 3 << 16 | code / 27 << 24;
    for (int64_t v = 0; v < b->n_variants; v++)
        for (int64_t g = 0; g < calls->n_words; g++) {
            const uint64_t word = calls->codes[g * calls->stride + first + v];
            uint8_t *to = place(b->calls, b, v, g);
            for (int i = 0; i < 8; i++)
                memcpy(to + 4 * i, &four[word >> (8 * i) & 0xFF], 4);
        }
}

/* Numbers the variants that lack many calls, and counts the calls that the others lack. */
static int64_t count_missing(const jamma_calls *calls, int64_t first, amx_block *b)
{
    int64_t n_listed = 0;
    for (int64_t v = 0; v < b->n_variants; v++) {
        int64_t n = 0;
        for (int64_t g = 0; g < calls->n_words; g++)
            n += __builtin_popcount(calls->missing[g * calls->stride + first + v]);
        const int is_heavy = n * HEAVY > calls->n_samples;
        b->heavy[v] = is_heavy ? (int32_t)b->n_heavy++ : -1;
        n_listed += is_heavy ? 0 : n;
    }
    return n_listed;
}

/* Lists the samples that each variant lacks, in order, or writes down their indicators. */
static void list_missing(const jamma_calls *calls, int64_t first, amx_block *b)
{
    int64_t n = 0;
    for (int64_t v = 0; v < b->n_variants; v++) {
        b->first_missing[v] = n;
        for (int64_t g = 0; g < calls->n_words; g++) {
            uint32_t bits = calls->missing[g * calls->stride + first + v];
            if (b->heavy[v] >= 0) {
                uint8_t *to = place(b->absent, b, b->heavy[v], g);
                for (int i = 0; i < JAMMA_WORD_SAMPLES; i++)
                    to[i] = bits >> i & 1;
            } else {
                for (; bits; bits &= bits - 1)
                    b->missing[n++] = (int32_t)(g * JAMMA_WORD_SAMPLES + __builtin_ctz(bits));
            }
        }
    }
    b->first_missing[b->n_variants] = n;
}

int amx_prepare_missing(const jamma_calls *calls, int64_t first, amx_block *b)
{
    b->first_missing = amx_allocate((b->n_variants + 1) * sizeof(int64_t));
    b->heavy = amx_allocate(b->n_variants * sizeof(int32_t));
    if (!b->first_missing || !b->heavy)
        return -1;
    b->missing = amx_allocate(count_missing(calls, first, b) * sizeof(int32_t));
    const int64_t padded = (b->n_heavy + VARIANTS - 1) / VARIANTS * VARIANTS;
    b->absent = amx_allocate(padded * b->n_depths * DEPTH);
    b->absent_sums = amx_allocate(padded * COLUMNS * sizeof(double));
    if (!b->missing || !b->absent || !b->absent_sums)
        return -1;
    memset(b->absent, 0, padded * b->n_depths * DEPTH);
    list_missing(calls, first, b);
    return 0;
}

#endif
