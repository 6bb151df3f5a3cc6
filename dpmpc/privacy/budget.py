"""A ledger of what was released about the same people, and of the privacy that this costs altogether.

Promised: the ledger never holds more than its limit, by `dpmpc.privacy.composition`; a saved ledger never replaces
spending that it has not read. It refuses a second opening of the same reports where clients made the noise: that noise
is part of the reports, so that two sketches of them, or two releases that differ by one client, have it in common and
subtract to nearly raw data, whatever composition gives. No release states whether its reports are those of another one.
So from the second such release on, the ledger takes a name for the reports of each (`reports` of `spend`), and reports
without a name count as the same as any others. Where the servers make the noise it is fresh in each opening, and
budgets add up.

Processes that save one file at the same moment take turns, and the later one is refused; `BudgetLedger.spend_in`
reads, spends and saves in one turn.

Not promised: that reports of two names were made anew; that everything that was released was entered. A release that is
merely read again costs nothing and is not entered. What the ledger states holds under the assumptions of all its
releases together.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any, ClassVar

from dpmpc.base.errors import BudgetExceeded, GuaranteeError, InputError
from dpmpc.base.storage import Record
from dpmpc.base.storage.files import locked, whole
from dpmpc.base.untrusted import ReadError, printable, read_bytes, read_json
from dpmpc.privacy.composition import Cost, composed_epsilon
from dpmpc.privacy.gaussian import check_budget
from dpmpc.privacy.guarantee import Guarantee

LARGEST_LEDGER = 1 << 24  # bytes of its file: some 100,000 releases
_FORMAT = "dpmpc budget 2"
_UNNAMED = ""
_WRITTEN = 1 + 2.0**-50  # what decimal numbers may be off by as floats


class Spending(Record, frozen=True):
    """One release in a ledger."""

    what: str  # in the user's words
    cost: Cost  # what it costs
    simulation: bool = False  # true if its guarantee says that nobody is protected
    # the reports that were opened, where clients made the noise in them: a name, or "" for none. None where the noise
    # is fresh in each opening, or not known
    reports: str | None = None


class _File(Record, frozen=True):
    """What the file of a ledger states."""

    called: ClassVar[str] = "ledger"
    format: str
    epsilon: float
    delta: float
    entries: tuple[Spending, ...]


class BudgetLedger:
    """What several releases about the same people cost together, within a limit.

    Parameters
    ----------
    epsilon, delta : float
        The limit: all releases together are to be (epsilon, delta)-differentially private, for one person's row
        replaced. delta = 0 admits pure releases only. epsilon may be exceeded by a relative 2^-50, which is what
        decimal numbers are off by as floats: ten times 0.1 is within 1.

    Attributes
    ----------
    entries : list of Spending
        What was released, oldest first.
    """

    def __init__(self, epsilon: float, delta: float):
        check_budget(epsilon, delta, pure=True)
        self.limit = float(epsilon)
        self.delta = float(delta)
        self.entries: list[Spending] = []
        self._kept: bytes | None = None  # what was in the file when it was last read or written here

    @property
    def epsilon(self) -> float:
        """What is spent: epsilon of all entries together at the limit's delta."""
        return composed_epsilon([entry.cost for entry in self.entries], self.delta)

    def epsilon_with(self, release: Any) -> float:
        """Return what would be spent with one more release, given its guarantee; spend nothing."""
        return composed_epsilon([*(entry.cost for entry in self.entries), Cost.of(release)], self.delta)

    def spend(self, release: Any, what: str, reports: str | None = None) -> None:
        """Enter a release before it is published.

        Parameters
        ----------
        release : Release, Guarantee, Cost or (epsilon, delta)
            See `Cost.of`; ``Cost(mu=...)`` and ``Cost(rho=...)`` stand for Gaussian and for zCDP mechanisms.
        what : str
            What is released.
        reports : str, optional
            Where clients made the noise, a name for the reports that were opened, such as a collection's digest.
            Reports that were made anew, with fresh noise, have another name.

        Raises
        ------
        BudgetExceeded
            If the limit would be exceeded; nothing is entered then.
        GuaranteeError
            If clients made the noise and reports without a name or of the same name were opened before.
        """
        promise = getattr(release, "guarantee", release)
        name = _reports_of(promise, reports)
        self._require_new(name, what)
        total = self.epsilon_with(release)
        if not total <= self.limit * _WRITTEN:
            together = f"{total:.6g}" if math.isfinite(total) else "no finite epsilon"
            raise BudgetExceeded(
                "epsilon",
                f"{what} with the {len(self.entries)} releases before it costs {together} at delta = "
                f"{self.delta:g}, at most {self.limit:g} expected; {self.epsilon:.6g} is spent",
            )
        self.entries.append(Spending(what, Cost.of(release), bool(getattr(promise, "simulation", False)), name))

    def _require_new(self, name: str | None, what: str) -> None:
        """Refuse reports that were opened before, or may have been."""
        if name is None:
            return
        for entry in self.entries:
            if entry.reports is not None and (name in (entry.reports, _UNNAMED) or entry.reports == _UNNAMED):
                raise GuaranteeError(
                    "reports",
                    f"{name or 'none'!r} given for {what}, other ones than {entry.reports or 'those'!r} of "
                    f"{entry.what} expected: clients made the noise in them once, and two openings of the "
                    "same reports subtract to nearly raw data. Open reports that were made anew, and name "
                    "both; or have servers make the noise",
                )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the ledger to a JSON file, whole or not at all, and so that it outlasts a loss of power.

        Publish a release after its spending was saved: a save is refused if another process has spent meanwhile.

        Raises
        ------
        InputError
            If the file is there and is not what this ledger has loaded or saved last.
        """
        target = _file_of(path)
        with locked(target):
            if target.exists() and target.read_bytes() != self._kept:
                raise InputError(
                    "path",
                    f"{os.fspath(path)} given, which holds what this ledger has not read, its own last "
                    "state or a new file expected: load it and spend again",
                )
            self._write(target)

    def _write(self, target: Path) -> None:
        """Write the file, whose lock the caller holds."""
        content = _File(_FORMAT, self.limit, self.delta, tuple(self.entries))
        text = (json.dumps(content.to_dict(), indent=2) + "\n").encode()
        with whole(target) as file:
            file.write(text)
        self._kept = text

    @classmethod
    def spend_in(
        cls,
        path: str | os.PathLike[str],
        release: Any,
        what: str,
        reports: str | None = None,
        *,
        limit: tuple[float, float] | None = None,
    ) -> BudgetLedger:
        """Enter a release in the ledger of a file, before it is published; processes that do so take turns.

        Parameters
        ----------
        path : path
            The file.
        release, what, reports
            As in `spend`.
        limit : (epsilon, delta), optional
            Of a new ledger, where there is no file yet.

        Returns
        -------
        BudgetLedger
            As it is in the file now.

        Raises
        ------
        InputError, GuaranteeError
            As `load` and `spend` do; the file is then as it was.
        """
        target = _file_of(path)
        with locked(target):
            ledger = cls(*limit) if limit is not None and not target.exists() else cls.load(target)
            ledger.spend(release, what, reports)
            ledger._write(target)
        return ledger

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> BudgetLedger:
        """Read a ledger; what is spent is computed anew.

        Raises
        ------
        InputError
            If the file is not a ledger.
        BudgetExceeded
            If its entries cost more than its limit.
        """
        where = os.fspath(path)
        try:
            kept = read_bytes(path, largest=LARGEST_LEDGER)
            content = _File.from_dict(read_json(kept, dict, largest=LARGEST_LEDGER))
            if content.format != _FORMAT:
                raise InputError("format", f"{content.format!r}", f"{_FORMAT!r}", condition="in this version")
            ledger = cls(content.epsilon, content.delta)
            ledger.entries = list(content.entries)
            ledger._kept = kept
        except OSError as error:
            raise InputError("path", f"{where} cannot be read: {error.strerror}") from error
        except (InputError, ReadError) as error:
            raise InputError("path", f"{where} is not a ledger ({error})") from error
        if not ledger.epsilon <= ledger.limit * _WRITTEN:
            raise BudgetExceeded(
                "path",
                f"{where} holds releases that cost {ledger.epsilon:.6g} at delta = {ledger.delta:g}, at most "
                f"{ledger.limit:g} expected",
            )
        return ledger

    def __str__(self) -> str:
        """Return what is spent, and what each release costs alone."""
        lines = [repr(self).strip("<>")]
        for entry in self.entries:
            alone = composed_epsilon([entry.cost], self.delta)
            lines.append(f"  {printable(entry.what)}: epsilon = {alone:.6g} alone{', SIMULATION' * entry.simulation}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        simulation = ", SIMULATION" if any(entry.simulation for entry in self.entries) else ""
        return (
            f"<BudgetLedger: epsilon = {self.epsilon:.6g} of {self.limit:g} spent at delta = {self.delta:g} by "
            f"{len(self.entries)} releases{simulation}>"
        )


def _file_of(path: str | os.PathLike[str]) -> Path:
    """Return the file that a path leads to: a link is another name of one ledger, and not replaced by a second one."""
    target = Path(os.path.realpath(path))
    if Path(path).is_symlink() and not target.exists():
        raise InputError("path", os.fspath(path), f"a link to {target}, which is not there, a file")
    return target


def _reports_of(promise: Any, reports: str | None) -> str | None:
    """Return the name of the reports that were opened, None where noise is fresh in each opening."""
    if reports is not None and (not isinstance(reports, str) or not reports.strip()):
        raise InputError("reports", f"{reports!r}", "a name")
    name = None if reports is None else reports.strip()
    if not isinstance(promise, Guarantee):
        return name  # nobody knows who made the noise: a name that is given counts
    return None if promise.composes else name or _UNNAMED
