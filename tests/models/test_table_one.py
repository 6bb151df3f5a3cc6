"""Table 1 of simulated people: what is told and what is not, what a later reading gives, and what is refused.

Statistical tests have a fixed seed; each says how often it would fail if all were well.
"""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpmpc import ReleaseSpec, Schema, TableOne, design, simulate
from dpmpc.app.render.plots import draw
from dpmpc.base.randomness import stream_for
from dpmpc.data import Codebook
from dpmpc.data.variables import Variable
from dpmpc.linear.contributions.cells import CellCounts, CellGrid
from dpmpc.release.release import Release
from support.rejections import rejects

BOOK = Codebook(
    (
        Variable("age", 0, 100, step=1),
        Variable("crp", 0.1, 100, transform="log", if_missing="indicator"),
        Variable("seen", date="%Y-%m-%d", lower="2020-01-01", upper="2020-12-31", cells=60),
        Variable("ward", values=("north", "south", "isle")),
        Variable("died", yes=("yes",), no=("no",)),
    )
)
PUBLIC = Schema.of_codebook(BOOK)
PEOPLE = 12_000


def people(seed=1):
    """Return a table of people, and its columns in numbers."""
    rng = np.random.default_rng(seed)
    died = rng.random(PEOPLE) < 0.2
    age = np.clip(rng.normal(np.where(died, 70, 50), 12), 0, 100).round()
    crp = rng.lognormal(1, 1, PEOPLE)
    lacking = rng.random(PEOPLE) < 0.1
    days = rng.integers(0, 366, PEOPLE)
    ward = rng.choice(["north", "south"], PEOPLE)
    ward[:3] = "isle"
    columns = {
        "age": [str(int(one)) for one in age],
        "crp": [None if gone else f"{one:.3f}" for one, gone in zip(crp, lacking, strict=True)],
        "seen": [str(np.datetime64("2020-01-01") + int(day)) for day in days],
        "ward": list(map(str, ward)),
        "died": ["yes" if one else "no" for one in died],
    }
    return pd.DataFrame(columns), {"age": age, "crp": crp, "lacking": lacking, "days": days, "ward": ward, "died": died}


@pytest.fixture(scope="module")
def fitted():
    found, _ = people()
    return TableOne(by="died", bounds=PUBLIC, epsilon=2.0, delta=1e-6, simulation_seed=3).fit(found)


def test_medians_counts_and_shares_are_those_of_the_people(fitted):
    """All within 5 standard errors, or in intervals of level 1 - 10^-6: one false alarm in 10^5."""
    _, exact = people()
    sure = 1 - 1e-6
    assert (fitted.by_, fitted.groups_, list(fitted.variables_)) == (
        "died",
        ("no", "yes"),
        ["age", "crp", "seen", "ward"],
    )
    for group, members in ((None, slice(None)), ("yes", exact["died"]), ("no", ~exact["died"])):
        _, lower, upper = fitted.quantile("age", 0.5, group, sure)
        assert lower <= np.median(exact["age"][members]) <= upper
        _, lower, upper = fitted.quantile("seen", 0.25, group, sure)
        assert lower <= np.quantile(exact["days"][members], 0.25) <= upper
    table = fitted.result().data["people"]
    assert table["all"]["people"] == PEOPLE
    assert abs(table["died = yes"]["people"] - exact["died"].sum()) < 5 * table["died = yes"]["std. error"]
    row = fitted.result().data["numbers"]["crp, all"]
    assert abs(row["missing"] - exact["lacking"].sum()) < 5 * row["s.e. of missing"]
    row = fitted.result().data["categories"]["ward = north, died = yes"]
    north = np.mean(exact["ward"][exact["died"]] == "north")
    assert abs(row["%"] - 100 * north) < 5 * row["s.e. of %"]
    assert row["s.e. of %"] == pytest.approx(50 / math.sqrt(exact["died"].sum()), rel=0.1)  # most of it is sampling


def test_what_the_noise_hides_is_not_told(fitted):
    """Three people on the isle: their number is told with its error, and no share of them."""
    found, _ = people()
    by_ward = TableOne(by="ward", bounds=PUBLIC, columns=["age", "died"], simulation_seed=4).fit(found)
    result = by_ward.result()
    assert result.data["categories"]["died = yes, ward = isle"]["%"] is None
    assert result.data["numbers"]["age, ward = isle"]["median"] is None
    assert result.warnings == ["Too few people to distinguish from none: isle."]
    assert result.verdict is None
    tiny = Schema.of_codebook(Codebook((Variable("age", 0, 100),)))
    few = design(ReleaseSpec.of(tiny, 20, 1.0, 1e-6, contribution=CellCounts.of(tiny), simulation_seed=1))
    hidden = TableOne().fit_release(simulate(few, np.full((20, 1), 40.0), stream=stream_for(2))).result()
    assert hidden.verdict.startswith("The noise hides all")
    assert not hidden.plots


def test_it_is_read_again_from_a_file(fitted, tmp_path):
    fitted.release_.save(tmp_path / "r.dpmpc")
    again = TableOne().fit_release(Release.load(tmp_path / "r.dpmpc"))
    assert json.dumps(again.result().data) == json.dumps(fitted.result().data)
    assert again.quantile("age", 0.9) == fitted.quantile("age", 0.9)
    assert again.ecdf("age", "yes").columns["share"] == fitted.ecdf("age", "yes").columns["share"]
    counted = fitted.histogram("age", "yes").columns
    table = fitted.table_.to_dict()["died = yes"]
    assert sum(counted["people"]) == pytest.approx(table["people"])  # nobody lacks an age


def test_a_file_of_the_first_version_with_cells_says_what_it_said():
    """A released file cannot be made again: its strategies and its table stay what they were."""
    vectors = Path(__file__).parent.parent / "vectors"
    published = json.loads((vectors / "cells_release.json").read_text())
    found = TableOne().fit_release(Release.load(vectors / "cells_release.dpmpc")).result().data
    assert published.keys() <= found.keys()  # versions since then say more
    for table in ("people", "numbers", "categories"):
        assert found[table].keys() == published[table].keys()
        for row, values in published[table].items():
            again = {heading: found[table][row][heading] for heading in values}
            assert again == pytest.approx(values, rel=1e-9), (table, row)


def test_one_value_everywhere_is_described():
    public = Schema.from_pair(["x"], (0, 10))
    found = TableOne(bounds=public, simulation_seed=5).fit(pd.DataFrame({"x": np.full(5000, 3.0)}))
    value, lower, upper = found.quantile("x", 0.5)
    assert lower <= 3.0 <= upper
    assert upper - lower < 1
    assert abs(value - 3.0) < 1


def test_no_bounds_are_refused():
    with rejects("bounds", given="none"):
        TableOne().fit(np.zeros((10, 1)))


@pytest.mark.parametrize(
    ("ask", "argument"),
    [
        (lambda one: one.quantile("height", 0.5), "name"),
        (lambda one: one.quantile("ward", 0.5), "name"),
        (lambda one: one.quantile("age", 0.5, "maybe"), "group"),
        (lambda one: one.quantile("age", 1.0), "q"),
        (lambda one: one.ecdf("age", level=0.0), "level"),
        (lambda one: one.result(level=2), "level"),
    ],
)
def test_questions_that_make_no_sense_are_refused(fitted, ask, argument):
    with rejects(argument):
        ask(fitted)


def test_releases_of_something_else_are_refused():
    public = Schema.from_pair(["x", "y"], (0, 1))
    moments = simulate(design(ReleaseSpec.of(public, 500, 1.0, 1e-6)), np.zeros((500, 2)))
    with rejects("release"):
        TableOne().fit_release(moments)
    mixed = CellCounts(
        [*CellCounts.of(PUBLIC, "died").grids[:1], CellGrid(strategy="identity", groups=((PUBLIC.index("died"), 1),))]
    )
    task = design(ReleaseSpec.of(PUBLIC, 500, 1.0, 1e-6, contribution=mixed))
    rows = BOOK.encode(people()[0]).values[:500]
    with rejects("release", given="of cells by died given, by one variable or none expected"):
        TableOne().fit_release(simulate(task, rows))


def test_unlisted_values_are_refused_with_their_place():
    found = pd.DataFrame({"ward": ["north", "moon"]})
    with rejects("X: column 'ward', row 2", expected="one of north, south, isle"):
        TableOne(columns=["ward"], bounds=PUBLIC).fit(found)


def test_plots_are_drawn_of_every_variable(fitted):
    drawn = {name: draw(plot()) for name, plot in fitted.result().plots.items()}
    assert list(drawn) == [f"distribution of {name}" for name in ("age", "crp", "seen", "ward")]
    assert all("<svg" in str(plot.svg) for plot in drawn.values())
    assert math.isfinite(fitted.quantile("age", 0.5).value)


def covers(rng, law, runs, clients, noise_by):
    """Return how often intervals hold the true quartiles and bands the law, with the noise that several parties add."""
    cells = len(law)
    edges = tuple(np.linspace(0, 1, cells + 1)[1:-1].tolist())
    public = Schema.of_codebook(Codebook((Variable("x", 0, 1, edges=edges), Variable("g", values=("a", "b")))))
    options = {"contribution": CellCounts.of(public, "g"), "noise_by": noise_by, "simulation_seed": 1}
    task, up_to = design(ReleaseSpec.of(public, clients, 1.0, 1e-6, **options)), np.cumsum(law)
    hits, told, bands = 0, 0, 0
    for run in range(runs):
        place, group = rng.choice(cells, clients, p=law), rng.random(clients) < 0.3
        rows = np.column_stack([(place + 0.5) / cells, group.astype(float)])
        fit = TableOne().fit_release(simulate(task, rows, stream=stream_for(run)))
        found = fit.distribution("x", "b")  # the smaller group
        for q in (0.25, 0.5, 0.75):
            first, last = found.cells_of(q)
            told += found.tells(q)
            hits += found.tells(q) and first <= int(np.argmax(up_to >= q - 1e-12)) <= last
        band = fit.ecdf("x", "b").columns
        low, high = np.array(band["lower"]) - 1e-12, np.array(band["upper"]) + 1e-12
        bands += bool(np.all((low <= up_to[:-1]) & (up_to[:-1] <= high)))
    return hits, told, bands


LAWS = {
    "bell": np.diff(stats.norm.cdf(np.linspace(-3, 3, 65))) / (2 * stats.norm.cdf(3) - 1),
    "ties": np.where(np.isin(np.arange(64), [8, 20, 40]), 0.25, 0.25 / 61),
}


@pytest.mark.parametrize("noise_by", ["clients", "servers"])
def test_intervals_cover_with_the_noise_that_parties_add(noise_by):
    """40 runs, each with three quartiles of one sum: fails below the 10^-6 quantile of 40 runs that cover at .95."""
    hits, told, bands = covers(np.random.default_rng(11), LAWS["ties"], 40, 1500, noise_by)
    assert told == 120
    assert hits >= 3 * stats.binom.ppf(1e-6, 40, 0.95)
    assert bands >= stats.binom.ppf(1e-6, 40, 0.94)


@pytest.mark.long("2 minutes: 300 releases of two laws")
@pytest.mark.parametrize("law", LAWS)
def test_intervals_cover_in_many_releases_with_the_noise_that_parties_add(law):
    """Fails below the 10^-6 quantile of 300 runs that cover at .95, or at .94 for bands, whose law is simulated."""
    hits, told, bands = covers(np.random.default_rng(12), LAWS[law], 300, 2000, "clients")
    assert told == 900
    assert hits >= 3 * stats.binom.ppf(1e-6, 300, 0.95)
    assert bands >= stats.binom.ppf(1e-6, 300, 0.94)
