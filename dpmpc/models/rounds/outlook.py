"""Before any data: what a fit in rounds will cost, and what it may be expected to show.

The sums are exactly those that `fit_in_rounds` would ask for. What to expect of them is found by doing it: fits of
made-up people, Gaussian features and a linear predictor of an assumed size, with noise of the variance that the sums
will have, drawn from a fixed seed. Sums of a few thousand made-up people stand for those of all clients.

Not promised: more than the order of magnitude for data unlike the assumed population. Rare, long residuals, which a
clip at the median shortens, take more rounds or a larger budget.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import msgspec
import numpy as np

from dpmpc.base.arguments import require_fraction, require_positive, require_whole
from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.data import Schema
from dpmpc.linear.contributions import SecondMoments
from dpmpc.linear.contributions.clipped_scores import ClippedScores
from dpmpc.linear.contributions.contribution import Contribution
from dpmpc.models.common.releases import Releases
from dpmpc.models.rounds.assumed_columns import AssumedColumns
from dpmpc.models.rounds.fit import AUTO, RoundsFit, Shares, fit_in_rounds, require_words, shares_of, steps_of
from dpmpc.models.rounds.forecast import SPREADS, SumsNoise, people_for
from dpmpc.models.rounds.models import LeastSquares, LogisticModel, PoissonModel, RoundModel
from dpmpc.models.rounds.private_bounds import SHARE, counts_of, require_people
from dpmpc.models.rounds.start import gaussian_intercept
from dpmpc.privacy import Guarantee
from dpmpc.privacy.gaussian import epsilon_of_mu
from dpmpc.privacy.specification import MODELS_IN_ROUNDS, ReleaseSpec
from dpmpc.privacy.task import Task
from dpmpc.release.planning.prediction import Population
from dpmpc.release.release import Release

COMPARED = (4, 8, 32)  # numbers of rounds that a plan tells of
_MOST_EFFECT = 4.0
_PEOPLE, _RUNS, _NEWTON = 4096, 3, 25
_DOUBLED = 16  # times at most, to find from how many clients on something is learned


@dataclasses.dataclass(frozen=True)
class Assumed:
    """What a plan takes the data to be.

    Parameters
    ----------
    mean : float
        Share of ones among 0/1 targets, or the mean count.
    effect : float
        Standard deviation of the linear predictor.
    most : int
        The largest count.
    population : Population
        Spread of the columns; of a ridge regression R^2, too.
    """

    mean: float = 0.2
    effect: float = 1.0
    most: int = 100
    population: Population = dataclasses.field(default_factory=Population)

    def __post_init__(self) -> None:
        require_positive("mean", self.mean)
        require_positive("effect", self.effect, _MOST_EFFECT)
        require_whole("most", self.most, 1)


@dataclasses.dataclass(frozen=True)
class PlannedSum:
    """One of the sums."""

    task: Task  # its public facts, as far as they are known before any data
    share: float  # its part of mu^2
    mu: float  # what it promises alone
    epsilon_alone: float
    noise_sd: float  # standard deviation of the noise in each of its numbers


@dataclasses.dataclass(frozen=True)
class Expected:
    """What fits of made-up people in so many rounds came to: medians."""

    rounds: int
    excess: float  # error of a prediction beyond that of the best fit, as a part of the target's variance
    noise_part: float  # of what the features may explain, which noise hides: as a fit will state it
    clip: float  # where scores were clipped in the last steering round, in units of a residual times a unit feature
    learned: bool  # whether most of these fits learned something
    shown: bool | None  # whether most of them show intervals for a slope; None where none are wanted
    standard_error: float | None  # of a slope, where intervals are shown: per standard deviation of the feature
    start_error: float | None  # without rounds: by how much noise moves the linear predictor of a typical row


@dataclasses.dataclass(frozen=True)
class PlannedIntervals:
    """What the interval of a slope of a linear fit comes to: of a column as it is typical, or of all spread alike."""

    column: str | None  # None where all columns are spread alike
    spread: float  # standard deviation of the column, or of all, in half-ranges
    half_width: float  # ranges of the target, for a move over the whole range of a column
    on_bounds: bool  # whether they rest on the bounds
    # from how many people on all intervals are shorter than `forecast.USEFUL`; None where that is unknown
    people: int | None


@dataclasses.dataclass(frozen=True)
class Outlook:
    """What is expected of a fit in rounds.

    Attributes
    ----------
    model : {"logistic", "poisson", "ridge"}
        The regression.
    rounds : int
        Steering rounds.
    intervals : bool
        Whether sums for errors and intervals follow.
    sums : tuple of PlannedSum
        Counts for private bounds where they are planned, the second moments, the steering rounds, the last ones.
    guarantee : Guarantee
        Of all of them.
    expected : tuple of Expected
        For `COMPARED` numbers of rounds and for that of the plan; for 0 alone where there are none.
    learns_from : int or None
        Number of clients, within a factor of two, from which on something can be learned; None where that is unknown.
    slopes : tuple of PlannedIntervals
        Of a linear fit with intervals: of each column if the bounds state what is typical of some, else for the assumed
        spread of all and each of `forecast.SPREADS`.
    """

    model: str
    rounds: int
    intervals: bool
    sums: tuple[PlannedSum, ...]
    guarantee: Guarantee
    expected: tuple[Expected, ...]
    learns_from: int | None
    slopes: tuple[PlannedIntervals, ...] = ()

    @property
    def planned(self) -> Expected:
        """What is expected of the planned number of rounds."""
        return next(one for one in self.expected if one.rounds == self.rounds)

    @property
    def approximate(self) -> bool:
        """Whether the fit reads a logistic model from the first sum alone."""
        return self.model == "logistic" and not self.rounds

    @property
    def hopeless(self) -> bool:
        """Whether the fit is expected to state that nothing can be learned."""
        return not self.planned.learned


def outlook(
    model: str,
    spec: ReleaseSpec,
    rounds: int | str = AUTO,
    assumed: Assumed | None = None,
    *,
    intervals: bool = True,
    private_bounds: bool = False,
) -> Outlook:
    """Return what is expected of `fit_in_rounds`.

    Parameters
    ----------
    model : {"logistic", "poisson", "ridge"}
        The regression of the last column on the others.
    spec : ReleaseSpec
        Columns, clients, the whole budget, trust and mechanism.
    rounds : int or "auto"
        Steering rounds.
    assumed : Assumed, optional
        The population.
    intervals : bool
        Whether a part of the budget goes into sums for errors and intervals.
    private_bounds : bool
        Whether a part of it goes into counts that narrow bounds.
    """
    given = assumed or Assumed()
    kind = _model_of(model, given)
    steps = steps_of(kind, rounds, spec.clients, intervals=intervals)
    shares = shares_of(kind, steps, intervals=intervals, private_bounds=private_bounds)
    releases = Releases(spec, _nobody)
    if steps:
        require_words(releases.columns, scores=kind.curved and intervals)
    sums = _planned(kind, releases, shares)
    if private_bounds:  # what is left for people within the narrower bounds
        rest = epsilon_of_mu(releases.mu * math.sqrt(1 - SHARE), spec.budget.delta)
        spec = msgspec.structs.replace(spec, budget=msgspec.structs.replace(spec.budget, epsilon=rest))
    people = _People.of(model, kind, given, releases.columns)
    counts = sorted({*COMPARED, steps}) if steps else [0]
    expected = [people.expect(spec, count, intervals=intervals) for count in counts]
    learned = next(one.learned for one in expected if one.rounds == steps)
    return Outlook(
        model=model,
        rounds=steps,
        intervals=intervals,
        sums=tuple(sums),
        guarantee=releases.promise([one.task for one in sums]),
        expected=tuple(expected),
        learns_from=spec.clients if learned else people.learns_from(spec, steps),
        slopes=() if kind.curved or not intervals else _slopes(sums, releases.schema, given.population.spread),
    )


def _slopes(sums: Sequence[PlannedSum], public: Schema, spread: float) -> tuple[PlannedIntervals, ...]:
    """Return the forecast for columns as they are typical, or else as they are assumed and as they often are."""
    first = next(one for one in sums if one.task.statistic.name == SecondMoments.name)
    private = sums[0] is not first
    noise = SumsNoise(first.task.clients, first.noise_sd, sums[-1].noise_sd, private)

    def planned(names: Sequence[str | None], columns: AssumedColumns) -> list[PlannedIntervals]:
        forecast, people = noise.forecast(columns), people_for(noise, columns)
        return [
            PlannedIntervals(name, float(columns.spreads[at]), float(forecast.half_widths[at]), bool(on_bounds), people)
            for at, (name, on_bounds) in enumerate(zip(names, forecast.on_bounds, strict=False))
        ]

    if (columns := AssumedColumns.of(public, spread)).stated:
        return tuple(planned(public.names[:-1], columns))
    spreads = sorted({spread, *SPREADS}, reverse=True)
    alike = (AssumedColumns.alike(len(public) - 1, assumed) for assumed in spreads)
    return tuple(one for columns in alike for one in planned([None], columns))


def _nobody(task: Task) -> Release:
    raise InputError("ask", "none given, a plan makes no release")


def _model_of(model: str, assumed: Assumed) -> RoundModel:
    if model == "logistic":
        require_fraction("mean", assumed.mean)
        return LogisticModel()
    if model == "poisson":
        if assumed.mean >= assumed.most:
            raise InputError("mean", f"{assumed.mean:g}", f"less than the largest count, {assumed.most},")
        return PoissonModel(assumed.most)
    if model == "ridge":
        return LeastSquares()
    raise InputError("model", f"{model!r}", f"one of {', '.join(MODELS_IN_ROUNDS)}")


def _planned(model: RoundModel, releases: Releases, shares: Shares) -> list[PlannedSum]:
    """Return all sums; rounds of a kind are alike, so that each is designed once."""
    side = releases.columns
    link, identity, none = model.response(0.0).link, np.eye(side), np.zeros(side)
    kinds: list[tuple[Sequence[float], Contribution | None]] = [
        ((shares.first,), None),
        (shares.steering, ClippedScores(identity, none, 1.0, link)),
        (shares.last, model.last(np.ones(side), none, 0.0)),
    ]
    if shares.bounds:
        counts = counts_of(releases.schema, target=not model.curved)
        require_people(releases.task(shares.bounds, counts), counts)
        kinds.insert(0, ((shares.bounds,), counts))
    found = []
    for parts, contribution in kinds:
        alike = {share: _sum(releases.task(share, contribution), share) for share in set(parts)}
        found += [alike[share] for share in parts]
    return found


def _sum(task: Task, share: float) -> PlannedSum:
    mu = float(task.guarantee.mu or 0.0)
    return PlannedSum(task, share, mu, epsilon_of_mu(mu, task.delta), math.sqrt(float(task.noise_variance[0])))


@dataclasses.dataclass(frozen=True)
class _People:
    """Made-up people, on the normalised scale, and the best fit of them."""

    model: RoundModel
    rows: Reals
    best: Reals
    spread: float

    @classmethod
    def of(cls, name: str, model: RoundModel, assumed: Assumed, side: int) -> _People:
        """Draw people from a fixed seed."""
        rng, population = np.random.default_rng(0), assumed.population
        noise = rng.standard_normal((_PEOPLE, side))
        X, effect = np.clip(noise[:, 1:] * population.spread, -1, 1), noise[:, 1:].sum(axis=1) / math.sqrt(side - 1)
        if name == "ridge":
            parts = math.sqrt(population.explained), math.sqrt(1 - population.explained)
            target = np.clip(population.target_spread * (parts[0] * effect + parts[1] * noise[:, 0]), -1, 1)
        elif name == "logistic":
            eta = gaussian_intercept(assumed.effect, assumed.mean) + assumed.effect * effect
            target = 2.0 * (rng.random(_PEOPLE) < 1 / (1 + np.exp(-eta))) - 1
        else:
            eta = math.log(assumed.mean) - assumed.effect**2 / 2 + assumed.effect * effect
            counts = rng.poisson(np.exp(np.minimum(eta, math.log(1e9))))
            target = 2 * np.minimum(counts, assumed.most) / assumed.most - 1
        x = np.column_stack([np.ones(_PEOPLE), X])
        response = model.response(float(target.mean()))
        best = np.append(response.level or 0.0, np.zeros(side - 1))
        for _ in range(_NEWTON if model.curved else 1):
            curvature = response.link.expected_curvature(x @ best)
            best = best + np.linalg.solve(
                (x * curvature[:, None]).T @ x, x.T @ response.link.residual(target, x @ best)
            )
        return cls(model, np.column_stack([X, target]), best, population.spread)

    def fit(self, spec: ReleaseSpec, rounds: int, seed: int, *, intervals: bool) -> RoundsFit:
        """Fit them as if they were all clients, with the noise that so many sums have."""
        rng = np.random.default_rng([seed, rounds])

        def ask(task: Task) -> Release:
            sums = task.statistic.encode(self.rows, task.encoding).sum(axis=0) * (task.clients / len(self.rows))
            noise = rng.standard_normal(len(sums)) * math.sqrt(float(task.noise_variance[0])) / task.unit
            return Release(task, np.rint(sums + noise).astype(np.int64)[None])

        made_up = msgspec.structs.replace(spec, simulation_seed=seed)
        return fit_in_rounds(self.model, Releases(made_up, ask), rounds, intervals=intervals)

    def expect(self, spec: ReleaseSpec, rounds: int, *, intervals: bool) -> Expected:
        """Return what fits of these people come to."""
        fits = [self.fit(spec, rounds, seed, intervals=intervals) for seed in range(_RUNS)]
        x = np.column_stack([np.ones(len(self.rows)), self.rows[:, :-1]])
        mean = float(self.rows[:, -1].mean())
        response = self.model.response(mean)
        mean_alone = np.append(mean if response.level is None else response.level, np.zeros(len(self.best) - 1))
        unit = response.bend**2 / float(response.link.residual(self.rows[:, -1], x @ mean_alone).var())
        excess, parts, clips, errors = [], [], [], []
        for fit in fits:
            found = mean_alone if fit.verdict else fit.coefficients
            excess.append(float(np.mean((x @ (found - self.best)) ** 2)) * unit)
            parts.append(math.nan if fit.noise_part is None else fit.noise_part)
            asked = [release.task.statistic for release in fit.releases]
            clips += [one.clip for one in asked if isinstance(one, ClippedScores)][-1:]
            if fit.estimate is not None and fit.estimate.why is None:
                shown = fit.estimate.shown[1:]
                deviations = fit.estimate.deviations[1:]
                errors += [float(np.median(deviations[shown])) * self.spread] if shown.any() else []
        most = _RUNS / 2
        return Expected(
            rounds=rounds,
            excess=float(np.median(excess)),
            noise_part=float(np.median(parts)),
            clip=float(np.median(clips)) if clips else math.nan,
            learned=sum(fit.verdict is None for fit in fits) > most,
            shown=len(errors) > most if intervals and (rounds or not self.model.curved) else None,
            standard_error=float(np.median(errors)) if len(errors) > most else None,
            start_error=fits[0].start_error,
        )

    def learns_from(self, spec: ReleaseSpec, rounds: int) -> int | None:
        """Return a number of clients, a power of two times the given one, of whom something is learned."""
        for doubled in range(1, _DOUBLED + 1):
            more = msgspec.structs.replace(spec, clients=spec.clients << doubled)
            if more.clients * spec.budget.delta >= 1:
                return None
            if self.fit(more, rounds, 0, intervals=False).verdict is None:
                return more.clients
        return None
