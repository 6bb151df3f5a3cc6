"""What a server takes: uploads a second, CPU time and memory, beside an aiohttp handler that does nothing.

One client process sends single reports, 48 bytes each, to a server that gets keys, over TLS 1.3 and connections that
are kept alive. In turn it sends the same requests to a bare handler of aiohttp, in a process of its own with the same
certificate, that reads the body and answers 200 at once. CPU time is that of the server's process, so the client's work
does not count, nor what else the machine does.

The bytes on the wire are counted between TLS and TCP: of a connection, and of a request on it.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import os
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness import machine, markdown, summary, write
from bench.system.collection_servers import Servers
from bench.system.ports import HOST, free_ports
from dpmpc.client import Client
from dpmpc.collection.reports import make_reports
from dpmpc.errors import InputError, ProtocolFailure
from dpmpc.network.identity import pinning_context, public_context

REPORTS, SHORT_REPORTS = 100_000, 10_000
CONNECTIONS = 64
ROUNDS = 4  # alternations between the two servers
_ANSWER_END = b"}"
_HZ = os.sysconf("SC_CLK_TCK")


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write."""
    if arguments[:1] == ["bare"]:
        _serve_bare(Path(arguments[1]), int(arguments[2]))
        return
    parser = argparse.ArgumentParser(prog="python -m bench intake", description=__doc__.splitlines()[0])
    parser.add_argument("--reports", type=int, default=REPORTS, help="uploads to each (default %(default)s)")
    parser.add_argument("--connections", type=int, default=CONNECTIONS, help="at once (default %(default)s)")
    parser.add_argument("--short", action="store_true", help=f"{SHORT_REPORTS} uploads; nothing is written")
    chosen = parser.parse_args(arguments)
    reports = SHORT_REPORTS if chosen.short else chosen.reports
    with tempfile.TemporaryDirectory(prefix="dpmpc-intake-") as folder:
        measured = measure(Path(folder), reports, chosen.connections)
    content = {"machine": machine(), "reports": reports, "connections": chosen.connections, **measured}
    text = render(content)
    print(text)
    if reports == REPORTS:
        write("intake", content, text)


def measure(folder: Path, reports: int, connections: int) -> dict[str, Any]:
    """Send the reports to both servers, a part to each in turn."""
    with Servers.make(folder, "--rate", "1000000000") as servers:
        servers.start(0)
        entry = servers.collection.servers[0]
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
            path = f"/v1/collections/{servers.collection.digest.hex()}/reports"
            context = pinning_context(entry.certificate.encode())
            ways = {"dpmpc": (servers.address(0)[1], servers.processes[0].pid), "bare": (port, bare.pid)}
            wall: dict[str, list[float]] = {name: [] for name in ways}
            cpu: dict[str, list[float]] = {name: [] for name in ways}
            each = reports // ROUNDS
            for number in range(ROUNDS):
                bodies = _bodies(servers, each, number * each)
                for name, (where, process) in ways.items():
                    print(f"intake: round {number + 1} of {ROUNDS}, {name}", file=sys.stderr)
                    before, start = _cpu_seconds(process), time.perf_counter()
                    asyncio.run(_send_all(where, path, context, bodies, connections))
                    wall[name].append((time.perf_counter() - start) / each)
                    cpu[name].append((_cpu_seconds(process) - before) / each)
            memory = {name: _peak_mb(process) for name, (_, process) in ways.items()}
            wire = asyncio.run(_wire(ways["dpmpc"][0], path, context, _bodies(servers, 2, reports)))
        finally:
            bare.kill()
            bare.wait()
            if bare.stdout is not None:
                bare.stdout.close()
        with servers.spool(0) as spool:
            if len(spool) != each * ROUNDS + 2:
                raise ProtocolFailure(f"intake: {len(spool)} reports in the spool, {each * ROUNDS + 2} expected")
    return {
        "wall_s": {name: summary(values) for name, values in wall.items()},
        "cpu_s": {name: summary(values) for name, values in cpu.items()},
        "cpu_ratio": float(np.median(cpu["bare"]) / np.median(cpu["dpmpc"])),
        "wall_ratio": float(np.median(wall["bare"]) / np.median(wall["dpmpc"])),
        "peak_mb": memory,
        "wire_bytes": wire,
    }


def _bodies(servers: Servers, count: int, first: int) -> list[bytes]:
    """Make reports to a server that gets keys; what the rows say does not matter to it."""
    client = Client(servers.collection.plan)
    rows = np.full((count, len(servers.collection.plan.schema)), 5.0)
    ids = [(first + index).to_bytes(16) for index in range(count)]
    return make_reports(client, servers.collection, rows, ids)[0]


async def _send_all(port: int, path: str, context: ssl.SSLContext, bodies: Sequence[bytes], connections: int) -> None:
    left = iter(bodies)
    await asyncio.gather(*(_connection(port, path, context, left) for _ in range(connections)))


async def _connection(port: int, path: str, context: ssl.SSLContext, bodies: Iterator[bytes]) -> None:
    """Send requests one after the other; a client that costs as little as possible."""
    reader, writer = await asyncio.open_connection(HOST, port, ssl=context, server_hostname="party-0")
    for body in bodies:
        writer.write(_request(path, body))
        await _answer(reader)
    writer.close()
    await writer.wait_closed()


def _request(path: str, body: bytes) -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


async def _answer(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise ProtocolFailure(f"intake: answered {head[:60]!r}")
    await reader.readuntil(_ANSWER_END)


async def _wire(port: int, path: str, context: ssl.SSLContext, bodies: Sequence[bytes]) -> dict[str, int]:
    """Count what TLS hands to TCP, in both directions: of the connection, and of its last request."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    link = context.wrap_bio(incoming, outgoing, server_hostname="party-0")
    reader, writer = await asyncio.open_connection(HOST, port)
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
                raise InputError("intake: the server closed the connection")
            received += len(data)
            incoming.write(data)

    await pump(link.do_handshake)
    connection = sent, received
    for body in bodies:
        before = sent, received
        request = _request(path, body)
        await pump(functools.partial(link.write, request))
        await pump(lambda: link.read(1 << 14))
    writer.close()
    await writer.wait_closed()
    return {
        "body": len(bodies[-1]),
        "request": len(_request(path, bodies[-1])),
        "request_sent": sent - before[0],
        "request_received": received - before[1],
        "connection_sent": connection[0],
        "connection_received": connection[1],
    }


def _cpu_seconds(process: int) -> float:
    """Return user and system time of a process, to a hundredth of a second."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _HZ


def _peak_mb(process: int) -> float:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    raise InputError(f"process: {process} given, one with a VmHWM in /proc expected")


def _serve_bare(identity: Path, port: int) -> None:
    """Answer 200 to every POST, and do nothing."""
    from aiohttp import web

    async def handle(request: Any) -> Any:
        await request.read()
        return web.Response(body=b'{"stored": 1, "duplicates": 0}', content_type="application/json")

    async def run() -> None:
        application = web.Application()
        application.router.add_post("/v1/collections/{digest}/reports", handle)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, HOST, port, ssl_context=public_context(identity)).start()
        print("ready", flush=True)
        await asyncio.Event().wait()

    asyncio.run(run())


def render(content: dict[str, Any]) -> str:
    """Return the Markdown page."""
    where, wire = content["machine"], content["wire_bytes"]
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
        ]
    )
