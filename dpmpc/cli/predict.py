"""`dpmpc predict`: what a fitted model says of new rows."""

from __future__ import annotations

import argparse
import csv
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dpmpc.cli.fit import penalty
from dpmpc.cli.options import DATA_HELP, add_file_options, dialect_of
from dpmpc.errors import InputError

if TYPE_CHECKING:
    from dpmpc.bounds import Schema

#: What is predicted, before the target's name: a mean, a probability of 1, an expected count.
_HEADINGS = {"ridge": "predicted", "logistic": "probability of", "poisson": "expected"}


class _Model(NamedTuple):
    """A model and the schema that its columns belong to."""

    kind: str
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
    release = predict.add_argument_group("for a release file")
    release.add_argument("--target", metavar="COL", help="the column to predict; required")
    release.add_argument("--features", metavar="A,B", help="from these alone")
    release.add_argument(
        "--model",
        dest="kind",
        choices=("ridge", "logistic"),
        help="what reads the release (default ridge); logistic is the approximation without rounds",
    )
    release.add_argument("--alpha", type=penalty, help="ridge: penalty in normalised units (default 1), or auto")
    predict.set_defaults(run=_predict)


def _predict(options: argparse.Namespace) -> None:
    from dpmpc.estimators.coded_rows import codebook_of, predict_coded
    from dpmpc.tables import read_cells

    model = _of_folder(options) if Path(options.model).is_dir() else _of_release(options)
    sources = codebook_of(model.public).sources_of(list(model.coefficients))
    wanted = (*sources, *([] if options.id is None or options.id in sources else [options.id]))
    cells = read_cells(options.data, wanted, dialect=dialect_of(options))
    most = model.public.columns[model.public.index(model.target)].upper
    predicted = predict_coded(model.public, model.coefficients, model.intercept, cells, model=model.kind, most=most)
    names = range(1, len(cells) + 1) if options.id is None else cells.column(options.id)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([options.id or "row", f"{_HEADINGS[model.kind]} {model.target}"])
    for name, value in zip(names, predicted.tolist(), strict=True):
        writer.writerow(["" if name is None else name, "" if math.isnan(value) else f"{value:.10g}"])
    lacking = sum(map(math.isnan, predicted.tolist()))
    if lacking:
        print(f"dpmpc: {lacking:,} of {len(cells):,} rows lack a value, and have no prediction", file=sys.stderr)


def _of_folder(options: argparse.Namespace) -> _Model:
    """Read the model that a fit has written, as it was published."""
    from dpmpc.render.fit_folder import FitFolder

    folder = FitFolder.open(options.model)
    for name in ("target", "features", "alpha", "kind"):
        if getattr(options, name) is not None:
            raise InputError(
                f"{'model' if name == 'kind' else name}: {getattr(options, name)!r} given, but {options.model!r} holds "
                f"a fitted model; {str(folder.path / folder.files[0])!r} can be read anew"
            )
    target, coefficients, intercept = folder.coefficients()
    return _Model(folder.model, folder.first_release().task.schema, target, coefficients, intercept)


def _of_release(options: argparse.Namespace) -> _Model:
    """Fit a release, which costs nothing."""
    from dpmpc.estimators import LogisticRegression, RidgeRegression
    from dpmpc.estimators.round_fits import APPROXIMATION
    from dpmpc.release import Release

    if options.target is None:
        raise InputError("target: none given, the name of the column to predict expected (--target)")
    release = Release.load(options.model)
    features = None if options.features is None else [name.strip() for name in options.features.split(",")]
    model: RidgeRegression | LogisticRegression
    if options.kind == "logistic":
        if options.alpha is not None:
            raise InputError(f"alpha: {options.alpha} given, but that is for --model ridge, not logistic")
        model = LogisticRegression().fit_release(release, options.target, features=features)
        if model.verdict_ is not None:
            raise InputError(f"model: {options.model!r} says nothing of {options.target!r}: {model.verdict_}")
        print(f"dpmpc: this is {APPROXIMATION}", file=sys.stderr)
    else:
        model = RidgeRegression(1.0 if options.alpha is None else options.alpha)
        model.fit_release(release, options.target, features=features)
    coefficients = dict(zip(model.feature_names_, model.coef_.tolist(), strict=True))
    return _Model(options.kind or "ridge", release.task.schema, options.target, coefficients, model.intercept_)
