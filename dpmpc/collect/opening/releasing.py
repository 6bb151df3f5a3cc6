"""Do what one server of a release does by itself: look up, refuse, compute and keep.

The conversation with the other servers is `dpmpc.collect.opening.release_protocol`, which calls the steps of this
module. Paths, times and keys stay here: nothing of them is sent.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from dpmpc.base.arrays import Bytes, Words
from dpmpc.base.digests import sha256_of_rows
from dpmpc.base.errors import AlreadyReleased, CollectionClosed, InconsistentShares, InputError, TooFewClients
from dpmpc.base.randomness import Label
from dpmpc.base.storage.files import write_private
from dpmpc.collect.opening.agreement import Batch
from dpmpc.collect.opening.pieces import Spread, SumTask, summed_share, sums_by_pieces
from dpmpc.collect.store.id_files import selected_ids
from dpmpc.collect.store.ledger import ReleaseLedger, State
from dpmpc.collect.store.openings import Openings
from dpmpc.collect.store.query_points import PointKeeper
from dpmpc.collect.store.report_store import ReportStore
from dpmpc.collect.store.server_folder import refused_file
from dpmpc.collect.terms.certificate import (
    DAMAGED,
    DEALT_WRONGLY,
    RELEASED_BEFORE,
    WITHDRAWN,
    Certificate,
    Manifest,
    save,
)
from dpmpc.collect.terms.series import MOST_EPOCHS
from dpmpc.collect.terms.shamir_claims import INCONSISTENT
from dpmpc.collect.terms.task_file import Collection
from dpmpc.linear.sharing.check_values import check_values, draw_coefficients
from dpmpc.parties.network.meter import Meter, RunStatistics
from dpmpc.privacy.task import VerifiedTask
from dpmpc.release.release import Release
from dpmpc.release.server import transform

_REFUSED_HEADING = "report,cause\n"
_CHECKED_AT_ONCE = 1 << 24  # bytes of a batch, while it is checked


_Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
_Digests = Annotated[list[_Digest], msgspec.Meta(max_length=1000)]


class Standing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far a server has come with this collection, as it announces to the others."""

    begun: _Digests  # digests of the manifests that it has begun to open, or opened
    sealed: _Digests  # of those that were only agreed on
    time: float  # its clock, in seconds since 1970, UTC
    closed: float  # when it took reports until, by that clock
    # in a series, the digests of the manifests of other epochs that its ledger has begun, by epoch
    earlier: Annotated[dict[str, _Digest], msgspec.Meta(max_length=MOST_EPOCHS)] = {}


@dataclasses.dataclass(frozen=True, eq=False)
class Available:
    """The reports that a server can release."""

    ids: Bytes  # (n, 16): ascending
    left_out: dict[str, int]  # how many others it has, by reason: see `dpmpc.collect.terms.certificate.LEFT_OUT`


@dataclasses.dataclass(frozen=True)
class ReleasingServer:
    """The part of a release that one server does by itself."""

    collection: Collection  # what everybody agreed on
    number: int  # this server's
    spool: ReportStore  # its shares
    ledger: ReleaseLedger  # what it has opened
    identity: Path  # the folder of its key
    out: Path  # the release file to write
    public: Path  # a second one, which this server hands out to everybody
    close: bool  # whether to stop taking reports before the collection closes
    threads: int  # of the transform
    tell: Callable[[str], None]  # called with each line that a person who watches should see
    spread: Spread | None = None  # other processes that compute for it

    @property
    def openings(self) -> Openings:
        """What it keeps of commitments and of dealt noise."""
        return Openings(self.ledger.folder)

    @property
    def refused_file(self) -> Path:
        """Where this server's operator finds which reports were refused because of their proofs, and why."""
        return refused_file(self.identity.parent, self.collection)

    @property
    def points(self) -> PointKeeper:
        """Where it keeps the query point of a collection with proofs."""
        return PointKeeper(self.collection.digest, self.spool, self.ledger)

    def require_due(self) -> None:
        """Refuse a release that is too early, or too late."""
        now = datetime.datetime.now(datetime.UTC)
        self.collection.require_unexpired(now)
        if now < self.collection.closes and not (self.close or self.spool.closed):
            raise CollectionClosed(
                f"collection {self.collection.name!r}",
                f"takes reports until {self.collection.closes.isoformat()}; it is "
                f"{now.isoformat(timespec='seconds')}; close=True closes it at this server for good",
            )

    def require_ready(self) -> None:
        """Stop taking reports for good, or refuse: as `require_due` does, or because the ledger is damaged."""
        self.require_due()
        self.ledger.scrub()
        self._close()

    def close_early(self) -> None:
        """Stop taking reports for good, durably, if that was requested: no other server is needed for it."""
        self.require_due()
        if self.close:
            self._close()

    def _close(self) -> None:
        self.spool.close_for_good()
        if self.collection.proved:
            self.points.close()

    def available(self) -> Available:
        """Find the reports that are undamaged and belong to no release that is opening or opened.

        Where reports have proofs the words are compared when these are checked: what is damaged has another hash then.
        A client that sends one id to two collections of a ledger loses its report to the first, and no other
        client does.
        """
        self.spool.announce()
        intact = self.spool.intact(words=not self.collection.proved)
        begun = self.ledger.begun(intact.ids)
        ids = selected_ids(self.ledger.folder, intact.ids, ~begun)
        if len(ids) < self.collection.minimum_batch <= len(intact.ids):
            self.ledger.require_unreleased(intact.ids)
        counts = {RELEASED_BEFORE: int(begun.sum()), DAMAGED: intact.damaged, WITHDRAWN: intact.withdrawn}
        return Available(ids, {reason: count for reason, count in counts.items() if count})

    def standing(self) -> Standing:
        """Look up how far this server has come."""
        begun: list[str] = []
        sealed: list[str] = []
        for entry in self.ledger.releases():
            if Manifest.from_json(entry.manifest).collection == self.collection.digest.hex():
                (sealed if entry.state is State.SEALED else begun).append(entry.manifest_digest.hex())
                if entry.state is not State.SEALED:  # refuse what has lost its commitments, before anything is said
                    self.openings.salt(entry.manifest_digest, begun=True)
        closing, closes = self.spool.closing, self.collection.closes
        early = datetime.datetime.fromisoformat(closing.since) if closing is not None else closes
        now = datetime.datetime.now(datetime.UTC)
        return Standing(begun, sealed, now.timestamp(), min(early, closes).timestamp(), self._earlier())

    def _earlier(self) -> dict[str, str]:
        """Return the other epochs of the series that this server has begun."""
        series = self.collection.series
        found = {} if series is None else self.ledger.begun_epochs(self.collection.series_identity)
        return {epoch: digest for epoch, digest in found.items() if series is not None and epoch != str(series.epoch)}

    def sealed_manifest(self, digest: bytes) -> Manifest:
        """Return a manifest that the ledger holds."""
        entry = self.ledger.find(digest)
        if entry is None:
            raise AlreadyReleased("manifest", f"{digest.hex()} is not among those that this server has sealed")
        return Manifest.from_json(entry.manifest)

    def require_batch(self, batch: Batch, refused: Mapping[str, int] | None = None) -> None:
        """Refuse a batch that is too small, or holds a report of an earlier release; `refused` were left out of it."""
        try:
            self.collection.require_size(min(len(batch.ids), self.collection.largest_batch))
        except TooFewClients as error:
            lacked = ", ".join(f"server {server} lacks {number}" for server, number in batch.lacked.items())
            causes = refused or {}
            counts = "".join(f"; {count} refused: {cause}" for cause, count in causes.items())
            told = f"{error}; of the reports that any server holds {lacked}{counts}"
            inconsistent = sum(causes.get(cause, 0) for cause in (DEALT_WRONGLY, INCONSISTENT))
            if 2 * inconsistent > len(batch.ids) + sum(causes.values()):
                raise InconsistentShares(
                    f"{told}. More than half of all reports lie on no polynomial: most clients have dealt them so, or "
                    "servers lie about them, and nobody can tell which. Nothing was bound; the run can be repeated"
                ) from error
            raise TooFewClients(told) from error
        self.ledger.require_unreleased(batch.ids)

    def seal(self, manifest: Manifest, ids: Bytes, noise: Words | None = None) -> None:
        """Record what was agreed on, after this server's share of noise that was dealt for it; see `Ledger.seal`."""
        if noise is not None:
            self.openings.keep_noise(self.collection.digest, manifest.digest, noise)
        self.spool.bind_ledger()
        self.ledger.seal(manifest.digest, manifest.to_json(), ids)
        if noise is not None:
            known = {entry.manifest_digest for entry in self.ledger.releases()}
            self.openings.forget_noise_but_of(self.collection.digest, known)

    def record_answers(self, ids: Bytes, messages: Words) -> NDArray[np.bool_]:
        """Record in the ledger what this server is about to answer about proofs; return which answers it may give."""
        rows = np.concatenate([ids, np.ascontiguousarray(messages).view(np.uint8)], axis=1)
        hashes = np.ascontiguousarray(sha256_of_rows(Label.ANSWER.value, rows)[:, :8]).view("<u8")[:, 0]
        return self.ledger.record_answers(self.collection.digest, ids, hashes)

    def keep_refused(self, refused: Mapping[str, Bytes]) -> None:
        """Write down, for this server's operator alone, which reports were refused and why; print how many.

        The file is private: with a roster an id is a person's.
        """
        found = {cause: ids for cause, ids in refused.items() if len(ids)}
        for cause, ids in found.items():
            self.tell(f"refused, {cause}: {len(ids)} reports, see {self.refused_file.name}")
        lines = [f"{one.tobytes().hex()},{cause}\n" for cause, ids in found.items() for one in ids]
        content = "".join([_REFUSED_HEADING, *sorted(lines)]).encode()
        try:
            if found or self.refused_file.exists():
                write_private(self.refused_file, content)
        except OSError as error:
            raise InputError("folder", f"{self.refused_file} cannot be written: {error.strerror}") from error

    def check_values(self, ids: Bytes, seed: bytes) -> Words:
        """Return this server's check values of a batch under the seed that is recorded for the collection."""
        share = self.spool.share(ids)
        entries = math.prod(share.shape[1:])
        coefficients = draw_coefficients(seed, entries - 1)
        step = max(1, _CHECKED_AT_ONCE // (8 * entries))
        parts = [
            check_values(share.rows(first, min(step, len(ids) - first)).reshape(-1, entries), coefficients)
            for first in range(0, len(ids), step)
        ]
        return np.concatenate(parts)

    def transformed_share(self, manifest: Manifest, task: VerifiedTask, meter: Meter) -> Words:
        """Return this server's share of the noisy sums; `meter` measures how.

        Nothing is bound yet: a report that is damaged is noticed here, at the latest. The share is kept before any
        server binds its own, so that a report that is damaged afterwards stops nobody.
        """
        entry = self.ledger.find(manifest.digest)
        if entry is None:
            raise AlreadyReleased(
                "manifest", f"{manifest.digest.hex()} was replaced by one that another run has sealed"
            )
        self.openings.salt(manifest.digest, begun=entry.state is not State.SEALED)  # kept before anything is bound
        if entry.sums is not None:
            return entry.sums
        ids = self.ledger.batch(manifest.digest)
        share = summed_share(self.collection, task, self.number, self.spool.share(ids), ids)
        sums = None
        if self.spread is not None:
            work = SumTask(self.collection, self.number, self.spread.store, task.facts(), self.threads)
            with meter.phase("transform"):
                sums = sums_by_pieces(self.spread.cluster, work, ids)
        dealt = None
        if task.noise_is_dealt:
            shape = (task.sketch.rows, task.width)
            dealt = self.openings.noise(self.collection.digest, manifest.digest, shape)
        noisy = transform(task, share, dealt=dealt, threads=self.threads, phase=meter.phase, sums=sums)
        return self.ledger.keep_sums(manifest.digest, noisy)

    def bound_share(self, manifest: Manifest, sums: Words) -> Words:
        """Bind the reports to this manifest, durably, and return what may be sent: the same whenever it is asked."""
        return self.ledger.begin_opening(manifest.digest, sums)

    def save(self, opened: Release, certificate: Certificate) -> None:
        """Write the release file: for anyone who runs this server, and for anyone who asks it."""
        try:
            self.public.parent.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise InputError("folder", f"{self.public.parent} cannot be made: {error.strerror}") from error
        for path in (self.public, self.out):
            save(opened, certificate, path)

    def finish(self, manifest: Manifest) -> None:
        """Record that the release file is written."""
        # The share of noise is in the share of the sums, which the ledger holds.
        self.openings.forget_noise(self.collection.digest, manifest.digest)
        self.ledger.finish(manifest.digest)


@dataclasses.dataclass(frozen=True)
class Released:
    """The outcome of a release."""

    certificate: Certificate  # what all servers have signed; it is in the release file
    # what the run has cost each server until the file was written, as it says itself; nobody has signed that
    costs: tuple[RunStatistics, ...]
