"""The command line: parsing, exit codes, messages, what is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from gemma import DATA, options

from jamma.cli import OPTIONS, join_number_lists
from jamma.config import RunRequest

BFILE = ["-bfile", str(DATA / "cohort")]


def jamma(*arguments: str, **settings) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    command = [sys.executable, "-P", "-W", "error", "-m", "jamma", *arguments]
    environment = {**os.environ, "JAMMA_NO_TELEMETRY": "1", **settings.pop("env", {})}
    return subprocess.run(command, capture_output=True, text=True, env=environment, **settings)


def test_every_option_is_a_field_of_the_request():
    fields = set(RunRequest.__dataclass_fields__)
    assert {names[1] for names, _ in OPTIONS} | {"command", "show_progress"} == fields


@pytest.mark.parametrize(
    ("given", "joined"),
    [
        (["-cat", "2", "3", "-lmm"], ["-cat", "2,3", "-lmm"]),
        (["-cat", "2 3"], ["-cat", "2 3"]),
        (["-n", "1,2"], ["-n", "1,2"]),
        (["-n", "1 2 3", "-o", "x"], ["-n", "1 2 3", "-o", "x"]),
        (["-lmm", "4", "-n", "2"], ["-lmm", "4", "-n", "2"]),
    ],
)
def test_number_lists(given, joined):
    assert join_number_lists(given) == joined


def test_version_is_one_line():
    done = jamma("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("jamma ")
    assert done.stdout.count("\n") == 1


def test_help_names_every_option():
    text = jamma("--help").stdout
    for names, _ in OPTIONS:
        assert names[0] in text


def test_no_arguments_show_the_help():
    done = jamma()
    assert done.returncode == 0
    assert "Usage" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-lmm"], ["-bfile"]),
        ([*BFILE], ["nothing to do"]),
        ([*BFILE, "-lmm", "7"], ["-lmm 7"]),
        ([*BFILE, "-lmm", "-n", "1", "2"], ["multivariate", '-n "1 2"', "-n 1,2"]),
        ([*BFILE, "-lmm", "-maff", "0.1"], ["-maff", "-maf"]),
        ([*BFILE, "-lmm", "-maf", "x"], ["-maf", "'x'"]),
        ([*BFILE, "-lmm", "-maf", "0.7"], ["-maf 0.7"]),
        ([*BFILE, "-lmm", "-lmin", "2", "-lmax", "1"], ["lmin < lmax"]),
        ([*BFILE, "-lmm", "-loco", "-k", "x"], ["-loco with -k"]),
    ],
)
def test_usage_errors(arguments, words, tmp_path):
    done = jamma(*arguments, "-outdir", str(tmp_path / "out"))
    assert done.returncode == 2, done.stderr
    for word in words:
        assert word in done.stderr
    assert not (tmp_path / "out").exists()
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-bfile", "nowhere/cohort", "-lmm"], ["nowhere/cohort", "bed"]),
        ([*BFILE, "-lmm", "-k", "nothing.npy"], ["nothing.npy"]),
        ([*BFILE, "-lmm", "-n", "9"], ["phenotype column 9"]),
        ([*BFILE, "-lmm", "-c", str(DATA / "snps.txt")], ["snps.txt"]),
        ([*BFILE, "-lmm", "-maf", "0.5", "-hwe", "1"], ["no variant is left", "allele frequency"]),
    ],
)
def test_input_errors(arguments, words, tmp_path):
    done = jamma(*arguments, "-outdir", str(tmp_path / "out"))
    assert done.returncode == 1, done.stderr
    for word in words:
        assert word in done.stderr
    assert not list(tmp_path.rglob("*.assoc.txt")) + list(tmp_path.rglob("*.part"))
    assert "Traceback" not in done.stderr


def test_memory_error(tmp_path):
    done = jamma(*BFILE, "-lmm", "--mem-budget", "0.01", "-outdir", str(tmp_path / "out"))
    assert done.returncode == 3
    for word in ("requires", "available", "Breakdown", "Largest number of samples"):
        assert word in done.stderr
    assert not (tmp_path / "out").exists()
    again = jamma(*BFILE, "-lmm", "--mem-budget", "0.01", "--no-check-memory", "-outdir", str(tmp_path / "out"))
    assert again.returncode == 0, again.stderr


def test_unwritable_folder(tmp_path):
    (tmp_path / "file").write_text("")
    done = jamma(*BFILE, "-gk", "-outdir", str(tmp_path / "file" / "out"))
    assert done.returncode == 1
    assert "file" in done.stderr
    assert "Traceback" not in done.stderr


def test_last_lines_account_for_everything(tmp_path):
    done = jamma(*options("lmm4"), "-o", "x", "-outdir", str(tmp_path))
    assert done.returncode == 0
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0].startswith("samples:  120 in, 115 analysed (5 phenotype missing)")
    assert lines[1].startswith("variants: 600 in, ")
    assert f"wrote {tmp_path / 'x.assoc.txt'}" in lines
    record = json.loads((tmp_path / "x.log.json").read_text())
    assert record["command"].startswith("jamma -bfile")


def test_defaults_are_gemmas(tmp_path):
    done = jamma("-bfile", str(DATA / "cohort"), "-lmm", "-k", str(DATA / "gk1.cXX.txt.gz"), cwd=tmp_path)
    assert done.returncode == 0
    header = (tmp_path / "output" / "result.assoc.txt").read_text().split("\n", 1)[0].split("\t")
    assert header[-5:] == ["beta", "se", "logl_H1", "l_remle", "p_wald"]


def test_dropped_variants_are_listed(tmp_path):
    dropped = tmp_path / "dropped.txt"
    done = jamma(*options("lmm4_snps"), "-o", "x", "-outdir", str(tmp_path), "--dropped", str(dropped))
    assert done.returncode == 0
    tested = (tmp_path / "x.assoc.txt").read_text().count("\n") - 1
    rows = [line.split("\t") for line in dropped.read_text().splitlines()]
    assert len(rows) - 1 + tested == 600
    assert {r[-1] for r in rows[1:]} >= {"not in -snps", "allele frequency"}


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupt_leaves_nothing(tmp_path, number, code):
    """A signal while results are being written: exit code, and no file with a final or temporary name."""
    example = Path(__file__).resolve().parents[1] / "examples" / "cohort"
    command = [sys.executable, "-P", "-m", "jamma", "-bfile", str(example), "-lmm", "-outdir", str(tmp_path)]
    with subprocess.Popen(
        [*command, "--chunk-size", "1", "--no-telemetry"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background shell job ignores it
    ) as process:  # fmt: skip
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob("*.part")) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(number)
        process.wait(60)
    assert process.returncode == code
    assert list(tmp_path.iterdir()) == []
