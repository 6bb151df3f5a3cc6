"""dpmpc/collect/opening/noise_dealing.py: noise that servers deal, those that lie about it, and what is kept of it."""

import hashlib

import numpy as np
import pytest

from dpmpc.base.errors import InconsistentShares, MalformedFrame, SpoolError, VerificationFailed
from dpmpc.collect.opening import noise_dealing
from dpmpc.collect.store.openings import Openings
from dpmpc.collect.terms.shamir_claims import check_dealers
from dpmpc.collect.terms.verifying import verify
from dpmpc.linear.proving.decide import Verdicts
from dpmpc.linear.sharing import ShamirSharing
from dpmpc.parties.network import conversation
from dpmpc.parties.network.frames import Kind
from dpmpc.release.client import Client
from support.hostile import shamir_servers
from support.hostile.servers import FIELD, agreed_lie, meddle
from support.proved_collections import rows_of_clients, states
from support.rejections import rejects
from support.release_processes import COUNT, Trial
from support.shamir_collections import SHAMIR, converse, dying, kept_names, kept_noise, no_noise, released


def test_the_manifest_names_what_was_dealt(deployed, silent, monkeypatch):
    """SHA-256(label || number of dealers || for each its number || its seeds), which change with every run."""
    noted, original = [], noise_dealing.NoiseDealer.digest

    def note(self):
        digest = original(self)
        content = b"".join(dealer.to_bytes(4, "little") + self.seeds(dealer).tobytes() for dealer in (0, 1, 2))
        assert digest == hashlib.sha256(b"dpmpc v1 list of dealings" + b"\3\0\0\0" + content).digest()
        noted.append(digest.hex())
        return digest

    monkeypatch.setattr(noise_dealing.NoiseDealer, "digest", note)
    trial = deployed(3)
    assert "dead" in str(converse(trial, kinds={1: dying(("openings", "keep_noise", "before"))})[1])
    verified = released(trial, converse(trial))
    assert verified.certificate.statement.manifest.noise == noted[-1]
    assert [len(set(noted[:3])), len(set(noted[3:])), len(set(noted))] == [1, 1, 2]


def test_the_noise_is_there_and_of_the_variance_that_is_stated(deployed, monkeypatch):
    """Nine sums hold what three servers drew, each its own; of many draws see tests/privacy/test_dealt_noise.py."""
    drawn = []
    original = noise_dealing.draw_dealt

    def noted(task, stream, threads=1):
        drawn.append(original(task, stream, threads=threads))
        return drawn[-1]

    monkeypatch.setattr(noise_dealing, "draw_dealt", noted)
    trial = deployed(3)
    assert not [result for result in converse(trial).values() if isinstance(result, Exception)]
    release = verify(trial.out(0), trial.collection).release
    expected = Client(trial.collection.plan.verify()).encode(rows_of_clients()).sum(axis=0)
    assert len(drawn) == 3
    np.testing.assert_array_equal(release.sums[0] - expected, sum(drawn)[0])
    assert len({noise.tobytes() for noise in drawn}) == 3
    away = np.abs(release.sums[0] - expected) * release.task.units
    assert 0 < away.max() < 8 * release.noise_variance[0] ** 0.5


def test_noise_of_a_sketch_in_several_blocks_and_frames(tmp_path, monkeypatch):
    """80 cells are two blocks of each dealer, here sent in frames of one block."""
    drawn, original = [], noise_dealing.draw_dealt

    def noted(task, stream, threads=1):
        drawn.append(original(task, stream, threads=threads))
        return drawn[-1]

    monkeypatch.setattr(noise_dealing, "draw_dealt", noted)
    monkeypatch.setattr(conversation, "WORDS_IN_A_FRAME", 1)
    options = {**SHAMIR, "sketch": "osnap", "rows": 40, "sparsity": 2}
    trial = Trial.filled(tmp_path / "trial", 3, **options)
    results = converse(trial)
    assert not [result for result in results.values() if isinstance(result, Exception)], results
    release = verify(trial.out(0), trial.collection).release
    assert release.task.dealt_noise.blocks == 2
    order = sorted(range(COUNT), key=lambda index: trial.ids[index])
    encoded = Client(trial.collection.plan.verify()).encode(rows_of_clients()[order])
    expected = release.task.sketch.to_csc().astype(np.int64) @ encoded
    np.testing.assert_array_equal(release.sums - expected, sum(drawn))


# Servers that lie about noise


def with_dealer(monkeypatch, number, kind, *arguments):
    monkeypatch.setattr(noise_dealing, "NoiseDealer", shamir_servers.at_one_server(number, kind, *arguments))


def ended_by(results, error, message, party, among):
    for server in among:
        assert isinstance(results[server], error), results[server]
        assert message in str(results[server])
        assert results[server].party == party


def test_noise_beyond_its_range_is_refused_and_its_dealer_named(deployed, silent, monkeypatch):
    """Nothing is bound, and the others go on without it."""
    trial = deployed(4)
    with_dealer(monkeypatch, 2, shamir_servers.DealsWitness, shamir_servers.beyond_the_range)
    results = converse(trial)
    ended_by(results, InconsistentShares, "what servers [2] dealt is not within its range", 2, range(4))
    assert states(trial) == [[]] * 4
    assert kept_noise(trial) == [[]] * 4
    monkeypatch.undo()
    monkeypatch.setattr(noise_dealing, "draw_dealt", no_noise)
    released(trial, converse(trial, servers=[0, 1, 3]))


def test_noise_dealt_on_no_polynomial_ends_the_run(deployed, silent, monkeypatch):
    """Server 3 deals server 0 a word that is off: one of the two lies, and nobody else can tell which."""
    trial = deployed(4)
    with_dealer(monkeypatch, 3, shamir_servers.DealsOneWordOff, 0, 5)
    results = converse(trial)
    message = "the messages about what servers [3] dealt lie on no polynomial of degree 1"
    ended_by(results, InconsistentShares, message, None, range(4))
    assert "server 0 is off in that of servers [3]" in str(results[1])


@pytest.mark.parametrize(("servers", "named"), [(3, None), (4, 1)])
def test_a_server_that_lies_about_all_noise_is_named_among_four(deployed, silent, monkeypatch, servers, named):
    trial = deployed(servers)
    others = [number for number in range(servers) if number != 1]
    with_dealer(monkeypatch, 1, shamir_servers.AnswersWrongly, others)
    results = converse(trial)
    message = "server 1 sent messages about the noise of servers [0, 2, 3] that are off"
    ended_by(results, InconsistentShares, message if named else "lie on no polynomial", named, others)
    assert states(trial) == [[]] * servers


def test_a_share_of_noise_with_another_hash_names_its_dealer(deployed, silent, monkeypatch):
    def of_hash(rows):
        rows[0, 2] ^= np.uint64(1)
        return rows

    trial = deployed(3)
    with_dealer(monkeypatch, 2, shamir_servers.ChangesWhatIsDealt, 0, of_hash)
    results = converse(trial)
    assert results[0].party == 2
    assert "server 2 lists another hash of the share of server 0" in str(results[0])
    assert "party 0 refuses: noise: server 2 lists another hash" in str(results[1])


def test_different_lists_of_noise_end_the_run(deployed, silent, monkeypatch):
    def another_list(rows):
        rows[0, 2 + 4] ^= np.uint64(1)  # the hash of the share of server 1
        return rows

    trial = deployed(3)
    with_dealer(monkeypatch, 2, shamir_servers.ChangesWhatIsDealt, 0, another_list)
    results = converse(trial)
    assert [type(results[server]) for server in (0, 1)] == [InconsistentShares] * 2
    assert "lists of dealt noise: party 2 sent party 0 others than it announced to all" in str(results[0])
    assert (results[0].party, results[1].party) == (2, None), "named by whom it dealt them to"


def test_words_of_noise_that_are_no_elements_name_their_server(deployed, silent, monkeypatch):
    def outside(rows):
        rows[0, -1] = 2**61 - 1
        return rows

    trial = deployed(3)
    with_dealer(monkeypatch, 2, shamir_servers.ChangesWhatIsDealt, 0, outside)
    results = converse(trial)
    assert isinstance(results[0], MalformedFrame)
    assert results[0].party == 2
    assert "sent no valid NOISE frame" in str(results[0])


def test_different_messages_about_noise_bind_nothing(deployed, silent):
    trial = deployed(3)
    results = converse(trial, {2: off_by_one(Kind.NOISE_PROOF, (0, 0), (0,))})
    assert [type(results[server]) for server in (0, 1)] == [InconsistentShares] * 2
    assert "messages about noise: party 2 sent party 0 others" in str(results[0])
    assert (results[0].party, results[1].party) == (2, None)
    assert states(trial) == [[]] * 3
    released(trial, converse(trial))


def off_by_one(kind, place, victims):
    """A meddler that sends the same wrong word to all others."""

    def set_up(runtime):
        def changed(sender, receiver, frame):
            if frame.kind is not kind or receiver not in victims:
                return frame
            words = frame.words.copy()
            words[place] = (int(words[place]) + 1) % (2**61 - 1)
            return sender.frame(frame.kind, words)

        meddle(changed, runtime)

    return set_up


def verdicts_of(dealers, blocks, false=(), off=None):
    """Verdicts about so many blocks of each dealer; `off` maps a server to dealers in whose first block it is odd."""
    count = len(dealers) * blocks
    accepted, inconsistent = np.ones(count, np.bool_), np.zeros(count, np.bool_)
    odd = {server: np.zeros(count, np.bool_) for server in dealers}
    for dealer in false:
        accepted[dealers.index(dealer) * blocks] = False
    for server, about in (off or {}).items():
        for dealer in about:
            place = dealers.index(dealer) * blocks
            accepted[place], inconsistent[place] = False, True
            odd[server][place] = True
    return Verdicts(accepted, inconsistent, odd)


@pytest.mark.parametrize(
    ("servers", "threshold", "false", "off", "party"),
    [
        (4, 1, [], {}, "nobody"),
        (4, 1, [3], {}, 3),
        (4, 1, [3], {0: [1, 2]}, 3),
        (4, 1, [], {0: [1]}, None),
        (4, 1, [], {0: [0, 1]}, None),
        (4, 1, [], {0: [1, 2]}, 0),
        (7, 2, [], {0: [1, 2]}, None),
        (7, 2, [], {0: [1, 2, 3]}, 0),
    ],
)
def test_who_is_named(servers, threshold, false, off, party):
    dealers, scheme = list(range(servers)), ShamirSharing(servers, threshold)
    verdicts = verdicts_of(dealers, 2, false, off)
    if party == "nobody":
        noise_dealing.judge(scheme, dealers, verdicts)
        return
    with pytest.raises(InconsistentShares, match="noise: ") as raised:
        noise_dealing.judge(scheme, dealers, verdicts)
    assert raised.value.party == party


def test_two_liars_of_five_have_nobody_named_for_messages_about_noise(deployed, silent, monkeypatch):
    """Their messages and those of two honest servers fit one polynomial, which the third honest server is off."""
    original = noise_dealing.NoiseDealer.answers

    def lying(self, point, joint):
        words = original(self, point, joint)
        if self._number in (3, 4):
            words = FIELD.add(words, np.full(words.shape, agreed_lie(self._number, (0, 1), 7), np.uint64))
        return words

    monkeypatch.setattr(noise_dealing.NoiseDealer, "answers", lying)
    trial = deployed(5)
    results = converse(trial)
    ended_by(results, InconsistentShares, "(nobody is alone in being off)", None, range(5))
    assert states(trial) == [[]] * 5


# Crashes


def test_what_was_begun_goes_on_with_the_same_noise(deployed, monkeypatch):
    """One server has bound its share when another dies: the repetition deals nothing."""
    drawn = []
    original = noise_dealing.draw_dealt

    def noted(task, stream, threads=1):
        drawn.append(original(task, stream, threads=threads))
        return drawn[-1]

    monkeypatch.setattr(noise_dealing, "draw_dealt", noted)
    trial = deployed(3)
    results = converse(trial, kinds={1: dying(("self", "bound_share", "before"))})
    assert "dead" in str(results[1])
    assert states(trial) == [["opening"], ["sealed"], ["opening"]]
    assert len(drawn) == 3
    results = converse(trial)
    assert not [result for result in results.values() if isinstance(result, Exception)], results
    assert len(drawn) == 3
    release = verify(trial.out(0), trial.collection).release
    expected = Client(trial.collection.plan.verify()).encode(rows_of_clients()).sum(axis=0)
    np.testing.assert_array_equal(release.sums[0] - expected, sum(drawn)[0])


def test_a_run_that_bound_nothing_deals_other_noise(deployed, monkeypatch):
    """A dealing is answered for at one point only: no run takes up what an earlier one dealt."""
    dealt, original = [], noise_dealing.NoiseDealer.deal

    def noted(self):
        rows = original(self)
        dealt.append(rows[0].tobytes())
        return rows

    monkeypatch.setattr(noise_dealing.NoiseDealer, "deal", noted)
    trial = deployed(3)
    for step in (("openings", "keep_noise", "after"), ("self", "seal", "after")):
        results = converse(trial, kinds={1: dying(step)})
        assert "dead" in str(results[1])
    assert not [result for result in converse(trial).values() if isinstance(result, Exception)]
    assert len(dealt) == len(set(dealt)) == 9


# What is kept, and what files say


def test_kept_noise_is_private_and_damage_is_noticed(tmp_path):
    ours, theirs = b"c" * 32, b"d" * 32
    kept, share = Openings(tmp_path), np.arange(6, dtype=np.uint64).reshape(2, 3)
    kept.keep_noise(ours, bytes(32), share)
    kept.keep_noise(ours, b"\1" * 32, share + np.uint64(1))
    (path,) = tmp_path.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    assert np.array_equal(kept.noise(ours, bytes(32), (2, 3)), share)
    for shape in ((2, 4), (1, 3)):
        with pytest.raises(SpoolError):
            kept.noise(ours, bytes(32), shape)
    with pytest.raises(SpoolError):
        kept.noise(ours, b"\2" * 32, (2, 3))
    content = path.read_bytes()
    place = content.index(share.tobytes())
    for other in (b"\1" + share.tobytes()[1:], (share + np.uint64(1)).tobytes()):  # a bit; that of another manifest
        path.write_bytes(content[:place] + other + content[place + 48 :])
        with pytest.raises(SpoolError):
            kept.noise(ours, bytes(32), (2, 3))
    path.write_bytes(content)
    kept.keep_noise(theirs, bytes(32), share)  # a collection with the same ledger, which is about to seal
    kept.forget_noise_but_of(ours, {b"\1" * 32})
    assert np.array_equal(kept.noise(theirs, bytes(32), (2, 3)), share)
    kept.forget_noise(theirs, bytes(32))
    with pytest.raises(SpoolError):
        kept.noise(ours, bytes(32), (2, 3))
    assert np.array_equal(kept.noise(ours, b"\1" * 32, (2, 3)), share + np.uint64(1))
    kept.forget_noise(ours, b"\1" * 32)
    kept.forget_noise(ours, b"\1" * 32)
    assert kept_names(tmp_path) == []
    content = path.read_bytes()
    assert share.tobytes() not in content
    assert (share + np.uint64(1)).tobytes() not in content


@pytest.mark.parametrize(
    ("dealers", "noise"),
    [
        *((dealers, "ab" * 32) for dealers in ([], [0, 1], [0, 1, 1], [2, 1, 0], [0, 1, 3])),
        *(([0, 1, 2], noise) for noise in ("", "AB" * 32, "ab" * 31)),
    ],
)
def test_dealers_that_cannot_be_do_not_verify(originals, dealers, noise):
    with pytest.raises(VerificationFailed, match=r"dealers: |noise: "):
        check_dealers(originals(3).collection, dealers, noise)


def test_a_task_of_a_collection_says_how_many_dealt(originals):
    collection = originals(4).collection
    assert collection.task(COUNT, bytes(32), dealers=4).noise_terms.tolist() == [4]
    with rejects("dealers", expected="how many servers dealt noise"):
        collection.task(COUNT, bytes(32))
    with rejects("dealers", given="2"):
        collection.task(COUNT, bytes(32), dealers=2)
