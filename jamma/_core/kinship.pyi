import numpy as np
from numpy.typing import NDArray

MAX_VARIANTS: int

def available_levels() -> list[str]: ...
def level() -> str: ...
def set_level(name: str | None) -> None: ...
def missing_by_sample(
    calls: NDArray[np.int8], which: NDArray[np.int64], n_miss: NDArray[np.int32], n_threads: int = 1
) -> tuple[NDArray[np.int64], NDArray[np.int32]]: ...
def add_calls(
    calls: NDArray[np.int8],
    which: NDArray[np.int64],
    means: NDArray[np.float64],
    miss_start: NDArray[np.int64],
    miss_variant: NDArray[np.int32],
    half: NDArray[np.float64],
    row_terms: NDArray[np.float64],
    n_threads: int = 1,
) -> int: ...
def finish(
    half: NDArray[np.float64], row_terms: NDArray[np.float64], constant: float, divisor: float, n_threads: int = 1
) -> None: ...
