"""The one state of a collection at a server: by the clock, by store and ledger, and what of it is said when."""

import asyncio
import datetime
import itertools
import json
import re
import subprocess
import sys
import time
import types

import numpy as np
import pytest

from bench.system.collection_servers import HOST, Servers
from bench.system.ports import free_ports
from dpmpc.app.cli.main import main
from dpmpc.base.errors import CollectionClosed, SpoolError
from dpmpc.collect.store.ledger import LedgerEntry, ReleaseLedger
from dpmpc.collect.store.ledger import State as Progress
from dpmpc.collect.store.report_store import CLOSED_EARLY, Closing
from dpmpc.collect.store.server_folder import ServerFolder
from dpmpc.collect.store.state import (
    RELEASE_PATH,
    REPORT_PATH,
    StateReader,
    in_words,
    report_beside,
    require_open,
    state_of,
)
from dpmpc.collect.upload.sealing import Opener
from support.release_processes import Trial, close_and_release
from support.sealed_doors import PROVED, ROWS, exchange, path_of, sealed_reports
from support.services import service_in
from support.waiting import PATIENCE

NOW = datetime.datetime(2027, 2, 1, 12, tzinfo=datetime.UTC)
HOUR, DAY = datetime.timedelta(hours=1), datetime.timedelta(days=1)
TIMES = types.SimpleNamespace(name="a trial", opens=NOW - DAY, closes=NOW + DAY, expires=NOW + 2 * DAY)


def manifest(collection):
    fields = {"format": 1, "collection": collection, "clients": 7, "attempt": 0}
    return json.dumps(fields | dict.fromkeys(("batch", "toss", "task", "time"), ""))


def entry(state):
    return LedgerEntry(b"m" * 32, manifest(""), state, "2027-02-02T13:00:00+00:00", None)


@pytest.mark.parametrize(
    ("now", "state", "since"),
    [
        (NOW - 2 * DAY, "not open yet", ""),
        (NOW - DAY, "open", TIMES.opens.isoformat()),
        (NOW, "open", TIMES.opens.isoformat()),
        (NOW + DAY, "closed", TIMES.closes.isoformat()),
        (NOW + 2 * DAY, "expired", TIMES.expires.isoformat()),
    ],
)
def test_the_state_at_a_time(now, state, since):
    found = state_of(TIMES, now)
    assert (found.state, found.since, found.over) == (state, since, state == "expired")
    if state == "open":
        require_open(TIMES, found, now)
    else:
        with pytest.raises(CollectionClosed):
            require_open(TIMES, found, now)


def test_every_combination_has_one_state():
    """Clock, store and ledger: a release wins, then expiry, a failed run, what was sealed, and closing."""
    moments = {"before": NOW - 2 * DAY, "open": NOW, "after": NOW + DAY, "late": NOW + 3 * DAY}
    early = Closing((NOW - HOUR).isoformat(), "")
    for (when, now), closing, progress in itertools.product(
        moments.items(), (None, early, early._replace(failed="PartyMissing")), (None, *Progress)
    ):
        found = state_of(
            TIMES, now, closing, None if progress is None else entry(progress), release=RELEASE_PATH, report=REPORT_PATH
        )
        if progress is Progress.OPENED:
            expected = "released"
        elif when == "late":
            expected = "expired"
        elif closing is not None and closing.failed:
            expected = "failed"
        elif progress is not None:
            expected = "releasing"
        elif closing is not None or when == "after":
            expected = "closed"
        else:
            expected = "not open yet" if when == "before" else "open"
        assert found.state == expected, (when, closing, progress)
        assert found.early == (closing is not None)
        assert found.over == (closing is not None or when == "late")
        assert found.error == ("PartyMissing" if expected == "failed" else "")
        assert found.clients == (7 if progress is not None else 0)
        assert found.release == (RELEASE_PATH if expected == "released" else "")
        assert found.report == (REPORT_PATH if expected == "released" else "")
        if expected in ("closed", "failed") and closing is not None:
            assert found.since == closing.since


def test_what_was_closed_in_time_is_not_open_again_when_the_clock_is_put_back():
    closing = Closing((NOW + DAY + HOUR).isoformat(), "")
    for now in (NOW - 2 * DAY, NOW, NOW + DAY):
        found = state_of(TIMES, now, closing)
        assert (found.state, found.since, found.early, found.over) == ("closed", TIMES.closes.isoformat(), False, True)
        with pytest.raises(CollectionClosed):
            require_open(TIMES, found, now)


def test_who_comes_too_late_or_too_early_is_told_so():
    def refused(now, closing=None):
        with pytest.raises(CollectionClosed) as caught:
            require_open(TIMES, state_of(TIMES, now, closing), now)
        return str(caught.value)

    assert ", 3 hours ago; " in refused(NOW + DAY + 3 * HOUR)
    assert "no more reports are taken" in refused(NOW + DAY + 3 * HOUR)
    assert ", in 2 days; " in refused(NOW - 3 * DAY)
    assert "send it again then" in refused(NOW - 3 * DAY)
    assert refused(NOW, Closing(NOW.isoformat(), "")) == CLOSED_EARLY


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "a moment"), (1, "1 second"), (59.9, "59 seconds"), (60, "1 minute"), (7200, "2 hours"), (-90000, "1 day")],
)
def test_durations_in_words(seconds, words):
    assert in_words(datetime.timedelta(seconds=seconds)) == words


@pytest.fixture
def server(tmp_path):
    """Return collection and stores of one server, as a process that serves has them, and as another one has."""
    trial = Trial.make(tmp_path / "trial", closes=datetime.datetime.now(datetime.UTC) + HOUR)
    folder = ServerFolder(trial.folder(0))
    with (
        folder.open_spool(trial.collection, 0, writer=True) as spool,
        folder.open_ledger() as ledger,
        folder.open_spool(trial.collection, 0, writer=False) as other,
        folder.open_ledger() as book,
    ):
        yield trial.collection, folder, (spool, ledger), (other, book)


def test_a_reader_sees_what_another_process_has_written(server):
    collection, folder, (spool, ledger), (other, book) = server
    released = folder.released(collection)
    reader = StateReader(collection, spool, ledger, released)
    found = [reader.read()]
    other.close_for_good()
    assert reader.state.state == "open"  # by what was read last
    found.append(reader.read())
    other.note_run("PartyMissing")
    found.append(reader.read())
    other.note_run()
    digest = b"m" * 32
    ids = np.arange(32, dtype=np.uint8).reshape(2, 16)
    book.seal(b"x" * 32, manifest("of another collection"), ids)
    found.append(reader.read())
    book.seal(digest, manifest(collection.digest.hex()), ids)
    found.append(reader.read())
    book.begin_opening(digest, np.zeros(1, np.uint64))
    book.finish(digest)
    found.append(reader.read())
    released.parent.mkdir()
    released.write_bytes(b"a release")
    found.append(reader.read())
    report_beside(released).write_bytes(b"its page")
    found.append(reader.read())
    assert [one.state for one in found] == ["open", "closed", "failed", "closed", "releasing", *["released"] * 3]
    assert [one.error for one in found[1:4]] == ["", "PartyMissing", ""]
    assert found[2].since == found[1].since == other.closing.since
    assert found[4].manifest == digest.hex()
    assert [one.release for one in found[5:]] == ["", RELEASE_PATH, RELEASE_PATH]
    assert [one.report for one in found[5:]] == ["", "", REPORT_PATH]


def test_the_time_of_closing_is_the_first_one_and_survives_a_restart(server):
    collection, folder, (spool, _), (other, _) = server
    assert spool.closing is None
    spool.close_for_good()
    first = spool.closing
    assert abs(datetime.datetime.fromisoformat(first.since) - datetime.datetime.now(datetime.UTC)) < HOUR
    other.note_run("PartyLost")
    spool.close_for_good()
    with folder.open_spool(collection, 0, writer=False) as again:
        assert again.closing == Closing(first.since, "PartyLost")


def test_what_was_read_stays_where_the_store_cannot_be_read(server):
    collection, _, (spool, ledger), (other, _) = server
    reader = StateReader(collection, spool, ledger)
    other.close_for_good()
    assert reader.read().state == "closed"
    spool._database.close()
    with pytest.raises(SpoolError):
        reader.read()
    assert reader.state.state == "closed"


def test_of_the_releases_of_a_collection_the_one_that_has_come_furthest_counts(tmp_path):
    own, ids = bytes(32), np.arange(64, dtype=np.uint8).reshape(4, 16)
    with ReleaseLedger(tmp_path / "ledger") as ledger:
        assert ledger.latest(own) is None
        for name, rows in ((b"a", ids[:1]), (b"b", ids[1:2]), (b"c", ids[2:])):
            ledger.seal(name * 32, manifest(own.hex()), rows)
        ledger.begin_opening(b"b" * 32, np.zeros(1, np.uint64))
        assert ledger.latest(own).manifest_digest == b"b" * 32
        assert ledger.latest(b"o" * 32) is None


def said_by(servers, server):
    """What door, health, status, page and command say of one server."""
    url = servers.door(server)
    (report,) = sealed_reports(servers.collection)
    _, health, _ = exchange("GET", f"{servers.monitor(server)}/healthz")
    found = {
        "door": exchange("POST", url + path_of(servers.collection), report)[0],
        "health": (health["state"], health["open"]),
        "status": exchange("GET", f"{url}/v1/status")[1]["state"],
        "page": re.search(r'<p class="state">([^<]*)<', exchange("GET", url)[1].decode())[1],
        "log": [line for line in servers.log(server).splitlines() if "the collection is" in line][-1],
    }
    return found


def test_a_server_that_is_closed_alone_says_so_everywhere_within_two_seconds(tmp_path, capsys):
    """No other server answers `dpmpc release --close`; those that are started later are still open."""
    with Servers.make(tmp_path, doors=True, **PROVED) as servers:
        servers.start(0)
        argv = ["release", str(servers.task_file), "--server", "0", "--folder", str(tmp_path / "server-0")]
        listening = ["--listen", f"{HOST}:{free_ports(1)[0]}"]
        command = [sys.executable, "-m", "dpmpc", *argv, "--out", str(tmp_path / "r"), "--close", *listening]
        with subprocess.Popen([*command, "--connect-deadline", "60"], stderr=subprocess.DEVNULL) as releasing:
            try:
                with servers.spool(0) as spool:
                    until = time.monotonic() + PATIENCE
                    while not spool.closed and time.monotonic() < until:
                        time.sleep(0.02)
                time.sleep(2)
                found = said_by(servers, 0)
                assert releasing.poll() is None  # it still waits for the others
            finally:
                releasing.kill()
        words = "closed for good, ahead of its time"
        assert f"the collection is {words}" in found.pop("log")
        assert found == {"door": 410, "health": ("closed", False), "status": "closed", "page": words}
        assert not list((tmp_path / "server-0" / "seals").glob("*.key"))  # the server that runs has deleted it
        servers.start(1, 2)
        capsys.readouterr()
        assert main(["status", str(servers.task_file)]) == 3
        told = capsys.readouterr()
        assert f"servers differ: server 0 says {words}, server 1 says open, server 2 says open" in told.err
        assert words in told.out


def test_after_a_release_every_server_hands_out_its_file_and_its_page(tmp_path, capsys):
    with Servers.make(tmp_path, doors=True, minimum_batch=5, largest_batch=200, **PROVED) as servers:
        servers.start()
        path = path_of(servers.collection)
        body = b"".join(sealed_reports(servers.collection, ROWS[:5]))
        assert exchange("POST", servers.door(0) + path, body)[0] == 200
        assert [exchange("GET", servers.door(0) + place)[0] for place in (RELEASE_PATH, REPORT_PATH)] == [404, 404]
        assert REPORT_PATH not in exchange("GET", servers.door(0))[1].decode()
        for server in range(3):
            servers.stop(server)
        close_and_release(servers)
        servers.start()
        content = (tmp_path / "release-0.dpmpc").read_bytes()
        capsys.readouterr()
        trusted = ["--collection", str(servers.task_file)]
        assert main(["verify", str(tmp_path / "release-1.dpmpc"), *trusted, "--html"]) == 0
        report = capsys.readouterr().out.encode()
        for server in range(3):
            status, answer, headers = exchange("GET", servers.door(server) + RELEASE_PATH)
            assert (status, answer, headers["Content-Type"]) == (200, content, "application/octet-stream")
            page = exchange("GET", servers.door(server))[1].decode()
            assert '<p class="state">released, 5 reports</p>' in page
            assert f'href="{RELEASE_PATH}"' in page
            assert f'href="{REPORT_PATH}"' in page
            assert "dpmpc verify" in page
            status, answer, headers = exchange("GET", servers.door(server) + REPORT_PATH)
            assert (status, answer, headers["Content-Type"]) == (200, report, "text/html; charset=utf-8")
            within = re.search(r'http-equiv="Content-Security-Policy" content="(.*?)"', report.decode())[1]
            assert headers["Content-Security-Policy"].startswith(f"{within}; base-uri 'none'; form-action 'none'")
        capsys.readouterr()
        assert main(["status", str(servers.task_file), "--json"]) == 0
        told = [one["status"] for one in json.loads(capsys.readouterr().out)["answers"]]
        assert {(one["state"], one["clients"], one["release"], one["report"]) for one in told} == {
            ("released", 5, RELEASE_PATH, REPORT_PATH)
        }


def test_a_server_that_runs_on_past_expiry_deletes_its_keys(tmp_path):
    """At the second at which its clock says so, and not before."""
    servers = Servers.make(tmp_path, doors=True, **PROVED)
    collection, folder = servers.collection, servers.server_folder(0)
    clock = [collection.expires - datetime.timedelta(seconds=1)]

    async def run():
        opener = Opener(collection, 0, folder.seals)
        with service_in(folder.path, collection, opener=opener, now=lambda: clock[0]) as (service, _):
            await service._state()
            kept = len(list(folder.seals.folder.glob("*.key")))
            clock[0] = collection.expires
            await service._state()
            with pytest.raises(CollectionClosed):
                opener.open(sealed_reports(collection)[0])
            await service.close()
            return kept

    assert asyncio.run(run()) == 1
    assert not list(folder.seals.folder.glob("*.key"))
