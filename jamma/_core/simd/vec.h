/* A vector of doubles as wide as the level's registers, in the compiler's vector extensions.
 *
 * Kernels are compiled without contraction, so a fused multiply-add happens only where vec_fma asks for it: what a
 * variant's sums are does not depend on how the compiler unrolls a loop.
 */
#ifndef JAMMA_VEC_H
#define JAMMA_VEC_H

#include <string.h>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(__AVX512F__)
#define VEC_LANES 8
#elif defined(__AVX2__)
#define VEC_LANES 4
#else
#define VEC_LANES 2
#endif
typedef double vec __attribute__((vector_size(8 * VEC_LANES)));

static inline vec vec_load(const double *from)
{
    vec v;
    memcpy(&v, from, sizeof v);
    return v;
}

static inline void vec_store(double *to, vec v)
{
    memcpy(to, &v, sizeof v);
}

/* x in every lane; from memory this takes no arithmetic. */
static inline vec vec_all(double x)
{
#if defined(__AVX512F__)
    return (vec)_mm512_set1_pd(x);
#elif defined(__AVX2__)
    return (vec)_mm256_set1_pd(x);
#else
    return (vec){x, x};
#endif
}

/* a * b + c, rounded once where the CPU can. */
static inline vec vec_fma(vec a, vec b, vec c)
{
#if defined(__AVX512F__)
    return (vec)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(__AVX2__)
    return (vec)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#elif defined(__aarch64__)
    return (vec)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
#else
    return a * b + c;
#endif
}

/* c - a * b, rounded once where the CPU can. */
static inline vec vec_fnma(vec a, vec b, vec c)
{
    return vec_fma(-a, b, c);
}

#endif
