"""Secure arrays of MPyC from a sketch that is never opened, and the answer of MPyC as numbers for the analyst.

A server's Shamir share of the sketch is what MPyC holds of a secret array: the values at the point server + 1 of
polynomials of degree t < M/2 over Z_p, p = 2^61 - 1. So nothing is sent when MPyC takes over (`secure_array`), and
all that MPyC computes on field arrays can follow. `open_to_analyst` and `opened` show one result to the analyst, who is
no party of MPyC's protocols, and to nobody else.

Promised: any t servers that pool what they see learn nothing, and the analyst learns what is opened and no more. The
clients' noise is in the shares, so what is opened is a function of the noisy sketch, and the guarantee of the task
holds for it as for the sketch itself (post-processing; Dwork and Roth 2014, Proposition 2.1). All servers have to be
present. A linear function of the sketch, or products of `dpmpc.mpyc.checked`, are right if they are opened at all:
wrong shares of up to t servers are noticed. **What MPyC multiplies otherwise is not checked**: such a program prints
`Task.passive_guarantee`. That no number wraps around modulo p is for the program to prove (`require_room`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmpc.errors import InputError, OverflowRisk
from dpmpc.network.frames import ContentType, Kind
from dpmpc.network.party import Party
from dpmpc.network.verified_task import simulation_keys
from dpmpc.server import transform
from dpmpc.sharing import SHARE_FILE, open_share
from dpmpc.task import Task


def require_shamir(task: Task) -> None:
    """Refuse a task whose shares MPyC cannot multiply."""
    if task.sharing != "shamir":
        raise InputError(f"sharing: {task.sharing!r} given, 'shamir' expected: MPyC computes on Shamir shares")


def require_room(task: Task, needed: int) -> None:
    """Refuse a task from which MPyC would compute numbers of `needed` bits, if that may wrap around modulo p."""
    available = task.encoding.ring.bits
    if needed > available:
        raise OverflowRisk(
            f"fractional_bits: {task.encoding.fractional_bits} given, but what is computed from the sketch takes up to "
            f"{needed} bits, {available} available; use fewer fractional bits"
        )


def with_room(task_with: Callable[[int], Task], needed: Callable[[Task], int], most: int) -> Task:
    """Return ``task_with(f)`` for about the most fractional bits f <= `most` for which a product of two entries fits.

    Parameters
    ----------
    task_with : callable
        Designs the task with f fractional bits.
    needed : callable
        Bits that the product takes; it grows like 4^f.
    most : int
        f to begin with.
    """
    task = task_with(most)
    excess = needed(task) - task.encoding.ring.bits
    return task if excess <= 0 else task_with(max(0, most - (excess + 1) // 2))


async def sketch_alone(party: Party) -> NDArray[np.uint64]:
    """Return this server's share (k, width) of the noisy sketch; no message is sent."""
    task = party.task
    return await asyncio.to_thread(  # the event loop goes on noticing when a peer is lost
        transform,
        task,
        open_share(party.folder / SHARE_FILE, task.encoding.ring),
        simulation_key=simulation_keys(party.runtime.settings)[party.pid],
        threads=party.arguments["threads"],
        phase=party.meter.phase,
        progress=party.report_progress,
    )


def secure_array(party: Party, task: Task, sums: NDArray[np.uint64]) -> Any:
    """Hand this server's share of the sketch over to MPyC; no message is sent.

    Parameters
    ----------
    party : Party
        A server.
    task : Task
        With Shamir shares.
    sums : ndarray of uint64
        What `sketch_alone` returned, or any linear function of it modulo p.

    Returns
    -------
    SecureArray
        Of MPyC's ``SecFld(2^61 - 1)``, of the shape of `sums`; a negative number v is held as p + v.

    Raises
    ------
    InputError
        If the shares are additive, or of another degree than MPyC's.
    """
    require_shamir(task)
    if party.runtime.threshold != task.trust.corrupt_servers:
        raise InputError(
            f"corrupt_servers: {task.trust.corrupt_servers} given, MPyC's threshold {party.runtime.threshold} expected"
        )
    secure = party.runtime.SecFld(task.encoding.ring.modulus)
    return secure.array(secure.field.array(sums.astype(object)))  # Python integers: NumPy's would wrap at 2^64


async def open_to_analyst(party: Party, secret: Any) -> None:
    """Send this server's share of a secure array to the analyst."""
    assert party.analyst is not None
    [share] = await party.runtime.gather([secret])
    await party.runtime.send_frame(party.analyst, party.runtime.frame(Kind.RESULT, share.value.astype(np.uint64)))


async def opened(party: Party, task: Task, shape: tuple[int, ...]) -> NDArray[np.uint64]:
    """Return what the servers open to this party, the analyst: field elements of the given shape.

    Raises
    ------
    InconsistentShares
        If a server's share does not fit those of the others.
    """
    frames = [
        await party.runtime.receive_frame(sender, Kind.RESULT, ContentType.WORDS, shape)
        for sender in range(party.servers)
    ]
    return task.scheme.combine([frame.words for frame in frames])
