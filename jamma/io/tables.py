"""PLINK's .fam and .bim, and lists of variants.

Rows are known by their position, never by their ID, so duplicate IDs do no harm. Everything that is wrong with a file
is told at once, as ``file:row:column: what was read, what was expected, what to do``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jamma.core.errors import MAX_PROBLEMS_SHOWN, InputError
from jamma.io.columns import NumberTable, column_problems, read_numbers
from jamma.io.text import (
    FOREIGN_MISSING,
    FileProblems,
    PathLike,
    line_blocks,
    lines,
    parse_number,
    plural,
    show,
    show_path,
    some,
    split_blank,
)

N_FAM_ID_COLUMNS = 5
N_BIM_COLUMNS = 6


@dataclass(frozen=True, kw_only=True)
class FamTable:
    """The individuals of a .fam file, in file order.

    Attributes
    ----------
    path : Path
    fid, iid : list of str, length n_samples
        Family and individual IDs, as in the file; not necessarily unique.
    n_phenotypes : int
        Columns after the fifth; 0 for a file of five columns.
    warnings : tuple of str
    """

    path: Path
    fid: list[str]
    iid: list[str]
    n_phenotypes: int
    warnings: tuple[str, ...] = ()

    @property
    def n_samples(self) -> int:
        """Number of individuals."""
        return len(self.iid)

    def phenotypes(self, columns: Sequence[int]) -> NumberTable:
        """Read phenotype columns (1-based; 1 is the sixth column) from the file; ``NA`` and -9 are missing."""
        problems = FileProblems(self.path)
        problems.extend(column_problems(columns, self.n_phenotypes, "phenotype"))
        problems.raise_if_any()
        picked = [N_FAM_ID_COLUMNS + c - 1 for c in columns]
        values, warnings = read_numbers(self.path, _split_fam, picked, self.n_samples, minus_nine_missing=True)
        return NumberTable(values=values, names=tuple(map(str, columns)), warnings=tuple(warnings))


@dataclass(frozen=True, kw_only=True)
class BimTable:
    """The variants of a .bim file, in file order; lists have length n_variants.

    Attributes
    ----------
    path : Path
    chrom, rs : list of str
        Chromosome and variant ID, as in the file; IDs are not necessarily unique.
    ps : ndarray of int64, shape (n_variants,)
        Position in base pairs.
    allele1, allele0 : list of str
        Columns 5 and 6: the allele that is counted, and the other.
    warnings : tuple of str
    """

    path: Path
    chrom: list[str]
    rs: list[str]
    ps: NDArray[np.int64]
    allele1: list[str]
    allele0: list[str]
    warnings: tuple[str, ...] = ()

    @property
    def n_variants(self) -> int:
        """Number of variants."""
        return len(self.rs)


# --- .fam -------------------------------------------------------------------------------------------------------


def _split_spaced_ids(line: str, n_ids: int, n_fields: int) -> list[str] | None:
    """Fields of a tab-separated row whose IDs hold spaces; None if it is not such a row."""
    if "\t" not in line or " " not in line:
        return None
    fields = [f.strip(" ") for f in line.split("\t")]
    if len(fields) < n_fields or "" in fields or not any(" " in f for f in fields[:n_ids]):
        return None
    return fields


def _split_fam(line: str) -> list[str]:
    """Tokens of a .fam row: between blanks, or between tabs if one of its four IDs holds a space."""
    return _split_spaced_ids(line, 4, N_FAM_ID_COLUMNS) or split_blank(line)


def read_fam(path: PathLike) -> FamTable:
    """Read the individuals of a .fam file.

    Parameters
    ----------
    path : path
        FID, IID, father, mother, sex and any number of phenotypes, between spaces or tabs.

    Raises
    ------
    InputError
        Unreadable, empty, ragged, with a header or a blank line.
    """
    problems = FileProblems(path)
    fid: list[str] = []
    iid: list[str] = []
    width = 0
    for row, line in lines(path):
        tokens = _split_fam(line)
        if row == 1 and tokens and tokens[0].lstrip("#").upper() == "FID":
            problems.add(1, 1, f"'{show(tokens[0])}', expected a family ID; a .fam has no header: delete the row")
        elif not tokens:
            problems.add(row, None, "blank line, expected an individual; delete it")
        elif len(tokens) < N_FAM_ID_COLUMNS:
            problems.add(
                row, None, f"{plural(len(tokens), 'column')}, expected at least 6 (FID IID father mother sex phenotype)"
            )
        elif width and len(tokens) != width:
            problems.add(
                row, None,
                f"{plural(len(tokens), 'column')}, expected {width} as in the first row; "
                "IDs with spaces need tabs between the columns",
            )  # fmt: skip
        else:
            width = width or len(tokens)
            fid.append(tokens[0])
            iid.append(tokens[1])
        if problems.full:
            break
    if not iid and not problems:
        problems.add(None, None, "empty, expected a row for each individual")
    problems.raise_if_any()
    return FamTable(
        path=Path(path),
        fid=fid,
        iid=iid,
        n_phenotypes=width - N_FAM_ID_COLUMNS,
        warnings=_repeated_people(path, fid, iid),
    )


def _repeated_people(path: PathLike, fid: list[str], iid: list[str]) -> tuple[str, ...]:
    """A warning if two individuals have both IDs in common."""
    if len(set(zip(fid, iid, strict=True))) == len(iid):
        return ()
    seen: set[tuple[str, str]] = set()
    again = [f"{f} {i}" for f, i in zip(fid, iid, strict=True) if (f, i) in seen or seen.add((f, i))]  # type: ignore[func-returns-value]
    return (
        f"{show_path(path)}: {plural(len(again), 'individual')} with FID and IID of an earlier row ({some(again)})",
    )


# --- .bim -------------------------------------------------------------------------------------------------------


def _split_bim(line: str) -> list[str]:
    """Tokens of a .bim row: between blanks, or between tabs if its variant ID or an allele holds a space."""
    tokens = split_blank(line)
    if len(tokens) <= N_BIM_COLUMNS:
        return tokens
    fields = _split_spaced_ids(line, N_BIM_COLUMNS, N_BIM_COLUMNS)
    return fields if fields is not None and len(fields) == N_BIM_COLUMNS else tokens


def read_bim(path: PathLike) -> BimTable:
    """Read the variants of a .bim file.

    Parameters
    ----------
    path : path
        Chromosome, variant ID, centimorgan, base-pair position, allele1, allele0, between spaces or tabs.

    Raises
    ------
    InputError
        Unreadable, empty, ragged, with a header, a blank line or a position that is not a whole number.

    Notes
    -----
    A block of lines is transposed and converted whole; only a block in which that fails is gone through row by row.
    Chromosomes and alleles repeat, so equal ones share one string.
    """
    problems = FileProblems(path)
    chrom: list[str] = []
    rs: list[str] = []
    allele1: list[str] = []
    allele0: list[str] = []
    positions: list[NDArray[np.int64]] = []
    share: dict[str, str] = {}
    n_blank = 0
    for first, block in line_blocks(path):
        stripped = block.rstrip(b" \t\n")
        if not stripped:
            n_blank += block.count(b"\n") + 1
            continue
        for row in range(first - n_blank, first)[: MAX_PROBLEMS_SHOWN + 1]:
            problems.add(row, None, "blank line, expected a variant; delete it")
        n_blank = block.count(b"\n", len(stripped))
        columns = _bim_columns(stripped) or _bim_columns_slow(stripped, first, problems)
        if problems.full:
            break
        c, r, ps, a1, a0 = columns
        chrom += map(share.setdefault, c, c)
        rs += r
        positions.append(ps)
        allele1 += map(share.setdefault, a1, a1)
        allele0 += map(share.setdefault, a0, a0)
    if not rs and not problems:
        problems.add(None, None, "empty, expected a row for each variant")
    problems.raise_if_any()
    ps = np.concatenate(positions)
    return BimTable(
        path=Path(path), chrom=chrom, rs=rs, ps=ps, allele1=allele1, allele0=allele0, warnings=_repeated_ids(path, rs)
    )


BimColumns = tuple[Sequence[str], Sequence[str], NDArray[np.int64], Sequence[str], Sequence[str]]


def _bim_columns(block: bytes) -> BimColumns | None:
    """The columns of a block of rows; None if any row is not plainly right (six tokens in ASCII, a whole position)."""
    if not block.isascii():
        return None
    is_token = np.frombuffer(b"\n" + block, np.uint8) > ord(" ")
    begins = is_token[1:] & ~is_token[:-1]
    line_starts = np.flatnonzero(np.frombuffer(b"\n" + block, np.uint8)[:-1] == ord("\n"))
    if (np.add.reduceat(begins, line_starts, dtype=np.int64) != N_BIM_COLUMNS).any():
        return None
    tokens = block.decode("ascii").split()
    chrom, rs, cm, bp, a1, a0 = (tokens[k::N_BIM_COLUMNS] for k in range(N_BIM_COLUMNS))
    if not "".join(bp).replace("-", "0").isdecimal():
        return None
    try:
        ps = np.fromiter(map(int, bp), np.int64, len(bp))
        for x in set(cm):
            float(x)
    except (ValueError, OverflowError):
        return None
    return chrom, rs, ps, a1, a0


def _bim_columns_slow(block: bytes, first: int, problems: FileProblems) -> BimColumns:
    """The columns of a block of rows, one row at a time, with what is wrong with each."""
    good: list[list[str]] = []
    ps: list[int] = []
    for row, line in enumerate(block.decode("utf-8", "surrogateescape").split("\n"), first):
        tokens = _split_bim(line)
        position = _position(tokens[3]) if len(tokens) == N_BIM_COLUMNS else None
        if not tokens:
            problems.add(row, None, "blank line, expected a variant; delete it")
        elif len(tokens) != N_BIM_COLUMNS:
            problems.add(
                row,
                None,
                f"{plural(len(tokens), 'column')}, expected 6 (chromosome, ID, cM, position, allele1, allele0)",
            )
        elif position is None:
            hint = "; a .bim has no header: delete the row" if row == 1 else ""
            problems.add(row, 4, f"'{show(tokens[3])}', expected a position in base pairs (a whole number){hint}")
        elif parse_number(tokens[2]) is None and tokens[2] not in FOREIGN_MISSING | {"NA"}:
            problems.add(row, 3, f"'{show(tokens[2])}', expected a genetic distance (a number; 0 if unknown)")
        else:
            good.append(tokens)
            ps.append(position)
        if problems.full:
            break
    columns = list(zip(*good, strict=True)) or [()] * N_BIM_COLUMNS
    return columns[0], columns[1], np.array(ps, dtype=np.int64), columns[4], columns[5]


def _position(token: str) -> int | None:
    """A base-pair position; R writes 100000 as ``1e+05``, which is taken as the whole number that it is."""
    value = parse_number(token)
    return int(value) if value is not None and abs(value) < 2.0**53 and value == int(value) else None


def _repeated_ids(path: PathLike, rs: list[str]) -> tuple[str, ...]:
    """A warning if variant IDs repeat (``.`` is no ID); hashes first, since a set of millions of strings is large."""
    hashes = np.fromiter(map(hash, rs), np.int64, len(rs))
    ordered = np.sort(hashes)
    suspect = set(ordered[1:][ordered[1:] == ordered[:-1]].tolist()) - {hash(".")}
    if not suspect:
        return ()
    seen: set[str] = set()
    again: list[str] = []
    for row in np.flatnonzero(np.isin(hashes, list(suspect))):
        (again.append if rs[row] in seen else seen.add)(rs[row])
    if not again:
        return ()
    return (f"{show_path(path)}: {plural(len(again), 'variant')} with the ID of an earlier row ({some(again)})",)


# --- lists ------------------------------------------------------------------------------------------------------


def read_variant_list(path: PathLike, *, all_tokens: bool = False) -> dict[str, None]:
    """Read variant IDs: the first token of each line, or every token (as PLINK reads ``--extract``).

    Returns
    -------
    dict with str keys
        The IDs, each once, in file order.
    """
    wanted: dict[str, None] = {}
    for _, block in line_blocks(path):
        text = block.decode("utf-8", "surrogateescape")
        if all_tokens:
            wanted.update(dict.fromkeys(split_blank(text.replace("\n", " "))))
        else:
            wanted.update(dict.fromkeys(tokens[0] for tokens in map(split_blank, text.split("\n")) if tokens))
    if not wanted:
        raise InputError(f"{show_path(path)}: empty, expected a variant ID on each line")
    return wanted
