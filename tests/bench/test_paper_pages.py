"""Figures that pages on the papers state are those of the results that they name, as the pages round them."""

import json
from pathlib import Path

import numpy as np
import pytest

from bench.coinpress.figures import COINPRESS, PRINTED
from bench.harness import RESULTS
from bench.secure_sketching.dense_as_printed import AS_PRINTED
from bench.secure_sketching.utility import DENSE, TRIVIAL
from dpmpc.privacy import ZCDPBudget

PAGES = Path(__file__).parents[2] / "docs" / "papers"


def result(name):
    return json.loads((RESULTS / f"{name}.json").read_text())


def rounded(value):
    """A number as the pages write it: three digits, without a 0 before the point."""
    text = f"{value:.3g}" if value < 100 else f"{value:.0f}"
    return text.removeprefix("0") if text.startswith("0.") else text


def panel(name, title):
    (found,) = (one for one in result(name)["panels"] if one["title"] == title)
    return found


def means(name, title, way, at):
    found = panel(name, title)
    values = found["series"][way]
    return [rounded(values[found["x"].index(x)]["mean"]) for x in at]


def rows(page, item):
    """Cells of the rows of a page's tables that begin with this item."""
    lines = (PAGES / page).read_text().splitlines()
    return [line for line in lines if line.startswith(f"| {item} |")]


@pytest.mark.parametrize("way", [PRINTED, COINPRESS])
@pytest.mark.parametrize(
    ("figure", "titles", "at"),
    [
        ("coinpress_figure2", ["d = 2", "d = 5", "d = 10"], (500, 1000, 4000)),
        ("coinpress_figure3", ["d = 25", "d = 35", "d = 50"], (4000,)),
        ("coinpress_figure4", ["d = 5, n = 1000", "d = 10, n = 1000"], (0.01, 0.1, 1.0)),
    ],
)
def test_figures_of_coinpress_stand_on_its_page_as_printed_and_repaired(figure, titles, at, way):
    (row,) = rows("coinpress.md", f"Figure {figure[-1]}")
    for title in titles:
        assert ", ".join(means(figure, title, way, at)) in row, (title, way)


def test_the_dense_mechanism_stands_on_the_page_as_measured():
    (row,) = rows("secure-sketching.md", "Theorem 5.7")
    for entry in result("dense_as_printed")["measured"]:
        of = entry["ways"]
        assert rounded(of[AS_PRINTED]["mean"]) in row
        assert rounded(of[TRIVIAL]["mean"]) in row
        if entry["epsilon"] == 20:
            assert rounded(of[DENSE]["mean"]) in row


def test_the_printed_algorithm_of_coinpress_leaves_budget_unspent():
    """0.1 and 0.45 of rho: what the ledger says that was spent is 0.55 of it."""

    from dpmpc.models.papers.coinpress import CoinPressRegression

    X = np.random.default_rng(0).standard_normal((300, 3))
    spent = {}
    for algorithm in ("printed", "repaired"):
        model = CoinPressRegression(0.5, simulation_seed=1, algorithm=algorithm).fit(X, X[:, 0])
        assert isinstance(model.ledger_, ZCDPBudget)
        spent[algorithm] = model.ledger_.spent
    assert spent["printed"] == pytest.approx(0.55 * 0.5, rel=1e-3)
    assert spent["repaired"] == pytest.approx(0.5, rel=1e-3)


def test_coverage_of_odds_and_rate_ratios_stands_on_its_page_as_measured():
    page = (PAGES.parent / "how-to" / "logistic.md").read_text()
    lines = page[page.index("**How often intervals cover.**") :].split("\n\n")[1].splitlines()[2:]
    measured = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in (RESULTS / "rounds_coverage.md").read_text().splitlines()
        if line.startswith("| ")
    ]
    rows_of = {(", ".join(row[1:4]), row[5], f"{row[6]}, {row[7]}", row[10]) for row in measured if len(row) > 10}
    assert len(lines) == 10
    for line in lines:
        _, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        assert tuple(cells) in rows_of, line
