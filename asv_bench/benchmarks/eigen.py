"""Reducing the kinship: eigendecomposition by either driver."""

from __future__ import annotations

from .common import N_THREADS, simulate_kinship


class Eigen:
    """K = U diag(d) U'."""

    params = ([500, 1000, 2000], ["evd", "evr"])
    param_names = ("n_samples", "driver")
    number = 1

    def setup(self, n_samples: int, driver: str) -> None:
        """Simulate the kinship."""
        self.kinship = simulate_kinship(n_samples)

    def time_eigendecompose(self, n_samples: int, driver: str) -> None:
        """On a copy, checks and centring included."""
        from jamma.lmm.eigen import eigendecompose_kinship

        eigendecompose_kinship(self.kinship, center=True, driver=driver, n_threads=N_THREADS)
