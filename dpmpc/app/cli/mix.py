"""`dpmpc mix`: parties with different columns publish one file; `dpmpc read` reads it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpmpc.app.cli.forms import PLANNED, PREPARE, SIMULATE, Forms, addresses_of, take_part, write_folders
from dpmpc.app.cli.output import new_path
from dpmpc.base.errors import InputError
from dpmpc.privacy.specification import MIXING_CALIBRATIONS, MIXING_METHODS, MIXING_PROTECTS

if TYPE_CHECKING:
    from dpmpc.data import Schema
    from dpmpc.owners.columns.mixed_release import MixedRelease

PARTY = "party"


def add_commands(commands: Any) -> None:
    """Add the command to the parser's."""
    mix = commands.add_parser("mix", help="one public file from parties with different columns of the same people")
    forms = Forms(mix, PARTY, "parties")
    forms.add("--key", needed=(SIMULATE, PARTY), metavar="COL", help="the column of ids, text or whole numbers")
    forms.add(
        "--out", needed=(SIMULATE, PARTY), metavar="FILE", help="the public file, a new one; a report goes to FILE.html"
    )
    forms.add_common()
    forms.add(
        "--subjects",
        needed=(PREPARE,),
        type=int,
        metavar="N",
        help="the number of people, the same at all parties",
    )
    forms.add(
        "--bounds",
        needed=(PREPARE,),
        used=(SIMULATE,),
        nargs="+",
        metavar="FILE",
        help="TOML with each party's columns and their public bounds, in order",
    )
    forms.add("--method", used=PLANNED, default="rmgm", choices=MIXING_METHODS, help="what the release is meant for")
    forms.add(
        "--rows", used=PLANNED, type=_rows, metavar="K", help="rows to mix to: a number, theory (default) or paper"
    )
    forms.add(
        "--guarantee", rare=True, used=PLANNED, default="party", choices=MIXING_PROTECTS, help="whose budget it is"
    )
    forms.add(
        "--calibration",
        rare=True,
        used=PLANNED,
        default="analytic",
        choices=MIXING_CALIBRATIONS,
        help="how noise is chosen",
    )
    forms.add(
        "--date", rare=True, used=PLANNED, metavar="TEXT", help="the date that the public file gives (default none)"
    )
    mix.set_defaults(run=lambda options: forms.run(options, {SIMULATE: _simulate, PREPARE: _prepare, PARTY: _party}))


def _rows(text: str) -> int | str:
    """Return a number, "theory" or "paper"."""
    try:
        return text if text in ("theory", "paper") else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} given, a number, 'theory' or 'paper' expected") from None


def _simulate(options: argparse.Namespace) -> None:
    from dpmpc.data.table_files import column_names, read_labels
    from dpmpc.owners.columns.mixing_parties import PartySource, run

    out = new_path("out", options.out)
    bounds = _bounds(options.bounds)
    columns = []
    for path in options.simulate:
        there = [name for name in column_names(path) if name != options.key]
        columns.append(there if bounds is None else [name for name in there if name in bounds.names])
        if not columns[-1]:
            raise InputError("bounds", f"no column of {path} has bounds, at least one expected")
    subjects = len(read_labels(options.simulate[0], options.key))
    arguments = _arguments(options, columns, subjects, bounds, [Path(path).stem for path in options.simulate])
    sources = [PartySource(str(Path(path).resolve()), options.key) for path in options.simulate]
    release = run(arguments, sources, deadline=options.deadline, simulation_seed=options.simulation_seed)
    _save(out, release)
    _tell(options, release)


def _prepare(options: argparse.Namespace) -> None:
    from dpmpc.data import Schema
    from dpmpc.owners.columns.mixing_parties import agreement_of, task_of

    parties = len(addresses_of(options))
    if len(options.bounds) != parties:
        raise InputError("bounds", f"{len(options.bounds)} files", f"one for each of {parties} parties")
    columns = [Schema.of_numbers(path).names for path in options.bounds]
    names = [f"party {number}" for number in range(parties)]
    arguments = _arguments(options, columns, options.subjects, _bounds(options.bounds), names)
    write_folders(options, agreement_of(arguments, deadline=options.deadline), PARTY, "parties")
    print(task_of(arguments).guarantee)


def _party(options: argparse.Namespace) -> None:
    from dpmpc.base.storage.kept import require_kept
    from dpmpc.data.table import position_of
    from dpmpc.data.table_files import column_names
    from dpmpc.owners.columns.mixed_release import MixedRelease
    from dpmpc.owners.columns.mixing_parties import PROGRAM, RELEASE_FILE, PartySource, task_of
    from dpmpc.owners.columns.release_record import has_sent
    from dpmpc.parties.network.programs import require_prepared

    out, folder = new_path("out", options.out), Path(options.folder)
    settings = require_prepared(folder, options.party, PROGRAM)
    require_kept(folder)
    position_of(options.key, column_names(options.data), "key")  # before the others are waited for
    print(task_of(settings.arguments).verify().guarantee, file=sys.stderr)
    source = PartySource(str(Path(options.data).resolve()), options.key)
    take_part(options, options.party, PROGRAM, source, has_sent)
    release = MixedRelease.load(folder / RELEASE_FILE)
    _save(out, release)
    _tell(options, release)


def _arguments(
    options: argparse.Namespace,
    columns: Sequence[Sequence[str]],
    subjects: int,
    bounds: Schema | None,
    names: Sequence[str],
) -> dict[str, Any]:
    """Return what all parties agree on, of the options and the facts of the data that are public."""
    from dpmpc.owners.columns import design
    from dpmpc.owners.columns.mixing_parties import public_arguments

    if options.rows is not None and options.method != "rmgm":
        raise InputError("rows", f"{options.rows} given, but rows are mixed with --method rmgm alone")
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
    called, method = options.names or names, options.method
    return public_arguments(task, called, method, date=options.date, threads=options.threads)


def _bounds(paths: Sequence[str] | None) -> Schema | None:
    """Join the bounds of all parties."""
    from dpmpc.data import Schema

    if paths is None:
        return None
    schemas = [Schema.of_numbers(path) for path in paths]
    if len({schema.outside for schema in schemas}) > 1:
        raise InputError("bounds", "files that clip and files that refuse", "the same 'outside'", condition="in all")
    return Schema(tuple(column for schema in schemas for column in schema.columns), schemas[0].outside)


def _save(out: Path, release: MixedRelease) -> None:
    """Write the public file, and then its report next to it."""
    from dpmpc.app.render.mixed import mixed_report
    from dpmpc.app.render.page import write_page
    from dpmpc.release.results import Result

    release.save(out)
    print(f"{out}: what was released, kept", file=sys.stderr)
    report = out.with_name(f"{out.name}.html")
    write_page(report, mixed_report(release, Result(), file=out.name))
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
