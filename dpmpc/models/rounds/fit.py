"""A regression from several sums: second moments, steering rounds for the prediction, further ones for intervals.

`rounds` counts the steering rounds (`dpmpc.models.rounds.steering`). Their posterior mean predicts. Where intervals are
wanted, further sums at what was steered to give an estimate without shrinkage and its errors. Of a linear regression
this is one sum of squared residuals, read with the second moments (`dpmpc.models.rounds.linear_reading`). Where the
link is curved these are two last rounds (`dpmpc.models.rounds.last_round`); where what was steered to and the
estimate clearly disagree, the prediction then moves from the former towards the latter. With private bounds, counts
come before all of these (`dpmpc.models.rounds.private_bounds`).

Promised: everything is computed from releases, and all of them are within one budget. Where noise leaves nothing to
predict there are no coefficients and the reason is given; nothing here states that a prediction is good.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import numpy as np

from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.linear.contributions import SecondMoments
from dpmpc.linear.contributions.cells import CellCounts
from dpmpc.linear.contributions.clipped_scores import ClippedScores
from dpmpc.linear.contributions.residual_products import ResidualProducts
from dpmpc.linear.contributions.scores import Scores
from dpmpc.models.common.estimates import Estimate
from dpmpc.models.common.releases import Releases, why_one_release
from dpmpc.models.rounds.last_round import LastRoundEstimate, last_rounds
from dpmpc.models.rounds.linear_reading import read_linear
from dpmpc.models.rounds.models import LogisticModel, RoundModel
from dpmpc.models.rounds.private_bounds import SHARE, PrivateBound, narrow
from dpmpc.models.rounds.start import LARGEST_SLOPE, Whitened, logistic_start, logistic_start_error
from dpmpc.models.rounds.steering import Steering, likeliest
from dpmpc.privacy import Guarantee
from dpmpc.privacy.specification import ReleaseSpec, Sketch
from dpmpc.release.release import GramSource, Release

AUTO = "auto"
SUM_NAMES = {  # by what clients send
    CellCounts.name: "counts for private bounds",
    SecondMoments.name: "second moments",
    ClippedScores.name: "steering round",
    Scores.name: "last round",
    ResidualProducts.name: "second sum",
}
MOST_ROUNDS = 64
_MANY = 100_000  # clients, from which on few rounds are enough
MOST_WORDS = 8192  # that a client sends in a round
_FIRST_ALONE = 0.2  # of the second moments where all else is steering
HOPELESS = 0.5  # noise that alone moves a predictor without rounds by more than so many units leaves nothing to learn


class Shares(NamedTuple):
    """The parts of mu^2 that the sums of one fit take."""

    first: float
    steering: tuple[float, ...]  # one for each round
    last: tuple[float, ...]
    bounds: float = 0.0  # of the counts for private bounds, where there are any

    @property
    def all(self) -> tuple[float, ...]:
        """Return them in the order of the sums."""
        return (*((self.bounds,) if self.bounds else ()), self.first, *self.steering, *self.last)

    def after_bounds(self) -> Shares:
        """Return the shares where private bounds take theirs first."""
        rest = 1 - SHARE
        steering, last = (tuple(rest * share for share in shares) for shares in (self.steering, self.last))
        return Shares(rest * self.first, steering, last, SHARE)


def rounds_of(rounds: int | str, clients: int, *, intervals: bool, least: int = 1) -> int:
    """Return the number of steering rounds: the one that is given, or what suits so many clients.

    Few are enough where many clients make the noise small, and where most of the budget goes into intervals.
    """
    if rounds == AUTO:
        return 8 if intervals or clients > _MANY else 32
    if isinstance(rounds, bool) or not isinstance(rounds, int | np.integer) or not least <= rounds <= MOST_ROUNDS:
        raise InputError("rounds", f"{rounds!r}", f"'auto' or a whole number from {least} to {MOST_ROUNDS}")
    return int(rounds)


def rounds_suit(spec: ReleaseSpec) -> bool:
    """Return whether a linear regression that may take rounds does, since no choice requires one release.

    A named sketch or radius, proofs and Shamir shares belong to one release, as do weights and other noise.
    """
    asked = spec.sketch != Sketch() or spec.radius is not None
    one = asked or spec.mechanism.proved or spec.mechanism.sharing != "additive" or why_one_release(spec) is not None
    return not one and _words(len(spec.schema)) <= MOST_WORDS


def steps_of(model: RoundModel, rounds: int | str, clients: int, *, intervals: bool) -> int:
    """Return the number of steering rounds of a model, some of which need at least one."""
    return rounds_of(rounds, clients, intervals=intervals, least=0 if model.unsteered else 1)


def shares_of(model: RoundModel, rounds: int, *, intervals: bool, private_bounds: bool = False) -> Shares:
    """Return the shares of all sums, for a number of steering rounds."""
    shares = Shares(1.0, (), ())
    if rounds:
        first, steering, last = model.shares if intervals else (_FIRST_ALONE, 1 - _FIRST_ALONE, ())
        shares = Shares(first, (steering / rounds,) * rounds, last)
    return shares.after_bounds() if private_bounds else shares


@dataclasses.dataclass(frozen=True, eq=False)
class RoundsFit:
    """A regression of the last column on the others, on the normalised scale.

    Attributes
    ----------
    coefficients : ndarray of float64, shape (p,)
        Intercept and weights of the normalised features, which predict; NaN where nothing can be learned.
    estimate : Estimate or None
        What the sums after steering show; None where there were none.
    verdict : str or None
        Why nothing can be predicted.
    mean : float
        The released mean of the target, on the normalised scale.
    rounds : int
        Steering rounds that were made.
    guarantee : Guarantee
        Of all releases together.
    releases : tuple of Release
        The counts for private bounds where there are any, the second moments, the steering rounds, the last ones.
    noise_part : float or None
        The part of what the features may explain that noise hides; None where nothing was steered.
    start_error : float or None
        By how much noise alone is expected to move the linear predictor of a typical row, where the start is the fit.
    stopped : str or None
        That the rounds ended before all planned sums were made; the coefficients rest on those that were.
    bounds : tuple of PrivateBound
        Of each column that was counted for private bounds.

    Where a logistic model has no rounds the coefficients are those of the start, which are biased: see
    `dpmpc.models.rounds.start`.
    """

    coefficients: Reals
    estimate: Estimate | None
    verdict: str | None
    mean: float
    rounds: int
    guarantee: Guarantee
    releases: tuple[Release, ...]
    noise_part: float | None = None
    start_error: float | None = None
    stopped: str | None = None
    bounds: tuple[PrivateBound, ...] = ()

    @property
    def first(self) -> Release:
        """The second moments."""
        return self.releases[1 if self.bounds else 0]


def fit_in_rounds(
    model: RoundModel,
    releases: Releases,
    rounds: int | str = AUTO,
    *,
    intervals: bool = True,
    private_bounds: bool = False,
) -> RoundsFit:
    """Fit a regression of the last column on the others.

    Parameters
    ----------
    model : RoundModel
        Which regression.
    releases : Releases
        Within whose budget, and who answers.
    rounds : int or "auto"
        Steering rounds after the first sum, 1 to 64. With 0 a logistic model takes one release, and is an
        approximation.
    intervals : bool
        Whether a part of the budget goes into sums for errors and intervals.
    private_bounds : bool
        Whether a part of the budget goes into counts that narrow the bounds of features, and of the target of a linear
        regression.
    """
    steps = steps_of(model, rounds, releases.clients, intervals=intervals)
    shares = shares_of(model, steps, intervals=intervals, private_bounds=private_bounds)
    if steps:
        require_words(releases.columns, scores=model.curved and intervals)
    bounds = narrow(releases, shares.bounds, target=not model.curved) if private_bounds else ()
    return dataclasses.replace(_fit_sums(model, releases, shares), bounds=bounds)


def _fit_sums(model: RoundModel, releases: Releases, shares: Shares) -> RoundsFit:
    """Make the second moments and all that follow, and fit them."""
    steps = len(shares.steering)
    first = releases.make(shares.first)
    if not steps:
        return dataclasses.replace(fit_start(first), guarantee=releases.guarantee, releases=tuple(releases.made))
    whitened = Whitened.of(first)
    if refused := model.refuse(whitened):
        return _nothing(whitened, releases, refused, 0)
    steered = 0
    state = Steering(first, model.response(whitened.mean), releases.mu_of(math.fsum(shares.steering)))
    while steered < steps and releases.left:
        state.observe(releases.make(shares.steering[steered], state.contribution()))
        steered += 1
    refused, predicting = state.why_nothing(), state.coefficients
    if refused and (model.curved or not shares.last):
        return _nothing(whitened, releases, refused, steered, state.noise_part)
    stopped = steered < steps or releases.left < len(shares.last)
    made = len(releases.made) + releases.left
    estimate: Estimate | None = None
    if shares.last and not stopped:
        if model.curved:
            last = last_rounds(model, releases, first, predicting, shares.last)
            predicting, estimate = _nearer_the_estimate(predicting, last, whitened), last
        else:
            second = releases.make(shares.last[0], model.last(np.ones(len(predicting)), predicting, whitened.mean))
            estimate = read_linear(first, second, predicting)
    return RoundsFit(
        coefficients=predicting if refused is None else np.full(len(predicting), math.nan),
        estimate=estimate,
        verdict=refused,
        mean=min(max(whitened.mean, -1.0), 1.0),
        rounds=steered,
        guarantee=releases.guarantee,
        releases=tuple(releases.made),
        noise_part=state.noise_part,
        stopped=f"the rounds ended after {made:.0f} of {len(shares.all)} sums" if stopped else None,
    )


def _nearer_the_estimate(steered: Reals, estimate: LastRoundEstimate, whitened: Whitened) -> Reals:
    """Return what was steered to, moved towards the estimate as far as their distance is more than its noise.

    Clipping moves what was steered to, and the estimate has noise. In whitened coordinates their distance is taken for
    normal, with the estimate's covariance and a variance of steering's own error, the likeliest one: 0 unless they
    clearly disagree.
    """
    if estimate.errors is None:
        return steered
    back = np.linalg.inv(whitened.matrix.T)
    variance, axes = np.linalg.eigh(back @ estimate.errors @ back.T)
    variance = np.maximum(variance, 1e-300)
    apart = axes.T @ back @ (estimate.coefficients - steered)
    own = likeliest(apart, variance, np.ones(len(apart)))
    return np.asarray(steered + whitened.matrix.T @ axes @ (own / (own + variance) * apart))


def fit_start(release: Release, chosen: GramSource | None = None) -> RoundsFit:
    """Fit a logistic regression by its start alone, from one release of second moments: post-processing.

    Parameters
    ----------
    release : Release
        The second moments.
    chosen : GramSource, optional
        Some columns of the release, the target last; by default all.
    """
    whitened = Whitened.of(release if chosen is None else chosen)
    theta = logistic_start(whitened)
    error = logistic_start_error(whitened, theta)
    refused = LogisticModel().refuse(whitened)
    if refused is None and error > HOPELESS:
        refused = (
            f"noise alone moves the linear predictor of a typical row by {error:.2g} standard units, at most "
            f"{HOPELESS} expected"
        )
    if refused is None and float(np.linalg.norm(theta[1:])) >= LARGEST_SLOPE * (1 - 1e-9):
        refused = (  # a start as long as one may be, whose length states nothing about the effects
            "the features explain more of the target than an approximation without rounds can express: they all but "
            "determine it, or are far from Gaussian; rounds of scores show which"
        )
    return RoundsFit(
        coefficients=whitened.matrix.T @ theta if refused is None else np.full(len(theta), math.nan),
        estimate=None,
        verdict=refused,
        mean=min(max(whitened.mean, -1.0), 1.0),
        rounds=0,
        guarantee=release.guarantee,
        releases=(release,),
        start_error=error if refused is None else None,
    )


def require_words(columns: int, *, scores: bool) -> None:
    """Refuse so many columns, target included, that clients would have to send too much in one of the sums.

    A last round of scores is among these where `scores` is true.
    """
    if (words := _words(columns, scores=scores)) > MOST_WORDS:
        raise InputError(
            "columns", columns, "fewer", f"a client would send {words:,} numbers in a round, at most {MOST_WORDS:,}"
        )


def _words(columns: int, *, scores: bool = False) -> int:
    """Return how many numbers a client sends in the longest of the sums."""
    return columns + columns * (columns + 1) // (1 if scores else 2)


def _nothing(
    whitened: Whitened, releases: Releases, why: str, rounds: int, noise_part: float | None = None
) -> RoundsFit:
    return RoundsFit(
        coefficients=np.full(len(whitened.matrix), math.nan),
        estimate=None,
        verdict=why,
        mean=min(max(whitened.mean, -1.0), 1.0),
        rounds=rounds,
        guarantee=releases.guarantee,
        releases=tuple(releases.made),
        noise_part=noise_part,
    )
