"""jamma as a guest in someone's program: silent, in threads, after fork, in a notebook, cheap to import."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from gemma import DATA

from jamma import gwas

COHORT = str(DATA / "cohort")


def run_python(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run some code in a fresh interpreter."""
    command = [sys.executable, "-P", "-W", "ignore::DeprecationWarning", "-c", code, *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env=os.environ | environment
    )
    assert done.returncode == 0, done.stderr
    return done


def test_nothing_is_printed_unless_asked_for(tmp_path):
    code = "import sys, jamma; jamma.gwas(sys.argv[1], output_dir=sys.argv[2], telemetry=False)"
    done = run_python(code, COHORT, str(tmp_path))
    assert (done.stdout, done.stderr) == ("", "")


def test_runs_in_threads_at_once(tmp_path):
    """The bytes of runs one after the other."""

    def one(name: str, mode: int) -> bytes:
        result = gwas(COHORT, lmm_mode=mode, output_dir=tmp_path, output_prefix=name, telemetry=False)
        return result.assoc_path.read_bytes()

    alone = [one(f"alone{mode}", mode) for mode in (1, 4)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(one, ["a", "b", "c", "d"], [1, 4, 1, 4]))
    assert together == alone * 2


FORKED = """
import os, sys
import jamma
from pathlib import Path
def one(name):
    return jamma.gwas(sys.argv[1], output_dir=sys.argv[2], output_prefix=name, telemetry=False).assoc_path.read_bytes()
before = one("parent")
pid = os.fork()
if pid == 0:
    os._exit(0 if one("child") == before else 1)
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
assert one("after") == before
sys.exit(status)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_run_in_a_forked_child(tmp_path):
    """Its parent has used all threads before, and does again."""
    run_python(FORKED, COHORT, str(tmp_path))


IMPORTS = """
import sys
import {module}
print(*sorted(m for m in ("numpy", "scipy", "click", "psutil", "bed_reader", "tqdm", "pandas", "matplotlib")
              if m in sys.modules))
"""


@pytest.mark.parametrize(
    ("module", "needed"), [("jamma", ""), ("jamma.config", ""), ("jamma.cli", "click"), ("jamma.result", "")]
)
def test_imports_only_what_is_needed(module, needed):
    assert run_python(IMPORTS.format(module=module)).stdout.strip() == needed


NOTEBOOK = """
from jamma import gwas
from jamma.core import progress
progress.DELAY_S = 0.0
result = gwas({cohort!r}, output_dir={folder!r}, telemetry=False, show_progress=True)
print(progress.in_notebook(), result.n_samples)
"""


@pytest.mark.filterwarnings("ignore")  # those of the notebook's own packages
def test_progress_in_a_notebook(tmp_path):
    """A real kernel; the bars come as its outputs, and nothing goes wrong in its event loop."""
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    code = NOTEBOOK.format(cohort=COHORT, folder=str(tmp_path))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    nbclient.NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    outputs = notebook.cells[0].outputs
    printed = "".join(o.get("text", "") for o in outputs)
    shown = printed + "".join(str(o.get("data", "")) for o in outputs)
    assert printed.splitlines()[-1].startswith("True ") or "\nTrue " in printed
    assert "association" in shown
