"""Without the compiled core: the NumPy implementation, its warning, and the same results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from gemma import DATA, assert_close, options, read_assoc, read_matrix

from jamma.core.extensions import EXTENSIONS

ROOT = Path(__file__).resolve().parents[1]
MESSAGE = "the slower NumPy implementation runs"
RUNS = {
    "gk1": options("gk1"),
    "gk2": options("gk2"),
    "lmm4": options("lmm4"),
    "lmm4_cov": options("lmm4_cov"),
    "lmm4_hwe": options("lmm4_hwe"),
    "lmm4_du": options("lmm4_du"),
    "lmm1": options("lmm1"),
    "lmm2": options("lmm2"),
    "lmm3": options("lmm3"),
    "eigen": options("eigen"),
    "loco": ["-bfile", str(DATA / "cohort"), "-lmm", "4", "-loco"],
    "text": [*options("gk1"), "--legacy-text"],
    "k": [*options("gk1"), "-loco"],
    # GEMMA's K of LOCO by hand covers all samples, as that of -gk 1 -loco does; -lmm -loco takes the analysed ones.
    "lmm4_loco1": [t.replace(str(DATA / "gk1_not1.cXX.txt.gz"), "{}/k.loco.1.cXX.npy") for t in options("lmm4_loco1")],
    "lmm4_locoX": [t.replace(str(DATA / "gk1_notX.cXX.txt.gz"), "{}/k.loco.X.cXX.npy") for t in options("lmm4_locoX")],
}

# Runs the command line several times in one process: argv is the folder, {} in options; stdin name and options of each.
DRIVER = """
import json, sys
from jamma.cli import main
for name, arguments in json.load(sys.stdin).items():
    try:
        main([*(t.replace("{}", sys.argv[1]) for t in arguments), "-o", name, "-outdir", sys.argv[1], "--no-telemetry"])
    except SystemExit as end:
        assert end.code == 0, (name, end.code)
from jamma._core import IS_COMPILED
print("IS_COMPILED", IS_COMPILED)
"""

# As if one extension, the last that is tried, had not been built.
REFUSE = """
import sys
class Refuse:
    def find_spec(name, path=None, target=None):
        if name == "jamma._core.rotate":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Refuse)
"""


def run(folder: Path, runs: dict[str, list[str]], prefix: str = "", **environment: str) -> str:
    """Run the command line in a process of its own; what it wrote on standard error."""
    env = {k: v for k, v in os.environ.items() if k != "JAMMA_NO_EXT"} | environment
    done = subprocess.run(
        [sys.executable, "-P", "-c", prefix + DRIVER, str(folder)], input=json.dumps(runs), env=env, cwd=ROOT,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    compiled = not (prefix or environment)
    assert f"IS_COMPILED {compiled}" in done.stdout
    assert done.stderr.count(MESSAGE) == (0 if compiled else 1), done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compiled")
    run(folder, RUNS)
    return folder


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    assert "disabled by JAMMA_NO_EXT" in run(folder, RUNS, JAMMA_NO_EXT="1")
    return folder


def assert_same_table(mine: Path, expected: Path):
    """Equal text; numbers to one in the last of their seven digits, where rounding may fall on either side."""
    header, rows = read_assoc(mine)
    expected_header, expected_rows = read_assoc(expected)
    assert header == expected_header
    assert len(rows) == len(expected_rows) > 0
    for column in header:
        a, b = [r[column] for r in rows], [r[column] for r in expected_rows]
        if column in ("chr", "rs", "ps", "n_miss", "allele1", "allele0", "af"):
            assert a == b
        else:
            np.testing.assert_allclose(np.array(a, float), np.array(b, float), rtol=1.01e-6, atol=0, err_msg=column)
            assert np.mean(np.array(a) == np.array(b)) > 0.98, column


@pytest.mark.parametrize("name", [n for n in RUNS if n.startswith("lmm") or n in ("eigen", "loco")])
def test_same_as_compiled(plain, compiled, name):
    assert_same_table(plain / f"{name}.assoc.txt", compiled / f"{name}.assoc.txt")


@pytest.mark.parametrize("name", [n for n in RUNS if n.startswith("lmm")])
def test_same_as_gemma(plain, name):
    assert_close(plain / f"{name}.assoc.txt", DATA / f"{name}.assoc.txt.gz")


@pytest.mark.parametrize(("name", "kind"), [("gk1", "cXX"), ("gk2", "sXX")])
def test_kinship(plain, compiled, name, kind):
    mine = np.load(plain / f"{name}.{kind}.npy")
    np.testing.assert_allclose(mine, np.load(compiled / f"{name}.{kind}.npy"), rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(mine, read_matrix(DATA / f"{name}.{kind}.txt.gz"), rtol=2e-9, atol=1e-9)


def test_kinship_text(plain, compiled):
    mine, expected = read_matrix(plain / "text.cXX.txt"), read_matrix(compiled / "text.cXX.txt")
    np.testing.assert_allclose(mine, expected, rtol=1.01e-9, atol=1e-13)


def test_eigen_files_serve(plain, compiled, tmp_path):
    """What one implementation writes the other reads."""
    files = ["-d", str(plain / "eigen.eigenD.npy"), "-u", str(plain / "eigen.eigenU.npy")]
    run(tmp_path, {"du": ["-bfile", str(DATA / "cohort"), "-lmm", "4", *files]})
    assert_same_table(tmp_path / "du.assoc.txt", compiled / "lmm4.assoc.txt")


def test_missing_extension(compiled, tmp_path):
    """One that cannot be imported is enough: none is used."""
    stderr = run(tmp_path, {"lmm4": RUNS["lmm4"]}, prefix=REFUSE)
    assert "No module named" in stderr
    assert_same_table(tmp_path / "lmm4.assoc.txt", compiled / "lmm4.assoc.txt")


def test_all_extensions_are_known():
    found = {str(p.relative_to(ROOT).with_suffix("")).replace(os.sep, ".") for p in (ROOT / "jamma").rglob("*.pyx")}
    assert set(EXTENSIONS) == {name for name in found if "_testing" not in name}
