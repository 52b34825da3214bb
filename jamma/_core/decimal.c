#include "decimal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned __int128 uint128_t;

static uint64_t power_g[DECIMAL_MAX_POWER - DECIMAL_MIN_POWER + 1];
static int16_t power_t[DECIMAL_MAX_POWER - DECIMAL_MIN_POWER + 1];
static _Thread_local int64_t n_slow;

int64_t decimal_count_slow(void) {
    int64_t n = n_slow;
    n_slow = 0;
    return n;
}

void decimal_set_power(int k, uint64_t g, int t) {
    power_g[k - DECIMAL_MIN_POWER] = g;
    power_t[k - DECIMAL_MIN_POWER] = (int16_t)t;
}

static const char PAIRS[] =
    "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
    "5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";

/* Writes exactly n decimal digits of v. */
static inline char *digits(char *out, uint64_t v, int n) {
    for (int i = n - 1; i >= 0; i--) {
        out[i] = (char)('0' + v % 10);
        v /= 10;
    }
    return out + n;
}

/* The C library's answer, with the locale's point replaced; it is the only slow path of every format. */
static char *slow(char *out, const char *format, double x) {
    char text[400];
    int n = snprintf(text, sizeof text, format, x);
    n_slow++;
    for (int i = 0; i < n; i++) {
        char c = text[i];
        if ((c >= '0' && c <= '9') || c == 'e' || c == '-' || c == '+') {
            *out++ = c;
        } else { /* the point, of one or more bytes */
            *out++ = '.';
            while (i + 1 < n && (text[i + 1] < '0' || text[i + 1] > '9'))
                i++;
        }
    }
    return out;
}

static inline char *not_finite(char *out, double x) {
    if (isnan(x)) {
        memcpy(out, "nan", 3);
        return out + 3;
    }
    if (x < 0)
        *out++ = '-';
    memcpy(out, "inf", 3);
    return out + 3;
}

/* |x| = m 2^q with m >= 2^63; x is finite and not 0. */
static inline uint64_t split(double x, int *q) {
    uint64_t bits, m;
    memcpy(&bits, &x, 8);
    int e = (int)(bits >> 52 & 0x7ff);
    m = bits & ((1ULL << 52) - 1);
    if (e)
        m |= 1ULL << 52;
    else
        e = 1;
    int up = __builtin_clzll(m);
    *q = e - 1075 - up;
    return m << up;
}

/* n significant digits of |x|: d in [10^(n-1), 10^n) and e with |x| ~ d 10^(e-n+1), rounded to nearest, ties to
 * even. 0: done. 1: too near a tie (or an exact tie) for the table's precision.
 *
 * V = |x| 10^k, P 2^-s <= V < (P + 2^64) 2^-s. Let V's integer part have n digits. Where P's fraction f is more than
 * 2^64 away from a half, P and V round to the same integer. Where P and V lie on both sides of a power of ten, V
 * rounds to that power under either choice of k, and so does P (its fraction is then within 2^64 of 1). */
static inline int significant(double x, int n, uint64_t top, uint64_t *d, int *e) {
    int q;
    uint64_t m = split(x, &q);
    int e10 = (int)(((int64_t)(q + 63) * 1292913986) >> 32); /* floor((q + 63) log10 2): e10 or e10 - 1 */
    for (;; e10++) {
        int k = n - 1 - e10;
        uint128_t p = (uint128_t)m * power_g[k - DECIMAL_MIN_POWER];
        int s = -(q + power_t[k - DECIMAL_MIN_POWER]);
        uint64_t whole = (uint64_t)(p >> s);
        if (whole >= top)
            continue;
        uint128_t half = (uint128_t)1 << (s - 1), f = p & ((half << 1) - 1), band = (uint128_t)1 << 64;
        if (f > half + band)
            whole++;
        else if (f + band >= half)
            return 1;
        if (whole == top) {
            whole = top / 10;
            e10++;
        }
        *d = whole;
        *e = e10;
        return 0;
    }
}

static inline char *exponent(char *out, int e) {
    *out++ = 'e';
    *out++ = e < 0 ? '-' : '+';
    unsigned a = (unsigned)(e < 0 ? -e : e);
    return digits(out, a, a < 100 ? 2 : 3);
}

char *decimal_write_e6(char *out, double x) {
    if (!isfinite(x))
        return not_finite(out, x);
    if (signbit(x)) {
        *out++ = '-';
        x = -x;
    }
    uint64_t d = 0;
    int e = 0;
    if (x != 0 && significant(x, 7, 10000000, &d, &e))
        return slow(out, "%.6e", x);
    out[0] = (char)('0' + d / 1000000);
    out[1] = '.';
    uint32_t rest = (uint32_t)(d % 1000000);
    for (int i = 0; i < 3; i++) {
        memcpy(out + 6 - 2 * i, PAIRS + 2 * (rest % 100), 2);
        rest /= 100;
    }
    return exponent(out + 8, e);
}

char *decimal_write_p(char *out, double p, double neg_log10_p) {
    if (!(p < 1e-290) || !(neg_log10_p > 280 && neg_log10_p < 1e9))
        return decimal_write_e6(out, p);
    double e = ceil(neg_log10_p);
    char mantissa[DECIMAL_MAX_BYTES]; /* 1 to 10, the latter by rounding */
    char *end = decimal_write_e6(mantissa, pow(10, e - neg_log10_p));
    int64_t power = (int64_t)e - (end[-1] - '0');
    memcpy(out, mantissa, 8);
    memcpy(out + 8, "e-", 2);
    return decimal_write_int(out + 10, power);
}

char *decimal_write_f3(char *out, double x) {
    if (!isfinite(x))
        return not_finite(out, x);
    if (!(fabs(x) < 1e15))
        return decimal_write_e6(out, x);
    if (signbit(x)) {
        *out++ = '-';
        x = -x;
    }
    uint64_t thousandths = 0;
    if (x >= 0.001) { /* 1000 is exact in the table, so P is, and a tie is seen as one */
        int q;
        uint64_t m = split(x, &q);
        uint128_t p = (uint128_t)m * power_g[3 - DECIMAL_MIN_POWER];
        int s = -(q + power_t[3 - DECIMAL_MIN_POWER]);
        uint128_t half = (uint128_t)1 << (s - 1), f = p & ((half << 1) - 1);
        thousandths = (uint64_t)(p >> s);
        thousandths += f > half || (f == half && (thousandths & 1));
    } else if (x > 0.0004) {
        return slow(out, "%.3f", x);
    }
    uint64_t whole = thousandths / 1000;
    out = decimal_write_int(out, (int64_t)whole);
    *out++ = '.';
    return digits(out, thousandths % 1000, 3);
}

char *decimal_write_g10(char *out, double x) {
    if (!isfinite(x))
        return not_finite(out, x);
    if (signbit(x)) {
        *out++ = '-';
        x = -x;
    }
    if (x == 0) {
        *out++ = '0';
        return out;
    }
    uint64_t d;
    int e, n = 10;
    if (significant(x, 10, 10000000000, &d, &e))
        return slow(out, "%.10g", x);
    while (d % 10 == 0) {
        d /= 10;
        n--;
    }
    char text[10];
    digits(text, d, n);
    if (e < -4 || e >= 10) {
        *out++ = text[0];
        if (n > 1) {
            *out++ = '.';
            memcpy(out, text + 1, (size_t)(n - 1));
            out += n - 1;
        }
        return exponent(out, e);
    }
    if (e < 0) {
        memcpy(out, "0.0000", 6);
        out += 1 - e;
        memcpy(out, text, (size_t)n);
        return out + n;
    }
    for (int i = 0; i < n || i <= e; i++) {
        if (i == e + 1)
            *out++ = '.';
        *out++ = i < n ? text[i] : '0';
    }
    return out;
}

char *decimal_write_int(char *out, int64_t x) {
    uint64_t v = (uint64_t)x;
    if (x < 0) {
        *out++ = '-';
        v = 0 - v;
    }
    int n = 1;
    for (uint64_t u = v; u >= 10; u /= 10)
        n++;
    return digits(out, v, n);
}

/* The C library's answer for one token, with a point of the C locale. */
static int read_slow(const char *s, const char *end, double *x) {
    char text[512], *stop;
    size_t n = (size_t)(end - s);
    if (n >= sizeof text) { /* more digits than decide anything: no data holds them, so refuse */
        return 0;
    }
    memcpy(text, s, n);
    text[n] = 0;
    n_slow++;
    *x = strtod(text, &stop);
    if (stop == text + n)
        return 1;
    char *point = memchr(text, '.', n); /* a locale with another point */
    if (!point)
        return 0;
    char probe[8];
    int width = snprintf(probe, sizeof probe, "%.1f", 0.5) - 2;
    if (width < 1 || width > 4)
        return 0;
    memmove(point + width, point + 1, n - (size_t)(point - text));
    memcpy(point, probe + 1, (size_t)width);
    n += (size_t)width - 1;
    *x = strtod(text, &stop);
    return stop == text + n;
}

/* w 10^k to the nearest double; 0: outside the range where the table decides. */
static inline int scale(uint64_t w, int64_t k, double *x) {
    static const double exact[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                   1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (w == 0) {
        *x = 0;
        return 1;
    }
    if (w <= 1ULL << 53 && k >= -22 && k <= 22) { /* both operands are exact: one rounding */
        *x = k < 0 ? (double)w / exact[-k] : (double)w * exact[k];
        return 1;
    }
    if (k < -300 || k > 280)
        return 0;
    int up = __builtin_clzll(w);
    uint128_t p = (uint128_t)(w << up) * power_g[k - DECIMAL_MIN_POWER];
    int q = power_t[k - DECIMAL_MIN_POWER] - up, s = p >> 127 ? 75 : 74;
    uint64_t m = (uint64_t)(p >> s);
    uint128_t half = (uint128_t)1 << (s - 1), f = p & ((half << 1) - 1), band = (uint128_t)1 << 64;
    if (f > half + band)
        m++;
    else if (f + band >= half)
        return 0;
    *x = ldexp((double)m, q + s);
    return 1;
}

static inline const char *word(const char *s, const char *end, const char *name) {
    for (; *name; s++, name++)
        if (s == end || (*s | 32) != *name)
            return NULL;
    return s;
}

const char *decimal_read(const char *s, const char *end, double *x) {
    const char *start = s, *after;
    int negative = 0, n_digits = 0, any = 0, lost = 0;
    int64_t k = 0;
    uint64_t w = 0;
    if (s < end && (*s == '-' || *s == '+'))
        negative = *s++ == '-';
    for (int point = 0; s < end; s++) {
        unsigned c = (unsigned)(unsigned char)*s - '0';
        if (c <= 9) {
            any = 1;
            if (n_digits < 19) {
                w = 10 * w + c;
                n_digits += w != 0;
                k -= point;
            } else {
                lost |= c != 0;
                k += !point;
            }
        } else if (*s == '.' && !point) {
            point = 1;
        } else {
            break;
        }
    }
    if (!any) {
        const char *t = start + (start < end && (*start == '-' || *start == '+'));
        if ((after = word(t, end, "nan"))) {
            *x = NAN;
            return after;
        }
        if ((after = word(t, end, "infinity")) || (after = word(t, end, "inf"))) {
            *x = negative ? -INFINITY : INFINITY;
            return after;
        }
        return NULL;
    }
    if (s < end && (*s == 'e' || *s == 'E')) {
        const char *t = s + 1;
        int minus = 0, value = 0;
        if (t < end && (*t == '-' || *t == '+'))
            minus = *t++ == '-';
        if (t < end && *t >= '0' && *t <= '9') {
            for (; t < end && *t >= '0' && *t <= '9'; t++)
                value = value < 100000 ? 10 * value + (*t - '0') : value;
            k += minus ? -value : value;
            s = t;
        }
    }
    if (lost || !scale(w, k, x)) {
        if (!read_slow(start, s, x))
            return NULL;
        return s;
    }
    if (negative)
        *x = -*x;
    return s;
}
