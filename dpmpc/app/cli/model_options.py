"""The models of the command, and the options that each of them has: fields of its class.

The common options are those of every model. The rest is added when the arguments name the model, so that
`dpmpc fit --model cox --help` prints the options of a Cox regression alone.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from dpmpc.app.cli.parsing import Parser, Section
from dpmpc.base.arguments import names
from dpmpc.base.errors import InputError

if TYPE_CHECKING:
    from dpmpc.data import Codebook, Schema

BUDGET_AND_FILES = "--bounds bounds.toml --epsilon 1 --delta 1e-6 --out result"


def add_model_options(command: Parser | Section, kind: str, without: Sequence[str] = ()) -> None:
    """Add the options of a model, but for some of its fields."""
    from dpmpc.models.fitted import class_of

    model = class_of(kind)
    if model.named is not None:
        name, text = model.named
        command.add_argument(f"--{name}", metavar="COL", help=text)
    if model.from_features:
        text = "predict from these alone, between commas (default: all with bounds)"
        command.add_argument("--features", type=names, metavar="A,B", help=text)
    for field in dataclasses.fields(model):
        if field.metadata and field.name not in without:
            _add(command, field)
    for name, text in model.flags.items():
        command.add_argument(f"--{name}", action="store_true", rare=True, help=text)


def _add(command: Parser | Section, field: dataclasses.Field[Any]) -> None:
    """Add the option that sets a field; None where it is not given."""
    given = dict(field.metadata)
    given.pop("required", None)
    flag = given.pop("flag", f"--{field.name.replace('_', '-')}")
    if "const" in given or isinstance(field.default, bool):
        given = {"action": "store_const", "const": not field.default, **given}
    given["help"] = given["help"].replace("%", "%%")
    command.add_argument(flag, dest=field.name, **given)


def model_of(options: argparse.Namespace, kind: str) -> Any:
    """Make the model that was chosen, with its options."""
    from dpmpc.models.fitted import class_of

    model = class_of(kind)
    fields = {field.name: field for field in dataclasses.fields(model)}
    chosen = {name: getattr(options, name, None) for name, field in fields.items() if field.metadata}
    given = {name: value for name, value in chosen.items() if value is not None}
    for name, field in fields.items():
        if name not in given and (what := field.metadata.get("required")):
            raise InputError(name, "none", f"the column of {what}", condition=f"(--{name})")
    own = {name: getattr(options, name) for name in ("rows", "bounds", "simulation_seed") if name in fields}
    return model(**own, **given)


def column_of(options: argparse.Namespace, model: Any) -> str | None:
    """Return the column that was named."""
    name = None if model.named is None else getattr(options, model.named[0])
    return None if name is None else str(name)


def variables_of(options: argparse.Namespace, model: Any, book: Codebook, column: str | None) -> Codebook:
    """Return the variables that a fit reads of those of a bounds file: the features that were named, and the target."""
    import msgspec

    book = model.codebook_read(book, column)
    if not model.from_features or options.features is None:
        return book
    columns = {one.name: {one.name, *(each.name for each in one.term.columns)} for one in book.variables}
    _check_features(options.features, columns, column)
    others = {column, getattr(model, "by", None)}
    kept = [name for name, own in columns.items() if name in options.features or own & others]
    return msgspec.structs.replace(
        book,
        variables=tuple(one for one in book.variables if one.name in kept),
        products=tuple(product for product in book.products if set(product) <= set(options.features)),
    )


def columns_of(
    options: argparse.Namespace, model: Any, bounded: tuple[str, ...] | None, column: str | None
) -> tuple[str, ...] | None:
    """Return the columns that a fit reads of a table of numbers; None for all."""
    if not model.from_features or options.features is None:
        read: tuple[str, ...] | None = model.columns_read(bounded, column)
        return read
    if bounded is None:
        _check_features(options.features, options.features, column)
        return (*options.features, str(column))
    _check_features(options.features, bounded, column)
    return tuple(name for name in bounded if name in options.features or name == column)


def _check_features(features: Sequence[str], known: Collection[str], target: str | None) -> None:
    """Refuse features that are no columns, are named twice, or are the target."""
    for place, name in enumerate(features):
        if name not in known:
            raise InputError("features", f"{name!r}", f"some of {', '.join(known)}")
        if name == target or name in features[:place]:
            expected = "is the target" if name == target else "is named twice"
            raise InputError("features", f"{name!r} given, which {expected}")


def target_last(model: Any, public: Schema, target: str, *, given: bool) -> Schema:
    """Return bounds with the target's last, as the model has them; `given` is whether a bounds file has them."""
    import msgspec

    ordered = public.select([*(name for name in public.names if name != target), target])
    columns = (*ordered.columns[:-1], model.round_target(ordered.columns[-1], given=given))
    return msgspec.structs.replace(ordered, columns=columns)


def add_model(command: Parser, kinds: Sequence[str], *, default: str, without: Sequence[str] = ()) -> None:
    """Add the choice of a model to a command, and have its options added with it, but for some fields."""
    command.add_argument(
        "--model",
        choices=kinds,
        default=default,
        help=f"what to fit (default {default}): {', '.join(kinds)}; with --help, what options it has",
        metavar="MODEL",
    )
    have_options(command, kinds, lambda arguments: _chosen(arguments, default), without)
    command.belongs = lambda option: _whose(option, kinds)


def example_of(kind: str) -> str:
    """Return a command that fits a model."""
    from dpmpc.models.fitted import class_of

    return f"dpmpc fit people.csv --model {kind} {class_of(kind).example} {BUDGET_AND_FILES}"


def have_options(
    command: Parser, kinds: Sequence[str], chosen: Callable[[Sequence[str]], str], without: Sequence[str] = ()
) -> None:
    """Have a command's parser take the options of the model that arguments choose, when it reads arguments."""
    added: list[str] = []

    def extend(arguments: Sequence[str]) -> None:
        kind = chosen(arguments)
        if kind in kinds and not added:
            added.append(kind)
            add_model_options(command.section(f"--model {kind}"), kind, without)
            if command.prog.endswith(" fit"):
                command.epilog = f"example: {example_of(kind)}"

    command.extend = extend


def options_by_model(kinds: Sequence[str]) -> dict[str, list[argparse.Action]]:
    """Return the options of models: for references, which show all of them."""
    listed = {}
    for kind in kinds:
        other = Parser(add_help=False)
        add_model_options(other, kind)
        listed[f"--model {kind}"] = [action for action in other.arguments if action.dest != "help_all"]
    return listed


def _chosen(arguments: Sequence[str], default: str) -> str:
    """Return the last model that arguments name."""
    kind, words = default, list(arguments)
    for place, word in enumerate(words):
        name, given, value = word.partition("=")
        if len(name) > 3 and "--model".startswith(name):
            kind = value if given else words[place + 1] if place + 1 < len(words) else kind
    return kind


def _whose(option: str, kinds: Sequence[str]) -> str:
    """Return of which models an option is, as the end of a sentence; nothing where it is of none."""
    owners = [
        title.removeprefix("--model ")
        for title, actions in options_by_model(kinds).items()
        if any(option in action.option_strings for action in actions)
    ]
    return f" of this model, but of --model {', '.join(owners)}" if owners else ""
