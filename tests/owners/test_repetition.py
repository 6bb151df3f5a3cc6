"""Owners that run again after a run that failed: the others keep them to what they had committed to.

All owners run in this process, each with its folder on the disk; a crash is an exception from a step of the program.
"""

import numpy as np
import pytest

from dpmpc.base.errors import (
    BatchMismatch,
    DpmpcError,
    Equivocation,
    InputError,
    MalformedFrame,
    ProtocolFailure,
    SpoolError,
)
from dpmpc.base.storage.kept import KEPT_FILE
from dpmpc.owners.columns import design
from dpmpc.owners.columns.mixed_release import MixedRelease
from dpmpc.owners.columns.mixing_parties import RELEASE_FILE, PartySource, public_arguments
from dpmpc.owners.columns.release_record import MOST_COMPARISONS, ReleaseRecord
from dpmpc.parties.network import conversation
from dpmpc.parties.network.frames import Kind
from dpmpc.parties.network.settings import digest_of, write_source
from dpmpc.protocols import random_mixing
from support.hostile.servers import meddle, tell_other_words
from support.kept_files import commitments_of, forget_folder, kept_on_disk
from support.talk import identities, talk

COLUMNS, SUBJECTS = (["x"], ["y", "z"], ["w"]), 8
IDS = [f"person-{number}" for number in range(SUBJECTS)]
OTHER_NONCE = b"n" * 32


class Crash(Exception):
    """The process of a party ends."""


class Owners:
    """Three owners with folders that stay from run to run."""

    def __init__(self, folder):
        self.arguments = public_arguments(design(COLUMNS, SUBJECTS, 1.0, 1e-5, rows=None), ["a", "b", "c"], "dgm")
        self.folders = identities(folder / "parties", 3)
        for there, names in zip(self.folders, COLUMNS, strict=True):
            cells = ",".join(["0.5"] * len(names))
            rows = "".join(f"{name},{cells}\n" for name in IDS)
            (there / "data.csv").write_text(f"id,{','.join(names)}\n{rows}")
            write_source(there, PartySource(str(there / "data.csv"), "id"))

    def run(self, deeds=None):
        """Run all; `deeds[number](party)` changes a party before it begins. Return what each returned or raised."""

        async def program(party):
            if deeds and party.pid in deeds:
                deeds[party.pid](party)
            return await random_mixing.take_part(party)

        return talk(self.folders, program, arguments=self.arguments, task=digest_of("talk", self.arguments))

    def published(self):
        return [number for number, there in enumerate(self.folders) if (there / RELEASE_FILE).exists()]

    def comparisons(self):
        return [int.from_bytes(kept_on_disk(there)["comparisons of ids"], "little") for there in self.folders]

    def release(self, number):
        return MixedRelease.load(self.folders[number] / RELEASE_FILE).sums


@pytest.fixture
def owners(tmp_path):
    return Owners(tmp_path)


def before(kind, what, nth=1):
    """A party that does something before the nth time that it sends a frame of a kind."""

    def deed(party):
        send, seen = party.runtime.send_frame, []

        async def send_frame(receiver, frame):
            seen.append(frame.kind)
            if seen.count(kind) == nth and frame.kind == kind:
                what(party)
            await send(receiver, frame)

        party.runtime.send_frame = send_frame

    return deed


def crash(party):
    raise Crash


def as_itself(party, monkeypatch, **methods):
    """Change what the record of one party does, and of no other."""
    for name, changed in methods.items():
        honest = getattr(ReleaseRecord, name)

        def method(record, *given, honest=honest, changed=changed):
            mine = record._folder == party.folder
            return changed(record, *given) if mine else honest(record, *given)

        monkeypatch.setattr(ReleaseRecord, name, method)


def commits_to_another(monkeypatch, release=True):
    """A party that keeps no promise: it commits to another release, or to the same with another nonce."""

    def deed(party):
        as_itself(party, monkeypatch, keep_commitments=lambda record, commitments: None)
        nonce = ReleaseRecord.nonce.fget
        changed = property(lambda record: OTHER_NONCE if record._folder == party.folder else nonce(record))
        monkeypatch.setattr(ReleaseRecord, "nonce", changed)
        if release:
            own = ReleaseRecord.own_release
            as_itself(party, monkeypatch, own_release=lambda record, toss, shape: own(record, toss, shape) + 1)

    return deed


@pytest.mark.parametrize("release", [True, False], ids=["another release", "the same under another nonce"])
@pytest.mark.parametrize("leaves", [Kind.SALT, Kind.SHARE], ids=["before it shows anything", "with the nonces"])
def test_an_owner_that_commits_leaves_and_commits_to_something_else_is_named(owners, monkeypatch, leaves, release):
    first = owners.run({1: before(leaves, crash)})
    assert isinstance(first[1], Crash)
    assert owners.published() == []
    with monkeypatch.context() as patched:
        again = owners.run({1: commits_to_another(patched, release)})
    for number in (0, 2):
        assert isinstance(again[number], BatchMismatch)
        assert "party 1 commits to another release than in an earlier run" in str(again[number])
        assert again[number].party == 1
    assert owners.published() == []
    assert owners.run() == [{}, {}, {}], "who stands by its release may still take part"


@pytest.mark.parametrize("hostile", [0, 2])
def test_an_owner_that_crashes_before_it_keeps_commitments_is_no_way_to_commit_anew(owners, monkeypatch, hostile):
    """Party 1 agrees on the commitments and crashes; had anybody shown its release, another could be fitted to it."""
    shown = []

    def watch(party):
        send = party.runtime.send_frame

        async def send_frame(receiver, frame):
            if frame.kind == Kind.SHARE:
                shown.append(party.pid)
            await send(receiver, frame)

        party.runtime.send_frame = send_frame

    def crash_at_the_disk(record, commitments):
        raise Crash

    honest = 2 - hostile
    with monkeypatch.context() as patched:

        def agree_and_crash(party):
            watch(party)
            as_itself(party, patched, keep_commitments=crash_at_the_disk)

        first = owners.run({honest: watch, 1: agree_and_crash})
    assert isinstance(first[1], Crash)
    assert isinstance(first[honest], ProtocolFailure)
    assert shown == [], "nobody honest has shown a release that others may fit theirs to"
    with monkeypatch.context() as patched:
        again = owners.run({hostile: commits_to_another(patched), 1: watch, honest: watch})
    assert isinstance(again[honest], BatchMismatch)
    assert again[honest].party == hostile
    assert shown == [], "party 1 had kept nothing, and waits for who has"
    assert owners.published() == []


def test_nothing_is_shown_to_an_owner_that_has_changed_its_commitment(owners, monkeypatch):
    owners.run({1: before(Kind.SHARE, crash)})
    shown = []

    def watch(party):
        send = party.runtime.send_frame

        async def send_frame(receiver, frame):
            shown.append((frame.kind, len(frame.raw or b"")))
            await send(receiver, frame)

        party.runtime.send_frame = send_frame

    with monkeypatch.context() as patched:
        owners.run({0: watch, 1: commits_to_another(patched), 2: watch})
    assert not {Kind.SHARE, Kind.SALT} & {kind for kind, _ in shown}
    assert [kind for kind, _ in shown].count(Kind.OPENING) == 2 * 2, "coins alone"


def test_an_owner_whose_record_is_damaged_is_refused_by_itself(owners):
    owners.run({1: before(Kind.SHARE, crash)})
    path = owners.folders[1] / KEPT_FILE
    nonce = kept_on_disk(owners.folders[1])["nonce"]
    path.write_bytes(path.read_bytes().replace(nonce, nonce[::-1]))
    again = owners.run()
    assert isinstance(again[1], SpoolError)
    assert "'nonce' changed since it was kept" in str(again[1])
    assert owners.published() == []


def test_an_owner_whose_record_is_gone_refuses_itself_and_says_so(owners):
    """Its mark tells that it has begun: a new coin and a new release would spend further budget."""
    owners.run({1: before(Kind.SHARE, crash)})
    (owners.folders[1] / KEPT_FILE).unlink()
    again = owners.run()
    assert "kept.sqlite was removed or emptied since this folder began" in str(again[1])
    for number in (0, 2):
        assert str(again[number]).startswith("party 1 refuses: the reason is in its own log (InputError)")
    assert owners.published() == []
    assert not (owners.folders[1] / KEPT_FILE).exists()


def test_an_owner_that_has_lost_its_folder_gets_no_second_release_from_the_others(owners):
    """It has another coin, so another toss: whoever has made its release refuses."""
    owners.run({1: before(Kind.SHARE, crash)})
    forget_folder(owners.folders[1])
    again = owners.run()
    for number in (0, 2):
        assert isinstance(again[number], InputError)
        assert "made under another toss" in str(again[number])
    assert owners.published() == []


def test_an_owner_with_its_old_coin_and_a_new_release_is_refused_too(owners):
    """Its folder was put back to before it had made its release: the others keep what it had committed to."""
    early = owners.run({1: before(Kind.COMMITMENT, crash, nth=3)})  # coin, then the comparison's first step
    assert isinstance(early[1], Crash)
    backup = (owners.folders[1] / KEPT_FILE).read_bytes()
    owners.run({1: before(Kind.SHARE, crash)})
    (owners.folders[1] / KEPT_FILE).write_bytes(backup)
    again = owners.run()
    for number in (0, 2):
        assert isinstance(again[number], BatchMismatch)
        assert again[number].party == 1
    assert owners.published() == []


def test_ids_are_compared_until_all_have_made_their_release_and_not_again(owners):
    """So a party that is lost again and again while releases are shown does not use up anybody's comparisons."""
    for _ in range(MOST_COMPARISONS + 2):
        owners.run({1: before(Kind.SHARE, crash)})
    assert owners.comparisons() == [1, 1, 1]
    assert owners.run() == [{}, {}, {}]


def test_ids_are_compared_again_for_an_owner_that_has_not_made_its_release(owners, monkeypatch):
    with monkeypatch.context() as patched:
        owners.run({1: lambda party: as_itself(party, patched, keep=lambda record, toss, own: crash(party))})
    assert ["release" in kept_on_disk(there) for there in owners.folders] == [True, False, True]
    assert owners.run() == [{}, {}, {}]
    assert owners.comparisons() == [2, 2, 2]


def test_whoever_says_falsely_that_it_has_made_its_release_gets_nothing_and_no_honest_owner_is_accused(owners):
    """Party 1 tells party 0 that nothing need be compared, and party 2 that it must."""
    owners.run({1: before(Kind.SHARE, crash)})

    kept = [commitments_of(there) for there in owners.folders]
    outcomes = owners.run({1: two_stories("STANDING", 2)})
    for number in (0, 2):
        assert isinstance(outcomes[number], Equivocation)
        assert outcomes[number].party == 1
    assert [commitments_of(there) for there in owners.folders] == kept
    assert owners.run() == [{}, {}, {}]


def test_whoever_changes_its_coin_has_no_honest_owner_blamed_that_refuses(owners, monkeypatch):
    """Owner 0 alone has made its release; owner 2 knows why it goes no further, and misses nobody."""
    with monkeypatch.context() as patched:
        ends = {n: lambda party: as_itself(party, patched, keep=lambda record, toss, own: crash(party)) for n in (1, 2)}
        owners.run(ends)
    assert ["release" in kept_on_disk(there) for there in owners.folders] == [True, False, False]
    forget_folder(owners.folders[1])
    refused, _, other = owners.run()
    assert "made under another toss" in str(refused)
    assert isinstance(other, InputError)
    assert str(other).startswith("party 0 refuses")


# A liar among three: whoever knows it names it, and nobody else is ever named


def two_stories(kind, victim, nth=0):
    """A party that announces something else to one other."""
    return lambda party: tell_other_words(kind, [victim], "", nth, party.runtime)


STEPS = ("coin", "key", "ciphertext", "mask", "opening", "release")
STORIES = [
    *[pytest.param("COMMITMENT", nth, id=f"commits to two: {step}") for nth, step in enumerate(STEPS)],
    *[pytest.param("OPENING", nth, id=f"shows two: {step}") for nth, step in enumerate(STEPS[:-1])],
    pytest.param("STANDING", 0, id="has made its release, and has not"),
    pytest.param("DIGEST", 0, id="joined two files"),
]


@pytest.mark.parametrize(("kind", "nth"), STORIES)
def test_whoever_announces_two_things_at_any_step_is_named_by_both_others(owners, kind, nth):
    outcomes = owners.run({1: two_stories(kind, 2, nth)})
    for number in (0, 2):
        assert isinstance(outcomes[number], Equivocation | MalformedFrame | BatchMismatch), outcomes
        assert outcomes[number].party == 1
    assert owners.published() == []


@pytest.mark.parametrize("kind", [Kind.SHARE, Kind.SALT])
@pytest.mark.parametrize("victims", [[2], [0, 2]], ids=str)
def test_whoever_shows_another_release_than_it_committed_to_is_named_by_whom_it_showed_it_to(owners, kind, victims):
    def other(sender, receiver, frame):
        if frame.kind is not kind or receiver not in victims:
            return frame
        return sender.frame(kind, frame.words + np.uint64(1) if kind is Kind.SHARE else frame.raw[::-1])

    outcomes = owners.run({1: lambda party: meddle(other, party.runtime)})
    for number in (0, 2):
        assert isinstance(outcomes[number], MalformedFrame), outcomes
        assert outcomes[number].party == (1 if number in victims else None)
        assert "party 1 has shown another release than it committed to" in str(outcomes[number])
    assert owners.published() == []


@pytest.mark.parametrize("step", range(5), ids=STEPS[:-1])
def test_whoever_shows_all_something_else_than_it_committed_to_is_named_by_all(owners, monkeypatch, step):
    """It signs one story: only the commitment tells."""
    announce, openings = conversation.announce, []

    async def lying(party, kind, own, *rest, **options):
        if party.pid == 1 and kind is Kind.OPENING:
            openings.append(own)
            if len(openings) == step + 1:
                own = own[:-1] + bytes([own[-1] ^ 1])
        return await announce(party, kind, own, *rest, **options)

    monkeypatch.setattr(conversation, "announce", lying)
    outcomes = owners.run()
    for number in (0, 2):
        assert isinstance(outcomes[number], MalformedFrame), outcomes
        assert outcomes[number].party == 1
        assert "than it committed to" in str(outcomes[number])
    assert owners.published() == []


def test_an_honest_party_is_not_named_by_what_a_liar_says_of_it(owners, monkeypatch):
    """Party 1 refuses the release of party 0 without a reason: what it says convicts nobody."""

    def refuses(record, commitments):
        raise BatchMismatch("party 0 commits to another release than in an earlier run", 0)

    with monkeypatch.context() as patched:
        outcomes = owners.run({1: lambda party: as_itself(party, patched, keep_commitments=refuses)})
    for number in (0, 2):
        assert isinstance(outcomes[number], DpmpcError)
        assert outcomes[number].party is None
        assert "party 1 refuses: party 0 commits to another" in str(outcomes[number])
    assert owners.run() == [{}, {}, {}]
