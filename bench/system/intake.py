"""What a server takes: uploads a second, CPU time and memory, beside an aiohttp handler; with and without proofs.

One client process sends single reports, sealed to all servers, to one that gets keys, over TLS 1.3 and connections
that are kept alive. In turn it sends the same requests to a bare handler of aiohttp, in a process of its own with the
same certificate, that reads the body and answers 200 at once. CPU time is that of the server's process, so the client's
work does not count, nor what else the machine does.

Then reports of second moments of ten columns go to two collections in turn, one of which has its clients prove them:
to the server that gets keys, and to the one that gets words. `PROVED_RATIO` is what uploads a CPU second of proved
reports should be of those of unproved ones.

Then reports of the same columns, with proofs, go to the door of one of three servers, by plain HTTP as a proxy
sends them, one a request and a hundred. CPU time is measured of the server's process, and of a server that it hands
them on to.

The bytes on the wire are counted between TLS and TCP: of a connection, and of a request on it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import os
import re
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.harness import machine, markdown, summary, write
from bench.system.collection_servers import Servers
from bench.system.ports import HOST, free_ports
from dpmpc.base.errors import InputError, ProtocolFailure
from dpmpc.collect.terms.endpoints import OWN_UPLOADS, SEALED_UPLOADS
from dpmpc.collect.terms.task_file import Collection
from dpmpc.collect.upload.reports import make_reports
from dpmpc.collect.upload.sealing import SECRET_BYTES, SealedReports, report_id
from dpmpc.parties.network.identity import pinning_context, serving_context
from dpmpc.release.client import Client

REPORTS, SHORT_REPORTS = 40_000, 4_000
CONNECTIONS = 64
ROUNDS = 4  # alternations between the servers
DOOR_SHARE = 8  # of the reports, how many go through a door: sealing them takes longer than all else
DOOR_BODIES = (1, 100)  # reports in a request to a door
SECOND_MOMENTS: dict[str, Any] = {
    "noise_by": "servers",
    "sketch": "sum",
    "radius": 1.0,
    "rows": None,
    "sparsity": None,
    "copies": "auto",
    "columns": [f"x{column}" for column in range(9)] + ["y"],
}
PROVED_RATIO = 0.8
BY_KEY, BY_WORDS = "keys", "words"
_LENGTH = re.compile(rb"\r\nContent-Length: (\d+)\r\n", re.IGNORECASE)
_SCHEDULER = 2  # CPUCLOCK_SCHED, nanoseconds of which the scheduler knows


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write."""
    if arguments[:1] == ["bare"]:
        _serve_bare(Path(arguments[1]), int(arguments[2]))
        return
    parser = argparse.ArgumentParser(prog="python -m bench intake", description=__doc__.splitlines()[0])
    parser.add_argument("--reports", type=int, default=REPORTS, help="uploads to each (default %(default)s)")
    parser.add_argument("--connections", type=int, default=CONNECTIONS, help="at once (default %(default)s)")
    parser.add_argument("--short", action="store_true", help=f"{SHORT_REPORTS} uploads; nothing is written")
    parser.add_argument("--door", action="store_true", help="only through a door; nothing is written")
    chosen = parser.parse_args(arguments)
    reports = SHORT_REPORTS if chosen.short else chosen.reports
    if chosen.door:
        with tempfile.TemporaryDirectory(prefix="dpmpc-intake-") as folder:
            print("\n".join(_door_lines(measure_door(Path(folder), reports // DOOR_SHARE, chosen.connections))))
        return
    with tempfile.TemporaryDirectory(prefix="dpmpc-intake-") as folder:
        measured = measure(Path(folder), reports, chosen.connections)
        proofs = measure_proofs(Path(folder), reports // 2, chosen.connections)
        door = measure_door(Path(folder), reports // DOOR_SHARE, chosen.connections)
    content = {"machine": machine(), "reports": reports, "connections": chosen.connections, **measured}
    content |= {"proofs": proofs, "door": door}
    text = render(content)
    print(text)
    if reports == REPORTS:
        write("intake", content, text)


class Way(NamedTuple):
    """A server that takes uploads."""

    port: int
    process: int
    party: str  # the name in its certificate
    path: str
    context: ssl.SSLContext | None
    bodies: Callable[[int], list[bytes]]  # of so many reports


def measure(folder: Path, reports: int, connections: int) -> dict[str, Any]:
    """Send the reports to our server and to a bare handler, a part to each in turn."""
    with Servers.make(folder, "--rate", "1000000000") as servers:
        servers.start(0)
        ours = _way(servers, 0)
        port = free_ports(1)[0]
        command = [sys.executable, "-m", "bench", "intake", "bare"]
        bare = subprocess.Popen(
            [*command, str(servers.server_folder(0).identity.absolute()), str(port)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        try:
            assert bare.stdout is not None
            bare.stdout.readline()
            ways = {"dpmpc": ours, "bare": ours._replace(port=port, process=bare.pid)}
            measured = _measure_ways(ways, reports, connections)
            memory = {name: _peak_mb(way.process) for name, way in ways.items()}
            wire = asyncio.run(_wire(ours, ours.bodies(2)))
        finally:
            bare.kill()
            bare.wait()
            if bare.stdout is not None:
                bare.stdout.close()
        _require_stored(servers, 0, reports // ROUNDS * ROUNDS + 2)
    return {
        **measured,
        "cpu_ratio": _ratio(measured["cpu_s"], "bare", "dpmpc"),
        "wall_ratio": _ratio(measured["wall_s"], "bare", "dpmpc"),
        "peak_mb": memory,
        "wire_bytes": wire,
    }


def measure_proofs(folder: Path, reports: int, connections: int) -> dict[str, Any]:
    """Send reports to a server with keys and to the one with words, of a collection with proofs and of one without."""
    measured: dict[str, Any] = {}
    with contextlib.ExitStack() as stack:
        pair = {}
        for name, proved in (("unproved", False), ("proved", True)):
            (folder / name).mkdir()
            servers = Servers.make(folder / name, "--rate", "1000000000", proved=proved, **SECOND_MOMENTS)
            pair[name] = stack.enter_context(servers)
        last = len(pair["proved"].collection.servers) - 1
        for kind, server in ((BY_KEY, 0), (BY_WORDS, last)):
            for servers in pair.values():
                servers.start(server)
            ways = {name: _way(servers, server) for name, servers in pair.items()}
            found = _measure_ways(ways, reports, connections)
            for servers in pair.values():
                servers.stop(server)
                _require_stored(servers, server, reports // ROUNDS * ROUNDS)
            measured[kind] = {
                **found,
                "bytes": {name: len(way.bodies(1)[0]) for name, way in ways.items()},
                "cpu_ratio": _ratio(found["cpu_s"], "unproved", "proved"),
                "wall_ratio": _ratio(found["wall_s"], "unproved", "proved"),
            }
    return measured


def measure_door(folder: Path, reports: int, connections: int) -> dict[str, Any]:
    """Send reports to one door, one a request and many; return seconds a report: CPU of each process, and wall."""
    (folder / "door").mkdir()
    options = {"doors": True, "proved": True, **SECOND_MOMENTS}
    each = max(1, reports // ROUNDS)
    with Servers.make(folder / "door", "--rate", "1000000000", **options) as servers:
        servers.start()
        collection = servers.collection
        processes = {"server": servers.processes[0].pid, "other": servers.processes[1].pid}
        runs: dict[int, dict[str, list[float]]] = {
            together: {name: [] for name in (*processes, "wall")} for together in DOOR_BODIES
        }
        path = SEALED_UPLOADS.format(digest=collection.digest.hex())
        way = Way(servers.proxied[0], processes["server"], "", path, None, lambda count: [])
        for number in range(ROUNDS):
            print(f"intake: round {number + 1} of {ROUNDS}, through a door", file=sys.stderr)
            for together, seconds in runs.items():
                sealed = _bodies(collection, each)
                bodies = [b"".join(sealed[first : first + together]) for first in range(0, each, together)]
                before = {name: _cpu_seconds(process) for name, process in processes.items()}
                start = time.perf_counter()
                asyncio.run(_send_all(way, bodies, min(connections, len(bodies))))
                seconds["wall"].append((time.perf_counter() - start) / each)
                for name, process in processes.items():
                    seconds[name].append((_cpu_seconds(process) - before[name]) / each)
        _require_stored(servers, 0, each * ROUNDS * len(DOOR_BODIES))
    return {
        "reports": each * ROUNDS,
        "bytes": len(sealed[0]),
        "together": {
            str(together): {name: summary(values) for name, values in seconds.items()}
            for together, seconds in runs.items()
        },
    }


def _bodies(collection: Collection, count: int) -> list[bytes]:
    """Make reports; what the rows say does not matter to a server."""
    ids = [report_id(collection.digest, os.urandom(SECRET_BYTES)) for _ in range(count)]
    rows = np.full((count, len(collection.plan.schema)), 5.0)
    records = zip(*make_reports(Client(collection.plan.verify()), collection, rows, ids), strict=True)
    return list(map(SealedReports(collection).seal, records))


def _way(servers: Servers, server: int) -> Way:
    """Return how to upload to one of our servers, which runs."""
    collection = servers.collection
    return Way(
        servers.address(server)[1],
        servers.processes[server].pid,
        f"party-{server}",
        OWN_UPLOADS.format(digest=collection.digest.hex()),
        pinning_context(collection.servers[server].certificate.encode()),
        functools.partial(_bodies, collection),
    )


def _measure_ways(ways: dict[str, Way], reports: int, connections: int) -> dict[str, Any]:
    """Send the reports to each way, a part to each in turn; return seconds an upload."""
    wall: dict[str, list[float]] = {name: [] for name in ways}
    cpu: dict[str, list[float]] = {name: [] for name in ways}
    each = reports // ROUNDS
    for number in range(ROUNDS):
        for name, way in ways.items():
            bodies = way.bodies(each)
            print(f"intake: round {number + 1} of {ROUNDS}, {name}", file=sys.stderr)
            before, start = _cpu_seconds(way.process), time.perf_counter()
            asyncio.run(_send_all(way, bodies, connections))
            wall[name].append((time.perf_counter() - start) / each)
            cpu[name].append((_cpu_seconds(way.process) - before) / each)
    return {
        "wall_s": {name: summary(values) for name, values in wall.items()},
        "cpu_s": {name: summary(values) for name, values in cpu.items()},
    }


def _ratio(seconds: dict[str, dict[str, float]], slow: str, fast: str) -> float:
    return seconds[slow]["median"] / seconds[fast]["median"]


def _require_stored(servers: Servers, server: int, expected: int) -> None:
    with servers.spool(server) as spool:
        if len(spool) != expected:
            raise ProtocolFailure(f"intake: {len(spool)} reports in the spool, {expected} expected")


async def _send_all(way: Way, bodies: Sequence[bytes], connections: int) -> None:
    left = iter(bodies)
    await asyncio.gather(*(_connection(way, left) for _ in range(connections)))


async def _connection(way: Way, bodies: Iterator[bytes]) -> None:
    """Send requests one after the other; a client that costs as little as possible."""
    name = way.party or None  # none without TLS
    reader, writer = await asyncio.open_connection(HOST, way.port, ssl=way.context, server_hostname=name)
    for body in bodies:
        writer.write(_request(way.path, body))
        await _answer(reader)
    writer.close()
    await writer.wait_closed()


def _request(path: str, body: bytes) -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


async def _answer(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    length = _LENGTH.search(head)
    if not head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 202")) or length is None:  # 202: durable, and handed on later
        raise ProtocolFailure(f"intake: answered {head[:60]!r}")
    await reader.readexactly(int(length[1]))


async def _wire(way: Way, bodies: Sequence[bytes]) -> dict[str, int]:
    """Count what TLS hands to TCP, in both directions: of the connection, and of its last request."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    assert way.context is not None
    link = way.context.wrap_bio(incoming, outgoing, server_hostname=way.party)
    reader, writer = await asyncio.open_connection(HOST, way.port)
    sent = received = 0

    async def pump(step: Callable[[], object]) -> None:
        nonlocal sent, received
        while True:
            waiting = False
            try:
                step()
            except ssl.SSLWantReadError:
                waiting = True
            data = outgoing.read()
            writer.write(data)
            sent += len(data)
            if not waiting:
                return
            data = await reader.read(1 << 16)
            if not data:
                raise InputError("intake", "the server closed the connection")
            received += len(data)
            incoming.write(data)

    await pump(link.do_handshake)
    connection = sent, received
    for body in bodies:
        before = sent, received
        request = _request(way.path, body)
        await pump(functools.partial(link.write, request))
        await pump(lambda: link.read(1 << 14))
    writer.close()
    await writer.wait_closed()
    return {
        "body": len(bodies[-1]),
        "request": len(_request(way.path, bodies[-1])),
        "request_sent": sent - before[0],
        "request_received": received - before[1],
        "connection_sent": connection[0],
        "connection_received": connection[1],
    }


def _cpu_seconds(process: int) -> float:
    """Return user and system time of a process, in all of its threads: clock_getcpuclockid(3) of Linux."""
    return time.clock_gettime((~process << 3) | _SCHEDULER)


def _peak_mb(process: int) -> float:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    raise InputError("process", process, "one with a VmHWM in /proc")


def _serve_bare(identity: Path, port: int) -> None:
    """Answer 200 to every POST, and do nothing."""
    from aiohttp import web

    async def handle(request: Any) -> Any:
        await request.read()
        return web.Response(body=b'{"stored": 1, "duplicates": 0}', content_type="application/json")

    async def run() -> None:
        application = web.Application()
        application.router.add_post(OWN_UPLOADS, handle)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, HOST, port, ssl_context=serving_context(identity)).start()
        print("ready", flush=True)
        await asyncio.Event().wait()

    asyncio.run(run())


def render(content: dict[str, Any]) -> str:
    """Return the Markdown page."""
    where, wire, proofs = content["machine"], content["wire_bytes"], content["proofs"]
    rows = [
        [
            name,
            f"{1 / content['wall_s'][key]['median']:,.0f}",
            f"{1e6 * content['cpu_s'][key]['median']:.0f}",
            f"{1 / content['cpu_s'][key]['median']:,.0f}",
            f"{content['peak_mb'][key]:.0f}",
        ]
        for key, name in (("bare", "bare aiohttp handler"), ("dpmpc", "dpmpc serve"))
    ]
    return "\n".join(
        [
            "# Uploads to one server",
            "",
            f"{content['reports']:,} reports to each, one a request, {content['connections']} connections kept alive, "
            f"TLS 1.3; {ROUNDS} rounds in turn, medians. {where['cpu']}, {where['cores']} cores for servers and "
            f"client, {where['date']}.",
            "",
            markdown(["server", "uploads/s", "CPU µs an upload", "uploads a CPU second", "peak MB"], rows),
            "",
            f"Uploads a CPU second, over those of the bare handler: {content['cpu_ratio']:.2f}; uploads a second: "
            f"{content['wall_ratio']:.2f}.",
            "",
            f"A report to a server that gets keys is {wire['body']} bytes; its HTTP request {wire['request']}, on the "
            f"wire {wire['request_sent']} sent and {wire['request_received']} received with TLS; a connection costs "
            f"{wire['connection_sent']} sent and {wire['connection_received']} received before the first request.",
            "",
            "## With proofs",
            "",
            f"Second moments of {len(SECOND_MOMENTS['columns'])} columns, {content['reports'] // 2:,} reports to each "
            "server, by turns to a collection whose clients prove them and to one whose clients do not. Uploads of "
            f"proved reports should be at least {PROVED_RATIO} of the others.",
            "",
            markdown(
                [
                    "server gets",
                    "reports",
                    "bytes",
                    "uploads/s",
                    "CPU µs an upload",
                    "uploads a CPU second, of unproved",
                ],
                [_proofs_row(kind, name, entry) for kind, entry in proofs.items() for name in entry["bytes"]],
            ),
            "",
            *_door_lines(content["door"]),
        ]
    )


def _door_lines(door: dict[str, Any]) -> list[str]:
    """Return the lines about a door."""
    rows = [
        [
            name,
            together,
            f"{1e6 * seconds[key]['median']:.0f}",
            f"{1 / seconds[key]['median']:,.0f}",
            f"{1 / seconds['wall']['median']:,.0f}",
        ]
        for key, name in (
            ("server", "its server, which opens, stores and hands on"),
            ("other", "another server, which opens and stores"),
        )
        for together, seconds in door["together"].items()
    ]
    headings = ["process", "reports a request", "CPU µs a report", "reports a CPU second", "answered a second"]
    return [
        "## Through a door",
        "",
        f"{door['reports']:,} sealed reports with proofs for three servers, {door['bytes']:,} bytes each, in requests "
        f"of each size, by plain HTTP to one door.",
        "",
        markdown(headings, rows),
    ]


def _proofs_row(kind: str, name: str, entry: dict[str, Any]) -> list[str]:
    """Return a line of the table of proved and unproved reports."""
    reached = entry["cpu_ratio"] >= PROVED_RATIO
    judged = f"{entry['cpu_ratio']:.2f}" + ("" if reached else " (missed)")
    return [
        kind,
        name,
        f"{entry['bytes'][name]:,}",
        f"{1 / entry['wall_s'][name]['median']:,.0f}",
        f"{1e6 * entry['cpu_s'][name]['median']:.0f}",
        judged if name == "proved" else "",
    ]
