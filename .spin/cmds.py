"""Every task of the project as one command: ``spin build``, ``test``, ``lint``, ``docs``, ``bench``.

``spin --help`` lists them. Arguments after ``--`` go to the tool behind the command.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[1]


def run(*command: str, cwd: Path = ROOT) -> None:
    """Show and run a command; end with its exit code if it fails."""
    click.secho("$ " + " ".join(command), bold=True)
    code = subprocess.call(command, cwd=cwd)
    if code:
        raise SystemExit(code)


def python(*arguments: str) -> None:
    """Run this Python; -P keeps the source folder from hiding the installed package."""
    run(sys.executable, "-P", *arguments)


@click.command()
@click.option("--sanitize", is_flag=True, help="With AddressSanitizer and UndefinedBehaviorSanitizer.")
@click.argument("pip_args", nargs=-1)
def build(sanitize: bool, pip_args: tuple[str, ...]) -> None:
    """Install in editable mode; the C and Cython sources are rebuilt at import whenever they have changed."""
    arguments = ["-m", "pip", "install", "--no-build-isolation", "--editable", "."]
    if sanitize:
        arguments.append("--config-settings=setup-args=-Db_sanitize=address,undefined")
    python(*arguments, *pip_args)


@click.command()
@click.option("--slow", is_flag=True, help="Also the tests that take minutes.")
@click.option("--large", is_flag=True, help="Only the tests that need a machine with 24 GiB of memory.")
@click.argument("pytest_args", nargs=-1)
def test(slow: bool, large: bool, pytest_args: tuple[str, ...]) -> None:
    """Run the tests."""
    marker = ["-m", "large"] if large else ["-m", "not large"] if slow else []
    timeout = ["--timeout", "7200"] if slow or large else []
    python("-m", "pytest", *marker, *timeout, *pytest_args)


@click.command()
@click.option("--fix", is_flag=True, help="Correct what can be corrected.")
def lint(fix: bool) -> None:
    """Check style and types: ruff, cython-lint, mypy."""
    python("-m", "ruff", "check", *(["--fix"] if fix else []), ".")
    python("-m", "ruff", "format", *([] if fix else ["--check"]), ".")
    run("cython-lint", "jamma")
    python("-m", "mypy")


@click.command()
@click.argument("sphinx_args", nargs=-1)
def docs(sphinx_args: tuple[str, ...]) -> None:
    """Build the documents into docs/_build/html; a warning is an error."""
    python("-m", "sphinx", "-W", "--keep-going", "-b", "html", "docs", "docs/_build/html", *sphinx_args)


@click.command()
@click.option("--roofline", is_flag=True, help="Only the kernels against the BLAS, a line each.")
@click.option("--quick", is_flag=True, help="Each benchmark once, on the installed package.")
@click.argument("asv_args", nargs=-1)
def bench(roofline: bool, quick: bool, asv_args: tuple[str, ...]) -> None:
    """Run the benchmarks of asv_bench (default: all, in the present environment)."""
    if roofline:
        python("asv_bench/roofline.py", *asv_args)
        return
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    asv = [sys.executable, "-P", "-m", "asv"]
    here = ["--python=same", "--launch-method=spawn"]
    run(*asv, "check", *here[:1], cwd=ROOT / "asv_bench")
    run(*asv, "run", *here, *(["--quick", "--show-stderr"] if quick else []), *asv_args, cwd=ROOT / "asv_bench")
