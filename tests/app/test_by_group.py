"""Regressions by group on the command line: plan, fit among real server processes, read in each form, predict."""

import csv
import io
import json
import random

import numpy as np
import pytest

from dpmpc import GroupedRidgeRegression
from dpmpc.app.cli.main import main
from dpmpc.release.release import Release
from support.command_inputs import status_of

BUDGET = ("--epsilon", "2", "--delta", "1e-6")
GROUPED = ("--model", "grouped-ridge", "--target", "stay")
BOUNDS = """
[columns.ward]
values = ["north", "south", "isle"]

[columns.age]
lower = 18
upper = 100

[columns.sex]
yes = ["f"]
no = ["m"]

[columns.stay]
lower = 0
upper = 40
"""


def patients(path, count=12_000, *, holes=0):
    """Write stays = 5 + slope (age - 18) + sex + noise, whose slope is .2 in the north and .1 elsewhere."""
    rng = random.Random(1)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "ward", "age", "sex", "stay"])
        for number in range(count):
            ward = "isle" if number % 6000 == 0 else "north" if number % 2 else "south"
            age, sex = rng.uniform(18, 100), rng.choice("fm")
            slope = 0.2 if ward == "north" else 0.1
            stay = 5 + slope * (age - 18) + (sex == "f") + rng.gauss(0, 2)
            writer.writerow([number, ward, "" if number < holes else f"{age:.1f}", sex, f"{stay:.2f}"])
    return path


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """One run of real server processes; the other tests read what it wrote."""
    folder = tmp_path_factory.mktemp("by_group")
    (folder / "bounds.toml").write_text(BOUNDS)
    data = patients(folder / "stays.csv")
    words = ("--bounds", folder / "bounds.toml", *GROUPED, "--by", "ward", *BUDGET)
    assert main(["fit", *map(str, (data, *words, "--out", folder / "result"))]) == 0
    return folder


def run(capsys, *words, status=0):
    assert status_of(words) == status, capsys.readouterr().err
    return capsys.readouterr()


def test_fit_writes_regressions_and_says_which_group_is_too_small(fitted):
    content = json.loads((fitted / "result" / "result.json").read_text())
    result = content["result"]
    assert (content["model"], content["features"], content["clients"]) == ("grouped-ridge", 2, 12_000)
    assert content["sketch"]["statistic"] == "grouped-second-moments"
    assert (result["target"], result["by"]) == ("stay", "ward")
    assert list(result["groups"]) == ["north", "south", "isle"]
    assert result["groups"]["north"]["coefficients"]["age"] == pytest.approx(0.2, abs=0.02)
    assert result["groups"]["south"]["coefficients"]["age"] == pytest.approx(0.1, abs=0.02)
    assert "coefficients" not in result["groups"]["isle"]
    assert result["groups"]["isle"]["left_out"].startswith("too few people: ")
    counted = result["groups"]["north"]
    assert 0 < abs(counted["people"] - 6000) < 6 * counted["people_standard_error"]  # false alarms: 2e-9
    assert result["pooled"]["coefficients"]["age"] == pytest.approx(0.15, abs=0.02)
    assert list(result["fixed_effects"]["slopes"]) == ["age", "sex"]
    assert list(result["fixed_effects"]["intercepts"]) == ["ward=north", "ward=south"]
    assert result["differences"]["age"]["p"] < 1e-6
    assert "not_private" not in result
    text = (fitted / "result" / "report.txt").read_text()
    assert "the sums of their second moments by group" in text
    assert "age: coefficient by ward" in text
    assert "isle: no regression, too few people: " in text
    row = next(line for line in text.splitlines() if line.startswith("isle "))
    assert row.split()[3:] == ["-", "-"]


def test_the_page_says_the_same_and_nothing_that_is_not_private(fitted):
    page = (fitted / "result" / "report.html").read_text()
    assert "<title>Ridge regressions of stay by ward</title>" in page
    assert "age: coefficient by ward." in page
    assert "isle: no regression, too few people: " in page
    assert "model = GroupedRidgeRegression(alpha=1.0)" in page
    assert "Coefficients of the data itself" not in page


def test_the_report_names_the_program_that_repeats_it(fitted):
    release = Release.load(fitted / "result" / "release.dpmpc")
    with pytest.warns(UserWarning, match="ward = isle: no regression"):
        model = GroupedRidgeRegression(alpha=1.0).fit_release(release, target="stay")
    groups = json.loads((fitted / "result" / "result.json").read_text())["result"]["groups"]
    for place, name in enumerate(("north", "south")):
        assert list(groups[name]["coefficients"].values()) == pytest.approx(model.coef_[place])


def test_read_shows_groups_in_each_form(fitted, capsys):
    path = fitted / "result" / "release.dpmpc"
    told = run(capsys, "read", path).out
    assert "\nBy ward\n" in told
    assert "Too few people to distinguish from none: isle." in told
    assert "\nCorrelations\n" in told
    assert "--target stay regresses that column on the others, in each group." in told
    told = run(capsys, "read", path, "--target", "stay", "--verbose")
    assert "isle: no regression, too few people: " in told.out
    assert "(all: fixed effects)" in told.out
    assert "3 times its variance" in told.out
    fields = json.loads(run(capsys, "read", path, "--target", "stay", "--json").out)
    assert fields["features"] == 2
    assert fields["result"]["groups"]["north"]["coefficients"]["age"] == pytest.approx(0.2, abs=0.02)
    rows = list(csv.reader(io.StringIO(run(capsys, "read", path, "--target", "stay", "--csv").out)))
    assert rows[0][:2] == ["ward", "people"]
    assert r"\begin{tabular}" in run(capsys, "read", path, "--target", "stay", "--latex").out
    assert "<h1>Ridge regressions of stay by ward</h1>" in run(capsys, "read", path, "--target", "stay", "--html").out
    assert "By ward." in run(capsys, "read", path, "--html").out
    alone = json.loads(run(capsys, "read", path, "--target", "stay", "--features", "age", "--json").out)
    assert list(alone["result"]["groups"]["south"]["coefficients"]) == ["age"]
    said = run(capsys, "read", path, "--target", "stay", "--group", "x=age", status=2).err
    assert "group: given, but regressions by group test no features together" in said
    assert "one of age, sex, stay" in run(capsys, "read", path, "--target", "ward", status=2).err


def test_predict_takes_each_row_by_its_group(fitted, capsys):
    new = fitted / "new.csv"
    new.write_text("id,ward,age,sex\na,north,50,f\nb,south,50,f\nc,isle,50,f\nd,,50,f\ne,north,,f\n")
    told = run(capsys, "predict", fitted / "result", new, "--id", "id")
    rows = {row[0]: row[1] for row in csv.reader(io.StringIO(told.out))}
    groups = json.loads((fitted / "result" / "result.json").read_text())["result"]["groups"]
    for name, group in (("a", "north"), ("b", "south")):
        found = groups[group]["coefficients"]
        assert float(rows[name]) == pytest.approx(groups[group]["intercept"] + 50 * found["age"] + found["sex"])
    assert [rows[name] for name in "cde"] == ["", "", ""]
    assert "no regression of isle: rows of it have no prediction" in told.err
    assert "3 of 5 rows lack a value or a regression of their group" in told.err
    again = run(capsys, "predict", fitted / "result" / "release.dpmpc", new, "--id", "id", "--target", "stay")
    assert again.out == told.out
    new.write_text("id,ward,age,sex\na,west,50,f\n")
    assert (
        "west given, one of north, south, isle expected" in run(capsys, "predict", fitted / "result", new, status=2).err
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"result": {"target": "stay"}}, "lacks a target, an intercept or coefficients"),
        ({"result": {"target": "stay", "by": "ward", "groups": []}}, "lacks a target"),
        ({"result": {"target": "stay", "by": "ward", "groups": {}}}, "has no regression of any group"),
        ({"result": {"target": "stay", "by": "ward", "groups": {"north": {"coefficients": None}}}}, "lacks a target"),
        (
            {"result": {"target": "stay", "by": "age", "groups": {"a": {"coefficients": {"age": 1}, "intercept": 0}}}},
            "by: 'age' given, a category",
        ),
    ],
)
def test_a_result_that_was_changed_is_refused(fitted, tmp_path, capsys, change, said):
    (tmp_path / "release.dpmpc").write_bytes((fitted / "result" / "release.dpmpc").read_bytes())
    (tmp_path / "result.json").write_text(json.dumps({"model": "grouped-ridge", "parameters": {}, **change}))
    (tmp_path / "new.csv").write_text("ward,age,sex\nnorth,50,f\n")
    assert said in run(capsys, "predict", tmp_path, tmp_path / "new.csv", status=2).err


def test_rows_that_lack_a_value_are_counted_with_noise(tmp_path, capsys):
    """The number of complete rows of each group is part of the release."""
    (tmp_path / "bounds.toml").write_text(BOUNDS)
    data = patients(tmp_path / "stays.csv", 6000, holes=2000)
    words = (
        "--bounds",
        tmp_path / "bounds.toml",
        *GROUPED,
        "--target",
        "stay",
        "--by",
        "ward",
        *BUDGET,
        "--json",
        "--compare",
    )
    assert "the value is missing" in run(capsys, "fit", data, *words, status=2).err
    content = json.loads(run(capsys, "fit", data, *words, "--zero-missing").out)
    assert (content["features"], content["clients"]) == (2, 6000)
    north = content["result"]["groups"]["north"]
    assert abs(north["people"] - 2000) < 6 * north["people_standard_error"]
    assert content["result"]["not_private"]["people"]["north"] == 2000
    assert content["result"]["pooled"]["rows_that_count"]["estimate"] == pytest.approx(4000, abs=200)


def test_plan_says_what_to_expect_of_a_group(fitted, capsys):
    words = ("plan", "--model", "grouped-ridge", "--clients", "30000", "--bounds", fitted / "bounds.toml")
    words = (*words, "--by", "ward", *BUDGET)
    told = run(capsys, *words).out
    assert "a group of 10,000" in told
    assert "all people, from all 3 blocks" in told
    fields = json.loads(run(capsys, *words, "--json").out)
    assert list(fields["expected_phi"]) == ["10000", "5000", "1000"]
    phi = [*fields["expected_phi"].values()]
    assert phi == sorted(phi)
    assert 1 < fields["pooled"] < phi[0]
    assert 50 < fields["smallest"] < 1000
    assert fields["one_hot"] == pytest.approx(3 * (4 / 5) ** 2)
    one = run(capsys, "plan", "--clients", "30000", "--columns", "3", "--sketch", "sum", *BUDGET, "--json").out
    assert fields["noise"]["released_sd"] == pytest.approx(json.loads(one)["noise"]["released_sd"], rel=1e-3)
    assert fields["bytes"]["client_to_last_server"] == 8 * 3 * 10


@pytest.mark.parametrize(
    ("command", "words", "said"),
    [
        ("fit", ("--by", "age"), "by: 'age' given, a number, a column expected whose values the bounds list"),
        ("fit", ("--by", "nobody"), "by: 'nobody' given, no category of the bounds"),
        (
            "fit",
            ("--by", "ward", "--model", "logistic"),
            "'--by' is not an option of this model",
        ),
        ("fit", ("--by", "ward", "--rounds", "2"), "'--rounds' is not an option of this model, but of --model ridge"),
        ("fit", ("--by", "ward", "--anyway"), "'--anyway' is not an option of this model, but of --model ridge"),
        ("fit", (), "by: none given, the column of groups expected (--by)"),
        ("fit", ("--by", "ward", "--sketch", "osnap"), "sketch: 'osnap' given, 'auto' or 'sum' expected where"),
        ("fit", ("--by", "ward", "--target", "ward=south"), "target: 'ward=south' given, which gives the group"),
        ("fit", ("--by", "ward", "--target", "x"), "target: no column 'x'"),
        ("fit", ("--by", "ward", "--alpha", "-1"), "alpha: -1.0 given"),
        ("fit", ("--by", "ward", "--proved", "--noise-by", "servers"), "proved: true given with grouped-second-"),
        ("plan", ("--model", "grouped-ridge", "--by", "age"), "by: 'age' given, a number"),
        ("plan", ("--by", "ward"), "'--by' is not an option of this model, but of --model grouped-ridge"),
    ],
)
def test_what_is_refused(fitted, tmp_path, capsys, command, words, said):
    data = (fitted / "stays.csv", *GROUPED) if command == "fit" else ("--clients", "30000")
    out = ("--out", tmp_path / "out") if command == "fit" else ()
    told = run(capsys, command, *data, "--bounds", fitted / "bounds.toml", *BUDGET, *words, *out, status=2)
    assert said in told.err
    assert not (tmp_path / "out").exists()


def test_without_a_bounds_file_there_are_no_groups(fitted, capsys):
    told = run(capsys, "fit", fitted / "stays.csv", *GROUPED, "--by", "ward", *BUDGET, status=2)
    assert "--bounds: none given, a bounds file that lists the groups expected" in told.err
    told = run(capsys, "plan", "--clients", "30000", "--columns", "3", *GROUPED, "--by", "ward", *BUDGET, status=2)
    assert "--bounds: none given, a bounds file that lists the groups expected" in told.err


def test_a_networked_fit_is_that_of_this_process(fitted, capsys):
    """Same seed, same numbers, whoever computes."""
    from dpmpc.base.randomness import stream_for
    from dpmpc.data import Schema
    from dpmpc.data.table_files import read_cells
    from dpmpc.privacy.specification import ReleaseSpec
    from dpmpc.release.planning import design
    from dpmpc.release.simulation import run as simulate

    words = (
        fitted / "stays.csv",
        *GROUPED,
        "--target",
        "stay",
        "--by",
        "ward",
        "--simulation-seed",
        "5",
        "--json",
        *BUDGET,
    )
    content = json.loads(run(capsys, "fit", *words, "--bounds", fitted / "bounds.toml").out)
    public = Schema.from_toml(fitted / "bounds.toml")
    table = public.codebook.encode(read_cells([fitted / "stays.csv"], public.codebook.sources))
    task = design(ReleaseSpec.of(public, len(table), 2.0, 1e-6, by="ward", simulation_seed=5))
    with pytest.warns(UserWarning, match="isle"):
        model = GroupedRidgeRegression().fit_release(simulate(task, table.values, stream=stream_for(5)), "stay")
    for place, name in enumerate(("north", "south")):
        found = content["result"]["groups"][name]
        assert np.array_equal(
            [*found["coefficients"].values(), found["intercept"]], [*model.coef_[place], model.intercept_[place]]
        )
