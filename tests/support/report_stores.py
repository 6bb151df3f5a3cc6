"""The kinds of stores that tests of `ReportStore` are run for, and a PostgreSQL server of the tests' own."""

import contextlib
import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from support.collection_processes import ledger_of

STORES = ["sqlite", "postgres"]
_TABLES = ("description", "ids", "words")
NOBODY = 65534
START_SECONDS = 120


class Cluster:
    """A PostgreSQL server in a private folder, on a Unix socket, as a user that is not root."""

    def __init__(self, programs):
        self._programs, self._numbers = programs, itertools.count()
        self.folder = Path(tempfile.mkdtemp(prefix="dpmpc-pg-"))  # short: the path of a socket has 107 bytes at most
        self.user = pwd.getpwuid(NOBODY if os.geteuid() == 0 else os.geteuid()).pw_name
        if os.geteuid() == 0:
            os.chown(self.folder, NOBODY, NOBODY)
        self._run("initdb", "-U", self.user, "-A", "trust", "--no-sync", "--no-locale", "-E", "UTF8")
        self.start()

    def _run(self, program, *options):
        own = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if os.geteuid() == 0 else []
        command = [*own, self._programs / program, "-D", self.folder / "data", *options]
        done = subprocess.run(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd="/", timeout=START_SECONDS
        )
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stderr}")

    def start(self, **settings):
        """Start the server; settings are those of postgresql.conf."""
        told = {"listen_addresses": "''", "shared_buffers": "32MB", "max_connections": 40, **settings}
        options = " ".join([f"-k {self.folder}", *(f"-c {name}={value}" for name, value in told.items())])
        log = self.folder / "log"
        self._run("pg_ctl", "-w", "-t", str(START_SECONDS), "-l", str(log), "-o", options, "start")

    def stop(self, mode="immediate"):
        """Stop it; "immediate" is a crash."""
        self._run("pg_ctl", "-w", "-t", str(START_SECONDS), "-m", mode, "stop")

    @contextlib.contextmanager
    def follower(self, slot):
        """Follow the log through a slot, as a copy of the database does."""
        import psycopg  # an extra of the package

        connection = psycopg.pq.PGconn.connect(f"{self.address('postgres')}&replication=true".encode())
        ((end,),) = self.execute("SELECT pg_current_wal_lsn()::text")
        connection.send_query(f"START_REPLICATION SLOT {slot} PHYSICAL {end}".encode())
        yield
        connection.finish()

    def close(self):
        """Stop it and remove all that it kept."""
        with contextlib.suppress(RuntimeError):  # it was stopped already
            self.stop()
        shutil.rmtree(self.folder)

    def execute(self, statement, place=None):
        """Run a statement by hand, in a database of this server."""
        import psycopg  # an extra of the package

        with psycopg.connect(place or self.address("postgres"), autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def address(self, database):
        """Return the address of a database."""
        return f"postgresql:///{database}?host={self.folder}&user={self.user}"

    def database(self):
        """Return the address of a new database."""
        name = f"trial_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name}")
        return self.address(name)


def cluster_or_skip():
    """Return a new server, or skip by the name of what is missing."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install '.[postgres]'")
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("PostgreSQL does not run as root, and setpriv is not there")
    places = [*Path("/usr/lib/postgresql").glob("*/bin"), *map(Path, os.environ["PATH"].split(os.pathsep))]
    for programs in sorted(places, reverse=True):
        if (programs / "initdb").exists() and (programs / "pg_ctl").exists():
            return Cluster(programs)
    pytest.skip("PostgreSQL is not installed (Debian: postgresql)")


def place_of(request, tmp_path):
    """Return where a new store of the kind that a test is run for may be opened."""
    return tmp_path / "spool" if request.param == "sqlite" else request.getfixturevalue("postgres").database()


def wipe(place):
    """Remove a store, and the ledger beside it."""
    shutil.rmtree(ledger_of(place), ignore_errors=True)
    if isinstance(place, Path):
        shutil.rmtree(place, ignore_errors=True)
    else:
        _run(place, "DROP SCHEMA IF EXISTS dpmpc CASCADE")


def put_by(place):
    """Copy a store, whose ledger stays; return what `put_back` puts in its place."""
    if isinstance(place, Path):
        kept = place.with_name("kept")
        shutil.copytree(place, kept)
        return kept
    _run(place, *(f"CREATE TABLE kept_{table} AS TABLE dpmpc.{table}" for table in _TABLES))
    return None


def put_back(place, kept):
    """Put a store back to what it was."""
    if isinstance(place, Path):
        shutil.rmtree(place)
        shutil.copytree(kept, place)
        return
    _run(place, *(f"TRUNCATE dpmpc.{table}" for table in _TABLES))
    _run(place, *(f"INSERT INTO dpmpc.{table} TABLE kept_{table}" for table in _TABLES))


def _run(place, *statements):
    import psycopg  # an extra of the package

    with psycopg.connect(place, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)
