"""Say on standard error what a command is at when it takes longer than somebody waits in silence.

`told_while_waiting` surrounds every command. After `FIRST_SECONDS` it writes a line with the name of the command, its
stage and the time, and another one after `NEXT_SECONDS`, then ever more seldom. So a log of a piped command has a line
now and then, and a short command is silent. What can say more draws its own display on a terminal, while this is
`quiet`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import threading
import time
from collections.abc import Callable, Iterator

FIRST_SECONDS = 2.0
NEXT_SECONDS = 10.0
GROWTH = 1.5  # of the pause between two lines: ten minutes take a dozen
LONGEST_PAUSE_S = 300.0


@dataclasses.dataclass
class _Stage:
    """What the command of this process is at; there is one at a time."""

    words: str = ""
    fraction: float | None = None
    silences: int = 0  # how many displays of their own are drawn


_NOW = _Stage()


def note(words: str, fraction: float | None = None) -> None:
    """Note what the command is at, and how much of it is done; the user reads of it in time."""
    _NOW.words, _NOW.fraction = words, fraction


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Write no lines meanwhile: another display shows what happens."""
    _NOW.silences += 1
    try:
        yield
    finally:
        _NOW.silences -= 1


@contextlib.contextmanager
def told_while_waiting(command: str, write: Callable[[str], None] | None = None) -> Iterator[None]:
    """Write a line now and then until the command is done."""
    note("")
    done = threading.Event()
    telling = threading.Thread(target=_tell, args=(command, done, write or _to_standard_error), daemon=True)
    telling.start()
    try:
        yield
    finally:
        done.set()
        telling.join()


def _tell(command: str, done: threading.Event, write: Callable[[str], None]) -> None:
    began, pause, following = time.monotonic(), FIRST_SECONDS, NEXT_SECONDS
    while not done.wait(pause):
        if not _NOW.silences:
            write(line(command, time.monotonic() - began))
        pause, following = following, min(LONGEST_PAUSE_S, GROWTH * following)


def line(command: str, seconds: float) -> str:
    """Return the line to print after this many seconds."""
    stage = _NOW.words or "at work"
    done = "" if _NOW.fraction is None else f", {_NOW.fraction:.0%} done"
    return f"{command}: {stage}{done}, {seconds:.0f} s"


def _to_standard_error(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # whoever read it has gone, or it is closed: the command goes on
        print(text, file=sys.stderr, flush=True)
