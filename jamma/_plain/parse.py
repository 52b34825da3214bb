"""Numbers and fields of lines of text to arrays."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Buffer = Any  # of bytes
I64 = NDArray[np.int64]

# What the extension takes for a number; float() would take "1_0" as well.
_NUMBER = re.compile(rb"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|nan|inf|infinity)", re.IGNORECASE)
_FIELD = re.compile(rb"[^ \t,\r]+")


def line_starts(data: Buffer) -> I64:
    r"""Where each line begins, and, last, the length of the data (one more where the last line has no ``\n``)."""
    codes = np.frombuffer(data, dtype=np.uint8)
    starts = np.concatenate([[0], np.flatnonzero(codes == ord("\n")) + 1])
    return np.append(starts, len(codes) + 1) if starts[-1] < len(codes) else starts


def _lines(data: Buffer, starts: I64) -> list[bytes]:
    """The lines, without their ends."""
    view, ends = memoryview(data), starts.tolist()
    return [bytes(view[a : b - 1]) for a, b in pairwise(ends)]


def read_number(text: bytes) -> float | None:
    """The number that is all of `text`, None where it is not one."""
    return float(text) if _NUMBER.fullmatch(text) else None


def parse_numbers(data: Buffer, starts: I64, out: NDArray[np.float64], n_threads: int = 1) -> tuple[I64, I64]:
    """Fill `out` with the numbers of each line; fields in each line, and the first that is not a number, or -1."""
    counts, bad = np.zeros(len(starts) - 1, dtype=np.int64), np.full(len(starts) - 1, -1, dtype=np.int64)
    for i, line in enumerate(_lines(data, starts)):
        numbers = [read_number(field) for field in _FIELD.findall(line)]
        counts[i] = len(numbers)
        if None in numbers:
            bad[i] = numbers.index(None)
        for k, number in enumerate(numbers[: out.shape[1]]):
            if number is not None:
                out[i, k] = number
    return counts, bad


def parse_table(
    data: Buffer, starts: I64, columns: Sequence[int], outputs: Sequence[NDArray[np.float64] | I64], n_threads: int = 1
) -> I64:
    """Some columns of tab-separated lines as numbers, or as begin and end of their text; fields in each line.

    ``-1 - column`` instead where that field should be a number and is not.
    """
    counts = np.zeros(len(starts) - 1, dtype=np.int64)
    for i, line in enumerate(_lines(data, starts)):
        fields = line.removesuffix(b"\r").split(b"\t")
        counts[i] = len(fields)
        begins = np.cumsum([starts[i], *(len(field) + 1 for field in fields)])
        for column, output in zip(columns, outputs, strict=True):
            if column >= len(fields):
                break
            if output.ndim == 2:
                output[i] = begins[column], begins[column] + len(fields[column])
                continue
            number = read_number(fields[column])
            if number is None:
                counts[i] = -1 - column
                break
            output[i] = number
    return counts


def runs(data: Buffer, tokens: I64) -> I64:
    """Rows whose text differs from the row before."""
    view = memoryview(data)
    texts = [None, *(bytes(view[a:b]) for a, b in tokens.tolist())]
    return np.array([k for k in range(len(tokens)) if texts[k + 1] != texts[k]], dtype=np.int64)
