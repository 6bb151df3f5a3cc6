"""Coverage of confidence intervals of regression coefficients: how often they hold the population's value.

The intervals are those of `RidgeRegression.inference`. Each simulation draws new people, a new public matrix and new
noise. So that a thousand of them take minutes, most releases are drawn from their law and pass through no client and no
server: the true sums of the encoded rows, computed by the kernel, plus one Gaussian draw of the released variance,
rounded, for each sum. "real clients" are full runs of `dpmpc.release.simulation`, noise of every client included. An
interval of infinite length counts as one that covers; how often that happened stands beside.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import math
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

from bench.harness import machine, markdown, write
from dpmpc.base.arrays import Integers, Reals
from dpmpc.base.randomness import Stream
from dpmpc.data import Schema
from dpmpc.data.schemas import clip_ball
from dpmpc.models import RidgeRegression
from dpmpc.models.common.linear_algebra import exact_gram, solve_ridge
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.privacy.task import Task
from dpmpc.release import simulation as model
from dpmpc.release.planning import design
from dpmpc.release.release import Release

RUNS, LEVEL, DELTA = 1000, 0.95, 1e-6
RESIDUAL = 0.3  # half the width of the uniform residual
INTERCEPT = 0.1
_REFERENCE = 1 << 22  # people from whom the coefficients of clipped rows are computed
_BLOCK = 1 << 19


@dataclasses.dataclass(frozen=True)
class Setting:
    """One population and one release."""

    name: str  # for the table
    clients: int  # n and d
    features: int
    sketch: str  # as in `dpmpc.release.design`
    epsilon: float = 1.0  # as there; a larger one stands for more clients at a smaller one, in less time
    rows: int | None = None  # as there
    sparsity: int | None = None
    common: float = 0.0  # weight of the part that all features share; 0 for independent ones
    radius: float | None = None  # clipping norm
    # whether the residual's size grows with the first feature, so that errors are not homoscedastic
    uneven: bool = False
    errors: str = "homoscedastic"  # as in `RidgeRegression.inference`
    real: bool = False  # whether clients add their own noise

    def sample(self, generator: np.random.Generator, clients: int) -> Reals:
        """Draw people: features in [-1, 1], a target in [-1, 1] that is linear in them up to a uniform residual."""
        own = generator.uniform(-1, 1, (clients, self.features))
        shared = generator.uniform(-1, 1, (clients, 1))
        X = (1 - self.common) * own + self.common * shared
        residual = generator.uniform(-RESIDUAL, RESIDUAL, clients)
        if self.uneven:
            residual *= 1.3 * np.abs(X[:, 0])
        return np.column_stack([X, INTERCEPT + X @ self.weights + residual])

    @property
    def weights(self) -> Reals:
        """The coefficients of rows that are not clipped to a ball; their absolute values add up to 0.5."""
        signs = np.where(np.arange(self.features) % 2 == 0, 1.0, -1.0)
        sizes = np.linspace(1.0, 0.2, self.features)
        return np.asarray(0.5 * signs * sizes / sizes.sum())

    def truth(self) -> Reals:
        """Return intercept and coefficients of the population; of clipped rows from a large sample."""
        if self.radius is None:
            return np.append(INTERCEPT, self.weights)
        generator = np.random.default_rng(10**6)
        gram = np.zeros((self.features + 2, self.features + 2))
        for _ in range(_REFERENCE // _BLOCK):
            gram += exact_gram(clip_ball(self.sample(generator, _BLOCK), self.radius))
        fitted = solve_ridge(gram, self.features, 0.0)
        return np.append(fitted.intercept, fitted.weights)

    def release(self, number: int) -> Release:
        """Simulate one release."""
        generator = np.random.default_rng(number)
        names = [*(f"x{feature}" for feature in range(self.features)), "y"]
        task = design(
            ReleaseSpec.of(
                Schema.unit(names),
                self.clients,
                self.epsilon,
                DELTA,
                sketch=self.sketch,
                rows=self.rows,
                sparsity=self.sparsity,
                radius=self.radius,
                simulation_seed=number,
            )
        )
        rows = self.sample(generator, self.clients)
        if self.real:
            return model.run(task, rows, stream=Stream.from_seed(number))
        return release_of_law(task, rows, generator)


SETTINGS = (
    Setting("sum", 100_000, 5, "sum"),
    Setting("sum, noise dominates", 5_000, 5, "sum"),
    Setting("sum, correlated features", 20_000, 5, "sum", common=0.5),
    Setting("sum, ball clip", 20_000, 5, "sum", radius=1.15),
    Setting("sum, uneven errors", 20_000, 5, "sum", epsilon=4, uneven=True),
    Setting("sum, uneven errors, errors = any", 20_000, 5, "sum", epsilon=4, uneven=True, errors="any"),
    Setting("sum, at the guard", 1_000, 5, "sum"),
    Setting("sum, real clients", 5_000, 5, "sum", real=True),
    Setting("countsketch, ball clip", 30_000, 5, "countsketch", epsilon=4, rows=200, radius=1.15),
    Setting("countsketch, no ball", 50_000, 5, "countsketch", epsilon=4, rows=50),
    Setting("countsketch, few rows", 30_000, 3, "countsketch", epsilon=4, rows=30, radius=1.15),
    Setting("countsketch, correlated features", 40_000, 5, "countsketch", epsilon=4, rows=60, common=0.5, radius=1.15),
    Setting("countsketch, uneven errors", 30_000, 5, "countsketch", epsilon=4, rows=200, radius=1.15, uneven=True),
    Setting("osnap, s = 4", 20_000, 5, "osnap", epsilon=4, rows=200, sparsity=4, radius=1.15),
    Setting("countsketch, at the guard", 6_000, 3, "countsketch", epsilon=4, rows=100, radius=1.15),
    Setting("countsketch, real clients", 15_000, 3, "countsketch", epsilon=4, rows=60, radius=1.15, real=True),
)


def _sums(task: Task, rows: Reals) -> Integers:
    """Return the sums that servers would open without noise."""
    encoded = task.statistic.encode(task.schema.normalise(rows), task.encoding)
    return np.asarray(task.encoding.ring.lift(task.sketch.apply(task.encoding.ring.embed(encoded))))


def release_by_parties(task: Task, rows: Reals, stream: Stream) -> Release:
    """Release the true sums plus the noise that each party draws in a release, by the sampler that it draws with."""
    sums = _sums(task, rows)
    parties = int(task.noise_terms.max())
    return Release(task, sums + task.noise.sample((parties, *sums.shape), stream).sum(axis=0))


def release_of_law(task: Task, rows: Reals, generator: np.random.Generator) -> Release:
    """Release the true sums plus rounded Gaussian noise of the released variance: no client draws any.

    Rows get independent noise, also where each client sends one copy.
    """
    sums = _sums(task, rows)
    deviations = np.sqrt(task.noise_terms * task.noise.variance)
    noise = np.rint(deviations[:, None] * generator.standard_normal(sums.shape))
    return Release(task, sums + noise.astype(np.int64))


def main(arguments: Sequence[str]) -> None:
    """Simulate, print and write the table."""
    parser = argparse.ArgumentParser(prog="python -m bench coverage", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS, help="simulations of each setting (default %(default)s)")
    parser.add_argument("--processes", type=int, default=1, help="releases simulated at once (default %(default)s)")
    options = parser.parse_args(arguments)
    runs: int = options.runs
    with ProcessPoolExecutor(options.processes) as pool:
        measured = list(pool.map(measure, SETTINGS, itertools.repeat(runs)))
    content = {
        "machine": machine(),
        "level": LEVEL,
        "delta": DELTA,
        "runs": runs,
        "measured": measured,
    }
    text = render(content)
    print(text)
    if runs >= RUNS:
        write("coverage", content, text)


def measure(setting: Setting, runs: int) -> dict[str, Any]:
    """Count how often the interval of each coefficient holds the truth."""
    began, truth = time.perf_counter(), setting.truth()
    covered, finite, widths = np.zeros(len(truth)), 0, []
    for number in range(runs):
        found = RidgeRegression().fit_release(setting.release(number)).inference(LEVEL, errors=setting.errors)
        intervals = np.vstack([found.intercept_confidence_interval, found.confidence_intervals])
        covered += (intervals[:, 0] <= truth) & (truth <= intervals[:, 1])
        finite += found.informative
        widths += [float(np.median(intervals[:, 1] - intervals[:, 0]))]
    seconds = time.perf_counter() - began
    print(f"coverage: {setting.name}: {covered / runs} in {seconds:.0f} s", file=sys.stderr)
    return {
        **dataclasses.asdict(setting),
        "coverage_intercept": covered[0] / runs,
        "coverage": (covered[1:] / runs).tolist(),
        "mean_coverage": float(covered[1:].mean()) / runs,
        "finite": finite / runs,
        "median_length": float(np.median(widths)) if finite > runs / 2 else None,
    }


def render(content: dict[str, Any]) -> str:
    """Return the Markdown page."""
    headings = (
        "release",
        "n",
        "d",
        "k",
        "epsilon",
        "coverage of coefficients, mean",
        "least",
        "most",
        "of the intercept",
    )
    rows = [
        [
            entry["name"],
            f"{entry['clients']:,}",
            str(entry["features"]),
            str(entry["rows"] or 1),
            f"{entry['epsilon']:g}",
            *(f"{value:.3f}" for value in (entry["mean_coverage"], min(entry["coverage"]), max(entry["coverage"]))),
            f"{entry['coverage_intercept']:.3f}",
            "infinite" if entry["median_length"] is None else f"{entry['median_length']:.3g}",
            f"{entry['finite']:.1%}",
        ]
        for entry in content["measured"]
    ]
    spread = math.sqrt(LEVEL * (1 - LEVEL) / content["runs"])
    return "\n".join(
        [
            "# Coverage of confidence intervals",
            "",
            f"Nominal {content['level']:.0%}, delta = {content['delta']:g}, "
            f"{content['runs']} simulations of each. Of exact intervals one coverage would have a standard "
            f"deviation of {spread:.4f}. Lengths are medians, for columns in [-1, 1].",
            "",
            markdown([*headings, "length", "finite"], rows),
            "",
            "Releases are drawn from their law (true sums plus Gaussian noise of the released variance), but for those "
            "of real clients. Infinite intervals count as covering. With uneven errors the residual grows with the "
            "first feature: then a sum's intervals assume too much, and `errors='any'` is the remedy.",
        ]
    )
