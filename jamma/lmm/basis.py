"""Sums over a basis that reduces the kinship: all that the association needs of the samples.

With H(λ) = λK + I every statistic is a function of the sums f_ab(λ) = aᵀ H(λ)⁻¹ b at a few nodes λ_r, where a and b
are variants x, covariates and phenotypes. A basis gives them. The sums that involve a variant only once need no rotated
variant: f_xb(λ_r) = xᵀ z_r with z_r = H(λ_r)⁻¹ b.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from jamma import jlinalg
from jamma._core import rotate
from jamma._core.genotypes import PackedCalls
from jamma.core.threads import blas_threads

F64 = NDArray[np.float64]

#: Dosages are multiplied in panels of exactly this many rows, the last one padded with zeros, so that the BLAS does the
#: same for a variant whatever the chunk is.
PANEL_ROWS = 256


class Basis(Protocol):
    """What the association engine asks of a reduced kinship; see `EigenBasis` for the meaning of each."""

    eigenvalues: F64
    n_samples: int

    def gram(self, vectors: F64, lambdas: F64) -> F64:
        """f_ab(λ) of all pairs of vectors."""
        ...

    def node_columns(self, vectors: F64, lambdas: F64) -> F64:
        """H(λ)⁻¹ times each vector."""
        ...

    def sums(self, packed: PackedCalls, columns: F64, lambdas: F64, n_threads: int) -> tuple[F64, F64]:
        """f_xx(λ) of hard calls, and their products with `columns`."""
        ...

    def dosage_sums(self, dosages: F64, columns: F64, lambdas: F64, n_threads: int) -> tuple[F64, F64]:
        """The same of dosages."""
        ...


class EigenBasis:
    """The eigenvectors of the kinship: f_ab(λ) = Σ_i h_i (u_iᵀa)(u_iᵀb), h_i = 1 / (λ d_i + 1).

    Parameters
    ----------
    eigenvalues : ndarray of float64, shape (n,)
        d, ascending, not negative.
    vectors : ndarray of float64, shape (n, r), F order
        U; column j belongs to eigenvalue n - r + j. Its rows may be scaled (weights). With r < n the columns are
        orthonormal, include the constant vector, and all eigenvalues without a column are 0: their part of the sum is
        what is left of aᵀb, since h = 1 there.
    """

    def __init__(self, eigenvalues: F64, vectors: F64):
        self.eigenvalues = np.ascontiguousarray(eigenvalues, dtype=np.float64)
        self.vectors = np.asfortranarray(vectors, dtype=np.float64)
        self.n_samples = len(self.eigenvalues)
        self._values = self.eigenvalues[self.n_samples - self.vectors.shape[1] :]
        self._is_complete = len(self._values) == self.n_samples

    def _weights(self, lambdas: F64) -> F64:
        """h_i(λ_r), shape (r, R)."""
        return 1.0 / (np.outer(self._values, lambdas) + 1.0)

    def gram(self, vectors: F64, lambdas: F64) -> F64:
        """f_ab(λ) of all pairs of some vectors.

        Parameters
        ----------
        vectors : ndarray of float64, shape (n, q)
        lambdas : ndarray of float64, shape (L,)

        Returns
        -------
        ndarray of float64, shape (L, q, q)
        """
        rotated = self.vectors.T @ vectors
        q = vectors.shape[1]
        products = rotated[:, :, None] * rotated[:, None, :]
        sums = (self._weights(lambdas).T @ products.reshape(-1, q * q)).reshape(-1, q, q)
        if not self._is_complete:
            rest = vectors - self.vectors @ rotated
            sums += rest.T @ rest
        return sums

    def node_columns(self, vectors: F64, lambdas: F64) -> F64:
        """(λK + I)⁻¹ times each vector, so that f_xb(λ_r) of any x is a product with a column.

        Parameters
        ----------
        vectors : ndarray of float64, shape (n, q)
        lambdas : ndarray of float64, shape (R,)

        Returns
        -------
        ndarray of float64, shape (q, R, n)
        """
        rotated = self.vectors.T @ vectors
        weighted = rotated.T[:, None, :] * self._weights(lambdas).T
        columns = weighted.reshape(-1, len(self._values)) @ self.vectors.T
        columns = columns.reshape(vectors.shape[1], len(lambdas), self.n_samples)
        if not self._is_complete:
            columns += (vectors - self.vectors @ rotated).T[:, None, :]
        return columns

    def sums(self, packed: PackedCalls, columns: F64, lambdas: F64, n_threads: int = 1) -> tuple[F64, F64]:
        """f_xx(λ) of packed variants, and their products with some vectors.

        Parameters
        ----------
        packed : PackedCalls
            k variants; missing calls count as the variant's mean.
        columns : ndarray of float64, shape (M, n)
            Vectors to multiply by, usually from `node_columns`.
        lambdas : ndarray of float64, shape (R,)
        n_threads : int

        Returns
        -------
        xx : ndarray of float64, shape (k, R)
            Σ_i h_i(λ_r) (u_iᵀx)².
        xz : ndarray of float64, shape (k, M)
            The products of x with the columns.
        """
        weights = self._padded_weights(lambdas)
        xx, xz = rotate.rotate_sums(packed, self.vectors.T, columns, weights, n_threads=n_threads)
        counts = packed.counts
        totals = counts[:, 1] + 4.0 * counts[:, 2] + counts[:, 3] * packed.means**2
        return self._finish(xx, totals, len(lambdas)), xz

    def dosage_sums(self, dosages: F64, columns: F64, lambdas: F64, n_threads: int = 1) -> tuple[F64, F64]:
        """`sums` of dosages: float64, shape (k, n), no NaN. By matrix products of the BLAS."""
        weights = self._padded_weights(lambdas)
        xx = np.empty((len(dosages), weights.shape[1]))
        xz = np.empty((len(dosages), len(columns)))

        def panel(rows: F64, at: slice, n_rows: int) -> None:
            rotated = jlinalg.gemm(rows, self.vectors)
            rotated *= rotated
            xx[at] = jlinalg.gemm(rotated, weights)[:n_rows]
            xz[at] = jlinalg.gemm(rows, columns.T)[:n_rows]

        in_panels(panel, dosages, n_threads)
        return self._finish(xx, (dosages * dosages).sum(axis=1), len(lambdas)), xz

    def _padded_weights(self, lambdas: F64) -> F64:
        """h_i(λ_r); then ones (λ = 0) if the basis is incomplete; then zeros up to a multiple of 8 columns."""
        n_nodes = len(lambdas) + (not self._is_complete)
        weights = np.zeros((len(self._values), -(-n_nodes // 8) * 8))
        weights[:, : len(lambdas)] = self._weights(lambdas)
        weights[:, len(lambdas) : n_nodes] = 1.0
        return weights

    def _finish(self, xx: F64, totals: F64, n_nodes: int) -> F64:
        """The sums at the nodes, with the part of x outside an incomplete basis; totals is xᵀx."""
        if not self._is_complete:
            xx[:, :n_nodes] += remainder(totals, xx[:, n_nodes])[:, None]
        return np.ascontiguousarray(xx[:, :n_nodes])

    def reference_sums(self, dosages: F64, columns: F64, lambdas: F64) -> tuple[F64, F64]:
        """`dosage_sums` as its equation, in plain NumPy: what the kernels are compared with."""
        squares = (dosages @ self.vectors) ** 2
        xx = squares @ self._weights(lambdas)
        if not self._is_complete:
            xx += remainder((dosages**2).sum(axis=1), squares.sum(axis=1))[:, None]
        return xx, dosages @ columns.T


def in_panels(work: Callable[[F64, slice, int], None], dosages: F64, n_threads: int) -> None:
    """Call work(rows, at, n_rows) for each panel of dosages on several threads, with the BLAS on one in each.

    rows has shape (PANEL_ROWS, n), of which the first n_rows are dosages[at].
    """

    def one(start: int) -> None:
        at = slice(start, min(start + PANEL_ROWS, len(dosages)))
        rows = np.zeros((PANEL_ROWS, dosages.shape[1]))
        rows[: at.stop - start] = dosages[at]
        work(rows, at, at.stop - start)

    starts = range(0, len(dosages), PANEL_ROWS)
    with blas_threads(1):
        if n_threads == 1:
            for start in starts:
                one(start)
            return
        with ThreadPoolExecutor(n_threads) as pool:
            for result in [pool.submit(one, start) for start in starts]:
                result.result()


def remainder(total: F64, part: F64) -> F64:
    """xᵀx - ‖Uᵀx‖², the part of x outside the span of U; 0 where the difference is only round-off.

    Without the threshold a variant inside the span, whose f_xx(λ) falls to 1/λ of xᵀx, would carry noise of 1e-16 xᵀx.
    """
    rest = total - part
    return np.where(rest > 1e-13 * total, rest, 0.0)
