"""Proved collections with Shamir shares: bad dealers, noise that servers deal, lying servers, crashes."""

import os

import numpy as np
import pytest

from dpmpc.base.errors import DpmpcError, GuaranteeError, InconsistentShares, VerificationFailed
from dpmpc.collect.opening import dealing_checks, proof_checks, release_protocol
from dpmpc.collect.opening.releasing import ReleasingServer
from dpmpc.collect.terms.certificate import DIFFERENT_LISTS, FALSE_PROOF, Manifest, require_quorum
from dpmpc.collect.terms.collection_design import soundness
from dpmpc.collect.terms.shamir_claims import INCONSISTENT, blame, check_odd, opening_condition
from dpmpc.collect.terms.verifying import check_refused
from dpmpc.parties.network.frames import Kind
from support.hostile import shamir_servers
from support.hostile.provers import DEEDS, proved_anyway
from support.hostile.servers import FIELD, accuse, agreed_lie, disregard_accusations, meddle
from support.hostile.stage import COLLECTED, COLUMNS, VICTIM
from support.hostile.verifiers import other_seeds
from support.proved_collections import points, rows_of_clients
from support.rejections import rejects
from support.release_processes import COUNT, Trial, run
from support.shamir_collections import SHAMIR, converse, dying, join, kept_noise, released

FALSE = ["out of range", "wrong products", "wrap-around", "beyond the ball", "arbitrary words"]


every_number = pytest.mark.long("five servers; three and four are in the ordinary suite")
NUMBERS = [3, 4, pytest.param(5, marks=every_number)]


@pytest.mark.parametrize("servers", NUMBERS)
def test_without_liars_the_release_is_that_of_all_rows(deployed, silent, servers):
    trial, told = deployed(servers), []
    verified = released(trial, converse(trial, told=told))
    corrupt = (servers - 1) // 2
    manifest = verified.certificate.statement.manifest
    assert manifest.dealers == list(range(servers))
    assert len(manifest.noise) == 64
    assert verified.release.task.noise_terms.tolist() == [servers]
    (proofs,) = [check for check in verified.checks if check.startswith("proofs: ")]
    assert f"at most {corrupt} of them lied" in proofs
    (noise,) = [check for check in verified.checks if check.startswith("noise: ")]
    assert f"dealt by servers {', '.join(map(str, range(servers)))}, the noise of {corrupt} of whom" in noise
    assert "Not proved: how it was drawn" in noise
    assert not trial.collection.checked_dealing
    assert kept_noise(trial) == [[]] * servers


@pytest.mark.parametrize(
    "deed",
    [
        pytest.param(
            deed, marks=() if deed == "wrap-around" else pytest.mark.long("lies of each kind; one is in the suite")
        )
        for deed in FALSE
    ],
)
def test_a_liar_is_left_out_and_the_release_is_that_of_the_honest_rows(deployed, silent, deed):
    trial = deployed(3)
    join(trial, *(DEEDS[deed](trial.collection, os.urandom(16)) for _ in range(2)))
    verified = released(trial, converse(trial), {FALSE_PROOF: 2})
    assert any(f"2 refused ({FALSE_PROOF})" in check for check in verified.checks)


def test_cells_are_proved_and_summed_with_shamir_shares(tmp_path, silent):
    """The strategy is applied to each server's sums of digits; two people in one grid, and none in another, are out."""
    trial = Trial.filled(tmp_path / "trial", 3, columns=COLUMNS, **{**SHAMIR, **COLLECTED["cells"]})
    collection, twice = trial.collection, np.zeros((1, 13), np.uint64)
    twice[0, 0] = 2
    join(trial, proved_anyway(collection, os.urandom(16), twice))
    rows = rows_of_clients(COUNT, len(COLUMNS))
    verified = released(trial, converse(trial), {FALSE_PROOF: 1}, rows)
    assert verified.release.task.statistic.name == "proved-cell-counts"
    assert verified.release.sums.shape == (1, 13)


def test_different_lists_are_left_out(deployed, silent):
    trial = deployed(4)
    join(trial, shamir_servers.list_another_hash(trial.collection, os.urandom(16)))
    released(trial, converse(trial), {DIFFERENT_LISTS: 1})


@pytest.mark.parametrize("servers", NUMBERS)
def test_every_single_word_that_is_off_at_one_server_is_noticed(deployed, silent, servers):
    """One report for each word of a record, dealt with hashes that fit; the server is named where decoding names it."""
    trial, told = deployed(servers), []
    words = trial.collection.plan.proofs.circuit.words
    ids = [os.urandom(16) for _ in range(words)]
    victim = servers - 2
    records = shamir_servers.deal_one_word_off(trial.collection, ids, victim, range(words))
    join(trial, *zip(*records, strict=True))
    verified = released(trial, converse(trial, told=told), {INCONSISTENT: words})
    named = servers == 4
    manifest = verified.certificate.statement.manifest
    assert manifest.odd == ({str(victim): words} if named else {})
    (line,) = [check for check in verified.checks if check.startswith("proofs: ")]
    assert (f"the message of server {victim} in {words} was off" in line) == named
    assert (
        any(f"the message of server {victim} was off in {words} inconsistent reports" in one for one in told) == named
    )
    assert any(one.startswith(f"refused, {INCONSISTENT}: {words} reports") for one in told)


# Who has to be present


@pytest.mark.parametrize(
    ("servers", "without", "allowed"),
    [(3, (2,), False), (4, (1,), True), (4, (0, 1), False), (5, (4,), False), (5, (), True)],
)
def test_a_quorum_has_an_honest_majority_of_those_present(originals, servers, without, allowed):
    collection = originals(servers).collection
    if allowed:
        require_quorum(collection, without)
    else:
        with rejects("without", GuaranteeError):
            require_quorum(collection, without)


def test_two_liars_at_five_two_with_an_honest_server_missing_are_refused(originals, tmp_path):
    """Four are more than (M + t)/2 = 3.5, and without proofs enough; with proofs 2t + 1 = 5 have to be there."""
    with rejects("without", GuaranteeError, expected="at least 5 of 5 servers"):
        require_quorum(originals(5).collection, (0,))
    unproved = Trial.make(tmp_path / "trial", 5, count=1, **{**SHAMIR, "proved": False, "noise_by": "clients"})
    require_quorum(unproved.collection, (0,))
    ended = run(originals(5), servers=[0], options=["--without", "1"])
    assert ended[0].status == 2
    assert "at least 5 of 5 servers expected with shamir shares" in ended[0].told


def test_a_missing_server_of_four_is_done_without(deployed, silent):
    trial = deployed(4)
    verified = released(trial, converse(trial, servers=[0, 1, 3]))
    manifest = verified.certificate.statement.manifest
    assert manifest.dealers == [0, 1, 3]
    assert verified.certificate.statement.without == [2]
    assert verified.release.task.noise_terms.tolist() == [3]


# Servers that lie about reports and in the opening


def lie_about_report(monkeypatch, liar, report):
    original = proof_checks.exchange_elements

    async def lying(party, kind, own, heard):
        if party.pid == liar and kind is Kind.PROOF:
            own = own.copy()
            own[report, 0] = (int(own[report, 0]) + 1) % (2**61 - 1)
        return await original(party, kind, own, heard)

    monkeypatch.setattr(proof_checks, "exchange_elements", lying)


@pytest.mark.parametrize("servers", [3, 4])
def test_a_server_that_lies_about_a_report_is_named_among_four_and_not_among_three(
    deployed, silent, monkeypatch, servers
):
    trial = deployed(servers)
    lie_about_report(monkeypatch, 1, 3)
    results = converse(trial)
    dropped = sorted(range(COUNT), key=lambda index: trial.ids[index])[3]
    rows = np.delete(rows_of_clients(), dropped, axis=0)
    verified = released(trial, results, {INCONSISTENT: 1}, rows)
    assert verified.certificate.statement.manifest.odd == ({"1": 1} if servers == 4 else {})


class AltersShare(ReleasingServer):
    """A server that commits to a wrong share of the sums."""

    def bound_share(self, manifest, sums):
        wrong = super().bound_share(manifest, sums).copy()
        wrong[0, 0] ^= np.uint64(1)
        return wrong


def test_a_wrong_share_of_the_sums_is_evidence_where_all_four_are_present(deployed, silent, monkeypatch):
    trial = deployed(4)
    ignore_accusations(monkeypatch, [2])
    verified = released(trial, converse(trial, kinds={2: AltersShare}))
    (line,) = [check for check in verified.checks if check.startswith("signatures: ")]
    assert "wrong shares of servers [2] were corrected: they are corrupt, if at most 1 of the 4 servers lied" in line
    (sums,) = [check for check in verified.checks if check.startswith("sums: ")]
    assert "the sum of honest servers' shares, if at most 1 of the 4 servers lied" in sums


def test_a_server_whose_own_share_is_wrong_refuses_and_the_others_go_on(deployed, silent):
    """A disk or a program at fault, and no lie: it says so itself, the others have it in their logs."""
    trial, told = deployed(4), []
    results = converse(trial, kinds={2: AltersShare}, told=told)
    for server, result in results.items():
        assert isinstance(result, InconsistentShares), result
        assert "server 2 is itself among those found to be wrong, [2]" in str(result)
        assert ("party 2 refuses" in str(result)) == (server != 2)
    assert told.count("opened; wrong shares: those of servers [2]") == 4
    assert not any(trial.out(server).exists() for server in range(4))
    released(trial, converse(trial, servers=[0, 1, 3]))


@pytest.mark.parametrize(("servers", "present"), [(3, [0, 1, 2]), (4, [0, 1, 2])])
def test_a_wrong_share_ends_the_run_where_nobody_can_be_named(deployed, silent, servers, present):
    for result in converse(deployed(servers), kinds={2: AltersShare}, servers=present).values():
        assert isinstance(result, InconsistentShares), result
        assert "which of them are wrong is unknown" in str(result)


def test_words_about_blame(originals):
    """One number of liars in all lines; a file that blames among too few is refused."""
    three, four, five = (originals(servers).collection for servers in (3, 4, 5))
    assert blame(four, [], {"0": []}) == ""
    assert "they are corrupt, if at most 1 of the 4 servers lied" in blame(four, [], {"0": [1]})
    assert "differ on whose shares were wrong" in blame(four, [], {"0": [1], "2": []})
    for collection, without in ((four, [3]), (three, []), (five, [])):
        with rejects("wrong", VerificationFailed):
            blame(collection, without, {"0": [1]})
        assert "ONLY IF" in opening_condition(collection, without, {"0": [1]})
    for collection, corrupt, servers in ((three, 1, 3), (four, 1, 4), (five, 2, 5)):
        words = f"if at most {corrupt} of the {servers} servers lied"
        assert words in opening_condition(collection, [], {"0": []})
        assert f"and at most {corrupt} of them lied" in soundness(collection, 1000)
    assert "ONLY IF at most 1 of servers [0, 1, 3, 4] lied" in opening_condition(five, [], {"0": [2]})
    with rejects("odd", VerificationFailed):
        check_odd(five, {INCONSISTENT: 2}, {"1": 2})


# Crashes


@pytest.mark.parametrize(
    "step",
    [
        ("points", "use", "after"),
        ("openings", "keep_noise", "after"),
        ("self", "bound_share", "before"),
        ("self", "finish", "before"),
    ],
    ids="-".join,
)
def test_a_crash_at_a_step_and_a_repetition(deployed, silent, step):
    """One point for all, and one release of the honest rows; nothing was sent about a report at another point."""
    trial = deployed(3)
    join(trial, DEEDS["wrong products"](trial.collection, os.urandom(16)))
    results = converse(trial, kinds={1: dying(step)})
    assert "dead" in str(results[1])
    before = {point for point in points(trial) if point is not None}
    results = converse(trial)
    released(trial, results, {FALSE_PROOF: 1})
    after = set(points(trial))
    assert len(after) == 1
    assert len(before) <= 1
    assert before <= after
    assert kept_noise(trial) == [[]] * 3


def test_other_servers_go_on_at_the_same_point(deployed, silent):
    """Four servers have used a point; one of them is lost, then comes back while another one is away."""
    trial = deployed(4)
    join(trial, DEEDS["wrong products"](trial.collection, os.urandom(16)))

    def cut(runtime):
        def change(sender, receiver, frame):
            if frame.kind is Kind.PROOF:
                raise DpmpcError("dead")
            return frame

        meddle(change, runtime)

    converse(trial, {3: cut})
    used = points(trial)
    assert len(set(used)) == 1
    assert used[0] is not None
    for present in ([0, 1, 2], [1, 2, 3]):
        sent = []

        def watch(runtime, sent=sent):
            meddle(lambda sender, receiver, frame: sent.append(frame.kind) or frame, runtime)

        converse(trial, {present[0]: watch, present[2]: cut}, servers=present)
        assert Kind.PROOF in sent
        assert points(trial) == used
    released(trial, converse(trial, servers=[0, 2, 3]), {FALSE_PROOF: 1})


def test_an_answer_is_repeated_with_the_same_joint_randomness(deployed, silent):
    """Point and (sigma, v, v'), as Theorem 2 has it: the seeds are those of the lists that a server itself stores.

    In the second run a server tells other seeds of a report: nobody answers for it, and all else stays as it was.
    """
    trial = deployed(3)

    def proofs_of(kinds=None):
        sent = {}

        def watching(runtime):
            def note(sender, receiver, frame):
                if frame.kind is Kind.PROOF:
                    sent.setdefault((sender.pid, receiver), frame.words.copy())
                return frame

            meddle(note, runtime)

        results = converse(trial, {0: watching, 1: watching}, kinds)
        return sent, results

    dying_later = {2: dying(("openings", "keep_noise", "before"))}
    first, results = proofs_of(dying_later)
    assert "dead" in str(results[2])
    with other_seeds():
        second, _ = proofs_of(dying_later)
    third, results = proofs_of()
    released(trial, results)
    assert sorted(first) == [(0, 1), (0, 2), (1, 0), (1, 2)]
    for link, words in first.items():
        np.testing.assert_array_equal(second[link], np.delete(words, VICTIM, axis=0))
        np.testing.assert_array_equal(third[link], words)


def test_a_server_that_missed_the_point_stays_out(deployed, silent):
    """Three of four use a point; the fourth was not there when it was tossed, so that it may have stored reports."""
    trial = deployed(4)
    results = converse(trial, kinds={2: dying(("openings", "keep_noise", "before"))}, servers=[0, 1, 2])
    assert "dead" in str(results[2])
    for result in converse(trial).values():
        assert isinstance(result, GuaranteeError)
        assert "which server 3 has not sealed" in str(result)
    released(trial, converse(trial, servers=[0, 1, 2]))


def shifting(liars, fitting, shift=10**9):
    """Servers that add to their shares of the sums one polynomial, which is 0 at some honest servers' points."""

    class Shifts(ReleasingServer):
        def bound_share(self, manifest, sums):
            own = super().bound_share(manifest, sums)
            return FIELD.add(own, np.full(own.shape, agreed_lie(self.number, fitting, shift), np.uint64))

    return dict.fromkeys(liars, Shifts)


LIES = [
    (3, (2,), (0,), "which of them are wrong is unknown"),
    (4, (2, 3), (0,), "server 1 is itself among those found to be wrong, [1]"),
    (5, (3, 4), (0, 1), "which of them are wrong is unknown"),
]


@pytest.mark.parametrize(("servers", "liars", "fitting", "told"), LIES)
def test_servers_that_lie_in_agreement_shift_nothing(deployed, silent, monkeypatch, servers, liars, fitting, told):
    """t of (3, 1) and (5, 2), and more than t of (4, 1), where one wrong share is corrected: no file, nobody named."""
    trial = deployed(servers)
    ignore_accusations(monkeypatch, liars)
    results = converse(trial, kinds=shifting(liars, fitting))
    for server in set(range(servers)) - set(liars):
        assert isinstance(results[server], InconsistentShares), results[server]
        assert told in str(results[server])
        assert results[server].party is None
    assert not any(trial.out(server).exists() for server in range(servers))


def ignore_accusations(monkeypatch, liars):
    for module in (release_protocol, dealing_checks):
        monkeypatch.setattr(module, "require_unaccused", module.require_unaccused)  # put back what the liars change
    disregard_accusations(liars)


@pytest.mark.parametrize(
    "servers", [pytest.param(3, marks=pytest.mark.long("three proved servers; four and five are in the suite")), 4, 5]
)
def test_processes_that_lie_in_agreement_end_with_status_3_and_no_file(deployed, servers):
    """The same over TLS, and the numbers of a run that two of five servers had signed by all."""
    trial = deployed(servers)
    (_, liars, fitting, told) = next(one for one in LIES if one[0] == servers)
    ended = run(trial, deeds={liar: ("shift_the_sums", liar, fitting, 10**9) for liar in liars})
    for server in set(range(servers)) - set(liars):
        assert ended[server].status == 3, ended[server].told
        assert told in ended[server].told
    assert not any(trial.out(server).exists() for server in range(servers))


def test_two_liars_of_five_drop_reports_and_have_nobody_counted(deployed, silent, monkeypatch):
    """Their messages about one report make the third honest server look off: nobody is, and the report is left out."""
    trial, report = deployed(5), 3
    original = proof_checks.exchange_elements

    async def lying(party, kind, own, heard):
        if party.pid in (3, 4) and kind is Kind.PROOF:
            own = own.copy()
            lie = np.full(own.shape[1], agreed_lie(party.pid, (0, 1), 7), np.uint64)
            own[report] = FIELD.add(own[report], lie)
        return await original(party, kind, own, heard)

    monkeypatch.setattr(proof_checks, "exchange_elements", lying)
    results = converse(trial)
    dropped = sorted(range(COUNT), key=lambda index: trial.ids[index])[report]
    verified = released(trial, results, {INCONSISTENT: 1}, np.delete(rows_of_clients(), dropped, axis=0))
    assert verified.certificate.statement.manifest.odd == {}


def test_a_server_that_blames_another_alone_ends_the_run(deployed, silent, monkeypatch):
    """All have the same shares, so that all find the same: no honest server signs what only one says."""
    trial = deployed(4)
    monkeypatch.setattr(
        release_protocol, "compare_openings", release_protocol.compare_openings
    )  # is put back afterwards
    accuse(2, liar=3)
    results = converse(trial)
    for server in (0, 1, 2):
        assert isinstance(results[server], InconsistentShares), results[server]
        assert f"server 3 blames others than server {server}" in str(results[server])
    assert not any(trial.out(server).exists() for server in range(4))


def test_counts_that_cannot_be_do_not_verify(originals):
    collection = originals(4).collection
    assert check_odd(collection, {INCONSISTENT: 2}, {}) == ""
    for refused, odd in (({INCONSISTENT: 2}, {"1": 3}), ({}, {"1": 1}), ({INCONSISTENT: 2}, {"4": 1})):
        with rejects("odd", VerificationFailed):
            check_odd(collection, refused, odd)
    manifest = Manifest(1, "", "", 200, "", 0, "", "", refused={INCONSISTENT: 2}, odd={"10": 1})
    with rejects("odd", VerificationFailed):
        check_refused(collection, manifest)


def test_proofs_take_the_place_of_the_check_of_dealings(originals):
    assert originals(3).collection.proved
    assert not originals(3).collection.checked_dealing
