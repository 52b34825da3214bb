"""Kinship as a list of pairs, GEMMA's ``-km 2``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from pathlib import Path

import numpy as np

from jamma._core import parse as _parse
from jamma.core.errors import MAX_PROBLEMS_SHOWN, InputError
from jamma.io.arrays import F64, I64, line_blocks, open_bytes

_TO_SPACES = bytes.maketrans(b"\t,\r", b"   ")


class _PairReader:
    """Fills a kinship from lines ``id1 id2 value``."""

    def __init__(self, path: Path, place: dict[bytes, int], n_samples: int, repeated: set[bytes]):
        self.path, self.place, self.repeated = path, place, repeated
        self.kinship = np.zeros((n_samples, n_samples))
        self.known = np.zeros((n_samples, n_samples), dtype=bool)
        self.line, self.n_lines, self.n_unknown = 0, 0, 0
        self.problems: list[str] = []

    def add(self, block: bytes) -> None:
        """Read a block of lines."""
        if not self._add_regular(block):
            self._add_each(block)

    def _add_regular(self, block: bytes) -> bool:
        """Read a block in which nothing is wrong or repeated; False, with nothing done, for any other."""
        starts = _parse.line_starts(block)
        numbers = np.full((len(starts) - 1, 3), np.nan)
        counts, _ = _parse.parse_numbers(block, starts, numbers)
        given = counts > 0
        values = numbers[given, 2]
        if self.repeated or not (counts[given] == 3).all() or not np.isfinite(values).all():
            return False
        fields = block.translate(_TO_SPACES).split()
        if len(fields) != 3 * len(values):  # other white space inside a field
            return False
        i, j = (np.fromiter(map(self.place.get, fields[k::3], repeat(-1)), np.int64, len(values)) for k in (0, 1))
        both = (i >= 0) & (j >= 0)
        i, j = i[both], j[both]
        place = np.maximum(i, j) * len(self.kinship) + np.minimum(i, j)
        if self.known[i, j].any() or len(np.unique(place)) < len(place):
            return False
        self.kinship[i, j] = self.kinship[j, i] = values[both]
        self.known[i, j] = self.known[j, i] = True
        self.line += len(starts) - 1
        self.n_lines += len(values)
        self.n_unknown += len(values) - len(place)
        return True

    def _add_each(self, block: bytes) -> None:
        """Read a block line by line, noting what is wrong."""
        for text in block.translate(_TO_SPACES).split(b"\n"):
            self.line += 1
            fields = text.split()
            if not fields:
                continue
            self.n_lines += 1
            if len(fields) != 3:
                self.problem(f"{len(fields)} columns, expected two IIDs and a number")
                continue
            self._store(*fields)
        self.line -= block.endswith(b"\n")  # the piece after the last line end is not a line

    def _store(self, first: bytes, second: bytes, text: bytes) -> None:
        """One line's value, into both triangles."""
        for name in (first, second):
            if name in self.repeated:
                self.problem(f"{_shown(name)} is the IID of several samples of the .fam, expected a unique one")
                return
        i, j = self.place.get(first), self.place.get(second)
        if i is None or j is None:
            self.n_unknown += 1
            return
        value = _parse.read_number(text)
        if value is None or not np.isfinite(value):
            self.problem(f"{_shown(text)}, expected a finite number", 3)
        elif self.known[i, j] and self.kinship[i, j] != value:
            before = self.kinship[i, j]
            self.problem(f"{value:.10g} for {_shown(first)} {_shown(second)}, which had {before:.10g} before", 3)
        else:
            self.kinship[i, j] = self.kinship[j, i] = value
            self.known[i, j] = self.known[j, i] = True

    def problem(self, text: str, column: int | None = None) -> None:
        """Note a problem of the current line; stop when there are many."""
        self.problems.append(f"{self.path}:{self.line}:{f'{column}:' if column else ''} {text}")
        if len(self.problems) > MAX_PROBLEMS_SHOWN:
            raise InputError(self.problems)


def _shown(name: bytes) -> str:
    """A name for a message."""
    return repr(name[:40].decode("utf-8", "backslashreplace"))


def read_kinship_list(path: Path, iid: Sequence[str], index: I64, notes: list[str] | None) -> F64:
    """The kinship of the analysed samples from lines ``id1 id2 value``.

    Parameters
    ----------
    path : Path
        Text, also gzipped. IDs are IIDs; pairs with an ID that is not analysed are passed over; pairs that are not
        listed are 0; a pair may be listed again, in either order, only with the same value.
    iid : sequence of str
        Of all samples of the .fam.
    index : ndarray of int64, shape (n_samples,)
        Rows of the .fam that are analysed.
    notes : list of str or None
        A line with the counts is added.

    Returns
    -------
    ndarray of float64, shape (n_samples, n_samples)

    Raises
    ------
    InputError
        A line has not three fields, a value is no finite number, values contradict each other, an IID that is used
        is that of several samples, or no pair is of analysed samples.
    """
    names = [iid[i].encode("utf-8", "surrogateescape") for i in index]
    place = {name: k for k, name in enumerate(names)}
    repeated: set[bytes] = set()
    if len(place) < len(names):
        seen: set[bytes] = set()
        for name in names:
            if name in seen:
                repeated.add(name)
            seen.add(name)
    reader = _PairReader(path, place, len(names), repeated)
    with open_bytes(path) as file:
        for block in line_blocks(file, path):
            reader.add(block)
    if reader.problems:
        raise InputError(reader.problems)
    n_used = reader.n_lines - reader.n_unknown
    if n_used == 0:
        raise InputError(
            f"{path}: none of its {reader.n_lines} pairs is of two analysed samples; IDs are compared with the IIDs of "
            f"the .fam, e.g. {_shown(names[0]) if names else 'none'}"
        )
    if notes is not None:
        n_absent = int(np.tril(~reader.known).sum())
        notes.append(
            f"{path}: {n_used} of {reader.n_lines} pairs are of analysed samples; {n_absent} pairs of analysed samples "
            "are not listed and taken as 0"
        )
    return reader.kinship
