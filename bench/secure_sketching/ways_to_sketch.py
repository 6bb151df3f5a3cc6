"""The ways to one and the same sketch: two sharings on our runtime, MPyC with our kernel and without, MP-SPDZ.

In all of them but plain MPyC, whose party 0 deals all rows, servers read their shares as words from their disks.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness import RESULTS, markdown, summary
from bench.secure_sketching.setting import COLUMNS, PEER_SERVERS, PEER_SPARSITY, ROWS, Setting, task_of
from dpmpc.client import share_batch
from dpmpc.network.processes import ONE_THREAD
from dpmpc.networked import NetworkedRun, run_servers
from dpmpc.randomness import Stream
from dpmpc.sharing import ArrayShare, Share

MPYC_CLIENTS = 100_000
MP_SPDZ = RESULTS / "mp_spdz.json"


def figures(collected: Sequence[NetworkedRun]) -> dict[str, Any]:
    """Summarise runs and servers that all have the same job, phase by phase."""
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
        "phases": phases,
        "sent_mb": summary([spent.bytes_sent / 1e6 for spent in servers]),
        "peak_rss_mb": max(spent.peak_rss_mb for spent in servers),
    }


def as_words(shares: Sequence[Share]) -> list[Share]:
    """Return the same shares as arrays: what all servers of the paper read, and MP-SPDZ's parties."""
    return [ArrayShare(share.rows(0, share.shape[0]), share.ring) for share in shares]


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
    return result | {"servers": servers}


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
            shares = as_words(share_batch(task, rows, stream=Stream.from_seed(clients)))
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
            _path(setting, peer["path"], peer["read"], peer["transform"], peer["sent_mb"])
            for peer in mp_spdz_rows(json.loads(MP_SPDZ.read_text()))
            if (peer["clients"], peer["sparsity"], peer["servers"]) == (clients, sparsity, servers)
        ]
    return found


def mp_spdz_rows(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what a file of MP-SPDZ's figures has for each setting, with the bytes that its own report names.

    The first of its servers sends most, because it returns the sum. A file without such figures has a dash.
    """
    name = "additive, MP-SPDZ semi2k" + (" (transcribed)" if content["transcribed"] else " (on the clock)")
    rows = []
    for entry in content["measured"]:
        sent = entry.get("sent_mb", content.get("sent_mb", {}))
        servers = entry.get("servers", content.get("servers"))
        rows.append({**entry, "path": name, "servers": servers, "sent_mb": sent.get("the first", sent.get("max"))})
    return rows


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
            "-" if entry["sent_mb"] is None else f"{entry['sent_mb']:.3f}",
        ]
        for entry in measured
    ]
    spdz = (
        " MP-SPDZ: mp_spdz.json, measured apart, of three servers that read shares from their disk; its bytes are "
        "those of its first server, which returns the sum, without its set-up; ours have it."
    )
    spdz *= any("MP-SPDZ" in entry["path"] for entry in measured)
    return [
        "",
        "Ways to the same sketch, CPU seconds of one server. Input: our servers read shares from their disk; in plain "
        "MPyC party 0 deals all rows, and its figures are shown, the bytes of that included. With two parties MPyC's "
        f"threshold is 0: each sees everything.{spdz}",
        "",
        markdown(["n", "s", "servers", "path", "input (CPU s)", "transform (CPU s)", "sends (MB)"], rows),
    ]
