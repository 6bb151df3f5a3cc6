"""Comparisons of groups on the command line: fit among real server processes, read in each form, refused to predict."""

import csv
import json
import random

import pytest

from dpmpc.app.cli.main import main
from support.command_inputs import status_of

BUDGET = ("--epsilon", "2", "--delta", "1e-6")
BOUNDS = """
[columns.arm]
values = ["old", "new", "rare"]

[columns.last]
lower = 0
upper = 100

[columns.age]
lower = 18
upper = 100

[columns.sex]
yes = ["f"]
no = ["m"]

[columns.spend]
lower = 0
upper = 100
"""


def trial(path, count=12_000, *, holes=0):
    """Write spend = habit + 2 for those of the new arm, and last = habit, both with noise."""
    rng = random.Random(1)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "arm", "last", "age", "sex", "spend"])
        for number in range(count):
            arm = "rare" if number % 6000 == 0 else "new" if number % 2 else "old"
            habit = rng.gauss(40, 10)
            spend = "" if number < holes else f"{habit + 2 * (arm == 'new') + rng.gauss(0, 3):.2f}"
            writer.writerow(
                [number, arm, f"{habit + rng.gauss(0, 3):.2f}", rng.randint(18, 90), rng.choice("fm"), spend]
            )
    return path


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """One run of real server processes; the other tests read what it wrote."""
    folder = tmp_path_factory.mktemp("compare")
    (folder / "bounds.toml").write_text(BOUNDS)
    data = trial(folder / "trial.csv")
    words = ("--bounds", folder / "bounds.toml", "--model", "compare", "--target", "spend", "--by", "arm")
    words = (*words, "--before", "last", *BUDGET, "--out", folder / "result", "--compare")
    assert main(["fit", *map(str, (data, *words))]) == 0
    return folder


def run(capsys, *words, status=0):
    assert status_of(words) == status, capsys.readouterr().err
    return capsys.readouterr()


def test_fit_writes_differences_of_the_columns_that_are_named(fitted):
    content = json.loads((fitted / "result" / "result.json").read_text())
    result = content["result"]
    assert (content["model"], content["clients"]) == ("compare", 12_000)
    assert content["parameters"] == {"before": ["last"], "control": None}
    assert content["columns"] == ["last", "spend"]  # age and sex would cost noise
    assert content["sketch"]["statistic"] == "grouped-second-moments"
    assert (result["target"], result["by"], result["control"], result["adjusted_for"]) == (
        *("spend", "arm", "old"),
        ["last"],
    )
    plain, adjusted = result["differences"]["new"], result["adjusted"]["new"]
    for found in (plain, adjusted):  # false alarms: 6e-7 each
        assert abs(found["estimate"] - 2) < 5 * found["standard_error"]
    assert adjusted["standard_error"] < 0.8 * plain["standard_error"]
    assert result["ratios"]["new"]["estimate"] == pytest.approx(42 / 40, abs=0.05)
    assert result["before"]["last"]["new"]["p"] > 1e-6
    assert result["groups"]["rare"]["left_out"].startswith("too few people in rare")
    assert "rare" not in result["differences"]
    page = (fitted / "result" / "report.html").read_text()
    assert "Difference from old, adjusted for last" in page
    assert "spend by arm, compared with old" in page
    assert "GroupComparison(before=[&#39;last&#39;], control=None)" in page or "GroupComparison(before=['last']" in page
    told = json.loads((fitted / "result" / "not_private.json").read_text())
    assert told["people"]["rare"] == 2
    assert told["means"]["new"] - told["means"]["old"] == pytest.approx(2, abs=0.6)


def test_read_computes_the_same_of_the_folder_and_of_the_release(fitted, capsys):
    result = json.loads((fitted / "result" / "result.json").read_text())["result"]
    again = json.loads(run(capsys, "read", fitted / "result", "--json").out)
    assert (again["model"], again["result"]) == ("compare", result)
    release = fitted / "result" / "release.dpmpc"
    words = ("read", release, "--model", "compare", "--target", "spend", "--before", "last")
    alone = json.loads(run(capsys, *words, "--json").out)
    assert alone["result"] == result
    turned = json.loads(run(capsys, *words, "--control", "new", "--level", ".9", "--json").out)["result"]
    assert turned["differences"]["old"]["estimate"] == -result["differences"]["new"]["estimate"]
    assert turned["confidence_level"] == 0.9
    assert "Difference from old, adjusted for last" in run(capsys, *words).out
    assert run(capsys, *words, "--csv").out.count("arm,difference,std. error,95% from,to,p") == 3
    assert "toprule" in run(capsys, *words, "--latex").out
    assert "<svg" in run(capsys, *words, "--html").out
    assert "Difference" in run(capsys, *words[:6]).out


def test_rows_that_lack_a_value_contribute_zeros(tmp_path, capsys):
    (tmp_path / "bounds.toml").write_text(BOUNDS)
    data = trial(tmp_path / "trial.csv", holes=600)
    words = (
        "fit",
        data,
        "--bounds",
        tmp_path / "bounds.toml",
        "--model",
        "compare",
        "--target",
        "spend",
        "--by",
        "arm",
    )
    result = json.loads(run(capsys, *words, "--zero-missing", *BUDGET, "--json").out)["result"]
    assert sum(group["people"] for group in result["groups"].values()) == pytest.approx(11_400, abs=150)
    assert abs(result["differences"]["new"]["estimate"] - 2) < 5 * result["differences"]["new"]["standard_error"]
    assert result["adjusted"] == result["before"] == {}


REFUSED = {
    "no target": (("--by", "arm"), "target: none given"),
    "no groups": (("--target", "spend"), "by: none given"),
    "groups that no bounds list": (("--target", "spend", "--by", "age"), "by: 'age' given"),
    "unknown groups": (("--target", "spend", "--by", "ward"), "by: 'ward' given, one of arm, last, age, sex, spend"),
    "unknown target": (("--target", "income", "--by", "arm"), "target: 'income' given, one of arm, last, age"),
    "unknown column before": (("--target", "spend", "--by", "arm", "--before", "id"), "before: 'id' given, one of"),
    "the target before": (("--target", "spend", "--by", "arm", "--before", "spend"), "before: 'spend' given, which is"),
    "a column twice": (("--target", "spend", "--by", "arm", "--before", "last,last"), "each once, expected"),
    "the group as the target": (
        ("--target", "arm=new", "--by", "arm"),
        "target: 'arm=new' given, which gives the group",
    ),
    "the group before": (("--target", "spend", "--by", "arm", "--before", "arm"), "before: 'arm' given, which gives"),
    "unknown control": (("--target", "spend", "--by", "arm", "--control", "x"), "control: 'x' given, one of old, new"),
    "a penalty": (
        ("--target", "spend", "--by", "arm", "--alpha", "2"),
        "'--alpha' is not an option of this model, but of --model ridge",
    ),
    "proofs": (("--target", "spend", "--by", "arm", "--proved", "--noise-by", "servers"), "proved"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_named_and_leaves_nothing_behind(case, fitted, tmp_path, capsys):
    words, said = REFUSED[case]
    arguments = ("fit", fitted / "trial.csv", "--bounds", fitted / "bounds.toml", "--model", "compare", *BUDGET)
    complaint = run(capsys, *arguments, "--out", tmp_path / "out", *words, status=2).err
    assert said in complaint
    assert list(tmp_path.iterdir()) == []


def test_without_bounds_and_for_other_models_the_options_are_refused(fitted, capsys):
    data = fitted / "trial.csv"
    words = ("fit", data, *BUDGET, "--target", "spend", "--model")
    assert "--bounds: none given" in run(capsys, *words, "compare", "--by", "arm", status=2).err
    assert "'--before' is not an option of this model, but of --model compare" in (
        run(capsys, *words, "ridge", "--before", "last", status=2).err
    )


def test_what_read_and_predict_refuse(fitted, capsys):
    folder = fitted / "result"
    release = folder / "release.dpmpc"
    for words, said in {
        ("read", folder, "--model", "compare"): "model: given, but",
        ("read", folder, "--before", "last"): "before: ('last',) given, but that is for --model compare",
        ("read", release, "--control", "new"): "control: 'new' given, but that is for --model compare",
        ("read", release, "--model", "compare"): "model: 'compare' given, a target and no groups expected",
        ("read", release, "--model", "compare", "--target", "spend", "--features", "last"): "features: ('last',) given",
        ("read", release, "--model", "compare", "--target", "age"): "target: 'age' given, one of last, spend expected",
        (
            "predict",
            folder,
            fitted / "trial.csv",
        ): "holds a model 'compare', one of ridge, logistic, poisson",
    }.items():
        assert said in run(capsys, *words, status=2).err
