"""dpmpc.privacy: one joint mechanism for all columns and copies, whom it trusts, and what it says."""

import itertools
import math

import msgspec
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution

from dpmpc import privacy
from dpmpc.base.arguments import require_float
from dpmpc.base.errors import GuaranteeError
from dpmpc.linear.encoding.fixed_point import FixedPoint
from dpmpc.linear.noise import DiscreteGaussian
from dpmpc.linear.noise.integer import Skellam
from dpmpc.linear.sketching import OSNAP, CountSketch
from dpmpc.linear.sketching.sparse import Sum
from dpmpc.privacy import Guarantee
from dpmpc.privacy.accountants import epsilon_of_renyi, occupancy_failure, released_sd, skellam_renyi
from dpmpc.privacy.calibration import Calibration
from dpmpc.privacy.exposure import ROUNDING_WIDTH, IndependentRowNoise, smoothing_slack, sum_slack
from dpmpc.privacy.gaussian import epsilon_of_mu
from dpmpc.privacy.specification import TrustModel
from support.privacy_inputs import box
from support.rejections import rejects


def test_balanced_reference_values():
    """Theorem sketch-gaussian: n=20000, k=100, p=10, eta=1, (1, 1e-6): balanced sigma_client = 1.8893 for
    every s, central sd 26.719.
    """
    for sparsity in (1, 4, 8):
        sketch = OSNAP(rows=100, columns=20_000, sparsity=sparsity, seed=3, balanced=True)
        noise = privacy.calibrate(sketch, box(10), 1, 1e-6)
        assert math.sqrt(noise.variance) / 2**16 == pytest.approx(1.8893, rel=1e-4)
        released = sketch.occupancy() * noise.variance * sketch.scale**2 / 4.0**16
        assert np.sqrt(released) == pytest.approx(26.719, rel=1e-4)
        unit = FixedPoint(0).sensitivity(10)
        kept = {"l1": unit.l1, "l2": unit.l2, "sparsity": sparsity, "epsilon": 1, "delta": 1e-6}
        assert released_sd("discrete-gaussian", **kept) == pytest.approx(26.719, rel=1e-4)


@pytest.mark.parametrize(("sparsity", "ratio"), [(1, 30), (4, 598), (8, 2557)])
def test_the_papers_calibration_pays_the_stated_factor(sparsity, ratio):
    """Theorem sketch-gaussian: ratio of client variances paper / joint at n=20000, k=100, d=10."""
    sketch = OSNAP(rows=100, columns=20_000, sparsity=sparsity, seed=3)
    joint = privacy.calibrate(sketch, box(10), 1, 1e-6)
    paper = privacy.calibrate(sketch, box(10), 1, 1e-6, calibration="paper")
    assert paper.variance / joint.variance == pytest.approx(ratio, rel=0.12)  # the draw decides the rest
    promised = Calibration(sketch, box(10), 1, 1e-6, rule="paper").guarantee(paper)
    assert promised.achieved_epsilon < 1
    assert promised.calibration == "paper"


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("sparsity", [1, 3])
def test_mu_equals_dense_linear_algebra(sparsity, balanced):
    """Per-copy noise: mu^2 = v^T Sigma^-1 v for the worst client, Sigma the released noise's covariance."""
    sketch = OSNAP(rows=7, columns=90, sparsity=sparsity, seed=5, balanced=balanced)
    sensitivity = box(4)
    sigma = 5e4
    matrix = sketch.to_csc().toarray().astype(float)
    covariance = sigma**2 * np.diag((matrix != 0).sum(axis=1))
    direction = np.ones(4) * 2 * 2**16
    worst = 0.0
    for client in range(sketch.columns):
        moved = np.outer(matrix[:, client], direction)
        worst = max(worst, np.trace(moved.T @ np.linalg.inv(covariance) @ moved))
    exposure = IndependentRowNoise.of_clients(sketch, TrustModel())
    assert sensitivity.l2 * math.sqrt(exposure.leverage) / sigma == pytest.approx(math.sqrt(worst), rel=1e-10)


def test_corrupt_clients_bound_is_never_below_exhaustive_search():
    sketch = OSNAP(rows=5, columns=24, sparsity=2, seed=11)
    members = [set(np.flatnonzero(row)) for row in sketch.to_csc().toarray()]
    for corrupt in (1, 2):
        exposure = IndependentRowNoise.of_clients(sketch, TrustModel(corrupt_clients=corrupt))
        worst = 0.0
        for coalition in itertools.combinations(range(24), corrupt):
            left = [len(row - set(coalition)) for row in members]
            for victim in set(range(24)) - set(coalition):
                worst = max(worst, sum(1 / left[r] for r in range(5) if victim in members[r]))
        assert exposure.leverage >= worst - 1e-12


@pytest.mark.parametrize("noise", ["discrete-gaussian", "skellam", "gaussian"])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.2, 1e-8)])
def test_calibration_is_enough_and_not_wasteful(noise, epsilon, delta):
    sketch = CountSketch(rows=20, columns=5000, seed=2, balanced=True)
    chosen = privacy.calibrate(sketch, box(3), epsilon, delta, noise=noise)
    promise = Calibration(sketch, box(3), epsilon, delta).guarantee(chosen)
    assert promise.achieved_epsilon <= epsilon
    assert promise.achieved_epsilon == pytest.approx(epsilon, rel=1e-3)
    assert promise.simulation == (noise == "gaussian")
    with pytest.raises(GuaranteeError, match=f"promised, but {noise} noise of variance"):
        Calibration(sketch, box(3), 0.99 * epsilon, delta).guarantee(chosen)


def test_skellam_costs_about_fifteen_percent_in_standard_deviation():
    sketch = Sum(columns=10_000)
    gaussian = privacy.calibrate(sketch, box(5), 1, 1e-6)
    skellam = privacy.calibrate(sketch, box(5), 1, 1e-6, noise="skellam")
    assert 1.0 < math.sqrt(skellam.variance / gaussian.variance) < 1.2


def test_discrete_gaussian_below_the_smoothing_width_is_accounted_as_nothing():
    sketch = Sum(columns=2)
    with rejects("epsilon", GuaranteeError):
        Calibration(sketch, box(1, bits=0), 1, 1e-6).guarantee(DiscreteGaussian(0.25))
    with rejects("epsilon", GuaranteeError):
        Calibration(Sum(columns=1), box(1, bits=0), 1, 1e-6).guarantee(DiscreteGaussian(1.5))


def test_slack_is_paid_for_every_entry_that_a_client_moves():
    """s p entries; epsilon(mu, delta e^-a) + 2 a of `dpmpc.privacy.exposure`."""
    sketch, sensitivity = OSNAP(rows=5, columns=300, sparsity=3, seed=2, balanced=False), box(4, bits=0)
    exposure, noise = IndependentRowNoise.of_clients(sketch, TrustModel()), DiscreteGaussian(0.75)
    occupancy = sketch.occupancy()
    assert occupancy.min() == exposure.fewest < exposure.most == occupancy.max()
    per_entry = sum_slack(0.75, int(occupancy.max())) + smoothing_slack(ROUNDING_WIDTH)
    promise = Calibration(sketch, sensitivity, 1e3, 1e-3).guarantee(noise)
    assert promise.slack == pytest.approx(12 * per_entry, rel=1e-12)
    assert exposure.integer_slack(1e6, 4) == 12 * smoothing_slack(ROUNDING_WIDTH) > 0
    expected = epsilon_of_mu(promise.mu, 1e-3 * math.exp(-promise.slack)) + 2 * promise.slack
    assert promise.achieved_epsilon == pytest.approx(expected, rel=1e-12)
    usable = 0.75**2 - ROUNDING_WIDTH**2 / exposure.fewest
    assert promise.mu == pytest.approx(sensitivity.l2 * math.sqrt(exposure.leverage / usable), rel=1e-12)
    assert promise.rho == promise.mu**2 / 2


def test_sum_slack_counts_every_seam():
    seams = [smoothing_slack(1.1 * math.sqrt(j / (j + 1))) for j in range(1, 64)]
    assert sum_slack(1.1, 64) == pytest.approx(math.fsum(seams), rel=1e-12)
    assert sum_slack(1.1, 1) == 0
    assert sum_slack(1.1, 1000) == pytest.approx(sum_slack(1.1, 65) + 935 * smoothing_slack(1.1 * math.sqrt(65 / 66)))


def test_small_integer_noise_pays_its_slack():
    """Few bits: the discrete Gaussian's slack shows up in the numbers, and calibration pays for it."""
    sketch = Sum(columns=400)
    noise = privacy.calibrate(sketch, box(1, bits=0), 1, 1e-6)
    promise = Calibration(sketch, box(1, bits=0), 1, 1e-6).guarantee(noise)
    assert promise.slack > 0
    assert promise.achieved_epsilon <= 1


@pytest.mark.parametrize(("clients", "sigma"), [(100, 2.0), (400, 1.5), (25, 8.0)])
def test_discrete_gaussian_epsilon_agrees_with_a_privacy_loss_distribution(clients, sigma):
    """One column of integers in {-1, 0, 1}: dp-accounting's discrete Gaussian of the summed variance, sensitivity 2."""
    delta = 1e-5
    noise = DiscreteGaussian(sigma)
    achieved = Calibration(Sum(columns=clients), box(1, bits=0), 100, delta).guarantee(noise).achieved_epsilon
    pld = privacy_loss_distribution.from_discrete_gaussian_mechanism(
        noise.sigma * math.sqrt(clients), sensitivity=2, value_discretization_interval=1e-4
    )
    exact = pld.get_epsilon_for_delta(delta)
    assert exact - 1e-3 <= achieved <= 1.02 * exact


def test_skellam_adds_up_the_rows_of_a_client():
    """Against the Renyi bounds of the worst client's rows, one by one."""
    sketch, sensitivity, delta = OSNAP(rows=6, columns=40, sparsity=3, seed=8), box(2, bits=0), 1e-5
    noise, left = Skellam(40), sketch.occupancy() - 2

    def divergence(order, client):
        rows = sketch.entries(0, 40)[0][client]
        alone = {"leverage": 1.0, "leverage_of_squares": 1.0, "l1": sensitivity.l1, "l2": sensitivity.l2}
        return sum(skellam_renyi(order, variance=float(noise.variance * left[row]), **alone) for row in rows)

    worst = max(epsilon_of_renyi(lambda order, i=client: divergence(order, i), delta) for client in range(40))
    trust = TrustModel(corrupt_clients=2)
    promised = Calibration(sketch, sensitivity, 100, delta, trust=trust).guarantee(noise).achieved_epsilon
    assert worst <= promised * (1 + 1e-12) <= worst * 1.001


@pytest.mark.parametrize("noise", ["discrete-gaussian", "skellam"])
@pytest.mark.parametrize(("epsilon", "reason"), [(1e-25, "is computed for it"), (1e-8, "that can be drawn gives it")])
def test_a_budget_that_no_noise_can_meet_is_refused(noise, epsilon, reason):
    with pytest.raises(GuaranteeError, match=rf"epsilon, delta: \({epsilon:g}, 1e-12\) given, but no noise {reason}"):
        privacy.calibrate(Sum(columns=10), box(2), epsilon, 1e-12, noise=noise)


@pytest.mark.parametrize("value", [True, "1", None, 1j])
def test_a_part_of_a_budget_is_a_number(value):
    with rejects("delta", expected="a number"):
        require_float("delta", value)


def test_dropouts_and_corruption_both_count():
    sketch = CountSketch(rows=10, columns=1000, seed=2, balanced=True)
    base = privacy.calibrate(sketch, box(2), 1, 1e-6)
    weaker = privacy.calibrate(sketch, box(2), 1, 1e-6, trust=TrustModel(corrupt_clients=20, dropouts=30))
    assert weaker.variance / base.variance == pytest.approx(2.0, rel=1e-4)
    promise = Calibration(sketch, box(2), 1, 1e-6, trust=TrustModel(corrupt_clients=20, dropouts=30)).guarantee(weaker)
    assert "20 clients" in str(promise)
    assert "anything from at most 30 clients in all is missing" in str(promise)


def test_the_papers_calibration_takes_its_failures_and_coalitions_away():
    """Corollary 4.7 number by number; the occupancy failure counts for every one of the s matrices."""
    sketch, delta, lost = OSNAP(rows=20, columns=3000, sparsity=2, seed=2), 1e-5, 200
    trust = TrustModel(corrupt_clients=150, dropouts=50)
    failure = 20 * math.exp(-0.25 * 3000 / 40)
    assert occupancy_failure(sketch) == pytest.approx(failure, rel=1e-12)
    assert 0.01 * delta < 2 * failure < delta
    noise = privacy.calibrate(sketch, box(3), 1, delta, noise="gaussian", trust=trust, calibration="paper")
    sigma = 2 * 2**16 * math.sqrt(2 * math.log(1.25 * 6 / (delta - 2 * failure))) * 6
    assert noise.variance == pytest.approx(sigma**2 * 20 / (0.5 * (3000 - lost)), rel=1e-12)


def test_a_guarantee_says_whose_noise_is_counted_on():
    sketch = Sum(columns=100)
    trust = TrustModel(corrupt_clients=5)
    noise = privacy.calibrate(sketch, box(2), 1, 1e-6, trust=trust)
    said = str(Calibration(sketch, box(2), 1, 1e-6, trust=trust).guarantee(noise))
    assert "of at least 95 honest contributions after 5 are taken away" in said
    assert "enters one release only" in said


def test_a_row_without_unknown_noise_is_refused_with_the_numbers():
    sketch = CountSketch(rows=10, columns=100, seed=2, balanced=True)
    with pytest.raises(GuaranteeError, match=r"corrupt_clients \+ dropouts: 10 given.*only 10 contributions"):
        privacy.calibrate(sketch, box(2), 1, 1e-6, trust=TrustModel(corrupt_clients=10))


def test_too_little_noise_is_refused_with_both_epsilons():
    sketch = Sum(columns=1000)
    enough = privacy.calibrate(sketch, box(2), 1, 1e-6)
    with pytest.raises(GuaranteeError, match=r"epsilon: 1 promised.*epsilon = 2"):
        Calibration(sketch, box(2), 1, 1e-6).guarantee(DiscreteGaussian(math.sqrt(enough.variance) / 2))


def test_the_papers_occupancy_bound_can_use_up_delta():
    sketch = CountSketch(rows=100, columns=1000, seed=2)
    with rejects("delta", GuaranteeError):
        privacy.calibrate(sketch, box(2), 1, 1e-6, calibration="paper")
    assert occupancy_failure(sketch) > 1


@pytest.mark.parametrize(
    ("change", "rejection"),
    [
        ({"epsilon": 0.0}, {"argument": "epsilon", "given": "0.0"}),
        ({"epsilon": -1.0}, {"argument": "epsilon", "given": "-1.0"}),
        ({"epsilon": math.inf}, {"argument": "epsilon", "given": "inf"}),
        ({"epsilon": math.nan}, {"argument": "epsilon", "given": "nan"}),
        (
            {"delta": 0.0},
            {
                "argument": "delta",
                "given": "0.0 given, a number strictly between 0 and 1 expected; only discrete-laplace noise "
                "gives delta = 0",
            },
        ),
        ({"delta": 1.0}, {"argument": "delta", "given": "1.0 given, a number strictly between 0 and 1 expected"}),
        ({"noise": "laplace"}, {"argument": "noise", "given": "'laplace'"}),
        ({"calibration": "best"}, {"argument": "calibration", "given": "'best'"}),
    ],
)
def test_bad_arguments(change, rejection):
    arguments = {"epsilon": 1.0, "delta": 1e-6, **change}
    with rejects(**rejection):
        privacy.calibrate(Sum(columns=100), box(2), **arguments)


@pytest.mark.parametrize(
    ("fields", "rejection"),
    [
        ({"servers": 1}, {"argument": "servers", "given": "1"}),
        ({"servers": 3, "corrupt_servers": 3}, {"argument": "corrupt_servers", "given": "3"}),
        ({"corrupt_clients": -1}, {"argument": "corrupt_clients", "given": "-1"}),
        ({"dropouts": -2}, {"argument": "dropouts", "given": "-2"}),
        ({"corrupt_servers": 1.9}, {"argument": "corrupt_servers", "given": "1.9", "expected": "a whole number"}),
        (
            {"corrupt_clients": math.nan},
            {"argument": "corrupt_clients", "given": "nan", "expected": "a whole number >= 0"},
        ),
        ({"servers": True}, {"argument": "servers", "given": "True", "expected": "a whole number"}),
    ],
)
def test_bad_trust(fields, rejection):
    with rejects(**rejection):
        TrustModel(**fields)


def test_guarantee_survives_its_dictionary_and_speaks_plainly():
    sketch = Sum(columns=1000)
    noise = privacy.calibrate(sketch, box(2), 1, 1e-6, noise="skellam")
    promise = Calibration(sketch, box(2), 1, 1e-6, simulation=True).guarantee(noise)
    assert Guarantee.from_dict(promise.to_dict()) == promise
    text = str(promise)
    for words in ("replaced by any other row", "2 of the 3 servers", "SIMULATION", "semi-honest", "Burkhardt"):
        assert words in text
    assert promise.mu is None
    assert isinstance(noise, Skellam)
    assert "SIMULATION" not in str(msgspec.structs.replace(promise, simulation=False))


def test_a_guarantee_cites_what_the_paper_has():
    """Corruption is Definition 4.1, servers in place of the trusted computation Lemma 4.3; there is no Lemma 4.1."""
    sketch = Sum(columns=1000)
    promise = Calibration(sketch, box(2), 1, 1e-6).guarantee(privacy.calibrate(sketch, box(2), 1, 1e-6))
    assert "source: Burkhardt et al. 2025, Definition 4.1, Lemma 4.3 and Algorithm 1" in str(promise)


def test_a_guarantee_names_the_zero_out_relation():
    sketch, sensitivity = Sum(columns=1000), FixedPoint(16).sensitivity(2, neighbouring="zero-out")
    noise = privacy.calibrate(sketch, sensitivity, 1, 1e-6)
    assert "replaced by zeros" in str(Calibration(sketch, sensitivity, 1, 1e-6).guarantee(noise))


@pytest.mark.statistical
def test_worst_clients_log_likelihood_ratio_has_standard_deviation_mu():
    """The log-likelihood ratio between neighbouring releases has sd mu within 5 %
    (4000 draws: 4.4 standard errors).
    """
    from dpmpc.base.randomness import Stream

    sketch = CountSketch(rows=3, columns=30, seed=4, balanced=True)
    sensitivity = box(2)
    noise = privacy.calibrate(sketch, sensitivity, 1, 1e-3)
    promise = Calibration(sketch, sensitivity, 1, 1e-3).guarantee(noise)
    draws = noise.sample((4000, 30, 2), stream=Stream.from_seed(9)).astype(float)
    matrix = sketch.to_csc().toarray().astype(float)
    released = np.einsum("kn,rnp->rkp", matrix, draws)
    variance = sketch.occupancy() * noise.variance
    moved = matrix[:, 0][:, None] * np.full(2, 2.0 * 2**16)
    ratio = (released * moved / variance[:, None]).sum(axis=(1, 2))
    assert ratio.std() == pytest.approx(promise.mu, rel=0.05)
