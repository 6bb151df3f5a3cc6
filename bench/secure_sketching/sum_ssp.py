"""Sufficient statistics perturbation without a trusted curator: the `Sum` release against central SSP.

Clients send noisy shares of their second moments to three server processes; the opened sum is what a trusted curator
would have released. Over repeated runs the approximation factor phi of the two has to agree within the noise of the
comparison, at the same (epsilon, delta), neighbouring relation and public bounds. The best sketch and the
predictor that ignores the features stand beside them.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Sequence

from bench.harness import machine, markdown, write
from dpmpc.base.arrays import Reals
from dpmpc.data.demo import DEMO_BOUNDS, DEMO_RADIUS, demo_population
from dpmpc.models import RidgeRegression
from dpmpc.models.common.linear_algebra import LinearModel, ridge_cost
from dpmpc.models.papers.baselines import SSP
from dpmpc.models.papers.baselines.linear import optimal_ridge, trivial_predictor
from dpmpc.parties.networked import run
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning import design

CLIENTS, EPSILON, DELTA, ALPHA, RUNS = 100_000, 1.0, 1e-6, 1.0, 50


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write the comparison."""
    parser = argparse.ArgumentParser(prog="python -m bench sum_ssp", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each (default %(default)s)")
    runs = parser.parse_args(arguments).runs
    table = demo_population(CLIENTS).table
    Z = DEMO_BOUNDS.normalise(table.values)
    X, y = Z[:, :-1], Z[:, -1]
    least = ridge_cost(optimal_ridge(X, y, ALPHA), X, y, ALPHA)

    def phi(model: LinearModel) -> float:
        return ridge_cost(model, X, y, ALPHA) / least

    factors: dict[str, list[float]] = {"sum over three servers": [], "central SSP": [], "sketch over three servers": []}
    for number in range(runs):
        print(f"sum_ssp: run {number + 1} of {runs}", file=sys.stderr)
        factors["sum over three servers"].append(phi(_released(table.values, "sum", None)))
        factors["sketch over three servers"].append(phi(_released(table.values, "countsketch", DEMO_RADIUS)))
        factors["central SSP"].append(phi(SSP(ALPHA, EPSILON, DELTA).fit(X, y).model_))
    ours, theirs = factors["sum over three servers"], factors["central SSP"]
    content = {
        "machine": machine(),
        "clients": CLIENTS,
        "epsilon": EPSILON,
        "delta": DELTA,
        "alpha": ALPHA,
        "runs": runs,
        "phi": factors,
        "trivial": phi(trivial_predictor(X.shape[1], y)),
        "difference_in_standard_errors": difference(ours, theirs),
    }
    text = render(content)
    print(text)
    if runs >= RUNS:
        write("sum_ssp", content, text)


def _released(rows: Reals, sketch: str, radius: float | None) -> LinearModel:
    """Fit what three networked servers release."""
    task = design(ReleaseSpec.of(DEMO_BOUNDS, len(rows), EPSILON, DELTA, sketch=sketch, radius=radius))
    return RidgeRegression(ALPHA).fit_release(run(task, rows).release).model_


def difference(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the difference of two means, in standard errors of the difference."""
    error = math.sqrt(statistics.variance(first) / len(first) + statistics.variance(second) / len(second))
    return (statistics.fmean(first) - statistics.fmean(second)) / error


def render(content: dict[str, object]) -> str:
    """Return the Markdown page."""
    factors = content["phi"]
    assert isinstance(factors, dict)
    rows = [
        [name, f"{statistics.fmean(values):.6f}", f"{statistics.stdev(values) / math.sqrt(len(values)):.6f}"]
        for name, values in factors.items()
    ]
    rows.append(["trivial predictor", f"{content['trivial']:.3f}", ""])
    return "\n".join(
        [
            "# Sufficient statistics perturbation without a trusted curator",
            "",
            f"Generated population of {content['clients']:,} clients, five features, epsilon = {content['epsilon']:g}, "
            f"delta = {content['delta']:g}, {content['runs']} runs; phi is cost over optimal cost.",
            "",
            markdown(["release", "mean phi", "standard error"], rows),
            "",
            f"Sum minus central: {content['difference_in_standard_errors']:.2f} standard errors of the difference.",
        ]
    )
