"""Contributions whose every word is proved: rows, second moments, powers and cells in the integers of their circuits.

A task names one of these where clients prove what they share. It then has the encoding of the proofs, R - 1 instead of
2^f, the sensitivity of the whole proved set, and no rounding of products (`dpmpc.linear.proving.statements`).

Promised: `sensitivity` and `largest_entry` hold for whatever a circuit lets pass, not for honest rows alone. Not
promised: that anybody checks a proof. A collection does (`dpmpc.collect.opening.proof_checks`); a run whose clients are
simulated adds up what the proofs are of, and makes none.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ClassVar

from dpmpc.base.arrays import Integers, Reals
from dpmpc.linear.contributions import CONTRIBUTIONS, Rows, SecondMoments
from dpmpc.linear.contributions.cells import CellCodes, CellCounts
from dpmpc.linear.contributions.contribution import Contribution, OnePass
from dpmpc.linear.contributions.powers_and_items import ItemSketch, PowerSum
from dpmpc.linear.encoding import Sensitivity
from dpmpc.linear.encoding.fixed_point import FixedPoint
from dpmpc.linear.proving.statements import OFF_DIAGONAL, Proved, proved

USUAL_BITS, BITS_OF_MANY, MANY = 9, 11, 10**6
"""f up to a million clients, and for more: rounding adds less than half a percent of the noise."""


class ProvedContribution(Contribution):
    """What is summed where clients prove it.

    Attributes
    ----------
    kind : type of Contribution
        Of what it takes the place of, with the same parameters.
    """

    kind: ClassVar[Callable[..., Contribution]]

    @functools.cached_property
    def plain(self) -> Contribution:
        """The contribution that it takes the place of."""
        return type(self).kind(**self.parameters())

    def statement(self, columns: int, encoding: FixedPoint) -> Proved:
        """Return what is proved.

        Raises
        ------
        OverflowRisk
            If the statement would hold modulo p and not over the integers.
        """
        return _statement(self.plain, columns, encoding.fractional_bits)

    def encode(self, rows: Reals, encoding: FixedPoint) -> Integers:
        """Return what normalised rows add to the sums: what servers make of the outputs of their witnesses."""
        return self.statement(rows.shape[1], encoding).contributed(rows)

    def one_pass(self, encoding: FixedPoint) -> OnePass | None:
        """Return None: the kernels of plain contributions round differently."""
        return None

    def sensitivity(self, columns: int, encoding: FixedPoint) -> Sensitivity:
        """Return by how much one point of the proved set differs from another.

        Lemma: that of the statement.
        """
        return self.statement(columns, encoding).sensitivity()

    def units(self, columns: int, encoding: FixedPoint) -> Reals:
        """Return the value of one integer in each entry, in the plain contribution's units."""
        return self.statement(columns, encoding).units


class RowsWithProof(ProvedContribution, Rows):
    """Rows whose clients prove that they are in the box, and in the ball where there is a radius."""

    name, kind = "proved-rows", Rows

    def largest_entry(self, encoding: FixedPoint) -> int:
        """Return R = 2^f, which digits reach."""
        return 1 << encoding.fractional_bits


class MomentsWithProof(ProvedContribution, SecondMoments):
    """Second moments whose clients prove that W = z z^T, and that z is in the box, and the ball."""

    name, kind = "proved-second-moments", SecondMoments

    def largest_entry(self, encoding: FixedPoint) -> int:
        """Return 41 R^2."""
        return OFF_DIAGONAL << 2 * encoding.fractional_bits


class PowerWithProof(ProvedContribution, PowerSum):
    """A power of one number whose clients prove that it is one that the bounds allow."""

    name, kind = "proved-power-sum", PowerSum

    def largest_entry(self, encoding: FixedPoint) -> int:
        """Return the largest magnitude that digits reach."""
        return self.statement(1, encoding).largest_entry


class _CellsWithProof(ProvedContribution):
    """A code of cells whose clients prove that they are in one cell of each grid."""

    plain: CellCodes

    def largest_entry(self, encoding: FixedPoint) -> int:
        """Return the largest integer of the code."""
        return self.plain.largest_entry(FixedPoint(self.plain.exact_bits, encoding.ring))


class CountsWithProof(_CellsWithProof, CellCounts):
    """Histograms whose clients prove that they are in one cell of each grid.

    Not promised: that the cells of different grids belong to one person.
    """

    name, kind = "proved-cell-counts", CellCounts


class ItemWithProof(_CellsWithProof, ItemSketch):
    """One column of a public matrix over items: clients prove that they share one sign in one place.

    Not promised: that the place and the sign belong to any item; there may be fewer items than signed places.
    """

    name, kind = "proved-item-sketch", ItemSketch


_KINDS: dict[Callable[..., Contribution], type[ProvedContribution]] = {
    one.kind: one for one in (RowsWithProof, MomentsWithProof, PowerWithProof, CountsWithProof, ItemWithProof)
}
CONTRIBUTIONS |= {one.name: one for one in _KINDS.values()}


def with_proofs(contribution: Contribution) -> ProvedContribution | None:
    """Return a contribution whose clients prove it, or None where no collection can have such a one."""
    kind = _KINDS.get(type(contribution))
    return None if kind is None else kind(**contribution.parameters())


def bits_for(clients: int) -> int:
    """Return the fractional bits that a release of this many clients needs."""
    return USUAL_BITS if clients <= MANY else BITS_OF_MANY


@functools.lru_cache(maxsize=64)
def _statement(plain: Contribution, columns: int, fractional_bits: int) -> Proved:
    return proved(plain, columns, fractional_bits)
