"""What `dpmpc plan` says of a model in rounds: the sums, the noise of each, what to expect, and what `fit` does."""

from __future__ import annotations

from typing import Any

from rich.console import RenderableType
from rich.table import Table

from dpmpc.estimators.round_fits import APPROXIMATION
from dpmpc.render.grids import facts_grid, grid
from dpmpc.render.guarantee_prose import guarantee_text
from dpmpc.render.plan import NOT_KNOWN
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


def _sums_grid(fields: dict[str, Any]) -> Table:
    """Return a row for each sum: its part of the budget, and the noise in what it tells."""
    rows = (
        (
            f"round {number}" if number else "second moments",
            f"{one['share']:.0%}",
            f"{one['epsilon_alone']:.3g}",
            f"{one['noise_sd']:.4g}",
            "" if one["curvature_sd"] is None else f"{one['curvature_sd']:.4g}",
            f"{one['words']:,}",
        )
        for number, one in enumerate(fields["sums"])
    )
    headings = ("sum", "share of mu^2", "epsilon alone", "noise sd", "in curvature", "words")
    sent = fields["bytes"]["client_to_all_servers"]
    caption = f"noise in sums over all clients, scores of whitened rows; a client sends {sent:,} bytes in all"
    sums = grid("Sums, all within one budget", headings, rows, caption=caption)
    sums.columns[0].no_wrap = True
    return sums


def _errors_grid(found: Outlook) -> Table:
    """Return the expected errors, and from how many clients on they are small."""
    unit = "standard deviations of the target" if found.model == "ridge" else "log odds"
    unit = "log rates" if found.model == "poisson" else unit
    facts = {"noise": f"{found.noise_error:.3g}", "sampling": f"{found.sampling_error:.3g}"}
    if found.phi is not None:
        facts["phi, cost over the least cost"] = f"1 + {found.phi - 1:.2g}"
    facts["something can be learned from"] = f"about {found.learns_from:,} clients"
    facts["noise is the smaller error from"] = f"about {found.noise_is_small_from:,} clients"
    return facts_grid(f"Expected error of a typical row's linear predictor, in {unit}", facts)


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
