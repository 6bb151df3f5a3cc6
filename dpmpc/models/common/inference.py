"""How far off a linear regression from a release may be: standard errors and confidence intervals.

What is estimated is the unpenalised regression of the target on the other columns, of rows as clients encode them:
normalised and clipped to their public bounds. A penalty has no part in it, so an interval need not be centred at
the coefficients of a penalised fit. An interval covers the sampling of the clients, the error of the sketch and
the noise.

It is computed from `Observed`: the second moments that a release shows, and the noise in them. Quantiles and tails of
the normal distribution are those of the standard library; those of t and F are the functions of SciPy that
`scipy.stats` calls for them. SciPy is imported for these alone, for it takes longer than all else that reading a
release does.

How it is found
---------------
With u the intercept and the features, theta the regression that is sought, c = (-theta, 1) and M the released Gram
matrix of (1, z) less its bias, the estimate solves M_uu t = M_uy, hence exactly t - theta = M_uu^-1 s with s = M_u c.
All that is random enters s linearly, and M_uu is known with its noise: Cov(t) = M_uu^-1 Cov(s) M_uu^-1.

*Second moments.* For symmetric noise N of variance v on the diagonal, v/2 off it and 0 in the public corner, ``Cov(N c)
= v/2 (|c|^2 I + c c^T) - v c_0^2 E_00``. A population adds Cov(sum u e) = n E[u u^T e^2]: n v_e G_uu where the
residual's variance v_e does not depend on the features, and at most n v_e (1 + C^2) I in any case. As E[c^T M c] is (n
- m) v_e - tr(M_uu^-1 Cov(N c)_u) at a fit of m coefficients, v_e follows from what the fit leaves.

*Sketches of rows.* A row a_r adds up m_r clients and noise of variance v_r, so it is nearly Gaussian and a_r . c nearly
independent of its features. With the score u_r (a_r . c) + v_r w, w without the intercept,

    ``Var = Var(a_r . c) E[u_r u_r^T] + v_r^2 w w^T,    Var(a_r . c) = m_r v_e + v_r |c_x|^2``

(Fuller 1987, section 2.2), whose unknown is estimated by sum (a_r . c)^2 / (k - m). Of s copies two rows share
clients, which adds (1 - 1/s) n E[u u^T e^2] for the population.

*R^2.* c^T M c is least at c, so that to first order noise moves RSS by <c c^T, N> and TSS by <b b^T, N> with
b = e_y - mean e_0: ``Var(R^2) = v (|G|_F^2 - G_00^2) / TSS^2 + 4 R^2 (1 - R^2)^2 / n``,
G = c c^T - (1 - R^2) b b^T.

Promised: everything is a function of the release and of the arguments; no data, no randomness. Where the noise does not
leave the Gram matrix a safe inverse there is no estimate, and intervals are infinite.

Not promised: exact coverage. The law of the errors is the normal one, which a sum over many clients approaches. The
error of sampling in a release of second moments needs an assumption on the residuals: see `ERRORS`.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpmpc.base.arguments import require_choice, require_fraction
from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.data import Schema
from dpmpc.data.schemas import largest_squared_norm
from dpmpc.linear.contributions.noisy_gram import NoisyGram
from dpmpc.models.common.estimates import Estimate
from dpmpc.models.common.release_parts import unit_map
from dpmpc.release.release import Release, SelectedColumns
from dpmpc.release.results.estimates import Contrast


@dataclasses.dataclass(frozen=True, eq=False)
class Observed:
    """What inference reads of a release, whichever form it has."""

    schema: Schema  # public bounds of the columns
    clients: int  # n, public and exact
    gram: NoisyGram  # of (1, columns)
    noise_variance: Reals  # (k,): in an entry of each row; of second moments, in a diagonal entry
    rows: Reals | None  # (k, p + 1): noisy rows of (1, columns); None for second moments
    # share of the sampling variance that the scatter of the rows does not show: 1 - 1/s where a client is in s rows,
    # all of it for second moments
    sampling: float
    mixtures: bool  # whether a row adds up many clients, so that it is nearly Gaussian; else it is one client's
    squared_norm: float  # the largest of a client's columns, C^2
    total: float | None = None  # noisy number that sums are divided by, where that is not n
    total_variance: float = 0.0  # of the noise in that

    @classmethod
    def of(cls, release: Release | SelectedColumns) -> Observed:
        """Read what servers opened."""
        task = release.task
        summed = release.summed
        return cls(
            schema=release.schema,
            clients=release.clients,
            gram=release.gram(),
            noise_variance=release.noise_variance,
            rows=None if summed else np.column_stack([release.ones, release.sketch]),
            sampling=1.0 if summed else 1 - 1 / task.sketch.sparsity,
            mixtures=True,
            squared_norm=largest_squared_norm(len(release.columns) - 1, task.statistic.radius),
            total=release.total if release.weighted else None,
            total_variance=release.total_variance,
        )

    @property
    def count(self) -> float:
        """What sums are divided by."""
        return float(self.clients) if self.total is None else self.total


def normal_quantile(probability: float) -> float:
    """Return the z with P(Z <= z) = probability; infinite at 0 and 1."""
    if probability in (0.0, 1.0):
        return math.inf if probability else -math.inf
    return statistics.NormalDist().inv_cdf(probability)


def t_quantile(probability: float, degrees: float) -> float:
    """Return the same of a t distribution; infinite degrees of freedom make it the normal one."""
    if math.isinf(degrees):
        return normal_quantile(probability)
    from scipy.special import stdtrit

    return float(stdtrit(degrees, probability))


def t_tail(statistic: Reals, degrees: float) -> Reals:
    """Return P(T > statistic) of a t distribution."""
    if math.isinf(degrees):
        tails = [math.erfc(value / math.sqrt(2)) / 2 for value in np.ravel(statistic)]
        return np.reshape(tails, np.shape(statistic))
    from scipy.special import stdtr

    return np.asarray(stdtr(degrees, -statistic))


def chi2_tail(statistic: float, degrees: int) -> float:
    """Return P(X > statistic) of a chi-squared distribution: a finite sum (Abramowitz and Stegun, 26.4.4, 26.4.5)."""
    if not 0 < statistic < math.inf:
        return math.nan if math.isnan(statistic) else float(statistic <= 0)
    half = statistic / 2
    tail = math.erfc(math.sqrt(half)) if degrees % 2 else 0.0
    powers = np.arange(degrees % 2 / 2, degrees / 2)
    return tail + math.fsum(math.exp(power * math.log(half) - half - math.lgamma(power + 1)) for power in powers)


def f_tail(statistic: float, degrees: tuple[float, float]) -> float:
    """Return P(F > statistic) of an F distribution."""
    from scipy.special import fdtrc

    return float(fdtrc(*degrees, statistic))


#: What an interval has to cover: the regression in the population that the clients were drawn from, or the regression
#: that the very same clients would give without privacy.
TARGETS = ("population", "sample")
#: What is assumed of the residuals: that their variance does not depend on the features, or nothing.
ERRORS = ("homoscedastic", "any")
FLAG = " (on bounds)"  # behind the name of a coefficient whose interval rests on the bounds, wherever it is shown
STANDS_OUT = 4.0  # standard errors of a noisy number of rows; where there is none, one of 30,000 is above them
_NEARLY = 0.02  # a weight so near to 1 is left out
_CLEARLY = 2.0  # a target's variance below so many of its standard errors is not distinguished from 0


@dataclasses.dataclass(frozen=True)
class Inference:
    """Unpenalised coefficients in the columns' units, and how far off they may be.

    Attributes
    ----------
    feature_names : tuple of str
        The columns that the entries belong to.
    coef : ndarray of float64, shape (d,)
        The estimates; NaN where the release is not informative.
    standard_errors : ndarray of float64, shape (d,)
        Their standard errors; infinite where the release is not informative, or does not identify the coefficient:
        its estimate then counts together with others only (`contrast`).
    confidence_intervals : ndarray of float64, shape (d, 2)
        Lower and upper ends.
    intercept, intercept_standard_error : float
        The same of the intercept.
    intercept_confidence_interval : ndarray of float64, shape (2,)
        Lower and upper end.
    level : float
        Nominal probability that an interval covers.
    degrees : float
        Degrees of freedom of the t distribution behind the intervals; infinite for second moments.
    covariance : ndarray of float64, shape (1 + d, 1 + d)
        Of the errors of (intercept, coefficients).
    clients : int
        n, public and exact.
    r_squared, r_squared_standard_error : float
        Share of the target's variance that the features explain, corrected for noise and for the fit's following it,
        and its standard error; NaN where the release is not informative, or the
        target's variance does not stand out of the noise, or after rounds.
    robust : bool
        Whether the errors are those of rounds, which do not assume that errors are even (HC0).
    total, total_standard_error : float, optional
        Noisy number of complete rows, or sum of the weights in units of the largest, where these are not public.
    no_interval : str, optional
        Why there are no finite intervals, where the reason is not that the noise leaves none.
    assumes_even : bool
        Whether the errors assume that residuals have one variance, whatever the features are (`ERRORS`).
    estimate : Estimate, optional
        Of a fit in rounds: the errors of all contrasts, of which a part is a bound. What has more than half of its
        variance there rests on the bounds. It has no interval where the estimate withholds these, and elsewhere has
        one that is flagged and has no level of its own.
    weak : tuple of dict of float
        Directions, by feature and in the columns' units, along which coefficients may move together without anything
        in the releases to show it; the largest number of each is 1.
    private_bounds : bool
        Whether the estimates are of values that are clipped at private bounds.
    """

    feature_names: tuple[str, ...]
    coef: Reals
    standard_errors: Reals
    confidence_intervals: Reals
    intercept: float
    intercept_standard_error: float
    intercept_confidence_interval: Reals
    level: float
    degrees: float
    covariance: Reals
    clients: int
    r_squared: float
    r_squared_standard_error: float
    robust: bool = False
    total: float | None = None
    total_standard_error: float | None = None
    no_interval: str | None = None
    assumes_even: bool = False
    estimate: Estimate | None = None
    weak: tuple[dict[str, float], ...] = ()
    private_bounds: bool = False

    def __str__(self) -> str:
        """Return a table: each coefficient, its standard error and its interval."""
        intercept, *names = self.labels
        width = max(map(len, self.labels))
        columns = (self.coef, self.standard_errors, *self.confidence_intervals.T)
        rows = dict(zip(names, np.column_stack(columns), strict=True))
        rows[intercept] = np.array([self.intercept, self.intercept_standard_error, *self.intercept_confidence_interval])
        headings = ("estimate", "std. error", f"{self.level:.0%} from", "to")
        lines = [" " * width + "".join(f" {heading:>12}" for heading in headings)]
        lines += [f"{name:{width}}" + "".join(f" {value:12.5g}" for value in row) for name, row in rows.items()]
        return "\n".join(lines)

    @property
    def counted(self) -> dict[str, dict[str, float | None]]:
        """How many rows count, as plain data: nothing where that is n, public and exact."""
        if self.total is None:
            return {}
        return {"rows_that_count": {"estimate": self.total, "standard_error": self.total_standard_error}}

    @property
    def fields(self) -> dict[str, object]:
        """Everything of the coefficients as plain data for JSON; null where the noise leaves no interval."""
        known, none = math.isfinite(self.intercept_standard_error), [None, None]

        def named(values: Reals, otherwise: object) -> dict[str, object]:
            listed = zip(self.feature_names, values.tolist(), self.identified, strict=True)
            return {name: value if there else otherwise for name, value, there in listed}

        return {
            "confidence_level": self.level,
            "errors": self.errors,
            "unpenalised_coefficients": named(self.coef, None),
            "standard_errors": named(self.standard_errors, None),
            "confidence_intervals": named(self.confidence_intervals, none),
            "unpenalised_intercept": self.intercept if known else None,
            "intercept_standard_error": self.intercept_standard_error if known else None,
            "intercept_confidence_interval": self.intercept_confidence_interval.tolist() if known else none,
            **self.identification,
            **self.counted,
        }

    @property
    def identification(self) -> dict[str, object]:
        """What the sums of a fit in rounds identify, as plain data; nothing of any other fit."""
        if self.estimate is None:
            return {}
        return {
            "identified": dict(zip(self.feature_names, self.told, strict=True)),
            "on_bounds": [
                name for name, flag in zip(("intercept", *self.feature_names), self.flagged, strict=True) if flag
            ],
            "weak": [dict(direction) for direction in self.weak],
            "not_told_apart": self.not_told_apart,
        }

    @property
    def identified(self) -> tuple[bool, ...]:
        """Whether there is a finite interval, for each coefficient."""
        return tuple(np.isfinite(self.standard_errors).tolist())

    @property
    def errors(self) -> str | None:
        """What the errors are called in statistical packages; None where they have no such name."""
        return "HC0" if self.robust else "nonrobust" if self.assumes_even else None

    @property
    def told(self) -> tuple[bool, ...]:
        """Whether there is an interval that is mostly sampling and noise, and no bound, for each coefficient."""
        if self.estimate is None:
            return self.identified
        return tuple((np.array(self.identified) & self.estimate.shown[1:]).tolist())

    @property
    def flagged(self) -> tuple[bool, ...]:
        """Whether the interval rests on the bounds, for the intercept and each coefficient."""
        if self.estimate is None:
            return (False,) * len(self.covariance)
        finite = np.isfinite([self.intercept_standard_error, *self.standard_errors])
        return tuple((finite & ~self.estimate.shown).tolist())

    @property
    def labels(self) -> tuple[str, ...]:
        """The intercept and the features, with the flag of intervals that rest on the bounds."""
        names = ("intercept", *self.feature_names)
        return tuple(name + FLAG * flagged for name, flagged in zip(names, self.flagged, strict=True))

    def _variances(self, contrast: Reals) -> tuple[float, float]:
        """Return the variance of a contrast (1 + d,), and the part of it that is a bound."""
        if self.estimate is None or self.estimate.why is not None:
            return float(contrast @ self.covariance @ contrast), 0.0
        variance, bound = self.estimate.variances(contrast[None])
        return float(variance[0]), float(bound[0])

    @property
    def informative(self) -> bool:
        """Whether any interval is finite."""
        return any(self.identified) or math.isfinite(self.intercept_standard_error)

    def contrast(self, weights: Mapping[str, float]) -> Contrast:
        """Return a sum of coefficients times weights, which may be identified where the coefficients are not.

        Parameters
        ----------
        weights : mapping of str to float
            By the names of features, and "intercept": ``{"x0": 1, "x1": -1}`` is a difference.
        """
        names = ("intercept", *self.feature_names)
        unknown = [name for name in weights if name not in names]
        if unknown or not any(weights.values()):
            raise InputError("weights", f"{unknown or weights!r}", f"numbers by {', '.join(names)}")
        row = np.array([float(weights.get(name, 0.0)) for name in names])
        estimate = float(row @ [self.intercept, *self.coef])
        variance, bound = self._variances(row)
        bounded = not 2 * bound <= variance
        if not variance < math.inf or (bounded and (self.estimate is None or self.estimate.withholds)):
            return Contrast(math.nan, math.inf, (-math.inf, math.inf))
        error = math.sqrt(variance)
        reach = t_quantile((1 + self.level) / 2, self.degrees) * error
        return Contrast(estimate, error, (estimate - reach, estimate + reach), bounded)

    @property
    def not_told_apart(self) -> list[str]:
        """Which coefficients the releases do not tell, and the sum of two of these that they do, in sentences."""
        said = []
        for direction in self.weak:
            listed = [name for name in direction if not self._tells(name)]
            if not listed:
                continue
            if len(listed) == 1:
                text = f"the coefficient of {listed[0]} is not identified: noise hides how far the column varies"
            else:
                text = f"{', '.join(listed[:-1])} and {listed[-1]} cannot be distinguished"
            said.append(f"{text}{self._sum_of(direction, listed)}; predictions are not affected.")
        return said

    def _tells(self, name: str) -> bool:
        return self.told[self.feature_names.index(name)]

    def _sum_of(self, direction: Mapping[str, float], listed: Sequence[str]) -> str:
        """Return what two coefficients that move against each other have in common, in brackets."""
        if len(listed) != 2:
            return ""
        first, second = listed
        weight = -direction[first] / direction[second]
        found = self.contrast({first: 1.0, second: weight})
        if not found.identified:
            return ""
        name = (
            "their sum"
            if abs(weight - 1) < _NEARLY
            else f"{first} {'+' if weight > 0 else '-'} {abs(weight):.3g} {second}"
        )
        return f" ({name} can: {found.estimate:.3g} ± {found.standard_error:.2g})"


@dataclasses.dataclass(frozen=True)
class _Equation:
    """The estimating equation M_u c = 0 of a regression, for c = (-theta, 1) at (features, target)."""

    gram: NoisyGram  # its expectation is the true Gram matrix of (1, z)
    used: list[int]  # positions of the intercept, where there is one, and of the features
    inverse: Reals  # (m, m): of the features' part of the Gram matrix
    contrast: Reals  # (p + 1,): c at the solution

    @classmethod
    def solve(cls, gram: NoisyGram, position: int, *, fit_intercept: bool) -> _Equation:
        """Solve for theta."""
        features = [column for column in range(1, len(gram.matrix)) if column != position + 1]
        used = [0, *features] if fit_intercept else features
        inverse = np.asarray(np.linalg.inv(gram.matrix[np.ix_(used, used)]), dtype=np.float64)
        contrast = np.zeros(len(gram.matrix))
        contrast[used] = -inverse @ gram.matrix[used, position + 1]
        contrast[position + 1] = 1.0
        return cls(gram, used, inverse, contrast)


def infer(
    observed: Observed, position: int, *, fit_intercept: bool, level: float, target: str, errors: str
) -> Inference:
    """Estimate the unpenalised coefficients of a column on all others, with confidence intervals.

    Parameters
    ----------
    observed : Observed
        What a release shows.
    position : int
        The column to predict.
    fit_intercept : bool
        Whether there is an intercept.
    level : float
        Nominal coverage of each interval, strictly between 0 and 1.
    target : {"population", "sample"}
        See `TARGETS`.
    errors : {"homoscedastic", "any"}
        See `ERRORS`. "any" bounds the sampling error of second moments by the largest norm of a row, and is much longer
        where that error is not small.
    """
    _check(level, target, errors)
    rows = observed.rows
    gram = _invertible(observed.gram, position, summed=rows is None, fit_intercept=fit_intercept)
    if gram is None or not stands_out(observed.count, observed.total_variance):
        return _uninformative(observed, position, level)
    if rows is not None and len(rows) < len(gram.columns) + fit_intercept:
        return _uninformative(observed, position, level)
    equation = _Equation.solve(gram, position, fit_intercept=fit_intercept)
    noise, residual = _of_second_moments(observed, equation) if rows is None else _of_rows(observed, rows, equation)
    share = observed.sampling if target == "population" else 0.0
    explained = _explained(observed, equation, position, residual, share)
    if target == "population":
        noise = noise + share * _sampling(observed, equation, residual, errors)
    # theta^ - theta = H^-1 (M_u c), and M_u c has covariance `noise`.
    covariance = np.zeros((len(gram.columns), len(gram.columns)))
    kept = np.arange(len(gram.columns))[not fit_intercept :]
    covariance[np.ix_(kept, kept)] = equation.inverse @ noise @ equation.inverse
    degrees = math.inf if rows is None else float(len(rows) - len(equation.used))
    found = _in_units(observed, position, equation, covariance, explained, level=level, degrees=degrees)
    return dataclasses.replace(found, assumes_even=rows is None and target == "population" and errors == ERRORS[0])


def stands_out(total: float, variance: float) -> bool:
    """Return whether a noisy number of rows is clearly above 0; without noise it is."""
    return variance == 0 or total > STANDS_OUT * math.sqrt(variance)


def _check(level: float, target: str, errors: str) -> None:
    require_fraction("level", level)
    require_choice("target", target, TARGETS)
    require_choice("errors", errors, ERRORS)


def _invertible(gram: NoisyGram, position: int, *, summed: bool, fit_intercept: bool) -> NoisyGram | None:
    """Return the Gram matrix without the noise's expectation, or None where the noise is too strong to invert it."""
    if summed:
        lowest = gram.smallest_eigenvalue(position, fit_intercept=fit_intercept)
        return gram if lowest > gram.fluctuation else None
    debiased = gram.debiased(position, fit_intercept=fit_intercept)
    return debiased if debiased.bias == 0 else None


def _of_second_moments(observed: Observed, equation: _Equation) -> tuple[Reals, float]:
    """Return the covariance of M_u c without sampling, and the residual variance."""
    c, used, matrix = equation.contrast, equation.used, equation.gram.matrix
    variance = float(observed.noise_variance[0])
    # Cov(N c) = v/2 (|c|^2 I + c c^T) for symmetric N with variance v on the diagonal, v/2 off it;
    # N_00 = 0 where n is exact.
    noise = variance / 2 * (c @ c * np.eye(len(c)) + np.outer(c, c))
    noise[0, 0] -= (variance - observed.total_variance) * c[0] ** 2
    noise = noise[np.ix_(used, used)]
    # E c^T M c = (n - m) v_e - tr(H^-1 Cov(N c)): the fit follows the noise.
    residual = (c @ matrix @ c + np.trace(equation.inverse @ noise)) / max(observed.count - len(used), 1)
    return noise, max(0.0, float(residual))


def _of_rows(observed: Observed, rows: Reals, equation: _Equation) -> tuple[Reals, float]:
    """Do the same for rows a_r = (o_r, S z) + noise; the covariance has what their scatter shows of the sampling."""
    c, used, variance = equation.contrast, equation.used, observed.noise_variance
    mean = float(variance.mean())
    features, deviations = rows[:, used], rows @ c
    # Var(a_r . c) = m_r v_e + v_r |c_x|^2; m_r and v_r are taken as proportional.
    spread = float(deviations @ deviations) / (len(rows) - len(used))
    shift = np.where(np.array(used) == 0, 0.0, c[used])
    if observed.mixtures:
        # Var(psi_r) = Var(a_r . c) E[u u^T] + v_r^2 w w^T (Fuller 1987, Theorem 2.2.1, with known error variance).
        noise = spread * (features.T * (variance / mean)) @ features
        noise += float(variance @ variance) * np.outer(shift, shift)
    else:
        scores = features * deviations[:, None] - np.outer(variance, shift)
        noise = scores.T @ scores
    residual = max(0.0, spread - mean * float(c[1:] @ c[1:])) * len(rows) / observed.clients
    return noise, residual


def _sampling(observed: Observed, equation: _Equation, residual: float, errors: str) -> Reals:
    """Return the covariance of the sum of u_i e_i over the clients; under "any", an upper bound of it."""
    used = equation.used
    if errors == "homoscedastic":
        return residual * equation.gram.matrix[np.ix_(used, used)]
    # sum u u^T e^2 <= max |u|^2 sum e^2 in the order of positive semi-definite matrices.
    return observed.count * (observed.squared_norm + 1) * residual * np.eye(len(used))


def _explained(
    observed: Observed, equation: _Equation, position: int, residual: float, share: float
) -> tuple[float, float]:
    """Return R^2 and its standard error; `share` is the sampling to add."""
    c, matrix, n, rows = equation.contrast, equation.gram.matrix, observed.count, observed.rows
    centred = equation.used[0] == 0
    b = np.zeros(len(c))  # y minus its mean
    b[position + 1] = 1.0
    b[0] = -matrix[0, position + 1] / matrix[0, 0] if centred else 0.0
    variance = float(observed.noise_variance[0])
    if rows is None:
        # E (M_0y + N_0y)^2 / n = M_0y^2 / n + v / 2n.
        total = float(b @ matrix @ b) + (variance / (2 * n) if centred else 0.0)
        floor = _CLEARLY * math.sqrt(variance)
    else:
        deviations = rows @ np.column_stack([c, b])
        second = deviations.T @ deviations / len(rows)
        total = float(b @ matrix @ b)  # without the noise's expectation: the matrix is debiased
        floor = _CLEARLY * math.sqrt(2 * len(rows)) * second[1, 1]
    if total <= floor:
        return math.nan, math.nan
    unexplained = residual * max(n - centred, 1) / total
    if rows is None:
        # d RSS = <c c^T, N>, d TSS = <b b^T, N>, and E <A, N> <B, N> = v tr(A B) without the corner.
        G = np.outer(c, c) - unexplained * np.outer(b, b)
        noise = variance * float(np.sum(G * G)) - (variance - observed.total_variance) * float(G[0, 0]) ** 2
    else:
        u, uw, w = second[0, 0], second[0, 1], second[1, 1]
        noise = 2 * len(rows) * (u**2 - 2 * unexplained * uw**2 + unexplained**2 * w**2)
    explained = 1 - unexplained
    sampling = share * 4 * max(explained, 0.0) * unexplained**2 / n
    return explained, math.sqrt(max(noise, 0.0) / total**2 + sampling)


def _in_units(
    observed: Observed,
    position: int,
    equation: _Equation,
    covariance: Reals,
    explained: tuple[float, float],
    *,
    level: float,
    degrees: float,
) -> Inference:
    linear, shift = unit_map(observed.schema, position)
    weights = np.delete(-equation.contrast, position + 1)
    estimates = linear @ weights + shift
    in_units = linear @ covariance @ linear.T
    deviations = np.sqrt(np.diag(in_units))
    reach = t_quantile((1 + level) / 2, degrees) * deviations
    facts: dict[str, Any] = {"level": level, "degrees": degrees, "covariance": in_units, "explained": explained}
    return _inference(observed, position, estimates, deviations, reach, **facts)


def _uninformative(observed: Observed, position: int, level: float) -> Inference:
    infinite = np.full(len(observed.schema.names), math.inf)
    unknown = np.full((len(infinite), len(infinite)), math.inf)
    facts: dict[str, Any] = {
        "level": level,
        "degrees": math.inf,
        "covariance": unknown,
        "explained": (math.nan, math.nan),
    }
    return _inference(observed, position, infinite * math.nan, infinite, infinite, **facts)


def _inference(
    observed: Observed,
    position: int,
    estimates: Reals,
    deviations: Reals,
    reach: Reals,
    *,
    explained: tuple[float, float],
    **facts: Any,
) -> Inference:
    """Assemble the result from arrays whose entry 0 belongs to the intercept; an infinite reach covers everything."""
    finite = np.isfinite(reach)
    low, high = np.where(finite, estimates - reach, -math.inf), np.where(finite, estimates + reach, math.inf)
    intervals = np.column_stack([low, high])
    return Inference(
        feature_names=tuple(np.delete(observed.schema.names, position).tolist()),
        coef=estimates[1:],
        standard_errors=deviations[1:],
        confidence_intervals=intervals[1:],
        intercept=float(estimates[0]),
        intercept_standard_error=float(deviations[0]),
        intercept_confidence_interval=intervals[0],
        clients=observed.clients,
        r_squared=explained[0],
        r_squared_standard_error=explained[1],
        total=observed.total,
        total_standard_error=None if observed.total is None else math.sqrt(observed.total_variance),
        **facts,
    )
