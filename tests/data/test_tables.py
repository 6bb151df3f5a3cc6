"""Reading tables: what is read exactly as written, and what is refused with its column, row and line."""

import csv
import os
import stat
import sys
from unittest.mock import ANY

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dpmpc.base.errors import InputError
from dpmpc.data import Table, write_csv
from dpmpc.data.table_files import read_csv, read_table
from support.rejections import rejects

finite = st.floats(allow_nan=False, allow_infinity=False)
GOOD_CSV = "age,income\n30,1.5\n40,-2e3\n"
MIXED_CSV = 'city,age,income\n"Paris, France",30,1.5\nRome,40,2.5\n'


@pytest.fixture
def file(tmp_path):
    def write(content, name="data.csv"):
        path = tmp_path / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content, encoding="utf-8")
        return path

    return write


@pytest.fixture
def parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")

    def write(columns, name="data.parquet"):
        path = tmp_path / name
        pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), path)
        return path

    return write


class Frame:
    """What pandas and polars have in common."""

    def __init__(self, columns):
        self.columns = list(columns)
        self._columns = columns

    def __getitem__(self, name):
        return self._columns[name]

    def to_numpy(self):
        raise AssertionError("columns are read one by one: together they might become objects")


# Tables


def test_columns_and_selections():
    table = Table(["a", "b", "c"], [[1, 2, 3], [4, 5, 6]])
    assert len(table) == 2
    assert table.names == ("a", "b", "c")
    assert table.column("b").tolist() == [2, 5]
    chosen = table.select(["c", "a"])
    assert chosen.names == ("c", "a")
    assert chosen.values.tolist() == [[3, 1], [6, 4]]


def test_values_are_contiguous_float64_without_a_needless_copy():
    values = np.ones((3, 2))
    assert np.shares_memory(Table(("a", "b"), values).values, values)
    for other in (np.ones((2, 3)).T, np.ones((3, 2), np.int8), [[True, 2], [3, 4.5], [5, 6]]):
        table = Table.from_any(other, ["a", "b"])
        assert table.values.dtype == np.float64
        assert table.values.flags.c_contiguous


def test_arrays_get_names():
    assert Table.from_any([[1, 2]]).names == ("x0", "x1")
    assert Table.from_any([[1, 2]], names=["a", "b"]).names == ("a", "b")


def test_a_table_is_returned_as_it_is_or_renamed():
    table = Table(("a",), [[1.0]], dropped=3)
    assert Table.from_any(table) is table
    renamed = Table.from_any(table, names=["b"])
    assert (renamed.names, renamed.dropped) == (("b",), 3)


def test_object_arrays_of_numbers_are_read():
    X = np.array([[1, 2.5], [None, 3], [True, np.int8(4)]], dtype=object)
    table = Table.from_any(X, drop_missing=True)
    assert table.values.tolist() == [[1, 2.5], [1, 4]]
    assert table.dropped == 1


def test_frames_are_read_column_by_column():
    table = Table.from_any(Frame({"a": [1, 2], 7: np.array([True, False])}))
    assert table.names == ("a", "7")
    assert table.values.tolist() == [[1, 1], [2, 0]]


def test_frames_with_the_interchange_protocol_are_read():
    pa = pytest.importorskip("pyarrow")
    frame = pa.table({"a": [1, None, 3], "b": [0.5, 1.5, 2.5], "c": [True, False, None]})
    table = Table.from_any(frame, drop_missing=True)
    assert (table.names, table.values.tolist(), table.dropped) == (("a", "b", "c"), [[1, 0.5, 1]], 2)


# CSV


def test_csv_is_read(file):
    table = read_table(file(GOOD_CSV))
    assert table.names == ("age", "income")
    assert table.values.tolist() == [[30, 1.5], [40, -2000]]
    assert table.dropped == 0


@pytest.mark.parametrize(
    "content",
    [
        "\ufeffage,income\n30,1.5\n40,-2e3\n",
        "age,income\r\n30,1.5\r\n40,-2e3\r\n",
        "age , income\n 30 , 1.5\n\n40,-2e3\n\n",
        '"age","income"\n"30","1.5"\n40,-2e3',
    ],
    ids=["byte order mark", "Windows lines", "blanks and blank lines", "quotes, no last line break"],
)
def test_csv_written_in_other_ways_is_read_alike(file, content):
    table = read_table(file(content))
    assert table.names == ("age", "income")
    assert table.values.tolist() == [[30, 1.5], [40, -2000]]


def test_csv_columns_are_chosen_in_any_order_beside_text(file):
    table = read_table(file(MIXED_CSV, "DATA.CSV"), ["income", "age"])
    assert table.names == ("income", "age")
    assert table.values.tolist() == [[1.5, 30], [2.5, 40]]


def test_csv_with_other_separators_is_read_on_request(file):
    assert read_csv(file("a;b\n1;2\n"), delimiter=";").values.tolist() == [[1, 2]]


@pytest.mark.parametrize("missing", ["", " ", "?", "NA", "n/a", "NaN", "null"])
def test_csv_rows_with_missing_values_are_dropped_on_request(file, missing):
    path = file(f"a,b\n1,2\n3,{missing}\n5,6\n")
    table = read_table(path, drop_missing=True)
    assert table.values.tolist() == [[1, 2], [5, 6]]
    assert table.dropped == 1
    assert read_table(path, ["a"]).values.tolist() == [[1], [3], [5]]


@given(
    values=st.integers(1, 4).flatmap(
        lambda p: hnp.arrays(np.float64, st.tuples(st.integers(1, 9), st.just(p)), elements=finite)
    )
)
def test_written_tables_are_read_back_bit_for_bit(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("tables") / "data.csv"
    table = Table([f'column, "{j}"' for j in range(values.shape[1])], values)
    write_csv(path, table)
    again = read_table(path)
    assert again.names == table.names
    assert again.values.tobytes() == table.values.tobytes()


def test_both_parsers_read_the_same_numbers(file):
    cells = ["1", "-0.5", "+3", "1e-7", "1E5", ".5", "5.", " 7", "0.1", "4.9e-324", "1.7976931348623157e308", "007"]
    quick = read_table(file("a\n" + "\n".join(cells)))
    slow = read_table(file("a,b\n" + "".join(f"{cell},1\n" for cell in cells) + "1,\n"), drop_missing=True)
    assert slow.dropped == 1
    assert quick.column("a").tobytes() == slow.column("a").tobytes()


def test_writing_replaces_the_file_and_keeps_it_private(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("old")
    write_csv(path, Table(("a",), [[0.1]]))
    assert path.read_text().split() == ["a", "0.1"]
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["data.csv"]


def test_a_broken_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "data.csv"
    path.write_text("old")

    def full(source, target):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", full)
    with rejects("path"):
        write_csv(path, Table(("a",), [[0.1]]))
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["data.csv"]


# Parquet


def test_parquet_is_read(parquet):
    pa = pytest.importorskip("pyarrow")
    columns = {
        "whole": pa.array([1, 2, None], pa.int8()),
        "real": pa.array([0.5, 1.5, 2.5], pa.float32()),
        "flag": [True, False, True],
        "money": pa.array([1, 2, 3]).cast(pa.decimal128(21, 2)),
        "large": pa.array([2**60, 2**60 + 1, 0]),
        "city": ["Paris", "Rome", "Bonn"],
    }
    table = read_table(parquet(columns), ["money", "whole", "real", "flag", "large"], drop_missing=True)
    assert table.names == ("money", "whole", "real", "flag", "large")
    assert table.values.tolist() == [[1, 1, 0.5, 1, 2.0**60], [2, 2, 1.5, 0, 2.0**60]]
    assert table.dropped == 1


def test_parquet_columns_are_all_read_by_default(parquet):
    table = read_table(parquet({"a": [1, 2], "b": [3, 4]}))
    assert table.values.tolist() == [[1, 3], [2, 4]]


PARQUET_REFUSALS = {
    "text": ({"a": [1], "city": ["Rome"]}, None, ["column 'city'", "string", "columns of numbers are: a"]),
    "dates": ({"day": np.array(["2020-01-01"], "M8[s]")}, ["day"], ["column 'day'", "timestamp", "no column holds"]),
    "null": ({"a": [1, None]}, None, ["column 'a'", "row 2", "missing", "drop_missing"]),
    "infinity": ({"a": [1, -np.inf]}, None, ["column 'a'", "row 2", "-inf", "finite"]),
    "unknown column": ({"a": [1]}, ["b"], ["columns", "'b'", "there are a"]),
    "column asked for twice": ({"a": [1]}, ["a", "a"], ["columns", "'a'", "twice"]),
    "no rows": ({"a": np.array([], np.int64)}, None, ["values", "no rows"]),
}


@pytest.mark.parametrize("case", PARQUET_REFUSALS)
def test_bad_parquet_is_refused_and_named(case, parquet):
    content, columns, parts = PARQUET_REFUSALS[case]
    with pytest.raises(InputError) as caught:
        read_table(parquet(content), columns)
    for part in parts:
        assert part in str(caught.value)


def test_parquet_with_a_repeated_name_is_refused(parquet):
    pa = pytest.importorskip("pyarrow")
    repeated = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with rejects(ANY, given="the column name 'a' occurs twice"):
        read_table(parquet(repeated))


def test_what_is_no_parquet_file_is_refused(file, tmp_path):
    pytest.importorskip("pyarrow")
    with pytest.raises(InputError, match="not a Parquet file"):
        read_table(file("a,b\n1,2\n", "data.parquet"))
    with rejects("path"):
        read_table(tmp_path / "none.parquet")


def test_parquet_without_pyarrow_names_the_remedy(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with rejects("path"):
        read_table(tmp_path / "data.parquet")


# Refusals: the text of a CSV file, the columns asked for, and what the message has to name

CSV_REFUSALS = {
    "empty": ("", None, ["line 1 is empty", "header"]),
    "blank first line": ("\na,b\n1,2\n", None, ["line 1 is empty", "header"]),
    "no rows": ("a,b\n", None, ["no rows", "at least one"]),
    "no header": ("1,2\n3,4\n", None, ["line 1 is 1, 2", "header"]),
    "semicolons": ("a;b\n1;2\n", None, ["'a;b'", "','"]),
    "tabulators": ("a\tb\n1\t2\n", None, [r"'a\tb'", "','"]),
    "name twice": ("a,b,a\n1,2,3\n", None, ["'a'", "twice"]),
    "nameless": ("a,,c\n1,2,3\n", None, ["column 2", "''", "printable"]),
    "unknown column": (GOOD_CSV, ["weight"], ["columns", "'weight'", "age, income"]),
    "column asked for twice": (GOOD_CSV, ["age", "age"], ["columns", "'age'", "twice"]),
    "columns as one text": (GOOD_CSV, "age", ["columns", "'age'", "sequence"]),
    "no columns": (GOOD_CSV, [], ["columns", "[]", "at least one"]),
    "empty cell": ("a,b\n1,2\n\n3,\n", None, ["column 'b'", "row 2 (line 4)", "missing", "drop_missing"]),
    "NaN": ("a,b\n1,nan\n", None, ["column 'b'", "row 1 (line 2)", "missing"]),
    "infinity": ("a,b\n1,2\n1,inf\n", None, ["column 'b'", "row 2 (line 3)", "inf", "finite"]),
    "text in a cell": ("a,b\n1,2\n3,4x\n", None, ["column 'b'", "row 2 (line 3)", "'4x'", "numbers are: a"]),
    "text in a column": (MIXED_CSV, None, ["column 'city'", "row 1 (line 2)", "numbers are: age, income"]),
    "text in a chosen column": (MIXED_CSV, ["city"], ["column 'city'", "row 1 (line 2)", "Paris"]),
    "nothing but text": ("a\nx\n", None, ["column 'a'", "'x'", "no column holds only numbers"]),
    "digits grouped": ("a,b\n1_000,2\n", None, ["column 'a'", "'1_000'"]),
    "digits of another script": ("a,b\n\u0663,2\n", None, ["column 'a'", "'\u0663'"]),
    "decimal comma": ('a,b\n"1,5",2\n', None, ["column 'a'", "'1,5'"]),
    "row too short": ("a,b\n1,2\n3\n", None, ["row 2 (line 3)", "1 cells", "2 expected"]),
    "row too long": ("a,b\n1,2\n3,4,5\n", None, ["row 2 (line 3)", "3 cells", "2 expected"]),
    "all rows too long": ("a,b\n1,2,3\n", None, ["row 1 (line 2)", "3 cells", "2 expected"]),
    "row too long, elsewhere": ("a,b\n1,2\n3,4,5\n", ["a"], ["row 2 (line 3)", "3 cells", "2 expected"]),
    "open quote": ('a,b\n1,"2\n3,4\n', None, ["not a CSV file"]),
    "not UTF-8": (b"a,b\n1,2\n3,\xff\n", None, ["0xff", "UTF-8"]),
    "not UTF-8 in the header": (b"a,\xe9\n1,2\n", None, ["0xe9", "UTF-8"]),
}


@pytest.mark.parametrize("case", CSV_REFUSALS)
def test_bad_csv_is_refused_and_named(case, file):
    content, columns, parts = CSV_REFUSALS[case]
    path = file(content)
    with pytest.raises(InputError) as caught:
        read_table(path, columns)
    for part in parts:
        assert part in str(caught.value)


def test_infinity_is_refused_even_if_missing_values_are_dropped(file):
    with rejects(ANY, expected="a finite number"):
        read_table(file("a,b\n1,2\n3,\ninf,6\n"), drop_missing=True)


def test_a_table_without_a_complete_row_is_refused(file):
    with rejects(ANY, given="a value is missing in each of the 2 rows; none would be left"):
        read_table(file("a,b\n1,\n,2\n"), drop_missing=True)


def test_a_cell_beyond_the_limit_of_the_csv_module_is_refused(file):
    with rejects(ANY, given="not a CSV file: field larger than field limit (131072)"):
        read_table(file("a\n" + "1" * (csv.field_size_limit() + 1) + "\n"))


def test_an_unreadable_path_is_refused(tmp_path):
    with rejects("path"):
        read_table(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    with rejects("path"):
        read_table(tmp_path / "folder.csv")
    with rejects("path", expected="a file whose name ends in .csv or .parquet"):
        read_table("data.xlsx")
    with rejects("path"):
        write_csv(tmp_path / "none" / "data.csv", Table(("a",), [[1]]))


TABLE_REFUSALS = {
    "no rows": (lambda: Table(("a",), np.empty((0, 1))), ["values", "no rows"]),
    "no columns": (lambda: Table.from_any(np.empty((3, 0))), ["X", "(3, 0)", "minimum of 1"]),
    "one dimension": (lambda: Table.from_any([1, 2]), ["X", "(2,)", "two dimensions"]),
    "wrong width": (lambda: Table.from_any([[1, 2]], ["a"]), ["X", "2 columns", "1 expected: a"]),
    "wrong width, directly": (lambda: Table(("a",), [[1, 2]]), ["values", "2 columns", "1 expected: a"]),
    "name twice": (lambda: Table.from_any([[1, 2]], ["a", "a"]), ["names", "'a'", "twice"]),
    "NaN": (lambda: Table.from_any([[1, 2], [3, np.nan]]), ["X", "'x1'", "row 2", "missing"]),
    "NaN, directly": (lambda: Table(("a",), [[np.nan]]), ["values", "'a'", "row 1", "nan"]),
    "infinity": (lambda: Table.from_any([[np.inf]]), ["X", "'x0'", "row 1", "inf"]),
    "text": (lambda: Table.from_any([["1"]]), ["X", "<U1", "real numbers"]),
    "dates": (lambda: Table.from_any(np.zeros((1, 1), "M8[s]")), ["X", "datetime64", "real numbers"]),
    "text among objects": (
        lambda: Table.from_any(np.array([[1], ["two"]], dtype=object)),
        ["X", "'x0'", "row 2", "'two'"],
    ),
    "None among objects": (lambda: Table.from_any([[1], [None]]), ["X", "'x0'", "row 2", "missing"]),
    "masked": (lambda: Table.from_any(np.ma.masked_less([[1, 2]], 2)), ["X", "masked", "fill in"]),
    "frame with names": (lambda: Table.from_any(Frame({"a": [1]}), ["b"]), ["names", "['b']", "data frame"]),
    "frame with text": (lambda: Table.from_any(Frame({"a": [1], "b": ["x"]})), ["X", "'b'", "<U1"]),
    "frame with vectors": (lambda: Table.from_any(Frame({"a": [[1, 2]]})), ["X", "'a'", "int64"]),
    "unknown column": (lambda: Table(("a",), [[1]]).column("b"), ["name", "'b'", "there are a"]),
    "unknown selection": (lambda: Table(("a",), [[1]]).select(["b"]), ["names", "'b'", "there are a"]),
}


@pytest.mark.parametrize("case", TABLE_REFUSALS)
def test_bad_tables_are_refused_and_named(case):
    action, parts = TABLE_REFUSALS[case]
    with pytest.raises(InputError) as caught:
        action()
    for part in parts:
        assert part in str(caught.value)
