"""The kinship against GEMMA 0.98.5: within 1e-9 of its largest entry, which it prints with ten digits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from gemma import DATA, FIXTURES, options, read_log, read_matrix

COUNTS = ["number of total individuals", "number of analyzed individuals", "number of analyzed SNPs/var"]

# name: options on mouse_hs1940, and whether the reference holds every tenth row only.
MOUSE = {
    "gk1": ("-gk 1", "gk1.cXX.txt.gz", 1),
    "gk1_nofilter": ("-gk 1 -maf 0 -miss 1", "gk1_nofilter.cXX.every10th_row.txt.gz", 10),
    "gk1_ksnps": ("-gk 1 -ksnps ksnps_4000.txt", "gk1_ksnps.cXX.every10th_row.txt.gz", 10),
    "gk2": ("-gk 2", "gk2.sXX.every10th_row.txt.gz", 10),
}


def kinship(arguments: list[str], folder: Path) -> np.ndarray:
    """Run the command line in a process of its own; the matrix it wrote."""
    command = [sys.executable, "-P", "-m", "jamma", *arguments, "-o", "k", "-outdir", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    (path,) = folder.glob("k.*XX.npy")
    return np.load(path)


def assert_is_gemmas(mine: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(mine, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("name", [name for name in FIXTURES if name.startswith("gk")])
def test_small_cohort(name, tmp_path):
    (reference,) = DATA.glob(f"{name}.?XX.txt.gz")
    assert_is_gemmas(kinship(options(name), tmp_path), read_matrix(reference))
    mine, gemma = read_log(tmp_path / "k.log.txt"), read_log(DATA / f"{name}.log.txt")
    assert [mine[line] for line in COUNTS] == [gemma[line] for line in COUNTS]


@pytest.mark.parametrize("name", MOUSE)
def test_mouse(shared_data, tmp_path, name):
    text, reference, every = MOUSE[name]
    folder = shared_data / "gemma_reference"
    words = [str(folder / w) if (folder / w).is_file() else w for w in text.split()]
    mine = kinship(["-bfile", str(shared_data / "mouse_hs1940" / "mouse_hs1940"), *words], tmp_path)
    expected = read_matrix(folder / reference)
    rows = mine[::every] if len(mine[::every]) == len(expected) else mine[every - 1 :: every]
    assert_is_gemmas(rows, expected)
