"""A fact stands on two pages at most; `tests/facts.toml` has the facts, and at how many places each stands."""

import re
import tomllib

import pytest

from dpmpc.linear.contributions import SecondMoments
from dpmpc.release.planning.designing import AUTO_WIDTH
from support.pages import PAGES, ROOT, code_left_out

FACTS = tomllib.loads((ROOT / "tests" / "facts.toml").read_text())["fact"]
PARTS = re.compile(r"\n\s*\n|\n(?=- |\|)")  # paragraphs, list items and rows of tables


def places(pattern):
    """Return the page of each part in which a pattern stands."""
    expression = re.compile(pattern, re.IGNORECASE)
    pages = [page for page in PAGES if page.name != "CONTRIBUTING.md"]
    parts = ((page, part) for page in pages for part in PARTS.split(code_left_out(page.read_text())))
    return [page for page, part in parts if expression.search(part.replace("\n", " "))]


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact["name"])
def test_a_fact_stands_on_two_pages_at_most(fact):
    """Lower a number of places that is not reached any more."""
    pages = places(fact["pattern"])
    assert len(set(pages)) <= 2
    assert len(pages) == fact["places"]


@pytest.mark.parametrize("page", ["docs/design.md", "docs/how-to/plan.md"])
def test_pages_name_the_most_columns_of_a_sum(page):
    most = max(columns for columns in range(1, 1000) if SecondMoments().width(columns) <= AUTO_WIDTH)
    assert SecondMoments().width(most) == most + most * (most + 1) // 2
    assert re.search(rf"\bup to {most}\b", (ROOT / page).read_text())
