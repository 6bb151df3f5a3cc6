"""A server's part in a release in one process and on Dask workers, one of which is killed: part of `scale`.

The server with words of `bench.system.scale_release` computes its sums, and its messages about proofs, by itself, and
with one and two workers of one thread on this machine; CPU seconds are of the process and its workers. At last all
three servers release the collection, this one with two workers, one of which is killed while it computes.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import distributed
import numpy as np
import psutil

from bench.harness import markdown
from bench.system import scale_release
from dpmpc.base.arrays import Bytes
from dpmpc.collect.opening.pieces import Cluster, ScanTask, SumTask, ThisProcess, sums_by_pieces
from dpmpc.collect.opening.proof_checks import Verifier
from dpmpc.collect.terms.verifying import verify
from dpmpc.parties.cluster import DaskCluster

PATIENCE = 600.0
BUSY_SECONDS = 0.3  # of CPU that a worker has spent before it is killed


def measure(kind: str, reports: int, folder: Path) -> dict[str, Any]:
    """Fill the spools, compute with and without workers, and release; return seconds, and whether bits are the same."""
    servers, _ = scale_release.fill(kind, reports, folder)
    server = len(servers.collection.servers) - 1
    own = servers.server_folder(server)
    location = own.location(servers.collection, server)
    with own.open_spool(servers.collection, server, writer=False) as spool:
        ids = spool.ids()
    task = servers.collection.task(len(ids), bytes(32)).facts()
    sums = SumTask(servers.collection, server, location, task, 1)
    scan = ScanTask(task, servers.collection.digest, server, location, bytes(32)) if kind == "proved" else None
    runs = {"in one process": _timed(ThisProcess(), [], sums, scan, ids)}
    for count in (1, 2):
        with _workers(count) as (address, processes), DaskCluster(address, PATIENCE) as cluster:
            runs[f"workers: {count}"] = _timed(cluster, processes, sums, scan, ids)
    with _workers(2) as (address, processes):
        began = time.monotonic()
        servers_running = [scale_release.launch(servers, number) for number in range(server)]
        servers_running.append(scale_release.launch(servers, server, "--cluster", address))
        killed = _killed(processes)
        scale_release.ended(servers_running)
        wall = time.monotonic() - began
    path = servers.folder / f"release-{server}.dpmpc"
    released = verify(path, servers.collection, longest=math.inf).certificate.statement.manifest.clients
    same = len({run.pop("digest") for run in runs.values()}) == 1
    return {
        "reports": reports,
        "runs": runs,
        "same_bits": same,
        "released_with_one_killed": released if killed else 0,
        "release_s": wall,
    }


def _timed(
    cluster: Cluster, workers: list[psutil.Process], sums: SumTask, scan: ScanTask | None, ids: Bytes
) -> dict[str, Any]:
    """Compute what a release needs of the server; return seconds, and a digest of all words."""
    began, cpu, digest = time.monotonic(), time.process_time() + _cpu(workers), hashlib.sha256()
    if scan is not None:
        verifier = Verifier(scan, ids, cluster=cluster)
        for piece in verifier.pieces():
            for part in verifier.scan(piece):
                digest.update(np.ascontiguousarray(part).data)
    digest.update(sums_by_pieces(cluster, sums, ids).data)
    spent = time.process_time() + _cpu(workers) - cpu
    return {"cpu_s": spent, "wall_s": time.monotonic() - began, "digest": digest.hexdigest()}


@contextlib.contextmanager
def _workers(count: int) -> Iterator[tuple[str, list[psutil.Process]]]:
    """Yield the address of a scheduler in this process, and the processes of its workers."""
    untyped: Any = distributed
    with untyped.LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=":0") as cluster:
        with untyped.Client(cluster) as client:
            processes = [psutil.Process(one) for one in client.run(os.getpid).values()]
        yield cluster.scheduler_address, processes


def _cpu(processes: list[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def _killed(workers: list[psutil.Process]) -> bool:
    """Kill the first worker once it has computed for a while."""
    before, end = _cpu(workers[:1]), time.monotonic() + scale_release.SECONDS
    while _cpu(workers[:1]) < before + BUSY_SECONDS:
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    workers[0].kill()
    return True


def render(measured: dict[str, dict[str, Any]]) -> list[str]:
    """Return the lines of a table: seconds of a server's part, and what became of the releases."""
    rows = []
    for kind, found in measured.items():
        alone = found["runs"]["in one process"]["cpu_s"]
        for way, run in found["runs"].items():
            spent = [f"{run['cpu_s']:.1f}", f"{run['cpu_s'] / alone:.2f}", f"{run['wall_s']:.1f}"]
            rows.append([f"{kind}, {found['reports']:,}", way, *spent])
    table: str = markdown(["reports", "", "CPU s", "to one process", "wall s"], rows)
    lines = [table, ""]
    for kind, found in measured.items():
        lines.append(
            f"{kind}: {'the same bits' if found['same_bits'] else 'OTHER BITS'} in all runs; with one of two workers "
            f"killed {found['released_with_one_killed']:,} reports were released, in {found['release_s']:.0f} s."
        )
    return lines
