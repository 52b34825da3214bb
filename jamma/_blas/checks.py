"""What the callers of LAPACK share: its info as an exception, workspace, and the matrix it may write on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from jamma.core.errors import InsufficientMemoryError, NumericalError


def check_info(routine: str, info: int) -> None:
    """Raise what LAPACK's info stands for."""
    if info == 0:
        return
    if info > 0:
        raise NumericalError(f"{routine} did not converge (info = {info}); are the matrix's entries finite?")
    raise RuntimeError(f"{routine} refused argument {-info}; this is a fault in jamma")


def workspace(size: int, dtype: Any = np.float64) -> NDArray[Any]:
    """An uninitialised array; InsufficientMemoryError where it cannot be had."""
    try:
        return np.empty(size, dtype)
    except MemoryError as error:
        raise InsufficientMemoryError(f"LAPACK's workspace: {error}") from error


def check_square_finite(a: NDArray[Any]) -> None:
    """Raise ValueError unless a is a square matrix of finite numbers."""
    if a.ndim != 2 or a.shape[0] != a.shape[1]:
        raise ValueError(f"a square matrix is needed, not {a.shape}")
    if not all(np.isfinite(a[first : first + 1024]).all() for first in range(0, a.shape[0], 1024)):
        raise ValueError("the matrix has entries that are not finite")


def writable(a: NDArray[Any], overwrite: bool) -> NDArray[np.float64]:
    """A itself if it may and can be overwritten (float64, contiguous, writable), else a copy in its memory order."""
    contiguous = a.flags.c_contiguous or a.flags.f_contiguous
    if overwrite and a.dtype == np.float64 and a.flags.writeable and contiguous:
        return a
    try:
        return np.array(a, dtype=np.float64, order="A")
    except MemoryError as error:
        raise InsufficientMemoryError(f"a copy of the matrix: {error}") from error
