"""A store of reports in PostgreSQL: several workers, killed at any time, on a database that must keep its word."""

import contextlib
import importlib
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dpmpc.base.errors import CollectionClosed, SpoolError, Withdrawn
from dpmpc.collect.store.blocks import checksums
from dpmpc.collect.store.store_description import _TABLES
from support import collection_processes
from support.collection_processes import as_array, cut, holds, open_spool, reports, upload_of
from support.processes import CONTEXT, begin
from support.rejections import rejects
from support.report_stores import cluster_or_skip
from support.waiting import wait_for

pytest.importorskip("psycopg", reason="psycopg is not installed: pip install '.[postgres]'")
postgres_database = importlib.import_module("dpmpc.collect.store.postgres_database")
WORKERS = 4


@pytest.fixture
def place(postgres):
    return postgres.database()


@pytest.fixture(scope="module")
def crashing():
    """A server that tests may stop, and start with other settings."""
    cluster = cluster_or_skip()
    yield cluster
    cluster.close()


def hear(pipe, messages):
    """Add what a process sends until it ends to a list; the last message may have been cut short."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            messages.append(pipe.recv_bytes())


def acknowledged(told):
    """The ids of uploads that a process was told are stored; whatever it sent may be there."""
    sent = [message for message in told if message != b"stored"]
    done = sent[: told.count(b"stored")]
    return [{report for message in those for report in cut(message)} for those in (done, sent)]


def wait_until_each_has_stored(told):
    """Wait until each process has told that at least ten uploads are stored."""
    for messages in told:
        wait_for(lambda messages=messages: messages.count(b"stored") >= 10, "an upload")


@pytest.mark.parametrize("rounds", [1, pytest.param(8, marks=pytest.mark.long("8 rounds of kills, not one"))])
def test_what_workers_acknowledged_survives_kills_of_them_and_of_the_database(crashing, rounds):
    """Four write; one is killed and its place taken, then the whole database crashes."""
    place, done, sent = crashing.database(), set(), set()
    for turn in range(rounds):
        with ThreadPoolExecutor(WORKERS + 1) as listeners:  # a pipe that is full would hold a worker up

            def start(number, turn=turn, listeners=listeners):
                hears, tells = CONTEXT.Pipe(duplex=False)
                process = begin(collection_processes.add_as_worker, place, number, WORKERS, turn, tells)
                tells.close()
                messages = []
                listeners.submit(hear, hears, messages)
                return process, messages

            workers = [start(number) for number in range(WORKERS)]
            wait_until_each_has_stored(messages for _, messages in workers)
            workers[0][0].kill()
            workers[0][0].join()
            workers.append(start(0))
            wait_until_each_has_stored([workers[-1][1]])
            crashing.stop("immediate")
            for process, _ in workers:
                process.join()
        crashing.start()
        for _, messages in workers:
            stored, tried = acknowledged(messages)
            assert stored
            done |= stored
            sent |= tried
    with open_spool(place, writer=False) as store:
        ids, damaged, _ = store.intact()
        there = {row.tobytes() for row in ids}
        assert damaged == 0
        assert done <= there <= sent
        assert len(store) == len(there)
        assert holds(store, there)


@pytest.mark.parametrize("times", [3, pytest.param(100, marks=pytest.mark.long("100 times, not 3"))])
def test_nothing_is_stored_after_freezing(postgres, times):
    """Four write all the time; once `close_for_good` has returned no report comes, whatever was on its way."""
    for turn in range(times):
        place = postgres.database()
        stores = [open_spool(place, workers=WORKERS) for number in range(WORKERS)]
        done = [[] for _ in stores]

        def write(number, stores=stores, done=done):
            draw = random.Random(number)
            with contextlib.suppress(CollectionClosed):
                while True:
                    ids = [draw.randbytes(16) for _ in range(5)]
                    stores[number].add(*upload_of(ids))
                    done[number] += ids

        threads = [threading.Thread(target=write, args=(number,)) for number in range(WORKERS)]
        for thread in threads:
            thread.start()
        with open_spool(place, writer=False) as release:
            while len(release) < 40:
                time.sleep(0.002 * (turn % 7))
            release.close_for_good()
            frozen = release.intact()
            for thread in threads:
                thread.join()
            assert release.intact().ids.tobytes() == frozen.ids.tobytes()
            assert frozen.ids.tobytes() == as_array([report for one in done for report in one]).tobytes()
        for store in stores:
            store.close()


def test_an_id_at_two_workers_at_once_counts_once(place):
    """Groups in opposite orders: none waits for the other for good; the words that came first count."""
    ids = reports(600)
    with open_spool(place, workers=2) as one, open_spool(place, workers=2) as other:
        words = upload_of(ids[::-1])[1] + np.uint64(1)
        gate = threading.Barrier(2)

        def send(store, uploads):
            gate.wait()
            for first in range(0, 600, 50):
                store.add_all(uploads[first : first + 50])

        uploads = [([report], block[None]) for report, block in zip(ids[::-1], words, strict=True)]
        threads = [
            threading.Thread(target=send, args=(one, [upload_of([report]) for report in ids])),
            threading.Thread(target=send, args=(other, uploads)),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert one.ids().tobytes() == as_array(ids).tobytes()
        assert one.intact().damaged == 0
        rows = other.share(as_array(ids)).rows(0, 600)
        differences = rows - upload_of(sorted(ids))[1]
        assert set(np.unique(differences.reshape(600, -1), axis=0)[:, 0].tolist()) <= {0, 1}
        assert np.array_equal(rows, one.share(as_array(ids)).rows(0, 600))


def test_a_withdrawal_at_another_worker_than_the_upload_takes_the_report_back(place):
    """Whichever comes first: a report that is there is erased, and one that comes later is refused or left out."""
    ids, fates = reports(200), []

    with open_spool(place, workers=2) as one, open_spool(place, workers=2) as other:
        threads = [
            threading.Thread(target=lambda: [one.add_all([upload_of([report])]) for report in ids]),
            threading.Thread(target=lambda: fates.extend(other.withdraw([report])[0] for report in ids)),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(fates) <= {"withdrawn now", "never here"}
        assert (len(one.ids()), one.intact().damaged) == (0, 0)
        other.withdraw(ids)  # erases what was stored while its tombstone came
        assert holds(one, [])
        assert one.intact().withdrawn == one.tally().withdrawn
        with pytest.raises(Withdrawn):
            one.add(*upload_of(ids[:1]))


def change_row(store, table, column, change):
    """Change a value of the only row of a table by hand."""
    ((value,),) = store._database._connection.execute(f"SELECT {column} FROM dpmpc.{table}").fetchall()
    store._database._connection.execute(f"UPDATE dpmpc.{table} SET {column} = %b", (change(bytes(value)),))


@pytest.mark.parametrize(
    ("table", "column", "change", "damaged"),
    [
        ("words", "words", lambda words: words[:440] + bytes([words[440] ^ 1]) + words[441:], 1),
        ("words", "words", lambda words: words[:-1], 1),
        ("ids", "checksums", lambda sums: sums[:72] + bytes([sums[72] ^ 16]) + sums[73:], 1),
        ("ids", "ids", lambda ids: ids[:159] + bytes([ids[159] ^ 1]) + ids[160:], 1),
        ("ids", "ids", lambda ids: ids[:-1], 30),
        ("words", "words", lambda words: b"", 27),
    ],
)
def test_a_report_that_changed_in_the_database_is_left_out_and_counted(place, table, column, change, damaged):
    ids = sorted(reports(30))
    with open_spool(place, most_stored=1000) as store:
        store.add(*upload_of(ids))
        store.withdraw(ids[:3])
        share = store.share(as_array(ids[3:]))
        change_row(store, table, column, change)
        found = store.intact()
        assert found.damaged == damaged
        assert {row.tobytes() for row in found.ids} <= {*ids[3:]}
        assert len(found.ids) + found.damaged + found.withdrawn == 30
        with pytest.raises(SpoolError):
            share.rows(0, 27)


def test_a_report_in_the_place_of_another_is_noticed(place):
    """Each report is right by itself, and so is their number: only the sum of the checksums tells."""
    ids = reports(1)
    other = b"\x07" * 16
    with open_spool(place) as store:
        store.add(*upload_of(ids))
        words = upload_of([other])[1]
        change_row(store, "ids", "ids", lambda held: other)
        change_row(store, "words", "words", lambda held: words.tobytes())
        change_row(store, "ids", "checksums", lambda held: checksums(np.array([other], "S16"), words).tobytes())
        with pytest.raises(SpoolError):
            store.intact()


@pytest.mark.parametrize("change", ["closed = 0", "facts = '{}'", "seal = '\\x00'", "digest = 'x'"])
def test_a_description_that_changed_is_refused(place, change):
    with open_spool(place) as store:
        store.close_for_good()
        store.announce()
        store._database._connection.execute(f"UPDATE dpmpc.description SET {change}")
        with pytest.raises(SpoolError):
            store.add(*upload_of(reports(1)))
    with pytest.raises(SpoolError):
        open_spool(place, writer=False)


@pytest.mark.parametrize(
    "setting",
    ["synchronous_commit = off", "default_transaction_isolation = 'repeatable read'", "synchronous_commit = local"],
)
def test_a_database_that_may_lose_what_it_has_committed_is_refused(postgres, setting):
    place = postgres.database()
    name = place.partition("?")[0].rpartition("/")[2]
    postgres.execute(f"ALTER DATABASE {name} SET {setting}")
    with rejects("store", SpoolError):
        open_spool(place)


def test_a_server_that_does_not_sync_is_refused(crashing):
    place = crashing.database()
    for name in ("fsync", "full_page_writes"):
        crashing.stop("fast")
        crashing.start(**{name: "off"})
        with rejects("store", SpoolError):
            open_spool(place)
    crashing.stop("fast")
    crashing.start()


def test_a_setting_that_changes_under_a_worker_makes_the_store_unusable(crashing):
    with open_spool(crashing.database()) as store:
        assert store.usable(0)
        for change, usable in (("SET fsync = off", False), ("RESET fsync", True)):
            crashing.execute(f"ALTER SYSTEM {change}")
            crashing.execute("SELECT pg_reload_conf()")
            until = time.monotonic() + 20.0
            while store.usable(0) is not usable and time.monotonic() < until:
                time.sleep(0.02)
            assert store.usable(0) is usable


def test_a_database_of_no_encoding_is_as_good_as_others(postgres):
    """`initdb` makes such ones where no locale is set."""
    postgres.execute("CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    with open_spool(postgres.address("ascii")) as store:
        store.add(*upload_of(reports(3)))
        assert store.count_at("2027-02-01T13:00+00:00") == 3
        assert holds(store, reports(3))


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE dpmpc.words SET UNLOGGED",
        "GRANT SELECT ON dpmpc.ids TO PUBLIC",
        "CREATE ROLE stranger; ALTER TABLE dpmpc.words OWNER TO stranger",
    ],
)
def test_tables_that_a_crash_empties_or_that_are_not_the_servers_alone_are_refused(postgres, place, change):
    with open_spool(place) as store:
        store.add(*upload_of(reports(3)))
    postgres.execute(change, place)
    for writer in (True, False):
        with rejects("store", SpoolError):
            open_spool(place, writer=writer)


@pytest.mark.parametrize("owned", ["tables", "schema"])
def test_what_another_role_has_made_before_is_refused(postgres, place, owned):
    """It reads and changes what the server writes there."""
    role = f"earlier_{owned}"
    statements = [f"CREATE ROLE {role}", "CREATE SCHEMA dpmpc", "SET search_path = dpmpc"]
    statements += [table.format(number="bigint", bytes="bytea") for table in _TABLES]
    statements += [
        f"ALTER TABLE {name} OWNER TO {role}" for name in ("description", "ids", "words") if owned == "tables"
    ]
    statements += [f"ALTER SCHEMA dpmpc OWNER TO {role}"] if owned == "schema" else []
    postgres.execute("; ".join(statements), place)
    with rejects("store", SpoolError):
        open_spool(place)


def test_a_worker_that_begins_anew_waits_for_nobody_who_reads(place, monkeypatch):
    """A back-up, or the release, reads the table for a long time; the other workers would wait behind this one."""
    psycopg = importlib.import_module("psycopg")
    monkeypatch.setattr(postgres_database, "PATIENCE_SECONDS", 2)
    with open_spool(place, workers=2) as other, psycopg.connect(place) as reader:
        reader.execute("SELECT count(*) FROM dpmpc.words")  # in a transaction that goes on
        with open_spool(place, workers=2) as again:
            again.add(*upload_of(reports(3)))
        assert other.tally().reports == 3


@pytest.mark.parametrize(
    ("address", "argument"),
    [
        ("dpmpc", "store"),
        ("postgresql:///x?nonsense=1", "store"),
        ("postgresql://me:secret@/x", "store"),
        ("postgresql:///x?password=secret", "store"),
    ],
)
def test_addresses_that_are_none(address, argument):
    with rejects(argument) as refused:
        open_spool(address)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("host", "address", "near"),
    [
        ("/run/postgresql", "", True),
        ("/run/postgresql", "10.0.0.3", False),
        ("localhost", "127.0.0.1", True),
        ("127.0.0.1", "", True),
        ("::1", "", True),
        ("db", "10.0.0.3", False),
        ("db", "", False),
    ],
)
def test_what_is_on_this_machine(host, address, near):
    assert postgres_database._is_near(host, address) is near


def test_a_database_without_reports_or_that_is_not_there_is_refused(postgres):
    with rejects(place := postgres.database(), SpoolError, given="no reports of dpmpc in it"):
        open_spool(place, writer=False)
    with pytest.raises(SpoolError):
        open_spool(postgres.address("elsewhere"))


def test_workers_store_no_more_than_there_is_room_for(place):
    with open_spool(place, workers=2, most_stored=100) as one, open_spool(place, workers=2, most_stored=100) as other:
        one.add(*upload_of(reports(60)))
        assert other.room() == 40
        other.add(*upload_of(reports(30, seed=2)))
        with rejects("reports", SpoolError, given="11 new ones", expected="at most 10"):
            one.add(*upload_of(reports(11, seed=3)))
        one.add(*upload_of(reports(10, seed=3)))
        assert (one.room(), len(other)) == (0, 100)


def test_a_copy_that_no_commit_waits_for_is_refused(crashing):
    """What follows the database through a slot may be put in its place one day."""
    place = crashing.database()
    open_spool(place).close()
    crashing.stop("fast")
    crashing.start(wal_level="replica", max_wal_senders=4)
    crashing.execute("SELECT pg_create_physical_replication_slot('copy')")
    with crashing.follower("copy"):
        wait_for(lambda: crashing.execute("SELECT active FROM pg_replication_slots") == [(True,)], "the copy")
        with rejects("store", SpoolError):
            open_spool(place)
        crashing.execute("ALTER SYSTEM SET synchronous_standby_names = 'copy'")
        crashing.execute("SELECT pg_reload_conf()")
        wait_for(lambda: crashing.execute("SHOW synchronous_standby_names") == [("copy",)], "the setting")
        open_spool(place).close()  # which writes nothing, as the copy would not confirm it
    crashing.execute("ALTER SYSTEM RESET synchronous_standby_names")
    crashing.stop("fast")
    crashing.start()


def test_a_connection_that_broke_is_made_anew(place):
    ids = reports(4)
    with open_spool(place) as store:
        store.add(*upload_of(ids[:2]))
        ((process,),) = store._database._connection.execute("SELECT pg_backend_pid()").fetchall()
        with open_spool(place, writer=False) as other:
            other._database._connection.execute("SELECT pg_terminate_backend(%b)", (process,))
        with pytest.raises(SpoolError):
            store.add(*upload_of(ids[2:]))
        assert store.usable(0)
        store.add(*upload_of(ids))
        assert holds(store, ids)


def test_keys_and_words_are_different_stores(place):
    open_spool(place, keys=True).close()
    with rejects("ring", SpoolError, expected="keys"):
        open_spool(place)


def test_a_store_of_another_version_is_refused_by_name(postgres, place):
    """As versions before 0.11 made it: a table of reports, and a description in one row."""
    postgres.execute("CREATE SCHEMA dpmpc; CREATE TABLE dpmpc.standing (one boolean, version integer)", place)
    postgres.execute("INSERT INTO dpmpc.standing VALUES (true, 3)", place)
    for writer in (True, False):
        with rejects(place, SpoolError, given="a store of version: an earlier one", expected="6, that of this program"):
            open_spool(place, writer=writer)
