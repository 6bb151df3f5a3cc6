"""The reverse proxies of docs/deploy/ before a door: honest uploads go through while strangers do what they like."""

import contextlib
import http.client
import json
import os
import secrets
import socket
import ssl
import threading
import time
from pathlib import Path

import pytest

from bench.system.collection_servers import Servers
from bench.system.ports import free_ports
from dpmpc.app.cli.main import main
from dpmpc.collect.intake.admission import caller_of
from dpmpc.collect.intake.connections import open_for_proxy
from dpmpc.parties.network.callers import network_of
from support import proxies
from support.hostile.strangers import Idle, Silent
from support.rejections import rejects
from support.sealed_doors import PROVED, path_of, sealed_reports
from support.waiting import PATIENCE, wait_for

HONEST, STRANGER = "127.0.7.1", "127.0.9.1"
STRANGERS = 400


@pytest.fixture(scope="module", params=sorted(proxies.PROGRAMS))
def running(request, tmp_path_factory):
    """Three servers; a proxy stands before the first one's door."""
    if proxies.PROGRAMS[request.param] is None:
        pytest.skip(f"{request.param} is not installed")
    root = tmp_path_factory.mktemp(request.param)
    options = ("--requests", "200", "--rate", "50")
    with Servers.make(root, *options, doors=True, **{**PROVED, "minimum_batch": 50, "largest_batch": 200}) as servers:
        servers.proxy_paths[0] = root / "door.sock"
        servers.start()
        (port,) = free_ports(1)
        with proxies.before(request.param, root / "proxy", port, servers.proxy_paths[0]):
            servers.proxy, servers.program = port, request.param
            yield servers


def ask(servers, method, path, body=None, source=HONEST, headers=()):
    """Send one request to the proxy, on a connection of its own; return status and answer."""
    context = proxies.trusting(servers.folder / "proxy")
    link = http.client.HTTPSConnection(
        "localhost", servers.proxy, context=context, source_address=(source, 0), timeout=30
    )
    with contextlib.closing(link):
        link.request(method, path, body=body, headers={"Host": "localhost", **dict(headers)})
        answer = link.getresponse()
        return answer.status, answer.read()


def upload(servers, source=HONEST, **options):
    (report,) = sealed_reports(servers.collection)
    return ask(servers, "POST", path_of(servers.collection), report, source, **options)


def test_dpmpc_submit_sends_through_the_proxy(running, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(running.folder / "proxy" / "web.crt"))
    (tmp_path / "people.csv").write_text("a,b,y\n" + "1,2,3\n" * 5)
    argv = ["submit", str(running.task_file), str(tmp_path / "people.csv"), "--state", str(tmp_path / "state")]
    assert main([*argv, "--door", f"https://localhost:{running.proxy}"]) == 0
    assert "5 reports: acknowledged by every server" in capsys.readouterr().out


class SlowHead(Silent):
    """Sends the beginning of a request, and no more."""

    def __init__(self, address, count, **options):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        super().__init__(address, count, context=context, **options)
        self._said = b"POST / HTTP/1.1\r\nHost: localhost\r\nX-Slow: "


class Unread(Silent):
    """Asks for pages and files, some of which abound in bytes, and reads nothing."""

    def __init__(self, address, count, **options):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        super().__init__(address, count, context=context, **options)
        self._said = b"GET /report.wasm HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20

    @staticmethod
    def _is_closed(connection):
        time.sleep(0.01)
        return False


@pytest.mark.parametrize("kind", ["silent", "slow heads", "idle", "slow bodies", "unread answers"])
def test_honest_uploads_go_through_while_an_address_has_hundreds_of_connections(running, kind):
    address = ("127.0.0.1", running.proxy)
    body = {"body": 1000, "target": path_of(running.collection)} if kind == "slow bodies" else {"target": "/v1/status"}
    made = {"silent": Silent, "slow heads": SlowHead, "unread answers": Unread}.get(kind)
    options = {"source": STRANGER, "seconds": PATIENCE, "name": "localhost"}
    with made(address, STRANGERS, **options) if made else Idle(address, STRANGERS, **body, **options) as strangers:
        wait_for(lambda: strangers.opened >= STRANGERS // 2, "the strangers")
        took = []
        for _ in range(5):
            began = time.monotonic()
            assert upload(running)[0] == 200
            took.append(time.monotonic() - began)
    assert max(took) < PATIENCE / 4
    wait_for(lambda: open_files(running) < 60, "the end of what strangers had")


def open_files(servers):
    return len(os.listdir(f"/proc/{servers.processes[0].pid}/fd"))


def test_downloads_that_are_broken_off_leave_nothing_behind(running):
    context = proxies.trusting(running.folder / "proxy")
    ask(running, "GET", "/v1/status")
    before, files = resident(running), open_files(running)
    for number in range(300):
        with (
            socket.create_connection(
                ("127.0.0.1", running.proxy), source_address=(f"127.0.8.{number % 200 + 1}", 0)
            ) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as link,
        ):
            link.sendall(b"GET /report.wasm HTTP/1.1\r\nHost: localhost\r\n\r\n" * 5)
            link.recv(10)
    wait_for(lambda: open_files(running) <= files + 40, "the end of the downloads")
    assert resident(running) - before < 30e6
    assert upload(running)[0] == 200
    assert "Error" not in running.log(0)


def resident(servers):
    return int(Path(f"/proc/{servers.processes[0].pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def test_an_address_is_what_the_proxy_says_and_not_what_the_caller_says(running):
    """A flood of one address is slowed, whatever addresses it names, and others are not."""
    path, statuses, stop = path_of(running.collection).replace("reports", "withdrawals"), [], threading.Event()

    def flood():
        while not stop.is_set():
            forged = {"X-Forwarded-For": f"10.0.0.{len(statuses) % 250}", "Forwarded": "for=10.1.1.1"}
            statuses.append(ask(running, "POST", path, secrets.token_bytes(512), STRANGER, forged.items())[0])

    threads = [threading.Thread(target=flood) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        wait_for(lambda: 429 in statuses, "a refusal")
        for _ in range(5):
            assert upload(running)[0] == 200
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert set(statuses) <= {200, 202, 404, 429, 503}


def test_an_address_that_fills_the_door_leaves_room_to_others(running):
    """The door has room for 800 reports: an address gets at most a half, whatever it sends."""
    path, taken = path_of(running.collection), []
    for _ in range(5):
        reports = sealed_reports(running.collection, [[1.0, 2.0, 3.0]] * 100)
        status, content = ask(running, "POST", path, b"".join(reports), "127.0.6.1")
        taken.append(json.loads(content)["servers"]["0"] if status == 202 else status)
    assert (taken[0], taken[-1]) == (200, 503)
    assert "NoRoom" in running.log(0)
    assert upload(running)[0] == 200


class Request:
    """As much of a request as says who calls."""

    def __init__(self, *forwarded, remote="127.0.0.1"):
        self.remote, self._forwarded = remote, list(forwarded)
        self.headers = self

    def getall(self, name, default):
        assert name == "X-Forwarded-For"
        return self._forwarded or default


@pytest.mark.parametrize(
    ("request_", "address"),
    [
        (Request("203.0.113.9"), "203.0.113.9"),
        (Request("10.0.0.1, 203.0.113.9"), "203.0.113.9"),
        (Request("10.0.0.1", "10.0.0.2,2001:db8::7"), "2001:db8::7"),
        (Request(), "127.0.0.1"),
        (Request(remote=""), None),
        (Request("x" * 65), None),
    ],
)
def test_the_last_entry_of_the_last_header_says_who_calls(request_, address):
    assert caller_of(request_) == address


def test_what_is_no_address_is_one_caller():
    assert network_of("no address") == network_of(None) == ""


def test_a_path_that_somebody_has_is_refused_and_one_that_is_left_is_taken(tmp_path):
    path = tmp_path / "door.sock"
    with open_for_proxy(path):
        assert path.stat().st_mode & 0o777 == 0o660
        with rejects("proxy"):
            open_for_proxy(path)
    open_for_proxy(path).close()  # nobody listens there any more
    (tmp_path / "file").write_text("")
    with rejects("proxy", expected="a path that is free"):
        open_for_proxy(tmp_path / "file")
    with rejects("proxy"):
        open_for_proxy(tmp_path / "no folder" / "door.sock")


def test_a_server_that_stops_takes_its_path_away(tmp_path):
    with Servers.make(tmp_path, doors=True, **PROVED) as servers:
        servers.proxy_paths[0] = tmp_path / "door.sock"
        servers.start(0)
        assert servers.proxy_paths[0].is_socket()
        assert servers.stop(0) == 0
        assert not servers.proxy_paths[0].exists()
