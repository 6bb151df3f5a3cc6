"""What logistic, Poisson and linear regressions in rounds differ in: link, start, shares of the budget, radius."""

from __future__ import annotations

import abc
import math
import operator
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmpc.contributions import Identity, Link, Logistic, Poisson, ScoreSums
from dpmpc.errors import InputError
from dpmpc.rounds.start import (
    LARGEST_SLOPE,
    Whitened,
    gaussian_curvature,
    linear_start,
    logistic_start,
    logistic_start_error,
    poisson_start,
)

Reals = NDArray[np.float64]

_LEAST_CHANCE, _LEAST_COUNT = 0.02, 0.05  # of a mean: below, steering would start far out
_STEEPEST = 8.0  # mean counts: rows of a larger one, of which there are few, count as this in the curvature
_CHEAP = 0.05  # a larger ball is taken where noise adds at most so much to the variance of sampling
_CHEAP_RISK = 1e-4  # the same of a linear regression, as a part of its risk
_CLEARLY = 2.0  # standard errors by which residuals have to exceed those of the law before that is said


class Response(NamedTuple):
    """How a target depends on the linear predictor, as far as a released mean of it tells: what steering goes by."""

    link: Link  # of the steering rounds
    level: float | None = None  # the linear predictor at the mean, to start from; None where the first sum says more
    bend: float = 1.0  # the slope of the mean there
    # where scores are clipped in all rounds, for features of norm 1; None where the clip follows the residuals
    clip: float | None = None
    kept: float = 1.0  # what a clip that stays leaves of the curvature
    largest: float = 1.0  # residual
    spread: float = 2.0  # standard deviation of the predictor in the prior, at its largest scale
    intercept_spread: float = 3.0  # the same of the intercept


class RoundModel(abc.ABC):
    """A regression in rounds.

    Attributes
    ----------
    shares : dict of int to tuple of float
        Of mu^2: for the start and for each round, by the number of rounds; with 0, the start is the fit.
    relies_on_features : bool
        Whether the curvature that Gaussian features would have is mixed in where the released one is noisy.
    no_interval : str or None
        Why no fit of this model has intervals; None where its releases decide.
    curved : bool
        Whether the mean is no linear function of the linear predictor.
    largest : float
        What the sum of the sizes of the coefficients of (1, normalised features) is taken to be at most, where a
        direction of them is not seen: by so much predictions differ within the bounds.
    """

    shares: ClassVar[dict[int, tuple[float, ...]]]
    relies_on_features: ClassVar[bool] = True
    no_interval: ClassVar[str | None] = None
    curved: ClassVar[bool] = True
    largest: ClassVar[float] = 4.0  # a probability of 2 to 98 %; a rate of 55

    def shares_of(self, rounds: int | str) -> tuple[float, ...]:
        """Return the shares of the start and of the rounds."""
        if isinstance(rounds, bool) or not hasattr(rounds, "__index__") or rounds not in self.shares:
            raise InputError(f"rounds: {rounds!r} given, 'auto' or one of {', '.join(map(str, self.shares))} expected")
        return self.shares[operator.index(rounds)]

    @property
    @abc.abstractmethod
    def usual(self) -> int:
        """Number of rounds that "auto" begins with."""

    @abc.abstractmethod
    def response(self, mean: float) -> Response:
        """Return what steering goes by, for a released mean of the target on the scale [-1, 1]."""

    @abc.abstractmethod
    def begin(self, whitened: Whitened) -> tuple[Reals, Link]:
        """Return coefficients of the whitened rows to start from, and the link of all rounds."""

    @abc.abstractmethod
    def unclipped(self, coefficients: Reals, mean: float) -> Link:
        """Return the link whose residuals no row has clipped, at coefficients (p,) of (1, normalised features).

        The mean of the target, on the scale [-1, 1], is what a bound of the curvature may go by.
        """

    def refuse(self, whitened: Whitened) -> str | None:
        """Return why nothing can be learned from these moments; None where something may."""
        return None

    def start_error(self, whitened: Whitened, theta: Reals) -> float:
        """Return by how much noise alone moves the linear predictor of a fit that ends at its start."""
        raise NotImplementedError  # asked only where `shares` has no rounds

    def refuse_start(self, theta: Reals) -> str | None:
        """Return why a fit may not end at this start; None where it may."""
        return None

    def radius_factor(self, whitened: Whitened, theta: Reals, link: Link, mu: float) -> float:
        """Return R / sqrt(p): 2 or 1.5 where noise is negligible in a last round of parameter mu, else 1."""
        side = len(theta)
        sampling = whitened.clients * float(gaussian_curvature(theta, link.expected_curvature)[0, 0])
        return next(
            (k for k in (2.0, 1.5) if link.squared_sensitivity * _squared(link, k, side, mu) <= _CHEAP * sampling), 1.0
        )

    def unit(self, whitened: Whitened) -> float:
        """Return an error of the linear predictor that is large."""
        return 1.0

    def contradicted(self, sums: ScoreSums, clients: int) -> str | None:
        """Return why a round shows that the law behind this model's residuals does not hold; None where it may."""
        return None


_SHARES = {1: (0.3, 0.7), 2: (0.25, 0.15, 0.6), 3: (0.2, 0.1, 0.1, 0.6), 4: (0.2, 0.08, 0.08, 0.1, 0.54)}


class LogisticModel(RoundModel):
    """The chance of a 1 among 0 and 1."""

    shares: ClassVar = {0: (1.0,), **_SHARES}
    usual = 2

    def response(self, mean: float) -> Response:
        """Return that of a chance; clips stay, since one at the median would shorten just the rarer class."""
        chance = min(max((1 + mean) / 2, _LEAST_CHANCE), 1 - _LEAST_CHANCE)
        level = math.log(chance / (1 - chance))
        return Response(Logistic(), level, chance * (1 - chance), clip=max(chance, 1 - chance), kept=0.75)

    def begin(self, whitened: Whitened) -> tuple[Reals, Link]:
        """Return the scaled least-squares fit."""
        return logistic_start(whitened), Logistic()

    def unclipped(self, coefficients: Reals, mean: float) -> Link:
        """Return the link: a residual is at most 1."""
        return Logistic()

    def start_error(self, whitened: Whitened, theta: Reals) -> float:
        """Return the first-order error of scaled least squares."""
        return logistic_start_error(whitened, theta)

    def refuse_start(self, theta: Reals) -> str | None:
        """Refuse a start as long as one may be, whose length says nothing of the effects."""
        if float(np.linalg.norm(theta[1:])) < LARGEST_SLOPE * (1 - 1e-9):
            return None
        return (
            "the features explain more of the target than an approximation without rounds can express: they all but "
            "determine it, or are far from Gaussian; rounds of scores tell which"
        )

    def refuse(self, whitened: Whitened) -> str | None:
        """Refuse where ones, or zeros, cannot be told from none."""
        rarer = 1 - abs(whitened.mean)
        if rarer > whitened.few:
            return None
        return (
            f"about {max(0.0, whitened.clients * rarer / 2):,.0f} of {whitened.clients:,} rows belong to the rarer "
            f"class, and noise hides up to {whitened.clients * whitened.few / 2:,.0f}"
        )


class PoissonModel(RoundModel):
    """The mean of a count.

    Parameters
    ----------
    top : int
        Public upper bound of the counts.
    """

    shares: ClassVar = _SHARES
    usual = 3

    def __init__(self, top: int):
        self.top = Poisson(top, 1.0).top

    def response(self, mean: float) -> Response:
        """Return that of a mean count."""
        count = max(self.top * (1 + mean) / 2, _LEAST_COUNT)
        return Response(Poisson(self.top, float(self.top)), math.log(count), count, largest=self.top)

    def begin(self, whitened: Whitened) -> tuple[Reals, Link]:
        """Return the fit to Gaussian features; residuals are clipped at three standard deviations and one count."""
        limit = self.limit(self.top * (1 + whitened.mean) / 2, self.top)
        return poisson_start(whitened, self.top), Poisson(self.top, limit)

    def unclipped(self, coefficients: Reals, mean: float) -> Link:
        """Return a link of residuals up to the largest count, and curvatures up to some times the mean."""
        return Poisson(self.top, self.top, min(_STEEPEST * max(self.top * (1 + mean) / 2, _LEAST_COUNT), self.top))

    @staticmethod
    def limit(mean: float, top: int) -> float:
        """Return where residuals are clipped, for a mean count: at three standard deviations and one count."""
        return min(max(3 * math.sqrt(max(mean, 0.05)) + 1, 2.0), max(2.0, float(top)))

    def refuse(self, whitened: Whitened) -> str | None:
        """Refuse where counts cannot be told from zeros."""
        if 1 + whitened.mean > whitened.few:
            return None
        return f"the mean count is about {max(0.0, self.top * (1 + whitened.mean) / 2):.3g}, which noise may have made"

    def contradicted(self, sums: ScoreSums, clients: int) -> str | None:
        """Say where counts vary more than a Poisson law does: clipped residuals are centred by that law.

        Under it E clip(Y - m)^2 <= Cov(clip(Y - m), Y), and rows weigh no less in the curvature than in the outer
        products, so that the trace of the latter is expected to be the smaller one.
        """
        side, squares, expected = len(sums.score), float(np.trace(sums.outer)), float(np.trace(sums.curvature))
        noise = math.sqrt(side) * math.hypot(sums.outer_sd, sums.curvature_sd)
        sampling = 2 * squares / math.sqrt(side * clients)
        if squares - expected <= _CLEARLY * math.hypot(noise, sampling):
            return None
        return (
            f"counts vary more than a Poisson law allows (squared residuals are {squares / max(expected, 1e-300):.2g} "
            "times the most that it gives); clipped residuals are then off, and coefficients by more than standard "
            "errors would tell"
        )


class LeastSquares(RoundModel):
    """The mean of a number: one round beyond the second moments."""

    shares: ClassVar = {1: (0.3, 0.7)}
    CLIPPED_AT: ClassVar = 4.0  # standard deviations of the residuals
    relies_on_features = False
    curved = False
    largest = 1.0  # the target is within [-1, 1]
    no_interval = (
        "residuals are clipped at four of their standard deviations, which moves slopes by more than standard errors "
        "tell where errors are skewed and uneven, the more so the more people there are; a fit of one release "
        "(rounds=1, dpmpc fit --rounds 1) has intervals"
    )
    usual = 1

    def response(self, mean: float) -> Response:
        """Return that of a number; 2 is the public range of residuals."""
        return Response(Identity(2.0), spread=1.0, intercept_spread=1.0)

    def begin(self, whitened: Whitened) -> tuple[Reals, Link]:
        """Return lifted least squares; residuals are clipped at four standard deviations."""
        theta, deviation = linear_start(whitened)
        return theta, Identity(self.CLIPPED_AT * deviation)

    def unclipped(self, coefficients: Reals, mean: float) -> Link:
        """Return a link of residuals up to 1 + sum |coefficients|: target and features are within [-1, 1]."""
        return Identity(1 + float(np.abs(coefficients).sum()))

    def radius_factor(self, whitened: Whitened, theta: Reals, link: Link, mu: float) -> float:
        """Return the largest of 3, 2, 1.5 at which noise is negligible beside the risk, else 1."""
        side, allowed = len(theta), _CHEAP_RISK * (whitened.clients * link.reach / self.CLIPPED_AT) ** 2

        def excess(k: float) -> float:
            return link.squared_sensitivity * _squared(link, k, side, mu) * side

        return next((k for k in (3.0, 2.0, 1.5) if excess(k) <= allowed), 1.0)

    def unit(self, whitened: Whitened) -> float:
        """Return the target's standard deviation."""
        return math.sqrt(max(whitened.variance, 1e-12))


def _squared(link: Link, k: float, side: int, mu: float) -> float:
    """Return the variance of the noise in a score with R = k sqrt(p), at a sensitivity of 1."""
    return (k * link.reach / mu) ** 2 * side
