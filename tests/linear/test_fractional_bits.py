"""Contributions of real numbers refuse units that are as small as the errors of floats."""

import math

import numpy as np
import pytest

from dpmpc.linear.contributions import SecondMoments
from dpmpc.linear.contributions.contribution import WeightedMoments, WhitenedProducts
from dpmpc.linear.contributions.grouped_moments import GroupedMoments
from dpmpc.linear.encoding.fixed_point import FixedPoint
from support.rejections import rejects

PRODUCTS = [SecondMoments(), SecondMoments(1.2), WeightedMoments(), GroupedMoments(0, 1), WhitenedProducts(np.eye(3))]


@pytest.mark.parametrize("contribution", PRODUCTS, ids=lambda one: f"{one.name}, {one.radius}")
def test_products_take_up_to_43_fractional_bits(contribution):
    assert contribution.sensitivity(3, FixedPoint(43)).l2 > 2.0**43
    with rejects("fractional_bits", expected="at most 43"):
        contribution.sensitivity(3, FixedPoint(44))


def test_floats_leave_room_in_what_rounding_may_add():
    """Rows that attain the bound before rounding, moved by some last digits: their integers stay within it."""
    generator, encoding = np.random.default_rng(1), FixedPoint(43)
    for columns, radius in ((2, 1.2), (3, 1.4), (4, 1.7)):
        contribution = SecondMoments(radius)
        limit = contribution.sensitivity(columns, encoding).l2
        for _ in range(20):
            first, other = np.linalg.qr(generator.standard_normal((columns, 2)))[0].T
            second = -first / radius**2 + math.sqrt(1 - radius**-4) * other
            pair = radius * np.array([first, second])
            if np.abs(pair).max() > 1:
                continue
            moved = pair[:, None] * (1 + generator.integers(-4, 5, (2, 200, columns)) * 2.0**-52)
            one, two = (contribution.encode(np.clip(rows, -1, 1), encoding).astype(object) for rows in moved)
            assert max(sum(int(x) ** 2 for x in row) for row in one - two) <= (limit - 1) ** 2
