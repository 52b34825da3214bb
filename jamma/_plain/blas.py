"""No library: without the extension none can be called, and `jamma.jlinalg` uses NumPy's own routines."""

from __future__ import annotations

from typing import Any


def probe(path: str) -> dict[str, Any]:
    """Refuse a library, in the form of the extension's `probe`."""
    refusal = "the compiled core that calls it is not in use"
    return {"file": path, "int_bits": 0, "symbols": "", "version": "", "refusal": refusal}


def select(path: str) -> dict[str, Any]:
    """Refuse it too."""
    return probe(path)


def unload() -> None:
    """Nothing is loaded."""


def is_loaded() -> bool:
    """Whether a library has been selected."""
    return False
