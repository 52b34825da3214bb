"""The orthogonal factor of a reduction to tridiagonal or band form.

Both reductions leave Q as Householder reflectors H_1 H_2 … below the diagonal of the reduced matrix, shifted down by
`shift` rows (1: DSYTRD; 8: the band): reflector j is 1 at row j + shift, and its rest lies in column j below. `form_q`
turns them into Q in the same memory, so the whole reduction needs no second n×n array.
"""
from libc.string cimport memcpy, memset

from jamma._blas.blas cimport blas_int, gemm, syrk


cdef void copy_reflectors(
    const double* a, blas_int lda, blas_int length, blas_int k, double* v,
) noexcept nogil:
    """v (length × k) ← reflectors stored in a, with their ones and zeros written out."""
    cdef blas_int j
    for j in range(k):
        memset(v + j * length, 0, j * sizeof(double))
        v[j * length + j] = 1.0
        memcpy(v + j * length + j + 1, a + j * lda + j + 1, (length - j - 1) * sizeof(double))


cdef void block_factor(double* g, blas_int k, const double* tau) noexcept nogil:
    """T of H_1 … H_k = I − V T Vᵀ, in place of the upper triangle of g = VᵀV (k × k, column-major); zeros below.

    Column j is T_j = −τ_j T_{<j} (VᵀV)_{<j, j} with τ_j on the diagonal (LAPACK's DLARFT).
    """
    cdef blas_int i, j, l
    cdef double factor
    for j in range(k):
        for l in range(j):  # column l of T reaches up from row l, so what it adds to is no longer needed as VᵀV
            factor = -tau[j] * g[j * k + l]
            g[j * k + l] = 0.0
            for i in range(l + 1):
                g[j * k + i] += factor * g[l * k + i]
        g[j * k + j] = tau[j]
        memset(g + j * k + j + 1, 0, (k - j - 1) * sizeof(double))


cdef blas_int apply_block(
    double* a, blas_int n, blas_int shift, blas_int j0, blas_int k, const double* tau, double* v, double* t, double* w,
) noexcept nogil:
    """Columns j0 + shift … of Q from those of j0 + k + shift …: Q ← (I − V T Vᵀ) Q on the trailing part alone."""
    cdef blas_int top = j0 + shift
    cdef blas_int length = n - top
    cdef blas_int rest = length - k
    cdef blas_int i, j, info
    cdef double* block = a + top * n + top           # k columns that become Q's
    cdef double* trailing = a + (top + k) * n + top  # columns of Q so far, their first k rows still to be set
    copy_reflectors(a + j0 * n + top, n, length, k, v)
    info = syrk(c'U', c'T', k, length, 1.0, v, length, 0.0, t, k)
    if info:
        return info
    block_factor(t, k, tau + j0)
    if rest > 0:
        for j in range(rest):
            memset(trailing + j * n, 0, k * sizeof(double))
        # The first k rows are 0 and need no product: w = T V₂ᵀ Q, by way of V₂ᵀ Q in the second half of w.
        gemm(c'T', c'N', k, rest, rest, 1.0, v + k, length, trailing + k, n, 0.0, w + k * rest, k)
        gemm(c'N', c'N', k, rest, k, 1.0, t, k, w + k * rest, k, 0.0, w, k)
        gemm(c'N', c'N', length, rest, k, -1.0, v, length, w, k, 1.0, trailing, n)
    # The block's own columns of the trailing Q are those of the identity: I − V (T V₁ᵀ).
    for j in range(k):
        for i in range(k):
            w[k * k + j * k + i] = v[i * length + j]
    gemm(c'N', c'N', k, k, k, 1.0, t, k, w + k * k, k, 0.0, w, k)
    gemm(c'N', c'N', length, k, k, -1.0, v, length, w, k, 0.0, block, n)
    for j in range(k):
        block[j * n + j] += 1.0
    return 0


def form_q(double[::1, :] a, const double[::1] tau, blas_int shift, blas_int block_size, double[::1] work):
    """Turn the reflectors in a and tau into Q, in place.

    Parameters
    ----------
    a : (n, n) array, Fortran order
        Reflector j in column j, below row j + shift; Q on return. What else is in it is ignored.
    tau : (n − shift,) array
        Factors of the reflectors, H_j = I − τ_j v_j v_jᵀ.
    shift : int
        Rows and columns at the start in which Q is the identity.
    block_size : int
        Reflectors applied at once, backwards, to the part of Q that they change: rows and columns from theirs on.
    work : array
        At least ``form_q_work(n, block_size)`` elements.

    Returns
    -------
    int
        0, or jamma._blas.blas.NOT_LOADED.
    """
    cdef blas_int n = a.shape[0]
    cdef blas_int n_reflectors = max(n - shift, 0)
    cdef blas_int j, j0
    cdef blas_int info = 0
    cdef double* memory = &a[0, 0]
    cdef double* v = &work[0]
    cdef double* t = v + n * block_size
    cdef double* w = t + block_size * block_size
    with nogil:
        j0 = (n_reflectors - 1) // block_size * block_size if n_reflectors else -1
        while j0 >= 0 and info == 0:
            info = apply_block(memory, n, shift, j0, min(block_size, n_reflectors - j0), &tau[0], v, t, w)
            j0 -= block_size
        for j in range(n):
            if j < shift:
                memset(memory + j * n, 0, n * sizeof(double))
                memory[j * n + j] = 1.0
            else:
                memset(memory + j * n, 0, min(shift, n) * sizeof(double))
    return info


def form_q_work(blas_int n, blas_int block_size):
    """Elements of `form_q`'s workspace: V, T and two (k × n) or (k × k) products."""
    return block_size * (3 * n + 3 * block_size)
