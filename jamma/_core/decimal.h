/* Doubles to decimal text and back, correctly rounded and whatever the locale.
 *
 * One table of powers of ten serves both directions: 10^k lies in [g, g + 1) * 2^t with a 64-bit g >= 2^63. The
 * product of a 64-bit significand (exact) and g is then short of the true one by less than 2^64 of its 126 to 128
 * bits, so that the digits are right unless what is rounded away lies within 2^64 of a half. Only there (one random
 * double in 2^40 at seven digits) is the C library asked, which is exact. No loop over digits, no big integers.
 */
#ifndef JAMMA_DECIMAL_H
#define JAMMA_DECIMAL_H

#include <stdint.h>

enum { DECIMAL_MIN_POWER = -400, DECIMAL_MAX_POWER = 400 };

/* Bytes that one number can take: 3 digits of an exponent, a point, signs; %.3f below 1e15 is the longest. */
enum { DECIMAL_MAX_BYTES = 24 };

/* Entry k of the table; to be called for every k from DECIMAL_MIN_POWER to DECIMAL_MAX_POWER before anything else. */
void decimal_set_power(int k, uint64_t g, int t);

/* Each writes one number at out, without a final 0, and returns the byte after it. nan is always "nan". */
char *decimal_write_e6(char *out, double x);    /* as printf's %.6e */
char *decimal_write_f3(char *out, double x);    /* as %.3f, for |x| < 1e15; beyond as %.6e */
char *decimal_write_g10(char *out, double x);   /* as %.10g */
/* As e6, but from -log10 p where p itself is near or below the smallest normal double: 3.162278e-401. */
char *decimal_write_p(char *out, double p, double neg_log10_p);
char *decimal_write_int(char *out, int64_t x);  /* as %lld */

/* Reads the number that begins at s and must end before end: decimal digits with point and exponent, nan, inf.
 * Returns the byte after it, or NULL where no number begins. Correctly rounded. */
const char *decimal_read(const char *s, const char *end, double *x);

/* How often the C library was asked since the last call, by this thread (tests). */
int64_t decimal_count_slow(void);

#endif
