"""The statistics by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpmpc.contributions.base import Statistic
from dpmpc.contributions.columns import ItemSketch, PowerSum
from dpmpc.contributions.rows import Rows, SecondMoments, WhitenedProducts
from dpmpc.errors import InputError
from dpmpc.storage import malformed

STATISTICS: dict[str, type[Statistic]] = {
    kind.name: kind for kind in (Rows, SecondMoments, WhitenedProducts, PowerSum, ItemSketch)
}
"""What a saved task may name; whoever adds a statistic adds it here."""


def statistic_from(description: Mapping[str, Any]) -> Statistic:
    """Rebuild a statistic from `Statistic.describe`."""
    with malformed("statistic"):
        parameters = dict(description)
        kind = STATISTICS.get(parameters.pop("name"))
        if kind is None:
            raise InputError(f"statistic: {description['name']!r} given, one of {', '.join(STATISTICS)} expected")
        return kind(**parameters)
