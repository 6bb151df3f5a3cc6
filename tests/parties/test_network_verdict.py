"""Of several failures, the cause is named: every case here was, or would be, told wrongly by the loudest party."""

import pytest

from dpmpc.base.errors import (
    BatchMismatch,
    GuaranteeError,
    InconsistentShares,
    MalformedFrame,
    PartyImpersonated,
    PartyLost,
    PartyMissing,
    ProtocolFailure,
)
from dpmpc.parties.network.processes import Ending, root_cause
from dpmpc.parties.network.settings import ErrorRecord, Outcome


def blames(party, error, accused):
    record = ErrorRecord(error.__name__, f"about party {accused}", accused)
    return Ending(party, 3, Outcome(party, ok=False, error=record))


def succeeds(party):
    return Ending(party, 0, Outcome(party, ok=True))


def stopped(party):
    return Ending(party, -15, stopped=True)


def test_success():
    assert root_cause([succeeds(0), succeeds(1), succeeds(2)]) is None


@pytest.mark.parametrize(
    ("endings", "error", "party"),
    [
        ([blames(0, PartyLost, 1), Ending(1, -9), blames(2, PartyLost, 0)], PartyLost, 1),
        ([blames(0, PartyMissing, 2), blames(1, PartyMissing, 2), Ending(2, None)], PartyMissing, 2),
        ([blames(0, PartyLost, 2), Ending(1, 1, last_words="MemoryError"), blames(2, PartyLost, 1)], PartyLost, 1),
        ([blames(0, PartyMissing, 1), stopped(1), blames(2, PartyLost, 0), blames(3, PartyLost, 0)], PartyMissing, 1),
        ([blames(0, PartyLost, 3), blames(1, PartyLost, 3), blames(3, MalformedFrame, 1)], MalformedFrame, 1),
        ([blames(0, PartyLost, 3), blames(1, PartyLost, 3), blames(3, InconsistentShares, 1)], InconsistentShares, 1),
        ([blames(0, PartyLost, 2), blames(1, ProtocolFailure, 1), blames(2, PartyLost, 1)], ProtocolFailure, 1),
        ([blames(0, PartyImpersonated, 1), blames(1, PartyImpersonated, 2), stopped(2)], PartyImpersonated, 1),
        ([blames(0, PartyLost, 1), blames(1, PartyImpersonated, 0), stopped(2)], PartyImpersonated, 0),
        ([blames(0, BatchMismatch, 2), blames(1, BatchMismatch, 2), blames(2, BatchMismatch, 0)], BatchMismatch, 2),
        ([succeeds(0), stopped(1), succeeds(2)], PartyMissing, 1),
    ],
    ids=[
        "killed", "never started", "ended without a word", "silent", "bad frame", "wrong share", "blames itself",
        "wrong authority", "impersonator complains too", "odd task out", "time is up",
    ],
)  # fmt: skip
def test_the_cause_is_named(endings, error, party):
    verdict = root_cause(endings)
    assert type(verdict) is error
    assert isinstance(verdict, ProtocolFailure)
    assert verdict.party == party
    assert f"party {party}" in str(verdict)


def test_bad_input_stays_bad_input():
    record = ErrorRecord("GuaranteeError", "epsilon: 0 given", 1)
    verdict = root_cause([blames(0, PartyLost, 1), Ending(1, 2, Outcome(1, ok=False, error=record))])
    assert type(verdict) is GuaranteeError
    assert str(verdict) == "party 1: epsilon: 0 given"
