"""`dpmpc predict`: what a fitted model says of new rows."""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from dpmpc.cli.fit import penalty
from dpmpc.cli.options import DATA_HELP, add_file_options, dialect_of
from dpmpc.errors import InputError

if TYPE_CHECKING:
    from dpmpc.bounds import Schema

_LARGEST_RESULT = 1 << 26
_EVERYBODY = ""  # the one group of a model without groups
_BY_GROUP = "grouped-ridge"


_Linear: TypeAlias = "tuple[dict[str, float], float]"


class _Model(NamedTuple):
    """Linear models and the schema that their columns belong to: one for everybody, or one for each group."""

    public: Schema
    target: str
    models: dict[str, _Linear]
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
    release = predict.add_argument_group("for a release file, which ridge regression reads")
    release.add_argument("--target", metavar="COL", help="the column to predict; required")
    release.add_argument("--features", metavar="A,B", help="from these alone")
    release.add_argument("--alpha", type=penalty, help="penalty in normalised units (default 1), or auto")
    predict.set_defaults(run=_predict)


def _predict(options: argparse.Namespace) -> None:
    from dpmpc.estimators.coded_rows import codebook_of, predict_by_group, predict_coded
    from dpmpc.tables import read_cells

    model = _of_folder(options) if Path(options.model).is_dir() else _of_release(options)
    sources = codebook_of(model.public).sources_of(model.columns)
    wanted = dict.fromkeys((*sources, *(name for name in (model.by, options.id) if name is not None)))
    cells = read_cells(options.data, tuple(wanted), dialect=dialect_of(options))
    if model.by is None:
        predicted = predict_coded(model.public, *model.models[_EVERYBODY], cells)
    else:
        predicted, groups = predict_by_group(model.public, model.by, model.models, cells)
        if absent := sorted({group for group in groups if group and group not in model.models}):
            print(f"dpmpc: no regression of {', '.join(absent)}: rows of it have no prediction", file=sys.stderr)
    names = range(1, len(cells) + 1) if options.id is None else cells.column(options.id)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([options.id or "row", f"predicted {model.target}"])
    for name, value in zip(names, predicted.tolist(), strict=True):
        writer.writerow(["" if name is None else name, "" if math.isnan(value) else f"{value:.10g}"])
    lacking = sum(map(math.isnan, predicted.tolist()))
    if lacking:
        cause = "lack a value" if model.by is None else "lack a value or a regression of their group"
        print(f"dpmpc: {lacking:,} of {len(cells):,} rows {cause}, and have no prediction", file=sys.stderr)


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
    if kind not in ("ridge", _BY_GROUP):
        raise InputError(f"model: {path} holds a model {kind!r}, 'ridge' expected")
    result = content.get("result")
    try:
        target, by = str(result["target"]), str(result["by"]) if kind == _BY_GROUP else None
        found = {_EVERYBODY: result} if by is None else result["groups"]
        models = {str(group): _linear(one) for group, one in found.items() if by is None or "coefficients" in one}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"model: {path} lacks a target, an intercept or coefficients that are numbers") from error
    if not models:
        raise InputError(f"model: {path} has no regression of any group, one at least expected")
    for coefficients, intercept in models.values():
        if not coefficients or not all(map(math.isfinite, (*coefficients.values(), intercept))):
            raise InputError(f"model: {path} has coefficients that are not finite, finite numbers expected")
    written = Path(options.model) / "release.dpmpc"
    if not written.exists():
        raise InputError(
            f"model: {options.model!r} holds no {written.name}, the folder of a fit from one release expected"
        )
    release = Release.load(written)
    return _Model(release.task.schema, target, models, by)


def _linear(result: Any) -> _Linear:
    """Return coefficients and intercept of a result that was read."""
    return {str(name): float(value) for name, value in result["coefficients"].items()}, float(result["intercept"])


def _of_release(options: argparse.Namespace) -> _Model:
    """Fit a release, which costs nothing."""
    from dpmpc.estimators import GroupedRidgeRegression, RidgeRegression
    from dpmpc.estimators.blocks import is_grouped
    from dpmpc.release import Release

    if options.target is None:
        raise InputError("target: none given, the name of the column to predict expected (--target)")
    release = Release.load(options.model)
    features = None if options.features is None else [name.strip() for name in options.features.split(",")]
    alpha = 1.0 if options.alpha is None else options.alpha
    if is_grouped(release):
        grouped = GroupedRidgeRegression(alpha=alpha).fit_release(release, options.target, features=features)
        if not grouped.models_:
            raise InputError("model: a release given that gives no regression of any group, one at least expected")
        models = {group: _fitted(one) for group, one in grouped.models_.items()}
        return _Model(release.task.schema, grouped.target_, models, grouped.by_)
    model = RidgeRegression(alpha).fit_release(release, options.target, features=features)
    return _Model(release.task.schema, model.target_, {_EVERYBODY: _fitted(model)})


def _fitted(model: Any) -> _Linear:
    """Return coefficients and intercept of an estimator."""
    return dict(zip(model.feature_names_, model.coef_.tolist(), strict=True)), model.intercept_
