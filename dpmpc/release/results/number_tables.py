"""Tables of numbers that a person reads: as text, CSV, LaTeX, HTML, plain data, or a data frame.

Promised: names are escaped for the form that they are written in, because a file of another party may hold any text;
the CSV and the data frame hold all digits, the other forms as many as a person reads.
"""

from __future__ import annotations

import csv
import dataclasses
import html
import importlib
import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dpmpc.base.errors import InputError
from dpmpc.base.untrusted import harmless

P_VALUES, SMALLEST_P = ("p", "p (Holm)"), 1e-16
PEOPLE = "people"  # heading of numbers of people, which a reader gets whole
_DIGITS = 5
_LATEX = {
    "\\": r"\textbackslash{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}
_LONGEST_NAME = 18  # letters beside a plot
SPREADSHEET_FORMULA = re.compile(r"^[=+\-@\t\r]")


@dataclasses.dataclass(frozen=True)
class NumberTable:
    """A row of numbers for each name.

    Attributes
    ----------
    title : str
        What the table shows.
    columns : mapping
        Heading -> a number for each name; NaN or infinite where there is none.
    names : sequence of str
        What the rows belong to.
    label : str
        The heading over the names.
    notes : sequence of str
        Sentences that belong under the table.
    errors : mapping
        Heading of an estimate -> heading of its standard error.
    intervals : mapping
        Name of an interval -> headings of its lower and its upper end.
    forms : mapping
        Name and heading of a number that is not written as one, such as a date -> what writes it.
    """

    title: str
    columns: Mapping[str, Sequence[float]]
    names: Sequence[str]
    label: str = "column"
    notes: Sequence[str] = ()
    errors: Mapping[str, str] = dataclasses.field(default_factory=dict)
    intervals: Mapping[str, tuple[str, str]] = dataclasses.field(default_factory=dict)
    forms: Mapping[tuple[str, str], Callable[[float], str]] = dataclasses.field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        for heading, values in self.columns.items():
            if len(values) != len(self.names):
                raise InputError("columns", f"{len(values)} numbers of {heading!r}", f"{len(self.names)}")
        for heading in (
            *self.errors,
            *self.errors.values(),
            *(end for ends in self.intervals.values() for end in ends),
        ):
            if heading not in self.columns:
                raise InputError("columns", f"{', '.join(self.columns)}", f"{heading!r} among them")

    def rows(self) -> list[tuple[str, list[float]]]:
        """Return each name with its numbers: whole ones as they are, others as floats."""
        lists = list(self.columns.values())
        return [(name, [_plain(values[row]) for values in lists]) for row, name in enumerate(self.names)]

    @property
    def cells(self) -> dict[str, tuple[str, ...]]:
        """What stands together where there is little room: heading -> headings of the numbers of its cells."""
        ends = {end: (name, pair) for name, pair in self.intervals.items() for end in pair}
        found: dict[str, tuple[str, ...]] = {}
        for heading in self.columns:
            if heading in ends:
                name, pair = ends[heading]
                found[name] = pair
            elif heading in self.errors:
                error = self.errors[heading]
                found[f"{heading} ±" if error.startswith("±") else f"{heading} ± {error}"] = (heading, error)
            elif heading not in self.errors.values():
                found[heading] = (heading,)
        return found

    def _texts(self, form: Callable[[float], str]) -> list[tuple[str, list[str]]]:
        """Return each name with the texts of its numbers."""
        return [
            (name, [self.text(name, heading, value, form) for heading, value in zip(self.columns, values, strict=True)])
            for name, values in self.rows()
        ]

    def text(self, name: str, heading: str, value: float, form: Callable[[float], str]) -> str:
        """Return the text of a number: dates as dates, people whole, and all else as `form` writes it."""
        if (name, heading) in self.forms and math.isfinite(value):
            return self.forms[name, heading](value)
        if heading == PEOPLE and math.isfinite(value):
            return form(round(value))
        # A p-value beyond the digits of a float is what it is below, and not 0.
        return f"< {SMALLEST_P:g}" if heading in P_VALUES and value < SMALLEST_P else form(value)

    def __str__(self) -> str:
        """Return the table as text of fixed width, its notes below."""
        cells = [[self.label, *self.columns]]
        cells += [[harmless(name), *texts] for name, texts in self._texts(number_text)]
        widths = [max(len(row[place]) for row in cells) for place in range(len(cells[0]))]
        lines = [self.title]
        for row in cells:
            entries = [
                f"{row[0]:{widths[0]}}",
                *(f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True)),
            ]
            lines.append("  ".join(entries).rstrip())
        return "\n".join([*lines, *self.notes])

    def to_csv(self) -> str:
        """Return comma-separated values with all digits; a name that a spreadsheet would compute is quoted by '."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([self.label, *self.columns])
        for name, values in self.rows():
            text = f"'{name}" if SPREADSHEET_FORMULA.match(name) else name
            writer.writerow([text, *(repr(value) if math.isfinite(value) else "" for value in values)])
        return file.getvalue()

    def to_latex(self) -> str:
        """Return a `tabular` of LaTeX's booktabs, title and notes as comments and text around it."""
        lines = [f"% {_one_line(self.title)}", rf"\begin{{tabular}}{{l{'r' * len(self.columns)}}}", r"\toprule"]
        lines += [rf"{' & '.join(map(latex_text, [self.label, *self.columns]))} \\", r"\midrule"]
        for name, texts in self._texts(_latex_number):
            lines.append(rf"{' & '.join([latex_text(name), *texts])} \\")
        lines += [r"\bottomrule", r"\end{tabular}", *(rf"\par {latex_text(note)}" for note in self.notes)]
        return "\n".join(lines) + "\n"

    def to_html(self) -> str:
        """Return a table of HTML."""
        heads = "".join(f'<th scope="col">{html.escape(text)}</th>' for text in (self.label, *self.columns))
        rows = "".join(
            f'<tr><th scope="row">{html.escape(name)}</th>'
            + "".join(f"<td>{html.escape(text)}</td>" for text in texts)
            + "</tr>"
            for name, texts in self._texts(number_text)
        )
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        caption = f"<caption>{html.escape(self.title)}</caption>"
        return f"<table>{caption}<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>{notes}"

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_dict(self) -> dict[str, dict[str, float | None]]:
        """Return name -> heading -> number as plain data for JSON; null where there is none."""
        return {
            name: {heading: finite_or_none(value) for heading, value in zip(self.columns, values, strict=True)}
            for name, values in self.rows()
        }

    def to_frame(self) -> Any:
        """Return a data frame of pandas, which must be installed, with the names as its index."""
        try:
            pandas: Any = importlib.import_module("pandas")
        except ImportError as error:
            raise InputError("to_frame", "pandas is not installed; pip install pandas, or use to_csv()") from error
        index = pandas.Index(list(self.names), name=self.label)
        return pandas.DataFrame({heading: list(values) for heading, values in self.columns.items()}, index=index)


def finite_or_none(value: float) -> float | None:
    """Return a number for JSON, which has no infinity and no NaN: None in their place."""
    return value if math.isfinite(value) else None


def _plain(value: float) -> float:
    return value if isinstance(value, int) else float(value)


def number_text(value: float) -> str:
    """Return a number with the digits that a person reads, whole ones with all, or a dash where there is none."""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.{_DIGITS}g}" if math.isfinite(value) else "-"


def latex_text(text: str) -> str:
    """Escape a text for LaTeX, on one line."""
    return "".join(_LATEX.get(character, character) for character in _one_line(text))


def _latex_number(value: float) -> str:
    mantissa, exponent, power = number_text(value).replace(",", "{,}").partition("e")
    if not math.isfinite(value):
        return "--"
    return rf"${mantissa} \cdot 10^{{{int(power)}}}$" if exponent else f"${mantissa}$"


def _one_line(text: str) -> str:
    return " ".join(harmless(text).split())


def short(name: str, longest: int = _LONGEST_NAME) -> str:
    """Shorten a column's name to its first and last letters, so that it fits beside a plot; tables have all of it."""
    words = " ".join(name.split())
    end = longest // 3
    return words if len(words) <= longest else f"{words[: longest - 1 - end]}…{words[-end:]}"


def short_names(names: Sequence[str]) -> list[str]:
    """Shorten names that stand beside each other, but by no more than leaves them different."""
    longest = _LONGEST_NAME
    while len({short(name, longest) for name in names}) < len({short(name, len(name)) for name in names}):
        longest += 1
    return [short(name, longest) for name in names]
