"""Stores of reports, whatever database is below: what is promised by every `ReportStore`."""

import io
import random
import shutil
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dpmpc.base.errors import CollectionClosed, ReportConflict, SpoolError, Withdrawn
from dpmpc.collect.store import blocks
from dpmpc.collect.store.report_store import Tally
from dpmpc.collect.terms.withdrawal_verdict import Fate
from support import collection_processes
from support.collection_processes import SHAPE, as_array, cut, holds, ledger_of, open_spool, reports, upload_of
from support.processes import CONTEXT, begin
from support.rejections import rejects
from support.report_stores import STORES, place_of, wipe
from support.state_machines import run_in

KILLS = 8
MORE_KILLS = pytest.param(25, marks=pytest.mark.long("25 kills, not 8"))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Have blocks of 10 reports, pages of two blocks, and spans of some 50 reports."""
    for name, value in {"_BLOCK_BYTES": 10 * 48, "_PAGE_BYTES": 20 * 48, "_SPAN_REPORTS": 50}.items():
        monkeypatch.setattr(blocks, name, value)


@pytest.fixture(params=STORES)
def place(request, tmp_path):
    return place_of(request, tmp_path)


@pytest.mark.parametrize("count", [0, 1, 50, 157])
def test_what_was_added_is_there_after_reopening(place, count):
    ids = reports(count)
    with open_spool(place) as store:
        assert store.add(*upload_of(ids)) == (count, 0)
        assert holds(store, ids)
    with open_spool(place) as store:
        assert holds(store, ids)
        assert store.add(*upload_of(ids)) == (0, count)
        more = reports(5, seed=2)
        store.add(*upload_of(more))
        assert holds(store, ids + more)


def test_ids_with_zeros_and_large_bytes_are_in_the_order_of_their_bytes(place):
    ids = [bytes(16), b"\xff" * 16, b"\x01" + bytes(15), bytes(15) + b"\x01", b"\x80" + bytes(15), b"\x7f" * 16]
    with open_spool(place) as store:
        store.add(*upload_of(ids))
        assert holds(store, ids)


def test_a_share_is_written_as_npy(place, tmp_path):
    ids = reports(120)
    with open_spool(place) as store:
        store.add(*upload_of(ids))
        buffer = io.BytesIO()
        store.share(as_array(ids)).write(buffer)
    buffer.seek(0)
    assert np.array_equal(np.load(buffer), upload_of(sorted(ids))[1])


def test_a_conflict_stores_nothing_of_its_upload(place):
    old, new = reports(2)
    with open_spool(place) as store:
        store.add(*upload_of([old]))
        ids, words = upload_of([new, old])
        words[1, 0, 0] ^= 1
        with rejects("ids", ReportConflict):
            store.add(ids, words)
        assert holds(store, [old])


def test_an_id_that_is_repeated_within_an_upload(place):
    (report,) = reports(1)
    with open_spool(place) as store:
        ids, words = upload_of([report, report])
        assert store.add(ids, words) == (1, 1)
        assert holds(store, [report])
        other = bytes(16)
        words[1, 1, 2] ^= 1
        with pytest.raises(ReportConflict):
            store.add([other, other], words)
        assert holds(store, [report])


def test_several_uploads_are_stored_at_once_and_conflicts_left_out(place):
    a, b, c, d = reports(4)
    wrong = upload_of([b])[1] + np.uint64(1)
    with open_spool(place) as store:
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
    ("ids", "words", "rejection"),
    [
        (
            [bytes(15)],
            np.zeros((1, *SHAPE), np.uint64),
            {"argument": "ids", "given": "15 bytes given as number 0, 16 expected"},
        ),
        ([bytes(16)], np.zeros((2, *SHAPE), np.uint64), {"argument": "words", "given": "shape (2, 2, 3)"}),
        ([bytes(16)], np.zeros((1, 6), np.uint64), {"argument": "words", "given": "shape (1, 6)"}),
        ([bytes(16)], np.zeros((1, *SHAPE), np.int64), {"argument": "words", "given": "int64"}),
        (
            [bytes(16)],
            np.full((1, *SHAPE), (1 << 61) - 1, np.uint64),
            {
                "argument": "words",
                "given": "element 0 is 2305843009213693951, a number below 2305843009213693951 expected",
            },
        ),
    ],
)
def test_malformed_uploads_are_refused(place, ids, words, rejection):
    with open_spool(place, ring="mersenne61") as store:
        with rejects(**rejection):
            store.add(ids, words)
        assert len(store) == 0


@pytest.mark.parametrize(
    ("change", "rejection"),
    [
        (
            {"digest": bytes(32)},
            {"argument": "digest", "given": "0000000000000000000000000000000000000000000000000000000000000000"},
        ),
        ({"server": 2}, {"argument": "server", "given": "2", "expected": "1"}),
        ({"shape": (3, 3)}, {"argument": "copies", "given": "3", "expected": "2"}),
        ({"shape": (2, 4)}, {"argument": "width", "given": "4", "expected": "3"}),
        ({"ring": "mersenne61"}, {"argument": "ring", "given": "mersenne61", "expected": "ring64"}),
    ],
)
@pytest.mark.parametrize("writer", [True, False])
def test_a_store_of_something_else_is_refused(place, change, rejection, writer):
    open_spool(place).close()
    with rejects(kind=SpoolError, **rejection):
        open_spool(place, writer=writer, **change)
    open_spool(place).close()  # and the lock was let go


def test_batches_that_the_store_does_not_have(place):
    ids = reports(3)
    with open_spool(place) as store:
        store.add(*upload_of(ids[:2]))
        for missing in (ids[2], bytes(16), b"\xff" * 16):
            with rejects("ids"):
                store.share(as_array([*ids[:2], missing]))
            with rejects("ids"):
                store.share(as_array([missing]))
        for wrong in (as_array(ids[:2])[::-1], as_array([ids[0], ids[0]])):
            with rejects("ids"):
                store.share(wrong)
        with rejects("ids", given="uint8 of shape (2, 8)"):
            store.share(as_array(ids[:2])[:, :8])
        assert store.share(np.empty((0, 16), np.uint8)).shape == (0, *SHAPE)


def test_closing_for_good_reaches_the_writer_and_lasts(place):
    ids = reports(2)
    with open_spool(place) as store:
        store.add(*upload_of(ids[:1]))
        with open_spool(place, writer=False) as reader:
            assert not store.closed
            reader.close_for_good()
        assert store.closed
        with pytest.raises(CollectionClosed):
            store.add(*upload_of(ids[1:]))
    with open_spool(place) as store:
        with pytest.raises(CollectionClosed):
            store.add(*upload_of(ids[:1]))
        assert holds(store, ids[:1])


def test_the_releases_of_reports_are_in_one_ledger(place, tmp_path):
    """A ledger that was begun anew, or that of a second folder with the same database, holds none of them."""
    with open_spool(place) as store:
        store.bind_ledger()
        shutil.copytree(ledger_of(place), tmp_path / "copy")
    for ledger in (ledger_of(place), tmp_path / "copy"):
        with open_spool(place, ledger=ledger, writer=False) as store:
            store.bind_ledger()
    with open_spool(place, ledger=tmp_path / "other") as store, rejects("ledger", SpoolError):
        store.bind_ledger()


def test_a_store_that_is_closed_says_so(place):
    store = open_spool(place)
    store.close()
    store.close()
    with pytest.raises(SpoolError):
        store.ids()


def test_threads_take_turns(place):
    ids = reports(120)
    with open_spool(place) as store:
        threads = [threading.Thread(target=store.add, args=upload_of(ids[first::4] + ids[:5])) for first in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert holds(store, ids)


@pytest.mark.parametrize("kills", [KILLS, MORE_KILLS])
def test_kill_at_any_time(place, kills):
    """A writer is killed: every upload that was acknowledged is there once, and no other one in part."""
    draw = random.Random(5)
    present, uploads = set(), 0
    kills = kills if isinstance(place, Path) else kills // 3
    for seed in range(kills):
        hears, tells = CONTEXT.Pipe(duplex=False)
        writer = begin(collection_processes.add_reports, place, seed, tells)
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
        with open_spool(place) as store:
            there = {row.tobytes() for row in store.ids()}
            if len(announced) > answered and announced[-1][0] in there:  # stored, but nobody was told
                present.update(announced[-1])
            assert holds(store, present)
            assert store.add(*upload_of(sorted(present)[:10])).stored == 0
        assert answered >= least
        uploads += answered
    assert uploads > kills


def test_a_report_that_is_withdrawn_is_gone_and_never_comes_back(place):
    ids = reports(70)
    gone, left = ids[::7], [report for report in ids if report not in ids[::7]]
    with open_spool(place) as store:
        store.add(*upload_of(ids))
        assert store.withdraw([*gone, gone[0]]) == [Fate.NOW] * (len(gone) + 1)
        assert holds(store, left)
        assert store.tally() == (len(left), len(gone))
        for words in (upload_of(gone[:1])[1], upload_of(gone[:1])[1] + np.uint64(1)):
            with rejects("ids", Withdrawn):
                store.add(gone[:1], words)
        more = reports(2, seed=3)
        first, second = store.add_all([upload_of([more[0], gone[1]]), upload_of(more[1:])])
        assert isinstance(first, Withdrawn)
        assert second == (1, 0)
        assert store.count_stored([gone[0], left[0], more[0]]) == 2
    with open_spool(place) as store:
        assert holds(store, [*left, more[1]])
        assert store.intact().damaged == 0
        assert store.withdraw(gone) == [Fate.BEFORE] * len(gone)
        assert store.tally() == (len(left) + 1, len(gone))
        with rejects("ids"):
            store.share(as_array(gone[:1]))


def test_a_report_that_comes_after_its_withdrawal_is_refused_while_the_allowance_lasts(place):
    """A hundredth of the room: two of the first 200 ids; they give no room back and take none."""
    ids = reports(200)
    with open_spool(place, most_stored=200) as store:
        assert store.withdraw([*ids, ids[0]]) == [Fate.NEVER] * 201
        assert store.withdraw(ids[:3]) == [Fate.NEVER] * 3  # it never came, however often that is said
        assert (store.tally(), store.room()) == (Tally(0, 0), 200)
    with open_spool(place, most_stored=200) as store:
        for report in ids[:2]:
            with pytest.raises(Withdrawn):
                store.add(*upload_of([report]))
        store.add(*upload_of(ids[2:4]))
        assert holds(store, ids[2:4])
        assert store.withdraw([*ids[:3], ids[4], ids[2]]) == [*[Fate.NEVER] * 2, Fate.NOW, Fate.NEVER, Fate.NOW]
        assert store.withdraw(ids[:3]) == [*[Fate.NEVER] * 2, Fate.BEFORE]
        assert store.tally() == Tally(1, 1)
        store.announce()
        assert store.withdraw([ids[0], ids[3], ids[5]]) == [Fate.NEVER, Fate.LATE, Fate.NEVER]


def test_a_tombstone_takes_the_room_of_a_report(place):
    ids = reports(2)
    with open_spool(place, most_stored=100) as store:
        store.add(*upload_of(ids))
        assert store.room() == 98
        store.withdraw(ids[1:])
        assert store.tally() == Tally(1, 1)
        assert store.room() == 98
        store.add(*upload_of(reports(98, seed=2)))
        assert store.room() == 0


def test_what_another_process_withdraws_is_refused_by_the_one_that_writes(place):
    ids = reports(3)
    with open_spool(place) as store:
        store.add(*upload_of(ids))
        with open_spool(place, writer=False) as other:
            assert other.withdraw(ids[1:]) == [Fate.NOW] * 2
        for report in ids[1:]:
            with pytest.raises(Withdrawn):
                store.add(*upload_of([report]))
        assert holds(store, ids[:1])


def test_nothing_is_withdrawn_once_the_reports_are_announced(place):
    """What was withdrawn before stays so, and is said to whoever asks; what was never there is no report too late."""
    ids = reports(3)
    with open_spool(place) as store, open_spool(place, writer=False) as release:
        store.add(*upload_of(ids))
        release.close_for_good()
        assert store.withdraw(ids[:1]) == [Fate.NOW]  # a closed collection is not released yet
        release.announce()
        assert store.announced
        assert store.withdraw([*ids[:2], bytes(16)]) == [Fate.BEFORE, Fate.LATE, Fate.NEVER]
        assert holds(store, ids[1:])
    with open_spool(place) as store:
        assert store.withdraw(ids[1:2]) == [Fate.LATE]
        store.take_back_announcement()
        assert not store.announced
        assert store.withdraw(ids[1:2]) == [Fate.NOW]
        assert holds(store, ids[2:])


def test_ids_of_another_length_are_not_withdrawn(place):
    with open_spool(place) as store:
        with rejects("ids", given="15 bytes given as number 1, 16 expected"):
            store.withdraw([bytes(16), bytes(15)])
        assert store.tally() == (0, 0)


def test_a_count_is_the_same_for_all_who_ask_within_an_hour(place):
    with open_spool(place) as store, open_spool(place, writer=False) as other:
        store.add(*upload_of(reports(3)))
        assert store.count_at("2027-02-01T13:00+00:00") == 3
        store.add(*upload_of(reports(2, seed=2)))
        assert other.count_at("2027-02-01T13:00+00:00") == 3
        assert other.count_at("2027-02-01T14:00+00:00") == 5


def test_a_withdrawal_survives_a_kill(place):
    """Whoever withdraws is killed: what was acknowledged is gone, and all else is there."""
    draw = random.Random(7)
    for seed in range(4):
        hears, tells = CONTEXT.Pipe(duplex=False)
        process = begin(collection_processes.withdraw_reports, place, seed, tells)
        tells.close()
        sent, least = [], draw.randrange(2, 8)
        while sent.count(b"withdrawn") < least:
            sent.append(hears.recv_bytes())
        time.sleep(draw.uniform(0, 0.01))
        process.kill()
        process.join()
        while True:
            try:
                sent.append(hears.recv_bytes())
            except (EOFError, OSError):
                break
        hears.close()
        stored, *rest = sent
        announced = [one for one in rest if one != b"withdrawn"]
        answered = rest.count(b"withdrawn")
        with open_spool(place) as store:
            there = {row.tobytes() for row in store.ids()}
            assert not there & set(announced[:answered])
            assert set(cut(stored)) - set(announced) <= there
            assert holds(store, there)
            assert store.intact().damaged == 0
            for report in announced[:answered]:
                with pytest.raises(Withdrawn):
                    store.add(*upload_of([report]))


class StoreMachine(RuleBasedStateMachine):
    """The store against a dictionary: add, repeat, conflict, withdraw, reopen, close."""

    folder = None

    @initialize()
    def begin(self):
        wipe(self.folder)
        self.store, self.model, self.gone, self.closed = open_spool(self.folder), {}, set(), False
        self.ahead = set()  # withdrawn before they came

    @rule(upload=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 20)), max_size=70))
    def add(self, upload):
        """Report `name` is one that is often used, with one of a few contents, mostly the same."""
        ids = [name.to_bytes(16, "big") for name, _ in upload]
        contents = [max(0, content - 19) for _, content in upload]
        words = np.array([np.full(SHAPE, content) for content in contents], np.uint64).reshape(-1, *SHAPE)
        wanted = dict(self.model)
        conflict = not (self.gone | self.ahead).isdisjoint(ids) or any(
            wanted.setdefault(report, content) != content for report, content in zip(ids, contents, strict=True)
        )
        if self.closed or conflict:
            with pytest.raises(CollectionClosed if self.closed else ReportConflict):
                self.store.add(ids, words)
        else:
            stored = len(wanted) - len(self.model)
            assert self.store.add(ids, words) == (stored, len(ids) - stored)
            self.model = wanted

    @rule(name=st.integers(0, 60))
    def withdraw(self, name):
        """Report `name` may be there, or not yet."""
        report = name.to_bytes(16, "big")
        fate = Fate.NOW if report in self.model else Fate.BEFORE if report in self.gone else Fate.NEVER
        assert self.store.withdraw([report]) == [fate]
        (self.ahead if fate is Fate.NEVER else self.gone).add(report)
        self.model.pop(report, None)

    @rule(orderly=st.booleans())
    def reopen(self, orderly):
        before = self.store
        if orderly:
            before.close()
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
        assert self.store.intact().ids.tobytes() == ids.tobytes()
        assert self.store.intact().damaged == 0
        assert self.store.tally()[0] == len(self.model)
        assert sum(self.store.tally()[1:]) == len(self.gone)

    def teardown(self):
        self.store.close()


def test_a_store_is_a_dictionary(place):
    run_in(place, StoreMachine, steps=12, examples=25 if isinstance(place, Path) else 5)
