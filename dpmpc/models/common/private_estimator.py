"""What all private estimators share: the budget, the public choices, and the way from data to a release.

They are data classes, so that a parameter stands in one place: its fields are what scikit-learn calls parameters.

Promised: what is fitted is read from a release, so that `fit` costs the budget of one release, and `fit_release`
nothing. Not promised: secrecy from this process, in which `fit` plays clients and servers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.base.randomness import stream_for
from dpmpc.data import Column, Schema, Table
from dpmpc.data.data_checks import check_table, warn_of_bounds
from dpmpc.data.schemas import Bounds, schema
from dpmpc.models.common.commanded import Commanded
from dpmpc.models.common.estimator import Estimator, Regressor
from dpmpc.models.common.people import codebook_in, people_table
from dpmpc.models.common.releases import Ask, Releases
from dpmpc.models.common.scikit import rows_like_fitted, target_of
from dpmpc.privacy.specification import Mechanism, ReleaseSpec, TrustModel
from dpmpc.release import simulation
from dpmpc.release.planning import design
from dpmpc.release.release import Release


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class PrivateEstimator(Commanded, Estimator):
    """Base of the estimators that read a release, or make one from data at hand.

    Parameters
    ----------
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
    """

    epsilon: float = 1.0
    delta: float = 1e-6
    bounds: Bounds = None
    noise: str = "discrete-gaussian"
    servers: int = 3
    sharing: str = "additive"
    noise_by: str = "clients"
    copies: str = "auto"
    corrupt_clients: int = 0
    dropouts: int = 0
    coalition: str = "adaptive"
    calibration: str = "joint"
    threads: int = 1
    simulation_seed: int | None = None

    def task_choices(self, public: Schema) -> dict[str, Any]:
        """Return what a release of this estimator is, beyond budget, trust and mechanism, by flat names."""
        return {}

    def schema_of(self, names: tuple[str, ...]) -> Schema:
        """Return the public bounds of a table's columns."""
        return schema(self.bounds, names)

    def specification(self, public: Schema, clients: int) -> ReleaseSpec:
        """Return the release that `fit` makes of so many rows within these bounds."""
        flat = {
            name: getattr(self, name)
            for part in (TrustModel, Mechanism)
            for name in part.__struct_fields__
            if hasattr(self, name)
        }
        return ReleaseSpec.of(
            public,
            clients,
            self.epsilon,
            self.delta,
            simulation_seed=self.simulation_seed,
            **flat,
            **self.task_choices(public),
        )

    def release(self, table: Table) -> Release:
        """Simulate the clients who own the table's rows and the servers, in this process; return what they release."""
        public = self.schema_of(table.names)
        spec, ask = self._asked(table, public, self.bounds)
        return ask(design(spec))

    def releases(self, table: Table, public: Schema, given: Bounds = None) -> Releases:
        """Return the sums of a fit in rounds, which the same clients and servers make in this process.

        Parameters
        ----------
        table : Table
            One row per client.
        public : Schema
            The bounds of its columns.
        given : Schema, pair, dict, path or None
            The same as a user gave them, if they are to be judged too.
        """
        return Releases(*self._asked(table, public, given))

    def _asked(self, table: Table, public: Schema, given: Bounds = None) -> tuple[ReleaseSpec, Ask]:
        """Return what is released, and what makes a release of a task: clients who own the table's rows."""
        self._warn_if_copied()
        table.require_public_count()
        warn_of_bounds(public, table.values, given, stacklevel=4)
        spec = self.specification(public, len(table))
        stream = stream_for(spec.simulation_seed)
        return spec, lambda task: simulation.run(task, table.values, stream=stream, threads=self.threads)


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class PrivateLinearModel(PrivateEstimator):
    """Base of the estimators that read the Gram matrix of a release of rows or second moments.

    Parameters
    ----------
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
    sketch : {"auto", "osnap", "countsketch", "rademacher", "sum"}
        What is released: 'sum' adds up products of columns, the others are sketches by a public matrix. 'auto' is 'sum'
        while a client sends at most 8192 words, then 'osnap'.
    rows : int, optional
        Rows k of the sketch; by default what suits the purpose.
    sparsity : int, optional
        Rows s of the sketch that each client hits, with 'osnap'; 4 by default.
    radius : float, optional
        Clip rows, scaled by their bounds, to this L2 norm; no such limit by default.

    Examples
    --------
    A model of your own reads the Gram matrix of a release, and states nothing about shares or noise:

    >>> import numpy as np
    >>> from dpmpc import PrivateLinearModel
    >>> from dpmpc.data import Table
    >>> class Means(PrivateLinearModel):
    ...     def fit(self, X, y=None):
    ...         release = self.release(Table.from_any(X))
    ...         self.means_ = release.describe().means
    ...         return self
    >>> X = np.random.default_rng(0).uniform(-1, 1, (20_000, 2)) / 2 + [0.2, 0.5]
    >>> Means(epsilon=1.0, bounds=(-1, 1), simulation_seed=1).fit(X).means_.round(1)
    array([0.2, 0.5])
    """

    sketch: str = "auto"
    rows: int | None = None
    sparsity: int | None = None
    radius: float | None = None

    def task_choices(self, public: Schema) -> dict[str, Any]:
        """Return the public matrix and the clipping norm."""
        return {"sketch": self.sketch, "rows": self.rows, "sparsity": self.sparsity, "radius": self.radius}

    def release(self, table: Table) -> Release:
        """Do what `PrivateEstimator.release` does, and warn of constant columns."""
        check_table(table, public=schema(self.bounds, table.names))
        return super().release(table)


class LinearPredictor(Regressor):
    """Prediction with `coef_` (d,) and `intercept_`, both in the units of the columns.

    `score`, as scikit-learn defines it, is computed from the rows that it is given: on private rows it is not private.
    """

    coef_: Reals
    intercept_: float

    def predict(self, X: ArrayLike) -> Reals:
        """Predict the target, in its units, for rows (m, d) of the features, an array or a data frame."""
        return np.asarray(rows_like_fitted(self, X) @ self.coef_ + self.intercept_)


def table_of(estimator: PrivateEstimator, X: Any, y: Any, target: str = "y") -> Table:
    """Put features and target side by side; the features keep their names, or are called x0, x1, ..."""
    features = people_table(codebook_in(estimator.bounds), X).require_public_count()
    label = target_of(estimator, y, len(features))
    if target in features.names:
        raise InputError("X", f"a column named {target!r} is given, but that is the target's name")
    return Table.from_any(np.column_stack([features.values, label]), names=(*features.names, target))


def target_name(bounds: Bounds, y: Any) -> str:
    """Return what the target is called: "y", or a Series' own name where `bounds` has names and this is among them.

    Bounds that name neither are refused later, for the Series' own name.
    """
    own = getattr(y, "name", None)
    if not isinstance(own, str) or not own:
        return "y"
    names = _named(bounds)
    return own if names is not None and (own in names or "y" not in names) else "y"


def schema_of(bounds: Bounds, names: Sequence[str], target: Column) -> Schema:
    """Return the schema of features and, last, a target; `bounds` need not name the target."""
    named = _named(bounds)
    if named is not None and target.name in named:
        return schema(bounds, names)
    return schema(bounds, names[:-1]).with_target(target)


def _named(bounds: Bounds) -> tuple[str, ...] | None:
    """Return the columns that bounds name; None where they are the same for all."""
    if isinstance(bounds, str | Path):
        bounds = Schema.from_toml(bounds)
    return bounds.names if isinstance(bounds, Schema) else tuple(bounds) if isinstance(bounds, Mapping) else None
