"""What to expect of a fit in rounds: the sums, the noise of each, intervals, and how many people they take."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from dpmpc.linear.contributions.cells import CellCounts
from dpmpc.linear.contributions.clipped_scores import ClippedScores
from dpmpc.models.common.inference import FLAG
from dpmpc.models.common.release_forecast import NOT_KNOWN
from dpmpc.models.regression.round_fits import APPROXIMATION
from dpmpc.models.rounds.fit import SUM_NAMES
from dpmpc.models.rounds.forecast import USEFUL
from dpmpc.models.rounds.outlook import Assumed, Expected, Outlook, outlook
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning.cost import byte_fields
from dpmpc.release.planning.forecast import Assumptions, Forecast
from dpmpc.release.results import NumberTable
from dpmpc.release.results.number_tables import finite_or_none

SECONDS_A_START = 1.5  # to start servers on one machine, and end them
SECONDS_A_SUM = 0.05  # of servers that run, beside the work of clients
SECONDS_A_WORD = 1.2e-7  # to make a number that a client sends, share it, and add it up, on one core
USUAL_COUNT = 1.0  # the mean count of a Poisson regression, where none is assumed
_WITHOUT_ROUNDS = f"Without rounds this is {APPROXIMATION}."
_MEANS = {"logistic": "share of ones", "poisson": "mean count"}


def forecast_rounds(
    model: str,
    spec: ReleaseSpec,
    rounds: int | str,
    assumed: Assumptions,
    *,
    intervals: bool = True,
    private_bounds: bool = False,
) -> Forecast:
    """Return what a fit in rounds is expected to give.

    Parameters
    ----------
    model : {"logistic", "poisson", "ridge"}
        The regression of the last column on the others.
    spec : ReleaseSpec
        Columns, clients, the whole budget, trust and mechanism.
    rounds : int or "auto"
        Steering rounds.
    assumed : Assumptions
        About people.
    intervals : bool
        Whether a part of the budget goes into sums for errors and intervals.
    private_bounds : bool
        Whether a part of it goes into counts that narrow bounds.
    """
    given = {name: getattr(assumed, name) for name in ("mean", "effect", "most")}
    people = Assumed(population=assumed.population, **{name: one for name, one in given.items() if one is not None})
    if model == "poisson" and assumed.mean is None:
        people = dataclasses.replace(people, mean=min(USUAL_COUNT, people.most / 2))
    found = outlook(model, spec, rounds, people, intervals=intervals, private_bounds=private_bounds)
    expected = [_expected_fields(found, one) for one in found.expected]
    sent = sum(byte_fields(one.task)["client_to_all_servers"] for one in found.sums)
    command, why = _command(found, spec.mechanism.noise_by), _why(found)
    recommended = "no fit" if found.hopeless else f"dpmpc fit {command}"
    return Forecast(
        tasks=[one.task for one in found.sums],
        guarantee=found.guarantee,
        features=len(found.sums[-1].task.schema) - 1,
        useful=not found.hopeless and (not found.slopes or not all(one.on_bounds for one in found.slopes)),
        why=f"Recommended: {recommended}. {why[0].upper()}{why[1:]}.",
        assumed=f"{_assumed_text(model, people)}{' ' + _WITHOUT_ROUNDS if found.approximate else ''}",
        tables=[_expected_table(expected, found), *([_slopes_table(found)] if found.slopes else [])],
        more=[_sums_table(found, sent)],
        data={
            "rounds": found.rounds,
            "intervals": found.intervals,
            "sums": [
                {
                    "statistic": one.task.statistic.name,
                    "share": one.share,
                    "mu": one.mu,
                    "epsilon_alone": one.epsilon_alone,
                    "noise_sd": one.noise_sd,
                    "words": one.task.copies * one.task.width,
                }
                for one in found.sums
            ],
            "bytes": {
                "client_to_all_servers": sent,
                "server_to_analyst": sum(byte_fields(one.task)["server_to_analyst"] for one in found.sums),
            },
            "expected": expected,
            "learns_from": found.learns_from,
            "slopes": [dataclasses.asdict(one) for one in found.slopes],
            "assumed": {"mean": people.mean, "effect": people.effect, "explained": people.population.explained},
            "approximation": APPROXIMATION if found.approximate else None,
            "recommendation": {"fit": None if found.hopeless else command, "why": why},
        },
    )


def _expected_fields(found: Outlook, one: Expected) -> dict[str, Any]:
    """Return what to expect of a number of rounds, and what they cost: a steering round costs the same in all."""
    steering = [each for each in found.sums if each.task.statistic.name == ClippedScores.name]
    others = [each for each in found.sums if each not in steering]
    tasks = [each.task for each in (*others, *steering[:1] * one.rounds)]
    work = SECONDS_A_WORD * sum(task.clients * task.copies * task.width for task in tasks)
    return {
        "rounds": one.rounds,
        "excess": one.excess,
        "noise_part": finite_or_none(one.noise_part),
        "clip": finite_or_none(one.clip),
        "learned": one.learned,
        "intervals_shown": one.shown,
        "standard_error": one.standard_error,
        "noise_error": one.start_error,
        "client_bytes": sum(byte_fields(task)["client_to_all_servers"] for task in tasks),
        "seconds": work + SECONDS_A_START + SECONDS_A_SUM * len(tasks),
        "seconds_in_process": work,
    }


def _command(found: Outlook, noise_by: str) -> str:
    only = "" if found.intervals or not found.rounds else " --predict-only"
    only += " --private-bounds" if found.sums[0].task.statistic.name == CellCounts.name else ""
    return f"--model {found.model} --rounds {found.rounds}{only} --noise-by {noise_by}"


def _why(found: Outlook) -> str:
    """Return what the recommendation rests on."""
    clients, planned = found.guarantee.clients, found.planned
    if found.hopeless:
        needed = "more than are counted here" if found.learns_from is None else f"about {found.learns_from:,}"
        return (
            f"no coefficients can be trusted from {clients:,} clients: {needed} are needed at this budget; dpmpc fit "
            "would print that, and no coefficients"
        )
    excess = f"predictions are expected to miss {planned.excess:.2g} of the target's variance beyond the best fit"
    if planned.shown is None:
        return excess
    return f"{excess}; {'intervals will be shown' if planned.shown else 'no intervals are expected to be shown'}"


def _sums_table(found: Outlook, sent: int) -> NumberTable:
    """Return a row for each kind of sum: its part of the budget, and the noise in each of its numbers."""
    sums = {one: found.sums.count(one) for one in found.sums}
    return NumberTable(
        "Sums, all within one budget",
        {
            "share of mu^2": [one.share for one in sums],
            "epsilon alone": [one.epsilon_alone for one in sums],
            "noise sd": [one.noise_sd for one in sums],
            "words": [one.task.copies * one.task.width for one in sums],
        },
        [f"{SUM_NAMES[one.task.statistic.name]}{f' x {times}' if times > 1 else ''}" for one, times in sums.items()],
        label="sum",
        notes=[f"Noise in sums over all clients, scores clipped to length 1; a client sends {sent:,} bytes in all."],
    )


def _expected_table(expected: list[dict[str, Any]], found: Outlook) -> NumberTable:
    """Return a row for each number of rounds."""

    def values(name: str) -> list[float]:
        return [math.nan if one[name] is None else one[name] for one in expected]

    columns = {
        "excess error": [one["excess"] if one["learned"] else math.nan for one in expected],
        "noise's part": values("noise_part"),
        "clip": values("clip"),
        "s.e. of a slope": values("standard_error"),
        "bytes sent": values("client_bytes"),
        "seconds": values("seconds"),
    }
    return NumberTable(
        "Expected of a fit, by rounds",
        {name: listed for name, listed in columns.items() if not all(map(math.isnan, listed))},
        [f"{one['rounds']}{' (planned)' if one['rounds'] == found.rounds else ''}" for one in expected],
        label="rounds",
        notes=[
            "Error beyond the best fit in parts of the target's variance, none where nothing is learned; s.e. per "
            "standard deviation of the feature; seconds where clients and servers share one machine."
        ],
    )


def _slopes_table(found: Outlook) -> NumberTable:
    """Return a row for each column, or for each spread that all may have."""
    widths = {"95% interval, ±": [one.half_width for one in found.slopes]}
    people = [math.nan if one.people is None else one.people for one in found.slopes]
    units = "in ranges of the target for a column's whole range. Those of linked columns and of long tails are longer."
    if found.slopes[0].column is not None:
        least = "more than are counted here" if math.isnan(people[0]) else f"about {people[0]:,} people"
        return NumberTable(
            "Expected of slopes, where columns are as the bounds state",
            {"spread": [one.spread for one in found.slopes], **widths},
            [f"{one.column}{FLAG * one.on_bounds}" for one in found.slopes],
            notes=[f"All are within ± {USEFUL:g} from {least} on. Intervals {units}"],
        )
    return NumberTable(
        "Expected of slopes",
        {**widths, f"people for ± {USEFUL:g}": people},
        [f"{one.spread:g}{FLAG * one.on_bounds}" for one in found.slopes],
        label="spread",
        notes=[f"Spread: standard deviation of the columns in half-ranges of their bounds; intervals {units}"],
    )


def _assumed_text(model: str, assumed: Assumed) -> str:
    """Return what the errors rest on."""
    if model == "ridge":
        return f"the features explain {assumed.population.explained:.3g} of the variance (--explained). {NOT_KNOWN}"
    return (
        f"a {_MEANS[model]} of {assumed.mean:g} (--mean), Gaussian features, and a linear predictor with a standard "
        f"deviation of {assumed.effect:g} (--effect). {NOT_KNOWN}"
    )
