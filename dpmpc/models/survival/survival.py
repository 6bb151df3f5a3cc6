"""Survival curves and Cox regression as scikit-learn has estimators and lifelines names: parameters, and `fit`.

All that is read from a release is `dpmpc.models.survival.kaplan_meier_fit` and `dpmpc.models.survival.cox_fit`;
what `fit` adds is a release, simulated in this process.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from dpmpc.base.errors import InputError
from dpmpc.data import Codebook, Schema
from dpmpc.data.table import Cells
from dpmpc.data.variables import Variable
from dpmpc.models.common.private_estimator import PrivateEstimator
from dpmpc.models.survival.cox_fit import CoxFit
from dpmpc.models.survival.kaplan_meier_fit import KaplanMeierFit
from dpmpc.models.survival.survival_cells import (
    observed,
    require_patterns,
    require_until,
    survival_contribution,
    survival_schema,
)
from dpmpc.release.planning import design
from dpmpc.release.release import Release


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class PrivateSurvival(PrivateEstimator):
    """Base of the estimators that read times until an event.

    Parameters
    ----------
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
    time : str, optional
        The column of times, from 0 on: "time" by default, of a release its only number.
    event : str, optional
        The column that says whether the event happened then, yes or no, or 1 or 0; otherwise who it is was observed
        until then and no longer. "event" by default, of a release the last column that people are counted by.
    """

    counted_argument: ClassVar[str] = "features"  # what errors call `counted_by`
    time: str | None = None
    event: str | None = None

    def task_choices(self, public: Schema) -> dict[str, Any]:
        """Return the contribution that the clients send."""
        return {"contribution": survival_contribution(public)}

    def schema_of(self, names: tuple[str, ...]) -> Schema:
        """Return the public bounds of times, events and features."""
        return self.public_schema()

    def public_schema(self) -> Schema:
        """Return the public bounds of times, events and features, with a cell for times beyond the upper bound."""
        if self.bounds is None:
            raise InputError("bounds: none given, a bounds file or a pair (lower, upper) of times expected")
        called = self.counted_argument
        return survival_schema(self._given(), *self._time_and_event, self.counted_by(), called=called)

    @property
    def _time_and_event(self) -> tuple[str, str]:
        """The columns of times and events."""
        return self.time or "time", self.event or "event"

    def _given(self) -> Schema:
        """Return the bounds that were given, those of a pair for times beside an event of 1 or 0."""
        if isinstance(self.bounds, tuple):
            if self.counted_by():
                raise InputError(
                    f"bounds: {self.bounds} given beside {', '.join(self.counted_by())}, a bounds file or a Schema "
                    "expected, which lists the values"
                )
            time, event = self._time_and_event
            both = (Variable(time, *self.bounds), Variable(event, 0, 1))
            return Schema.of_codebook(Codebook(both))
        if isinstance(self.bounds, str | Path):
            return Schema.from_toml(self.bounds)
        if isinstance(self.bounds, Schema):
            return self.bounds
        raise InputError(f"bounds: {self.bounds!r} given, a bounds file, a Schema or a pair of times expected")

    def counted_by(self) -> Sequence[str]:
        """Return the columns by whose values people are counted, beside the event."""
        return ()

    def survival_release(self, X: Any, event_observed: Any, features: dict[str, Any]) -> Release:
        """Make a release of a table, or of times, events and features that are handed in one by one."""
        public = self.public_schema()
        if event_observed is not None:
            X = _Frame(dict(zip(self._time_and_event, (X, event_observed), strict=True)) | features)
        elif features:
            raise InputError("event_observed: none given beside groups, an array expected: 1 where the event happened")
        spec, ask = self._asked(observed(public, Cells.of(X)), public)
        return ask(design(spec))


class _Frame(dict[str, Any]):
    """Arrays by name, as `Cells.of` reads a data frame."""

    def __init__(self, columns: dict[str, Any]):
        arrays = {name: np.asarray(values) for name, values in columns.items()}
        lengths = {name: values.shape for name, values in arrays.items()}
        if any(len(shape) != 1 for shape in lengths.values()) or len(set(lengths.values())) != 1:
            raise InputError(
                f"{', '.join(columns)}: shapes {list(lengths.values())} given, one number for each person expected"
            )
        super().__init__(arrays)

    @property
    def columns(self) -> list[str]:
        """The names."""
        return list(self)

    def to_numpy(self) -> Any:
        """Return a row for each person."""
        return np.column_stack(list(self.values()))


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class KaplanMeier(KaplanMeierFit, PrivateSurvival):
    """Differentially private survival curves: medians, restricted means and a log-rank test, from one release.

    `fit` simulates clients and servers in this process and then calls `fit_release`; `fit_release` alone is
    post-processing of a release that came from anywhere, such as that of `dpmpc fit --model survival`.

    Parameters
    ----------
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
    time : str, optional
        The column of times, from 0 on: "time" by default, of a release its only number.
    event : str, optional
        The column that says whether the event happened then, yes or no, or 1 or 0; otherwise who it is was observed
        until then and no longer. "event" by default, of a release the last column that people are counted by.
    by : str, optional
        A category, or an answer yes or no, of a bounds file: a curve for each of its groups.
    until : float, optional
        The time up to which means are restricted; by default the last one that all curves reach.

    Attributes
    ----------
    survival_function_ : NumberTable
        The share that survives each time, by group; NaN beyond the end of a curve.
    confidence_interval_ : NumberTable
        Pointwise 95 % intervals of that.
    median_survival_time_ : float or dict
        The first time at which at most half are left; by group where there are some.
    groups_ : tuple of str
        The values of `by`.
    release_ : Release
        What the servers opened.

    Examples
    --------
    >>> import numpy as np
    >>> from dpmpc import KaplanMeier
    >>> rng = np.random.default_rng(0)
    >>> times, observed = rng.exponential(20, 20_000), rng.uniform(0, 60, 20_000)
    >>> model = KaplanMeier(epsilon=1.0, delta=1e-6, bounds=(0, 50), simulation_seed=1)
    >>> model = model.fit(np.minimum(times, observed), times <= observed)
    >>> bool(abs(model.median_survival_time_ - 20 * np.log(2)) < 1)
    True
    """

    counted_argument: ClassVar[str] = "by"
    by: str | None = None
    until: float | None = None

    def fit(self, durations: Any, event_observed: Any = None, groups: Any = None) -> Self:
        """Make a release under the estimator's budget and read it.

        Parameters
        ----------
        durations : array-like, data frame or cells of a file
            The times, or a table with all columns.
        event_observed : array-like, optional
            Whether the event happened then: 1 or 0, or as a bounds file says; none with a table.
        groups : array-like, optional
            The values of `by`; none with a table.
        """
        if groups is not None and self.by is None:
            raise InputError("groups: given without `by`, the name of their column in the bounds expected")
        features = {} if groups is None or self.by is None else {self.by: groups}
        return self.fit_release(self.survival_release(durations, event_observed, features))

    def public_schema(self) -> Schema:
        """Return what the base does, if means can be restricted as they are to be."""
        public = super().public_schema()
        if self.until is not None:
            (time,) = (one for one in self._given().variables if one.name == self._time_and_event[0])
            require_until(self.until, float(time.upper or 0.0))
        return public

    def counted_by(self) -> Sequence[str]:
        """Return the column of groups, if any."""
        return () if self.by is None else (self.by,)


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class CoxRegression(CoxFit, PrivateSurvival):
    """Differentially private Cox regression of times until an event on categories, from one release.

    `fit` simulates clients and servers in this process and then calls `fit_release`. People are counted by their
    pattern of values, 32 at most; a continuous feature has to be cut into categories, as values of a column.

    Parameters
    ----------
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
    time : str, optional
        The column of times, from 0 on: "time" by default, of a release its only number.
    event : str, optional
        The column that says whether the event happened then, yes or no, or 1 or 0; otherwise who it is was observed
        until then and no longer. "event" by default, of a release the last column that people are counted by.
    features : sequence of str, optional
        Categories, or answers yes or no, of a bounds file; all of them by default.

    Attributes
    ----------
    params_ : dict
        Value of a feature -> logarithm of its hazard over that of the feature's first value; NaN without a result.
    standard_errors_, hazard_ratios_, confidence_intervals_ : dict
        Of the same; intervals are those of `params_`.
    verdict_ : str or None
        Why there is no result.
    release_ : Release
        What the servers opened.

    Examples
    --------
    >>> import numpy as np
    >>> from dpmpc import CoxRegression, Schema
    >>> from dpmpc.data import Codebook, Variable
    >>> columns = (Variable("time", 0, 50), Variable("event", 0, 1), Variable("arm", values=("old", "new")))
    >>> rng = np.random.default_rng(0)
    >>> arm = rng.choice(["old", "new"], 20_000)
    >>> times, observed = rng.exponential(np.where(arm == "new", 30, 20)), rng.uniform(0, 60, 20_000)
    >>> bounds = Schema.of_codebook(Codebook(columns))
    >>> model = CoxRegression(epsilon=1.0, delta=1e-6, bounds=bounds, simulation_seed=1)
    >>> model = model.fit({"arm": arm}, np.minimum(times, observed), times <= observed)
    >>> bool(abs(model.hazard_ratios_["arm = new"] - 20 / 30) < 0.1)
    True
    """

    features: Sequence[str] | None = None

    def fit(self, X: Any, durations: Any = None, event_observed: Any = None) -> Self:
        """Make a release under the estimator's budget and read it.

        Parameters
        ----------
        X : data frame, mapping of arrays, or cells of a file
            The features, or with no further argument a table with all columns.
        durations, event_observed : array-like, optional
            The times, and whether the event happened then.
        """
        if (durations is None) != (event_observed is None):
            raise InputError("durations, event_observed: one given, both or none expected beside a table")
        if durations is None:
            return self.fit_release(self.survival_release(X, None, {}))
        features = {name: X[name] for name in self.counted_by() if name in X}
        return self.fit_release(self.survival_release(durations, event_observed, features))

    def public_schema(self) -> Schema:
        """Return what the base does, if there are not too many patterns."""
        public = super().public_schema()
        require_patterns(public.variables[1:-1])
        return public

    def counted_by(self) -> Sequence[str]:
        """Return the features: all with listed values by default, but the event."""
        if self.features is not None or not isinstance(self.bounds, str | Path | Schema):
            return tuple(self.features or ())
        return [one.name for one in self._given().variables if one.categories and one.name != self._time_and_event[1]]
