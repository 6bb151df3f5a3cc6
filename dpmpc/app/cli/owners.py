"""`dpmpc owners`: one regression in rounds, or one Table 1, over the rows of organisations that hold many each."""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpmpc.app.cli.forms import PLANNED, PREPARE, SIMULATE, Forms, take_part, write_folders
from dpmpc.app.cli.options import VERBOSE_HELP
from dpmpc.app.cli.output import RELEASE_FILE, ResultFolder, new_path
from dpmpc.base.arguments import whole_or_auto
from dpmpc.base.errors import InputError
from dpmpc.privacy.specification import MODELS_IN_ROUNDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpmpc.owners.rows.owners_plan import OwnersPlan
    from dpmpc.parties.network.meter import RunStatistics
    from dpmpc.release.release import Release

OWNER, FINISH = "owner", "finish"
_STOPPED = (
    "The result rests on these alone, and costs nothing more; what they have spent stays in the owners' ledgers. If "
    "all owners run on in the same folders, the other sums follow within the budget; a new --prepare pays one anew"
)


def add_commands(commands: Any) -> None:
    """Add the command to the parser's."""
    owners = commands.add_parser("owners", help="one regression, or a Table 1, over the rows of several organisations")
    finish = "read what the rounds so far have released from an owner's folder, when another owner has left"
    forms = Forms(owners, OWNER, "owners", {FINISH: finish})
    forms.add(
        "--out",
        used=(SIMULATE, OWNER, FINISH),
        metavar="DIR",
        help="write releases, result and report to a new directory",
    )
    forms.add_common()
    forms.add("--verbose", used=(SIMULATE, OWNER, FINISH), action="store_true", help=VERBOSE_HELP)
    forms.add(
        "--ledger",
        used=(OWNER,),
        metavar="FILE",
        help="the owner's ledger of all that its rows have answered (default: in the folder)",
    )
    forms.add(
        "--cluster",
        rare=True,
        used=(OWNER,),
        metavar="ADDRESS",
        help="the scheduler of a Dask cluster whose workers read the owner's Parquet files, as tls://HOST:PORT",
    )
    forms.add(
        "--rows", needed=(PREPARE,), nargs="+", type=int, metavar="N", help="how many rows each owner has; public"
    )
    forms.add(
        "--bounds",
        needed=PLANNED,
        metavar="FILE",
        help="TOML with all columns and their public bounds, categories and dates too",
    )
    forms.add("--target", used=PLANNED, metavar="COL", help="the column to predict")
    forms.add("--model", used=PLANNED, choices=MODELS_IN_ROUNDS, help="what to fit")
    forms.add(
        "--describe",
        used=PLANNED,
        action="store_true",
        help="a Table 1, not a regression, in one sum: people, medians, quartiles, means and shares",
    )
    forms.add("--by", rare=True, used=PLANNED, metavar="COL", help="with --describe, by the values of this column")
    forms.add(
        "--rounds",
        rare=True,
        used=PLANNED,
        type=whole_or_auto,
        metavar="R",
        help="steering rounds after the first sum, 1 to 64, or auto (default): 8, or 32 with --predict-only and at "
        "most 100,000 rows",
    )
    forms.add(
        "--predict-only",
        rare=True,
        used=PLANNED,
        action="store_true",
        help="spend all of the budget on the prediction, and none on errors and intervals",
    )
    forms.add(
        "--corrupt",
        rare=True,
        used=PLANNED,
        type=int,
        metavar="T",
        help="owners that may pool what they see: from 1 to all but one (default); fewer take less noise",
    )
    run = {SIMULATE: _simulate, PREPARE: _prepare, OWNER: _owner, FINISH: _finish}
    owners.set_defaults(run=lambda options: forms.run(options, run))


def _simulate(options: argparse.Namespace) -> None:
    from dpmpc.owners.rows.owner_parties import OwnerSource, public_arguments, run
    from dpmpc.owners.rows.row_groups import read_rows

    began = time.perf_counter()
    out = None if options.out is None else new_path("out", options.out)
    public = _schema(options)
    rows = [len(read_rows(path, public, options.target)) for path in options.simulate]
    plan = _plan(options, rows)
    sources = [OwnerSource(str(Path(path).resolve())) for path in options.simulate]
    with ResultFolder(out) as kept:
        done = run(
            public_arguments(plan, threads=options.threads),
            sources,
            deadline=options.deadline,
            simulation_seed=plan.simulation_seed,
        )
        _tell(options, plan, done.releases, done.owners, kept, time.perf_counter() - began)


def _prepare(options: argparse.Namespace) -> None:
    from dpmpc.owners.rows.owner_parties import agreement_of, public_arguments

    plan = _plan(options, options.rows)
    arguments = public_arguments(plan, threads=options.threads)
    write_folders(options, agreement_of(arguments, deadline=options.deadline), OWNER, "owners")
    print(_promised(plan))


def _promised(plan: OwnersPlan) -> str:
    """Return what a plan costs and what it promises for each row."""
    return f"{plan.price()}\n{plan.require_possible().statement('rows')}"


def _owner(options: argparse.Namespace) -> None:
    from dpmpc.base.storage.kept import require_kept
    from dpmpc.data.table import position_of
    from dpmpc.data.table_files import column_names
    from dpmpc.models.tables.coded_rows import codebook_of
    from dpmpc.owners.rows.owner_parties import PROGRAM, OwnerSource, load_releases, own_rows, plan_of
    from dpmpc.owners.rows.rounds_record import has_sent
    from dpmpc.parties.network.programs import require_prepared

    began, folder = time.perf_counter(), Path(options.folder)
    out = None if options.out is None else new_path("out", options.out)
    settings = require_prepared(folder, options.owner, PROGRAM)
    plan = plan_of(settings.arguments)
    require_kept(folder)
    there = column_names(options.data)
    for name in codebook_of(plan.schema).sources:  # before the others are waited for
        position_of(name, there, "data")
    ledger = None if options.ledger is None else str(Path(options.ledger).resolve())
    source = OwnerSource(str(Path(options.data).resolve()), ledger, options.cluster)
    # what is wrong with the file is printed before any other owner could notice
    own_rows(source, plan, options.owner, settings.deadline)
    print(f"{options.data}: answers for {plan.answered}", file=sys.stderr)
    print(_promised(plan), file=sys.stderr)
    outcome = take_part(options, options.owner, PROGRAM, source, has_sent)
    spent = () if outcome is None or outcome.statistics is None else (outcome.statistics,)
    with ResultFolder(out) as kept:
        _tell(options, plan, load_releases(folder), spent, kept, time.perf_counter() - began)


def _finish(options: argparse.Namespace) -> None:
    from dpmpc.owners.rows.owner_parties import PROGRAM, load_releases, plan_of
    from dpmpc.parties.network.programs import require_prepared

    began, folder = time.perf_counter(), Path(options.finish)
    out = None if options.out is None else new_path("out", options.out)
    plan = plan_of(require_prepared(folder, None, PROGRAM).arguments)
    releases = load_releases(folder)
    if not releases:
        raise InputError("finish", f"{options.finish!r}", "a folder where at least one sum was opened")
    first = releases[0].task
    if (first.schema, first.clients, first.trust) != plan.public:
        raise InputError("finish", f"{options.finish!r} given, whose first sum is of another plan than its settings")
    with ResultFolder(out) as kept:
        _tell(options, plan, releases, (), kept, time.perf_counter() - began)


def _schema(options: argparse.Namespace) -> Any:
    """Return the columns with their bounds, the target of a regression last."""
    from dpmpc.data import Schema
    from dpmpc.data.table import position_of
    from dpmpc.models.common.releases import weights_in_rounds

    if options.describe:
        for name in ("target", "model", "rounds", "predict_only"):
            if given := getattr(options, name):
                raise InputError(name, f"{given!r}", "none", condition="with --describe, which is one sum")
    else:
        for name in ("target", "model"):
            if getattr(options, name) is None:
                raise InputError(name, "none", "one", "--describe makes a Table 1", condition="of a regression")
        if options.by is not None:
            raise InputError("by", f"{options.by!r} given, which belongs with --describe")
    schema = Schema.from_toml(options.bounds)
    if options.describe:
        return schema
    if schema.weighted:
        raise weights_in_rounds()
    position_of(options.target, schema.names, "target")
    return schema.select([*(name for name in schema.names if name != options.target), options.target])


def _plan(options: argparse.Namespace, rows: Sequence[int]) -> OwnersPlan:
    """Return what all owners agree on."""
    from dpmpc.models.rounds.fit import AUTO, rounds_of
    from dpmpc.owners.rows.owners_plan import TABLE, OwnersPlan

    intervals = not options.predict_only and not options.describe
    rounds = AUTO if options.rounds is None else options.rounds
    plan = OwnersPlan(
        owners=tuple(options.names or (f"owner {number}" for number in range(len(rows)))),
        rows=tuple(rows),
        schema=_schema(options),
        model=TABLE if options.describe else options.model,
        rounds=0 if options.describe else rounds_of(rounds, sum(rows), intervals=intervals),
        intervals=intervals,
        epsilon=options.epsilon,
        delta=options.delta,
        corrupt=options.corrupt,
        simulation_seed=options.simulation_seed,
        by=options.by,
    )
    plan.require_possible()
    return plan


def _tell(
    options: argparse.Namespace,
    plan: OwnersPlan,
    releases: Sequence[Release],
    spent: Sequence[RunStatistics],
    kept: ResultFolder,
    wall_s: float,
) -> None:
    """Keep the sums, fit them, which costs no privacy, and write and print what was found."""
    from dpmpc.app.cli.fit import hand_out
    from dpmpc.app.render.about import About
    from dpmpc.app.render.guarantee_prose import owners_spent_text
    from dpmpc.app.render.page import command_line
    from dpmpc.app.render.released import release_file, report_of
    from dpmpc.app.render.servers import RunCost, with_run
    from dpmpc.models.rounds import SavedReleases

    in_rounds = plan.cells is None
    for number, release in enumerate(releases):
        kept.keep(release_file(number) if in_rounds else RELEASE_FILE, release)
    saved = SavedReleases(releases, plan.epsilon)
    model = plan.fitted(saved)
    named = [f"{name}, {rows:,} rows" for name, rows in zip(plan.owners, plan.rows, strict=True)]
    about = About("release", f"Release of {releases[0].clients:,} rows of {plan.pooling}", [("Owners", named)], "rows")
    promised = saved.guarantee
    files = list(kept.releases)
    report = report_of(releases, model.result(), about, files=files, in_rounds=in_rounds, guarantee=promised)
    owners = [{"name": name, "rows": rows} for name, rows in zip(plan.owners, plan.rows, strict=True)]
    opened, planned = len(releases), len(plan.shares)
    said = [
        *([f"{opened} of {planned} sums were opened. {_STOPPED}."] if options.finish and opened < planned else []),
        f"{plan.price()}. The guarantee is for a row, not for a person with several rows.",
        f"{owners_spent_text(promised)}.",
    ]
    whole = float(math.ceil(wall_s))  # how long an owner's own rows took is told in whole seconds
    cost = RunCost(
        servers=tuple(spent), clients_s=0.0, servers_s=whole, analyst_setup_s=0.0, analysis_s=0.0, wall_s=whole
    )
    paths = [options.out, options.bounds, options.data, options.folder, options.ledger, options.finish]
    paths += options.simulate or []
    report = with_run(report, cost, said=said, command=command_line(options.arguments, paths))
    data = {**report.data, "owners": owners, "sums": {"opened": opened, "planned": planned}}
    hand_out(options, kept, dataclasses.replace(report, data=data))
