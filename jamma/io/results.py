"""Association results back from files: some columns of all rows, or everything as a structured array.

Text is read in blocks of whole lines of which only the wanted fields are parsed, on several threads.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jamma._core import parse as _core_parse
from jamma.core.errors import MAX_PROBLEMS_SHOWN, InputError, UsageError
from jamma.io.arrays import F64, I64, line_blocks, open_bytes
from jamma.io.formats import INTEGER_COLUMNS, TEXT_COLUMNS

#: Names that other formats have for GEMMA's columns.
ALIASES = {
    "chromosome": "chr", "base_pair_location": "ps", "effect_allele": "allele1", "other_allele": "allele0",
    "effect_allele_frequency": "af", "standard_error": "se", "variant_name": "rs",
}  # fmt: skip


@dataclass(frozen=True)
class Names:
    """A column of text: places in a block of bytes.

    Attributes
    ----------
    data : bytes
        The block.
    places : ndarray of int64, shape (rows, 2)
        Begin and end of each row's text.
    """

    data: bytes
    places: I64

    def __getitem__(self, rows: NDArray[np.bool_] | I64) -> list[str]:
        """The texts of some rows."""
        return [self.data[a:b].decode("utf-8", "surrogateescape") for a, b in self.places[rows].tolist()]

    def texts(self) -> list[str]:
        """The texts of all rows."""
        return self[np.arange(len(self.places))]

    def runs(self) -> tuple[I64, list[str]]:
        """Rows where the text changes (and the first), and the texts from there on."""
        first = _core_parse.runs(self.data, self.places)
        return first, self[first]


def is_parquet(path: Path) -> bool:
    """Does the file begin like Parquet?"""
    with open_bytes(path) as file:
        return bool(file.read(4) == b"PAR1")


def column_names(path: str | os.PathLike[str]) -> list[str]:
    """The columns of a result file under GEMMA's names; others keep theirs.

    Raises
    ------
    InputError
        The file cannot be read or is empty.
    """
    path = Path(path)
    if is_parquet(path):
        return [ALIASES.get(name, name) for name in _parquet(path).schema_arrow.names]
    with open_bytes(path) as file:
        line = file.readline(1 << 20).removeprefix(b"\xef\xbb\xbf").rstrip(b"\r\n")
    names = [ALIASES.get(name, name) for name in line.decode("utf-8", "surrogateescape").split("\t")]
    if len(names) < 2 or "" in names:
        raise InputError(
            f"{path}:1: {' '.join(names)[:40]!r}, expected the tab-separated header of an association result"
        )
    if len(set(names)) < len(names):
        raise InputError(f"{path}:1: the header names a column twice")
    return names


def read_blocks(
    path: str | os.PathLike[str], wanted: Sequence[str], n_threads: int = 1
) -> Iterator[dict[str, F64 | Names]]:
    """Some columns of a result, a block of rows after the other.

    Parameters
    ----------
    path : path-like
        .assoc.txt, the same gzipped, GWAS-SSF or Parquet.
    wanted : sequence of str
        Columns by GEMMA's names. chr, rs and the alleles come as `Names`, the others as float64.
    n_threads : int
        Threads that parse.

    Raises
    ------
    InputError
        The file cannot be read, lacks a column, has a row of another length or a field that is no number.
    """
    path = Path(path)
    names = column_names(path)
    absent = [name for name in wanted if name not in names]
    if absent:
        raise InputError(f"{path}:1: no column {', '.join(absent)}; it has {', '.join(names)[:500]}")
    columns = sorted(names.index(name) for name in wanted)
    if is_parquet(path):
        yield from _parquet_blocks(path, columns, names)
        return
    line = 1
    with open_bytes(path) as file:
        for block in line_blocks(file, path, len(names)):
            starts = _core_parse.line_starts(block)[1 if line == 1 else 0 :]
            yield _parse(path, block, starts, columns, names, line + (line == 1), n_threads)
            line += len(starts) - (line != 1)


def _parse(
    path: Path, block: bytes, starts: I64, columns: list[int], names: list[str], first_line: int, n_threads: int
) -> dict[str, F64 | Names]:
    """The wanted columns of a block's lines; blank lines at the end of the file are passed over."""
    while len(starts) > 1 and not block[starts[-2] : starts[-1] - 1].strip():
        starts = starts[:-1]
    n = len(starts) - 1
    outputs: list[Any] = [
        np.zeros((n, 2), dtype=np.int64) if names[c] in (*TEXT_COLUMNS, "rsid") else np.empty(n) for c in columns
    ]
    counts = _core_parse.parse_table(block, starts, columns, outputs, n_threads)
    problems = []
    for i in np.flatnonzero(counts != len(names))[: MAX_PROBLEMS_SHOWN + 1]:
        where, k = f"{path}:{first_line + i}", int(counts[i])
        if k < 0:
            fields = block[starts[i] : starts[i + 1] - 1].split(b"\t")
            token = fields[-1 - k].strip()[:40].decode("utf-8", "backslashreplace")
            problems.append(f"{where}:{-k}: {token!r}, expected a number ({names[-1 - k]})")
        else:
            problems.append(f"{where}: {k} columns, the header has {len(names)}: damaged or cut short")
    if problems:
        raise InputError(problems)
    return {names[c]: Names(block, out) if out.ndim == 2 else out for c, out in zip(columns, outputs, strict=True)}


def _parquet(path: Path) -> Any:
    """The file through pyarrow."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise UsageError(f"{path}: reading Parquet needs pyarrow: pip install 'jamma[parquet]'") from error
    try:
        return pyarrow.parquet.ParquetFile(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{path}: damaged Parquet file ({' '.join(str(error).split())[:200]})") from error


def _parquet_blocks(path: Path, columns: list[int], names: list[str]) -> Iterator[dict[str, F64 | Names]]:
    """Blocks of a Parquet file."""
    file = _parquet(path)
    stored = file.schema_arrow.names
    for batch in file.iter_batches(batch_size=1 << 17, columns=[stored[c] for c in columns]):
        out: dict[str, F64 | Names] = {}
        for c in columns:
            column = batch.column(batch.schema.get_field_index(stored[c]))
            if names[c] in TEXT_COLUMNS:
                texts = [str(t).encode() for t in column.to_pylist()]
                ends = np.cumsum([len(t) for t in texts], dtype=np.int64)
                places = np.column_stack([ends - np.array([len(t) for t in texts], dtype=np.int64), ends])
                out[names[c]] = Names(b"".join(texts), np.ascontiguousarray(places))
            else:
                out[names[c]] = np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
        yield out


def associations(path: str | os.PathLike[str], n_threads: int = 1) -> NDArray[np.void]:
    """All rows of a result as a structured array.

    Parameters
    ----------
    path : path-like
        .assoc.txt (of jamma or GEMMA), the same gzipped, or Parquet.
    n_threads : int
        Threads that parse.

    Returns
    -------
    structured ndarray, shape (rows,)
        A field for each column, in the order of the file: str for chr, rs and alleles, int64 for ps, n_miss, n and
        n_obs, float64 for the others.

    Raises
    ------
    InputError
        See `read_blocks`.
    """
    names = column_names(path)
    parts: dict[str, list[Any]] = {name: [] for name in names}
    for block in read_blocks(path, names, n_threads):
        for name, column in block.items():
            parts[name].append(np.array(column.texts()) if isinstance(column, Names) else column)
    arrays = {}
    for name, pieces in parts.items():
        filled = [p for p in pieces if len(p)]
        if name in (*TEXT_COLUMNS, "rsid"):
            arrays[name] = np.concatenate(filled) if filled else np.zeros(0, dtype="U1")
        else:
            numbers = np.concatenate(filled) if filled else np.zeros(0)
            whole = name in INTEGER_COLUMNS and bool(np.isfinite(numbers).all())
            arrays[name] = numbers.astype(np.int64) if whole else numbers
    out = np.empty(len(arrays[names[0]]), dtype=[(name, arrays[name].dtype) for name in names])
    for name in names:
        out[name] = arrays[name]
    return out
