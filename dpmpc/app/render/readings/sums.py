"""Readings of a sketch of rows, of a power of numbers, and of items."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dpmpc.app.render.readings.reading import Reading
from dpmpc.app.render.readings.sentences import hint
from dpmpc.linear.contributions.powers_and_items import PowerSum
from dpmpc.models.components.frequency_moment import FrequencyMoment
from dpmpc.release.release import Release
from dpmpc.release.results import Result


class ReadingOfRows(Reading):
    """A sketch of rows: its Gram matrix serves every target."""

    words, proved_words = "a sketch of their rows", "a sketch of their proved rows"
    entries = "entries of the sketch, columns mapped to [−1, 1]"

    def _sizes(self, release: Release) -> Mapping[str, tuple[float, float]]:
        squares, variance = np.mean(release.sketch**2, axis=0).tolist(), float(release.noise_variance.mean())
        return {name: (square, variance) for name, square in zip(release.columns, squares, strict=True)}

    def result(self, release: Release, level: float) -> Result:
        """Name what a sketch is for."""
        return Result(notes=[f"A sketch of rows. {hint(release.columns)}"])


class ReadingOfPower(Reading):
    """The sum of a power: a frequency moment of values."""

    words, proved_words = "the sum of a power of their numbers", "the sum of a proved power of their numbers"
    entries = "released sum, the column divided by its largest bound"

    def result(self, release: Release, level: float) -> Result:
        """Return the moment."""
        assert isinstance(release.task.statistic, PowerSum)
        return FrequencyMoment(release.task.statistic.order, of="values").fit_release(release).result()


class ReadingOfItems(Reading):
    """A sketch of items: their second frequency moment."""

    words, proved_words = "a sketch of how many hold each item", "a proved sketch of how many hold each item"
    entries = "entries of the items' sketch, in people"

    def result(self, release: Release, level: float) -> Result:
        """Return the moment."""
        return FrequencyMoment(2, of="items").fit_release(release).result()
