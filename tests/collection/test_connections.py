"""Connections of a server of a collection: counted from accept to close, bounded in all and for each address."""

import asyncio
import contextlib
import datetime
import logging
import resource
import socket
import ssl
from pathlib import Path

import pytest

from bench.system.collection_servers import Servers
from dpmpc.collection import connections
from dpmpc.collection.admission import Limits
from dpmpc.collection.connections import connections_allowed, listen
from dpmpc.collection.doors import SEALED_UPLOADS
from dpmpc.collection.logs import RateLimitedLogger
from dpmpc.errors import InputError
from dpmpc.network.identity import pinning_context, public_context, write_identity
from support.hostile.strangers import Idle, Silent, pipeline
from support.listening import LOG, is_closed, opened
from support.waiting import PATIENCE, until, wait_for


def get(servers, path, source=None, timeout=PATIENCE):
    """Ask a server; return status and body, or the error."""
    context = pinning_context(servers.collection.servers[0].certificate.encode())
    address = source and (source, 0)
    with (
        socket.create_connection(servers.address(0), timeout=timeout, source_address=address) as plain,
        context.wrap_socket(plain, server_hostname="party-0") as link,
    ):
        link.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        content = b""
        with contextlib.suppress(ssl.SSLEOFError):
            while part := link.recv(1 << 16):
                content += part
    head, _, body = content.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A server that takes few connections."""
    options = ("--connections", "60", "--address-connections", "20", "--metrics-for-all")
    with Servers.make(tmp_path_factory.mktemp("small"), *options) as servers:
        yield servers.start(0)


@pytest.mark.parametrize("tls", [False, True], ids=["silent", "after the handshake"])
def test_one_address_leaves_connections_to_others(small, tls):
    context = None
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with Silent(small.address(0), 200, seconds=2 * PATIENCE, context=context, again=False) as silent:
        wait_for(lambda: silent.opened >= (20 if tls else 200), "connections of the silent")
        assert get(small, "/healthz", source="127.0.0.2")[0] == 200
        if tls:  # they have spoken, and keep their places; without TLS silent ones make way for newcomers
            wait_for(lambda: figures(small)['dpmpc_connections_refused_total{reason="connections"}'] >= 1, "a refusal")
        assert figures(small)["dpmpc_connections"] <= 21
    assert len(small.log(0)) < 5000


@pytest.mark.parametrize("body", [0, 1000], ids=["idle", "bodies that never end"])
def test_connections_without_a_request_of_many_addresses_keep_nobody_out(small, body):
    """Four addresses, none near another, want all 60 places and come again whenever they lose one."""
    target = SEALED_UPLOADS.format(digest=small.collection.digest.hex()) if body else "/healthz"
    options = {"seconds": 2 * PATIENCE, "target": target, "body": body}
    with contextlib.ExitStack() as held:
        strangers = [
            held.enter_context(Idle(small.address(0), 20, source=f"127.0.{100 + number}.1", **options))
            for number in range(4)
        ]
        wait_for(lambda: sum(each.opened for each in strangers) >= 60, "the strangers")
        answers = [get(small, "/healthz", source=f"127.0.{200 + number}.1")[0] for number in range(20)]
        assert answers == [200] * 20
        assert figures(small)['dpmpc_connections_refused_total{reason="idle"}'] >= 1
        assert figures(small)["dpmpc_connections"] <= 60


def figures(servers):
    """What the server says of itself to another address."""
    _, metrics = get(servers, "/metrics", source="127.0.0.2")
    lines = (line.rsplit(" ", 1) for line in metrics.decode().splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in lines}


def test_pipelined_requests_do_not_fill_the_memory(small):
    """One connection that never reads an answer."""
    context = pinning_context(small.collection.servers[0].certificate.encode())
    before = resident(small.processes[0].pid)
    with (
        socket.create_connection(small.address(0), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="party-0") as link,
    ):
        pipeline(link, "/v1/collection", 3.0)
        assert resident(small.processes[0].pid) - before < 60e6
        assert get(small, "/healthz")[0] == 200


def resident(process):
    """Bytes of memory that a process has."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.parametrize("sent", [b"", b"\x16", b"\x16\x03\x01\x02\x00"], ids=["silent", "a byte", "a header"])
def test_a_handshake_that_is_not_made_ends_and_gives_its_place_back(monkeypatch, sent):
    monkeypatch.setattr(connections, "HANDSHAKE_SECONDS", 0.3)

    async def go():
        async with opened(Limits()) as (port, door, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            await until(lambda: len(door) == 1)
            assert await is_closed(reader)
            await until(lambda: len(door) == 0)
            writer.close()

    asyncio.run(go())


async def speaking(port):
    """Connect and begin a handshake: the first byte of one."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"\x16")
    await writer.drain()
    return reader, writer


def test_silent_callers_make_way_for_newcomers():
    """Of four places three are kept by callers that have spoken; the silent one's goes to whoever comes."""

    async def go():
        async with opened(Limits(address_connections=4)) as (port, door, refused):
            spoken = [await speaking(port) for _ in range(3)]
            await until(lambda: door.handshakes == 3)
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(10)]
            assert [await is_closed(reader) for reader, _ in silent[:9]] == [True] * 9
            assert [await is_closed(reader, 0.05) for reader, _ in spoken] == [False] * 3
            assert (len(door), refused) == (4, [])
            for _, writer in spoken + silent:
                writer.close()

    asyncio.run(go())


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"connections": 3}, "connections"),
        ({"address_connections": 3}, "connections"),
        ({"handshakes": 3}, "handshakes"),
        ({"address_handshakes": 3}, "handshakes"),
    ],
)
def test_one_too_many_is_closed_at_once(limits, reason):
    async def go():
        async with opened(Limits(**limits)) as (port, door, refused):
            callers = [await speaking(port) for _ in range(3)]
            await until(lambda: door.handshakes == 3)
            assert refused == []
            reader, writer = await speaking(port)
            assert await is_closed(reader)
            assert refused == [reason]
            assert len(door) == 3
            for _, one in [*callers, (reader, writer)]:
                one.close()

    asyncio.run(go())


def test_an_old_handshake_makes_way(monkeypatch):
    monkeypatch.setattr(connections, "GRACE_SECONDS", 0.0)

    async def go():
        async with opened(Limits(address_handshakes=2)) as (port, door, refused):
            callers = []
            for number in range(5):
                callers.append(await speaking(port))
                if number >= 2:
                    assert await is_closed(callers[number - 2][0])
                await until(lambda: door.handshakes == min(len(callers), 2))
            assert (len(door), refused) == (2, [])
            for _, writer in callers:
                writer.close()

    asyncio.run(go())


def test_a_request_that_the_server_is_at_work_for_keeps_its_place(monkeypatch, tmp_path):
    """Of three places of an address two are at work and one idle: the idle one's goes to a newcomer, no other does."""
    monkeypatch.setattr(connections, "GRACE_SECONDS", 0.0)
    certificate = write_identity(tmp_path / "own", 0, datetime.timedelta(days=1))
    request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"

    async def go():
        done, begun = asyncio.Event(), []

        async def work(request):
            begun.append(request)
            await done.wait()

        async def connect(port):
            context = pinning_context(certificate)
            return await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="party-0")

        async with opened(Limits(address_connections=3), context=public_context(tmp_path / "own"), work=work) as (
            port,
            door,
            refused,
        ):
            busy = [await connect(port) for _ in range(2)]
            for _, writer in busy:
                writer.write(request)
            await until(lambda: len(begun) == 2)
            idle = await connect(port)
            newcomer = await connect(port)
            assert await is_closed(idle[0])
            newcomer[1].write(request)
            await until(lambda: len(begun) == 3)
            with pytest.raises(OSError):  # closed at once, before or during the handshake
                await connect(port)
            assert (len(door), refused) == (3, ["idle", "connections"])
            done.set()
            for reader, _ in [*busy, newcomer]:
                assert (await asyncio.wait_for(reader.readline(), PATIENCE)).startswith(b"HTTP/1.1 200")
            for _, writer in [*busy, idle, newcomer]:
                writer.close()

    asyncio.run(go())


def test_a_name_with_several_addresses_is_listened_on_at_all(monkeypatch):
    async def go():
        loop = asyncio.get_running_loop()

        async def found(host, port, **options):
            answer = [
                (socket.AF_INET, socket.SOCK_STREAM, 0, "", (address, 0)) for address in ("127.0.0.1", "127.0.0.2")
            ]
            return [*answer, answer[0]]

        monkeypatch.setattr(loop, "getaddrinfo", found)
        listeners = await listen("somewhere", 0)
        names = [listener.getsockname()[0] for listener in listeners]
        for listener in listeners:
            listener.close()
        return names

    assert asyncio.run(go()) == ["127.0.0.1", "127.0.0.2"]


@pytest.mark.parametrize(
    ("limits", "wanted", "allowed", "raised"),
    [
        ((256, 4096), 1024, 1024, (1152, 4096)),
        ((256, 600), 1024, 472, (600, 600)),
        ((4096, 4096), 1024, 1024, None),
        ((256, resource.RLIM_INFINITY), 1024, 1024, (1152, resource.RLIM_INFINITY)),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), 1024, 1024, None),
    ],
)
def test_connections_fit_into_the_open_files(monkeypatch, limits, wanted, allowed, raised):
    told = []
    monkeypatch.setattr(resource, "getrlimit", lambda kind: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda kind, both: told.append(both))
    assert connections_allowed(wanted) == allowed
    assert told == ([] if raised is None else [raised])


def test_too_few_open_files_are_refused(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (100, 100))
    monkeypatch.setattr(resource, "setrlimit", lambda kind, both: None)
    with pytest.raises(InputError, match="a limit of 100 given, more than 128 expected"):
        connections_allowed(1024)


def test_a_message_is_logged_once_a_minute(caplog):
    now = 0.0
    log = RateLimitedLogger(LOG, lambda: now)
    for _ in range(1000):
        log.log(logging.ERROR, "accept: %s", "no files")
    log.log(logging.ERROR, "another")
    assert [record.getMessage() for record in caplog.records] == ["accept: no files", "another"]
    now = 61.0
    log.log(logging.ERROR, "accept: %s", "no files")
    assert caplog.records[-1].getMessage() == "accept: no files (999 more since the last such line)"


def test_what_keeps_a_server_from_accepting_is_logged_once(monkeypatch, caplog):
    monkeypatch.setattr("dpmpc.network.callers.PAUSE_SECONDS", 0.001)

    async def go():
        async with opened(Limits()) as (port, door, _):
            real = socket.socket.accept
            left = [30]

            def accept(listener):
                if left[0]:
                    left[0] -= 1
                    raise OSError(24, "Too many open files")
                return real(listener)

            monkeypatch.setattr(socket.socket, "accept", accept)
            writers = [(await asyncio.open_connection("127.0.0.1", port))[1] for _ in range(2)]
            await until(lambda: len(door) == 2 or not left[0])
            await until(lambda: len(door) == 2)
            for writer in writers:
                writer.close()

    asyncio.run(go())
    assert [record.getMessage() for record in caplog.records] == ["accept: Too many open files; new connections wait"]
