"""Proven bounds against exact rationals: none is on the wrong side or far away, and a bad guess proves nothing."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpmpc.base.errors import GuaranteeError
from dpmpc.linear.sketching import OSNAP, CountSketch
from dpmpc.linear.sketching.sparse import Sum
from dpmpc.privacy import exposure, one_copy
from dpmpc.privacy.exposure import IndependentRowNoise
from dpmpc.privacy.one_copy import OneCopyNoise
from dpmpc.privacy.specification import TrustModel
from support.rejections import rejects

RATIONALS = st.fractions(min_value=0, max_value=10**30, max_denominator=10**20)
SHAPES = st.tuples(st.integers(2, 6), st.integers(2, 30), st.integers(0, 1000))


def exactly(matrix):
    return [[Fraction(float(entry)) for entry in row] for row in matrix]


def inverse(matrix):
    """Gauss and Jordan in rationals; None where a pivot of this symmetric matrix is not positive."""
    k = len(matrix)
    rows = [list(row) + [Fraction(int(i == j)) for j in range(k)] for i, row in enumerate(exactly(matrix))]
    for i in range(k):
        if rows[i][i] <= 0:
            return None
        rows[i] = [entry / rows[i][i] for entry in rows[i]]
        for j in range(k):
            if j != i and rows[j][i]:
                factor = rows[j][i]
                rows[j] = [b - factor * a for a, b in zip(rows[i], rows[j], strict=True)]
    return [row[k:] for row in rows]


def sketch_of(shape):
    rows, columns, seed = shape
    return OSNAP(rows, columns, 2, seed)


@given(RATIONALS)
def test_floats_beside_a_rational(value):
    over, under = exposure.above(value), one_copy.below(value)
    assert Fraction(under) <= value <= Fraction(over)
    assert over == under or math.nextafter(under, math.inf) == over
    root = exposure.square_root_above(value)
    assert Fraction(root) ** 2 >= value
    assert root == 0 or Fraction(math.nextafter(math.nextafter(root, 0), 0)) ** 2 < value


@given(st.lists(st.floats(0, 1e10), min_size=1, max_size=50))
def test_sums_are_not_below(values):
    exact = sum(Fraction(value) for value in values)
    assert Fraction(one_copy.sum_above(values)) >= exact
    assert Fraction(exposure.sum_of_rounded_above(float(np.sum(values)), len(values))) >= exact


@settings(max_examples=60)
@given(SHAPES)
def test_an_inverse_is_as_near_as_it_is_proven_to_be(shape):
    G = sketch_of(shape).overlaps()
    R, error = one_copy.inverse_within(G)
    exact = inverse(G)
    assert np.array_equal(R, R.T)
    furthest = max(
        sum(abs(a - b) for a, b in zip(guess, row, strict=True)) for guess, row in zip(exactly(R), exact, strict=True)
    )
    assert furthest <= Fraction(error)
    assert error < 1e-12


@settings(max_examples=60)
@given(SHAPES, st.sampled_from([0.0, 1e-15, 1e-13, 1e-9, 0.01, 1.0]))
def test_an_eigenvalue_is_proven_whatever_the_guess(shape, off):
    """G - b I has positive pivots in exact arithmetic, for b just below what is proven, also with too large a guess."""
    G = sketch_of(shape).overlaps()
    guess = float(np.linalg.eigvalsh(G)[0])
    proven = one_copy.smallest_eigenvalue_below(G, guess * (1 + off))
    if off <= 1e-13:
        assert proven >= guess * (1 - 1e-10)
    if proven > 0:
        lowered = G.astype(object)
        for row in range(len(G)):
            lowered[row, row] = Fraction(float(G[row, row])) - Fraction(proven) * (1 - Fraction(1, 10**18))
        assert inverse_exists(lowered)


def inverse_exists(matrix):
    """Whether all pivots of elimination in rationals are positive."""
    rows = [[Fraction(entry) for entry in row] for row in matrix]
    for i in range(len(rows)):
        if rows[i][i] <= 0:
            return False
        for j in range(i + 1, len(rows)):
            factor = rows[j][i] / rows[i][i]
            rows[j] = [b - factor * a for a, b in zip(rows[i], rows[j], strict=True)]
    return True


@settings(max_examples=40)
@given(SHAPES)
def test_the_leverage_of_one_copy_is_not_below_the_exact_one(shape):
    S = sketch_of(shape)
    columns, exact = S.to_csc().toarray(), inverse(S.overlaps())
    forms = [sum(int(s[a]) * int(s[b]) * exact[a][b] for a in range(S.rows) for b in range(S.rows)) for s in columns.T]
    measured = OneCopyNoise.of(S, TrustModel())
    assert max(forms) <= Fraction(measured.leverage) <= max(forms) * (1 + Fraction(1, 10**9))


def test_leverages_of_rows_and_servers_are_not_below_the_exact_ones():
    S = OSNAP(7, 100, 3, 5)
    unknown = [int(count) - 4 for count in S.occupancy()]
    hit = [rows.tolist() for rows in S.entries(0, S.columns)[0]]
    measured = IndependentRowNoise.of_clients(S, TrustModel(corrupt_clients=3, dropouts=1))
    for power, found in ((1, measured.leverage), (2, measured.leverage_of_squares)):
        exact = max(sum(Fraction(1, unknown[row] ** power) for row in rows) for rows in hit)
        assert exact <= Fraction(found) <= exact * (1 + Fraction(1, 10**14))
    served = IndependentRowNoise.of_servers(S, TrustModel(servers=5, corrupt_servers=2))
    assert (Fraction(served.leverage), served.leverage) >= (1, 1.0)
    third = IndependentRowNoise.of_servers(CountSketch(5, 10, 1), TrustModel(servers=5, corrupt_servers=2))
    assert Fraction(third.leverage) > Fraction(1, 3)
    assert Fraction(third.leverage_of_squares) > Fraction(1, 9)
    assert IndependentRowNoise.of_clients(Sum(8), TrustModel()).leverage == pytest.approx(1 / 8, rel=1e-14)


def test_what_cannot_be_proven_is_refused():
    k = 12
    ill = np.array([[float(math.comb(a + b, a)) for a in range(k)] for b in range(k)])  # Pascal's matrix
    scaled = ill @ ill
    with pytest.raises(GuaranteeError, match=r"rows: a matrix of 12 rows given, whose inverse is known within .* only"):
        one_copy.inverse_within(scaled)
    assert one_copy.smallest_eigenvalue_below(scaled, 1e-9) == 0.0
    for wrong in (np.eye(2) / 3, np.eye(2) * 2.0**53):
        with rejects("rows", GuaranteeError, expected="integers below 2^53"):
            one_copy.inverse_within(wrong)
        with rejects("rows", GuaranteeError, expected="integers below 2^53"):
            one_copy.smallest_eigenvalue_below(wrong, 1.0)
