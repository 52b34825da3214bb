"""Matrices of numbers from text and .npy files, only the rows and columns that are wanted, and back.

Text is read in blocks of whole lines, .npy through a memory map: a file of all samples can be larger than memory
when the analysed ones fit. Nothing is ever unpickled; sizes in a header are believed only where the file has them.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jamma._core import format as _format
from jamma._core import parse as _parse
from jamma.core.errors import MAX_PROBLEMS_SHOWN, InputError
from jamma.io.atomic import AtomicFile, write_all

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

BLOCK_BYTES = 8 << 20
MIN_LINE_LIMIT = 64 << 20  # a longer line is refused unless so many numbers are expected on it
BYTES_PER_NUMBER = 64
NPY_MAGIC = b"\x93NUMPY"
DELIMITERS = b" \t,\r"


def newest_sibling(path: str | os.PathLike[str], notes: list[str] | None = None) -> Path:
    """The file to read where text was named: its .npy sibling if that is at least as recent.

    Parameters
    ----------
    path : path-like
        Any path. Only ``STEM.txt`` and ``STEM.txt.gz`` have the sibling ``STEM.npy``.
    notes : list of str, optional
        A line is added where another file than `path` is returned.

    Returns
    -------
    Path
        The sibling where it exists and its modification time is not before that of `path` (or `path` does not
        exist), else `path`.
    """
    path = Path(path)
    stem = path.name.removesuffix(".gz")
    if not stem.endswith(".txt"):
        return path
    sibling = path.with_name(stem.removesuffix(".txt") + ".npy")
    try:
        binary = sibling.stat().st_mtime_ns
    except OSError:
        return path
    try:
        text = path.stat().st_mtime_ns
    except FileNotFoundError:
        text = None
    if text is not None and text > binary:
        return path
    if notes is not None:
        why = "there is no" if text is None else "it is not older than"
        notes.append(f"{sibling} was read: {why} {path.name}")
    return sibling


@contextlib.contextmanager
def open_bytes(path: Path) -> Iterator[Any]:
    """Open a file for reading, through gzip where it begins like one; what cannot be read is an `InputError`."""
    try:
        with open(path, "rb") as raw:
            is_gzip = raw.peek(2)[:2] == b"\x1f\x8b"
            if is_gzip:
                with gzip.GzipFile(fileobj=raw) as file:
                    yield file
            else:
                yield raw
    except FileNotFoundError:
        raise InputError(f"{path}: no such file{_other_ending(path)}") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path}: damaged gzip file ({error})") from error
    except OSError as error:
        if error.filename is None and error.errno is None:
            raise
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


def _other_ending(path: Path) -> str:
    """A hint at a file with the same stem and another ending, where there is one."""
    stem = path.name.removesuffix(".gz").removesuffix(".txt").removesuffix(".npy")
    for ending in (".npy", ".txt", ".txt.gz"):
        other = path.with_name(stem + ending)
        if other != path and other.exists():
            return f"; there is {other}"
    return ""


def line_blocks(file: Any, path: Path, n_columns: int = 0) -> Iterator[bytes]:
    """Blocks of whole lines, about 8 MiB each, without a byte-order mark."""
    limit = max(MIN_LINE_LIMIT, BYTES_PER_NUMBER * n_columns)
    first = True
    while block := file.read(BLOCK_BYTES):
        if not block.endswith(b"\n"):
            rest = file.readline(limit)
            if len(rest) >= limit:
                raise InputError(f"{path}: a line of more than {limit} bytes, expected lines of numbers")
            block += rest
        yield block.removeprefix(b"\xef\xbb\xbf") if first else block
        first = False


class _TextReader:
    """Fills the wanted entries of a matrix from blocks of lines and collects what is wrong."""

    def __init__(
        self, path: Path, shape: tuple[int, int], rows: I64, columns: I64, expected: str, order: str, n_threads: int
    ):
        self.path, self.shape, self.columns, self.expected = path, shape, columns, expected
        self.n_threads = n_threads
        self.place = np.full(shape[0], -1, dtype=np.int64)
        self.place[rows] = np.arange(len(rows))
        self.out: F64 = np.empty((len(rows), len(columns)), order="F" if order == "F" else "C")
        self.all_columns = len(columns) == shape[1] and bool((columns == np.arange(shape[1])).all())
        self.row = 0  # of the matrix
        self.line = 0  # of the file
        self.problems: list[str] = []

    def add(self, block: bytes) -> None:
        """Parse a block."""
        starts = _parse.line_starts(block)
        n_lines = len(starts) - 1
        step = max(1, BLOCK_BYTES // (8 * max(self.shape[1], 1)))
        for first in range(0, n_lines, step):
            some = starts[first : first + step + 1]
            numbers = np.empty((len(some) - 1, self.shape[1]))
            counts, bad = _parse.parse_numbers(block, some, numbers, self.n_threads)
            self._check(block, some, counts, bad)
            if len(self.problems) > MAX_PROBLEMS_SHOWN:
                raise InputError(self.problems)
            self._keep(numbers[counts > 0])
            self.line += len(some) - 1

    def _keep(self, numbers: F64) -> None:
        """Store the wanted rows of those that were just read (blank lines are gone)."""
        place = self.place[self.row : self.row + len(numbers)]
        wanted = place >= 0
        if not self.problems and wanted.any():
            chosen = numbers[: len(place)][wanted]
            self.out[place[wanted]] = chosen if self.all_columns else chosen[:, self.columns]
        self.row += len(numbers)
        if self.row > self.shape[0]:
            self.problems.append(f"{self.path}: more than {self.shape[0]} rows, {self.expected}")
            raise InputError(self.problems)

    def _check(self, block: bytes, starts: I64, counts: I64, bad: I64) -> None:
        """Note lines with a field that is no number or with a wrong number of fields."""
        for i in np.flatnonzero((bad >= 0) | ((counts != self.shape[1]) & (counts > 0)))[: MAX_PROBLEMS_SHOWN + 1]:
            where = f"{self.path}:{self.line + i + 1}"
            if bad[i] >= 0:
                line = block[starts[i] : starts[i + 1] - 1]
                token = line.translate(bytes.maketrans(DELIMITERS, b"    ")).split(b" ")
                token = [t for t in token if t][bad[i]][:40].decode("utf-8", "backslashreplace")
                self.problems.append(f"{where}:{bad[i] + 1}: {token!r}, expected a number")
            if counts[i] != self.shape[1]:
                self.problems.append(f"{where}: {counts[i]} columns, {self.expected}")

    def finish(self) -> F64:
        """The matrix, or everything that was wrong."""
        if self.row < self.shape[0]:
            self.problems.append(f"{self.path}: {self.row} rows, {self.expected}")
        if self.problems:
            raise InputError(self.problems)
        return self.out


def read_matrix(
    path: Path,
    shape: tuple[int, int],
    rows: I64,
    columns: I64,
    *,
    expected: str,
    order: str = "C",
    n_threads: int = 1,
) -> F64:
    """Rows and columns of a matrix of numbers.

    Parameters
    ----------
    path : Path
        .npy, or text with spaces, tabs or commas between numbers, also gzipped; told apart by the first bytes.
    shape : (int, int)
        What the file must have.
    rows, columns : ndarray of int64
        Those wanted, in the order wanted; without repeats in `rows`.
    expected : str
        Ends the message about a wrong shape, "expected ...".
    order : {"C", "F"}
        Memory layout of the result.
    n_threads : int
        Threads that parse text.

    Returns
    -------
    ndarray of float64, shape (len(rows), len(columns))
        May hold values that are not finite: only entries that are used need be numbers, so the caller checks.

    Raises
    ------
    InputError
        The file cannot be read, has another shape, or a field is no number.
    """
    with open_bytes(path) as file:
        head = file.read(len(NPY_MAGIC))
    if head == NPY_MAGIC:
        return _take(map_npy(path), path, shape, rows, columns, expected, order)
    reader = _TextReader(path, shape, rows, columns, expected, order, n_threads)
    with open_bytes(path) as file:
        for block in line_blocks(file, path, shape[1]):
            reader.add(block)
    return reader.finish()


def map_npy(path: Path) -> NDArray[Any]:
    """A .npy file as a read-only memory map; only plain numbers, and only where header and file size agree."""
    try:
        size = path.stat().st_size
        with open(path, "rb") as file:
            version = np.lib.format.read_magic(file)
            read = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }[version]
            shape, fortran, dtype = read(file)
            offset = file.tell()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except Exception as error:  # whatever a hostile header makes the parser raise
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{path}: not a readable .npy file ({type(error).__name__}: {reason})") from error
    if dtype.kind not in "fiu" or dtype.itemsize > 8 or dtype.hasobject:
        raise InputError(f"{path}: .npy of dtype {str(dtype)[:60]}, expected float64 (or another real number type)")
    n_bytes = dtype.itemsize
    for k in shape:
        n_bytes *= k
    if min(shape, default=1) < 0 or n_bytes != size - offset:
        raise InputError(
            f"{path}: .npy of shape {shape} needs {n_bytes} bytes after its header, the file has {size - offset}: "
            "damaged or cut short, write it again"
        )
    if n_bytes == 0:
        return np.empty(shape, dtype=dtype)
    return np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape, order="F" if fortran else "C")


def _take(
    source: NDArray[Any], path: Path, shape: tuple[int, int], rows: I64, columns: I64, expected: str, order: str
) -> F64:
    """Rows and columns of a mapped matrix as float64, read along the file's own order."""
    if source.ndim == 1 and shape[1] == 1:
        source = source[:, None]
    if source.shape != shape:
        size = " x ".join(map(str, source.shape)) or "a single number"
        raise InputError(f"{path}: {size}, {expected}")
    out: F64 = np.empty((len(rows), len(columns)), order="F" if order == "F" else "C")
    target = out
    if source.flags.f_contiguous and not source.flags.c_contiguous:
        source, target, rows, columns = source.T, out.T, columns, rows
    everything = len(columns) == source.shape[1] and bool((columns == np.arange(len(columns))).all())
    step = max(1, BLOCK_BYTES // (8 * max(source.shape[1], 1)))
    for first in range(0, len(rows), step):
        some = rows[first : first + step]
        block = source[some]
        target[first : first + step] = block if everything else block[:, columns]
    return out


def write_npy(path: Path, array: F64) -> Path:
    """Write an array as .npy, atomically; C or Fortran order as it lies in memory."""
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        array = np.ascontiguousarray(array)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(array))
    data = array if array.flags.c_contiguous else array.T
    with AtomicFile(path) as target:
        target.write(header.getvalue())
        if data.size:
            flat = data.reshape(-1).view(np.uint8)
            for first in range(0, len(flat), 64 << 20):
                target.write(flat[first : first + (64 << 20)].data)
    return path


def write_text(path: Path, array: F64, n_threads: int = 1) -> Path:
    """Write a matrix as GEMMA does, tab-separated with 10 significant digits, atomically."""
    step = max(1, BLOCK_BYTES // (25 * max(array.shape[1], 1)))

    def pieces() -> Iterator[memoryview]:
        for first in range(0, len(array), step):
            yield from _format.format_matrix(array[first : first + step], n_threads)

    return write_all(path, pieces())
