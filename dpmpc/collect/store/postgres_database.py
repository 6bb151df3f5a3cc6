"""Keep a store of reports in a PostgreSQL database, which several worker processes of one server share.

The database holds this server's shares: it is part of the server, in its trust, and in that of no other. The ledger,
keys and seeds stay in the server's folder, where no failover puts them back. Its tables are in the schema ``dpmpc``.

A transaction that writes holds an advisory lock, whose queue is fair, and reads what it relies on after that. So
workers store their groups one after another, each with one commit; a worker that is killed frees the lock.

Promised: a database that does not sync its log before a commit returns, that writes pages which a crash can tear, that
is a copy of another one, that has a copy which a commit does not wait for, or that is reached over a network without a
verified certificate is refused, and so are tables that a crash empties, that are of another role or that all roles may
read. Not promised: anything about a database that was put back to an older state, or that failed over to a copy which
lacked what was acknowledged: those reports are lacking at this server, and are left out of the batch. A setting that is
changed under a running worker is noticed by `usable` alone. Words that were withdrawn are in dead rows and in the log
of the database until it overwrites them.
"""

from __future__ import annotations

import contextlib
import ipaddress
import threading
from collections.abc import Iterator
from typing import Any

from dpmpc.base.errors import InputError, SpoolError
from dpmpc.collect.store.store_description import SqlDialect

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
except ImportError as error:
    raise InputError(
        "store", "a PostgreSQL database needs psycopg: pip install '.[postgres]' in the source folder of dpmpc"
    ) from error

PATIENCE_SECONDS = 60
_OLDEST_SERVER = 15
_LOCK = "SELECT pg_advisory_xact_lock(1685089635, 1)"  # "dpmc"
_TABLES = "SELECT relname::text FROM pg_class WHERE relnamespace = to_regnamespace('dpmpc') AND relkind IN {kinds}"
_FOREIGN = (  # tables that a crash empties, or that others than the server's role read or change
    _TABLES.format(kinds="('r', 'p', 'v', 'f')")
    + " AND (relpersistence <> 'p' OR relkind <> 'r' OR pg_get_userbyid(relowner) <> current_user "
    "OR EXISTS (SELECT FROM aclexplode(relacl) AS given WHERE given.grantee = 0))"
)
_OWNER = (
    "SELECT pg_get_userbyid(nspowner)::text FROM pg_namespace WHERE nspname = 'dpmpc' "
    "AND pg_get_userbyid(nspowner) <> current_user"
)
_FOLLOWED = "SELECT slot_name::text FROM pg_replication_slots WHERE slot_type = 'physical' AND active"
_SETTINGS = {
    "fsync": ("on",),
    "full_page_writes": ("on",),
    "synchronous_commit": ("on", "remote_apply"),
    "default_transaction_isolation": ("read committed",),
    "default_transaction_read_only": ("off",),
}


class PostgresDatabase:
    """The database of an address such as ``postgresql:///NAME``; `create` makes the schema where it is missing."""

    dialect = SqlDialect(
        number="bigint",
        bytes="bytea",
        find="SELECT number, ids FROM ids WHERE number >= ? AND number < ? AND position(?::bytea in ids) > 0",
        advice="nothing was sent. Put the database back from a copy, an older one will do (reports that came since are "
        "then left out), or release without this server where the shares allow it (docs/deploy.md)",
        storage=("ALTER TABLE words ALTER COLUMN words SET STORAGE EXTERNAL",),  # they look random: not compressed
    )

    def __init__(self, address: str, *, create: bool):
        self.place = require_address(address)
        self._create = create
        self._turns = threading.RLock()
        self._connection: Any = None
        self._ended = False

    @contextlib.contextmanager
    def turn(self, *, alone: bool = False) -> Iterator[None]:
        """Do as `ReportDatabase.turn` does, on a connection that is made anew where the last one broke."""
        with self._turns, self._typed_errors():
            if self._ended:
                raise SpoolError(self.place, "the store is closed")
            if self._connection is None or self._connection.closed:
                self._connect()
            with self._connection.transaction():
                if alone:
                    self.execute(_LOCK)
                else:
                    self.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                yield

    @contextlib.contextmanager
    def _typed_errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            told = str(error).strip().partition("\n")[0] or type(error).__name__
            raise SpoolError(self.place, told) from error

    def execute(self, statement: str, *given: Any) -> list[Any]:
        """Do as `ReportDatabase.execute` does."""
        cursor = self._connection.cursor(binary=True)
        cursor.execute(statement.replace("?", "%b"), given or None)
        return list(cursor.fetchall()) if cursor.description else []

    def insert(self, statement: str, rows: list[tuple[Any, ...]]) -> None:
        """Do as `ReportDatabase.insert` does."""
        self._connection.cursor(binary=True).executemany(statement.replace("?", "%b"), rows)

    def tables(self) -> set[str]:
        """Return the names of the tables."""
        return {name for (name,) in self.execute(_TABLES.format(kinds="('r')"))}

    def empty_log(self) -> None:
        """Do nothing: the log is the database's, and its operator's."""

    def usable(self, least_free: int) -> bool:
        """Return whether the settings still keep what is committed; how full its disk is only its operator can see."""
        self._require_durable()
        return True

    def close(self) -> None:
        """Close the connection."""
        with self._turns:
            self._ended = True
            self._disconnect()

    def _connect(self) -> None:
        self._disconnect()
        self._connection = psycopg.connect(
            self.place,
            autocommit=True,
            connect_timeout=PATIENCE_SECONDS,
            application_name="dpmpc",
            client_encoding="UTF8",  # in a database of encoding SQL_ASCII texts would come as bytes
        )
        try:
            self._require_durable()
            for name in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"):
                self.execute(f"SET {name} = '{PATIENCE_SECONDS}s'")
            self.execute("SET search_path = dpmpc")
            if self._create:
                self._make_schema()
            self._require_own()
        except BaseException:
            self._disconnect()
            raise

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _make_schema(self) -> None:
        with self._connection.transaction():
            self.execute(_LOCK)
            self.execute("CREATE SCHEMA IF NOT EXISTS dpmpc")

    def _require_durable(self) -> None:
        """Refuse a database that can lose what it has committed, or lets others read on the way to it."""
        info = self._connection.info
        if info.server_version // 10000 < _OLDEST_SERVER:
            raise SpoolError(
                "store",
                f"PostgreSQL {info.server_version // 10000} at {self.place}, {_OLDEST_SERVER} or later expected",
            )
        for name, expected in _SETTINGS.items():
            ((found,),) = self.execute("SELECT current_setting(?)", name)
            if found not in expected:
                raise SpoolError(
                    "store",
                    f"{name} = {found} in the database {self.place}, {' or '.join(expected)} expected: "
                    "what is acknowledged must be there after a crash",
                )
        if self.execute("SELECT pg_is_in_recovery()") != [(False,)]:
            raise SpoolError("store", f"{self.place} is a copy of another database, the first one expected")
        followers = [name for (name,) in self.execute(_FOLLOWED)]
        if followers and self.execute("SELECT current_setting('synchronous_standby_names')") == [("",)]:
            raise SpoolError(
                "store",
                f"{self.place} is copied through {', '.join(sorted(followers))}, and synchronous_standby_names is "
                "empty; the names of the copies expected that a commit waits for: one that is put in its place "
                "would lack what was acknowledged",
            )
        if not _is_near(info.host, info.hostaddr) and not (
            self._connection.pgconn.ssl_in_use and info.get_parameters().get("sslmode") == "verify-full"
        ):
            raise SpoolError(
                "store",
                f"{self.place} is on another machine without sslmode=verify-full: shares of reports may "
                "not cross a network in the open",
            )

    def _require_own(self) -> None:
        """Refuse a schema or tables that others than this role can change or read."""
        if others := self.execute(_OWNER):
            raise SpoolError("store", f"schema dpmpc of {self.place} owned by {others[0][0]}", "by this role")
        if changed := self.execute(_FOREIGN):
            tables = ", ".join(sorted(name for (name,) in changed))
            raise SpoolError(
                "store",
                f"{tables} in schema dpmpc of {self.place} unlogged, owned by another role or open to "
                "PUBLIC; tables expected that survive a crash, and that are this role's alone",
            )


def require_address(address: str) -> str:
    """Return the address of a database, or refuse one that holds a password: all users of the machine see it."""
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
    """Return whether a database is reached through a socket of this machine."""
    if host.startswith("/") and not address:  # the address decides where both are given
        return True
    try:
        return ipaddress.ip_address(address or host).is_loopback
    except ValueError:
        return False
