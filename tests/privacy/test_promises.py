"""What a guarantee says is what is proven: who may be missing, who is counted on, what it rests on, and who checked."""

import datetime
import itertools
import json
import math
import re

import msgspec
import numpy as np
import pytest

from dpmpc import privacy
from dpmpc.base.errors import BatchMismatch, GuaranteeError, InputError
from dpmpc.collect.terms.collection_design import CollectionTerms, design_collection, omission
from dpmpc.collect.terms.server_entries import ServerEntry
from dpmpc.data import Schema
from dpmpc.linear.encoding import Sensitivity
from dpmpc.linear.sharing.batch import ArrayShare
from dpmpc.linear.sketching import OSNAP
from dpmpc.parties.network.identity import write_identity
from dpmpc.privacy import BudgetLedger, Guarantee
from dpmpc.privacy.calibration import Calibration, NoisePlacement
from dpmpc.privacy.composition import Cost
from dpmpc.privacy.gaussian import epsilon_of_mu
from dpmpc.privacy.guarantee import Preconditions
from dpmpc.privacy.specification import MATRICES, STATIC_FAILURE, Budget, ReleaseSpec, TrustModel, taken
from dpmpc.privacy.statements import ASSUMPTIONS
from dpmpc.release.analyst import open_sums
from dpmpc.release.client import share_batch
from dpmpc.release.planning import design
from dpmpc.release.release import GramRelease
from dpmpc.release.server import transform
from support.hostile.surrounding import surround
from support.rejections import rejects
from support.seal_keys import a_key

DAY = datetime.timedelta(days=1)
SCHEMA = Schema.from_pair(["a", "y"], (-1.0, 1.0))


def task_of(clients=120, **options):
    return design(
        ReleaseSpec.of(SCHEMA, clients, 1.0, 1e-6, **{"sketch": "osnap", "rows": 40, "sparsity": 2, **options})
    )


def box(columns=1, reach=2.0):
    return Sensitivity(l1=reach * columns, l2=reach * math.sqrt(columns), linf=reach, columns=columns)


# Who may be missing


@pytest.mark.parametrize("copies", ["one", "each"])
def test_dropouts_are_clients_in_all(copies):
    text = str(task_of(dropouts=2, copies=copies).guarantee)
    assert "anything from at most 2 clients in all is missing" in text
    assert "contributions to a row" not in text


def characteristics(S, sigma, side, copies):
    """Of each client's noise in the sums of one column on a torus of `side` squared points, and of the anchors'."""
    values = np.arange(-side // 2, side // 2)
    mass = np.exp(-(values**2) / (2 * sigma**2))
    table = (np.cos(2 * math.pi * np.outer(np.arange(side), values) / side) @ (mass / mass.sum())).ravel()
    first, second = np.meshgrid(np.arange(side), np.arange(side), indexing="ij")
    own = []
    for client in range(S.columns):
        rows, signs = S.entries(client, 1)
        at = dict(zip(rows[0].tolist(), signs[0].tolist(), strict=True))
        shared = table[(at[0] * first + at[1] * second) % side]
        own.append(shared if copies == "one" else table[first] * table[second])
    return own, table[first] * table[second] if copies == "one" else np.ones((side, side))


@pytest.mark.parametrize("copies", ["one", "each"])
@pytest.mark.parametrize("q", [0, 1, 2])
def test_the_true_delta_stays_below_the_claim_whoever_is_missing(copies, q):
    """Every set of q clients is left out, every other client is looked at, and delta is summed over the exact law."""
    S, side, reach = OSNAP(rows=2, columns=6, sparsity=2, seed=1, balanced=True), 256, 10
    epsilon, delta = 3.0, 1e-3
    trust, noising = TrustModel(dropouts=q), NoisePlacement(copies=1 if copies == "one" else None)
    noise = privacy.calibrate(S, box(reach=reach), epsilon, delta, trust=trust, noising=noising)
    promise = Calibration(S, box(reach=reach), epsilon, delta, trust=trust, noising=noising).guarantee(noise)
    assert promise.dropouts == q
    own, anchors = characteristics(S, noise.sigma, side, copies)
    worst = 0.0
    for missing in itertools.combinations(range(S.columns), q):
        there = [client for client in range(S.columns) if client not in missing]
        law = np.fft.ifft2(math.prod([own[client] for client in there], start=anchors)).real
        for victim in there:
            rows, signs = S.entries(victim, 1)
            moved = np.roll(law, tuple(int(sign) * reach for sign in signs[0]), axis=tuple(rows[0].tolist()))
            worst = max(worst, float(np.maximum(law - math.exp(epsilon) * moved, 0).sum()))
    assert 0.5 * delta < worst <= delta


def test_sums_lack_nobody():
    """No server sums a batch that lacks a client, with dropouts or without: q is what a guarantee could bear."""
    task = task_of(dropouts=2)
    shares = share_batch(task, np.zeros((120, 2)))
    short = ArrayShare(np.ascontiguousarray(shares[-1].rows(0, 119)), task.encoding.ring)
    whole = task.share_shape  # with one copy of a row or two, as the public matrix, drawn at random, allows
    with pytest.raises(BatchMismatch, match=re.escape(f"{(119, *whole[1:])} given, {whole} expected")):
        transform(task, short)


# What a guarantee is built from


def preconditions(**changes):
    given = {
        "clients": 10,
        "count_is_public": True,
        "missing": 2,
        "missing_means": "clients-in-all",
        "noise_by": "clients",
        "verified_by": ("clients",),
    }
    return Preconditions(**(given | changes))


@pytest.mark.parametrize(
    ("changes", "error", "rejection"),
    [
        ({"clients": 0}, InputError, {"argument": "clients", "given": "0"}),
        ({"clients": 10.0}, InputError, {"argument": "clients", "given": "10.0"}),
        ({"missing": -1}, InputError, {"argument": "missing", "given": "-1"}),
        ({"missing": True}, InputError, {"argument": "missing", "given": "True"}),
        ({"missing": 10}, GuaranteeError, {"argument": "missing", "given": "10 given of 10 clients, fewer expected"}),
        (
            {"count_is_public": False},
            GuaranteeError,
            {"argument": "count_is_public", "given": "False", "expected": "True"},
        ),
        ({"count_is_public": 1}, GuaranteeError, {"argument": "count_is_public", "given": "1", "expected": "True"}),
        (
            {"missing_means": "contributions to a row"},
            GuaranteeError,
            {"argument": "missing_means", "given": "'contributions to a row'"},
        ),
        ({"noise_by": "nobody"}, InputError, {"argument": "noise_by", "given": "'nobody'"}),
        (
            {"verified_by": ()},
            GuaranteeError,
            {"argument": "verified_by", "remedy": "a task that no party has verified promises nothing"},
        ),
        ({"verified_by": ("a stranger",)}, GuaranteeError, {"argument": "verified_by", "given": "('a stranger',)"}),
    ],
)
def test_preconditions_that_no_proof_covers_are_refused(changes, error, rejection):
    with rejects(kind=error, **rejection):
        preconditions(**changes)


def test_a_guarantee_needs_preconditions_of_its_own():
    promise = task_of(dropouts=2).guarantee
    facts = {name: getattr(promise, name) for name in Guarantee.__struct_fields__ if name != "preconditions"}
    with pytest.raises(TypeError, match="preconditions"):
        Guarantee(**facts)
    with rejects("preconditions", GuaranteeError, given="None"):
        msgspec.structs.replace(promise, preconditions=None)
    for changes in ({"clients": 119}, {"missing": 1}):
        with rejects("preconditions", GuaranteeError, expected="of 120 and 2"):
            msgspec.structs.replace(promise, preconditions=preconditions(**{"clients": 120, "missing": 2} | changes))
    assert Guarantee.from_dict(json.loads(json.dumps(promise.to_dict()))) == promise


def test_every_sentence_is_filled_from_the_fields_of_a_guarantee():
    promise = task_of(dropouts=2).guarantee
    codes = [code for code in ASSUMPTIONS if code != "public-floor"]  # of mutual information, which has that number
    said = msgspec.structs.replace(promise, assumptions=tuple(codes)).assumption_texts
    assert len(said) == len(codes)
    assert not [sentence for sentence in said if "{" in sentence or "None" in sentence]


@pytest.mark.parametrize(
    ("servers", "threshold", "words"),
    [
        (7, 2, ["at most 2 of the 7", "(up to 4)", "or corrected and named (up to 2), unless", "be missing (up to 4)"]),
        (3, 1, ["noticed (up to 1), but not corrected, and no server is named"]),
        (5, 2, ["noticed (up to 2), but not corrected, and no server is named"]),
        (3, 2, ["goes unnoticed, and all are needed"]),
    ],
)
def test_what_becomes_of_wrong_shares_is_stated(servers, threshold, words):
    promise = msgspec.structs.replace(
        task_of().guarantee, servers=servers, corrupt_servers=threshold, assumptions=("shamir",)
    )
    [sentence] = promise.assumption_texts
    assert [text for text in words if text not in sentence] == []
    assert "semi-honest" not in sentence


@pytest.mark.parametrize(
    ("options", "noise_by", "composes"),
    [
        ({"copies": "one"}, "clients-and-servers", False),
        ({"copies": "each"}, "clients", False),
        ({"noise_by": "servers"}, "servers", True),
    ],
)
def test_a_guarantee_says_what_it_is_given(options, noise_by, composes):
    promise = task_of(**options).guarantee
    assert (promise.noise_by, promise.composes) == (noise_by, composes)
    assert "given: n = 120 is public whatever the data" in str(promise)
    assert "recomputed by each honest client, each honest server, each reader who checks it" in str(promise)
    assert ("selective dropping" in str(promise)) is not composes
    assert ("each report enters one release only" in str(promise)) is not composes
    assert "computational security: AES-128" in str(promise)
    assert "HKDF-SHA256 a pseudorandom function" in str(promise)


# Coalitions that were fixed beforehand


def test_a_static_coalition_pays_for_sixteen_matrices_and_names_philox():
    trust = TrustModel(corrupt_clients=20, coalition="static")
    assert (MATRICES, STATIC_FAILURE, trust.failure) == (16, 2.0**-60, 2.0**-56)
    S, delta = OSNAP(rows=40, columns=4000, sparsity=2, seed=1, balanced=True), 2.0**-56
    with pytest.raises(GuaranteeError, match=r"coalition: 'static' given at delta = 1\.38778e-17"):
        privacy.calibrate(S, box(), 1.0, delta, trust=trust)
    noise = privacy.calibrate(S, box(), 1.0, 2 * delta, trust=trust)
    promise = Calibration(S, box(), 1.0, 2 * delta, trust=trust).guarantee(noise)
    at = epsilon_of_mu(promise.mu, delta * math.exp(-promise.slack)) + 2 * promise.slack
    assert promise.achieved_epsilon == pytest.approx(at, rel=1e-9)
    assert Cost.of(promise).delta == 2.0**-56
    assert "Philox4x32-7 is a pseudorandom function; at most 16" in str(promise)
    adaptive = Calibration(S, box(), 2.0, 2 * delta, trust=TrustModel(corrupt_clients=3)).guarantee(noise)
    assert "Philox" not in str(adaptive)


# Programs whose sketch stays closed


def test_a_closed_sketch_is_promised_for_as_many_servers_as_a_check_finds_out():
    task = design(ReleaseSpec.of(SCHEMA, 1000, 1.0, 1e-6, sketch="countsketch", rows=20, sharing="shamir", servers=5))
    promise = GramRelease(task, np.zeros((3, 3), np.int64)).guarantee
    assert "all 5 servers are present, and at most 2 of them depart from the protocol" in str(promise)
    assert "a wrong share is noticed, in a product too" in str(promise)
    assert "servers may be missing" not in str(promise)
    assert "wrong shares are noticed" in str(task.guarantee)
    passive = task.passive_guarantee
    assert "all 5 servers are present and follow the protocol (semi-honest)" in str(passive)
    assert "an altered share goes unnoticed" in str(passive)
    numbers = ("epsilon", "delta", "achieved_epsilon", "mu", "corrupt_servers", "preconditions")
    assert [getattr(promise, name) for name in numbers] == [getattr(task.guarantee, name) for name in numbers]
    for name in ("unopened_guarantee", "passive_guarantee"):
        with rejects("sharing", given="'additive'"):
            getattr(task_of(), name)


# A server that denies reports


@pytest.fixture(scope="module")
def entries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("identities")
    pems = [write_identity(folder / f"{party}", party, DAY).decode() for party in range(3)]
    return tuple(
        ServerEntry(f"https://s{i}.example", f"s{i}.example:6000", f"s{i}.example:7000", pem, (a_key(),))
        for i, pem in enumerate(pems)
    )


def collected(entries, **options):
    now = datetime.datetime.now(datetime.UTC)
    fields = {"name": "a trial", "servers": entries, "opens": now - DAY, "closes": now, "expires": now + DAY}
    fields |= {"minimum_batch": 200, "largest_batch": 5000, "sketch": "sum"} | options
    schema = Schema.from_pair(["a", "y"], (-1.0, 1.0))
    return design_collection(taken(CollectionTerms, fields), schema, Budget(1.0, 1e-6), **fields)


def test_servers_make_the_noise_of_a_collection_unless_told_otherwise(entries):
    collection = collected(entries)
    assert collection.plan.noising.by == "servers"
    assert "it costs no client's privacy" in omission(collection)
    with pytest.raises(InputError, match=r"corrupt_clients: none given, .* how many of any 200 reports"):
        collected(entries, noise_by="clients")
    with pytest.raises(InputError, match=r"noise_by: none given with Shamir shares, 'clients' expected"):
        collected(entries, sharing="shamir")
    assert collected(entries, noise_by="clients", corrupt_clients=0, sharing="shamir").plan.noising.by == "clients"


def test_clients_of_a_collection_prove_what_they_share_unless_that_cannot_be(entries):
    """One default: wherever shares are additive and servers add the noise."""
    assert collected(entries).proved
    assert collected(entries).plan.encoding.fractional_bits == 9
    assert not collected(entries, proved=False).proved
    assert not collected(entries, noise_by="clients", corrupt_clients=0).proved
    assert not collected(entries, noise_by="clients", corrupt_clients=0, sharing="shamir").proved
    with pytest.raises(InputError, match="noise that a client adds cannot be proved") as asked:
        collected(entries, noise_by="clients", corrupt_clients=0, proved=True)
    assert "--no-proved" not in str(asked.value)
    with pytest.raises(InputError, match=r"'mersenne61' expected with proofs.*--no-proved\) it could be"):
        collected(entries, ring="ring64")
    with rejects("ring", expected="'mersenne61'"):
        collected(entries, ring="ring64", proved=True)
    with rejects("ring", given="'ring8'"):
        collected(entries, ring="ring8")
    with rejects("proved", given="1"):
        collected(entries, proved=1)


def test_clients_noise_is_counted_on_in_the_smallest_batch_that_can_remain(entries):
    """The noise is made for the minimum batch less t; what it gives against more strangers is told."""
    collection = collected(entries, noise_by="clients", corrupt_clients=50)
    honest = collected(entries, noise_by="clients", corrupt_clients=0)
    assert collection.plan.noise.variance / honest.plan.noise.variance == pytest.approx(200 / 150, rel=1e-4)
    told = omission(honest)
    assert "down to 200; the noise of 200 of 200 clients is counted on, so t = 0 has to bound" in told
    against = honest.plan.epsilon_against(199)
    assert f"with 199 epsilon = {against:.4g}" in told
    assert against == pytest.approx(20.895, abs=0.01)
    assert honest.plan.epsilon_against(0) == honest.plan.guarantee.achieved_epsilon
    batch = collection.task(300, bytes(32))
    assert "the noise of 250 of 300 clients is counted on, so t = 50" in omission(collection, batch)
    assert "If there were more of them: with 150 epsilon" in omission(collection, batch)
    assert honest.plan.epsilon_against(200) == math.inf  # nobody is left


@pytest.mark.parametrize(("noise_by", "held"), [("clients", False), ("servers", True)])
def test_a_victim_among_strangers(entries, noise_by, held):
    """199 clients without noise and a server that left them and the victim over: what blurs the victim."""
    t = {} if noise_by == "servers" else {"corrupt_clients": 0}
    task = collected(entries, noise_by=noise_by, **t).plan
    left = surround(task, np.array([[0.9, -0.7]]), runs=400)
    spread = left.std(axis=0).mean()
    counted_on = task.sensitivity.l2 / task.guarantee.mu
    assert bool(spread > 0.9 * counted_on) is held
    if not held:
        assert spread == pytest.approx(math.sqrt(task.noise.variance), rel=0.15)


# Several openings of the same reports


def test_the_ledger_refuses_a_second_opening_of_reports_with_the_clients_noise():
    rows = np.random.default_rng(0).uniform(-1, 1, (400, 2))
    tasks = [task_of(400, sketch="countsketch", sparsity=None) for _ in range(2)]
    tasks[1] = msgspec.structs.replace(tasks[1], noise=tasks[0].noise).verify()
    shares = share_batch(tasks[0], rows)
    first, second = (open_sums(task, [transform(task, share) for share in shares]) for task in tasks)
    ledger = BudgetLedger(3.0, 1e-5)
    ledger.spend(first, "first")
    with pytest.raises(GuaranteeError, match=r"reports: 'none' given for second, other ones than 'those' of first"):
        ledger.spend(second, "second")
    with pytest.raises(GuaranteeError, match=r"reports: 'anew' given for second"):
        ledger.spend(second, "second", reports="anew")  # the first ones have no name
    assert [entry.what for entry in ledger.entries] == ["first"]


def test_reports_of_other_names_compose(tmp_path):
    promise = task_of(400).guarantee
    ledger = BudgetLedger(3.0, 1e-5)
    ledger.spend(promise, "first", reports="spring")
    ledger.spend(promise, "second", reports="autumn")
    for reports in ("spring", None):
        with rejects("reports", GuaranteeError):
            ledger.spend(promise, "third", reports=reports)
    ledger.save(tmp_path / "ledger.json")
    loaded = BudgetLedger.load(tmp_path / "ledger.json")
    assert [entry.reports for entry in loaded.entries] == ["spring", "autumn"]
    with pytest.raises(GuaranteeError, match="reports: 'autumn' given for third, other ones than 'autumn' of second"):
        loaded.spend(promise, "third", reports="autumn")
    for reports in ("", "  ", 3):
        with pytest.raises(InputError, match=r"reports: .* given, a name expected"):
            loaded.spend(promise, "third", reports=reports)


def test_fresh_noise_composes_without_names(tmp_path):
    served, noised = task_of(400, noise_by="servers").guarantee, task_of(400).guarantee
    ledger = BudgetLedger(3.0, 1e-5)
    for what in ("first", "second"):
        ledger.spend(served, what)
    ledger.spend((0.1, 1e-9), "something else")
    ledger.spend(noised, "of clients")
    assert [entry.reports for entry in ledger.entries] == [None, None, None, ""]
    path = tmp_path / "ledger.json"
    ledger.save(path)
    with pytest.raises(GuaranteeError, match="reports"):
        BudgetLedger.load(path).spend(noised, "of clients again", reports="spring")
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": "dpmpc budget 1"}))
    with pytest.raises(InputError, match=r"is not a ledger \(format: 'dpmpc budget 1' given"):
        BudgetLedger.load(path)


def test_a_name_of_reports_counts_whatever_the_release_is(tmp_path):
    noised = task_of(400).guarantee
    ledger = BudgetLedger(3.0, 1e-5)
    ledger.spend((0.1, 1e-9), "a pair", reports=" spring ")
    with pytest.raises(GuaranteeError, match="'spring' given"):
        ledger.spend(noised, "of clients", reports="spring")
    path = tmp_path / "ledger.json"
    ledger.save(path)
    fields = json.loads(path.read_text())
    fields["entries"][0]["reports"] = [1]
    path.write_text(json.dumps(fields))
    with pytest.raises(InputError, match=r"reports: \[1\] given"):
        BudgetLedger.load(path)
