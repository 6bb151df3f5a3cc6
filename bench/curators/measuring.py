"""How methods are measured on data sets: which methods there are, cells, streams, and the files of results.

Runs are seeded: a cell's stream is the substream of seed 0 whose number follows from data set, epsilon and method.
After each data set the results are written, so that a measurement that is broken off is not lost. A set whose files
are not at hand is named on the page, with what would bring it.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.charts import require_plots
from bench.curators import gradients, in_rounds, libraries, mixing, moments, names, tukey
from bench.curators.page import draw, render
from bench.curators.problem import DELTA, Fits, Problem, RegressionSet
from bench.harness import RESULTS, machine, write
from dpmpc.base.errors import InputError
from dpmpc.base.randomness import Stream
from dpmpc.models.papers.baselines.linear import optimal_ridge

EPSILONS = (0.1, 0.3, 1.0, 3.0)
SHORT_ROWS = 3000
Fit = Callable[[Problem, float, int, Stream], Fits | None]


@dataclasses.dataclass(frozen=True)
class Method:
    """How a method is run, and its place in the numbers of streams, which never changes."""

    fit: Fit
    number: int


METHODS: dict[str, Method] = {
    names.SUM: Method(moments.sum_release, 0),
    names.ROUNDS_8: Method(functools.partial(in_rounds.in_rounds, rounds=8), 10),
    names.ROUNDS_32: Method(functools.partial(in_rounds.in_rounds, rounds=32), 11),
    names.OWNERS: Method(functools.partial(in_rounds.in_rounds, rounds=32, **in_rounds.THREE_OWNERS), 12),
    names.ADASSP: Method(moments.adassp, 2),
    names.BOOSTED: Method(moments.boosted_adassp, 3),
    names.MIXING: Method(mixing.gaussian_mixing, 4),
    names.HESSIAN: Method(mixing.iterative_hessian_mixing, 5),
    names.OBJECTIVE: Method(gradients.objective_perturbation, 6),
    names.DESCENT: Method(gradients.gradient_descent, 7),
    names.TUKEY: Method(tukey.tukey, 8),
    names.THRICE: Method(mixing.three_iterations, 9),
    names.DIFFPRIVLIB: Method(libraries.diffprivlib, 13),
    names.OPENDP: Method(libraries.opendp, 14),
}
USUAL = tuple(name for name in METHODS if name not in libraries.MODULES)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A bench of this folder."""

    name: str  # of its files of results
    groups: Mapping[str, Sequence[RegressionSet]]  # the data sets, by what the page calls them together
    runs: int  # of a cell, unless the command names another number
    short: Sequence[RegressionSet]  # what the short form measures
    first_number: int = 0  # of its first set in the numbers of streams
    methods: Sequence[str] = USUAL  # what is measured, unless the command names others
    missing: Mapping[str, str] = dataclasses.field(default_factory=dict)  # what else cannot be measured, and why

    @property
    def sets(self) -> list[RegressionSet]:
        """All data sets, in the order of the page."""
        return [one for group in self.groups.values() for one in group]

    def header(self, runs: int) -> dict[str, Any]:
        """Return what the page says beside its cells."""
        return {
            "name": self.name,
            "machine": machine(),
            "delta": DELTA,
            "epsilons": list(EPSILONS),
            "runs": runs,
            "groups": {title: [one.name for one in group] for title, group in self.groups.items()},
            "missing": dict(self.missing),
            "sets": {},
        }


def run(comparison: Comparison, options: argparse.Namespace) -> None:
    """Measure and print a comparison; write its page and its plot where a folder is given."""
    runs = comparison.runs if options.runs is None else options.runs
    if runs < 2:
        raise InputError("runs", runs, "at least 2")
    if options.short:
        content = comparison.header(2)
        for one in comparison.short:
            content["sets"][one.name] = measure(one, 0, 2, comparison.methods, most=SHORT_ROWS)
        print(render(content))
        return
    content, path = comparison.header(runs), None
    if options.out is not None:
        require_plots()
        path = options.out / f"{comparison.name}.json"
        if (options.only or options.methods) and path.exists():
            kept = json.loads(path.read_text())
            content["sets"], content["missing"] = kept["sets"], kept["missing"]
    for number, one in enumerate(comparison.sets, comparison.first_number):
        if options.only and one.name not in options.only:
            continue
        content["missing"].pop(one.name, None)
        known = content["sets"].get(one.name)
        try:
            content["sets"][one.name] = measure(one, number, runs, options.methods or comparison.methods, known=known)
        except InputError as error:
            print(f"{comparison.name}: {one.name} is MISSING: {error}", file=sys.stderr, flush=True)
            content["missing"][one.name] = str(error)
        content["sets"] = {
            other.name: content["sets"][other.name] for other in comparison.sets if other.name in content["sets"]
        }
        if options.out is not None:
            write(comparison.name, content, render(content), options.out)
    print(render(content))
    if path is not None and content["sets"]:
        draw(content, path.with_suffix(".png"))


def add_options(parser: argparse.ArgumentParser, comparison: Comparison) -> None:
    """Add the options that every comparison has."""
    sets = [one.name for one in comparison.sets]
    parser.add_argument("--runs", type=int, help=f"runs of each cell (default {comparison.runs})")
    parser.add_argument("--only", nargs="+", choices=sets, help="measure these sets, keep the others' results")
    parser.add_argument("--methods", nargs="+", choices=METHODS, help="measure these only, keep the others' results")
    parser.add_argument("--short", action="store_true", help=f"{SHORT_ROWS} rows, two runs; writes nothing")
    parser.add_argument("--out", type=Path, metavar="DIR", help=f"where results go (default {RESULTS})")


def measure(
    one: RegressionSet,
    number: int,
    runs: int,
    methods: Sequence[str],
    *,
    most: int | None = None,
    known: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Measure methods at every epsilon on one data set; what is not measured is kept."""
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
    for name, method in METHODS.items():
        if name not in methods:
            if known is not None and name in known["cells"]:
                found["cells"][name] = known["cells"][name]
            continue
        cells = []
        for at, epsilon in enumerate(EPSILONS):
            began = time.process_time()
            fits = method.fit(problem, epsilon, runs, stream_of(number, at, method.number))
            cell = None if fits is None else summary(problem, fits)
            seconds = time.process_time() - began
            shown = "does not fit" if cell is None else f"{cell['median']:.4g} {cell['told']}"
            print(f"{one.name}, {name}, ε = {epsilon:g}: {shown} ({seconds:.1f} s)", file=sys.stderr, flush=True)
            cells.append(None if cell is None else {**cell, "cpu_s": round(seconds, 2)})
        found["cells"][name] = cells
    return found


def stream_of(number: int, at: int, method: int) -> Stream:
    """Return the stream of a cell; the ten first methods have the numbers that they had from the beginning."""
    tens, ones = divmod(method, 10)
    return Stream.from_seed(0).substream(100_000 * tens + 100 * number + 10 * at + ones)


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
