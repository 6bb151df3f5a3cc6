"""Callers at a port that anybody can reach: how many there may be, and how they are accepted.

Anyone who has a port's address can connect to it, and send nothing. Each connection costs a file descriptor, and its
TLS about 350 kB. So they are counted from the moment at which they are accepted: in all, for each address, and for the
networks around it. An address is an IPv4 address or the first 64 bits of an IPv6 address, which is what one household
is given; the networks around it are the /56 and the /48 of IPv6, and the /24 of IPv4 (`_PREFIXES`).

Who makes way for a newcomer where no place is free: first in the address that has most, of those that have more than
the newcomer's, and else in the newcomer's own. A caller that has sent nothing goes at once; next are those whose
handshake is not done. These have a grace, unless their address has far more places than the newcomer's.

Promised: `accept_callers` goes on whatever a caller does, also when the system has no file or memory left, with a pause
and without leaving the loop to callers alone. TLS begins with a caller's first byte. So strangers keep nobody out who
send nothing, or do not finish a handshake, as long as a newcomer's address has far fewer places than each of theirs.
Not promised: that an attacker is kept away who has many addresses, or one who shares an address, or calls many thousand
times a second.
"""

from __future__ import annotations

import asyncio
import collections
import errno
import functools
import ipaddress
import math
import time
from collections.abc import Callable, Coroutine
from typing import Any

from dpmpc.parties.network.sockets import TrackedSocket

PAUSE_SECONDS = 0.2  # after an accept that failed
_AT_ONCE = 16  # connections that are accepted before others have their turn
# Bits of what stands for an address, then of the networks around it, each with how many times the places of an address
# it may have: a provider gives a household a /64 or a /56, and a customer a /48; a /24 of IPv4 is often one host's.
_PREFIXES = {4: ((32, 1), (24, 4)), 6: ((64, 1), (56, 2), (48, 4))}


class Place:
    """What one caller has until it leaves."""

    __slots__ = ("_clock", "drop", "heard", "networks", "since")

    def __init__(self, networks: tuple[str, ...], clock: Callable[[], float], drop: Callable[[], object]):
        self.networks, self._clock, self.drop = networks, clock, drop
        self.heard, self.since = False, clock()

    def speak(self) -> None:
        """Note that the caller has sent something: its grace begins."""
        self.heard, self.since = True, self._clock()

    def makes_way(self, grace: float, *, at_once: bool) -> bool:
        """Return whether the caller makes way for a newcomer; with `at_once` there is no grace."""
        return not self.heard or at_once or self._clock() - self.since >= grace


class Places:
    """The places of one port, in memory that is bounded by their number."""

    def __init__(self, most: int, each: int, grace: float = math.inf, clock: Callable[[], float] = time.monotonic):
        self._most, self._each, self._grace, self._clock = most, each, grace, clock
        self._taken = 0
        self._counts: collections.Counter[str] = collections.Counter()  # of each network, wide ones too
        self._callers: dict[str, dict[Place, None]] = {}  # of each address, the oldest first

    def __len__(self) -> int:
        return self._taken

    def enter(self, address: str | None, drop: Callable[[], object] = lambda: None) -> Place | None:
        """Take a place, or return None if there is none; `drop` ends the caller, should it have to make way."""
        networks = networks_of(address)
        # a place that is given back in the narrowest full network is one in all wider ones too
        full = next((name for name, times in networks if self._counts[name] >= self._share(times)), None)
        if full is not None or self._taken >= self._most:
            leaving = self._first_to_go(networks[0][0], full)
            if leaving is None:
                return None
            self.leave(leaving)
            leaving.drop()
        place = Place(tuple(name for name, _ in networks), self._clock, drop)
        self._callers.setdefault(place.networks[0], {})[place] = None
        self._counts.update(place.networks)
        self._taken += 1
        return place

    def leave(self, place: Place) -> None:
        """Give a place back; a second time changes nothing."""
        callers = self._callers.get(place.networks[0], {})
        if place not in callers:
            return
        del callers[place]
        if not callers:
            del self._callers[place.networks[0]]
        for network in place.networks:
            self._counts[network] -= 1
            if not self._counts[network]:
                del self._counts[network]
        self._taken -= 1

    def _share(self, times: int) -> int:
        """Return how many places a network may have that may have `times` as many as one address."""
        return self._each if times == 1 else max(self._each, min(times * self._each, self._most // 2))

    def _first_to_go(self, own: str, full: str | None) -> Place | None:
        """Return the caller that makes way for a newcomer of the address `own`, of those within a network that is full.

        None: there is none, or the newcomer's address has as many as those that have one.
        """
        mine = self._counts[own]
        crowded = [name for name in self._callers if name == own or self._counts[name] > mine]
        for name in sorted(crowded, key=lambda one: -self._counts[one]):
            callers = self._callers[name]
            if full is not None and full not in next(iter(callers)).networks:
                continue
            at_once = self._counts[name] > 2 * (mine + 1)  # among equals whoever has just come keeps its place
            if going := [one for one in callers if one.makes_way(self._grace, at_once=at_once)]:
                return min(going, key=lambda one: (one.heard, one.since))
        return None


async def accept_callers(
    listener: TrackedSocket,
    take: Callable[[TrackedSocket, str | None], object],
    tell: Callable[[OSError], object] = lambda error: None,
) -> None:
    """Accept callers until cancelled."""
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
    """Do a job with a connection in a task, once the caller has sent something."""
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
def networks_of(address: str | None) -> tuple[tuple[str, int], ...]:
    """Return what stands for a sender and the networks around it, and how many times the share of one each may have."""
    try:
        parsed = ipaddress.ip_address((address or "").partition("%")[0])
    except ValueError:
        return (("", 1),)  # a local socket: one sender
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    prefixes = _PREFIXES[parsed.version]
    networks = [(ipaddress.ip_network((parsed, bits), strict=False), times) for bits, times in prefixes]
    return tuple((str(network).removesuffix("/32"), times) for network, times in networks)


def network_of(address: str | None) -> str:
    """Return what stands for a sender in tables of rates, shares and places."""
    return networks_of(address)[0][0]
