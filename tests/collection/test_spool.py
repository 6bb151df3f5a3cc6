"""The spool: what `add` returned for is there exactly once, through crashes, full disks and a second writer."""

import io
import os
import random
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dpmpc.collection import segments, spool, spool_index
from dpmpc.collection.spool import Spool
from dpmpc.errors import CollectionClosed, InputError, ReportConflict, SpoolError
from dpmpc.sharing.batch import open_share
from support import collection_processes
from support.collection_processes import DIGEST, SEGMENT_ROWS, SHAPE, open_spool, upload_of, words_of
from support.processes import CONTEXT, begin
from support.state_machines import run_in

KILLS = 8
MORE_KILLS = pytest.param(25, marks=pytest.mark.long("25 kills, not 8"))


@pytest.fixture(autouse=True)
def small_segments(monkeypatch):
    monkeypatch.setattr(spool, "_SEGMENT_BYTES", SEGMENT_ROWS * 48)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "spool"


def reports(count, seed=1):
    draw = random.Random(seed)
    return [draw.randbytes(16) for _ in range(count)]


def as_array(ids):
    return np.frombuffer(b"".join(sorted(ids)), np.uint8).reshape(-1, 16)


def holds(store, ids):
    """Whether the spool holds these reports with their words, each once, and no others."""
    expected = as_array(ids)
    share = store.share(expected)
    return (
        np.array_equal(store.ids(), expected)
        and len(store) == len(expected)
        and np.array_equal(share.rows(0, len(expected)), upload_of(sorted(ids))[1])
    )


@pytest.mark.parametrize("count", [0, 1, SEGMENT_ROWS, 3 * SEGMENT_ROWS + 7])
def test_what_was_added_is_there_after_reopening(folder, count):
    ids = reports(count)
    with open_spool(folder) as store:
        assert store.add(*upload_of(ids)) == (count, 0)
        assert holds(store, ids)
    with open_spool(folder) as store:
        assert holds(store, ids)
        assert store.add(*upload_of(ids)) == (0, count)
        more = reports(5, seed=2)
        store.add(*upload_of(more))
        assert holds(store, ids + more)


def test_ids_with_zeros_and_large_bytes_are_in_the_order_of_their_bytes(folder):
    ids = [bytes(16), b"\xff" * 16, b"\x01" + bytes(15), bytes(15) + b"\x01", b"\x80" + bytes(15), b"\x7f" * 16]
    with open_spool(folder) as store:
        store.add(*upload_of(ids))
        assert holds(store, ids)


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
        with pytest.raises(InputError, match="rows within"):
            share.rows(0, len(batch) + 1)


def test_a_share_is_written_as_npy(folder, tmp_path):
    ids = reports(120)
    with open_spool(folder) as store:
        store.add(*upload_of(ids))
        buffer = io.BytesIO()
        store.share(as_array(ids)).write(buffer)
    buffer.seek(0)
    assert np.array_equal(np.load(buffer), upload_of(sorted(ids))[1])


def test_every_segment_is_a_share_file_of_its_own(folder):
    ids = reports(SEGMENT_ROWS + 1)
    with open_spool(folder) as store:
        store.add(*upload_of(ids))
        for number, filled in enumerate([SEGMENT_ROWS, 1]):
            share = open_share(folder / f"segment-{number:06d}.npy")
            assert share.shape == (SEGMENT_ROWS, *SHAPE)
            assert np.array_equal(share.rows(0, filled), upload_of(ids)[1][number * SEGMENT_ROWS :][:filled])


def test_a_conflict_stores_nothing_of_its_upload(folder):
    old, new = reports(2)
    with open_spool(folder) as store:
        store.add(*upload_of([old]))
        ids, words = upload_of([new, old])
        words[1, 0, 0] ^= 1
        with pytest.raises(ReportConflict, match=old.hex()):
            store.add(ids, words)
        assert holds(store, [old])


def test_an_id_that_is_repeated_within_an_upload(folder):
    (report,) = reports(1)
    with open_spool(folder) as store:
        ids, words = upload_of([report, report])
        assert store.add(ids, words) == (1, 1)
        assert holds(store, [report])
        other = bytes(16)
        words[1, 1, 2] ^= 1
        with pytest.raises(ReportConflict):
            store.add([other, other], words)
        assert holds(store, [report])


def test_several_uploads_are_stored_at_once_and_conflicts_left_out(folder):
    a, b, c, d = reports(4)
    wrong = upload_of([b])[1] + np.uint64(1)
    with open_spool(folder) as store:
        outcomes = store.add_all(
            [
                upload_of([a, b]),
                ([c, b], np.concatenate([upload_of([c])[1], wrong])),
                upload_of([b, d]),
                upload_of([]),
            ]
        )
        assert outcomes[0] == (2, 0)
        assert isinstance(outcomes[1], ReportConflict)
        assert outcomes[2:] == [(1, 1), (0, 0)]
        assert holds(store, [a, b, d])
        assert store.add_all([]) == []


@pytest.mark.parametrize(
    ("ids", "words", "message"),
    [
        ([bytes(15)], np.zeros((1, *SHAPE), np.uint64), "ids: 15 bytes"),
        ([bytes(16)], np.zeros((2, *SHAPE), np.uint64), "words: shape"),
        ([bytes(16)], np.zeros((1, 6), np.uint64), "words: shape"),
        ([bytes(16)], np.zeros((1, *SHAPE), np.int64), "words: int64"),
        ([bytes(16)], np.full((1, *SHAPE), (1 << 61) - 1, np.uint64), "words: element 0"),
    ],
)
def test_malformed_uploads_are_refused(folder, ids, words, message):
    with open_spool(folder, ring="mersenne61") as store:
        with pytest.raises(InputError, match=message):
            store.add(ids, words)
        assert len(store) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"digest": bytes(32)}, "digest: 0000"),
        ({"server": 2}, "server: 2 given, 1 expected"),
        ({"shape": (3, 3)}, "copies: 3 given, 2 expected"),
        ({"shape": (2, 4)}, "width: 4 given, 3 expected"),
        ({"ring": "mersenne61"}, "ring: mersenne61 given, ring64 expected"),
    ],
)
@pytest.mark.parametrize("writer", [True, False])
def test_a_spool_of_something_else_is_refused(folder, change, message, writer):
    open_spool(folder).close()
    given = {"digest": DIGEST, "server": 1, "shape": SHAPE, **change}
    with pytest.raises(SpoolError, match=message):
        Spool(folder, **given, writer=writer)
    open_spool(folder).close()  # and the lock was let go


def test_arguments_that_make_no_spool(folder):
    with pytest.raises(InputError, match="digest: 31 bytes"):
        Spool(folder, bytes(31), 0, SHAPE)
    with pytest.raises(InputError, match="shape: "):
        Spool(folder, DIGEST, 0, (0, 3))
    with pytest.raises(SpoolError, match=r"no spool\.sqlite"):
        Spool(folder, DIGEST, 0, SHAPE, writer=False)
    with pytest.raises(SpoolError, match="No such file"):
        Spool(folder / "deeper", DIGEST, 0, SHAPE)
    assert not folder.exists()


def test_batches_that_the_spool_does_not_have(folder):
    ids = reports(3)
    with open_spool(folder) as store:
        store.add(*upload_of(ids[:2]))
        for missing in (ids[2], bytes(16), b"\xff" * 16):
            with pytest.raises(InputError, match="1 of 3 are not in the spool"):
                store.share(as_array([*ids[:2], missing]))
            with pytest.raises(InputError, match="1 of 1 are not in the spool"):
                store.share(as_array([missing]))
        for wrong in (as_array(ids[:2])[::-1], as_array([ids[0], ids[0]])):
            with pytest.raises(InputError, match="ascending and distinct"):
                store.share(wrong)
        with pytest.raises(InputError, match=r"ids: uint8 of shape \(2, 8\)"):
            store.share(as_array(ids[:2])[:, :8])
        assert store.share(np.empty((0, 16), np.uint8)).shape == (0, *SHAPE)


def test_words_that_changed_on_the_disk_are_noticed(folder):
    ids = reports(60)
    with open_spool(folder) as store:
        store.add(*upload_of(ids))
        with (folder / "segment-000001.npy").open("r+b") as file:
            file.seek(128 + 5)
            file.write(bytes([words_of(ids[SEGMENT_ROWS]).tobytes()[5] ^ 1]))
        with pytest.raises(SpoolError, match="not as they were added"):
            store.share(as_array(ids)).rows(0, 60)
        os.truncate(folder / "segment-000001.npy", 200)
        with pytest.raises(SpoolError, match="ended early"):
            store.share(as_array(ids)).rows(0, 60)
        (folder / "segment-000001.npy").unlink()
        with pytest.raises(SpoolError, match="No such file"):
            store.share(as_array(ids)).rows(0, 60)


def test_an_index_that_is_no_database_is_refused(folder):
    open_spool(folder).close()
    (folder / "spool.sqlite").write_bytes(b"\x00\x01" * 4096)
    with pytest.raises(SpoolError, match="not a database"):
        open_spool(folder)


def test_there_is_one_writer(folder):
    ids = reports(2)
    with open_spool(folder) as store:
        with pytest.raises(SpoolError, match="one writer expected"):
            open_spool(folder)
        elsewhere = f"from support.collection_processes import open_spool; open_spool({str(folder)!r})"
        second = subprocess.run([sys.executable, "-c", elsewhere], cwd="tests", capture_output=True, text=True)
        assert "SpoolError" in second.stderr
        with open_spool(folder, writer=False) as reader:
            store.add(*upload_of(ids))
            assert holds(reader, ids)
            with pytest.raises(InputError, match="writer: False"):
                reader.add(*upload_of(ids))
    open_spool(folder).close()


def test_closing_for_good_reaches_the_writer_and_lasts(folder):
    ids = reports(2)
    with open_spool(folder) as store:
        store.add(*upload_of(ids[:1]))
        with open_spool(folder, writer=False) as reader:
            assert not store.closed
            reader.close_for_good()
        assert store.closed
        with pytest.raises(CollectionClosed):
            store.add(*upload_of(ids[1:]))
    with open_spool(folder) as store:
        with pytest.raises(CollectionClosed):
            store.add(*upload_of(ids[:1]))
        assert holds(store, ids[:1])


def test_a_spool_that_is_closed_says_so(folder):
    store = open_spool(folder)
    store.close()
    store.close()
    with pytest.raises(SpoolError, match="closed"):
        store.ids()


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


def test_threads_take_turns(folder):
    ids = reports(120)
    with open_spool(folder) as store:
        threads = [threading.Thread(target=store.add, args=upload_of(ids[first::4] + ids[:5])) for first in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert holds(store, ids)


def test_words_are_synced_before_the_index_names_them(folder, monkeypatch):
    order = []
    record = lambda name, function: lambda *given: (order.append(name), function(*given))[1]  # noqa: E731
    for name in ("pwrite", "fdatasync", "fsync"):
        monkeypatch.setattr(os, name, record(name, getattr(os, name)))
    with open_spool(folder) as store:
        order.clear()
        store._database.set_trace_callback(lambda statement: order.append(statement.split()[0]))
        store.add(*upload_of(reports(1, seed=1)))
        # The description and the reports known before; the new segment and its name; the row; only then the index.
        assert order == [
            *("BEGIN", "SELECT", "SELECT", "fsync", "fsync", "pwrite", "fdatasync", "SELECT", "INSERT", "UPDATE"),
            "COMMIT",
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
            with pytest.raises(SpoolError, match="No space left"):
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
        with pytest.raises(SpoolError, match="full"):
            store.add(*upload_of(second))
        assert holds(store, first)
        store._database.execute("PRAGMA max_page_count = 1000000")
        store.add(*upload_of(second))
        assert holds(store, first + second)


FULL_DISK = """
import resource, sys
from support.collection_processes import SEGMENT_ROWS, open_spool, upload_of
from dpmpc.errors import SpoolError
from dpmpc.collection import spool
spool._SEGMENT_BYTES = 48 * SEGMENT_ROWS
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
        with pytest.raises(SpoolError, match="disk I/O error"):
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
        with pytest.raises(SpoolError, match="disk I/O error"):
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
            with pytest.raises(ReportConflict, match=ids[first].hex()):
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
            (copy / "spool.sqlite-shm").unlink()  # memory, which a crash takes away
            with open_spool(copy) as other:
                assert holds(other, ids[: first + 13])


@pytest.mark.parametrize("kills", [KILLS, MORE_KILLS])
def test_kill_at_any_time(folder, kills):
    """A writer is killed: every upload that was acknowledged is there once, and no other one in part."""
    draw = random.Random(5)
    present, uploads = set(), 0
    for seed in range(kills):
        hears, tells = CONTEXT.Pipe(duplex=False)
        writer = begin(collection_processes.add_reports, folder, seed, tells)
        tells.close()
        sent, least = [hears.recv_bytes()], draw.randrange(6)
        while sent.count(b"stored") < least:
            sent.append(hears.recv_bytes())
        time.sleep(draw.uniform(0, 0.01))
        writer.kill()
        writer.join()
        while True:
            try:
                sent.append(hears.recv_bytes())
            except (EOFError, OSError):  # the last message may have been cut short
                break
        hears.close()
        announced = [cut(message) for message in sent if message != b"stored"]
        answered = sent.count(b"stored")
        present.update(*announced[:answered])
        with open_spool(folder) as store:
            there = {row.tobytes() for row in store.ids()}
            if len(announced) > answered and announced[-1][0] in there:  # stored, but nobody was told
                present.update(announced[-1])
            assert holds(store, present)
            assert store.add(*upload_of(sorted(present)[:10])).stored == 0
        assert answered >= least
        uploads += answered
    assert uploads > kills


def cut(message):
    return [message[first : first + 16] for first in range(0, len(message), 16)]


class SpoolMachine(RuleBasedStateMachine):
    """The spool against a dictionary: add, repeat, conflict, reopen, close."""

    folder = None

    @initialize()
    def begin(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.store, self.model, self.closed = open_spool(self.folder), {}, False

    @rule(upload=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 20)), max_size=70))
    def add(self, upload):
        """Report `name` is one that is often used, with one of a few contents, mostly the same."""
        ids = [name.to_bytes(16, "big") for name, _ in upload]
        contents = [max(0, content - 19) for _, content in upload]
        words = np.array([np.full(SHAPE, content) for content in contents], np.uint64).reshape(-1, *SHAPE)
        wanted = dict(self.model)
        conflict = any(
            wanted.setdefault(report, content) != content for report, content in zip(ids, contents, strict=True)
        )
        if self.closed or conflict:
            with pytest.raises(CollectionClosed if self.closed else ReportConflict):
                self.store.add(ids, words)
        else:
            stored = len(wanted) - len(self.model)
            assert self.store.add(ids, words) == (stored, len(ids) - stored)
            self.model = wanted

    @rule(orderly=st.booleans())
    def reopen(self, orderly):
        before = self.store
        if orderly:
            before.close()
        else:
            before._unlock()  # as a crash does: the log is not written back before the next process reads it
        self.store = open_spool(self.folder)
        before.close()

    @precondition(lambda self: len(self.model) > 30)
    @rule()
    def close_for_good(self):
        self.store.close_for_good()
        self.closed = True

    @invariant()
    def same_as_the_model(self):
        ids = as_array(self.model)
        assert np.array_equal(self.store.ids(), ids)
        rows = self.store.share(ids).rows(0, len(ids))
        assert (rows == np.array([self.model[row.tobytes()] for row in ids], np.uint64).reshape(-1, 1, 1)).all()
        assert self.store.closed == self.closed

    def teardown(self):
        self.store.close()


def test_the_spool_is_a_dictionary(folder):
    run_in(folder, SpoolMachine, steps=12)
