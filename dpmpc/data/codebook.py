"""A codebook: how a table as people keep it becomes columns of numbers with public bounds.

It names the variables of the table, products of them, words for what is missing, a column of weights, and what becomes
of a row that lacks a value. All of it is public and is agreed on before any data is seen; each row is coded by itself,
so that coding a table promises and costs nothing. It travels in the schema of a release, and codes the rows that a
model predicts for as it coded those that the model was learnt from.

Each term, a variable or a product, has an L2 norm of at most 1 in every row, however many columns stand for it, so that
the sensitivity is that of as many numbers as there are terms (theorem unit-terms).
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from msgspec.structs import force_setattr, replace
from numpy.typing import NDArray

from dpmpc.base.arguments import require_choice, require_positive
from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.base.storage import Record
from dpmpc.base.storage.records import fields_of
from dpmpc.data.columns import Column, Term
from dpmpc.data.table import Cells, Table, check_names
from dpmpc.data.variables import Variable

MOST_COLUMNS = 10_000

#: The column that says which rows are complete, where there are no other weights.
COMPLETE = "(complete)"

#: What becomes of rows that lack the target, which nothing made up may stand for.
LACKING_TARGET = (
    'with incomplete = "zeros" (--zero-missing) a ridge regression in one round does not count rows that lack the '
    "target; a file without them will do where their number is public"
)

_VARIABLE_KEYS = frozenset(Variable.__struct_fields__) - {"name"}
_OWN_KEYS = frozenset({"products", "missing", "weight", "incomplete"})


class Weight(Record, frozen=True):
    """A column that states how much each row counts.

    Parameters
    ----------
    column : str
        The column of the table. What lies outside [0, upper] is clipped.
    upper : float
        The largest weight; public.
    """

    called: ClassVar[str] = "weight"
    column: str
    upper: float

    def __post_init__(self) -> None:
        check_names([self.column], "weight: column")
        force_setattr(self, "upper", float(require_positive("weight: upper", self.upper)))


class Codebook(Record, frozen=True, omit_defaults=True):
    """The variables of a table, and the columns that stand for them.

    Parameters
    ----------
    variables : tuple of Variable
        At least one; unique names.
    products : tuple of tuples of str
        Products of two or more variables: interactions.
    missing : tuple of str
        Words for what is missing, in every column.
    weight : Weight, optional
        How much each row counts.
    incomplete : {"refuse", "zeros"}
        Whether a row that lacks a value is an error, or contributes zeros. Then the number of complete rows is released
        with noise, and the number of all rows is public.

    Raises
    ------
    InputError
        If names are repeated or unknown, or there are more than 10,000 columns.
    """

    called: ClassVar[str] = "codebook"
    variables: tuple[Variable, ...]
    products: tuple[tuple[str, ...], ...] = ()
    missing: tuple[str, ...] = ()
    weight: Weight | None = None
    incomplete: Literal["refuse", "zeros"] = "refuse"

    def __post_init__(self) -> None:
        force_setattr(self, "variables", tuple(self.variables))
        force_setattr(self, "products", tuple(tuple(factors) for factors in self.products))
        force_setattr(self, "missing", tuple(self.missing))
        for variable in self.variables:
            if not isinstance(variable, Variable):
                raise InputError("variables", f"{variable!r}", "a dpmpc.data.Variable", condition="for each column")
        names = check_names([variable.name for variable in self.variables], "columns")
        require_choice("incomplete", self.incomplete, ("refuse", "zeros"))
        for factors in self.products:
            if len(factors) < 2 or len(set(factors)) < len(factors):
                raise InputError("products", f"{list(factors)}", "two or more different columns")
            for name in factors:
                if name not in names:
                    raise InputError("products", f"no column {name!r}; there are {', '.join(names)}")
        if len({frozenset(factors) for factors in self.products}) < len(self.products):
            raise InputError("products", "one occurs twice, each once expected")
        if self.weight is not None and self.weight.column in names:
            raise InputError("weight", f"column {self.weight.column!r} given, which is a variable too")
        sizes = {variable.name: len(variable.term.columns) for variable in self.variables}
        count = sum(sizes.values()) + sum(math.prod(sizes[name] for name in factors) for factors in self.products)
        if count > MOST_COLUMNS:
            raise InputError("columns", f"{count:,} follow from values and products, at most {MOST_COLUMNS:,} expected")
        _ = self.columns

    @classmethod
    def of_columns(cls, columns: Sequence[Column], incomplete: str = "refuse") -> Codebook:
        """Return the codebook of numbers within these bounds."""
        variables = tuple(Variable(column.name, column.lower, column.upper) for column in columns)
        return cls(variables, incomplete="zeros" if incomplete == "zeros" else "refuse")

    @staticmethod
    def is_meant(content: Mapping[str, Any]) -> bool:
        """Return whether the content of a bounds file states more than the bounds of numbers."""
        entries = content.get("columns")
        definitions = entries.values() if isinstance(entries, Mapping) else ()
        more = _VARIABLE_KEYS - {"lower", "upper"}
        return bool(_OWN_KEYS & content.keys()) or any(
            isinstance(definition, Mapping) and more & definition.keys() for definition in definitions
        )

    @classmethod
    def from_content(cls, content: Mapping[str, Any]) -> Codebook:
        """Build a codebook from the content of a bounds file."""
        fields = fields_of("bounds", content, {"columns"}, _OWN_KEYS | {"outside"})
        variables = []
        for name, entry in fields["columns"].items():
            known = fields_of(f"bounds of column {name!r}", entry, set(), _VARIABLE_KEYS)
            variables.append({"name": name, **known})
        return cls.from_dict(
            {"variables": variables, **{key: value for key, value in fields.items() if key in _OWN_KEYS}}
        )

    def to_toml(self) -> str:
        """Return the text of a bounds file, without `outside`."""
        plain = self.to_dict()
        head = "".join(f"{key} = {_toml(value)}\n" for key, value in plain.items() if key != "variables")
        entries = []
        for variable in plain["variables"]:
            name = variable.pop("name")
            lines = "".join(f"{key} = {_toml(value)}\n" for key, value in variable.items())
            entries.append(f"[columns.{toml_key(name)}]\n{lines}")
        return (f"{head}\n" if head else "") + "\n".join(entries)

    @property
    def sources(self) -> tuple[str, ...]:
        """The columns of the table that are read."""
        names = tuple(variable.name for variable in self.variables)
        return names if self.weight is None else (*names, self.weight.column)

    @property
    def weighted(self) -> bool:
        """Whether the last column is a weight."""
        return self.weight is not None or self.incomplete == "zeros"

    @functools.cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns of numbers, in order: variables, products, and the weight where there is one."""
        weight = Column(*self._weight) if self.weighted else None
        coded = [column for term in self._terms for column in term.columns]
        columns = (*coded, *([] if weight is None else [weight]))
        check_names([column.name for column in columns], "columns")
        return columns

    @property
    def terms(self) -> int:
        """How many variables and products there are: the largest squared norm of a normalised row."""
        return len(self.variables) + len(self.products)

    @property
    def radius(self) -> float | None:
        """The L2 norm that no normalised row exceeds, where it is less than that of the box."""
        return self.radius_of([column.name for column in self.columns])

    def radius_of(self, names: Sequence[str]) -> float | None:
        """Return the L2 norm that no normalised row of these columns exceeds, where it is less than that of the box."""
        among = set(names)
        used = [term for term in self._terms if any(column.name in among for column in term.columns)]
        count = sum(column.name in among for term in used for column in term.columns)
        return math.sqrt(len(used)) if len(used) < count else None

    def has(self, columns: Sequence[Column]) -> bool:
        """Return whether these are columns of the codebook: some, in any order, or all where there is a weight.

        Bounds of numbers and dates may be narrower than the codebook's.
        """
        if tuple(columns) == self.columns:
            return True
        wide = {column.name: column for column in self.columns}

        def known(column: Column) -> bool:
            bounds = wide.get(column.name)
            if bounds is None or column.name in self.indicators:
                return column == bounds
            return bounds.lower <= column.lower and column.upper <= bounds.upper

        return not self.weighted and all(map(known, columns))

    def require_own_bounds(self, columns: Sequence[Column]) -> None:
        """Refuse columns whose bounds are narrower than the codebook's, where people code and clip by the codebook."""
        if not set(columns) <= set(self.columns):
            raise InputError(
                "codebook",
                f"columns {', '.join(column.name for column in self.columns)} and their bounds follow "
                f"from it, {', '.join(column.name for column in columns)} with others given",
            )

    def with_number(self, column: Column) -> Codebook:
        """Return the codebook with a number within these bounds, the last of its variables."""
        return replace(self, variables=(*self.variables, Variable(column.name, column.lower, column.upper)))

    @functools.cached_property
    def indicators(self) -> frozenset[str]:
        """The columns that may be constant in a good table: all but those of numbers and dates."""
        plain = [
            variable for variable in self.variables if variable.kind in ("number", "date") and variable.knots is None
        ]
        measured = {column.name for variable in plain for column in variable.term.columns[: variable.term.shown]}
        return frozenset(column.name for column in self.columns) - measured

    @property
    def _weight(self) -> tuple[str, float, float]:
        return (COMPLETE, 0.0, 1.0) if self.weight is None else (self.weight.column, 0.0, self.weight.upper)

    @functools.cached_property
    def _terms(self) -> tuple[Term, ...]:
        terms = {variable.name: variable.term for variable in self.variables}
        return (*terms.values(), *(_product([terms[name] for name in factors]) for factors in self.products))

    def variable(self, name: str) -> Variable | None:
        """Return a variable by its name, or None."""
        return next((variable for variable in self.variables if variable.name == name), None)

    def fills(self, column: str) -> bool:
        """Return whether a column, other than an indicator of what is missing, has values for rows that lack one."""
        filled = [variable.term for variable in self.variables if variable.if_missing is not None]
        return any(column == filled_variable.name for term in filled for filled_variable in term.columns[: term.shown])

    def without(self, name: str) -> Codebook:
        """Return the codebook of the other variables.

        Raises
        ------
        InputError
            If a product has this factor, or nothing is left.
        """
        for factors in self.products:
            if name in factors:
                raise InputError(
                    "products", f"{' * '.join(factors)}", "none", condition=f"that has {name!r} as a factor"
                )
        left = tuple(variable for variable in self.variables if variable.name != name)
        if not left:
            raise InputError("columns", f"{name!r} is the only one, at least one more expected")
        return replace(self, variables=left)

    def only(self, names: Sequence[str]) -> Codebook:
        """Return the codebook of these variables, in the order given, without products."""
        known = {variable.name: variable for variable in self.variables}
        for name in check_names(names, "columns"):
            if name not in known:
                raise InputError("columns", f"no column {name!r} in the bounds; there are {', '.join(known)}")
        return replace(self, variables=tuple(known[name] for name in names), products=())

    def encode(self, X: Any, target: str | None = None, *, counted: bool = False) -> Table:
        """Code a table: one row of numbers for each of its rows.

        Parameters
        ----------
        X : Cells or data frame
            What `dpmpc.data.table_files.read_cells` read, or an object with ``columns`` and ``to_numpy``.
        target : str, optional
            The column that is to be predicted, where that is known; for the words of errors.
        counted : bool
            Whether people are counted in cells, where an indicator alone can stand for what is missing; for those too.

        Returns
        -------
        Table
            With the columns of the codebook. A row that lacks a value has weight 0.

        Raises
        ------
        InputError
            If a cell is not what its variable is, or a row lacks a value and `incomplete` is "refuse". That depends on
            the data: the message is for anyone who holds the row.
        """
        cells = Cells.of(X)
        values, absent = self._coded(cells, self.variables, self.products)
        names = [column.name for column in self.columns]
        if self.weight is not None:
            weights, without = Variable(self.weight.column, 0.0, self.weight.upper).encode(cells, self.missing)
            absent[without] = self.weight.column
            values = np.column_stack([values, weights])
        elif self.weighted:
            values = np.column_stack([values, np.ones(len(cells))])
        gone = absent != ""
        if gone.any():
            if self.incomplete == "refuse":
                row = int(np.argmax(gone))
                place, missing = cells.place(absent[row], row), "the value is missing"
                if target is not None and absent[row] in self.sources_of([target]):
                    raise InputError(place, f"{missing}, which is the target; {LACKING_TARGET}")
                if counted:
                    raise InputError(
                        place, f'{missing}; if_missing = "indicator" in its column counts those who lack it'
                    )
                raise InputError(
                    place,
                    f'{missing}; state what stands for it: if_missing = "indicator" or "middle" in its column, or '
                    'incomplete = "zeros" (--zero-missing) for the whole row',
                )
            values[gone] = [column.middle for column in self.columns]
            values[gone, -1] = 0.0
        return Table(tuple(names), values)

    def encode_features(self, X: Any, names: Sequence[str]) -> tuple[Reals, NDArray[np.bool_]]:
        """Code some columns of new rows, moved into their bounds; the others need not be in the table.

        Parameters
        ----------
        X : Cells or data frame
            As in `encode`.
        names : sequence of str
            Columns of the codebook.

        Returns
        -------
        values : ndarray of float64, shape (n, len(names))
        complete : ndarray of bool, shape (n,)
            Whether a row has all the values that they stand for.
        """
        values, complete, lower, upper = self._features(X, names)
        return np.clip(values, lower, upper), complete

    def outside(self, X: Any, columns: Sequence[Column]) -> dict[str, int]:
        """Count the rows outside of the bounds of these columns, by column; a spline's are not counted."""
        names = [column.name for column in columns]
        values, _, lower, upper = self._features(X, names)
        lower = np.maximum(lower, [column.lower for column in columns])
        upper = np.minimum(upper, [column.upper for column in columns])
        counts = np.sum((values < lower) | (values > upper), axis=0)
        return {name: int(count) for name, count in zip(names, counts, strict=True) if count}

    def _features(self, X: Any, names: Sequence[str]) -> tuple[Reals, NDArray[np.bool_], Reals, Reals]:
        """Return columns as they are in the rows, which rows have all values, and the bounds."""
        cells = Cells.of(X)
        columns_of = {variable.name: {column.name for column in variable.term.columns} for variable in self.variables}
        among = set(names)
        products = tuple(
            factors
            for factors, term in zip(self.products, self._terms[len(self.variables) :], strict=True)
            if among & {column.name for column in term.columns}
        )
        factors_of = {name for factors in products for name in factors}
        used = tuple(
            candidate
            for candidate in self.variables
            if columns_of[candidate.name] & among or candidate.name in factors_of
        )
        for variable in used:
            if variable.name not in cells.names:
                raise InputError("X", f"no column {variable.name!r}; there are {', '.join(cells.names)}")
        values, absent = self._coded(cells, used, products)
        columns = Codebook(used, products).columns
        places = [[column.name for column in columns].index(name) for name in names]
        chosen = [columns[place] for place in places]
        lower, upper = np.array([[candidate.lower, candidate.upper] for candidate in chosen]).T
        return values[:, places], absent == "", lower, upper

    def sources_of(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the columns of a table that these columns are coded from."""
        among = set(names)
        sources_used: set[str] = set()
        factors = (*((variable.name,) for variable in self.variables), *self.products)
        for sources, term in zip(factors, self._terms, strict=True):
            if among & {column.name for column in term.columns}:
                sources_used.update(sources)
        return tuple(variable.name for variable in self.variables if variable.name in sources_used)

    def _coded(
        self, cells: Cells, variables: Sequence[Variable], products: Sequence[Sequence[str]]
    ) -> tuple[Reals, NDArray[Any]]:
        """Return the columns of variables and products, and for each row a column that lacks its value, or ""."""
        absent = np.full(len(cells), "", dtype=object)
        coded: dict[str, tuple[Variable, Reals]] = {}
        for variable in variables:
            values, gone = variable.encode(cells, self.missing)
            absent[gone] = variable.name
            coded[variable.name] = (variable, values)
        blocks = [values for _, values in coded.values()]
        blocks += [_multiplied([coded[name] for name in factors]) for factors in products]
        return np.column_stack(blocks), absent


def _product(factors: Sequence[Term]) -> Term:
    """Return the columns of a product, within the bounds that interval arithmetic gives."""
    columns = []
    for combined in itertools.product(*(factor.columns[: factor.shown] for factor in factors)):
        lower, upper = combined[0].lower, combined[0].upper
        for column in combined[1:]:
            ends = [end * other for end in (lower, upper) for other in (column.lower, column.upper)]
            lower, upper = min(ends), max(ends)
        columns.append(Column("*".join(column.name for column in combined), lower, upper))
    return Term(tuple(columns), len(columns))


def _multiplied(factors: Sequence[tuple[Variable, Reals]]) -> Reals:
    """Return the columns of a product; where a factor is missing, the middle of their bounds."""
    terms = [variable.term for variable, _ in factors]
    columns = _product(terms).columns
    shown_columns = [
        np.clip(
            values[:, : term.shown],
            [column.lower for column in term.columns[: term.shown]],
            [column.upper for column in term.columns[: term.shown]],
        )
        for term, (_, values) in zip(terms, factors, strict=True)
    ]
    products = shown_columns[0]
    for values in shown_columns[1:]:
        products = (products[:, :, None] * values[:, None, :]).reshape(len(products), -1)
    missing = np.zeros(len(products), np.bool_)
    for term, (_, values) in zip(terms, factors, strict=True):
        if term.shown < len(term.columns):
            missing |= values[:, -1] == 1.0
    products[missing] = [column.middle for column in columns]
    return np.asarray(products, dtype=np.float64)


def toml_key(name: str) -> str:
    """Return a name as a key of a TOML file; names are printable, so that quoted strings of JSON and TOML agree."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{toml_key(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
