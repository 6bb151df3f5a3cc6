"""The models that `dpmpc fit` reads from several sums: logistic, Poisson, and ridge regression in rounds.

Each sum is a release of its own, by servers that are processes; all of them share one budget. What `compare` computes
from the rows at hand is for whoever owns them, and is not private.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Self

import msgspec
import numpy as np

from dpmpc.app.cli.fit_models import FitModel, NotPrivate, RidgeFitModel, clipped, compared
from dpmpc.app.cli.options import sums_only
from dpmpc.app.cli.output import ResultFolder, progress
from dpmpc.app.render.released import release_file
from dpmpc.base.errors import InputError
from dpmpc.base.randomness import stream_for
from dpmpc.data import Column, Schema, Table
from dpmpc.data.data_checks import check_table
from dpmpc.models import LogisticRegression, PoissonRegression, RidgeRegression
from dpmpc.models.common.releases import Releases
from dpmpc.models.papers.baselines.likelihood import maximum_likelihood, mean_loss, trivial_loss
from dpmpc.models.regression.round_fits import features_in_units
from dpmpc.models.rounds.forecast import SPREADS, SumsNoise, people_for
from dpmpc.parties.networked import NetworkedRun, Rounds
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.privacy.task import Task
from dpmpc.release.release import Release
from dpmpc.release.results import NumberTable


class RoundsFitModel(FitModel):
    """A model from several sums."""

    target: str  # the column to predict
    estimator: LogisticRegression | PoissonRegression | RidgeRegression

    def check(self, table: Table, public: Schema) -> None:
        """Refuse an unknown target and a table without features."""
        check_table(table, self.target, public)

    def choices(self, asked: dict[str, Any], public: Schema) -> dict[str, Any]:
        """Refuse what is no sum of second moments or scores."""
        return sums_only(asked)

    def arrange(self, table: Table, public: Schema, *, given: bool) -> tuple[Table, Schema]:
        """Return the table and its bounds with the target last, and the target's bounds as the model has them."""
        names = [*(name for name in table.names if name != self.target), self.target]
        ordered = public.select(names)
        column = self.column(ordered.columns[-1], given=given)
        columns = (*ordered.columns[:-1], column)
        return table.select(names), msgspec.structs.replace(ordered, columns=columns)

    def column(self, target: Column, *, given: bool) -> Column:
        """Return the target with its bounds."""
        return target

    def require_useful(self, releases: Releases) -> None:
        """Refuse a fit that public numbers forecast to be of no use, before anything is spent."""


class LikelihoodFitModel(RoundsFitModel):
    """A logistic or a Poisson regression."""

    options = ("target", "rounds", "predict_only", "private_bounds")
    estimator: LogisticRegression | PoissonRegression
    kind: type[LogisticRegression | PoissonRegression]

    def __init__(self, estimator: LogisticRegression | PoissonRegression, target: str, *, filled: bool = False):
        self.estimator, self.target = estimator, target
        self.filled = filled  # whether the middle of its bounds stands for a missing target

    @classmethod
    def of(cls, options: argparse.Namespace) -> Self:
        """Read the command's options."""
        rounds = "auto" if options.rounds is None else options.rounds
        estimator = cls.kind(rounds=rounds, intervals=not options.predict_only, private_bounds=options.private_bounds)
        return cls(estimator, _target(options), filled=options.fill_missing)

    def compare(self, table: Table) -> NotPrivate:
        """Compare with the maximum of the likelihood of the rows at hand."""
        fitted, schema = self.estimator, self.estimator.releases_[-1].task.schema
        Z = schema.normalise(table.values)
        X, y = Z[:, :-1], schema.denormalise(Z)[:, -1]
        best = maximum_likelihood(self.name, X, y)
        linear = features_in_units(schema)
        units = linear @ best.coefficients
        found = np.array([fitted.intercept_, *fitted.coef_])
        losses = {
            "best_loss": mean_loss(self.name, best.coefficients, X, y),
            "trivial_loss": trivial_loss(self.name, X, y),
        }
        if fitted.verdict_ is None:
            losses = {"loss": mean_loss(self.name, np.linalg.solve(linear, found), X, y), **losses}
        coefficients = dict(zip(fitted.feature_names_, units[1:].tolist(), strict=True))
        not_private: dict[str, object] = {
            "coefficients": coefficients,
            "intercept": float(units[0]),
            "converged": best.converged,
            **losses,
            **clipped(schema, table),
        }
        columns: dict[str, Sequence[float]] = {"not private": list(coefficients.values())}
        if fitted.verdict_ is None:
            columns = {"private": fitted.coef_.tolist(), **columns}
        told = ", ".join(f"{name.replace('_', ' ')} {value:.5g}" for name, value in losses.items())
        lines = [f"mean loss (-log likelihood): {told}"]
        if not best.converged:
            lines.append("the likelihood of the rows has no maximum that was found: features may determine the target")
        return compared(not_private, [NumberTable("Comparison with the data", columns, fitted.feature_names_)], lines)


class LogisticFitModel(LikelihoodFitModel):
    """The chance that a 0/1 column is 1."""

    name = "logistic"

    kind = LogisticRegression

    def check(self, table: Table, public: Schema) -> None:
        """Refuse what `RoundsFitModel` refuses, and a target that is neither 0 nor 1."""
        super().check(table, public)
        if self.filled:
            return
        _expect(table, self.target, lambda values: (values == 0) | (values == 1), "0 or 1")

    def column(self, target: Column, *, given: bool) -> Column:
        """Return the target between 0 and 1; other bounds that are given are refused by the estimator."""
        return target if given else Column(target.name, 0.0, 1.0)


class PoissonFitModel(LikelihoodFitModel):
    """The mean of a column of counts; the upper bound of the column is the largest count."""

    name = "poisson"
    estimator: PoissonRegression

    kind = PoissonRegression

    def check(self, table: Table, public: Schema) -> None:
        """Refuse what `RoundsFitModel` refuses, and a target that is not a count."""
        super().check(table, public)
        if self.filled:
            return
        _expect(table, self.target, lambda values: (values >= 0) & (values == np.floor(values)), "0, 1, 2, ...")

    def column(self, target: Column, *, given: bool) -> Column:
        """Return the target between 0 and the largest count, which the estimator is told."""
        if not given or target.lower != 0 or target.upper != math.floor(target.upper):
            bounds = f"({target.lower:g}, {target.upper:g})" if given else "none"
            raise InputError(
                f"bounds of column {target.name!r}: {bounds} given, 0 and the largest count, a whole number, expected "
                "of the target of a Poisson model (--bounds FILE)"
            )
        self.estimator.most = int(target.upper)
        return target


class RidgeRoundsFitModel(RoundsFitModel):
    """Ridge regression from second moments and rounds of scores."""

    name = "ridge"
    options = RidgeFitModel.options
    estimator: RidgeRegression

    def __init__(self, whole: RidgeFitModel, *, anyway: bool = False):
        self._whole, self.estimator, self.target = whole, whole.estimator, whole.target
        self._anyway = anyway  # whether intervals that all rest on the bounds are wanted

    def require_useful(self, releases: Releases) -> None:
        """Refuse a fit whose intervals are all expected to rest on the bounds."""
        if self._anyway or not self.estimator.intervals:
            return
        noise, features, spread = SumsNoise.of(releases), releases.columns - 1, max(SPREADS)
        if not noise.alike(features, spread).useful:
            needed = people_for(noise, features, spread)
            raise InputError(
                f"rows: {releases.clients:,} given, of whom every interval of {features} slopes is expected to rest on "
                f"the bounds, even where columns are spread by {spread:g} of half their bounds. Nothing was spent. "
                f"{'More' if needed is None else f'About {needed:,}'} people, a larger epsilon, fewer features or "
                "narrower bounds would give intervals; --predict-only fits a prediction alone, --anyway all the same"
            )

    def compare(self, table: Table) -> NotPrivate:
        """Compare as `RidgeFitModel.compare` does."""
        return self._whole.compare(table)


def ridge_model_of(
    model: RidgeFitModel, spec: ReleaseSpec, options: argparse.Namespace
) -> RidgeFitModel | RidgeRoundsFitModel:
    """Return what fits a ridge regression of this specification: rounds, or one release where a choice asks for it."""
    if model.estimator.rounds_for(spec):
        return RidgeRoundsFitModel(model, anyway=options.anyway)
    for name in ("predict_only", "anyway"):
        if getattr(options, name):
            raise InputError(f"{name}: given, but one release has no rounds, --rounds of 1 or more expected")
    return model


def run_in_rounds(
    analysis: RoundsFitModel,
    table: Table,
    public: Schema,
    options: argparse.Namespace,
    choices: Mapping[str, Any],
    kept: ResultFolder,
) -> tuple[list[NetworkedRun], float]:
    """Have all sums released by servers that are processes, and fit them; return the runs, and the seconds in all.

    The table and its bounds are arranged. Each sum is kept before the next one is asked for.
    """
    spec = ReleaseSpec.of(public, len(table), options.epsilon, options.delta, **choices)
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught, progress() as on_progress:
        warnings.simplefilter("always")
        network = Rounds(
            table.values,
            stream=stream_for(options.simulation_seed),
            threads=options.threads,
            deadline=options.deadline,
            on_progress=on_progress,
        )

        def ask(task: Task) -> Release:
            release = network(task)
            kept.keep(release_file(len(kept.releases)), release)
            return release

        releases = Releases(spec, ask)
        analysis.require_useful(releases)
        analysis.estimator.fit_rounds(releases)
    for warning in caught:  # told when the display of the progress is gone
        warnings.warn(warning.message, warning.category, stacklevel=2)
    return network.runs, time.perf_counter() - began


def _target(options: argparse.Namespace) -> str:
    if options.target is None:
        raise InputError("target: none given, the name of the column to predict expected (--target)")
    return str(options.target)


def _expect(table: Table, target: str, allowed: Any, expected: str) -> None:
    """Refuse the first value of the target that is not allowed; for whoever has the rows."""
    strange = np.flatnonzero(~allowed(table.column(target)))
    if len(strange):
        row = int(strange[0])
        raise InputError(
            f"column {target!r}: {table.column(target)[row]:g} given in row {row + 1}, {expected} expected of a target"
        )
