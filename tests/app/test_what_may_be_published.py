"""Whatever a command writes may be published, but for not_private.json: no output has a statistic of the data itself.

Every command that reads rows and writes something runs here, and every output is searched: standard output, standard
error, text, JSON, HTML, release files. The noise is seeded, so that no chance decides.
"""

import json
import re

import numpy as np
import pytest

from dpmpc.app.render.guarantee_prose import PUBLISH
from dpmpc.collect.terms.verifying import verify
from dpmpc.data import Column, Schema, Table, write_csv
from dpmpc.models import RidgeRegression
from dpmpc.models.rounds import SavedReleases
from dpmpc.release.release import Release
from support.command_inputs import run
from support.exact_statistics import numbers_of, of_regression, of_table, opened_without_noise, shown
from support.release_processes import Trial
from support.release_processes import run as run_servers

BUDGET = ["--epsilon", "2", "--delta", "1e-6"]
SEED = ["--simulation-seed", "12"]
WARDS = ("north", "south", "isle")
CLIENTS = 3517  # public; no sum of the data is this number
GAPS = 1487  # who lack an age; more than a server takes of memory in MB, which is printed too
BOUNDS = """
[columns.age]
lower = 18
upper = 90

[columns.ill]
lower = 0
upper = 1

[columns.visits]
lower = 0
upper = 12

[columns.stay]
lower = 0
upper = 40
"""
WARD = f"\n[columns.ward]\nvalues = {json.dumps(WARDS)}\n"
NAMES = ("age", "ill", "visits", "stay")


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """Write people in three wards, of whom 1,487 lack an age in one of two files; return folder, rows and wards."""
    folder = tmp_path_factory.mktemp("published")
    rng = np.random.default_rng(4)
    age = rng.uniform(18, 90, CLIENTS).round(1)
    eta = -2 + 0.04 * age
    ill = (rng.random(CLIENTS) < 1 / (1 + np.exp(-eta))).astype(float)
    visits = rng.poisson(np.exp(0.4 * eta)).clip(0, 12).astype(float)
    stay = (5 + 0.2 * age + 3 * ill + rng.normal(0, 2, CLIENTS)).clip(0, 40).round(2)
    ward = rng.choice(3, CLIENTS, p=[0.55, 0.3, 0.15])
    rows = np.column_stack([age, ill, visits, stay])
    write_csv(folder / "numbers.csv", Table(NAMES, rows))
    lines = [f"{row[0]:.1f},{row[1]:g},{row[2]:g},{row[3]:.2f},{WARDS[w]}" for row, w in zip(rows, ward, strict=True)]
    (folder / "people.csv").write_text("\n".join([",".join((*NAMES, "ward")), *lines]) + "\n")
    gaps = [line.partition(",")[2] if number < GAPS else line for number, line in enumerate(lines)]
    gaps = [f",{line}" if number < GAPS else line for number, line in enumerate(gaps)]
    (folder / "gaps.csv").write_text("\n".join([",".join((*NAMES, "ward")), *gaps]) + "\n")
    (folder / "bounds.toml").write_text(BOUNDS)
    (folder / "wards.toml").write_text(BOUNDS + WARD)
    return folder, rows, ward


def statistics(rows, ward):
    """All that is searched for: of everybody, of each ward, of complete rows, in units and normalised."""
    schema = Schema((Column("age", 18, 90), Column("ill", 0, 1), Column("visits", 0, 12), Column("stay", 0, 40)))
    found = {"complete rows": CLIENTS - GAPS, "incomplete rows": GAPS}
    for kind, table in {"": rows, "normalised ": schema.normalise(rows), "complete ": rows[GAPS:]}.items():
        found |= {kind + name: value for name, value in of_table(NAMES, table).items()}
        for target in ("stay", "visits", "ill"):
            for alpha in (0.0, 1.0):
                more = of_regression(NAMES, table, target, alpha)
                found |= {f"{kind}{name}, penalty {alpha:g}": value for name, value in more.items()}
            for features in (["age"], ["age", "ill"]):
                kept = [*features, target]
                if len(set(kept)) == len(kept):
                    part = table[:, [NAMES.index(name) for name in kept]]
                    more = of_regression(kept, part, target)
                    found |= {f"{kind}{name} on {features}": value for name, value in more.items()}
    best = of_regression(NAMES, schema.normalise(rows), "stay", 1.0)  # what --compare sets beside a ridge regression
    for place, name in enumerate(NAMES[:3]):
        unit = schema.slope[3] / schema.slope[place]
        found[f"best coefficient of {name}"] = best[f"regression of stay: coefficient {place + 1}"] * unit
    for number, name in enumerate(WARDS):
        own = rows[ward == number]
        found[f"people in {name}"] = len(own)
        found |= {f"{name}: {what}": value for what, value in of_table(NAMES, own).items()}
        found |= {f"{name}: {what}": value for what, value in of_regression(NAMES, own, "stay").items()}
    memory = range(100, 400)  # megabytes of a process, which a report has as a whole number
    return {name: value for name, value in found.items() if value != CLIENTS and value not in memory}


def outputs(folder):
    """Return what every file says: of a page its text and its data, of a release the texts among its bytes."""
    return {path.name: said_by(path) for path in folder.iterdir()}


def without_machine(text):
    """Return a text without what depends on the machine: the memory of processes, and the number of pytest's folder."""
    return re.sub(r'(?m)^peak memory, MB.*$|"peak_rss_mb": ?[\d.]+|/pytest-\d+/', " ", text)


def said_by(path):
    if path.suffix == ".html":
        return of_page(path.read_text(encoding="utf-8"))
    if path.suffix == ".dpmpc" or not path.suffix:
        return " ".join(re.findall(r"[ -~]{20,}", path.read_bytes().decode("latin-1")))
    return path.read_text(encoding="utf-8")


def of_page(page):
    """Return text, numbers of `<data>` and text of drawings, but no style, no coordinates, and no bytes and memory."""
    page = re.sub(r"(?s)<tr>\s*<th[^>]*>[^<]*MB[^<]*</th>.*?</tr>", " ", page)
    data = " ".join(re.findall(r'<data value="([^"]*)"', page))
    return re.sub(r"<[^>]*>", " ", re.sub(r"(?s)<style.*?</style>", " ", page)) + data


RIDGE = ["--target", "stay"]
GROUPED = [*RIDGE, "--model", "grouped-ridge"]
#: With a seed of its own: under the usual one a standard error has, by chance, the five digits of a variance of `ill`,
#: a column that this fit does not read.
COMPARISON = [*RIDGE, "--by", "ward", "--model", "compare", "--before", "age", "--simulation-seed", "13"]
FITS = {
    "ridge": ("numbers.csv", "bounds.toml", RIDGE),
    "chosen penalty": ("numbers.csv", "bounds.toml", [*RIDGE, "--alpha", "auto", "--json"]),
    "sketch": ("numbers.csv", "bounds.toml", [*RIDGE, "--sketch", "osnap", "--rows", "40"]),
    "by group": ("people.csv", "wards.toml", [*GROUPED, "--by", "ward"]),
    "complete rows": (
        "gaps.csv",
        "wards.toml",
        [*GROUPED, "--by", "ward", "--zero-missing", "--json"],
    ),
    "two rounds": ("numbers.csv", "bounds.toml", [*RIDGE, "--rounds", "2"]),
    "logistic": ("numbers.csv", "bounds.toml", ["--target", "ill", "--model", "logistic", "--rounds", "1", "--json"]),
    "poisson": ("numbers.csv", "bounds.toml", ["--target", "visits", "--model", "poisson", "--rounds", "1"]),
    "compare": ("people.csv", "wards.toml", COMPARISON),
    "centred": ("numbers.csv", "bounds.toml", ["--model", "low-rank", "--components", "2", "--center", "--json"]),
    "low rank": ("numbers.csv", "bounds.toml", ["--model", "low-rank", "--components", "2"]),
    "moment": ("numbers.csv", "bounds.toml", ["--model", "moment", "--column", "stay", "--order", "2"]),
    "items": ("numbers.csv", "bounds.toml", ["--model", "moment", "--column", "visits", "--items", "--json"]),
}
#: The others share the code that writes the comparison.
COMPARED = ("ridge", "by group", "compare", "logistic", "moment")
EXPECTED = ["report.html", "report.txt", "result.json"]


@pytest.mark.parametrize("case", FITS)
def test_a_fit_shows_nothing_of_the_data_itself(case, people, tmp_path, capsys):
    """Without --compare no output has a statistic; the same search finds some in what --compare prints and writes."""
    folder, rows, ward = people
    data, bounds, options = FITS[case]
    exact = statistics(rows, ward)
    command = ["fit", folder / data, "--bounds", folder / bounds, *BUDGET, *SEED, *options]
    status, printed, told = run(capsys, *command, "--out", tmp_path / "plain")
    assert status == 0, told
    written = outputs(tmp_path / "plain")
    assert {name for name in written if not name.startswith("release")} == set(EXPECTED)
    for where, text in {"standard output": printed, "standard error": told, **written}.items():
        assert shown(exact, without_machine(text)) == [], where
        for word in ('not_private":', "approximation_factor", "trivial_factor", "exact_moment", "best_loss"):
            assert word not in text, where
    if data == "numbers.csv":
        for path in (tmp_path / "plain").glob("*.dpmpc"):
            release = Release.load(path)
            mine = rows[:, [NAMES.index(name) for name in release.columns]]
            assert opened_without_noise(release, mine) == 0
    if case not in COMPARED:
        return
    status, printed, told = run(capsys, *command, "--compare", "--out", tmp_path / "compared")
    assert status == 0, told
    again = outputs(tmp_path / "compared")
    assert set(again) == {*written, "not_private.json"}
    secret = again.pop("not_private.json")
    comparison = {name: value for name, value in _leaves(json.loads(secret)) if isinstance(value, float) and value}
    for where, text in again.items():
        assert shown(exact, without_machine(text)) == [], where
        assert shown(comparison, without_machine(text)) == [], where
    assert "not private" in printed.lower() or '"not_private"' in printed
    assert shown(comparison if case == "logistic" else exact, secret + printed)  # the search finds what is there


def _leaves(fields, where=""):
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{where}{name} ")
        else:
            yield where + name, value


def test_times_that_are_written_are_rounded(people, tmp_path, capsys):
    """Exact seconds tell a little of the noise: what a fit prints and writes has hundredths."""
    folder, _, _ = people
    command = ["fit", folder / "numbers.csv", "--bounds", folder / "bounds.toml", *BUDGET, *RIDGE, "--json"]
    status, printed, told = run(capsys, *command, "--out", tmp_path / "out")
    assert status == 0, told
    timing = json.loads(printed)["timing"]
    seconds = [value for name, value in timing.items() if name.endswith("_s")]
    seconds += [value for server in timing["per_server"] for name, value in server.items() if name.endswith("_s")]
    assert len(seconds) > 20
    assert all(round(100 * value, 6) % 1 == 0 for value in seconds)
    assert any(round(10 * value, 6) % 1 for value in seconds)
    assert json.loads((tmp_path / "out" / "result.json").read_text())["timing"] == timing
    assert PUBLISH in " ".join((tmp_path / "out" / "report.html").read_text().split())


def test_owners_show_nothing_of_their_rows(people, tmp_path, capsys):
    _, rows, _ = people
    data = []
    for number, part in enumerate(np.split(rows[:, :2], [1300])):
        write_csv(tmp_path / f"owner{number}.csv", Table(NAMES[:2], part))
        data.append(tmp_path / f"owner{number}.csv")
    (tmp_path / "bounds.toml").write_text(BOUNDS.partition("[columns.visits]")[0])
    plan = ["--target", "ill", "--bounds", tmp_path / "bounds.toml", "--model", "logistic", "--rounds", "1"]
    out = tmp_path / "out"
    status, printed, told = run(capsys, "owners", "--simulate", *data, *plan, *BUDGET, *SEED, "--out", out, "--json")
    assert status == 0, told
    exact = {}
    for number, part in enumerate(np.split(rows[:, :2], [1300])):
        found = of_table(NAMES[:2], part) | of_regression(NAMES[:2], part, "ill")
        exact |= {f"owner {number}: {name}": value for name, value in found.items()}
    exact |= of_table(NAMES[:2], rows[:, :2]) | of_regression(NAMES[:2], rows[:, :2], "ill")
    for where, text in {"standard output": printed, "standard error": told, **outputs(out)}.items():
        assert shown(exact, text) == [], where
    for path in out.glob("*.dpmpc"):
        assert opened_without_noise(Release.load(path), rows[:, :2]) == 0


def test_a_mixed_file_shows_nothing_of_the_columns(people, tmp_path, capsys):
    _, rows, ward = people
    ids = np.arange(CLIENTS)
    data, bounds = [], []
    for number, names in enumerate((("age", "ill"), ("visits", "stay"))):
        columns = np.column_stack([ids, rows[:, [NAMES.index(name) for name in names]]])
        write_csv(tmp_path / f"party{number}.csv", Table(("id", *names), columns))
        kept = [part for part in BOUNDS.split("\n\n") if any(f"columns.{name}]" in part for name in names)]
        (tmp_path / f"bounds{number}.toml").write_text("\n\n".join(kept))
        data.append(tmp_path / f"party{number}.csv")
        bounds.append(tmp_path / f"bounds{number}.toml")
    out = tmp_path / "public"
    command = ["mix", "--simulate", *data, "--key", "id", "--bounds", *bounds, *BUDGET, *SEED, "--rows", "60"]
    status, printed, told = run(capsys, *command, "--out", out, "--json")
    assert status == 0, told
    exact = statistics(rows, ward)
    texts = {"standard output": printed, "standard error": told}
    texts |= {"page": said_by(tmp_path / "public.html"), "file": said_by(out)}
    for form in ([], ["--json"], ["--html"]):
        status, said, _ = run(capsys, "read", out, "--target", "stay", *form)
        assert status == 0
        texts[f"read {form}"] = of_page(said)
    for where, text in texts.items():
        assert shown(exact, without_machine(text)) == [], where


def test_a_collection_shows_nothing_of_the_reports(tmp_path, capsys):
    trial = Trial.filled(tmp_path / "trial", sketch="sum", rows=1, sparsity=1, copies="one")
    ended = run_servers(trial)
    assert {one.status for one in ended.values()} == {0}, ended
    rows = np.random.default_rng(5).uniform(0, 10, (len(trial.ids), 2))
    names = ("a", "y")
    schema = trial.collection.plan.schema
    exact = of_table(names, rows) | of_regression(names, rows, "y")
    exact |= {f"normalised {name}": value for name, value in of_table(names, schema.normalise(rows)).items()}
    texts = {f"log of server {server}": one.told for server, one in ended.items()}
    path = trial.out(0)
    texts |= {"page": said_by(path.with_name(f"{path.name}.html")), "file": said_by(path)}
    for command in (
        ["verify", path],
        ["read", path],
        ["read", path, "--target", "y", "--json"],
        ["read", path, "--html"],
    ):
        status, printed, told = run(capsys, *command)
        assert status == 0, told
        texts[" ".join(map(str, command))] = of_page(printed) + told
    for where, text in texts.items():
        assert shown(exact, text) == [], where
    assert opened_without_noise(verify(path).release, rows) == 0


def test_the_search_finds_what_is_printed():
    """The search itself: whole numbers, digits of floats, signs, commas; and it does not find what is not there."""
    exact = {"count": 2136, "mean": 51.23456789, "small": -0.000123456, "large": 1234567.0}
    assert shown(exact, "2,136 people") == ["count"]
    assert shown(exact, "mean 51.235 and \u22121.2346e-04") == ["mean", "small"]
    assert shown(exact, '{"x": 1234567}') == ["large"]
    assert shown(exact, "2137 51.3 51.24 0.0001235 12136") == []
    assert numbers_of("k = 1, 2.50 x3") == {"1", "2.50"}


@pytest.mark.parametrize("choice", [{"sketch": "sum"}, {"rounds": 0}, {}], ids=["one release", "two sums", "ten sums"])
def test_python_estimators_keep_no_comparison(people, choice):
    """What an estimator holds after `fit` is a function of the releases, the parameters and public facts."""
    _, rows, ward = people
    bounds = {"x0": (18, 90), "x1": (0, 1), "x2": (0, 12), "y": (0, 40)}
    model = RidgeRegression(bounds=bounds, simulation_seed=1, **choice).fit(rows[:, :3], rows[:, 3])
    again = RidgeRegression(**choice)
    if len(model.releases_) > 1:
        again.fit_rounds(SavedReleases(model.releases_, model.guarantee_.epsilon))
    else:
        again.fit_release(model.release_, target="y")
    assert set(vars(model)) - set(vars(again)) <= {"feature_names_in_"}
    for name, value in vars(again).items():
        if name.endswith("_") and isinstance(value, float | np.ndarray | tuple):
            assert np.array_equal(value, getattr(model, name)), name
    assert opened_without_noise(model.releases_[0], rows) == 0
    assert shown(statistics(rows, ward), f"{model.summary()} {vars(model)}") == []
