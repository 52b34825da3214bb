import numpy as np
from numpy.typing import NDArray

def available_levels() -> list[str]: ...
def level() -> str: ...
def set_level(name: str | None) -> None: ...

class PackedCalls:
    n_samples: int
    n_variants: int
    codes: NDArray[np.uint64]
    missing: NDArray[np.uint32] | None
    counts: NDArray[np.int32]
    means: NDArray[np.float64]
    def __init__(
        self,
        n_samples: int,
        codes: NDArray[np.uint64],
        missing: NDArray[np.uint32] | None,
        counts: NDArray[np.int32],
    ) -> None: ...
    def __len__(self) -> int: ...
    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> PackedCalls: ...
    def decode(self, start: int = 0, stop: int | None = None) -> NDArray[np.float64]: ...

def count_calls(
    calls: NDArray[np.int8], mask: NDArray[np.uint8] | None = None, n_threads: int = 1
) -> NDArray[np.int32]: ...
def pack_calls(calls: NDArray[np.int8], rows: NDArray[np.int64] | None = None, n_threads: int = 1) -> PackedCalls: ...
def sweep(
    calls: NDArray[np.int8],
    max_missing: float,
    maf: float,
    n_threads: int = 1,
    skip_maf: bool = False,
    *,
    reason_codes: tuple[int, int, int] = (7, 8, 9),
) -> tuple[NDArray[np.int32], NDArray[np.uint8], PackedCalls]: ...
