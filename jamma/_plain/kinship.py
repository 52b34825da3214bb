"""The last step of a kinship.

`level` says that there are no integer products, so `jamma.kinship` forms the sums by matrix products of doubles and
calls nothing else here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_BLOCK = 256


def level() -> str:
    """The lowest one."""
    return "baseline"


def finish(
    half: NDArray[np.float64], row_terms: NDArray[np.float64], constant: float, divisor: float, n_threads: int = 1
) -> None:
    """half <- (half + half' - r_i - r_j + constant) / divisor, in place; symmetric to the bit."""
    for top in range(0, len(half), _BLOCK):
        i = slice(top, top + _BLOCK)
        for left in range(0, top + 1, _BLOCK):
            j = slice(left, left + _BLOCK)
            block = half[i, j] + half[j, i].T - (row_terms[i, None] + row_terms[j]) + constant
            block /= divisor
            half[i, j], half[j, i] = block, block.T
