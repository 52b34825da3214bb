"""`gwas` and `run`: the stages of a run in order. The only module that knows them all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from jamma.config import RunRequest
from jamma.result import GWASResult
from jamma.stages import (
    Outcome,
    Run,
    decompose,
    load_inputs,
    output_paths,
    read_basis,
    require_variants,
    run_tests,
    sum_kinship,
)

if TYPE_CHECKING:
    from jamma.io.writers import DroppedWriter
    from jamma.lmm.association import ChunkResult
    from jamma.lmm.basis import EigenBasis

PathLike = str | os.PathLike[str]


def gwas(
    bfile: PathLike,
    *,
    kinship_file: PathLike | None = None,
    covariate_file: PathLike | None = None,
    lmm_mode: int = 1,
    loco: bool = False,
    phenotype_column: int | None = None,
    phenotype_columns: Sequence[int] | None = None,
    save_kinship: bool = False,
    kinship_mode: int | None = None,
    output_dir: PathLike = "output",
    output_prefix: str = "result",
    **options: Any,
) -> GWASResult:
    """Run a genome-wide association: load, kinship, decomposition, tests, files.

    Parameters
    ----------
    bfile : path
        PLINK prefix of ``.bed``, ``.bim`` and ``.fam``.
    kinship_file : path, optional
        Kinship (``-k``); without it (and without eigen files) it is computed from the genotypes.
    covariate_file : path, optional
        Covariates, one row a sample in .fam order (``-c``).
    lmm_mode : {1, 2, 3, 4}
        Wald, likelihood ratio, score, all (``-lmm``).
    loco : bool
        Leave one chromosome out (``-loco``).
    phenotype_column, phenotype_columns : int, sequence of int
        Column(s) of the phenotype(s), counted from 1 (``-n``).
    save_kinship : bool
        Write the kinship that is computed (as ``-gk 1`` with ``-lmm``).
    kinship_mode : {1, 2}, optional
        Kind of kinship to compute and write: centred, standardised (``-gk``).
    output_dir, output_prefix : path, str
        Where the outputs go (``-outdir``, ``-o``).
    **options
        Every other field of `jamma.config.RunRequest`: ``snps_file, ksnps_file, hwe, hwe_exact, maf, miss, r2,
        notsnp, l_min, l_max, write_eigen, eigenvalue_file, eigenvector_file, eigen_dir, resume, categorical_columns,
        weight_file, phenotype_file, pheno_table, pheno_names, covar_table, covar_names, keep_file, remove_file,
        extract_file, exclude_file, region, kinship_format, legacy_text, out_format, extra_columns, dropped_file,
        plot, backend, n_threads, chunk_size, mem_budget, check_memory, telemetry, show_progress``.

    Returns
    -------
    GWASResult

    Raises
    ------
    InputError
        A file or a value in it is wrong; everything found is in the message.
    UsageError
        Options contradict each other or are out of range.
    InsufficientMemoryError
        The run would not fit.
    OutputError
        A result could not be written.

    References
    ----------
    Zhou & Stephens (2012), Nature Genetics 44, 821-824, doi:10.1038/ng.2310.

    Examples
    --------
    >>> from jamma import gwas
    >>> result = gwas("examples/cohort", output_dir=tmp_path, telemetry=False)
    >>> result.n_samples > 500
    True
    """
    if phenotype_column is not None and phenotype_columns is not None:
        from jamma.core.errors import UsageError

        raise UsageError("phenotype_column with phenotype_columns: give one of them")
    columns = tuple(phenotype_columns) if phenotype_columns is not None else (phenotype_column or 1,)
    unknown = set(options) - set(RunRequest.__dataclass_fields__)
    if unknown:
        import difflib

        name = min(unknown)
        near = difflib.get_close_matches(name, RunRequest.__dataclass_fields__, 1)
        raise TypeError(f"gwas() has no argument {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    request = RunRequest(
        bfile=bfile, kinship_file=kinship_file, covariate_file=covariate_file, lmm_mode=lmm_mode, loco=loco,
        phenotype_columns=columns, kinship_mode=kinship_mode or (1 if save_kinship else None),
        output_dir=output_dir, output_prefix=output_prefix, **options,
    )  # fmt: skip
    return run(request)


def run(request: RunRequest) -> GWASResult:
    """Do what `request` asks and write its log.

    Raises
    ------
    InputError, UsageError, InsufficientMemoryError, OutputError, NumericalError
    """
    from jamma.core.threads import blas_threads
    from jamma.report import finish

    started = datetime.now().astimezone()
    this = load_inputs(request)
    with blas_threads(this.plan.blas_threads):
        if request.lmm_mode is None:
            outcome = _kinship_only(this)
        elif request.loco:
            outcome = _loco(this)
        else:
            outcome = _association(this)
        if request.plot:
            _plot(this, outcome)
    return finish(this, outcome, started)


def _plot(this: Run, outcome: Outcome) -> None:
    """Pictures beside each file of results."""
    from jamma.plot import plot_association

    with this.clock.phase("plot_s"):
        for path in outcome.assoc_paths:
            outcome.plot_paths.append(plot_association(path).path)


def _kinship_only(this: Run) -> Outcome:
    """``-gk``: filters look at the analysed samples, the matrix covers all (GEMMA does the same)."""
    outcome = Outcome()
    if this.request.loco:
        return _kinship_loco(this, outcome)
    kinship = _computed_kinship(this, None, this.samples.mask, outcome)
    _write_kinship(this, kinship, this.fam.fid, this.fam.iid, outcome)
    return outcome


def _kinship_loco(this: Run, outcome: Outcome) -> Outcome:
    """``-gk 1 -loco``: one matrix for each chromosome, of all the others."""
    from jamma.io.matrix import write_kinship
    from jamma.loco import kinship_without, sum_all

    total, outcome.kinship_reasons = sum_all(this, None, this.samples.mask)
    stem = this.request.output_stem
    for chromosome in this.kinship_groups:
        kinship = kinship_without(this, total, chromosome, None, this.samples.mask)
        name = stem.with_name(f"{stem.name}.loco.{quote(chromosome, safe='')}")
        with this.clock.phase("write_s"):
            outcome.kinship_paths.append(
                write_kinship(name, "cXX", kinship, this.fam.fid, this.fam.iid, this.request.legacy_text)
            )
    return outcome


def _computed_kinship(this: Run, samples: Any, mask: Any, outcome: Outcome) -> np.ndarray:
    """The kinship of the request's variants over some rows of the .fam."""
    from jamma.kinship import KinshipSum

    reader = this.reader(samples)
    total = KinshipSum(
        reader.n_samples, standardized=this.request.kinship_mode == 2, n_threads=this.plan.n_threads
    )  # fmt: skip
    outcome.kinship_reasons = sum_kinship(this, total, reader, this.kinship_variants.rows, mask)
    require_variants(total.n_variants, outcome.kinship_reasons, "for the kinship")
    with this.clock.phase("kinship_s"):
        return total.matrix()


def _write_kinship(this: Run, kinship: np.ndarray, fid: list[str], iid: list[str], outcome: Outcome) -> None:
    """Write a kinship under the request's name."""
    from jamma.io.matrix import write_kinship

    kind = "sXX" if this.request.kinship_mode == 2 else "cXX"
    with this.clock.phase("write_s"):
        outcome.kinship_paths.append(
            write_kinship(this.request.output_stem, kind, kinship, fid, iid, this.request.legacy_text)
        )


def _basis(this: Run, outcome: Outcome) -> EigenBasis:
    """The decomposition: from files, or of a kinship that is read or computed over the analysed samples."""
    request = this.request
    if request.kinship_file is not None or request.eigenvalue_file is not None:
        return read_basis(this)
    kinship = _computed_kinship(this, this.samples.index, None, outcome)
    if request.kinship_mode is not None:
        _write_kinship(this, kinship, this.samples.fid, this.samples.iid, outcome)
    else:
        this.note("no -k: the kinship was computed from the genotypes of the analysed samples")
    return decompose(this, kinship, request.write_eigen)


def _association(this: Run) -> Outcome:
    """One decomposition, every phenotype, every variant once."""
    from jamma.io.matrix import write_eigen
    from jamma.lmm.association import prepare_association

    request, samples, outcome = this.request, this.samples, Outcome()
    basis = _basis(this, outcome)
    if request.write_eigen:
        with this.clock.phase("write_s"):
            outcome.eigen_paths += write_eigen(
                request.output_stem, basis.eigenvalues, basis.vectors, samples.fid, samples.iid,
                request.legacy_text,
            )  # fmt: skip
    with this.clock.phase("null_model_s"):
        setup = prepare_association(
            basis, samples.phenotypes, samples.covariates, this.config, samples.phenotype_names
        )  # fmt: skip
    outcome.null_models = {p.name: p.null_model for p in setup.phenotypes}
    rows = this.test.rows
    chunks = this.reader(samples.index).chunks(this.plan.chunk_size, rows)
    with ExitStack() as stack:
        dropped = _open_writers(this, stack, outcome)
        nulls = [p.null_model for p in setup.phenotypes]

        def write(result: ChunkResult) -> None:
            with this.clock.phase("write_s"):
                for writer, chunk, null in zip(outcome.writers, result.results, nulls, strict=True):
                    writer.write(chunk, null)
                if dropped is not None:
                    dropped.write(result.index, result.reason)

        outcome.tested = run_tests(this, setup, chunks, len(rows), write)
        require_variants(outcome.tested.n_tested, outcome.tested.reasons, "to test")
    return outcome


def _open_writers(this: Run, stack: ExitStack, outcome: Outcome) -> DroppedWriter | None:
    """A writer for each phenotype, and one for dropped variants if asked for; leaving the stack names the files."""
    from jamma.io.writers import AssocWriter, DroppedWriter, VariantText
    from jamma.lmm.search import REASONS as FAILURES
    from jamma.variants import REASONS

    request, text = this.request, VariantText(this.bim)
    outcome.assoc_paths = output_paths(this)
    for path in outcome.assoc_paths:
        writer = AssocWriter(
            path, text, this.config.lmm_mode, fmt=request.out_format, cols=request.extra_columns,
            n_samples=this.samples.n_samples, n_threads=this.plan.n_threads, reasons=FAILURES,
        )  # fmt: skip
        outcome.writers.append(stack.enter_context(writer))
    if request.dropped_file is None:
        return None
    dropped = stack.enter_context(DroppedWriter(request.dropped_file, this.bim, REASONS))
    outcome.dropped_paths.append(Path(request.dropped_file))
    listed = np.flatnonzero(this.test.reason)
    dropped.write(listed, this.test.reason[listed])
    return dropped


def _loco(this: Run) -> Outcome:
    """Every chromosome against the kinship of the others."""
    from jamma.loco import run_loco

    outcome = Outcome()
    if this.request.kinship_mode is not None:
        _kinship_loco(this, outcome)
    loco, parts = run_loco(this)
    require_variants(loco.tested.n_tested, loco.tested.reasons, "to test")
    outcome.tested, outcome.null_models = loco.tested, loco.null_models
    outcome.kinship_reasons = outcome.kinship_reasons or loco.kinship_reasons
    outcome.eigen_paths = loco.eigen_paths
    with ExitStack() as stack, this.clock.phase("write_s"):
        dropped = _open_writers(this, stack, outcome)
        for chunk, null in parts.in_file_order(list(loco.null_models), this.plan.chunk_size):
            outcome.writers[0].write(chunk, null)
        if dropped is not None:
            for name in loco.null_models:
                arrays, _ = parts.load(name)
                dropped.write(arrays["read"], arrays["read_reason"])
    parts.remove()
    return outcome
