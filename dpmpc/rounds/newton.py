"""Newton's method on noisy sums, and how far off its result may be.

A round releases, at public coefficients theta, the score s, its outer products J and its curvature H. The step is
H^-1 s, with eigenvalues of H raised to the norm of its noise and its length cut. The last round's sums also give

    Cov(theta) = H^-1 (J - s s^T / n + sd^2 I + N) H^-1,     N = sd_H^2 (|d|^2 I + d d^T) / 2 for the last step d,

sampling and noise together; logistic models need not hold, counts have to follow a Poisson law, by which their
clipped residuals are centred (docs/mathematics.md, section 12.4).

Promised: everything is computed from releases. Where noise decides most of a fit there are no coefficients and the
reason is given; predictions from them might have beaten the mean all the same. There are no errors, and the reason is
given, unless the released curvature clearly exceeds its noise in every direction, what one more step would change is
small, and counts do not clearly vary more than a Poisson law allows; linear models have none at all.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpmpc.contributions import Link, Scores, ScoreSums
from dpmpc.errors import InputError
from dpmpc.privacy import Guarantee
from dpmpc.release import GramSource, Release
from dpmpc.rounds.models import RoundModel
from dpmpc.rounds.releases import Releases
from dpmpc.rounds.start import Whitened, gaussian_curvature

Reals = NDArray[np.float64]

AUTO = "auto"
LONGEST_STEP = 1.5  # in units in which 1 is the effect of a standard deviation of the linear predictor
MOST_WORDS = 8192  # that a client sends in a round
HOPELESS = 0.5  # noise that alone moves the linear predictor by more than so many units leaves nothing to learn
_MODEL_ERROR = 0.15  # relative error of the curvature of Gaussian features
_LEFT_BY_NEWTON = 0.5  # a step of length L leaves about this times L^2
_CLEAR = 4.0  # intervals need a released curvature of so many norms of its noise in every direction
_MOST_LEFT = 0.25  # and a step that leaves at most so many standard errors of every coefficient
_WORTH_A_ROUND = 0.3  # part of the expected error that a step may leave before one more round is made
_REST_OF_AUTO = (0.2, 0.4)  # shares that take the place of the last one then


@dataclasses.dataclass(frozen=True, eq=False)
class RoundsFit:
    """A regression of the last column on the others, on the normalised scale.

    Attributes
    ----------
    coefficients : ndarray of float64, shape (p,)
        Intercept and weights of the normalised features; NaN where nothing can be learned.
    covariance : ndarray of float64, shape (p, p), or None
        Theirs, over sampling and noise; None where it is not known.
    curvature : ndarray of float64, shape (p, p), or None
        Of the last round, for those coefficients; None where nothing can be learned.
    verdict : str or None
        Why nothing can be learned.
    mean : float
        The released mean of the target, on the normalised scale.
    rounds : int
        Rounds of scores.
    guarantee : Guarantee
        Of all releases together.
    releases : tuple of Release
        The start and the rounds.
    start_error : float or None
        By how much noise alone is expected to move the linear predictor of a typical row, where the start is the fit.
    no_interval : str or None
        Why there is no covariance, where there are coefficients of rounds.

    Where there are no rounds the coefficients are those of the start, which are biased: see `dpmpc.rounds.start`.
    """

    coefficients: Reals
    covariance: Reals | None
    curvature: Reals | None
    verdict: str | None
    mean: float
    rounds: int
    guarantee: Guarantee
    releases: tuple[Release, ...]
    start_error: float | None = None
    no_interval: str | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class _Step:
    """One step: what it adds to theta, the inverse curvature, and what was forced on it."""

    change: Reals
    inverse: Reals
    curvature_sd: float
    raised: int  # number of eigenvalues of the curvature that were raised
    cut: bool
    sums: ScoreSums

    def noise_error(self, factor: float = 1.0) -> float:
        """Return sqrt(tr H^-2) sd: by how much noise alone moves the linear predictor."""
        return float(np.linalg.norm(self.inverse)) * self.sums.score_sd * factor


def fit_in_rounds(model: RoundModel, releases: Releases, rounds: int | str = AUTO) -> RoundsFit:
    """Fit a regression of the last column on the others.

    Parameters
    ----------
    model : RoundModel
        Which regression.
    releases : Releases
        Within whose budget, and who answers.
    rounds : int or "auto"
        Rounds of scores after the start; "auto" adds one where the first step was long.
    """
    first, *shares = model.shares_of(model.usual if rounds == AUTO else rounds)
    if shares:
        require_words(releases.columns)
    start = releases.make(first)
    if not shares:
        return dataclasses.replace(fit_start(model, start), guarantee=releases.guarantee)
    whitened = Whitened.of(start)
    if refused := model.refuse(whitened):
        return _nothing(whitened, releases.made, releases.guarantee, refused)
    theta, link = model.begin(whitened)
    side, unit = len(theta), model.unit(whitened)
    factor = model.radius_factor(whitened, theta, link, releases.mu_of(shares[-1]))
    radius = max(1.0, min(factor * math.sqrt(side), whitened.longest()))
    adaptive = rounds == AUTO and len(shares) == 2
    step, matrix = None, whitened.matrix
    while shares:
        share = shares.pop(0)
        release = releases.make(share, Scores(whitened.matrix, theta, radius, link))
        scores = release.task.statistic  # the same; from files, as it was on the machine that asked for it
        assert isinstance(scores, Scores)
        step = _step(model, release, scores, unit)
        theta, matrix = scores.theta + step.change, scores.matrix
        if adaptive and len(releases.made) == 2 and _leaves_much(step, math.sqrt(share / shares[-1])):
            shares = list(_REST_OF_AUTO)
    assert step is not None
    error = step.noise_error() / unit
    if error > HOPELESS or 2 * step.raised > side or step.cut:
        return _nothing(whitened, releases.made, releases.guarantee, _why(error, step, side))
    back = matrix.T
    covariance = back @ _covariance(step, releases.made[-1].clients) @ back.T
    why = model.no_interval or _why_no_interval(step, back, covariance)
    why = why or model.contradicted(step.sums, releases.made[-1].clients)
    return RoundsFit(
        coefficients=back @ theta,
        covariance=covariance if why is None else None,
        curvature=back @ np.linalg.inv(step.inverse) @ back.T,
        verdict=None,
        mean=whitened.mean,
        rounds=len(releases.made) - 1,
        guarantee=releases.guarantee,
        releases=tuple(releases.made),
        no_interval=why,
    )


def fit_start(model: RoundModel, release: Release, chosen: GramSource | None = None) -> RoundsFit:
    """Fit a regression by its start alone, from one release of second moments: post-processing.

    Parameters
    ----------
    model : RoundModel
        Which regression.
    release : Release
        The second moments.
    chosen : GramSource, optional
        Some columns of the release, the target last; by default all.
    """
    whitened = Whitened.of(release if chosen is None else chosen)
    if refused := model.refuse(whitened):
        return _nothing(whitened, [release], release.guarantee, refused)
    theta, _ = model.begin(whitened)
    error = model.start_error(whitened, theta) / model.unit(whitened)
    if error > HOPELESS:
        return _nothing(whitened, [release], release.guarantee, _noise_moves(error))
    if refused := model.refuse_start(theta):
        return _nothing(whitened, [release], release.guarantee, refused)
    return RoundsFit(
        coefficients=whitened.matrix.T @ theta,
        covariance=None,
        curvature=None,
        verdict=None,
        mean=whitened.mean,
        rounds=0,
        guarantee=release.guarantee,
        releases=(release,),
        start_error=error,
    )


def require_words(columns: int) -> None:
    """Refuse so many columns, target included, that clients would have to send too much in a round."""
    words = columns + columns * (columns + 1)
    if words > MOST_WORDS:
        raise InputError(
            f"columns: {columns} given, fewer expected: a client would send {words:,} numbers in a round, at most "
            f"{MOST_WORDS:,}"
        )


def _step(model: RoundModel, release: Release, scores: Scores, unit: float) -> _Step:
    """Read a round and make the step."""
    sums = scores.read(release.sketch[0], math.sqrt(float(release.noise_variance[0])))
    curvature, deviation = sums.curvature, sums.curvature_sd
    if model.relies_on_features:
        curvature, deviation = _mixed(sums, scores.theta, scores.link, release.clients)
    eigenvalues, vectors = np.linalg.eigh(curvature)
    least = max(_norm_of_noise(deviation, len(eigenvalues)), 1e-12)
    inverse = (vectors / np.maximum(eigenvalues, least)) @ vectors.T
    change = inverse @ sums.score
    longest = LONGEST_STEP * unit
    length = float(np.linalg.norm(change))
    return _Step(
        change=change * min(1.0, longest / max(length, longest)),
        inverse=inverse,
        curvature_sd=deviation,
        raised=int(np.count_nonzero(eigenvalues < least)),
        cut=length > longest,
        sums=sums,
    )


def _mixed(sums: ScoreSums, theta: Reals, link: Link, clients: int) -> tuple[Reals, float]:
    """Return the precision-weighted mean of the released curvature and of that of Gaussian features, and its noise."""
    expected = clients * gaussian_curvature(theta, link.expected_curvature)
    noise, error = sums.curvature_sd**2 / 2, (_MODEL_ERROR * float(np.trace(expected)) / len(theta)) ** 2
    trusted = error / (error + noise)
    return trusted * sums.curvature + (1 - trusted) * expected, trusted * sums.curvature_sd


def _leaves_much(step: _Step, factor: float) -> bool:
    """Return whether Newton's method is not yet where noise and sampling would be the larger error in the end."""
    expected = math.hypot(step.noise_error(factor), math.sqrt(float(np.trace(step.inverse))))
    squared = float(step.change @ step.change) - step.noise_error() ** 2
    return _LEFT_BY_NEWTON * squared > _WORTH_A_ROUND * expected


def _covariance(step: _Step, clients: int) -> Reals:
    """Return the covariance of theta after its last step."""
    sums, change = step.sums, step.change
    eigenvalues, vectors = np.linalg.eigh(sums.outer - np.outer(sums.score, sums.score) / clients)
    sampling = (vectors * np.maximum(eigenvalues, 0.0)) @ vectors.T
    identity = np.eye(len(change))
    second = step.curvature_sd**2 / 2 * (float(change @ change) * identity + np.outer(change, change))
    return np.asarray(step.inverse @ (sampling + sums.score_sd**2 * identity + second) @ step.inverse)


def _why_no_interval(step: _Step, back: Reals, covariance: Reals) -> str | None:
    """Say why intervals would not hold their level; None where they do, as far as public numbers tell.

    Both conditions look at curvature and lengths, never at the sign of an estimate.
    """
    sums = step.sums
    clear = float(np.linalg.eigvalsh(sums.curvature)[0]) / max(_norm_of_noise(sums.curvature_sd, len(back)), 1e-300)
    if step.raised or clear < _CLEAR:
        return (
            f"the curvature that the last round released is {max(clear, 0.0):.2g} times its noise in its weakest "
            f"direction, at least {_CLEAR:g} expected: where noise decides the curvature, intervals are false"
        )
    left = _LEFT_BY_NEWTON * float(step.change @ step.change) * np.linalg.norm(back, axis=1)
    most = float(np.max(left / np.sqrt(np.diag(covariance))))
    if most <= _MOST_LEFT:
        return None
    return (
        f"the last step was long: it may leave {most:.2g} standard errors of a coefficient, at most {_MOST_LEFT:g} "
        "expected; one more round may help"
    )


def _norm_of_noise(deviation: float, side: int) -> float:
    """Return about the norm of a symmetric matrix of variance v on the diagonal, v/2 off it: sqrt(v/2) 2 sqrt(p)."""
    return deviation * math.sqrt(2 * side)


def _why(error: float, step: _Step, side: int) -> str:
    """Say why the last round leaves nothing to learn."""
    if error > HOPELESS:
        return _noise_moves(error)
    if 2 * step.raised > side:
        return f"noise hides the curvature in {step.raised} of {side} directions"
    return "the last step was not the end: the features all but determine the target, or noise sent it astray"


def _noise_moves(error: float) -> str:
    return (
        f"noise alone moves the linear predictor of a typical row by {error:.2g} standard units, at most "
        f"{HOPELESS} expected"
    )


def _nothing(whitened: Whitened, made: Sequence[Release], promised: Guarantee, why: str) -> RoundsFit:
    return RoundsFit(
        coefficients=np.full(len(whitened.matrix), math.nan),
        covariance=None,
        curvature=None,
        verdict=why,
        mean=min(max(whitened.mean, -1.0), 1.0),
        rounds=len(made) - 1,
        guarantee=promised,
        releases=tuple(made),
    )
