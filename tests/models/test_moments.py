"""Frequency moments: what a client sends, how far it can move, and unbiased estimates with their variance."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from dpmpc import FrequencyMoment, RidgeRegression
from dpmpc.base.errors import InputError
from dpmpc.base.randomness import Stream
from dpmpc.data import Column, Schema
from dpmpc.linear.contributions import SecondMoments, contribution_from
from dpmpc.linear.contributions.powers_and_items import ItemSketch, PowerSum
from dpmpc.linear.encoding.fixed_point import FixedPoint
from dpmpc.models.components.frequency_moment import item_moment_variance
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release import simulation as model
from dpmpc.release.planning import design
from dpmpc.release.release import Release
from support.rejections import rejects

RUNS = 4000
ITEMS, ROWS = 30, 12


# --- power sums -------------------------------------------------------------------------------------------------------


@given(st.integers(1, 8), st.floats(-5, 5), st.floats(0.1, 10), st.integers(0, 2**32))
@settings(deadline=None)
def test_power_sums_never_move_more_than_their_sensitivity_which_is_attained(order, lower, width, seed):
    column = Column("x", lower, lower + width)
    contribution, encoding = PowerSum.of(column, order), FixedPoint(24)
    x = np.random.default_rng(seed).uniform(lower, lower + width, 50)
    x = np.concatenate([x, [column.lower, column.upper, np.clip(0, column.lower, column.upper)]])
    encoded = contribution.encode(Schema((column,)).normalise(x[:, None]), encoding)[:, 0]
    assert np.ptp(encoded) == pytest.approx(contribution.sensitivity(1, encoding).l2, abs=2)
    assert np.ptp(encoded) <= contribution.sensitivity(1, encoding).l2
    assert np.abs(encoded).max() <= contribution.largest_entry(encoding) <= 2**24
    unit = max(abs(column.lower), abs(column.upper)) ** order
    assert encoded * unit / 2**24 == pytest.approx(x**order, abs=unit * 2.0**-22)


@pytest.mark.parametrize(
    ("bounds", "order", "moved"),
    [
        ((-3, 3), 1, 2),
        ((-3, 3), 2, 1),
        ((-3, 3), 3, 2),
        ((0, 3), 3, 1),
        ((0, 3), 2, 1),
        ((-3, 0), 3, 1),
        ((2, 4), 2, 0.75),
    ],
)
def test_replace_one_sensitivity_of_a_power(bounds, order, moved):
    """Delta = eta^k for even k or x >= 0, else 2 eta^k, in units of eta^k."""
    sensitivity = PowerSum.of(Column("x", *bounds), order).sensitivity(1, FixedPoint(20))
    assert (sensitivity.l1, sensitivity.l2, sensitivity.linf) == (moved * 2**20,) * 3


@pytest.mark.statistical
@pytest.mark.parametrize(("order", "bounds"), [(2, (-4.0, 4.0)), (3, (0.0, 4.0)), (1, (-4.0, 4.0))])
def test_power_sums_are_unbiased_and_know_their_error(order, bounds):
    """400 runs, mean within 4 and variance within 5 standard errors, fixed seeds: false alarms below 1e-4."""
    x = np.random.default_rng(1).uniform(*bounds, 300)
    estimator = FrequencyMoment(order, delta=1e-3, bounds=bounds, simulation_seed=2).fit(x)
    task, stream = estimator.release_.task, Stream.from_seed(3)
    errors = [
        FrequencyMoment(order).fit_release(model.run(task, x[:, None], stream=stream)).moment_ - np.sum(x**order)
        for _ in range(400)
    ]
    assert abs(np.mean(errors)) < 4 * estimator.standard_error_ / np.sqrt(400)
    assert np.var(errors) == pytest.approx(estimator.standard_error_**2, rel=5 * np.sqrt(2 / 400))


def test_the_error_is_that_of_a_central_gaussian_whatever_the_number_of_clients():
    """sd = Delta/mu: 4.22468 at (1, 1e-6) and sensitivity 1, times eta^k."""
    for clients in (2000, 200_000):
        fitted = FrequencyMoment(2, bounds=(-3, 3), simulation_seed=1).fit(np.full(clients, 2.0))
        assert fitted.standard_error_ == pytest.approx(9 * 4.22468, rel=1e-3)
        assert fitted.moment_ == pytest.approx(4 * clients, abs=6 * fitted.standard_error_)


# --- items ------------------------------------------------------------------------------------------------------------


def item_task(clients=60, delta=1e-2, **choices):
    schema = Schema.from_pair(["item"], (5, 5 + ITEMS - 1))
    contribution = ItemSketch.of(schema.columns[0], ROWS, 0)
    return design(ReleaseSpec.of(schema, clients, 1.0, delta, contribution=contribution, simulation_seed=0, **choices))


def held(clients=60, seed=0):
    """Items 5 to 34, the first ones more often."""
    return 5 + np.minimum(np.random.default_rng(seed).geometric(0.15, clients) - 1, ITEMS - 1)


def test_an_item_is_a_column_of_the_public_matrix():
    task = item_task()
    items = np.arange(5, 5 + ITEMS)[:, None]
    encoded = task.statistic.encode(task.schema.normalise(items), FixedPoint(3))
    assert (np.abs(encoded).sum(axis=1) == 8).all()
    assert ((encoded != 0).sum(axis=1) == 1).all()
    exact = task.statistic._matrix.to_csc().toarray().T * 8
    assert (encoded == exact).all()
    moved = np.linalg.norm(encoded[:, None] - encoded[None], axis=2)
    sensitivity = task.statistic.sensitivity(1, FixedPoint(3))
    assert moved.max() == sensitivity.l2 == 16
    assert np.abs(encoded[:, None] - encoded[None]).sum(axis=2).max() <= sensitivity.l1


@pytest.fixture(scope="module")
def item_runs():
    """F2 estimates of the same clients, each run with a public matrix and noise of its own."""
    task, items, stream = item_task(), held()[:, None].astype(float), Stream.from_seed(4)
    estimates, biased = [], []
    for run in range(RUNS):
        fresh = msgspec.structs.replace(task, statistic=ItemSketch(ITEMS, ROWS, run))
        release = model.run(fresh, items, stream=stream)
        estimates.append(FrequencyMoment(of="items").fit_release(release).moment_)
        biased.append(float(np.sum(release.sketch**2)))
    counts = np.unique(items, return_counts=True)[1].astype(float)
    variance = item_moment_variance(
        np.sum(counts**2), ROWS, float(release.noise_variance[0]), f4=float(np.sum(counts**4))
    )
    return np.array(estimates), np.array(biased), float(np.sum(counts**2)), variance


@pytest.mark.statistical
def test_f2_is_unbiased_and_would_not_be_without_the_correction(item_runs):
    """Mean of 4000 runs within 3 standard errors under fixed seeds: 0.3 % of seeds would fail."""
    estimates, biased, f2, variance = item_runs
    allowed = 3 * np.sqrt(variance / RUNS)
    assert abs(np.mean(estimates) - f2) < allowed
    assert abs(np.mean(biased) - f2) > 10 * allowed


@pytest.mark.statistical
def test_f2_has_the_stated_variance(item_runs):
    """Within 12 %, about 5 standard errors of a variance from 4000 runs whose tails are those of chi-squared."""
    estimates, _, _, variance = item_runs
    assert np.var(estimates) == pytest.approx(variance, rel=0.12)


def test_standard_error_of_items_covers_the_true_one():
    items = np.random.default_rng(5).integers(0, 100, 20_000)
    fitted = FrequencyMoment(of="items", bounds=(0, 99), rows=128, simulation_seed=6).fit(items)
    exact = fitted.exact_moment(items)
    assert fitted.standard_error_ < 0.2 * exact
    assert abs(fitted.moment_ - exact) < 4 * fitted.standard_error_
    assert fitted.release_.task.width == 128
    zero = FrequencyMoment(of="items", bounds=(0, 99), rows=8, delta=1e-3, simulation_seed=7).fit(np.arange(100) % 2)
    assert zero.standard_error_ > 0


def test_items_have_fresh_public_matrices_unless_simulated():
    public = Schema.from_pair(["item"], (0, 9))
    fresh = [FrequencyMoment(of="items").statistic(public) for _ in range(2)]
    assert fresh[0] != fresh[1]
    assert FrequencyMoment(of="items", simulation_seed=1).statistic(public) == FrequencyMoment(
        of="items", simulation_seed=1
    ).statistic(public)


# --- both -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("contribution", [PowerSum(3), PowerSum(2, -1.5), ItemSketch(9, 4, 7)])
def test_contributions_survive_their_description(contribution):
    again = contribution_from(contribution.describe())
    assert again == contribution
    assert hash(again) == hash(contribution)
    assert again != SecondMoments()


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ({"name": "median"}, "statistic: name: 'median' given"),
        ({"name": "power-sum", "order": 2}, None),
        ({"name": "power-sum", "order": 2, "size": 1}, "statistic: fields of other types .* given"),
        ({"name": "power-sum", "order": 33, "zero": 0.0}, "order: 33"),
        ({"name": "power-sum", "order": 2.0, "zero": 0.0}, "order: 2.0"),
        ({"name": "power-sum", "order": 2, "zero": float("nan")}, "zero: nan"),
        ({"name": "item-sketch", "items": 1, "rows": 4, "seed": "00" * 32}, "items: 1"),
        ({"name": "item-sketch", "items": 4, "rows": 0, "seed": "00" * 32}, "rows: 0"),
        ({"name": "item-sketch", "items": 4, "rows": 4, "seed": "zz"}, "seed: 'zz'"),
    ],
)
def test_bad_descriptions(description, message):
    if message is None:
        assert contribution_from(description) == PowerSum(2)
        return
    with pytest.raises(InputError, match=message):
        contribution_from(description)


@pytest.mark.parametrize("of", ["values", "items"])
def test_releases_are_reused_from_their_file(of, tmp_path):
    fitted = FrequencyMoment(of=of, bounds=(0, 9), delta=1e-3, simulation_seed=8).fit(np.arange(500) % 10)
    fitted.release_.save(tmp_path / "release.dpmpc")
    again = FrequencyMoment(of=of).fit_release(Release.load(tmp_path / "release.dpmpc"))
    assert (again.moment_, again.standard_error_) == (fitted.moment_, fitted.standard_error_)
    assert again.column_ == "x0"
    other = "items" if of == "values" else "values"
    with rejects("release"):
        FrequencyMoment(of=other).fit_release(fitted.release_)
    with rejects("release"):
        RidgeRegression().fit_release(fitted.release_)


def test_releases_of_another_order_are_refused():
    release = FrequencyMoment(3, delta=1e-3, simulation_seed=8).fit(np.linspace(-1, 1, 100)).release_
    with rejects("release"):
        FrequencyMoment(2).fit_release(release)


@pytest.mark.parametrize(
    ("parameters", "argument"),
    [
        ({"order": 0}, "order"),
        ({"order": 1.5}, "order"),
        ({"order": 40}, "order"),
        ({"of": "words"}, "of"),
        ({"of": "items", "order": 3}, "order"),
        ({"rows": 5}, "rows"),
        ({"of": "items", "rows": 0}, "rows"),
        ({"of": "items", "bounds": (0.5, 9)}, "bounds of column 'x0'"),
        ({"of": "items", "bounds": (0, 1 << 25)}, "items"),
        ({"bounds": None}, "X: column 'x0', row 3"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"servers": 1}, "servers"),
        ({"corrupt_clients": 1000}, "corrupt_clients + dropouts"),
    ],
)
def test_bad_parameters(parameters, argument):
    with rejects(argument):
        FrequencyMoment(**{"bounds": (0, 9), "delta": 1e-3, **parameters}).fit(np.arange(100) % 10)


def test_bad_data_and_designs():
    with rejects("X", expected="one"):
        FrequencyMoment().fit(np.zeros((10, 2)))
    with rejects("X", given="column 'x0', row 2: 1.5"):
        FrequencyMoment(of="items", bounds=(0, 9)).fit([1.0, 1.5])
    for choice in ({"sketch": "osnap"}, {"rows": 4}, {"sparsity": 2}, {"radius": 1.0}):
        with rejects(next(iter(choice))):
            item_task(**choice)
    with rejects("columns", given="2"):
        design(ReleaseSpec.of(Schema.unit(["a", "b"]), 100, 1.0, 1e-3, contribution=PowerSum(2)))
    with rejects("order"):
        design(ReleaseSpec.of(Schema.unit(["a"]), 100, 1.0, 1e-3, contribution=PowerSum(2, 1e9)))


def test_it_is_a_scikit_learn_citizen():
    estimator = FrequencyMoment(3, epsilon=0.5, simulation_seed=4)
    assert clone(estimator).get_params() == estimator.get_params()
