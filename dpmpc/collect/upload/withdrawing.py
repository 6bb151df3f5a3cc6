"""Take reports back at the servers of a collection, and state what is known of them then.

Before anything is sent, the file that states whose the reports are must be of this collection, and each secret the one
of its id. Each server is asked for itself, and the answers are judged by `withdrawal_verdict`.

Promised: `withdraw` returns only if enough servers have confirmed each withdrawal, and states which; everything else is
an error with its remedy. What a server answers is bounded, checked, and printed with control characters escaped. Not
promised: that a server which confirmed it is honest; or anything of a report that was sent under another id.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import re
import ssl
from collections.abc import Sequence
from typing import NamedTuple

import aiohttp
import msgspec

from dpmpc.base.errors import InputError, NotConfirmed, ProtocolFailure, TooLate
from dpmpc.base.untrusted import ReadError, printable, read_beginning, read_bytes, read_json
from dpmpc.collect.terms.endpoints import MOST_WITHDRAWALS, WITHDRAWALS
from dpmpc.collect.terms.task_file import Collection
from dpmpc.collect.terms.withdrawal_verdict import WITHDRAWN, Fate, Verdict, fewest_confirming, verdict
from dpmpc.collect.upload.added_keys import AddedKey
from dpmpc.collect.upload.pending import secrets_in
from dpmpc.collect.upload.roster import Ticket
from dpmpc.collect.upload.sealing import SealedWithdrawals, report_id
from dpmpc.collect.upload.uploader import ATTEMPT_SECONDS, keys_at, require_door

_ANSWER_BYTES = 1 << 14
_RECEIPT = re.compile(rb"^(digest|report|secret) ([0-9a-f]+)\r?$", re.MULTILINE)
_LENGTHS = {b"digest": 32, b"report": 16, b"secret": 32}
_NO_ANSWER = "no answer"
_UNNAMED = -1  # a door that has not said which server's it is, and so has confirmed nothing


class _Said(msgspec.Struct, frozen=True):
    """What a server answers to withdrawals, of itself."""

    server: int
    reports: list[Fate]


class _Refused(msgspec.Struct, frozen=True):
    """What it answers instead of that."""

    error: str


class TakenBack(NamedTuple):
    """What became of withdrawals: for each report what each server stated, and what that amounts to."""

    servers: int
    needed: int
    reports: list[dict[int, str]]  # by the number of the server, or `_UNNAMED`
    door: str | None = None  # where alone was asked
    proxies: str = ""  # `Collection.proxies`, where every server was asked

    @property
    def verdicts(self) -> list[Verdict]:
        """What is known of each report."""
        return [verdict(self.servers, self.needed, answers.values()) for answers in self.reports]

    @property
    def lines(self) -> list[str]:
        """What each server that was asked answered, for people."""
        if self.door is None:
            return [f"server {server}: {self._words(server)}" for server in range(self.servers)]
        (server,) = self.reports[0]
        named = "" if server == _UNNAMED else f", as server {server}"
        return [f"{self.door}{named}: {self._words(server)}"]

    @property
    def sentences(self) -> list[str]:
        """What is true of the reports that are withdrawn, and on whose word."""
        groups = collections.Counter(
            tuple(server for server, word in sorted(answers.items()) if word in WITHDRAWN)
            for answers, known in zip(self.reports, self.verdicts, strict=True)
            if known is Verdict.WITHDRAWN
        )
        return [
            f"{_reports(count)}: in no release, if {self._honest(by)}{self.proxies}"
            for by, count in sorted(groups.items())
        ]

    def _words(self, server: int) -> str:
        said = collections.Counter(answers.get(server, _NO_ANSWER) for answers in self.reports)
        return ", ".join(f"{count} {word}" for word, count in sorted(said.items()))

    def _honest(self, by: tuple[int, ...]) -> str:
        verb = "is" if self.needed == 1 else "are"
        if self.door is not None:
            return f"server {by[0]} answers at {self.door} and {verb} honest"
        named = f"server{'' if len(by) == 1 else 's'} {', '.join(map(str, by))}"
        few = "" if len(by) == self.needed else "one of " if self.needed == 1 else f"{self.needed} of "
        return f"{few}{named} {verb} honest"


def _reports(count: int) -> str:
    return f"{count} report{'' if count == 1 else 's'}"


def secrets_of(
    collection: Collection,
    *,
    state: str | os.PathLike[str] | None = None,
    receipt: str | os.PathLike[str] | None = None,
) -> list[bytes]:
    """Return the secrets that `dpmpc submit` keeps in its state, or the one that is in a receipt of the form.

    It is an `InputError` if the file is of another collection, or a secret is not the one of its report's id.
    """
    if (state is None) == (receipt is None):
        raise InputError("state, receipt", "one of the two expected")
    if state is not None:
        return secrets_in(state, collection)
    try:
        found = _RECEIPT.findall(read_bytes(str(receipt)))
        told = {name: bytes.fromhex(digits.decode()) for name, digits in found}
    except (OSError, ReadError, ValueError) as error:
        raise InputError("receipt", f"{receipt} cannot be read: {error}") from error
    if len(found) != len(_LENGTHS) or {name: len(content) for name, content in told.items()} != _LENGTHS:
        raise InputError(
            "receipt",
            f"{receipt} given, the lines 'digest', 'report' and 'secret' of a receipt expected, each once "
            "with its hexadecimal digits",
        )
    if told[b"digest"] != collection.digest:
        raise InputError(
            "receipt", f"{receipt} is of collection {told[b'digest'].hex()}, {collection.digest.hex()} expected"
        )
    if report_id(collection.digest, told[b"secret"]) != told[b"report"]:
        raise InputError(
            "receipt",
            f"{receipt}: a secret that is not of report {told[b'report'].hex()}",
            "the receipt as the form saved it",
            "one of its digits has changed",
        )
    return [told[b"secret"]]


def withdraw(
    collection: Collection,
    secrets: Sequence[bytes] = (),
    *,
    tickets: Sequence[Ticket] = (),
    door: str | None = None,
) -> TakenBack:
    """Take reports back, by secrets or by tickets of a roster, at every server's web endpoint or at one door.

    The same may be sent again. A door hands withdrawals on to the other servers, and answers for its own alone.

    It is a `TooLate` if so many servers have announced a report for a release that the others cannot keep it out, an
    `InputError` if all servers state that a report has never come, and a `NotConfirmed` if fewer servers than are
    needed have confirmed that a report is withdrawn.
    """
    if collection.authenticated != bool(tickets) or bool(tickets) == bool(secrets):
        expected = "tickets" if collection.authenticated else "secrets"
        raise InputError("withdrawal", f"{len(secrets)} secrets and {len(tickets)} tickets", expected)
    if door is not None:
        require_door(door)
    said = asyncio.run(_ask_servers(collection, secrets, tickets, door))
    servers = len(collection.servers)
    found = TakenBack(
        servers,
        fewest_confirming(collection),
        [{server: words[place] for server, words in said.items()} for place in range(len(secrets) + len(tickets))],
        door,
        collection.proxies if door is None else "",
    )
    _require_withdrawn(found)
    return found


def _require_withdrawn(found: TakenBack) -> None:
    counts = collections.Counter(known for known in found.verdicts if known is not Verdict.WITHDRAWN)
    if not counts:
        return
    others = ", ".join(f"{_reports(count)} {word}" for word, count in counts.items())
    told = "; ".join([others, *found.sentences, *found.lines])
    if Verdict.LATE in counts:
        raise TooLate(
            "withdrawal", f"{told}. What is announced for a release cannot be taken back; repeat should it fail"
        )
    if Verdict.UNCONFIRMED in counts:
        whom = "without a door, so that every server is asked for itself, and " if found.door else ""
        raise NotConfirmed(
            f"withdrawal: {told}. {found.needed} of {found.servers} servers have to confirm each: repeat the command "
            f"{whom}when they answer, until the release"
        )
    raise InputError(
        "withdrawal",
        f"{told}. What never came was not withdrawn. A server that has room for such ids refuses it if it "
        "comes later; otherwise the secret or ticket of a report of this collection expected",
    )


class _Sent(NamedTuple):
    """Withdrawals that are sent together."""

    body: bytes
    reports: int


async def _ask_servers(
    collection: Collection, secrets: Sequence[bytes], tickets: Sequence[Ticket], door: str | None
) -> dict[int, list[str]]:
    """Return what each server that was asked states of each report."""
    path = WITHDRAWALS.format(digest=collection.digest.hex())
    groups = [secrets[first : first + MOST_WITHDRAWALS] for first in range(0, len(secrets), MOST_WITHDRAWALS)]
    requests = [_Sent(b"".join(group), len(group)) for group in groups]
    if tickets:
        added: tuple[AddedKey, ...] = ()
        with contextlib.suppress(ProtocolFailure):  # then to the older keys, which servers keep unless one has leaked
            added = await keys_at(collection, door, ATTEMPT_SECONDS)
        form = SealedWithdrawals(collection, added)
        requests = [_Sent(form.seal(ticket), 1) for ticket in tickets]
    if door is not None:
        named, words = await _ask(door.rstrip("/") + path, True, None, range(len(collection.servers)), requests)
        return {named[0] if len(named) == 1 else _UNNAMED: words}
    jobs = []
    for number, entry in enumerate(collection.servers):
        trusted, hostname = entry.trusted_by_clients(number)
        jobs.append(_ask(entry.url + path, trusted, hostname, [number], requests))
    return {number: words for number, (_, words) in enumerate(await asyncio.gather(*jobs))}


async def _ask(
    url: str, trusted: ssl.SSLContext | bool, hostname: str | None, servers: Sequence[int], requests: Sequence[_Sent]
) -> tuple[Sequence[int], list[str]]:
    """Return which of some servers answers at an address, and its words; who gave no answer once is asked no more.

    Once it has named itself it is that one alone.
    """
    words: list[str] = []
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=1, ssl=trusted),
        timeout=aiohttp.ClientTimeout(total=ATTEMPT_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
    ) as http:
        for request in requests:
            if _NO_ANSWER in words:
                words += [_NO_ANSWER] * request.reports
                continue
            try:
                async with http.post(
                    url, data=request.body, server_hostname=hostname, allow_redirects=False
                ) as response:
                    content, status = await read_beginning(response.content, _ANSWER_BYTES), response.status
            except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
                words += [_NO_ANSWER] * request.reports
                continue
            said = _read(content)
            if isinstance(said, _Said) and said.server in servers and len(said.reports) == request.reports:
                servers = [said.server]
                words += said.reports
            else:
                cause = f" {printable(said.error, 40)}" if isinstance(said, _Refused) else ""
                words += [f"refused ({status}{cause})"] * request.reports
    return servers, words


def _read(content: bytes) -> _Said | _Refused | None:
    """Read what a server answered: words, the name of a refusal, or neither."""
    with contextlib.suppress(ReadError):
        return read_json(content, _Said, largest=_ANSWER_BYTES)
    with contextlib.suppress(ReadError):
        return read_json(content, _Refused, largest=_ANSWER_BYTES)
    return None
