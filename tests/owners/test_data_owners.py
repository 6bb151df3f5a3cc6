"""Owners of many rows: what they open, what each checks, and that a round that is repeated is the same round.

All owners run in this process, each with its folder on the disk; a crash is an exception from a step of the program.
Seeds are fixed wherever an answer is judged.
"""

import errno

import msgspec
import numpy as np
import pytest

from dpmpc import LogisticRegression
from dpmpc.base.errors import (
    BatchMismatch,
    BudgetExceeded,
    Equivocation,
    GuaranteeError,
    InputError,
    MalformedFrame,
    SimulationOnly,
    SpoolError,
)
from dpmpc.base.randomness import Stream, stream_for
from dpmpc.base.storage.kept import KEPT_FILE, Kept
from dpmpc.data import Column, Schema, Table, write_csv
from dpmpc.linear.contributions.clipped_scores import ClippedScores
from dpmpc.linear.contributions.scores import Logistic
from dpmpc.models.rounds import SavedReleases
from dpmpc.owners.rows.own_rounds import AgreedReleases, OwnRound, RowsInMemory
from dpmpc.owners.rows.owner_parties import OwnerSource, load_releases, public_arguments, run
from dpmpc.owners.rows.owners_plan import OwnersPlan
from dpmpc.owners.rows.rounds_record import LEDGER_FILE, RoundsRecord, has_sent
from dpmpc.parties.network.frames import Frame, Kind
from dpmpc.parties.network.settings import digest_of, write_source
from dpmpc.privacy import BudgetLedger
from dpmpc.privacy.task import Task
from dpmpc.protocols import data_owners
from dpmpc.release.analyst import open_sums
from support.hostile.servers import PLACES_THAT_ANNOUNCE, meddle, tell_other_words
from support.kept_files import forget_folder, kept_on_disk
from support.rejections import blames, rejects
from support.talk import identities, talk

SCHEMA = Schema((Column("a", -1, 1), Column("b", -1, 1), Column("ill", 0, 1)))
ROWS = (700, 1200, 900)
SUMS = 5  # of the plan below: second moments, two steering rounds, two last rounds


def plan_of(**changes):
    facts = {
        "owners": ("north", "south", "east"),
        "rows": ROWS,
        "schema": SCHEMA,
        "model": "logistic",
        "rounds": 2,
        "intervals": True,
        "epsilon": 3.0,
        "delta": 1e-6,
    }
    return OwnersPlan(**{**facts, **changes})


def people():
    rng = np.random.default_rng(8)
    X = rng.uniform(-1, 1, (sum(ROWS), 2))
    ill = rng.random(len(X)) < 1 / (1 + np.exp(0.5 - 2 * X[:, 0] + X[:, 1]))
    return np.column_stack([X, ill]).astype(float)


def parts():
    return np.split(people(), np.cumsum(ROWS)[:-1])


def in_process(plan, streams):
    """Fit with all owners in one loop, without a network; return the model and the releases."""
    own = [OwnRound(plan, number, RowsInMemory(part), streams[number]) for number, part in enumerate(parts())]

    def exchange(number, task):
        dealt = [one.shares(task) for one in own]
        totals = [np.zeros((1, task.width), np.uint64) for _ in own]
        for owner, total in enumerate(totals):
            for shares in dealt:
                task.encoding.ring.add(total, shares[owner : owner + 1], out=total)
        return open_sums(task, totals)

    releases = AgreedReleases(plan, exchange)
    return plan.estimator().fit_rounds(releases), releases.made


def test_what_is_opened_is_the_noisy_sum_over_all_rows():
    """The sum without its noise is exact, and the noise has the deviation of every owner's, who each add enough."""
    plan = plan_of(simulation_seed=1)
    stream = stream_for(1)
    model, made = in_process(plan, [stream.substream(number) for number in range(3)])
    start = made[0]
    Z = SCHEMA.normalise(people())
    exact = start.task.statistic.encode(Z, start.task.encoding).sum(axis=0)
    noise = (start.sums[0] - exact) / start.task.noise.sigma
    assert abs(noise).max() < 4.5 * np.sqrt(3)  # 9 entries: chance below 1e-4
    assert noise.std() > 0.5
    assert start.task.noise_terms.tolist() == [3]
    assert model.guarantee_.corrupt_servers == 2
    assert model.guarantee_.achieved_epsilon <= 3.0
    best = LogisticRegression(epsilon=1000.0, bounds=(-1, 1), simulation_seed=1).fit(people()[:, :2], people()[:, 2])
    assert model.coef_ == pytest.approx(best.coef_, abs=4 * model.inference().standard_errors.max())


def test_one_owner_alone_hides_its_rows():
    """The shares of all other owners, and their sums, tell nothing but the owner's sum with its own noise."""
    plan = plan_of()
    task = AgreedReleases(plan, None).task(0.5)
    own = OwnRound(plan, 0, RowsInMemory(parts()[0]), Stream.from_os())
    first, second = own.shares(task), own.shares(task)
    exact = task.statistic.encode(SCHEMA.normalise(parts()[0]), task.encoding).sum(axis=0)
    ring = task.encoding.ring
    noises = [
        (ring.lift(task.scheme.combine([share[None] for share in shares]))[0] - exact) / task.noise.sigma
        for shares in (first, second)
    ]
    assert np.abs(noises).max() < 5
    assert np.std(noises) == pytest.approx(1, abs=0.55)  # 18 draws: chance below 1e-3
    assert not np.array_equal(noises[0], noises[1])
    assert not (first == second).any()


@pytest.mark.parametrize("corrupt", [1, 2, 3])
def test_what_remains_against_a_coalition_of_t_has_the_variance_that_protects(corrupt):
    """Without the coalition's own noise; and the opened sum has M/(M - t) times it.

    860 entries: the variance of the noise has a relative deviation of sqrt(2 / 860), and five of them are left, at a
    false alarm of 1e-6 each.
    """
    schema, owners = Schema(tuple(Column(f"c{number}", -1, 1) for number in range(40))), 4
    rows = np.random.default_rng(3).uniform(-1, 1, (owners, 5, 40))
    plan = plan_of(owners=tuple("abcd"), rows=(5,) * owners, schema=schema, model="ridge", delta=1e-3, corrupt=corrupt)
    task = AgreedReleases(plan, None).task(1.0)
    ring, noises, dealt = task.encoding.ring, [], []
    for number, own in enumerate(rows):
        dealt.append(OwnRound(plan, number, RowsInMemory(own), Stream.from_os()).shares(task))
        noisy = ring.lift(task.scheme.combine([share[None] for share in dealt[-1]]))[0]
        noises.append(noisy - task.statistic.encode(schema.normalise(own), task.encoding).sum(axis=0))
    assert task.width == 860
    needed = (task.sensitivity.l2 / task.guarantee.mu) ** 2
    close, opened = 5 * np.sqrt(2 / task.width), owners / (owners - corrupt)
    assert np.mean(np.sum(noises[corrupt:], axis=0, dtype=float) ** 2) / needed == pytest.approx(1, abs=close)
    assert np.mean(np.sum(noises, axis=0, dtype=float) ** 2) / needed == pytest.approx(opened, abs=close * opened)
    totals = [np.sum([shares[owner : owner + 1] for shares in dealt], axis=0, dtype=np.uint64) for owner in range(4)]
    said = open_sums(task, totals).noise_variance[0] * 2.0 ** (2 * task.encoding.fractional_bits)
    assert said / needed == pytest.approx(opened, rel=1e-6)


def test_seeded_noise_is_for_simulations():
    plan = plan_of()
    with pytest.raises(SimulationOnly):
        OwnRound(plan, 0, RowsInMemory(parts()[0]), Stream.from_seed(1)).shares(AgreedReleases(plan, None).task(0.5))


def test_another_number_of_rows_is_refused():
    with rejects("rows", expected="(700, 3)"):
        OwnRound(plan_of(), 0, RowsInMemory(parts()[1]), Stream.from_os())


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        ({"owners": ("one",), "rows": (5,)}, "owners"),
        ({"owners": ("a", "a", "b")}, "owners"),
        ({"rows": (5, 6)}, "rows"),
        ({"rows": (5, 6, 0)}, "rows"),
        ({"model": "probit"}, "model"),
        ({"corrupt": 0}, "corrupt"),
        ({"corrupt": 3}, "corrupt"),
        ({"corrupt": 1.5}, "corrupt"),
        ({"rounds": 65}, "rounds"),
        ({"rounds": 0}, "rounds"),
        ({"schema": Schema(SCHEMA.columns, "refuse")}, "bounds"),
        ({"model": "poisson", "schema": Schema((*SCHEMA.columns[:2], Column("n", 1, 9)))}, "bounds of column 'n'"),
        ({"schema": Schema((*SCHEMA.columns[:2], Column("n", 0, 2)))}, "bounds of column 'n'"),
    ],
)
def test_plans_that_make_no_sense_are_refused(changes, argument):
    with rejects(argument):
        plan_of(**changes).require_possible()


def test_plans_that_no_noise_can_keep_are_refused():
    with rejects("epsilon", GuaranteeError):
        plan_of(epsilon=1e-7, delta=1e-4).require_possible()
    with rejects("delta"):  # which no other epsilon would mend
        plan_of(epsilon=1e-7, delta=1e-3).require_possible()


class Crash(Exception):
    """The process of an owner ends."""


class Owners:
    """Three owners with folders that stay from run to run."""

    def __init__(self, folder, **changes):
        self.plan = plan_of(**changes)
        self.arguments = public_arguments(self.plan)
        self.folders = identities(folder / "owners", 3)
        for there, part in zip(self.folders, parts(), strict=True):
            write_csv(there / "rows.csv", Table(SCHEMA.names, part))
            write_source(there, OwnerSource(str(there / "rows.csv")))

    def run(self, deeds=None):
        """Run all; `deeds[number](party)` changes a party before it begins. Return what each returned or raised."""

        async def program(party):
            self.sent[party.pid] = party.runtime.sent
            if deeds and party.pid in deeds:
                deeds[party.pid](party)
            return await data_owners.take_part(party)

        self.sent = [[], [], []]
        return talk(self.folders, program, arguments=self.arguments, task=digest_of("talk", self.arguments))

    def words(self):
        """What each owner sent of shares, by owner."""
        return [[frame.words.tolist() for frame in sent if frame.kind == Kind.SHARE] for sent in self.sent]

    def spent(self):
        return [len(BudgetLedger.load(there / LEDGER_FILE).entries) for there in self.folders]


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
                frame = what(frame) or frame
            await send(receiver, frame)

        party.runtime.send_frame = send_frame

    return deed


def crash(frame):
    raise Crash


def test_all_owners_end_with_the_same_sums(owners):
    assert owners.run() == [{"sums": SUMS}] * 3
    first, *others = [load_releases(there) for there in owners.folders]
    for sums in others:
        assert [one.task.digest for one in sums] == [one.task.digest for one in first]
        assert all(np.array_equal(ours.sums, theirs.sums) for ours, theirs in zip(first, sums, strict=True))
    model = LogisticRegression(rounds=2).fit_rounds(SavedReleases(first, 3.0))
    assert model.rounds_ == 2
    assert model.coef_ == pytest.approx([2, -1], abs=1.0)
    assert owners.spent() == [SUMS] * 3
    ledger = BudgetLedger.load(owners.folders[0] / LEDGER_FILE)
    assert 2.9 < ledger.epsilon <= 3.0
    assert not first[0].task.simulation


def test_whoever_commits_to_something_else_in_a_repetition_is_named(owners):
    owners.run({1: before(Kind.SALT, crash)})
    forget_folder(owners.folders[1])
    (owners.folders[1] / LEDGER_FILE).unlink()  # an owner that lost its folder, or says so
    broken = owners.run()
    assert isinstance(broken[0], BatchMismatch)
    assert broken[0].party == 1
    assert "commits to another share of round 0 than in an earlier run" in str(broken[0])


def said(change):
    """What owner 0 says in place of its proposal."""

    def altered(content):
        proposal = msgspec.json.decode(content)
        change(proposal)
        return msgspec.json.encode(proposal)

    return altered


def proposing(monkeypatch, change):
    """Let owner 0 propose another task than the plan's, whole and with its digest."""
    honest = data_owners.proposal_of

    def proposal_of(task, before):
        facts = task.to_dict()
        change(facts)
        return honest(Task.from_dict(facts), before)

    monkeypatch.setattr(data_owners, "proposal_of", proposal_of)


def announcing(monkeypatch, kind, altered, liar=0):
    """Let an owner announce something else to all, signed and the same for all, whenever this kind is due."""
    honest = data_owners.announce

    async def announce(party, asked, own, *rest, **options):
        own = altered(own) if (party.pid, asked) == (liar, kind) else own
        return await honest(party, asked, own, *rest, **options)

    for place in (*PLACES_THAT_ANNOUNCE, data_owners):
        monkeypatch.setattr(place, "announce", announce)


@pytest.mark.parametrize(
    "change",
    [
        lambda task: task["noise"].update(sigma=1.0),
        lambda task: task.update(epsilon=30.0),
        lambda task: task["sketch"].update(columns=5),
        lambda task: task["trust"].update(corrupt_servers=1),
        lambda task: task["statistic"].update(theta=[5.0, 5.0, 5.0]) if "theta" in task["statistic"] else None,
    ],
    ids=["noise", "epsilon", "clients", "trust", "coefficients"],
)
def test_no_owner_answers_another_task_than_the_one_that_it_wants(owners, monkeypatch, change):
    """A proposal with less noise, more budget or other coefficients: who gets it names owner 0 and sends nothing."""
    proposing(monkeypatch, change)
    refused_by_both(owners)


@pytest.mark.parametrize(
    "change",
    [
        lambda proposal: proposal.clear(),
        lambda proposal: proposal.update(task="0" * 64),
        lambda proposal: proposal["noise"].update(sigma=1.0),
        lambda proposal: proposal["statistic"].update(bound=2.0),
        lambda proposal: proposal.update(sketch={"family": "countsketch", "rows": 5, "columns": 2800, "sparsity": 1}),
    ],
    ids=["nothing", "another digest", "other noise than in the digest", "unknown field", "sketch"],
)
def test_what_is_no_proposal_is_refused(owners, monkeypatch, change):
    announcing(monkeypatch, Kind.STATEMENT, said(change))
    refused_by_both(owners)


def refused_by_both(owners):
    broken = owners.run()
    for number in (1, 2):
        assert isinstance(broken[number], MalformedFrame), broken[number]
        assert broken[number].party == 0
    rounds = [sum(frame.kind == Kind.COMMITMENT for frame in sent) for sent in owners.sent[1:]]
    assert max(rounds) <= 2  # at most the first round was answered, to two peers


@pytest.mark.parametrize(
    "change",
    [
        lambda proposal: proposal.update(sketch={"family": "countsketch", "rows": (1 << 31) - 1, "columns": 1 << 34}),
        lambda proposal: proposal.update(trust={"servers": 4}),
        lambda proposal: proposal["statistic"].update(name="item-sketch"),
        lambda proposal: proposal.update(task="0" * 64),
        lambda proposal: proposal.pop("noise"),
        lambda proposal: proposal.update({"\x1b[2K": 1}),
    ],
    ids=["sketch", "trust", "statistic", "digest", "missing", "more"],
)
def test_a_task_that_another_plan_would_have_is_refused_before_time_or_memory_is_spent_on_it(monkeypatch, change):
    task = AgreedReleases(plan_of(), None).task(0.2)
    proposed = said(change)(data_owners.proposal_of(task, {}))
    monkeypatch.setattr(Task, "verify", lambda task: pytest.fail("a task of any size was verified"))
    with blames(0, MalformedFrame) as failure:
        data_owners.proposed_task(proposed, 0, task, {}, lambda task: None)
    assert str(failure.value).isprintable()


def test_a_matrix_is_said_once_and_is_the_same_for_all():
    """A later round names it by the digest of the task alone; who has computed another one is refused."""
    releases = AgreedReleases(plan_of(), None)
    matrix = np.eye(3) + 0.1

    def task(theta, error=0.0):
        return releases.task(0.3, ClippedScores(matrix * (1 + error), theta, 0.5, Logistic()))

    first, second = task([0.1, 0.2, 0.3]), task([0.1, 0.2, 0.6])
    before, allowed = first.to_dict()["statistic"], []
    said = data_owners.proposal_of(second, before)
    assert b"matrix" in data_owners.proposal_of(first, {})
    assert b"matrix" not in said
    assert b"link" not in said
    assert data_owners.proposed_task(said, 2, second, before, allowed.append).digest == second.digest
    assert [one.digest for one in allowed] == [second.digest]
    # as another machine may compute it: the proposer's is answered
    nearly = task([0.1, 0.2, 0.6], 1e-9)
    assert data_owners.proposed_task(said, 2, nearly, before, allowed.append).digest == second.digest
    with pytest.raises(MalformedFrame, match="another contribution than the fit would have asked for"):
        data_owners.proposed_task(said, 2, task([0.1, 0.2, 0.6], 1e-4), before, allowed.append)
    with pytest.raises(MalformedFrame, match=f"task: {second.digest.hex()} given"):
        data_owners.proposed_task(said, 2, nearly, nearly.to_dict()["statistic"], allowed.append)


def test_a_little_more_than_the_share_is_too_much_for_the_last_round(owners, monkeypatch):
    """Owner 0 asks for a little more in the last round, as no rounding does: the budget of all rounds ends it."""
    for there in owners.folders:  # with room in their ledgers for other fits
        BudgetLedger(9.0, 1e-6).save(there / "large.json")
        write_source(there, OwnerSource(str(there / "rows.csv"), str(there / "large.json")))

    proposed = []

    def more(task):
        proposed.append(task)
        if len(proposed) == SUMS:
            task["noise"]["sigma"] *= 0.996
            task["epsilon"] *= 1.008

    proposing(monkeypatch, more)
    broken = owners.run()
    for error in broken:
        assert isinstance(error, MalformedFrame), error
        assert error.party == 0
        assert f"proposed no task of round {SUMS - 1}: epsilon" in str(error)
        assert f"of {SUMS} releases together" in str(error)


def test_garbage_in_place_of_a_task_names_the_proposer(owners):
    def garbage(frame):
        return Frame(frame.kind, frame.sender, frame.task, b"\xff{]")

    broken = owners.run({0: before(Kind.STATEMENT, garbage)})
    assert isinstance(broken[1], MalformedFrame)
    assert broken[1].party == 0
    assert not has_sent(owners.folders[1])


# A liar among three: whoever knows it names it, and nobody else is ever named


def two_stories(kind, victim, nth=0, words=""):
    """An owner that announces something else to one other."""
    return lambda party: tell_other_words(kind, [victim], words, nth, party.runtime)


@pytest.mark.parametrize("words", ["", b"{}".hex()], ids=["changed", "no task"])
@pytest.mark.parametrize("nth", [0, 1], ids=["first round", "second round"])
def test_whoever_proposes_two_tasks_is_named_by_both_others(owners, nth, words):
    broken = owners.run({0: two_stories("STATEMENT", 2, nth, words)})
    for number in (1, 2):
        assert isinstance(broken[number], Equivocation | MalformedFrame), broken
        assert broken[number].party == 0
    assert [has_sent(there) for there in owners.folders[1:]] == [nth == 1] * 2


@pytest.mark.parametrize("kind", ["COMMITMENT", "VERDICT", "ECHO"])
@pytest.mark.parametrize(("liar", "victim"), [(1, 0), (2, 1), (0, 1)])
def test_whoever_commits_or_agrees_towards_one_and_not_the_other_is_named_by_both(owners, kind, liar, victim):
    nth = 3 if kind == "VERDICT" else 0  # that all have kept the commitments
    broken = owners.run({liar: two_stories(kind, victim, nth)})
    honest = [one for number, one in enumerate(broken) if number != liar]
    assert all(isinstance(one, Equivocation | MalformedFrame) for one in honest), broken
    assert {one.party for one in honest} == {liar}
    assert not any(load_releases(there) for there in owners.folders)


@pytest.mark.parametrize("kind", [Kind.SHARE, Kind.SALT])
@pytest.mark.parametrize("victims", [[2], [0, 2]], ids=str)
def test_whoever_shows_another_share_than_it_committed_to_is_named_by_whom_it_showed_it_to(owners, kind, victims):
    shown = []

    def other(sender, receiver, frame):
        shown.append(frame.kind)
        if frame.kind is not kind or receiver not in victims or shown.count(Kind.COMMITMENT) < 2:
            return frame
        return sender.frame(kind, frame.words + np.uint64(1) if kind is Kind.SHARE else frame.raw[::-1])

    broken = owners.run({1: lambda party: meddle(other, party.runtime)})
    for number in (0, 2):
        assert isinstance(broken[number], MalformedFrame), broken
        assert broken[number].party == (1 if number in victims else None)
        assert "party 1 has shown another share of round 0 than it committed to" in str(broken[number])
    assert not any(load_releases(there) for there in owners.folders)


@pytest.mark.parametrize(
    ("liar", "kind", "nth"), [(0, "STATEMENT", 1), (2, "COMMITMENT", 0), (2, "VERDICT", 3)], ids=lambda one: str(one)
)
def test_a_liar_among_three_processes_is_named(tmp_path, monkeypatch, liar, kind, nth):
    """Over TLS, with the rounds in a thread beside the links: the run ends, with the liar's name."""
    owners = Owners(tmp_path)
    for name, value in (("LIAR", liar), ("KIND", kind), ("NTH", nth)):
        monkeypatch.setenv(name, str(value))
    sources = [OwnerSource(str(there / "rows.csv")) for there in owners.folders]
    with pytest.raises((Equivocation, MalformedFrame)) as failure:
        run(owners.arguments, sources, program="network_programs.two_faced_owner")
    assert failure.value.party == liar


def test_what_an_owner_says_of_another_convicts_nobody(owners, monkeypatch):
    """Owner 1 refuses without a reason, and names owner 2."""
    honest = RoundsRecord.require

    def refuses(record, number, task):
        if record._folder == owners.folders[1]:
            raise BatchMismatch("party 2 is at another round", 2)
        honest(record, number, task)

    monkeypatch.setattr(RoundsRecord, "require", refuses)
    broken = owners.run()
    for number in (0, 2):
        assert broken[number].party is None
        assert "party 1 refuses: party 2 is at another round" in str(broken[number])


def test_a_ledger_that_is_full_answers_no_round(owners, tmp_path):
    """Owner 1 has answered other fits on the same rows: its ledger has no room for all rounds of this one."""
    ledger = BudgetLedger(3.0, 1e-6)
    ledger.spend((2.0, 1e-7), "an earlier fit")
    ledger.save(tmp_path / "rows.json")
    write_source(owners.folders[1], OwnerSource(str(owners.folders[1] / "rows.csv"), str(tmp_path / "rows.json")))
    broken = owners.run()
    assert isinstance(broken[1], BudgetExceeded)
    for other in (0, 2):
        assert isinstance(broken[other], GuaranteeError)
        assert str(broken[other]).startswith("party 1 refuses: the reason is in its own log (BudgetExceeded)")
    assert BudgetLedger.load(tmp_path / "rows.json").epsilon == ledger.epsilon
    assert not any(one.exists() for one in (owners.folders[0] / LEDGER_FILE, owners.folders[2] / LEDGER_FILE))
    assert owners.words() == [[], [], []]


@pytest.mark.parametrize("full", ["its ledger", "its record"])
def test_an_owner_whose_disk_is_full_says_so_to_the_others_and_nobody_sends_anything(owners, monkeypatch, full):
    write, put = BudgetLedger._write, Kept.put

    def write_of_most(self, target):
        if target.parent == owners.folders[1]:
            raise OSError(errno.ENOSPC, "No space left on device", str(target))
        write(self, target)

    def put_of_most(self, values):
        if self._place.parent == owners.folders[1]:
            raise SpoolError(f"{self._place}: No space left on device")
        put(self, values)

    with monkeypatch.context() as patched:
        if full == "its ledger":
            patched.setattr(BudgetLedger, "_write", write_of_most)
        else:
            patched.setattr(Kept, "put", put_of_most)
        broken = owners.run()
    assert isinstance(broken[1], SpoolError)
    assert "No space left" in str(broken[1])
    for other in (0, 2):
        assert isinstance(broken[other], SpoolError)
        assert str(broken[other]).startswith("party 1 refuses: the reason is in its own log (SpoolError)")
    assert owners.words() == [[], [], []]
    assert owners.run() == [{"sums": SUMS}] * 3
    assert owners.spent() == [SUMS] * 3


def test_an_owner_whose_folder_was_used_for_another_plan_says_so_to_the_others(owners):
    RoundsRecord(owners.folders[1], "b" * 64, owners.folders[1] / LEDGER_FILE, (3.0, 1e-6)).close()
    broken = owners.run()
    assert "which was used for bbbb" in str(broken[1])
    for other in (0, 2):
        assert str(broken[other]).startswith("party 1 refuses: the reason is in its own log (InputError)")


def test_a_file_that_is_not_what_the_plan_says_is_refused_before_anything_is_sent(owners):
    write_csv(owners.folders[2] / "rows.csv", Table(SCHEMA.names, parts()[2][:5]))
    broken = owners.run()
    assert isinstance(broken[2], InputError)
    assert "rows: 900 given by the plan, 5 expected" in str(broken[2])
    assert not any(has_sent(there) for there in owners.folders)


class TestRecord:
    """What is on the disk, and what is refused."""

    def open(self, folder, plan="a" * 64):
        return RoundsRecord(folder, plan, folder / LEDGER_FILE, (3.0, 1e-6))

    def task(self, share=0.3):
        return AgreedReleases(plan_of(), None).task(share)

    def test_what_is_kept_is_what_is_found(self, tmp_path):
        task, shares = self.task(), np.arange(27, dtype=np.uint64).reshape(3, 9)
        with self.open(tmp_path) as record:
            assert record.shares(0, (3, 9)) is None
            record.keep_shares(0, task, shares)
            assert record.opened(0, (1, 9)) is None
            record.keep_opened(0, shares[:1])
            record.keep_commitments(0, {0: b"x" * 32, 1: b"y" * 32})
            nonce = record.nonce(0)
        with self.open(tmp_path) as record:
            assert np.array_equal(record.shares(0, (3, 9)), shares)
            assert np.array_equal(record.opened(0, (1, 9)), shares[:1])
            assert record.nonce(0) == nonce
            assert record.task(0) == task.to_dict()
            record.require(0, task)
            record.keep_commitments(0, {0: b"x" * 32, 1: b"y" * 32})
            with blames(1, BatchMismatch):
                record.keep_commitments(0, {0: b"x" * 32, 1: b"z" * 32})
            with rejects("task"):
                record.require(0, self.task(0.2))
            with rejects("round", expected="1"):
                record.require(3, task)
            with rejects("round", given="0 given, which has its shares, 1 expected"):
                record.keep_shares(0, task, shares)
        assert len(BudgetLedger.load(tmp_path / LEDGER_FILE).entries) == 1

    def test_a_round_is_in_the_ledger_before_its_shares_are_on_the_disk(self, tmp_path, monkeypatch):
        def full(self, values):
            raise SpoolError("No space left on device")

        with self.open(tmp_path) as record, monkeypatch.context() as patched:
            patched.setattr(Kept, "put", full)
            with pytest.raises(SpoolError, match="No space"):
                record.keep_shares(0, self.task(), np.zeros((3, 9), np.uint64))
        assert len(BudgetLedger.load(tmp_path / LEDGER_FILE).entries) == 1
        with self.open(tmp_path) as record:
            record.keep_shares(0, self.task(), np.zeros((3, 9), np.uint64))
        assert len(BudgetLedger.load(tmp_path / LEDGER_FILE).entries) == 1

    def test_one_ledger_counts_the_same_round_of_each_folder(self, tmp_path):
        """A plan that is prepared again asks for the same first sum, and is answered with fresh noise."""
        task, ledger, limit = self.task(), tmp_path / "rows.json", (3.0, 1e-6)
        spent = []
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
            with RoundsRecord(tmp_path / name, "a" * 64, ledger, limit) as record:
                record.keep_shares(0, task, np.zeros((3, 9), np.uint64))
            spent.append(BudgetLedger.load(ledger).epsilon)
        assert len(BudgetLedger.load(ledger).entries) == 2
        assert spent[1] > 1.2 * spent[0]

    def test_a_folder_is_for_one_plan_and_one_process(self, tmp_path):
        with self.open(tmp_path), rejects("folder"):
            self.open(tmp_path)
        with rejects("folder"):
            self.open(tmp_path, "b" * 64)
        self.open(tmp_path).close()

    def test_what_is_written_is_on_the_disk_before_it_counts(self, tmp_path):
        """After each call, whatever may be sent then; the task, the shares and the nonce at once."""

        def names():
            return [name for name in kept_on_disk(tmp_path) if "round 0" in name]

        shares = ["nonce of round 0", "shares of round 0", "task of round 0"]
        commitments = [f"share of round 0 of party {number}" for number in range(2)]
        with self.open(tmp_path) as record:
            assert names() == []
            record.keep_shares(0, self.task(), np.zeros((3, 9), np.uint64))
            assert names() == shares
            record.keep_opened(0, np.zeros((1, 9), np.uint64))
            assert names() == sorted([*shares, "share of the sum of round 0"])
            record.keep_commitments(0, {0: b"x" * 32, 1: b"y" * 32})
            assert names() == sorted([*shares, "share of the sum of round 0", *commitments])

    def test_damage_is_noticed(self, tmp_path):
        task, shares = self.task(), np.arange(27, dtype=np.uint64).reshape(3, 9)
        with self.open(tmp_path) as record:
            record.keep_shares(0, task, shares)
        file = tmp_path / KEPT_FILE
        whole = file.read_bytes()
        file.write_bytes(whole.replace(shares.tobytes(), b"\1" + shares.tobytes()[1:]))
        with self.open(tmp_path) as record, pytest.raises(SpoolError):
            record.shares(0, (3, 9))
        file.write_bytes(whole.replace(b'"sigma":', b'"sigmb":'))
        with self.open(tmp_path) as record, pytest.raises(SpoolError):
            record.require(0, task)
        file.write_bytes(whole[:100] + bytes(len(whole) - 100))
        with pytest.raises(SpoolError, match=KEPT_FILE):
            self.open(tmp_path)


def test_a_folder_whose_record_is_gone_is_refused_by_its_own_ledger(tmp_path):
    """All that the folder kept was removed, the mark too, but not the ledger in it."""
    folder = TestRecord()
    with folder.open(tmp_path) as record:
        record.keep_shares(0, folder.task(), np.zeros((3, 9), np.uint64))
    for _ in range(2):
        forget_folder(tmp_path)
        for _ in range(2):
            with rejects("folder"):
                folder.open(tmp_path)
