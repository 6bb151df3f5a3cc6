"""Coverage of nominal 95 % intervals of regressions in rounds, and of regressions read from mixed files.

Every run draws new people, new noise and, for mixed files, new signs, and asks how often the intervals of `inference`
hold what the population has. Sums are opened with noise of their law (`bench.secure_sketching.simulation`), those of
"real clients" by clients and servers in this process; mixed files are those of `dpmpc.data_release`, party by party.
Runs in which there was no interval are counted apart and have no part in a coverage.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.harness import machine, markdown, write
from bench.system.glm import answers
from bench.system.rounds_populations import MOST, Population, correlated, projections, skewed, uniform
from dpmpc import simulation
from dpmpc.contributions import Scores
from dpmpc.data import Table
from dpmpc.data_release import DGM, RMGM
from dpmpc.errors import UtilityWarning
from dpmpc.estimators import LogisticRegression, PoissonRegression, RidgeRegression
from dpmpc.estimators.inference import Inference
from dpmpc.planning import ReleaseSpec, design
from dpmpc.randomness import Stream
from dpmpc.rounds import Releases

Reals = NDArray[np.float64]

RUNS, LEVEL, DELTA = 1000, 0.95, 1e-6
_BLOCK = 50  # runs that are kept together


@dataclasses.dataclass(frozen=True)
class Setting:
    """One population and one way to fit it."""

    name: str  # for the table
    population: Population  # who is drawn
    clients: int  # n
    epsilon: float = 1.0  # of all sums together
    # rounds, as many as the estimator takes by itself; or one release of second moments; or rounds in which every
    # client adds its own noise
    how: str = "rounds"

    def attempt(self, number: int) -> tuple[Inference, dict[str, Reals]]:
        """Fit new people once; return intervals, and what they should hold, by its name."""
        rows = self.population.sample(self.clients, np.random.default_rng([number, self.clients]))
        spec = ReleaseSpec.of(self.population.schema, self.clients, self.epsilon, DELTA, simulation_seed=number)
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
        if self.population.wrong:
            scores = fitted.releases_[-1].task.statistic
            assert isinstance(scores, Scores)
            truth = projections(self.population, scores)
        return fitted.inference(LEVEL), truth

    def estimator(self) -> LogisticRegression | PoissonRegression | RidgeRegression:
        """Return the estimator that suits the target."""
        if self.population.model == "logistic":
            return LogisticRegression()
        return PoissonRegression(most=MOST) if self.population.model == "poisson" else RidgeRegression(rounds=2)


@dataclasses.dataclass(frozen=True)
class Mixed:
    """Parties with a column each who publish one file."""

    name: str  # for the table
    rows: int | None  # k, or None for noisy rows of every person
    # whose target is mapped to [-1, 1] by its bounds; without an intercept, as these regressions are
    population: Population
    clients: int  # n
    epsilon: float  # for the columns of a person at one party

    def attempt(self, number: int) -> tuple[Inference, dict[str, Reals]]:
        """Release new people's columns once; return intervals, and what they should hold."""
        rows = self.population.sample(self.clients, np.random.default_rng([number, self.clients]))
        public = self.population.schema
        parties = [Table((name,), rows[:, [place]]) for place, name in enumerate(public.names)]
        options: dict[str, Any] = {"epsilon": self.epsilon, "delta": DELTA, "bounds": public, "simulation_seed": number}
        model = DGM(**options) if self.rows is None else RMGM(**options, rows=self.rows)
        return model.fit(parties).inference(LEVEL), {"": self.population.truth}


SETTINGS: tuple[Setting | Mixed, ...] = (
    Setting("logistic, correlated features", Population("logistic", correlated, size=2.0), 20_000),
    Setting("logistic, skewed 0/1 features", Population("logistic", skewed), 20_000),
    Setting("logistic, the noise rules", Population("logistic", skewed, features=10), 20_000, epsilon=0.3),
    Setting("logistic, 5 % ones", Population("logistic", correlated, size=2.0, intercept=-3.2), 50_000, epsilon=3.0),
    Setting("logistic, wrong model", Population("logistic", uniform, size=2.0, wrong=True), 20_000, epsilon=3.0),
    Setting("logistic, real clients", Population("logistic", uniform, features=2), 5_000, 2.0, "real clients"),
    Setting("Poisson", Population("poisson", uniform, intercept=0.3), 20_000),
    Setting("Poisson, little noise", Population("poisson", uniform, intercept=0.3), 50_000, epsilon=3.0),
    Setting("linear, one release", Population("linear", uniform), 20_000, how="one release"),
    Setting(
        "linear, uneven errors, one release",
        Population("linear", uniform, uneven=True),
        *(20_000, 3.0, "one release"),
    ),
    Setting(
        "linear, uneven errors, little noise, one release",
        Population("linear", uniform, uneven=True),
        *(20_000, 10.0, "one release"),
    ),
    Mixed("mixed file, 60 rows", 60, Population("linear", uniform, features=3, intercept=0.0), 20_000, 3.0),
    Mixed(
        "mixed file, 60 rows, uneven errors",
        60,
        Population("linear", uniform, features=3, intercept=0.0, uneven=True),
        *(20_000, 3.0),
    ),
    Mixed("mixed file, 100 rows", 100, Population("linear", uniform, features=3, intercept=0.0), 100_000, 1.0),
    Mixed("mixed file, correlated", 40, Population("linear", correlated, features=3, intercept=0.0), 50_000, 8.0),
    Mixed("mixed file, a noisy row each", None, Population("linear", uniform, features=3, intercept=0.0), 20_000, 8.0),
    Mixed(
        "mixed file, a noisy row each, uneven errors",
        None,
        Population("linear", uniform, features=3, intercept=0.0, uneven=True),
        *(5_000, 50.0),
    ),
)


def main(arguments: Sequence[str]) -> None:
    """Simulate, print and write the page."""
    parser = argparse.ArgumentParser(prog="python -m bench rounds_coverage", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each setting (default %(default)s)")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="append runs to this file, and go on from it")
    options = parser.parse_args(arguments)
    kept = Kept(options.keep)
    measured = [entry for setting in SETTINGS for entry in measure(setting, options.runs, kept)]
    content = {"machine": machine(), "level": LEVEL, "delta": DELTA, "runs": options.runs, "measured": measured}
    text = render(content)
    print(text)
    if options.runs >= RUNS:
        write("rounds_coverage", content, text)


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
        key = (setting.name, setting.clients, setting.epsilon, first, count)
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
    intervals = np.vstack([found.intercept_confidence_interval, found.confidence_intervals])
    return {
        "given": True,
        "truths": {
            name: {
                "off": (estimates - truth).tolist(),
                "covers": ((intervals[:, 0] <= truth) & (truth <= intervals[:, 1])).tolist(),
            }
            for name, truth in truths.items()
        },
        "se": [found.intercept_standard_error, *found.standard_errors.tolist()],
    }


def measure(setting: Setting | Mixed, runs: int, kept: Kept) -> list[dict[str, Any]]:
    """Return how often intervals cover, an entry for each truth."""
    made = []
    for first in range(0, runs, _BLOCK):
        made += kept.block(setting, first, min(_BLOCK, runs - first))
        print(f"rounds_coverage: {setting.name}: {len(made)} of {runs}", file=sys.stderr, flush=True)
    return [entry_of(setting, name, made) for name in made[0]["truths"]]


def entry_of(setting: Setting | Mixed, truth: str, made: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Sum the runs of a setting up; the intercept apart from the coefficients."""
    given = [run for run in made if run["given"]]
    facts = {
        "name": ", ".join(filter(None, [setting.name, truth])),
        "n": setting.clients,
        "d": setting.population.features,
        "epsilon": setting.epsilon,
        "runs": len(made),
        "without_interval": 1 - len(given) / len(made),
    }
    if len(given) < 2:
        return {**facts, "coverage": None}
    covers = np.array([run["truths"][truth]["covers"] for run in given], float)
    off, se = np.array([run["truths"][truth]["off"] for run in given]), np.array([run["se"] for run in given])
    each, error = covers.mean(axis=0), np.sqrt(np.mean(off**2, axis=0))
    known = error > 0  # of a mixed file nothing is estimated for the intercept of symmetric bounds
    return {
        **facts,
        "coverage": each[1:].tolist(),
        "coverage_intercept": float(each[0]) if known[0] else None,
        "mean": float(each[1:].mean()),
        "mean_standard_error": float(covers[:, 1:].mean(axis=1).std(ddof=1) / math.sqrt(len(given))),
        "bias": (off.mean(axis=0) / np.where(known, error, 1.0)).tolist(),
        "length": (np.sqrt(np.mean(se**2, axis=0)) / np.where(known, error, 1.0)).tolist(),
    }


def render(content: dict[str, Any]) -> str:
    """Return the Markdown page."""
    headings = ["fit", "n", "d", "epsilon", "mean coverage", "least", "most", "intercept", "se/error", "no interval"]
    rows = []
    for entry in content["measured"]:
        facts = [entry["name"], f"{entry['n']:,}", str(entry["d"]), f"{entry['epsilon']:g}"]
        if entry["coverage"] is None:
            numbers = [""] * 5
        else:
            intercept = entry["coverage_intercept"]
            numbers = [
                f"{entry['mean']:.3f} ± {entry['mean_standard_error']:.3f}",
                f"{min(entry['coverage']):.3f}",
                f"{max(entry['coverage']):.3f}",
                "" if intercept is None else f"{intercept:.3f}",
                f"{np.mean(entry['length'][1:]):.2f}",
            ]
        rows.append([*facts, *numbers, f"{entry['without_interval']:.1%}"])
    spread = math.sqrt(LEVEL * (1 - LEVEL) / content["runs"])
    return "\n".join(
        [
            "# Coverage of intervals: models in rounds, and mixed files",
            "",
            f"Nominal {content['level']:.0%}, delta = {content['delta']:g}, {content['runs']} runs of each setting, "
            "with new people and new noise. Least and most are over the coefficients of the features; of exact "
            f"intervals one coverage would have a standard deviation of {spread:.4f}; that of the mean over "
            "coefficients stands beside it. se/error: root mean squares of standard errors and of errors, one over the "
            "other.",
            "",
            markdown(headings, rows),
            "",
            "Runs without an interval have no part in a coverage. Lines of version 0.2 were measured before intervals "
            "were withheld where the released curvature is less than four times its noise or the last step was long; "
            "linear regressions in two rounds have none since. A wrong model is a logistic one that lacks a product "
            "and a square: what its intervals should hold is the projection by the weights that rows have at the "
            "released whitening and radius; two other projections stand beside it.",
        ]
    )
