"""Keep the one query point of a collection: where this server answers for proofs, and that it takes no more reports.

A server that answers for a report at two points gives its row away, and one that stores a report after it knows the
point lets any report pass (theorem proof-privacy). So both facts are kept twice, in the spool and in the ledger, which
lie in different places:

=========  ==========================  =============================================================
state      durable                     what this server may do
=========  ==========================  =============================================================
open       nothing                     take reports
closed     in spool and ledger         take part in tosses; nothing is stored any more, for good
sealed X   X in the ledger             toss anew, which replaces X, or go on with X if others used it
used X     X as used in the ledger,    send messages at X, once all say that they have marked X as
           then in the spool           used; take no other point, for good
refused    no point, in both, once     nothing more: one of them was put back to another's past
           they named different ones
=========  ==========================  =============================================================

Promised: `use` never returns for two different points, across crashes and restarts, and if *one* of the two stores was
put back to any earlier state, as long as the server was started in between; a mark that is in one store alone reads as
there, and is written to the other one before anything else. Not promised: anything if both are put back. Never do this.
"""

from __future__ import annotations

import contextlib
from typing import Annotated

import msgspec

from dpmpc.base.arguments import require_bytes
from dpmpc.base.errors import GuaranteeError
from dpmpc.base.randomness import SEED_BYTES
from dpmpc.collect.store.ledger import ReleaseLedger
from dpmpc.collect.store.report_store import ReportStore

NO_POINT = bytes(SEED_BYTES)
"""What both stores hold in place of a point once they have contradicted each other."""

_LOST = (
    "messages at two points would give rows away, so the proofs of this collection are never checked again here: do "
    "not delete either of them, and collect anew (docs/deploy.md, 'A query point is lost')"
)


class PointStanding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far a server is with the point of a collection, as it announces to the others."""

    point: Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{64})?$")] = ""  # 32 bytes, hexadecimal; empty for none
    used: bool = False  # whether it may have sent messages at it

    @property
    def toss(self) -> bytes:
        """The 32 bytes of the toss."""
        return bytes.fromhex(self.point)


class PointKeeper:
    """The point of one collection at one server."""

    def __init__(self, collection: bytes, spool: ReportStore, ledger: ReleaseLedger):
        self._collection, self._spool, self._ledger = require_bytes("collection", collection, 32), spool, ledger

    def close(self) -> None:
        """Take no more reports, for good, in both stores."""
        self._spool.close_for_good()
        self._ledger.close_collection(self._collection)

    def heal(self) -> None:
        """Write to one store what the other one alone holds: closing, and the point that was used.

        A server does so whenever it starts. If they contradict each other that is remembered, and `standing` refuses.
        """
        if self._ledger.closed(self._collection) or self._spool.closed:
            self.close()
            with contextlib.suppress(GuaranteeError):
                self.standing()

    def standing(self) -> PointStanding:
        """Return how far this server is, after it has written a mark that one of its stores lacks."""
        kept, other = self._ledger.point(self._collection), self._spool.point()
        if kept is not None and other not in (None, kept):
            self._forbid()
            raise GuaranteeError(
                "query point",
                f"{other.hex()} is used according to this server's spool, and {kept.hex()} according "
                f"to its ledger, the same one expected: {_LOST}",
            )
        if NO_POINT in (kept, other):
            self._forbid()
            raise GuaranteeError(
                "query point", f"this server's spool and its ledger once named different ones as used: {_LOST}"
            )
        used = kept or other
        if used is None:
            return PointStanding((self._ledger.sealed_point(self._collection) or b"").hex())
        self.close()
        self._mark(used)
        return PointStanding(used.hex(), used=True)

    def seal(self, toss: bytes) -> None:
        """Record a point that was tossed, instead of one that was sealed before and not used."""
        require_bytes("toss", toss, SEED_BYTES)
        standing = self.standing()
        if standing.used and standing.toss != toss:
            raise GuaranteeError("query point", f"{toss.hex()} given, {standing.point} expected, which is used")
        if not (self._spool.closed and self._ledger.closed(self._collection)):
            raise GuaranteeError("query point", "tossed before this server had closed, a closed collection expected")
        if not standing.used:
            self._ledger.seal_point(self._collection, toss)

    def use(self, toss: bytes) -> None:
        """Mark a sealed point as used, in the ledger first."""
        standing = self.standing()
        if standing.point != toss.hex():
            raise GuaranteeError(
                "query point",
                f"{toss.hex()} given, {standing.point or 'none'} expected, which is "
                f"{'used' if standing.used else 'sealed'} here",
            )
        self._mark(toss)

    def _forbid(self) -> None:
        """Refuse every point from now on, in both stores, so that putting one of them back changes nothing."""
        self.close()
        self._ledger.forbid_points(self._collection, NO_POINT)
        self._spool.forbid_points(NO_POINT)

    def _mark(self, toss: bytes) -> None:
        self._ledger.use_point(self._collection, toss)
        self._spool.use_point(toss)


def point_to_go_on_with(standings: dict[int, PointStanding]) -> bytes | None:
    """Return the point that a server of the run has used, or None if it is to be tossed."""
    used = {standing.point: server for server, standing in standings.items() if standing.used}
    if not used:
        return None
    if len(used) > 1:
        told = ", ".join(f"server {server} {point[:16]}..." for point, server in used.items())
        raise GuaranteeError("query point", f"different ones were used by {told}, one expected: {_LOST}")
    ((point, first),) = used.items()
    for server, standing in standings.items():
        if standing.point != point:
            raise GuaranteeError(
                "query point",
                f"server {first} has used {point[:16]}..., which server {server} has not sealed; only "
                f"servers that closed before it was tossed may go on with it, and all are needed: {_LOST}",
            )
    return bytes.fromhex(point)
