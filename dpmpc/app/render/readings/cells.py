"""Readings of cell counts: a Table 1, or survival curves where the cells are of times and events."""

from __future__ import annotations

import math
from collections.abc import Iterator

from dpmpc.app.render.drawing import figures
from dpmpc.app.render.readings.reading import Reading
from dpmpc.app.render.readings.sentences import legible, sentence_of, unit_of
from dpmpc.linear.contributions.cells import CellCounts
from dpmpc.linear.contributions.contribution import Contribution
from dpmpc.models.survival.kaplan_meier import KaplanMeier
from dpmpc.models.survival.survival_cells import SurvivalCells, is_survival
from dpmpc.models.survival.survival_forecast import forecast_survival
from dpmpc.models.tables.table_one import TableOne
from dpmpc.privacy.task import Task
from dpmpc.release.release import Release
from dpmpc.release.results import Result


class ReadingOfCells(Reading):
    """How many people are in each cell."""

    words = "how many are in each cell of their columns"
    proved_words = "how many are in each cell of their columns, which each has proved"
    use = "a table"
    entries = "coded sums of people in cells"

    def of(self, contribution: Contribution) -> Reading:
        """Return the reading of survival where the cells are of times and events."""
        assert isinstance(contribution, CellCounts)
        return _SURVIVAL if is_survival(contribution) else self

    def result(self, release: Release, level: float) -> Result:
        """Return a Table 1."""
        return TableOne().fit_release(release).result(level)

    def sentences(self, release: Release) -> Iterator[tuple[str, str]]:
        """Yield the median or the shares of each question."""
        fit = TableOne().fit_release(release)
        shares = fit.shares()
        rows = {} if shares is None else dict(shares.rows())
        for name, (_, variable) in fit.variables_.items():
            called = legible(variable.label or name)
            for value in variable.categories:
                _, _, share, _, low, high = rows[fit.label(None, f"{name} = {value}")]
                yield f"{called}: {legible(value)}", sentence_of("about {} of the reports", share, low, high, " %")
            if not variable.categories:
                unit, date = unit_of(variable), variable if variable.kind == "date" else None
                said = f"half of the reports have {'{} or before' if date else 'at most {}'}"
                yield called, sentence_of(said, *fit.quantile(name, 0.5), unit, date)

    def verdict(self, task: Task) -> tuple[bool, str]:
        """Return whether a median or a share is expected to stand out from the noise."""
        forecast = TableOne.forecast_of(task)
        return forecast.useful, forecast.why


class ReadingOfSurvival(ReadingOfCells):
    """How many people have the event, or leave, in each cell of time."""

    use = "a curve"

    def result(self, release: Release, level: float) -> Result:
        """Return survival curves, by the one variable that times are counted by."""
        return _curves(release).result(level)

    def sentences(self, release: Release) -> Iterator[tuple[str, str]]:
        """Yield the median time of each group."""
        cells = SurvivalCells.of(release)
        fit = _curves(release)
        time, event = (legible(one.label or one.name) for one in (cells.time, cells.event))
        for group in fit.groups_ or (None,):
            middle, low, high = fit.median(group)
            called = time if group is None else f"{time}: {legible(group)}"
            unit = unit_of(cells.time)
            if math.isfinite(low) and not math.isfinite(middle + high):
                yield (
                    called,
                    f"{event}: half of the reports not before {figures(low, 4)}{unit}; no later end can be shown.",
                )
            else:
                yield called, sentence_of(f"{event}: half of the reports by {{}}", middle, low, high, unit)

    def verdict(self, task: Task) -> tuple[bool, str]:
        """Return whether a curve is expected to stand out from the noise."""
        forecast = forecast_survival(task)
        return forecast.useful, forecast.why


_SURVIVAL = ReadingOfSurvival()


def _curves(release: Release) -> KaplanMeier:
    """Fit the curves of a release, by the one variable that times are counted by where there is one."""
    features = SurvivalCells.of(release).features
    return KaplanMeier(by=next(iter(features)) if len(features) == 1 else None).fit_release(release)
