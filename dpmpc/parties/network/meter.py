"""Measure what a run costs one party: seconds, bytes and memory, phase by phase.

The statistics are made to be comparable with MP-SPDZ's: `total_s` counts from the moment when all connections are up,
set-up is reported apart, bytes are those that this party sent or received, MB = 1e6 bytes. Bytes count for the phase in
which the socket took them, which may be a little later than the call that sent them.

Not promised: that CPU seconds are free of what other threads of the same process did in the meantime.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any

import msgspec

from dpmpc.base.errors import MalformedFrame
from dpmpc.base.system import peak_rss_mb
from dpmpc.base.untrusted import ReadError, read_json
from dpmpc.parties.network.frames import PARTIES, Kind, malformed_frame
from dpmpc.parties.network.naming import called
from dpmpc.parties.network.sockets import ByteCount, Traffic

MAX_COST = 1 << 60  # seconds or bytes that a party may claim
MAX_PHASES = 32
LARGEST_STATISTICS = 1 << 16  # bytes of JSON
_PHASE_NAME = re.compile("[a-z0-9 -]{1,40}")


class PhaseCost(msgspec.Struct):
    """What one named phase cost; a phase that is entered again adds up."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    bytes_sent: int = 0

    def __add__(self, other: PhaseCost) -> PhaseCost:
        return PhaseCost(self.wall_s + other.wall_s, self.cpu_s + other.cpu_s, self.bytes_sent + other.bytes_sent)


class RunStatistics(msgspec.Struct, frozen=True):
    """What a run cost one party."""

    server: int  # the party's number
    setup_s: float  # seconds and bytes until all connections were up: handshakes, party numbers, greetings
    setup_bytes_sent: int
    phases: dict[str, PhaseCost]  # the program's own phases, by name
    total_s: float  # wall-clock and CPU seconds after set-up
    cpu_s: float
    bytes_sent: int  # all that the sockets passed, set-up included
    bytes_received: int
    payload_sent: int  # the contents of messages among them
    payload_received: int
    peers: dict[int, Traffic]  # the traffic with each peer, by party number
    tcp_info: ByteCount | None  # `bytes_sent` and `bytes_received` as the kernel counted them
    peak_rss_mb: float  # the most memory that the process held, in 1e6 bytes


def statistics_from(raw: bytes, party: int) -> RunStatistics:
    """Read the statistics that a party sent of its own run; only their plausibility can be checked."""
    try:
        statistics = read_json(raw, RunStatistics, largest=LARGEST_STATISTICS)
    except ReadError as error:
        raise malformed_frame(party, Kind.COST, error) from error
    if statistics.server != party:
        raise MalformedFrame(f"{called(party)} sent the COST frame of {called(statistics.server)}", party)
    if len(statistics.phases) > MAX_PHASES or not all(_PHASE_NAME.fullmatch(name) for name in statistics.phases):
        raise MalformedFrame(
            f"{called(party)} sent a COST frame with other phases than up to {MAX_PHASES} words", party
        )
    if not set(statistics.peers) <= set(range(PARTIES)):
        raise MalformedFrame(f"{called(party)} sent a COST frame with peers {sorted(statistics.peers)[:3]}", party)
    for name, value in _numbers(msgspec.to_builtins(statistics)):
        if not 0 <= value <= MAX_COST:
            raise MalformedFrame(f"{called(party)} sent a COST frame with {name} = {value}, 0 to 2^60 expected", party)
    return statistics


def tenths(seconds: float) -> float:
    """Return seconds rounded up to the next tenth."""
    return math.ceil(seconds * 10) / 10


def hundredths(seconds: float) -> float:
    """Return seconds rounded up to the next hundredth."""
    return math.ceil(round(100 * seconds, 6)) / 100


def rounded(statistics: RunStatistics, to: Callable[[float], float] = tenths) -> RunStatistics:
    """Return statistics with seconds rounded up, to the next tenth by default, and megabytes to the next whole one.

    How long the samplers take depends on what they draw, so that exact times in public would reveal something of the
    noise. Many draws change a run by far less than a hundredth of a second.
    """
    phases = {
        name: PhaseCost(to(cost.wall_s), to(cost.cpu_s), cost.bytes_sent) for name, cost in statistics.phases.items()
    }
    return msgspec.structs.replace(
        statistics,
        setup_s=to(statistics.setup_s),
        phases=phases,
        total_s=to(statistics.total_s),
        cpu_s=to(statistics.cpu_s),
        peak_rss_mb=float(math.ceil(statistics.peak_rss_mb)),
    )


def together(runs: Sequence[RunStatistics]) -> RunStatistics:
    """Add up what one party spent on several runs; its memory is the most that it held in any of them."""
    phases: dict[str, PhaseCost] = {}
    peers: dict[int, Traffic] = {}
    for run in runs:
        for name, cost in run.phases.items():
            phases[name] = phases.get(name, PhaseCost()) + cost
        for peer, traffic in run.peers.items():
            peers[peer] = peers[peer] + traffic if peer in peers else traffic
    kernel = [run.tcp_info for run in runs if run.tcp_info is not None]
    return RunStatistics(
        server=runs[0].server,
        setup_s=math.fsum(run.setup_s for run in runs),
        setup_bytes_sent=sum(run.setup_bytes_sent for run in runs),
        phases=phases,
        total_s=math.fsum(run.total_s for run in runs),
        cpu_s=math.fsum(run.cpu_s for run in runs),
        bytes_sent=sum(run.bytes_sent for run in runs),
        bytes_received=sum(run.bytes_received for run in runs),
        payload_sent=sum(run.payload_sent for run in runs),
        payload_received=sum(run.payload_received for run in runs),
        peers=peers,
        tcp_info=_total(kernel) if len(kernel) == len(runs) else None,
        peak_rss_mb=max(run.peak_rss_mb for run in runs),
    )


def _numbers(fields: dict[str, Any], where: str = "") -> Iterator[tuple[str, float]]:
    """Yield the numbers in a record and in all that it contains, each with its place."""
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from _numbers(value, f" of {name}{where}")
        elif isinstance(value, int | float):
            yield f"{name}{where}", value


class Meter:
    """Measures one party's run.

    Parameters
    ----------
    party : int
        The party's number.
    traffic : callable
        Returns what has passed over the link to each peer since the links were made. What has passed by now belongs to
        an earlier run.
    """

    def __init__(self, party: int, traffic: Callable[[], dict[int, Traffic]]):
        self._party = party
        self._passed, self._earlier = traffic, traffic()
        self._phases: dict[str, PhaseCost] = {}
        self._began = self._connected_at = time.perf_counter()
        self._cpu_at_connection = time.process_time()
        self._setup_bytes_sent = 0

    def begin(self) -> None:
        """Start the clock of the set-up."""
        self._began = time.perf_counter()

    def connected(self) -> None:
        """End the set-up and start the clock of the run."""
        self._connected_at, self._cpu_at_connection = time.perf_counter(), time.process_time()
        self._setup_bytes_sent = self._bytes_sent()

    @contextmanager
    def phase(self, name: str) -> Iterator[PhaseCost]:
        """Measure the body of a ``with`` statement as (part of) the phase `name`."""
        cost = self._phases.setdefault(name, PhaseCost())
        wall, cpu, sent = time.perf_counter(), time.process_time(), self._bytes_sent()
        try:
            yield cost
        finally:
            cost.wall_s += time.perf_counter() - wall
            cost.cpu_s += time.process_time() - cpu
            cost.bytes_sent += self._bytes_sent() - sent

    def statistics(self) -> RunStatistics:
        """Return what the run has cost so far."""
        peers = self._traffic()
        sockets = _total([traffic.socket for traffic in peers.values()])
        payload = _total([traffic.payload for traffic in peers.values()])
        kernel = [traffic.kernel for traffic in peers.values() if traffic.kernel is not None]
        return RunStatistics(
            server=self._party,
            setup_s=self._connected_at - self._began,
            setup_bytes_sent=self._setup_bytes_sent,
            phases=self._phases,
            total_s=time.perf_counter() - self._connected_at,
            cpu_s=time.process_time() - self._cpu_at_connection,
            bytes_sent=sockets.sent,
            bytes_received=sockets.received,
            payload_sent=payload.sent,
            payload_received=payload.received,
            peers=peers,
            tcp_info=_total(kernel) if len(kernel) == len(peers) else None,
            peak_rss_mb=peak_rss_mb(),
        )

    def _traffic(self) -> dict[int, Traffic]:
        """Return what has passed over the link to each peer in this run."""
        earlier = self._earlier
        return {peer: one - earlier[peer] if peer in earlier else one for peer, one in self._passed().items()}

    def _bytes_sent(self) -> int:
        return sum(traffic.socket.sent for traffic in self._traffic().values())


def _total(counts: list[ByteCount]) -> ByteCount:
    return reduce(ByteCount.__add__, counts, ByteCount())
