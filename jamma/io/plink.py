"""PLINK binary files: checked at opening, read in chunks of variants."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jamma.core.errors import InputError, InsufficientMemoryError, Problems
from jamma.io.readers import GenotypeChunk
from jamma.io.tables import BimTable, FamTable, read_bim, read_fam
from jamma.io.text import attempt, open_binary, plural, show_path

MAGIC = b"\x6c\x1b"
SNP_MAJOR = 1
HEADER_BYTES = 3


def bfile_path(prefix: str | os.PathLike[str], suffix: str) -> Path:
    """The path of one of the three files of a ``-bfile`` prefix: the suffix is appended, dots in the prefix stay.

    Where there is no such .fam or .bim, but one ending in ``.gz``, it is that.
    """
    plain = Path(os.fspath(prefix) + suffix)
    packed = Path(os.fspath(prefix) + suffix + ".gz")
    return packed if suffix != ".bed" and not plain.exists() and packed.exists() else plain


def read_plink_tables(prefix: str | os.PathLike[str]) -> tuple[FamTable, BimTable]:
    """Read .fam and .bim and check the .bed against them; everything that is wrong is told at once.

    Raises
    ------
    InputError
        One of the three is missing or unreadable, or they do not belong together.
    """
    problems = Problems()
    fam = attempt(problems, read_fam, bfile_path(prefix, ".fam"))
    bim = attempt(problems, read_bim, bfile_path(prefix, ".bim"))
    n, p = (fam.n_samples if fam else None), (bim.n_variants if bim else None)
    attempt(problems, check_bed, bfile_path(prefix, ".bed"), n, p)
    problems.raise_if_any()
    assert fam is not None
    assert bim is not None
    return fam, bim


def check_bed(path: Path, n_samples: int | None, n_variants: int | None) -> None:
    """Check the header of a .bed and, where both numbers are known, its size.

    Raises
    ------
    InputError
        Not a .bed, an individual-major one, or one that was made for other numbers of individuals and variants.
    """
    with open_binary(path) as file:
        head = file.read(HEADER_BYTES)
        size = file.seek(0, os.SEEK_END)
    name = show_path(path)
    if head[:2] == b"\x1f\x8b":
        raise InputError(f"{name}: compressed by gzip, expected a plain .bed; decompress it")
    if head[:2] != MAGIC:
        raise InputError(f"{name}: begins with bytes {head[:2].hex(' ') or '(none)'}, expected 6c 1b; not a PLINK .bed")
    if len(head) < HEADER_BYTES or head[2] != SNP_MAJOR:
        raise InputError(
            f"{name}: third byte {head[2:].hex() or '(none)'}, expected 01 (variant-major); "
            "rewrite it with plink --make-bed"
        )
    if n_samples is None or n_variants is None:
        return
    expected = HEADER_BYTES + n_variants * bytes_per_variant(n_samples)
    if size != expected:
        raise InputError(
            f"{name}: {size:,} bytes, expected {expected:,} for {n_samples:,} individuals (.fam) and "
            f"{n_variants:,} variants (.bim); {_what_fits(size, n_samples, n_variants)}"
        )


def bytes_per_variant(n_samples: int) -> int:
    """Four calls a byte, rounded up."""
    return (n_samples + 3) // 4


def _what_fits(size: int, n_samples: int, n_variants: int) -> str:
    """The numbers of variants, or of individuals, that a .bed of `size` bytes would fit."""
    data = size - HEADER_BYTES
    fits = []
    if data > 0 and data % bytes_per_variant(n_samples) == 0:
        fits.append(plural(data // bytes_per_variant(n_samples), "variant"))
    if data > 0 and data % n_variants == 0:
        most = 4 * (data // n_variants)
        fits.append(f"{most - 3:,} to {most:,} individuals")
    if fits:
        return f"it fits {' or '.join(fits)}: the three files are not of one set"
    return "it fits no number of either: the file is cut off or damaged; copy it again"


class PlinkReader:
    """Reads the variants of a PLINK binary fileset, over all or some individuals, a chunk at a time.

    Parameters
    ----------
    prefix : path
        Without the suffixes ``.bed``, ``.bim``, ``.fam``.
    samples : array_like of int64, shape (n,), optional
        Rows of the .fam to read, in the order wanted; None: all.
    n_threads : int, optional
        Threads that decode; None: as many as bed-reader chooses.
    fam, bim : optional
        The tables, where they have been read already (`read_plink_tables`).

    Attributes
    ----------
    n_samples, n_variants : int
        Individuals that are read, variants of the .bim.

    Raises
    ------
    InputError
        One of the files is missing, damaged, or not of the same set.

    Notes
    -----
    Holds no file open between chunks and may be used from any thread.
    """

    def __init__(
        self,
        prefix: str | os.PathLike[str],
        samples: ArrayLike | None = None,
        n_threads: int | None = None,
        *,
        fam: FamTable | None = None,
        bim: BimTable | None = None,
    ):
        if fam is None or bim is None:
            fam, bim = read_plink_tables(prefix)
        else:
            check_bed(bfile_path(prefix, ".bed"), fam.n_samples, bim.n_variants)
        self.fam, self.bim = fam, bim
        self.path = bfile_path(prefix, ".bed")
        self._n_threads = n_threads
        self._samples = None if samples is None else np.ascontiguousarray(samples, dtype=np.int64)
        if self._samples is not None and not _within(self._samples, fam.n_samples):
            raise ValueError(f"samples: expected row numbers from 0 to {fam.n_samples - 1}")
        self.n_samples = fam.n_samples if self._samples is None else len(self._samples)
        self.n_variants = bim.n_variants

    @cached_property
    def _bed(self) -> Any:
        """The decoder; imported here, because that import takes longer than everything else."""
        from bed_reader import open_bed

        return open_bed(
            self.path, iid_count=self.fam.n_samples, sid_count=self.n_variants, skip_format_check=True,
            num_threads=self._n_threads,
        )  # fmt: skip

    def chunks(self, chunk_size: int, variants: NDArray[np.int64] | None = None) -> Iterator[GenotypeChunk]:
        """Iterate over `variants` (rows of the .bim, ascending; None: all), `chunk_size` at a time."""
        if chunk_size < 1:
            raise ValueError(f"chunk size {chunk_size}: expected at least 1")
        rows = np.arange(self.n_variants, dtype=np.int64) if variants is None else np.asarray(variants, dtype=np.int64)
        if not _within(rows, self.n_variants):
            raise ValueError(f"variants: expected row numbers from 0 to {self.n_variants - 1}")
        for start in range(0, len(rows), chunk_size):
            index = rows[start : start + chunk_size]
            yield GenotypeChunk(self.read(index), None, index)

    def read(self, rows: NDArray[np.int64]) -> NDArray[np.int8]:
        """Read some variants.

        Parameters
        ----------
        rows : ndarray of int64, shape (m,)

        Returns
        -------
        ndarray of int8, shape (m, n_samples), C order
            Copies of allele1; -127 missing.
        """
        try:
            calls = self._bed.read((self._samples, rows), dtype="int8", order="F")
        except MemoryError:
            raise InsufficientMemoryError(
                f"{show_path(self.path)}: {len(rows):,} variants of {self.n_samples:,} individuals do not fit in memory"
            ) from None
        except (OSError, ValueError, IndexError) as error:
            raise InputError(
                f"{show_path(self.path)}: cannot be read ({error}); did it change while in use?"
            ) from error
        return calls.T


def _within(rows: NDArray[np.int64], n: int) -> bool:
    """Whether all row numbers are from 0 to n - 1."""
    return len(rows) == 0 or (int(rows.min()) >= 0 and int(rows.max()) < n)


@dataclass(frozen=True, kw_only=True)
class PlinkData:
    """A PLINK binary fileset in memory.

    Attributes
    ----------
    genotypes : ndarray of int8, shape (n_samples, n_variants), Fortran order
        Copies of allele1; -127 missing.
    fam, bim : FamTable, BimTable
    """

    genotypes: NDArray[np.int8]
    fam: FamTable
    bim: BimTable

    @property
    def n_samples(self) -> int:
        """Number of individuals."""
        return self.fam.n_samples

    @property
    def n_variants(self) -> int:
        """Number of variants."""
        return self.bim.n_variants

    @cached_property
    def phenotypes(self) -> NDArray[np.float64]:
        """All phenotype columns of the .fam: float64, shape (n_samples, n_phenotypes), nan where missing."""
        return self.fam.phenotypes(range(1, self.fam.n_phenotypes + 1)).values

    def snp_info(self) -> list[dict[str, Any]]:
        """One dict a variant with keys chr, rs, pos, a1 (the allele that is counted) and a0."""
        b = self.bim
        return [
            {"chr": c, "rs": r, "pos": ps, "a1": a1, "a0": a0}
            for c, r, ps, a1, a0 in zip(b.chrom, b.rs, b.ps.tolist(), b.allele1, b.allele0, strict=True)
        ]


def load_plink_binary(prefix: str | os.PathLike[str], *, n_threads: int | None = None) -> PlinkData:
    """Read a PLINK binary fileset into memory.

    Parameters
    ----------
    prefix : path
        Without the suffixes ``.bed``, ``.bim``, ``.fam``.
    n_threads : int, optional
        Threads that decode; None: as many as bed-reader chooses.

    Raises
    ------
    InputError
        One of the files is missing, damaged, or not of the same set.
    InsufficientMemoryError
        The genotypes (1 byte a call) do not fit.

    Examples
    --------
    >>> data = load_plink_binary("examples/cohort")
    >>> data.genotypes.shape, data.genotypes.dtype.name
    ((600, 12000), 'int8')
    >>> data.snp_info()[0]
    {'chr': '1', 'rs': 'v00001', 'pos': 78715, 'a1': 'A', 'a0': 'T'}
    """
    reader = PlinkReader(prefix, n_threads=n_threads)
    calls = reader.read(np.arange(reader.n_variants, dtype=np.int64))
    return PlinkData(genotypes=calls.T, fam=reader.fam, bim=reader.bim)
