"""Logistic and Poisson regression from rounds of noisy sums.

`fit` simulates clients and servers in this process, who answer every round with fresh noise; the analyst's part, and
all that the result is read from, is `dpmpc.models.rounds`.

Promised: all rounds together cost the budget that is given, replacing one row in all of them alike (`guarantee_`).
Not promised: that a logistic fit without rounds is near the best one
(`dpmpc.models.regression.round_fits.APPROXIMATION`); a fit where there are too few people. Then the releases say so:
`verdict_` has the reason, `coef_` is NaN, predictions are the released mean, and a `UtilityWarning` is raised.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmpc.base.arguments import PREDICT_ONLY, PRIVATE_BOUNDS, ROUNDS, require_fraction, whole_or_auto
from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.data import Column, Schema, Table
from dpmpc.data.data_checks import check_table
from dpmpc.models.common.commanded import CommandedInRounds, NotPrivate, option
from dpmpc.models.common.inference import Inference
from dpmpc.models.common.private_estimator import PrivateEstimator, schema_of, table_of, target_name
from dpmpc.models.common.release_parts import selection
from dpmpc.models.common.releases import Releases
from dpmpc.models.common.scikit import name_features, remember_features, require_fitted, rows_like_fitted
from dpmpc.models.common.summary import Summary, ratio_of
from dpmpc.models.regression.round_fits import (
    ERRORS,
    Fitted,
    approximation_of,
    bounds_fields,
    bounds_tables,
    features_in_units,
    inference_of,
    no_interval_text,
    rounds_text,
    take,
)
from dpmpc.models.regression.rounds_forecast import forecast_rounds
from dpmpc.models.rounds.fit import RoundsFit, fit_in_rounds
from dpmpc.models.rounds.models import RoundModel
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning.forecast import Assumptions, Forecast
from dpmpc.release.results import NumberTable, Result
from dpmpc.release.results.number_tables import finite_or_none
from dpmpc.release.results.plot_data import Effects, PlotData

_MOST_LOG = 700.0  # the exponential of more is too large for a number


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class RegressionInRounds(Fitted, PrivateEstimator, CommandedInRounds):
    """Base of the regressions that take several sums."""

    kind: ClassVar[str]  # as in `dpmpc fit --model`
    ratio: ClassVar[str]  # what exp(coefficient) is the ratio of
    assumes: ClassVar[tuple[str, ...]] = ("spread", "mean", "effect")
    from_features = True
    named = ("target", "the name of the column to predict; required")

    rounds: int | str = option("auto", f"{ROUNDS} (default auto)", type=whole_or_auto, metavar="R")
    intervals: bool = option(True, PREDICT_ONLY, flag="--predict-only")
    private_bounds: bool = option(False, PRIVATE_BOUNDS)

    def forecast(self, spec: ReleaseSpec, assumed: Assumptions | None = None) -> Forecast:
        """Return what a fit is expected to show; see `Commanded.forecast`."""
        choices = {"intervals": self.intervals, "private_bounds": self.private_bounds}
        return forecast_rounds(self.kind, spec, self.rounds, assumed or Assumptions(), **choices)

    def _fit(self, X: Any, y: Any, target: Any, upper: float) -> None:
        """Have the rounds made of rows and targets in this process, and take the result."""
        table = table_of(self, X, target, target_name(self.bounds, y))
        public = schema_of(self.bounds, table.names, Column(table.names[-1], 0.0, upper))
        self.round_model(public.columns[-1])
        check_table(table, public=public)
        self._take_rounds(self.releases(table, public))
        remember_features(self, X)

    def _predictor(self, X: ArrayLike) -> Reals:
        """Return the linear predictor of rows (m, d); that of the mean where nothing was learned."""
        rows = rows_like_fitted(self, X)
        if self.verdict_ is not None:
            return np.full(len(rows), self.intercept_)
        return np.asarray(rows @ self.coef_ + self.intercept_)

    def in_rounds(self, spec: ReleaseSpec) -> bool:
        """Return that a fit makes a row of sums, of which the first may be the only one."""
        return True

    def compare_with(self, table: Table) -> NotPrivate:
        """Compare with the maximum of the likelihood of the rows at hand."""
        from dpmpc.models.papers.baselines.likelihood import maximum_likelihood, mean_loss, trivial_loss

        public = self.releases_[-1].schema
        Z = public.normalise(table.values)
        X, y = Z[:, :-1], public.denormalise(Z)[:, -1]
        best = maximum_likelihood(self.kind, X, y)
        linear = features_in_units(public)
        units = linear @ best.coefficients
        losses = {
            "best_loss": mean_loss(self.kind, best.coefficients, X, y),
            "trivial_loss": trivial_loss(self.kind, X, y),
        }
        columns: dict[str, Sequence[float]] = {"not private": units[1:].tolist()}
        if self.verdict_ is None:
            normalised = np.linalg.solve(linear, [self.intercept_, *self.coef_])
            losses = {"loss": mean_loss(self.kind, normalised, X, y), **losses}
            columns = {"private": self.coef_.tolist(), **columns}
        listed = ", ".join(f"{name.replace('_', ' ')} {value:.5g}" for name, value in losses.items())
        lines = [f"mean loss (-log likelihood): {listed}"]
        if not best.converged:
            lines.append("the likelihood of the rows has no maximum that was found: features may determine the target")
        data: dict[str, object] = {
            "coefficients": dict(zip(self.feature_names_, columns["not private"], strict=True)),
            "intercept": float(units[0]),
            "converged": best.converged,
            **losses,
        }
        shown = NumberTable("Comparison with the data", columns, self.feature_names_)
        return NotPrivate.of(data, public, table, [shown], *lines)

    def inference(self, level: float = 0.95) -> Inference:
        """Compute standard errors and confidence intervals, of sampling and noise together, from the releases alone.

        They are those of the last rounds' estimates, `Inference.coef`, which are not shrunken as `coef_` is, and do not
        assume that the model is right (HC0). Where intervals would not hold their level, as far as the releases show,
        they are infinite, and `no_interval_` states why.

        Parameters
        ----------
        level : float
            Nominal coverage of each interval, strictly between 0 and 1.
        """
        return inference_of(self, require_fraction("level", level))

    def fit_rounds(self, releases: Releases) -> Self:
        """Have the rounds made by what answers them, servers that are processes or files, and take the result.

        Parameters
        ----------
        releases : Releases
            Whose columns are the features and, last, the target with the bounds that this model has. Budget, bounds and
            trust are theirs, and the parameters of this estimator that name others are not used.
        """
        return self._take_rounds(releases)

    def _take_rounds(self, releases: Releases) -> Self:
        model = self.round_model(releases.schema.columns[-1])
        fit = fit_in_rounds(model, releases, self.rounds, intervals=self.intervals, private_bounds=self.private_bounds)
        return self._take(fit, releases.schema)

    def _take(self, fit: RoundsFit, public: Schema, *, stacklevel: int = 5) -> Self:
        """Set what a fit of the last of these columns has found."""
        take(self, fit, public, features_in_units(public), stacklevel=stacklevel)
        if fit.verdict is not None:
            self.intercept_ = self._intercept_of_mean(fit.mean)
        name_features(self, self.feature_names_)
        return self

    def round_model(self, target: Column) -> RoundModel:
        """Return what is iterated, for a target with these bounds, or refuse them."""
        raise NotImplementedError

    def summary(self, level: float = 0.95) -> Summary:
        """Return the table of the regression: coefficients, standard errors, tests, ratios and their intervals.

        Parameters
        ----------
        level : float
            Nominal coverage of each interval, strictly between 0 and 1.
        """
        require_fitted(self)
        found, approximation = self.inference(level), approximation_of(self)
        said = ERRORS if found.informative else no_interval_text(str(self.no_interval_))
        said = said if approximation is None else f"This is {approximation}."
        if self.verdict_ is not None:
            found = dataclasses.replace(found, no_interval=f"No coefficients can be trusted: {self.verdict_}.")
        fitted = np.array([self.intercept_, *self.coef_]) if found.informative else None
        return Summary.of(self.target_, found, fitted=fitted, ratio=self.ratio, said=[said])

    def result(self, level: float = 0.95) -> Result:
        """Return all that the releases say of the model, as `dpmpc fit` and `dpmpc read` show it.

        Parameters
        ----------
        level : float
            Nominal coverage of each interval, strictly between 0 and 1.
        """
        summary, approximation, learned = self.summary(level), approximation_of(self), self.verdict_ is None
        found, ratio, rounds = summary.inference, self.ratio, self.rounds_
        known = learned and found.informative

        def named(values: Reals, *, there: bool) -> dict[str, object] | None:
            return dict(zip(self.feature_names_, values.tolist(), strict=True)) if there else None

        def told(values: Reals, otherwise: object) -> dict[str, object] | None:
            listed = zip(self.feature_names_, values.tolist(), found.identified, strict=True)
            return {name: value if there else otherwise for name, value, there in listed} if known else None

        ends = known and math.isfinite(found.intercept_standard_error)

        public = self.releases_[-1].schema
        shown = np.where(found.identified, found.coef, self.coef_) if known else self.coef_
        effects = Effects(
            self.target_,
            {column.name: column.upper - column.lower for column in public.columns},
            dict(zip(self.feature_names_, shown.tolist(), strict=True)),
            {
                name: interval.tolist()
                for name, interval, there in zip(
                    self.feature_names_, found.confidence_intervals, found.identified, strict=True
                )
                if there
            },
            found.level,
            ratio,
        )
        return Result(
            model=self.kind,
            title=f"{self.kind.capitalize()} regression of {self.target_}"
            + ("" if approximation is None else ", approximate"),
            tables=[*([summary.coefficients] if learned else []), *bounds_tables(self, level)],
            notes=[rounds_text(self)] if learned else ["There are no coefficients."],
            warnings=[]
            if learned and approximation is None
            else [f"this is {approximation}" if learned else f"no coefficients can be trusted: {self.verdict_}"],
            verdict=None if learned else summary.verdict,
            plots={"ratios": lambda: PlotData("effects", {"found": effects})} if learned else {},
            data={
                "target": self.target_,
                "rounds": rounds,
                "approximation": approximation,
                "noise_error": self.start_error_,
                "noise_part": None if self.noise_part_ is None else finite_or_none(self.noise_part_),
                "verdict": self.verdict_,
                "no_interval": self.no_interval_,
                "private_bounds": bounds_fields(self),
                "coefficients": named(self.coef_, there=learned),
                "intercept": self.intercept_ if learned else None,
                "estimates": told(found.coef, None),
                "intercept_estimate": found.intercept if ends else None,
                "confidence_level": found.level,
                "errors": found.errors,
                "standard_errors": told(found.standard_errors, None),
                "confidence_intervals": told(found.confidence_intervals, [None, None]),
                "intercept_standard_error": found.intercept_standard_error if ends else None,
                "intercept_confidence_interval": found.intercept_confidence_interval.tolist() if ends else None,
                f"{ratio}_ratios": named(_finite_ratio(shown), there=learned),
                f"{ratio}_ratio_intervals": told(_finite_ratio(found.confidence_intervals), [None, None]),
                "informative": known,
                **found.identification,
                "tests": summary.tested,
            },
            parameters=self.parameters,
            estimator=type(self).__name__,
            chosen=selection(public.names, self.target_, self.feature_names_),
            features=len(self.feature_names_),
            level=level,
            estimates=lambda level: self.summary(level).estimates,
            guarantee=self.guarantee_,
        )

    @property
    def parameters(self) -> dict[str, object]:
        """What the estimator was given, so that it can be made again."""
        return {"rounds": self.rounds, "intervals": self.intervals, "private_bounds": self.private_bounds}

    def _intercept_of_mean(self, mean: float) -> float:
        """Return the linear predictor at which the model's mean is the released one, within what the data can have."""
        raise NotImplementedError


def _finite_ratio(values: Reals) -> Reals:
    return ratio_of(np.minimum(values, _MOST_LOG))


def require_values(table: Table, target: str, allowed: Callable[[Reals], NDArray[np.bool_]], expected: str) -> None:
    """Refuse the first value of the target that is not allowed; for the holder of the rows."""
    strange = np.flatnonzero(~allowed(table.column(target)))
    if len(strange):
        row = int(strange[0])
        raise InputError(
            f"column {target!r}",
            f"{table.column(target)[row]:g} given in row {row + 1}, {expected} expected of a target",
        )
