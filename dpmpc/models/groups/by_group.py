"""What the estimators by group share: groups as a column of the bounds, and the release that `fit` makes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpmpc.base.errors import InputError
from dpmpc.data import Codebook, Schema, Table
from dpmpc.data.data_checks import check_table
from dpmpc.data.schemas import schema
from dpmpc.data.variables import Variable
from dpmpc.models.common.commanded import option
from dpmpc.models.common.private_estimator import PrivateEstimator
from dpmpc.release.release import Release


@dataclasses.dataclass(eq=False, repr=False)
class EstimatorByGroup(PrivateEstimator):
    """Base of the estimators that read second moments by group.

    A client's second moments go to the block of its group, and every other block gets zeros: servers and analyst learn
    nothing of who is in which group, and the noise of a block is that of a release without groups
    (theorem grouped-moments). What is small is the number of people in a block.

    Parameters
    ----------
    values : sequence of str
        What the groups are called, 2 to 50; public, and not read off the data.
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
    by : str
        What the values are values of.
    """

    values: Sequence[str] = ()
    _: dataclasses.KW_ONLY
    by: str = option(
        "group",
        "the column whose values are the groups, 2 to 50, which the bounds file lists; required",
        metavar="COL",
        required="groups",
    )

    weights = True

    def check_options(self, column: str | None, *, bounds: bool) -> None:
        """Refuse a fit without a target, or without a bounds file, which lists the groups."""
        super().check_options(column, bounds=bounds)
        if not bounds:
            raise InputError("bounds", "none", "a bounds file that lists the groups")

    def command_choices(self, asked: dict[str, Any], public: Schema) -> dict[str, Any]:
        """Add what second moments are summed by."""
        return {**asked, "by": self.by}

    def release_by_group(self, table: Table, groups: Any) -> Release:
        """Simulate the release of a table whose rows belong to groups."""
        check_table(table)
        variable = self._variable()
        labels = np.array(labels_of(groups, variable.categories, len(table)), dtype=object)
        shown = labels[:, None] == np.array(variable.indicated, dtype=object)
        names = tuple(column.name for column in variable.term.columns)
        return self.release(Table((*table.names, *names), np.column_stack([table.values, shown.astype(np.float64)])))

    def schema_of(self, names: tuple[str, ...]) -> Schema:
        """Return the bounds of the columns, with the groups as a category behind them."""
        variable = self._variable()
        plain = schema(self.bounds, names[: len(names) - len(variable.term.columns)])
        book = Codebook.of_columns(plain.columns)
        return Schema.of_codebook(Codebook((*book.variables, variable)), plain.outside)

    def task_choices(self, public: Schema) -> dict[str, Any]:
        """Return what second moments are summed by."""
        return {"by": self.by}

    def _variable(self) -> Variable:
        if isinstance(self.values, str) or len(self.values) < 2:
            raise InputError("values", f"{self.values!r}", "a list of the groups' public names, two or more,")
        return Variable(self.by, values=tuple(str(value) for value in self.values))


def labels_of(groups: Any, values: Sequence[str], count: int) -> list[str]:
    """Return the group of each row as text, or refuse what is none."""
    if groups is None:
        raise InputError("groups", "none", f"one of {', '.join(values)} for each row")
    labels = [str(label) for label in np.asarray(groups, dtype=object).reshape(-1).tolist()]
    if len(labels) != count:
        raise InputError("groups", f"{len(labels)}", count, "one for each row of X")
    known = set(values)
    for row, label in enumerate(labels, 1):
        if label not in known:
            raise InputError("groups", f"{label!r} given in row {row}, one of {', '.join(values)} expected")
    return labels
