"""Submit rows to a collection: make reports, keep them, send them until every server has acknowledged them.

A collection of format 2 may also be reached through the *door* of any one server, which takes the sealed report for
all of them and hands it on (`dpmpc.collection.doors`). What a door says of other servers only they could vouch for.

Promised: records are on the client's disk before the first byte leaves (`pending`), so a submission can be repeated
after any failure, and counts once. Only a server with the pinned certificate is contacted, or the door with an ordinary
web certificate. Temporary obstacles (a lost connection, a full queue, a server that restarts) lead to another attempt
after growing, random delays, until time is up; then, and when a server refuses for good, the error names the server.
Meanwhile `tell` is called about a server that does not answer. What a server answers is bounded, checked and escaped
before anybody reads it (`dpmpc.untrusted`); an answer that cannot be is a `ProtocolFailure` that names the server. Not
promised: that a report is in the release. A server may be down until the collection closes.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import math
import os
import secrets
import ssl
import urllib.parse
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from dpmpc.arguments import require_positive, require_whole
from dpmpc.client import Client
from dpmpc.collection.doors import FINAL, SEALED_UPLOADS, STORED, Status
from dpmpc.collection.pending import Pending, PendingRecord
from dpmpc.collection.report_ids import ID_BYTES
from dpmpc.collection.reports import make_reports
from dpmpc.collection.roster import Ticket
from dpmpc.collection.sealing import SECRET_BYTES, SealedReports, report_id
from dpmpc.collection.task_file import Collection
from dpmpc.errors import (
    CollectionClosed,
    DpmpcError,
    InputError,
    PartyImpersonated,
    PartyMissing,
    ProtocolFailure,
    ReportConflict,
    ReportRejected,
)
from dpmpc.network.identity import party_name, pinning_context
from dpmpc.randomness import Stream
from dpmpc.untrusted import ReadError, printable, read_beginning, read_json

try:
    import aiohttp
except ImportError as error:
    raise InputError("dpmpc.collection needs aiohttp: pip install '.[intake]' in its source folder") from error

SECONDS = 3600.0
ATTEMPT_SECONDS = 30.0
FIRST_DELAY, LONGEST_DELAY = 0.2, 60.0
SILENCE_SECONDS, REMINDER_SECONDS = 5.0, 60.0  # until a server that acknowledges nothing is reported, first and later
_ANSWER_BYTES = 1 << 14
_STATUS_BYTES = 32  # of one server in the answer of a door to one report
_LONGEST_MESSAGE = 300  # characters of a server's words that are shown
_LONGEST_PAUSE = 86400.0  # seconds; no server asks for more
_NO_ANSWER = "no answer yet"
_BLOCK_WORDS = 1 << 20  # of the reports that are made at once
_PASSING = frozenset({408, 429, 500, 502, 503, 504})
_PERMANENT: dict[str, type[InputError]] = {
    "ReportRejected": ReportRejected,
    "ReportConflict": ReportConflict,
    "CollectionClosed": CollectionClosed,
    "TooEarly": CollectionClosed,
    "TooLarge": InputError,
}
Result = TypeVar("Result")
_SPREAD = secrets.SystemRandom()


class _Counts(msgspec.Struct, frozen=True):
    """The answer to an upload that was stored."""

    stored: int
    duplicates: int


class _Reached(msgspec.Struct, frozen=True):
    """The answer of a door to reports that some server lacks: the status at each server."""

    servers: dict[str, Status]


class _Reason(msgspec.Struct, frozen=True):
    """The answer to an upload that was not stored."""

    error: str = "no reason"
    message: str = ""


@dataclasses.dataclass(frozen=True)
class Submitted:
    """The outcome of a submission.

    Parameters
    ----------
    reports : int
        All of it.
    stored, duplicates : tuple of int
        For each server, what it stored in this run, and what it had already.
    finished_before : bool
        Whether nothing was sent because an earlier run had finished. Without tickets the state file then no longer
        knows whose rows it was for: the rows of this run were not compared with them.
    """

    reports: int
    stored: tuple[int, ...]
    duplicates: tuple[int, ...]
    finished_before: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Submission:
    """Rows of one client, or of many whose reports somebody collects for them.

    Parameters
    ----------
    collection : Collection
        The public facts; verified before anything is sent.
    door : str, optional
        Where to send reports of format 2 for all servers: ``https://HOST[:PORT]``, or http on the loopback interface.
    state : path
        File that keeps the reports until all servers have acknowledged them. Give it again to send again.
    tickets : sequence of Ticket, optional
        One for each row, where the collection asks who its clients are.
    batch : int
        Reports of one request; 1 with tickets.
    concurrency : int
        Requests to one server at a time.
    seconds : float
        Longest time for the whole submission.
    client : Client, optional
        Who randomizes the rows; of ``collection.plan``.
    tell : callable, optional
        Takes a line whenever a server has acknowledged nothing for `SILENCE_SECONDS`, every `REMINDER_SECONDS` at most.
    on_progress : callable, optional
        Takes how many acknowledgements have come, of earlier runs with this state too, and how many are needed: one of
        every server for each report.
    """

    collection: Collection
    state: str | os.PathLike[str]
    tickets: Sequence[Ticket] | None = None
    batch: int = 1
    concurrency: int = 8
    seconds: float = SECONDS
    client: Client | None = None
    door: str | None = None
    tell: Callable[[str], None] = lambda line: None
    on_progress: Callable[[int, int], None] = lambda acknowledged, needed: None

    def __post_init__(self) -> None:
        require_whole("batch", self.batch, 1)
        require_whole("concurrency", self.concurrency, 1)
        require_positive("seconds", self.seconds)
        if self.collection.authenticated != (self.tickets is not None):
            given = "none" if self.tickets is None else f"{len(self.tickets)}"
            raise InputError(f"tickets: {given} given for a collection with authenticated = {self.tickets is None}")
        if self.tickets is not None and self.batch > 1:
            raise InputError(f"batch: {self.batch} given, 1 expected with tickets: each report has its own token")
        self.collection.require_clipping()
        if self.door is not None:
            _ = SealedReports(self.collection)
            _require_door(self.door)

    def run(self, rows: NDArray[np.float64]) -> Submitted:
        """Send one report for each row, and wait until every server has acknowledged all.

        Parameters
        ----------
        rows : ndarray of float64, shape (m, p)
            In the units of the schema.

        Raises
        ------
        PartyMissing
            If a server did not acknowledge in time. Run again with the same state and rows.
        ReportRejected, ReportConflict, CollectionClosed, PartyImpersonated, ProtocolFailure
            If a server refuses for good, or is another than the collection names. Other servers may have stored reports
            by then; a batch holds only what all have.
        """
        return asyncio.run(self.send(rows))

    async def send(self, rows: NDArray[np.float64]) -> Submitted:
        """Do what `run` does, in the event loop that is running."""
        self.collection.verify()
        with self.open(rows) as pending:
            reports, finished = pending.reports, pending.finished
            if finished and reports != len(rows):
                raise InputError(
                    f"state: {self.state} is that of a finished submission of {reports} reports, {len(rows)} rows "
                    "given; another file for other people expected"
                )
            tokens = None if self.tickets is None else {ticket.report: ticket for ticket in self.tickets}
            targets = _targets(self.collection, self.door)
            needed = reports * len(targets)
            counter = _Counter(needed - len(pending), needed, self.on_progress)
            uploads = [_Uploader(self, target, pending, tokens, counter.add) for target in targets]
            counts = await _all(upload.run() for upload in uploads)
        stored, duplicates = zip(*counts, strict=True)
        return Submitted(reports, stored, duplicates, finished)

    def open(self, rows: NDArray[np.float64]) -> Pending:
        """Make the reports of these rows unless the state has them; return what is still to be sent, open."""
        if self.tickets is not None and len(self.tickets) != len(rows):
            raise InputError(f"tickets: {len(self.tickets)} given, one for each of {len(rows)} rows expected")
        content = np.ascontiguousarray(rows, "<f8").tobytes()
        stream, own = Stream.from_os(), [ticket.report for ticket in self.tickets or ()]
        kept: list[bytes] = []
        if self.tickets is not None:
            ids = own
        elif self.collection.format == 2:
            kept = [stream.bytes(SECRET_BYTES) for _ in rows]
            ids = [report_id(self.collection.digest, secret) for secret in kept]
        else:
            ids = [stream.bytes(ID_BYTES) for _ in rows]
        sealed = self.door is not None
        reports = self._reports(rows, ids)
        return Pending(self.state, self.collection, content, reports, own, secrets_of_ids=kept, sealed=sealed)

    def _reports(self, rows: NDArray[np.float64], ids: Sequence[bytes]) -> Iterator[list[list[bytes]]]:
        """Yield the records of each server, or for a door the sealed reports, block by block."""
        client = self.client or Client(self.collection.plan)
        step = max(1, _BLOCK_WORDS // math.prod(self.collection.record_shape))
        for first in range(0, len(rows), step):
            block = slice(first, first + step)
            records = make_reports(client, self.collection, rows[block], ids[block])
            if self.door is None:
                yield records
                continue
            form = SealedReports(self.collection)
            tickets = [None] * len(ids[block]) if self.tickets is None else self.tickets[block]
            yield [[form.seal(own, ticket) for own, ticket in zip(zip(*records, strict=True), tickets, strict=True)]]


@dataclasses.dataclass
class _Counter:
    """Count acknowledgements of all servers together, and say how many there are."""

    acknowledged: int
    needed: int
    on_progress: Callable[[int, int], None]

    def add(self, reports: int) -> None:
        """Count the reports that a server has acknowledged."""
        self.acknowledged += reports
        self.on_progress(self.acknowledged, self.needed)


class _Target(NamedTuple):
    """Where one copy of every report goes."""

    number: int  # in the state
    name: str  # for people
    host: str
    url: str
    context: ssl.SSLContext | None
    hostname: str | None  # in its certificate, where that is not the one of its address
    servers: int  # of how many its answer says whether they have stored a report; 0 for itself alone

    @property
    def party(self) -> int | None:
        """The number of the server, of which a door has none."""
        return None if self.servers else self.number


def _targets(collection: Collection, door: str | None) -> list[_Target]:
    """Return the door, or else every server at its pinned port."""
    if door is not None:
        context = ssl.create_default_context() if door.startswith("https") else None
        url = door.rstrip("/") + SEALED_UPLOADS.format(digest=collection.digest.hex())
        return [_Target(0, f"door {printable(door)}", printable(door), url, context, None, len(collection.servers))]
    path = f"/v1/collections/{collection.digest.hex()}/reports"
    return [
        _Target(
            number,
            f"server {number}",
            printable(entry.url),
            entry.url + path,
            pinning_context(entry.certificate.encode()),
            party_name(number),
            0,
        )
        for number, entry in enumerate(collection.servers)
    ]


def _require_door(door: str) -> None:
    """Refuse an address of a door that is no web address, or says what a row's sender is over open lines."""
    try:
        parts = urllib.parse.urlsplit(door)
        port = parts.port
    except ValueError:
        parts, port = urllib.parse.urlsplit(""), None
    plain = parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1", "localhost")
    whole = bool(parts.hostname) and door.rstrip("/") == f"{parts.scheme}://{parts.netloc}" and "@" not in parts.netloc
    if not whole or port == 0 or not (plain or parts.scheme == "https"):
        raise InputError(f"door: {door!r} given, https://HOST[:PORT] expected, or http on the loopback interface")


class _Uploader:
    """Send one server, or a door, what it has not acknowledged."""

    def __init__(
        self,
        submission: Submission,
        target: _Target,
        pending: Pending,
        tickets: dict[bytes, Ticket] | None,
        acknowledged: Callable[[int], None],
    ) -> None:
        self._acknowledged = acknowledged
        self._submission, self._target, self._pending, self._tickets = submission, target, pending, tickets
        self._stored = self._duplicates = 0
        self._obstacle = _NO_ANSWER

    async def run(self) -> tuple[int, int]:
        """Return how many were stored, and how many were there already."""
        self._heard = asyncio.get_running_loop().time()
        self._deadline = self._heard + self._submission.seconds
        watching = asyncio.create_task(self._watch())
        try:
            await self._send_everything()
        finally:
            watching.cancel()
        return self._stored, self._duplicates

    async def _send_everything(self) -> None:
        batch, concurrency = self._submission.batch, self._submission.concurrency
        connector = aiohttp.TCPConnector(limit=concurrency, ssl=self._target.context or True)
        timeout = aiohttp.ClientTimeout(total=ATTEMPT_SECONDS)
        jar = aiohttp.DummyCookieJar()
        async with aiohttp.ClientSession(
            connector=connector, timeout=timeout, cookie_jar=jar, auto_decompress=False
        ) as self._http:
            for window in self._pending.records(self._target.number, 16 * batch * concurrency):
                requests = iter([window[start : start + batch] for start in range(0, len(window), batch)])
                await _all(self._send_all(requests) for _ in range(concurrency))
                self._pending.acknowledge(self._target.number, [record.position for record in window])

    async def _watch(self) -> None:
        """Report a server that does not answer, first within seconds and then at intervals."""
        loop = asyncio.get_running_loop()
        earliest = loop.time()
        while True:
            silent_from = max(self._heard + SILENCE_SECONDS, earliest)
            if loop.time() < silent_from:
                await asyncio.sleep(silent_from - loop.time())
                continue
            left = datetime.timedelta(seconds=self._deadline - loop.time())
            until = datetime.datetime.now(datetime.UTC) + left
            silence = loop.time() - self._heard
            self._submission.tell(
                f"{self._target.name}, {self._target.host}: nothing acknowledged for {silence:.0f} s, tried "
                f"until {until.isoformat(timespec='seconds')}; last: {self._obstacle}"
            )
            earliest = loop.time() + REMINDER_SECONDS

    async def _send_all(self, requests: Iterator[list[PendingRecord]]) -> None:
        for records in requests:
            try:
                await self._send(records)
            except DpmpcError:
                list(requests)  # so that the other workers begin nothing more
                raise

    async def _send(self, records: list[PendingRecord]) -> None:
        """Send until the server acknowledges or refuses for good."""
        body = b"".join(record.content for record in records)
        headers = {"Content-Type": "application/octet-stream"}
        if self._tickets is not None and not self._target.servers:  # else they are sealed
            token = self._tickets[body[:ID_BYTES]].token(self._target.number)
            headers["Authorization"] = f"Bearer {token.hex()}"
        delay = FIRST_DELAY
        while True:
            wait, why = await self._attempt(body, headers, len(records))
            if why is None:
                self._heard, self._obstacle = asyncio.get_running_loop().time(), _NO_ANSWER
                self._acknowledged(len(records))
                return
            self._obstacle = why
            pause = max(wait, delay * _SPREAD.uniform(0.5, 1.5))
            loop = asyncio.get_running_loop()
            if loop.time() + pause > self._deadline:
                raise PartyMissing(
                    f"{self._target.name}: no acknowledgement within {self._submission.seconds:g} s; last: {why}",
                    self._target.party,
                )
            await asyncio.sleep(pause)
            delay = min(LONGEST_DELAY, 2 * delay)

    async def _attempt(self, body: bytes, headers: dict[str, str], reports: int) -> tuple[float, str | None]:
        """Send once; return how long the server asks to wait, and why it failed, or None."""
        try:
            async with self._http.post(
                self._target.url,
                data=body,
                headers=headers,
                server_hostname=self._target.hostname,
                allow_redirects=False,
            ) as response:
                content = await read_beginning(response.content, self._longest_answer(reports))
                status, retry_after = response.status, response.headers.get("Retry-After", "")
        except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError) as error:
            why = printable(str(error), _LONGEST_MESSAGE)
            expected = (
                "an ordinary web certificate" if self._target.servers else "the certificate that the collection names"
            )
            raise PartyImpersonated(f"{self._target.name}: {expected} expected: {why}", self._target.party) from error
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            return 0.0, printable(f"{type(error).__name__}: {error}", _LONGEST_MESSAGE)
        if status == 200:
            self._count(content, reports)
            return 0.0, None
        if status == 202 and self._target.servers:
            return 0.0, self._missing(content, reports)
        try:
            reason = read_json(content, _Reason, largest=_ANSWER_BYTES)
        except ReadError:
            reason = _Reason("an answer without a reason")
        message = printable(reason.message, _LONGEST_MESSAGE)
        why = f"{status} {printable(reason.error, _LONGEST_MESSAGE)}: {message}"
        if status in _PASSING:
            return _pause(retry_after), why
        kind = _PERMANENT.get(reason.error)
        if kind is not None:
            raise kind(f"{self._target.name}: {message}")
        raise ProtocolFailure(f"{self._target.name}: {why}", self._target.party)

    def _longest_answer(self, reports: int) -> int:
        """Return how many bytes are read of an answer, which at a door has a status for each report and server."""
        return _ANSWER_BYTES + _STATUS_BYTES * reports * self._target.servers

    def _missing(self, content: bytes, reports: int) -> str:
        """Return which servers lack a report that a door has taken; refuse what no repetition will change."""
        try:
            reached = read_json(content, _Reached, largest=self._longest_answer(reports)).servers
        except ReadError as error:
            raise ProtocolFailure(
                f"{self._target.name}: an answer without servers: {error}", self._target.party
            ) from None
        for number, status in sorted(reached.items()):
            if status in FINAL and status != STORED:
                raise ReportRejected(
                    f"{self._target.name}: server {printable(number)} says that it has refused a report with {status}, "
                    "for good. If that is true, it is left out; make no other of the same row, which could count twice"
                )
        left = [f"server {number}: {status}" for number, status in sorted(reached.items()) if status != STORED]
        return printable(f"taken, and not acknowledged by {', '.join(left)}", _LONGEST_MESSAGE)

    def _count(self, content: bytes, reports: int) -> None:
        """Add the counts in a server's answer, which must account for every report that was sent."""
        try:
            counts = read_json(content, _Counts, largest=self._longest_answer(reports))
        except ReadError as error:
            raise ProtocolFailure(
                f"{self._target.name}: an answer without counts: {error}", self._target.party
            ) from None
        if min(counts.stored, counts.duplicates) < 0 or counts.stored + counts.duplicates != reports:
            raise ProtocolFailure(
                f"{self._target.name}: stored {counts.stored}, duplicates {counts.duplicates} answered, "
                f"{reports} in all expected",
                self._target.party,
            )
        self._stored += counts.stored
        self._duplicates += counts.duplicates


def _pause(retry_after: str) -> float:
    """Return the seconds of a header ``Retry-After``; 0 if it says no such thing."""
    plain = retry_after.isascii() and retry_after.isdecimal() and len(retry_after) < 10
    return min(float(retry_after), _LONGEST_PAUSE) if plain else 0.0


async def _all(jobs: Iterable[Coroutine[Any, Any, Result]]) -> list[Result]:
    """Wait for all jobs to end, then return their results or raise the first error; no connection is cut off."""
    outcomes = await asyncio.gather(*jobs, return_exceptions=True)
    results = []
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
        results.append(outcome)
    return results
