"""Ridge regression, from one release (Burkhardt et al. 2025, section 5.1) or in rounds of sums.

`alpha="auto"` chooses the penalty from the release alone: choosing costs no privacy,
as the noise's law is public. Of a sum, weights are averaged over priors, each direction with its own penalty
(`dpmpc.models.common.linear_algebra.averaged_ridge`). Of a sketch of rows it is the penalty with the least estimated
prediction risk. Not promised: the best penalty, or a better one than 1.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from dpmpc.base.arguments import (
    PREDICT_ONLY,
    PRIVATE_BOUNDS,
    ROUNDS,
    number_or_auto,
    require_choice,
    require_fraction,
    whole_or_auto,
)
from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError, UtilityWarning
from dpmpc.data import Column, Table
from dpmpc.data.data_checks import check_table
from dpmpc.data.schemas import schema
from dpmpc.linear.contributions.noisy_gram import NoisyGram
from dpmpc.models.common.commanded import CommandedInRounds, NotPrivate, option
from dpmpc.models.common.inference import Inference, Observed, infer
from dpmpc.models.common.linear_algebra import LinearModel, exact_gram, ridge_of_sums, solve_ridge
from dpmpc.models.common.private_estimator import LinearPredictor, PrivateLinearModel, table_of, target_name
from dpmpc.models.common.release_forecast import forecast_release
from dpmpc.models.common.release_parts import chosen_columns, column_index, in_units, selection, source_of, unit_map
from dpmpc.models.common.releases import Releases
from dpmpc.models.common.scikit import name_features, remember_features, require_fitted
from dpmpc.models.common.summary import Summary
from dpmpc.models.regression.round_fits import Fitted, bounds_fields, bounds_tables, inference_of, rounds_text, take
from dpmpc.models.regression.rounds_forecast import forecast_rounds
from dpmpc.models.regression.usefulness import (
    linear_probability,
    linear_probability_of,
    public_warnings,
    why_not_useful,
    wide_bounds,
)
from dpmpc.models.rounds.assumed_columns import AssumedColumns
from dpmpc.models.rounds.fit import AUTO, fit_in_rounds, rounds_of, rounds_suit
from dpmpc.models.rounds.forecast import require_useful_intervals
from dpmpc.models.rounds.models import LeastSquares
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning import design
from dpmpc.release.planning.forecast import Assumptions, Forecast
from dpmpc.release.planning.prediction import Regression
from dpmpc.release.release import GramRelease, GramSource, Release, SelectedColumns
from dpmpc.release.results import NumberTable, Result
from dpmpc.release.results.number_tables import finite_or_none
from dpmpc.release.results.plot_data import Effects, PlotData

_CANDIDATES = np.concatenate([[0.0], np.geomspace(1e-5, 1e2, 57)])  # in units of the features' mean squared norm


def choose_alpha(
    release: Release | SelectedColumns, gram: NoisyGram, position: int, *, fit_intercept: bool, least: float
) -> float:
    """Return the penalty with the least estimated risk of a sketch of rows.

    The estimate is the sum over the rows of (a_r . c)^2 - v_r |c_x|^2, with the c that is fitted without row r.
    """
    features = np.delete(np.diag(gram.matrix), [0, position + 1])
    candidates = least + _CANDIDATES * max(float(features.mean()), 1.0)
    risks = [_risk(release, gram, position, alpha, fit_intercept) for alpha in candidates]
    return float(candidates[np.argmin(risks)])


def _risk(
    release: Release | SelectedColumns, gram: NoisyGram, position: int, alpha: float, fit_intercept: bool
) -> float:
    """Return the estimate for one penalty; what a fit without row r is follows from Sherman and Morrison."""
    model = solve_ridge(gram.matrix, position, alpha, fit_intercept=fit_intercept)
    c = np.insert(-np.array([model.intercept, *model.weights]), position + 1, 1.0)
    used = [column for column in range(len(c)) if column != position + 1 and (fit_intercept or column > 0)]
    penalised = gram.matrix[np.ix_(used, used)] + alpha * np.diag([float(column > 0) for column in used])
    Q = np.zeros_like(gram.matrix)  # (M + alpha I)^-1 at the features; dc = -Q dM c
    Q[np.ix_(used, used)] = np.linalg.inv(penalised)
    rows = np.column_stack([release.ones, release.sketch])
    moved = rows @ Q
    left_out = (rows @ c) / (1 - np.einsum("ij,ij->i", moved, rows))
    contrasts = c + moved * left_out[:, None]
    norms = np.einsum("ij,ij->i", contrasts[:, 1:], contrasts[:, 1:])
    return float(left_out @ left_out - release.noise_variance @ norms)


DEBIAS = ("guarded", "never")
_USUAL_ALPHA = 1.0  # the penalty of one release, where none is given
_BLOCK = 1 << 14  # rows that are judged at once: they stay in the cache
_CHOSEN_MARGIN = 0.5  # the estimated risk itself shies from a singular matrix, so that half the usual margin is safe


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What a fit is worth on rows at hand; not private."""

    best: LinearModel  # the fit with the least cost, in normalised units
    approximation_factor: float  # cost over the least cost, of the fit and of the predictor that ignores the features
    trivial_factor: float


@dataclasses.dataclass(eq=False, repr=False)
class RidgeRegression(LinearPredictor, PrivateLinearModel, CommandedInRounds):
    """Differentially private ridge regression, from one release or in rounds of sums.

    `fit` simulates clients and servers in this process and then calls `fit_release`; `fit_release` alone is
    post-processing of a release that came from anywhere.

    Parameters
    ----------
    alpha : float or "auto", optional
        Of one release: penalty on the squared coefficients of the normalised columns (each mapped from its bounds to
        [-1, 1]), by default 1. "auto" averages over penalties as the release suggests or, of a sketch of rows, chooses
        one. Rounds shrink by themselves.
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
    fit_intercept : bool
        Whether to fit an intercept. It costs no privacy: its column of the sketch is public.
    debias : {"guarded", "never"}
        Clients' noise adds B = sum of the rows' noise variances to the Gram diagonal, in expectation, and shrinks the
        fit. "guarded" takes B off where the smallest eigenvalue clearly exceeds the noise's fluctuation, and never
        elsewhere: an unguarded correction explodes.
    rounds : int or "auto"
        With 1 to 64 as many steering rounds follow the second moments, whose coefficients predict, and a second sum,
        for errors and intervals that assume no spread. "auto", the default, takes
        8, or 32 for at most 100,000 rows without intervals. It takes one release where only that has what is required:
        a penalty, a fit without an intercept, a named sketch, a radius, Shamir shares, weights, other noise, or more
        columns than a round has room for. With 0 there is always one release.
    intervals : bool
        Of a fit in rounds: whether there is the second sum. Without it most of the budget goes into prediction.
    private_bounds : bool
        Of a fit in rounds: whether 5% of the budget goes into counts that narrow the bounds of columns which use little
        of them (`dpmpc.models.rounds.private_bounds`). Values outside count as the new bounds.

    Attributes
    ----------
    coef_ : ndarray of float64, shape (d,)
        In the units of the columns.
    intercept_ : float
        In the target's units.
    feature_names_ : tuple of str
        The columns that `coef_` belongs to.
    n_features_in_ : int
        Their number.
    feature_names_in_ : ndarray of str, shape (d,)
        The same names, where the columns of X or of the release had their own names.
    guarantee_ : Guarantee
        Of all that was released.
    releases_ : tuple of Release or GramRelease
        What the servers opened: one release, or the second moments and the rounds in their order, of which each has
        the guarantee of a part.
    release_ : Release or GramRelease
        The one release; any other target and features can be fitted from it at no cost. There is none after a fit in
        rounds.
    selected_ : GramSource
        Its columns that were used: all, or the features in the order given and then the target.
    debiased_ : bool
        Whether B was taken off.
    alpha_ : float
        The penalty used: the chosen one, or one larger than `alpha` where the noise left the Gram matrix without a
        safe inverse. Where penalties were averaged, the one that shrinks the median direction as much.
    model_ : LinearModel
        The fit in normalised units.
    rounds_ : int
        After a fit in rounds: the steering rounds.
    verdict_ : str or None
        After a fit in rounds: why nothing was learned; the released mean is predicted then.
    no_interval_ : str or None
        After a fit in rounds: why there are no intervals.
    noise_part_ : float
        After a fit in rounds: the part of what the features may explain that noise hides. Clipping may hide more.
    private_bounds_ : tuple of PrivateBound
        After a fit in rounds: the bounds of each column that was counted, empty without `private_bounds`.

    Examples
    --------
    >>> import numpy as np
    >>> from dpmpc import RidgeRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, (50_000, 2))
    >>> y = 3 * X[:, 0] - X[:, 1] + rng.standard_normal(50_000)
    >>> bounds = {"x0": (0, 10), "x1": (0, 10), "y": (-15, 35)}  # publicly known, not read off the data
    >>> model = RidgeRegression(epsilon=1.0, delta=1e-6, bounds=bounds).fit(X, y)
    >>> model.coef_.round(0)
    array([ 3., -1.])
    """

    kind: ClassVar[str] = "ridge"  # as in `dpmpc fit --model`
    named = ("target", "the name of the column to predict; required")
    flags: ClassVar[Mapping[str, str]] = {
        "anyway": "with --rounds: fit although all intervals are expected to rest on the bounds"
    }
    assumes = ("spread", "explained")
    from_features = True
    weights = True
    # what rounds allow; all else is read from one release
    _allowed_in_rounds: ClassVar[tuple[tuple[str, tuple[Any, ...]], ...]] = (
        ("sketch", ("auto", "sum")),
        ("rows", (None, 1)),
        ("sparsity", (None, 1)),
        ("radius", (None,)),
        ("alpha", (None,)),
        ("fit_intercept", (True,)),
    )

    alpha: float | str | None = option(
        None,
        "penalty in normalised units (default 1); auto chooses it from the release",
        type=number_or_auto,
    )
    _: dataclasses.KW_ONLY
    fit_intercept: bool = option(True, "fit without a constant", flag="--no-intercept", rare=True)
    debias: str = "guarded"
    rounds: int | str = option(AUTO, f"{ROUNDS} (default auto)", type=whole_or_auto, metavar="R")
    intervals: bool = option(True, PREDICT_ONLY, flag="--predict-only")
    private_bounds: bool = option(False, PRIVATE_BOUNDS)

    def forecast(self, spec: ReleaseSpec, assumed: Assumptions | None = None) -> Forecast:
        """Return what a fit is expected to show; see `Commanded.forecast`."""
        given = assumed or Assumptions()
        if not self.in_rounds(spec):
            columns = AssumedColumns.of(spec.schema, given.spread)
            population, source = given.population, "--spread"
            if columns.stated:
                population, source = columns.population(given.population.explained), "--spread, or as the bounds state"
            return forecast_release(design(spec), Regression(), population, source=source)
        choices = {"intervals": self.intervals, "private_bounds": self.private_bounds}
        return forecast_rounds("ridge", spec, self.rounds, given, **choices)

    def fit(self, X: ArrayLike, y: ArrayLike) -> RidgeRegression:
        """Make a release of (X, y) under the estimator's budget and fit it.

        Parameters
        ----------
        X : array-like of shape (n, d), or a data frame
            One row per client.
        y : array-like of shape (n,)
            The target. In `bounds` it is called "y", or by its own name where it is a Series.

        Raises
        ------
        InputError
            If a value is not within bounds that refuse it. That depends on the data and no guarantee covers it: the
            message is for the holder of all rows.
        """
        self.check_parameters()
        table = table_of(self, X, y, target_name(self.bounds, y))
        public = schema(self.bounds, table.names)
        if not self.in_rounds(self.specification(public, len(table))):
            self.fit_release(self.release(table), target=table.names[-1])
        else:
            check_table(table, public=public)
            self._take_rounds(self.releases(table, public, self.bounds))
        self.warn_of_probabilities(table.values[:, -1])
        remember_features(self, X)
        return self

    def fit_release(
        self,
        release: Release | GramRelease,
        target: str | int = -1,
        *,
        features: Sequence[str] | None = None,
        group: str | None = None,
    ) -> Self:
        """Fit a release: pure post-processing.

        Parameters
        ----------
        release : Release or GramRelease
            Of rows or of second moments.
        target : str or int
            The column to predict, the last by default.
        features : sequence of str, optional
            The columns to predict it from, in the order of `coef_`; by default all others.
        group : str, optional
            Of a release by group: whose regression; by default that of all people together.
        """
        self.check_parameters()
        source = source_of(release, group)
        name = source.columns[column_index(source.columns, target)]
        self.selected_ = selected = source.select(chosen_columns(source.columns, name, features))
        position = selected.columns.index(name)
        noisy = selected.gram()
        gram = noisy if self.debias == "never" else noisy.debiased(position, fit_intercept=self.fit_intercept)
        self.debiased_ = gram is not noisy
        self.model_, self.alpha_ = self._solved(selected, gram, position)
        self.releases_: tuple[Any, ...] = (release,)
        self.guarantee_ = release.guarantee
        self._in_rounds: Fitted | None = None
        for name in (
            "rounds_",
            "verdict_",
            "no_interval_",
            "noise_part_",
            "private_bounds_",
        ):  # of a fit in rounds before this one
            vars(self).pop(name, None)
        self.target_ = selected.columns[position]
        self.feature_names_ = tuple(name for name in selected.columns if name != self.target_)
        name_features(self, self.feature_names_)
        self.coef_, self.intercept_ = self.in_units(self.model_)
        for text in self.why_not_useful():
            warnings.warn(text, UtilityWarning, stacklevel=2)
        return self

    @property
    def release_(self) -> Release | GramRelease:
        """The release that was fitted; a fit in rounds has several, and the first alone is not what it has cost."""
        if len(self.releases_) > 1:
            raise AttributeError(
                f"release_: a fit in rounds has made {len(self.releases_)} releases, `releases_`; what they promise "
                "together is `guarantee_`. With sketch='sum' there is one, from which any column can be fitted"
            )
        only: Release | GramRelease = self.releases_[0]
        return only

    def warn_of_probabilities(self, target: Reals) -> None:
        """Warn of a 0/1 target at hand, unless the release has shown it and `fit_release` has said so.

        Parameters
        ----------
        target : ndarray of float64, shape (n,)
            In its own units. Not private: for the holder of the rows.
        """
        if not linear_probability(self.selected_, self.target_):
            for text in linear_probability_of(target, self.target_):
                warnings.warn(text, UtilityWarning, stacklevel=3)

    def why_not_useful(self) -> list[str]:
        """Return what `fit_release` has warned of, from the release alone: numbers and remedies."""
        noise = []
        if self._in_rounds is None:  # else `take` says so: the release that this looks at is not what was fitted
            found = None if isinstance(self.releases_[0], GramRelease) else self.inference()
            requested = None if isinstance(self.alpha, str) else self.cost_alpha
            noise = why_not_useful(self.selected_, found, requested=requested, used=self.alpha_)
        public = public_warnings(self.selected_, self.target_, self.guarantee_)
        return [*noise, *public, *linear_probability(self.selected_, self.target_)]

    def inference(self, level: float = 0.95, *, target: str = "population", errors: str = "homoscedastic") -> Inference:
        """Compute standard errors and confidence intervals of the unpenalised coefficients, from the release alone.

        They do not depend on `alpha` or `debias`: the intervals are centred at an estimate without penalty and without
        the noise's bias, `Inference.coef`, and not at `coef_`. They are infinite where the noise is too strong.

        Parameters
        ----------
        level : float
            Nominal coverage of each interval, strictly between 0 and 1.
        target : {"population", "sample"}
            Whether to cover the regression of the population that the clients were drawn from, or of the clients
            themselves; of rows as they are encoded, clipped to the bounds, in either case.
        errors : {"homoscedastic", "any"}
            For a release of second moments: whether the residuals' variance is assumed not to depend on the features.
            A sketch of rows needs no such assumption, nor does a fit in rounds.
        """
        require_fitted(self)
        if self._in_rounds is not None:
            return inference_of(self._in_rounds, require_fraction("level", level))
        return infer(
            Observed.of(_opened(self.selected_, "inference")),
            self.selected_.columns.index(self.target_),
            fit_intercept=self.fit_intercept,
            level=level,
            target=target,
            errors=errors,
        )

    def summary(
        self,
        level: float = 0.95,
        *,
        groups: Mapping[str, Sequence[str]] | None = None,
        target: str = "population",
        errors: str = "homoscedastic",
    ) -> Summary:
        """Return the table of the regression: estimates, standard errors, tests, intervals, R^2; from the release.

        Its coefficients are those of `inference`, without penalty.

        Parameters
        ----------
        level : float
            Nominal coverage of each interval, strictly between 0 and 1.
        groups : mapping, optional
            Name -> features whose coefficients are tested together; all features always are.
        target, errors : str
            As in `inference`.
        """
        require_fitted(self)
        found = self.inference(level, target=target, errors=errors)
        return Summary.of(self.target_, found, groups, fitted=np.array([self.intercept_, *self.coef_]))

    def result(self, level: float = 0.95, *, groups: Mapping[str, Sequence[str]] | None = None) -> Result:
        """Return all that the release states of the model, as `dpmpc fit` and `dpmpc read` show it.

        Parameters
        ----------
        level : float
            Nominal coverage of each interval, strictly between 0 and 1.
        groups : mapping, optional
            Name -> features whose coefficients are tested together; all features always are.
        """
        summary = self.summary(level, groups=groups)
        found, fitted = summary.inference, dict(zip(self.feature_names_, self.coef_.tolist(), strict=True))
        hopeless, steered = summary.hopeless, self._in_rounds
        data: dict[str, object] = {"target": self.target_, "coefficients": fitted, "intercept": self.intercept_}
        warned = self.why_not_useful()
        if steered is None:
            alpha = float(self.alpha_)
            notes = [f"fitted: with penalty {alpha:g} in normalised units; these are the coefficients that predict."]
            data |= {"alpha": alpha, "debiased": self.debiased_}
        else:
            notes = ["fitted: shrunken as far as noise requires; these are the coefficients that predict."]
            notes.append(rounds_text(steered))
            data |= {
                "rounds": steered.rounds_,
                "noise_part": None if steered.noise_part_ is None else finite_or_none(steered.noise_part_),
                "verdict": steered.verdict_,
                "no_interval": steered.no_interval_,
                "private_bounds": bounds_fields(steered),
            }
            if steered.verdict_ is not None:
                data |= {"coefficients": None, "intercept": None}
                warned = [f"no coefficients can be trusted: {steered.verdict_}", *warned]
        data |= found.fields | {
            "informative": found.informative,
            "r_squared": finite_or_none(found.r_squared),
            "r_squared_standard_error": finite_or_none(found.r_squared_standard_error),
            "tests": summary.tested,
        }
        flagged = dict(zip(self.feature_names_, found.labels[1:], strict=True))
        estimated = zip(self.feature_names_, found.coef.tolist(), found.identified, strict=True)
        intervals = zip(self.feature_names_, found.confidence_intervals.tolist(), found.identified, strict=True)
        columns = self.selected_.task.schema.columns
        effects = Effects(
            self.target_,
            {flagged.get(column.name, column.name): column.upper - column.lower for column in columns},
            {flagged[name]: value for name, value, there in estimated if there} if found.informative else fitted,
            {flagged[name]: interval for name, interval, there in intervals if there},
            found.level,
            unpenalised=found.informative,
        )
        return Result(
            model=self.kind,
            title=f"Ridge regression of {self.target_}",
            tables=[*([] if hopeless else [summary.coefficients]), *bounds_tables(steered, level)],
            notes=[] if hopeless else [*notes, *wide_bounds(self.selected_, self.target_)],
            warnings=warned,
            verdict=summary.verdict if hopeless else None,
            plots={} if hopeless else {"coefficients": lambda: PlotData("effects", {"found": effects})},
            data=data,
            parameters=self.parameters,
            estimator=type(self).__name__,
            chosen=selection(self.releases_[-1].columns, self.target_, self.feature_names_),
            features=len(self.feature_names_),
            level=level,
            estimates=lambda level: self.summary(level).estimates,
            guarantee=self.guarantee_,
        )

    @property
    def parameters(self) -> dict[str, object]:
        """What the estimator was given, so that it can be made again."""
        if getattr(self, "_in_rounds", None) is not None:
            return {"rounds": self.rounds, "intervals": self.intervals, "private_bounds": self.private_bounds}
        return {
            "alpha": self.alpha if isinstance(self.alpha, str) else self.cost_alpha,
            "fit_intercept": self.fit_intercept,
        }

    def approximation_factor(self, X: ArrayLike, y: ArrayLike, model: LinearModel | None = None) -> float:
        """Return phi = cost of this fit / least cost on data at hand (not private; Burkhardt et al. 2025, section 6.2).

        Parameters
        ----------
        X, y : array-like
            Data in the columns' units; normalised and clipped as the clients do.
        model : LinearModel, optional
            Another model to judge, in normalised units.
        """
        return self.compare(self._rows(X, y), model).approximation_factor

    def trivial_factor(self, X: ArrayLike, y: ArrayLike) -> float:
        """Return phi of the predictor that ignores the features and knows the target's mean."""
        return self.compare(self._rows(X, y)).trivial_factor

    def compare(self, rows: Reals, model: LinearModel | None = None, weights: Reals | None = None) -> Comparison:
        """Compare this fit with the best and the trivial one on rows at hand; not private.

        Parameters
        ----------
        rows : ndarray of float64, shape (n, p)
            All columns of `selected_` in their order, in their units. They are normalised twice, a block at a time,
            which is quicker than to keep what they become.
        model : LinearModel, optional
            Another model to judge, in normalised units.
        weights : ndarray of float64, shape (n,), optional
            How much each row counts, in units of the largest weight.

        Raises
        ------
        InputError
            If the best fit is exact, so that phi is undefined.
        """
        target = self.selected_.columns.index(self.target_)

        counts = np.ones(len(rows)) if weights is None else weights

        def blocks() -> Iterator[tuple[Reals, Reals]]:
            for first in range(0, len(rows), _BLOCK):
                block = slice(first, first + _BLOCK)
                yield self.selected_.schema.normalise(rows[block], first=first), counts[block]

        gram = np.sum([exact_gram(Z, None if weights is None else w) for Z, w in blocks()], axis=0)
        best = solve_ridge(gram, target, self.cost_alpha, fit_intercept=self.fit_intercept)
        mean = float(gram[0, target + 1] / gram[0, 0]) if self.fit_intercept else 0.0
        models = (best, model or self.model_, LinearModel(np.zeros_like(best.weights), mean))
        slopes = np.insert(np.column_stack([each.weights for each in models]), target, -1.0, axis=0)
        intercepts = np.array([each.intercept for each in models])
        costs = self.cost_alpha * np.array([each.weights @ each.weights for each in models])
        for Z, w in blocks():
            costs += w @ np.square(Z @ slopes + intercepts)
        least, own, trivial = costs.tolist()
        if least == 0:
            raise InputError("y", "the optimal fit is exact, so the approximation factor is undefined")
        return Comparison(best, own / least, trivial / least)

    @property
    def cost_alpha(self) -> float:
        """Penalty in the cost that `approximation_factor` compares: `alpha`, but 0 for what aims at risk."""
        if isinstance(self.alpha, str) or getattr(self, "_in_rounds", None) is not None:
            return 0.0
        return _USUAL_ALPHA if self.alpha is None else float(self.alpha)

    def in_units(self, model: LinearModel) -> tuple[Reals, float]:
        """Convert a normalised model to coefficients (d,) and intercept in the columns' units."""
        return in_units(model, self.selected_.schema, self.selected_.columns.index(self.target_))

    def check_parameters(self) -> None:
        """Refuse parameters that no fit can use, before any data is read."""
        given: Any = self.alpha
        number = isinstance(given, Real) and not isinstance(given, bool)
        if given is not None and not (given == AUTO if isinstance(given, str) else number and 0 <= given < math.inf):
            raise InputError("alpha", given, f"a finite number >= 0 or {AUTO!r}")
        require_choice("debias", self.debias, DEBIAS)
        if self.rounds != AUTO and rounds_of(self.rounds, 1, intervals=self.intervals, least=0):
            for argument, allowed in self._allowed_in_rounds:
                if (given := getattr(self, argument)) not in allowed:
                    raise InputError(
                        f"{argument}", f"{given!r}", f"{allowed[0]!r}", condition=f"with rounds={self.rounds}"
                    )

    def rounds_for(self, spec: ReleaseSpec) -> int | None:
        """Return the steering rounds of a fit of this specification, or None where a choice requires one release.

        Rounds shrink by themselves, and are sums of moments and scores: a penalty, a sketch or a fit without an
        intercept is read from one release. "auto" takes one then; a number of rounds beside such a choice is an error.
        """
        free = self.alpha is None and self.fit_intercept and rounds_suit(spec)
        one = self.rounds == 0 or (self.rounds == AUTO and not free)
        rounds = None if one else rounds_of(self.rounds, spec.clients, intervals=self.intervals)
        if self.private_bounds and rounds is None:
            raise InputError("private_bounds", self.private_bounds, "False", condition="of a fit of one release")
        return rounds

    def check_options(self, column: str | None, *, bounds: bool) -> None:
        """Refuse parameters that no fit can use, and a fit without a target."""
        super().check_options(column, bounds=bounds)
        self.check_parameters()

    def in_rounds(self, spec: ReleaseSpec) -> bool:
        """Return whether a fit of this specification makes several sums."""
        return self.rounds_for(spec) is not None

    def require_useful(self, releases: Releases) -> str | None:
        """Refuse a fit whose intervals are all expected to rest on the bounds; else return how long they will be."""
        if not self.intervals:
            return None
        return require_useful_intervals(releases, self.rounds, private_bounds=self.private_bounds)

    def compare_with(self, table: Table) -> NotPrivate:
        """Compare coefficients and phi with the optimum and with the trivial predictor."""
        self.warn_of_probabilities(table.column(self.target_))
        public, rows, weights = self.releases_[-1].task.schema, table.values, None
        if public.weighted:  # in units of the largest weight
            rows, weights = rows[:, :-1], np.clip(rows[:, -1] / public.columns[-1].upper, 0.0, 1.0)
        judged = self.compare(rows, weights=weights)
        columns: dict[str, Sequence[float]] = {
            "private": self.coef_.tolist(),
            "not private": self.in_units(judged.best)[0].tolist(),
            "trivial": [0.0] * len(self.coef_),
        }
        return NotPrivate.of(
            {"approximation_factor": judged.approximation_factor, "trivial_factor": judged.trivial_factor},
            public,
            table,
            [NumberTable("Comparison with the data", columns, self.feature_names_)],
            f"cost / optimal cost (phi): private {judged.approximation_factor:.4g}, trivial predictor "
            f"{judged.trivial_factor:.4g}",
        )

    def fit_rounds(self, releases: Releases) -> Self:
        """Have all sums made by what answers them, servers that are processes or files, and fit them.

        Parameters
        ----------
        releases : Releases
            Whose columns are the features and, last, the target. Budget, bounds and trust are theirs, and the
            parameters of this estimator that name others are not used.
        """
        self.check_parameters()
        return self._take_rounds(releases)

    def round_model(self, target: Column) -> LeastSquares:
        """Return what is fitted in rounds, whatever the target's bounds are."""
        return LeastSquares()

    def _take_rounds(self, releases: Releases) -> Self:
        """Have all sums made, and set what they show."""
        model = self.round_model(releases.schema.columns[-1])
        fit = fit_in_rounds(model, releases, self.rounds, intervals=self.intervals, private_bounds=self.private_bounds)
        public, first = releases.schema, fit.first
        self.selected_, self.debiased_, self.alpha_ = first.select(first.columns), False, 0.0
        found = self._in_rounds = Fitted()
        take(found, fit, public, *unit_map(public, len(public) - 1), stacklevel=4)
        self.target_, self.feature_names_ = found.target_, found.feature_names_
        name_features(self, self.feature_names_)
        self.guarantee_, self.releases_, self.rounds_ = found.guarantee_, found.releases_, found.rounds_
        self.verdict_, self.no_interval_, self.noise_part_ = found.verdict_, found.no_interval_, found.noise_part_
        self.private_bounds_ = found.private_bounds_
        weights, intercept = fit.coefficients[1:], float(fit.coefficients[0])
        if fit.verdict is not None:  # the released mean is predicted
            weights, intercept = np.zeros(len(weights)), fit.mean
        self.model_ = LinearModel(weights, intercept)
        self.coef_, self.intercept_ = self.in_units(self.model_)
        for text in self.why_not_useful():
            warnings.warn(text, UtilityWarning, stacklevel=3)
        return self

    def _rows(self, X: ArrayLike, y: ArrayLike) -> Reals:
        """Join features and target in the order of `selected_`."""
        target = self.selected_.columns.index(self.target_)
        return np.insert(np.asarray(X, dtype=np.float64), target, np.asarray(y, dtype=np.float64), axis=1)

    def _solved(self, release: GramSource, gram: NoisyGram, target: int) -> tuple[LinearModel, float]:
        """Return the fit and its penalty: the one asked for, or a chosen or averaged one, and no less than is safe."""
        fit_intercept = self.fit_intercept
        if not isinstance(self.alpha, str):
            alpha = max(self.cost_alpha, gram.safe_alpha(target, fit_intercept=fit_intercept))
        elif release.summed:
            return ridge_of_sums(gram, target, float(release.noise_variance[0]), fit_intercept=fit_intercept)
        else:
            least = gram.safe_alpha(target, fit_intercept=fit_intercept, margin=_CHOSEN_MARGIN)
            opened = _opened(release, "alpha='auto'")
            alpha = choose_alpha(opened, gram, target, fit_intercept=fit_intercept, least=least)
        return solve_ridge(gram.matrix, target, alpha, fit_intercept=fit_intercept), alpha


def _opened(release: GramSource, what: str) -> Release | SelectedColumns:
    """Return a release whose rows can be read, or refuse the products of a closed sketch."""
    if isinstance(release, Release) or (isinstance(release, SelectedColumns) and release.opened):
        return release
    raise InputError("release", "products of a closed sketch", "an opened release", condition=f"for {what}")
