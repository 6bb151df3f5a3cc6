"""The models that `dpmpc fit` knows: what each reads from a table, which program runs, and how its answer is judged.

All rows are at hand here, as only in a simulation. What is computed from them beside the release (optimum, psi, exact
moment, clipped share) is for whoever owns them, and is not private.
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

from dpmpc.bounds import Schema, check_table
from dpmpc.errors import InputError
from dpmpc.estimators import FrequencyMoment, LowRankApproximation, PrivateEstimator, RidgeRegression
from dpmpc.release import GramRelease, Release
from dpmpc.render.fit import inference_fields, inference_table, values_table
from dpmpc.tables import Table

LEVEL = 0.95  # of the confidence intervals in a report


@dataclasses.dataclass(frozen=True)
class Findings:
    """What came of an analysis.

    Attributes
    ----------
    result : dict
        The "result" of the JSON contract.
    parts : list
        The same for a person.
    """

    result: dict[str, Any]
    parts: list[RenderableType]


class FitModel(abc.ABC):
    """A model, from the options of the command to its findings.

    Attributes
    ----------
    name : str
        As in `--model`.
    program : str
        What the parties run; its analyst fits the release.
    options : tuple of str
        Options of the command that only this model has.
    estimator : PrivateEstimator
        Reads the release.
    """

    name: ClassVar[str]
    program: ClassVar[str]
    options: ClassVar[tuple[str, ...]]
    estimator: PrivateEstimator

    def columns(self, bounded: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Names of the columns to read, given those with bounds; None for all."""
        return bounded

    def choices(self, asked: dict[str, Any], public: Schema) -> dict[str, Any]:
        """Return what `dpmpc.planning.design` is told, from what the user asked for."""
        return asked

    def features(self, table: Table) -> int:
        """Count the columns that are analysed."""
        return len(table.names)

    @abc.abstractmethod
    def check(self, table: Table) -> None:
        """Refuse a table that the model cannot be fitted to."""

    @abc.abstractmethod
    def arguments(self) -> dict[str, Any]:
        """Return what the program is told, as plain data."""

    def fit(self, release: Release | GramRelease) -> None:
        """Fit the release, as the program's analyst does."""
        self.estimator.fit_release(release)

    @abc.abstractmethod
    def judge(self, table: Table, answer: dict[str, Any]) -> Findings:
        """Say what the program answered, beside what the data itself would give; `fit` has been called."""


class RidgeFitModel(FitModel):
    """Ridge regression; `truth` holds the coefficients that generated the data, where they are known."""

    name = "ridge"
    program = "dpmpc.protocols.ridge_regression"
    options = ("target", "alpha", "no_intercept")
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

    def check(self, table: Table) -> None:
        """Refuse an unknown target, a table without features, a constant column."""
        check_table(table, self.target)

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
        return fitted.in_units(fitted.compare(table.values).best)[0]

    def error(self) -> float:
        """Return the relative distance of the coefficients from the truth, in L2 norm."""
        assert self.truth is not None
        return float(np.linalg.norm(self.estimator.coef_ - self.truth) / np.linalg.norm(self.truth))

    def judge(self, table: Table, answer: dict[str, Any]) -> Findings:
        """Compare coefficients and phi with the optimum and with the trivial predictor."""
        fitted = self.estimator
        compared = fitted.compare(table.values)
        found = None if isinstance(fitted.release_, GramRelease) else fitted.inference(LEVEL)
        result = {
            **answer,
            **({} if found is None else inference_fields(found)),
            "approximation_factor": compared.approximation_factor,
            "trivial_factor": compared.trivial_factor,
            "largest_clipped_fraction": _clipped(fitted.release_.task.schema, table),
        }
        columns: dict[str, Sequence[float]] = {} if self.truth is None else {"truth": list(self.truth)}
        columns |= {
            "private": list(answer["coefficients"].values()),
            "not private": list(fitted.in_units(compared.best)[0]),
            "trivial": [0.0] * len(fitted.coef_),
        }
        lines = [
            f"target {fitted.target_}, intercept {fitted.intercept_:.5g}, penalty {fitted.alpha_:g}",
            f"cost / optimal cost (phi): private {result['approximation_factor']:.4g}, "
            f"trivial predictor {result['trivial_factor']:.4g}",
        ]
        if self.truth is not None:
            lines.append(f"private coefficients are within {self.error():.1%} of the truth in L2 norm")
        tables = [values_table("Coefficients", fitted.feature_names_, columns)]
        return _findings(result, lines, *tables, *([] if found is None else [inference_table(found)]))


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

    def check(self, table: Table) -> None:
        """Refuse a rank above the number of columns, or a constant column."""
        self.estimator.check_parameters(len(table.names))
        check_table(table)

    def arguments(self) -> dict[str, Any]:
        """Return the rank."""
        return {"model": {"n_components": self.estimator.n_components}}

    def judge(self, table: Table, answer: dict[str, Any]) -> Findings:
        """Compare psi with that of a random projection."""
        fitted = self.estimator
        result = {
            **answer,
            "psi": fitted.excess_risk(table.values),
            "random_psi": fitted.random_excess_risk(table.values),
            "largest_clipped_fraction": _clipped(fitted.release_.task.schema, table),
        }
        columns: dict[str, Sequence[float]] = {
            f"component {number}": list(row.values()) for number, row in enumerate(answer["components"], 1)
        }
        lines = [
            f"excess risk (psi, 0 = optimal): private {result['psi']:.4g}, "
            f"a random projection {result['random_psi']:.4g}; in normalised units, as the components are"
        ]
        return _findings(result, lines, values_table("Components", fitted.feature_names_, columns))


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
        """Replace the rows of a sketch of clients by the statistic that is summed."""
        return {**asked, "rows": None, **self.estimator.task_choices(public)}

    def check(self, table: Table) -> None:
        """Refuse several columns where none is named, and items that are not whole numbers."""
        if len(table.names) != 1:
            raise InputError(f"column: none given, one of {', '.join(table.names)} expected (--column)")
        self.estimator.check_table(table)

    def arguments(self) -> dict[str, Any]:
        """Return the kind and the order of the moment."""
        return {"model": {"order": self.estimator.order, "of": self.estimator.of}}

    def judge(self, table: Table, answer: dict[str, Any]) -> Findings:
        """Compare with the moment of the column as it is, not clipped."""
        fitted = self.estimator
        result = {
            **answer,
            "exact_moment": fitted.exact_moment(table.values),
            "largest_clipped_fraction": _clipped(fitted.release_.task.schema, table),
        }
        what = "sum of f^2 over the items' counts f" if fitted.of == "items" else f"sum of x^{fitted.order}"
        lines = [
            f"{fitted.column_}, {what}: private {answer['moment']:.6g} +- {answer['standard_error']:.3g} "
            f"(standard error), not private {result['exact_moment']:.6g}"
        ]
        return _findings(result, lines)


_ANALYSES = {kind.name: kind for kind in (RidgeFitModel, LowRankFitModel, MomentFitModel)}


def fit_model_of(options: argparse.Namespace) -> FitModel:
    """Make the analysis that `dpmpc fit --model` names; an option of another model is an error."""
    chosen = _ANALYSES[options.model]
    for other in _ANALYSES.values():
        for option in other.options:
            given = getattr(options, option)
            if option not in chosen.options and given not in (None, False):
                raise InputError(f"{option}: {given!r} given, but that is for --model {other.name}, not {chosen.name}")
    return chosen.of(options)


def _findings(result: dict[str, Any], lines: list[str], *tables: RenderableType) -> Findings:
    clipped = result["largest_clipped_fraction"]
    if clipped > 0:
        lines = [*lines, f"the public bounds clipped up to {clipped:.2%} of a column's values"]
    return Findings(result, [*tables, "\n".join(lines)])


def _clipped(public: Schema, table: Table) -> float:
    """Largest share of a column's values that the public bounds clipped."""
    return float(np.max(public.clipped_fraction(table.values)))
