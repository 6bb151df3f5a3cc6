"""Regressions and comparisons by group as scikit-learn has estimators: parameters, `fit` on rows, `predict`.

All that is read from a release is `dpmpc.models.groups.grouped_fit` and `dpmpc.models.groups.group_comparison`; what
`fit` adds is a release by group, simulated in this process.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError, UtilityWarning
from dpmpc.data import Codebook, Schema, Table
from dpmpc.data.data_checks import check_table
from dpmpc.data.schemas import schema
from dpmpc.data.variables import Variable
from dpmpc.models.common.private_estimator import PrivateEstimator, table_of, target_name
from dpmpc.models.common.scikit import remember_features, rows_like_fitted, target_of
from dpmpc.models.groups.group_comparison import GroupComparisonFit
from dpmpc.models.groups.grouped_fit import GroupedRidgeFit
from dpmpc.models.regression.ridge_regression import RidgeRegression
from dpmpc.release.release import Release


@dataclasses.dataclass(eq=False, repr=False)
class EstimatorByGroup(PrivateEstimator):
    """Base of the estimators that read second moments by group.

    A client's second moments go to the block of its group, and every other block gets zeros: servers and analyst learn
    nothing of who is in which group, and the noise of a block is that of a release without groups
    (docs/mathematics.md, section 14). What is small is the number of people in a block.

    Parameters
    ----------
    values : sequence of str
        What the groups are called, 2 to 50; public, and not read off the data.
    epsilon, delta : float
        Budget of the release that `fit` makes; delta = 0 with ``noise="discrete-laplace"``.
    bounds : Schema, pair, dict, path or None
        Public bounds of the columns, target included; None where the data is already in [-1, 1]. A dict has a pair
        (lower, upper) for each name: a data frame's columns keep their names, an array's are called "x0", "x1", ...,
        and the target "y", or as the Series that holds it. A path is that of a bounds file (docs/how-to/own-csv.md).
    noise : {"discrete-gaussian", "skellam", "discrete-laplace"}
        Family of the noise; all are drawn exactly, in whole numbers.
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
    coalition : {"adaptive", "static"}
        Whether corrupt clients may be chosen after the public matrix is known, or were fixed before.
    calibration : {"joint", "paper"}
        Noise for the whole release at once, or by the paper's bound, which takes more.
    threads : int
        Threads of the kernels.
    simulation_seed : int, optional
        Simulations only: repeats sketch, noise and shares; the guarantee then says that nobody is protected.
    by : str
        What the values are values of.
    """

    values: Sequence[str] = ()
    _: dataclasses.KW_ONLY
    by: str = "group"

    def release_by_group(self, table: Table, groups: Any) -> Release:
        """Simulate the release of a table whose rows belong to groups."""
        check_table(table)
        variable = self._variable()
        labels = np.array(_labels(groups, variable.categories, len(table)), dtype=object)
        shown = labels[:, None] == np.array(variable.indicated, dtype=object)
        names = tuple(column.name for column in variable.term.columns)
        return self.release(Table((*table.names, *names), np.column_stack([table.values, shown.astype(np.float64)])))

    def schema_of(self, names: tuple[str, ...]) -> Schema:
        """Return the bounds of the columns, with the groups as a category behind them."""
        variable = self._variable()
        plain = schema(self.bounds, names[: len(names) - len(variable.term.columns)])
        book = Codebook.of_columns(plain.columns)
        return Schema.of_codebook(Codebook((*book.variables, variable)), plain.outside)

    def task_choices(self, public: Schema) -> dict[str, Any]:
        """Return what second moments are summed by."""
        return {"by": self.by}

    def _variable(self) -> Variable:
        if isinstance(self.values, str) or len(self.values) < 2:
            raise InputError(
                f"values: {self.values!r} given, a list of the groups' public names, two or more, expected"
            )
        return Variable(self.by, values=tuple(str(value) for value in self.values))


@dataclasses.dataclass(eq=False, repr=False)
class GroupedRidgeRegression(GroupedRidgeFit, EstimatorByGroup):
    """One differentially private ridge regression for each public group, from one release, at the price of one.

    Parameters
    ----------
    values : sequence of str
        What the groups are called, 2 to 50; public, and not read off the data.
    alpha : float or "auto"
        Penalty of each regression, as in `RidgeRegression`.
    epsilon, delta : float
        Budget of the release that `fit` makes; delta = 0 with ``noise="discrete-laplace"``.
    bounds : Schema, pair, dict, path or None
        Public bounds of the columns, target included; None where the data is already in [-1, 1]. A dict has a pair
        (lower, upper) for each name: a data frame's columns keep their names, an array's are called "x0", "x1", ...,
        and the target "y", or as the Series that holds it. A path is that of a bounds file (docs/how-to/own-csv.md).
    noise : {"discrete-gaussian", "skellam", "discrete-laplace"}
        Family of the noise; all are drawn exactly, in whole numbers.
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
    coalition : {"adaptive", "static"}
        Whether corrupt clients may be chosen after the public matrix is known, or were fixed before.
    calibration : {"joint", "paper"}
        Noise for the whole release at once, or by the paper's bound, which takes more.
    threads : int
        Threads of the kernels.
    simulation_seed : int, optional
        Simulations only: repeats sketch, noise and shares; the guarantee then says that nobody is protected.
    by : str
        What the values are values of.

    Attributes
    ----------
    groups_ : tuple of str
        All groups.
    models_ : dict of RidgeRegression
        The regression of each group about which the release says anything.
    left_out_ : dict of str
        Why each of the others has none, from the release alone.
    sizes_ : ndarray of float64, shape (G,)
        How many people each group has, with noise: perhaps below 0, and of standard error `size_error_`.
    size_error_ : float
        The same for all groups.
    coef_ : ndarray of float64, shape (G, d)
        In the columns' units; NaN for groups without a model.
    intercept_ : ndarray of float64, shape (G,)
        In the target's units.
    pooled_ : RidgeRegression
        The regression of everybody together, by the sum of the blocks, whose noise has G times the variance.
    fixed_effects_ : Inference or None
        Common slopes with an intercept for each group (`dpmpc.models.groups.fixed_effects`).
    warnings_ : tuple of str
        What to be careful about in the regressions that there are, `pooled_` among them, from the release alone.
    feature_names_, n_features_in_, feature_names_in_, target_, release_
        As in `RidgeRegression`.

    Examples
    --------
    >>> import numpy as np
    >>> from dpmpc import GroupedRidgeRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, (60_000, 1))
    >>> ward = rng.choice(["north", "south"], 60_000)
    >>> y = np.where(ward == "north", 3, 1) * X[:, 0] + rng.standard_normal(60_000)
    >>> bounds = {"x0": (0, 10), "y": (-5, 35)}  # publicly known, not read off the data
    >>> model = GroupedRidgeRegression(["north", "south"], bounds=bounds).fit(X, y, groups=ward)
    >>> model.coef_.round(0)
    array([[3.],
           [1.]])
    """

    alpha: float | str = 1.0

    def fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> GroupedRidgeRegression:
        """Make a release of (X, y) by group under the estimator's budget and fit it.

        Parameters
        ----------
        X : array-like of shape (n, d), or a data frame
            One row per client.
        y : array-like of shape (n,)
            The target. In `bounds` it is called "y", or by its own name where it is a Series.
        groups : array-like of shape (n,)
            The group of each client, one of `values`.

        Raises
        ------
        InputError
            If a client's group is not among `values`. Like all that is said of single rows, the message is for whoever
            holds them.
        """
        RidgeRegression(self.alpha).check_parameters()
        table = table_of(self, X, y, target_name(self.bounds, y))
        self.fit_release(self.release_by_group(table, groups), target=table.names[-1])
        remember_features(self, X)
        return self

    def _ridge(self) -> RidgeRegression:
        """Return the estimator of one group, or of everybody, which predicts too."""
        return RidgeRegression(self.alpha)

    def predict(self, X: ArrayLike, groups: ArrayLike | None = None) -> Reals:
        """Predict the target by each row's own group; NaN, with a warning, where that has no model.

        Parameters
        ----------
        X : array-like of shape (m, d), or a data frame
            The features.
        groups : array-like of shape (m,)
            The group of each row. ``pooled_.predict(X)`` needs none.
        """
        rows = rows_like_fitted(self, X)
        labels = _labels(groups, self.groups_, len(rows))
        places = np.array([self.groups_.index(label) for label in labels], dtype=np.intp)
        lacking = sorted({label for label in labels if label not in self.models_})
        if lacking:
            warnings.warn(f"no model of {', '.join(lacking)}: NaN is predicted there", UtilityWarning, stacklevel=2)
        return np.asarray(np.sum(rows * self.coef_[places], axis=1) + self.intercept_[places])


@dataclasses.dataclass(eq=False, repr=False)
class GroupComparison(GroupComparisonFit, EstimatorByGroup):
    """Differences and ratios of a mean between public groups, from one release: whether an arm of a trial is different.

    Every group but the control is compared with it. Differences may be adjusted for what was known of each client
    before groups were assigned, with the multiple that makes their whole estimated variance smallest
    (`dpmpc.models.groups.group_comparison`).

    Parameters
    ----------
    values : sequence of str
        What the groups are called, 2 to 50; public, and not read off the data.
    before : sequence of str
        Columns of the release that a difference is adjusted for; none by default.
    epsilon, delta : float
        Budget of the release that `fit` makes; delta = 0 with ``noise="discrete-laplace"``.
    bounds : Schema, pair, dict, path or None
        Public bounds of the columns, target included; None where the data is already in [-1, 1]. A dict has a pair
        (lower, upper) for each name: a data frame's columns keep their names, an array's are called "x0", "x1", ...,
        and the target "y", or as the Series that holds it. A path is that of a bounds file (docs/how-to/own-csv.md).
    noise : {"discrete-gaussian", "skellam", "discrete-laplace"}
        Family of the noise; all are drawn exactly, in whole numbers.
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
    coalition : {"adaptive", "static"}
        Whether corrupt clients may be chosen after the public matrix is known, or were fixed before.
    calibration : {"joint", "paper"}
        Noise for the whole release at once, or by the paper's bound, which takes more.
    threads : int
        Threads of the kernels.
    simulation_seed : int, optional
        Simulations only: repeats sketch, noise and shares; the guarantee then says that nobody is protected.
    by : str
        What the values are values of.
    control : str, optional
        The group that others are compared with, the first by default.

    Attributes
    ----------
    groups_ : tuple of str
        All groups.
    sizes_ : ndarray of float64, shape (G,)
        How many people each group has, with noise: perhaps below 0, and of standard error `size_error_`.
    size_error_ : float
        The same for all groups.
    arms_ : dict
        Means of the groups that stand out of the noise, with their covariance by sampling and by noise.
    control_ : str
        The group that others are compared with.
    before_ : tuple of str
        The columns that differences are adjusted for.
    warnings_ : tuple of str
        What to be careful about, from the release alone.
    target_, release_
        As in `RidgeRegression`.

    Examples
    --------
    >>> import numpy as np
    >>> from dpmpc import GroupComparison
    >>> rng = np.random.default_rng(0)
    >>> arm = rng.choice(["old", "new"], 40_000)
    >>> last = rng.uniform(0, 60, 40_000)
    >>> spend = last + np.where(arm == "new", 2.0, 0.0) + rng.uniform(0, 30, 40_000)
    >>> bounds = {"x0": (0, 60), "y": (0, 100)}  # publicly known, not read off the data
    >>> trial = GroupComparison(["old", "new"], before=["x0"], bounds=bounds).fit(last[:, None], spend, groups=arm)
    >>> found = trial.adjusted()["new"]
    >>> found.low - 3 * found.standard_error < 2 < found.high + 3 * found.standard_error
    True
    >>> found.standard_error < trial.differences()["new"].standard_error
    True
    """

    before: Sequence[str] = ()
    _: dataclasses.KW_ONLY
    control: str | None = None

    def fit(self, X: ArrayLike | None, y: ArrayLike, groups: ArrayLike | None = None) -> GroupComparison:
        """Make a release of (X, y) by group under the estimator's budget and fit it.

        Parameters
        ----------
        X : array-like of shape (n, d), a data frame, or None
            What was known of each client before; `before` names those columns that differences are adjusted for.
        y : array-like of shape (n,)
            What is compared. In `bounds` it is called "y", or by its own name where it is a Series.
        groups : array-like of shape (n,)
            The group of each client, one of `values`.

        Raises
        ------
        InputError
            If a client's group is not among `values`. Like all that is said of single rows, the message is for whoever
            holds them.
        """
        self.check_parameters()
        name = target_name(self.bounds, y)
        if X is None:
            values = np.asarray(y, dtype=np.float64).reshape(-1)
            table = Table.from_any(target_of(self, y, len(values))[:, None], names=(name,))
        else:
            table = table_of(self, X, y, name)
        self.fit_release(self.release_by_group(table, groups), target=name)
        return self


def _labels(groups: Any, values: Sequence[str], count: int) -> list[str]:
    """Return the group of each row as text, or refuse what is none."""
    if groups is None:
        raise InputError(f"groups: none given, one of {', '.join(values)} for each row expected")
    labels = [str(label) for label in np.asarray(groups, dtype=object).reshape(-1).tolist()]
    if len(labels) != count:
        raise InputError(f"groups: {len(labels)} given, {count} expected: one for each row of X")
    known = set(values)
    for row, label in enumerate(labels, 1):
        if label not in known:
            raise InputError(f"groups: {label!r} given in row {row}, one of {', '.join(values)} expected")
    return labels
