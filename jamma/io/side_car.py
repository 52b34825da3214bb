"""Which sample each row of a kinship or eigenvector matrix is: a list of IDs beside the file.

Beside ``NAME.cXX.npy`` or ``NAME.cXX.txt`` (sXX, eigenU alike) jamma writes ``NAME.cXX.id.txt``: a header
``#FID IID diagonal`` and one row for each row of the matrix, tab-separated. With it, rows are found by FID and IID.
The third column is the diagonal of the matrix (for eigenvectors that of U diag(d) U') and proves that the side-car
is of this matrix: one that another program left stale is refused. A side-car made by hand needs only two columns.
Lines ``##name=value`` before the header hold what else the matrix depends on (chromosome left out, variants).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from jamma._core import parse as _parse
from jamma.core.errors import InputError
from jamma.io.arrays import F64, I64, open_bytes
from jamma.io.atomic import write_all

#: Largest disagreement with the diagonal, relative to its largest entry; text holds 10 digits.
TOLERANCE = 1e-6


def side_car_path(path: str | os.PathLike[str]) -> Path:
    """The side-car of sample IDs of a matrix file: ``STEM.id.txt`` for ``STEM.npy``, ``STEM.txt``, ``STEM.txt.gz``."""
    path = Path(path)
    name = path.name.removesuffix(".gz").removesuffix(".txt").removesuffix(".npy")
    return path.with_name(name + ".id.txt")


class SideCar:
    """Which sample each row of a matrix is.

    Attributes
    ----------
    path : Path
    ids : list of (str, str)
        FID and IID, a row each.
    diagonal : ndarray of float64, shape (rows,), or None
        Diagonal of the matrix.
    metadata : dict of str to str
        The ``##name=value`` lines.
    """

    def __init__(self, path: Path):
        self.path = path
        self.ids: list[tuple[str, str]] = []
        self.metadata: dict[str, str] = {}
        problems, diagonal = [], []
        with open_bytes(path) as file:
            lines = file.read().removeprefix(b"\xef\xbb\xbf").split(b"\n")
        in_header = True
        for number, line in enumerate(lines, 1):
            separator = b"\t" if b"\t" in line else None  # IDs may hold spaces where tabs are between them
            fields = [f.decode("utf-8", "surrogateescape") for f in line.strip().split(separator)]
            if in_header and line.startswith(b"##"):
                name, _, value = line[2:].decode("utf-8", "surrogateescape").strip().partition("=")
                self.metadata[name] = value
            elif in_header and fields and fields[0] == "#FID":
                in_header = False
            elif fields:
                in_header = False
                if len(fields) not in (2, 3):
                    problems.append(f"{path}:{number}: {len(fields)} columns, expected FID, IID and the diagonal")
                    continue
                self.ids.append((fields[0], fields[1]))
                value = _parse.read_number(fields[2].encode("utf-8", "replace")) if len(fields) == 3 else np.nan
                diagonal.append(np.nan if value is None else value)
                if value is None:
                    problems.append(f"{path}:{number}:3: {fields[2]!r}, expected a number")
        if problems:
            raise InputError(problems)
        self.diagonal: F64 | None = np.array(diagonal)
        if np.isnan(self.diagonal).any():
            self.diagonal = None

    def rows_of(self, wanted: Sequence[tuple[str, str]], matrix: Path) -> I64:
        """Row of the matrix of each wanted sample.

        Raises
        ------
        InputError
            A sample is not in the side-car, or it is there (or in the .fam) more than once and the order differs.
        """
        if list(wanted) == self.ids:
            return np.arange(len(self.ids), dtype=np.int64)
        row: dict[tuple[str, str], int] = {}
        repeated = set()
        for k, pair in enumerate(self.ids):
            if row.setdefault(pair, k) != k:
                repeated.add(pair)
        absent = [p for p in wanted if p not in row]
        if absent:
            raise InputError(
                f"{matrix}: {len(absent)} of {len(wanted)} analysed samples are not among its {len(self.ids)} rows "
                f"({self.path.name}), e.g. {_examples(absent)}: it is of other samples"
            )
        if len(set(wanted)) < len(wanted):
            seen: set[tuple[str, str]] = set()
            repeated |= {p for p in wanted if p in seen or seen.add(p)}  # type: ignore[func-returns-value]
        ambiguous = [p for p in dict.fromkeys(wanted) if p in repeated]
        if ambiguous:
            raise InputError(
                f"{self.path}: {len(ambiguous)} analysed samples have a FID and IID that occurs more than once, e.g. "
                f"{_examples(ambiguous)}: rows cannot be told apart; make the IDs unique"
            )
        return np.array([row[p] for p in wanted], dtype=np.int64)

    def check_diagonal(self, rows: I64, diagonal: F64, matrix: Path) -> None:
        """Refuse a side-car that was written for another matrix."""
        if self.diagonal is None or len(rows) == 0:
            return
        expected = self.diagonal[rows]
        difference = np.abs(expected - diagonal)
        if not difference.max() <= TOLERANCE * max(np.abs(expected).max(), np.abs(diagonal).max()):
            i = int(np.argmax(difference))
            raise InputError(
                f"{matrix}:{rows[i] + 1}:{rows[i] + 1}: {diagonal[i]:.10g}, but {self.path.name} was written for a "
                f"matrix with {expected[i]:.10g} there: one of the two files is stale; delete the side-car to take "
                "the rows in the order of the .fam, or write the matrix again"
            )


def _examples(pairs: Sequence[tuple[str, str]]) -> str:
    """Up to three samples as text."""
    return ", ".join(f"{fid} {iid}" for fid, iid in pairs[:3])


def write_side_car(
    path: Path, fid: Sequence[str], iid: Sequence[str], diagonal: F64, metadata: Mapping[str, str] | None
) -> None:
    """Write the side-car of the matrix file `path`."""
    lines = [f"##{name}={value}\n" for name, value in (metadata or {}).items()]
    lines.append("#FID\tIID\tdiagonal\n")
    lines += [f"{f}\t{i}\t{d:.10g}\n" for f, i, d in zip(fid, iid, diagonal.tolist(), strict=True)]
    write_all(side_car_path(path), ["".join(lines).encode("utf-8", "surrogateescape")])
