"""How many slopes have a short interval: fits in rounds, the default, beside one release of the same budget.

An interval is short if the change that its half-width allows, as a feature goes from one end of its bounds to the
other, is below a quarter of the target's range. The populations are those of `bench rounds_coverage`, of at most
100,000 people; both fits see the same people. An interval that rests on the bounds has no level of its own and is
counted apart.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.harness import machine, markdown, write
from bench.system.rounds_coverage import LEVEL, SETTINGS, Setting
from dpmpc.base.errors import UtilityWarning

RUNS = 20
LARGEST = 100_000  # people of a setting
SHORT = 0.25  # of the target's range


def main(arguments: Sequence[str]) -> None:
    """Simulate, print and write the table."""
    parser = argparse.ArgumentParser(prog="python -m bench short_intervals", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each setting (default %(default)s)")
    runs = parser.parse_args(arguments).runs
    rows = [measure(setting, runs) for setting in chosen()]
    content = {"machine": machine(), "runs": runs, "rows": rows}
    text = render(content)
    print(text)
    if runs >= RUNS:
        write("short_intervals", content, text)


def chosen() -> list[Setting]:
    """Return the settings of linear fits in rounds, without private bounds, which one release does not have."""
    return [
        setting
        for setting in SETTINGS
        if isinstance(setting, Setting)
        and setting.how == "rounds"
        and setting.population.model == "linear"
        and setting.clients <= LARGEST
    ]


def measure(setting: Setting, runs: int) -> dict[str, Any]:
    """Return the shares of slopes with a short interval: of rounds, of those not on the bounds, of one release."""
    print(f"short_intervals: {setting.name}, {setting.clients:,}", file=sys.stderr, flush=True)
    rounds, unflagged = shares(setting, runs)
    release, _ = shares(dataclasses.replace(setting, how="one release"), runs)
    facts = {
        "name": setting.name,
        "n": setting.clients,
        "epsilon": setting.epsilon,
        "slopes": setting.population.features,
    }
    return {**facts, "rounds": rounds, "unflagged": unflagged, "release": release}


def shares(setting: Setting, runs: int) -> tuple[float, float]:
    """Return the share of slopes with a short interval, and of those whose interval does not rest on the bounds."""
    *features, target = setting.population.schema.columns
    ranges = np.array([column.upper - column.lower for column in features])
    short = np.zeros((2, runs, len(features)), bool)
    for number in range(runs):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UtilityWarning)
            inference, _ = setting.attempt(number)
        if inference.informative:
            low, high = np.array(inference.confidence_intervals).T
            short[0, number] = (high - low) / 2 * ranges < SHORT * (target.upper - target.lower)
            short[1, number] = short[0, number] & ~np.array(inference.flagged)[1:]
    return float(short[0].mean()), float(short[1].mean())


def render(content: dict[str, Any]) -> str:
    """Lay out the table, with the share over all slopes of all settings."""
    rows = content["rows"]
    weights = np.array([row["slopes"] for row in rows])
    kinds = ("rounds", "unflagged", "release")
    cells = [
        [row["name"], f"{row['n']:,}", f"{row['epsilon']:g}", *(f"{row[kind]:.0%}" for kind in kinds)] for row in rows
    ]
    together = [f"{np.average([row[kind] for row in rows], weights=weights):.0%}" for kind in kinds]
    headings = ["population", "n", "epsilon", "in rounds", "of these, not on the bounds", "one release"]
    return (
        f"# Short intervals\n\nShare of slopes whose {LEVEL:.0%} interval has a half-width below a quarter of the "
        f"target's range, over the bounds of the feature; {content['runs']} runs of each setting, the same people for "
        "both. "
        f"{content['machine']['cpu']}, {content['machine']['date']}.\n\n"
        + markdown(headings, [*cells, ["**all slopes**", "", "", *together]])
    )
