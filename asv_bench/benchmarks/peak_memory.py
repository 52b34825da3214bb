"""Peak resident memory of whole runs, with a reference that imports the same and runs nothing."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from .common import write_cohort

CODE = """
import sys
import bed_reader, numpy, psutil
import jamma.cli
from jamma import gwas
if sys.argv[1] != "reference":
    options = {"gk": dict(lmm_mode=None, kinship_mode=1), "lmm": dict(lmm_mode=1), "loco": dict(loco=True)}[sys.argv[1]]
    gwas(sys.argv[2], output_dir=sys.argv[3], telemetry=False, **options)
"""


class PeakMemory:
    """Megabytes of a process of its own (asv's peakmem would count the data's making too)."""

    params = ([500, 2000], ["reference", "gk", "lmm", "loco"])
    param_names = ("n_samples", "run")
    unit = "MB"
    number = 1
    timeout = 300

    def setup(self, n_samples: int, run: str) -> None:
        """Write the cohort."""
        self.folder = tempfile.TemporaryDirectory()
        self.prefix = Path(self.folder.name) / "cohort"
        write_cohort(self.prefix, n_samples, 4000)

    def teardown(self, *_: object) -> None:
        """Remove the files."""
        self.folder.cleanup()

    def track_peak(self, n_samples: int, run: str) -> float:
        """Largest resident size of the child."""
        command = [sys.executable, "-c", CODE, run, str(self.prefix), self.folder.name]
        code = f"import subprocess, resource; subprocess.run({command!r}, check=True); "
        code += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
        out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
        scale = 2**20 if sys.platform == "darwin" else 2**10
        return int(out.split()[-1]) / scale
