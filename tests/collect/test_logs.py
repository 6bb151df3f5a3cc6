"""The form of log lines, and that each refusal is told by its cause, once in a while."""

import datetime
import io
import json
import logging

import pytest

from dpmpc.base.errors import InputError
from dpmpc.collect.intake.logs import FORMS, LEVELS, REPEAT_SECONDS, ROOT, RateLimitedLogger, configure


@pytest.fixture
def stream():
    """A stream; afterwards the loggers are as they were."""
    logger = logging.getLogger(ROOT)
    before = logger.handlers[:], logger.level, logger.propagate
    yield io.StringIO()
    logger.handlers[:], logger.propagate = before[0], before[2]
    logger.setLevel(before[1])


def test_text_lines_have_a_time_in_utc_and_are_one_line(stream):
    configure(stream=stream)
    logging.getLogger("dpmpc.collect").info("listening on %s", "a\nb")
    time, rest = stream.getvalue().split(" ", 1)
    assert abs(datetime.datetime.fromisoformat(time) - datetime.datetime.now(datetime.UTC)).total_seconds() < 60
    assert rest.startswith("INFO dpmpc.collect: listening on a")
    assert stream.getvalue().count("\n") == 1


def test_json_lines_are_objects_with_a_cause_or_a_traceback(stream):
    configure("debug", "json", stream)
    logger = RateLimitedLogger(logging.getLogger("dpmpc.collect"))
    logger.log(logging.INFO, "upload refused: 410 CollectionClosed", cause="CollectionClosed")
    try:
        raise ValueError("x")
    except ValueError:
        logger.log(logging.ERROR, "an upload failed", traceback=True)
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert (first["level"], first["logger"], first["cause"]) == ("INFO", "dpmpc.collect", "CollectionClosed")
    assert "ValueError: x" in second["traceback"]
    assert set(first) == {"time", "level", "logger", "message", "cause"}


def test_levels(stream):
    configure("warning", stream=stream)
    logging.getLogger("dpmpc.collect").info("quiet")
    logging.getLogger("dpmpc.parties.network").warning("loud")
    assert "quiet" not in stream.getvalue()
    assert "loud" in stream.getvalue()


@pytest.mark.parametrize(("level", "form"), [("loud", FORMS[0]), (LEVELS[0], "xml")])
def test_bad_choices_are_named(level, form):
    with pytest.raises(InputError, match="given, one of"):
        configure(level, form)


def test_each_cause_has_its_own_line_and_the_number_of_those_kept_back(stream):
    now = [0.0]
    configure(stream=stream)
    logger = RateLimitedLogger(logging.getLogger("dpmpc.collect"), lambda: now[0])
    for _ in range(5):
        for cause in ("TooMany", "ReportRejected"):
            logger.log(logging.INFO, f"upload refused: {cause}", cause=cause)
    assert stream.getvalue().count("refused") == 2
    now[0] = REPEAT_SECONDS + 1
    logger.log(logging.INFO, "upload refused: TooMany", cause="TooMany")
    assert stream.getvalue().splitlines()[-1].endswith("upload refused: TooMany (4 more since the last such line)")
