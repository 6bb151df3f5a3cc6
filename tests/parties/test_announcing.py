"""parties.network.announcing: whoever tells different parties different things is named, and nobody else ever is."""

import asyncio
import itertools

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dpmpc.base.errors import Equivocation, MalformedFrame, PartyLost, ProtocolFailure
from dpmpc.parties.network import announcing
from dpmpc.parties.network.announcing import announce, settle
from dpmpc.parties.network.frames import Kind
from dpmpc.parties.network.identity import sign
from support.hostile.servers import (
    claim_other_transcript,
    meddle,
    send_raw,
    tell_other_words,
    words_of,
)
from support.talk import identities, talk
from support.waiting import until

NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)  # a failure may take seconds each time


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return identities(tmp_path_factory.mktemp("identities") / "all", 4)


async def three_rounds(party):
    """Two announcements with content, two without, and so three rounds that another one follows."""
    first = await announce(party, Kind.STANDING, b"standing %d" % party.pid)
    second = await announce(party, Kind.DIGEST, bytes(3) + bytes([party.pid]), 4)
    await settle(party)
    await settle(party)  # nothing was said since
    await announce(party, Kind.VERDICT, b"")
    assert len(party.runtime.conversation.rounds) == 4
    return first, second


def blamed(results, liar):
    """Whom each honest party names."""
    return {number: getattr(result, "party", None) for number, result in enumerate(results) if number != liar}


def test_all_hear_what_all_said(folders):
    results = talk(folders, three_rounds)
    assert len({repr(result) for result in results}) == 1
    first, second = results[0]
    assert first == {number: b"standing %d" % number for number in range(4)}
    assert second == {number: bytes((0, 0, 0, number)) for number in range(4)}


@pytest.mark.parametrize("kind", ["STANDING", "DIGEST"])
@pytest.mark.parametrize("victims", [[0], [1], [0, 1], [0, 1, 3]], ids=str)
def test_who_tells_different_parties_different_things_is_named_by_all(folders, kind, victims):
    results = talk(folders, three_rounds, {2: lambda runtime: tell_other_words(kind, victims, runtime=runtime)})
    if victims == [0, 1, 3]:  # all others heard the same; only the liar thinks otherwise
        assert set(blamed(results, 2).values()) <= {2}
    else:
        assert all(isinstance(result, Equivocation) for result in results[:2]), results
        assert blamed(results, 2) == {0: 2, 1: 2, 3: 2}
        assert "signed both" in str(results[0])


@pytest.mark.parametrize("kind", ["DIGEST", "ECHO"])
def test_a_false_transcript_convicts_whoever_claims_it(folders, kind):
    """Towards one party it claims to have heard something else: it cannot show that, or has signed two transcripts."""
    results = talk(folders[:3], three_rounds, {2: lambda runtime: claim_other_transcript(kind, [1], runtime=runtime)})
    assert isinstance(results[1], Equivocation)
    assert results[1].party == 2
    assert getattr(results[0], "party", None) in (None, 2)


def ends_in_a_dispute(sender, frame):
    return sender.frame(Kind.DISPUTE, msgspec.json.encode({"reason": "party 3 lied", "heard": []}))


def claims_another_transcript(sender, frame):
    conversation = sender.conversation
    true, conversation.transcript = conversation.transcript, bytes(32)
    _, content = conversation.speak(frame.kind, words_of(frame))
    conversation.transcript = true
    return sender.frame(frame.kind, content)


@pytest.mark.parametrize("liar", [0, 2])
@pytest.mark.parametrize("evasion", [ends_in_a_dispute, claims_another_transcript])
def test_who_told_two_stories_is_named_by_what_the_others_show_each_other(folders, liar, evasion):
    """Before the others compare, the liar opens a dispute with each of them, and then shows nothing."""

    def meddler(runtime):
        tell_other_words("STANDING", [1], runtime=runtime)
        meddle(lambda sender, receiver, frame: evasion(sender, frame) if frame.kind is Kind.DIGEST else frame, runtime)
        runtime.send_last_frame = lambda receiver, frame: None

    results = talk(folders[:3], three_rounds, {liar: meddler})
    assert all(isinstance(result, Equivocation) for number, result in enumerate(results) if number != liar), results
    assert set(blamed(results, liar).values()) == {liar}
    assert all("signed both" in str(result) for number, result in enumerate(results) if number != liar)


def test_two_parties_know_whom_to_blame(folders):
    results = talk(folders[:2], three_rounds, {1: lambda runtime: claim_other_transcript("ECHO", [0], runtime=runtime)})
    assert isinstance(results[0], Equivocation)
    assert results[0].party == 1


def test_different_opening_words_name_nobody(folders):
    def meddler(runtime):
        meddle(
            lambda sender, receiver, frame: (
                sender.frame(frame.kind, bytes(32)) if frame.kind is Kind.NONCE and receiver == 0 else frame
            ),
            runtime,
        )

    results = talk(folders[:3], three_rounds, {2: meddler})
    assert {number: party for number, party in blamed(results, 2).items() if party not in (None, 2)} == {}
    assert any(isinstance(result, Equivocation) and "opening words" in str(result) for result in results)


def test_the_records_of_an_earlier_run_convict_nobody(folders):
    """Replayed with other contents, they are not of this session."""
    kept = {}

    def record(runtime):
        def change(sender, receiver, frame):
            kept.setdefault(frame.kind, frame)
            return frame

        meddle(change, runtime)

    talk(folders[:3], three_rounds, {1: record})

    def replay(runtime):
        def change(sender, receiver, frame):
            return kept[frame.kind] if frame.kind is Kind.STANDING else frame

        meddle(change, runtime)

    results = talk(folders[:3], three_rounds, {1: replay})
    assert {number: party for number, party in blamed(results, 1).items() if party not in (None, 1)} == {}
    assert not isinstance(results[0], tuple)


def forged_dispute(runtime, claim):
    """Open a dispute that shows what party 0 has not said."""

    def change(sender, receiver, frame):
        if frame.kind is not Kind.DIGEST:
            return frame
        shown = msgspec.json.decode(sender.conversation.shown("I heard other things"))
        for record in shown["heard"]:
            if record["party"] == 0:
                claim(record)
        return sender.frame(Kind.DISPUTE, msgspec.json.encode(shown))

    meddle(change, runtime)


def test_nobody_is_framed_with_words_that_it_has_not_signed(folders):
    def claim(record):
        record["content"] = "ab" * 32

    results = talk(folders[:3], three_rounds, {2: lambda runtime: forged_dispute(runtime, claim)})
    assert blamed(results, 2) == {0: 2, 1: 2}
    assert "has not signed" in str(results[1])


@given(st.data())
@settings(max_examples=40, deadline=None, phases=NO_SHRINKING)
def test_a_dispute_of_any_content_names_its_sender_or_nobody(folders, data):
    """Wrong types, wrong lengths, rounds and parties that do not exist, nesting, invalid text."""
    wild = data.draw(
        st.one_of(
            st.binary(max_size=60),
            st.sampled_from([b"[" * 100_000, b'{"reason":"\xff","heard":[]}', b'{"reason":1e999,"heard":[]}']),
            st.builds(
                lambda number, party, kind: msgspec.json.encode(
                    {
                        "reason": "\x1b[2K\n",
                        "heard": [
                            {
                                "round": number,
                                "party": party,
                                "kind": kind,
                                "transcript": "00" * 32,
                                "content": "11" * 32,
                                "signature": "30",
                            }
                        ],
                    }
                ),
                st.integers(-1, 3) | st.just(1 << 40),
                st.integers(-1, 4) | st.just(1 << 40),
                st.integers(-1, 300),
            ),
        )
    )

    def meddler(runtime):
        meddle(
            lambda sender, receiver, frame: sender.frame(Kind.DISPUTE, wild) if frame.kind is Kind.DIGEST else frame,
            runtime,
        )

    results = talk(folders[:3], three_rounds, {2: meddler})
    for number, party in blamed(results, 2).items():
        assert isinstance(results[number], ProtocolFailure), results
        assert party in (None, 2)
        assert str(results[number]).isprintable()


@given(st.data())
@settings(max_examples=40, deadline=None, phases=NO_SHRINKING)
def test_damaged_announcements_name_their_sender(folders, data):
    """Any change of the bytes of an announcement, which is cut, lengthened or changed anywhere."""
    cut = data.draw(st.integers(0, 150))
    place, value = data.draw(st.integers(0, 149)), data.draw(st.integers(1, 255))

    def change(sender, receiver, frame):
        if frame.kind is not Kind.DIGEST or receiver != 0:
            return frame
        damaged = bytearray(frame.raw)
        damaged[place % len(damaged)] ^= value
        return sender.frame(frame.kind, bytes(damaged[: max(cut, 1)]))

    results = talk(folders[:3], three_rounds, {2: lambda runtime: meddle(change, runtime)})
    assert isinstance(results[0], MalformedFrame), results
    assert results[0].party == 2
    assert getattr(results[1], "party", None) in (None, 2)


def test_an_announcement_without_a_signature_is_refused(folders):
    results = talk(folders[:3], three_rounds, {2: lambda runtime: send_raw("DIGEST", "00" * 200, runtime=runtime)})
    assert isinstance(results[0], MalformedFrame)
    assert blamed(results, 2) == {0: 2, 1: 2}

    def other_key(runtime):
        def change(sender, receiver, frame):
            if frame.kind is not Kind.DIGEST:
                return frame
            conversation, words = sender.conversation, words_of(frame)
            record, _ = conversation.speak(frame.kind, words)
            forged = sign(folders[1], record.message(conversation.session, len(conversation.rounds), 2))
            head = conversation.session + record.transcript + len(forged).to_bytes(1, "little") + forged
            return sender.frame(frame.kind, head + words)

        meddle(change, runtime)

    results = talk(folders[:3], three_rounds, {2: other_key})
    assert isinstance(results[0], MalformedFrame)
    assert "not signed with the key" in str(results[0])
    assert blamed(results, 2) == {0: 2, 1: 2}


@pytest.mark.parametrize(
    ("words", "remark"), [(b"", "0 bytes, 4 expected"), (bytes(5), "5 bytes, 4 expected")], ids=["none", "five"]
)
def test_words_of_another_length_are_refused(folders, words, remark):
    def change(sender, receiver, frame):
        if frame.kind is Kind.DIGEST:
            return sender.frame(frame.kind, sender.conversation.speak(frame.kind, words)[1])
        return frame

    results = talk(folders[:3], three_rounds, {2: lambda runtime: meddle(change, runtime)})
    assert blamed(results, 2) == {0: 2, 1: 2}
    assert remark in str(results[0])


def test_words_that_are_too_long_are_refused(folders):
    async def long_words(party):
        return await announce(party, Kind.COST, bytes(11 if party.pid == 1 else 10), largest=10)

    results = talk(folders[:2], long_words)
    assert "11 bytes, at most 10 expected" in str(results[0])


def test_another_kind_than_is_due_is_refused(folders):
    async def out_of_turn(party):
        return await announce(party, Kind.COST if party.pid == 1 else Kind.DIGEST, b"")

    results = talk(folders[:3], out_of_turn)
    assert isinstance(results[0], MalformedFrame)
    assert results[0].party == results[2].party == 1
    assert "DIGEST" in str(results[0])


def test_the_others_are_told_why_one_ends_the_run_and_name_nobody(folders):
    async def broken(party):
        await settle(party)
        if party.pid == 0:
            raise MalformedFrame("party 2 sent \x1b[2K", 2)
        return await announce(party, Kind.COST, b"")

    results = talk(folders[:3], broken)
    assert results[0].party == 2
    for number in (1, 2):
        assert type(results[number]) is ProtocolFailure
        assert results[number].party is None
        assert "party 0 ended the run: party 2 sent \\x1b[2K" in str(results[number])


def test_what_a_machine_says_of_itself_is_not_told(folders):
    async def broken(party):
        await settle(party)
        if party.pid == 0:
            raise ProtocolFailure("party 0 failed: /home/alice/x", 0)
        return await announce(party, Kind.COST, b"")

    results = talk(folders[:2], broken)
    assert isinstance(results[1], PartyLost)
    assert "alice" not in str(results[1])


def test_a_link_that_breaks_is_explained_by_what_was_said_before(folders):
    """The reason lies unread in the link when the run has failed already."""

    async def cancelled(party):
        await settle(party)
        if party.pid == 0:
            raise MalformedFrame("party 1 sent nonsense", 1)
        await until(lambda: party.runtime.links[0].unread(Kind.DISPUTE) is not None, "the reason")
        party.runtime.failure = PartyLost("lost party 0", 0)
        raise asyncio.CancelledError

    async def outer(party):
        try:
            return await announcing.explained(party, cancelled(party))
        except asyncio.CancelledError:
            return party.runtime.foreseen

    results = talk(folders[:2], outer)
    assert "party 0 ended the run: party 1 sent nonsense" in str(results[1])
    assert results[1].party is None


def test_records_are_told_apart_by_all_that_is_signed():
    """Session, round, party, kind, transcript and content: a change of any gives other bytes."""
    record = announcing.SignedRecord(Kind.DIGEST, bytes(32), bytes(32), b"")
    messages = {
        record.message(session, number, party)
        for session, number, party in itertools.product((bytes(32), b"s" * 32), (0, 1), (0, 1))
    }
    for changed in (
        announcing.SignedRecord(Kind.COST, bytes(32), bytes(32), b""),
        announcing.SignedRecord(Kind.DIGEST, b"t" * 32, bytes(32), b""),
        announcing.SignedRecord(Kind.DIGEST, bytes(32), b"c" * 32, b""),
    ):
        messages.add(changed.message(bytes(32), 0, 0))
    assert len(messages) == 8 + 3
