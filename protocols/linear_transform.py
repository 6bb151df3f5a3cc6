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

Where the task asks for proofs, clients share proved reports. The servers then check them before step 2, leave out those
that are not well formed, and tell the analyst how many (`dpmpc.collection.run_proofs`, `proved_reports`).

`main` is what one party runs; `dpmpc.networked.run` plays all the clients and starts the parties. The other programs
of this folder take their servers' and the analyst's steps from here, and go on with the release: `open_then` is what
one party of theirs runs, `ready` how it gets ready.

Three servers and an analyst, each a process of this machine, and generated people::

    python protocols/linear_transform.py -M3 --clients 50000 --epsilon 1
"""

from __future__ import annotations

import asyncio
import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from dpmpc.analyst import open_sums
from dpmpc.errors import BatchMismatch, InputError, MalformedFrame, SimulationOnly
from dpmpc.network.frames import ContentType, Kind
from dpmpc.network.party import Party
from dpmpc.network.settings import SETTINGS_FILE, PartySettings
from dpmpc.networked import KEYS, REFUSED, RELEASE_FILE, run, share_file
from dpmpc.release import Release
from dpmpc.server import require_own_noise, transform
from dpmpc.sharing import Share, open_share
from dpmpc.task import Task
from dpmpc.untrusted import ReadError, read_json


def prepare(settings: PartySettings) -> None:
    """Verify the task while clients are at work, before any other party is contacted."""
    if _agreed_task(settings).proofs is not None:
        importlib.import_module("dpmpc.collection.run_proofs")


async def main(party: Party) -> dict[str, Any]:
    """Run one party: the analyst, or a server."""
    return await open_then(party, lambda arguments, release: {})


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
    release, refused = await analyst(party, task)
    with party.meter.phase("fit"):
        answer = conclude(party.arguments, release)
    return answer if task.proofs is None else {**answer, REFUSED: refused}


def ready(module: str, settings: PartySettings) -> None:
    """Verify the task, and import a module that only the analyst needs, while clients are at work."""
    prepare(settings)
    if settings.party == settings.analyst:
        importlib.import_module(module)


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
    settings.refuse_simulation(task.simulation)
    if not task.simulation and any(key is not None for key in _simulation_keys(settings)):
        raise SimulationOnly("simulation_keys: some given, but the task does not say that it is a simulation")
    require_own_noise(task)
    return task.verify()


@functools.lru_cache(maxsize=1)
def _task_described(content: bytes) -> Task:
    """Rebuild a task from JSON; the one that `prepare` has verified is kept for `main`."""
    return Task.from_dict(msgspec.json.decode(content))


def _simulation_keys(settings: PartySettings) -> list[bytes | None]:
    """Return the keys of the servers' noise in a repeatable simulation; None stands for secret noise."""
    keys = settings.simulation.get(KEYS)
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
    """Steps 2 and 3 of a server: sketch the shares alone, then send the result to the analyst."""
    if task.proofs is None:
        sums = await sketch_alone(party, task)
    else:
        sums = await sketch_proved(party, task)
    assert party.analyst is not None
    with party.meter.phase("open"):
        await party.runtime.send_frame(party.analyst, party.runtime.frame(Kind.SHARE, sums))


async def sketch_alone(party: Party, task: Task) -> NDArray[np.uint64]:
    """Step 2 of a server: return its share (k, width) of the noisy sketch.

    A task that `verified_task` has not returned is refused before the share is read, and one whose proofs would have to
    be checked first.
    """
    _require_verified(party, task)
    if task.proofs is not None:
        raise InputError("task: one with proofs given, which servers have to check together; one without expected")
    return await _transformed(party, task, open_share(share_file(party.folder), task.encoding.ring))


async def sketch_proved(party: Party, task: Task) -> NDArray[np.uint64]:
    """Step 2 of a server where clients prove: check the proofs, tell the analyst, and sketch what is accepted."""
    from dpmpc.collection.run_proofs import check_run  # no server of a run without proofs needs it

    _require_verified(party, task)
    checked = await check_run(party, task)
    assert party.analyst is not None
    told = msgspec.json.encode(Proofs(checked.task.clients, checked.refused))
    await party.runtime.send_frame(party.analyst, party.runtime.frame(Kind.VERDICT, told))
    return await _transformed(party, checked.task, checked.share)


def _require_verified(party: Party, task: Task) -> None:
    if task.digest != verified_task(party).digest:
        raise InputError("task: another given than the one that this party has verified, that of its settings expected")


async def _transformed(party: Party, task: Task, share: Share) -> NDArray[np.uint64]:
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


class Proofs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the servers have found out about the proofs, as each of them tells the analyst.

    Parameters
    ----------
    accepted : int
        How many reports are summed.
    refused : dict
        How many others there are, by cause.
    """

    accepted: int
    refused: dict[str, int]


async def analyst(party: Party, task: Task) -> tuple[Release, dict[str, int]]:
    """Step 3 of the analyst: receive one transformed share from each server, open the sum, and keep it in a file.

    Returns
    -------
    Release
        Of the clients whose reports were accepted, which without proofs are all.
    dict
        How many reports the servers left out because of their proofs, by cause.
    """
    refused: dict[str, int] = {}
    if task.proofs is not None:
        task, refused = await accepted_task(party, task)
    shape = (task.sketch.rows, task.width)
    with party.meter.phase("open"):
        frames = [
            await party.runtime.receive_frame(sender, Kind.SHARE, ContentType.WORDS, shape)
            for sender in range(party.servers)
        ]
    await party.runtime.shutdown()  # no server waits for what is left to do
    release = open_sums(task, [frame.words for frame in frames])
    release.save(party.folder / RELEASE_FILE)
    return release, refused


async def accepted_task(party: Party, task: Task) -> tuple[Task, dict[str, int]]:
    """Hear from every server how many reports are accepted; return the task of so many, and the others by cause.

    Raises
    ------
    MalformedFrame, BatchMismatch
        If a server tells no such thing, or another thing than the first one.
    """
    from dpmpc.collection.run_proofs import task_of

    told = []
    for sender in range(party.servers):
        frame = await party.runtime.receive_frame(sender, Kind.VERDICT, ContentType.BYTES)
        try:
            told.append(read_json(frame.raw, Proofs))
        except ReadError as error:
            raise MalformedFrame(f"party {sender} sent no valid VERDICT frame: {error}", sender) from error
        if told[-1] != told[0]:
            raise BatchMismatch(f"proofs: server {sender} found {told[-1]}, server 0 {told[0]}")
    found = told[0]
    if (
        found.accepted + sum(found.refused.values()) != task.clients
        or min((found.accepted, *found.refused.values())) < 0
    ):
        raise BatchMismatch(f"proofs: {found} told, numbers that make {task.clients} clients in all expected")
    return task_of(task, found.accepted, found.refused), found.refused


def demonstrate(arguments: Sequence[str]) -> None:
    """Sketch the generated population's rows, and print what was opened, what is promised and what it cost."""
    from dpmpc.cli.demonstrations import demonstration, demonstration_options, print_run

    chosen = demonstration_options(__doc__, arguments)
    shown = demonstration("ridge", chosen.clients)
    task = shown.task(chosen.epsilon, chosen.delta, chosen.servers)
    done = run(task, shown.table.values)
    rows, columns = done.release.sketch.shape
    found = f"opened: {rows} x {columns} noisy numbers, in the analyst's {RELEASE_FILE}"
    print_run([found], task, task.guarantee, done)


if __name__ == "__main__":
    from dpmpc.cli.main import by_hand

    by_hand(demonstrate)
