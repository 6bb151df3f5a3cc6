"""What servers of a collection open in the end, beside what it has to be: the sketch of the reports in their spools.

The servers put shares together after the sketch; here the same words are put together before it, report by report.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

from bench.system.collection_servers import Servers
from dpmpc.base.arrays import Integers
from dpmpc.base.errors import ProtocolFailure
from dpmpc.collect.terms.verifying import Verified, verify
from dpmpc.collect.upload.reports import ReportFormat
from dpmpc.privacy.task import Task

RELEASE_SECONDS = 300.0
_ROWS_AT_ONCE = 1 << 12


def release(servers: Servers) -> Verified:
    """Stop the servers, close their intake, let each run `dpmpc release`, and verify the file that all have."""
    for server in list(servers.processes):
        servers.stop(server)
    numbers = range(len(servers.collection.servers))
    files = [servers.folder / f"release-{server}.dpmpc" for server in numbers]
    processes = [_launch(servers, server, file) for server, file in zip(numbers, files, strict=True)]
    try:
        told = [process.communicate(timeout=RELEASE_SECONDS)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    for server, process in enumerate(processes):
        if process.returncode:
            raise ProtocolFailure(f"release: server {server} failed: {told[server]}", server)
    if len({file.read_bytes() for file in files}) > 1:
        raise ProtocolFailure("release: the servers wrote different files")
    return verify(files[0], servers.collection)


def expected_sums(servers: Servers, task: Task) -> Integers:
    """Return the sums of a task over all reports that the servers hold, where no server adds noise."""
    sums = task.sketch.zeros(task.width)
    with contextlib.ExitStack() as stack:
        spools = [stack.enter_context(servers.spool(server)) for server in range(task.trust.servers)]
        shares = [
            ReportFormat(servers.collection, server).share(spool.share(spool.ids()))
            for server, spool in enumerate(spools)
        ]
        for first in range(0, task.clients, _ROWS_AT_ONCE):
            count = min(_ROWS_AT_ONCE, task.clients - first)
            words = task.scheme.combine([share.rows(first, count) for share in shares])
            task.sketch.apply(words, out=sums, first=first, ring=task.encoding.ring)
    return task.encoding.ring.lift(sums)


def _launch(servers: Servers, server: int, file: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "dpmpc", "release", str(servers.folder / "collection.json")]
    command += ["--server", str(server), "--folder", str(servers.server_folder(server).path), "--out", str(file)]
    return subprocess.Popen([*command, "--close"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
