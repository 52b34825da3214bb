"""The log of a run: GEMMA's summary lines for people, the same record as JSON for programs."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from jamma.io.atomic import write_all
from jamma.lmm.schema import NullModel

MAX_FAILED_LISTED = 10_000


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """What one run did; everything that its log says.

    Attributes
    ----------
    command : str
        The command line, or the call.
    version : str
        Of jamma.
    date : str
        Start of the run, ISO 8601 with offset.
    n_total, n_analyzed : int
        Individuals in the .fam and in the analysis.
    n_cvt : int
        Covariates, intercept included.
    n_phenotypes : int
        Phenotypes tested.
    n_variants_total, n_variants_analyzed : int
        Variants in the .bim and after the filters.
    null_models : dict of str to NullModel
        By phenotype (or chromosome, with LOCO); one entry in an ordinary run, none for a kinship.
    excluded, filtered : dict of str to int
        Individuals and variants that left, by reason.
    kinship_variants : int or None
        Variants that entered the kinship, where it was computed.
    failed : dict of str to int
        Variants whose statistics are nan, by reason.
    failed_rows : sequence of (str, str)
        Names of those variants and their reasons; the first 10,000.
    versions : dict of str to str
        Of Python and libraries.
    blas : str
        Which library, file, integer width and why.
    kernels : str
        CPU level of the compiled kernels.
    threads : dict of str to int
        By kind.
    timings : dict of str to float
        Wall seconds by phase.
    total_s : float
        Wall seconds of the run.
    peak_memory_gb : float or None
        Largest resident memory of the process.
    predicted_memory_gb : float or None
        What the plan had predicted.
    settings : dict
        Options that decide the result, by name.
    notes, warnings : sequence of str
        What the user should know.
    outputs : sequence of str
        Files written.
    """

    command: str
    version: str
    date: str
    n_total: int
    n_analyzed: int
    n_cvt: int = 1
    n_phenotypes: int = 1
    n_variants_total: int
    n_variants_analyzed: int
    null_models: dict[str, NullModel] = field(default_factory=dict)
    excluded: dict[str, int] = field(default_factory=dict)
    filtered: dict[str, int] = field(default_factory=dict)
    kinship_variants: int | None = None
    failed: dict[str, int] = field(default_factory=dict)
    failed_rows: tuple[tuple[str, str], ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
    blas: str = ""
    kernels: str = ""
    threads: dict[str, int] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)
    total_s: float = 0.0
    peak_memory_gb: float | None = None
    predicted_memory_gb: float | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


def _number(x: float | None) -> str:
    """Six significant digits, as a C++ stream prints by default; nan where there is none."""
    return "nan" if x is None or math.isnan(x) else f"{x:.6g}"


def _row(values: np.ndarray) -> str:
    """Numbers on one line, each after two spaces, as GEMMA has them."""
    return "".join(f"  {_number(float(v))}" for v in values)


def _null_model_lines(null: NullModel) -> Iterator[str]:
    """GEMMA's lines about the model without a variant."""
    yield f"REMLE log-likelihood in the null model = {_number(null.logl_remle)}"
    yield f"MLE log-likelihood in the null model = {_number(null.logl_mle)}"
    yield f"pve estimate in the null model = {_number(null.pve)}"
    yield f"se(pve) in the null model = {_number(null.pve_se)}"
    yield f"vg estimate in the null model = {_number(null.vg)}"
    yield f"ve estimate in the null model = {_number(null.ve)}"
    yield f"beta estimate in the null model = {_row(null.beta)}"
    yield f"se(beta) = {_row(null.se_beta)}"


def _table(title: str, items: dict[str, Any], unit: str = "") -> Iterator[str]:
    """A block of ``name = value`` lines under a title; nothing where there are no items."""
    if items:
        yield ""
        yield f"{title}:"
        for name, value in items.items():
            text = f"{value:.3f}" if isinstance(value, float) and unit else f"{value}"
            yield f"{name} = {text}{unit}"


def _summary(record: RunRecord) -> Iterator[str]:
    """GEMMA's block of counts and the null models."""
    yield "Summary Statistics:"
    yield f"number of total individuals = {record.n_total}"
    yield f"number of analyzed individuals = {record.n_analyzed}"
    yield f"number of covariates = {record.n_cvt}"
    yield f"number of phenotypes = {record.n_phenotypes}"
    yield f"number of total SNPs/var = {record.n_variants_total}"
    yield f"number of analyzed SNPs/var = {record.n_variants_analyzed}"
    if record.kinship_variants is not None:
        yield f"number of SNPs/var in the kinship = {record.kinship_variants}"
    for name, null in record.null_models.items():
        if len(record.null_models) > 1:
            yield ""
            yield f"{name}:"
        yield from _null_model_lines(null)


def _lines(record: RunRecord) -> Iterator[str]:
    """The text log, line by line, without the leading marks."""
    yield ""
    yield f"JAMMA Version    = {record.version}"
    for name, version in record.versions.items():
        yield f"{name} = {version}"
    if record.blas:
        yield f"BLAS = {record.blas}"
    if record.kernels:
        yield f"kernels = {record.kernels}"
    for name, count in record.threads.items():
        yield f"threads for {name} = {count}"
    yield ""
    yield f"Command Line Input = {record.command}"
    yield ""
    yield f"Date = {record.date}"
    yield ""
    yield from _summary(record)
    yield from _table("Individuals left out", record.excluded)
    yield from _table("SNPs/var left out", record.filtered)
    yield from _table("SNPs/var without a result (nan)", record.failed)
    for name, reason in record.failed_rows[:MAX_FAILED_LISTED]:
        yield f"  {name}: {reason}"
    left = sum(record.failed.values()) - min(len(record.failed_rows), MAX_FAILED_LISTED)
    if record.failed and left > 0:
        yield f"  ... and {left} more"
    yield from _table("Settings", record.settings)
    yield ""
    yield "Computation Time (wall seconds):"
    yield f"total computation time = {record.total_s:.3f} s"
    for name, seconds in record.timings.items():
        yield f"time on {name} = {seconds:.3f} s"
    if record.peak_memory_gb is not None:
        yield f"peak memory = {record.peak_memory_gb:.3f} GB"
    if record.predicted_memory_gb is not None:
        yield f"predicted memory = {record.predicted_memory_gb:.3f} GB"
    for title, texts in (("Notes", record.notes), ("Warnings", record.warnings), ("Outputs", record.outputs)):
        if texts:
            yield ""
            yield f"{title}:"
            yield from texts
    yield ""


def _plain(value: Any) -> Any:
    """The value in JSON's types: finite numbers, null for nan and infinity."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    return value if value is None else str(value)


def write_log(path: str | os.PathLike[str], record: RunRecord) -> tuple[Path, Path]:
    """Write the log as text and as JSON.

    Parameters
    ----------
    path : path-like
        Name of the text log, ``NAME.log.txt``; the JSON goes to ``NAME.log.json``.
    record : RunRecord

    Returns
    -------
    (Path, Path)
        Both files.

    Raises
    ------
    OutputError
        A file could not be written.
    """
    path = Path(path)
    text = "".join(("## " + line.replace("\n", "\n## ")).rstrip() + "\n" for line in _lines(record))
    first = write_all(path, [text.encode("utf-8", "surrogateescape")])
    content = json.dumps(_plain(record), indent=1, ensure_ascii=True) + "\n"
    name = path.name.removesuffix(".txt") + ".json"
    return first, write_all(path.with_name(name), [content.encode()])
