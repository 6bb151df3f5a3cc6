"""Decide who may send how much, before a byte of the body is read.

Promised: a body is as long as it was announced to be, and no longer than `Limits.body_bytes`, or one record where that
is longer; its payloads take at most `Limits.share_bytes`, or that of one record; what all requests together hold is at
most `Limits.waiting_bytes`, or one body where that is longer; at most `Limits.requests` requests of clients are under
way; of both one address holds at most as much as it leaves free; an address has `Limits.rate` reports a second; outside
its times a collection takes nothing. All this in bounded memory: of the `ADDRESSES` addresses seen last. Not promised:
that an attacker with many addresses is kept away, or that nobody shares an address with one; nor anything of who sends
slowly or connects and sends nothing, whom a reverse proxy turns away.

An address is an IPv4 address or the first 64 bits of an IPv6 address, which is what one household is given. Behind a
proxy it is the last one in the header X-Forwarded-For, which the proxy writes: those before it
are what the caller states. Who comes without the header counts as one caller.
"""

from __future__ import annotations

import collections
import dataclasses
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dpmpc.base.arguments import require_positive
from dpmpc.base.errors import CollectionClosed
from dpmpc.collect.store.state import StateReader, require_open
from dpmpc.collect.upload.reports import ReportFormat
from dpmpc.parties.network.callers import network_of

ADDRESSES = 1 << 16
BURST_SECONDS = 10.0  # of its rate that an address may use at once
REQUEST_BYTES = 4096  # what a request takes beside its body
_LONGEST_ADDRESS = 64  # characters
FULL_SECONDS = 1.0  # until a client that a full queue turned away should try again


class Refusal(Exception):
    """A request is turned away for a reason that does not lie in its content."""

    def __init__(self, status: int, reason: str, message: str, retry_after: float | None = None):
        super().__init__(message)
        self.status, self.reason, self.retry_after = status, reason, retry_after


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """What a server takes."""

    rate: float = 1000.0  # reports a second and address
    body_bytes: int = 1 << 20  # longest body
    # most that the payloads of one body may take: keys, which are expanded during the release, or words
    share_bytes: int = 1 << 25
    waiting_bytes: int = 1 << 26  # most that the bodies being read or stored may take together, unless it is one alone
    requests: int = 1024  # most at once of clients; each takes a file descriptor
    read_seconds: float = 20.0  # longest time for a body, and between requests
    send_seconds: float = 60.0  # longest time for an answer to a client

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            require_positive(field.name, getattr(self, field.name))

    def for_one_of(self, workers: int) -> Limits:
        """Return what one of several processes takes, so that all of them keep to the limits of a server."""
        if workers == 1:
            return self
        parts = {name: max(1, getattr(self, name) // workers) for name in ("waiting_bytes", "requests")}
        return dataclasses.replace(self, rate=self.rate / workers, **parts)


def caller_of(request: Any) -> str | None:
    """Return the address of who has called the proxy before a door, as the proxy states."""
    forwarded = request.headers.getall("X-Forwarded-For", None)
    if not forwarded:
        return request.remote or None
    last: str = forwarded[-1].rpartition(",")[2].strip()
    return last if len(last) <= _LONGEST_ADDRESS else None


class Buckets:
    """A token bucket for each address."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic):
        self._rate, self._clock = rate, clock
        self._most = max(1.0, rate * BURST_SECONDS)
        self._buckets: collections.OrderedDict[str, tuple[float, float]] = collections.OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, address: str, tokens: float) -> float:
        """Take tokens and return 0, or take none and return the seconds until there are enough.

        A request for more than a bucket holds takes a full bucket, and the next one fills later.
        """
        now = self._clock()
        left, since = self._buckets.pop(address, (self._most, now))
        left = min(self._most, left + (now - since) * self._rate)
        missing = min(tokens, self._most) - left
        self._buckets[address] = (left if missing > 0 else left - tokens, now)
        if len(self._buckets) > ADDRESSES:
            self._buckets.popitem(last=False)
        return max(0.0, missing / self._rate)


class Admission:
    """The gate of one server."""

    def __init__(
        self,
        form: ReportFormat,
        limits: Limits,
        reader: StateReader,
        on_hold: Callable[[int], None] = lambda change: None,
    ):
        self._form, self._limits, self._reader = form, limits, reader
        self._buckets = Buckets(limits.rate)
        self._on_hold = on_hold  # called with each change of `waiting`
        self.waiting = 0
        self._held: collections.Counter[str] = collections.Counter()  # of `waiting`, by address
        self.requests = 0  # of clients that are under way
        self._requests_of: collections.Counter[str] = collections.Counter()  # by address

    def longest_of(self, record: int) -> int:
        """Return how long a body of reports of such a length may be."""
        copies, width = self._form.stored_shape
        records = min(self._limits.body_bytes // record, self._limits.share_bytes // (8 * copies * width))
        return max(1, records) * record

    def check(self, address: str | None, length: int | None, record: int, *, limited: bool = True) -> None:
        """Refuse a request by its time, announced length or, unless a server sends it (not `limited`), its sender."""
        state = self._reader.state
        try:
            require_open(self._reader.collection, state, self._reader.now())
        except CollectionClosed as error:
            if state.state == "not open yet":
                raise Refusal(425, "TooEarly", str(error)) from None
            raise
        self.measure(address, length, self.longest_of(record), record, limited=limited)

    def measure(self, address: str | None, length: int | None, longest: int, record: int, *, limited: bool) -> None:
        """Refuse a request by its announced length or, if it is `limited`, by what its sender has sent until now."""
        if length is None:
            raise Refusal(411, "LengthRequired", "body: no Content-Length given, one expected")
        if length > longest:
            raise Refusal(413, "TooLarge", f"body: {length} bytes given, at most {longest} expected")
        if not limited:
            return
        seconds = self._buckets.take(network_of(address), max(1, length // record))
        if seconds:
            raise Refusal(429, "TooMany", f"rate: {self._limits.rate:g} reports a second expected", seconds)

    @contextmanager
    def place(self, address: str | None) -> Iterator[None]:
        """Hold a place for a request of a client, or refuse it: an address has at most as many as it leaves free."""
        network, most = network_of(address), self._limits.requests
        if self.requests >= most or self._requests_of[network] >= most - self.requests:
            raise Refusal(503, "Busy", "requests: more at once than are free for one address", FULL_SECONDS)
        self.requests += 1
        self._requests_of[network] += 1
        try:
            yield
        finally:
            self.requests -= 1
            self._requests_of[network] -= 1
            if not self._requests_of[network]:
                del self._requests_of[network]

    @contextmanager
    def room(self, address: str | None, length: int, record: int) -> Iterator[None]:
        """Hold memory for a body while it is read and stored, or refuse it.

        What one address holds is at most as much as it leaves free, so that a few which send slowly do not take all; an
        address that holds nothing may send one report as long as that fits.
        """
        network, needed = network_of(address), length + REQUEST_BYTES
        own, free = self._held[network], self._limits.waiting_bytes - self.waiting
        single = not own and length <= record
        if self.waiting and (needed > free or (not single and own + needed > free - needed)):
            raise Refusal(503, "Busy", f"queue: {needed} bytes given, more than are free for one address", FULL_SECONDS)
        self.waiting += needed
        self._on_hold(needed)
        self._held[network] += needed
        try:
            yield
        finally:
            self.waiting -= needed
            self._on_hold(-needed)
            self._held[network] -= needed
            if not self._held[network]:
                del self._held[network]
