"""Take a report back until the release: anyone who holds its secret may, at any door, and nobody else.

A withdrawal is the secret that the report's id was computed from (`sealing.report_id`). A server computes the id, puts
a tombstone in the place of the report (`report_store`), and its door hands the secret on. With a roster ids come from
no secret: the ticket's holder seals its token for each server to that server's key (`sealing.SealedWithdrawals`), and a
request holds one such withdrawal, so that one which another server rejects costs no other.

A server answers for itself alone, with its number and one word for each withdrawal (`Fate`). The status is 200 if all
are withdrawn here, whenever that was; otherwise 404 if one of the reports was never here, or else 409.

Promised (theorem withdrawn-reports): if one honest server that takes part in the release answered
"withdrawn now" or "was withdrawn", the report is not in the batch. The same holds if the report comes later than the
withdrawal, as long as the server has room for the id of such a report (`report_store`): its word is "never here". A
server that is too late hands the withdrawal on all the same: another one may not be. Once the keys are deleted, a
server with a roster answers about an id without a token: nothing is changed any more. Not promised: that a server
forgets what it was sent; or anything once a release has come. What the answers of all servers amount to,
`withdrawal_verdict` says.
"""

from __future__ import annotations

import asyncio

from dpmpc.base.errors import ReportRejected
from dpmpc.collect.intake.admission import Refusal
from dpmpc.collect.intake.doors import Door
from dpmpc.collect.intake.group_commit import GroupCommit
from dpmpc.collect.intake.replies import Reply
from dpmpc.collect.store.report_store import ReportStore
from dpmpc.collect.terms.endpoints import MOST_WITHDRAWALS
from dpmpc.collect.terms.task_file import Collection
from dpmpc.collect.terms.withdrawal_verdict import WITHDRAWN, Fate
from dpmpc.collect.upload.roster import Roster
from dpmpc.collect.upload.sealing import SECRET_BYTES, Opener, SealedWithdrawals, id_of, report_id


class Withdrawals:
    """The withdrawals at one server."""

    def __init__(
        self,
        collection: Collection,
        server: int,
        store: ReportStore,
        commits: GroupCommit,
        *,
        opener: Opener | None,
        roster: Roster | None,
        door: Door,
    ):
        self._digest, self._server, self._store, self._commits = collection.digest, server, store, commits
        self._opener, self._roster, self._door = opener, roster, door
        self._form = SealedWithdrawals(collection)
        self.longest = MOST_WITHDRAWALS * SECRET_BYTES if roster is None else self._form.report_bytes

    async def take(self, body: bytes, *, through_door: bool) -> Reply:
        """Put tombstones here, and hand on what came through the own door; return what became of each withdrawal."""
        read = self._read_secrets if self._roster is None else self._read_sealed
        withdrawals = await asyncio.to_thread(read, body)
        fates = await asyncio.to_thread(self._store.withdraw, list(withdrawals))
        if Fate.NOW in fates:
            await asyncio.to_thread(self._commits.count_anew)
        withdrawn = [fate in WITHDRAWN for fate in fates]
        await self._door.withdraw(withdrawals, withdrawn, handing_on=through_door)
        content = {"server": self._server, "reports": fates}
        if set(fates) <= WITHDRAWN:
            return Reply(200, content)
        status, name = (404, "NeverHere") if Fate.NEVER in fates else (409, "TooLate")
        others = {fate: fates.count(fate) for fate in (Fate.NEVER, Fate.LATE) if fate in fates}
        message = f"withdrawal: {', '.join(f'{count} {fate}' for fate, count in others.items())}: not withdrawn here"
        return Reply(status, {"error": name, "message": message, **content})

    def _read_sealed(self, body: bytes) -> dict[bytes, bytes]:
        """Return what takes a report of the roster back, by its id."""
        assert self._roster is not None
        if len(body) != self._form.report_bytes:
            raise ReportRejected("body", f"{len(body)} bytes", f"one sealed withdrawal of {self._form.report_bytes}")
        if self._opener is not None and not self._opener.ended:
            token = self._opener.open_withdrawal(body)
            if not self._roster.admits(id_of(body), token):
                raise Refusal(403, "Unknown", "withdrawal: no token of the client whose report this is")
        return {id_of(body): body}

    def _read_secrets(self, body: bytes) -> dict[bytes, bytes]:
        """Return what takes reports back, by their ids."""
        if not body or len(body) % SECRET_BYTES or len(body) > self.longest:
            raise ReportRejected(
                "body", f"{len(body)} bytes", f"1 to {MOST_WITHDRAWALS} secrets of {SECRET_BYTES} bytes"
            )
        secrets = [body[first : first + SECRET_BYTES] for first in range(0, len(body), SECRET_BYTES)]
        by_id = {report_id(self._digest, secret): secret for secret in secrets}
        if len(by_id) < len(secrets):
            raise ReportRejected("body", "one secret given twice, each once expected")
        return by_id
