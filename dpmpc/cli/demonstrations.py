"""What `dpmpc demo` and the programs of `protocols/` show: each model on the generated population."""

from __future__ import annotations

import dataclasses
from typing import Any

from dpmpc.bounds import Schema
from dpmpc.cli.fit_models import Analysis, LowRankAnalysis, MomentAnalysis, RidgeAnalysis
from dpmpc.datasets import DEMO_BOUNDS, DEMO_RADIUS, DEMO_TARGET, demo_population
from dpmpc.estimators import FrequencyMoment, LowRankApproximation, RidgeRegression
from dpmpc.planning.specification import design
from dpmpc.tables import Table
from dpmpc.task import Task

ITEM_COLUMN = "schooling_years"  # whole numbers
_COMPONENTS = 2


@dataclasses.dataclass(frozen=True)
class Demonstration:
    """A model, its data, and what `dpmpc.planning.specification.design` is told beside the budget and the servers."""

    analysis: Analysis
    table: Table
    schema: Schema
    choices: dict[str, Any]

    def task(self, epsilon: float, delta: float, sketch: str | None, servers: int, seed: int | None = None) -> Task:
        """Design the release, with another sketch than the model's own if one is named."""
        choices = self.choices if sketch is None else {**self.choices, "sketch": sketch}
        return design(self.schema, len(self.table), epsilon, delta, servers=servers, seed=seed, **choices)


def demonstration(model: str, clients: int, seed: int | None = None) -> Demonstration:
    """Return what shows a model: income from the features, main directions of all columns, or F_2 of an item.

    `seed` is for simulations only, and not of the population, which is always the same.
    """
    table, truth, _ = demo_population(clients)
    analysis: Analysis
    if model == "ridge":
        analysis = RidgeAnalysis(RidgeRegression(1.0), DEMO_TARGET, truth)
        return Demonstration(analysis, table, DEMO_BOUNDS, {"sketch": "countsketch", "radius": DEMO_RADIUS})
    if model == "low-rank":
        analysis = LowRankAnalysis(LowRankApproximation(_COMPONENTS))
        return Demonstration(analysis, table, DEMO_BOUNDS, analysis.choices({"radius": DEMO_RADIUS}, DEMO_BOUNDS))
    analysis, schema = (
        MomentAnalysis(FrequencyMoment(of="items", seed=seed), ITEM_COLUMN),
        DEMO_BOUNDS.select([ITEM_COLUMN]),
    )
    return Demonstration(analysis, table.select([ITEM_COLUMN]), schema, analysis.choices({}, schema))
