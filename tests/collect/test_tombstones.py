"""dpmpc.collect.store.tombstones: a withdrawal outlives the spool, at any moment of a crash, and costs one lookup."""

import os
import shutil
import signal
import sqlite3
import time

import numpy as np
import pytest

from dpmpc.base.errors import SpoolError, Withdrawn
from dpmpc.collect.store.ledger import ReleaseLedger
from dpmpc.collect.store.server_folder import ServerFolder
from dpmpc.collect.store.tombstones import Tombstones
from dpmpc.collect.terms.withdrawal_verdict import Fate
from support.collection_processes import (
    DIGEST,
    as_array,
    holds,
    ledger_of,
    open_spool,
    reports,
    upload_of,
)
from support.processes import begin
from support.release_processes import COUNT, Trial, assert_released, run
from support.report_stores import STORES, place_of, put_back, put_by

IDS = reports(9)
MANIFEST = f'{{"collection": "{DIGEST.hex()}"}}'


@pytest.fixture(params=STORES)
def place(request, tmp_path):
    return place_of(request, tmp_path)


def stored(place):
    with open_spool(place) as store:
        store.add(*upload_of(IDS))


def test_a_store_that_was_put_back_keeps_withdrawn_reports_out(place):
    stored(place)
    kept = put_by(place)
    with open_spool(place) as store:
        assert store.withdraw(IDS[:3]) == [Fate.NOW] * 3
    put_back(place, kept)
    with open_spool(place, writer=False) as release:  # before a server has started again
        found = release.intact()
        assert (found.ids.tobytes(), found.damaged, found.withdrawn) == (as_array(IDS[3:]).tobytes(), 0, 3)
        assert release.ids().tobytes() == as_array(IDS[3:]).tobytes()
    with open_spool(place) as store:
        assert store.tally() == (6, 3)
        assert store.withdraw(IDS[:4]) == [Fate.BEFORE] * 3 + [Fate.NOW]
        assert holds(store, IDS[4:])
        with pytest.raises(Withdrawn):
            store.add(*upload_of(IDS[:1]))


def test_a_store_that_lacks_the_report_since_it_was_put_back_refuses_it(place):
    with open_spool(place) as store:
        store.add(*upload_of(IDS[:2]))
    kept = put_by(place)
    with open_spool(place) as store:
        store.add(*upload_of(IDS[2:]))
        store.withdraw(IDS[2:4])
    put_back(place, kept)
    with open_spool(place) as store:
        assert store.tally() == (2, 0)
        with pytest.raises(Withdrawn):
            store.add(*upload_of(IDS[2:]))
        assert store.withdraw([IDS[2], IDS[5]]) == [Fate.BEFORE, Fate.NEVER]
        for report in IDS[3:6:2]:
            with pytest.raises(Withdrawn):
                store.add(*upload_of([report]))
        store.add(*upload_of(IDS[6:]))
        assert holds(store, IDS[:2] + IDS[6:])


@pytest.mark.parametrize("older", [False, True], ids=["deleted", "put-back"])
def test_a_ledger_that_has_forgotten_what_the_store_overwrote_is_refused(place, tmp_path, older):
    stored(place)
    ledger, aside, copy = ledger_of(place), tmp_path / "aside", tmp_path / "copy"
    with open_spool(place) as store:
        store.withdraw(IDS[:1])
    shutil.copytree(ledger, copy)
    with open_spool(place) as store:
        store.withdraw(IDS[1:3])
    ledger.rename(aside)
    if older:
        shutil.copytree(copy, ledger)
    told = (
        rf"{int(older)} withdrawals from collection .* at least 3 expected, .* put it in place; else: nothing was sent"
    )
    for writer in (True, False, True):  # a server, a release, and a server that is started again
        with pytest.raises(SpoolError, match=told):
            open_spool(place, writer=writer)
    shutil.rmtree(ledger)
    aside.rename(ledger)
    with open_spool(place) as store:
        assert store.tally() == (6, 3)
        assert store.withdraw(IDS[:1]) == [Fate.BEFORE]


def test_after_a_release_a_store_that_was_put_back_asks_the_ledger(place):
    """The batch holds the first reports; the spool is from before all of them."""
    with open_spool(place) as store:
        kept = put_by(place)
    stored(place)
    with open_spool(place, writer=False) as store, ReleaseLedger(ledger_of(place)) as ledger:
        store.announce()
        ledger.seal(bytes(32), MANIFEST, as_array(IDS[:5]))
        ledger.begin_opening(bytes(32), np.zeros(1, np.uint64))
        store.take_back_announcement()
    put_back(place, kept)
    with open_spool(place) as store:
        assert store.announced
        assert store.withdraw([IDS[0], IDS[4], bytes(16)]) == [Fate.LATE, Fate.LATE, Fate.NEVER]
        assert store.tally() == (0, 0)


def withdraw_and_die(place, step):
    """Die at the end of a step of a withdrawal."""
    with open_spool(place) as store:
        holder = store._tombstones if step == "bury" else store._blocks
        original = getattr(holder, step)

        def deadly(*given):
            original(*given)
            os.kill(os.getpid(), signal.SIGKILL)

        setattr(holder, step, deadly)
        store.withdraw(IDS[:3])


@pytest.mark.parametrize(("step", "gone"), [("find", []), ("bury", IDS[:3]), ("erase", IDS[:3])])
def test_a_kill_between_two_steps_of_a_withdrawal_leaves_the_safe_state(place, step, gone):
    """Either nothing has happened, or the report is out for good, also where its words are still there."""
    stored(place)
    process = begin(withdraw_and_die, place, step)
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    left = [report for report in IDS if report not in gone]
    with open_spool(place, writer=False) as release:
        assert release.intact().ids.tobytes() == as_array(left).tobytes()
    with open_spool(place) as store:
        assert holds(store, left)
        assert store.intact().damaged == 0
        assert store.withdraw(IDS[:3]) == [Fate.BEFORE if gone else Fate.NOW] * 3


def test_an_announcement_is_taken_back_until_a_release_is_sealed(tmp_path):
    with Tombstones(tmp_path / "ledger", DIGEST) as one, Tombstones(tmp_path / "ledger", bytes(32)) as other:
        one.announce()
        assert one.bury(IDS[:2], IDS) == [Fate.LATE] * 2
        assert other.bury(IDS[:2], IDS[:1]) == [Fate.NOW, Fate.NEVER]  # of another collection
        assert one.take_back_announcement()
        assert one.bury(IDS[:2], IDS) == [Fate.NOW] * 2
        one.announce()
        with ReleaseLedger(tmp_path / "ledger") as ledger:
            ledger.seal(bytes(32), MANIFEST, as_array(IDS[4:]))
        assert not one.take_back_announcement()
        assert one.announced
        assert one.bury(IDS[1:4], []) == [Fate.BEFORE, Fate.NEVER, Fate.NEVER]


def test_a_report_that_was_stored_beside_its_tombstone_is_released_by_nobody(place):
    """Two workers at once: one has found no tombstone and stores, the other no report and puts the tombstone."""
    with open_spool(place) as store, Tombstones(ledger_of(place), DIGEST) as other:
        assert other.bury(IDS[:2], [], allowance=2) == [Fate.NEVER] * 2
        original, store._tombstones.among = store._tombstones.among, lambda ids: set()
        store.add(*upload_of(IDS[:3]))
        store._tombstones.among = original
        assert store.ids().tobytes() == as_array(IDS[2:3]).tobytes()
        found = store.intact()
        assert (found.ids.tobytes(), found.damaged) == (as_array(IDS[2:3]).tobytes(), 0)
        store.announce()
        assert store.withdraw(IDS[:1]) == [Fate.NOW]  # it is in no batch, so that this is true
        store.take_back_announcement()
        assert store.withdraw(IDS[:2]) == [Fate.BEFORE, Fate.NOW]
    with open_spool(place) as store:
        assert store.tally() == (1, 2)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE tombstones SET came = 0 WHERE id = ?",
        "INSERT INTO tombstones SELECT collection, CAST(id || x'00' AS BLOB), 0 FROM tombstones WHERE id = ?",
        "DELETE FROM tombstones WHERE id = ?",
        "UPDATE tombstones SET id = x'00000000000000000000000000000000' WHERE id = ?",
        "UPDATE tombstones SET id = 'text' WHERE id = ?",
        "UPDATE tombstones SET collection = x'00' WHERE id = ?",
        "UPDATE kept SET value = x'00' WHERE name LIKE 'tombstones%' OR ?",
    ],
)
def test_a_tombstone_that_changed_is_noticed_before_a_release_gathers(tmp_path, change):
    place = tmp_path / "spool"
    stored(place)
    with open_spool(place) as store:
        store.withdraw(IDS[:3])
    with sqlite3.connect(ledger_of(place) / "ledger.sqlite") as database:
        database.execute(change, (IDS[1],))
    database.close()
    with (
        pytest.raises(SpoolError),
        open_spool(place, writer=False) as store,
    ):
        store.intact()


def test_a_withdrawal_costs_the_same_whatever_is_stored(tmp_path):
    """Of an id that was never here, and of one that is: fifty times the reports, less than five times the CPU."""
    spent = {}
    for count in (2_000, 100_000):
        ids = np.random.default_rng(count).bytes(16 * count)
        ids = [ids[first : first + 16] for first in range(0, len(ids), 16)]
        with open_spool(tmp_path / f"spool-{count}", shape=(1, 2)) as store:
            store.add(ids, np.ones((count, 1, 2), np.uint64))
            store.withdraw(ids[:1])  # reads the index once
            for kind, asked in (("never", reports(100)), ("here", ids[1:31])):
                start = time.process_time()
                for report in asked:
                    store.withdraw([report])
                    len(store)
                spent[kind, count] = time.process_time() - start
    for kind in ("never", "here"):
        assert spent[kind, 100_000] < 5 * spent[kind, 2_000] + 0.05, spent


def test_reports_that_were_withdrawn_stay_out_though_every_spool_is_put_back(tmp_path):
    """All servers have said that they are withdrawn; then each operator restores the spool from before."""
    trial, gone = Trial.filled(tmp_path / "trial"), [2, 3, 50]
    for server in range(3):
        folder = ServerFolder(trial.folder(server))
        shutil.copytree(folder.spool, tmp_path / f"kept-{server}")
        with folder.open_spool(trial.collection, server, writer=True) as spool:
            assert spool.withdraw([trial.ids[one] for one in gone]) == [Fate.NOW] * 3
        shutil.rmtree(folder.spool)
        shutil.copytree(tmp_path / f"kept-{server}", folder.spool)
    assert {one.status for one in run(trial).values()} == {0}
    verified = assert_released(trial, indices=[index for index in range(COUNT) if index not in gone])
    assert verified.certificate.statement.manifest.left_out == {str(server): {"withdrawn": 3} for server in range(3)}
