# Included by the extensions that need tail probabilities; tails.h has the mathematics.
cdef extern from "tails.h" nogil:
    ctypedef struct jamma_f_tail:
        pass
    void jamma_f_tail_init(jamma_f_tail *tail, double df)
    void jamma_f_tail_both(const jamma_f_tail *tail, double f, double *sf, double *logsf)
    void jamma_chi2_1_both(double x, double *sf, double *logsf)
