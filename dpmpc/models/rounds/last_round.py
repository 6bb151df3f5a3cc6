"""The last rounds of a fit with a curved link: coefficients without shrinkage, and how far off they may be.

A last round releases, at public coefficients theta of the rows v (`Scores`: columns times public scales h), the score
s, its outer products J and its curvature H. There are two, and their equations H (theta* - theta) = s are averaged.
With U the eigenvectors of H whose eigenvalues stand out of the noise of H,

    theta + d,   d = U (U^T H U)^-1 U^T s,
    Cov = U (U^T H U)^-1 U^T (M + N) U (U^T H U)^-1 U^T  +  W A^2 W^T  +  r^2,

M the positive part of J - s s^T / n, N the noise of s and of H where what is looked for may be, W the other, weak
eigenvectors and A how long coefficients can be along these, r what the step leaves because the link is curved. No
residual is clipped and no row is weighted: what is estimated is maximum likelihood on all rows, and nothing is assumed
of the errors' shape and spread. What r and A add is a bound that is treated as a standard deviation; A is an assumption
of how long coefficients are.

Promised: everything is computed from releases. Every condition looks at curvature, lengths and noise, and none at the
sign of an estimate. Not promised: a short interval where the public bounds are loose, as the noise in proportion to
them is the price of holding for every law.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np

from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.linear.contributions.scores import Scores
from dpmpc.models.common.estimates import Estimate, why_too_few
from dpmpc.models.common.linear_algebra import contrast_variances
from dpmpc.models.common.releases import Releases
from dpmpc.models.rounds.models import RoundModel
from dpmpc.models.rounds.start import scales
from dpmpc.release.release import Release

# Deviations of its noise that a direction's curvature has, and half a norm of the noise, above which the iteration of
# `_estimate` ends. No interval is shown that rests on an assumption of how long coefficients are: no release can tell
# whether it is so. By less than 3.4 deviations luck would choose the fits in which noise looks like curvature.
CLEAR = 3.4
LONGEST_STEP = 1.5  # of a round before the last: deviation of the linear predictor
_ITERATIONS = 3
# What the sizes of the coefficients of (1, normalised features) are taken to add up to at most, where a direction is
# not seen: by so much predictions differ within the bounds. A probability of 2 to 98 %; a rate of 55.
_LARGEST = 4.0


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class LastRoundEstimate(Estimate):
    """A regression without shrinkage from last rounds.

    Attributes
    ----------
    errors : ndarray of float64, shape (p, p), or None
        The covariance of the coefficients, over sampling, noise and `hidden`; None where none has an interval.
    hidden : ndarray of float64, shape (p, p)
        The part of it that is a bound, of what weak directions and the curvature of the link may add.
    left : ndarray of float64, shape (p, p)
        The sum of the sizes of a contrast of its rows bounds what the link adds to that contrast.
    """

    errors: Reals | None
    hidden: Reals
    left: Reals

    @property
    def covariance(self) -> Reals | None:
        """The errors."""
        return self.errors

    def variances(self, contrasts: Reals) -> tuple[Reals, Reals]:
        """Return the variance of each of the contrasts (m, p), and the part of it that is a bound."""
        assert self.errors is not None
        return contrast_variances(contrasts, self.errors, self.hidden, self.left)

    def in_units(self, linear: Reals, shift: Reals | float) -> LastRoundEstimate:
        """Return the estimate of ``linear @ coefficients + shift``."""
        return dataclasses.replace(
            self,
            coefficients=linear @ self.coefficients + shift,
            errors=None if self.errors is None else linear @ self.errors @ linear.T,
            hidden=linear @ self.hidden @ linear.T,
            left=linear @ self.left,
            weak=self.weak @ linear.T,
        )


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
    clients: int

    @classmethod
    def of(cls, release: Release) -> _Round:
        """Read a release of scores."""
        scores = release.task.statistic
        if not isinstance(scores, Scores):
            raise InputError("release", f"of {scores.name}", "of scores")
        sums = scores.read(release.sketch[0], math.sqrt(float(release.noise_variance[0])))
        eigenvalues, vectors = np.linalg.eigh(sums.outer - np.outer(sums.score, sums.score) / release.clients)
        sampling = (vectors * np.maximum(eigenvalues, 0.0)) @ vectors.T
        return cls(
            scores.scales, scores.theta / scores.scales, sums.score, sums.curvature, sampling,
            sums.score_sd, sums.curvature_sd, release.clients,
        )  # fmt: skip

    def score_at(self, theta: Reals) -> Reals:
        """Return what the score is elsewhere, to first order."""
        return np.asarray(self.score - self.curvature @ (theta - self.theta))

    @property
    def level(self) -> float:
        """The variance of the noise in a score, as weights count it."""
        return self.score_sd**2

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
        return float(change @ self.curvature @ change) / 2


class _Step:
    """The step from theta to where an average of scores is 0, in directions whose curvature stands out of its noise.

    Every score counts by the inverse of its noise.
    """

    def __init__(self, parts: Sequence[_Round], theta: Reals):
        weights = np.array([1 / part.level for part in parts])
        self._parts = list(zip((weights / weights.sum()).tolist(), parts, strict=True))
        self.theta, self.curvature = theta, self._mean(lambda part: part.curvature)
        eigenvalues, vectors = np.linalg.eigh(self.curvature)
        variance = sum((weight * part.curvature_sd) ** 2 for weight, part in self._parts)
        norm = max(math.sqrt(2 * len(theta) * variance), 1e-12)  # of the noise, about
        deviation = norm / math.sqrt(2 * len(theta))
        seen = eigenvalues >= max(norm / 2, CLEAR * deviation)
        self.inverse = (vectors[:, seen] / eigenvalues[seen]) @ vectors[:, seen].T
        self.change = self.inverse @ self._mean(lambda part: part.score_at(theta))
        self.weak = vectors[:, ~seen]  # (p, k)
        self.clear = float(eigenvalues[-1]) / deviation
        self.left = sum(weight * part.left(theta + self.change) for weight, part in self._parts)
        self.clients = max(part.clients for part in parts)

    def _mean(self, of: Callable[[_Round], Reals]) -> Reals:
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


def last_rounds(
    model: RoundModel, releases: Releases, first: Release, coefficients: Reals, shares: tuple[float, ...]
) -> LastRoundEstimate:
    """Make the last rounds, one for each share, from public coefficients (p,) of (1, normalised features).

    `first` is the release of second moments.
    """
    gram, h = first.gram().matrix / first.clients, scales(first)
    theta = np.asarray(coefficients, dtype=np.float64)
    made: list[Release] = []
    for share in shares:
        if made:
            last = _Round.of(made[-1])
            step = _Step([last], last.theta)
            theta = h * (last.theta + step.signal(gram[:-1, :-1] * np.outer(h, h)))
        made.append(releases.make(share, model.last(h, theta, float(gram[0, -1]))))
    return read_last_rounds(made, first)


def read_last_rounds(made: Sequence[Release], first: Release) -> LastRoundEstimate:
    """Read the last rounds together.

    A curved link leaves more of an early round's score: where that is too much the last one is read alone.
    """
    rounds = [_Round.of(release) for release in made]
    last = rounds[-1]
    estimates = [_estimate(_Step(parts, last.theta), last) for parts in (rounds, [last])]
    spread = np.diag(first.gram().matrix)[:-1]
    return min(estimates, key=lambda one: math.inf if one.errors is None else float(one.deviations**2 @ spread))


def _estimate(step: _Step, last: _Round) -> LastRoundEstimate:
    """Return what a step finds, and how far off that may be."""
    h, inverse = last.scales, step.inverse
    found = step.theta + step.change
    # along a weak direction w coefficients b of (1, z), with a bounded sum of sizes, have a bounded length w.(b / h),
    # and are at most so much farther from where the step started
    lengths = _LARGEST * np.max(np.abs(step.weak.T / h).T, axis=0, initial=0.0)
    lengths = lengths + np.abs(step.weak.T @ step.theta)
    both = np.outer(h, h)
    left = step.left * inverse * h  # the rows of the box are h times corners of [-1, 1]^p
    hidden = len(h) * left @ left.T + (step.weak * lengths**2) @ step.weak.T
    # who stayed away from a sum does not depend on rows: the average varies no more than the sum of the most people
    sampling, known = last.sampling * (step.clients / last.clients), np.zeros_like(hidden)
    for _ in range(_ITERATIONS):
        known = inverse @ (sampling + step.noise(known + hidden)) @ inverse
    estimate = LastRoundEstimate(
        coefficients=found * h,
        errors=(known + hidden) * both,
        hidden=hidden * both,
        left=left * h[:, None],
        weak=step.weak.T * h,
    )
    why = _why_no_interval(step, estimate)
    return estimate if why is None else dataclasses.replace(estimate, errors=None, why=why)


def _why_no_interval(step: _Step, found: LastRoundEstimate) -> str | None:
    """Return why no coefficient has an interval; None where one has."""
    if (few := why_too_few(step.clients, len(found.coefficients))) is not None:
        return few
    if step.clear < CLEAR:
        return (
            f"the curvature that the last round released is {max(step.clear, 0.0):.2g} deviations of its noise "
            f"in its strongest direction, at least {CLEAR:g} expected"
        )
    if found.shown.any() or found.errors is None:
        return None
    variance, bound = found.variances(np.eye(len(found.hidden)))
    return (
        f"the last step and weak directions may leave {math.sqrt(float(np.min(bound / (variance - bound)))):.2g} "
        "standard errors of every coefficient, at most 1 expected"
    )
