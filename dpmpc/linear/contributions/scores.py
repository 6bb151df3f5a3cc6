"""The score of a regression at public coefficients, beside its outer product and its curvature.

One sum of these is a last round of `dpmpc.models.rounds`: a step, with what its standard errors need. With public
scales h, v = (h_0, h_1 z_1, ...) / ``|h|`` is a row (1, z) of the box in units in which none is longer than 1, and a
client sends

    g = (y - m(eta)) v,     g g^T / sqrt(2),     b curvature(eta) v v^T,      eta = theta . (1, z).

No row is weighted: what a sum of these estimates is least squares, or maximum likelihood, on all rows. The two matrices
cost no privacy beside a logistic score, and 15 % of noise beside others: theorem last-rounds.

A link states how the target depends on the linear predictor. It turns a client's target t, on the normalised scale
[-1, 1], and eta into a residual and a curvature, both in units in which they are bounded whatever the row is:
|residual| <= 1, 0 <= curvature <= `steepest`. From those bounds alone follows by how much one client moves a sum.

Promised: the sensitivity holds for every row, all scales and all coefficients, since rows, residuals and curvatures are
bounded after they are computed. Not promised: a good fit from coefficients that are far off.
"""

from __future__ import annotations

import abc
import functools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dpmpc.base.arguments import require_positive, require_whole
from dpmpc.base.arrays import Integers, Reals
from dpmpc.base.errors import InputError
from dpmpc.base.storage.records import Described, rebuilt
from dpmpc.data.schemas import clip_ball
from dpmpc.linear.contributions.contribution import Contribution, require_few_bits, symmetric
from dpmpc.linear.encoding import Sensitivity
from dpmpc.linear.encoding.fixed_point import FixedPoint

OUTER_WEIGHT = math.sqrt(0.5)  # Theorem 1: outer products of vectors of norm 1 are free at this weight
_MOST_BITS = 40  # up to here, the errors of floats are below one unit, which the sensitivity counts
_LARGEST_SCALE = 1e8
LARGEST_COEFFICIENT = 1e6


class ScoreSums(NamedTuple):
    """What a release of scores yields, in units of the scaled rows ``v |h|``.

    Attributes
    ----------
    score : ndarray of float64, shape (p,)
        Sum of (y - m) v.
    outer : ndarray of float64, shape (p, p)
        Sum of the outer products of those.
    curvature : ndarray of float64, shape (p, p)
        Sum of m' v v^T.
    score_sd, outer_sd, curvature_sd : float
        Standard deviations of the noise in a score, and on the diagonals; off them it has half the variance.
    """

    score: Reals
    outer: Reals
    curvature: Reals
    score_sd: float
    outer_sd: float
    curvature_sd: float


class Scores(Contribution):
    """Score, outer product and curvature of a regression of the last column on the others.

    Entries off the diagonals are multiplied by sqrt(2), so that L2 norms are Frobenius norms.

    Parameters
    ----------
    scales : array_like of float, shape (p,)
        h, public: what (1, z) is multiplied by, for p - 1 features. The first is 1.
    theta : array_like of float, shape (p,)
        The public coefficients of (1, z).
    link : Link or mapping
        The model, or what `Link.describe` states of it.
    """

    name = "scores"

    def __init__(self, scales: ArrayLike, theta: ArrayLike, link: Link | Mapping[str, Any]):
        self.scales = np.array(scales, dtype=np.float64)
        if self.scales.ndim != 1 or not len(self.scales) or self.scales[0] != 1:
            raise InputError(
                "scales", f"shape {self.scales.shape}", "a list of numbers", condition="of which 1 is first"
            )
        if not np.all((self.scales >= 1 / _LARGEST_SCALE) & (self.scales <= _LARGEST_SCALE)):  # a NaN fails too
            raise InputError("scales", f"numbers from {1 / _LARGEST_SCALE:g} to {_LARGEST_SCALE:g} expected")
        self.theta = require_theta(theta, len(self.scales))
        self.link = link if isinstance(link, Link) else link_from(link)
        self.longest = float(np.linalg.norm(self.scales))  # of the longest rows of the box: its corners

    def parameters(self) -> dict[str, Any]:
        """Return scales and coefficients as lists, and what the link is."""
        return {"scales": self.scales.tolist(), "theta": self.theta.tolist(), "link": self.link.describe()}

    def width(self, columns: int) -> int:
        """Return p + p (p + 1)."""
        if columns != len(self.scales):
            raise InputError("columns", columns, f"{len(self.scales)}", condition="by the scales")
        return columns + columns * (columns + 1)

    def encode(self, rows: Reals, encoding: FixedPoint) -> Integers:
        """Encode the three parts, one after the other."""
        x = np.column_stack([np.ones(len(rows)), rows[:, :-1]])
        residual, curvature = self.link.residual_and_curvature(rows[:, -1], x @ self.theta)
        scaled = clip_ball(x * (self.scales / self.longest), 1.0)
        first, second = np.triu_indices(len(self.scales))
        products = scaled[:, first] * scaled[:, second] * np.where(first == second, 1.0, math.sqrt(2))
        parts = (
            scaled * residual[:, None],
            products * (OUTER_WEIGHT * residual**2)[:, None],
            products * (self.link.curvature_weight * curvature)[:, None],
        )
        limit = self._largest()
        return encoding.encode(np.concatenate(parts, axis=1), -limit, limit)

    def sensitivity(self, columns: int, encoding: FixedPoint) -> Sensitivity:
        """Return that of Theorem 2 or 3 in units of 2^-f, plus what rounding each entry can add.

        Lemmas: outer_products_are_free, curvature_is_free (logistic), rounding_distance.
        """
        distance = math.sqrt(self.link.squared_sensitivity)
        return sensitivity_of_scores(distance, self.width(columns), self.largest_entry(encoding), encoding)

    def largest_entry(self, encoding: FixedPoint) -> int:
        """Return the encoding of 1, or of the largest weighted curvature where that is more, rounded up."""
        return math.ceil(self._largest() * 2.0**encoding.fractional_bits)

    def read(self, entries: Reals, deviation: float) -> ScoreSums:
        """Put released sums (width,) back into score and matrices, whose noise has this deviation in each entry."""
        side, reach = len(self.scales), self.longest * self.link.reach
        outer_unit = reach**2 / OUTER_WEIGHT
        curvature_unit = self.longest**2 * self.link.slope / self.link.curvature_weight
        outer, curvature = np.split(entries[side:], 2)
        return ScoreSums(
            score=entries[:side] * reach,
            outer=_symmetric(outer, side) * outer_unit,
            curvature=_symmetric(curvature, side) * curvature_unit,
            score_sd=deviation * reach,
            outer_sd=deviation * outer_unit,
            curvature_sd=deviation * curvature_unit,
        )

    def _largest(self) -> float:
        return max(1.0, self.link.curvature_weight * self.link.steepest)


def require_theta(theta: ArrayLike, side: int) -> Reals:
    """Return public coefficients, or refuse them."""
    coefficients = np.array(theta, dtype=np.float64)
    if coefficients.shape != (side,) or not np.all(np.abs(coefficients) <= LARGEST_COEFFICIENT):  # a NaN fails too
        raise InputError("theta", f"{side} numbers of magnitude at most {LARGEST_COEFFICIENT:g} expected")
    return coefficients


def sensitivity_of_scores(distance: float, width: int, largest: int, encoding: FixedPoint) -> Sensitivity:
    """Return by how much one client moves an encoded score, or what is made of scores.

    Parameters
    ----------
    distance : float
        The largest L2 distance of two clients before rounding.
    width : int
        Entries, each of which is rounded once: together by at most sqrt(width), and 1 for the errors of floats.
    largest : int
        The largest magnitude of an encoded entry.
    encoding : FixedPoint
        Whose units may not be as small as the errors of scores, which are longer sums than products are.
    """
    require_few_bits(encoding, width, _MOST_BITS, "scores")
    l2 = distance * 2.0**encoding.fractional_bits + math.sqrt(width) + 1
    return Sensitivity(l1=math.sqrt(width) * l2, l2=l2, linf=min(l2, 2.0 * largest), columns=width)


def _symmetric(entries: Reals, side: int) -> Reals:
    """Return the symmetric matrix whose upper triangle is given, off-diagonal entries times sqrt(2)."""
    first, second = np.triu_indices(side)
    return symmetric(entries / np.where(first == second, 1.0, math.sqrt(2)), side)


MOST_COUNTS = 4096  # of a Poisson target: everybody makes a table of so many by `_MEANS` probabilities
_LEAST_MEAN, _MEANS = 1e-4, 600


class Link(Described):
    """What a score is made of.

    Attributes
    ----------
    squared_sensitivity : float
        By how much the squared norm of score, outer product and curvature moves, in the weights below.
    curvature_weight : float
        What the curvature is multiplied by beside a score of norm at most 1.
    steepest : float
        The largest curvature.
    reach, slope : float
        A residual of 1 and a curvature of 1, in the target's units.
    """

    name: str
    squared_sensitivity = 16 / 3  # theorem other-curvature
    curvature_weight = 1.0
    steepest = 1.0
    reach: float = 1.0
    slope: float = 1.0

    @abc.abstractmethod
    def residual(self, target: Reals, eta: Reals) -> Reals:
        """Return target less mean (m,) in the target's units, for targets in [-1, 1], within what the link allows."""

    @abc.abstractmethod
    def residual_and_curvature(self, target: Reals, eta: Reals) -> tuple[Reals, Reals]:
        """Return both (m,), within their bounds, for targets in [-1, 1]."""

    def largest_residual(self, residual: Reals, eta: Reals) -> Reals:
        """Return the residual (m,) that a score is shortened for, at least its own size: that, unless specified."""
        return np.abs(residual)

    @abc.abstractmethod
    def expected_curvature(self, eta: Reals) -> Reals:
        """Return the curvature that the model itself expects at eta, in the target's units."""

    def parameters(self) -> dict[str, Any]:
        """Return the arguments that make an equal link, fit for JSON."""
        return {}

    def describe(self) -> dict[str, Any]:
        """Return the public facts that `link_from` rebuilds this from."""
        return {"name": self.name, **self.parameters()}


class Logistic(Link):
    """A target between 0 (t = -1) and 1 (t = 1), whose mean is q = 1 / (1 + exp(-eta)).

    The curvature q (1 - q) is small where a residual is near 1: that is why it costs nothing beside the score
    (theorem logistic-curvature).
    """

    name = "logistic"
    squared_sensitivity = 4.0
    curvature_weight = math.sqrt(21)
    steepest = 0.25

    def residual(self, target: Reals, eta: Reals) -> Reals:
        """Return y - q."""
        return np.asarray(np.clip((target + 1) / 2, 0.0, 1.0) - sigmoid(eta))

    def largest_residual(self, residual: Reals, eta: Reals) -> Reals:
        """Return max(q, 1 - q), whatever y is: both outcomes are shortened alike, and the score keeps its mean of 0."""
        q = sigmoid(eta)
        return np.maximum(np.maximum(q, 1 - q), np.abs(residual))

    def residual_and_curvature(self, target: Reals, eta: Reals) -> tuple[Reals, Reals]:
        """Return y - q and q (1 - q)."""
        return self.residual(target, eta), self.expected_curvature(eta)

    def expected_curvature(self, eta: Reals) -> Reals:
        """Return q (1 - q)."""
        q = sigmoid(eta)
        return np.asarray(q * (1 - q))


class Identity(Link):
    """A number t in [-1, 1], whose mean is eta.

    Parameters
    ----------
    limit : float
        The public bound of a residual on the normalised scale. Fits in rounds give one that no row within the bounds
        exceeds; any other row's is forced into it.
    """

    name = "identity"

    def __init__(self, limit: float):
        self.limit = self.reach = require_positive("limit", limit, 1e6)

    def parameters(self) -> dict[str, Any]:
        """Return the limit."""
        return {"limit": self.limit}

    def residual(self, target: Reals, eta: Reals) -> Reals:
        """Return t - eta, forced into [-limit, limit]."""
        return np.clip(target - eta, -self.limit, self.limit)

    def residual_and_curvature(self, target: Reals, eta: Reals) -> tuple[Reals, Reals]:
        """Return the residual, in units of the limit, and ones."""
        return self.residual(target, eta) / self.limit, np.ones_like(eta)

    def expected_curvature(self, eta: Reals) -> Reals:
        """Return ones."""
        return np.ones_like(eta)


class Poisson(Link):
    """A count from 0 (t = -1) to `top` (t = 1), whose mean is m = exp(eta).

    The residual is y - m, forced into [-c, c], less its expectation under the model for counts capped at `top` (Cantoni
    and Ronchetti 2001). Fits in rounds give c = `top`, which no y - m exceeds: then it is what the cap takes off.

    Parameters
    ----------
    top : int
        Public upper bound of the counts.
    limit : float
        c, above 0, the public bound of y - m.
    slope : float, optional
        The largest curvature that counts: larger means count as this one there. By default 4 c, at most `top`.
    """

    name = "poisson"

    def __init__(self, top: int, limit: float, slope: float | None = None):
        self.top = require_whole("top", top, 1, MOST_COUNTS)
        self.limit = require_positive("limit", limit, float(MOST_COUNTS))
        self._slope = None if slope is None else require_positive("slope", slope, float(MOST_COUNTS))
        self.slope = min(float(self.top), 4 * self.limit) if self._slope is None else self._slope
        self.reach = float(self.limit + np.abs(self._table[1]).max())

    def parameters(self) -> dict[str, Any]:
        """Return the upper bound, the limit, and the slope where it is given."""
        slope = {} if self._slope is None else {"slope": self._slope}
        return {"top": self.top, "limit": self.limit, **slope}

    def residual(self, target: Reals, eta: Reals) -> Reals:
        """Return y - m, forced into [-c, c]."""
        means = np.exp(np.clip(eta, math.log(_LEAST_MEAN), math.log(self.top)))
        return np.clip(self.top * (target + 1) / 2 - means, -self.limit, self.limit)

    def residual_and_curvature(self, target: Reals, eta: Reals) -> tuple[Reals, Reals]:
        """Return the centred residual and the covariance of y - m, within [-c, c], with y, in units of their bounds."""
        grid, mean, covariance = self._table
        logarithm = np.clip(eta, grid[0], grid[-1])
        residual = self.residual(target, eta) - np.interp(logarithm, grid, mean)
        curvature = np.interp(logarithm, grid, covariance)
        return np.clip(residual / self.reach, -1.0, 1.0), np.clip(curvature / self.slope, 0.0, 1.0)

    def expected_curvature(self, eta: Reals) -> Reals:
        """Return the curvature that clients would send."""
        return self.residual_and_curvature(np.zeros_like(eta), eta)[1] * self.slope

    @functools.cached_property
    def _table(self) -> tuple[Reals, Reals, Reals]:
        """At logarithms of means: E r and Cov(r, Y), r = Y - m within [-c, c], for Poisson counts Y capped at `top`."""
        grid = np.linspace(math.log(_LEAST_MEAN), math.log(self.top), _MEANS)
        counts = np.arange(self.top + 1)
        factorials = np.cumsum(np.log(np.maximum(counts, 1)))
        chances = np.exp(np.outer(grid, counts) - np.exp(grid)[:, None] - factorials)
        chances[:, -1] += np.maximum(0.0, 1 - chances.sum(axis=1))
        deviations = counts - np.exp(grid)[:, None]
        clipped = chances * np.clip(deviations, -self.limit, self.limit)
        return grid, clipped.sum(axis=1), np.einsum("ij,ij->i", clipped, deviations)


def sigmoid(eta: Reals) -> Reals:
    """Return 1 / (1 + exp(-eta)), without overflow and within [0, 1]."""
    return np.asarray(0.5 * (1 + np.tanh(0.5 * eta)))


LINKS: dict[str, type[Link]] = {kind.name: kind for kind in (Logistic, Identity, Poisson)}
"""What saved scores may name."""


def link_from(description: Mapping[str, Any]) -> Link:
    """Rebuild a link from `Link.describe`."""
    return rebuilt("link", LINKS, description)
