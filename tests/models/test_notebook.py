"""What consoles and notebooks show of releases and guarantees: short, true, and never markup of the data's making."""

import html.parser

import numpy as np
import pytest

from dpmpc import RidgeRegression
from dpmpc.base.notebook import facts_html, statement_html
from dpmpc.data import Schema, Table
from dpmpc.models.papers.mutual_information import AdditiveNoise
from dpmpc.owners.columns import RMGM
from dpmpc.privacy import BudgetLedger
from dpmpc.privacy.composition import Cost
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning import design

EVIL = "<script>alert('x')</script>&"


class Reader(html.parser.HTMLParser):
    """Collects tags, which have to be closed in order, and text."""

    def __init__(self, content):
        super().__init__()
        self.tags, self.words, self._open = set(), [], []
        self.feed(content)
        self.close()
        assert not self._open

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self._open.append(tag)
        assert {name for name, _ in attrs} <= {"style"}

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


@pytest.fixture(scope="module")
def release():
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, (1000, 3))
    table = Table(("a", EVIL, "y"), rows)
    return RidgeRegression(simulation_seed=1, sketch="sum").release(table)


def test_reprs_are_short_and_say_what_is_a_simulation(release):
    assert repr(release) == (
        "<Release of 1,000 clients: sum 1 x 9 of second-moments, epsilon=1, delta=1e-06, SIMULATION>"
    )
    assert repr(release.guarantee) == (
        "<Guarantee: (1, 1e-06)-differential privacy for each of 1,000 clients, replace-one, SIMULATION>"
    )
    real = design(ReleaseSpec.of(Schema.unit(["a"]), 100, 0.5, 0, sketch="sum", noise="discrete-laplace")).guarantee
    assert repr(real) == "<Guarantee: pure 0.5-differential privacy for each of 100 clients, replace-one>"
    assert "SIMULATION" not in real._repr_html_()


def test_other_guarantees_have_short_reprs():
    X = np.random.default_rng(0).uniform(-1, 1, (500, 2))
    mixed = RMGM(simulation_seed=1).fit([X[:, :1], X[:, 1:]]).release_.guarantee
    assert repr(mixed) == (
        "<MixingGuarantee: (1, 1e-05)-differential privacy for each of 500 subjects, party, replace-one, SIMULATION>"
    )
    bits = AdditiveNoise(0.5, simulation_seed=1).fit(X, X[:, 0]).guarantee_
    assert repr(bits) == "<MutualInformationGuarantee: 0.5 bits about one entry, proven, SIMULATION>"
    for guarantee in (mixed, bits):
        words = "".join(Reader(guarantee._repr_html_()).words)
        assert words.startswith("SIMULATION")
        assert guarantee.mechanism in words


def test_html_says_what_the_text_says(release):
    reader = Reader(release.guarantee._repr_html_())
    shown = "".join(reader.words).replace(" ", "")
    for line in str(release.guarantee).splitlines():
        assert line.strip().replace(": ", "", 1).replace(" ", "") in shown or line.replace(" ", "") in shown
    assert {"mark", "strong", "table"} <= reader.tags


def test_names_cannot_become_markup(release):
    content = release._repr_html_()
    reader = Reader(content)
    assert "script" not in reader.tags
    assert f"a, {EVIL}, y" in reader.words
    assert release.guarantee._repr_html_() in content
    assert "script" not in Reader(facts_html(EVIL, [(EVIL, EVIL)])).tags
    assert "script" not in Reader(statement_html(f"{EVIL}\n{EVIL}\n  {EVIL}: {EVIL}\n  {EVIL}")).tags


def test_a_ledger_shows_every_entry():
    ledger = BudgetLedger(2.0, 1e-6)
    ledger.spend(Cost(epsilon=0.25), EVIL)
    ledger.spend(Cost(epsilon=0.5), EVIL)
    reader = Reader(ledger._repr_html_())
    assert reader.words.count(EVIL) == 2
    assert "epsilon = 0.25 alone" in reader.words
    assert "epsilon = 0.5 alone" in reader.words
    assert "BudgetLedger: epsilon = 0.75 of 2 spent" in reader.words[0]
