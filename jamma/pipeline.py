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
    lmm_mode: int | None = 1,
    kinship_mode: int | None = None,
    save_kinship: bool = False,
    kinship_file: PathLike | None = None,
    kinship_format: int = 1,
    eigenvalue_file: PathLike | None = None,
    eigenvector_file: PathLike | None = None,
    write_eigen: bool = False,
    loco: bool = False,
    eigen_dir: PathLike | None = None,
    resume: bool = False,
    phenotype_column: int | None = None,
    phenotype_columns: Sequence[int] | None = None,
    phenotype_file: PathLike | None = None,
    covariate_file: PathLike | None = None,
    categorical_columns: Sequence[int] = (),
    weight_file: PathLike | None = None,
    residual_weight_file: PathLike | None = None,
    pheno_table: PathLike | None = None,
    pheno_names: Sequence[str] = (),
    covar_table: PathLike | None = None,
    covar_names: Sequence[str] = (),
    keep_file: PathLike | None = None,
    remove_file: PathLike | None = None,
    extract_file: PathLike | None = None,
    exclude_file: PathLike | None = None,
    snps_file: PathLike | None = None,
    ksnps_file: PathLike | None = None,
    region: str | None = None,
    maf: float = 0.01,
    miss: float = 0.05,
    hwe: float = 0.0,
    hwe_exact: float = 0.0,
    r2: float = 0.9999,
    notsnp: bool = False,
    l_min: float = 1e-5,
    l_max: float = 1e5,
    legacy_text: bool = False,
    output_dir: PathLike = "output",
    output_prefix: str = "result",
    out_format: str = "gemma",
    extra_columns: Sequence[str] = (),
    dropped_file: PathLike | None = None,
    plot: bool = False,
    backend: str = "auto",
    n_threads: int | None = None,
    chunk_size: int | None = None,
    mem_budget: float | None = None,
    check_memory: bool = True,
    telemetry: bool = True,
    show_progress: bool = False,
) -> GWASResult:
    """Run a genome-wide association: load, kinship, decomposition, tests, files.

    Every option of the command line under its Python name; `jamma.config.RunRequest` is the same record, and the
    user guide says more of each. Length: one line an argument.

    Parameters
    ----------
    bfile : path
        PLINK prefix of ``.bed``, ``.bim`` and ``.fam`` (``-bfile``).
    lmm_mode : {1, 2, 3, 4} or None
        Wald, likelihood ratio, score, all (``-lmm``); None: only the kinship that `kinship_mode` asks for.
    kinship_mode : {1, 2}, optional
        Kind of kinship to compute and write: centred, standardised (``-gk``).
    save_kinship : bool
        Write the kinship that is computed (as ``-gk 1`` with ``-lmm``).
    kinship_file : path, optional
        Kinship (``-k``); without it (and without eigen files) it is computed from the genotypes.
    kinship_format : {1, 2}
        A matrix, or a list of ``id1 id2 value`` (``-km``).
    eigenvalue_file, eigenvector_file : path, optional
        A decomposition that was written before, instead of a kinship (``-d``, ``-u``).
    write_eigen : bool
        Write the decomposition (``-eigen``).
    loco : bool
        Leave the tested variant's chromosome out of the kinship (``-loco``).
    eigen_dir : path, optional
        Folder in which LOCO's decompositions are kept and found (``--eigen-dir``).
    resume : bool
        Continue an interrupted LOCO run (``--resume``).
    phenotype_column, phenotype_columns : int, sequence of int
        Column(s) of the phenotype(s), counted from 1 (``-n``); give one of the two. Default: column 1.
    phenotype_file, covariate_file : path, optional
        Phenotypes and covariates, one row a sample in .fam order (``-p``, ``-c``).
    categorical_columns : sequence of int
        Covariate columns that are categories, counted from 1 (``-cat``).
    weight_file, residual_weight_file : path, optional
        A weight for each sample as GEMMA uses it, a relative residual variance (``-widv``, ``--residual-weights``).
    pheno_table, covar_table : path, optional
        Tables with a header and IDs (``--pheno``, ``--covar``).
    pheno_names, covar_names : sequence of str
        Their columns (``--pheno-name``, ``--covar-name``).
    keep_file, remove_file : path, optional
        Samples to keep, to remove (``--keep``, ``--remove``).
    extract_file, exclude_file : path, optional
        Variants to keep, to leave out, of kinship and tests (``--extract``, ``--exclude``).
    snps_file, ksnps_file : path, optional
        Variants to test, variants of the kinship (``-snps``, ``-ksnps``).
    region : str, optional
        ``CHR:START-END`` in base pairs: variants to test (``-region``).
    maf, miss : float
        Smallest minor allele frequency, largest fraction of missing calls (``-maf``, ``-miss``).
    hwe, hwe_exact : float
        Smallest Hardy-Weinberg p-value by chi-square or by the exact test; 0: no filter (``-hwe``, ``--hwe-exact``).
    r2 : float
        Drop variants that the covariates explain to more than this (``-r2``).
    notsnp : bool
        No frequency and no Hardy-Weinberg filter (``-notsnp``).
    l_min, l_max : float
        Bounds of lambda = vg/ve (``-lmin``, ``-lmax``).
    legacy_text : bool
        Write kinship and eigen files as GEMMA's text (``--legacy-text``).
    output_dir, output_prefix : path, str
        Where the outputs go (``-outdir``, ``-o``).
    out_format : {"gemma", "tsv.gz", "parquet", "gwas-ssf"}
        Format of the results (``--out-format``).
    extra_columns : sequence of {"n", "neg_log10_p", "stat", "n_obs"}
        More columns in them (``--cols``).
    dropped_file : path, optional
        List of each variant that was not tested, with its reason (``--dropped``).
    plot : bool
        Draw a Manhattan and a QQ plot beside the results (``--plot``).
    backend : {"auto", "numpy", "numpy-streaming"}
        Genotypes in memory, or streamed from the file (``--backend``).
    n_threads, chunk_size : int, optional
        Threads; variants read at a time (``--threads``, ``--chunk-size``).
    mem_budget : float, optional
        Gigabytes to stay within (``--mem-budget``).
    check_memory : bool
        Refuse a run that would not fit, before it begins (``--no-check-memory``).
    telemetry : bool
        Note this run's timings in ``~/.jamma/benchmarks.jsonl`` (``--no-telemetry``).
    show_progress : bool
        Show progress on standard error, or in the notebook.

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
    >>> result = gwas("examples/cohort", telemetry=False)
    >>> result.n_samples, result.n_snps_tested
    (594, 8898)
    """
    options: dict[str, Any] = dict(locals())
    column, columns, save = (options.pop(k) for k in ("phenotype_column", "phenotype_columns", "save_kinship"))
    if column is not None and columns is not None:
        from jamma.core.errors import UsageError

        raise UsageError("phenotype_column with phenotype_columns: give one of them")
    options["phenotype_columns"] = (1 if column is None else column,) if columns is None else columns
    for name in ("phenotype_columns", "categorical_columns", "pheno_names", "covar_names", "extra_columns"):
        options[name] = (options[name],) if isinstance(options[name], (int, str)) else tuple(options[name])
    options["kinship_mode"] = kinship_mode or (1 if save else None)
    return run(RunRequest(**options))


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
        for writer in outcome.writers:
            for text in writer.warnings:
                this.warn(text)
        if request.plot:
            _plot(this, outcome)
    return finish(this, outcome, started)


def _plot(this: Run, outcome: Outcome) -> None:
    """Pictures beside each file of results."""
    from jamma.plot import plot_association

    with this.clock.phase("plot_s"):
        for path in outcome.assoc_paths:
            outcome.plot_paths.append(plot_association(path, n_threads=this.plan.n_threads).path)


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
    for k, path in enumerate(outcome.assoc_paths):
        writer = AssocWriter(
            path, text, this.config.lmm_mode, fmt=request.out_format, cols=request.extra_columns,
            n_samples=this.samples.n_samples, n_threads=this.plan.n_threads, reasons=FAILURES,
            metadata=this.samples.describe(k),
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
