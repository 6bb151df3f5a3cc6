"""A release that is stopped after it has announced its reports: nobody's withdrawal is refused for that."""

import asyncio
import contextlib
import dataclasses
import shutil
import signal
import subprocess
import sys
import time

import msgspec
import pytest

from bench.system.collection_servers import Servers
from dpmpc.collect.intake.serving import at_work
from dpmpc.collect.store.ledger import State as Progress
from dpmpc.collect.store.server_folder import ServerFolder
from dpmpc.collect.store.state import CLOCK_SECONDS
from dpmpc.collect.terms.certificate import load, save
from dpmpc.collect.terms.endpoints import WITHDRAWALS
from dpmpc.collect.upload.sealing import SECRET_BYTES, report_id
from dpmpc.release.release import Release
from support.release_processes import COUNT, Trial, assert_released, run
from support.sealed_doors import PROVED, ROWS, exchange, path_of, sealed_reports
from support.waiting import PATIENCE


def spool_of(trial, server, *, writer=False):
    return ServerFolder(trial.folder(server)).open_spool(trial.collection, server, writer=writer)


def test_a_release_that_is_asked_to_end_takes_its_announcement_back(tmp_path):
    trial = Trial.filled(tmp_path / "trial")
    ended = run(trial, deeds=dict.fromkeys(range(3), ("die", "after", "server", "available", signal.SIGTERM)))
    assert {one.status for one in ended.values()} == {128 + signal.SIGTERM}, ended[0].told
    for server in range(3):
        assert "ended by SIGTERM" in ended[server].told
        with spool_of(trial, server, writer=True) as spool:
            assert not spool.announced
            assert spool.closing.failed == "SIGTERM"
            assert spool.withdraw([trial.ids[4]]) == ["withdrawn now"]
    assert {one.status for one in run(trial).values()} == {0}
    assert_released(trial, indices=[index for index in range(COUNT) if index != 4])


def test_the_announcement_of_a_release_that_was_killed_is_taken_back(tmp_path):
    trial = Trial.filled(tmp_path / "trial")
    ended = run(trial, deeds=dict.fromkeys(range(3), ("die", "after", "server", "available")))
    assert {one.status for one in ended.values()} == {-signal.SIGKILL}
    for server in range(3):
        folder = ServerFolder(trial.folder(server))
        with spool_of(trial, server) as spool:
            assert spool.announced
            assert folder.take_back_left_announcement(spool)
            assert not folder.take_back_left_announcement(spool)  # there is none any more
            assert spool.withdraw([trial.ids[4]]) == ["withdrawn now"]
    assert {one.status for one in run(trial).values()} == {0}
    assert_released(trial, indices=[index for index in range(COUNT) if index != 4])
    with spool_of(trial, 0) as spool:
        assert not ServerFolder(trial.folder(0)).take_back_left_announcement(spool)
        assert spool.withdraw([trial.ids[5]]) == ["too late"]


RELEASE = """
import sys, time
from pathlib import Path
from dpmpc.collect.store.server_folder import ServerFolder
from dpmpc.collect.terms.task_file import Collection
folder, collection = ServerFolder(Path(sys.argv[1])), Collection.load(sys.argv[2])
with folder.releasing(0), folder.open_spool(collection, 0, writer=False) as spool:
    spool.announce()
    print("announced", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("first", ["server", "release"])
def test_a_server_takes_back_an_announcement_that_no_process_holds(tmp_path, first):
    """At its start and while it runs; as long as the release lives, withdrawals are too late."""
    with Servers.make(tmp_path, doors=True, **PROVED) as servers, contextlib.ExitStack() as stack:
        secrets = [bytes([number]) * SECRET_BYTES for number in range(2)]
        ids = [report_id(servers.collection.digest, secret) for secret in secrets]
        servers.start(0)
        assert send(servers, *sealed_reports(servers.collection, ROWS[:2], ids)) == 202
        if first == "release":
            assert servers.stop(0) == 0
        command = [sys.executable, "-c", RELEASE, str(servers.server_folder(0).path), str(servers.task_file)]
        release = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        stack.callback(release.kill)
        assert release.stdout.readline() == "announced\n"
        if first == "release":
            servers.start(0)
        time.sleep(2.5 * CLOCK_SECONDS)
        assert take_back(servers, secrets[0]) == (409, ["too late"])
        release.kill()
        release.wait()
        until = time.monotonic() + PATIENCE
        while take_back(servers, secrets[0])[0] == 409 and time.monotonic() < until:
            time.sleep(0.1)
        assert take_back(servers, secrets[0]) == (200, ["was withdrawn"])
        ended = [*command[:2], RELEASE.replace("sleep(600)", "sleep(0)"), *command[3:]]  # without taking it back
        subprocess.run(ended, check=True, stdout=subprocess.DEVNULL)
        if first == "release":
            servers.kill(0)
            servers.start(0)
            assert take_back(servers, secrets[1]) == (200, ["withdrawn now"])
        assert "left its announcement" in servers.log(0)


def send(servers, *reports):
    return exchange("POST", servers.door(0) + path_of(servers.collection), b"".join(reports))[0]


def take_back(servers, secret):
    url = servers.door(0) + WITHDRAWALS.format(digest=servers.collection.digest.hex())
    status, answer, *_ = exchange("POST", url, secret)
    return status, answer["reports"]


def progress_of(trial, server):
    with ServerFolder(trial.folder(server)).open_ledger() as ledger:
        return ledger.latest(trial.collection.digest).state


def test_a_release_that_was_written_and_not_recorded_is_recorded_without_the_others(tmp_path):
    """Server 1 is killed in between; the others have finished, and nobody repeats the release."""
    trial = Trial.filled(tmp_path / "trial")
    ended = run(trial, deeds={1: ("die", "after", "server", "save")})
    assert {server: one.status for server, one in ended.items()} == {0: 3, 1: -signal.SIGKILL, 2: 3}
    folder, written = ServerFolder(trial.folder(1)), trial.out(1).read_bytes()
    released = folder.released(trial.collection)
    assert [progress_of(trial, server) for server in range(3)] == [
        Progress.OPENED,
        Progress.OPENING,
        Progress.OPENED,
    ]

    certificate = load(released)
    others = {server: one for server, one in certificate.signatures.items() if server != "2"}
    save(Release.load(released), msgspec.structs.replace(certificate, signatures=others), released)
    assert not folder.finish_left_release(trial.collection)  # a file without a signature proves nothing
    released.write_bytes(written)
    with folder.releasing(1):  # a release is running, and records itself what it writes
        assert not folder.finish_left_release(trial.collection)
    assert progress_of(trial, 1) is Progress.OPENING

    assert folder.finish_left_release(trial.collection)
    assert progress_of(trial, 1) is Progress.OPENED
    assert not folder.finish_left_release(trial.collection)  # there is none any more


def test_a_release_of_another_manifest_is_not_recorded(tmp_path):
    """The servers were put back from copies and have made the release again, with another toss."""
    trial = Trial.filled(tmp_path / "trial")
    shutil.copytree(trial.root, tmp_path / "other")
    other = dataclasses.replace(trial, root=tmp_path / "other")
    run(trial, deeds={1: ("die", "after", "server", "save")})
    assert {one.status for one in run(other).values()} == {0}
    folder = ServerFolder(trial.folder(1))
    shutil.copy(other.out(1), folder.released(trial.collection))
    assert not folder.finish_left_release(trial.collection)
    assert progress_of(trial, 1) is Progress.OPENING


def test_a_server_that_serves_records_a_release_that_was_written(tmp_path):
    trial = Trial.filled(tmp_path / "trial")
    run(trial, deeds={1: ("die", "after", "server", "save")})
    collection, folder = trial.collection, ServerFolder(trial.folder(1))

    async def served(spool, ledger):
        async with at_work(collection, 1, folder, spool, ledger) as (service, _):
            assert service.state.state == "releasing"
            until = time.monotonic() + PATIENCE
            while service.state.state == "releasing" and time.monotonic() < until:
                await asyncio.sleep(0.05)
            return service.state.state

    with folder.open_spool(collection, 1, writer=True) as spool, folder.open_ledger() as ledger:
        assert asyncio.run(served(spool, ledger)) == "released"
