"""What an MPyC program costs each party: CPU and wall seconds by phase, bytes sent and rounds.

CPU seconds are of the process, so that parties that share a processor are distinguished; where phases overlap they
share them. Bytes are those of MPyC's messages, 12 bytes and the content each. A round is a wait of this party for
messages of a phase. Those of MPyC's own protocols, such as products, are counted as "mpyc": one for each of MPyC's
program counters under which a message was awaited, so that exchanges that MPyC makes at the same time are counted
singly. Parties of `dpmpc.parties.network` have their own meter, to which these phases go, too.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from dpmpc.base.errors import MalformedFrame
from dpmpc.base.system import peak_rss_mb
from dpmpc.base.untrusted import ReadError, read_json
from dpmpc.parties.mpyc.current_runtime import current_runtime, exchange, receive

LARGEST_REPORT = 1 << 12  # bytes


class PhaseSeconds(msgspec.Struct):
    """Seconds of one phase."""

    wall_s: float = 0.0
    cpu_s: float = 0.0


class PartyCost(msgspec.Struct):
    """What a party has spent since `Costs.start`."""

    party: int
    wall_s: float
    cpu_s: float
    bytes_sent: int
    rounds: dict[str, int]  # by phase
    phases: dict[str, PhaseSeconds]
    peak_rss_mb: float  # of the process


class Costs:
    """The costs of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # the kernel runs in threads
        self._begin(0)

    def start(self) -> None:
        """Begin to count, when all parties are connected."""
        self._begin(_bytes_sent())
        mpc, exchanges = current_runtime(), self._exchanges

        def counted(sender: int) -> Any:
            exchanges.add(mpc._program_counter[0])
            return receive(sender)

        mpc._receive_message = counted

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count what is done here for a phase."""
        meter = getattr(current_runtime(), "meter", None)
        cost = self._phases.setdefault(name, PhaseSeconds())
        wall = time.perf_counter()
        self._settle(entering=cost)
        try:
            with contextlib.nullcontext() if meter is None else meter.phase(name):
                yield
        finally:
            self._settle(leaving=cost)
            cost.wall_s += time.perf_counter() - wall

    def round(self, name: str) -> None:
        """Count a wait for messages."""
        self._rounds[name] = self._rounds.get(name, 0) + 1

    def report(self) -> PartyCost:
        """Return what was spent so far."""
        return PartyCost(
            party=current_runtime().pid,
            wall_s=time.perf_counter() - self._wall,
            cpu_s=time.process_time() - self._cpu,
            bytes_sent=_bytes_sent() - self._sent,
            rounds=self._rounds | ({"mpyc": len(self._exchanges)} if self._exchanges else {}),
            phases=dict(self._phases),
            peak_rss_mb=peak_rss_mb(),
        )

    async def of_all(self) -> list[PartyCost]:
        """Return what each party has spent, in their order: one message of each to all others."""
        return [
            read_report(data, party) for party, data in enumerate(await exchange(msgspec.json.encode(self.report())))
        ]

    def _begin(self, sent: int) -> None:
        self._wall, self._cpu, self._sent = time.perf_counter(), time.process_time(), sent
        self._rounds: dict[str, int] = {}
        self._exchanges: set[int] = set()
        self._phases: dict[str, PhaseSeconds] = {}
        self._active: list[PhaseSeconds] = []
        self._settled = self._cpu

    def _settle(self, *, entering: PhaseSeconds | None = None, leaving: PhaseSeconds | None = None) -> None:
        """Divide the CPU seconds since the last change among the phases that were active."""
        with self._lock:
            now = time.process_time()
            for cost in self._active:
                cost.cpu_s += (now - self._settled) / len(self._active)
            self._settled = now
            if entering is not None:
                self._active.append(entering)
            if leaving is not None:
                self._active.remove(leaving)


costs = Costs()


def read_report(data: bytes, party: int) -> PartyCost:
    """Read what a party reports of itself; only its form can be checked."""
    try:
        report = read_json(data, PartyCost, largest=LARGEST_REPORT)
    except ReadError as error:
        raise MalformedFrame(f"party {party} sent costs that cannot be read: {error}", party) from error
    if report.party != party:
        raise MalformedFrame(f"party {party} sent the costs of party {report.party}", party)
    return report


def _bytes_sent() -> int:
    mpc = current_runtime()
    return sum(getattr(party.protocol, "nbytes_sent", 0) for party in mpc.parties if party.pid != mpc.pid)
