"""What one client contributes: its normalised row, or the second moments of that row.

Either way a release is a public linear map of the contributions plus noise. `Rows` is what the paper sketches. With
`SecondMoments` the public matrix is the all-ones row: the release is the noisy Gram matrix of (1, z), so that
sufficient statistics perturbation runs with no trusted curator.

A statistic says what it sends, under which names, and by how much one client can move it.
"""

from __future__ import annotations

import abc
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmpc.bounds import clip_ball
from dpmpc.encoding import FixedPoint, Sensitivity
from dpmpc.errors import InputError


class Statistic(abc.ABC):
    """What is summed over the clients.

    Parameters
    ----------
    radius : float, optional
        Clip each normalised row to an L2 ball of this radius, on top of the box [-1, 1]^p. A public constant.
    """

    name: str

    def __init__(self, radius: float | None = None):
        if radius is not None and not (math.isfinite(radius) and radius > 0):
            raise InputError(f"radius: {radius} given, a positive finite number expected")
        self.radius = None if radius is None else float(radius)

    @abc.abstractmethod
    def width(self, columns: int) -> int:
        """Number of entries that a client with `columns` columns sends."""

    @abc.abstractmethod
    def encode(self, rows: NDArray[np.float64], encoding: FixedPoint) -> NDArray[np.int64]:
        """Encode normalised rows (m, p) as integers (m, width)."""

    @abc.abstractmethod
    def sensitivity(self, columns: int, encoding: FixedPoint) -> Sensitivity:
        """By how much the encoded contribution moves when one client's row is replaced."""

    @abc.abstractmethod
    def largest_entry(self, encoding: FixedPoint) -> int:
        """Largest magnitude of an encoded entry."""

    def describe(self) -> dict[str, Any]:
        """Return the public facts that `statistic_from` rebuilds this from."""
        return {"name": self.name, "radius": self.radius}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Statistic) and self.describe() == other.describe()

    def __hash__(self) -> int:
        return hash((self.name, self.radius))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(radius={self.radius})"

    def _norm(self, columns: int) -> float:
        """Largest L2 norm of a clipped row."""
        box = math.sqrt(columns)
        return box if self.radius is None else min(box, self.radius)

    def _clipped(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        return rows if self.radius is None else clip_ball(rows, self.radius)


class Rows(Statistic):
    """The normalised row itself."""

    name = "rows"

    def width(self, columns: int) -> int:
        """Return `columns`."""
        return columns

    def encode(self, rows: NDArray[np.float64], encoding: FixedPoint) -> NDArray[np.int64]:
        """Encode the rows, clipped to the box and, where there is a radius, to the ball."""
        if self.radius is None:
            return encoding.encode(rows)
        return encoding.encode_ball(rows, self.radius)

    def sensitivity(self, columns: int, encoding: FixedPoint) -> Sensitivity:
        """Replace-one sensitivity of the box, or of the ball where that is smaller."""
        if self.radius is None or self.radius >= math.sqrt(columns):
            return encoding.sensitivity(columns)
        return encoding.sensitivity(columns, eta=self.radius, clip="ball")

    def largest_entry(self, encoding: FixedPoint) -> int:
        """2^f, the encoding of 1."""
        return 1 << encoding.fractional_bits


class SecondMoments(Statistic):
    """The upper triangle of (1, z)(1, z)^T without its constant corner.

    Entries off the diagonal are multiplied by sqrt(2), so that the L2 norm of the contribution is the Frobenius norm
    of the matrix. For rows of norm at most C, ||zz^T - ww^T||_F^2 = |z|^4 + |w|^4 - 2 (z.w)^2 for the extended
    vectors, hence at most 2 (1 + C^2)^2.
    """

    name = "second-moments"

    def width(self, columns: int) -> int:
        """Return p (first moments) + p (p + 1) / 2."""
        return columns + columns * (columns + 1) // 2

    def encode(self, rows: NDArray[np.float64], encoding: FixedPoint) -> NDArray[np.int64]:
        """Encode the products of the clipped rows."""
        clipped = self._clipped(rows)
        columns = rows.shape[1]
        features = np.empty((len(rows), self.width(columns)))
        np.multiply(clipped, math.sqrt(2), out=features[:, :columns])
        at = columns
        for column in range(columns):
            products = features[:, at : at + columns - column]
            np.multiply(clipped[:, column:], clipped[:, column, None], out=products)
            products[:, 1:] *= math.sqrt(2)
            at += columns - column
        return encoding.encode(features, -math.sqrt(2), math.sqrt(2))

    def sensitivity(self, columns: int, encoding: FixedPoint) -> Sensitivity:
        """sqrt(2)(1 + C^2) in units of 2^-f, plus what rounding each entry to the nearest integer can add."""
        width = self.width(columns)
        real = math.sqrt(2) * (1 + self._norm(columns) ** 2) * 2.0**encoding.fractional_bits
        l2 = real + math.sqrt(width) + 1
        linf = 2 * self.largest_entry(encoding)
        return Sensitivity(l1=math.sqrt(width) * l2, l2=l2, linf=linf, columns=width)

    def largest_entry(self, encoding: FixedPoint) -> int:
        """sqrt(2) 2^f, rounded up."""
        return math.ceil(math.sqrt(2) * (1 << encoding.fractional_bits))

    @staticmethod
    def matrix(moments: NDArray[np.float64], columns: int, clients: int) -> NDArray[np.float64]:
        """Put released moments (width,) back into the symmetric Gram matrix (p + 1, p + 1) of (1, z)."""
        gram = np.zeros((columns + 1, columns + 1))
        gram[np.triu_indices(columns + 1)] = np.concatenate([[0.0], moments])
        gram /= math.sqrt(2)
        gram += gram.T
        gram[np.diag_indices(columns + 1)] /= math.sqrt(2)
        gram[0, 0] = clients
        return gram


_STATISTICS: dict[str, type[Statistic]] = {kind.name: kind for kind in (Rows, SecondMoments)}


def statistic_from(description: dict[str, Any]) -> Statistic:
    """Rebuild a statistic from `Statistic.describe`."""
    kind = _STATISTICS.get(description["name"])
    if kind is None:
        raise InputError(f"statistic: {description['name']!r} given, one of {', '.join(_STATISTICS)} expected")
    return kind(description["radius"])
