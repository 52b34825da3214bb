"""The examples in docstrings, run as they stand, in a folder that holds the tree's `examples/`."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import jamma

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
MODULES = [
    m.name for m in pkgutil.walk_packages(jamma.__path__, "jamma.")
    if not m.name.startswith(("jamma._", "jamma.__")) and m.name != "jamma.plot"  # its extra may be absent
]  # fmt: skip
FINDER = doctest.DocTestFinder(exclude_empty=True)


def examples(name: str) -> list[doctest.DocTest]:
    """The docstrings of a module that have examples."""
    return [test for test in FINDER.find(importlib.import_module(name)) if test.examples]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name, tmp_path, monkeypatch):
    (tmp_path / "examples").symlink_to(EXAMPLES)
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    said: list[str] = []
    for test in examples(name):
        runner.run(test, out=said.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(said)


@pytest.mark.parametrize(
    "name",
    [
        "gwas", "GWASResult.associations", "io.plink.load_plink_binary", "kinship.compute_centered_kinship",
        "kinship.compute_standardized_kinship", "lmm.eigen.eigendecompose_kinship",
        "lmm.arrays.run_lmm_association_numpy", "lmm.association.associate", "lmm.schema.LmmConfig",
        "core.memory.estimate_workflow_memory", "core.memory.estimate_lmm_memory", "core.memory.sample_limits",
        "jlinalg.eigh",
    ],
)  # fmt: skip
def test_public_functions_have_examples(name):
    full = {"gwas": "pipeline.gwas", "GWASResult.associations": "result.GWASResult.associations"}.get(name, name)
    modules = [m for m in MODULES if f"jamma.{full}".startswith(f"{m}.")]
    assert f"jamma.{full}" in {test.name for m in modules for test in examples(m)}
