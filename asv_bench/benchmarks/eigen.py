"""Reducing the kinship: eigendecomposition by either driver, tridiagonal form, band of 8."""

from __future__ import annotations

from .common import N_THREADS, simulate_kinship


class Eigen:
    """K = U diag(d) U'."""

    params = ([500, 1500], ["evd", "evr"])
    param_names = ("n_samples", "driver")
    number = 1

    def setup(self, n_samples: int, driver: str) -> None:
        """Simulate the kinship."""
        self.kinship = simulate_kinship(n_samples)

    def time_eigendecompose(self, n_samples: int, driver: str) -> None:
        """On a copy, checks and centring included."""
        from jamma.lmm.eigen import eigendecompose_kinship

        eigendecompose_kinship(self.kinship, center=True, driver=driver, n_threads=N_THREADS)


class Reduction:
    """K = Q T Q' with T tridiagonal or a band of 8, and the eigenvalues of T."""

    params = ([500, 1500], ["tridiagonal", "band"])
    param_names = ("n_samples", "form")
    number = 1

    def setup(self, n_samples: int, form: str) -> None:
        """Simulate the kinship."""
        self.kinship = simulate_kinship(n_samples)

    def time_reduce(self, n_samples: int, form: str) -> None:
        """On a copy, Q formed."""
        from jamma import jlinalg

        if form == "band":
            jlinalg.eigvals_banded(jlinalg.band_reduce(self.kinship, n_threads=N_THREADS)[0], N_THREADS)
        else:
            jlinalg.eigvals_tridiagonal(*jlinalg.tridiagonalize(self.kinship, n_threads=N_THREADS)[:2])
