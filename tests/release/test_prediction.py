"""Expected phi and psi: what they are made of, which number of rows is best, and psi beside simulated releases."""

import dataclasses

import numpy as np
import pytest

from dpmpc import LowRankApproximation
from dpmpc.base.randomness import Stream
from dpmpc.data import Schema
from dpmpc.models.common.linear_algebra import excess_risk
from dpmpc.models.papers.baselines import LocalGaussian
from dpmpc.privacy.specification import ReleaseSpec, TrustModel
from dpmpc.release import simulation as model
from dpmpc.release.planning import design
from dpmpc.release.planning.prediction import LowRank, Population, Regression, Scenario, best_rows, expected_of
from support.rejections import rejects

SETTING = Scenario(columns=6, clients=1_000_000, epsilon=1.0, delta=1e-7)
RANK, COLUMNS = 2, 8


def population(clients, explained):
    """Uncorrelated columns that are +-sqrt(l) each: `explained` of the variance 8 x 0.16 in the first two."""
    total = COLUMNS * 0.4**2
    spectrum = [explained * total / RANK] * RANK + [(1 - explained) * total / (COLUMNS - RANK)] * (COLUMNS - RANK)
    return np.random.default_rng(0).choice([-1.0, 1.0], (clients, COLUMNS)) * np.sqrt(spectrum)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("clients", "explained", "epsilon", "choices"),
    [
        (200_000, 0.8, 1.0, {"sketch": "countsketch", "rows": 40}),
        (200_000, 0.8, 4.0, {"sketch": "osnap", "rows": 400, "copies": "each"}),
        (400_000, 0.6, 4.0, {"sketch": "countsketch", "rows": 100, "noise_by": "servers"}),
        (20_000, 0.8, 1.0, {"sketch": "sum"}),
        (5_000, 0.6, 0.5, {"sketch": "sum", "noise_by": "servers"}),
    ],
)
def test_predicted_psi_is_near_the_mean_of_runs(clients, explained, epsilon, choices):
    """Mean of 8 runs within a factor 1.6 of the prediction; fixed seeds.

    The mean of 8 has a relative standard deviation of at most 0.2: a right formula fails on at most 4 % of the seeds.
    """
    Z = population(clients, explained)
    names = Schema.unit([f"x{column}" for column in range(COLUMNS)])
    found = []
    for seed in range(8):
        task = design(
            ReleaseSpec.of(names, clients, epsilon, 1e-6, purpose="low-rank", simulation_seed=seed, **choices)
        )
        release = model.run(task, Z, stream=Stream.from_seed(seed))
        found.append(LowRankApproximation(RANK).fit_release(release).excess_risk(Z))
    predicted = expected_of(task, LowRank(RANK), Population(explained=explained))
    assert predicted / 1.6 < np.mean(found) < predicted * 1.6


@pytest.mark.statistical
def test_predicted_psi_of_the_local_model_is_near_the_mean_of_runs():
    """As above."""
    Z = population(200_000, 0.8)
    scenario = Scenario(COLUMNS, 200_000, 20.0, 1e-6, population=Population(explained=0.8))
    fits = (LocalGaussian(epsilon=20.0, n_components=RANK, simulation_seed=seed).fit(Z) for seed in range(8))
    found = np.mean([excess_risk(fit.components_, Z) for fit in fits])
    predicted = LowRank(RANK).local(scenario)
    assert predicted / 1.6 < found < predicted * 1.6


def test_psi_goes_no_higher_than_that_of_a_random_projection():
    weak = dataclasses.replace(SETTING, epsilon=1e-3, population=Population(explained=0.8))
    metric = LowRank(2)
    sketch = metric.sketch(weak, best_rows(weak, metric))
    assert sketch == metric.local(weak) == metric.trivial(weak) == pytest.approx(2 * (0.8 * 6 / 2 - 1) * 0.16)


@pytest.mark.parametrize("metric", [Regression(), LowRank(2)])
def test_best_rows_is_the_best_of_its_neighbours(metric):
    best = best_rows(SETTING, metric)
    assert metric.sketch(SETTING, best) <= metric.sketch(SETTING, best * 2)
    assert metric.sketch(SETTING, best) <= metric.sketch(SETTING, max(best // 2, 12))
    assert best_rows(dataclasses.replace(SETTING, clients=10), metric) == 12


@pytest.mark.parametrize(("servers", "honest"), [(3, 1), (3, 2), (5, 1)])
def test_noise_by_the_servers_has_as_many_times_the_variance_as_there_are_servers_for_an_honest_one(servers, honest):
    trust = TrustModel(servers=servers, corrupt_servers=servers - honest)
    served = dataclasses.replace(SETTING, noise_by="servers", trust=trust)
    assert served.row_variance(60) / SETTING.row_variance(60) == pytest.approx(servers / honest)
    assert served.moment_variance() / SETTING.moment_variance() == pytest.approx(servers / honest)


@pytest.mark.parametrize("choices", [{"sketch": "sum"}, {"sketch": "countsketch", "rows": 60}])
@pytest.mark.parametrize("noise_by", ["clients", "servers"])
@pytest.mark.parametrize("corrupt", [0, 100])
def test_the_noise_of_a_task_is_what_the_setting_says(choices, noise_by, corrupt):
    """To a hundredth: what integers, rounding of occupancies and encoding add."""
    task = design(
        ReleaseSpec.of(
            Schema.unit([*"abcdef"]),
            12_000,
            1.0,
            1e-6,
            noise_by=noise_by,
            corrupt_clients=corrupt,
            simulation_seed=1,
            **choices,
        )
    )
    scenario = Scenario.of(task)
    released = task.noise_terms.mean() * task.noise.variance / 4**task.encoding.fractional_bits
    expected = scenario.moment_variance() if choices["sketch"] == "sum" else scenario.row_variance(60)
    assert released == pytest.approx(expected, rel=0.01)


def test_the_noise_of_the_printed_calibration_is_predicted_too():
    choices = {"sketch": "countsketch", "rows": 60, "simulation_seed": 1}
    tasks = [
        design(ReleaseSpec.of(Schema.unit([*"abcdef"]), 500_000, 1.0, 1e-7, calibration=c, **choices))
        for c in ("joint", "paper")
    ]
    joint, paper = (expected_of(task, Regression()) for task in tasks)
    assert joint == pytest.approx(Regression().sketch(Scenario.of(tasks[0]), 60), rel=0.01)
    assert paper - 1 > 4 * (joint - 1)


def test_a_coalition_that_may_fill_a_row_makes_a_sketch_impossible():
    lost = dataclasses.replace(SETTING, trust=TrustModel(corrupt_clients=100_000))
    assert Regression().sketch(lost, 10) == Regression().sketch(lost, 12) == np.inf
    assert LowRank(2).default_rows(lost) == 12
    assert Regression().sum(lost) < 1.001
    static = dataclasses.replace(SETTING, trust=TrustModel(corrupt_clients=100_000, coalition="static"))
    assert Regression().sketch(static, 60) < 1.5


def test_default_rows_suit_what_the_release_is_for():
    assert Regression().default_rows(SETTING) == best_rows(SETTING, Regression())
    served = dataclasses.replace(SETTING, noise_by="servers")
    assert LowRank().default_rows(SETTING) == pytest.approx(3 * LowRank().default_rows(served), abs=2)


def test_phi_near_the_optimum_is_written_by_its_distance():
    assert Regression().text(1 + 6.3e-7) == "1 + 6.3e-07"
    assert (Regression().text(1.158), LowRank().text(0.0012)) == ("1.158", "0.0012")


@pytest.mark.parametrize(
    ("metric", "explained", "argument"),
    [
        (LowRank(6), 0.9, "components"),
        (LowRank(0), 0.9, "components"),
        (LowRank(3), 0.5, "explained"),
    ],
)
def test_bad_ranks_and_shares(metric, explained, argument):
    with rejects(argument):
        best_rows(dataclasses.replace(SETTING, population=Population(explained=explained)), metric)


@pytest.mark.parametrize("fields", [{"columns": 0}, {"clients": 0}, {"sparsity": 0}, {"noise_by": "nobody"}])
def test_bad_settings(fields):
    with rejects(next(iter(fields))):
        dataclasses.replace(SETTING, **fields)
