"""The public bounds of columns, and the affine map to [-1, 1] that they stand for; rows are mapped by blocks."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

import msgspec
import numpy as np
from msgspec.structs import force_setattr
from numpy.typing import ArrayLike, NDArray

from dpmpc._kernels import arithmetic
from dpmpc.base.arguments import require_choice
from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.base.storage import Record
from dpmpc.base.storage.records import fields_of
from dpmpc.base.untrusted import ReadError, read_bytes, read_toml
from dpmpc.data.codebook import Codebook, toml_key
from dpmpc.data.columns import Column, finite_number
from dpmpc.data.table import check_finite, check_names, expect_columns, numeric_matrix, position_of
from dpmpc.data.variables import Variable

_BLOCK_CELLS = 1 << 15  # a block of rows and its result stay in the processor's cache


def row_blocks(matrix: NDArray[Any]) -> Iterator[slice]:
    """Cut the rows of a matrix into blocks that stay in the processor's cache."""
    step = max(1, _BLOCK_CELLS // max(1, matrix.shape[1]))
    return (slice(start, start + step) for start in range(0, len(matrix), step))


_PERIOD = 256  # bounds are repeated to at least this many elements, so that the kernel's inner loop is long


class Schema(Record, frozen=True):
    """The public bounds of all columns, in the order of the columns.

    Parameters
    ----------
    columns : tuple of Column
        At least one; unique names.
    codebook : Codebook, optional
        How the columns are coded from a table with categories, dates or missing values; their bounds follow from it.
        The columns are all of the codebook's, or some of them in any order where no row has a weight.
    outside : {"clip", "refuse"}
        What happens to a value outside its bounds: it is moved to the nearer bound, or is an error. Such an error
        depends on the data and names the value: it is not private.

    Raises
    ------
    InputError
        If there is no column, or a name is repeated, or a column is not of the codebook.

    Examples
    --------
    >>> from dpmpc import Schema
    >>> schema = Schema.from_pair(["age", "hours"], (0, 100))
    >>> schema.names
    ('age', 'hours')
    >>> print(schema.select(["age"]).to_toml())
    [columns.age]
    lower = 0.0
    upper = 100.0
    <BLANKLINE>
    """

    called: ClassVar[str] = "bounds"
    columns: tuple[Column, ...]
    outside: Literal["clip", "refuse"] = "clip"
    codebook: Codebook | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        force_setattr(self, "columns", tuple(self.columns))
        for column in self.columns:
            if not isinstance(column, Column):
                raise InputError("columns", f"{column!r}", "Column(name, lower, upper)")
        check_names(self.names, "columns")
        require_choice("outside", self.outside, ("clip", "refuse"))
        if isinstance(self.codebook, Codebook) and not self.codebook.has(self.columns):
            raise InputError(
                "codebook",
                f"columns {', '.join(column.name for column in self.codebook.columns)} and their bounds "
                f"follow from it, {', '.join(self.names)} given",
            )

    @classmethod
    def of_codebook(cls, codebook: Codebook, outside: Literal["clip", "refuse"] = "clip") -> Schema:
        """Return the schema of the columns of a codebook."""
        return cls(codebook.columns, outside, codebook)

    @classmethod
    def from_pair(cls, names: Sequence[str], pair: tuple[float, float]) -> Schema:
        """Give all columns the same bounds ``(lower, upper)``."""
        return cls(tuple(_column(name, pair) for name in check_names(names, "names")))

    @classmethod
    def unit(cls, names: Sequence[str]) -> Schema:
        """Return the schema of data that is in [-1, 1] already; anything outside is an error."""
        return cls(cls.from_pair(names, (-1.0, 1.0)).columns, outside="refuse")

    @classmethod
    def of_numbers(cls, path: str | Path) -> Schema:
        """Read a schema as `from_toml` does, but refuse one with a codebook: the caller cannot code tables yet.

        Raises
        ------
        InputError
            If the file cannot be read, or holds more than the bounds of numbers.
        """
        found = cls.from_toml(path)
        if isinstance(found.codebook, Codebook):
            raise InputError(
                "bounds",
                f"{path} has categories, dates, transforms, products, weights, rules for what is missing or "
                "texts for people, bounds of numbers alone expected here",
            )
        return found

    @classmethod
    def from_toml(cls, path: str | Path) -> Schema:
        """Read a schema from a file with ``[columns.NAME]``, ``lower`` and ``upper`` for every column, in this order.

        ``outside = "refuse"`` at its top makes values outside their bounds an error. What else such a file may say
        (docs/how-to/prepare-data.md) gives the schema a codebook.

        Raises
        ------
        InputError
            If the file cannot be read, is no TOML, or has other keys than these.
        """
        try:
            content = read_toml(read_bytes(path))
        except OSError as error:
            raise InputError("bounds", f"{path} cannot be read: {error.strerror}") from error
        except ReadError as error:
            raise InputError(
                "bounds",
                f"{path} is not a TOML file: {error}; a name with anything but letters, digits, - and _ "
                "stands in quotes, such as [columns.'weekly hours']",
            ) from error
        if Codebook.is_meant(content):
            return cls.of_codebook(Codebook.from_content(content), content.get("outside", "clip"))
        fields = fields_of("bounds", content, {"columns"}, {"outside"})
        if not isinstance(fields["columns"], Mapping):
            raise InputError("bounds", f"columns is {fields['columns']!r}, [columns.NAME] for every column expected")
        bounded = [
            Column(name, **fields_of(f"bounds of column {name!r}", entry, {"lower", "upper"}))
            for name, entry in fields["columns"].items()
        ]
        return cls(tuple(bounded), fields.get("outside", "clip"))

    def to_toml(self) -> str:
        """Return the text of a file that `from_toml` reads as an equal schema, with all columns of a codebook."""
        head = "" if self.outside == "clip" else f'outside = "{self.outside}"\n\n'
        if isinstance(self.codebook, Codebook):
            return head.replace("\n\n", "\n") + self.codebook.to_toml()
        return head + "\n".join(
            f"[columns.{toml_key(column.name)}]\nlower = {column.lower!r}\nupper = {column.upper!r}\n"
            for column in self.columns
        )

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables that rows are made of: those of the codebook, or the columns as numbers."""
        book = self.codebook if isinstance(self.codebook, Codebook) else Codebook.of_columns(self.columns)
        return book.variables

    @property
    def offset(self) -> Reals:
        """The middles of the bounds, shape (p,): z = (x - offset) / slope."""
        return np.array([column.middle for column in self.columns])

    @property
    def slope(self) -> Reals:
        """Half the widths of the bounds, shape (p,): x = offset + slope * z."""
        return np.array([column.half_width for column in self.columns])

    def index(self, name: str) -> int:
        """Return the position of a column."""
        return position_of(name, self.names, "bounds")

    def select(self, names: Sequence[str]) -> Schema:
        """Return the schema of some columns, in the order given; a weight stays with all others or is lost."""
        chosen = check_names(names, "names")
        if chosen == self.names:
            return self
        kept = msgspec.UNSET if self.weighted else self.codebook
        return Schema(tuple(self.columns[self.index(name)] for name in chosen), self.outside, kept)

    def with_target(self, target: Column) -> Schema:
        """Return the schema with one more column, the last: a number, in the codebook too where there is one."""
        book = self.codebook
        if isinstance(book, Codebook):
            book = book.with_number(target)
        return Schema((*self.columns, target), self.outside, book)

    @property
    def radius(self) -> float | None:
        """The L2 norm that no normalised row of the codebook exceeds, where it is less than that of the box."""
        return self.codebook.radius_of(self.names) if isinstance(self.codebook, Codebook) else None

    @property
    def weighted(self) -> bool:
        """Whether the last column states how much a row counts."""
        return isinstance(self.codebook, Codebook) and self.codebook.weighted

    def normalise(self, X: ArrayLike, *, first: int = 0) -> Reals:
        """Map every column affinely to [-1, 1] and clip to this box.

        Parameters
        ----------
        X : array_like of numbers, shape (n, p)
            Rows in the columns' own units. Left unchanged.
        first : int
            How many rows came before these; errors count them.

        Returns
        -------
        ndarray of float64, shape (n, p)
            ``clip((X - offset) / slope, -1, 1)``, C-contiguous.

        Raises
        ------
        InputError
            If a value is NaN or infinite, or lies outside bounds that refuse it; with its column and row.
        """
        matrix = self.matrix("X", X)
        reals = np.ascontiguousarray(matrix, np.float64)
        Z = np.empty(matrix.shape)
        if Z.size and arithmetic.normalise_rows(reals.reshape(-1), self.periods, Z.reshape(-1)):
            self.refuse(reals, first)
        return Z

    @property
    def periods(self) -> Reals:
        """What the kernels hold of the bounds: offset, slope, least and most accepted value, shape (4, m p)."""
        return _periods(self)

    def refuse(self, matrix: Reals, first: int = 0) -> None:
        """Raise the error that names the value which a kernel refused; `first` rows came before the matrix."""
        for rows in row_blocks(matrix):
            check_finite("X", matrix[rows], self.names, first + rows.start)
            if self.outside == "refuse":
                self._refuse_outside(matrix[rows], first + rows.start)

    def denormalise(self, Z: ArrayLike) -> Reals:
        """Map [-1, 1] back to the columns' own units: ``offset + slope * Z``, float64, shape (n, p)."""
        X = self.matrix("Z", Z) * self.slope
        X += self.offset
        return X

    def clipped_fraction(self, X: ArrayLike) -> Reals:
        """Return the fraction of the values of each column that `normalise` would clip, shape (p,).

        Not private: an exact statistic of the data, for simulations where all rows are at hand. Never release it.
        """
        matrix = self.matrix("X", X)
        counts = np.zeros(len(self.columns), np.int64)
        for rows in row_blocks(matrix):
            check_finite("X", matrix[rows], self.names, rows.start)
            counts += np.count_nonzero(self._outside(matrix[rows]), axis=0)
        return counts / max(len(matrix), 1)

    def matrix(self, where: str, X: ArrayLike) -> NDArray[Any]:
        """Return `X` as a matrix with one column of real numbers for each of these, or refuse it."""
        matrix = numeric_matrix(where, X)
        expect_columns(where, matrix, self.names)
        return matrix

    def _outside(self, block: NDArray[Any]) -> NDArray[np.bool_]:
        lower = np.array([column.lower for column in self.columns])
        upper = np.array([column.upper for column in self.columns])
        return np.asarray((block < lower) | (block > upper))

    def _refuse_outside(self, block: NDArray[Any], start: int) -> None:
        outside = self._outside(block)
        if outside.any():
            row, position = np.argwhere(outside)[0]
            column = self.columns[position]
            place = f"X: column {column.name!r}, row {start + row + 1}"
            raise InputError(
                place,
                f"{block[row, position]} lies outside [{column.lower}, {column.upper}]; give bounds that "
                'hold it, or clip with outside = "clip" (this message depends on the data and is not '
                "private)",
            )


#: What users may hand in as bounds: see `schema`.
Bounds: TypeAlias = Schema | tuple[float, float] | Mapping[str, tuple[float, float]] | str | Path | None


def schema(bounds: Bounds, names: Sequence[str]) -> Schema:
    """Return the schema of the columns `names` that `bounds` describes.

    Parameters
    ----------
    bounds : None, pair, dict, Schema, str or Path
        None: the data is in [-1, 1] already, anything outside is an error. A pair ``(lower, upper)`` holds for all
        columns; a dict gives one pair for each name; a string or path names a TOML file. Columns that are not in
        `names` are left out.
    names : sequence of str
        The columns of the data, in their order.

    Raises
    ------
    InputError
        If a column has no bounds, or the bounds are not as above.
    """
    chosen = check_names(names, "names")
    if bounds is None:
        return Schema.unit(chosen)
    if isinstance(bounds, (str, Path)):
        bounds = Schema.from_toml(bounds)
    if isinstance(bounds, Schema):
        if bounds.weighted and chosen != bounds.names:
            raise InputError(
                "bounds",
                f"with weights or rows of zeros given, for the columns {', '.join(bounds.names)} together; "
                f"{', '.join(chosen)} are there: Codebook.encode gives such a table, and release(table) "
                "takes it",
            )
        return bounds.select(chosen)
    if isinstance(bounds, Mapping):
        for name in chosen:
            if name not in bounds:
                raise InputError("bounds", f"none given for column {name!r}, a pair (lower, upper) expected")
        return Schema(tuple(_column(name, bounds[name]) for name in chosen))
    return Schema.from_pair(chosen, bounds)


def _column(name: str, pair: Any) -> Column:
    try:
        lower, upper = pair
    except (TypeError, ValueError) as error:
        raise InputError(f"bounds of column {name!r}", f"{pair!r}", "a pair (lower, upper)") from error
    return Column(name, lower, upper)


@functools.lru_cache(maxsize=64)
def _periods(public: Schema) -> Reals:
    """Return `Schema.periods`, made once."""
    ends = (-math.inf, math.inf)
    pairs = [(column.lower, column.upper) if public.outside == "refuse" else ends for column in public.columns]
    columns = np.array([public.offset, public.slope, *zip(*pairs, strict=True)])
    periods = np.tile(columns, -(-_PERIOD // len(pairs)))
    periods.setflags(write=False)
    return periods


_RADIUS_RANGE = (1e-100, 1e100)  # squares of these neither vanish nor overflow


def clip_ball(Z: ArrayLike, radius: float) -> Reals:
    """Shrink the rows that leave the L2 ball of a radius around 0 onto it.

    The bound holds for the exact norm of the floating-point result, not just up to rounding: rows are shrunk to
    ``radius (1 - (p + 4) 2^-52)``. A row whose squared norm is beyond the range of float64 becomes 0.

    Parameters
    ----------
    Z : array_like of numbers, shape (n, p)
        Left unchanged.
    radius : float
        Between 1e-100 and 1e100.

    Returns
    -------
    ndarray of float64, shape (n, p)
        Rows of norm at most `radius`.

    Raises
    ------
    InputError
        If the radius is out of range, or a value is NaN or infinite.
    """
    limit = finite_number("radius", radius)
    if not _RADIUS_RANGE[0] <= limit <= _RADIUS_RANGE[1]:
        raise InputError("radius", radius, f"a number in [{_RADIUS_RANGE[0]}, {_RADIUS_RANGE[1]}]")
    matrix = numeric_matrix("Z", Z)
    names = [str(position) for position in range(matrix.shape[1])]
    clipped = np.empty(matrix.shape)
    # The computed norm is right to p/2 + 1 roundings (2^-53 each); `reach`, the quotient and the product add four.
    reach = limit * (1 - (matrix.shape[1] + 4) * np.finfo(np.float64).eps)
    for rows in row_blocks(matrix):
        check_finite("Z", matrix[rows], names, rows.start)
        block = matrix[rows].astype(np.float64, copy=False)
        with np.errstate(over="ignore", divide="ignore"):  # a quotient of 0 or infinity is right in both cases
            factor = np.minimum(reach / np.sqrt(np.einsum("ij,ij->i", block, block)), 1.0)
        np.multiply(block, factor[:, None], out=clipped[rows])
    return clipped


def largest_squared_norm(columns: int, radius: float | None) -> float:
    """Return C^2, the largest squared norm of a row of the box [-1, 1]^p, within the ball where there is one."""
    return float(columns) if radius is None else min(float(columns), radius**2)
