"""What each kind of release can be read as, for the command and for pages: one line for each contribution."""

from dpmpc.app.render.readings.cells import ReadingOfCells
from dpmpc.app.render.readings.groups import ReadingOfGroups
from dpmpc.app.render.readings.moments import ReadingOfMoments, ReadingOfWeightedMoments
from dpmpc.app.render.readings.reading import Reading
from dpmpc.app.render.readings.sums import ReadingOfItems, ReadingOfPower, ReadingOfRows
from dpmpc.linear.contributions import Rows, SecondMoments
from dpmpc.linear.contributions.cells import CellCounts
from dpmpc.linear.contributions.clipped_scores import ClippedScores
from dpmpc.linear.contributions.contribution import Contribution, WeightedMoments, WhitenedProducts
from dpmpc.linear.contributions.grouped_moments import GroupedMoments
from dpmpc.linear.contributions.powers_and_items import ItemSketch, PowerSum
from dpmpc.linear.contributions.residual_products import ResidualProducts
from dpmpc.linear.contributions.scores import Scores


class _OfRounds(Reading):
    """A sum that models in rounds read."""

    def __init__(self, words: str):
        self.words = words


READINGS: dict[type[Contribution], Reading] = {
    Rows: ReadingOfRows(),
    SecondMoments: ReadingOfMoments(),
    WeightedMoments: ReadingOfWeightedMoments(),
    GroupedMoments: ReadingOfGroups(),
    PowerSum: ReadingOfPower(),
    ItemSketch: ReadingOfItems(),
    CellCounts: ReadingOfCells(),
    Scores: _OfRounds("the sum of their scores"),
    ClippedScores: _OfRounds("the sum of their clipped scores"),
    ResidualProducts: _OfRounds("the second sum, of products of their residuals"),
    WhitenedProducts: _OfRounds("the sum of their whitened products"),
}
"""What reads a contribution, or one that is derived from it, as those are that clients prove."""
_UNKNOWN = Reading()


def reading_of(contribution: Contribution) -> Reading:
    """Return what reads the sums of a contribution."""
    kinds = type(contribution).__mro__
    return next((READINGS[kind] for kind in kinds if kind in READINGS), _UNKNOWN).of(contribution)
