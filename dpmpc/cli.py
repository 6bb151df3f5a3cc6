"""The `dpmpc` command.

Results go to standard output, progress to standard error. Exit status: 0 done, 1 a bench of several failed, an audit
refuted a claim or the machine is unfit, 2 bad input or a guarantee that cannot be met, 3 a protocol failure. Whatever
is written appears whole or not at all.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

import dpmpc
from dpmpc.commands import audit, bench, bounds, demo, doctor, fit, intake, mixing, plan, release
from dpmpc.errors import DpmpcError


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    options = parser().parse_args(arguments, argparse.Namespace(arguments=arguments))
    return exit_status(lambda: options.run(options))


def exit_status(job: Callable[[], None]) -> int:
    """Do a job whose errors are told on standard error; return the exit status."""
    try:
        job()
        sys.stdout.flush()
    except DpmpcError as error:
        print(f"dpmpc: {type(error).__name__}: {error}", file=sys.stderr)
        return error.exit_status
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        print("dpmpc: interrupted", file=sys.stderr)
        return 130
    return 0


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line that names the command's help."""

    def error(self, message: str) -> NoReturn:
        """End with status 2."""
        self.exit(2, f"{self.prog}: {message}; {self.prog} --help tells more\n")


def parser() -> argparse.ArgumentParser:
    """Build the command's parser."""
    top = Parser(prog="dpmpc", description="Differentially private models; no server sees a row.")
    top.add_argument("--version", action="version", version=f"dpmpc {dpmpc.__version__}")
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for group in (demo, fit, plan, bounds, mixing, intake, release, audit, doctor, bench):
        group.add_commands(commands)
    return top
