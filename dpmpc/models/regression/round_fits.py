"""What a fit in rounds leaves: its attributes in the columns' units, its intervals, and where there are none.

Coefficients that predict are shrunken as far as noise requires; estimates of the last sums are not, and have errors.

Promised: everything is computed from the fit, and so from releases. Not promised: intervals of a fit from the start
alone, whose bias nothing in a release shows: there are none.
"""

from __future__ import annotations

import math
import warnings

import numpy as np

from dpmpc.base.arrays import Reals
from dpmpc.base.errors import UtilityWarning
from dpmpc.data import Schema
from dpmpc.models.common.estimates import Estimate
from dpmpc.models.common.inference import Inference, normal_quantile
from dpmpc.models.rounds.fit import RoundsFit
from dpmpc.models.rounds.private_bounds import PrivateBound, bounds_table
from dpmpc.privacy import Guarantee
from dpmpc.release.release import Release
from dpmpc.release.results import NumberTable

_LOADS = 0.3  # of the largest loading of a weak direction: a column that is named
_STANDS_OUT = 4.0  # so many standard deviations of the noise a column's mean square has to vary

#: What is said of a fit without rounds, wherever it is shown.
APPROXIMATION = (
    "an approximation: scaled least squares from second moments, without a round of scores. It is right for Gaussian "
    "features; elsewhere it is off by a few hundredths to more than half of the effects, however many people there are."
    " No interval covers that, and there is none"
)


class Fitted:
    """What `take` sets; beside the data classes, whose fields are parameters."""

    coef_: Reals
    intercept_: float
    estimate_: Estimate | None
    verdict_: str | None
    guarantee_: Guarantee
    releases_: tuple[Release, ...]
    rounds_: int
    feature_names_: tuple[str, ...]
    target_: str
    start_error_: float | None
    noise_part_: float | None
    no_interval_: str | None
    private_bounds_: tuple[PrivateBound, ...]


def approximation_of(estimator: Fitted) -> str | None:
    """Return what is stated of a fit that ends at its start, with the size of the noise's error; None of any other."""
    if estimator.start_error_ is None:
        return None
    return (
        f"{APPROXIMATION}. Beside that, noise moves the log odds of a typical row by about "
        f"{estimator.start_error_:.2g}, up or down, and coefficients accordingly"
    )


def rounds_text(estimator: Fitted) -> str:
    """Return which sums a fit rests on."""
    rounds, before = estimator.rounds_, 2 if estimator.private_bounds_ else 1
    last = len(estimator.releases_) - before - rounds
    if not rounds:
        return "No steering round after the sum of second moments."
    follow = "" if not last else f", and {last} sum{'s' if last > 1 else ''} for errors and intervals"
    return (
        f"{rounds} steering round{'s' if rounds > 1 else ''} after the sum of second moments{follow}. Noise hides "
        f"about {estimator.noise_part_:.2g} of what the features may explain; clipping may hide more."
    )


def bounds_tables(estimator: Fitted | None, level: float) -> list[NumberTable]:
    """Return the table of a fit's private bounds, where it has any."""
    return [bounds_table(estimator.private_bounds_, level)] if estimator and estimator.private_bounds_ else []


def bounds_fields(estimator: Fitted) -> list[dict[str, object]]:
    """Return a fit's private bounds as plain data for JSON."""
    return [
        {
            "column": bound.column.name,
            "lower": bound.column.lower,
            "upper": bound.column.upper,
            "clipped": bound.clipped,
            "clipped_error": bound.clipped_error,
        }
        for bound in estimator.private_bounds_
    ]


def no_interval_text(why: str) -> str:
    """Return what is stated of a fit in rounds that has coefficients and no intervals."""
    return f"There are no standard errors and no intervals: {why}."


#: What the errors and intervals of a fit in rounds rest on.
ERRORS = (
    "Estimates without shrinkage, from the last rounds; errors and intervals cover sampling and noise, and do not "
    "assume that the model is right (HC0)."
)
_NOT_WANTED = "all of the budget went into the prediction (intervals=False, --predict-only)"


def features_in_units(public: Schema) -> Reals:
    """Return the map (p, p) of (intercept, weights), normalised, to the features' units, where the target has none."""
    offset, slope = public.offset[:-1], public.slope[:-1]
    linear = np.diag(1 / np.append(1.0, slope))
    linear[0, 1:] = -offset / slope
    return linear


def take(
    estimator: Fitted,
    fit: RoundsFit,
    public: Schema,
    linear: Reals,
    shift: Reals | float = 0.0,
    *,
    stacklevel: int = 2,
) -> None:
    """Set what a fit in rounds found, and warn where it found nothing."""
    units = linear @ fit.coefficients + shift
    estimator.coef_, estimator.intercept_ = units[1:], float(units[0])
    estimator.estimate_ = None if fit.estimate is None else fit.estimate.in_units(linear, shift)
    estimator.feature_names_, estimator.target_ = public.names[:-1], public.names[-1]
    estimator.verdict_, estimator.rounds_ = fit.verdict, fit.rounds
    estimator.guarantee_, estimator.releases_, estimator.private_bounds_ = fit.guarantee, fit.releases, fit.bounds
    estimator.start_error_, estimator.noise_part_ = fit.start_error, fit.noise_part
    asked = fit.estimate is not None or fit.verdict is not None or not fit.rounds
    estimator.no_interval_ = (None if fit.estimate is None else fit.estimate.why) if asked else _NOT_WANTED
    if fit.stopped is not None:
        estimator.no_interval_ = fit.stopped
    if fit.verdict is not None:
        clients, epsilon = fit.guarantee.clients, fit.guarantee.epsilon
        distrusted = "coefficients can be trusted" if fit.estimate is None else "prediction can be trusted"
        warnings.warn(
            f"no {distrusted} from {clients:,} rows at epsilon = {epsilon:g}: {fit.verdict}. None are given. More "
            "people, a larger epsilon or fewer features would help",
            UtilityWarning,
            stacklevel=stacklevel + 1,
        )
    elif not _all_told(fit) and (hidden := _hidden(fit, estimator.feature_names_)):
        warnings.warn(
            f"{', '.join(hidden)}: noise hides whether there is any variance, so that the coefficient means nothing; "
            "fit without, or with narrower bounds",
            UtilityWarning,
            stacklevel=stacklevel + 1,
        )


def _all_told(fit: RoundsFit) -> bool:
    """Return whether every slope has an interval that is mostly sampling and noise."""
    return fit.estimate is not None and bool(fit.estimate.identified(np.eye(len(fit.coefficients)))[1:].all())


def _hidden(fit: RoundsFit, names: tuple[str, ...]) -> list[str]:
    """Return the columns whose variance, in the first release, does not stand out of its noise."""
    start = fit.first
    gram = start.gram().matrix / start.clients
    least = _STANDS_OUT * math.sqrt(float(start.noise_variance[0])) / start.clients
    places = [1 + start.columns.index(name) for name in names]
    return [name for name, j in zip(names, places, strict=True) if gram[j, j] - gram[0, j] ** 2 <= least]


def inference_of(estimator: Fitted, level: float) -> Inference:
    """Return normal intervals around the estimates of a fit in rounds.

    What rests on a bound has none where the estimate withholds it, and elsewhere has it with a flag.
    """
    side, estimate = len(estimator.coef_) + 1, estimator.estimate_
    estimates = np.array([estimator.intercept_, *estimator.coef_])
    covariance = np.full((side, side), math.nan)
    deviations = np.full(side, math.inf)
    if estimate is not None and (known := estimate.covariance) is not None:
        estimates, covariance = estimate.coefficients, known
        deviations = np.where(estimate.shown | (not estimate.withholds), estimate.deviations, math.inf)
    elif estimator.verdict_ is not None:
        estimates[:] = math.nan
    reach = normal_quantile((1 + level) / 2) * deviations
    intervals = np.column_stack([estimates - reach, estimates + reach])
    intervals[np.isinf(reach)] = -math.inf, math.inf
    return Inference(
        feature_names=estimator.feature_names_,
        coef=estimates[1:],
        standard_errors=deviations[1:],
        confidence_intervals=intervals[1:],
        intercept=float(estimates[0]),
        intercept_standard_error=float(deviations[0]),
        intercept_confidence_interval=intervals[0],
        level=level,
        degrees=math.inf,
        covariance=covariance,
        clients=estimator.guarantee_.clients,
        r_squared=math.nan,  # rounds release no spread of the target
        r_squared_standard_error=math.nan,
        robust=True,
        estimate=estimate,
        weak=() if estimate is None else _named(estimator, estimate.weak[:, 1:]),
        private_bounds=any(bound.narrower for bound in estimator.private_bounds_),
        no_interval=None if estimator.no_interval_ is None else no_interval_text(estimator.no_interval_),
    )


def _named(estimator: Fitted, weak: Reals) -> tuple[dict[str, float], ...]:
    """Return weak directions (k, d) by feature, those features that move predictions the most within their bounds."""
    names, public = estimator.feature_names_, estimator.releases_[-1].schema
    columns = [public.columns[public.index(name)] for name in names]
    ranges = np.array([column.upper - column.lower for column in columns])
    found = []
    for direction in weak:
        moved = np.abs(direction) * ranges
        places = [place for place in range(len(names)) if moved[place] >= _LOADS * moved.max() > 0]
        scale = float(np.max(np.abs(direction[places]), initial=0.0))
        found.append({names[place]: float(direction[place]) / scale for place in places})
    return tuple(found)
