"""Ridge penalties chosen from a noisy sum: lifting, which is the default, the average over priors, and the SURE rule.

Loss is phi, cost over least cost without a penalty, on whole data sets. The law of what three servers open is simulated
from exact integer sums (`bench.secure_sketching.simulation`). The SURE rule, `alpha="auto"` until version 0.2, takes
the penalty with the least unbiased estimate of the risk c^T G c; it is kept here for the comparison.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bench.datasets import data_release as published
from bench.datasets.secure_sketching import POWER_BOUNDS, load_power
from bench.harness import machine, markdown, write
from bench.secure_sketching.simulation import exact_sums, opened
from dpmpc.base.arrays import Reals
from dpmpc.base.errors import UtilityWarning
from dpmpc.data import Schema, Table
from dpmpc.models import RidgeRegression
from dpmpc.models.common.linear_algebra import LinearModel, exact_gram, solve_ridge
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning import design
from dpmpc.release.release import Release

EPSILONS, DELTA, RUNS = (0.3, 1.0, 3.0), 1e-6, 30
LIFTING, SURE, AVERAGED = "lifting", "SURE", "averaged"
_CANDIDATES = np.concatenate([[0.0], np.geomspace(1e-5, 1e2, 57)])  # in units of the features' mean squared norm
_MARGIN = 0.5  # of the usual lifting, for the least candidate


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write the table."""
    parser = argparse.ArgumentParser(prog="python -m bench penalties", description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="the smallest data set, three runs; writes nothing")
    short = parser.parse_args(arguments).short
    names, runs = (("insurance",), 3) if short else (tuple(DATA), RUNS)
    cells = [cell for name in names for cell in cells_of(name, runs)]
    content = {"machine": machine(), "delta": DELTA, "runs": runs, "cells": cells}
    text = render(content)
    print(text)
    if not short:
        write("penalties", content, text)


def _chosen(
    load: Callable[[], Table], bounds: Schema, target: str, features: int | None = None
) -> tuple[Table, Schema]:
    names = [*(name for name in bounds.names if name != target)][:features]
    return load().select([*names, target]), bounds.select([*names, target])


DATA: dict[str, Callable[[], tuple[Table, Schema]]] = {
    "household, sub-metering 3": lambda: _chosen(load_power, POWER_BOUNDS, "Sub_metering_3"),
    "household, active power": lambda: _chosen(load_power, POWER_BOUNDS, "Global_active_power"),
    "bike": lambda: _chosen(published.load_bike, published.BIKE_BOUNDS, published.BIKE_TARGET),
    "superconduct, 20 features": lambda: _chosen(
        published.load_superconduct, published.SUPERCONDUCT_BOUNDS, published.SUPERCONDUCT_TARGET, 20
    ),
    "superconduct": lambda: _chosen(
        published.load_superconduct, published.SUPERCONDUCT_BOUNDS, published.SUPERCONDUCT_TARGET
    ),
    "sgemm": lambda: _chosen(published.load_sgemm, published.SGEMM_BOUNDS, published.SGEMM_TARGET),
    "insurance": lambda: _chosen(published.load_insurance, published.INSURANCE_BOUNDS, published.INSURANCE_TARGET),
}


def cells_of(name: str, runs: int) -> list[dict[str, Any]]:
    """Measure one data set: a cell is an epsilon and a rule."""
    table, schema = DATA[name]()
    rows, target, cells = table.values, len(schema) - 1, []
    exact = exact_gram(schema.normalise(rows))
    least = _cost(exact, solve_ridge(exact, target, 0.0))
    for epsilon in EPSILONS:
        print(f"penalties: {name}, epsilon = {epsilon:g}", file=sys.stderr, flush=True)
        spec = ReleaseSpec.of(schema, len(rows), epsilon, min(DELTA, 0.9 / len(rows)), simulation_seed=0, sketch="sum")
        task = design(spec)
        sums = exact_sums(task, rows)
        found: dict[str, list[float]] = {LIFTING: [], SURE: [], AVERAGED: []}
        for seed in range(runs):
            release = opened(task, sums, seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UtilityWarning)  # the table says how useful they are
                fits = {
                    LIFTING: RidgeRegression(1.0).fit_release(release).model_,
                    SURE: sure(release),
                    AVERAGED: RidgeRegression("auto").fit_release(release).model_,
                }
            for rule, model in fits.items():
                found[rule].append(_cost(exact, model) / least)
        for rule, factors in found.items():
            spread = {
                "median": statistics.median(factors),
                "mean": statistics.fmean(factors),
                "90 %": float(np.quantile(factors, 0.9)),
            }
            cells.append({"data": name, "n": len(rows), "d": target, "epsilon": epsilon, "rule": rule, **spread})
    return cells


def sure(release: Release) -> LinearModel:
    """Fit with the penalty of the least c^T M c - E[c^T N c], which Stein's lemma gives."""
    gram, target = release.gram(), len(release.columns) - 1
    lowest = gram.smallest_eigenvalue(target, fit_intercept=True)
    scale = max(float(np.diag(gram.matrix)[1:-1].mean()), 1.0)
    candidates = max(0.0, _MARGIN * gram.fluctuation - lowest) + scale * _CANDIDATES
    variance, used = float(release.noise_variance[0]), slice(0, target + 1)

    def risk(alpha: float) -> float:
        model = solve_ridge(gram.matrix, target, alpha)
        c = np.array([-model.intercept, *-model.weights, 1.0])
        penalty = np.diag([0.0, *[alpha] * target])
        inverse, theta = np.linalg.inv(gram.matrix[used, used] + penalty), c[used]
        follows = np.trace(inverse) * (c @ c) + theta @ inverse @ theta - 2 * inverse[0, 0] * c[0] ** 2
        return float(c @ gram.matrix @ c + variance * follows)

    return solve_ridge(gram.matrix, target, min(candidates, key=risk))


def _cost(exact: Reals, model: LinearModel) -> float:
    """Return ||X w + b - y||^2 of a model of the last column."""
    c = np.array([model.intercept, *model.weights, -1.0])
    return float(c @ exact @ c)


def render(content: dict[str, Any]) -> str:
    """Return the Markdown page."""
    cells, rules = content["cells"], (LIFTING, SURE, AVERAGED)
    by_place: dict[tuple[str, float], dict[str, dict[str, Any]]] = {}
    for cell in cells:
        by_place.setdefault((cell["data"], cell["epsilon"]), {})[cell["rule"]] = cell
    rows = []
    for (name, epsilon), found in by_place.items():
        shown = [" / ".join(f"{found[rule][of]:.3f}" for of in ("median", "mean", "90 %")) for rule in rules]
        rows.append([f"{name}, d = {found[LIFTING]['d']}", f"{epsilon:g}", *shown])
    means = [[rule, *(f"{_geometric(cells, rule, of):.3f}" for of in ("median", "mean", "90 %"))] for rule in rules]
    wins = {
        rule: sum(found[rule]["mean"] < found[LIFTING]["mean"] for found in by_place.values()) for rule in rules[1:]
    }
    return "\n".join(
        [
            "# Penalties of a ridge regression from a noisy sum",
            "",
            "phi, cost over least cost without a penalty: median / mean / 90 % quantile of "
            f"{content['runs']} releases; delta = {content['delta']:g}, or .9/n where that is less; replace-one, noise "
            'by clients. `lifting` is the default, `alpha=1`; `averaged` is `alpha="auto"`; `SURE` is what that was '
            "until version 0.2.",
            "",
            markdown(["data", "epsilon", *rules], rows),
            "",
            "Geometric mean of phi - 1 over all rows but those of sgemm, where all rules agree:",
            "",
            markdown(["", "of the medians", "of the means", "of the 90 % quantiles"], means),
            "",
            f"Of {len(by_place)} rows the mean is below that of lifting in {wins[AVERAGED]} with the average and in "
            f"{wins[SURE]} with SURE: neither is better everywhere.",
        ]
    )


def _geometric(cells: Sequence[dict[str, Any]], rule: str, of: str) -> float:
    """Return the geometric mean of phi - 1."""
    chosen = [cell for cell in cells if cell["rule"] == rule and cell["data"] != "sgemm"]
    return math.exp(statistics.fmean(math.log(max(cell[of] - 1, 1e-9)) for cell in chosen))
