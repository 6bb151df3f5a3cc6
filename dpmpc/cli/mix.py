"""`dpmpc mix`: parties with different columns publish one file; `dpmpc read` reads it.

`mix` has three forms: all parties as processes of this machine (``--simulate``); the settings of parties that run on
machines of their own (``--prepare``); one of these (``--party``). What a form does not use is refused, so that nobody
believes an option to have had an effect.

Not promised: secrecy of keys from whoever prepares. ``--prepare`` makes the certificates of all parties; organisations
that mind put those of their own authority in their place.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpmpc.cli.options import add_simulation_seed, form_of, seconds
from dpmpc.cli.output import new_path
from dpmpc.cli.prepared import address_of, expect_party, prepare_folders, run_party
from dpmpc.errors import InputError

if TYPE_CHECKING:
    from dpmpc.data import Schema
    from dpmpc.data_release import MixedRelease, MixingTask

METHODS = ("rmgm", "dgm", "bgm")
KEPT = (
    "this folder has made its release, and others may have it; run again in the same folder, which sends the same "
    "bytes: a new --prepare would spend further budget"
)
_PLAN = {"method", "epsilon", "delta", "bounds", "rows", "guarantee", "calibration", "names", "date"}
_PLAN |= {"threads", "deadline"}
FORMS = {
    "simulate": ({"key", "epsilon", "delta", "out"}, {*_PLAN, "simulation_seed"}),
    "prepare": ({"addresses", "subjects", "epsilon", "delta", "bounds"}, _PLAN),
    "party": ({"data", "key", "folder", "out"}, set()),
}
DEFAULTS = {"method": "rmgm", "guarantee": "party", "calibration": "analytic", "threads": 1, "deadline": 30.0}


def add_commands(commands: Any) -> None:
    """Add the command to the parser's."""
    mix = commands.add_parser("mix", help="one public file from parties with different columns of the same people")
    form = mix.add_mutually_exclusive_group(required=True)
    form.add_argument("--simulate", nargs="+", metavar="DATA", help="all parties on this machine, a file for each")
    form.add_argument("--prepare", metavar="DIR", help="write a folder of settings and identity for each party")
    form.add_argument("--party", type=int, metavar="I", help="run party I of a prepared release on this machine")
    mix.add_argument("--key", metavar="COL", help="the column of ids, text or whole numbers")
    mix.add_argument("--out", metavar="FILE", help="the public file, a new one; a report goes to FILE.html")
    mix.add_argument("--json", action="store_true", help="print one JSON object")
    party = mix.add_argument_group("--party")
    party.add_argument("--data", metavar="FILE", help="CSV or Parquet with this party's columns and its key")
    party.add_argument("--folder", metavar="DIR", help="this party's folder of --prepare")
    prepare = mix.add_argument_group("--prepare")
    prepare.add_argument("--addresses", nargs="+", metavar="HOST:PORT", help="where each party listens")
    prepare.add_argument("--subjects", type=int, metavar="N", help="the number of people, the same at all parties")
    plan = mix.add_argument_group("--simulate and --prepare")
    plan.add_argument("--epsilon", type=float, help="the budget; smaller is more private")
    plan.add_argument("--delta", type=float, help="the probability that the epsilon bound fails: well below 1/N")
    plan.add_argument(
        "--bounds", nargs="+", metavar="FILE", help="TOML with each party's columns and their public bounds, in order"
    )
    plan.add_argument("--method", choices=METHODS, help="what the release is meant for (default rmgm)")
    plan.add_argument("--rows", type=_rows, metavar="K", help="rows to mix to: a number, theory (default) or paper")
    plan.add_argument("--guarantee", choices=["party", "subject"], help="whose budget it is (default party)")
    plan.add_argument("--calibration", choices=["analytic", "paper"], help="how noise is chosen (default analytic)")
    plan.add_argument("--names", nargs="+", metavar="NAME", help="what the public file calls the parties")
    plan.add_argument("--date", metavar="TEXT", help="the date that the public file gives (default none)")
    plan.add_argument("--threads", type=int, help="threads of each process (default 1)")
    plan.add_argument("--deadline", type=seconds, help="seconds that a party may keep others waiting (default 30)")
    add_simulation_seed(plan)
    mix.set_defaults(run=_mix)


def _rows(text: str) -> int | str:
    """Return a number, "theory" or "paper"."""
    try:
        return text if text in ("theory", "paper") else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} given, a number, 'theory' or 'paper' expected") from None


def _mix(options: argparse.Namespace) -> None:
    form = form_of(options, FORMS, DEFAULTS)
    {"simulate": _simulate, "prepare": _prepare, "party": _party}[form](options)


def _simulate(options: argparse.Namespace) -> None:
    from dpmpc.data import column_names, read_labels
    from dpmpc.data_release.networked import PartySource, run

    out = new_path("out", options.out)
    bounds = _bounds(options.bounds)
    columns = []
    for path in options.simulate:
        there = [name for name in column_names(path) if name != options.key]
        columns.append(there if bounds is None else [name for name in there if name in bounds.names])
        if not columns[-1]:
            raise InputError(f"bounds: no column of {path} has bounds, at least one expected")
    subjects = len(read_labels(options.simulate[0], options.key))
    arguments = _agreement(options, columns, subjects, bounds, [Path(path).stem for path in options.simulate])
    sources = [PartySource(str(Path(path).resolve()), options.key) for path in options.simulate]
    release = run(arguments, sources, deadline=options.deadline, simulation_seed=options.simulation_seed)
    _save(out, release)
    _tell(options, release)


def _prepare(options: argparse.Namespace) -> None:
    from dpmpc.data import Schema
    from dpmpc.data_release.networked import PROGRAM, allowance

    target = new_path("prepare", options.prepare)
    addresses = [address_of(text) for text in options.addresses]
    if len(options.bounds) != len(addresses):
        raise InputError(
            f"bounds: {len(options.bounds)} files given, one for each of {len(addresses)} parties expected"
        )
    columns = [Schema.of_numbers(path).names for path in options.bounds]
    names = [f"party {number}" for number in range(len(addresses))]
    arguments = _agreement(options, columns, options.subjects, _bounds(options.bounds), names)
    deadline = options.deadline + allowance(_task_of(arguments))
    prepare_folders(target, "party", PROGRAM, arguments, addresses, deadline=deadline)
    print(f"{target}: a folder for each of {len(addresses)} parties; send each its own by a private channel")
    print(_task_of(arguments).guarantee)


def _party(options: argparse.Namespace) -> None:
    from dpmpc.data import column_names, position_of
    from dpmpc.data_release import MixedRelease
    from dpmpc.data_release.networked import PROGRAM, RELEASE_FILE, PartySource
    from dpmpc.data_release.record import ReleaseFields, refuse_spent
    from dpmpc.network.settings import read_settings, write_source

    out, folder = new_path("out", options.out), Path(options.folder)
    expect_party(folder, options.party, PROGRAM)
    refuse_spent(folder)
    position_of(options.key, column_names(options.data), "key")  # before the others are waited for
    print(_task_of(read_settings(folder).arguments).verify().guarantee, file=sys.stderr)
    write_source(folder, PartySource(str(Path(options.data).resolve()), options.key))
    error = run_party(folder, options.party, PROGRAM)[1]
    if error is not None:
        if ReleaseFields.has_sent(folder):
            print(f"dpmpc mix: {KEPT}", file=sys.stderr)
        raise error
    release = MixedRelease.load(folder / RELEASE_FILE)
    _save(out, release)
    _tell(options, release)


def _agreement(
    options: argparse.Namespace,
    columns: Sequence[Sequence[str]],
    subjects: int,
    bounds: Schema | None,
    names: Sequence[str],
) -> dict[str, Any]:
    """Return what all parties agree on, of the options and the facts of the data that are public."""
    from dpmpc.data_release import design
    from dpmpc.data_release.networked import public_arguments

    if options.rows is not None and options.method != "rmgm":
        raise InputError(f"rows: {options.rows} given, but rows are mixed with --method rmgm alone")
    rows = "theory" if options.rows is None else options.rows
    task = design(
        columns,
        subjects,
        options.epsilon,
        options.delta,
        bounds=bounds,
        rows=rows if options.method == "rmgm" else None,
        protects=options.guarantee,
        calibration=options.calibration,
        simulation=options.simulation_seed is not None,
    )
    arguments: dict[str, Any] = public_arguments(
        task,
        options.names or names,
        options.method,
        date=options.date,
        threads=options.threads,
    )
    return arguments


def _task_of(arguments: dict[str, Any]) -> MixingTask:
    from dpmpc.data_release import MixingTask

    return MixingTask.from_dict(arguments.get("task", {}))


def _bounds(paths: Sequence[str] | None) -> Schema | None:
    """Join the bounds of all parties."""
    from dpmpc.data import Schema

    if paths is None:
        return None
    schemas = [Schema.of_numbers(path) for path in paths]
    if len({schema.outside for schema in schemas}) > 1:
        raise InputError("bounds: files that clip and files that refuse given, the same 'outside' expected in all")
    return Schema(tuple(column for schema in schemas for column in schema.columns), schemas[0].outside)


def _save(out: Path, release: MixedRelease) -> None:
    """Write the public file, and the report on it beside it."""
    from dpmpc.render import write_mixed_report

    release.save(out)
    report = out.with_name(f"{out.name}.html")
    write_mixed_report(report, release, file=out.name)
    print(f"{report}: what was released, for people", file=sys.stderr)


def _tell(options: argparse.Namespace, release: MixedRelease) -> None:
    import json

    if options.json:
        fields = {
            "file": options.out,
            "columns": list(release.columns),
            "rows": len(release.sums),
            "privacy": release.guarantee.to_dict(),
            "provenance": release.provenance,
        }
        print(json.dumps(fields, allow_nan=False))
        return
    print(release.guarantee)  # first: in a simulation it says so before any result
    print(f"{options.out}: {release!r}")
