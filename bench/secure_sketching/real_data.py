"""The real data sets of Tables 6 to 8: the paper's, and stand-ins for those that are not at hand.

Elevation, Songs and Ethylene are read from UCI's own files where the data folder has them, with public bounds
(`bench.datasets`). Without its file, Elevation is its first 5,000 rows, which are a smoke test and no sample;
Songs and Ethylene are then listed and not measured. Bike and SGEMM stand in: real, complete, and with bounds known
beforehand.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from itertools import pairwise

from bench.charts import Panel
from bench.datasets.data_release import BIKE_BOUNDS, BIKE_TARGET, SGEMM_BOUNDS, SGEMM_TARGET, load_bike, load_sgemm
from bench.datasets.dataset_files import data_folder
from bench.datasets.secure_sketching import (
    ELEVATION_BOUNDS,
    ELEVATION_FILE,
    ELEVATION_TARGET,
    ETHYLENE_CO_BOUNDS,
    ETHYLENE_FILE,
    ETHYLENE_TARGET,
    POWER_BOUNDS,
    POWER_TARGET,
    SONGS_BOUNDS,
    SONGS_FILE,
    SONGS_TARGET,
    load_elevation,
    load_ethylene,
    load_power,
    load_songs,
)
from bench.secure_sketching.families import PRINTED, SKETCH, Families
from bench.secure_sketching.printed import LAPLACE_ENTRIES, entries_name
from bench.secure_sketching.utility import (
    DELTA,
    GAUSS,
    LAPLACE,
    LOCAL,
    RUNS,
    SUM,
    TRIVIAL,
    Problem,
    recommended,
)
from dpmpc.base.arrays import Reals
from dpmpc.data import Schema, Table

EPSILONS = (0.01, 0.03, 0.05, 0.1, 0.5, 5.0, 20.0)  # the last two are ours: see what sketches of few clients need
SHORT_ROWS = 2000
NOTE = (
    f"delta = {DELTA:g}, 0 for Laplace noise; k as `dpmpc plan` recommends for each noise; s = 4, 1 for Laplace noise. "
    "No radius beside the bounds. Elevation is its first 5,000 rows, a smoke test, unless the data folder holds UCI's "
    "file; Songs and Ethylene are measured where the folder holds theirs."
)


@dataclasses.dataclass(frozen=True)
class DataSet:
    """A data set, its bounds and what the experiments ask of it."""

    name: str  # the paper's, or ours
    load: Callable[[], Table]  # returns the table
    bounds: Schema  # public
    target: str  # what ridge regression predicts
    components: int  # r of the low-rank approximation of the features
    file: str | None = None  # UCI's own, without which the data set is left out

    @property
    def at_hand(self) -> bool:
        """Whether the data folder holds the file that is needed."""
        return self.file is None or (data_folder() / self.file).exists()

    def rows(self, most: int | None = None) -> Reals:
        """Return normalised rows (n, d + 1), the target last; the first `most` of them."""
        features = [name for name in self.bounds.names if name != self.target]
        names = [*features, self.target]
        return self.bounds.select(names).normalise(self.load().select(names).values[:most])


def elevation() -> Table:
    """Read UCI's file where the data folder holds it, else its first 5,000 rows."""
    whole = data_folder() / ELEVATION_FILE
    return load_elevation(whole if whole.exists() else whole.with_name("road3d_first5000.parquet"))


MEASURED = (
    DataSet("Power", load_power, POWER_BOUNDS, POWER_TARGET, 2),
    DataSet("SGEMM", load_sgemm, SGEMM_BOUNDS, SGEMM_TARGET, 5),
    DataSet("Bike", load_bike, BIKE_BOUNDS, BIKE_TARGET, 3),
    DataSet("Elevation", elevation, ELEVATION_BOUNDS, ELEVATION_TARGET, 1),
    DataSet("Songs", load_songs, SONGS_BOUNDS, SONGS_TARGET, 10, SONGS_FILE),
    DataSet(
        "Ethylene",
        load_ethylene,
        ETHYLENE_CO_BOUNDS,
        ETHYLENE_TARGET,
        5,
        ETHYLENE_FILE,
    ),
)
SHORT = MEASURED[2:4]


def table(
    name: str,
    title: str,
    arguments: Sequence[str],
    problem_of: Callable[[DataSet, Reals], Problem],
    central: str,
) -> None:
    """Measure all data sets at hand at all budgets, both families; print and write the table."""
    families = Families(name, title, arguments, RUNS)
    short = families.options.short
    measure, sketched = "", {}
    for data in SHORT if short else [one for one in MEASURED if one.at_hand]:
        problem = problem_of(data, data.rows(SHORT_ROWS if short else None))
        draws, measure = families.draws(problem), problem.measure
        panel = f"{data.name}, n = {len(problem.rows):,}, {problem.rows.shape[1]} columns"
        budgets = EPSILONS[-2:] if short else EPSILONS
        sketched[panel] = (problem, budgets)
        for epsilon in budgets:
            families.measure(panel, epsilon, problem, epsilon, draws)
    claims = {
        PRINTED: (central, entries_name(1.0), LAPLACE_ENTRIES, entries_name(0.0)),
        SKETCH: (central, GAUSS, LAPLACE, LOCAL),
    }
    found = [
        sentence
        for pair in families.pairs().values()
        for family, measured in pair.items()
        for sentence in findings(measured, claims[family])
    ]
    found += [rows_used(panel, problem, budgets) for panel, (problem, budgets) in sketched.items()]
    families.finish(NOTE, "ε", measure, found)


def rows_used(title: str, problem: Problem, budgets: Sequence[float]) -> str:
    """Say which k the sketches of a panel have, all of them public: those of Gauss, then of Laplace noise."""
    told = ", ".join(
        f"{rows[GAUSS]:,} / {rows[LAPLACE]:,} ({epsilon:g})"
        for epsilon, rows in ((epsilon, recommended(problem, epsilon)) for epsilon in budgets)
    )
    return f"- {title}: k of {GAUSS} / {LAPLACE}, as recommended (at ε): {told}."


def findings(panel: Panel, claim: Sequence[str]) -> list[str]:
    """Say at which budgets the paper's order holds, and at which a competitor is better than the trivial predictor."""
    entries = [panel.series[name] for name in claim]
    kept = [
        f"{epsilon:g}"
        for at, epsilon in enumerate(panel.x)
        if not any(_exceeds(better[at], worse[at]) for better, worse in pairwise(entries))
    ]
    sentences = [f"- {panel.title}: {' ≤ '.join(claim)} holds at ε = {', '.join(kept) or 'none'}."]
    for name in (*claim, SUM):
        if name not in panel.series:
            continue
        useful = [
            f"{epsilon:g}"
            for epsilon, entry, trivial in zip(panel.x, panel.series[name], panel.series[TRIVIAL], strict=True)
            if _exceeds(trivial, entry)
        ]
        sentences.append(
            f"- {panel.title}: {name} is better than the trivial predictor at ε = {', '.join(useful) or 'none'}."
        )
    return sentences


def _exceeds(first: dict[str, float], second: dict[str, float]) -> bool:
    """Return whether the first mean is larger by more than two standard errors of the difference."""
    error = math.sqrt(first["sd"] ** 2 / first["runs"] + second["sd"] ** 2 / second["runs"])
    return first["mean"] - second["mean"] > 2 * error
