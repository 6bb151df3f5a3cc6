"""A draft of a codebook: kinds, categories, dates, decimal commas, words for what is missing, and bounds."""

import csv
import datetime
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmpc.data import Codebook, Schema
from dpmpc.data.csv_files import Dialect
from dpmpc.data.draft import MOST_VALUES, draft
from dpmpc.data.table_files import read_cells
from support.rejections import rejects


def write(path, columns, separator=","):
    """Write columns of text as a CSV file."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    path.write_text(text.getvalue())
    return path


def drafted(path, **columns):
    """Return the draft of columns by their names."""
    return draft(write(path / "data.csv", columns))


def variable(path, cells):
    """Return the variable of a column with these cells."""
    numbers = [str(place) for place in range(len(cells))]
    return drafted(path, x=cells, n=numbers).schema.variables[0]


@pytest.mark.parametrize(
    ("cells", "fields"),
    [
        (["3.2", "19", "7"] * 9, {"lower": 3.2, "upper": 19.0}),
        (["223.2", "254.15", "-0.0123"], {"lower": -0.013, "upper": 260.0}),
        (["1", "2", "", "3"] * 9, {"lower": 1.0, "upper": 3.0, "if_missing": "indicator"}),
        (["40", "61", "-9"] * 9, {"lower": 40.0, "upper": 61.0, "missing": ("-9",), "if_missing": "indicator"}),
        (["-9", "-4", "3"] * 9, {"lower": -9.0, "upper": 3.0}),
        (["5", "8"] * 20 + ["not yet"], {"lower": 5.0, "missing": ("not yet",), "if_missing": "indicator"}),
        (["Yes", "no", "N"] * 9, {"yes": ("yes",), "no": ("n", "no")}),
        (["1", "0"] * 9, {"yes": ("1",), "no": ("0",)}),
        (["J", "N", "unknown"], {"yes": ("j",), "no": ("n",), "missing": ("unknown",), "if_missing": "indicator"}),
        (["03.01.2025", "17.12.2024"], {"date": "%d.%m.%Y", "lower": "01.01.2024", "upper": "31.12.2025"}),
        (["2024-02-29", "2024-03-01", "NA"] * 9, {"date": "%Y-%m-%d", "if_missing": "indicator"}),
        (["south", "north", "-9", "south"] * 3, {"values": ("north", "south"), "missing": ("-9",)}),
    ],
)
def test_kinds(tmp_path, cells, fields):
    found = variable(tmp_path, cells)
    assert {name: getattr(found, name) for name in fields} == fields
    assert (found.if_missing is None) == ("if_missing" not in fields and "missing" not in fields)


def test_what_is_no_variable_is_left_out_and_named(tmp_path):
    ids = [f"P{number}" for number in range(MOST_VALUES + 1)]
    found = drafted(tmp_path, id=ids, same=["a"] * len(ids), empty=[""] * len(ids), x=list(map(str, range(len(ids)))))
    assert found.schema.names == ("x",)
    assert set(found.left_out) == {"id", "same", "empty"}
    text = found.to_toml()
    assert text.startswith("# Drafted from the data itself, which is NOT private")
    assert f"# id: text of {len(ids)} different values; left out" in text
    with rejects("columns"):
        draft(tmp_path / "data.csv", ["id", "same"])


@pytest.mark.parametrize(("separator", "comma"), [(",", False), (";", False), ("\t", False), (";", True), ("\t", True)])
def test_separator_and_decimal_sign_are_found(tmp_path, separator, comma):
    cells = [f"{value:.1f}".replace(".", "," if comma else ".") for value in np.linspace(1, 9.5, 40)]
    path = write(tmp_path / "data.csv", {"a": cells, "b": ["x", "y"] * 20}, separator)
    found = draft(path)
    assert found.dialect.decimal == ("," if comma else ".")
    assert (found.schema.columns[0].lower, found.schema.columns[0].upper) == (1.0, 9.5)
    assert ("--decimal" in found.to_toml()) == (separator != ",")
    stated = draft(path, dialect=Dialect(separator, found.dialect.decimal))
    assert stated.schema == found.schema


def test_dates_and_numbers_of_a_parquet_file(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    days = [datetime.date(2021, 5, 1), datetime.date(2023, 1, 2), None]
    parquet.write_table(pyarrow.table({"day": days, "n": [1.5, None, 4.0]}), tmp_path / "data.parquet")
    day, n = draft(tmp_path / "data.parquet").schema.variables
    assert (day.kind, day.lower, day.upper, day.if_missing) == ("date", "2021-01-01", "2023-12-31", "indicator")
    assert (n.lower, n.upper, n.if_missing) == (1.5, 4.0, "indicator")


CELLS = [
    "",
    "NA",
    "-9",
    "unknown",
    "1",
    "0",
    "yes",
    "No",
    "12.5",
    "3",
    "2024-01-31",
    "a",
    "b;",
    'c"',
    "true",
    "n",
    "nd",
]


@given(st.lists(st.sampled_from(CELLS), min_size=3, max_size=30))
def test_every_file_fits_the_draft_that_was_made_of_it(tmp_path_factory, cells):
    """The draft is a bounds file, and no cell of the file is refused by it."""
    folder = tmp_path_factory.mktemp("draft")
    path = write(folder / "data.csv", {"x": cells, "n": [str(place) for place in range(len(cells))]})
    found = draft(path)
    (folder / "bounds.toml").write_text(found.to_toml())
    public = Schema.from_toml(folder / "bounds.toml")
    assert public.columns == found.schema.columns
    book = public.codebook if isinstance(public.codebook, Codebook) else Codebook.of_columns(public.columns)
    coded = read_cells(path, book.sources, dialect=found.dialect)
    counted = book.encode(coded, counted=True)  # as describe codes people
    assert len(counted) == len(coded)
    table = book.encode(coded)
    assert np.all(np.abs(public.normalise(table.values)) <= 1)
    assert not np.any(public.clipped_fraction(table.values))


@given(st.lists(st.floats(-1e300, 1e300).filter(lambda v: v == 0 or abs(v) > 1e-290), min_size=3, unique=True))
def test_bounds_hold_all_values_tightly(tmp_path_factory, values):
    path = write(tmp_path_factory.mktemp("draft") / "data.csv", {"x": list(map(repr, values))})
    (column,) = draft(path).schema.columns
    assert column.lower <= min(values) <= column.lower + 0.1001 * abs(min(values))
    assert column.upper >= max(values) >= column.upper - 0.1001 * abs(max(values))
