"""Predict for new rows of a table as people keep it, from a model's coefficients and the schema that its release holds.

Rows are coded as those of the release were, categories and all, and numbers are moved into their public bounds: a model
knows nothing of what lies outside. The rows are their owner's; predicting costs no privacy of those behind the release.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmpc.arguments import require_choice
from dpmpc.bounds import Codebook, Schema
from dpmpc.contributions import sigmoid
from dpmpc.errors import InputError


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
) -> NDArray[np.float64]:
    """Predict from the coefficients of a model: a mean, a probability or an expected count.

    Parameters
    ----------
    public : Schema
        Of the release that the model was learnt from: ``release.task.schema``.
    coefficients : mapping
        Column -> coefficient, in the columns' units.
    intercept : float
        In the target's units; of the log odds or the log rate in the models that have these.
    X : Cells or data frame
        New rows, with the columns that the coefficients are coded from; others may be there.
    model : {"ridge", "logistic", "poisson"}
        What the coefficients are of.
    most : float
        The largest count of a Poisson model.

    Returns
    -------
    ndarray of float64, shape (n,)
        NaN where a row lacks a value, and nothing in the codebook stands for it.

    Raises
    ------
    InputError
        If a column is unknown, or a cell is not what its variable is.
    """
    for name in coefficients:
        if name not in public.names:
            raise InputError(f"coefficients: no column {name!r}; there are {', '.join(public.names)}")
    require_choice("model", model, ("ridge", "logistic", "poisson"))
    values, complete = codebook_of(public).encode_features(X, list(coefficients))
    found = values @ np.array(list(coefficients.values())) + intercept
    if model == "logistic":
        found = sigmoid(found)
    elif model == "poisson":
        found = np.exp(np.minimum(found, math.log(most)))
    return np.where(complete, found, np.nan)
