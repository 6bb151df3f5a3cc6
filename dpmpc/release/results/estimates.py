"""Estimates with their errors and intervals, in the names of statistical packages: of every model that has some."""

from __future__ import annotations

import dataclasses
import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmpc.base.arrays import Reals

Frame = Any  # a data frame of pandas where that is installed, else a dict of arrays by column


@dataclasses.dataclass(frozen=True)
class Contrast:
    """A sum of coefficients times weights, in the target's units.

    Attributes
    ----------
    estimate, standard_error : float
        NaN, and infinite, where it is not identified.
    confidence_interval : tuple of float
        Lower and upper end.
    rests_on_bounds : bool
        Whether more than half of the variance is a bound and no estimate: then the interval has no level of its own.
    """

    estimate: float
    standard_error: float
    confidence_interval: tuple[float, float]
    rests_on_bounds: bool = False

    @property
    def identified(self) -> bool:
        """Whether the release shows it, by more than a bound."""
        return math.isfinite(self.standard_error) and not self.rests_on_bounds


@dataclasses.dataclass(frozen=True, eq=False)
class Estimates:
    """One row for each estimate.

    Attributes
    ----------
    names : tuple of str
        What is estimated: a column, a group less another, a value of a feature.
    values, errors : ndarray of float64, shape (k,)
        Estimates and standard errors, in the units of the model's table; NaN or infinite where there is none.
    intervals : ndarray of float64, shape (k, 2)
        Lower and upper ends at `level`.
    p_values : ndarray of float64, shape (k,)
        Of a test that the truth is 0; NaN where there is none.
    on_bounds : ndarray of bool, shape (k,)
        Whether the interval rests on the bounds, and has no level of its own.
    level : float
        Nominal coverage of each interval.
    contrast : callable, optional
        ``contrast(weights)`` returns the sum of estimates times weights by name; None where no covariance is known.
    """

    names: tuple[str, ...]
    values: Reals
    errors: Reals
    intervals: Reals
    p_values: Reals
    on_bounds: NDArray[np.bool_]
    level: float
    contrast: Callable[[Mapping[str, float]], Contrast] | None = None

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        values: Reals,
        errors: Reals,
        intervals: Reals,
        level: float,
        *,
        p_values: Reals | None = None,
        on_bounds: Sequence[bool] | None = None,
        contrast: Callable[[Mapping[str, float]], Contrast] | None = None,
    ) -> Estimates:
        """Return estimates without tests, flags or contrasts, where none are given."""
        count = len(names)
        return cls(
            tuple(names),
            np.asarray(values, dtype=np.float64),
            np.asarray(errors, dtype=np.float64),
            np.asarray(intervals, dtype=np.float64).reshape(count, 2),
            np.full(count, np.nan) if p_values is None else np.asarray(p_values),
            np.zeros(count, np.bool_) if on_bounds is None else np.asarray(on_bounds),
            level,
            contrast,
        )

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """The columns of a tidy table."""
        with np.errstate(divide="ignore", invalid="ignore"):
            statistic = np.where(self.on_bounds, np.nan, self.values / self.errors)
        return {
            "term": np.array(self.names, dtype=object),
            "estimate": self.values,
            "std_error": self.errors,
            "statistic": statistic,
            "p_value": self.p_values,
            "conf_low": self.intervals[:, 0],
            "conf_high": self.intervals[:, 1],
            "on_bounds": self.on_bounds,
        }


def frame(columns: Mapping[str, Any]) -> Frame:
    """Return columns as a data frame of pandas, or as they are where it is not installed."""
    try:
        pandas: Any = importlib.import_module("pandas")
    except ImportError:
        return dict(columns)
    return pandas.DataFrame(dict(columns))
