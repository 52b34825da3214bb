"""What the stages see of genotypes: chunks of variants over the analysed samples."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jamma.core.errors import InputError, InsufficientMemoryError

MISSING_INT8 = -127


@dataclass(frozen=True)
class GenotypeChunk:
    """Some variants over the analysed samples.

    Attributes
    ----------
    calls : ndarray of int8, shape (m, n_samples), C order, or None
        Hard calls, one *row* a variant: copies of allele1 (0, 1, 2), -127 missing.
    dosages : ndarray of float64, shape (m, n_samples), C order, or None
        Dosages of allele1, NaN missing. Exactly one of `calls` and `dosages` is not None.
    index : ndarray of int64, shape (m,)
        The variants' row numbers in the source (row of the .bim, or column of the array).
    """

    calls: NDArray[np.int8] | None
    dosages: NDArray[np.float64] | None
    index: NDArray[np.int64]

    @property
    def n_variants(self) -> int:
        """Number of variants in the chunk."""
        return len(self.index)

    @property
    def values(self) -> NDArray[np.int8] | NDArray[np.float64]:
        """The calls or the dosages, whichever there are."""
        if self.calls is not None:
            return self.calls
        assert self.dosages is not None
        return self.dosages


class GenotypeReader(Protocol):
    """Gives the variants of a source, in order, a chunk at a time."""

    n_samples: int
    n_variants: int

    def chunks(self, chunk_size: int, variants: NDArray[np.int64] | None = None) -> Iterator[GenotypeChunk]:
        """Iterate over `variants` (ascending row numbers; None: all), `chunk_size` at a time."""
        ...


class ArrayReader:
    """Chunks of genotypes that are in memory.

    Parameters
    ----------
    genotypes : array_like of int8, float32 or float64, shape (n_samples, n_variants)
        Dosages of allele1; missing is -127 or NaN. C or Fortran order, read-only too. Values that are all 0, 1, 2
        or missing are treated as hard calls, whatever their dtype.
    """

    def __init__(self, genotypes: ArrayLike):
        g = np.asarray(genotypes)
        if g.ndim != 2:
            raise InputError(f"genotypes: array of {g.ndim} dimensions, expected (n_samples, n_variants)")
        if g.dtype.kind not in "iuf":
            raise InputError(f"genotypes: dtype {g.dtype}, expected int8, float32 or float64")
        self._genotypes = g
        self.n_samples, self.n_variants = g.shape

    def chunks(self, chunk_size: int, variants: NDArray[np.int64] | None = None) -> Iterator[GenotypeChunk]:
        """Iterate over `variants` (ascending column numbers; None: all), `chunk_size` at a time."""
        columns = np.arange(self.n_variants, dtype=np.int64) if variants is None else variants
        for start in range(0, len(columns), chunk_size):
            index = columns[start : start + chunk_size]
            yield self._chunk(np.ascontiguousarray(self._genotypes[:, index].T), index)

    def _chunk(self, block: NDArray, index: NDArray[np.int64]) -> GenotypeChunk:
        """One chunk from a block of variants by samples: int8 where every value is a hard call."""
        missing = (block == MISSING_INT8) if block.dtype.kind != "f" else np.isnan(block) | (block == MISSING_INT8)
        is_call = missing | (block == 0) | (block == 1) | (block == 2)
        if is_call.all():
            calls = np.where(missing, MISSING_INT8, block).astype(np.int8)
            return GenotypeChunk(calls, None, index)
        dosages = block.astype(np.float64)
        dosages[missing] = np.nan
        bad = ~missing & ~((dosages >= 0) & (dosages <= 2))
        if bad.any():
            v, s = (int(k[0]) for k in np.nonzero(bad))
            raise InputError(
                f"genotypes[{s}, {index[v]}]: {block[v, s]}, expected a dosage from 0 to 2, or -127 or NaN for missing"
            )
        return GenotypeChunk(None, dosages, index)


class HeldReader:
    """Keeps the chunks of another reader in memory, as int8, from the first time each variant is asked for.

    Parameters
    ----------
    reader : GenotypeReader
        Of hard calls.
    chunk_size : int
        Variants read at a time when the memory is filled.
    """

    def __init__(self, reader: GenotypeReader, chunk_size: int):
        self._reader, self._chunk_size = reader, chunk_size
        self.n_samples, self.n_variants = reader.n_samples, reader.n_variants
        self._calls: NDArray[np.int8] | None = None
        self._lock = threading.Lock()

    def _held(self) -> NDArray[np.int8]:
        with self._lock:
            if self._calls is None:
                try:
                    calls = np.empty((self.n_variants, self.n_samples), np.int8)
                except MemoryError as error:
                    raise InsufficientMemoryError(f"all genotypes in memory: {error}; use numpy-streaming") from error
                for chunk in self._reader.chunks(self._chunk_size):
                    assert chunk.calls is not None
                    calls[chunk.index] = chunk.calls
                self._calls = calls
        return self._calls

    def chunks(self, chunk_size: int, variants: NDArray[np.int64] | None = None) -> Iterator[GenotypeChunk]:
        """Iterate over `variants` (ascending row numbers; None: all), `chunk_size` at a time."""
        calls = self._held()
        rows = np.arange(self.n_variants, dtype=np.int64) if variants is None else variants
        for start in range(0, len(rows), chunk_size):
            index = rows[start : start + chunk_size]
            contiguous = len(index) and index[-1] - index[0] == len(index) - 1
            yield GenotypeChunk(calls[index[0] : index[-1] + 1] if contiguous else calls[index], None, index)
