"""How a server of a collection stands: what it states to anybody who asks, and how to ask.

A server gives the exact number of reports that it stores at its monitor alone. Where anybody may contribute, others get
no count while reports are taken: anyone who can add reports of his own could bring any public count to its edge, and
would then see the next report of another client arrive. With a roster others get the count of the last full hour,
rounded down to a multiple of `ROUNDED_TO`, whenever they ask. After closing everybody gets the last one, rounded too.

Promised to who asks: an answer is of the server whose certificate the task file pins, or of who has a certificate of a
public authority for its host where the task file pins none; it is bounded, checked, and printed with control characters
escaped. Not promised: that what a server states is true.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ssl
import urllib.parse
from collections.abc import Callable, Sequence

import msgspec

from dpmpc.base.errors import InputError, PartyImpersonated, PartyMissing, ProtocolFailure
from dpmpc.base.untrusted import ReadError, printable, read_beginning, read_json
from dpmpc.collect.store.state import CollectionState
from dpmpc.collect.terms.endpoints import LOOPBACK
from dpmpc.collect.terms.server_entries import HTTPS_PORT, ServerEntry
from dpmpc.collect.terms.task_file import Collection
from dpmpc.parties.network.identity import fingerprint, pinning_context

try:
    import aiohttp
except ImportError as error:
    raise InputError("dpmpc.collect needs aiohttp: pip install '.[intake]' in its source folder") from error

PATH = "/v1/status"
ROUNDED_TO = 100
SECONDS = 20.0
_ANSWER_BYTES = 1 << 16


class Status(CollectionState, frozen=True, kw_only=True):
    """What a server states about itself: how far its collection has come, and more."""

    server: int  # its number
    collection: str  # the digest of the task file, in hexadecimal digits
    name: str  # what people call the collection
    opens: str  # times in ISO 8601
    closes: str
    expires: str
    stored: int | None  # reports that it stores, at least; None if that is not said to whoever asked
    exact: bool  # whether it stores no more than `stored`
    minimum_batch: int  # fewest and most reports that may be opened
    largest_batch: int
    healthy: bool  # whether uploads would be stored
    guarantee: str  # what is promised for the smallest batch
    counted: str = ""  # when reports were counted, in ISO 8601; empty if that is now or after closing

    @property
    def count(self) -> str:
        """How many reports there are, in words."""
        if self.stored is None:
            return "count not public"
        if self.exact:
            return f"{self.stored:,} report{'' if self.stored == 1 else 's'}"
        least = f"{self.stored:,} reports or more" if self.stored else f"fewer than {ROUNDED_TO} reports"
        return least + (f" at {printable(self.counted, 40)}" if self.counted else "")


class HourlyCount:
    """A count that changes at full hours only, no matter who asks and when; none before the first."""

    def __init__(self, now: datetime.datetime):
        self._hour = _hour(now)
        self.stored: int | None = None

    @property
    def counted(self) -> str:
        """The hour at which it was counted, in ISO 8601."""
        return "" if self.stored is None else self._hour.isoformat(timespec="minutes")

    def tick(self, now: datetime.datetime, count: Callable[[str], int]) -> None:
        """Note the time, several times a minute; `count` returns what is stored at an hour."""
        if _hour(now) > self._hour:  # a clock that is put back publishes nothing anew
            self._hour, self.stored = _hour(now), rounded(count(_hour(now).isoformat(timespec="minutes")))


def rounded(stored: int) -> int:
    """Return a count that strangers may see: rounded down."""
    return stored - stored % ROUNDED_TO


def _hour(now: datetime.datetime) -> datetime.datetime:
    return now.astimezone(datetime.UTC).replace(minute=0, second=0, microsecond=0)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What came back from one address."""

    url: str  # of the server
    fingerprint: str  # SHA-256 of the certificate that it showed; empty for one of a public authority, and without TLS
    checked: bool  # whether the certificate was one that the task file expects; otherwise anybody may have answered
    status: Status  # what it said


async def ask(url: str, *, server: int | None = None, entry: ServerEntry | None = None) -> Answer:
    """Ask one server how it stands: that of an entry of a task file, whose number is given, or of a URL."""
    parts = urllib.parse.urlsplit(url)
    monitor = parts.scheme == "http" and parts.hostname in LOOPBACK
    if not monitor and (parts.scheme != "https" or not parts.hostname):
        raise InputError("url", f"{url!r} given, https://HOST:PORT expected, or http of a monitor on this machine")
    who = f"server at {printable(url)}" if server is None else f"server {server} at {printable(url)}"
    try:
        context: ssl.SSLContext | bool = True
        shown, hostname = "", None
        if monitor:
            entry = None  # plain HTTP shows no certificate
        elif entry is not None and server is not None:
            context, hostname = entry.trusted_by_clients(server)
            shown = "" if entry.public_certificate else entry.certificate
        else:
            shown = await _shown_certificate(str(parts.hostname), parts.port or HTTPS_PORT)
            context = pinning_context(shown.encode())
            context.check_hostname = False  # whose number is unknown has no name that could be checked
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=SECONDS), auto_decompress=False) as session,
            session.get(
                f"{parts.scheme}://{parts.netloc}{PATH}",
                ssl=context,
                server_hostname=hostname,
                allow_redirects=False,
            ) as response,
        ):
            content = await read_beginning(response.content, _ANSWER_BYTES)
            code = response.status
    except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError) as error:
        raise PartyImpersonated(f"{who}: the certificate that the collection names expected", server) from error
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        raise PartyMissing(f"{who}: no answer: {_why(error)}", server) from error
    if code != 200:
        raise ProtocolFailure(f"{who}: {code} answered, a status expected", server)
    try:
        status = read_json(content, Status, largest=_ANSWER_BYTES)
        if min(status.stored or 0, status.server) < 0:
            raise ReadError("a negative number")
    except ReadError as error:
        raise ProtocolFailure(f"{who}: an answer that is not a status: {error}", server) from None
    return Answer(
        url=url,
        fingerprint=fingerprint(shown.encode()) if shown else "",
        checked=entry is not None,
        status=status,
    )


async def ask_all(collection: Collection) -> Sequence[Answer | ProtocolFailure]:
    """Ask every server of a collection, each under the certificate that the task file expects.

    Return answers, or why there is none.
    """

    async def one(number: int) -> Answer | ProtocolFailure:
        entry = collection.servers[number]
        try:
            answer = await ask(entry.url, server=number, entry=entry)
        except ProtocolFailure as error:
            return error
        told = answer.status
        if (told.server, told.collection) != (number, collection.digest.hex()):
            return ProtocolFailure(
                f"server {number} at {printable(entry.url)}: it serves another collection, "
                f"{printable(told.collection, 64)}, {collection.digest.hex()} expected",
                number,
            )
        return answer

    return await asyncio.gather(*(one(number) for number in range(len(collection.servers))))


def lines(answer: Answer) -> list[str]:
    """Return what a server stated, for people."""
    told = answer.status
    well = "stores uploads" if told.state == "open" else "takes no uploads"
    health = well if told.healthy else "DOES NOT STORE UPLOADS"
    checked = "as the task file expects it" if answer.checked else "compare it with the task file: it was not checked"
    shown = f"certificate {answer.fingerprint}, {checked}"
    if not answer.fingerprint:
        shown = "certificate of a public authority, as the task file expects" if answer.checked else "no certificate"
    return [
        f"server {told.server}, {printable(answer.url)}: {printable(told.words, 200)}, {told.count}, {health}",
        f"  {shown}",
    ]


def differences(answers: Sequence[Answer]) -> str:
    """Return in what the states of servers differ; empty if they are equally far."""
    states = {(one.status.state, one.status.manifest) for one in answers}
    if len(states) < 2:
        return ""
    told = [f"server {one.status.server} says {printable(one.status.words, 200)}" for one in answers]
    manifests = len({one.status.manifest for one in answers if one.status.manifest})
    more = f"; they have sealed {manifests} different manifests" if manifests > 1 else ""
    return f"servers differ: {', '.join(told)}{more}"


def facts(status: Status) -> list[str]:
    """Return what a server states about its collection, for people."""
    return [
        f"collection {printable(status.collection, 64)}, '{printable(status.name)}'",
        *(f"{name} {printable(getattr(status, name), 40)}" for name in ("opens", "closes", "expires")),
        f"batch of {status.minimum_batch:,} to {status.largest_batch:,} reports",
        f"promised: {printable(status.guarantee.partition(chr(10))[0])}; dpmpc inspect says on what conditions",
    ]


def _why(error: Exception) -> str:
    """Return why there is no connection, in a few words."""
    if isinstance(error, aiohttp.ClientConnectorError):
        error = error.os_error
    told = getattr(error, "strerror", None) or str(error)
    return printable(f"{type(error).__name__}: {told}" if told else type(error).__name__, 300)


async def _shown_certificate(host: str, port: int) -> str:
    """Return the certificate that is shown at an address, as PEM, without believing it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    async with asyncio.timeout(SECONDS):
        _, writer = await asyncio.open_connection(host, port, ssl=context)
        try:
            return ssl.DER_cert_to_PEM_cert(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
        finally:
            writer.close()
            with contextlib.suppress(OSError):  # the certificate is here, however the connection ends
                await writer.wait_closed()
