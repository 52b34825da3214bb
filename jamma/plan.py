"""How a run will be done: threads, chunk size, driver, backend, and whether it fits in memory. Made before any genotype
is decoded."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jamma.config import RunRequest, backend_in_force
from jamma.core.errors import InsufficientMemoryError, UsageError

if TYPE_CHECKING:
    from jamma.core.memory import MemoryEstimate, RunSize
    from jamma.io.tables import BimTable, FamTable
    from jamma.samples import SampleSelection

#: Genotypes are held in memory only where they take at most this share of it.
IN_MEMORY_SHARE = 0.25


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
    """Chromosomes done at a time: JAMMA_LOCO_WORKERS, 1 by default."""
    value = os.environ.get("JAMMA_LOCO_WORKERS", "").strip() or "1"
    if not value.isdigit() or int(value) < 1:
        raise UsageError(f"JAMMA_LOCO_WORKERS={value}: expected a whole number from 1")
    return int(value)


def make_plan(request: RunRequest, fam: FamTable, bim: BimTable, samples: SampleSelection) -> RunPlan:
    """Choose how to do what `request` asks, and refuse what does not fit.

    DSYEVD where it fits, else DSYEVR, else a refusal.

    Raises
    ------
    InsufficientMemoryError
        The predicted peak is above the memory there is, unless ``check_memory`` is off.
    UsageError
        An environment variable has a value that cannot be used.
    """
    from jamma.core.available import available_memory
    from jamma.core.memory import DRIVERS, estimate, fitting_chunk, refusal
    from jamma.core.threads import default_blas_threads, kernel_threads

    available = available_memory(request.mem_budget)
    size = _size(request, fam, bim, samples, request.n_threads or kernel_threads())
    size = replace(size, chunk_size=request.chunk_size or fitting_chunk(size, available.usable))
    size = replace(size, in_memory=_in_memory(request, size, available.usable))
    estimates = [estimate(replace(size, driver=driver), available) for driver in DRIVERS]
    memory = next((e for e in estimates if e.sufficient), estimates[-1])
    if request.check_memory and not memory.sufficient:
        raise InsufficientMemoryError(refusal("LMM" if size.associates else "The kinship", memory))
    return RunPlan(
        n_samples=size.n_samples,
        n_variants=size.n_snps,
        n_phenotypes=size.n_phenotypes,
        n_cvt=size.n_cvt,
        chunk_size=size.chunk_size,
        n_threads=size.n_threads,
        blas_threads=default_blas_threads() if request.n_threads is None else request.n_threads,
        driver=memory.driver,
        basis=size.basis,
        backend="numpy" if size.in_memory else "numpy-streaming",
        loco_workers=max(size.loco_workers, 1),
        memory=memory,
    )


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
        associates=associates,
        decomposes=associates and not reads_eigen,
        basis="eigen",
        loco_workers=workers,
        n_threads=n_threads,
    )


def _in_memory(request: RunRequest, size: RunSize, usable: int) -> bool:
    """Whether to hold the genotypes: as asked; left to us, where they are read more than once and take little."""
    backend = backend_in_force(request.backend)
    if backend != "auto":
        return backend == "numpy"
    read_twice = size.associates and size.computes_kinship
    return read_twice and size.n_samples * size.n_snps <= IN_MEMORY_SHARE * usable
