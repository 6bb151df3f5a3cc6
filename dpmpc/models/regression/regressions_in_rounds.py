"""Logistic and Poisson regression as scikit-learn has estimators: parameters, `fit` on rows, predictions.

`fit` simulates clients and servers in this process, who answer every round with fresh noise. All that is read from
their releases, and what is promised of it, is `dpmpc.models.regression.in_rounds`.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import type_of_target

from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.data import Column
from dpmpc.data.data_checks import check_table
from dpmpc.linear.contributions.scores import sigmoid
from dpmpc.models.common.private_estimator import PrivateEstimator, schema_of, table_of, target_name
from dpmpc.models.common.scikit import remember_features, rows_like_fitted
from dpmpc.models.regression.in_rounds import FitInRounds, LogisticFit, PoissonFit
from dpmpc.models.rounds.models import PoissonModel


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class EstimatorInRounds(FitInRounds, PrivateEstimator):
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
        Most clients that may tell the servers their noise.
    dropouts : int
        Most clients from whom anything may be missing in the end.
    coalition : {"adaptive"}
        Corrupt clients may be chosen at any time.
    calibration : {"joint"}
        Noise for a whole sum at once.
    threads : int
        Threads of the kernels.
    simulation_seed : int, optional
        Simulations only: repeats sketch, noise and shares; the guarantee then says that nobody is protected.
    rounds : int or "auto"
        Steering rounds, 1 to 64, after the first sum of second moments. "auto" takes 8, or 32 for at most 100,000 rows
        without intervals. All sums are paid from one budget. A logistic regression may have 0 too: one release and an
        approximation without intervals (`LogisticRegression.fit_release`).
    intervals : bool
        Whether half of the budget goes into standard errors and intervals, by last rounds.
    private_bounds : bool
        Whether 5% of the budget goes into counts that narrow the bounds of features which use little of
        them (`dpmpc.models.rounds.private_bounds`). Values outside count as the new bounds.
    """

    def _fit(self, X: Any, y: Any, target: Any, upper: float) -> None:
        """Have the rounds made of rows and targets in this process, and take the result."""
        table = table_of(self, X, target, target_name(self.bounds, y))
        public = schema_of(self.bounds, table.names, Column(table.names[-1], 0.0, upper))
        self.round_model(public.columns[-1])
        check_table(table, public=public)
        self._take_rounds(self.releases(table, public))
        remember_features(self, X)

    def _predictor(self, X: ArrayLike) -> Reals:
        """Return the linear predictor of rows (m, d); that of the mean where nothing was learned."""
        rows = rows_like_fitted(self, X)
        if self.verdict_ is not None:
            return np.full(len(rows), self.intercept_)
        return np.asarray(rows @ self.coef_ + self.intercept_)


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class LogisticRegression(ClassifierMixin, LogisticFit, EstimatorInRounds):  # type: ignore[misc]
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
        Most clients that may tell the servers their noise.
    dropouts : int
        Most clients from whom anything may be missing in the end.
    coalition : {"adaptive"}
        Corrupt clients may be chosen at any time.
    calibration : {"joint"}
        Noise for a whole sum at once.
    threads : int
        Threads of the kernels.
    simulation_seed : int, optional
        Simulations only: repeats sketch, noise and shares; the guarantee then says that nobody is protected.
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


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class PoissonRegression(RegressorMixin, PoissonFit, EstimatorInRounds):  # type: ignore[misc]
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
        Most clients that may tell the servers their noise.
    dropouts : int
        Most clients from whom anything may be missing in the end.
    coalition : {"adaptive"}
        Corrupt clients may be chosen at any time.
    calibration : {"joint"}
        Noise for a whole sum at once.
    threads : int
        Threads of the kernels.
    simulation_seed : int, optional
        Simulations only: repeats sketch, noise and shares; the guarantee then says that nobody is protected.
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

    def predict(self, X: ArrayLike) -> Reals:
        """Return the expected counts (m,) for rows (m, d) of the features, at most `most`."""
        return np.exp(np.minimum(self._predictor(X), math.log(self.most)))

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn's checks may expect."""
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        tags.regressor_tags.poor_score = True  # the checks' targets are no counts
        return tags
