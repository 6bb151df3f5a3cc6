"""Second moments of rows that count more or less, or not at all: weights, and rows that lack a value."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpmpc._kernels import arithmetic
from dpmpc.contributions.base import OnePass
from dpmpc.contributions.rows import SecondMoments
from dpmpc.data import Schema
from dpmpc.encoding import FixedPoint, Sensitivity


class WeightedMoments(SecondMoments):
    """The upper triangle of w (1, z)(1, z)^T, with the sum of the weights w in its corner.

    The last column of a row is its weight, normalised to [-1, 1] like every column; w = (1 + it) / 2 lies in [0, 1], in
    units of the largest weight. A row that lacks a value has w = 0 and contributes zeros, so that the noisy corner is
    all that tells how many rows are complete: the exact number is no part of the release.

    Entries off the diagonal are multiplied by sqrt(2). With v = sqrt(w) (1, z), the contribution is v v^T and
    ``|v|^2 <= 1 + C^2``, so that the bound of `SecondMoments` holds, corner included (docs/mathematics.md, section
    13.3).
    """

    name = "weighted-second-moments"

    def analysed(self, schema: Schema) -> Schema:
        """Return the columns but the weight."""
        return schema.select(schema.names[:-1])

    def width(self, columns: int) -> int:
        """Return (q + 1)(q + 2) / 2 for the q columns beside the weight."""
        return columns * (columns + 1) // 2

    def encode(self, rows: NDArray[np.float64], encoding: FixedPoint) -> NDArray[np.int64]:
        """Encode the weighted products of the clipped rows."""
        weights = np.clip((1 + rows[:, -1:]) / 2, 0.0, 1.0)
        clipped = np.ascontiguousarray(self._clipped(np.ascontiguousarray(rows[:, :-1])), np.float64)
        features = np.empty((len(rows), self.width(rows.shape[1]) - 1))
        if features.size:
            arithmetic.second_moments(clipped, math.sqrt(2), features)
        return encoding.encode(np.column_stack([weights, features * weights]), -math.sqrt(2), math.sqrt(2))

    def one_pass(self, encoding: FixedPoint) -> OnePass | None:
        """Return None: no kernel knows weights."""
        return None

    def sensitivity(self, columns: int, encoding: FixedPoint) -> Sensitivity:
        """Return sqrt(2)(1 + C^2) in units of 2^-f for the columns beside the weight, plus what rounding can add."""
        return self._sensitivity(columns - 1, self.width(columns), encoding)

    def gram(self, moments: NDArray[np.float64], columns: int, clients: int) -> NDArray[np.float64]:
        """Put released moments back into the Gram matrix of sqrt(w) (1, z), whose corner, at least 1, is noisy too."""
        found = self.matrix(moments[1:], columns, clients)
        found[0, 0] = max(float(moments[0]), 1.0)
        return found
