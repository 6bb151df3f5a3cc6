"""What pages state of the papers and of results belongs to commands, tests and results that are there."""

import pydoc
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

from bench.harness import RESULTS
from bench.registry import BENCHES
from dpmpc.app.cli.main import parser
from dpmpc.models.papers.coinpress import CoinPressRegression
from dpmpc.privacy import ZCDPBudget
from support.lints import check_each
from support.pages import load

ROOT = Path(__file__).parents[2]
ITEMS = tomllib.loads((ROOT / "docs" / "papers.toml").read_text())["item"]
SITE = load(ROOT / "docs" / "toml_pages.py")
WORDS = 60  # of a finding, at most


def check_place(place):
    """A place is a file, a test file, a command, an option or a name of the package."""
    if place.startswith("python -m bench "):
        bench = place.split()[3]
        assert any(name == bench or name.endswith(f".{bench}") for name in BENCHES)
    elif place.startswith("dpmpc "):
        assert place.split()[1] in parser().commands.choices
    elif place.startswith("--"):
        assert re.fullmatch(r"(--[a-z-]+ [a-z0-9-]+ ?)+", place)
    elif place.endswith(".py"):
        assert (ROOT / place).exists() or list((ROOT / "tests").rglob(place))
    else:
        assert pydoc.locate(place) is not None


def check_item(item):
    assert {*item, "results", "picture"} == {"paper", "item", "verdict", "finding", "where", "results", "picture"}
    assert item["paper"] in SITE.PAPERS
    assert item["verdict"] in ("holds", "repaired", "differs", "lost")
    assert len(item["finding"].split()) <= WORDS
    for place in item["where"]:
        check_place(place)
    results = item.get("results", [])
    assert all((RESULTS / f"{name}.md").exists() for name in results)
    assert item.get("picture") in (None, *results)
    assert "picture" not in item or (RESULTS / f"{item['picture']}.png").exists()


def test_each_item_of_the_papers_names_what_is_there():
    check_each(check_item, ITEMS, name=lambda item: f"{item['paper']}: {item['item']}")


def test_the_site_lists_every_item_once():
    page = [(ROOT / "docs" / "papers.md").read_text()]
    SITE.write_lists(None, "papers", page)
    assert [page[0].count(f"**{item['item']}** (") for item in ITEMS] == [1] * len(ITEMS)


def test_the_printed_algorithm_of_coinpress_leaves_budget_unspent():
    """0.1 and 0.45 of rho: what the ledger says that was spent is 0.55 of it."""
    X = np.random.default_rng(0).standard_normal((300, 3))
    spent = {}
    for algorithm in ("printed", "repaired"):
        model = CoinPressRegression(0.5, simulation_seed=1, algorithm=algorithm).fit(X, X[:, 0])
        assert isinstance(model.ledger_, ZCDPBudget)
        spent[algorithm] = model.ledger_.spent
    assert spent["printed"] == pytest.approx(0.55 * 0.5, rel=1e-3)
    assert spent["repaired"] == pytest.approx(0.5, rel=1e-3)
