"""`dpmpc read`: what any release file holds, and regressions of its columns; reading costs no privacy."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from dpmpc.app.cli.options import add_verbose, seconds
from dpmpc.base.arguments import names
from dpmpc.base.errors import InputError
from dpmpc.base.untrusted import harmless
from dpmpc.privacy.specification import MIXING_METHODS

FORMS = ("csv", "latex", "json", "html")


def add_commands(commands: Any) -> None:
    """Add the command to the parser's."""
    read = commands.add_parser(
        "read",
        help="what a release file holds: facts, tables, and a regression of any column on others",
        description="A release of fit, of a collection or of mix, recognised by its content, or the folder of a fit. "
        "Costs no privacy.",
    )
    read.add_argument("file", metavar="FILE", help="the release, or the folder that fit --out or owners --out wrote")
    read.add_argument("--target", metavar="COL", help="regress this column on the others")
    read.add_argument(
        "--model",
        choices=("ridge", "logistic", "compare", "survival"),
        default="ridge",
        help="what regresses it (default %(default)s); logistic is the approximation without rounds; compare is no "
        "regression, but compares its mean between groups, of a release by group; survival: curves from a release of "
        "cells, --time and --event where it does not follow which they are",
    )
    read.add_argument("--features", type=names, metavar="A,B", help="on these alone")
    read.add_argument(
        "--group",
        action="append",
        default=[],
        metavar="NAME=A,B",
        help="test the coefficients of these features together; may be repeated",
    )
    read.add_argument(
        "--before", type=names, metavar="A,B", help="--model compare: adjust differences for these columns"
    )
    read.add_argument("--control", metavar="VALUE", help="--model compare: the group that others are compared with")
    read.add_argument(
        "--crosstab",
        type=names,
        metavar="A,B",
        help="the two-way table of two variables with listed values, and a test",
    )
    read.add_argument("--level", type=float, default=0.95, help="of confidence intervals (default %(default)g)")
    survival = read.section("--model survival")
    survival.add_argument("--time", metavar="COL", help="the times (default: the only number)")
    survival.add_argument("--event", metavar="COL", help="whether the event happened (default: as in the fit)")
    survival.add_argument("--by", metavar="COL", help="a curve for each value of this column")
    survival.add_argument("--until", type=float, metavar="T", help="of restricted means")
    mixed = read.section("files of mix")
    mixed.add_argument("--method", rare=True, choices=MIXING_METHODS, help="default: what the release is meant for")
    mixed.add_argument("--ridge", rare=True, type=float, help="added to the Hessian (default 1e-05)")
    read.add_argument(
        "--longest",
        rare=True,
        type=seconds,
        metavar="S",
        help="seconds that drawing the matrix again may take, by the size that the file claims (default a minute)",
    )
    forms = read.exclusive()
    forms.add_argument("--csv", action="store_true", help="print the tables as comma-separated values")
    forms.add_argument("--latex", rare=True, action="store_true", help="print the tables for LaTeX with booktabs")
    forms.add_argument("--json", action="store_true", help="print one JSON object")
    forms.add_argument("--html", action="store_true", help="print a page")
    add_verbose(read)
    read.set_defaults(run=_read)


def _read(options: argparse.Namespace) -> None:
    from dpmpc.app.render.reading import ReadOptions, read
    from dpmpc.privacy.task import LONGEST_CHECK

    report = read(
        options.file,
        ReadOptions(
            target=options.target,
            features=options.features,
            groups=_groups(options.group),
            before=options.before,
            control=options.control,
            crosstab=options.crosstab,
            model=options.model,
            time=options.time,
            event=options.event,
            by=options.by,
            until=options.until,
            method=options.method,
            ridge=options.ridge,
            level=options.level,
            longest=LONGEST_CHECK if options.longest is None else options.longest,
        ),
    )
    for warning in report.result.warnings:
        print(f"dpmpc read: {harmless(warning)}", file=sys.stderr)
    if (options.csv or options.latex) and not report.result.tables:
        form = "csv" if options.csv else "latex"
        raise InputError(form, f"given, but {report.result.verdict or 'this release has no table without --target'}")
    if options.csv:
        print(report.to_csv(), end="")
    elif options.latex:
        print(report.to_latex(), end="")
    elif options.json:
        print(report.to_json())
    elif options.html:
        from dpmpc.app.render.page import page

        print(page(report))
    else:
        print(report if options.verbose else report.brief())


def _groups(texts: list[str]) -> dict[str, tuple[str, ...]]:
    """Read NAME=A,B of each group."""
    groups: dict[str, tuple[str, ...]] = {}
    for text in texts:
        name, _, features = text.partition("=")
        if not name.strip() or not features or name.strip() in groups:
            raise InputError("group", f"{text!r} given, NAME=A,B expected, each name once")
        groups[name.strip()] = names(features)
    return groups
