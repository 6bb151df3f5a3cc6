"""Regressions in rounds against the best fit of the same rows, and against one release with the same budget.

The law of what three servers open is simulated from exact integer sums (`bench.secure_sketching.simulation`);
calibration, encoding and analysis are the product's own. Populations are four: clipped Gaussian features, 0/1 features
that are one in 2 to 50 %, few cases, and features that go together (AR .9). A population of 10^6 is one of 10^5, ten
times over. The error of a logistic fit is the standard deviation of the wrong part of its linear predictor, over that
of the right one; it is 1 where nothing could be learned. Of a linear fit it is phi, cost over least cost.
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.optimize import brentq
from sklearn.linear_model import LogisticRegression

from bench.datasets.secure_sketching import POWER_BOUNDS, load_power
from bench.harness import machine, markdown, write
from bench.secure_sketching.simulation import exact_sums, opened
from dpmpc.base.arrays import Reals
from dpmpc.data import Schema
from dpmpc.linear.contributions.scores import sigmoid
from dpmpc.models import RidgeRegression
from dpmpc.models.common.linear_algebra import LinearModel, exact_gram, ridge_cost, solve_ridge
from dpmpc.models.common.releases import Releases
from dpmpc.models.rounds.fit import fit_in_rounds
from dpmpc.models.rounds.models import LeastSquares, LogisticModel
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.privacy.task import Task
from dpmpc.release.planning import design
from dpmpc.release.release import Release

EPSILONS, DELTA, FEATURES = (0.3, 1.0, 3.0), 1e-6, (5, 10, 20)
RUNS = {10_000: 4, 100_000: 2, 1_000_000: 1}
MOST_ROWS = 100_000
HOUSEHOLD_RUNS, TARGET = 3, "Sub_metering_3"


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write the two tables."""
    parser = argparse.ArgumentParser(prog="python -m bench glm", description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="ten thousand rows and five features only; writes nothing")
    short = parser.parse_args(arguments).short
    sizes, features = ((10_000,), (5,)) if short else (tuple(RUNS), FEATURES)
    cells = [cell for kind in POPULATIONS for cell in logistic_cells(kind, sizes, features)]
    content: dict[str, Any] = {"machine": machine(), "delta": DELTA, "logistic": cells, "linear": []}
    if not short:
        content["linear"] = household_cells()
    text = render(content)
    print(text)
    if not short:
        write("glm", content, text)


def gaussian(rows: int, features: int, rng: np.random.Generator) -> Reals:
    """Draw clipped Gaussian features."""
    return np.clip(rng.standard_normal((rows, features)) / 3, -1, 1)


def binary(rows: int, features: int, rng: np.random.Generator) -> Reals:
    """Draw features of two values, one of which has 2 to 50 %."""
    return np.where(rng.random((rows, features)) < np.geomspace(0.02, 0.5, features), 1.0, -1.0)


def mixed(rows: int, features: int, rng: np.random.Generator) -> Reals:
    """Draw uniform features, of which the first half are made 0/1 with 15 %."""
    drawn = rng.uniform(-1, 1, (rows, features))
    drawn[:, : features // 2] = (rng.random((rows, features // 2)) < 0.15) * 2.0 - 1
    return drawn


def correlated(rows: int, features: int, rng: np.random.Generator) -> Reals:
    """Draw clipped Gaussian features whose correlations are .9 to the distance of their places."""
    root = np.linalg.cholesky(0.9 ** np.abs(np.subtract.outer(np.arange(features), np.arange(features))))
    return np.clip(rng.standard_normal((rows, features)) @ root.T / 3, -1, 1)


Draw = Callable[[int, int, np.random.Generator], Reals]
POPULATIONS: dict[str, tuple[Draw, float]] = {  # and the share of cases
    "Gaussian": (gaussian, 0.4),
    "binary": (binary, 0.4),
    "5 % cases": (mixed, 0.05),
    "correlated": (correlated, 0.4),
}


def population(kind: str, rows: int, features: int, seed: int) -> tuple[Reals, Reals]:
    """Draw features and cases; effects are spread evenly over the principal directions."""
    draw, share = POPULATIONS[kind]
    rng = np.random.default_rng([seed, features, list(POPULATIONS).index(kind)])
    X = draw(rows, features, rng)
    eigenvalues, vectors = np.linalg.eigh(np.cov(X.T))
    effects = (vectors / np.sqrt(eigenvalues)) @ vectors.T @ rng.standard_normal(features) / math.sqrt(features)
    eta = (X - X.mean(axis=0)) @ effects
    intercept = brentq(lambda a: float(sigmoid(a + eta).mean()) - share, -20, 20)
    return X, (rng.random(rows) < sigmoid(intercept + eta)).astype(float)


def logistic_cells(kind: str, sizes: Sequence[int], features: Sequence[int]) -> list[dict[str, Any]]:
    """Measure the logistic fits of one population: a cell is a size, a number of features and an epsilon."""
    cells = []
    for clients, width in itertools.product(sizes, features):
        rows = min(clients, MOST_ROWS)
        X, y = population(kind, rows, width, seed=1)
        best = LogisticRegression(C=np.inf, tol=1e-8, max_iter=1000).fit(X, y).coef_[0]
        covariance = np.cov(X.T)
        table, schema = np.column_stack([X, 2 * y - 1]), Schema.unit([*(f"x{j}" for j in range(width)), "y"])
        for epsilon in EPSILONS:
            print(f"glm: {kind}, n = {clients:,}, d = {width}, epsilon = {epsilon:g}", file=sys.stderr, flush=True)
            for intervals in (True, False):
                errors = []
                for run in range(RUNS[clients]):
                    spec = ReleaseSpec.of(schema, clients, epsilon, delta_of(clients), simulation_seed=run)
                    releases = Releases(spec, answers(table, clients // rows, run))
                    fit = fit_in_rounds(LogisticModel(), releases, intervals=intervals)
                    wrong = (-best if fit.verdict else fit.coefficients[1:] - best)[None]
                    errors.append(math.sqrt((wrong @ covariance @ wrong.T).item() / (best @ covariance @ best)))
                facts = {"population": kind, "n": clients, "d": width, "epsilon": epsilon, "intervals": intervals}
                cells.append({**facts, "error": math.sqrt(statistics.fmean(e**2 for e in errors))})
    return cells


def delta_of(clients: int) -> float:
    """Return delta, which has to be below 1/n."""
    return min(DELTA, 0.9 / clients)


def answers(table: Reals, copies: int, seed: int) -> Callable[[Task], Release]:
    """Return what opens releases of a table that is repeated so many times; each with noise of its own."""
    asked = itertools.count(1000 * seed)

    def answer(task: Task) -> Release:
        return opened(task, copies * exact_sums(task, table), next(asked))

    return answer


def household_cells() -> list[dict[str, Any]]:
    """Measure linear fits of the household set, in one release and in rounds with the same budget."""
    names = [*(name for name in POWER_BOUNDS.names if name != TARGET), TARGET]
    table, schema = load_power().select(names), POWER_BOUNDS.select(names)
    rows, normalised = table.values, schema.normalise(table.values)
    X, y = normalised[:, :-1], normalised[:, -1]
    best = ridge_cost(solve_ridge(exact_gram(normalised), X.shape[1], 0.0), X, y, 0.0)
    cells = []
    for epsilon in EPSILONS:
        factors: dict[str, list[float]] = {"one release": [], "rounds": []}
        for run in range(HOUSEHOLD_RUNS):
            print(f"glm: household, epsilon = {epsilon:g}, run {run + 1}", file=sys.stderr, flush=True)
            spec = ReleaseSpec.of(schema, len(rows), epsilon, delta_of(len(rows)), simulation_seed=run)
            answer = answers(rows, 1, run)
            single = RidgeRegression(0.0).fit_release(answer(design(spec))).model_
            fit = fit_in_rounds(LeastSquares(), Releases(spec, answer))
            double = LinearModel(fit.coefficients[1:], float(fit.coefficients[0]))
            for name, model in (("one release", single), ("rounds", double)):
                factors[name].append(ridge_cost(model, X, y, 0.0) / best)
        cells.append({"epsilon": epsilon, **{name: statistics.median(found) for name, found in factors.items()}})
    return cells


def render(content: dict[str, Any]) -> str:
    """Return the Markdown page."""
    cells = content["logistic"]
    rows = []
    for clients, intervals in itertools.product(sorted({cell["n"] for cell in cells}), (True, False)):
        chosen = [cell for cell in cells if (cell["n"], cell["intervals"]) == (clients, intervals)]
        by_kind = [geometric(cell["error"] for cell in chosen if cell["population"] == kind) for kind in POPULATIONS]
        errors = [*by_kind, geometric(cell["error"] for cell in chosen)]
        budget = "half of it for intervals" if intervals else "all for the prediction"
        rows.append([f"{clients:,}", budget, *(f"{error:.4f}" for error in errors), str(len(chosen))])
    linear = [
        [f"{cell['epsilon']:g}", f"{cell['one release']:.5f}", f"{cell['rounds']:.5f}"] for cell in content["linear"]
    ]
    lines = [
        "# Regressions in rounds",
        "",
        "Logistic: error relative to the maximum likelihood fit, geometric mean over epsilon in .3, 1, 3 and "
        f"d in 5, 10, 20; delta = {content['delta']:g}, or .9/n where that is less; replace-one, rounds='auto'.",
        "",
        markdown(["n", "budget", *POPULATIONS, "all", "cells"], rows),
    ]
    if linear:
        lines += [
            "",
            f"Linear: the household set, target {TARGET}, median phi of {HOUSEHOLD_RUNS} runs, same total budget.",
            "",
            markdown(["epsilon", "one release", "rounds"], linear),
        ]
    return "\n".join(lines)


def geometric(values: Any) -> float:
    """Return the geometric mean."""
    return math.exp(statistics.fmean(math.log(value) for value in values))
