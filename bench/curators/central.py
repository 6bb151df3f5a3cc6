"""Our `Sum` release over three servers beside seven methods of a trusted curator, on data sets at hand.

All have the same replace-one (epsilon, delta), the same public bounds and the same rows; each peer is written from its
paper (`moments`, `mixing`, `gradients`, `tukey`), its privacy at replace-one derived in its docstring. Runs are seeded:
a cell's stream is the substream of seed 0 whose number follows from data set, epsilon and method. After each data set
the results are written, so that a measurement that is broken off is not lost; ``--only`` measures one and keeps the
others.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.charts import require_plots
from bench.curators import gradients, mixing, moments, names, tukey
from bench.curators.page import draw, render
from bench.curators.problem import DELTA, SETS, Fits, Problem
from bench.harness import RESULTS, machine, write
from dpmpc.baselines import optimal_ridge
from dpmpc.errors import InputError
from dpmpc.randomness import Stream

RUNS = 60
EPSILONS = (0.1, 0.3, 1.0, 3.0)
SHORT_ROWS = 3000
Method = Callable[[Problem, float, int, Stream], Fits | None]
METHODS: dict[str, Method] = {
    names.SUM: moments.sum_release,
    names.TWO_ROUNDS: moments.two_rounds,
    names.ADASSP: moments.adassp,
    names.BOOSTED: moments.boosted_adassp,
    names.MIXING: mixing.gaussian_mixing,
    names.HESSIAN: mixing.iterative_hessian_mixing,
    names.OBJECTIVE: gradients.objective_perturbation,
    names.DESCENT: gradients.gradient_descent,
    names.TUKEY: tukey.tukey,
    names.THRICE: mixing.three_iterations,
}


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write the page and its plot."""
    parser = argparse.ArgumentParser(prog="python -m bench central", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each cell (default %(default)s)")
    parser.add_argument("--only", choices=[one.name for one in SETS], help="measure one set, keep the others' results")
    parser.add_argument("--methods", nargs="+", choices=METHODS, help="measure these only, keep the others' results")
    parser.add_argument("--short", action="store_true", help=f"two sets, {SHORT_ROWS} rows, two runs; writes nothing")
    parser.add_argument(
        "--out", type=Path, default=RESULTS, metavar="DIR", help="where results go (default %(default)s)"
    )
    options = parser.parse_args(arguments)
    if options.runs < 2:
        raise InputError(f"runs: {options.runs} given, at least 2 expected")
    if options.short:
        content = header(2)
        content["sets"] = {one.name: measure(one.name, 2, SHORT_ROWS) for one in SETS[1:3]}
        print(render(content))
        return
    require_plots()
    content = header(options.runs)
    path = options.out / "central.json"
    if (options.only or options.methods) and path.exists():
        content["sets"] = json.loads(path.read_text())["sets"]
    for one in SETS:
        if options.only in (None, one.name):
            content["sets"][one.name] = measure(
                one.name, options.runs, methods=options.methods, known=content["sets"].get(one.name)
            )
            content["sets"] = {
                other.name: content["sets"][other.name] for other in SETS if other.name in content["sets"]
            }
            write("central", content, render(content), options.out)
    print(render(content))
    draw(content, options.out / "central.png")


def header(runs: int) -> dict[str, Any]:
    """Return what the page says beside its cells."""
    return {"machine": machine(), "delta": DELTA, "epsilons": list(EPSILONS), "runs": runs, "sets": {}}


def measure(
    name: str,
    runs: int,
    most: int | None = None,
    methods: Sequence[str] | None = None,
    known: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Measure methods at every epsilon on one data set."""
    number = [one.name for one in SETS].index(name)
    one = SETS[number]
    problem = one.problem(most)
    ridge = optimal_ridge(problem.X[:, 1:], problem.y, 1.0)
    found: dict[str, Any] = {
        "note": one.note,
        "bounds": one.constant,
        "target": [one.target, problem.schema.columns[-1].lower, problem.schema.columns[-1].upper],
        "clients": problem.clients,
        "columns": problem.columns,
        "outside": problem.outside,
        "r2": problem.r2,
        "no privacy": float(problem.excess(np.array([ridge.intercept, *ridge.weights]))),
        "cells": {},
    }
    for method_number, (method, fit) in enumerate(METHODS.items()):
        if methods is not None and method not in methods:
            if known is not None and method in known["cells"]:
                found["cells"][method] = known["cells"][method]
            continue
        cells = []
        for at, epsilon in enumerate(EPSILONS):
            began = time.process_time()
            stream = Stream.from_seed(0).substream(100 * number + 10 * at + method_number)
            fits = fit(problem, epsilon, runs, stream)
            cell = None if fits is None else summary(problem, fits)
            seconds = time.process_time() - began
            told = "does not fit" if cell is None else f"{cell['median']:.4g} {cell['told']}"
            print(f"central: {name}, {method}, ε = {epsilon:g}: {told} ({seconds:.1f} s)", file=sys.stderr, flush=True)
            cells.append(None if cell is None else {**cell, "cpu_s": round(seconds, 2)})
        found["cells"][method] = cells
    return found


def summary(problem: Problem, fits: Fits) -> dict[str, Any]:
    """Summarise a cell: median and mean of the relative excess risk, each with its standard error.

    That of the median is half the distance of the order statistics sqrt(runs)/2 places above and below it.
    """
    risks = np.sort(problem.excess(fits.theta))
    runs = len(risks)
    half = max(1, round(runs**0.5 / 2))
    lower, upper = risks[max(0, runs // 2 - half)], risks[min(runs - 1, (runs - 1) // 2 + half)]
    return {
        "median": float(np.median(risks)),
        "median_error": float(upper - lower) / 2,
        "mean": float(risks.mean()),
        "mean_error": float(risks.std(ddof=1)) / runs**0.5,
        "runs": runs,
        "failed": fits.failed,
        "told": fits.told,
    }
