"""What `dpmpc plan --by` says before any data: noise, bytes, and what to expect of groups of several sizes."""

from __future__ import annotations

import dataclasses
from typing import Any

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table as Grid

from dpmpc.contributions import GroupedMoments
from dpmpc.planning.advice import groups_outlook
from dpmpc.planning.cost import DAYS_OF_A_MONTH, Prices
from dpmpc.planning.prediction import Population, Regression
from dpmpc.render.guarantee_prose import guarantee_text
from dpmpc.render.plan import TABLE_STYLE, assumed_text, release_fields, release_grid
from dpmpc.render.released import task_fields
from dpmpc.task import Task


def groups_plan_fields(
    task: Task, by: str, population: Population, *, prices: Prices | None = None, days: float = DAYS_OF_A_MONTH
) -> dict[str, Any]:
    """Return everything that the plan says; what is impossible is null."""
    assert isinstance(task.statistic, GroupedMoments)
    found = groups_outlook(task, population)
    return {
        **task_fields(task, len(task.statistic.analysed(task.schema)) - 1),
        "model": "grouped-ridge",
        "by": by,
        **release_fields(task, prices or Prices(), days),
        **{name: value for name, value in dataclasses.asdict(found).items() if name != "expected"},
        "expected_phi": {str(people): phi for people, phi in found.expected.items()},
    }


def groups_plan_parts(task: Task, fields: dict[str, Any], population: Population) -> list[RenderableType]:
    """Return the same for a person."""
    metric, by, groups = Regression(), escape(fields["by"]), fields["groups"]
    grid = Grid(title=f"Expected phi (1 = optimal) of the regressions by {by}", **TABLE_STYLE, show_header=False)
    for people, phi in fields["expected_phi"].items():
        grid.add_row(f"a group of {int(people):,}", metric.text(phi))
    grid.add_row(f"everybody, from all {groups} blocks", metric.text(fields["pooled"]))
    grid.add_row("predicting the mean", metric.text(fields["trivial"]))
    smallest = fields["smallest"]
    grid.add_row("beats predicting the mean from", "no size" if smallest is None else f"{smallest:,} in a group")
    grid.add_row("people of a group are counted to", f"± {fields['size_error']:.3g} (standard error)")
    return [
        release_grid(fields),
        grid,
        assumed_text(metric, population),
        f"The guarantee is that of one release. If all that is wanted is an intercept for each {by} and slopes in "
        f"common, leave out --by, which makes it a category among the features: the noise in those slopes then has "
        f"{_times(fields['one_hot'])} variance.\n",
        guarantee_text(task.guarantee),
    ]


def _times(ratio: float) -> str:
    return f"{ratio:.2g} times less" if ratio >= 1 else f"{1 / ratio:.2g} times more"
