"""What a fit reads of a release: some of its columns, with their units, or the blocks of its groups.

A block is read as a release of second moments of its own, or blocks are added up. Each has the noise of the whole
release in every entry, its number of people included; a sum of G blocks has G times the variance. All of it is
post-processing of one release, whose guarantee covers every reading together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.data import Codebook, Schema
from dpmpc.data.variables import Variable
from dpmpc.linear.contributions.grouped_moments import GroupedMoments
from dpmpc.linear.contributions.noisy_gram import NoisyGram
from dpmpc.models.common.linear_algebra import LinearModel
from dpmpc.release.release import GramSource, Release, SelectedColumns


class Blocks(GramSource):
    """Some groups of a release, as estimators of second moments read them.

    Parameters
    ----------
    source : Release
        Of second moments by group.
    groups : sequence of str, optional
        The groups that are added up, each once; by default all. Then the number of people is n, public and exact,
        unless rows have weights or lack values.
    """

    def __init__(self, source: Release, groups: Sequence[str] | None = None):
        self._variable = group_variable(source)
        names = self._variable.categories
        self.groups = names if groups is None else tuple(groups)
        for name in self.groups:
            if name not in names:
                raise InputError("group", f"{name!r}", f"one of {', '.join(names)}")
        if not self.groups or len(set(self.groups)) < len(self.groups):
            raise InputError("groups", list(self.groups), "at least one, each once,")
        self.task = source.task
        self.source = source
        assert isinstance(source.task.statistic, GroupedMoments)
        self._weighted = source.task.statistic.weighted or len(self.groups) < len(names)
        self._grams = source.task.statistic.grams(source.sketch[0], len(source.task.schema))

    @property
    def by(self) -> str:
        """The variable whose values are the groups."""
        return self._variable.name

    @property
    def summed(self) -> bool:
        """Return True."""
        return True

    @property
    def weighted(self) -> bool:
        """Whether the number of people is noisy: in all blocks together it is public, unless rows have weights."""
        return self._weighted

    @property
    def noise_variance(self) -> Reals:
        """Variance of the noise in each entry, float64 (1,): that of the release for each block that is added."""
        return np.asarray(len(self.groups) * self.source.noise_variance)

    @property
    def grams(self) -> Reals:
        """Noisy Gram matrices of (1, z) of each group by itself, float64 (G, q + 1, q + 1), corners as released."""
        places = [self._variable.categories.index(name) for name in self.groups]
        return np.asarray(self._grams[places])

    def gram(self) -> NoisyGram:
        """Return the noisy Gram matrix of (1, z) of all these groups together."""
        matrix = np.sum(self.grams, axis=0)
        matrix[0, 0] = max(float(matrix[0, 0]), 1.0) if self.weighted else float(self.clients)
        return self.noisy(matrix, self.columns)

    def select(self, columns: Sequence[str]) -> SelectedColumns:
        """Return some of the columns, in the order given."""
        return SelectedColumns(self, self.schema.select(columns))

    def sizes(self) -> tuple[Reals, float]:
        """Return the noisy number of people of each group, unbiased and so perhaps below 0, and its standard error."""
        return self.grams[:, 0, 0], math.sqrt(float(self.source.noise_variance[0]))


def is_grouped(release: GramSource) -> bool:
    """Return whether second moments were released by group."""
    return isinstance(release.task.statistic, GroupedMoments)


def group_variable(release: GramSource) -> Variable:
    """Return the variable that a release is grouped by.

    Raises
    ------
    InputError
        If it is not a release by group, or its codebook does not have the indicators where its clients put them.
    """
    task = release.task
    if not isinstance(task.statistic, GroupedMoments):
        raise InputError("group", f"given with a release of {task.statistic.name}, one by group expected")
    return task.statistic.variable(task.schema)


def source_of(release: GramSource, group: str | None) -> GramSource:
    """Return what a regression reads: one block, all of them where no group is named, or a release without groups."""
    if group is None and not is_grouped(release):
        return release
    if not isinstance(release, Release):
        raise InputError("group", f"{group!r} given with products of a closed sketch, a release by group expected")
    return Blocks(release, None if group is None else [group])


def column_index(columns: tuple[str, ...], target: str | int) -> int:
    """Return the position of a target given by name or by number."""
    if isinstance(target, str):
        if target not in columns:
            raise InputError("target", f"{target!r}", f"one of {', '.join(columns)}")
        return columns.index(target)
    if not -len(columns) <= target < len(columns):
        raise InputError("target", target, f"a column number below {len(columns)}")
    return target % len(columns)


def chosen_columns(columns: tuple[str, ...], target: str, features: Sequence[str] | None) -> tuple[str, ...]:
    """Return the columns that a fit uses: all, or the features in the order given and then the target."""
    if features is None:
        return columns
    others = ", ".join(each for each in columns if each != target)
    if isinstance(features, str):
        raise InputError("features", f"{features!r}", f"a list of some of {others}")
    for name in features:
        if name == target or name not in columns:
            raise InputError("features", f"{name!r}", f"some of {others}")
    if len(set(features)) < len(features) or not features:
        raise InputError("features", ", ".join(features) or "none", "at least one, each once,")
    return (*features, target)


def with_variables(public: Schema, features: Sequence[str] | None) -> list[str] | None:
    """Return features with the columns that stand for a variable instead of its name, such as a category's."""
    if features is None:
        return None
    book, found = public.codebook, list[str]()
    for name in features:
        variable = book.variable(name) if isinstance(book, Codebook) and name not in public.names else None
        found += [name] if variable is None else [column.name for column in variable.term.columns]
    return found


def unit_map(public: Schema, position: int) -> tuple[Reals, Reals]:
    """Return the affine map of (intercept, weights), normalised, to (intercept, coefficients) in the columns' units."""
    offset, slope = np.delete(public.offset, position), np.delete(public.slope, position)
    linear = np.diag(public.slope[position] / np.append(1.0, slope))
    linear[0, 1:] = -public.slope[position] * offset / slope
    return linear, np.append(public.offset[position], np.zeros(len(offset)))


def in_units(model: LinearModel, schema: Schema, target: int) -> tuple[Reals, float]:
    """Convert a normalised model of one of the columns to coefficients (d,) and intercept in the columns' units."""
    linear, shift = unit_map(schema, target)
    units = linear @ np.array([model.intercept, *model.weights]) + shift
    return units[1:], float(units[0])


def selection(columns: Sequence[str], target: str, features: Sequence[str]) -> dict[str, object]:
    """Return what `fit_release` must be told to use these features: they are named where they are not all others."""
    others = [name for name in columns if name != target]
    return {"target": target} | ({} if list(features) == others else {"features": list(features)})
