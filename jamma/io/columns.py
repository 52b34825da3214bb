"""Phenotype, covariate and weight files: numbers in .fam order, without a header.

What counts as missing differs between files, as it does for GEMMA: a .fam knows ``NA`` and -9; these files know ``NA``
and take -9 for a number, which is worth a warning. ``NaN``, ``nan`` and ``.``, which other programs write, are missing
too, with a warning, because GEMMA reads them as nan or 0. Anything else that is no number is an error; GEMMA reads 0.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from jamma.io.text import (
    FOREIGN_MISSING,
    FileProblems,
    PathLike,
    lines,
    not_a_number,
    parse_number,
    plural,
    show,
    some,
    split_comma,
)

F64 = NDArray[np.float64]

MAX_COLUMNS = 1000  # that are read although there are fewer individuals; more are no table of covariates

_TIGHT_COMMA = re.compile(r"[0-9],[0-9]")
_LEADING_ZERO = re.compile(r"[0-9],0[0-9]")
_BARE_BLANK = re.compile(r"[^, \t][ \t]+[^, \t]")
_TWO_WHOLE_NUMBERS = re.compile(r"\s*[+-]?[0-9]+,[0-9]+\s*")


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


class NumberParser:
    """Turns the tokens of one file into numbers, and counts what deserves a warning.

    Parameters
    ----------
    problems : FileProblems
        Where tokens that are no numbers go.
    minus_nine_missing : bool
        Whether -9 (in any spelling) means missing.
    """

    def __init__(self, problems: FileProblems, *, minus_nine_missing: bool) -> None:
        self._problems = problems
        self._minus_nine_missing = minus_nine_missing
        self._n_foreign = self._n_minus_nine = 0

    def __call__(self, token: str, row: int, column: int) -> float:
        """The number, or nan where it is missing or wrong."""
        if token == "NA":
            return np.nan
        if token in FOREIGN_MISSING:
            self._n_foreign += 1
            return np.nan
        value = parse_number(token)
        if value is None:
            self._problems.add(row, column, not_a_number(token))
            return np.nan
        if value == -9:
            self._n_minus_nine += 1
            return np.nan if self._minus_nine_missing else value
        return value

    def warnings(self, *, for_gemma: bool = True) -> list[str]:
        """What to say of values that GEMMA (if it has such files), or the user, may take for something else."""
        name = self._problems.path
        warnings = []
        if self._n_foreign and for_gemma:
            n = plural(self._n_foreign, "value")
            warnings.append(f"{name}: {n} NaN, nan or '.' taken as missing (GEMMA takes them for nan or 0)")
        if self._n_minus_nine and not self._minus_nine_missing:
            n = plural(self._n_minus_nine, "value")
            warnings.append(f"{name}: {n} -9 taken as the number -9; write NA if missing is meant")
        return warnings


def column_problems(columns: Sequence[int], n_columns: int, kind: str) -> list[str]:
    """What is wrong with a choice of columns (1-based): not there, or named twice."""
    have = f"the file has {plural(n_columns, kind + ' column')}" if n_columns else f"the file has no {kind}"
    wrong = []
    for c, times in Counter(columns).items():
        if not 1 <= c <= n_columns:
            wrong.append(f"{kind} column {c} was asked for, {have}; columns are numbered from 1")
        if times > 1:
            wrong.append(f"{kind} column {c} was asked for {times} times; name each column once")
    return wrong


def read_numbers(
    path: PathLike,
    split: Callable[[str], list[str]],
    columns: Sequence[int],
    n_rows: int,
    *,
    minus_nine_missing: bool,
) -> tuple[F64, list[str]]:
    """Read columns of numbers from a table that is known to be rectangular.

    Parameters
    ----------
    path : path
    split : callable
        Gives the tokens of a line.
    columns : sequence of int
        0-based.
    n_rows : int
    minus_nine_missing : bool

    Returns
    -------
    values : ndarray of float64, shape (n_rows, len(columns))
        nan where missing.
    warnings : list of str
    """
    values = np.full((n_rows, len(columns)), np.nan)
    problems = FileProblems(path)
    parse = NumberParser(problems, minus_nine_missing=minus_nine_missing)
    row = 0
    for row, line in islice(lines(path), n_rows):
        tokens = split(line)
        if len(tokens) <= max(columns, default=-1):
            problems.add(row, None, "shorter than when it was first read; did the file change?")
            break
        for k, c in enumerate(columns):
            values[row - 1, k] = parse(tokens[c], row, c + 1)
        if problems.full:
            break
    else:
        if row != n_rows:
            problems.add(row, None, "ends here, unlike when it was first read; did the file change?")
    problems.raise_if_any()
    return values, parse.warnings()


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
    problems = FileProblems(path)
    parse = NumberParser(problems, minus_nine_missing=False)
    first: list[str] = []
    picked: list[int] = []
    values = array("d")  # grows with the file, so that a false first row cannot ask for much
    labels: dict[int, list[str]] = {c: [] for c in text_columns}
    share: dict[str, str] = {}
    row, only_pairs = 0, True
    for row, line in lines(path):
        if row > n_samples or problems.full:
            continue  # only to count the rows
        tokens = split_comma(line)
        if row == 1:
            first = tokens
            picked = _pick(problems, columns, text_columns, len(first), n_samples, kind)
        only_pairs = only_pairs and _TWO_WHOLE_NUMBERS.fullmatch(line) is not None
        wrong = _row_problem(line, tokens, len(first))
        if wrong:
            problems.add(row, None, wrong)
            continue
        header = row == 1 and is_header([t for c, t in enumerate(tokens, 1) if c in picked and c not in labels])
        for c in picked:
            if c in labels:
                labels[c].append(share.setdefault(tokens[c - 1], label(tokens[c - 1])))
            elif not header:
                values.append(parse(tokens[c - 1], row, c))
    _check_row_count(problems, row, n_samples, first, text_columns)
    problems.raise_if_any()
    warnings = parse.warnings()
    if only_pairs and n_samples > 1:
        text = "two whole numbers with a comma between on every row are read as two columns"
        warnings.append(f"{problems.path}: {text}; write a decimal point if one number is meant")
    numbers = np.frombuffer(values, np.float64).reshape(n_samples, -1)
    return _number_table(numbers, labels, picked, kind, warnings)


def _pick(
    problems: FileProblems,
    columns: Sequence[int] | None,
    text_columns: Sequence[int],
    width: int,
    n_samples: int,
    kind: str,
) -> list[int]:
    """The columns to read of those asked for (None: all), with problems for those that are not there."""
    if columns is None and width > max(n_samples, MAX_COLUMNS):
        few = f"expected fewer than the {plural(n_samples, 'individual')}"
        problems.add(1, None, f"{plural(width, 'column')}, {few}; is the table transposed, or a matrix?")
        return []
    picked = list(range(1, width + 1)) if columns is None else list(columns)
    problems.extend(column_problems([*picked, *set(text_columns).difference(picked)], width, kind))
    return [c for c in picked if 1 <= c <= width]


def _number_table(
    numbers: F64, labels: dict[int, list[str]], picked: list[int], kind: str, warnings: list[str]
) -> NumberTable:
    """The columns of numbers, with columns of nan where labels belong."""
    place = {c: k for k, c in enumerate(picked)}
    values = np.full((len(numbers), len(picked)), np.nan)
    values[:, [k for c, k in place.items() if c not in labels]] = numbers
    return NumberTable(
        values=values, names=tuple(f"{kind} {c}" for c in picked),
        labels={place[c]: tokens for c, tokens in labels.items()}, warnings=tuple(warnings),
    )  # fmt: skip


def label(token: str) -> str:
    """A category's label; ``""`` where missing."""
    return "" if token == "NA" or token in FOREIGN_MISSING else token


def is_header(tokens: list[str]) -> bool:
    """Whether a row of tokens can only be column names: not one is a number or a missing value."""
    missing = FOREIGN_MISSING | {"NA"}
    return bool(tokens) and all(t not in missing and parse_number(t) is None for t in tokens)


def _row_problem(line: str, tokens: list[str], width: int) -> str | None:
    """What is wrong with the form of a row; None if nothing is."""
    if not tokens:
        return "blank line, expected the values of an individual; write NA where they are missing"
    if len(tokens) != width:
        hint = "a comma separates columns: write decimal points, and " if _TIGHT_COMMA.search(line) else "write "
        return f"{plural(len(tokens), 'column')}, expected {width} as in the first row; {hint}NA for missing values"
    if "," in line and _is_decimal_comma(line):
        return f"'{show(line.strip())}', expected columns between blanks or commas; write decimal points, not commas"
    return None


def _is_decimal_comma(line: str) -> bool:
    """Whether a comma of the line can only be a decimal comma.

    It stands between digits, and either the second part begins like that of ``0,05``, or blanks separate the columns.
    """
    if _LEADING_ZERO.search(line):
        return True
    return _TIGHT_COMMA.search(line) is not None and _BARE_BLANK.search(line.strip()) is not None


def _check_row_count(
    problems: FileProblems, n_rows: int, n_samples: int, first: list[str], text_columns: Sequence[int]
) -> None:
    """Add what is wrong with the number of rows, and a first row that is a header."""
    numeric = [t for c, t in enumerate(first, 1) if c not in text_columns]
    header = is_header(numeric or first)
    by_id = "--pheno and --covar read tables with a header and IDs"
    if header and n_rows == n_samples + 1:
        problems.add(1, None, f"a header ({some(first)}), expected the first individual; delete it, or see {by_id}")
    elif n_rows != n_samples:
        one = "one for each individual of the .fam, in its order"
        problems.add(None, None, f"{plural(n_rows, 'row')}, expected {n_samples:,}, {one}; {by_id}")
    if header and n_rows != n_samples + 1 and numeric:
        for c, token in enumerate(first, 1):
            if c not in text_columns:
                problems.add(1, c, not_a_number(token))
