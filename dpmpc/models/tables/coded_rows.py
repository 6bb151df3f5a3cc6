"""Predict for new rows of a table as people keep it, from a model's coefficients and the schema that its release holds.

Rows are coded as those of the release were, categories and all, and numbers are moved into their public bounds: a model
is not fitted to what lies outside. The rows are their owner's; predicting costs no privacy of those behind the release.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmpc.base.arguments import require_choice
from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.data import Codebook, Schema
from dpmpc.linear.contributions.scores import sigmoid


def codebook_of(public: Schema) -> Codebook:
    """Return a schema's codebook, or that of its numbers."""
    return public.codebook if isinstance(public.codebook, Codebook) else Codebook.of_columns(public.columns)


def predict_coded(
    public: Schema,
    coefficients: Mapping[str, float],
    intercept: float,
    X: Any,
    *,
    model: str = "ridge",
    most: float = math.inf,
) -> Reals:
    """Predict from the coefficients of a model: a mean, a probability or an expected count."""
    for name in coefficients:
        if name not in public.names:
            raise InputError("coefficients", f"no column {name!r}; there are {', '.join(public.names)}")
    require_choice("model", model, ("ridge", "logistic", "poisson"))
    values, complete = codebook_of(public).encode_features(X, list(coefficients))
    columns = [public.columns[public.index(name)] for name in coefficients]
    values = np.clip(values, [column.lower for column in columns], [column.upper for column in columns])
    found = values @ np.array(list(coefficients.values())) + intercept
    if model == "logistic":
        found = sigmoid(found)
    elif model == "poisson":
        found = np.exp(np.minimum(found, math.log(most)))
    return np.where(complete, found, np.nan)


def predict_by_group(
    public: Schema, by: str, models: Mapping[str, tuple[Mapping[str, float], float]], X: Any
) -> tuple[Reals, list[str]]:
    """Predict from the linear model of each row's own group."""
    book = codebook_of(public)
    variable = book.variable(by)
    if variable is None or not variable.categories:
        raise InputError("by", f"{by!r}", "a category of the release's codebook")
    shown, complete = book.encode_features(X, [column.name for column in variable.term.columns])
    places = _places(shown)
    groups = [variable.categories[place] if known else "" for place, known in zip(places, complete, strict=True)]
    found = np.full(len(groups), np.nan)
    for group, (coefficients, intercept) in models.items():
        mine = np.array([one == group for one in groups], dtype=np.bool_)
        if mine.any():
            found[mine] = predict_coded(public, coefficients, intercept, X)[mine]
    return found, groups


def _places(shown: Reals) -> NDArray[np.intp]:
    """Return the position of each row's value among the categories, from the indicators of all but the first."""
    return np.where(shown.max(axis=1) > 0, 1 + shown.argmax(axis=1), 0)
