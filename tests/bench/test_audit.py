"""The audit finds what is broken, lets pass what is not, and its bounds are those of the textbooks.

`FAILURE` is the probability with which an audit refutes a true claim, at most. Seeds are fixed.
"""

import dataclasses
import json
import math
import re
from pathlib import Path

import msgspec
import numpy as np
import pytest
import scipy.stats

import bench.audit.sums
import dpmpc.linear.contributions.contribution
import dpmpc.owners.columns.mixing_guarantee
import dpmpc.release.server
from bench.__main__ import main
from bench.audit import MECHANISMS, audit
from bench.audit.mechanism import AuditedMechanism, Claim
from bench.audit.rates import AuditScores, least_bits, least_epsilon, least_mu, lower_bound, upper_rate
from bench.audit.registry import SUBJECTS, sketched
from bench.audit.sums import Replicated
from bench.system.audit import cells, render
from dpmpc.base.randomness import Stream
from dpmpc.linear.contributions import Rows
from dpmpc.linear.encoding.fixed_point import FixedPoint
from dpmpc.linear.noise import Noise
from dpmpc.privacy.exposure import IndependentRowNoise
from dpmpc.privacy.one_copy import OneCopyNoise
from dpmpc.release.client import Client
from support.rejections import rejects

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "audit.md").read_text()
FAILURE = 1e-6
BITS = ("additive-noise", "random-projection")
SLOW = ("discrete-laplace", "discrete-laplace-by-servers")


def audited(name, mechanism, releases, *, failure=FAILURE, seed=11):
    return audit(name, mechanism, releases, failure, Stream.from_seed(seed))


def made(name, delta=1e-5):
    return MECHANISMS[name](0.1 if name in BITS else 1.0, delta, 3)


def test_upper_rate_is_that_of_clopper_and_pearson():
    for errors, runs in ((0, 50), (7, 50), (50, 50)):
        found = scipy.stats.binomtest(errors, runs, alternative="less").proportion_ci(0.99, method="exact").high
        assert float(upper_rate(errors, runs, 0.01)) == pytest.approx(found, rel=1e-9)


def test_measures_are_what_their_curves_have():
    thresholds = np.linspace(-2, 2, 9)
    alpha, beta = scipy.stats.norm.sf(thresholds), scipy.stats.norm.cdf(thresholds - 0.7)
    np.testing.assert_allclose(least_mu(alpha, beta), 0.7)
    lie = 1 / (1 + math.exp(1.3))  # randomised response of epsilon = 1.3, with its delta on top
    told, mixed = least_epsilon(0.0)(lie, lie), least_epsilon(0.1)(0.9 * lie, 0.9 * lie)
    assert told == pytest.approx(1.3)
    assert mixed == pytest.approx(1.3)
    np.testing.assert_allclose(
        least_bits(np.array([0.0, 0.5, 0.11]), np.array([0.0, 0.5, 0.11])), [1, 0, 0.5], atol=1e-3
    )


@pytest.mark.statistical
def test_a_bound_exceeds_the_truth_as_seldom_as_stated():
    """Of 300 bounds with failure 1/10 at most 52 exceed mu: false alarms below 2e-5 even if they were so frequent."""
    rng = np.random.default_rng(5)

    def drawn():
        return AuditScores(rng.normal(size=2000), rng.normal(size=2000) + 0.5)

    bounds = [lower_bound(least_mu, drawn(), drawn(), 0.1).value for _ in range(300)]
    assert sum(bound > 0.5 for bound in bounds) <= 52
    assert np.median(bounds) > 0.5 * 0.7


def test_replicas_stand_side_by_side():
    rows, encoding = np.array([[0.5, -1.0], [0.25, 1.0]]), FixedPoint(8)
    many = Replicated(Rows(), 3)
    np.testing.assert_array_equal(many.encode(rows, encoding), np.tile(Rows().encode(rows, encoding), 3))
    assert many.width(2) == 6
    one, three = Rows().sensitivity(2, encoding), many.sensitivity(2, encoding)
    assert (three.l1, three.columns) == (3 * one.l1, 6)
    assert three.l2 == pytest.approx(math.sqrt(3) * one.l2)


@pytest.mark.parametrize("name", [name for name in MECHANISMS if name not in BITS])
def test_without_noise_a_candidate_moves_what_is_observed_by_its_shift(monkeypatch, name):
    monkeypatch.setattr(Noise, "sample", lambda self, shape, stream=None, threads=1: np.zeros(shape, np.int64))
    mechanism, stream = made(name), Stream.from_seed(1)
    assert not mechanism.observe(None, 5, stream).any()
    for candidate, shift in enumerate(mechanism.shifts):
        observed = mechanism.observe(candidate, 5, stream)
        rounding = 1e-6 if name == "steered-fit" else 0.0  # of scores whose direction a fit finds by itself
        np.testing.assert_allclose(observed, np.tile(shift, (5, 1)), rtol=rounding)


@pytest.mark.parametrize(
    "name",
    [
        "each-copy",
        "ball",
        "second-moments",
        "by-group",
        "coinpress-mean",
        "coinpress-covariance",
        "scores",
        "second-sum",
    ],
)
def test_the_two_rows_are_as_far_apart_as_the_sensitivity(name):
    mechanism = made(name)
    moved = np.linalg.norm(mechanism.shifts[0]) / math.sqrt(mechanism._task.sketch.sparsity)
    assert moved == pytest.approx(mechanism._task.sensitivity.l2, rel=2e-3)


@pytest.mark.statistical
@pytest.mark.parametrize("name", MECHANISMS)
def test_true_claims_stand(name):
    """False alarms: at most `FAILURE` for each mechanism."""
    assert audited(name, made(name), 4000 if name in SLOW else 20_000).refuted == ()


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["one-copy", "by-servers", "rmgm", "coinpress-covariance"])
def test_at_least_85_percent_of_mu_are_found(name):
    """At 95 % confidence the mean is 93 % and a standard deviation 2 %: false alarms below 5e-4 each."""
    found = audited(name, made(name), 200_000, failure=0.05)
    assert 0.85 * found.claim.mu <= found.by_curve.value <= found.claim.mu
    assert found.epsilon_by_curve >= 0.8


@pytest.mark.statistical
def test_at_least_85_percent_of_a_pure_epsilon_are_found():
    """The mean is 94 % and a standard deviation 1.6 %: false alarms below 1e-6."""
    assert audited("discrete-laplace", made("discrete-laplace"), 100_000, failure=0.05).by_rates.value >= 0.85


@pytest.mark.statistical
@pytest.mark.parametrize("name", MECHANISMS)
def test_half_of_the_noise_is_caught(monkeypatch, name):
    """Fixed seeds. Skellam noise claims no mu, so that the test needs a delta at which errors can be counted."""
    whole = Noise.sample

    def half(self, shape, stream=None, threads=1):
        drawn = whole(self, shape, stream=stream, threads=threads)
        if self.integer:
            return drawn // 2
        return drawn if self.sigma == 1 else drawn / 2  # a secret projection has standard deviation 1

    monkeypatch.setattr(Noise, "sample", half)
    mechanism = made(name, delta=1e-2 if name.startswith("skellam") else 1e-5)
    assert audited(name, mechanism, 10_000 if name in SLOW else 30_000).refuted


def lying(exposure, change):
    """A measurement of the public matrix whose result is changed."""
    return classmethod(
        lambda cls, sketch, trust: dataclasses.replace((found := exposure(sketch, trust)), **change(found))
    )


def mean_leverage(monkeypatch):
    """Worst-placed clients are forgotten: k/n for everybody, in a matrix of 4 rows and 12 clients."""
    for kind, measure in ((IndependentRowNoise, "of_clients"), (OneCopyNoise, "of")):
        original = getattr(kind, measure)
        monkeypatch.setattr(kind, measure, lying(original, lambda found: {"leverage": 4 / 12}))


def forgotten_sparsity(monkeypatch):
    """A client's rows are counted once: mu lacks a factor sqrt(s)."""
    for kind, measure in (
        (IndependentRowNoise, "of_clients"),
        (IndependentRowNoise, "of_servers"),
        (OneCopyNoise, "of"),
    ):
        original = getattr(kind, measure)
        monkeypatch.setattr(kind, measure, lying(original, lambda found: {"leverage": found.leverage / found.sparsity}))


def known_noise_counted(monkeypatch):
    """The noise of corrupt clients is counted on."""
    for kind, measure in ((IndependentRowNoise, "of_clients"), (OneCopyNoise, "of")):
        original = getattr(kind, measure)

        def trusting(cls, sketch, trust, original=original):
            return original(sketch, msgspec.structs.replace(trust, corrupt_clients=0))

        monkeypatch.setattr(kind, measure, classmethod(trusting))


def all_servers_counted(monkeypatch):
    """The noise of servers that the adversary holds is counted on."""
    original = IndependentRowNoise.of_servers

    def trusting(cls, sketch, trust):
        return original(sketch, msgspec.structs.replace(trust, corrupt_servers=0))

    monkeypatch.setattr(IndependentRowNoise, "of_servers", classmethod(trusting))


def no_anchors(monkeypatch):
    """The honest server leaves out its noise; that of the others is known anyway."""

    def silent(task, sums, stream, **_):
        return sums

    monkeypatch.setattr(dpmpc.release.server, "add_noise", silent)
    monkeypatch.setattr(bench.audit.sums, "add_noise", silent)


def alike_copies(monkeypatch):
    """All copies of a client get the same noise."""
    original = Client.noise

    def alike(self, count, threads=1):
        drawn = original(self, count, threads)
        return np.repeat(drawn[:, :1], drawn.shape[1], axis=1)

    monkeypatch.setattr(Client, "noise", alike)


def one_column(monkeypatch):
    """A client's row is taken to move in one column only: mu lacks a factor sqrt(p)."""
    original = FixedPoint.sensitivity

    def narrow(self, columns, *arguments, **options):
        return dataclasses.replace(original(self, 1, *arguments, **options), columns=columns)

    monkeypatch.setattr(FixedPoint, "sensitivity", narrow)


def forgotten_replacement(monkeypatch):
    """Second moments are taken to move by one row's norm, as if it were taken away: a factor sqrt(2)."""
    monkeypatch.setattr(
        dpmpc.linear.contributions.contribution, "moment_sensitivity", lambda squared_norm: squared_norm
    )


def one_mixed_row(monkeypatch):
    """A subject is taken to reach one mixed row, not all k."""
    original = dpmpc.owners.columns.mixing_guarantee._exposure
    monkeypatch.setattr(dpmpc.owners.columns.mixing_guarantee, "_exposure", lambda rows: original(1))


def one_party(monkeypatch):
    """A whole row is taken to be one party's columns."""
    monkeypatch.setattr(
        dpmpc.owners.columns.mixing_guarantee, "_protected_columns", lambda columns, protects: max(columns)
    )


def of(**choices):
    """A sketch of rows for (1, 1e-5); the seed of the matrix is chosen so that the break matters."""
    return lambda: sketched(1.0, 1e-5, **{"seed": 3, **choices})


BROKEN = {
    "mean leverage, each copy": (mean_leverage, of(balanced=False, seed=28)),
    "mean leverage, one copy": (mean_leverage, of(balanced=False, seed=87, copies="one")),
    "sqrt(s), each copy": (forgotten_sparsity, of()),
    "sqrt(s), one copy": (forgotten_sparsity, of(copies="one")),
    "sqrt(s), by servers": (forgotten_sparsity, of(noise_by="servers")),
    "sqrt(s), dense": (forgotten_sparsity, of(sketch="rademacher", sparsity=None)),
    "sqrt(p), Shamir": (one_column, of(sharing="shamir")),
    "known noise, each copy": (known_noise_counted, of(corrupt_clients=4)),
    "known noise, one copy": (known_noise_counted, of(corrupt_clients=3, copies="one", clients=10, seed=19)),
    "corrupt servers counted on": (all_servers_counted, of(noise_by="servers")),
    "no anchors": (no_anchors, of(corrupt_clients=1, copies="one", clients=8, seed=23)),
    "no noise by servers": (no_anchors, of(noise_by="servers")),
    "alike copies, sparse": (alike_copies, of(seed=103)),
    "alike copies, dense": (alike_copies, of(sketch="rademacher", sparsity=None, seed=80)),
    "second moments": (forgotten_replacement, lambda: made("second-moments")),
    "CoinPress covariance": (forgotten_replacement, lambda: made("coinpress-covariance")),
    "sqrt(k), mixed rows": (one_mixed_row, lambda: made("rmgm")),
    "one party for a whole row": (one_party, lambda: made("rmgm-subject")),
}


@pytest.mark.statistical
@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_calibration_is_caught(monkeypatch, what):
    """Fixed seeds; the same task passes unbroken, with false alarms of at most `FAILURE`.

    Most faults show in 20,000 releases; 100,000 are drawn for the others: false alarms of both add up to 2 `FAILURE`.
    """
    broken, task = BROKEN[what]
    assert audited(what, task(), 20_000).refuted == ()
    broken(monkeypatch)
    assert audited(what, task(), 20_000).refuted or audited(what, task(), 100_000).refuted


def test_too_few_releases_and_impossible_failures_are_refused():
    with rejects("releases", given="10"):
        audited("dgm", made("dgm"), 10)
    with rejects("failure", given="1"):
        audited("dgm", made("dgm"), 1000, failure=1)


class Naked(AuditedMechanism):
    """Claims mu = 1 and adds no noise."""

    claim = Claim(epsilon=4.0, delta=1e-5, mu=1.0)
    shifts = np.array([[1.0]])

    def observe(self, moved, releases, stream):
        return np.full((releases, 1), 0.0 if moved is None else 1.0)


def test_no_noise_at_all_is_caught():
    assert len(audited("naked", Naked(), 2000).refuted) == 2


def test_the_bench_keeps_what_a_whole_run_finds(monkeypatch, capsys):
    written = []
    monkeypatch.setattr("bench.system.audit.write", lambda name, content, text: written.append((name, content, text)))
    monkeypatch.setattr("bench.system.audit.SUBJECTS", {name: SUBJECTS[name] for name in ("dgm", "additive-noise")})
    monkeypatch.setattr("bench.system.audit.RELEASES", 2001)
    command = ["audit", "--releases", "2001", "--simulation-seed", "1"]
    assert main([*command, "--mechanism", "additive-noise"]) == 0
    assert main([*command, "--epsilon", "0.5"]) == 0
    assert main([*command, "--short"]) == 0
    assert written == []  # a part, another claim and a short form are not kept
    assert main(command) == 0
    ((name, content, text),) = written
    assert (name, content["releases"], content["seed"]) == ("audit", 2000, 1)
    assert [finding["refuted"] for finding in content["findings"]] == [[], []]
    assert [finding["mechanism"] for finding in content["findings"]] == ["dgm", "additive-noise"]
    assert [finding["failure"] for finding in content["findings"]] == pytest.approx([0.025, 0.025])
    assert f"| {' | '.join(cells(content['findings'][0]))} |" in text
    assert text in capsys.readouterr().out
    assert "1.0000 bits" in text


def test_command_ends_with_status_1_if_a_claim_is_refuted(monkeypatch, capsys):
    monkeypatch.setitem(SUBJECTS, "naked", lambda epsilon, delta, seed: Naked())
    assert main(["audit", "--mechanism", "naked", "dgm", "--releases", "2000"]) == 1
    told = capsys.readouterr()
    assert "naked REFUTED" in told.out
    assert "dgm" in told.out
    assert "BenchFailed: audit: epsilon of naked: 4 claimed, at least" in told.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--mechanism", "x"], "mechanism: 'x' given, all or some of each-copy"),
        (["--confidence", "1"], "confidence: 1.0 given"),
        (["--mechanism", "dgm", "--delta", "0"], "delta: 0.0 given"),
        (["--mechanism", "dgm", "--releases", "5"], "releases: 5 given"),
    ],
)
def test_command_refuses_what_cannot_be_audited(arguments, words, capsys):
    assert main(["audit", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_the_example_of_the_documentation_runs(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
    exec(compile(code, "audit.md", "exec"), {})
    assert capsys.readouterr().out.endswith("()\n")


def test_what_was_found_of_every_mechanism_is_kept_and_refutes_none():
    found = json.loads((ROOT / "bench" / "results" / "audit.json").read_text())
    assert [finding["mechanism"] for finding in found["findings"]] == list(SUBJECTS)
    assert (found["seed"], found["epsilon"], found["delta"]) == (1, 1.0, 1e-5)
    assert not any(finding["refuted"] for finding in found["findings"])
    assert render(found) == (ROOT / "bench" / "results" / "audit.md").read_text().rstrip("\n")
