"""The types that cross the borders between the stages of a run; all frozen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]

#: Columns of statistics by ``-lmm`` mode, in GEMMA's order.
STATISTICS: dict[int, tuple[str, ...]] = {
    1: ("beta", "se", "logl_H1", "l_remle", "p_wald"),
    2: ("logl_H1", "l_mle", "p_lrt"),
    3: ("beta", "se", "p_score"),
    4: ("beta", "se", "logl_H1", "l_remle", "l_mle", "p_wald", "p_lrt", "p_score"),
}


@dataclass(frozen=True, kw_only=True)
class LmmConfig:
    """What the user asked of the association test.

    Parameters
    ----------
    lmm_mode : {1, 2, 3, 4}
        Wald, likelihood ratio, score, all three.
    l_min, l_max : float
        Bounds of lambda, the ratio of the genetic to the residual variance.
    n_region : int
        Equal intervals of ln(lambda) that the search looks for maxima in (GEMMA's ``-region N``).
    maf, miss : float
        Variants with an allele frequency below `maf` (or above 1 - `maf`), or with more than the fraction `miss`
        of missing calls, are dropped.
    hwe, hwe_exact : float
        Variants whose Hardy-Weinberg p-value (chi-square; exact) is below are dropped; 0 switches the filter off.
    r2 : float
        Variants that the covariates explain to more than this are dropped (only with covariates).
    notsnp : bool
        Switch the frequency and Hardy-Weinberg filters off (GEMMA's ``-notsnp``).
    chunk_size : int or None
        Variants read and tested at a time; None: chosen by the plan.
    n_threads : int or None
        Threads of the kernels; None: `jamma.core.threads.kernel_threads`.

    Examples
    --------
    >>> LmmConfig(lmm_mode=4, maf=0.05).maf
    0.05
    >>> LmmConfig(maf=0.7)
    Traceback (most recent call last):
    ...
    jamma.core.errors.UsageError: -maf 0.7: expected a number from 0 to 0.5
    """

    lmm_mode: int = 1
    l_min: float = 1e-5
    l_max: float = 1e5
    n_region: int = 10
    maf: float = 0.01
    miss: float = 0.05
    hwe: float = 0.0
    hwe_exact: float = 0.0
    r2: float = 0.9999
    notsnp: bool = False
    chunk_size: int | None = None
    n_threads: int | None = None

    def __post_init__(self) -> None:
        from jamma.core.errors import UsageError

        if self.lmm_mode not in STATISTICS:
            raise UsageError(f"-lmm {self.lmm_mode}: expected 1 (Wald), 2 (LRT), 3 (score) or 4 (all)")
        if not (0 < self.l_min < self.l_max < float("inf")):
            raise UsageError(f"-lmin {self.l_min:g} -lmax {self.l_max:g}: expected 0 < lmin < lmax")
        for name, value, top in (
            ("-maf", self.maf, 0.5), ("-miss", self.miss, 1.0), ("-hwe", self.hwe, 1.0),
            ("--hwe-exact", self.hwe_exact, 1.0), ("-r2", self.r2, 1.0),
        ):  # fmt: skip
            if not 0 <= value <= top:
                raise UsageError(f"{name} {value:g}: expected a number from 0 to {top:g}")
        if not 1 <= self.n_region <= 1000:
            raise UsageError(f"-region {self.n_region}: expected 1 to 1000 intervals, or CHR:START-END")
        if self.chunk_size is not None and self.chunk_size < 1:
            raise UsageError(f"chunk size {self.chunk_size}: expected at least 1")


@dataclass(frozen=True, kw_only=True)
class NullModel:
    """The model without a variant, for one phenotype.

    Attributes
    ----------
    lambda_remle, lambda_mle : float
        Maximisers of the restricted and of the full likelihood.
    logl_remle, logl_mle : float
        Their log-likelihoods, on the scale of the phenotype as given (not the internally scaled one).
    pve, pve_se : float, float or None
        Proportion of variance explained and its standard error (None: the likelihood is flat or not concave).
    vg, ve : float
        Genetic and residual variance at `lambda_remle`, in the phenotype's units squared.
    beta, se_beta : ndarray of float64, shape (n_cvt,)
        Covariate effects and their standard errors at `lambda_remle`, in covariate order.
    trace_g : float
        Mean eigenvalue of the centred kinship.
    """

    lambda_remle: float
    logl_remle: float
    lambda_mle: float
    logl_mle: float
    pve: float
    pve_se: float | None
    vg: float
    ve: float
    beta: F64
    se_beta: F64
    trace_g: float


@dataclass(frozen=True, kw_only=True)
class AssocChunk:
    """Results for the tested variants of one chunk; arrays have shape (n_tested,).

    `index` are the variants' row numbers in the .bim (or columns of the array); a statistic that the mode does
    not compute is None. `neg_log10_p` is of the mode's first p-value (Wald, LRT, score) and stays finite where
    the p-value itself underflows. `reason` is 0 for a good row, else says why its statistics are nan.
    """

    index: NDArray[np.int64]
    n_miss: NDArray[np.int32]
    af: F64
    statistics: dict[str, F64]
    neg_log10_p: F64
    reason: NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True)
class AssocResult:
    """One variant's row, as the array interface returns it."""

    chr: str
    rs: str
    ps: int
    n_miss: int
    allele1: str
    allele0: str
    af: float
    beta: float | None = None
    se: float | None = None
    logl_H1: float | None = None
    l_remle: float | None = None
    l_mle: float | None = None
    p_wald: float | None = None
    p_lrt: float | None = None
    p_score: float | None = None


@dataclass(frozen=True, kw_only=True)
class LmmRunResult:
    """What `jamma.lmm.run_lmm_association_numpy` returns."""

    associations: list[AssocResult]
    null_model: NullModel
    n_samples: int
    n_snps_tested: int
    n_filtered: dict[str, int] = field(default_factory=dict)
    timing: dict[str, float] = field(default_factory=dict)

    @property
    def pve(self) -> float:
        """Proportion of phenotypic variance explained by the kinship."""
        return self.null_model.pve

    @property
    def pve_se(self) -> float | None:
        """Standard error of `pve`; None where the likelihood is flat."""
        return self.null_model.pve_se

    def as_dict(self) -> dict[str, Any]:
        """The null model's numbers by name."""
        return {"pve": self.pve, "pve_se": self.pve_se, "vg": self.null_model.vg, "ve": self.null_model.ve}
