"""What a person reads of releases: a `Report`, printed as text and written as JSON, CSV, LaTeX and a page.

Promised: texts that another party wrote are escaped by the writer, for the form that it writes.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from dpmpc.app.render.screen import MOST_LINES, add, height, in_brief, tables_within
from dpmpc.base.untrusted import harmless
from dpmpc.release.results.number_tables import NumberTable
from dpmpc.release.results.result import Result

#: Names, and what stands under each.
Terms: TypeAlias = "Sequence[tuple[str, Sequence[str]]]"


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
    """What a person reads of releases: what they are, what was found in them, what is guaranteed, what they cost."""

    title: str  # of the releases
    about: Terms  # dates, operators
    released: Sequence[str]  # sentences
    result: Result
    promise: GuaranteeInWords
    facts: Sequence[Fact]
    noise: NumberTable  # sizes of noise, and of what is released where both can be told apart
    noise_in_text: bool = False  # whether the text has that table too, as where it says what several releases were
    costs: Sequence[NumberTable] = ()
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

    def brief(self) -> str:
        """Return what fits on a screen: the promise in a line, one warning, and last the tables.

        Notes, and the sentences on what was released, are there as far as there is room. What a row is flagged with
        always is: a table with flagged rows keeps the note that explains the flag.
        """
        result = self.result
        head = [] if self.promise.simulation is None else [f"SIMULATION: {self.promise.simulation}"]
        head += [self.title, in_brief(self.promise.text)]
        others = len(result.warnings) - 1
        if result.warnings:
            head.append(f"Warning: {result.warnings[0]}{f' ({others} more with --verbose)' if others > 0 else ''}")
        head.append("The whole report: --verbose.")
        head += [] if result.verdict is None else [f"Verdict. {result.verdict}"]
        room = MOST_LINES - height(head)
        tables, room = tables_within(result.tables, room)
        notes: list[str] = []
        room = add(result.notes, notes, room - 1)
        about: list[str] = []
        add([*self.released, *(f"{name}: {text}" for name, texts in self.about for text in texts)], about, room)
        parts = [[*head[:-1], *about, head[-1]], *([notes] if notes else []), *tables]
        return "\n".join(harmless(line) for lines in parts if lines for line in ("", *lines)).lstrip("\n")

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
