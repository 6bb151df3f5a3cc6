"""Three ways to noise the same sketch: each copy by the clients, one copy by the clients, the sums by the servers.

The job: n clients' rows of d columns meet an OSNAP with s = 8; three servers and an analyst are processes that talk
over TLS on loopback. Compared under one guarantee: variance of a released row, what a client uploads, what a server
stores, seconds of clients and servers. The first two ways trust n - 1 - t clients to add their noise; the last trusts
none (theorems one-copy and sketch-gaussian).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.harness import machine, markdown, plus_minus, summary, write
from dpmpc.base.randomness import Stream
from dpmpc.data import Schema
from dpmpc.parties.networked import NetworkedRun, run
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.privacy.task import Task
from dpmpc.release.planning import design

CLIENTS, COLUMNS, ROWS, SPARSITY, RUNS = 200_000, 10, 1000, 8, 5
KEY_BYTES = 16
WAYS: dict[str, dict[str, Any]] = {
    "each copy by the clients": {"copies": "each"},
    "one copy by the clients": {"copies": "one"},
    "the sums by the servers": {"noise_by": "servers"},
}


def task_of(way: str, clients: int) -> Task:
    """Design the job under (1, 1e-7)-differential privacy."""
    names = [f"x{column}" for column in range(COLUMNS)]
    sizes: dict[str, Any] = {"sketch": "osnap", "rows": ROWS, "sparsity": SPARSITY, "simulation_seed": 1}
    return design(ReleaseSpec.of(Schema.unit(names), clients, 1.0, 1e-7, **sizes, **WAYS[way]))


def figures(task: Task, runs: Sequence[NetworkedRun]) -> dict[str, Any]:
    """Summarise what one option costs, over runs and servers."""
    servers = [spent for run_ in runs for spent in run_.servers]
    words = task.copies * task.width
    return {
        "released_variance": float((task.noise_terms * task.noise.variance).mean() * runs[0].release.unit ** 2),
        "client_bytes": 8 * words + KEY_BYTES * (task.trust.servers - 1),
        "spool_mb": 8 * words * task.clients / 1e6,
        "clients_s": summary([run_.clients_s for run_ in runs]),
        "server_cpu_s": summary([spent.cpu_s for spent in servers]),
        "transform_cpu_s": summary([spent.phases["transform"].cpu_s for spent in servers]),
        "server_sent_mb": summary([spent.bytes_sent / 1e6 for spent in servers]),
    }


def render(content: dict[str, Any]) -> str:
    """Return the Markdown page."""
    first = next(iter(content["ways"].values()))
    rows = [
        [
            way,
            f"{entry['released_variance'] / first['released_variance']:.3f}",
            str(entry["client_bytes"]),
            f"{entry['spool_mb']:.1f}",
            plus_minus(entry["clients_s"], 2),
            plus_minus(entry["server_cpu_s"]),
            plus_minus(entry["transform_cpu_s"]),
            f"{entry['server_sent_mb']['mean']:.4f}",
            *(f"{entry[time]['median'] / first[time]['median']:.2f}" for time in ("clients_s", "server_cpu_s")),
        ]
        for way, entry in content["ways"].items()
    ]
    headings = (
        *("noise", "variance of a row (ratio)", "client sends (bytes)", "last server stores (MB)"),
        *("clients (s)", "server CPU (s)", "transform CPU (s)", "server sends (MB)"),
        *("clients' time (ratio)", "server CPU (ratio)"),
    )
    where = content["machine"]
    return "\n".join(
        [
            "# Who adds the noise, and to what",
            "",
            f"n = {content['clients']:,}, d = {COLUMNS}, k = {ROWS}, s = {SPARSITY}, (1, 1e-7), three servers; "
            f"mean ± sd over {content['runs']} interleaved runs and the servers. Ratios of medians are to the first "
            f"line. {where['cpu']}, {where['cores']} cores, {where['date']}.",
            "",
            markdown(headings, rows),
        ]
    )


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write the comparison."""
    parser = argparse.ArgumentParser(prog="python -m bench noising", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each (default %(default)s)")
    parser.add_argument("--clients", type=int, default=CLIENTS, help="n (default %(default)s)")
    chosen = parser.parse_args(arguments)
    rows = np.random.default_rng(0).uniform(-1, 1, (chosen.clients, COLUMNS))
    tasks = {way: task_of(way, chosen.clients) for way in WAYS}
    collected: dict[str, list[NetworkedRun]] = {way: [] for way in WAYS}
    for number in range(chosen.runs):
        print(f"noising: run {number + 1} of {chosen.runs}", file=sys.stderr)
        for way, task in tasks.items():
            collected[way].append(run(task, rows, stream=Stream.from_seed(number)))
    content = {
        "machine": machine(),
        "runs": chosen.runs,
        "clients": chosen.clients,
        "ways": {way: figures(tasks[way], runs) for way, runs in collected.items()},
    }
    text = render(content)
    print(text)
    if (chosen.runs, chosen.clients) == (RUNS, CLIENTS):
        write("noising", content, text)
