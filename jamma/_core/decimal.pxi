"""Declarations of decimal.h for the extensions that use it; each has a table of its own, filled at import."""
from libc.stdint cimport int64_t, uint64_t

cdef extern from "decimal.h" nogil:
    int DECIMAL_MIN_POWER, DECIMAL_MAX_POWER, DECIMAL_MAX_BYTES
    void decimal_set_power(int k, uint64_t g, int t)
    char *decimal_write_e6(char *out, double x)
    char *decimal_write_f3(char *out, double x)
    char *decimal_write_g10(char *out, double x)
    char *decimal_write_p(char *out, double p, double neg_log10_p)
    char *decimal_write_int(char *out, int64_t x)
    const char *decimal_read(const char *s, const char *end, double *x)
    int64_t decimal_count_slow()


def _fill_powers():
    """Set the table of powers of ten, 10**k in [g, g + 1) * 2**t, from Python's integers."""
    for k in range(int(DECIMAL_MIN_POWER), int(DECIMAL_MAX_POWER) + 1):
        power = 10 ** int(abs(k))
        t = power.bit_length() - 64 if k >= 0 else -power.bit_length() - 63
        g = (power << 400) >> (400 + t) if k >= 0 else (1 << -t) // power
        if g >> 64:
            t += 1
            g >>= 1
        decimal_set_power(k, g, t)


_fill_powers()
