"""Before any data: what regressions by group may be expected to be worth, for an assumed population.

A group has the noise of the whole release, whatever its size, so that its expected error follows from its number of
people alone. Not promised: more than `dpmpc.planning.prediction` promises.
"""

from __future__ import annotations

import dataclasses
import functools
import math

from dpmpc.contributions import GroupedMoments, moment_sensitivity
from dpmpc.errors import InputError
from dpmpc.planning.advice import smallest_batch
from dpmpc.planning.prediction import Regression
from dpmpc.planning.scenario import Population, Scenario
from dpmpc.task import Task

SHARES = (1.0, 0.5, 0.1)  # of a group of the mean size, at which the plan says what to expect


@dataclasses.dataclass(frozen=True)
class GroupsOutlook:
    """What to expect of a release by group."""

    groups: int  # g
    size_error: float  # standard error of the released number of people of each group
    expected: dict[int, float]  # people in a group -> expected phi of its regression
    # people from which on a group's regression beats predicting the mean; None if there is no such number
    smallest: int | None
    pooled: float  # expected phi of everybody's regression, from the sum of the blocks
    # by how much the variance of the noise in common slopes is less where the groups are a category among the features
    # of a release without groups; below 1 where it is more
    one_hot: float
    trivial: float  # phi of predicting the mean


def groups_outlook(task: Task, population: Population | None = None) -> GroupsOutlook:
    """Say what to expect of a task by group."""
    contribution, metric = task.statistic, Regression()
    if not isinstance(contribution, GroupedMoments):
        raise InputError(f"task: of {contribution.name} given, one by group expected")
    columns = len(contribution.analysed(task.schema))
    scenario = dataclasses.replace(Scenario.of(task, population), columns=columns)
    variance, groups = float(task.noise_variance[0]), contribution.groups

    def phi(people: int, noise: float) -> float:
        return metric.of_moments(dataclasses.replace(scenario, clients=people), noise)

    sizes = dict.fromkeys(max(1, round(share * task.clients / groups)) for share in SHARES)
    # One release whose category is a term more, in place of G blocks that are added up.
    terms = columns if contribution.radius is None else contribution.radius**2
    one_hot = groups * (moment_sensitivity(1 + terms) / moment_sensitivity(2 + terms)) ** 2
    return GroupsOutlook(
        groups=groups,
        size_error=math.sqrt(variance),
        expected={people: phi(people, variance) for people in sizes},
        smallest=people_needed(task, columns, variance, population),
        pooled=phi(task.clients, groups * variance),
        one_hot=one_hot,
        trivial=metric.trivial(scenario),
    )


def people_needed(task: Task, columns: int, variance: float, population: Population | None = None) -> int | None:
    """Return how many people sums with this noise have to be of, for a regression that beats predicting the mean."""
    return _needed(dataclasses.replace(Scenario.of(task, population), columns=columns), variance)


@functools.lru_cache(maxsize=64)
def _needed(scenario: Scenario, variance: float) -> int | None:
    """Find the least number, once for all groups of a release."""
    metric = Regression()
    return smallest_batch(scenario, lambda at: metric.of_moments(at, variance) < metric.trivial(at))
