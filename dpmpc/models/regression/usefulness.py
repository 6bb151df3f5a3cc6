"""Say, from the release alone, why a regression may be worth little: each warning has its number and its remedy.

Promised: a function of the release, so that saying it costs no privacy. Not promised: that a fit without a warning is
good; the estimated error is itself noisy.
"""

from __future__ import annotations

import math

import numpy as np

from dpmpc.base.arrays import Reals
from dpmpc.base.errors import UNIDENTIFIED
from dpmpc.data import Codebook
from dpmpc.models.common.inference import Inference
from dpmpc.models.common.release_parts import is_grouped
from dpmpc.privacy import Guarantee
from dpmpc.release.planning.prediction import Regression, Scenario, error_of, people_needed, release_of, useful_from
from dpmpc.release.release import GramSource

MOST_EPSILON = 10.0
_CLEARLY = 3.0  # standard deviations of the noise
_LITTLE = 0.125  # half-ranges: two standard deviations either way are a quarter of the bounds
_KNOWN = 0.1  # so much noise in a mean square leaves it known
_ROUNDING = 1e-3  # of the fixed-point encoding
_REMEDY = "more clients, a larger epsilon, tighter public bounds or fewer features help"


def why_not_useful(release: GramSource, found: Inference | None, *, requested: float | None, used: float) -> list[str]:
    """Return the warning of a fit of one release, if there is one, of all that noise does to it, with the remedies.

    Parameters
    ----------
    release : GramSource
        What was fitted.
    found : Inference, optional
        Its intervals, where it has any.
    requested : float, optional
        The penalty that was requested for; None where it was chosen.
    used : float
        The penalty of the fit.
    """
    hopeless = found is not None and not found.informative
    reasons = []
    if found is not None and not hopeless and found.r_squared + found.r_squared_standard_error < 0:
        reasons.append(
            f"R^2 is {found.r_squared:.2g}, standard error {found.r_squared_standard_error:.2g}: predicting the mean "
            "for everybody is expected to be better"
        )
    if requested is not None and used > requested:
        reasons.append(f"the noise raised the penalty from {requested:g} to {used:.3g}, which shrinks the coefficients")
    reasons += too_few(release)
    if hopeless:  # which names the remedies
        return [f"{UNIDENTIFIED} In numbers: {'; '.join(reasons)}" if reasons else UNIDENTIFIED]
    return ["; ".join([*reasons, _REMEDY])] if reasons else []


def too_few(release: GramSource) -> list[str]:
    """Return where the plan expects such a release of so many people to be worse than ignoring the data.

    It rests on public facts alone, and on the population that `dpmpc plan` assumes.
    """
    task, metric = release.task, Regression()
    if is_grouped(release):
        return too_few_in_group(release)
    kind, scenario = release_of(task), Scenario.of(task)
    if error_of(kind, scenario, metric) < metric.trivial(scenario):
        return []
    when = _from(useful_from(kind, scenario, metric))
    return [
        f"{release.clients:,} people given: a release like this is expected to beat predicting the mean {when} "
        "(dpmpc plan)"
    ]


def too_few_in_group(release: GramSource) -> list[str]:
    """Return the same of some groups of a release, whose number of people it shows with noise."""
    needed = people_needed(release.task, len(release.columns), float(release.noise_variance[0]))
    error = math.sqrt(release.total_variance)
    if needed is not None and release.total >= needed:
        return []
    counted = f"about {release.total:,.0f} people found, standard error {error:,.0f}" if error else ""
    counted = counted or f"{release.clients:,} people given"
    return [
        f"{counted}: with the noise of these sums a regression is expected to beat predicting the mean {_from(needed)}"
    ]


def _from(people: int | None) -> str:
    """Say from which number of people on something holds."""
    return "for no number of people that this delta allows" if people is None else f"from {people:,} people on"


def wide_bounds(release: GramSource, target: str) -> list[str]:
    """Return which features use little of their bounds, as far as a sum of second moments shows it.

    The noise in an estimate is in proportion to the bounds. A column whose values are all at its ends, such as a rare
    0/1 one, uses them however little it varies.
    """
    if not release.summed:
        return []
    gram, noise = release.gram().matrix / release.total, math.sqrt(float(release.noise_variance[0])) / release.total
    said, book = [], release.task.schema.codebook
    indicators = book.indicators if isinstance(book, Codebook) else ()
    for place, name in enumerate(release.columns, 1):
        if name == target or name in indicators:
            continue
        square, mean = float(gram[place, place]), float(gram[0, place])
        most = math.sqrt(max(square - mean**2, 0.0) + _CLEARLY * noise)
        if most < _LITTLE and square < 1 - _LITTLE:
            said.append(
                f"{name}: its standard deviation is at most {most:.2g} of half its bounds. Narrower public bounds "
                "would make its interval shorter, about in proportion, and so would --rounds auto --private-bounds."
            )
    return said


def linear_probability(release: GramSource, target: str) -> list[str]:
    """Return a notice where the release shows that a target within [0, 1] takes no other value than 0 and 1.

    Normalised to t in [-1, 1] such a target has t^2 = 1, so that its released sum is n but for the noise.
    """
    task = release.task
    column = task.schema.columns[task.schema.index(target)]
    if (column.lower, column.upper) != (0.0, 1.0) or not release.summed:
        return []
    noise = _CLEARLY * math.sqrt(float(release.noise_variance[0]) + release.total_variance) / release.total
    place = 1 + release.columns.index(target)
    square = float(release.gram().matrix[place, place]) / release.total
    return [_probabilities(target)] if noise <= _KNOWN and abs(square - 1) <= noise + _ROUNDING else []


def public_warnings(release: GramSource, target: str, guarantee: Guarantee) -> list[str]:
    """Return what public facts alone warn of: epsilon, what rows lack, and what else the columns are coded from.

    The guarantee is that of all releases that a fit rests on; one of them has its columns.
    """
    return [*_weak_promise(guarantee.epsilon), *_filled_target(release, target), *_among_features(release, target)]


def _filled_target(release: GramSource, target: str) -> list[str]:
    """Return a warning where rows that lack the target were given a value, which the codebook makes public."""
    book = release.task.schema.codebook
    if not isinstance(book, Codebook) or not book.fills(target):
        return []
    return [
        f"rows that lack {target!r} were given a value (if_missing in the bounds) and count as if they had it, so that "
        "coefficients and R^2 reflect who lacks it too; columns that state what is missing take the most"
    ]


def _among_features(release: GramSource, target: str) -> list[str]:
    """Return a warning of features that are coded from the target's own variable; public, by the codebook."""
    book = release.task.schema.codebook
    if not isinstance(book, Codebook):
        return []
    own = book.sources_of([target])
    same = [name for name in release.columns if name != target and not set(own).isdisjoint(book.sources_of([name]))]
    if not same:
        return []
    return [
        f"{', '.join(same)}: coded from {' and '.join(own)} as the target {target!r} is, so that these features "
        "contain part of it by themselves; name features without them"
    ]


def _weak_promise(epsilon: float) -> list[str]:
    """Return a warning where epsilon promises little."""
    if epsilon <= MOST_EPSILON:
        return []
    return [
        f"epsilon = {epsilon:g} given: a client's row may change the probability of an outcome by the factor "
        f"exp({epsilon:g}), which promises little; at most {MOST_EPSILON:g}, and better 1, is usual"
    ]


def linear_probability_of(values: Reals, target: str) -> list[str]:
    """Return the same notice from a target at hand; for the holder of the rows, as it is not private."""
    if not np.isin(values, (0.0, 1.0)).all():
        return []
    return [f"{_probabilities(target)} (this notice depends on the data and is not private)"]


def _probabilities(target: str) -> str:
    return (
        f"the target {target!r} is 0 or 1, so that this is a linear probability model: coefficients are differences of "
        "probabilities, and predictions may leave [0, 1]; LogisticRegression (--model logistic) fits odds"
    )
