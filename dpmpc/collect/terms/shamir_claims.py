"""Check what a release file claims of servers that hold Shamir shares: who dealt noise, and who was off.

What such a file states beyond one with additive shares: whose noise is in the sums, whose messages about reports were
off while those of all others agreed, and whose shares of the sums were corrected.

Promised: claims that pass are possible for the collection, and the words here state how far they convict anybody. Not
promised: that they are true; all servers that took part have signed them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpmpc.base.errors import VerificationFailed
from dpmpc.base.randomness import SEED_BYTES
from dpmpc.collect.terms.collection_design import noise_promise
from dpmpc.collect.terms.task_file import Collection
from dpmpc.linear.proving.decide import fewest_present
from dpmpc.linear.sharing import ShamirSharing

INCONSISTENT = "inconsistent"
"""The cause for which reports are left out whose shares, or the messages about them, lie on no polynomial."""


def check_dealers(collection: Collection, dealers: Sequence[int], noise: str) -> list[str]:
    """Check who dealt noise; return a line that states what is guaranteed of it, or none where none is dealt."""
    if not collection.plan.noise_is_dealt:
        if dealers or noise:
            raise VerificationFailed("dealers", f"{dealers} claimed, none expected: no noise is dealt")
        return []
    servers, fewest = len(collection.servers), fewest_present(collection.plan.scheme)
    possible = list(dealers) == sorted(set(dealers)) and set(dealers) <= set(range(servers))
    if not possible or len(dealers) < fewest:
        raise VerificationFailed(
            "dealers", f"{dealers} claimed, at least {fewest} of {servers} servers in order expected"
        )
    if not (len(noise) == 2 * SEED_BYTES and set(noise) <= set("0123456789abcdef")):
        raise VerificationFailed("noise", f"{noise!r} claimed, {SEED_BYTES} bytes in hexadecimal expected")
    return [f"noise: {noise_promise(collection, dealers)}"]


def check_odd(collection: Collection, refused: Mapping[str, int], odd: Mapping[str, int]) -> str:
    """Check the counts of messages that were off; return them in words, empty where there are none."""
    inconsistent, scheme = refused.get(INCONSISTENT, 0), collection.plan.scheme
    if inconsistent and not isinstance(scheme, ShamirSharing):
        raise VerificationFailed(
            "refused", f"{dict(refused)} claimed with additive shares, none {INCONSISTENT!r} expected"
        )
    servers = {str(server) for server in range(len(collection.servers))}
    if not set(odd) <= servers or not all(0 < count <= inconsistent for count in odd.values()):
        raise VerificationFailed(
            "odd",
            f"{dict(odd)} claimed, for some of {len(servers)} servers 1 to {inconsistent} inconsistent "
            "reports expected",
        )
    if not odd:
        return ""
    told = ", ".join(
        f"of server {server} in {count}" for server, count in sorted(odd.items(), key=lambda one: int(one[0]))
    )
    if not (isinstance(scheme, ShamirSharing) and scheme.corrected(scheme.servers)):
        raise VerificationFailed("odd", f"{dict(odd)} claimed of so few servers that an honest one could look wrong")
    return f", where the message {told} was off and those of all others agreed: its fault, or the clients'"


def blame(collection: Collection, without: Sequence[int], wrong: Mapping[str, Sequence[int]]) -> str:
    """Return whose shares of the sums were wrong, and whether that convicts them (theorem share-opening).

    It does where clients prove what they share, m >= 3t + 1 servers took part, and at most t of these lied: the sums of
    what honest servers accepted lie on one polynomial, and anyone who is off it lied. Among fewer nobody is blamed.
    """
    blamed, scheme = _blamed(wrong), collection.plan.scheme
    if not blamed or not isinstance(scheme, ShamirSharing):
        return f"; wrong shares of servers {blamed} claimed with additive shares" if blamed else ""
    present, corrupt = scheme.servers - len(without), scheme.threshold
    if len(set(map(tuple, wrong.values()))) > 1:
        return f"; servers differ on whose shares were wrong ({blamed}): that convicts no one, and one of them lied"
    if not scheme.corrected(present):
        raise VerificationFailed(
            "wrong", f"{blamed} claimed of {present} servers, too few to find whose shares are wrong"
        )
    text = f"; wrong shares of servers {blamed} were corrected"
    if not collection.proved:
        return f"{text}, which convicts no one: clients that prove nothing may have dealt them so"
    return f"{text}: they are corrupt, if at most {corrupt} of the {present} servers lied"


def opening_condition(collection: Collection, without: Sequence[int], wrong: Mapping[str, Sequence[int]]) -> str:
    """Return on what condition the sums are those of the shares that honest servers hold; empty with additive shares.

    All shares but those found to be wrong lie on one polynomial. If t + 1 servers that did not lie are among them, it
    is the one of honest shares. Parameters are those of `blame`.
    """
    scheme = collection.plan.scheme
    if not isinstance(scheme, ShamirSharing):
        return ""
    blamed = _blamed(wrong)
    agreeing = [server for server in range(scheme.servers) if server not in {*without, *blamed}]
    spare, corrupt = len(agreeing) - scheme.threshold - 1, scheme.threshold
    if spare >= corrupt:
        present = scheme.servers - len(without)
        return f", the sum of honest servers' shares, if at most {corrupt} of the {present} servers lied"
    few = "none" if spare <= 0 else f"at most {spare}"
    return (
        f", the sum of honest servers' shares ONLY IF {few} of servers {agreeing} lied, fewer than the {corrupt} that "
        f"may be corrupt: {2 * corrupt + 1} that agree would be needed"
    )


def _blamed(wrong: Mapping[str, Sequence[int]]) -> list[int]:
    return sorted({number for found in wrong.values() for number in found})
