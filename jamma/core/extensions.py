"""Which kernels run: the compiled extensions or, where these cannot be imported, the NumPy modules of `jamma._plain`.

The NumPy modules take the extensions' names, so no caller need know of the choice, which is made for all of them at
once: their data structures differ. ``JAMMA_NO_EXT=1`` chooses NumPy.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

EXTENSIONS = (
    "jamma._blas.blas",
    *(
        f"jamma._core.{name}"
        for name in (
            "band", "distributions", "format", "genotypes", "kinship", "likelihood", "parse", "reflectors", "rotate",
        )
    ),
)  # fmt: skip


class PlainFinder:
    """Finds an extension's NumPy form under the extension's name.

    A finder and not the package's ``__path__``, which an editable installation's finder does not ask.
    """

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The module of `jamma._plain` that stands in for an extension; None for any other module."""
        if name not in EXTENSIONS:
            return None
        plain = importlib.util.find_spec(f"jamma._plain.{name.rpartition('.')[2]}")
        if plain is None or plain.origin is None:
            raise ModuleNotFoundError(f"{name} has no NumPy form", name=name)
        return importlib.util.spec_from_file_location(name, plain.origin)


def use_compiled() -> bool:
    """Import the extensions; where that fails or is not wanted, warn and put the NumPy modules in their place.

    Returns
    -------
    bool
        Whether the extensions are in use.
    """
    problem = "disabled by JAMMA_NO_EXT" if os.environ.get("JAMMA_NO_EXT") else _import_extensions()
    if problem is None:
        return True
    for name in EXTENSIONS:
        package, _, short = name.rpartition(".")
        if sys.modules.pop(name, None) is not None and hasattr(sys.modules[package], short):
            delattr(sys.modules[package], short)
    sys.meta_path.insert(0, PlainFinder)
    logging.getLogger("jamma").warning("compiled core %s: the slower NumPy implementation runs", problem)
    return False


def _import_extensions() -> str | None:
    """Import all; what went wrong, or None."""
    try:
        for name in EXTENSIONS:
            importlib.import_module(name)
    except ImportError as error:
        return f"not usable ({error})"
    return None
