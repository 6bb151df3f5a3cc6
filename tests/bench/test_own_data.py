"""The comparison on a table of one's own: what is read, what is refused, and what is said of libraries."""

import importlib
import json

import numpy as np
import pytest

from bench.curators import central, libraries, measuring, names
from bench.curators.central import own_set
from bench.curators.page import NOT_PRIVATE
from bench.curators.problem import Problem
from dpmpc.base.randomness import Stream
from dpmpc.data import Schema
from support.rejections import rejects

BOUNDS = """[columns.age]
lower = 0
upper = 100
[columns.group]
values = ["a", "b", "c"]
[columns.spent]
lower = 0
upper = 1000
"""


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    ages, groups = rng.uniform(0, 120, 400), rng.choice(["a", "b", "c"], 400)
    lines = [f"{age:.1f},{group},{5 * age + 100 * (group == 'b'):.2f}" for age, group in zip(ages, groups, strict=True)]
    (tmp_path / "people.csv").write_text("age,group,spent\n" + "\n".join(lines) + "\n")
    (tmp_path / "bounds.toml").write_text(BOUNDS)
    return str(tmp_path / "people.csv"), str(tmp_path / "bounds.toml")


def test_a_table_with_categories_is_coded(files):
    problem = own_set(*files).problem()
    assert (problem.clients, problem.columns) == (400, 4)
    assert own_set(*files).target == "spent"
    assert own_set(*files, target="age").problem().schema.names[-1] == "age"
    assert problem.outside > 0
    assert problem.r2 > 0.9


def test_what_cannot_be_compared_is_refused(files, tmp_path):
    with rejects("target", expected="one of age, group=b, group=c, spent"):
        own_set(*files, target="none")
    (tmp_path / "one.toml").write_text("[columns.age]\nlower = 0\nupper = 1\n")
    with rejects("bounds"):
        own_set(files[0], str(tmp_path / "one.toml"))
    with rejects("data, bounds", expected="both"):
        central.main(["--data", files[0]])
    with rejects("data"):
        central.main(["--data", files[0], "--bounds", files[1], "--short"])


def test_a_table_of_ones_own_is_measured_and_nothing_is_written_unasked(files, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(measuring, "EPSILONS", (3.0,))
    chosen = ["--data", files[0], "--bounds", files[1], "--runs", "2", "--methods", names.SUM, names.ADASSP]
    before = sorted(tmp_path.iterdir())
    central.main(chosen)
    told = capsys.readouterr()
    assert NOT_PRIVATE in told.out
    assert NOT_PRIVATE in told.err
    assert "## people.csv" in told.out
    assert sorted(tmp_path.iterdir()) == before
    central.main([*chosen, "--out", str(tmp_path / "out")])
    content = json.loads((tmp_path / "out" / "own.json").read_text())
    assert list(content["sets"]["people.csv"]["cells"]) == [names.SUM, names.ADASSP]
    assert content["sets"]["people.csv"]["clients"] == 400


def test_a_library_that_cannot_be_imported_is_named_with_the_reason(files, monkeypatch):
    def refuse(name):
        raise ImportError("no such thing")

    monkeypatch.setattr(importlib, "import_module", refuse)
    comparison = central.own(own_set(*files))
    assert sorted(comparison.missing) == [names.OPENDP, names.DIFFPRIVLIB]
    assert "no such thing" in comparison.missing[names.DIFFPRIVLIB]
    assert not set(libraries.MODULES) & set(comparison.methods)


@pytest.mark.parametrize("name", libraries.MODULES)
def test_a_library_finds_least_squares_at_a_large_budget(name):
    if why := libraries.lacking(name):
        pytest.skip(why)
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (6000, 2))
    rows = np.column_stack([X, 0.1 + X @ [0.2, 0.4] + rng.uniform(-0.2, 0.2, 6000)])
    problem = Problem(rows, Schema.unit(["a", "b", "y"]))
    fits = measuring.METHODS[name].fit(problem, 60.0, 4, Stream.from_seed(1))
    assert np.median(problem.excess(fits.theta)) < 2e-3
