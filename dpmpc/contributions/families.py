"""The statistics by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpmpc.contributions.base import Contribution
from dpmpc.contributions.columns import ItemSketch, PowerSum
from dpmpc.contributions.rows import Rows, SecondMoments, WhitenedProducts
from dpmpc.errors import InputError
from dpmpc.storage import malformed

CONTRIBUTIONS: dict[str, type[Contribution]] = {
    kind.name: kind for kind in (Rows, SecondMoments, WhitenedProducts, PowerSum, ItemSketch)
}
"""What a saved task may name; whoever adds a statistic adds it here."""


def contribution_from(description: Mapping[str, Any]) -> Contribution:
    """Rebuild a statistic from `Contribution.describe`."""
    with malformed("statistic"):
        parameters = dict(description)
        kind = CONTRIBUTIONS.get(parameters.pop("name"))
        if kind is None:
            raise InputError(f"statistic: {description['name']!r} given, one of {', '.join(CONTRIBUTIONS)} expected")
        return kind(**parameters)
