"""Where BLAS libraries with 64-bit integers may be, and which of them to take.

`SOURCES` is data: each kind of library with the places of its files on each platform. One engine, `choose`, goes
through the kinds in order of preference and takes the first file that `jamma._blas.blas` finds usable.
"""

from __future__ import annotations

import importlib.util
import os
import site
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jamma._blas import blas
from jamma.core.errors import UsageError


@dataclass(frozen=True)
class Source:
    """A kind of library.

    Attributes
    ----------
    key : str
        Its value of ``JAMMA_BLAS``; several sources may share one.
    name : str
        What to call it.
    files : callable
        Gives the paths or sonames to try.
    install : str
        How to get it.
    """

    key: str
    name: str
    files: Callable[[], Iterator[str]]
    install: str


@dataclass(frozen=True)
class Choice:
    """What `choose` took.

    Attributes
    ----------
    name : str
        Name of the source, or the path asked for; empty where none is usable.
    found : dict
        What `jamma._blas.blas.probe` says of it; empty where none is usable.
    reason : str
        Why it was taken, or why none was.
    refused : tuple of str
        The files that were found and not taken, with the reason.
    """

    name: str
    found: dict[str, Any]
    reason: str
    refused: tuple[str, ...]


def _package_folder(package: str) -> Path | None:
    """Folder of an installed package, which is not imported for that."""
    spec = importlib.util.find_spec(package)
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def _matches(folder: Path, *patterns: str) -> Iterator[str]:
    """Files of a folder by pattern, in a fixed order."""
    for pattern in patterns:
        yield from (str(path) for path in sorted(folder.glob(pattern)))


def _numpy_files() -> Iterator[str]:
    """The library that delocating put beside NumPy: numpy.libs (Linux, Windows), numpy/.dylibs (macOS)."""
    folder = _package_folder("numpy")
    if folder is not None:
        yield from _matches(folder.parent / "numpy.libs", "*openblas64_*")
        yield from _matches(folder / ".dylibs", "*openblas64_*")


def _scipy_openblas64_files() -> Iterator[str]:
    """The library in the wheel scipy-openblas64."""
    folder = _package_folder("scipy_openblas64")
    if folder is not None:
        yield from _matches(folder / "lib", "libscipy_openblas64_*.so*", "*openblas64_*.dylib", "*openblas64_*.dll")


def _mkl_files() -> Iterator[str]:
    """libmkl_rt of the wheel or of conda: in the environment's lib folder (Windows: Library/bin), or in a NumPy built
    with it."""
    prefixes = dict.fromkeys([sys.prefix, sys.base_prefix, site.getuserbase()])
    for prefix in prefixes:
        yield from _matches(Path(prefix) / "lib", "libmkl_rt.so*", "libmkl_rt*.dylib")
        yield from _matches(Path(prefix) / "Library" / "bin", "mkl_rt*.dll")
    folder = _package_folder("numpy")
    if folder is not None:
        yield from _matches(folder.parent / "numpy.libs", "*mkl_rt*")


def _accelerate_files() -> Iterator[str]:
    """Accelerate lives in the system's shared cache: its path can be opened, but is no file."""
    on_macos = sys.platform == "darwin"
    yield from ["/System/Library/Frameworks/Accelerate.framework/Accelerate"] if on_macos else []


def _system_files() -> Iterator[str]:
    """Sonames of distributions' 64-bit OpenBLAS: Debian's, then Fedora's, Arch's and conda's."""
    if sys.platform == "darwin":
        yield from ("libopenblas64_.dylib", "libopenblas64.dylib")
    elif sys.platform == "win32":
        yield from ("libopenblas64_.dll", "libopenblas64.dll")
    else:
        yield from ("libopenblas64.so.0", "libopenblas64_.so.0", "libopenblas64_.so")
    yield from _matches(Path(sys.prefix) / "lib", "libopenblas64_.*")


SOURCES = (
    Source("accelerate", "Apple Accelerate", _accelerate_files, "macOS 13.3 or later has it"),
    Source("openblas", "NumPy's OpenBLAS", _numpy_files, "pip install --force-reinstall numpy"),
    Source("openblas", "scipy-openblas64's OpenBLAS", _scipy_openblas64_files, "pip install scipy-openblas64"),
    Source("system", "the system's OpenBLAS", _system_files, "apt-get install libopenblas64-0"),
    Source("mkl", "Intel MKL", _mkl_files, "pip install jamma[mkl]"),
)
KEYS = tuple(dict.fromkeys(source.key for source in SOURCES))


def preferred_sources() -> tuple[tuple[Source, str], ...]:
    """The sources in the order of ``auto``, each with the reason for its place.

    MKL comes last on every CPU, so that ``auto`` takes it only where there is no other. Measured on an Intel Xeon
    (Sapphire Rapids), one thread, CPU seconds, best of 12 and of 3 in turn, MKL 2026.2 against NumPy's OpenBLAS 0.3.31:
    DSYEVD 0.528 against 0.523 (n = 1410) and 5.66 against 5.04 (n = 3000), DSYTRD and Q 0.357 against 0.325, DGEMM
    0.0935 against 0.0950. On AMD Zen 4 its DSYEVD takes 1.6 to 1.8 times as long as OpenBLAS's. ``JAMMA_BLAS=mkl``
    takes it where it is faster all the same.
    """
    order = [(source, "first usable one of the usual order") for source in SOURCES]
    if sys.platform == "darwin":
        order[0] = (order[0][0], "macOS's own library")
    return tuple(order)


def _usable(sources: tuple[tuple[Source, str], ...], refused: list[str]) -> Choice | None:
    """The first file that can be used; the others go to `refused`."""
    for source, reason in sources:
        for file in source.files():
            found = blas.probe(file)
            if found["refusal"] is None:
                return Choice(source.name, found, reason, tuple(refused))
            if os.path.sep not in file and not found["int_bits"]:
                continue  # a soname that this system does not have
            refused.append(f"{found['file']}: {found['refusal']}")
    return None


def choose(value: str | None = None) -> Choice:
    """Choose the library.

    Parameters
    ----------
    value : str, optional
        A key of `SOURCES`, the path of a library, ``auto``, or None for the environment variable ``JAMMA_BLAS``.

    Returns
    -------
    Choice
        With an empty name where ``auto`` finds none.

    Raises
    ------
    UsageError
        A library was named that is not there or cannot be used.
    """
    asked = (os.environ.get("JAMMA_BLAS", "") if value is None else value).strip()
    origin = f"JAMMA_BLAS={asked}"
    refused: list[str] = []
    key = asked.lower()
    if key in ("", "auto"):
        choice = _usable(preferred_sources(), refused)
        return choice or Choice("", {}, "no BLAS with 64-bit integers was found", tuple(refused))
    if key in KEYS:
        sources = tuple((source, origin) for source in SOURCES if source.key == key)
        choice = _usable(sources, refused)
        if choice is None:
            install = "; ".join(source.install for source, _ in sources)
            detail = "".join(f"\n  {line}" for line in refused)
            raise UsageError(f"{origin}: no such library with 64-bit integers was found ({install}){detail}")
        return choice
    if not Path(asked).exists() and os.path.sep not in asked:
        raise UsageError(f"{origin}: expected auto, {', '.join(KEYS)}, or the path of a library")
    found = blas.probe(asked)
    if found["refusal"] is not None:
        raise UsageError(f"{origin}: {found['refusal']}")
    return Choice(asked, found, origin, ())
