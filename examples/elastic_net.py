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

from dpmpc.models import PrivateLinearModel, RidgeRegression
from dpmpc.models.common.commanded import option
from dpmpc.models.common.linear_algebra import LinearModel
from dpmpc.models.common.private_estimator import LinearPredictor, table_of
from dpmpc.models.common.release_parts import column_index, in_units
from dpmpc.models.common.scikit import name_features, remember_features
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning.forecast import Assumptions, Forecast
from dpmpc.release.release import GramRelease, Release
from dpmpc.release.results import NumberTable, Result


@dataclasses.dataclass(eq=False, repr=False)
class PrivateElasticNet(LinearPredictor, PrivateLinearModel):
    """Minimise |y - X w|^2 / (2 n) + alpha (l1_ratio |w|_1 + (1 - l1_ratio) |w|^2 / 2), in normalised columns."""

    kind = "elastic-net"  # `dpmpc fit --model elastic-net` has the options of these fields
    named = ("target", "the column to predict")
    from_features = True
    alpha: float = option(0.01, "penalty (default 0.01)", type=float, metavar="A")
    l1_ratio: float = option(1.0, "part of the penalty that is on |w|_1 (default 1)", type=float, metavar="R")

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
        self.release_, self.target_ = release, release.columns[position]
        self.feature_names_ = [name for name in release.columns if name != self.target_]
        name_features(self, self.feature_names_)
        return self

    def result(self, level: float = 0.95) -> Result:
        """Return the coefficients, which have no intervals of any level."""
        coefficients = dict(zip(self.feature_names_, self.coef_.tolist(), strict=True))
        tables = [NumberTable("Coefficients", {"coefficient": list(coefficients.values())}, self.feature_names_)]
        return Result(
            model=self.kind,
            title="Elastic net",
            tables=tables,
            data={"coefficients": coefficients, "intercept": self.intercept_, "target": self.target_},
            parameters=self.parameters,
            estimator=type(self).__name__,
            guarantee=self.release_.guarantee,
        )

    @property
    def parameters(self) -> dict[str, object]:
        return {"alpha": self.alpha, "l1_ratio": self.l1_ratio}

    def forecast(self, spec: ReleaseSpec, assumed: Assumptions | None = None) -> Forecast:
        """Return what a ridge regression of the same release is expected to show."""
        return RidgeRegression(rounds=0).forecast(spec, assumed)
