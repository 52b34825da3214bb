"""Which variants are analysed: lists and regions before reading, then GEMMA's filters on each chunk's counts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from jamma.core.errors import InputError, Problems, UsageError
from jamma.hwe import hwe_chi2_p, hwe_exact_below
from jamma.io.tables import BimTable, read_variant_list
from jamma.io.text import PathLike, attempt, plural, show, show_path, some
from jamma.lmm.schema import LmmConfig

if TYPE_CHECKING:
    from jamma._core.genotypes import PackedCalls

F64 = NDArray[np.float64]
Mask = NDArray[np.bool_]

KEPT = 0
NOT_IN_SNPS, NOT_IN_KSNPS, NOT_EXTRACTED, EXCLUDED, OTHER_CHROMOSOME, OUTSIDE_REGION = 1, 2, 3, 4, 5, 6
MISSING, MAF, MONOMORPHIC, HWE, HWE_EXACT, R2 = 7, 8, 9, 10, 11, 12

#: Why a variant is not tested, by code: the names of the log and of ``--dropped``. The first that applies counts.
REASONS: dict[int, str] = {
    KEPT: "kept",
    NOT_IN_SNPS: "not in -snps",
    NOT_IN_KSNPS: "not in -ksnps",
    NOT_EXTRACTED: "not in --extract",
    EXCLUDED: "in --exclude",
    OTHER_CHROMOSOME: "other chromosome",
    OUTSIDE_REGION: "outside -region",
    MISSING: "missing calls",
    MAF: "allele frequency",
    MONOMORPHIC: "monomorphic",
    HWE: "Hardy-Weinberg (chi-square)",
    HWE_EXACT: "Hardy-Weinberg (exact)",
    R2: "explained by covariates",
}


@dataclass(frozen=True, kw_only=True)
class VariantSelection:
    """The variants that lists and regions leave.

    Attributes
    ----------
    rows : ndarray of int64, shape (m,)
        Rows of the .bim, ascending.
    reason : ndarray of uint8, shape (n_variants,)
        0 for a variant that is left, else a key of `REASONS`.
    notes, warnings : tuple of str
    """

    rows: NDArray[np.int64]
    reason: NDArray[np.uint8]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def n_dropped(self) -> dict[str, int]:
        """Variants left out, by reason."""
        return count_reasons(self.reason)


def count_reasons(reason: NDArray[np.uint8]) -> dict[str, int]:
    """How many variants have each reason for not being tested, in the order of `REASONS`."""
    n = np.bincount(reason, minlength=max(REASONS) + 1)
    return {name: int(n[code]) for code, name in REASONS.items() if code != KEPT and n[code]}


# --- lists and regions ------------------------------------------------------------------------------------------


def select_variants(
    bim: BimTable,
    *,
    snps_file: PathLike | None = None,
    ksnps_file: PathLike | None = None,
    extract: PathLike | None = None,
    exclude: PathLike | None = None,
    chromosomes: Sequence[str] | None = None,
    region: str | None = None,
) -> VariantSelection:
    """Apply the filters that need no genotypes.

    Parameters
    ----------
    bim : BimTable
    snps_file, ksnps_file : path, optional
        Variant IDs, the first token of each line (``-snps``, ``-ksnps``).
    extract, exclude : path, optional
        Variant IDs, every token, as PLINK reads them.
    chromosomes : sequence of str, optional
        Chromosomes to keep, named as in the .bim.
    region : str, optional
        ``CHR:START-END``, both ends included, either left out for no bound (``CHR:`` is the whole chromosome). A number
        alone is refused here: GEMMA's ``-region N`` is the number of intervals in the search for lambda, and a command
        that was written for GEMMA must not turn into an analysis of chromosome N.

    Raises
    ------
    InputError
        A file cannot be read; a list, chromosome or region matches no variant, or together they leave none.
    UsageError
        `region` is not of that form.
    """
    problems = Problems()
    notes: list[str] = []
    warnings: list[str] = []
    reason = np.zeros(bim.n_variants, np.uint8)

    steps: list[tuple[int, object, Callable[[Any], Mask]]] = [
        (NOT_IN_SNPS, snps_file, lambda path: ~_listed(path, bim, False, notes, warnings)),
        (NOT_IN_KSNPS, ksnps_file, lambda path: ~_listed(path, bim, False, notes, warnings)),
        (NOT_EXTRACTED, extract, lambda path: ~_listed(path, bim, True, notes, warnings)),
        (EXCLUDED, exclude, lambda path: _listed(path, bim, True, notes, warnings)),
        (OTHER_CHROMOSOME, chromosomes, lambda names: ~_on_chromosomes(names, bim)),
        (OUTSIDE_REGION, region, lambda text: ~_in_region(text, bim)),
    ]
    for code, wanted, find in steps:
        out = attempt(problems, find, wanted) if wanted is not None else None
        if out is not None:
            _mark(reason, code, out)
    problems.raise_if_any()
    rows = np.flatnonzero(reason == KEPT).astype(np.int64)
    if len(rows) == 0:
        why = ", ".join(f"{n:,} {name}" for name, n in count_reasons(reason).items())
        raise InputError(f"{show_path(bim.path)}: none of {plural(bim.n_variants, 'variant')} is left ({why})")
    return VariantSelection(rows=rows, reason=reason, notes=tuple(notes), warnings=tuple(warnings))


def _listed(path: PathLike, bim: BimTable, all_tokens: bool, notes: list[str], warnings: list[str]) -> Mask:
    """The variants whose ID a file lists."""
    wanted = read_variant_list(path, all_tokens=all_tokens)
    mask = np.fromiter(map(wanted.__contains__, bim.rs), bool, bim.n_variants)
    found = {bim.rs[i] for i in np.flatnonzero(mask)}
    name = show_path(path)
    if not found:
        ids = f"none of {plural(len(wanted), 'variant ID')} ({some(list(wanted))})"
        raise InputError(f"{name}: {ids} is in {show_path(bim.path)}, which has IDs such as {some(bim.rs[:4])}")
    unmatched = [rs for rs in wanted if rs not in found]
    if unmatched:
        of = f"{len(unmatched):,} of {plural(len(wanted), 'variant ID')}"
        warnings.append(f"{name}: {of} not in {show_path(bim.path)} ({some(unmatched)})")
    notes.append(f"{name}: {plural(len(wanted), 'variant ID')}, {plural(int(mask.sum()), 'variant')} matched")
    return mask


def _on_chromosomes(chromosomes: Iterable[str], bim: BimTable) -> Mask:
    """The variants on the chromosomes named."""
    names = set(chromosomes)
    there = list(dict.fromkeys(bim.chrom))
    unknown = sorted(names.difference(there))
    if unknown:
        have = f"not in {show_path(bim.path)}, which has {some(there, 30)}"
        raise InputError([f"chromosome {show(name)}: {have}" for name in unknown])
    return np.fromiter(map(names.__contains__, bim.chrom), bool, bim.n_variants)


def parse_region(region: str) -> tuple[str, int, int]:
    """Chromosome, first and last position of ``CHR:START-END``; either end may be left out."""
    match = re.fullmatch(r"(\S+):([0-9,]*)(?:-([0-9,]*))?", region)
    if match is None:
        hint = "; for a whole chromosome write it with a colon" if ":" not in region and region else ""
        raise UsageError(f"-region {show(region)}: expected CHR:START-END, such as 3:1200000-1900000{hint}")
    chrom, first, last = match[1], match[2].replace(",", ""), match[3]
    start = int(first or 0) if len(first) < 19 else 0
    if last is None:
        end = start if first else 2**62  # CHR:POS is one position, CHR: everything
    else:
        last = last.replace(",", "")
        end = int(last) if 0 < len(last) < 19 else 2**62
    if end < start:
        raise UsageError(f"-region {show(region)}: ends at {end:,}, before its start {start:,}")
    return chrom, start, end


def _in_region(region: str, bim: BimTable) -> Mask:
    """The variants in ``CHR:START-END``."""
    chrom, start, end = parse_region(region)
    here = _on_chromosomes([chrom], bim)
    inside = here & (bim.ps >= start) & (bim.ps <= end)
    if not inside.any():
        ps = bim.ps[here]
        raise InputError(
            f"-region {show(region)}: no variant of {show_path(bim.path)}; those of chromosome {show(chrom)} are at "
            f"{ps.min():,} to {ps.max():,}"
        )
    return inside


# --- filters on counts ------------------------------------------------------------------------------------------


def allele_frequency(counts: NDArray[np.int32]) -> F64:
    """Frequency of allele1 among the calls, shape (m,); nan where all are missing. Not the minor allele's."""
    n0, n1, n2 = (counts[:, k].astype(np.float64) for k in range(3))
    n = n0 + n1 + n2
    return np.divide(n1 + 2 * n2, 2 * n, out=np.full(len(n), np.nan), where=n > 0)


def filter_counts(counts: NDArray[np.int32], config: LmmConfig) -> NDArray[np.uint8]:
    """GEMMA's filters of hard calls, in GEMMA's order, on the analysed individuals.

    1. missing fraction > `miss`; 2. frequency of allele1 < `maf` or > 1 - `maf` (not with `notsnp`); 3. fewer than two
    of the three genotypes occur, so that all-heterozygous variants go too; 4. Hardy-Weinberg p-value < `hwe`
    (chi-square) or < `hwe_exact` (not with `notsnp`). A value equal to its bound is kept.

    Parameters
    ----------
    counts : ndarray of int32, shape (m, 4)
        Individuals with 0, 1, 2 copies of allele1, and missing.
    config : LmmConfig

    Returns
    -------
    ndarray of uint8, shape (m,)
        0 where kept, else the first reason that applies, a key of `REASONS`.
    """
    reason = np.zeros(len(counts), np.uint8)
    n0, n1, n2, n_miss = (counts[:, k].astype(np.int64) for k in range(4))
    n_total = n0 + n1 + n2 + n_miss
    rate = np.divide(n_miss, n_total, out=np.zeros(len(counts)), where=n_total > 0)
    _mark(reason, MISSING, rate > config.miss)
    if not config.notsnp:
        af = allele_frequency(counts)
        _mark(reason, MAF, (af < config.maf) | (af > 1.0 - config.maf))
    _mark(reason, MONOMORPHIC, (n0 + n1 == 0) | (n1 + n2 == 0) | (n2 + n0 == 0))
    filter_hwe(reason, counts, config)
    return reason


def _mark(reason: NDArray[np.uint8], code: int, out: Mask) -> None:
    """Give `code` to the variants in `out` that have no reason yet."""
    reason[out & (reason == KEPT)] = code


def filter_hwe(reason: NDArray[np.uint8], counts: NDArray[np.int32], config: LmmConfig) -> None:
    """The two Hardy-Weinberg filters, on the variants that are still kept."""
    if config.notsnp:
        return
    if config.hwe > 0:
        rows = np.flatnonzero(reason == KEPT)
        reason[rows[hwe_chi2_p(counts[rows]) < config.hwe]] = HWE
    if config.hwe_exact > 0:
        rows = np.flatnonzero(reason == KEPT)
        reason[rows[hwe_exact_below(counts[rows], config.hwe_exact)]] = HWE_EXACT


# --- filters on dosages -----------------------------------------------------------------------------------------


def count_dosages(dosages: F64) -> NDArray[np.int32]:
    """Counts of the nearest calls (bounds 0.5 and 1.5, as GEMMA's for the Hardy-Weinberg test), and of missing ones.

    Parameters
    ----------
    dosages : ndarray of float64, shape (m, n), nan missing

    Returns
    -------
    ndarray of int32, shape (m, 4)
    """
    n0 = np.count_nonzero(dosages < 0.5, axis=1)
    n1 = np.count_nonzero((dosages >= 0.5) & (dosages < 1.5), axis=1)
    n2 = np.count_nonzero(dosages >= 1.5, axis=1)
    return np.column_stack([n0, n1, n2, dosages.shape[1] - n0 - n1 - n2]).astype(np.int32)


def filter_dosages(dosages: F64, config: LmmConfig) -> NDArray[np.uint8]:
    """GEMMA's filters of dosages: as `filter_counts`, but monomorphic means that all values are equal.

    Parameters
    ----------
    dosages : ndarray of float64, shape (m, n), nan missing
    config : LmmConfig

    Returns
    -------
    ndarray of uint8, shape (m,)
    """
    counts = count_dosages(dosages)
    reason = np.zeros(len(dosages), np.uint8)
    n_called = dosages.shape[1] - counts[:, 3]
    _mark(reason, MISSING, counts[:, 3] > config.miss * dosages.shape[1])
    if not config.notsnp:
        total = np.nansum(dosages, axis=1)
        af = np.divide(total, 2 * n_called, out=np.full(len(total), np.nan), where=n_called > 0)
        _mark(reason, MAF, (af < config.maf) | (af > 1.0 - config.maf))
    low = np.fmin.reduce(dosages, axis=1, initial=np.inf)
    high = np.fmax.reduce(dosages, axis=1, initial=-np.inf)
    _mark(reason, MONOMORPHIC, low >= high)
    filter_hwe(reason, counts, config)
    return reason


# --- covariates -------------------------------------------------------------------------------------------------


def r2_of_calls(packed: PackedCalls, basis: F64, n_threads: int = 1) -> F64:
    """`r2_with_covariates` of hard calls, none of them expanded to float64.

    Parameters
    ----------
    packed : PackedCalls
        m variants of n samples.
    basis : ndarray of float64, shape (n, c)
    n_threads : int

    Returns
    -------
    ndarray of float64, shape (m,)
        0 for a variant that is 0 for everybody.
    """
    from jamma._core.rotate import rotate_calls

    xq = rotate_calls(np.ascontiguousarray(basis.T), packed, n_threads)
    _, one, two, missing = packed.counts.astype(np.float64).T
    xx = one + 4.0 * two + missing * packed.means**2
    return np.divide((xq * xq).sum(axis=1), xx, out=np.zeros(len(xx)), where=xx != 0)


def r2_with_covariates(dosages: F64, basis: F64, block: int = 256) -> F64:
    """How much of each variant the covariates explain: x'W (W'W)⁻¹ W'x / x'x.

    x has its missing values replaced by the mean and is not centred, and W includes the intercept, so that a frequent
    variant has a large value by itself: this is GEMMA's definition. GEMMA applies it only where W has a second column.

    Parameters
    ----------
    dosages : ndarray of float64, shape (m, n), nan missing
    basis : ndarray of float64, shape (n, c)
        Orthonormal columns that span W.
    block : int
        Variants held as float64 at a time; the result of one does not depend on it.

    Returns
    -------
    ndarray of float64, shape (m,)
        0 for a variant that is 0 for everybody; nan where all are missing.
    """
    m = len(dosages)
    r2 = np.zeros(m)
    for start in range(0, m, block):
        x = dosages[start : start + block].copy()
        missing = np.isnan(x)
        x[missing] = 0.0
        n_called = x.shape[1] - missing.sum(axis=1)
        mean = np.divide(x.sum(axis=1), n_called, out=np.full(len(x), np.nan), where=n_called > 0)
        np.copyto(x, mean[:, None], where=missing)
        # einsum, not BLAS: a row's sum is then the same in every block and with any number of threads.
        xx = np.einsum("mn,mn->m", x, x)
        xq = np.stack([np.einsum("mn,n->m", x, q) for q in np.ascontiguousarray(basis.T)], axis=1)
        np.divide((xq * xq).sum(axis=1), xx, out=r2[start : start + block], where=xx != 0)
    return r2
