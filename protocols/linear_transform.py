"""The linear-transformation model among real processes (Burkhardt et al. 2025, Algorithm 1).

Parties: M servers, each holding one share of every client's noisy row, and one analyst, who holds nothing.

1. Each client clips, encodes and noises its row, and splits the result into M shares, one for each server
   (`dpmpc.client`).
2. Each server applies the same public matrix to its shares, and adds noise if the task says so (`dpmpc.server`). **No
   message passes between servers.**
3. Each server sends its transformed share to the analyst, who adds them up (`dpmpc.analyst`): the noisy sketch is
   opened, and nothing else.

Every party, the analyst too, has verified the task before it contacted any other (`dpmpc.network.verified_task`).

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
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from dpmpc.analyst import open_sums
from dpmpc.errors import BatchMismatch, InputError, MalformedFrame
from dpmpc.network.frames import ContentType, Kind
from dpmpc.network.party import Party
from dpmpc.network.settings import PartySettings
from dpmpc.network.verified_task import simulation_keys
from dpmpc.networked import REFUSED, RELEASE_FILE, run, share_file
from dpmpc.release import Release
from dpmpc.server import transform
from dpmpc.sharing import Share, open_share
from dpmpc.task import Task
from dpmpc.untrusted import ReadError, read_json


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
    task = party.task
    if party.pid != party.analyst:
        await server(party, task)
        return {}
    release, refused = await analyst(party, task)
    with party.meter.phase("fit"):
        answer = conclude(party.arguments, release)
    return answer if task.proofs is None else {**answer, REFUSED: refused}


def ready(module: str, settings: PartySettings) -> None:
    """Import a module that only the analyst needs, while clients are at work."""
    if settings.party == settings.analyst:
        importlib.import_module(module)


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

    Another task than that of the party is refused before the share is read, and one whose proofs would have to
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
    if task.digest != party.task.digest:
        raise InputError("task: another given than the one that this party has verified, that of its settings expected")


async def _transformed(party: Party, task: Task, share: Share) -> NDArray[np.uint64]:
    key = simulation_keys(party.runtime.settings)[party.pid]
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
