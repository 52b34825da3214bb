"""The kinship, checked, centred and decomposed: K = U diag(d) Uᵀ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jamma import jlinalg
from jamma.core.errors import InputError, NumericalError

F64 = NDArray[np.float64]

#: Eigenvalues below this count as zero, negative ones too (GEMMA's constant).
ZERO_EIGENVALUE = 1e-10

#: Largest |K - Kᵀ| that still counts as symmetric, relative to the largest |K|: single precision's round-off.
SYMMETRY_TOLERANCE = 1e-6

_ROWS_AT_ONCE = 256


@dataclass(frozen=True)
class EigenDecomposition:
    """Eigenvalues and eigenvectors of the kinship; unpacks into these two.

    Attributes
    ----------
    eigenvalues : ndarray of float64, shape (n,)
        Ascending; those below 1e-10 are exactly 0.
    eigenvectors : ndarray of float64, shape (n, r), F order
        Column j belongs to eigenvalue n - r + j.
    n_zero : int
        Eigenvalues that are 0 now; the constant vector of a centred kinship is always one.
    n_negative : int
        How many of them were below -1e-10: the matrix given was not positive semidefinite.
    smallest : float
        The smallest eigenvalue as computed.
    """

    eigenvalues: F64
    eigenvectors: F64
    n_zero: int
    n_negative: int
    smallest: float

    def __iter__(self) -> Iterator[F64]:
        yield self.eigenvalues
        yield self.eigenvectors


def check_kinship(kinship: F64) -> None:
    """Raise `InputError` unless the kinship is a square, finite, symmetric matrix of at least two samples."""
    if kinship.ndim != 2 or kinship.shape[0] != kinship.shape[1]:
        raise InputError(f"kinship: shape {kinship.shape}, expected a square matrix")
    n = kinship.shape[0]
    if n < 2:
        raise InputError(f"kinship: {n} samples, expected at least 2")
    largest, asymmetry, where = 0.0, 0.0, (0, 0)
    for start in range(0, n, _ROWS_AT_ONCE):
        rows = kinship[start : start + _ROWS_AT_ONCE]
        finite = np.isfinite(rows)
        if not finite.all():
            i, j = (int(k[0]) for k in np.nonzero(~finite))
            raise InputError(f"kinship[{start + i}, {j}]: {rows[i, j]}, expected a finite number")
        largest = max(largest, float(np.abs(rows).max()))
        difference = np.abs(rows - kinship[:, start : start + _ROWS_AT_ONCE].T)
        if difference.max() > asymmetry:
            asymmetry = float(difference.max())
            row, column = divmod(int(difference.argmax()), difference.shape[1])
            where = (start + row, column)
    if asymmetry > SYMMETRY_TOLERANCE * largest:
        i, j = where
        raise InputError(
            f"kinship[{i}, {j}] = {kinship[i, j]:.10g} but kinship[{j}, {i}] = {kinship[j, i]:.10g}: "
            "expected a symmetric matrix"
        )


def center_kinship(kinship: F64) -> F64:
    """Centre in place: K ← (I - 11ᵀ/n) K (I - 11ᵀ/n), and return K.

    K is symmetric, so its row means are its column means, and K_ij ← K_ij - (r_i + r_j - mean(r)).
    """
    row_means = kinship.mean(axis=1)
    shift = row_means - row_means.mean()
    for start in range(0, len(kinship), _ROWS_AT_ONCE):
        stop = start + _ROWS_AT_ONCE
        kinship[start:stop] -= row_means[start:stop, None] + shift
    return kinship


def prepare_kinship(
    kinship: F64, *, center: bool = False, kinship_scale: F64 | None = None, overwrite: bool = False
) -> F64:
    """The kinship checked, centred and scaled, as every reduction takes it.

    Parameters
    ----------
    kinship : ndarray of float64, shape (n, n)
        Of the analysed samples.
    center : bool
        Centre over these samples (`center_kinship`).
    kinship_scale : ndarray of float64, shape (n,), optional
        After centring K_ij is multiplied by s_i s_j.
    overwrite : bool
        Work in `kinship` itself.

    Returns
    -------
    ndarray of float64, shape (n, n)
        `kinship` itself when nothing had to change or `overwrite` allows it.

    Raises
    ------
    InputError
        If the matrix is not square, finite and symmetric.
    """
    kinship = np.asarray(kinship, dtype=np.float64)
    check_kinship(kinship)
    if not (center or kinship_scale is not None):
        return kinship
    if not overwrite:
        kinship = kinship.copy()
    if center:
        center_kinship(kinship)
    if kinship_scale is not None:
        kinship *= kinship_scale
        kinship *= kinship_scale[:, None]
    return kinship


def gemma_weight_scales(weights: F64) -> tuple[F64, F64]:
    """What GEMMA's ``-widv`` does with weights w: (kinship_scale, row_scale) = (1/√w, √w).

    Var(y) is then proportional to λ K_ij / (w_i w_j) + 1 / w_i. A weight that is not positive counts as 0 in both.
    """
    root = np.sqrt(np.maximum(weights, 0.0))
    return np.divide(1.0, root, out=np.zeros_like(root), where=root > 0), root


def residual_variance_scales(variances: F64) -> tuple[F64, F64]:
    """Scales for known residual variances v: Var(y) proportional to λ K + diag(v); both are 1/√v."""
    scale = 1.0 / np.sqrt(variances)
    return scale, scale


def clip_eigenvalues(eigenvalues: F64) -> tuple[F64, int, int, float]:
    """Set what is below 1e-10 to 0; return the eigenvalues, how many are 0, how many were negative, the smallest."""
    if not np.isfinite(eigenvalues).all():
        raise NumericalError("kinship: eigenvalues that are not finite")
    zero = eigenvalues < ZERO_EIGENVALUE
    n_negative = int((eigenvalues < -ZERO_EIGENVALUE).sum())
    return np.where(zero, 0.0, eigenvalues), int(zero.sum()), n_negative, float(eigenvalues.min())


def eigendecompose_kinship(
    kinship: F64,
    *,
    center: bool = False,
    kinship_scale: F64 | None = None,
    row_scale: F64 | None = None,
    overwrite: bool = False,
    driver: str = "auto",
    n_threads: int | None = None,
) -> EigenDecomposition:
    """Decompose the kinship of the analysed samples, K = U diag(d) Uᵀ.

    Parameters
    ----------
    kinship : ndarray of float64, shape (n, n)
        Symmetric.
    center : bool
        Centre K over its samples first, as GEMMA does with the kinship it reads.
    kinship_scale, row_scale : ndarray of float64, shape (n,), optional
        Weights: the centred K_ij is multiplied by s_i s_j; row i of U by row_scale_i (so U is not orthogonal
        then). See `gemma_weight_scales` and `residual_variance_scales`.
    overwrite : bool
        Allow `kinship` to be destroyed, which saves its 8n² bytes.
    driver : {"auto", "evd", "evr"}
        LAPACK's DSYEVD (faster, 24n² bytes) or DSYEVR (16n²).
    n_threads : int, optional
        BLAS threads.

    Returns
    -------
    EigenDecomposition
        Unpacks into ``eigenvalues, eigenvectors``.

    Raises
    ------
    InputError
        If the matrix is not square, finite and symmetric.
    NumericalError
        If LAPACK fails.

    Examples
    --------
    >>> import numpy as np
    >>> eigenvalues, eigenvectors = eigendecompose_kinship(np.array([[1.0, 0.5], [0.5, 1.0]]))
    >>> eigenvalues.round(12)
    array([0.5, 1.5])
    """
    prepared = prepare_kinship(kinship, center=center, kinship_scale=kinship_scale, overwrite=overwrite)
    values, vectors = jlinalg.eigh(
        prepared, driver=driver, overwrite=overwrite or prepared is not kinship, n_threads=n_threads
    )
    values, n_zero, n_negative, smallest = clip_eigenvalues(values)
    if row_scale is not None:
        vectors *= row_scale[:, None]
    return EigenDecomposition(values, vectors, n_zero, n_negative, smallest)
