"""Ridge regressions by group as scikit-learn has estimators: parameters, `fit` on rows with groups, `predict`.

All that is read from a release is `dpmpc.estimators.grouped`; what `fit` adds is a release, simulated in this process.
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
from dpmpc.estimators.base import PrivateEstimator, table_of, target_name
from dpmpc.estimators.grouped import GroupedRidgeFit
from dpmpc.estimators.ridge_regression import RidgeRegression
from dpmpc.estimators.scikit import remember_features, rows_like_fitted
from dpmpc.specification import describe


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
