"""The linear-transformation model among real processes (Burkhardt et al. 2025, Algorithm 1).

Parties: M servers, each holding one share of every client's noisy row, and one analyst, who holds nothing.

1. Each client clips, encodes and noises its row, and splits the result into M shares, one for each server
   (`dpmpc.client`).
2. Each server applies the same public matrix to its shares, and adds noise if the task says so (`dpmpc.server`). **No
   message passes between servers.**
3. Each server sends its transformed share to the analyst, who adds them up (`dpmpc.analyst`): the noisy sketch is
   opened, and nothing else.

Before step 2 every party, the analyst too, compares the task with the digest in its own settings and recomputes the
guarantee and the overflow proof (`verified_task`). A server that finds another task, or one whose noise does not give
what it promises, ends with a typed error: it has read no share and sent nothing.

`main` is what one party runs; `run` plays all the clients, starts the parties as processes of this machine, linked by
mutually authenticated TLS over loopback, and returns the release with what each server spent.

The other programs of this folder take their servers' and the analyst's steps from here, and go on with the release:
`open_then` is what one party of theirs runs, `import_estimators` how its analyst gets ready.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import importlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from dpmpc.analyst import open_sums
from dpmpc.client import share_batch
from dpmpc.errors import InputError, SimulationOnly
from dpmpc.network.frames import ContentType, Kind
from dpmpc.network.launch import FolderCallback, launch
from dpmpc.network.meter import RunStatistics
from dpmpc.network.party import Party
from dpmpc.network.settings import SETTINGS_FILE, PartySettings
from dpmpc.randomness import Stream
from dpmpc.release import Release
from dpmpc.server import simulation_keys, transform
from dpmpc.sharing import FileShare, Share, open_share, save_share
from dpmpc.task import Task

PROGRAM = "dpmpc.protocols.linear_transform"
RELEASE_FILE = "release.dpmpc"

Placement = Callable[[Sequence[Path]], None]


def prepare(settings: PartySettings) -> None:
    """Verify the task while clients are at work, before any other party is contacted."""
    _agreed_task(settings)


async def main(party: Party) -> dict[str, Any]:
    """Run one party: the analyst, or a server."""
    task = verified_task(party)
    await (analyst if party.pid == party.analyst else server)(party, task)
    return {}


async def open_then(party: Party, conclude: Callable[[Mapping[str, Any], Release], dict[str, Any]]) -> dict[str, Any]:
    """Run one party of a program that goes on from the release.

    Parameters
    ----------
    party : Party
        The analyst, or a server.
    conclude : callable
        ``conclude(arguments, release)`` is what the analyst does next, with the program's arguments; what it returns is
        the analyst's answer.
    """
    task = verified_task(party)
    if party.pid != party.analyst:
        await server(party, task)
        return {}
    release = await analyst(party, task)
    with party.meter.phase("fit"):
        return conclude(party.arguments, release)


def import_estimators(settings: PartySettings) -> None:
    """Verify the task, and import what only the analyst needs, while clients are at work."""
    prepare(settings)
    if settings.party == settings.analyst:
        importlib.import_module("dpmpc.estimators")


def verified_task(party: Party) -> Task:
    """Return the task of a run, once this party has convinced itself of it.

    Every program of this folder gets its task here, in the servers and in the analyst.

    Raises
    ------
    InputError
        If the task is not the one whose digest stands in this party's own settings, or is for other servers.
    GuaranteeError, OverflowRisk
        If its noise does not give what it promises, or a sum might wrap around.
    SimulationOnly
        If the noise is to come from seeds, and the task does not say that it is a simulation.
    """
    return _agreed_task(party.runtime.settings)


def _agreed_task(settings: PartySettings) -> Task:
    fields = settings.arguments.get("task")
    if not isinstance(fields, dict):
        raise InputError("task: none given in the arguments of the program, the public facts of a release expected")
    task = _task_described(msgspec.json.encode(fields))
    if task.digest != settings.task_digest:
        raise InputError(
            f"task: one with the digest {task.digest.hex()} given, {settings.task} expected by this party's own "
            f"settings ({SETTINGS_FILE})"
        )
    if task.trust.servers != settings.servers:
        raise InputError(
            f"task: one for {task.trust.servers} servers given, {settings.servers} expected by this party's own "
            f"settings ({SETTINGS_FILE})"
        )
    if not task.simulation and any(key is not None for key in _simulation_keys(settings)):
        raise SimulationOnly("simulation_keys: some given, but the task does not say that it is a simulation")
    return task.verify()


@functools.lru_cache(maxsize=1)
def _task_described(content: bytes) -> Task:
    """Rebuild a task from JSON; the one that `prepare` has verified is kept for `main`."""
    return Task.from_dict(msgspec.json.decode(content))


def _simulation_keys(settings: PartySettings) -> list[bytes | None]:
    """Return the keys of the servers' noise in a repeatable simulation; None stands for secret noise."""
    keys = settings.arguments.get("simulation_keys")
    if keys is None:
        return [None] * settings.servers
    expected = f"a key in hexadecimal digits, or null, for each of {settings.servers} servers expected"
    if not isinstance(keys, list) or len(keys) != settings.servers:
        raise InputError(f"simulation_keys: {keys!r} given, {expected}")
    try:
        return [None if key is None else bytes.fromhex(key) for key in keys]
    except (TypeError, ValueError) as error:
        raise InputError(f"simulation_keys: {keys!r} given, {expected}") from error


async def server(party: Party, task: Task) -> None:
    """Step 2 and 3 of a server: sketch the shares alone, then send the result to the analyst."""
    sums = await sketch_alone(party, task)
    assert party.analyst is not None
    with party.meter.phase("open"):
        await party.runtime.send_frame(party.analyst, party.runtime.frame(Kind.SHARE, sums))


async def sketch_alone(party: Party, task: Task) -> NDArray[np.uint64]:
    """Step 2 of a server: return its share (k, width) of the noisy sketch.

    A task that `verified_task` has not returned is refused before the share is read.
    """
    if task.digest != verified_task(party).digest:
        raise InputError("task: another given than the one that this party has verified, that of its settings expected")
    share = open_share(share_file(party.folder), task.encoding.ring)
    key = _simulation_keys(party.runtime.settings)[party.pid]
    return await asyncio.to_thread(  # the event loop goes on noticing when a peer is lost
        transform,
        task,
        share,
        simulation_key=key,
        threads=party.arguments["threads"],
        phase=party.meter.phase,
        progress=party.report_progress,
    )


async def analyst(party: Party, task: Task) -> Release:
    """Step 3 of the analyst: receive one transformed share from each server, open the sum, and keep it in a file."""
    shape = (task.sketch.rows, task.width)
    with party.meter.phase("open"):
        frames = [
            await party.runtime.receive_frame(sender, Kind.SHARE, ContentType.WORDS, shape)
            for sender in range(party.servers)
        ]
    await party.runtime.shutdown()  # no server waits for what is left to do
    release = open_sums(task, [frame.words for frame in frames])
    release.save(party.folder / RELEASE_FILE)
    return release


@dataclasses.dataclass(frozen=True)
class Run:
    """What came of a program among real processes.

    Attributes
    ----------
    answer : dict
        What the analyst's program returned.
    servers : tuple of RunStatistics
        What each server spent.
    analyst : RunStatistics
        What the analyst spent.
    clients_s, servers_s : float
        Wall-clock seconds until all the simulated clients' shares are with the servers, and from there until the
        parties have ended. The parties start while the clients are at work.
    """

    answer: dict[str, Any]
    servers: tuple[RunStatistics, ...]
    analyst: RunStatistics
    clients_s: float
    servers_s: float


@dataclasses.dataclass(frozen=True)
class NetworkedRun(Run):
    """A run that opened the noisy sketch.

    Attributes
    ----------
    release : Release
        What the analyst opened.
    """

    release: Release


def share_file(folder: Path) -> Path:
    """Where a server finds its share of the batch."""
    return folder / "share"


def run(
    task: Task,
    rows: NDArray[np.float64],
    *,
    program: str | None = None,
    arguments: Mapping[str, Any] | None = None,
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
    program : str, optional
        A module whose analyst goes on from the release; by default this one, which ends there.
    arguments : mapping, optional
        Plain data for that program, beside "task" and "threads".
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
    return run_servers(
        task,
        clients(task, rows, stream=stream, threads=threads, on_progress=on_progress),
        program=program,
        arguments=arguments,
        stream=stream,
        threads=threads,
        deadline=deadline,
        on_progress=on_progress,
    )


def clients(
    task: Task,
    rows: NDArray[np.float64],
    *,
    stream: Stream | None = None,
    threads: int = 1,
    on_progress: Callable[[str, float], None] | None = None,
) -> Placement:
    """Return what plays all the clients and writes each server's share straight into its folder."""

    def place(folders: Sequence[Path]) -> None:
        shares = share_batch(
            task,
            rows,
            stream=stream,
            storage=lambda server: FileShare.create(share_file(folders[server]), task.share_shape, task.encoding.ring),
            threads=threads,
            progress=on_progress and functools.partial(on_progress, "clients"),
        )
        for server, share in enumerate(shares):
            if not isinstance(share, FileShare):
                save_share(share_file(folders[server]), share)

    return place


def stored(shares: Sequence[Share]) -> Placement:
    """Return what writes the shares that the servers have into their folders."""

    def place(folders: Sequence[Path]) -> None:
        for server, share in enumerate(shares):
            save_share(share_file(folders[server]), share)

    return place


def run_servers(
    task: Task,
    shares: Sequence[Share] | Placement,
    *,
    program: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    stream: Stream | None = None,
    threads: int = 1,
    deadline: float = 30.0,
    on_progress: Callable[[str, float], None] | None = None,
) -> NetworkedRun:
    """Run servers and analyst on shares that clients have made; parameters and errors are those of `run`."""
    released: list[Release] = []

    def collect(party: int, folder: Path) -> None:
        if party == task.trust.servers:
            released.append(Release.load(folder / RELEASE_FILE, longest=math.inf))  # of a task that was verified

    done = run_parties(
        program or PROGRAM,
        task,
        shares,
        arguments=arguments,
        collect=collect,
        stream=stream,
        threads=threads,
        deadline=deadline,
        on_progress=on_progress,
    )
    return NetworkedRun(**vars(done), release=released[0])


def run_parties(
    program: str,
    task: Task,
    shares: Sequence[Share] | Placement,
    *,
    arguments: Mapping[str, Any] | None = None,
    collect: FolderCallback | None = None,
    stream: Stream | None = None,
    threads: int = 1,
    deadline: float = 30.0,
    on_progress: Callable[[str, float], None] | None = None,
) -> Run:
    """Run a program whose servers begin with `sketch_alone`, whether or not it opens the sketch; see `run`.

    Parameters
    ----------
    shares : sequence of Share, or callable
        One for each server; or what puts them into the parties' folders while these start, as `clients` does.
    collect : callable, optional
        ``collect(party, folder)`` may read what a party left in its folder.
    """
    tell = on_progress or (lambda stage, fraction: None)
    place = shares if callable(shares) else stored(shares)
    clients_s = 0.0

    def timed(folders: Sequence[Path]) -> None:
        nonlocal clients_s
        began = time.perf_counter()
        place(folders)
        clients_s = time.perf_counter() - began

    began = time.perf_counter()
    outcomes = launch(
        program,
        task.trust.servers,
        arguments={
            "task": task.to_dict(),
            "threads": threads,
            "simulation_keys": [key and key.hex() for key in simulation_keys(task, stream)],
            **(arguments or {}),
        },
        task=task.digest,
        meanwhile=timed,
        collect=collect,
        on_progress=lambda party, done: tell(f"server {party}", float(done)),
        deadline=deadline + transform_allowance(task),
    )
    reports = [outcome.report for outcome in outcomes if outcome.report is not None]
    return Run(
        answer=outcomes[-1].result,
        servers=tuple(reports[:-1]),
        analyst=reports[-1],
        clients_s=clients_s,
        servers_s=time.perf_counter() - began - clients_s,
    )


def transform_allowance(task: Task, slowest: float = 50e6) -> float:
    """Seconds that a server which handles only `slowest` bytes a second needs for its share."""
    clients, copies, width = task.share_shape
    return 8 * clients * copies * width / slowest
