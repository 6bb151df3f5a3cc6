"""Algorithm 1 on three hosts, with delay between them: network namespaces of this machine (`bench.system.wire`).

Each host starts ``dpmpc run protocols/linear_transform.py -P ... -I i`` with an identity of its own and a folder of
shares, and party 0 opens the sketch. Servers send nothing before the opening but the digests of the task, so that the
delay counts as often as there are rounds. All hosts share the processors of this machine; TLS and the farewell are not
in the figures, which begin when all are connected.
"""

from __future__ import annotations

import argparse
import datetime
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bench.harness import machine, markdown, summary, write
from bench.secure_sketching.runtime_tables import PHASES, PROGRAM, SECONDS, fresh, opened_by, write_words
from bench.secure_sketching.setting import COLUMNS, ROWS, Setting, task_of
from bench.system.wire import Wire
from dpmpc.base.errors import BenchFailed
from dpmpc.parties.mpyc.costs import PartyCost
from dpmpc.parties.network.identity import write_identity
from dpmpc.parties.network.processes import ONE_THREAD
from dpmpc.release.release import Release

SERVERS, PORT = 3, 9000
DELAYS = (0.0, 0.01, 0.04)  # seconds, one way
RUNS = 3


def measure(setting: Setting, delay: float, runs: int) -> dict[str, Any]:
    """Run the program `runs` times among hosts; return what a server has spent."""
    task = task_of(setting)
    with tempfile.TemporaryDirectory(prefix="dpmpc-hosts-") as name:
        folder = Path(name)
        write_words(task, folder / "shares")
        expected = opened_by(task, folder / "shares")
        certificates = []
        for host in range(setting.servers):
            pem = write_identity(folder / f"identity-{host}", host, datetime.timedelta(days=1))
            (folder / f"{host}.crt").write_bytes(pem)
            certificates += ["--certificate", str(folder / f"{host}.crt")]
        spent: list[PartyCost] = []
        for turn in range(runs):
            shares = fresh(folder / "shares", folder / f"run-{turn}")
            with Wire(setting.servers, delay=delay, loss=0.0, seed=turn) as wire:
                spent += _run(wire, setting.servers, folder, shares, certificates)
            if not np.array_equal(Release.load(shares / "release", longest=SECONDS).sums, expected):
                raise BenchFailed(f"run {turn} opened other sums than the shares of all servers make")
    clocks = {
        clock: {phase: summary([getattr(cost.phases[phase], clock) for cost in spent]) for phase in PHASES}
        for clock in ("cpu_s", "wall_s")
    }
    return {
        "clients": setting.clients,
        "sparsity": setting.sparsity,
        "servers": setting.servers,
        "delay_s": delay,
        **clocks,
        "until_opened_s": summary([cost.wall_s for cost in spent if cost.party == 0]),
        "sent_mb": max(cost.bytes_sent for cost in spent) / 1e6,
        "rounds": spent[0].rounds,
    }


def _run(wire: Wire, servers: int, folder: Path, shares: Path, certificates: Sequence[str]) -> list[PartyCost]:
    addresses = [f"-P{wire.address(host)}:{PORT}" for host in range(servers)]
    kept = ["--analyst", "0", "--costs", shares / "costs", "--release", shares / "release"]
    processes = []
    for host in range(servers):
        command = [sys.executable, "-m", "dpmpc", "run", *certificates, "--identity", folder / f"identity-{host}"]
        command += [PROGRAM, *addresses, f"-I{host}", "--shares", shares, *kept]
        processes.append(
            subprocess.Popen(
                wire.command(host, [str(part) for part in command]),
                env=ONE_THREAD | os.environ,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    errors = [process.communicate(timeout=SECONDS)[1] for process in processes]
    if any(process.returncode for process in processes):
        raise BenchFailed(f"hosts ended with {[process.returncode for process in processes]}", errors[0][-1000:])
    return msgspec.json.decode((shares / "costs").read_bytes(), type=list[PartyCost])


def render(content: dict[str, Any]) -> str:
    """Return the Markdown page."""
    where = content["machine"]
    rows = [
        [
            f"{entry['delay_s'] * 1000:.0f}",
            *(f"{entry['cpu_s'][phase]['mean']:.4f} / {entry['wall_s'][phase]['mean']:.4f}" for phase in PHASES),
            f"{entry['until_opened_s']['mean']:.3f}",
            f"{entry['sent_mb']:.4f}",
            " + ".join(f"{count} {name}" for name, count in sorted(entry["rounds"].items())),
        ]
        for entry in content["measured"]
    ]
    first = content["measured"][0]
    heads = ("delay, one way (ms)", *(f"{phase} (CPU / wall, s)" for phase in PHASES), "until opened (s)")
    return "\n".join(
        [
            "# Algorithm 1 on three hosts",
            "",
            f"n = {first['clients']:,}, s = {first['sparsity']}, d = {COLUMNS}, k = {ROWS}; `dpmpc run` on network "
            f"namespaces of one machine, mutually authenticated TLS; means over servers and {content['runs']} runs. "
            "Until opened: wall seconds of the analyst from the first message to the sums and the costs of all, the "
            f"agreement included. {where['cpu']}, {where['cores']} cores, Python {where['python']}, {where['date']}.",
            "",
            markdown([*heads, "sends (MB)", "rounds"], rows),
        ]
    )


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write the table."""
    parser = argparse.ArgumentParser(prog="python -m bench hosts", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each delay (default %(default)s)")
    parser.add_argument("--short", action="store_true", help="few clients, one delay, one run; nothing is written")
    chosen = parser.parse_args(arguments)
    setting = Setting(2000 if chosen.short else 100_000, 4, SERVERS)
    runs, delays = (1, DELAYS[1:2]) if chosen.short else (chosen.runs, DELAYS)
    measured = [measure(setting, delay, runs) for delay in delays]
    content = {"machine": machine(), "runs": runs, "measured": measured}
    text = render(content)
    print(text)
    if not chosen.short:
        write("hosts", content, text)
