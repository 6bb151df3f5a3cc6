"""Record an owner's part in the rounds of one fit, so that a repetition reveals nothing more.

An owner that loses the others in the middle of a round runs again. With fresh noise the others would have two sums of
the same rows, and with every repetition one more, whose mean has less noise; and an owner that asked for the same round
at other coefficients would have their difference. So the owner's folder keeps (`dpmpc.base.storage.kept`), from before
anything of a round is sent,

- the plan that the folder is for, and the task of each round, at its public coefficients;
- the shares of its own noisy sum, and once it has added up what others sent, its share of the sum of all;
- the nonce of the commitment to that, and what every owner has committed to, before it is shown.

A ledger (`dpmpc.privacy.BudgetLedger`) has each round's cost, from before the round is entered here.

Promised: a folder sends, of each round, the same bytes each time, for one plan and one task; whatever the record states
is on the disk before anything that depends on it is sent; two processes do not use a folder at the same time; what was
damaged is refused. Not promised: anything about a folder whose file was deleted or put back to an earlier state, which
the others notice by its commitments, or about another folder that is prepared for the same rows: there the budgets add
up, and one ledger for all folders (`--ledger`) is what counts them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from dpmpc.base.arrays import Words
from dpmpc.base.errors import InputError
from dpmpc.base.randomness import Stream
from dpmpc.base.storage import canonical
from dpmpc.base.storage.database import Store, typed_errors
from dpmpc.base.storage.kept import as_bytes, has_kept, keep_alone
from dpmpc.privacy import BudgetLedger
from dpmpc.privacy.task import Task

LEDGER_FILE = "ledger.json"
NONCE_BYTES = 32


class RoundsRecord(Store):
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
        If the folder is in use, or was used for another plan, or the ledger cannot be read.
    SpoolError
        If what the folder keeps was damaged.
    """

    def __init__(self, folder: Path, plan: str, ledger: Path, limit: tuple[float, float]):
        self._folder, self._plan, self._ledger_file, self._limit = folder, plan, ledger, limit
        self._kept = keep_alone(folder, plan)
        try:
            # Tells folders of one plan apart in the ledger.
            self._mark = self._kept.once("folder", lambda: Stream.from_os().bytes(NONCE_BYTES)).hex()
            self._refuse_forgotten(self._require_ledger())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let another process use the folder."""
        self._kept.close()

    def _require_ledger(self) -> BudgetLedger:
        """Return the ledger as it is now; other folders of this owner may enter rounds of theirs at any time."""
        return BudgetLedger.load(self._ledger_file) if self._ledger_file.exists() else BudgetLedger(*self._limit)

    def _refuse_forgotten(self, ledger: BudgetLedger) -> None:
        """Refuse a folder whose own ledger has rounds of this plan that its record does not hold."""
        others = f"data owners, plan {self._plan[:16]}, folder "
        if self._ledger_file.resolve().parent == self._folder.resolve() and any(
            entry.what.startswith(others) and not entry.what.startswith(others + self._mark[:16])
            for entry in ledger.entries
        ):
            raise InputError(
                "folder",
                f"{self._folder.name!r} given, whose ledger {self._ledger_file.name} has rounds of this "
                "plan that its record does not know: the record was removed, and what it has sent cannot "
                "be sent again. Whoever prepares anew answers about the same rows with other noise, which "
                "spends further budget",
            )

    def task(self, number: int) -> dict[str, Any] | None:
        """Return the public facts of a round that was begun, or None."""
        kept = self._kept.get(_task(number))
        return None if kept is None else msgspec.json.decode(kept, type=dict[str, Any])

    def require(self, number: int, task: Task) -> None:
        """Refuse another task for a round that was begun, a round out of turn, or one beyond the ledger's limit."""
        begun = sum(name.startswith(_task("")) for name in self._kept.names())
        if number > begun:
            raise InputError("round", number, begun, condition=f"next in folder {self._folder.name!r}")
        if self._kept.get(_task(number)) not in (None, canonical(task.to_dict())):
            raise InputError(
                "task",
                f"another given for round {number} than the one that this folder has answered, which would "
                "show the difference of two sums with the same noise",
            )
        ledger, what = self._require_ledger(), self._entry(number, task)
        if not _entered(ledger, what):
            ledger.spend(task.guarantee, what)  # nothing is written: before any owner has entered the round

    def shares(self, number: int, shape: tuple[int, ...]) -> Words | None:
        """Return the shares of the own noisy sum of a round, or None while there are none."""
        return None if self._kept.get(_shares(number)) is None else self._kept.words(_shares(number), shape)

    def keep_shares(self, number: int, task: Task, shares: Words) -> Words:
        """Enter a round in the ledger, then store its shares durably, before they are sent to any owner.

        If the ledger's limit would be exceeded nothing is stored.
        """
        self.require(number, task)
        if self._kept.get(_task(number)) is not None:
            raise InputError("round", f"{number} given, which has its shares, {number + 1} expected")
        what = self._entry(number, task)
        if not _entered(self._require_ledger(), what):  # else it was entered before a crash
            with typed_errors(self._ledger_file):
                BudgetLedger.spend_in(self._ledger_file, task.guarantee, what, limit=self._limit)
        self._kept.put(
            {
                _task(number): canonical(task.to_dict()),
                _shares(number): as_bytes(shares),
                _nonce(number): Stream.from_os().bytes(NONCE_BYTES),
            }
        )
        return shares

    def _entry(self, number: int, task: Task) -> str:
        """Return what a ledger calls a round of this folder."""
        where = f"plan {self._plan[:16]}, folder {self._mark[:16]}"
        return f"data owners, {where}, round {number}, task {task.digest.hex()[:16]}"

    def opened(self, number: int, shape: tuple[int, ...]) -> Words | None:
        """Return the own share of the sum of all, or None while it is not known."""
        return None if self._kept.get(_sum(number)) is None else self._kept.words(_sum(number), shape)

    def keep_opened(self, number: int, share: Words) -> Words:
        """Store the own share of the sum of all durably, before any owner receives it; the first one counts."""
        return self._kept.words(_sum(number), share.shape, lambda: share)

    def nonce(self, number: int) -> bytes:
        """Return the random bytes of the commitment, in each run the same."""
        nonce = self._kept.get(_nonce(number))
        if nonce is None:
            raise InputError("round", number, "one whose shares this folder has kept")
        return nonce

    def keep_commitments(self, number: int, commitments: Mapping[int, bytes]) -> None:
        """Store durably what all owners have committed to, or refuse what differs from what was stored before."""
        self._kept.first(f"share of round {number}", commitments)


def has_sent(folder: Path) -> bool:
    """Return whether a folder has stored shares that others may have seen."""
    return has_kept(folder, _shares(0))


def _entered(ledger: BudgetLedger, what: str) -> bool:
    return any(entry.what == what for entry in ledger.entries)


def _task(number: int | str) -> str:
    return f"task of round {number}"


def _shares(number: int) -> str:
    return f"shares of round {number}"


def _nonce(number: int) -> str:
    return f"nonce of round {number}"


def _sum(number: int) -> str:
    """Return the name of the own share of the sum of all."""
    return f"share of the sum of round {number}"
