"""How a program of this folder is started by hand: its options, what it prints of each server, its exit status.

``python protocols/NAME.py -M3 --clients 10000`` has a program start its own parties on generated people. MPyC's options
are those of ``protocols/linear_transform.py``, which MPyC's launcher starts.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn

from dpmpc.base.errors import InputError
from dpmpc.base.exits import exit_status
from dpmpc.parties.network.meter import RunStatistics, hundredths, rounded
from dpmpc.privacy.specification import option_of

_MPYC = ("-I", "--index", "-P", "-C", "--config", "-T", "--threshold", "-B", "--base-port", "--ssl")


def parse_options(
    doc: str,
    arguments: Sequence[str],
    more: Callable[[argparse.ArgumentParser], None] | None = None,
    *,
    clients: int = 100_000,
    epsilon: float | None = 1.0,
    delta: float = 1e-7,
) -> argparse.Namespace:
    """Read the options that all programs share, and those of this one.

    Parameters
    ----------
    doc : str
        The docstring of the program, whose first line is its description.
    arguments : sequence of str
        The command line.
    more : callable, optional
        Adds the options of this program.
    clients, epsilon, delta
        The defaults; without an epsilon for a program that has another budget.

    Raises
    ------
    InputError
        If an option of MPyC's launcher is among them.
    """
    for argument in arguments:
        name = argument.partition("=")[0]
        if name in _MPYC or (argument[:2] in ("-I", "-P", "-T", "-B") and argument[2:3].isalnum()):
            raise InputError(
                name,
                "given, -M and the options of --help expected: this program starts its parties itself. "
                "protocols/linear_transform.py takes all options of MPyC (docs/how-to/mpyc.md)",
            )
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("-M", "--servers", **option_of("servers"))
    parser.add_argument("--clients", type=int, default=clients, help="number of people (default %(default)s)")
    if epsilon is not None:
        parser.add_argument("--epsilon", **option_of("epsilon", default=epsilon))
    parser.add_argument("--delta", **option_of("delta", default=delta))
    if more is not None:
        more(parser)
    return parser.parse_args(arguments)


def add_noise_options(parser: argparse.ArgumentParser) -> None:
    """Add who makes the noise, and the seed of a simulation."""
    parser.add_argument("--noise-by", **option_of("noise_by"))
    parser.add_argument("--simulation-seed", type=int, help="repeatable randomness: protects no one")


def print_servers(servers: Iterable[RunStatistics]) -> None:
    """Print the seconds and bytes of each server, rounded up: exact ones reveal something of the noise."""
    for spent in (rounded(exact, hundredths) for exact in servers):
        phases = ", ".join(f"{name} {phase.wall_s:.2f} s" for name, phase in spent.phases.items())
        print(
            f"server {spent.server}: {spent.total_s:.2f} s ({phases}) after {spent.setup_s:.2f} s of set-up, "
            f"{spent.cpu_s:.2f} s of CPU, sent {spent.bytes_sent:,} bytes"
        )


def by_hand(program: Callable[[Sequence[str]], None]) -> NoReturn:
    """Run a program that was started by hand, and end the process with its exit status."""
    sys.exit(exit_status(lambda: program(sys.argv[1:])))
