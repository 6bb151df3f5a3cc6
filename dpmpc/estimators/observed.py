"""What standard errors are computed from: the second moments that a release shows, and the noise in them."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from dpmpc.bounds import Schema, largest_squared_norm
from dpmpc.release import NoisyGram, Release, SelectedColumns

Matrix = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class Observed:
    """What inference reads of a release, whichever form it has.

    Attributes
    ----------
    schema : Schema
        Public bounds of the columns.
    clients : int
        n, public and exact.
    gram : NoisyGram
        Of (1, columns).
    noise_variance : ndarray of float64, shape (k,)
        In an entry of each row; of second moments, in a diagonal entry.
    rows : ndarray of float64, shape (k, p + 1), optional
        Noisy rows of (1, columns); None for second moments.
    sampling : float
        Share of the sampling variance that the scatter of the rows does not show: 1 - 1/s where a client is in s rows,
        all of it for second moments.
    mixtures : bool
        Whether a row adds up many clients, so that it is nearly Gaussian; else it is one client's.
    squared_norm : float
        The largest of a client's columns, C^2.
    total : float, optional
        Noisy number that sums are divided by, where that is not n.
    total_variance : float
        Of the noise in that.
    """

    schema: Schema
    clients: int
    gram: NoisyGram
    noise_variance: Matrix
    rows: Matrix | None
    sampling: float
    mixtures: bool
    squared_norm: float
    total: float | None = None
    total_variance: float = 0.0

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
