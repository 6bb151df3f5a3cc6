"""Before any data: what to expect of regressions by group, and of a comparison of groups, of several sizes."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from dpmpc.linear.contributions.grouped_moments import GroupedMoments
from dpmpc.models.common.inference import STANDS_OUT
from dpmpc.models.common.release_forecast import NOT_KNOWN
from dpmpc.models.groups.effects import Arm
from dpmpc.privacy.task import Task
from dpmpc.release.planning.advice import groups_outlook
from dpmpc.release.planning.forecast import Forecast
from dpmpc.release.planning.prediction import Population
from dpmpc.release.results import NumberTable

_POWER = 2.8  # standard errors of a difference that a test at .05 finds with probability .8: 1.96 + .84


def forecast_groups(task: Task, by: str, population: Population) -> Forecast:
    """Return what regressions by group are expected to be worth, by the size of the group.

    Parameters
    ----------
    task : Task
        The release by group.
    by : str
        The variable whose values are the groups.
    population : Population
        What is assumed about the data.
    """
    assert isinstance(task.statistic, GroupedMoments)
    outlook = groups_outlook(task, population)
    errors = {
        **{f"a group of {people:,}": phi for people, phi in outlook.expected.items()},
        f"all people, from all {outlook.groups} blocks": outlook.pooled,
        "predicting the mean": outlook.trivial,
    }
    ratio = outlook.one_hot
    times = f"{ratio:.2g} times less" if ratio >= 1 else f"{1 / ratio:.2g} times more"
    smallest = "no size" if outlook.smallest is None else f"{outlook.smallest:,} people"
    mean = task.clients / outlook.groups
    return Forecast(
        tasks=(task,),
        guarantee=task.guarantee,
        features=len(task.statistic.analysed(task.schema)) - 1,
        useful=outlook.smallest is not None and mean >= outlook.smallest,
        why=(
            f"The regression of a group beats predicting the mean from {smallest} in it. People of a group are counted "
            f"to \u00b1 {outlook.size_error:.3g} (standard error). For an intercept of each {by} and slopes in common, "
            f"leave out the groups and make {by} a category among the features: the noise in those slopes then has "
            f"{times} variance."
        ),
        assumed=(
            f"columns have a standard deviation of {population.spread:g} once their bounds are scaled to [-1, 1] "
            f"(--spread), and the best fit explains {population.explained:.3g} of the variance (--explained). "
            f"{NOT_KNOWN}"
        ),
        tables=[
            NumberTable(
                f"Expected error of the regressions by {by} (0 = optimal)",
                {"phi - 1": [phi - 1 for phi in errors.values()]},
                list(errors),
                label="of",
            )
        ],
        data={
            "by": by,
            **{name: value for name, value in dataclasses.asdict(outlook).items() if name != "expected"},
            "expected_phi": {str(people): phi for people, phi in outlook.expected.items()},
        },
    )


def forecast_comparison(task: Task, by: str, spread: float) -> Forecast:
    """Return the errors of differences between groups of one size.

    Values are assumed to have this standard deviation once their bounds are scaled to [-1, 1], and a mean halfway
    between the middle and the upper bound: the noise in a mean grows with its distance from the middle.

    Parameters
    ----------
    task : Task
        The release by group.
    by : str
        The variable whose values are the groups.
    spread : float
        Standard deviation of a column, its bounds scaled to [-1, 1].
    """
    assert isinstance(task.statistic, GroupedMoments)
    public = task.statistic.analysed(task.schema)
    groups, noise = len(task.statistic.variable(task.schema).categories), float(task.noise_variance[0])
    people = task.clients / groups

    def errors(variance: float) -> list[float]:
        """Return the standard error of a difference of each column, for noise of this variance."""
        block = people * np.array([[1.0, 0.5], [0.5, 0.25 + spread**2]])
        units = zip(public.offset.tolist(), public.slope.tolist(), strict=True)
        arms = [Arm.of(block, variance, np.array([offset]), np.array([slope])) for offset, slope in units]
        return [math.sqrt(2 * arm.variance(np.ones(1))) for arm in arms]

    private = errors(noise)
    table = NumberTable(
        f"Difference of means between two groups of {by}, of {people:,.0f} people each",
        {
            "std. error": private,
            "without privacy": errors(0.0),
            "found with power .8": [_POWER * error for error in private],
        },
        list(public.names),
        notes=["The last column is the smallest difference that a test at .05 finds in 4 of 5 releases."],
    )
    least = math.floor(STANDS_OUT * math.sqrt(noise)) + 1
    stated = f"A group has a mean from about {least:,} people on"
    return Forecast(
        tasks=(task,),
        guarantee=task.guarantee,
        features=len(public),
        useful=least <= people,
        why=f"{stated}." if least <= people else f"{stated}: no group is expected to have one.",
        assumed=(
            f"all {groups} groups have one size, columns a standard deviation of {spread:g} once their bounds are "
            "scaled to [-1, 1] (--spread), and means lie halfway between the middle and the end."
        ),
        tables=[table],
        data={
            "by": by,
            "groups": groups,
            "people_of_a_group": people,
            "smallest_group": least,
            "differences": table.to_dict(),
        },
    )
