from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Buffer = bytes | bytearray | memoryview | NDArray[np.uint8]

def variant_texts(
    chrom: Sequence[str],
    rs: Sequence[str],
    ps: NDArray[np.int64],
    allele1: Sequence[str],
    allele0: Sequence[str],
    index: NDArray[np.int64],
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]: ...
def format_rows(
    text: Buffer,
    offsets: NDArray[np.int64],
    rows: NDArray[np.int64],
    layout: bytes,
    values: NDArray[np.float64],
    n_threads: int = 1,
) -> list[memoryview]: ...
def format_matrix(values: NDArray[np.float64], n_threads: int = 1) -> list[memoryview]: ...
def _write(x: float, form: str) -> str: ...
def _write_many(x: NDArray[np.float64], form: str) -> str: ...
def _write_p(p: float, neg_log10_p: float) -> str: ...
def _count_slow() -> int: ...
