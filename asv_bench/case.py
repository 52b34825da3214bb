"""One kernel and the BLAS call that it replaces, for `roofline.py`; ``kernels/*.py`` yield these."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


def largest_difference(a: Any, b: Any) -> float:
    """max |a - b| / max |b| over arrays, or over tuples of arrays of the same shapes."""
    pairs = zip(a, b, strict=True) if isinstance(a, tuple) else [(a, b)]
    return max(_relative(np.asarray(x), np.asarray(y)) for x, y in pairs)


def _relative(x: NDArray, y: NDArray) -> float:
    return float(np.abs(x - y).max() / max(np.abs(y).max(), np.finfo(float).tiny))


@dataclass(frozen=True)
class Case:
    """What `roofline.py` measures in a line.

    Attributes
    ----------
    name : str
        Kernel and shapes, as ``kinship n=1940 p=12226 missing=1%``.
    kernel : callable
        jamma's kernel, on data made beforehand; returns its result.
    blas : callable
        The BLAS call on the same shapes (on float64 made beforehand: conversion is not counted); returns the result
        that the kernel's is compared with.
    at_least : float or None
        The ratio of their times that is promised.
    n_items : int
        Variants, for the time per variant; 0: not shown.
    levels : module or None
        The extension with ``available_levels``, ``set_level`` and ``level``, if the kernel has CPU levels.
    difference : callable
        Of both results, a number; default: the largest difference relative to the largest entry.
    """

    name: str
    kernel: Callable[[], Any]
    blas: Callable[[], Any]
    at_least: float | None = None
    n_items: int = 0
    levels: Any = None
    difference: Callable[[Any, Any], float] = largest_difference

    def level_names(self) -> list[str | None]:
        """The CPU levels that this machine has; [None] for a kernel without levels."""
        return [None] if self.levels is None else list(self.levels.available_levels())

    @contextmanager
    def at_level(self, name: str | None) -> Iterator[str]:
        """Run at one CPU level (None: the best); the choice of before is put back."""
        if self.levels is None:
            yield ""
            return
        self.levels.set_level(name)
        try:
            yield self.levels.level()
        finally:
            self.levels.set_level(None)
