"""The logistic fit without rounds: how far off it is without noise, which is its bias, and with it.

Populations, errors and the simulated releases are those of `bench.system.glm`. The bias is what is left at a million
people and epsilon = 30, where noise is negligible; it is a property of the population and not of its size, so that
several populations of each kind are drawn.
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from bench.harness import machine, markdown, write
from bench.secure_sketching.simulation import exact_sums, opened
from bench.system.glm import EPSILONS, FEATURES, MOST_ROWS, POPULATIONS, delta_of, geometric, population
from dpmpc.data import Schema
from dpmpc.models.rounds.fit import fit_start
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning import design

SIZES, RUNS = (10_000, 100_000, 1_000_000), 4
DRAWN = 6  # populations of each kind, for the bias
WITHOUT_NOISE = 30.0  # epsilon


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write the two tables."""
    parser = argparse.ArgumentParser(prog="python -m bench zero_rounds", description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="ten thousand rows and five features only; writes nothing")
    short = parser.parse_args(arguments).short
    sizes, features, drawn = ((10_000,), (5,), 2) if short else (SIZES, FEATURES, DRAWN)
    cells, biases = [], []
    for kind, width in itertools.product(POPULATIONS, features):
        print(f"zero_rounds: {kind}, d = {width}", file=sys.stderr, flush=True)
        for clients in sizes:
            found = errors_of(kind, clients, width, seed=1, epsilons=EPSILONS)
            cells += [{"population": kind, "n": clients, "d": width, **one} for one in found]
        off = [
            errors_of(kind, max(sizes), width, seed=seed, epsilons=(WITHOUT_NOISE,))[0]["error"]
            for seed in range(1, drawn + 1)
        ]
        biases.append({"population": kind, "n": max(sizes), "d": width, "errors": off})
    content = {"machine": machine(), "runs": RUNS, "cells": cells, "biases": biases}
    text = render(content)
    print(text)
    if not short:
        write("zero_rounds", content, text)


def errors_of(kind: str, clients: int, width: int, *, seed: int, epsilons: Sequence[float]) -> list[dict[str, float]]:
    """Measure the fits of one population at several budgets."""
    rows = min(clients, MOST_ROWS)
    X, y = population(kind, rows, width, seed=seed)
    best = LogisticRegression(C=np.inf, tol=1e-8, max_iter=1000).fit(X, y).coef_[0]
    covariance = np.cov(X.T)
    table, schema = np.column_stack([X, 2 * y - 1]), Schema.unit([*(f"x{j}" for j in range(width)), "y"])
    found = []
    for epsilon in epsilons:
        spec = ReleaseSpec.of(schema, clients, epsilon, delta_of(clients), simulation_seed=0, sketch="sum")
        task = design(spec)
        sums = clients // rows * exact_sums(task, table)
        squares = []
        for run in range(RUNS):
            fit = fit_start(opened(task, sums, run))
            wrong = (-best if fit.verdict else fit.coefficients[1:] - best)[None]
            squares.append((wrong @ covariance @ wrong.T).item() / (best @ covariance @ best))
        found.append({"epsilon": epsilon, "error": math.sqrt(statistics.fmean(squares))})
    return found


def render(content: dict[str, Any]) -> str:
    """Return the Markdown page."""
    by_width = []
    for width in sorted({one["d"] for one in content["biases"]}):
        errors = [
            one["errors"]
            for kind in POPULATIONS
            for one in content["biases"]
            if (one["population"], one["d"]) == (kind, width)
        ]
        by_width.append(
            [str(width), *(f"{statistics.median(off):.3f} ({min(off):.3f} to {max(off):.3f})" for off in errors)]
        )
    by_size = []
    for clients in sorted({cell["n"] for cell in content["cells"]}):
        chosen = [cell for cell in content["cells"] if cell["n"] == clients]
        means = [geometric(cell["error"] for cell in chosen if cell["population"] == kind) for kind in POPULATIONS]
        by_size.append([f"{clients:,}", *(f"{error:.3f}" for error in means)])
    return "\n".join(
        [
            "# Logistic regression without rounds",
            "",
            "Error: standard deviation of the wrong part of the linear predictor over that of the right one, against "
            "the maximum likelihood of the same people; 1 where nothing could be learned. The rounds that take it away "
            "are measured by `python -m bench glm`.",
            "",
            f"Bias: the error at n = {content['biases'][0]['n']:,} and epsilon = {WITHOUT_NOISE:g}, where noise is "
            f"negligible: the median, the least and the most of {len(content['biases'][0]['errors'])} populations of "
            "each kind. More people do not lower it.",
            "",
            markdown(["d", *POPULATIONS], by_width),
            "",
            f"Bias and noise: geometric means over epsilon in .3, 1, 3 and d; {content['runs']} runs each.",
            "",
            markdown(["n", *POPULATIONS], by_size),
        ]
    )
