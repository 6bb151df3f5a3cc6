"""Data frames of people, with texts, dates and categories: coded as the bounds state, for a fit and for predictions.

Promised: the columns and values of `dpmpc.data.Codebook.encode`, as `dpmpc fit` and browsers code them. A `Table`, an
array, and a data frame whose columns are coded already are taken as they are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.data import Codebook, Schema, Table
from dpmpc.data.schemas import Bounds
from dpmpc.data.table import frame_names


def codebook_in(bounds: Bounds) -> Codebook | None:
    """Return the codebook of bounds as a user gives them, or None."""
    given = Schema.from_toml(bounds) if isinstance(bounds, str | Path) else bounds
    return given.codebook if isinstance(given, Schema) and isinstance(given.codebook, Codebook) else None


def needs_coding(book: Codebook | None, X: Any) -> bool:
    """Return whether X is a data frame with texts, dates, categories or numbers that the codebook has yet to code."""
    if book is None or isinstance(X, Table):
        return False
    names = frame_names(X) or ()
    there = [variable for variable in book.variables if variable.name in names]
    return any(
        variable.term.columns[0].name != variable.name or np.asarray(X[variable.name]).dtype.kind not in "biuf"
        for variable in there
    )


def people_table(book: Codebook | None, X: Any) -> Table:
    """Return the rows of a fit as a table of coded columns.

    Parameters
    ----------
    book : Codebook, optional
        Of the bounds.
    X : array-like, Table or data frame
        One row for each person; some variables of the codebook.

    Raises
    ------
    InputError
        If a column has no bounds, a cell is not what its variable is, or a value is missing for which nothing stands.
    """
    if book is None or not needs_coding(book, X):
        return Table.from_any(X)
    names = frame_names(X) or ()
    if book.weighted:
        raise InputError(
            "bounds",
            "with weights or rows of zeros",
            "neither",
            "Codebook.encode codes one, and release(table) takes the table that it returns",
            condition="with a data frame",
        )
    among = book.only(names)
    products = tuple(factors for factors in book.products if set(factors) <= set(names))
    return msgspec.structs.replace(among, products=products).encode(X)


def people_features(book: Codebook, X: Any, names: tuple[str, ...]) -> Reals:
    """Return columns of new rows, moved into their bounds; NaN in rows that lack a value for which nothing stands."""
    values, complete = book.encode_features(X, names)
    return np.where(complete[:, None], values, np.nan)
