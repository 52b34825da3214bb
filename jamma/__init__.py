"""Mixed-model genome-wide association with GEMMA's flags, files and numbers."""

from typing import TYPE_CHECKING, Any

from jamma._version import __version__

if TYPE_CHECKING:
    from jamma.jlinalg import show_config
    from jamma.pipeline import gwas
    from jamma.result import GWASResult

__all__ = ["GWASResult", "__version__", "gwas", "show_config"]

# Imported when first asked for, so that `import jamma` stays cheap.
_LAZY = {"GWASResult": "jamma.result", "gwas": "jamma.pipeline", "show_config": "jamma.jlinalg"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
