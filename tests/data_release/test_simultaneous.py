"""Exchanges in which words are fixed before they are shown, the comparison of ids by them, and the order of `mix`."""

import asyncio
import hashlib
import json

import numpy as np
import pytest

from dpmpc.data_release import design
from dpmpc.data_release.alignment import align, keyed_hashes, number_of_set
from dpmpc.data_release.networked import PartySource, public_arguments
from dpmpc.data_release.p256 import GENERATOR, combine, encode
from dpmpc.data_release.record import MOST_COMPARISONS
from dpmpc.errors import BatchMismatch, InputError, MalformedFrame, PartyLost
from dpmpc.network.frames import ContentType, Kind
from dpmpc.network.settings import digest_of, write_source
from dpmpc.network.simultaneous import content_commitment, show_bytes, show_words
from dpmpc.protocols import random_mixing
from support.hostile.owners import altered
from support.linked_parties import run_linked

KEY = b"k" * 32


def meddling(program, change):
    """The program of a party that sends `change(receiver, frame, runtime)` in place of each frame."""

    async def run(party):
        send = party.runtime.send_frame

        async def send_frame(receiver, frame):
            await send(receiver, change(receiver, frame, party.runtime))

        party.runtime.send_frame = send_frame
        return await program(party)

    return run


def changing(kind, *, towards=None, nth=0):
    """Another content in the nth frame of a kind to a receiver, or to one receiver alone."""
    seen = {}

    def change(receiver, frame, runtime):
        if frame.kind != kind or towards not in (None, receiver):
            return frame
        seen[receiver] = seen.get(receiver, -1) + 1
        return runtime.frame(kind, altered(frame.raw)) if seen[receiver] == nth else frame

    return change


async def say(party):
    return await show_bytes(party, "word", bytes([party.pid]) * 3)


async def say_words(party):
    shapes = {0: (2, 1), 1: (2, 2), 2: (2, 1)}
    return await show_words(party, "array", np.full(shapes[party.pid], party.pid, np.uint64), shapes)


def test_all_read_the_same():
    assert run_linked([say] * 3) == [[b"\0\0\0", b"\1\1\1", b"\2\2\2"]] * 3
    for words in run_linked([say_words] * 3):
        assert [part.tolist() for part in words] == [[[0], [0]], [[1, 1], [1, 1]], [[2], [2]]]


def test_a_commitment_is_what_it_says():
    expected = hashlib.sha256(
        b"dpmpc v1 simultaneous exchange"
        + b"\1\0\0\0"
        + bytes(32)
        + hashlib.sha256(b"step").digest()
        + b"n" * 32
        + b"c"
    )
    assert content_commitment(1, bytes(32), "step", b"n" * 32, b"c") == expected.digest()


@pytest.mark.parametrize("program", [say, say_words])
def test_nobody_shows_anything_before_all_have_committed_and_compared(program):
    """Party 1 holds its digest of the commitments back: no other party has shown anything by then."""
    shown = []

    async def late(party):
        send = party.runtime.send_frame

        async def send_frame(receiver, frame):
            if frame.kind == Kind.DIGEST:
                for _ in range(50):
                    await asyncio.sleep(0)
                raise PartyLost("party 1 leaves", 1)
            await send(receiver, frame)

        party.runtime.send_frame = send_frame
        return await program(party)

    async def watched(party):
        try:
            return await program(party)
        finally:
            shown.extend(frame.kind for frame in party.runtime.sent)

    outcomes = run_linked([watched, late, watched])
    assert all(isinstance(outcome, PartyLost) for outcome in outcomes)
    assert set(shown) == {Kind.COMMITMENT, Kind.DIGEST}


@pytest.mark.parametrize("program", [say, say_words])
def test_another_content_than_the_committed_one_is_refused_by_name(program):
    outcomes = run_linked([program, meddling(program, changing(Kind.OPENING)), program])
    for outcome in (outcomes[0], outcomes[2]):
        assert isinstance(outcome, MalformedFrame)
        assert "party 1 has shown another" in str(outcome)
        assert outcome.party == 1


def test_other_words_than_the_committed_ones_are_refused_by_name():
    def change(receiver, frame, runtime):
        return runtime.frame(Kind.SHARE, frame.words + np.uint64(1)) if frame.kind == Kind.SHARE else frame

    outcomes = run_linked([say_words, meddling(say_words, change), say_words])
    assert "party 1 has shown another array than it committed to" in str(outcomes[0])
    assert outcomes[0].party == outcomes[2].party == 1


def test_commitments_to_different_steps_are_not_taken_for_each_other():
    """Party 0 believes that the first step is on, party 1 the second: no commitment is kept, and nobody shows."""
    kept = []

    def saying(step):
        async def run(party):
            own = np.zeros((1, 1), np.uint64)
            return await show_words(party, step, own, {0: (1, 1), 1: (1, 1)}, keep=kept.append)

        return run

    outcomes = run_linked([saying("release"), saying("key")])
    assert all(isinstance(outcome, BatchMismatch) for outcome in outcomes)
    assert kept == []


def test_a_repeated_commitment_is_the_same_and_is_kept_before_anything_is_shown():
    kept = []

    async def run(party):
        def keep(commitments):
            kept.append(commitments)
            assert {frame.kind for frame in party.runtime.sent} == {Kind.COMMITMENT, Kind.DIGEST}
            if len(kept) > 4:
                raise BatchMismatch("another", 1)

        own = np.full((1, 1), party.pid, np.uint64)
        return await show_words(party, "array", own, {0: (1, 1), 1: (1, 1)}, nonce=b"n" * 32, keep=keep)

    first, second, refused = (run_linked([run] * 2) for _ in range(3))
    assert [[int(part[0, 0]) for part in words] for words in first] == [[0, 1]] * 2
    assert kept[0] == kept[1] == kept[2] == kept[3]
    assert len(second) == 2
    assert all(isinstance(outcome, BatchMismatch | PartyLost) for outcome in refused)


@pytest.mark.parametrize(("parties", "named"), [(2, 1), (3, None)])
def test_two_commitments_of_one_party_end_the_run_and_no_honest_party_is_named(parties, named):
    """Of two parties the liar is the other one; among three, those who compare cannot tell who told two stories."""
    programs = [say] * parties
    programs[1] = meddling(say, changing(Kind.COMMITMENT, towards=0))
    outcomes = run_linked(programs)
    assert isinstance(outcomes[0], BatchMismatch)
    assert outcomes[0].party == named
    assert "other commitments to the word" in str(outcomes[0])


def test_a_copy_of_another_s_commitment_cannot_be_opened():
    """The number of the party is in it: who repeats commitment and words of party 0 has shown something else."""

    async def copy(party):
        for kind in (Kind.COMMITMENT, Kind.DIGEST, Kind.OPENING):
            heard = await party.runtime.receive_frame(0, kind, ContentType.BYTES)
            await party.runtime.send_frame(0, party.runtime.frame(kind, heard.raw))

    outcomes = run_linked([say, copy])
    assert "party 1 has shown another word than it committed to" in str(outcomes[0])


# Ids


def aligning(ids, key=KEY):
    async def run(party):
        try:
            return await align(party, key, ids)
        finally:
            run.sent = party.runtime.sent

    return run


def test_the_same_ids_have_the_same_order():
    ids = [f"person-{number}" for number in range(9)]
    orders = run_linked([aligning(ids), aligning(ids[::-1])])
    assert [ids[at] for at in orders[0]] == [ids[::-1][at] for at in orders[1]]


@pytest.mark.parametrize(
    "others", [["a", "b", "d"], ["a", "b"], ["a", "b", "c", "d"], ["x", "y", "z"]], ids=lambda ids: "".join(ids)
)
def test_all_that_is_told_of_different_ids_is_that_they_differ(others):
    outcomes = run_linked([aligning(["a", "b", "c"]), aligning(others), aligning(["a", "b", "c"])])
    assert {str(outcome) for outcome in outcomes} == {
        "key: not all parties have the same ids, the same ids expected in all files"
    }
    assert {type(outcome) for outcome in outcomes} == {BatchMismatch}
    assert {outcome.party for outcome in outcomes} == {None}


def test_no_candidate_can_be_tested_against_what_a_party_has_sent():
    """Where one id differs: whoever tries all candidates, with the key, meets nothing that was sent."""
    here, there = [f"person-{number}" for number in range(20)], [f"person-{number}" for number in range(1, 20)]
    programs = [aligning(here), aligning(there)]
    assert all(isinstance(outcome, BatchMismatch) for outcome in run_linked(programs))
    sent = b"".join(frame.raw for frame in programs[1].sent if frame.raw)
    lengths = {len(frame.raw) for frame in programs[1].sent}
    assert lengths == {32, 32 + 97, 32 + 162, 32 + 130}, "of any number of ids"
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
def mix(tmp_path, monkeypatch):
    """Party 0 of two, whose exchanges with party 1 are played by `play`; each run returns what it showed."""
    task = design(COLUMNS, SUBJECTS, 1.0, 1e-5, rows=None)
    arguments = public_arguments(task, ["a", "b"], "dgm")
    digest = digest_of("none", arguments)
    (tmp_path / "a.csv").write_text("id,x\n" + "".join(f"{name},0.5\n" for name in IDS))
    write_source(tmp_path, PartySource(str(tmp_path / "a.csv"), "id"))

    def run(other=b"c" * 32, same=True, task=digest):
        seen = {}

        async def toss(party, coin):
            seen["coin"] = coin
            assert json.loads((tmp_path / "record.json").read_text())["coin"] == coin.hex(), "kept before it is sent"
            return hashlib.sha256(coin + other).digest()

        async def aligned(party, key, ids):
            seen["comparisons"] = json.loads((tmp_path / "record.json").read_text())["comparisons"]
            if not same:
                raise BatchMismatch("other ids")
            return list(range(len(ids)))

        async def all_have_released(party, own):
            return False

        async def join(party, task, own, record):
            seen["shown"] = own.tobytes()
            assert (tmp_path / "own-release.words").read_bytes() == own.tobytes(), "kept before it is sent"
            assert (
                json.loads((tmp_path / "record.json").read_text())["own"] == hashlib.sha256(own.tobytes()).hexdigest()
            )
            raise PartyLost("lost party 1", 1)

        monkeypatch.setattr(random_mixing, "toss_coins", toss)
        monkeypatch.setattr(random_mixing, "all_have_released", all_have_released)
        monkeypatch.setattr(random_mixing, "align", aligned)
        monkeypatch.setattr(random_mixing, "join", join)

        async def idle(party):
            return None

        (outcome, _) = run_linked([random_mixing.main, idle], arguments=arguments, folder=tmp_path, task=task)
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
    outcome, seen = mix(task=digest_of("none", mix.arguments))
    assert isinstance(outcome, InputError)
    assert "which was used for agreement" in str(outcome)
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
