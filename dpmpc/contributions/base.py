"""The base class of contributions: what a client sends, and how far one client can move it."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmpc.data import Schema
from dpmpc.encoding import FixedPoint, Sensitivity
from dpmpc.storage import Described

_BLOCK_CELLS = 1 << 16  # entries that are encoded at once: with what they are made of they stay in the cache

OnePass = Callable[[NDArray[np.float64], Schema, NDArray[np.int64], int], None]


class Contribution(Described):
    """What is summed over the clients.

    Attributes
    ----------
    radius : float or None
        L2 norm that a normalised row is clipped to, on top of the box [-1, 1]^p; None where there is no such limit.
    """

    name: str
    radius: float | None = None

    @abc.abstractmethod
    def width(self, columns: int) -> int:
        """Return the number of entries that a client with `columns` columns sends."""

    def analysed(self, schema: Schema) -> Schema:
        """Return the columns that a release tells about: all but a weight."""
        return schema

    @abc.abstractmethod
    def encode(self, rows: NDArray[np.float64], encoding: FixedPoint) -> NDArray[np.int64]:
        """Encode normalised rows (m, p) as integers (m, width)."""

    def encode_raw(
        self,
        rows: NDArray[np.float64],
        schema: Schema,
        encoding: FixedPoint,
        out: NDArray[np.int64],
        first: int = 0,
    ) -> None:
        """Overwrite `out` (m, width) with ``encode(schema.normalise(rows), encoding)``, in blocks that stay in cache.

        Errors count the `first` rows that came before these.
        """
        whole = self.one_pass(encoding)
        if whole is not None and len(rows):
            whole(rows, schema, out, first)
            return
        step = max(1, _BLOCK_CELLS // max(1, *out.shape[1:], *rows.shape[1:]))
        for start in range(0, len(rows), step):
            block = slice(start, start + step)
            out[block] = self.encode(schema.normalise(rows[block], first=first + start), encoding)

    def one_pass(self, encoding: FixedPoint) -> OnePass | None:
        """Return what does the work of `encode_raw` in one pass over the rows, where a kernel can."""
        return None

    @abc.abstractmethod
    def sensitivity(self, columns: int, encoding: FixedPoint) -> Sensitivity:
        """Return by how much the encoded contribution moves when one client's row is replaced."""

    @abc.abstractmethod
    def largest_entry(self, encoding: FixedPoint) -> int:
        """Return the largest magnitude of an encoded entry."""

    def units(self, columns: int, encoding: FixedPoint) -> NDArray[np.float64]:
        """Return the value of one integer in each entry (width,) of the encoded contribution: 2^-f."""
        return np.full(self.width(columns), 2.0**-encoding.fractional_bits)

    @abc.abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Return the arguments that make an equal contribution, fit for JSON."""

    def describe(self) -> dict[str, Any]:
        """Return the public facts that `contribution_from` rebuilds this from."""
        return {"name": self.name, **self.parameters()}
