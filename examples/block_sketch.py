"""A new public matrix: each block of consecutive clients has a CountSketch of its own.

A server whose shares arrive site by site then touches the rows of one site at a time (Srinivasa, Davenport, Romberg,
*Localized sketching*, 2020). Promised: what `PublicMatrix` promises. Not promised: to embed uneven blocks well.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from dpmpc.base.arguments import require_whole
from dpmpc.base.errors import InputError
from dpmpc.base.randomness import SEED_BYTES, Label, derive, seed_bytes
from dpmpc.linear import CountSketch, PublicMatrix
from dpmpc.linear.encoding.ring import Words
from dpmpc.linear.sketching.public_matrix import Kind

BLOCKS = 4  # of a matrix that `design` draws, where they divide its rows


class BlockSketch(PublicMatrix):
    """Client i is in block floor(i / size), size = ceil(n / blocks); block b has the rows b h to (b + 1) h - 1."""

    family = "block-countsketch"

    def __init__(self, rows: int, columns: int, blocks: int, seed: bytes | int):
        super().__init__(rows, columns, sparsity=1, balanced=False)
        self.blocks, self.seed = require_whole("blocks", blocks, 1, columns), seed_bytes(seed)
        self.height, rest = divmod(self.rows, self.blocks)
        if rest or not self.height:
            raise InputError("rows", rows, f"a multiple of blocks = {blocks}")
        self.size = -(-self.columns // self.blocks)
        seeds = [derive(self.seed, Label.SKETCH_SEED, index=b, length=SEED_BYTES) for b in range(self.blocks)]
        self._sketches = [CountSketch(self.height, self.size, seed, balanced=True) for seed in seeds]

    @classmethod
    def drawn(
        cls, rows: int, columns: int, sparsity: int | None, seed: bytes, *, balanced: bool = True
    ) -> "BlockSketch":
        return cls(rows, columns, math.gcd(rows, BLOCKS), seed)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "blocks": self.blocks, "seed": self.seed.hex()}

    def entries(self, first: int, count: int) -> tuple[Any, Any]:
        drawn = [(b, self._sketches[b].entries(start, len(chunk))) for b, start, chunk in self._meets(first, count)]
        rows = [np.empty((0, 1), np.int64), *(rows + b * self.height for b, (rows, _) in drawn)]
        return np.concatenate(rows), np.concatenate([np.empty((0, 1), np.int8), *(signs for _, (_, signs) in drawn)])

    def _add(self, kind: Kind, first: int, X: Words, Y: Words) -> None:
        for b, start, chunk in self._meets(first, len(X)):
            self._sketches[b]._add(kind, start, X[chunk.start : chunk.stop], Y[b * self.height : (b + 1) * self.height])

    def _meets(self, first: int, count: int) -> Iterator[tuple[int, int, range]]:
        """Each block that a chunk of clients meets: its number, its first client that does, and where in the chunk."""
        for b in range(first // self.size, -(-(first + count) // self.size)):
            low, high = max(first, b * self.size), min(first + count, (b + 1) * self.size)
            yield b, low - b * self.size, range(low - first, high - first)
