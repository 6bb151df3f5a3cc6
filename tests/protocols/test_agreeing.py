"""`dpmpc.parties.mpyc.agreeing`: parties of a program on MPyC's runtime compare facts and toss coins."""

import json

import pytest

from dpmpc.data import Schema
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning import design
from support.mpyc_launcher import MPYC_PROGRAMS, by_hand, by_launcher
from support.rejections import rejects

PROGRAM = MPYC_PROGRAMS / "agreeing_program.py"


def test_parties_agree_on_facts_and_coins():
    runs = [json.loads(by_launcher(PROGRAM, "nothing", "--no-log", parties=3).stdout) for _ in range(2)]
    for of_parties in runs:
        assert len(of_parties) == 3
        assert len({tuple(one) for one in of_parties}) == 1
    assert not set(runs[0][0]) & set(runs[1][0])  # session, coins and task are those of one run
    assert len(set(runs[0][0])) == 4


@pytest.mark.parametrize(
    ("deed", "words"),
    [
        ("another fact", "BatchMismatch: analyst: party {other} gave another than {own}, which is given here"),
        ("another coin", "coin for matrix: party 1 showed another than it committed to"),
    ],
)
def test_a_party_that_differs_is_named(deed, words):
    done = by_hand(PROGRAM, deed, "--no-log", parties=2)
    assert done[0].returncode != 0
    assert words.format(own=0, other=1) in done[0].stderr
    if deed == "another fact":
        assert words.format(own=1, other=0) in done[1].stderr


def test_a_matrix_follows_from_the_seed_that_is_given():
    spec = ReleaseSpec.of(Schema.unit(["x", "y"]), 5000, 1.0, 1e-6, sketch="osnap", rows=16)
    first, again, other = (design(spec, matrix_seed=bytes([seed]) * 32) for seed in (1, 1, 2))
    assert first.digest == again.digest != other.digest
    assert not first.simulation
    with rejects("matrix_seed"):
        design(spec, matrix_seed=bytes(31))
