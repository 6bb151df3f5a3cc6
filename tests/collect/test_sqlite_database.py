"""A store of reports in SQLite: files, full disks, commits of unknown fate, and words that are erased."""

import os
import random
import shutil
import sqlite3
import stat
import subprocess
import sys
import time
from unittest.mock import ANY

import numpy as np
import pytest

from dpmpc.base.errors import ReportConflict, SpoolError, Withdrawn
from dpmpc.collect.store import blocks, sqlite_database
from dpmpc.collect.store.report_store import ReportStore
from dpmpc.collect.store.sqlite_database import SqliteDatabase
from support.collection_processes import (
    DIGEST,
    SHAPE,
    as_array,
    holds,
    ledger_of,
    open_spool,
    reports,
    upload_of,
    words_of,
)
from support.rejections import rejects


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "spool"


def test_a_share_is_any_part_of_the_store_in_the_order_of_the_ids(folder, monkeypatch):
    ids = sorted(reports(400))
    for block, page, span in [(1 << 20, 1 << 22, 1 << 14), (7 * 48, 15 * 48, 30), (1, 1, 1)]:
        monkeypatch.setattr(blocks, "_BLOCK_BYTES", block)
        monkeypatch.setattr(blocks, "_PAGE_BYTES", page)
        monkeypatch.setattr(blocks, "_SPAN_REPORTS", span)
        place = folder.with_name(f"spool-{block}")
        with open_spool(place, most_stored=1 << 24) as store:  # in 64 bins
            store.add(*upload_of(random.Random(2).sample(ids, len(ids))))
            batch = ids[3::2]
            share = store.share(as_array(batch))
            expected = upload_of(batch)[1]
            assert share.shape == (len(batch), *SHAPE)
            for first, count in [(0, 0), (0, 5), (3, 5), (190, 8), (5, 1), (0, len(batch)), (len(batch), 0)]:
                assert np.array_equal(share.rows(first, count), expected[first : first + count])
            with rejects("first, count", expected="rows within 199"):
                share.rows(0, len(batch) + 1)


def test_arguments_that_make_no_store(folder):
    def opened(digest, shape, **options):
        return ReportStore(SqliteDatabase(folder, create=True), digest, 0, shape, ledger=ledger_of(folder), **options)

    with rejects("digest", given="31 bytes"):
        opened(bytes(31), SHAPE)
    with rejects("shape"):
        opened(DIGEST, (0, 3))
    with rejects("most_stored", given="0"):
        opened(DIGEST, SHAPE, most_stored=0)
    with rejects("folder", SpoolError):
        SqliteDatabase(folder / "deeper", create=False)
    with pytest.raises(SpoolError):
        SqliteDatabase(folder / "deeper" / "still", create=True)
    with rejects(
        str(folder), SpoolError, given="no reports of dpmpc in it"
    ):  # a file without tables, which a process that only reads does not make
        open_spool(folder, writer=False)


def test_a_file_that_is_no_database_is_refused(folder):
    open_spool(folder).close()
    (folder / "spool.sqlite").write_bytes(b"\x00\x01" * 4096)
    with rejects(ANY, SpoolError, given="file is not a database"):
        open_spool(folder)


def test_what_two_processes_store_is_there_once(folder):
    """Neither knows the ids of the other: the copy that came first counts, and both are erased."""
    ids = reports(6)
    with open_spool(folder) as one, open_spool(folder) as other:
        assert one.add(*upload_of(ids[:1])) == (1, 0)
        assert other.add(*upload_of(ids[:4])) == (3, 1)  # it reads what is there when its first upload comes
        assert one.add(ids[2:], upload_of(ids[2:])[1] + np.uint64(1)) == (4, 0)
        expected = np.concatenate([upload_of(ids[:4])[1], upload_of(ids[4:])[1] + np.uint64(1)])
        assert one.ids().tobytes() == as_array(ids).tobytes()
        rows = other.share(as_array(ids)).rows(0, 6)
        assert np.array_equal(rows, expected[np.argsort(np.array(ids, "S16"))])
        assert (other.intact().damaged, len(other)) == (0, 8)
        assert other.withdraw(ids[2:3]) == ["withdrawn now"]
        assert other.tally() == (6, 2)
        assert not any(on_disk(folder, words) for words in (words_of(ids[2]), words_of(ids[2]) + np.uint64(1)))
    with open_spool(folder, writer=False) as reader, rejects("writer", given="False"):
        reader.add(*upload_of(ids))


def test_files_are_for_their_owner_alone(folder):
    before = os.umask(0)
    try:
        with open_spool(folder) as store:
            store.add(*upload_of(reports(51)))
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {"spool.sqlite", "spool.sqlite-wal"} <= set(modes)
    assert set(modes.values()) == {0o600}
    folder.chmod(0o750)
    with rejects("folder", SpoolError, expected="0700"):
        open_spool(folder)


def test_an_upload_is_one_commit_that_the_disk_has(folder):
    order = []
    with open_spool(folder) as store:
        connection = store._database._connection
        store.add(*upload_of(reports(1, seed=1)))
        connection.set_trace_callback(lambda statement: order.append(" ".join(statement.split()[:3])))
        store.add_all([upload_of([report]) for report in reports(2, seed=2)])
        assert [one for one in order if not one.startswith("SELECT")] == [
            *(
                "BEGIN IMMEDIATE",
                *["INSERT INTO ids"] * 2,
                *["INSERT INTO words"] * 2,
                "UPDATE description SET",
                "COMMIT",
            ),
        ]
        assert connection.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA secure_delete").fetchone() == (1,)


def test_a_file_that_is_full_acknowledges_nothing_and_the_store_goes_on(folder):
    first, second = reports(3), reports(1000, seed=2)
    with open_spool(folder) as store:
        store.add(*upload_of(first))
        connection = store._database._connection
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(SpoolError):
            store.add(*upload_of(second))
        assert holds(store, first)
        connection.execute("PRAGMA max_page_count = 1000000")
        store.add(*upload_of(second))
        assert holds(store, first + second)


FULL_DISK = """
import resource, sys
from support.collection_processes import open_spool, upload_of
from dpmpc.base.errors import SpoolError
ids = [number.to_bytes(16, "big") for number in range(4000)]
stored, failures = 0, 0
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
with open_spool(sys.argv[1]) as store:
    for first in range(0, len(ids), 100):
        if first % 700 == 0:
            resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), hard))
        try:
            store.add(*upload_of(ids[first : first + 100]))
        except SpoolError:
            failures += 1
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            store.add(*upload_of(ids[first : first + 100]))
print(failures)
"""


@pytest.mark.parametrize("limit", [1000, 40_000, 150_000])
def test_a_limit_that_the_system_sets_on_files_is_survived(folder, limit):
    """Files may grow no further: the store or its log."""
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, folder, str(limit)], cwd="tests", capture_output=True, text=True, check=True
    )
    assert int(done.stdout) > 0
    with open_spool(folder) as store:
        assert holds(store, [number.to_bytes(16, "big") for number in range(4000)])


class Failing:
    """A connection whose commit fails, before it takes place or after."""

    def __init__(self, connection, *, commits):
        self._connection, self._commits = connection, commits

    def __getattr__(self, name):
        return getattr(self._connection, name)

    def execute(self, statement, *given):
        if statement != "COMMIT":
            return self._connection.execute(statement, *given)
        if self._commits:
            self._connection.execute(statement)
        raise sqlite3.OperationalError("disk I/O error")


@pytest.mark.parametrize("commits", [False, True])
def test_a_commit_of_unknown_fate_loses_nothing_and_stores_nothing_twice(folder, commits):
    first, second = reports(3), reports(3, seed=2)
    with open_spool(folder) as store:
        store.add(*upload_of(first[:1]))
        real = store._database._connection
        store._database._connection = Failing(real, commits=commits)
        with rejects(ANY, SpoolError, given="disk I/O error"):
            store.add(*upload_of(first))
        store._database._connection = real
        assert store.add(*upload_of([*second, *first])) == ((3, 3) if commits else (5, 1))
        assert holds(store, first + second)
    with open_spool(folder) as store:
        assert holds(store, first + second)


@pytest.mark.parametrize("recent", [4, 1000])
def test_the_ids_of_the_last_reports_are_remembered(folder, monkeypatch, recent):
    """Ids with zeros at their ends among them; what was forgotten is stored again, and counts once in the release."""
    monkeypatch.setattr(blocks, "_RECENT", recent)
    ids = [bytes(16), bytes(15) + b"\x01", b"\x01" + bytes(15), b"\x01\x01" + bytes(14), *reports(60)]
    with open_spool(folder) as store:
        for first in range(0, 64, 4):
            store.add(*upload_of(ids[first : first + 4]))
        known = ids if recent == 1000 else ids[-8:]
        assert store.count_stored([*ids, ids[-1], b"\x01" * 16]) == len(known) + 1
        assert store.add(*upload_of(known)) == (0, len(known))
        with rejects("ids", ReportConflict):
            store.add(known[:1], upload_of(known[:1])[1] + np.uint64(1))
        forgotten = ids[: 64 - len(known)]
        assert store.add(*upload_of(forgotten)) == (len(forgotten), 0)
        assert store.ids().tobytes() == as_array(ids).tobytes()
        assert store.intact().damaged == 0
        assert len(store) == 64 + len(forgotten)


def test_a_copy_taken_at_any_time_is_a_store(folder, tmp_path):
    ids = reports(130)
    with open_spool(folder) as store:
        for first in range(0, 130, 13):
            store.add(*upload_of(ids[first : first + 13]))
            copy = tmp_path / f"copy-{first}"
            shutil.copytree(folder, copy)
            shutil.copytree(ledger_of(folder), ledger_of(copy))
            (copy / "spool.sqlite-shm").unlink()  # memory, which a crash takes away
            with open_spool(copy) as other:
                assert holds(other, ids[: first + 13])


def on_disk(folder, words):
    return any(words.tobytes() in path.read_bytes() for path in folder.iterdir())


def test_words_of_a_withdrawn_report_are_overwritten(folder):
    ids = reports(59)
    with open_spool(folder) as store:
        store.add(*upload_of(ids))
        store.withdraw([ids[3], ids[-2]])
        gone = [report for report in ids if not on_disk(folder, words_of(report))]
        assert gone == [ids[3], ids[-2]]
        assert holds(store, [report for report in ids if report not in gone])


def test_words_of_a_withdrawn_report_are_overwritten_after_a_crash(folder, monkeypatch):
    """Its tombstone counts from the commit on; what a crash left on the disk goes when the store is opened next."""
    ids = reports(9)
    with open_spool(folder) as store:
        store.add(*upload_of(ids))
        with monkeypatch.context() as crashing:
            crashing.setattr(blocks.BlockTables, "erase", lambda *given: (_ for _ in ()).throw(OSError(5, "failing")))
            with rejects(ANY, SpoolError, given="[Errno 5] failing"):
                store.withdraw(ids[3:5])
        assert store.ids().tobytes() == as_array(ids[:3] + ids[5:]).tobytes()
        assert on_disk(folder, words_of(ids[3]))
        with pytest.raises(Withdrawn):
            store.add(*upload_of(ids[4:5]))
    with open_spool(folder, writer=False) as store:
        assert store.ids().tobytes() == as_array(ids[:3] + ids[5:]).tobytes()
    with open_spool(folder) as store:
        assert not any(on_disk(folder, words_of(report)) for report in ids[3:5])
        assert store.withdraw(ids[3:5]) == ["was withdrawn"] * 2
        assert holds(store, ids[:3] + ids[5:])


def test_words_that_a_crash_left_in_the_log_go_at_the_next_start(folder, tmp_path, monkeypatch):
    ids, copy = reports(9), tmp_path / "copy"
    with open_spool(folder) as store:
        store.add(*upload_of(ids))
        with monkeypatch.context() as crashing:
            crashing.setattr(SqliteDatabase, "empty_log", lambda self: None)
            store.withdraw(ids[3:4])
        shutil.copytree(folder, copy)  # what a killed process leaves
        shutil.copytree(ledger_of(folder), ledger_of(copy))
    (copy / "spool.sqlite-shm").unlink()
    assert on_disk(copy, words_of(ids[3]))
    with open_spool(copy) as store:
        assert not on_disk(copy, words_of(ids[3]))
        assert holds(store, ids[:3] + ids[4:])


def test_a_long_read_holds_up_no_withdrawal_and_the_next_one_empties_the_log(folder, monkeypatch):
    monkeypatch.setattr(sqlite_database, "_READERS_MS", 20)
    ids = reports(9)
    with open_spool(folder) as store, open_spool(folder, writer=False) as reader:
        store.add(*upload_of(ids))
        with reader._database.turn():
            reader._table.read()
            start = time.monotonic()
            assert store.withdraw(ids[3:4]) == ["withdrawn now"]
            assert time.monotonic() - start < 30  # the patience with a writer is 60 s
            assert on_disk(folder, words_of(ids[3]))
        store.withdraw(ids[4:5])
        assert not any(on_disk(folder, words_of(report)) for report in ids[3:5])
        assert store._database._connection.execute("PRAGMA busy_timeout").fetchone() == (60_000,)
