"""Callers at a port that anybody can reach: how many there may be, and how they are accepted.

Whoever has a port's address can connect to it, and say nothing. Each connection costs a file descriptor, and its TLS
about 350 kB. So they are counted from the moment at which they are accepted, in all and for each address; an address is
an IPv4 address or the first 64 bits of an IPv6 address, which is what one household is given.

Promised: `accept_callers` goes on whatever a caller does, also when the system has no file or memory left, with a pause
and without leaving the loop to callers alone. TLS begins with a caller's first byte. A caller that has said nothing
makes way at once for a newcomer of its own address, or of any address if its own has most; one that has spoken keeps
its place, for the grace of the `Places`. So strangers who say nothing keep nobody out. Not promised: that an attacker
with many addresses is kept away, or one who shares an address and speaks, or calls many thousand times a second.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import ipaddress
import math
import time
from collections.abc import Callable, Coroutine
from typing import Any

from dpmpc.network.sockets import TrackedSocket

PAUSE_SECONDS = 0.2  # after an accept that failed
_AT_ONCE = 16  # connections that are accepted before others have their turn
_PREFIX_BITS = 64


class Place:
    """What one caller has until it leaves.

    Parameters
    ----------
    network : str
        What stands for its address.
    since : float
        When it came.
    drop : callable
        Ends the caller.
    """

    __slots__ = ("drop", "network", "silent", "since")

    def __init__(self, network: str, since: float, drop: Callable[[], object]):
        self.network, self.since, self.drop = network, since, drop
        self.silent = True


class Places:
    """The places of one port, in memory that is bounded by their number.

    Parameters
    ----------
    most : int
        Places in all.
    each : int
        Places of one address.
    grace : float
        Seconds after which a caller that has spoken makes way for a newcomer where no place is free; by default it
        never does.
    clock : callable
        Seconds, never going back.
    """

    def __init__(self, most: int, each: int, grace: float = math.inf, clock: Callable[[], float] = time.monotonic):
        self._most, self._each, self._grace, self._clock = most, each, grace, clock
        self._taken = 0
        self._callers: dict[str, dict[Place, None]] = {}  # the oldest first

    def __len__(self) -> int:
        return self._taken

    def enter(self, address: str | None, drop: Callable[[], object] = lambda: None) -> Place | None:
        """Take a place, or return None if there is none; `drop` ends the caller, should it have to make way."""
        network = network_of(address)
        if len(self._callers.get(network, ())) >= self._each:
            crowded: str | None = network
        elif self._taken >= self._most:
            crowded = max(self._callers, key=lambda each: len(self._callers[each]))
        else:
            crowded = None
        if crowded is not None and not self._drop_oldest(crowded):
            return None
        place = Place(network, self._clock(), drop)
        self._callers.setdefault(network, {})[place] = None
        self._taken += 1
        return place

    def speak(self, place: Place) -> None:
        """Note that a caller has said something: its grace begins."""
        place.silent, place.since = False, self._clock()

    def leave(self, place: Place) -> None:
        """Give a place back; a second time changes nothing."""
        callers = self._callers.get(place.network, {})
        if place not in callers:
            return
        del callers[place]
        self._taken -= 1
        if not callers:
            del self._callers[place.network]

    def _drop_oldest(self, network: str) -> bool:
        """Drop a silent caller of an address, or the oldest one unless its grace lasts; return whether one is gone."""
        callers = self._callers[network]
        oldest = next((place for place in callers if place.silent), next(iter(callers)))
        if not oldest.silent and self._clock() - oldest.since < self._grace:
            return False
        self.leave(oldest)
        oldest.drop()
        return True


async def accept_callers(
    listener: TrackedSocket,
    take: Callable[[TrackedSocket, str | None], object],
    tell: Callable[[OSError], object] = lambda error: None,
) -> None:
    """Accept callers until cancelled.

    Parameters
    ----------
    listener : TrackedSocket
        Listens, and does not block.
    take : callable
        Gets each connection, which does not block, and the caller's address.
    tell : callable, optional
        Gets what keeps this from accepting, such as a lack of file descriptors.
    """
    loop = asyncio.get_running_loop()
    accepted = 0
    while True:
        try:
            connection, address = await loop.sock_accept(listener)
        except OSError as error:
            if error.errno != errno.ECONNABORTED:  # a caller that has gone
                tell(error)
            await asyncio.sleep(PAUSE_SECONDS)
            continue
        assert isinstance(connection, TrackedSocket)
        take(connection, address[0] if isinstance(address, tuple) else None)
        accepted += 1
        if accepted % _AT_ONCE == 0:
            await asyncio.sleep(0)  # `sock_accept` does not wait while somebody is there


def handle(
    connection: TrackedSocket,
    create_task: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    job: Callable[[], Coroutine[Any, Any, None]],
    seconds: float,
) -> asyncio.Task[None]:
    """Do a job with a connection in a task, once the caller has sent something.

    Parameters
    ----------
    connection : TrackedSocket
        What the job hands to asyncio, which closes it from then on. It is closed here if the job never begins.
    create_task : callable
        Makes a task of a coroutine.
    job : callable
        Returns the coroutine.
    seconds : float
        Longest silence.
    """
    begun = False

    async def begin() -> None:
        nonlocal begun
        try:
            await _first_byte(connection, seconds)
        except TimeoutError:
            return
        begun = True
        await job()

    task = create_task(begin())
    task.add_done_callback(lambda _: None if begun else connection.close())
    return task


async def _first_byte(connection: TrackedSocket, seconds: float) -> None:
    """Wait until there is something to read, or the caller has gone."""
    loop = asyncio.get_running_loop()
    heard = asyncio.Event()
    loop.add_reader(connection.fileno(), heard.set)
    try:
        async with asyncio.timeout(seconds):
            await heard.wait()
    finally:
        loop.remove_reader(connection.fileno())


@functools.lru_cache(maxsize=1 << 12)
def network_of(address: str | None) -> str:
    """Return what stands for a sender in tables of rates, shares and places."""
    try:
        parsed = ipaddress.ip_address((address or "").partition("%")[0])
    except ValueError:
        return ""  # a local socket: one sender
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, _PREFIX_BITS), strict=False))
