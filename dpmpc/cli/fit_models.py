"""The models that `dpmpc fit` knows: what each reads from a table, which program runs, and how its answer is judged.

All rows are at hand here, as only in a simulation. What is computed from them beside the release (optimum, psi, exact
moment, clipped share) is for whoever owns them and is not private: `FitModel.compare` alone is given the rows, and is
called only where the comparison was requested.
"""

from __future__ import annotations

import abc
import argparse
import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from rich.console import RenderableType
from rich.markup import escape

from dpmpc.data import Schema, Table, check_table
from dpmpc.errors import InputError
from dpmpc.estimators import FrequencyMoment, LowRankApproximation, PrivateEstimator, RidgeRegression
from dpmpc.estimators.summary import Summary
from dpmpc.release import GramRelease, Release
from dpmpc.render.fit import inference_fields, inference_table, values_table
from dpmpc.results import NumberTable

LEVEL = 0.95  # of the confidence intervals in a report


@dataclasses.dataclass(frozen=True)
class Findings:
    """What came of an analysis: a function of the release, or a comparison with the data at hand."""

    result: dict[str, Any]  # the "result" of the JSON contract; of a comparison its entry "not_private"
    parts: list[RenderableType]  # the same for a person


class FitModel(abc.ABC):
    """A model, from the options of the command to its findings."""

    name: ClassVar[str]  # as in `--model`
    program: ClassVar[str]  # what the parties run; its analyst fits the release
    options: ClassVar[tuple[str, ...]]  # options of the command that only this model has
    estimator: PrivateEstimator  # reads the release

    def columns(self, bounded: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Return the names of the columns to read, given those with bounds; None for all."""
        return bounded

    def choices(self, asked: dict[str, Any], public: Schema) -> dict[str, Any]:
        """Return what `dpmpc.planning.design` is told, from what the user asked for."""
        return asked

    def features(self, table: Table) -> int:
        """Count the columns that are analysed."""
        return len(table.names)

    @abc.abstractmethod
    def check(self, table: Table, public: Schema) -> None:
        """Refuse a table that the model cannot be fitted to."""

    @abc.abstractmethod
    def arguments(self) -> dict[str, Any]:
        """Return what the program is told, as plain data."""

    def fit(self, release: Release | GramRelease) -> None:
        """Fit the release, as the program's analyst does."""
        self.estimator.fit_release(release)

    def tables(self) -> list[NumberTable]:
        """Return tables of the result for the page, where it does not draw them from the result itself."""
        return []

    @abc.abstractmethod
    def judge(self, answer: dict[str, Any]) -> Findings:
        """Say what the program answered and the release shows; `fit` has been called."""

    @abc.abstractmethod
    def compare(self, table: Table) -> Findings:
        """Compare with what the data itself would give, which is not private; `judge` has been called."""


class RidgeFitModel(FitModel):
    """Ridge regression; `truth` holds the coefficients that generated the data, where they are known."""

    name = "ridge"
    program = "dpmpc.protocols.ridge_regression"
    options = ("target", "alpha", "no_intercept", "rounds", "by")
    estimator: RidgeRegression

    def __init__(self, estimator: RidgeRegression, target: str, truth: NDArray[np.float64] | None = None):
        estimator.check_parameters()
        self.estimator = estimator
        self.target = target
        self.truth = truth

    @classmethod
    def of(cls, options: argparse.Namespace) -> RidgeFitModel:
        """Read the command's options."""
        if options.target is None:
            raise InputError("target: none given, the name of the column to predict expected (--target)")
        alpha = 1.0 if options.alpha is None else options.alpha
        return cls(RidgeRegression(alpha, fit_intercept=not options.no_intercept), options.target)

    def features(self, table: Table) -> int:
        """Count the columns beside the target."""
        return len(table.names) - 1

    def check(self, table: Table, public: Schema) -> None:
        """Refuse an unknown target and a table without features."""
        check_table(table, self.target, public)

    def arguments(self) -> dict[str, Any]:
        """Return the target and the estimator's parameters."""
        model = {"alpha": self.estimator.alpha, "fit_intercept": self.estimator.fit_intercept}
        return {"target": self.target, "model": model}

    def fit(self, release: Release | GramRelease) -> None:
        """Fit the release with the target as asked."""
        self.estimator.fit_release(release, target=self.target)

    def optimum(self, table: Table) -> NDArray[np.float64]:
        """Return the coefficients that the data itself would give; not private."""
        fitted = self.estimator
        rows, weights = _rows_and_weights(fitted.release_.task.schema, table)
        return fitted.in_units(fitted.compare(rows, weights=weights).best)[0]

    def error(self) -> float:
        """Return the relative distance of the coefficients from the truth, in L2 norm."""
        assert self.truth is not None
        return float(np.linalg.norm(self.estimator.coef_ - self.truth) / np.linalg.norm(self.truth))

    def judge(self, answer: dict[str, Any]) -> Findings:
        """Return coefficients and, of an opened release, their intervals."""
        fitted = self.estimator
        found = None if isinstance(fitted.release_, GramRelease) else fitted.inference(LEVEL)
        told = f"target {fitted.target_}, intercept {fitted.intercept_:.5g}, penalty {fitted.alpha_:g}"
        private = list(answer["coefficients"].values())
        return Findings(
            {**answer, **({} if found is None else inference_fields(found))},
            [
                values_table("Coefficients", fitted.feature_names_, {"private": private}),
                *([] if found is None else [inference_table(found)]),
                escape(told),
                *([] if found is None else map(escape, Summary.of(self.target, found).notes)),
            ],
        )

    def compare(self, table: Table) -> Findings:
        """Compare coefficients and phi with the optimum and with the trivial predictor."""
        fitted = self.estimator
        fitted.warn_of_probabilities(table.column(self.target))
        rows, weights = _rows_and_weights(fitted.release_.task.schema, table)
        compared = fitted.compare(rows, weights=weights)
        not_private = {
            "approximation_factor": compared.approximation_factor,
            "trivial_factor": compared.trivial_factor,
            **clipped(fitted.release_.task.schema, table),
        }
        columns: dict[str, Sequence[float]] = {} if self.truth is None else {"truth": list(self.truth)}
        columns |= {
            "private": fitted.coef_.tolist(),
            "not private": list(fitted.in_units(compared.best)[0]),
            "trivial": [0.0] * len(fitted.coef_),
        }
        lines = [
            f"cost / optimal cost (phi): private {compared.approximation_factor:.4g}, "
            f"trivial predictor {compared.trivial_factor:.4g}"
        ]
        if self.truth is not None:
            lines.append(f"private coefficients are within {self.error():.1%} of the truth in L2 norm")
        shown = values_table("Comparison with the data", fitted.feature_names_, columns)
        return Findings(not_private, compared_parts([shown], lines, not_private))


class LowRankFitModel(FitModel):
    """Low-rank approximation of all columns."""

    name = "low-rank"
    program = "dpmpc.protocols.low_rank_approximation"
    options = ("components",)
    estimator: LowRankApproximation

    def __init__(self, estimator: LowRankApproximation):
        self.estimator = estimator

    @classmethod
    def of(cls, options: argparse.Namespace) -> LowRankFitModel:
        """Read the command's options."""
        return cls(LowRankApproximation(3 if options.components is None else options.components))

    def choices(self, asked: dict[str, Any], public: Schema) -> dict[str, Any]:
        """Add what the default number of rows depends on."""
        return {**asked, "purpose": "low-rank"}

    def check(self, table: Table, public: Schema) -> None:
        """Refuse a rank above the number of columns."""
        self.estimator.check_parameters(len(table.names))
        check_table(table, public=public)

    def arguments(self) -> dict[str, Any]:
        """Return the rank."""
        return {"model": {"n_components": self.estimator.n_components}}

    def judge(self, answer: dict[str, Any]) -> Findings:
        """Return the components."""
        columns: dict[str, Sequence[float]] = {
            f"component {number}": list(row.values()) for number, row in enumerate(answer["components"], 1)
        }
        return Findings(dict(answer), [values_table("Components", self.estimator.feature_names_, columns)])

    def compare(self, table: Table) -> Findings:
        """Compare psi with that of a random projection."""
        fitted = self.estimator
        not_private = {
            "psi": fitted.excess_risk(table.values),
            "random_psi": fitted.random_excess_risk(table.values),
            **clipped(fitted.release_.task.schema, table),
        }
        lines = [
            f"excess risk (psi, 0 = optimal): private {not_private['psi']:.4g}, "
            f"a random projection {not_private['random_psi']:.4g}; in normalised units, as the components are"
        ]
        return Findings(not_private, compared_parts([], lines, not_private))


class MomentFitModel(FitModel):
    """A frequency moment of one column; `column` may be None where there is only one."""

    name = "moment"
    program = "dpmpc.protocols.frequency_moments"
    options = ("column", "order", "items")
    estimator: FrequencyMoment

    def __init__(self, estimator: FrequencyMoment, column: str | None):
        estimator.check_parameters()
        self.estimator = estimator
        self.column = column

    @classmethod
    def of(cls, options: argparse.Namespace) -> MomentFitModel:
        """Read the command's options; `--rows` is the size of the items' sketch."""
        estimator = FrequencyMoment(
            2 if options.order is None else options.order,
            of="items" if options.items else "values",
            rows=options.rows,
            simulation_seed=options.simulation_seed,
        )
        return cls(estimator, options.column)

    def columns(self, bounded: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Return the one column; with none named, what there is."""
        return bounded if self.column is None else (self.column,)

    def choices(self, asked: dict[str, Any], public: Schema) -> dict[str, Any]:
        """Replace the rows of a sketch of clients by the contribution that is summed."""
        return {**asked, "rows": None, **self.estimator.task_choices(public)}

    def check(self, table: Table, public: Schema) -> None:
        """Refuse several columns where none is named, and items that are not whole numbers."""
        if len(table.names) != 1:
            raise InputError(f"column: none given, one of {', '.join(table.names)} expected (--column)")
        self.estimator.check_table(table)

    def arguments(self) -> dict[str, Any]:
        """Return the kind and the order of the moment."""
        return {"model": {"order": self.estimator.order, "of": self.estimator.of}}

    def judge(self, answer: dict[str, Any]) -> Findings:
        """Return the moment and its standard error."""
        fitted = self.estimator
        what = "sum of f^2 over the items' counts f" if fitted.of == "items" else f"sum of x^{fitted.order}"
        told = (
            f"{fitted.column_}, {what}: private {answer['moment']:.6g} +- {answer['standard_error']:.3g} "
            "(standard error)"
        )
        return Findings(dict(answer), [escape(told)])

    def compare(self, table: Table) -> Findings:
        """Compare with the moment of the unclipped column."""
        fitted = self.estimator
        not_private = {
            "exact_moment": fitted.exact_moment(table.values),
            **clipped(fitted.release_.task.schema, table),
        }
        lines = [f"not private: {not_private['exact_moment']:.6g}"]
        return Findings(not_private, compared_parts([], lines, not_private))


def compared_parts(
    tables: Sequence[RenderableType], lines: Sequence[str], not_private: dict[str, Any]
) -> list[RenderableType]:
    """Return what a person reads of a comparison with the data, which is not private."""
    share = not_private["largest_clipped_fraction"]
    said = [*lines, f"the public bounds clipped up to {share:.2%} of a column's values"] if share > 0 else lines
    return ["Not private, for whoever owns the data:", *tables, "\n".join(said)]


def _rows_and_weights(public: Schema, table: Table) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Return the rows, and how much each counts in units of the largest weight, where they have weights."""
    if not public.weighted:
        return table.values, None
    return table.values[:, :-1], np.clip(table.values[:, -1] / public.columns[-1].upper, 0.0, 1.0)


def clipped(public: Schema, table: Table) -> dict[str, float]:
    """Return the largest share of a column's values that the public bounds clipped."""
    return {"largest_clipped_fraction": float(np.max(public.clipped_fraction(table.values)))}
