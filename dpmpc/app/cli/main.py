"""The `dpmpc` command.

Results go to standard output, progress to standard error. Exit status: 0 done, 1 the machine is unfit, 2 bad
input, a guarantee that cannot be met or a file that cannot be written, 3 a protocol failure, 130 interrupted, 143 ended
by SIGTERM. Whatever is written appears whole or not at all, and a command that is interrupted or ended removes its
processes and temporary files.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from typing import TextIO

import dpmpc
from dpmpc.app.cli import (
    bounds,
    collection,
    demo,
    describe,
    doctor,
    fit,
    mix,
    owners,
    plan,
    predict,
    read,
    release,
    run,
    status,
    submit,
    withdraw,
)
from dpmpc.app.cli.parsing import TopParser
from dpmpc.app.cli.waiting import told_while_waiting
from dpmpc.base.errors import UtilityWarning
from dpmpc.base.exits import exit_status
from dpmpc.base.untrusted import harmless


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status."""
    _prepare_streams()
    arguments = sys.argv[1:] if argv is None else list(argv)
    top = parser()
    options = top.parse_args(arguments, argparse.Namespace(arguments=arguments))
    command = top.commands.choices[options.command]
    _announce_simulation(options)
    with _ended_in_order(), _warnings_in_a_line(), told_while_waiting(f"dpmpc {options.command}"):
        taken = (action for action in command.arguments if action.option_strings and action.const is not False)
        named = {action.dest: action.option_strings[-1] for action in taken}  # --no-intercept is not what errors name
        return exit_status(lambda: options.run(options), named)


def _announce_simulation(options: argparse.Namespace) -> None:
    """State before anything else that a repeatable release protects no one."""
    seed = getattr(options, "simulation_seed", None)
    if seed is not None:
        from dpmpc.privacy.statements import REPEATABLE

        print(f"dpmpc {options.command}: SIMULATION: --simulation-seed {seed}: {REPEATABLE}", file=sys.stderr)


@contextlib.contextmanager
def _warnings_in_a_line() -> Iterator[None]:
    """Print warnings about usefulness as one line each, without the place in the code."""
    with warnings.catch_warnings():
        shown = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, UtilityWarning):
                print(f"dpmpc: warning: {harmless(str(message))}", file=sys.stderr)
            else:
                shown(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield


@contextlib.contextmanager
def _ended_in_order() -> Iterator[None]:
    """Turn SIGTERM into an orderly exit, once; commands that end in their own way replace this handler."""

    def end(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the end has begun, and its time is bounded
        print("dpmpc: ended by SIGTERM", file=sys.stderr)
        raise SystemExit(128 + signal.SIGTERM)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _prepare_streams() -> None:
    """Make standard output tolerate characters that the locale cannot encode, and replace streams that are closed."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def parser() -> TopParser:
    """Build the command's parser."""
    top = TopParser(prog="dpmpc", description="Differentially private models; no server sees a row.")
    top.add_argument("--version", action="version", version=f"dpmpc {dpmpc.__version__}")
    for group in (
        *(demo, fit, describe, plan, bounds, read, predict, mix, owners, run),
        *(collection, submit, withdraw, release, doctor, status),
    ):
        group.add_commands(top)
    return top
