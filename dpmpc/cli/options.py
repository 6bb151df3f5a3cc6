"""Options that several commands share: those of a release, and those of a run on this machine."""

from __future__ import annotations

import argparse
import math
from typing import Any

SHARE_LIMIT_GB = 4.0
LONGEST_S = 365 * 86400
INTEGER_NOISES = ("discrete-gaussian", "skellam", "discrete-laplace")


def add_release_options(command: argparse.ArgumentParser, *, collected: bool = False) -> None:
    """Add what `dpmpc.planning.specification.design` is told, but for servers and seed; of a collection servers add the noise."""
    command.add_argument(
        "--epsilon", type=float, required=True, help="the budget: how much one row may show; smaller is more private"
    )
    command.add_argument(
        "--delta",
        type=float,
        required=True,
        help="probability of an accident: well below 1/N; 0 only with discrete-laplace noise",
    )
    command.add_argument(
        "--sketch",
        choices=["auto", "osnap", "countsketch", "rademacher", "sum"],
        default="auto",
        help="what is released: the sum of products of columns, or a sketch by this public matrix; auto takes the sum "
        "unless rows are wide (default %(default)s)",
    )
    command.add_argument("--rows", type=int, metavar="K", help="rows of the sketch (default: chosen for the model)")
    command.add_argument("--sparsity", type=int, metavar="S", help="rows that each client hits, with osnap")
    command.add_argument(
        "--share-limit",
        type=float,
        default=SHARE_LIMIT_GB,
        metavar="GB",
        help="most that --sketch rademacher may make one server's share take (default %(default)g)",
    )
    command.add_argument("--radius", type=float, metavar="C", help="clip rows, scaled by their bounds, to this L2 norm")
    command.add_argument(
        "--noise",
        choices=INTEGER_NOISES,
        default="discrete-gaussian",
        help="its distribution; all are drawn exactly, in whole numbers (default %(default)s)",
    )
    command.add_argument(
        "--sharing",
        choices=["additive", "shamir"],
        default="additive",
        help="additive: all servers are needed, all but one may collude; shamir: fewer than half may collude, some may "
        "be missing (default %(default)s)",
    )
    command.add_argument(
        "--ring",
        choices=["ring64", "mersenne61"],
        help="integers that shares are made of (default: by --sharing)",
    )
    command.add_argument(
        "--noise-by",
        choices=["clients", "servers"],
        default=None if collected else "clients",
        help="who adds the noise (default: servers)" if collected else "who adds the noise (default %(default)s)",
    )
    command.add_argument(
        "--copies",
        choices=["auto", "one", "each"],
        default="auto",
        help="noisy copies of a row that a client sends: one, or one for each row of the sketch that it hits",
    )
    command.add_argument(
        "--corrupt-clients",
        type=int,
        default=None if collected else 0,
        metavar="T",
        help="of any batch that a server could leave over, reports of people who tell it their noise or add none; "
        "needed with --noise-by clients"
        if collected
        else "clients that may tell the servers their noise (default %(default)s)",
    )
    command.add_argument(
        "--dropouts",
        type=int,
        default=0,
        metavar="N",
        help="clients in all of whom anything may be missing in the end (default %(default)s)",
    )
    command.add_argument(
        "--coalition",
        choices=["adaptive", "static"],
        default="adaptive",
        help="corrupt clients are chosen when the public matrix is known, or before",
    )
    command.add_argument(
        "--calibration",
        choices=["joint", "paper"],
        default="joint",
        help="noise for the whole release at once, or by the paper's bound, which takes more (default %(default)s)",
    )


def release_choices(options: argparse.Namespace) -> dict[str, Any]:
    """Return the keyword arguments of `dpmpc.planning.specification.design` that `add_release_options` has read."""
    return {
        "sketch": options.sketch,
        "rows": options.rows,
        "sparsity": options.sparsity,
        "share_limit": options.share_limit * 1e9,
        "noise": options.noise,
        "radius": options.radius,
        "sharing": options.sharing,
        "ring": options.ring,
        "noise_by": options.noise_by,
        "copies": options.copies,
        "corrupt_clients": options.corrupt_clients,
        "dropouts": options.dropouts,
        "coalition": options.coalition,
        "calibration": options.calibration,
    }


def add_task_options(command: argparse.ArgumentParser) -> None:
    """Add the options of a release and of those who make it."""
    add_release_options(command)
    command.add_argument("-M", "--servers", type=int, default=3, metavar="M", help="how many (default %(default)s)")
    add_simulation_seed(command)


def seconds(text: str) -> float:
    """A time to wait at most: more than nothing, and not forever."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= LONGEST_S:
        raise argparse.ArgumentTypeError(f"{text!r} given, seconds above 0 and at most {LONGEST_S} (a year) expected")
    return value


def add_simulation_seed(command: argparse.ArgumentParser) -> None:
    """Add the seed of a simulation."""
    command.add_argument("--simulation-seed", type=int, metavar="SEED", help="repeatable randomness: protects nobody")


def add_run_options(command: argparse.ArgumentParser) -> None:
    """Add what a run by several processes needs to know."""
    command.add_argument("--threads", type=int, default=1, help="threads of each process (default %(default)s)")
    command.add_argument(
        "--deadline",
        type=seconds,
        default=30.0,
        help="seconds that a party may keep others waiting (default %(default)g)",
    )
    command.add_argument("--json", action="store_true", help="print exactly one JSON object")


def task_choices(options: argparse.Namespace) -> dict[str, Any]:
    """Return the keyword arguments of `dpmpc.planning.specification.design` that `add_task_options` has read."""
    return {**release_choices(options), "servers": options.servers, "seed": options.simulation_seed}
