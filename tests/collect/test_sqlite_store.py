"""The spool of `SqliteStore`: files, segments, full disks and commits of unknown fate."""

import os
import random
import shutil
import sqlite3
import stat
import subprocess
import sys
from unittest.mock import ANY

import numpy as np
import pytest

from dpmpc.base.errors import ReportConflict, SpoolError, Withdrawn
from dpmpc.collect.store import segments, spool_index, sqlite_store
from dpmpc.collect.store.sqlite_store import SqliteStore
from dpmpc.linear.sharing.batch import open_share
from support.collection_processes import (
    DIGEST,
    SEGMENT_ROWS,
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


@pytest.fixture(autouse=True)
def small_segments(monkeypatch):
    monkeypatch.setattr(sqlite_store, "_SEGMENT_BYTES", SEGMENT_ROWS * 48)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "spool"


def test_a_share_is_any_part_of_the_spool_in_the_order_of_the_ids(folder, monkeypatch):
    ids = sorted(reports(400))
    with open_spool(folder) as store:
        store.add(*upload_of(random.Random(2).sample(ids, len(ids))))
        batch = ids[3::2]
        share = store.share(as_array(batch))
        expected = upload_of(batch)[1]
        assert share.shape == (len(batch), *SHAPE)
        for block, piece, gap in [(1 << 26, 1 << 24, 1 << 16), (7 * 48, 5 * 48, 2 * 48), (1, 1, 0)]:
            monkeypatch.setattr(segments, "_BLOCK_BYTES", block)
            monkeypatch.setattr(segments, "_PIECE_BYTES", piece)
            monkeypatch.setattr(segments, "_GAP_BYTES", gap)
            share = open_spool(folder, writer=False).share(as_array(batch))
            for first, count in [(0, 0), (0, 5), (3, 5), (190, 8), (5, 1), (0, len(batch)), (len(batch), 0)]:
                assert np.array_equal(share.rows(first, count), expected[first : first + count])
        with rejects("first, count", expected="rows within 199"):
            share.rows(0, len(batch) + 1)


def test_every_segment_is_a_share_file_of_its_own(folder):
    ids = reports(SEGMENT_ROWS + 1)
    with open_spool(folder) as store:
        store.add(*upload_of(ids))
        for number, filled in enumerate([SEGMENT_ROWS, 1]):
            share = open_share(folder / f"segment-{number:06d}.npy")
            assert share.shape == (SEGMENT_ROWS, *SHAPE)
            assert np.array_equal(share.rows(0, filled), upload_of(ids)[1][number * SEGMENT_ROWS :][:filled])


def test_arguments_that_make_no_spool(folder):
    ledger = ledger_of(folder)
    with rejects("digest", given="31 bytes"):
        SqliteStore(folder, bytes(31), 0, SHAPE, ledger=ledger)
    with rejects("shape"):
        SqliteStore(folder, DIGEST, 0, (0, 3), ledger=ledger)
    with rejects("folder", SpoolError):
        SqliteStore(folder, DIGEST, 0, SHAPE, ledger=ledger, writer=False)
    with pytest.raises(SpoolError):
        SqliteStore(folder / "deeper", DIGEST, 0, SHAPE, ledger=ledger)
    assert not folder.exists()


def test_words_that_changed_on_the_disk_are_noticed(folder):
    ids = reports(60)
    with open_spool(folder) as store:
        store.add(*upload_of(ids))
        with (folder / "segment-000001.npy").open("r+b") as file:
            file.seek(128 + 5)
            file.write(bytes([words_of(ids[SEGMENT_ROWS]).tobytes()[5] ^ 1]))
        with rejects("segments", SpoolError):
            store.share(as_array(ids)).rows(0, 60)
        os.truncate(folder / "segment-000001.npy", 200)
        with rejects(ANY, SpoolError, given="ended early, rows 0 to 9 expected"):
            store.share(as_array(ids)).rows(0, 60)
        (folder / "segment-000001.npy").unlink()
        with pytest.raises(SpoolError):
            store.share(as_array(ids)).rows(0, 60)


def test_an_index_that_is_no_database_is_refused(folder):
    open_spool(folder).close()
    (folder / "spool.sqlite").write_bytes(b"\x00\x01" * 4096)
    with rejects(ANY, SpoolError, given="file is not a database"):
        open_spool(folder)


def test_there_is_one_writer(folder):
    ids = reports(2)
    with open_spool(folder) as store:
        with rejects("folder", SpoolError):
            open_spool(folder)
        elsewhere = f"from support.collection_processes import open_spool; open_spool({str(folder)!r})"
        second = subprocess.run([sys.executable, "-c", elsewhere], cwd="tests", capture_output=True, text=True)
        assert "SpoolError" in second.stderr
        with open_spool(folder, writer=False) as reader:
            store.add(*upload_of(ids))
            assert holds(reader, ids)
            with rejects("writer", given="False"):
                reader.add(*upload_of(ids))
    open_spool(folder).close()


def test_files_are_for_their_owner_alone(folder):
    before = os.umask(0)
    try:
        with open_spool(folder) as store:
            store.add(*upload_of(reports(SEGMENT_ROWS + 1)))
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {"segment-000001.npy", "spool.lock", "spool.sqlite", "spool.sqlite-wal"} <= set(modes)
    assert set(modes.values()) == {0o600}
    folder.chmod(0o750)
    with pytest.raises(SpoolError, match="mode 0750"):
        open_spool(folder)


def test_words_are_synced_before_the_index_names_them(folder, monkeypatch):
    order = []
    record = lambda name, function: lambda *given: (order.append(name), function(*given))[1]  # noqa: E731
    for name in ("pwrite", "fdatasync", "fsync"):
        monkeypatch.setattr(os, name, record(name, getattr(os, name)))
    with open_spool(folder) as store:
        order.clear()
        store._database.set_trace_callback(lambda statement: order.append(statement.split()[0]))
        store.add(*upload_of(reports(1, seed=1)))
        # Description, reports known before; the new segment and its name; the row; only then the index.
        assert order == [
            *("BEGIN", "SELECT", "SELECT", "fsync", "fsync", "pwrite", "fdatasync"),
            *("SELECT", "INSERT", "UPDATE", "COMMIT"),
        ]
        order.clear()
        store.add(*upload_of(reports(1, seed=2)))
        assert order == ["BEGIN", "SELECT", "pwrite", "fdatasync", "SELECT", "INSERT", "UPDATE", "COMMIT"]
        assert store._database.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA
        assert store._database.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.parametrize("call", ["pwrite", "fdatasync", "fsync"])
def test_a_disk_that_fails_acknowledges_nothing_and_the_spool_goes_on(folder, monkeypatch, call):
    first, second = reports(SEGMENT_ROWS), reports(7, seed=2)

    def full(*given):
        raise OSError(28, "No space left on device")

    with open_spool(folder) as store:
        store.add(*upload_of(first))  # the second upload needs a new segment
        with monkeypatch.context() as broken:
            broken.setattr(os, call, full)
            with pytest.raises(SpoolError):
                store.add(*upload_of(second))
        assert holds(store, first)
        store.add(*upload_of(second))
        assert holds(store, first + second)
    with open_spool(folder) as store:
        assert holds(store, first + second)


def test_an_index_that_is_full_acknowledges_nothing_and_the_spool_goes_on(folder):
    first, second = reports(3), reports(1000, seed=2)
    with open_spool(folder) as store:
        store.add(*upload_of(first))
        (pages,) = store._database.execute("PRAGMA page_count").fetchone()
        store._database.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(SpoolError):
            store.add(*upload_of(second))
        assert holds(store, first)
        store._database.execute("PRAGMA max_page_count = 1000000")
        store.add(*upload_of(second))
        assert holds(store, first + second)


FULL_DISK = """
import resource, sys
from support.collection_processes import SEGMENT_ROWS, open_spool, upload_of
from dpmpc.base.errors import SpoolError
from dpmpc.collect.store import sqlite_store
sqlite_store._SEGMENT_BYTES = 48 * SEGMENT_ROWS
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


@pytest.mark.parametrize("limit", [1000, 2000, 40_000, 150_000])
def test_a_limit_that_the_system_sets_on_files_is_survived(folder, limit):
    """Files may grow no further: of segments with the small limits, of the index and its log with the others."""
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, folder, str(limit)], cwd="tests", capture_output=True, text=True, check=True
    )
    assert int(done.stdout) > 0
    with open_spool(folder) as store:
        assert holds(store, [number.to_bytes(16, "big") for number in range(4000)])


def test_a_commit_of_unknown_fate_does_not_lose_words(folder):
    """After a commit that failed, its rows are left alone: a crash might bring its index entries back."""
    first, second = reports(3), reports(3, seed=2)
    with open_spool(folder) as store:
        real = store._database

        class Failing:
            in_transaction = property(lambda self: real.in_transaction)
            executemany = real.executemany

            def execute(self, statement, *given):
                if statement == "COMMIT":
                    raise sqlite3.OperationalError("disk I/O error")
                return real.execute(statement, *given)

        store._database = Failing()
        with rejects(ANY, SpoolError, given="disk I/O error"):
            store.add(*upload_of(first))
        store._database = real
        store.add(*upload_of(second))
        share = open_share(folder / "segment-000000.npy")
        assert np.array_equal(share.rows(0, 6), np.concatenate([upload_of(first)[1], upload_of(second)[1]]))
        assert holds(store, second)


def test_a_commit_that_took_place_though_it_failed_is_known(folder):
    """A report of it is stored once, and what comes after it lies after its words."""
    first, second = reports(3), reports(3, seed=2)
    with open_spool(folder) as store:
        store.add(*upload_of(first[:1]))
        real = store._database

        class Failing:
            in_transaction = property(lambda self: real.in_transaction)

            def execute(self, statement, *given):
                done = real.execute(statement, *given)
                if statement == "COMMIT":
                    raise sqlite3.OperationalError("disk I/O error")
                return done

        store._database = Failing()
        with rejects(ANY, SpoolError, given="disk I/O error"):
            store.add(*upload_of(first))
        store._database = real
        assert store.add(*upload_of([*second, *first])) == (3, 3)
        assert holds(store, first + second)
    with open_spool(folder) as store:
        assert holds(store, first + second)


@pytest.mark.parametrize("recent", [0, 3, 1000])
def test_reports_are_known_however_they_are_kept_in_memory(folder, monkeypatch, recent):
    """The last ones in a dictionary, the others in order; ids with zeros at their ends among them."""
    monkeypatch.setattr(spool_index, "_FEWEST_RECENT", recent)
    ids = [bytes(16), bytes(15) + b"\x01", b"\x01" + bytes(15), b"\x01\x01" + bytes(14), *reports(60)]
    with open_spool(folder) as store:
        for first in range(0, 64, 4):
            assert store.add(*upload_of(ids[: first + 4])) == (4, first)
            wrong = upload_of(ids[first : first + 1])[1] + np.uint64(1)
            with rejects("ids", ReportConflict):
                store.add(ids[first : first + 1], wrong)
        assert store.count_stored([*ids, ids[5], b"\x01" * 16]) == 65
        assert holds(store, ids)


def test_a_copy_taken_at_any_time_is_a_spool(folder, tmp_path):
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


def on_disk(folder, report):
    return any(words_of(report).tobytes() in path.read_bytes() for path in folder.glob("segment-*"))


def test_words_of_a_withdrawn_report_are_overwritten(folder):
    ids = reports(SEGMENT_ROWS + 9)
    with open_spool(folder) as store:
        store.add(*upload_of(ids))
        store.withdraw([ids[3], ids[-2]])
        assert [report for report in ids if not on_disk(folder, report)] == [ids[3], ids[-2]]
        assert holds(store, [report for report in ids if report not in (ids[3], ids[-2])])


def test_words_of_a_withdrawn_report_are_overwritten_after_a_crash(folder, monkeypatch):
    """Its tombstone counts from the commit on; what a crash left on the disk goes when the spool is opened next."""
    ids = reports(9)
    with open_spool(folder) as store:
        store.add(*upload_of(ids))
        with monkeypatch.context() as crashing:
            crashing.setattr(segments.Segments, "write", lambda *given: (_ for _ in ()).throw(OSError(5, "failing")))
            with rejects(ANY, SpoolError, given="[Errno 5] failing"):
                store.withdraw(ids[3:5])
        assert holds(store, ids[:3] + ids[5:])
        assert on_disk(folder, ids[3])
        with pytest.raises(Withdrawn):
            store.add(*upload_of(ids[4:5]))
    with open_spool(folder, writer=False) as store:
        assert holds(store, ids[:3] + ids[5:])
    with open_spool(folder) as store:
        assert not any(on_disk(folder, report) for report in ids[3:5])
        assert store.withdraw(ids[3:5]) == ["was withdrawn"] * 2
