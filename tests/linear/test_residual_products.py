"""Squared residuals times products: the theorem, the sensitivity in integers, and what is read from a sum."""

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmpc.base.randomness import Stream
from dpmpc.data import Schema
from dpmpc.linear.contributions import contribution_from
from dpmpc.linear.contributions.residual_products import ResidualProducts
from dpmpc.linear.encoding.fixed_point import FixedPoint
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.privacy.task import Task
from dpmpc.release.planning import design
from dpmpc.release.simulation import run
from support.rejections import rejects


def distance(w, other):
    """Return the sum over i <= j of (w_i w_j - w'_i w'_j)^2 for rows of two arrays (m, p)."""
    first, second = np.triu_indices(w.shape[-1])
    return np.square(w[..., first] * w[..., second] - other[..., first] * other[..., second]).sum(axis=-1)


@pytest.mark.parametrize("side", [1, 2, 3, 4])
def test_the_theorem_holds_on_a_grid_and_is_attained_for_even_sides(side):
    line = np.linspace(-1, 1, 9 if side < 4 else 5)
    points = np.array(list(itertools.product(line, repeat=side)))
    worst = max(distance(point, points).max() for point in points)
    assert worst <= side**2 + 1e-9
    assert worst >= side**2 - side % 2  # one less for odd sides


unit = st.floats(-1, 1)


@given(st.integers(1, 7).flatmap(lambda side: st.tuples(*[st.lists(unit, min_size=side, max_size=side)] * 2)))
def test_the_theorem_holds_anywhere_in_the_box(pair):
    w, other = map(np.array, pair)
    assert distance(w, other) <= len(w) ** 2 * (1 + 1e-12)


@pytest.mark.parametrize("bits", [0, 1, 3, 6])
def test_every_pair_of_encoded_rows(bits):
    """All rows of a grid, at coefficients of all sizes, against the sensitivity in integers."""
    encoding, line = FixedPoint(bits), np.linspace(-1, 1, 9)
    rows = np.array(list(itertools.product(line, line, line)))
    rng = np.random.default_rng(bits)
    for size in (0.0, 0.2, 1.0, 30.0):
        contribution = ResidualProducts(rng.normal(size=3) * size)
        limits, encoded = contribution.sensitivity(3, encoding), contribution.encode(rows, encoding)
        apart = np.abs(encoded[:, None] - encoded[None])
        assert np.square(apart).sum(axis=2).max() <= limits.l2**2
        assert apart.sum(axis=2).max() <= limits.l1
        assert apart.max() <= limits.linf
        assert np.abs(encoded).max() <= contribution.largest_entry(encoding)


@pytest.mark.parametrize("side", [2, 4])
def test_the_bound_is_nearly_attained_by_rows(side):
    """Of residuals as long as they can be: a row of ones, and one that has the opposite sign in half of its columns."""
    theta = np.append(-1.0, np.zeros(side - 1))
    rows = np.ones((2, side))
    rows[1, : side // 2] = -1.0
    contribution, encoding = ResidualProducts(theta), FixedPoint(24)
    encoded = contribution.encode(rows, encoding).astype(float)
    assert math.dist(*encoded) / contribution.sensitivity(side, encoding).l2 == pytest.approx(1.0, abs=1e-6)


def test_what_is_read_is_the_middle_of_the_sandwich():
    rng = np.random.default_rng(5)
    rows, theta = rng.uniform(-1, 1, (60, 3)), np.array([0.1, 0.5, -0.3])
    contribution = ResidualProducts(theta)
    sums = contribution.read(contribution.encode(rows, FixedPoint(30)).sum(axis=0) / 2.0**30, 0.25)
    u = np.column_stack([np.ones(60), rows[:, :2]])
    residual = rows[:, 2] - u @ theta
    assert contribution.reach == pytest.approx(1.9)
    assert sums.products == pytest.approx((u * residual[:, None] ** 2).T @ u, abs=1e-5)
    assert sums.deviation == pytest.approx(0.25 * 1.9**2)


@pytest.mark.parametrize("length", [0.3, 5.0, 1e6])
def test_predictions_are_clipped_to_the_box_and_residuals_are_not(length):
    """No residual is shortened beyond what the box has: its sum is that of the clipped prediction, at any length."""
    rows = np.array(list(itertools.product([-1.0, -0.3, 1.0], repeat=3)))
    theta = np.array([0.0, length, -length])
    contribution = ResidualProducts(theta)
    read = contribution.read(contribution.encode(rows, FixedPoint(40)).sum(axis=0) / 2.0**40, 0.0)
    u = np.column_stack([np.ones(len(rows)), rows[:, :2]])
    residual = rows[:, 2] - np.clip(u @ theta, -1, 1)
    assert read.products == pytest.approx((u * residual[:, None] ** 2).T @ u, abs=1e-9)
    assert contribution.reach == min(2.0, 1 + 2 * length)


def test_servers_sum_them_without_knowing_them():
    """Through task, file form, shares, servers and analyst; the noise is what the theorem states."""
    rows = np.random.default_rng(7).uniform(-1, 1, (300, 3))
    contribution, schema = ResidualProducts([0.1, 0.2, -0.3]), Schema.unit(("a", "b", "y"))
    spec = ReleaseSpec.of(schema, 300, 1.0, 1e-6, contribution=contribution, fractional_bits=24, simulation_seed=1)
    task = design(spec)
    again = Task.from_dict(json.loads(json.dumps(task.to_dict())))
    assert again.digest == task.digest
    assert contribution_from(contribution.describe()) == contribution
    release = run(again.verify(), rows, stream=Stream.from_seed(1))
    deviation = math.sqrt(release.noise_variance[0])
    assert deviation == pytest.approx(3 / task.guarantee.mu, rel=1e-3)
    exact = contribution.encode(rows, task.encoding).sum(axis=0) * task.unit
    assert np.sqrt(np.mean((release.sketch[0] - exact) ** 2)) == pytest.approx(deviation, rel=0.9)  # 6 entries: 5 sd


@pytest.mark.parametrize("theta", [[], [[0.0, 1.0]], [0.0, math.nan], [math.inf], [2e6]])
def test_public_coefficients_are_checked(theta):
    with rejects("theta"):
        ResidualProducts(theta)


def test_sizes_are_checked():
    with rejects("columns", expected="2"):
        ResidualProducts([0.0, 0.0]).width(3)
    with rejects("fractional_bits", expected="at most 40"):
        ResidualProducts([0.0, 0.0]).sensitivity(2, FixedPoint(41))
