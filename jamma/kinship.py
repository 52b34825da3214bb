"""The kinship: genotype chunks to K, centred or standardised, and leave-one-chromosome-out by subtraction.

Centred (Zhou & Stephens 2012): K = (1/p) sum_s (x_s - mu_s)(x_s - mu_s)', missing calls as the mean mu_s, so that they
contribute 0. With g the calls (0 where missing) and e the indicator of missing calls this is

    p K_ij = G_ij + D_ij + D_ji - r_i - r_j + c,
    G = sum_s g_s g_s'                            an exact integer product of bytes (`jamma._core.kinship`),
    r_i = sum_s mu_s x_is,   c = sum_s mu_s^2,
    D_ji = sum over s missing in j of mu_s (g_is + mu_s e_is / 2)      sparse: n multiplications a missing call.

Standardised: each variant divided by its population variance (divisor n, imputed values included) as well, which makes
the products real numbers: they go to DSYRK a block at a time, as dosages do, and hard calls with many missing ones.

Monomorphic variants add nothing to a centred kinship but count in p; the pipeline's filters drop them first, and
`compute_centered_kinship` and `compute_standardized_kinship` leave them out themselves.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jamma.core.errors import InputError, InsufficientMemoryError, check_status
from jamma.io.readers import ArrayReader, GenotypeChunk

F64 = NDArray[np.float64]

#: Share of missing calls in a chunk above which the sparse correction costs more than DSYRK on imputed doubles.
MAX_SPARSE_MISSING = 0.04

_DENSE_BYTES = 64 << 20
_ARRAY_CHUNK = 4096


class KinshipSum:
    """The sum over variants that a kinship is the mean of.

    Holds one n x n matrix, half of the sum: what is added stands below the diagonal, on it by half (or, for the sparse
    corrections, anywhere once), and the sum is half + half' with row terms and a constant.

    Parameters
    ----------
    n_samples : int
    standardized : bool
        Divide each variant by its variance.
    n_threads : int, optional
        Threads; the result does not depend on it, but for DSYRK's last bits.
    """

    def __init__(self, n_samples: int, standardized: bool = False, n_threads: int | None = None):
        from jamma.core.threads import kernel_threads

        self.n_samples, self.standardized, self.n_variants = n_samples, standardized, 0
        self._threads = n_threads or kernel_threads()
        try:
            self._half = np.zeros((n_samples, n_samples))
        except MemoryError as error:
            raise InsufficientMemoryError(f"kinship of {n_samples:,} samples: {error}") from error
        self._row_terms = np.zeros(n_samples)
        self._constant = 0.0

    def add(self, chunk: GenotypeChunk, keep: NDArray[np.bool_] | None = None) -> None:
        """Add the variants of a chunk.

        Parameters
        ----------
        chunk : GenotypeChunk
            Over all samples of the kinship; missing values stand for the mean over them.
        keep : ndarray of bool, shape (m,), optional
            Variants to add; default: all.
        """
        rows = np.arange(chunk.n_variants) if keep is None else np.flatnonzero(keep)
        self.n_variants += len(rows)
        if chunk.calls is not None and not self.standardized:
            self._add_calls(chunk.calls, rows)
        else:
            self._add_dense(chunk.values, rows)

    def _add_calls(self, calls: NDArray[np.int8], rows: NDArray[np.int64]) -> None:
        """Add hard calls by the integer product, a block at a time."""
        from jamma._core import kinship as kernel
        from jamma._core.genotypes import count_calls

        if kernel.level() == "baseline":
            # Without 8-bit products the integer sums are slower than DSYRK.
            self._add_dense(calls, rows)
            return
        counts = count_calls(calls, None, self._threads)
        for start in range(0, len(rows), kernel.MAX_VARIANTS):
            block = rows[start : start + kernel.MAX_VARIANTS]
            n_miss = counts[block, 3].astype(np.int64)
            if n_miss.sum() > MAX_SPARSE_MISSING * len(block) * self.n_samples:
                self._add_dense(calls, block)
            else:
                self._add_block(calls, block, counts[block])

    def _add_block(self, calls: NDArray[np.int8], block: NDArray[np.int64], counts: NDArray[np.int32]) -> None:
        """Add up to MAX_VARIANTS variants of hard calls."""
        from jamma._core import kinship as kernel

        n = self.n_samples
        called = np.maximum(n - counts[:, 3], 1)
        means = (counts[:, 1] + 2.0 * counts[:, 2]) / called
        n_miss = np.ascontiguousarray(counts[:, 3])
        start, variant = kernel.missing_by_sample(calls, block, n_miss, self._threads)
        status = kernel.add_calls(
            calls, block, means, start, variant, self._half, self._row_terms, self._threads
        )  # fmt: skip
        check_status(status, "kinship")
        self._constant += float((means**2).sum())

    def _add_dense(self, values: NDArray, rows: NDArray[np.int64]) -> None:
        """Add variants as doubles by DSYRK: already centred (and scaled), so without row terms."""
        from jamma import jlinalg

        size = max(1, _DENSE_BYTES // (8 * self.n_samples))
        diagonal = np.einsum("ii->i", self._half)
        for start in range(0, len(rows), size):
            z = centered(values[rows[start : start + size]], self.standardized)
            jlinalg.syrk(z.T, self._half, 1.0, 1.0, n_threads=self._threads)
            diagonal -= 0.5 * np.einsum("si,si->i", z, z)

    def matrix(self) -> F64:
        """The kinship: the sum divided by the number of variants.

        Returns
        -------
        ndarray of float64, shape (n_samples, n_samples)
            Symmetric to the bit. It takes over this object's memory: nothing can be added afterwards.
        """
        return self._finish(float(self.n_variants))

    def _finish(self, divisor: float) -> F64:
        from jamma._core import kinship as kernel

        half, self._half = self._half, np.zeros((0, 0))
        kernel.finish(half, self._row_terms, self._constant, divisor, self._threads)
        return half


class LocoKinship(KinshipSum):
    """The sum over all chromosomes, from which each one's own is subtracted.

    K without chromosome c = (S - S_c) / (p - p_c): S stays, so two n x n matrices are alive besides the result's, which
    is S_c's own memory.
    """

    def without(self, group: KinshipSum) -> F64:
        """The kinship of all variants but those of `group`, whose memory it takes over.

        Parameters
        ----------
        group : KinshipSum
            The sum of some of the variants that were added here.

        Returns
        -------
        ndarray of float64, shape (n_samples, n_samples)
        """
        np.subtract(self._half, group._half, out=group._half)
        group._row_terms = self._row_terms - group._row_terms
        group._constant = self._constant - group._constant
        return group._finish(float(self.n_variants - group.n_variants))


def centered(values: NDArray, standardized: bool = False) -> F64:
    """Some variants as doubles, missing values at the mean, centred (and divided by their deviation).

    Parameters
    ----------
    values : ndarray of int8 (negative missing) or float64 (NaN missing), shape (m, n)
    standardized : bool
        Divide by the population standard deviation over the imputed values; 0 where that is 0.

    Returns
    -------
    ndarray of float64, shape (m, n)
    """
    z = values.astype(np.float64)
    missing = np.isnan(z) if values.dtype.kind == "f" else z < 0
    z[missing] = 0.0
    n_called = z.shape[1] - missing.sum(axis=1)
    z -= (z.sum(axis=1) / np.maximum(n_called, 1))[:, None]
    z[missing] = 0.0
    if standardized:
        deviation = np.sqrt((z * z).sum(axis=1) / z.shape[1])
        z /= np.where(deviation > 0, deviation, np.inf)[:, None]
    return z


def _compute(genotypes: ArrayLike, standardized: bool, n_threads: int | None) -> F64:
    """The kinship of an array, monomorphic variants left out."""
    reader = ArrayReader(genotypes)
    total = KinshipSum(reader.n_samples, standardized, n_threads)
    for chunk in reader.chunks(_ARRAY_CHUNK):
        if chunk.calls is not None:
            present = np.where(chunk.calls < 0, np.int8(-1), chunk.calls)
            low = np.where(present < 0, np.int8(3), present).min(axis=1)
            total.add(chunk, present.max(axis=1) > low)
        else:
            low = np.fmin.reduce(chunk.values, axis=1, initial=np.inf)
            total.add(chunk, np.fmax.reduce(chunk.values, axis=1, initial=-np.inf) > low)
    if total.n_variants == 0:
        raise InputError(f"genotypes: none of {reader.n_variants} variants varies; a kinship needs one that does")
    return total.matrix()


def compute_centered_kinship(genotypes: ArrayLike, *, n_threads: int | None = None) -> F64:
    """Centred kinship of a genotype matrix, GEMMA's ``-gk 1`` without its frequency filters.

    Parameters
    ----------
    genotypes : array_like of int8, float32 or float64, shape (n_samples, n_variants)
        Dosages of allele1; missing is -127 or NaN. C or Fortran order, read-only too.
    n_threads : int, optional
        Threads; default: all that the process may use.

    Returns
    -------
    ndarray of float64, shape (n_samples, n_samples)
        (1/p) sum of (x - mean)(x - mean)' over the p variants that vary.

    Raises
    ------
    InputError
        Not a matrix of dosages, or no variant varies.

    References
    ----------
    Zhou & Stephens (2012), Nature Genetics 44, 821-824, doi:10.1038/ng.2310.

    Examples
    --------
    >>> import numpy as np
    >>> compute_centered_kinship(np.array([[0, 2], [1, 1], [2, 0]], dtype=np.int8))
    array([[ 1.,  0., -1.],
           [ 0.,  0.,  0.],
           [-1.,  0.,  1.]])
    """
    return _compute(genotypes, False, n_threads)


def compute_standardized_kinship(genotypes: ArrayLike, *, n_threads: int | None = None) -> F64:
    """Standardised kinship of a genotype matrix, GEMMA's ``-gk 2`` without its frequency filters.

    As `compute_centered_kinship`, each variant divided by its population variance; the mean of the diagonal is 1.

    Examples
    --------
    >>> import numpy as np
    >>> compute_standardized_kinship(np.array([[0, 2], [1, 1], [2, 0]], dtype=np.int8)).diagonal()
    array([1.5, 0. , 1.5])
    """
    return _compute(genotypes, True, n_threads)
