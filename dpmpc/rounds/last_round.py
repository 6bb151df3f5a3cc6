"""The last rounds of a fit: coefficients without shrinkage, how far off they may be, and what cannot be told apart.

A last round releases, at public coefficients theta of the whitened rows v, the score s, its outer products J and its
curvature H (`Scores`). With U the eigenvectors of H whose eigenvalues clearly exceed the noise of H,

    theta + d,   d = U (U^T H U)^-1 U^T s,
    Cov = U (U^T H U)^-1 U^T (M + sd^2 I + N + r^2 I) U (U^T H U)^-1 U^T  +  W A^2 W^T,

M the positive part of J - s s^T / n, N = sd_H^2 (|d|^2 I + d d^T) / 2 the noise of H, r what the step leaves where the
link is curved, W the other, weak eigenvectors and A how long coefficients can be along these (docs/mathematics.md,
section 12.4). No residual is clipped, so that the score has no bias, whatever the law of the errors is: nothing is
assumed of their shape and spread. What r and A add is a bound that is treated as a standard deviation; a contrast has
an interval where that is the smaller part.

Promised: everything is computed from releases. Every condition looks at curvature, lengths and noise, and none at the
sign of an estimate. Not promised: a short interval where the public bounds of the target are loose, as the noise in
proportion to them is the price of holding for every law.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmpc.contributions import Scores, ScoreSums
from dpmpc.contributions.scores import CURVATURE_RADIUS
from dpmpc.errors import InputError
from dpmpc.release import Release
from dpmpc.rounds.models import RoundModel
from dpmpc.rounds.releases import Releases
from dpmpc.rounds.start import Whitened

Reals = NDArray[np.float64]

CLEAR = 4.0  # norms of its noise that a direction's curvature has: it is then known to a quarter
LONGEST_STEP = 1.5  # of a round before the last
_ROUNDING = 1e-9  # relative; what floats may add to a residual's bound


@dataclasses.dataclass(frozen=True, eq=False)
class Estimate:
    """A regression without shrinkage, on the normalised scale."""

    coefficients: Reals  # (p,): intercept and weights of the normalised features
    covariance: Reals | None  # (p, p): theirs, over sampling, noise and `hidden`; None where none has an interval
    curvature: Reals  # (p, p): of the last round, for those coefficients
    hidden: Reals  # (p, p): the part that is a bound, of what weak directions and the curvature of the link may add
    weak: Reals  # (k, p): along these, coefficients may move together without anything in the release to show it
    why: str | None = None  # no coefficient has an interval

    def identified(self, contrasts: ArrayLike) -> NDArray[np.bool_]:
        """Return, for each of the contrasts (m, p), whether its error is mostly sampling and noise."""
        rows = np.atleast_2d(np.asarray(contrasts, dtype=np.float64))
        if self.covariance is None:
            return np.zeros(len(rows), dtype=np.bool_)
        return identified(rows, self.covariance, self.hidden)


def identified(contrasts: Reals, covariance: Reals, hidden: Reals) -> NDArray[np.bool_]:
    """Return, for each of the contrasts (m, p), whether what is a bound is at most half of its variance."""
    variance, bound = (np.einsum("mi,ij,mj->m", contrasts, each, contrasts) for each in (covariance, hidden))
    return np.asarray(2 * bound <= variance)


@dataclasses.dataclass(frozen=True, eq=False)
class _LastStep:
    """One step: what it adds to theta, and the inverse curvature of the directions that it is made in."""

    change: Reals
    inverse: Reals
    weak: Reals  # (p, k)
    clear: float  # the least eigenvalue of the curvature over the norm of its noise
    sums: ScoreSums


def last_rounds(
    model: RoundModel, releases: Releases, whitened: Whitened, coefficients: Reals, shares: tuple[float, ...]
) -> Estimate:
    """Make the last rounds, one for each share, from public coefficients (p,) of (1, normalised features)."""
    matrix = whitened.matrix
    radius = max(1.0, min(math.sqrt(len(matrix)), whitened.longest()))
    theta = np.asarray(np.linalg.solve(matrix.T, coefficients), dtype=np.float64)
    if not model.curved:
        theta = _nearer_the_mean(model, releases, whitened, theta, radius, shares[-1])
    for place, share in enumerate(shares, 1):
        release = releases.make(share, Scores(matrix, theta, radius, model.unclipped(matrix.T @ theta, whitened.mean)))
        if place < len(shares):
            scores = _scores(release)
            step = _step(release, scores, CLEAR * math.sqrt(share / shares[-1]))
            length = float(np.linalg.norm(step.change))
            theta = scores.theta + step.change * min(1.0, LONGEST_STEP / max(length, LONGEST_STEP))
    return read_last_round(model, release)


def read_last_round(model: RoundModel, release: Release, clear: float = CLEAR) -> Estimate:
    """Read the release of a last round, in directions whose curvature is at least so many norms of its noise."""
    scores = _scores(release)
    step = _step(release, scores, clear)
    sums, change, inverse, back = step.sums, step.change, step.inverse, scores.matrix.T
    # along a weak direction w the coefficients theta = T^-T b have the length w.theta = (T^-1 w).b, bounded by |b|_1
    lengths = model.largest * np.max(np.abs(np.linalg.solve(scores.matrix, step.weak)), axis=0, initial=0.0)
    identity, squared = np.eye(len(change)), float(change @ change + lengths @ lengths)
    eigenvalues, vectors = np.linalg.eigh(sums.outer - np.outer(sums.score, sums.score) / release.clients)
    sampling = (vectors * np.maximum(eigenvalues, 0.0)) @ vectors.T
    curvature_noise = sums.curvature_sd**2 / 2 * (squared * identity + np.outer(change, change))
    left = _left(model, scores, step)
    hidden = left**2 * inverse @ inverse + (step.weak * lengths**2) @ step.weak.T
    known = inverse @ (sampling + sums.score_sd**2 * identity + curvature_noise) @ inverse
    covariance, hidden = (back @ each @ back.T for each in (known + hidden, hidden))
    coefficients = back @ (scores.theta + change)
    why = _why_no_interval(model, scores, step, covariance, hidden)
    return Estimate(
        coefficients=coefficients,
        covariance=covariance if why is None else None,
        curvature=np.linalg.inv(back).T @ sums.curvature @ np.linalg.inv(back),
        hidden=hidden,
        weak=(back @ step.weak).T,
        why=why,
    )


def _scores(release: Release) -> Scores:
    """Return what a release of a last round is of; from files, as it was on the machine that asked for it."""
    scores = release.task.statistic
    if not isinstance(scores, Scores):
        raise InputError(f"release: of {scores.name} given, of scores expected")
    return scores


def _nearer_the_mean(
    model: RoundModel, releases: Releases, whitened: Whitened, theta: Reals, radius: float, share: float
) -> Reals:
    """Return coefficients of a linear model, shrunk as far as the smaller bound of a residual pays for the larger ones.

    Every start is as good but for the length of the interval: with a part a of the slopes it rests on about
    (noise in units of the bound)^2 (bound at a)^2 + (1 - a)^2 |slopes|^2 (n + noise of the curvature) in a direction.
    """
    mean = np.append(theta[0], np.zeros(len(theta) - 1))
    near, far = (model.unclipped(whitened.matrix.T @ each, whitened.mean) for each in (mean, theta))
    noise = near.squared_sensitivity * (radius / releases.mu_of(share)) ** 2
    wider, squared = far.reach - near.reach, float(theta[1:] @ theta[1:])
    cost = squared * (releases.clients + 8 * radius**2 * noise)
    part = (cost - noise * near.reach * wider) / max(cost + noise * wider**2, 1e-300)
    return np.append(theta[0], min(max(part, 0.0), 1.0) * theta[1:])


def _step(release: Release, scores: Scores, clear: float) -> _LastStep:
    """Return the step to a score of 0, in directions whose curvature is at least so many norms of its noise."""
    sums = scores.read(release.sketch[0], math.sqrt(float(release.noise_variance[0])))
    eigenvalues, vectors = np.linalg.eigh(sums.curvature)
    noise = max(_norm_of_noise(sums.curvature_sd, len(eigenvalues)), 1e-12)
    seen = eigenvalues >= clear * noise
    inverse = (vectors[:, seen] / eigenvalues[seen]) @ vectors[:, seen].T
    return _LastStep(inverse @ sums.score, inverse, vectors[:, ~seen], float(eigenvalues[-1]) / noise, sums)


def _left(model: RoundModel, scores: Scores, step: _LastStep) -> float:
    """Bound what a step d leaves of the score, in any direction, where the link is curved.

    It is half of the sum of w v m'' (v.d)^2, with |m''| <= m' and rows up to kappa R: kappa R d^T H d / 2.
    """
    if not model.curved:
        return 0.0
    return CURVATURE_RADIUS * scores.ball / 2 * float(step.change @ step.sums.curvature @ step.change)


def _norm_of_noise(deviation: float, side: int) -> float:
    """Return about the norm of a symmetric matrix of variance v on the diagonal, v/2 off it: sqrt(v/2) 2 sqrt(p)."""
    return deviation * math.sqrt(2 * side)


def _why_no_interval(
    model: RoundModel, scores: Scores, step: _LastStep, covariance: Reals, hidden: Reals
) -> str | None:
    """Say why no coefficient has an interval; None where one has."""
    needed = model.unclipped(scores.matrix.T @ scores.theta, 1.0).reach
    if scores.link.reach < needed * (1 - _ROUNDING):
        return (
            f"residuals were clipped at {scores.link.reach:.3g}, at least {needed:.3g} expected: what is clipped off "
            "moves coefficients by more than standard errors tell, where errors are skewed and uneven"
        )
    if step.clear < CLEAR:
        return (
            f"the curvature that the last round released is {max(step.clear, 0.0):.2g} times its noise in its "
            f"strongest direction, at least {CLEAR:g} expected"
        )
    if identified(np.eye(len(covariance)), covariance, hidden).any():
        return None
    least = np.min(np.diag(hidden) / (np.diag(covariance) - np.diag(hidden)))
    return (
        f"the last step and weak directions may leave {math.sqrt(least):.2g} standard errors of every coefficient, at "
        "most 1 expected"
    )
