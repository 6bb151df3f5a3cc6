"""`dpmpc fit --model survival`: curves by group and a log-rank test, and what is judged of them.

What `compare` computes from the rows at hand is for whoever owns them, and is not private.
"""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any, Self

from dpmpc.cli.fit_models import FitModel, NotPrivate, clipped, compared
from dpmpc.cli.options import dialect_of
from dpmpc.contributions import CellCounts
from dpmpc.contributions.cells import BITS
from dpmpc.data import Codebook, Schema, Table, read_cells
from dpmpc.encoding import FixedPoint
from dpmpc.errors import InputError
from dpmpc.estimators import KaplanMeier
from dpmpc.estimators.cell_estimates import CellEstimates
from dpmpc.estimators.kaplan_meier_fit import KaplanMeierFit, LogRank
from dpmpc.estimators.survival_cells import observed, survival_contribution, survival_schema
from dpmpc.networked import PROGRAM


class SurvivalFitModel(FitModel):
    """Kaplan-Meier curves of times until an event."""

    name = KaplanMeier.kind
    program = PROGRAM
    options = ("time", "event", "by", "until")
    estimator: KaplanMeier

    def __init__(self, estimator: KaplanMeier):
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
        return cls(KaplanMeier(time=options.time, event=options.event, by=options.by, until=options.until))

    def read(self, options: argparse.Namespace) -> tuple[Table, Schema]:
        """Return the coded rows of people, and their public bounds; bad bounds are refused before data is read."""
        model = self.estimator
        public = survival_schema(Schema.from_toml(options.bounds), model.time, model.event, model.counted_by())
        survival_contribution(public)
        book = public.codebook
        assert isinstance(book, Codebook)
        return observed(public, read_cells(options.data, book.sources, dialect=dialect_of(options))), public

    def choices(self, asked: dict[str, Any], public: Schema) -> dict[str, Any]:
        """Add the cells that people are counted in."""
        return {**asked, "contribution": survival_contribution(public)}

    def check(self, table: Table, public: Schema) -> None:
        """Refuse nothing: whatever can be coded can be counted."""

    def compare(self, table: Table) -> NotPrivate:
        """Compare with what the same reading of exact cells gives, of the rows at hand."""
        fitted = self.estimator
        public, contribution = fitted.release_.task.schema, fitted.release_.task.statistic
        assert isinstance(contribution, CellCounts)
        encoding = FixedPoint(BITS)
        sums = contribution.encode(public.normalise(table.values), encoding).sum(axis=0) / 2.0**BITS
        estimates = CellEstimates(contribution, sums, 0.0, len(table))
        exact = KaplanMeierFit(fitted.time, fitted.event, fitted.by, fitted.until).read(
            dataclasses.replace(fitted.cells_, estimates=estimates)
        )
        tested = exact.logrank() if exact.groups_ else None
        lines = (
            []
            if tested is None
            else [tested.text(exact.cells_.time.name) if isinstance(tested, LogRank) else f"No test: {tested}."]
        )
        people = exact.people()
        shown = dataclasses.replace(people, title=f"{people.title}, of the data itself")
        not_private: dict[str, object] = {
            "people": people.to_dict(),
            "log_rank": dataclasses.asdict(tested) if isinstance(tested, LogRank) else None,
            **clipped(public, table),
        }
        return compared(not_private, [shown], lines)
