"""One nogil wrapper for each BLAS/LAPACK routine that jamma uses, over the library that `select` has loaded.

No BLAS is linked: `resolve.c` finds the routines in a library's file and proves that its integers have 64 bits.
Which file is the business of `jamma._blas.discovery`; what may be passed is checked by `jamma.jlinalg`. The `def`
functions at the end are for `jlinalg` and the tests: arrays are column-major memory, and sizes are not checked.

gfortran and ifx pass the length of each character argument after all others. The wrappers pass them too: a callee that
does not expect them ignores them, one that forwards them by a tail call needs them.
"""
import os

from libc.string cimport memset

cdef extern from "resolve.h":
    ctypedef void (*jamma_function)() noexcept nogil
    enum:
        JAMMA_BLAS_idamax
        JAMMA_BLAS_dgemm
        JAMMA_BLAS_dsyrk
        JAMMA_BLAS_dsyr2k
        JAMMA_BLAS_dsyevd
        JAMMA_BLAS_dsyevr
        JAMMA_BLAS_dsytrd
        JAMMA_BLAS_dsbtrd
        JAMMA_BLAS_dsterf
        JAMMA_RESOLVE_OK
        JAMMA_RESOLVE_NO_FILE
        JAMMA_RESOLVE_NO_SYMBOLS
        JAMMA_RESOLVE_MISSING
        JAMMA_RESOLVE_LP64
        JAMMA_RESOLVE_UNKNOWN_WIDTH
    struct jamma_blas:
        jamma_function* routine
        int int_bits
        const char* prefix
        const char* suffix
        char* file
        char* version
        char* message
    int jamma_blas_resolve(const char* path, jamma_blas* out) noexcept nogil

ctypedef void (*dgemm_t)(
    char*, char*, blas_int*, blas_int*, blas_int*, double*, const double*, blas_int*, const double*, blas_int*,
    double*, double*, blas_int*, size_t, size_t) noexcept nogil
ctypedef void (*dsyrk_t)(
    char*, char*, blas_int*, blas_int*, double*, const double*, blas_int*, double*, double*, blas_int*,
    size_t, size_t) noexcept nogil
ctypedef void (*dsyr2k_t)(
    char*, char*, blas_int*, blas_int*, double*, const double*, blas_int*, const double*, blas_int*, double*, double*,
    blas_int*, size_t, size_t) noexcept nogil
ctypedef void (*dsyevd_t)(
    char*, char*, blas_int*, double*, blas_int*, double*, double*, blas_int*, blas_int*, blas_int*, blas_int*,
    size_t, size_t) noexcept nogil
ctypedef void (*dsyevr_t)(
    char*, char*, char*, blas_int*, double*, blas_int*, double*, double*, blas_int*, blas_int*, double*, blas_int*,
    double*, double*, blas_int*, blas_int*, double*, blas_int*, blas_int*, blas_int*, blas_int*,
    size_t, size_t, size_t) noexcept nogil
ctypedef void (*dsytrd_t)(
    char*, blas_int*, double*, blas_int*, double*, double*, double*, double*, blas_int*, blas_int*,
    size_t) noexcept nogil
ctypedef void (*dsbtrd_t)(
    char*, char*, blas_int*, blas_int*, double*, blas_int*, double*, double*, double*, blas_int*, double*, blas_int*,
    size_t, size_t) noexcept nogil
ctypedef void (*dsterf_t)(blas_int*, double*, double*, blas_int*) noexcept nogil

cdef jamma_blas active
cdef bint loaded = False
memset(&active, 0, sizeof(active))

REFUSALS = {
    JAMMA_RESOLVE_NO_FILE: "it cannot be loaded: {message}",
    JAMMA_RESOLVE_NO_SYMBOLS: "it has no BLAS under a known name",
    JAMMA_RESOLVE_MISSING: "it has no routine {message}",
    JAMMA_RESOLVE_LP64: "its integers have 32 bits (LP64)",
    JAMMA_RESOLVE_UNKNOWN_WIDTH: "the width of its integers could not be found out",
}


cdef bint available() noexcept nogil:
    return loaded


cdef blas_int gemm(
    char transa, char transb, blas_int m, blas_int n, blas_int k,
    double alpha, const double* a, blas_int lda, const double* b, blas_int ldb,
    double beta, double* c, blas_int ldc,
) noexcept nogil:
    """C ← α op(A) op(B) + β C."""
    if not loaded:
        return NOT_LOADED
    (<dgemm_t>active.routine[JAMMA_BLAS_dgemm])(
        &transa, &transb, &m, &n, &k, &alpha, a, &lda, b, &ldb, &beta, c, &ldc, 1, 1)
    return 0


cdef blas_int syrk(
    char uplo, char trans, blas_int n, blas_int k,
    double alpha, const double* a, blas_int lda, double beta, double* c, blas_int ldc,
) noexcept nogil:
    """One triangle of C ← α A Aᵀ + β C (trans N) or α Aᵀ A + β C (trans T)."""
    if not loaded:
        return NOT_LOADED
    (<dsyrk_t>active.routine[JAMMA_BLAS_dsyrk])(&uplo, &trans, &n, &k, &alpha, a, &lda, &beta, c, &ldc, 1, 1)
    return 0


cdef blas_int syr2k(
    char uplo, char trans, blas_int n, blas_int k,
    double alpha, const double* a, blas_int lda, const double* b, blas_int ldb, double beta, double* c, blas_int ldc,
) noexcept nogil:
    """One triangle of C ← α (A Bᵀ + B Aᵀ) + β C (trans N) or α (Aᵀ B + Bᵀ A) + β C (trans T)."""
    if not loaded:
        return NOT_LOADED
    (<dsyr2k_t>active.routine[JAMMA_BLAS_dsyr2k])(
        &uplo, &trans, &n, &k, &alpha, a, &lda, b, &ldb, &beta, c, &ldc, 1, 1)
    return 0


cdef blas_int syevd(
    char jobz, char uplo, blas_int n, double* a, blas_int lda, double* w,
    double* work, blas_int lwork, blas_int* iwork, blas_int liwork,
) noexcept nogil:
    """A = V diag(w) Vᵀ by divide and conquer; A becomes V."""
    cdef blas_int info = 0
    if not loaded:
        return NOT_LOADED
    (<dsyevd_t>active.routine[JAMMA_BLAS_dsyevd])(
        &jobz, &uplo, &n, a, &lda, w, work, &lwork, iwork, &liwork, &info, 1, 1)
    return info


cdef blas_int syevr(
    char jobz, char range_, char uplo, blas_int n, double* a, blas_int lda,
    double vl, double vu, blas_int il, blas_int iu, double abstol, blas_int* m, double* w,
    double* z, blas_int ldz, blas_int* isuppz,
    double* work, blas_int lwork, blas_int* iwork, blas_int liwork,
) noexcept nogil:
    """A = Z diag(w) Zᵀ by relatively robust representations; A is destroyed."""
    cdef blas_int info = 0
    if not loaded:
        return NOT_LOADED
    (<dsyevr_t>active.routine[JAMMA_BLAS_dsyevr])(
        &jobz, &range_, &uplo, &n, a, &lda, &vl, &vu, &il, &iu, &abstol, m, w, z, &ldz, isuppz,
        work, &lwork, iwork, &liwork, &info, 1, 1, 1)
    return info


cdef blas_int sytrd(
    char uplo, blas_int n, double* a, blas_int lda, double* d, double* e, double* tau, double* work, blas_int lwork,
) noexcept nogil:
    """A = Q T Qᵀ with T tridiagonal (d, e) and Q as reflectors in A and tau."""
    cdef blas_int info = 0
    if not loaded:
        return NOT_LOADED
    (<dsytrd_t>active.routine[JAMMA_BLAS_dsytrd])(&uplo, &n, a, &lda, d, e, tau, work, &lwork, &info, 1)
    return info


cdef blas_int sbtrd(
    char vect, char uplo, blas_int n, blas_int kd, double* ab, blas_int ldab, double* d, double* e,
    double* q, blas_int ldq, double* work,
) noexcept nogil:
    """A band matrix B = Q T Qᵀ with T tridiagonal (d, e); the band is destroyed."""
    cdef blas_int info = 0
    if not loaded:
        return NOT_LOADED
    (<dsbtrd_t>active.routine[JAMMA_BLAS_dsbtrd])(
        &vect, &uplo, &n, &kd, ab, &ldab, d, e, q, &ldq, work, &info, 1, 1)
    return info


cdef blas_int sterf(blas_int n, double* d, double* e) noexcept nogil:
    """Eigenvalues of the tridiagonal matrix (d, e), ascending in d; e is destroyed."""
    cdef blas_int info = 0
    if not loaded:
        return NOT_LOADED
    (<dsterf_t>active.routine[JAMMA_BLAS_dsterf])(&n, d, e, &info)
    return info


cdef dict describe(jamma_blas* blas, int status, str path):
    """What was found in a file; `refusal` is None where it can be used."""
    message = blas.message.decode("utf-8", "replace")
    file = os.fsdecode(<bytes>blas.file) or path
    return {
        "file": os.path.realpath(file) if os.path.exists(file) else file,
        "version": blas.version.decode("utf-8", "replace").strip(),
        "int_bits": blas.int_bits,
        "symbols": f"{blas.prefix.decode()}*{blas.suffix.decode()}" if blas.int_bits else "",
        "refusal": None if status == JAMMA_RESOLVE_OK else REFUSALS[status].format(message=message),
    }


def probe(str path not None):
    """Load a library and say what it is, without using it; a dict as `select` returns it."""
    cdef jamma_blas found
    cdef bytes name = os.fsencode(path)
    cdef int status = jamma_blas_resolve(name, &found)
    return describe(&found, status, path)


def select(str path not None):
    """Use a library from now on, if it can be used; returns what `probe` does.

    Not to be called while another thread is inside a routine; `jamma.jlinalg` calls it under a lock, once.
    """
    global active, loaded
    cdef jamma_blas found
    cdef bytes name = os.fsencode(path)
    cdef int status = jamma_blas_resolve(name, &found)
    if status == JAMMA_RESOLVE_OK:
        active = found
        loaded = True
    return describe(&found, status, path)


def unload():
    """Use no library from now on (tests)."""
    global loaded
    loaded = False


def is_loaded():
    """Whether a library has been selected."""
    return bool(loaded)


def int_size():
    """Bytes of `blas_int`."""
    return sizeof(blas_int)


cdef inline blas_int leading(const double[:, :] a, char trans) noexcept nogil:
    """Leading dimension of the column-major matrix whose op is a's transpose: N for rows, T for columns contiguous."""
    cdef blas_int width = a.shape[1] if trans == c'N' else a.shape[0]
    cdef blas_int stride = (a.strides[0] if trans == c'N' else a.strides[1]) // <blas_int>sizeof(double)
    return max(stride, width, 1)


cdef inline char transposed(const double[:, :] a) noexcept nogil:
    """How the memory of a row-major a is to be read to give aᵀ in column-major: N as it is; T where a is a view."""
    # the stride along an axis of one element says nothing
    return c'N' if a.shape[1] <= 1 or a.strides[1] == <Py_ssize_t>sizeof(double) else c'T'


def dgemm(double alpha, const double[:, :] a, const double[:, :] b, double beta, double[:, :] c):
    """c ← alpha a b + beta c, none of them empty; c has contiguous rows, a and b contiguous rows or columns."""
    cdef char ta = transposed(a)
    cdef char tb = transposed(b)
    cdef blas_int info
    with nogil:  # row-major c = a b is column-major cᵀ = bᵀ aᵀ
        info = gemm(
            tb, ta, c.shape[1], c.shape[0], a.shape[1], alpha, &b[0, 0], leading(b, tb), &a[0, 0], leading(a, ta),
            beta, &c[0, 0], leading(c, c'N'))
    return info


def dsyrk(double alpha, const double[:, :] a, double beta, double[:, :] c):
    """Lower triangle of c ← alpha a aᵀ + beta c, neither empty; c has contiguous rows, a contiguous rows or columns."""
    cdef char ta = transposed(a)
    cdef blas_int info
    with nogil:  # the lower triangle of rows is the upper one of columns; memory as it is holds aᵀ
        info = syrk(
            c'U', c'T' if ta == c'N' else c'N', c.shape[0], a.shape[1], alpha, &a[0, 0], leading(a, ta),
            beta, &c[0, 0], leading(c, c'N'))
    return info


def dsyevd(str uplo, double[::1, :] a, double[::1] w, double[::1] work, int64_t[::1] iwork):
    """Eigenvectors in a, eigenvalues in w; returns LAPACK's info. A work of one element asks for the sizes."""
    cdef char triangle = ord(uplo)
    cdef blas_int lwork = -1 if work.shape[0] == 1 and a.shape[0] > 1 else work.shape[0]
    cdef blas_int info
    with nogil:
        info = syevd(
            c'V', triangle, a.shape[0], &a[0, 0], a.shape[0], &w[0], &work[0], lwork, &iwork[0],
            -1 if lwork < 0 else iwork.shape[0])
    return info


def dsyevr(
    str uplo, double[::1, :] a, double[::1] w, double[::1, :] z, int64_t[::1] isuppz, double[::1] work,
    int64_t[::1] iwork,
):
    """Eigenvectors in z, eigenvalues in w, a destroyed; returns (info, number found). Sizes as for `dsyevd`."""
    cdef char triangle = ord(uplo)
    cdef blas_int lwork = -1 if work.shape[0] == 1 and a.shape[0] > 1 else work.shape[0]
    cdef blas_int found = 0
    cdef blas_int info
    with nogil:
        info = syevr(
            c'V', c'A', triangle, a.shape[0], &a[0, 0], a.shape[0], 0.0, 0.0, 0, 0, 0.0, &found, &w[0],
            &z[0, 0], a.shape[0], &isuppz[0], &work[0], lwork, &iwork[0], -1 if lwork < 0 else iwork.shape[0])
    return info, found


def dsytrd(double[::1, :] a, double[::1] d, double[::1] e, double[::1] tau, double[::1] work):
    """T in d and e, reflectors below the subdiagonal of a and in tau (all of n elements); returns info."""
    cdef blas_int lwork = -1 if work.shape[0] == 1 and a.shape[0] > 1 else work.shape[0]
    cdef blas_int info
    with nogil:
        info = sytrd(c'L', a.shape[0], &a[0, 0], a.shape[0], &d[0], &e[0], &tau[0], &work[0], lwork)
    return info


def dsbtrd(double[::1, :] band, double[::1] d, double[::1] e, double[::1] work):
    """T in d and e (n elements each) of a lower band (kd + 1, n), which is destroyed; returns info."""
    cdef double unused = 0
    cdef blas_int info
    with nogil:
        info = sbtrd(
            c'N', c'L', band.shape[1], band.shape[0] - 1, &band[0, 0], band.shape[0], &d[0], &e[0], &unused, 1,
            &work[0])
    return info


def dsterf(double[::1] d, double[::1] e):
    """Eigenvalues in d of the tridiagonal matrix with diagonal d and off-diagonal e[:n-1]; returns info."""
    cdef blas_int info
    with nogil:
        info = sterf(d.shape[0], &d[0], &e[0])
    return info
