"""Several workers of one server behind one port: killed, begun anew, and released like any other server."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from bench.system.collection_servers import Servers
from dpmpc.base.errors import SpoolError
from dpmpc.collect.intake import serving
from dpmpc.collect.intake.admission import Limits
from dpmpc.collect.store.server_folder import STORE_FILE, ServerFolder
from dpmpc.collect.terms.verifying import verify
from dpmpc.collect.upload.submission import Submission
from support.rejections import rejects
from support.release_processes import close_and_release
from support.sealed_doors import PROVED, exchange, path_of, sealed_reports

ROWS = np.random.default_rng(3).uniform(0.0, 10.0, (60, 3))
PATIENCE = 120.0


@pytest.fixture
def servers(tmp_path):
    with Servers.make(tmp_path, minimum_batch=50, largest_batch=500) as servers:
        yield servers


def start_with_workers(servers, place, count=3):
    """Start server 0 with several workers, and the others as always."""
    servers.options = ("--workers", str(count), "--store", place, "--rate", "100000")
    servers.start(0)
    servers.options = ("--rate", "100000")
    servers.start(1, 2)


def workers_of(servers, count):
    """The processes of the workers of server 0, once there are so many."""
    parent = servers.processes[0].pid
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        found = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        if len(found) == count:
            return [int(one) for one in found]
        time.sleep(0.05)
    raise AssertionError(servers.log(0))


def figure(servers, name):
    """Read a figure of server 0 on a connection of its own."""
    text = exchange("GET", f"{servers.monitor(0)}/metrics")[1]
    return float(re.search(rf"^{name} (.+)$", text.decode(), re.MULTILINE)[1])


def test_the_figures_of_workers_are_added_up(servers, postgres, tmp_path):
    start_with_workers(servers, postgres.database())
    before = len(ROWS) // 2
    Submission(collection=servers.collection, state=tmp_path / "state", concurrency=4).run(ROWS[:before])
    Submission(collection=servers.collection, state=tmp_path / "other", concurrency=4).run(ROWS[before:])
    figures = [figure(servers, "dpmpc_reports_accepted_total") for _ in range(9)]
    assert figures == [len(ROWS)] * 9
    assert figure(servers, "dpmpc_waiting_bytes") == 0
    wait_for(lambda: figure(servers, "dpmpc_reports_stored") == len(ROWS))  # each counts by its clock


def test_a_collection_with_workers_that_are_killed_is_released(servers, postgres, tmp_path):
    """Clients send all the while; each report counts once, and the release has all of them.

    What a killed worker has stored may be stored again, for the others do not remember its ids.
    """
    start_with_workers(servers, postgres.database())
    sent = []

    def send(part):
        rows = ROWS[20 * part : 20 * part + 20]
        sent.append(
            Submission(collection=servers.collection, state=tmp_path / f"state-{part}", concurrency=2).run(rows)
        )

    threads = [threading.Thread(target=send, args=(part,)) for part in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(2):
        time.sleep(0.3)
        os.kill(workers_of(servers, 3)[0], signal.SIGKILL)
    for thread in threads:
        thread.join()
    assert len(sent) == 3
    with servers.spool(0) as spool:
        assert len(spool.ids()) == len(ROWS) <= len(spool)
        assert spool.intact().ids.tobytes() == spool.ids().tobytes()
        assert spool.intact().damaged == 0
    assert "ended with status -9; it begins again" in servers.log(0)
    assert [servers.stop(server) for server in range(3)] == [0, 0, 0]
    close_and_release(servers)
    verified = verify(tmp_path / "release-0.dpmpc", servers.collection)
    assert verified.release.task.clients == len(ROWS)
    with servers.spool(0) as spool:
        assert spool.closed
        assert spool.announced
    servers.options = ()
    servers.start(0)  # the folder remembers where the reports are, and one worker is enough
    until = time.monotonic() + PATIENCE
    while "the collection is released, 60 reports" not in servers.log(0) and time.monotonic() < until:
        time.sleep(0.05)
    assert "the collection is released, 60 reports" in servers.log(0)


def test_workers_end_with_the_process_that_began_them(servers, postgres):
    servers.options = ("--workers", "2", "--store", postgres.database())
    servers.start(0)
    workers = workers_of(servers, 2)
    servers.kill(0)
    wait_for(lambda: not any(alive(worker) for worker in workers))


SLEEPERS = """
import time
from dpmpc.collect.intake.workers import supervise
print("begun", flush=True)
supervise(lambda worker: time.sleep(100), 16, lambda: None)
"""


@pytest.mark.parametrize("delay", [0.0, 0.002, 0.005, 0.01])
def test_a_signal_while_workers_begin_reaches_all_of_them(delay):
    with subprocess.Popen([sys.executable, "-c", SLEEPERS], stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout.readline() == b"begun\n"
        time.sleep(delay)
        process.terminate()
        try:
            process.wait(20.0)
        finally:
            with contextlib.suppress(ProcessLookupError):  # all have ended
                os.killpg(process.pid, signal.SIGKILL)


def alive(process):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_all_workers_answer_at_the_door_and_one_that_is_killed_comes_back(postgres, tmp_path):
    """While one is stopped another answers."""
    with Servers.make(tmp_path, doors=True, **PROVED) as servers:
        start_with_workers(servers, postgres.database(), 2)
        reports = iter(sealed_reports(servers.collection, ROWS[:4]))

        def send():
            """Send a report on a connection of its own."""
            return exchange("POST", servers.door(0) + path_of(servers.collection), next(reports))[0]

        def send_without(stopped):
            """Send one while a worker accepts nothing."""
            os.kill(stopped, signal.SIGSTOP)
            try:
                return send()
            finally:
                os.kill(stopped, signal.SIGCONT)

        first, second = workers_of(servers, 2)
        assert [send_without(worker) for worker in (first, second)] == [200, 200]
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: first not in workers_of(servers, 2))
        assert send() == 200
        assert send_without(second) == 200  # so the worker that came back took it
        for server in range(3):
            with servers.spool(server) as spool:
                assert len(spool) == 4


def wait_for(happened):
    until = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_folder_has_one_store_for_good(servers, postgres):
    folder, place = servers.server_folder(0), postgres.database()
    assert folder.store is None
    folder.use_store(place)
    folder.use_store(place)
    assert folder.store == place
    assert (folder.path / STORE_FILE).stat().st_mode & 0o777 == 0o600
    with rejects("store"):
        folder.use_store(postgres.database())
    with rejects("store", given="an address with a password"):
        servers.server_folder(1).use_store("postgresql://me:secret@/x")
    assert servers.server_folder(1).store is None
    other = servers.server_folder(2)
    other.open_spool(servers.collection, 2, writer=True).close()
    with rejects("store"):
        other.use_store(place)
    with folder.open_spool(servers.collection, 0, writer=True):
        pass
    servers.server_folder(1).use_store(place)
    with rejects("server", SpoolError, expected="0"):
        servers.server_folder(1).open_spool(servers.collection, 1, writer=True)


@pytest.mark.parametrize(("workers", "argument"), [(2, "workers"), (0, "workers"), (65, "workers")])
def test_workers_need_a_store(servers, workers, argument):
    folder = ServerFolder(servers.folder / "server-0")
    with rejects(argument):
        serving.serve(servers.collection, 0, folder, serving.ServerPlaces(peers=("127.0.0.1", 0)), workers=workers)
    assert not folder.spool.exists()


def test_all_workers_together_keep_to_the_limits_of_a_server():
    whole = Limits(rate=100.0, requests=10, waiting_bytes=1000)
    one = whole.for_one_of(4)
    assert (one.rate, one.requests, one.waiting_bytes) == (25.0, 2, 250)
    assert (one.body_bytes, one.read_seconds) == (whole.body_bytes, whole.read_seconds)
    assert whole.for_one_of(1) is whole
