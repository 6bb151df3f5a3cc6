"""Files as they come: separators, decimal commas, compressed files, standard input, several files."""

import gzip
import io
import sys
from unittest.mock import ANY

import pytest

from dpmpc.base.errors import InputError
from dpmpc.data import csv_files
from dpmpc.data.csv_files import Dialect
from dpmpc.data.table_files import column_names, read_cells, read_table
from support.rejections import rejects

TABLE = [[30.0, 1.5], [40.0, -2000.0]]


@pytest.fixture
def standard_input(monkeypatch):
    """Let a text come from standard input."""

    def give(text):
        csv_files._standard_input.cache_clear()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    yield give
    csv_files._standard_input.cache_clear()


@pytest.mark.parametrize(
    ("name", "text", "dialect"),
    [
        ("a.csv", "age,income\n30,1.5\n40,-2e3\n", Dialect()),
        ("a.tsv", "age\tincome\n30\t1.5\n40\t-2e3\n", Dialect()),
        ("a.csv", "age;income\n30;1,5\n40;-2e3\n", Dialect(decimal=",")),
        ("a.csv", "age|income\n30|1,5\n40|-2000,0\n", Dialect("|", ",")),
        ("a.csv", "age\tincome\n30\t1.5\n40\t-2e3\n", Dialect("tab")),
    ],
)
def test_dialects(tmp_path, standard_input, name, text, dialect):
    path = tmp_path / name
    path.write_text(text)
    assert read_table(path, dialect=dialect).values.tolist() == TABLE
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert read_table(packed, dialect=dialect).values.tolist() == TABLE
    assert read_table(packed, ["income"], dialect=dialect).values.tolist() == [[1.5], [-2000.0]]
    assert column_names(packed, dialect) == ("age", "income")
    if not name.endswith(".tsv"):
        standard_input(text)
        assert read_table("-", dialect=dialect).values.tolist() == TABLE


def test_standard_input_is_read_once_and_kept(standard_input):
    standard_input("age,town\n30,A\n,B\n")
    assert read_table("-", ["age"], fill=0).values.tolist() == [[30], [0]]
    assert read_cells("-", ["town"]).columns == [["A", "B"]]
    with rejects("-: column 'town', row 1 (line 2)"):
        read_table("-")
    with rejects("path", given="'-' given twice, standard input can be read only once"):
        read_table(["-", "-"])


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        (("ab",), "separator"),
        (('"',), "separator"),
        (("\n",), "separator"),
        (("7",), "separator"),
        (("",), "separator"),
        ((",", ","), "separator"),
        ((None, "'"), "decimal"),
    ],
)
def test_bad_dialects(arguments, argument):
    with rejects(argument):
        Dialect(*arguments)


def test_marks_of_thousands_are_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("age;income\n30;1.234,5\n")
    with pytest.raises(InputError, match=r"column 'income', row 1 \(line 2\): '1\.234,5' is not a number"):
        read_table(path, dialect=Dialect(decimal=","))


def test_a_wrong_separator_names_the_option(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("age;income\n30;1,5\n")
    with pytest.raises(InputError, match=r"--separator ';'.*--decimal ,"):
        read_table(path)


@pytest.mark.parametrize("content", [b"age\n1\n", gzip.compress(b"age\n1\n2\n", mtime=0)[:-9], b"\x1f\x8b\x08\x00 no"])
def test_broken_compressed_files_are_refused(tmp_path, content):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(content)
    with pytest.raises(InputError, match="not a whole gzip file"):
        read_table(path)


def test_several_files_continue_each_other(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    folder = tmp_path / "parts"
    folder.mkdir()
    pq.write_table(pa.table({"age": [1, 2], "town": ["A", None]}), folder / "1.parquet")
    pq.write_table(pa.table({"town": ["B"], "age": [3]}), folder / "2.parquet")
    more = tmp_path / "more.csv"
    more.write_text("town,age\nC,4\nD,x\n")
    assert read_table(folder, ["age"]).values.ravel().tolist() == [1, 2, 3]
    cells = read_cells([folder, more])
    assert cells.names == ("age", "town")
    assert cells.columns == [["1", "2", "3", "4", "x"], ["A", None, "B", "C", "D"]]
    assert cells.place("age", 4).endswith(f"row 2 (line 3) of {more}")
    with rejects(ANY, given="'x' is not a number; no column holds only numbers"):
        read_table([folder, more], ["age"])
    more.write_text("town\nC\n")
    with pytest.raises(InputError, match=r"more\.csv: no column 'age', which .*1\.parquet has"):
        read_table([folder, more])
    (tmp_path / "empty").mkdir()
    with rejects("path"):
        read_table(tmp_path / "empty")
    with rejects("path", given="no file"):
        read_table([])


def test_a_missing_value_is_located_in_its_file(tmp_path):
    first, second = tmp_path / "1.csv", tmp_path / "2.csv"
    first.write_text("age\n1\n2\n")
    second.write_text("age\n3\nNA\n")
    with pytest.raises(InputError, match=r"row 2 \(line 3\) of .*2\.csv: the value is missing"):
        read_table([first, second])
    assert read_table([first, second], drop_missing=True).dropped == 1
