"""MPyC's own links between the parties of a program, and what this module adds to them.

MPyC authenticates a peer by ``--ssl`` at most, waits without end for one that is gone, leaves parties behind when
another fails, and reads pickles of its peers. `MpycLinks` states which links run, refuses pickles, and ends this
process with an error when a peer is lost or never comes.

Promised: a party whose peer has ended ends as well, within seconds; one that waits for a peer to connect ends at a
deadline. Nothing that a peer sends is executed. Not promised: that a peer is the party that it states it is, or that
others on the network cannot read messages. So shares of clients who are no parties are refused between machines.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import mpyc
from mpyc import asyncoro
from mpyc import runtime as mpyc_runtime

from dpmpc.base.errors import DpmpcError, InputError, MalformedFrame, PartyLost, PartyMissing
from dpmpc.base.untrusted import printable
from dpmpc.parties.network.sockets import is_loopback

LOCAL_SECONDS, BY_HAND_SECONDS = 60.0, 600.0  # until all parties are connected: started together, or one by one
CLOSING_SECONDS = 30.0  # from the last message of a program until its process ends
GRACE_SECONDS = 1.0  # for this party's own error, which closes its links as well
INSTEAD = (
    "`dpmpc run FILE -M3 ...` starts the same program on links that name the cause; --output-file keeps what the other "
    "parties print"
)
_STEP = 0.1
_current: MpycLinks | None = None


class WholeNumbers:
    """Stands where MPyC has the pickle module: whole numbers are all that its `shutdown` exchanges."""

    LONGEST = 20  # digits

    @staticmethod
    def dumps(value: object) -> bytes:
        """Return the digits of a number."""
        if type(value) is not int or value < 0:
            raise InputError("message", type(value).__name__, "words of a secure type", "no pickles here")
        return b"%d" % value

    @classmethod
    def loads(cls, data: bytes) -> int:
        """Read a number that a peer sent."""
        if not data.isdigit() or len(data) > cls.LONGEST:
            raise MalformedFrame(f"a peer sent {len(data)} bytes that are no whole number; nothing else is read")
        return int(data)


class MpycLinks:
    """The links of the program that runs in this process, on MPyC's runtime."""

    assumption = "trusted-network"

    def __init__(self, mpc: Any):
        global _current
        self._mpc = mpc
        self._peers = [party for party in mpc.parties if party.pid != mpc.pid]
        self._started_together = mpc.options.M is not None
        self._closing, self._ended = threading.Event(), threading.Event()
        self.error: BaseException | None = None
        mpyc_runtime.pickle = WholeNumbers
        mpc.options.mix32_64bit = True  # MPyC then sends field elements as bytes of a fixed width
        mpc._loop.set_exception_handler(self._on_loop_exception)
        _current = self

    @property
    def carry_shares(self) -> bool:
        """Whether shares of clients who are no parties may be used: all parties have addresses of this machine."""
        return all(is_loopback(party.host) for party in self._mpc.parties)

    def __str__(self) -> str:
        where = "on this machine" if self.carry_shares else "on several machines"
        how = "TLS by --ssl, which binds no certificate to a party" if self._mpc.options.ssl else "not encrypted"
        return (
            f"links: MPyC {mpyc.__version__}, {len(self._mpc.parties)} parties {where}, {how}: every party trusts the "
            "machines and the network of all"
        )

    def watch(self) -> None:
        """Begin to watch the peers, before this party connects to them."""
        threading.Thread(target=self._watch, daemon=True).start()

    def lost(self, *, broken: bool) -> PartyLost | None:
        """Return the error of a peer whose link is gone, if there is one.

        MPyC has no protocol any more for a link that was closed; one that broke has a transport that is closing, as
        all have once this party has closed them itself. `broken` counts those, too.
        """
        if self._mpc.start_time is None:
            return None
        for peer in self._peers:
            if peer.protocol is None or (broken and peer.protocol.transport.is_closing()):
                return PartyLost(f"lost party {peer.pid}: it closed its link, or its process has ended", peer.pid)
        return None

    def close(self) -> None:
        """Expect peers to close their links from now on; the process has `CLOSING_SECONDS` to end."""
        self._closing.set()

    def stop(self) -> None:
        """Stop watching."""
        self._closing.set()
        self._ended.set()

    def _watch(self) -> None:
        seconds, parent = LOCAL_SECONDS if self._started_together else BY_HAND_SECONDS, os.getppid()
        until = time.monotonic() + seconds
        while self._mpc.start_time is None:  # a lost peer has no protocol any more, as one that was never there
            if self._ended.wait(_STEP):
                return
            missing = [peer.pid for peer in self._peers if peer.protocol is None]
            if missing and time.monotonic() > until:
                self._end(PartyMissing(f"party {missing[0]} did not connect within {seconds:g} s", missing[0]))
            if self._started_together and os.getppid() != parent:
                self._end(PartyLost("the party that started this one has ended", 0))
        while not self._closing.wait(_STEP):
            lost = self.lost(broken=True)
            if lost is not None and not self._closing.wait(GRACE_SECONDS):
                self._end(lost)
        if not self._ended.wait(CLOSING_SECONDS):
            self._end(PartyLost(f"the parties did not take leave of one another within {CLOSING_SECONDS:g} s"))

    @staticmethod
    def _end(error: DpmpcError) -> None:
        """End this process: the loop may wait for a message that never comes."""
        sys.stdout.flush()
        report_error(error)
        sys.stderr.flush()
        os._exit(error.exit_status)

    def _on_loop_exception(self, loop: Any, context: dict[str, Any]) -> None:
        """Keep the error of a coroutine of MPyC, which stops the loop; MPyC reports anything else."""
        error = context.get("exception")
        if isinstance(error, DpmpcError):
            self.error = self.error or error
        elif not isinstance(error, asyncio.InvalidStateError | OSError):  # of a link that was lost: `_watch` reports it
            asyncoro.exception_handler(loop, context)


def report_error(error: DpmpcError) -> None:
    """Print an error and, where MPyC's links hide its cause, what to do instead."""
    print(f"dpmpc: {type(error).__name__}: {printable(str(error), 2000)}", file=sys.stderr)
    if isinstance(error, PartyLost | PartyMissing):
        print(f"dpmpc: {INSTEAD}", file=sys.stderr)


@contextlib.contextmanager
def errors_in_a_line() -> Iterator[None]:
    """Report an error of a program in a line of standard error, and end the process with its exit status.

    MPyC answers the error of a coroutine by stopping the loop, and that of a program by closing links that may not be
    there yet; both raise other errors, behind which the first one is looked for. What fails because a peer is lost is
    reported as that.
    """
    if hasattr(
        mpyc_runtime.mpc, "party"
    ):  # the process of a party of `dpmpc.parties.network` reports its errors itself
        yield
        return
    try:
        yield
    except Exception as error:
        cause = None if _current is None else _current.error
        chained: BaseException | None = error
        while cause is None and chained is not None:
            cause = chained if isinstance(chained, DpmpcError) else None
            chained = chained.__cause__ or chained.__context__
        if cause is None and _current is not None:
            cause = _current.lost(broken=False)
        if not isinstance(cause, DpmpcError):
            raise
        report_error(cause)
        sys.exit(cause.exit_status)
    finally:
        if _current is not None:
            _current.stop()
