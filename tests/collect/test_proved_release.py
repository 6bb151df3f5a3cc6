"""Collections whose clients prove what they share: liars of every kind, servers that lie, a crash between two marks."""

import asyncio
import dataclasses
import os
import shutil

import msgspec
import numpy as np
import pytest

from dpmpc.base.errors import (
    BatchMismatch,
    CollectionClosed,
    DpmpcError,
    GuaranteeError,
    InconsistentShares,
    MalformedFrame,
    PartyMissing,
    ReportConflict,
    ReportRejected,
    TooFewClients,
    VerificationFailed,
)
from dpmpc.collect.intake import serving
from dpmpc.collect.opening import proof_checks, release_process
from dpmpc.collect.opening.releasing import ReleasingServer
from dpmpc.collect.store.ledger import ReleaseLedger
from dpmpc.collect.store.server_folder import ServerFolder
from dpmpc.collect.terms.certificate import DIFFERENT_LISTS, FALSE_PROOF, REFUSED, Manifest, wrong_hash
from dpmpc.collect.terms.verifying import check_refused, verify
from dpmpc.collect.upload.report_ids import ID_BYTES
from dpmpc.collect.upload.reports import ReportFormat
from dpmpc.collect.upload.seal_folder import SealFolder
from dpmpc.parties.network.frames import Kind
from dpmpc.release.client import Client
from support import release_processes
from support.hostile.provers import AT_THE_DOOR, DEEDS, OF_LISTS, honest
from support.hostile.servers import meddle, tell_other_words
from support.hostile.stage import VICTIM
from support.hostile.verifiers import ClaimsAPoint, fall_silent, no_element, off_by_one, other_words, send_others
from support.proved_collections import (
    PROVED,
    converse,
    honest_sums,
    join,
    points,
    released,
    rows_of_clients,
    states,
    without_noise,
)
from support.rejections import blames, rejects
from support.release_processes import COUNT, MINIMUM, Trial, copied_or_linked, damage, run
from support.sealed_doors import path_of, sealed_for
from support.services import asking, service_in

LATER = sorted(set(DEEDS) - AT_THE_DOOR)


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return Trial.filled(tmp_path_factory.mktemp("proved") / "trial", **PROVED)


@pytest.fixture
def trial(original, tmp_path):
    shutil.copytree(original.root, tmp_path / "trial", copy_function=copied_or_linked)
    return dataclasses.replace(original, root=tmp_path / "trial")


@pytest.fixture(autouse=True)
def quiet():
    """Servers that add no noise, so that sums can be compared exactly."""
    with without_noise():
        yield


def test_without_liars_the_release_is_that_of_all_rows(trial):
    told = []
    verified = released(trial, rows_of_clients(), converse(trial, told=told))
    (line,) = [check for check in verified.checks if check.startswith("proofs: ")]
    assert f"{COUNT} reports accepted, none refused; if all 3 servers followed the protocol" in line
    assert f"{COUNT} of {COUNT} reports are proved" in told
    used = points(trial)
    assert None not in used
    assert len(set(used)) == 1


def test_the_spool_keeps_keys_as_keys(trial):
    for server, (shape, size) in enumerate([((1, 14), 128), ((1, 14), 128)]):
        form = ReportFormat(trial.collection, server)
        assert form.stored_shape == shape
        assert form.record_bytes == size
    form = ReportFormat(trial.collection, 2)
    assert form.record_bytes == 128 + 8 * trial.collection.plan.proofs.circuit.words
    assert form.stored_shape == trial.collection.record_shape


# Clients that lie


each = pytest.mark.long("each kind of liar alone; all at once, and two alone, are in the ordinary suite")


@pytest.mark.parametrize(
    "deed", [pytest.param(deed, marks=() if deed in ("wrong products", "different lists") else each) for deed in LATER]
)
def test_a_liar_is_left_out_and_the_release_is_that_of_the_honest_rows(trial, deed):
    told, lies = [], [os.urandom(16) for _ in range(2)]
    for lie in lies:
        join(trial, DEEDS[deed](trial.collection, lie))
    results = converse(trial, told=told)
    cause = DIFFERENT_LISTS if deed in OF_LISTS else FALSE_PROOF
    verified = released(trial, rows_of_clients(), results, {cause: 2})
    assert any(f"2 refused ({cause})" in check for check in verified.checks)
    assert any(line.startswith(f"refused, {cause}: 2 reports, ") for line in told)
    assert refused_at(trial) == [sorted((lie.hex(), cause) for lie in lies)] * 3


def refused_at(trial):
    """What each server's operator finds in its file, which is private, of reports that were refused."""
    found = []
    for server in range(3):
        (file,) = trial.folder(server).glob("refused-*.csv")
        assert file.stat().st_mode & 0o777 == 0o600
        heading, *lines = file.read_text().splitlines()
        assert heading == "report,cause"
        found.append([tuple(line.split(",", 1)) for line in lines])
    return found


def test_what_was_refused_is_no_part_of_what_is_public(trial):
    """Ids and causes are for operators; the certificate has counts."""
    lie = os.urandom(16)
    join(trial, DEEDS["wrong products"](trial.collection, lie))
    verified = released(trial, rows_of_clients(), converse(trial), {FALSE_PROOF: 1})
    assert lie.hex() not in str(verified.certificate)
    assert lie not in trial.out(0).read_bytes()
    assert not any(list(trial.folder(server).glob("ledger/refused*")) for server in range(3))


def test_a_release_that_refuses_nobody_leaves_no_file(trial):
    released(trial, rows_of_clients(), converse(trial))
    assert not any(list(trial.folder(server).glob("refused-*")) for server in range(3))


@pytest.mark.parametrize("deed", sorted(AT_THE_DOOR))
def test_a_refused_upload_is_answered_with_the_reason(trial, deed):
    """400, and words that say what is wrong; the client's command ends with them, and nothing is stored."""
    (record,) = DEEDS[deed](trial.collection, os.urandom(16))[2:]

    async def upload():
        folder, collection = trial.folder(2), trial.collection
        options = {"seals": SealFolder(folder / "seals"), "now": lambda: collection.opens}
        with service_in(folder, collection, 2, **options) as (service, spool):
            before = len(spool)
            try:
                async with (
                    asking(service) as client,
                    client.post(path_of(collection), data=sealed_for(collection, 2, [record])[0]) as response,
                ):
                    return response.status, await response.json(), len(spool) - before
            finally:
                await service.close()

    status, answer, stored = asyncio.run(upload())
    assert (status, answer["error"], stored) == (400, "ReportRejected", 0)
    assert "record 0 lists another hash of the share of server 2 than the share gives" in answer["message"]


@pytest.mark.parametrize("deed", sorted(AT_THE_DOOR))
def test_a_liar_is_refused_at_the_door_and_nothing_is_stored(trial, deed):
    records = DEEDS[deed](trial.collection, os.urandom(16))
    refusing = [2] if deed == "mauled share" else [0, 1, 2]
    for server, record in enumerate(records):
        form = ReportFormat(trial.collection, server)
        if server in refusing:
            with rejects("body", ReportRejected):
                form.decode(record)
        else:
            form.decode(record)


def test_liars_of_all_kinds_at_once(trial):
    for deed in LATER:
        join(trial, DEEDS[deed](trial.collection, os.urandom(16)))
    join(trial, honest(trial.collection, os.urandom(16)))
    results = converse(trial)
    rows = np.concatenate([rows_of_clients(), [[5.0, 5.0]]])
    released(trial, rows, results, {DIFFERENT_LISTS: 1, FALSE_PROOF: len(LATER) - 1})


def test_seven_pieces_give_what_one_gives(trial, tmp_path, monkeypatch):
    for deed in LATER:
        join(trial, DEEDS[deed](trial.collection, os.urandom(16)))
    shutil.copytree(trial.root, tmp_path / "again", copy_function=shutil.copy2)
    again = dataclasses.replace(trial, root=tmp_path / "again")
    refused = {DIFFERENT_LISTS: 1, FALSE_PROOF: len(LATER) - 1}
    one = released(trial, rows_of_clients(), converse(trial), refused)
    monkeypatch.setattr(proof_checks, "PIECE", -(-(COUNT + len(LATER)) // 7))
    seven = released(again, rows_of_clients(), converse(again), refused)
    assert seven.certificate.statement.manifest.batch == one.certificate.statement.manifest.batch
    assert seven.release.sums.tobytes() == one.release.sums.tobytes()
    assert refused_at(again) == refused_at(trial)


@pytest.mark.parametrize(("server", "byte"), [(0, 3), (0, 20), (0, 111), (2, 3), (2, 40), (2, 90), (2, -1)])
def test_a_report_that_is_damaged_on_a_disk_is_refused_by_its_server(trial, server, byte):
    """Wherever its bit flips, also in the entry of another server, which no hash of its own share covers."""
    size = 8 * ReportFormat(trial.collection, server).stored_shape[1]
    damage(trial.folder(server), trial.ids[5], byte % size)
    rows = np.delete(rows_of_clients(), 5, axis=0)
    released(trial, rows, converse(trial), {wrong_hash(server): 1})


def test_a_report_is_not_answered_again_with_another_list(trial):
    """An entry of another server changes between two runs, checksum and all: its seed would give a second answer."""
    report = trial.ids[5]
    assert run(trial, deeds={1: ("die", "after", "proof_checks", "exchange_elements")})[1].status == -9
    damage(trial.folder(0), report, 51, forge=True)
    ended = run(trial)
    assert {one.status for one in ended.values()} == {0}, ended[0].told
    manifest = verify(trial.out(0), trial.collection).certificate.statement.manifest
    assert manifest.refused == {wrong_hash(0): 1}
    assert refused_at(trial) == [[(report.hex(), wrong_hash(0))]] * 3


def test_without_proofs_one_such_client_spoils_the_release(tmp_path):
    """The cliff: what the proofs are for."""
    trial = Trial.filled(tmp_path / "trial", **{**PROVED, "proved": False})
    words = np.full(trial.collection.record_shape, 1 << 50, "<u8")
    report = os.urandom(16)
    join(
        trial,
        [report + bytes(16), report + bytes(16), report + words.tobytes()],
    )
    assert not [result for result in converse(trial) if isinstance(result, Exception)]
    opened = verify(trial.out(0), trial.collection).release.sums[0]
    assert np.abs(opened - honest_sums(trial, rows_of_clients())).min() > 1 << 30


def test_a_report_counts_once_and_another_under_its_id_is_a_conflict(trial):
    """Threat 9: a server that races a victim's report spoils that report alone, and no release."""
    report = trial.ids[0]
    join(trial, [own[0] for own in trial.records])
    with pytest.raises(ReportConflict):
        join(trial, honest(trial.collection, report))
    released(trial, rows_of_clients(), converse(trial))


def test_a_racing_server_costs_one_report(original, tmp_path):
    """Server 2 puts a report of its own under the victim's id before the victim comes."""
    trial = Trial.make(tmp_path / "trial", 3, identities=original, **PROVED)
    forged = honest(trial.collection, trial.ids[0])
    trial.fill(0)
    trial.fill(1)
    trial.records[2][0] = forged[2]
    trial.fill(2)
    released(trial, rows_of_clients()[1:], converse(trial), {DIFFERENT_LISTS: 1})


def test_dealers_that_leave_too_few_reports_end_the_run_with_the_counts(tmp_path):
    trial = Trial.make(tmp_path / "trial", 3, **PROVED)
    for server in range(3):
        trial.fill(server, count=MINIMUM - 1)
    for _ in range(3):
        join(trial, DEEDS["wrong products"](trial.collection, os.urandom(16)))
    for result in converse(trial):
        assert isinstance(result, TooFewClients)
        assert f"{MINIMUM - 1} given" in str(result)
        assert f"3 refused: {FALSE_PROOF}" in str(result)
    assert states(trial) == [[]] * 3


def test_bodies_that_are_no_reports_are_refused(original):
    rng = np.random.default_rng(2)
    for server in range(3):
        form = ReportFormat(original.collection, server)
        record = bytearray(original.records[server][0])
        for _ in range(40):
            broken = bytearray(record)
            broken[rng.integers(ID_BYTES, len(broken))] ^= 1 << int(rng.integers(8))
            try:
                form.decode(bytes(broken))  # what another server's part, or the proof, may say
            except ReportRejected:
                continue
    content = np.frombuffer(original.records[2][0][ID_BYTES:], "<u8").copy()
    content[-1] = 2**61 - 1
    with rejects("body", ReportRejected):
        form.decode(original.ids[0] + content.tobytes())


# Servers that lie


@pytest.mark.parametrize(
    ("nth", "what"),
    [(1, "query point that is sealed"), (2, "query point that is used")],
)
def test_servers_meet_before_they_mark_and_before_they_send(trial, nth, what):
    """Whoever has another point is named there, and no message about a proof was sent."""
    sent = []

    def watch(runtime):
        meddle(lambda sender, receiver, frame: sent.append(frame.kind) or frame, runtime)

    results = converse(trial, {0: watch, 2: lambda runtime: tell_other_words("DIGEST", [0, 1], "", nth, runtime)})
    for result in results[:2]:
        assert isinstance(result, BatchMismatch)
        assert what in str(result)
        assert result.party == 2
    assert Kind.PROOF not in sent
    released(trial, rows_of_clients(), converse(trial))


def test_nobody_takes_up_a_point_that_it_has_not_sealed(trial):
    for result in converse(trial, kinds={2: ClaimsAPoint})[:2]:
        assert isinstance(result, GuaranteeError)
        assert "server 2 has used abababababababab..., which server 0 has not sealed" in str(result)
    assert points(trial) == [None] * 3
    released(trial, rows_of_clients(), converse(trial))


def test_different_messages_for_different_servers_bind_nothing(trial):
    results = converse(trial, {2: send_others(Kind.PROOF, off_by_one, victims=(0,))})
    assert [type(result) for result in results[:2]] == [InconsistentShares] * 2
    assert "messages about proofs: party 2 sent party 0 others than it announced to all" in str(results[0])
    assert (results[0].party, results[1].party) == (2, None), "named by whom it sent them to"
    assert states(trial) == [[]] * 3
    first = points(trial)
    released(trial, rows_of_clients(), converse(trial))
    assert points(trial) == first


def test_words_that_are_no_elements_name_their_server(trial):
    for result in converse(trial, {2: send_others(Kind.PROOF, no_element)})[:2]:
        assert isinstance(result, MalformedFrame)
        assert "party 2 sent no valid PROOF frame" in str(result)


@pytest.mark.parametrize("raw", [b"{}x", b'{"point":"ab"}', b'{"used":true}', b'{"point":1}', b"[" * 100])
def test_what_is_no_standing_names_its_server(raw):
    with blames(1, MalformedFrame):
        proof_checks.read_point(raw, 1)


def test_a_lying_server_drops_a_report_and_all_count_it(trial):
    """Whoever sends a wrong message to all takes a report out, whatever it holds; the manifest says how many."""
    with other_words(Kind.PROOF):
        results = converse(trial)
    dropped = sorted(range(COUNT), key=lambda index: trial.ids[index])[VICTIM]
    released(trial, np.delete(rows_of_clients(), dropped, axis=0), results, {FALSE_PROOF: 1})


def test_a_server_that_finds_another_hash_is_named_with_the_report_that_it_drops(trial, monkeypatch):
    """Its spool was changed by somebody who could write checksums as well, or it lies: the others cannot know."""
    original = proof_checks.Verifier.scan

    def claiming(self, ids):
        found = original(self, ids)
        assert found.fitting.all()
        found.fitting[3] = self.number != 2
        return found

    monkeypatch.setattr(proof_checks.Verifier, "scan", claiming)
    results = converse(trial)
    dropped = sorted(range(COUNT), key=lambda index: trial.ids[index])[3]
    verified = released(trial, np.delete(rows_of_clients(), dropped, axis=0), results, {wrong_hash(2): 1})
    assert any("1 refused (wrong hash, according to server 2)" in check for check in verified.checks)
    assert refused_at(trial) == [[(trial.ids[dropped].hex(), "wrong hash, according to server 2")]] * 3


def test_nothing_is_stored_once_a_server_has_closed(trial):
    released(trial, rows_of_clients(), converse(trial))
    with pytest.raises(CollectionClosed):
        join(trial, honest(trial.collection, os.urandom(16)))


# Crashes


class HalfMarked(ReleasingServer):
    """A server that dies between the mark in its ledger and that in its spool."""

    @property
    def points(self):
        keeper = super().points

        def only_ledger(toss):
            self.ledger.use_point(self.collection.digest, toss)
            raise DpmpcError("dead")

        keeper.use = only_ledger
        return keeper


def test_a_crash_between_the_marks_in_ledger_and_spool_and_a_repetition(trial):
    """Nobody has sent anything; whoever has marked a point as used stands by it."""
    join(trial, DEEDS["wrong products"](trial.collection, os.urandom(16)))
    sent = []

    def watch(runtime):
        meddle(lambda sender, receiver, frame: sent.append(frame.kind) or frame, runtime)

    results = converse(trial, {0: watch}, kinds={1: HalfMarked})
    assert "dead" in str(results[1])
    assert Kind.PROOF not in sent
    (before,) = {point for point in points(trial) if point is not None}
    released(trial, rows_of_clients(), converse(trial), {FALSE_PROOF: 1})
    assert set(points(trial)) == {before}


def messages_of(trial, breaks=None, monkeypatch=None):
    """What server 0 sent about proofs, and how all ended."""
    sent = []

    def watch(runtime):
        def note(sender, receiver, frame):
            if frame.kind is Kind.PROOF:
                sent.append((receiver, frame.words.tobytes()))
            return frame

        meddle(note, runtime)

    return converse(trial, {0: watch, **(breaks or {})}), sent


def test_a_repetition_sends_the_same_bytes_and_comes_to_the_same_verdicts(trial, monkeypatch):
    for deed in LATER:
        join(trial, DEEDS[deed](trial.collection, os.urandom(16)))

    results, first = messages_of(trial, {1: fall_silent(Kind.PROOF)})
    assert "dead" in str(results[1])
    assert first
    used = points(trial)
    assert len(set(used)) == 1
    results, second = messages_of(trial)
    assert first == second[: len(first)]
    assert points(trial) == used
    released(trial, rows_of_clients(), results, {DIFFERENT_LISTS: 1, FALSE_PROOF: len(LATER) - 1})


@pytest.mark.parametrize("store", ["spool", "ledger"])
@pytest.mark.parametrize("server", [0, 2])
def test_one_copy_that_is_put_back_does_not_lead_to_a_second_point(trial, store, server):
    folder = trial.folder(server)
    if store == "ledger":
        ReleaseLedger(folder / "ledger").close()
    shutil.copytree(folder / store, folder / "old", copy_function=copied_or_linked)

    converse(trial, {1: fall_silent(Kind.PROOF)})
    used = points(trial)
    assert None not in used
    shutil.rmtree(folder / store)
    shutil.copytree(folder / "old", folder / store, copy_function=copied_or_linked)
    results, _ = messages_of(trial)
    released(trial, rows_of_clients(), results)
    assert points(trial) == used


# What is refused, and what files say


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"noise_by": "clients", "corrupt_clients": 0}, "proved"),
        ({"sharing": "shamir", "noise_by": "clients", "corrupt_clients": 0}, "proved"),
    ],
)
def test_what_cannot_be_proved_is_refused_with_the_reason(tmp_path, options, argument):
    with rejects(argument):
        Trial.make(tmp_path / "trial", 3, count=0, **{**PROVED, **options})


def test_counts_that_cannot_be_do_not_verify(trial, tmp_path):
    released(trial, rows_of_clients(), converse(trial))
    certificate = verify(trial.out(0), trial.collection).certificate
    manifest = certificate.statement.manifest
    for refused in ({"rain": 1}, {REFUSED[0]: 0}, {REFUSED[1]: 10**6}, {wrong_hash(3): 1}):
        changed = msgspec.structs.replace(manifest, refused=refused)
        assert Manifest.from_json(changed.to_json()) == changed
        with rejects("refused", VerificationFailed):
            check_refused(trial.collection, changed)


def test_a_collection_without_proofs_refuses_nobody(original):
    assert "refused" not in Manifest(1, "", "", 1, "", 0, "", "").to_json()


def test_larger_blocks_make_no_difference(trial, monkeypatch):
    monkeypatch.setattr(proof_checks, "WORDS_IN_A_FRAME", 400)
    for deed in LATER:
        join(trial, DEEDS[deed](trial.collection, os.urandom(16)))
    results = converse(trial)
    released(trial, rows_of_clients(), results, {DIFFERENT_LISTS: 1, FALSE_PROOF: len(LATER) - 1})


def test_a_sketch_of_proved_rows(tmp_path):
    options = {**PROVED, "sketch": "osnap", "rows": 8, "sparsity": 2}
    trial = Trial.filled(tmp_path / "trial", **options)
    results = converse(trial)
    assert not [result for result in results if isinstance(result, Exception)], results
    opened = verify(trial.out(0), trial.collection).release
    order = sorted(range(COUNT), key=lambda index: trial.ids[index])
    encoded = Client(trial.collection.plan.verify()).encode(rows_of_clients()[order])
    expected = opened.task.sketch.to_csc().astype(np.int64) @ encoded
    np.testing.assert_array_equal(opened.sums, expected)


def test_one_false_hash_among_many_reports_is_refused(original):
    form = ReportFormat(original.collection, 0)
    body = b"".join(original.records[0][:5]) + DEEDS["replayed"](original.collection, os.urandom(16))[0]
    with rejects("body", ReportRejected):
        form.decode(body)


def test_an_intake_whose_spool_was_put_back_takes_nothing(trial, monkeypatch):
    """`dpmpc serve` on a spool from before the closing: the ledger knows of it."""
    folder = trial.folder(1)
    shutil.copytree(folder / "spool", folder / "old", copy_function=copied_or_linked)
    released(trial, rows_of_clients(), converse(trial))
    shutil.rmtree(folder / "spool")
    shutil.copytree(folder / "old", folder / "spool", copy_function=copied_or_linked)
    with ServerFolder(folder).open_spool(trial.collection, 1, writer=False) as spool:
        assert not spool.closed

    async def nobody(*arguments):
        """Take no connection."""

    monkeypatch.setattr(serving, "_until_stopped", nobody)
    serving.serve(trial.collection, 1, ServerFolder(folder), serving.ServerPlaces(peers=("127.0.0.1", 0)))
    with pytest.raises(CollectionClosed):
        join(trial, honest(trial.collection, os.urandom(16)))
    with ServerFolder(folder).open_spool(trial.collection, 1, writer=False) as spool:
        assert spool.closed


@pytest.mark.parametrize("start", ["serve", "release"])
def test_copies_put_back_one_after_the_other_keep_the_point_if_the_server_was_started(trial, monkeypatch, start):
    """Any start is enough: of the intake, or of a release that nobody else comes to."""
    folder = trial.folder(0)
    ReleaseLedger(folder / "ledger").close()
    shutil.copytree(folder, folder / "old", copy_function=copied_or_linked)
    converse(trial, {1: fall_silent(Kind.PROOF)})
    used = points(trial)
    assert None not in used
    for store in ("spool", "ledger"):
        shutil.rmtree(folder / store)
        shutil.copytree(folder / "old" / store, folder / store, copy_function=copied_or_linked)
        if start == "serve":

            async def nobody(*arguments):
                """Take no connection."""

            monkeypatch.setattr(serving, "_until_stopped", nobody)
            serving.serve(trial.collection, 0, ServerFolder(folder), serving.ServerPlaces(peers=("127.0.0.1", 0)))
        else:
            with pytest.raises(PartyMissing):
                release_process.run_release(trial.collection, 0, folder, trial.out(0), connect_deadline=0.5)
    assert points(trial) == used


@pytest.mark.long(
    "100,000 reports at three processes, one of which is killed twice; the parts are in the ordinary suite"
)
def test_a_hundred_thousand_reports_with_a_thousand_liars(tmp_path, monkeypatch):
    """The release of the honest rows, with real noise, and the signed counts of what was refused."""
    people, liars = 100_000, 1000
    monkeypatch.setattr(release_processes, "PATIENCE", 300)
    trial = Trial.make(tmp_path / "trial", 3, count=people, **{**PROVED, "largest_batch": 200_000})
    lies = [DEEDS[LATER[index % len(LATER)]](trial.collection, os.urandom(16)) for index in range(liars)]
    for server, own in enumerate(trial.records):
        form = ReportFormat(trial.collection, server)
        with ServerFolder(trial.folder(server)).open_spool(trial.collection, server, writer=True) as spool:
            for first in range(0, people, 10_000):
                spool.add(*form.decode(b"".join(own[first : first + 10_000])))
            spool.add(*form.decode(b"".join(lie[server] for lie in lies)))
    for step in (("after", "ledger", "use_point"), ("after", "proof_checks", "exchange_elements")):
        assert run(trial, deeds={1: ("die", *step)})[1].status == -9
    ended = run(trial)
    assert {one.status for one in ended.values()} == {0}, ended[0].told
    verified = verify(trial.out(0), trial.collection)
    lists = sum(LATER[index % len(LATER)] in OF_LISTS for index in range(liars))
    manifest = verified.certificate.statement.manifest
    assert manifest.clients == people
    assert manifest.refused == {DIFFERENT_LISTS: lists, FALSE_PROOF: liars - lists}
    away = (verified.release.sums[0] - honest_sums(trial, rows_of_clients(people))) * verified.release.task.units
    assert np.abs(away).max() < 7 * verified.release.noise_variance[0] ** 0.5
