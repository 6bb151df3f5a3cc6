"""collect/opening/release_protocol.py among parties of one process: what each step waits for, checks and refuses."""

import dataclasses
import datetime
import functools
import shutil
import types

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpmpc.base.errors import BatchMismatch, DpmpcError, InputError, MalformedFrame, VerificationFailed
from dpmpc.collect.opening import agreement, release_protocol
from dpmpc.collect.opening.release_protocol import read_standing, read_statement
from dpmpc.collect.opening.releasing import ReleasingServer, Standing
from dpmpc.collect.store.ledger import State
from dpmpc.collect.store.server_folder import ServerFolder
from dpmpc.collect.terms.verifying import verify
from dpmpc.parties.network import conversation
from dpmpc.parties.network.frames import Frame, Kind, encode
from dpmpc.parties.network.identity import listening_context, serving_context, sign
from dpmpc.parties.network.links import FRAME_LABELS, MOST_UNREAD, PeerLink
from dpmpc.parties.network.meter import Meter, PhaseCost, rounded, statistics_from
from dpmpc.parties.network.settings import read_outcome, read_settings
from support.hostile.servers import PLACES_THAT_ANNOUNCE, meddle, say, tell_other_words, words_of
from support.proved_collections import converse, states
from support.rejections import blames, rejects
from support.release_processes import COUNT, DAY, Trial, copied_or_linked
from support.shamir_collections import kept_names


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return Trial.filled(tmp_path_factory.mktemp("conversation") / "trial")


@pytest.fixture
def trial(original, tmp_path):
    copy = tmp_path / "trial"
    shutil.copytree(original.root, copy, copy_function=copied_or_linked)
    return dataclasses.replace(original, root=copy)


def test_all_write_the_same_file_and_again(trial):
    results = converse(trial)
    assert not [result for result in results if isinstance(result, Exception)], results
    first = {trial.out(server).read_bytes() for server in range(3)}
    assert len(first) == 1
    verified = verify(trial.out(0), trial.collection)
    np.testing.assert_array_equal(verified.release.sums, trial.expected(verified.release))
    assert states(trial) == [[State.OPENED]] * 3
    converse(trial)
    assert {trial.out(server).read_bytes() for server in range(3)} == first


@pytest.mark.parametrize(
    ("nth", "what", "expected"),
    [
        (1, "manifest: party 2 has", []),
        (2, "manifest that is sealed: party 2 has", [State.SEALED]),
        (3, "manifest that is about to be opened: party 2 has", [State.OPENING]),
    ],
)
def test_servers_meet_before_they_seal_bind_and_open(trial, nth, what, expected):
    """Whoever is elsewhere is named there, and no share has been sent."""
    sent = []

    def watch(runtime):
        meddle(lambda sender, receiver, frame: sent.append(frame.kind) or frame, runtime)

    def elsewhere(runtime):
        tell_other_words("DIGEST", [0, 1], "", nth, runtime)

    results = converse(trial, {0: watch, 2: elsewhere})
    for result in results[:2]:
        assert isinstance(result, BatchMismatch)
        assert result.party == 2
        assert what in str(result)
    assert Kind.SHARE not in sent
    assert Kind.SALT not in sent
    assert states(trial)[0] == expected


def order_of_frames(trial, meddlers=None):
    """What server 0 sent to server 1, in order."""
    sent = []

    def watch(runtime):
        def note(sender, receiver, frame):
            if receiver == 1:
                sent.append(frame.kind)
            return frame

        meddle(note, runtime)

    return converse(trial, {0: watch, **(meddlers or {})}), sent


def test_nothing_is_opened_before_all_have_committed_and_stored(trial):
    """After the commitments: all echo, all store, all know that all have."""
    _, sent = order_of_frames(trial)
    begin = sent.index(Kind.SALT) - 4
    expected = [Kind.COMMITMENT, Kind.ECHO, Kind.VERDICT, Kind.ECHO, Kind.SALT, Kind.SHARE]
    assert sent[begin : begin + 6] == expected
    assert sent.index(Kind.SHARE) == begin + 5


def test_before_ids_all_have_heard_the_same(trial):
    for server in (1, 2):
        shutil.rmtree(ServerFolder(trial.folder(server)).spool)
        trial.fill(server, skip=[server])
    results, sent = order_of_frames(trial)
    assert not [result for result in results if isinstance(result, Exception)], results
    at = sent.index(Kind.IDS)
    assert sent[at - 3 : at] == [Kind.DIGEST, Kind.VERDICT, Kind.ECHO]


def test_other_ids_than_were_announced_are_refused(trial):
    for server in (1, 2):
        shutil.rmtree(ServerFolder(trial.folder(server)).spool)
        trial.fill(server, skip=[server])

    def change(sender, receiver, frame):
        if frame.kind is not Kind.IDS:
            return frame
        return sender.frame(frame.kind, frame.raw[:-1] + bytes([frame.raw[-1] ^ 1]))

    results = converse(trial, {2: lambda runtime: meddle(change, runtime)})
    for result in results[:2]:
        assert isinstance(result, BatchMismatch)
        assert result.party == 2
        assert "other report ids than it had announced" in str(result)
    assert states(trial) == [[]] * 3


def test_ids_are_sent_for_the_pieces_that_differ_alone(trial, monkeypatch):
    """Eight pieces by the first three bits of the ids; server 1 lacks two reports, server 2 another one."""
    monkeypatch.setattr(agreement, "PIECE", COUNT // 8 + 1)
    lacked = {1: [trial.ids[3], trial.ids[40]], 2: [trial.ids[3], trial.ids[77]]}
    for server in lacked:
        shutil.rmtree(ServerFolder(trial.folder(server)).spool)
        trial.fill(server, skip=[trial.ids.index(report) for report in lacked[server]])
    sent = []

    def watch(runtime):
        def note(sender, receiver, frame):
            if receiver == 1 and frame.kind is Kind.IDS:
                sent.append(frame.raw)
            return frame

        meddle(note, runtime)

    results = converse(trial, {0: watch})
    assert not [result for result in results if isinstance(result, Exception)], results
    differing = {report[0] >> 5 for reports in lacked.values() for report in reports}
    assert [raw[0] >> 5 for raw in sent] == sorted(differing)
    assert b"".join(sent) == b"".join(sorted(report for report in trial.ids if report[0] >> 5 in differing))
    verified = verify(trial.out(0), trial.collection)
    left = [index for index, report in enumerate(trial.ids) if report not in lacked[1] + lacked[2]]
    np.testing.assert_array_equal(verified.release.sums, trial.expected(verified.release, left))


@given(counts=st.lists(st.integers(0, 1 << 40), min_size=1, max_size=5), data=st.data())
def test_summaries_of_pieces_are_read_or_name_their_sender(counts, data):
    summaries = b"".join(bytes(32) + count.to_bytes(8, "little") for count in counts)
    announced = {0: sum(counts), 1: sum(counts)}
    read = agreement._read_summaries({0: summaries, 1: summaries}, len(counts), announced)
    assert [b"".join(piece[server] for piece in read) for server in (0, 1)] == [summaries, summaries]
    other = data.draw(
        st.sampled_from(
            [summaries[:-1], summaries + bytes(40), summaries[:-8] + (counts[-1] + 1).to_bytes(8, "little")]
        )
    )
    with pytest.raises(MalformedFrame) as caught:
        agreement._read_summaries({0: summaries, 1: other}, len(counts), announced)
    assert caught.value.party == 1


@given(count=st.integers(0, 500), piece=st.integers(1, 100), seed=st.integers(0, 99))
def test_ids_are_cut_by_their_first_bits(count, piece, seed):
    ids = np.unique(np.random.default_rng(seed).integers(0, 256, (count, 16), np.uint8).view("S16"))
    ids = np.frombuffer(ids.tobytes(), np.uint8).reshape(-1, 16)
    parts = agreement.cut(ids, count, piece)
    assert len(parts) * piece >= count > (len(parts) // 2) * piece or len(parts) == 1
    bits = len(parts).bit_length() - 1
    for number, part in enumerate(parts):
        assert all(int.from_bytes(report[:2].tobytes()) >> 16 - bits == number for report in part)
    np.testing.assert_array_equal(np.concatenate(parts), ids)


def test_a_commitment_that_not_all_heard_is_stored_by_nobody(trial):
    results = converse(trial, {2: lambda runtime: tell_other_words("COMMITMENT", [1], "", 1, runtime)})
    assert results[0].party == results[1].party == 2
    for server in range(2):
        (name,) = kept_names(ServerFolder(trial.folder(server)).ledger)
        assert name.startswith("salt of ")
    assert not [result for result in converse(trial) if isinstance(result, Exception)]


@pytest.mark.parametrize("kind", [Kind.SALT, Kind.SHARE])
def test_what_is_opened_is_what_was_committed_to(trial, kind):
    def change(sender, receiver, frame):
        if frame.kind is not kind:
            return frame
        other = b"x" * 32 if kind is Kind.SALT else frame.words ^ np.uint64(1)
        return sender.frame(frame.kind, other)

    results = converse(trial, {2: lambda runtime: meddle(change, runtime)})
    for result in results[:2]:
        assert isinstance(result, MalformedFrame)
        assert "party 2 has shown another share of manifest" in str(result)
        assert result.party == 2


def test_the_salt_is_drawn_before_the_ledger_binds(trial):
    """So that a ledger which has bound reports without a salt has lost it."""

    class Dies(ReleasingServer):
        def bound_share(self, *arguments):
            begin = self.ledger.begin_opening

            def dies(*more):
                assert len(kept_names(self.ledger.folder)) == 1
                raise DpmpcError("dead")

            self.ledger.begin_opening = dies
            try:
                return super().bound_share(*arguments)
            finally:
                self.ledger.begin_opening = begin

    results = converse(trial, kinds={1: Dies})
    assert "dead" in str(results[1])
    assert not [result for result in converse(trial) if isinstance(result, Exception)]


class Late(ReleasingServer):
    """A server whose clock says what it should not, in its standing."""

    def standing(self):
        expired = self.collection.expires + datetime.timedelta(seconds=1)
        return msgspec.structs.replace(super().standing(), time=expired.timestamp())


def test_clocks_are_judged_before_anything_is_agreed(trial):
    results = converse(trial, kinds={2: Late})
    for result in results[:2]:
        assert isinstance(result, MalformedFrame)
        assert result.party == 2
        assert "its clock shows" in str(result)
    assert states(trial) == [[]] * 3


def test_no_server_signs_a_time_that_verify_refuses(original):
    manifest = types.SimpleNamespace(time=(original.collection.expires + DAY).isoformat())
    statement = types.SimpleNamespace(manifest=manifest, sign=lambda identity: b"signed")
    server = types.SimpleNamespace(collection=original.collection, identity=None)
    require_same = release_protocol.require_same
    release_protocol.require_same = lambda given, own: None
    try:
        with rejects("time", VerificationFailed):
            release_protocol.checked_signature(server, statement, statement)
    finally:
        release_protocol.require_same = require_same


def test_a_wrong_signature_is_named(trial):
    places = PLACES_THAT_ANNOUNCE
    before = [place.announce for place in places]
    try:
        say("SIGNATURE", sign(trial.folder(2) / "identity", b"something else").hex(), liar=2)
        results = converse(trial)
    finally:
        for place, announce in zip(places, before, strict=True):
            place.announce = announce
    for result in results[:2]:
        assert isinstance(result, VerificationFailed)
        assert "signature of server 2" in str(result)


# What the frames of the conversation may hold


@functools.cache
def fields_of():
    """Sound words of each kind that holds JSON, from party 1."""
    meter = Meter(1, dict)
    with meter.phase("open"):
        pass
    now = datetime.datetime.now(datetime.UTC).timestamp()
    return {
        "STANDING": msgspec.json.encode(Standing(["ab" * 32], [], now, 0.0)),
        "COST": msgspec.json.encode(meter.statistics()),
        "VERDICT": msgspec.json.encode({"type": "GuaranteeError", "message": "no", "party": None}),
        "STATEMENT": msgspec.json.encode(
            {
                "manifest": {
                    "format": 1,
                    "collection": "00",
                    "batch": "00",
                    "clients": 3,
                    "toss": "00",
                    "attempt": 0,
                    "task": "00",
                    "time": "now",
                },
                "collection": {"a": [1, {"b": None}]},
                "guarantee": {},
                "noise_variance": [1.0],
                "sums": "00",
                "without": [],
                "wrong": {},
            }
        ),
    }


def readers_of(original):
    return {
        "STANDING": lambda raw: read_standing(raw, 1, original.collection),
        "COST": lambda raw: statistics_from(raw, 1),
        "VERDICT": lambda raw: conversation._read_refusal(1, raw),
        "STATEMENT": lambda raw: read_statement(raw, 1),
    }


WILD = [
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"\xff",
    b"",
    b"null",
    b"1e999",
    b"9" * 5000,
    b'"\xed\xa0\x80"',
    b"[Infinity]",
    b"{}",
    b'{"begun":[],"sealed":[],"time":1e400}',
    b'{"type":{},"message":[],"party":"x"}',
]


@pytest.mark.parametrize("kind", ["STANDING", "COST", "VERDICT", "STATEMENT"])
def test_sound_words_are_read(original, kind):
    assert not isinstance(readers_of(original)[kind](fields_of()[kind]), MalformedFrame)


@pytest.mark.parametrize("kind", ["STANDING", "COST", "VERDICT", "STATEMENT"])
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_mutated_words_are_read_or_name_their_sender(original, kind, data):
    """Invalid text, nesting, huge numbers, wrong types, anywhere in sound words: never anything but MalformedFrame."""
    sound = fields_of()[kind]
    place = data.draw(st.integers(0, len(sound)))
    width = data.draw(st.integers(0, 30))
    put = data.draw(st.binary(max_size=12) | st.sampled_from(WILD))
    raw = data.draw(st.sampled_from([sound[:place] + put + sound[place + width :], put]))
    try:
        found = readers_of(original)[kind](raw)
    except MalformedFrame as error:
        found = error
    if isinstance(found, MalformedFrame):
        assert found.party == 1
        assert f"party 1 sent no valid {kind} frame" in str(found) or kind == "COST"
        assert str(found).isprintable()
    elif isinstance(found, DpmpcError):
        assert str(found).startswith("party 1 refuses: ")
        assert str(found).isprintable()


@pytest.mark.parametrize(
    "digests",
    [["AB" * 32], ["ab" * 31], ["\x1b[31m" * 8], ["ab" * 32] * 1001],
    ids=["upper", "short", "escape", "many"],
)
def test_a_standing_holds_digests_only(original, digests):
    raw = msgspec.json.encode({"begun": digests, "sealed": [], "time": 1.0, "closed": 0.0})
    with blames(1, MalformedFrame):
        read_standing(raw, 1, original.collection)


@pytest.mark.parametrize("edge", ["opens", "expires"])
def test_a_clock_lies_between_opening_and_expiry(original, edge):
    moment = getattr(original.collection, edge)
    second = datetime.timedelta(seconds=1)
    inside = moment + second if edge == "opens" else moment - second
    outside = moment - second if edge == "opens" else moment

    def told(time):
        return read_standing(msgspec.json.encode(Standing([], [], time.timestamp(), 0.0)), 1, original.collection)

    assert told(inside).begun == []
    with pytest.raises(MalformedFrame, match="its clock shows"):
        told(outside)


def test_a_server_closed_no_later_than_at_the_closing_time(original):
    closes = original.collection.closes.timestamp()

    def told(closed):
        now = datetime.datetime.now(datetime.UTC).timestamp()
        return read_standing(msgspec.json.encode(Standing([], [], now, closed)), 1, original.collection)

    assert told(closes).closed == closes
    with pytest.raises(MalformedFrame, match="after the closing time"):
        told(closes + 1)


def cost(**changed):
    meter = Meter(1, dict)
    return msgspec.json.encode(msgspec.to_builtins(meter.statistics()) | changed)


NEGATIVE = {"sent": -1, "received": 0}
FINE = {"sent": 1, "received": 0}


@pytest.mark.parametrize(
    ("raw", "remark"),
    [
        (
            cost(peers={"0": {"payload": NEGATIVE, "socket": FINE, "kernel": None}}),
            "sent of payload of 0 of peers = -1",
        ),
        (cost(peers={"0": {"payload": FINE, "socket": FINE, "kernel": NEGATIVE}}), "sent of kernel of 0 of peers"),
        (cost(tcp_info=NEGATIVE), "sent of tcp_info = -1"),
        (cost(phases={"open": {"bytes_sent": -1}}), "bytes_sent of open of phases = -1"),
        (cost(phases={f"phase {number}": {} for number in range(33)}), "phases"),
        (cost(phases={"<script>": {}}), "phases"),
        (cost(phases={"x" * 41: {}}), "phases"),
        (cost(peers={"-1": {"payload": FINE, "socket": FINE, "kernel": None}}), "peers"),
        (cost(phases={"open": {"bytes_sent": 2**61}}), "bytes_sent of open"),
        (b'{"server":1,"phases":{"' + b"x" * 70_000 + b'":{}}}', "more than 65536 bytes"),
    ],
)
def test_no_count_is_negative_wherever_it_stands(raw, remark):
    with blames(1, MalformedFrame) as refused:
        statistics_from(raw, 1)
    assert remark in str(refused.value)


def test_public_times_are_rounded_up_to_tenths():
    report = msgspec.structs.replace(
        Meter(0, dict).statistics(),
        setup_s=0.01,
        phases={"open": PhaseCost(0.11, 0.2, 77)},
        total_s=1.23456,
        cpu_s=0.0,
        peak_rss_mb=81.2,
    )
    told = rounded(report)
    assert (told.setup_s, told.total_s, told.cpu_s, told.peak_rss_mb) == (0.1, 1.3, 0.0, 82.0)
    assert told.phases == {"open": PhaseCost(0.2, 0.2, 77)}
    assert told.bytes_sent == report.bytes_sent


def test_only_rounded_times_are_told_and_shown(trial):
    told = []

    def watch(runtime):
        meddle(lambda sender, receiver, frame: told.append(frame) or frame, runtime)

    results = converse(trial, {1: watch})
    sent = [statistics_from(words_of(frame), 1) for frame in told if frame.kind is Kind.COST]
    assert sent
    assert all(report == rounded(report) for report in sent)
    for released in results:
        for report in released.costs:
            assert rounded(report) == report
    assert results[0].costs == results[1].costs == results[2].costs


# Links and keys


def link(limit=10_000):
    """A link whose peer has been introduced, and what its runtime was told."""
    failures = []
    loop = types.SimpleNamespace(create_future=lambda: types.SimpleNamespace(done=lambda: False))
    runtime = types.SimpleNamespace(
        loop=loop, settings=types.SimpleNamespace(frame_limit=limit), fail=failures.append, pid=0, links={}, parties=[]
    )
    one = PeerLink(runtime, None, 1)
    one.transport = types.SimpleNamespace(abort=lambda: None)
    return one, failures


def message(label, payload=b""):
    return label.to_bytes(8, "little", signed=True) + len(payload).to_bytes(4, "little") + payload


def test_a_link_is_closed_once_and_can_be_aborted_after():
    class OldTLSTransport:
        """Python 3.11.2's: a second `close` forgets the connection, and `abort` then ends in an AttributeError."""

        def __init__(self):
            self.deeds = []

        def is_closing(self):
            return bool(self.deeds)

        def close(self):
            assert not self.deeds
            self.deeds.append("close")

        def abort(self):
            self.deeds.append("abort")

    one, _ = link()
    one.transport = OldTLSTransport()
    one.close_connection()
    one.close_connection()
    one.transport.abort()
    one.close_connection()
    assert one.transport.deeds == ["close", "abort"]


def test_unread_messages_are_bounded_in_number():
    one, failures = link()
    one.data_received(b"".join(message(label) for label in range(1, MOST_UNREAD + 1)))
    assert failures == []
    one.data_received(message(MOST_UNREAD + 1))
    assert "party 1 sent more than 65536 messages" in str(failures[0])
    assert failures[0].party == 1
    assert len(one.buffers) == MOST_UNREAD


def test_unread_messages_are_bounded_in_bytes():
    one, failures = link(limit=100)
    for label in (1, 2):
        one.data_received(message(label, bytes(40)))
    assert failures == []
    one.data_received(message(3, bytes(21))[:12])
    assert "announced 21 bytes with 80 unread" in str(failures[0])


@pytest.mark.parametrize(("certified", "refused"), [(1, False), (2, True)])
def test_a_caller_is_the_party_of_its_certificate(certified, refused):
    one, failures = link()
    one.peer_pid, one.runtime.pid = None, 5
    one.runtime.settings.without = ()
    one.runtime.set_protocol = one.runtime.links.__setitem__
    one.introduced = types.SimpleNamespace(set_result=lambda result: None)
    names = {"subjectAltName": (("DNS", f"party-{certified}"),)}
    one.transport = types.SimpleNamespace(abort=lambda: None, get_extra_info=lambda name: names)
    one.data_received((1).to_bytes(2, "little"))
    assert bool(failures) is refused
    assert list(one.runtime.links) == ([] if refused else [1])
    assert not refused or "with the certificate of ['party-2'] claimed to be party 1" in str(failures[0])


def test_the_first_unread_frame_of_a_kind_is_found():
    one, _ = link()
    assert one.unread(Kind.DISPUTE) is None
    early, late = (encode(Frame(Kind.DISPUTE, 1, bytes(32), content)) for content in (b"1", b"2"))
    one.data_received(message(-3, late) + message(-2, early) + message(-1, b"nothing") + message(7, late))
    assert one.unread(Kind.DISPUTE) == early
    assert one.unread(Kind.ECHO) is None
    assert -1 in FRAME_LABELS


def test_one_process_at_a_time_answers_for_a_server(tmp_path):
    tmp_path.chmod(0o700)
    folder = ServerFolder(tmp_path)
    twice = r"in use by another `dpmpc release` of server 0 \(process \d+\)"
    for _ in range(2):
        with folder.releasing(0):
            with pytest.raises(InputError, match=twice), folder.releasing(0):
                pass
            assert (tmp_path / "release.lock").stat().st_mode & 0o777 == 0o600


def test_sessions_are_never_resumed(original):
    identity = original.folder(0) / "identity"
    (identity / "ca.crt").write_bytes((identity / "party.crt").read_bytes())
    assert listening_context(identity).num_tickets == 0
    assert serving_context(identity).num_tickets == 0


def test_the_same_words_get_the_same_signature(original):
    identity = original.folder(0) / "identity"
    assert sign(identity, b"words") == sign(identity, b"words")
    assert sign(identity, b"words") != sign(identity, b"other words")


def test_party_settings_of_any_bytes_are_a_typed_error(tmp_path):
    for content in WILD:
        (tmp_path / "party.json").write_bytes(content)
        (tmp_path / "outcome.json").write_bytes(content)
        with pytest.raises(InputError, match=r"settings of a party"):
            read_settings(tmp_path)
        assert read_outcome(tmp_path) is None


@pytest.mark.parametrize(
    "counts", [{"dealt wrongly": 1}, {"damaged": 0}, {"damaged": 11}, {"something": 1}, {"damaged": -1}, [1]]
)
def test_no_server_claims_to_leave_out_more_than_it_can_hold(counts):
    with blames(2, MalformedFrame):
        release_protocol.read_left_out(msgspec.json.encode(counts), 2, 10)
    assert release_protocol.read_left_out(b'{"damaged":10,"released before":1}', 2, 10) == {
        "damaged": 10,
        "released before": 1,
    }
