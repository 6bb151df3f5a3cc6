"""Servers of a collection as processes of this machine, for tests and benches: started, killed, stopped and read."""

from __future__ import annotations

import dataclasses
import datetime
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.system.ports import HOST, free_ports
from dpmpc.base.arrays import Words
from dpmpc.base.errors import InputError
from dpmpc.collect.store.report_store import ReportStore
from dpmpc.collect.store.server_folder import ServerFolder
from dpmpc.collect.terms.collection_design import CollectionTerms, design_collection
from dpmpc.collect.terms.sealing_suites import SuiteName
from dpmpc.collect.terms.server_entries import ServerEntry
from dpmpc.collect.terms.task_file import Collection
from dpmpc.collect.upload.reports import ReportFormat
from dpmpc.collect.upload.seal_folder import SealFolder, read_public
from dpmpc.data.schemas import schema as schema_of
from dpmpc.parties.network.identity import write_identity
from dpmpc.privacy.specification import Budget, taken

START_SECONDS = 60.0
STOP_SECONDS = 30.0
_DAY = datetime.timedelta(days=1)
_CHUNK = 1 << 12


@dataclasses.dataclass
class Servers:
    """The processes of one collection; leaving the context ends them."""

    folder: Path  # holds the task file and a folder for each server
    collection: Collection  # the public facts
    options: tuple[str, ...] = ()  # of `dpmpc serve`, for every server
    monitors: tuple[int, ...] = ()  # ports for the operator
    proxied: tuple[int, ...] = ()  # ports for a reverse proxy
    proxy_paths: dict[int, Path] = dataclasses.field(default_factory=dict)  # in place of such a port
    processes: dict[int, subprocess.Popen[str]] = dataclasses.field(default_factory=dict)

    @classmethod
    def make(
        cls,
        folder: Path,
        *options: str,
        servers: int = 3,
        columns: Sequence[str] = ("a", "b", "y"),
        bounds: Any = (0.0, 10.0),
        doors: bool = False,
        suite: SuiteName = "x25519",
        **fields: Any,
    ) -> Self:
        """Write identities and a collection that is open now, on free ports; with `doors` a place for a proxy, too."""
        entries = []
        ports = free_ports((4 if doors else 3) * servers)
        webs, pinned, monitors, proxied = (ports[first * servers : (first + 1) * servers] for first in range(4))
        for server in range(servers):
            own = folder / f"server-{server}"
            own.mkdir(mode=0o700)
            certificate = write_identity(own / "identity", server, 2 * _DAY).decode()
            SealFolder(own / "seals").draw("trial", suite)
            keys = (read_public(own / "seals" / "trial.pub"),)
            url, address = f"https://{HOST}:{webs[server]}", f"{HOST}:{pinned[server]}"
            entries.append(ServerEntry(url, address, address, certificate, keys))  # they release after they served
        now = datetime.datetime.now(datetime.UTC)
        chosen: dict[str, Any] = {
            "name": "a trial",
            "servers": tuple(entries),
            "opens": now - _DAY,
            "closes": now + _DAY,
            "expires": now + 2 * _DAY,
            "minimum_batch": 2000,
            "largest_batch": 1_000_000,
            "sketch": "osnap",
            "rows": 50,
            "copies": "one",
            "noise_by": "clients",
            "corrupt_clients": 0,
        } | fields
        budget = Budget(1.0, min(1e-7, 0.1 / chosen["largest_batch"]))
        terms, schema = taken(CollectionTerms, chosen), schema_of(bounds, list(columns))
        collection = design_collection(terms, schema, budget, **chosen)
        made = cls(folder, collection, options, monitors=tuple(monitors), proxied=tuple(proxied))
        collection.save(made.task_file)
        return made

    @property
    def task_file(self) -> Path:
        """The file that everybody has."""
        return self.folder / "collection.json"

    def server_folder(self, server: int) -> ServerFolder:
        """Return where a server keeps what it has."""
        return ServerFolder(self.folder / f"server-{server}")

    def address(self, server: int) -> tuple[str, int]:
        """Return where a server takes uploads of clients."""
        host, port = self.collection.servers[server].web_address
        return str(host), port

    def monitor(self, server: int) -> str:
        """Return where a server answers its operator."""
        return f"http://{HOST}:{self.monitors[server]}"

    def door(self, server: int) -> str:
        """Return where a proxy would reach a server."""
        return f"http://{HOST}:{self.proxied[server]}"

    def launch(self, server: int) -> None:
        """Start a server, without waiting for it."""
        entry = self.collection.servers[server]
        command = [sys.executable, "-m", "dpmpc", "serve", str(self.task_file)]
        command += ["--server", str(server), "--folder", str(self.folder / f"server-{server}")]
        command += ["--listen", entry.peers, "--web", entry.url.removeprefix("https://")]
        command += ["--monitor", f"{HOST}:{self.monitors[server]}", *self.options]
        if self.proxied:
            path = self.proxy_paths.get(server)
            place = f"{HOST}:{self.proxied[server]}" if path is None else f"unix:{path}"
            command += ["--proxy", place, *([] if self.collection.proved else ["--unproved-proxy"])]
        with (self.folder / f"server-{server}.log").open("a") as log:
            self.processes[server] = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)

    def start(self, *servers: int) -> Self:
        """Start servers, all by default, and wait until they listen."""
        for server in servers or range(len(self.collection.servers)):
            self.launch(server)
        for server in servers or range(len(self.collection.servers)):
            self.wait(server)
        return self

    def wait(self, server: int) -> None:
        """Wait until a launched server says that it listens."""
        output = self.processes[server].stdout
        assert output is not None
        if "listens" not in output.readline():
            raise InputError(f"server {server} does not listen: {self.log(server)}")

    def log(self, server: int) -> str:
        """Return what a server wrote to standard error."""
        return (self.folder / f"server-{server}.log").read_text()

    def kill(self, server: int) -> None:
        """Kill a server with SIGKILL."""
        self._end(server, signal.SIGKILL)

    def stop(self, server: int) -> int:
        """Ask a server to stop; return its exit status."""
        return self._end(server, signal.SIGTERM)

    def spool(self, server: int) -> ReportStore:
        """Open what a server has stored, for reading."""
        return self.server_folder(server).open_spool(self.collection, server, writer=False)

    def opened_sum(self) -> Words:
        """Combine the sums over all reports of what each server has stored: elements, (copies, width)."""
        ring, scheme = self.collection.plan.encoding.ring, self.collection.plan.scheme
        sums = []
        for server in range(len(self.collection.servers)):
            with self.spool(server) as spool:
                share = ReportFormat(self.collection, server).share(spool.share(spool.ids()))
                parts = [
                    ring.sum_of(list(share.rows(first, min(_CHUNK, share.shape[0] - first))), name="rows")
                    for first in range(0, share.shape[0], _CHUNK)
                ]
            sums.append(ring.sum_of(parts, name="parts"))
        combined: Words = scheme.combine(sums)
        return combined

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in list(self.processes):
            self.kill(server)

    def _end(self, server: int, number: int) -> int:
        process = self.processes.pop(server)
        process.send_signal(number)
        status = process.wait(STOP_SECONDS)
        assert process.stdout is not None
        process.stdout.close()
        return status
