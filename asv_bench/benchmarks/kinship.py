"""The kinship sum of hard calls."""

from __future__ import annotations

import numpy as np

from .common import N_THREADS, simulate_calls


class Kinship:
    """Centred and standardised kinship of chunks that are in memory."""

    params = ([500, 2000], [1000, 4000], [0.0, 0.02], ["centred", "standardised"])
    param_names = ("n_samples", "n_variants", "missing_rate", "kind")

    def setup(self, n_samples: int, n_variants: int, missing_rate: float, kind: str) -> None:
        """Simulate the chunks."""
        from jamma.io.readers import GenotypeChunk

        calls = simulate_calls(n_samples, n_variants, missing_rate)
        self.chunks = [
            GenotypeChunk(calls[start : start + 2048], None, np.arange(start, min(start + 2048, n_variants)))
            for start in range(0, n_variants, 2048)
        ]

    def time_sum(self, n_samples: int, n_variants: int, missing_rate: float, kind: str) -> None:
        """Add all chunks and divide."""
        from jamma.kinship import KinshipSum

        total = KinshipSum(n_samples, standardized=kind == "standardised", n_threads=N_THREADS)
        for chunk in self.chunks:
            total.add(chunk)
        total.matrix()
