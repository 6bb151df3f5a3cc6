"""Readings of second moments: means, deviations and correlations, a regression of any column, means in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from dpmpc.app.render.readings.reading import Reading
from dpmpc.app.render.readings.sentences import hint, legible, sentence_of, unit_of
from dpmpc.data.variables import Variable
from dpmpc.release.release import Release
from dpmpc.release.results import Result

_NORMAL_95 = 1.959964  # standard errors on either side of an estimate


class ReadingOfMoments(Reading):
    """The sum of second moments."""

    words, proved_words = "the sum of their second moments", "the sum of their proved second moments"
    entries = "sums of products that a column is part of, columns mapped to [−1, 1]"

    def _sizes(self, release: Release) -> Mapping[str, tuple[float, float]]:
        matrix = release.gram().matrix[1:]
        noise = np.full(matrix.shape, release.noise_variance[0] / 2)  # off the diagonal; see `SecondMoments`
        noise[:, 1:][np.diag_indices(len(noise))] *= 2
        sizes = np.column_stack([np.mean(matrix**2, axis=1), noise.mean(axis=1)]).tolist()
        return {name: (square, variance) for name, (square, variance) in zip(release.columns, sizes, strict=True)}

    def result(self, release: Release, level: float) -> Result:
        """Return means, standard deviations and correlations."""
        description = release.describe()
        return Result(
            tables=description.tables,
            notes=[hint(release.columns)],
            data={"description": description.columns.to_dict(), "correlations": description.pairs.to_dict()},
        )

    def sentences(self, release: Release) -> Iterator[tuple[str, str]]:
        """Yield the mean of each question."""
        found = release.describe()
        known = dict(zip(found.names, zip(found.means.tolist(), found.mean_errors.tolist(), strict=True), strict=True))
        for one in (one for variable in release.schema.variables for one in _measured(variable) if one.column in known):
            (mean, error), (lower, upper) = known[one.column], one.ends
            low, high = max(lower, mean - _NORMAL_95 * error), min(upper, mean + _NORMAL_95 * error)
            hidden = low > high or (low, high) == (lower, upper)  # it lies off what can be, or may be anything
            middle, first, last = (one.factor * value for value in (min(upper, max(lower, mean)), low, high))
            told = math.nan if hidden else middle
            yield (
                one.called,
                sentence_of("about {}" + one.of, told, first, last, one.unit, one.date) + (not hidden) * one.missing,
            )


class ReadingOfWeightedMoments(ReadingOfMoments):
    """The same of rows with weights, or that lack values and weigh nothing."""

    words = "the weighted sum of their second moments"


class _Measured(NamedTuple):
    """A column whose mean people can be shown: what it is called, and what its numbers are."""

    called: str
    column: str
    unit: str
    ends: tuple[float, float] = (0.0, 1.0)
    of: str = " of the reports"
    factor: float = 100.0  # of shares
    missing: str = ""  # what is said of missing answers
    date: Variable | None = None  # whose dates its numbers are, where they are days


def _measured(variable: Variable) -> Iterator[_Measured]:
    """Yield the columns of a variable whose means can be read without mathematics: no logarithm, no spline."""
    called, columns = legible(variable.label or variable.name), variable.term.columns
    ends, filled = (columns[0].lower, columns[0].upper), variable.if_missing is not None
    if columns[0].name == variable.name and variable.kind in ("number", "date"):
        unit, date = unit_of(variable), variable if variable.kind == "date" else None
        missing = " Missing answers count as the middle of the range." if filled else ""
        yield _Measured(called, variable.name, unit, ends, " on average", 1.0, missing, date)
    elif variable.kind == "yes-no":
        yield _Measured(f"{called}: yes", variable.name, " %", missing=" Missing answers count half." if filled else "")
    elif variable.kind == "category":
        for value, column in zip(variable.indicated, columns, strict=False):
            yield _Measured(f"{called}: {legible(value)}", column.name, " %")
    if variable.if_missing == "indicator":
        yield _Measured(f"{called}: not answered", columns[-1].name, " %")
