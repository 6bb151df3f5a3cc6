"""Second moments by public group: a block for each group, of which a client fills its own and no other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmpc._kernels import arithmetic
from dpmpc.base.arguments import require_bool, require_positive, require_whole
from dpmpc.base.arrays import Integers, Reals
from dpmpc.base.errors import InputError
from dpmpc.data import Codebook, Schema
from dpmpc.data.schemas import clip_ball, largest_squared_norm
from dpmpc.data.variables import Variable
from dpmpc.linear.contributions.contribution import Contribution, moment_sensitivity, require_few_bits, symmetric
from dpmpc.linear.contributions.noisy_gram import NoisyGram
from dpmpc.linear.encoding import Sensitivity
from dpmpc.linear.encoding.fixed_point import FixedPoint

MOST_GROUPS = 50
_SET = 0.5  # an indicator above this is taken to be 1: rows of a codebook have 0 and 1, or -1 and 1 where it is alone


class GroupedMoments(Contribution):
    """The upper triangle of w (1, z)(1, z)^T in the block of the client's group, and zeros in all other blocks.

    Some adjacent columns of a row are indicators, of which one at most is 1, and encode its group: group 0 where none
    is set, group j for the j-th. They are no part of z. Where rows are weighted, the last column is the weight, as in
    `WeightedMoments`; else w = 1. The corner of a block is the noisy number of its people, or the sum of their weights.

    With v = sqrt(w) (1, z), two contributions differ by ``||v v^T - v' v'^T||_F`` if their groups are equal, and by
    ``sqrt(|v|^4 + |v'|^4)`` if not. Neither exceeds ``sqrt(2)(1 + C^2)``, the bound of `SecondMoments`, and the latter
    attains it (theorem grouped-moments). Entries off the diagonal are multiplied by sqrt(2).

    Parameters
    ----------
    first : int
        Position of the first indicator.
    indicators : int
        How many there are, one less than groups, which are at most 50.
    radius : float, optional
        Clip z to an L2 ball of this radius, on top of the box.
    weighted : bool
        Whether the last column is a weight.
    """

    name = "grouped-second-moments"
    any_target = True

    def __init__(self, first: int, indicators: int, radius: float | None = None, weighted: bool = False):
        self.first = require_whole("first", first, 0)
        self.indicators = require_whole("indicators", indicators, 1, MOST_GROUPS - 1)
        self.radius = None if radius is None else require_positive("radius", radius)
        self.weighted = require_bool("weighted", weighted)

    @property
    def groups(self) -> int:
        """Number of groups, G."""
        return self.indicators + 1

    def parameters(self) -> dict[str, Any]:
        """Return where the indicators are, the radius, and whether rows are weighted."""
        return {
            "first": self.first,
            "indicators": self.indicators,
            "radius": self.radius,
            "weighted": self.weighted,
        }

    def analysed(self, schema: Schema) -> Schema:
        """Return the columns that are neither indicators of a group nor a weight."""
        return schema.select([schema.names[place] for place in self._places(len(schema))])

    def variable(self, schema: Schema) -> Variable:
        """Return the variable of a schema whose values are the groups.

        Raises
        ------
        InputError
            If the schema has no category whose indicators are where clients look for them.
        """
        book, names = schema.codebook, schema.names[self.first : self.first + self.indicators]
        for variable in book.variables if isinstance(book, Codebook) else ():
            columns = tuple(column.name for column in variable.term.columns)
            if columns == names and len(variable.categories) == self.groups:
                return variable
        raise InputError("bounds", f"no category given whose columns are {', '.join(names)}, as {self.name} expects")

    def block_width(self, columns: int) -> int:
        """Return W = (q + 1)(q + 2) / 2 for the q columns of z."""
        q = len(self._places(columns))
        return (q + 1) * (q + 2) // 2

    def width(self, columns: int) -> int:
        """Return G W."""
        return self.groups * self.block_width(columns)

    def encode(self, rows: Reals, encoding: FixedPoint) -> Integers:
        """Encode the products of the clipped rows, each in the block of its group."""
        places = self._places(rows.shape[1])
        z = np.ascontiguousarray(rows[:, places])
        clipped = np.ascontiguousarray(z if self.radius is None else clip_ball(z, self.radius), np.float64)
        weights = np.clip((1 + rows[:, -1:]) / 2, 0.0, 1.0) if self.weighted else np.ones((len(rows), 1))
        products = np.empty((len(rows), self.block_width(rows.shape[1]) - 1))
        if products.size:
            arithmetic.second_moments(clipped, math.sqrt(2), products)
        block = encoding.encode(np.column_stack([weights, products * weights]), -math.sqrt(2), math.sqrt(2))
        blocks = np.zeros((len(rows), self.groups, block.shape[1]), np.int64)
        blocks[np.arange(len(rows)), self.group_of(rows)] = block
        return blocks.reshape(len(rows), -1)

    def group_of(self, rows: Reals) -> NDArray[np.intp]:
        """Return `shown_group`."""
        return shown_group(rows, self.first, self.indicators)

    def sensitivity(self, columns: int, encoding: FixedPoint) -> Sensitivity:
        """Return sqrt(2)(1 + C^2) in units of 2^-f, plus what rounding each entry can add, as of one block.

        Two blocks of W entries differ, so that the L1 norm is sqrt(2) times that of one block. Lemmas:
        rank_one_difference, rounding_distance.
        """
        q, width = len(self._places(columns)), self.block_width(columns)
        require_few_bits(encoding, width)
        real = moment_sensitivity(1 + largest_squared_norm(q, self.radius)) * 2.0**encoding.fractional_bits
        l2 = real + math.sqrt(width) + 1
        linf = 2 * self.largest_entry(encoding)
        return Sensitivity(l1=math.sqrt(2 * width) * l2, l2=l2, linf=linf, columns=self.width(columns))

    def largest_entry(self, encoding: FixedPoint) -> int:
        """Return sqrt(2) 2^f, rounded up."""
        return math.ceil(math.sqrt(2) * (1 << encoding.fractional_bits))

    def grams(self, moments: Reals, columns: int) -> Reals:
        """Put released blocks (G W,) back into Gram matrices (G, q + 1, q + 1) of sqrt(w) (1, z), noisy corners too."""
        q = len(self._places(columns))
        blocks = moments.reshape(self.groups, self.block_width(columns))
        first, second = np.triu_indices(q + 1)
        return symmetric(blocks / np.where(first == second, 1.0, math.sqrt(2)), q + 1)

    def noisy_gram(self, matrix: Reals, variance: Reals, columns: tuple[str, ...]) -> NoisyGram:
        """Return the matrix of blocks that were added up; see `Contribution.noisy_gram`."""
        return NoisyGram.of_sums(matrix, float(variance[0]), columns)

    def _places(self, columns: int) -> list[int]:
        """Return the positions of the columns of z."""
        last = columns - self.weighted
        if self.first + self.indicators > last or last == self.indicators:
            raise InputError(
                "columns",
                columns,
                f"{self.first + self.indicators + self.weighted} or more, with one at least beside the "
                f"{self.indicators} indicators of a group,",
                condition=f"by {self.name}",
            )
        return [*range(self.first), *range(self.first + self.indicators, last)]


def shown_group(rows: Reals, first: int, indicators: int) -> NDArray[np.intp]:
    """Return the one group (m,) of each normalised row, whatever a client has put in its indicators."""
    indicator_values = rows[:, first : first + indicators]
    return np.where(indicator_values.max(axis=1) > _SET, 1 + indicator_values.argmax(axis=1), 0)
