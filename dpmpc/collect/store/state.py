"""How far a collection has come at one server: the one answer that door, status, page, log and commands give.

================  ================  ========================================================================
state             since             who says so
================  ================  ========================================================================
``not open yet``                    the clock
``open``          it opened         the clock
``closed``        it closed         the clock, or before it the store: `dpmpc release --close`, for good
``releasing``     it was sealed     the ledger: the servers have agreed on a batch
``released``      it was opened     the ledger
``failed``        it closed         the store: the last run of the release ended with an error; it may be repeated
``expired``       it expired        the clock; a release before that stays ``released``
================  ================  ========================================================================

Promised: `state_of` alone decides, from store, ledger and the time. A process that serves sees within
`CLOCK_SECONDS` what another process has written. Not promised: that other servers are as far; each states its own.
"""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec
from msgspec.structs import replace

from dpmpc.base.errors import CollectionClosed
from dpmpc.collect.store.ledger import LedgerEntry, ReleaseLedger
from dpmpc.collect.store.ledger import State as Progress
from dpmpc.collect.store.report_store import CLOSED_EARLY, Closing, ReportStore
from dpmpc.collect.terms.certificate import Manifest
from dpmpc.collect.terms.task_file import Collection

State = Literal["not open yet", "open", "closed", "releasing", "released", "failed", "expired"]
STATES: tuple[State, ...] = ("not open yet", "open", "closed", "releasing", "released", "failed", "expired")
RELEASE_PATH = "/v1/release"
REPORT_PATH = "/report"
CLOCK_SECONDS = 1.0  # how often a server that runs looks at clock, store and ledger
_UNITS = (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))


class CollectionState(msgspec.Struct, frozen=True, kw_only=True):
    """How far a collection has come at one server."""

    state: State
    since: str = ""  # in ISO 8601; empty before the collection opens
    early: bool = False  # whether it was closed before the time that the task file names
    over: bool = False  # whether no report is ever stored again here
    error: str = ""  # the type of the error that ended the last run of the release, if it failed
    manifest: str = ""  # digest of what was sealed, in hexadecimal digits
    clients: int = 0  # reports in it
    release: str = ""  # where this server hands out the release file; empty while there is none
    report: str = ""  # and the page of it for people, which `dpmpc release` makes of the file once it is verified

    @property
    def words(self) -> str:
        """The state for people, with what they need to know about it."""
        if self.state == "failed":
            return f"closed; the last run of its release failed ({self.error}) and may be repeated"
        if self.state == "released":
            return f"released, {self.clients:,} reports"
        return self.state + (" for good, ahead of its time" if self.early and self.state == "closed" else "")


def state_of(
    collection: Collection,
    now: datetime.datetime,
    closing: Closing | None = None,
    entry: LedgerEntry | None = None,
    *,
    release: str = "",
    report: str = "",
) -> CollectionState:
    """Return the state at a time, from what the store states of closing and the ledger of the release."""
    since = closing.since if closing is not None else ""
    early = closing is not None and (_time(since) if since else now) < collection.closes
    shown = CollectionState(
        state="open" if now >= collection.opens else "not open yet",
        since=collection.opens.isoformat() if now >= collection.opens else "",
        early=early,
        over=closing is not None or now >= collection.expires,
        manifest="" if entry is None else entry.manifest_digest.hex(),
        clients=0 if entry is None else Manifest.from_json(entry.manifest).clients,
    )
    if closing is None and entry is None and now < collection.closes:  # each upload asks
        return shown
    closed = since if early else collection.closes.isoformat()
    if entry is not None and entry.state is Progress.OPENED:
        return replace(shown, state="released", since=entry.since, release=release, report=report)
    if now >= collection.expires:
        return replace(shown, state="expired", since=collection.expires.isoformat())
    if closing is not None and closing.failed:
        return replace(shown, state="failed", since=closed, error=closing.failed)
    if entry is not None:
        return replace(shown, state="releasing", since=entry.since)
    if closing is not None or now >= collection.closes:  # for good, even if the clock is put back
        return replace(shown, state="closed", since=closed)
    return shown


def report_beside(released: Path) -> Path:
    """Return where the page of a release is, next to the file that a server hands out."""
    return released.with_suffix(".html")


def require_open(collection: Collection, state: CollectionState, now: datetime.datetime) -> None:
    """Refuse a report that comes too early or too late."""
    if state.state == "open" and not state.early:  # each upload asks
        return
    it_is = f"it is {now.isoformat(timespec='seconds')} here"
    if state.state == "not open yet":
        raise CollectionClosed(
            f"collection {collection.name!r}",
            f"too early: it opens at {collection.opens.isoformat()}, in {in_words(collection.opens - now)}; "
            f"{it_is}. Nothing was stored; send it again then",
        )
    if state.early:
        raise CollectionClosed(CLOSED_EARLY)
    if state.state != "open":
        raise CollectionClosed(
            f"collection {collection.name!r}",
            f"too late: it closed at {collection.closes.isoformat()}, {in_words(now - collection.closes)} "
            f"ago; {it_is}. Nothing was stored, and no more reports are taken",
        )


class StateReader:
    """What a process reads of store and ledger, and the state that follows at any time."""

    def __init__(
        self,
        collection: Collection,
        store: ReportStore,
        ledger: ReleaseLedger | None = None,
        released: Path | None = None,  # where a release puts its file
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ):
        self.collection, self.now = collection, now
        self._store, self._ledger, self._released = store, ledger, released
        self._entry: tuple[int, LedgerEntry | None] = (-1, None)  # and the version of the ledger that it was read from
        self._turn = threading.Lock()
        self._read: tuple[Closing | None, LedgerEntry | None, str, str] = (None, None, "", "")
        self.read()

    def read(self) -> CollectionState:
        """Read store and ledger anew, which takes the disk; what was read before stays where that fails."""
        with self._turn:
            if self._ledger is not None and self._entry[0] != (version := self._ledger.version()):
                self._entry = version, self._ledger.latest(self.collection.digest)
            there = self._released is not None and self._released.exists()
            page = self._released is not None and there and report_beside(self._released).exists()
            places = RELEASE_PATH if there else "", REPORT_PATH if page else ""
            self._read = self._store.closing, self._entry[1], *places
        return self.state

    @property
    def state(self) -> CollectionState:
        """The state now, by what was read last."""
        closing, entry, release, report = self._read
        return state_of(self.collection, self.now(), closing, entry, release=release, report=report)


def in_words(duration: datetime.timedelta) -> str:
    """Return a duration in its largest whole unit, such as "3 hours"; less than a second is "a moment"."""
    seconds = abs(duration.total_seconds())
    for name, length in _UNITS:
        if seconds >= length:
            count = int(seconds // length)
            return f"{count:,} {name}{'s' if count > 1 else ''}"
    return "a moment"


def _time(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)
