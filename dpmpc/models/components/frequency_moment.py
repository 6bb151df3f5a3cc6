"""Frequency moments from a release (Burkhardt et al. 2025, section 4.1)."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from dpmpc.base.arguments import require_choice
from dpmpc.base.errors import InputError
from dpmpc.data import Column, Schema, Table
from dpmpc.linear.contributions import SecondMoments
from dpmpc.linear.contributions.contribution import Contribution
from dpmpc.linear.contributions.powers_and_items import ItemSketch, PowerSum
from dpmpc.models.common.commanded import NotPrivate, option
from dpmpc.models.common.inference import normal_quantile
from dpmpc.models.common.private_estimator import PrivateEstimator
from dpmpc.models.common.release_parts import column_index
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning import design
from dpmpc.release.planning.advice import GUESS
from dpmpc.release.planning.designing import public_seed
from dpmpc.release.planning.forecast import Assumptions, Forecast
from dpmpc.release.release import Release
from dpmpc.release.results import NumberTable, Result
from dpmpc.release.results.estimates import Estimates
from dpmpc.release.results.number_tables import short

OF = ("values", "items")
DEFAULT_ROWS = 256
FRACTIONAL_BITS = 24  # n rounding errors of 2^-25 stay below the noise for n up to 10^8


@dataclasses.dataclass(eq=False, repr=False)
class FrequencyMoment(PrivateEstimator):
    """Differentially private moments of what the clients hold, each one number or one item.

    `fit` simulates clients and servers in this process and then calls `fit_release`; `fit_release` alone is
    post-processing of a release that came from anywhere. Estimates are unbiased, hence neither rounded nor forced into
    their range: noise can make one negative. Clients learn the public matrix of `of="items"` before they report; those
    who choose their items by it can bias the estimate, though not its privacy.

    Parameters
    ----------
    order : int
        k, from 1 to 32; 2 for items.
    epsilon, delta : float
        Budget of the release that `fit` makes; delta = 0 with ``noise="discrete-laplace"``.
    bounds : Schema, pair, dict, path or None
        Public bounds of the columns, target included; None where the data is already in [-1, 1]. A dict has a pair
        (lower, upper) for each name: a data frame's columns keep their names, an array's are called "x0", "x1", ...,
        and the target "y", or as the Series that holds it. A path is that of a bounds file (how-to/prepare-data.md).
    noise : {"discrete-gaussian", "skellam", "discrete-laplace"}
        Family of the noise; all are drawn exactly, in whole numbers.
    servers : int
        Number of servers, at least 2.
    sharing : {"additive", "shamir"}
        How a contribution is split: with additive shares all servers are needed and all but one may collude; with
        Shamir's fewer than half may collude and some may be missing.
    noise_by : {"clients", "servers"}
        Who adds the noise.
    copies : {"auto", "one", "each"}
        Noisy copies of its row that a client sends, with noise by clients: one, or one for each row of the sketch that
        it hits. 'auto' is one where that is proven and costs at most a quarter more variance.
    corrupt_clients : int
        Most clients that may reveal their noise to the servers.
    dropouts : int
        Most clients from whom anything may be missing in the end.
    coalition : {"adaptive", "static"}
        Whether corrupt clients may be chosen after the public matrix is known, or were fixed before.
    calibration : {"joint", "paper"}
        Noise for the whole release at once, or by the paper's bound, which takes more.
    threads : int
        Threads of the kernels.
    simulation_seed : int, optional
        Simulations only: repeats sketch, noise and shares; the guarantee then states that no one is protected.
    of : {"values", "items"}
        "values": sum_i x_i^k over the clients' numbers. "items": F_2 = sum_v f_v^2, where f_v clients hold the whole
        number v; the bounds are the first and the last item, and need to be given.
    rows : int, optional
        Rows of the items' sketch, which are the words that a client sends: 256 by default. More rows estimate better
        until noise rules.

    Attributes
    ----------
    moment_ : float
        The estimate, in the column's units.
    standard_error_ : float
        Of values: exact, that of the noise. Of items: `item_moment_variance` at the estimate and F_4 = 0, which is
        never less than with the true F_4.
    noise_sd_ : float
        Standard deviation of the released numbers' noise: of the moment itself, or of each entry of the items' sketch.
    column_ : str
        What was measured.
    release_ : Release
        What the servers opened.

    Examples
    --------
    >>> import numpy as np
    >>> from dpmpc import FrequencyMoment
    >>> ages = np.random.default_rng(0).integers(18, 80, 50_000)
    >>> fit = FrequencyMoment(order=1, epsilon=1.0, delta=1e-6, bounds=(18, 80)).fit(ages)
    >>> bool(abs(fit.moment_ / len(ages) - ages.mean()) < 0.1)  # the mean age, to a tenth of a year
    True
    """

    kind: ClassVar[str] = "moment"  # as in `dpmpc fit --model`
    example = "--column income --order 2"
    assumes = ()
    named = ("column", "what is measured; required if there are several")
    order: int = option(2, "the sum of x^K (default 2)", type=int, metavar="K")
    _: dataclasses.KW_ONLY
    of: str = option(
        "values",
        "the sum of squared counts of each whole number; --rows: size of its sketch",
        flag="--items",
        const="items",
    )
    rows: int | None = None

    def fit(self, X: ArrayLike, y: object = None) -> FrequencyMoment:
        """Make a release of one column under the estimator's budget and fit it.

        Parameters
        ----------
        X : array-like of shape (n,) or (n, 1), or a data frame of one column
            One number or item per client.
        y : object
            Not used.
        """
        self.check_parameters()
        table = _table_of(X)
        self.check_table(table)
        return self.fit_release(self.release(table))

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that a vector is expected: one number or item per client."""
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array, tags.input_tags.two_d_array = True, False
        return tags

    def check_options(self, column: str | None, *, bounds: bool) -> None:
        """Refuse parameters that no fit can use; the column need not be named where there is one alone."""
        self.check_parameters()

    def columns_read(self, bounded: tuple[str, ...] | None, column: str | None) -> tuple[str, ...] | None:
        """Return the one column; with none named, what there is."""
        return bounded if column is None else (column,)

    def command_choices(self, asked: dict[str, Any], public: Schema) -> dict[str, Any]:
        """Replace the rows of a sketch of clients by the contribution that is summed."""
        return {**asked, "rows": None, **self.task_choices(public)}

    def check_rows(self, table: Table, public: Schema, column: str | None, *, filled: bool) -> None:
        """Refuse several columns where none is named, and items that are not whole numbers."""
        if len(table.names) != 1:
            raise InputError("column", "none", f"one of {', '.join(table.names)}")
        self.check_table(table)

    def fit_named(self, release: Any, column: str | None) -> None:
        """Fit the release, which is of one column."""
        self.fit_release(release)

    def forecast(self, spec: ReleaseSpec, assumed: Assumptions | None = None) -> Forecast:
        """Return the noise in the moment, beside the largest that it can be; see `Commanded.forecast`."""
        task, n = design(spec), spec.clients
        variance, column = float(task.noise_variance[0]), task.schema.columns[0]
        if self.of == "items":
            sizes = {"all items different": float(n), "all items the same": float(n) ** 2}
            errors = [math.sqrt(item_moment_variance(size, task.sketch.rows, variance)) for size in sizes.values()]
        else:
            unit = max(abs(column.lower), abs(column.upper)) ** self.order
            sizes = {"largest sum": n * unit}
            errors = [unit * math.sqrt(variance)]
        table = NumberTable(
            "Expected of the moment",
            {"moment": list(sizes.values()), "std. error": errors},
            [f"{column.name}: {case}" for case in sizes],
            label="if",
            errors={"moment": "std. error"},
        )
        share = min(error / size for error, size in zip(errors, sizes.values(), strict=True))
        return Forecast(
            tasks=(task,),
            guarantee=task.guarantee,
            features=1,
            useful=share < GUESS,
            why=f"The standard error is {share:.2g} of the largest moment that {n:,} people can have.",
            assumed="nothing of people: the noise is that of the release, whatever is summed.",
            tables=[table],
            data={"column": column.name, "of": self.of, "order": self.order, "expected": table.to_dict()},
        )

    def compare_with(self, table: Table) -> NotPrivate:
        """Compare with the moment of the unclipped column."""
        exact = self.exact_moment(table.values)
        return NotPrivate.of({"exact_moment": exact}, self.release_.task.schema, table, [], f"not private: {exact:.6g}")

    def task_choices(self, public: Schema) -> dict[str, Any]:
        """Return the contribution that the clients send, and its encoding."""
        return {"contribution": self.statistic(public), "fractional_bits": FRACTIONAL_BITS}

    def statistic(self, public: Schema) -> Contribution:
        """Return what each client sends; a schema of one column is expected."""
        if len(public) != 1:
            raise InputError("X", f"columns {', '.join(public.names)}", "one")
        if self.of == "values":
            return PowerSum.of(public.columns[0], self.order)
        rows = DEFAULT_ROWS if self.rows is None else self.rows
        return ItemSketch.of(public.columns[0], rows, public_seed(self.simulation_seed))

    def exact_moment(self, X: ArrayLike) -> float:
        """Return the moment of data at hand, which is not private, in the form that `fit` takes."""
        values = _table_of(X).values[:, 0]
        if self.of == "values":
            return float(np.sum(values**self.order))
        counts = np.unique(values, return_counts=True)[1].astype(np.float64)
        return float(counts @ counts)

    def check_table(self, table: Table) -> None:
        """Refuse items that are not whole numbers."""
        if self.of == "items" and (fractions := np.flatnonzero(table.values[:, 0] % 1)).size:
            row = int(fractions[0])
            given = f"column {table.names[0]!r}, row {row + 1}: {table.values[row, 0]}"
            raise InputError("X", given, "a whole number", "an item")

    def fit_release(self, release: Release, column: str | int = -1) -> Self:
        """Fit a release of the same order and kind, or for order 1 and 2 of second moments: pure post-processing.

        Parameters
        ----------
        release : Release
            Of a power of one number, of items, or of second moments.
        column : str or int
            What to measure, of a release of second moments; the last column by default.
        """
        self.check_parameters()
        contribution = release.task.statistic
        noise_variance = float(release.noise_variance[0])
        measured = release.schema.columns[column_index(release.columns, column)]
        if self.of == "values" and isinstance(contribution, SecondMoments) and self.order <= 2:
            self.moment_, self.noise_sd_ = _of_second_moments(release, measured, self.order)
            self.standard_error_ = self.noise_sd_
        elif self.of == "values" and isinstance(contribution, PowerSum) and contribution.order == self.order:
            unit = max(abs(measured.lower), abs(measured.upper)) ** self.order
            self.moment_ = unit * float(release.sketch[0, 0])
            self.noise_sd_ = unit * math.sqrt(noise_variance)
            self.standard_error_ = self.noise_sd_
        elif self.of == "items" and isinstance(contribution, ItemSketch):
            sketch = release.sketch[0]
            self.moment_, self.standard_error_ = item_moment(float(sketch @ sketch), len(sketch), noise_variance)
            self.noise_sd_ = math.sqrt(noise_variance)
        else:
            expected = f"of {self.of} and order {self.order}"
            more = " (second moments would do too)" if self.of == "values" and self.order <= 2 else ""
            raise InputError("release", f"of {contribution!r} given, {expected} expected{more}")
        self.column_ = measured.name
        self.release_ = release
        return self

    def _estimates(self, level: float) -> Estimates:
        """Return the moment, with a normal interval."""
        reach = normal_quantile((1 + level) / 2) * self.standard_error_
        ends = np.array([[self.moment_ - reach, self.moment_ + reach]])
        return Estimates.of([self.column_], np.array([self.moment_]), np.array([self.standard_error_]), ends, level)

    def result(self, level: float = 0.95) -> Result:
        """Return the moment with its standard error and interval, as `dpmpc fit` and `dpmpc read` show it."""
        items, value, error = self.of == "items", self.moment_, self.standard_error_
        power = "" if self.order == 1 else f" to the power {self.order}"
        unit = "people squared" if items else f"units of {short(self.column_)}{power}"
        reach = normal_quantile((1 + level) / 2) * error
        ends = (f"{level:.0%} from", "to")
        columns = {"estimate": value, "std. error": error, ends[0]: value - reach, ends[1]: value + reach}
        table = NumberTable(
            "Estimate",
            {heading: [number] for heading, number in columns.items()},
            [f"sum of squared counts of {self.column_}" if items else f"sum of {self.column_}{power}"],
            label="what",
            notes=[f"In {unit}. The error is that of {'the noise and the sketch' if items else 'the noise'}."],
            errors={"estimate": "std. error"},
            intervals={f"{level:.0%} interval": ends},
        )
        return Result(
            model=self.kind,
            title=f"Sum of squared counts of {self.column_}" if items else f"Sum of {self.column_}{power}",
            tables=[table],
            data={
                "column": self.column_,
                "of": self.of,
                "order": self.order,
                "moment": value,
                "standard_error": error,
                "noise_sd": self.noise_sd_,
            },
            parameters=self.parameters,
            estimator=type(self).__name__,
            level=level,
            estimates=self._estimates,
            guarantee=self.release_.guarantee,
        )

    @property
    def parameters(self) -> dict[str, object]:
        """What the estimator was given, so that it can be made again."""
        return {"order": self.order, "of": self.of}

    def check_parameters(self) -> None:
        """Refuse parameters that no fit can use, before any data is read."""
        require_choice("of", self.of, OF)
        if self.of == "items" and self.order != 2:
            raise InputError("order", f"{self.order!r}", "2", "their sketch shows F_2 only", condition="for items")
        if self.of == "values":
            PowerSum(self.order)
            if self.rows is not None:
                raise InputError("rows", f"{self.rows!r}", "none", "their powers are summed", condition="for values")


def _table_of(X: Any) -> Table:
    """Make a table of one column, given as a vector or as a table."""
    table = Table.from_any(np.asarray(X)[:, None] if np.ndim(X) == 1 else X)
    if len(table.names) != 1:
        raise InputError("X", f"columns {', '.join(table.names)}", "one")
    return table


def _of_second_moments(release: Release, column: Column, order: int) -> tuple[float, float]:
    """Return the sum of x or x^2, x = offset + slope z, and the standard deviation of its noise.

    Of M_0j, with noise of variance v/2, and M_jj, with v (`SecondMoments`); n is exact, or M_00 with noise of variance
    v where rows have weights or lack values.
    """
    place = release.columns.index(column.name) + 1
    matrix, v = release.gram().matrix, float(release.noise_variance[0])
    n, corner = float(matrix[0, 0]), release.total_variance
    offset, slope = column.middle, column.half_width
    if order == 1:
        return n * offset + slope * float(matrix[0, place]), math.sqrt(slope**2 * v / 2 + offset**2 * corner)
    linear = 2 * offset * slope
    moment = n * offset**2 + linear * float(matrix[0, place]) + slope**2 * float(matrix[place, place])
    return moment, math.sqrt(linear**2 * v / 2 + slope**4 * v + offset**4 * corner)


def item_moment(squared_norm: float, rows: int, noise_variance: float) -> tuple[float, float]:
    """Return F2^ = ||z||^2 - k sigma_z^2 and its standard error with F_4 = 0."""
    estimate = squared_norm - rows * noise_variance
    return estimate, math.sqrt(item_moment_variance(max(estimate, 0.0), rows, noise_variance))


def item_moment_variance(f2: float, rows: int, noise_variance: float, f4: float = 0.0) -> float:
    """Return the variance of F2^ = ||z||^2 - k sigma_z^2: (2/k)(F_2^2 - F_4) + 4 sigma_z^2 F_2 + 2 k sigma_z^4."""
    return 2 / rows * (f2**2 - f4) + 4 * noise_variance * f2 + 2 * rows * noise_variance**2
