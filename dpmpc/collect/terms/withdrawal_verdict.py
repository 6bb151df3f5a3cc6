"""State what the answers of servers to a withdrawal amount to: success is what enough of them have confirmed.

A release takes part of at least q of the M servers (`certificate.quorum`), and its batch holds only reports that all of
them announce. A report with a tombstone at w honest servers is therefore in no release if every q servers have one of
these among them: w > M - q. Additive shares need all servers, so that one is enough; of Shamir shares over M = 4
servers with t = 1, q = 3, and two are needed.

==================  =================================================================================================
verdict             where
==================  =================================================================================================
``withdrawn``       at least M - q + 1 servers said "withdrawn now" or "was withdrawn"
``too late``        so many said "too late" that the others are too few
``never here``      all said "never here"
``not confirmed``   anything else: no answer, a refusal, too few
==================  =================================================================================================

Only what a server states of itself is an answer. client.mjs computes the same; tests/vectors/withdrawals.json holds
both. Promised: nothing but answers makes a success. Not promised: that a server which states it has a tombstone; who
reads "withdrawn" also reads which servers that rests on.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Collection

from dpmpc.collect.terms.certificate import quorum
from dpmpc.collect.terms.task_file import Collection as TaskFile


class Fate(enum.StrEnum):
    """What became of a withdrawal at a server, in the words that clients receive."""

    NOW = "withdrawn now"  # the report was here, and has a tombstone from this moment on
    BEFORE = "was withdrawn"  # it had one already
    NEVER = "never here"  # no report with this id has come yet; while the allowance lasts, none will be stored
    LATE = "too late"  # the report is here and announced for a release, or in one; nothing was changed


WITHDRAWN = frozenset({Fate.NOW, Fate.BEFORE})  # this server never releases the report, not even if it comes again


class Verdict(enum.StrEnum):
    """What is known of a report that somebody takes back."""

    WITHDRAWN = "withdrawn"
    LATE = "too late"
    NEVER = "never here"
    UNCONFIRMED = "not confirmed"


def fewest_confirming(collection: TaskFile) -> int:
    """Return how many servers have to confirm a withdrawal, so that no servers that may release lack all of them."""
    return len(collection.servers) - quorum(collection) + 1


def verdict(servers: int, needed: int, words: Collection[str]) -> Verdict:
    """Judge one withdrawal by what servers state, each of itself; servers without an answer count for nothing."""
    counts = Counter(words)
    if sum(counts[word] for word in WITHDRAWN) >= needed:
        return Verdict.WITHDRAWN
    if servers - counts[Fate.LATE] < needed:
        return Verdict.LATE
    return Verdict.NEVER if counts[Fate.NEVER] == servers else Verdict.UNCONFIRMED
