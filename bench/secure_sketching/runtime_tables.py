"""Tables 3, 4 and 5 of the secure-sketching paper: run time and communication of the transform, for each server.

The job is the paper's: n clients' noisy shares of d = 10 columns lie on the servers' disks, every server applies a
sketch with k = 1000 rows and sparsity s to them, the sum is opened. Servers are real processes over TLS on loopback.

- *Table A, shares as words*, the paper's setting: every server reads n s d words from its disk, once from a file that
  has left the system's page cache ("cold"), once from one that has not ("warm").
- *Table B, a key for each client*: M - 1 servers hold n keys of 16 bytes and expand them, the last one holds words.
  Two jobs, hence two rows, never one average. It is what a collection stores.

One server works at a time, all on one processor (`table_server`), and the same processor has the peers' turn in every
run: `scipy.sparse` on the same words, and reading them. A figure is the minimum over runs of the slowest server. The
natural plain-MPyC program runs once a table. `paths` sets side by side how the same sketch comes about: additive and
Shamir shares on our runtime, Shamir shares on plain MPyC with our kernel and without, and MP-SPDZ's figures from their
file, with its own bytes.

The report has the shape of MP-SPDZ's: connection set-up apart, total time, one timer per phase, what no phase covers
("the rest"), data sent by each party, global data sent; MB = 10^6 bytes; and what the clients have to upload.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness import machine, markdown, summary, write
from bench.secure_sketching import table_server
from bench.secure_sketching.setting import CLIENTS, COLUMNS, PEER_SPARSITY, ROWS, Setting, task_of
from bench.secure_sketching.table_server import (
    COLD,
    CSC,
    IN_MEMORY,
    KEYS,
    PHASES,
    READING,
    TOGETHER,
    WARM,
    cost_file,
    keys_file,
    words_file,
)
from bench.secure_sketching.ways_to_sketch import MPYC_CLIENTS, paths, plain_mpyc, render_paths
from dpmpc.client import Client
from dpmpc.errors import InputError
from dpmpc.networked import Run, run_parties
from dpmpc.randomness import KEY_BYTES, Stream
from dpmpc.sharing import FileShare, expand_many
from dpmpc.task import Task

SHORT_PATHS = 10_000
RUNS = 10
DEADLINE = 1800.0  # seconds; a server waits until all others have had their turns
REST, ALL = "the rest", "all"
#: Rows of the tables: its name, the way to hold a share, and whether these servers hold keys.
TABLE_A = (("words, cold", COLD, False), ("words, warm", WARM, False))
TABLE_B = (("server with keys", KEYS, True), ("server with words", KEYS, False))


def write_shares(task: Task, folder: Path) -> None:
    """Play the clients: write every server's words, and the keys that all but the last server's words stand for."""
    stream = Stream.from_seed(task.clients)
    client, servers, each = Client(task, stream), task.trust.servers, task.copies * task.width
    files = [FileShare.create(words_file(folder, server), task.share_shape) for server in range(servers)]
    keys = [np.frombuffer(stream.bytes(KEY_BYTES * task.clients), np.uint8).reshape(-1, KEY_BYTES) for _ in files[:-1]]
    for server, own in enumerate(keys):
        keys_file(folder, server).write_bytes(own.tobytes())
    rng, step = np.random.default_rng(task.clients), max(1, (1 << 21) // each)
    for first in range(0, task.clients, step):
        block = slice(first, min(first + step, task.clients))
        count = block.stop - first
        last = client.randomize(rng.uniform(-1, 1, (count, COLUMNS)), first=first)
        for own, file in zip(keys, files, strict=False):
            words = expand_many(own[block], each, task.encoding.ring).reshape(last.shape)
            file[block] = words
            last = task.encoding.ring.subtract(last, words)
        files[-1][block] = last


def measure(setting: Setting, runs: int) -> dict[str, Any]:
    """Run one setting `runs` times in every way, with the peers' turn in each run."""
    task, processors = task_of(setting), sorted(os.sched_getaffinity(0))
    ways = [COLD, WARM, KEYS, *([TOGETHER] if len(processors) >= setting.servers else [])]
    with tempfile.TemporaryDirectory(prefix="dpmpc-tables-") as name:
        folder = Path(name)
        write_shares(task, folder)
        done = run_parties(
            table_server.__name__,
            task,
            lambda folders: None,
            arguments={"folder": name, "runs": runs, "ways": ways, "processors": processors},
            deadline=DEADLINE,
        )
        costs = [json.loads(cost_file(folder, party).read_text()) for party in range(setting.servers + 1)]
    return {**dataclasses.asdict(setting), **report(task, done, costs[:-1], ways), "peers_cpu_s": _peers(costs[-1])}


def _peers(costs: Sequence[Mapping[str, float]]) -> dict[str, dict[str, float]]:
    return {name: summary([cost[name] for cost in costs]) for name in (CSC, READING, IN_MEMORY)}


def report(task: Task, done: Run, costs: Sequence[Sequence[dict[str, Any]]], ways: Sequence[str]) -> dict[str, Any]:
    """Summarise what the servers measured, row by row: the slowest server of each phase, and the range of all."""
    rows = {
        name: _row([[cost for cost in server if cost["way"] == way and cost["keyed"] == keyed] for server in costs])
        for name, way, keyed in (*TABLE_A, *TABLE_B, *([(TOGETHER, TOGETHER, False)] if TOGETHER in ways else []))
    }
    opening = max(cost["phases"]["open"]["sent"] for server in costs for cost in server) / 1e6
    setups = [spent.setup_bytes_sent / 1e6 for spent in done.servers]
    words, servers = 8 * task.copies * task.width, task.trust.servers
    return {
        "rows": rows,
        "phases": rows[TABLE_A[1][0]]["phases"],
        "setup_s": max(spent.setup_s for spent in done.servers),
        "setup_sent_mb": max(setups),
        "open_sent_mb": opening,
        "sent_mb": max(setups) + opening,
        "global_sent_mb": sum(setups) + servers * opening,
        "upload_bytes": {"words": servers * words, "keys": (servers - 1) * KEY_BYTES + words},
        "fetched_mb": max(cost["fetched"] for server in costs for cost in server if cost["way"] == COLD) / 1e6,
        "peak_rss_mb": max(spent.peak_rss_mb for spent in done.servers),
    }


def _row(servers: Sequence[Sequence[dict[str, Any]]]) -> dict[str, Any]:
    """Summarise the servers that have the same job, each with its runs; servers without runs have another job."""
    found: dict[str, Any] = {}
    for phase in (*PHASES, REST, ALL):
        clocks = {
            clock: [summary([_seconds(cost, phase, clock) for cost in runs]) for runs in servers if runs]
            for clock in ("cpu_s", "wall_s")
        }
        found[phase] = {
            clock: {**max(own, key=lambda one: one["min"]), "least": min(one["min"] for one in own)}
            for clock, own in clocks.items()
        }
    return {"phases": found, "servers": sum(bool(runs) for runs in servers)}


def _seconds(cost: Mapping[str, Any], phase: str, clock: str) -> float:
    """Return what a phase took; "the rest" is what the clock counted and no phase did."""
    phases = cost["phases"]
    if phase == ALL:
        return float(cost[clock] + phases["open"][clock])
    if phase == REST:
        return max(0.0, float(cost[clock] - sum(phases[name][clock] for name in phases if name != "open")))
    return float(phases[phase][clock]) if phase in phases else 0.0


def ratios(measured: Sequence[dict[str, Any]], mpyc: dict[str, Any] | None) -> dict[str, float]:
    """Divide the peers' CPU time by that of our transform, of the same run: minima.

    Plain MPyC is compared with rows of as many servers as it had parties; None where it was not measured.
    """
    found: dict[str, float] = {}
    largest = max(entry["clients"] for entry in measured)
    for entry in measured:
        ours, shape = cpu(entry, TABLE_A[1][0], "transform"), f"n={entry['clients']}, s={entry['sparsity']}"
        if entry["clients"] == largest:
            for name, peer in entry["peers_cpu_s"].items():
                found[f"{name} / networked transform ({shape})"] = peer["min"] / ours
        if mpyc is not None and entry["sparsity"] == PEER_SPARSITY and alike(entry, mpyc):
            found[f"plain MPyC / networked transform ({shape}, {entry['servers']} servers)"] = (
                mpyc["transform_cpu_s"] / ours
            )
    return found


def alike(entry: Mapping[str, Any], mpyc: Mapping[str, Any]) -> bool:
    """Return whether a row has as many clients and servers as the run of plain MPyC."""
    return all(entry[name] == mpyc[name] for name in ("clients", "servers"))


def cpu(entry: Mapping[str, Any], row: str, phase: str, of: str = "min") -> float:
    """Return the CPU seconds of a row's slowest server: the minimum over runs, or their "mean"."""
    return float(entry["rows"][row]["phases"][phase]["cpu_s"][of])


def table(measured: Sequence[dict[str, Any]], rows: Sequence[tuple[str, str, bool]], upload: str) -> str:
    """Return Table A or B as Markdown."""
    timed = [phase for phase in PHASES if upload == "keys" or phase != "expand"]
    lines = []
    for entry in measured:
        for name, *_ in rows:
            of = entry["rows"][name]["phases"]
            cells = [f"{of[phase]['cpu_s']['min']:.4f} / {of[phase]['wall_s']['min']:.4f}" for phase in timed]
            whole = of[ALL]
            reading = entry["peers_cpu_s"][READING]["min"]
            lines.append(
                [
                    *(f"{entry[number]:,}" for number in ("clients", "sparsity", "servers")),
                    name,
                    *cells,
                    *(f"{of[phase]['cpu_s']['min']:.4f} / {of[phase]['wall_s']['min']:.4f}" for phase in (REST, ALL)),
                    f"{whole['cpu_s']['mean']:.4f}",
                    f"{whole['cpu_s']['least']:.4f} to {whole['cpu_s']['min']:.4f}",
                    f"{entry['peers_cpu_s'][CSC]['min'] / of['transform']['cpu_s']['min']:.2f}",
                    f"{sum(of[phase]['cpu_s']['min'] for phase in PHASES[:3]) / reading:.1f}",
                    f"{entry['open_sent_mb']:.4f}",
                    f"{entry['sent_mb']:.4f}",
                    f"{entry['global_sent_mb']:.4f}",
                    f"{entry['upload_bytes'][upload]:,}",
                ]
            )
    headings = (
        *("n", "s", "servers", "share" if upload == "words" else "server"),
        *timed,
        *(
            "the rest",
            "all",
            "all, CPU, mean of runs",
            "all, CPU, range of servers",
            "csc / transform",
            "(read to transform) / reading",
        ),
        *("opening sends (MB)", "server sends (MB)", "global (MB)", "a client uploads (bytes)"),
    )
    return markdown(headings, lines)


def render(title: str, content: dict[str, Any]) -> str:
    """Return the Markdown page of one table."""
    where, measured = content["machine"], content["measured"]
    before, after = content["load"]
    largest = measured[-1]
    runs = f"{content['runs']} runs" if content["runs"] > 1 else "one run"
    lines = [
        f"# {title}",
        "",
        f"d = {COLUMNS}, k = {ROWS}; seconds are CPU / wall of the slowest server, minimum of {runs}, and the "
        "mean of them for all phases together, as the paper has means; one server works "
        f"at a time, on one processor, and the others wait. {where['cpu']}, {where['cores']} cores, load average "
        f"{min(before, after):.0f} to {max(before, after):.0f}, Python {where['python']}, {where['date']}. "
        "The rest: what the clock of a server counts outside of the phases, above all verifying the task. A server's "
        "bytes: set-up and one opening. csc: `scipy.sparse` on the last server's words; reading: `words.max()`; both "
        "in each run, on the same processor.",
        "",
        "## A: shares as words",
        "",
        "All servers read words from their disks, the paper's setting. Cold: the file has left the page cache "
        f"(at n = {largest['clients']:,}, s = {largest['sparsity']} the system fetched {largest['fetched_mb']:.0f} MB "
        "for it); warm: it is there.",
        "",
        table(measured, TABLE_A, "words"),
        "",
        "## B: a key for each client",
        "",
        "M - 1 servers hold 16 bytes for each client and expand them, the last one holds words: two jobs, two rows.",
        "",
        table(measured, TABLE_B, "keys"),
        "",
        f"Set-up takes a server {max(entry['setup_s'] for entry in measured):.1f} s at most; memory of a server, over "
        f"all its runs: {max(entry['peak_rss_mb'] for entry in measured):.0f} MB at most. {_together(measured)}",
        "",
        "Peers' CPU time divided by that of our transform (Table A, warm), minima of the same run:",
        "",
        markdown(["ratio", "value"], [[name, f"{value:.2f}"] for name, value in content["ratios"].items()]),
        *content.get("more", []),
    ]
    return "\n".join([*lines, *render_paths(content.get("paths", []))])


def _together(measured: Sequence[dict[str, Any]]) -> str:
    """Say how long all servers take at once, where each had a processor."""
    found = [
        f"{entry['rows'][TOGETHER]['phases'][ALL]['wall_s']['min']:.3f} s (n = {entry['clients']:,}, "
        f"s = {entry['sparsity']}, {entry['servers']} servers)"
        for entry in measured
        if TOGETHER in entry["rows"]
    ]
    if not found:
        return "Wall time of all servers at once is not shown: fewer processors than servers."
    return f"Wall time with all servers at once, from warm files: {', '.join(found)}."


def main(
    name: str, title: str, settings: Sequence[Setting], arguments: Sequence[str], more: Sequence[str] = ()
) -> None:
    """Measure, print and write one table; `more` are lines of its page."""
    parser = argparse.ArgumentParser(prog=f"python -m bench {name}", description=title)
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of every row (default %(default)s)")
    parser.add_argument("--short", action="store_true", help="the two smallest n, three runs; nothing is written")
    parser.add_argument("--clients", type=int, nargs="+", default=CLIENTS, metavar="N", help="the n (default: all)")
    parser.add_argument("--no-ways", action="store_true", help="without plain MPyC and the other ways to the sketch")
    chosen = parser.parse_args(arguments)
    sizes = sorted(CLIENTS)[:2] if chosen.short else chosen.clients
    picked = [setting for setting in settings if setting.clients in sizes]
    if not picked:
        raise InputError(f"clients: {chosen.clients} given, some of {', '.join(map(str, CLIENTS))} expected")
    runs, load = 3 if chosen.short else chosen.runs, [os.getloadavg()[0]]
    measured = []
    for setting in picked:
        print(f"{name}: {setting}", file=sys.stderr)
        measured.append(measure(setting, runs))
    mpyc = None if chosen.no_ways else plain_mpyc()
    of_peers = [setting for setting in picked if setting.sparsity == PEER_SPARSITY and not chosen.no_ways]
    ways = paths(of_peers, SHORT_PATHS if chosen.short else MPYC_CLIENTS, runs)
    content = {
        "title": title,
        "machine": machine(),
        "load": [*load, os.getloadavg()[0]],
        "runs": runs,
        "columns": COLUMNS,
        "rows": ROWS,
        "measured": measured,
        "plain_mpyc": mpyc,
        "ratios": ratios(measured, mpyc),
        "paths": ways,
        "more": more,
    }
    text = render(title, content)
    print(text)
    if not chosen.short:
        write(name, content, text)
