"""The error of a ridge regression with 0 to 1000 liars among 100,000 clients, with proofs and without.

Rows are minutes of the household set, or generated ones. Every liar takes the place of one client. phi is the cost of
the released model over the least cost, both over the true rows of all clients. What liars do, in each line:

- *proofs, false reports*: every lie of `bench.system.false_reports` in turn, with the proof that an honest client
  computes of it. Servers refuse all of them, and the release is one over the others.
- *proofs, worst true rows*: all liars send one row, a corner of the box: the one that harms most when all true rows are
  known. It is well formed, so it is accepted; the same harm is done without proofs.
- *no proofs, words at random*: each liar shares words drawn from the whole ring. It has to know nothing.
- *no proofs, chosen result*: liars who know the sums share, together, what turns them into those of a model whose
  coefficients all have the other sign. One liar is enough, and nothing in the release looks odd.
- *no proofs, worst words*: the same, with coefficients that are `FACTOR` times as large.

With proofs every client of every run shares, hashes and proves, three servers check, and the sums are those of the
servers' shares. Without, sums are computed from the rows, and liars' words are added in the ring: shares cancel. The
servers' noise is added to either (`bench.secure_sketching.simulation`), fresh in each of the runs.
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.datasets.secure_sketching import POWER_BOUNDS, load_power
from bench.harness import machine, markdown, write
from bench.secure_sketching.simulation import exact_sums, opened
from bench.system.changed_reports import BLOCK, Reports
from bench.system.false_reports import lies_about
from dpmpc.base.arrays import Integers, Reals, Words
from dpmpc.base.errors import ProtocolFailure, UtilityWarning
from dpmpc.data import Schema
from dpmpc.linear.contributions import SecondMoments
from dpmpc.linear.proving.circuit import FIELD, RowCircuit
from dpmpc.linear.sharing import AdditiveSharing
from dpmpc.models import RidgeRegression
from dpmpc.models.common.linear_algebra import exact_gram, ridge_cost, solve_ridge
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.privacy.task import Task
from dpmpc.release.planning import design

CLIENTS, SHORT_CLIENTS, LIARS = 100_000, 4000, (0, 1, 10, 100, 1000)
EPSILON, DELTA, RUNS, TARGET, SEED = 1.0, 1e-6, 20, "Sub_metering_3", 1
REFUSED, WORST = "proofs, false reports", "proofs, worst true rows"
RANDOM, CHOSEN, LARGEST = "no proofs, words at random", "no proofs, chosen result", "no proofs, worst words"
WAYS = (REFUSED, WORST, RANDOM, CHOSEN, LARGEST)
FACTOR = 1000


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(prog="python -m bench robustness", description=__doc__.splitlines()[0])
    parser.add_argument("--generated", action="store_true", help="generated rows in place of the household set")
    parser.add_argument("--short", action="store_true", help=f"{SHORT_CLIENTS:,} generated rows; writes nothing")
    chosen = parser.parse_args(arguments)
    clients = SHORT_CLIENTS if chosen.short else CLIENTS
    liars = [count for count in LIARS if count <= clients // 40]
    source = "generated" if chosen.generated or chosen.short else "household"
    rows, schema = generated(clients) if source == "generated" else household(clients)
    content = {
        "machine": machine(),
        "source": source,
        "clients": clients,
        "columns": len(schema),
        "budget": [EPSILON, DELTA],
        "runs": RUNS,
        "cells": Population(rows, schema).measure(liars),
    }
    text = render(content)
    print(text)
    if not chosen.short:
        write("robustness", content, text)


def household(clients: int) -> tuple[Reals, Schema]:
    """Return minutes of the household set, drawn at random, the target last."""
    names = [*(name for name in POWER_BOUNDS.names if name != TARGET), TARGET]
    rows = load_power().select(names).values
    return np.random.default_rng(SEED).permutation(rows)[:clients], POWER_BOUNDS.select(names)


def generated(clients: int) -> tuple[Reals, Schema]:
    """Return rows of six features and a target that depends on them."""
    draw = np.random.default_rng(SEED)
    X = np.clip(draw.standard_normal((clients, 6)) / 3, -1, 1)
    y = X @ np.linspace(-0.6, 0.6, 6) + draw.standard_normal(clients) / 10
    table = np.column_stack([X, np.clip(y, -1, 1)])
    return table, Schema.from_pair([*(f"x{column}" for column in range(6)), "y"], (-1.0, 1.0))


class Population:
    """True rows, and what releases of them are worth."""

    def __init__(self, rows: Reals, schema: Schema):
        self.rows, self.schema = rows, schema
        self.normalised = schema.normalise(rows)
        self.least = self._cost(exact_gram(self.normalised))
        self.draw = np.random.default_rng(SEED)

    def measure(self, liars: Sequence[int]) -> list[dict[str, Any]]:
        """Return a cell for each number of liars and each way to lie."""
        cells = []
        for count, way in itertools.product(liars, WAYS):
            print(f"robustness: {count} liars, {way}", file=sys.stderr, flush=True)
            releases, accepted = self._lied_to(way, count)
            factors = [self._factor(task, sums, run) for run, (task, sums) in enumerate(releases)]
            spread = {"median": statistics.median(factors), "least": min(factors), "largest": max(factors)}
            cells.append({"liars": count, "way": way, "accepted": accepted, "phi": spread})
        return cells

    def _lied_to(self, way: str, liars: int) -> tuple[list[tuple[Task, Integers]], int]:
        """Return the task and the sums of each run, before noise, and how many reports are in them."""
        if way in (REFUSED, WORST):
            sums, accepted = self.proved_sums(way, liars)
            expected = len(self.rows) - (liars if way == REFUSED else 0)
            if accepted != expected:
                raise ProtocolFailure(f"robustness: {way}: {accepted} reports accepted, {expected} expected")
            return [(self.task(accepted, proved=True), sums)] * RUNS, accepted
        task = self.task(len(self.rows), proved=False)
        honest = exact_sums(task, self.rows[liars:])
        return [(task, self.spoiled(task, honest, way, liars)) for _ in range(RUNS)], len(self.rows)

    def task(self, clients: int, *, proved: bool) -> Task:
        """Design a release of the sum of second moments, with noise by the servers."""
        spec = ReleaseSpec.of(
            self.schema, clients, EPSILON, DELTA, sketch="sum", noise_by="servers", proved=proved, simulation_seed=SEED
        )
        return design(spec)

    def proved_sums(self, way: str, liars: int) -> tuple[Integers, int]:
        """Let all clients prove and all servers check; return the sums of what is accepted, and its number."""
        task = self.task(len(self.rows), proved=True)
        statement, scheme = task.proofs, task.scheme
        assert statement is not None
        circuit = statement.circuit
        assert isinstance(circuit, RowCircuit)
        assert isinstance(scheme, AdditiveSharing)
        sent = self.normalised.copy()
        if way == WORST:
            sent[:liars] = self.worst_corner(liars)
        totals = [np.zeros((1, task.width), np.uint64) for _ in range(scheme.servers)]
        accepted = 0
        for first in range(0, len(sent), BLOCK):
            encoded = statement.encode(sent[first : first + BLOCK])
            witnesses = statement.witness(encoded)
            lying = max(0, min(liars - first, len(encoded))) if way == REFUSED else 0
            for place, lie in enumerate(lies_about(circuit).values()):
                chosen = np.arange(place, lying, len(lies_about(circuit)))
                if len(chosen):
                    witnesses[chosen] = lie.make(circuit, encoded[chosen], self.draw)
            reports = Reports.of(circuit, scheme, witnesses)
            good = reports.at_the_door() & reports.accepted()
            for total, server, records in zip(totals, reports.servers, reports.records, strict=True):
                outputs = statement.outputs(np.ascontiguousarray(records[good]), server.one)
                task.sketch.apply(outputs, out=total, ring=FIELD, first=accepted)
            accepted += int(good.sum())
        return FIELD.lift(scheme.combine(totals)), accepted

    def spoiled(self, task: Task, honest: Integers, way: str, liars: int) -> Integers:
        """Add to unproved sums what liars share, in the ring."""
        ring = task.encoding.ring
        if not liars:
            return honest
        words: Words = self.draw.integers(0, 1 << 64, honest.shape, np.uint64, endpoint=False)
        if way != RANDOM:
            gram = exact_gram(self.turned(1 if way == CHOSEN else FACTOR))
            wanted = np.rint(moments_of(gram) / task.units).astype(np.int64)
            words = ring.embed(wanted[None] - honest)
        return ring.lift(ring.add(ring.embed(honest), words))

    def turned(self, factor: float) -> Reals:
        """Return rows whose best coefficients are -factor times those of the true rows."""
        rows, middle = self.normalised.copy(), self.normalised[:, -1].mean()
        rows[:, -1] = middle - factor * (rows[:, -1] - middle)
        return rows

    def worst_corner(self, liars: int) -> Reals:
        """Return the corner of the box that harms most, if so many liars send it and nobody adds noise."""
        honest = exact_gram(self.normalised[liars:])
        corners = np.array(list(itertools.product((-1.0, 1.0), repeat=self.rows.shape[1])))
        costs = [
            self._cost(honest + liars * np.outer(row, row)) for row in np.column_stack([np.ones(len(corners)), corners])
        ]
        worst: Reals = corners[int(np.argmax(costs))]
        return worst

    def _cost(self, gram: Reals) -> float:
        """Return the cost, over all true rows, of the model that is best for these moments of (1, z)."""
        model = solve_ridge(gram, len(gram) - 2, 0.0)
        return ridge_cost(model, self.normalised[:, :-1], self.normalised[:, -1], 0.0)

    def _factor(self, task: Task, sums: Integers, run: int) -> float:
        """Return phi of the model that is read from the release."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UtilityWarning)  # that noise is large, or the sums are nobody's
            model = RidgeRegression(0.0).fit_release(opened(task, sums, run)).model_
        return ridge_cost(model, self.normalised[:, :-1], self.normalised[:, -1], 0.0) / self.least


def moments_of(gram: Reals) -> Reals:
    """Return what `SecondMoments.matrix` puts back into a Gram matrix: its upper triangle without the corner."""
    first, second = np.triu_indices(len(gram))
    moments: Reals = (gram[first, second] * np.where(first == second, 1.0, math.sqrt(2)))[1:]
    assert np.allclose(SecondMoments.matrix(moments, int(gram[0, 0])), gram)
    return moments


def render(content: dict[str, Any]) -> str:
    """Return the Markdown page."""
    where, cells = content["machine"], content["cells"]
    counts = sorted({cell["liars"] for cell in cells})
    rows = []
    for count in counts:
        chosen = {cell["way"]: cell for cell in cells if cell["liars"] == count}
        rows.append(
            [f"{count:,}", f"{count - (content['clients'] - chosen[REFUSED]['accepted']):,}"]
            + [written(chosen[way]["phi"]) for way in WAYS]
        )
    epsilon, delta = content["budget"]
    return "\n".join(
        [
            f"# Liars among {content['clients']:,} clients",
            "",
            f"Ridge regression from the sum of second moments, {content['columns']} columns, {content['source']} rows; "
            f"({epsilon:g}, {delta:g})-differential privacy, noise by three servers, additive shares. phi, cost over "
            f"least cost over all true rows: median of {content['runs']} releases, and least to largest. "
            f"{where['cpu']}, {where['date']}.",
            "",
            markdown(["liars", "false reports accepted", *WAYS], rows),
            "",
            "- *proofs, false reports*: liars share every kind of false statement in turn, each with a proof; all are "
            "refused.",
            "- *proofs, worst true rows*: all liars send the corner of the box that harms most. It is a row like any "
            "other: no proof helps against it, and without proofs it does the same harm.",
            "- *no proofs, words at random*: every liar shares words from the whole ring. The estimator then finds "
            "nothing to learn, and predicts the mean.",
            "- *no proofs, chosen result*: one liar, or several together, share what turns the sums into those of a "
            "model whose coefficients have the other sign. Nothing in the release looks odd.",
            f"- *no proofs, worst words*: the same, and the coefficients are {FACTOR:,} times as large.",
        ]
    )


def written(phi: dict[str, float]) -> str:
    """Write a spread for a cell of the table."""
    return f"{phi['median']:.4g} ({phi['least']:.4g} to {phi['largest']:.4g})"
