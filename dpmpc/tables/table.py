"""Named columns of finite numbers, made of arrays, data frames or what was read from a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmpc.errors import InputError
from dpmpc.tables.names import check_names, default_names, position_of
from dpmpc.tables.numbers import check_finite, column_values, expect_columns, numeric_matrix, two_dimensional


@dataclass(frozen=True, eq=False)
class Table:
    """Named columns of finite numbers.

    Parameters
    ----------
    names : sequence of str
        Unique, printable, at least one.
    values : ndarray of float64, shape (rows, columns)
        At least one row; no NaN, no infinity. Kept without a copy where it already is C-contiguous float64.
    dropped : int
        How many rows were left out because a value was missing.

    Raises
    ------
    InputError
        If the names or the values are not as above; a bad value is reported with its column and row.
    """

    names: tuple[str, ...]
    values: NDArray[np.float64]
    dropped: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", check_names(self.names, "names"))
        object.__setattr__(self, "values", np.ascontiguousarray(numeric_matrix("values", self.values), np.float64))
        expect_columns("values", self.values, self.names)
        if not len(self.values):
            raise InputError("values: no rows given, at least one expected")
        check_finite("values", self.values, self.names)

    @classmethod
    def from_any(cls, X: Any, names: Sequence[str] | None = None, *, drop_missing: bool = False) -> Table:
        """Make a table of an array or a data frame.

        Parameters
        ----------
        X : Table, array_like of shape (rows, columns), or data frame
            A data frame is an object with ``columns`` and ``to_numpy`` (pandas, polars) or with ``__dataframe__``
            (pyarrow and others), whose columns are read as ``X[name]``.
        names : sequence of str, optional
            Names for the columns of an array; x0, x1, .. by default. A data frame brings its own.
        drop_missing : bool
            Leave out rows with a NaN or None, and count them in ``dropped``, instead of refusing them.

        Raises
        ------
        InputError
            If a column holds anything but finite numbers, or names are repeated, missing or not wanted.
        """
        if isinstance(X, Table):
            return X if names is None else cls(tuple(names), X.values, X.dropped)
        keys = _frame_keys(X)
        if keys is None:
            labels, values = _read_array(X, names)
        elif names is None:
            labels, values = _read_frame(X, keys)
        else:
            raise InputError(f"names: {names!r} given, but X is a data frame and has names of its own")
        return complete(labels, values, drop_missing, "X", lambda row: f"row {row}")

    def __len__(self) -> int:
        return len(self.values)

    def column(self, name: str) -> NDArray[np.float64]:
        """Return one column, shape (rows,), as a view."""
        return self.values[:, position_of(name, self.names, "name")]

    def select(self, names: Sequence[str]) -> Table:
        """Return the table of some columns, in the order given."""
        chosen = check_names(names, "names")
        positions = [position_of(name, self.names, "names") for name in chosen]
        return Table(chosen, self.values[:, positions], self.dropped)


def _frame_keys(X: Any) -> list[Any] | None:
    """Return the keys of a data frame's columns, None if `X` is no data frame."""
    if hasattr(X, "columns") and hasattr(X, "to_numpy"):
        return list(X.columns)
    if hasattr(X, "__dataframe__"):
        return list(X.__dataframe__().column_names())
    return None


def _read_frame(X: Any, keys: list[Any]) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    labels = check_names([str(key) for key in keys], "X")
    columns = [column_values(label, np.asarray(X[key])) for label, key in zip(labels, keys, strict=True)]
    return labels, np.column_stack(columns)


def _read_array(X: Any, names: Sequence[str] | None) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    matrix = two_dimensional("X", X)
    if names is None and not matrix.shape[1]:
        raise InputError(f"X: 0 feature(s) (shape={matrix.shape}) while a minimum of 1 is required.")
    labels = check_names(default_names(matrix.shape[1]) if names is None else names, "names")
    expect_columns("X", matrix, labels)
    if matrix.dtype.kind == "O":
        columns = [column_values(label, column) for label, column in zip(labels, matrix.T, strict=True)]
        return labels, np.column_stack(columns)
    return labels, numeric_matrix("X", matrix).astype(np.float64, copy=False)


def complete(
    names: tuple[str, ...], values: NDArray[np.float64], drop_missing: bool, where: str, locate: Callable[[int], str]
) -> Table:
    """Make the table of values that may be missing (NaN): drop their rows if asked to, refuse them otherwise."""
    finite = np.isfinite(values)
    if finite.all():
        return Table(names, values)
    bad = ~finite & ~np.isnan(values) if drop_missing else ~finite
    if bad.any():
        row, column = np.argwhere(bad)[0]
        place = f"{where}: column {names[column]!r}, {locate(int(row) + 1)}"
        if np.isnan(values[row, column]):
            raise InputError(
                f"{place}: the value is missing (NaN); fill it in, or leave such rows out by "
                "drop_missing=True (--drop-missing)"
            )
        raise InputError(f"{place}: {values[row, column]} given, a finite number expected")
    kept = values[finite.all(axis=1)]
    if not len(kept):
        raise InputError(f"{where}: a value is missing in each of the {len(values)} rows; none would be left")
    return Table(names, kept, dropped=len(values) - len(kept))
