"""Frequency moments as scikit-learn has estimators: parameters, and `fit` on one column.

All that is read from a release is `dpmpc.models.components.components_and_moments`; what `fit` adds is a release,
simulated in this process.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Tags

from dpmpc.base.errors import InputError
from dpmpc.data import Schema, Table
from dpmpc.linear.contributions.contribution import Contribution
from dpmpc.linear.contributions.powers_and_items import ItemSketch, PowerSum
from dpmpc.models.common.private_estimator import PrivateEstimator
from dpmpc.models.components.components_and_moments import MomentFit
from dpmpc.release.planning.designing import public_seed

DEFAULT_ROWS = 256
FRACTIONAL_BITS = 24  # n rounding errors of 2^-25 stay below the noise for n up to 10^8


@dataclasses.dataclass(eq=False, repr=False)
class FrequencyMoment(MomentFit, PrivateEstimator):
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
        and the target "y", or as the Series that holds it. A path is that of a bounds file (docs/how-to/own-csv.md).
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
        Most clients that may tell the servers their noise.
    dropouts : int
        Most clients from whom anything may be missing in the end.
    coalition : {"adaptive", "static"}
        Whether corrupt clients may be chosen after the public matrix is known, or were fixed before.
    calibration : {"joint", "paper"}
        Noise for the whole release at once, or by the paper's bound, which takes more.
    threads : int
        Threads of the kernels.
    simulation_seed : int, optional
        Simulations only: repeats sketch, noise and shares; the guarantee then says that nobody is protected.
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

    _: dataclasses.KW_ONLY
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

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that a vector is expected: one number or item per client."""
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array, tags.input_tags.two_d_array = True, False
        return tags

    def task_choices(self, public: Schema) -> dict[str, Any]:
        """Return the contribution that the clients send, and its encoding."""
        return {"contribution": self.statistic(public), "fractional_bits": FRACTIONAL_BITS}

    def statistic(self, public: Schema) -> Contribution:
        """Return what each client sends; a schema of one column is expected."""
        if len(public) != 1:
            raise InputError(f"X: columns {', '.join(public.names)} given, one expected")
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
            raise InputError(f"X: {given} given, a whole number expected: an item")

    def check_parameters(self) -> None:
        """Refuse parameters that no fit can use, before any data is read."""
        super().check_parameters()
        if self.of == "values" and self.rows is not None:
            raise InputError(f"rows: {self.rows!r} given, none expected for values: their powers are summed")


def _table_of(X: Any) -> Table:
    """Make a table of one column, given as a vector or as a table."""
    table = Table.from_any(np.asarray(X)[:, None] if np.ndim(X) == 1 else X)
    if len(table.names) != 1:
        raise InputError(f"X: columns {', '.join(table.names)} given, one expected")
    return table
