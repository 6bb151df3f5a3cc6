"""Weighted second moments and one-hot blocks: sensitivity by brute force, what is encoded, and how it is read."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmpc.data import Codebook, Column, Schema
from dpmpc.data.codebook import Weight
from dpmpc.data.variables import Variable
from dpmpc.linear.contributions import SecondMoments, contribution_from
from dpmpc.linear.contributions.contribution import WeightedMoments
from dpmpc.linear.encoding.fixed_point import FixedPoint
from dpmpc.privacy import analytic_gaussian_sigma
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning import design
from support.rejections import rejects

BITS = 12
ENCODING = FixedPoint(BITS)


def largest_distance(contribution, rows):
    """Return the largest L2 distance between the encoded contributions of two rows, in units of 2^-f."""
    encoded = contribution.encode(np.array(rows, np.float64), ENCODING).astype(np.float64)
    squares = np.sum(encoded**2, axis=1)
    distances = squares[:, None] + squares[None, :] - 2 * encoded @ encoded.T
    return math.sqrt(float(distances.max())) / 2**BITS


def rows_of(book):
    """Return every row of a codebook of numbers and categories, numbers at -1, 0 and 1; normalised, weights last."""
    choices = []
    for variable in book.variables:
        width = len(variable.term.columns)
        if variable.kind == "category" and width > 1:
            choices.append([np.zeros(width), *np.eye(width)])
        else:
            choices.append([np.array([value]) for value in (-1.0, 0.0, 1.0)])
    if book.weighted:
        choices.append([np.array([value]) for value in (-1.0, 0.0, 1.0)])
    return [np.concatenate(parts) for parts in itertools.product(*choices)]


def category(name, count):
    return Variable(name, values=tuple("abcdef"[: count + 1]))


BOOKS = {
    "a number": (Variable("x", 0, 1),),
    "two numbers": tuple(Variable(n, 0, 1) for n in "xy"),
    "a category": (category("g", 3),),
    "a number and a category": (Variable("x", 0, 1), category("g", 2)),
    "a number and two categories": (Variable("x", 0, 1), category("g", 3), category("h", 2)),
    "three numbers and a category": (*(Variable(n, 0, 1) for n in "xyu"), category("g", 3)),
    "two numbers and a category": (*(Variable(n, 0, 1) for n in "xy"), category("g", 3)),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", BOOKS)
def test_sensitivity_by_brute_force(name, weighted):
    """All pairs of rows at the corners: never above the bound, and at it but for an even number of numbers alone."""
    variables = BOOKS[name]
    book = Codebook(variables, incomplete="zeros" if weighted else "refuse")
    contribution = (WeightedMoments if weighted else SecondMoments)(book.radius)
    rows = rows_of(book)
    found = largest_distance(contribution, rows)
    claimed = contribution.sensitivity(len(book.columns), ENCODING).l2 / 2**BITS
    terms = len(book.variables)  # there are no products
    bound = math.sqrt(2) * (1 + terms)
    rounding = math.sqrt(contribution.width(len(book.columns))) + 2
    assert found <= claimed <= bound + rounding / 2**BITS
    numbers = sum(variable.kind == "number" for variable in variables)
    if numbers and (numbers % 2 or numbers < terms):  # rows with (1, z) . (1, z') = 0 are at hand
        assert found == pytest.approx(bound, abs=rounding / 2**BITS)
    else:  # the least is 1
        assert found == pytest.approx(math.sqrt(2 * ((1 + terms) ** 2 - 1)), abs=rounding / 2**BITS)


def test_a_block_costs_one_and_the_box_would_cost_all():
    book = Codebook((Variable("x", 0, 1), category("g", 5)))
    box = SecondMoments().sensitivity(6, ENCODING).l2
    block = SecondMoments(book.radius).sensitivity(6, ENCODING).l2
    assert block / box == pytest.approx(3 / 7, rel=1e-2)


def test_a_design_uses_the_block_and_no_more_than_the_radius_asked_for():
    public = Schema.of_codebook(Codebook((Variable("x", 0, 1), category("g", 5))))
    plain = Schema(public.columns)

    def sigma(schema, **choices):
        task = design(ReleaseSpec.of(schema, 1000, 1.0, 1e-6, noise_by="servers", **choices))
        return math.sqrt(task.noise.variance) * task.unit, task

    with_block, task = sigma(public)
    assert task.statistic.describe() == {"name": "second-moments", "radius": math.sqrt(2)}
    assert with_block == pytest.approx(analytic_gaussian_sigma(1.0, 1e-6) * math.sqrt(2) * 3, rel=0.01)
    assert sigma(plain)[0] / with_block == pytest.approx(7 / 3, rel=0.01)
    assert sigma(public, radius=1.0)[1].statistic.radius == 1.0
    assert sigma(public, radius=2.0)[1].statistic.radius == math.sqrt(2)
    assert sigma(public, sketch="countsketch", rows=100)[1].statistic.radius == math.sqrt(2)


normalised = st.lists(st.floats(-1, 1), min_size=4, max_size=4)


@given(normalised, normalised, st.sampled_from([None, 0.7, math.sqrt(2)]))
def test_no_two_rows_are_farther_apart_than_claimed(one, other, radius):
    """Also rows that no table has: the bound holds for whatever a client encodes."""
    contribution = WeightedMoments(radius)
    distance = largest_distance(contribution, [one, other])
    assert distance <= contribution.sensitivity(4, ENCODING).l2 / 2**BITS


def test_what_weighs_nothing_is_zero():
    rows = np.random.default_rng(0).uniform(-1, 1, (50, 4))
    rows[:, -1] = -1.0
    assert not WeightedMoments().encode(rows, ENCODING).any()


def test_rows_that_count_in_full_are_encoded_as_second_moments():
    rows = np.random.default_rng(0).uniform(-1, 1, (50, 3))
    whole = WeightedMoments(1.2).encode(np.column_stack([rows, np.ones(50)]), ENCODING)
    assert np.array_equal(whole[:, 1:], SecondMoments(1.2).encode(rows, ENCODING))
    assert (whole[:, 0] == 2**BITS).all()


def test_gram():
    rng = np.random.default_rng(0)
    rows, weights = rng.uniform(-1, 1, (200, 3)), rng.uniform(0, 1, 200)
    contribution = WeightedMoments()
    encoded = contribution.encode(np.column_stack([rows, 2 * weights - 1]), ENCODING)
    extended = np.column_stack([np.ones(200), rows])
    expected = extended.T @ (extended * weights[:, None])
    assert np.allclose(
        contribution.gram(encoded.sum(axis=0, keepdims=True) / 2**BITS, np.ones(1), 200), expected, atol=0.05
    )
    assert contribution.gram(np.full((1, 10), -5.0), np.ones(1), 200)[0, 0] == 1.0  # the noise may make it negative


def test_it_is_described_and_made_again():
    again = contribution_from(WeightedMoments(2.0).describe())
    assert again == WeightedMoments(2.0)
    public = Schema.of_codebook(Codebook((Variable("x", 0, 1),), weight=Weight("w", 3)))
    assert again.analysed(public) == Schema((Column("x", 0, 1),))
    assert again.width(4) == 10


@pytest.mark.parametrize(
    ("choices", "rejection"),
    [
        ({"sketch": "osnap"}, {"argument": "sketch", "given": "'osnap'", "expected": "'auto' or 'sum'"}),
        ({"rows": 5}, {"argument": "rows, sparsity", "given": "5, None"}),
        ({"contribution": SecondMoments()}, {"argument": "bounds", "given": "with weights or rows of zeros"}),
        (
            {"proved": True, "noise_by": "servers"},
            {
                "argument": "proved",
                "given": "true given with weighted-second-moments, rows, second moments, a power, cells or "
                "items expected",
            },
        ),
    ],
)
def test_what_weights_cannot_be_combined_with(choices, rejection):
    public = Schema.of_codebook(Codebook((Variable("x", 0, 1),), weight=Weight("w", 3)))
    with rejects(**rejection):
        design(ReleaseSpec.of(public, 1000, 1.0, 1e-6, **choices))
