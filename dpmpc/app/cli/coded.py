"""The table that a command reads: files, their bounds, and what becomes of missing values."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from dpmpc.app.cli.model_options import columns_of, variables_of
from dpmpc.app.cli.options import dialect_of
from dpmpc.app.cli.parsing import Parser
from dpmpc.base.errors import InputError

if TYPE_CHECKING:
    from dpmpc.data import Codebook, Schema, Table


def add_missing_options(command: Parser) -> None:
    """Add what becomes of missing values."""
    command.add_argument(
        "--zero-missing",
        action="store_true",
        help="a row with a missing value contributes zeros, and the number of complete rows is released with noise",
    )
    command.add_argument(
        "--fill-missing",
        action="store_true",
        help="a missing value becomes the middle of its column's public bounds, without bounds 0",
    )
    command.add_argument(
        "--drop-missing",
        rare=True,
        action="store_true",
        help="leave out rows with missing values; needs --public-count",
    )
    command.add_argument(
        "--public-count",
        rare=True,
        type=int,
        metavar="N",
        help="with --drop-missing: how many are left, if that is public anyway",
    )


def refuse_missing_rules(options: argparse.Namespace) -> None:
    """Refuse rules for missing values of a model that counts people."""
    for name in ("fill_missing", "zero_missing", "drop_missing"):
        if getattr(options, name, None):
            raise InputError(
                name,
                'given, but people are counted as they are; if_missing = "indicator" in the bounds of a '
                "column counts those who lack its value by themselves",
            )


def read_data(options: argparse.Namespace, model: Any, column: str | None) -> tuple[Table, Schema]:
    """Read what a model needs, within its public bounds; an unknown target is refused before anything is coded."""
    from dpmpc.data import Codebook, Schema
    from dpmpc.data.schemas import schema
    from dpmpc.data.table_files import read_cells, read_table

    _check_missing_options(options)
    given = None if options.bounds is None else Schema.from_toml(options.bounds)
    dialect = dialect_of(options)
    book = None if given is None else _codebook(options, given)
    if given is not None and isinstance(book, Codebook):
        book = variables_of(options, model, book, column)
        public = Schema.of_codebook(book, given.outside)
        chosen = model.columns_read(public.names, column)
        rounds = getattr(options, "rounds", None)
        if public.weighted and (rounds or not model.weights):
            asked = f"{model.kind}, rounds: {rounds}"
            raise InputError(
                "model",
                f"{asked} given, 'ridge' with rounds = 0 expected, or 'compare', where rows have weights or "
                'contribute zeros; if_missing = "indicator" keeps rows that lack a feature',
            )
        cells = read_cells(options.data, book.sources, dialect=dialect)
        table = book.encode(cells, getattr(options, "target", None))
        return (table, public) if chosen is None else (table.select(chosen), public.select(chosen))
    if options.zero_missing:
        raise InputError("zero_missing", "given without bounds, a bounds file expected (--bounds)")
    fill = _filling(options, given)
    wanted = columns_of(options, model, None if given is None else given.names, column)
    table = read_table(options.data, wanted, drop_missing=options.drop_missing, fill=fill, dialect=dialect)
    if options.drop_missing:
        table = table.with_public_count(options.public_count)
    return table, schema(given, table.names)


def _codebook(options: argparse.Namespace, given: Schema) -> Codebook | None:
    """Return the codebook of a bounds file, or that of its numbers where rows may contribute zeros."""
    from dpmpc.data import Codebook

    book = given.codebook
    if not isinstance(book, Codebook):
        return Codebook.of_columns(given.columns, "zeros") if options.zero_missing else None
    if options.drop_missing:
        raise InputError(
            "drop_missing",
            "given, but the bounds file describes more than numbers; --zero-missing or if_missing in the file expected",
        )
    if options.zero_missing:
        book = replace(book, incomplete="zeros")
    if options.fill_missing:
        filled = (
            replace(one, if_missing="middle") if one.if_missing is None and one.kind != "category" else one
            for one in book.variables
        )
        book = replace(book, variables=tuple(filled))
    return book


def _check_missing_options(options: argparse.Namespace) -> None:
    """Refuse rules that contradict each other, and rows that are left out where their number is not public.

    A release publishes the number of its rows exactly: it must be the same whether or not somebody's row is complete.
    """
    rules = [name for name in ("zero_missing", "drop_missing", "fill_missing") if getattr(options, name)]
    if len(rules) > 1:
        raise InputError(f"{', '.join(rules)}", f"{'both' if len(rules) == 2 else 'all'}", "one of them")
    if options.public_count is not None and not options.drop_missing:
        raise InputError("public_count", f"{options.public_count} given, but it belongs with --drop-missing")
    if options.drop_missing and options.public_count is None:
        raise InputError(
            "drop_missing",
            "the number of complete rows depends on the data, and a release publishes it exactly. "
            "--zero-missing releases it with noise; --fill-missing puts the middle of a column's bounds in "
            "the place of a missing value; or give --public-count N if it is public knowledge, whatever "
            "the file says, that N rows are complete",
        )


def _filling(options: argparse.Namespace, given: Schema | None) -> float | dict[str, float] | None:
    """Return what stands for missing values of numbers."""
    if not options.fill_missing:
        return None
    return 0.0 if given is None else {column.name: column.middle for column in given.columns}
