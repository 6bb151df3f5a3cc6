import numpy as np
from numpy.typing import NDArray

def discrete_gaussian(words: NDArray[np.uint64], out: NDArray[np.int64], scale: int, shift: int) -> tuple[int, int]: ...
def discrete_laplace(
    words: NDArray[np.uint64], out: NDArray[np.int64], scale: int, shift: int, levels: int, shares: int
) -> tuple[int, int]: ...

class CentredPoisson:
    def __init__(
        self,
        steps: NDArray[np.uint64],
        guide: NDArray[np.uint32],
        peak: int,
        first: int,
        width_bits: int,
        slack: int,
        series: NDArray[np.int64],
        limit_bits: int,
    ) -> None: ...
    def draw(self, words: NDArray[np.uint64], out: NDArray[np.int64]) -> tuple[int, int, tuple[int, int] | None]: ...
    def exponent(self, deviate: int) -> int: ...
