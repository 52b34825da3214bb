"""What a run says at its end: the log, the telemetry record, the result and the terminal's last lines."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jamma._version import __version__
from jamma.core.available import peak_memory_gb
from jamma.result import GWASResult
from jamma.stages import Outcome, Run, named_reasons

if TYPE_CHECKING:
    from jamma.io.log import RunRecord


def _versions() -> dict[str, str]:
    """Of Python and the libraries that the numbers come from."""
    import bed_reader
    import numpy as np

    return {
        "Python version": platform.python_version(),
        "NumPy version": np.__version__,
        "bed-reader version": getattr(bed_reader, "__version__", "unknown"),
        "Platform": f"{platform.system()} {platform.machine()}",
    }


def _settings(run: Run) -> dict[str, object]:
    """The options that decide the result."""
    request, config = run.request, run.config
    settings: dict[str, object] = {"maf": config.maf, "miss": config.miss}
    if request.lmm_mode is not None:
        settings |= {"lmm": config.lmm_mode, "lmin": config.l_min, "lmax": config.l_max, "r2": config.r2}
        settings |= {"basis": run.plan.basis, "loco": request.loco}
    if request.kinship_mode is not None:
        settings["gk"] = request.kinship_mode
    for name, value in (("hwe", config.hwe), ("hwe-exact", config.hwe_exact), ("notsnp", config.notsnp)):
        if value:
            settings[name] = value
    settings |= {"backend": run.plan.backend, "chunk size": run.plan.chunk_size}
    return settings


def make_record(run: Run, outcome: Outcome, started: datetime) -> RunRecord:
    """Everything that the log says."""
    from jamma import jlinalg
    from jamma._core.levels import describe_levels
    from jamma.io.log import RunRecord

    blas = jlinalg.config()
    timing = run.clock.timing()
    kinship_only = run.request.lmm_mode is None
    reasons = outcome.kinship_reasons if outcome.tested is None else outcome.tested.reasons
    assert reasons is not None
    selection = run.kinship_variants if kinship_only else run.test
    filtered = dict(selection.n_dropped)
    for name, count in named_reasons(reasons).items():
        filtered[name] = filtered.get(name, 0) + count
    failed: dict[str, int] = {}
    for writer in outcome.writers:
        for reason, count in writer.failed.items():
            failed[reason] = failed.get(reason, 0) + count
    return RunRecord(
        command=run.request.command or f"gwas({run.request.bfile!s})",
        version=__version__,
        date=started.isoformat(timespec="seconds"),
        n_total=run.fam.n_samples,
        n_analyzed=run.samples.n_samples,
        n_cvt=run.samples.n_cvt,
        n_phenotypes=len(run.samples.phenotype_names),
        n_variants_total=run.bim.n_variants,
        n_variants_analyzed=reasons[0],
        null_models=outcome.null_models,
        excluded=run.samples.excluded,
        filtered=filtered,
        kinship_variants=None if kinship_only or outcome.kinship_reasons is None else outcome.kinship_reasons[0],
        failed=failed,
        failed_rows=tuple(row for writer in outcome.writers for row in writer.failed_rows),
        versions=_versions(),
        blas=f"{blas.name} {blas.version}, {blas.int_bits}-bit integers, {blas.file} ({blas.reason})",
        kernels=describe_levels(),
        threads={"kernels": run.plan.n_threads, "BLAS": run.plan.blas_threads},
        timings={name.removesuffix("_s"): value for name, value in timing.items() if name != "total_s"},
        total_s=timing["total_s"],
        peak_memory_gb=peak_memory_gb(),
        predicted_memory_gb=run.plan.predicted_peak_bytes / 2**30,
        settings=_settings(run),
        notes=tuple(run.notes),
        warnings=tuple(run.warnings),
        outputs=tuple(map(str, outcome.paths())),
    )


def note_telemetry(run: Run, outcome: Outcome) -> None:
    """Append this run to the local record, unless it was switched off or only a kinship was computed."""
    from jamma import jlinalg
    from jamma.core import telemetry

    if outcome.tested is None or not telemetry.is_enabled(not run.request.telemetry):
        return
    known = telemetry.BenchmarkRecord.__dataclass_fields__
    times: dict[str, Any] = {k: round(v, 6) for k, v in run.clock.timing().items() if k in known}
    machine: dict[str, Any] = telemetry.machine_fields()
    telemetry.append(
        telemetry.BenchmarkRecord(
            timestamp=telemetry.utc_now(),
            jamma_version=__version__,
            n_samples=run.samples.n_samples,
            n_snps=outcome.tested.n_tested,
            backend=run.plan.backend,
            n_cvt=run.samples.n_cvt,
            n_phenotypes=len(run.samples.phenotype_names),
            lmm_mode=run.config.lmm_mode,
            loco=run.request.loco,
            n_chunks=outcome.tested.n_chunks,
            peak_memory_gb=peak_memory_gb(),
            blas_backend=jlinalg.config().name,
            blas_threads=run.plan.blas_threads,
            **times,
            **machine,
        )
    )


def make_result(run: Run, outcome: Outcome, record: RunRecord, log_path: Path) -> GWASResult:
    """What `jamma.gwas` returns."""
    return GWASResult(
        n_samples=run.samples.n_samples,
        n_snps_tested=0 if outcome.tested is None else outcome.tested.n_tested,
        n_filtered=record.filtered,
        timing=run.clock.timing(),
        null_models=tuple(outcome.null_models.values()),
        assoc_paths=tuple(outcome.assoc_paths),
        kinship_paths=tuple(outcome.kinship_paths),
        eigen_paths=tuple(outcome.eigen_paths),
        plot_paths=tuple(outcome.plot_paths),
        log_path=log_path,
        warnings=tuple(run.warnings),
        summary=tuple(_summary(record, outcome, log_path)),
    )


def _summary(record: RunRecord, outcome: Outcome, log_path: Path) -> Iterator[str]:
    """The terminal's last lines: what came in, what left for which reason, what was done, where it is."""

    def left(items: dict[str, int]) -> str:
        return f" ({', '.join(f'{n:,} {why}' for why, n in items.items())})" if items else ""

    yield f"samples:  {record.n_total:,} in, {record.n_analyzed:,} analysed{left(record.excluded)}"
    done = "in the kinship" if outcome.tested is None else "tested"
    yield f"variants: {record.n_variants_total:,} in, {record.n_variants_analyzed:,} {done}{left(record.filtered)}"
    if record.failed:
        yield f"results:  {sum(record.failed.values()):,} rows are nan{left(record.failed)}; the log lists them"
    for name, null in record.null_models.items():
        label = f" [{name}]" if len(record.null_models) > 1 else ""
        se = "not available" if null.pve_se is None else f"{null.pve_se:.6g}"
        yield f"pve estimate = {null.pve:.6g}, se(pve) = {se}{label}"
    memory = "" if record.peak_memory_gb is None else f", {record.peak_memory_gb:.2f} GB"
    yield f"done in {record.total_s:.2f} s{memory}"
    for path in (*outcome.paths(), log_path):
        yield f"wrote {path}"


def finish(run: Run, outcome: Outcome, started: datetime) -> GWASResult:
    """Write the log, note the telemetry, make the result."""
    from jamma.io.log import write_log

    stem = run.request.output_stem
    record = make_record(run, outcome, started)
    log_path, _ = write_log(stem.with_name(stem.name + ".log.txt"), record)
    note_telemetry(run, outcome)
    return make_result(run, outcome, record, log_path)
