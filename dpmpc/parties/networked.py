"""Run a task on servers that are processes: the one door from tasks to `dpmpc.parties.network`.

`run` plays all the clients, starts M servers and an analyst as processes of this machine, linked by mutually
authenticated TLS over loopback, and returns the release with what each server spent. `run_servers` begins where the
clients' shares are there already, `run_parties` where a program does not open the sketch. For parties on hosts of their
own, `agreement_of` is what `dpmpc.parties.network.programs.prepare` takes.

What the parties do is stated by the program that they run. Programs are started by name: by default
`dpmpc.protocols.linear_transform`, which opens the noisy sketch and ends there, or `dpmpc.protocols.proved_reports`.

Where the task requires proofs, clients share proved reports, each with an id, and the servers leave out those whose
proofs do not hold (`dpmpc.collect.opening.run_proofs`). The process that plays all the clients could leave out rows
itself; proofs protect the servers' sums once the clients are others. The proofs of what lies in a server's folder are
checked once: a second run on a folder, or on a copy of it, is refused or would give rows away.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypedDict, Unpack

import numpy as np

from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.base.randomness import Stream
from dpmpc.linear.proving.joint import ID_BYTES
from dpmpc.linear.proving.prove import ProvedShares
from dpmpc.linear.sharing.batch import SHARE_FILE, FileShare, Share, save_share
from dpmpc.parties.network.meter import RunStatistics
from dpmpc.parties.network.programs import Agreement, Callbacks, FolderCallback, LocalParties
from dpmpc.parties.network.verified_task import KEYS, TASK
from dpmpc.privacy.task import Task
from dpmpc.release.client import Client, share_batch
from dpmpc.release.proved_reports import circuit_of, rows_of
from dpmpc.release.release import RELEASE_FILE, Release
from dpmpc.release.server import require_own_noise, simulation_keys

PROGRAM, PROGRAM_WITH_PROOFS = "dpmpc.protocols.linear_transform", "dpmpc.protocols.proved_reports"
SLOWEST = 50e6  # bytes of its share that a server handles in a second at least
REFUSED = "refused"  # what a program's answer calls the counts of reports that were left out
_PROVED_AT_ONCE = 1 << 22  # words of the records that are proved at once

Placement = Callable[[Sequence[Path]], None]


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

    @property
    def refused(self) -> dict[str, int] | None:
        """How many reports the servers left out because of their proofs, by cause; None where there are no proofs."""
        return self.answer.get(REFUSED)


def proofs_text(accepted: int, refused: Mapping[str, int]) -> str:
    """Return how many reports were accepted, and why others were not."""
    total = accepted + sum(refused.values())
    causes = ", ".join(f"{count:,} refused ({cause})" for cause, count in sorted(refused.items())) or "none refused"
    return f"Proofs: {accepted:,} of {total:,} reports accepted, {causes}"


def share_file(folder: Path) -> Path:
    """Return where a server finds its share of the batch."""
    return folder / SHARE_FILE


def ids_file(folder: Path) -> Path:
    """Return where a server finds the ids of proved reports, two words each, in the order of its share."""
    return folder / "ids"


class RunOptions(TypedDict, total=False):
    """What may be chosen of any run, by keywords.

    Parameters
    ----------
    arguments : mapping, optional
        Plain data for the program, beside "task" and "threads".
    stream : Stream, optional
        The clients' source of noise and shares; a seeded one, from which the servers' noise is derived too, needs a
        task that states it is a simulation.
    threads : int
        Threads of each server's kernel, 1 by default.
    deadline : float
        Seconds that a party may keep others waiting, beyond the time that a slow machine needs for the transform; 30 by
        default.
    on_progress : callable, optional
        Called with a stage and the fraction of it that is done.
    """

    arguments: Mapping[str, Any] | None
    stream: Stream | None
    threads: int
    deadline: float
    on_progress: Callable[[str, float], None] | None


def run(
    task: Task,
    rows: Reals,
    *,
    program: str | None = None,
    among: LocalParties | None = None,
    **options: Unpack[RunOptions],
) -> NetworkedRun:
    """Play all the clients, then run servers and analyst as processes of this machine.

    Parameters
    ----------
    task : Task
        The public facts.
    rows : ndarray of float64, shape (n, p)
        One row per client, in the units of the schema.
    program : str, optional
        A module whose analyst goes on from the release; by default one that ends there.
    among : LocalParties, optional
        Those that take part in several runs; by default parties that live for this run.
    **options
        See `RunOptions`.

    Raises
    ------
    ProtocolFailure
        If a party fails; the error names it.
    """
    placed = clients(
        task,
        rows,
        stream=options.get("stream"),
        threads=options.get("threads", 1),
        on_progress=options.get("on_progress"),
    )
    return run_servers(task, placed, program=program, among=among, **options)


def clients(
    task: Task,
    rows: Reals,
    *,
    stream: Stream | None = None,
    threads: int = 1,
    on_progress: Callable[[str, float], None] | None = None,
) -> Placement:
    """Return what plays all the clients and writes each server's share straight into its folder."""
    tell = on_progress and functools.partial(on_progress, "clients")
    if task.proofs is not None:
        return stored_reports(task, proved_blocks(task, rows, stream=stream), progress=tell)

    def place(folders: Sequence[Path]) -> None:
        shares = share_batch(
            task,
            rows,
            stream=stream,
            storage=lambda server: FileShare.create(share_file(folders[server]), task.share_shape, task.encoding.ring),
            threads=threads,
            progress=tell,
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


def proved_blocks(task: Task, rows: Reals, *, stream: Stream | None = None) -> Iterator[list[ProvedShares]]:
    """Play the clients of a task with proofs, block by block; in a block there are the shares of each server.

    Parameters
    ----------
    task : Task
        Whose clients prove what they share.
    rows : ndarray of float64, shape (n, p)
        One row per client, in the units of the schema.
    stream : Stream, optional
        Source of ids and shares, as in `Client`.
    """
    if rows.shape != (task.clients, len(task.schema)):
        raise InputError("rows", f"shape {rows.shape}", f"{(task.clients, len(task.schema))}", condition="by the task")
    client = Client(task.verify(), stream)
    step = max(1, _PROVED_AT_ONCE // circuit_of(task).words)
    for first in range(0, task.clients, step):
        block = rows[first : first + step]
        ids = np.frombuffer(client.stream.bytes(ID_BYTES * len(block)), np.uint8).reshape(-1, ID_BYTES)
        yield client.prove(block, ids, task.digest, first=first)


def stored_reports(
    task: Task, blocks: Iterable[Sequence[ProvedShares]], *, progress: Callable[[float], None] | None = None
) -> Placement:
    """Return what writes proved reports into the servers' folders, as many as the task has clients.

    Parameters
    ----------
    task : Task
        Whose clients prove what they share.
    blocks : iterable
        Of what `proved_blocks` yields, whoever made it.
    progress : callable, optional
        Called with the fraction done.
    """

    def place(folders: Sequence[Path]) -> None:
        ids = [FileShare.create(ids_file(folder), (task.clients, 2)) for folder in folders[: task.trust.servers]]
        files: list[FileShare] = []
        done = 0
        for shares in blocks:
            rows = [rows_of(share) for share in shares]
            if not files:
                files = [
                    FileShare.create(share_file(folder), (task.clients, *words.shape[1:]))
                    for folder, words in zip(folders, rows, strict=False)
                ]
            block = slice(done, done + len(rows[0]))
            for server, words in enumerate(rows):
                ids[server][block] = np.ascontiguousarray(shares[server].ids).view("<u8")
                files[server][block] = words
            done = block.stop
            if progress is not None:
                progress(done / task.clients)
        if done != task.clients:
            raise InputError("blocks", f"{done} reports", task.clients, condition="by the task")

    return place


def run_servers(
    task: Task,
    shares: Sequence[Share] | Placement,
    *,
    program: str | None = None,
    among: LocalParties | None = None,
    **options: Unpack[RunOptions],
) -> NetworkedRun:
    """Run servers and analyst on shares that clients have made; parameters and errors are those of `run`."""
    released: list[Release] = []

    def collect(party: int, folder: Path) -> None:
        if party == task.trust.servers:
            released.append(Release.load(folder / RELEASE_FILE, longest=math.inf))  # of a task that was verified

    usual = PROGRAM if task.proofs is None else PROGRAM_WITH_PROOFS
    done = run_parties(program or usual, task, shares, collect=collect, among=among, **options)
    return NetworkedRun(**vars(done), release=released[0])


class Rounds:
    """Answers one task after another about the same rows: servers and an analyst that live for all of them.

    For what takes several releases: ``with Rounds(rows) as network``, a model is fitted to the releases of
    ``dpmpc.models.common.releases.Releases(spec, network)``. The servers start and link themselves to one another with
    the first task, and end when the context is left. Every round draws fresh noise and fresh shares.

    Parameters
    ----------
    rows : ndarray of float64, shape (n, p)
        One row per client, in the units of the schema.
    **options
        See `RunOptions`.

    Attributes
    ----------
    runs : list of NetworkedRun
        So far.
    """

    def __init__(self, rows: Reals, **options: Unpack[RunOptions]):
        self._rows = rows
        self._options = options
        self._parties: LocalParties | None = None
        self.runs: list[NetworkedRun] = []

    def __enter__(self) -> Self:
        self._parties = LocalParties().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._parties is not None:
            self._parties.__exit__(*error)
            self._parties = None

    def __call__(self, task: Task) -> Release:
        """Play all the clients of a task, run the servers and the analyst, and return what these opened."""
        if self._parties is None:
            raise InputError(
                "rounds", "a task given to servers that do not run, a call within `with Rounds(...)` expected"
            )
        options, number = self._options.copy(), len(self.runs)
        if tell := self._options.get("on_progress"):
            options["on_progress"] = lambda stage, fraction: tell(f"sum {number}, {stage}", fraction)
        self.runs.append(run(task, self._rows, among=self._parties, **options))
        return self.runs[-1].release


def run_parties(
    program: str,
    task: Task,
    shares: Sequence[Share] | Placement,
    *,
    arguments: Mapping[str, Any] | None = None,
    collect: FolderCallback | None = None,
    among: LocalParties | None = None,
    stream: Stream | None = None,
    threads: int = 1,
    deadline: float = 30.0,
    on_progress: Callable[[str, float], None] | None = None,
) -> Run:
    """Run a program on the shares, whether or not it opens the sketch; see `run`.

    Parameters
    ----------
    shares : sequence of Share, or callable
        One for each server; or what puts them into the parties' folders while these start, as `clients` does.
    collect : callable, optional
        ``collect(party, folder)`` may read what a party left in its folder.
    among : LocalParties, optional
        See `run`.
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
    with contextlib.nullcontext(among) if among is not None else LocalParties(lasting=False) as parties:
        outcomes = parties.run(
            agreement_of(program, task, arguments=arguments, threads=threads, deadline=deadline),
            simulation=_simulation(task, stream),
            callbacks=Callbacks(
                meanwhile=timed,
                collect=collect,
                on_progress=lambda party, done: tell(f"server {party}", float(done)),
            ),
        )
    spent = [outcome.statistics for outcome in outcomes if outcome.statistics is not None]
    return Run(
        answer=outcomes[-1].result,
        servers=tuple(spent[:-1]),
        analyst=spent[-1],
        clients_s=clients_s,
        servers_s=time.perf_counter() - began - clients_s,
    )


def agreement_of(
    program: str,
    task: Task,
    *,
    arguments: Mapping[str, Any] | None = None,
    threads: int = 1,
    deadline: float = 30.0,
) -> Agreement:
    """Return what servers and analyst agree on; a task whose noise must be dealt is refused."""
    require_own_noise(task)
    return Agreement(
        program,
        task.trust.servers,
        {TASK: task.to_dict(), "threads": threads, **(arguments or {})},
        task=task.digest,
        deadline=deadline + transform_allowance(task),
    )


def _simulation(task: Task, stream: Stream | None) -> dict[str, Any]:
    """Return what a launcher hands over of a simulation: the keys of the servers' noise, if they follow from a seed."""
    keys = [key and key.hex() for key in simulation_keys(task, stream)]
    return {KEYS: keys} if any(keys) else {}


def transform_allowance(task: Task) -> float:
    """Return the seconds that a server which handles only `SLOWEST` bytes a second needs for its share."""
    clients, copies, width = task.share_shape
    words = copies * width if task.proofs is None else circuit_of(task).words
    return 8 * clients * words / SLOWEST
