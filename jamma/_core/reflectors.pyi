from numpy import float64
from numpy.typing import NDArray

def form_q(
    a: NDArray[float64], tau: NDArray[float64], shift: int, block_size: int, work: NDArray[float64]
) -> int: ...
def form_q_work(n: int, block_size: int) -> int: ...
