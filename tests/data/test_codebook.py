"""Codebooks: what a table's cells become, that each term has norm at most 1, and every refusal."""

import datetime
import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmpc.base.errors import InputError, UtilityWarning
from dpmpc.base.storage import canonical
from dpmpc.data import Codebook, Column, Schema, Table
from dpmpc.data.codebook import Weight
from dpmpc.data.data_checks import check_table
from dpmpc.data.table import Cells
from dpmpc.data.variables import Variable
from support.rejections import rejects

WARD = Variable("ward", values=("A", "B", "C"))
AGE = Variable("age", 20, 60)
SMOKER = Variable("smoker", yes=("Yes", "1"), no=("no", "0"))
ADMITTED = Variable("admitted", "01.01.2020", "31.12.2020", date="%d.%m.%Y")
CRP = Variable("crp", 1, 100, transform="log")
BMI = Variable("bmi", 10, 60, transform="spline", knots=(20, 30))
TOML = """
missing = ["unknown", "-9"]
products = [["age", "ward"]]
weight = {column = "w", upper = 4}
incomplete = "zeros"

[columns.age]
lower = 20
upper = 60
if_missing = "indicator"

[columns."the ward"]
values = ["A", "B"]
other = "elsewhere"
""".replace('"ward"', '"the ward"')


class Frame(dict):
    """A data frame, as far as the package knows one."""

    columns = property(lambda self: list(self))

    def to_numpy(self):
        raise AssertionError("columns are read one by one")


def coded(variables, frame, **choices):
    """Return the table of a frame's columns."""
    book = Codebook(tuple(variables), **choices)
    return book.encode(Frame(frame))


# What becomes of cells


def test_a_category_has_an_indicator_for_each_value_but_the_reference():
    table = coded([WARD], {"ward": ["A", "B", " C ", "B"]})
    assert table.names == ("ward=B", "ward=C")
    assert table.values.tolist() == [[0, 0], [1, 0], [0, 1], [1, 0]]
    other = Variable("ward", values=("A", "B"), reference="B", other="else")
    table = coded([other], {"ward": ["A", "B", "X", "Y"]})
    assert table.names == ("ward=A", "ward=else")
    assert table.values.tolist() == [[1, 0], [0, 0], [0, 1], [0, 1]]


def test_two_values_are_as_far_apart_as_the_bounds():
    """One column of -1 and 1, and not of 0 and 1: half the noise."""
    public = Schema.of_codebook(Codebook((Variable("sex", values=("m", "f")), SMOKER)))
    table = public.codebook.encode(Frame(sex=["m", "f"], smoker=["YES", "No"]))
    assert public.normalise(table.values).tolist() == [[-1, 1], [1, -1]]


def test_whole_numbers_of_data_frames_are_labels():
    assert coded([Variable("ward", values=("1", "2"))], {"ward": [1.0, 2.0]}).values.ravel().tolist() == [0, 1]


def test_dates_count_days_from_the_lower_bound():
    table = coded([ADMITTED], {"admitted": ["01.01.2020", "02.02.2020", datetime.date(2020, 1, 3)]})
    assert table.values.ravel().tolist() == [0, 32, 2]
    assert Codebook((ADMITTED,)).columns[0].upper == 365


def test_a_logarithm_is_clipped_where_there_is_none():
    book = Codebook((CRP,))
    values = book.encode(Frame(crp=["1", "10", "1000", "0", "-3"])).values
    public = Schema.of_codebook(book)
    assert public.names == ("log(crp)",)
    assert public.normalise(values).ravel() == pytest.approx([-1, 0, 1, -1, -1])
    assert public.clipped_fraction(values).tolist() == [0.6]


def test_a_spline_is_a_partition_of_unity_without_its_first_function():
    values = coded([BMI], {"bmi": [str(x) for x in np.linspace(0, 70, 50)]}).values
    assert values.shape == (50, 5)
    assert values.min() >= 0
    assert values.sum(axis=1).max() <= 1 + 1e-12
    assert values[0].tolist() == [0] * 5  # at and below the lower bound
    assert values[-1].tolist() == [0, 0, 0, 0, 1]


def test_a_spline_spans_cubic_polynomials():
    x = np.linspace(10, 60, 40)
    basis = np.column_stack([np.ones(40), coded([BMI], {"bmi": list(map(str, x))}).values])
    target = x**3 - 40 * x
    assert np.linalg.lstsq(basis, target, rcond=None)[1][0] < 1e-12 * np.sum(target**2)


def test_what_is_missing_has_an_indicator_or_the_middle():
    age = Variable("age", 20, 60, missing=("-9",), if_missing="indicator")
    table = coded([age], {"age": ["30", "NA", None, "-9.0", float("nan")]})
    assert table.names == ("age", "age=missing")
    assert table.values.tolist() == [[30, 0]] + [[40, 1]] * 4
    ward = Variable("ward", values=("A", "B"), if_missing="indicator")
    assert coded([ward], {"ward": ["B", ""]}).values.tolist() == [[1, 0], [0, 1]]
    middle = Variable("age", 20, 60, if_missing="middle")
    assert coded([middle], {"age": ["", "30"]}, missing=("gone",)).values.ravel().tolist() == [40, 30]


def test_a_listed_value_is_not_missing():
    country = Variable("country", values=("NA", "DE"))
    assert coded([country], {"country": ["NA", "DE"]}, missing=("de",)).values.ravel().tolist() == [0, 1]


def test_incomplete_rows_weigh_nothing_and_hold_nothing():
    frame = {"age": ["30", "", "50"], "ward": ["B", "C", "unknown"]}
    table = coded([AGE, WARD], frame, incomplete="zeros", missing=("unknown",))
    assert table.names[-1] == "(complete)"
    assert table.values.tolist() == [[30, 1, 0, 1], [40, 0, 0, 0], [40, 0, 0, 0]]
    with rejects("X: column 'age', row 2"):
        coded([AGE, WARD], frame, missing=("unknown",))


def test_a_missing_target_is_told_what_works_for_targets():
    book = Codebook((AGE, WARD, Variable("crp", 0.1, 500, transform="log")))
    frame = Frame({"age": ["30", "40"], "ward": ["B", ""], "crp": ["3", "4"]})
    with rejects("X: column 'ward', row 2"):
        book.encode(frame, target="log(crp)")
    frame = Frame({"age": ["30", "40"], "ward": ["B", "C"], "crp": ["3", ""]})
    with rejects("X: column 'crp', row 2") as caught:
        book.encode(frame, target="log(crp)")
    assert "if_missing" not in str(caught.value)


def test_weights_are_the_last_column():
    frame = {"age": ["30", "50", "40"], "w": ["2", "", "3"]}
    table = coded([AGE], frame, weight=Weight("w", 4), incomplete="zeros")
    assert table.names == ("age", "w")
    assert table.values.tolist() == [[30, 2], [40, 0], [40, 3]]
    with rejects("X: column 'w', row 2"):
        coded([AGE], frame, weight=Weight("w", 4))


def test_lists_are_taken_and_what_is_no_variable_is_refused():
    variables = [Variable("age", 0, 100), Variable("ward", values=("a", "b"))]
    given = Codebook(variables, products=[["age", "ward"]], missing=["?"])
    assert given == Codebook(tuple(variables), products=(("age", "ward"),), missing=("?",))
    assert hash(given) == hash(Codebook(tuple(variables), products=(("age", "ward"),), missing=("?",)))
    with rejects("variables", expected="a dpmpc.data.Variable"):
        Codebook([Column("age", 0, 100)])


def test_missing_values_of_tables_that_are_counted_have_one_remedy():
    book = Codebook([Variable("age", 0, 100), Variable("ward", values=("a", "b"))])
    with rejects(
        "X: column 'age', row 2",
        given='the value is missing; if_missing = "indicator" in its column counts those who lack it',
    ):
        book.encode(Frame(age=["30", ""], ward=["a", "b"]), counted=True)


def test_products():
    frame = {"age": ["30", "70"], "smoker": ["yes", "yes"], "ward": ["B", "A"]}
    table = coded([AGE, SMOKER, WARD], frame, products=(("age", "smoker"), ("age", "ward"), ("smoker", "ward")))
    assert table.names[4:] == ("age*smoker", "age*ward=B", "age*ward=C", "smoker*ward=B", "smoker*ward=C")
    assert table.values[0, 4:].tolist() == [30, 30, 0, 1, 0]
    assert table.values[1, 4:].tolist() == [60, 0, 0, 0, 0]  # of values within their bounds


def test_a_product_of_something_missing_is_in_the_middle():
    age = Variable("age", 20, 60, if_missing="indicator")
    public = Schema.of_codebook(Codebook((age, SMOKER, WARD), (("age", "smoker"), ("age", "ward"))))
    values = public.codebook.encode(Frame(age=[""], smoker=["yes"], ward=["B"])).values
    assert public.normalise(values)[0].tolist() == [0, 1, 1, 1, 0, 0, 0, 0]


def test_data_frames_of_pandas_and_polars():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    ages, days = [30, None, 50], [datetime.date(2020, 1, day) for day in (1, 2, 3)]
    variables = (Variable("age", 20, 60, if_missing="indicator"), ADMITTED, WARD)
    expected = [[30, 0, 0, 0, 0], [40, 1, 1, 1, 0], [50, 0, 2, 0, 1]]
    for frame in (
        pd.DataFrame({"age": pd.array(ages, "Int64"), "admitted": pd.to_datetime(days), "ward": [*"ABC"]}),
        pd.DataFrame({"age": ages, "admitted": days, "ward": pd.Categorical([*"ABC"])}),
        pl.DataFrame({"age": ages, "admitted": days, "ward": [*"ABC"]}),
    ):
        assert Codebook(variables).encode(frame).values.tolist() == expected


# Norms: what the sensitivity rests on

FULL = Codebook(
    (
        Variable("age", -5, 60, if_missing="indicator"),
        Variable("ward", values=("A", "B", "C"), if_missing="indicator"),
        SMOKER,
        Variable("crp", 1, 100, transform="log", if_missing="indicator"),
        Variable("bmi", 10, 60, transform="spline", knots=(20, 30), if_missing="indicator"),
    ),
    (*itertools.combinations(("age", "ward", "smoker", "crp", "bmi"), 2), ("age", "ward", "bmi")),
)
cell_of_number = st.one_of(st.just(""), st.floats(-100, 200).map(str))
rows = st.fixed_dictionaries(
    {
        "age": cell_of_number,
        "ward": st.sampled_from(["A", "B", "C", ""]),
        "smoker": st.sampled_from(["yes", "no"]),
        "crp": cell_of_number,
        "bmi": cell_of_number,
    }
)


@given(rows)
def test_each_term_has_norm_at_most_1(row):
    public = Schema.of_codebook(FULL)
    z = public.normalise(FULL.encode(Frame({name: [cell] for name, cell in row.items()})).values)[0]
    ends = np.cumsum([len(term.columns) for term in FULL._terms])
    for block in np.split(z, ends[:-1]):
        assert np.sum(block**2) <= 1 + 1e-12
    assert np.sum(z**2) <= public.radius**2 + 1e-9
    for names in (public.names[:3], public.names[::-2]):  # of some columns too, in any order
        chosen = public.select(names)
        norm = np.sum(z[[public.index(name) for name in names]] ** 2)
        assert norm <= (len(names) if chosen.radius is None else chosen.radius**2) + 1e-9


def test_the_radius_counts_terms_and_not_columns():
    def radius(*variables, **more):
        return Schema.of_codebook(Codebook(variables, **more)).radius

    assert Schema.of_codebook(FULL).radius == math.sqrt(5 + 11)
    assert radius(AGE, CRP) is None  # the box is as small
    assert radius(AGE, WARD) == math.sqrt(2)
    assert radius(AGE, WARD, weight=Weight("w", 1)) == math.sqrt(2)  # the weight is no part of the row
    assert radius(AGE, weight=Weight("w", 1)) is None
    assert Schema.of_codebook(Codebook((AGE, WARD))).select(["ward=C", "age"]).radius is None


def test_some_columns_in_any_order_keep_the_codebook():
    public = Schema.of_codebook(Codebook((AGE, WARD, SMOKER)))
    chosen = public.select(["smoker", "ward=C"])
    assert chosen.codebook == public.codebook
    assert Schema.from_dict(json.loads(canonical(chosen))) == chosen
    assert chosen.with_target(Column("y", 0, 1)).names == ("smoker", "ward=C", "y")
    assert chosen.with_target(Column("y", 0, 1)).codebook.sources == ("age", "ward", "smoker", "y")
    weighted = Schema.of_codebook(Codebook((AGE, WARD), weight=Weight("w", 1)))
    alone = weighted.select(["age", "ward=B", "ward=C"])
    assert (alone.weighted, weighted.weighted) == (False, True)
    with rejects("codebook"):
        Schema(weighted.columns[::-1], codebook=weighted.codebook)


# Files


def test_a_file_is_read_and_written(tmp_path):
    path = tmp_path / "bounds.toml"
    path.write_text(TOML)
    public = Schema.from_toml(path)
    assert public.names == (
        *("age", "age=missing", "the ward=B", "the ward=elsewhere"),
        *("age*the ward=B", "age*the ward=elsewhere", "w"),
    )
    assert public.weighted
    assert public.codebook.sources == ("age", "the ward", "w")
    path.write_text(public.to_toml())
    assert Schema.from_toml(path) == public
    assert Schema.from_dict(json.loads(canonical(public))) == public
    assert Schema.from_toml(path).select(public.names).codebook == public.codebook
    refusing = Schema.of_codebook(public.codebook, "refuse")
    path.write_text(refusing.to_toml())
    assert Schema.from_toml(path) == refusing


def test_plain_schemas_are_written_as_before():
    plain = Schema.from_pair(["a"], (0, 1))
    assert canonical(plain) == b'{"columns":[{"lower":0.0,"name":"a","upper":1.0}],"outside":"clip"}'


def test_columns_that_do_not_follow_from_the_codebook_are_refused():
    honest = Schema.of_codebook(Codebook((AGE, WARD)))
    lie = honest.to_dict()
    lie["columns"][1]["upper"] = 0.5
    with rejects("codebook"):
        Schema.from_dict(lie)


def test_numbers_alone_are_expected_where_nothing_codes_a_table(tmp_path):
    path = tmp_path / "bounds.toml"
    path.write_text(TOML)
    with rejects("bounds"):
        Schema.of_numbers(path)
    path.write_text("[columns.a]\nlower = 0\nupper = 1\n")
    assert Schema.of_numbers(path).names == ("a",)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[columns.a]\nvalues = ['x']\n", "at least two"),
        ("[columns.a]\nvalues = ['x', 'x']\n", "occurs twice"),
        ("[columns.a]\nvalues = ['x', 'y']\nreference = 'z'\n", "reference: 'z' given, one of x, y expected"),
        ("[columns.a]\nvalues = ['x', 'y']\nlower = 1\n", "lower = 1.* which a category does not have"),
        ("[columns.a]\nvalues = ['x', 'y']\nif_missing = 'middle'\n", "'indicator' expected of a category"),
        ("[columns.a]\nvalues = 'xy'\n", "values"),
        ("[columns.a]\nyes = ['y']\n", "no is missing, expected of a yes-no"),
        ("[columns.a]\nyes = ['y']\nno = ['Y']\n", "occurs twice"),
        ("[columns.a]\ndate = '%d.%m.%Y'\nlower = '2020-01-01'\nupper = '01.01.2021'\n", "a date in the format"),
        ("[columns.a]\ndate = '%Y'\nlower = '2021'\nupper = '2020'\n", "lower < upper"),
        ("[columns.a]\ntransform = 'log'\nlower = 0\nupper = 1\n", "a number above 0 expected with a logarithm"),
        ("[columns.a]\ntransform = 'root'\nlower = 0\nupper = 1\n", "transform"),
        ("[columns.a]\ntransform = 'spline'\nlower = 0\nupper = 1\n", "knots"),
        ("[columns.a]\ntransform = 'spline'\nlower = 0\nupper = 1\nknots = [0.5, 0.5]\n", "rising numbers"),
        ("[columns.a]\ntransform = 'spline'\nlower = 0\nupper = 1\nknots = [2]\n", "rising numbers"),
        ("[columns.a]\ntransform = 'log'\nlower = 2\nupper = 1\n", "lower < upper"),
        ("[columns.a]\ntransform = 'log'\nlower = nan\nupper = 1\n", "lower of column 'a'"),
        ("[columns.a]\nlower = 0\nupper = 1\nif_missing = 'mean'\n", "if_missing"),
        ("[columns.a]\nlower = 0\nmissing = ['x']\n", "upper is missing"),
        ("[columns.a]\nlower = 0\nupper = 1\nvalue = ['x']\nmissing = []\n", "unknown key 'value'"),
        ("products = [['a']]\n[columns.a]\nlower = 0\nupper = 1\n", "two or more different columns"),
        ("products = [['a', 'b']]\n[columns.a]\nlower = 0\nupper = 1\n", "products: no column 'b'"),
        ("incomplete = 'drop'\n[columns.a]\nlower = 0\nupper = 1\n", "incomplete"),
        ("weight = {column = 'a', upper = 1}\n[columns.a]\nlower = 0\nupper = 1\n", "which is a variable too"),
        ("weight = {column = 'w', upper = 0}\n[columns.a]\nlower = 0\nupper = 1\n", "weight: upper"),
    ],
)
def test_bad_files(tmp_path, content, said):
    path = tmp_path / "bounds.toml"
    path.write_text(content)
    with pytest.raises(InputError, match=said):
        Schema.from_toml(path)


def test_products_that_would_fill_the_memory_are_refused():
    names = ("a", "b", "c")
    large = [Variable(name, values=tuple(map(str, range(200)))) for name in names]
    with rejects("columns"):
        Codebook(tuple(large), (names,))
    with rejects("products", given="one occurs twice, each once expected"):
        Codebook((AGE, WARD), (("age", "ward"), ("ward", "age")))


@pytest.mark.parametrize(
    ("variable", "cell", "argument"),
    [
        (WARD, "D", "X: column 'ward', row 1"),
        (SMOKER, "maybe", "X: column 'smoker', row 1"),
        (ADMITTED, "2020-01-01", "X: column 'admitted', row 1"),
        (AGE, "old", "X: column 'age', row 1"),
        (AGE, "inf", "X: column 'age', row 1"),
    ],
)
def test_bad_cells(variable, cell, argument):
    with rejects(argument):
        coded([variable], {variable.name: [cell]})


def test_columns_that_are_not_there():
    with rejects("columns", given="no column 'ward'; there are age"):
        coded([AGE, WARD], {"age": ["30"]})
    with rejects("X", expected="a data frame or cells of a file"):
        Cells.of([[1, 2]])


# New rows


def test_new_rows_are_coded_alike_whatever_else_they_hold():
    book = Codebook((AGE, WARD, SMOKER), (("age", "ward"),), incomplete="zeros")
    values, complete = book.encode_features(
        Frame(ward=["C", "B", ""], age=["90", "", "30"], note=["x", "y", "z"]), ["age*ward=C", "age"]
    )
    assert values[0].tolist() == [60, 60]  # within the bounds, as the model knows them
    assert complete.tolist() == [True, False, False]
    assert book.sources_of(["age*ward=C"]) == ("age", "ward")
    with rejects("X", given="no column 'ward'; there are age"):
        book.encode_features(Frame(age=["1"]), ["ward=B"])


def test_a_value_that_nobody_has_is_no_constant_column():
    """What is told of depends on the codebook, which is public: categories of two values as those of three."""
    public = Schema.of_codebook(Codebook((AGE, WARD)))
    table = public.codebook.encode(Frame(age=["30", "40"], ward=["A", "B"]))
    check_table(table, "age", public)
    with pytest.warns(UtilityWarning, match="column 'ward=C' is .*this warning depends on the data and is not private"):
        check_table(table, "age")
    with pytest.warns(UtilityWarning, match="column 'age' is"):
        check_table(Table(table.names, np.full((2, 3), 30.0)), "ward=B", public)
    two = Schema.of_codebook(Codebook((AGE, Variable("sex", values=("f", "m")), SMOKER)))
    check_table(two.codebook.encode(Frame(age=["30", "40"], sex=["f", "f"], smoker=["no", "no"])), "age", two)


@pytest.mark.parametrize("filled", ["indicator", "middle"])
def test_a_target_that_is_made_up_where_it_is_missing_is_refused(filled):
    """Without that, the indicator of what is missing explains most of a target that has nothing to do with it."""
    book = Codebook((AGE, Variable("crp", 1, 100, if_missing=filled)))
    public = Schema.of_codebook(book)
    table = Table(tuple(public.names), np.eye(len(public.names)) + 20)
    with rejects("target"):
        check_table(table, "crp", public)
    check_table(table, "age", public)
    assert book.fills("crp")
    assert not book.fills("age")
    assert not book.fills("crp=missing")  # known of everybody
