"""What one client contributes: its row, second moments of it, its score in a regression, a power, an item, its cells.

Either way a release is a public linear map of the contributions plus noise. `Rows` is what the paper sketches. With
`SecondMoments` the public matrix is the all-ones row: the release is the noisy Gram matrix of (1, z), so that
sufficient statistics perturbation runs with no trusted curator; `GroupedMoments` has one such matrix for each group.
`PowerSum` and `ItemSketch`, for frequency moments, are summed likewise, and so are
`CellCounts`, for histograms and quantiles (section 15).

A contribution states what a client sends, and how far one client can move it. That bound holds for every row, whatever
the schema that the row came through; only accuracy depends on the two belonging together.
"""

from collections.abc import Mapping
from typing import Any

from dpmpc.base.storage.records import rebuilt
from dpmpc.linear.contributions.cells import CellCounts
from dpmpc.linear.contributions.clipped_scores import ClippedScores
from dpmpc.linear.contributions.contribution import Contribution, Rows, SecondMoments, WeightedMoments, WhitenedProducts
from dpmpc.linear.contributions.grouped_moments import GroupedMoments
from dpmpc.linear.contributions.powers_and_items import ItemSketch, PowerSum
from dpmpc.linear.contributions.residual_products import ResidualProducts
from dpmpc.linear.contributions.scores import Scores

__all__ = ["Rows", "SecondMoments"]

CONTRIBUTIONS: dict[str, type[Contribution]] = {
    kind.name: kind
    for kind in (
        Rows,
        SecondMoments,
        WeightedMoments,
        GroupedMoments,
        WhitenedProducts,
        PowerSum,
        ItemSketch,
        CellCounts,
        Scores,
        ClippedScores,
        ResidualProducts,
    )
}
"""What a saved task may name; whoever adds a contribution adds it here."""


def contribution_from(description: Mapping[str, Any]) -> Contribution:
    """Rebuild a contribution from `Contribution.describe`."""
    return rebuilt("statistic", CONTRIBUTIONS, description)
