/* Tables of a kernel's forms, one for each CPU level, for the .pyx that calls it.
 *
 *     typedef void count_row_fn(const int8_t *row, int64_t n, int32_t *out);
 *     JAMMA_DECLARE(count_row_fn, count_row);                      the forms count_row_baseline, count_row_avx2, ...
 *     static count_row_fn *const count_row_table[] = JAMMA_TABLE(count_row);
 *     JAMMA_PICK(count_row_table)(row, n, out);
 *
 * A form that this build lacks is NULL; JAMMA_PICK takes the baseline then.
 */
#ifndef JAMMA_LEVELS_H
#define JAMMA_LEVELS_H

#include <stddef.h>

#include "dispatch.h"

#ifdef JAMMA_HAVE_avx2
#define JAMMA_IF_avx2(f) f
#else
#define JAMMA_IF_avx2(f) NULL
#endif
#ifdef JAMMA_HAVE_avx512
#define JAMMA_IF_avx512(f) f
#else
#define JAMMA_IF_avx512(f) NULL
#endif
#ifdef JAMMA_HAVE_amx
#define JAMMA_IF_amx(f) f
#else
#define JAMMA_IF_amx(f) NULL
#endif
#ifdef JAMMA_HAVE_neon
#define JAMMA_IF_neon(f) f
#else
#define JAMMA_IF_neon(f) NULL
#endif

#define JAMMA_DECLARE(type, name) type name##_baseline, name##_avx2, name##_avx512, name##_amx, name##_neon
#define JAMMA_TABLE(name)                                                                                              \
    {name##_baseline, JAMMA_IF_avx2(name##_avx2), JAMMA_IF_avx512(name##_avx512), JAMMA_IF_amx(name##_amx),            \
     JAMMA_IF_neon(name##_neon)}

/* The form of the level in use. */
#define JAMMA_PICK(table) ((table)[jamma_level()] ? (table)[jamma_level()] : (table)[JAMMA_BASELINE])

#endif
