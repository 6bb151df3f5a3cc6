"""Record an owner's part in the rounds of one fit, so that a repetition reveals nothing more.

An owner that loses the others in the middle of a round runs again. With fresh noise the others would have two sums of
the same rows, and with every repetition one more, whose mean has less noise; and an owner that asked for the same round
at other coefficients would have their difference. So the owner's folder keeps, from before anything of a round is sent,

- the plan that the folder is for, and the task of each round, at its public coefficients;
- the shares of its own noisy sum, and once it has added up what others sent, its share of the sum of all;
- the nonce of the commitment to that, and what everybody has committed to, before it is shown.

A ledger (`dpmpc.privacy.BudgetLedger`) has each round's cost, from before the round is entered here.

Promised: a folder sends, of each round, the same bytes each time, for one plan and one task; whatever the record says
is on the disk before anything that depends on it is sent; two processes do not use a folder at the same time; a record
that was damaged, or does not fit its files, is refused. Not promised: anything about a folder that was put back to an
earlier state, or about another folder that is prepared for the same rows: there the budgets add up, and one ledger for
all folders (`--ledger`) is what counts them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from dpmpc.errors import InputError
from dpmpc.privacy import BudgetLedger
from dpmpc.randomness import Stream
from dpmpc.storage import HexDigest, PartyFolder, SealedRecord, canonical, require_first_commitments
from dpmpc.task import Task

LOCK_FILE, LEDGER_FILE = "rounds.lock", "ledger.json"
NONCE_BYTES = 32


class RoundEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is kept of one round."""

    task: dict[str, Any]  # the public facts
    shares: HexDigest  # SHA-256 of the shares of the owner's noisy sum
    nonce: HexDigest  # random bytes of the commitment to the owner's share of the sum
    opened: HexDigest | None = None  # SHA-256 of that share; None before it is known
    commitments: dict[str, HexDigest] = {}  # by the number of an owner: what it has committed to. Empty until all have


def _file(number: int, what: str) -> str:
    return f"round-{number}-{what}.words"


class RoundsFields(SealedRecord, frozen=True, forbid_unknown_fields=True):
    """What the record of an owner holds; `folder` tells folders of one plan apart."""

    file: ClassVar[str] = "rounds.json"
    version: ClassVar[int] = 2
    called: ClassVar[str] = "the record of an owner"
    beside: ClassVar[str] = _file(0, "shares")
    largest: ClassVar[int] = 1 << 26

    plan: HexDigest
    folder: HexDigest
    rounds: list[RoundEntry] = msgspec.field(default_factory=list)
    checksum: str = ""


class RoundsRecord(PartyFolder):
    """The record of one folder, held by one process at a time.

    Parameters
    ----------
    folder : Path
        The owner's private folder.
    plan : str
        Digest of what the owners agreed on.
    ledger : Path
        The file of the owner's ledger; a new one gets the limit that follows.
    limit : pair of float
        Epsilon and delta.

    Raises
    ------
    InputError
        If the folder is in use or was used for another plan, or holds a record or a ledger that cannot be read.
    """

    def __init__(self, folder: Path, plan: str, ledger: Path, limit: tuple[float, float]):
        super().__init__(folder, LOCK_FILE)
        self._ledger_file = ledger
        try:
            found = RoundsFields.read(folder)
            if found is not None and found.plan != plan:
                raise InputError(
                    f"folder: {folder.name!r} given, which was used for plan {found.plan[:16]}..., {plan[:16]}... "
                    "expected: other rounds on the same rows spend further budget"
                )
            self._fields = found or RoundsFields(RoundsFields.version, plan, Stream.from_os().bytes(NONCE_BYTES).hex())
            self._limit = limit
            self._require_ledger()
            if found is None:
                self._fields.write(folder)
        except BaseException:
            self.close()
            raise

    def _require_ledger(self) -> BudgetLedger:
        """Return the ledger as it is now; other folders of this owner may enter rounds of theirs at any time."""
        return BudgetLedger.load(self._ledger_file) if self._ledger_file.exists() else BudgetLedger(*self._limit)

    def task(self, number: int) -> dict[str, Any] | None:
        """Return the public facts of a round that was begun, or None."""
        return self._fields.rounds[number].task if number < len(self._fields.rounds) else None

    def require(self, number: int, task: Task) -> None:
        """Refuse another task for a round that was begun, or a round out of turn.

        Raises
        ------
        InputError
            If it is another.
        """
        if number > len(self._fields.rounds):
            raise InputError(f"round: {number} given, {len(self._fields.rounds)} expected next in this folder")
        kept = self.task(number)
        if kept is not None and canonical(kept) != canonical(task.to_dict()):
            raise InputError(
                f"task: another given for round {number} than the one that this folder has answered, which would show "
                "the difference of two sums with the same noise"
            )

    def shares(self, number: int, shape: tuple[int, ...]) -> NDArray[np.uint64] | None:
        """Return the shares of the own noisy sum of a round, or None while there are none."""
        if number >= len(self._fields.rounds):
            return None
        return self._load(_file(number, "shares"), self._fields.rounds[number].shares, shape)

    def keep_shares(self, number: int, task: Task, shares: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Enter a round in the ledger, then store its shares durably, before they are sent to anybody.

        Raises
        ------
        GuaranteeError
            If the ledger's limit would be exceeded; nothing is stored then.
        """
        self.require(number, task)
        if number != len(self._fields.rounds):
            raise InputError(f"round: {number} given, which has its shares, {len(self._fields.rounds)} expected")
        where = f"plan {self._fields.plan[:16]}, folder {self._fields.folder[:16]}"
        what = f"data owners, {where}, round {number}, task {task.digest.hex()[:16]}"
        if all(entry.what != what for entry in self._require_ledger().entries):  # else it was entered before a crash
            BudgetLedger.spend_in(self._ledger_file, task.guarantee, what, limit=self._limit)
        digest = self._store(_file(number, "shares"), shares)
        entry = RoundEntry(task.to_dict(), digest, Stream.from_os().bytes(NONCE_BYTES).hex())
        self._replace([*self._fields.rounds, entry])
        return shares

    def opened(self, number: int, shape: tuple[int, ...]) -> NDArray[np.uint64] | None:
        """Return the own share of the sum of all, or None while it is not known."""
        digest = self._fields.rounds[number].opened
        return None if digest is None else self._load(_file(number, "opened"), digest, shape)

    def keep_opened(self, number: int, share: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Store the own share of the sum of all durably, before anybody is told of it."""
        digest = self._store(_file(number, "opened"), share)
        self._change(number, opened=digest)
        return share

    def nonce(self, number: int) -> bytes:
        """Return the random bytes of the commitment, in each run the same."""
        return bytes.fromhex(self._fields.rounds[number].nonce)

    def keep_commitments(self, number: int, commitments: Mapping[int, bytes]) -> None:
        """Store durably what all owners have committed to, or refuse what differs from what was stored before.

        Raises
        ------
        BatchMismatch
            With the owner that commits to another share now.
        """
        kept = self._fields.rounds[number].commitments
        given = require_first_commitments(kept, commitments, f"share of round {number}")
        if not kept:
            self._change(number, commitments=given)

    def _change(self, number: int, **fields: Any) -> None:
        rounds = list(self._fields.rounds)
        rounds[number] = msgspec.structs.replace(rounds[number], **fields)
        self._replace(rounds)

    def _replace(self, rounds: list[RoundEntry]) -> None:
        self._fields = msgspec.structs.replace(self._fields, rounds=rounds)
        self._fields.write(self._folder)
