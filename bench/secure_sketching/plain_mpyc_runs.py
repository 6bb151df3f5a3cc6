"""Runs of the natural MPyC program, figures of runs on our links, and MP-SPDZ's stored figures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.harness import RESULTS, summary
from bench.secure_sketching.setting import COLUMNS, PEER_SERVERS, PEER_SPARSITY, ROWS
from bench.system.ports import free_ports
from dpmpc.linear.sharing.batch import ArrayShare, Share
from dpmpc.parties.network.processes import ONE_THREAD
from dpmpc.parties.networked import NetworkedRun

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
    clients: int = MPYC_CLIENTS, sparsity: int = PEER_SPARSITY, servers: int = PEER_SERVERS
) -> dict[str, Any]:
    """Run the job in plain MPyC, by its own launcher, and read what party 0 prints."""
    program = Path(__file__).with_name("plain_mpyc.py")
    numbers = [str(number) for number in (clients, COLUMNS, ROWS, sparsity)]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, str(program), f"-M{servers}", "-B", str(free_ports(servers)[0]), *numbers],
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


def stored_mp_spdz() -> dict[str, Any]:
    """Return MP-SPDZ's figures from their file."""
    content: dict[str, Any] = json.loads(MP_SPDZ.read_text())
    return content


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
