"""Say, from the release alone, why a regression may be worth little: each warning has its number and its remedy.

Promised: a function of the release, so that saying it costs no privacy. Not promised: that a fit without a warning is
good; the estimated error is itself noisy.
"""

from __future__ import annotations

import math

from dpmpc.estimators.inference import Inference
from dpmpc.estimators.summary import HOPELESS
from dpmpc.planning.advice import break_even, error_of, release_of
from dpmpc.planning.prediction import Regression
from dpmpc.planning.scenario import Scenario
from dpmpc.release import GramSource

MOST_EPSILON = 10.0
_REMEDY = "more clients, a larger epsilon, tighter public bounds or fewer features help"


def why_not_useful(release: GramSource, found: Inference | None, *, asked: float | None, used: float) -> list[str]:
    """Return the warnings of a fit.

    Parameters
    ----------
    release : GramSource
        What was fitted.
    found : Inference, optional
        Its intervals, where it has any.
    asked : float, optional
        The penalty that was asked for; None where it was chosen.
    used : float
        The penalty of the fit.
    """
    said = []
    if found is not None and not found.informative:
        said.append(HOPELESS)
    elif found is not None and math.isfinite(found.r_squared) and found.r_squared + found.r_squared_standard_error < 0:
        said.append(
            f"R^2 is {found.r_squared:.2g}, standard error {found.r_squared_standard_error:.2g}: predicting the mean "
            f"for everybody is expected to be better; {_REMEDY}"
        )
    if asked is not None and used > asked:
        said.append(
            f"the noise raised the penalty from {asked:g} to {used:.3g}, which shrinks the coefficients; {_REMEDY}"
        )
    return [*said, *too_few(release), *weak_promise(release)]


def too_few(release: GramSource) -> list[str]:
    """Return a warning where the plan expects such a release of so many people to be worse than ignoring the data.

    It rests on public facts alone, and on the population that `dpmpc plan` assumes.
    """
    task, metric = release.task, Regression()
    scenario = Scenario.of(task)
    if error_of(release_of(task), scenario, metric) < metric.trivial(scenario):
        return []
    start = break_even(task, metric)
    when = "for no number of people that this delta allows" if start is None else f"from {start:,} people on"
    return [
        f"{release.clients:,} people given: a release like this is expected to beat predicting the mean {when} "
        f"(dpmpc plan); {_REMEDY}"
    ]


def weak_promise(release: GramSource) -> list[str]:
    """Return a warning where epsilon promises little."""
    epsilon = release.task.guarantee.epsilon
    if epsilon <= MOST_EPSILON:
        return []
    return [
        f"epsilon = {epsilon:g} given: a client's row may change the odds of any outcome by exp({epsilon:g}), which "
        f"promises little; at most {MOST_EPSILON:g}, and better 1, is usual"
    ]
