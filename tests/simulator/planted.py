"""Faults to be found, each put into the code of this process by a function."""

import os
import sys

import numpy as np

from dpmpc.base.errors import PartyImpersonated
from dpmpc.base.storage import database, files
from dpmpc.base.storage.kept import as_bytes
from dpmpc.collect.intake.doors import Outbox
from dpmpc.collect.opening.releasing import ReleasingServer
from dpmpc.collect.store import server_folder
from dpmpc.collect.store.blocks import BlockTables
from dpmpc.collect.store.ledger import ReleaseLedger
from dpmpc.collect.store.openings import SALT_BYTES, Openings
from dpmpc.collect.store.query_points import PointKeeper, PointStanding
from dpmpc.collect.store.tombstones import Tombstones
from dpmpc.collect.terms.series import Recorded
from dpmpc.owners.columns import release_record
from dpmpc.owners.columns.release_record import ReleaseRecord
from dpmpc.owners.rows import rounds_record
from dpmpc.owners.rows.rounds_record import RoundsRecord
from dpmpc.parties.network.links import PeerLink


class _WithoutSync:
    """The module `os`, with which nothing is synced."""

    def __getattr__(self, name):
        return getattr(os, name)

    def fsync(self, descriptor):
        pass


def databases_are_not_synced():
    connect = database.connect

    def connected(*given, **options):
        connection = connect(*given, **options)
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    for module in [module for name, module in sys.modules.items() if name.startswith("dpmpc.")]:
        if getattr(module, "connect", None) is connect:
            module.connect = connected


def files_are_not_synced():
    files.os = _WithoutSync()


def each_run_has_a_salt_of_its_own():
    Openings.salt = lambda self, manifest_digest, *, begun: os.urandom(SALT_BYTES)


def a_share_leaves_before_it_is_bound():
    ReleaseLedger.begin_opening = lambda self, manifest_digest, sums: sums


def a_second_call_is_an_impersonation():
    learn_peer = PeerLink._learn_peer

    def learn(self):
        claimed = int.from_bytes(self.bytes[:2], "little")
        if len(self.bytes) >= 2 and claimed in self.runtime.links:
            raise PartyImpersonated(f"party {claimed} connected a second time", claimed)
        learn_peer(self)

    PeerLink._learn_peer = learn


def a_query_point_is_not_kept():
    PointKeeper.use = lambda self, toss: None
    PointKeeper.standing = lambda self: PointStanding()


def a_folder_is_not_locked():
    server_folder._locked = lambda file: True


def a_dealing_seed_is_not_kept():
    ReleaseLedger.keep_seed = lambda self, collection, content: content
    ReleaseLedger.seed = lambda self, collection: None


def the_point_in_the_ledger_is_not_read():
    ReleaseLedger.point = lambda self, collection: None


def damage_is_not_noticed():
    """No word of a report is compared with the checksum that was stored with it."""
    pages = BlockTables._pages

    def without_checksums(self, entries, turn):
        for page in pages(self, entries, turn):
            yield page._replace(fits=np.ones_like(page.fits))

    BlockTables._pages = without_checksums


def a_report_is_answered_for_anew():
    """Nor are answers recorded, so that nothing is left that forbids a second one."""
    damage_is_not_noticed()
    ReleasingServer.record_answers = lambda self, ids, messages: np.ones(len(ids), np.bool_)


def dealt_noise_is_not_forgotten():
    Openings.forget_noise = lambda self, collection, manifest_digest: None


def a_withdrawal_that_comes_first_is_forgotten():
    bury = Tombstones.bury
    Tombstones.bury = lambda self, ids, here, allowance=0: bury(self, ids, here)


def a_withdrawal_ends_with_its_report():
    """What waits for a server under an id ends, where a withdrawal has taken the place of the report meanwhile."""
    end = Outbox.end

    def end_all(self, server, entries):
        with self._turns:
            now = dict(self._database.execute("SELECT id, body FROM reports"))
        end(self, server, [entry._replace(body=now.get(entry.name, entry.body)) for entry in entries])

    Outbox.end = end_all


def withdrawals_are_taken_after_the_announcement():
    Tombstones.announce = lambda self: None


def _made_anew(record, ask, keep, replace):
    """Have an owner draw again in each run, and keep and send that in place of what it had kept."""
    kept, first = getattr(record, ask), getattr(record, keep)

    def again(self, place, *given):
        own = given[-1]
        if kept(self, place, own.shape) is None:
            return first(self, place, *given)
        replace(self, place, own)
        return own

    setattr(record, ask, lambda self, place, shape: None)
    setattr(record, keep, again)


def a_mixed_release_is_made_anew():
    def replace(record, toss, own):
        record._kept.put({release_record._RELEASE: as_bytes(own.view(np.uint64))})

    _made_anew(ReleaseRecord, "own_release", "keep", replace)


def a_round_is_answered_anew():
    def replace(record, number, own):
        record._kept.put({rounds_record._shares(number): as_bytes(own)})

    _made_anew(RoundsRecord, "shares", "keep_shares", replace)


def a_round_is_entered_anew():
    rounds_record._entered = lambda ledger, what: False


def a_sealed_epoch_counts_as_begun():
    ReleaseLedger._recorded = lambda self: [
        Recorded(one.digest, one.manifest, begun=True) for one in self._tables.releases()
    ]


FAULTS = {
    fault.__name__: fault
    for fault in (
        databases_are_not_synced,
        files_are_not_synced,
        each_run_has_a_salt_of_its_own,
        a_share_leaves_before_it_is_bound,
        a_second_call_is_an_impersonation,
        a_query_point_is_not_kept,
        a_folder_is_not_locked,
        a_dealing_seed_is_not_kept,
        the_point_in_the_ledger_is_not_read,
        a_report_is_answered_for_anew,
        dealt_noise_is_not_forgotten,
        a_withdrawal_that_comes_first_is_forgotten,
        a_withdrawal_ends_with_its_report,
        withdrawals_are_taken_after_the_announcement,
        a_mixed_release_is_made_anew,
        a_round_is_answered_anew,
        a_round_is_entered_anew,
        a_sealed_epoch_counts_as_begun,
    )
}
