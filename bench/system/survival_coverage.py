"""Survival curves and log-rank tests from cells: how often intervals cover, and how often a test rejects.

Every run draws new people, and the integer noise that a task of this package asks of its parties: that of one party
alone, or of three servers of whom each adds all of it. A curve, a mean or a test that is not told counts apart.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.harness import machine, markdown, write
from dpmpc.base.arrays import Reals
from dpmpc.data import Codebook, Schema
from dpmpc.data.variables import Variable
from dpmpc.linear.contributions.cells import BITS, CellCounts, strategy_matrix
from dpmpc.models.common.cell_estimates import CellEstimates
from dpmpc.models.survival.cox_regression import CoxRegression
from dpmpc.models.survival.curves import Curve, LogRank, log_rank
from dpmpc.models.survival.survival_cells import SurvivalCells, survival_contribution, survival_schema
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.privacy.task import Task
from dpmpc.release.planning import design

RUNS, LEVEL, DELTA = 400, 0.95, 1e-6
LAST, HORIZON, RATIO = 48, 36, 1.25  # months; those of the restricted mean; hazard ratio of the power
SHAPE, SCALE = 1.2, 30.0  # of the Weibull law of times
LEFT = (5.0, 60.0)  # ends of the uniform law of when people leave
TABLE = Schema.of_codebook(
    Codebook(
        (
            Variable("months", 0, LAST, cells=LAST),
            Variable("died", 0, 1),
            Variable("arm", values=("a", "b")),
            Variable("stage", values=("i", "ii", "iii")),
        )
    )
)
STAGES = np.log([1.0, 1.35, 2.0])  # log hazard ratios of the stages, beside log 1.5 of the arm


@dataclasses.dataclass(frozen=True)
class Setting:
    """People, budget and who adds noise."""

    clients: int
    epsilon: float
    parties: int = 1  # how many add all of the noise
    share: float = 0.5  # of people in the second arm
    kind: str = "curves"  # or "cox"


SETTINGS = (
    Setting(500, 3.0),
    Setting(2_000, 1.0),
    Setting(2_000, 1.0, parties=3),
    Setting(2_000, 3.0, parties=3),
    Setting(10_000, 1.0),
    Setting(10_000, 1.0, parties=3),
    Setting(500, 3.0, share=0.1),
    Setting(2_000, 1.0, share=0.1),
    Setting(10_000, 1.0, parties=3, share=0.1),
    Setting(2_000, 3.0, kind="cox"),
    Setting(10_000, 1.0, kind="cox"),
    Setting(10_000, 1.0, parties=3, kind="cox"),
    Setting(50_000, 1.0, parties=3, kind="cox"),
)


def main(arguments: Sequence[str]) -> None:
    """Simulate, print and write the page."""
    parser = argparse.ArgumentParser(prog="python -m bench survival_coverage", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each setting (default %(default)s)")
    parser.add_argument("--seed", type=int, default=29, help="of the people; noise is drawn anew")
    options = parser.parse_args(arguments)
    measured = []
    for setting in SETTINGS:
        measured.append(measure(setting, options.runs, options.seed))
        print(f"survival_coverage: {measured[-1]}", file=sys.stderr, flush=True)
    content = {"machine": machine(), "level": LEVEL, "delta": DELTA, "runs": options.runs, "measured": measured}
    text = render(content)
    print(text)
    if options.runs >= RUNS:
        write("survival_coverage", content, text)


def features_of(setting: Setting) -> tuple[str, ...]:
    """Return by what people are counted beside the event."""
    return ("arm", "stage") if setting.kind == "cox" else ("arm",)


@functools.cache
def prepared(setting: Setting) -> tuple[Task, CellCounts]:
    """Return the task of a setting's release and its cells."""
    public = survival_schema(TABLE, "months", "died", features_of(setting))
    contribution = survival_contribution(public)
    choices = {"contribution": contribution, "noise_by": "servers", "servers": max(setting.parties, 2)}
    return design(ReleaseSpec.of(public, setting.clients, setting.epsilon, DELTA, **choices)), contribution


def drawn(
    setting: Setting, rng: np.random.Generator, ratio: float
) -> tuple[NDArray[np.intp], NDArray[np.bool_], Reals]:
    """Return for each person group, whether the event happened, and month."""
    n = setting.clients
    arm = (rng.random(n) < setting.share).astype(np.intp)
    group, effect = arm, np.log(ratio) * arm
    if setting.kind == "cox":
        stage = rng.integers(0, 3, n)
        group, effect = arm * 3 + stage, np.log(1.5) * arm + STAGES[stage]
    event = rng.weibull(SHAPE, n) * SCALE * np.exp(-effect / SHAPE)
    left = rng.uniform(*LEFT, n)
    return group, event <= left, np.minimum(event, left)


def cells_of(setting: Setting, rng: np.random.Generator, ratio: float = 1.0) -> SurvivalCells:
    """Return the cells of new people with new noise."""
    task, contribution = prepared(setting)
    (grid,) = contribution.grids
    group, died, months = drawn(setting, rng, ratio)
    counts = np.zeros((grid.group_count, grid.cells))
    cell = 2 * np.minimum(np.maximum(np.ceil(months).astype(int) - 1, 0), LAST)  # nobody leaves where a cell ends
    np.add.at(counts, (group * 2 + died, cell), 1)
    sums = (counts @ strategy_matrix(grid.strategy, grid.cells).T).ravel() / 2.0**BITS
    sums = sums + task.noise.sample((setting.parties, task.width)).sum(axis=0) * task.unit
    variance = setting.parties * task.noise.variance * task.unit**2
    (time, groups), *_ = contribution.counted(task.schema)
    estimates = CellEstimates(contribution, sums, variance, setting.clients)
    return SurvivalCells(estimates, 0, time, groups, groups[-1])


def survives(months: Reals) -> Reals:
    """Return the share of the people who have no event until then, of one hazard."""
    return np.exp(-((months / SCALE) ** SHAPE))


MEDIAN = SCALE * math.log(2) ** (1 / SHAPE)
MEAN = float(np.trapezoid(survives(np.linspace(0, HORIZON, 10_001)), dx=HORIZON / 10_000))


def outcome(setting: Setting, rng: np.random.Generator) -> dict[str, Any]:
    """Make one run: what covers, what is told, and what is rejected."""
    cells = cells_of(setting, rng)
    if setting.kind == "cox":
        return outcome_of_cox(cells)
    curve = Curve(cells, cells.members([])[()])
    found: dict[str, Any] = {"told": curve.end / len(cells.times)}
    if curve.end > 12:
        expected = survives(curve.times)
        low, high = curve.pointwise(LEVEL)
        found["pointwise"] = ((low <= expected) & (expected <= high))[3::6].mean()
        low, high = curve.band(LEVEL)
        found["band"] = bool(np.all((low <= expected) & (expected <= high)))
        median = curve.median(LEVEL)
        found["median"] = median.lower <= MEDIAN <= median.upper
        if curve.times[-1] >= HORIZON:
            mean = curve.mean_interval(HORIZON, LEVEL)
            if math.isfinite(mean.value):
                found["mean"] = mean.lower <= MEAN <= mean.upper
    for name, ratio in (("size", 1.0), ("power", RATIO)):
        other = cells if ratio == 1.0 else cells_of(setting, rng, ratio)
        tested = log_rank(other, {label[0]: own for label, own in other.members(["arm"]).items()})
        if isinstance(tested, LogRank):
            found[name] = tested.p_value < 1 - LEVEL
    return found


def outcome_of_cox(cells: SurvivalCells) -> dict[str, Any]:
    """Return which intervals of a Cox regression cover."""
    model = CoxRegression(features=("arm", "stage")).read_cells(cells)
    if model.verdict_ is not None:
        return {}
    true = np.array([np.log(1.5), *STAGES[1:]])
    low, high = np.array(list(model.intervals(LEVEL).values())).T
    covers, off = (low <= true) & (true <= high), np.abs(model.coef_ - true)
    return {"cox": float(covers.mean()), "off": float(off.mean()), "error": float(model.errors_.mean())}


def measure(setting: Setting, runs: int, seed: int) -> dict[str, Any]:
    """Return how often each covers or rejects, of the runs in which it was told."""
    rng = np.random.default_rng([seed, setting.clients, setting.parties])
    made = [outcome(setting, rng) for _ in range(runs)]
    names = list(dict.fromkeys(name for run in made for name in run))
    return {
        **dataclasses.asdict(setting),
        "runs": runs,
        "shares": {name: float(np.mean([run[name] for run in made if name in run])) for name in names},
        "given": {name: sum(name in run for run in made) for name in names},
    }


def render(content: dict[str, Any]) -> str:
    """Return the Markdown page."""
    curves, models = [], []
    for entry in content["measured"]:
        facts = [f"{entry['clients']:,}", f"{entry['epsilon']:g}", str(entry["parties"])]

        def said(name: str, entry: dict[str, Any] = entry) -> str:
            if name not in entry["shares"]:
                return ""
            told = (
                "" if entry["given"][name] == entry["runs"] else f" ({entry['given'][name] / entry['runs']:.0%} told)"
            )
            return f"{entry['shares'][name]:.3f}{told}"

        if entry["kind"] == "cox":
            models.append([*facts, said("cox"), said("off"), said("error")])
        else:
            names = ("told", "pointwise", "band", "median", "mean", "size", "power")
            curves.append([*facts, f"{entry['share']:g}", *map(said, names)])
    people = ["n", "epsilon", "parties"]
    headings = [*people, "second arm", "cells told", "pointwise", "band", "median", "mean to 36", "size", "power"]
    return "\n\n".join(
        [
            "# Coverage of survival curves from cells, and sizes of log-rank tests",
            f"Nominal 95 %; {content['runs']} runs, delta = {content['delta']:g}, 48 months in cells of one and a "
            f"further one, Weibull times, people who leave at any time. Parties: how many add all of the noise. Power: "
            f"at a hazard ratio of {RATIO:g}. Shares are of the runs in which there was something to tell.",
            markdown(headings, curves),
            "Cox regression on an arm and three stages (six patterns), hazard ratios 1.5, 1.35 and 2: coverage, mean "
            "error and mean standard error of the logarithms.",
            markdown([*people, "coverage", "error", "standard error"], models),
        ]
    )
