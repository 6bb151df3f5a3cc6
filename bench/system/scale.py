"""One server's transform as the clients grow from 10^6 to 10^8: memory that stays, time that grows in proportion.

The share is a file of random words, d = 10 columns, one copy, written straight to disk and dropped from the system's
page cache before each run: it is read from the disk, as a spool larger than memory would be. A process of its own
sketches it, k = 1000 and s = 4, one thread. A server that got a key in place of the array expands it, without a file.

`--reports` measures a whole collection instead: doors and release, step by step (`bench.system.scale_release`).

From the slopes follows what 10^9 clients would cost M servers (`dpmpc.release.planning.cost`).
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np

from bench.harness import machine, markdown, plus_minus, summary, write
from dpmpc.base.errors import InputError
from dpmpc.base.system import drop_from_cache
from dpmpc.data import Schema
from dpmpc.linear.contributions import SecondMoments
from dpmpc.linear.sharing.batch import SeededShare, save_share
from dpmpc.linear.sketching import OSNAP
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.privacy.task import Task
from dpmpc.release.planning import design
from dpmpc.release.planning.cost import Prices, ReleaseCost, Slopes, Workload, estimate

COLUMNS, ROWS, SPARSITY = 10, 1000, 4
CLIENTS = (1_000_000, 3_000_000, 10_000_000, 30_000_000, 100_000_000)
RUNS = 3
MODELLED = 1_000_000_000
SERVERS = (2, 3, 5)
COLLECTIONS = {  # modules that measure collections, and titles of their pages, by --cluster
    False: ("scale_release", "Where the time of a collection goes"),
    True: ("scale_cluster", "A server's part in a release, with workers and without"),  # it needs an extra
}
PHASES = ("read", "transform")
_PIECE = 1 << 22  # bytes of random words that are written at once
_SPARE_BYTES = 1 << 30  # that stay free on the disk


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write the tables."""
    parser = argparse.ArgumentParser(prog="python -m bench scale", description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, nargs="+", default=CLIENTS, metavar="N", help="numbers of clients")
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each (default %(default)s)")
    parser.add_argument("--folder", help="a folder on the disk to measure; 80 bytes a client must be free there")
    parser.add_argument("--reports", type=int, metavar="N", help="profile a collection of N reports, and nothing else")
    parser.add_argument("--proved", type=int, metavar="N", help="with --reports: how many of them with proofs")
    parser.add_argument(
        "--cluster", action="store_true", help="with --reports: with Dask workers and without, in place of that"
    )
    parser.add_argument("--short", action="store_true", help="10^6 and 3 * 10^6 clients; nothing is written")
    chosen = parser.parse_args(arguments)
    if chosen.reports:
        reports = {"plain": chosen.reports, "proved": chosen.proved or chosen.reports}
        measuring = COLLECTIONS[chosen.cluster]
        _collections(*measuring, reports, chosen.folder)
        return
    clients = sorted(CLIENTS[:2] if chosen.short else chosen.clients)
    with tempfile.TemporaryDirectory(dir=chosen.folder, prefix="dpmpc-scale-") as folder:
        measured = measure(clients, chosen.runs, Path(folder))
    slopes = slopes_of(measured)
    content = {
        "machine": machine(),
        "runs": chosen.runs,
        "measured": measured,
        "exponents": {way: exponents(entries) for way, entries in measured.items()},
        "slopes": dataclasses.asdict(slopes),
        "prices": dataclasses.asdict(Prices()),
        "modelled": modelled(slopes),
    }
    text = render(content)
    print(text)
    if not chosen.short:
        write("scale", content, text)


def _collections(measuring: str, title: str, reports: dict[str, int], where: str | None) -> None:
    """Measure collections by a module of this package, print and write what it renders."""
    module = importlib.import_module(f"bench.system.{measuring}")
    measured = {}
    for kind, count in reports.items():
        with tempfile.TemporaryDirectory(dir=where, prefix="dpmpc-scale-") as folder:
            measured[kind] = module.measure(kind, count, Path(folder))
    text = "\n".join([f"# {title}", "", *module.render(measured)])
    print(text)
    write(measuring, {"machine": machine(), "measured": measured}, text)


def task_of(clients: int) -> Task:
    """Design the job, with noise calibrated for fewer clients: its size does not change a server's work."""
    schema = Schema.unit([f"x{column}" for column in range(COLUMNS)])
    small = design(
        ReleaseSpec.of(
            schema, 10_000, 1.0, 1e-9, sketch="osnap", rows=ROWS, sparsity=SPARSITY, copies="one", simulation_seed=1
        )
    )
    return msgspec.structs.replace(small, sketch=OSNAP(ROWS, clients, SPARSITY, seed=1))


def measure(clients: Sequence[int], runs: int, folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Measure what a server spends: way to hold the share -> one entry for each number of clients, ascending."""
    array, key = folder / "array", folder / "key"
    write_words(array, max(clients))
    measured: dict[str, list[dict[str, Any]]] = {"array": [], "key": []}
    for count in sorted(clients, reverse=True):  # the file is written once, then cut
        shape = cut(array, count)
        save_share(key, SeededShare(bytes(16), shape))
        for way, path in (("array", array), ("key", key)):
            print(f"scale: n = {count:,}, share from {way}", file=sys.stderr)
            reports = [serve(task_of(count), path, folder) for _ in range(runs)]
            measured[way].insert(0, figures(count, reports))
    return measured


def write_words(path: Path, clients: int) -> None:
    """Write a share of random words as ``.npy``."""
    size = 8 * COLUMNS * clients
    free = shutil.disk_usage(path.parent).free
    if free < size + _SPARE_BYTES:
        raise InputError("clients", f"{clients} given, {size} bytes on disk needed, {free} free")
    rng = np.random.Generator(np.random.SFC64(0))
    with path.open("wb") as file:
        _write_header(file, clients)
        for first in range(0, size, _PIECE):
            file.write(rng.bytes(min(_PIECE, size - first)))


def cut(path: Path, clients: int) -> tuple[int, int, int]:
    """Make the file the share of its first clients; return the shape."""
    with path.open("r+b") as file:
        offset = _write_header(file, clients)
        file.truncate(offset + 8 * COLUMNS * clients)
    return clients, 1, COLUMNS


def _write_header(file: IO[bytes], clients: int) -> int:
    header = {"descr": "<u8", "fortran_order": False, "shape": (clients, 1, COLUMNS)}
    np.lib.format.write_array_header_1_0(file, header)  # 128 bytes for any number of clients
    return file.tell()


def serve(task: Task, share: Path, folder: Path) -> dict[str, Any]:
    """Run one server over a file that is not in the page cache; return its report."""
    with share.open("rb") as file:
        os.fsync(file.fileno())
        drop_from_cache(file.fileno(), 0, 0)
    described = folder / "task.json"
    described.write_text(json.dumps(task.to_dict()))
    program = Path(__file__).with_name("scale_server.py")
    done = subprocess.run(
        [sys.executable, str(program), str(described), str(share)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def figures(clients: int, reports: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Summarise the runs."""
    phases = {
        f"{phase}_{clock}": summary([report["phases"][phase][clock] for report in reports])
        for phase in PHASES
        for clock in ("wall_s", "cpu_s")
    }
    total = summary([report["total_s"] for report in reports])
    peak = max(report["peak_rss_mb"] for report in reports)
    return {"clients": clients, **phases, "total_s": total, "peak_rss_mb": peak}


def exponents(entries: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Fit the slope of the logarithm of a phase's CPU time over that of n, by least squares: 1 is linear."""
    n = [math.log(entry["clients"]) for entry in entries]
    return {
        phase: float(np.polyfit(n, [math.log(entry[f"{phase}_cpu_s"]["median"]) for entry in entries], 1)[0])
        for phase in PHASES
    }


def slopes_of(measured: dict[str, list[dict[str, Any]]]) -> Slopes:
    """Return core-seconds of a byte and of an addition, at the largest n."""
    array, key = measured["array"][-1], measured["key"][-1]
    words = array["clients"] * COLUMNS
    return Slopes(
        read=array["read_cpu_s"]["median"] / (8 * words),
        expand=key["read_cpu_s"]["median"] / (8 * words),
        add=array["transform_cpu_s"]["median"] / (words * SPARSITY),
    )


def modelled(slopes: Slopes) -> list[dict[str, Any]]:
    """Estimate what the transform of 10^9 clients costs: the sketch in both modes, and summed second moments."""
    slopes = dataclasses.replace(slopes, handle=0.0, handle_byte=0.0, request=0.0, unseal=0.0)
    shapes = {
        "sketch, one copy": (1, COLUMNS, ROWS, SPARSITY),
        "sketch, s copies": (SPARSITY, COLUMNS, ROWS, SPARSITY),
        "second moments": (1, SecondMoments().width(COLUMNS), 1, 1),
    }
    costs: list[dict[str, Any]] = []
    for release, (copies, width, rows, sparsity) in shapes.items():
        for servers in SERVERS:
            cost: ReleaseCost = estimate(Workload(MODELLED, copies, width, rows, sparsity, servers), slopes=slopes)
            costs.append({"release": release, "servers": servers, **dataclasses.asdict(cost)})
    return costs


def render(content: dict[str, Any]) -> str:
    """Return the Markdown page."""
    where, slopes, prices = content["machine"], content["slopes"], content["prices"]
    lines = [
        "# One server as the clients grow",
        "",
        f"d = {COLUMNS}, k = {ROWS}, s = {SPARSITY}, one copy, one thread, mean ± sd of {content['runs']} runs; the "
        f"file is not in the page cache. {where['cpu']}, {where['cores']} cores, Python {where['python']}, "
        f"{where['date']}.",
    ]
    for way, title in (("array", "A share in a file"), ("key", "A share expanded from a key")):
        lines += ["", f"## {title}", "", _measured_table(content["measured"][way]), ""]
        powers = (f"{phase} as n^{content['exponents'][way][phase]:.3f}" for phase in PHASES)
        lines += [f"CPU seconds grow, {', '.join(powers)}."]
    lines += [
        "",
        f"## {MODELLED:,} clients, modelled",
        "",
        f"Core-seconds: {slopes['read']:.3g} to read a byte, {slopes['expand']:.3g} to expand one, {slopes['add']:.3g} "
        f"for an addition. {prices['currency']}: {prices['core_hour']} a core-hour, {prices['gigabyte_month']} to "
        f"store 1e9 bytes for a month (all shares, one month), {prices['gigabyte_sent']} to send them.",
        "",
        _cost_table(content["modelled"]),
    ]
    return "\n".join(lines)


def _measured_table(entries: Sequence[dict[str, Any]]) -> str:
    headings = (
        *("n", "share (GB)", "total (s)", "read (s)", "transform (s)", "read (CPU s)", "transform (CPU s)"),
        *("CPU µs a client", "peak RSS (MB)"),
    )
    rows = [
        [
            f"{entry['clients']:,}",
            f"{8 * COLUMNS * entry['clients'] / 1e9:.2f}",
            plus_minus(entry["total_s"]),
            *(plus_minus(entry[name]) for name in ("read_wall_s", "transform_wall_s", "read_cpu_s", "transform_cpu_s")),
            f"{1e6 * (entry['read_cpu_s']['median'] + entry['transform_cpu_s']['median']) / entry['clients']:.4f}",
            f"{entry['peak_rss_mb']:.1f}",
        ]
        for entry in entries
    ]
    table: str = markdown(headings, rows)
    return table


def _cost_table(costs: Sequence[dict[str, Any]]) -> str:
    headings = (
        *("release", "servers", "uploaded (GB)", "sent (MB)", "core-s, last", "core-s, each other", "core-s, all"),
        *("compute", "storage", "transfer", "total"),
    )
    rows = [
        [
            cost["release"],
            str(cost["servers"]),
            f"{cost['uploaded_bytes'] / 1e9:,.0f}",
            f"{cost['sent_bytes'] / 1e6:.4g}",
            *(f"{cost[name]:.1f}" for name in ("last_core_s", "other_core_s", "core_s")),
            *(f"{cost[name]:.3g}" for name in ("compute", "storage", "transfer", "total")),
        ]
        for cost in costs
    ]
    table: str = markdown(headings, rows)
    return table
