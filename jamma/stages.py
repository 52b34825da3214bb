"""The stages of a run: inputs, kinship, decomposition, association. `jamma.pipeline` puts them in order."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from jamma.config import RunRequest
from jamma.core.clock import Clock
from jamma.core.errors import InputError

if TYPE_CHECKING:
    from jamma.io.readers import GenotypeChunk, GenotypeReader
    from jamma.io.tables import BimTable, FamTable
    from jamma.io.writers import AssocWriter
    from jamma.kinship import KinshipSum
    from jamma.lmm.association import AssociationSetup, ChunkResult
    from jamma.lmm.basis import EigenBasis
    from jamma.lmm.schema import LmmConfig, NullModel
    from jamma.plan import RunPlan
    from jamma.samples import SampleSelection
    from jamma.variants import VariantSelection

log = logging.getLogger("jamma")


@dataclass
class Run:
    """A run in progress: what was asked, what was read, what is known so far."""

    request: RunRequest
    clock: Clock
    config: LmmConfig
    fam: FamTable
    bim: BimTable
    samples: SampleSelection
    test: VariantSelection
    kinship_variants: VariantSelection
    plan: RunPlan
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    _readers: dict[bytes | None, GenotypeReader] = field(default_factory=dict)

    @cached_property
    def covariate_basis(self) -> NDArray[np.float64]:
        """Orthonormal columns that span the covariates, shape (n_samples, n_cvt)."""
        return np.linalg.qr(self.samples.covariates)[0]

    @cached_property
    def kinship_groups(self) -> dict[str, NDArray[np.int64]]:
        """Rows of the kinship's variants by chromosome."""
        return rows_by_chromosome(self.bim.chrom, self.kinship_variants.rows)

    def note(self, text: str) -> None:
        """Something the log should say."""
        self.notes.append(text)
        log.info(text)

    def warn(self, text: str) -> None:
        """Something the user should see."""
        self.warnings.append(text)
        log.warning("warning: %s", text)

    def reader(self, samples: NDArray[np.int64] | None) -> GenotypeReader:
        """A reader of the run's genotypes over some rows of the .fam (None: all)."""
        from jamma.io.plink import PlinkReader
        from jamma.io.readers import HeldReader

        if samples is not None and len(samples) == self.fam.n_samples:
            samples = None
        key = None if samples is None else samples.tobytes()
        if key not in self._readers:
            reader: GenotypeReader = PlinkReader(
                self.request.bfile, samples, self.plan.n_threads, fam=self.fam, bim=self.bim
            )  # fmt: skip
            if self.plan.backend == "numpy":
                reader = HeldReader(reader, self.plan.chunk_size)
            self._readers[key] = reader
        return self._readers[key]

    def progress(self, phase: str, total: int | None):
        """A progress display for one phase; `total` variants, or None where nothing can be counted."""
        from jamma.core.progress import progress

        return progress(phase, total, "variants", enabled=self.request.show_progress)


def rows_by_chromosome(chrom: list[str], rows: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    """Row numbers of each chromosome, chromosomes in order of their first row."""
    groups: dict[str, list[int]] = {}
    for row in rows.tolist():
        groups.setdefault(chrom[row], []).append(row)
    return {name: np.array(members, np.int64) for name, members in groups.items()}


def load_inputs(request: RunRequest) -> Run:
    """Read and check everything but genotypes and kinship, choose samples and variants, and plan the run."""
    from jamma.io.plink import read_plink_tables
    from jamma.lmm.schema import LmmConfig
    from jamma.plan import make_plan
    from jamma.samples import select_samples
    from jamma.variants import select_variants

    clock = Clock()
    # GEMMA's -region is the number of intervals of the search; with a colon it is a region of the genome.
    intervals = request.region if request.region is not None and request.region.isdigit() else None
    config = LmmConfig(
        n_region=10 if intervals is None else int(intervals),
        lmm_mode=request.lmm_mode or 1, l_min=request.l_min, l_max=request.l_max, maf=request.maf, miss=request.miss,
        hwe=request.hwe, hwe_exact=request.hwe_exact, r2=request.r2, notsnp=request.notsnp,
        chunk_size=request.chunk_size, n_threads=request.n_threads,
    )  # fmt: skip
    with clock.phase("load_s"):
        fam, bim = read_plink_tables(request.bfile)
        samples = select_samples(
            fam,
            phenotype_columns=request.phenotype_columns,
            phenotype_file=request.phenotype_file,
            pheno_table=request.pheno_table,
            pheno_names=request.pheno_names,
            covariate_file=request.covariate_file,
            covar_table=request.covar_table,
            covar_names=request.covar_names,
            categorical=request.categorical_columns,
            weights_file=request.weight_file or request.residual_weight_file,
            keep=request.keep_file,
            remove=request.remove_file,
            phenotype_required=request.lmm_mode is not None,
        )
        extract, exclude = request.extract_file, request.exclude_file
        test = select_variants(bim, snps_file=request.snps_file, region=None if intervals else request.region,
            extract=extract, exclude=exclude,
        )  # fmt: skip
        # GEMMA's -snps restricts the kinship too; with a test in the same command it restricts the test alone.
        kinship_snps = request.snps_file if request.lmm_mode is None else None
        kinship_variants = select_variants(
            bim, snps_file=kinship_snps, ksnps_file=request.ksnps_file, extract=extract, exclude=exclude
        )  # fmt: skip
    run = Run(request, clock, config, fam, bim, samples, test, kinship_variants, make_plan(request, fam, bim, samples))
    for source in (fam, bim, samples, test, kinship_variants):
        for text in getattr(source, "warnings", ()):
            if text not in run.warnings:
                run.warn(text)
        for text in getattr(source, "notes", ()):
            if text not in run.notes:
                run.note(text)
    return run


def sum_kinship(
    run: Run,
    total: KinshipSum,
    reader: GenotypeReader,
    rows: NDArray[np.int64],
    mask: NDArray[np.bool_] | None,
    on_chunk: Callable[[GenotypeChunk, NDArray[np.uint8]], None] | None = None,
) -> Counter[int]:
    """Add the variants `rows` that pass the filters to `total`.

    Parameters
    ----------
    run : Run
    total : KinshipSum
    reader : GenotypeReader
        Over the samples of the kinship.
    rows : ndarray of int64
        Rows of the .bim.
    mask : ndarray of bool, shape (n_samples,), or None
        Samples of the reader that the filters look at (GEMMA filters on the analysed ones); None: all.
    on_chunk : callable, optional
        Called with each chunk and its variants' reason codes.

    Returns
    -------
    Counter
        Variants by reason code; 0 are the ones that entered.
    """
    from jamma.core.background import read_ahead

    reasons: Counter[int] = Counter()
    small_mask = None if mask is None or mask.all() else np.ascontiguousarray(mask).view(np.uint8)
    with run.clock.phase("kinship_s"), run.progress("kinship", len(rows)) as bar:
        for chunk in read_ahead(reader.chunks(run.plan.chunk_size, rows)):
            reason = _kinship_reasons(run, chunk, small_mask)
            total.add(chunk, reason == 0)
            reasons.update(reason.tolist())
            if on_chunk is not None:
                on_chunk(chunk, reason)
            bar.update(chunk.n_variants)
    return reasons


def _kinship_reasons(run: Run, chunk: GenotypeChunk, mask: NDArray[np.uint8] | None) -> NDArray[np.uint8]:
    """Filter codes of a chunk's variants, on the analysed samples."""
    from jamma._core.genotypes import count_calls, pack_calls
    from jamma.variants import R2, filter_counts, r2_of_calls

    assert chunk.calls is not None
    threads = run.plan.n_threads
    reason = filter_counts(count_calls(chunk.calls, mask, threads), run.config)
    if run.samples.n_cvt > 1 and run.config.r2 < 1:
        rows = np.flatnonzero(reason == 0)
        if mask is None:
            packed = pack_calls(chunk.calls, rows, threads)
        else:
            packed = pack_calls(chunk.calls[np.ix_(rows, np.flatnonzero(mask))], None, threads)
        reason[rows[r2_of_calls(packed, run.covariate_basis, threads) > run.config.r2]] = R2
    return reason


def require_variants(n: int, reasons: Counter[int], purpose: str) -> None:
    """Raise when no variant is left, saying where they went."""
    if n == 0:
        why = ", ".join(f"{count:,} {name}" for name, count in named_reasons(reasons).items())
        raise InputError(f"no variant is left {purpose}: {why or 'the fileset has none'}")


def named_reasons(reasons: Counter[int]) -> dict[str, int]:
    """Variants that were dropped, by the reason's name."""
    from jamma.variants import KEPT, REASONS

    return {name: reasons[code] for code, name in REASONS.items() if code != KEPT and reasons[code]}


def read_basis(run: Run) -> EigenBasis:
    """Kinship or eigen files of the request to the basis of the analysed samples."""
    from jamma.io.matrix import read_eigen, read_kinship
    from jamma.lmm.basis import EigenBasis

    request, samples = run.request, run.samples
    notes: list[str] = []
    warnings: list[str] = []
    with run.clock.phase("load_s"):
        if request.eigenvalue_file is not None and request.eigenvector_file is not None:
            eigenvalues, vectors = read_eigen(
                request.eigenvalue_file, request.eigenvector_file, fid=samples.fid, iid=samples.iid,
                weights=samples.weights, notes=notes, n_threads=run.plan.n_threads,
            )  # fmt: skip
        else:
            assert request.kinship_file is not None
            kinship = read_kinship(
                request.kinship_file, n_total=run.fam.n_samples, fid=run.fam.fid, iid=run.fam.iid,
                index=samples.index, km=request.kinship_format, notes=notes, warnings=warnings,
                n_threads=run.plan.n_threads,
            )  # fmt: skip
    for text in notes:
        run.note(text)
    for text in warnings:
        run.warn(text)
    if request.eigenvalue_file is not None:
        return EigenBasis(eigenvalues, vectors)
    return decompose(run, kinship, request.write_eigen)


def decompose(run: Run, kinship: NDArray[np.float64], vectors: bool = False) -> EigenBasis:
    """Reduce a kinship of the analysed samples (overwritten); `vectors`: eigenvectors are needed."""
    from jamma.lmm.basis import EigenBasis
    from jamma.lmm.eigen import eigendecompose_kinship, gemma_weight_scales, residual_variance_scales

    request, samples = run.request, run.samples
    kinship_scale = row_scale = None
    if samples.weights is None:
        pass
    elif request.weight_file is not None:
        kinship_scale, row_scale = gemma_weight_scales(samples.weights)
        run.warn(
            "-widv: weights enter as in GEMMA, whose two halves belong to different models (the error variance is "
            "the inverse of the weight); --residual-weights fits Var(e_i) proportional to the weight"
        )
    else:
        kinship_scale, row_scale = residual_variance_scales(samples.weights)
    with run.clock.phase("eigendecomp_s"), run.progress("eigendecomposition", None):
        eigen = eigendecompose_kinship(
            kinship,
            center=True,
            kinship_scale=kinship_scale,
            row_scale=row_scale,
            overwrite=True,
            driver=run.plan.driver,
            n_threads=max(1, run.plan.blas_threads // run.plan.loco_workers),
        )
    if eigen.n_negative:
        run.warn(
            f"kinship: {eigen.n_negative} of {len(eigen.eigenvalues)} eigenvalues are negative (smallest "
            f"{eigen.smallest:.3g}) and were set to 0, as GEMMA does; a kinship should have none"
        )
    run.note(f"eigenvalues: {eigen.n_zero} of {len(eigen.eigenvalues)} are zero")
    return EigenBasis(*eigen)


@dataclass
class Tested:
    """What an association stage counted: variants by reason code (0: tested), chunks."""

    reasons: Counter[int] = field(default_factory=Counter)
    n_chunks: int = 0

    @property
    def n_tested(self) -> int:
        """Variants with a row in the results."""
        return self.reasons[0]


@dataclass
class Outcome:
    """What a run produced, for its log and its result."""

    tested: Tested | None = None
    kinship_reasons: Counter[int] | None = None
    null_models: dict[str, NullModel] = field(default_factory=dict)
    writers: list[AssocWriter] = field(default_factory=list)
    assoc_paths: list[Path] = field(default_factory=list)
    kinship_paths: list[Path] = field(default_factory=list)
    eigen_paths: list[Path] = field(default_factory=list)
    plot_paths: list[Path] = field(default_factory=list)
    dropped_paths: list[Path] = field(default_factory=list)

    def paths(self) -> list[Path]:
        """Every file written but the log."""
        return [
            *self.kinship_paths, *self.eigen_paths, *self.assoc_paths, *self.dropped_paths, *self.plot_paths,
        ]  # fmt: skip


def run_tests(
    run: Run,
    setup: AssociationSetup,
    chunks: Iterable[GenotypeChunk],
    n_variants: int,
    write: Callable[[ChunkResult], None],
    threads: int | None = None,
) -> Tested:
    """Test the variants of `chunks`, handing each chunk's results to `write` in order.

    Reading is one chunk ahead and writing one behind, each in its own thread.
    """
    from jamma.core.background import WriteBehind, read_ahead
    from jamma.lmm.association import associate

    tested = Tested()
    with ExitStack() as stack:
        stack.enter_context(run.clock.phase("lmm_s"))
        bar = stack.enter_context(run.progress("association", n_variants))
        out = stack.enter_context(WriteBehind(write))
        for result in associate(read_ahead(chunks), setup, run.config, threads or run.plan.n_threads, run.clock):
            out.put(result)
            tested.reasons.update(result.reason.tolist())
            tested.n_chunks += 1
            bar.update(len(result.index))
    return tested


def output_paths(run: Run) -> list[Path]:
    """The file of results of each phenotype."""
    from jamma.io.writers import assoc_path

    stem, names = run.request.output_stem, run.samples.phenotype_names
    endings = [""] if len(names) == 1 else [f".pheno{name}" for name in names]
    return [assoc_path(f"{stem}{ending}", run.request.out_format) for ending in endings]
