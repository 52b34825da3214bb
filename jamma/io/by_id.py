"""Files whose rows are matched to the .fam by ID: lists of individuals, and tables with a header."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

import numpy as np
from numpy.typing import NDArray

from jamma.core.errors import InputError
from jamma.io.columns import NumberParser, NumberTable, label
from jamma.io.tables import FamTable
from jamma.io.text import FileProblems, PathLike, lines, plural, show, show_path, some, split_blank

ID_NAMES = ("FID", "IID")
MAX_UNNAMED_COLUMNS = 1000  # a table of measurements, of which all were taken for covariates by mistake


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
    name = show_path(path)
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


# --- tables with a header ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Header:
    """The first row of a table: how rows are split, and where its columns are (0-based)."""

    delimiter: str | None
    names: list[str]
    fid: int | None
    iid: int
    columns: list[int]

    def split(self, line: str) -> list[str]:
        """The fields of a row; between tabs or commas a field may be empty."""
        return _split(line, self.delimiter)


def _split(line: str, delimiter: str | None) -> list[str]:
    """Fields between delimiters (None: runs of blanks); double quotes, as R and spreadsheets write them, come off."""
    if '"' in line:
        reader = csv.reader([line.replace("\t", " ") if delimiter is None else line], delimiter=delimiter or " ")
        fields = [f.strip() for row in reader for f in row]
        return [f for f in fields if f] if delimiter is None else fields
    return split_blank(line) if delimiter is None else [f.strip() for f in line.split(delimiter)]


def read_table_by_id(
    path: PathLike,
    fam: FamTable,
    names: Sequence[str] = (),
    *,
    option: str,
    columns: Sequence[int] | None = None,
    text_columns: Sequence[int | str] = (),
    minus_nine_missing: bool = False,
) -> NumberTable:
    """Read a table with a header and IDs (``--pheno``, ``--covar``), and put its rows into .fam order.

    Parameters
    ----------
    path : path
        Columns between tabs, commas, or runs of blanks (whichever the header has, in this order), in any order; one is
        named ``IID``; where one is named ``FID``, both must agree with the .fam. Rows in any order. Missing: ``NA``,
        ``NaN``, ``nan``, ``.`` or an empty field.
    fam : FamTable
    names : sequence of str
        Columns to read, by name.
    option : str
        For the messages.
    columns : sequence of int, optional
        Columns to read where `names` is empty, 1-based among those that are not IDs; None: all of these.
    text_columns : sequence of int or str
        Columns that hold labels: by name, or 1-based among those that are read.
    minus_nine_missing : bool
        Whether -9 is missing, as PLINK has it for phenotypes. Individuals that the table does not name are, too.

    Raises
    ------
    InputError
        No usable header, unknown or repeated columns, ragged rows, text in a column of numbers, an ID twice in the
        table or (where it matters) in the .fam, no individual matched.
    """
    problems = FileProblems(path)
    rows = lines(path)
    header = _read_header(rows, problems, option, names, columns)
    text = _text_columns(problems, text_columns, [header.names[c] for c in header.columns])
    parse = NumberParser(problems, minus_nine_missing=minus_nine_missing)
    match = _Matcher(fam, problems, with_fid=header.fid is not None)
    table = NumberTable(
        values=np.full((fam.n_samples, len(header.columns)), np.nan),
        names=tuple(header.names[c] for c in header.columns),
        labels={k: [""] * fam.n_samples for k in text},
    )
    for row, fields in _fields(rows, header, problems):
        i = match(row, fields[header.fid] if header.fid is not None else "", fields[header.iid])
        for k, c in enumerate(header.columns if i >= 0 else ()):
            if k in text:
                table.labels[k][i] = label(fields[c])
            elif fields[c]:
                table.values[i, k] = parse(fields[c], row, c + 1)
    match.check()
    problems.raise_if_any()
    notes, warnings = match.report()
    return replace(table, notes=notes, warnings=(*warnings, *parse.warnings(for_gemma=False)))


def _read_header(
    rows: Iterator[tuple[int, str]],
    problems: FileProblems,
    option: str,
    names: Sequence[str],
    columns: Sequence[int] | None,
) -> _Header:
    """The header, checked; raises `InputError` if it is of no use."""
    _, line = next(rows, (1, ""))
    delimiter = "\t" if "\t" in line else "," if "," in line else None
    try:
        header = _split(line, delimiter)
    except csv.Error as error:
        raise InputError(f"{problems.path}:1: {error}") from None
    ids = {name: [c for c, h in enumerate(header) if h.lstrip("#").upper() == name] for name in ID_NAMES}
    if not ids["IID"]:
        hint = "; columns are separated by tabs, commas or spaces, not semicolons" if ";" in line else ""
        expected = "expected a header with IID, or FID and IID, and the names of the columns"
        problems.add(1, None, f"'{show(line)}', {expected}{hint}")
        problems.raise_if_any()
    for name, found in ids.items():
        if len(found) > 1:
            problems.add(1, None, f"{len(found)} columns named {name}, expected one")
    data = np.delete(np.arange(len(header)), [c for found in ids.values() for c in found])
    chosen = _choose(header, data, option, names, columns, problems)
    problems.raise_if_any()
    if not chosen:
        raise InputError(f"{problems.path}:1: no column but the IDs, expected at least one")
    return _Header(delimiter, header, ids["FID"][0] if ids["FID"] else None, ids["IID"][0], chosen)


def _choose(
    header: list[str],
    data: NDArray[np.int64],
    option: str,
    names: Sequence[str],
    columns: Sequence[int] | None,
    problems: FileProblems,
) -> list[int]:
    """The columns (0-based) that are asked for by name or number, or all of them."""
    if names:
        return [c for name in names for c in _find_column(header, data, name, option, problems)]
    if columns is not None:
        for c in columns:
            if not 1 <= c <= len(data):
                have = f"the table has {len(data)} ({some_names(header, data)})"
                problems.add(1, None, f"column {c} was asked for, {have}")
        return [int(data[c - 1]) for c in columns if 1 <= c <= len(data)]
    if len(data) > MAX_UNNAMED_COLUMNS:
        hint = f"name those that you want by {option}-name"
        problems.add(1, None, f"{len(data):,} columns, expected at most {MAX_UNNAMED_COLUMNS:,}; {hint}")
        return []
    return data.tolist()


def _fields(
    rows: Iterator[tuple[int, str]], header: _Header, problems: FileProblems
) -> Iterator[tuple[int, list[str]]]:
    """Row numbers and fields of the rows below the header; those that do not fit it are problems."""
    for row, line in rows:
        if problems.full:
            return
        try:
            fields = header.split(line)
        except csv.Error as error:
            problems.add(row, None, f"{error}; expected fields between double quotes, or none")
            continue
        if len(fields) == len(header.names):
            yield row, fields
        else:
            n = plural(len(fields), "field")
            problems.add(row, None, f"{n}, expected {len(header.names)} as in the header; write NA for missing values")


def some_names(header: list[str], data: NDArray[np.int64]) -> str:
    """The names of the columns that are not IDs, for a message."""
    return some([header[c] for c in data[:13]], 12)


def _find_column(
    header: list[str], data: NDArray[np.int64], name: str, option: str, problems: FileProblems
) -> list[int]:
    """The column of that name; a problem if there is none, or more than one."""
    found = [int(c) for c in data if header[c] == name]
    if len(found) == 1:
        return found
    if found:
        problems.add(1, None, f"{len(found)} columns named '{show(name)}' ({option}-name), expected one")
    else:
        near = get_close_matches(name, [header[c] for c in data[:10_000]], n=1)
        hint = f"; did you mean '{show(near[0])}'?" if near else f"; it has {some_names(header, data)}"
        problems.add(1, None, f"no column '{show(name)}' ({option}-name){hint}")
    return []


def _text_columns(problems: FileProblems, wanted: Sequence[int | str], names: list[str]) -> set[int]:
    """Which of the columns that are read hold labels, 0-based."""
    found = set()
    for w in wanted:
        k = w - 1 if isinstance(w, int) else names.index(w) if w in names else -1
        if 0 <= k < len(names):
            found.add(k)
        else:
            problems.add(
                1, None, f"-cat {show(w)}: no such column is read; expected 1 to {len(names)}, or {some(names, 12)}"
            )
    return found


class _Matcher:
    """Finds the individual of each row of a table, and keeps account of who was found."""

    def __init__(self, fam: FamTable, problems: FileProblems, *, with_fid: bool) -> None:
        self._fam, self._problems, self._with_fid = fam, problems, with_fid
        self._where: dict[tuple[str, str], int] = {}
        self._ambiguous: dict[tuple[str, str], int] = {}
        for i, key in enumerate(zip(fam.fid if with_fid else [""] * fam.n_samples, fam.iid, strict=True)):
            if self._where.setdefault(key, i) != i:
                self._ambiguous[key] = i
        self._row_of = np.zeros(fam.n_samples, np.int64)
        self._n_rows = self._n_unmatched = 0
        self._examples: list[str] = []

    def __call__(self, row: int, fid: str, iid: str) -> int:
        """The individual's row of the .fam, 0-based; -1 if there is none, or not just one."""
        self._n_rows += 1
        key = (fid if self._with_fid else "", iid)
        i = self._where.get(key, -1)
        shown = self._name(*key)
        if i < 0:
            self._n_unmatched += 1
            if len(self._examples) < 4:
                self._examples.append(shown)
        elif key in self._ambiguous:
            hint = "rows of the same ID cannot be told apart" if self._with_fid else "give FID and IID in the table"
            also = f"rows {i + 1} and {self._ambiguous[key] + 1} of {show_path(self._fam.path)}"
            self._problems.add(
                row, None, f"'{show(shown)}', expected an ID of one individual, but {also} have it; {hint}"
            )
            return -1
        elif self._row_of[i]:
            self._problems.add(row, None, f"'{show(shown)}', expected one row for each individual, but row "
                               f"{self._row_of[i]} is of the same; delete one")  # fmt: skip
            return -1
        else:
            self._row_of[i] = row
        return i

    def _name(self, fid: str, iid: str) -> str:
        return f"{fid} {iid}" if self._with_fid else iid

    def _ids(self) -> str:
        return "FID and IID" if self._with_fid else "IID"

    def check(self) -> None:
        """Add a problem if no row of the table is of an individual."""
        if self._problems or self._row_of.any():
            return
        fam = self._fam
        expected = (
            f"expected {self._ids()} as in {show_path(fam.path)}, such as '{show(self._name(fam.fid[0], fam.iid[0]))}'"
        )
        iids = {e.split(" ", 1)[-1] for e in self._examples}
        hint = "; without its FID column it would match by IID alone" if self._with_fid and iids & set(fam.iid) else ""
        rows = f"none of {plural(self._n_rows, 'row')} is of an individual ({some(self._examples)})"
        self._problems.add(None, None, f"{rows}, {expected}{hint}" if self._n_rows else "no rows below the header")

    def report(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Notes and warnings: how many were matched, and not, with examples."""
        fam, name = self._fam, self._problems.path
        absent = np.flatnonzero(self._row_of == 0)
        matched = (
            f"{name}: {fam.n_samples - len(absent):,} of {plural(fam.n_samples, 'individual')} matched by {self._ids()}"
        )
        warnings = []
        if len(absent):
            who = [self._name(fam.fid[i], fam.iid[i]) for i in absent[:4]]
            warnings.append(f"{name}: {plural(len(absent), 'individual')} of the .fam not in the table ({some(who)})")
        if self._n_unmatched:
            n = f"{self._n_unmatched:,} of {plural(self._n_rows, 'row')}"
            warnings.append(f"{name}: {n} of the table not in the .fam ({some(self._examples)})")
        return (matched,), tuple(warnings)
