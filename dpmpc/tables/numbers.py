"""Arrays of real numbers: checked, or refused with the column and row of what is none."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmpc.errors import InputError


def numeric_matrix(where: str, X: ArrayLike) -> NDArray[Any]:
    """Return `X` as a two-dimensional array of real numbers of any width, or refuse it; nothing is copied."""
    return _real_numbers(where, two_dimensional(where, X))


def numeric_vector(where: str, values: NDArray[Any]) -> NDArray[np.float64]:
    """Return finite numbers, shape (n,), as float64; objects are taken if they are real numbers."""
    if values.dtype.kind == "O":
        values = column_values(where, values)
    vector = _real_numbers(where, values).astype(np.float64, copy=False)
    finite = np.isfinite(vector)
    if not finite.all():
        row = int(np.argmin(finite))
        raise InputError(f"{where}: row {row + 1}: {vector[row]} given, a finite number expected")
    return vector


def expect_columns(where: str, matrix: NDArray[Any], names: Sequence[str]) -> None:
    """Refuse a matrix that has not one column for each name."""
    if matrix.shape[1] != len(names):
        raise InputError(f"{where}: {matrix.shape[1]} columns given, {len(names)} expected: {', '.join(names)}")


def check_finite(where: str, block: NDArray[Any], names: Sequence[str], start: int = 0) -> None:
    """Refuse NaN and infinity; `block` begins at row `start` of what the caller handed in."""
    finite = np.isfinite(block)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        cell = f"column {names[column]!r}, row {start + row + 1}"
        raise InputError(f"{where}: {cell}: {block[row, column]} given, a finite number expected")


def two_dimensional(where: str, X: Any) -> NDArray[Any]:
    """Return `X` as a two-dimensional array, or say what has to be done to it first."""
    if isinstance(X, np.ma.MaskedArray):
        raise InputError(f"{where}: a masked array given; fill in its missing values first")
    if hasattr(X, "nnz"):
        raise InputError(f"{where}: a sparse {type(X).__name__} given, a dense array expected; X.toarray() makes one")
    matrix = np.asarray(X)
    if matrix.ndim != 2:
        hint = ". Reshape your data with X.reshape(-1, 1), if it is one column" if matrix.ndim == 1 else ""
        raise InputError(f"{where}: shape {matrix.shape} given, two dimensions (rows, columns) expected{hint}")
    return matrix


def _real_numbers(where: str, values: NDArray[Any]) -> NDArray[Any]:
    if values.dtype.kind not in "biuf":
        hint = ". Complex data not supported" if values.dtype.kind == "c" else ""
        raise InputError(f"{where}: values of type {values.dtype} given, real numbers expected{hint}")
    return values


def column_values(name: str, column: NDArray[Any]) -> NDArray[np.float64]:
    """Return one column as float64, NaN for None, or refuse what holds text, dates or other objects."""
    if column.ndim == 1 and column.dtype.kind in "biuf":
        return column.astype(np.float64, copy=False)
    if column.ndim != 1 or column.dtype.kind != "O":
        raise InputError(f"X: column {name!r} holds {column.dtype}, real numbers expected")
    for row, value in enumerate(column, 1):
        if value is not None and not isinstance(value, Real):
            raise InputError(f"X: column {name!r}, row {row}: {value!r} given, a real number expected")
    return column.astype(np.float64)
