/* The search for lambda and the statistics of one variant from its sums at the nodes; see likelihood.c. */
#ifndef JAMMA_LIKELIHOOD_H
#define JAMMA_LIKELIHOOD_H

#include <stdint.h>

#include "levels.h"

enum { JAMMA_TESTED = 0, JAMMA_COLLINEAR = 1, JAMMA_PERFECT_FIT = 2, JAMMA_NOT_FINITE = 3 };
enum { JAMMA_WALD = 1, JAMMA_LRT = 2, JAMMA_SCORE = 4 };

/* All that does not depend on the variant. Sizes: R nodes, c covariates, J intervals of t = ln(lambda), T Chebyshev
 * terms (a multiple of 8), E = J + 1 rounded up to a multiple of 8. e is y'Py, L_R and L_M are the parts of the two
 * log-likelihoods that hold no y and no x; L_M less its value at the null model's optimum. Slopes are in t, in the form
 * of jamma/lmm/nodes.py: df/dt + s f with s = 1 in intervals that decay, else 0; in the slope of l all s cancel. */
typedef struct {
    int64_t n_nodes, n_cvt, n_intervals, n_terms, n_ends;
    double n, df;                 /* samples; n - c - 1 */
    double scale;                 /* of the phenotype */
    double l_min, l_max;          /* bounds of lambda */
    double start_reml, start_ml;  /* t of the null model's optima: where a search in their interval starts */
    double constant_reml;         /* of l_R, with the phenotype's scale */
    double null_logl, null_residual; /* l_M of the null model at its optimum, and e there */
    double score_residual;        /* e at the lambda of the score test */
    int64_t shift_node;           /* the node where a strong effect is estimated */
    const double *ends;           /* (J + 1) t at the ends of the intervals */
    const double *decays;         /* (J) s */
    const double *weights, *slope_weights;       /* (J, R, T) */
    const double *end_weights, *end_slopes;      /* (R, E) */
    const double *zero_weights, *score_weights;  /* (R) */
    const double *whitening;      /* (c, c, R), lower triangle */
    const double *whitened_y;     /* (c, R) */
    const double *node_residual;  /* (R) e at the nodes */
    const double *residual, *residual_slope;     /* (J, T) e */
    const double *log_reml, *log_reml_slope;     /* (J, T) L_R */
    const double *log_ml, *log_ml_slope;         /* (J, T) L_M */
    const double *end_values;     /* (6, E): e, L_R, L_M, each followed by its slope, at the ends */
} jamma_search;

typedef struct {
    double beta, se, logl_reml, l_remle, f_wald; /* at the REML optimum */
    double l_mle, logl_ml, lrt;                  /* at the ML optimum; lrt is not negative */
    double beta_score, se_score, f_score;        /* at the null model's ML lambda */
} jamma_fit;

/* Doubles of scratch that fit_variant needs. */
static inline int64_t jamma_fit_scratch(const jamma_search *s)
{
    return 3 * s->n_nodes + 6 * s->n_terms + 8 * s->n_terms + 7 * s->n_ends;
}

/* Fits one variant: xx (R), xq (c, R), xy (R) are its sums at the nodes, tests says which of JAMMA_WALD, JAMMA_LRT and
 * JAMMA_SCORE to compute (the other fields of *fit are left as they are). Returns JAMMA_TESTED or the reason why not.
 * Every CPU level gives the same bits: sums over nodes run in one order and products are rounded before adding. */
typedef int fit_variant_fn(const jamma_search *s, const double *xx, const double *xq, const double *xy, int tests,
                           double *scratch, jamma_fit *fit);
JAMMA_DECLARE(fit_variant_fn, fit_variant);

#endif
