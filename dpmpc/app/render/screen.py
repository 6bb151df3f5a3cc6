"""What fits on a screen of 40 lines of 100 columns: the promise in one line, and tables that are cut."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from dpmpc.models.common.inference import FLAG
from dpmpc.release.results.number_tables import NumberTable

MOST_LINES = 40  # of what a command prints without --verbose
WIDTH = 100  # of a line on a screen
_LEFT_OUT = 2  # lines that state which tables are left out
_FEWEST_LINES = 4  # of a table: its title, its head and two rows
_IN_BRIEF = ("  neighbouring: ", "  holds even if ")


def in_brief(promise: str) -> str:
    """Return in one line what a guarantee promises, between which neighbours, and against whom."""
    lines = [line for line in promise.split("\n") if not line.startswith("SIMULATION")]
    return "; ".join([lines[0], *(line.strip() for line in lines if line.startswith(_IN_BRIEF))])


def height(lines: Sequence[str]) -> int:
    """Return how many lines of a screen these take."""
    return sum(max(1, math.ceil(len(line) / WIDTH)) for line in lines)


def add(more: Sequence[str], lines: list[str], room: int) -> int:
    """Append lines as far as there is room, and return what is left of it."""
    for line in more:
        if (needed := height([line])) > room:
            break
        lines.append(line)
        room -= needed
    return room


def tables_within(tables: Sequence[NumberTable], room: int) -> tuple[list[list[str]], int]:
    """Return the lines of tables, and of what is left out, with as many notes as there is room for; and the rest of it.

    Each list of lines has an empty line before it.
    """
    shown, left_out = _cut(tables, room)
    room -= height([line for lines in (*shown, left_out) if lines for line in ("", *lines)])
    for lines, table in zip(shown, tables, strict=False):
        room = add([note for note in table.notes if note not in lines], lines, room)
    return [*shown, left_out], room


def _cut(tables: Sequence[NumberTable], room: int) -> tuple[list[list[str]], list[str]]:
    """Return the lines of each table for which there is room, and what states that others are left out."""
    shown: list[list[str]] = []
    for number, table in enumerate(tables):
        flags = [note for note in table.notes if note.startswith(FLAG.strip())]
        rows = str(dataclasses.replace(table, notes=())).split("\n")
        last = number == len(tables) - 1
        left = room - height(["", *flags]) - (0 if last else _LEFT_OUT)
        if left < height(rows[:_FEWEST_LINES]) and shown:
            return shown, [f"... and {len(tables) - number} more tables: --verbose"]
        lines: list[str] = []
        add(rows, lines, left if height(rows) <= left else left - 1)
        if len(lines) < len(rows):
            lines.append(f"... and {len(rows) - len(lines)} more rows: --verbose")
        shown.append([*lines, *flags])
        room -= height(["", *shown[-1]])
    return shown, []
