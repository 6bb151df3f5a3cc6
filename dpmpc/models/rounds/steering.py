"""What a steering round sends, and what all of them together show of the coefficients.

A steering round releases the mean s of scores that are clipped as a whole
(`dpmpc.linear.contributions.clipped_scores`), at the coefficients theta that the rounds before have led to. In
coordinates in which the first sum's noisy Gram matrix is near the identity, s = H (b* - b) + noise for the coefficients
b* that are looked for and a curvature H that the first sum shows: every round is a linear observation of the same b*,
and counts by its precision. What the curvature may be wrong by counts as noise, so that early, long steps weigh little.
Of a linear model the first sum is a score at every theta, of all residuals and unclipped: it is read again after each
round, and states by how much clipping moves the others. Coefficients are the posterior mean under a normal
prior, whose scale is averaged over by likelihood: where nothing is to be learned they tend to the mean of the target.

H is kappa m' A: A is 1 along directions that the first sum shows and 1/4 at least, kappa what the clip leaves (1 - 2^-k
at k medians of |g|, 3/4 for logistic models), m' the link's slope at the released mean. A round has noise of variance
v, and what H may be wrong by adds (1/4)^2 max(s^2/2 + mean(s^2)/2 - v, 0). Clips grow with n and the budget, until
noise is a quarter of the deviation of sampling, so that what they take off goes to 0. Scores of the first sum and of
the rounds may disagree by a bias; the likeliest of 0 and twelve sizes is taken, and 0 unless the logarithm of the
likelihood rises by more than 2. The constants were chosen on seven data sets; no interval rests on them.

Promised: everything is read from releases. `noise_part` is what noise hides of the effects; clipping and a wrong
curvature hide more that no release shows, so that it states when little can be learned, and never that a fit is good.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from dpmpc.base.arrays import Reals
from dpmpc.linear.contributions.clipped_scores import ClippedScores
from dpmpc.models.rounds.models import Response
from dpmpc.release.release import GramSource, Release

_NORMAL = NormalDist()
_MEDIAN = _NORMAL.inv_cdf(0.75)  # of |N(0, 1)|
_RIDGE = 0.3  # norms of the first sum's noise that are added to the eigenvalues of its Gram matrix
_LEAST_CURVATURE = 0.25  # of a direction in which they were added
_MODEL_ERROR = 0.25  # part of a step that the curvature may be wrong by
_LARGEST_CLIP = 6.0  # in units of the median gradient, where its noise is not small beside sampling
_CLIP_GROWS = 0.15  # how fast the clip grows where noise is small
_FIRST_CLIP = 0.3  # deviation of residuals that the first clip is made for
_LEAST_CLIP = 1e-3
_MOST_NOISE = 0.5  # part of what the features may explain that noise may hide in what is handed out
_SCALES = np.geomspace(1e-4, 1.0, 9)  # of the prior
_QUIET = 0.25  # of the deviation of sampling: noise that a longer clip may bring
_BIASES = np.append(0.0, np.geomspace(0.005, 1.0, 12))  # of clipped scores, in deviations of a residual
EVIDENCE = 2.0  # by which the logarithm of a likelihood has to rise before a disagreement counts as one


class Posterior(NamedTuple):
    """Coefficients after all observations, averaged over the scales of the prior."""

    mean: Reals  # (p,)
    variance: Reals  # of each
    weights: Reals  # of the scales, from the least to the largest


def posterior(weighted: Reals, precision: Reals, prior: Reals, intercept: Reals) -> Posterior:
    """Return what observations show under normal priors of covariance g diag(prior) + intercept intercept^T.

    Given are the sums of the observations times their precisions, and of the precisions.
    """
    error = 1 / np.maximum(precision, 1e-12)
    observed = weighted * error
    means, variances, logs = [], [], []
    for scale in _SCALES:
        total = scale * prior + error
        across = intercept / total
        one = 1 + float(intercept @ across)
        along = float(across @ observed) / one
        means.append(observed - error * (observed / total - across * along))
        variances.append(error - error**2 * (1 / total - across**2 / one))
        squared = float(observed @ (observed / total)) - one * along**2
        logs.append(-0.5 * (squared + float(np.log(total).sum()) + math.log(one)))
    weights = np.exp(np.array(logs) - max(logs))
    weights /= weights.sum()
    mean = weights @ np.array(means)
    between = weights @ (np.array(means) - mean) ** 2
    return Posterior(mean, weights @ np.array(variances) + between, weights)


def likeliest(apart: Reals, variance: Reals, unit: Reals) -> Reals:
    """Return the variance (p,) of a difference beyond the known one that is likeliest: squares of `_BIASES`, in units.

    It is 0 unless the logarithm of the likelihood rises by more than `EVIDENCE`.
    """
    total = np.outer(_BIASES**2, unit) + variance
    fits = -0.5 * (apart**2 / total + np.log(total)).sum(axis=1)
    best = int(np.argmax(fits)) if float(fits.max() - fits[0]) > EVIDENCE else 0
    return np.asarray(_BIASES[best] ** 2 * unit)


def clip_multiple(clients: int, side: int, mu: float) -> float:
    """Return the clip of all rounds of this mu together in units of the median gradient: a public number.

    It is as long as a quarter of the sampling error pays for, where that is longer: clipping ends as n or mu grow.
    """
    short = min(_LARGEST_CLIP, max(1.0, _CLIP_GROWS * clients * mu / (2 * math.sqrt(2) * side)))
    return max(short, _QUIET * mu * math.sqrt(clients / side) / (2 * _MEDIAN))


def aim(multiple: float) -> float:
    """Return the mean of min(1, |N| / (multiple median |N|)): the mean length that the clip is steered to."""
    end = multiple * _MEDIAN
    return 2 * (_NORMAL.pdf(0) - _NORMAL.pdf(end)) / end + 2 * (1 - _NORMAL.cdf(end))


class Steering:
    """The steering rounds of one fit: what the next one requires, and what they have shown so far.

    Parameters
    ----------
    first : GramSource
        The release of second moments, the target last.
    response : Response
        How the target depends on the linear predictor, as the first release shows it.
    mu : float
        What the steering rounds cost together, as the parameter of a Gaussian mechanism.
    """

    def __init__(self, first: GramSource, response: Response, mu: float):
        clients, side = first.clients, len(first.columns)
        noise = math.sqrt(float(first.noise_variance[0]))
        gram = first.gram().matrix
        eigenvalues, self._vectors = np.linalg.eigh(gram[:side, :side])
        seen = np.maximum(eigenvalues, 0.0)
        raised = seen + _RIDGE * noise * math.sqrt(side)
        self._scales = np.sqrt(clients / raised)  # b = coefficients of (1, z), in the eigenvectors, over these
        self._curvature = np.maximum(seen / raised, _LEAST_CURVATURE)
        self._rank = max(1.0, float((seen / raised).sum()))
        self._prior = np.sqrt(raised) / float(self._curvature @ np.sqrt(raised)) * response.spread**2
        self._level = self._vectors[0] / self._scales  # the intercept 1
        mean = gram[0, 1:side] / clients
        spread, axes = np.linalg.eigh(gram[1:side, 1:side] / clients - np.outer(mean, mean))
        self._root = axes * np.sqrt(np.maximum(spread, 0.0))  # of the features' covariance
        self._response = response
        self._multiple = clip_multiple(clients, side, mu)
        self._precision, self._weighted = np.zeros(side), np.zeros(side)
        self._clips: list[float] = []
        root_rank = math.sqrt(self._rank)
        if response.clip is None:
            self._kept = 1 - 0.5**self._multiple
            self._clip = _FIRST_CLIP * self._multiple * root_rank * math.sqrt(response.bend)
        else:
            short = response.clip * root_rank
            self._kept, self._clip = response.kept, max(short, _QUIET * mu * math.sqrt(clients * response.bend) / 2)
        self._largest = self._multiple * math.sqrt(side) * response.largest
        self._gram, self._noise = gram[:side] / clients, noise / clients
        self._free = np.zeros(side), np.zeros(side)  # precision, and that times coefficients, of what nobody clipped
        if response.level is None:
            self._look_back(np.zeros(side))
        else:
            self._posterior = Posterior(response.level * self._level, self._prior, np.zeros(len(_SCALES)))

    def contribution(self) -> ClippedScores:
        """Return what clients send in the next round."""
        root = (self._vectors * self._scales) @ self._vectors.T
        theta, clip = self.coefficients, self._clip
        if self._response.largest == 1:  # no score of a row of the box is longer
            residual = 1 + float(np.abs(theta).sum()) if self._response.level is None else 1.0
            clip = min(clip, float(np.linalg.norm(np.abs(root).sum(axis=1))) * residual)
        return ClippedScores((root + root.T) / 2, theta, clip, self._response.link)

    def observe(self, release: Release) -> None:
        """Take in a round."""
        scores = release.task.statistic
        assert isinstance(scores, ClippedScores)
        deviation = math.sqrt(float(release.noise_variance[0]))
        sums = scores.read(release.sketch[0], deviation, release.clients)
        b = self._vectors.T @ scores.theta / self._scales  # of files: as it was on the machine that asked for it
        noise = np.full(len(b), sums.score_sd**2)
        self._clips.append(scores.clip)
        curvature = self._kept * self._response.bend * self._curvature
        precision, weighted = self._observed(b, self._vectors.T @ sums.score, noise, curvature)
        self._precision, self._weighted = self._precision + precision, self._weighted + weighted
        self._combine()
        if self._response.level is None:
            self._look_back(self.coefficients)
        if self._response.clip is None:
            longer = min(max(sums.length / aim(self._multiple), 0.5), 2.0) ** (1 / (1 + 10 * sums.length_sd))
            self._clip = min(max(scores.clip * longer, _LEAST_CLIP), self._largest)

    @staticmethod
    def _observed(b: Reals, score: Reals, noise: Reals, curvature: Reals) -> tuple[Reals, Reals]:
        """Return the precision that a score at b has about the coefficients, and that times what it states of them."""
        wrong = np.maximum((score**2 + np.mean(score**2)) / 2 - noise, 0.0)
        precision = curvature / (noise + _MODEL_ERROR**2 * wrong)
        return precision * curvature, precision * (score + curvature * b)

    def _look_back(self, theta: Reals) -> None:
        """Read the first sum's own score at these coefficients: it has more noise, and nothing in it is clipped."""
        side = len(theta)
        score = self._scales * (self._vectors.T @ (self._gram[:, side] - self._gram[:, :side] @ theta))
        noise = self._scales**2 * self._noise**2 * (1 + float(theta @ theta)) / 2
        self._free = self._observed(self._vectors.T @ theta / self._scales, score, noise, self._curvature)
        self._combine()

    def _combine(self) -> None:
        """Average what is clipped and what is not, with the bias of the former that makes them agree, by likelihood."""
        (free, told), kept = self._free, np.ones_like(self._precision)
        if free.any() and self._precision.any():
            apart = told / free - self._weighted / self._precision
            unit = self.residual_scale**2 / self._curvature
            kept = 1 / (1 + self._precision * likeliest(apart, 1 / free + 1 / self._precision, unit))
        self._posterior = posterior(
            kept * self._weighted + told,
            kept * self._precision + free,
            self._prior,
            self._response.intercept_spread * self._level,
        )

    @property
    def coefficients(self) -> Reals:
        """Intercept and weights (p,) of the normalised features."""
        return np.asarray(self._vectors @ (self._scales * self._posterior.mean))

    @property
    def residual_scale(self) -> float:
        """The deviation of residuals that the clips of the later half of the rounds stand for; NaN before any."""
        if not self._clips:
            return math.nan
        later = self._clips[len(self._clips) // 2 :]
        return float(np.median(later)) / (self._multiple * _MEDIAN * math.sqrt(self._rank))

    def why_nothing(self) -> str | None:
        """Return why nothing can be learned; None where something may be."""
        if self.noise_part <= _MOST_NOISE:
            return None
        return (
            f"noise hides about {self.noise_part:.0%} of what the features may explain, at most {_MOST_NOISE:.0%} "
            "expected"
        )

    @property
    def noise_part(self) -> float:
        """The part of what the features may explain that noise hides: from 0 to 1, where only noise was read.

        Predictions vary about their mean by what was found of it, and err by what was not. Both are read from the
        posterior, where the target's own variance, as the first sum shows it, may be mostly noise.
        """
        predicted = self.coefficients[1:] @ self._root
        hidden = float(self._curvature @ self._posterior.variance)
        return hidden / (hidden + float(predicted @ predicted))
