"""Which release to make: sketch or sum, noise by clients or by servers, and from how many people on it is useful.

Of a release by group, the same for one group, which has the noise of the whole release, whatever its size: its expected
error follows from its number of people alone.

The advice rests on `dpmpc.release.planning.prediction` and holds for the assumed population only.
"""

from __future__ import annotations

import dataclasses
import functools
import math

from dpmpc.base.errors import InputError
from dpmpc.linear.contributions import SecondMoments
from dpmpc.linear.contributions.contribution import moment_sensitivity
from dpmpc.linear.contributions.grouped_moments import GroupedMoments
from dpmpc.privacy.calibration import NoisePlacement
from dpmpc.privacy.specification import NOISED_BY, Mechanism
from dpmpc.privacy.task import Task
from dpmpc.release.planning.designing import AUTO_WIDTH
from dpmpc.release.planning.prediction import (
    Population,
    Regression,
    Scenario,
    UtilityMetric,
    best_rows,
    error_of,
    expected_of,
    people_needed,
    release_of,
    smallest_batch,
    useful_from,
)

RELEASES = ("sum", "sketch")
GUESS = 1 / math.sqrt(12)  # standard deviation of a number drawn evenly from a column's range, as a share of the range
NEGLIGIBLE = 0.01  # share of what there is to gain that noise by the servers may cost


@dataclasses.dataclass(frozen=True)
class ReleaseOption:
    """One option for a release, in a scenario.

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
        """Whether the option asks clients for no more bytes than is reasonable."""
        return self.client_bytes <= 8 * AUTO_WIDTH

    def __str__(self) -> str:
        rows = f" of {self.rows} rows" if self.release == "sketch" else " of second moments"
        return f"{self.release}{rows} with noise by {self.noise_by}"

    def fit_options(self, columns: int, sparsity: int) -> str:
        """Return the options with which `dpmpc fit` makes this release; none where its defaults do."""
        summed = SecondMoments().width(columns) <= AUTO_WIDTH
        options = []
        if self.release == "sum" and not summed:
            options.append("--sketch sum")
        if self.release == "sketch":
            options.append(f"--sketch osnap --rows {self.rows} --sparsity {sparsity}")
        if self.noise_by != Mechanism().noise_by:
            options.append(f"--noise-by {self.noise_by}")
        return " ".join(options)


@dataclasses.dataclass(frozen=True)
class ReleaseAdvice:
    """What to expect of a task's release for an assumed population, and which release to make.

    Parameters
    ----------
    task : Task
        The release.
    metric : UtilityMetric
        What it is for.
    population : Population
        What is assumed about the data.
    """

    task: Task
    metric: UtilityMetric
    population: Population = dataclasses.field(default_factory=Population)

    @functools.cached_property
    def scenario(self) -> Scenario:
        """What is known before any data."""
        return Scenario.of(self.task, self.population)

    @functools.cached_property
    def expected(self) -> float:
        """Phi or psi of this release, from the noise that it has."""
        return expected_of(self.task, self.metric, self.population)

    @functools.cached_property
    def trivial(self) -> float:
        """The same of what ignores the data."""
        return self.metric.trivial(self.scenario)

    @functools.cached_property
    def local(self) -> float:
        """The same of the local model."""
        return self.metric.local(self.scenario)

    @functools.cached_property
    def useful_from(self) -> int | None:
        """The smallest number of clients at which such a release beats ignoring the data, below 1/delta, or None.

        A sketch is given its best number of rows at every batch size.
        """
        return useful_from(release_of(self.task), self.scenario, self.metric)

    @functools.cached_property
    def options(self) -> tuple[ReleaseOption, ...]:
        """All options under the task's budget and trust; servers add noise to Shamir shares only with proofs."""
        task = self.task
        copies = {who: NoisePlacement(who, task.noising.copies).copies_for(task.sketch) for who in NOISED_BY}
        noised_by = NOISED_BY if task.sharing == "additive" or task.noise_is_dealt else ("clients",)
        return tuple(
            _option(release, dataclasses.replace(self.scenario, noise_by=who), self.metric, copies[who])
            for release in RELEASES
            for who in noised_by
        )

    @functools.cached_property
    def recommended(self) -> ReleaseOption | None:
        """The smallest expected error among what clients can send; noise by the servers where that costs little.

        None where nothing beats doing without a release.
        """
        rival = min(self.trivial, self.local)
        useful = [option for option in self.options if option.acceptable and option.expected < rival]
        if not useful:
            return None
        best = min(useful, key=lambda option: option.expected)
        gain = rival - self.metric.optimum
        for option in useful:
            served = option.release == best.release and option.noise_by == "servers"
            if served and option.expected - best.expected <= NEGLIGIBLE * gain:
                best = option
        return best

    @functools.cached_property
    def why(self) -> str:
        """Why that is recommended: one sentence, with numbers."""
        return self._why_nothing() if self.recommended is None else self._why(self.recommended)

    def _why_nothing(self) -> str:
        metric = self.metric
        sendable = [option for option in self.options if option.acceptable] or self.options
        best = min(sendable, key=lambda option: option.expected)
        start = best.beats_trivial_from
        when = "with no batch that this delta allows" if start is None else f"from {start:,} clients on"
        reasons = [
            f"nothing beats doing without a release: the best, a {best}, {_has(metric, best.expected)}",
            self._rivals(),
            f"it beats {metric.nothing} {when}",
        ]
        for option in self.options:
            if not option.acceptable and option.noise_by == best.noise_by:
                reasons.append(
                    f"a {option} {_has(metric, option.expected)}, but takes {option.client_bytes:,} bytes a client"
                )
        return "; ".join(reasons)

    def _why(self, best: ReleaseOption) -> str:
        metric = self.metric
        reasons = [f"a {best} {_has(metric, best.expected)} for {best.client_bytes:,} bytes a client"]
        for option in self.options:
            if option.release != best.release and option.noise_by == best.noise_by:
                reasons.append(f"a {option} {_has(metric, option.expected)} for {option.client_bytes:,} bytes")
            if option.release == best.release and option.noise_by != best.noise_by:
                by_servers = option.noise_by == "servers"
                kept = "would hold whatever clients do" if by_servers else "needs clients that add theirs"
                reasons.append(f"noise by {option.noise_by} {kept} and {_has(metric, option.expected)}")
        return "; ".join([*reasons, self._rivals()])

    def _rivals(self) -> str:
        text = self.metric.text
        return f"{self.metric.nothing} has {text(self.trivial)} and the local model {text(self.local)}"


def verdict(task: Task, population: Population | None = None) -> tuple[bool, str]:
    """Return whether a regression on a task's release is expected to be of any use, with the numbers in a sentence."""
    said, share = [], 0.0
    if task.statistic.summed:  # a mean is an entry of the matrix over n, with half its variance
        share = math.sqrt(float(task.noise_variance[0]) / 2) / task.clients / 2
        said.append(f"each mean has noise with a standard deviation of {100 * share:.2g} % of its column's range")
    if len(task.schema) == 1:
        return share < GUESS, "; ".join([*said, f"whoever guesses within the bounds is off by {100 * GUESS:.2g} %"])
    found = ReleaseAdvice(task, Regression(), population or Population())
    metric, expected, trivial = found.metric, found.expected, found.trivial
    said.append(
        f"a regression {_has(metric, expected)}, where {metric.nothing} has {metric.text(trivial)} and the optimum is 1"
    )
    if expected >= trivial:
        start = found.useful_from
        when = "with no batch that this delta allows" if start is None else f"from {start:,} reports on"
        said.append(f"it beats {metric.nothing} {when}")
    return expected < trivial, "; ".join(said)


def _option(release: str, scenario: Scenario, metric: UtilityMetric, copies: int) -> ReleaseOption:
    def error(at: Scenario) -> float:
        return error_of(release, at, metric)

    words = SecondMoments().width(scenario.columns) if release == "sum" else copies * scenario.columns
    return ReleaseOption(
        release=release,
        noise_by=scenario.noise_by,
        rows=1 if release == "sum" else best_rows(scenario, metric),
        client_bytes=8 * words,
        expected=error(scenario),
        beats_trivial_from=smallest_batch(scenario, lambda at: error(at) < metric.trivial(at)),
        beats_local_from=smallest_batch(scenario, lambda at: error(at) < metric.local(at)),
    )


def _has(metric: UtilityMetric, expected: float) -> str:
    if math.isinf(expected):
        return "is impossible, because the coalition may hold all noise of a row"
    return f"has an expected {metric.symbol} of {metric.text(expected)}"


SHARES = (1.0, 0.5, 0.1)  # of a group of the mean size, at which the plan says what to expect


@dataclasses.dataclass(frozen=True)
class GroupsOutlook:
    """What to expect of a release by group."""

    groups: int  # g
    size_error: float  # standard error of the released number of people of each group
    expected: dict[int, float]  # people in a group -> expected phi of its regression
    # people from which on a group's regression beats predicting the mean; None if there is no such number
    smallest: int | None
    pooled: float  # expected phi of everybody's regression, from the sum of the blocks
    # by how much the variance of the noise in common slopes is less where the groups are a category among the features
    # of a release without groups; below 1 where it is more
    one_hot: float
    trivial: float  # phi of predicting the mean


def groups_outlook(task: Task, population: Population | None = None) -> GroupsOutlook:
    """Return what to expect of a task by group."""
    contribution, metric = task.statistic, Regression()
    if not isinstance(contribution, GroupedMoments):
        raise InputError("task", f"of {contribution.name}", "one by group")
    columns = len(contribution.analysed(task.schema))
    scenario = dataclasses.replace(Scenario.of(task, population), columns=columns)
    variance, groups = float(task.noise_variance[0]), contribution.groups

    def phi(people: int, noise: float) -> float:
        return metric.of_moments(dataclasses.replace(scenario, clients=people), noise)

    sizes = dict.fromkeys(max(1, round(share * task.clients / groups)) for share in SHARES)
    # One release whose category is a term more, in place of G blocks that are added up.
    terms = columns if contribution.radius is None else contribution.radius**2
    one_hot = groups * (moment_sensitivity(1 + terms) / moment_sensitivity(2 + terms)) ** 2
    return GroupsOutlook(
        groups=groups,
        size_error=math.sqrt(variance),
        expected={people: phi(people, variance) for people in sizes},
        smallest=people_needed(task, columns, variance, population),
        pooled=phi(task.clients, groups * variance),
        one_hot=one_hot,
        trivial=metric.trivial(scenario),
    )
