"""A local record of how long runs took: one JSON line a run in ``~/.jamma/benchmarks.jsonl``. Nothing is ever sent.

The record holds sizes, times and the machine's make; never genotypes, phenotypes, names or paths. jamma only appends
to the file and never reads it.
"""

from __future__ import annotations

import json
import logging
import math
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from jamma.core.errors import UsageError

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class BenchmarkRecord:
    """What one ``-lmm`` run appends; times in wall seconds, sizes in units of 2**30 bytes.

    Attributes
    ----------
    timestamp : str
        End of the run, ISO 8601, UTC.
    jamma_version, numpy_version, platform, cpu_model : str
        Of the program and the machine (`platform` is operating system and architecture).
    n_samples, n_snps, n_cvt, n_phenotypes, lmm_mode, loco : int or bool
        What was analysed: samples, variants tested, covariate columns, phenotypes, the test, leave-one-out or not.
    backend : str
        Where the genotypes were: ``numpy`` (memory) or ``numpy-streaming`` (file).
    load_s, kinship_s, eigendecomp_s, rotation_s, lmm_s, total_s : float
        Time of each phase, and of the whole run.
    n_chunks : int
        Chunks of variants that were read.
    blas_backend, blas_threads : str, int
        Name of the BLAS and its threads.
    peak_memory_gb, total_ram_gb : float
        Largest resident size of the process; the machine's memory.
    """

    timestamp: str
    jamma_version: str
    n_samples: int
    n_snps: int
    backend: str
    n_cvt: int | None = None
    n_phenotypes: int | None = None
    lmm_mode: int | None = None
    loco: bool | None = None
    load_s: float | None = None
    kinship_s: float | None = None
    eigendecomp_s: float | None = None
    rotation_s: float | None = None
    lmm_s: float | None = None
    total_s: float | None = None
    n_chunks: int | None = None
    peak_memory_gb: float | None = None
    cpu_model: str | None = None
    blas_backend: str | None = None
    blas_threads: int | None = None
    total_ram_gb: float | None = None
    numpy_version: str | None = None
    platform: str | None = None

    def as_line(self) -> str:
        """The record as one line of JSON; a number that is not finite becomes null."""
        values = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in asdict(self).items()}
        return json.dumps(values, allow_nan=False) + "\n"


def is_enabled(no_telemetry: bool = False, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a run may leave a record.

    ``--no-telemetry`` (`no_telemetry`) and any non-empty ``JAMMA_NO_TELEMETRY`` say no; so does ``DO_NOT_TRACK=1``.
    ``DO_NOT_TRACK=0`` says yes as far as that convention goes; it does not undo the other two.

    Raises
    ------
    UsageError
        If ``DO_NOT_TRACK`` is neither empty nor 0 nor 1: guessing either way could be against the user's will.
    """
    do_not_track = environ.get("DO_NOT_TRACK", "").strip()
    if do_not_track not in ("", "0", "1"):
        raise UsageError(f"DO_NOT_TRACK={do_not_track}: expected 1 (no telemetry) or 0 (telemetry is fine)")
    return not (no_telemetry or environ.get("JAMMA_NO_TELEMETRY") or do_not_track == "1")


def default_path() -> Path:
    """``~/.jamma/benchmarks.jsonl``."""
    return Path.home() / ".jamma" / "benchmarks.jsonl"


def append(record: BenchmarkRecord, path: Path | None = None) -> bool:
    """Append `record` as a line of its own; a home that cannot be written to is no error.

    The line goes out in one write to a file opened for appending, so that runs that end at the same moment do not
    mix their lines.

    Returns
    -------
    bool
        Whether the line was written.
    """
    line = record.as_line().encode()
    try:
        path = path or default_path()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            return os.write(descriptor, line) == len(line)
        finally:
            os.close(descriptor)
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home folder
        logger.debug("telemetry not written: %s", error)
        return False


def utc_now() -> str:
    """The time, ISO 8601, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def cpu_model() -> str:
    """The CPU's marketing name where the system tells it, else its architecture."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def machine_fields() -> dict[str, str | float]:
    """The fields of `BenchmarkRecord` that describe the machine and the libraries."""
    import numpy as np
    import psutil

    return {
        "cpu_model": cpu_model(),
        "total_ram_gb": round(psutil.virtual_memory().total / 2**30, 3),
        "numpy_version": np.__version__,
        "platform": f"{platform.system()}-{platform.machine()}",
    }
