"""A collection's times as people say them: which state it is in, and how long ago something was."""

from __future__ import annotations

import datetime
from typing import Literal

State = Literal["not open yet", "open", "closed", "expired"]
STATES: tuple[State, ...] = ("not open yet", "open", "closed", "expired")
_UNITS = (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))


def state_at(
    now: datetime.datetime,
    opens: datetime.datetime,
    closes: datetime.datetime,
    expires: datetime.datetime,
    *,
    closed: bool = False,
) -> State:
    """Return the state at a time; each begins at its time and not after, or before it if it was `closed` for good."""
    if closed and now < closes:
        return "closed"
    return STATES[sum(now >= time for time in (opens, closes, expires))]


def in_words(duration: datetime.timedelta) -> str:
    """Return a duration in its largest whole unit, such as "3 hours"; less than a second is "a moment"."""
    seconds = abs(duration.total_seconds())
    for name, length in _UNITS:
        if seconds >= length:
            count = int(seconds // length)
            return f"{count:,} {name}{'s' if count > 1 else ''}"
    return "a moment"
