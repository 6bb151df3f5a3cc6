"""What a store of reports takes: reports a second that are durable, by store, workers and the size of a group.

Reports of 112 bytes, as a server of three that gets keys stores of one with ten proved columns, go straight into the
store, each an upload of its own, so many in a transaction. The workers are processes on this machine, and the database
of ``--store`` shares its cores with them. A rate is of all workers together; CPU time is that of the workers alone.
"""

from __future__ import annotations

import argparse
import multiprocessing
import secrets
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness import machine, markdown, write
from dpmpc.collect.store.report_store import ReportStore
from dpmpc.collect.store.sqlite_database import SqliteDatabase

SECONDS, SHORT_SECONDS = 4.0, 0.5
SHAPE = (1, 14)  # 112 bytes
GROUPS = (1, 50, 500)
WORKERS = (1, 2, 4)
GOAL = 10_000  # reports a second, of four workers in groups of 50
_DIGEST = bytes(32)


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(prog="python -m bench stores", description=__doc__.splitlines()[0])
    parser.add_argument("--store", metavar="ADDRESS", help="an empty PostgreSQL database to measure, too")
    parser.add_argument("--short", action="store_true", help=f"{SHORT_SECONDS} s each; nothing is written")
    chosen = parser.parse_args(arguments)
    seconds = SHORT_SECONDS if chosen.short else SECONDS
    with tempfile.TemporaryDirectory(prefix="dpmpc-stores-") as folder:
        rows = [measure(str(Path(folder) / f"spool-{group}"), 1, group, seconds) for group in GROUPS]
    if chosen.store is not None:
        rows += [measure(chosen.store, workers, group, seconds) for workers in WORKERS for group in GROUPS]
    content = {"machine": machine(), "seconds": seconds, "rows": rows}
    text = render(content)
    print(text)
    if not chosen.short and chosen.store is not None:
        write("stores", content, text)


def measure(place: str, workers: int, group: int, seconds: float) -> dict[str, Any]:
    """Let so many workers add groups for so many seconds."""
    context = multiprocessing.get_context("spawn")
    gate, told = context.Barrier(workers), context.Queue()
    processes = [
        context.Process(target=_add, args=(place, number, workers, group, seconds, gate, told))
        for number in range(workers)
    ]
    for process in processes:
        process.start()
    found = [told.get() for _ in processes]
    for process in processes:
        process.join()
    return {
        "store": "PostgreSQL" if place.startswith("postgres") else "SQLite",
        "workers": workers,
        "group": group,
        "rate": sum(count / took for count, took, _ in found),
        "cpu_s": sum(cpu for *_, cpu in found) / sum(count for count, *_ in found),
    }


def _add(place: str, number: int, workers: int, group: int, seconds: float, gate: Any, told: Any) -> None:
    words = np.zeros((1, *SHAPE), np.uint64)
    with tempfile.TemporaryDirectory() as ledger, _opened(place, Path(ledger), workers) as store:
        gate.wait()
        count, start, cpu = 0, time.perf_counter(), time.process_time()
        while time.perf_counter() < start + seconds:
            store.add_all([([secrets.token_bytes(16)], words) for _ in range(group)])
            count += group
        told.put((count, time.perf_counter() - start, time.process_time() - cpu))


def _opened(place: str, ledger: Path, workers: int) -> ReportStore:
    if not place.startswith("postgres"):
        return ReportStore(SqliteDatabase(Path(place), create=True), _DIGEST, 0, SHAPE, ledger=ledger)
    from dpmpc.collect.store.postgres_database import PostgresDatabase  # needs an extra of the package

    return ReportStore(PostgresDatabase(place, create=True), _DIGEST, 0, SHAPE, ledger=ledger, workers=workers)


def render(content: dict[str, Any]) -> str:
    """Return the Markdown page."""
    where = content["machine"]
    rows = [
        [row["store"], str(row["workers"]), str(row["group"]), f"{row['rate']:,.0f}", f"{1e6 * row['cpu_s']:.0f}"]
        for row in content["rows"]
    ]
    return "\n".join(
        [
            "# Reports into a store",
            "",
            f"Reports of {8 * SHAPE[0] * SHAPE[1]} bytes, {content['seconds']:g} s each; the database is here, too. "
            f"{where['cpu']}, {where['cores']} cores for workers and database, {where['date']}. "
            f"Goal: {GOAL:,} reports a second with four workers in groups of 50.",
            "",
            markdown(["store", "workers", "group", "reports/s", "CPU µs of a worker, a report"], rows),
            "",
        ]
    )
