"""Whole runs from files to files."""

from __future__ import annotations

import tempfile
from pathlib import Path

from .common import write_cohort


class Runs:
    """`jamma.gwas` on a cohort: kinship, one test, all tests, LOCO."""

    params = ([400, 1200], [4000], ["gk", "lmm1", "lmm4", "loco"], [1, 10])
    param_names = ("n_samples", "n_variants", "run", "n_phenotypes")
    number = 1
    timeout = 300

    def setup(self, n_samples: int, n_variants: int, run: str, n_phenotypes: int) -> None:
        """Write the cohort."""
        if n_phenotypes > 1 and run in ("gk", "loco"):
            raise NotImplementedError  # asv: skip this combination
        self.folder = tempfile.TemporaryDirectory()
        self.prefix = Path(self.folder.name) / "cohort"
        write_cohort(self.prefix, n_samples, n_variants, n_phenotypes=n_phenotypes)

    def teardown(self, *_: object) -> None:
        """Remove the files."""
        if hasattr(self, "folder"):
            self.folder.cleanup()

    def time_run(self, n_samples: int, n_variants: int, run: str, n_phenotypes: int) -> None:
        """From .bed to .assoc.txt (or .cXX.npy), in this process."""
        from jamma import gwas

        options: dict = {"gk": {"lmm_mode": None, "kinship_mode": 1}, "loco": {"loco": True}}.get(run, {})
        if run.startswith("lmm"):
            options = {"lmm_mode": int(run[3:]), "phenotype_columns": tuple(range(1, n_phenotypes + 1))}
        gwas(self.prefix, output_dir=self.folder.name, telemetry=False, **options)
