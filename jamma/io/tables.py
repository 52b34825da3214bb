"""The positional tables: .fam, .bim, phenotypes, covariates, weights, and lists of variants and of individuals.

Rows are known by their position, never by their ID, so duplicate IDs do no harm. Everything that is wrong with a file
is told at once, as ``file:row:column: what was read, what was expected, what to do``. What counts as missing differs
between files (as it does for GEMMA): a .fam knows ``NA`` and -9; phenotype, covariate and weight files know ``NA`` and
take -9 for a number, which is worth a warning. ``NaN``, ``nan`` and ``.``, which other programs write, are missing too,
with a warning, because GEMMA reads them as nan or 0.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jamma.core.errors import InputError
from jamma.io.text import (
    FOREIGN_MISSING,
    FileProblems,
    line_blocks,
    lines,
    not_a_number,
    parse_number,
    plural,
    show,
    some,
    split_blank,
    split_comma,
)

PathLike = str | os.PathLike[str]
F64 = NDArray[np.float64]

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

    def phenotypes(self, columns: Sequence[int]) -> tuple[F64, list[str]]:
        """Read phenotype columns (1-based; 1 is the sixth column of the file) from the file.

        Returns
        -------
        values : ndarray of float64, shape (n_samples, len(columns))
            nan where missing (``NA`` or -9).
        warnings : list of str
        """
        check_columns(self.path, columns, self.n_phenotypes, "phenotype")
        picked = [N_FAM_ID_COLUMNS + c - 1 for c in columns]
        return _read_numbers(self.path, _split_fam, picked, self.n_samples, minus_nine_missing=True)


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


@dataclass(frozen=True, kw_only=True)
class NumberTable:
    """Numbers by individual, in .fam order.

    Attributes
    ----------
    values : ndarray of float64, shape (n_samples, n_columns)
        nan where missing.
    names : tuple of str
        Column names for the log.
    labels : dict of int to list of str
        Columns (0-based) that were asked for as text, with their tokens; ``""`` where missing. Their values are nan.
    notes, warnings : tuple of str
    """

    values: F64
    names: tuple[str, ...]
    labels: dict[int, list[str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def check_columns(path: PathLike, columns: Sequence[int], n_columns: int, kind: str) -> None:
    """Raise `InputError` unless every column number is one of 1 to `n_columns` and none is repeated."""
    problems = FileProblems(path)
    for c in columns:
        if not 1 <= c <= n_columns:
            have = f"the file has {plural(n_columns, kind + ' column')}" if n_columns else f"the file has no {kind}"
            problems.add(None, None, f"{kind} column {c} was asked for, {have}; columns are numbered from 1")
    for c in sorted({c for c in columns if columns.count(c) > 1}):
        problems.add(None, None, f"{kind} column {c} was asked for twice; name each column once")
    problems.raise_if_any()


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
        f"{show(Path(path))}: {plural(len(again), 'individual')} with FID and IID of an earlier row ({some(again)})",
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
        for back in range(min(n_blank, 30), 0, -1):
            problems.add(first - back, None, "blank line, expected a variant; delete it")
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
    return (f"{show(Path(path))}: {plural(len(again), 'variant')} with the ID of an earlier row ({some(again)})",)


# --- numbers by position ----------------------------------------------------------------------------------------


def _read_numbers(
    path: PathLike,
    split: Callable[[str], list[str]],
    columns: Sequence[int],
    n_rows: int,
    *,
    minus_nine_missing: bool,
) -> tuple[F64, list[str]]:
    """Columns (0-based) of numbers from a table of `n_rows` rows without a header; nan where missing."""
    values = np.full((n_rows, len(columns)), np.nan)
    problems = FileProblems(path)
    n_foreign = n_minus_nine = 0
    for row, line in lines(path):
        if row > n_rows:
            break
        tokens = split(line)
        for k, c in enumerate(columns):
            token = tokens[c]
            if token == "NA":
                continue
            if token in FOREIGN_MISSING:
                n_foreign += 1
                continue
            value = parse_number(token)
            if value is None:
                problems.add(row, c + 1, not_a_number(token))
            elif value == -9:
                n_minus_nine += 1
                if not minus_nine_missing:
                    values[row - 1, k] = value
            else:
                values[row - 1, k] = value
        if problems.full:
            break
    problems.raise_if_any()
    return values, _missing_warnings(path, n_foreign, 0 if minus_nine_missing else n_minus_nine)


def _missing_warnings(path: PathLike, n_foreign: int, n_minus_nine: int) -> list[str]:
    """What to say of values that GEMMA, or the user, may take for something else."""
    name = show(Path(path))
    warnings = []
    if n_foreign:
        warnings.append(f"{name}: {plural(n_foreign, 'value')} NaN, nan or '.' taken as missing (GEMMA: 0 or nan)")
    if n_minus_nine:
        warnings.append(
            f"{name}: {plural(n_minus_nine, 'value')} -9 taken as the number -9; write NA if missing is meant"
        )
    return warnings


def read_matrix(
    path: PathLike, n_samples: int, *, kind: str, columns: Sequence[int] | None = None, text_columns: Sequence[int] = ()
) -> NumberTable:
    """Read a phenotype, covariate or weight file: one row an individual, in .fam order, no header.

    Parameters
    ----------
    path : path
        Tokens between spaces, tabs or commas (runs collapse, as for GEMMA).
    n_samples : int
        Individuals of the .fam: the number of rows expected.
    kind : {"phenotype", "covariate", "weight"}
        For the messages.
    columns : sequence of int, optional
        1-based columns to read; None: all.
    text_columns : sequence of int
        1-based columns whose tokens are labels (``-cat``).

    Raises
    ------
    InputError
        Unreadable, ragged, wrong number of rows, text where a number belongs, decimal commas, a header.
    """
    width = _check_shape(path, n_samples, kind)
    check_columns(path, text_columns, width, kind)
    picked = list(range(1, width + 1)) if columns is None else list(columns)
    check_columns(path, picked, width, kind)
    numeric = [c for c in picked if c not in text_columns]
    found, warnings = _read_numbers(path, split_comma, [c - 1 for c in numeric], n_samples, minus_nine_missing=False)
    values = np.full((n_samples, len(picked)), np.nan)
    values[:, [picked.index(c) for c in numeric]] = found
    labels = {picked.index(c): _read_labels(path, c - 1, n_samples) for c in text_columns if c in picked}
    names = tuple(f"{kind} {c}" for c in picked)
    return NumberTable(values=values, names=names, labels=labels, warnings=tuple(warnings))


def _read_labels(path: PathLike, column: int, n_samples: int) -> list[str]:
    """The tokens of one column; ``""`` where missing."""
    tokens = [split_comma(line)[column] for row, line in lines(path) if row <= n_samples]
    return ["" if t == "NA" or t in FOREIGN_MISSING else t for t in tokens]


def _check_shape(path: PathLike, n_samples: int, kind: str) -> int:
    """The number of columns of a table that must be rectangular and have `n_samples` rows."""
    problems = FileProblems(path)
    width = n_rows = 0
    header = False
    for row, line in lines(path):
        n_rows = row
        if row > n_samples + 1:
            continue
        tokens = split_comma(line)
        if row == 1:
            width = len(tokens)
            header = bool(tokens) and all(parse_number(t) is None for t in tokens) and "NA" not in tokens
        if not tokens:
            problems.add(row, None, "blank line, expected the values of an individual; write NA where they are missing")
        elif len(tokens) != width:
            problems.add(
                row, None,
                f"{plural(len(tokens), 'column')}, expected {width} as in the first row; "
                "write NA for a missing value, and a decimal point, not a comma",
            )  # fmt: skip
        elif _has_decimal_comma(line):
            problems.add(row, None, f"'{show(line.strip())}', expected numbers with a decimal point, not a comma")
        if problems.full:
            break
    if n_rows != n_samples and not problems.full:
        hint = "; the first row looks like a header: delete it" if header and n_rows == n_samples + 1 else ""
        problems.add(None, None, f"{plural(n_rows, 'row')}, expected {n_samples:,}, one for each row of the .fam{hint}")
    problems.raise_if_any()
    return width


def _has_decimal_comma(line: str) -> bool:
    """Whether a comma in the line can only be a decimal comma: digits on both sides, the second part as in ``0,05``."""
    head, comma, tail = line.partition(",")
    while comma:
        if head[-1:].isdigit() and tail[:1] == "0" and tail[1:2].isdigit():
            return True
        head, comma, tail = tail.partition(",")
    return False


# --- lists ------------------------------------------------------------------------------------------------------


def read_variant_list(path: PathLike, *, all_tokens: bool = False) -> dict[str, int]:
    """Read variant IDs: the first token of each line, or every token (as PLINK reads ``--extract``).

    Returns
    -------
    dict of str to int
        Each ID with the row that first named it, in file order.
    """
    wanted: dict[str, int] = {}
    for row, line in lines(path):
        for token in split_blank(line)[: None if all_tokens else 1]:
            wanted.setdefault(token, row)
    if not wanted:
        raise InputError(f"{show(Path(path))}: empty, expected a variant ID on each line")
    return wanted


def match_individuals(path: PathLike, fam: FamTable) -> tuple[NDArray[np.bool_], list[str]]:
    """Which individuals a ``--keep`` or ``--remove`` file names.

    Parameters
    ----------
    path : path
        A line an individual: FID and IID, or an IID alone, which stands for every individual that has it; further
        tokens are ignored, as by PLINK. A first line ``#FID IID``, ``FID IID`` or ``IID`` is a header.

    Returns
    -------
    mask : ndarray of bool, shape (n_samples,)
    warnings : list of str
        How many lines name nobody, with examples.
    """
    by_both = set(zip(fam.fid, fam.iid, strict=True))
    by_iid = set(fam.iid)
    both: set[tuple[str, str]] = set()
    alone: set[str] = set()
    unmatched: list[str] = []
    n_lines = 0
    for tokens in _id_lines(path):
        n_lines += 1
        if len(tokens) == 1 and tokens[0] in by_iid:
            alone.add(tokens[0])
        elif len(tokens) > 1 and (tokens[0], tokens[1]) in by_both:
            both.add((tokens[0], tokens[1]))
        else:
            unmatched.append(" ".join(tokens[:2]))
    name = show(Path(path))
    if n_lines == len(unmatched):
        expected = f"expected FID and IID, or IID, of {fam.path.name}, such as {some([f'{fam.fid[0]} {fam.iid[0]}'])}"
        raise InputError(
            f"{name}: {plural(n_lines, 'line')}, none names an individual ({some(unmatched)}); {expected}"
            if n_lines
            else f"{name}: empty, {expected}"
        )
    mask = np.fromiter(
        ((f, i) in both or i in alone for f, i in zip(fam.fid, fam.iid, strict=True)), bool, len(fam.iid)
    )
    missed = f"{name}: {len(unmatched):,} of {plural(n_lines, 'line')} name no individual ({some(unmatched)})"
    return mask, [missed] if unmatched else []


def _id_lines(path: PathLike) -> Iterator[list[str]]:
    """The tokens of each line of an ID list, without a header and without blank lines."""
    for row, line in lines(path):
        tokens = split_blank(line)
        if row == 1 and tokens and tokens[0].lstrip("#").upper() in ("FID", "IID"):
            continue
        if tokens:
            yield tokens
