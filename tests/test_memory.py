"""The memory model and the bounds it is compared with."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from jamma.core import available as bounds
from jamma.core import memory
from jamma.core.available import GB, MARGIN, MIB, Available, available_memory, cgroup_headroom
from jamma.core.memory import RunSize, estimate_lmm_memory, estimate_workflow_memory


@pytest.fixture
def budget_only(monkeypatch):
    """A machine with as much memory as the budget says, whatever this one has."""
    monkeypatch.setattr(memory, "available_memory", lambda gb: Available(int(gb * GB), "--mem-budget", True))


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def cgroup_v2(root: Path, path: str, limit: str, used: int, inactive: int = 0) -> None:
    folder = root / "sys/fs/cgroup" / path
    write(folder / "memory.max", f"{limit}\n")
    write(folder / "memory.current", f"{used}\n")
    write(folder / "memory.stat", f"anon 5\nfile 7\ninactive_file {inactive}\n")


def test_cgroup_v2_counts_every_level(tmp_path):
    write(tmp_path / "proc/self/cgroup", "0::/jobs/job7\n")
    cgroup_v2(tmp_path, "jobs/job7", "max", 100)
    cgroup_v2(tmp_path, "jobs", str(8 * GB), 3 * GB, 1 * GB)
    cgroup_v2(tmp_path, "", str(64 * GB), 4 * GB)
    assert cgroup_headroom(tmp_path) == [6 * GB, 60 * GB]


def test_cgroup_v2_in_a_container_sees_only_the_mount(tmp_path):
    write(tmp_path / "proc/self/cgroup", "0::/../../host/path\n")
    cgroup_v2(tmp_path, "", str(2 * GB), 1 * GB)
    assert cgroup_headroom(tmp_path) == [1 * GB]


@pytest.mark.parametrize(("limit", "expected"), [(4 * GB, [3 * GB]), (2**63 - 4096, [])])
def test_cgroup_v1(tmp_path, limit, expected):
    write(tmp_path / "proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/job\n0::/\n")
    folder = tmp_path / "sys/fs/cgroup/memory/job"
    write(folder / "memory.limit_in_bytes", f"{limit}\n")
    write(folder / "memory.usage_in_bytes", f"{GB + 4096}\n")
    write(folder / "memory.stat", "cache 9\ntotal_inactive_file 4096\n")
    assert cgroup_headroom(tmp_path) == expected


@pytest.mark.parametrize("content", [None, "", "nonsense\n", "0::/a:b\n"])
def test_no_readable_cgroup_is_no_bound(tmp_path, content):
    if content is not None:
        write(tmp_path / "proc/self/cgroup", content)
    assert cgroup_headroom(tmp_path) == []


def test_more_used_than_the_limit_leaves_what_the_process_holds(tmp_path):
    write(tmp_path / "proc/self/cgroup", "0::/\n")
    cgroup_v2(tmp_path, "", str(GB), 2 * GB)
    found = available_memory(root=tmp_path)
    assert found.source == "cgroup limit"
    assert 0 < found.bytes < GB


def test_smallest_bound_wins(tmp_path):
    free = available_memory(root=tmp_path)
    assert free.source in ("free memory", "ulimit -v")
    tight = available_memory(0.25, root=tmp_path)
    assert tight == (GB // 4, "--mem-budget", True)
    assert available_memory(1e6, root=tmp_path).source == free.source


def test_margin_is_not_taken_from_a_budget():
    assert Available(1100, "free memory").usable == 1000
    assert Available(1100, "--mem-budget", True).usable == 1100


def test_a_budget_within_the_margin_of_free_memory_does_not_override_it():
    assert min(Available(1100, "free"), Available(1050, "budget", True), key=lambda b: b.usable).source == "free"


@pytest.mark.skipif(sys.platform != "linux", reason="ulimit -v is enforced on Linux")
def test_ulimit_is_seen():
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30,) * 2);"
        "from jamma.core.available import available_memory; print(*available_memory(), sep=';')"
    )
    out = subprocess.run([sys.executable, "-P", "-c", code], check=True, capture_output=True, text=True).stdout
    size, source, _ = out.strip().split(";")
    assert source == "ulimit -v"
    assert 1.5 * GB < int(size) < 3 * GB


def test_guide_example():
    full = estimate_workflow_memory(n_samples=200_000, n_snps=95_000)
    lmm = estimate_lmm_memory(n_samples=200_000, n_snps=95_000)
    k = 8 * 200_000**2 / GB
    assert full.eigendecomp_workspace_gb == pytest.approx(k if full.driver == "evr" else 2 * k)
    assert full.total_gb > full.kinship_gb + full.eigendecomp_workspace_gb
    assert k < lmm.total_gb < 1.1 * k
    assert full.available_gb > 0
    assert full.sufficient == (full.available_gb > 1.1 * full.total_gb)


def test_breakdown_adds_up_to_the_total(budget_only):
    for basis in ("eigen", "tridiagonal"):
        for workers in (0, 3):
            e = estimate_workflow_memory(20_000, 300_000, basis=basis, loco_workers=workers, mem_budget=100)
            assert sum(e.breakdown.values()) == pytest.approx(e.total_gb)
            assert e.total_gb == max(e.phases.values())


def test_driver_falls_back_then_is_refused(budget_only):
    n, square = 50_000, 8 * 50_000**2 / GB
    plenty, some, little = (estimate_workflow_memory(n, 1000, mem_budget=f * square) for f in (3.2, 2.2, 1.5))
    assert (plenty.driver, plenty.sufficient) == ("evd", True)
    assert (some.driver, some.sufficient) == ("evr", True)
    assert (little.driver, little.sufficient) == ("evr", False)


@pytest.mark.parametrize("size", [
    RunSize(n_samples=1000, n_snps=10_000),
    RunSize(n_samples=1000, n_total=1500, kinship_samples=1500, n_snps=10_000, associates=False, decomposes=False),
    RunSize(n_samples=1000, n_snps=10_000, driver="evr", loco_workers=2, n_threads=4),
    RunSize(n_samples=1000, n_snps=10_000, basis="band", in_memory=True, n_phenotypes=50),
])  # fmt: skip
def test_largest_n_is_the_boundary(size):
    usable = 4 * GB
    n = memory.largest_n_samples(size, usable)
    assert n > 3000

    def peak(n: int) -> int:
        ratio = n / size.n_samples
        total, rows = (None if k is None else int(-(-k * ratio // 1)) for k in (size.n_total, size.kinship_samples))
        trial = replace(size, n_samples=n, n_total=total, kinship_samples=rows)
        return memory.peak_bytes(replace(trial, chunk_size=min(size.chunk_size, memory.fitting_chunk(trial, usable))))

    assert peak(n) <= usable < peak(n + 2)


def test_nothing_fits():
    assert memory.largest_n_samples(RunSize(n_samples=10, n_snps=10), MIB) == 0


def test_peak_grows_with_everything():
    base = RunSize(n_samples=5000, n_snps=100_000)
    for change in (
        {"n_samples": 6000}, {"n_snps": 10_000_000}, {"loco_workers": 1}, {"loco_workers": 2}, {"in_memory": True},
        {"n_threads": 64}, {"kinship_samples": 12_000},
    ):  # fmt: skip
        assert memory.peak_bytes(replace(base, **change)) > memory.peak_bytes(base), change
    assert memory.peak_bytes(replace(base, basis="tridiagonal")) < memory.peak_bytes(base)
    assert memory.peak_bytes(replace(base, driver="evr")) < memory.peak_bytes(base)


def test_association_grows_with_phenotypes_and_chunks():
    base = RunSize(n_samples=500, n_snps=100_000, computes_kinship=False, decomposes=False)
    for change in ({"n_phenotypes": 100}, {"n_cvt": 30}, {"chunk_size": 50_000}):
        assert memory.peak_bytes(replace(base, **change)) > memory.peak_bytes(base) + MIB, change


def test_chunk_follows_from_the_budget():
    size = RunSize(n_samples=100_000, n_snps=10**6)
    small, large = memory.fitting_chunk(size, GB), memory.fitting_chunk(size, 100 * GB)
    assert 64 <= small < large == memory.DEFAULT_CHUNK
    assert small % 64 == 0
    assert small * memory.chunk_bytes_per_variant(size) <= GB // 10
    assert memory.fitting_chunk(replace(size, n_samples=10**7), GB) == 64


def test_refusal_tells_everything(budget_only):
    e = estimate_workflow_memory(100_000, 500_000, mem_budget=64)
    text = memory.refusal("LMM", e)
    first, breakdown, largest, advice = text.splitlines()
    assert first == f"LMM requires ~{e.total_gb:.1f}GB but only 64.0GB available (--mem-budget)"
    assert "kinship=74.5GB" in breakdown
    assert f"{e.largest_n_samples:,}" in largest
    assert 64_000 < e.largest_n_samples < 65_536  # 16n² bytes alone would be 64 GB there
    assert f"{e.total_gb:.1f}GB free" in advice
    assert "--no-check-memory" in advice


def test_sample_limits_agree_with_the_guide_where_the_method_is_the_same():
    for gigabytes, n in ((490, 142_000), (240, 100_000), (120, 70_000), (58, 49_000), (28, 34_000), (14, 24_000)):
        assert memory.sample_limits(gigabytes)["evd"] == pytest.approx(n, rel=0.06)


def test_margin_in_the_advice(budget_only):
    e = replace(estimate_workflow_memory(10_000, 1000, mem_budget=1), available_source="cgroup limit")
    assert f"{e.total_gb * (1 + MARGIN):.1f}GB free" in memory.refusal("LMM", e)


def test_windows_has_no_ulimit(monkeypatch):
    monkeypatch.setitem(sys.modules, "resource", None)
    assert bounds._ulimits(1, 2) == []


def test_peak_counts_this_process_and_not_the_one_that_started_it():
    def peak(code: str = "pass") -> float:
        code = f"{code}; from jamma.core.available import peak_memory_gb; print(peak_memory_gb())"
        run = [sys.executable, "-P", "-c", code]
        return float(subprocess.run(run, check=True, capture_output=True, text=True).stdout)

    held = bytearray(GB // 4)
    held[::4096] = b"x" * len(held[::4096])
    bare = peak()
    assert 0.001 < bare < 0.2
    assert peak("a = b'x' * 2**27; del a") == pytest.approx(bare + 0.125, abs=0.03)
    del held


def test_peak_without_proc(tmp_path):
    assert bounds.peak_memory_gb(tmp_path) >= bounds.peak_memory_gb() - 0.01
    write(tmp_path / "proc/self/status", "Name:\tx\nVmHWM:\t  2097152 kB\n")
    assert bounds.peak_memory_gb(tmp_path) == 2


@pytest.fixture(scope="module")
def cohort(tmp_path_factory):
    """Write a cohort of n samples and 12,000 variants once."""
    folder = tmp_path_factory.mktemp("memory")

    def prefix(n: int) -> Path:
        import numpy as np
        from bed_reader import to_bed

        path = folder / f"n{n}"
        if not path.with_suffix(".bed").exists():
            rng = np.random.default_rng(n)
            calls = rng.binomial(2, rng.uniform(0.1, 0.5, 12_000), (n, 12_000)).astype(np.int8)
            calls[rng.random(calls.shape) < 0.005] = -127
            properties = {
                "iid": [f"i{k}" for k in range(n)], "pheno": [f"{v:.4f}" for v in rng.standard_normal(n)],
                "sid": [f"v{k}" for k in range(12_000)], "chromosome": np.repeat(["1", "2", "3"], 4000),
                "allele_1": ["A"] * 12_000, "allele_2": ["C"] * 12_000,
            }  # fmt: skip
            to_bed(path.with_suffix(".bed"), calls, properties=properties)
        return path

    return prefix


@pytest.mark.slow
@pytest.mark.parametrize("n", [1000, 3000, 6000])
@pytest.mark.parametrize("options", ["-gk 1", "-gk 2", "-lmm 1", "-lmm 4 --backend numpy-streaming", "-lmm 1 -loco"])
def test_the_estimate_is_true(n, options, cohort, tmp_path):
    """Measured peak resident memory of a process is between 0.7 and 1.0 of what the plan predicted."""
    command = [sys.executable, "-P", "-m", "jamma", "-bfile", str(cohort(n)), *options.split(), "--no-telemetry"]
    subprocess.run([*command, "-outdir", str(tmp_path)], check=True, capture_output=True)
    log = json.loads((tmp_path / "result.log.json").read_text())
    ratio = log["peak_memory_gb"] / log["predicted_memory_gb"]
    print(f"| {n:,} | `{options}` | {log['predicted_memory_gb']:.3f} | {log['peak_memory_gb']:.3f} | {ratio:.2f} |")
    assert 0.7 <= ratio <= 1.0
