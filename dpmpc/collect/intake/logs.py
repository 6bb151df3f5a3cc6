"""What a server of a collection logs, in what form, and how seldom it repeats itself.

A line is text, ``2027-02-01T08:00:00.000+00:00 INFO dpmpc.collect: ...``, or one JSON object with the fields time,
level, logger, message, cause (of a refusal) and traceback (of an error). Times are in UTC. Control characters are
escaped, so that an entry is one line.

Promised by those who log: no line holds an address, report id, token, share or anything else that a client sent.
"""

from __future__ import annotations

import datetime
import json
import logging
import math
import time
from collections.abc import Callable
from typing import TextIO

from dpmpc.base.errors import InputError
from dpmpc.base.untrusted import harmless

LEVELS = ("debug", "info", "warning", "error")
FORMS = ("text", "json")
ROOT = "dpmpc"  # the logger above all of ours
REPEAT_SECONDS = 60.0
CAUSE = "cause"  # the extra field of a record that says why an upload was refused


class LineFormatter(logging.Formatter):
    """Writes a record as one line; subclasses state in what form."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        moment = datetime.datetime.fromtimestamp(record.created, datetime.UTC).isoformat(timespec="milliseconds")
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        return self.line(record, moment, harmless(record.getMessage()), trace)

    def line(self, record: logging.LogRecord, moment: str, message: str, trace: str) -> str:
        """Return the line of these parts; a traceback follows on its own lines."""
        more = f"\n{trace}" if trace else ""
        return f"{moment} {record.levelname} {record.name}: {message}{more}"


class JsonFormatter(LineFormatter):
    """Writes a record as one JSON object."""

    def line(self, record: logging.LogRecord, moment: str, message: str, trace: str) -> str:
        """Return the object; a traceback is one of its fields."""
        fields = {"time": moment, "level": record.levelname, "logger": record.name, "message": message}
        cause = getattr(record, CAUSE, None)
        if cause is not None:
            fields[CAUSE] = cause
        if trace:
            fields["traceback"] = trace
        return json.dumps(fields)


def configure(level: str = "info", form: str = "text", stream: TextIO | None = None) -> None:
    """Send what dpmpc logs to a stream, standard error by default; this replaces any earlier configuration."""
    for name, given, known in (("log_level", level, LEVELS), ("log_format", form, FORMS)):
        if given not in known:
            raise InputError(name, f"{given!r}", f"one of {', '.join(known)}")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if form == "json" else LineFormatter())
    logger = logging.getLogger(ROOT)
    logger.handlers[:] = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False


def configuration() -> tuple[str, str]:
    """Return level and form of what is logged, for another process of the same server."""
    logger = logging.getLogger(ROOT)
    as_json = any(isinstance(handler.formatter, JsonFormatter) for handler in logger.handlers)
    return logging.getLevelName(logger.getEffectiveLevel()).lower(), "json" if as_json else "text"


class RateLimitedLogger:
    """Logs a message once in `REPEAT_SECONDS`, with the number of times that it was kept back meanwhile."""

    def __init__(self, logger: logging.Logger, clock: Callable[[], float] = time.monotonic):
        self._logger, self._clock = logger, clock
        self._written: dict[str, tuple[float, int]] = {}  # by template: when last, and kept back since

    def log(
        self, level: int, template: str, *values: object, traceback: bool = False, cause: str | None = None
    ) -> None:
        """Log a message unless the same template was logged a short while ago.

        `traceback` adds the current error's, and `cause` the word by which refusals are counted (`CAUSE`).
        """
        now = self._clock()
        last, kept = self._written.get(template, (-math.inf, 0))
        if now - last < REPEAT_SECONDS:
            self._written[template] = last, kept + 1
            return
        self._written[template] = now, 0
        more = f" ({kept} more since the last such line)" if kept else ""
        extra = None if cause is None else {CAUSE: cause}
        self._logger.log(level, template + "%s", *values, more, exc_info=traceback, extra=extra)
