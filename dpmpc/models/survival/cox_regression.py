"""Cox regression on categories, as it is read from a release of cells of times by their patterns and the event.

Promised: coefficients maximise Breslow's partial likelihood of the noisy cells, and their errors cover sampling, as the
sandwich of Lin and Wei does, and the noise. They are those of the delta method, measured and not proved. Intervals and
p-values add what the order within cells can change, to first order. Not promised: that hazards are proportional.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from dpmpc.base.arguments import names, require_fraction
from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.data import Schema
from dpmpc.models.common.commanded import option
from dpmpc.models.common.inference import chi2_tail, normal_quantile, stands_out
from dpmpc.models.survival.curves import NARROWER, too_wide
from dpmpc.models.survival.survival import PrivateSurvival
from dpmpc.models.survival.survival_cells import (
    FIRST,
    LAST,
    Members,
    SurvivalCells,
    require_patterns,
)
from dpmpc.release.release import Release
from dpmpc.release.results import NumberTable, Result
from dpmpc.release.results.estimates import Estimates
from dpmpc.release.results.plot_data import Effects, PlotData

_STEPS, _LONGEST, _CLOSE = 50, 1.0, 1e-10  # of Newton's method: how many, how long in a coefficient, when it is done
_FARTHEST = 5.0  # a log hazard ratio beyond is the noise's, or that of a category without an event
_SINGULAR = 1e-9  # of the largest eigenvalue: information below is none


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class CoxRegression(PrivateSurvival):
    """Differentially private Cox regression of times until an event on categories, from one release.

    `fit` simulates clients and servers in this process and then calls `fit_release`. People are counted by their
    pattern of values, 32 at most; a continuous feature must be cut into categories, as values of a column.

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
    time : str, optional
        The column of times, from 0 on: "time" by default, of a release its only number.
    event : str, optional
        The column that states whether the event happened then, yes or no, or 1 or 0; otherwise who it is was observed
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

    kind: ClassVar[str] = "cox"  # as in `dpmpc fit --model`
    example = "--time days --event died --features arm,age"
    features: Sequence[str] | None = option(
        None,
        "columns with listed values, between commas, up to 32 patterns; required",
        type=names,
        metavar="A,B",
        required="features",
    )

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
            raise InputError("durations, event_observed", "one", "both or none", condition="with a table")
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

    def fit_release(self, release: Release) -> Self:
        """Read a release of cells of times: pure post-processing."""
        self.release_ = release
        return self.read_cells(SurvivalCells.of(release, self.time, self.event))

    def read_cells(self, cells: SurvivalCells) -> Self:
        """Read cells, whatever they come from."""
        known = cells.features
        chosen = tuple(known) if self.features is None else tuple(self.features)
        for name in chosen:
            if name not in known:
                raise InputError(
                    "features",
                    f"{name!r} given, one of {', '.join(known) or 'none'} expected, by which the release counts",
                )
        if len(set(chosen)) < len(chosen):
            raise InputError("features", f"{', '.join(chosen)}", "different columns")
        require_patterns([known[name] for name in chosen])
        self.cells_, self.used_ = cells, chosen
        members = cells.members(chosen)
        #: Each coefficient: the feature and the value that is compared with the feature's first one.
        self.terms_ = [(name, value) for name in chosen for value in known[name].categories[1:]]
        self._design = np.array(
            [[float(label[chosen.index(name)] == value) for name, value in self.terms_] for label in members]
        )
        self.coef_ = np.full(len(self.terms_), math.nan)
        self.covariance_ = np.full((len(self.terms_), len(self.terms_)), math.nan)
        #: By how much the order within cells can move each coefficient.
        self.moved_ = np.full(len(self.terms_), math.nan)
        self.until_ = math.nan
        self.verdict_ = self._hidden() or self._fit(list(members.values()))
        return self

    @property
    def parameters(self) -> dict[str, object]:
        """What the estimator was given, so that it can be made again."""
        given = {"time": self.time, "event": self.event, "features": self.features and list(self.features)}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def errors_(self) -> Reals:
        """Standard errors of the coefficients."""
        return np.sqrt(np.diag(self.covariance_))

    @property
    def params_(self) -> dict[str, float]:
        """Logarithms of the hazard ratios by term; NaN where there is no result."""
        return dict(zip(self._names, self.coef_.tolist(), strict=True))

    @property
    def standard_errors_(self) -> dict[str, float]:
        """Their standard errors."""
        return dict(zip(self._names, self.errors_.tolist(), strict=True))

    @property
    def hazard_ratios_(self) -> dict[str, float]:
        """Hazard of each value, over that of the first value of its feature."""
        return dict(zip(self._names, np.exp(self.coef_).tolist(), strict=True))

    @property
    def confidence_intervals_(self) -> dict[str, tuple[float, float]]:
        """95 % intervals of `params_`."""
        return self.intervals()

    def intervals(self, level: float = 0.95) -> dict[str, tuple[float, float]]:
        """Return intervals of `params_`."""
        require_fraction("level", level)
        reach = normal_quantile((1 + level) / 2) * self.errors_ + self.moved_
        ends = zip((self.coef_ - reach).tolist(), (self.coef_ + reach).tolist(), strict=True)
        return dict(zip(self._names, ends, strict=True))

    def summary(self, level: float = 0.95) -> NumberTable:
        """Return coefficients, hazard ratios, intervals and tests as a table."""
        ends = np.array(list(self.intervals(level).values())).reshape(-1, 2)
        return NumberTable(
            f"Cox regression of {self.cells_.time.name} until {self.cells_.event.name}",
            {
                "coefficient": self.coef_.tolist(),
                "std. error": self.errors_.tolist(),
                "hazard ratio": np.exp(self.coef_).tolist(),
                "from": np.exp(ends[:, 0]).tolist(),
                "to": np.exp(ends[:, 1]).tolist(),
                "p": [chi2_tail(z**2, 1) for z in (np.maximum(np.abs(self.coef_) - self.moved_, 0) / self.errors_)],
            },
            list(self._names),
            label="value",
            notes=[
                f"From, to: {100 * level:g} % intervals of hazard ratios, each against the first value of its feature: "
                f"{', '.join(f'{name} = {self.cells_.features[name].categories[0]}' for name in self.used_)}. Errors "
                "cover sampling and the noise; they assume that hazards are proportional. Intervals and p hold for any "
                "order within cells."
            ],
            errors={"coefficient": "std. error"},
            intervals={"interval": ("from", "to")},
        )

    def result(self, level: float = 0.95) -> Result:
        """Return all of it, as `dpmpc fit` and `dpmpc read` show it."""
        require_fraction("level", level)
        told, time = self.verdict_ is None, self.cells_.time.name
        summary = self.summary(level)
        notes = [f"n = {self.cells_.estimates.people:,} in all, which is public."]
        if told:
            notes.append(f"Times are read up to {time} = {self.until_:g}: later too few people are at risk.")
            notes.append(self.cells_.order_in_words)
        return Result(
            model=self.kind,
            title=f"Hazards of {self.cells_.event.name} by {', '.join(self.used_)}",
            tables=[summary] if told else [],
            notes=notes,
            verdict=self.verdict_,
            plots={"hazard ratios": functools.partial(self._plot, level)} if told else {},
            data={
                "time": time,
                "event": self.cells_.event.name,
                "features": list(self.used_),
                "confidence_level": level,
                "until": self.until_ if told else None,
                "coefficients": summary.to_dict() if told else None,
                "verdict": self.verdict_,
            },
            parameters=self.parameters,
            estimator=type(self).__name__,
            level=level,
            estimates=self._estimates,
            guarantee=self._promised,
        )

    def _estimates(self, level: float) -> Estimates:
        """Return the log hazard ratios; intervals contain what the order within cells may move."""
        ends = list(self.intervals(level).values())
        return Estimates.of(self._names, self.coef_, self.errors_, np.array(ends), level)

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(f"{name} = {value}" for name, value in self.terms_)

    def _plot(self, level: float) -> PlotData:
        """Return hazard ratios with their intervals."""
        event, values = self.cells_.event.name, self.params_
        caption = f"By what factor the hazard of {event} differs from that of the first value of each feature."
        spans = dict.fromkeys(values, 1.0)
        found = Effects(event, spans, values, self.intervals(level), level, ratio="hazard", caption=caption)
        return PlotData("effects", {"found": found})

    def _hidden(self) -> str | None:
        """Return which values have too few people for a result, if any."""
        few = []
        for name in self.used_:
            for (value,), own in self.cells_.members([name]).items():
                people, error = self.cells_.people(own)
                if people < 0.5 or not stands_out(people, error**2):
                    few.append(f"{name} = {value}")
        return f"No result: too few people to distinguish from none: {', '.join(few)}." if few else None

    def _fit(self, members: list[Members]) -> str | None:
        """Solve U(b) = sum_kj d_kj (x_k - E_j) = 0 for Breslow's U, and return why that cannot be where it cannot."""
        at_risk, events = (
            np.array(one) for one in zip(*(self.cells_.hazards(own, passed=0.5) for own in members), strict=True)
        )
        pooled = np.logical_or.reduce(members)
        end = self.cells_.ends(pooled)
        total, error = self.cells_.events(pooled, end)
        if total <= max(4 * error, 0.5):
            return f"No result: too few events to distinguish from none: {round(total):,}, standard error {error:,.0f}."
        used = np.arange(at_risk.shape[1]) < end
        d = events.sum(axis=0) * used
        beta = np.zeros(self._design.shape[1])
        for _ in range(_STEPS):
            weight = at_risk * np.exp(self._design @ beta)[:, None]
            most = np.maximum(weight.sum(axis=0), 1.0)
            mean = self._design.T @ weight / most  # (p, J): E_j
            score = (events * used).sum(axis=1) @ self._design - mean @ d
            squares = np.einsum("kp,kq,kj,j->pq", self._design, self._design, weight, d / most)
            information = squares - (mean * d) @ mean.T
            values = np.linalg.eigvalsh(information)
            if not np.isfinite(values).all() or values[0] <= _SINGULAR * max(values[-1], 1.0):
                return "No result: the noise hides what the values of the features have to do with the event."
            step = np.linalg.solve(information, score)
            beta = beta + np.clip(step, -_LONGEST, _LONGEST)
            if np.abs(beta).max() > _FARTHEST:
                return f"No result: a log hazard ratio beyond {_FARTHEST:g}, as of a value with hardly an event."
            if np.abs(step).max() < _CLOSE:
                break
        else:
            return f"No result: Newton's method has not ended in {_STEPS} steps."
        apart = (self._design.T[:, :, None] - mean[:, None]) * used  # (p, K, J): x_k - E_j
        by_risk = -apart * (d / most) * np.exp(self._design @ beta)[:, None]
        gradients = self.cells_.gradient(members, apart, by_risk, passed=0.5)
        inner = self.cells_.estimates.covariance(self.cells_.grid, gradients)
        inverse = np.linalg.inv(information)
        covariance = inverse @ inner @ inverse
        moved = self._order(members, np.einsum("pq,qkj->pkj", inverse, by_risk)[..., :end])
        moved += np.abs(inverse @ (self._passing(members, beta, end) * d[:end])).sum(axis=1)
        wide = [too_wide(*one, 1.0) for one in zip(moved, np.sqrt(np.diag(covariance)), strict=True)]
        if any(wide):
            return (
                "No result: the order within cells could move a hazard ratio by more than a standard error: "
                f"{NARROWER}."
            )
        self.coef_, self.covariance_, self.moved_ = beta, covariance, moved
        self.until_ = float(self.cells_.times[end - 1])
        return None

    def _order(self, members: list[Members], by_risk: Reals) -> Reals:
        """Return by how much exits before all events of their cells, or after them, move each coefficient (p,)."""
        first, last = (
            np.array([self.cells_.hazards(own, away=away)[0][: by_risk.shape[-1]] for own in members])
            for away in (FIRST, LAST)
        )
        return np.asarray(np.einsum("pkj,kj->p", np.abs(by_risk), (last - first) / 2).clip(min=0.0))

    def _passing(self, members: list[Members], beta: Reals, end: int) -> Reals:
        """Return by how much E_j (p, J) in the middle of a cell can be off its mean over the cell's events.

        Those who have the event leave risk sets in step with the events. Between the ends of a cell E_j is a ratio of
        linear functions, so convex or concave, and its mean lies between its middle and the mean of its ends.
        """
        ends = []
        for passed in (0.0, 0.5, 1.0):
            at_risk = np.array([self.cells_.hazards(own, passed=passed)[0][:end] for own in members])
            weight = np.maximum(at_risk, 0.0) * np.exp(self._design @ beta)[:, None]
            ends.append(self._design.T @ weight / np.maximum(weight.sum(axis=0), 1.0))
        return np.asarray((ends[0] + ends[2]) / 2 - ends[1])

    def _exact(self, cells: SurvivalCells) -> tuple[dict[str, object], list[NumberTable], list[str]]:
        """Return coefficients."""
        model = CoxRegression(**self.parameters).read_cells(cells)  # type: ignore[arg-type]
        if model.verdict_ is not None:
            return {"coefficients": None}, [], [model.verdict_]
        return {"coefficients": model.summary().to_dict()}, [model.summary()], []
