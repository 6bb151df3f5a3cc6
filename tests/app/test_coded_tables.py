"""From the file that a hospital exports to a fitted model and its predictions, on the command line."""

import csv
import io
import json

import pytest

from dpmpc.app.cli.main import main
from dpmpc.data import Schema
from dpmpc.data.csv_files import Dialect
from dpmpc.data.table_files import read_cells
from dpmpc.models.tables.coded_rows import predict_coded
from dpmpc.release.release import Release
from support.pages import ROOT, load
from support.rejections import rejects

BUDGET = ("--epsilon", "2", "--delta", "1e-6")
BOUNDS = """
missing = ["unknown", "-9"]

[columns.age]
lower = 18
upper = 100

[columns.ward]
values = ["surgery", "medicine", "intensive care"]
if_missing = "indicator"

[columns.admitted]
date = "%d.%m.%Y"
lower = "01.01.2024"
upper = "31.12.2025"

[columns.crp]
lower = 0.1
upper = 500
transform = "log"

[columns.died]
yes = ["1"]
no = ["0"]
"""


UNKNOWN = load(ROOT / "examples" / "messy_hospital.py").UNKNOWN


def rows_of(path):
    """Return the rows of the messy file."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file, delimiter=";"))


def write(path, count=3000, hidden=None):
    """Write the messy file; in the row `hidden` the age is unknown."""
    module = load(ROOT / "examples" / "messy_hospital.py")
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(module.HEADER)
        for place, row in enumerate(module.patients(count)):
            writer.writerow([*row[:3], "unknown" if place == hidden else row[3], *row[4:]])
    return path


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "bounds.toml").write_text(BOUNDS)
    return tmp_path


def run(capsys, *words, status=0):
    assert main([str(word) for word in words]) == status, capsys.readouterr().err
    return capsys.readouterr()


def test_from_a_messy_file_to_predictions(folder, capsys):
    """One run of real server processes; then everything is read from what it wrote."""
    data, out = write(folder / "hospital.csv"), folder / "result"
    bounds = ("--bounds", folder / "bounds.toml")
    told = run(
        capsys, "fit", data, "--decimal", ",", *bounds, "--target", "died", "--zero-missing", *BUDGET, "--out", out
    )
    assert "the weighted sum of their second moments" in told.out
    result = json.loads((out / "result.json").read_text())
    assert result["clients"] == 3000
    assert result["features"] == 6
    counted = result["result"]["rows_that_count"]
    complete = [row for row in rows_of(data) if not {row["age"], row["crp"]} & set(UNKNOWN)]
    assert 0 < abs(counted["estimate"] - len(complete)) < 6 * counted["standard_error"]  # false alarms: 2e-9
    names = ["age", "ward=medicine", "ward=intensive care", "ward=missing", "admitted", "log(crp)"]
    assert list(result["result"]["coefficients"]) == names
    assert "Rows that count: " in run(capsys, "read", out / "release.dpmpc", "--verbose").out

    new = folder / "new.csv"
    new.write_text("id;ward;age;crp;admitted\na;medicine;61;3,5;01.02.2024\nb;NA;200;2,0;02.02.2024\nc;surgery;;1;\n")
    told = run(capsys, "predict", out, new, "--decimal", ",", "--id", "id")
    rows = list(csv.reader(io.StringIO(told.out)))
    assert rows[0] == ["id", "predicted died"]
    assert [row[0] for row in rows[1:]] == ["a", "b", "c"]
    assert rows[3][1] == ""
    assert "1 of 3 rows lack a value" in told.err
    schema = Release.load(out / "release.dpmpc").task.schema
    assert schema.codebook.incomplete == "zeros"
    expected = predict_coded(
        schema,
        result["result"]["coefficients"],
        result["result"]["intercept"],
        read_cells(new, dialect=Dialect(decimal=",")),
    )
    assert [float(row[1]) for row in rows[1:3]] == pytest.approx(expected[:2])
    read = (out / "release.dpmpc", new, "--decimal", ",", "--target", "died", "--features", "ward=medicine")
    by_release = run(capsys, "predict", *read)
    assert [len(row) for row in csv.reader(io.StringIO(by_release.out))] == [2] * 4

    for words, said in [
        ((out, new, "--target", "age"), "target: 'age' given, but"),
        ((out / "release.dpmpc", new), "target: none given"),
        (
            (out / "release.dpmpc", new, "--target", "ward"),
            "target: 'ward' given, which the bounds code as 'ward=medicine'",
        ),
        ((folder, new), "result.json cannot be read"),
    ]:
        assert said in run(capsys, "predict", *words, "--decimal", ",", status=2).err
    for content, said in [
        ("{", "is not the result of a fit"),
        ("[]", "holds a model None"),
        (
            '{"model": "moment", "parameters": {}}',
            "holds a model 'moment', one of ridge, logistic, poisson, grouped-ridge expected",
        ),
        ('{"model": "ridge", "parameters": {}, "result": {}}', "lacks a target"),
        (
            '{"model": "ridge", "parameters": {}, "result": {"target": "y", "intercept": 0, "coefficients": {}}}',
            "not finite",
        ),
    ]:
        (out / "result.json").write_text(content)
        assert said in run(capsys, "predict", out, new, status=2).err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--zero-missing", "--fill-missing"), "zero_missing, fill_missing: both given"),
        (("--drop-missing", "--public-count", "9"), "--zero-missing or if_missing in the file expected"),
        (
            ("--zero-missing", "--model", "low-rank"),
            "low-rank, rounds: None given, 'ridge' with rounds = 0",
        ),
        (("--zero-missing", "--rounds", "2"), "rounds: 2 given, 'ridge' with rounds = 0 expected"),
        (
            ("--zero-missing", "--model", "logistic"),
            "logistic, rounds: None given, 'ridge' with rounds = 0",
        ),
        ((), "the value is missing; state what stands for it"),
        (("--target", "ward", "--fill-missing"), "target: 'ward' given, which the bounds code as 'ward=medicine'"),
    ],
)
def test_what_is_refused(folder, capsys, words, said):
    data = write(folder / "hospital.csv", 60, hidden=3)
    target = () if "low-rank" in words or "--target" in words else ("--target", "died")
    told = run(
        capsys, "fit", data, "--decimal", ",", "--bounds", folder / "bounds.toml", *target, *BUDGET, *words, status=2
    )
    assert said in told.err


def test_rows_of_zeros_need_bounds(folder, capsys):
    data = write(folder / "hospital.csv", 10)
    assert (
        "--zero-missing: given without bounds"
        in run(capsys, "fit", data, "--target", "died", *BUDGET, "--zero-missing", status=2).err
    )


def test_a_collection_takes_numbers_alone(folder, capsys):
    """Its clients send a row of numbers; one that cannot be coded would not come, and that would tell."""
    with rejects("bounds", Exception):
        Schema.of_numbers(folder / "bounds.toml")


def test_plan_reads_categories(folder, capsys):
    told = run(capsys, "plan", "--clients", "5000", "--bounds", folder / "bounds.toml", *BUDGET, "--json")
    assert json.loads(told.out)["features"] == 6
