"""How servers stand, told by them and asked by `dpmpc status`; the page for people; times in words."""

import asyncio
import datetime
import html
import json
import logging
import re
import types

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.system.collection_servers import Servers
from dpmpc.app.cli import collection as commands
from dpmpc.app.cli.main import main, parser
from dpmpc.base.errors import PartyImpersonated, PartyMissing
from dpmpc.collect.intake import front_page, service
from dpmpc.collect.intake.status import ROUNDED_TO, Answer, HourlyCount, Status, ask, lines, rounded
from dpmpc.collect.store.server_folder import open_spool
from dpmpc.collect.terms.collection_design import CollectionTerms, design_collection
from dpmpc.collect.terms.server_entries import ServerEntry
from dpmpc.collect.upload.report_ids import ID_BYTES
from dpmpc.collect.upload.reports import ReportFormat
from dpmpc.collect.upload.roster import TOKEN_BYTES
from dpmpc.collect.upload.seal_folder import SealFolder
from dpmpc.collect.upload.sealing import SealedReports
from dpmpc.collect.upload.submission import Submission
from dpmpc.data import Schema
from dpmpc.parties.network.identity import fingerprint, write_identity
from dpmpc.parties.network.naming import called, parties_are_servers
from dpmpc.privacy.specification import Budget
from support.certified_releases import certify
from support.hostile import strangers
from support.rejections import blames, rejects
from support.seal_keys import key_in
from support.sealed_doors import path_of, sealed_for
from support.services import asking, service_in
from support.waiting import until

NOW = datetime.datetime(2027, 2, 1, 12, tzinfo=datetime.UTC)
HOUR = datetime.timedelta(hours=1)
DAY = datetime.timedelta(days=1)
ROWS = [[1.0, 2.0, 3.0]] * 12


@pytest.fixture(scope="module")
def identities(tmp_path_factory):
    return tmp_path_factory.mktemp("identities")


@pytest.fixture(scope="module")
def entries(identities):
    return tuple(
        ServerEntry(
            f"https://{name}.example:7443",
            f"{name}.example:7445",
            f"{name}.example:7444",
            write_identity(identities / name, number, DAY).decode(),
            (key_in(identities / name),),
            organisation=f"<i>Clinic {name}</i>",
        )
        for number, name in enumerate("abc")
    )


def made(entries, name="a trial", names=("a", "b", "y"), authenticated=False, proved=None, **times):
    chosen = {"opens": NOW - DAY, "closes": NOW + DAY, "expires": NOW + 2 * DAY} | times
    terms = CollectionTerms(
        name=name,
        servers=entries,
        minimum_batch=2000,
        largest_batch=10_000,
        authenticated=authenticated,
        **chosen,
    )
    return design_collection(terms, Schema.from_pair(list(names), (0.0, 10.0)), Budget(1.0, 1e-7), proved=proved)


def answered(collection, tmp_path, *paths, now=NOW, **options):
    """Return what a service in this process answers to GET requests."""

    async def run():
        with service_in(tmp_path, collection, now=lambda: now, **options) as (one, _):
            try:
                async with asking(one) as client:
                    found = []
                    for path in paths:
                        async with client.get(path) as response:
                            found.append((response.status, await response.text(), response.headers))
                    return found
            finally:
                await one.close()

    return asyncio.run(run())


@given(st.integers(0, 10**7))
def test_a_count_for_strangers_is_rounded_down(stored):
    shown = rounded(stored)
    assert shown <= stored < shown + ROUNDED_TO
    assert shown % ROUNDED_TO == 0


def test_a_public_count_changes_at_full_hours_only():
    start = NOW + datetime.timedelta(minutes=59)
    count = HourlyCount(start)
    seen = []
    for second in range(0, 3 * 3600, 30):
        count.tick(start + datetime.timedelta(seconds=second), lambda hour, now=1000 + second: now)
        seen.append((count.stored, count.counted))
    assert list(dict.fromkeys(seen)) == [
        (None, ""),
        (1000, "2027-02-01T13:00+00:00"),
        (4600, "2027-02-01T14:00+00:00"),
        (8200, "2027-02-01T15:00+00:00"),
    ]
    count.tick(start, lambda hour: 10**6)  # the clock was put back
    assert count.stored == 8200


@pytest.mark.parametrize("authenticated", [False, True], ids=["anybody", "roster"])
def test_no_stranger_sees_a_single_report_arrive(entries, identities, tmp_path, monkeypatch, authenticated):
    """Own reports bring no public count to its edge; with a roster it moves at the full hour, whoever asks."""
    monkeypatch.setattr(service, "CLOCK_SECONDS", 0.01)
    collection = made(entries, authenticated=authenticated, proved=False)
    plain = ReportFormat(collection, 0).record_bytes - ID_BYTES + (TOKEN_BYTES if authenticated else 0)
    numbers, clock = iter(range(10**6)), [NOW]
    roster = None
    if authenticated:
        roster = types.SimpleNamespace(admits=lambda report, token: True)

    async def run():
        seals = SealFolder(identities / "a" / "seals")
        with service_in(tmp_path, collection, seals=seals, roster=roster, now=lambda: clock[0]) as (one, spool):
            ticking = asyncio.create_task(one.tell_times())
            try:
                async with asking(one) as client:

                    async def shown():
                        found = []
                        for path in ("/v1/status", "/", "/v1/collection"):
                            async with client.get(path) as response:
                                found.append(await response.text())
                        return found

                    async def contribute():
                        record = next(numbers).to_bytes(16) + bytes(plain)
                        (body,) = sealed_for(collection, 0, [record])
                        async with client.post(path_of(collection), data=body) as response:
                            assert response.status == 200, await response.text()

                    assert json.loads((await shown())[0])["stored"] is None
                    assert "count not public" in (await shown())[1]
                    assert await strangers.edge(shown, contribute) is None
                    clock[0] = NOW + HOUR
                    await asyncio.sleep(0.2)
                    counted = json.loads((await shown())[0])["stored"]
                    assert counted == (100 if authenticated else None)
                    assert await strangers.edge(shown, contribute) is None
                    assert len(spool) == 300
                    clock[0] = collection.closes
                    assert json.loads((await shown())[0])["stored"] == 300
            finally:
                ticking.cancel()
                await one.close()

    asyncio.run(run())


def test_a_collection_that_a_release_has_closed_says_so_everywhere(entries, tmp_path, caplog):
    """Another process closes the spool early: uploads, status, health, page and log, then after a restart."""
    caplog.set_level(logging.INFO)
    collection = made(entries, proved=False)
    path = path_of(collection)

    async def says(one):
        telling = asyncio.create_task(one.tell_times())
        try:
            async with asking(one) as client:
                yield client
        finally:
            telling.cancel()
            await one.close()

    async def look(client):
        found = {}
        for name in ("/v1/status", "/healthz", "/"):
            async with client.get(name) as response:
                found[name] = await response.text()
        async with client.post(path, data=b"x" * SealedReports(collection).report_bytes) as response:
            return json.loads(found["/v1/status"]), json.loads(found["/healthz"]), found["/"], response.status

    async def run(closing):
        with service_in(tmp_path, collection, now=lambda: NOW) as (one, _):
            async for client in says(one):
                if closing:
                    assert (await look(client))[0]["state"] == "open"
                    with open_spool(tmp_path / "spool", collection, 0, writer=False) as other:
                        other.close_for_good()
                status, health, page, code = await look(client)
                assert (status["state"], status["early"], health["open"], code) == ("closed", True, False, 410)
                answer = Answer(url="u", fingerprint="f", checked=True, status=msgspec.convert(status, Status))
                assert (
                    "closed for good, ahead of its time, fewer than 100 reports, takes no uploads" in lines(answer)[0]
                )
                assert '<p class="state">closed for good, ahead of its time</p>' in page
                assert "before the date below" in page
                assert "dpmpc submit" not in page

    asyncio.run(run(closing=True))
    caplog.clear()
    asyncio.run(run(closing=False))
    told = [record.getMessage() for record in caplog.records]
    assert "the collection is closed for good, ahead of its time" in told
    assert not any("is open" in line for line in told)


def test_a_server_says_how_it_stands(entries, tmp_path):
    collection = made(entries)
    ((status, content, _),) = answered(collection, tmp_path, "monitor:/v1/status")
    told = json.loads(content)
    assert status == 200
    assert told == told | {
        "server": 0,
        "collection": collection.digest.hex(),
        "state": "open",
        "stored": 0,
        "exact": True,
        "minimum_batch": 2000,
        "healthy": True,
        "guarantee": str(collection.plan.guarantee),
    }
    told_strangers = answered(collection, tmp_path, "/v1/status", "/")
    assert not json.loads(told_strangers[0][1])["exact"]
    assert "count not public" in told_strangers[1][1]


def test_the_page_says_what_is_collected_and_loads_nothing(entries, tmp_path):
    collection = made(entries)
    ((status, page, headers),) = answered(collection, tmp_path, "/")
    assert status == 200
    text = html.unescape(page)
    for words in (
        collection.name,
        collection.digest.hex(),
        "31 January 2027, 12:00 UTC",
        "dpmpc submit survey.json",
        "2,000 to 10,000",
        "(1, 1e-07)-differential privacy",
        *(fingerprint(entry.certificate.encode()) for entry in entries),
        *(entry.url for entry in entries),
        *(entry.organisation for entry in entries),
    ):
        assert words in text, words
    assert "<i>" not in page
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert not re.search(r"<script|<img|<link|\son\w+=|src=", page)
    assert re.findall(r'href="([^"]*)"', page) == ["/contribute"]


@pytest.mark.parametrize(
    ("now", "words"),
    [(NOW - 2 * DAY, "Come back then"), (NOW + DAY, "is closed: no more reports"), (NOW + 9 * DAY, "is expired")],
)
def test_the_page_of_a_collection_that_is_not_open_says_so(entries, tmp_path, now, words):
    ((_, page, _),) = answered(made(entries), tmp_path, "/", now=now)
    assert words in page
    assert "dpmpc submit" not in page


def test_every_text_of_the_task_file_is_escaped(entries, tmp_path):
    evil = "<script>alert(1)</script>\u202e&"
    collection = made(entries, name=evil, names=("<b>a", "b", "y"))
    ((_, page, _),) = answered(collection, tmp_path, "/")
    assert "<script" not in page
    assert "<b>" not in page
    assert "\u202e" not in page
    assert "&lt;script&gt;" in page


def test_the_style_is_the_one_that_the_policy_allows(entries):
    status = Status(
        server=0, collection="00", name="x", state="open", opens="", closes="", expires="", stored=0, exact=True,
        minimum_batch=1, largest_batch=2, healthy=False, guarantee="none",
    )  # fmt: skip
    page = front_page.page(made(entries), status)
    import base64
    import hashlib

    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in front_page.headers()["Content-Security-Policy"]
    assert "cannot store reports now" in page


def test_the_command_asks_all_servers_and_one(tmp_path, capsys):
    with Servers.make(tmp_path, servers=2) as servers:
        servers.start()
        task, urls = tmp_path / "collection.json", [entry.url for entry in servers.collection.servers]
        progress = []
        Submission(
            collection=servers.collection,
            state=tmp_path / "state",
            seconds=60,
            on_progress=lambda got, needed: progress.append((got, needed)),
        ).run(ROWS)
        assert progress[-1] == (24, 24)
        assert [got for got, _ in progress] == sorted(got for got, _ in progress)

        assert main(["status", str(task)]) == 0
        shown = capsys.readouterr().out
        assert shown.count("open, count not public, stores uploads") == 2
        assert shown.count("as the task file expects it") == 2
        assert main(["status", urls[1]]) == 0
        assert "compare it with the task file: it was not checked" in capsys.readouterr().out
        assert main(["status", urls[1], "--collection", str(task), "--json"]) == 0
        (told,) = json.loads(capsys.readouterr().out)["answers"]
        assert (told["checked"], told["status"]["stored"]) == (True, None)
        assert main(["status", servers.monitor(1), "--json"]) == 0
        (told,) = json.loads(capsys.readouterr().out)["answers"]
        assert (told["checked"], told["status"]["stored"], told["status"]["exact"]) == (False, 12, True)
        answer = asyncio.run(ask(servers.monitor(1), server=1, entry=servers.collection.servers[1]))
        assert (answer.checked, answer.fingerprint) == (False, "")  # plain HTTP shows no certificate
        with blames(0, PartyImpersonated):
            asyncio.run(ask(urls[1], server=0, entry=servers.collection.servers[0]))
        impostor = write_identity(tmp_path / "impostor", 1, DAY).decode()  # of the same number, with another key
        for change in ({"certificate": impostor}, {"public_certificate": True}):  # which no authority has issued
            changed = msgspec.structs.replace(servers.collection.servers[1], **change)
            with blames(1, PartyImpersonated):
                asyncio.run(ask(urls[1], server=1, entry=changed))
        servers.stop(1)
        assert main(["status", str(task)]) == 3
        told = capsys.readouterr()
        assert "server 0" in told.out
        assert re.search("PartyMissing: server 1 at .*: no answer: ", told.err)
        assert "SSLContext" not in told.err
        servers.stop(0)
        log = servers.log(0)
    for words in ("0 reports stored", "listening on 127.0.0.1", "the collection is open", "stopping", "refused: none"):
        assert words in log, log


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.toml"], "url: 'nowhere.toml' given, https://HOST:PORT or a task file expected"),
        (["http://a.example"], "https://HOST:PORT expected, or http of a monitor"),
        (["https://a.example", "--server", "1"], "server: 1 given, expected with --collection alone"),
    ],
)
def test_bad_arguments_are_named(arguments, words, capsys):
    assert main(["status", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_an_answer_that_is_no_status_names_the_server(tmp_path):
    from dpmpc.collect.intake import status

    with pytest.raises(PartyMissing, match="no answer"):
        asyncio.run(ask("https://127.0.0.1:1"))
    with rejects("url"):
        asyncio.run(status.ask("https://"))


def test_refused_uploads_are_logged_by_cause_and_summed_at_the_end(entries, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    collection = made(entries)
    path = path_of(collection)

    async def run():
        with service_in(tmp_path, collection, now=lambda: NOW) as (one, _):
            try:
                async with asking(one) as client:
                    for where, body in ((path, b"secret"), (path, b"secret"), (path.replace("/coll", "/v", 0), b"")):
                        await (await client.post(where, data=body)).read()
            finally:
                await one.close()

    asyncio.run(run())
    assert caplog.text.count("upload refused: 400 ReportRejected") == 1
    assert "uploads refused: ReportRejected 3" in caplog.text
    assert "secret" not in caplog.text
    assert {record.cause for record in caplog.records if hasattr(record, "cause")} == {"ReportRejected"}


def test_opening_and_closing_are_logged(entries, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(service, "CLOCK_SECONDS", 0.01)
    caplog.set_level(logging.INFO)
    collection, clock = made(entries), [NOW - 2 * DAY]

    async def run():
        with service_in(tmp_path, collection, now=lambda: clock[0]) as (one, _):
            telling = asyncio.create_task(one.tell_times())
            for lines, now in enumerate((NOW, NOW + DAY), start=1):
                await until(lambda lines=lines: len(caplog.records) >= lines)
                clock[0] = now
            await until(lambda: len(caplog.records) >= 3)
            telling.cancel()
            await one.close()

    asyncio.run(run())
    told = [record.getMessage() for record in caplog.records]
    assert told[:3] == [
        "the collection is not open yet",
        "the collection is open now; 0 reports stored",
        "the collection is closed now; 0 reports stored",
    ]


def test_errors_of_a_release_speak_of_servers():
    with parties_are_servers():
        assert called(2) == "server 2"
    assert (called(2), called(None)) == ("party 2", "an unknown party")


def test_the_log_of_a_server_is_json_if_asked_and_nothing_else(tmp_path):
    with Servers.make(tmp_path, "--log-format", "json", servers=2) as servers:
        servers.start(0)
        servers.stop(0)
        lines = servers.log(0).splitlines()
    assert len(lines) >= 4
    assert all(json.loads(line)["logger"] == "dpmpc.collect" for line in lines)


def test_no_message_of_a_collection_speaks_of_parties():
    """What `dpmpc serve`, `submit` and `status` say of their options and arguments."""
    for command in ("serve", "submit", "status", "release", "inspect", "collection", "roster"):
        words = parser().commands.choices[command].format_help().replace("party.crt", "")
        assert "party" not in words, command
        assert "parties" not in words, command
    assert commands.__doc__ is not None
    assert "party" not in commands.__doc__


def test_a_release_without_a_roster_counts_reports_and_no_people(tmp_path, capsys):
    """One program may have sent them all. The noise is said with its unit, and not as a mean of one row."""
    path = str(certify(tmp_path, 3, [], noise_by="servers", corrupt_clients=None).path)
    assert main(["read", path, "--html"]) == 0
    page = html.unescape(capsys.readouterr().out)
    assert main(["read", path]) == 0
    text = capsys.readouterr().out
    assert re.search(r"\d reports with \d+ column", text)
    assert "one person may have sent several" in page
    assert not re.search(r"\d (people|clients) with", text)
    assert "<dt>Clients" not in page
    assert main(["verify", path]) == 0
    checks = capsys.readouterr().out
    assert "of 1 rows" not in checks
    assert "in normalised units" in checks
