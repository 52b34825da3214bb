/* Sums at the nodes of the squares of rotated variants; lanes are nodes.
 *
 * 8 variants (4 with fewer registers) by two vectors of nodes stay in registers while a panel of columns is added: per
 * column two vectors of coefficients are loaded once for all these variants, and each rotated value is spread over the
 * lanes. While a block is rotated its sums, and the state of a forward solve, lie in the order in which they are used:
 * [variant / 8][node / 16][variant % 8][node % 16].
 */
#include "rotate.h"
#include "vec.h"

enum {
    VARIANTS = VEC_LANES == 8 ? 8 : 4,
    WIDE = 2, /* vectors of nodes */
};

/* Loops over registers, which are to be gone before the compiler decides what lives in one. */
#define UNROLL _Pragma("GCC unroll 8")
#define INLINED static inline __attribute__((always_inline))

/* Adds the `n` columns of x to `variants` x `lanes` vectors of sums. h and x are of the first node, variant and column;
 * columns of x are next to each other up to JAMMA_GROUP, then x_stride on. */
INLINED void diagonal(double *sums, const double *h, int64_t n_nodes, const double *x, int64_t x_stride, int64_t n,
                       int lanes)
{
    vec sum[VARIANTS][WIDE];
    UNROLL for (int v = 0; v < VARIANTS; v++)
        UNROLL for (int k = 0; k < lanes; k++)
            sum[v][k] = vec_load(sums + (v * lanes + k) * VEC_LANES);
    for (; n > 0; n -= JAMMA_GROUP, x += x_stride)
        for (int64_t j = 0; j < JAMMA_GROUP && j < n; j++, h += n_nodes) {
            vec weight[WIDE];
            UNROLL for (int k = 0; k < lanes; k++)
                weight[k] = vec_load(h + k * VEC_LANES);
            UNROLL for (int v = 0; v < VARIANTS; v++) {
                const vec value = vec_all(x[v * JAMMA_GROUP + j]);
                UNROLL for (int k = 0; k < lanes; k++)
                    sum[v][k] = vec_fma(value, weight[k], sum[v][k]);
            }
        }
    UNROLL for (int v = 0; v < VARIANTS; v++)
        UNROLL for (int k = 0; k < lanes; k++)
            vec_store(sums + (v * lanes + k) * VEC_LANES, sum[v][k]);
}

/* The same with s_i² for x_i, where s_i = x_i - l_i s_{i-1}; state holds s. */
INLINED void tridiagonal(double *sums, double *state, const double *h, const double *l, int64_t n_nodes,
                          const double *x, int64_t x_stride, int64_t n, int lanes)
{
    vec sum[VARIANTS][WIDE], s[VARIANTS][WIDE];
    UNROLL for (int v = 0; v < VARIANTS; v++)
        UNROLL for (int k = 0; k < lanes; k++) {
            sum[v][k] = vec_load(sums + (v * lanes + k) * VEC_LANES);
            s[v][k] = vec_load(state + (v * lanes + k) * VEC_LANES);
        }
    for (; n > 0; n -= JAMMA_GROUP, x += x_stride)
        for (int64_t j = 0; j < JAMMA_GROUP && j < n; j++, h += n_nodes, l += n_nodes)
            UNROLL for (int k = 0; k < lanes; k++) {
                const vec weight = vec_load(h + k * VEC_LANES), factor = vec_load(l + k * VEC_LANES);
                UNROLL for (int v = 0; v < VARIANTS; v++) {
                    s[v][k] = vec_fnma(factor, s[v][k], vec_all(x[v * JAMMA_GROUP + j]));
                    sum[v][k] = vec_fma(s[v][k] * s[v][k], weight, sum[v][k]);
                }
            }
    UNROLL for (int v = 0; v < VARIANTS; v++)
        UNROLL for (int k = 0; k < lanes; k++) {
            vec_store(sums + (v * lanes + k) * VEC_LANES, sum[v][k]);
            vec_store(state + (v * lanes + k) * VEC_LANES, s[v][k]);
        }
}

static __attribute__((noinline)) void diagonal_wide(double *sums, const double *h, int64_t n_nodes, const double *x,
                                                    int64_t x_stride, int64_t n)
{
    diagonal(sums, h, n_nodes, x, x_stride, n, WIDE);
}

static __attribute__((noinline)) void diagonal_narrow(double *sums, const double *h, int64_t n_nodes, const double *x,
                                                      int64_t x_stride, int64_t n)
{
    diagonal(sums, h, n_nodes, x, x_stride, n, 1);
}

static __attribute__((noinline)) void tridiagonal_wide(double *sums, double *state, const double *h, const double *l,
                                                       int64_t n_nodes, const double *x, int64_t x_stride, int64_t n)
{
    tridiagonal(sums, state, h, l, n_nodes, x, x_stride, n, WIDE);
}

static __attribute__((noinline)) void tridiagonal_narrow(double *sums, double *state, const double *h, const double *l,
                                                         int64_t n_nodes, const double *x, int64_t x_stride, int64_t n)
{
    tridiagonal(sums, state, h, l, n_nodes, x, x_stride, n, 1);
}

static void square(double *tile, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        tile[i] *= tile[i];
}

void KERNEL(node_sums)(const jamma_nodes *nodes, double *tile, int64_t start, int64_t n, int64_t n_variants,
                       double *state, double *sums)
{
    const int64_t n_nodes = nodes->n_nodes, tile_stride = n_variants * JAMMA_GROUP;
    const double *h = nodes->h + start * n_nodes, *l = nodes->l ? nodes->l + start * n_nodes : NULL;
    if (!l)
        square(tile, (n + JAMMA_GROUP - 1) / JAMMA_GROUP * tile_stride);
    for (int64_t v = 0; v < n_variants; v += VARIANTS) {
        const double *x = tile + v * JAMMA_GROUP;
        int64_t r = 0;
        for (; r + WIDE * VEC_LANES <= n_nodes; r += WIDE * VEC_LANES) {
            const int64_t at = v * n_nodes + r * VARIANTS;
            if (l)
                tridiagonal_wide(sums + at, state + at, h + r, l + r, n_nodes, x, tile_stride, n);
            else
                diagonal_wide(sums + at, h + r, n_nodes, x, tile_stride, n);
        }
        for (; r < n_nodes; r += VEC_LANES) {
            const int64_t at = v * n_nodes + r * VARIANTS;
            if (l)
                tridiagonal_narrow(sums + at, state + at, h + r, l + r, n_nodes, x, tile_stride, n);
            else
                diagonal_narrow(sums + at, h + r, n_nodes, x, tile_stride, n);
        }
    }
}

void KERNEL(store_sums)(const double *sums, int64_t n_nodes, int64_t n_variants, double *xx)
{
    for (int64_t v = 0; v < n_variants; v++)
        for (int64_t r = 0; r < n_nodes;) {
            const int64_t left = n_nodes - r, lanes = left >= WIDE * VEC_LANES ? WIDE * VEC_LANES : VEC_LANES;
            const double *from = sums + v / VARIANTS * VARIANTS * n_nodes + r * VARIANTS + v % VARIANTS * lanes;
            memcpy(xx + v * n_nodes + r, from, lanes * sizeof(double));
            r += lanes;
        }
}
