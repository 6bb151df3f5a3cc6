"""Which of several failures is the cause, where all parties of a run ended on one machine.

When one party breaks, the others lose it, or are lost themselves, and each tells its own story. The cause is, in this
order: a party that came to an end without telling why; one that blames itself; one that another has evidence against
(a wrong certificate, a bad frame, another task, a wrong share); one that kept others waiting; one whose link broke.

Not promised: to know which of two parties is wrong when each believes in an authority that the other does not know. The
message then names both.
"""

from __future__ import annotations

import dataclasses
import signal
from collections import Counter
from collections.abc import Sequence

from dpmpc import errors
from dpmpc.errors import DpmpcError, InputError, PartyLost, PartyMissing, ProtocolFailure
from dpmpc.network.settings import ErrorRecord, Outcome

_EVIDENCE = ("PartyImpersonated", "MalformedFrame", "BatchMismatch", "Equivocation", "InconsistentShares")
_BY_WEIGHT = (_EVIDENCE, ("PartyMissing",), ("PartyLost",))


@dataclasses.dataclass(frozen=True)
class Ending:
    """How the process of one party ended.

    Parameters
    ----------
    party : int
        Its number.
    status : int, optional
        Exit status, negative for a signal; None if the process never ran.
    outcome : Outcome, optional
        What it wrote down.
    stopped : bool
        Whether the launcher ended it.
    last_words : str
        The last line of its log.
    """

    party: int
    status: int | None
    outcome: Outcome | None = None
    stopped: bool = False
    last_words: str = ""


def root_cause(endings: Sequence[Ending]) -> DpmpcError | None:
    """Return the error to raise for a run, or None if every party succeeded."""
    for ending in endings:
        error = _unexplained(ending)
        if error is not None:
            return error
    accusations = {
        ending.party: ending.outcome.error
        for ending in endings
        if ending.outcome is not None and ending.outcome.error is not None
    }
    for party, record in accusations.items():
        if record.party == party:
            return _typed(record)
    for types in _BY_WEIGHT:
        weighty = {party: record for party, record in accusations.items() if record.type in types}
        if weighty:
            return _typed(_most_credible(weighty))
    stopped = [ending.party for ending in endings if ending.stopped]
    if stopped:
        names = ", ".join(f"party {party}" for party in stopped)
        return PartyMissing(f"{names} did not end in time", stopped[0])
    return None


def _unexplained(ending: Ending) -> ProtocolFailure | None:
    """Return the error of a party that ended by itself and left no outcome."""
    if ending.status is None:
        return PartyMissing(f"party {ending.party} was never started", ending.party)
    if ending.outcome is not None or ending.stopped:
        return None
    if ending.status < 0:
        how = f"was killed by {signal.Signals(-ending.status).name}"
    else:
        how = f"ended with status {ending.status} and no outcome: {ending.last_words}"
    return PartyLost(f"party {ending.party} {how}", ending.party)


def _most_credible(accusations: dict[int, ErrorRecord]) -> ErrorRecord:
    """Choose the party that most others accuse; who is accused too is heard only if nobody else accuses."""
    accused = {record.party for record in accusations.values()}
    unblemished = [record for party, record in accusations.items() if party not in accused]
    candidates = unblemished or list(accusations.values())
    guilty, _ = Counter(record.party for record in candidates).most_common(1)[0]
    return next(record for record in candidates if record.party == guilty)


def _typed(record: ErrorRecord) -> DpmpcError:
    kind = getattr(errors, record.type, None)
    if not isinstance(kind, type) or not issubclass(kind, DpmpcError):
        kind = ProtocolFailure
    if issubclass(kind, ProtocolFailure):
        return kind(record.message, record.party)
    if issubclass(kind, InputError):
        return kind(f"party {record.party}: {record.message}")
    return ProtocolFailure(record.message, record.party)
