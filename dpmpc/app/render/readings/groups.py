"""Readings of second moments by group: means of each group, and a regression in each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from dpmpc.app.render.readings.reading import Reading
from dpmpc.base.errors import InputError
from dpmpc.models.common.inference import stands_out
from dpmpc.models.common.release_parts import Blocks
from dpmpc.models.groups.grouped_ridge_regression import GroupedRidgeRegression
from dpmpc.release.release import Release
from dpmpc.release.results import NumberTable, Result


class ReadingOfGroups(Reading):
    """The sums of second moments by group."""

    words = "the sums of their second moments by group"
    entries = "entries of a group's block, columns mapped to [−1, 1]"

    def _sizes(self, release: Release) -> Mapping[str, tuple[float, float]]:
        groups, variance = Blocks(release).groups, float(release.noise_variance[0])
        squares = np.mean(release.sketch[0].reshape(len(groups), -1) ** 2, axis=1).tolist()
        return {name: (square, variance) for name, square in zip(groups, squares, strict=True)}

    def result(self, release: Release, level: float) -> Result:
        """Return the means of each group, and the description of everybody."""
        everybody, table = Blocks(release).describe(), _means_table(release)
        return Result(
            tables=[table, *everybody.tables],
            notes=[f"--target {release.columns[-1]} regresses that column on the others, in each group."],
            data={"by": table.label, "groups": table.to_dict(), "description": everybody.columns.to_dict()},
        )

    def regression(
        self,
        release: Release,
        target: str,
        features: Sequence[str] | None,
        groups: Mapping[str, Sequence[str]],
        level: float,
    ) -> Result:
        """Return a regression for each group."""
        if groups:
            raise InputError("group", "given, but regressions by group test no features together, --features expected")
        return GroupedRidgeRegression().fit_release(release, target, features=features).result(level)


def _means_table(release: Release) -> NumberTable:
    """Return how many people each group has, with noise, and the means of the columns in groups that stand out."""
    everybody = Blocks(release)
    sizes, error = everybody.sizes()
    lists: dict[str, list[float]] = {"people": sizes.tolist(), "std. error": [error] * len(sizes)}
    errors = {"people": "std. error"}
    clear = [stands_out(size, error**2) for size in sizes]
    described = [Blocks(release, [group]).describe() for group in everybody.groups]
    for place, name in enumerate(everybody.columns):
        pairs = [(one.means[place], one.mean_errors[place]) for one in described]
        shown = [pair if is_clear else (math.nan, math.nan) for pair, is_clear in zip(pairs, clear, strict=True)]
        lists |= {f"mean {name}": [mean for mean, _ in shown], f"± {name}": [error for _, error in shown]}
        errors[f"mean {name}"] = f"± {name}"
    notes = [f"n = {release.clients:,} in all groups together. ±: standard error, of noise and sampling."]
    if few := [group for group, is_clear in zip(everybody.groups, clear, strict=True) if not is_clear]:
        notes.append(f"Too few people to distinguish from none: {', '.join(few)}.")
    return NumberTable(
        f"By {everybody.by}", lists, list(everybody.groups), label=everybody.by, notes=notes, errors=errors
    )
