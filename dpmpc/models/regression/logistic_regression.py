"""Logistic regression from rounds of noisy sums, or roughly from one release."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.data import Column, Schema, Table
from dpmpc.linear.contributions.scores import sigmoid
from dpmpc.models.common.release_parts import chosen_columns, column_index
from dpmpc.models.common.releases import Releases
from dpmpc.models.regression.in_rounds import RegressionInRounds, require_values
from dpmpc.models.rounds.fit import fit_start
from dpmpc.models.rounds.models import LogisticModel, RoundModel
from dpmpc.release.release import Release
from dpmpc.release.results import NumberTable


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class LogisticRegression(RegressionInRounds):
    """Differentially private logistic regression from rounds of noisy sums.

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
    classes : pair, optional
        The two labels; probabilities are those of the second. They are public. None takes those that occur, and then
        that both occur is taken to be public too.

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
    no_interval_ : str or None
        Why there are coefficients without intervals.
    guarantee_ : Guarantee
        Of all rounds together.
    rounds_ : int
        Steering rounds that were made; 0 where the fit is an approximation.
    noise_part_ : float or None
        The part of what the features may explain that noise hides.
    private_bounds_ : tuple of PrivateBound
        The bounds of each column that was counted, empty without `private_bounds`.
    start_error_ : float or None
        Of an approximation: by how much noise alone is expected to move the log odds of a typical row.
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
    >>> from dpmpc import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20_000, 2))
    >>> y = (rng.random(20_000) < 1 / (1 + np.exp(0.5 - X @ [2, -1]))).astype(int)
    >>> model = LogisticRegression(epsilon=1.0, bounds=(-1, 1), simulation_seed=1).fit(X, y)
    >>> bool(abs(model.coef_ - [2, -1]).max() < 0.3)
    True
    """

    kind, ratio, estimator_type = "logistic", "odds", "classifier"

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

    def fit_release(self, release: Release, target: str | int = -1, *, features: Sequence[str] | None = None) -> Self:
        """Fit one release of second moments without any round: pure post-processing, and an approximation.

        What `fit` does with ``rounds=0``: scaled least squares (`dpmpc.models.rounds.start`). The direction of least
        squares is right for Gaussian features; elsewhere coefficients are off by a few hundredths to more than half of
        the effects, however many people there are, and there are no intervals.

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
        self.round_model(selected.schema.columns[-1])  # which refuses other bounds
        self.classes_ = self._public_classes()
        return self._take(fit_start(release, selected), selected.schema, stacklevel=3)

    def fit_rounds(self, releases: Releases) -> Self:
        """Do what `RegressionInRounds.fit_rounds` does; the target is 0 for the first class and 1 for the second."""
        self.classes_ = self._public_classes()
        return super().fit_rounds(releases)

    def odds_ratios(self, level: float = 0.95) -> NumberTable:
        """Return the table of the model: coefficients, odds ratios exp(coefficient) and their intervals.

        Parameters
        ----------
        level : float
            Nominal coverage of each interval, strictly between 0 and 1.
        """
        return self.summary(level).coefficients

    def _intercept_of_mean(self, mean: float) -> float:
        rare = 1 / max(self.releases_[0].clients, 2)
        odds = min(max((1 + mean) / 2, rare), 1 - rare)
        return math.log(odds / (1 - odds))

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
            raise InputError("classes", f"{classes!r} given, a list of two labels expected, numbers or words")
        if len(found) > 2:
            raise InputError("classes", f"{found.tolist()} given, where two labels are expected")
        if len(set(found.tolist())) < 2:
            raise InputError("classes", found.tolist(), "not one class but two")
        return found

    def round_model(self, target: Column) -> RoundModel:
        """Return the model of a target between 0 and 1; others are refused."""
        if (target.lower, target.upper) != (0.0, 1.0):
            raise InputError(
                f"bounds of column {target.name!r}",
                f"({target.lower:g}, {target.upper:g})",
                "(0, 1)",
                "0 for no, 1 for yes",
                condition="of the target of a logistic model",
            )
        return LogisticModel()

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

    def check_rows(self, table: Table, public: Schema, column: str | None, *, filled: bool) -> None:
        """Refuse an unknown target, a table without features, and a target that is neither 0 nor 1."""
        super().check_rows(table, public, column, filled=filled)
        if not filled:
            require_values(table, str(column), lambda values: (values == 0) | (values == 1), "0 or 1")

    def round_target(self, target: Column, *, given: bool) -> Column:
        """Return the target between 0 and 1; other bounds that are given are refused by `round_model`."""
        return target if given else Column(target.name, 0.0, 1.0)

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of rows whose class is predicted, from the rows that are given: not private.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Rows.
        y : array-like of shape (m,)
            Their labels.
        sample_weight : array-like of shape (m,), optional
            How much each row counts.
        """
        from sklearn.metrics import accuracy_score

        return float(accuracy_score(y, self.predict(X), sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn's checks may expect."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _codes(self, y: Any) -> Any:
        """Return the target as 0 and 1, and remember what these stand for."""
        if y is None:
            return None  # refused with the words of the other estimators
        labels = np.asarray(y)
        if labels.dtype.kind == "f" and not np.isfinite(labels).all():
            raise InputError("y", "NaN or infinity", "labels")
        from sklearn.utils.multiclass import type_of_target

        try:
            kind = type_of_target(y, input_name="y", raise_unknown=True)
        except ValueError as error:
            raise InputError("y", error) from error
        if kind != "binary":
            raise InputError("y", f"Only binary classification is supported. The type of the target is {kind}.")
        found = self._two(np.unique(labels) if self.classes is None else self.classes)
        strange = ~np.isin(labels, found)
        if strange.any():
            raise InputError("y", f"{labels[strange].tolist()[0]!r}", f"one of the classes {found.tolist()}")
        self.classes_ = found
        return (labels == found[1]).astype(np.float64)
