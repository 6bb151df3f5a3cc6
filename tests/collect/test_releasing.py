"""dpmpc.collect.opening.releasing: what one server of a release leaves out, computes and binds by itself."""

import contextlib
import io
import types

import numpy as np
import pytest

from dpmpc.base.errors import AlreadyReleased, SpoolError
from dpmpc.base.randomness import KEY_BYTES
from dpmpc.collect.opening.agreement import batch_digest
from dpmpc.collect.opening.pieces import WithoutMask
from dpmpc.collect.opening.releasing import ReleasingServer
from dpmpc.collect.store.ledger import ReleaseLedger, State
from dpmpc.collect.store.report_store import ReportStore
from dpmpc.collect.store.server_folder import ServerFolder
from dpmpc.collect.store.sqlite_database import SqliteDatabase
from dpmpc.collect.terms.certificate import manifest_of
from dpmpc.collect.upload.reports import ReportFormat
from dpmpc.linear.encoding.ring import Mersenne61
from dpmpc.linear.sharing.batch import ArrayShare
from dpmpc.linear.sharing.check_values import draw_coefficients
from dpmpc.release.server import transform
from support.rejections import rejects
from support.release_processes import COUNT, MINIMUM, Trial, damage
from support.report_words import words_of

SEED = bytes(range(32))


@pytest.fixture
def opened(tmp_path):
    """Open server 0 of a filled trial."""
    stores = []

    def open_it(trial, ledger=None):
        folder = ServerFolder(trial.folder(0))
        spool = folder.open_spool(trial.collection, 0, writer=False)
        ledger = ReleaseLedger(folder.ledger)
        stores.extend((spool, ledger))
        return ReleasingServer(
            trial.collection,
            0,
            spool,
            ledger,
            folder.identity,
            tmp_path / "out",
            folder.released(trial.collection),
            False,
            1,
            lambda line: None,
        )

    yield open_it
    for store in stores:
        store.close()


def open_elsewhere(server, ids):
    server.ledger.seal(bytes(32), "{}", ids)
    server.ledger.begin_opening(bytes(32), np.zeros(1, np.uint64))


def test_withdrawals_wait_for_a_batch_that_may_be_fixed(tmp_path, opened):
    server = opened(Trial.filled(tmp_path / "trial"))
    ids = server.available().ids
    assert server.spool.announced
    server.spool.take_back_announcement()
    assert not server.spool.announced
    server.available()
    task = server.collection.task(len(ids), bytes(32))
    batch = {"batch": batch_digest(ids), "toss": bytes(32), "time": server.collection.closes}
    server.seal(manifest_of(server.collection, task, **batch), ids)
    server.spool.take_back_announcement()
    assert server.spool.announced
    assert server.spool.withdraw([ids[0].tobytes()]) == ["too late"]


def test_reports_of_an_earlier_release_and_damaged_ones_are_left_out_and_counted(tmp_path, opened):
    trial = Trial.filled(tmp_path / "trial")
    server = opened(trial)
    everything = server.spool.ids()
    assert server.available().left_out == {}
    np.testing.assert_array_equal(server.available().ids, everything)
    server.ledger.seal(b"\1" * 32, "{}", everything[5:7])  # only sealed: it may be replaced
    open_elsewhere(server, everything[:3])
    damage(trial.folder(0), trial.ids[1])
    available = server.available()
    damaged = sum(row.tobytes() == trial.ids[1] for row in everything[:3])
    assert available.left_out == {"released before": 3 - damaged, "damaged": 1}
    assert len(available.ids) == COUNT - 4 + damaged
    assert not set(map(bytes, available.ids)) & set(map(bytes, everything[:3]))


@pytest.mark.parametrize("left", [MINIMUM, MINIMUM - 1])
def test_where_too_few_are_left_the_earlier_release_is_named(tmp_path, opened, left):
    server = opened(Trial.filled(tmp_path / "trial"))
    open_elsewhere(server, server.spool.ids()[: COUNT - left])
    if left == MINIMUM:
        assert len(server.available().ids) == MINIMUM
    else:
        with rejects("ids", AlreadyReleased):
            server.available()


def test_a_damaged_ledger_is_refused_before_the_intake_is_closed(tmp_path, opened):
    server = opened(Trial.filled(tmp_path / "trial"))
    open_elsewhere(server, server.spool.ids()[:3])
    server.ledger._database.execute("DELETE FROM batches")
    with pytest.raises(SpoolError):
        server.require_ready()
    assert not server.spool.closed


def test_nothing_is_bound_until_every_server_has_transformed(tmp_path, opened):
    server = opened(Trial.filled(tmp_path / "trial"))
    ids = server.spool.ids()
    task = server.collection.task(len(ids), bytes(32))
    manifest = types.SimpleNamespace(digest=b"\7" * 32)
    server.ledger.seal(manifest.digest, "{}", ids)
    meter = types.SimpleNamespace(phase=contextlib.nullcontext)
    sums = server.transformed_share(manifest, task, meter)
    assert server.ledger.find(manifest.digest).state is State.SEALED
    np.testing.assert_array_equal(server.bound_share(manifest, sums), sums)
    assert server.ledger.find(manifest.digest).state is State.OPENING
    np.testing.assert_array_equal(server.bound_share(manifest, sums + np.uint64(1)), sums)
    np.testing.assert_array_equal(server.transformed_share(manifest, task, meter), sums)


@pytest.mark.parametrize(("ring", "copies"), [("ring64", "each"), ("mersenne61", "each")])
def test_a_release_from_keys_as_they_were_sent_has_the_bits_of_one_from_words(tmp_path, opened, ring, copies):
    trial = Trial.filled(tmp_path / "trial", ring=ring, copies=copies)
    server = opened(trial)
    ids = server.spool.ids()
    assert server.spool.shape == (1, KEY_BYTES // 8)
    task = server.collection.task(len(ids), bytes(32))
    assert not task.servers_add_noise  # it would be other noise each time
    manifest = types.SimpleNamespace(digest=b"\7" * 32)
    server.ledger.seal(manifest.digest, "{}", ids)
    meter = types.SimpleNamespace(phase=contextlib.nullcontext)
    own = dict(zip(trial.ids, trial.records[0], strict=True))
    body = b"".join(own[one.tobytes()] for one in ids)
    words = words_of(ReportFormat(server.collection, 0), body)
    expected = transform(task, ArrayShare(words, task.encoding.ring))
    np.testing.assert_array_equal(server.transformed_share(manifest, task, meter), expected)


@pytest.mark.parametrize("copies", ["each", "one"])
def test_a_spool_of_shares_is_refused_where_keys_are_kept_and_left_as_it_is(tmp_path, copies):
    """Where there is one copy of two columns, a key and a share have the same shape."""
    trial = Trial.make(tmp_path / "trial", copies=copies)
    collection, folder = trial.collection, ServerFolder(trial.folder(0))
    assert (collection.record_shape == ReportFormat(collection, 0).stored_shape) == (copies == "one")
    words = words_of(ReportFormat(collection, 0), b"".join(trial.records[0]))
    kept = collection.digest, 0, collection.record_shape, collection.plan.encoding.ring
    with ReportStore(SqliteDatabase(folder.spool, create=True), *kept, ledger=folder.ledger) as old:
        old.add(trial.ids, words)
    before = {path.name: path.read_bytes() for path in folder.spool.iterdir() if path.suffix == ".npy"}
    for writer in (True, False):
        with pytest.raises(SpoolError):
            folder.open_spool(collection, 0, writer=writer)
    assert {path.name: path.read_bytes() for path in folder.spool.iterdir() if path.suffix == ".npy"} == before
    with ReportStore(SqliteDatabase(folder.spool, create=True), *kept, ledger=folder.ledger) as old:
        assert [one.tobytes() for one in old.ids()] == sorted(trial.ids)


def test_check_values_are_of_all_words_and_the_mask_whatever_the_blocks(tmp_path, opened, monkeypatch):
    trial = Trial.make(tmp_path / "trial", sharing="shamir")
    trial.fill(0)
    server = opened(trial)
    ids = server.spool.ids()
    rows = server.spool.share(ids).rows(0, COUNT).reshape(COUNT, -1)
    weights = [*map(int, draw_coefficients(SEED, rows.shape[1] - 1)), 1]
    expected = [sum(a * int(x) for a, x in zip(weights, row, strict=True)) % Mersenne61.modulus for row in rows]
    assert server.check_values(ids, SEED).tolist() == expected
    monkeypatch.setattr("dpmpc.collect.opening.releasing._CHECKED_AT_ONCE", 7 * 8 * rows.shape[1])
    assert server.check_values(ids, SEED).tolist() == expected


def test_the_mask_is_no_part_of_what_is_transformed():
    rows = np.arange(3 * 7, dtype=np.uint64).reshape(3, 1, 7)
    share = WithoutMask(ArrayShare(rows, "mersenne61"), (3, 2, 3))
    np.testing.assert_array_equal(share.rows(1, 2), rows[1:, 0, :6].reshape(2, 2, 3))
    buffer = io.BytesIO()
    share.write(buffer)
    buffer.seek(0)
    np.testing.assert_array_equal(np.load(buffer), rows[:, 0, :6].reshape(3, 2, 3))
