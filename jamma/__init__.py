"""Mixed-model genome-wide association with GEMMA's flags, files and numbers."""

from jamma._version import __version__

__all__ = ["__version__"]
