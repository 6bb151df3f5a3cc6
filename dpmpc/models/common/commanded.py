"""What a model has for the command `dpmpc fit`: its options, which columns it reads, and what it is compared with.

All rows are at hand there, as only in a simulation. What is computed from them beside the release (an optimum, exact
moments, clipped shares) is for anyone who owns them and is not private: `compare_with` alone is given the rows, and is
called only where the comparison was requested.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np

from dpmpc.base.errors import InputError
from dpmpc.data import Codebook, Column, Schema, Table
from dpmpc.data.data_checks import check_table
from dpmpc.data.table import Cells
from dpmpc.models.common.releases import Releases
from dpmpc.privacy import Guarantee
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning.forecast import Assumptions, Forecast
from dpmpc.release.results import NumberTable, Result

ReadCells: TypeAlias = "Callable[[Sequence[str]], Cells]"  # the columns of a table of these names
LEVEL = 0.95  # of the confidence intervals in a report


def option(default: Any, help: str, **more: Any) -> Any:
    """Return a field of a data class that is an option of the command too.

    Parameters
    ----------
    default : object
        Of the field.
    help : str
        What the command's help states of it.
    **more
        ``flag``, where it is not the name; ``type``, which reads a text or raises `InputError`; ``metavar``;
        ``const``, which the flag alone stands for; ``required``, whether the command has no default; ``rare``,
        whether ``--help-all`` alone lists it.
    """
    return dataclasses.field(default=default, metadata={"help": help, **more})


@dataclasses.dataclass(frozen=True)
class NotPrivate:
    """A comparison with the data at hand."""

    data: dict[str, object]  # the entry "not_private" of the JSON contract
    tables: Sequence[NumberTable]  # the same for a person
    lines: Sequence[str]

    @classmethod
    def of(
        cls, data: dict[str, object], public: Schema, table: Table, tables: Sequence[NumberTable], *lines: str
    ) -> NotPrivate:
        """Return a comparison with what the bounds clipped beside it: the largest share of a column's values."""
        share = float(np.max(public.clipped_fraction(table.values)))
        clipped = [f"the public bounds clipped up to {share:.2%} of a column's values"] if share > 0 else []
        return cls({**data, "largest_clipped_fraction": share}, tables, [*lines, *clipped])

    def __str__(self) -> str:
        """Return what a person reads."""
        return "\n\n".join(["Not private, for the owner of the data:", *map(str, self.tables), "\n".join(self.lines)])


class Commanded:
    """Base of the models that the command fits."""

    kind: ClassVar[str]  # as in `dpmpc fit --model`
    named: ClassVar[tuple[str, str] | None] = None  # the option that names the column of `fit_release`, and its help
    example: ClassVar[str] = "--target score"  # its own options, as they stand in an example of the command
    flags: ClassVar[Mapping[str, str]] = {}  # of the command alone, with their help
    assumes: ClassVar[tuple[str, ...]] = ("spread",)  # which of `Assumptions` a forecast uses
    from_features: ClassVar[bool] = False  # whether it predicts from columns that the command may name
    weights: ClassVar[bool] = False  # whether rows may have weights or contribute zeros
    fit_release: Any  # of a release, and of the column that is named
    codes_people: ClassVar[bool] = False  # whether the model codes people by itself: `read`

    def check_options(self, column: str | None, *, bounds: bool) -> None:
        """Refuse parameters that no fit can use, and a column that is not named, before any data is read."""
        if self.named is not None and column is None:
            argument, what = self.named
            raise InputError(argument, "none", what.partition(";")[0], condition=f"(--{argument})")

    def read(self, cells: ReadCells) -> tuple[Table, Schema]:
        """Return coded rows of people and their bounds; bad bounds are refused before data is read."""
        raise NotImplementedError

    def columns_read(self, bounded: tuple[str, ...] | None, column: str | None) -> tuple[str, ...] | None:
        """Return the columns to read, of those with bounds; None for all."""
        return bounded

    def codebook_read(self, book: Codebook, column: str | None) -> Codebook:
        """Return the variables to read, of those of the bounds file."""
        return book

    def check_rows(self, table: Table, public: Schema, column: str | None, *, filled: bool) -> None:
        """Refuse a table that the model cannot be fitted to.

        Parameters
        ----------
        table, public : Table, Schema
            The coded rows, and their bounds.
        column : str or None
            The one that was named.
        filled : bool
            Whether the middle of its bounds stands for a missing value.
        """
        check_table(table, column, public)

    def command_choices(self, asked: dict[str, Any], public: Schema) -> dict[str, Any]:
        """Return the keywords of `ReleaseSpec.of`, from those that were given."""
        return asked

    def in_rounds(self, spec: ReleaseSpec) -> bool:
        """Return whether a fit of this specification makes several sums."""
        return False

    def planned_schema(self, schema: Schema) -> Schema:
        """Return the bounds of what clients code, from those that were given: what `read` does without any data."""
        return schema

    def forecast(self, spec: ReleaseSpec, assumed: Assumptions | None = None) -> Forecast:
        """Return what a fit of this specification is expected to show, before anything is spent.

        Parameters
        ----------
        spec : ReleaseSpec
            Columns, the target last, clients, budget, trust and mechanism, as the fit would have them.
        assumed : Assumptions, optional
            About people.
        """
        raise NotImplementedError

    def fit_named(self, release: Any, column: str | None) -> None:
        """Fit the release with the column as named."""
        self.fit_release(release, *([] if self.named is None else [column]))

    def result(self, level: float = LEVEL) -> Result:
        """Return all that the release says."""
        raise NotImplementedError

    def compare_with(self, table: Table) -> NotPrivate:
        """Compare with what the data itself would give, which is not private."""
        raise NotImplementedError


class CommandedInRounds(Commanded):
    """Base of the models that several sums are made for."""

    releases_: tuple[Any, ...]
    guarantee_: Guarantee

    def round_target(self, target: Column, *, given: bool) -> Column:
        """Return the target with its bounds, as the model has them."""
        return target

    def require_useful(self, releases: Releases) -> str | None:
        """Refuse a fit that public numbers forecast to be of no use, before anything is spent.

        Returns
        -------
        str or None
            What to expect otherwise, in a line; None where nothing is known.
        """
        return None

    def fit_rounds(self, releases: Releases) -> Any:
        """Have all sums made, and fit them."""
        raise NotImplementedError
