"""The manual: it builds without a warning, and its links lead somewhere."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))


def test_manual_builds_without_a_warning(tmp_path):
    for package in ("sphinx", "myst_parser", "numpydoc", "furo"):
        pytest.importorskip(package)
    command = [sys.executable, "-P", "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", DOCS, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "index.html").stat().st_size > 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_page_is_in_the_table_of_contents(page):
    index = (DOCS / "index.md").read_text()
    assert page.stem == "index" or re.search(rf"^{page.stem}$", index, re.MULTILINE)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: page.name)
def test_links_to_files_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)\s#:]+)(?:#[^)]*)?\)", page.read_text())
    assert [t for t in targets if not (page.parent / t).exists()] == []


def script(name: str) -> ModuleType:
    """A script of the manual as a module."""
    sys.path.insert(0, str(DOCS))
    try:
        spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(DOCS))


@pytest.mark.parametrize(
    ("page", "block", "make"),
    [("user_guide.md", "options", "options_table"), ("api.md", "arguments", "arguments_table")],
)
def test_tables_of_options_are_those_of_the_program(page, block, make):
    written = script("blocks").read_block(DOCS / page, block)
    assert written.strip() == getattr(script("make_options"), make)(), "run: python docs/make_options.py"


def test_every_option_is_described():
    """Not only in the table at the end of the guide."""
    from jamma.cli import OPTIONS

    text = (DOCS / "user_guide.md").read_text().split("## All options")[0]
    described = set(re.findall(r"(?<![\w-])-{1,2}[a-z][a-z0-9-]*", text))
    assert sorted({flag for (flag, _), _ in OPTIONS} - described) == []


def test_table_of_sample_limits_is_that_of_the_estimate():
    written = script("blocks").read_block(DOCS / "PERFORMANCE.md", "limits")
    assert written.strip() == script("make_limits").limits_table(), "run: python docs/make_limits.py"


def test_page_on_installation_shows_each_library():
    from jamma._blas import discovery

    shown = script("blocks").read_block(DOCS / "installation.md", "blas")
    keys = set(discovery.KEYS) - {"accelerate"}
    assert {key for key in keys if f"$ JAMMA_BLAS={key} jamma config" in shown} == keys
    assert shown.count("integers:  64 bits") == shown.count("kernels:   ") == shown.count("jamma config") >= len(keys)


def test_tests_named_in_the_manual_exist():
    assert script("make_reliability").unknown_tests() == []


def test_readme_begins_with_the_two_commands_that_ci_runs():
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert [block.count("\n") for block in blocks[:2]] == [1, 1]
    assert "jamma" in blocks[0]
    assert "pytest" in blocks[1]
