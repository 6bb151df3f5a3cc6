"""A data set of one's own for the comparison: a table and its public bounds, as `dpmpc fit` reads them."""

from __future__ import annotations

from pathlib import Path

from bench.curators.problem import RegressionSet
from dpmpc.data import Codebook, Schema, Table, read_cells, read_table
from dpmpc.errors import InputError

NOT_PRIVATE = (
    "All figures are computed from the rows themselves, and peers are tuned on them: this page is not private, and is "
    "for those who may see the rows."
)


def own_set(data: str, bounds: str, target: str | None = None) -> RegressionSet:
    """Return a set of numbers and coded categories; its target is the last column unless another is named."""
    public = Schema.from_toml(bounds)
    if public.weighted:
        raise InputError(f"bounds: {bounds} has weights or rows of zeros, neither expected in a comparison")
    names = public.names
    if target is not None and target not in names:
        raise InputError(f"target: {target!r} given, one of {', '.join(names)} expected")
    if len(names) < 2:
        raise InputError(f"bounds: {bounds} has {len(names)} column, a target and at least one feature expected")
    book = public.codebook
    chosen = target or names[-1]

    def load() -> Table:
        if isinstance(book, Codebook):
            return book.encode(read_cells([data], book.sources), chosen)
        return read_table([data], names)

    return RegressionSet(Path(data).name, load, Schema(public.columns), chosen, "whole", Path(bounds).name)
