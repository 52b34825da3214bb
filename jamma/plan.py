"""How a run will be done: threads, chunk size, driver, backend, and whether it fits in memory. Made before any genotype
is decoded."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jamma.config import RunRequest, backend_in_force
from jamma.core.errors import InsufficientMemoryError, UsageError

if TYPE_CHECKING:
    from jamma.core.available import Available
    from jamma.core.memory import MemoryEstimate, RunSize
    from jamma.io.tables import BimTable, FamTable
    from jamma.samples import SampleSelection

#: Left to us, genotypes are held in memory only where they take at most this share of it.
IN_MEMORY_SHARE = 0.25
MAX_WORKERS = 1024


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """What will be done.

    Attributes
    ----------
    n_samples, n_variants, n_phenotypes, n_cvt : int
        Sizes.
    chunk_size : int
        Variants read and tested at a time.
    n_threads, blas_threads : int
        Threads of the kernels and of the BLAS; `n_threads` is for the whole run, LOCO's workers share it.
    driver : {"evd", "evr"}
        LAPACK's DSYEVD or DSYEVR.
    basis : {"eigen", "tridiagonal", "band"}
        How the kinship is reduced.
    backend : {"numpy", "numpy-streaming"}
        Genotypes held in memory as int8, or read from the file each time.
    loco_workers : int
        Chromosomes at a time.
    memory : MemoryEstimate
        Predicted peak, by phase and part.
    """

    n_samples: int
    n_variants: int
    n_phenotypes: int
    n_cvt: int
    chunk_size: int
    n_threads: int
    blas_threads: int
    driver: str
    basis: str
    backend: str
    loco_workers: int
    memory: MemoryEstimate

    @property
    def predicted_peak_bytes(self) -> int:
        """Peak memory of the process."""
        return int(self.memory.total_gb * 2**30)

    @property
    def breakdown(self) -> dict[str, float]:
        """Parts of the peak in GB."""
        return dict(self.memory.breakdown)


def loco_workers() -> int:
    """Chromosomes done at a time: JAMMA_LOCO_WORKERS, 1 by default (each holds a kinship and its workspace)."""
    value = os.environ.get("JAMMA_LOCO_WORKERS", "").strip() or "1"
    if not (value.isascii() and value.isdigit() and 1 <= int(value) <= MAX_WORKERS):
        raise UsageError(f"JAMMA_LOCO_WORKERS={value}: expected a number of workers from 1 to {MAX_WORKERS}")
    return int(value)


def make_plan(request: RunRequest, fam: FamTable, bim: BimTable, samples: SampleSelection) -> RunPlan:
    """Choose how to do what `request` asks, and refuse what does not fit.

    DSYEVD where it fits, else DSYEVR, each with smaller chunks if these make the difference, else a refusal.

    Raises
    ------
    InsufficientMemoryError
        The predicted peak is above the memory there is, unless ``check_memory`` is off.
    UsageError
        An environment variable has a value that cannot be used.
    """
    from jamma.core.available import available_memory
    from jamma.core.memory import estimate, refusal
    from jamma.core.threads import default_blas_threads, kernel_threads

    backend = backend_in_force(request.backend)
    available = available_memory(request.mem_budget)
    size = _size(request, fam, bim, samples, kernel_threads(request.n_threads))
    size = _fit(replace(size, in_memory=backend == "numpy"), available, request.chunk_size)
    if backend == "auto":
        size = _hold_genotypes(size, available)
    memory = estimate(size, available)
    if request.check_memory and not memory.sufficient:
        raise InsufficientMemoryError(refusal(_task(request), memory))
    return RunPlan(
        n_samples=size.n_samples,
        n_variants=size.n_snps,
        n_phenotypes=size.n_phenotypes,
        n_cvt=size.n_cvt,
        chunk_size=size.chunk_size,
        n_threads=size.n_threads,
        blas_threads=default_blas_threads() if request.n_threads is None else request.n_threads,
        driver=size.driver,
        basis=size.basis,
        backend="numpy" if size.in_memory else "numpy-streaming",
        loco_workers=max(size.loco_workers, 1),
        memory=memory,
    )


def _fit(size: RunSize, available: Available, chunk_size: int | None) -> RunSize:
    """Chunk size and driver with which the run fits; the least demanding ones if it does not fit at all."""
    from jamma.core.memory import DRIVERS, MIN_CHUNK, fitting_chunk, peak_bytes

    preferred = chunk_size or fitting_chunk(size, available.usable)
    smallest = chunk_size or MIN_CHUNK
    trials = [replace(size, driver=d, chunk_size=c) for d in DRIVERS for c in (preferred, smallest)]
    return next((trial for trial in trials if peak_bytes(trial) <= available.usable), trials[-1])


def _hold_genotypes(size: RunSize, available: Available) -> RunSize:
    """Keep the genotypes in memory where they are read more than once and take little."""
    from jamma.core.memory import peak_bytes

    held = replace(size, in_memory=True)
    read_twice = size.associates and size.computes_kinship
    takes_little = size.n_samples * size.n_snps <= IN_MEMORY_SHARE * available.usable
    return held if read_twice and takes_little and peak_bytes(held) <= available.usable else size


def _task(request: RunRequest) -> str:
    """What the refusal calls the run."""
    if request.lmm_mode is None:
        return "The kinship"
    return "LMM with LOCO" if request.loco else "LMM"


def _size(
    request: RunRequest, fam: FamTable, bim: BimTable, samples: SampleSelection, n_threads: int
) -> RunSize:  # fmt: skip
    """What the peak depends on."""
    from jamma.core.memory import RunSize

    associates = request.lmm_mode is not None
    reads_eigen = request.eigenvalue_file is not None
    reads_kinship = request.kinship_file is not None
    workers = loco_workers() if request.loco else 0
    return RunSize(
        n_samples=samples.n_samples,
        n_snps=bim.n_variants,
        n_total=fam.n_samples,
        n_cvt=samples.n_cvt,
        n_phenotypes=len(samples.phenotype_names),
        computes_kinship=not (reads_kinship or reads_eigen),
        reads_kinship=reads_kinship,
        kinship_samples=None if associates else fam.n_samples,
        standardized=request.kinship_mode == 2,
        associates=associates,
        decomposes=associates and not reads_eigen,
        basis="eigen",
        loco_workers=workers,
        n_threads=n_threads,
    )
