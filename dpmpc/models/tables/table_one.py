"""Table 1 as scikit-learn has estimators: parameters, and `fit` on a table.

All that is read from a release is `dpmpc.models.tables.table_one_fit`; what `fit` adds is a release, simulated in this
process.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpmpc.base.errors import InputError
from dpmpc.data import Codebook, Schema, Table
from dpmpc.linear.contributions.cells import CellCounts
from dpmpc.models.common.private_estimator import PrivateEstimator
from dpmpc.models.tables.table_one_fit import TableOneFit


@dataclasses.dataclass(eq=False, repr=False)
class TableOne(TableOneFit, PrivateEstimator):
    """Differentially private Table 1: people, medians, quartiles, means and shares, by group, from one release.

    `fit` simulates clients and servers in this process and then calls `fit_release`; `fit_release` alone is
    post-processing of a release that came from anywhere, such as that of `dpmpc describe`. Any quantile, distribution
    or histogram can be read later at no further cost.

    Parameters
    ----------
    by : str, optional
        A category, or an answer yes or no, of a bounds file: everything is counted in each of its groups.
    columns : sequence of str, optional
        What is described; all columns with bounds by default.
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

    Attributes
    ----------
    by_ : str or None
        What is counted by.
    groups_ : tuple of str
        Its values.
    variables_ : dict
        Name -> number of its grid, and the variable.
    release_ : Release
        What the servers opened.

    Examples
    --------
    >>> import numpy as np
    >>> from dpmpc import TableOne
    >>> ages = np.random.default_rng(0).normal(50, 12, (50_000, 1))
    >>> table = TableOne(epsilon=1.0, delta=1e-6, bounds=(0, 100), simulation_seed=1).fit(ages)
    >>> bool(abs(table.quantile("x0", 0.5).value - 50) < 1)
    True
    """

    by: str | None = None
    columns: Sequence[str] | None = None

    def fit(self, X: Any, y: object = None) -> TableOne:
        """Make a release of a table under the estimator's budget and read it.

        Parameters
        ----------
        X : data frame, cells of a file, or array-like of shape (n, p)
            One row for each person. Texts, dates and missing values are read as a bounds file says.
        y : object
            Not used.
        """
        if self.bounds is None:
            raise InputError("bounds: none given, a bounds file or pairs (lower, upper) expected: cells follow from it")
        given = Schema.from_toml(self.bounds) if isinstance(self.bounds, str | Path) else self.bounds
        if isinstance(given, Schema) and isinstance(given.codebook, Codebook):
            table = given.codebook.only(self.read_columns(given.codebook)).encode(X, counted=True)
        else:
            table = Table.from_any(X)
            table = table if self.columns is None else table.select(self.columns)
        return self.fit_release(self.release(table))

    def read_columns(self, book: Codebook) -> Sequence[str]:
        """Return the variables of a codebook that are read: those described, and the one counted by."""
        if self.columns is None:
            return [variable.name for variable in book.variables]
        return [*self.columns, *([] if self.by is None or self.by in self.columns else [self.by])]

    def schema_of(self, names: tuple[str, ...]) -> Schema:
        """Return the public bounds of the columns, with the variables that they stand for."""
        public = super().schema_of(names)
        if isinstance(public.codebook, Codebook):
            return Schema.of_codebook(public.codebook.only(self.read_columns(public.codebook)), public.outside)
        return public

    def task_choices(self, public: Schema) -> dict[str, Any]:
        """Return the contribution that the clients send."""
        return {"contribution": CellCounts.of(public, self.by)}
