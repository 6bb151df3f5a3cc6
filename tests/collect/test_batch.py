"""Which reports a release opens when the servers hold more than the largest batch, or only one of them does."""

import hashlib

import numpy as np

from dpmpc.base.randomness import Label
from dpmpc.collect.opening.agreement import batch_digest
from dpmpc.collect.store.server_folder import ServerFolder
from dpmpc.collect.terms.verifying import verify
from dpmpc.collect.upload.reports import ReportFormat
from support.release_processes import Trial, run

TOSS = bytes(range(32))


def ids_of(count, seed=3):
    draw = np.random.default_rng(seed)
    return np.array([list(report) for report in sorted(draw.bytes(16) for _ in range(count))], np.uint8)


def test_the_toss_chooses_among_too_many_reports(tmp_path):
    collection = Trial.make(tmp_path, count=1, largest_batch=300).collection
    ids = ids_of(700)
    ranks = sorted(bytes(report) for report in ids)
    ranks.sort(key=lambda report: hashlib.sha256(b"dpmpc v1 batch choice" + TOSS + report).digest())
    chosen = collection.chosen(ids, TOSS)
    assert [bytes(report) for report in chosen] == sorted(ranks[:300])
    assert Label.BATCH_CHOICE.value == b"dpmpc v1 batch choice"
    other = {bytes(report) for report in collection.chosen(ids, bytes(32))}
    assert 60 < len(other & set(map(bytes, chosen))) < 200  # 129 on average, sd 7
    few = collection.chosen(ids[:300], TOSS)
    assert np.array_equal(few, ids[:300])


def stuff(trial, server, count):
    """Store reports that a stranger sent to one server alone."""
    shape = ReportFormat(trial.collection, server).stored_shape
    draw = np.random.default_rng(server)
    with ServerFolder(trial.folder(server)).open_spool(trial.collection, server, writer=True) as spool:
        spool.add([draw.bytes(16) for _ in range(count)], np.zeros((count, *shape), np.uint64))


def test_more_reports_than_the_largest_batch_are_released_in_part(tmp_path):
    """210 reports at all servers, 205 may be opened; a stranger has sent 500 others to one server and 90 to another."""
    trial = Trial.make(tmp_path, largest_batch=205)
    for server in range(3):
        trial.fill(server)
    stuff(trial, 0, 500)
    stuff(trial, 2, 90)
    ended = run(trial)
    assert {each.status for each in ended.values()} == {0}, ended
    assert "205 of the 210 reports chosen by the toss" in ended[1].told
    verified = verify(trial.out(0), trial.collection)
    manifest = verified.certificate.statement.manifest
    assert manifest.clients == 205
    own = np.array([list(report) for report in sorted(trial.ids)], np.uint8)
    chosen = trial.collection.chosen(own, bytes.fromhex(manifest.toss))
    assert batch_digest(chosen).hex() == manifest.batch
    release = verified.release
    kept = {bytes(report) for report in chosen}
    expected = trial.expected(release, [index for index, report in enumerate(trial.ids) if report in kept])
    assert np.array_equal(release.sums, expected)
