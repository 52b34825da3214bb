"""What a run returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from jamma.lmm.schema import NullModel


@dataclass(frozen=True, kw_only=True)
class GWASResult:
    """Summary of a run of `jamma.gwas`.

    Attributes
    ----------
    n_samples : int
        Analysed samples.
    n_snps_tested : int
        Variants tested (of one phenotype; every phenotype tests the same ones). 0 where only a kinship was asked.
    n_filtered : mapping of str to int
        Variants that were not tested, by reason.
    timing : mapping of str to float
        Wall seconds by phase: ``total_s, load_s, kinship_s, eigendecomp_s, rotation_s, lmm_s, ...``
    null_models : tuple of NullModel
        One per phenotype; one per chromosome with ``loco``.
    assoc_paths, eigen_paths : tuple of Path
        Files written.
    kinship_paths : tuple of Path
        Kinships written; with ``-gk 1 -loco`` one a chromosome.
    log_path : Path or None
    warnings, summary : tuple of str
        What the user should know; the run in a few lines, as the command line prints them.
    """

    n_samples: int
    n_snps_tested: int
    n_filtered: Mapping[str, int] = field(default_factory=dict)
    timing: Mapping[str, float] = field(default_factory=dict)
    null_models: tuple[NullModel, ...] = ()
    assoc_paths: tuple[Path, ...] = ()
    kinship_paths: tuple[Path, ...] = ()
    eigen_paths: tuple[Path, ...] = ()
    log_path: Path | None = None
    plot_paths: tuple[Path, ...] = ()
    warnings: tuple[str, ...] = ()
    summary: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "timing", MappingProxyType(dict(self.timing)))
        object.__setattr__(self, "n_filtered", MappingProxyType(dict(self.n_filtered)))

    @property
    def assoc_path(self) -> Path | None:
        """The (first) file of results; None where only a kinship was asked."""
        return self.assoc_paths[0] if self.assoc_paths else None

    @property
    def kinship_path(self) -> Path | None:
        """The (first) kinship that was written; None where there is none."""
        return self.kinship_paths[0] if self.kinship_paths else None

    def _null(self) -> NullModel | None:
        return self.null_models[0] if self.null_models else None

    @property
    def pve_estimate(self) -> float | None:
        """Proportion of variance explained in the (first) null model."""
        return None if (null := self._null()) is None else null.pve

    @property
    def pve_se(self) -> float | None:
        """Standard error of `pve_estimate`; None where the likelihood is flat."""
        return None if (null := self._null()) is None else null.pve_se

    @property
    def vg(self) -> float | None:
        """Genetic variance of the (first) null model, in the phenotype's units squared."""
        return None if (null := self._null()) is None else null.vg

    @property
    def ve(self) -> float | None:
        """Residual variance of the (first) null model."""
        return None if (null := self._null()) is None else null.ve

    @property
    def lambda_null(self) -> float | None:
        """REML estimate of lambda in the (first) null model."""
        return None if (null := self._null()) is None else null.lambda_remle

    @property
    def logl_null(self) -> float | None:
        """Restricted log-likelihood of the (first) null model."""
        return None if (null := self._null()) is None else null.logl_remle

    def associations(self, phenotype: int = 0) -> np.ndarray:
        """Read the results of the phenotype at this position back.

        Returns
        -------
        structured ndarray
            One record a variant; the fields are the columns of the .assoc.txt.

        Examples
        --------
        >>> from jamma import gwas
        >>> rows = gwas("examples/cohort", telemetry=False).associations()
        >>> print(rows["rs"][rows["p_wald"].argmin()])
        v06394
        """
        from jamma.core.errors import UsageError
        from jamma.io.results import associations

        if not 0 <= phenotype < len(self.assoc_paths):
            raise UsageError(f"phenotype {phenotype}: this run has {len(self.assoc_paths)}")
        return associations(self.assoc_paths[phenotype])
