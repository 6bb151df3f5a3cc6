"""The models of `dpmpc fit` and the table of `dpmpc describe`: what each reads, and how it is judged.

All rows are at hand here, as only in a simulation. What is computed from them beside the release (optimum, psi, exact
moment, clipped share) is for whoever owns them and is not private: `FitModel.compare` alone is given the rows, and is
called only where the comparison was requested.
"""

from __future__ import annotations

import abc
import argparse
import dataclasses
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.data import Codebook, Schema, Table
from dpmpc.data.data_checks import check_table
from dpmpc.linear.contributions.cells import CellCounts
from dpmpc.models import (
    FrequencyMoment,
    LowRankApproximation,
    RidgeRegression,
    TableOne,
)
from dpmpc.release.release import GramRelease, Release
from dpmpc.release.results import NumberTable, Result

LEVEL = 0.95  # of the confidence intervals in a report


@dataclasses.dataclass(frozen=True)
class NotPrivate:
    """A comparison with the data at hand."""

    data: dict[str, object]  # the entry "not_private" of the JSON contract
    tables: Sequence[NumberTable]  # the same for a person
    lines: Sequence[str]

    def __str__(self) -> str:
        """Return what a person reads."""
        return "\n\n".join(["Not private, for whoever owns the data:", *map(str, self.tables), "\n".join(self.lines)])


class FitModel(abc.ABC):
    """A model, from the options of the command to its findings."""

    name: ClassVar[str]  # as in `--model`
    options: ClassVar[tuple[str, ...]]  # options of the command that only this model has
    estimator: Any  # reads the release

    def columns(self, bounded: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Return the names of the columns to read, given those with bounds; None for all."""
        return bounded

    def codebook(self, book: Codebook) -> Codebook:
        """Return the variables to read, given those of the bounds file."""
        return book

    def choices(self, asked: dict[str, Any], public: Schema) -> dict[str, Any]:
        """Return what `dpmpc.release.design` is told, from what the user asked for."""
        return asked

    @abc.abstractmethod
    def check(self, table: Table, public: Schema) -> None:
        """Refuse a table that the model cannot be fitted to."""

    def fit(self, release: Release) -> None:
        """Fit the release, which is kept."""
        self.estimator.fit_release(release)

    def result(self) -> Result:
        """Return what the release says; `fit` has been called."""
        result: Result = self.estimator.result(LEVEL)
        return result

    @abc.abstractmethod
    def compare(self, table: Table) -> NotPrivate:
        """Compare with what the data itself would give, which is not private; `fit` has been called."""


class RidgeFitModel(FitModel):
    """Ridge regression; `truth` holds the coefficients that generated the data, where they are known."""

    name = "ridge"
    options = ("target", "alpha", "no_intercept", "rounds", "predict_only", "private_bounds", "by", "anyway")
    estimator: RidgeRegression

    def __init__(self, estimator: RidgeRegression, target: str, truth: Reals | None = None):
        estimator.check_parameters()
        self.estimator = estimator
        self.target = target
        self.truth = truth

    @classmethod
    def of(cls, options: argparse.Namespace) -> RidgeFitModel:
        """Read the command's options."""
        if options.target is None:
            raise InputError("target: none given, the name of the column to predict expected (--target)")
        rounds = options.rounds
        if rounds is None:  # one release, unless predictions alone are asked for
            rounds = "auto" if options.predict_only else 0
        estimator = RidgeRegression(
            options.alpha,
            fit_intercept=not options.no_intercept,
            rounds=rounds,
            intervals=not options.predict_only,
            private_bounds=options.private_bounds,
        )
        return cls(estimator, options.target)

    def check(self, table: Table, public: Schema) -> None:
        """Refuse an unknown target and a table without features."""
        check_table(table, self.target, public)

    def fit(self, release: Release | GramRelease) -> None:
        """Fit the release with the target as asked."""
        self.estimator.fit_release(release, target=self.target)

    def optimum(self, table: Table) -> Reals:
        """Return the coefficients that the data itself would give; not private."""
        fitted = self.estimator
        rows, weights = _rows_and_weights(fitted.releases_[0].task.schema, table)
        return fitted.in_units(fitted.compare(rows, weights=weights).best)[0]

    def error(self) -> float:
        """Return the relative distance of the coefficients from the truth, in L2 norm."""
        assert self.truth is not None
        return float(np.linalg.norm(self.estimator.coef_ - self.truth) / np.linalg.norm(self.truth))

    def compare(self, table: Table) -> NotPrivate:
        """Compare coefficients and phi with the optimum and with the trivial predictor."""
        fitted = self.estimator
        fitted.warn_of_probabilities(table.column(self.target))
        rows, weights = _rows_and_weights(fitted.releases_[0].task.schema, table)
        found = fitted.compare(rows, weights=weights)
        not_private: dict[str, object] = {
            "approximation_factor": found.approximation_factor,
            "trivial_factor": found.trivial_factor,
            **clipped(fitted.releases_[-1].task.schema, table),
        }
        columns: dict[str, Sequence[float]] = {} if self.truth is None else {"truth": list(self.truth)}
        columns |= {
            "private": fitted.coef_.tolist(),
            "not private": list(fitted.in_units(found.best)[0]),
            "trivial": [0.0] * len(fitted.coef_),
        }
        lines = [
            f"cost / optimal cost (phi): private {found.approximation_factor:.4g}, "
            f"trivial predictor {found.trivial_factor:.4g}"
        ]
        if self.truth is not None:
            lines.append(f"private coefficients are within {self.error():.1%} of the truth in L2 norm")
        shown = NumberTable("Comparison with the data", columns, fitted.feature_names_)
        return compared(not_private, [shown], lines)


class LowRankFitModel(FitModel):
    """Low-rank approximation of all columns."""

    name = "low-rank"
    options = ("components", "center")
    estimator: LowRankApproximation

    def __init__(self, estimator: LowRankApproximation):
        self.estimator = estimator

    @classmethod
    def of(cls, options: argparse.Namespace) -> LowRankFitModel:
        """Read the command's options."""
        return cls(LowRankApproximation(3 if options.components is None else options.components, options.center))

    def choices(self, asked: dict[str, Any], public: Schema) -> dict[str, Any]:
        """Add what the default number of rows depends on."""
        return {**asked, "purpose": "low-rank"}

    def check(self, table: Table, public: Schema) -> None:
        """Refuse a rank above the number of columns."""
        self.estimator.check_parameters(len(table.names))
        check_table(table, public=public)

    def compare(self, table: Table) -> NotPrivate:
        """Compare psi with that of a random projection."""
        fitted = self.estimator
        not_private: dict[str, object] = {
            "psi": fitted.excess_risk(table.values),
            "random_psi": fitted.random_excess_risk(table.values),
            **clipped(fitted.release_.task.schema, table),
        }
        lines = [
            f"excess risk (psi, 0 = optimal): private {not_private['psi']:.4g}, "
            f"a random projection {not_private['random_psi']:.4g}; in normalised units, as the components are"
        ]
        return compared(not_private, [], lines)


class MomentFitModel(FitModel):
    """A frequency moment of one column; `column` may be None where there is only one."""

    name = "moment"
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

    def compare(self, table: Table) -> NotPrivate:
        """Compare with the moment of the unclipped column."""
        fitted = self.estimator
        not_private: dict[str, object] = {
            "exact_moment": fitted.exact_moment(table.values),
            **clipped(fitted.release_.task.schema, table),
        }
        lines = [f"not private: {not_private['exact_moment']:.6g}"]
        return compared(not_private, [], lines)


class TableOneModel(FitModel):
    """Table 1 of the columns with bounds, or of some."""

    name = TableOne.kind
    options = ("columns", "by")
    estimator: TableOne

    def __init__(self, estimator: TableOne, level: float):
        self.estimator, self.level = estimator, level

    @classmethod
    def of(cls, options: argparse.Namespace) -> TableOneModel:
        """Read the command's options."""
        return cls(TableOne(options.by, options.columns), options.level)

    def bounds(self, path: str) -> Schema:
        """Return the bounds of what is described, as a codebook whatever the file says."""
        given = Schema.from_toml(path)
        book = given.codebook if isinstance(given.codebook, Codebook) else Codebook.of_columns(given.columns)
        return Schema.of_codebook(book.only(self.estimator.read_columns(book)), given.outside)

    def choices(self, asked: dict[str, Any], public: Schema) -> dict[str, Any]:
        """Add the cells that people are counted in."""
        return {**asked, **self.estimator.task_choices(public)}

    def check(self, table: Table, public: Schema) -> None:
        """Refuse nothing: whatever can be coded can be counted."""

    def result(self) -> Result:
        """Return what the release says; `fit` has been called."""
        return self.estimator.result(self.level)

    def compare(self, table: Table) -> NotPrivate:
        """Compare with people, medians and quartiles of the rows at hand."""
        fitted = self.estimator
        public, contribution = fitted.release_.task.schema, fitted.release_.task.statistic
        assert isinstance(contribution, CellCounts)
        z, rows, quarters = public.normalise(table.values), {}, (0.25, 0.5, 0.75)
        for grid, (name, (_, variable)) in zip(contribution.grids, fitted.variables_.items(), strict=True):
            if variable.categories:
                continue
            values = table.values[:, public.index(variable.term.columns[0].name)]
            values = np.exp(values) if variable.transform == "log" else values
            own, there = grid.group_of(z), ~grid.lacks(z)
            for place, group in enumerate((None, *fitted.groups_)):
                members = np.sort(values[there & (True if group is None else own == place - 1)])
                found = [members[math.ceil(q * len(members)) - 1] if len(members) else math.nan for q in quarters]
                rows[fitted.label(group, name)] = [float(len(members)), *map(float, found)]
        headings = ("people with a value", "lower quartile", "median", "upper quartile")
        shown = NumberTable(
            "Quartiles of the data itself",
            {heading: [row[place] for row in rows.values()] for place, heading in enumerate(headings)},
            list(rows),
        )
        return compared({"quartiles": shown.to_dict(), **clipped(public, table)}, [shown] if rows else [], [])


def compared(data: dict[str, object], tables: Sequence[NumberTable], lines: Sequence[str]) -> NotPrivate:
    """Return a comparison with the data, which also says what the bounds clipped."""
    share = data["largest_clipped_fraction"]
    assert isinstance(share, float)
    said = [f"the public bounds clipped up to {share:.2%} of a column's values"] if share > 0 else []
    return NotPrivate(data, tables, [*lines, *said])


def _rows_and_weights(public: Schema, table: Table) -> tuple[Reals, Reals | None]:
    """Return the rows, and how much each counts in units of the largest weight, where they have weights."""
    if not public.weighted:
        return table.values, None
    return table.values[:, :-1], np.clip(table.values[:, -1] / public.columns[-1].upper, 0.0, 1.0)


def clipped(public: Schema, table: Table) -> dict[str, float]:
    """Return the largest share of a column's values that the public bounds clipped."""
    return {"largest_clipped_fraction": float(np.max(public.clipped_fraction(table.values)))}
