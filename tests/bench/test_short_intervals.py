"""The bench of short intervals: its page is that of its results, and what it counts as short."""

import json

import numpy as np

from bench.harness import RESULTS
from bench.system import short_intervals
from bench.system.rounds_coverage import LOOSE, Setting


def test_the_stored_page_is_drawn_from_the_stored_results():
    content = json.loads((RESULTS / "short_intervals.json").read_text())
    assert [(row["name"], row["n"]) for row in content["rows"]] == [
        (setting.name, setting.clients) for setting in short_intervals.chosen()
    ]
    assert short_intervals.render(content) == (RESULTS / "short_intervals.md").read_text().rstrip("\n")


class Fixed:
    """Intervals of four slopes: short, too long, short but on the bounds, infinite."""

    informative = True
    flagged = (False, False, False, True, True)

    def __init__(self, unit):
        half = unit * np.array([0.24, 0.26, 0.1, np.inf])
        self.confidence_intervals = np.column_stack([-half, half])


def test_an_interval_is_short_below_a_quarter_of_the_range(monkeypatch):
    *features, target = LOOSE.schema.columns
    unit = (target.upper - target.lower) / (features[0].upper - features[0].lower)
    monkeypatch.setattr(Setting, "attempt", lambda self, number: (Fixed(unit), {}))
    assert short_intervals.shares(Setting("", LOOSE, 1000), 3) == (0.5, 0.25)
