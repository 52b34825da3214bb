"""The BLAS libraries that the tests run over: every known kind, and files named in JAMMA_TEST_BLAS.

Each is a pytest parameter; one that is not on this machine is skipped with the reason.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from jamma._blas import config, discovery
from jamma.core.errors import UsageError


def choices() -> list[str]:
    """Values of JAMMA_BLAS to test."""
    keys = [key for key in discovery.KEYS if key != "accelerate" or sys.platform == "darwin"]
    return [*keys, *filter(None, os.environ.get("JAMMA_TEST_BLAS", "").split(os.pathsep))]


@contextmanager
def selected(value: str | None) -> Iterator[discovery.Choice]:
    """Use a library within the block; skip the test where it is absent; go back to the default afterwards."""
    try:
        yield config.select(value)
    except UsageError as error:
        if "no such library" not in str(error):
            raise
        pytest.skip(str(error).splitlines()[0])
    finally:
        config.select()


def sources_without_files() -> tuple[discovery.Source, ...]:
    """The sources as on a machine that has none of their files."""
    return tuple(dataclasses.replace(source, files=lambda: iter(())) for source in discovery.SOURCES)
