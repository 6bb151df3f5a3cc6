"""Take a report back until the release: whoever holds its secret may, at any door, and nobody else.

A withdrawal is the secret that the report's id was computed from (`sealing.report_id`). A server computes the id, puts
a tombstone in the place of the report (`report_store`), and its door hands the secret on. With a roster ids come from
no secret: the ticket's holder shows each server its token and the id, at its pinned port.

A server answers for itself alone, with its number and one word for each withdrawal (`Fate`). The status is 200 if all
are withdrawn here, whenever that was; otherwise 404 if one of the reports was never here, or else 409.

Promised (docs/security.md, proposition 3): if one honest server that takes part in the release answered "withdrawn now"
or "was withdrawn", the report is not in the batch. The same holds if the report comes later than the withdrawal, as
long as the server has room for the id of such a report (`report_store`): its word is "never here". A server that is
too late hands the withdrawal on all the same: another one may not be. Not promised: that a server forgets what it was
sent; or anything once a release has come. What the answers of all servers amount to, `withdrawal_verdict` says.
"""

from __future__ import annotations

import asyncio

from dpmpc.collection.admission import Refusal
from dpmpc.collection.doors import MOST_WITHDRAWALS, Door
from dpmpc.collection.group_commit import GroupCommit
from dpmpc.collection.replies import Reply
from dpmpc.collection.report_ids import ID_BYTES
from dpmpc.collection.report_store import ReportStore
from dpmpc.collection.roster import Roster
from dpmpc.collection.sealing import SECRET_BYTES, report_id
from dpmpc.collection.task_file import Collection
from dpmpc.collection.tombstones import WITHDRAWN, Fate
from dpmpc.errors import ReportRejected


class Withdrawals:
    """The withdrawals at one server."""

    def __init__(
        self,
        collection: Collection,
        server: int,
        store: ReportStore,
        commits: GroupCommit,
        *,
        roster: Roster | None,
        door: Door,
    ):
        self._digest, self._server, self._store, self._commits = collection.digest, server, store, commits
        self._roster, self._door = roster, door
        self.longest = MOST_WITHDRAWALS * SECRET_BYTES

    async def take(self, body: bytes, token: bytes | None, *, through_door: bool) -> Reply:
        """Put tombstones here, and hand on what came through the own door; return what became of each withdrawal."""
        secrets = self._read(body, token)
        fates = await asyncio.to_thread(self._store.withdraw, list(secrets))
        if Fate.NOW in fates:
            await asyncio.to_thread(self._commits.count_anew)
        withdrawn = [fate in WITHDRAWN for fate in fates]
        handing_on = through_door and self._roster is None  # the token is for this server alone
        await self._door.withdraw(secrets, withdrawn, handing_on=handing_on)
        content = {"server": self._server, "reports": fates}
        if set(fates) <= WITHDRAWN:
            return Reply(200, content)
        status, name = (404, "NeverHere") if Fate.NEVER in fates else (409, "TooLate")
        others = {fate: fates.count(fate) for fate in (Fate.NEVER, Fate.LATE) if fate in fates}
        message = f"withdrawal: {', '.join(f'{count} {fate}' for fate, count in others.items())}: not withdrawn here"
        return Reply(status, {"error": name, "message": message, **content})

    def _read(self, body: bytes, token: bytes | None) -> dict[bytes, bytes]:
        """Return what takes reports back, by their ids."""
        if self._roster is not None:
            if len(body) != ID_BYTES:
                raise ReportRejected(f"body: {len(body)} bytes given, the {ID_BYTES} of a ticket's report expected")
            if token is None or not self._roster.admits(body, token):
                raise Refusal(403, "Unknown", "Authorization: no token of the client whose report this is")
            return {body: b""}
        if not body or len(body) % SECRET_BYTES or len(body) > self.longest:
            raise ReportRejected(
                f"body: {len(body)} bytes given, 1 to {MOST_WITHDRAWALS} secrets of {SECRET_BYTES} bytes expected"
            )
        secrets = [body[first : first + SECRET_BYTES] for first in range(0, len(body), SECRET_BYTES)]
        found = {report_id(self._digest, secret): secret for secret in secrets}
        if len(found) < len(secrets):
            raise ReportRejected("body: one secret given twice, each once expected")
        return found
