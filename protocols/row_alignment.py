"""The same people in the same order at all parties (`dpmpc.data_release.alignment`, among real processes).

Each party makes one number of its ids. The parties compare their numbers by a private equality test
(`dpmpc.data_release.equality`), each step of which is an exchange in which nobody sees what others show before its own
words are fixed (`dpmpc.protocols.simultaneous`). If all numbers are equal, the order by keyed hashes is the common one;
otherwise the run ends as a `BatchMismatch` at every party.

What each party learns, honest or not, is said in `dpmpc.data_release.alignment` and `dpmpc.data_release.equality`: one
bit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from dpmpc.data_release.alignment import common_order, keyed_hashes, number_of_set
from dpmpc.data_release.equality import Comparison
from dpmpc.errors import BatchMismatch
from dpmpc.network.party import Party
from dpmpc.protocols.simultaneous import show_bytes


async def align(party: Party, key: bytes, ids: Sequence[str]) -> list[int]:
    """Return the order of this party's rows, which is that of all others.

    Raises
    ------
    BatchMismatch
        At all parties, if not all have the same ids.
    MalformedFrame
        If a party shows something that it cannot prove.
    """
    hashes = await asyncio.to_thread(keyed_hashes, key, ids)
    if not await all_equal(party, number_of_set(key, hashes)):
        await party.runtime.shutdown()  # everybody knows the answer before anybody ends
        raise BatchMismatch("key: not all parties have the same ids, the same ids expected in all files")
    return common_order(hashes)


async def all_equal(party: Party, number: int) -> bool:
    """Whether the numbers of all parties are equal; nothing else about them leaves this party."""
    comparison = Comparison(party.pid, party.servers, party.runtime.settings.task_digest, number)
    own = await asyncio.to_thread(comparison.key)
    for step, next_step in (
        ("key", comparison.ciphertext),
        ("ciphertext", comparison.mask),
        ("mask", comparison.opening),
    ):
        shown = await show_bytes(party, step, own)
        own = await asyncio.to_thread(next_step, shown)
    return await asyncio.to_thread(comparison.equal, await show_bytes(party, "opening", own))
