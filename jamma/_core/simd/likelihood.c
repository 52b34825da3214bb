/* One variant's statistics from its sums at the nodes (jamma/lmm/nodes.py has the mathematics).
 *
 * a = x'Px, b = x'Py and e = y'Py (P projects the covariates out) as functions of t = ln(lambda) give
 *
 *     l_R = L_R - 1/2 ln a - 1/2 df ln r + const,     l_M = L_M - 1/2 n ln r + const,     r = e - b^2/a.
 *
 * Steps, with what they touch:
 *   1. project at the nodes: a and b from xx, xq, xy by the whitening factors; c(c+1)/2 passes over R numbers.
 *   2. value and slope of a and b at the J + 1 ends of the intervals: (R, E) tables, about 12 kB, shared by all
 *      variants and so in the first-level cache; accumulators stay in registers over all nodes.
 *   3. in each interval where the slope of l turns from + to -: Chebyshev coefficients of a, b and their slopes there
 *      by two (R, T) tables, then Newton's method on Clenshaw sums of a, b, e, L, their slopes, and the derivatives of
 *      the slopes, four lanes at once. It starts at the null model's optimum, which is near for almost all variants.
 *
 * Slopes have tables of their own. The derivative of an interpolated function has an error of 1e-13 of the function, and
 * towards both ends of the range the slope of l is 1e-3 or 1e-5 of its parts.
 *
 *   4. the best of these and of both bounds.
 *
 * A strong effect makes r much smaller than e, and e - b^2/a would magnify the interpolation's error (1e-13) to e/r times
 * that. Then y is replaced by y - x beta0, with beta0 the estimate at one node: e becomes a function with values at the
 * nodes like a and b, as small as r, and b nearly 0. e itself is used otherwise since it is known to 1e-16.
 *
 * Nothing is summed across lanes, and there are no fused multiply-adds (-ffp-contract=off), so all levels give the same
 * bits.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "likelihood.h"

#if defined(__AVX512F__)
#define WIDTH 8
#elif defined(__AVX__)
#define WIDTH 4
#else
#define WIDTH 2
#endif
typedef double lanes __attribute__((vector_size(8 * WIDTH), aligned(8), may_alias));
typedef double v4 __attribute__((vector_size(32)));
enum { PARTS = 8 / WIDTH }; /* vectors of 8 sums */

/* a below this share of xx: x is in the span of the covariates. r below this share of e: rounding error. A slope per
 * sample below this everywhere: flat. As in jamma/lmm/reference.py, null_model.py and search.py. */
static const double COLLINEAR = 1e-11, PERFECT_FIT = 1e-12, FLAT = 1e-11, TOLERANCE = 1e-8;
static const double NEAR = 0.2; /* in t: 4 points integrate the slope to 1e-15 */
enum { MAX_STEPS = 100 };

typedef struct {
    const jamma_search *s;
    double *a, *b, *e;                 /* (R) at the nodes; e only where the effect was shifted */
    double shift;                      /* effect taken out of y: 0, or the estimate at one node */
    double *end_a, *end_a1, *end_b, *end_b1, *end_e, *end_e1, *slopes; /* (E) */
    double *sums;                      /* (6, T) */
    double *series;                    /* (T, 8) Chebyshev coefficients of a, b, e, L and their slopes on an interval */
} variant;

typedef struct {
    double t, lambda, value, a, b, r;
} optimum;

/* out[i][k] = sum over r of table[r][k] in[i][r], for i < count, k < width (a multiple of 8) */
static inline void combine(const double *table, int64_t n_nodes, int64_t width, const double *const *in, int count,
                           double *const *out)
{
    for (int64_t k = 0; k < width; k += 8) {
        lanes sum[3][PARTS] = {{{0}}};
        for (int64_t r = 0; r < n_nodes; r++) {
            const lanes *w = (const lanes *)(table + r * width + k);
#pragma GCC unroll 3
            for (int i = 0; i < count; i++)
#pragma GCC unroll 4
                for (int p = 0; p < PARTS; p++)
                    sum[i][p] += w[p] * in[i][r];
        }
#pragma GCC unroll 3
        for (int i = 0; i < count; i++)
#pragma GCC unroll 4
            for (int p = 0; p < PARTS; p++)
                *(lanes *)(out[i] + k + p * WIDTH) = sum[i][p];
    }
}

static double dot(const double *x, const double *y, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* Step 1. */
static void project(variant *v, const double *xx, const double *xq, const double *xy, double *z)
{
    const jamma_search *s = v->s;
    const int64_t n = s->n_nodes, c = s->n_cvt;
    memcpy(v->a, xx, n * sizeof(double));
    memcpy(v->b, xy, n * sizeof(double));
    for (int64_t k = 0; k < c; k++) {
        const double *factor = s->whitening + k * c * n, *zy = s->whitened_y + k * n;
        for (int64_t r = 0; r < n; r++)
            z[r] = factor[r] * xq[r];
        for (int64_t l = 1; l <= k; l++)
            for (int64_t r = 0; r < n; r++)
                z[r] += factor[l * n + r] * xq[l * n + r];
        for (int64_t r = 0; r < n; r++) {
            v->a[r] -= z[r] * z[r];
            v->b[r] -= z[r] * zy[r];
        }
    }
}

/* Why the variant cannot be tested; from the node with the smallest lambda, whose sums are taken as they are. */
static int reason(const variant *v, double xx)
{
    const double a = v->a[0], b = v->b[0], e = v->s->node_residual[0];
    int64_t not_finite = !(fabs(xx) <= DBL_MAX);
    for (int64_t r = 0; r < v->s->n_nodes; r++)
        not_finite += !(fabs(v->a[r]) <= DBL_MAX) | !(fabs(v->b[r]) <= DBL_MAX);
    if (not_finite)
        return JAMMA_NOT_FINITE;
    if (!(a > COLLINEAR * xx))
        return JAMMA_COLLINEAR;
    return e - b * (b / a) > PERFECT_FIT * e ? JAMMA_TESTED : JAMMA_PERFECT_FIT;
}

/* Replace y by y - x beta0 where x explains more than half of it. */
static void shift_strong_effect(variant *v)
{
    const int64_t m = v->s->shift_node;
    const double *e = v->s->node_residual, beta = v->b[m] / v->a[m];
    v->shift = 0.0;
    if (!(v->b[m] * beta > 0.5 * e[m]))
        return;
    v->shift = beta;
    for (int64_t r = 0; r < v->s->n_nodes; r++) {
        const double b = v->b[r] - beta * v->a[r];
        v->e[r] = e[r] - beta * v->b[r] - beta * b;
        v->b[r] = b;
    }
}

/* Step 2: a, b, e and their slopes at the ends. */
static void evaluate_ends(variant *v)
{
    const jamma_search *s = v->s;
    const double *const in[3] = {v->a, v->b, v->e};
    double *const values[3] = {v->end_a, v->end_b, v->end_e}, *const slopes[3] = {v->end_a1, v->end_b1, v->end_e1};
    if (v->shift != 0.0) {
        combine(s->end_weights, s->n_nodes, s->n_ends, in, 3, values);
        combine(s->end_slopes, s->n_nodes, s->n_ends, in, 3, slopes);
        return;
    }
    combine(s->end_weights, s->n_nodes, s->n_ends, in, 2, values);
    combine(s->end_slopes, s->n_nodes, s->n_ends, in, 2, slopes);
    memcpy(v->end_e, s->end_values, s->n_ends * sizeof(double));
    memcpy(v->end_e1, s->end_values + s->n_ends, s->n_ends * sizeof(double));
}

/* Slope of the log-likelihood in t at every end, and whether it is flat. */
static int end_slopes(variant *v, int restricted)
{
    const jamma_search *s = v->s;
    const double half_df = 0.5 * (restricted ? s->df : s->n), half = restricted ? 0.5 : 0.0;
    const double *l1 = s->end_values + (restricted ? 3 : 5) * s->n_ends;
    double largest = 0.0;
    for (int64_t i = 0; i <= s->n_intervals; i++) {
        const double a = v->end_a[i], a1 = v->end_a1[i], beta = v->end_b[i] / a;
        const double r = v->end_e[i] - beta * v->end_b[i];
        const double r1 = v->end_e1[i] - beta * (2.0 * v->end_b1[i] - beta * a1);
        v->slopes[i] = l1[i] - half * (a1 / a) - half_df * (r1 / r);
        largest = fmax(largest, fabs(v->slopes[i]));
    }
    return largest <= FLAT * s->n;
}

static double value_of(const variant *v, double a, double r, double l, int restricted)
{
    const jamma_search *s = v->s;
    return restricted ? l - 0.5 * log(a) - 0.5 * s->df * log(r) : l - 0.5 * s->n * log(r / s->null_residual);
}

static optimum at_end(const variant *v, int64_t i, int restricted)
{
    const jamma_search *s = v->s;
    const double a = v->end_a[i], b = v->end_b[i], r = v->end_e[i] - b * (b / a);
    const double value = value_of(v, a, r, s->end_values[(restricted ? 2 : 4) * s->n_ends + i], restricted);
    return (optimum){s->ends[i], i ? s->l_max : s->l_min, value, a, b, r};
}

/* Step 3: the series on interval j. */
static void make_series(variant *v, int64_t j, int restricted)
{
    const jamma_search *s = v->s;
    const int64_t terms = s->n_terms;
    const double *const in[3] = {v->a, v->b, v->e};
    double *const out[3] = {v->sums, v->sums + terms, v->sums + 2 * terms};
    double *const out1[3] = {v->sums + 3 * terms, v->sums + 4 * terms, v->sums + 5 * terms};
    const double *table = s->weights + j * s->n_nodes * terms, *table1 = s->slope_weights + j * s->n_nodes * terms;
    const double *e = s->residual + j * terms, *e1 = s->residual_slope + j * terms;
    const double *l = (restricted ? s->log_reml : s->log_ml) + j * terms;
    const double *l1 = (restricted ? s->log_reml_slope : s->log_ml_slope) + j * terms;
    if (v->shift != 0.0) {
        combine(table, s->n_nodes, terms, in, 3, out);
        combine(table1, s->n_nodes, terms, in, 3, out1);
        e = out[2];
        e1 = out1[2];
    } else {
        combine(table, s->n_nodes, terms, in, 2, out);
        combine(table1, s->n_nodes, terms, in, 2, out1);
    }
    for (int64_t k = 0; k < terms; k++) {
        const double row[8] = {out[0][k], out[1][k], e[k], l[k], out1[0][k], out1[1][k], e1[k], l1[k]};
        memcpy(v->series + 8 * k, row, sizeof row);
    }
}

/* The series at u, and the derivatives in u of the last four, by Clenshaw's recurrence and its derivative. */
static inline void clenshaw(const double *series, int64_t terms, double u, double f[4], double f1[4], double f2[4])
{
    v4 b1 = {0}, b2 = {0}, c1 = {0}, c2 = {0}, d1 = {0}, d2 = {0}, c[2];
    const double u2 = 2.0 * u;
    for (int64_t k = terms - 1; k > 0; k--) {
        memcpy(&c[0], series + 8 * k, sizeof c[0]);
        memcpy(&c[1], series + 8 * k + 4, sizeof c[1]);
        const v4 d0 = 2.0 * c1 + u2 * d1 - d2;
        const v4 c0 = c[1] + u2 * c1 - c2;
        const v4 b0 = c[0] + u2 * b1 - b2;
        d2 = d1, d1 = d0;
        c2 = c1, c1 = c0;
        b2 = b1, b1 = b0;
    }
    memcpy(&c[0], series, sizeof c[0]);
    memcpy(&c[1], series + 4, sizeof c[1]);
    const v4 value = c[0] + u * b1 - b2, slope = c[1] + u * c1 - c2, second = c1 + u * d1 - d2;
    memcpy(f, &value, sizeof value);
    memcpy(f1, &slope, sizeof slope);
    memcpy(f2, &second, sizeof second);
}

/* Slope of the log-likelihood in t at u of interval j, from the series, with its derivative. */
static inline double slope_at(const variant *v, int64_t j, double u, int restricted, double f[4], double *curvature)
{
    const jamma_search *s = v->s;
    const double half_df = 0.5 * (restricted ? s->df : s->n), half = restricted ? 0.5 : 0.0;
    const double decay = s->decays[j], per_t = 2.0 / (s->ends[j + 1] - s->ends[j]);
    double f1[4], f2[4];
    clenshaw(v->series, s->n_terms, u, f, f1, f2);
    const double a = f[0], beta = f[1] / a, turn = f1[1] - beta * f1[0];
    const double r = f[2] - beta * f[1], r1 = f1[2] - beta * (f1[1] + turn);
    const double r2 = per_t * (f2[2] - beta * (2.0 * f2[1] - beta * f2[0])) - 2.0 * turn * turn / a;
    const double in_a = f1[0] / a, in_r = r1 / r;
    *curvature = per_t * f2[3] - half * (per_t * f2[0] / a - in_a * (in_a - decay)) -
                 half_df * (r2 / r - in_r * (in_r - decay));
    return f1[3] - half * in_a - half_df * in_r;
}

/* Maximum in interval j, where the slope falls from + to -: Newton's method inside its bracket, u from -1 to 1. */
static optimum polish(variant *v, int64_t j, int restricted)
{
    const jamma_search *s = v->s;
    const double middle = 0.5 * (s->ends[j] + s->ends[j + 1]), half_width = 0.5 * (s->ends[j + 1] - s->ends[j]);
    double lo = -1.0, hi = 1.0, curvature, u = ((restricted ? s->start_reml : s->start_ml) - middle) / half_width;
    double f[4];
    if (!(u > -1.0 && u < 1.0))
        u = 0.0;
    make_series(v, j, restricted);
    for (int step = 0; step < MAX_STEPS; step++) {
        const double slope = slope_at(v, j, u, restricted, f, &curvature);
        if (slope > 0.0)
            lo = u;
        else
            hi = u;
        const double newton = u - slope / curvature / half_width, change = newton - u;
        if (curvature < 0.0 && fabs(change) * half_width < TOLERANCE) {
            u = fmin(fmax(newton, -1.0), 1.0);
            break;
        }
        u = curvature < 0.0 && newton > lo && newton < hi ? newton : 0.5 * (lo + hi);
        if (hi - lo < 1e-15)
            break;
    }
    slope_at(v, j, u, restricted, f, &curvature);
    const double t = middle + half_width * u, r = f[2] - f[1] * (f[1] / f[0]);
    return (optimum){t, fmin(fmax(exp(t), s->l_min), s->l_max), value_of(v, f[0], r, f[3], restricted), f[0], f[1], r};
}

/* Step 4. */
static optimum maximise(variant *v, int restricted)
{
    const jamma_search *s = v->s;
    optimum best = at_end(v, 0, restricted);
    if (end_slopes(v, restricted))
        return best;
    const optimum last = at_end(v, s->n_intervals, restricted);
    if (last.value > best.value)
        best = last;
    for (int64_t j = 0; j < s->n_intervals; j++)
        if (v->slopes[j] > 0.0 && v->slopes[j + 1] <= 0.0) {
            const optimum found = polish(v, j, restricted);
            if (found.value > best.value)
                best = found;
        }
    return best;
}

/* Integral of the slope of the full log-likelihood from t0 to t1, both in interval j: 4 points of Gauss and Legendre. */
static double integrate(variant *v, int64_t j, double t0, double t1)
{
    static const double point[2] = {0.33998104358485626480, 0.86113631159405257522};
    static const double weight[2] = {0.65214515486254614263, 0.34785484513745385737};
    const jamma_search *s = v->s;
    const double middle = 0.5 * (s->ends[j] + s->ends[j + 1]), half_width = 0.5 * (s->ends[j + 1] - s->ends[j]);
    const double u = (0.5 * (t0 + t1) - middle) / half_width, h = 0.5 * (t1 - t0) / half_width;
    double sum = 0.0, f[4], ignored;
    make_series(v, j, 0);
    for (int i = 0; i < 2; i++)
        sum += weight[i] * (slope_at(v, j, u - point[i] * h, 0, f, &ignored) +
                            slope_at(v, j, u + point[i] * h, 0, f, &ignored));
    return sum * h * half_width;
}

/* Twice the difference of the two maxima of l_M. Where they lie close together the difference of the values would leave
 * 1e-15 n of rounding error, which matters for p near 1; then it is taken as the sum of what x explains at the null
 * model's lambda, whose relative error is small, and what is gained by moving from there to the optimum. */
static double likelihood_ratio(variant *v, const optimum *best)
{
    const jamma_search *s = v->s;
    const double t0 = s->start_ml, t1 = best->t, low = fmin(t0, t1), high = fmax(t0, t1);
    if (v->shift != 0.0 || !(high - low < NEAR))
        return fmax(2.0 * best->value, 0.0);
    const double a = dot(s->score_weights, v->a, s->n_nodes), b = dot(s->score_weights, v->b, s->n_nodes);
    double gain = 0.0;
    for (int64_t j = 0; j < s->n_intervals && high > low; j++) {
        const double from = fmax(low, s->ends[j]), to = fmin(high, s->ends[j + 1]);
        if (to > from)
            gain += integrate(v, j, from, to);
    }
    if (t1 < t0)
        gain = -gain;
    return fmax(2.0 * gain - s->n * log1p(-b * (b / a) / s->score_residual), 0.0);
}

int KERNEL(fit_variant)(const jamma_search *s, const double *xx, const double *xq, const double *xy, int tests,
                        double *scratch, jamma_fit *fit)
{
    const int64_t n = s->n_nodes, e = s->n_ends;
    double *ends = scratch + 3 * n;
    variant v = {
        .s = s, .a = scratch, .b = scratch + n, .e = scratch + 2 * n,
        .end_a = ends, .end_a1 = ends + e, .end_b = ends + 2 * e, .end_b1 = ends + 3 * e, .end_e = ends + 4 * e,
        .end_e1 = ends + 5 * e, .slopes = ends + 6 * e, .sums = ends + 7 * e, .series = ends + 7 * e + 6 * s->n_terms,
    };
    project(&v, xx, xq, xy, v.e);
    const int why = reason(&v, xx[0]);
    if (why != JAMMA_TESTED)
        return why;
    if (tests & JAMMA_SCORE) {
        const double a = dot(s->score_weights, v.a, n), b = dot(s->score_weights, v.b, n);
        const double beta = b / a, residual = s->score_residual;
        fit->beta_score = beta * s->scale;
        fit->se_score = sqrt((residual - b * beta) / s->df / a) * s->scale;
        fit->f_score = s->n * (b * beta) / residual;
    }
    if (!(tests & (JAMMA_WALD | JAMMA_LRT)))
        return JAMMA_TESTED;
    shift_strong_effect(&v);
    evaluate_ends(&v);
    if (tests & JAMMA_WALD) {
        const optimum best = maximise(&v, 1);
        const double beta = v.shift + best.b / best.a;
        fit->beta = beta * s->scale;
        fit->se = sqrt(best.r / s->df / best.a) * s->scale;
        fit->f_wald = beta * beta * best.a * s->df / best.r;
        fit->l_remle = best.lambda;
        fit->logl_reml = best.value + s->constant_reml + 0.5 * log(dot(s->zero_weights, v.a, n));
    }
    if (tests & JAMMA_LRT) {
        const optimum best = maximise(&v, 0);
        fit->l_mle = best.lambda;
        fit->logl_ml = s->null_logl + best.value;
        fit->lrt = likelihood_ratio(&v, &best);
    }
    return JAMMA_TESTED;
}
