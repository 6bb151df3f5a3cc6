"""What was found, and what was released: one value for each, and the forms in which both are written.

A model makes a `Result` from its releases; whoever reads releases, or has them made, puts it into a `Report`, which
prints as text, and is written as plain data for JSON, as CSV, as LaTeX and, by `dpmpc.release.results.page`, as a page.

Promised: nothing here knows a model, so that a new one needs no line here. Texts that somebody else wrote are escaped
by the writer, for the form that it writes. Not promised: that a result is a function of releases alone; its maker says
so.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from dpmpc.base.untrusted import harmless
from dpmpc.release.results.number_tables import NumberTable

if TYPE_CHECKING:
    from dpmpc.release.results.plots import Plot

#: Names, and what is said under each.
Terms: TypeAlias = "Sequence[tuple[str, Sequence[str]]]"
#: Plots by what they show; each is drawn when it is called.
Plots: TypeAlias = "Mapping[str, Callable[[], Plot]]"


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
        Name -> what draws it.
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


@dataclasses.dataclass(frozen=True)
class GuaranteeInWords:
    """A guarantee in words."""

    text: str  # as it prints
    sentence: str  # what it means for one person
    terms: Terms  # item by item
    simulation: str | None  # what a simulation is said to be; None where it is none


@dataclasses.dataclass(frozen=True)
class Fact:
    """A number that stands at the top of a page."""

    name: str
    value: float
    unit: str
    digits: int = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report:
    """What a person reads of releases: what they are, what was found in them, what is promised, what they cost."""

    title: str  # of the releases
    about: Terms  # dates, operators
    released: Sequence[str]  # sentences
    result: Result
    promise: GuaranteeInWords
    facts: Sequence[Fact]
    noise: NumberTable  # sizes of noise, and of what is released where both can be told apart
    noise_plots: Plots
    noise_in_text: bool = False  # whether the text has that table too, as where it says what several releases were
    costs: Sequence[NumberTable] = ()
    cost_plots: Plots = dataclasses.field(default_factory=dict)
    free: Sequence[str]  # what may be done at no further cost
    paid: Sequence[str]  # what costs more
    code: str  # lines of Python that read it, or fit it, again
    command: str | None = None  # that made it, where it is known
    digests: Sequence[str] = ()  # of the tasks
    data: Mapping[str, object]  # public facts for programs
    run: Sequence[NumberTable | str] = ()  # what the run that made it has to say

    def __str__(self) -> str:
        """Return the text that a person reads; a simulation is called one before all else."""
        lines = [] if self.promise.simulation is None else [f"SIMULATION: {self.promise.simulation}", ""]
        lines += [self.title, *self.released]
        for name, texts in self.about:
            lines += [f"{name}: {texts[0]}"] if len(texts) == 1 else [f"{name}:", *(f"  {text}" for text in texts)]
        parts = ["\n".join(lines), str(self.result)]
        parts += [str(self.noise)] if self.noise_in_text else []
        parts += [f"What is promised\n{self.promise.text}", *map(str, self.run)]
        text = "\n\n".join(part for part in parts if part)
        return "\n".join(harmless(line) for line in text.split("\n"))

    def to_csv(self) -> str:
        """Return the tables of the result as comma-separated values, an empty line between them."""
        return "\n".join(table.to_csv() for table in self.result.tables)

    def to_latex(self) -> str:
        """Return the tables of the result for LaTeX."""
        return "\n".join(table.to_latex() for table in self.result.tables)

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain data for JSON."""
        return {"title": self.title, "about": {name.lower(): list(texts) for name, texts in self.about}} | {
            **self.data,
            **self.result.to_dict(),
        }

    def to_json(self) -> str:
        """Return one JSON object."""
        return json.dumps(self.to_dict(), allow_nan=False)
