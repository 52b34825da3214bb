"""Fixtures shared by the tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with the reference data: JAMMA_TEST_DATA, else ../shared/data beside the source tree."""
    folder = Path(os.environ.get("JAMMA_TEST_DATA") or ROOT.parent / "shared" / "data")
    if not (folder / "mouse_hs1940" / "mouse_hs1940.bed").exists():
        pytest.skip(f"reference data not found in {folder} (set JAMMA_TEST_DATA)")
    return folder
