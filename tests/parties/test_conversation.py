"""dpmpc.parties.network.conversation: all receive the same, or somebody who knows it names who said something else."""

import asyncio
import hashlib

import numpy as np
import pytest

from dpmpc.base.errors import (
    BatchMismatch,
    Equivocation,
    GuaranteeError,
    InconsistentShares,
    InputError,
    MalformedFrame,
    PartyLost,
    ProtocolFailure,
    SpoolError,
    TooFewClients,
)
from dpmpc.parties.network import conversation
from dpmpc.parties.network.announcing import announce, settle
from dpmpc.parties.network.conversation import Heard, commitment, confirm, exchange, in_frames, reveal, together, toss
from dpmpc.parties.network.frames import Kind
from support.hostile.servers import REFUSAL, meddle, tell_other_words
from support.talk import TASK, identities, talk

LIAR = 1


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return identities(tmp_path_factory.mktemp("identities") / "all", 3)


def sending(kind, change, victims=(0, 2)):
    """Let the liar send other words in the frames of a kind, to some."""

    def altered(sender, receiver, frame):
        return sender.frame(kind, change(frame.content)) if frame.kind is kind and receiver in victims else frame

    return {LIAR: lambda runtime: meddle(altered, runtime)}


def two_stories(kind, victim=0, nth=0):
    """Let the liar announce something else to one party."""
    return {LIAR: lambda runtime: tell_other_words(kind, [victim], "", nth, runtime)}


def other_words(words):
    return words + np.uint64(1)


def named(outcomes):
    return [getattr(outcomes[number], "party", "nothing went wrong") for number in (0, 2)]


# Exchanges


async def squares(party):
    return await exchange(party, Kind.CHECK, np.full((2, 2), party.pid, np.uint64))


async def each_its_own(party):
    own = {peer: np.array([10 * party.pid + peer], np.uint64) for peer in party.present}
    return await exchange(party, Kind.NOISE, own)


async def of_other_shapes(party):
    shapes = {0: (3,), 1: (0,), 2: (1,)}
    return await exchange(party, Kind.NOISE, np.full(shapes[party.pid], party.pid, np.uint64), shapes)


async def of_bytes(party):
    return await exchange(party, Kind.IDS, bytes([party.pid]) * 2)


def test_everybody_gets_what_everybody_sends(folders):
    for outcome in talk(folders, squares):
        assert {number: words.tolist() for number, words in outcome.items()} == {n: [[n, n]] * 2 for n in range(3)}
    for party, outcome in enumerate(talk(folders, each_its_own)):
        assert {number: words.tolist() for number, words in outcome.items()} == {n: [10 * n + party] for n in range(3)}
    for outcome in talk(folders, of_other_shapes):
        assert {number: words.tolist() for number, words in outcome.items()} == {0: [0] * 3, 1: [], 2: [2]}
    assert talk(folders, of_bytes) == [{0: b"\0\0", 1: b"\1\1", 2: b"\2\2"}] * 3


@pytest.mark.parametrize("words", [np.zeros((2, 3), np.uint64), np.zeros(4, np.uint64), b"bytes"], ids=str)
def test_another_shape_than_is_due_is_named(folders, words):
    outcomes = talk(folders, squares, sending(Kind.CHECK, lambda _: words))
    assert all(isinstance(outcomes[number], MalformedFrame) for number in (0, 2))
    assert named(outcomes) == [LIAR, LIAR]


def test_words_are_cut_into_parts_that_a_frame_holds(monkeypatch):
    monkeypatch.setattr(conversation, "WORDS_IN_A_FRAME", 10)
    assert list(in_frames(7, 3)) == [slice(0, 3), slice(3, 6), slice(6, 7)]
    assert list(in_frames(2, 99)) == [slice(0, 1), slice(1, 2)]
    assert list(in_frames(0, 5)) == []


def test_before_words_are_exchanged_all_have_received_the_same_announcements(folders):
    """The liar is named; the words that one honest party is about to send do not have another one blame it."""

    async def program(party):
        await announce(party, Kind.STANDING, b"here")
        return await squares(party)

    outcomes = talk(folders, program, two_stories("STANDING"))
    assert all(isinstance(outcomes[number], Equivocation) for number in (0, 2)), outcomes
    assert named(outcomes) == [LIAR, LIAR]


async def compared(party):
    heard = Heard(party)
    for _ in range(2):
        heard.take(await exchange(party, Kind.CHECK, np.full(3, party.pid, np.uint64)))
    await heard.compare("words")
    return "the same"


def test_words_that_were_the_same_for_all_pass(folders):
    assert talk(folders, compared) == ["the same"] * 3


@pytest.mark.parametrize("victim", [0, 2])
def test_other_words_for_one_are_named_by_whom_they_were_sent_to(folders, victim):
    outcomes = talk(folders, compared, sending(Kind.CHECK, other_words, [victim]))
    assert all(isinstance(outcomes[number], InconsistentShares) for number in (0, 2)), outcomes
    assert f"party 1 sent party {victim} others than it announced to all" in str(outcomes[victim])
    assert outcomes[victim].party == LIAR
    assert outcomes[2 - victim].party is None, "it knows what another party says, and no more"
    assert f"party {victim} refuses: words: party 1 sent" in str(outcomes[2 - victim])


def test_two_hashes_of_one_s_own_words_are_named_by_all(folders):
    outcomes = talk(folders, compared, two_stories("DIGEST"))
    assert all(isinstance(outcomes[number], Equivocation) for number in (0, 2)), outcomes
    assert named(outcomes) == [LIAR, LIAR]


# Steps that all take, or none goes on


async def refusal(party, error=None):
    def step():
        if error is not None and party.pid == 0:
            raise error
        return party.pid

    return await together(party, step)


def test_all_go_on_or_none_does(folders):
    assert talk(folders, refusal) == [0, 1, 2]
    results = talk(folders, lambda party: refusal(party, TooFewClients("clients: 3 given, 5 expected")))
    assert [type(result) for result in results] == [TooFewClients] * 3
    assert str(results[2]) == "party 0 refuses: clients: 3 given, 5 expected"


@pytest.mark.parametrize("kind", [InputError, SpoolError, ProtocolFailure])
def test_paths_stay_where_they_are(folders, kind):
    results = talk(folders, lambda party: refusal(party, kind("file: /home/alice/release cannot be written")))
    assert "alice" in str(results[0])
    assert "alice" not in str(results[1]) + str(results[2])
    assert "party 0 refuses" in str(results[1])
    assert type(results[1]) is kind


def test_a_refusal_on_hearsay_convicts_nobody(folders):
    results = talk(folders, lambda party: refusal(party, BatchMismatch("server 2 sent other ids", 2)))
    assert results[0].party == 2
    assert results[1].party is None
    assert "party 0 refuses: server 2 sent" in str(results[1])


@pytest.mark.parametrize("victims", [[0], [1]])
def test_who_refuses_towards_some_is_named(folders, victims):
    async def two_steps(party):
        await refusal(party)
        return await refusal(party)

    results = talk(
        folders, two_steps, {2: lambda runtime: tell_other_words("VERDICT", victims, REFUSAL, runtime=runtime)}
    )
    assert all(isinstance(result, Equivocation) for result in results[:2]), results
    assert [result.party for result in results[:2]] == [2, 2]


@pytest.mark.parametrize(
    "words",
    [
        b'{"type":"InputError","message":"\xd7","party":null}',
        b"[" * 60_000,
        b'{"type":"InputError","message":"' + b"x" * 5000 + b'","party":null}',
        b'{"type":"InputError","message":"x","party":1.5}',
        b'{"type":"SystemExit","message":"x","party":null}',
        b'{"type":"\\u001b[2K","message":"x","party":null}',
        b'{"type":"GuaranteeError","message":"x","party":null,"more":1}',
    ],
    ids=range(7),
)
def test_a_refusal_that_cannot_be_read_is_named(folders, words):
    async def malformed(party):
        if party.pid != 2:
            return await refusal(party)
        await announce(party, Kind.VERDICT, words, largest=1 << 20)
        return await settle(party)

    results = talk(folders, malformed)
    for result in results[:2]:
        assert isinstance(result, MalformedFrame), results
        assert result.party == 2
        assert str(result).isprintable()


def test_a_refusal_is_escaped(folders):
    error = GuaranteeError("\x1b[2K\x1b[1A\nrelease of 999999 reports, signed by all")
    results = talk(folders[:2], lambda party: refusal(party, error))
    assert str(results[1]).isprintable()
    assert "\\x1b[2K" in str(results[1])


def test_another_digest_is_named(folders):
    async def program(party):
        await confirm(party, bytes([party.pid == 2]) * 32, "manifest")

    results = talk(folders, program)
    assert [type(result) for result in results] == [BatchMismatch] * 3
    assert results[0].party == results[1].party == 2


# Contents that are fixed before they are shown


async def say(party):
    return await reveal(party, "word", bytes([party.pid]) * 3)


async def say_words(party):
    shapes = {0: (2, 1), 1: (2, 2), 2: (2, 1)}
    return await reveal(party, "array", np.full(shapes[party.pid], party.pid, np.uint64), shapes)


def test_all_read_the_same(folders):
    assert talk(folders, say) == [{0: b"\0\0\0", 1: b"\1\1\1", 2: b"\2\2\2"}] * 3
    for words in talk(folders, say_words):
        expected = {0: [[0], [0]], 1: [[1, 1], [1, 1]], 2: [[2], [2]]}
        assert {number: part.tolist() for number, part in words.items()} == expected


def test_a_commitment_is_to_a_party_a_task_a_step_a_nonce_and_a_content():
    nonce, words = b"n" * 32, np.array([1, 2], np.uint64)
    begin = b"dpmpc v1 simultaneous exchange" + b"\1\0\0\0" + bytes(32) + hashlib.sha256(b"step").digest() + nonce
    assert commitment(1, bytes(32), "step", nonce, b"c") == hashlib.sha256(begin + b"c").digest()
    first = commitment(1, bytes(32), "step", nonce, words)
    assert first == hashlib.sha256(begin + b"\1" + bytes(7) + b"\2" + bytes(7)).digest()
    others = [
        commitment(0, bytes(32), "step", nonce, words),
        commitment(1, b"\1" * 32, "step", nonce, words),
        commitment(1, bytes(32), "other", nonce, words),
        commitment(1, bytes(32), "step", bytes(32), words),
        commitment(1, bytes(32), "step", nonce, words[::-1]),
    ]
    assert len({first, *others}) == 6


@pytest.mark.parametrize("program", [say, say_words])
def test_nobody_shows_anything_before_all_have_committed_and_compared(folders, program):
    """The liar holds its word that it has received the same commitments back: no other has shown anything by then."""
    shown = []

    def late(runtime):
        send = runtime.send_frame

        async def send_frame(receiver, frame):
            if frame.kind is Kind.ECHO:
                for _ in range(50):
                    await asyncio.sleep(0)
                raise PartyLost("party 1 leaves", 1)
            await send(receiver, frame)

        runtime.send_frame = send_frame

    def watch(runtime):
        meddle(lambda sender, receiver, frame: shown.append(frame.kind) or frame, runtime)

    outcomes = talk(folders, program, {0: watch, LIAR: late, 2: watch})
    assert all(isinstance(outcome, ProtocolFailure) for outcome in outcomes)
    assert set(shown) == {Kind.NONCE, Kind.COMMITMENT, Kind.ECHO}


def committing_to(step, content, nonce=b"n" * 32, number=LIAR):
    """A party that has committed to this, and shows something else of the same length in its nonce or its content."""

    async def run(party, shown):
        own = commitment(number, party.runtime.settings.task_digest, step, nonce, content)
        await announce(party, Kind.COMMITMENT, hashlib.sha256(step.encode()).digest() + own, 64)
        await settle(party)
        await announce(party, Kind.OPENING, shown, 35)
        await announce(party, Kind.VERDICT, b"")
        await settle(party)

    return run


@pytest.mark.parametrize("shown", [b"n" * 32 + b"abd", b"m" * 32 + b"abc"], ids=["content", "nonce"])
def test_other_bytes_than_the_committed_ones_are_named_by_all(folders, shown):
    """It says the same to all, and all have received the same: only the commitment tells."""

    async def program(party):
        return await (committing_to("word", b"abc")(party, shown) if party.pid == LIAR else say(party))

    outcomes = talk(folders, program)
    for number in (0, 2):
        assert isinstance(outcomes[number], MalformedFrame)
        assert "party 1 has shown another word than it committed to" in str(outcomes[number])
    assert named(outcomes) == [LIAR, LIAR]


@pytest.mark.parametrize(("kind", "change"), [(Kind.SHARE, other_words), (Kind.SALT, lambda nonce: nonce[::-1])])
@pytest.mark.parametrize("victims", [[0, 2], [0]], ids=str)
def test_other_words_than_the_committed_ones_are_named_by_whom_they_were_shown_to(folders, kind, change, victims):
    outcomes = talk(folders, say_words, sending(kind, change, victims))
    for victim in victims:
        assert isinstance(outcomes[victim], MalformedFrame)
        assert "party 1 has shown another array than it committed to" in str(outcomes[victim])
        assert outcomes[victim].party == LIAR
    if 2 not in victims:
        assert isinstance(outcomes[2], MalformedFrame), "nobody goes on"
        assert "party 0 refuses: party 1 has shown another array" in str(outcomes[2])
        assert outcomes[2].party is None


@pytest.mark.parametrize("program", [say, say_words])
@pytest.mark.parametrize("parties", [2, 3])
def test_two_commitments_of_one_party_are_named_by_all_and_kept_by_nobody(folders, program, parties):
    outcomes = talk(folders[:parties], program, two_stories("COMMITMENT"))
    honest = [outcomes[number] for number in range(parties) if number != LIAR]
    assert all(isinstance(outcome, Equivocation) for outcome in honest), outcomes
    assert {outcome.party for outcome in honest} == {LIAR}


@pytest.mark.parametrize("parties", [2, 3])
def test_bytes_that_are_shown_differently_are_named_by_all(folders, parties):
    outcomes = talk(folders[:parties], say, two_stories("OPENING"))
    honest = [outcomes[number] for number in range(parties) if number != LIAR]
    assert all(isinstance(outcome, Equivocation | MalformedFrame) for outcome in honest), outcomes
    assert {outcome.party for outcome in honest} == {LIAR}


def test_commitments_to_different_steps_are_not_taken_for_each_other(folders):
    """Party 0 believes that the first step is on, party 1 the second: no commitment is kept, and nobody shows."""
    kept = []

    async def program(party):
        own = np.zeros((1, 1), np.uint64)
        return await reveal(party, "key" if party.pid == 1 else "release", own, keep=kept.append)

    outcomes = talk(folders[:2], program)
    assert all(isinstance(outcome, BatchMismatch) for outcome in outcomes)
    assert "commits to something else than the release" in str(outcomes[0])
    assert kept == []


def test_a_repeated_commitment_is_the_same_and_is_kept_before_anything_is_shown(folders):
    kept = []

    async def run(party):
        def keep(commitments):
            kept.append(commitments)
            assert {frame.kind for frame in party.runtime.sent} == {Kind.NONCE, Kind.COMMITMENT, Kind.ECHO}
            if len(kept) > 4:
                raise BatchMismatch("another", 1)

        return await reveal(party, "array", np.full((1, 1), party.pid, np.uint64), nonce=b"n" * 32, keep=keep)

    first, second, refused = (talk(folders[:2], run) for _ in range(3))
    assert [[int(part[0, 0]) for part in words.values()] for words in first] == [[0, 1]] * 2
    assert kept[0] == kept[1] == kept[2] == kept[3]
    assert len(second) == 2
    assert all(isinstance(outcome, BatchMismatch) for outcome in refused)


def test_where_one_cannot_keep_the_commitments_nobody_shows(folders):
    sent = []

    async def run(party):
        def keep(commitments):
            if party.pid == LIAR:
                raise InconsistentShares("cannot keep it")

        try:
            return await reveal(party, "array", np.zeros(1, np.uint64), keep=keep)
        finally:
            sent.extend(frame.kind for frame in party.runtime.sent)

    outcomes = talk(folders, run)
    assert all(isinstance(outcome, InconsistentShares) for outcome in outcomes)
    assert not {Kind.SALT, Kind.SHARE} & set(sent)


@pytest.mark.parametrize("own", [np.zeros(1, np.uint64), b"abc"], ids=["words", "bytes"])
def test_who_says_to_one_that_it_has_kept_them_and_to_another_that_it_has_not_is_named(folders, own):
    shown = []

    async def run(party):
        try:
            return await reveal(party, "array", own, keep=lambda commitments: None)
        finally:
            if party.pid != LIAR:
                shown.extend(frame.kind for frame in party.runtime.sent)

    outcomes = talk(folders, run, two_stories("VERDICT"))
    assert all(isinstance(outcomes[number], Equivocation) for number in (0, 2)), outcomes
    assert named(outcomes) == [LIAR, LIAR]
    assert not {Kind.SALT, Kind.SHARE, Kind.OPENING} & set(shown)


def test_a_copy_of_another_s_commitment_cannot_be_opened(folders):
    """The number of the party is in it: who repeats commitment and words of party 0 has shown something else."""

    async def honest(party):
        return await reveal(party, "word", b"abc", nonce=b"n" * 32)

    async def program(party):
        copy = committing_to("word", b"abc", number=0)
        return await (copy(party, b"n" * 32 + b"abc") if party.pid == LIAR else honest(party))

    outcomes = talk(folders[:2], program)
    assert "party 1 has shown another word than it committed to" in str(outcomes[0])


# Coins


def test_a_toss_is_the_hash_of_all_coins_and_another_one_each_time(folders):
    async def given(party):
        return await toss(party, "a test", bytes([party.pid]) * 32)

    async def fresh(party):
        return [await toss(party, "a test"), await toss(party, "another test")]

    coins = b"".join(bytes([number]) * 32 for number in range(3))
    assert set(talk(folders, given)) == {hashlib.sha256(b"dpmpc v1 coin toss" + TASK + coins).digest()}
    first, second = talk(folders, fresh), talk(folders, fresh)
    assert first[0] == first[1] == first[2]
    assert len({*first[0], *second[0]}) == 4


@pytest.mark.parametrize("kind", ["COMMITMENT", "OPENING"])
@pytest.mark.parametrize("victim", [0, 2])
def test_two_faced_coins_are_named_by_all(folders, kind, victim):
    async def tossed(party):
        return await toss(party, "a test")

    outcomes = talk(folders, tossed, two_stories(kind, victim))
    assert all(isinstance(outcomes[number], Equivocation | MalformedFrame) for number in (0, 2)), outcomes
    assert named(outcomes) == [LIAR, LIAR]
