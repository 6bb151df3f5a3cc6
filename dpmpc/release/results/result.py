"""What a model has found: tables, notes, the numbers of its plots, and plain data.

Promised: nothing here depends on a model, so that a new one needs no line here. Not promised: that a result is a
function of releases alone; its maker states that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from dpmpc.release.results.number_tables import NumberTable
from dpmpc.release.results.plot_data import PlotData

#: The numbers of plots, by what they show; each is computed when it is called.
Plots: TypeAlias = Mapping[str, Callable[[], PlotData]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """What a model, or a description without one, says; it prints as text.

    Attributes
    ----------
    model : str or None
        As in `dpmpc fit --model`; None where no model was asked for.
    title : str
        What was fitted; empty without a model.
    tables : sequence of NumberTable
        The numbers; none where a verdict says that there are none to rely on.
    notes, warnings : sequence of str
        What else there is to say, and what to be careful about.
    verdict : str or None
        Why nothing was learned.
    plots : mapping
        Name -> what computes the numbers of a plot.
    data : mapping
        The numbers and texts for programs, as plain data.
    parameters : mapping
        Those of the estimator.
    estimator : str
        Its name in Python.
    chosen : mapping
        What its `fit_release` was told beside the release.
    features : int or None
        How many columns were used; None where all were.
    """

    model: str | None = None
    title: str = ""
    tables: Sequence[NumberTable] = ()
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()
    verdict: str | None = None
    plots: Plots = dataclasses.field(default_factory=dict)
    data: Mapping[str, object] = dataclasses.field(default_factory=dict)
    parameters: Mapping[str, object] = dataclasses.field(default_factory=dict)
    estimator: str = ""
    chosen: Mapping[str, object] = dataclasses.field(default_factory=dict)
    features: int | None = None

    def __str__(self) -> str:
        """Return the text that a person reads."""
        parts = [] if self.verdict is None else [f"Verdict. {self.verdict}"]
        return "\n\n".join([*parts, *map(str, self.tables), *(["\n".join(self.notes)] if self.notes else [])])

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain data for JSON; without a model the numbers stand by themselves."""
        told: dict[str, object] = {"warnings": list(self.warnings)}
        if self.model is None:
            return {**self.data, **told}
        return {"model": self.model, "parameters": dict(self.parameters), **told, "result": dict(self.data)}

    def _repr_html_(self) -> str:
        return "".join(table.to_html() for table in self.tables)
