"""Curves over the rows of a sketch: each k is measured as it is named, and the verdict is that of the best."""

import json

import pytest

from bench.charts import Panel
from bench.harness import RESULTS
from bench.secure_sketching import best_k
from bench.secure_sketching.synthetic import regression
from bench.secure_sketching.utility import GAUSS, LAPLACE, TRIVIAL, RidgeProblem, recommended


@pytest.fixture
def problem():
    return RidgeProblem(regression(3000), 10.0, radius=2.2)


def test_the_named_k_is_used_and_the_recommended_one_is_told(problem):
    assert best_k.measure(problem, 5.0, 40, 2)[0] == 40
    used, found = best_k.measure(problem, 5.0, None, 1)
    assert used == recommended(problem, 5.0)[GAUSS] != 40
    assert found == best_k.measure(problem, 5.0, used, 1)[1]  # the same seed, matrix and noise


def test_the_recommended_k_depends_on_public_numbers_alone(problem):
    """As Tables 7 and 8 state it: other rows of the same number have the same k."""
    other = RidgeProblem(0.1 * regression(3000, seed=5), 10.0, radius=2.2)
    assert recommended(problem, 0.5) == recommended(other, 0.5)
    assert set(recommended(problem, 0.5)) == {GAUSS, LAPLACE}


def test_a_finding_names_the_best_k_and_the_pages(problem):
    panel = Panel("Title: φ - 1")
    for rows, values in ((30, [1.1, 1.2]), (300, [0.8, 0.82]), (1000, [1.0, 1.0])):
        panel.add(rows, {GAUSS: values, TRIVIAL: [1.0, 1.0]})
    told = best_k.finding(panel, 1000)
    assert "best k = 300: 0.81" in told
    assert ", better than the trivial predictor" in told
    assert "as recommended, k = 1,000: 1" in told
    alone = Panel("Title", [30.0], {name: [entries[2]] for name, entries in panel.series.items()})
    assert "not better than" in best_k.finding(alone, 30)


def test_a_short_run_writes_its_curve(tmp_path):
    best_k.main(["--short", "--out", str(tmp_path)])
    content = json.loads((tmp_path / "best_k.json").read_text())
    assert [panel["x"] for panel in content["panels"]] == [[30, 64, 100]] * 2
    assert "best k = " in (tmp_path / "best_k.md").read_text()


@pytest.mark.parametrize("name", ["table7", "table8"])
def test_the_tables_say_which_k_their_sketches_have(name):
    """The stored findings; on SGEMM at epsilon = .5 and 5, recomputed from public numbers alone."""
    findings = json.loads((RESULTS / f"{name}.json").read_text())["findings"]
    told = [line for line in findings if f"k of {GAUSS} / {LAPLACE}" in line]
    assert len(told) == 4
    expected = {"table7": "28 / 28 (0.5), 306 / 308 (5)", "table8": "27,554 / 27,554 (0.5), 215 / 215 (5)"}
    assert any(expected[name] in line for line in told)
    assert all(line in (RESULTS / f"{name}.md").read_text() for line in told)
