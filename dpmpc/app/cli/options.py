"""Options that several commands share: those of a release, and those of a run on this machine."""

from __future__ import annotations

import argparse
import math
import re
from typing import Any

from dpmpc.app.cli.parsing import Parser, Section
from dpmpc.base.errors import InputError
from dpmpc.privacy.specification import flat_choices, option_of

SHARE_LIMIT_GB = 4.0
LONGEST_S = 365 * 86400
_ADDRESS = re.compile(r"(\[(?P<ipv6>[^\s\[\]]+)\]|(?P<host>[^\s:\[\]]+)):(?P<port>[0-9]{1,5})")
VERBOSE_HELP = "print the whole report: notes, noise, promise, servers and times"
DATA_HELP = "CSV (also .tsv, .csv.gz, or - for standard input) or Parquet, one row per client; several are joined"


#: Choices that a collection makes by itself or demands, and what it says of them.
_COLLECTED = {
    "noise_by": " (default: servers)",
    "corrupt_clients": ": in any batch that a server could leave; needed with --noise-by clients",
}


def add_release_options(command: Parser, *, collected: bool = False) -> None:
    """Add the choices of `ReleaseSpec.of`, but for servers and seed; in a collection servers add the noise."""
    for name in ("epsilon", "delta"):
        command.add_argument(f"--{name}", **option_of(name, required=True))
    for name in release_options():
        option = option_of(name, default=None) if collected and name in _COLLECTED else option_of(name)
        option["help"] += _COLLECTED[name] if collected and name in _COLLECTED else ""
        command.add_argument(f"--{name.replace('_', '-')}", **option, rare=name != "noise_by")
    command.add_argument(
        "--share-limit",
        rare=True,
        type=float,
        default=SHARE_LIMIT_GB,
        metavar="GB",
        help="most that --sketch rademacher may make one server's share take (default %(default)g)",
    )


def release_options() -> list[str]:
    """Return the choices of `ReleaseSpec.of` that are options, but for --servers, which has a short form."""
    return [
        name for name, (_, meta, _) in flat_choices().items() if (meta.extra or {})["command"] and name != "servers"
    ]


def release_choices(options: argparse.Namespace) -> dict[str, Any]:
    """Return the keywords of `ReleaseSpec.of` that `add_release_options` has read."""
    choices = {name: getattr(options, name) for name in release_options()}
    return {**choices, "share_limit": options.share_limit * 1e9}


def add_task_options(command: Parser) -> None:
    """Add the options of a release, of its servers and of its simulation."""
    add_release_options(command)
    command.add_argument("-M", "--servers", **option_of("servers"))
    add_simulation_seed(command)


def add_proved(command: Parser) -> None:
    """Add the choice of proofs to a command whose servers are not those of a collection."""
    command.add_argument(
        "--proved",
        rare=True,
        action="store_true",
        help="clients prove that what they share is well formed, as in a collection; needs --noise-by servers",
    )


def add_file_options(command: Parser) -> None:
    """Add what is stated of CSV files."""
    command.add_argument(
        "--separator",
        rare=True,
        metavar="SIGN",
        help="between the cells of a CSV file, or 'tab' (default: a comma)",
    )
    command.add_argument(
        "--decimal",
        default=".",
        metavar="SIGN",
        rare=True,
        help="decimal sign of a CSV file; with ',' cells are separated by ;",
    )


def dialect_of(options: argparse.Namespace) -> Any:
    """Return what `add_file_options` has read, for `dpmpc.data.table_files.read_table`."""
    from dpmpc.data.csv_files import Dialect

    return Dialect(options.separator, options.decimal)


def address(text: str, least: int = 0) -> tuple[str, int]:
    """Parse HOST:PORT, with a port of at least so much; an IPv6 address stands in brackets."""
    found = _ADDRESS.fullmatch(text)
    if found is None or not least <= int(found["port"]) < 1 << 16:
        raise argparse.ArgumentTypeError(f"{text!r} given, HOST:PORT expected, an IPv6 address in brackets")
    return found["ipv6"] or found["host"], int(found["port"])


def seconds(text: str) -> float:
    """Parse a longest time to wait, in seconds."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= LONGEST_S:
        raise argparse.ArgumentTypeError(f"{text!r} given, seconds above 0 and at most {LONGEST_S} (a year) expected")
    return value


def add_simulation_seed(command: Parser | Section) -> None:
    """Add the seed of a simulation."""
    command.add_argument(
        "--simulation-seed", type=int, metavar="SEED", rare=True, help="repeatable randomness: protects no one"
    )


def add_run_options(command: Parser) -> None:
    """Add the options of a run by several processes."""
    command.add_argument(
        "--threads", type=int, default=1, rare=True, help="threads of each process (default %(default)s)"
    )
    command.add_argument(
        "--deadline",
        rare=True,
        type=seconds,
        default=30.0,
        help="seconds that a party may keep others waiting (default %(default)g)",
    )
    command.add_argument("--json", action="store_true", help="print exactly one JSON object")


def add_verbose(command: Parser) -> None:
    """Add the choice of all that a report has, where a screen of it is printed otherwise."""
    command.add_argument("--verbose", action="store_true", help=VERBOSE_HELP)


def task_choices(options: argparse.Namespace) -> dict[str, Any]:
    """Return the keywords of `ReleaseSpec.of` that `add_task_options` has read."""
    return {**release_choices(options), "servers": options.servers, "simulation_seed": options.simulation_seed}


#: What a sum has of the options of a release.
_SUM_ONLY: dict[str, tuple[Any, ...]] = {
    "sketch": ("auto", "sum"),
    "rows": (None, 1),
    "sparsity": (None, 1),
    "radius": (None,),
}


def sums_only(choices: dict[str, Any]) -> dict[str, Any]:
    """Return the keywords of `ReleaseSpec.of` of a model in rounds, or refuse what is no sum."""
    if choices.pop("proved", False):
        raise InputError("proved", "given, but no proof covers the scores of a model in rounds: leave it out")
    for option, allowed in _SUM_ONLY.items():
        if choices[option] not in allowed:
            raise InputError(
                option, f"{choices[option]!r} given, but a model in rounds is read from sums: nothing expected"
            )
    return choices
