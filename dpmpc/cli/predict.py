"""`dpmpc predict`: what a fitted model says of new rows."""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dpmpc.cli.fit import penalty
from dpmpc.cli.options import DATA_HELP, add_file_options, dialect_of
from dpmpc.errors import InputError

if TYPE_CHECKING:
    from dpmpc.bounds import Schema

_LARGEST_RESULT = 1 << 26


class _Model(NamedTuple):
    """A linear model and the schema that its columns belong to."""

    public: Schema
    target: str
    coefficients: dict[str, float]
    intercept: float


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    predict = commands.add_parser(
        "predict",
        help="predict for new rows by a model that was fitted",
        description="Prints CSV: a line for each row. Costs no privacy of those whom the model was learnt from.",
    )
    predict.add_argument("model", metavar="MODEL", help="the folder that fit --out wrote, or a release file")
    predict.add_argument("data", metavar="ROWS", nargs="+", help=DATA_HELP)
    predict.add_argument("--id", metavar="COL", help="a column that names the rows (default: their numbers)")
    add_file_options(predict)
    release = predict.add_argument_group("for a release file, which ridge regression reads")
    release.add_argument("--target", metavar="COL", help="the column to predict; required")
    release.add_argument("--features", metavar="A,B", help="from these alone")
    release.add_argument("--alpha", type=penalty, help="penalty in normalised units (default 1), or auto")
    predict.set_defaults(run=_predict)


def _predict(options: argparse.Namespace) -> None:
    from dpmpc.estimators.coded_rows import codebook_of, predict_coded
    from dpmpc.tables import read_cells

    model = _of_folder(options) if Path(options.model).is_dir() else _of_release(options)
    sources = codebook_of(model.public).sources_of(list(model.coefficients))
    wanted = (*sources, *([] if options.id is None or options.id in sources else [options.id]))
    cells = read_cells(options.data, wanted, dialect=dialect_of(options))
    predicted = predict_coded(model.public, model.coefficients, model.intercept, cells)
    names = range(1, len(cells) + 1) if options.id is None else cells.column(options.id)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([options.id or "row", f"predicted {model.target}"])
    for name, value in zip(names, predicted.tolist(), strict=True):
        writer.writerow(["" if name is None else name, "" if math.isnan(value) else f"{value:.10g}"])
    lacking = sum(map(math.isnan, predicted.tolist()))
    if lacking:
        print(f"dpmpc: {lacking:,} of {len(cells):,} rows lack a value, and have no prediction", file=sys.stderr)


def _of_folder(options: argparse.Namespace) -> _Model:
    """Read the model that a fit has written, as it was published."""
    from dpmpc.release import Release

    for name in ("target", "features", "alpha"):
        if getattr(options, name) is not None:
            raise InputError(
                f"{name}: {getattr(options, name)!r} given, but {options.model!r} holds a fitted model; "
                f"{str(Path(options.model) / 'release.dpmpc')!r} can be read anew"
            )
    path = Path(options.model) / "result.json"
    try:
        with path.open("rb") as file:
            content = json.loads(file.read(_LARGEST_RESULT))
    except OSError as error:
        raise InputError(f"model: {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"model: {path} is not the result of a fit: {error}") from error
    kind = content.get("model") if isinstance(content, dict) else None
    if kind != "ridge":
        raise InputError(f"model: {path} holds a model {kind!r}, 'ridge' expected")
    result = content.get("result")
    try:
        coefficients = {str(name): float(value) for name, value in result["coefficients"].items()}
        target, intercept = str(result["target"]), float(result["intercept"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"model: {path} lacks a target, an intercept or coefficients that are numbers") from error
    if not coefficients or not all(map(math.isfinite, (*coefficients.values(), intercept))):
        raise InputError(f"model: {path} has coefficients that are not finite, finite numbers expected")
    written = Path(options.model) / "release.dpmpc"
    if not written.exists():
        raise InputError(
            f"model: {options.model!r} holds no {written.name}, the folder of a fit from one release expected"
        )
    release = Release.load(written)
    return _Model(release.task.schema, target, coefficients, intercept)


def _of_release(options: argparse.Namespace) -> _Model:
    """Fit a release, which costs nothing."""
    from dpmpc.estimators import RidgeRegression
    from dpmpc.release import Release

    if options.target is None:
        raise InputError("target: none given, the name of the column to predict expected (--target)")
    release = Release.load(options.model)
    features = None if options.features is None else [name.strip() for name in options.features.split(",")]
    model = RidgeRegression(1.0 if options.alpha is None else options.alpha)
    model.fit_release(release, options.target, features=features)
    coefficients = dict(zip(model.feature_names_, model.coef_.tolist(), strict=True))
    return _Model(release.task.schema, model.target_, coefficients, model.intercept_)
