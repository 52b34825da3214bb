/* Upper tails of F(1, df) and of chi-square(1), with logarithms that stay right where the tail underflows.
 *
 * With a = df/2, w = f/(df + f), x = 1 - w the tail of F(1, df) is I_x(a, 1/2) = 1 - I_w(1/2, a), the regularised
 * incomplete beta function (DLMF 8.17). Two regions, split where both are cheap:
 *
 *   head, w <= 2.5/(a + 4.5) (p above about 0.03): I_w by its power series DLMF 8.17.8, whose terms are all positive,
 *     so 1 - I_w and ln(1 - I_w) lose nothing near p = 1;
 *   tail: I_x by the even part of the continued fraction DLMF 8.17.22 times its front factor, kept as a logarithm.
 *
 * The front factor needs ln(Gamma(a + 1/2)/Gamma(a)). The difference of two log-gammas would lose ten digits at
 * a = 5e5; the asymptotic series of the ratio (from DLMF 5.11.8) loses none. x^a is exp(-a log1p(f/df)): its error is
 * that of the exponent, 1e-16 times 700 at the smallest double.
 *
 * chi-square(1) is erfc(z), z = sqrt(x/2): the library's erfc, and for the logarithm beyond z = 2 the exponent x/2
 * itself and the continued fraction DLMF 7.9.1 of exp(z^2) erfc(z).
 */
#include "tails.h"

#include <math.h>

static const double LN_PI_HALF = 0.57236494292470008707;
static const double SQRT_PI = 1.7724538509055160273;

/* ln(Gamma(a + 1/2) / Gamma(a)) */
static double log_gamma_ratio(double a)
{
    double shift = 0.0;
    for (; a < 24.0; a += 1.0)
        shift += log1p(-0.5 / (a + 0.5));
    const double r = 1.0 / a, r2 = r * r;
    const double series =
        -r * (1.0 / 8 - r2 * (1.0 / 192 - r2 * (1.0 / 640 - r2 * (17.0 / 14336 - r2 * (31.0 / 18432)))));
    return 0.5 * log(a) + series + shift;
}

void jamma_f_tail_init(jamma_f_tail *tail, double df)
{
    tail->df = df;
    tail->a = 0.5 * df;
    tail->log_front = log_gamma_ratio(tail->a) - LN_PI_HALF;
}

/* I_x(a, 1/2) B(a, 1/2) / (x^a w^(1/2)), w = 1 - x, by the even part of the fraction DLMF 8.17.22 (DiDonato & Morris 1992,
 * ACM TOMS 18, 360, their eq. 9) and Lentz's method. The plain fraction has differences of nearly equal numbers as x
 * nears 1, and loses log10(a) digits; here the small one, lambda = a w - x/2, is given. */
static double beta_fraction(double a, double x, double w)
{
    const double b = 0.5, lambda = a * w - b * x;
    double h = a / (a + 1.0) * (lambda + 1.0), c = h, d = 0.0;
    for (int n = 1; n < 1000; n++) {
        const double m = a + 2.0 * n, part = n * (b - n) * x / (m - 1.0);
        const double alpha = (a + n - 1.0) * (a + b + n - 1.0) * x / (m - 1.0) * part;
        const double beta = n + part + (a + n) / (m + 1.0) * (lambda + 1.0 + n * (1.0 + w));
        d = 1.0 / (beta + alpha * d);
        c = beta + alpha / c;
        const double change = c * d;
        h *= change;
        if (fabs(change - 1.0) < 2e-16)
            break;
    }
    return 1.0 / h;
}

/* I_w(1/2, a) / (w^(1/2) (1-w)^a / (B(a, 1/2) / 2)): sum of (a + 1/2)_k / (3/2)_k w^k */
static double head_series(double a, double w)
{
    double term = 1.0, total = 1.0;
    for (int k = 0; k < 1000 && term > 1e-17 * total; k++) {
        term *= (a + 0.5 + k) / (1.5 + k) * w;
        total += term;
    }
    return total;
}

void jamma_f_tail_both(const jamma_f_tail *tail, double f, double *sf, double *logsf)
{
    if (!(f > 0.0) || isinf(f)) {
        *sf = isnan(f) ? f : f > 0.0 ? 0.0 : 1.0;
        *logsf = isnan(f) ? f : f > 0.0 ? -INFINITY : 0.0;
        return;
    }
    const double a = tail->a, ratio = f / tail->df;
    const double w = 1.0 / (1.0 + tail->df / f);
    const double front = tail->log_front - a * log1p(ratio) + 0.5 * log(w);
    if (w <= 2.5 / (a + 4.5)) {
        const double below = 2.0 * exp(front) * head_series(a, w);
        *sf = 1.0 - below;
        *logsf = log1p(-below);
    } else {
        const double factor = beta_fraction(a, 1.0 / (1.0 + ratio), w);
        *sf = exp(front) * factor;
        *logsf = front + log(factor);
    }
}

/* exp(z^2) erfc(z) for z >= 2; the number of levels falls with z. */
static double erfcx_fraction(double z)
{
    double t = z;
    for (int k = 8 + (int)(440.0 / (z * z)); k > 0; k--)
        t = z + 0.5 * k / t;
    return 1.0 / (t * SQRT_PI);
}

void jamma_chi2_1_both(double x, double *sf, double *logsf)
{
    if (!(x > 0.0) || isinf(x)) {
        *sf = isnan(x) ? x : x > 0.0 ? 0.0 : 1.0;
        *logsf = isnan(x) ? x : x > 0.0 ? -INFINITY : 0.0;
        return;
    }
    const double z = sqrt(0.5 * x);
    if (z < 0.5) {
        *sf = erfc(z);
        *logsf = log1p(-erf(z));
    } else if (z < 2.0) {
        *sf = erfc(z);
        *logsf = log(*sf);
    } else {
        const double scaled = erfcx_fraction(z);
        *sf = exp(-0.5 * x) * scaled;
        *logsf = -0.5 * x + log(scaled);
    }
}
