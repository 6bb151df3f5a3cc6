"""Section 4.1 among real servers: power sums and item F_2, their error against n, k and epsilon.

Every figure is of runs of three servers and an analyst that are processes over TLS on loopback. One of n, k and epsilon
varies at a time. For power sums k is the order: sum_i x_i^k, x_i uniform on [0, 2]. For items k is the number of rows
of the items' sketch: F_2 = sum_v f_v^2 of geometric items. Each run has fresh noise and, for items, a fresh public
matrix. The paper claims an error that depends on k, epsilon and delta and not on n, where the local model's grows with
sqrt(n): its standard deviation, that of n rows with noise of their own, is computed beside it.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.harness import machine, markdown, plus_minus, summary, write
from dpmpc.base.arrays import Reals
from dpmpc.base.randomness import Stream
from dpmpc.data import Schema
from dpmpc.models import FrequencyMoment
from dpmpc.parties.network.meter import RunStatistics
from dpmpc.parties.networked import run
from dpmpc.privacy.gaussian import mu_of_budget
from dpmpc.release.planning import design

DELTA, ITEMS, RUNS, SERVERS = 1e-7, 1000, 5, 3
VALUES, ITEM_COUNTS = "values", "items"
LARGEST = 2.0  # of a number: the noise of sum_i x_i^k is in proportion to its k-th power
BOUNDS = {VALUES: (0.0, LARGEST), ITEM_COUNTS: (0.0, ITEMS - 1.0)}
NAMES = {VALUES: "power sum, k = order", ITEM_COUNTS: "item F_2, k = rows of the sketch"}


@dataclasses.dataclass(frozen=True)
class Setting:
    """One row of the table."""

    of: str  # `VALUES` or `ITEM_COUNTS`
    clients: int  # n
    k: int  # the order of a power sum, or the rows of the items' sketch
    epsilon: float  # beside `DELTA`

    def model(self, seed: int) -> FrequencyMoment:
        """Return the estimator, with a seed for its public matrix."""
        order, rows = (self.k, None) if self.of == VALUES else (2, self.k)
        choices: dict[str, Any] = {"epsilon": self.epsilon, "delta": DELTA, "bounds": BOUNDS[self.of]}
        return FrequencyMoment(order, of=self.of, rows=rows, servers=SERVERS, simulation_seed=seed, **choices)

    def population(self) -> Reals:
        """Draw the clients' numbers or items (n, 1)."""
        rng = np.random.default_rng(self.clients)
        if self.of == VALUES:
            return rng.uniform(0, LARGEST, (self.clients, 1))
        return np.minimum(rng.geometric(0.01, (self.clients, 1)), ITEMS) - 1.0


def one_at_a_time(of: str, clients: Sequence[int], ks: Sequence[int], epsilons: Sequence[float]) -> list[Setting]:
    """Return settings in which one of n, k and epsilon leaves the middle of its list."""
    n, k = (sorted(one)[len(one) // 2] for one in (clients, ks))
    epsilon = sorted(epsilons)[len(epsilons) // 2]
    varied = [
        *(Setting(of, size, k, epsilon) for size in clients),
        *(Setting(of, n, other, epsilon) for other in ks),
        *(Setting(of, n, k, budget) for budget in epsilons),
    ]
    return list(dict.fromkeys(varied))


SETTINGS = (
    *one_at_a_time(VALUES, (1000, 10_000, 100_000), (1, 2, 4), (0.1, 0.5, 2.0)),
    *one_at_a_time(ITEM_COUNTS, (1000, 10_000, 100_000), (64, 256, 1024), (0.1, 0.5, 2.0)),
)
SHORT = SETTINGS[:1]


def measure(setting: Setting, runs: int, first: int = 0) -> dict[str, Any]:
    """Run a setting among real servers, with seeds from `first` on; compare what they opened with the exact moment."""
    people = setting.population()
    errors: list[float] = []
    stated: list[float] = []
    servers: list[RunStatistics] = []
    exact = setting.model(0).exact_moment(people)
    for seed in range(first, first + runs):
        model = setting.model(seed)
        task = design(model.specification(Schema.from_pair(["x"], BOUNDS[setting.of]), setting.clients))
        done = run(task, people, stream=Stream.from_seed(seed))
        model.fit_release(done.release)
        errors.append(model.moment_ - exact)
        stated.append(model.standard_error_)
        servers += done.servers
    return {
        **dataclasses.asdict(setting),
        "exact": exact,
        "root_mean_square": math.sqrt(float(np.mean(np.square(errors)))),
        "standard_error": summary(stated),
        "standardised": [error / spread for error, spread in zip(errors, stated, strict=True)],
        "local_sd": local_sd(setting),
        "time_s": summary([spent.total_s for spent in servers]),
        "sent_bytes": summary([spent.bytes_sent for spent in servers]),
    }


def local_sd(setting: Setting) -> float | None:
    """Return the standard deviation of a power sum of n locally private powers in [0, B^k]: sqrt(n) B^k/mu."""
    if setting.of != VALUES:
        return None
    return math.sqrt(setting.clients) * LARGEST**setting.k / mu_of_budget(setting.epsilon, DELTA)


def render(content: dict[str, Any]) -> str:
    """Return the Markdown page."""
    parts = ["# Frequency moments among servers (section 4.1)", ""]
    where, standardised = content["machine"], []
    parts += [
        f"Three servers and an analyst, processes over TLS on loopback; (ε, {DELTA:g}), one client replaced. Error: "
        f"root mean square of {content['runs']} runs; beside it the standard error that the estimator states. "
        f"{where['cpu']}, {where['cores']} cores, {where['date']}.",
        "",
    ]
    for of, name in NAMES.items():
        entries = [entry for entry in content["measured"] if entry["of"] == of]
        rows = [
            [
                f"{entry['clients']:,}",
                str(entry["k"]),
                f"{entry['epsilon']:g}",
                f"{entry['exact']:.6g}",
                f"{entry['root_mean_square']:.3g}",
                f"{entry['standard_error']['mean']:.3g}",
                f"{entry['root_mean_square'] / entry['exact']:.2g}",
                *([f"{entry['local_sd']:.3g}"] if of == VALUES else []),
                plus_minus(entry["time_s"]),
                f"{entry['sent_bytes']['mean']:.0f}",
            ]
            for entry in entries
        ]
        local = ("local model's (computed)",) if of == VALUES else ()
        headings = ("n", "k", "ε", "exact", "error", "stated", "relative error", *local, "server (s)", "sends (bytes)")
        parts += [f"## {name[0].upper()}{name[1:]}", "", markdown(headings, rows), ""]
        standardised += [value for entry in entries for value in entry["standardised"]]
    spread = math.sqrt(float(np.mean(np.square(standardised))))
    parts.append(f"Error over stated standard error, root mean square of all {len(standardised)} runs: {spread:.2f}.")
    return "\n".join(parts)


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write the page."""
    parser = argparse.ArgumentParser(prog="python -m bench frequency_moments", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each row (default %(default)s)")
    parser.add_argument("--short", action="store_true", help="the first row, once; nothing is written")
    chosen = parser.parse_args(arguments)
    runs, settings = (1, SHORT) if chosen.short else (chosen.runs, SETTINGS)
    measured = []
    for number, setting in enumerate(settings):
        print(f"frequency_moments: {setting}", file=sys.stderr)
        measured.append(measure(setting, runs, number * runs))  # no two runs of the page share a seed
    content = {"machine": machine(), "runs": runs, "measured": measured}
    text = render(content)
    print(text)
    if not chosen.short:
        write("frequency_moments", content, text)
