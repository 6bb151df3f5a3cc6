"""The native path: `dpmpc.mpyc.sketch` in programs of MPyC's own, started as MPyC's users start them."""

import json
import re

import pytest

from dpmpc.datasets import DEMO_FEATURES
from support.mpyc_launcher import MPYC_PROGRAMS, PROTOCOLS, by_hand, by_launcher

PROGRAM = PROTOCOLS / "native_transform.py"
SMALL = ("--clients", 20_000, "--epsilon", 4, "--rows", 16)


@pytest.mark.parametrize(("parties", "options", "threshold"), [(3, ["--no-log"], 1), (5, ["-T2", "--no-log"], 2)])
def test_secure_sketches_are_those_of_apply(parties, options, threshold):
    """Every family, whole and in parts, words and floats, copies, and arrays that MPyC's own input has made."""
    done = by_launcher(MPYC_PROGRAMS / "known_answers.py", *options, parties=parties)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["parties"], found["threshold"], len(found["answers"])) == (parties, threshold, parties)
    for answers in found["answers"]:
        assert len(answers) == 33
        assert all(answers.values()), [name for name, right in answers.items() if not right]


def test_what_cannot_be_sketched_is_refused_and_says_what_to_call():
    done = by_launcher(MPYC_PROGRAMS / "refusals.py", "--no-log", parties=1)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert "a secure object of MPyC, given" in found["at"]
    assert "call S.apply(x), after 'import dpmpc.mpyc'" in found["at"]
    assert found["apply"] == [4, 2]
    assert found["plain"].startswith("x: ndarray given, a secure array of MPyC's SecFld(q), SecInt(l, p=q) or")
    assert found["field"].startswith("x: a secure array over a field of 2^8 given")
    assert "18 bits given, at least 19 expected: sums of 8 numbers of 16 bits" in found["narrow"]
    assert "over the field and with the fractional bits of x" in found["other field"]
    assert "would wrap around" in found["wraps"]
    assert "of elements of SecFld(2^61 - 1) expected" in found["encoded"]
    assert found["alone"].startswith("-M, -T: 1 parties of whom 0 may collude given, at least 3 and 1 expected")
    assert found["shape"].startswith("X: shape (8,) given")
    assert "clients below 8 expected" in found["clients"]
    assert "encoding: None given" in found["floats"]
    assert "FixedPoint(f, 'mersenne61') expected" in found["ring"]
    assert "a number below 2305843009213693951 expected" in found["words"]
    assert found["both"] == "values: uint64 given, float64 expected"


def read(text):
    """Coefficients by name, the bytes that each party sent, and the rest."""
    coefficients = {name: float(value) for name, value in re.findall(r"^  (\w+) +(-?[\d.]+)", text, re.MULTILINE)}
    rows = re.findall(r"^ +(\d+) +(?:[\d.]+ +){5}([\d,]+)$", text, re.MULTILINE)
    return coefficients, {int(party): int(sent.replace(",", "")) for party, sent in rows}


@pytest.mark.parametrize(
    ("parties", "options"),
    [
        pytest.param(3, [], id="opened"),
        pytest.param(3, ["--closed"], id="closed"),
        pytest.param(5, ["-T2", "--no-prss"], id="five", marks=pytest.mark.long("five interpreters start and talk")),
    ],
)
def test_the_program_runs_by_the_launcher_of_mpyc(parties, options):
    clear = (*SMALL[:2], "--epsilon", 20, "--rows", 64)
    done = by_launcher(PROGRAM, *clear, "--no-log", *options, parties=parties)
    assert done.returncode == 0, done.stderr
    coefficients, sent = read(done.stdout)
    assert tuple(coefficients) == (*DEMO_FEATURES, "intercept")
    assert coefficients["schooling_years"] == pytest.approx(3.0, abs=2.5)  # its standard deviation is about .3
    assert sorted(sent) == list(range(parties))
    assert min(sent.values()) > 8 * (parties - 1) * 6 * (20_000 // parties)  # its input, to each of the others
    for words in (
        "(20, 1e-07)-differential privacy",
        "follow the protocol (semi-honest)",
        "an altered share goes unnoticed",
    ):
        assert words in done.stdout


def test_parties_are_started_by_hand():
    """In shells of their own, with everybody's address: all see the same answer and each other's bytes."""
    ended = by_hand(PROGRAM, *SMALL, "--no-log")
    assert [done.returncode for done in ended] == [0, 0, 0], [done.stderr for done in ended]
    assert len({done.stdout for done in ended}) == 1


@pytest.mark.parametrize("options", [[], ["-T0"]])
def test_too_few_parties_keep_no_secret(options):
    done = by_launcher(PROGRAM, *SMALL, "--no-log", *options, parties=3 if options else 2)
    assert (done.returncode, done.stdout) == (2, "")
    assert "at least 3 and 1 expected" in done.stderr
