"""Noise that servers deal among one another: Shamir shares of one server's noise, and a proof that it is in its range.

With Shamir shares a server's own noise is no share of the sums. So each server d of those present shares its noise e_d,
a number for each cell of the sums, as clients share their rows, and proves that |e_d| <= B in every cell
(theorem dealt-noise). The cells are cut into blocks of at most 64, each a witness of the circuit of a box
(`dpmpc.linear.proving.circuit.RowCircuit`): digits alone, no products. What is hashed names the collection, the dealer
and the block, so that no dealing can be taken for another's.

Promised: what is guaranteed of proved reports. Noise whose every block is accepted lies in its range at all servers, or
its dealer was lucky (`soundness_error`); fewer than t + 1 servers learn nothing of it. Not promised: how it was drawn.
A dealer may choose any noise within the range, before it learns anything of the sums.
"""

from __future__ import annotations

import functools
import hashlib

import numpy as np

from dpmpc.base.arguments import require_whole
from dpmpc.base.arrays import Bytes, Integers, Words
from dpmpc.base.errors import InputError
from dpmpc.base.randomness import Label
from dpmpc.linear.proving.circuit import BASE, RowCircuit
from dpmpc.linear.proving.joint import ID_BYTES, framed

MOST_COLUMNS = 64
"""Cells of a block: as long as a report of ten columns, so that tables of interpolation stay small."""


class ProvedNoise:
    """What a server proves of the noise that it deals.

    Parameters
    ----------
    cells : int
        Numbers of the noise.
    bound : int
        B, a multiple of 3: digits write exactly the numbers from -B to B.

    Raises
    ------
    OverflowRisk
        If the range is too wide for the field.
    """

    def __init__(self, cells: int, bound: int):
        self.cells, self.bound = require_whole("cells", cells, 1), require_whole("bound", bound, 1)
        if bound % (BASE - 1):
            raise InputError("bound", f"{bound} given, a multiple of {BASE - 1} expected, which digits write exactly")
        self.columns = min(cells, MOST_COLUMNS)
        self.blocks = -(-cells // self.columns)
        self.circuit = _box(self.columns, bound)

    @property
    def ids(self) -> Bytes:
        """What stands in the place of report ids, (blocks, 16): the number of each block, little-endian."""
        content = b"".join(block.to_bytes(ID_BYTES, "little") for block in range(self.blocks))
        return np.frombuffer(content, np.uint8).reshape(self.blocks, ID_BYTES)

    def witnesses(self, noise: Integers) -> Words:
        """Return the witnesses (blocks, words) of noise (cells,), filled up with zeros.

        Raises
        ------
        InputError
            If a number is out of range.
        """
        if noise.dtype != np.int64 or noise.shape != (self.cells,):
            raise InputError("noise", f"{noise.dtype} of shape {noise.shape}", f"int64 of ({self.cells},)")
        filled = np.zeros(self.blocks * self.columns, np.int64)
        filled[: self.cells] = noise
        return self.circuit.witness(filled.reshape(self.blocks, self.columns))

    def outputs(self, records: Words) -> Words:
        """Return the noise (cells,) of records (blocks, ...), or Shamir shares of it of shares of these."""
        return np.ascontiguousarray(self.circuit.columns_of(records, 1).reshape(-1)[: self.cells])


def dealing_digest(collection: bytes, dealer: int) -> bytes:
    """Return what takes the place of a collection's digest in the hashes of a dealing.

    It is SHA-256(label || 0x00 || collection after its length || dealer, 4 bytes LE, after its length).
    """
    require_whole("dealer", dealer, 0)
    return hashlib.sha256(framed(Label.NOISE_DEALING, collection, dealer.to_bytes(4, "little"))).digest()


@functools.lru_cache(maxsize=16)
def _box(columns: int, bound: int) -> RowCircuit:
    return RowCircuit(columns, -bound, bound)
