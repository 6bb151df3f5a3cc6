"""Proved collections with Shamir shares: bad dealers, noise that servers deal, lying servers, crashes at every step."""

import dataclasses
import os
import shutil

import msgspec
import numpy as np
import pytest

from dpmpc.client import Client
from dpmpc.collection import conversation, noise_dealing, verification
from dpmpc.collection.certificate import DIFFERENT_LISTS, FALSE_PROOF, Manifest, check_refused, require_quorum, verify
from dpmpc.collection.ledger import ReleaseLedger
from dpmpc.collection.noise_shares import NoiseShares
from dpmpc.collection.releasing import ReleasingServer
from dpmpc.collection.reports import ReportFormat
from dpmpc.collection.server_folder import ServerFolder
from dpmpc.collection.shamir_claims import INCONSISTENT, blame, check_dealers, check_odd
from dpmpc.errors import (
    DpmpcError,
    GuaranteeError,
    InconsistentShares,
    InputError,
    MalformedFrame,
    SpoolError,
    VerificationFailed,
)
from dpmpc.network.frames import Kind
from dpmpc.proving import Verdicts
from dpmpc.sharing import ShamirSharing
from support.hostile import shamir_servers
from support.hostile.provers import DEEDS
from support.hostile.servers import meddle
from support.release_processes import COUNT, copied_or_linked, deploy, filled, run
from support.talk import talk

SHAMIR = {
    "sharing": "shamir",
    "proved": True,
    "noise_by": "servers",
    "sketch": "sum",
    "radius": 1.0,
    "rows": None,
    "sparsity": None,
    "copies": "auto",
}
FALSE = ["out of range", "wrong products", "wrap-around", "beyond the ball", "arbitrary words"]


def rows_of_clients(count=COUNT):
    """The rows that `deploy` makes reports of."""
    return np.random.default_rng(5).uniform(0, 10, (count, 2))


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """Servers that hold all reports, by their number."""
    made = {}

    def of(servers):
        if servers not in made:
            made[servers] = filled(tmp_path_factory.mktemp("shamir") / "trial", servers, **SHAMIR)
        return made[servers]

    return of


@pytest.fixture
def deployed(originals, tmp_path):
    """Return a copy of the deployment of so many servers."""

    def copy(servers):
        original = originals(servers)
        shutil.copytree(original.root, tmp_path / "trial", copy_function=copied_or_linked)
        return dataclasses.replace(original, root=tmp_path / "trial")

    return copy


@pytest.fixture
def silent(monkeypatch):
    """Servers that deal zeros, so that sums can be compared exactly."""
    monkeypatch.setattr(noise_dealing, "draw_dealt", no_noise)
    monkeypatch.setattr(shamir_servers, "draw_dealt", no_noise)


def no_noise(task, stream, threads=1):
    return np.zeros((task.sketch.rows, task.width), np.int64)


def converse(deployment, meddlers=None, kinds=None, told=None, servers=None):
    """Let some servers of a deployment, by default all, release it; return what each returned or raised, by number."""
    collection = deployment.collection
    servers = range(len(collection.servers)) if servers is None else servers

    async def program(party):
        folder = ServerFolder(deployment.folder(party.pid))
        kind = (kinds or {}).get(party.pid, ReleasingServer)
        with folder.open_spool(collection, party.pid, writer=False) as spool, ReleaseLedger(folder.ledger) as ledger:
            out, tell = deployment.out(party.pid), (lambda line: None) if told is None else told.append
            server = kind(collection, party.pid, spool, ledger, folder.identity, out, False, 1, tell)
            return await conversation.release(party, server)

    folders = {server: deployment.folder(server) / "identity" for server in servers}
    return dict(zip(servers, talk(folders, program, meddlers), strict=True))


def join(deployment, *reports):
    """Put the records of reports into all spools, as the servers would have."""
    for server in range(len(deployment.collection.servers)):
        with ServerFolder(deployment.folder(server)).open_spool(deployment.collection, server, writer=True) as spool:
            form = ReportFormat(deployment.collection, server)
            spool.add(*form.decode(b"".join(records[server] for records in reports)))


def released(deployment, results, refused=None, rows=None):
    """All have written the same file, which verifies, and its sums are exactly those of these rows."""
    assert not [result for result in results.values() if isinstance(result, Exception)], results
    assert len({deployment.out(server).read_bytes() for server in results}) == 1
    verified = verify(deployment.out(min(results)), deployment.collection)
    rows = rows_of_clients() if rows is None else rows
    expected = Client(deployment.collection.plan).encode(rows).sum(axis=0)
    np.testing.assert_array_equal(verified.release.sums[0], expected)
    assert verified.certificate.statement.manifest.refused == (refused or {})
    return verified


def states(deployment):
    found = []
    for server in range(len(deployment.collection.servers)):
        with ReleaseLedger(ServerFolder(deployment.folder(server)).ledger) as ledger:
            found.append([str(entry.state) for entry in ledger.releases()])
    return found


def points(deployment):
    """The point that each ledger says is used."""
    found = []
    for server in range(len(deployment.collection.servers)):
        with ReleaseLedger(ServerFolder(deployment.folder(server)).ledger) as ledger:
            found.append(ledger.point(deployment.collection.digest))
    return found


def kept_noise(deployment):
    """Files of dealt noise that each server keeps."""
    return [
        sorted(ServerFolder(deployment.folder(server)).ledger.glob("noise-*"))
        for server in range(len(deployment.collection.servers))
    ]


every_number = pytest.mark.long("five servers; three and four are in the ordinary suite")
NUMBERS = [3, 4, pytest.param(5, marks=every_number)]


@pytest.mark.parametrize("servers", NUMBERS)
def test_without_liars_the_release_is_that_of_all_rows(deployed, silent, servers):
    deployment, told = deployed(servers), []
    verified = released(deployment, converse(deployment, told=told))
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
    assert not deployment.collection.checked_dealing
    assert kept_noise(deployment) == [[]] * servers


def test_the_noise_is_there_and_of_the_variance_that_is_stated(deployed, monkeypatch):
    """Nine sums hold what three servers drew, each its own; of many draws see tests/privacy/test_dealt_noise.py."""
    drawn = []
    original = noise_dealing.draw_dealt

    def noted(task, stream, threads=1):
        drawn.append(original(task, stream, threads=threads))
        return drawn[-1]

    monkeypatch.setattr(noise_dealing, "draw_dealt", noted)
    deployment = deployed(3)
    assert not [result for result in converse(deployment).values() if isinstance(result, Exception)]
    release = verify(deployment.out(0), deployment.collection).release
    expected = Client(deployment.collection.plan).encode(rows_of_clients()).sum(axis=0)
    assert len(drawn) == 3
    np.testing.assert_array_equal(release.sums[0] - expected, sum(drawn)[0])
    assert len({noise.tobytes() for noise in drawn}) == 3
    away = np.abs(release.sums[0] - expected) * release.task.units
    assert 0 < away.max() < 8 * release.noise_variance[0] ** 0.5


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
    deployment = deployed(3)
    join(deployment, *(DEEDS[deed](deployment.collection, os.urandom(16)) for _ in range(2)))
    verified = released(deployment, converse(deployment), {FALSE_PROOF: 2})
    assert any(f"2 refused ({FALSE_PROOF})" in check for check in verified.checks)


def test_different_lists_are_left_out(deployed, silent):
    deployment = deployed(4)
    join(deployment, shamir_servers.list_another_hash(deployment.collection, os.urandom(16)))
    released(deployment, converse(deployment), {DIFFERENT_LISTS: 1})


@pytest.mark.parametrize("servers", NUMBERS)
def test_every_single_word_that_is_off_at_one_server_is_noticed(deployed, silent, servers):
    """One report for each word of a record, dealt with hashes that fit; the server is named where decoding names it."""
    deployment, told = deployed(servers), []
    words = deployment.collection.plan.proofs.circuit.words
    ids = [os.urandom(16) for _ in range(words)]
    victim = servers - 2
    records = shamir_servers.deal_one_word_off(deployment.collection, ids, victim, range(words))
    join(deployment, *zip(*records, strict=True))
    verified = released(deployment, converse(deployment, told=told), {INCONSISTENT: words})
    named = servers > 3
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
        with pytest.raises(GuaranteeError, match="without: "):
            require_quorum(collection, without)


def test_two_liars_at_five_two_with_an_honest_server_missing_are_refused(originals, tmp_path):
    """Four are more than (M + t)/2 = 3.5, and without proofs enough; with proofs 2t + 1 = 5 have to be there."""
    with pytest.raises(GuaranteeError, match="among fewer 2 corrupt ones could have false reports accepted"):
        require_quorum(originals(5).collection, (0,))
    unproved = deploy(tmp_path / "trial", 5, count=1, **{**SHAMIR, "proved": False, "noise_by": "clients"})
    require_quorum(unproved.collection, (0,))
    ended = run(originals(5), servers=[0], options=["--without", "1"])
    assert ended[0].status == 2
    assert "at least 5 of 5 servers expected where clients prove what they share" in ended[0].told


def test_a_missing_server_of_four_is_done_without(deployed, silent):
    deployment = deployed(4)
    verified = released(deployment, converse(deployment, servers=[0, 1, 3]))
    manifest = verified.certificate.statement.manifest
    assert manifest.dealers == [0, 1, 3]
    assert verified.certificate.statement.without == [2]
    assert verified.release.task.noise_terms.tolist() == [3]


# Servers that lie about reports and in the opening


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


def lie_about_report(monkeypatch, liar, report):
    original = verification.exchange_block

    async def lying(party, kind, own):
        if party.pid == liar and kind is Kind.PROOF:
            own = own.copy()
            own[report, 0] = (int(own[report, 0]) + 1) % (2**61 - 1)
        return await original(party, kind, own)

    monkeypatch.setattr(verification, "exchange_block", lying)


@pytest.mark.parametrize("servers", [3, 4])
def test_a_server_that_lies_about_a_report_is_named_among_four_and_not_among_three(
    deployed, silent, monkeypatch, servers
):
    deployment = deployed(servers)
    lie_about_report(monkeypatch, 1, 3)
    results = converse(deployment)
    dropped = sorted(range(COUNT), key=lambda index: deployment.ids[index])[3]
    rows = np.delete(rows_of_clients(), dropped, axis=0)
    verified = released(deployment, results, {INCONSISTENT: 1}, rows)
    assert verified.certificate.statement.manifest.odd == ({"1": 1} if servers == 4 else {})


class AltersShare(ReleasingServer):
    """A server that commits to a wrong share of the sums."""

    def bound_share(self, manifest, sums):
        wrong = super().bound_share(manifest, sums).copy()
        wrong[0, 0] ^= np.uint64(1)
        return wrong


def test_a_wrong_share_of_the_sums_is_evidence_where_all_four_are_present(deployed, silent):
    deployment = deployed(4)
    verified = released(deployment, converse(deployment, kinds={2: AltersShare}))
    (line,) = [check for check in verified.checks if check.startswith("signatures: ")]
    assert (
        "wrong shares of servers [2] were corrected: they are corrupt, if at most one of the 4 servers may be" in line
    )


@pytest.mark.parametrize(("servers", "present"), [(3, [0, 1, 2]), (4, [0, 1, 2])])
def test_a_wrong_share_ends_the_run_where_nobody_can_be_named(deployed, silent, servers, present):
    for result in converse(deployed(servers), kinds={2: AltersShare}, servers=present).values():
        assert isinstance(result, InconsistentShares), result
        assert "which of them are wrong is unknown" in str(result)


def test_words_about_blame(originals):
    four, three = originals(4).collection, originals(3).collection
    assert blame(four, [], {"0": []}) == ""
    assert "they are corrupt" in blame(four, [], {"0": [1]})
    assert "convicts nobody" in blame(four, [3], {"0": [1]})
    assert "convicts nobody" in blame(three, [], {"0": [1]})


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
    deployment = deployed(4)
    with_dealer(monkeypatch, 2, shamir_servers.DealsWitness, shamir_servers.beyond_the_range)
    results = converse(deployment)
    ended_by(results, InconsistentShares, "what servers [2] dealt is not within its range", 2, range(4))
    assert states(deployment) == [[]] * 4
    assert kept_noise(deployment) == [[]] * 4
    monkeypatch.undo()
    monkeypatch.setattr(noise_dealing, "draw_dealt", no_noise)
    released(deployment, converse(deployment, servers=[0, 1, 3]))


def test_noise_dealt_on_no_polynomial_ends_the_run(deployed, silent, monkeypatch):
    """Server 3 deals server 0 a word that is off: one of the two lies, and nobody else can tell which."""
    deployment = deployed(4)
    with_dealer(monkeypatch, 3, shamir_servers.DealsOneWordOff, 0, 5)
    results = converse(deployment)
    message = "the messages about what servers [3] dealt lie on no polynomial of degree 1"
    ended_by(results, InconsistentShares, message, None, range(4))
    assert "server 0 is off in that of servers [3]" in str(results[1])


@pytest.mark.parametrize(("servers", "named"), [(3, None), (4, 1)])
def test_a_server_that_lies_about_all_noise_is_named_among_four(deployed, silent, monkeypatch, servers, named):
    deployment = deployed(servers)
    others = [number for number in range(servers) if number != 1]
    with_dealer(monkeypatch, 1, shamir_servers.AnswersWrongly, others)
    results = converse(deployment)
    message = "server 1 sent messages about the noise of servers [0, 2, 3] that are off"
    ended_by(results, InconsistentShares, message if named else "lie on no polynomial", named, others)
    assert states(deployment) == [[]] * servers


def test_a_share_of_noise_with_another_hash_names_its_dealer(deployed, silent, monkeypatch):
    def of_hash(rows):
        rows[0, 2] ^= np.uint64(1)
        return rows

    deployment = deployed(3)
    with_dealer(monkeypatch, 2, shamir_servers.ChangesWhatIsDealt, 0, of_hash)
    results = converse(deployment)
    assert results[0].party == 2
    assert "server 2 lists another hash of the share of server 0" in str(results[0])
    assert "server 0 refuses: noise: server 2 lists another hash" in str(results[1])


def test_different_lists_of_noise_end_the_run(deployed, silent, monkeypatch):
    def another_list(rows):
        rows[0, 2 + 4] ^= np.uint64(1)  # the hash of the share of server 1
        return rows

    deployment = deployed(3)
    with_dealer(monkeypatch, 2, shamir_servers.ChangesWhatIsDealt, 0, another_list)
    for result in list(converse(deployment).values())[:2]:
        assert isinstance(result, InconsistentShares)
        assert "lists of dealt noise: server" in str(result)


def test_words_of_noise_that_are_no_elements_name_their_server(deployed, silent, monkeypatch):
    def outside(rows):
        rows[0, -1] = 2**61 - 1
        return rows

    deployment = deployed(3)
    with_dealer(monkeypatch, 2, shamir_servers.ChangesWhatIsDealt, 0, outside)
    results = converse(deployment)
    assert isinstance(results[0], MalformedFrame)
    assert results[0].party == 2
    assert "sent no valid NOISE frame" in str(results[0])


def test_different_messages_about_noise_bind_nothing(deployed, silent):
    deployment = deployed(3)
    for result in list(converse(deployment, {2: off_by_one(Kind.NOISE_PROOF, (0, 0), (0,))}).values())[:2]:
        assert isinstance(result, InconsistentShares)
        assert "messages about noise: server" in str(result)
    assert states(deployment) == [[]] * 3
    released(deployment, converse(deployment))


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
        (5, 2, [], {0: [1, 2, 3, 4]}, None),  # two liars can make an honest one look off
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


# Crashes


class Dies(ReleasingServer):
    """A server whose process ends before or after a step."""

    step = ("points", "use", "after")

    @property
    def points(self):
        return self._deadly("points", super().points)

    @property
    def noise_shares(self):
        return self._deadly("noise_shares", super().noise_shares)

    def seal(self, *arguments):
        return self._die("self", "seal", super().seal, *arguments)

    def bound_share(self, *arguments):
        return self._die("self", "bound_share", super().bound_share, *arguments)

    def finish(self, *arguments):
        return self._die("self", "finish", super().finish, *arguments)

    def _deadly(self, holder, keeper):
        if self.step[0] == holder:
            name, original = self.step[1], getattr(keeper, self.step[1])
            setattr(keeper, name, lambda *arguments: self._die(holder, name, original, *arguments))
        return keeper

    def _die(self, holder, name, original, *arguments):
        if self.step[:2] != (holder, name):
            return original(*arguments)
        if self.step[2] == "after":
            original(*arguments)
        raise DpmpcError("dead")


STEPS = [
    (holder, name, moment)
    for holder, names in (
        ("points", ("close", "standing", "seal", "use")),
        ("noise_shares", ("keep", "load", "forget")),
        ("self", ("seal", "bound_share", "finish")),
    )
    for name in names
    for moment in ("before", "after")
]


OF_EACH_KIND = [
    ("points", "use", "after"),
    ("noise_shares", "keep", "after"),
    ("self", "bound_share", "before"),
    ("self", "finish", "before"),
]
any_step = pytest.mark.long("a crash at each of twenty places; four of them are in the ordinary suite")


@pytest.mark.parametrize(
    "step",
    [pytest.param(step, id="-".join(step), marks=() if step in OF_EACH_KIND else any_step) for step in STEPS],
)
def test_a_crash_at_any_step_and_a_repetition(deployed, silent, step):
    """One point for all, and one release of the honest rows; nothing was sent about a report at another point."""
    deployment = deployed(3)
    join(deployment, DEEDS["wrong products"](deployment.collection, os.urandom(16)))
    results = converse(deployment, kinds={1: type("Dying", (Dies,), {"step": step})})
    assert "dead" in str(results[1])
    before = {point for point in points(deployment) if point is not None}
    results = converse(deployment)
    released(deployment, results, {FALSE_PROOF: 1})
    after = set(points(deployment))
    assert len(after) == 1
    assert len(before) <= 1
    assert before <= after
    assert kept_noise(deployment) == [[]] * 3


def test_other_servers_go_on_at_the_same_point(deployed, silent):
    """Four servers have used a point; one of them is lost, then comes back while another one is away."""
    deployment = deployed(4)
    join(deployment, DEEDS["wrong products"](deployment.collection, os.urandom(16)))

    def cut(runtime):
        def change(sender, receiver, frame):
            if frame.kind is Kind.PROOF:
                raise DpmpcError("dead")
            return frame

        meddle(change, runtime)

    converse(deployment, {3: cut})
    used = points(deployment)
    assert len(set(used)) == 1
    assert used[0] is not None
    for present in ([0, 1, 2], [1, 2, 3]):
        sent = []

        def watch(runtime, sent=sent):
            meddle(lambda sender, receiver, frame: sent.append(frame.kind) or frame, runtime)

        converse(deployment, {present[0]: watch, present[2]: cut}, servers=present)
        assert Kind.PROOF in sent
        assert points(deployment) == used
    released(deployment, converse(deployment, servers=[0, 2, 3]), {FALSE_PROOF: 1})


def test_a_server_that_missed_the_point_stays_out(deployed, silent):
    """Three of four use a point; the fourth was not there when it was tossed, so that it may have stored reports."""
    deployment = deployed(4)
    dying = type("Dying", (Dies,), {"step": ("noise_shares", "keep", "before")})
    results = converse(deployment, kinds={2: dying}, servers=[0, 1, 2])
    assert "dead" in str(results[2])
    for result in converse(deployment).values():
        assert isinstance(result, GuaranteeError)
        assert "which server 3 has not sealed" in str(result)
    released(deployment, converse(deployment, servers=[0, 1, 2]))


def test_what_was_begun_goes_on_with_the_same_noise(deployed, monkeypatch):
    """One server has bound its share when another dies: the repetition deals nothing."""
    drawn = []
    original = noise_dealing.draw_dealt

    def noted(task, stream, threads=1):
        drawn.append(original(task, stream, threads=threads))
        return drawn[-1]

    monkeypatch.setattr(noise_dealing, "draw_dealt", noted)
    deployment = deployed(3)
    results = converse(deployment, kinds={1: type("Dying", (Dies,), {"step": ("self", "bound_share", "before")})})
    assert "dead" in str(results[1])
    assert states(deployment) == [["opening"], ["sealed"], ["opening"]]
    assert len(drawn) == 3
    results = converse(deployment)
    assert not [result for result in results.values() if isinstance(result, Exception)], results
    assert len(drawn) == 3
    release = verify(deployment.out(0), deployment.collection).release
    expected = Client(deployment.collection.plan).encode(rows_of_clients()).sum(axis=0)
    np.testing.assert_array_equal(release.sums[0] - expected, sum(drawn)[0])


def test_a_run_that_bound_nothing_deals_other_noise(deployed, monkeypatch):
    """A dealing is answered for at one point only: no run takes up what an earlier one dealt."""
    dealt, original = [], noise_dealing.NoiseDealer.deal

    def noted(self):
        rows = original(self)
        dealt.append(rows[0].tobytes())
        return rows

    monkeypatch.setattr(noise_dealing.NoiseDealer, "deal", noted)
    deployment = deployed(3)
    for step in (("noise_shares", "keep", "after"), ("self", "seal", "after")):
        results = converse(deployment, kinds={1: type("Dying", (Dies,), {"step": step})})
        assert "dead" in str(results[1])
    assert not [result for result in converse(deployment).values() if isinstance(result, Exception)]
    assert len(dealt) == len(set(dealt)) == 9


PROCESS_STEPS = [
    ("after", "points", "close"),
    ("before", "points", "seal"),
    ("after", "points", "use"),
    ("after", "verification", "exchange_block"),
    ("before", "noise", "exchange_dealt"),
    ("after", "noise", "exchange_dealt"),
    ("after", "noise", "exchange_answers"),
    ("before", "noise_shares", "keep"),
    ("after", "noise_shares", "keep"),
    ("after", "ledger", "seal"),
    ("before", "ledger", "begin_opening"),
    ("after", "ledger", "begin_opening"),
    ("before", "protocol", "exchange_shares"),
    ("after", "noise_shares", "forget"),
]
TELLING = [PROCESS_STEPS[place] for place in (6, 11)]
every_step = pytest.mark.long("a kill at each of fourteen places; two of them are in the ordinary suite")


@pytest.mark.parametrize(
    ("moment", "holder", "step"),
    [pytest.param(*step, id="-".join(step), marks=() if step in TELLING else every_step) for step in PROCESS_STEPS],
)
def test_a_killed_process_and_a_repetition(deployed, moment, holder, step):
    """Three processes over TLS: one is killed, all are started again, and there is one point and one release."""
    deployment = deployed(3)
    join(deployment, DEEDS["wrong products"](deployment.collection, os.urandom(16)))
    telling = dict.fromkeys((0, 2), ("tell_what_is_sent", "PROOF"))
    ended = run(deployment, deeds={**telling, 1: ("die", moment, holder, step)})
    assert ended[1].status == -9
    used = {point for point in points(deployment) if point is not None}
    first = {server: proofs_sent(ended[server]) for server in (0, 2)}
    ended = run(deployment, deeds=telling)
    assert {one.status for one in ended.values()} == {0}, ended[0].told
    verified = verify(deployment.out(0), deployment.collection)
    assert verified.certificate.statement.manifest.refused == {FALSE_PROOF: 1}
    assert verified.release.clients == COUNT
    assert len(used) <= 1
    assert used <= set(points(deployment))
    for server in (0, 2):
        second = proofs_sent(ended[server])
        assert first[server] <= second or not second
    assert kept_noise(deployment) == [[]] * 3


def proofs_sent(ended):
    return {line for line in ended.told.splitlines() if line.startswith("SENT PROOF")}


# What is kept, and what files say


def test_kept_noise_is_private_and_damage_is_noticed(tmp_path):
    kept, share = NoiseShares(tmp_path), np.arange(6, dtype=np.uint64).reshape(2, 3)
    kept.keep(bytes(32), share)
    kept.keep(b"\1" * 32, share + np.uint64(1))
    (path, _) = sorted(tmp_path.iterdir())
    assert path.stat().st_mode & 0o777 == 0o600
    assert np.array_equal(kept.load(bytes(32), (2, 3)), share)
    with pytest.raises(SpoolError, match="is damaged"):
        kept.load(bytes(32), (2, 4))
    with pytest.raises(SpoolError, match="cannot be read"):
        kept.load(bytes(32), (1, 3))
    with pytest.raises(SpoolError, match="cannot be read"):
        kept.load(b"\2" * 32, (2, 3))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(SpoolError, match="is damaged"):
        kept.load(bytes(32), (2, 3))
    path.write_bytes((tmp_path / f"noise-{'01' * 32}").read_bytes())
    with pytest.raises(SpoolError, match="is damaged"):
        kept.load(bytes(32), (2, 3))
    kept.forget_all_but({b"\1" * 32})
    assert [one.name for one in tmp_path.iterdir()] == [f"noise-{'01' * 32}"]
    kept.forget(b"\1" * 32)
    kept.forget(b"\1" * 32)
    assert not list(tmp_path.iterdir())


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


def test_counts_that_cannot_be_do_not_verify(originals):
    collection = originals(4).collection
    assert check_odd(collection, {INCONSISTENT: 2}, {}) == ""
    for refused, odd in (({INCONSISTENT: 2}, {"1": 3}), ({}, {"1": 1}), ({INCONSISTENT: 2}, {"4": 1})):
        with pytest.raises(VerificationFailed, match="odd: "):
            check_odd(collection, refused, odd)
    manifest = Manifest(1, "", "", 200, "", 0, "", "", refused={INCONSISTENT: 2}, odd={"10": 1})
    with pytest.raises(VerificationFailed, match="odd: "):
        check_refused(collection, manifest)


def test_a_task_of_a_collection_says_how_many_dealt(originals):
    collection = originals(4).collection
    assert collection.task(COUNT, bytes(32), dealers=4).noise_terms.tolist() == [4]
    with pytest.raises(InputError, match="dealers: None given, how many servers dealt noise expected"):
        collection.task(COUNT, bytes(32))
    with pytest.raises(InputError, match="dealers: 2 given"):
        collection.task(COUNT, bytes(32), dealers=2)


def test_proofs_take_the_place_of_the_check_of_dealings(originals):
    with pytest.raises(InputError, match="checked_dealing: true given with proofs"):
        msgspec.structs.replace(originals(3).collection, checked_dealing=True)
