"""`dpmpc fit` of models in rounds: real servers for each sum, one budget, and what is written and printed."""

import json
import math
import shutil

import numpy as np
import pytest

from dpmpc import LogisticRegression, PoissonRegression, RidgeRegression
from dpmpc.data import Column, Schema, Table, write_csv
from dpmpc.models.rounds import SavedReleases
from dpmpc.parties import networked
from dpmpc.parties.network.meter import PhaseCost, RunStatistics
from dpmpc.release import simulation
from dpmpc.release.release import Release
from support.command_inputs import run
from support.html_page import Page

FEATURES = (Column("age", 18, 90), Column("smoker", 0, 1))
REPORTS = ["report.html", "report.txt", "result.json"]
BUDGET = ["--epsilon", "3", "--delta", "1e-6", "--simulation-seed", "7"]


def people(clients, kind, seed=0):
    """The target is in the middle, so that columns have to be put in order."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.uniform(18, 90, clients).round(), rng.random(clients) < 0.3]).astype(float)
    eta = -2 + 0.04 * X[:, 0] - 0.8 * X[:, 1]
    y = {
        "logistic": lambda: rng.random(clients) < 1 / (1 + np.exp(-eta)),
        "poisson": lambda: rng.poisson(np.exp(0.3 * eta)).clip(0, 12),
        "ridge": lambda: (eta + rng.normal(0, 0.5, clients)).clip(-6, 6),
        "rare": lambda: rng.random(clients) < 0.004,
    }[kind]()
    return Table(("age", "ill", "smoker"), np.column_stack([X[:, 0], y, X[:, 1]]).astype(float))


@pytest.fixture
def place(tmp_path):
    """Write the people and their bounds, and return the beginning of the command."""

    def write(kind, bounds, clients=3000):
        write_csv(tmp_path / "people.csv", people(clients, kind))
        schema = Schema((FEATURES[0], Column("ill", *bounds), FEATURES[1]))
        (tmp_path / "bounds.toml").write_text(schema.to_toml())
        return ["fit", tmp_path / "people.csv", "--target", "ill", "--bounds", tmp_path / "bounds.toml", *BUDGET]

    return write


def in_process(model, kind, bounds, clients=3000):
    """The same fit in this process, from the same seed."""
    table = people(clients, kind).select(["age", "smoker", "ill"])
    schema = {"age": (18, 90), "smoker": (0, 1), **({"y": bounds} if isinstance(model, RidgeRegression) else {})}
    model.set_params(bounds=schema, epsilon=3.0, delta=1e-6, simulation_seed=7)
    return model.fit(table.select(["age", "smoker"]), table.column("ill"))


def test_logistic_fit_over_servers(place, tmp_path, capsys):
    """What three server processes find is what one process finds from the same seed; everything is written and read."""
    out = tmp_path / "result"
    command = [*place("logistic", (0, 1)), "--model", "logistic", "--rounds", "1"]
    status, printed, told = run(capsys, *command, "--json", "--compare", "--out", out)
    assert status == 0, told
    assert printed.count("\n") == 1
    fields = json.loads(printed)
    assert {"model", "clients", "features", "servers", "sketch", "privacy", "timing", "result"} <= set(fields)
    assert (fields["model"], fields["clients"], fields["features"], fields["servers"]) == ("logistic", 3000, 2, 3)
    assert (fields["privacy"]["epsilon"], fields["privacy"]["neighbouring"]) == (3.0, "replace-one")
    assert 2.99 < fields["privacy"]["achieved_epsilon"] <= 3.0
    names = ["second-moments", "clipped-scores", "scores", "scores"]
    assert [one["statistic"] for one in fields["releases"]] == names
    assert [one["share"] for one in fields["releases"]] == pytest.approx([0.2, 0.3, 0.2, 0.3], rel=1e-3)
    assert [entry["server"] for entry in fields["timing"]["per_server"]] == [0, 1, 2]
    assert all(entry["bytes_sent"] > 2 * 8 * 9 for entry in fields["timing"]["per_server"])
    alone = in_process(LogisticRegression(rounds=1, classes=[0, 1]), "logistic", (0, 1))
    result = fields["result"]
    assert list(result["coefficients"].items()) == [("age", alone.coef_[0]), ("smoker", alone.coef_[1])]
    found = alone.inference()
    assert list(result["standard_errors"].values()) == found.standard_errors.tolist()
    assert list(result["estimates"].values()) == found.coef.tolist()
    assert result["odds_ratios"]["age"] == pytest.approx(math.exp(found.coef[0]))
    low, high = result["odds_ratio_intervals"]["smoker"]
    assert low < math.exp(found.coef[1]) < high
    assert result["noise_part"] == alone.noise_part_
    assert (result["rounds"], result["verdict"]) == (1, None)
    beside = result["not_private"]
    assert beside["best_loss"] < beside["loss"] < beside["trivial_loss"]
    assert beside["converged"]
    # What was written computes the same again, and names what it belongs to.
    files = sorted(path.name for path in out.iterdir())
    assert files == ["not_private.json", *(f"release-{number}.dpmpc" for number in range(4)), *REPORTS]
    assert json.loads((out / "not_private.json").read_text()) == result.pop("not_private")
    assert json.loads((out / "result.json").read_text()) == fields
    saved = SavedReleases([Release.load(out / one["file"]) for one in fields["releases"]], epsilon=3.0)
    again = LogisticRegression(rounds=1).fit_rounds(saved)
    assert np.array_equal(again.coef_, alone.coef_)
    assert again.guarantee_.achieved_epsilon == alone.guarantee_.achieved_epsilon
    page = Page((out / "report.html").read_text(encoding="utf-8"))
    assert "Logistic regression of ill" in page.text
    assert result["coefficients"]["age"] in page.numbers
    assert beside["coefficients"]["age"] not in page.numbers
    text = (out / "report.txt").read_text()
    for words in (
        "Odds ratios",
        "odds ratio",
        "second moments",
        "steering round 1",
        "last round 2",
        "differential privacy for each of 3,000",
    ):
        assert words in text
    assert "Not private" not in text


@pytest.fixture
def one_process(monkeypatch):
    """Have every sum made in this process: what is tested is the command, and servers are tested above."""
    phases = {name: PhaseCost() for name in ("read", "transform", "open", "fit")}
    nothing = RunStatistics(0, 0.0, 0, phases, 0.0, 0.0, 0, 0, 0, 0, {}, None, 1.0)

    def made(task, rows, *, stream, **options):
        release = simulation.run(task, rows, stream=stream)
        return networked.NetworkedRun({}, (nothing,) * task.trust.servers, nothing, 0.0, 0.0, release)

    monkeypatch.setattr(networked, "run", made)


@pytest.mark.usefixtures("one_process")
def test_poisson_fit(place, capsys):
    command = [*place("poisson", (0, 12)), "--model", "poisson", "--rounds", "1", "--compare"]
    status, printed, told = run(capsys, *command)
    assert status == 0, told
    alone = in_process(PoissonRegression(rounds=1, most=12), "poisson", (0, 12))
    for words in ("Rate ratios", "rate ratio", f"{alone.coef_[0]:.5g}", "Not private"):
        assert words in printed
    if alone.no_interval_ is not None:
        assert f"There are no standard errors and no intervals: {alone.no_interval_}." in " ".join(printed.split())
    assert ("95% from" in printed) == (alone.no_interval_ is None)


@pytest.mark.usefixtures("one_process")
def test_ridge_in_rounds(place, tmp_path, capsys):
    out = tmp_path / "result"
    status, printed, told = run(capsys, *place("ridge", (-6, 6)), "--rounds", "2", "--json", "--out", out)
    assert status == 0, told
    assert "forecast: 95% intervals of ± " in told
    fields = json.loads(printed)
    alone = in_process(RidgeRegression(rounds=2), "ridge", (-6, 6))
    result, found = fields["result"], alone.inference()
    assert list(result["coefficients"].values()) == pytest.approx(alone.coef_.tolist(), rel=1e-12)
    assert list(result["standard_errors"].values()) == pytest.approx(found.standard_errors.tolist(), rel=1e-12)
    assert (result["rounds"], result["no_interval"], result["verdict"]) == (2, None, None)
    assert 0 < result["noise_part"] < 0.5
    assert fields["warnings"] == []
    assert fields["parameters"] == {"rounds": 2, "intervals": True, "private_bounds": False}
    assert "approximation_factor" not in json.dumps(fields)
    names = ["second-moments", "clipped-scores", "clipped-scores", "residual-products"]
    assert [one["statistic"] for one in fields["releases"]] == names
    text = (out / "report.txt").read_text()
    assert "2 steering rounds after the sum of second moments, and 1 sum for errors" in " ".join(text.split())
    assert "R^2" not in text
    page = Page((out / "report.html").read_text(encoding="utf-8")).text
    assert "Ridge regression of ill" in page
    assert "Verdict." not in page


@pytest.mark.usefixtures("one_process")
def test_a_fit_stops_before_it_spends_where_every_interval_would_rest_on_the_bounds(place, tmp_path, capsys):
    """By public numbers alone; a prediction alone, and whoever wants such intervals, go on."""
    out = tmp_path / "result"
    command = [*place("ridge", (-6, 6), 400), "--rounds", "2", "--epsilon", "0.1", "--out", out]
    status, _, told = run(capsys, *command)
    assert status == 2
    assert "every interval of 2 slopes is expected to rest on the bounds" in told
    assert "Nothing was spent" in told
    assert not out.exists()
    needed = int(told.split("About ")[1].split(" people")[0].replace(",", ""))
    assert 3000 < needed < 300_000
    assert run(capsys, *command, "--predict-only")[0] == 0
    shutil.rmtree(out)
    status, printed, _ = run(capsys, *command, "--anyway")
    assert status == 0
    assert "age (on bounds)" in printed
    data = json.loads((out / "result.json").read_text())["result"]
    assert data["on_bounds"] == ["intercept", "age", "smoker"]  # what has an interval has its flag
    assert data["intercept_confidence_interval"][0] < data["intercept_confidence_interval"][1]


@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize(
    "choice",
    [["--alpha", "2"], ["--no-intercept"], ["--sketch", "countsketch", "--rows", "40"], ["--sharing", "shamir"]],
    ids=lambda words: words[0],
)
def test_rounds_that_may_be_chosen_are_none_where_one_release_is_asked_for(choice, place, tmp_path, capsys):
    out = tmp_path / "result"
    command = [*place("ridge", (-6, 6)), "--rounds", "auto", *choice, "--out", out]
    status, _, told = run(capsys, *command)
    assert status == 0, told
    assert [path.name for path in out.glob("*.dpmpc")] == ["release.dpmpc"]


@pytest.mark.usefixtures("one_process")
def test_a_folder_that_lacks_a_sum_is_refused(place, tmp_path, capsys):
    """Its guarantee would be that of the sums that are left; what was released cannot be taken back by deleting it."""
    whole = tmp_path / "whole"
    command = [*place("ridge", (-6, 6)), "--rounds", "1", "--predict-only", "--out", whole]
    assert run(capsys, *command)[0] == 0
    for missing, named in (("release-1.dpmpc", "release-0.dpmpc to release-0.dpmpc"), ("release-0.dpmpc", "neither")):
        folder = tmp_path / missing
        shutil.copytree(whole, folder)
        (folder / missing).unlink()
        status, _, told = run(capsys, "read", folder)
        assert (status, named in " ".join(told.split())) == (2, True), told
    folder = tmp_path / "gap"
    shutil.copytree(whole, folder)
    (folder / "release-1.dpmpc").rename(folder / "release-2.dpmpc")
    status, _, told = run(capsys, "read", folder)
    assert (status, "name others" in " ".join(told.split())) == (2, True), told
    fields = json.loads((whole / "result.json").read_text())
    del fields["parameters"]
    (whole / "result.json").write_text(json.dumps(fields))
    status, _, told = run(capsys, "read", whole)
    assert (status, "is not the result of a fit of this version" in " ".join(told.split())) == (2, True), told


@pytest.mark.usefixtures("one_process")
def test_a_prediction_alone_has_no_intervals_and_says_so(place, tmp_path, capsys):
    out = tmp_path / "result"
    command = [*place("ridge", (-6, 6)), "--rounds", "3", "--predict-only", "--out", out]
    status, printed, told = run(capsys, *command)
    assert status == 0, told
    assert "all of the budget went into the prediction" in " ".join(printed.split())
    assert len(list(out.glob("release-*.dpmpc"))) == 4
    status, again, told = run(capsys, "read", out)
    assert status == 0, told
    assert "all of the budget went into the prediction" in " ".join(again.split())


@pytest.mark.usefixtures("one_process")
def test_private_bounds_are_printed_read_again_and_predicted_within(place, tmp_path, capsys):
    out = tmp_path / "result"
    command = [*place("ridge", (-60, 60)), "--rounds", "2", "--private-bounds", "--noise-by", "servers", "--out", out]
    status, printed, told = run(capsys, *command)
    assert status == 0, told
    assert len(list(out.glob("release-*.dpmpc"))) == 5
    assert "Private bounds\n" in printed
    result = json.loads((out / "result.json").read_text())
    bounds = {entry["column"]: entry for entry in result["result"]["private_bounds"]}
    assert (bounds["age"]["lower"], bounds["age"]["upper"]) == (18, 90), "ages fill their bounds"
    assert -20 < bounds["ill"]["lower"] < bounds["ill"]["upper"] < 20
    assert [one["statistic"] for one in result["releases"]][:2] == ["cell-counts", "second-moments"]
    status, again, told = run(capsys, "read", out, "--json")
    assert status == 0, told
    assert json.loads(again)["result"]["private_bounds"] == result["result"]["private_bounds"]
    status, predicted, told = run(capsys, "predict", out, tmp_path / "people.csv")
    assert (status, len(predicted.splitlines())) == (0, 3001), told


@pytest.mark.usefixtures("one_process")
@pytest.mark.filterwarnings("always::dpmpc.base.errors.UtilityWarning")
def test_a_hopeless_fit_says_so_and_prints_no_coefficients(place, tmp_path, capsys):
    out = tmp_path / "result"
    command = [*place("rare", (0, 1), clients=1500), "--model", "logistic", "--out", out]
    status, printed, told = run(capsys, *command)
    assert status == 0
    assert "warning: no coefficients can be trusted from 1,500 rows" in told
    assert "No coefficients can be trusted: about" in printed
    assert "There are no coefficients" in printed
    assert "Odds ratios" not in printed
    result = json.loads((out / "result.json").read_text())["result"]
    assert result["verdict"] in " ".join(printed.split())
    for name in ("coefficients", "intercept", "standard_errors", "odds_ratios", "odds_ratio_intervals"):
        assert result[name] is None
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "Verdict." in page
    assert "Odds ratios" not in page


@pytest.mark.usefixtures("one_process")
def test_a_missing_outcome_is_the_middle_of_its_bounds(place, tmp_path, capsys):
    command = place("logistic", (0, 1))
    lines = (tmp_path / "people.csv").read_text().splitlines()
    age, _, smoker = lines[5].split(",")
    (tmp_path / "people.csv").write_text("\n".join([*lines[:5], f"{age},,{smoker}", *lines[6:]]) + "\n")
    options = ["--model", "logistic", "--rounds", "1", "--json"]
    status, _, told = run(capsys, *command, *options)
    assert status == 2
    assert "ill" in told
    status, printed, told = run(capsys, *command, *options, "--fill-missing")
    assert status == 0, told
    assert json.loads(printed)["clients"] == 3000


BAD = {
    "no target": (["--model", "logistic"], "target: none given"),
    "no such target": (["--model", "logistic", "--target", "sick"], "'sick'"),
    "rounds of a moment": (
        ["--model", "moment", "--column", "age", "--rounds", "2"],
        "'--rounds' is not an option",
    ),
    "too many rounds": (["--model", "logistic", "--target", "ill", "--rounds", "65"], "rounds: 65 given"),
    "prediction of one release": (
        ["--target", "ill", "--alpha", "1", "--predict-only"],
        "predict_only: given, but another option requires one release",
    ),
    "going on with one release": (["--target", "ill", "--sketch", "sum", "--anyway"], "anyway: given, but another"),
    "private bounds of one release": (
        ["--target", "ill", "--no-intercept", "--private-bounds"],
        "--private-bounds: True given, False",
    ),
    "private bounds of a moment": (
        ["--model", "moment", "--column", "age", "--private-bounds"],
        "'--private-bounds' is not an option",
    ),
    "chosen penalty": (["--target", "ill", "--rounds", "2", "--alpha", "auto"], "alpha: 'auto' given, None expected"),
    "no intercept": (["--target", "ill", "--rounds", "2", "--no-intercept"], "fit_intercept: False"),
    "penalty of a likelihood": (
        ["--model", "poisson", "--target", "ill", "--alpha", "2"],
        "'--alpha' is not an option",
    ),
    "sketch": (["--model", "logistic", "--target", "ill", "--sketch", "osnap"], "sketch: 'osnap' given, but a model"),
    "radius": (["--model", "logistic", "--target", "ill", "--radius", "1"], "radius: 1.0 given"),
    "other noise": (["--model", "logistic", "--target", "ill", "--noise", "skellam"], "noise: 'skellam' given"),
    "bounds of a yes": (["--model", "logistic", "--target", "ill", "--bounds", "WIDE"], "(0, 1) expected"),
    "bounds of a count": (["--model", "poisson", "--target", "ill", "--bounds", "HALF"], "the largest count"),
    "no bounds of a count": (["--model", "poisson", "--target", "ill"], "none given, 0 and the largest count"),
    "neither yes nor no": (["--model", "logistic", "--target", "age"], "0.25 given in row 2, 0 or 1 expected"),
    "half a count": (["--model", "poisson", "--target", "age"], "0.25 given in row 2, 0, 1, 2, ... expected"),
}


@pytest.mark.parametrize("case", BAD, ids=lambda case: case.replace(" ", "-"))
def test_what_makes_no_sense_is_named_and_leaves_nothing_behind(case, tmp_path, capsys):
    options, message = BAD[case]
    write_csv(tmp_path / "few.csv", Table(("age", "ill"), np.array([[1.0, 0], [0.25, 1], [0.5, 0], [0, 1]])))
    for name, upper in (("WIDE", 2.0), ("HALF", 2.5)):
        (tmp_path / name).write_text(Schema((Column("age", 0, 1), Column("ill", 0, upper))).to_toml())
    before = sorted(tmp_path.iterdir())
    options = [str(tmp_path / option) if option in ("WIDE", "HALF") else option for option in options]
    command = ["fit", tmp_path / "few.csv", "--epsilon", "1", "--delta", "1e-3", "--out", tmp_path / "out", *options]
    status, printed, told = run(capsys, *command)
    assert status == 2, told
    assert message in told
    assert printed == ""
    assert sorted(tmp_path.iterdir()) == before


def test_a_number_of_rounds_is_a_number(capsys):
    assert run(capsys, "fit", "people.csv", "--target", "ill", *BUDGET, "--rounds", "many")[0] == 2


# What a fit has written is read again, with the codebook of its table

CODED = """
[columns.age]
lower = 18
upper = 90

[columns.ill]
yes = ["yes"]
no = ["no"]

[columns.visits]
lower = 0
upper = 12

[columns.smoker]
yes = ["1"]
no = ["2"]

[columns.ward]
values = ["surgery", "medicine", "other"]
if_missing = "indicator"
"""
SMOKES, WARDS = {True: "1", False: "2"}, np.array(["surgery", "medicine", "other", ""])


def write_coded(folder, clients=4000, seed=0):
    """Write people as a hospital keeps them: smokers are 1 and 2, and a ward may be missing."""
    rng = np.random.default_rng(seed)
    age, smoker = rng.uniform(18, 90, clients).round(), rng.random(clients) < 0.4
    ward = WARDS[rng.integers(0, 4, clients)]
    eta = -3 + 0.05 * age + 1.2 * smoker - 0.8 * (ward == "medicine")
    ill = rng.random(clients) < 1 / (1 + np.exp(-eta))
    visits = rng.poisson(np.exp(0.3 * eta)).clip(0, 12)
    lines = ["age,ill,visits,smoker,ward"]
    for row in zip(age, ill, visits, smoker, ward, strict=True):
        lines.append(f"{row[0]:g},{'yes' if row[1] else 'no'},{row[2]},{SMOKES[bool(row[3])]},{row[4]}")
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    (folder / "bounds.toml").write_text(CODED)
    (folder / "new.csv").write_text("id,ward,smoker,age\na,medicine,1,60\nb,,2,60\nc,surgery,2,\nd,other,1,200\n")
    return folder / "people.csv"


def predictions(capsys, *words):
    """Return the heading and what is predicted, by the id of the row."""
    status, printed, told = run(capsys, "predict", *words, "--id", "id")
    assert status == 0, told
    assert "1 of 4 rows have age outside of its bounds, 18 to 90, and are predicted as if it were at the nearer" in told
    heading, *lines = printed.splitlines()
    return heading, {line.split(",")[0]: line.split(",")[1] for line in lines}, told


NEW = {"a": (60, 1, 1, 0, 0), "b": (60, 0, 0, 0, 1), "d": (90, 1, 0, 1, 0)}  # age, smoker, medicine, other, missing
NAMES = ["age", "smoker", "ward=medicine", "ward=other", "ward=missing"]


@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize(
    ("model", "target", "heading"),
    [
        (["--model", "logistic", "--rounds", "1"], "ill", "id,probability of ill"),
        (["--model", "logistic", "--rounds", "0"], "ill", "id,probability of ill"),
        (["--model", "poisson", "--rounds", "1"], "visits", "id,expected visits"),
        (["--model", "ridge", "--rounds", "2"], "visits", "id,predicted visits"),
    ],
)
def test_what_a_coded_fit_has_written_predicts(model, target, heading, tmp_path, capsys):
    """By hand from the published coefficients; `read` computes the same from the releases."""
    data, out = write_coded(tmp_path), tmp_path / "result"
    left_out = "visits" if target == "ill" else "ill"
    bounds = tmp_path / "bounds.toml"
    kept = [part for part in CODED.split("\n\n") if f"columns.{left_out}]" not in part]
    bounds.write_text("\n\n".join(kept))
    status, printed, told = run(
        capsys, "fit", data, "--target", target, "--bounds", bounds, *BUDGET, *model, "--out", out, "--json"
    )
    assert status == 0, told
    fields = json.loads(printed)
    result = fields["result"]
    assert list(result["coefficients"]) == NAMES
    releases = [Release.load(out / f"release-{number}.dpmpc") for number in range(len(fields["releases"]))]
    assert all(release.task.schema.codebook == Schema.from_toml(bounds).codebook for release in releases)
    assert all(release.columns == (*NAMES, target) for release in releases)
    found_heading, found, told = predictions(capsys, out, tmp_path / "new.csv")
    assert found_heading == heading
    mean = {
        "logistic": lambda eta: 1 / (1 + math.exp(-eta)),
        "poisson": lambda eta: min(math.exp(eta), 12),
        "ridge": lambda eta: eta,
    }[fields["model"]]
    for name, row in NEW.items():
        eta = result["intercept"] + sum(b * x for b, x in zip(result["coefficients"].values(), row, strict=True))
        assert float(found[name]) == pytest.approx(mean(eta), rel=1e-8)
    assert found["c"] == ""
    assert "1 of 4 rows lack a value" in told
    status, printed, told = run(capsys, "read", out, "--json")
    assert status == 0, told
    read = json.loads(printed)
    assert read["result"]["coefficients"] == pytest.approx(result["coefficients"], rel=1e-9)
    assert read["result"].get("approximation") == result.get("approximation")
    assert (read["privacy"], read["model"]) == (fields["privacy"], fields["model"])
    status, printed, _ = run(capsys, "read", out)
    assert status == 0
    assert ("an approximation: scaled least squares" in printed) == ("0" in model)
    assert "Released: the sum of their second moments" in printed
    status, printed, _ = run(capsys, "read", out, "--html")
    assert status == 0
    assert result["coefficients"]["age"] == pytest.approx(
        min(Page(printed).numbers, key=lambda number: abs(number - result["coefficients"]["age"])), rel=1e-9
    )
    if target == "ill":  # the first sum alone: its cells are coded too, and 2 is no number of cigarettes
        alone = (out / "release-0.dpmpc", tmp_path / "new.csv", "--target", "ill")
        _, linear, _ = predictions(capsys, *alone)
        _, chances, told = predictions(capsys, *alone, "--model", "logistic")
        assert 0 < float(chances["b"]) < float(chances["a"]) < 1
        assert float(linear["b"]) < float(linear["a"])
        assert "this is an approximation" in told
        (tmp_path / "wrong.csv").write_text("id,ward,smoker,age\na,medicine,0,60\n")
        status, _, told = run(capsys, "predict", *alone[:1], tmp_path / "wrong.csv", *alone[2:])
        assert status == 2
        assert "0 given, one of 1, 2 expected" in told


@pytest.mark.usefixtures("one_process")
def test_zero_rounds_are_called_an_approximation_everywhere(place, tmp_path, capsys):
    out = tmp_path / "result"
    status, printed, told = run(
        capsys, *place("logistic", (0, 1)), "--model", "logistic", "--rounds", "0", "--out", out
    )
    assert status == 0, told
    text, page = (out / "report.txt").read_text(), Page((out / "report.html").read_text(encoding="utf-8"))
    for said in (" ".join(printed.split()), " ".join(text.split()), page.text):
        assert "an approximation: scaled least squares from second moments, without a round of scores" in said
        assert "No interval covers that, and there is none" in said
        assert "noise moves the log odds of a typical row by about 0." in said
    assert "No steering round after the sum of second moments." in printed
    assert "Logistic regression of ill, approximate" in page.text
    fields = json.loads((out / "result.json").read_text())
    result = fields["result"]
    assert (result["rounds"], fields["parameters"]) == (0, {"rounds": 0, "intervals": True, "private_bounds": False})
    assert result["approximation"].startswith("an approximation")
    assert 0 < result["noise_error"] < 0.5
    assert result["standard_errors"] is result["confidence_intervals"] is result["odds_ratio_intervals"] is None
    assert [one["share"] for one in fields["releases"]] == pytest.approx([1.0], rel=1e-6)
    alone = in_process(LogisticRegression(rounds=0, classes=[0, 1]), "logistic", (0, 1))
    assert list(result["coefficients"].values()) == alone.coef_.tolist()
    for words in (("--model", "logistic", "--target", "ill"), ("--model", "logistic", "--target", "ill", "--html")):
        status, printed, told = run(capsys, "read", out / "release-0.dpmpc", *words)
        assert status == 0, told
        assert "dpmpc read: this is an approximation" in told
        assert "scaled least squares" in printed
    assert "fit_release(Release.load(&#39;release-0.dpmpc&#39;), target=&#39;ill&#39;)" in printed
    for words, said in [
        ((out, "--target", "age"), "holds a fitted model"),
        ((out, "--model", "logistic"), "holds a fitted logistic model"),
        ((out / "release-0.dpmpc", "--model", "logistic"), "model: 'logistic' given, a target"),
        ((out / "release-0.dpmpc", "--model", "logistic", "--target", "age"), "bounds of column 'age'"),
        ((tmp_path,), "result.json cannot be read"),
    ]:
        status, _, told = run(capsys, "read", *words)
        assert (status, said in told) == (2, True), told


@pytest.mark.usefixtures("one_process")
@pytest.mark.filterwarnings("always::dpmpc.base.errors.UtilityWarning")
def test_a_folder_of_a_hopeless_fit_has_no_predictions(place, tmp_path, capsys):
    out = tmp_path / "result"
    assert run(capsys, *place("rare", (0, 1), clients=1500), "--model", "logistic", "--out", out)[0] == 0
    (tmp_path / "new.csv").write_text("age,smoker\n60,1\n")
    status, printed, told = run(capsys, "predict", out, tmp_path / "new.csv")
    assert (status, printed) == (2, "")
    assert "holds a fit that has learned nothing: about" in told
    status, printed, told = run(capsys, "read", out)
    assert status == 0
    assert "no coefficients can be trusted: about" in told
    assert "No coefficients can be trusted: about" in printed
    (out / "release-0.dpmpc").unlink()
    status, _, told = run(capsys, "read", out)
    assert (status, "holds neither release.dpmpc nor release-0.dpmpc" in told) == (2, True)
