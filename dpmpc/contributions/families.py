"""The contributions by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpmpc.contributions.base import Contribution
from dpmpc.contributions.columns import ItemSketch, PowerSum
from dpmpc.contributions.grouped import GroupedMoments
from dpmpc.contributions.rows import Rows, SecondMoments, WhitenedProducts
from dpmpc.contributions.scores import Scores
from dpmpc.contributions.weighted import WeightedMoments
from dpmpc.storage import rebuilt

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
        Scores,
    )
}
"""What a saved task may name; whoever adds a contribution adds it here."""


def contribution_from(description: Mapping[str, Any]) -> Contribution:
    """Rebuild a contribution from `Contribution.describe`."""
    return rebuilt("statistic", CONTRIBUTIONS, description)
