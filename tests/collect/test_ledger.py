"""The ledger: a server opens anything of a report in one release only, across restarts and copies of the spool."""

import os
import random
import shutil
import stat
import threading
from unittest.mock import ANY

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from dpmpc.base.errors import AlreadyReleased, InputError, SpoolError
from dpmpc.collect.store import ledger_tables
from dpmpc.collect.store.ledger import ReleaseLedger, State
from dpmpc.collect.store.openings import Openings
from dpmpc.collect.store.report_store import ReportStore
from dpmpc.collect.store.sqlite_database import SqliteDatabase
from support import collection_processes
from support.collection_processes import SHAPE, batch, digest, open_spool, upload_of
from support.processes import CONTEXT, begin
from support.rejections import rejects
from support.state_machines import run_in

SUMS = np.arange(12, dtype=np.uint64).reshape(3, 4)


def release(ledger, name, ids, sums=SUMS):
    ledger.seal(digest(name), name, ids)
    ledger.begin_opening(digest(name), sums)
    ledger.finish(digest(name))


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "ledger"


def test_a_release_passes_through_its_states_and_lasts(folder):
    ids = batch(*range(100))
    with ReleaseLedger(folder) as ledger:
        assert ledger.find(digest("a")) is None
        entry = ledger.seal(digest("a"), '{"a": 1}', ids)
        assert (entry.manifest_digest, entry.manifest, entry.state) == (digest("a"), '{"a": 1}', State.SEALED)
        assert entry.sums is None
    with ReleaseLedger(folder) as ledger:
        assert ledger.find(digest("a")) == entry
        assert np.array_equal(ledger.begin_opening(digest("a"), SUMS), SUMS)
    with ReleaseLedger(folder) as ledger:
        assert ledger.find(digest("a")).state is State.OPENING
        ledger.finish(digest("a"))
        ledger.finish(digest("a"))
    with ReleaseLedger(folder) as ledger:
        entry = ledger.find(digest("a"))
        assert (entry.manifest, entry.state) == ('{"a": 1}', State.OPENED)
        assert np.array_equal(entry.sums, SUMS)
        assert ledger.seal(digest("a"), '{"a": 1}', ids).state is State.OPENED


@pytest.mark.parametrize("finished", [False, True])
@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(
    ("second", "shared"),
    [(range(1, 100), 99), (range(101), 100), (range(100), 100), (range(99, 300), 1), ([50], 1)],
    ids=["one fewer", "one more", "same reports, other seed", "one in common", "a single one"],
)
def test_reports_that_were_opened_are_never_opened_again(folder, finished, restarted, second, shared):
    ledger = ReleaseLedger(folder)
    ledger.seal(digest("a"), "{}", batch(*range(100)))
    ledger.begin_opening(digest("a"), SUMS)
    if finished:
        ledger.finish(digest("a"))
    if restarted:
        ledger.close()
        ledger = ReleaseLedger(folder)
    state = "opened" if finished else "opening"
    expected = (
        f"of {len(second)} reports, none expected .*: {shared} in the release {digest('a').hex()} .{state} since 2"
    )
    with ledger, pytest.raises(AlreadyReleased, match=expected):
        ledger.seal(digest("b"), "{}", batch(*second))
    with ReleaseLedger(folder) as ledger:
        assert ledger.find(digest("b")) is None
        release(ledger, "c", batch(*range(300, 400)))


def test_every_earlier_release_is_named_with_its_number(folder):
    with ReleaseLedger(folder) as ledger:
        release(ledger, "a", batch(*range(10)))
        release(ledger, "b", batch(*range(10, 14)))
        ledger.seal(digest("only sealed"), "{}", batch(20))
        with pytest.raises(AlreadyReleased) as caught:
            ledger.seal(digest("c"), "{}", batch(*range(5, 30)))
        assert "25 reports" in str(caught.value)
        assert f"5 in the release {digest('a').hex()}" in str(caught.value)
        assert f"4 in the release {digest('b').hex()}" in str(caught.value)
        assert digest("only sealed").hex() not in str(caught.value)
        assert ledger.find(digest("only sealed")).state is State.SEALED  # a refusal forgets nothing


def test_a_release_that_was_only_sealed_is_replaced(folder):
    with ReleaseLedger(folder) as ledger:
        ledger.seal(digest("a"), "{}", batch(*range(100)))
        ledger.seal(digest("apart"), "{}", batch(*range(200, 210)))
        ledger.seal(digest("b"), "{}", batch(*range(99)))
        assert ledger.find(digest("a")) is None
        assert ledger.find(digest("apart")).state is State.SEALED
        with rejects("manifest_digest", expected="a sealed release"):
            ledger.begin_opening(digest("a"), SUMS)
        ledger.begin_opening(digest("b"), SUMS)
        ledger.seal(digest("what b left free"), "{}", batch(99))


def test_a_repeated_opening_sends_the_same_sums(folder):
    with ReleaseLedger(folder) as ledger:
        ledger.seal(digest("a"), "{}", batch(1))
        first = ledger.begin_opening(digest("a"), SUMS)
        assert np.array_equal(ledger.begin_opening(digest("a"), SUMS + np.uint64(1)), first)
    with ReleaseLedger(folder) as ledger:
        again = ledger.begin_opening(digest("a"), SUMS[:1])
        ledger.finish(digest("a"))
        assert np.array_equal(ledger.begin_opening(digest("a"), SUMS[:1]), first)
    assert (again.dtype, again.shape, again.tobytes()) == (np.uint64, SUMS.shape, SUMS.tobytes())


def test_what_is_given_must_fit_what_was_given(folder):
    with ReleaseLedger(folder) as ledger:
        with rejects("manifest_digest", given="31 bytes"):
            ledger.seal(bytes(31), "{}", batch(1))
        with rejects("ids", given="none"):
            ledger.seal(bytes(32), "{}", batch())
        with rejects("ids"):
            ledger.seal(bytes(32), "{}", batch(1, 1))
        for call in (lambda: ledger.begin_opening(bytes(32), SUMS), lambda: ledger.finish(bytes(32))):
            with rejects("manifest_digest", expected="a sealed release"):
                call()
        ledger.seal(bytes(32), "{}", batch(1))
        with rejects("manifest_digest"):
            ledger.seal(bytes(32), "{}", batch(2))
        with rejects("manifest_digest"):
            ledger.seal(bytes(32), "[]", batch(1))
        with rejects("manifest_digest"):
            ledger.finish(bytes(32))
        with rejects("sums", given="float64"):
            ledger.begin_opening(bytes(32), SUMS.astype(float))
        assert ledger.find(bytes(32)).state is State.SEALED


def test_of_two_releases_at_the_same_time_one_is_opened(folder):
    outcomes = {}

    def attempt(name, report):
        with ReleaseLedger(folder) as ledger:
            try:
                ledger.seal(digest(name), "{}", batch(report))
                outcomes[name, report] = ledger.begin_opening(digest(name), SUMS)
            except InputError:  # opened by the other, or replaced before it was opened
                outcomes[name, report] = None

    for report in range(20):
        threads = [threading.Thread(target=attempt, args=(f"{report}{name}", report)) for name in ("a", "bb")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(outcomes) == 40
    assert sum(sums is not None for sums in outcomes.values()) == 20


def test_a_copied_spool_does_not_help(tmp_path):
    ids = [number.to_bytes(16, "big") for number in range(40)]
    with open_spool(tmp_path / "spool") as store:
        store.add(*upload_of(ids))
    shutil.copytree(tmp_path / "spool", tmp_path / "copy")
    with open_spool(tmp_path / "spool", writer=False) as store, ReleaseLedger(tmp_path / "ledger") as ledger:
        release(ledger, "a", store.ids())
    # Nor does another collection with the same reports in it.
    with ReportStore(
        SqliteDatabase(tmp_path / "other", create=True), bytes(32), 1, SHAPE, ledger=tmp_path / "book"
    ) as other:
        other.add(*upload_of(ids[:1]))
    with (
        open_spool(tmp_path / "copy", writer=False) as copy,
        ReportStore(
            SqliteDatabase(tmp_path / "other", create=False),
            bytes(32),
            1,
            SHAPE,
            ledger=tmp_path / "book",
            writer=False,
        ) as other,
        ReleaseLedger(tmp_path / "ledger") as ledger,
    ):
        for again, shared in [(copy.ids()[1:], 39), (other.ids(), 1)]:
            with pytest.raises(AlreadyReleased, match=f"{shared} in the release"):
                ledger.seal(digest("b"), "{}", again)


def test_a_ledger_lies_apart_and_is_for_its_owner_alone(folder, tmp_path):
    open_spool(tmp_path / "spool").close()
    with rejects("folder", SpoolError):
        ReleaseLedger(tmp_path / "spool")
    before = os.umask(0)
    try:
        with ReleaseLedger(folder) as ledger:
            release(ledger, "a", batch(1))
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    finally:
        os.umask(before)
    assert "ledger.sqlite" in modes
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o755)
    with rejects("folder", SpoolError, expected="0700"):
        ReleaseLedger(folder)


def test_a_ledger_that_cannot_be_read_is_refused(folder):
    with ReleaseLedger(folder) as ledger:
        ledger._database.execute("PRAGMA user_version = 7")
    with rejects("folder", SpoolError):
        ReleaseLedger(folder)
    (folder / "ledger.sqlite").write_bytes(b"\x00\x01" * 4096)
    with rejects(ANY, SpoolError, given="file is not a database"):
        ReleaseLedger(folder)


def test_a_full_disk_records_nothing(folder):
    with ReleaseLedger(folder) as ledger:
        ledger.seal(digest("a"), "{}", batch(1))
        (pages,) = ledger._database.execute("PRAGMA page_count").fetchone()
        ledger._database.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(SpoolError):
            ledger.seal(digest("b"), "{}", batch(*range(1000)))
        with pytest.raises(SpoolError):
            ledger.begin_opening(digest("a"), np.zeros(10_000, np.uint64))
        assert ledger.find(digest("a")).state is State.SEALED
        assert ledger.find(digest("b")) is None
        ledger._database.execute("PRAGMA max_page_count = 1000000")
        ledger.seal(digest("b"), "{}", batch(*range(1000)))


def test_kill_at_any_time(folder):
    """Whatever may have been sent before a kill is still bound to its release, and comes out the same."""
    draw = random.Random(3)
    opened, sent = {}, {}
    for seed in range(10):
        hears, tells = CONTEXT.Pipe(duplex=False)
        process = begin(collection_processes.open_releases, folder, seed, tells)
        tells.close()
        messages = [hears.recv()]
        for _ in range(draw.randrange(20)):
            messages.append(hears.recv())
        process.join(draw.uniform(0, 0.01))
        process.kill()
        process.join()
        try:
            while True:
                messages.append(hears.recv())
        except (EOFError, OSError):
            hears.close()
        for (name, ids), sums in zip(messages[::2], messages[1::2], strict=False):
            if sums is not None:
                opened[name], sent[name] = ids, sums
    everything = [report for ids in opened.values() for report in ids]
    assert len(everything) == len(set(everything)) > 30
    with ReleaseLedger(folder) as ledger:
        for name, ids in opened.items():
            assert ledger.begin_opening(digest(name), SUMS).tolist() == sent[name]
            with pytest.raises(AlreadyReleased):
                ledger.seal(digest("other" + name), "{}", batch(ids[0]))


PROCESSES = st.integers(0, 1)


class LedgerMachine(RuleBasedStateMachine):
    """The ledger against dictionaries: seal, open, finish, restart, by two processes that have it open."""

    folder = None

    @initialize()
    def begin(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.ledgers = [ReleaseLedger(self.folder) for _ in range(2)]
        self.batches, self.states, self.sums = {}, {}, {}

    @rule(
        process=PROCESSES, name=st.sampled_from("abcdef"), ids=st.frozensets(st.integers(0, 8), min_size=1, max_size=4)
    )
    def seal(self, process, name, ids):
        overlap = [other for other in self.batches if other != name and self.batches[other] & ids]
        if name in self.batches:
            if ids == self.batches[name]:
                assert self.ledgers[process].seal(digest(name), name, batch(*ids)).state == self.states[name]
            else:
                with rejects("manifest_digest"):
                    self.ledgers[process].seal(digest(name), name, batch(*ids))
        elif any(self.states[other] is not State.SEALED for other in overlap):
            with pytest.raises(AlreadyReleased):
                self.ledgers[process].seal(digest(name), name, batch(*ids))
        else:
            self.ledgers[process].seal(digest(name), name, batch(*ids))
            for other in overlap:
                del self.batches[other], self.states[other]
            self.batches[name], self.states[name] = ids, State.SEALED

    @rule(process=PROCESSES, name=st.sampled_from("abcdef"), value=st.integers(0, 100))
    def open(self, process, name, value):
        if name in self.states:
            if self.states[name] is State.SEALED:
                self.states[name], self.sums[name] = State.OPENING, value
            assert self.ledgers[process].begin_opening(digest(name), np.array(value, np.uint64)) == self.sums[name]

    @rule(process=PROCESSES, name=st.sampled_from("abcdef"))
    def finish(self, process, name):
        if self.states.get(name, State.SEALED) is not State.SEALED:
            self.ledgers[process].finish(digest(name))
            self.states[name] = State.OPENED

    @rule(process=PROCESSES)
    def restart(self, process):
        self.ledgers[process].close()
        self.ledgers[process] = ReleaseLedger(self.folder)

    @invariant()
    def same_as_the_model(self):
        for name in "abcdef":
            for ledger in self.ledgers:
                entry = ledger.find(digest(name))
                assert (entry and entry.state) == self.states.get(name)

    def teardown(self):
        for ledger in self.ledgers:
            ledger.close()


def test_the_ledger_is_a_dictionary(folder):
    run_in(folder, LedgerMachine, steps=15)


def test_a_release_of_more_reports_than_a_row_holds_is_remembered_whole(folder, monkeypatch):
    monkeypatch.setattr(ledger_tables, "_IDS_IN_A_ROW", 3)
    with ReleaseLedger(folder) as ledger:
        ledger.seal(digest("replaced"), "{}", batch(*range(5, 30)))
        release(ledger, "a", batch(*range(10)))
        assert ledger.begun(batch(*range(30))).tolist() == [True] * 10 + [False] * 20
        np.testing.assert_array_equal(ledger.batch(digest("a")), batch(*range(10)))
        for report in (0, 3, 9):
            with pytest.raises(AlreadyReleased):
                ledger.require_unreleased(batch(report, 40))
        release(ledger, "b", batch(*range(10, 30)))
        ledger.scrub()


def test_the_releases_and_their_batches_can_be_listed(folder):
    with ReleaseLedger(folder) as ledger:
        assert ledger.releases() == []
        ledger.seal(digest("a"), "a", batch(*range(10)))
        release(ledger, "b", batch(*range(10, 13)))
        assert [(entry.manifest, entry.state) for entry in ledger.releases()] == [
            ("a", State.SEALED),
            ("b", State.OPENED),
        ]
        np.testing.assert_array_equal(ledger.batch(digest("a")), batch(*range(10)))
        np.testing.assert_array_equal(ledger.batch(digest("b")), batch(*range(10, 13)))
        assert ledger.batch(digest("c")).shape == (0, 16)


def test_what_would_not_be_sealed_is_refused_before_there_is_a_manifest(folder):
    with ReleaseLedger(folder) as ledger:
        ledger.seal(digest("a"), "a", batch(*range(10)))
        for _ in range(2):
            ledger.require_unreleased(batch(*range(10)))  # only sealed
        ledger.begin_opening(digest("a"), SUMS)
        for _ in range(2):
            with rejects("ids", AlreadyReleased):
                ledger.require_unreleased(batch(9, 10))
        ledger.require_unreleased(batch(10, 11))
        with rejects("ids"):
            ledger.require_unreleased(batch(9, 10)[::-1])
        assert ledger.releases()[0].state is State.OPENING


def test_a_ledger_that_was_emptied_is_not_begun_anew(tmp_path):
    """The commitments of its releases lie beside it."""
    folder = tmp_path / "ledger"
    ReleaseLedger(folder).close()
    Openings(folder).salt(bytes(32), begun=False)
    ReleaseLedger(folder).close()
    (folder / "ledger.sqlite").write_bytes(b"")
    with rejects("folder", SpoolError):
        ReleaseLedger(folder)


def test_a_report_has_one_answer_for_ever(tmp_path):
    """In whatever parts it is asked for, and by whatever collection."""
    hashes = np.arange(6, dtype=np.uint64)
    with ReleaseLedger(tmp_path) as ledger:
        assert ledger.record_answers(bytes(32), batch(1, 3, 5), hashes[:3]).tolist() == [True] * 3
        assert ledger.record_answers(bytes(32), batch(3, 4), hashes[3:5]).tolist() == [False, True]
        assert ledger.record_answers(b"\x01" * 32, batch(3), hashes[5:]).tolist() == [True]
        assert ledger.record_answers(bytes(32), batch(), hashes[:0]).tolist() == []
    with ReleaseLedger(tmp_path) as ledger:
        assert ledger.record_answers(bytes(32), batch(1, 2, 3, 4, 5, 6), hashes).tolist() == [
            *(True, True, False, False, False, True),
        ]
        assert ledger.record_answers(bytes(32), batch(1, 3, 4), hashes[[0, 1, 4]]).tolist() == [True] * 3
        ledger.scrub()
