"""jamma's eigh (checks and copy included) against NumPy's, which calls the LAPACK that NumPy was built with."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from benchmarks.common import simulate_kinship
from case import Case


def reconstruction(ours: tuple, theirs: tuple) -> float:
    """Largest difference of the eigenvalues, and of V'V from the identity."""
    (w, v), (w0, _) = ours, theirs
    return float(max(np.abs(w - w0).max() / w0[-1], np.abs(v.T @ v - np.eye(len(w))).max()))


def cases(n_threads: int, small: bool = False) -> Iterator[Case]:
    """One size; small: 300 samples."""
    from jamma import jlinalg

    n = 300 if small else 1410
    kinship = simulate_kinship(n)
    yield Case(
        f"eigh n={n} (DSYEVD) against numpy.linalg.eigh",
        lambda: jlinalg.eigh(kinship, driver="evd", n_threads=n_threads),
        lambda: tuple(np.linalg.eigh(kinship)),
        difference=reconstruction,
    )
