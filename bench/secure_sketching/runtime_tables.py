"""Tables 3, 4 and 5 of the secure-sketching paper: run time and communication of the transform, per server.

The job is the paper's: n clients' noisy shares of d = 10 columns lie on the servers' disks, every server applies a
sketch with k = 1000 rows and sparsity s to them, the sum is opened. Each figure is the mean and standard deviation
over repeated runs of real processes over TLS on loopback. In the same interleaved runs two peers do the same
arithmetic in this process: `scipy.sparse` (CSC and CSR) on the same uint64 data; and once per table the natural
plain-MPyC program. `paths` sets side by side how the same sketch comes about: additive and Shamir shares on our
runtime, Shamir shares on plain MPyC with our kernel and without, and MP-SPDZ's figures from their file.

The report has the shape of MP-SPDZ's: connection set-up apart, total time, one timer per phase with its megabytes, data
sent by each party, global data sent; MB = 10^6 bytes.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from bench.harness import RESULTS, cpu_seconds, machine, markdown, plus_minus, summary, write
from dpmpc.bounds import Schema
from dpmpc.client import share_batch
from dpmpc.network.launch import ONE_THREAD
from dpmpc.networked import NetworkedRun, run_servers
from dpmpc.planning import ReleaseSpec, design
from dpmpc.randomness import Stream
from dpmpc.task import Task

COLUMNS, ROWS = 10, 1000
CLIENTS = (100_000, 200_000, 500_000, 1_000_000)
PEER_SPARSITY, PEER_SERVERS = 4, 3
MPYC_CLIENTS = 100_000
SHORT_PATHS = 10_000
MP_SPDZ = RESULTS / "mp_spdz.json"
RUNS = 10


@dataclasses.dataclass(frozen=True)
class Setting:
    """One row of a table."""

    clients: int
    sparsity: int
    servers: int


def task_of(setting: Setting, **choices: Any) -> Task:
    """Design the job of one row, under (1, 1e-7)-differential privacy; `choices` are others of `ReleaseSpec.of`."""
    return design(
        ReleaseSpec.of(
            Schema.unit([f"x{column}" for column in range(COLUMNS)]),
            setting.clients,
            1.0,
            1e-7,
            sketch="osnap",
            rows=ROWS,
            sparsity=setting.sparsity,
            servers=setting.servers,
            copies="each",
            fractional_bits=20,
            simulation_seed=1,
            **choices,
        )
    )


def measure(setting: Setting, runs: int, *, peers: bool) -> dict[str, Any]:
    """Run one setting `runs` times, with scipy's products interleaved where `peers` is set."""
    task = task_of(setting)
    rng = np.random.default_rng(setting.clients)
    rows = rng.uniform(-1, 1, (setting.clients, COLUMNS))
    products = scipy_products(task, rng) if peers else {}
    timings: dict[str, list[float]] = {name: [] for name in products}
    shares = share_batch(task, rows, stream=Stream.from_seed(setting.clients))
    collected: list[NetworkedRun] = []
    for _ in range(runs):
        collected.append(run_servers(task, shares))
        for name, product in products.items():
            timings[name].append(cpu_seconds(product))
    return {
        **dataclasses.asdict(setting),
        **figures(collected),
        "peers_cpu_s": {n: summary(t) for n, t in timings.items()},
    }


def figures(collected: Sequence[NetworkedRun]) -> dict[str, Any]:
    """Summarise runs and servers, phase by phase."""
    servers = [spent for run_ in collected for spent in run_.servers]
    phases = {
        phase: {
            "wall_s": summary([spent.phases[phase].wall_s for spent in servers]),
            "cpu_s": summary([spent.phases[phase].cpu_s for spent in servers]),
            "sent_mb": summary([spent.phases[phase].bytes_sent / 1e6 for spent in servers]),
        }
        for phase in ("read", "transform", "open")
    }
    return {
        "setup_s": summary([spent.setup_s for spent in servers]),
        "setup_sent_mb": summary([spent.setup_bytes_sent / 1e6 for spent in servers]),
        "time_s": summary([spent.total_s for spent in servers]),
        "phases": phases,
        "sent_mb": summary([spent.bytes_sent / 1e6 for spent in servers]),
        "received_mb": summary([spent.bytes_received / 1e6 for spent in servers]),
        "payload_bytes": max(spent.payload_sent for spent in servers),
        "global_sent_mb": summary([sum(r.bytes_sent for r in run_.servers) / 1e6 for run_ in collected]),
        "peak_rss_mb": max(spent.peak_rss_mb for spent in servers),
    }


def scipy_products(task: Task, rng: np.random.Generator) -> dict[str, Any]:
    """Do the same arithmetic with scipy.sparse on uint64: the copies side by side, one non-zero per column."""
    clients, copies, _ = task.share_shape
    data = rng.integers(0, 1 << 63, (clients * copies, COLUMNS), dtype=np.uint64)
    places, signs = task.sketch.entries(0, clients)
    minus_one = np.uint64(2**64 - 1)  # numpy would promote int64 with uint64 to float64
    values = np.where(signs.ravel() < 0, minus_one, np.uint64(1))
    csc = scipy.sparse.csc_matrix(
        (values, places.ravel(), np.arange(clients * copies + 1)), shape=(task.sketch.rows, clients * copies)
    )
    csr = csc.tocsr()
    ours = data.reshape(clients, copies, COLUMNS)
    return {
        "dpmpc kernel in memory": lambda: task.sketch.apply(ours),
        "scipy csc": lambda: csc @ data,
        "scipy csr": lambda: csr @ data,
    }


def plain_mpyc(
    clients: int = MPYC_CLIENTS, sparsity: int = PEER_SPARSITY, servers: int = PEER_SERVERS, method: str = "sums"
) -> dict[str, Any]:
    """Run the job in plain MPyC, by its own launcher, and read what party 0 prints; `method` as in `plain_mpyc.py`."""
    program = Path(__file__).with_name("plain_mpyc.py")
    numbers = [str(number) for number in (clients, COLUMNS, ROWS, sparsity)]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, str(program), f"-M{servers}", *numbers, method],
            cwd=folder,
            env=ONE_THREAD | os.environ,
            capture_output=True,
            text=True,
            timeout=600,
            check=True,
        )
    line = next(line for line in done.stdout.splitlines() if line.startswith("{"))  # MPyC logs around it
    result: dict[str, Any] = json.loads(line)
    if not result["correct"]:
        raise RuntimeError("the plain MPyC program opened a wrong sum")
    return result


def ratios(measured: Sequence[dict[str, Any]], mpyc: dict[str, Any]) -> dict[str, float]:
    """Divide the peers' CPU time by ours, from this run: medians. Plain MPyC has three parties whatever a row has."""
    found: dict[str, float] = {}
    for entry in measured:
        ours = entry["phases"]["transform"]["cpu_s"]["median"]
        for name, peer in entry["peers_cpu_s"].items():
            found[f"{name} / networked transform (n={entry['clients']})"] = peer["median"] / ours
        if entry["clients"] == mpyc["clients"] and entry["sparsity"] == PEER_SPARSITY:
            name = f"plain MPyC / networked transform (n={entry['clients']}, {entry['servers']} servers)"
            found[name] = mpyc["transform_cpu_s"] / ours
    return found


def render(title: str, content: dict[str, Any]) -> str:
    """Return the Markdown page of one table."""
    rows = [
        [
            f"{entry['clients']:,}",
            str(entry["sparsity"]),
            str(entry["servers"]),
            plus_minus(entry["time_s"]),
            *(plus_minus(entry["phases"][phase]["wall_s"], 4) for phase in ("read", "transform", "open")),
            f"{entry['phases']['open']['sent_mb']['mean']:.4f}",
            f"{entry['sent_mb']['mean']:.4f}",
            f"{entry['global_sent_mb']['mean']:.4f}",
            f"{entry['setup_s']['mean']:.2f}",
            f"{entry['peak_rss_mb']:.0f}",
        ]
        for entry in content["measured"]
    ]
    headings = (
        *("n", "s", "servers", "time (s)", "read shares (s)", "transform (s)", "open (s)"),
        *("open sends (MB)", "server sends (MB)", "global (MB)", "set-up (s)", "peak RSS (MB)"),
    )
    where = content["machine"]
    lines = [
        f"# {title}",
        "",
        f"d = {COLUMNS}, k = {ROWS}; mean ± sd over servers and {content['runs']} runs of processes over loopback TLS. "
        f"{where['cpu']}, {where['cores']} cores, Python {where['python']}, {where['date']}.",
        "",
        markdown(headings, rows),
        "",
        "Peers' CPU time divided by ours, medians of the same run:",
        "",
        markdown(["ratio", "value"], [[name, f"{value:.2f}"] for name, value in content["ratios"].items()]),
    ]
    return "\n".join([*lines, *render_paths(content.get("paths", []))])


def paths(settings: Sequence[Setting], clients: int, runs: int) -> list[dict[str, Any]]:
    """Measure each way to the same sketch: on our runtime, with either sharing; on plain MPyC, with our kernel or not.

    CPU seconds of a server, medians: of what brings its shares in, and of the transform. `runs` are those of our own
    programs and of the kernel; the natural MPyC program runs once.
    """
    found = []
    for sparsity, servers in sorted({(setting.sparsity, setting.servers) for setting in settings}):
        setting = Setting(clients, sparsity, servers)
        for name, choices in (("additive, our runtime", {}), ("Shamir, our runtime", {"sharing": "shamir"})):
            if servers < 3 and choices:
                continue  # fewer keep no secret: a majority of two is two
            print(f"paths: {name}: {setting}", file=sys.stderr)
            task = task_of(setting, **choices)
            rows = np.random.default_rng(clients).uniform(-1, 1, (clients, COLUMNS))
            shares = share_batch(task, rows, stream=Stream.from_seed(clients))
            entry = figures([run_servers(task, shares) for _ in range(runs)])
            cpu = {phase: entry["phases"][phase]["cpu_s"]["median"] for phase in ("read", "transform")}
            found.append(_path(setting, name, cpu["read"], cpu["transform"], entry["sent_mb"]["mean"]))
        for name, method, times in (("Shamir, plain MPyC, our kernel", "kernel", runs), ("plain MPyC", "sums", 1)):
            print(f"paths: {name}: {setting}", file=sys.stderr)
            done = [plain_mpyc(clients, sparsity, servers, method) for _ in range(times)]
            cpu = {step: float(np.median([one[f"{step}_cpu_s"] for one in done])) for step in ("input", "transform")}
            sharing = "Shamir, " if servers > 2 else "no secrecy, "
            found.append(
                _path(
                    setting, sharing + name.removeprefix("Shamir, "), cpu["input"], cpu["transform"], done[0]["sent_mb"]
                )
            )
        found += [
            _path(setting, "additive, MP-SPDZ semi2k (transcribed)", peer["read"], peer["transform"], None)
            for peer in json.loads(MP_SPDZ.read_text())["measured"]
            if (peer["clients"], peer["sparsity"], PEER_SERVERS) == (clients, sparsity, servers)
        ]
    return found


def _path(setting: Setting, name: str, input_s: float, transform_s: float, sent_mb: float | None) -> dict[str, Any]:
    costs = {"path": name, "input_cpu_s": input_s, "transform_cpu_s": transform_s, "sent_mb": sent_mb}
    return {**dataclasses.asdict(setting), **costs}


def render_paths(measured: Sequence[dict[str, Any]]) -> list[str]:
    """Return the lines that compare the ways to the same sketch; none where they were not measured."""
    if not measured:
        return []
    rows = [
        [
            f"{entry['clients']:,}",
            str(entry["sparsity"]),
            str(entry["servers"]),
            entry["path"],
            *(f"{entry[step]:.4f}" for step in ("input_cpu_s", "transform_cpu_s")),
            "" if entry["sent_mb"] is None else f"{entry['sent_mb']:.3f}",
        ]
        for entry in measured
    ]
    return [
        "",
        "Ways to the same sketch, CPU seconds of one server. Input: our servers and those of MP-SPDZ read shares from "
        "their disk; in plain MPyC party 0 deals all rows, and its figures are shown, the bytes of that included. "
        "With two parties MPyC's threshold is 0: each sees everything. MP-SPDZ: mp_spdz.json, measured apart, of three "
        "servers.",
        "",
        markdown(["n", "s", "servers", "path", "input (CPU s)", "transform (CPU s)", "sends (MB)"], rows),
    ]


def main(name: str, title: str, settings: Sequence[Setting], arguments: Sequence[str]) -> None:
    """Measure, print and write one table."""
    parser = argparse.ArgumentParser(prog=f"python -m bench {name}", description=title)
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of every row (default %(default)s)")
    parser.add_argument("--short", action="store_true", help="the two smallest n, three runs; nothing is written")
    chosen = parser.parse_args(arguments)
    smallest = sorted(CLIENTS)[:2]
    picked = [setting for setting in settings if not chosen.short or setting.clients in smallest]
    runs = 3 if chosen.short else chosen.runs
    with_peers = max((s for s in picked if s.sparsity == PEER_SPARSITY), key=lambda s: s.clients)
    measured = []
    for setting in picked:
        print(f"{name}: {setting}", file=sys.stderr)
        measured.append(measure(setting, runs, peers=setting == with_peers))
    mpyc = plain_mpyc()
    ways = paths(
        [setting for setting in picked if not chosen.short or setting.sparsity == PEER_SPARSITY],
        SHORT_PATHS if chosen.short else MPYC_CLIENTS,
        runs,
    )
    content = {
        "title": title,
        "machine": machine(),
        "runs": runs,
        "columns": COLUMNS,
        "rows": ROWS,
        "measured": measured,
        "plain_mpyc": mpyc,
        "ratios": ratios(measured, mpyc),
        "paths": ways,
    }
    text = render(title, content)
    print(text)
    if not chosen.short:
        write(name, content, text)
