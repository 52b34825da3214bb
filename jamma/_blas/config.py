"""The BLAS in use: chosen once, at the first call that needs one."""

from __future__ import annotations

import re
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np

from jamma._blas import blas, discovery
from jamma.core import threads

# An n x n matrix has more than 2**31 - 1 elements from n = 46,341 on: LP64 routines index it with 32 bits.
MAX_LP64_ROWS = 46_340

_lock = threading.Lock()
_choice: discovery.Choice | None = None


@dataclass(frozen=True)
class BlasConfig:
    """The BLAS in use.

    Attributes
    ----------
    name, version : str
        The library and its version.
    file : str
        Path of its file.
    int_bits : int
        Width of its integers, by a probe call: 64; 32 where NumPy's own routines stand in.
    n_threads : int
        Threads that a call uses unless told otherwise; 0 where the library alone decides.
    reason : str
        Why this one was chosen.
    symbols : str
        Names of its routines, with ``*`` for the routine.
    build : str
        What the library says of itself.
    refused : tuple of str
        Libraries that were found and cannot be used, with the reason.
    """

    name: str
    version: str
    file: str
    int_bits: int
    n_threads: int
    reason: str
    symbols: str
    build: str
    refused: tuple[str, ...]


def select(value: str | None = None) -> discovery.Choice:
    """Choose a library anew (None: as JAMMA_BLAS says) and use it."""
    global _choice
    with _lock:
        choice = discovery.choose(value)
        if choice.found:
            blas.select(choice.found["file"])
        else:
            blas.unload()
        threads.register_blas(choice.found.get("file"))
        _choice = choice
        return choice


def chosen() -> discovery.Choice:
    """The library in use; chosen at the first call."""
    return _choice or select()


def ilp64() -> bool:
    """Whether a library with 64-bit integers is in use."""
    return bool(chosen().found)


def config() -> BlasConfig:
    """Say which BLAS is used, and choose it if that has not happened yet.

    Returns
    -------
    BlasConfig
        The library, where it is, and why it was taken.

    Raises
    ------
    UsageError
        ``JAMMA_BLAS`` names a library that cannot be used.
    """
    choice = chosen()
    with threads.blas_threads() as n_threads:
        pass
    if not choice.found:
        reason = f"{choice.reason}: NumPy's own routines stand in, up to {MAX_LP64_ROWS:,} rows"
        return BlasConfig("NumPy's own", np.__version__, "", 32, n_threads, reason, "", "", choice.refused)
    found = choice.found
    build = found["version"]
    name = next(
        (name for key, name in (("OpenBLAS", "OpenBLAS"), ("Math Kernel", "Intel MKL")) if key in build),
        "Apple Accelerate" if "Accelerate" in found["file"] else Path(found["file"]).name,
    )
    number = re.search(r"\d+(\.\d+)+", build)
    return BlasConfig(
        name,
        number.group() if number else "",
        found["file"],
        found["int_bits"],
        n_threads if threads.blas_is_controllable() else 0,
        f"{choice.name}: {choice.reason}" if choice.name != found["file"] else choice.reason,
        found["symbols"],
        build,
        choice.refused,
    )


def show_config(file: TextIO | None = None) -> None:
    """Print the BLAS in use (library, version, file, width, threads, why it was chosen) and the kernels' CPU level.

    Parameters
    ----------
    file : text stream, optional
        Where to; the standard output if not given.
    """
    from jamma import __version__
    from jamma._core.levels import describe_levels

    blas_config = config()
    lines = [
        f"jamma {__version__}, NumPy {np.__version__}, Python {sys.version.split()[0]}",
        f"BLAS:      {blas_config.name} {blas_config.version}",
        f"file:      {blas_config.file or '(inside NumPy)'}",
        f"integers:  {blas_config.int_bits} bits",
        f"threads:   {blas_config.n_threads or 'the library decides'}",
        f"chosen:    {blas_config.reason}",
    ]
    if blas_config.build:
        lines.append(f"build:     {blas_config.build}")
    lines.extend(f"refused:   {refused}" for refused in blas_config.refused)
    lines.append(f"kernels:   {describe_levels()}")
    print("\n".join(lines), file=file or sys.stdout)
