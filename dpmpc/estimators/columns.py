"""Which columns of a release a fit uses, and what its normalised coefficients are in the columns' units."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpmpc.data import Codebook, Schema
from dpmpc.errors import InputError
from dpmpc.linear_algebra import LinearModel


def column_index(columns: tuple[str, ...], target: str | int) -> int:
    """Return the position of a target given by name or by number."""
    if isinstance(target, str):
        if target not in columns:
            raise InputError(f"target: {target!r} given, one of {', '.join(columns)} expected")
        return columns.index(target)
    if not -len(columns) <= target < len(columns):
        raise InputError(f"target: {target} given, a column number below {len(columns)} expected")
    return target % len(columns)


def chosen_columns(columns: tuple[str, ...], target: str, features: Sequence[str] | None) -> tuple[str, ...]:
    """Return the columns that a fit uses: all, or the features in the order given and then the target."""
    if features is None:
        return columns
    others = ", ".join(each for each in columns if each != target)
    if isinstance(features, str):
        raise InputError(f"features: {features!r} given, a list of some of {others} expected")
    for name in features:
        if name == target or name not in columns:
            raise InputError(f"features: {name!r} given, some of {others} expected")
    if len(set(features)) < len(features) or not features:
        raise InputError(f"features: {', '.join(features) or 'none'} given, at least one, each once, expected")
    return (*features, target)


def with_variables(public: Schema, features: Sequence[str] | None) -> list[str] | None:
    """Return features with the columns that stand for a variable in place of its name, such as a category's."""
    if features is None:
        return None
    book, found = public.codebook, list[str]()
    for name in features:
        variable = book.variable(name) if isinstance(book, Codebook) and name not in public.names else None
        found += [name] if variable is None else [column.name for column in variable.term.columns]
    return found


def unit_map(public: Schema, position: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the affine map of (intercept, weights), normalised, to (intercept, coefficients) in the columns' units."""
    offset, slope = np.delete(public.offset, position), np.delete(public.slope, position)
    linear = np.diag(public.slope[position] / np.append(1.0, slope))
    linear[0, 1:] = -public.slope[position] * offset / slope
    return linear, np.append(public.offset[position], np.zeros(len(offset)))


def in_units(model: LinearModel, schema: Schema, target: int) -> tuple[NDArray[np.float64], float]:
    """Convert a normalised model of one of the columns to coefficients (d,) and intercept in the columns' units."""
    linear, shift = unit_map(schema, target)
    units = linear @ np.array([model.intercept, *model.weights]) + shift
    return units[1:], float(units[0])
