"""`dpmpc predict`: what a fitted model states of new rows."""

from __future__ import annotations

import argparse
import csv
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dpmpc.app.cli.options import DATA_HELP, add_file_options, dialect_of
from dpmpc.base.arguments import names, number_or_auto
from dpmpc.base.errors import InputError

if TYPE_CHECKING:
    from dpmpc.app.render.fit_folder import Linear
    from dpmpc.data import Schema

#: What is predicted, before the target's name: a mean, a probability of 1, an expected count.
_HEADINGS = {"ridge": "predicted", "logistic": "probability of", "poisson": "expected"}


class _Model(NamedTuple):
    """Models and the schema that their columns belong to: one for everybody, or one for each group."""

    kind: str
    public: Schema
    target: str
    models: dict[str, Linear]
    by: str | None = None

    @property
    def columns(self) -> list[str]:
        """The columns that the models are made of, each once."""
        return list(dict.fromkeys(name for coefficients, _ in self.models.values() for name in coefficients))


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
    release = predict.section("for a release file")
    release.add_argument("--target", metavar="COL", help="the column to predict; required")
    release.add_argument("--features", type=names, metavar="A,B", help="from these alone")
    release.add_argument(
        "--model",
        dest="kind",
        choices=("ridge", "logistic"),
        help="what reads the release (default ridge); logistic is the approximation without rounds",
    )
    release.add_argument("--alpha", type=number_or_auto, help="ridge: penalty in normalised units (default 1), or auto")
    predict.set_defaults(run=_predict)


def _predict(options: argparse.Namespace) -> None:
    from dpmpc.app.render.fit_folder import EVERYBODY
    from dpmpc.data.table_files import read_cells
    from dpmpc.models.tables.coded_rows import codebook_of, predict_by_group, predict_coded

    model = _of_folder(options) if Path(options.model).is_dir() else _of_release(options)
    sources = codebook_of(model.public).sources_of(model.columns)
    wanted = dict.fromkeys((*sources, *(name for name in (model.by, options.id) if name is not None)))
    cells = read_cells(options.data, tuple(wanted), dialect=dialect_of(options))
    if model.by is None:
        most = model.public.columns[model.public.index(model.target)].upper
        predicted = predict_coded(model.public, *model.models[EVERYBODY], cells, model=model.kind, most=most)
    else:
        predicted, groups = predict_by_group(model.public, model.by, model.models, cells)
        if absent := sorted({group for group in groups if group and group not in model.models}):
            print(f"dpmpc: no regression of {', '.join(absent)}: rows of it have no prediction", file=sys.stderr)
    columns = {name: model.public.columns[model.public.index(name)] for name in model.columns}
    for place, count in codebook_of(model.public).outside(cells, list(columns.values())).items():
        column = columns[place]
        print(
            f"dpmpc: {count:,} of {len(cells):,} rows have {place} outside of its bounds, {column.lower:g} to "
            f"{column.upper:g}, and are predicted as if it were at the nearer bound",
            file=sys.stderr,
        )
    names = range(1, len(cells) + 1) if options.id is None else cells.column(options.id)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([options.id or "row", f"{_HEADINGS[model.kind]} {model.target}"])
    for name, value in zip(names, predicted.tolist(), strict=True):
        writer.writerow(["" if name is None else name, "" if math.isnan(value) else f"{value:.10g}"])
    lacking = sum(map(math.isnan, predicted.tolist()))
    if lacking:
        cause = "lack a value" if model.by is None else "lack a value or a regression of their group"
        print(f"dpmpc: {lacking:,} of {len(cells):,} rows {cause}, and have no prediction", file=sys.stderr)


def _of_folder(options: argparse.Namespace) -> _Model:
    """Read the model that a fit has written, as it was published."""
    from dpmpc.app.render.fit_folder import FitFolder

    folder = FitFolder.open(options.model)
    for name in ("target", "features", "alpha", "kind"):
        if getattr(options, name) is not None:
            raise InputError(
                "model" if name == "kind" else name,
                f"{getattr(options, name)!r} given, but {options.model!r} holds a fitted model; "
                f"{str(folder.path / folder.files[0])!r} can be read anew",
            )
    target, models, by = folder.models()
    kind = folder.model if by is None and folder.model in _HEADINGS else "ridge"  # groups and plug-ins predict means
    return _Model(kind, folder.schema, target, models, by)


def _of_release(options: argparse.Namespace) -> _Model:
    """Fit a release, which costs nothing."""
    from dpmpc.app.render.fit_folder import EVERYBODY
    from dpmpc.data.data_checks import require_column
    from dpmpc.models import LogisticRegression, RidgeRegression
    from dpmpc.models.common.release_parts import is_grouped, with_variables
    from dpmpc.models.groups.grouped_ridge_regression import GroupedRidgeRegression
    from dpmpc.models.regression.round_fits import approximation_of
    from dpmpc.release.release import Release

    if options.target is None:
        raise InputError("target", "none", "the name of the column to predict", condition="(--target)")
    release = Release.load(options.model)
    public = release.task.schema
    if not is_grouped(release):
        require_column(public, options.target)
    features = with_variables(public, options.features)
    if options.kind == "logistic":
        if options.alpha is not None:
            raise InputError("alpha", f"{options.alpha} given, but that is for --model ridge, not logistic")
        likely = LogisticRegression().fit_release(release, options.target, features=features)
        if likely.verdict_ is not None:
            raise InputError("model", f"{options.model!r} states nothing about {options.target!r}: {likely.verdict_}")
        print(f"dpmpc: this is {approximation_of(likely)}", file=sys.stderr)
        return _Model("logistic", public, options.target, {EVERYBODY: _fitted(likely)})
    alpha = 1.0 if options.alpha is None else options.alpha
    if is_grouped(release):
        grouped = GroupedRidgeRegression(alpha=alpha).fit_release(release, options.target, features=features)
        if not grouped.models_:
            raise InputError("model", "a release given that gives no regression of any group, one at least expected")
        models = {group: _fitted(one) for group, one in grouped.models_.items()}
        return _Model("ridge", public, grouped.target_, models, grouped.by_)
    model = RidgeRegression(alpha).fit_release(release, options.target, features=features)
    return _Model("ridge", public, model.target_, {EVERYBODY: _fitted(model)})


def _fitted(model: Any) -> Linear:
    """Return coefficients and intercept of an estimator."""
    return dict(zip(model.feature_names_, model.coef_.tolist(), strict=True)), model.intercept_
