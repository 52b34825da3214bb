"""The command line: GEMMA's flags to a validated request; no computation here."""

import sys

from jamma._version import __version__


def main() -> None:
    """Run the command line."""
    print(f"jamma {__version__}")
    sys.exit(0)
