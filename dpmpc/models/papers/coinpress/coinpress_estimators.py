"""CoinPress as scikit-learn estimators: mean, covariance and linear regression under a budget of zCDP.

`servers=None` is a trusted curator; a number runs every round among that many servers, so that nobody is trusted with
a row. `guarantee_` states which. Rows are never changed; a row that is not finite is refused.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dpmpc.base.arguments import require_choice, require_fraction, require_positive
from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError, UtilityWarning
from dpmpc.data import Table
from dpmpc.data.schemas import Bounds, schema
from dpmpc.models.common.estimator import Estimator, Regressor
from dpmpc.models.common.scikit import remember_features, rows_like_fitted, target_of
from dpmpc.models.papers.coinpress import algorithms, steps
from dpmpc.models.papers.coinpress.algorithms import LARGEST
from dpmpc.models.papers.coinpress.summation import Curator, Runner, Servers, Summation
from dpmpc.privacy import Guarantee, ZCDPBudget
from dpmpc.release import simulation as model

CALIBRATIONS = ("joint", "paper")
COVARIANCE_UPPER, REGRESSION_RADIUS, LABEL_UPPER = 10.0, 100.0, 100.0
COVARIANCES = ("identity", "estimate")
ALGORITHMS = ("repaired", "printed")


@dataclasses.dataclass(eq=False, repr=False)
class CoinPress(Estimator):
    """Base of the estimators.

    Parameters
    ----------
    rho : float
        Budget of `fit`, in zCDP; neighbouring rows are replaced, n is public.
    rounds : int
        t: the earlier rounds share a quarter of the budget, the last one has the rest.
    delta : float
        Where epsilon is read off, below 1/n.
    servers : int, optional
        Number of servers among which every round runs, as the next four parameters state; None for a trusted curator.
    sharing : {"additive", "shamir"}
        How a contribution is split: with additive shares all servers are needed and all but one may collude; with
        Shamir's fewer than half may collude and some may be missing.
    noise_by : {"clients", "servers"}
        Who adds the noise.
    corrupt_clients : int
        Most clients that may reveal their noise to the servers.
    run : callable, optional
        How servers run a task: by default in this process; ``dpmpc.protocols.coinpress.Networked()`` starts real ones.
    simulation_seed : int, optional
        Simulations only: repeats the noise; the guarantee then states that no one is protected.

    Attributes
    ----------
    guarantee_ : Guarantee
        Of all rounds together.
    ledger_ : ZCDPBudget
        What each round spent.
    """

    rho: float = 0.5
    rounds: int = 2
    _: dataclasses.KW_ONLY
    delta: float = 1e-6
    servers: int | None = None
    sharing: str = "additive"
    noise_by: str = "clients"
    corrupt_clients: int = 0
    run: Runner | None = None
    simulation_seed: int | None = None

    def _summation(self, clients: int) -> Summation:
        """Make the curator or the servers who will sum, with the whole budget unspent."""
        self._warn_if_copied()
        if self.delta * clients >= 1:
            raise InputError(
                "delta", f"{self.delta:g} given for {clients} clients, less than 1/n = {1 / clients:g} expected"
            )
        if self.servers is None:
            return Curator(self.rho, self.delta, self.simulation_seed)
        return Servers(
            self.rho,
            self.delta,
            self.simulation_seed,
            servers=self.servers,
            sharing=self.sharing,
            noise_by=self.noise_by,
            corrupt_clients=self.corrupt_clients,
            run=self.run or model.run,
        )

    def _keep(self, total: Summation, table: Table, X: Any) -> Self:
        self.guarantee_: Guarantee = total.guarantee()
        self.ledger_: ZCDPBudget = total.ledger
        self.feature_names_ = table.names
        remember_features(self, X)
        return self


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class PrivateMean(CoinPress):
    """Mean of rows whose covariance is at most the identity (CoinPress, MVMRec).

    Parameters
    ----------
    rho : float
        Budget of `fit`, in zCDP; neighbouring rows are replaced, n is public.
    rounds : int
        t: the earlier rounds share a quarter of the budget, the last one has the rest.
    delta : float
        Where epsilon is read off, below 1/n.
    servers : int, optional
        Number of servers among which every round runs, as the next four parameters state; None for a trusted curator.
    sharing : {"additive", "shamir"}
        How a contribution is split: with additive shares all servers are needed and all but one may collude; with
        Shamir's fewer than half may collude and some may be missing.
    noise_by : {"clients", "servers"}
        Who adds the noise.
    corrupt_clients : int
        Most clients that may reveal their noise to the servers.
    run : callable, optional
        How servers run a task: by default in this process; ``dpmpc.protocols.coinpress.Networked()`` starts real ones.
    simulation_seed : int, optional
        Simulations only: repeats the noise; the guarantee then states that no one is protected.
    center : float or array_like of float, shape (d,), optional
        c, the middle of the ball that is known to hold the mean; a number for all columns.
    radius : float, optional
        r, its radius; the papers take 10 sqrt(d) for standardised data. A public constant: privacy holds whatever it
        is, but a mean outside the ball is missed. That it may have been is stated by a `UtilityWarning`, from the
        estimate alone.
    bounds : Schema, pair, dict or path, optional
        Public bounds of the columns instead of centre and radius: their middle, and what reaches their corners. Rows
        are not clipped to them.

    Attributes
    ----------
    mean_ : ndarray of float64, shape (d,)
        In the columns' units.
    radius_ : float
        Norm of the error that Gaussian rows exceed with probability .01 a round.
    """

    center: ArrayLike | None = None
    radius: float | None = None
    bounds: Bounds = None

    def fit(self, X: ArrayLike, y: None = None) -> PrivateMean:
        """Estimate the mean of X (n, d)."""
        table = Table.from_any(X).require_public_count()
        center, radius = self._ball(table.names)
        total = self._summation(len(table))
        shares = steps.split(self.rho, self.rounds)
        rows = algorithms.bounded(table.values)
        self.mean_, self.radius_ = algorithms.mean(total, rows, table.names, center, radius, shares)
        distance = float(np.linalg.norm(self.mean_ - center))
        if max(self.radius_, radius - self.radius_) <= distance:
            warnings.warn(
                f"radius: the mean lies {distance:.3g} from the centre, at the edge of the ball of radius {radius:.3g} "
                "that is given to hold it, or beyond: it is probably wrong. Give a centre and a radius (center=, "
                "radius=), or bounds, from public knowledge that surely hold the mean, and units in which the "
                "covariance is at most the identity; Release.describe of second moments within bounds has means too",
                UtilityWarning,
                stacklevel=2,
            )
        return self._keep(total, table, X)

    def _ball(self, names: Sequence[str]) -> tuple[Reals, float]:
        """Return centre and radius of the ball that is stated to hold the mean."""
        if self.bounds is not None:
            if self.center is not None or self.radius is not None:
                raise InputError("bounds", "given together with center or radius, one of the two expected")
            public = schema(self.bounds, names)
            return public.offset, float(np.linalg.norm(public.slope))
        if self.center is None or self.radius is None:
            lacking = " and ".join(name for name in ("center", "radius") if getattr(self, name) is None)
            raise InputError(
                lacking,
                "none",
                "a centre and a radius of a ball that surely holds the mean, from public knowledge, or public bounds",
            )
        return _center(self.center, len(names)), require_positive("radius", self.radius, LARGEST)


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class PrivateCovariance(CoinPress):
    """Covariance of rows with mean 0 (CoinPress, MVCRec).

    Parameters
    ----------
    rho : float
        Budget of `fit`, in zCDP; neighbouring rows are replaced, n is public.
    rounds : int
        t: the earlier rounds share a quarter of the budget, the last one has the rest.
    delta : float
        Where epsilon is read off, below 1/n.
    servers : int, optional
        Number of servers among which every round runs, as the next four parameters state; None for a trusted curator.
    sharing : {"additive", "shamir"}
        How a contribution is split: with additive shares all servers are needed and all but one may collude; with
        Shamir's fewer than half may collude and some may be missing.
    noise_by : {"clients", "servers"}
        Who adds the noise.
    corrupt_clients : int
        Most clients that may reveal their noise to the servers.
    run : callable, optional
        How servers run a task: by default in this process; ``dpmpc.protocols.coinpress.Networked()`` starts real ones.
    simulation_seed : int, optional
        Simulations only: repeats the noise; the guarantee then states that no one is protected.
    upper : float, optional
        u: the covariance is at most u I; 10 sqrt(d) by default. A public constant: larger covariances are missed.
    calibration : {"joint", "paper"}
        "joint" adds noise to the symmetric matrix as a whole, so that entries off the diagonal have 1/sqrt(2) of the
        noise that "paper" gives to every entry; the guarantee is the same.

    Attributes
    ----------
    covariance_ : ndarray of float64, shape (d, d)
        Second moments about 0, without negative eigenvalues, in the columns' units.
    """

    rounds: int = dataclasses.field(default=3, kw_only=False)
    upper: float | None = None
    calibration: str = "joint"

    def fit(self, X: ArrayLike, y: None = None) -> PrivateCovariance:
        """Estimate the covariance of X (n, d)."""
        table = Table.from_any(X).require_public_count()
        upper = _or_default("upper", self.upper, COVARIANCE_UPPER * math.sqrt(len(table.names)))
        triangle = require_choice("calibration", self.calibration, CALIBRATIONS) == "paper"
        total = self._summation(len(table))
        shares = steps.split(self.rho, self.rounds)
        found = algorithms.covariance(
            total, algorithms.bounded(table.values), table.names, upper, shares, triangle=triangle
        )
        self.covariance_ = found.matrix
        return self._keep(total, table, X)


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class CoinPressRegression(CoinPress, Regressor):
    """Linear regression without intercept from private means (Ediger 2021, Algorithms 3 and 5).

    Features are Gaussian with mean 0, residuals have variance 1.

    Parameters
    ----------
    rho : float
        Budget of `fit`, in zCDP; neighbouring rows are replaced, n is public.
    rounds : int
        t of each mean or covariance: its earlier rounds share a quarter of its budget, its last one has the rest.
    delta : float
        Where epsilon is read off, below 1/n.
    servers : int, optional
        Number of servers among which every round runs, as the next four parameters state; None for a trusted curator.
    sharing : {"additive", "shamir"}
        How a contribution is split: with additive shares all servers are needed and all but one may collude; with
        Shamir's fewer than half may collude and some may be missing.
    noise_by : {"clients", "servers"}
        Who adds the noise.
    corrupt_clients : int
        Most clients that may reveal their noise to the servers.
    run : callable, optional
        How servers run a task: by default in this process; ``dpmpc.protocols.coinpress.Networked()`` starts real ones.
    simulation_seed : int, optional
        Simulations only: repeats the noise; the guarantee then states that no one is protected.
    covariance : {"identity", "estimate"}
        Whether the features' covariance is known to be I (Algorithm 3), or a third of the budget estimates it
        (Algorithm 5).
    radius : float, optional
        r: the norm of E[x y] of whitened features is at most r; 100 sqrt(d) by default.
    label_upper : float, optional
        Upper bound on the label's variance; 100 by default, 100 d with ``algorithm="printed"``.
    upper : float, optional
        Upper bound on the features' covariance, where it is estimated; 10 sqrt(d) by default.
    norm_share : float
        Part of the budget, after that of the covariance, which estimates ||beta||^2. The printed algorithm has its own.
    algorithm : {"repaired", "printed"}
        "printed" is Algorithm 3 word for word: 0.1 and 0.45 of the budget for ||beta||^2 and for the mean, so that 0.45
        remain unspent, and a first ball whose radius is not divided as the rows are. It is for comparisons.
    calibration : {"joint", "paper"}
        How much noise an estimated covariance gets: "joint" for the symmetric matrix as a whole, "paper" the same for
        every entry.

    Attributes
    ----------
    coef_ : ndarray of float64, shape (d,)
    squared_norm_ : float
        Estimate of the variance that the features explain: ||beta||^2 where their covariance is I.
    covariance_ : ndarray of float64, shape (d, d)
        Of the features, as used.
    """

    covariance: str = "identity"
    radius: float | None = None
    label_upper: float | None = None
    upper: float | None = None
    norm_share: float = 0.2
    algorithm: str = "repaired"
    calibration: str = "joint"

    def fit(self, X: ArrayLike, y: ArrayLike) -> CoinPressRegression:
        """Fit features X (n, d) and labels y (n,)."""
        table = Table.from_any(X).require_public_count()
        label = target_of(self, y, len(table))
        norm_share = require_fraction("norm_share", self.norm_share)
        printed = self._printed()
        total = self._summation(len(table))
        self.coef_, self.squared_norm_, found = algorithms.regression(
            total,
            table.values,
            label,
            table.names,
            self._prior(len(table.names)),
            rho=self.rho,
            shares=algorithms.PRINTED_SHARES if printed else (norm_share, 1 - norm_share),
            divide_radius=not printed,
            rounds=self.rounds,
            triangle=require_choice("calibration", self.calibration, CALIBRATIONS) == "paper",
        )
        self.covariance_ = np.eye(len(table.names)) if found is None else found.matrix
        self._keep(total, table, X)
        return self

    def predict(self, X: ArrayLike) -> Reals:
        """Predict the labels of rows (m, d)."""
        return np.asarray(rows_like_fitted(self, X) @ self.coef_)

    def _printed(self) -> bool:
        return require_choice("algorithm", self.algorithm, ALGORITHMS) == "printed"

    def _prior(self, columns: int) -> algorithms.Prior:
        """Fill in the defaults, which grow with sqrt(d)."""
        root = math.sqrt(columns)
        estimated = require_choice("covariance", self.covariance, COVARIANCES) == "estimate"
        if self.upper is not None and not estimated:
            raise InputError("upper", self.upper, "None", condition="unless covariance='estimate'")
        return algorithms.Prior(
            radius=_or_default("radius", self.radius, REGRESSION_RADIUS * root),
            label_upper=_or_default("label_upper", self.label_upper, LABEL_UPPER * (columns if self._printed() else 1)),
            upper=_or_default("upper", self.upper, COVARIANCE_UPPER * root) if estimated else None,
        )


def _or_default(name: str, value: float | None, default: float) -> float:
    return default if value is None else require_positive(name, value, LARGEST)


def _center(center: Any, columns: int) -> Reals:
    values = np.array(center, dtype=np.float64)
    if values.shape == ():
        values = np.full(columns, values)
    if values.shape != (columns,) or not np.isfinite(values).all():
        raise InputError("center", f"{center!r} given, {columns} finite numbers expected, one for each column")
    return values
