"""Contributions whose every word is proved: rows, second moments, powers and items in the integers of their circuits.

A task names one of these where clients prove what they share. It then has the encoding of the proofs, R - 1 in place of
2^f, the sensitivity of the whole proved set, and no rounding of products (`dpmpc.proving.statements`).

Promised: `sensitivity` and `largest_entry` hold for whatever a circuit lets pass, not for honest rows alone. Not
promised: that anybody checks a proof. A collection does (`dpmpc.collection.proof_checks`); a run whose clients are
simulated adds up what the proofs are of, and makes none.
"""

from __future__ import annotations

import abc
import functools
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dpmpc.contributions import CONTRIBUTIONS, Contribution, ItemSketch, PowerSum, Rows, SecondMoments
from dpmpc.contributions.contribution import OnePass
from dpmpc.encoding import FixedPoint, Sensitivity
from dpmpc.proving.circuit import FIELD
from dpmpc.proving.statements import OFF_DIAGONAL, Proved, proved

USUAL_BITS, BITS_OF_MANY, MANY = 9, 11, 10**6
"""f up to a million clients, and for more: rounding adds less than half a percent of the noise (mathematics.md)."""


class ProvedContribution(Contribution):
    """What is summed where clients prove it."""

    @property
    @abc.abstractmethod
    def plain(self) -> Contribution:
        """The contribution that it takes the place of."""

    @classmethod
    @abc.abstractmethod
    def of_plain(cls, plain: Any) -> Self:
        """Return the same contribution with proofs."""

    def statement(self, columns: int, encoding: FixedPoint) -> Proved:
        """Return what is proved.

        Raises
        ------
        OverflowRisk
            If the statement would hold modulo p and not over the integers.
        """
        return _statement(self.plain, columns, encoding.fractional_bits)

    def encode(self, rows: NDArray[np.float64], encoding: FixedPoint) -> NDArray[np.int64]:
        """Return what servers add up of normalised rows: the outputs of their witnesses."""
        statement = self.statement(rows.shape[1], encoding)
        return FIELD.lift(statement.outputs(statement.witness(statement.encode(rows)), 1))

    def one_pass(self, encoding: FixedPoint) -> OnePass | None:
        """Return None: the kernels of plain contributions round differently."""
        return None

    def sensitivity(self, columns: int, encoding: FixedPoint) -> Sensitivity:
        """Return by how much one point of the proved set differs from another."""
        return self.statement(columns, encoding).sensitivity()

    def units(self, columns: int, encoding: FixedPoint) -> NDArray[np.float64]:
        """Return the value of one integer in each entry, in the plain contribution's units."""
        return self.statement(columns, encoding).units


class RowsWithProof(ProvedContribution, Rows):
    """Rows whose clients prove that they are in the box, and in the ball where there is a radius."""

    name = "proved-rows"

    @property
    def plain(self) -> Rows:
        """Rows of the same radius."""
        return Rows(self.radius)

    @classmethod
    def of_plain(cls, plain: Rows) -> Self:
        """Return rows of the same radius."""
        return cls(plain.radius)

    def largest_entry(self, encoding: FixedPoint) -> int:
        """Return R = 2^f, which digits reach."""
        return 1 << encoding.fractional_bits


class MomentsWithProof(ProvedContribution, SecondMoments):
    """Second moments whose clients prove that W = z z^T, and that z is in the box, and the ball."""

    name = "proved-second-moments"

    @property
    def plain(self) -> SecondMoments:
        """Second moments of the same radius."""
        return SecondMoments(self.radius)

    @classmethod
    def of_plain(cls, plain: SecondMoments) -> Self:
        """Return second moments of the same radius."""
        return cls(plain.radius)

    def largest_entry(self, encoding: FixedPoint) -> int:
        """Return 41 R^2."""
        return OFF_DIAGONAL << 2 * encoding.fractional_bits


class PowerWithProof(ProvedContribution, PowerSum):
    """A power of one number whose clients prove that it is one that the bounds allow."""

    name = "proved-power-sum"

    @property
    def plain(self) -> PowerSum:
        """The same power."""
        return PowerSum(self.order, self.zero)

    @classmethod
    def of_plain(cls, plain: PowerSum) -> Self:
        """Return the same power."""
        return cls(plain.order, plain.zero)

    def largest_entry(self, encoding: FixedPoint) -> int:
        """Return the largest magnitude that digits reach."""
        return self.statement(1, encoding).largest_entry


class ItemWithProof(ProvedContribution, ItemSketch):
    """One column of a public matrix over items: clients prove that they share one sign in one place.

    Not promised: that the place and the sign belong to any item; there may be fewer items than signed places.
    """

    name = "proved-item-sketch"

    @property
    def plain(self) -> ItemSketch:
        """The same sketch."""
        return ItemSketch(self.items, self.rows, self.seed)

    @classmethod
    def of_plain(cls, plain: ItemSketch) -> Self:
        """Return the same sketch."""
        return cls(plain.items, plain.rows, plain.seed)

    def largest_entry(self, encoding: FixedPoint) -> int:
        """Return 1."""
        return 1


_KINDS: dict[type[Contribution], type[ProvedContribution]] = {
    Rows: RowsWithProof,
    SecondMoments: MomentsWithProof,
    PowerSum: PowerWithProof,
    ItemSketch: ItemWithProof,
}
CONTRIBUTIONS |= {kind.name: kind for kind in _KINDS.values()}


def with_proofs(contribution: Contribution) -> ProvedContribution | None:
    """Return a contribution whose clients prove it, or None where no collection can have such a one."""
    kind = _KINDS.get(type(contribution))
    return None if kind is None else kind.of_plain(contribution)


def bits_for(clients: int) -> int:
    """Return the fractional bits that a release of this many clients needs."""
    return USUAL_BITS if clients <= MANY else BITS_OF_MANY


@functools.lru_cache(maxsize=64)
def _statement(plain: Contribution, columns: int, fractional_bits: int) -> Proved:
    return proved(plain, columns, fractional_bits)
