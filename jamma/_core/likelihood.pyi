from typing import Any

import numpy as np
from numpy.typing import NDArray

def available_levels() -> list[str]: ...
def level() -> str: ...
def set_level(name: str | None) -> None: ...

class Search:
    def __init__(
        self,
        n_nodes: int,
        n_cvt: int,
        n_intervals: int,
        n_terms: int,
        numbers: dict[str, Any],
        arrays: dict[str, NDArray[np.float64]],
    ) -> None: ...
    def fit(
        self,
        xx: NDArray[np.float64],
        xq: NDArray[np.float64],
        xy: NDArray[np.float64],
        mode: int,
        n_threads: int = 1,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.uint8]]: ...
