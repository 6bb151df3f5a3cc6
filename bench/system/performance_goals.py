"""What was aimed at, beside what was measured: every target of speed, with its figure from `bench/results`.

A figure is a ratio to a peer of the same run, or gigabytes a second where the target is.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.system import kernels
from dpmpc.base.errors import InputError

SOURCES = (
    *("kernels", "clients", "projections", "dense", "end_to_end", "scale", "noising", "unopened"),
    *("table3", "table4", "table5", "mp_spdz"),
)
READ_SPEED, SKELLAM_SPEED, SPLIT_GB, FIT_TIMES = 0.25, 1.0, 4.0, 10.0
SHARED, SPLIT, SKELLAM = "clip, encode, share as keys, Z_2^64", "split among 3, memory reused", "Skellam"
Results = Mapping[str, dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class Goal:
    """A target and what became of it."""

    what: str  # the ratio, or the speed
    figure: float | None  # what was measured; None where the peer was not installed
    limit: float  # the target
    most: bool = False  # whether the figure should be at most the target, rather than at least

    @property
    def reached(self) -> bool:
        """Whether the target is met; what was not measured is not."""
        return self.share is not None and self.share >= 1

    @property
    def share(self) -> float | None:
        """The part of the target that is met: 1 or more is all of it."""
        if self.figure is None:
            return None
        return self.limit / self.figure if self.most else self.figure / self.limit

    @property
    def wanted(self) -> str:
        """The target, in print."""
        return f"{'≤' if self.most else '≥'} {self.limit:g}"

    @property
    def printed(self) -> str:
        """The figure, in print."""
        return "peer not installed" if self.figure is None else f"{self.figure:.2f}"

    @property
    def told(self) -> str:
        """The figure, and whether it misses the target."""
        return self.printed if self.reached or self.figure is None else f"{self.printed} (missed)"


def read_results(folder: Path) -> Results:
    """Read what the benches have written."""
    missing = [name for name in SOURCES if not (folder / f"{name}.json").is_file()]
    if missing:
        raise InputError(
            "results", f"{str(folder)!r} given, without {', '.join(missing)}; `python -m bench NAME` writes it"
        )
    return {name: json.loads((folder / f"{name}.json").read_text()) for name in SOURCES}


def all_goals(results: Results) -> dict[str, list[Goal]]:
    """Return the goals of each part."""
    return {
        "kernel, independent": kernel_goals(results["kernels"], balanced=False),
        "kernel, balanced": kernel_goals(results["kernels"], balanced=True),
        "clients": client_goals(results["clients"]),
        "fit": fit_goals(results["end_to_end"]),
    }


def kernel_goals(content: dict[str, Any], *, balanced: bool) -> list[Goal]:
    """Return the targets of `bench.system.kernels`."""
    goals = []
    for target in kernels.TARGETS:
        shape = {**dataclasses.asdict(target.setting), "balanced": balanced}
        entry = next(entry for entry in content["measured"] if shape.items() <= entry.items())
        goals.append(Goal(kernel_name(target), kernels.ratio(target, entry), target.value, target.most))
    return goals


def kernel_name(target: kernels.Target) -> str:
    """Return the ratio and the (n, d, k, s) that a target is about."""
    at = target.setting
    return f"{target.slow} / {target.fast} at ({at.clients:,}, {at.columns}, {at.rows:,}, {at.sparsity})"


def client_goals(content: dict[str, Any]) -> list[Goal]:
    """Compare sharing with the speed of reading, one split alone, and Skellam noise with NumPy's Poisson variables."""
    rows = {entry["name"]: entry for entry in content["rows"]}
    split = rows[SPLIT]["amount"] / rows[SPLIT]["cpu_s"]["median"] / 1e9
    return [
        Goal(f"{SHARED}: of the speed of reading", rows[SHARED]["speed_over_peer"], READ_SPEED),
        Goal(f"{SPLIT}: GB/s", split, SPLIT_GB),
        *(
            Goal(f"{entry['name']}: of the speed of a NumPy Poisson variable", entry["speed_over_peer"], SKELLAM_SPEED)
            for entry in content["noise"]
            if entry["name"].startswith(SKELLAM)
        ),
    ]


def fit_goals(content: dict[str, Any]) -> list[Goal]:
    """Compare the command with reading the same file and fitting it in the clear, noise apart."""
    return [
        Goal(f"{release}, {kind}: times pyarrow and scikit-learn", value, FIT_TIMES, most=True)
        for release, kinds in content["ratios"].items()
        for kind, value in kinds.items()
    ]
