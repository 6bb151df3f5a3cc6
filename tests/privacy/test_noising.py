"""Who adds the noise, and to what: each way against dense linear algebra, and who may collude against exact tails.

Sources: theorems sketch-gaussian and one-copy.
"""

import itertools
import math

import numpy as np
import pytest
import scipy.stats

from dpmpc import privacy
from dpmpc.base.errors import GuaranteeError, InputError, SimulationOnly
from dpmpc.base.randomness import Stream
from dpmpc.data import Schema
from dpmpc.linear.encoding.fixed_point import FixedPoint
from dpmpc.linear.sketching import OSNAP, CountSketch
from dpmpc.linear.sketching.sparse import Sum
from dpmpc.privacy import Guarantee
from dpmpc.privacy.calibration import Calibration, NoisePlacement
from dpmpc.privacy.exposure import IndependentRowNoise
from dpmpc.privacy.gaussian import mu_of_budget
from dpmpc.privacy.specification import MATRICES, STATIC_FAILURE, ReleaseSpec, TrustModel
from dpmpc.privacy.task import Task
from dpmpc.release import simulation as model
from dpmpc.release.planning import design
from dpmpc.release.server import transform
from support.rejections import rejects

ONE, EACH, SERVERS = NoisePlacement(copies=1), NoisePlacement(), NoisePlacement("servers")
NAMES = ("a", "b", "y")


def box(columns, bits=16):
    return FixedPoint(bits).sensitivity(columns)


def task_of(clients=600, **choices):
    choices = {"sketch": "osnap", "rows": 12, "sparsity": 3, "simulation_seed": 7, **choices}
    return design(ReleaseSpec.of(Schema.unit(NAMES), clients, 1.0, 1e-6, **choices))


def covariance_of(noising, matrix, honest_servers=1):
    """Covariance over rows of the noise that the adversary does not know, for noise of variance 1."""
    rows = len(matrix)
    if noising == SERVERS:
        return honest_servers * np.eye(rows)
    if noising == ONE:
        return matrix @ matrix.T + np.eye(rows)
    return np.diag(np.abs(matrix).sum(axis=1))


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("noising", [ONE, EACH, SERVERS])
def test_leverage_equals_dense_linear_algebra(noising, balanced):
    sketch = OSNAP(rows=7, columns=90, sparsity=3, seed=5, balanced=balanced)
    matrix = sketch.to_csc().toarray().astype(float)
    inverse = np.linalg.inv(covariance_of(noising, matrix))
    worst = max(column @ inverse @ column for column in matrix.T)
    assert noising.exposure(sketch, TrustModel()).leverage == pytest.approx(worst, rel=1e-8)


@pytest.mark.parametrize("noising", [ONE, SERVERS])
@pytest.mark.parametrize("corrupt", [1, 2])
def test_exposure_is_never_below_exhaustive_search(noising, corrupt):
    sketch = OSNAP(rows=5, columns=24, sparsity=2, seed=11)
    matrix = sketch.to_csc().toarray().astype(float)
    worst = 0.0
    for coalition in itertools.combinations(range(24), corrupt):
        left = np.delete(matrix, coalition, axis=1)
        inverse = np.linalg.inv(covariance_of(noising, left))
        worst = max(worst, *(column @ inverse @ column for column in left.T))
    assert noising.exposure(sketch, TrustModel(corrupt_clients=corrupt)).leverage >= worst * (1 - 1e-12)


@pytest.mark.parametrize("noising", [EACH, SERVERS])
def test_what_a_client_counts_on_is_added_up_over_its_rows(noising):
    sketch = OSNAP(rows=6, columns=80, sparsity=3, seed=5)
    trust = TrustModel(servers=5, corrupt_servers=2, corrupt_clients=4, dropouts=3)
    exposure = noising.exposure(sketch, trust)
    left = np.full(6, 3) if noising == SERVERS else sketch.occupancy() - 7
    rows = sketch.entries(0, 80)[0]
    assert exposure.leverage == pytest.approx((1 / left)[rows].sum(axis=1).max(), rel=1e-12)
    assert exposure.leverage_of_squares == pytest.approx((1 / left**2)[rows].sum(axis=1).max(), rel=1e-12)
    assert (exposure.fewest, exposure.most, exposure.sparsity) == (left.min(), left.max(), 3)
    assert trust.lost == trust.lost_in_a_row(sketch) == 7


def test_one_copy_is_calibrated_with_a_margin():
    """A relative 1e-9 of variance, and what the search adds: another machine's leverage may be that much larger."""
    sketch = OSNAP(rows=12, columns=600, sparsity=3, seed=7)
    exposure = ONE.exposure(sketch, TrustModel())
    assert exposure.with_margin().leverage == pytest.approx(exposure.leverage * (1 + 1e-9), rel=1e-15)
    noise = privacy.calibrate(sketch, box(3), 1, 1e-6, noise="gaussian", noising=ONE)
    least = exposure.leverage * (box(3).l2 / mu_of_budget(1, 1e-6)) ** 2
    assert 0.999e-9 < noise.variance / least - 1 < 3e-9


@pytest.mark.statistical
@pytest.mark.parametrize("noising", [ONE, EACH, SERVERS])
def test_worst_clients_log_likelihood_ratio_has_standard_deviation_mu(noising):
    """The sd of the log-likelihood ratio between neighbouring releases is mu within 5 %: 4.4 standard errors of 4000
    draws, whose noise is that of the clients and of the one honest server.
    """
    sketch = OSNAP(rows=4, columns=30, sparsity=2, seed=4)
    sensitivity = box(2)
    noise = privacy.calibrate(sketch, sensitivity, 1, 1e-3, noising=noising)
    promise = Calibration(sketch, sensitivity, 1, 1e-3, noising=noising).guarantee(noise)
    matrix = sketch.to_csc().toarray().astype(float)
    stream = Stream.from_seed(9)
    places, signs = sketch.entries(0, 30)
    released = np.zeros((4000, 4, 2))
    if noising != SERVERS:
        draws = noise.sample((4000, 30, noising.copies_for(sketch), 2), stream=stream).astype(float)
        draws = np.broadcast_to(draws, (4000, 30, 2, 2))
        for client, copy in itertools.product(range(30), range(2)):
            released[:, places[client, copy]] += signs[client, copy] * draws[:, client, copy]
    if noising.by_servers(sketch):
        released += noise.sample((4000, 4, 2), stream=stream)
    inverse = np.linalg.inv(covariance_of(noising, matrix) * noise.variance)
    victim = matrix[:, np.argmax(np.einsum("kn,kl,ln->n", matrix, inverse, matrix))]
    moved = np.outer(victim, np.full(2, 2.0 * 2**16))
    ratio = np.einsum("rkp,kl,lp->r", released, inverse, moved)
    assert ratio.std() == pytest.approx(promise.mu, rel=0.05)


def test_one_copy_has_the_noise_of_each_copy():
    """At s = 8 the variance of a released row is the same within 3 %, for an eighth of the words."""
    one, each = (task_of(100_000, rows=100, sparsity=8, copies=copies) for copies in ("one", "each"))
    assert one.share_shape == (100_000, 1, 3)
    assert each.share_shape == (100_000, 8, 3)
    ratio = (one.noise_terms * one.noise.variance) / (each.noise_terms * each.noise.variance)
    assert ratio.mean() == pytest.approx(1, abs=0.03)


def test_every_row_of_a_release_counts_its_draws():
    """Contributions, or M draws of the servers, or both where anchors complete one copy."""
    sketch = OSNAP(rows=12, columns=60, sparsity=3, seed=7)
    assert EACH.terms(sketch, 4).tolist() == sketch.occupancy().tolist()
    assert ONE.terms(sketch, 4).tolist() == (sketch.occupancy() + 4).tolist()
    assert SERVERS.terms(sketch, 4).tolist() == [4] * 12


def test_noise_by_the_servers_costs_the_number_of_servers():
    sketch = OSNAP(rows=50, columns=50_000, sparsity=4, seed=1, balanced=True)
    for servers in (2, 5):
        trust = TrustModel(servers=servers, corrupt_servers=servers - 1)
        central = box(3).l2 / mu_of_budget(1, 1e-6)
        noise = privacy.calibrate(sketch, box(3), 1, 1e-6, trust=trust, noising=SERVERS)
        released = SERVERS.terms(sketch, servers) * noise.variance * sketch.scale**2
        np.testing.assert_allclose(released, servers * central**2, rtol=1e-6)


def test_noise_by_the_servers_holds_against_all_other_clients():
    task = task_of(noise_by="servers", clients=13, rows=12)
    assert task.guarantee.corrupt_clients == 12
    assert "from each server in every sum" in str(task.guarantee)
    assert "one release only" not in str(task.guarantee)
    assert Guarantee.from_dict(task.guarantee.to_dict()) == task.guarantee


@pytest.mark.parametrize("noise", ["skellam", "discrete-laplace"])
def test_every_family_can_come_from_the_servers(noise):
    delta = 0 if noise == "discrete-laplace" else 1e-6
    task = design(
        ReleaseSpec.of(
            Schema.unit(NAMES), 600, 1.0, delta, sketch="sum", noise=noise, noise_by="servers", simulation_seed=1
        )
    )
    release = model.run(task, np.zeros((600, 3)), stream=Stream.from_seed(2))
    assert 0 < np.abs(release.sketch).max() < 12 * math.sqrt(release.noise_variance[0])


# --- a coalition that was fixed beforehand ----------------------------------------------------------------------------


@pytest.mark.parametrize(("corrupt", "rows", "sparsity"), [(50, 100, 1), (2000, 100, 4), (5, 1000, 4), (10_000, 50, 2)])
def test_few_of_a_static_coalition_meet_in_a_row(corrupt, rows, sparsity):
    """The bound against the exact binomial tail, over all rows; it is not more than twice the exact quantile."""
    sketch = OSNAP(rows=rows, columns=20_000, sparsity=sparsity, seed=1)
    bound = TrustModel(corrupt_clients=corrupt, coalition="static").lost_in_a_row(sketch)
    law = scipy.stats.binom(corrupt, sparsity / rows)
    assert bound <= corrupt
    assert bound == corrupt or rows * law.sf(bound) <= STATIC_FAILURE
    assert bound <= 2 * law.isf(STATIC_FAILURE / rows) + 1
    log_bennett = bound - law.mean() - bound * math.log(bound / law.mean())
    assert bound == corrupt or rows * math.exp(log_bennett) <= STATIC_FAILURE


@pytest.mark.statistical
def test_a_static_coalition_meets_in_balanced_rows_no_more_often():
    """The first t clients, over 300 balanced matrices: the share of rows above the binomial's 1 % quantile is below 1 %
    (rows of a matrix are nearly independent: 4 standard errors of 300 x 50 are .3 %).
    """
    quantile = scipy.stats.binom(500, 2 / 50).isf(0.01)
    above = []
    for seed in range(300):
        places, _ = OSNAP(rows=50, columns=1000, sparsity=2, seed=seed, balanced=True).entries(0, 500)
        above.append(np.bincount(places.ravel(), minlength=50) > quantile)
    assert np.mean(above) <= 0.013


def test_a_static_coalition_needs_less_noise_than_an_adaptive_one():
    sketch = CountSketch(rows=100, columns=100_000, seed=3, balanced=True)
    noises = {
        coalition: privacy.calibrate(
            sketch, box(2), 1, 1e-6, trust=TrustModel(corrupt_clients=900, coalition=coalition)
        ).variance
        for coalition in ("static", "adaptive")
    }
    assert noises["static"] < noises["adaptive"] / 5


def test_the_luck_of_a_static_coalition_is_taken_from_delta():
    """In one row a static coalition is as well placed as any, and half of delta = 2^-55 is its failure."""
    failure = MATRICES * STATIC_FAILURE
    static, adaptive = (TrustModel(corrupt_clients=5, coalition=coalition) for coalition in ("static", "adaptive"))
    sketch = Sum(columns=100)
    noises = [
        privacy.calibrate(sketch, box(2), 1, delta, noise="gaussian", trust=trust)
        for delta, trust in ((2 * failure, static), (failure, adaptive))
    ]
    assert noises[0].sigma == noises[1].sigma
    promises = [
        Calibration(sketch, box(2), 1.01, delta, trust=trust).guarantee(noises[0]).achieved_epsilon
        for delta, trust in ((2 * failure, static), (failure, adaptive))
    ]
    assert promises[0] == promises[1] <= 1


def test_a_static_coalition_needs_a_delta():
    with pytest.raises(GuaranteeError, match=r"coalition: 'static' given at delta = 0"):
        design(
            ReleaseSpec.of(
                *(Schema.unit(NAMES), 600, 1.0, 0),
                **{"noise": "discrete-laplace", "sketch": "sum", "corrupt_clients": 5, "coalition": "static"},
            )
        )


# --- choosing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choices", "copies"),
    [
        ({}, 1),
        ({"copies": "each"}, 3),
        ({"noise": "skellam"}, 3),
        ({"sharing": "shamir"}, 3),
        ({"calibration": "paper", "clients": 20_000, "rows": 4}, 3),
        ({"corrupt_clients": 10}, 1),
        ({"corrupt_clients": 100, "balanced": True}, 3),
        ({"noise_by": "servers"}, 1),
        ({"noise_by": "servers", "copies": "each"}, 1),
    ],
)
def test_one_copy_is_the_default_where_it_is_proven_and_cheap(choices, copies):
    task = task_of(**choices)
    assert task.copies == copies
    assert Task.from_dict(task.to_dict()).digest == task.digest


@pytest.mark.parametrize(
    ("choices", "error", "rejection"),
    [
        ({"noise_by": "analyst"}, InputError, {"argument": "noise_by", "given": "'analyst'"}),
        ({"copies": "two"}, InputError, {"argument": "copies", "given": "'two'"}),
        ({"coalition": "lazy"}, InputError, {"argument": "coalition", "given": "'lazy'"}),
        (
            {"copies": "one", "noise": "skellam"},
            GuaranteeError,
            {
                "argument": "copies",
                "given": "one given with skellam noise, 'each' expected: one copy needs discrete-gaussian",
            },
        ),
        (
            {"copies": "one", "noise": "discrete-laplace"},
            GuaranteeError,
            {
                "argument": "copies",
                "given": "one given with discrete-laplace noise, 'each' expected: one copy needs discrete-gaussian",
            },
        ),
        ({"copies": "one", "sharing": "shamir"}, InputError, {"argument": "sharing", "given": "'shamir'"}),
        ({"noise_by": "servers", "sharing": "shamir"}, InputError, {"argument": "sharing", "given": "'shamir'"}),
        ({"noise_by": "servers", "calibration": "paper"}, InputError, {"argument": "calibration", "given": "'paper'"}),
        ({"copies": "one", "corrupt_clients": 590}, GuaranteeError, {"argument": "corrupt_clients + dropouts"}),
    ],
)
def test_what_is_not_proven_is_refused(choices, error, rejection):
    with rejects(kind=error, **rejection):
        task_of(**choices)


def test_noise_comes_from_clients_or_servers_for_one_copy_or_for_each():
    with rejects("noise_by", given="'analyst'"):
        NoisePlacement("analyst")
    with rejects("copies", expected="1 or 3"):
        NoisePlacement(copies=2).copies_for(OSNAP(rows=12, columns=600, sparsity=3, seed=7))


@pytest.mark.parametrize("noising", [ONE, SERVERS])
def test_the_papers_calibration_is_for_its_own_noising(noising):
    sketch = OSNAP(rows=12, columns=6000, sparsity=3, seed=7)
    with rejects("calibration", expected="'joint'"):
        privacy.calibrate(sketch, box(3), 1, 1e-3, noising=noising, calibration="paper")


def test_copies_are_one_or_as_many_as_rows():
    with rejects("copies", expected="1 or 3"):
        NoisePlacement(copies=2).copies_for(OSNAP(rows=5, columns=10, sparsity=3, seed=1))
    assert NoisePlacement(copies=1).exposure(Sum(10), TrustModel()) == IndependentRowNoise.of_clients(
        Sum(10), TrustModel()
    )


def test_servers_of_a_deployment_draw_secret_noise():
    task = design(ReleaseSpec.of(Schema.unit(NAMES), 60, 1.0, 1e-3, sketch="osnap", rows=6, sparsity=2, copies="one"))
    share = model.share_batch(task, np.zeros((60, 3)))[0]
    with pytest.raises(SimulationOnly):
        transform(task, share, simulation_key=bytes(16))
    assert (transform(task, share) != transform(task, share)).mean() > 0.99
