"""What it costs to keep the sketch closed: F_2 of items finished inside MPyC, against opening the sketch.

The same Shamir shares go through both programs, in turn, among real processes over TLS on loopback. Opened
(`linear_transform`): each server sends its share of the k numbers to the analyst, who computes ||z||^2. Unopened
(`unopened_moment`): MPyC multiplies first, the servers check the product (`dpmpc.parties.mpyc.checked`), and each sends
its share of one number. Both have to find the same integer. Rounds are messages that wait for another message: one to
the analyst, and before it one to deal the mask, one for the product, two for the coin and two for the check.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.harness import machine, markdown, plus_minus, summary, write
from dpmpc.base.randomness import Stream
from dpmpc.data import Column, Schema
from dpmpc.parties.mpyc.closed_tasks import design_square
from dpmpc.parties.network.meter import RunStatistics
from dpmpc.parties.networked import Run, run_parties, run_servers
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.client import share_batch
from dpmpc.release.planning.designing import public_seed

UNOPENED = "dpmpc.protocols.unopened_moment"
CLIENTS, ITEMS, RUNS = 100_000, 1000, 5
ROUNDS = {"opened": 1, "unopened": 7}
PHASES = ("read", "transform", "multiply", "open")


@dataclasses.dataclass(frozen=True)
class Setting:
    """One pair of rows of the table: k rows of the items' sketch, M servers."""

    rows: int
    servers: int


SETTINGS = (Setting(64, 3), Setting(256, 3), Setting(64, 5))


def measure(setting: Setting, clients: int, runs: int) -> list[dict[str, Any]]:
    """Run both programs `runs` times on one batch; return a row for each of the two."""
    spec = ReleaseSpec.of(
        Schema((Column("item", 0, ITEMS - 1),)),
        clients,
        1.0,
        1e-7,
        servers=setting.servers,
        sharing="shamir",
        simulation_seed=1,
    )
    task = design_square(spec, setting.rows, matrix_seed=public_seed(1))
    items = np.minimum(np.random.default_rng(1).geometric(0.01, (clients, 1)), ITEMS) - 1.0
    shares = share_batch(task, items, stream=Stream.from_seed(1))
    collected: dict[str, list[Run]] = {"opened": [], "unopened": []}
    for _ in range(runs):
        opened, unopened = run_servers(task, shares), run_parties(UNOPENED, task, shares)
        if unopened.answer["squared_norm"] != sum(int(z) ** 2 for z in opened.release.sums.ravel()):
            raise RuntimeError("the two programs opened different numbers")
        collected["opened"].append(opened)
        collected["unopened"].append(unopened)
    return [
        {
            **dataclasses.asdict(setting),
            "program": name,
            "rounds": ROUNDS[name],
            **figures([spent for run_ in done for spent in run_.servers], setting.servers),
        }
        for name, done in collected.items()
    ]


def figures(servers: Sequence[RunStatistics], analyst: int) -> dict[str, Any]:
    """Summarise runs and servers; payload is what messages contain, sent is what the sockets took."""
    return {
        "time_s": summary([spent.total_s for spent in servers]),
        "cpu_s": summary([spent.cpu_s for spent in servers]),
        "phases_s": {
            phase: summary([spent.phases[phase].wall_s for spent in servers])
            for phase in PHASES
            if phase in servers[0].phases
        },
        "sent_bytes": summary([spent.bytes_sent for spent in servers]),
        "payload_to_analyst": max(spent.peers[analyst].payload.sent for spent in servers),
        "payload_to_servers": max(
            sum(traffic.payload.sent for peer, traffic in spent.peers.items() if peer != analyst) for spent in servers
        ),
    }


def render(content: dict[str, Any]) -> str:
    """Return the Markdown page."""
    peers = {(entry["servers"], entry["rows"]): entry for entry in content["measured"] if entry["program"] == "opened"}
    rows = [
        [
            str(entry["servers"]),
            str(entry["rows"]),
            entry["program"],
            str(entry["rounds"]),
            plus_minus(entry["time_s"]),
            *(plus_minus(entry["phases_s"][phase], 4) if phase in entry["phases_s"] else "" for phase in PHASES),
            plus_minus(entry["cpu_s"]),
            f"{entry['cpu_s']['median'] / peers[entry['servers'], entry['rows']]['cpu_s']['median']:.2f}",
            f"{entry['sent_bytes']['mean']:.0f}",
            str(entry["payload_to_analyst"]),
            str(entry["payload_to_servers"]),
        ]
        for entry in content["measured"]
    ]
    headings = (
        *("servers", "k", "sketch", "rounds", "time (s)", "read (s)", "transform (s)", "multiply (s)", "open (s)"),
        *("CPU (s)", "CPU / opened", "sent (bytes)", "payload to analyst", "payload to servers"),
    )
    where = content["machine"]
    return "\n".join(
        [
            "# A sketch that is never opened",
            "",
            f"F_2 of the items of {content['clients']:,} clients; per server, mean ± sd over servers and "
            f"{content['runs']} runs. Both programs find the same ||z||^2, as an integer. Phases that wait for other "
            f"servers include their delays. {where['cpu']}, {where['cores']} cores, Python {where['python']}, "
            f"{where['date']}.",
            "",
            markdown(headings, rows),
        ]
    )


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write the table."""
    parser = argparse.ArgumentParser(prog="python -m bench unopened", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each program (default %(default)s)")
    parser.add_argument("--short", action="store_true", help="the first row, once; nothing is written")
    chosen = parser.parse_args(arguments)
    runs, settings = (1, SETTINGS[:1]) if chosen.short else (chosen.runs, SETTINGS)
    measured = []
    for setting in settings:
        print(f"unopened: {setting}", file=sys.stderr)
        measured += measure(setting, CLIENTS, runs)
    content = {"machine": machine(), "clients": CLIENTS, "runs": runs, "measured": measured}
    text = render(content)
    print(text)
    if not chosen.short:
        write("unopened", content, text)
