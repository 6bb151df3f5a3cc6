"""What surrounds the linear transform in a program: the task that all parties agree on, rows, and the release.

The program has the steps of the paper and the calls of MPyC::

    args = options(__doc__)
    plan = planned(args)               # what cannot be had is refused before any party is contacted
    async with mpc:
        run = await plan.agreed()      # one task for all; the public matrix S is in it
        y = linear_transform(run)
        sums = await mpc.output(run.once(y), receivers=run.analyst)
        release = await run.released(sums)
    return run.report(release)

On MPyC's runtime each party designs the task from its own options. All compare it and, where they play their clients,
toss for S first. Shares of clients who are no parties lie in a folder with their task, S in it, which is opened once
(`dpmpc.parties.mpyc.share_folders`). Among the parties of `dpmpc.parties.network` the task comes with each party's own
settings and was verified before the program was imported; nothing is left to agree on, and the options are those of the
settings.

Promised: no party goes on with another task, program, analyst or source of rows than the others, unless it lies; the
release is saved directly after it was opened. Not promised by MPyC's runtime: what `dpmpc.parties.mpyc.mpyc_links`
lists.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mpyc.runtime import mpc

from dpmpc.base import plugins
from dpmpc.base.arguments import NOISES
from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.base.plugins import Open
from dpmpc.data import Schema
from dpmpc.parties.mpyc.agreed_runs import LinkedPlan, Plan
from dpmpc.parties.mpyc.secret_arrays import SHARINGS
from dpmpc.privacy.specification import SKETCHES, Mechanism
from dpmpc.privacy.task import Task


def options(doc: str, **defaults: Any) -> argparse.Namespace:
    """Read what MPyC has left of the command line.

    Parameters
    ----------
    doc : str
        The program's docstring, which ``-h`` prints.
    **defaults
        Other defaults, and further values of the program, which a party of `dpmpc.parties.network` takes from its
        arguments.

    Raises
    ------
    InputError
        If options contradict each other.
    """
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    add = parser.add_argument
    add("--clients", type=int, default=200_000, metavar="N", help="whose rows are generated (default %(default)s)")
    add("--columns", type=int, default=10, metavar="D", help="of a row (default %(default)s)")
    sketches = Open((kind for kind in SKETCHES if kind not in ("auto", "sum")), plugins.SKETCHES)
    noises, usual = Open(NOISES, plugins.NOISES), Mechanism().noise
    for name, kinds, default in (("--sketch", sketches, "osnap"), ("--noise", noises, usual)):
        add(name, choices=kinds, default=default, metavar="FAMILY", help=f"{', '.join(kinds)} (default {default})")
    add("--rows", type=int, default=100, metavar="K", help="of the sketch, k (default %(default)s)")
    add("--sparsity", type=int, default=1, metavar="S", help="rows that a client meets, s (default %(default)s)")
    add("--copies", choices=("each", "one"), default="each", help="a noisy copy for each of these rows, or one for all")
    add("--sharing", choices=SHARINGS, default="additive", help="(default %(default)s)")
    add("--epsilon", type=float, default=1.0, help="(default %(default)s)")
    add("--delta", type=float, default=1e-7, help="(default %(default)s)")
    add(
        "--corrupt-clients",
        type=int,
        metavar="T",
        help="how many reveal their noise to others (default: all clients of the parties that may pool what they hold)",
    )
    add("--task", metavar="FILE", help="a task as JSON, not one that is designed from these options")
    add("--shares", metavar="DIR", help="clients are no parties: DIR/party-J holds what they sent to server J")
    add("--analyst", type=int, metavar="P", help="the party that opens the sketch (default: all parties)")
    add("--release", metavar="FILE", help="where the analyst, or party 0, keeps the release")
    add("--costs", metavar="FILE", help="where party 0 keeps what each party spent, as JSON")
    parser.set_defaults(**defaults)
    args = parser.parse_args()
    if args.shares and args.task:
        raise InputError("--task", "given with --shares, none expected: a folder of shares holds its task")
    if args.analyst is not None and not 0 <= args.analyst < len(mpc.parties):
        raise InputError("--analyst", args.analyst, f"a party from 0 to {len(mpc.parties) - 1}")
    for name in ("release", "costs"):
        path = getattr(args, name)
        if path is not None and (Path(path).exists() or not Path(path).absolute().parent.is_dir()):
            raise InputError(f"--{name}", path, "a new file in a directory that exists")
    return args


def planned(
    args: argparse.Namespace,
    schema: Schema | None = None,
    generated: Callable[[int], Reals] | None = None,
    designed: Callable[..., Task] | None = None,
    **choices: Any,
) -> Plan:
    """Design the release that the options describe, and print which links this party has.

    Parameters
    ----------
    args : Namespace
        Of `options`.
    schema : Schema, optional
        Of the generated rows; ``--columns`` columns from -1 to 1 by default.
    generated : callable, optional
        ``generated(clients)`` returns the rows of all clients, (n, columns); uniform ones by default.
    designed : callable, optional
        ``designed(spec, matrix_seed=seed)`` makes the task; `dpmpc.design` by default.
    **choices
        Others of `dpmpc.ReleaseSpec.of`.

    Raises
    ------
    InputError, GuaranteeError, OverflowRisk
        If there is no such release.
    """
    party = getattr(mpc, "party", None)
    if party is not None and party.has_task:
        print(f"links: dpmpc.parties.network, {party.servers} servers and an analyst, mutually authenticated TLS")
        vars(args).update({name: party.arguments[name] for name in ("model", "target") if name in party.arguments})
        return LinkedPlan()
    if designed is not None and args.release is not None:
        raise InputError("--release", "given, none expected: this program opens less than the sketch")
    from dpmpc.parties.mpyc.mpyc_plans import plan_on_mpyc  # with all that designs a task, which a party above has

    return plan_on_mpyc(args, schema, generated, designed, **choices)
