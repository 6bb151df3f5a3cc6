"""The runtime that an MPyC program of this process computes on, and bytes that its parties exchange by it."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from dpmpc.base.errors import InputError


def current_runtime() -> Any:
    """Return the runtime that secure arrays of this process compute on: ``mpyc.runtime.mpc``."""
    module = sys.modules.get("mpyc.runtime")
    if module is None:
        raise InputError(
            "mpc", "no runtime", "'from mpyc.runtime import mpc'", condition="before secure arrays are used"
        )
    return module.mpc


def receive(sender: int) -> Any:
    """Return the next message of a party under the current program counter, for protocols that count their rounds."""
    mpc = current_runtime()
    return type(mpc)._receive_message(mpc, sender)  # an instance's counts exchanges of MPyC's own (`costs`)


def exchange(data: bytes) -> Any:
    """Send bytes to all parties; return, to be awaited, what each has sent, in their order.

    An analyst of `dpmpc.parties.network`, who is none of them, sends and receives nothing.
    """
    mpc = current_runtime()

    @mpc.coroutine  # type: ignore[untyped-decorator]
    async def meet() -> asyncio.Future:  # type: ignore[type-arg]
        is_party = mpc.pid < len(mpc.parties)
        peers = [party.pid for party in mpc.parties if is_party and party.pid != mpc.pid]
        for peer in peers:
            mpc._send_message(peer, data)
        arrived = dict(zip(peers, await mpc.gather([receive(peer) for peer in peers]), strict=True))
        return [arrived.get(party.pid, data) for party in mpc.parties]  # type: ignore[return-value]

    return meet()
