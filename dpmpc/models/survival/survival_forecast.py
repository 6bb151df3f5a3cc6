"""Before any data: from how many people on survival curves and a log-rank test are shown.

And whether the cells are narrow enough: what the order within them can change is that of an assumed worst case.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpmpc.base.arguments import require_fraction
from dpmpc.models.common.inference import normal_quantile
from dpmpc.models.survival.curves import NARROWER, Curve, order_of_scores, score_law, too_wide
from dpmpc.models.survival.survival_cells import Members, SurvivalCells
from dpmpc.privacy.task import Task
from dpmpc.release.planning.forecast import Forecast
from dpmpc.release.release import Release
from dpmpc.release.results import NumberTable

RATIOS = (1.25, 1.5, 2.0)
POWER, LEVEL = 0.8, 0.05
_LEAST = "shown from so many people on"
EVENTS = 0.5  # assumed share of people with the event before the upper bound


def forecast_survival(task: Task, events: float = EVENTS) -> Forecast:
    """Return from how many people curves, and a log-rank test of two of them, are expected to be shown.

    Parameters
    ----------
    task : Task
        The release of cells.
    events : float
        Assumed share of people who have the event before the upper bound of the time.
    """
    cells = _expected(task, require_fraction("events", events))
    members, by = list(cells.members(list(cells.features)).values()), next(iter(cells.features), None)
    curves, tests = _curves(cells, members, task.clients), _tests(cells, members, task.clients)
    order, stated = _order(task, by, events)
    least = dict(zip(curves.names, curves.columns[_LEAST], strict=True))
    until = ", ".join(f"{cells.time.name} = {end} from {people:,.0f}" for end, people in least.items())
    return Forecast(
        tasks=(task,),
        guarantee=task.guarantee,
        features=len(task.schema.variables),
        useful=min(least.values()) <= task.clients,
        why=f"Survival curves are shown of so many people or more: until {until}. {stated}",
        assumed=(
            f"groups of one size; {events:.0%} of the people have the event by {cells.time.name} = "
            f"{cells.times[-1]:g} (--events), at a constant rate, and none leave before. Those who leave early have to "
            "be made up for."
        ),
        tables=[curves, *([] if tests is None else [tests])],
        data={
            "time": cells.time.name,
            "event": cells.event.name,
            "by": by,
            "assumed_events": events,
            "curves": curves.to_dict(),
            "log_rank": None if tests is None else tests.to_dict(),
            "order_within_cells": order,
        },
    )


def _order(task: Task, by: str | None, events: float) -> tuple[dict[str, dict[str, Any]], str]:
    """Return what the order within cells can change if all who have no event leave evenly, and put it in words."""
    if task.schema.variables[0].step is not None:
        return {}, "Each cell is one time: there is no order within it, and events come before exits."
    cells = _expected(task, events, leaving=True)
    members = list(cells.members([] if by is None else [by]).values())
    curve, time = Curve(cells, members[0]), cells.time.name
    found = {}
    if curve.end:
        until = float(curve.times[-1])
        value, error = curve.restricted_mean(until)
        ends = [one.restricted_mean(until)[0] for one in (curve.lowest, curve.highest)]
        found[f"restricted mean up to {time} = {until:g}"] = (max(abs(end - value) for end in ends), error, until)
    if len(members) > 1 and (end := min(cells.ends(own) for own in members[:2])):
        _, sampling, noise = score_law(cells, members[:2], end)
        moved = float(order_of_scores(cells, members[:2], end)[1])
        found["log-rank test"] = (moved, math.sqrt(float((sampling + noise)[0, 0])), float(sampling[0, 0]))
    facts = {name: {"standard_errors": one[0] / one[1], "told": not too_wide(*one)} for name, one in found.items()}
    parts = [
        f"the {name} by up to {one['standard_errors']:.2g} standard errors"
        + (", which its result allows for" if one["told"] else f", so that it would be withheld: {NARROWER}")
        for name, one in facts.items()
    ]
    return facts, (
        "Nothing is known of the order within cells. If all who have no event leave evenly, and none where a cell "
        f"ends, it could move {'; '.join(parts) or 'nothing: too few people for a curve'}."
    )


def _expected(task: Task, events: float, *, leaving: bool = False) -> SurvivalCells:
    """Return the cells of the task's people, as they are assumed to be.

    The noise is that of the task whatever is summed, so that a release of nobody has all of it.
    """
    return SurvivalCells.of(Release(task, np.zeros((1, task.width), np.int64))).expected(events, leaving=leaving)


def _curves(cells: SurvivalCells, members: Sequence[Members], people: int) -> NumberTable:
    """Return from how many people all curves are shown until some times, and how far off a curve is there."""
    curve, count = Curve(cells, members[0]), len(members)
    left, errors = cells.at_risk(members[0])
    rows = {}
    for share in (0.25, 0.5, 0.75, 1.0):
        place = max(math.ceil(share * len(cells.times)) - 1, 0)
        fraction = left[place] / people
        told = math.floor((4 * errors[place] + 5) / fraction) + 1
        error = math.nan
        if place < curve.end:
            deviation = math.sqrt(cells.estimates.variance(cells.grid, curve.gradients[place]))
            error = float(np.exp(curve.log_survival[place])) * deviation
        rows[f"{cells.times[place]:g}"] = [told, error]
    return NumberTable(
        f"Survival curves{'' if count == 1 else f' of {count} groups'}",
        {
            _LEAST: [row[0] for row in rows.values()],
            f"s.e. of survival, of {people:,}": [row[1] for row in rows.values()],
        },
        list(rows),
        label=f"until {cells.time.name}",
    )


def _tests(cells: SurvivalCells, members: Sequence[Members], people: int) -> NumberTable | None:
    """Return how many people a log-rank test of two groups needs, with the noise and without."""
    if len(members) < 2:
        return None
    _, sampling, noise = score_law(cells, members[:2], len(cells.times))
    each, variance = float(sampling[0, 0]) / people, float(noise[0, 0])
    reach, extra = normal_quantile(1 - LEVEL / 2), normal_quantile(POWER)
    rows = {}
    for ratio in RATIOS:
        effect2, z2 = math.log(ratio) ** 2, (reach + extra) ** 2
        needed = [(z2 + math.sqrt(z2**2 + 4 * effect2 * z2 * one)) / (2 * effect2 * each) for one in (0.0, variance)]
        mean = each * people * math.sqrt(effect2) / math.sqrt(each * people + variance)
        power = 0.5 * math.erfc((reach - mean) / math.sqrt(2))
        rows[f"hazard ratio {ratio:g}"] = [math.ceil(needed[0]), math.ceil(needed[1]), power]
    return NumberTable(
        f"People for a log-rank test of two of the groups, power {POWER:.0%} at the level {LEVEL:g}",
        {
            "without noise": [row[0] for row in rows.values()],
            "with this noise": [row[1] for row in rows.values()],
            f"power of {people:,}": [row[2] for row in rows.values()],
        },
        list(rows),
        label="if there is a",
    )
