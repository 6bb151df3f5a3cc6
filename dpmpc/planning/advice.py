"""Which way to release: sketch or sum, noise by clients or by servers, and from how many clients on it is of any use.

The advice rests on `dpmpc.planning.prediction` and holds for the assumed population only.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

from dpmpc.contributions import SecondMoments
from dpmpc.planning.designing import AUTO_WIDTH
from dpmpc.planning.prediction import Prediction, UtilityMetric, best_rows, predict
from dpmpc.planning.scenario import Population, Scenario
from dpmpc.privacy import NoisePlacement
from dpmpc.specification import NOISED_BY
from dpmpc.task import Task

RELEASES = ("sum", "sketch")
NEGLIGIBLE = 0.01  # share of what there is to gain that noise by the servers may cost


@dataclasses.dataclass(frozen=True)
class ReleaseOption:
    """One way to release, in a setting.

    Attributes
    ----------
    release : {"sum", "sketch"}
        Second moments summed, or the best sketch.
    noise_by : {"clients", "servers"}
        Who adds the noise.
    rows : int
        k.
    client_bytes : int
        Size of a client's share; a sketch has the sparsity and the copies of the task's.
    expected : float
        Phi or psi; infinite where the coalition may know all the noise of a row.
    beats_trivial_from, beats_local_from : int or None
        Smallest number of clients, below 1/delta, at which it beats what ignores the data, and the local model.
    """

    release: str
    noise_by: str
    rows: int
    client_bytes: int
    expected: float
    beats_trivial_from: int | None
    beats_local_from: int | None

    @property
    def acceptable(self) -> bool:
        """Whether a client can be asked to send so much."""
        return self.client_bytes <= 8 * AUTO_WIDTH

    def __str__(self) -> str:
        rows = f" of {self.rows} rows" if self.release == "sketch" else " of second moments"
        return f"{self.release}{rows} with noise by {self.noise_by}"


@dataclasses.dataclass(frozen=True)
class Advice:
    """What to do, and why.

    Attributes
    ----------
    way : ReleaseOption or None
        None where nothing beats doing without a release.
    why : str
        One sentence, with numbers.
    """

    way: ReleaseOption | None
    why: str


def ways(task: Task, aim: UtilityMetric, population: Population | None = None) -> tuple[ReleaseOption, ...]:
    """Return all the ways to release under a task's budget and trust; with Shamir shares only clients add noise."""
    setting = Scenario.of(task, population)
    copies = {who: NoisePlacement(who, task.noising.copies).copies_for(task.sketch) for who in NOISED_BY}
    noised_by = NOISED_BY if task.sharing == "additive" else ("clients",)
    return tuple(
        _way(release, dataclasses.replace(setting, noise_by=who), aim, copies[who])
        for release in RELEASES
        for who in noised_by
    )


def advise(setting: Scenario, aim: UtilityMetric, options: tuple[ReleaseOption, ...]) -> Advice:
    """Choose the smallest expected error among what clients can send; noise by the servers where that costs little."""
    prediction = predict(setting, aim)
    rival = min(prediction.trivial, prediction.local)
    useful = [way for way in options if way.acceptable and way.expected < rival]
    if not useful:
        return Advice(None, _nothing(aim, prediction, options))
    best = min(useful, key=lambda way: way.expected)
    gain = rival - aim.optimum
    for way in useful:
        served = way.release == best.release and way.noise_by == "servers"
        if served and way.expected - best.expected <= NEGLIGIBLE * gain:
            best = way
    return Advice(best, _reason(best, aim, prediction, options))


def smallest_batch(setting: Scenario, useful: Callable[[Scenario], bool], *, largest: int | None = None) -> int | None:
    """Smallest number of clients from which on a release is useful, or None if there is none below 1/delta.

    The search starts at 2 p: below, no sketch has enough rows, and no model is determined.
    """

    def useful_for(clients: int) -> bool:
        return useful(dataclasses.replace(setting, clients=clients))

    low, high = 2 * setting.columns - 1, min(setting.largest_batch, largest or setting.largest_batch)
    if high <= low or not useful_for(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if useful_for(middle) else (middle, high)
    return high


def error_of(release: str, setting: Scenario, aim: UtilityMetric) -> float:
    """Expected phi or psi of a sum, or of the best sketch."""
    return aim.sum(setting) if release == "sum" else aim.sketch(setting, best_rows(setting, aim))


def release_of(task: Task) -> str:
    """Return "sum" or "sketch"."""
    return "sum" if isinstance(task.statistic, SecondMoments) else "sketch"


def break_even(
    task: Task, aim: UtilityMetric, population: Population | None = None, *, largest: int | None = None
) -> int | None:
    """Smallest number of clients at which a release like the task's beats what ignores the data, or None.

    A sketch is given its best number of rows at every batch size.
    """
    release = release_of(task)
    return smallest_batch(
        Scenario.of(task, population),
        lambda setting: error_of(release, setting, aim) < aim.trivial(setting),
        largest=largest,
    )


def _way(release: str, setting: Scenario, aim: UtilityMetric, copies: int) -> ReleaseOption:
    def error(at: Scenario) -> float:
        return error_of(release, at, aim)

    words = SecondMoments().width(setting.columns) if release == "sum" else copies * setting.columns
    return ReleaseOption(
        release=release,
        noise_by=setting.noise_by,
        rows=1 if release == "sum" else best_rows(setting, aim),
        client_bytes=8 * words,
        expected=error(setting),
        beats_trivial_from=smallest_batch(setting, lambda at: error(at) < aim.trivial(at)),
        beats_local_from=smallest_batch(setting, lambda at: error(at) < aim.local(at)),
    )


def _nothing(aim: UtilityMetric, prediction: Prediction, options: tuple[ReleaseOption, ...]) -> str:
    sendable = [way for way in options if way.acceptable] or options
    best = min(sendable, key=lambda way: way.expected)
    start = best.beats_trivial_from
    when = "with no batch that this delta allows" if start is None else f"from {start:,} clients on"
    reasons = [
        f"nothing beats doing without a release: the best, a {best}, {_has(aim, best.expected)}",
        _rivals(aim, prediction),
        f"it beats {aim.nothing} {when}",
    ]
    for way in options:
        if not way.acceptable and way.noise_by == best.noise_by:
            reasons.append(f"a {way} {_has(aim, way.expected)}, but takes {way.client_bytes:,} bytes a client")
    return "; ".join(reasons)


def _reason(best: ReleaseOption, aim: UtilityMetric, prediction: Prediction, options: tuple[ReleaseOption, ...]) -> str:
    reasons = [f"a {best} {_has(aim, best.expected)} for {best.client_bytes:,} bytes a client"]
    for way in options:
        if way.release != best.release and way.noise_by == best.noise_by:
            reasons.append(f"a {way} {_has(aim, way.expected)} for {way.client_bytes:,}")
        if way.release == best.release and way.noise_by != best.noise_by:
            kept = "would hold whatever clients do" if way.noise_by == "servers" else "needs that clients add theirs"
            reasons.append(f"noise by {way.noise_by} {kept} and {_has(aim, way.expected)}")
    return "; ".join([*reasons, _rivals(aim, prediction)])


def _rivals(aim: UtilityMetric, prediction: Prediction) -> str:
    return f"{aim.nothing} has {aim.text(prediction.trivial)} and the local model {aim.text(prediction.local)}"


def _has(aim: UtilityMetric, expected: float) -> str:
    if math.isinf(expected):
        return "is impossible, because the coalition may know all noise of a row"
    return f"has an expected {aim.symbol} of {aim.text(expected)}"
