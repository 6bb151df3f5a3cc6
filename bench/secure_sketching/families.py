"""The two readings of section 6.2, measured on the same rows and shown side by side.

- *Printed*: noise on every entry of the data matrix, without sketch and without k (`printed`). No guarantee.
- *Sketch*: what a real release of k rows gives (`utility.compare`). Its budgets, matrices and noise are the product's.

Every title of a figure or table has a panel of each, with a common y axis. One family can be measured alone
(``--only``): the panels of the other are then kept as the results have them, with the date of their measurement.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

from bench.charts import Chart, Panel, finish, options_of
from bench.harness import RESULTS, markdown
from bench.secure_sketching import printed, utility
from bench.secure_sketching.printed import LAPLACE_ENTRIES, Draws, entries_name
from bench.secure_sketching.utility import GAUSS, LAPLACE, SUM, TRIVIAL, Problem

PRINTED, SKETCH = "printed", "sketch"
LABELS = {
    PRINTED: "noise on every entry, no sketch; as printed in section 6.2",
    SKETCH: "what a real k-row sketch gives",
}
NOTE = (
    "Two families. *Noise on every entry, no sketch; as printed in section 6.2*: Gaussian noise of variance "
    "(Δ₂/μ)² n^-p, or one share Γ(1/n, b) - Γ(1/n, b), b = Δ₁/ε, of Laplace noise, on every entry of the n x d matrix; "
    "the problem is solved on the noisy rows. With p = 1 this publishes n rows of tiny noise: no guarantee is claimed "
    "for it. *What a real k-row sketch gives*: the release of this package, (ε, δ)-differentially private for one "
    "replaced row. Run r of every competitor has the seed r. The paper's constants are lost from the text that we "
    "have: those here are our choice."
)


class Families:
    """What is measured of a figure or table: a panel of each family for each title."""

    def __init__(self, name: str, title: str, arguments: Sequence[str], runs: int):
        self.name, self.title = name, title
        self.options: argparse.Namespace = options_of(
            f"secure_sketching.{name}", title, arguments, runs, parts=tuple(LABELS)
        )
        self.wanted = tuple(LABELS) if self.options.only is None else (self.options.only,)
        self.panels: dict[tuple[str, str], Panel] = {}

    def draws(self, problem: Problem) -> Draws | None:
        """Draw the printed family's noise for the rows of a problem, where that family is wanted."""
        return Draws.of(problem, self.options.runs) if PRINTED in self.wanted else None

    def measure(
        self, title: str, x: float, problem: Problem, epsilon: float, draws: Draws | None, **choices: Any
    ) -> None:
        """Measure the wanted families at one x; `choices` are arguments of `utility.compare`."""
        if draws is not None:
            self._panel(title, PRINTED).add(x, printed.measure(problem, epsilon, draws))
        if SKETCH in self.wanted:
            self._panel(title, SKETCH).add(x, utility.compare(problem, epsilon, self.options.runs, **choices))

    def finish(self, note: str, x_label: str, y_label: str, findings: Sequence[str] = ()) -> None:
        """Print the page of both families, and write it where wanted."""
        pairs = self.pairs()
        panels = [panel for pair in pairs.values() for panel in pair.values()]
        tables = [side_by_side(title, x_label, pair) for title, pair in pairs.items() if len(pair) == len(LABELS)]
        lines = [*tables, *findings]
        chart = Chart(self.name, self.title, f"{NOTE}\n\n{note}", x_label, y_label, panels, lines, across=2)
        finish(chart, self.options.out)

    def pairs(self) -> dict[str, dict[str, Panel]]:
        """Return title -> family -> panel, with the kept panels of a family that was not measured."""
        kept = {} if len(self.wanted) == len(LABELS) else self._kept()
        titles = dict.fromkeys(title for title, _ in self.panels)
        found = {**kept, **self.panels}
        return {
            title: {family: found[title, family] for family in LABELS if (title, family) in found} for title in titles
        }

    def _panel(self, title: str, family: str) -> Panel:
        return self.panels.setdefault((title, family), Panel(panel_title(title, family)))

    def _kept(self) -> dict[tuple[str, str], Panel]:
        """Read panels of earlier results that have the same x; none in a run that writes nothing."""
        path = (self.options.out or RESULTS) / f"{self.name}.json"
        if self.options.out is None or not path.exists():
            return {}
        content = json.loads(path.read_text())
        panels = {entry["title"]: Panel(**{"date": content["machine"]["date"], **entry}) for entry in content["panels"]}
        kept = {}
        for (title, _), measured in self.panels.items():
            for family in LABELS:
                panel = panels.get(panel_title(title, family))
                if panel is not None and panel.x == measured.x:
                    kept[title, family] = panel
        return kept


def panel_title(title: str, family: str) -> str:
    """Return what a panel is called."""
    return f"{title}: {LABELS[family]}"


def side_by_side(title: str, x_label: str, pair: dict[str, Panel]) -> str:
    """Return a Markdown table of the means of both families beside central and trivial."""
    entries, sketch = pair[PRINTED].series, pair[SKETCH].series
    columns = {
        "every entry: p = 0 (local)": entries[entries_name(0.0)],
        "every entry: p = 1": entries[entries_name(1.0)],
        "every entry: Laplace": entries[LAPLACE_ENTRIES],
        **{name: values for name, values in entries.items() if name.startswith("central")},
        f"sketch: {GAUSS}": sketch[GAUSS],
        f"sketch: {LAPLACE}": sketch[LAPLACE],
        SUM: sketch[SUM],
        TRIVIAL: entries[TRIVIAL],
    }
    rows = [
        [f"{x:g}" if x < 1000 else f"{x:,.0f}", *(f"{values[at]['mean']:.2g}" for values in columns.values())]
        for at, x in enumerate(pair[PRINTED].x)
    ]
    return f"## {title}, side by side (means)\n\n{markdown((x_label, *columns), rows)}\n"
