"""From the servers' messages to verdicts: which reports are accepted, and what a false report's chances are.

With additive shares messages add up to w_i(r) and y of the record; with Shamir shares they have to lie on one
polynomial of degree t and are interpolated. A report is accepted iff

    y = kappa_0 G_0 + kappa_1 G_1,    G = sum_i sigma_i g_i(w_i(r)).

Everybody who has all messages computes the same verdicts.

**Who must be honest.** With additive shares all servers: one that colludes with a client chooses a message with which
its report passes. With Shamir shares all but t of the servers *present*, of whom `require_present` demands 2t + 1: then
t + 1 are honest and fix the polynomial (theorem proof-soundness).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from dpmpc.base.arguments import require_whole
from dpmpc.base.arrays import Words
from dpmpc.base.errors import InputError, PartyMissing
from dpmpc.linear.proving.circuit import FIELD, Circuit, P, require_block
from dpmpc.linear.proving.prove import Scheme
from dpmpc.linear.proving.query import QueryPoint
from dpmpc.linear.sharing import ShamirSharing

HASHES = 2.0**80
"""How many hashes clients are taken to compute together, unless it is said."""


@dataclasses.dataclass(frozen=True, eq=False)
class Verdicts:
    """What the messages show about each report.

    Attributes
    ----------
    accepted : ndarray of bool, shape (n,)
        Whether its words are those of a well-formed report.
    inconsistent : ndarray of bool, shape (n,)
        With Shamir shares, whether its messages lie on no polynomial of degree t: a dealer or a server was off. Such a
        report is not accepted.
    odd : dict from int to ndarray of bool, shape (n,)
        For each server present, in which inconsistent reports the messages of all others agree and its own does not,
        or it is among the only few of whom that holds; nobody where too few are present to decide
        (`ShamirSharing.corrected`). No proof of its fault: the dealer may have given it other words.
    """

    accepted: NDArray[np.bool_]
    inconsistent: NDArray[np.bool_]
    odd: dict[int, NDArray[np.bool_]]


def fewest_present(scheme: Scheme) -> int:
    """Return how many servers must be present.

    With additive shares all. With Shamir shares 2t + 1, so that t + 1 honest ones fix each polynomial, and more than
    (M + t)/2, so that any two runs have an honest server in common (lemma quorums_share_an_honest_server).
    """
    if isinstance(scheme, ShamirSharing):
        return max(2 * scheme.threshold + 1, (scheme.servers + scheme.threshold) // 2 + 1)
    return scheme.servers


def require_present(scheme: Scheme, present: Collection[int]) -> None:
    """Raise `PartyMissing` if too few servers are present to decide."""
    fewest = fewest_present(scheme)
    if fewest > scheme.servers:
        raise InputError("scheme", f"{scheme!r}", f"at least 2t + 1 = {fewest} servers", condition="for proofs")
    if len(present) < fewest:
        raise PartyMissing(f"{len(present)} of {scheme.servers} servers present, at least {fewest} expected for proofs")


def decide(
    circuit: Circuit, scheme: Scheme, point: QueryPoint, joint: Words, messages: Mapping[int, Words]
) -> Verdicts:
    """Decide about a block of reports.

    Parameters
    ----------
    circuit : Circuit
        What is proved.
    scheme : AdditiveSharing or ShamirSharing
        As clients have it.
    point : QueryPoint
        Where all messages were computed.
    joint : ndarray of uint64, shape (n, joint words)
        `joint_randomness` of the seeds, on which all servers agree.
    messages : mapping from server to ndarray of uint64, shape (n, c + 1)
        Of all servers present; whatever peers sent.

    Raises
    ------
    InputError
        If a message has another shape or a word of p or more.
    PartyMissing
        If too few servers are present.
    """
    for server in messages:
        require_whole("messages", server, 0, scheme.servers - 1)
    require_present(scheme, messages)
    if point.circuit != circuit:
        raise InputError("point", "one of another circuit", "one of this circuit")
    count = len(joint)
    joint = require_block("joint", joint, count, circuit.joint_words)
    words = {
        server: require_block(f"message of server {server}", messages[server], count, circuit.wires + 1)
        for server in sorted(messages)
    }
    if isinstance(scheme, ShamirSharing):
        compared = scheme.compare(words)
        opened, inconsistent, odd = scheme.interpolate(words, 0), ~compared.consistent, compared.odd
    else:
        opened, inconsistent = FIELD.sum_of(list(words.values())), np.zeros(count, np.bool_)
        odd = dict.fromkeys(words, inconsistent)
    fits = np.empty(count, np.uint8)
    circuit.proofs.decide(point.weights, opened, joint, fits)
    return Verdicts((fits == 1) & ~inconsistent, inconsistent, odd)


def soundness_error(circuit: Circuit, scheme: Scheme, false_reports: int, hashes: float = HASHES) -> float:
    """Bound the probability that any of this many false reports is accepted (theorem proof-soundness).

        S (q + k) 5/p^2  +  S k (4N/(p - 4N - 1) + 1/p)  +  (M + 1/2) q^2/2^256

    It holds if all servers followed the protocol, with additive shares, or all but t of those present, with Shamir's;
    hashes are random oracles. S counts the sets of honest servers that may be present.

    Parameters
    ----------
    circuit : Circuit
        What is proved.
    scheme : AdditiveSharing or ShamirSharing
        How it is shared.
    false_reports : int
        k.
    hashes : float
        q, of all malicious clients together.
    """
    k = require_whole("false_reports", false_reports, 0)
    sets = 1
    if isinstance(scheme, ShamirSharing):
        honest = scheme.servers - scheme.threshold
        sets = sum(math.comb(honest, size) for size in range(fewest_present(scheme) - scheme.threshold, honest + 1))
    joint = sets * (hashes + k) * 5 / P**2
    toss = sets * k * (circuit.degree / (P - circuit.degree - 1) + 1 / P)
    return min(1.0, joint + toss + (scheme.servers + 0.5) * hashes**2 / 2.0**256)
