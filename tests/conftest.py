"""Fixtures shared by the tests."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with the reference data: JAMMA_TEST_DATA, else ../shared/data beside the source tree."""
    folder = Path(os.environ.get("JAMMA_TEST_DATA") or ROOT.parent / "shared" / "data")
    if not (folder / "mouse_hs1940" / "mouse_hs1940.bed").exists():
        pytest.skip(f"reference data not found in {folder} (set JAMMA_TEST_DATA)")
    return folder


@dataclass(frozen=True)
class MouseCase:
    """One of the oracle's settings on mouse_hs1940: the rotated problem, and the oracle's columns."""

    name: str
    eigenvalues: np.ndarray
    u: np.ndarray
    w: np.ndarray
    y: np.ndarray
    x: np.ndarray
    oracle: dict[str, np.ndarray]


@pytest.fixture(scope="session", params=["lmm4", "lmm4_cov", "lmm4_n6"])
def mouse_case(request: pytest.FixtureRequest, mouse_kinship: np.ndarray, shared_data: Path) -> MouseCase:
    """mouse_hs1940 with the phenotype and covariates of one oracle file, at the oracle's variants."""
    from bed_reader import open_bed

    name = request.param
    rows = [line.split("\t") for line in (shared_data / "oracle" / f"{name}.tsv").read_text().splitlines()]
    oracle = {key: np.array([float(row[k]) for row in rows[1:]]) for k, key in enumerate(rows[0]) if k > 2}
    prefix = shared_data / "mouse_hs1940" / "mouse_hs1940"
    column = 10 if name == "lmm4_n6" else 5
    fam = Path(f"{prefix}.fam").read_text().splitlines()
    y = np.array([float(line.split()[column].replace("NA", "nan")) for line in fam])
    w = np.ones((len(y), 1))
    if name == "lmm4_cov":
        w = np.loadtxt(shared_data / "gemma_reference" / "covariates.txt")
    keep = np.flatnonzero(~np.isnan(y))
    k = mouse_kinship[np.ix_(keep, keep)]
    d, u = np.linalg.eigh(k - k.mean(0) - k.mean(1)[:, None] + k.mean())
    with open_bed(f"{prefix}.bed", count_A1=True) as bed:
        where = {sid: k for k, sid in enumerate(bed.sid)}
        x = bed.read(np.s_[keep, [where[row[1]] for row in rows[1:]]], dtype="float64", num_threads=1)
    x = np.where(np.isnan(x), np.nanmean(x, axis=0), x)
    return MouseCase(name, np.where(np.abs(d) < 1e-10, 0.0, d), u, w[keep], y[keep], x, oracle)


@pytest.fixture(scope="session")
def mouse_kinship(shared_data: Path) -> np.ndarray:
    """GEMMA's centred kinship of all of mouse_hs1940."""
    return np.loadtxt(shared_data / "gemma_reference" / "gk1.cXX.txt.gz")


@dataclass(frozen=True)
class HardCase:
    """A small problem that strains the search; `kinship` is centred."""

    kinship: np.ndarray
    eigenvalues: np.ndarray
    u: np.ndarray
    w: np.ndarray
    y: np.ndarray
    x: np.ndarray
    kind: str


@pytest.fixture(scope="session")
def hard_cases() -> list[HardCase]:
    """480 problems: n 30 to 119, K of low and full rank or flat, heritability 0 to 0.999, 1 to 5 covariate columns."""
    with threadpool_limits(1):  # many tiny decompositions
        return [make_hard_case(seed) for seed in range(480)]


def make_hard_case(seed: int) -> HardCase:
    """One of `hard_cases`."""
    heritabilities = (0.0, 0.05, 0.3, 0.6, 0.9, 0.99, 0.999, 0.5)
    rng = np.random.default_rng([2024, seed])
    n, c, h2 = int(rng.integers(30, 120)), 1 + seed % 5, heritabilities[seed % 8]
    kind = ("full", "low", "families", "structure", "flat")[seed % 6 % 5]
    rank = {"full": 3 * n, "low": max(2, n // 4), "families": 2 * n, "structure": 2 * n, "flat": 1}[kind]
    g = rng.binomial(2, rng.uniform(0.05, 0.5, rank), (n, rank)).astype(float)
    if kind == "families":
        g = g[np.arange(n) // 4 * 4] + rng.binomial(1, 0.02, g.shape)
    if kind == "structure":
        g[: n // 3] += rng.binomial(1, 0.7, rank)
    k = np.eye(n) if kind == "flat" else np.cov(g.T, rowvar=False, bias=True) * n / rank
    k = k - k.mean(0) - k.mean(1)[:, None] + k.mean()
    d, u = np.linalg.eigh(k)
    d = np.where(d < 1e-10, 0.0, d)
    w = np.column_stack([np.ones(n), rng.normal(size=(n, c - 1))])
    x = np.column_stack([rng.binomial(2, f, n) for f in rng.uniform(0.1, 0.9, 3)]).astype(float)
    genetic = u @ (np.sqrt(d) * rng.normal(size=n)) / np.sqrt(d.mean())
    y = (
        np.sqrt(h2) * genetic
        + np.sqrt(1 - h2) * rng.normal(size=n)
        + (seed % 3) * 0.3 * x[:, 0]
        + w @ rng.normal(size=c)
    )
    return HardCase(k, d, u, w, y, x[:, x.std(0) > 0], kind)


@pytest.fixture
def write(tmp_path):
    """A function that writes a small file (text as UTF-8) into the test's folder and gives its path."""

    def write_file(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file


@pytest.fixture
def problems(tmp_path):
    """A function that calls a reader of broken input, and gives the problems told, without the test's folder."""
    from jamma.core.errors import InputError

    def problems_of(read, *args, **kwargs) -> list[str]:
        with pytest.raises(InputError) as error:
            read(*args, **kwargs)
        return [line.replace(f"{tmp_path}/", "") for line in error.value.problems]

    return problems_of
