"""The logistic fit without rounds: how far off it is without noise, which is its bias, and with it.

Populations, errors and the simulated releases are those of `bench.system.glm`. The bias is what is left at a million
people and epsilon = 30, where noise is negligible; it is a property of the population and not of its size.
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from bench.harness import machine, markdown, write
from bench.secure_sketching.simulation import exact_sums, opened
from bench.system.glm import EPSILONS, FEATURES, MOST_ROWS, POPULATIONS, delta_of, geometric, population
from dpmpc.bounds import Schema
from dpmpc.planning import ReleaseSpec, design
from dpmpc.rounds import LogisticModel, fit_start

SIZES, RUNS = (10_000, 100_000, 1_000_000), 4
WITHOUT_NOISE = 30.0  # epsilon


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write the two tables."""
    parser = argparse.ArgumentParser(prog="python -m bench zero_rounds", description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="ten thousand rows and five features only; writes nothing")
    short = parser.parse_args(arguments).short
    sizes, features = ((10_000,), (5,)) if short else (SIZES, FEATURES)
    cells = [cell for kind in POPULATIONS for cell in cells_of(kind, sizes, features)]
    content = {"machine": machine(), "runs": RUNS, "cells": cells}
    text = render(content)
    print(text)
    if not short:
        write("zero_rounds", content, text)


def cells_of(kind: str, sizes: Sequence[int], features: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Measure the fits of one population: a cell is a size, a number of features and an epsilon."""
    for clients, width in itertools.product(sizes, features):
        print(f"zero_rounds: {kind}, n = {clients:,}, d = {width}", file=sys.stderr, flush=True)
        rows = min(clients, MOST_ROWS)
        X, y = population(kind, rows, width, seed=1)
        best = LogisticRegression(C=np.inf, tol=1e-8, max_iter=1000).fit(X, y).coef_[0]
        covariance = np.cov(X.T)
        table, schema = np.column_stack([X, 2 * y - 1]), Schema.unit([*(f"x{j}" for j in range(width)), "y"])
        for epsilon in (*EPSILONS, *((WITHOUT_NOISE,) if clients == max(sizes) else ())):
            spec = ReleaseSpec.of(schema, clients, epsilon, delta_of(clients), simulation_seed=0, sketch="sum")
            task = design(spec)
            sums = clients // rows * exact_sums(task, table)
            errors = []
            for seed in range(RUNS):
                fit = fit_start(LogisticModel(), opened(task, sums, seed))
                wrong = (-best if fit.verdict else fit.coefficients[1:] - best)[None]
                errors.append((wrong @ covariance @ wrong.T).item() / (best @ covariance @ best))
            error = math.sqrt(statistics.fmean(errors))
            yield {"population": kind, "n": clients, "d": width, "epsilon": epsilon, "error": error}


def render(content: dict[str, Any]) -> str:
    """Return the Markdown page."""
    cells = content["cells"]
    biases = [cell for cell in cells if cell["epsilon"] == WITHOUT_NOISE]
    by_width = [
        [
            str(width),
            *(
                f"{one['error']:.3f}"
                for kind in POPULATIONS
                for one in biases
                if (one["population"], one["d"]) == (kind, width)
            ),
        ]
        for width in sorted({cell["d"] for cell in biases})
    ]
    noisy = [cell for cell in cells if cell["epsilon"] != WITHOUT_NOISE]
    by_size = []
    for clients in sorted({cell["n"] for cell in noisy}):
        chosen = [cell for cell in noisy if cell["n"] == clients]
        errors = [geometric(cell["error"] for cell in chosen if cell["population"] == kind) for kind in POPULATIONS]
        by_size.append([f"{clients:,}", *(f"{error:.3f}" for error in errors)])
    return "\n".join(
        [
            "# Logistic regression without rounds",
            "",
            "Error: standard deviation of the wrong part of the linear predictor over that of the right one, against "
            "the maximum likelihood of the same people; 1 where nothing could be learned. The rounds that take it away "
            "are on the page of [regressions in rounds](glm.md).",
            "",
            f"Bias: the error at n = {max(cell['n'] for cell in cells):,} and epsilon = {WITHOUT_NOISE:g}, where noise "
            "is negligible. More people do not lower it.",
            "",
            markdown(["d", *POPULATIONS], by_width),
            "",
            f"Bias and noise: geometric means over epsilon in .3, 1, 3 and d; {content['runs']} runs each.",
            "",
            markdown(["n", *POPULATIONS], by_size),
        ]
    )
