"""Options that several commands share: those of a release, and those of a run on this machine."""

from __future__ import annotations

import argparse
from typing import Any

SHARE_LIMIT_GB = 4.0
INTEGER_NOISES = ("discrete-gaussian", "skellam", "discrete-laplace")


def add_release_options(command: argparse.ArgumentParser) -> None:
    """Add what `dpmpc.planning.design` is told, but for servers and seed."""
    command.add_argument("--epsilon", type=float, required=True)
    command.add_argument("--delta", type=float, required=True, help="0 with discrete-laplace noise")
    command.add_argument(
        "--sketch",
        choices=["auto", "osnap", "countsketch", "rademacher", "sum"],
        default="auto",
        help="the public matrix; with rademacher every client hits every row (default %(default)s)",
    )
    command.add_argument("--rows", type=int, metavar="K", help="rows of the sketch")
    command.add_argument("--sparsity", type=int, metavar="S", help="rows that each client hits")
    command.add_argument(
        "--share-limit",
        type=float,
        default=SHARE_LIMIT_GB,
        metavar="GB",
        help="most that --sketch rademacher may make one server's share take (default %(default)g)",
    )
    command.add_argument("--radius", type=float, metavar="C", help="clip normalised rows to this L2 norm")
    command.add_argument("--noise", choices=INTEGER_NOISES, default="discrete-gaussian")
    command.add_argument("--sharing", choices=["additive", "shamir"], default="additive")
    command.add_argument("--ring", choices=["ring64", "mersenne61"], help="where shares live")
    command.add_argument(
        "--noise-by", choices=["clients", "servers"], default="clients", help="who adds the noise (default %(default)s)"
    )
    command.add_argument(
        "--copies", choices=["auto", "one", "each"], default="auto", help="noisy copies of a row that a client sends"
    )
    command.add_argument("--corrupt-clients", type=int, default=0, metavar="T")
    command.add_argument("--dropouts", type=int, default=0, metavar="N")
    command.add_argument(
        "--coalition", choices=["adaptive", "static"], default="adaptive", help="when corrupt clients are chosen"
    )
    command.add_argument("--calibration", choices=["joint", "paper"], default="joint")


def release_choices(options: argparse.Namespace) -> dict[str, Any]:
    """Return the keyword arguments of `dpmpc.planning.design` that `add_release_options` has read."""
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
    command.add_argument("-M", "--servers", type=int, default=3, metavar="M")
    add_simulation_seed(command)


def add_simulation_seed(command: argparse.ArgumentParser) -> None:
    """Add the seed of a simulation."""
    command.add_argument("--simulation-seed", type=int, metavar="SEED", help="repeatable randomness: protects nobody")


def add_run_options(command: argparse.ArgumentParser) -> None:
    """Add what a run by several processes needs to know."""
    command.add_argument("--threads", type=int, default=1, help="threads of each process (default %(default)s)")
    command.add_argument("--deadline", type=float, default=30.0, help="seconds that a party may keep others waiting")
    command.add_argument("--json", action="store_true", help="print exactly one JSON object")


def task_choices(options: argparse.Namespace) -> dict[str, Any]:
    """Return the keyword arguments of `dpmpc.planning.design` that `add_task_options` has read."""
    return {**release_choices(options), "servers": options.servers, "seed": options.simulation_seed}
