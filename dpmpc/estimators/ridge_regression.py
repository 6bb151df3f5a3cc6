"""Ridge regressions, of all rows or by group, as scikit-learn has estimators: parameters, `fit` on rows, `predict`.

All that is read from a release is `dpmpc.estimators.ridge` and `dpmpc.estimators.grouped_fit`; what `fit` adds is a
release, simulated in this process.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmpc.arguments import documented
from dpmpc.data import Codebook, Schema, Table, Variable, check_table, schema
from dpmpc.errors import InputError, UtilityWarning
from dpmpc.estimators.grouped_fit import GroupedRidgeFit
from dpmpc.estimators.private_estimator import (
    LinearPredictor,
    PrivateEstimator,
    PrivateLinearModel,
    table_of,
    target_name,
)
from dpmpc.estimators.ridge import RidgeFit
from dpmpc.estimators.round_fits import releases_of
from dpmpc.estimators.scikit import remember_features, rows_like_fitted, warn_in_selection
from dpmpc.specification import describe


@documented(describe)
@dataclasses.dataclass(eq=False, repr=False)
class RidgeRegression(RidgeFit, LinearPredictor, PrivateLinearModel):
    """Differentially private ridge regression by secure sketching.

    `fit` simulates clients and servers in this process and then calls `fit_release`; `fit_release` alone is
    post-processing of a release that came from anywhere.

    Parameters
    ----------
    alpha : float or "auto", optional
        Of one release: penalty on the squared coefficients of the normalised columns (each mapped from its bounds to
        [-1, 1]), by default 1. "auto" averages over penalties as the release suggests or, of a sketch of rows, chooses
        one (`dpmpc.estimators.ridge`). Rounds shrink by themselves.
    fit_intercept : bool
        Whether to fit an intercept. It costs no privacy: its column of the sketch is public.
    debias : {"guarded", "never"}
        Clients' noise adds B = sum of the rows' noise variances to the Gram diagonal, in expectation, and shrinks the
        fit. "guarded" takes B off where the smallest eigenvalue clearly exceeds the noise's fluctuation, and never
        elsewhere: an unguarded correction explodes (docs/mathematics.md, section 4).
    rounds : int or "auto"
        With 0, all of the budget goes into one release. With 1 to 64 a fifth of it goes into second moments, and the
        rest into so many steering rounds and, for intervals, one last round: much less noise
        (docs/mathematics.md, section 12). "auto" takes 8, or 32 for at most 100,000 rows without intervals; and one
        release where a penalty, a sketch, a radius or a fit without an intercept is asked for.
    intervals : bool
        Of a fit in rounds: whether half of the budget goes into standard errors and intervals.
    **options
        The parameters of `PrivateLinearModel`.

    Attributes
    ----------
    coef_ : ndarray of float64, shape (d,)
        In the units of the columns.
    intercept_ : float
        In the target's units.
    feature_names_ : tuple of str
        The columns that `coef_` belongs to.
    n_features_in_ : int
        Their number.
    feature_names_in_ : ndarray of str, shape (d,)
        The same names, where the columns of X or of the release had names of their own.
    release_ : Release or GramRelease
        What the servers opened; any other target and features can be fitted from it at no cost.
    selected_ : GramSource
        Its columns that were used: all, or the features in the order given and then the target.
    debiased_ : bool
        Whether B was taken off.
    alpha_ : float
        The penalty used: the chosen one, or one larger than `alpha` where the noise left the Gram matrix without a
        safe inverse. Where penalties were averaged, the one that shrinks the median direction as much.
    model_ : LinearModel
        The fit in normalised units.
    guarantee_ : Guarantee
        After a fit in rounds: of all sums together, where `release_` is the first of them.
    releases_ : tuple of Release
        After a fit in rounds: all of them.
    rounds_ : int
        After a fit in rounds: the steering rounds.
    verdict_ : str or None
        After a fit in rounds: why nothing was learned; the released mean is predicted then.
    no_interval_ : str or None
        After a fit in rounds: why there are no intervals.
    noise_part_ : float
        After a fit in rounds: the part of what the features may explain that noise hides. Clipping may hide more.

    Examples
    --------
    >>> import numpy as np
    >>> from dpmpc import RidgeRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, (50_000, 2))
    >>> y = 3 * X[:, 0] - X[:, 1] + rng.standard_normal(50_000)
    >>> bounds = {"x0": (0, 10), "x1": (0, 10), "y": (-15, 35)}  # publicly known, not read off the data
    >>> model = RidgeRegression(epsilon=1.0, delta=1e-6, bounds=bounds).fit(X, y)
    >>> model.coef_.round(0)
    array([ 3., -1.])
    """

    _allowed_in_rounds = (
        ("sketch", ("auto", "sum")),
        ("rows", (None, 1)),
        ("sparsity", (None, 1)),
        ("radius", (None,)),
        *RidgeFit._allowed_in_rounds,
    )

    def fit(self, X: ArrayLike, y: ArrayLike) -> RidgeRegression:
        """Make a release of (X, y) under the estimator's budget and fit it.

        Parameters
        ----------
        X : array-like of shape (n, d), or a data frame
            One row per client.
        y : array-like of shape (n,)
            The target. In `bounds` it is called "y", or by its own name where it is a Series.

        Raises
        ------
        InputError
            If a value is not within bounds that refuse it. That depends on the data and no guarantee covers it: the
            message is for whoever holds all rows.
        """
        self.check_parameters()
        table = table_of(self, X, y, target_name(self.bounds, y))
        if not self.rounds_for(len(table)):
            self.fit_release(self.release(table), target=table.names[-1])
        else:
            public = schema(self.bounds, table.names)
            check_table(table, public=public)
            warn_in_selection()
            spec = self.specification(public, len(table.require_public_count()))
            self._take_rounds(releases_of(spec, table, self.threads))
        self.warn_of_probabilities(table.values[:, -1])
        remember_features(self, X)
        return self


@documented(describe)
@dataclasses.dataclass(eq=False, repr=False)
class GroupedRidgeRegression(GroupedRidgeFit, PrivateEstimator):
    """One differentially private ridge regression for each public group, from one release, at the price of one.

    A client's second moments go to the block of its group, and every other block gets zeros: servers and analyst learn
    nothing of who is in which group, and the noise of a block is that of a release without groups
    (docs/mathematics.md, section 14). What is small is the number of people in a block.

    Parameters
    ----------
    values : sequence of str
        What the groups are called, 2 to 50; public, and not read off the data.
    alpha : float or "auto"
        Penalty of each regression, as in `RidgeRegression`.
    by : str
        What the values are values of.
    **options
        The parameters of `PrivateEstimator`.

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
        Common slopes with an intercept for each group (`dpmpc.estimators.fixed_effects`).
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

    values: Sequence[str] = ()
    alpha: float | str = 1.0
    _: dataclasses.KW_ONLY
    by: str = "group"

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
        check_table(table)
        variable = self._variable()
        shown = _indicators(variable, groups, len(table))
        names = tuple(column.name for column in variable.term.columns)
        coded = Table((*table.names, *names), np.column_stack([table.values, shown]))
        self.fit_release(self.release(coded), target=table.names[-1])
        remember_features(self, X)
        return self

    def _ridge(self) -> RidgeRegression:
        """Return the estimator of one group, or of everybody, which predicts too."""
        return RidgeRegression(self.alpha)

    def predict(self, X: ArrayLike, groups: ArrayLike | None = None) -> NDArray[np.float64]:
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


def _indicators(variable: Variable, groups: Any, count: int) -> NDArray[np.float64]:
    """Return the columns of a category for labels of its values."""
    labels = np.array(_labels(groups, variable.categories, count), dtype=object)
    return np.asarray(labels[:, None] == np.array(variable.indicated, dtype=object), dtype=np.float64)
