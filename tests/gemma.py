"""Reading GEMMA's outputs and comparing with them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np

DATA = Path(__file__).resolve().parent / "data"
FIXTURES: dict[str, dict[str, list[str]]] = json.loads((DATA / "fixtures.json").read_text())

#: GEMMA's search ends up to 8e-6 (relative) from the root; what depends on it follows.
TOLERANCE, TOLERANCE_LAMBDA = 1e-4, 2e-5


def options(name: str, folder: Path = DATA) -> list[str]:
    """The jamma options of a fixture, file names made absolute."""
    return [str(folder / t) if (folder / t).is_file() or t == "cohort" else t for t in FIXTURES[name]["jamma"]]


def open_text(path: Path):
    """A text file, gzipped or not."""
    return gzip.open(path, "rt") if path.suffix == ".gz" else open(path)


def read_assoc(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    """Header and rows of an .assoc.txt."""
    with open_text(path) as file:
        header = file.readline().rstrip("\n").split("\t")
        return header, [dict(zip(header, line.rstrip("\n").split("\t"), strict=True)) for line in file]


def read_log(path: Path) -> dict[str, list[float]]:
    """The summary lines of a .log.txt: name to numbers."""
    found = {}
    for line in path.read_text().splitlines():
        name, _, value = line.removeprefix("## ").partition(" = ")
        try:
            found[name.strip()] = [float(t) for t in value.split()]
        except ValueError:
            continue
    return {name: numbers for name, numbers in found.items() if numbers}


def read_matrix(path: Path) -> np.ndarray:
    """A kinship in GEMMA's text."""
    with open_text(path) as file:
        return np.loadtxt(file, ndmin=2)


def differences(mine: Path, reference: Path, *, oracle: bool = False) -> dict[str, float]:
    """The largest difference of each column: text 0 or inf, af absolute, beta by max(|beta|, se), else relative.

    Rows must be the same ones in the same order; with `oracle` the reference has some of them.
    """
    header, rows = read_assoc(mine)
    reference_header, expected = read_assoc(reference)
    if oracle:
        by_key = {(r["chr"], r["rs"], r["ps"]): r for r in rows}
        rows = [by_key[r["chr"], r["rs"], r["ps"]] for r in expected]
    else:
        assert header == reference_header
        assert [r["rs"] for r in rows] == [r["rs"] for r in expected]
    # GEMMA prints nan, and beta and se of another lambda, where its Newton steps leave [lmin, lmax]; jamma takes the
    # better bound there. Such rows cannot be compared.
    whole = np.array(["nan" not in r.values() for r in expected])
    worst: dict[str, float] = {}
    for column in reference_header:
        # Mode 4 prints ML's log-likelihood, the oracle's is REML's.
        if column not in header or (oracle and column == "logl_H1" and "l_mle" in header):
            continue
        a, b = [r[column] for r in rows], [r[column] for r in expected]
        if column in ("chr", "rs", "ps", "n_miss", "allele1", "allele0"):
            worst[column] = 0.0 if a == b else np.inf
            continue
        x, y = np.array(a, float), np.array(b, float)
        assert not np.isnan(x).any()
        x, y = x[whole], y[whole]
        scale = np.abs(y)
        if column == "af":
            scale = np.ones_like(y)
        elif column == "beta":
            scale = np.maximum(np.abs(y), np.array([r["se"] for r in expected], float)[whole])
        worst[column] = float(np.max(np.abs(x - y) / np.maximum(scale, 1e-300)))
    return worst


def assert_close(mine: Path, reference: Path, tolerance: float = TOLERANCE, tolerance_lambda: float = TOLERANCE_LAMBDA):
    """Every column within its tolerance (af within its three decimals)."""
    for column, worst in differences(mine, reference).items():
        limit = 6e-4 if column == "af" else tolerance_lambda if column in ("l_remle", "l_mle") else tolerance
        assert worst <= limit, f"{column}: {worst:.2e} > {limit:.0e}"
