"""Releases of cells by server processes: what a server spends on so many people, without and with proofs.

Uniform numbers in ten columns of 64 cells each, additive shares among three servers of this machine, noise by the
servers. CPU time and memory are those that each server measures of itself, from its start to what it sends to the
analyst. What is opened is compared with the histograms of the rows: entries that are off by other than the noise are an
error.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.harness import machine, markdown, write
from dpmpc.base.errors import ProtocolFailure
from dpmpc.data import Schema
from dpmpc.linear.contributions.cells import CellCounts, CellGrid
from dpmpc.parties.networked import run
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.privacy.task import Task
from dpmpc.release.planning import design

CLIENTS, PROVED, COLUMNS, CELLS, SEED = 1_000_000, 100_000, 10, 64, 1
EPSILON, DELTA = 1.0, 1e-7
GOAL = 10.0  # CPU seconds of a server, of a million people without proofs
_FAR = 7.0  # deviations that no entry of 640 is off: by chance in one of 6 10^8 runs


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write the table."""
    parser = argparse.ArgumentParser(prog="python -m bench cell_servers", description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=CLIENTS, help="people without proofs (default %(default)s)")
    parser.add_argument("--proved", type=int, default=PROVED, help="people with proofs (default %(default)s)")
    chosen = parser.parse_args(arguments)
    measured = [measure(chosen.clients, proved=False), measure(chosen.proved, proved=True)]
    content = {"machine": machine(), "columns": COLUMNS, "cells": CELLS, "measured": measured}
    text = render(content)
    print(text)
    if (chosen.clients, chosen.proved) == (CLIENTS, PROVED):
        write("cell_servers", content, text)


def task_of(clients: int, *, proved: bool) -> Task:
    """Design the release."""
    edges = tuple(np.linspace(-1, 1, CELLS + 1)[1:-1])
    counts = CellCounts([CellGrid("root", column=column, edges=edges) for column in range(COLUMNS)])
    schema = Schema.unit([f"x{column}" for column in range(COLUMNS)])
    options: dict[str, Any] = {"noise_by": "servers", "contribution": counts, "sketch": "sum", "proved": proved}
    return design(ReleaseSpec.of(schema, clients, EPSILON, DELTA, **options))


def measure(clients: int, *, proved: bool) -> dict[str, Any]:
    """Let servers make one release, and return what it has cost each of them."""
    print(f"cells: {clients:,} people, {'proved' if proved else 'not proved'}", file=sys.stderr, flush=True)
    task = task_of(clients, proved=proved)
    rows = np.random.default_rng(SEED).uniform(-1, 1, (clients, COLUMNS))
    begun = os.getloadavg()[0]
    done = run(task, rows)
    return {
        "clients": clients,
        "proved": proved,
        "cpu_s": [server.cpu_s for server in done.servers],
        "total_s": [server.total_s for server in done.servers],
        "peak_rss_mb": [server.peak_rss_mb for server in done.servers],
        "sent_bytes": [server.bytes_sent for server in done.servers],
        "load": [begun, os.getloadavg()[0]],
        "farthest": farthest(done.release.task, done.release.sketch[0], rows),
    }


def farthest(task: Task, opened: np.ndarray, rows: np.ndarray) -> float:
    """Return by how many deviations of the noise the worst entry is off the histograms of the rows, or refuse it."""
    counts, ring = task.statistic, task.encoding.ring
    assert isinstance(counts, CellCounts)
    places = counts.cells_of(task.schema.normalise(rows)) + np.array(counts.starts()[:-1])
    people = np.bincount(places.reshape(-1), minlength=counts.starts()[-1]).astype(np.int64)
    exact = ring.lift(counts.coded(ring.embed(people)[None], ring))[0] * 2.0**-counts.exact_bits
    found = float(np.abs((opened - exact) / np.sqrt(task.noise_variance[0])).max())
    if not found < _FAR:
        raise ProtocolFailure(
            f"cells: an entry is off by {found:.1f} deviations of the noise, at most {_FAR:g} expected"
        )
    return found


def render(content: dict[str, Any]) -> str:
    """Return the Markdown page."""
    where, measured = content["machine"], content["measured"]
    rows = [
        [
            f"{one['clients']:,}",
            "yes" if one["proved"] else "no",
            *(", ".join(f"{value:.2f}" for value in one[name]) for name in ("cpu_s", "total_s")),
            f"{max(one['peak_rss_mb']):.0f}",
            f"{max(one['sent_bytes']) / 1e6:.2f}",
            f"{one['farthest']:.1f}",
            " to ".join(f"{value:.1f}" for value in one["load"]),
        ]
        for one in measured
    ]
    headings = ["people", "proved", "CPU s of each server", "seconds of each", "peak MB", "sent, MB", "off", "load"]
    return "\n".join(
        [
            "# Releases of cells",
            "",
            f"{content['columns']} columns of {content['cells']} cells, additive shares among 3 servers on this "
            f"machine, noise by the servers. {where['cpu']}, {where['cores']} cores, {where['date']}.",
            "",
            markdown(headings, rows),
            "",
            "CPU and seconds are without what the clients take, from a server's start until its sums are sent. Off: "
            "the entry that is farthest from the histograms of the rows, in deviations of the noise. Load: the "
            "machine's average number of processes that want to run, before and after.",
            *goals(measured),
        ]
    )


def goals(measured: Sequence[dict[str, Any]]) -> list[str]:
    """Say whether a server of a million people without proofs stays within its CPU seconds."""
    asked = [max(one["cpu_s"]) for one in measured if one["clients"] >= CLIENTS and not one["proved"]]
    return [
        f"\nGoal: at most {GOAL:g} CPU s a server of a million people, not proved: {most:.2f}, "
        f"{'met' if most <= GOAL else 'missed'}."
        for most in asked
    ]
