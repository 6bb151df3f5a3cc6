"""A draft of a codebook, from the cells of a file: kinds, categories, dates, words for what is missing, and bounds.

Not private: everything in a draft depends on single rows. It is for data that are public or old, and a start for
somebody who writes down what is publicly known. A draft is a bounds file that `fit` and `describe` take as it stands:
what could not be drafted is left out and named.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime
import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any, TypeVar

from dpmpc.base.errors import InputError
from dpmpc.data.codebook import Codebook
from dpmpc.data.csv_files import MISSING, CsvFile, Dialect, is_csv
from dpmpc.data.schemas import Schema
from dpmpc.data.table import Cell, Cells
from dpmpc.data.table_files import Paths, column_names, read_cells
from dpmpc.data.variables import Variable

MOST_VALUES = 30  # of a category
WORDS = frozenset({".", "-", "unknown", "not known", "missing", "none", "refused", "n.a.", "n/k", "k.a.", "nd"})
NUMBERS = frozenset({"-9", "-99", "-999", "-9999"})  # for what is missing, where no other number is below 0
ANSWERS = {"yes": "no", "y": "n", "true": "false", "t": "f", "1": "0", "ja": "nein", "j": "n", "oui": "non", "si": "no"}
FORMATS = ("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%d.%m.%y")
_MOSTLY = 0.9  # of the values of a number or date; the others are words for what is missing
_MOST_WORDS = 5
_SIGNIFICANT_DIGITS = 2
Value = TypeVar("Value")
_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d+,\d+\s*")


@dataclasses.dataclass(frozen=True)
class Draft:
    """What was drafted.

    Attributes
    ----------
    schema : Schema
        Bounds with the codebook.
    dialect : Dialect
        How the file was read.
    left_out : mapping
        Column that has no draft -> the reason.
    """

    schema: Schema
    dialect: Dialect
    left_out: Mapping[str, str]

    def to_toml(self) -> str:
        """Return a bounds file with remarks at its head."""
        remarks = ["Drafted from the data itself, which is NOT private: replace all of it by what is publicly known."]
        if self.dialect != Dialect():
            separator = "tab" if self.dialect.separator == "\t" else self.dialect.separator
            given = f"--separator '{separator}' --decimal {self.dialect.decimal}"
            remarks.append(f"Read with {given}: give them to each command that reads the file.")
        remarks += [f"{name}: {why}; left out" for name, why in self.left_out.items()]
        return "".join(f"# {remark}\n" for remark in remarks) + self.schema.to_toml()


def draft(path: Paths, columns: Sequence[str] | None = None, *, dialect: Dialect | None = None) -> Draft:
    """Draft a codebook of a file, or of several that continue each other.

    Parameters
    ----------
    path : str, Path or sequence of these
        As `dpmpc.data.table_files.read_table` takes them.
    columns : sequence of str, optional
        These columns only.
    dialect : Dialect, optional
        Separator and decimal sign of CSV files; by default what suits the first file.

    Raises
    ------
    InputError
        If a file cannot be read, or no column can be drafted.
    """
    first = path if isinstance(path, str) or not isinstance(path, Sequence) else path[0]
    given = Dialect(_separator(str(first))) if dialect is None and is_csv(first) else dialect or Dialect()
    names = list(columns or column_names(path, given))
    if dialect is None and given.separator not in (None, ",") and _has_decimal_commas(path, names, given):
        given = dataclasses.replace(given, decimal=",")
    variables, left_out = [], {}
    for name in names:
        # One column at a time, because the cells of a large file do not fit into memory together.
        found = _variable(read_cells(path, [name], dialect=given))
        if isinstance(found, Variable):
            variables.append(found)
        else:
            left_out[name] = found
    if not variables:
        reasons = "; ".join(f"{name}: {why}" for name, why in left_out.items())
        raise InputError("columns", f"none that can be drafted given ({reasons})")
    return Draft(Schema.of_codebook(Codebook(tuple(variables))), given, left_out)


def _separator(path: str) -> str | None:
    """Return the sign that makes the most columns of a header; None for that of the file's name."""
    widths: dict[str | None, int] = {}
    for sign in (None, ",", ";", "\t"):
        with contextlib.suppress(InputError):  # names in one column alone, which another sign separates
            widths[sign] = len(CsvFile(path, Dialect(sign)).header)
    return max(widths, key=lambda sign: widths[sign], default=None)


def _has_decimal_commas(path: Paths, names: Sequence[str], dialect: Dialect) -> bool:
    """Return whether some column has numbers with a decimal comma, and none with a point."""
    for name in names:
        cells = [cell for cell in read_cells(path, [name], dialect=dialect).columns[0] if isinstance(cell, str)]
        if any(map(_DECIMAL_COMMA.fullmatch, cells)) and not any(re.fullmatch(r"[+-]?\d+\.\d+", one) for one in cells):
            return True
    return False


def _variable(cells: Cells) -> Variable | str:
    """Return the variable of one column, or why there is none."""
    name, column = cells.names[0], cells.columns[0]
    counts = collections.Counter(cell for cell in column if cell is not None)
    texts: dict[Cell, int] = {
        cell: count for cell, count in counts.items() if not isinstance(cell, str) or cell.lower() not in MISSING
    }
    lacking = len(column) - sum(texts.values())
    if len(texts) < 2:
        return "every row has the same value" if texts else "no value is there"
    for kind in (_answers, _dates, _numbers, _category):
        if (fields := kind(texts, cells.number)) is not None:
            lacking += sum(texts[word] for word in fields.get("missing", ()))
            return Variable(name, **fields, if_missing="indicator" if lacking else None)
    return f"text of {len(texts):,} different values"


def _words(texts: Iterable[Cell]) -> tuple[str, ...]:
    """Return those of the texts that are known to stand for what is missing."""
    return tuple(sorted(one for one in texts if isinstance(one, str) and (one.lower() in WORDS or one in NUMBERS)))


def _answers(texts: Mapping[Cell, int], number: Callable[[str], float | None]) -> dict[str, Any] | None:
    """Return the fields of an answer, yes or no."""
    missing = _words(texts)
    said = {one.casefold() for one in texts if isinstance(one, str) and one not in missing}
    yes, no = (said & set(words) for words in (ANSWERS, ANSWERS.values()))
    if not yes or not no or said - yes - no or any(not isinstance(one, str) for one in texts):
        return None
    if yes & no:  # "no" of Spanish and English, "n" of both: never a yes
        yes -= no
    return {"yes": tuple(sorted(yes)), "no": tuple(sorted(no)), **_missing(missing)} if yes else None


def _dates(texts: Mapping[Cell, int], number: Callable[[str], float | None]) -> dict[str, Any] | None:
    """Return the fields of a date, within whole years."""
    if all(isinstance(one, datetime.date) for one in texts):
        years = [one.year for one in texts if isinstance(one, datetime.date)]
        return {"date": "%Y-%m-%d", "lower": f"{min(years)}-01-01", "upper": f"{max(years)}-12-31"}
    for form in FORMATS:
        found, words = _read(texts, functools.partial(_date, form))
        if words is not None and found:
            ends = datetime.date(min(found).year, 1, 1), datetime.date(max(found).year, 12, 31)
            lower, upper = (end.strftime(form) for end in ends)
            return {"date": form, "lower": lower, "upper": upper, **_missing(words)}
    return None


def _numbers(texts: Mapping[Cell, int], number: Callable[[str], float | None]) -> dict[str, Any] | None:
    """Return the fields of a number, with bounds that are rounded outwards."""
    found, words = _read(texts, number)
    if words is None or not found:
        return None
    coded = [text for text in texts if isinstance(text, str) and text.strip() in NUMBERS]
    rest = [value for value in found if value not in {float(text) for text in coded}]
    if coded and rest and min(rest) >= 0:
        found, words = rest, (*words, *coded)
    if min(found) == max(found):
        return None
    lower, upper = _rounded(min(found), ROUND_FLOOR), _rounded(max(found), ROUND_CEILING)
    return {"lower": lower, "upper": upper, **_missing(words)}


def _category(texts: Mapping[Cell, int], number: Callable[[str], float | None]) -> dict[str, Any] | None:
    """Return the fields of a category, its values in the order of the alphabet."""
    missing = _words(texts)
    values = sorted(str(one) for one in texts if one not in missing)
    return {"values": tuple(values), **_missing(missing)} if 2 <= len(values) <= MOST_VALUES else None


def _missing(words: Sequence[str]) -> dict[str, Any]:
    return {"missing": tuple(words)} if words else {}


def _read(
    texts: Mapping[Cell, int], reader: Callable[[str], Value | None]
) -> tuple[list[Value], tuple[str, ...] | None]:
    """Return what most texts are read as, and the few words that are none; None for these where they are many."""
    found: list[Value] = []
    words: list[str] = []
    others = 0
    for text, count in texts.items():
        value = reader(text) if isinstance(text, str) else None
        if value is not None:
            found.append(value)
        else:
            words.append(str(text))
            others += count
    few = len(words) <= _MOST_WORDS and others <= (1 - _MOSTLY) * sum(texts.values())
    return found, tuple(sorted(words)) if few else None


def _date(form: str, text: str) -> datetime.date | None:
    try:
        return datetime.datetime.strptime(text, form).date()
    except ValueError:
        return None


def _rounded(value: float, rounding: str) -> float:
    """Return a number of two significant digits, away from the data."""
    number = Decimal(repr(value))
    step = Decimal(1).scaleb(number.adjusted() - _SIGNIFICANT_DIGITS + 1)
    return float(number.quantize(step, rounding=rounding))
