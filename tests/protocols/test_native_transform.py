"""The native path: `dpmpc.parties.sketch` in programs of MPyC's own, started as MPyC's users start them."""

import json

import pytest

from support.mpyc_launcher import MPYC_PROGRAMS, by_launcher


@pytest.mark.parametrize(("parties", "options", "threshold"), [(3, ["--no-log"], 1), (5, ["-T2", "--no-log"], 2)])
def test_secure_sketches_are_those_of_apply(parties, options, threshold):
    """Every family, whole and in parts, copies, and arrays that MPyC's own input has made."""
    done = by_launcher(MPYC_PROGRAMS / "known_answers.py", *options, parties=parties)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["parties"], found["threshold"], len(found["answers"])) == (parties, threshold, parties)
    for answers in found["answers"]:
        assert len(answers) == 28
        assert all(answers.values()), [name for name, right in answers.items() if not right]


def test_what_cannot_be_sketched_is_refused_and_says_what_to_call():
    done = by_launcher(MPYC_PROGRAMS / "refusals.py", "--no-log", parties=1)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert "a secure object of MPyC, given" in found["at"]
    assert "call S.apply(x), after 'import dpmpc.parties.mpyc'" in found["at"]
    assert found["apply"] == [4, 2]
    assert found["plain"].startswith("x: ndarray given, a secure array of MPyC's SecFld(q), SecInt(l, p=q) or")
    assert found["field"].startswith("x: a secure array over a field of 2^8 given")
    assert "18 bits given, at least 19 expected: sums of 8 numbers of 16 bits" in found["narrow"]
    assert "over the field and with the fractional bits of x" in found["other field"]
    assert "would wrap around" in found["wraps"]
    assert found["alone"].startswith("-M, -T: 1 parties of whom 0 may collude given, at least 3 and 1 expected")
    assert found["shape"].startswith("X: shape (8,) given")
    assert "clients below 8 expected" in found["clients"]
