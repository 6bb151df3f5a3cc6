"""Take a report back until the release: whoever holds its secret may, at any door, and nobody else.

A withdrawal is the secret that the report's id was computed from (`sealing.report_id`). A server computes the id and
puts a tombstone in the place of the report, or where it would come (`report_store`), and its door hands the secret on.
With a roster ids come from no secret: the ticket's holder shows each server its token and the id, at its pinned port.

====  ================================================================================================
200   a tombstone is there, durably: this server never releases a report with this id
404   there is no such report, and no room for tombstones of reports that never came
409   TooLate: this server has announced its reports for a release
====  ================================================================================================

Promised (docs/security.md, proposition 3): if one honest server that takes part in the release answered 200, the report
is not in the batch. A server that is too late hands the withdrawal on all the same: another one may not be. Not
promised: that a server forgets what it was sent; or anything once a release has come.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import ssl
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import aiohttp
import msgspec

from dpmpc.collection.admission import Refusal
from dpmpc.collection.doors import FINAL, MOST_WITHDRAWALS, STORED, UNREACHABLE, WITHDRAWALS, Door, Status
from dpmpc.collection.group_commit import GroupCommit
from dpmpc.collection.pending import secrets_in
from dpmpc.collection.replies import Reply
from dpmpc.collection.report_ids import ID_BYTES
from dpmpc.collection.report_store import ReportStore
from dpmpc.collection.roster import Roster, Ticket
from dpmpc.collection.sealing import SECRET_BYTES, report_id
from dpmpc.collection.task_file import Collection
from dpmpc.collection.uploader import ATTEMPT_SECONDS, require_door
from dpmpc.errors import InputError, PartyMissing, ReportRejected, TooLate
from dpmpc.network.identity import party_name, pinning_context
from dpmpc.untrusted import ReadError, printable, read_beginning, read_bytes, read_json

_ANSWER_BYTES = 1 << 16
_RECEIPT = re.compile(rb"^secret ([0-9a-f]{64})$", re.MULTILINE)


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
        door: Door | None,
    ):
        self._digest, self._server, self._store, self._commits = collection.digest, server, store, commits
        self._roster, self._door = roster, door
        self.longest = MOST_WITHDRAWALS * SECRET_BYTES

    async def take(self, body: bytes, token: bytes | None, *, through_door: bool) -> Reply:
        """Put tombstones here, and hand on what came through the own door; return what became of each withdrawal."""
        secrets = self._read(body, token)
        try:
            own: list[Status] = [STORED if one else 404 for one in await self._bury(list(secrets))]
        except TooLate:
            if not through_door:
                raise
            own = [409] * len(secrets)
        handed: list[dict[int, Status]] = [{} for _ in secrets]
        if through_door and self._door is not None:
            handed = await self._door.withdraw(secrets)
        reports = [
            {str(number): status for number, status in sorted({self._server: one, **others}.items())}
            for one, others in zip(own, handed, strict=True)
        ]
        everywhere = {status for one in reports for status in one.values()}
        if everywhere == {409}:
            raise TooLate("withdrawal: every server has announced its reports for the release; nothing was changed")
        content = {"withdrawn": own.count(STORED), "reports": reports}
        return Reply(200 if everywhere == {STORED} else 202 if through_door else 404, content)

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

    async def _bury(self, ids: Sequence[bytes]) -> list[bool]:
        found = await asyncio.to_thread(self._store.withdraw, ids)
        await asyncio.to_thread(self._commits.count_anew)
        return found


class WithdrawalOutcome(NamedTuple):
    """What became of withdrawals: how many there were, and for each server how many had each status."""

    asked: int
    servers: dict[int, dict[Status, int]]

    @property
    def lines(self) -> list[str]:
        """What each server answered, for people."""
        words: dict[Status, str] = {STORED: "withdrawn", 409: "too late", 404: "no such report"}
        return [
            f"server {number}: " + ", ".join(f"{count} {words.get(status, status)}" for status, count in one.items())
            for number, one in sorted(self.servers.items())
        ]


class _WithdrawalsAnswered(msgspec.Struct, frozen=True):
    """What a door or a server answers to withdrawals."""

    reports: list[dict[str, Status]] = []


def secrets_of(state: str | os.PathLike[str] | None, receipt: str | os.PathLike[str] | None) -> list[bytes]:
    """Return the secrets that `dpmpc submit` keeps in its state, or that are in a receipt of the form."""
    if (state is None) == (receipt is None):
        raise InputError("state, receipt: one of the two expected")
    if state is not None:
        return secrets_in(state)
    try:
        found = [bytes.fromhex(digits.decode()) for digits in _RECEIPT.findall(read_bytes(str(receipt)))]
    except (OSError, ReadError) as error:
        raise InputError(f"receipt: {receipt} cannot be read: {error}") from error
    if not found:
        raise InputError(f"receipt: {receipt} given, a line 'secret' with 64 hexadecimal digits expected")
    return found


def withdraw(
    collection: Collection,
    secrets: Sequence[bytes] = (),
    *,
    tickets: Sequence[Ticket] = (),
    door: str | None = None,
) -> WithdrawalOutcome:
    """Take reports back at every server: by secrets, at one door or all pinned ports, or by tickets of a roster.

    It is a `TooLate` if every server has announced its reports for a release, and a `PartyMissing` if one of them has
    given no answer that is final; the same may be sent again.
    """
    if collection.format == 1:
        raise InputError("withdrawal: a collection of format 1 given, whose ids come from no secrets; 2 expected")
    if collection.authenticated != bool(tickets) or bool(tickets) == bool(secrets):
        expected = "tickets" if collection.authenticated else "secrets"
        raise InputError(f"withdrawal: {len(secrets)} secrets and {len(tickets)} tickets given, {expected} expected")
    if door is not None:
        require_door(door)
        if tickets:
            raise InputError("door: given with tickets, which each server is shown alone; none expected")
    outcome = asyncio.run(_withdraw_everywhere(collection, secrets, tickets, door))
    final = {status for one in outcome.servers.values() for status in one}
    if final == {409}:
        raise TooLate("withdrawal: every server has announced its reports for the release: nothing can be taken back")
    if not final <= FINAL:
        missing = [number for number, one in outcome.servers.items() if not set(one) <= FINAL]
        at_door = "; the door has taken it and tries again" if door is not None and missing != [-1] else ""
        raise PartyMissing(f"withdrawal: no final answer of servers {missing}{at_door}; {'; '.join(outcome.lines)}")
    return outcome


async def _withdraw_everywhere(
    collection: Collection, secrets: Sequence[bytes], tickets: Sequence[Ticket], door: str | None
) -> WithdrawalOutcome:
    servers: dict[int, dict[Status, int]] = {number: {} for number in range(len(collection.servers))}

    def count(answers: Sequence[Mapping[int, Status]]) -> None:
        for one in answers:
            for number, status in one.items():
                servers[number][status] = servers[number].get(status, 0) + 1

    path = WITHDRAWALS.format(digest=collection.digest.hex())
    groups = [secrets[first : first + MOST_WITHDRAWALS] for first in range(0, len(secrets), MOST_WITHDRAWALS)]
    if door is not None:
        async with _http(True) as http:
            for group in groups:
                count(await _post(http, door.rstrip("/") + path, b"".join(group), None, {}, list(servers), len(group)))
        return WithdrawalOutcome(len(secrets), servers)
    for number, entry in enumerate(collection.servers):
        async with _http(pinning_context(entry.certificate.encode())) as http:
            url, name = entry.url + path, party_name(number)
            for group in groups:
                count(await _post(http, url, b"".join(group), name, {}, [number], len(group)))
            for ticket in tickets:
                shown = {"Authorization": f"Bearer {ticket.token(number).hex()}"}
                count(await _post(http, url, ticket.report, name, shown, [number], 1))
    return WithdrawalOutcome(len(secrets) + len(tickets), servers)


def _http(trusted: ssl.SSLContext | bool) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=1, ssl=trusted),
        timeout=aiohttp.ClientTimeout(total=ATTEMPT_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
    )


async def _post(
    http: aiohttp.ClientSession,
    url: str,
    body: bytes,
    name: str | None,
    headers: Mapping[str, str],
    servers: Sequence[int],
    withdrawals: int,
) -> list[dict[int, Status]]:
    """Send withdrawals once; return what each of some servers answered to each of them."""
    try:
        async with http.post(url, data=body, headers=headers, server_hostname=name, allow_redirects=False) as response:
            content, status = await read_beginning(response.content, _ANSWER_BYTES), response.status
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
        return [dict.fromkeys(servers, UNREACHABLE)] * withdrawals
    answered: list[dict[str, Status]] = []
    with contextlib.suppress(ReadError):  # of a refusal, or of no server: its status says enough
        answered = read_json(content, _WithdrawalsAnswered, largest=_ANSWER_BYTES).reports
    if len(answered) == withdrawals and all(str(number) in one for one in answered for number in servers):
        return [{number: _shown(one[str(number)]) for number in servers} for one in answered]
    return [dict.fromkeys(servers, UNREACHABLE if status in (200, 202) else status)] * withdrawals


def _shown(status: Status) -> Status:
    return status if isinstance(status, int) else printable(status, 40)
