"""A new estimator: the elastic net, so also the lasso, read from a release.

The released Gram matrix of (1, z) says all that a least-squares fit needs of the rows. Take the columns' means out (a
Schur complement), and put 0 for what noise has made negative (the nearest positive semidefinite matrix). The root R of
what is left, R^T R, then stands for all rows, with as few as there are columns, and scikit-learn fits R. That is
post-processing of a release, and costs no further privacy. Not promised: that a coefficient of 0 means no effect; noise
hides effects, and makes some up.
"""

import dataclasses
from typing import Any

import numpy as np
from sklearn.linear_model import ElasticNet

from dpmpc.models import PrivateLinearModel
from dpmpc.models.common.linear_algebra import LinearModel
from dpmpc.models.common.private_estimator import LinearPredictor, table_of
from dpmpc.models.common.release_parts import column_index, in_units
from dpmpc.models.common.scikit import name_features, remember_features
from dpmpc.release.release import GramRelease, Release


@dataclasses.dataclass(eq=False, repr=False)
class PrivateElasticNet(LinearPredictor, PrivateLinearModel):
    """Minimise |y - X w|^2 / (2 n) + alpha (l1_ratio |w|_1 + (1 - l1_ratio) |w|^2 / 2), in normalised columns."""

    alpha: float = 0.01
    l1_ratio: float = 1.0

    def fit(self, X: Any, y: Any) -> "PrivateElasticNet":
        """Make a release of (X, y) under the estimator's budget, and fit it."""
        table = table_of(self, X, y)
        self.fit_release(self.release(table), target=table.names[-1])
        remember_features(self, X)
        return self

    def fit_release(self, release: Release | GramRelease, target: str | int = -1) -> "PrivateElasticNet":
        """Fit a release to predict one of its columns from the others."""
        position = column_index(release.columns, target)
        gram = release.gram().debiased(position, fit_intercept=True).matrix
        n, means = gram[0, 0], gram[0, 1:] / gram[0, 0]
        values, vectors = np.linalg.eigh(gram[1:, 1:] / n - np.outer(means, means))
        rows = np.sqrt(len(means) * values.clip(min=0))[:, None] * vectors.T  # R^T R / p is the covariance
        solver = ElasticNet(alpha=self.alpha, l1_ratio=self.l1_ratio, fit_intercept=False, max_iter=10_000)
        weights = solver.fit(np.delete(rows, position, axis=1), rows[:, position]).coef_
        model = LinearModel(weights, float(means[position] - np.delete(means, position) @ weights))
        self.coef_, self.intercept_ = in_units(model, release.task.schema, position)
        self.release_ = release
        name_features(self, [name for name in release.columns if name != release.columns[position]])
        return self
