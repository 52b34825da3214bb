"""K = Q T Qᵀ with T tridiagonal or banded: what the exact test needs of K, at a fraction of an eigendecomposition."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from jamma._blas import blas
from jamma._blas.checks import check_info, check_square_finite, workspace, writable
from jamma._blas.config import ilp64
from jamma.core import threads
from jamma.core.errors import JammaError

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

# Subdiagonals of the band: one AVX-512 register of doubles (`jamma._core.band`).
BAND = 8

# A panel has four parallel steps; with fewer rows than this for each thread they take less time than their barriers.
ROWS_PER_THREAD = 256


def _need_ilp64() -> None:
    """Raise where only NumPy's routines are at hand: it has none of these reductions."""
    if not ilp64():
        raise JammaError(
            "a reduction to tridiagonal or band form needs a BLAS with 64-bit integers, and none was found; "
            "use the eigendecomposition, or see jamma.show_config()"
        )


def _block_size(n_rows: int) -> int:
    """Reflectors applied at once: more make the products efficient, but add work of their own (measured: the best are
    about 96 at n = 1410 and 256 at n = 4000, within 5% for half and twice as many)."""
    return min(max(32, n_rows // 128 * 8), 256)


def _form_q(a: Matrix, tau: Vector, shift: int) -> None:
    """Q in place of the reflectors in a (Fortran order)."""
    from jamma._core import reflectors  # needs a library, so it has no NumPy form

    n_rows = a.shape[0]
    block_size = max(1, min(_block_size(n_rows), n_rows - shift))
    work = workspace(reflectors.form_q_work(n_rows, block_size))
    check_info("Q from its reflectors", reflectors.form_q(a, tau, shift, block_size, work))


def reflect_to_tridiagonal(matrix: Matrix) -> tuple[Vector, Vector, Vector]:
    """DSYTRD in place: (diagonal, off-diagonal, tau), and the reflectors below the subdiagonal of a Fortran-ordered
    matrix of at least one row, of which the lower triangle is read."""
    n_rows = matrix.shape[0]
    diagonal, off_diagonal, tau = np.zeros(n_rows), np.zeros(n_rows), np.zeros(n_rows)
    work = np.empty(1)
    check_info("DSYTRD", blas.dsytrd(matrix, diagonal, off_diagonal, tau, work))
    if n_rows > 1:
        work = workspace(int(work[0]))
        check_info("DSYTRD", blas.dsytrd(matrix, diagonal, off_diagonal, tau, work))
    return diagonal, off_diagonal[: n_rows - 1], tau[: n_rows - 1]


def reflect_to_band(matrix: Matrix, n_threads: int) -> tuple[Matrix, Vector]:
    """The band reduction in place: (band, tau), and the reflectors below the band of a Fortran-ordered matrix of at
    least 10 rows and of magnitude about 1, of which the lower triangle is read."""
    from jamma._core import band as _band  # needs a library, so it has no NumPy form

    n_rows = matrix.shape[0]
    band, tau = np.zeros((BAND + 1, n_rows), order="F"), np.empty(n_rows - BAND)
    n_threads = min(threads.kernel_threads(n_threads), max(1, n_rows // ROWS_PER_THREAD))
    work = workspace(_band.reduce_to_band_work(n_rows))
    with threads.blas_threads(1):
        check_info("the band reduction", _band.reduce_to_band(matrix, tau, band, n_threads, work))
    return band, tau


def tridiagonalize(
    a: Matrix, *, overwrite: bool = False, n_threads: int | None = None
) -> tuple[Vector, Vector, Matrix]:
    """Reduce a symmetric matrix to tridiagonal form, a = Q T Qᵀ.

    DSYTRD gives T and Q as n − 1 reflectors; Q is formed from them in blocks, backwards, I − V T Vᵀ at a time on the
    trailing part that they change (Golub and Van Loan, Matrix Computations, 5.1.6 and 8.3.1), in the memory of a.

    Parameters
    ----------
    a : (n, n) array
        Symmetric; which triangle is read depends on its memory order.
    overwrite : bool
        Whether `a`, if it is a writable contiguous float64 array, may be destroyed; saves a copy (8n² bytes).
    n_threads : int, optional
        BLAS threads, see `jamma.core.threads.blas_threads`.

    Returns
    -------
    diagonal : (n,) array
        Of T.
    off_diagonal : (max(n − 1, 0),) array
        Of T.
    q : (n, n) array
        Orthogonal, in Fortran order; its first row and column are those of the identity.

    Raises
    ------
    ValueError
        `a` is no square matrix or has entries that are not finite.
    InsufficientMemoryError
        There is not enough memory.
    JammaError
        No library with 64-bit integers was found.
    """
    a = np.asarray(a)
    _need_ilp64()
    check_square_finite(a)
    n_rows = a.shape[0]
    if n_rows == 0:
        return np.empty(0), np.empty(0), np.empty((0, 0), order="F")
    matrix = writable(a, overwrite)
    matrix = matrix if matrix.flags.f_contiguous else matrix.T
    with threads.blas_threads(n_threads):
        diagonal, off_diagonal, tau = reflect_to_tridiagonal(matrix)
        _form_q(matrix, tau, 1)
    return diagonal, off_diagonal, matrix


def band_reduce(a: Matrix, *, overwrite: bool = False, n_threads: int | None = None) -> tuple[Matrix, Matrix]:
    """Reduce a symmetric matrix to a band with 8 subdiagonals, a = Q B Qᵀ.

    `jamma._core.band` has the algorithm: it reads the matrix once per 8 columns, where `tridiagonalize` reads it once
    per column. Neither the band nor Q depends on the number of threads, but for what the BLAS makes of it.

    Parameters
    ----------
    a : (n, n) array
        Symmetric; which triangle is read depends on its memory order.
    overwrite : bool
        Whether `a`, if it is a writable contiguous float64 array, may be destroyed; saves a copy (8n² bytes).
    n_threads : int, optional
        Threads, see `jamma.core.threads.blas_threads`; always 1 in a forked child.

    Returns
    -------
    band : (9, n) array
        ``band[k, j] = B[j + k, j]``, 0 where there is no such element; Fortran order, as LAPACK keeps a lower band.
    q : (n, n) array
        Orthogonal, in Fortran order; its first 8 rows and columns are those of the identity.

    Raises
    ------
    ValueError
        `a` is no square matrix or has entries that are not finite.
    InsufficientMemoryError
        There is not enough memory.
    JammaError
        No library with 64-bit integers was found.
    """
    a = np.asarray(a)
    _need_ilp64()
    check_square_finite(a)
    n_rows = a.shape[0]
    matrix = writable(a, overwrite)
    matrix = matrix if matrix.flags.f_contiguous else matrix.T
    if n_rows <= BAND + 1:
        band = np.zeros((BAND + 1, n_rows), order="F")
        for k in range(n_rows):
            band[k, : n_rows - k] = np.diagonal(matrix, -k)
        matrix[...] = np.eye(n_rows)
        return band, matrix
    scale = _power_of_two(matrix)
    if scale != 1.0:
        matrix *= scale
    with threads.blas_threads(n_threads) as n_blas_threads:
        band, tau = reflect_to_band(matrix, n_blas_threads)
        _form_q(matrix, tau, BAND)
    if scale != 1.0:
        band /= scale
    return band, matrix


def _power_of_two(a: Matrix) -> float:
    """A factor that brings a matrix far from magnitude 1 there, exactly; else 1. Reflectors square their entries."""
    largest = max(float(np.abs(a[:, first : first + 256]).max()) for first in range(0, a.shape[1], 256))
    if largest == 0.0 or 1e-20 < largest < 1e20:
        return 1.0
    return float(2.0 ** -min(max(np.frexp(largest)[1], -1000), 1000))


def eigvals_tridiagonal(diagonal: Vector, off_diagonal: Vector) -> Vector:
    """Eigenvalues of a symmetric tridiagonal matrix, by DSTERF (the Pal-Walker-Kahan variant of QL and QR).

    Parameters
    ----------
    diagonal : (n,) array
        Finite.
    off_diagonal : (n − 1,) array
        Finite.

    Returns
    -------
    (n,) array
        Ascending.

    Raises
    ------
    ValueError
        The lengths do not fit, or an entry is not finite.
    NumericalError
        No convergence.
    JammaError
        No library with 64-bit integers was found.
    """
    d = np.array(diagonal, dtype=np.float64, ndmin=1)
    if d.ndim != 1 or np.shape(off_diagonal) != (max(d.size - 1, 0),):
        raise ValueError(f"diagonal {np.shape(diagonal)} and off-diagonal {np.shape(off_diagonal)} do not fit")
    e = np.zeros(d.size)
    e[: d.size - 1] = off_diagonal
    if not (np.isfinite(d).all() and np.isfinite(e).all()):
        raise ValueError("the matrix has entries that are not finite")
    _need_ilp64()
    if d.size:
        check_info("DSTERF", blas.dsterf(d, e))
    return d


def eigvals_banded(band: Matrix, n_threads: int | None = None) -> Vector:
    """Eigenvalues of a symmetric band matrix: DSBTRD to tridiagonal form, then `eigvals_tridiagonal`.

    Parameters
    ----------
    band : (kd + 1, n) array
        Row k holds the k-th subdiagonal, ``band[k, j] = B[j + k, j]``; the last k entries of row k are ignored.
    n_threads : int, optional
        BLAS threads, see `jamma.core.threads.blas_threads`.

    Returns
    -------
    (n,) array
        Ascending.

    Raises
    ------
    ValueError, NumericalError, JammaError
        As for `eigvals_tridiagonal`.
    """
    work_band = np.array(band, dtype=np.float64, order="F", ndmin=2)
    n_rows = work_band.shape[1]
    for k in range(work_band.shape[0]):
        work_band[k, max(n_rows - k, 0) :] = 0.0
    if not np.isfinite(work_band).all():
        raise ValueError("the matrix has entries that are not finite")
    _need_ilp64()
    d, e = np.zeros(n_rows), np.zeros(n_rows)
    if n_rows:
        with threads.blas_threads(n_threads):
            check_info("DSBTRD", blas.dsbtrd(work_band, d, e, workspace(n_rows)))
    return eigvals_tridiagonal(d, e[: max(n_rows - 1, 0)])
