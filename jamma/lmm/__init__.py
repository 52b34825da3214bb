"""The linear mixed model: decomposition, null model, association."""

from __future__ import annotations

from typing import Any

__all__ = ["run_lmm_association_numpy"]


def __getattr__(name: str) -> Any:
    # Imported on first use: `jamma.lmm.schema` alone must not load the kernels.
    if name == "run_lmm_association_numpy":
        from jamma.lmm.arrays import run_lmm_association_numpy

        return run_lmm_association_numpy
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
