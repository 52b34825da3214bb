"""Whole runs from files to files."""

from __future__ import annotations

import tempfile
from pathlib import Path

from .common import write_cohort


class Runs:
    """`jamma.gwas` on a cohort: kinship, one test, all tests, LOCO."""

    params = ([400, 1200], [4000], ["gk", "lmm1", "lmm4", "lmm1 of 10 phenotypes", "loco"])
    param_names = ("n_samples", "n_variants", "run")
    number = 1
    timeout = 300

    def setup(self, n_samples: int, n_variants: int, run: str) -> None:
        """Write the cohort."""
        self.folder = tempfile.TemporaryDirectory()
        self.prefix = Path(self.folder.name) / "cohort"
        write_cohort(self.prefix, n_samples, n_variants, n_phenotypes=10)

    def teardown(self, *_: object) -> None:
        """Remove the files."""
        self.folder.cleanup()

    def time_run(self, n_samples: int, n_variants: int, run: str) -> None:
        """From .bed to .assoc.txt (or .cXX.npy), in this process."""
        from jamma import gwas

        options = {
            "gk": {"lmm_mode": None, "kinship_mode": 1},
            "lmm4": {"lmm_mode": 4},
            "lmm1 of 10 phenotypes": {"phenotype_columns": range(1, 11)},
            "loco": {"loco": True},
        }.get(run, {})
        gwas(self.prefix, output_dir=self.folder.name, telemetry=False, **options)
