"""The places at which a server of a collection listens, and who may speak there."""

import asyncio
import contextlib
import logging
import resource
import socket
import ssl
from pathlib import Path

import pytest

from bench.system.collection_servers import Servers
from dpmpc.collect.intake.connections import listen
from dpmpc.collect.intake.logs import RateLimitedLogger
from dpmpc.collect.terms.endpoints import SEALED_UPLOADS, WITHDRAWALS
from dpmpc.parties.network.identity import pinning_context
from support.hostile.strangers import pipeline
from support.sealed_doors import exchange
from support.waiting import PATIENCE

LOG = logging.getLogger("dpmpc.collect.test")


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A server with all its places."""
    with Servers.make(tmp_path_factory.mktemp("small")) as servers:
        yield servers.start(0)


def get(address, path, own=None, *, certificate):
    """Ask at a place with TLS, under an own certificate or none; return the status, or None if the server hangs up."""
    with (
        contextlib.suppress(ssl.SSLError, ConnectionError),
        socket.create_connection(address, timeout=PATIENCE) as plain,
        pinning_context(certificate.encode(), own).wrap_socket(plain, server_hostname="party-0") as link,
    ):
        link.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        words = link.recv(1 << 16).split()
        return int(words[1]) if words else None
    return None


def test_the_pinned_port_is_for_the_other_servers_alone(small):
    entry = small.collection.servers[0]
    keys = f"/v2/collections/{small.collection.digest.hex()}/keys"
    for number in (1, 2):
        own = small.server_folder(number).identity
        assert get(entry.peer_address, keys, own, certificate=entry.certificate) == 200
        for path in ("/", "/v1/status", "/contribute", "/metrics", "/healthz"):
            assert get(entry.peer_address, path, own, certificate=entry.certificate) == 404
    for own in (None, small.server_folder(0).identity):  # a stranger, and itself
        assert get(entry.peer_address, keys, own, certificate=entry.certificate) is None


def test_clients_are_asked_for_no_certificate(small):
    entry = small.collection.servers[0]
    for path in ("/", "/v1/status", "/v1/collection", "/contribute"):
        assert get(entry.web_address, path, certificate=entry.certificate) == 200
    for path in ("/metrics", "/healthz"):
        assert get(entry.web_address, path, certificate=entry.certificate) == 404


def test_the_monitor_takes_nothing_and_gives_exact_counts(small):
    place = small.monitor(0)
    for path in (SEALED_UPLOADS, WITHDRAWALS):
        assert exchange("POST", place + path.format(digest=small.collection.digest.hex()), b"x")[0] == 404
    assert exchange("GET", f"{place}/healthz")[1]["healthy"]
    status, told, _ = exchange("GET", f"{place}/v1/status")
    assert (status, told["stored"], told["exact"]) == (200, 0, True)
    assert b"dpmpc_reports_stored 0.0" in exchange("GET", f"{place}/metrics")[1]


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
        assert exchange("GET", f"{small.monitor(0)}/healthz")[0] == 200


def resident(process):
    """Bytes of memory that a process has."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * resource.getpagesize()


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
