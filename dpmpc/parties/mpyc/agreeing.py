"""What the parties of a program on MPyC's own runtime agree on before they use a row.

There nothing but the command lines ties the parties together: each computes with its own options. So they
compare digests of the facts that all must share, and toss coins that no party chose alone.

Promised: `agreed` returns only if all parties gave the same facts, unless a party lies about its own; a coin is uniform
if one party is honest and the run is not broken off, as all commit before any coin is shown. Not promised: that a party
which breaks off runs until it likes a coin is stopped, or that messages are those of the parties whose number they bear
(`dpmpc.parties.mpyc.native`). On `dpmpc.parties.network` the digest of the task stands in each party's own settings.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping

from dpmpc.base.errors import BatchMismatch, MalformedFrame, ProtocolFailure
from dpmpc.base.randomness import Label, Stream
from dpmpc.parties.mpyc.costs import costs
from dpmpc.parties.mpyc.current_runtime import current_runtime, exchange

DIGEST_BYTES = COIN_BYTES = NONCE_BYTES = 32


async def agreed(facts: Mapping[str, str | int | float | None]) -> bytes:
    """Compare facts with all parties.

    Parameters
    ----------
    facts : mapping
        What every party has to give alike, by name: the digest of the task, the program, who the analyst is.

    Returns
    -------
    bytes
        32 bytes that stand for this run of these facts, the same at all parties and at no other run.

    Raises
    ------
    BatchMismatch
        If a party gave another fact; it names the first one and the party.
    """
    names = sorted(facts)
    digests = [_hash(Label.SESSION, name.encode(), json.dumps(facts[name]).encode()) for name in names]
    costs.round("agree")
    sent = await _exchange_equal_sizes(Stream.from_os().bytes(NONCE_BYTES) + b"".join(digests))
    for party, content in enumerate(sent):
        for name, digest, first in zip(names, digests, range(NONCE_BYTES, len(content), DIGEST_BYTES), strict=True):
            if content[first : first + DIGEST_BYTES] != digest:
                raise BatchMismatch(
                    f"{name}: party {party} gave another than {facts[name]!r}, which is given here", party
                )
    return _hash(Label.SESSION, *sent)


async def toss(session: bytes, what: str) -> bytes:
    """Toss 32 bytes that no party chose: all commit to a coin, then show it.

    Parameters
    ----------
    session : bytes
        What `agreed` has returned.
    what : str
        What the coin is for; once in a program.

    Raises
    ------
    ProtocolFailure
        If a party shows another coin than it committed to.
    """
    place = session + what.encode()
    own = Stream.from_os().bytes(NONCE_BYTES + COIN_BYTES)
    costs.round("agree")
    commitments = await _exchange_equal_sizes(_hash(Label.COIN, place, bytes([current_runtime().pid]), own))
    costs.round("agree")
    coins = await _exchange_equal_sizes(own)
    for party, (committed, shown) in enumerate(zip(commitments, coins, strict=True)):
        if not hmac.compare_digest(_hash(Label.COIN, place, bytes([party]), shown), committed):
            raise ProtocolFailure(f"coin for {what}: party {party} showed another than it committed to", party)
    return _hash(Label.TOSS, place, *coins)


def _hash(label: Label, *parts: bytes) -> bytes:
    """Return SHA-256 of a label and parts, each with its length."""
    hashed = hashlib.sha256(label.value)
    for part in parts:
        hashed.update(len(part).to_bytes(8, "little") + part)
    return hashed.digest()


async def _exchange_equal_sizes(data: bytes) -> list[bytes]:
    """Send bytes to all parties, and receive as many from each."""
    sent: list[bytes] = await exchange(data)
    for party, content in enumerate(sent):
        if len(content) != len(data):
            raise MalformedFrame(f"party {party} sent {len(content)} bytes, {len(data)} expected", party)
    return sent
