"""What scikit-learn expects of every estimator: names and number of features, checked rows and targets, tags.

Rows are read by `dpmpc.data`, so that arrays and data frames of pandas, polars and Arrow are taken alike, and
errors name column and row.

Not promised: that scores on private rows are private. They are computed from the rows themselves; a search or a
cross-validation reports them, and spends the whole budget of every fit on people who are in several fits. `fit` warns
at a copy that scikit-learn has made. What costs nothing is to fit one release in several ways (`fit_release`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.data import Table
from dpmpc.data.schemas import Bounds
from dpmpc.data.table import default_names, listed, numeric_vector
from dpmpc.models.common.people import codebook_in, needs_coding, people_features


def name_features(estimator: Any, names: Sequence[str]) -> None:
    """Set `n_features_in_`, and `feature_names_in_` unless the names are those that columns of arrays are given."""
    estimator.n_features_in_ = len(names)
    if tuple(names) != default_names(len(names)):
        estimator.feature_names_in_ = np.array(names, dtype=object)
    elif "feature_names_in_" in vars(estimator):
        del estimator.feature_names_in_


def remember_features(estimator: Any, X: Any) -> None:
    """Set `n_features_in_`, and `feature_names_in_` where all columns are named by texts."""
    if isinstance(X, Table):
        name_features(estimator, X.names)
    else:
        _validate(estimator, X, reset=True)


def require_fitted(estimator: Any) -> None:
    """Refuse an estimator before `fit`, with scikit-learn's NotFittedError; this alone loads nothing of it."""
    if not hasattr(estimator, "n_features_in_"):
        from sklearn.utils.validation import check_is_fitted  # a release is read without scikit-learn

        check_is_fitted(estimator)


def rows_like_fitted(estimator: Any, X: Any, bounds: Bounds = None) -> Reals:
    """Return rows (m, d) for a fitted estimator, whose columns are those that it was fitted to, in the same order.

    A data frame of people is coded as the codebook of the release, or else that of these bounds, states; rows that lack
    a value are NaN.
    """
    require_fitted(estimator)
    known = vars(estimator)
    release = known.get("releases_", [known.get("release_")])[-1]
    given = release.task.schema if hasattr(release, "task") else None
    for book in map(codebook_in, (given, bounds)):
        if book is not None and needs_coding(book, X):
            return people_features(book, X, known.get("feature_names_", release.columns))
    if not isinstance(X, Table):
        rows = Table.from_any(X).values
        _validate(estimator, X, reset=False)
        return rows
    expected = tuple(known.get("feature_names_in_", default_names(estimator.n_features_in_)))
    if X.names != expected:
        raise InputError("X", f"columns {listed(X.names)}", f"{listed(expected)}")
    return X.values


def target_of(estimator: Any, y: Any, count: int) -> Reals:
    """Return the target (count,) as finite numbers; a column (count, 1) is taken with a warning."""
    if y is None:
        raise InputError(
            "y", f"None given; {type(estimator).__name__} requires y to be passed, but the target y is None"
        )
    from sklearn.utils.validation import column_or_1d

    try:
        vector = column_or_1d(y, warn=True)
    except ValueError as error:
        raise InputError("y", error) from error
    if vector.shape != (count,):
        raise InputError("y", f"shape {vector.shape}", f"({count},)", "one value for each row of X")
    return numeric_vector("y", vector)


def _validate(estimator: Any, X: Any, *, reset: bool) -> None:
    """Set or check names and number of features; the values are not looked at."""
    from sklearn.utils.validation import validate_data

    try:
        validate_data(estimator, X, "no_validation", reset=reset, skip_check_array=True)
    except ValueError as error:
        raise InputError("X", error) from error
