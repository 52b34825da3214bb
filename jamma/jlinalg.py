"""Dense linear algebra with 64-bit indices: checked arguments in, LAPACK's answer or an exception out.

The routines are those of a BLAS found at run time (`config` tells which). NumPy's own `eigh` and ``@`` stand in where
there is none with 64-bit integers, as far as 32-bit integers reach.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from jamma._blas import blas, discovery
from jamma._blas.checks import check_info, check_square_finite, workspace, writable
from jamma._blas.config import MAX_LP64_ROWS, BlasConfig, config, ilp64, show_config
from jamma._blas.reductions import band_reduce, eigvals_banded, eigvals_tridiagonal, tridiagonalize
from jamma.core import threads
from jamma.core.errors import InsufficientMemoryError, JammaError, NumericalError

__all__ = [
    "BlasConfig",
    "band_reduce",
    "config",
    "eigh",
    "eigvals_banded",
    "eigvals_tridiagonal",
    "gemm",
    "show_config",
    "symmetrize",
    "syrk",
    "tridiagonalize",
]

#: Rows of one call of DSYRK. With two threads OpenBLAS 0.3.31 and 0.3.34 (AVX-512) die at 33,000: a thread packs all of
#: its rows at once, past the end of its buffer. DGEMM does not.
SYRK_ROWS = 8192


def _refuse_lp64(n_rows: int) -> None:
    """Raise if a matrix of n_rows rows is too large for NumPy's 32-bit routines."""
    if n_rows > MAX_LP64_ROWS:
        installs = ", or ".join(dict.fromkeys(s.install for s in discovery.SOURCES if s.key in ("openblas", "system")))
        raise JammaError(
            f"{n_rows:,} rows need a BLAS with 64-bit integers, and none was found (limit of this NumPy: "
            f"{MAX_LP64_ROWS:,} rows); to get one: {installs}; jamma.show_config() says what was tried"
        )


def _as_matrix(name: str, a: Any) -> NDArray[np.float64]:
    """A float64 matrix with contiguous rows or columns; a itself where it is one."""
    matrix = np.asarray(a, dtype=np.float64)
    if matrix.ndim != 2:
        raise ValueError(f"{name} has {matrix.ndim} dimensions; a matrix has 2")
    rows, columns = matrix.strides
    width = matrix.itemsize
    by_rows = (matrix.shape[1] <= 1 or columns == width) and rows >= width * matrix.shape[1] and rows % width == 0
    by_columns = (matrix.shape[0] <= 1 or rows == width) and columns >= width * matrix.shape[0] and columns % width == 0
    return matrix if by_rows or by_columns else np.ascontiguousarray(matrix)


def _check_out(out: NDArray[np.float64], shape: tuple[int, int]) -> None:
    """Raise ValueError unless out is a writable float64 matrix of this shape, aligned."""
    if out.shape != shape or out.dtype != np.float64 or not out.flags.writeable:
        raise ValueError(f"out must be a writable float64 array of shape {shape}, is {out.dtype} {out.shape}")


def gemm(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    out: NDArray[np.float64] | None = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    n_threads: int | None = None,
) -> NDArray[np.float64]:
    """Compute out ← α a b + β out.

    Parameters
    ----------
    a : (m, k) array
        Any float64 layout; transposed views are not copied.
    b : (k, n) array
        The same.
    out : (m, n) array, optional
        float64, C- or Fortran-contiguous, overlapping neither a nor b; a new one (C order) if not given.
    alpha, beta : float
        Factors; without `out`, beta must be 0.
    n_threads : int, optional
        BLAS threads, see `jamma.core.threads.blas_threads`.

    Returns
    -------
    (m, n) array
        `out`.

    Raises
    ------
    ValueError
        Shapes, dtype or layout do not fit.
    """
    a, b = _as_matrix("a", a), _as_matrix("b", b)
    if a.shape[1] != b.shape[0]:
        raise ValueError(f"a has {a.shape[1]} columns, b has {b.shape[0]} rows")
    shape = (a.shape[0], b.shape[1])
    if out is None:
        if beta != 0.0:
            raise ValueError("beta needs an out")
        out = np.empty(shape)
    _check_out(out, shape)
    if not out.flags.c_contiguous:
        if not out.flags.f_contiguous:
            raise ValueError("out must be contiguous")
        gemm(b.T, a.T, out.T, alpha, beta, n_threads)
        return out
    if 0 in shape or a.shape[1] == 0:
        _scale(out, beta)
        return out
    use_blas = ilp64()
    with threads.blas_threads(n_threads):
        if use_blas:
            blas.dgemm(alpha, a, b, beta, out)
        elif beta == 0.0:
            np.matmul(a, b, out=out)
            out *= alpha
        else:
            out *= beta
            out += alpha * (a @ b)
    return out


def _scale(out: NDArray[np.float64], beta: float) -> None:
    """out ← β out, where β = 0 clears whatever was there, NaN included, as BLAS does."""
    if beta == 0.0:
        out.fill(0.0)
    else:
        out *= beta


def syrk(
    a: NDArray[np.float64],
    out: NDArray[np.float64],
    alpha: float = 1.0,
    beta: float = 1.0,
    n_threads: int | None = None,
) -> NDArray[np.float64]:
    """Compute the lower triangle of out ← α a aᵀ + β out; `symmetrize` fills the upper one.

    Parameters
    ----------
    a : (n, k) array
        Any float64 layout; a transposed view is not copied, so ``syrk(x.T, out)`` adds xᵀx.
    out : (n, n) array
        float64, C-contiguous; what is above the diagonal is left as it is.
    alpha, beta : float
        Factors.
    n_threads : int, optional
        BLAS threads, see `jamma.core.threads.blas_threads`.

    Returns
    -------
    (n, n) array
        `out`.

    Raises
    ------
    ValueError
        Shapes, dtype or layout do not fit.
    """
    a = _as_matrix("a", a)
    _check_out(out, (a.shape[0], a.shape[0]))
    if not out.flags.c_contiguous:
        raise ValueError("out must be C-contiguous")
    use_blas = ilp64()
    with threads.blas_threads(n_threads):
        if use_blas and a.size:
            for first in range(0, a.shape[0], SYRK_ROWS):
                rows = slice(first, first + SYRK_ROWS)
                if first:
                    blas.dgemm(alpha, a[rows], a[:first].T, beta, out[rows, :first])
                blas.dsyrk(alpha, a[rows], beta, out[rows, rows])
            return out
        for first in range(0, a.shape[0], 512):  # by blocks of rows, to leave the upper triangle alone
            rows = slice(first, first + 512)
            product = alpha * (a[rows] @ a[: first + 512].T)
            mask = np.tri(product.shape[0], product.shape[1], k=first, dtype=bool)
            lower = out[rows, : first + 512]
            lower[mask] = product[mask] + (beta * lower[mask] if beta != 0.0 else 0.0)
    return out


def symmetrize(out: NDArray[np.float64]) -> NDArray[np.float64]:
    """Copy the lower triangle of a square matrix to its upper one, in place and by blocks that fit a cache.

    Parameters
    ----------
    out : (n, n) array
        Any layout.

    Returns
    -------
    (n, n) array
        `out`.
    """
    n_rows = out.shape[0]
    if out.shape != (n_rows, n_rows):
        raise ValueError(f"a square matrix is needed, not {out.shape}")
    block = 256
    for first in range(0, n_rows, block):
        rows = slice(first, first + block)
        diagonal = out[rows, rows]
        np.copyto(diagonal, diagonal.T.copy(), where=~np.tri(diagonal.shape[0], dtype=bool))
        for left in range(0, first, block):
            columns = slice(left, left + block)
            out[columns, rows] = out[rows, columns].T
    return out


def _evd(a: NDArray[np.float64], uplo: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """DSYEVD in place on a Fortran-ordered matrix."""
    w, work = np.empty(a.shape[0]), np.empty(1)
    iwork = np.empty(1, np.int64)
    check_info("DSYEVD", blas.dsyevd(uplo, a, w, work, iwork))
    if a.shape[0] > 1:
        work, iwork = workspace(int(work[0])), workspace(int(iwork[0]), np.int64)
        check_info("DSYEVD", blas.dsyevd(uplo, a, w, work, iwork))
    return w, a


def _evr(a: NDArray[np.float64], uplo: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """DSYEVR on a Fortran-ordered matrix, which it destroys."""
    n_rows = a.shape[0]
    w, work = np.empty(n_rows), np.empty(1)
    iwork, isuppz = np.empty(1, np.int64), np.empty(2 * n_rows, np.int64)
    z = workspace(n_rows * n_rows).reshape((n_rows, n_rows), order="F")
    if n_rows > 1:
        check_info("DSYEVR", blas.dsyevr(uplo, a, w, z, isuppz, work, iwork)[0])
        work, iwork = workspace(int(work[0])), workspace(int(iwork[0]), np.int64)
    else:
        work, iwork = np.empty(26), np.empty(10, np.int64)
    info, found = blas.dsyevr(uplo, a, w, z, isuppz, work, iwork)
    check_info("DSYEVR", info)
    if found != n_rows:
        raise NumericalError(f"DSYEVR found {found} of {n_rows} eigenvalues")
    return w, z


def eigh(
    a: NDArray[np.float64],
    *,
    driver: str = "auto",
    overwrite: bool = False,
    n_threads: int | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Eigenvalues and eigenvectors of a symmetric matrix, a = V diag(w) Vᵀ.

    Parameters
    ----------
    a : (n, n) array
        Symmetric; its lower triangle is read.
    driver : {"auto", "evd", "evr"}
        LAPACK's DSYEVD (24n² bytes with a, faster) or DSYEVR (16n²). "auto" is DSYEVD, or DSYEVR where the first
        one's workspace cannot be allocated.
    overwrite : bool
        Whether `a`, if it is a writable contiguous float64 array, may be destroyed; saves a copy (8n² bytes).
    n_threads : int, optional
        BLAS threads, see `jamma.core.threads.blas_threads`.

    Returns
    -------
    w : (n,) array
        Eigenvalues, ascending.
    v : (n, n) array
        Orthonormal eigenvectors, one a column, in Fortran order.

    Raises
    ------
    ValueError
        `a` is no square matrix or has entries that are not finite.
    NumericalError
        LAPACK did not converge.
    InsufficientMemoryError
        There is not enough memory.
    JammaError
        No library that can index the matrix was found; the message says what to install.

    Notes
    -----
    Without a library with 64-bit integers, NumPy's `eigh` (DSYEVD too) does the work, up to 46,340 rows.

    Examples
    --------
    >>> import numpy as np
    >>> w, v = eigh(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> w.round(12)
    array([1., 3.])
    """
    if driver not in ("auto", "evd", "evr"):
        raise ValueError(f"driver {driver!r}: expected auto, evd or evr")
    a = np.asarray(a)
    use_blas = ilp64()
    if not use_blas:
        _refuse_lp64(max(a.shape))
    check_square_finite(a)
    if a.shape[0] == 0:
        return np.empty(0), np.empty((0, 0), order="F")
    with threads.blas_threads(n_threads):
        if not use_blas:
            w, v = np.linalg.eigh(np.asarray(a, dtype=np.float64))
            return w, np.asfortranarray(v)
        matrix = writable(a, overwrite)
        # Memory by rows is the transpose by columns: its lower triangle is then the upper one.
        uplo, matrix = ("L", matrix) if matrix.flags.f_contiguous else ("U", matrix.T)
        if driver == "evr":
            return _evr(matrix, uplo)
        try:
            return _evd(matrix, uplo)
        except InsufficientMemoryError:
            if driver == "evd":
                raise
            return _evr(matrix, uplo)
