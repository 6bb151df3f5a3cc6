"""`parties.mpyc.secret_arrays` in programs of MPyC's own: what parties open is what NumPy computes in the clear."""

import json

import pytest

from dpmpc.base.errors import PartyLost
from dpmpc.parties.network.programs import Agreement, here
from support.mpyc_launcher import MPYC_PROGRAMS, by_launcher

PARTY = "network_programs.secret_arrays_party"


@pytest.mark.parametrize(
    ("sharing", "ring", "parties", "options"),
    [
        ("additive", "ring64", 2, []),
        ("additive", "ring64", 3, []),
        ("additive", "mersenne61", 5, ["--no-prss"]),
        ("shamir", "mersenne61", 3, []),
        ("shamir", "mersenne61", 5, ["-T2"]),
    ],
)
def test_what_is_opened_is_what_numpy_computes(sharing, ring, parties, options):
    program = MPYC_PROGRAMS / "secret_arrays_program.py"
    done = by_launcher(program, sharing, ring, "--no-log", *options, parties=parties)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found["answers"]) == parties
    for answers in found["answers"]:
        assert len(answers) == 13 + (sharing == "shamir")
        assert all(answers.values()), [name for name, right in answers.items() if not right]
    for party, cost in enumerate(found["costs"]):
        assert cost["party"] == party
        assert {"input", "open", "transform"} <= set(cost["phases"])
        assert 0 < cost["cpu"] <= 1  # phases that overlap share the CPU time
        assert cost["sent"] > 0
        assert cost["rounds"]["open"] > 5


def test_what_nothing_masks_is_not_opened_and_what_is_unknown_is_refused():
    done = by_launcher(MPYC_PROGRAMS / "secret_arrays_refusals.py", "--no-log", parties=3)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for name in ("own", "summed", "beside"):
        assert found[name].startswith("InputError: output: words of single parties given"), name
    assert found["kinds"].startswith("InputError: output: ShamirArray given with AdditiveArray")
    assert found["product"].startswith("TypeError")
    assert found["scaled"].startswith("TypeError")
    assert found["others"].startswith("TypeError: hstack: not defined for additive shares")
    assert found["shape"].startswith("InputError: +: shape (1, 1, 2) given, (4, 1, 2) expected")
    assert found["stacked"].startswith("InputError: vstack")
    assert found["clients"] == "InputError: X: 4 clients given, 5 expected"
    assert found["first"] == "InputError: first, as_type: 1, None given, none expected with AdditiveArray(ring64)"
    assert found["copies"].startswith("InputError: X: shape (4, 2, 2) given")
    assert found["field"].startswith("InputError: value")
    assert found["floats"].startswith("InputError: value")
    assert found["short key"] == "MalformedFrame: party 1 sent 15 bytes, a key of 16 expected"
    assert found["short"] == "MalformedFrame: party 1 sent 63 bytes, 64 expected"
    assert found["range"] == "MalformedFrame: party 1 sent words that are not elements of mersenne61"
    assert found["sharing"].startswith("InputError: sharing: 'replicated' given")
    assert found["ring"].startswith("InputError: ring: 'ring64' given, 'mersenne61' expected with Shamir shares")
    assert found["spelled alike"]
    assert found["sent"] == 0  # a refusal comes before the first message
    assert found["of mpyc"] == [2, 4]


def test_two_parties_keep_no_secret_in_shamir_shares():
    done = by_launcher(MPYC_PROGRAMS / "secret_arrays_program.py", "shamir", "mersenne61", "--no-log", parties=2)
    assert done.returncode != 0
    assert "-M, -T: 2 parties of whom 0 may pool their shares given, at least 3 and 1 expected" in done.stderr


@pytest.mark.parametrize(("sharing", "servers"), [("additive", 2), ("additive", 3), ("shamir", 3)])
def test_the_same_arrays_work_among_authenticated_parties(sharing, servers):
    outcomes = here(Agreement(PARTY, servers, {"sharing": sharing}))
    for outcome in outcomes[:servers]:
        assert outcome.result == {"opened": False, "phases": ["input", "open", "read", "transform"]}
    assert outcomes[servers].result == {"right": True}


def test_a_server_that_dies_is_named():
    with pytest.raises(PartyLost, match="SIGKILL") as failure:
        here(Agreement(PARTY, 3, {"sharing": "additive", "dies": 1}))
    assert failure.value.party == 1
