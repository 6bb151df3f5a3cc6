"""Where the processor time of a collection goes, from the bytes of uploads to the release file: part of `scale`.

Three servers hold n reports of d = 10 columns, one copy and k = 1000 rows, or with proofs the sum of rows. First the
doors decode and store uploads, without HTTP. Then every server runs `dpmpc release` as a process of its own, with
clocks around the functions of `STEPS`: CPU seconds of the process without those of a step inside.

As a program (``python -m bench.system.scale_release ARGUMENTS``) it is one such server: it passes its arguments on to
`dpmpc`, and prints the seconds of each step.
"""

from __future__ import annotations

import functools
import importlib
import json
import operator
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness import markdown
from bench.system.collection_servers import Servers
from dpmpc.base.randomness import Stream
from dpmpc.base.system import peak_rss_mb
from dpmpc.collect.upload.reports import ReportFormat, make_reports
from dpmpc.release.client import Client

COLUMNS = [f"x{column}" for column in range(10)]
KINDS: dict[str, dict[str, Any]] = {
    "plain": {"proved": False, "sketch": "osnap", "rows": 1000, "sparsity": 4, "copies": "one"},
    "proved": {"proved": True, "noise_by": "servers", "sketch": "sum", "rows": None, "ring": "mersenne61"},
}
START, REST, DOOR = "start and imports", "everything else", ("decode uploads", "store uploads")
FIXED = (START, REST)  # mostly imports: they do not grow with the reports
AT_ONCE = 1 << 12  # reports of an upload
SECONDS = 3600.0

# What is measured: the step, and the functions that it consists of, as MODULE:NAME.
STEPS = {
    "read ids": (
        "dpmpc.collect.store.blocks:BlockTables.entries",
        "dpmpc.collect.store.report_store:ReportStore.share",
    ),
    "read words": ("dpmpc.collect.store.blocks:BlockTables._contents",),
    "compare checksums": ("dpmpc.collect.store.blocks:checksums",),
    "find intact reports, the rest": ("dpmpc.collect.store.report_store:ReportStore.intact",),
    "read and write the ledger": tuple(
        f"dpmpc.collect.store.ledger:ReleaseLedger.{name}"
        for name in ("begun", "require_unreleased", "seal", "batch", "begin_opening", "finish", "scrub", "find")
    ),
    "compare ids": (
        "dpmpc.collect.opening.agreement:batch_digest",
        "dpmpc.collect.opening.agreement:found_in",
        "dpmpc.collect.terms.task_file:Collection.chosen",
    ),
    "derive keys": ("dpmpc.collect.upload.reports:derive_share_keys",),
    "expand keys": ("dpmpc.collect.upload.reports:expand_many", "dpmpc.linear.proving.prove:expand_many"),
    "sketch": ("dpmpc.linear.sketching.public_matrix:PublicMatrix.apply",),
    "proofs: hash shares and lists": (
        "dpmpc.linear.proving.query:ProofServer.seeds",
        "dpmpc.linear.proving.query:ProofServer.own_parts_match",
    ),
    "proofs: joint randomness": ("dpmpc.collect.opening.proof_checks:joint_randomness",),
    "proofs: messages": ("dpmpc.linear.proving.query:ProofServer.query",),
    "proofs: verdicts": ("dpmpc.collect.opening.proof_checks:decide",),
}


def fill(kind: str, reports: int, folder: Path) -> tuple[Servers, list[dict[str, float]]]:
    """Fill the spools of three servers; return them, and the seconds of each one's door."""
    fields = KINDS[kind] | {"minimum_batch": reports // 2, "largest_batch": reports}
    servers = Servers.make(folder, columns=COLUMNS, **fields)
    numbers = range(len(servers.collection.servers))
    forms = [ReportFormat(servers.collection, server) for server in numbers]
    spools = [servers.server_folder(server).open_spool(servers.collection, server, writer=True) for server in numbers]
    client, draw = Client(servers.collection.plan.verify(), Stream.from_os()), np.random.default_rng(1)
    door = [dict.fromkeys(DOOR, 0.0) for _ in numbers]
    for first in range(0, reports, AT_ONCE):
        count = min(AT_ONCE, reports - first)
        ids = [draw.bytes(16) for _ in range(count)]
        rows = draw.uniform(0, 10, (count, len(COLUMNS)))
        for server, records in enumerate(make_reports(client, servers.collection, rows, ids)):
            body, clock = b"".join(records), time.process_time()
            upload = forms[server].decode(body)
            decoded = time.process_time()
            spools[server].add(*upload)
            door[server][DOOR[0]] += decoded - clock
            door[server][DOOR[1]] += time.process_time() - decoded
    for spool in spools:
        spool.close()
    return servers, door


def measure(kind: str, reports: int, folder: Path) -> dict[str, Any]:
    """Fill the spools of three servers and release; return the seconds of each step, with keys and with words."""
    servers, door = fill(kind, reports, folder)
    numbers = range(len(servers.collection.servers))
    forms = [ReportFormat(servers.collection, server) for server in numbers]
    files = [
        sum(path.stat().st_blocks for path in servers.server_folder(server).spool.iterdir()) * 512 for server in numbers
    ]
    found = [json.loads(output.splitlines()[-1]) for output in ended([launch(servers, server) for server in numbers])]
    chosen = {"keys": 0, "words": len(numbers) - 1}
    return {
        "reports": reports,
        "record_bytes": {name: forms[server].record_bytes for name, server in chosen.items()},
        "spool_bytes": {name: files[server] / reports for name, server in chosen.items()},
        "seconds": {name: door[server] | found[server]["seconds"] for name, server in chosen.items()},
        "peak_bytes": {name: found[server]["peak_bytes"] for name, server in chosen.items()},
    }


def launch(servers: Servers, server: int, *options: str) -> subprocess.Popen[str]:
    """Start the release at a server."""
    command = [sys.executable, "-m", "bench.system.scale_release", "release", str(servers.folder / "collection.json")]
    command += ["--server", str(server), "--folder", str(servers.server_folder(server).path), "--close"]
    command += ["--out", str(servers.folder / f"release-{server}.dpmpc"), "--connect-deadline", "600", "--deadline"]
    root = str(Path(__file__).parents[2])
    environment = os.environ | {"PYTHONPATH": root}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*command, "1800", *options], cwd=root, env=environment, stdout=pipe, stderr=pipe, text=True
    )


def ended(processes: list[subprocess.Popen[str]]) -> list[str]:
    """Return what processes have printed once they have ended; one that failed is an error."""
    told = [process.communicate(timeout=SECONDS) for process in processes]
    for process, (_, errors) in zip(processes, told, strict=True):
        if process.returncode:
            raise RuntimeError(errors)
    return [output for output, _ in told]


def render(measured: dict[str, dict[str, Any]]) -> list[str]:
    """Return the lines of a table: CPU seconds of each step for a million reports."""
    names = [(kind, name) for kind in measured for name in ("keys", "words")]
    scaled = {
        (kind, name): {
            step: seconds * (1 if step in FIXED else 1e6 / measured[kind]["reports"])
            for step, seconds in measured[kind]["seconds"][name].items()
        }
        for kind, name in names
    }
    steps = [*DOOR, START, *STEPS, REST]
    rows = [[step, *(_shown(scaled[column].get(step)) for column in names)] for step in steps]
    totals = [sum(scaled[column].values()) for column in names]
    rows.append(["**together**", *(f"**{total:.1f}**" for total in totals)])
    sizes = [f"{measured[kind]['spool_bytes'][name]:.0f}" for kind, name in names]
    rows.append(["bytes of the spool for a report", *sizes])
    peaks = [f"{measured[kind]['peak_bytes'][name] / 1e6:.0f}" for kind, name in names]
    rows.append(["peak of the release, MB", *peaks])
    count = ", ".join(f"{kind}: n = {entry['reports']:,}" for kind, entry in measured.items())
    table: str = markdown(
        ["CPU seconds for 10⁶ reports", *(f"{kind}, a server with {name}" for kind, name in names)], rows
    )
    return [f"Measured at {count}; scaled to 10⁶ in proportion, but for the start and the rest.", "", table]


def _shown(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.2f}"


class Clocks:
    """CPU seconds of this process by step, each without the steps inside it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._running: list[str] = [REST]
        self._since = time.process_time()
        self.seconds[START] = self._since

    def switch(self) -> None:
        """Count the time since the last switch for the step that runs."""
        now = time.process_time()
        self.seconds[self._running[-1]] = self.seconds.get(self._running[-1], 0.0) + now - self._since
        self._since = now

    def around(self, step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function with the clock of a step around it."""

        @functools.wraps(function)
        def timed(*arguments: Any, **options: Any) -> Any:
            self.switch()
            self._running.append(step)
            try:
                return function(*arguments, **options)
            finally:
                self.switch()
                self._running.pop()

        return timed


def run_one(arguments: list[str]) -> int:
    """Run `dpmpc` with clocks around the functions of `STEPS`; print their seconds as the last line."""
    from dpmpc.app.cli.main import main

    modules = [importlib.import_module(one.partition(":")[0]) for names in STEPS.values() for one in names]
    del modules  # imported before the clocks begin
    clocks = Clocks()
    for step, names in STEPS.items():
        for one in names:
            module, _, path = one.partition(":")
            holder, _, name = path.rpartition(".")
            place = operator.attrgetter(holder)(sys.modules[module]) if holder else sys.modules[module]
            if name in vars(place):
                setattr(place, name, clocks.around(step, vars(place)[name]))
    status = main(arguments)
    clocks.switch()
    print(json.dumps({"seconds": clocks.seconds, "peak_bytes": round(1e6 * peak_rss_mb())}))
    return status


if __name__ == "__main__":
    sys.exit(run_one(sys.argv[1:]))
