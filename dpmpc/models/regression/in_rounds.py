"""Logistic and Poisson regression from rounds of noisy sums (docs/mathematics.md, section 12).

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
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dpmpc.base.arguments import require_fraction
from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.data import Column, Schema
from dpmpc.models.common.inference import Inference
from dpmpc.models.common.release_parts import chosen_columns, column_index, selection
from dpmpc.models.common.releases import Releases
from dpmpc.models.common.scikit import name_features, require_fitted
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
from dpmpc.models.rounds.fit import RoundsFit, fit_in_rounds, fit_start
from dpmpc.models.rounds.models import LogisticModel, PoissonModel, RoundModel
from dpmpc.release.release import Release
from dpmpc.release.results import NumberTable, Result
from dpmpc.release.results.number_tables import finite_or_none
from dpmpc.release.results.plot_data import Effects, PlotData

_MOST_LOG = 700.0  # the exponential of more is too large for a number


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class FitInRounds(Fitted):
    """What the regressions that take several sums read from them; nothing here makes a release of data.

    `dpmpc.LogisticRegression` and `dpmpc.PoissonRegression` say what parameters and attributes are.
    """

    kind: ClassVar[str]  # as in `dpmpc fit --model`
    ratio: ClassVar[str]  # what exp(coefficient) is the ratio of
    python_name: ClassVar[str]  # of the estimator that people use

    rounds: int | str = "auto"
    intervals: bool = True
    private_bounds: bool = False

    def inference(self, level: float = 0.95) -> Inference:
        """Compute standard errors and confidence intervals, of sampling and noise together, from the releases alone.

        They are those of the last rounds' estimates, `Inference.coef`, which are not shrunken as `coef_` is, and do not
        assume that the model is right (HC0). Where intervals would not hold their level, as far as the releases tell,
        they are infinite, and `no_interval_` says why (docs/mathematics.md, section 12.4).

        Parameters
        ----------
        level : float
            Nominal coverage of each interval, strictly between 0 and 1.
        """
        return inference_of(self, require_fraction("level", level))

    def fit_rounds(self, releases: Releases) -> Self:
        """Have the rounds made by whoever answers them, servers that are processes or files, and take the result.

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
            estimator=self.python_name,
            chosen=selection(public.names, self.target_, self.feature_names_),
            features=len(self.feature_names_),
        )

    @property
    def parameters(self) -> dict[str, object]:
        """What the estimator was given, so that it can be made again."""
        return {"rounds": self.rounds, "intervals": self.intervals, "private_bounds": self.private_bounds}

    def _intercept_of_mean(self, mean: float) -> float:
        """Return the linear predictor at which the model's mean is the released one, within what the data can have."""
        raise NotImplementedError


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class LogisticFit(FitInRounds):
    """A logistic regression as it is read from releases."""

    kind, ratio, python_name = "logistic", "odds", "LogisticRegression"

    classes: Sequence[Any] | None = None

    def fit_release(self, release: Release, target: str | int = -1, *, features: Sequence[str] | None = None) -> Self:
        """Fit one release of second moments without any round: pure post-processing, and an approximation.

        What `fit` does with ``rounds=0``: scaled least squares (`dpmpc.models.rounds.start`). The direction of least
        squares is right for Gaussian features; elsewhere coefficients are off by a few hundredths to more than half of
        the effects, however many people there are, and there are no intervals.

        Parameters
        ----------
        release : Release
            Of second moments: a sum.
        target : str or int
            The column to predict, whose bounds are (0, 1); the last by default.
        features : sequence of str, optional
            The columns to predict it from, in the order of `coef_`; by default all others.
        """
        name = release.columns[column_index(release.columns, target)]
        chosen = [one for one in chosen_columns(release.columns, name, features) if one != name]
        selected = release.select([*chosen, name])
        self.round_model(selected.schema.columns[-1])  # which refuses other bounds
        self.classes_ = self._public_classes()
        return self._take(fit_start(release, selected), selected.schema, stacklevel=3)

    def fit_rounds(self, releases: Releases) -> Self:
        """Do what `FitInRounds.fit_rounds` does; the target is 0 for the first class and 1 for the second."""
        self.classes_ = self._public_classes()
        return super().fit_rounds(releases)

    def odds_ratios(self, level: float = 0.95) -> NumberTable:
        """Return the table of the model: coefficients, odds ratios exp(coefficient) and their intervals.

        Parameters
        ----------
        level : float
            Nominal coverage of each interval, strictly between 0 and 1.
        """
        return self.summary(level).coefficients

    def _intercept_of_mean(self, mean: float) -> float:
        rare = 1 / max(self.releases_[0].clients, 2)
        odds = min(max((1 + mean) / 2, rare), 1 - rare)
        return math.log(odds / (1 - odds))

    def _public_classes(self) -> NDArray[Any]:
        """Return what 0 and 1 in a release stand for."""
        return np.array([0, 1]) if self.classes is None else self._two(self.classes)

    @staticmethod
    def _two(classes: Any) -> NDArray[Any]:
        try:
            found = np.asarray(classes)
        except ValueError:  # lists of several lengths
            found = np.empty((0, 0))
        if found.ndim != 1 or any(label is None or label != label for label in found.tolist()):  # None or NaN
            raise InputError(f"classes: {classes!r} given, a list of two labels expected, numbers or words")
        if len(found) > 2:
            raise InputError(f"classes: {found.tolist()} given, where two labels are expected")
        if len(set(found.tolist())) < 2:
            raise InputError(f"classes: {found.tolist()} given, not one class but two expected")
        return found

    def round_model(self, target: Column) -> RoundModel:
        """Return the model of a target between 0 and 1; others are refused."""
        if (target.lower, target.upper) != (0.0, 1.0):
            raise InputError(
                f"bounds of column {target.name!r}: ({target.lower:g}, {target.upper:g}) given, (0, 1) expected of the "
                "target of a logistic model: 0 for no, 1 for yes"
            )
        return LogisticModel()


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class PoissonFit(FitInRounds):
    """A Poisson regression as it is read from releases."""

    kind, ratio, python_name = "poisson", "rate", "PoissonRegression"

    most: int = 100

    @property
    def parameters(self) -> dict[str, object]:
        """What the estimator was given, so that it can be made again."""
        return {**super().parameters, "most": self.most}

    def rate_ratios(self, level: float = 0.95) -> NumberTable:
        """Return the table of the model: coefficients, rate ratios exp(coefficient) and their intervals.

        Parameters
        ----------
        level : float
            Nominal coverage of each interval, strictly between 0 and 1.
        """
        return self.summary(level).coefficients

    def round_model(self, target: Column) -> RoundModel:
        """Return the model of counts between 0 and `most`; other targets are refused."""
        if (target.lower, target.upper) != (0.0, float(self.most)):
            raise InputError(
                f"bounds of column {target.name!r}: ({target.lower:g}, {target.upper:g}) given, (0, {self.most}) "
                "expected of the target of a Poisson model: from 0 to the largest count"
            )
        return PoissonModel(self.most)

    def _intercept_of_mean(self, mean: float) -> float:
        return math.log(max(self.most * (1 + mean) / 2, 1 / self.releases_[0].clients))


def _finite_ratio(values: Reals) -> Reals:
    return ratio_of(np.minimum(values, _MOST_LOG))
