"""Before any data: what a fit in rounds will cost, and what it may be expected to tell.

The noise is exactly that of the tasks that `fit_in_rounds` would ask for. Errors are first-order formulas for an
assumed population: Gaussian features, whose whitened rows v have E|v|^2 = p, and a linear predictor with an assumed
standard deviation. With the curvature H = n E[m' v v^T] of that population and a standard deviation sd of the noise in
a score (docs/mathematics.md, section 12)

    noise moves the linear predictor of a typical row by sqrt(tr H^-2) sd, sampling by sqrt(tr H^-1).

Not promised: more than the order of magnitude for data unlike the assumed population; where the start is far off, as
for few cases, a step is left that these formulas do not count. Without rounds that is all of the start's bias.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import NDArray

from dpmpc.arguments import require_fraction, require_positive, require_whole
from dpmpc.contributions import Identity, Link, Logistic, Poisson, Scores
from dpmpc.errors import InputError
from dpmpc.planning.prediction import Population
from dpmpc.privacy import Guarantee, epsilon_of_mu
from dpmpc.release import Release
from dpmpc.rounds.models import LeastSquares, LogisticModel, PoissonModel, RoundModel
from dpmpc.rounds.newton import AUTO, HOPELESS, require_words
from dpmpc.rounds.releases import Releases
from dpmpc.rounds.start import Whitened, gaussian_curvature, gaussian_intercept
from dpmpc.specification import MODELS_IN_ROUNDS, ReleaseSpec
from dpmpc.task import Task

Reals = NDArray[np.float64]

_MOST_EFFECT = 4.0


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
        Of a ridge regression: spread of the columns, and R^2.
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
    # standard deviation of the noise in its first number: in a sum of products of columns mapped to [-1, 1], or in the
    # score of a whitened row, in the target's units
    noise_sd: float
    outer_sd: float | None  # the same on the diagonals of a round's matrices
    curvature_sd: float | None


@dataclasses.dataclass(frozen=True)
class Outlook:
    """What is expected of a fit in rounds.

    Attributes
    ----------
    model : {"logistic", "poisson", "ridge"}
        The regression.
    sums : tuple of PlannedSum
        Second moments, then the rounds.
    guarantee : Guarantee
        Of all of them.
    noise_error, sampling_error : float
        By how much noise, and sampling, move the linear predictor of a typical row. In units of the target's standard
        deviation for ridge regression.
    phi : float or None
        Of ridge regression: expected cost over the least cost.
    learns_from, noise_is_small_from : int
        Number of clients, about, from which on something can be learned, and from which on noise is the smaller error.
    """

    model: str
    sums: tuple[PlannedSum, ...]
    guarantee: Guarantee
    noise_error: float
    sampling_error: float
    phi: float | None
    learns_from: int
    noise_is_small_from: int

    @property
    def hopeless(self) -> bool:
        """Whether the fit is expected to say that nothing can be learned."""
        return self.guarantee.clients < self.learns_from


def outlook(model: str, spec: ReleaseSpec, rounds: int | str = AUTO, assumed: Assumed | None = None) -> Outlook:
    """Return what is expected of `fit_in_rounds`.

    Parameters
    ----------
    model : {"logistic", "poisson", "ridge"}
        The regression of the last column on the others.
    spec : ReleaseSpec
        Columns, clients, the whole budget, trust and mechanism.
    rounds : int or "auto"
        Rounds of scores; "auto" stands for what a fit begins with.
    assumed : Assumed, optional
        The population.
    """
    given = assumed or Assumed()
    kind = _model_of(model, given)
    shares = kind.shares_of(kind.usual if rounds == AUTO else rounds)
    releases = Releases(spec, _nobody)
    clients, side = releases.clients, releases.columns
    require_words(side)
    start = releases.task(shares[0])
    start_sd = math.sqrt(float(start.noise_variance[0]))
    theta, link, unit = _population(model, given, side)
    whitened = Whitened(np.eye(side), theta[1:], 0.0, given.population.target_spread**2, start_sd / clients, clients)
    factor = kind.radius_factor(whitened, theta, link, releases.mu_of(shares[-1]))
    scores = Scores(np.eye(side), theta, max(1.0, factor * math.sqrt(side)), link)
    tasks = [start, *(releases.task(share, scores) for share in shares[1:])]
    sums = [_planned(task, share, scores) for task, share in zip(tasks, shares, strict=True)]
    curvature = gaussian_curvature(theta, link.expected_curvature)
    inverse = np.linalg.inv(clients * curvature)
    noise = float(np.linalg.norm(inverse)) * sums[-1].noise_sd / unit
    if len(sums) == 1:
        spread = np.diag([1.0, *[1 / given.population.spread] * (side - 1)])
        noise = kind.start_error(
            dataclasses.replace(whitened, matrix=spread, covariance=2 * curvature[0, 0] * theta[1:]), theta
        )
    residual = math.sqrt(1 - given.population.explained) if model == "ridge" else 1.0
    sampling = math.sqrt(float(np.trace(inverse))) * residual
    return Outlook(
        model=model,
        sums=tuple(sums),
        guarantee=releases.promise(tasks),
        noise_error=noise,
        sampling_error=sampling,
        phi=1 + (noise / residual) ** 2 if model == "ridge" else None,
        learns_from=math.ceil(max(clients * noise / HOPELESS, _told_apart(model, given, whitened))),
        noise_is_small_from=math.ceil(clients * (noise / sampling) ** 2),
    )


def _nobody(task: Task) -> Release:
    raise InputError("ask: nobody given, a plan makes no release")


def _model_of(model: str, assumed: Assumed) -> RoundModel:
    if model == "logistic":
        require_fraction("mean", assumed.mean)
        return LogisticModel()
    if model == "poisson":
        if assumed.mean >= assumed.most:
            raise InputError(f"mean: {assumed.mean:g} given, less than the largest count, {assumed.most}, expected")
        return PoissonModel(assumed.most)
    if model == "ridge":
        return LeastSquares()
    raise InputError(f"model: {model!r} given, one of {', '.join(MODELS_IN_ROUNDS)} expected")


def _population(model: str, assumed: Assumed, side: int) -> tuple[Reals, Link, float]:
    """Return the coefficients of whitened rows, the link of the rounds, and an error that is large."""
    theta, effect = np.zeros(side), assumed.effect if side > 1 else 0.0
    if side > 1:
        theta[1] = effect
    if model == "logistic":
        theta[0] = gaussian_intercept(effect, assumed.mean)
        return theta, Logistic(), 1.0
    if model == "poisson":
        theta[0] = math.log(assumed.mean) - effect**2 / 2
        return theta, Poisson(assumed.most, PoissonModel.limit(assumed.mean, assumed.most)), 1.0
    target, explained = assumed.population.target_spread, assumed.population.explained
    if side > 1:
        theta[1] = target * math.sqrt(explained)
    return theta, Identity(LeastSquares.CLIPPED_AT * target * math.sqrt(1 - explained)), target


def _planned(task: Task, share: float, scores: Scores) -> PlannedSum:
    mu, deviation = float(task.guarantee.mu or 0.0), math.sqrt(float(task.noise_variance[0]))
    read = scores.read(np.zeros(task.width), deviation) if isinstance(task.statistic, Scores) else None
    return PlannedSum(
        task=task,
        share=share,
        mu=mu,
        epsilon_alone=epsilon_of_mu(mu, task.delta),
        noise_sd=deviation if read is None else read.score_sd,
        outer_sd=None if read is None else read.outer_sd,
        curvature_sd=None if read is None else read.curvature_sd,
    )


def _told_apart(model: str, assumed: Assumed, whitened: Whitened) -> float:
    """Return the clients from which on cases, or counts, are told from none (`RoundModel.refuse`)."""
    if model == "ridge":
        return 0.0
    rare = 2 * (min(assumed.mean, 1 - assumed.mean) if model == "logistic" else assumed.mean / assumed.most)
    return whitened.clients * whitened.few / rare
