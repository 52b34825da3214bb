"""The linear mixed model: decomposition, null model, association."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jamma.lmm.arrays import run_lmm_association_numpy

__all__ = ["run_lmm_association_numpy"]


# Imported when first asked for: `jamma.lmm.schema` alone must not load the kernels.
_LAZY = {"run_lmm_association_numpy": "jamma.lmm.arrays"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
