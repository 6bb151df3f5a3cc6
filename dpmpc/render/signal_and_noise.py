"""Noise against signal: how large the released numbers are beside the noise in them, from the release alone."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import NDArray

from dpmpc.contributions import GroupedMoments, ItemSketch, PowerSum, Rows, SecondMoments
from dpmpc.release import Release


@dataclasses.dataclass(frozen=True)
class Signal:
    """Typical sizes (root mean square) in the release, in its own units: columns mapped to [-1, 1], summed."""

    entries: str  # what the numbers are, and in which unit
    unit: str
    noise: dict[str, float]  # name -> typical size of the noise
    # name -> typical size of what is left without the noise, an estimate; 0 where nothing stands out
    signal: dict[str, float]

    @classmethod
    def of(cls, release: Release) -> Signal:
        """Compare the squared entries of each column with the variance of the noise in them."""
        contribution, variance = release.task.statistic, release.noise_variance
        if isinstance(contribution, Rows):
            squares = np.mean(release.sketch**2, axis=0)
            entries = ("entries of the sketch, columns mapped to [−1, 1]", "typical size, no unit")
            return cls._of(entries, release.columns, squares, np.full(len(squares), variance.mean()))
        if isinstance(contribution, SecondMoments):
            matrix = release.gram().matrix[1:]
            noise = np.full(matrix.shape, variance[0] / 2)  # off the diagonal; see `SecondMoments`
            noise[:, 1:][np.diag_indices(len(noise))] *= 2
            squares = np.mean(matrix**2, axis=1)
            entries = ("sums of products that a column is part of, columns mapped to [−1, 1]", "typical size, no unit")
            return cls._of(entries, release.columns, squares, noise.mean(axis=1))
        if isinstance(contribution, GroupedMoments):
            entries = ("entries of a group's block, columns mapped to [−1, 1]", "typical size, no unit")
            squares = np.mean(release.sketch[0].reshape(contribution.groups, -1) ** 2, axis=1)
            names = contribution.variable(release.task.schema).categories
            return cls._of(entries, names, squares, np.full(len(squares), variance[0]))
        entries = ("released sums", "typical size, no unit")
        if isinstance(contribution, PowerSum):
            entries = ("released sum, the column divided by its largest bound", "size, no unit")
        if isinstance(contribution, ItemSketch):
            entries = ("entries of the items' sketch, in people", "typical size, people")
        squares = np.array([np.mean(release.sketch**2)])
        return cls._of(entries, ("all entries",), squares, np.array([variance.mean()]))

    @classmethod
    def _of(
        cls, entries: tuple[str, str], names: tuple[str, ...], squares: NDArray[np.float64], noise: NDArray[np.float64]
    ) -> Signal:
        left = np.sqrt(np.maximum(squares - noise, 0.0))
        return cls(
            *entries,
            dict(zip(names, np.sqrt(noise).tolist(), strict=True)),
            dict(zip(names, left.tolist(), strict=True)),
        )

    def ratio(self, name: str) -> float:
        """Return signal over noise."""
        return self.signal[name] / self.noise[name] if self.noise[name] else math.inf
