"""Poisson regression of counts from rounds of noisy sums."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.data import Column, Schema, Table
from dpmpc.models.common.estimator import Regressor
from dpmpc.models.regression.in_rounds import RegressionInRounds, require_values
from dpmpc.models.rounds.models import PoissonModel, RoundModel
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning.forecast import Assumptions, Forecast
from dpmpc.release.results import NumberTable


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class PoissonRegression(RegressionInRounds, Regressor):
    """Differentially private Poisson regression of counts, with a logarithmic link, from rounds of noisy sums.

    Nothing is assumed of the law of the counts but their mean: intervals hold where counts vary more than Poisson's.

    Parameters
    ----------
    epsilon, delta : float
        Budget of all rounds together, 0 < delta < 1/n.
    bounds : Schema, pair, dict, path or None
        Public bounds of the features; None where they are already in [-1, 1]. The bounds of the target follow from the
        model. They may be named too, as "y" or as the Series that holds it, and others than the model's are refused.
    noise : {"discrete-gaussian"}
        What rounds take: only of that is known here how rounds add up.
    servers : int
        Number of servers, at least 2.
    sharing : {"additive", "shamir"}
        How a contribution is split: with additive shares all servers are needed and all but one may collude; with
        Shamir's fewer than half may collude and some may be missing.
    noise_by : {"clients", "servers"}
        Who adds the noise.
    copies : {"auto", "one", "each"}
        Noisy copies of its row that a client sends, with noise by clients: one, or one for each row of the sketch that
        it hits. 'auto' is one where that is proven and costs at most a quarter more variance.
    corrupt_clients : int
        Most clients that may reveal their noise to the servers.
    dropouts : int
        Most clients from whom anything may be missing in the end.
    coalition : {"adaptive"}
        Corrupt clients may be chosen at any time.
    calibration : {"joint"}
        Noise for a whole sum at once.
    threads : int
        Threads of the kernels.
    simulation_seed : int, optional
        Simulations only: repeats sketch, noise and shares; the guarantee then states that no one is protected.
    rounds : int or "auto"
        Steering rounds, 1 to 64, after the first sum of second moments. "auto" takes 8, or 32 for at most 100,000 rows
        without intervals. All sums are paid from one budget. A logistic regression may have 0 too: one release and an
        approximation without intervals (`LogisticRegression.fit_release`).
    intervals : bool
        Whether half of the budget goes into standard errors and intervals, by two last rounds.
    private_bounds : bool
        Whether 5% of the budget goes into counts that narrow the bounds of features which use little of
        them (`dpmpc.models.rounds.private_bounds`). Values outside count as the new bounds.
    most : int
        Public upper bound of the counts; larger ones count as so many, and none below 0.

    Attributes
    ----------
    coef_ : ndarray of float64, shape (d,)
        Log rate ratios by unit of each column; NaN where nothing was learned.
    intercept_ : float
        Log rate where all features are 0.
    verdict_ : str or None
        Why nothing was learned.
    no_interval_ : str or None
        Why there are coefficients without intervals.
    guarantee_ : Guarantee
        Of all rounds together.
    rounds_ : int
        Steering rounds that were made.
    noise_part_ : float or None
        The part of what the features may explain that noise hides.
    private_bounds_ : tuple of PrivateBound
        The bounds of each column that was counted, empty without `private_bounds`.
    releases_ : tuple of Release
        The second moments, and the rounds in their order. The guarantee of each is that of a part.
    feature_names_ : tuple of str
        The columns that `coef_` belongs to.
    n_features_in_ : int
        Their number.
    feature_names_in_ : ndarray of str, shape (d,)
        The same names, where the columns of X had their own names.

    Examples
    --------
    >>> import numpy as np
    >>> from dpmpc import PoissonRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20_000, 2))
    >>> y = rng.poisson(np.exp(0.5 + X @ [0.5, -0.3]))
    >>> model = PoissonRegression(most=15, epsilon=1.0, bounds=(-1, 1), simulation_seed=1).fit(X, y)
    >>> bool(abs(model.coef_ - [0.5, -0.3]).max() < 0.1)
    True
    """

    kind, ratio = "poisson", "rate"
    assumes = (*RegressionInRounds.assumes, "most")

    most: int = 100

    def forecast(self, spec: ReleaseSpec, assumed: Assumptions | None = None) -> Forecast:
        """Return what a fit is expected to show, of counts up to `most` if nothing else is assumed."""
        given = assumed or Assumptions()
        return super().forecast(spec, dataclasses.replace(given, most=given.most or self.most))

    def fit(self, X: ArrayLike, y: ArrayLike) -> PoissonRegression:
        """Have the rounds made of (X, y) under the estimator's budget, and fit them.

        Parameters
        ----------
        X : array-like of shape (n, d), or a data frame
            One row per client.
        y : array-like of shape (n,)
            The counts.
        """
        self._fit(X, y, y, float(PoissonModel(self.most).top))  # which refuses what is no number of counts
        return self

    @property
    def parameters(self) -> dict[str, object]:
        """What the estimator was given, so that it can be made again."""
        return {**super().parameters, "most": self.most}

    def rate_ratios(self, level: float = 0.95) -> NumberTable:
        """Return the table of the model: coefficients, rate ratios exp(coefficient) and their intervals.

        Parameters
        ----------
        level : float
            Nominal coverage of each interval, strictly between 0 and 1.
        """
        return self.summary(level).coefficients

    def check_rows(self, table: Table, public: Schema, column: str | None, *, filled: bool) -> None:
        """Refuse an unknown target, a table without features, and a target that is not a count."""
        super().check_rows(table, public, column, filled=filled)
        if not filled:
            require_values(
                table, str(column), lambda values: (values >= 0) & (values == np.floor(values)), "0, 1, 2, ..."
            )

    def round_target(self, target: Column, *, given: bool) -> Column:
        """Take the largest count from the bounds of the target, or refuse them."""
        if not given or target.lower != 0 or target.upper != math.floor(target.upper):
            bounds = f"({target.lower:g}, {target.upper:g})" if given else "none"
            raise InputError(
                f"bounds of column {target.name!r}",
                bounds,
                "0 and the largest count, a whole number",
                "it is the target of a Poisson model",
            )
        self.most = int(target.upper)
        return target

    def round_model(self, target: Column) -> RoundModel:
        """Return the model of counts between 0 and `most`; other targets are refused."""
        if (target.lower, target.upper) != (0.0, float(self.most)):
            raise InputError(
                f"bounds of column {target.name!r}",
                f"({target.lower:g}, {target.upper:g})",
                f"(0, {self.most})",
                "from 0 to the largest count",
                condition="of the target of a Poisson model",
            )
        return PoissonModel(self.most)

    def _intercept_of_mean(self, mean: float) -> float:
        return math.log(max(self.most * (1 + mean) / 2, 1 / self.releases_[0].clients))

    def predict(self, X: ArrayLike) -> Reals:
        """Return the expected counts (m,) for rows (m, d) of the features, at most `most`."""
        return np.exp(np.minimum(self._predictor(X), math.log(self.most)))

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn's checks may expect."""
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        tags.regressor_tags.poor_score = True  # the checks' targets are no counts
        return tags
