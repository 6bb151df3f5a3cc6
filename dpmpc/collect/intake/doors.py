"""Hand reports, and withdrawals, on from the door that took them to the other servers, at once or later.

A door stores its own record of a report, and then gives the unchanged bytes to the others at their pinned ports, many
reports in a request, where it shows its own certificate. What another server has neither stored nor refused for good by
then goes into the *outbox*, and is tried again until the collection closes.

Promised: a report for which `Door.hand_on` returned is durable in the outbox for each server that has not given a final
answer; after a crash before that, the client has no answer and repeats. An entry ends only at a final answer
(`endpoints.FINAL`) or when the collection closes. There is one entry at most for each report that this server stores or
has withdrawn, and each other server. Not promised: that a door hands anything on; a client that wants to know tries
another door.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import datetime
import itertools
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec

from dpmpc.base.errors import InputError, SpoolError
from dpmpc.base.storage.database import Store, connect, transaction, typed_errors
from dpmpc.base.untrusted import ReadError, read_beginning, read_json
from dpmpc.collect.intake.logs import RateLimitedLogger
from dpmpc.collect.terms.endpoints import FINAL, MOST_WITHDRAWALS, SEALED_UPLOADS, UNREACHABLE, WITHDRAWALS, Status
from dpmpc.collect.terms.task_file import Collection
from dpmpc.collect.upload.added_keys import ADDED_KEYS, LARGEST_LIST, AddedKey, read_added
from dpmpc.collect.upload.sealing import SealedReports, id_of
from dpmpc.parties.network.identity import party_name, pinning_context

try:
    import aiohttp
except ImportError as error:
    raise InputError("dpmpc.collect needs aiohttp: pip install '.[intake]' in its source folder") from error

GROUP_REPORTS = 256  # most that are handed to another server in one request
GROUP_BYTES = 1 << 18
HANDING_SECONDS = 5.0  # that a client waits for the other servers; what they have not answered then is for the outbox
ATTEMPT_SECONDS = 20.0
DOWN_SECONDS = 5.0  # after a server did not answer, in which clients do not wait for it
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
KEYS_SECONDS = 10.0  # after which a door asks another server again for keys that it has added
_ANSWER_BYTES = 1 << 16
_TABLES = (
    "CREATE TABLE IF NOT EXISTS reports (id BLOB PRIMARY KEY, body BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS waiting (server INTEGER, id BLOB, PRIMARY KEY (server, id))",
)

Answer = Annotated[int, msgspec.Meta(ge=100, le=599)]


class Answered(msgspec.Struct, frozen=True):
    """What a server answers to reports that are handed to it: for each of them its own status.

    What it states goes on to clients, so that it may be no other words.
    """

    reports: list[dict[str, Answer]]


class Entry(NamedTuple):
    """What waits for a server under the id of a report: the report, or what takes it back."""

    name: bytes
    body: bytes


class Outbox(Store):
    """Reports and withdrawals that other servers have not acknowledged yet, by the server that lacks them."""

    def __init__(self, folder: Path):
        self._folder, self._turns = folder, threading.Lock()
        with typed_errors(folder):
            self._database = connect(folder / "outbox.sqlite", create=True)
            with transaction(self._database):
                for table in _TABLES:
                    self._database.execute(table)

    def put(self, entries: Sequence[tuple[bytes, Sequence[int]]]) -> None:
        """Keep reports for these servers durably; of two reports with one id the first stays."""
        with self._turns, typed_errors(self._folder), transaction(self._database):
            for body, servers in entries:
                name = id_of(body)
                self._database.execute("INSERT OR IGNORE INTO reports VALUES (?, ?)", (name, body))
                self._database.executemany("INSERT OR IGNORE INTO waiting VALUES (?, ?)", [(j, name) for j in servers])

    def withdraw(self, entries: Sequence[tuple[bytes, bytes, Sequence[int]]]) -> None:
        """Keep withdrawals durably for these servers, instead of the reports that wait under their ids."""
        with self._turns, typed_errors(self._folder), transaction(self._database):
            for name, withdrawal, servers in entries:
                waiting = self._database.execute("SELECT server FROM waiting WHERE id = ?", (name,)).fetchall()
                lacking = {*servers, *(server for (server,) in waiting)}
                self._database.execute("DELETE FROM reports WHERE id = ?", (name,))
                self._database.execute("DELETE FROM waiting WHERE id = ?", (name,))
                if lacking:
                    self._database.execute("INSERT INTO reports VALUES (?, ?)", (name, withdrawal))
                self._database.executemany(
                    "INSERT INTO waiting VALUES (?, ?)", [(server, name) for server in sorted(lacking)]
                )

    def waiting(self, server: int, most: int, after: bytes = b"") -> list[Entry]:
        """Return some of the reports and secrets that wait for a server, in the order of their ids, after one id."""
        query = "SELECT id, body FROM waiting JOIN reports USING (id) WHERE server = ? AND id > ? ORDER BY id LIMIT ?"
        with self._turns, typed_errors(self._folder):
            return list(itertools.starmap(Entry, self._database.execute(query, (server, after, most))))

    def end(self, server: int, entries: Sequence[Entry]) -> None:
        """Forget that a server lacks these, but not a withdrawal that took the place of a report meanwhile."""
        with self._turns, typed_errors(self._folder), transaction(self._database):
            self._database.executemany(
                "DELETE FROM waiting WHERE server = ? AND id = (SELECT id FROM reports WHERE id = ? AND body = ?)",
                [(server, *entry) for entry in entries],
            )
            self._database.executemany(
                "DELETE FROM reports WHERE id = ? AND NOT EXISTS (SELECT * FROM waiting WHERE waiting.id = reports.id)",
                [(entry.name,) for entry in entries],
            )

    def clear(self, report_bytes: int) -> None:
        """Forget all reports, by their length: nobody takes them any more. Withdrawals stay."""
        with self._turns, typed_errors(self._folder), transaction(self._database):
            self._database.execute("DELETE FROM reports WHERE length(body) = ?", (report_bytes,))
            self._database.execute("DELETE FROM waiting WHERE id NOT IN (SELECT id FROM reports)")

    def __len__(self) -> int:
        """Count the reports that some server lacks."""
        with self._turns, typed_errors(self._folder):
            count: int = self._database.execute("SELECT count(*) FROM reports").fetchone()[0]
        return count

    def close(self) -> None:
        """Close the file."""
        with self._turns:
            self._database.close()


class Door:
    """What hands on the reports that one server took."""

    def __init__(
        self,
        collection: Collection,
        server: int,
        identity: Path,
        outbox: Outbox,
        log: RateLimitedLogger,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ):
        self._collection, self._outbox, self._now, self._log = collection, outbox, now, log
        others = [number for number in range(len(collection.servers)) if number != server]
        self._couriers = {number: _Courier(collection, number, identity, outbox, log) for number in others}

    @property
    def added(self) -> tuple[AddedKey, ...]:
        """The keys that other servers have added, as far as they have reported them."""
        return tuple(added for courier in self._couriers.values() for added in courier.added)

    async def run(self) -> None:
        """Hand on what comes and what is in the outbox, and ask for keys, until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for courier in self._couriers.values():
                    tasks.create_task(courier.run())
                    tasks.create_task(courier.ask_for_keys())
                tasks.create_task(self._clear_at_the_end())
        finally:
            for courier in self._couriers.values():
                await courier.close()

    async def hand_on(self, reports: Sequence[bytes]) -> list[dict[int, Status]]:
        """Return for each report what each other server answered, once all that is left is in the outbox."""
        found = await self._hand(reports)
        left = [
            (report, lacking) for report, one in zip(reports, found, strict=True) if (lacking := _without_answer(one))
        ]
        if left:
            await asyncio.to_thread(self._outbox.put, left)
        return found

    async def withdraw(self, bodies: Mapping[bytes, bytes], withdrawn: Sequence[bool], *, handing_on: bool) -> None:
        """Do as `hand_on` with withdrawals, by the ids of their reports, which nobody is handed any more.

        Of those that are not withdrawn here none is kept for later: this server may never have had such a report.
        Without `handing_on` only those are kept whose reports wait here for servers: these get the withdrawal instead.
        """
        found: list[dict[int, Status]] = [{} for _ in bodies]
        if handing_on:
            found = await self._hand(list(bodies.values()))
        entries = [
            (*one, _without_answer(answers))
            for one, answers, here in zip(bodies.items(), found, withdrawn, strict=True)
            if here
        ]
        if entries:
            await asyncio.to_thread(self._outbox.withdraw, entries)

    async def _hand(self, bodies: Sequence[bytes]) -> list[dict[int, Status]]:
        asked = {number: courier.hand(bodies) for number, courier in self._couriers.items()}
        futures = [handed.statuses for parts in asked.values() for handed in parts]
        if futures:
            await asyncio.wait(futures, timeout=HANDING_SECONDS)
        answers = {number: [status for part in parts for status in part.answered()] for number, parts in asked.items()}
        return [{number: statuses[index] for number, statuses in answers.items()} for index in range(len(bodies))]

    async def _clear_at_the_end(self) -> None:
        while self._now() < self._collection.closes:
            await asyncio.sleep(FIRST_PAUSE)
        while True:
            try:
                await asyncio.to_thread(self._outbox.clear, SealedReports(self._collection).report_bytes)
            except SpoolError as error:  # a full disk, say, which may not end the server
                self._log.log(logging.ERROR, "SpoolError: %s", error)
                await asyncio.sleep(LONGEST_PAUSE)
            else:
                return


@dataclasses.dataclass(eq=False)
class _Handed:
    """Reports, or withdrawals, on their way to one server: no more than a request holds."""

    bodies: Sequence[bytes]
    statuses: asyncio.Future[Sequence[Status]]  # one for all: a future for each report costs more than to store it

    def answered(self) -> Sequence[Status]:
        """Return what was answered until now; what has not gone yet is not sent any more."""
        if self.statuses.done() and not self.statuses.cancelled():
            return self.statuses.result()
        self.statuses.cancel()
        return [UNREACHABLE] * len(self.bodies)


class _Courier:
    """Hands reports to one other server, one request at a time."""

    def __init__(self, collection: Collection, server: int, identity: Path, outbox: Outbox, log: RateLimitedLogger):
        entry = collection.servers[server]
        self._collection, self._server, self._outbox, self._log = collection, server, outbox, log
        self._url, self._withdrawals_url, self._keys_url = (
            f"https://{entry.peers}{path.format(digest=collection.digest.hex())}"
            for path in (SEALED_UPLOADS, WITHDRAWALS, ADDED_KEYS)
        )
        self.added: tuple[AddedKey, ...] = ()
        self._context = pinning_context(entry.certificate.encode(), identity)
        self._report_bytes = SealedReports(collection).report_bytes
        self._most = max(1, min(GROUP_REPORTS, GROUP_BYTES // self._report_bytes))
        self._most_withdrawals = 1 if collection.authenticated else MOST_WITHDRAWALS
        self._queue: collections.deque[_Handed] = collections.deque()
        self._wake = asyncio.Event()
        self._down_until = 0.0
        self._http: aiohttp.ClientSession | None = None

    def hand(self, bodies: Sequence[bytes]) -> list[_Handed]:
        """Take what waits for its turn; return where the statuses will be, in the order of the bodies.

        While the server does not answer, clients do not wait for it: what they sent is for the outbox.
        """
        loop = asyncio.get_running_loop()
        parts = [
            _Handed(bodies[first : first + self._most], loop.create_future())
            for first in range(0, len(bodies), self._most)
        ]
        if loop.time() < self._down_until:
            for handed in parts:
                handed.statuses.set_result([UNREACHABLE] * len(handed.bodies))
        else:
            self._queue.extend(parts)
            self._wake.set()
        return parts

    async def run(self) -> None:
        """Hand on what is queued, and at times what is in the outbox, until cancelled."""
        loop = asyncio.get_running_loop()
        pause, due = FIRST_PAUSE, loop.time()
        while True:
            if not self._queue:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), max(0.0, due - loop.time()))
            self._wake.clear()
            await self._hand_queued()
            if loop.time() >= due:
                try:
                    left = await self._hand_kept()
                except SpoolError as error:
                    self._log.log(logging.ERROR, "SpoolError: %s", error)
                    left = True
                pause = min(LONGEST_PAUSE, 2 * pause) if left else FIRST_PAUSE
                due = loop.time() + pause

    async def ask_for_keys(self) -> None:
        """Ask at times which keys the server has added; a list that it has not signed changes nothing."""
        name = party_name(self._server)
        await asyncio.sleep(FIRST_PAUSE)  # servers are often started together
        while True:
            try:
                async with self._session().get(self._keys_url, server_hostname=name, allow_redirects=False) as response:
                    content, status = await read_beginning(response.content, LARGEST_LIST), response.status
                if status == 200:
                    found = read_added(content, self._collection)
                    self.added = _longer(self.added, tuple(one for one in found if one.server == self._server))
            except ReadError as error:
                self._log.log(logging.WARNING, f"server {self._server} gave keys that are none: {error}")
            except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
                self._log.log(logging.INFO, f"server {self._server} was not there to say which keys it has added")
            await asyncio.sleep(KEYS_SECONDS)

    async def close(self) -> None:
        """End what is queued, and the connection."""
        for handed in self._queue:
            handed.statuses.cancel()
        if self._http is not None:
            await self._http.close()

    async def _hand_queued(self) -> None:
        group: list[_Handed] = []
        bodies: list[bytes] = []
        while self._queue and (not group or len(bodies) + len(self._queue[0].bodies) <= self._most):
            handed = self._queue.popleft()
            if not handed.statuses.cancelled():
                group.append(handed)
                bodies += handed.bodies
        statuses: list[Status] = []
        for first in range(0, len(bodies), most := self._most):  # less than when they came, where a server takes less
            statuses += await self._send(bodies[first : first + most])
        answered = iter(statuses)
        for handed in group:
            own = list(itertools.islice(answered, len(handed.bodies)))
            if not handed.statuses.done():
                handed.statuses.set_result(own)

    async def _hand_kept(self) -> bool:
        """Send each report in the outbox for this server once; return whether something had to stay."""
        left, last = False, b""
        while kept := await asyncio.to_thread(self._outbox.waiting, self._server, self._most, last):
            statuses = await self._send([entry.body for entry in kept])
            ended = [entry for entry, status in zip(kept, statuses, strict=True) if status in FINAL]
            await asyncio.to_thread(self._outbox.end, self._server, ended)
            left = left or len(ended) < len(kept)
            if UNREACHABLE in statuses:
                break
            last = kept[-1].name
            await self._hand_queued()  # who waits for an answer goes first
        return left

    def _session(self) -> aiohttp.ClientSession:
        """Return what holds the one connection to the server."""
        self._http = self._http or aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=1, ssl=self._context),
            timeout=aiohttp.ClientTimeout(total=ATTEMPT_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )
        return self._http

    async def _send(self, bodies: Sequence[bytes]) -> Sequence[Status]:
        """Send reports in one request, and withdrawals in others; return the status of each at this server."""
        once = list(dict.fromkeys(bodies))  # several clients may have sent the same: a request holds each once
        withdrawals = [body for body in once if len(body) != self._report_bytes]
        reports = [body for body in once if len(body) == self._report_bytes]
        statuses = dict(zip(reports, await self._send_reports(reports), strict=True)) if reports else {}
        for first in range(0, len(withdrawals), self._most_withdrawals):
            group = withdrawals[first : first + self._most_withdrawals]
            statuses |= dict.fromkeys(group, (await self._post(self._withdrawals_url, group))[0])
        return [statuses[body] for body in bodies]

    async def _post(self, url: str, bodies: Sequence[bytes]) -> tuple[Status, bytes]:
        """Send bodies in one request; return its status and content."""
        name = party_name(self._server)
        try:
            async with self._session().post(
                url, data=b"".join(bodies), server_hostname=name, allow_redirects=False
            ) as response:
                content, status = await read_beginning(response.content, _ANSWER_BYTES), response.status
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            self._log.log(logging.WARNING, f"server {self._server} took no reports: {type(error).__name__}")
            self._down_until = asyncio.get_running_loop().time() + DOWN_SECONDS
            return UNREACHABLE, b""
        self._down_until = 0.0
        return status, content

    async def _send_reports(self, bodies: Sequence[bytes]) -> Sequence[Status]:
        """Send reports in one request; return the status of each."""
        status, content = await self._post(self._url, bodies)
        if status == 413 and len(bodies) > 1:
            self._most = max(1, self._most // 2)
        if status not in (200, 202):
            return [status] * len(bodies)
        try:
            answered = [
                found[str(self._server)] for found in read_json(content, Answered, largest=_ANSWER_BYTES).reports
            ]
            if len(answered) != len(bodies):
                raise ReadError(f"statuses of {len(answered)} reports")
        except (ReadError, LookupError):
            self._log.log(logging.WARNING, f"server {self._server} gave an answer that is none")
            return [UNREACHABLE] * len(bodies)
        return answered


def _longer(known: tuple[AddedKey, ...], found: tuple[AddedKey, ...]) -> tuple[AddedKey, ...]:
    """Return the list with more keys: a server that was put back may have lost some."""
    return found if len(found) > len(known) else known


def _without_answer(answers: Mapping[int, Status]) -> list[int]:
    """Return the servers that have not given a final answer."""
    return [number for number, status in answers.items() if status not in FINAL]
