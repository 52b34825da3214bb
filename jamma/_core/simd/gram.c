/* The kinship of hard calls as an integer product of bytes.
 *
 * What is blocked, and why. Samples are packed in tiles of 16 and words of 4 variants, the operand of one 32-bit lane
 * of VPDPBUSD (AVX-512 VNNI), VPMADDUBSW (AVX2) and of one column of an AMX tile. A product is 32 x 32 samples over up
 * to 4096 variants: both packed panels stay in the second-level cache, the sums in registers until the end, so the
 * n x n matrix of doubles is touched once per 4096 variants. All products are exact integers (at most 4 a variant).
 *
 * Registers: AVX-512 holds 8 samples x 32 samples as 16 accumulators, fed by 2 vector loads and 8 broadcasts a word;
 * AVX2 holds 4 x 16 in 8 accumulators of 16-bit pair sums; AMX holds 2 x 2 tiles of 16 x 16.
 */
#include "gram.h"

#include <string.h>

#if defined(JAMMA_LEVEL_avx2) || defined(JAMMA_LEVEL_avx512) || defined(JAMMA_LEVEL_amx)
#include <immintrin.h>
#endif

#define TILE JAMMA_GRAM_TILE
#define PANEL JAMMA_GRAM_PANEL

static inline uint8_t call_or_0(int8_t x)
{
    return x < 0 ? 0 : (uint8_t)x;
}

#if defined(__SSE2__)
#include <emmintrin.h>

/* 16 samples of 4 variants, interleaved to 64 bytes: [sample][variant]. */
static inline void interleave(const int8_t *const *rows, int64_t offset, uint8_t *out)
{
    const __m128i zero = _mm_setzero_si128();
    __m128i v[4];
    for (int k = 0; k < 4; k++) {
        v[k] = _mm_loadu_si128((const __m128i *)(rows[k] + offset));
        v[k] = _mm_andnot_si128(_mm_cmpgt_epi8(zero, v[k]), v[k]);
    }
    const __m128i ab0 = _mm_unpacklo_epi8(v[0], v[1]), ab1 = _mm_unpackhi_epi8(v[0], v[1]);
    const __m128i cd0 = _mm_unpacklo_epi8(v[2], v[3]), cd1 = _mm_unpackhi_epi8(v[2], v[3]);
    _mm_storeu_si128((__m128i *)out, _mm_unpacklo_epi16(ab0, cd0));
    _mm_storeu_si128((__m128i *)(out + 16), _mm_unpackhi_epi16(ab0, cd0));
    _mm_storeu_si128((__m128i *)(out + 32), _mm_unpacklo_epi16(ab1, cd1));
    _mm_storeu_si128((__m128i *)(out + 48), _mm_unpackhi_epi16(ab1, cd1));
}
#else
static inline void interleave(const int8_t *const *rows, int64_t offset, uint8_t *out)
{
    for (int s = 0; s < TILE; s++)
        for (int k = 0; k < 4; k++)
            out[4 * s + k] = call_or_0(rows[k][offset + s]);
}
#endif

void KERNEL(gram_pack)(const int8_t *const *rows, int64_t m, int64_t n, int64_t first, int64_t n_words,
                       uint8_t *words, uint8_t *lines)
{
    const int64_t whole = m / 4, width = n - first < TILE ? n - first : TILE;
    int64_t w = 0;
    if (width == TILE)
        for (; w < whole; w++)
            interleave(rows + 4 * w, first, words + 64 * w);
    memset(words + 64 * w, 0, (size_t)(64 * (n_words - w)));
    for (int64_t v = 4 * w; v < m; v++)
        for (int64_t s = 0; s < width; s++)
            words[64 * (v / 4) + 4 * s + v % 4] = call_or_0(rows[v][first + s]);
#ifdef JAMMA_LEVEL_amx
    for (int64_t g = 0; g < n_words / JAMMA_GRAM_GROUP; g++)
        for (int s = 0; s < TILE; s++)
            for (int k = 0; k < JAMMA_GRAM_GROUP; k++)
                memcpy(lines + 1024 * g + 64 * s + 4 * k, words + 1024 * g + 64 * k + 4 * s, 4);
#else
    (void)lines;
#endif
}

#if defined(JAMMA_LEVEL_amx)

/* Palette 1; all eight tiles of 16 rows of 64 bytes. */
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes_per_row[16];
    uint8_t rows[16];
};

void KERNEL(gram_product)(const uint8_t *a, const uint8_t *a_lines, const uint8_t *b, int64_t n_words, int32_t *out)
{
    (void)a;
    struct tile_config config = {.palette = 1};
    for (int t = 0; t < 8; t++) {
        config.bytes_per_row[t] = 64;
        config.rows[t] = 16;
    }
    _tile_loadconfig(&config);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    const int64_t tile_bytes = 64 * n_words;
    for (int64_t at = 0; at < tile_bytes; at += 1024) {
        _tile_loadd(4, a_lines + at, 64);
        _tile_loadd(6, b + at, 64);
        _tile_dpbuud(0, 4, 6);
        _tile_loadd(7, b + tile_bytes + at, 64);
        _tile_dpbuud(1, 4, 7);
        _tile_loadd(5, a_lines + tile_bytes + at, 64);
        _tile_dpbuud(2, 5, 6);
        _tile_dpbuud(3, 5, 7);
    }
    _tile_stored(0, out, 4 * PANEL);
    _tile_stored(1, out + TILE, 4 * PANEL);
    _tile_stored(2, out + TILE * PANEL, 4 * PANEL);
    _tile_stored(3, out + TILE * PANEL + TILE, 4 * PANEL);
    _tile_release();
}

#elif defined(JAMMA_LEVEL_avx512)

void KERNEL(gram_product)(const uint8_t *a, const uint8_t *a_lines, const uint8_t *b, int64_t n_words, int32_t *out)
{
    (void)a_lines;
    const uint8_t *b1 = b + 64 * n_words;
    for (int i = 0; i < PANEL; i += 8) {
        const uint8_t *ai = a + (i / TILE) * 64 * n_words + 4 * (i % TILE);
        __m512i s0[8], s1[8];
        for (int r = 0; r < 8; r++)
            s0[r] = s1[r] = _mm512_setzero_si512();
        for (int64_t w = 0; w < n_words; w++) {
            const __m512i x0 = _mm512_loadu_si512(b + 64 * w), x1 = _mm512_loadu_si512(b1 + 64 * w);
#pragma GCC unroll 8
            for (int r = 0; r < 8; r++) {
                int32_t word;
                memcpy(&word, ai + 64 * w + 4 * r, 4);
                const __m512i y = _mm512_set1_epi32(word);
                s0[r] = _mm512_dpbusd_epi32(s0[r], x0, y);
                s1[r] = _mm512_dpbusd_epi32(s1[r], x1, y);
            }
        }
        for (int r = 0; r < 8; r++) {
            _mm512_storeu_si512(out + (i + r) * PANEL, s0[r]);
            _mm512_storeu_si512(out + (i + r) * PANEL + TILE, s1[r]);
        }
    }
}

#elif defined(JAMMA_LEVEL_avx2)

void KERNEL(gram_product)(const uint8_t *a, const uint8_t *a_lines, const uint8_t *b, int64_t n_words, int32_t *out)
{
    (void)a_lines;
    const __m256i ones = _mm256_set1_epi16(1);
    for (int i = 0; i < PANEL; i += 4) {
        const uint8_t *ai = a + (i / TILE) * 64 * n_words + 4 * (i % TILE);
        for (int j = 0; j < PANEL; j += TILE) {
            const uint8_t *bj = b + (j / TILE) * 64 * n_words;
            __m256i s0[4], s1[4];
            for (int r = 0; r < 4; r++)
                s0[r] = s1[r] = _mm256_setzero_si256();
            for (int64_t w = 0; w < n_words; w++) {
                const __m256i x0 = _mm256_loadu_si256((const __m256i *)(bj + 64 * w));
                const __m256i x1 = _mm256_loadu_si256((const __m256i *)(bj + 64 * w + 32));
#pragma GCC unroll 4
                for (int r = 0; r < 4; r++) {
                    int32_t word;
                    memcpy(&word, ai + 64 * w + 4 * r, 4);
                    const __m256i y = _mm256_set1_epi32(word);
                    s0[r] = _mm256_add_epi16(s0[r], _mm256_maddubs_epi16(x0, y));
                    s1[r] = _mm256_add_epi16(s1[r], _mm256_maddubs_epi16(x1, y));
                }
            }
            for (int r = 0; r < 4; r++) {
                _mm256_storeu_si256((__m256i *)(out + (i + r) * PANEL + j), _mm256_madd_epi16(s0[r], ones));
                _mm256_storeu_si256((__m256i *)(out + (i + r) * PANEL + j + 8), _mm256_madd_epi16(s1[r], ones));
            }
        }
    }
}

#else

void KERNEL(gram_product)(const uint8_t *a, const uint8_t *a_lines, const uint8_t *b, int64_t n_words, int32_t *out)
{
    (void)a_lines;
    for (int i = 0; i < PANEL; i++) {
        const uint8_t *ai = a + (i / TILE) * 64 * n_words + 4 * (i % TILE);
        for (int j = 0; j < PANEL; j += TILE) {
            const uint8_t *bj = b + (j / TILE) * 64 * n_words;
            uint16_t sums[64] = {0};
            for (int64_t w = 0; w < n_words; w++) {
                uint8_t y[64];
                for (int s = 0; s < TILE; s++)
                    memcpy(y + 4 * s, ai + 64 * w, 4);
                for (int s = 0; s < 64; s++)
                    sums[s] += (uint16_t)(y[s] * bj[64 * w + s]);
            }
            for (int s = 0; s < TILE; s++)
                out[i * PANEL + j + s] = sums[4 * s] + sums[4 * s + 1] + sums[4 * s + 2] + sums[4 * s + 3];
        }
    }
}

#endif

/* One row's share of 32 sums. AVX-512 looks mean * x up: a byte limited to 3 is the index of 0, mean, 2 mean or the
 * product that a missing call stands for. */
#if defined(JAMMA_LEVEL_avx512) || defined(JAMMA_LEVEL_amx)
#define SUMS 4
typedef __m512d sums_t;
#define LOAD _mm512_loadu_pd
#define STORE _mm512_storeu_pd
static inline void weigh_32(const int8_t *x, double mean, double instead, sums_t *sums)
{
    const __m512d table = _mm512_setr_pd(0.0, mean, 2.0 * mean, mean * instead, 0.0, 0.0, 0.0, 0.0);
    const __m256i codes = _mm256_min_epu8(_mm256_loadu_si256((const __m256i *)x), _mm256_set1_epi8(3));
    const __m128i low = _mm256_castsi256_si128(codes), high = _mm256_extracti128_si256(codes, 1);
    sums[0] = _mm512_add_pd(sums[0], _mm512_permutexvar_pd(_mm512_cvtepu8_epi64(low), table));
    sums[1] = _mm512_add_pd(sums[1], _mm512_permutexvar_pd(_mm512_cvtepu8_epi64(_mm_srli_si128(low, 8)), table));
    sums[2] = _mm512_add_pd(sums[2], _mm512_permutexvar_pd(_mm512_cvtepu8_epi64(high), table));
    sums[3] = _mm512_add_pd(sums[3], _mm512_permutexvar_pd(_mm512_cvtepu8_epi64(_mm_srli_si128(high, 8)), table));
}
#elif defined(JAMMA_LEVEL_avx2)
#define SUMS 8
typedef __m256d sums_t;
#define LOAD _mm256_loadu_pd
#define STORE _mm256_storeu_pd
static inline void weigh_32(const int8_t *x, double mean, double instead, sums_t *sums)
{
    const __m256d factor = _mm256_set1_pd(mean), missing = _mm256_set1_pd(instead);
#pragma GCC unroll 8
    for (int s = 0; s < SUMS; s++) {
        int32_t four;
        memcpy(&four, x + 4 * s, 4);
        const __m256d value = _mm256_cvtepi32_pd(_mm_cvtepi8_epi32(_mm_cvtsi32_si128(four)));
        /* The sign bit of a missing call selects. */
        sums[s] = _mm256_add_pd(sums[s], _mm256_mul_pd(factor, _mm256_blendv_pd(value, missing, value)));
    }
}
#else
#define SUMS 32
typedef double sums_t;
#define LOAD(p) (*(p))
#define STORE(p, x) (*(p) = (x))
static inline void weigh_32(const int8_t *x, double mean, double instead, sums_t *sums)
{
    for (int s = 0; s < SUMS; s++)
        sums[s] += mean * (x[s] < 0 ? instead : (double)x[s]);
}
#endif

/* Sums of 32 samples stay in registers while the rows go by; `which` NULL: rows 0 .. m-1. */
void KERNEL(gram_weigh)(const int8_t *const *rows, const double *means, const int32_t *which, int64_t m, int64_t first,
                        int64_t last, double missing, double *out)
{
    int64_t i = first;
    for (; i + 32 <= last; i += 32) {
        sums_t sums[SUMS];
        for (int s = 0; s < SUMS; s++)
            sums[s] = LOAD(out + i + 32 / SUMS * s);
        for (int64_t k = 0; k < m; k++) {
            const int64_t v = which ? which[k] : k;
            weigh_32(rows[v] + i, means[v], missing * means[v], sums);
        }
        for (int s = 0; s < SUMS; s++)
            STORE(out + i + 32 / SUMS * s, sums[s]);
    }
    for (; i < last; i++)
        for (int64_t k = 0; k < m; k++) {
            const int64_t v = which ? which[k] : k;
            out[i] += means[v] * (rows[v][i] < 0 ? missing * means[v] : (double)rows[v][i]);
        }
}

int64_t KERNEL(gram_missing)(const int8_t *row, int64_t n, int32_t *out)
{
    int64_t found = 0, i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t word;
        memcpy(&word, row + i, 8);
        if (word & 0x8080808080808080u)
            for (int s = 0; s < 8; s++)
                if (row[i + s] < 0)
                    out[found++] = (int32_t)(i + s);
    }
    for (; i < n; i++)
        if (row[i] < 0)
            out[found++] = (int32_t)i;
    return found;
}
