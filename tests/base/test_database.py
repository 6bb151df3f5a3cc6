"""Databases of a server: what is committed is on the disk, and nobody else reads it."""

import sqlite3
import stat

import pytest

from dpmpc.base.errors import SpoolError
from dpmpc.base.storage.database import connect, private_folder, transaction
from support.rejections import rejects


@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
def test_a_commit_is_on_the_disk_before_it_returns(journal, tmp_path):
    """SQLite's own default syncs a write-ahead log at checkpoints only: a loss of power would take commits back."""
    path = tmp_path / "own.sqlite"
    connection = connect(path, create=True, journal=journal)
    assert connection.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA
    assert connection.execute("PRAGMA journal_mode").fetchone() == (journal.lower(),)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    connection.close()


def add_twice(connection):
    with transaction(connection):
        connection.execute("INSERT INTO kept VALUES (1)")
        connection.execute("INSERT INTO nowhere VALUES (1)")


def test_a_body_that_fails_changes_nothing(tmp_path):
    connection = connect(tmp_path / "own.sqlite", create=True)
    connection.execute("CREATE TABLE kept (one INTEGER)")
    with pytest.raises(sqlite3.OperationalError):
        add_twice(connection)
    with transaction(connection):
        connection.execute("INSERT INTO kept VALUES (2)")
    assert connection.execute("SELECT one FROM kept").fetchall() == [(2,)]
    connection.close()


def test_what_is_not_there_or_not_private_is_refused(tmp_path):
    with rejects("folder", SpoolError):
        connect(tmp_path / "own.sqlite", create=False)
    (tmp_path / "other.sqlite").write_bytes(b"no database at all" * 100)
    with pytest.raises(sqlite3.DatabaseError):
        connect(tmp_path / "other.sqlite", create=False)
    open_to_all = tmp_path / "open"
    open_to_all.mkdir(mode=0o755)
    with pytest.raises(SpoolError, match="folder"):
        private_folder(open_to_all)
