"""Reading .bed files in chunks."""

from __future__ import annotations

import tempfile
from pathlib import Path

from .common import N_THREADS, write_cohort


class Reading:
    """All chunks of a file, over all samples and over two thirds of them (which cannot be copied whole)."""

    params = ([500, 2000], [0.0, 0.05], ["all", "subset"])
    param_names = ("n_samples", "missing_rate", "samples")

    def setup(self, n_samples: int, missing_rate: float, samples: str) -> None:
        """Write the cohort."""
        import numpy as np

        from jamma.io.plink import PlinkReader

        self.folder = tempfile.TemporaryDirectory()
        prefix = Path(self.folder.name) / "cohort"
        write_cohort(prefix, n_samples, 8000, missing_rate)
        rows = None if samples == "all" else np.flatnonzero(np.arange(n_samples) % 3)
        self.reader = PlinkReader(prefix, rows, N_THREADS)

    def teardown(self, *_: object) -> None:
        """Remove the files."""
        self.folder.cleanup()

    def time_chunks(self, *_: object) -> None:
        """2,048 variants at a time."""
        for _chunk in self.reader.chunks(2048):
            pass


class Tables:
    """The .fam and .bim of a large file."""

    def setup(self) -> None:
        """Half a million variants, 20,000 samples."""
        self.folder = tempfile.TemporaryDirectory()
        self.prefix = str(Path(self.folder.name) / "cohort")
        bim = (f"{1 + v // 25_000}\trs{v}\t0\t{v + 1}\tA\tG\n" for v in range(500_000))
        Path(self.prefix + ".bim").write_text("".join(bim))
        Path(self.prefix + ".fam").write_text("".join(f"f{i} i{i} 0 0 1 {i % 7}\n" for i in range(20_000)))

    def teardown(self) -> None:
        """Remove the files."""
        self.folder.cleanup()

    def time_bim(self) -> None:
        """Half a million lines."""
        from jamma.io.tables import read_bim

        read_bim(self.prefix + ".bim")

    def time_fam(self) -> None:
        """20,000 lines."""
        from jamma.io.tables import read_fam

        read_fam(self.prefix + ".fam")
