"""`dpmpc fit --model survival`: curves by group and a log-rank test, or a Cox regression, and what is judged of them.

What `compare` computes from the rows at hand is for whoever owns them, and is not private.
"""

from __future__ import annotations

import abc
import argparse
import dataclasses
from typing import Any, Self

from dpmpc.app.cli.fit_models import FitModel, NotPrivate, clipped, compared
from dpmpc.app.cli.options import dialect_of
from dpmpc.base.errors import InputError
from dpmpc.data import Codebook, Schema, Table
from dpmpc.data.table_files import read_cells
from dpmpc.linear.contributions.cells import BITS, CellCounts
from dpmpc.linear.encoding.fixed_point import FixedPoint
from dpmpc.models import CoxRegression, KaplanMeier
from dpmpc.models.common.cell_estimates import CellEstimates
from dpmpc.models.survival.curves import LogRank
from dpmpc.models.survival.survival_cells import SurvivalCells, observed
from dpmpc.release.results import NumberTable


class TimesFitModel(FitModel):
    """What is read of cells of times."""

    estimator: KaplanMeier | CoxRegression

    def __init__(self, estimator: KaplanMeier | CoxRegression):
        self.estimator = estimator

    @classmethod
    def of(cls, options: argparse.Namespace) -> Self:
        """Read the command's options."""
        for name, what in (("time", "times until the event"), ("event", "whether the event happened")):
            if getattr(options, name) is None:
                raise InputError(f"{name}: none given, the column of {what} expected (--{name})")
        if options.bounds is None:
            raise InputError("bounds: none given, a bounds file expected: how times are cut into cells (--bounds)")
        for name in ("fill_missing", "zero_missing", "drop_missing"):
            if getattr(options, name):
                raise InputError(
                    f'{name}: given, but people are counted as they are; if_missing = "indicator" in the bounds of a '
                    "column counts those who lack its value by themselves"
                )
        return cls(cls.estimator_of(options))

    @staticmethod
    @abc.abstractmethod
    def estimator_of(options: argparse.Namespace) -> KaplanMeier | CoxRegression:
        """Return what reads the release."""

    def read(self, options: argparse.Namespace) -> tuple[Table, Schema]:
        """Return the coded rows of people, and their public bounds; bad bounds are refused before data is read."""
        public = self.estimator.public_schema()
        self.estimator.task_choices(public)
        book = public.codebook
        assert isinstance(book, Codebook)
        return observed(public, read_cells(options.data, book.sources, dialect=dialect_of(options))), public

    def choices(self, asked: dict[str, Any], public: Schema) -> dict[str, Any]:
        """Add the cells that people are counted in."""
        return {**asked, **self.estimator.task_choices(public)}

    def check(self, table: Table, public: Schema) -> None:
        """Refuse nothing: whatever can be coded can be counted."""

    def compare(self, table: Table) -> NotPrivate:
        """Compare with what the same reading of exact cells gives, of the rows at hand."""
        fitted = self.estimator
        public, contribution = fitted.release_.task.schema, fitted.release_.task.statistic
        assert isinstance(contribution, CellCounts)
        sums = contribution.encode(public.normalise(table.values), FixedPoint(BITS)).sum(axis=0) / 2.0**BITS
        estimates = CellEstimates(contribution, sums, 0.0, len(table))
        data, shown, lines = self.exact(dataclasses.replace(fitted.cells_, estimates=estimates))
        shown = [dataclasses.replace(one, title=f"{one.title}, of the data itself") for one in shown]
        return compared({**data, **clipped(public, table)}, shown, lines)

    @abc.abstractmethod
    def exact(self, cells: SurvivalCells) -> tuple[dict[str, object], list[NumberTable], list[str]]:
        """Return what cells without noise give: as plain data, as tables and in sentences."""


class SurvivalFitModel(TimesFitModel):
    """Kaplan-Meier curves of times until an event."""

    name = KaplanMeier.kind
    options = ("time", "event", "by", "until", "features")

    @staticmethod
    def estimator_of(options: argparse.Namespace) -> KaplanMeier:
        """Return what reads curves."""
        return KaplanMeier(
            time=options.time, event=options.event, by=options.by, until=options.until, bounds=options.bounds
        )

    def exact(self, cells: SurvivalCells) -> tuple[dict[str, object], list[NumberTable], list[str]]:
        """Return medians, means and the log-rank test."""
        model = KaplanMeier(**self.estimator.parameters).read(cells)  # type: ignore[arg-type]
        tested, people = model.logrank() if model.groups_ else None, model.people()
        if isinstance(tested, LogRank):
            return (
                {"people": people.to_dict(), "log_rank": dataclasses.asdict(tested)},
                [people],
                [f"{tested.text(cells.time.name)}."],
            )
        lines = [] if tested is None else [f"No test: {tested}."]
        return {"people": people.to_dict(), "log_rank": None}, [people], lines


class CoxFitModel(TimesFitModel):
    """Cox regression of times until an event on categories."""

    name = CoxRegression.kind
    options = ("time", "event", "features")

    @staticmethod
    def estimator_of(options: argparse.Namespace) -> CoxRegression:
        """Return what reads hazard ratios."""
        for name in ("by", "until"):
            if getattr(options, name) is not None:
                raise InputError(f"{name}: {getattr(options, name)!r} given beside features, one of the two expected")
        features = [name.strip() for name in options.features.split(",")]
        if not all(features):
            raise InputError(f"features: {options.features!r} given, names between commas expected")
        return CoxRegression(time=options.time, event=options.event, features=features, bounds=options.bounds)

    def exact(self, cells: SurvivalCells) -> tuple[dict[str, object], list[NumberTable], list[str]]:
        """Return coefficients."""
        model = CoxRegression(**self.estimator.parameters).read(cells)  # type: ignore[arg-type]
        if model.verdict_ is not None:
            return {"coefficients": None}, [], [model.verdict_]
        return {"coefficients": model.summary().to_dict()}, [model.summary()], []
