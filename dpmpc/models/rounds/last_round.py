"""The last rounds of a fit: coefficients without shrinkage, how far off they may be, and what cannot be told apart.

A last round releases, at public coefficients theta of the rows v (`Scores`: columns times public scales h), the score
s, its outer products J and its curvature H. Where the link is curved there are two, and their equations
H (theta* - theta) = s are averaged; of a linear model the sum of second moments is such an equation, too. With U the
eigenvectors of H whose eigenvalues stand out of the noise of H,

    theta + d,   d = U (U^T H U)^-1 U^T s,
    Cov = U (U^T H U)^-1 U^T (M + N) U (U^T H U)^-1 U^T  +  W A^2 W^T  +  r^2,

M the positive part of J - s s^T / n, N the noise of s and of H where what is looked for may be, W the other, weak
eigenvectors and A how long coefficients can be along these, r what the step leaves where the link is curved
(docs/mathematics.md, section 12.4). No residual is clipped and no row is weighted: what is estimated is least squares,
or maximum likelihood, on all rows, and nothing is assumed of the errors' shape and spread. What r and A add is a bound
that is treated as a standard deviation; A is an assumption of how long coefficients are.

Promised: everything is computed from releases. Every condition looks at curvature, lengths and noise, and none at the
sign of an estimate. Not promised: a short interval where the public bounds are loose, as the noise in proportion to
them is the price of holding for every law.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.linear.contributions.scores import Scores
from dpmpc.models.common.linear_algebra import contrast_variances
from dpmpc.models.common.releases import Releases
from dpmpc.models.rounds.models import RoundModel
from dpmpc.models.rounds.start import scales
from dpmpc.release.release import Release

# Deviations of its noise that a direction's curvature has, and half a norm of the noise, above which the iteration of
# `_estimate` ends. No interval is shown that rests on an assumption of how long coefficients are: no release can tell
# whether it is so. By less than 3.4 deviations luck would choose the fits in which noise looks like curvature.
CLEAR = 3.4
FEWEST = 10  # people for each coefficient, below which outer products say too little of sampling
LONGEST_STEP = 1.5  # of a round before the last: deviation of the linear predictor
_ITERATIONS = 3


@dataclasses.dataclass(frozen=True, eq=False)
class Estimate:
    """A regression without shrinkage, on the normalised scale."""

    coefficients: Reals  # (p,): intercept and weights of the normalised features
    covariance: Reals | None  # (p, p): theirs, over sampling, noise and `hidden`; None where none has an interval
    curvature: Reals  # (p, p): of the last round, for those coefficients
    hidden: Reals  # (p, p): the part that is a bound, of what weak directions and the curvature of the link may add
    left: Reals  # (p, p): the sum of the sizes of a contrast of its rows bounds what the link adds to that contrast
    weak: Reals  # (k, p): along these, coefficients may move together without anything in the release to show it
    why: str | None = None  # no coefficient has an interval

    @property
    def shown(self) -> NDArray[np.bool_]:
        """Which coefficients have an interval."""
        return self.identified(np.eye(len(self.coefficients)))

    def identified(self, contrasts: ArrayLike) -> NDArray[np.bool_]:
        """Return, for each of the contrasts (m, p), whether its error is mostly sampling and noise."""
        rows = np.atleast_2d(np.asarray(contrasts, dtype=np.float64))
        if self.covariance is None:
            return np.zeros(len(rows), dtype=np.bool_)
        variance, bound = contrast_variances(rows, self.covariance, self.hidden, self.left)
        return np.asarray(2 * bound <= variance)

    @property
    def deviations(self) -> Reals:
        """The standard errors of all coefficients; infinite where there is no covariance."""
        side = len(self.coefficients)
        if self.covariance is None:
            return np.full(side, math.inf)
        return np.sqrt(contrast_variances(np.eye(side), self.covariance, self.hidden, self.left)[0])


@dataclasses.dataclass(frozen=True, eq=False)
class _Round:
    """A last round: H (theta* - theta) = s up to sampling and noise, in units of the scaled rows."""

    scales: Reals
    theta: Reals
    score: Reals
    curvature: Reals
    sampling: Reals  # covariance of the sampling error of the score
    score_sd: float
    curvature_sd: float
    curved: bool
    clients: int

    @classmethod
    def of(cls, release: Release) -> _Round:
        """Read a release of scores."""
        scores = release.task.statistic
        if not isinstance(scores, Scores):
            raise InputError(f"release: of {scores.name} given, of scores expected")
        sums = scores.read(release.sketch[0], math.sqrt(float(release.noise_variance[0])))
        eigenvalues, vectors = np.linalg.eigh(sums.outer - np.outer(sums.score, sums.score) / release.clients)
        sampling = (vectors * np.maximum(eigenvalues, 0.0)) @ vectors.T
        return cls(
            scores.scales, scores.theta / scores.scales, sums.score, sums.curvature, sampling,
            sums.score_sd, sums.curvature_sd, scores.link.curved, release.clients,
        )  # fmt: skip

    def score_at(self, theta: Reals) -> Reals:
        """Return what the score is elsewhere, to first order."""
        return np.asarray(self.score - self.curvature @ (theta - self.theta))

    @property
    def level(self) -> float:
        """The variance of the noise in a score, as weights count it."""
        return self.score_sd**2

    @property
    def rows_of_noise(self) -> Reals:
        """The sums of the variances in the rows of the noise of H, nearly."""
        return np.full(len(self.theta), self.curvature_sd**2 / 2 * len(self.theta))

    def noise(self, found: Reals, off: Reals) -> Reals:
        """Return the covariance of the noise, where what is looked for is around here, with these second moments."""
        missing, identity = off + np.outer(found - self.theta, found - self.theta), np.eye(len(found))
        curved = self.curvature_sd**2 / 2 * (np.trace(missing) * identity + missing)
        return np.asarray(self.score_sd**2 * identity + curved)

    def left(self, found: Reals) -> float:
        """Bound what a curved link leaves of the score at these coefficients, in units of the longest rows.

        It is half of the sum of v m'' (v.d)^2 with |m''| <= m': half of d^T H d times a mean of rows of the box.
        """
        change = found - self.theta
        return float(change @ self.curvature @ change) / 2 if self.curved else 0.0


@dataclasses.dataclass(frozen=True, eq=False)
class _Moments:
    """What second moments say of a linear model, as if they were a last round at every theta."""

    scales: Reals
    products: Reals  # with the target
    curvature: Reals
    deviation: float  # of the noise of a sum on the diagonal, for rows (1, z)
    level: float
    clients: int

    @classmethod
    def of(cls, first: Release, at: _Round) -> _Moments:
        """Read them in the units of a last round."""
        h, gram, deviation = at.scales, first.gram().matrix, math.sqrt(float(first.noise_variance[0]))
        coefficients = h * at.theta
        level = deviation**2 / 2 * (1 + float(coefficients @ coefficients)) * float(np.sum(h**4) / np.sum(h**2))
        return cls(h, h * gram[:-1, -1], gram[:-1, :-1] * np.outer(h, h), deviation, level, first.clients)

    def score_at(self, theta: Reals) -> Reals:
        """Return the score at these coefficients."""
        return np.asarray(self.products - self.curvature @ theta)

    @property
    def rows_of_noise(self) -> Reals:
        """The sums of the variances in the rows of the noise of H, nearly."""
        return np.asarray(self.deviation**2 / 2 * self.scales**2 * float(np.sum(self.scales**2)))

    def noise(self, found: Reals, off: Reals) -> Reals:
        """Return the covariance of the noise, where what is looked for is around here, with these second moments."""
        both = np.outer(self.scales, self.scales)
        squared = both * (off + np.outer(found, found))  # of the coefficients of (1, z)
        of_rows = (1 + float(np.trace(squared))) * np.eye(len(found)) + squared
        of_rows[0, 0] -= 2 * squared[0, 0]  # n is exact
        return np.asarray(self.deviation**2 / 2 * both * of_rows)

    def left(self, found: Reals) -> float:
        """Return 0: no mean is bent."""
        return 0.0


_Part: TypeAlias = _Round | _Moments


class _Step:
    """The step from theta to where an average of scores is 0, in directions whose curvature stands out of its noise.

    Every score counts by the inverse of its noise.
    """

    def __init__(self, parts: Sequence[_Part], theta: Reals, clear: float):
        weights = np.array([1 / part.level for part in parts])
        self._parts = list(zip((weights / weights.sum()).tolist(), parts, strict=True))
        self.theta, self.curvature = theta, self._mean(lambda part: part.curvature)
        eigenvalues, vectors = np.linalg.eigh(self.curvature)
        rows = np.sum([weight**2 * part.rows_of_noise for weight, part in self._parts], axis=0)
        norm = max(2 * math.sqrt(float(np.max(rows))), 1e-12)  # of the noise, about
        deviation = norm / math.sqrt(2 * len(theta))
        seen = eigenvalues >= max(norm / 2, clear * deviation)
        self.inverse = (vectors[:, seen] / eigenvalues[seen]) @ vectors[:, seen].T
        self.change = self.inverse @ self._mean(lambda part: part.score_at(theta))
        self.weak = vectors[:, ~seen]  # (p, k)
        self.clear = float(eigenvalues[-1]) / deviation
        self.left = sum(weight * part.left(theta + self.change) for weight, part in self._parts)
        self.clients = max(part.clients for part in parts)

    def _mean(self, of: Callable[[_Part], Reals]) -> Reals:
        return np.asarray(np.sum([weight * of(part) for weight, part in self._parts], axis=0))

    def noise(self, off: Reals) -> Reals:
        """Return the covariance of the noise of the score after the step, where that may be off by so much."""
        found = self.theta + self.change
        return np.asarray(np.sum([weight**2 * part.noise(found, off) for weight, part in self._parts], axis=0))

    def signal(self, rows: Reals) -> Reals:
        """Return the step as far as it is more than noise, and not too long for rows of these second moments."""
        squared = float(self.change @ self.curvature @ self.change)
        noise = float(np.trace(self.inverse @ self.noise(np.zeros_like(rows))))
        longest = LONGEST_STEP / math.sqrt(max(float(self.change @ rows @ self.change), LONGEST_STEP**2))
        return np.asarray(self.change * min(max(0.0, 1 - noise / max(squared, 1e-300)), longest))


def last_rounds(model: RoundModel, releases: Releases, coefficients: Reals, shares: tuple[float, ...]) -> Estimate:
    """Make the last rounds, one for each share, from public coefficients (p,) of (1, normalised features)."""
    first = releases.made[0]
    gram, h = first.gram().matrix / first.clients, scales(first)
    theta = np.asarray(coefficients, dtype=np.float64)
    if not model.curved:
        theta = _nearer_the_mean(model, releases, theta, h, shares[-1])
    made: list[Release] = []
    for share in shares:
        if made:
            last = _Round.of(made[-1])
            step = _Step([last], last.theta, CLEAR)
            theta = h * (last.theta + step.signal(gram[:-1, :-1] * np.outer(h, h)))
        made.append(releases.make(share, Scores(h, theta, model.unclipped(theta, float(gram[0, -1])))))
    return read_last_rounds(model, made, first)


def read_last_rounds(model: RoundModel, made: Sequence[Release], first: Release) -> Estimate:
    """Read the last rounds together, and of a linear model the sum of second moments with them.

    A curved link leaves more of an early round's score: where that is too much the last one is read alone.
    """
    rounds = [_Round.of(release) for release in made]
    last = rounds[-1]
    if not model.curved:
        return _estimate(model, _Step([*rounds, _Moments.of(first, last)], last.theta, CLEAR), last)
    found = [_estimate(model, _Step(parts, last.theta, CLEAR), last) for parts in (rounds, [last])]
    spread = np.diag(first.gram().matrix)[:-1]
    return min(found, key=lambda one: math.inf if one.covariance is None else float(one.deviations**2 @ spread))


def _estimate(model: RoundModel, step: _Step, last: _Round) -> Estimate:
    """Say what a step finds, and how far off that may be."""
    h, inverse = last.scales, step.inverse
    found = step.theta + step.change
    # along a weak direction w coefficients b of (1, z), with a bounded sum of sizes, have a bounded length w.(b / h),
    # and are at most so much farther from where the step started
    lengths = model.largest * np.max(np.abs(step.weak.T / h).T, axis=0, initial=0.0)
    lengths = lengths + np.abs(step.weak.T @ step.theta)
    both = np.outer(h, h)
    left = step.left * inverse * h  # the rows of the box are h times corners of [-1, 1]^p
    hidden = len(h) * left @ left.T + (step.weak * lengths**2) @ step.weak.T
    # who stayed away from a sum does not depend on rows: the average varies no more than the sum of the most people
    sampling, known = last.sampling * (step.clients / last.clients), np.zeros_like(hidden)
    for _ in range(_ITERATIONS):
        known = inverse @ (sampling + step.noise(known + hidden)) @ inverse
    estimate = Estimate(
        coefficients=found * h,
        covariance=(known + hidden) * both,
        curvature=step.curvature / both,
        hidden=hidden * both,
        left=left * h[:, None],
        weak=step.weak.T * h,
    )
    why = _why_no_interval(model, step, estimate)
    return estimate if why is None else dataclasses.replace(estimate, covariance=None, why=why)


def _nearer_the_mean(model: RoundModel, releases: Releases, theta: Reals, wide: Reals, share: float) -> Reals:
    """Return coefficients of a linear model, shrunk as far as the smaller bound of a residual pays for the larger ones.

    Every start is as good but for the length of the interval: with a part a of the slopes it rests on about
    (noise in units of the bound)^2 (bound at a)^2 + (1 - a)^2 (n spread^2 |v|^2 / p + noise of the curvature).
    """
    first = releases.made[0]
    gram = first.gram().matrix[:-1, :-1] / first.clients
    slopes = np.append(0.0, theta[1:])
    near, far = (model.unclipped(each, 0.0) for each in (theta - slopes, theta))
    radius = float(wide @ wide)
    noise = near.squared_sensitivity * radius / releases.mu_of(share) ** 2
    wider, spread = far.reach - near.reach, max(float(slopes @ gram @ slopes), 0.0)
    cost = releases.clients * spread * float(wide**2 @ np.diag(gram)) / len(theta)
    cost += radius * noise * float(np.sum((slopes / wide) ** 2)) / 2
    part = (cost - noise * near.reach * wider) / max(cost + noise * wider**2, 1e-300)
    return np.asarray(theta - slopes + min(max(part, 0.0), 1.0) * slopes)


def _why_no_interval(model: RoundModel, step: _Step, found: Estimate) -> str | None:
    """Say why no coefficient has an interval; None where one has."""
    if step.clients < (least := FEWEST * len(found.coefficients)):
        return f"{step.clients} people took part, at least {least} expected for {len(found.coefficients)} coefficients"
    if step.clear < CLEAR:
        return (
            f"the curvature that the last round released is {max(step.clear, 0.0):.2g} deviations of its noise "
            f"in its strongest direction, at least {CLEAR:g} expected"
        )
    if found.shown.any() or found.covariance is None:
        return None
    variance, bound = contrast_variances(np.eye(len(found.hidden)), found.covariance, found.hidden, found.left)
    return (
        f"the last step and weak directions may leave {math.sqrt(float(np.min(bound / (variance - bound)))):.2g} "
        "standard errors of every coefficient, at most 1 expected"
    )
