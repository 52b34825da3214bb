"""The plan of a run: what follows from sizes, options and memory, and when a run is refused."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from jamma.config import RunRequest
from jamma.core import available as bounds
from jamma.core.available import GB, Available
from jamma.core.errors import InsufficientMemoryError, UsageError
from jamma.core.memory import DEFAULT_CHUNK, MIN_CHUNK
from jamma.plan import make_plan


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    """A machine with 64 GB free, whatever this one has, and no settings in the environment."""
    for name in ("JAMMA_LOCO_WORKERS", "JAMMA_BACKEND", "JAMMA_BLAS_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(
        bounds,
        "available_memory",
        lambda gb=None: Available(int((gb or 64) * GB), "--mem-budget" if gb else "free memory", gb is not None),
    )


def planned(n: int = 2000, p: int = 10_000, n_total: int | None = None, phenotypes: int = 1, n_cvt: int = 1, **options):
    """The plan for `n` analysed samples and `p` variants; without options: ``-lmm 1 -k``."""
    options = {"bfile": "x", "kinship_file": "k.npy"} | options
    samples = SimpleNamespace(
        n_samples=n,
        n_cvt=n_cvt,
        phenotype_names=tuple(map(str, range(phenotypes))),
        phenotypes=np.zeros((n, phenotypes)),
    )
    tables = SimpleNamespace(n_samples=n_total or n), SimpleNamespace(n_variants=p)
    return make_plan(RunRequest(**options), *tables, samples)


def test_plan_holds_the_sizes_and_is_frozen():
    plan = planned(2000, 10_000, phenotypes=3, n_cvt=2)
    assert (plan.n_samples, plan.n_variants, plan.n_phenotypes, plan.n_cvt) == (2000, 10_000, 3, 2)
    assert plan.chunk_size == DEFAULT_CHUNK
    assert plan.driver == "evd"
    assert plan.backend == "numpy-streaming"
    assert 24 * 2000**2 < plan.predicted_peak_bytes < 24 * 2000**2 + 0.5 * GB
    assert sum(plan.breakdown.values()) * GB == pytest.approx(plan.predicted_peak_bytes, abs=2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.driver = "evr"


def test_driver_and_chunk_follow_from_the_budget():
    square = 8 * 20_000**2 / GB
    plenty = planned(20_000, mem_budget=3.2 * square)
    assert (plenty.driver, plenty.chunk_size) == ("evd", DEFAULT_CHUNK)
    assert planned(20_000, mem_budget=2.3 * square).driver == "evr"
    with pytest.raises(InsufficientMemoryError, match="LMM requires"):
        planned(20_000, mem_budget=1.9 * square)


def test_smaller_chunks_before_the_slower_driver():
    """The association of very many phenotypes, not the decomposition, is what does not fit."""
    roomy = planned(500, phenotypes=2000, mem_budget=8)
    tight = planned(500, phenotypes=2000, mem_budget=0.9)
    assert (roomy.driver, tight.driver) == ("evd", "evd")
    assert MIN_CHUNK <= tight.chunk_size < roomy.chunk_size <= DEFAULT_CHUNK
    assert tight.memory.sufficient


def test_a_chunk_size_that_was_asked_for_stays():
    assert planned(chunk_size=7).chunk_size == 7
    with pytest.raises(InsufficientMemoryError):
        planned(20_000, 10**6, chunk_size=10**6, mem_budget=12)


def test_no_check_memory_makes_a_plan_all_the_same():
    plan = planned(100_000, mem_budget=10, check_memory=False)
    assert not plan.memory.sufficient
    assert (plan.driver, plan.chunk_size) == ("evr", MIN_CHUNK)


def test_refusal_names_task_breakdown_largest_n_and_remedies():
    with pytest.raises(InsufficientMemoryError) as raised:
        planned(100_000, mem_budget=64)
    text = str(raised.value)
    assert raised.value.exit_code == 3
    assert "only 64.0GB available (--mem-budget)" in text
    for word in ("kinship=74.5GB", "Largest number of samples", "--no-check-memory"):
        assert word in text
    with pytest.raises(InsufficientMemoryError, match=r"The kinship requires"):
        planned(500_000, kinship_file=None, lmm_mode=None, kinship_mode=1)
    with pytest.raises(InsufficientMemoryError, match=r"LMM with LOCO requires"):
        planned(100_000, kinship_file=None, loco=True)


def test_free_memory_has_a_margin_and_a_budget_has_none(monkeypatch):
    need = planned(20_000).memory.total_gb
    assert planned(20_000, mem_budget=need * 1.001).driver == "evd"
    monkeypatch.setattr(bounds, "available_memory", lambda gb=None: Available(int(need * 1.05 * GB), "free memory"))
    assert planned(20_000).driver == "evr"


def test_kinship_alone_covers_all_samples_and_decomposes_nothing():
    plan = planned(1000, n_total=8000, kinship_file=None, lmm_mode=None, kinship_mode=1)
    assert set(plan.memory.phases) == {"kinship"}
    assert plan.memory.kinship_gb == pytest.approx(8 * 8000**2 / GB)
    standardized = planned(1000, n_total=8000, kinship_file=None, lmm_mode=None, kinship_mode=2)
    assert standardized.predicted_peak_bytes > plan.predicted_peak_bytes


def test_eigen_files_need_no_workspace():
    plan = planned(20_000, kinship_file=None, eigenvalue_file="d", eigenvector_file="u")
    assert set(plan.memory.phases) == {"association"}


def test_loco_workers_are_counted(monkeypatch):
    one = planned(5000, kinship_file=None, loco=True)
    monkeypatch.setenv("JAMMA_LOCO_WORKERS", "3")
    three = planned(5000, kinship_file=None, loco=True)
    assert (one.loco_workers, three.loco_workers) == (1, 3)
    assert three.predicted_peak_bytes - one.predicted_peak_bytes == pytest.approx(2 * 24 * 5000**2, rel=0.1)
    assert planned(5000).loco_workers == 1


@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5", "²", "99999"])
def test_loco_workers_that_cannot_be_used(monkeypatch, value):
    monkeypatch.setenv("JAMMA_LOCO_WORKERS", value)
    with pytest.raises(UsageError, match=f"JAMMA_LOCO_WORKERS={value}: expected"):
        planned(kinship_file=None, loco=True)


def test_backend():
    assert planned().backend == "numpy-streaming"  # read once
    assert planned(kinship_file=None).backend == "numpy"  # read twice
    assert planned(kinship_file=None, backend="numpy-streaming").backend == "numpy-streaming"
    assert planned(backend="numpy").backend == "numpy"
    assert planned(10_000, 5_000_000, kinship_file=None).backend == "numpy-streaming"  # 50 GB
    with pytest.raises(InsufficientMemoryError, match=r"genotypes=46\.6GB"):
        planned(10_000, 5_000_000, backend="numpy", mem_budget=40)


def test_backend_of_the_environment_wins(monkeypatch):
    monkeypatch.setenv("JAMMA_BACKEND", "numpy")
    assert planned(backend="numpy-streaming").backend == "numpy"
    monkeypatch.setenv("JAMMA_BACKEND", "jax")
    with pytest.raises(UsageError, match="JAMMA_BACKEND=jax: expected"):
        planned()


def test_threads(monkeypatch):
    plan = planned(n_threads=3)
    assert (plan.n_threads, plan.blas_threads) == (3, 3)
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    monkeypatch.setenv("JAMMA_BLAS_THREADS", "2")
    plan = planned()
    assert (plan.n_threads, plan.blas_threads) == (5, 2)
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    with pytest.raises(UsageError, match="OMP_NUM_THREADS"):
        planned()
