"""Send one server, or a door, the reports of a submission until it has acknowledged them.

Promised: only a server is contacted that shows the certificate which the task file pins, or a certificate of a public
authority where the task file pins none; a door shows one of the latter.
Temporary obstacles (a lost connection, a full queue, a server that restarts) lead to another attempt after growing,
random delays, until time is up; then, and when a server refuses for good, the error names the server. Meanwhile `tell`
is called about a server that does not answer. What a server answers is bounded, checked and escaped before anybody
reads it (`dpmpc.base.untrusted`); an answer that cannot be is a `ProtocolFailure` that names the server.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import secrets
import ssl
import urllib.parse
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

import aiohttp
import msgspec

from dpmpc.base.errors import (
    CollectionClosed,
    DpmpcError,
    InputError,
    PartyImpersonated,
    PartyMissing,
    ProtocolFailure,
    ReportConflict,
    ReportRejected,
)
from dpmpc.base.untrusted import ReadError, printable, read_beginning, read_json
from dpmpc.collect.terms.endpoints import FINAL, LOOPBACK, OWN_UPLOADS, SEALED_UPLOADS, STORED, Status
from dpmpc.collect.terms.task_file import Collection
from dpmpc.collect.upload.added_keys import ADDED_KEYS, LARGEST_LIST, AddedKey, read_added
from dpmpc.collect.upload.pending import Pending, PendingRecord

ATTEMPT_SECONDS = 30.0
FIRST_DELAY, LONGEST_DELAY = 0.2, 60.0
SILENCE_SECONDS, REMINDER_SECONDS = 5.0, 60.0  # until a server that acknowledges nothing is reported, first and later
_ANSWER_BYTES = 1 << 14
_STATUS_BYTES = 32  # of one server in the answer to one report
_LONGEST_MESSAGE = 300  # characters of a server's words that are shown
_LONGEST_PAUSE = 86400.0  # seconds; no server asks for more
_NO_ANSWER = "no answer yet"
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
    """The answer to reports: the status at each server that was asked."""

    servers: dict[str, Status]


class _Reason(msgspec.Struct, frozen=True):
    """The answer to an upload that was not stored."""

    error: str = "no reason"
    message: str = ""


class Target(NamedTuple):
    """Where one copy of every report goes."""

    number: int  # in the state
    name: str  # for people
    host: str
    url: str  # of uploads
    keys_url: str
    context: ssl.SSLContext | None
    hostname: str | None  # in its certificate, where that is not the one of its address
    servers: tuple[int, ...]  # whose word its answer has to hold; a door is for all
    party: int | None  # the number of the server, of which a door has none


def targets_of(collection: Collection, door: str | None) -> list[Target]:
    """Return the door, which hands reports on to all servers, or else each server, which is to hand nothing on."""
    uploads, own_uploads, keys = (
        path.format(digest=collection.digest.hex()) for path in (SEALED_UPLOADS, OWN_UPLOADS, ADDED_KEYS)
    )
    if door is not None:
        everybody = tuple(range(len(collection.servers)))
        context, url = ssl.create_default_context() if door.startswith("https") else None, door.rstrip("/")
        name = printable(door)
        return [Target(0, f"door {name}", name, url + uploads, url + keys, context, None, everybody, None)]
    targets = []
    for number, entry in enumerate(collection.servers):
        context, hostname = entry.trusted_by_clients(number)
        name, host = f"server {number}", printable(entry.url)
        target = Target(
            number, name, host, entry.url + own_uploads, entry.url + keys, context, hostname, (number,), number
        )
        targets.append(target)
    return targets


def require_door(door: str) -> None:
    """Refuse an address of a door that is no web address, or states what a row's sender is over open lines."""
    try:
        parts = urllib.parse.urlsplit(door)
        port = parts.port
    except ValueError:
        parts, port = urllib.parse.urlsplit(""), None
    plain = parts.scheme == "http" and parts.hostname in LOOPBACK
    whole = bool(parts.hostname) and door.rstrip("/") == f"{parts.scheme}://{parts.netloc}" and "@" not in parts.netloc
    if not whole or port == 0 or not (plain or parts.scheme == "https"):
        raise InputError("door", f"{door!r} given, https://HOST[:PORT] expected, or http on the loopback interface")


async def keys_at(collection: Collection, door: str | None, seconds: float) -> tuple[AddedKey, ...]:
    """Return the keys that servers have added, as a door or the first server that answers lists them.

    Each server has signed its own.
    """
    loop, delay = asyncio.get_running_loop(), FIRST_DELAY
    deadline, targets = loop.time() + seconds, targets_of(collection, door)
    while True:
        for target in targets:
            found = await _keys_of(target, collection)
            if not isinstance(found, str):
                return found
        if loop.time() + delay > deadline:
            raise PartyMissing(f"{target.name}: its keys not received within {seconds:g} s; last: {found}", None)
        await asyncio.sleep(delay * _SPREAD.uniform(0.5, 1.5))
        delay = min(LONGEST_DELAY, 2 * delay)


async def _keys_of(target: Target, collection: Collection) -> tuple[AddedKey, ...] | str:
    """Ask once for keys; return them, or why there is no answer yet."""
    try:
        async with (
            _session(target, 1) as http,
            http.get(target.keys_url, server_hostname=target.hostname, allow_redirects=False) as response,
        ):
            content, status = await read_beginning(response.content, LARGEST_LIST), response.status
        if status == 200:
            return read_added(content, collection)
        if status not in _PASSING:
            raise ProtocolFailure(f"{target.name}: {status} answered, keys expected", target.party)
        return f"{status}"
    except ReadError as error:
        raise ProtocolFailure(f"{target.name}: {error}", target.party) from None
    except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError) as error:
        raise _impersonated(target, error) from error
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        return printable(f"{type(error).__name__}: {error}", _LONGEST_MESSAGE)


def _impersonated(target: Target, error: Exception) -> PartyImpersonated:
    expected = "the certificate that the collection names" if target.hostname else "an ordinary web certificate"
    return PartyImpersonated(
        f"{target.name}: {expected} expected: {printable(str(error), _LONGEST_MESSAGE)}", target.party
    )


def _session(target: Target, concurrency: int) -> aiohttp.ClientSession:
    """Return what sends requests to a target, with nothing that a server could recognize it by."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=concurrency, ssl=target.context or True),
        timeout=aiohttp.ClientTimeout(total=ATTEMPT_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
    )


@dataclasses.dataclass(kw_only=True)
class Uploader:
    """Sends one server, or a door, what it has not acknowledged."""

    target: Target
    pending: Pending
    batch: int  # reports of one request
    concurrency: int  # requests at a time
    seconds: float  # until it gives up
    tell: Callable[[str], None]
    acknowledged: Callable[[int], None]

    def __post_init__(self) -> None:
        self._stored = self._duplicates = 0
        self._obstacle = _NO_ANSWER

    async def run(self) -> tuple[int, int]:
        """Return how many were stored, and how many were there already."""
        self._heard = asyncio.get_running_loop().time()
        self._deadline = self._heard + self.seconds
        watching = asyncio.create_task(self._watch())
        try:
            await self._send_everything()
        finally:
            watching.cancel()
        return self._stored, self._duplicates

    async def _send_everything(self) -> None:
        batch, concurrency = self.batch, self.concurrency
        async with _session(self.target, concurrency) as self._http:
            for window in self.pending.records(self.target.number, 16 * batch * concurrency):
                requests = iter([window[start : start + batch] for start in range(0, len(window), batch)])
                await gather_all(self._send_all(requests) for _ in range(concurrency))
                self.pending.acknowledge(self.target.number, [record.position for record in window])

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
            self.tell(
                f"{self.target.name}, {self.target.host}: nothing acknowledged for {silence:.0f} s, tried "
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
        delay = FIRST_DELAY
        while True:
            wait, why = await self._attempt(body, headers, len(records))
            if why is None:
                self._heard, self._obstacle = asyncio.get_running_loop().time(), _NO_ANSWER
                self.acknowledged(len(records))
                return
            self._obstacle = why
            pause = max(wait, delay * _SPREAD.uniform(0.5, 1.5))
            loop = asyncio.get_running_loop()
            if loop.time() + pause > self._deadline:
                raise PartyMissing(
                    f"{self.target.name}: no acknowledgement within {self.seconds:g} s; last: {why}",
                    self.target.party,
                )
            await asyncio.sleep(pause)
            delay = min(LONGEST_DELAY, 2 * delay)

    async def _attempt(self, body: bytes, headers: dict[str, str], reports: int) -> tuple[float, str | None]:
        """Send once; return how long the server asks to wait, and why it failed, or None."""
        try:
            async with self._http.post(
                self.target.url,
                data=body,
                headers=headers,
                server_hostname=self.target.hostname,
                allow_redirects=False,
            ) as response:
                content = await read_beginning(response.content, self._longest_answer(reports))
                status, retry_after = response.status, response.headers.get("Retry-After", "")
        except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError) as error:
            raise _impersonated(self.target, error) from error
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            return 0.0, printable(f"{type(error).__name__}: {error}", _LONGEST_MESSAGE)
        if status in (200, 202) and (missing := self._missing(content, reports)):
            return 0.0, missing
        if status == 200:
            self._count(content, reports)
            return 0.0, None
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
            raise kind(f"{self.target.name}: {message}")
        raise ProtocolFailure(f"{self.target.name}: {why}", self.target.party)

    def _longest_answer(self, reports: int) -> int:
        """Return how many bytes are read of an answer, which has a status for each report and server."""
        return _ANSWER_BYTES + _STATUS_BYTES * reports * len(self.target.servers)

    def _missing(self, content: bytes, reports: int) -> str:
        """Return which servers lack a report; refuse what no repetition will change."""
        try:
            reached = read_json(content, _Reached, largest=self._longest_answer(reports)).servers
        except ReadError as error:
            raise ProtocolFailure(
                f"{self.target.name}: an answer without servers: {error}", self.target.party
            ) from None
        for number, status in sorted(reached.items()):
            if status in FINAL and status != STORED:
                raise ReportRejected(
                    self.target.name,
                    f"server {printable(number)} reports that it has refused a report with {status}, for good. "
                    "If that is true, it is left out; make no other of the same row, which could count "
                    "twice",
                )
        said = {number: reached.get(str(number), "no word of it") for number in self.target.servers}
        left = [f"server {number}: {status}" for number, status in said.items() if status != STORED]
        return printable(f"taken, and not acknowledged by {', '.join(left)}", _LONGEST_MESSAGE) if left else ""

    def _count(self, content: bytes, reports: int) -> None:
        """Add the counts in a server's answer, which must account for every report that was sent."""
        try:
            counts = read_json(content, _Counts, largest=self._longest_answer(reports))
        except ReadError as error:
            raise ProtocolFailure(f"{self.target.name}: an answer without counts: {error}", self.target.party) from None
        if min(counts.stored, counts.duplicates) < 0 or counts.stored + counts.duplicates != reports:
            raise ProtocolFailure(
                f"{self.target.name}: stored {counts.stored}, duplicates {counts.duplicates} answered, "
                f"{reports} in all expected",
                self.target.party,
            )
        self._stored += counts.stored
        self._duplicates += counts.duplicates


def _pause(retry_after: str) -> float:
    """Return the seconds of a header ``Retry-After``; 0 if it states no such thing."""
    plain = retry_after.isascii() and retry_after.isdecimal() and len(retry_after) < 10
    return min(float(retry_after), _LONGEST_PAUSE) if plain else 0.0


async def gather_all(jobs: Iterable[Coroutine[Any, Any, Result]]) -> list[Result]:
    """Wait for all jobs to end, then return their results or raise the first error; no connection is cut off."""
    outcomes = await asyncio.gather(*jobs, return_exceptions=True)
    results = []
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
        results.append(outcome)
    return results
