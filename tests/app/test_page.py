"""The HTML report: well-formed, self-contained, safe with hostile names, and with the numbers of result.json."""

import importlib.resources
import json
import math
import re
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmpc.app.cli.main import main
from dpmpc.app.render.about import About
from dpmpc.app.render.drawing import COLOURS, figures
from dpmpc.app.render.guarantee_prose import PUBLISH
from dpmpc.app.render.page import command_line, layout, page, write_page
from dpmpc.app.render.readings import reading_of
from dpmpc.app.render.released import report_of
from dpmpc.base.randomness import Stream
from dpmpc.data import Schema, Table, write_csv
from dpmpc.data.variables import Variable
from dpmpc.models import RidgeRegression
from dpmpc.parties.network.meter import tenths
from dpmpc.privacy import Guarantee
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release import simulation as model
from dpmpc.release.planning import design
from dpmpc.release.release import Release
from dpmpc.release.results import NumberTable, Result
from dpmpc.release.results.number_tables import short, short_names
from dpmpc.release.results.plot_data import Effects, PlotData
from support.html_page import Page

HOSTILE = "<script>alert(1)</script>"
NAMES = (HOSTILE, "a&b \"$x_1$\" 'c' \u7c73", "score")
MODELS = {
    "ridge": ["--target", "score", "--sketch", "sum", "--simulation-seed", "5"],
    "low-rank": ["--model", "low-rank", "--components", "2", "--noise-by", "servers"],
    "moment": ["--model", "moment", "--column", HOSTILE, "--order", "2"],
}


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Folders that `dpmpc fit` wrote, one for each model."""
    folder = tmp_path_factory.mktemp("reports")
    rng = np.random.default_rng(0)
    features = rng.uniform(-2, 2, (3000, 2))
    score = 0.5 * features[:, 0] - 0.3 * features[:, 1] + 0.1 * rng.standard_normal(3000)
    write_csv(folder / "people.csv", Table.from_any(np.column_stack([features, score]), names=NAMES))
    (folder / "bounds.toml").write_text(Schema.from_pair(NAMES, (-2.0, 2.0)).to_toml())
    common = ["--bounds", str(folder / "bounds.toml"), "--epsilon", "1", "--delta", "1e-6", "--json"]
    for name, options in MODELS.items():
        assert main(["fit", str(folder / "people.csv"), *common, *options, f"--out={folder / name}"]) == 0
    return folder


@pytest.fixture(params=MODELS)
def report(request, fitted):
    """A model's folder, the text of its page, and what is in it."""
    text = (fitted / request.param / "report.html").read_text(encoding="utf-8")
    return fitted / request.param, text, Page(text)


def release_of(sketch="sum", clients=3000, seed=1, epsilon=1.0, **choices):
    schema = Schema.unit(["x", "y"])
    task = design(ReleaseSpec.of(schema, clients, epsilon, 1e-6, sketch=sketch, simulation_seed=seed, **choices))
    Z = np.random.default_rng(0).uniform(-1, 1, (clients, 2)) * [1, 0.5]
    return model.run(task, Z, stream=Stream.from_seed(seed)), Z


def written(release, result=None, **options):
    """The page of a release, with the regression that is read from it unless there is another result."""
    result = RidgeRegression().fit_release(release, "y").result() if result is None else result
    return page(report_of([release], result, About.of_release(release), **options))


def test_a_page_refers_to_nothing_outside_of_it(report):
    _, text, found = report
    assert text.startswith("<!doctype html>")
    assert not {"script", "link", "img", "iframe", "object", "base", "foreignobject"} & set(found.tags)
    assert not [name for name, _ in found.attributes if name.startswith("on")]
    assert not found.values("src")
    assert all(reference.startswith("#") for reference in found.values("href"))
    assert all(reference.startswith("#") for reference in re.findall(r"url\(([^)]*)\)", text))
    assert "@import" not in text
    assert "http" not in text
    names = found.values("id")
    assert len(names) == len(set(names))
    referred = [name for listed in found.values("aria-labelledby") for name in listed.split()]
    assert set(referred) | {reference[1:] for reference in found.values("href")} <= set(names)


def test_a_page_can_be_read_by_everybody(report):
    folder, _, found = report
    assert ("lang", "en") in found.attributes
    assert "width=device-width, initial-scale=1" in found.values("content")
    assert found.tags.count("h1") == 1
    assert found.tags.count("h2") == found.tags.count("section") == 7
    sections = [name for name in found.values("id") if name in found.values("aria-labelledby")]
    assert sections == ["result", "asked", "privacy", "noise", "cost", "next", "again"]
    plots = int(folder.name != "moment")  # one number has no plot
    assert found.tags.count("caption") == found.tags.count("table") > 2
    assert found.values("role").count("img") == found.tags.count("svg") == found.tags.count("figure") == plots
    assert found.tags.count("desc") == plots
    for words in (
        "Who is protected",
        "Neighbouring relation",
        "Against whom",
        "Assumes",
        "What you may do next",
        "At no further cost of privacy",
        "Costs privacy",
        "Reproduce this result",
    ):
        assert words in found.text


def test_hostile_names_are_only_text(report):
    folder, text, found = report
    assert "<script" not in text
    assert HOSTILE in found.text
    if folder.name != "moment":
        assert NAMES[1] in found.text


def test_numbers_are_those_of_the_result(report):
    folder, _, found = report
    fields = json.loads((folder / "result.json").read_text())
    result = fields["result"]
    if folder.name == "ridge":
        groups = ("coefficients", "unpenalised_coefficients", "standard_errors")
        wanted = [value for group in groups for value in result[group].values()]
        wanted += [end for ends in result["confidence_intervals"].values() for end in ends]
        wanted += [result["intercept"], result["unpenalised_intercept"], result["intercept_standard_error"]]
        wanted += result["intercept_confidence_interval"]
    elif folder.name == "low-rank":
        wanted = [value for row in result["components"] for value in row.values()]
    else:
        wanted = [result["moment"], result["standard_error"]]
    for server in fields["timing"]["per_server"]:
        wanted += [tenths(server[name]) for name in ("setup_s", "transform_s", "total_s")] + [
            server["bytes_sent"] / 1e6
        ]
    wanted += [fields["clients"], fields["servers"], fields["privacy"]["epsilon"], fields["privacy"]["delta"]]
    assert set(wanted) <= set(found.numbers)
    assert Release.load(folder / "release.dpmpc").task.digest.hex() in found.text


def test_the_folder_is_read_as_it_was_fitted(report, capsys):
    """The text of the fit is that of `dpmpc read`, and then what the run has cost; so is its JSON."""
    folder, _, _ = report
    assert main(["read", str(folder), "--verbose"]) == 0
    said, written = capsys.readouterr().out, (folder / "report.txt").read_text(encoding="utf-8")
    assert written.startswith(said.rstrip("\n"))
    assert written[len(said) :].lstrip().startswith("Nothing records what these 3,000 people have spent")
    assert main(["read", str(folder), "--json"]) == 0
    again, fields = json.loads(capsys.readouterr().out), json.loads((folder / "result.json").read_text())
    assert set(fields) - set(again) == {"timing"}
    assert again == {name: fields[name] for name in again}


def test_times_on_a_page_that_may_be_published_are_rounded_up(report):
    """Exact ones tell a little of the noise; result.json has hundredths of seconds."""
    folder, _, found = report
    timing = json.loads((folder / "result.json").read_text())["timing"]
    exact = [value for server in timing["per_server"] for name, value in server.items() if name.endswith("_s")]
    exact += [value for name, value in timing.items() if name.endswith("_s")]
    assert any(round(10 * value, 6) % 1 for value in exact)
    assert not any(round(100 * value, 6) % 1 for value in exact)
    assert not {value for value in exact if round(10 * value, 6) % 1} & set(found.numbers)
    assert tenths(timing["wall_s"]) in found.numbers


def test_what_is_not_private_is_left_out(report):
    folder, _, found = report
    result = json.loads((folder / "result.json").read_text())["result"]
    assert not {"not_private", "approximation_factor", "psi", "exact_moment"} & set(result)
    text = (folder / "report.txt").read_text()
    assert "Not private" not in text
    assert "trivial" not in text
    if folder.name != "ridge":  # which is a simulation
        assert PUBLISH in found.text


def test_the_command_names_files_and_no_folders(report):
    folder, text, found = report
    assert str(folder.parent) not in text
    assert f"--out={folder.name}" in found.text
    assert "dpmpc fit people.csv --bounds bounds.toml" in found.text


def test_only_a_simulation_is_called_one(report):
    folder, _, found = report
    simulated = folder.name == "ridge"
    assert ("SIMULATION" in found.text) == simulated
    assert ("Publish it only where the data itself may be published" in found.text) == simulated
    assert ("Publish the release and this report" in found.text) == (not simulated)


def test_the_code_gives_the_same_result(fitted, monkeypatch):
    monkeypatch.chdir(fitted / "ridge")
    text = Page((fitted / "ridge" / "report.html").read_text()).text
    lines = text[text.index("from dpmpc import RidgeRegression") :].partition("The whole run")[0]
    names = {}
    exec(lines, names)
    result = json.loads((fitted / "ridge" / "result.json").read_text())["result"]
    assert names["model"].coef_.tolist() == pytest.approx(list(result["coefficients"].values()), rel=1e-9)


def test_without_matplotlib_the_page_says_what_is_left_out(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    release, _ = release_of()
    found = Page(written(release))
    assert "svg" not in found.tags
    assert "matplotlib is not installed: coefficients." in found.text
    assert "pip install '.[plots]'" in found.text


def test_a_release_alone_has_a_report(tmp_path):
    release, _ = release_of(noise_by="servers", corrupt_clients=2, dropouts=1)
    report = report_of([release], Result(), About.of_release(release), files=["theirs.dpmpc"])
    write_page(tmp_path / "report.html", report)
    found = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "Result" not in found.text
    assert "Release.load('theirs.dpmpc')" in found.text
    assert "Opening the same reports twice" not in found.text
    assert "anything from at most 1 client in all is missing" in found.text
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_a_guarantee_may_be_given():
    release, _ = release_of()
    stated = Guarantee.from_dict({**release.guarantee.to_dict(), "epsilon": 7.5, "simulation": False})
    found = Page(written(release, Result(), guarantee=stated))
    assert 7.5 in found.numbers
    assert "SIMULATION" not in found.text
    assert figures(math.exp(7.5)) in found.text


@pytest.mark.filterwarnings("ignore::dpmpc.base.errors.UtilityWarning")
def test_a_fit_that_learned_nothing_begins_with_its_verdict_and_shows_no_coefficient():
    release, _ = release_of(clients=500, epsilon=0.001)
    model = RidgeRegression().fit_release(release, "y")
    text = written(release)
    found = Page(text)
    assert "Verdict. The coefficients of this model cannot be identified" in found.text
    assert found.text.index("Verdict.") < found.text.index("500 clients with 2 columns")
    assert "Nothing can be learned" not in found.text
    assert "<svg" not in text
    assert not {model.coef_[0], model.intercept_} & set(found.numbers)
    assert model.result().data["coefficients"] == {"x": model.coef_[0]}  # programs are given them, and the verdict
    assert model.result().data["informative"] is False


def test_many_columns_are_in_the_table_and_the_largest_in_the_plot():
    release, _ = release_of()
    values = {f"x{number}": float(number) for number in range(60)}
    table = NumberTable("Regression of y", {"coefficient": list(values.values())}, list(values))
    effects = Effects("y", dict.fromkeys(values, 2.0), values, {}, 0.95)
    plotted = PlotData("effects", {"found": effects})
    result = Result(model="ridge", title="Many", tables=[table], plots={"coefficients": lambda: plotted})
    found = Page(written(release, result))
    assert set(values.values()) <= set(found.numbers)
    assert "The 25 largest of 60 are shown" in found.text
    assert "x59 118" in found.text  # the bounds of a column are 2 apart


def test_errors_and_ends_of_intervals_stand_with_their_estimate():
    """Few columns fit a phone; a table with more is one block for each row there, each number with its heading."""
    release, _ = release_of(clients=200_000, epsilon=8.0)
    text = written(release)
    names = [name for name, _ in re.findall(r'data-label="([^"]*)"(.)', text)]
    assert names == 2 * ["coefficient ± std. error", "z", "p", "p (Holm)", "95% interval", "fitted"]
    assert '<table class="wide" role="table">' in text
    assert "±" in Page(text).text


@pytest.mark.parametrize("sketch", ["sum", "countsketch"])
def test_the_signal_is_what_the_data_would_give(sketch):
    """Fixed seed. The signal is thrice the noise or more, and estimated from many entries."""
    rows = None if sketch == "sum" else 400
    release, Z = release_of(sketch, 200_000, epsilon=8.0, rows=rows)
    table = reading_of(release.task.statistic).noise(release)
    if sketch == "sum":
        ones = np.column_stack([np.ones(len(Z)), Z])
        exact = np.sqrt(np.mean((Z.T @ ones) ** 2, axis=1))
    else:
        exact = np.sqrt(np.mean((release.task.sketch.apply(Z) * release.task.sketch.scale) ** 2, axis=0))
    assert table.columns["signal"] == pytest.approx(exact.tolist(), rel=0.05)
    assert table.columns["signal / noise"][0] == table.columns["signal"][0] / table.columns["noise"][0]


def test_the_noise_of_sums_is_theirs():
    """Of the first moments v/2 each, of the squares v: three entries for each of two columns."""
    release, _ = release_of()
    variance = release.noise_variance[0]
    table = reading_of(release.task.statistic).noise(release)
    assert table.columns["noise"] == pytest.approx([math.sqrt(variance * 2 / 3)] * 2)


def test_a_command_line_keeps_everything_but_folders(tmp_path):
    data, out = f"{tmp_path}/a b/x y.csv", f"{tmp_path}/out"
    arguments = ["fit", data, "--target", "/a", f"--out={out}", "--bounds", "b.toml"]
    expected = "dpmpc fit 'x y.csv' --target /a --out=out --bounds b.toml"
    assert command_line(arguments, [data, out, "b.toml", None]) == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1e-6, "10⁻⁶"),
        (-2.5e-7, "−2.5×10⁻⁷"),
        (1234.56, "1,230"),
        (1000.0, "1,000"),
        (0.00012345, "0.000123"),
        (3e9, "3×10⁹"),
    ],
)
def test_figures_are_for_people(value, text):
    assert figures(value) == text


def test_figures_show_no_digits_of_a_binary_fraction():
    assert figures(381974.43, 8) == "381,974.43"


def test_long_names_are_cut_for_plots():
    assert short("line\nbreak") == "line break"
    assert short("temperature_of_the_19th_day") == "temperature…th_day"


@given(st.lists(st.text("ab _", min_size=1, max_size=40), max_size=8))
def test_names_beside_each_other_are_shortened_to_different_labels(names):
    shown = short_names(names)
    assert len(set(shown)) == len({" ".join(name.split()) for name in names})
    alike = ["household income before the tax", "household income without the tax"]
    assert len(set(map(short, alike))) == 1
    assert len(set(short_names(alike))) == 2
    assert short_names(alike[:1]) == [short(alike[0])]


def test_people_are_whole_and_dates_are_dates_in_every_form():
    day = Variable("day", "01.03.2024", "31.12.2025", date="%d.%m.%Y")
    table = NumberTable(
        "Numbers",
        {"median": [2.0, 2.0], "people": [12.6, -0.4]},
        ["day", "days"],
        forms={("day", "median"): day.date_of},
    )
    laid_out = " ".join(number.text for _, cells in layout(table).rows for cell in cells for number in cell)
    for text in (str(table), table.to_latex(), table.to_html(), laid_out):
        assert text.count("03.03.2024") == 1
        assert "13" in text
        assert "12.6" not in text
    assert "12.6" in table.to_csv()
    assert table.to_dict()["day"] == {"median": 2.0, "people": 12.6}


def themes():
    """Variables of the light and of the dark style."""
    style = (importlib.resources.files("dpmpc.app.render") / "templates" / "style.css").read_text()
    blocks = re.findall(r":root \{([^}]*)\}", style)
    return [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in blocks]


def contrast(one, other):
    """WCAG 2: contrast ratio of two colours."""

    def luminance(colour):
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", themes(), ids=["light", "dark"])
def test_colours_have_the_contrast_that_reading_needs(theme):
    for page_colour in (theme["surface"], theme["page"]):
        assert min(contrast(theme[name], page_colour) for name in ("ink", "muted", "blue", "orange")) >= 4.5
    assert contrast(theme["warning"], theme["warning-page"]) >= 4.5
    assert min(contrast(theme[name], theme["surface"]) for name in ("green", "purple", "sky", "sand")) >= 3


def test_plots_and_style_share_their_colours():
    light, dark = themes()
    assert {name: light[name] for name in COLOURS} == COLOURS
    assert set(light) == set(dark)


@pytest.mark.parametrize("heading", ["p (Holm)", "people"])
def test_a_number_that_is_none_is_called_so(heading):
    [(_, [[number]])] = layout(NumberTable("", {heading: [math.nan]}, ["intercept"])).rows
    assert number == ("none", None, "")
