"""What standard errors are computed from: the second moments that a release shows, and the noise in them."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from dpmpc.data import Schema, largest_squared_norm
from dpmpc.release import NoisyGram, Release, SelectedColumns

Matrix = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class Observed:
    """What inference reads of a release, whichever form it has."""

    schema: Schema  # public bounds of the columns
    clients: int  # n, public and exact
    gram: NoisyGram  # of (1, columns)
    noise_variance: Matrix  # (k,): in an entry of each row; of second moments, in a diagonal entry
    rows: Matrix | None  # (k, p + 1): noisy rows of (1, columns); None for second moments
    # share of the sampling variance that the scatter of the rows does not show: 1 - 1/s where a client is in s rows,
    # all of it for second moments
    sampling: float
    mixtures: bool  # whether a row adds up many clients, so that it is nearly Gaussian; else it is one client's
    squared_norm: float  # the largest of a client's columns, C^2
    total: float | None = None  # noisy number that sums are divided by, where that is not n
    total_variance: float = 0.0  # of the noise in that

    @classmethod
    def of(cls, release: Release | SelectedColumns) -> Observed:
        """Read what servers opened."""
        task = release.task
        summed = release.summed
        return cls(
            schema=release.schema,
            clients=release.clients,
            gram=release.gram(),
            noise_variance=release.noise_variance,
            rows=None if summed else np.column_stack([release.ones, release.sketch]),
            sampling=1.0 if summed else 1 - 1 / task.sketch.sparsity,
            mixtures=True,
            squared_norm=largest_squared_norm(len(release.columns) - 1, task.statistic.radius),
            total=release.total if release.weighted else None,
            total_variance=release.total_variance,
        )

    @property
    def count(self) -> float:
        """What sums are divided by."""
        return float(self.clients) if self.total is None else self.total
