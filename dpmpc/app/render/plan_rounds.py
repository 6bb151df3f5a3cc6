"""What `dpmpc plan` says of a model in rounds: the sums, the noise of each, what to expect, and what `fit` does."""

from __future__ import annotations

import dataclasses
from typing import Any

from rich.console import RenderableType
from rich.table import Table

from dpmpc.app.render.facts import byte_fields, task_fields
from dpmpc.app.render.grids import grid
from dpmpc.app.render.guarantee_prose import guarantee_text
from dpmpc.app.render.plan import NOT_KNOWN
from dpmpc.app.render.readings import reading_of
from dpmpc.linear.contributions.cells import CellCounts
from dpmpc.linear.contributions.clipped_scores import ClippedScores
from dpmpc.models.common.inference import FLAG
from dpmpc.models.regression.round_fits import APPROXIMATION
from dpmpc.models.rounds.forecast import USEFUL
from dpmpc.models.rounds.outlook import Assumed, Expected, Outlook
from dpmpc.release.results.number_tables import finite_or_none

SECONDS_A_START = 1.5  # to start servers for one sum on one machine, and end them
SECONDS_A_WORD = 1.2e-7  # to make a number that a client sends, share it, and add it up, on one core
_MEANS = {"logistic": "share of ones", "poisson": "mean count"}


def rounds_plan_fields(found: Outlook, assumed: Assumed, *, noise_by: str) -> dict[str, Any]:
    """Return everything that the plan says."""
    last = found.sums[-1].task
    return {
        "model": found.model,
        **task_fields(last, len(last.schema) - 1, found.guarantee),
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
            "client_to_all_servers": sum(byte_fields(one.task)["client_to_all_servers"] for one in found.sums),
            "server_to_analyst": sum(byte_fields(one.task)["server_to_analyst"] for one in found.sums),
        },
        "expected": [_expected_fields(found, one) for one in found.expected],
        "learns_from": found.learns_from,
        "slopes": [dataclasses.asdict(one) for one in found.slopes],
        "assumed": {"mean": assumed.mean, "effect": assumed.effect, "explained": assumed.population.explained},
        "approximation": None if found.rounds else APPROXIMATION,
        "recommendation": {"fit": None if found.hopeless else _command(found, noise_by), "why": _why(found)},
    }


def rounds_plan_parts(fields: dict[str, Any], found: Outlook, assumed: Assumed) -> list[RenderableType]:
    """Return the same for a person."""
    advice = fields["recommendation"]
    chosen = "no fit" if advice["fit"] is None else f"dpmpc fit {advice['fit']}"
    return [
        _sums_grid(found, fields["bytes"]["client_to_all_servers"]),
        _expected_grid(fields["expected"], found),
        *([_slopes_grid(found)] if found.slopes else []),
        _assumed_text(found.model, assumed),
        *([] if found.rounds else [f"Without rounds this is {APPROXIMATION}.\n"]),
        f"[bold]Recommended: {chosen}[/bold]\n{advice['why']}.\n",
        guarantee_text(found.guarantee),
    ]


def _expected_fields(found: Outlook, one: Expected) -> dict[str, Any]:
    """Return what to expect of a number of rounds, and what they cost: a steering round costs the same in all."""
    steering = [each for each in found.sums if each.task.statistic.name == ClippedScores.name]
    others = [each for each in found.sums if each not in steering]
    tasks = [each.task for each in (*others, *steering[:1] * one.rounds)]
    sent = sum(byte_fields(task)["client_to_all_servers"] for task in tasks)
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
        "client_bytes": sent,
        "seconds": work + SECONDS_A_START * len(tasks),
        "seconds_in_process": work,
    }


def _command(found: Outlook, noise_by: str) -> str:
    only = "" if found.intervals or not found.rounds else " --predict-only"
    only += " --private-bounds" if found.sums[0].task.statistic.name == CellCounts.name else ""
    return f"--model {found.model} --rounds {found.rounds}{only} --noise-by {noise_by}"


def _why(found: Outlook) -> str:
    """Say what the recommendation rests on."""
    clients, planned = found.guarantee.clients, found.planned
    if found.hopeless:
        needed = "more than are counted here" if found.learns_from is None else f"about {found.learns_from:,}"
        return (
            f"no coefficients can be trusted from {clients:,} clients: {needed} are needed at this budget; dpmpc fit "
            "would say so and print no coefficients"
        )
    excess = f"predictions are expected to miss {planned.excess:.2g} of the target's variance beyond the best fit"
    if planned.shown is None:
        return excess
    return f"{excess}; {'intervals will be shown' if planned.shown else 'no intervals are expected to be shown'}"


def _sums_grid(found: Outlook, sent: int) -> Table:
    """Return a row for each kind of sum: its part of the budget, and the noise in each of its numbers."""
    rows = []
    for one in dict.fromkeys(found.sums):
        times = found.sums.count(one)
        rows.append(
            (
                f"{reading_of(one.task.statistic).in_rounds}{f' x {times}' if times > 1 else ''}",
                f"{one.share:.2%}",
                f"{one.epsilon_alone:.3g}",
                f"{one.noise_sd:.4g}",
                f"{one.task.copies * one.task.width:,}",
            )
        )
    headings = ("sum", "share of mu^2", "epsilon alone", "noise sd", "words")
    caption = f"noise in sums over all clients, scores clipped to length 1; a client sends {sent:,} bytes in all"
    sums_grid = grid("Sums, all within one budget", headings, rows, caption=caption)
    sums_grid.columns[0].no_wrap = True
    return sums_grid


def _expected_grid(expected: list[dict[str, Any]], found: Outlook) -> Table:
    """Return a row for each number of rounds."""
    rows = []
    for one in expected:
        shown = "not wanted" if one["intervals_shown"] is None else "none"
        if one["standard_error"] is not None:
            shown = f"± {one['standard_error']:.2g}"
        rows.append(
            (
                f"{one['rounds']}{' (planned)' if one['rounds'] == found.rounds else ''}",
                f"{one['excess']:.2g}" if one["learned"] else "nothing learned",
                *("" if one[name] is None else f"{one[name]:.2g}" for name in ("noise_part", "clip")),
                shown,
                f"{one['client_bytes']:,}",
                f"{one['seconds_in_process']:.1g} / {one['seconds']:.0f}",
            )
        )
    headings = ("rounds", "excess error", "noise's part", "clip", "intervals", "client sends", "seconds")
    caption = (
        "excess error in parts of the target's variance, noise's part of what features may explain; clip in units of "
        "residuals; intervals: standard error of a slope per standard deviation of its feature; seconds, about, in one "
        "process / where servers are started on one machine for each sum"
    )
    return grid("Expected of made-up people like those assumed below", headings, rows, caption=caption)


def _slopes_grid(found: Outlook) -> Table:
    """Return a row for each spread of columns."""
    rows = [
        (
            f"{one.spread:g}",
            f"± {one.half_width:.2g}{FLAG * one.on_bounds}",
            "unknown" if one.people is None else f"{one.people:,}",
        )
        for one in found.slopes
    ]
    headings = ("spread", "95% interval", f"people for ± {USEFUL:g}")
    caption = (
        "spread: standard deviation of the columns in half-ranges of their bounds; intervals in ranges of the target "
        "for a column's whole range. Those of columns that are linked, or have long tails, are longer"
    )
    return grid("Expected of slopes", headings, rows, caption=caption)


def _assumed_text(model: str, assumed: Assumed) -> str:
    """Say what the errors rest on."""
    if model == "ridge":
        part = assumed.population.explained
        return f"Assumed: the features explain {part:.3g} of the variance (--explained). {NOT_KNOWN}\n"
    return (
        f"Assumed: a {_MEANS[model]} of {assumed.mean:g} (--mean), Gaussian features, and a linear predictor with a "
        f"standard deviation of {assumed.effect:g} (--effect). {NOT_KNOWN}\n"
    )
