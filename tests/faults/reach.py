"""Which tests reach a line, and how long each takes: measured in a run of all of them on a copy without any fault."""

from __future__ import annotations

import contextlib
import io
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from faults.source import function_at

#: The tests of the rooms that `faults.operators.ROOMS` names, and of those that use them most.
TESTS = ("tests/linear", "tests/privacy", "tests/release", "tests/models")
MOST_SECONDS = 60.0  # of the tests that look for one fault, the fastest first
MOST_TESTS = 300


@dataclass(frozen=True)
class Reach:
    """What tests reach.

    Attributes
    ----------
    seconds : dict[str, float]
        The time of each test by its name, as pytest gives it.
    by_line : dict[str, dict[int, set[str]]]
        The names of the tests that run each line, by file and line.
    """

    seconds: dict[str, float]
    by_line: dict[str, dict[int, set[str]]]

    def tests_of(self, file: str, line: int) -> list[str]:
        """Return the tests that look for a fault in a line: those that run it, or its function, or its file at least.

        Case after case of each test, the fastest first.
        """
        lines = self.by_line.get(file, {})
        node = function_at(file, line).node
        first, last = getattr(node, "lineno", 1), getattr(node, "end_lineno", line)
        within = (tests for number, tests in lines.items() if first <= number <= last)
        reaching = lines.get(line) or set().union(*within) or set().union(*lines.values())
        chosen: list[str] = []
        total, turns = 0.0, Counter[str]()
        # One case of each test before the second of any: the fastest tests are many cases of what is refused.
        by_turn = []
        for test in sorted(reaching, key=lambda test: (self.seconds.get(test, MOST_SECONDS), test)):
            turns[test.partition("[")[0]] += 1
            by_turn.append((turns[test.partition("[")[0]], test))
        for _, test in sorted(by_turn, key=lambda pair: pair[0])[:MOST_TESTS]:
            total += self.seconds.get(test, MOST_SECONDS)
            if chosen and total > MOST_SECONDS:
                break
            chosen.append(test)
        return chosen


class _Durations:
    """A pytest plugin that keeps how long each test took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] += report.duration


def measure(folder: Path, jobs: int, *, slow: bool = False) -> Reach:
    """Run the quick tests, or the slow ones, in a copy of the checkout, which this process has entered.

    Returns
    -------
    Reach
        What these tests reach.

    Raises
    ------
    RuntimeError
        If a test fails: no fault has been made yet.
    """
    import coverage

    plugin, output = _Durations(), io.StringIO()
    options = [
        "-q",
        "-n",
        str(jobs),
        "--dist",
        "loadfile",
        "--no-loadscope-reorder",
        "-m",
        f"not long and {'' if slow else 'not '}slow",
    ]
    options += [
        "--cov=dpmpc",
        "--cov-context=test",
        "--cov-report=",
        "--hypothesis-profile=ci",
        "-p",
        "no:cacheprovider",
    ]
    with contextlib.redirect_stdout(output):
        status = pytest.main([*options, *TESTS], plugins=[plugin])
    if status != pytest.ExitCode.OK:
        raise RuntimeError(f"tests without any fault ended with {status!r}: {output.getvalue()[-2000:]}")
    data = coverage.CoverageData(str(folder / ".coverage"))
    data.read()
    by_line = {
        Path(file).relative_to(folder).as_posix(): {
            line: _names(contexts) for line, contexts in data.contexts_by_lineno(file).items() if _names(contexts)
        }
        for file in data.measured_files()
    }
    return Reach(dict(plugin.seconds), by_line)


def _names(contexts: Iterable[str]) -> set[str]:
    """Return the tests among contexts such as `FILE::TEST|run`; what imports run has none."""
    return {context.rpartition("|")[0] for context in contexts if context.endswith("|run")}
