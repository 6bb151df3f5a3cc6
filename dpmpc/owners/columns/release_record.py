"""Record a party's part in one agreement, so that a repetition reveals nothing more and lets nobody change its release.

A party that loses the others after it has sent its release may run again. With fresh noise the others would have two
releases of the same rows, and with every further repetition one more, whose mean has less and less noise. And a party
that has seen the others' releases, and then broken the run off, could fit its own to them. So the record in the party's
folder keeps (`dpmpc.base.storage.kept`), from before anything is sent,

- the agreement that the folder is for, and the party's coin, so that the parties' toss is the same again;
- how many comparisons of ids have begun: each reveals one bit to a dishonest party;
- the toss of the release, the release itself, noise included, and the nonce of the commitment to it;
- what every party has committed to, as this one first stored it, before its own release is shown.

Promised: a folder sends one release, the same bytes under the same commitment each time, to one agreement and one toss;
it shows it only to parties that stand by what they had committed to when it was first shown; whatever the record states
is on the disk before anything that depends on it is sent; two processes do not use a folder at the same time; what was
damaged is refused, and nothing replaces it. Not promised: anything about another folder, or about one whose file was
deleted or put back to an earlier state, from a backup for example. Anyone who prepares anew and runs on the same rows
makes a release with its own noise, and the budgets add up; the other parties, who keep the earlier commitment,
refuse it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from dpmpc.base.arrays import Integers
from dpmpc.base.errors import InputError
from dpmpc.base.randomness import Label, Stream
from dpmpc.base.storage.database import Store
from dpmpc.base.storage.kept import as_bytes, has_kept, keep_alone

MOST_COMPARISONS = 10
NONCE_BYTES = 32
_TOSS, _RELEASE, _NONCE = "digest of the toss", "release", "nonce"


class ReleaseRecord(Store):
    """The record of one folder, held by one process at a time."""

    def __init__(self, folder: Path, agreement: str, coin: bytes):
        self._folder, self._kept = folder, keep_alone(folder, agreement)
        try:
            self.coin = self._kept.once("coin", lambda: coin)  # for the toss, in each run the same
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let another process use the folder."""
        self._kept.close()

    def begin_comparison(self) -> None:
        """Count a comparison of ids, before anything of it is sent."""
        self._kept.count(
            "comparisons of ids",
            MOST_COMPARISONS,
            "each reveals to a dishonest party whether its guess of all ids is right; find out why runs end early "
            "before you prepare anew",
        )

    def own_release(self, toss: bytes, shape: tuple[int, int]) -> Integers | None:
        """Return the release that this folder has made, or None while it has made none."""
        made_under = self._kept.get(_TOSS)
        if made_under is None:
            return None
        if made_under != _toss_digest(toss):
            raise InputError(
                "folder",
                f"{self._folder.name!r} given, which holds a release made under another toss: a party has "
                "changed its coin since; another release of the same rows spends further budget",
            )
        return self._kept.words(_RELEASE, shape).view(np.int64)

    def keep(self, toss: bytes, own: Integers) -> Integers:
        """Store the release durably, before it is sent to any party; return it."""
        if self._kept.get(_TOSS) is not None:
            raise InputError("folder", f"{self._folder.name!r} given, which holds a release, an unused one expected")
        nonce = Stream.from_os().bytes(NONCE_BYTES)
        self._kept.put({_TOSS: _toss_digest(toss), _RELEASE: as_bytes(own.view(np.uint64)), _NONCE: nonce})
        return own

    @property
    def nonce(self) -> bytes:
        """The random bytes of the commitment to the release, in each run the same."""
        nonce = self._kept.get(_NONCE)
        if nonce is None:
            raise InputError("folder", f"{self._folder.name!r} given, which holds no release, one that does expected")
        return nonce

    def keep_commitments(self, commitments: Mapping[int, bytes]) -> None:
        """Store durably what all parties have committed to, or refuse what differs from what was stored before.

        It is called when all parties know the same commitments, and before this one shows its release. From then on
        a party may know it, and the first commitments count for good.
        """
        self._kept.first("release", commitments)


def has_sent(folder: Path) -> bool:
    """Return whether a folder has stored a release that others may have seen."""
    return has_kept(folder, _RELEASE)


def _toss_digest(toss: bytes) -> bytes:
    return hashlib.sha256(Label.MIXING_TOSS.value + toss).digest()
