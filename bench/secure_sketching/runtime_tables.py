"""Tables 3, 4 and 5 of the secure-sketching paper: run time and communication of Algorithm 1, for each server.

A row is several runs of ``protocols/linear_transform.py -M servers --shares DIR``: M processes of this machine, on
MPyC's own links. Each reads n s d words from its disk, as clients have sent them in the paper's setting, sketches them
once, and shows its share of the sums to party 0. A server sketches a batch once, so that a process does, too: that
memory is touched for the first time counts. Beside it stands a second pass in the same process (`second_pass`). Each
run has a fresh folder of shares, since a folder is opened once.

Seconds are of the clock of each process: mean and least over all processes of all runs. With fewer processors than
servers these wait for one another, which CPU seconds do not count, and share caches, which they do. Agreeing on the
task, verifying it above all, stands apart. Bytes are those of MPyC's messages.

Peers: one cold pass of our kernel, of `scipy.sparse` and of reading alone over the words of server 0, each in a process
of its own (`one_pass`); the natural MPyC program (`plain_mpyc`) where n is small enough; and MP-SPDZ's stored figures.
The paper averages seconds on AWS machines and counts the distribution of rows; its tables' figures are lost in our
copy, so that no row is compared with them.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bench.harness import machine, markdown, summary, write
from bench.secure_sketching.one_pass import WAYS
from bench.secure_sketching.plain_mpyc_runs import MPYC_CLIENTS, mp_spdz_rows, plain_mpyc, stored_mp_spdz
from bench.secure_sketching.setting import CLIENTS, COLUMNS, ROWS, Setting, task_of
from bench.system.ports import free_ports
from dpmpc.base.errors import BenchFailed, InputError
from dpmpc.base.randomness import Stream
from dpmpc.linear.sharing.batch import SHARE_FILE, FileShare, open_share
from dpmpc.parties.mpyc.costs import PartyCost
from dpmpc.parties.mpyc.share_folders import TASK_FILE, write_task
from dpmpc.parties.network.processes import ONE_THREAD
from dpmpc.privacy.task import Task
from dpmpc.release.client import share_batch
from dpmpc.release.planning.cost import byte_fields
from dpmpc.release.release import Release
from dpmpc.release.server import sketch_share

PROGRAM = Path(__file__).parents[2] / "protocols" / "linear_transform.py"
SECOND_PASS = Path(__file__).with_name("second_pass.py")
PHASES = ("read", "transform", "open")
RUNS = 6
SECONDS = 600  # that a run may take
_AT_ONCE = 1 << 22  # words that are copied at once


def write_words(task: Task, out: Path) -> None:
    """Play the clients: write ``out/party-J`` of each server, with all of its share as words."""
    rows = np.random.default_rng(task.clients).uniform(-1, 1, (task.clients, COLUMNS))
    each = task.copies * task.width
    folders = [out / f"party-{server}" for server in range(task.trust.servers)]
    for folder in folders:
        folder.mkdir(parents=True)
        write_task(folder / TASK_FILE, task)
    last = FileShare.create(folders[-1] / SHARE_FILE, task.share_shape, task.encoding.ring)
    shares = share_batch(task, rows, stream=Stream.from_seed(task.clients), storage=lambda server: last)
    step = max(1, _AT_ONCE // each)
    for folder, share in zip(folders[:-1], shares, strict=False):
        file = FileShare.create(folder / SHARE_FILE, task.share_shape, task.encoding.ring)
        for first in range(0, task.clients, step):
            count = min(step, task.clients - first)
            file[slice(first, first + count)] = share.rows(first, count)


def fresh(shares: Path, out: Path) -> Path:
    """Return a folder with the same shares and tasks that no run has used; the files are not copied."""
    for folder in sorted(shares.iterdir()):
        (out / folder.name).mkdir(parents=True)
        for name in (SHARE_FILE, TASK_FILE):
            os.link(folder / name, out / folder.name / name)
    return out


def run_program(program: Path, shares: Path, servers: int, *options: object) -> list[PartyCost]:
    """Start a program with all its parties by MPyC's launcher; return what each has spent."""
    with tempfile.TemporaryDirectory() as folder:
        costs = Path(folder) / "costs"
        arguments = ["--shares", shares, "--analyst", 0, "--costs", costs, *options]
        command = [sys.executable, program, f"-M{servers}", "-B", free_ports(servers)[0], "--no-log", *arguments]
        done = subprocess.run(
            [str(part) for part in command],
            env=ONE_THREAD | os.environ,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise BenchFailed(program.name, f"exit status {done.returncode}: {done.stderr[-1000:]}")
        return msgspec.json.decode(costs.read_bytes(), type=list[PartyCost])


def measure(setting: Setting, runs: int) -> dict[str, Any]:
    """Run one setting `runs` times, with a second pass and the peers in each."""
    task = task_of(setting)
    with tempfile.TemporaryDirectory(prefix="dpmpc-tables-") as name:
        folder = Path(name)
        shares = folder / "shares"
        write_words(task, shares)
        expected = opened_by(task, shares)
        spent, second, peers = [], [], []
        for turn in range(runs):
            release = folder / f"release-{turn}"
            spent.append(
                run_program(PROGRAM, fresh(shares, folder / f"run-{turn}"), setting.servers, "--release", release)
            )
            if not np.array_equal(Release.load(release, longest=SECONDS).sums, expected):
                raise BenchFailed(f"run {turn} opened other sums than the shares of all servers make")
            second.append(run_program(SECOND_PASS, fresh(shares, folder / f"second-{turn}"), setting.servers))
            peers.append({way: one_pass(way, shares / "party-0") for way in WAYS})
            if peers[-1]["csc"]["digest"] != peers[-1]["kernel"]["digest"]:
                raise BenchFailed("scipy.sparse computes other sums than our kernel from the same words")
    return {**dataclasses.asdict(setting), **report(task, spent, second), "peers_cpu_s": _peers(peers)}


def opened_by(task: Task, shares: Path) -> Any:
    """Return the sums that the shares of all servers make."""
    ring = task.encoding.ring
    sketched = [sketch_share(task.sketch, open_share(folder / SHARE_FILE, ring)) for folder in sorted(shares.iterdir())]
    return ring.lift(ring.sum_of(sketched, name="shares"))


def one_pass(way: str, folder: Path) -> dict[str, Any]:
    """Run a peer over the words of a server, in a fresh process."""
    command = [sys.executable, "-m", "bench.secure_sketching.one_pass", way, str(folder)]
    done = subprocess.run(
        command, env=ONE_THREAD | os.environ, capture_output=True, text=True, timeout=SECONDS, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _peers(turns: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, dict[str, float]]]:
    return {
        way: {phase: summary([turn[way][phase] for turn in turns]) for phase in ("read", "transform")} for way in WAYS
    }


def report(task: Task, spent: Sequence[Sequence[PartyCost]], second: Sequence[Sequence[PartyCost]]) -> dict[str, Any]:
    """Summarise what the processes of all runs have spent."""
    processes, warm = [cost for run in spent for cost in run], [cost for run in second for cost in run]

    def clocks(costs: Sequence[PartyCost], phase: str) -> dict[str, dict[str, float]]:
        return {clock: summary([getattr(cost.phases[phase], clock) for cost in costs]) for clock in ("cpu_s", "wall_s")}

    return {
        "phases": {phase: clocks(processes, phase) for phase in (*PHASES, "agree")},
        "second_pass": {phase: clocks(warm, phase) for phase in ("read", "transform")},
        "sent_mb": max(cost.bytes_sent for cost in processes) / 1e6,
        "global_sent_mb": sum(cost.bytes_sent for cost in spent[0]) / 1e6,
        "rounds": spent[0][0].rounds,
        "upload_bytes": byte_fields(task)["client_to_all_servers"],
        "peak_rss_mb": max(cost.peak_rss_mb for cost in processes),
    }


def seconds(entry: Mapping[str, Any], of: str = "mean", clock: str = "cpu_s") -> float:
    """Return what reading, transforming and opening took together."""
    return sum(float(entry["phases"][phase][clock][of]) for phase in PHASES)


def ratios(measured: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Divide peers' figures by ours of the same row; means of CPU seconds, or bytes."""
    found: dict[str, float] = {}
    for entry in measured:
        shape = f"n={entry['clients']}, s={entry['sparsity']}, {entry['servers']} servers"
        phases, peers, plain = entry["phases"], entry["peers_cpu_s"], entry.get("plain_mpyc")
        if entry["clients"] == max(one["clients"] for one in measured):
            found[f"a server's read and transform / one pass of our kernel ({shape})"] = sum(
                phases[phase]["cpu_s"]["mean"] for phase in ("read", "transform")
            ) / sum(peers["kernel"][phase]["mean"] for phase in ("read", "transform"))
            found[f"scipy csc / transform ({shape})"] = (
                peers["csc"]["transform"]["mean"] / phases["transform"]["cpu_s"]["mean"]
            )
        if plain is not None:
            found[f"natural MPyC / read, transform and open ({shape})"] = plain["cpu_s"] / seconds(entry)
            found[f"natural MPyC / transform ({shape})"] = (
                plain["transform_cpu_s"] / phases["transform"]["cpu_s"]["mean"]
            )
            found[f"natural MPyC / bytes that a server sends ({shape})"] = plain["sent_mb"] / entry["sent_mb"]
    return found


def table(measured: Sequence[dict[str, Any]]) -> str:
    """Return the rows as Markdown."""
    theirs = {(row["clients"], row["sparsity"], row["servers"]): row for row in mp_spdz_rows(stored_mp_spdz())}
    lines = []
    for entry in measured:
        phases, peers, plain = entry["phases"], entry["peers_cpu_s"], entry.get("plain_mpyc")
        spdz = theirs.get((entry["clients"], entry["sparsity"], entry["servers"]))
        warm = entry["second_pass"]
        lines.append(
            [
                *(f"{entry[number]:,}" for number in ("clients", "sparsity", "servers")),
                *(f"{phases[phase]['cpu_s']['mean']:.4f}" for phase in PHASES),
                *(f"{seconds(entry, of):.4f} / {seconds(entry, of, 'wall_s'):.4f}" for of in ("mean", "min")),
                f"{sum(warm[phase]['cpu_s']['min'] for phase in warm):.4f}",
                f"{phases['agree']['cpu_s']['mean']:.4f}",
                f"{entry['sent_mb']:.4f}",
                f"{entry['global_sent_mb']:.4f}",
                f"{entry['upload_bytes']:,}",
                " + ".join(f"{count} {name}" for name, count in sorted(entry["rounds"].items())),
                f"{peers['kernel']['read']['mean'] + peers['kernel']['transform']['mean']:.4f}",
                f"{peers['csc']['transform']['mean']:.4f}",
                f"{peers['reading']['read']['mean'] + peers['reading']['transform']['mean']:.4f}",
                "" if plain is None else f"{plain['cpu_s']:.2f} ({plain['sent_mb']:.1f} MB)",
                "" if spdz is None else f"{spdz['read'] + spdz['transform'] + spdz['open']:.3f}",
            ]
        )
    headings = (
        *("n", "s", "servers", *PHASES, "time, mean (CPU / wall)", "time, least (CPU / wall)"),
        *("second pass, least", "agree", "sends (MB)", "global (MB)", "a client uploads (bytes)", "rounds"),
        *("kernel, one pass", "scipy csc, transform", "reading", "natural MPyC", "MP-SPDZ"),
    )
    return markdown(headings, lines)


def render(title: str, content: dict[str, Any]) -> str:
    """Return the Markdown page of one table."""
    where, measured = content["machine"], content["measured"]
    before, after = content["load"]
    return "\n".join(
        [
            f"# {title}",
            "",
            f"d = {COLUMNS}, k = {ROWS}; seconds of CPU (or CPU / wall) of a server, over all servers of "
            f"{content['runs']} runs of `linear_transform.py -M`, each with fresh processes. {where['cpu']}, "
            f"{where['cores']} cores, which all servers share; load average {min(before, after):.1f} to "
            f"{max(before, after):.1f}; Python {where['python']}, {where['date']}. Time: read, transform and open. A "
            "server sends its share of the sums to party 0, the digests of the task to all, and what it has spent. A "
            "client uploads words to one server and a key of 16 bytes to each other; the files hold words.",
            "",
            table(measured),
            "",
            "Peers, CPU seconds. Kernel, `scipy.sparse` and reading: one pass over the words of server 0, in a process "
            "of its own. Natural MPyC: `plain_mpyc.py`, input, transform and opening of party 0, once. "
            f"{spdz_origin(stored_mp_spdz())}",
            "",
            markdown(["ratio", "value"], [[name, f"{value:.2f}"] for name, value in content["ratios"].items()]),
            *content.get("more", []),
        ]
    )


def spdz_origin(content: Mapping[str, Any]) -> str:
    """Say how MP-SPDZ's figures were made."""
    if content["transcribed"]:
        return (
            "MP-SPDZ (semi2k, three servers): read, transform and open, transcribed by hand; date, machine, version "
            "and command were not kept, so compare magnitudes (`python -m bench mp_spdz --home DIR` measures yours)."
        )
    where = content["machine"]
    return f"MP-SPDZ {content['version']}: `python -m bench mp_spdz`, {where['cpu']}, {where['date']}."


def main(
    name: str, title: str, settings: Sequence[Setting], arguments: Sequence[str], more: Sequence[str] = ()
) -> None:
    """Measure, print and write one table; `more` are lines of its page."""
    parser = argparse.ArgumentParser(prog=f"python -m bench {name}", description=title)
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of every row (default %(default)s)")
    parser.add_argument("--short", action="store_true", help="the smallest n, two runs; nothing is written")
    parser.add_argument(
        "--clients",
        type=int,
        nargs="+",
        default=CLIENTS,
        metavar="N",
        help="the n (default: all); others are not written",
    )
    parser.add_argument("--no-mpyc", action="store_true", help="without the natural MPyC program")
    chosen = parser.parse_args(arguments)
    sizes = sorted(CLIENTS)[:1] if chosen.short else chosen.clients
    picked = [
        setting
        for size in sizes
        for setting in dict.fromkeys(dataclasses.replace(setting, clients=size) for setting in settings)
    ]
    if min(sizes) < ROWS:
        raise InputError("clients", min(sizes), f"at least {ROWS}", "as many as the sketch has rows")
    runs, load = 2 if chosen.short else chosen.runs, [os.getloadavg()[0]]
    measured = []
    for setting in sorted(picked, key=dataclasses.astuple):
        print(f"{name}: {setting}", file=sys.stderr)
        entry = measure(setting, runs)
        if setting.clients <= MPYC_CLIENTS and not chosen.no_mpyc:
            entry["plain_mpyc"] = plain_mpyc(setting.clients, setting.sparsity, setting.servers)
        measured.append(entry)
    content = {
        "title": title,
        "machine": machine(),
        "load": [*load, os.getloadavg()[0]],
        "runs": runs,
        "columns": COLUMNS,
        "rows": ROWS,
        "measured": measured,
        "ratios": ratios(measured),
        "more": more,
    }
    text = render(title, content)
    print(text)
    if not chosen.short and set(sizes) <= set(CLIENTS):
        write(name, content, text)
