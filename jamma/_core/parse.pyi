from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Buffer = bytes | bytearray | memoryview | NDArray[np.uint8]

def line_starts(data: Buffer) -> NDArray[np.int64]: ...
def parse_numbers(
    data: Buffer, starts: NDArray[np.int64], out: NDArray[np.float64], n_threads: int = 1
) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
def parse_table(
    data: Buffer,
    starts: NDArray[np.int64],
    columns: Sequence[int],
    outputs: Sequence[NDArray[np.float64] | NDArray[np.int64]],
    n_threads: int = 1,
) -> NDArray[np.int64]: ...
def runs(data: Buffer, tokens: NDArray[np.int64]) -> NDArray[np.int64]: ...
def read_number(text: bytes) -> float | None: ...
def _count_slow() -> int: ...
