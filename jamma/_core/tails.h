/* Upper tails of F(1, df) and of chi-square(1) with their natural logarithms; see tails.c. */
#ifndef JAMMA_TAILS_H
#define JAMMA_TAILS_H

/* What the F tails need of df: set once, shared by all threads. */
typedef struct {
    double df;        /* denominator degrees of freedom, at least 1 */
    double a;         /* df / 2 */
    double log_front; /* ln(Gamma(a + 1/2) / (Gamma(a) Gamma(1/2))) = -ln B(a, 1/2) */
} jamma_f_tail;

void jamma_f_tail_init(jamma_f_tail *tail, double df);

/* P(F > f) into *sf and its logarithm into *logsf. f <= 0 gives 1 and 0, infinity 0 and -infinity, nan nan. */
void jamma_f_tail_both(const jamma_f_tail *tail, double f, double *sf, double *logsf);

/* The same for chi-square with one degree of freedom. */
void jamma_chi2_1_both(double x, double *sf, double *logsf);

#endif
