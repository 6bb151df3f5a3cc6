"""The comparison of ids, and what a party of `mix` has on its disk before it sends anything."""

import dataclasses
import hashlib

import pytest

from dpmpc.base.errors import BatchMismatch, InputError, PartyLost
from dpmpc.owners.columns import design
from dpmpc.owners.columns.alignment import align, keyed_hashes, number_of_set
from dpmpc.owners.columns.mixing_parties import PartySource, public_arguments
from dpmpc.owners.columns.p256 import GENERATOR, combine, encode
from dpmpc.owners.columns.release_record import MOST_COMPARISONS
from dpmpc.parties.network.frames import Kind
from dpmpc.parties.network.settings import digest_of, write_source
from dpmpc.protocols import random_mixing
from support.hostile.servers import words_of
from support.kept_files import kept_on_disk
from support.talk import identities, talk

KEY = b"k" * 32


# Ids


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return identities(tmp_path_factory.mktemp("identities") / "all", 3)


@pytest.fixture
def aligned(folders):
    """Compare the ids of all parties; return what each returned or raised."""

    def run(*ids):
        async def program(party):
            run.sent[party.pid] = party.runtime.sent
            return await align(party, KEY, ids[party.pid])

        run.sent = {}
        return talk(folders[: len(ids)], program)

    return run


def test_the_same_ids_have_the_same_order(aligned):
    ids = [f"person-{number}" for number in range(9)]
    orders = aligned(ids, ids[::-1])
    assert [ids[at] for at in orders[0]] == [ids[::-1][at] for at in orders[1]]


@pytest.mark.parametrize(
    "others", [["a", "b", "d"], ["a", "b"], ["a", "b", "c", "d"], ["x", "y", "z"]], ids=lambda ids: "".join(ids)
)
def test_all_that_is_told_of_different_ids_is_that_they_differ(aligned, others):
    outcomes = aligned(["a", "b", "c"], others, ["a", "b", "c"])
    assert {str(outcome) for outcome in outcomes} == {
        "key: not all parties have the same ids, the same ids expected in all files"
    }
    assert {type(outcome) for outcome in outcomes} == {BatchMismatch}
    assert {outcome.party for outcome in outcomes} == {None}


def test_no_candidate_can_be_tested_against_what_a_party_has_sent(aligned):
    """Where one id differs: whoever tries all candidates, with the key, meets nothing that was sent."""
    here, there = [f"person-{number}" for number in range(20)], [f"person-{number}" for number in range(1, 20)]
    assert all(isinstance(outcome, BatchMismatch) for outcome in aligned(here, there))
    frames = [frame for frame in aligned.sent[1] if frame.content]
    assert {frame.kind for frame in frames} == {Kind.NONCE, Kind.COMMITMENT, Kind.ECHO, Kind.OPENING, Kind.VERDICT}
    lengths = {len(words_of(frame)) for frame in frames if frame.kind in (Kind.COMMITMENT, Kind.OPENING)}
    assert lengths == {64, 32 + 97, 32 + 162, 32 + 130}, "of any number of ids"
    sent = b"".join(frame.raw for frame in frames)
    candidates = [[name for name in here if name != missing] for missing in here]
    for candidate in (here, *candidates):
        hashes = keyed_hashes(KEY, candidate)
        number = number_of_set(KEY, hashes)
        for tested in (
            hashlib.sha256(b"".join(sorted(hashes))).digest(),
            number.to_bytes(32, "big"),
            number.to_bytes(32, "little"),
            encode(combine([number], [GENERATOR]))[1:],
            *hashes,
            *(name.encode() for name in candidate),
        ):
            assert tested not in sent


# What `mix` has on its disk before it sends


COLUMNS, SUBJECTS = (["x"], ["y", "z"]), 8
IDS = [f"person-{number}" for number in range(SUBJECTS)]


@pytest.fixture
def mix(tmp_path, monkeypatch, folders):
    """Party 0 of two, whose exchanges with party 1 are played by `play`; each run returns what it showed."""
    task = design(COLUMNS, SUBJECTS, 1.0, 1e-5, rows=None)
    arguments = public_arguments(task, ["a", "b"], "dgm")
    digest = digest_of("talk", arguments)
    (tmp_path / "a.csv").write_text("id,x\n" + "".join(f"{name},0.5\n" for name in IDS))
    write_source(tmp_path, PartySource(str(tmp_path / "a.csv"), "id"))

    def run(other=b"c" * 32, same=True, task=digest):
        seen = {}

        async def toss(party, what, coin):
            seen["coin"] = coin
            assert kept_on_disk(tmp_path)["coin"] == coin, "kept before it is sent"
            return hashlib.sha256(coin + other).digest()

        async def aligned(party, key, ids):
            seen["comparisons"] = int.from_bytes(kept_on_disk(tmp_path)["comparisons of ids"], "little")
            if not same:
                raise BatchMismatch("other ids")
            return list(range(len(ids)))

        async def all_have_released(party, own):
            return False

        async def join(party, task, own, record):
            seen["shown"] = own.tobytes()
            assert kept_on_disk(tmp_path)["release"] == own.tobytes(), "kept before it is sent"
            raise PartyLost("lost party 1", 1)

        async def together(party, step):
            return step()

        monkeypatch.setattr(random_mixing, "toss", toss)
        monkeypatch.setattr(random_mixing, "together", together)
        monkeypatch.setattr(random_mixing, "all_have_released", all_have_released)
        monkeypatch.setattr(random_mixing, "align", aligned)
        monkeypatch.setattr(random_mixing, "join", join)

        async def program(party):
            if party.pid == 0:
                await random_mixing.take_part(dataclasses.replace(party, folder=tmp_path))

        (outcome, _) = talk(folders[:2], program, arguments=arguments, task=task)
        return outcome, seen

    run.folder, run.arguments = tmp_path, arguments
    return run


def test_a_repetition_sends_the_same_bytes(mix):
    first, again = mix()[1], mix()[1]
    assert first["shown"] == again["shown"]
    assert first["coin"] == again["coin"]
    assert (first["comparisons"], again["comparisons"]) == (1, 2)


def test_a_repetition_sends_the_same_bytes_whatever_the_file_holds_by_then(mix):
    first = mix()[1]
    (mix.folder / "a.csv").write_text("id,x\n" + "".join(f"{name},-0.5\n" for name in IDS))
    assert mix()[1]["shown"] == first["shown"]


def test_another_coin_of_another_party_gets_nothing_more(mix):
    mix()
    outcome, seen = mix(other=b"d" * 32)
    assert isinstance(outcome, InputError)
    assert "a release made under another toss" in str(outcome)
    assert "shown" not in seen
    assert "comparisons" not in seen


def test_another_coin_is_fine_while_nothing_was_released(mix):
    assert isinstance(mix(same=False)[0], BatchMismatch)
    assert "shown" in mix(other=b"d" * 32)[1]


def test_another_agreement_in_a_used_folder_is_refused(mix):
    mix(same=False)
    mix.arguments["date"] = "2027"
    outcome, seen = mix(task=digest_of("talk", mix.arguments))
    assert isinstance(outcome, InputError)
    assert "which was used for " in str(outcome)
    assert seen == {}


def test_comparisons_are_counted_before_they_begin_and_bounded(mix):
    counts = [mix(same=False)[1]["comparisons"] for _ in range(MOST_COMPARISONS)]
    assert counts == list(range(1, MOST_COMPARISONS + 1))
    outcome, seen = mix(same=False)
    assert isinstance(outcome, InputError)
    assert "10 comparisons of ids have begun" in str(outcome)
    assert "comparisons" not in seen


def test_a_number_of_rows_other_than_agreed_is_refused_before_anything_is_sent(mix):
    (mix.folder / "a.csv").write_text("id,x\n" + "".join(f"{name},0.5\n" for name in IDS[1:]))
    outcome, seen = mix()
    assert "subjects: 8 given, 7 expected" in str(outcome)
    assert seen == {}
