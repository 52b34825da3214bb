"""BLAS and LAPACK with 64-bit integers for other extensions: column-major, arguments by value, nogil.

Each function returns LAPACK's ``info`` (0 for BLAS), or `NOT_LOADED` while no library is selected: call
``jamma.jlinalg.config()`` from Python before.
"""
from libc.stdint cimport int64_t

ctypedef int64_t blas_int

cdef enum:
    NOT_LOADED = -1000

cdef bint available() noexcept nogil

cdef blas_int gemm(
    char transa, char transb, blas_int m, blas_int n, blas_int k,
    double alpha, const double* a, blas_int lda, const double* b, blas_int ldb,
    double beta, double* c, blas_int ldc,
) noexcept nogil

cdef blas_int syrk(
    char uplo, char trans, blas_int n, blas_int k,
    double alpha, const double* a, blas_int lda, double beta, double* c, blas_int ldc,
) noexcept nogil

cdef blas_int syr2k(
    char uplo, char trans, blas_int n, blas_int k,
    double alpha, const double* a, blas_int lda, const double* b, blas_int ldb, double beta, double* c, blas_int ldc,
) noexcept nogil

cdef blas_int syevd(
    char jobz, char uplo, blas_int n, double* a, blas_int lda, double* w,
    double* work, blas_int lwork, blas_int* iwork, blas_int liwork,
) noexcept nogil

cdef blas_int syevr(
    char jobz, char range_, char uplo, blas_int n, double* a, blas_int lda,
    double vl, double vu, blas_int il, blas_int iu, double abstol, blas_int* m, double* w,
    double* z, blas_int ldz, blas_int* isuppz,
    double* work, blas_int lwork, blas_int* iwork, blas_int liwork,
) noexcept nogil

cdef blas_int sytrd(
    char uplo, blas_int n, double* a, blas_int lda, double* d, double* e, double* tau, double* work, blas_int lwork,
) noexcept nogil

cdef blas_int sbtrd(
    char vect, char uplo, blas_int n, blas_int kd, double* ab, blas_int ldab, double* d, double* e,
    double* q, blas_int ldq, double* work,
) noexcept nogil

cdef blas_int sterf(blas_int n, double* d, double* e) noexcept nogil
