"""The search for lambda and the tests of a block of variants; the mathematics is in simd/likelihood.c."""
from cython.parallel cimport prange, threadid
from libc.math cimport NAN, isfinite
from libc.stdint cimport int64_t, uint8_t

import numpy as np

include "levels.pxi"
include "tails.pxi"


cdef extern from *:
    """
    #include "likelihood.h"
    static fit_variant_fn *const fit_variant_table[] = JAMMA_TABLE(fit_variant);
    static inline fit_variant_fn *fit_variant_now(void) { return JAMMA_PICK(fit_variant_table); }
    """
    enum:
        JAMMA_TESTED
        JAMMA_NOT_FINITE
        JAMMA_WALD
        JAMMA_LRT
        JAMMA_SCORE
    ctypedef struct jamma_search:
        int64_t n_nodes, n_cvt, n_intervals, n_terms, n_ends, shift_node
        double n, df, scale, l_min, l_max, start_reml, start_ml, constant_reml
        double null_logl, null_residual, score_residual
        const double *ends
        const double *decays
        const double *weights
        const double *slope_weights
        const double *end_weights
        const double *end_slopes
        const double *zero_weights
        const double *score_weights
        const double *whitening
        const double *whitened_y
        const double *node_residual
        const double *residual
        const double *residual_slope
        const double *log_reml
        const double *log_reml_slope
        const double *log_ml
        const double *log_ml_slope
        const double *end_values
    ctypedef struct jamma_fit:
        double beta, se, logl_reml, l_remle, f_wald
        double l_mle, logl_ml, lrt
        double beta_score, se_score, f_score
    ctypedef int fit_variant_fn(
        const jamma_search *s, const double *xx, const double *xq, const double *xy, int tests, double *scratch,
        jamma_fit *fit
    ) noexcept nogil
    fit_variant_fn *fit_variant_now() noexcept nogil
    int64_t jamma_fit_scratch(const jamma_search *s) noexcept nogil

cdef double LN_10 = 2.302585092994045684
# Tests of each mode, and how many columns it has.
cdef int[5] TESTS_OF = [0, JAMMA_WALD, JAMMA_LRT, JAMMA_SCORE, JAMMA_WALD | JAMMA_LRT | JAMMA_SCORE]
cdef int[5] COLUMNS_OF = [0, 5, 3, 3, 8]


cdef double fill_row(int mode, const jamma_fit *fit, const jamma_f_tail *tail, double *row) noexcept nogil:
    """The mode's statistics, in the order of `jamma.lmm.schema.STATISTICS`; returns -log10 p of the first test."""
    cdef double first, log_p
    if mode == 1:
        row[0], row[1], row[2], row[3] = fit.beta, fit.se, fit.logl_reml, fit.l_remle
        jamma_f_tail_both(tail, fit.f_wald, &row[4], &first)
    elif mode == 2:
        row[0], row[1] = fit.logl_ml, fit.l_mle
        jamma_chi2_1_both(fit.lrt, &row[2], &first)
    elif mode == 3:
        row[0], row[1] = fit.beta_score, fit.se_score
        jamma_f_tail_both(tail, fit.f_score, &row[2], &first)
    else:
        row[0], row[1], row[2], row[3], row[4] = fit.beta, fit.se, fit.logl_ml, fit.l_remle, fit.l_mle
        jamma_f_tail_both(tail, fit.f_wald, &row[5], &first)
        jamma_chi2_1_both(fit.lrt, &row[6], &log_p)
        jamma_f_tail_both(tail, fit.f_score, &row[7], &log_p)
    return 0.0 - first / LN_10


cdef int fit_row(
    const jamma_search *s, fit_variant_fn *fit_variant, const jamma_f_tail *tail, int mode, const double *xx,
    const double *xq, const double *xy, double *scratch, double *out, int64_t stride, double *neg_log10_p,
) noexcept nogil:
    """Fit one variant and write its column of `out`: nan throughout unless it was tested. Returns the reason."""
    cdef jamma_fit fit
    cdef double[8] row
    cdef int k, reason = fit_variant(s, xx, xq, xy, TESTS_OF[mode], scratch, &fit)
    if reason == JAMMA_TESTED:
        neg_log10_p[0] = fill_row(mode, &fit, tail, row)
        if not isfinite(neg_log10_p[0]):
            reason = JAMMA_NOT_FINITE
        for k in range(COLUMNS_OF[mode]):
            if not isfinite(row[k]):
                reason = JAMMA_NOT_FINITE
    if reason != JAMMA_TESTED:
        neg_log10_p[0] = NAN
    for k in range(COLUMNS_OF[mode]):
        out[k * stride] = row[k] if reason == JAMMA_TESTED else NAN
    return reason


cdef class Search:
    """The tables of one phenotype in the form that the kernel reads; made by `jamma.lmm.search.fit_variants`.

    The fields are those of jamma_search in simd/likelihood.h. Arrays are float64 and C-contiguous; their sizes are
    checked against `n_nodes`, `n_cvt`, `n_intervals` and `n_terms`.
    """

    cdef jamma_search s
    cdef list arrays

    def __cinit__(self):
        self.arrays = []

    def __init__(self, int64_t n_nodes, int64_t n_cvt, int64_t n_intervals, int64_t n_terms, dict numbers, dict arrays):
        cdef jamma_search *s = &self.s
        s.n_nodes, s.n_cvt, s.n_intervals, s.n_terms = n_nodes, n_cvt, n_intervals, n_terms
        s.n_ends = (n_intervals + 8) // 8 * 8
        if n_nodes < 1 or n_cvt < 1 or n_intervals < 1 or n_terms < 8 or n_terms % 8 != 0:
            raise ValueError(f"{n_nodes} nodes, {n_cvt} covariates, {n_intervals} intervals, {n_terms} terms")
        s.n, s.df, s.scale = numbers["n"], numbers["df"], numbers["scale"]
        s.l_min, s.l_max = numbers["l_min"], numbers["l_max"]
        s.start_reml, s.start_ml = numbers["start_reml"], numbers["start_ml"]
        s.constant_reml, s.null_logl = numbers["constant_reml"], numbers["null_logl"]
        s.null_residual, s.score_residual = numbers["null_residual"], numbers["score_residual"]
        s.shift_node = numbers["shift_node"]
        if not 0 <= s.shift_node < n_nodes:
            raise ValueError(f"shift_node {s.shift_node} of {n_nodes}")
        s.ends = self.keep(arrays, "ends", n_intervals + 1)
        s.decays = self.keep(arrays, "decays", n_intervals)
        s.weights = self.keep(arrays, "weights", n_intervals * n_nodes * n_terms)
        s.slope_weights = self.keep(arrays, "slope_weights", n_intervals * n_nodes * n_terms)
        s.end_weights = self.keep(arrays, "end_weights", n_nodes * s.n_ends)
        s.end_slopes = self.keep(arrays, "end_slopes", n_nodes * s.n_ends)
        s.zero_weights = self.keep(arrays, "zero_weights", n_nodes)
        s.score_weights = self.keep(arrays, "score_weights", n_nodes)
        s.whitening = self.keep(arrays, "whitening", n_cvt * n_cvt * n_nodes)
        s.whitened_y = self.keep(arrays, "whitened_y", n_cvt * n_nodes)
        s.node_residual = self.keep(arrays, "node_residual", n_nodes)
        s.residual = self.keep(arrays, "residual", n_intervals * n_terms)
        s.residual_slope = self.keep(arrays, "residual_slope", n_intervals * n_terms)
        s.log_reml = self.keep(arrays, "log_reml", n_intervals * n_terms)
        s.log_reml_slope = self.keep(arrays, "log_reml_slope", n_intervals * n_terms)
        s.log_ml = self.keep(arrays, "log_ml", n_intervals * n_terms)
        s.log_ml_slope = self.keep(arrays, "log_ml_slope", n_intervals * n_terms)
        s.end_values = self.keep(arrays, "end_values", 6 * s.n_ends)

    cdef const double *keep(self, dict arrays, str name, int64_t size) except NULL:
        """Hold on to an array, and give its address."""
        cdef const double[::1] flat = np.ascontiguousarray(arrays[name], dtype=np.float64).ravel()
        if flat.shape[0] != size:
            raise ValueError(f"{name}: {flat.shape[0]} numbers, expected {size}")
        self.arrays.append(flat)
        return &flat[0]

    def fit(self, const double[:, :] xx, const double[:, :, :] xq, const double[:, :] xy, int mode, int n_threads=1):
        """Test variants.

        Parameters
        ----------
        xx, xq, xy : ndarray of float64, shapes (k, R), (k, c, R), (k, R)
            Sums at the nodes; within a variant contiguous.
        mode : {1, 2, 3, 4}
        n_threads : int

        Returns
        -------
        statistics : ndarray of float64, shape (columns of the mode, k)
        neg_log10_p : ndarray of float64, shape (k,)
        reason : ndarray of uint8, shape (k,)
        """
        cdef int64_t k = xx.shape[0], n = self.s.n_nodes, c = self.s.n_cvt, v, size
        if not 1 <= mode <= 4:
            raise ValueError(f"mode {mode}: expected 1 to 4")
        if (
            xx.shape[1] != n or xq.shape[0] != k or xq.shape[1] != c or xq.shape[2] != n
            or xy.shape[0] != k or xy.shape[1] != n
        ):
            raise ValueError(f"sums of another shape than k variants x {c} covariates x {n} nodes")
        if k and (xx.strides[1] != 8 or xy.strides[1] != 8 or xq.strides[2] != 8 or (c > 1 and xq.strides[1] != 8 * n)):
            raise ValueError("the sums of a variant must be contiguous")
        if n_threads < 1:
            raise ValueError(f"{n_threads} threads: expected at least 1")
        statistics = np.empty((COLUMNS_OF[mode], k))
        neg_log10_p = np.empty(k)
        reason = np.empty(k, dtype=np.uint8)
        if k == 0:
            return statistics, neg_log10_p, reason
        cdef double[:, ::1] out = statistics
        cdef double[::1] out_p = neg_log10_p
        cdef uint8_t[::1] out_reason = reason
        # whole cache lines apart, so that threads do not share one
        size = (jamma_fit_scratch(&self.s) + 15) // 8 * 8
        cdef double[:, ::1] scratch = np.empty((n_threads, size))
        cdef jamma_f_tail tail
        cdef fit_variant_fn *fit_variant = fit_variant_now()
        jamma_f_tail_init(&tail, self.s.df)
        for v in prange(k, nogil=True, num_threads=n_threads, schedule="static"):
            out_reason[v] = fit_row(
                &self.s, fit_variant, &tail, mode, &xx[v, 0], &xq[v, 0, 0], &xy[v, 0], &scratch[threadid(), 0],
                &out[0, v], k, &out_p[v],
            )
        return statistics, neg_log10_p, reason
