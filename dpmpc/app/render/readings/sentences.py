"""What can be stated in words of one question: estimates with their intervals, in the units of the codebook."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpmpc.app.render.drawing import figures
from dpmpc.base.untrusted import printable
from dpmpc.data.variables import Variable

NOT_TOLD = "not shown: the noise is too large for so few reports."
_LONGEST = 400  # characters of a text of somebody else


def legible(text: str) -> str:
    """Return a text of another party, fit to be printed."""
    return printable(text, _LONGEST)


def unit_of(variable: Variable) -> str:
    """Return the unit of a variable as it follows a number."""
    return f" {legible(variable.unit)}" if variable.unit else ""


def sentence_of(text: str, middle: float, low: float, high: float, unit: str, date: Variable | None = None) -> str:
    """Put an estimate and its interval into a sentence; one that is no number is hidden by the noise."""
    if not math.isfinite(middle + low + high):
        return NOT_TOLD
    if date is None:
        estimate, ends = figures(middle, 4) + unit, f"between {figures(low, 4)} and {figures(high, 4)}{unit}"
    else:
        estimate, first, last = (legible(date.date_of(day)) for day in (middle, math.floor(low), math.ceil(high)))
        ends = f"between {first} and {last}"
    return f"{text.format(estimate)}; {ends} for all people of whom these reports are a fair sample."


def hint(columns: Sequence[str]) -> str:
    """Return how a column is regressed on the others."""
    return f"--target {columns[-1]} regresses that column on the others."
