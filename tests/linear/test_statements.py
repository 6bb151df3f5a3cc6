"""What is proved of each contribution: encodings, sums in its units, and sensitivities by brute force."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpmpc.base.errors import OverflowRisk
from dpmpc.data import Column
from dpmpc.linear.contributions import Rows, SecondMoments, contribution_from
from dpmpc.linear.contributions.cells import CellCounts, CellGrid
from dpmpc.linear.contributions.contribution import Contribution, WhitenedProducts
from dpmpc.linear.contributions.powers_and_items import ItemSketch, PowerSum
from dpmpc.linear.encoding.fixed_point import FixedPoint, plan_modulus
from dpmpc.linear.proving import proved
from dpmpc.linear.proving.circuit import CellsCircuit
from dpmpc.linear.proving.contributions import with_proofs
from dpmpc.linear.proving.statements import ProvedWhitened, widened_ball
from support.proof_inputs import FIELD, SCHEMES, Exchange, points_of
from support.rejections import rejects

MATRIX = np.array([[0.7, -0.2, 0.1], [0.1, 0.9, 0.0], [0.0, 0.3, 1.1]])
GRIDS = (
    CellGrid("path", column=0, edges=tuple(np.linspace(-0.7, 0.7, 8)), missing=1, groups=((2, 1),)),
    CellGrid("root", column=1, edges=(-0.5, 0.0, 0.25, 0.6)),
    CellGrid("identity", groups=((2, 2),)),
)
CONTRIBUTIONS = {
    "rows": (Rows(), 4),
    "rows, ball": (Rows(radius=1.0), 4),
    "moments": (SecondMoments(), 4),
    "moments, ball": (SecondMoments(radius=1.2), 4),
    "whitened": (WhitenedProducts(MATRIX), 3),
    "whitened, triangle": (WhitenedProducts(MATRIX, triangle=True), 3),
    "a power": (PowerSum(3), 1),
    "an even power": (PowerSum(2), 1),
    "a power of one sign": (PowerSum(2, -1.0), 1),
    "items": (ItemSketch(50, 7, 3), 1),
    "cells": (CellCounts(GRIDS), 4),
}


def rows_of(count, columns, seed=0):
    """Rows inside the box, at its faces and at its corners."""
    rng = np.random.default_rng(seed)
    inside = rng.uniform(-1, 1, (count, columns))
    corners = rng.choice([-1.0, 1.0], (count, columns))
    return np.concatenate([inside, np.where(rng.random((count, columns)) < 0.5, inside, corners), corners])


@pytest.mark.parametrize("name", CONTRIBUTIONS)
@pytest.mark.parametrize("bits", [4, 9])
def test_proved_sums_are_those_of_the_contribution(name, bits):
    """In its own units, up to what rounding may move an entry; through shares and verdicts."""
    contribution, columns = CONTRIBUTIONS[name]
    statement = proved(contribution, columns, bits)
    rows = rows_of(8, columns)
    exchange = Exchange(statement.circuit, SCHEMES["additive 3"], statement.witness(statement.encode(rows)))
    assert exchange.verdicts().accepted.all()
    pairs = zip(exchange.servers, exchange.records, strict=True)
    shares = [statement.finished(statement.outputs(r, s.one)) for s, r in pairs]
    outputs = FIELD.lift(SCHEMES["additive 3"].combine(shares))
    assert np.array_equal(outputs, statement.contributed(rows))
    assert outputs.shape == (len(rows), statement.width)
    assert np.abs(outputs).max() <= statement.largest_entry
    if isinstance(statement, ProvedWhitened):
        contribution = WhitenedProducts(statement.matrix, triangle=contribution.triangle)
    fine = FixedPoint(30)
    exact = fine.decode(contribution.encode(rows, fine))
    rounding = {"whitened": 8.0, "whitened, triangle": 8.0}.get(name, 3.0) / statement.scale
    np.testing.assert_allclose(outputs * statement.units, exact, atol=rounding)


@pytest.mark.parametrize("name", CONTRIBUTIONS)
def test_no_two_points_of_the_proved_set_are_farther_apart(name):
    contribution, columns = CONTRIBUTIONS[name]
    statement = proved(contribution, columns, 5)
    points = points_of(statement.circuit, 60, seed=4)
    if not isinstance(statement.circuit, CellsCircuit):
        ends = np.array(list(itertools.product([statement.circuit.low, statement.circuit.high, 0], repeat=columns)))
        squared = np.einsum("ij,ij->i", *(statement.circuit.transformed(ends),) * 2)
        limit = statement.circuit.squared_radius
        points = np.concatenate([points, ends[squared <= (math.inf if limit is None else limit)]])
    outputs = FIELD.lift(statement.finished(statement.outputs(statement.witness(points), 1))).astype(float)
    found, bound = distances(outputs), statement.sensitivity()
    assert all(a <= b for a, b in zip(found, (bound.l1, bound.l2, bound.linf), strict=True))
    assert bound.columns == statement.width


def distances(vectors):
    differences = np.abs(vectors[:, None] - vectors[None])
    return differences.sum(2).max(), np.sqrt((differences**2).sum(2)).max(), differences.max()


@pytest.mark.parametrize(("bits", "columns"), [(1, 2), (2, 2), (1, 3)])
def test_the_sensitivity_of_moments_over_the_whole_proved_set(bits, columns):
    """Every point of it: the bound in L2 and Linf is nearly met, so that it does not hide a slip."""
    statement = proved(SecondMoments(), columns, bits)
    circuit = statement.circuit
    points = np.array(list(itertools.product(range(circuit.low, circuit.high + 1), repeat=columns)))
    outputs = FIELD.lift(statement.outputs(circuit.witness(points), 1)).astype(float)
    l1, l2, linf = distances(outputs)
    bound = statement.sensitivity()
    assert l1 <= bound.l1
    assert 0.7 * bound.l2 <= l2 <= bound.l2
    assert 0.7 * bound.linf <= linf <= bound.linf
    first, second = np.triu_indices(columns)
    z = points.astype(float)
    expected = [41 * statement.scale * z, np.where(first == second, 29, 41) * z[:, first] * z[:, second]]
    assert np.array_equal(outputs, np.concatenate(expected, axis=1))


def test_bounds_in_numbers():
    """2.4 by hand for d = 2: f = 3 has low = -8, f = 2 has low = -3."""
    odd, even = (proved(SecondMoments(), 2, bits).sensitivity() for bits in (3, 2))
    assert odd.l2 == pytest.approx(29 * math.sqrt(2) * (49 + 2 * 64), rel=1e-12)
    assert even.l2 == pytest.approx(29 * math.sqrt(2) * (9 + 2 * 9), rel=1e-12)
    assert (odd.linf, even.linf) == (82 * 64, 82 * 9)
    assert odd.l1 == pytest.approx(math.sqrt(5) * odd.l2, rel=1e-12)
    ball = proved(SecondMoments(radius=0.5), 10, 9)
    assert ball.circuit.squared_radius == math.floor((511 * 0.5 + math.sqrt(10) / 2) ** 2)
    assert ball.sensitivity().l2 == pytest.approx(29 * math.sqrt(2) * (511**2 + ball.circuit.squared_radius), rel=1e-12)
    rows = proved(Rows(), 4, 3).sensitivity()
    assert (rows.l1, rows.l2, rows.linf) == (60, 30, 15)
    in_ball = proved(Rows(radius=0.5), 4, 9)
    assert in_ball.sensitivity().l2 == pytest.approx(2 * math.sqrt(in_ball.circuit.squared_radius), rel=1e-12)
    assert Fraction(in_ball.sensitivity().l2) ** 2 >= 4 * in_ball.circuit.squared_radius
    power = proved(PowerSum(2), 1, 9).sensitivity()
    assert (power.l1, power.l2, power.linf) == (513, 513, 513)
    item = proved(ItemSketch(50, 7, 3), 1, 4).sensitivity()
    assert (item.l1, item.l2, item.linf) == (2, 2, 2)
    triangle, joint = (
        proved(WhitenedProducts(MATRIX, triangle=triangle), 3, 5).sensitivity() for triangle in (True, False)
    )
    assert joint.l2 == pytest.approx(29 * triangle.l2, rel=1e-12)


@pytest.mark.parametrize("columns", [1, 2, 5, 30])
@pytest.mark.parametrize("radius", [0.5, 1.0, 1.7])
def test_no_rounded_row_leaves_the_widened_ball(columns, radius):
    rng = np.random.default_rng(columns)
    for bits in (3, 9, 11):
        statement = proved(SecondMoments(radius=radius), columns, bits)
        rows = rng.normal(size=(300, columns))
        longest = np.maximum(np.linalg.norm(rows, axis=1), radius * np.abs(rows).max(axis=1))
        z = statement.encode(np.clip(rows * radius / longest[:, None], -1, 1))
        limit = widened_ball(statement.scale, radius, columns)
        assert (np.einsum("ij,ij->i", z, z) <= limit).all()
        statement.witness(z)
        assert limit >= math.floor((statement.scale * radius + math.sqrt(columns) / 2) ** 2)
        if columns == 30 and radius == 0.5:
            assert (np.einsum("ij,ij->i", z, z) > (statement.scale * radius) ** 2).any()


def test_a_ball_that_holds_the_box_is_not_proved():
    assert proved(SecondMoments(radius=9.0), 4, 5).circuit == proved(SecondMoments(), 4, 5).circuit


@pytest.mark.parametrize("seed", range(5))
def test_no_shrunk_row_leaves_the_whitened_ball(seed):
    rng = np.random.default_rng(seed)
    columns = int(rng.integers(1, 6))
    contribution = WhitenedProducts(rng.normal(size=(columns, columns)) * 10.0 ** rng.integers(-1, 2))
    statement = proved(contribution, columns, 7)
    z = statement.encode(rows_of(200, columns, seed))
    w = statement.circuit.transformed(z)
    assert (np.einsum("ij,ij->i", w, w) <= statement.circuit.squared_radius).all()
    statement.witness(z)


def test_both_ends_of_the_box_are_exact():
    for bits in (1, 8, 9):
        statement = proved(Rows(), 1, bits)
        assert (statement.encode(np.array([[-1.0], [1.0], [0.0]]))[:, 0] * statement.units).tolist() == [-1.0, 1.0, 0.0]


def test_the_sums_must_not_wrap_around():
    """Without noise 6.7e9 clients at f = 11 and 6.5e6 at f = 16, and not one more."""
    for bits, most in ((9, 1.07e11), (11, 6.7e9), (12, 1.68e9), (16, 6.5e6)):
        statement = proved(SecondMoments(), 10, bits)
        fits = ((1 << 60) - 1) // statement.largest_entry
        plan_modulus(FIELD, fits, statement.largest_entry, lambda odds: 0.0, 65)
        with pytest.raises(OverflowRisk, match="62 bits needed, 61 available"):
            plan_modulus(FIELD, fits + 1, statement.largest_entry, lambda odds: 0.0, 65)
        with pytest.raises(OverflowRisk):
            plan_modulus(FIELD, fits, statement.largest_entry, lambda odds: 1e12, 65)
        assert fits == pytest.approx(most, rel=0.01)
    with rejects("range", OverflowRisk):
        proved(WhitenedProducts(np.eye(2) * 1000), 2, 20)


def test_what_cannot_be_proved_is_refused():
    class Other(Contribution):
        name = "other"

        def width(self, columns):
            return columns

        encode = sensitivity = largest_entry = parameters = None

    with rejects("contribution", given="'other'"):
        proved(Other(), 2, 5)
    for bits in (0, 29, 1.5):
        with rejects("fractional_bits", expected="a whole number from 1 to 28"):
            proved(Rows(), 2, bits)
    with rejects("matrix", given="largest entry 0.001"):
        proved(WhitenedProducts(np.eye(2) / 1000), 2, 5)
    with rejects("rows", given="row 1 is not finite, numbers expected"):
        proved(Rows(), 2, 5).encode(np.array([[0.0, 1.0], [np.nan, 1.0]]))


def test_a_column_gives_its_power_and_its_items():
    power = PowerSum.of(Column("x", 0.0, 8.0), 2)
    assert power.limits == (0.0, 1.0)
    statement = proved(power, 1, 9)
    assert statement.encode(np.array([[-1.0], [1.0]])).tolist() == [[0], [511]]
    assert (statement.circuit.low, statement.circuit.high) == (-2, 511)


ONE_COLUMN = [PowerSum(2), PowerSum(3), PowerSum(3, -1.0), PowerSum(4, 0.5), ItemSketch(40, 16, 3)]


@pytest.mark.parametrize("plain", ONE_COLUMN, ids=lambda plain: f"{plain.name}-{plain.parameters()}"[:40])
def test_contributions_of_one_column_are_proved_in_runs(plain):
    """What is added up is the plain contribution but for rounding, and is described so that it can be made again."""
    proved_one = with_proofs(plain)
    assert contribution_from(proved_one.describe()) == proved_one
    assert proved_one.plain == plain
    encoding = FixedPoint(9, FIELD)
    rows = np.linspace(-1, 1, 40)[:, None]
    encoded = proved_one.encode(rows, encoding) * proved_one.units(1, encoding)
    wanted = plain.encode(rows, FixedPoint(24, FIELD)) / 2**24
    np.testing.assert_allclose(encoded, wanted, atol=2**-9)
    differences = np.abs(proved_one.encode(rows, encoding)[:, None] - proved_one.encode(rows, encoding)[None])
    assert differences.sum(axis=2).max() <= proved_one.sensitivity(1, encoding).l1
    assert np.abs(proved_one.encode(rows, encoding)).max() <= proved_one.largest_entry(encoding)
