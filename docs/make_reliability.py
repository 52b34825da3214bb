"""Make every wrong input of reliability_cases.py, run jamma on it, and write what it says into RELIABILITY.md.

usage: python docs/make_reliability.py
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from blocks import DOCS, table, write_block
from reliability_cases import CASES, Case

ROOT = DOCS.parent
PAGE = DOCS / "RELIABILITY.md"
MOST_LINES = 5


def prepare(folder: Path) -> None:
    """The files that every case begins with."""
    data = ROOT / "tests" / "data"
    for suffix in (".bed", ".bim", ".fam"):
        shutil.copy(data / f"cohort{suffix}", folder / f"study{suffix}")
    shutil.copy(data / "covariates.txt", folder / "cov.txt")
    shutil.copy(data / "weights.txt", folder / "weights.txt")
    code, text = run("true", "-gk 1 -bfile study -o k -outdir .", folder)
    if code:
        raise SystemExit(text)


def run(prepare_with: str, options: str, folder: Path) -> tuple[int, str]:
    """Exit code and messages of one command."""
    env = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                        "PYTHONSAFEPATH": "1", "JAMMA_NO_TELEMETRY": "1", "COLUMNS": "400"}  # fmt: skip
    n = sum(line.split()[5] not in ("NA", "-9") for line in (folder / "study.fam").read_text().splitlines())
    # Only a run that waits for the pipe is still there after 5 seconds.
    stop = f"exec timeout --foreground --preserve-status -s INT 5 {sys.executable} -P"
    command = f"{prepare_with.replace('{n}', str(n))}\n{stop} -m jamma {options}"
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr.replace(f"{folder}/", "")


def cell(text: str) -> str:
    """Messages as one cell of a table."""
    lines = [line for line in text.splitlines() if line.strip() and not re.match(r"Usage:|Try ", line)]
    shown = [line if len(line) < 400 else line[:400] + " …" for line in lines[:MOST_LINES]]
    more = [f"(and {len(lines) - MOST_LINES} more lines)"] if len(lines) > MOST_LINES else []
    return "<br>".join([*(f"`{line.replace('`', chr(39))}`" for line in shown), *more])


def row(case: Case, sound: Path) -> list[str]:
    """One case, beginning with the files of the folder `sound`: what, message, exit code, test."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(sound, folder, dirs_exist_ok=True)
        code, text = run(case.prepare, case.options, folder)
        final = [p.name for p in (folder / "output").glob("*")] if (folder / "output").is_dir() else []
    print(case.what, code, text, sep="\n", end="\n\n")
    if code not in (0, 1, 2, 3, 130) or "Traceback" in text or not text.strip() or (code and final):
        print(f"UNEXPECTED: exit code {code}, files {final}", file=sys.stderr)
    return [case.what, cell(text), str(code), f"`{case.test}`"]


def unknown_tests() -> list[str]:
    """Tests named in the cases that do not exist."""
    missing = []
    for case in (case for cases in CASES.values() for case in cases):
        file, function = case.test.split("::")
        path = ROOT / "tests" / file
        if not path.exists() or not re.search(rf"^def {function}\(", path.read_text(), re.MULTILINE):
            missing.append(case.test)
    return missing


def main() -> None:
    """Run all cases and rewrite the page's tables."""
    header, text = ["What is wrong", "What jamma says", "Exit", "Test"], ""
    with tempfile.TemporaryDirectory() as name:
        sound = Path(name)
        prepare(sound)
        for kind, cases in CASES.items():
            text += f"### {kind}\n\n" + table(header, [row(case, sound) for case in cases]) + "\n\n"
    write_block(PAGE, "cases", text)
    if missing := unknown_tests():
        raise SystemExit("no such test: " + ", ".join(missing))


if __name__ == "__main__":
    main()
