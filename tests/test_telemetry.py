"""Telemetry: what is recorded, where, how it is switched off, and that it never gets in the way."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import fields
from datetime import datetime
from pathlib import Path

import pytest

from jamma.core import telemetry
from jamma.core.errors import UsageError
from jamma.core.telemetry import BenchmarkRecord


def record(**changes) -> BenchmarkRecord:
    return BenchmarkRecord(
        **{"timestamp": telemetry.utc_now(), "jamma_version": "1.0", "n_samples": 10, "n_snps": 20, "backend": "numpy"}
        | changes
    )


def test_record_has_the_promised_fields():
    promised = """timestamp jamma_version n_samples n_snps backend n_cvt lmm_mode loco kinship_s lmm_s total_s
    rotation_s n_chunks eigendecomp_s peak_memory_gb cpu_model blas_backend blas_threads total_ram_gb numpy_version
    platform"""
    assert set(promised.split()) <= {f.name for f in fields(BenchmarkRecord)}


def test_record_is_frozen():
    with pytest.raises(AttributeError):
        record().n_samples = 3


def test_append_adds_lines_that_parse_alone(tmp_path):
    path = tmp_path / "new" / "benchmarks.jsonl"
    assert telemetry.append(record(), path)
    assert telemetry.append(record(total_s=1.5, loco=True, cpu_model="A\nB"), path)
    first, second = (json.loads(line) for line in path.read_text().splitlines())
    assert first["total_s"] is None
    assert (second["total_s"], second["loco"], second["cpu_model"]) == (1.5, True, "A\nB")
    assert datetime.fromisoformat(first["timestamp"]).utcoffset().total_seconds() == 0


def test_numbers_that_are_not_finite_become_null():
    assert json.loads(record(total_s=math.nan, lmm_s=math.inf).as_line())["total_s"] is None


def test_default_path_is_in_the_home(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert telemetry.append(record())
    assert (tmp_path / ".jamma" / "benchmarks.jsonl").read_text().count("\n") == 1


def test_home_that_cannot_be_written_is_fine(tmp_path):
    (tmp_path / "file").write_text("")
    assert telemetry.append(record(), tmp_path / "file" / "benchmarks.jsonl") is False
    assert telemetry.append(record(), tmp_path) is False  # the target is a folder


def test_no_home_is_fine(monkeypatch):
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    assert telemetry.append(record()) is False


@pytest.mark.parametrize(
    ("flag", "environ", "expected"),
    [
        (False, {}, True),
        (True, {}, False),
        (False, {"JAMMA_NO_TELEMETRY": "1"}, False),
        (False, {"JAMMA_NO_TELEMETRY": "0"}, False),  # any value that is not empty
        (False, {"JAMMA_NO_TELEMETRY": ""}, True),
        (False, {"DO_NOT_TRACK": "1"}, False),
        (False, {"DO_NOT_TRACK": "0"}, True),
        (False, {"DO_NOT_TRACK": ""}, True),
        (True, {"DO_NOT_TRACK": "0"}, False),
        (False, {"DO_NOT_TRACK": "0", "JAMMA_NO_TELEMETRY": "x"}, False),
    ],
)
def test_opt_out(flag, environ, expected):
    assert telemetry.is_enabled(flag, environ) is expected


def test_unclear_wish_is_an_error():
    with pytest.raises(UsageError, match="DO_NOT_TRACK=maybe: expected 1"):
        telemetry.is_enabled(environ={"DO_NOT_TRACK": "maybe"})


def test_concurrent_appends_are_whole_lines(tmp_path):
    path = tmp_path / "benchmarks.jsonl"
    code = (
        "import sys; from pathlib import Path; from jamma.core.telemetry import *\n"
        "for i in range(200): append(BenchmarkRecord(timestamp='t', jamma_version='1', n_samples=i,"
        " n_snps=int(sys.argv[2]), backend='numpy', cpu_model='x' * 300), Path(sys.argv[1]))"
    )
    runs = [subprocess.Popen([sys.executable, "-P", "-c", code, str(path), str(k)]) for k in range(3)]
    assert [r.wait() for r in runs] == [0, 0, 0]
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted((r["n_snps"], r["n_samples"]) for r in lines) == [(k, i) for k in range(3) for i in range(200)]


def test_machine_fields_are_fields_and_hold_no_path():
    machine = telemetry.machine_fields()
    assert set(machine) <= {f.name for f in fields(BenchmarkRecord)}
    assert machine["total_ram_gb"] > 0
    assert not any(isinstance(v, str) and str(Path.home()) in v for v in machine.values() if str(Path.home()) != "/")
