"""Text files as rows of tokens: line ends, compression, encodings, numbers, and the wording of what is wrong.

A file is read in blocks of about one megabyte and never held as a whole, so that the memory needed is what the caller
keeps. Line ends may be LF, CRLF or CR, mixed too; a byte-order mark and blank lines at the end are dropped; gzip is
recognised by its first bytes, not by the name. Text is UTF-8; bytes that are not are kept as surrogate escapes, so that
an ID in an older encoding comes out of the program byte for byte as it went in (write with ``surrogateescape``).
"""

from __future__ import annotations

import gzip
import math
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import ParamSpec, TypeVar

from jamma.core.errors import MAX_PROBLEMS_SHOWN, InputError, Problems

PathLike = str | os.PathLike[str]
P = ParamSpec("P")
T = TypeVar("T")

BLOCK_BYTES = 1 << 20
MAX_LINE_BYTES = 1 << 26  # a table has no line of 64 MiB; a genome or a binary file may
MAX_EXPANSION = 100  # of gzip: text shrinks 3 to 20 times, a bomb 1,000 times
FREE_EXPANSION_BYTES = 1 << 28
MAX_TOKEN_SHOWN = 40
MAX_PATH_SHOWN = 1000

_CONTROL = bytes(c for c in range(32) if c not in b"\t\n\r") + b"\x7f"
_CONTROL_CHARACTER = re.compile(b"[" + re.escape(_CONTROL) + b"]")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+(?:[eE][+-]?[0-9]+)?")

#: What other programs write for a missing number. GEMMA knows only ``NA`` and takes these for 0 or nan.
FOREIGN_MISSING = frozenset({"NaN", "nan", "NAN", "."})


def show(token: object, limit: int = MAX_TOKEN_SHOWN) -> str:
    """A token as one printable, bounded piece of a message."""
    text = str(token)
    cut = text if len(text) <= limit else text[: limit - 3] + "..."
    safe = cut.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in safe)


def show_path(path: PathLike) -> str:
    """A path as one printable piece of a message."""
    return show(os.fspath(path), MAX_PATH_SHOWN)


def some(tokens: list[str], n: int = 3) -> str:
    """Up to `n` examples, for a message: ``a, b, c, ...``."""
    return ", ".join(show(t) for t in tokens[:n]) + (", ..." if len(tokens) > n else "")


def plural(n: int, singular: str, more: str = "") -> str:
    """A count with its noun: ``1 row``, ``1,940 rows``."""
    return f"{n:,} {singular if n == 1 else more or singular + 's'}"


def attempt(problems: Problems, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
    """Call `read`; what is wrong with its input goes to `problems`, and the result is then None."""
    try:
        return read(*args, **kwargs)
    except InputError as error:
        problems.extend(error.problems)
        return None


class FileProblems:
    """What is wrong with one file; keeps the first lines and the count, so that a hostile file costs no memory."""

    def __init__(self, path: PathLike) -> None:
        self.path = show_path(path)
        self.n = 0
        self._lines: list[str] = []

    def __bool__(self) -> bool:
        return self.n > 0

    @property
    def full(self) -> bool:
        """More than are shown have been found: reading on is of no use."""
        return self.n > MAX_PROBLEMS_SHOWN

    def add(self, row: int | None, column: int | None, text: str) -> None:
        """Add one: row and column are 1-based, None where the problem has none."""
        self.n += 1
        if len(self._lines) < MAX_PROBLEMS_SHOWN:
            place = "".join(f":{k}" for k in (row, column) if k is not None)
            self._lines.append(f"{self.path}{place}: {text}")

    def extend(self, texts: Iterable[str]) -> None:
        """Add some that concern the whole file."""
        for text in texts:
            self.add(None, None, text)

    def raise_if_any(self) -> None:
        """Raise `InputError` with the problems, if there are any."""
        if self.n > len(self._lines):
            raise InputError([*self._lines, f"{self.path}: and more like these; reading stopped there"])
        if self.n:
            raise InputError(self._lines)


def open_binary(path: PathLike) -> BufferedReader:
    """Open a file for reading; `InputError` says why it cannot be."""
    name = show_path(path)
    try:
        return open(path, "rb")
    except FileNotFoundError:
        raise InputError(f"{name}: no such file{_nearby(Path(path))}") from None
    except IsADirectoryError:
        raise InputError(f"{name}: a folder, expected a file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{name}: cannot be opened ({reason})") from None


def _nearby(path: Path) -> str:
    """A hint for a missing file: a name in its folder that differs little."""
    from difflib import get_close_matches

    try:
        names = [entry.name for _, entry in zip(range(2000), os.scandir(path.parent), strict=False)]
    except (OSError, ValueError):
        return f"; there is no folder {show_path(path.parent)}" if not path.parent.exists() else ""
    near = get_close_matches(path.name, names, n=1, cutoff=0.75)
    return f"; did you mean {show(near[0])}?" if near else ""


def _blocks(path: PathLike) -> Iterator[bytes]:
    """The bytes of a file, decompressed where it is gzip, about a megabyte at a time."""
    name = show_path(path)
    with open_binary(path) as raw:
        try:
            compressed = raw.peek(2)[:2] == b"\x1f\x8b"  # not read and seek: a pipe cannot
            if not compressed:
                while block := raw.read(BLOCK_BYTES):
                    yield block
                return
            limit = max(FREE_EXPANSION_BYTES, MAX_EXPANSION * os.fstat(raw.fileno()).st_size)
            with gzip.open(raw) as stream:
                while block := stream.read(BLOCK_BYTES):
                    limit -= len(block)
                    if limit < 0:
                        raise InputError(
                            f"{name}: grows to more than {MAX_EXPANSION} times its size when decompressed, which no "
                            "table does; decompress it yourself if it is meant to"
                        )
                    yield block
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise InputError(f"{name}: damaged or incomplete gzip file; compress or copy it again") from None
        except OSError as error:
            raise InputError(f"{name}: cannot be read ({error.strerror or error})") from None


def line_blocks(path: PathLike) -> Iterator[tuple[int, bytes]]:
    """Whole lines, a block at a time.

    Yields
    ------
    first : int
        Row number (1-based) of the block's first line.
    block : bytes
        Lines separated by ``\\n``, without a final one; no control characters but tab.

    Raises
    ------
    InputError
        The file cannot be read, is not text (control characters, UTF-16), or has a line over 64 MiB.
    """
    row, held, tail = 1, b"", b""
    first = True
    for raw in _blocks(path):
        if first:
            _refuse_utf16(path, raw)
            raw = raw.removeprefix(b"\xef\xbb\xbf")
            first = False
        raw = tail + raw
        tail = b"\r" if raw.endswith(b"\r") else b""  # the LF that belongs to it may open the next block
        raw = raw[: len(raw) - len(tail)].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        whole, newline, rest = raw.rpartition(b"\n")
        if not newline:
            held += rest
            if len(held) > MAX_LINE_BYTES:
                raise InputError(
                    f"{show_path(path)}:{row}: a line of more than {MAX_LINE_BYTES >> 20} MiB; expected a text table"
                )
            continue
        block, held = held + whole, rest
        _refuse_control(path, row, block)
        yield row, block
        row += block.count(b"\n") + 1
    if held:
        _refuse_control(path, row, held)
        yield row, held


def _refuse_utf16(path: PathLike, start: bytes) -> None:
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError(f"{show_path(path)}: text in UTF-16, expected UTF-8; save it as UTF-8 or as plain text")


def _refuse_control(path: PathLike, row: int, block: bytes) -> None:
    """Raise if a block holds a byte that no text has: a binary file given by mistake."""
    if len(block.translate(None, _CONTROL)) == len(block):
        return
    match = _CONTROL_CHARACTER.search(block)
    assert match is not None
    row += block.count(b"\n", 0, match.start())
    raise InputError(
        f"{show_path(path)}:{row}: byte {match[0][0]:#04x}, expected text; "
        "this is a binary or damaged file, or not the file that was meant"
    )


def lines(path: PathLike) -> Iterator[tuple[int, str]]:
    """Row number (1-based) and text of each line; blank lines at the end of the file are left out."""
    n_blank = 0
    for first, block in line_blocks(path):
        for row, line in enumerate(block.decode("utf-8", "surrogateescape").split("\n"), first):
            if not line or line.isspace():
                n_blank += 1
                continue
            for back in range(n_blank, 0, -1):
                yield row - back, ""
            n_blank = 0
            yield row, line


def split_blank(line: str) -> list[str]:
    """Tokens between runs of spaces and tabs; any other character, printable in any language, belongs to a token."""
    return line.split() if line.isascii() else [t for t in re.split("[ \t]+", line) if t]


def split_comma(line: str) -> list[str]:
    """Tokens between runs of spaces, tabs and commas, as GEMMA splits phenotypes and covariates."""
    return split_blank(line.replace(",", " "))


def parse_number(token: str) -> float | None:
    """A decimal number as C writes it; None if it is none, or not finite (no ``1_000``, hexadecimal, infinity)."""
    if _NUMBER.fullmatch(token) is None:
        return None
    value = float(token)
    return value if math.isfinite(value) else None


def not_a_number(token: str, missing: str = "NA") -> str:
    """The problem with a token that should be a number: what was read, what was expected, what to do."""
    read = f"'{show(token)}', expected a number or {missing}"
    if _DECIMAL_COMMA.fullmatch(token):
        return f"{read}; write the decimal comma as a point: {show(token.replace(',', '.'))}"
    if _NUMBER.fullmatch(token):
        return f"{read} that a 64-bit float can hold"
    return f"{read}; write {missing} where the value is missing"
