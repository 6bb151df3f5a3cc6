"""A server's transform on a Dask cluster: the bits of the one machine, from every kind of share, noise drawn once."""

import os
import sys
from contextlib import contextmanager

import cloudpickle
import dask.array as da
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed import Client, LocalCluster

from dpmpc.base.errors import BatchMismatch, InputError, ProtocolFailure, SimulationOnly
from dpmpc.base.randomness import Stream
from dpmpc.data import Schema
from dpmpc.linear.sharing.batch import ArrayShare, save_share
from dpmpc.parties import cluster
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release import server
from dpmpc.release.analyst import open_sums
from dpmpc.release.client import share_batch
from dpmpc.release.planning import design

CLIENTS, WIDTH, CHUNK = 2000, 3, 77  # 26 chunks: two rounds of additions, and a last chunk that is shorter
KEY = bytes(range(16))
CHOICES = [{"ring": ring, "copies": copies} for ring in ("ring64", "mersenne61") for copies in ("one", "each")]


def task_of(**choices):
    choices = {"clients": CLIENTS, "sketch": "osnap", "rows": 20, "sparsity": 4, "simulation_seed": 3, **choices}
    return design(ReleaseSpec.of(Schema.unit(["a", "b", "y"]), epsilon=1.0, delta=1e-6, **choices))


def shares_of(task):
    rows = np.random.default_rng(1).uniform(-1, 1, (task.clients, WIDTH))
    return share_batch(task, rows, stream=Stream.from_seed(8))


def saved(share, folder):
    path = folder / "share.npy"
    save_share(path, share)
    return path


def write_parquet(task, words, folder):
    """Two files, row groups of 300: of 300, 300, 100 and of 300, .., 300, 100 clients."""
    flat = words.reshape(len(words), -1)
    paths = [folder / name for name in ("z.parquet", "a.parquet")]  # the order given counts, not the names'
    for path, part in zip(paths, (flat[:700], flat[700:]), strict=True):
        columns = {f"{copy}.{i}": part[:, copy * WIDTH + i] for copy in range(task.copies) for i in range(WIDTH)}
        pq.write_table(pa.table(columns), path, row_group_size=300)
    return paths


@contextmanager
def cluster_of(workers):
    """Worker processes on loopback, a free port for everything."""
    options = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "threads_per_worker": 1}
    with LocalCluster(n_workers=workers, memory_limit="1GiB", **options) as local, Client(local, timeout=120) as client:
        yield client


@pytest.fixture(scope="module")
def client():
    with cluster_of(2) as connected:
        yield connected


@pytest.mark.parametrize("choices", CHOICES, ids=lambda choices: "-".join(choices.values()))
def test_a_cluster_gives_the_bits_of_one_machine(choices, client, tmp_path):
    task = task_of(**choices)
    keyed, *_, last = shares_of(task)
    expected = server.transform(task, last, simulation_key=KEY)
    path = saved(last, tmp_path)
    parquet = cluster.parquet_share(task, write_parquet(task, last.array, tmp_path))
    assert parquet.chunks[0] == (300, 300, 100, 300, 300, 300, 300, 100)
    mapped = da.from_array(np.load(path, mmap_mode="r"), chunks=(CHUNK, -1, 2))
    options = {"client": client, "simulation_key": KEY, "deadline": 60}
    assert (cluster.transform(task, path, chunk=CHUNK, **options) == expected).all()
    assert (cluster.transform(task, parquet, **options) == expected).all()
    assert (cluster.transform(task, mapped, **options) == expected).all()
    expected = server.transform(task, keyed, simulation_key=KEY)
    assert (cluster.transform(task, keyed, chunk=CHUNK, **options) == expected).all()


def chunkings():
    """Numbers of clients and of them in a chunk; a graph of 2,000 chunks takes seconds."""
    yield from ((clients, chunk) for clients in (100, CLIENTS) for chunk in (None, clients - 1, clients))
    yield 100, 1
    yield pytest.param(CLIENTS, 1, marks=pytest.mark.long("a chunk for each of 2,000 clients, not of 100"))


@pytest.mark.parametrize(("clients", "chunk"), list(chunkings()))
@pytest.mark.parametrize("piece", [1, 1000, cluster.CHUNK_BYTES])
def test_the_result_does_not_depend_on_chunks(clients, chunk, piece, monkeypatch):
    monkeypatch.setattr(cluster, "CHUNK_BYTES", piece)
    task = task_of(clients=clients, sketch="sum", rows=None, sparsity=None)
    share = shares_of(task)[-1]
    assert (cluster.transform(task, share, chunk=chunk) == server.transform(task, share)).all()


def test_servers_of_which_each_has_a_cluster_open_the_sketch(client):
    task = task_of(noise_by="servers")
    keys = [bytes([number] * 16) for number in range(3)]
    sums = [
        cluster.transform(task, share, client=client, chunk=500, simulation_key=key, deadline=60)
        for share, key in zip(shares_of(task), keys, strict=True)
    ]
    alone = [
        server.transform(task, share, simulation_key=key) for share, key in zip(shares_of(task), keys, strict=True)
    ]
    assert (open_sums(task, sums).sums == open_sums(task, alone).sums).all()


def test_noise_is_drawn_once_and_here(client, monkeypatch):
    task = task_of(noise_by="servers")
    drawn = []
    sample = task.noise.sample

    def recorded(shape, stream=None, threads=1):
        drawn.append(sample(shape, stream, threads))
        return drawn[-1].copy()

    monkeypatch.setattr(task.noise, "sample", recorded)
    share = ArrayShare(np.zeros(task.share_shape, np.uint64))
    sums = cluster.transform(task, share, client=client, chunk=CHUNK, simulation_key=KEY, deadline=60)
    assert len(drawn) == 1
    assert (sums.view(np.int64) == drawn[0]).all()


class Fatal(ArrayShare):
    """A share that kills the first worker that reads it."""

    def __init__(self, array, ring, trace):
        super().__init__(array, ring)
        self.trace = trace

    def _rows(self, first, count):
        if first and not self.trace.exists():
            self.trace.touch()
            os._exit(1)
        return super()._rows(first, count)


def test_a_lost_worker_changes_nothing(client, tmp_path):
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import tests
    task = task_of(noise_by="servers")
    share = shares_of(task)[-1]
    fatal = Fatal(share.array, share.ring, tmp_path / "died")
    sums = cluster.transform(task, fatal, client=client, chunk=CHUNK, simulation_key=KEY, deadline=60)
    assert fatal.trace.exists()
    assert (sums == server.transform(task, share, simulation_key=KEY)).all()


def test_a_cluster_that_does_not_finish_is_a_protocol_failure():
    task = task_of()
    share = shares_of(task)[0]
    with cluster_of(0) as nobody, pytest.raises(ProtocolFailure, match=r"not finished within 0\.5 s"):
        cluster.transform(task, share, client=nobody, deadline=0.5)


def test_elements_that_are_not_canonical_are_refused_on_the_worker(client, tmp_path):
    task = task_of(ring="mersenne61")
    words = np.zeros(task.share_shape, np.uint64)
    words[-1, -1, -1] = 2**61 - 1
    for share in (saved(ArrayShare(words), tmp_path), da.from_array(words, chunks=(CHUNK, -1, -1))):
        with pytest.raises(InputError, match="2305843009213693951"):
            cluster.transform(task, share, client=client, simulation_key=KEY, deadline=60)


def test_other_shapes_are_a_mismatch(tmp_path):
    task = task_of()
    other = np.zeros((CLIENTS - 1, 1, WIDTH), np.uint64)
    for share in (ArrayShare(other), da.from_array(other), saved(ArrayShare(other), tmp_path)):
        with pytest.raises(BatchMismatch, match="1999, 1, 3"):
            cluster.transform(task, share)


def test_a_seed_is_refused_where_people_are_protected():
    task = task_of(simulation_seed=None)
    with pytest.raises(SimulationOnly):
        cluster.transform(task, ArrayShare(np.zeros(task.share_shape, np.uint64)), simulation_key=KEY)


@pytest.mark.parametrize(
    ("share", "options", "message"),
    [
        (np.zeros((CLIENTS, 1, WIDTH), np.uint64), {}, "share: ndarray given"),
        (da.zeros((CLIENTS, 1, WIDTH), dtype=np.int64), {}, "share: int64 given"),
        (da.zeros((CLIENTS, 1, WIDTH), dtype=np.uint64), {"chunk": 5}, "chunk: 5 given, none expected"),
        (ArrayShare(np.zeros((CLIENTS, 1, WIDTH), np.uint64)), {"chunk": 0}, "chunk: 0 given"),
        ("no such file", {}, "no such file cannot be read"),
    ],
)
def test_bad_arguments_are_named(share, options, message):
    with pytest.raises(InputError, match=message):
        cluster.transform(task_of(), share, **options)


def test_bad_parquet_files_are_named(tmp_path):
    task, path = task_of(), tmp_path / "share.parquet"
    path.write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"share\.parquet cannot be read"):
        cluster.parquet_share(task, [path])
    with pytest.raises(InputError, match="0 files without a row"):
        cluster.parquet_share(task, [])
    for columns, message in (
        ({"a": pa.array([1], pa.uint64())}, "1 columns of uint64; 3 of uint64"),
        ({name: pa.array([1], pa.int64()) for name in "abc"}, "3 columns of int64; 3 of uint64"),
    ):
        pq.write_table(pa.table(columns), path)
        with pytest.raises(InputError, match=message):
            cluster.parquet_share(task, [path])


def test_a_missing_value_is_named(tmp_path):
    task, path = task_of(), tmp_path / "share.parquet"
    values = pa.array([None] + [1] * (CLIENTS - 1), pa.uint64())
    pq.write_table(pa.table(dict.fromkeys("abc", values)), path)
    with pytest.raises(InputError, match="row group 0: 2000 rows without a missing value"):
        cluster.transform(task, cluster.parquet_share(task, [path]))


def test_without_dask_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"\.\[cluster\]"):
        cluster.transform(task_of(), "share.npy")
