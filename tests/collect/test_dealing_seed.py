"""collect.opening.dealing_checks: one seed for a collection, recorded by all before anybody sends a check value."""

import types

import numpy as np
import pytest

from dpmpc.base.errors import BatchMismatch, DpmpcError, Equivocation, InconsistentShares, MalformedFrame, SpoolError
from dpmpc.collect.opening import dealing_checks
from dpmpc.collect.opening.dealing_checks import SeedRecord, check_dealing, read_record, seed_message
from dpmpc.collect.store.ledger import ReleaseLedger
from dpmpc.linear.encoding.ring import Mersenne61
from dpmpc.linear.sharing.check_values import check_values, draw_coefficients
from dpmpc.parties.network import conversation
from dpmpc.parties.network.frames import Frame, Kind
from dpmpc.parties.network.identity import sign
from support.hostile.servers import REFUSAL, tell_other_words
from support.rejections import blames
from support.release_processes import Trial
from support.talk import TASK, talk

SERVERS, REPORTS = 4, 12
IDS = np.arange(16 * REPORTS, dtype=np.uint8).reshape(-1, 16)


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    return Trial.make(tmp_path_factory.mktemp("dealing") / "trial", SERVERS, sharing="shamir", count=1)


@pytest.fixture
def servers(trial, tmp_path):
    """Servers with ledgers of their own, and shares of random words."""
    shares = trial.collection.plan.scheme.split(np.arange(REPORTS * 5, dtype=np.uint64).reshape(REPORTS, 5))

    def answers(number):
        return lambda ids, seed: check_values(shares[number], draw_coefficients(seed, 4))

    made = [
        types.SimpleNamespace(
            number=number,
            collection=trial.collection,
            ledger=ReleaseLedger(tmp_path / f"ledger-{number}"),
            identity=trial.folder(number) / "identity",
            shares=shares[number],
            check_values=answers(number),
        )
        for number in range(SERVERS)
    ]
    yield made
    for server in made:
        server.ledger.close()


def converse(servers, alter=None, meddlers=None):
    """Let the servers check the batch; return what came of it at each, and all frames."""
    sent = []

    def meddle(runtime):
        send = runtime.send_frame

        async def send_frame(receiver, frame):
            sent.append((runtime.pid, receiver, frame))
            await send(receiver, frame if alter is None else alter(runtime.pid, receiver, frame))

        runtime.send_frame = send_frame
        (meddlers or {}).get(runtime.pid, lambda runtime: None)(runtime)

    numbered = {server.number: server for server in servers}
    outcomes = talk(
        {number: server.identity for number, server in numbered.items()},
        lambda party: check_dealing(party, numbered[party.pid], IDS),
        dict.fromkeys(numbered, meddle),
    )
    return outcomes, sent


def recorded(servers):
    return [server.ledger.seed(server.collection.digest) for server in servers]


def checks(sent):
    return {(sender, frame.words.tobytes()) for sender, _, frame in sent if frame.kind is Kind.CHECK}


def test_all_come_to_one_judgement_under_one_seed_that_all_have_signed(servers):
    servers[1].shares[3, 2] ^= np.uint64(1)
    outcomes, _ = converse(servers)
    for outcome in outcomes:
        assert not isinstance(outcome, BaseException), outcome
        assert outcome.judgement.good.tolist() == [index != 3 for index in range(REPORTS)]
        np.testing.assert_array_equal(outcome.ids, np.delete(IDS, 3, axis=0))
    (content,) = set(recorded(servers))
    assert sorted(read_record(servers[0].collection, content, 0).signatures) == ["0", "1", "2", "3"]


def test_a_repetition_uses_the_seed_again_and_one_that_lacks_it_takes_it(servers, tmp_path):
    _, first = converse(servers)
    (content,) = set(recorded(servers))
    servers[2].ledger.close()
    servers[2].ledger = ReleaseLedger(tmp_path / "lost")
    outcomes, second = converse(servers)
    assert all(not isinstance(outcome, BaseException) for outcome in outcomes)
    assert set(recorded(servers)) == {content}
    assert checks(first) == checks(second)
    _, third = converse(servers[1:])  # in other company
    assert checks(third) < checks(first)


def test_nobody_sends_a_check_value_before_all_have_recorded_the_seed(servers):
    def watched(sender, receiver, frame):
        if frame.kind is Kind.CHECK:
            assert None not in recorded(servers)
        return frame

    outcomes, sent = converse(servers, watched)
    assert all(not isinstance(outcome, BaseException) for outcome in outcomes)
    assert len(checks(sent)) == SERVERS


@pytest.mark.parametrize("number", range(SERVERS))
def test_where_one_cannot_record_it_nobody_sends(servers, number):
    def full(collection, content):
        raise SpoolError("the disk is full")

    servers[number].ledger.keep_seed = full
    outcomes, sent = converse(servers)
    assert all(isinstance(outcome, SpoolError) for outcome in outcomes)
    assert not checks(sent)


def test_a_server_that_has_recorded_another_seed_never_sends(servers):
    converse(servers[:3])
    other = SeedRecord("ab" * 32, {})
    servers[3].ledger.keep_seed(servers[3].collection.digest, other.encode())
    outcomes, sent = converse(servers)
    assert all(isinstance(outcome, DpmpcError) for outcome in outcomes)
    assert not checks(sent)
    with pytest.raises(BatchMismatch, match=r"abababab.* expected, which is recorded"):
        dealing_checks.keep(servers[3], SeedRecord("cd" * 32, {}))


def record(trial, members, seed=bytes(32), signers=None, names=None):
    message = seed_message(trial.collection, list(members), seed)
    signatures = [sign(trial.folder(signer) / "identity", message).hex() for signer in signers or members]
    names = [str(number) for number in members] if names is None else names
    return SeedRecord(seed.hex(), dict(zip(names, signatures, strict=True))).encode()


def test_two_seeds_that_quorums_have_signed_are_never_mixed(trial, servers):
    for number, seed in ((0, b"\x01" * 32), (1, b"\x02" * 32)):
        servers[number].ledger.keep_seed(trial.collection.digest, record(trial, range(4), seed))
    outcomes, sent = converse(servers)
    for outcome in outcomes:
        assert isinstance(outcome, BatchMismatch)
        assert "server 0 01010101" in str(outcome)
        assert "server 1 02020202" in str(outcome)
    assert not checks(sent)
    assert recorded(servers)[2:] == [None, None]


@pytest.mark.parametrize(
    "content",
    [
        lambda d: record(d, [0, 1]),
        lambda d: record(d, [0, 1, 2], signers=[0, 1, 3]),
        lambda d: record(d, [0, 1, 2], seed=bytes(31)),
        lambda d: record(d, [1, 0, 2]),
        lambda d: record(d, [0, 1, 2], names=["0", "1", "7"]),
        lambda d: record(d, [0, 1, 2], names=["0", "1", "-1"]),
        lambda d: record(d, [0, 1, 2]).replace(b'"signatures":{', b'"signatures":{"-1":"00",'),
        lambda d: record(d, [0, 1, 2]).replace(b"}", b',"99999999999":"00"}', 1),
        lambda d: record(d, [0, 1, 2]).replace(b'"0"', b'"x"'),
        lambda d: record(d, [0, 1, 2]).replace(b'"00000000', b'"zz000000'),
        lambda d: b"\xff",
        lambda d: b"[" * 100,
        lambda d: b" " * (1 << 17),
    ],
    ids=[
        "two of four",
        "a wrong signature",
        "short",
        "order",
        "nobody",
        "below",
        "below beside a quorum",
        "above beside a quorum",
        "name",
        "digits",
        "bytes",
        "deep",
        "long",
    ],
)
def test_what_proves_no_seed_is_refused_with_the_name_of_its_sender(trial, content):
    with blames(2, MalformedFrame):
        read_record(trial.collection, content(trial), 2)
    assert read_record(trial.collection, record(trial, [0, 1, 2]), 2).seed == "00" * 32


def test_a_toss_that_came_out_differently_is_recorded_by_nobody(servers, monkeypatch):
    """Whoever takes another seed from the same coins signs that, and is named for its signature."""
    original = dealing_checks.toss

    async def another(party, what):
        tossed = await original(party, what)
        return bytes(32) if party.pid == 2 else tossed

    monkeypatch.setattr(dealing_checks, "toss", another)
    outcomes, sent = converse(servers)
    for number in (0, 1, 3):
        assert isinstance(outcomes[number], MalformedFrame)
        assert outcomes[number].party == 2
    assert recorded(servers) == [None] * SERVERS
    assert not checks(sent)


@pytest.mark.parametrize(
    ("kind", "nth", "words"),
    [
        ("SEED", 0, b"{}".hex()),
        ("COMMITMENT", 0, ""),
        ("OPENING", 0, ""),
        ("SIGNATURE", 0, ""),
        ("VERDICT", 3, REFUSAL),  # about the signatures, the last word before the seed is recorded
    ],
)
def test_who_tells_two_stories_before_the_seed_is_recorded_is_named_by_all(servers, kind, nth, words):
    outcomes, sent = converse(servers, meddlers={2: lambda runtime: tell_other_words(kind, [1], words, nth, runtime)})
    for number in (0, 1, 3):
        assert isinstance(outcomes[number], Equivocation), outcomes[number]
        assert outcomes[number].party == 2
    assert recorded(servers) == [None] * SERVERS
    assert not checks(sent)


def test_a_signature_of_another_seed_is_named(servers, monkeypatch):
    def signs(folder, message):
        return sign(folder, b"another" if folder == servers[1].identity else message)

    monkeypatch.setattr(dealing_checks, "sign", signs)
    outcomes, sent = converse(servers)
    for number in (0, 2, 3):
        assert isinstance(outcomes[number], MalformedFrame)
        assert outcomes[number].party == 1
    assert recorded(servers)[0] is None
    assert not checks(sent)


def test_different_check_values_for_different_servers_are_noticed(servers):
    def two_faced(sender, receiver, frame):
        if sender == 3 and receiver == 0 and frame.kind is Kind.CHECK:
            return Frame(Kind.CHECK, 3, TASK, frame.words ^ np.uint64(1))
        return frame

    outcomes, _ = converse(servers, two_faced)
    for number, outcome in enumerate(outcomes):
        assert isinstance(outcome, InconsistentShares)
        assert "party 3 sent party 0 others than it announced to all" in str(outcome)
        assert outcome.party == (3 if number == 0 else None), "named by whom it sent them to, and by nobody else"


def test_check_values_that_are_no_field_elements_are_refused(servers):
    def wrong(sender, receiver, frame):
        if sender == 3 and frame.kind is Kind.CHECK:
            return Frame(Kind.CHECK, 3, TASK, np.full(REPORTS, Mersenne61.modulus, np.uint64))
        return frame

    outcomes, _ = converse(servers, wrong)
    for outcome in outcomes[:3]:
        assert isinstance(outcome, MalformedFrame)
        assert outcome.party == 3


def test_check_values_are_sent_in_parts(servers, monkeypatch):
    monkeypatch.setattr(conversation, "WORDS_IN_A_FRAME", 5)
    outcomes, sent = converse(servers)
    assert all(outcome.judgement.good.all() for outcome in outcomes)
    assert {frame.shape for *_, frame in sent if frame.kind is Kind.CHECK} == {(5,), (2,)}
