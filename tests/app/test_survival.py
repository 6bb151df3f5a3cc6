"""`dpmpc fit --model survival` among real server processes, and `dpmpc read` on what it wrote."""

import csv
import json
import random

import pytest

from dpmpc.app.cli.main import main
from support.command_inputs import status_of

BUDGET = ("--epsilon", "2", "--delta", "1e-6")
BOUNDS = """
[columns.months]
lower = 0
upper = 60
cells = 60

[columns.died]
lower = 0
upper = 1

[columns.arm]
values = ["standard", "new"]

[columns.stage]
values = ["I", "II", "IX"]

[columns.age]
lower = 0
upper = 100
"""
PEOPLE = 4000
WORDS = ("--model", "survival", "--time", "months", "--event", "died")
COX = ("--model", "cox", *WORDS[2:])


def patients(path):
    """Write people whose medians are about 24 and 48 months; some are observed beyond 60."""
    rng = random.Random(1)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "arm", "months", "died", "stage", "age"])
        for number in range(PEOPLE):
            arm = ("standard", "new")[number % 2]
            event, left = rng.expovariate(0.69 / (24, 48)[number % 2]), rng.uniform(10, 90)
            writer.writerow(
                [number, arm, f"{min(event, left):.2f}", int(event <= left), "I" if number % 3 else "II", 50]
            )
    return path


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """One run of real server processes; the other tests read what it wrote."""
    folder = tmp_path_factory.mktemp("survival")
    (folder / "bounds.toml").write_text(BOUNDS)
    words = (*WORDS, "--bounds", folder / "bounds.toml", "--by", "arm", *BUDGET, "--compare", "--out", folder / "out")
    assert main(["fit", *map(str, (patients(folder / "people.csv"), *words))]) == 0
    return folder


def run(capsys, *words, status=0):
    assert status_of(words) == status, capsys.readouterr().err
    return capsys.readouterr()


def test_one_command_gives_curves_and_a_test(fitted):
    """Medians within four months and the test far beyond doubt: one false alarm in 10^6 or fewer."""
    content = json.loads((fitted / "out" / "result.json").read_text())
    assert (content["model"], content["clients"]) == ("survival", PEOPLE)
    assert content["parameters"] == {"time": "months", "event": "died", "by": "arm"}
    result = content["result"]
    assert (result["time"], result["event"], result["by"]) == ("months", "died", "arm")
    assert result["people"]["standard"]["median"] == pytest.approx(24, abs=4)
    assert result["people"]["new"]["median"] == pytest.approx(48, abs=8)
    assert result["log_rank"]["p_value"] < 1e-6
    assert result["log_rank"]["groups"] == ["standard", "new"]
    assert result["curves"]["new"][-1]["time"] == 60
    for point in result["curves"]["new"]:
        assert point["lower"] <= point["upper"] <= 1
        assert point["at_risk"] > 4 * point["at_risk_std_error"]


def test_curves_are_read_of_proved_cells(fitted, capsys):
    words = (*WORDS, "--bounds", fitted / "bounds.toml", "--by", "arm", *BUDGET, "--proved", "--noise-by", "servers")
    content = json.loads(run(capsys, "fit", fitted / "people.csv", *words, "--json").out)
    assert content["proofs"]["accepted"] == PEOPLE
    assert content["sketch"]["statistic"] == "proved-cell-counts"
    assert content["result"]["people"]["standard"]["median"] == pytest.approx(24, abs=4)
    assert content["result"]["log_rank"]["p_value"] < 1e-6


def test_the_page_has_the_plot_and_says_that_numbers_at_risk_are_noisy(fitted):
    page = (fitted / "out" / "report.html").read_text()
    assert "Survival curves" in page
    assert "people at risk, with noise of standard error" in page
    assert "cannot be shown from there on" in page
    assert "from dpmpc import KaplanMeier" in page
    assert "of the data itself" not in page
    exact = json.loads((fitted / "out" / "not_private.json").read_text())
    assert exact["people"]["new"]["people"] == pytest.approx(PEOPLE / 2)
    assert exact["log_rank"]["p_value"] < 1e-6


def test_read_gives_the_same_from_the_folder_and_from_the_file(fitted, capsys):
    written = json.loads((fitted / "out" / "result.json").read_text())["result"]
    release = fitted / "out" / "release.dpmpc"
    for words in ((fitted / "out",), (release,), (release, "--model", "survival", "--by", "arm", "--time", "months")):
        assert json.loads(run(capsys, "read", *words, "--json").out)["result"] == written
    assert run(capsys, "read", fitted / "out", "--csv").out.startswith("arm,people,s.e. of people,events")
    assert r"\begin{tabular}" in run(capsys, "read", fitted / "out", "--latex").out
    everybody = json.loads(run(capsys, "read", release, "--model", "survival", "--until", "24", "--json").out)["result"]
    assert list(everybody["curves"]) == ["all"]
    assert (everybody["until"], everybody["log_rank"]) == (24, None)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--by", "arm"), "by: 'arm' given, but that is for --model survival"),
        (("--model", "survival", "--by", "ward"), "by: 'ward' given, one of arm expected"),
        (("--model", "survival", "--time", "age"), "time: 'age' given, one of months expected"),
        (
            ("--model", "survival", "--event", "arm"),
            "--event: 'arm' given, a variable with the answers yes and no expected",
        ),
        (("--model", "survival", "--target", "months"), "no target and no groups expected with it"),
        (("--model", "survival", "--until", "61"), "until: 61 given, more than 0 and at most 60 expected"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(fitted, capsys, words, message):
    assert message in run(capsys, "read", fitted / "out" / "release.dpmpc", *words, status=2).err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--model", "survival", "--event", "died"), "time: none given, the column of times until the event expected"),
        (("--model", "survival", "--time", "months"), "event: none given, the column of events (yes or no)"),
        ((*WORDS, "--event", "dead"), "event: 'dead' given, a column of the bounds expected: there are months"),
        ((*WORDS, "--event", "stage"), "event: 'stage' given, a category, an answer expected"),
        ((*WORDS, "--by", "age"), "by: 'age' given, a number, a column with listed values expected"),
        (
            (*COX, "--features", "arm,age"),
            "features: 'age' given, a number, a column with listed values expected: cont",
        ),
        ((*COX, "--features", "arm", "--by", "arm"), "'--by' is not an option of this model"),
        (COX, "features: none given, the column of features expected (--features)"),
        ((*COX, "--features", "arm,,stage"), "'arm,,stage' given, names between commas expected"),
        ((*WORDS, "--until", "61"), "until: 61 given, more than 0 and at most 60 expected"),
        ((*WORDS, "--target", "age"), "'--target' is not an option"),
        ((*WORDS, "--fill-missing"), "--fill-missing: given, but people are counted as they are"),
        (
            ("--model", "ridge", "--target", "age", "--time", "months"),
            "'--time' is not an option",
        ),
    ],
)
def test_bad_options_are_one_sentence_and_nothing_is_written(fitted, capsys, tmp_path, words, message):
    given = (fitted / "people.csv", "--bounds", fitted / "bounds.toml", *BUDGET, *words, "--out", tmp_path / "out")
    err = run(capsys, "fit", *given, status=2).err
    assert message in err
    assert "Traceback" not in err
    assert not (tmp_path / "out").exists()


def test_features_give_hazard_ratios_and_the_folder_gives_them_again(fitted, capsys, tmp_path):
    """The hazard of one arm is half of the other's: within a third, one false alarm in 10^6 or fewer."""
    given = (fitted / "people.csv", "--bounds", fitted / "bounds.toml", *BUDGET, *COX, "--features", "arm")
    run(capsys, "fit", *given, "--compare", "--out", tmp_path / "out")
    content = json.loads((tmp_path / "out" / "result.json").read_text())
    assert content["model"] == "cox"
    assert content["parameters"] == {"time": "months", "event": "died", "features": ["arm"]}
    assert content["result"]["coefficients"]["arm = new"]["hazard ratio"] == pytest.approx(0.5, rel=1 / 3)
    exact = json.loads((tmp_path / "out" / "not_private.json").read_text())["coefficients"]["arm = new"]
    assert exact["hazard ratio"] == pytest.approx(0.5, rel=0.1)
    again = json.loads(run(capsys, "read", tmp_path / "out", "--json").out)
    assert again["result"] == content["result"]
    words = ("--model", "survival", "--features", "arm", "--json")
    assert json.loads(run(capsys, "read", fitted / "out" / "release.dpmpc", *words).out)["result"]["features"] == [
        "arm"
    ]
    assert "differs from that of the first value" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("upper = 1\n", "upper = 2\n", "event: 'died' given, a number, an answer expected: yes = [...] and no = [...]"),
        ("cells = 60", "cells = 512", "time: 'months' with 512 cells given, at most 255 expected"),
        ("lower = 0\nupper = 60\ncells = 60", 'lower = "a"\nupper = "b"', "months"),
        ('["standard", "new"]', '["standard", "old"]', "row 2 (line 3): new given, one of standard, old expected"),
    ],
)
def test_bad_bounds_are_one_sentence(fitted, capsys, tmp_path, old, new, message):
    bounds = tmp_path / "bounds.toml"
    bounds.write_text(BOUNDS.replace(old, new))
    err = run(capsys, "fit", fitted / "people.csv", *WORDS, "--bounds", bounds, "--by", "arm", *BUDGET, status=2).err
    assert message in err


def test_without_bounds_nothing_is_fitted(fitted, capsys):
    assert "bounds: none given" in run(capsys, "fit", fitted / "people.csv", *WORDS, *BUDGET, status=2).err


def test_a_plan_says_how_many_people_curves_and_a_test_need(fitted, capsys):
    """A trial of 686 is too small at epsilon = 1: the noise more than doubles what a hazard ratio of 1.5 needs."""
    words = ("plan", "--model", "survival", "--time", "months", "--event", "died", "--by", "arm", "--delta", "1e-6")
    given = (*words, "--bounds", fitted / "bounds.toml", "--clients", 686, "--epsilon")
    fields = json.loads(run(capsys, *given, 1, "--json").out)
    assert (fields["model"], fields["by"], fields["assumed_events"]) == ("survival", "arm", 0.5)
    test = fields["log_rank"]["hazard ratio 1.5"]
    assert test["with this noise"] > 2 * test["without noise"] > 700
    assert test["with this noise"] > 686
    assert test["power of 686"] < 0.7
    assert fields["curves"]["60"]["shown from so many people on"] < 686
    plenty = json.loads(run(capsys, *given, 100, "--json").out)["log_rank"]["hazard ratio 1.5"]
    # without noise: (z_.975 + z_.8)^2 / log(1.5)^2 = 47.7 = n / 4 times half of the people
    assert plenty["with this noise"] <= plenty["without noise"] + 2
    assert plenty["without noise"] == pytest.approx(47.7 * 8, rel=0.03)
    assert "People for a log-rank test of two of the groups" in run(capsys, *given, 1).out
    alone = json.loads(run(capsys, *[w for w in given if w not in ("--by", "arm")], 1, "--json").out)
    assert alone["log_rank"] is None


def test_a_plan_says_what_cells_that_are_too_wide_would_withhold(fitted, capsys, tmp_path):
    bounds = tmp_path / "bounds.toml"
    words = ("plan", "--model", "survival", "--time", "months", "--event", "died", "--by", "arm", "--delta", "1e-6")
    given = (*words, "--bounds", bounds, "--clients", 10_000, "--epsilon", 3)
    bounds.write_text(BOUNDS.replace("cells = 60", "cells = 5"))
    found = json.loads(run(capsys, *given, "--json").out)["order_within_cells"]
    assert len(found) == 2
    assert not any(one["told"] or one["standard_errors"] < 1 for one in found.values())
    said = " ".join(run(capsys, *given).out.split())
    assert "If all who have no event leave evenly, and none where a cell ends, it could move" in said
    assert "so that it would be withheld: narrower cells of the time would do" in said
    bounds.write_text(BOUNDS)
    assert all(one["told"] for one in json.loads(run(capsys, *given, "--json").out)["order_within_cells"].values())
    bounds.write_text(BOUNDS.replace("cells = 60", "step = 1"))
    assert json.loads(run(capsys, *given, "--json").out)["order_within_cells"] == {}
    assert "Each cell is one time" in run(capsys, *given).out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--model", "survival", "--time", "months"),
            "event: none given, the column of events (yes or no) expected",
        ),
        (("--model", "survival", *WORDS[2:], "--by", "age"), "by: 'age' given, a number, a column with listed values"),
        (("--model", "survival", *WORDS[2:], "--events", "1"), "events: 1.0 given, a number strictly between 0 and 1"),
        (
            ("--model", "survival", *WORDS[2:], "--effect", "1"),
            "effect: 1.0 given, but that is assumed for --model logistic, poisson",
        ),
        (("--time", "months"), "'--time' is not an option of this model, but of --model survival, cox"),
    ],
)
def test_plans_that_make_no_sense_are_one_sentence(fitted, capsys, words, message):
    given = ("plan", "--clients", 500, "--bounds", fitted / "bounds.toml", *BUDGET)
    assert message in run(capsys, *given, *words, status=2).err
