"""Set-up of the exact test without eigenvectors, eigenvalues included, against DSYEVD; the band against DSYTRD."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from benchmarks.common import simulate_kinship
from case import Case


def cases(n_threads: int, small: bool = False) -> Iterator[Case]:
    """Two sizes; small: 300 samples. Differences are of the eigenvalues, relative to the largest, or of the trace."""
    from jamma import jlinalg
    from jamma._blas import reductions
    from jamma.core.threads import blas_threads

    def spectrum(ours: np.ndarray, theirs: np.ndarray) -> float:
        return float(np.abs(ours - theirs).max() / np.abs(theirs).max())

    for n in (300,) if small else (1410, 4000):
        kinship = simulate_kinship(n)

        def evd(kinship: np.ndarray = kinship) -> np.ndarray:
            return jlinalg.eigh(kinship, driver="evd", n_threads=n_threads)[0]

        def tridiagonal(kinship: np.ndarray = kinship) -> np.ndarray:
            diagonal, off_diagonal, _ = jlinalg.tridiagonalize(kinship, n_threads=n_threads)
            return jlinalg.eigvals_tridiagonal(diagonal, off_diagonal)

        def band(kinship: np.ndarray = kinship) -> np.ndarray:
            return jlinalg.eigvals_banded(jlinalg.band_reduce(kinship, n_threads=n_threads)[0], n_threads)

        def band_alone(kinship: np.ndarray = kinship) -> np.ndarray:
            return reductions.reflect_to_band(np.array(kinship, order="F"), n_threads)[0][0]

        def sytrd(kinship: np.ndarray = kinship) -> np.ndarray:
            with blas_threads(n_threads):
                return reductions.reflect_to_tridiagonal(np.array(kinship, order="F"))[0]

        yield Case(f"tridiagonal + Q + eigenvalues, n={n}, against DSYEVD", tridiagonal, evd, difference=spectrum)
        yield Case(f"band of 8 + Q + eigenvalues, n={n}, against DSYEVD", band, evd, difference=spectrum)
        yield Case(
            f"band of 8 alone, n={n}, against DSYTRD", band_alone, sytrd,
            difference=lambda ours, theirs: float(abs(ours.sum() - theirs.sum()) / abs(theirs.sum())),
        )  # fmt: skip
