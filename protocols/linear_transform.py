"""The linear-transformation model among real processes (Burkhardt et al. 2025, Algorithm 1).

Parties: M servers, each holding one share of every client's noisy row, and one analyst, who holds nothing.

1. Each client clips, encodes and noises its row, and splits the result into M shares, one for each server
(`dpmpc.client`).
2. Each server applies the same public matrix to its shares, and adds noise if the task says so (`dpmpc.server`). **No
   message passes between servers.**
3. Each server sends its transformed share to the analyst, who adds them up (`dpmpc.analyst`): the noisy sketch is
   opened, and nothing else.

`main` is what one party runs; `run` plays all the clients, starts the parties as processes of this machine, linked by
mutually authenticated TLS over loopback, and returns the release with what each server spent.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmpc.analyst import open_sums
from dpmpc.client import share_batch
from dpmpc.network.frames import ContentType, Kind
from dpmpc.network.launch import launch
from dpmpc.network.meter import Report
from dpmpc.network.party import Party
from dpmpc.randomness import Stream
from dpmpc.release import Release
from dpmpc.server import simulation_keys, transform
from dpmpc.sharing import Share, open_share, save_share
from dpmpc.task import Task

PROGRAM = "dpmpc.protocols.linear_transform"
RELEASE_FILE = "release.dpmpc"


async def main(party: Party) -> dict[str, Any]:
    """Run one party: the analyst, or a server."""
    task = Task.from_dict(party.arguments["task"])
    if party.pid == party.analyst:
        return await analyst(party, task)
    return await server(party, task)


async def server(party: Party, task: Task) -> dict[str, Any]:
    """Step 2 and 3 of a server: sketch the shares alone, then send the result to the analyst."""
    share = open_share(share_file(party.folder), task.encoding.ring)
    key = party.arguments["simulation_keys"][party.pid]
    sums = await asyncio.to_thread(  # the event loop goes on noticing when a peer is lost
        transform,
        task,
        share,
        simulation_key=key and bytes.fromhex(key),
        threads=party.arguments["threads"],
        phase=party.meter.phase,
        progress=party.report_progress,
    )
    assert party.analyst is not None
    with party.meter.phase("open"):
        await party.runtime.send_frame(party.analyst, party.runtime.frame(Kind.SHARE, sums))
    return {}


async def analyst(party: Party, task: Task) -> dict[str, Any]:
    """Step 3 of the analyst: receive one transformed share from each server and open the sum."""
    shape = (task.sketch.rows, task.width)
    with party.meter.phase("open"):
        frames = [
            await party.runtime.receive_frame(sender, Kind.SHARE, ContentType.WORDS, shape)
            for sender in range(party.servers)
        ]
    await party.runtime.shutdown()  # no server waits for what is left to do
    open_sums(task, [frame.words for frame in frames]).save(party.folder / RELEASE_FILE)
    return {}


@dataclasses.dataclass(frozen=True)
class NetworkedRun:
    """What came of a run among real processes.

    Attributes
    ----------
    release : Release
        What the analyst opened.
    servers : tuple of Report
        What each server spent.
    analyst : Report
        What the analyst spent.
    clients_s, servers_s : float
        Wall-clock seconds of all the simulated clients, and of the parties from their start to their end.
    """

    release: Release
    servers: tuple[Report, ...]
    analyst: Report
    clients_s: float
    servers_s: float


def share_file(folder: Path) -> Path:
    """Where a server finds its share of the batch."""
    return folder / "share"


def run(
    task: Task,
    rows: NDArray[np.float64],
    *,
    stream: Stream | None = None,
    threads: int = 1,
    deadline: float = 30.0,
    on_progress: Callable[[str, float], None] | None = None,
) -> NetworkedRun:
    """Play all the clients, then run servers and analyst as processes of this machine.

    Parameters
    ----------
    task : Task
        The public facts.
    rows : ndarray of float64, shape (n, p)
        One row per client, in the units of the schema.
    stream : Stream, optional
        The clients' source of noise and shares; a seeded one, from which the servers' noise is derived too, needs a
        task that says it is a simulation.
    threads : int
        Threads of each server's kernel.
    deadline : float
        Seconds that a party may keep others waiting, beyond the time that a slow machine needs for the transform.
    on_progress : callable, optional
        Called with a stage and the fraction of it that is done.

    Raises
    ------
    ProtocolFailure
        If a party fails; the error names it.
    """
    tell = on_progress or (lambda stage, fraction: None)
    began = time.perf_counter()
    shares = share_batch(task, rows, stream=stream, threads=threads, progress=lambda done: tell("clients", done))
    clients_s = time.perf_counter() - began
    networked = run_servers(task, shares, stream=stream, threads=threads, deadline=deadline, on_progress=tell)
    return dataclasses.replace(networked, clients_s=clients_s)


def run_servers(
    task: Task,
    shares: Sequence[Share],
    *,
    stream: Stream | None = None,
    threads: int = 1,
    deadline: float = 30.0,
    on_progress: Callable[[str, float], None] | None = None,
) -> NetworkedRun:
    """Run servers and analyst on shares that clients have made; parameters and errors are those of `run`."""
    tell = on_progress or (lambda stage, fraction: None)
    began = time.perf_counter()
    released: list[Release] = []

    def set_up(party: int, folder: Path) -> None:
        if party < len(shares):
            save_share(share_file(folder), shares[party])

    def collect(party: int, folder: Path) -> None:
        if party == len(shares):
            released.append(Release.load(folder / RELEASE_FILE))

    outcomes = launch(
        PROGRAM,
        task.trust.servers,
        arguments={
            "task": task.to_dict(),
            "threads": threads,
            "simulation_keys": [key and key.hex() for key in simulation_keys(stream, len(shares))],
        },
        task=task.digest,
        set_up=set_up,
        collect=collect,
        on_progress=lambda party, done: tell(f"server {party}", float(done)),
        deadline=deadline + transform_allowance(task),
    )
    reports = [outcome.report for outcome in outcomes if outcome.report is not None]
    return NetworkedRun(
        release=released[0],
        servers=tuple(reports[:-1]),
        analyst=reports[-1],
        clients_s=0.0,
        servers_s=time.perf_counter() - began,
    )


def transform_allowance(task: Task, slowest: float = 50e6) -> float:
    """Seconds that a server which handles only `slowest` bytes a second needs for its share."""
    clients, copies, width = task.share_shape
    return 8 * clients * copies * width / slowest
