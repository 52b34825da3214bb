"""The association engine: genotype chunks in, statistics out; every phenotype and every basis through one path.

For one chunk of hard calls: count, filter, pack, take the sums at the nodes (`basis`), search (`likelihood`).
The n-length work on a variant is one rotation; all that depends on covariates or phenotypes enters through fixed
vectors z_r = U diag(h(lambda_r)) U'v, so a further phenotype costs R products with x and a search, no rotation.

Scale: y is centred and scaled to unit deviation, W replaced by an orthonormal basis of its columns; the search
works on those and `phenotype_tables` carries what is needed to give results in the user's units (MODEL: beta, se
times the scale, log-likelihoods minus df ln scale).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from jamma.core.errors import InputError
from jamma.io.readers import GenotypeChunk
from jamma.lmm.basis import Basis
from jamma.lmm.schema import F64, AssocChunk, LmmConfig, NullModel

if TYPE_CHECKING:
    from jamma.core.clock import Clock
    from jamma.lmm.nodes import PhenotypeTables


@dataclass(frozen=True)
class Phenotype:
    """One phenotype made ready: its SNP-independent tables and null model."""

    name: str
    tables: PhenotypeTables
    null_model: NullModel


@dataclass(frozen=True)
class AssociationSetup:
    """Everything about a run that no variant changes.

    `columns` has one row for each (covariate or phenotype, node): first c*R of the covariates, then R of each
    phenotype; `covariate_basis` (n, c) is the orthonormal basis of W.
    """

    basis: Basis
    lambdas: F64
    columns: F64
    covariate_basis: F64
    phenotypes: tuple[Phenotype, ...]


@dataclass(frozen=True)
class ChunkResult:
    """Of one chunk: results by phenotype, and the reason code of every variant that was read (0: tested)."""

    results: tuple[AssocChunk, ...]
    index: NDArray[np.int64]
    reason: NDArray[np.uint8]


def prepare_association(
    basis: Basis, phenotypes: F64, covariates: F64, config: LmmConfig, names: tuple[str, ...] = ("1",)
) -> AssociationSetup:
    """Choose the nodes, rotate phenotypes and covariates, fit the null models.

    Parameters
    ----------
    basis : Basis
        Of the kinship of the analysed samples.
    phenotypes : ndarray of float64, shape (n_samples, n_phenotypes)
    covariates : ndarray of float64, shape (n_samples, n_cvt)
        Of full rank, with a constant in its span.
    config : LmmConfig
    names : tuple of str
        The phenotypes' names.

    Returns
    -------
    AssociationSetup
    """
    from jamma.lmm.nodes import make_nodes, phenotype_tables
    from jamma.lmm.null_model import fit_null_model

    n, c = covariates.shape
    if n <= c + 1:
        raise InputError(f"{n} samples and {c} covariates: a variant's effect needs at least {c + 2} samples")
    q, r_factor = np.linalg.qr(covariates)
    ones = np.asarray(np.linalg.lstsq(covariates, np.ones(n), rcond=None)[0], np.float64)
    nodes = make_nodes(basis.eigenvalues, config.l_min, config.l_max, partial(basis.gram, q), config.n_region)
    prepared, columns = [], [basis.node_columns(q, nodes.lambdas).reshape(-1, n)]
    for name, y in zip(names, phenotypes.T, strict=True):
        mean = y.mean()
        centred = y - mean
        scale = float(np.sqrt(np.mean(centred**2)))
        if not np.isfinite(scale) or scale <= 1e-14 * abs(mean):
            raise InputError(f"phenotype {name}: all {n} values are equal ({mean:g}); there is nothing to explain")
        centred = centred / scale
        gram = partial(basis.gram, np.column_stack([q, centred]))
        tables = phenotype_tables(
            nodes, gram, n, c, y_mean=float(mean), y_scale=scale, r_factor=r_factor, ones=ones
        )  # fmt: skip
        prepared.append(Phenotype(name, tables, fit_null_model(tables)))
        columns.append(basis.node_columns(centred[:, None], nodes.lambdas)[0])
    return AssociationSetup(basis, nodes.lambdas, np.concatenate(columns), q, tuple(prepared))


def associate(
    chunks: Iterable[GenotypeChunk],
    setup: AssociationSetup,
    config: LmmConfig,
    n_threads: int | None = None,
    clock: Clock | None = None,
) -> Iterator[ChunkResult]:
    """Filter and test the variants of each chunk.

    Parameters
    ----------
    chunks : iterable of GenotypeChunk
        Over the samples of `setup`, in their order.
    setup : AssociationSetup
    config : LmmConfig
    n_threads : int, optional
        Threads of the kernels; default: all that this process may use.
    clock : Clock, optional
        Told the time of ``rotation_s`` and ``search_s``.

    Yields
    ------
    ChunkResult
        One per chunk, in order. Its content does not depend on how variants are divided into chunks.

    Examples
    --------
    A chunk is calls of some variants, one row each, and where these stand in the whole:

    >>> import numpy as np
    >>> from jamma.io.readers import GenotypeChunk
    >>> from jamma.kinship import compute_centered_kinship
    >>> from jamma.lmm.basis import EigenBasis
    >>> from jamma.lmm.eigen import eigendecompose_kinship
    >>> from jamma.lmm.schema import LmmConfig
    >>> rng = np.random.default_rng(1)
    >>> calls = rng.binomial(2, 0.3, (50, 100)).astype(np.int8)
    >>> phenotype = calls[7] + rng.standard_normal(100)
    >>> basis = EigenBasis(*eigendecompose_kinship(compute_centered_kinship(calls.T)))
    >>> config = LmmConfig(lmm_mode=1)
    >>> setup = prepare_association(basis, phenotype[:, None], np.ones((100, 1)), config)
    >>> chunks = (GenotypeChunk(calls[i : i + 10], None, np.arange(i, i + 10)) for i in range(0, 50, 10))
    >>> for chunk in associate(chunks, setup, config):
    ...     for result in chunk.results:  # one a phenotype
    ...         print(result.index[result.statistics["p_wald"] < 1e-3])
    [7]
    []
    []
    []
    []
    """
    from jamma.core.clock import Clock
    from jamma.core.threads import kernel_threads

    clock = clock or Clock()
    threads = n_threads or config.n_threads or kernel_threads()
    for chunk in chunks:
        yield (_test_calls if chunk.calls is not None else _test_dosages)(chunk, setup, config, threads, clock)


def _test_calls(
    chunk: GenotypeChunk, setup: AssociationSetup, config: LmmConfig, threads: int, clock: Clock
) -> ChunkResult:
    """Count, filter, pack, sum and search one chunk of hard calls."""
    from jamma._core.genotypes import sweep
    from jamma.variants import R2, filter_hwe, r2_of_calls

    assert chunk.calls is not None
    counts, reason, packed = sweep(chunk.calls, config.miss, config.maf, threads, config.notsnp)
    rows = np.flatnonzero(reason == 0)
    filter_hwe(reason, counts, config)
    if setup.covariate_basis.shape[1] > 1 and config.r2 < 1 and len(rows):
        explained = r2_of_calls(packed, setup.covariate_basis, threads) > config.r2
        reason[rows[explained & (reason[rows] == 0)]] = R2
    still = reason[rows] == 0
    if not still.all():
        rows, packed = rows[still], packed.take(still)
    with clock.phase("rotation_s"):
        xx, xz = setup.basis.sums(packed, setup.columns, setup.lambdas, threads)
    kept = counts[rows].astype(np.int64)
    present = kept[:, :3].sum(axis=1)
    af = (kept[:, 1] + 2 * kept[:, 2]) / (2.0 * present)
    with clock.phase("search_s"):
        results = _search(chunk.index[rows], kept[:, 3].astype(np.int32), af, xx, xz, setup, config, threads)
    return ChunkResult(results, chunk.index, reason)


def _test_dosages(
    chunk: GenotypeChunk, setup: AssociationSetup, config: LmmConfig, threads: int, clock: Clock
) -> ChunkResult:
    """Filter, impute, rotate by DGEMM and search one chunk of dosages."""
    from jamma.variants import R2, filter_dosages, r2_with_covariates

    assert chunk.dosages is not None
    reason = filter_dosages(chunk.dosages, config)
    rows = np.flatnonzero(reason == 0)
    if setup.covariate_basis.shape[1] > 1 and config.r2 < 1 and len(rows):
        drop = r2_with_covariates(chunk.dosages[rows], setup.covariate_basis) > config.r2
        reason[rows[drop]] = R2
        rows = rows[~drop]
    x = chunk.dosages[rows]
    missing = np.isnan(x)
    n_miss = missing.sum(axis=1).astype(np.int32)
    mean = np.where(missing, 0.0, x).sum(axis=1) / (x.shape[1] - n_miss)
    x[missing] = np.broadcast_to(mean[:, None], x.shape)[missing]
    with clock.phase("rotation_s"):
        xx, xz = setup.basis.dosage_sums(x, setup.columns, setup.lambdas, threads)
    with clock.phase("search_s"):
        results = _search(chunk.index[rows], n_miss, mean / 2, xx, xz, setup, config, threads)
    return ChunkResult(results, chunk.index, reason)


def _search(
    index: NDArray[np.int64],
    n_miss: NDArray[np.int32],
    af: F64,
    xx: F64,
    xz: F64,
    setup: AssociationSetup,
    config: LmmConfig,
    threads: int,
) -> tuple[AssocChunk, ...]:
    """Statistics of every phenotype from the sums at the nodes."""
    from jamma.lmm.search import fit_variants

    k, r, c = len(index), len(setup.lambdas), setup.covariate_basis.shape[1]
    xq = np.ascontiguousarray(xz[:, : c * r]).reshape(k, c, r)
    results = []
    for number, phenotype in enumerate(setup.phenotypes):
        start = (c + number) * r
        xy = np.ascontiguousarray(xz[:, start : start + r])
        statistics, neg_log10_p, bad = fit_variants(
            phenotype.tables, phenotype.null_model, xx, xq, xy, config.lmm_mode, threads
        )
        results.append(
            AssocChunk(
                index=index, n_miss=n_miss, af=af, statistics=statistics, neg_log10_p=neg_log10_p, reason=bad
            )  # fmt: skip
        )
    return tuple(results)
