"""Write what `jamma config` says with each BLAS of this machine into the page on installation.

usage: python docs/make_blas.py

The libraries are those that ``JAMMA_BLAS`` names, and files in ``JAMMA_TEST_BLAS``; one that is absent is told and left
out. Run it where all of them are: ``pip install mkl scipy-openblas64``, ``apt-get install libopenblas64-0``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

from blocks import DOCS, write_block

from jamma._blas import discovery


def config_of(value: str) -> str | None:
    """The lines of `jamma config` with a library, without what belongs to this machine; None where it is absent."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "jamma", "config"], env=os.environ | {"JAMMA_BLAS": value},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        print(done.stderr.strip().splitlines()[0])
        return None
    text = re.sub(r"\S*(/lib/python3\.\d+/site-packages/)", r".venv\1", done.stdout)
    return text.replace(sys.prefix, ".venv")


def main() -> None:
    """One block of lines a library."""
    values = [key for key in discovery.KEYS if key != "accelerate" or sys.platform == "darwin"]
    values += filter(None, os.environ.get("JAMMA_TEST_BLAS", "").split(os.pathsep))
    text = ""
    for value in values:
        if (said := config_of(value)) is not None:
            shown = re.sub(r"\S*(/lib/python3\.\d+/site-packages/)", r".venv\1", value)
            text += f"$ JAMMA_BLAS={shown} jamma config\n{said}"
    write_block(DOCS / "installation.md", "blas", f"```console\n{text}```")


if __name__ == "__main__":
    main()
