"""The `dpmpc` command.

Results go to standard output, progress to standard error. Exit status: 0 done, 1 an audit refuted a claim or the
machine is unfit, 2 bad input, a guarantee that cannot be met or a file that cannot be written,
3 a protocol failure, 130 interrupted, 143 ended by SIGTERM. Whatever is written appears whole or not at all, and
a command that is interrupted or ended removes its processes and temporary files.
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
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn, TextIO

import dpmpc
from dpmpc.app.cli import (
    audit,
    bounds,
    collection,
    completion,
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
from dpmpc.base.errors import DpmpcError, InputError, UtilityWarning
from dpmpc.base.untrusted import harmless


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status."""
    _prepare_streams()
    arguments = sys.argv[1:] if argv is None else list(argv)
    top = parser()
    options = top.parse_args(arguments, argparse.Namespace(arguments=arguments, parser=top))
    _announce_simulation(options)
    with _ended_in_order(), _warnings_in_a_line(), told_while_waiting(f"dpmpc {options.command}"):
        return exit_status(lambda: options.run(options))


def _announce_simulation(options: argparse.Namespace) -> None:
    """Say before anything else that nobody is protected; an audit releases nothing, whatever its seed."""
    seed = getattr(options, "simulation_seed", None)
    if seed is not None and options.command != "audit":
        from dpmpc.privacy.guarantee import REPEATABLE

        print(f"dpmpc {options.command}: SIMULATION: --simulation-seed {seed}: {REPEATABLE}", file=sys.stderr)


def exit_status(job: Callable[[], None]) -> int:
    """Run a job and report its errors on standard error; return the exit status."""
    try:
        job()
        sys.stdout.flush()
    except DpmpcError as error:
        print(f"dpmpc: {type(error).__name__}: {harmless(str(error))}", file=sys.stderr)
        return error.exit_status
    except BrokenPipeError:  # whoever read our output has seen enough
        _discard_what_cannot_be_written()
        return 141
    except OSError as error:  # a disk that is full, a folder that may not be written
        _discard_what_cannot_be_written()
        where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        print(f"dpmpc: {where}{error.strerror or error}", file=sys.stderr)
        return InputError.exit_status
    except KeyboardInterrupt:
        print("dpmpc: interrupted", file=sys.stderr)
        return 130
    return 0


def by_hand(program: Callable[[Sequence[str]], None]) -> NoReturn:
    """Run a program of `protocols/` that was started by hand, and end the process."""
    sys.exit(exit_status(lambda: program(sys.argv[1:])))


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


def _discard_what_cannot_be_written() -> None:
    """Discard what standard output still holds if writing fails: the interpreter would try again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def parser() -> TopParser:
    """Build the command's parser."""
    top = TopParser(prog="dpmpc", description="Differentially private models; no server sees a row.")
    top.add_argument("--version", action="version", version=f"dpmpc {dpmpc.__version__}")
    for group in (
        *(demo, fit, describe, plan, bounds, read, predict, mix, owners, run),
        *(collection, submit, withdraw, release, audit, doctor, completion, status),
    ):
        group.add_commands(top)
    return top
