"""Crashes: servers are killed at random points while clients upload; what they acknowledged must be there, once.

Client processes upload reports and remember what they sent: the ids, and the sum of their encoded rows with noise. A
random server is killed with SIGKILL and started again, over and over, some before they listen. When every server has
acknowledged every report, the spools are compared with what the clients remember: the same ids in each, none missing,
none twice, and the shares' sums, opened, equal to the clients' sum exactly. Then the servers release what they hold,
and the opened sketch has to equal that of the reports exactly.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness import machine, markdown, write
from bench.system.collection_servers import Servers
from bench.system.released import expected_sums, release
from dpmpc.base.arrays import Reals, Words
from dpmpc.base.errors import InputError, ProtocolFailure
from dpmpc.collect.terms.task_file import Collection
from dpmpc.collect.upload.sealing import id_of
from dpmpc.collect.upload.submission import Submission
from dpmpc.release.client import Client

UPLOADS, CLIENTS, KILLS = 10_000, 4, 30
LONGEST_LIFE = 1.0  # seconds between two kills, at most
EARLY = 0.3  # of the servers are killed again while they start, within as many seconds
PAUSE = 0.01  # seconds after which a client looks for kills again
KILLED = "killed"  # a file with a byte for each
SECONDS = 1800.0
_ROWS = 25  # of one submission
_IDS_AT_ONCE = 1000


class Remembering(Client):
    """A client that adds up what it sends."""

    total: Words | None = None

    def randomize(self, rows: Reals, *, first: int = 0, threads: int = 1) -> Words:
        """Randomize, and remember the sum."""
        noisy = super().randomize(rows, first=first, threads=threads)
        ring = self.task.encoding.ring
        known = [] if self.total is None else [self.total]
        self.total = ring.sum_of([*noisy, *known], name="noisy")
        return noisy


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a run showed."""

    uploads: int  # reports that all servers acknowledged; servers killed
    kills: int
    missing: int  # acknowledged reports that a spool lacks, and others that it has, over all spools
    surplus: int
    exact: bool  # whether the opened sum is the clients'
    released: bool  # whether the release holds every acknowledged report, and its sketch is exactly theirs
    seconds: float  # until everything was acknowledged

    @property
    def passed(self) -> bool:
        """Whether nothing was lost and nothing was counted twice."""
        return self.exact and self.released and self.missing == self.surplus == 0


def main(arguments: Sequence[str]) -> None:
    """Run, print and write."""
    if arguments[:1] == ["client"]:
        _client(*arguments[1:])
        return
    parser = argparse.ArgumentParser(prog="python -m bench crash", description=__doc__.splitlines()[0])
    parser.add_argument("--uploads", type=int, default=UPLOADS, help="reports (default %(default)s)")
    parser.add_argument("--clients", type=int, default=CLIENTS, help="client processes (default %(default)s)")
    parser.add_argument("--kills", type=int, default=KILLS, help="fewest kill -9 (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments (default %(default)s)")
    parser.add_argument("--short", action="store_true", help="500 reports, 6 kills; nothing is written")
    chosen = parser.parse_args(arguments)
    if chosen.short:
        chosen.uploads, chosen.kills = 500, 6
    with tempfile.TemporaryDirectory(prefix="dpmpc-crash-") as folder:
        outcome = crash(Path(folder), chosen.uploads, chosen.clients, chosen.kills, chosen.seed)
    content = {"machine": machine(), "clients": chosen.clients, **dataclasses.asdict(outcome)}
    text = render(content)
    print(text)
    if not outcome.passed:
        raise ProtocolFailure(f"crash: {outcome}")
    if (chosen.uploads, chosen.kills) == (UPLOADS, KILLS):
        write("crash", content, text)


def crash(folder: Path, uploads: int, clients: int, kills: int, seed: int, **fields: Any) -> Outcome:
    """Upload while servers are killed; compare what arrived with what was sent."""
    moments = random.Random(seed)
    counts = [uploads // clients + (number < uploads % clients) for number in range(clients)]
    start = time.monotonic()
    settings: dict[str, Any] = {"minimum_batch": uploads, "copies": "each", **fields}
    with Servers.make(folder, "--rate", "1000000", **settings) as servers:
        servers.start()
        (folder / KILLED).touch()
        processes = [_launch(folder, number, count, kills) for number, count in enumerate(counts)]
        killed = 0
        try:
            while any(process.poll() is None for process in processes):
                if time.monotonic() - start > SECONDS:
                    raise ProtocolFailure(f"crash: clients have not finished within {SECONDS:g} s")
                time.sleep(moments.uniform(0, LONGEST_LIFE))
                if killed >= kills:
                    continue
                server = moments.randrange(len(servers.collection.servers))
                for _ in range(1 + (moments.random() < EARLY)):
                    servers.kill(server)
                    servers.launch(server)
                    killed += 1
                    with (folder / KILLED).open("a") as count:
                        count.write("x")
                    time.sleep(moments.uniform(0, EARLY))
                servers.wait(server)
        finally:
            for process in processes:
                process.kill()
                process.wait()
        seconds = time.monotonic() - start
        if any(process.returncode for process in processes):
            raise ProtocolFailure(f"crash: a client gave up: {(folder / 'clients.log').read_text()}")
        return _compare(servers, clients, killed, seconds)


def _launch(folder: Path, number: int, count: int, kills: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "bench", "crash", "client", str(folder.absolute())]
    command += [str(number), str(count), str(kills)]
    with (folder / "clients.log").open("a") as log:
        return subprocess.Popen(command, stderr=log, cwd=Path(__file__).parents[2])


def _client(folder: str, number: str, count: str, kills: str) -> None:
    """Upload in submissions of some rows, spread over the kills."""
    place = Path(folder)
    collection = Collection.load(place / "collection.json")
    client = Remembering(collection.plan.verify())
    rows = np.random.default_rng(int(number)).uniform(0, 10, (int(count), len(collection.plan.schema)))
    ids = []
    for first in range(0, len(rows), _ROWS):
        while (place / KILLED).stat().st_size * len(rows) < int(kills) * first:
            time.sleep(PAUSE)
        part = rows[first : first + _ROWS]
        state = place / f"client-{number}-{first}.state"
        submission = Submission(collection=collection, state=state, client=client, seconds=SECONDS)
        with submission.open(part) as pending:
            for records in pending.records(0, _IDS_AT_ONCE):
                ids += [id_of(record.content).hex() for record in records]
        submission.run(part)
    assert client.total is not None
    (place / f"client-{number}.json").write_text(json.dumps({"ids": ids, "total": client.total.tolist()}))


def _compare(servers: Servers, clients: int, kills: int, seconds: float) -> Outcome:
    told = [json.loads((servers.folder / f"client-{number}.json").read_text()) for number in range(clients)]
    acknowledged = [report for client in told for report in client["ids"]]
    if len(set(acknowledged)) < len(acknowledged):
        raise InputError("crash", "a report id was drawn twice")
    missing = surplus = 0
    for server in range(len(servers.collection.servers)):
        with servers.spool(server) as spool:
            stored = [bytes(report).hex() for report in spool.ids()]
        missing += len(set(acknowledged) - set(stored))
        surplus += len(stored) - len(set(stored) & set(acknowledged))
    expected = servers.collection.plan.encoding.ring.sum_of(
        [np.array(client["total"], np.uint64) for client in told], name="totals"
    )
    exact = np.array_equal(servers.opened_sum(), expected)
    opened = release(servers).release
    released = opened.clients == len(acknowledged) and np.array_equal(opened.sums, expected_sums(servers, opened.task))
    return Outcome(len(acknowledged), kills, missing, surplus, exact, released, seconds)


def render(content: dict[str, Any]) -> str:
    """Return the Markdown page."""
    where = content["machine"]
    cells = [str(content[name]) for name in ("uploads", "clients", "kills", "missing", "surplus")]
    return "\n".join(
        [
            "# Servers that are killed while clients upload",
            "",
            f"3 servers, {where['cpu']}, {where['cores']} cores, {where['date']}.",
            "",
            markdown(
                [
                    "reports",
                    "client processes",
                    "kill -9",
                    "missing",
                    "surplus",
                    "sum exact",
                    "sketch exact",
                    "seconds",
                ],
                [
                    [
                        *cells,
                        *("yes" if content[name] else "no" for name in ("exact", "released")),
                        f"{content['seconds']:.0f}",
                    ]
                ],
            ),
        ]
    )
