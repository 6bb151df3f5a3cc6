"""Processes that use a spool or a ledger and tell of all that was acknowledged to them, until they are killed."""

import contextlib
import hashlib
import random
import tempfile
import time
import urllib.parse
from pathlib import Path

import numpy as np

from dpmpc.base.errors import AlreadyReleased, SpoolError
from dpmpc.collect.store.ledger import ReleaseLedger
from dpmpc.collect.store.report_store import ReportStore
from dpmpc.collect.store.sqlite_database import SqliteDatabase

DIGEST = bytes(range(32))
SHAPE = (2, 3)


def words_of(report):
    """The words that belong to a report id, so that anybody can tell whether they are right."""
    return np.frombuffer(hashlib.shake_128(report).digest(48), np.uint64).reshape(SHAPE)


def upload_of(ids):
    return ids, np.array([words_of(report) for report in ids], np.uint64).reshape(len(ids), *SHAPE)


def ledger_of(place):
    """Where the ledger of a store is, of either kind."""
    if str(place).startswith("/"):
        return Path(f"{place}-ledger")
    where = urllib.parse.urlsplit(place)
    folder = urllib.parse.parse_qs(where.query).get("host", [tempfile.gettempdir()])[0]
    return Path(folder) / f"ledger{where.path.replace('/', '-')}"


def open_spool(place, **options):
    """Open a store in either database, by its folder or its address."""
    own = {"digest": DIGEST, "server": 1, "shape": SHAPE, "ledger": ledger_of(place), **options}
    create = own.get("writer", True)
    if str(place).startswith("/"):  # a folder, for processes of tests as text
        return ReportStore(SqliteDatabase(Path(place), create=create), **own)
    from dpmpc.collect.store.postgres_database import PostgresDatabase  # needs an extra of the package

    return ReportStore(PostgresDatabase(place, create=create), **own)


def reports(count, seed=1):
    draw = random.Random(seed)
    return [draw.randbytes(16) for _ in range(count)]


def as_array(ids):
    return np.frombuffer(b"".join(sorted(ids)), np.uint8).reshape(-1, 16)


def cut(message):
    """Return the ids that a message holds."""
    return [message[first : first + 16] for first in range(0, len(message), 16)]


def holds(store, ids):
    """Whether the spool holds these reports with their words, each once, and no others."""
    expected = as_array(ids)
    share = store.share(expected)
    return (
        np.array_equal(store.ids(), expected)
        and len(store) == len(expected)
        and np.array_equal(share.rows(0, len(expected)), upload_of(sorted(ids))[1])
    )


def add_reports(folder, seed, announced):
    """Announce each upload's ids before `add`, then say how many of them are stored for good."""
    draw = random.Random(seed)
    acknowledged = []
    with open_spool(folder) as store:
        while True:
            ids = [draw.randbytes(16) for _ in range(draw.randrange(1, 30))]
            again = draw.sample(acknowledged, min(len(acknowledged), draw.randrange(3)))
            announced.send_bytes(b"".join(ids))
            added = store.add(*upload_of(ids + again))
            assert added == (len(ids), len(again))
            acknowledged += ids
            announced.send_bytes(b"stored")


def add_as_worker(place, worker, workers, seed, announced):
    """Announce each upload's ids before `add`, and afterwards that they are stored, until the database is gone."""
    draw = random.Random(f"{worker} {seed} {time.monotonic()}")
    with open_spool(place, workers=workers) as store, contextlib.suppress(SpoolError):
        while True:
            ids = [draw.randbytes(16) for _ in range(draw.randrange(1, 50))]
            announced.send_bytes(b"".join(ids))
            store.add(*upload_of(ids))
            announced.send_bytes(b"stored")


def withdraw_reports(place, seed, announced):
    """Announce the ids of 40 reports that are stored, then each one that is withdrawn, before and after."""
    draw = random.Random(seed)
    ids = [draw.randbytes(16) for _ in range(40)]
    with open_spool(place) as store:
        store.add(*upload_of(ids))
        announced.send_bytes(b"".join(ids))
        for report in ids:
            announced.send_bytes(report)
            assert store.withdraw([report]) == ["withdrawn now"]
            announced.send_bytes(b"withdrawn")


def digest(name):
    return hashlib.sha256(name.encode()).digest()


def batch(*names):
    return np.frombuffer(b"".join(name.to_bytes(16, "big") for name in sorted(names)), np.uint8).reshape(-1, 16)


def open_releases(folder, seed, tells):
    """Tell name and batch of each release before sealing it, then what may be sent of it: None if it is refused."""
    draw = random.Random(seed)
    with ReleaseLedger(folder) as ledger:
        while True:
            name, ids = str(draw.randrange(1 << 60)), draw.sample(range(20_000), 3)
            tells.send((name, ids))
            try:
                ledger.seal(digest(name), name, batch(*ids))
                tells.send(ledger.begin_opening(digest(name), np.array([draw.randrange(1 << 60)], np.uint64)).tolist())
            except AlreadyReleased:
                tells.send(None)
