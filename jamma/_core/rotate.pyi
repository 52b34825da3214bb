import numpy as np
from numpy.typing import NDArray

from jamma._core.genotypes import PackedCalls

MAX_BLOCK: int
MAX_BLOCK_BYTES: int

def available_levels() -> list[str]: ...
def level() -> str: ...
def set_level(name: str | None) -> None: ...
def block_size(n_variants: int, n_samples: int, n_threads: int) -> int: ...
def rotate_sums(
    packed: PackedCalls,
    basis: NDArray[np.float64],
    columns: NDArray[np.float64],
    h: NDArray[np.float64],
    l: NDArray[np.float64] | None = None,
    n_threads: int = 1,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
def rotate_calls(
    columns: NDArray[np.float64], packed: PackedCalls, n_threads: int = 1
) -> NDArray[np.float64]: ...
