"""`dpmpc describe` among real server processes, and `dpmpc read` on what it wrote."""

import csv
import json
import random

import pytest

from dpmpc import TableOne
from dpmpc.app.cli.main import main
from dpmpc.release.release import Release

BUDGET = ("--epsilon", "2", "--delta", "1e-6")
BOUNDS = """
[columns.age]
lower = 18
upper = 100
step = 1

[columns.stay]
lower = 0
upper = 40
cells = 80
if_missing = "indicator"

[columns.sex]
yes = ["f"]
no = ["m"]

[columns.ward]
values = ["north", "south", "isle"]
"""
PEOPLE = 6000


def patients(path):
    """Write people of 40 on average in the north and of 60 in the south; one in eight lacks a stay."""
    rng = random.Random(1)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "ward", "age", "sex", "stay"])
        for number in range(PEOPLE):
            ward = "isle" if number % 2000 == 0 else "north" if number % 2 else "south"
            age = round(min(max(rng.gauss(40 if ward == "north" else 60, 8), 18), 100))
            writer.writerow(
                [number, ward, age, rng.choice("fm"), "" if number % 8 == 0 else f"{rng.uniform(0, 20):.1f}"]
            )
    return path


@pytest.fixture(scope="module")
def described(tmp_path_factory):
    """One run of real server processes; the other tests read what it wrote."""
    folder = tmp_path_factory.mktemp("describe")
    (folder / "bounds.toml").write_text(BOUNDS)
    words = ("--bounds", folder / "bounds.toml", "--by", "ward", *BUDGET, "--compare", "--out", folder / "result")
    assert main(["describe", *map(str, (patients(folder / "stays.csv"), *words))]) == 0
    return folder


def run(capsys, *words, status=0):
    assert main([str(word) for word in words]) == status, capsys.readouterr().err
    return capsys.readouterr()


def test_one_command_gives_table_one(described):
    """Counts within 5 standard errors of the noise, medians within two years: one false alarm in 10^6 or fewer."""
    content = json.loads((described / "result" / "result.json").read_text())
    assert (content["model"], content["clients"]) == ("table-one", PEOPLE)
    assert content["sketch"]["statistic"] == "cell-counts"
    result = content["result"]
    assert (result["by"], result["confidence_level"]) == ("ward", 0.95)
    north = result["numbers"]["age, ward = north"]
    assert north["median from"] <= north["median"] <= north["to"]
    assert north["median"] == pytest.approx(40, abs=2)
    assert result["numbers"]["age, ward = south"]["median"] == pytest.approx(60, abs=2)
    assert result["numbers"]["age, ward = isle"]["median"] is None
    everybody = result["numbers"]["stay, all"]
    assert abs(everybody["missing"] - PEOPLE / 8) < 5 * everybody["s.e. of missing"]
    assert result["categories"]["sex = yes, ward = north"]["%"] == pytest.approx(50, abs=6)
    assert content["warnings"] == ["Too few people to distinguish from none: isle."]


def test_the_page_has_tables_and_plots_and_not_what_is_not_private(described):
    page = (described / "result" / "report.html").read_text()
    assert page.count("<svg") >= 3
    assert "Distribution of age" in page
    exact = json.loads((described / "result" / "not_private.json").read_text())["quartiles"]["age, ward = north"]
    assert exact["people with a value"] == 3000
    assert "Quartiles of the data itself" not in page
    assert "not_private" not in (described / "result" / "result.json").read_text()


def test_read_gives_the_same_table_from_the_folder_and_from_the_file(described, capsys):
    written = json.loads((described / "result" / "result.json").read_text())
    for path in (described / "result", described / "result" / "release.dpmpc"):
        found = json.loads(run(capsys, "read", path, "--json").out)
        assert found["result"] == written["result"]
    text = run(capsys, "read", described / "result" / "release.dpmpc", "--level", "0.5", "--verbose").out
    assert "50 %" in text
    assert run(capsys, "read", described / "result", "--csv").out.startswith("group,people,std. error,%\nall,6000,")
    assert r"\begin{tabular}" in run(capsys, "read", described / "result", "--latex").out


def test_the_lines_of_python_on_the_page_read_it_again(described, monkeypatch):
    monkeypatch.chdir(described / "result")
    page = (described / "result" / "report.html").read_text()
    assert "from dpmpc import TableOne" in page
    found = TableOne().fit_release(Release.load("release.dpmpc"))
    assert found.quantile("age", 0.5, "south").value == pytest.approx(60, abs=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--by", "age"), "by: 'age' given, a number, a column expected whose values the bounds list"),
        (("--by", "city"), "by: 'city' given, a column of the bounds expected: there are age, stay, sex, ward"),
        (("--columns", "height"), "columns: no column 'height' in the bounds; there are age, stay, sex, ward"),
        (("--columns", "ward", "--by", "ward"), "columns: none given with 'ward'"),
        (("--level", "1"), "level: 1.0 given, a number strictly between 0 and 1 expected"),
        (("--sketch", "osnap"), "sketch: 'osnap' given, 'auto' or 'sum' expected with cell-counts"),
    ],
)
def test_bad_options_are_one_sentence(described, capsys, options, message):
    words = ("--bounds", described / "bounds.toml", *options, *BUDGET)
    err = run(capsys, "describe", described / "stays.csv", *words, status=2).err
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('if_missing = "indicator"', "", "column 'stay', row 1 (line 2): the value is missing; if_missing"),
        ('if_missing = "indicator"', 'if_missing = "middle"', "'indicator' expected, which counts them by themselves"),
        (', "isle"', "", "column 'ward', row 1 (line 2): isle given, one of north, south expected"),
        ("cells = 80", "cells = 800", "cells: 800 given, a whole number from 2 to 512 expected"),
        ("[columns.age]", 'incomplete = "zeros"\n[columns.age]', "neither expected where people are counted"),
    ],
)
def test_bad_bounds_are_one_sentence_and_nothing_is_written(described, capsys, tmp_path, old, new, message):
    bounds = tmp_path / "bounds.toml"
    bounds.write_text(BOUNDS.replace(old, new))
    words = ("--bounds", bounds, *BUDGET, "--out", tmp_path / "result")
    err = run(capsys, "describe", described / "stays.csv", *words, status=2).err
    assert message in err
    assert not (tmp_path / "result").exists()


def test_a_release_of_cells_has_no_regression(described, capsys):
    err = run(capsys, "read", described / "result" / "release.dpmpc", "--target", "age", status=2).err
    assert "of cell-counts given, of rows or second moments expected" in err


def test_a_plan_says_from_how_many_people_medians_are_told(described, capsys):
    """And its standard errors are those of the release, to the last digit that both share."""
    words = (
        "plan",
        "--model",
        "table-one",
        "--clients",
        PEOPLE,
        "--bounds",
        described / "bounds.toml",
        "--by",
        "ward",
        *BUDGET,
    )
    fields = json.loads(run(capsys, *words, "--json").out)
    assert (fields["model"], fields["by"], fields["clients"]) == ("table-one", "ward", PEOPLE)
    assert fields["bytes"]["client_to_last_server"] > 8 * 400
    row = fields["numbers"]["age"]
    assert 10 < row["median"] < row["quartiles"] < 500
    assert row["noise doubles the variance of a median below"] == pytest.approx(4 * row["s.e. of a rank"] ** 2, abs=1)
    released = json.loads((described / "result" / "result.json").read_text())["result"]["categories"]
    assert fields["categories"]["sex"]["s.e."] == pytest.approx(released["sex = yes, ward = north"]["std. error"])
    text = run(capsys, *words, "--verbose").out
    assert "People in a group of ward from which a number's quantiles are shown" in text
    assert "What is promised" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--columns", "4"), "bounds: none given, a bounds file expected"),
        (("--bounds", "BOUNDS", "--explained", ".5"), "explained: 0.5 given, but that is assumed for --model ridge"),
        (("--bounds", "BOUNDS", "--by", "age"), "by: 'age' given, a number, a column expected whose values"),
        (("--bounds", "BOUNDS", "--rows", "5"), "rows: 5 given, none expected with cell-counts"),
    ],
)
def test_plans_that_make_no_sense_are_one_sentence(described, capsys, options, message):
    given = [described / "bounds.toml" if one == "BOUNDS" else one for one in options]
    assert message in run(capsys, "plan", "--model", "table-one", "--clients", 500, *given, *BUDGET, status=2).err


def test_cells_are_proved_where_that_is_requested(described, capsys, tmp_path):
    """The same table as without, by servers' noise: every median within its own interval's reach of the other one."""
    words = (described / "stays.csv", "--bounds", described / "bounds.toml", "--by", "ward", *BUDGET, "--proved")
    told = run(capsys, "describe", *words, "--noise-by", "servers", "--json", "--out", tmp_path / "proved")
    fields = json.loads(told.out)
    assert fields["proofs"] | {"accepted": PEOPLE, "refused": {}} == fields["proofs"]
    assert fields["sketch"]["statistic"] == "proved-cell-counts"
    plain = json.loads((described / "result" / "result.json").read_text())["result"]["numbers"]
    found = fields["result"]["numbers"]
    for name in ("age, all", "age, ward = north", "age, ward = south", "stay, all"):
        assert plain[name]["median from"] - 2 <= found[name]["median"] <= plain[name]["to"] + 2, name
    assert found.keys() == plain.keys()
    again = run(capsys, "read", tmp_path / "proved", "--json")
    assert json.loads(again.out)["result"]["numbers"] == found


def test_proved_cells_need_noise_by_servers(described, capsys):
    words = ("--bounds", described / "bounds.toml", *BUDGET, "--proved")
    message = "noise that a client adds cannot be proved"
    assert message in run(capsys, "describe", described / "stays.csv", *words, status=2).err
