"""Rows of text from arrays, by Python's own formatting."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Buffer = bytes | bytearray | memoryview | NDArray[np.uint8]
I64 = NDArray[np.int64]


def variant_texts(
    chrom: Sequence[str], rs: Sequence[str], ps: I64, allele1: Sequence[str], allele0: Sequence[str], index: I64
) -> tuple[NDArray[np.uint8], I64]:
    """``chr rs ps`` and ``allele1 allele0`` of some variants as one run of bytes, and where each text begins."""
    texts: list[bytes] = []
    for i in index.tolist():
        texts += [f"{chrom[i]}\t{rs[i]}\t{ps[i]}".encode(), f"{allele1[i]}\t{allele0[i]}".encode()]
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return np.frombuffer(b"".join(texts), dtype=np.uint8), offsets


def _fixed(x: float) -> str:
    """As %.3f, beyond 1e15 as %.6e."""
    return f"{x:.3f}" if abs(x) < 1e15 else f"{x:.6e}"


def _p_value(p: float, neg_log10_p: float) -> str:
    """As %.6e, from -log10 p where p is near or below the smallest normal double."""
    if not p < 1e-290 or not 280 < neg_log10_p < 1e9:
        return f"{p:.6e}"
    e = math.ceil(neg_log10_p)
    mantissa = f"{10.0 ** (e - neg_log10_p):.6e}"  # of 1 to 10, the latter by rounding
    return f"{mantissa[:8]}e-{e - int(mantissa[-1])}"


def format_rows(
    text: Buffer, offsets: I64, rows: I64, layout: bytes, values: NDArray[np.float64], n_threads: int = 1
) -> list[memoryview]:
    """Tab-separated rows; one code of `layout` a field, as the extension has them."""
    data, starts = bytes(text), offsets.tolist()
    numbers = iter(values.tolist())
    fields: list[list[str]] = []
    for code in layout.decode():
        if code in "AB":
            places = [2 * row + (code == "B") for row in rows.tolist()]
            fields.append([data[starts[k] : starts[k + 1]].decode("utf-8", "surrogateescape") for k in places])
        elif code == "p":
            fields.append([_p_value(*pair) for pair in zip(next(numbers), next(numbers), strict=True)])
        else:
            write = {"d": "{:.0f}".format, "f": _fixed}.get(code, "{:.6e}".format)
            fields.append([write(x) for x in next(numbers)])
    lines = "".join("\t".join(row) + "\n" for row in zip(*fields, strict=True))
    return [memoryview(lines.encode("utf-8", "surrogateescape"))] if lines else []


def format_matrix(values: NDArray[np.float64], n_threads: int = 1) -> list[memoryview]:
    """Tab-separated rows of numbers as %.10g."""
    if 0 in values.shape:
        return []
    return [memoryview(("\t".join([f"{x:.10g}" for x in row]) + "\n").encode()) for row in values.tolist()]
