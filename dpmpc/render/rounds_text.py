"""What a person reads after a fit in rounds, and the same as JSON: several sums, one guarantee, all work of a server.

Seconds and bytes of a server are added up over the sums; its memory is the most that it held in any of them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table as Grid

from dpmpc.estimators.in_rounds import LogisticFit, PoissonFit
from dpmpc.estimators.inference import Inference
from dpmpc.estimators.ridge import RidgeFit
from dpmpc.estimators.round_fits import approximation_of
from dpmpc.estimators.summary import Summary
from dpmpc.network.meter import RunStatistics, hundredths, rounded, tenths, together
from dpmpc.networked import NetworkedRun
from dpmpc.privacy import Guarantee, epsilon_of_mu
from dpmpc.release import Release
from dpmpc.render.fit import (
    TABLE_STYLE,
    guarantee_text,
    inference_fields,
    inference_table,
    server_fields,
    servers_table,
    task_fields,
    values_table,
)
from dpmpc.render.guarantee_prose import owners_spent_text, spent_text

START = "second moments"
_MOST_LOG = 700.0  # the exponential of more is too large for a number


@dataclasses.dataclass(frozen=True)
class Seconds:
    """Wall-clock seconds of a fit in rounds, added up over the sums."""

    # of the simulated clients; from there until the parties have ended; of the analyst's set-up among them
    clients: float
    servers: float
    analyst_setup: float
    analysis: float  # what the fit took between and after the sums


@dataclasses.dataclass(frozen=True)
class RoundsRun:
    """What came of a fit in rounds among real processes."""

    releases: tuple[Release, ...]  # what was opened: second moments first, then the rounds
    guarantee: Guarantee  # of all sums together
    servers: tuple[RunStatistics, ...]  # what each server spent on all sums
    seconds: Seconds  # how long it took

    @classmethod
    def of(cls, runs: Sequence[NetworkedRun], guarantee: Guarantee, wall_s: float) -> RoundsRun:
        """Add up the runs of a fit's sums; the fit took `wall_s` seconds in all."""
        clients, servers = (math.fsum(getattr(run, name) for run in runs) for name in ("clients_s", "servers_s"))
        analyst = math.fsum(run.analyst.setup_s for run in runs)
        return cls(
            releases=tuple(run.release for run in runs),
            guarantee=guarantee,
            servers=tuple(together(spent) for spent in zip(*(run.servers for run in runs), strict=True)),
            seconds=Seconds(clients, servers, analyst, max(0.0, wall_s - clients - servers)),
        )


def release_file(number: int) -> str:
    """Return the name of the file of a sum: 0 for second moments, then the rounds."""
    return f"release-{number}.dpmpc"


def rounds_fields(
    done: RoundsRun,
    model: str,
    result: dict[str, Any],
    *,
    parameters: Mapping[str, Any],
    features: int,
    wall_s: float,
) -> dict[str, Any]:
    """Return the whole JSON object of `dpmpc fit --json` for a fit in rounds."""
    return {
        "model": model,
        "parameters": dict(parameters),
        **task_fields(done.releases[-1].task, features, done.guarantee),
        "releases": sum_fields(done.releases, done.guarantee),
        "timing": _timing(done, wall_s, hundredths),
        "result": result,
    }


def sum_fields(releases: Sequence[Release], promised: Guarantee) -> list[dict[str, Any]]:
    """Return what each sum was, its part of the budget and its noise."""
    found = []
    for number, release in enumerate(releases):
        task = release.task
        mu = float(task.guarantee.mu or 0.0)
        found.append(
            {
                "statistic": task.statistic.name,
                "words": task.copies * task.width,
                "mu": mu,
                "share": (mu / promised.mu) ** 2 if promised.mu else None,
                "epsilon_alone": epsilon_of_mu(mu, promised.delta) if mu else task.guarantee.achieved_epsilon,
                "noise_sd": math.sqrt(float(release.noise_variance[0])),
                "file": release_file(number),
            }
        )
    return found


def found_in_rounds(
    fitted: LogisticFit | PoissonFit | RidgeFit, target: str, level: float = 0.95
) -> tuple[dict[str, Any], list[RenderableType]]:
    """Return what a fit found: as the "result" of the JSON contract, and for a person."""
    found = fitted.inference(level)
    if isinstance(fitted, RidgeFit):
        return _ridge(fitted, found, target)
    ratio, learned = "odds" if isinstance(fitted, LogisticFit) else "rate", fitted.verdict_ is None
    known = learned and found.informative

    def named(values: NDArray[np.float64], *, there: bool) -> dict[str, Any] | None:
        return dict(zip(fitted.feature_names_, values.tolist(), strict=True)) if there else None

    result = {
        "target": target,
        "rounds": fitted.rounds_,
        "approximation": approximation_of(fitted),
        "noise_error": fitted.start_error_,
        "verdict": fitted.verdict_,
        "no_interval": fitted.no_interval_,
        "coefficients": named(fitted.coef_, there=learned),
        "intercept": fitted.intercept_ if learned else None,
        "confidence_level": found.level,
        "standard_errors": named(found.standard_errors, there=known),
        "confidence_intervals": named(found.confidence_intervals, there=known),
        "intercept_standard_error": found.intercept_standard_error if known else None,
        "intercept_confidence_interval": found.intercept_confidence_interval.tolist() if known else None,
        f"{ratio}_ratios": named(_exponential(fitted.coef_), there=learned),
        f"{ratio}_ratio_intervals": named(_exponential(found.confidence_intervals), there=known),
    }
    table = fitted.odds_ratios(level) if isinstance(fitted, LogisticFit) else fitted.rate_ratios(level)
    if not learned:
        return result, [f"[bold]{escape(table.notes[0])}[/bold]", "There are no coefficients."]
    rounds = "no rounds of scores" if fitted.rounds_ == 0 else f"{fitted.rounds_} rounds of scores"
    told = f"target {target}, intercept {fitted.intercept_:.5g}, {rounds}"
    return result, [values_table(table.title, table.names, dict(table.columns)), *map(escape, [told, *table.notes])]


def _ridge(fitted: RidgeFit, found: Inference, target: str) -> tuple[dict[str, Any], list[RenderableType]]:
    coefficients = dict(zip(fitted.feature_names_, fitted.coef_.tolist(), strict=True))
    why = fitted.no_interval_
    result = {
        "target": target,
        "coefficients": coefficients,
        "intercept": fitted.intercept_,
        "alpha": float(fitted.alpha_),
        "debiased": fitted.debiased_,
        "rounds": len(fitted.releases_),
        "verdict": fitted.verdict_,
        "no_interval": why,
        **inference_fields(found),
    }
    told = f"target {target}, intercept {fitted.intercept_:.5g}, penalty {fitted.alpha_:g}"
    return result, [
        values_table("Coefficients", fitted.feature_names_, {"private": list(coefficients.values())}),
        inference_table(found),
        *map(escape, [told, *(Summary.of(target, found).notes if why is None else [])]),
    ]


def _exponential(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.exp(np.minimum(values, _MOST_LOG)))


def rounds_timing(done: RoundsRun, *, wall_s: float) -> dict[str, Any]:
    """Return "timing" for the page: seconds and megabytes rounded up, as servers tell them."""
    return _timing(done, wall_s, tenths)


def rounds_parts(
    done: RoundsRun, result: Sequence[RenderableType], *, wall_s: float, owners: bool = False
) -> list[RenderableType]:
    """Return what a person reads after a fit in rounds: of one file, or of the rows of data owners."""
    spent = owners_spent_text if owners else spent_text
    seconds = f"clients {done.seconds.clients:.1f} s, servers {done.seconds.servers:.1f} s, everything {wall_s:.1f} s"
    return [
        rounds_text(done.releases),
        "",
        *result,
        "",
        _sums_table(done),
        guarantee_text(done.guarantee),
        f"{spent(done.guarantee)}.\n",
        servers_table([rounded(spent, hundredths) for spent in done.servers]),
        f"wall time: {seconds}",
    ]


def rounds_text(releases: Sequence[Release]) -> str:
    """Describe in a sentence what was released, from whom and by whom."""
    task, rounds = releases[0].task, len(releases) - 1
    words = sum(release.task.copies * release.task.width for release in releases)
    follows = (
        f", then {'one sum' if rounds == 1 else f'{rounds} sums'} of their scores at public coefficients"
        if rounds
        else ", and nothing after that"
    )
    return (
        f"{task.clients:,} clients with {len(task.schema)} columns; {task.trust.servers} servers with {task.sharing} "
        f"shares. Released: the sum of their second moments{follows} ({words} words from each client in all)"
    )


def _timing(done: RoundsRun, wall_s: float, to: Callable[[float], float]) -> dict[str, Any]:
    """Return all seconds rounded up: exact ones would tell something of the noise."""
    return {
        "per_server": [server_fields(rounded(spent, to)) for spent in done.servers],
        "clients_s": to(done.seconds.clients),
        "analyst_setup_s": to(done.seconds.analyst_setup),
        "analysis_s": to(done.seconds.analysis),
        "wall_s": to(wall_s),
    }


def _sums_table(done: RoundsRun) -> Grid:
    """Return a row for each sum: its share of the budget, what it promises alone, its noise."""
    grid = Grid(title="Sums, all within one budget", **TABLE_STYLE)
    for heading in ("sum", "share of mu^2", "epsilon alone", "noise sd", "words"):
        grid.add_column(heading, justify="left" if heading == "sum" else "right", no_wrap=heading == "sum")
    for number, fields in enumerate(sum_fields(done.releases, done.guarantee)):
        share = "" if fields["share"] is None else f"{fields['share']:.1%}"
        name = f"round {number}" if number else START
        grid.add_row(name, share, f"{fields['epsilon_alone']:.3g}", f"{fields['noise_sd']:.4g}", str(fields["words"]))
    grid.caption = "noise sd: in every entry of the sum, columns mapped to [-1, 1] and scores to length 1"
    return grid
