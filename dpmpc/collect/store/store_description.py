"""Describe a store of reports in one row: whose it is, what was added, whether it was closed, and facts.

The row has a *seal*, a hash of all its fields, so that a field that has changed is refused. Every write to a store
reads and writes this row in one transaction that no other one passes; so the number and the checksum of the reports are
those of the blocks next to it.

`ReportDatabase` is what a store needs of a database.
"""

from __future__ import annotations

import contextlib
import json
import math
from typing import Any, NamedTuple, Protocol

from dpmpc.base.errors import SpoolError
from dpmpc.base.randomness import Label
from dpmpc.base.storage.database import CHAIN_START, link
from dpmpc.linear.encoding.ring import Ring

_VERSION = 6
_SUMS = 1 << 64
# Of a bin, if `most_stored` reports come; a batch of three servers is a twelfth of these.
KEYS = "keys"  # in place of the name of a ring: a key and two words of a share may look alike
_BIN_REPORTS, _BIN_BYTES = 1 << 20, 1 << 29
_MOST_BINS = 1 << 14
_WRITE = "UPDATE description SET closed = ?, added = ?, withdrawn = ?, checksum = ?, facts = ?, seal = ?"
_INSERT = "INSERT INTO description VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_TABLES = (
    "CREATE TABLE description (version {number}, digest TEXT, server {number}, copies {number}, width {number}, "
    "ring TEXT, bins {number}, closed {number}, added {number}, withdrawn {number}, checksum TEXT, facts TEXT, "
    "seal {bytes})",
    "CREATE TABLE ids (number {number} PRIMARY KEY, ids {bytes} NOT NULL, checksums {bytes} NOT NULL)",
    "CREATE TABLE words (number {number} PRIMARY KEY, words {bytes} NOT NULL)",
)


class UnreadableRows(Exception):
    """Rows that the database cannot read, where others may be readable; a turn that it leaves raises its `error`."""

    def __init__(self, error: Exception):
        super().__init__(error)
        self.error = error


class SqlDialect(NamedTuple):
    """How one kind of database differs from the others."""

    number: str  # type of a column of 64 bits
    bytes: str  # type of a column of bytes
    find: str  # selects number and ids of the blocks between two numbers whose ids contain 16 bytes
    advice: str  # what an operator does where it is damaged
    storage: tuple[str, ...] = ()  # statements that follow those which make the tables


class ReportDatabase(Protocol):
    """A connection to a database; threads may take turns on it."""

    place: str  # for errors
    dialect: SqlDialect

    def turn(self, *, alone: bool = False) -> contextlib.AbstractContextManager[None]:
        """Do what follows as one transaction, durably; without `alone`, read as of one moment.

        `alone` means that no other turn with it, in whatever process, passes it.
        """

    def execute(self, statement: str, *given: Any) -> list[Any]:
        """Run a statement within a turn, with a parameter for each ``?``; return the rows that it answers with."""

    def insert(self, statement: str, rows: list[tuple[Any, ...]]) -> None:
        """Run a statement within a turn once for each row of parameters."""

    def tables(self) -> set[str]:
        """Return the names of the tables."""

    def empty_log(self) -> None:
        """Remove what was overwritten from the log that this process keeps, if it keeps one; not within a turn."""

    def usable(self, least_free: int) -> bool:
        """Return whether it would keep what is committed now."""

    def close(self) -> None:
        """Close the connection."""


class StoreDescription(NamedTuple):
    """What a store states about itself as a whole."""

    version: int
    digest: str
    server: int
    copies: int
    width: int
    ring: str
    bins: int  # a power of two
    closed: int
    added: int  # copies of reports that were ever stored
    withdrawn: int  # copies whose words were overwritten
    checksum: int  # the sum of the checksums of all copies, modulo 2^64
    facts: str  # JSON: hexadecimal values by their names

    @classmethod
    def of(
        cls, digest: bytes, server: int, shape: tuple[int, int], ring: Ring, *, keys: bool, most_stored: int
    ) -> StoreDescription:
        """Return the description of a new store, from the parameters of `ReportStore`."""
        parts = max(most_stored / _BIN_REPORTS, 8 * math.prod(shape) * most_stored / _BIN_BYTES)
        bins = 1 << max(0, math.ceil(math.log2(parts)))
        own = (digest.hex(), server, *shape, KEYS if keys else ring.name, min(bins, _MOST_BINS))
        return cls(_VERSION, *own, closed=0, added=0, withdrawn=0, checksum=0, facts="{}")

    def fact(self, name: str) -> bytes | None:
        """Return what is kept under a name, or None."""
        value = json.loads(self.facts).get(name)
        return None if value is None else bytes.fromhex(value)

    def with_fact(self, name: str, value: bytes | None) -> StoreDescription:
        """Return the description with another value under a name, or without it."""
        facts = json.loads(self.facts) | ({} if value is None else {name: value.hex()})
        if value is None:
            facts.pop(name, None)
        return self._replace(facts=json.dumps(facts, sort_keys=True))

    def fits(self, checksum: int) -> bool:
        """Return whether this is the sum of the checksums of all copies."""
        return checksum % _SUMS == self.checksum

    @property
    def seal(self) -> bytes:
        """A hash of all fields, kept next to them."""
        return link(Label.SPOOL, CHAIN_START, self)


class DescriptionTable:
    """The row of a store; it is made with the other tables where there are none and `make` is true."""

    def __init__(self, database: ReportDatabase, own: StoreDescription, *, make: bool):
        self._database = database
        with database.turn(alone=make):
            tables = database.tables()
            if make and not tables:
                for statement in _TABLES:
                    database.execute(statement.format(number=database.dialect.number, bytes=database.dialect.bytes))
                for statement in database.dialect.storage:
                    database.execute(statement)
                database.insert(_INSERT, [_row(own)])
            elif not tables:
                raise SpoolError(database.place, "no reports of dpmpc in it")
            elif "description" not in tables:
                raise self._another_version("an earlier one")
            known = self.read()
        for name in ("digest", "server", "copies", "width", "ring"):
            given, expected = getattr(own, name), getattr(known, name)
            if given != expected:
                raise SpoolError(name, given, expected, condition=f"by the store {database.place}")
        self.bins = known.bins

    def read(self) -> StoreDescription:
        """Return the description, within a turn; refuse one that has changed."""
        rows = self._database.execute("SELECT * FROM description")
        if len(rows) == 1:
            version, *_, seal = rows[0]
            if isinstance(version, int) and version != _VERSION:
                raise self._another_version(version)
            with contextlib.suppress(ValueError, TypeError):
                known = StoreDescription._make(rows[0][:-1])
                known = known._replace(checksum=int(known.checksum))
                if seal == known.seal:
                    return known
        raise SpoolError(
            self._database.place, f"the store is damaged: its description changed; {self._database.dialect.advice}"
        )

    def write(self, described: StoreDescription) -> None:
        """Replace the description, within a turn that is alone."""
        *row, seal = _row(described._replace(checksum=described.checksum % _SUMS))
        self._database.execute(_WRITE, *row[7:], seal)

    def _another_version(self, version: object) -> SpoolError:
        return SpoolError(self._database.place, f"a store of version: {version}", f"{_VERSION}, that of this program")


def _row(described: StoreDescription) -> tuple[Any, ...]:
    """Return the fields as they are stored, where 64 bits without a sign are no number."""
    return (*described._replace(checksum=str(described.checksum)), described.seal)  # type: ignore[arg-type]
