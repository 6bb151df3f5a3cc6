"""Collections whose clients prove what they share: reports in spools, releases among parties of one process, sums."""

import contextlib
from unittest import mock

import numpy as np

from dpmpc.collect.opening import release_protocol
from dpmpc.collect.opening.releasing import ReleasingServer
from dpmpc.collect.store.ledger import ReleaseLedger
from dpmpc.collect.store.server_folder import ServerFolder
from dpmpc.collect.terms.verifying import verify
from dpmpc.collect.upload.reports import ReportFormat
from dpmpc.release.client import Client
from support.release_processes import COUNT
from support.talk import talk

PROVED = {
    "proved": True,
    "noise_by": "servers",
    "sketch": "sum",
    "radius": 1.0,
    "rows": None,
    "sparsity": None,
    "copies": "auto",
}


def rows_of_clients(count=COUNT, columns=2):
    """The rows that `Trial.make` makes reports of."""
    return np.random.default_rng(5).uniform(0, 10, (count, columns))


@contextlib.contextmanager
def without_noise():
    """Let servers add no noise, so that sums can be compared exactly."""
    with mock.patch("dpmpc.release.server.add_noise", lambda task, sums, stream, **more: sums):
        yield


def converse(trial, meddlers=None, kinds=None, told=None, servers=None):
    """Let some servers of a trial, by default all, release it; return what each returned or raised."""
    collection = trial.collection

    async def program(party):
        folder = ServerFolder(trial.folder(party.pid))
        kind = (kinds or {}).get(party.pid, ReleasingServer)
        with folder.open_spool(collection, party.pid, writer=False) as spool, ReleaseLedger(folder.ledger) as ledger:
            out, public = trial.out(party.pid), folder.released(collection)
            tell = (lambda line: None) if told is None else told.append
            server = kind(collection, party.pid, spool, ledger, folder.identity, out, public, False, 1, tell)
            return await release_protocol.release(party, server)

    servers = range(len(collection.servers)) if servers is None else servers
    return talk({server: trial.folder(server) / "identity" for server in servers}, program, meddlers)


def join(trial, records):
    """Put a report's records into all spools, as the servers would have."""
    for server, record in enumerate(records):
        put(trial, server, record)


def put(trial, server, record):
    """Take a record at one server's door, and store it."""
    taken = ReportFormat(trial.collection, server).decode(record)
    with ServerFolder(trial.folder(server)).open_spool(trial.collection, server, writer=True) as spool:
        return spool.add(*taken)


def honest_sums(trial, rows):
    """What these rows add up to, from the rows and not from any report."""
    return Client(trial.collection.plan.verify()).encode(rows).sum(axis=0)


def released(trial, rows, results, refused=None):
    """All have written the same file, which verifies, and its sums are exactly those of these rows."""
    assert not [result for result in results if isinstance(result, Exception)], results
    assert len({trial.out(server).read_bytes() for server in range(3)}) == 1
    verified = verify(trial.out(0), trial.collection)
    np.testing.assert_array_equal(verified.release.sums[0], honest_sums(trial, rows))
    assert verified.certificate.statement.manifest.refused == (refused or {})
    return verified


def states(trial):
    """States of the releases that each ledger knows."""
    found = []
    for server in range(len(trial.collection.servers)):
        with ReleaseLedger(ServerFolder(trial.folder(server)).ledger) as ledger:
            found.append([entry.state for entry in ledger.releases()])
    return found


def points(trial):
    """The point that each ledger says is used."""
    found = []
    for server in range(len(trial.collection.servers)):
        with ReleaseLedger(ServerFolder(trial.folder(server)).ledger) as ledger:
            found.append(ledger.point(trial.collection.digest))
    return found
