"""Rows that are drawn from a release: their tables are those of the tree, and the file says what it is.

Statistical tests have fixed seeds; each says how often a right program would fail it.
"""

import csv
import re

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from bench.secure_sketching.coverage import release_by_parties, release_of_law
from dpmpc.base.errors import InputError
from dpmpc.base.randomness import Stream
from dpmpc.data import Codebook, Schema
from dpmpc.data.variables import Variable
from dpmpc.linear.contributions.cells import CellCounts
from dpmpc.models.tables.synthetic_rows import SyntheticRows, nearest
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning import design

WARD, OUTCOME = Variable("ward", values=("north", "south", "east")), Variable("outcome", values=("home", "moved"))
SMOKER, LUCK = Variable("smoker", yes=("y",), no=("n",)), Variable("luck", values=("=a", "b"))
CATEGORIES = Schema.of_codebook(Codebook((Variable("age", 0, 100), WARD, OUTCOME, SMOKER, LUCK)))
NUMBERS = Schema.of_codebook(
    Codebook(
        (
            Variable("age", 0, 100, step=1),
            Variable("crp", 0.1, 100, transform="log", if_missing="indicator"),
            Variable("seen", date="%Y-%m-%d", lower="2020-01-01", upper="2020-12-31", cells=60),
            WARD,
            Variable("died", yes=("yes",), no=("no",)),
        )
    )
)


def chain(rng, clients, depends=True):
    """Return places: the outcome depends on the ward and smoking on the outcome, luck on nothing."""
    ward = rng.choice(3, clients, p=[0.5, 0.3, 0.2])
    outcome = rng.random(clients) < (np.array([0.2, 0.5, 0.8])[ward] if depends else 0.4)
    smoker = rng.random(clients) < (np.where(outcome, 0.6, 0.2) if depends else 0.3)
    return ward, outcome.astype(int), smoker.astype(int), (rng.random(clients) < 0.5).astype(int)


def coded(ward, outcome, smoker, luck):
    age = np.full(len(ward), 40.0)
    return np.column_stack([age, ward == 1, ward == 2, outcome, smoker, luck]).astype(float)


def moments(clients, epsilon=1.0):
    return design(ReleaseSpec.of(CATEGORIES, clients, epsilon, 1e-6, noise_by="servers", simulation_seed=0))


def test_rows_have_the_tables_of_the_tree():
    """Shares within .02 of the people's: noise has a standard error of .003, 20,000 drawn rows of at most .0036."""
    people = chain(np.random.default_rng(0), 20_000)
    found = SyntheticRows.of(release_by_parties(moments(20_000), coded(*people), Stream.from_seed(0)))
    assert {frozenset(edge) for edge in found.edges} == {
        frozenset(("ward", "outcome")),
        frozenset(("outcome", "smoker")),
    }
    assert (list(found.columns), list(found.left_out)) == (["ward", "outcome", "smoker", "luck"], ["age"])
    rows = list(found.rows())
    assert (len(rows), rows) == (20_000, list(found.rows()))
    drawn = np.array(rows)
    ward, outcome, smoker, luck = people
    for place, value in enumerate(WARD.values):
        inside = drawn[:, 0] == value
        assert np.mean(inside) == pytest.approx(np.mean(ward == place), abs=0.02)
        assert np.mean(drawn[inside, 1] == "moved") == pytest.approx(np.mean(outcome[ward == place]), abs=0.03)
    moved = drawn[:, 1] == "moved"
    assert np.mean(drawn[moved, 2] == "y") == pytest.approx(np.mean(smoker[outcome == 1]), abs=0.03)
    assert set(drawn[:, 2]) == {"y", "n"}  # as the bounds file reads them
    assert set(drawn[:, 3]) == {"'=a", "b"}  # no spreadsheet takes it for a formula
    assert np.mean(drawn[:, 3] == "b") == pytest.approx(np.mean(luck), abs=0.02)


@pytest.mark.statistical
def test_columns_that_are_independent_are_drawn_apart():
    """One edge or more in at most 5 % of releases: more than 9 of 60 would be seen in 2e-4 of the seeds."""
    rng, here, joined = np.random.default_rng(1), moments(2_000), 0
    for run in range(60):
        rows = coded(*chain(rng, 2_000, depends=False))
        joined += bool(SyntheticRows.of(release_by_parties(here, rows, Stream.from_seed(run))).edges)
    assert joined <= scipy.stats.binom.ppf(1 - 2e-4, 60, 0.05)


def table_of_cells(by="died", clients=10_000, epsilon=2.0):
    rng = np.random.default_rng(2)
    died, gone = rng.random(clients) < 0.3, rng.random(clients) < 0.1
    age = np.clip(rng.normal(np.where(died, 70, 50), 10), 0, 100).round()
    crp, ward = rng.lognormal(1, 1, clients), rng.choice(3, clients, p=[0.5, 0.3, 0.2])
    days = rng.integers(0, 366, clients)
    rows = np.column_stack([age, np.where(gone, 0, np.log(crp.clip(0.1, 100))), gone, days, ward == 1, ward == 2, died])
    options = {"contribution": CellCounts.of(NUMBERS, by), "simulation_seed": 0}
    task = design(ReleaseSpec.of(NUMBERS, clients, epsilon, 1e-6, **options))
    return release_of_law(task, rows.astype(float), rng), age, crp, died, gone


def test_rows_of_cells_have_numbers_dates_and_what_is_missing(tmp_path):
    release, age, crp, died, gone = table_of_cells()
    found = SyntheticRows.of(release)
    assert found.edges == [("died", "age")]
    found.write(tmp_path / "rows.synthetic.csv")
    frame = pd.read_csv(tmp_path / "rows.synthetic.csv", comment="#")
    assert list(frame) == ["age", "crp", "seen", "ward", "died"]
    assert len(frame) == 10_000
    for value, inside in (("yes", died), ("no", ~died)):
        assert frame["age"][frame["died"] == value].median() == pytest.approx(np.median(age[inside]), abs=2)
    assert (frame["age"] % 1 == 0).all()
    assert frame["crp"].isna().mean() == pytest.approx(gone.mean(), abs=0.02)
    assert frame["crp"].median() == pytest.approx(np.median(crp[~gone]), rel=0.1)
    days = pd.to_datetime(frame["seen"], format="%Y-%m-%d")
    assert days.min() >= pd.Timestamp("2020-01-01")
    assert days.max() <= pd.Timestamp("2020-12-31")
    again = NUMBERS.codebook.encode(frame.astype(object).where(frame.notna(), None))  # as the bounds file reads it
    assert len(again) == 10_000


def test_without_groups_columns_of_cells_are_drawn_apart():
    found = SyntheticRows.of(table_of_cells(by=None)[0])
    assert found.edges == []
    assert list(found.columns) == ["age", "crp", "seen", "ward", "died"]
    died = [row[-1] for row in found.rows()]
    assert died.count("yes") == pytest.approx(3000, abs=300)


def test_the_file_says_what_it_is_before_anything_else(tmp_path):
    release = table_of_cells()[0]
    found, path = SyntheticRows.of(release), tmp_path / "rows.synthetic.csv"
    found.write(path)
    first, header, *rows = path.read_text().splitlines()
    assert first == found.label
    assert first.startswith("# Synthetic rows: nobody's. Drawn from the noisy sums of a release, epsilon = 2, ")
    for words in ("two-way tables: died by age.", "Not valid: standard errors, p-values, rare combinations"):
        assert words in first
    assert header == "age,crp,seen,ward,died"
    assert len(list(csv.reader(rows))) == release.clients
    with pytest.raises(InputError, match=r"synthetic: .* given, a name expected that ends in \.synthetic\.csv"):
        found.write(tmp_path / "rows.csv")
    assert not (tmp_path / "rows.csv").exists()


def test_the_nearest_table_of_people():
    rng = np.random.default_rng(3)
    for _ in range(20):
        counts = rng.normal(5, 8, (3, 4))
        found = nearest(counts)
        assert found.sum() == pytest.approx(1)
        assert (found >= 0).all()
        shift = (counts / max(counts.sum(), 1) - found)[found > 0]
        assert np.ptp(shift) < 1e-12  # all that are left are moved alike
    assert nearest(np.array([1.0, 3.0])) == pytest.approx([0.25, 0.75])


def test_releases_without_tables_are_refused():
    plain = Schema.unit(["a", "b"])
    release = release_of_law(
        design(ReleaseSpec.of(plain, 100, 1.0, 1e-3, simulation_seed=0)), np.zeros((100, 2)), np.random.default_rng(0)
    )
    with pytest.raises(InputError, match="this release has no table of two columns with listed values"):
        SyntheticRows.of(release)
    rows = design(ReleaseSpec.of(CATEGORIES, 1000, 1.0, 1e-6, sketch="osnap", rows=20, simulation_seed=0))
    sketch = release_of_law(rows, np.zeros((1000, 6)), np.random.default_rng(0))
    with pytest.raises(InputError, match=re.escape("one of second moments or of cells expected")):
        SyntheticRows.of(sketch)
