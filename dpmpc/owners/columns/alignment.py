"""Put the same people in the same order at all parties, without revealing who they are.

Each party knows its subjects by an id. Under a fresh key K that all parties share and the public does not know, a
party sorts its rows by HMAC-SHA256(K, id), so that parties with the same ids have the same order. Whether they have is
found by comparing one number of each, a hash of K and of all ids, by a private equality test
(`dpmpc.owners.columns.equality`), each step of which is an exchange in which no party sees what others show before its
own words are fixed (`dpmpc.parties.network.conversation`). If all numbers are equal, the order by keyed hashes is the
common one; otherwise `align` ends the run as a `BatchMismatch` at every party.

All parties know K. So whatever is keyed by K alone can be compared with guesses by any of them, and **nothing that is
computed from ids is ever sent**, but for that number, encrypted under a key that no party has.

What each party learns: whether all have the same ids, one bit. A party that breaks the protocol learns the same bit for
a set of ids of its choice: whether all others have just *that* set. This is one guess of a whole set for each
comparison, and a party begins at most `dpmpc.owners.columns.release_record.MOST_COMPARISONS` of them in one agreement.
How many ids differ, and which, is not computed at all: a count, which parties could ask for again and again with files
of their making, reveals who is in a party's file.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from dpmpc.base.errors import BatchMismatch, InputError
from dpmpc.base.randomness import Label
from dpmpc.owners.columns.equality import IdComparison
from dpmpc.owners.columns.p256 import ORDER
from dpmpc.parties.network.conversation import reveal, together
from dpmpc.parties.network.party import Party

Result = TypeVar("Result")


def keyed_hashes(key: bytes, ids: Sequence[str]) -> list[bytes]:
    """Return HMAC-SHA256(key, id) of each id, in UTF-8."""
    return [hmac.digest(key, name.encode(), "sha256") for name in ids]


def check_unique(ids: Sequence[str]) -> None:
    """Refuse ids that stand in more than one row; the error states in how many and never which."""
    repeated = len(ids) - len(set(ids))
    if repeated:
        raise InputError(
            "key", f"{repeated} of {len(ids)} rows repeat the id of another row, one row for each id expected"
        )


def common_order(hashes: Sequence[bytes]) -> list[int]:
    """Return the positions of the rows in the order of their keyed hashes: the same people at all parties."""
    return sorted(range(len(hashes)), key=hashes.__getitem__)


def number_of_set(key: bytes, hashes: Sequence[bytes]) -> int:
    """Return a number below the order of P-256 that is equal just if key and set are: SHA-512 of the sorted hashes.

    It is for `dpmpc.owners.columns.equality` alone: anyone who has it and the key can test guesses of the set.
    """
    hashed = hashlib.sha512(Label.ALIGNED_SET.value + key + len(hashes).to_bytes(8, "little"))
    hashed.update(b"".join(sorted(hashes)))
    return int.from_bytes(hashed.digest(), "big") % ORDER


async def align(party: Party, key: bytes, ids: Sequence[str]) -> list[int]:
    """Return the order of this party's rows, which is that of all others."""
    hashes = await asyncio.to_thread(keyed_hashes, key, ids)
    equal = await all_equal(party, number_of_set(key, hashes))
    await together(party, lambda: require_equal(equal))  # everybody knows the answer before anybody ends
    return common_order(hashes)


def require_equal(equal: bool) -> None:
    """Refuse different ids; that they differ is all that any party is to learn."""
    if not equal:
        raise BatchMismatch("key: not all parties have the same ids, the same ids expected in all files")


async def all_equal(party: Party, number: int) -> bool:
    """Return whether the numbers of all parties are equal; nothing else about them leaves this party."""
    comparison = IdComparison(party.pid, party.servers, party.runtime.settings.task_digest, number)
    own = await asyncio.to_thread(comparison.key)
    for step, next_step in (
        ("key", comparison.ciphertext),
        ("ciphertext", comparison.mask),
        ("mask", comparison.opening),
    ):
        own = await _next(party, next_step, await reveal(party, step, own))
    return await _next(party, comparison.equal, await reveal(party, "opening", own))


async def _next(party: Party, step: Callable[[list[bytes]], Result], shown: Mapping[int, bytes]) -> Result:
    """Check what all have shown and go on from it, if no party refuses it."""
    return await together(party, lambda: step(list(shown.values())))
