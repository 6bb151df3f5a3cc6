"""Fixed point, its sensitivity, and the modulus planner."""

import functools
import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from dpmpc._kernels import dispatch
from dpmpc.base.errors import InputError, OverflowRisk
from dpmpc.data import Column, Schema
from dpmpc.linear.contributions import SecondMoments
from dpmpc.linear.encoding import Sensitivity
from dpmpc.linear.encoding.fixed_point import FixedPoint, ModulusPlan, plan_modulus
from dpmpc.linear.encoding.ring import Mersenne61, Ring64
from dpmpc.linear.noise import DiscreteGaussian, DiscreteLaplace
from dpmpc.linear.noise.floating import GammaLaplace, Gaussian
from dpmpc.linear.noise.integer import Skellam
from references import sharing as reference
from support.matrix_inputs import each_instruction_set
from support.rejections import rejects

VECTORS = json.loads((reference.VECTORS / "encoding.json").read_text())
instruction_set = each_instruction_set(dispatch)
FINITE = st.floats(allow_nan=False, allow_infinity=False)


def test_vectors_are_the_reference():
    assert json.loads(json.dumps(reference.encoding_vectors())) == VECTORS


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("case", VECTORS["box"])
def test_box_vectors(case):
    encoding = FixedPoint(case["fractional_bits"])
    z = [float.fromhex(v) for v in case["z"]]
    q = encoding.encode(z, float.fromhex(case["lower"]), float.fromhex(case["upper"]))
    assert q.dtype == np.int64
    assert q.tolist() == case["q"]


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("case", VECTORS["ball"])
def test_ball_vectors(case):
    z = [float.fromhex(v) for v in case["z"]]
    assert FixedPoint(case["fractional_bits"]).encode_ball(z, float.fromhex(case["radius"])).tolist() == case["q"]


@pytest.mark.parametrize("case", VECTORS["refused"], ids=lambda case: case["message"])
def test_refused_vectors(case):
    z = [float(v) for v in case["z"]]
    with pytest.raises(InputError) as caught:
        FixedPoint(16).encode(z, float(case["lower"]), float(case["upper"]))
    assert case["message"] in str(caught.value)


@given(
    z=st.lists(FINITE, min_size=1, max_size=9),
    bits=st.integers(0, 50),
    low=st.floats(-2, -0.6),
    high=st.floats(0.6, 2),
)
def test_box_equals_exact_fractions(z, bits, low, high):
    expected = [reference.encode_box(v, bits, low, high) for v in z]
    assert FixedPoint(bits).encode(z, low, high).tolist() == expected


@given(k=st.integers(-(1 << 20), 1 << 20), bits=st.integers(0, 30))
def test_halves_are_rounded_to_even(k, bits):
    q = FixedPoint(bits).encode([(k + 0.5) * 2.0**-bits], -(2.0**21), 2.0**21)
    assert q.tolist() == [round(k + 0.5)]


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("columns", [1, 2, 3, 11, 300])
@pytest.mark.parametrize("rows", [0, 1, 2, 97])
def test_bounds_of_each_column(rows, columns):
    rng = np.random.default_rng(rows * 1000 + columns)
    z, lower, upper = rng.normal(size=(rows, columns)), rng.uniform(-1, -0.5, columns), rng.uniform(0.5, 1, columns)
    q = FixedPoint(16).encode(z, lower, upper)
    expected = np.clip(np.rint(z * 65536), np.rint(lower * 65536), np.rint(upper * 65536))
    assert q.shape == z.shape
    assert (q == expected).all()
    assert (FixedPoint(16).encode(z, -1.0, upper) == FixedPoint(16).encode(z, np.full(columns, -1.0), upper)).all()


def test_shapes_and_dtypes():
    encoding = FixedPoint(8)
    assert encoding.encode(0.5).tolist() == 128
    assert encoding.encode(np.zeros((2, 3, 4))).shape == (2, 3, 4)
    assert encoding.encode(np.zeros((3, 0))).shape == (3, 0)
    assert encoding.encode_ball(np.zeros((3, 0)), 1.0).shape == (3, 0)
    assert encoding.encode_ball(np.zeros((0, 3)), 1.0).shape == (0, 3)
    assert encoding.encode_ball(np.full((2, 3, 4), 9.0), 1.0).tolist() == np.full((2, 3, 4), 128).tolist()
    assert encoding.encode(np.array([1, -1])).tolist() == [256, -256]
    assert encoding.encode(np.float32([0.25])).tolist() == [64]
    table = np.arange(12.0).reshape(3, 4) / 12
    assert (encoding.encode(table.T) == encoding.encode(table).T).all()


@given(z=hnp.arrays(float, st.integers(1, 300), elements=st.floats(-1, 1)), bits=st.integers(0, 50))
def test_decode_inverts_encode_up_to_half_a_unit(z, bits):
    encoding = FixedPoint(bits)
    decoded = encoding.decode(encoding.encode(z))
    assert decoded.dtype == np.float64
    assert np.all(np.abs(decoded - z) <= 2.0 ** -(bits + 1))


def exact_square(q):
    return sum(v * v for v in q.tolist())


@given(
    z=hnp.arrays(float, st.integers(1, 12), elements=FINITE),
    bits=st.integers(0, 50),
    radius=st.floats(1.0, 2.0),
)
def test_ball_is_never_left(z, bits, radius):
    q = FixedPoint(bits).encode_ball(z, radius)
    assert exact_square(q) <= math.floor(radius * 2.0**bits) ** 2 <= (Fraction(radius) * 2**bits) ** 2


@given(z=hnp.arrays(float, st.integers(1, 6), elements=st.floats(-100, 100)), bits=st.integers(0, 20))
def test_ball_is_within_a_unit_of_exact_truncation(z, bits):
    q = FixedPoint(bits).encode_ball(z, 1.5)
    exact = np.array(reference.encode_ball(z.tolist(), bits, 1.5))
    assert np.abs(q - exact).max() <= 1


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("bits", [30, 40, 50])
def test_ball_is_not_left_where_floating_point_errs(bits):
    # ||(C_f, 1)||^2 = C_f^2 + 1 rounds to C_f^2 in floats: without the integer check q = (C_f, 1) would pass.
    radius = 1 << bits
    for z in ([1.0, 2.0**-bits], [-1.0, 2.0**-bits], [2.0**-bits, 1.0, -(2.0**-bits)]):
        q = FixedPoint(bits).encode_ball(z, 1.0)
        assert radius**2 - 2 * radius - 1 <= exact_square(q) <= radius**2


def test_ball_keeps_the_direction_of_the_largest_floats():
    assert FixedPoint(16).encode_ball([1.5e308, -1.5e308], 1.0).tolist() == [46340, -46340]


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("at", [(0, 0), (3, 2), (99, 4)])
def test_a_value_that_is_not_finite_is_named(value, at):
    z = np.full((100, 5), 0.9)
    z[at] = value
    for call in (FixedPoint().encode, lambda z: FixedPoint().encode_ball(z, 1.0)):
        with pytest.raises(InputError) as caught:
            call(z)
        assert f"z: {value} at index {at}, a finite number expected" in str(caught.value)


@pytest.mark.parametrize(
    ("rejection", "call"),
    [
        ({"argument": "fractional_bits", "given": "-1"}, lambda: FixedPoint(-1)),
        ({"argument": "fractional_bits", "given": "51"}, lambda: FixedPoint(51)),
        ({"argument": "fractional_bits", "given": "16.0"}, lambda: FixedPoint(16.0)),
        ({"argument": "ring", "given": "'ring8'"}, lambda: FixedPoint(16, ring="ring8")),
        ({"argument": "z", "given": "complex128"}, lambda: FixedPoint().encode(np.zeros(2, complex))),
        ({"argument": "z", "given": "<U1"}, lambda: FixedPoint().encode(["1"])),
        ({"argument": "z", "given": "a number"}, lambda: FixedPoint().encode_ball(1.0, 1.0)),
        (
            {"argument": "upper", "given": "shape (3,)"},
            lambda: FixedPoint().encode(np.zeros((2, 2)), -1.0, [1.0, 1.0, 1.0]),
        ),
        ({"argument": "lower", "given": "shape (1, 2)"}, lambda: FixedPoint().encode(np.zeros((2, 2)), [[-1.0, -1.0]])),
        (
            {"argument": "lower, upper", "expected": "lower < upper"},
            lambda: FixedPoint().encode(np.zeros((2, 2)), [-1.0, 1.0], [1.0, 1.0]),
        ),
        ({"argument": "radius", "given": "0"}, lambda: FixedPoint().encode_ball([1.0], 0)),
        ({"argument": "radius", "given": "nan"}, lambda: FixedPoint().encode_ball([1.0], math.nan)),
        ({"argument": "radius", "given": "inf"}, lambda: FixedPoint().encode_ball([1.0], math.inf)),
        ({"argument": "radius", "given": "'1'"}, lambda: FixedPoint().encode_ball([1.0], "1")),
        ({"argument": "q", "given": "float64"}, lambda: FixedPoint().decode(np.zeros(2))),
        ({"argument": "q", "given": "uint64"}, lambda: FixedPoint().decode(np.zeros(2, np.uint64))),
        ({"argument": "columns", "given": "0"}, lambda: FixedPoint().sensitivity(0)),
        ({"argument": "eta", "given": "shape (2,)"}, lambda: FixedPoint().sensitivity(3, eta=[1.0, 1.0])),
        ({"argument": "eta", "given": "1e-09"}, lambda: FixedPoint().sensitivity(3, eta=1e-9)),
        ({"argument": "eta", "given": "-1.0"}, lambda: FixedPoint().sensitivity(3, eta=-1.0)),
        ({"argument": "eta", "given": "nan"}, lambda: FixedPoint().sensitivity(3, eta=math.nan)),
        ({"argument": "radius", "given": "[1.0]"}, lambda: FixedPoint().sensitivity(3, eta=[1.0], clip="ball")),
        ({"argument": "clip", "given": "'cube'"}, lambda: FixedPoint().sensitivity(3, clip="cube")),
        (
            {"argument": "neighbouring", "given": "'add-one'"},
            lambda: FixedPoint().sensitivity(3, neighbouring="add-one"),
        ),
    ],
)
def test_bad_input_is_named(rejection, call):
    with rejects(**rejection):
        call()


def test_equal_encodings():
    assert FixedPoint() == FixedPoint(16, ring=Ring64) != FixedPoint(16, ring="mersenne61")
    assert len({FixedPoint(8), FixedPoint(8), FixedPoint(9)}) == 2
    assert FixedPoint(8) != 8
    assert repr(FixedPoint(8, Mersenne61)) == "FixedPoint(fractional_bits=8, ring=Mersenne61())"


def largest_moves(points):
    differences = [np.subtract(a, b) for a, b in itertools.product(points, repeat=2)]
    norms = (lambda d: abs(d).sum(), np.linalg.norm, lambda d: abs(d).max())
    return tuple(max(norm(d) for d in differences) for norm in norms)


@pytest.mark.parametrize("eta", [1.0, [0.3, 0.9], [0.7, 0.1]])
def test_box_sensitivity_is_attained_and_never_exceeded(eta):
    encoding = FixedPoint(4)
    corners = [-np.ones(2) * 9, np.ones(2) * 9, np.array([9.0, -9.0]), np.array([0.26, -0.9])]
    points = [encoding.encode(z, -np.array(eta), eta) for z in corners]
    moved = encoding.sensitivity(2, eta)
    assert largest_moves(points) == pytest.approx((moved.l1, moved.l2, moved.linf), rel=1e-15)
    zero_out = encoding.sensitivity(2, eta, neighbouring="zero-out").l2
    assert max(np.linalg.norm(q) for q in points) == pytest.approx(zero_out)


@pytest.mark.parametrize("radius", [1.0, 1.3, 1.49])
@pytest.mark.parametrize("columns", [1, 2, 3])
def test_ball_sensitivity_covers_every_integer_point(columns, radius):
    encoding = FixedPoint(2)
    grid = itertools.product(range(-6, 7), repeat=columns)
    points = {tuple(encoding.encode_ball(np.array(g) / 4, radius).tolist()) for g in grid}
    l1, l2, linf = largest_moves(points)
    moved = encoding.sensitivity(columns, radius, clip="ball")
    assert l1 <= moved.l1 <= math.sqrt(columns) * moved.l2
    assert l2 == moved.l2 == moved.linf == linf


def test_sensitivity_of_the_specification():
    moved = FixedPoint(16).sensitivity(11)
    assert (moved.l1, moved.linf) == (2 * 11 * 65536, 2 * 65536)
    assert moved.l2 == pytest.approx(2 * math.sqrt(11) * 65536, rel=1e-15)
    assert moved == Sensitivity(moved.l1, moved.l2, moved.linf, columns=11, neighbouring="replace-one")


@given(columns=st.integers(1, 50), eta=st.floats(0.1, 3.0), bits=st.integers(8, 40))
def test_l2_is_rounded_up(columns, eta, bits):
    moved = FixedPoint(bits).sensitivity(columns, eta)
    square = columns * (2 * round(Fraction(eta) * 2**bits)) ** 2
    assert square <= Fraction(moved.l2) ** 2 <= square * (1 + Fraction(1, 10**14))


def plan(ring="ring64", occupancy_max=4000, eta_int=65536, noise=None, draws=1, cells=1100, **more):
    tail = functools.partial((noise or Gaussian(3.67e6)).tail, draws)
    return plan_modulus(ring, occupancy_max, eta_int, tail, cells, **more)


def test_plan_of_the_specification():
    """Section 2: n=1e5, k=100, s=4, p=11, f=16, beta=2^-40, (1, 1e-6) need 30 bits."""
    occupancy = 100_000 * 4 // 100
    sigma_client = 2 * math.sqrt(11) * 2**16 / 0.236704 * math.sqrt(4 / occupancy)
    made = plan(occupancy_max=occupancy, noise=Gaussian(sigma_client), draws=occupancy)
    tail = sigma_client * math.sqrt(occupancy) * math.sqrt(2 * math.log(2 * 1100 * 2**40))
    assert made == ModulusPlan(30, 64, occupancy * 65536, pytest.approx(tail), 2.0**-40)


@pytest.mark.parametrize(("ring", "bits"), [("ring64", 64), ("mersenne61", 61)])
def test_plan_at_the_edge(ring, bits):
    # Largest sum in absolute value that has a centred representative in both rings: 2^(bits - 1) - 1.
    fits = plan_modulus(ring, 1, (1 << (bits - 1)) - 1, lambda log_odds: 0.0, 1100)
    assert fits.bits_needed == fits.bits_available == bits
    with pytest.raises(OverflowRisk) as caught:
        plan_modulus(ring, 1, 1 << (bits - 1), lambda log_odds: 0.0, 1100)
    assert f"{bits + 1} bits needed, {bits} available" in str(caught.value)
    assert f"1 contributions of at most {1 << (bits - 1)}" in str(caught.value)
    with pytest.raises(OverflowRisk):
        plan_modulus(ring, 1, (1 << (bits - 1)) - 1, lambda log_odds: 0.1, 1100)


@pytest.mark.parametrize("sd", [1.0, 10.0, 3e4])
@pytest.mark.parametrize("failure", [1e-2, 1e-9])
@pytest.mark.parametrize("cells", [1, 1100])
def test_tails_are_bounds_and_not_far_from_the_truth(sd, failure, cells):
    noise = Skellam(sd**2)
    sd = math.sqrt(noise.variance)
    gaussian = plan(noise=Gaussian(sd), failure=failure, cells=cells).tail
    assert 2 * cells * stats.norm.sf(gaussian / sd) <= failure
    assert gaussian <= 1.3 * sd * stats.norm.isf(failure / (2 * cells))
    skellam = plan(noise=noise, failure=failure, cells=cells).tail
    if sd < 100:  # SciPy's Skellam tail loses its accuracy beyond
        assert 2 * cells * stats.skellam.sf(math.floor(skellam), sd**2 / 2, sd**2 / 2) <= failure
    assert gaussian < skellam <= gaussian + (math.log(2 * cells) - math.log(failure)) / 3 + 1e-9


def test_a_discrete_gaussian_has_the_tail_of_a_gaussian():
    assert plan(noise=DiscreteGaussian(40.0), draws=3) == plan(noise=Gaussian(40.0), draws=3)


@pytest.mark.parametrize("scale", [0.25, 1.0, 40.0])
@pytest.mark.parametrize("ratio", [1.0, 2.5, 30.0])
@pytest.mark.parametrize("failure", [1e-2, 1e-9])
def test_tail_of_shares_of_a_discrete_laplace(scale, ratio, failure):
    """Against the exact law of the difference of two Polya variables of shape `ratio`."""
    q = math.exp(-1 / scale)
    tail = plan(noise=DiscreteLaplace(scale, shares=2), draws=int(2 * ratio), failure=failure, cells=9).tail
    reach = math.ceil(3 * tail + 20)
    polya = stats.nbinom.pmf(np.arange(2 * reach), ratio, 1 - q)
    survival = np.convolve(polya, polya[::-1])[2 * reach - 1 :][::-1].cumsum()[::-1]  # P(X >= x), x = 0, 1, ...
    assert 2 * 9 * survival[math.floor(tail) + 1] <= failure
    exact = int(np.argmax(2 * 9 * survival <= failure))
    assert tail <= 2 * exact + 1


@pytest.mark.parametrize("failure", [1e-2, 1e-9])
def test_tail_of_shares_of_a_laplace(failure):
    """As many shares as make up one variable, whose tail is exp(-x / scale)."""
    tail = plan(noise=GammaLaplace(3.0, shares=50), draws=50, failure=failure, cells=9).tail
    assert 9 * math.exp(-tail / 3) <= failure
    assert tail <= 2 * 3 * math.log(9 / failure) + 3 * math.log(2)


@pytest.mark.parametrize("tail", [-1.0, math.nan, math.inf])
def test_plan_refuses_a_tail_that_is_no_bound(tail):
    with rejects("noise", expected="a finite number >= 0"):
        plan_modulus("ring64", 1, 1, lambda log_odds: tail, 1)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("occupancy_max", -1),
        ("eta_int", -1),
        ("cells", 0),
        ("failure", 0.0),
        ("failure", 1.0),
        ("ring", "ring32"),
    ],
)
def test_plan_names_a_bad_argument(argument, value):
    with pytest.raises(InputError, match=f"{argument}: {value!r} given"):
        plan(**{argument: value})


@pytest.mark.parametrize("columns", [1, 3, 11, 300])
@pytest.mark.parametrize("bits", [0, 20, 50])
def test_rows_are_encoded_in_one_pass_as_in_two(columns, bits):
    rng = np.random.default_rng(columns + bits)
    public = Schema(tuple(Column(f"c{j}", -1.5 - j, 2.25) for j in range(columns)))
    rows = rng.normal(scale=3, size=(101, columns))
    rows[7], rows[8], rows[9] = 1.7e308, -1.7e308, public.offset  # clipped from beyond float64, and exactly 0
    encoding, out = FixedPoint(bits), np.empty(rows.shape, np.int64)
    encoding.encode_within(rows, public, out)
    assert (out == encoding.encode(public.normalise(rows))).all()
    assert np.abs(out).max() == 1 << bits
    assert (out[9] == 0).all()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1.0000001])
def test_one_pass_refuses_and_counts_from_the_first_row(value):
    rows = np.zeros((60, 3))
    rows[41, 2] = value
    with pytest.raises(InputError, match=f"column 'c', row 142: {value} "):
        FixedPoint().encode_within(rows, Schema.unit(["a", "b", "c"]), np.empty((60, 3), np.int64), first=100)


@pytest.mark.parametrize("out", [np.empty((2, 2), np.int64), np.empty((2, 3)), np.empty((3, 2), np.int64).T])
def test_one_pass_wants_memory_that_fits(out):
    with pytest.raises(InputError, match="C-contiguous int64 of shape"):
        FixedPoint().encode_within(np.zeros((2, 3)), Schema.unit(["a", "b", "c"]), out)


@pytest.mark.parametrize("columns", [1, 3, 10, 700, 1500])
def test_balls_and_moments_in_one_pass_are_those_in_several(columns):
    """More rows than the kernels hold at a time, and rows wider than what they hold."""
    public = Schema.from_pair([f"x{column}" for column in range(columns)], (-2.0, 1.0))
    rows = np.random.default_rng(columns).normal(size=(40 if columns > 100 else 1100, columns))
    out = np.empty(rows.shape, np.int64)
    FixedPoint(20).encode_within(rows, public, out, radius=1.25)
    assert (out == FixedPoint(20).encode_ball(public.normalise(rows), 1.25)).all()
    if columns <= 10:
        moments = SecondMoments().encode(public.normalise(rows), FixedPoint(20))
        out = np.empty(moments.shape, np.int64)
        FixedPoint(20).encode_moments_within(rows, public, np.sqrt(2), out)
        assert (out == moments).all()


@pytest.mark.parametrize("radius", [None, 1.0])
def test_values_refused_in_one_pass_are_named(radius):
    rows = np.zeros((600, 3))
    rows[500, 1] = np.nan
    with rejects("X", given="column 'b', row 601: nan"):
        FixedPoint().encode_within(rows, Schema.unit(["a", "b", "c"]), np.empty((600, 3), np.int64), 100, radius)
    with rejects("X", given="column 'b', row 601: nan"):
        FixedPoint().encode_moments_within(rows, Schema.unit(["a", "b", "c"]), 1.5, np.empty((600, 9), np.int64), 100)
    rows[500, 1] = -1.5
    with pytest.raises(InputError, match=r"row 501: -1\.5 lies outside"):
        FixedPoint().encode_within(rows, Schema.unit(["a", "b", "c"]), np.empty((600, 3), np.int64), 0, radius)
    with rejects("out", given="int64 of shape (600, 8) given, C-contiguous int64 of shape (600, 9) expected"):
        FixedPoint().encode_moments_within(rows, Schema.unit(["a", "b", "c"]), 1.5, np.empty((600, 8), np.int64))


@pytest.mark.parametrize("power", [-1000, -401, -399, 0, 399, 401, 1000])
def test_balls_take_any_magnitude(power):
    """Both ways of computing the norm, and what lies next to where they change."""
    z = np.random.default_rng(5).normal(size=(200, 7))
    q = FixedPoint(30).encode_ball(z * 2.0**power, 1.0)
    assert (np.einsum("ij,ij->i", q, q) <= 1 << 60).all()
    if power < 0:
        assert not q.any()
    else:
        within = 2.0 ** min(power, 399)  # farther out the ball's point is the same
        expected = np.array([reference.encode_ball((row * within).tolist(), 30, 1.0) for row in z])
        assert abs(q - expected).max() <= 1
