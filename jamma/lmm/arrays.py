"""The association of arrays in memory: genotypes, phenotype and kinship in, one result a variant out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jamma.core.clock import Clock
from jamma.core.errors import InputError
from jamma.io.readers import ArrayReader
from jamma.lmm.association import AssociationSetup, associate, prepare_association
from jamma.lmm.basis import EigenBasis
from jamma.lmm.eigen import eigendecompose_kinship
from jamma.lmm.schema import F64, AssocResult, LmmConfig, LmmRunResult

_CHUNK_BYTES = 64 << 20


def run_lmm_association_numpy(
    genotypes: ArrayLike,
    phenotypes: ArrayLike,
    kinship: ArrayLike | None = None,
    snp_info: Sequence[dict[str, Any]] | None = None,
    *,
    covariates: ArrayLike | None = None,
    eigenvalues: F64 | None = None,
    eigenvectors: F64 | None = None,
    config: LmmConfig | None = None,
) -> LmmRunResult:
    """Test every variant of a genotype matrix.

    Parameters
    ----------
    genotypes : array_like of int8, float32 or float64, shape (n_samples, n_variants)
        Dosages of allele1; missing is -127 or NaN. C or Fortran order, read-only too.
    phenotypes : array_like of float, shape (n_samples,)
        NaN is missing: the sample is left out.
    kinship : array_like of float64, shape (n_samples, n_samples), optional
        Not needed with `eigenvalues` and `eigenvectors`.
    snp_info : sequence of dict, optional
        For each variant ``chr, rs, pos, a1, a0`` (a1 is the allele that is counted), as
        `jamma.io.PlinkData.snp_info` gives; default: numbers.
    covariates : array_like of float, shape (n_samples, c), optional
        Of full rank; an intercept is appended unless a constant lies in their span. A row with NaN leaves its
        sample out.
    eigenvalues, eigenvectors : ndarray of float64, shapes (n,) and (n, n), optional
        From `jamma.lmm.eigen.eigendecompose_kinship`, of the samples that are analysed.
    config : LmmConfig, optional
        Test, filters, bounds; default: Wald with GEMMA's filters.

    Returns
    -------
    LmmRunResult
        ``associations`` has one `AssocResult` for each variant that passed the filters, in order; ``pve`` and
        ``pve_se`` are of the null model.

    Raises
    ------
    InputError
        Shapes do not agree, a value is not finite, nothing is left to test.

    References
    ----------
    Zhou & Stephens (2012), Nature Genetics 44, 821-824, doi:10.1038/ng.2310.

    Examples
    --------
    >>> import numpy as np
    >>> from jamma.kinship import compute_centered_kinship
    >>> rng = np.random.default_rng(1)
    >>> genotypes = rng.binomial(2, 0.3, (100, 50)).astype(np.int8)
    >>> phenotypes = genotypes[:, 7] + rng.standard_normal(100)
    >>> result = run_lmm_association_numpy(genotypes, phenotypes, compute_centered_kinship(genotypes))
    >>> min(result.associations, key=lambda row: row.p_wald).rs
    '7'
    """
    config = config or LmmConfig()
    clock = Clock()
    reader = ArrayReader(genotypes)
    y, w, keep = _samples(reader.n_samples, phenotypes, covariates)
    if not keep.all():
        reader = ArrayReader(np.asarray(genotypes)[keep])
    with clock.phase("eigendecomp_s"):
        basis = _basis(kinship, eigenvalues, eigenvectors, keep)
    setup = prepare_association(basis, y[keep][:, None], w[keep], config)
    if snp_info is not None and len(snp_info) != reader.n_variants:
        raise InputError(f"snp_info: {len(snp_info)} entries for {reader.n_variants} variants")
    rows, dropped = _rows(reader, setup, config, snp_info, clock)
    if not rows:
        raise InputError(f"no variant is left to test: {dropped or 'there are none'}")
    return LmmRunResult(
        associations=rows, null_model=setup.phenotypes[0].null_model, n_samples=int(keep.sum()),
        n_snps_tested=len(rows), n_filtered=dropped, timing=clock.timing(),
    )  # fmt: skip


def _samples(n: int, phenotypes: ArrayLike, covariates: ArrayLike | None) -> tuple[F64, F64, NDArray[np.bool_]]:
    """Phenotype, covariates with an intercept, and which samples have all of them."""
    y = np.asarray(phenotypes, dtype=np.float64)
    if y.shape != (n,):
        raise InputError(f"phenotypes: shape {y.shape}, expected ({n},), one for each row of genotypes")
    w = np.ones((n, 1)) if covariates is None else np.asarray(covariates, dtype=np.float64)
    if w.ndim == 1:
        w = w[:, None]
    if w.shape[0] != n:
        raise InputError(f"covariates: {w.shape[0]} rows, expected {n}, one for each row of genotypes")
    keep = ~np.isnan(y) & ~np.isnan(w).any(axis=1)
    if not np.isfinite(y[keep]).all() or not np.isfinite(w[keep]).all():
        raise InputError("phenotypes or covariates: a value is infinite")
    if not keep.any():
        raise InputError("no sample has a phenotype and all covariates")
    one = np.ones(int(keep.sum()))
    fitted = w[keep] @ np.linalg.lstsq(w[keep], one, rcond=None)[0]
    if np.abs(fitted - one).max() > 1e-8:
        w = np.column_stack([w, np.ones(n)])
    rank = np.linalg.matrix_rank(w[keep])
    if rank < w.shape[1]:
        raise InputError(f"covariates: {w.shape[1]} columns of rank {rank}; leave the dependent ones out")
    return y, w, keep


def _basis(
    kinship: ArrayLike | None, eigenvalues: F64 | None, eigenvectors: F64 | None, keep: NDArray[np.bool_]
) -> EigenBasis:
    """The decomposition that was given, or the kinship's."""
    n = int(keep.sum())
    if (eigenvalues is None) != (eigenvectors is None):
        raise InputError("eigenvalues and eigenvectors go together")
    if eigenvalues is not None and eigenvectors is not None:
        if eigenvalues.shape != (n,) or eigenvectors.shape != (n, n):
            raise InputError(
                f"eigenvalues {eigenvalues.shape} and eigenvectors {eigenvectors.shape}: expected ({n},) and "
                f"({n}, {n}), of the {n} samples that have a phenotype and all covariates"
            )
        return EigenBasis(eigenvalues, eigenvectors)
    if kinship is None:
        raise InputError("a kinship, or eigenvalues and eigenvectors, is needed")
    k = np.asarray(kinship, dtype=np.float64)
    if k.shape != (len(keep), len(keep)):
        raise InputError(f"kinship: shape {k.shape}, expected ({len(keep)}, {len(keep)})")
    return EigenBasis(*eigendecompose_kinship(k[np.ix_(keep, keep)], center=True, overwrite=True))


def _rows(
    reader: ArrayReader,
    setup: AssociationSetup,
    config: LmmConfig,
    snp_info: Sequence[dict[str, Any]] | None,
    clock: Clock,
) -> tuple[list[AssocResult], dict[str, int]]:
    """One result for each tested variant, and the others counted by reason."""
    from jamma.variants import count_reasons

    chunk_size = config.chunk_size or max(1, min(4096, _CHUNK_BYTES // (8 * reader.n_samples)))
    rows: list[AssocResult] = []
    reasons = [np.zeros(0, np.uint8)]
    for result in associate(reader.chunks(chunk_size), setup, config, clock=clock):
        chunk = result.results[0]
        reasons.append(result.reason)
        names = list(chunk.statistics)
        values = zip(*(chunk.statistics[name].tolist() for name in names), strict=True)
        for j, n_miss, af, numbers in zip(
            chunk.index.tolist(), chunk.n_miss.tolist(), chunk.af.tolist(), values, strict=True
        ):
            info = snp_info[j] if snp_info is not None else {}
            rows.append(
                AssocResult(
                    chr=str(info.get("chr", "0")),
                    rs=str(info.get("rs", j)),
                    ps=int(info.get("pos", j)),
                    n_miss=n_miss,
                    allele1=str(info.get("a1", "1")),
                    allele0=str(info.get("a0", "0")),
                    af=af,
                    **dict(zip(names, numbers, strict=True)),
                )  # fmt: skip
            )
    return rows, count_reasons(np.concatenate(reasons))
