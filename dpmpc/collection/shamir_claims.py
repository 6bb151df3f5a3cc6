"""Check what a release file claims of servers that hold Shamir shares: who dealt noise, and who was off.

What such a file says beyond one with additive shares: whose noise is in the sums, whose messages about reports were off
while those of all others agreed, and whose shares of the sums were corrected.

Promised: claims that pass are possible for the collection, and the words here say how far they convict anybody. Not
promised: that they are true; all servers that took part have signed them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpmpc.collection.designing import noise_promise
from dpmpc.collection.task_file import Collection
from dpmpc.errors import VerificationFailed
from dpmpc.proving import fewest_present
from dpmpc.randomness import SEED_BYTES
from dpmpc.sharing import ShamirSharing

INCONSISTENT = "inconsistent"
"""The cause for which reports are left out whose shares, or the messages about them, lie on no polynomial."""


def check_dealers(collection: Collection, dealers: Sequence[int], noise: str) -> list[str]:
    """Check who dealt noise; return a line that says what is promised of it, or none where none is dealt.

    Parameters
    ----------
    collection : Collection
        The public facts.
    dealers : sequence of int
        Servers.
    noise : str
        The digest of what they dealt, hexadecimal.

    Raises
    ------
    VerificationFailed
        If these servers cannot have dealt it, or the digest is missing.
    """
    if not collection.plan.noise_is_dealt:
        if dealers or noise:
            raise VerificationFailed(f"dealers: {dealers} claimed, none expected: no noise is dealt")
        return []
    servers, fewest = len(collection.servers), fewest_present(collection.plan.scheme)
    possible = list(dealers) == sorted(set(dealers)) and set(dealers) <= set(range(servers))
    if not possible or len(dealers) < fewest:
        raise VerificationFailed(
            f"dealers: {dealers} claimed, at least {fewest} of {servers} servers in order expected"
        )
    if not (len(noise) == 2 * SEED_BYTES and set(noise) <= set("0123456789abcdef")):
        raise VerificationFailed(f"noise: {noise!r} claimed, {SEED_BYTES} bytes in hexadecimal expected")
    return [f"noise: {noise_promise(collection, dealers)}"]


def check_odd(collection: Collection, refused: Mapping[str, int], odd: Mapping[str, int]) -> str:
    """Check the counts of messages that were off; return them in words, empty where there are none.

    Raises
    ------
    VerificationFailed
        If they are not counts of inconsistent reports by server, or shares are additive.
    """
    inconsistent = refused.get(INCONSISTENT, 0)
    if inconsistent and not isinstance(collection.plan.scheme, ShamirSharing):
        raise VerificationFailed(
            f"refused: {dict(refused)} claimed with additive shares, none {INCONSISTENT!r} expected"
        )
    servers = {str(server) for server in range(len(collection.servers))}
    if not set(odd) <= servers or not all(0 < count <= inconsistent for count in odd.values()):
        raise VerificationFailed(
            f"odd: {dict(odd)} claimed, for some of {len(servers)} servers 1 to {inconsistent} inconsistent reports "
            "expected"
        )
    if not odd:
        return ""
    told = ", ".join(
        f"of server {server} in {count}" for server, count in sorted(odd.items(), key=lambda one: int(one[0]))
    )
    return f", where the message {told} was off and those of all others agreed: its fault, or the clients'"


def blame(collection: Collection, without: Sequence[int], wrong: Mapping[str, Sequence[int]]) -> str:
    """Say whose shares of the sums were wrong, and, where clients prove what they share, whether that convicts them.

    If all M servers take part and at most e = floor((M - t - 1) / 2) are corrupt, at least t + 2 are honest, and the
    sums of what they accepted lie on one polynomial: whoever is off it is corrupt (docs/proved-reports.md, section 4).

    Parameters
    ----------
    collection : Collection
        The public facts.
    without : sequence of int
        Servers that did not take part.
    wrong : mapping
        For each server that did, whose shares it found to be wrong.
    """
    blamed = sorted({number for found in wrong.values() for number in found})
    if not blamed:
        return ""
    text = f"; wrong shares of servers {blamed} were corrected"
    scheme = collection.plan.scheme
    if not collection.proved or not isinstance(scheme, ShamirSharing):
        return text
    most = (scheme.servers - scheme.threshold - 1) // 2
    if without or most < 1:
        return (
            f"{text}, which alone convicts nobody: that takes all {scheme.servers} servers, and t + 3 or more of them"
        )
    many = "one" if most == 1 else str(most)
    return f"{text}: they are corrupt, if at most {many} of the {scheme.servers} servers may be"
