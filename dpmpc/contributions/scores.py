"""The score of a regression at public coefficients, beside its outer product and its curvature.

One sum of these is a last round of `dpmpc.rounds`: a step, with what its standard errors need. A client whitens its
row by a public matrix, v = T (1, z), and sends

    g = a (y - m(eta)) v / |v|,     g g^T / sqrt(2),     b curvature(eta) v v^T / |v|^2,      eta = theta . v,

with a, b in [0, 1] that depend on the features only. The two matrices cost no privacy beside a logistic score, and 3 %
of noise beside others: the three theorems are proved in docs/mathematics.md, section 12.

A link says how the target depends on the linear predictor. It turns a client's target t, on the normalised scale
[-1, 1], and eta into a residual and a curvature, both in units in which they are bounded whatever the row is:
|residual| <= 1, 0 <= curvature <= `steepest`. From those bounds alone follows by how much one client moves a sum.

Promised: the sensitivity holds for every row, every matrix and all coefficients, since directions, residuals and
curvatures are bounded after they are computed. Not promised: a good fit from coefficients that are far off.
"""

from __future__ import annotations

import abc
import functools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmpc.arguments import require_positive, require_whole
from dpmpc.contributions.contribution import Contribution
from dpmpc.data import clip_ball
from dpmpc.encoding import FixedPoint, Sensitivity
from dpmpc.errors import InputError
from dpmpc.storage import Described, rebuilt

Reals = NDArray[np.float64]

OUTER_WEIGHT = math.sqrt(0.5)  # Theorem 1: outer products of vectors of norm 1 are free at this weight
CURVATURE_RADIUS = 2.0  # kappa: rows count in full in the curvature up to a squared norm of kappa R^2
MOST_FRACTIONAL_BITS = 40  # up to here, the errors of floats are below one unit, which the sensitivity counts
_LARGEST_WEIGHT = 1e8
_LARGEST_COEFFICIENT = 1e6


class ScoreSums(NamedTuple):
    """What a release of scores says, in units of the whitened rows.

    Attributes
    ----------
    score : ndarray of float64, shape (p,)
        Sum of w (y - m) v.
    outer : ndarray of float64, shape (p, p)
        Sum of the outer products of those.
    curvature : ndarray of float64, shape (p, p)
        Sum of w m' v v^T.
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

    Entries off the diagonals are multiplied by sqrt(2), so that L2 norms are Frobenius norms. With x = ``|v| / R``, a
    row has the weight a = min(x, 1, kappa / x) in scores, of Mallows' type (Kuensch, Stefanski and Carroll 1989).

    Parameters
    ----------
    matrix : array_like of float, shape (p, p)
        T, public, for p - 1 features; its first row is (1, 0, ..., 0).
    theta : array_like of float, shape (p,)
        The public coefficients of v.
    radius : float
        R, at least 1: rows of norm up to R count in full.
    link : Link or mapping
        The model, or what `Link.describe` says of it.
    """

    name = "scores"

    def __init__(self, matrix: ArrayLike, theta: ArrayLike, radius: float, link: Link | Mapping[str, Any]):
        self.matrix = np.array(matrix, dtype=np.float64)
        if self.matrix.ndim != 2 or self.matrix.shape[0] != self.matrix.shape[1] or not len(self.matrix):
            raise InputError(f"matrix: shape {self.matrix.shape} given, a square matrix expected")
        side = len(self.matrix)
        if not np.array_equal(self.matrix[0], np.eye(side)[0]):
            raise InputError("matrix: first row (1, 0, ..., 0) expected: the intercept is not whitened away")
        if not np.all(np.abs(self.matrix) <= _LARGEST_WEIGHT):  # a NaN fails too
            raise InputError(f"matrix: entries of magnitude at most {_LARGEST_WEIGHT:g} expected")
        self.theta = require_theta(theta, side)
        self.ball = require_positive("radius", radius, _LARGEST_WEIGHT)
        if self.ball < 1:
            raise InputError(f"radius: {radius} given, at least 1 expected: no whitened row is shorter")
        self.link = link if isinstance(link, Link) else link_from(link)

    def parameters(self) -> dict[str, Any]:
        """Return matrix and coefficients as lists, the radius and what the link is."""
        return {
            "matrix": self.matrix.tolist(),
            "theta": self.theta.tolist(),
            "radius": self.ball,
            "link": self.link.describe(),
        }

    def width(self, columns: int) -> int:
        """Return p + p (p + 1)."""
        if columns != len(self.matrix):
            raise InputError(f"columns: {columns} given, {len(self.matrix)} expected by the whitening matrix")
        return columns + columns * (columns + 1)

    def encode(self, rows: NDArray[np.float64], encoding: FixedPoint) -> NDArray[np.int64]:
        """Encode the three parts, one after the other."""
        direction, score, curvature = self._amplitudes(rows)
        first, second = np.triu_indices(len(self.matrix))
        products = direction[:, first] * direction[:, second] * np.where(first == second, 1.0, math.sqrt(2))
        parts = (
            direction * score[:, None],
            products * (OUTER_WEIGHT * score**2)[:, None],
            products * (self.link.curvature_weight * curvature)[:, None],
        )
        limit = self._largest()
        return encoding.encode(np.concatenate(parts, axis=1), -limit, limit)

    def sensitivity(self, columns: int, encoding: FixedPoint) -> Sensitivity:
        """Return that of Theorem 2 or 3 in units of 2^-f, plus what rounding each entry can add."""
        require_few_bits(encoding)
        width = self.width(columns)
        l2 = math.sqrt(self.link.squared_sensitivity) * 2.0**encoding.fractional_bits + math.sqrt(width) + 1
        linf = min(l2, 2.0 * self.largest_entry(encoding))
        return Sensitivity(l1=math.sqrt(width) * l2, l2=l2, linf=linf, columns=width)

    def largest_entry(self, encoding: FixedPoint) -> int:
        """Return the encoding of 1, or of the largest weighted curvature where that is more, rounded up."""
        return math.ceil(self._largest() * 2.0**encoding.fractional_bits)

    def read(self, entries: Reals, deviation: float) -> ScoreSums:
        """Put released sums (width,) back into score and matrices, whose noise has this deviation in each entry."""
        side, reach = len(self.matrix), self.ball * self.link.reach
        outer_unit = reach**2 / OUTER_WEIGHT
        curvature_unit = CURVATURE_RADIUS * self.ball**2 * self.link.slope / self.link.curvature_weight
        outer, curvature = np.split(entries[side:], 2)
        return ScoreSums(
            score=entries[:side] * reach,
            outer=_symmetric(outer, side) * outer_unit,
            curvature=_symmetric(curvature, side) * curvature_unit,
            score_sd=deviation * reach,
            outer_sd=deviation * outer_unit,
            curvature_sd=deviation * curvature_unit,
        )

    def _amplitudes(self, rows: Reals) -> tuple[Reals, Reals, Reals]:
        """Return directions (m, p) of norm at most 1, and what scores and curvatures multiply them by, both (m,)."""
        whitened = self.matrix[:, 0] + rows[:, :-1] @ self.matrix[:, 1:].T
        residual, curvature = self.link.residual_and_curvature(rows[:, -1], whitened @ self.theta)
        length = np.sqrt(np.einsum("ij,ij->i", whitened, whitened)) / self.ball
        weight = np.minimum(np.minimum(length, 1.0), CURVATURE_RADIUS / length)
        squared = np.minimum(np.minimum(length**2, length) / CURVATURE_RADIUS, 1.0)
        return clip_ball(whitened, 1.0), weight * residual, squared * curvature

    def _largest(self) -> float:
        return max(1.0, self.link.curvature_weight * self.link.steepest)


def require_theta(theta: ArrayLike, side: int) -> Reals:
    """Return public coefficients, or refuse them."""
    found = np.array(theta, dtype=np.float64)
    if found.shape != (side,) or not np.all(np.abs(found) <= _LARGEST_COEFFICIENT):  # a NaN fails too
        raise InputError(f"theta: {side} numbers of magnitude at most {_LARGEST_COEFFICIENT:g} expected")
    return found


def require_few_bits(encoding: FixedPoint) -> None:
    """Refuse an encoding whose units are as small as the errors of floats."""
    if encoding.fractional_bits > MOST_FRACTIONAL_BITS:
        raise InputError(
            f"fractional_bits: {encoding.fractional_bits} given, at most {MOST_FRACTIONAL_BITS} expected of scores"
        )


def _symmetric(entries: Reals, side: int) -> Reals:
    """Return the symmetric matrix whose upper triangle is given, off-diagonal entries times sqrt(2)."""
    upper = np.zeros((side, side))
    first, second = np.triu_indices(side)
    upper[first, second] = entries / np.where(first == second, 1.0, math.sqrt(2))
    return np.asarray(upper + np.triu(upper, 1).T)


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
    squared_sensitivity = 17 / 4  # Theorem 3 of docs/mathematics.md, section 12
    curvature_weight = 0.5
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
        """Return the residual (m,) that a score is shortened for, at least the size of its own: that, unless told."""
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
    (docs/mathematics.md, section 12, Theorem 2).
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
    """A number t, whose mean is eta; residuals are clipped (Huber 1964).

    Parameters
    ----------
    limit : float
        Where residuals are clipped, on the normalised scale.
    """

    name = "identity"

    def __init__(self, limit: float):
        self.limit = self.reach = require_positive("limit", limit, 1e6)

    def parameters(self) -> dict[str, Any]:
        """Return the limit."""
        return {"limit": self.limit}

    def residual(self, target: Reals, eta: Reals) -> Reals:
        """Return t - eta, clipped."""
        return np.clip(target - eta, -self.limit, self.limit)

    def residual_and_curvature(self, target: Reals, eta: Reals) -> tuple[Reals, Reals]:
        """Return the clipped residual, in units of the limit, and ones."""
        return self.residual(target, eta) / self.limit, np.ones_like(eta)

    def expected_curvature(self, eta: Reals) -> Reals:
        """Return ones."""
        return np.ones_like(eta)


class Poisson(Link):
    """A count from 0 (t = -1) to `top` (t = 1), whose mean is m = exp(eta).

    The residual is clip(y - m, -c, c) less its expectation under the model, for counts capped at `top` (Cantoni and
    Ronchetti 2001): bounded, and without bias where the model holds.

    Parameters
    ----------
    top : int
        Public upper bound of the counts.
    limit : float
        c, at least 1.
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
        given = {} if self._slope is None else {"slope": self._slope}
        return {"top": self.top, "limit": self.limit, **given}

    def residual(self, target: Reals, eta: Reals) -> Reals:
        """Return y - m, clipped."""
        means = np.exp(np.clip(eta, math.log(_LEAST_MEAN), math.log(self.top)))
        return np.clip(self.top * (target + 1) / 2 - means, -self.limit, self.limit)

    def residual_and_curvature(self, target: Reals, eta: Reals) -> tuple[Reals, Reals]:
        """Return the centred, clipped residual and Cov(clip(y - m), y), in units of their bounds."""
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
        """At logarithms of means: E clip(Y - m) and Cov(clip(Y - m), Y), for Poisson counts Y capped at `top`."""
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
