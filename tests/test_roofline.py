"""The comparison of kernels with the BLAS: what a line says, and that every file of cases can be loaded."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

BENCH = Path(__file__).resolve().parents[1] / "asv_bench"


@pytest.fixture
def roofline(monkeypatch):
    """The script as a module; what it puts on the path is taken off again."""
    monkeypatch.setattr(sys, "path", [str(BENCH), *sys.path])
    import roofline

    return roofline


def test_a_line_has_times_ratio_and_difference(roofline):
    from case import Case

    a = np.ones((3, 3))
    slow = lambda: (time.sleep(0.02), a)[1]  # noqa: E731
    row = roofline.measure(Case("fast", lambda: a * 1.5, slow, at_least=2, n_items=10), 2)
    assert row["difference"] == 0.5
    assert row["ratio"] == row["blas_s"] / row["kernel_s"] > 2
    assert row["per_item_us"] == pytest.approx(1e5 * row["kernel_s"])
    assert roofline.met(row)
    assert "yes" in roofline.line(row, "avx2")
    slow_row = roofline.measure(Case("slow", slow, lambda: a, at_least=1), 1)
    assert not roofline.met(slow_row)
    assert "NO" in roofline.line(slow_row, "")


def test_levels_are_put_back(roofline):
    from case import Case

    asked: list = []
    levels = SimpleNamespace(
        available_levels=lambda: ["baseline", "avx2"], set_level=asked.append, level=lambda: asked[-1] or "best"
    )
    case = Case("k", np.ones, np.ones, levels=levels)
    assert case.level_names() == ["baseline", "avx2"]
    with case.at_level("avx2") as name:
        assert name == "avx2"
    assert asked == ["avx2", None]


def test_every_file_of_cases_loads(roofline):
    from case import Case

    found = list(roofline.collect(1, small=True, only=""))
    assert found
    assert all(isinstance(case, Case) for case in found)


def test_benchmarks_follow_asv(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(BENCH), *sys.path])
    import importlib

    names = [path.stem for path in (BENCH / "benchmarks").glob("*.py") if path.stem not in ("__init__", "common")]
    assert {"reading", "kinship", "eigen", "association", "runs", "start", "peak_memory"} <= set(names)
    for name in names:
        module = importlib.import_module(f"benchmarks.{name}")
        classes = [c for c in vars(module).values() if isinstance(c, type) and c.__module__ == module.__name__]
        measured = [c for c in classes if any(k.startswith(("time_", "track_", "peakmem_")) for k in dir(c))]
        assert measured, name
        for c in measured:
            assert len(getattr(c, "params", ())) == len(getattr(c, "param_names", ())), c
