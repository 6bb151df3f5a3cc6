"""The process of a door: it holds nothing, may do nothing, can be killed, and cannot break what it talks to."""

import asyncio
import contextlib
import os
import re
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from unittest import mock

import msgspec
import numpy as np
import pytest
from aiohttp import web

from bench.system.collection_servers import Servers
from dpmpc.cli.main import main
from dpmpc.collection import door_link
from dpmpc.collection.admission import Limits
from dpmpc.collection.confinement import can_confine, confine, landlock_version, program_folders
from dpmpc.collection.door_frames import (
    PIECE_BYTES,
    SMALL_BYTES,
    AnswerHead,
    DoorCounts,
    DoorFacts,
    DoorFrame,
    DoorKind,
    RequestHead,
    decode_answer,
    encode_answer,
    read_frame,
)
from dpmpc.collection.door_link import DoorLink, require_apart
from dpmpc.collection.proxy_protocol import Proxies
from dpmpc.collection.sealing import id_of
from dpmpc.collection.submission import Submission
from dpmpc.errors import InputError, ProtocolFailure
from support.sealed_doors import PROVED, ROWS, exchange, path_of, sealed_reports
from support.waiting import PATIENCE, wait_for

landlock = pytest.mark.skipif(not can_confine(), reason="this system cannot confine a process")
LONGEST = 1 << 17


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """Three servers with doors; tests kill processes of the first one, and leave it running."""
    with Servers.make(tmp_path_factory.mktemp("doors"), "--rate", "100000", sealed=True, **PROVED) as servers:
        with mock.patch.dict(os.environ, {"DPMPC_PASSWORD": "of a database"}):
            servers.start()
        yield servers


def processes(servers, server=0):
    """The processes that a server's door has had, the last one at the end."""
    return [int(found) for found in re.findall(r"the door's process is (\d+)", servers.log(server))]


def is_there(process):
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


def ids_at(servers, server):
    with servers.spool(server) as spool:
        return {bytes(one) for one in spool.ids()}


def send(servers, server, *reports):
    url = servers.door(server) + path_of(servers.collection)
    status, answer, _ = exchange("POST", url, b"".join(reports))
    return status, answer


# ---------------------------------------------------------------- what the process has, and may do


def test_it_has_no_file_of_the_server_and_no_word_of_its_keys(running):
    process = processes(running)[-1]
    opened = {os.readlink(path) for path in Path(f"/proc/{process}/fd").iterdir()}
    assert not {path for path in opened if str(running.folder) in path and not path.endswith(".log")}
    given = Path(f"/proc/{process}/cmdline").read_bytes() + Path(f"/proc/{process}/environ").read_bytes()
    assert str(running.folder).encode() not in given
    assert b"DPMPC_PASSWORD" not in given
    if can_confine():  # to confine itself, it had to give up privileges
        status = Path(f"/proc/{process}/status").read_text()
        assert "NoNewPrivs:\t1" in status
        assert "Seccomp:\t2" in status
    held = Path(f"/proc/{process}/maps").read_text()
    writable = [line.split()[0] for line in held.splitlines() if line.split()[1].startswith("rw")]
    secrets = [bytes.fromhex((running.folder / "server-0/seals/trial.key").read_text().split()[1])]
    secrets += [(running.folder / "server-0/seals/trial.key").read_bytes().strip()]
    secrets += (running.folder / "server-0/identity/party.key").read_bytes().splitlines()[1:3]
    with open(f"/proc/{process}/mem", "rb", buffering=0) as memory:  # as its owner, which is this test's user
        for place in writable:
            start, stop = (int(end, 16) for end in place.split("-"))
            memory.seek(start)
            content = memory.read(stop - start)
            assert not [secret for secret in secrets if secret in content]


@landlock
def test_whoever_takes_it_over_reads_connects_and_signals_nothing(tmp_path):
    """The process of a door confines itself so; here somebody else's code runs after that."""
    secret = tmp_path / "trial.key"
    secret.write_text("x25519 00")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    attack = textwrap.dedent(f"""
        import ctypes, os, signal, socket, subprocess
        from dpmpc.collection.confinement import confine, program_folders
        confine(program_folders())
        def refused(job):
            try:
                job()
            except OSError as error:
                return error.errno
        tries = [
            lambda: open({str(secret)!r}),
            lambda: open({str(secret)!r}, "w"),
            lambda: os.listdir({str(tmp_path)!r}),
            lambda: os.unlink({str(secret)!r}),
            lambda: open("/etc/passwd"),
            lambda: open(f"/proc/{{os.getppid()}}/mem", "rb"),
            lambda: open(f"/proc/{{os.getppid()}}/environ", "rb"),
            lambda: open(confine.__code__.co_filename, "a"),
            lambda: subprocess.run(["cat", {str(secret)!r}], check=True, stdin=0, capture_output=True),
        ]
        tries += [
            lambda: socket.create_connection(("127.0.0.1", {port})),
            lambda: socket.socket(socket.AF_UNIX),  # of a database on this machine, say
            lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
            lambda: os.execv("/bin/true", ["true"]),
        ]
        if {landlock_version()} >= 6:
            tries.append(lambda: os.kill(os.getppid(), signal.SIGTERM))
        found = []
        for job in tries:
            try:
                found.append(refused(job))
            except subprocess.CalledProcessError:
                found.append(13)
        traced = ctypes.CDLL(None, use_errno=True).ptrace(16, os.getppid(), 0, 0)  # attach
        print([errno in (1, 13) for errno in found], traced)
        import email.mime.multipart, xml.dom.minidom  # what is imported later
    """)
    done = subprocess.run([sys.executable, "-c", attack], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("]")[0].count("True") >= 13
    assert "False" not in done.stdout
    assert done.stdout.split()[-1] == "-1"
    assert secret.read_text() == "x25519 00"


def test_a_server_that_keeps_its_keys_beside_the_program_has_no_door(running, tmp_path, monkeypatch, capsys):
    with pytest.raises(InputError, match=r"lies in .*, which the door's process may read"):
        require_apart(tmp_path / "server", [tmp_path])
    require_apart(tmp_path, [tmp_path / "lib"])
    assert not [folder for folder in program_folders() if running.folder.is_relative_to(folder)]
    monkeypatch.setattr("dpmpc.collection.serving.program_folders", lambda: [running.folder])
    argv = ["serve", str(running.task_file), "--server", "0", "--folder", str(running.folder / "server-0")]
    assert main([*argv, "--listen", "127.0.0.1:0", "--web", "127.0.0.1:0"]) == 2
    assert "which the door's process may read" in capsys.readouterr().err


def test_a_system_without_landlock_is_an_error_where_it_is_needed(monkeypatch):
    monkeypatch.setattr("dpmpc.collection.confinement.landlock_version", lambda: 0)
    with pytest.raises(InputError, match="with Landlock expected"):
        confine([])


# ---------------------------------------------------------------- killed


def test_a_killed_door_comes_back_and_nothing_acknowledged_is_lost(running):
    before = ids_at(running, 0)
    (report,) = sealed_reports(running.collection)
    assert send(running, 0, report)[0] == 200
    known = processes(running)
    os.kill(known[-1], 9)
    wait_for(lambda: len(processes(running)) > len(known), "another process")
    assert not is_there(known[-1])
    assert send(running, 0, report) == (200, send(running, 0, report)[1])  # the same bytes are a duplicate
    assert all(ids_at(running, server) >= {*before, id_of(report)} for server in range(3))
    assert "the door's process is replaced" in running.log(0)


def test_clients_go_on_while_the_door_is_killed_again_and_again(running, tmp_path):
    """Reports are counted once each, and those that a client was told of are at all servers."""
    rows = np.random.default_rng(7).uniform(0, 10, (120, 3))
    before = [len(ids_at(running, server)) for server in range(3)]

    async def run():
        submission = Submission(
            collection=running.collection, state=tmp_path / "state", batch=4, concurrency=4, seconds=120,
            door=running.door(0),
        )  # fmt: skip
        sending = asyncio.create_task(submission.send(rows))
        for _ in range(3):
            await asyncio.sleep(0.4)
            with contextlib.suppress(ProcessLookupError):
                os.kill(processes(running)[-1], 9)
        return await sending

    done = asyncio.run(run())
    assert done.reports == 120
    assert [len(ids_at(running, server)) for server in range(3)] == [count + 120 for count in before]


def test_the_door_of_a_killed_server_ends_and_nothing_acknowledged_is_lost(running):
    reports = sealed_reports(running.collection, ROWS[:5])
    assert send(running, 1, *reports)[0] == 200
    process = processes(running, 1)[-1]
    running.kill(1)
    wait_for(lambda: not is_there(process), "the end of the door's process")
    running.start(1)
    assert {id_of(report) for report in reports} <= ids_at(running, 1)
    assert send(running, 1, *reports)[1]["duplicates"] == 5


def test_a_stopped_server_lets_its_door_finish_and_leaves_no_process(running):
    process = processes(running, 2)[-1]
    assert running.stop(2) == 0
    assert not is_there(process)
    running.start(2)


# ---------------------------------------------------------------- through the door, as at the pinned port


def raw(servers, server, content, seconds=PATIENCE):
    """Send bytes to a door and return all that comes back until it closes."""
    host, port = servers.door(server).removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=seconds) as connection:
        connection.sendall(content)
        found = b""
        while part := connection.recv(1 << 16):
            found += part
    return found


def test_bad_requests_are_refused_before_their_bodies_are_read(running):
    path, host = path_of(running.collection), "Host: a\r\nConnection: close\r\n"
    for head, status in (
        (f"POST {path} HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"411"),
        (f"POST {path} HTTP/1.1\r\n{host}Content-Length: 99999999\r\n\r\n", b"413"),
        (f"POST {path.replace('/v2/', '/v1/')} HTTP/1.1\r\n{host}Content-Length: 3\r\n\r\nabc", b"404"),
        (f"POST /v2/collections/{'0' * 64}/reports HTTP/1.1\r\n{host}Content-Length: 3\r\n\r\nabc", b"404"),
        (f"DELETE {path} HTTP/1.1\r\n{host}\r\n", b"405"),
        (f"GET /metrics HTTP/1.1\r\n{host}\r\n", b"404"),
        (f"GET /healthz HTTP/1.1\r\n{host}\r\n", b"404"),
        ("nonsense\r\n\r\n", b"400"),
    ):
        answer = raw(running, 0, head.encode())
        assert answer.split(b" ", 2)[1] == status, (head, answer)


def test_a_client_that_leaves_in_the_middle_costs_nobody_anything(running):
    (report,) = sealed_reports(running.collection)
    path = path_of(running.collection)
    head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(report)}\r\n\r\n".encode()
    host, port = running.door(0).removeprefix("http://").split(":")
    for cut in (0, 1, len(report) - 1):
        with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
            connection.sendall(head + report[:cut])
            time.sleep(0.05)
    before = len(processes(running))
    assert send(running, 0, report)[0] == 200
    assert len(processes(running)) == before
    assert "InternalError" not in running.log(0)


# ---------------------------------------------------------------- a door that somebody has taken over


class Hostile:
    """The opener's end of a door with functions that this test gives, and the other end for the test."""

    def __init__(self, routes, limits=None):
        self.refused = []
        self.link = DoorLink([], routes, LONGEST, limits or Limits(), self.refused.append, Proxies())

    @contextlib.asynccontextmanager
    async def talking(self):
        own, other = socket.socketpair()
        self.link._process = subprocess.CompletedProcess([], 0)
        self.link._process.pid = 0
        conversation = door_link._Conversation(self.link, *await asyncio.open_connection(sock=own))
        self.reader, self.writer = await asyncio.open_connection(sock=other)
        self.running = asyncio.create_task(conversation.run())
        facts = msgspec.json.decode((await read_frame(self.reader, SMALL_BYTES)).content, type=DoorFacts)
        assert facts.longest == LONGEST
        await self.send(0, DoorKind.READY)
        try:
            yield self
        finally:
            conversation.end()
            self.writer.close()
            self.running.cancel()
            await asyncio.gather(self.running, return_exceptions=True)

    async def send(self, number, kind, content=b""):
        self.writer.write(DoorFrame(number, kind, content).encoded())
        await self.writer.drain()

    async def ask(self, number, route=0, length=None, digest="", remote="127.0.0.1"):
        head = RequestHead(route, digest, remote, length)
        await self.send(number, DoorKind.REQUEST, msgspec.json.encode(head))

    async def receive(self):
        async with asyncio.timeout(PATIENCE):
            frame = await read_frame(self.reader, 1 << 24)
        return frame if frame.kind != DoorKind.ANSWER else (frame.number, *decode_answer(frame.content))


async def echo(request):
    return web.Response(body=await request.read(), headers={"X-Remote": request.remote})


ECHO = {("POST", "/echo"): echo}
HEAD = msgspec.json.encode(RequestHead(0, "", "127.0.0.1", None))
TOO_LONG = (LONGEST + 1).to_bytes(4, "little") + bytes(4) + bytes([DoorKind.BODY])


@pytest.mark.parametrize(
    "frames",
    [
        [TOO_LONG],
        [(1 << 31).to_bytes(4, "little") + bytes(4) + bytes([DoorKind.REQUEST])],
        [DoorFrame(0, 77, b"").encoded()],
        [DoorFrame(0, DoorKind.READY, b"").encoded()],
        [DoorFrame(1, DoorKind.REQUEST, b"no JSON").encoded()],
        [DoorFrame(1, DoorKind.REQUEST, b"{}").encoded()],
        [DoorFrame(1, DoorKind.REQUEST, msgspec.json.encode(RequestHead(9, "", "", None))).encoded()],
        [DoorFrame(1, DoorKind.REQUEST, msgspec.json.encode(RequestHead(-1, "", "", None))).encoded()],
        [DoorFrame(1, DoorKind.REQUEST, msgspec.json.encode(RequestHead(0, "0" * 65, "", 3))).encoded()],
        [DoorFrame(1, DoorKind.REQUEST, msgspec.json.encode(RequestHead(0, "", "", 3))).encoded()] * 2,
        [DoorFrame(0, DoorKind.COUNTS, b"[]").encoded()],
    ],
)
def test_a_process_that_breaks_the_rules_is_replaced(frames):
    async def run():
        async with Hostile(ECHO).talking() as door:
            door.writer.write(b"".join(frames))
            async with asyncio.timeout(PATIENCE):
                with pytest.raises((ProtocolFailure, msgspec.DecodeError)):
                    await door.running

    asyncio.run(run())


def test_too_many_requests_at_once_break_the_rules():
    async def run():
        limits = Limits(connections=4)
        async with Hostile(ECHO, limits).talking() as door:
            for number in range(1, 12):
                await door.ask(number, length=3)
            async with asyncio.timeout(PATIENCE):
                with pytest.raises(ProtocolFailure, match="too many requests"):
                    await door.running

    asyncio.run(run())


def test_of_a_door_that_does_not_read_its_answers_no_more_is_read():
    answered, page = [], bytes(1 << 18)

    async def answer(request):
        answered.append(request)
        return web.Response(body=page)

    async def run():
        limits, rest = Limits(connections=4), 0.02
        async with Hostile({("GET", "/"): answer}, limits).talking() as door:
            for number in range(1, 201):
                door.writer.write(DoorFrame(number, DoorKind.REQUEST, HEAD).encoded())
                await asyncio.sleep(rest if number % 4 == 0 else 0)
            assert len(answered) < 50  # 200 without a bound: 50 MB that wait in the opener
            assert not door.running.done()
            for number in range(1, len(answered) + 1):
                assert (await door.receive())[0] == number

    asyncio.run(run())


def test_a_body_is_asked_for_once_and_has_to_be_as_long_as_announced():
    async def run():
        async with Hostile(ECHO).talking() as door:
            await door.send(5, DoorKind.BODY, b"before anything")
            await door.ask(1, length=3)
            assert (await door.receive())[:2] == (1, DoorKind.SEND)
            await door.send(2, DoorKind.BODY, b"of no request")
            await door.send(1, DoorKind.BODY, b"abc")
            await door.send(1, DoorKind.BODY, b"again")
            number, head, body = await door.receive()
            assert (number, head.status, body, dict(head.headers)["X-Remote"]) == (1, 200, b"abc", "127.0.0.1")
            for content in (b"ab", b"abcd", b""):
                await door.ask(3, length=3)
                assert (await door.receive())[:2] == (3, DoorKind.SEND)
                await door.send(3, DoorKind.BODY, content)
                number, head, body = await door.receive()
                assert (number, head.status, head.end, body) == (3, 400, True, b"")
            assert not door.running.done()

    asyncio.run(run())


def test_answers_go_to_whom_they_are_for_and_not_to_a_process_that_came_later():
    gate = asyncio.Event()

    async def wait(request):
        await gate.wait()
        return web.Response(body=request.match_info["digest"].encode())

    async def run():
        hostile = Hostile({("GET", "/"): wait})
        async with hostile.talking() as door:
            await door.ask(1, digest="first")
            await door.ask(2, digest="second")
            gate.set()
            found = {(await door.receive())[::2] for _ in range(2)}
            assert found == {(1, b"first"), (2, b"second")}
            gate.clear()
            await door.ask(1, digest="of a process that ends")
            await asyncio.sleep(0.05)
        async with hostile.talking() as door:
            gate.set()
            await door.ask(1, digest="of the next one")
            assert (await door.receive())[::2] == (1, b"of the next one")

    asyncio.run(run())


def test_a_long_file_goes_in_pieces_that_the_door_asks_for(tmp_path):
    content = os.urandom(2 * PIECE_BYTES + 7)
    (tmp_path / "release").write_bytes(content)

    async def hand_out(request):
        return web.FileResponse(tmp_path / "release", headers={"Content-Type": "application/octet-stream"})

    async def run():
        async with Hostile({("GET", "/v1/release"): hand_out}).talking() as door:
            await door.send(9, DoorKind.MORE)  # of nothing
            await door.ask(1)
            found, left = b"", 1
            while left:
                number, head, piece = await door.receive()
                found, left = found + piece, head.left
                assert (number, head.status, len(piece) <= PIECE_BYTES) == (1, 200, True)
                if left:
                    await door.send(1, DoorKind.MORE)
            assert found == content

    asyncio.run(run())


def test_counts_of_a_door_are_bounded_and_name_what_is_known():
    async def run():
        hostile = Hostile(ECHO, Limits(connections=4))
        async with hostile.talking() as door:
            counts = DoorCounts(3, {"connections": 10**9, "idle": 1, "x" * 1000: 5})
            await door.send(0, DoorKind.COUNTS, msgspec.json.encode(counts))
            await door.ask(1, length=0)
            await door.receive()
        assert sorted(hostile.refused) == ["connections"] * 4 + ["idle"]

    asyncio.run(run())


def test_an_answer_comes_back_as_it_was_encoded():
    head = AnswerHead(202, [("A", "ä"), ("B", "")], 7, end=True)
    assert decode_answer(encode_answer(head, b"\0body")) == (head, b"\0body")
