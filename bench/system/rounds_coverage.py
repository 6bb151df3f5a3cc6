"""Coverage of nominal 95 % intervals of regressions in rounds, and of regressions read from mixed files.

Every run draws new people, new noise and, for mixed files, new signs, and asks how often the intervals of `inference`
hold what the population has. Sums are opened with noise of their law (`bench.secure_sketching.simulation`), those of
"real clients" by clients and servers in this process; mixed files are those of `dpmpc.owners.columns`, party by party.
Runs in which there was no interval are counted apart and have no part in a coverage. Intervals that rest on the bounds
count in the coverage of all lines; the coverage of the others stands beside it.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import re
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from scipy.stats import binom

from bench.harness import RESULTS, machine, markdown, write
from bench.system.glm import answers, delta_of
from bench.system.rounds_populations import (
    MOST,
    Law,
    Population,
    Spread,
    aim,
    clipped_aim,
    correlated,
    costs,
    even,
    gamma,
    growing,
    lognormal,
    loose,
    normal,
    one_tight,
    pair,
    pareto,
    proportional,
    rare,
    skewed,
    student,
    tight,
    uniform,
    wealth,
)
from dpmpc.base.arrays import Reals
from dpmpc.base.errors import UtilityWarning
from dpmpc.base.randomness import Stream
from dpmpc.data import Table
from dpmpc.models import LogisticRegression, PoissonRegression, RidgeRegression
from dpmpc.models.common.inference import Inference
from dpmpc.models.common.releases import Releases
from dpmpc.owners.columns import DGM, RMGM
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release import simulation
from dpmpc.release.planning import design

RUNS, LEVEL, DELTA = 300, 0.95, 1e-6
PRIVATE = "private bounds"
Key: TypeAlias = tuple[str, int, float]
_BLOCK = 50  # runs that are kept together
_LEAST, _HOLM = 0.93, 0.05
_OFTEN = 0.1  # part of the runs in which a coefficient has an interval, or its coverage is not told


@dataclasses.dataclass(frozen=True)
class Setting:
    """One population and one way to fit it."""

    name: str  # for the table
    population: Population  # who is drawn
    clients: int  # n
    epsilon: float = 1.0  # of all sums together
    # rounds, as many as the estimator takes by itself; or one release of second moments; or rounds in which every
    # client adds its own noise; or rounds within private bounds
    how: str = "rounds"
    runs: int = 1000  # at most

    def attempt(self, number: int) -> tuple[Inference, dict[str, Reals]]:
        """Fit new people once; return intervals, and what they should hold, by its name."""
        rows = self.population.sample(self.clients, np.random.default_rng([number, self.clients]))
        spec = ReleaseSpec.of(
            self.population.schema, self.clients, self.epsilon, delta_of(self.clients), simulation_seed=number
        )
        answer = answers(rows, 1, number)
        truth = {"": self.population.truth}
        if self.how == "one release":
            return RidgeRegression().fit_release(answer(design(spec))).inference(LEVEL), truth
        if self.how == "real clients":
            stream = Stream.from_seed(number)
            releases = Releases(spec, lambda task: simulation.run(task, rows, stream=stream))
        else:
            releases = Releases(spec, answer)
        fitted = self.estimator().fit_rounds(releases)
        if self.how == PRIVATE:
            truth = {"": clipped_aim(self.population, fitted.releases_[-1].schema)}
        elif self.population.wrong:
            truth = {"": aim(self.population)}
        return fitted.inference(LEVEL), truth

    def estimator(self) -> LogisticRegression | PoissonRegression | RidgeRegression:
        """Return the estimator that suits the target."""
        if self.population.model == "logistic":
            return LogisticRegression()
        return (
            PoissonRegression(most=MOST)
            if self.population.model == "poisson"
            else RidgeRegression(rounds="auto", private_bounds=self.how == PRIVATE)
        )


@dataclasses.dataclass(frozen=True)
class Mixed:
    """Parties with a column each who publish one file."""

    name: str  # for the table
    rows: int | None  # k, or None for noisy rows of every person
    # whose target is mapped to [-1, 1] by its bounds; without an intercept, as these regressions are
    population: Population
    clients: int  # n
    epsilon: float  # for the columns of a person at one party
    runs: int = 1000  # at most

    def attempt(self, number: int) -> tuple[Inference, dict[str, Reals]]:
        """Release new people's columns once; return intervals, and what they should hold."""
        rows = self.population.sample(self.clients, np.random.default_rng([number, self.clients]))
        public = self.population.schema
        parties = [Table((name,), rows[:, [place]]) for place, name in enumerate(public.names)]
        options: dict[str, Any] = {"epsilon": self.epsilon, "delta": DELTA, "bounds": public, "simulation_seed": number}
        model = DGM(**options) if self.rows is None else RMGM(**options, rows=self.rows)
        return model.fit(parties).inference(LEVEL), {"": self.population.truth}


LOOSE = Population("linear", loose, features=4, size=0.5, reach=8.0)


def grown(errors: Law) -> Population:
    """Return the people with loose bounds, whose errors grow with the lognormal feature."""
    return dataclasses.replace(LOOSE, errors=errors, spread=growing)


def steep(features: int, slope: float) -> Population:
    """Return people of whom one column, of a twentieth of its bounds, has so steep a slope in half-ranges."""
    effects = (1.5 * slope, *(0.1 * (-1) ** place for place in range(features - 1)))
    return Population("linear", one_tight, features, intercept=0.1, effects=effects, reach=1.5)


def bent(errors: Law, spread: Spread = even) -> Population:
    """Return the people with loose bounds, whose mean has a product and a square as well."""
    return dataclasses.replace(LOOSE, errors=errors, spread=spread, wrong=True)


SETTINGS: tuple[Setting | Mixed, ...] = (
    Setting("logistic, correlated features", Population("logistic", correlated, size=2.0), 20_000, runs=100),
    Setting("logistic, skewed 0/1 features", Population("logistic", skewed), 20_000, runs=100),
    Setting("logistic, the noise rules", Population("logistic", skewed, features=10), 20_000, epsilon=0.3, runs=100),
    Setting(
        "logistic, 5 % ones",
        Population("logistic", correlated, size=2.0, intercept=-3.2),
        50_000,
        epsilon=3.0,
        runs=100,
    ),
    Setting(
        "logistic, wrong model", Population("logistic", uniform, size=2.0, wrong=True), 20_000, epsilon=3.0, runs=100
    ),
    Setting(
        "logistic, real clients", Population("logistic", uniform, features=2), 5_000, 2.0, "real clients", runs=100
    ),
    Setting("Poisson", Population("poisson", uniform, intercept=0.3), 20_000),
    Setting("Poisson, little noise", Population("poisson", uniform, intercept=0.3), 50_000, epsilon=3.0),
    Setting(
        "Poisson, overdispersed",
        Population("poisson", uniform, size=0.5, intercept=0.3, overdispersed=True),
        *(50_000, 3.0),
    ),
    Setting("logistic, 3 % ones", Population("logistic", correlated, intercept=-3.8), 100_000, 3.0, runs=100),
    Setting("logistic, 3 % ones", Population("logistic", correlated, intercept=-3.8), 400_000, 3.0, runs=100),
    Setting("logistic, uniform features", Population("logistic", uniform), 400_000, 3.0, runs=100),
    Setting("linear, loose bounds", LOOSE, 3_000, 2.0),
    Setting("linear, loose bounds", LOOSE, 20_000, 2.0),
    Setting("linear, loose bounds, growing gamma errors", grown(gamma), 20_000, 2.0),
    Setting("linear, loose bounds, growing gamma errors", grown(gamma), 100_000, 2.0),
    Setting("linear, loose bounds, growing gamma errors", grown(gamma), 100_000, 0.5),
    Setting("linear, loose bounds, growing lognormal errors", grown(lognormal), 20_000, 2.0),
    Setting("linear, loose bounds, growing t errors", grown(student), 20_000, 3.0),
    Setting("linear, loose bounds, growing costs", grown(costs), 20_000, 3.0),
    Setting("linear, loose bounds, growing lognormal errors", grown(lognormal), 20_000, 8.0),
    Setting("linear, a steep column of a twentieth", steep(6, 6.0), 12_900, 2.0),
    Setting("linear, a steep column of a twentieth", steep(6, 6.0), 20_600, 2.0),
    Setting("linear, a steep column of a twentieth", steep(6, 6.0), 38_700, 2.0),
    Setting("linear, a steep column of a twentieth", steep(3, 8.0), 10_000, 1.0),
    Setting("linear, wealth", Population("linear", skewed, features=6, errors=wealth, reach=8.0), 9_300, 1.0),
    Setting("linear, wealth", Population("linear", skewed, features=6, errors=wealth, reach=8.0), 50_000, 3.0),
    Setting("linear, loose bounds", LOOSE, 1_000_000, 0.5, runs=60),
    Setting("logistic, uniform features", Population("logistic", uniform), 1_000_000, runs=60),
    Setting("Poisson", Population("poisson", uniform, intercept=0.3), 1_000_000, runs=60),
    Setting("linear, 1 % features", Population("linear", rare, features=4, errors=gamma, reach=8.0), 50_000, 2.0),
    Setting(
        "linear, 19 features",
        Population("linear", correlated, features=19, errors=lognormal, size=0.3, reach=8.0),
        *(50_000, 3.0),
    ),
    Setting("linear, bent mean", bent(normal), 20_000, 3.0),
    Setting("linear, bent mean, growing lognormal errors", bent(lognormal, growing), 20_000, 3.0),
    Setting("linear, bent mean, growing lognormal errors", bent(lognormal, growing), 100_000, 3.0),
    Setting("linear, bent mean, growing costs", bent(costs, growing), 30_000, 1.0),
    Setting("linear, Pareto feature", Population("linear", pareto, features=4, errors=gamma), 30_000, 3.0),
    Setting("linear, bent mean in a Pareto feature", Population("linear", pareto, features=4, wrong=True), 30_000, 3.0),
    Setting("linear, collinear pair", Population("linear", pair, features=6), 30_000, 3.0),
    Setting("linear, a twentieth of the bounds", Population("linear", tight, features=6, size=4.0), 60_000, 2.0),
    Setting(
        "linear, one of six a twentieth",
        Population("linear", one_tight, features=6, size=4.0, reach=8.0),
        *(20_000, 2.0),
    ),
    Setting("linear, bent mean", bent(normal), 1_000, 1.0),
    Setting(
        "linear, a twentieth of the bounds, private bounds",
        Population("linear", tight, features=6, size=4.0),
        *(60_000, 2.0, PRIVATE),
    ),
    Setting(
        "linear, one of six a twentieth, private bounds",
        Population("linear", one_tight, features=6, size=4.0, reach=8.0),
        *(20_000, 2.0, PRIVATE),
    ),
    Setting("linear, bent mean, growing costs, private bounds", bent(costs, growing), 30_000, 1.0, PRIVATE),
    Setting(
        "linear, bent mean in a Pareto feature, private bounds",
        Population("linear", pareto, features=4, wrong=True),
        *(30_000, 3.0, PRIVATE),
    ),
    Setting(
        "linear, growing gamma errors, one release",
        dataclasses.replace(grown(gamma), features=3),
        *(30_000, 3.0, "one release"),
    ),
    Setting("linear, one release", Population("linear", uniform), 20_000, how="one release"),
    Setting(
        "linear, uneven errors, one release",
        Population("linear", uniform, spread=proportional),
        *(20_000, 3.0, "one release"),
    ),
    Setting(
        "linear, uneven errors, little noise, one release",
        Population("linear", uniform, spread=proportional),
        *(20_000, 10.0, "one release"),
    ),
    Mixed("mixed file, 60 rows", 60, Population("linear", uniform, features=3, intercept=0.0), 20_000, 3.0),
    Mixed(
        "mixed file, 60 rows, uneven errors",
        60,
        Population("linear", uniform, features=3, intercept=0.0, spread=proportional),
        *(20_000, 3.0),
    ),
    Mixed("mixed file, 100 rows", 100, Population("linear", uniform, features=3, intercept=0.0), 100_000, 1.0),
    Mixed("mixed file, correlated", 40, Population("linear", correlated, features=3, intercept=0.0), 50_000, 8.0),
    Mixed("mixed file, a noisy row each", None, Population("linear", uniform, features=3, intercept=0.0), 20_000, 8.0),
    Mixed(
        "mixed file, a noisy row each, uneven errors",
        None,
        Population("linear", uniform, features=3, intercept=0.0, spread=proportional),
        *(5_000, 50.0),
    ),
)


def main(arguments: Sequence[str]) -> None:
    """Simulate, print and write the page."""
    parser = argparse.ArgumentParser(prog="python -m bench rounds_coverage", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each setting (default %(default)s)")
    parser.add_argument(
        "--only",
        metavar="TEXT",
        help="settings in whose 'NAME, N' this expression is found; others as they were measured",
    )
    parser.add_argument("--keep", type=Path, metavar="FILE", help="append runs to this file, and go on from it")
    options = parser.parse_args(arguments)
    kept = Kept(options.keep)
    before = stored() if options.only else {}
    measured = []
    for setting in SETTINGS:
        if options.only and not re.search(options.only, f"{setting.name}, {setting.clients:,}"):
            measured += before[key_of(setting)]
        else:
            measured += measure(setting, min(options.runs, setting.runs), kept)
    content = {"machine": machine(), "level": LEVEL, "delta": DELTA, "runs": options.runs, "measured": measured}
    text = render(content)
    print(text)
    if options.runs >= RUNS:
        write("rounds_coverage", content, text)


def key_of(setting: Setting | Mixed) -> Key:
    """Return what tells settings apart."""
    return setting.name, setting.clients, setting.epsilon


def stored() -> dict[Key, list[dict[str, Any]]]:
    """Return what was measured before, by setting."""
    found: dict[Key, list[dict[str, Any]]] = {}
    for entry in json.loads((RESULTS / "rounds_coverage.json").read_text())["measured"]:
        found.setdefault((entry["name"], entry["n"], entry["epsilon"]), []).append(entry)
    return found


class Kept:
    """Blocks of runs, in memory and in a file from which a measurement that was stopped goes on."""

    def __init__(self, file: Path | None):
        self._file = file
        lines = file.read_text().splitlines() if file is not None and file.exists() else []
        self._blocks: dict[tuple[Any, ...], list[dict[str, Any]]] = {
            tuple(block["key"]): block["runs"] for block in map(json.loads, lines)
        }

    def block(self, setting: Setting | Mixed, first: int, count: int) -> list[dict[str, Any]]:
        """Return runs first, first + 1, ... of a setting, made now if they are not kept."""
        key = (*key_of(setting), first, count)
        if key not in self._blocks:
            self._blocks[key] = [outcome(setting, number) for number in range(first, first + count)]
            if self._file is not None:
                with self._file.open("a") as out:
                    out.write(json.dumps({"key": key, "runs": self._blocks[key]}) + "\n")
        return self._blocks[key]


def outcome(setting: Setting | Mixed, number: int) -> dict[str, Any]:
    """Make one run: by how much estimates are off and whether intervals cover, for each truth; standard errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)
        found, truths = setting.attempt(number)
    if not found.informative:
        return {"given": False, "truths": dict.fromkeys(truths)}
    estimates = np.append(found.intercept, found.coef)
    errors = np.append(found.intercept_standard_error, found.standard_errors)
    low, high = np.vstack([found.intercept_confidence_interval, found.confidence_intervals]).T

    def listed(values: Reals) -> list[float | None]:
        return [value if there else None for value, there in zip(values.tolist(), np.isfinite(errors), strict=True)]

    return {
        "given": True,
        "truths": {
            name: {"off": listed(estimates - truth), "covers": listed((low <= truth) & (truth <= high))}
            for name, truth in truths.items()
        },
        "se": listed(errors),
        "flagged": list(found.flagged),
    }


def measure(setting: Setting | Mixed, runs: int, kept: Kept) -> list[dict[str, Any]]:
    """Return how often intervals cover, an entry for each truth."""
    made = []
    for first in range(0, runs, _BLOCK):
        made += kept.block(setting, first, min(_BLOCK, runs - first))
        print(f"rounds_coverage: {setting.name}: {len(made)} of {runs}", file=sys.stderr, flush=True)
    return [entry_of(setting, name, made) for name in made[0]["truths"]]


def entry_of(setting: Setting | Mixed, truth: str, made: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Sum the runs of a setting up; the intercept apart from the coefficients, null for those hardly ever shown."""
    given = [run for run in made if run["given"]]
    covers = np.array([run["truths"][truth]["covers"] for run in given], float)  # NaN where it is not identified
    shown = np.isfinite(covers).sum(axis=0) if given else np.zeros(1 + setting.population.features, dtype=int)
    facts = {
        "name": ", ".join(filter(None, [setting.name, truth])),
        "n": setting.clients,
        "d": setting.population.features,
        "epsilon": setting.epsilon,
        "runs": len(made),
        "shown": shown[1:].tolist(),
        "without_interval": 1 - float(shown[1:].mean()) / len(made),
    }
    enough = shown >= max(2.0, _OFTEN * len(made))
    if not enough[1:].any():
        return {**facts, "coverage": None}
    off, se = (np.array(runs, float) for runs in ([r["truths"][truth]["off"] for r in given], [r["se"] for r in given]))
    places = np.flatnonzero(enough)
    error = np.zeros(len(shown))
    error[places] = np.sqrt(np.nanmean(off[:, places] ** 2, axis=0))

    def listed(values: Reals) -> list[float | None]:
        """Return them at their places; of a mixed file nothing is estimated for the intercept of symmetric bounds."""
        found = dict(zip(places.tolist(), values.tolist(), strict=True))
        return [found.get(place) if error[place] > 0 else None for place in range(len(shown))]

    each = listed(np.nanmean(covers[:, places], axis=0))
    slopes = covers[:, [place for place in places if place]]
    flagged = np.array([run["flagged"] for run in given])[:, [place for place in places if place]]
    own = slopes[~flagged & np.isfinite(slopes)]
    runs = np.array([row.mean() for row in (row[np.isfinite(row)] for row in slopes) if len(row)])
    return {
        **facts,
        "coverage": each[1:],
        "coverage_intercept": each[0],
        "mean": float(np.nanmean(slopes)),
        "on_bounds": float(np.mean(flagged[np.isfinite(slopes)])),
        "mean_of_others": float(own.mean()) if own.size else None,
        "mean_standard_error": float(runs.std(ddof=1) / math.sqrt(len(runs))),
        "bias": listed(np.nanmean(off[:, places], axis=0) / np.maximum(error[places], 1e-300)),
        "length": listed(np.sqrt(np.nanmean(se[:, places] ** 2, axis=0)) / np.maximum(error[places], 1e-300)),
    }


def pooled(measured: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Return a row for each model in rounds: all its lines together, and which slopes are clearly below `_LEAST`.

    Clearly: the probability of so few covered ones, or fewer, passes Holm's test at 5% among the model's slopes.
    """
    rows = []
    for model in ("linear", "logistic", "Poisson"):
        entries = [one for one in measured if one["name"].startswith(model) and "one release" not in one["name"]]
        slopes = [
            (value * shown, shown)
            for one in entries
            if one["coverage"] is not None
            for value, shown in zip(one["coverage"], one["shown"], strict=True)
            if value is not None
        ]
        if not slopes:
            continue
        covered, lines = np.sum(slopes, axis=0)
        chances = np.sort([binom.cdf(round(hits), shown, _LEAST) for hits, shown in slopes])
        above = np.flatnonzero(chances * np.arange(len(chances), 0, -1) >= _HOLM)
        below = int(above[0]) if len(above) else len(chances)
        rows.append([model, str(len(entries)), str(len(slopes)), f"{lines:,.0f}", f"{covered / lines:.3f}", str(below)])
    return rows


def render(content: dict[str, Any]) -> str:
    """Return the Markdown page."""
    headings = [
        "fit",
        "n",
        "d",
        "epsilon",
        "runs",
        "mean coverage",
        "least",
        "most",
        "intercept",
        "se/error",
        "no interval",
        "on bounds",
        "others",
    ]
    rows = []
    for entry in content["measured"]:
        facts = [entry["name"], f"{entry['n']:,}", str(entry["d"]), f"{entry['epsilon']:g}", str(entry["runs"])]
        if entry["coverage"] is None:
            numbers = [""] * 5
            own = ["", ""]
        else:
            intercept = entry["coverage_intercept"]
            slopes, lengths = ([x for x in entry[key] if x is not None] for key in ("coverage", "length"))
            lengths = lengths if intercept is None else lengths[1:]
            numbers = [
                f"{entry['mean']:.3f} ± {entry['mean_standard_error']:.3f}",
                f"{min(slopes):.3f}",
                f"{max(slopes):.3f}",
                "" if intercept is None else f"{intercept:.3f}",
                f"{np.mean(lengths):.2f}",
            ]
            others = entry.get("mean_of_others")
            own = [f"{entry.get('on_bounds', 0.0):.1%}", "" if others is None else f"{others:.3f}"]
        rows.append([*facts, *numbers, f"{entry['without_interval']:.1%}", *own])

    def spread(runs: int) -> float:
        return math.sqrt(LEVEL * (1 - LEVEL) / runs)

    return "\n".join(
        [
            "# Coverage of intervals: models in rounds, and mixed files",
            "",
            f"Nominal {content['level']:.0%}, delta = {content['delta']:g}, or 0.9/n where that is less; new people "
            "and new noise in each run. Least and most are over the coefficients of the features; the standard error "
            "of the mean over coefficients stands beside it, and one coverage of exact intervals has one of "
            f"{spread(100):.3f} at 100 runs, {spread(1000):.4f} at 1000. se/error: root mean squares of standard "
            "errors and of errors, one over the other.",
            "",
            markdown(
                ["model in rounds", "settings", "slopes", "intervals", "covered", f"slopes clearly below {_LEAST}"],
                pooled(content["measured"]),
            ),
            "",
            "All intervals of a model together, flagged ones too; a slope is clearly below where Holm's test at 5% "
            "among the model's slopes finds it so.",
            "",
            markdown(headings, rows),
            "",
            "Coefficients without an interval have no part in a coverage: no interval is the part of runs and slopes "
            "where there was none, and a slope that is shown in less than a tenth of the runs has no coverage. A wrong "
            "model is a logistic one that lacks a product and a square: what its intervals should hold is what maximum "
            "likelihood tends to; a bent mean is that of a linear one, which is held to least squares of the "
            "population. On bounds: the part of intervals that print with the flag that they rest on the bounds; "
            "others is the coverage of those without it. Loose bounds: a lognormal, an exponential and two normal "
            "features, and a target within 40 deviations of the errors either way; growing errors have a deviation "
            "that grows with the lognormal feature, from 1 to 2.5. One release assumes errors whose spread is even.",
        ]
    )
