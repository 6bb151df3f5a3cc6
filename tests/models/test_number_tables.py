"""Tables of numbers: each form escapes names and keeps its digits."""

import csv
import io
import math
import sys

from dpmpc.release.results import NumberTable
from dpmpc.release.results.number_tables import latex_text, number_text
from support.rejections import rejects

HOSTILE = ["a_b & 50%", "=1+1", "<script>", "esc\x1b[31m"]
TABLE = NumberTable("Title", {"x": [1 / 3, 1e-9, math.nan, 2.0]}, HOSTILE, notes=["n_1 < 2"])


def test_text_has_no_control_characters():
    assert "\x1b" not in str(TABLE)
    assert "0.33333" in str(TABLE)


def test_csv_keeps_all_digits_and_defuses_formulas():
    rows = list(csv.reader(io.StringIO(TABLE.to_csv())))
    assert float(rows[1][1]) == 1 / 3
    assert rows[2][0] == "'=1+1"
    assert rows[3][1] == ""


def test_latex_is_escaped():
    text = TABLE.to_latex()
    assert r"a\_b \& 50\%" in text
    assert r"$1 \cdot 10^{-9}$" in text
    assert "--" in text
    assert latex_text("\\^~{}\n") == r"\textbackslash{}\textasciicircum{}\textasciitilde{}\{\}\textbackslash{}n"


def test_html_is_escaped():
    assert "<script>" not in TABLE.to_html()
    assert TABLE._repr_html_() == TABLE.to_html()


def test_json_has_null_where_there_is_no_number():
    assert TABLE.to_dict()["<script>"] == {"x": None}
    assert number_text(math.inf) == "-"


def test_data_frame_needs_pandas(monkeypatch):
    assert TABLE.to_frame().loc["=1+1", "x"] == 1e-9
    monkeypatch.setitem(sys.modules, "pandas", None)
    with rejects("to_frame", given="pandas is not installed; pip install pandas, or use to_csv()"):
        TABLE.to_frame()


def test_columns_have_the_length_of_the_names():
    with rejects("columns", given="1 numbers of 'x'"):
        NumberTable("", {"x": [1.0]}, ["a", "b"])
