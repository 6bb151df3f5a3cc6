from typing import Literal

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

class Proofs:
    def __init__(
        self,
        squares: Literal["none", "columns", "products"],
        columns: int,
        digits: int,
        products: int,
        rows: int,
        low: int,
        weights: Words,
        matrix: Words,
        places: Words,
        factors: Words,
        constant: int,
        wires: Words,
        outputs: Words,
        inverses: Words,
    ) -> None: ...
    def columns(self, one: int, x: Words, out: Words) -> None: ...
    def prove(self, x: Words, joint: Words, blinds: Words, out: Words) -> None: ...
    def query(
        self,
        wires: Words,
        outputs: Words,
        quotient: Words,
        kappa: Words,
        one: int,
        records: Words,
        joint: Words,
        out: Words,
    ) -> None: ...
    def decide(self, kappa: Words, opened: Words, joint: Words, out: NDArray[np.uint8]) -> None: ...
