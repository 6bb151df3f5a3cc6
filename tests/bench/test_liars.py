"""Benches about liars: surprises end them, tables have what was seen, and a small population shows the cliff."""

import json

import numpy as np
import pytest

from bench.harness import RESULTS
from bench.registry import BENCHES
from bench.system import attacks, proving, robustness
from dpmpc.base.errors import ProtocolFailure
from dpmpc.models.common.linear_algebra import exact_gram
from support.hostile.attacks import ATTACKS

SEEN = {
    "name": "replayed",
    "by": "a client",
    "does": "sends it again",
    "expected": "counts once",
    "seen": "counts once",
}
SEEN |= {"cause": "", "released": 210, "honest": 210}


def counts(accepted=0, honest=50):
    tried = [{"kind": "none", "does": "honest rows", "tried": 50, "accepted": honest}]
    tried.append({"kind": "one word", "does": "one word is another", "tried": 1000, "accepted": accepted})
    return {"tried": tried, "seconds": 1.0}


def content(**changes):
    parts = {"statements": counts(), "changes": counts()}
    return {"machine": {"cpu": "a", "date": "b"}, "attacks": [SEEN], "counts": parts, "bound": 1e-11} | changes


def test_a_page_of_attacks_has_them_all():
    text = attacks.render(content())
    assert "| a client | sends it again | counts once | - | 210 | 210 |" in text
    assert "| one word | one word is another | 1,000 | 0 |" in text
    attacks.require_expected(content())


@pytest.mark.parametrize(
    ("changes", "surprise"),
    [
        ({"attacks": [SEEN | {"seen": "spoils the release"}]}, "replayed: spoils the release"),
        ({"counts": {"statements": counts(accepted=1)}}, "one word: 1 accepted"),
        ({"counts": {"changes": counts(honest=49)}}, "none: 49 accepted"),
    ],
)
def test_a_surprise_is_an_error(changes, surprise):
    with pytest.raises(ProtocolFailure, match=surprise):
        attacks.require_expected(content(**changes))


def test_the_kept_results_are_those_of_the_registry():
    kept = json.loads((RESULTS / "attacks.json").read_text())
    assert [one["name"] for one in kept["attacks"]] == list(ATTACKS)
    attacks.require_expected(kept)
    for part in kept["counts"].values():
        assert sum(one["tried"] for one in part["tried"][1:]) >= attacks.MANY
    assert (RESULTS / "attacks.md").read_text() == attacks.render(kept) + "\n"


def test_a_flat_line_and_a_cliff(monkeypatch):
    """Two runs of 600 clients, 12 of whom lie: all is seeded but keys, which cancel."""
    monkeypatch.setattr(robustness, "RUNS", 2)
    monkeypatch.setattr(robustness, "EPSILON", 50.0)
    population = robustness.Population(*robustness.generated(600))
    cells = {(cell["liars"], cell["way"]): cell for cell in population.measure([0, 12])}
    flat = cells[12, robustness.REFUSED]
    assert flat["accepted"] == 588
    assert flat["phi"]["median"] == pytest.approx(cells[0, robustness.REFUSED]["phi"]["median"], rel=0.2)
    assert cells[12, robustness.WORST]["accepted"] == 600
    assert cells[12, robustness.WORST]["phi"]["median"] > 1.1 * flat["phi"]["median"]
    for way in (robustness.RANDOM, robustness.CHOSEN, robustness.LARGEST):
        assert cells[0, way]["phi"]["median"] == pytest.approx(flat["phi"]["median"], rel=0.2)
        assert cells[12, way]["phi"]["median"] > 5 * flat["phi"]["median"]


def test_liars_who_choose_the_result_turn_the_coefficients():
    population = robustness.Population(*robustness.generated(500))
    tables = (population.normalised, population.turned(7.0))
    slopes, others = (robustness.solve_ridge(exact_gram(table), 6, 0.0).weights for table in tables)
    np.testing.assert_allclose(others, -7 * slopes, atol=1e-9)


def test_goals_of_proving_are_judged():
    medians = {name: {"median": 8.0} for name in (proving.CLIENT, proving.BY_KEY, proving.BY_WORDS)}
    entry = {"columns": 10, "fractional_bits": 11, "microseconds": medians, "bytes": {"upload": 2001, "message": 136}}
    text = "\n".join(proving.goals([entry]))
    assert "| 10 | verified reports/s of either server, at least | 100,000 | 125,000 | yes |" in text
    assert "| 10 | client, microseconds, at most | 50 | 8 | yes |" in text
    assert "| 10 | uploaded by a client, bytes, at most | 2,000 | 2,001 | no |" in text
    assert "| 10 | sent to each peer for a report, bytes, at most | 136 | 136 | yes |" in text
    assert proving.goals([entry | {"fractional_bits": 8}]) == []


def test_benches_have_short_forms():
    assert BENCHES["system.attacks"].short == ("--count", "10000")
    assert BENCHES["system.robustness"].short == ("--short",)
