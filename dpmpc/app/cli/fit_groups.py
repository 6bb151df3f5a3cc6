"""`dpmpc fit --by`: one ridge regression for each public group, or a comparison of groups, and what is judged of it.

What `compare` computes from the rows at hand is for whoever owns them, and is not private.
"""

from __future__ import annotations

import argparse
from typing import Any, Self

import numpy as np
from msgspec.structs import replace

from dpmpc.app.cli.fit_models import FitModel, NotPrivate, clipped, compared
from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.data import Codebook, Schema, Table
from dpmpc.data.data_checks import check_table
from dpmpc.data.variables import Variable
from dpmpc.linear.contributions.grouped_moments import GroupedMoments
from dpmpc.models import GroupComparison, GroupedRidgeRegression, RidgeRegression
from dpmpc.models.common.linear_algebra import exact_gram, solve_ridge
from dpmpc.release.results import NumberTable


class GroupedFitModel(FitModel):
    """Ridge regressions by the values of a variable of the bounds file."""

    name = GroupedRidgeRegression.kind
    options = ("target", "alpha", "by")
    estimator: GroupedRidgeRegression

    def __init__(self, estimator: GroupedRidgeRegression, target: str, by: str):
        RidgeRegression(estimator.alpha).check_parameters()
        self.estimator, self.target, self.by = estimator, target, by

    @classmethod
    def of(cls, options: argparse.Namespace) -> Self:
        """Read the command's options."""
        if options.target is None:
            raise InputError("target: none given, the name of the column to predict expected (--target)")
        if options.no_intercept:
            raise InputError("no_intercept: given with --by, but each group has an intercept of its own")
        if options.rounds:
            raise InputError(f"rounds: {options.rounds!r} given with --by, 0 expected: groups share one release")
        for name in ("predict_only", "private_bounds", "anyway"):
            if getattr(options, name):
                raise InputError(f"{name}: given with --by, but one release has no rounds")
        if options.bounds is None:
            raise InputError("by: given without bounds, a bounds file that lists the groups expected (--bounds)")
        alpha = 1.0 if options.alpha is None else options.alpha
        return cls(GroupedRidgeRegression(alpha=alpha, by=options.by), options.target, options.by)

    def choices(self, asked: dict[str, Any], public: Schema) -> dict[str, Any]:
        """Add what second moments are summed by."""
        return {**asked, "by": self.by}

    def check(self, table: Table, public: Schema) -> None:
        """Refuse an unknown group or target, a target that tells the group, a table without features."""
        variable = public.codebook.variable(self.by) if isinstance(public.codebook, Codebook) else None
        if variable is not None and self.target in {column.name for column in variable.term.columns}:
            raise InputError(f"target: {self.target!r} given, which tells the group, another column expected")
        check_table(table, self.target, public)
        if variable is not None and len(table.names) - len(variable.term.columns) - public.weighted < 2:
            raise InputError(
                f"target: {self.target!r} and the group are the only columns, at least one feature expected"
            )

    def fit(self, release: Any) -> None:
        """Fit the release with the target as asked."""
        self.estimator.fit_release(release, self.target)

    def compare(self, table: Table) -> NotPrivate:
        """Compare with the sizes of the groups and the regressions of the rows at hand."""
        fitted = self.estimator
        counts, exact = self._exact(table)
        not_private: dict[str, object] = {
            "people": dict(zip(fitted.groups_, counts.tolist(), strict=True)),
            "coefficients": {
                group: dict(zip((*fitted.feature_names_, "intercept"), row.tolist(), strict=True))
                for group, row in zip(fitted.groups_, exact, strict=True)
                if np.isfinite(row).all()
            },
            **clipped(fitted.release_.task.schema, table),
        }
        columns = {"people": counts.tolist()} | {
            name: exact[:, place].tolist() for place, name in enumerate((*fitted.feature_names_, "intercept"))
        }
        shown = NumberTable("Coefficients of the data itself", columns, list(fitted.groups_), label=fitted.by_)
        return compared(not_private, [shown], [])

    def _exact(self, table: Table) -> tuple[Reals, Reals]:
        """Return the size (G,) of each group, and its coefficients and intercept (G, d + 1); NaN where undetermined."""
        fitted, task = self.estimator, self.estimator.release_.task
        assert isinstance(task.statistic, GroupedMoments)
        Z = task.schema.normalise(table.values)
        own = task.statistic.group_of(Z)
        weights = (1 + Z[:, -1]) / 2 if task.statistic.weighted else np.ones(len(Z))
        names = fitted.pooled_.selected_.columns
        z, target = Z[:, [task.schema.index(name) for name in names]], names.index(fitted.target_)
        counts, found = np.zeros(len(fitted.groups_)), np.full((len(fitted.groups_), len(names)), np.nan)
        for group in range(len(counts)):
            gram = exact_gram(z[own == group], weights[own == group])
            counts[group] = gram[0, 0]
            if np.linalg.matrix_rank(np.delete(np.delete(gram, target + 1, 0), target + 1, 1)) == len(names):
                units, intercept = fitted.pooled_.in_units(solve_ridge(gram, target, 0.0))
                found[group] = [*units, intercept]
        return counts, found


class ComparisonFitModel(FitModel):
    """Differences of a column's mean between the values of a variable of the bounds file."""

    name = GroupComparison.kind
    options = ("target", "by", "before", "control")
    estimator: GroupComparison

    def __init__(self, estimator: GroupComparison, target: str):
        estimator.check_parameters()
        if target in estimator.before:
            raise InputError(f"before: {target!r} given, which is the target, another column expected")
        self.estimator, self.target, self.by = estimator, target, estimator.by

    @classmethod
    def of(cls, options: argparse.Namespace) -> Self:
        """Read the command's options."""
        if options.target is None:
            raise InputError("target: none given, the name of the column to compare expected (--target)")
        if options.by is None:
            raise InputError("by: none given, the column whose values are compared expected (--by)")
        if options.bounds is None:
            raise InputError("by: given without bounds, a bounds file that lists the groups expected (--bounds)")
        before = () if options.before is None else tuple(name.strip() for name in options.before.split(","))
        return cls(GroupComparison(before=before, control=options.control, by=options.by), options.target)

    def codebook(self, book: Codebook) -> Codebook:
        """Return the variables that are compared, known before or tell the group: each other one would cost noise."""
        used = [self._variable(book, argument, name).name for argument, name in self._named()]
        kept = tuple(variable for variable in book.variables if variable.name in used)
        return replace(book, variables=kept, products=())

    def choices(self, asked: dict[str, Any], public: Schema) -> dict[str, Any]:
        """Add what second moments are summed by."""
        return {**asked, "by": self.by}

    def check(self, table: Table, public: Schema) -> None:
        """Refuse a column that tells the group or has made-up values, and an unknown control."""
        book = public.codebook
        assert isinstance(book, Codebook)
        groups = self._variable(book, "by", self.by)
        for argument, name in self._named()[1:]:
            if self._variable(book, argument, name).name == self.by:
                raise InputError(f"{argument}: {name!r} given, which tells the group, another column expected")
        if self.estimator.control is not None and self.estimator.control not in groups.categories:
            raise InputError(
                f"control: {self.estimator.control!r} given, one of {', '.join(groups.categories)} expected"
            )
        check_table(table, self.target, public)

    def fit(self, release: Any) -> None:
        """Fit the release with the target as asked."""
        self.estimator.fit_release(release, self.target)

    def compare(self, table: Table) -> NotPrivate:
        """Compare with the sizes and the means of the groups at hand, and with their differences from the control."""
        fitted, task = self.estimator, self.estimator.release_.task
        assert isinstance(task.statistic, GroupedMoments)
        Z = task.schema.normalise(table.values)
        own = task.statistic.group_of(Z)
        weights = (1 + Z[:, -1]) / 2 if task.statistic.weighted else np.ones(len(Z))
        values = np.clip(table.column(self.target), *_ends(task.schema, self.target))
        counts = np.bincount(own, weights, len(fitted.groups_))
        sums = np.bincount(own, weights * values, len(fitted.groups_))
        means = np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)
        found = dict(zip(fitted.groups_, means.tolist(), strict=True))
        not_private: dict[str, object] = {
            "people": dict(zip(fitted.groups_, counts.tolist(), strict=True)),
            "means": {group: mean for group, mean in found.items() if np.isfinite(mean)},
            **clipped(task.schema, table),
        }
        differences = (means - found[fitted.control_]).tolist()
        columns = {"people": counts.tolist(), "mean": means.tolist(), f"less {fitted.control_}": differences}
        shown = NumberTable(f"{self.target} of the data itself", columns, list(fitted.groups_), label=fitted.by_)
        return compared(not_private, [shown], [])

    def _named(self) -> list[tuple[str, str]]:
        """Return what is named by which argument."""
        return [("by", self.by), ("target", self.target), *(("before", name) for name in self.estimator.before)]

    @staticmethod
    def _variable(book: Codebook, argument: str, name: str) -> Variable:
        """Return the variable of a name, or one of whose columns is called so."""
        for variable in book.variables:
            if name in (variable.name, *(column.name for column in variable.term.columns)):
                return variable
        names = ", ".join(variable.name for variable in book.variables)
        raise InputError(f"{argument}: {name!r} given, one of {names} expected, which the bounds file has")


def _ends(public: Schema, name: str) -> tuple[float, float]:
    column = public.columns[public.index(name)]
    return column.lower, column.upper
