"""How much memory there is, and how much a run will need.

One model of the peak serves the check before a run, the choice of chunk size and driver (`jamma.plan`), the public
estimates and the documented sample limits. Its parts, with n analysed samples (N rows of the .fam), in bytes:

- a process with its libraries and tables of names: `BASELINE`, and about 200 for each variant of the .bim;
- kinship: K (8N²), three chunks of calls, and a block of 4096 variants in the two packed forms of the product;
- decomposition: K, which becomes U (8n²), and LAPACK's workspace: DSYEVD 16n², DSYEVR 8n²; without eigenvectors
  (tridiagonal or band) K with its reflectors and Q (16n² in all);
- association: U or Q (8n²), the node columns (8nR for each covariate and phenotype), and three chunks in flight (one
  being read, one tested, one written), each n (calls) and 3n/8 (packed) a variant, and the sums at R nodes.

The phases follow each other, so the peak is the largest of them. Units: 1 GB is 2**30 bytes here, as in `--mem-budget`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from jamma.core.available import GB, MARGIN, MIB, Available, available_memory

#: Python, NumPy and its BLAS, bed-reader and the rest, when nothing is loaded yet (measured 58 to 75 MiB).
BASELINE = 72 * MIB
#: Buffers of the BLAS, stacks and heaps of one thread.
PER_THREAD = 6 * MIB
#: Names, alleles, position and filter code of one variant of the .bim.
PER_VARIANT = 200
#: A line of the .fam, IDs and covariates included.
PER_SAMPLE = 700
#: Nodes of the spectrum (MODEL 4): 40 to 68 were seen.
TYPICAL_NODES = 48
#: Variants at a time where memory does not say otherwise.
DEFAULT_CHUNK = 4096
#: Variants of one packed block of the integer product.
GRAM_VARIANTS = 4096
DRIVERS = ("evd", "evr")
#: Below this the kernels lose more time than memory is gained.
MIN_CHUNK = 64
#: Variants of one exact 8-bit product, packed to a byte a call.
KINSHIP_BLOCK = 4096
#: Doubles of one DSYRK of the standardised kinship: imputed values and a temporary array of the same size.
DENSE_BLOCK = 64 * MIB
DENSE_ARRAYS = 2
WORKSPACE = {"evd": 16, "evr": 8}  # bytes per n²


@dataclass(frozen=True, kw_only=True)
class RunSize:
    """Everything that a run's peak memory depends on.

    Attributes
    ----------
    n_samples, n_total : int
        Analysed samples; rows of the .fam (None: the same).
    n_snps, n_cvt, n_phenotypes : int
        Variants of the .bim, covariate columns, phenotypes.
    computes_kinship, reads_kinship : bool
        Where K comes from; both False: it is not needed (eigen files).
    kinship_samples : int or None
        Rows of the K that is computed; None: `n_samples`.
    standardized : bool
        Whether that is ``-gk 2``, which is summed in doubles.
    associates : bool
        False for ``-gk`` alone.
    decomposes : bool
        Whether K is decomposed in this run.
    basis, driver : str
        ``eigen`` (by ``evd`` or ``evr``), ``tridiagonal`` or ``band``.
    loco_workers : int
        0: no LOCO; else chromosomes at a time.
    in_memory : bool
        Whether all genotypes are held as int8 (backend ``numpy``).
    chunk_size, n_threads : int
        Variants at a time, threads.
    """

    n_samples: int
    n_snps: int
    n_total: int | None = None
    n_cvt: int = 1
    n_phenotypes: int = 1
    computes_kinship: bool = True
    reads_kinship: bool = False
    kinship_samples: int | None = None
    standardized: bool = False
    associates: bool = True
    decomposes: bool = True
    basis: str = "eigen"
    driver: str = "evd"
    loco_workers: int = 0
    in_memory: bool = False
    chunk_size: int = DEFAULT_CHUNK
    n_threads: int = 1


Parts = dict[str, int]


def chunk_bytes_per_variant(size: RunSize) -> int:
    """Bytes that one variant of a chunk takes over all stages (three chunks of calls, one packed, sums, results)."""
    sums = 8 * TYPICAL_NODES * (1 + 2 * (size.n_cvt + size.n_phenotypes))
    results = 3 * size.n_phenotypes * 80
    return 3 * size.n_samples + 3 * size.n_samples // 8 + sums + results


def phase_bytes(size: RunSize) -> dict[str, Parts]:
    """Memory of each phase of a run, by part, in bytes; every phase includes what stays for the whole run."""
    n, chunk = size.n_samples, min(size.chunk_size, max(size.n_snps, 1))
    constant: Parts = {
        "program": BASELINE + PER_THREAD * size.n_threads,
        "tables": PER_VARIANT * size.n_snps + PER_SAMPLE * (size.n_total or n),
    }
    if size.in_memory:
        constant["genotypes"] = n * size.n_snps
    total = {"kinship_sum": 8 * n * n} if size.loco_workers else {}
    workers = max(size.loco_workers, 1)
    phases: dict[str, Parts] = {}
    if size.computes_kinship:
        rows = size.kinship_samples or n
        phases["kinship"] = parts = {
            "kinship": 8 * rows * rows * (1 + size.loco_workers),
            "chunks": (3 * chunk + 2 * GRAM_VARIANTS) * rows,
        }
        if size.standardized:
            parts["block"] = DENSE_ARRAYS * min(DENSE_BLOCK, 8 * rows * chunk)
    if size.reads_kinship:
        phases["load"] = {"kinship": 8 * n * n}
    if size.decomposes:
        parts = {"kinship": 8 * n * n, "eigendecomp": WORKSPACE.get(size.driver, 16) * n * n}
        if size.basis != "eigen":
            parts["eigendecomp"] = 8 * n * n
        phases["eigendecomp"] = {k: v * workers for k, v in parts.items()} | total
    if size.associates:
        columns = 8 * n * TYPICAL_NODES * (size.n_cvt + size.n_phenotypes + 1)
        phases["association"] = total | {
            "eigenvectors": 8 * n * n * workers,
            "node_columns": columns * workers,
            "chunks": chunk_bytes_per_variant(size) * chunk * workers,
        }
    return {name: constant | parts for name, parts in phases.items()}


@dataclass(frozen=True, kw_only=True)
class MemoryEstimate:
    """Predicted peak memory of a run, in GB (2**30 bytes).

    Attributes
    ----------
    total_gb : float
        Peak of the whole process.
    breakdown : mapping of str to float
        The parts that are alive at the peak; they add up to `total_gb`.
    phases : mapping of str to float
        Peak of each phase.
    peak_phase : str
        Where the peak is.
    kinship_gb, eigendecomp_workspace_gb, eigenvectors_gb, association_gb : float
        The kinship, LAPACK's workspace, U (or Q), and chunks with the node columns, whether or not at the peak.
    available_gb, available_source : float, str
        What this process may use, and what bounds it.
    sufficient : bool
        Whether the peak fits, with a margin of 10 % unless a budget was given.
    driver, chunk_size : str, int
        What the estimate holds for.
    largest_n_samples : int
        The most samples with which the same run would fit.
    """

    total_gb: float
    breakdown: Mapping[str, float]
    phases: Mapping[str, float]
    peak_phase: str
    kinship_gb: float
    eigendecomp_workspace_gb: float
    eigenvectors_gb: float
    association_gb: float
    available_gb: float
    available_source: str
    sufficient: bool
    driver: str
    chunk_size: int
    largest_n_samples: int


def estimate(size: RunSize, available: Available) -> MemoryEstimate:
    """Predict the peak of a run and compare it with the memory there is."""
    phases = phase_bytes(size)
    peaks = {name: sum(parts.values()) for name, parts in phases.items()}
    peak_phase = max(peaks, key=peaks.__getitem__)

    def gb(phase: str, *parts: str) -> float:
        return sum(phases.get(phase, {}).get(part, 0) for part in parts) / GB

    return MemoryEstimate(
        total_gb=peaks[peak_phase] / GB,
        breakdown={name: value / GB for name, value in phases[peak_phase].items()},
        phases={name: value / GB for name, value in peaks.items()},
        peak_phase=peak_phase,
        kinship_gb=gb("kinship", "kinship") or gb("eigendecomp", "kinship"),
        eigendecomp_workspace_gb=gb("eigendecomp", "eigendecomp"),
        eigenvectors_gb=gb("association", "eigenvectors"),
        association_gb=gb("association", "node_columns", "chunks"),
        available_gb=available.bytes / GB,
        available_source=available.source,
        sufficient=peaks[peak_phase] <= available.usable,
        driver=size.driver,
        chunk_size=size.chunk_size,
        largest_n_samples=largest_n_samples(size, available.usable),
    )


def peak_bytes(size: RunSize) -> int:
    """Predicted peak of a run in bytes."""
    return max(sum(parts.values()) for parts in phase_bytes(size).values())


def largest_n_samples(size: RunSize, usable: int) -> int:
    """The most samples with which a run like `size` stays within `usable` bytes; 0 if not even one does.

    The rows of the .fam and of a computed K grow in proportion.
    """

    def fits(n: int) -> bool:
        def scaled(rows: int | None) -> int | None:
            return None if rows is None else math.ceil(rows * n / max(size.n_samples, 1))

        trial = replace(size, n_samples=n, n_total=scaled(size.n_total), kinship_samples=scaled(size.kinship_samples))
        trial = replace(trial, chunk_size=min(size.chunk_size, fitting_chunk(trial, usable)))
        return peak_bytes(trial) <= usable

    low, high = 0, 1
    while fits(high) and high < 2**40:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def fitting_chunk(size: RunSize, usable: int, preferred: int = DEFAULT_CHUNK) -> int:
    """Variants at a time: `preferred`, or fewer where the chunks would take more than a tenth of `usable`.

    Chunks may take 64 MiB however little there is, and have at least `MIN_CHUNK` variants.
    """
    workers = max(size.loco_workers, 1)
    allowance = max(usable // 10, 64 * MIB) // workers
    fitting = allowance // chunk_bytes_per_variant(size)
    return max(MIN_CHUNK, min(preferred, fitting // MIN_CHUNK * MIN_CHUNK))


def estimate_workflow_memory(
    n_samples: int,
    n_snps: int,
    *,
    n_cvt: int = 1,
    n_phenotypes: int = 1,
    n_threads: int | None = None,
    driver: str = "auto",
    basis: str = "eigen",
    loco_workers: int = 0,
    mem_budget: float | None = None,
) -> MemoryEstimate:
    """Predict the peak memory of a whole run: kinship, decomposition and association.

    Parameters
    ----------
    n_samples, n_snps, n_cvt, n_phenotypes : int
        Analysed samples, variants of the .bim, covariate columns (intercept included), phenotypes.
    n_threads : int, optional
        Default: the CPUs of this process.
    driver : {"auto", "evd", "evr"}
        LAPACK's driver; auto: DSYEVD, or DSYEVR where only that fits.
    basis : {"eigen", "tridiagonal", "band"}
        How the kinship is reduced.
    loco_workers : int
        Chromosomes at a time in a leave-one-chromosome-out run; 0: an ordinary run.
    mem_budget : float, optional
        In GB; default: what this machine, its cgroups and limits leave.

    Returns
    -------
    MemoryEstimate

    Examples
    --------
    >>> full = estimate_workflow_memory(n_samples=200_000, n_snps=95_000, driver="evd")
    >>> f"{full.total_gb:.0f} GB, of which {full.eigendecomp_workspace_gb:.0f} GB are LAPACK's workspace"
    "894 GB, of which 596 GB are LAPACK's workspace"
    >>> full.sufficient == (full.available_gb > 1.1 * full.total_gb)
    True
    """
    size = RunSize(
        n_samples=n_samples, n_snps=n_snps, n_cvt=n_cvt, n_phenotypes=n_phenotypes, basis=basis,
        loco_workers=loco_workers, n_threads=n_threads or _cpus(),
    )  # fmt: skip
    return _estimate_best(size, driver, available_memory(mem_budget))


def estimate_lmm_memory(
    n_samples: int,
    n_snps: int,
    *,
    n_cvt: int = 1,
    n_phenotypes: int = 1,
    n_threads: int | None = None,
    mem_budget: float | None = None,
) -> MemoryEstimate:
    """Predict the peak memory of the association alone, when the decomposition is done and K is freed.

    Parameters and result are those of `estimate_workflow_memory`.

    Examples
    --------
    >>> lmm = estimate_lmm_memory(n_samples=200_000, n_snps=95_000)
    >>> lmm.peak_phase, f"{lmm.eigenvectors_gb:.0f} GB"
    ('association', '298 GB')
    """
    size = RunSize(
        n_samples=n_samples, n_snps=n_snps, n_cvt=n_cvt, n_phenotypes=n_phenotypes, n_threads=n_threads or _cpus(),
        computes_kinship=False, decomposes=False,
    )  # fmt: skip
    return _estimate_best(size, "auto", available_memory(mem_budget))


def sample_limits(available_gb: float, n_snps: int = 500_000, n_threads: int = 1) -> dict[str, int]:
    """The most samples that a whole run can analyse with so much memory, by how the kinship is reduced.

    Parameters
    ----------
    available_gb : float
        Free memory in GB (the margin of 10 % is taken off here).
    n_snps, n_threads : int

    Returns
    -------
    dict
        Of ``evd`` and ``evr`` (LAPACK's drivers) and ``tridiagonal`` (no eigenvectors).

    Examples
    --------
    >>> limits = sample_limits(58)
    >>> limits["evd"] < limits["tridiagonal"] <= limits["evr"]
    True
    """
    usable = Available(int(available_gb * GB), "").usable
    sizes = {
        "evd": RunSize(n_samples=1, n_snps=n_snps, n_threads=n_threads, driver="evd"),
        "evr": RunSize(n_samples=1, n_snps=n_snps, n_threads=n_threads, driver="evr"),
        "tridiagonal": RunSize(n_samples=1, n_snps=n_snps, n_threads=n_threads, basis="tridiagonal"),
    }
    return {name: largest_n_samples(size, usable) for name, size in sizes.items()}


def _estimate_best(size: RunSize, driver: str, available: Available) -> MemoryEstimate:
    """The estimate of the first driver that fits, else of the last."""
    size = replace(size, chunk_size=fitting_chunk(size, available.usable))
    tried = [estimate(replace(size, driver=d), available) for d in (DRIVERS if driver == "auto" else (driver,))]
    return next((e for e in tried if e.sufficient), tried[-1])


def _cpus() -> int:
    affinity: Callable[[int], set[int]] | None = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def refusal(task: str, memory: MemoryEstimate) -> str:
    """The message of `InsufficientMemoryError`: needed, available, breakdown, what would fit, what to do."""
    parts = sorted(memory.breakdown.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{name}={value:.1f}GB" for name, value in parts if value >= 0.05) or "below 0.05GB each"
    needed = memory.total_gb if memory.available_source == "--mem-budget" else memory.total_gb * (1 + MARGIN)
    return "\n".join([
        f"{task} requires ~{memory.total_gb:.1f}GB but only {memory.available_gb:.1f}GB available "
        f"({memory.available_source})",
        f"  Breakdown: {shown} (at the peak: {memory.peak_phase})",
        f"  Largest number of samples that would fit: {memory.largest_n_samples:,}",
        f"  What to do: free memory, raise the limit or use a machine with at least {needed:.1f}GB free; analyse fewer "
        "samples (--keep); or try all the same with --no-check-memory",
    ])  # fmt: skip
