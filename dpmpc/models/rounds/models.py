"""What logistic, Poisson and linear regressions in rounds differ in: their links, and what a released mean tells."""

from __future__ import annotations

import abc
import math
from typing import ClassVar, NamedTuple

from dpmpc.base.arrays import Reals
from dpmpc.linear.contributions.contribution import Contribution
from dpmpc.linear.contributions.residual_products import ResidualProducts
from dpmpc.linear.contributions.scores import Identity, Link, Logistic, Poisson, Scores
from dpmpc.models.rounds.start import Whitened

_LEAST_CHANCE, _LEAST_COUNT = 0.02, 0.05  # of a mean: below, steering would start far out
_STEEPEST = 8.0  # mean counts: rows of a larger one, of which there are few, count as this in the curvature


class Response(NamedTuple):
    """How a target depends on the linear predictor, as far as a released mean of it tells: what steering goes by."""

    link: Link  # of the steering rounds
    level: float | None = None  # the linear predictor at the mean, to start from; None where the first sum says more
    bend: float = 1.0  # the slope of the mean there
    # the shortest clip of scores, for features of norm 1; None where the clip follows the residuals
    clip: float | None = None
    kept: float = 1.0  # what a clip that does not follow leaves of the curvature, with the bend of the mean
    largest: float = 1.0  # residual
    spread: float = 2.0  # standard deviation of the predictor in the prior, at its largest scale
    intercept_spread: float = 3.0  # the same of the intercept


class RoundModel(abc.ABC):
    """A regression in rounds.

    Attributes
    ----------
    curved : bool
        Whether the mean is no linear function of the linear predictor.
    shares : tuple
        Of mu^2: the second moments, all steering rounds together, and each of the last sums, for intervals.
    unsteered : bool
        Whether the second moments alone, with the whole budget, may be read: an approximation.
    """

    curved: ClassVar[bool] = True
    shares: ClassVar[tuple[float, float, tuple[float, ...]]]
    unsteered: ClassVar[bool] = False

    @abc.abstractmethod
    def response(self, mean: float) -> Response:
        """Return what steering goes by, for a released mean of the target on the scale [-1, 1]."""

    @abc.abstractmethod
    def last(self, scales: Reals, coefficients: Reals, mean: float) -> Contribution:
        """Return what clients send in a last round, at coefficients (p,) of (1, normalised features).

        Parameters
        ----------
        scales : ndarray of float64, shape (p,)
            What a curved model multiplies (1, normalised features) by.
        coefficients : ndarray of float64, shape (p,)
            Public ones; no residual at these is clipped.
        mean : float
            Of the target, on the scale [-1, 1], which a bound of the curvature may go by.
        """

    def refuse(self, whitened: Whitened) -> str | None:
        """Return why nothing can be learned from these moments; None where something may."""
        return None


class LogisticModel(RoundModel):
    """The chance of a 1 among 0 and 1."""

    shares = 0.2, 0.3, (0.2, 0.3)
    unsteered = True

    def response(self, mean: float) -> Response:
        """Return that of a chance; a clip at the median of scores would shorten just the rarer class."""
        chance = min(max((1 + mean) / 2, _LEAST_CHANCE), 1 - _LEAST_CHANCE)
        level = math.log(chance / (1 - chance))
        return Response(Logistic(), level, chance * (1 - chance), clip=max(chance, 1 - chance), kept=0.75)

    def last(self, scales: Reals, coefficients: Reals, mean: float) -> Contribution:
        """Return scores: a residual is at most 1."""
        return Scores(scales, coefficients, Logistic())

    def refuse(self, whitened: Whitened) -> str | None:
        """Refuse where ones, or zeros, cannot be distinguished from none."""
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

    shares = 0.2, 0.3, (0.2, 0.3)

    def __init__(self, top: int):
        self.top = Poisson(top, 1.0).top

    def response(self, mean: float) -> Response:
        """Return that of a mean count."""
        count = max(self.top * (1 + mean) / 2, _LEAST_COUNT)
        return Response(Poisson(self.top, self.top), math.log(count), count, largest=self.top)

    def last(self, scales: Reals, coefficients: Reals, mean: float) -> Contribution:
        """Return scores of residuals up to the largest count, and curvatures up to some times the mean."""
        steepest = min(_STEEPEST * max(self.top * (1 + mean) / 2, _LEAST_COUNT), self.top)
        return Scores(scales, coefficients, Poisson(self.top, self.top, steepest))

    def refuse(self, whitened: Whitened) -> str | None:
        """Refuse where counts cannot be distinguished from zeros."""
        if 1 + whitened.mean > whitened.few:
            return None
        count = min(max(self.top * (1 + whitened.mean) / 2, 0.0), self.top)
        noise = self.top * whitened.few / 2
        return f"the mean count is about {count:.3g}, which noise of up to {noise:.3g} may have made"


class LeastSquares(RoundModel):
    """The mean of a number."""

    curved = False
    shares = 0.65, 0.25, (0.1,)

    def response(self, mean: float) -> Response:
        """Return that of a number; 2 is the public range of residuals."""
        return Response(Identity(2.0), spread=1.0, intercept_spread=1.0)

    def last(self, scales: Reals, coefficients: Reals, mean: float) -> Contribution:
        """Return squared residuals times products: all else is in the first sum."""
        return ResidualProducts(coefficients)
