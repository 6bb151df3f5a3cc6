"""Sensitivities of contributions against the farthest pair of rows: never below it, and above by rounding alone."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmpc.data import Column
from dpmpc.linear.contributions.contribution import Rows, SecondMoments, WhitenedProducts
from dpmpc.linear.contributions.powers_and_items import ItemSketch, PowerSum
from dpmpc.linear.encoding.fixed_point import FixedPoint
from support.rejections import rejects

ENCODING = FixedPoint(16)
UNIT = 1 << 16


def opposite_items(sketch):
    """Rows of two items that share a place of the public matrix with opposite signs."""
    places, signs = sketch._table
    items = [np.flatnonzero((places == places[0]) & (signs == sign))[0] for sign in (1, -1)]
    return [[-1 + 2 * item / (sketch.items - 1)] for item in items]


ITEMS = ItemSketch(50, 3, 7)
#: For each contribution two rows that are as far apart as any, in the L2 norm, and the largest entry of one.
FARTHEST = {
    "box": (Rows(), [[1, 1, 1], [-1, -1, -1]], UNIT),
    "ball": (Rows(0.5), [[0.5, 0, 0], [-0.5, 0, 0]], UNIT / 2),
    "moments of one column": (SecondMoments(), [[1], [-1]], math.sqrt(2) * UNIT),
    "moments of three columns": (SecondMoments(), [[1, 1, 1], [1, -1, -1]], math.sqrt(2) * UNIT),
    "moments within a ball": (SecondMoments(1.0), [[1, 0, 0], [-1, 0, 0]], math.sqrt(2) * UNIT),
    "whitened": (WhitenedProducts(np.eye(3)), [[1, 0, 0], [0, 1, 0]], UNIT),
    "a triangle": (WhitenedProducts(np.eye(3), triangle=True), [[1, 0, 0], [0, 1, 0]], UNIT),
    "a number": (PowerSum(1), [[1], [-1]], UNIT),
    "squares": (PowerSum(2), [[1], [0]], UNIT),
    "cubes above zero": (PowerSum(3, zero=-1.0), [[1], [-1]], UNIT),
    "squares of a range around zero": (PowerSum(2, zero=-0.5), [[1], [-0.5]], UNIT),
    "squares of a range that begins above zero": (PowerSum(2, zero=-3.0), [[1], [-1]], UNIT),
    "items": (ITEMS, opposite_items(ITEMS), UNIT),
}


@pytest.mark.parametrize("name", FARTHEST)
def test_a_sensitivity_is_the_distance_of_the_farthest_rows(name):
    contribution, rows, _ = FARTHEST[name]
    first, second = contribution.encode(np.array(rows, np.float64), ENCODING).astype(object)
    apart = [abs(one - other) for one, other in zip(first, second, strict=True)]
    stated, width = contribution.sensitivity(len(rows[0]), ENCODING), len(apart)
    rounding = math.sqrt(width) + 2
    distance = math.sqrt(sum(entry**2 for entry in apart))
    assert distance <= stated.l2 <= distance + rounding
    assert sum(apart) <= stated.l1 <= math.sqrt(width) * stated.l2 + 1
    assert max(apart) <= stated.linf <= 2 * contribution.largest_entry(ENCODING)
    assert stated.columns == width


@pytest.mark.parametrize("name", FARTHEST)
def test_the_largest_entry_is_reached(name):
    contribution, rows, largest = FARTHEST[name]
    entries = contribution.encode(np.array(rows, np.float64), ENCODING)
    assert np.abs(entries).max() <= contribution.largest_entry(ENCODING) <= UNIT * math.sqrt(2) + 1
    assert np.abs(entries).max() == pytest.approx(largest, abs=1)


@given(st.sampled_from(sorted(FARTHEST)), st.integers(0, 2**32 - 1))
def test_no_two_rows_are_farther_apart(name, seed):
    contribution, rows, _ = FARTHEST[name]
    drawn = np.random.default_rng(seed).uniform(-1.2, 1.2, (40, len(rows[0])))
    encoded = contribution.encode(np.clip(drawn, -1, 1), ENCODING).astype(np.float64)
    apart = np.abs(encoded[:20] - encoded[20:])
    stated = contribution.sensitivity(len(rows[0]), ENCODING)
    assert np.linalg.norm(apart, axis=1).max() <= stated.l2
    assert apart.sum(axis=1).max() <= stated.l1
    assert apart.max() <= stated.linf
    assert np.abs(encoded).max() <= contribution.largest_entry(ENCODING)


def test_powers_that_are_all_encoded_alike_are_refused():
    with rejects(
        "order", given="32 given, but with 4 fractional bits all powers of numbers within the bounds are encoded alike"
    ):
        PowerSum(32, zero=1e9).sensitivity(1, FixedPoint(4))


def test_items_are_the_whole_numbers_within_the_bounds():
    sketch = ItemSketch.of(Column("age", 3, 12), 5, 1)
    assert sketch.items == 10
    everyone = np.linspace(-1, 1, 10)[:, None]
    places, signs = sketch._table
    assert np.array_equal(np.argmax(np.abs(sketch.encode(everyone, ENCODING)), axis=1), places)
    assert np.array_equal(np.sign(sketch.encode(everyone, ENCODING).sum(axis=1)), signs)
    with rejects("bounds of column 'age'", expected="the first and the last item"):
        ItemSketch.of(Column("age", 3, 12.5), 5, 1)


@pytest.mark.parametrize("matrix", [np.ones((2, 3)), np.ones(4), np.full((2, 2), np.nan), np.full((2, 2), 1e101)])
def test_whitening_takes_a_finite_square_matrix(matrix):
    with rejects("matrix"):
        WhitenedProducts(matrix)
