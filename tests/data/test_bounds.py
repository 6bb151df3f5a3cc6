"""Public bounds: what a schema accepts, the map to [-1, 1], clipping, and every refusal."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dpmpc.base.errors import InputError, UtilityWarning
from dpmpc.data import Column, Schema, Table
from dpmpc.data.data_checks import check_table
from dpmpc.data.schemas import clip_ball, schema
from support.rejections import rejects

AGE_HEIGHT = Schema((Column("age", 0, 100), Column("height", 1.5, 2.5)))
ROWS = np.array([[0.0, 1.5], [50.0, 2.0], [100.0, 2.5], [25.0, 2.25]])
UNIT_ROWS = np.array([[-1.0, -1.0], [0.0, 0.0], [1.0, 1.0], [-0.5, 0.5]])

finite = st.floats(allow_nan=False, allow_infinity=False)
names = st.text(st.characters(categories=["L", "N", "P", "S"], include_characters=" "), min_size=1).filter(
    lambda name: bool(name.strip()) and name.isprintable()
)


@st.composite
def columns(draw, name=names):
    lower = draw(st.floats(-1e12, 1e12))
    width = draw(st.floats(1e-2, 1e12))
    return Column(draw(name), lower, lower + width + abs(lower) * 1e-6)


schemas = st.builds(
    Schema,
    st.lists(columns(), min_size=1, max_size=5, unique_by=lambda c: c.name).map(tuple),
    st.sampled_from(["clip", "refuse"]),
)


widths = st.integers(1, 6)


def matrices(elements, columns=widths):
    return st.tuples(st.integers(1, 8), columns).flatmap(lambda shape: hnp.arrays(np.float64, shape, elements=elements))


# The map and its inverse


def test_normalise_maps_bounds_to_the_unit_box():
    assert np.array_equal(AGE_HEIGHT.normalise(ROWS), UNIT_ROWS)
    assert np.array_equal(AGE_HEIGHT.denormalise(UNIT_ROWS), ROWS)


def test_slope_and_offset_are_half_widths_and_middles():
    assert AGE_HEIGHT.slope.tolist() == [50, 0.5]
    assert AGE_HEIGHT.offset.tolist() == [50, 2]
    assert np.array_equal((ROWS - AGE_HEIGHT.offset) / AGE_HEIGHT.slope, AGE_HEIGHT.normalise(ROWS))


def test_values_outside_are_clipped_and_counted():
    X = [[-1, 2], [101, 9], [1e308, -1e308], [50, 2]]
    assert AGE_HEIGHT.normalise(X).tolist() == [[-1, 0], [1, 1], [1, -1], [0, 0]]
    assert AGE_HEIGHT.clipped_fraction(X).tolist() == [0.75, 0.5]


def test_overflowing_differences_are_clipped_without_a_warning():
    far = Schema.from_pair(["x"], (-1.7e308, -1.6e308))
    assert far.normalise([[1.7e308]]).tolist() == [[1.0]]


def test_nothing_is_clipped_of_no_rows():
    assert AGE_HEIGHT.normalise(np.empty((0, 2))).shape == (0, 2)
    assert AGE_HEIGHT.clipped_fraction(np.empty((0, 2))).tolist() == [0, 0]


@pytest.mark.parametrize("dtype", [np.int8, np.uint64, np.float32, np.bool_])
def test_narrow_types_are_normalised_in_float64(dtype):
    X = np.array([[0, 1], [1, 1]], dtype)
    Z = Schema.from_pair(["a", "b"], (0, 3)).normalise(X)
    assert Z.dtype == np.float64
    assert Z.tolist() == [[-1, -1 / 3], [-1 / 3, -1 / 3]]


def test_the_callers_array_is_left_unchanged():
    X = np.array([[500.0, 500.0], [1.0, 2.0]])
    before = X.copy()
    AGE_HEIGHT.normalise(X)
    AGE_HEIGHT.denormalise(X)
    clip_ball(X, 1.0)
    assert np.array_equal(X, before)


@given(schemas, st.data())
def test_normalise_and_denormalise_are_inverse(bounds, data):
    Z = data.draw(matrices(st.floats(-1, 1), st.just(len(bounds))))
    # A bound of magnitude 1e12 with a half width of 1e6 leaves ten digits of z.
    again = Schema(bounds.columns).normalise(bounds.denormalise(Z))
    assert np.allclose(again, Z, rtol=0, atol=1e-8)


@given(columns(), finite)
def test_normalise_agrees_with_exact_arithmetic(column, value):
    z = Schema((column,)).normalise([[value]])[0, 0]
    lower, upper = Fraction(column.lower), Fraction(column.upper)
    exact = (2 * Fraction(value) - lower - upper) / (upper - lower)
    assert -1 <= z <= 1
    assert abs(z - float(min(max(exact, -1), 1))) < 1e-8


@given(schemas, st.data())
def test_normalise_is_increasing(bounds, data):
    X = data.draw(matrices(finite, st.just(len(bounds))))
    Z = Schema(bounds.columns).normalise(np.sort(X, axis=0))
    assert (np.diff(Z, axis=0) >= 0).all()


def test_rows_beyond_one_block_are_all_treated():
    X = np.arange(200_000.0).reshape(-1, 2)
    bounds = Schema.from_pair(["a", "b"], (0, 199_999))
    expected = np.clip((X - bounds.offset) / bounds.slope, -1, 1)
    assert np.array_equal(bounds.normalise(X), expected)
    X[-1, 1] = np.nan
    with rejects("X", given="column 'b', row 100000: nan"):
        bounds.normalise(X)


# What counts as bounds


def test_a_pair_holds_for_all_columns():
    assert schema((0, 1), ["a", "b"]) == Schema((Column("a", 0, 1), Column("b", 0, 1)))
    assert schema(np.array([0, 1]), ["a"]) == Schema.from_pair(["a"], (0, 1))


def test_a_dict_is_put_into_the_order_of_the_data():
    bounds = {"height": (1.5, 2.5), "unused": (0, 1), "age": (0, 100)}
    assert schema(bounds, ["age", "height"]) == AGE_HEIGHT


def test_a_schema_is_put_into_the_order_of_the_data():
    assert schema(AGE_HEIGHT, ["height", "age"]).names == ("height", "age")
    assert schema(AGE_HEIGHT, ["height"]) == AGE_HEIGHT.select(["height"])


def test_none_means_unit_data_and_refuses_the_rest():
    unit = schema(None, ["a", "b"])
    assert unit == Schema.unit(["a", "b"]) != Schema.from_pair(["a", "b"], (-1, 1))
    Z = np.array([[1.0, -1.0], [0.25, 0.0]])
    assert np.array_equal(unit.normalise(Z), Z)
    with rejects("X: column 'b', row 2"):
        unit.normalise([[0, 0], [0, 1.5]])
    with rejects("X: column 'b', row 2"):
        unit.normalise([[0, 0], [0, 1.5]])


def test_refusing_survives_a_selection():
    assert Schema.unit(["a", "b"]).select(["b"]).outside == "refuse"


def test_positions_and_length():
    assert len(AGE_HEIGHT) == 2
    assert AGE_HEIGHT.index("height") == 1
    assert AGE_HEIGHT.names == ("age", "height")


def test_equal_schemas_hash_and_print_alike():
    again = Schema((Column("age", np.int64(0), np.float32(100)), Column("height", 1.5, 2.5)))
    negative_zero = Schema((Column("age", -0.0, 100.0), Column("height", 1.5, 2.5)))
    assert again == AGE_HEIGHT == negative_zero
    assert hash(again) == hash(AGE_HEIGHT)
    assert negative_zero.to_toml() == AGE_HEIGHT.to_toml()


# The file form


def test_toml_form(tmp_path):
    path = tmp_path / "bounds.toml"
    path.write_text('[columns.age]\nlower = 0\nupper = 100\n\n[columns."the height"]\nlower = 1.5\nupper = 2.5\n')
    bounds = Schema.from_toml(path)
    assert bounds == Schema((Column("age", 0, 100), Column("the height", 1.5, 2.5)))
    assert schema(str(path), ["the height"]) == bounds.select(["the height"])


@given(bounds=schemas)
def test_toml_and_dict_forms_are_read_back(tmp_path_factory, bounds):
    path = tmp_path_factory.mktemp("bounds") / "bounds.toml"
    path.write_text(bounds.to_toml(), encoding="utf-8")
    assert Schema.from_toml(path) == bounds
    assert Schema.from_dict(json.loads(json.dumps(bounds.to_dict(), sort_keys=True))) == bounds


def test_the_order_of_columns_shows_in_the_dict_form_with_sorted_keys():
    turned = AGE_HEIGHT.select(["height", "age"])
    assert json.dumps(turned.to_dict(), sort_keys=True) != json.dumps(AGE_HEIGHT.to_dict(), sort_keys=True)


# The ball


@given(matrices(finite, st.integers(1, 40)), st.floats(1e-100, 1e100))
def test_clipped_rows_lie_in_the_ball_exactly(Z, radius):
    clipped = clip_ball(Z, radius)
    for row in clipped:
        assert sum(Fraction(value) ** 2 for value in row.tolist()) <= Fraction(radius) ** 2


@given(matrices(st.floats(-1, 1)), st.floats(1e-3, 10))
def test_rows_inside_the_ball_are_kept_and_others_keep_their_direction(Z, radius):
    clipped = clip_ball(Z, radius)
    norms = np.linalg.norm(Z, axis=1)
    inside = norms < radius * (1 - 1e-12)
    assert np.array_equal(clipped[inside], Z[inside])
    assert np.allclose(clipped[~inside] * norms[~inside, None], Z[~inside] * radius, rtol=1e-9, atol=1e-12)


def test_ball_examples():
    clipped = clip_ball([[3, 4], [0, 0], [0.3, 0.4], [1e200, 0]], 1)
    assert np.allclose(clipped, [[0.6, 0.8], [0, 0], [0.3, 0.4], [0, 0]], rtol=1e-14)
    assert clip_ball(np.empty((3, 0)), 1).shape == (3, 0)


# The check of a whole table


def test_a_sound_table_passes_the_check():
    table = Table(("a", "b"), [[0, 1], [1, 1.5]])
    check_table(table)
    check_table(table, "b")


def test_a_constant_column_is_told_and_not_refused():
    """A refusal would tell whether somebody's row has another value; the warning says that it is not private."""
    with pytest.warns(
        UtilityWarning, match=r"column 'b' is 1\.0 in all 2 rows: .*depends on the data and is not private"
    ):
        check_table(TABLE)


# Refusals: what is done, and what the message has to name

TABLE = Table(("a", "b"), [[0, 1], [1, 1]])

REFUSALS = {
    "lower above upper": (lambda: Column("age", 5, 4), ["age", "5.0, 4.0", "lower < upper"]),
    "lower equals upper": (lambda: Column("age", 5, 5), ["age", "5.0, 5.0", "lower < upper"]),
    "bounds too close": (lambda: Column("age", 1e16, 1e16 + 2), ["age", "1e+16", "too close"]),
    "bounds too small": (lambda: Column("age", 0, 5e-324), ["age", "5e-324", "too close"]),
    "bound is NaN": (lambda: Column("age", math.nan, 4), ["lower of column 'age'", "nan", "finite"]),
    "bound is infinite": (lambda: Column("age", 0, math.inf), ["upper of column 'age'", "inf", "finite"]),
    "bound is too large": (lambda: Column("age", 0, 10**400), ["upper of column 'age'", "1000", "finite"]),
    "bound is text": (lambda: Column("age", "0", 1), ["lower of column 'age'", "'0'", "number"]),
    "bound is a truth value": (lambda: Column("age", 0, True), ["upper of column 'age'", "True", "number"]),
    "bound is complex": (lambda: Column("age", 0, 1j), ["upper of column 'age'", "1j", "number"]),
    "name is empty": (lambda: Column("", 0, 1), ["name", "''", "printable"]),
    "name is a number": (lambda: Column(3, 0, 1), ["name", "3", "printable"]),
    "name has a line break": (lambda: Column("a\nb", 0, 1), ["name", r"'a\nb'", "printable"]),
    "no columns": (lambda: Schema(()), ["columns", "()", "at least one"]),
    "not a column": (lambda: Schema(("age",)), ["columns", "'age'", "Column(name"]),
    "column twice": (lambda: Schema((Column("a", 0, 1), Column("a", 0, 2))), ["columns", "'a'", "twice"]),
    "unknown treatment": (lambda: Schema((Column("a", 0, 1),), "wrap"), ["outside", "'wrap'", "refuse"]),
    "names twice": (lambda: schema((0, 1), ["a", "a"]), ["names", "'a'", "twice"]),
    "names as one text": (lambda: schema((0, 1), "ab"), ["names", "'ab'", "sequence"]),
    "missing in a dict": (lambda: schema({"a": (0, 1)}, ["a", "b"]), ["bounds", "'b'", "pair"]),
    "missing in a schema": (lambda: schema(AGE_HEIGHT, ["age", "b"]), ["bounds", "'b'", "age, height"]),
    "three numbers": (lambda: schema((0, 1, 2), ["a"]), ["bounds of column 'a'", "(0, 1, 2)", "pair"]),
    "one number": (lambda: schema({"a": 7}, ["a"]), ["bounds of column 'a'", "7", "pair"]),
    "unknown column": (lambda: AGE_HEIGHT.index("weight"), ["bounds", "'weight'", "age, height"]),
    "unknown selection": (lambda: AGE_HEIGHT.select(["weight"]), ["bounds", "'weight'", "age, height"]),
    "NaN": (lambda: AGE_HEIGHT.normalise([[1, 2], [3, math.nan]]), ["X", "'height'", "row 2", "nan"]),
    "infinity": (lambda: AGE_HEIGHT.normalise([[-math.inf, 2]]), ["X", "'age'", "row 1", "-inf"]),
    "NaN, counted": (lambda: AGE_HEIGHT.clipped_fraction([[math.nan, 2]]), ["X", "'age'", "row 1", "nan"]),
    "text": (lambda: AGE_HEIGHT.normalise([["1", "2"]]), ["X", "<U1", "real numbers"]),
    "complex": (lambda: AGE_HEIGHT.normalise([[1j, 2]]), ["X", "complex128", "real numbers"]),
    "one dimension": (lambda: AGE_HEIGHT.normalise([1.0, 2.0]), ["X", "(2,)", "two dimensions"]),
    "wrong width": (lambda: AGE_HEIGHT.normalise([[1.0, 2.0, 3.0]]), ["X", "3 columns", "2 expected: age, height"]),
    "wrong width back": (lambda: AGE_HEIGHT.denormalise([[1.0]]), ["Z", "1 columns", "2 expected: age, height"]),
    "no radius": (lambda: clip_ball([[1.0]], 0), ["radius", "0 given", "1e-100"]),
    "negative radius": (lambda: clip_ball([[1.0]], -1), ["radius", "-1 given", "1e-100"]),
    "infinite radius": (lambda: clip_ball([[1.0]], math.inf), ["radius", "inf", "finite"]),
    "radius as text": (lambda: clip_ball([[1.0]], "1"), ["radius", "'1'", "number"]),
    "NaN in the ball": (lambda: clip_ball([[1.0], [math.nan]], 1), ["Z", "'0'", "row 2", "nan"]),
    "unknown target": (lambda: check_table(TABLE, "c"), ["target", "'c'", "a, b"]),
    "nothing but a target": (
        lambda: check_table(TABLE.select(["a"]), "a"),
        ["target", "'a'", "at least one more feature"],
    ),
    "no such file": (lambda: schema("no/such/file.toml", ["a"]), ["bounds", "no/such/file.toml", "cannot be read"]),
    "dict form without outside": (lambda: Schema.from_dict({"columns": []}), ["bounds", "outside", "missing"]),
    "dict form without columns": (
        lambda: Schema.from_dict({"columns": [], "outside": "clip"}),
        ["columns", "()", "at least one"],
    ),
    "dict form with a dict": (
        lambda: Schema.from_dict({"columns": {}, "outside": "clip"}),
        ["bounds", "columns", "{}", "list"],
    ),
    "dict form of something else": (lambda: Schema.from_dict([1]), ["bounds", "[1]", "columns, outside"]),
    "dict form with a strange column": (
        lambda: Schema.from_dict({"columns": [{"name": "a", "lower": 0, "upper": 1, "unit": "s"}], "outside": "clip"}),
        ["bounds: columns", "'unit'", "lower, name, upper"],
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_bad_input_is_refused_and_named(case):
    action, parts = REFUSALS[case]
    with pytest.raises(InputError) as caught:
        action()
    for part in parts:
        assert part in str(caught.value)


TOML_REFUSALS = {
    "no TOML": ("columns = [", ["is not a TOML file"]),
    "no columns": ("", ["columns is missing"]),
    "columns as a number": ("columns = 3", ["columns is 3", "[columns.NAME]"]),
    "unknown key at the top": ('unit = "s"\n[columns.a]\nlower = 0\nupper = 1', ["unknown key 'unit'"]),
    "unknown key of a column": ("[columns.a]\nlower = 0\nupper = 1\nunits = 3", ["column 'a'", "unknown key 'units'"]),
    "missing bound": ("[columns.a]\nlower = 0", ["column 'a'", "upper is missing"]),
    "column as a number": ("columns.a = 3", ["column 'a'", "3 given", "lower, upper"]),
    "bound as text": ('[columns.a]\nlower = "0"\nupper = 1', ["lower of column 'a'", "'0'"]),
    "infinite bound": ("[columns.a]\nlower = -inf\nupper = 1", ["lower of column 'a'", "-inf"]),
    "column twice": ("[columns.a]\nlower = 0\nupper = 1\n[columns.a]\nlower = 0", ["is not a TOML file"]),
    "unknown treatment": ('outside = "wrap"\n[columns.a]\nlower = 0\nupper = 1', ["outside", "'wrap'"]),
}


@pytest.mark.parametrize("case", TOML_REFUSALS)
def test_a_bad_file_is_refused_and_named(case, tmp_path):
    text, parts = TOML_REFUSALS[case]
    path = tmp_path / "bounds.toml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        Schema.from_toml(path)
    for part in parts:
        assert part in str(caught.value)


def test_a_file_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "bounds.toml"
    path.write_bytes(b"\xff\xfe")
    with rejects("bounds"):
        Schema.from_toml(path)


@pytest.mark.parametrize("columns", [1, 2, 11, 300])
@pytest.mark.parametrize("outside", ["clip", "refuse"])
def test_the_kernel_normalises_as_numpy_does(columns, outside):
    """Bit for bit, beyond one period of the kernel's bounds, and for the largest floats."""
    rng = np.random.default_rng(columns)
    lower = rng.normal(size=columns)
    upper = lower + rng.uniform(0.1, 9, columns)
    public = Schema(tuple(Column(f"c{j}", *pair) for j, pair in enumerate(zip(lower, upper, strict=True))), outside)
    X = rng.uniform(lower, upper, (97, columns))
    if outside == "clip":
        X[::3] *= 10
        X[5], X[6] = 1.7e308, -1.7e308
    with np.errstate(over="ignore"):
        expected = np.clip((X - public.offset) / public.slope, -1, 1)
    assert public.normalise(X).tobytes() == expected.tobytes()


def test_refused_rows_are_counted_from_the_first_of_all():
    public = Schema.unit(["a", "b"])
    X = np.zeros((40_000, 2))
    X[39_999, 1] = 1.5
    with rejects("X: column 'b', row 40007"):
        public.normalise(X, first=7)
    X[39_998, 0] = np.nan
    with rejects("X", given="column 'a', row 39999: nan"):
        public.normalise(X)
