#ifndef JAMMA_BAND_H
#define JAMMA_BAND_H

#include <stdint.h>

#include "levels.h"

/* The bandwidth, and the doubles of one row of a panel: one AVX-512 vector, two of AVX2, four of NEON or SSE2. */
enum { JAMMA_BAND = 8 };

/* y += A v for the columns c0 .. c1-1 of a symmetric m x m matrix of which only the lower triangle (column-major) is
 * read, and each element of it once: it adds to the rows of both of its indices. v, y: m x 8, rows contiguous. */
typedef void band_symm_fn(const double *a, int64_t lda, int64_t m, int64_t c0, int64_t c1, const double *v, double *y);
JAMMA_DECLARE(band_symm_fn, band_symm);

/* out (k x 8) = x' v, where x has k columns (a multiple of 8) and rows ldx apart, and v has 8 columns. */
typedef void band_dot_fn(const double *x, int64_t ldx, int64_t k, const double *v, int64_t rows, double *out);
JAMMA_DECLARE(band_dot_fn, band_dot);

/* y -= x s, where x is rows x k with rows ldx apart, s is k x 8, and the rows of y are ldy apart. */
typedef void band_update_fn(const double *x, int64_t ldx, int64_t k, const double *s, double *y, int64_t ldy,
                            int64_t rows);
JAMMA_DECLARE(band_update_fn, band_update);

/* QR by Householder of a rows x 8 panel with contiguous rows, its first n_reflectors columns: R on and above the
 * diagonal, the reflectors below it with their leading 1 left out, tau[0..7] (0 from n_reflectors on). Columns shorter
 * than 1e-100 count as 0. One double after the panel is read. */
typedef void band_qr_fn(double *p, int64_t rows, int64_t n_reflectors, double *tau);
JAMMA_DECLARE(band_qr_fn, band_qr);

#endif
