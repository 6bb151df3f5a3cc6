"""Record a party's part in one agreement, so that a repetition reveals nothing more and lets nobody change its release.

A party that loses the others after it has sent its release may run again. With fresh noise the others would have two
releases of the same rows, and with every further repetition one more, whose mean has less and less noise. And a party
that has seen the others' releases, and then broken the run off, could fit its own to them. So the record in the party's
folder keeps, from before anything is sent,

- the agreement that the folder is for, and the party's coin, so that the parties' toss is the same again;
- how many comparisons of ids have begun: each tells a dishonest party one bit;
- the toss of the release, the release itself, noise included, and the nonce of the commitment to it;
- what every party has committed to, as this one first stored it, before its own release is shown.

Promised: a folder sends one release, the same bytes under the same commitment each time, to one agreement and one toss;
it shows it only to parties that stand by what they had committed to when it was first shown; whatever the record says
is on the disk before anything that depends on it is sent; two processes do not use a folder at the same time; a record
that is gone, while the release is there, or that was damaged is refused, and nothing replaces it. Not promised:
anything about another folder, or about one that was put back to an earlier state, from a backup for example. Whoever
prepares anew and runs on the same rows makes a release with noise of its own, and the budgets add up; the other
parties, who keep the earlier commitment, refuse it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from dpmpc.errors import InputError
from dpmpc.randomness import Label, Stream
from dpmpc.storage import HexDigest, PartyFolder, SealedRecord, require_first_commitments
from dpmpc.untrusted import LARGEST_MESSAGE, ReadError, printable

OWN_FILE, LOCK_FILE = "own-release.words", "record.lock"
SPENT_FILE = "spent"  # version 0.1: a release was sent and not kept
MOST_COMPARISONS = 10
NONCE_BYTES = 32


class ReleaseFields(SealedRecord, frozen=True, forbid_unknown_fields=True):
    """What the record of a party holds."""

    file: ClassVar[str] = "record.json"
    version: ClassVar[int] = 2
    called: ClassVar[str] = "the record of a party"
    beside: ClassVar[str] = OWN_FILE
    largest: ClassVar[int] = LARGEST_MESSAGE

    agreement: HexDigest  # digest of what the parties agreed on
    coin: HexDigest  # what this party puts into the toss, 64 hexadecimal digits
    comparisons: Annotated[int, msgspec.Meta(ge=0)] = 0  # how many comparisons of ids have begun
    # SHA-256 of the toss that the release was made under, and of the release, and the random bytes of the commitment to
    # it; None while there is none
    toss: HexDigest | None = None
    own: HexDigest | None = None
    nonce: HexDigest | None = None
    # by the number of a party: what it has committed to, hexadecimal. Empty until all have and this party knows it
    commitments: dict[str, HexDigest] = msgspec.field(default_factory=dict)
    checksum: str = ""  # SHA-256 of the other fields

    def content(self) -> bytes:
        """Return the bytes that the checksum is made of: the fields in their order here."""
        return msgspec.json.encode(self, order="deterministic")

    def require_sound(self) -> None:
        """Refuse a release without its toss or its nonce, and commitments without a release."""
        if len({self.toss is None, self.own is None, self.nonce is None}) > 1 or (
            self.commitments and self.own is None
        ):
            raise ReadError("fields that do not fit together")


class ReleaseRecord(PartyFolder):
    """The record of one folder, held by one process at a time."""

    def __init__(self, folder: Path, agreement: str, coin: bytes):
        refuse_spent(folder)
        super().__init__(folder, LOCK_FILE)
        try:
            found = ReleaseFields.read(folder)
            if found is not None and found.agreement != agreement:
                raise InputError(
                    f"folder: {folder.name!r} given, which was used for agreement "
                    f"{printable(found.agreement[:16])}..., {agreement[:16]}... expected: another release of the same "
                    "rows spends further budget"
                )
            self._fields = found or ReleaseFields(ReleaseFields.version, agreement, coin.hex())
            if found is None:
                self._fields.write(folder)
        except BaseException:
            self.close()
            raise

    @property
    def coin(self) -> bytes:
        """What this party puts into the toss, in each run the same."""
        return bytes.fromhex(self._fields.coin)

    def begin_comparison(self) -> None:
        """Count a comparison of ids, before anything of it is sent."""
        if self._fields.comparisons >= MOST_COMPARISONS:
            raise InputError(
                f"folder: {self._folder.name!r} given, in which {self._fields.comparisons} comparisons of ids have "
                f"begun, fewer than {MOST_COMPARISONS} expected: each tells a dishonest party whether its guess of all "
                "ids is right; find out why runs end early before you prepare anew"
            )
        self._change(comparisons=self._fields.comparisons + 1)

    def own_release(self, toss: bytes, shape: tuple[int, int]) -> NDArray[np.int64] | None:
        """Return the release that this folder has made, or None while it has made none."""
        if self._fields.own is None:
            return None
        if self._fields.toss != _toss_digest(toss):
            raise InputError(
                f"folder: {self._folder.name!r} given, which holds a release made under another toss: a party has "
                "changed its coin since; another release of the same rows spends further budget"
            )
        return self._load(OWN_FILE, self._fields.own, shape).view(np.int64)

    def keep(self, toss: bytes, own: NDArray[np.int64]) -> NDArray[np.int64]:
        """Store the release durably, before it is sent to anybody; return it."""
        if self._fields.own is not None:
            raise InputError(f"folder: {self._folder.name!r} given, which holds a release, an unused one expected")
        digest = self._store(OWN_FILE, own.view(np.uint64))
        nonce = Stream.from_os().bytes(NONCE_BYTES).hex()
        self._change(toss=_toss_digest(toss), own=digest, nonce=nonce)
        return own

    @property
    def nonce(self) -> bytes:
        """The random bytes of the commitment to the release, in each run the same."""
        if self._fields.nonce is None:
            raise InputError(f"folder: {self._folder.name!r} given, which holds no release, one that does expected")
        return bytes.fromhex(self._fields.nonce)

    def keep_commitments(self, commitments: Mapping[int, bytes]) -> None:
        """Store durably what all parties have committed to, or refuse what differs from what was stored before.

        It is called when all parties know the same commitments, and before this one shows its release. From then on
        somebody may know it, and the first commitments count for good.
        """
        kept = self._fields.commitments
        given = require_first_commitments(kept, commitments, "release")
        if not kept:
            self._change(commitments=given)

    def _change(self, **fields: Any) -> None:
        self._fields = msgspec.structs.replace(self._fields, **fields)
        self._fields.write(self._folder)


def refuse_spent(folder: Path) -> None:
    """Refuse a folder from which version 0.1 has sent a release, which it did not keep."""
    if (folder / SPENT_FILE).exists():
        raise InputError(
            f"folder: {folder.name!r} given, from which version 0.1 has sent a release that it did not keep: it cannot "
            "be sent again, and another one of the same rows spends further budget; prepare anew if you accept that"
        )


def _toss_digest(toss: bytes) -> str:
    return hashlib.sha256(Label.MIXING_TOSS.value + toss).hexdigest()
