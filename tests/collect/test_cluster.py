"""`dpmpc release --cluster`: a server's pieces on Dask workers, some of which die, or have another version."""

import functools
import os

import distributed
import numpy as np
import pytest

from dpmpc.base.errors import InputError, ProtocolFailure
from dpmpc.collect.opening import pieces, proof_checks
from dpmpc.collect.opening.pieces import ScanTask, Spread, SumTask, sums_by_pieces
from dpmpc.collect.opening.releasing import ReleasingServer
from dpmpc.collect.store.server_folder import ServerFolder
from dpmpc.parties import cluster
from dpmpc.parties.cluster import DaskCluster, require_encrypted
from support.dask_workers import Killing, two_workers
from support.proved_collections import PROVED, converse, released, rows_of_clients, without_noise
from support.rejections import rejects
from support.release_processes import COUNT, Trial, run
from support.report_stores import STORES

PATIENCE = 60.0


@pytest.fixture(scope="module")
def address():
    with two_workers() as scheduler:
        yield scheduler


@pytest.fixture
def dask_cluster(address):
    with DaskCluster(address, PATIENCE) as connected:
        yield connected


def ordered(trial):
    return np.frombuffer(b"".join(sorted(trial.ids)), np.uint8).reshape(-1, 16)


@pytest.mark.parametrize("proved", [False, True])
def test_a_release_by_a_cluster_has_the_sums_of_one_without(tmp_path, address, proved):
    """Three processes of `dpmpc release`, two of which have their pieces computed by the same workers."""
    trial = Trial.filled(tmp_path / "trial", **(PROVED if proved else {}))
    ended = run(trial, only=dict.fromkeys((1, 2), ("--cluster", address)))
    assert {each.status for each in ended.values()} == {0}, ended
    assert len({trial.out(server).read_bytes() for server in range(3)}) == 1


def test_a_release_goes_on_when_a_worker_is_killed(tmp_path, dask_cluster, monkeypatch):
    """Seven pieces of proofs and seven of sums; a worker is killed in each, and the sums are those of the rows."""
    size = -(-COUNT // 7)
    monkeypatch.setattr(proof_checks, "PIECE", size)
    monkeypatch.setattr(pieces, "SUMMED", size)
    trial = Trial.filled(tmp_path / "trial", **PROVED)
    killing = Killing(dask_cluster)
    location = ServerFolder(trial.folder(2)).location(trial.collection, 2)
    spread = functools.partial(ReleasingServer, spread=Spread(killing, location))
    with without_noise():
        released(trial, rows_of_clients(), converse(trial, kinds={2: spread}))
    assert len(killing.killed) == 2


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("options", [PROVED, {"sketch": "osnap", "rows": 20, "sparsity": 2}], ids=["proved", "osnap"])
def test_workers_compute_the_same_bits_from_either_database(
    tmp_path, dask_cluster, request, kind, options, monkeypatch
):
    monkeypatch.setattr(pieces, "SUMMED", 50)
    trial = Trial.make(tmp_path / "trial", **options)
    folder = ServerFolder(trial.folder(2))
    if kind == "postgres":
        folder.use_store(request.getfixturevalue("postgres").database())
    trial.fill(2)
    ids, location = ordered(trial), folder.location(trial.collection, 2)
    task = trial.collection.task(len(ids), bytes(32))
    work = SumTask(trial.collection, 2, location, task, 1)
    with folder.open_spool(trial.collection, 2, writer=False) as spool:
        expected = SumTask(trial.collection, 2, spool, task, 1)((0, ids))
        np.testing.assert_array_equal(sums_by_pieces(dask_cluster, work, ids), expected)
        if trial.collection.proved:
            scan = ScanTask(trial.collection.plan, trial.collection.digest, 2, spool, bytes(32))
            whole = scan(ids)
            scan = ScanTask(trial.collection.plan, trial.collection.digest, 2, location, bytes(32))
            parts = dask_cluster.map(scan, np.array_split(ids, 5))
            for joined, alone in zip(map(np.concatenate, zip(*parts, strict=True)), whole, strict=True):
                np.testing.assert_array_equal(joined, alone)


def test_a_worker_of_another_version_runs_nothing(dask_cluster, monkeypatch):
    monkeypatch.setattr(cluster, "_version", lambda: "99.0")
    with rejects("cluster"):
        next(dask_cluster.map(len, [b"item"]))


def test_what_a_task_raises_is_raised_here(dask_cluster):
    with pytest.raises(ValueError, match="negative"):
        list(dask_cluster.map(bytes, [3, -1]))


def test_a_task_that_kills_its_workers_ends(dask_cluster):
    with pytest.raises(ProtocolFailure, match="died again and again"):
        list(dask_cluster.map(os._exit, [1]))


def test_results_that_are_left_when_the_connection_closes_raise_nothing(address):
    with DaskCluster(address, PATIENCE) as connected:
        results = connected.map(len, [b"item"] * 100)
        assert next(results) == 4
    results.close()


def test_a_cluster_without_workers_is_not_waited_for_for_ever():
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=":0") as empty,
        DaskCluster(empty.scheduler_address, 0.5) as connected,
        pytest.raises(ProtocolFailure, match="0 workers"),
    ):
        list(connected.map(len, [b"item"]))


def test_an_address_where_nobody_listens_is_an_error():
    with pytest.raises(InputError, match="cannot be reached"):
        DaskCluster("tcp://127.0.0.1:9", 0.5)


@pytest.mark.parametrize("accepted", ["tls://host:8786", "tcp://127.0.0.1:8786", "tcp://localhost:1", "tcp://[::1]:1"])
def test_links_are_encrypted_or_within_this_machine(accepted):
    assert require_encrypted(accepted) == accepted


@pytest.mark.parametrize(
    "refused",
    ["tcp://host:8786", "tcp://10.0.0.1:8786", "host:8786", "ucx://127.0.0.1:1", "tls://host", "tls://h:x", ""],
)
def test_other_links_are_refused(refused):
    with rejects("cluster"):
        require_encrypted(refused)
