"""One party of Tables 3 to 5: the servers' job, several times, one server at a time.

All parties run on one processor. The servers take turns: one reads and transforms, the others wait with their sums
ready; then all open. After the last server the analyst has a turn, with the peers: `scipy.sparse` on the words of the
last server, and reading them. So every figure of a run comes from the same minutes of the same processor, and no
server competes with another. Turns are passed by files in a folder of the bench, not by messages, which would count.

What a server's clock covers is what a server does in `dpmpc.protocols.linear_transform` once all are linked: verify the
task, transform its share, send the result. Ways to hold a share:

- ``cold``: words in a file that has left the system's page cache;
- ``warm``: the same file, in the cache;
- ``keys``: a key of 16 bytes for each client in place of words, expanded chunk by chunk. The last server has words.

Where a machine has a processor for each server, ``together`` has all of them work at once, from warm files.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from dpmpc.analyst import open_sums
from dpmpc.errors import BenchFailed
from dpmpc.network.frames import ContentType, Kind
from dpmpc.network.meter import Meter
from dpmpc.network.party import Party
from dpmpc.network.verified_task import verified_task
from dpmpc.randomness import KEY_BYTES
from dpmpc.server import CHUNK_BYTES, add_noise, noise_stream, transform
from dpmpc.sharing import expand_many, open_share
from dpmpc.system import drop_from_cache
from dpmpc.task import Task

COLD, WARM, KEYS, TOGETHER = "cold", "warm", "keys", "together"
PHASES = ("read", "expand", "transform", "open")
CSC, READING, IN_MEMORY = "scipy csc", "reading the words", "our kernel in memory"
Words = NDArray[np.uint64]


def words_file(folder: Path, server: int) -> Path:
    """Return where a server's share lies as words."""
    return folder / f"words-{server}.npy"


def keys_file(folder: Path, server: int) -> Path:
    """Return where a server's share lies as keys, 16 bytes each, without a header."""
    return folder / f"keys-{server}"


def cost_file(folder: Path, party: int) -> Path:
    """Return where a party leaves what it measured."""
    return folder / f"cost-{party}.json"


async def main(party: Party) -> dict[str, Any]:
    """Run one party: a server, or the analyst with the peers."""
    folder = Path(party.arguments["folder"])
    pin(party.arguments["processors"][:1])
    run_ = _server if party.pid != party.analyst else _analyst
    cost_file(folder, party.pid).write_text(json.dumps(await run_(party, party.task, folder)))
    return {}


def pin(processors: Iterable[int]) -> None:
    """Let all threads of this process run on these processors only, where the system can do that."""
    if hasattr(os, "sched_setaffinity"):
        for thread in os.listdir("/proc/self/task"):
            os.sched_setaffinity(int(thread), processors)


async def _server(party: Party, task: Task, folder: Path) -> list[dict[str, Any]]:
    costs = []
    for turn in range(party.arguments["runs"]):
        for way in party.arguments["ways"]:
            if way == TOGETHER:
                pin(party.arguments["processors"])
                _pass_turn(folder, turn, f"{way}-ready", party.pid)
                await _all_have_passed(folder, turn, f"{way}-ready", party.servers)
            else:
                await _my_turn(folder, turn, way, party.pid)
            cost, sums = await _sketch(party, way, folder)
            _pass_turn(folder, turn, way, party.pid)
            await _all_have_passed(folder, turn, way, party.servers + 1)
            cost["phases"]["open"] = await _open(party, sums)
            costs.append({"way": way, **cost})
            pin(party.arguments["processors"][:1])
    return costs


async def _sketch(party: Party, way: str, folder: Path) -> tuple[dict[str, Any], Words]:
    """Sketch this server's share once, under a clock of its own."""
    keyed = way == KEYS and party.pid < party.servers - 1
    path = keys_file(folder, party.pid) if keyed else words_file(folder, party.pid)
    _settle(path, cold=way == COLD)
    fetched, meter = _fetched_bytes(), Meter(party.pid, dict)
    meter.connected()
    task = verified_task(party.runtime.settings)
    if keyed:
        sums = await asyncio.to_thread(sketch_keys, task, path, meter)
    else:
        share = open_share(path, task.encoding.ring)
        sums = await asyncio.to_thread(transform, task, share, phase=meter.phase)
    spent = meter.statistics()
    phases = {name: {"wall_s": cost.wall_s, "cpu_s": cost.cpu_s} for name, cost in spent.phases.items()}
    kept = {"wall_s": spent.total_s, "cpu_s": spent.cpu_s, "keyed": keyed, "fetched": _fetched_bytes() - fetched}
    return {**kept, "phases": phases}, sums


def sketch_keys(task: Task, path: Path, meter: Meter) -> Words:
    """Sketch the share that a key for each client stands for, in chunks of the size that `transform` has."""
    sums, each = task.sketch.zeros(task.width), task.copies * task.width
    chunk = max(1, CHUNK_BYTES // (8 * each))
    with path.open("rb") as file:
        for first in range(0, task.clients, chunk):
            count = min(chunk, task.clients - first)
            with meter.phase("read"):
                keys = np.frombuffer(file.read(KEY_BYTES * count), np.uint8).reshape(count, KEY_BYTES)
            with meter.phase("expand"):
                words = expand_many(keys, each, task.encoding.ring)
            with meter.phase("transform"):
                part = words.reshape(count, task.copies, task.width)
                task.sketch.apply(part, out=sums, first=first, ring=task.encoding.ring)
    with meter.phase("transform"):
        return add_noise(task, sums, noise_stream(task))


async def _open(party: Party, sums: Words) -> dict[str, float]:
    assert party.analyst is not None
    with party.meter.phase("open") as total:
        wall, cpu, sent = total.wall_s, total.cpu_s, total.bytes_sent
        await party.runtime.send_frame(party.analyst, party.runtime.frame(Kind.SHARE, sums))
    return {"wall_s": total.wall_s - wall, "cpu_s": total.cpu_s - cpu, "sent": total.bytes_sent - sent}


async def _analyst(party: Party, task: Task, folder: Path) -> list[dict[str, float]]:
    """Open every run, compare what they open, and have the peers' turn."""
    peers, opened, costs = None, None, []
    shape = (task.sketch.rows, task.width)
    for turn in range(party.arguments["runs"]):
        for way in party.arguments["ways"]:
            if way == party.arguments["ways"][0]:
                await _my_turn(folder, turn, way, party.pid)
                peers = peers or _peers(task, words_file(folder, party.servers - 1))
                costs.append({name: _cpu_seconds(peer) for name, peer in peers.items()})
            _pass_turn(folder, turn, way, party.pid)
            with party.meter.phase("open"):
                frames = [
                    await party.runtime.receive_frame(sender, Kind.SHARE, ContentType.WORDS, shape)
                    for sender in range(party.servers)
                ]
            sums = open_sums(task, [frame.words for frame in frames]).sums
            if opened is not None and not np.array_equal(sums, opened):
                raise BenchFailed(f"{way}: run {turn} opened other sums than the first run of the same shares")
            opened = sums
    return costs


def _peers(task: Task, path: Path) -> dict[str, Any]:
    """Return the products on the last server's words, after a look at what they compute."""
    ours = np.asarray(open_share(path, task.encoding.ring).rows(0, task.clients))
    data = ours.reshape(-1, task.width)
    places, signs = task.sketch.entries(0, task.clients)
    minus_one = np.uint64(2**64 - 1)  # numpy would promote int64 with uint64 to float64
    values = np.where(signs.ravel() < 0, minus_one, np.uint64(1))
    csc = scipy.sparse.csc_matrix(
        (values, places.ravel(), np.arange(len(data) + 1)), shape=(task.sketch.rows, len(data))
    )
    if not np.array_equal(csc @ data, task.sketch.apply(ours)):
        raise BenchFailed("scipy.sparse computes other sums than our kernel from the same words")
    return {CSC: lambda: csc @ data, READING: data.max, IN_MEMORY: lambda: task.sketch.apply(ours)}


def _cpu_seconds(function: Any) -> float:
    began = time.process_time()
    function()
    return time.process_time() - began


def _settle(path: Path, *, cold: bool) -> None:
    """Have a file in the page cache, or out of it."""
    with path.open("rb") as file:
        if cold:
            os.fsync(file.fileno())  # what is not on the disk yet does not leave the cache
            drop_from_cache(file.fileno(), 0, 0)
        else:
            while file.read(1 << 22):
                pass


def _fetched_bytes() -> int:
    """Return the bytes that the system has fetched from disks for this process; 0 where it does not say."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("read_bytes")), 0)


def _passed(folder: Path, turn: int, way: str, party: int) -> Path:
    return folder / f"passed-{turn}-{way}-{party}"


def _pass_turn(folder: Path, turn: int, way: str, party: int) -> None:
    _passed(folder, turn, way, party).touch()


async def _my_turn(folder: Path, turn: int, way: str, party: int) -> None:
    """Wait until the party before this one has had its turn; the first one has it at once."""
    while party > 0 and not _passed(folder, turn, way, party - 1).exists():
        await asyncio.sleep(0.02)


async def _all_have_passed(folder: Path, turn: int, way: str, parties: int) -> None:
    while not all(_passed(folder, turn, way, party).exists() for party in range(parties)):
        await asyncio.sleep(0.02)
