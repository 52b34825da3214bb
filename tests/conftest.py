"""Fixtures shared by the tests."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

from jamma.lmm.basis import EigenBasis
from jamma.lmm.nodes import PhenotypeTables
from jamma.lmm.reference import associate
from jamma.lmm.schema import LmmConfig

from .lmm_problems import HardCase, make_hard_case, make_tables

ROOT = Path(__file__).resolve().parents[1]

# The same cases each time; `pytest --hypothesis-profile=default` and tests/fuzz look for new ones.
settings.register_profile("repeatable", derandomize=True)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with the reference data: JAMMA_TEST_DATA, else ../shared/data beside the source tree."""
    folder = Path(os.environ.get("JAMMA_TEST_DATA") or ROOT.parent / "shared" / "data")
    if not (folder / "mouse_hs1940" / "mouse_hs1940.bed").exists():
        pytest.skip(f"reference data not found in {folder} (set JAMMA_TEST_DATA)")
    return folder


@pytest.fixture
def one_blas_thread():
    """For tests of many small matrices (``pytestmark = pytest.mark.usefixtures``)."""
    with threadpool_limits(1):
        yield


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

    @cached_property
    def reference(self) -> dict[str, np.ndarray]:
        """All statistics by the NumPy reference."""
        return associate(self.eigenvalues, self.u, self.w, self.y, self.x, LmmConfig(lmm_mode=4))

    @cached_property
    def tables(self) -> tuple[PhenotypeTables, EigenBasis]:
        """The tables with nodes for any covariates."""
        return make_tables(self, know_covariates=False)


@pytest.fixture(scope="session")
def mouse_cases(mouse_kinship: np.ndarray, shared_data: Path) -> dict[str, MouseCase]:
    """The three settings."""
    with threadpool_limits(1):
        return {name: _mouse_case(name, mouse_kinship, shared_data) for name in ("lmm4", "lmm4_cov", "lmm4_n6")}


@pytest.fixture(params=["lmm4", "lmm4_cov", "lmm4_n6"])
def mouse_case(request: pytest.FixtureRequest, mouse_cases: dict[str, MouseCase]) -> MouseCase:
    """Each of the three settings in turn."""
    return mouse_cases[request.param]


def _mouse_case(name: str, mouse_kinship: np.ndarray, shared_data: Path) -> MouseCase:
    """mouse_hs1940 with the phenotype and covariates of one oracle file, at the oracle's variants."""
    from bed_reader import open_bed

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


@pytest.fixture(scope="session")
def hard_cases() -> list[HardCase]:
    """480 problems: n 30 to 119, K of low and full rank or flat, heritability 0 to 0.999, 1 to 5 covariate columns."""
    with threadpool_limits(1):  # many tiny decompositions
        return [make_hard_case(seed) for seed in range(480)]


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
