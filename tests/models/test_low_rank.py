"""Low-rank approximation from releases, against the best projection and a random one."""

import numpy as np
import pytest
from sklearn.base import clone

from dpmpc import FrequencyMoment, LowRankApproximation
from dpmpc.base.errors import UtilityWarning
from dpmpc.base.randomness import Stream
from dpmpc.data import Schema
from dpmpc.models.common.linear_algebra import excess_risk, random_excess_risk, top_components
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release import simulation as model
from dpmpc.release.planning import design
from dpmpc.release.release import Release
from support.rejections import rejects

FEATURES, RANK = 8, 2


def low_rank_rows(clients, seed=0):
    """Rows near a plane through 0, inside the box."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((FEATURES, RANK)))[0].T
    rows = rng.uniform(-1, 1, (clients, RANK)) @ basis + 0.02 * rng.standard_normal((clients, FEATURES))
    return rows / np.abs(rows).max()


def squared_distance(Z, components):
    return np.sum((Z - Z @ components.T @ components) ** 2)


def test_excess_risk_is_its_definition():
    Z = low_rank_rows(200) + 0.3 * np.random.default_rng(1).uniform(-1, 1, (200, FEATURES))
    components = np.linalg.qr(np.random.default_rng(2).standard_normal((FEATURES, 3)))[0].T
    best = np.sum(np.linalg.svd(Z, compute_uv=False)[3:] ** 2)
    assert excess_risk(components, Z) == pytest.approx((squared_distance(Z, components) - best) / 200, rel=1e-12)
    assert excess_risk(components, Z) > 0.01


def test_exact_components_have_no_excess_risk():
    Z = low_rank_rows(500, seed=3)
    exact = top_components(Z.T @ Z, RANK)
    right = np.linalg.svd(Z)[2][:RANK]
    assert np.abs(np.einsum("rd,rd->r", exact, right)) == pytest.approx(np.ones(RANK), abs=1e-9)
    assert excess_risk(exact, Z) == pytest.approx(0, abs=1e-12)
    assert excess_risk(np.eye(FEATURES), Z) == pytest.approx(0, abs=1e-12)


@pytest.mark.statistical
def test_random_excess_risk_is_the_mean_over_projections():
    """4 standard errors of 2000 projections under a fixed seed: false alarms in 6e-5 of the seeds."""
    Z = low_rank_rows(300, seed=4)
    rng = np.random.default_rng(5)
    found = [excess_risk(np.linalg.qr(rng.standard_normal((FEATURES, RANK)))[0].T, Z) for _ in range(2000)]
    assert random_excess_risk(RANK, Z) == pytest.approx(np.mean(found), abs=4 * np.std(found) / np.sqrt(2000))


@pytest.mark.parametrize(("sketch", "rows"), [("sum", None), ("osnap", 40), ("countsketch", 40)])
def test_private_components_beat_random_ones(sketch, rows):
    Z = low_rank_rows(200_000)
    fitted = LowRankApproximation(RANK, epsilon=2.0, sketch=sketch, rows=rows, sparsity=None, simulation_seed=6).fit(Z)
    psi = fitted.excess_risk(Z)
    assert -1e-12 < psi < 0.5 * fitted.random_excess_risk(Z)
    assert fitted.components_.shape == (RANK, FEATURES)
    assert fitted.components_ @ fitted.components_.T == pytest.approx(np.eye(RANK), abs=1e-12)
    if sketch != "sum":
        right = np.linalg.svd(fitted.release_.sketch)[2][:RANK]
        assert np.abs(np.einsum("rd,rd->r", fitted.components_, right)) == pytest.approx(np.ones(RANK), abs=1e-9)


def test_a_sum_is_close_to_the_optimum():
    Z = low_rank_rows(100_000)
    fitted = LowRankApproximation(RANK, simulation_seed=7).fit(Z)
    assert fitted.release_.task.statistic.name == "second-moments"
    assert fitted.excess_risk(Z) < 0.01 * fitted.random_excess_risk(Z)


@pytest.mark.statistical
def test_the_default_number_of_rows_balances_distortion_and_noise():
    """Mean psi of 6 fits under fixed seeds is below that of far fewer and of far more rows, by a factor near 2 each."""
    Z = low_rank_rows(200_000) + 0.1 * np.random.default_rng(11).uniform(-1, 1, (200_000, FEATURES))
    Z /= np.abs(Z).max()

    def mean_psi(rows):
        choices = {"sketch": "countsketch", "rows": rows, "epsilon": 4.0}
        return np.mean(
            [LowRankApproximation(RANK, simulation_seed=seed, **choices).fit(Z).excess_risk(Z) for seed in range(6)]
        )

    task = design(
        ReleaseSpec.of(Schema.unit([*"abcdefgh"]), len(Z), 4.0, 1e-6, purpose="low-rank", sketch="countsketch")
    )
    default = task.sketch.rows
    assert 2 * FEATURES < default < len(Z) / FEATURES
    assert mean_psi(None) < mean_psi(2 * FEATURES)
    assert mean_psi(None) < mean_psi(16 * default)
    assert LowRankApproximation(1, sketch="osnap", delta=1e-4).fit(Z[:1000]).release_.task.sketch.rows == 2 * FEATURES


def test_transform_maps_between_units_and_coordinates():
    rng = np.random.default_rng(8)
    common = rng.uniform(-1, 1, (100_000, 1))
    X = np.array([50, 7]) + common * [40, 2] + rng.uniform(-1, 1, (100_000, 2)) * [2, 0.1]
    fitted = LowRankApproximation(1, bounds={"x0": (0, 100), "x1": (4, 10)}, simulation_seed=9).fit(X)
    coordinates = fitted.transform(X[:50])
    assert coordinates.shape == (50, 1)
    back = fitted.inverse_transform(coordinates)
    assert np.abs(back - X[:50]).max(axis=0) == pytest.approx([1, 0.1], rel=2)
    assert fitted.transform(back) == pytest.approx(coordinates, abs=1e-12)
    with rejects("T", given="shape (50,)"):
        fitted.inverse_transform(coordinates[:, 0])


def test_one_release_serves_every_rank(tmp_path):
    Z = low_rank_rows(30_000)
    task = design(
        ReleaseSpec.of(Schema.unit([f"x{i}" for i in range(FEATURES)]), len(Z), 1.0, 1e-6, simulation_seed=10)
    )
    model.run(task, Z, stream=Stream.from_seed(10)).save(tmp_path / "release.dpmpc")
    release = Release.load(tmp_path / "release.dpmpc")
    small, large = (LowRankApproximation(rank).fit_release(release) for rank in (1, 3))
    assert (small.components_ == large.components_[:1]).all()
    assert large.feature_names_ == release.columns
    assert LowRankApproximation(FEATURES).fit_release(release).excess_risk(Z) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("rank", [0, -1, 4, 2.0, True, "2"])
def test_bad_ranks(rank):
    X = low_rank_rows(1000)[:, :3]
    with rejects("n_components", expected="a whole number from 1 to 3"):
        LowRankApproximation(rank, delta=1e-4).fit(X)


def test_bad_releases_and_constant_columns():
    counts = FrequencyMoment(simulation_seed=1, delta=1e-3).fit(np.linspace(-1, 1, 500)).release_
    with rejects("release", given="of power-sum given, of rows or second moments expected"):
        LowRankApproximation(1).fit_release(counts)
    with pytest.warns(UtilityWarning, match="'x1' is 1"):
        LowRankApproximation(1, delta=1e-3).fit(np.column_stack([np.linspace(-1, 1, 100), np.ones(100)]))


def test_it_is_a_scikit_learn_citizen():
    estimator = LowRankApproximation(2, epsilon=0.5, sketch="sum", simulation_seed=4)
    assert clone(estimator).get_params() == estimator.get_params()
    Z = low_rank_rows(5000)
    assert estimator.set_params(delta=1e-5).fit_transform(Z).shape == (5000, 2)


def shifted_rows(clients, seed=0):
    """Rows near a plane through a point far from 0, which lies in none of its directions."""
    mean = np.array([0.4, -0.3, 0.2, 0, 0.3, 0.1, -0.2, 0.4])
    return mean + 0.3 * low_rank_rows(clients, seed)


def release_of(Z, simulation_seed, epsilon=1.0, **choices):
    names = [f"x{i}" for i in range(Z.shape[1])]
    task = design(ReleaseSpec.of(Schema.unit(names), len(Z), epsilon, 1e-6, simulation_seed=simulation_seed, **choices))
    return model.run(task, Z, stream=Stream.from_seed(simulation_seed))


def test_centred_directions_of_exact_moments_are_those_of_a_principal_component_analysis():
    """Integers of the encoding and the noise of an enormous epsilon are all that separates them."""
    Z = shifted_rows(2_000)
    huge = {"epsilon": 900.0, "delta": 1e-4, "bounds": (-1, 1), "simulation_seed": 12}
    fitted = LowRankApproximation(RANK, center=True, **huge).fit(Z)
    mean = Z.mean(axis=0)
    directions = np.linalg.svd(Z - mean, full_matrices=False)[2][:RANK]
    assert np.abs(np.einsum("rd,rd->r", fitted.components_, directions)) == pytest.approx(np.ones(RANK), abs=1e-3)
    assert fitted.origin_ == pytest.approx(mean, abs=1e-3)
    assert fitted.transform(Z) == pytest.approx((Z - fitted.origin_) @ fitted.components_.T, abs=1e-12)
    left = np.sum((Z - fitted.inverse_transform(fitted.transform(Z))) ** 2)
    best = np.sum(np.linalg.svd(Z - mean, compute_uv=False)[RANK:] ** 2)
    assert fitted.excess_risk(Z) == pytest.approx((left - best) / len(Z), abs=1e-12)
    assert fitted.excess_risk(Z) < 1e-5
    uncentred = LowRankApproximation(RANK, **huge).fit(Z)
    assert abs(uncentred.components_[0] @ mean) / np.linalg.norm(mean) > 0.99
    assert np.array_equal(uncentred.origin_, np.zeros(FEATURES))


@pytest.mark.parametrize("choices", [{}, {"sketch": "osnap", "rows": 60, "epsilon": 8.0}], ids=["sum", "sketch"])
def test_one_release_serves_both_origins_and_its_scales(choices):
    release = release_of(shifted_rows(100_000), 13, **choices)
    centred = LowRankApproximation(RANK, center=True).fit_release(release)
    assert centred.excess_risk(shifted_rows(100_000)) < 0.5 * centred.random_excess_risk(shifted_rows(100_000))
    ones, sketch = release.ones, release.sketch
    if choices:
        projected = sketch - np.outer(ones, ones @ sketch) / (ones @ ones)
        directions = np.linalg.svd(projected)[2][:RANK]
        assert np.abs(np.einsum("rd,rd->r", centred.components_, directions)) == pytest.approx(np.ones(RANK), abs=1e-9)
    else:
        assert centred.origin_ == pytest.approx(release.describe().means, abs=1e-12)
    assert centred.result().data["origin"] == dict(zip(release.columns, centred.origin_.tolist(), strict=True))
    assert "about their means" in centred.result().title


@pytest.mark.statistical
def test_centring_adds_no_error_to_speak_of():
    """Mean psi of 40 releases about their mean is below 1.25 times that of the same rows moved to the middle.

    The noise of the mean's product is at most as large as that of the moments, and here less. The ratio's standard
    error is .08 under fixed seeds: a false alarm in 1e-3 of the seeds.
    """
    Z = shifted_rows(20_000)
    moved = Z - Z.mean(axis=0)

    def mean_psi(rows, center):
        fits = [LowRankApproximation(RANK, center=center).fit_release(release_of(rows, seed)) for seed in range(40)]
        return np.mean([fit.excess_risk(rows) for fit in fits])

    assert mean_psi(Z, True) < 1.25 * mean_psi(moved, False)


def test_center_is_a_truth_value():
    with rejects("center", given="'yes'"):
        LowRankApproximation(1, center="yes").fit(np.zeros((10, 2)))
