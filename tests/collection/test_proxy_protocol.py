"""The PROXY protocol: who calls through a listed proxy is counted, and nobody else names an address."""

import asyncio
import contextlib
import datetime
import logging
import os
import socket
import ssl
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.system.collection_servers import Servers
from dpmpc.client import Client
from dpmpc.collection import connections, proxy_protocol
from dpmpc.collection.admission import Limits
from dpmpc.collection.connections import NAMED
from dpmpc.collection.proxy_protocol import LONGEST, Proxies, read_header
from dpmpc.collection.reports import make_reports
from dpmpc.errors import InputError
from dpmpc.network.identity import pinning_context, public_context, write_identity
from dpmpc.network.sockets import TrackedSocket
from support.listening import is_closed, opened
from support.waiting import PATIENCE, until

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
GET = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
LISTED = Proxies(["127.0.0.1/32"])
ROW = np.array([[1.0, 2.0, 3.0]])
ELSEWHERE = Proxies(["127.0.0.2/32"])


def header(source="203.0.113.7", *, command=0x21, extra=b"", length=None):
    """A header as proxies send it."""
    version = 6 if ":" in source else 4
    kind, family = (0x21, socket.AF_INET6) if version == 6 else (0x11, socket.AF_INET)
    here = "2001:db8::1" if version == 6 else "198.51.100.1"
    rest = socket.inet_pton(family, source) + socket.inet_pton(family, here) + struct.pack("!HH", 51000, 443) + extra
    return SIGNATURE + struct.pack("!BBH", command, kind, len(rest) if length is None else length) + rest


async def answer(port, content, source=None, context=None):
    """Send bytes; return all that comes back."""
    local = source and (source, 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=local)
    try:
        writer.write(content)
        if context is not None:
            await writer.start_tls(context, server_hostname="party-0")
            writer.write(GET)
        return await asyncio.wait_for(reader.read(), 20)
    finally:
        writer.close()


async def caller(request):
    return f"{request.remote} {NAMED in request}"


@pytest.mark.parametrize(
    ("first", "told"),
    [
        (header(), b"203.0.113.7 True"),
        (header("2001:db8::7"), b"2001:db8::7 True"),
        (header("::ffff:203.0.113.7"), b"203.0.113.7 True"),
        (header(extra=b"\x03\x00\x04abcd" * 20), b"203.0.113.7 True"),  # checksums, names of hosts, and so on
        (header(command=0x20), b"127.0.0.1 False"),  # the proxy asks for itself
        (SIGNATURE + b"\x20\x00\x00\x00", b"127.0.0.1 False"),
    ],
    ids=["IPv4", "IPv6", "mapped", "with further fields", "its own", "its own, no address"],
)
def test_a_listed_proxy_says_who_calls(first, told):
    async def go():
        async with opened(Limits(), context=None, work=caller, proxies=LISTED) as (port, door, refused):
            for _ in range(2):
                assert (await answer(port, first + GET)).endswith(told)
            await until(lambda: len(door) == 0)
            assert refused == []

    asyncio.run(go())


BAD = {
    "none": GET,
    "version 1": b"PROXY TCP4 203.0.113.7 198.51.100.1 51000 443\r\n" + GET,
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40),
    "another version": header().replace(b"\x21\x11", b"\x11\x11", 1) + GET,
    "another command": header(command=0x22) + GET,
    "a changed signature": b"\r\n\r\n\0\r\nQUIT\r" + header()[12:] + GET,
    "nobody": SIGNATURE + struct.pack("!BBH", 0x21, 0, 12) + bytes(12) + GET,
    "UDP": header().replace(b"\x21\x11", b"\x21\x12", 1) + GET,
    "a path": SIGNATURE + struct.pack("!BBH", 0x21, 0x31, 216) + bytes(216) + GET,
    "too short": header(length=11) + GET,
    "IPv6 in the length of IPv4": SIGNATURE + struct.pack("!BBH", 0x21, 0x21, 12) + bytes(12) + GET,
    "longer than it is": header(length=200),
    "too long": header(extra=bytes(LONGEST), length=LONGEST + 1) + GET,
    "as long as it goes": header(length=65535) + bytes(2000),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_header_ends_the_connection(name, monkeypatch, caplog):
    monkeypatch.setattr(proxy_protocol, "HEADER_SECONDS", 0.3)

    async def go():
        async with opened(Limits(), context=None, work=caller, proxies=LISTED) as (port, door, refused):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(BAD[name])
            assert await is_closed(reader, 5)
            writer.close()
            await until(lambda: len(door) == 0)
            assert refused == ["proxy"]
            assert (await answer(port, header() + GET)).endswith(b"203.0.113.7 True")  # others go on

    with caplog.at_level(logging.WARNING):
        asyncio.run(go())
    (line,) = [record.getMessage() for record in caplog.records if "proxy" in record.getMessage()]
    assert line.startswith("a proxy that has to name its caller: ")
    assert "203.0.113" not in line


@pytest.mark.parametrize("sent", [b"", header()[:1], header()[:20]], ids=["silent", "a byte", "most of it"])
def test_a_header_that_does_not_come_in_time_ends_the_connection(sent, monkeypatch):
    """Also one whose bytes come slowly: the time is that of the whole header."""
    monkeypatch.setattr(proxy_protocol, "HEADER_SECONDS", 0.5)

    async def go():
        async with opened(Limits(), context=None, work=caller, proxies=LISTED) as (port, door, refused):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            start = asyncio.get_running_loop().time()
            rest = header()[len(sent) :] if sent else b""
            writer.write(sent)
            for place in range(len(rest)):
                if refused:
                    break
                await asyncio.sleep(0.1)
                writer.write(rest[place : place + 1])
            assert await is_closed(reader, 5)
            assert asyncio.get_running_loop().time() - start < 5
            writer.close()
            await until(lambda: len(door) == 0)
            assert refused == ["proxy"]

    asyncio.run(go())


def test_from_others_the_same_bytes_are_no_request():
    async def go():
        async with opened(Limits(), context=None, work=caller, proxies=ELSEWHERE) as (port, _, refused):
            assert (await answer(port, header() + GET)).startswith(b"HTTP/1.0 400 ")
            assert (await answer(port, GET)).endswith(b"127.0.0.1 False")
            assert (await answer(port, header() + GET, source="127.0.0.2")).endswith(b"203.0.113.7 True")
            assert refused == []

    asyncio.run(go())


def test_the_header_comes_before_tls_and_from_others_it_breaks_tls(tmp_path):
    pem = write_identity(tmp_path / "identity", 0, datetime.timedelta(days=1))

    async def go():
        context, trusting = public_context(tmp_path / "identity"), pinning_context(pem)
        async with opened(Limits(), context=context, work=caller, proxies=LISTED) as (port, door, _):
            assert (await answer(port, header(), context=trusting)).endswith(b"203.0.113.7 True")
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await answer(port, b"", context=trusting)  # a listed proxy that says nothing of its caller
            await until(lambda: len(door) == 0)
        async with opened(Limits(), context=context, work=caller, proxies=ELSEWHERE) as (port, door, _):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await answer(port, header(), context=trusting)
            assert (await answer(port, b"", context=trusting)).endswith(b"127.0.0.1 False")
            await until(lambda: len(door) == 0)

    asyncio.run(go())


def test_callers_have_their_own_limits_and_the_proxy_has_none(monkeypatch):
    """Two places an address: a third connection of one caller is refused, those of others through the proxy are not."""
    monkeypatch.setattr(connections, "GRACE_SECONDS", 60.0)

    async def go():
        async with opened(Limits(connections=20, address_connections=2), context=None, work=caller, proxies=LISTED) as (
            port,
            door,
            refused,
        ):
            links = []
            for source in ("203.0.113.7", "203.0.113.7", "192.0.2.1", "192.0.2.1", "2001:db8::7"):
                links.append(await asyncio.open_connection("127.0.0.1", port))
                links[-1][1].write(header(source) + b"GET")
                await until(lambda: len(door) == len(links))
            await asyncio.sleep(0.1)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(header() + b"GET")
            assert await is_closed(reader, 5)
            assert refused == ["connections"]
            assert len(door) == 5
            for _, each in [*links, (reader, writer)]:
                each.close()
            await until(lambda: len(door) == 0)

    asyncio.run(go())


@given(st.binary(max_size=80))
def test_any_bytes_are_a_header_or_an_error_and_nothing_after_it_is_read(rest):
    """Whatever follows the signature: no other exception, and what is left is what stands after the length."""

    async def go():
        here, there = socket.socketpair()
        reading = TrackedSocket(fileno=here.detach())
        reading.setblocking(False)
        with reading, there:
            there.sendall(SIGNATURE + rest)
            there.shutdown(socket.SHUT_WR)
            try:
                found = await read_header(reading)
            except OSError:
                return
            assert (found is None) == (rest[0] == 0x20)
            assert reading.recv(200) == rest[4 + int.from_bytes(rest[2:4], "big") :]

    asyncio.run(go())


@pytest.mark.parametrize("wrong", ["", "10.0.0.7/33", "10.0.0.7/8", "proxy.example", "0.0.0.0/0", "::/0", "\x1b[2J"])
def test_networks_that_are_none_or_everybody_are_refused(wrong):
    with pytest.raises(InputError, match=r"proxied: .* given") as refusal:
        Proxies([wrong])
    assert "\x1b" not in str(refusal.value)


def test_which_addresses_are_proxies():
    proxies = Proxies(["10.0.0.7/32", "2001:db8::/64", "192.0.2.0/24"])
    assert [proxies.has(one) for one in ("10.0.0.7", "2001:db8::9", "192.0.2.200")] == [True] * 3
    assert [proxies.has(one) for one in ("10.0.0.8", "2001:db9::9", "::1", None, "")] == [False] * 5
    assert [Proxies([one]).are_local for one in ("10.0.0.7/32", "127.0.0.2/32", "::1/128")] == [False, True, True]


def ask(servers, first, request):
    """Send a header, then a request over TLS; return the status."""
    trusting = pinning_context(servers.collection.servers[0].certificate.encode())
    with socket.create_connection(servers.address(0), timeout=PATIENCE) as plain:
        plain.sendall(first)
        with trusting.wrap_socket(plain, server_hostname="party-0") as link:
            link.sendall(request)
            return int(link.recv(1 << 16).split()[1])


def test_a_server_takes_reports_through_a_proxy_and_shows_its_callers_no_metrics(tmp_path):
    """Not to a caller that the proxy calls 127.0.0.1 either: that is the proxy's own host."""
    with Servers.make(tmp_path, "--proxied", "127.0.0.1/32", "192.0.2.0/24", "--rate", "0.1") as servers:
        servers.start(0)
        collection = servers.collection
        metrics = b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        assert ask(servers, header(), metrics) == 403
        assert ask(servers, header("127.0.0.1"), metrics) == 403
        assert ask(servers, header("::1"), metrics) == 403
        assert ask(servers, header(command=0x20), metrics) == 200  # the operator's own program may say so
        path = f"/v1/collections/{collection.digest.hex()}/reports"
        statuses = []
        for source in ("203.0.113.7", "203.0.113.7", "203.0.113.8"):
            ((record, *_),) = zip(
                *make_reports(Client(collection.plan), collection, ROW, [os.urandom(16)]), strict=True
            )
            head = f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(record)}\r\n\r\n"
            statuses.append(ask(servers, header(source), head.encode() + bytes(record)))
        assert statuses == [200, 429, 200]  # each caller has a rate of its own


def test_a_door_counts_callers_that_a_proxy_on_its_host_names(tmp_path):
    """One connection an address: without the header all at a door would be the proxy's, which has no limit there."""
    options = ("--proxied", "127.0.0.2/32", "--address-connections", "1")
    with Servers.make(tmp_path, *options, sealed=True) as servers, contextlib.ExitStack() as links:
        servers.start(0)
        (port,) = servers.webs[:1]

        def call(source, request):
            link = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE, source_address=("127.0.0.2", 0))
            links.enter_context(link)
            link.sendall(header(source) + request)
            return link

        held = call("203.0.113.7", GET.replace(b"Connection: close\r\n", b""))
        assert held.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        held.sendall(b"GET")  # a request under way keeps the place for a time
        with contextlib.suppress(ConnectionResetError):  # closed before what was sent was read
            assert call("203.0.113.7", GET).recv(1) == b""
        assert call("203.0.113.8", GET).recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as plain:  # from elsewhere, no header
            plain.sendall(GET)
            assert plain.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
