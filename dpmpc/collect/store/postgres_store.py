"""Store reports in a PostgreSQL database, for several worker processes of one server.

The database holds this server's shares: it is part of the server, in its trust, and in nobody else's. The ledger, keys
and seeds stay in the server's folder, where no failover puts them back.

==========================  ==========================================================================================
table of schema ``dpmpc``   holds
==========================  ==========================================================================================
``standing``                one row: whose store this is, whether it was closed, and facts; sealed by a hash of itself
``reports``                 id, words as they were sent, checksum of both; one that was withdrawn has no words
``workers``                 for each worker how many reports it added and withdrew, a sum of their checksums, and how
                            much room of `most_stored` it has leased
==========================  ==========================================================================================

How workers keep out of each other's way:

- An id is the primary key. Ids are inserted in ascending order and without repetitions, so that no two groups wait for
  each other; a group that meets an id which another one has just stored begins again, and compares checksums.
- Each transaction that adds or withdraws holds an advisory lock *shared*, and reads the standing after it. Whoever
  changes the standing holds it alone: the queue for it is fair, as that for a row is not. So who began before is in,
  and nobody after.
- Withdrawals and leases take turns by a second advisory lock. A withdrawal changes rows that are there, and inserts
  none.
- The sum of checksums does not depend on the order, and each worker has a row of its own: no group waits for another.

Promised, beside what every `ReportStore` does: a database that does not sync its log before a commit returns, that
writes pages which a crash can tear, that is a copy of another one or is reached over a network without a verified
certificate is refused, and so are tables that a crash empties, that are of another role or that all roles may read; a
worker that was killed leaves nothing behind but the reports that it acknowledged, and those whose acknowledgement was
on its way. Not promised: anything about a database that was put back to an older state, or that failed over to a copy
which lacked what was acknowledged: those reports are lacking at this server, and are left out of the batch. A setting
that is changed under a running worker is noticed by `usable` alone. Words that were withdrawn are in dead rows and in
the log of the database until it overwrites them.
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import json
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmpc.base.arguments import require_whole
from dpmpc.base.arrays import Bytes, Words
from dpmpc.base.errors import CollectionClosed, InputError, ReportConflict, SpoolError
from dpmpc.base.randomness import Label
from dpmpc.base.storage.database import CHAIN_START, link
from dpmpc.collect.store.report_store import (
    CHECKSUM_BYTES,
    CLOSED_EARLY,
    MOST_REPORTS,
    TOMBSTONE,
    Added,
    Intact,
    ReportStore,
    Tally,
    Upload,
    checksums,
)
from dpmpc.collect.upload.report_ids import ID_BYTES, ID_TYPE, as_bytes, as_strings, found_in, sorted_ids, split
from dpmpc.linear.encoding.ring import Ring
from dpmpc.linear.sharing.batch import Share

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
except ImportError as error:
    raise InputError(
        "store", "a PostgreSQL database needs psycopg: pip install '.[postgres]' in the source folder of dpmpc"
    ) from error

OTHERS = -1  # the row of `workers` for processes that are none
PATIENCE_SECONDS = 60
_VERSION = 3
_OLDEST_SERVER = 15
_LOCKS = 0x64706D63  # the first number of all advisory locks of a store
_STANDING_LOCK, _COUNT_LOCK, _FIRST_WORKER_LOCK = 1, 2, 16
_LEASE = 1000
_SUMS = 1 << 62
_BLOCK_BYTES = 1 << 24  # of words that are in memory while they are read
_MOST_AT_ONCE = 1 << 14  # rows that are read or compared at once
_TABLES = (
    "CREATE SCHEMA IF NOT EXISTS dpmpc",
    "CREATE TABLE IF NOT EXISTS dpmpc.standing (one boolean PRIMARY KEY DEFAULT true CHECK (one), version integer NOT "
    "NULL, digest text NOT NULL, server integer NOT NULL, copies integer NOT NULL, width integer NOT NULL, ring text "
    "NOT NULL, closed integer NOT NULL, facts text NOT NULL, seal bytea NOT NULL)",
    "CREATE TABLE IF NOT EXISTS dpmpc.reports (id bytea PRIMARY KEY, words bytea, checksum bytea NOT NULL)",
    "ALTER TABLE dpmpc.reports ALTER COLUMN words SET STORAGE EXTERNAL",  # they look random: nothing to compress
    "CREATE TABLE IF NOT EXISTS dpmpc.workers (worker integer PRIMARY KEY, added bigint NOT NULL DEFAULT 0, withdrawn "
    "bigint NOT NULL DEFAULT 0, checksum bigint NOT NULL DEFAULT 0, leased bigint NOT NULL DEFAULT 0)",
)
_FOREIGN = (  # tables that a crash empties, or that others than the server's role read or change
    "SELECT relname::text FROM pg_class WHERE relnamespace = 'dpmpc'::regnamespace AND relkind IN ('r', 'p', 'v', 'f') "
    "AND (relpersistence <> 'p' OR relkind <> 'r' OR pg_get_userbyid(relowner) <> current_user "
    "OR EXISTS (SELECT FROM aclexplode(relacl) AS given WHERE given.grantee = 0))"
)
_SETTINGS = {
    "fsync": ("on",),
    "full_page_writes": ("on",),
    "synchronous_commit": ("on", "remote_apply"),
    "default_transaction_isolation": ("read committed",),
    "default_transaction_read_only": ("off",),
}
_INSERT = (
    "INSERT INTO dpmpc.reports (id, words, checksum) SELECT * FROM unnest(%b::bytea[], %b::bytea[], %b::bytea[]) "
    "ON CONFLICT (id) DO NOTHING"
)
_COUNT = (
    "UPDATE dpmpc.workers SET added = added + %b, withdrawn = withdrawn + %b, checksum = (checksum + %b) %% %b "
    "WHERE worker = %b"
)
_GONE_SECONDS = 5.0  # until the database notices that a worker was killed


class StoreDescription(NamedTuple):
    """What a database says about the store as a whole."""

    version: int
    digest: str
    server: int
    copies: int
    width: int
    ring: str
    closed: int
    facts: str  # JSON: hexadecimal values by their names

    @property
    def seal(self) -> bytes:
        """A hash of all fields, kept beside them."""
        return link(Label.SPOOL, CHAIN_START, self)


class _BeginAgain(Exception):
    """Another worker has stored an id meanwhile."""


class PostgresStore(ReportStore):
    """The reports of one collection at one server, in the database of an address such as ``postgresql:///NAME``.

    Whoever adds to it is one of several workers, by its number. The other arguments are those of every store.
    """

    def __init__(
        self,
        address: str,
        digest: bytes,
        server: int,
        shape: tuple[int, int],
        ring: Ring | type[Ring] | str = "ring64",
        *,
        ledger: Path,
        keys: bool = False,
        writer: bool = True,
        most_stored: int = MOST_REPORTS,
        worker: int = 0,
        workers: int = 1,
    ):
        self._address = require_address(address)
        super().__init__(digest, server, shape, ring, ledger=ledger, keys=keys, writer=writer, most_stored=most_stored)
        self.workers = require_whole("workers", workers, 1)
        self._worker = require_whole("worker", worker, 0, workers - 1) if writer else OTHERS
        self._connection: Any = None
        self._ended = False
        self._left: tuple[int, int] | None = None  # what is left of this worker's lease, and its part of what is free
        try:
            self._tombstones.require_at_least(self.tally().withdrawn, self._address)  # connects
            if writer:  # after a crash, or in a database that was put back
                self._overwrite(split(self._tombstones.ids(came=True)))
        except BaseException:
            self.close()
            raise

    def add_all(self, uploads: Sequence[Upload]) -> list[Added | ReportConflict]:
        """Do as `ReportStore.add_all` says."""
        incoming = self._incoming(uploads)
        while True:
            try:
                with self._transaction("shared"):
                    if self._is_closed():
                        raise CollectionClosed(CLOSED_EARLY)
                    tombstones = dict.fromkeys(self._tombstones.among(incoming.ids), TOMBSTONE)
                    outcomes, new = incoming.settle(self._stored(incoming.ids) | tombstones)
                    if new:
                        ids = sorted(new)
                        words = [incoming.words[new[report][1]].tobytes() for report in ids]
                        self._insert(ids, words, [new[report][0] for report in ids])
                        self._count(added=len(new), sums=[checksum for checksum, _ in new.values()])
                break
            except _BeginAgain:
                continue
        with self._turns:
            if self._left is not None:
                self._left = self._left[0] - len(new), self._left[1]
        return outcomes

    def room(self, new: int) -> int:
        """Return what is leased, and where that is enough this worker's part of what is free, too."""
        with self._turns:
            if self._left is None or self._left[0] < new:
                with self._transaction("none"):
                    self._lock(_COUNT_LOCK)
                    free = self._most_stored - self._leased()
                    ((leased, used),) = self._execute(
                        "SELECT leased, added FROM dpmpc.workers WHERE worker = %b", self._worker
                    )
                    most = max(new - (leased - used), min(_LEASE, free // (4 * self.workers)))
                    more = max(0, min(free, most)) if new > leased - used else 0
                    self._execute("UPDATE dpmpc.workers SET leased = leased + %b WHERE worker = %b", more, self._worker)
                self._left = leased - used + more, (free - more) // self.workers
            left, others = self._left
            return left + others if left >= new else left

    def count_stored(self, ids: Sequence[bytes]) -> int:
        """Do as `ReportStore.count_stored` says."""
        here = self._checksums(ids).keys() | self._tombstones.among(ids)
        return sum(report in here for report in ids)

    def tally(self) -> Tally:
        """Do as `ReportStore.tally` says."""
        with self._transaction("none"):
            return self._tally()

    def ids(self) -> Bytes:
        """Do as `ReportStore.ids` says."""
        with self._transaction("none"):
            found = self._execute("SELECT id FROM dpmpc.reports WHERE words IS NOT NULL")
        ids = np.sort(np.frombuffer(b"".join(report for (report,) in found), ID_TYPE))
        return as_bytes(ids[~found_in(self._tombstones.ids(), ids)])

    def intact(self) -> Intact:
        """Do as `ReportStore.intact` says."""
        good: list[bytes] = []
        total = rows = damaged = 0
        with self._transaction("none"):
            self._execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")  # as of one moment, without any lock
            tally, expected = self._tally(), self._sum()
            with self._connection.cursor("reports", binary=True) as cursor:
                cursor.execute("SELECT id, words, checksum FROM dpmpc.reports")  # the table, not the index of its ids
                while block := cursor.fetchmany(self._block_rows):
                    fits = self._compare(block)
                    good += [row[0] for row, fit in zip(block, fits, strict=True) if fit and row[1] is not None]
                    damaged += fits.count(False)
                    rows += len(block)
                    total += sum(int.from_bytes(checksum, "little") for _, _, checksum in block)
        lost = sum(tally) - rows
        if lost < 0 or (lost == damaged == 0 and total % _SUMS != expected) or len(good) > tally.reports:
            raise SpoolError(
                self._address,
                f"the store is damaged: its {rows} reports and tombstones are not the {sum(tally)} that "
                "were added; nothing was sent. Put the database back from a copy, an older one will do "
                "(reports that came since are then left out), or release without this server where the "
                "shares allow it (docs/deploy.md)",
            )
        ids = np.unique(np.frombuffer(b"".join(good), ID_TYPE))
        gone = found_in(self._tombstones.ids(), ids)  # with words, in a database that was put back
        return Intact(as_bytes(ids[~gone]), lost + damaged, tally.withdrawn + int(gone.sum()))

    def _compare(self, rows: Sequence[tuple[bytes, bytes | None, bytes]]) -> list[bool]:
        """Return which rows are as they were added, or buried."""
        size = 8 * math.prod(self.shape)
        fits = [len(report) == ID_BYTES and (words is None or len(words) == size) for report, words, _ in rows]
        whole = [index for index, fit in enumerate(fits) if fit and rows[index][1] is not None]
        ids, block = self._words([rows[index] for index in whole])
        for index, found in zip(whole, split(checksums(ids, block)), strict=True):
            fits[index] = found == rows[index][2]
        for index, (report, words, checksum) in enumerate(rows):
            if fits[index] and words is None:
                fits[index] = checksum == _buried(report)
        return fits

    def _words(self, rows: Sequence[tuple[bytes, Any, bytes]]) -> tuple[NDArray[np.bytes_], Words]:
        ids = np.frombuffer(b"".join(report for report, _, _ in rows), ID_TYPE)
        words = np.frombuffer(b"".join(words for _, words, _ in rows), np.uint64).reshape(len(rows), *self.shape)
        return ids, words

    def share(self, ids: Bytes) -> Share:
        """Do as `ReportStore.share` says."""
        batch = sorted_ids(ids)
        missing = int((~found_in(as_strings(self.ids()), batch)).sum())
        if missing:
            raise InputError("ids", f"{missing} of {len(batch)} are not in the store {self._address}")
        return PostgresShare(self, batch)

    def block(self, ids: NDArray[np.bytes_]) -> Words:
        """Return the words of some reports in the order of their ids, or refuse any that are not as they were added."""
        with self._transaction("none"):
            rows = self._execute(
                "SELECT id, words, checksum FROM dpmpc.reports WHERE id = ANY(%b::bytea[]) AND words IS NOT NULL "
                "ORDER BY id",
                split(ids),
            )
        if [report for report, _, _ in rows] != split(ids) or not all(self._compare(rows)):
            raise SpoolError(
                self._address,
                "reports of the batch are not as they were added; the next run finds and leaves out those "
                "that are damaged, unless other servers have begun to open this batch",
            )
        return self._words(rows)[1]

    @property
    def _block_rows(self) -> int:
        return max(1, min(_MOST_AT_ONCE, _BLOCK_BYTES // (8 * math.prod(self.shape))))

    def usable(self, least_free: int) -> bool:
        """Say whether the database answers; how full its disk is only its operator can see."""
        try:
            with self._transaction("none"):
                self._require_durable()  # a setting may have changed under the connection
                self._description()
        except SpoolError:
            return False
        return True

    def close(self) -> None:
        """Close the connection, so that another process may be this worker."""
        with self._turns:
            self._ended = True
            self._disconnect()
            self._tombstones.close()

    def _turn(self, *, alone: bool) -> contextlib.AbstractContextManager[object]:
        """Do as `ReportStore._turn` says."""
        return self._transaction("alone" if alone else "none")

    def _is_closed(self) -> bool:
        return bool(self._description().closed)

    def _refuse_reports(self) -> None:
        self._describe(self._description()._replace(closed=1))

    def _get(self, name: str) -> bytes | None:
        value = json.loads(self._description().facts).get(name)
        return None if value is None else bytes.fromhex(value)

    def _put(self, name: str, value: bytes) -> None:
        self._replace_facts(lambda facts: facts | {name: value.hex()})

    def _forget(self, name: str) -> None:
        self._replace_facts(lambda facts: {key: value for key, value in facts.items() if key != name})

    def _replace_facts(self, change: Any) -> None:
        described = self._description()
        self._describe(described._replace(facts=json.dumps(change(json.loads(described.facts)), sort_keys=True)))

    @contextlib.contextmanager
    def _transaction(self, lock: Literal["none", "shared", "alone"]) -> Iterator[None]:
        """Commit all of the body or nothing, on a connection that is made anew where the last one broke."""
        with self._turns, self._typed_errors():
            if self._ended:
                raise SpoolError(self._address, "the store is closed")
            if self._connection is None or self._connection.closed:
                self._connect()
            try:
                with self._connection.transaction():
                    if lock != "none":
                        self._lock(_STANDING_LOCK, shared=lock == "shared")
                    yield
            except BaseException:
                self._left = None  # whatever became of the commit
                raise

    @contextlib.contextmanager
    def _typed_errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            told = str(error).strip().partition("\n")[0] or type(error).__name__
            raise SpoolError(self._address, told) from error

    def _execute(self, statement: str, *given: Any) -> list[Any]:
        """Run a statement; return the rows that it answers with."""
        cursor = self._connection.cursor(binary=True)
        cursor.execute(statement, given or None)
        return list(cursor.fetchall()) if cursor.description else []

    def _lock(self, which: int, *, shared: bool = False) -> None:
        """Hold an advisory lock until the transaction ends; what is read after it was committed before it."""
        self._execute(f"SELECT pg_advisory_xact_lock{'_shared' if shared else ''}({_LOCKS}, {which})")

    def _connect(self) -> None:
        self._disconnect()
        self._connection = psycopg.connect(
            self._address,
            autocommit=True,
            connect_timeout=PATIENCE_SECONDS,
            application_name="dpmpc",
            client_encoding="UTF8",  # in a database of encoding SQL_ASCII texts would come as bytes
        )
        try:
            self._require_durable()
            for name in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"):
                self._execute(f"SET {name} = '{PATIENCE_SECONDS}s'")
            if self._writer:
                self._make_tables()
            self._require_own()
            if self._writer:
                self._begin_as_worker()
        except BaseException:
            self._disconnect()
            raise

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _require_durable(self) -> None:
        """Refuse a database that can lose what it has committed, or lets others read on the way to it."""
        info = self._connection.info
        if info.server_version // 10000 < _OLDEST_SERVER:
            raise SpoolError(
                "store",
                f"PostgreSQL {info.server_version // 10000} at {self._address}, {_OLDEST_SERVER} or later expected",
            )
        for name, expected in _SETTINGS.items():
            ((found,),) = self._execute("SELECT current_setting(%b)", name)
            if found not in expected:
                raise SpoolError(
                    "store",
                    f"{name} = {found} in the database {self._address}, {' or '.join(expected)} expected: "
                    "what is acknowledged has to be there after a crash",
                )
        if self._execute("SELECT pg_is_in_recovery()") != [(False,)]:
            raise SpoolError("store", f"{self._address} is a copy of another database, the first one expected")
        if not _is_near(info.host, info.hostaddr) and not (
            self._connection.pgconn.ssl_in_use and info.get_parameters().get("sslmode") == "verify-full"
        ):
            raise SpoolError(
                "store",
                f"{self._address} is on another machine without sslmode=verify-full: shares of reports may "
                "not cross a network in the open",
            )

    def _make_tables(self) -> None:
        """Make what is missing; a worker that begins anew changes no table, which would wait for all who read it."""
        with self._connection.transaction():
            self._lock(_STANDING_LOCK)
            if not self._has_tables():
                for statement in _TABLES:
                    self._execute(statement)
            if not self._execute("SELECT one FROM dpmpc.standing"):
                empty = StoreDescription(_VERSION, **self._own, closed=0, facts="{}")
                self._execute(
                    "INSERT INTO dpmpc.standing (version, digest, server, copies, width, ring, closed, facts, seal) "
                    "VALUES (%b, %b, %b, %b, %b, %b, %b, %b, %b)",
                    *(*empty, empty.seal),
                )

    def _begin_as_worker(self) -> None:
        """Take the place of this worker once the process that had it before is gone."""
        with self._connection.transaction():
            for worker in (OTHERS, self._worker):
                self._execute("INSERT INTO dpmpc.workers (worker) VALUES (%b) ON CONFLICT DO NOTHING", worker)
        end = time.monotonic() + _GONE_SECONDS
        while not self._try_worker(self._worker):
            if time.monotonic() > end:
                raise SpoolError("store", f"another process is worker {self._worker} of {self._address}, one expected")
            time.sleep(0.02)
        self._take_leases_back()

    def _try_worker(self, worker: int) -> bool:
        lock = f"{_LOCKS}, {_FIRST_WORKER_LOCK + worker}"
        return bool(self._execute(f"SELECT pg_try_advisory_lock({lock})")[0][0])

    def _take_leases_back(self) -> None:
        """Give back the room that this worker, and those that are gone, had leased and not used."""
        back = [self._worker]
        gone = [worker for (worker,) in self._execute("SELECT worker FROM dpmpc.workers") if worker >= 0]
        for worker in gone:
            if worker != self._worker and self._try_worker(worker):
                back.append(worker)
        with self._connection.transaction():
            self._lock(_COUNT_LOCK)
            self._execute("UPDATE dpmpc.workers SET leased = added WHERE worker = ANY(%b::integer[])", back)
        for worker in back[1:]:
            self._execute(f"SELECT pg_advisory_unlock({_LOCKS}, {_FIRST_WORKER_LOCK + worker})")

    def _require_own(self) -> None:
        """Refuse a store of anything but what the caller expects."""
        if not self._has_tables():
            raise SpoolError("store", f"no reports of dpmpc in the database {self._address}")
        if changed := self._execute(_FOREIGN):
            tables = ", ".join(sorted(name for (name,) in changed))
            raise SpoolError(
                "store",
                f"{tables} in schema dpmpc of {self._address} unlogged, owned by another role or open to "
                "PUBLIC; tables expected that survive a crash, and that are this role's alone",
            )
        found = self._description()
        for name, value in self._own.items():
            expected = getattr(found, name)
            if value != expected:
                raise SpoolError(name, value, expected, condition=f"by the store {self._address}")

    def _has_tables(self) -> bool:
        return bool(self._execute("SELECT to_regclass('dpmpc.workers') IS NOT NULL")[0][0])

    def _description(self) -> StoreDescription:
        """Return what the database says about the store; refuse one that has changed."""
        rows = self._execute(
            "SELECT version, digest, server, copies, width, ring, closed, facts, seal FROM dpmpc.standing"
        )
        found = StoreDescription._make(rows[0][:-1]) if len(rows) == 1 else None
        if found is None or rows[0][-1] != found.seal:
            raise SpoolError(self._address, "the store is damaged: its description changed; nothing was sent")
        if found.version != _VERSION:
            raise SpoolError(
                "store", f"{self._address} holds no store of this version ({found.version}, {_VERSION} expected)"
            )
        return found

    def _describe(self, described: StoreDescription) -> None:
        """Write what may change of a description."""
        self._execute(
            "UPDATE dpmpc.standing SET closed = %b, facts = %b, seal = %b",
            described.closed,
            described.facts,
            described.seal,
        )

    def _checksums(self, ids: Sequence[bytes]) -> dict[bytes, bytes]:
        with self._transaction("none"):
            return self._stored(ids)

    def _stored(self, ids: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the checksums of those of some ids that are here, or `TOMBSTONE` where the words are gone."""
        rows = self._execute(
            "SELECT id, checksum, words IS NULL FROM dpmpc.reports WHERE id = ANY(%b::bytea[])", list(ids)
        )
        return {report: TOMBSTONE if gone else checksum for report, checksum, gone in rows}

    def _overwrite(self, ids: Sequence[bytes]) -> None:
        with self._transaction("shared"):
            self._lock(_COUNT_LOCK)
            known = self._stored(ids)
            here = sorted(report for report, checksum in known.items() if checksum != TOMBSTONE)
            buried = [_buried(report) for report in here]
            self._execute(
                "UPDATE dpmpc.reports SET words = NULL, checksum = given.checksum FROM unnest(%b::bytea[], "
                "%b::bytea[]) AS given (id, checksum) WHERE reports.id = given.id",
                here,
                buried,
            )
            self._count(withdrawn=len(here), sums=buried, gone=[known[report] for report in here])

    def _insert(self, ids: Sequence[bytes], words: Sequence[bytes], sums: Sequence[bytes]) -> None:
        """Write rows that ascend by their ids; where another worker was faster with one of them, begin again."""
        cursor = self._connection.execute(_INSERT, (ids, words, sums))
        if cursor.rowcount != len(ids):
            raise _BeginAgain

    def _count(
        self,
        *,
        added: int = 0,
        withdrawn: int = 0,
        sums: Sequence[bytes] = (),
        gone: Sequence[bytes] = (),
    ) -> None:
        change = sum(int.from_bytes(one, "little") for one in sums) - sum(int.from_bytes(one, "little") for one in gone)
        self._execute(_COUNT, added, withdrawn, change % _SUMS, _SUMS, self._worker)

    def _tally(self) -> Tally:
        ((added, withdrawn),) = self._execute(
            "SELECT coalesce(sum(added), 0)::bigint, coalesce(sum(withdrawn), 0)::bigint FROM dpmpc.workers"
        )
        return Tally(added - withdrawn, withdrawn)

    def _sum(self) -> int:
        return sum(int(checksum) for (checksum,) in self._execute("SELECT checksum FROM dpmpc.workers")) % _SUMS

    def _leased(self) -> int:
        """Return how much of `most_stored` all workers have leased, or used."""
        ((leased,),) = self._execute("SELECT coalesce(sum(leased), 0)::bigint FROM dpmpc.workers")
        return int(leased)


class PostgresShare(Share):
    """A share whose rows are read from the database, a block of consecutive ones at a time, and compared."""

    def __init__(self, store: PostgresStore, ids: NDArray[np.bytes_]):
        self._store, self._ids = store, ids
        self.shape, self.ring = (len(ids), *store.shape), store.ring
        self._first, self._block = 0, np.empty((0, *store.shape), np.uint64)

    def _rows(self, first: int, count: int) -> Words:
        if first < self._first or first + count > self._first + len(self._block):
            size = max(count, self._store._block_rows)
            self._first, self._block = first, self._store.block(self._ids[first : first + size])
        return self._block[first - self._first :][:count]


def require_address(address: str) -> str:
    """Return the address of a database, or refuse one that holds a password: everybody on the machine sees it."""
    try:
        if not address.startswith(("postgresql://", "postgres://")):
            raise ValueError(f"{address[:40]} given")
        parts = conninfo_to_dict(address)
    except (ValueError, psycopg.Error) as error:
        told = str(error).strip().partition("\n")[0]
        raise InputError("store", f"{told}; postgresql://[USER@][HOST][:PORT]/NAME expected") from None
    if "password" in parts:
        raise InputError(
            "store", "an address with a password", "one without", "peer authentication, or a private file ~/.pgpass"
        )
    return address


def _is_near(host: str, address: str) -> bool:
    """Say whether a database is reached through a socket of this machine."""
    if host.startswith("/") and not address:  # the address decides where both are given
        return True
    try:
        return ipaddress.ip_address(address or host).is_loopback
    except ValueError:
        return False


def _buried(report: bytes) -> bytes:
    """Return the checksum of a tombstone."""
    return hashlib.sha256(b"withdrawn" + report).digest()[:CHECKSUM_BYTES]
