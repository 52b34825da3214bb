"""Run the commands of the manual and put what they print below them.

usage: python docs/run_examples.py [PAGE.md ...]     (default: every page and the README)

A block of commands is run if ``<!-- run -->`` stands on the line before it. All blocks of a page share one temporary
folder, which holds a copy of ``examples/``, so a command may use what an earlier one wrote. Standard output and error
are shown together. ``$ echo $?`` shows the exit code of the command before.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from blocks import DOCS

ROOT = DOCS.parent
RUNNABLE = re.compile(r"(<!-- run -->\n```console\n)(.*?)(```\n)", re.DOTALL)


class Session:
    """The folder in which the commands of a page run, and the exit code of the last one."""

    def __init__(self, folder: Path):
        self.folder, self.code = folder, 0
        shutil.copytree(ROOT / "examples", folder / "examples")
        bin_folder = Path(sys.executable).parent
        self.env = os.environ | {
            "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(folder), "COLUMNS": "110", "PYTHONSAFEPATH": "1",
        }  # fmt: skip
        for name in ("JAMMA_NO_TELEMETRY", "DO_NOT_TRACK", "JAMMA_BACKEND", "OMP_NUM_THREADS"):
            self.env.pop(name, None)

    def run(self, command: str) -> str:
        """Output of one command, without what belongs to this machine."""
        done = subprocess.run(
            ["bash", "-c", f"(exit {self.code}); {command}"], cwd=self.folder, env=self.env, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600, check=False,
        )  # fmt: skip
        self.code = done.returncode
        text = done.stdout.replace(str(self.folder) + "/", "")
        text = re.sub(r"\S*(/lib/python3\.\d+/site-packages/)", r".venv\1", text)
        return "".join(line.rstrip() + "\n" for line in text.splitlines())


def commands_of(block: str) -> list[str]:
    """The commands of a block, continuation lines included."""
    commands: list[str] = []
    continued = False
    for line in block.splitlines():
        if line.startswith("$ "):
            commands.append(line[2:])
        elif continued:
            commands[-1] += "\n" + line
        continued = bool(commands) and commands[-1].endswith("\\") and (line.startswith("$ ") or continued)
    return commands


def run_page(page: Path) -> None:
    """Run the blocks of one page and rewrite them."""
    with tempfile.TemporaryDirectory() as folder:
        session = Session(Path(folder))

        def with_output(match: re.Match[str]) -> str:
            text = ""
            for command in commands_of(match[2]):
                text += f"$ {command}\n{session.run(command)}"
                print(f"{page.name}: {command.splitlines()[0]} -> {session.code}")
            return match[1] + text + match[3]

        page.write_text(RUNNABLE.sub(with_output, page.read_text()))


if __name__ == "__main__":
    for name in sys.argv[1:] or [*sorted(DOCS.glob("*.md")), ROOT / "README.md"]:
        run_page(Path(name))
