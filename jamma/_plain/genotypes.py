"""Counts of hard calls, and those to be tested: int8, one row a variant, negative missing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

I8 = NDArray[np.int8]


class PackedCalls:
    """Hard calls to be tested, kept as they are; `calls` has shape (n_variants, n_samples), `counts` (n_variants, 4).

    `means` (n_variants,) stand for missing calls.
    """

    def __init__(self, calls: I8, counts: NDArray[np.int32]):
        self.n_variants, self.n_samples = calls.shape
        self.calls, self.counts = calls, counts
        self.means = (counts[:, 1] + 2.0 * counts[:, 2]) / np.maximum(self.n_samples - counts[:, 3], 1)

    def __len__(self) -> int:
        return self.n_variants

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> PackedCalls:
        """Some of the variants."""
        return PackedCalls(self.calls[rows], self.counts[rows])

    def decode(self, start: int = 0, stop: int | None = None) -> NDArray[np.float64]:
        """Dosages of the variants `start` to `stop`, missing as the mean."""
        calls = self.calls[start:stop]
        return np.where(calls < 0, self.means[start:stop, None], calls)


def count_calls(calls: I8, mask: NDArray[np.uint8] | None = None, n_threads: int = 1) -> NDArray[np.int32]:
    """Samples with 0, 1, 2 copies and no call of each variant, shape (m, 4)."""
    if mask is not None:
        calls = calls[:, np.asarray(mask) != 0]
    groups = [calls == 0, calls == 1, calls == 2, calls < 0]
    return np.stack([group.sum(axis=1, dtype=np.int32) for group in groups], axis=1)


def pack_calls(calls: I8, rows: NDArray[np.int64] | None = None, n_threads: int = 1) -> PackedCalls:
    """Some rows of the calls, or all."""
    chosen = calls if rows is None else calls[rows]
    return PackedCalls(chosen, count_calls(chosen))


def sweep(
    calls: I8, max_missing: float, maf: float, n_threads: int = 1, skip_maf: bool = False,
    *, reason_codes: tuple[int, int, int] = (7, 8, 9),
) -> tuple[NDArray[np.int32], NDArray[np.uint8], PackedCalls]:  # fmt: skip
    """Counts, why a variant is dropped (0: it is kept), and the variants kept."""
    counts = count_calls(calls)
    called = counts[:, :3].sum(axis=1)
    af = (counts[:, 1] + 2.0 * counts[:, 2]) / np.maximum(2.0 * called, 1.0)
    lacking = counts[:, 3] / max(calls.shape[1], 1) > max_missing
    rare = (called > 0) & ((af < maf) | (af > 1.0 - maf)) & (not skip_maf)
    constant = (counts[:, :3] > 0).sum(axis=1) < 2
    reason = np.select([lacking, rare, constant], reason_codes, 0).astype(np.uint8)
    kept = reason == 0
    return counts, reason, PackedCalls(calls[kept], counts[kept])
