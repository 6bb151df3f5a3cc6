"""Logistic and Poisson regression from rounds of noisy sums (docs/mathematics.md, section 12).

`fit` simulates clients and servers in this process, who answer every round with fresh noise; the analyst's part, and
all that the result is read from, is `dpmpc.rounds`.

Promised: all rounds together cost the budget that is given, replacing one row in all of them alike (`guarantee_`).
Not promised: that a logistic fit without rounds is near the best one (`dpmpc.estimators.round_fits.APPROXIMATION`); a
fit where there are too few people. Then the releases say so: `verdict_` has the reason, `coef_` is NaN, predictions are
the released mean, and a `UtilityWarning` is raised.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from dpmpc.arguments import documented, require_fraction
from dpmpc.bounds import Column, Schema, check_table
from dpmpc.contributions import sigmoid
from dpmpc.description.number_tables import NumberTable
from dpmpc.errors import InputError
from dpmpc.estimators.base import PrivateEstimator, chosen_columns, column_index, schema_of, table_of, target_name
from dpmpc.estimators.inference import Inference
from dpmpc.estimators.round_fits import (
    Fitted,
    approximation_of,
    features_in_units,
    inference_of,
    ratio_of,
    releases_of,
    take,
)
from dpmpc.estimators.scikit import name_features, remember_features, rows_like_fitted, warn_in_selection
from dpmpc.release import Release
from dpmpc.rounds import LogisticModel, PoissonModel, Releases, RoundModel, RoundsFit, fit_in_rounds, fit_start
from dpmpc.specification import describe

Reals = NDArray[np.float64]


@documented(describe)
@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class EstimatorInRounds(Fitted, PrivateEstimator):
    """Base of the regressions that take several sums.

    Parameters
    ----------
    epsilon, delta : float
        Budget of all rounds together, 0 < delta < 1/n.
    bounds : Schema, pair, dict, path or None
        Public bounds of the features; None where they are already in [-1, 1]. The bounds of the target follow from the
        model. They may be named too, as "y" or as the Series that holds it, and others than the model's are refused.
    noise : {"discrete-gaussian"}
        What rounds take: only of that is known here how rounds add up.
    coalition : {"adaptive"}
        Corrupt clients may be chosen at any time.
    calibration : {"joint"}
        Noise for a whole sum at once.
    rounds : int or "auto"
        Rounds of scores, 1 to 4, after the second moments that give the start. "auto" takes two, and a third where the
        first step was long; three for counts. All of them are paid from one budget. A logistic regression may have 0
        too: one release and an approximation without intervals (`LogisticRegression.fit_release`).
    **options
        The parameters of `PrivateEstimator`.
    """

    rounds: int | str = "auto"

    def inference(self, level: float = 0.95) -> Inference:
        """Compute standard errors and confidence intervals, of sampling and noise together, from the releases alone.

        They do not assume that the model is right (HC0). Where they are not known they are infinite.

        Parameters
        ----------
        level : float
            Nominal coverage of each interval, strictly between 0 and 1.
        """
        return inference_of(self, require_fraction("level", level))

    def fit_rounds(self, releases: Releases) -> Self:
        """Have the rounds made by whoever answers them, servers that are processes or files, and take the result.

        Parameters
        ----------
        releases : Releases
            Whose columns are the features and, last, the target with the bounds that this model has. Budget, bounds and
            trust are theirs, and the parameters of this estimator that name others are not used.
        """
        return self._take_rounds(releases)

    def _take_rounds(self, releases: Releases) -> Self:
        public = releases.schema
        return self._take(fit_in_rounds(self.round_model(public.columns[-1]), releases, self.rounds), public)

    def _take(self, fit: RoundsFit, public: Schema, *, stacklevel: int = 5) -> Self:
        """Set what a fit of the last of these columns has found."""
        take(self, fit, public, features_in_units(public), stacklevel=stacklevel)
        if fit.verdict is not None:
            self.intercept_ = self._intercept_of_mean(fit.mean)
        name_features(self, self.feature_names_)
        return self

    def _fit(self, X: Any, y: Any, target: Any, upper: float) -> None:
        """Have the rounds made of rows and targets in this process, and take the result.

        Parameters
        ----------
        X, y : array-like
            As `fit` was given them.
        target : array-like of shape (n,)
            The target between 0 and `upper`.
        """
        table = table_of(self, X, target, target_name(self.bounds, y))
        public = schema_of(self.bounds, table.names, Column(table.names[-1], 0.0, upper))
        self.round_model(public.columns[-1])
        check_table(table, public=public)
        warn_in_selection()
        table.require_public_count()
        self._take_rounds(releases_of(self.specification(public, len(table)), table, self.threads))
        remember_features(self, X)

    def round_model(self, target: Column) -> RoundModel:
        """Return what is iterated, for a target with these bounds, or refuse them."""
        raise NotImplementedError

    def _ratios(self, of: str, level: float) -> NumberTable:
        """Return exp(coefficient) with its interval for each feature."""
        check_is_fitted(self)
        found = self.inference(level)
        notes = [f"For one more unit of the column, the others as they are. n = {found.clients:,}."]
        if self.verdict_ is not None:
            return NumberTable(f"{of} ratios", {}, (), notes=[f"Nothing can be learned: {self.verdict_}."])
        if (approximate := approximation_of(self)) is not None:
            notes.append(f"This is {approximate}.")
        elif found.informative:
            notes.append(
                "Errors and intervals cover sampling and noise, and do not assume that the model is right (HC0)."
            )
        else:
            notes.append("The noise in the last round leaves no interval.")
        lists = {"coefficient": found.coef, f"{of.lower()} ratio": ratio_of(found.coef)}
        if found.informative:
            lists = {
                "coefficient": found.coef,
                "std. error": found.standard_errors,
                f"{of.lower()} ratio": ratio_of(found.coef),
                f"{found.level:.0%} from": ratio_of(found.confidence_intervals[:, 0]),
                "to": ratio_of(found.confidence_intervals[:, 1]),
            }
        return NumberTable(
            f"{of} ratios", {name: values.tolist() for name, values in lists.items()}, found.feature_names, notes=notes
        )

    def _intercept_of_mean(self, mean: float) -> float:
        """Return the linear predictor at which the model's mean is the released one, within what the data can have."""
        raise NotImplementedError

    def _predictor(self, X: ArrayLike) -> Reals:
        """Return the linear predictor of rows (m, d); that of the mean where nothing was learned."""
        rows = rows_like_fitted(self, X)
        if self.verdict_ is not None:
            return np.full(len(rows), self.intercept_)
        return np.asarray(rows @ self.coef_ + self.intercept_)


@documented(describe)
@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class LogisticRegression(ClassifierMixin, EstimatorInRounds):  # type: ignore[misc]
    """Differentially private logistic regression from rounds of noisy sums.

    Parameters
    ----------
    classes : pair, optional
        The two labels; probabilities are those of the second. They are public. None takes those that occur, and then
        that both occur is taken to be public too.
    **options
        The parameters of `EstimatorInRounds`.

    Attributes
    ----------
    coef_ : ndarray of float64, shape (d,)
        Log odds ratios of the second class, by unit of each column; NaN where nothing was learned.
    intercept_ : float
        Log odds where all features are 0.
    classes_ : ndarray, shape (2,)
        The labels.
    verdict_ : str or None
        Why nothing was learned.
    guarantee_ : Guarantee
        Of all rounds together.
    rounds_ : int
        Rounds of scores that were made; 0 where the fit is an approximation.
    start_error_ : float or None
        Of an approximation: by how much noise alone is expected to move the log odds of a typical row.
    releases_ : tuple of Release
        The second moments, and the rounds. The guarantee of each is that of a part.
    feature_names_ : tuple of str
        The columns that `coef_` belongs to.
    n_features_in_ : int
        Their number.
    feature_names_in_ : ndarray of str, shape (d,)
        The same names, where the columns of X had names of their own.

    Examples
    --------
    >>> import numpy as np
    >>> from dpmpc import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20_000, 2))
    >>> y = (rng.random(20_000) < 1 / (1 + np.exp(0.5 - X @ [2, -1]))).astype(int)
    >>> model = LogisticRegression(epsilon=1.0, bounds=(-1, 1), simulation_seed=1).fit(X, y)
    >>> bool(abs(model.coef_ - [2, -1]).max() < 0.3)
    True
    """

    classes: Sequence[Any] | None = None

    def fit(self, X: ArrayLike, y: ArrayLike) -> LogisticRegression:
        """Have the rounds made of (X, y) under the estimator's budget, and fit them.

        Parameters
        ----------
        X : array-like of shape (n, d), or a data frame
            One row per client.
        y : array-like of shape (n,)
            The labels.
        """
        self._fit(X, y, self._codes(y), 1.0)
        return self

    def fit_release(
        self, release: Release, target: str | int = -1, *, features: Sequence[str] | None = None
    ) -> LogisticRegression:
        """Fit one release of second moments without any round: pure post-processing, and an approximation.

        What `fit` does with ``rounds=0``: scaled least squares (`dpmpc.rounds.start`). The direction of least squares
        is right for Gaussian features; elsewhere coefficients are off by a few hundredths to more than half of the
        effects, however many people there are, and there are no intervals.

        Parameters
        ----------
        release : Release
            Of second moments: a sum.
        target : str or int
            The column to predict, whose bounds are (0, 1); the last by default.
        features : sequence of str, optional
            The columns to predict it from, in the order of `coef_`; by default all others.
        """
        name = release.columns[column_index(release.columns, target)]
        chosen = [one for one in chosen_columns(release.columns, name, features) if one != name]
        selected = release.select([*chosen, name])
        model = self.round_model(selected.schema.columns[-1])
        self.classes_ = self._public_classes()
        return self._take(fit_start(model, release, selected), selected.schema, stacklevel=3)

    def fit_rounds(self, releases: Releases) -> Self:
        """Do what `EstimatorInRounds.fit_rounds` does; the target is 0 for the first class and 1 for the second."""
        self.classes_ = self._public_classes()
        return super().fit_rounds(releases)

    def odds_ratios(self, level: float = 0.95) -> NumberTable:
        """Return the table of the model: coefficients, odds ratios exp(coefficient) and their intervals.

        Parameters
        ----------
        level : float
            Nominal coverage of each interval, strictly between 0 and 1.
        """
        return self._ratios("Odds", level)

    def decision_function(self, X: ArrayLike) -> Reals:
        """Return the log odds (m,) of the second class, for rows (m, d) of the features."""
        return self._predictor(X)

    def predict_proba(self, X: ArrayLike) -> Reals:
        """Return the probabilities (m, 2) of the classes."""
        second = sigmoid(self._predictor(X))
        return np.column_stack([1 - second, second])

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the likelier class of each row."""
        likelier = (self._predictor(X) > 0).astype(int)
        return np.asarray(self.classes_[likelier])

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn's checks may expect."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _intercept_of_mean(self, mean: float) -> float:
        rare = 1 / self.releases_[0].clients
        odds = min(max((1 + mean) / 2, rare), 1 - rare)
        return math.log(odds / (1 - odds))

    def _codes(self, y: Any) -> Any:
        """Return the target as 0 and 1, and remember what these stand for."""
        if y is None:
            return None  # refused with the words of the other estimators
        labels = np.asarray(y)
        if labels.dtype.kind == "f" and not np.isfinite(labels).all():
            raise InputError("y: NaN or infinity given, labels expected")
        try:
            kind = type_of_target(y, input_name="y", raise_unknown=True)
        except ValueError as error:
            raise InputError(f"y: {error}") from error
        if kind != "binary":
            raise InputError(f"y: Only binary classification is supported. The type of the target is {kind}.")
        found = self._two(np.unique(labels) if self.classes is None else self.classes)
        strange = ~np.isin(labels, found)
        if strange.any():
            raise InputError(f"y: {labels[strange].tolist()[0]!r} given, one of the classes {found.tolist()} expected")
        self.classes_ = found
        return (labels == found[1]).astype(np.float64)

    def _public_classes(self) -> NDArray[Any]:
        """Return what 0 and 1 in a release stand for."""
        return np.array([0, 1]) if self.classes is None else self._two(self.classes)

    @staticmethod
    def _two(classes: Any) -> NDArray[Any]:
        try:
            found = np.asarray(classes)
        except ValueError:  # lists of several lengths
            found = np.empty((0, 0))
        if found.ndim != 1 or any(label is None or label != label for label in found.tolist()):  # None or NaN
            raise InputError(f"classes: {classes!r} given, a list of two labels expected, numbers or words")
        if len(found) > 2:
            raise InputError(f"classes: {found.tolist()} given, where two labels are expected")
        if len(set(found.tolist())) < 2:
            raise InputError(f"classes: {found.tolist()} given, not one class but two expected")
        return found

    def round_model(self, target: Column) -> RoundModel:
        """Return the model of a target between 0 and 1; others are refused."""
        if (target.lower, target.upper) != (0.0, 1.0):
            raise InputError(
                f"bounds of column {target.name!r}: ({target.lower:g}, {target.upper:g}) given, (0, 1) expected of the "
                "target of a logistic model: 0 for no, 1 for yes"
            )
        return LogisticModel()


@documented(describe)
@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class PoissonRegression(RegressorMixin, EstimatorInRounds):  # type: ignore[misc]
    """Differentially private Poisson regression of counts, with a logarithmic link, from rounds of noisy sums.

    Residuals are clipped about the mean and centred, so that they are bounded and without bias where the model holds.

    Parameters
    ----------
    most : int
        Public upper bound of the counts; larger ones count as so many, and none below 0.
    **options
        The parameters of `EstimatorInRounds`.

    Attributes
    ----------
    coef_ : ndarray of float64, shape (d,)
        Log rate ratios by unit of each column; NaN where nothing was learned.
    intercept_ : float
        Log rate where all features are 0.
    verdict_ : str or None
        Why nothing was learned.
    guarantee_ : Guarantee
        Of all rounds together.
    rounds_ : int
        Rounds of scores that were made.
    releases_ : tuple of Release
        The second moments, and the rounds. The guarantee of each is that of a part.
    feature_names_ : tuple of str
        The columns that `coef_` belongs to.
    n_features_in_ : int
        Their number.
    feature_names_in_ : ndarray of str, shape (d,)
        The same names, where the columns of X had names of their own.

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

    most: int = 100

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

    def rate_ratios(self, level: float = 0.95) -> NumberTable:
        """Return the table of the model: coefficients, rate ratios exp(coefficient) and their intervals.

        Parameters
        ----------
        level : float
            Nominal coverage of each interval, strictly between 0 and 1.
        """
        return self._ratios("Rate", level)

    def predict(self, X: ArrayLike) -> Reals:
        """Return the expected counts (m,) for rows (m, d) of the features, at most `most`."""
        return np.exp(np.minimum(self._predictor(X), math.log(self.most)))

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn's checks may expect."""
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        tags.regressor_tags.poor_score = True  # the checks' targets are no counts
        return tags

    def round_model(self, target: Column) -> RoundModel:
        """Return the model of counts between 0 and `most`; other targets are refused."""
        if (target.lower, target.upper) != (0.0, float(self.most)):
            raise InputError(
                f"bounds of column {target.name!r}: ({target.lower:g}, {target.upper:g}) given, (0, {self.most}) "
                "expected of the target of a Poisson model: from 0 to the largest count"
            )
        return PoissonModel(self.most)

    def _intercept_of_mean(self, mean: float) -> float:
        return math.log(max(self.most * (1 + mean) / 2, 1 / self.releases_[0].clients))
