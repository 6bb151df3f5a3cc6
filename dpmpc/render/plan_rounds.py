"""What `dpmpc plan` says of a model in rounds: the sums, the noise of each, what to expect, and what `fit` does."""

from __future__ import annotations

from typing import Any

from rich.console import RenderableType
from rich.table import Table as Grid

from dpmpc.estimators.round_fits import APPROXIMATION
from dpmpc.render.guarantee_prose import guarantee_text
from dpmpc.render.plan import NOT_KNOWN, TABLE_STYLE
from dpmpc.render.released import byte_fields, task_fields
from dpmpc.rounds import Assumed, LeastSquares, Outlook
from dpmpc.rounds.newton import HOPELESS

NO_INTERVALS = f"Two rounds have no intervals: {LeastSquares.no_interval}."
_MEANS = {"logistic": "share of ones", "poisson": "mean count"}


def rounds_plan_fields(found: Outlook, assumed: Assumed, *, rounds: int | str, noise_by: str) -> dict[str, Any]:
    """Return everything that the plan says."""
    last = found.sums[-1].task
    return {
        "model": found.model,
        **task_fields(last, len(last.schema) - 1, found.guarantee),
        "rounds": rounds,
        "sums": [
            {
                "statistic": one.task.statistic.name,
                "share": one.share,
                "mu": one.mu,
                "epsilon_alone": one.epsilon_alone,
                "noise_sd": one.noise_sd,
                "outer_sd": one.outer_sd,
                "curvature_sd": one.curvature_sd,
                "words": one.task.copies * one.task.width,
            }
            for one in found.sums
        ],
        "bytes": {
            "client_to_all_servers": sum(byte_fields(one.task)["client_to_all_servers"] for one in found.sums),
            "server_to_analyst": sum(byte_fields(one.task)["server_to_analyst"] for one in found.sums),
        },
        "expected": {
            "noise_error": found.noise_error,
            "sampling_error": found.sampling_error,
            "phi": found.phi,
            "most_noise_error": HOPELESS,
        },
        "learns_from": found.learns_from,
        "noise_is_small_from": found.noise_is_small_from,
        "assumed": {"mean": assumed.mean, "effect": assumed.effect, "explained": assumed.population.explained},
        "approximation": APPROXIMATION if rounds == 0 else None,
        "recommendation": {
            "fit": None if found.hopeless else f"--model {found.model} --rounds {rounds} --noise-by {noise_by}",
            "why": _why(found),
        },
    }


def rounds_plan_parts(fields: dict[str, Any], found: Outlook, assumed: Assumed) -> list[RenderableType]:
    """Return the same for a person."""
    advice = fields["recommendation"]
    chosen = "no fit" if advice["fit"] is None else f"dpmpc fit {advice['fit']}"
    return [
        _sums_grid(fields),
        _errors_grid(found),
        _assumed_text(found.model, assumed),
        *([f"Without rounds this is {APPROXIMATION}.\n"] if fields["rounds"] == 0 else []),
        f"[bold]Recommended: {chosen}[/bold]\n{advice['why']}.\n",
        guarantee_text(found.guarantee),
    ]


def _why(found: Outlook) -> str:
    clients = found.guarantee.clients
    if found.hopeless:
        return (
            f"no coefficients can be trusted from {clients:,} clients: about {found.learns_from:,} are needed at this "
            "budget; dpmpc fit would say so and print no coefficients"
        )
    if found.noise_error > found.sampling_error:
        return f"noise is the larger error; from about {found.noise_is_small_from:,} clients on sampling is"
    return "noise is the smaller error"


def _sums_grid(fields: dict[str, Any]) -> Grid:
    """Return a row for each sum: its part of the budget, and the noise in what it tells."""
    grid = Grid(title="Sums, all within one budget", **TABLE_STYLE)
    for heading in ("sum", "share of mu^2", "epsilon alone", "noise sd", "in curvature", "words"):
        grid.add_column(heading, justify="left" if heading == "sum" else "right", no_wrap=heading == "sum")
    for number, one in enumerate(fields["sums"]):
        grid.add_row(
            f"round {number}" if number else "second moments",
            f"{one['share']:.0%}",
            f"{one['epsilon_alone']:.3g}",
            f"{one['noise_sd']:.4g}",
            "" if one["curvature_sd"] is None else f"{one['curvature_sd']:.4g}",
            f"{one['words']:,}",
        )
    sent = fields["bytes"]["client_to_all_servers"]
    grid.caption = f"noise in sums over all clients, scores of whitened rows; a client sends {sent:,} bytes in all"
    return grid


def _errors_grid(found: Outlook) -> Grid:
    """Return the expected errors, and from how many clients on they are small."""
    unit = "standard deviations of the target" if found.model == "ridge" else "log odds"
    unit = "log rates" if found.model == "poisson" else unit
    grid = Grid(
        title=f"Expected error of a typical row's linear predictor, in {unit}", **TABLE_STYLE, show_header=False
    )
    grid.add_row("noise", f"{found.noise_error:.3g}")
    grid.add_row("sampling", f"{found.sampling_error:.3g}")
    if found.phi is not None:
        grid.add_row("phi, cost over the least cost", f"1 + {found.phi - 1:.2g}")
    grid.add_row("something can be learned from", f"about {found.learns_from:,} clients")
    grid.add_row("noise is the smaller error from", f"about {found.noise_is_small_from:,} clients")
    return grid


def _assumed_text(model: str, assumed: Assumed) -> str:
    """Say what the errors rest on."""
    if model == "ridge":
        return (
            f"Assumed: the features explain {assumed.population.explained:.3g} of the variance (--explained). "
            f"{NOT_KNOWN} {NO_INTERVALS}\n"
        )
    return (
        f"Assumed: a {_MEANS[model]} of {assumed.mean:g} (--mean), Gaussian features, and a linear predictor with a "
        f"standard deviation of {assumed.effect:g} (--effect). Where the start is far off, one more round is needed. "
        f"{NOT_KNOWN}\n"
    )
