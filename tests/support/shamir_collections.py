"""Proved collections with Shamir shares: their servers in one process, some of which lie or die."""

import numpy as np

from dpmpc.base.errors import DpmpcError
from dpmpc.collect.opening.releasing import ReleasingServer
from dpmpc.collect.store.openings import Openings
from dpmpc.collect.store.server_folder import ServerFolder
from dpmpc.collect.terms.verifying import verify
from dpmpc.collect.upload.reports import ReportFormat
from support import proved_collections
from support.proved_collections import PROVED, honest_sums, rows_of_clients

SHAMIR = PROVED | {"sharing": "shamir"}


def no_noise(task, stream, threads=1):
    return np.zeros((task.sketch.rows, task.width), np.int64)


def converse(trial, meddlers=None, kinds=None, told=None, servers=None):
    """Let some servers of a trial, by default all, release it; return what each returned or raised, by number."""
    servers = range(len(trial.collection.servers)) if servers is None else servers
    results = proved_collections.converse(trial, meddlers, kinds, told, servers)
    return dict(zip(servers, results, strict=True))


def join(trial, *reports):
    """Put the records of reports into all spools, as the servers would have."""
    for server in range(len(trial.collection.servers)):
        with ServerFolder(trial.folder(server)).open_spool(trial.collection, server, writer=True) as spool:
            form = ReportFormat(trial.collection, server)
            spool.add(*form.decode(b"".join(records[server] for records in reports)))


def released(trial, results, refused=None, rows=None):
    """All have written the same file, which verifies, and its sums are exactly those of these rows."""
    assert not [result for result in results.values() if isinstance(result, Exception)], results
    assert len({trial.out(server).read_bytes() for server in results}) == 1
    verified = verify(trial.out(min(results)), trial.collection)
    rows = rows_of_clients() if rows is None else rows
    np.testing.assert_array_equal(verified.release.sums[0], honest_sums(trial, rows))
    assert verified.certificate.statement.manifest.refused == (refused or {})
    return verified


def kept_noise(trial):
    """Names under which each server keeps dealt noise."""
    return [
        [name for name in kept_names(ServerFolder(trial.folder(server)).ledger) if name.startswith("noise of ")]
        for server in range(len(trial.collection.servers))
    ]


def kept_names(folder):
    """Names under which a server keeps something of its openings."""
    with Openings(folder)._open() as kept:
        return kept.names()


class Dies(ReleasingServer):
    """A server whose process ends before or after a step."""

    step = ("points", "use", "after")

    @property
    def points(self):
        return self._deadly("points", super().points)

    @property
    def openings(self):
        return self._deadly("openings", super().openings)

    def seal(self, *arguments):
        return self._die("self", "seal", super().seal, *arguments)

    def bound_share(self, *arguments):
        return self._die("self", "bound_share", super().bound_share, *arguments)

    def finish(self, *arguments):
        return self._die("self", "finish", super().finish, *arguments)

    def _deadly(self, holder, keeper):
        if self.step[0] == holder:
            name, original = self.step[1], getattr(keeper, self.step[1])
            setattr(keeper, name, lambda *given, **named: self._die(holder, name, original, *given, **named))
        return keeper

    def _die(self, holder, name, original, *arguments, **named):
        if self.step[:2] != (holder, name):
            return original(*arguments, **named)
        if self.step[2] == "after":
            original(*arguments, **named)
        raise DpmpcError("dead")


def dying(step):
    """A server that ends at this step."""
    return type("Dying", (Dies,), {"step": step})
