"""The printed noise of a random projection against two columns that differ in one entry.

The attacker is `dpmpc.models.papers.mutual_information.attack`.

Each trial draws data, the secret bit X_11 = -1 or 1 and a release, and lets the attacker guess. "copy in X" compares
two columns of the release, "copy in y" a column and the targets, which have no noise of their own.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bench.harness import RESULTS, machine, markdown, write
from dpmpc.base.errors import InputError
from dpmpc.models.papers.mutual_information import RandomProjection
from dpmpc.models.papers.mutual_information.attack import copied_columns, guess_entry, least_leak
from dpmpc.models.papers.mutual_information.information import leak_bound

TRIALS, CLIENTS, EPSILON = 500, 400, 0.5
ROWS = (20, 60)  # n' <= f^2, about 133: the printed noise is 0
COPIES = ("X", "y")
Calibration = Literal["sound", "paper"]


def main(arguments: Sequence[str]) -> None:
    """Attack, print and write the table."""
    parser = argparse.ArgumentParser(
        prog="python -m bench mutual_information.attack", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--trials", type=int, default=TRIALS, help="attacks of each kind (default %(default)s)")
    parser.add_argument("--out", type=Path, metavar="DIR", help=f"where results are written (default {RESULTS})")
    options = parser.parse_args(arguments)
    if options.trials < 1:
        raise InputError("trials", options.trials, "at least 1")
    calibrations: tuple[Calibration, ...] = ("paper", "sound")
    measured = [
        attack(calibration, copy, rows, options.trials)
        for calibration in calibrations
        for copy in COPIES
        for rows in ROWS
    ]
    content = {
        "machine": machine(),
        "clients": CLIENTS,
        "epsilon": EPSILON,
        "trials": options.trials,
        "measured": measured,
    }
    text = render(content)
    print(text)
    if options.out is not None or options.trials >= TRIALS:
        write("midp_attack", content, text, options.out or RESULTS)


def attack(calibration: Calibration, copy: str, rows: int, trials: int) -> dict[str, Any]:
    """Attack so many releases; count the right guesses."""
    generator = np.random.default_rng(rows)
    successes, claimed, bound, proven = 0, 0.0, 0.0, False
    for trial in range(trials):
        entry = float(generator.choice([-1.0, 1.0]))
        X, y = copied_columns(CLIENTS, entry, generator)
        if copy == "y":
            X, y = X[:, :1], X[:, 1]
        model = RandomProjection(EPSILON, rows=rows, calibration=calibration, simulation_seed=trial).fit(X, y)
        variance = model.sigma_**2
        first, second = (model.released_X_[:, 0], model.released_y_) if copy == "y" else model.released_X_.T
        successes += guess_entry(first, second, variance if copy == "y" else 2 * variance) == entry
        bound = max(bound, leak_bound(X, y, rows, variance))
        claimed, proven = model.guarantee_.leakage_bits, model.guarantee_.proven
    print(f"midp_attack: {calibration}, copy in {copy}, {rows} rows: {successes} of {trials}", file=sys.stderr)
    return {
        "calibration": calibration,
        "copy": copy,
        "rows": rows,
        "successes": successes,
        "trials": trials,
        "claimed_bits": claimed,
        "proven": proven,
        "leaked_bits_at_least": least_leak(successes, trials),
        "bound_bits": bound if math.isfinite(bound) else None,
    }


def render(content: dict[str, Any]) -> str:
    """Return the Markdown page."""
    headings = ("noise", "copy in", "n'", "right guesses", "bits leaked, at least", "bits promised", "repaired bound")
    rows = [
        [
            entry["calibration"],
            entry["copy"],
            str(entry["rows"]),
            f"{entry['successes']} of {entry['trials']}",
            f"{entry['leaked_bits_at_least']:.2f}",
            f"{entry['claimed_bits']:g}" + ("" if entry["proven"] else ", unproven"),
            "infinite" if entry["bound_bits"] is None else f"{entry['bound_bits']:.3f}",
        ]
        for entry in content["measured"]
    ]
    return "\n".join(
        [
            "# Two columns that differ in one entry",
            "",
            f"n = {content['clients']}, ε = {content['epsilon']:g} bits. The attacker guesses X₁₁ = ±1 from a release. "
            "Bits leaked: Fano's bound at 99.9 % confidence.",
            "",
            markdown(headings, rows),
            "",
            "With the printed noise the bit is read off; the repaired bound says so. With the repaired noise "
            "the likelihood-ratio test does little better than a coin.",
        ]
    )
