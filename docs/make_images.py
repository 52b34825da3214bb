"""Make the pictures of the manual: `jamma plot` of the example cohort and of mouse_hs1940.

usage: python docs/make_images.py [DATA]

DATA is the folder of the reference data (default: JAMMA_TEST_DATA, else ../shared/data); without it the example cohort
alone is drawn.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from blocks import DOCS

ROOT = DOCS.parent
IMAGES = DOCS / "images"


def draw(name: str, options: list[str]) -> None:
    """Run an association and keep its pictures as ``images/NAME.*``."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-P",
            "-m",
            "jamma",
            *options,
            "-o",
            name,
            "-outdir",
            folder,
            "--no-telemetry",
            "--plot",
        ]
        subprocess.run(command, check=True)
        IMAGES.mkdir(exist_ok=True)
        picture = IMAGES / f"{name}.png"
        shutil.copy(Path(folder) / f"{name}.assoc.png", picture)
        print(picture, picture.stat().st_size)


def main() -> None:
    """Both pictures."""
    examples = ROOT / "examples"
    covariates = ["-c", str(examples / "covariates.txt")]
    draw("cohort", ["-gk", "1", "-lmm", "4", "-bfile", str(examples / "cohort"), *covariates])
    default = os.environ.get("JAMMA_TEST_DATA") or ROOT.parent / "shared" / "data"
    mouse = Path(sys.argv[1] if len(sys.argv) > 1 else default) / "mouse_hs1940" / "mouse_hs1940"
    if mouse.with_suffix(".bed").exists():
        draw("mouse_hs1940", ["-gk", "1", "-lmm", "1", "-bfile", str(mouse)])


if __name__ == "__main__":
    main()
