"""What a server of a collection logs, and how: one place for its form.

A line is text, ``2027-02-01T08:00:00.000+00:00 INFO dpmpc.collection: ...``, or one JSON object with the fields time,
level, logger, message, cause (of a refusal) and traceback (of an error). Times are in UTC. Control characters are
escaped, so that an entry is one line.

Promised by those who log: no line holds an address, report id, token, share or anything else that a client sent.
"""

from __future__ import annotations

import datetime
import json
import logging
from typing import TextIO

from dpmpc.errors import InputError
from dpmpc.untrusted import harmless

LEVELS = ("debug", "info", "warning", "error")
FORMS = ("text", "json")
ROOT = "dpmpc"  # the logger above all of ours
CAUSE = "cause"  # the extra field of a record that says why an upload was refused


class LineFormatter(logging.Formatter):
    """Writes a record as one line; subclasses say in what form."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        time = datetime.datetime.fromtimestamp(record.created, datetime.UTC).isoformat(timespec="milliseconds")
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        return self.line(record, time, harmless(record.getMessage()), trace)

    def line(self, record: logging.LogRecord, time: str, message: str, trace: str) -> str:
        """Return the line of these parts; a traceback follows on lines of its own."""
        more = f"\n{trace}" if trace else ""
        return f"{time} {record.levelname} {record.name}: {message}{more}"


class JsonFormatter(LineFormatter):
    """Writes a record as one JSON object."""

    def line(self, record: logging.LogRecord, time: str, message: str, trace: str) -> str:
        """Return the object; a traceback is one of its fields."""
        fields = {"time": time, "level": record.levelname, "logger": record.name, "message": message}
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
            raise InputError(f"{name}: {given!r} given, one of {', '.join(known)} expected")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if form == "json" else LineFormatter())
    logger = logging.getLogger(ROOT)
    logger.handlers[:] = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False
