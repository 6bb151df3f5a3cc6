"""Hold several collections of the same people, the epochs of a series, under one total budget.

The task file of each epoch has the table of its series: the total budget, and what each epoch may spend of it, fixed
before the first one. Every server checks in its own ledger, when it seals a manifest and again in the transaction that
binds reports to it, that no other collection has begun this epoch, that what was begun stays within the total, and that
the table and the servers are those that the ledger holds under this name (`require_epoch`).

Promised: all epochs that are ever opened, together, keep the total epsilon at delta for a person who replaces its rows
in all of them, if one server whose share every opening needs is honest and its ledger is kept (theorem series-epochs).
A failed run that is repeated spends nothing more. Not promised: anything about series of other names, of which no
ledger records that they ask the same people; or that a person is in one report of an epoch only.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from dpmpc.base.errors import AlreadyReleased, BudgetExceeded, GuaranteeError, InputError
from dpmpc.base.randomness import Label
from dpmpc.base.storage import canonical
from dpmpc.base.untrusted import printable
from dpmpc.linear.proving.joint import framed
from dpmpc.privacy.composition import Cost, composed_epsilon
from dpmpc.privacy.gaussian import epsilon_of_mu, mu_of_budget

MOST_EPOCHS = 1000
_NAME = re.compile(r"(?=.{1,100}\Z)[A-Za-z0-9]+(?:[ .-][A-Za-z0-9]+)*")
_ALIKE = str.maketrans("ilosz", "11052")
_MARGIN = 1e-9  # relative, of a share: an epoch plans for less, as machines round its guarantee differently
_FOR_SLACK = 1e-3  # of the total, for what discrete noise differs from continuous


class Series(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The place of a collection in a series; all but `epoch` is the same for all its epochs."""

    name: str  # for people, and for the ledgers: one table for all names that look alike
    epoch: int  # which one this is, from 1
    epochs: int  # how many there are
    epsilon: float  # what all together promise, at delta, to a person who replaces its rows in all of them
    delta: float
    share: tuple[float, ...]  # the mu of Gaussian differential privacy that each epoch may spend
    slack: float  # the most that the discrete noise of an epoch may differ from that, as a pure epsilon

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InputError(
                "series",
                f"name {printable(self.name[:40])!r}",
                "1 to 100 of the letters A to Z, a to z, digits and single blanks, points and hyphens between them",
                "others look alike. Name the first collection so; later ones may have any name",
            )
        if not 1 <= self.epoch <= self.epochs <= MOST_EPOCHS or len(self.share) != self.epochs:
            raise InputError(
                "series",
                f"epoch {self.epoch} of {self.epochs} with {len(self.share)} shares",
                f"1 <= epoch <= epochs <= {MOST_EPOCHS} and a share for each",
            )
        total = composed_epsilon([self.cost_of(epoch) for epoch in range(1, self.epochs + 1)], self.delta)
        if not total <= self.epsilon:
            raise GuaranteeError(
                "series",
                f"shares that together give epsilon {total:.6g} at delta {self.delta:g}",
                f"at most {self.epsilon:g}",
            )

    @classmethod
    def of(cls, name: str, epochs: int, epsilon: float, delta: float) -> Series:
        """Return the first epoch of a series whose epochs have equal shares."""
        if not 1 <= epochs <= MOST_EPOCHS:
            raise InputError("epochs", epochs, f"1 to {MOST_EPOCHS}")
        slack = epsilon * _FOR_SLACK / (4 * epochs)
        left = epsilon - 4 * epochs * slack
        mu = mu_of_budget(left, delta * math.exp(-2 * epochs * slack)) / math.sqrt(epochs)
        return cls(name, 1, epochs, epsilon, delta, (mu,) * epochs, slack)

    @property
    def skeleton(self) -> str:
        """The name as it looks at a glance: without case and separators, with one sign for those that look alike."""
        plain = re.sub(r"[ .-]", "", self.name.lower()).translate(_ALIKE)
        return plain.replace("rn", "m").replace("vv", "w").replace("c1", "d")

    @property
    def next(self) -> Series:
        """The place of the collection after this one."""
        if self.epoch == self.epochs:
            raise GuaranteeError("series", f"{self.name!r} has {self.epochs} epochs, and this was the last one")
        return msgspec.structs.replace(self, epoch=self.epoch + 1)

    @property
    def epsilon_of_epoch(self) -> float:
        """The epsilon, at the delta of the series, that the noise of this epoch is chosen for."""
        return epsilon_of_mu(self.share[self.epoch - 1] * (1 - _MARGIN), self.delta)

    @property
    def together(self) -> str:
        """Who is protected by the total, in a few words: anyone who takes part in all epochs."""
        return f"all {self.epochs} collections of this series together"

    def promise(self, guarantee: object) -> str:
        """Return the guarantee of this epoch in words, after what all epochs promise together, which is less."""
        return (
            f"({self.epsilon:g}, {self.delta:g})-differential privacy for each person, in {self.together}: epoch "
            f"{self.epoch} of {printable(self.name)!r}\nin this epoch alone: {guarantee}"
        )

    def cost_of(self, epoch: int) -> Cost:
        """Return what an epoch spends, whatever its guarantee is in the end."""
        return Cost(mu=self.share[epoch - 1], slack=self.slack)

    def require_share(self, guarantee: object) -> None:
        """Refuse a guarantee that costs more than the share of this epoch."""
        cost, share = Cost.of(guarantee), self.cost_of(self.epoch)
        if cost.rho or cost.epsilon or cost.delta:
            raise GuaranteeError("series", "noise of another law than the discrete Gaussian", "that one")
        if cost.mu > share.mu or cost.slack > share.slack:
            raise GuaranteeError(
                "series",
                f"epoch {self.epoch} costs mu {cost.mu:.6g} and slack {cost.slack:.3g}, at most its share "
                f"of {share.mu:.6g} and {share.slack:.3g} expected",
            )

    def identity(self, certificates: Sequence[str]) -> str:
        """Return the SHA-256 of the table and the servers, under which ledgers hold the series; hexadecimal."""
        table = msgspec.to_builtins(self) | {"epoch": 0}
        parts = [canonical(table), *(certificate.encode() for certificate in certificates)]
        return hashlib.sha256(framed(Label.SERIES, *parts)).hexdigest()


class Epoch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a manifest states of the series of its collection."""

    table: Series  # as in the task file
    series: str  # `Series.identity`
    earlier: dict[str, str]  # the digest of the manifest of each other epoch that was begun before, by its number


class Recorded(NamedTuple):
    """A release of a ledger."""

    manifest_digest: bytes
    manifest: str
    begun: bool


class _Parts(msgspec.Struct, frozen=True):
    """What is read here of a manifest."""

    collection: str = ""
    epoch: Epoch | None = None


_PARTS = msgspec.json.Decoder(_Parts)


def begun_epochs(series: str, releases: Iterable[Recorded]) -> dict[str, str]:
    """Return the digests of the manifests that were begun, by epoch."""
    digests = {}
    for release in releases:
        epoch = _epoch_in(release.manifest).epoch
        if release.begun and epoch is not None and epoch.series == series:
            digests[str(epoch.table.epoch)] = release.manifest_digest.hex()
    return dict(sorted(digests.items()))


def require_epoch(recorded: Recorded, releases: Sequence[Recorded]) -> list[bytes]:
    """Refuse a manifest that its series has no place for; return sealed ones that must be forgotten for it."""
    manifest = _epoch_in(recorded.manifest)
    epoch = manifest.epoch
    if epoch is None:
        return []
    table, forgotten, costs = epoch.table, [], [epoch.table.cost_of(epoch.table.epoch)]
    others = [release for release in releases if release.manifest_digest != recorded.manifest_digest]
    for release in others:
        other = _epoch_in(release.manifest).epoch
        if other is None or other.table.skeleton != table.skeleton:
            continue
        if not release.begun:
            if other.series != epoch.series or other.table.epoch == table.epoch:
                forgotten.append(release.manifest_digest)
            continue
        if other.series != epoch.series:
            raise GuaranteeError(
                "series",
                "another table, name or other servers than those that this ledger holds under the name "
                f"{printable(other.table.name)!r}: {epoch.series[:16]}...",
                f"{other.series[:16]}...",
            )
        if other.table.epoch == table.epoch:
            raise AlreadyReleased(
                "series",
                f"epoch {table.epoch} of {printable(table.name)!r} was begun by the manifest "
                f"{release.manifest_digest.hex()}; each epoch is opened once",
            )
        costs.append(table.cost_of(other.table.epoch))
    total = composed_epsilon(costs, table.delta)
    if not total <= table.epsilon:
        raise BudgetExceeded(
            "series",
            f"{len(costs)} epochs together give epsilon {total:.6g} at delta {table.delta:g}, at most "
            f"{table.epsilon:g} expected",
        )
    known = begun_epochs(epoch.series, others)
    if epoch.earlier != known:
        raise GuaranteeError(
            "series", f"a manifest that names {len(epoch.earlier)} earlier epochs", "those of this ledger", known
        )
    return forgotten


def _epoch_in(manifest: str) -> _Parts:
    if '"epoch"' not in manifest:  # in no series
        return _Parts()
    return _PARTS.decode(manifest)
