"""Ridge regressions by public group: one for each group, one of everybody, and fixed effects, from one release."""

from __future__ import annotations

import collections
import dataclasses
import warnings
from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from dpmpc.base.arguments import number_or_auto
from dpmpc.base.arrays import Reals
from dpmpc.base.errors import UNIDENTIFIED, InputError, UtilityWarning
from dpmpc.data import Codebook, Schema, Table
from dpmpc.data.table import frame_names
from dpmpc.linear.contributions.grouped_moments import GroupedMoments
from dpmpc.models.common.commanded import NotPrivate, option
from dpmpc.models.common.inference import Inference, stands_out
from dpmpc.models.common.linear_algebra import exact_gram, solve_ridge
from dpmpc.models.common.private_estimator import table_of, target_name
from dpmpc.models.common.release_parts import Blocks, selection
from dpmpc.models.common.scikit import name_features, remember_features, rows_like_fitted
from dpmpc.models.common.summary import EVEN
from dpmpc.models.groups.by_group import EstimatorByGroup, labels_of
from dpmpc.models.groups.fixed_effects import fixed_effects
from dpmpc.models.groups.group_forecasts import forecast_groups
from dpmpc.models.groups.grouped_summary import POOLED, GroupedSummary
from dpmpc.models.regression.ridge_regression import RidgeRegression
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning import design
from dpmpc.release.planning.forecast import Assumptions, Forecast
from dpmpc.release.planning.prediction import people_needed
from dpmpc.release.release import Release
from dpmpc.release.results import NumberTable, Result
from dpmpc.release.results.estimates import Estimates


@dataclasses.dataclass(eq=False, repr=False)
class GroupedRidgeRegression(EstimatorByGroup):
    """One differentially private ridge regression for each public group, from one release, at the price of one.

    Parameters
    ----------
    values : sequence of str
        What the groups are called, 2 to 50; public, and not read off the data.
    alpha : float or "auto"
        Penalty of each regression, as in `RidgeRegression`.
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

    Attributes
    ----------
    groups_ : tuple of str
        All groups.
    models_ : dict of RidgeRegression
        The regression of each group about which the release says anything.
    left_out_ : dict of str
        Why each of the others has none, from the release alone.
    sizes_ : ndarray of float64, shape (G,)
        How many people each group has, with noise: perhaps below 0, and of standard error `size_error_`.
    size_error_ : float
        The same for all groups.
    coef_ : ndarray of float64, shape (G, d)
        In the columns' units; NaN for groups without a model.
    intercept_ : ndarray of float64, shape (G,)
        In the target's units.
    pooled_ : RidgeRegression
        The regression of everybody together, by the sum of the blocks, whose noise has G times the variance.
    fixed_effects_ : Inference or None
        Common slopes with an intercept for each group (`dpmpc.models.groups.fixed_effects`).
    warnings_ : tuple of str
        What to be careful about in the regressions that there are, `pooled_` among them, from the release alone.
    feature_names_, n_features_in_, feature_names_in_, target_, release_
        As in `RidgeRegression`.

    Examples
    --------
    >>> import numpy as np
    >>> from dpmpc import GroupedRidgeRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, (60_000, 1))
    >>> ward = rng.choice(["north", "south"], 60_000)
    >>> y = np.where(ward == "north", 3, 1) * X[:, 0] + rng.standard_normal(60_000)
    >>> bounds = {"x0": (0, 10), "y": (-5, 35)}  # publicly known, not read off the data
    >>> model = GroupedRidgeRegression(["north", "south"], bounds=bounds).fit(X, y, groups=ward)
    >>> model.coef_.round(0)
    array([[3.],
           [1.]])
    """

    kind: ClassVar[str] = "grouped-ridge"  # as in `dpmpc fit --model`
    example = "--target score --by town"
    assumes = ("spread", "explained")
    from_features = True
    named = ("target", "the name of the column to predict; required")
    alpha: float | str = option(
        1.0, "penalty in normalised units (default 1); auto chooses it from the release", type=number_or_auto
    )

    def fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> GroupedRidgeRegression:
        """Make a release of (X, y) by group under the estimator's budget and fit it.

        Parameters
        ----------
        X : array-like of shape (n, d), or a data frame
            One row per client.
        y : array-like of shape (n,)
            The target. In `bounds` it is called "y", or by its own name where it is a Series.
        groups : array-like of shape (n,)
            The group of each client, one of `values`.

        Raises
        ------
        InputError
            If a client's group is not among `values`. Like all that is stated of single rows, the message is for
            whoever holds them.
        """
        RidgeRegression(self.alpha).check_parameters()
        table = table_of(self, X, y, target_name(self.bounds, y))
        self.fit_release(self.release_by_group(table, groups), target=table.names[-1])
        remember_features(self, X)
        return self

    def _ridge(self) -> RidgeRegression:
        """Return the estimator of one group, or of everybody, which predicts too."""
        return RidgeRegression(self.alpha)

    def predict(self, X: ArrayLike, groups: ArrayLike | None = None) -> Reals:
        """Predict the target by each row's own group; NaN, with a warning, where that has no model.

        Parameters
        ----------
        X : array-like of shape (m, d), or a data frame
            The features.
        groups : array-like of shape (m,)
            The group of each row. ``pooled_.predict(X)`` needs none.
        """
        # a release by group has no variables but its groups: the bounds say how a data frame is coded
        rows = rows_like_fitted(self, X, None if frame_names(X) is None else self.bounds)
        labels = labels_of(groups, self.groups_, len(rows))
        places = np.array([self.groups_.index(label) for label in labels], dtype=np.intp)
        lacking = sorted({label for label in labels if label not in self.models_})
        if lacking:
            warnings.warn(f"no model of {', '.join(lacking)}: NaN is predicted there", UtilityWarning, stacklevel=2)
        return np.asarray(np.sum(rows * self.coef_[places], axis=1) + self.intercept_[places])

    def check_options(self, column: str | None, *, bounds: bool) -> None:
        """Refuse parameters that no fit can use, and a fit without a target or groups."""
        super().check_options(column, bounds=bounds)
        self._ridge().check_parameters()

    def check_rows(self, table: Table, public: Schema, column: str | None, *, filled: bool) -> None:
        """Refuse an unknown group or target, a target that tells the group, a table without features."""
        variable = public.codebook.variable(self.by) if isinstance(public.codebook, Codebook) else None
        if variable is not None and column in {one.name for one in variable.term.columns}:
            raise InputError("target", f"{column!r} given, which gives the group, another column expected")
        super().check_rows(table, public, column, filled=filled)
        if variable is not None and len(table.names) - len(variable.term.columns) - public.weighted < 2:
            raise InputError("target", f"{column!r} and the group are the only columns, at least one feature expected")

    def forecast(self, spec: ReleaseSpec, assumed: Assumptions | None = None) -> Forecast:
        """Return what a fit is expected to show; see `Commanded.forecast`."""
        return forecast_groups(design(spec), self.by, (assumed or Assumptions()).population)

    def compare_with(self, table: Table) -> NotPrivate:
        """Compare with the sizes of the groups and the regressions of the rows at hand."""
        counts, exact = self._exact(table)
        listed = (*self.feature_names_, "intercept")
        data: dict[str, object] = {
            "people": dict(zip(self.groups_, counts.tolist(), strict=True)),
            "coefficients": {
                group: dict(zip(listed, row.tolist(), strict=True))
                for group, row in zip(self.groups_, exact, strict=True)
                if np.isfinite(row).all()
            },
        }
        columns = {"people": counts.tolist(), **{name: exact[:, place].tolist() for place, name in enumerate(listed)}}
        shown = NumberTable("Coefficients of the data itself", columns, list(self.groups_), label=self.by_)
        return NotPrivate.of(data, self.release_.task.schema, table, [shown])

    def _estimates(self, level: float) -> Estimates:
        """Return the coefficients of each group that has a regression, one group after another."""
        parts = {group: model.summary(level).estimates for group, model in self.models_.items()}
        if not parts:
            return Estimates.of((), np.zeros(0), np.zeros(0), np.zeros(0), level)
        return Estimates.of(
            [f"{group}: {name}" for group, part in parts.items() for name in part.names],
            np.concatenate([part.values for part in parts.values()]),
            np.concatenate([part.errors for part in parts.values()]),
            np.concatenate([part.intervals for part in parts.values()]),
            level,
            p_values=np.concatenate([part.p_values for part in parts.values()]),
        )

    def _exact(self, table: Table) -> tuple[Reals, Reals]:
        """Return the size (G,) of each group, and its coefficients and intercept (G, d + 1); NaN where undetermined."""
        task = self.release_.task
        assert isinstance(task.statistic, GroupedMoments)
        Z = task.schema.normalise(table.values)
        own = task.statistic.group_of(Z)
        weights = (1 + Z[:, -1]) / 2 if task.statistic.weighted else np.ones(len(Z))
        names = self.pooled_.selected_.columns
        z, target = Z[:, [task.schema.index(name) for name in names]], names.index(self.target_)
        counts, found = np.zeros(len(self.groups_)), np.full((len(self.groups_), len(names)), np.nan)
        for group in range(len(counts)):
            gram = exact_gram(z[own == group], weights[own == group])
            counts[group] = gram[0, 0]
            if np.linalg.matrix_rank(np.delete(np.delete(gram, target + 1, 0), target + 1, 1)) == len(names):
                units, intercept = self.pooled_.in_units(solve_ridge(gram, target, 0.0))
                found[group] = [*units, intercept]
        return counts, found

    def fit_release(self, release: Release, target: str | int = -1, *, features: Sequence[str] | None = None) -> Self:
        """Fit a release by group: pure post-processing.

        Parameters
        ----------
        release : Release
            Of second moments by group; `values` and `by` are its own.
        target : str or int
            The column to predict, the last by default.
        features : sequence of str, optional
            The columns to predict it from, in the order of `coef_`; by default all others.
        """
        everybody = Blocks(release)
        self.release_, self.groups_, self.by_ = release, everybody.groups, everybody.by
        self.sizes_, self.size_error_ = everybody.sizes()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UtilityWarning)  # they are told together, below
            self.pooled_ = self._ridge().fit_release(release, target, features=features)
            fitted = {
                group: self._ridge().fit_release(release, target, features=features, group=group)
                for group in self.groups_
            }
        self.models_ = {group: model for group, model in fitted.items() if model.inference().informative}
        self.left_out_ = {
            group: self._why_left_out(place, fitted[group])
            for place, group in enumerate(self.groups_)
            if group not in self.models_
        }
        self.fixed_effects_ = fixed_effects(release, target, features=features)
        self.target_, self.feature_names_ = self.pooled_.target_, self.pooled_.feature_names_
        name_features(self, self.feature_names_)
        nothing = np.full(len(self.feature_names_), np.nan)
        self.coef_ = np.array([self.models_[g].coef_ if g in self.models_ else nothing for g in self.groups_])
        self.intercept_ = np.array([self.models_[g].intercept_ if g in self.models_ else np.nan for g in self.groups_])
        self.warnings_ = self._why_not_useful()
        absent = [f"{self.by_} = {group}: no regression, {text}" for group, text in self.left_out_.items()]
        for text in (*self.warnings_, *absent):
            warnings.warn(text, UtilityWarning, stacklevel=2)
        return self

    def summary(self, level: float = 0.95) -> GroupedSummary:
        """Return people and coefficients of each group beside those of everybody, with standard errors and intervals.

        Parameters
        ----------
        level : float
            Nominal coverage of each interval, strictly between 0 and 1.
        """
        return GroupedSummary(
            target=self.target_,
            by=self.by_,
            groups=self.groups_,
            sizes=self.sizes_,
            size_error=self.size_error_,
            found={group: model.inference(level) for group, model in self.models_.items()},
            left_out=self.left_out_,
            pooled=self.pooled_.inference(level),
            fixed=fixed_effects(self.release_, self.target_, features=self.feature_names_, level=level),
            weighted=Blocks(self.release_).weighted,
        )

    def result(self, level: float = 0.95) -> Result:
        """Return all that the release states of the regressions, as `dpmpc fit` and `dpmpc read` show it.

        Parameters
        ----------
        level : float
            Nominal coverage of each interval, strictly between 0 and 1.
        """
        summary, count = self.summary(level), len(self.groups_)
        groups: dict[str, dict[str, object]] = {}
        for group, size in zip(self.groups_, self.sizes_.tolist(), strict=True):
            people: dict[str, object] = {"people": size, "people_standard_error": self.size_error_}
            model = self.models_.get(group)
            groups[group] = people | ({"left_out": self.left_out_[group]} if model is None else _fields(model, level))
        notes = [
            "Estimates are without penalty; each group has the noise of a release without groups, and the sum of all "
            f"{count}, which the pooled regression reads, {count} times its variance. {EVEN}",
            *(f"{text[:1].upper()}{text[1:]}." for text in self.warnings_),
        ]
        return Result(
            model=self.kind,
            title=f"Ridge regressions of {self.target_} by {self.by_}",
            tables=summary.tables,
            notes=notes,
            warnings=self.warnings_,
            verdict=None if summary.informative else UNIDENTIFIED,
            data={
                "target": self.target_,
                "by": self.by_,
                "confidence_level": level,
                "groups": groups,
                "pooled": _fields(self.pooled_, level),
                "fixed_effects": None if summary.fixed is None else _fixed(summary.fixed, len(self.feature_names_)),
                "differences": summary.tested,
                "random_effects": {name: one.to_dict() for name, one in summary.random_effects.items()},
                "warnings": list(self.warnings_),
            },
            parameters=self.parameters,
            estimator=type(self).__name__,
            chosen=selection(Blocks(self.release_).columns, self.target_, self.feature_names_),
            features=len(self.feature_names_),
            level=level,
            estimates=self._estimates,
            guarantee=self.release_.guarantee,
        )

    @property
    def parameters(self) -> dict[str, object]:
        """What the estimator was given, so that it can be made again."""
        return {"alpha": self.alpha}

    def _why_left_out(self, place: int, model: RidgeRegression) -> str:
        """Say of a group why there is no regression, and how many people it would take."""
        block, size = model.selected_, self.sizes_[place]
        needed = people_needed(block.task, len(block.columns), float(block.noise_variance[0]))
        book = block.task.schema.codebook
        unit = ", weights in units of the largest" if isinstance(book, Codebook) and book.weight is not None else ""
        found = f"{round(size):,} found{unit}, standard error {self.size_error_:,.0f}"
        if not stands_out(size, self.size_error_**2):
            short = "too few people"
        elif needed is None or size < needed:
            short = "too much noise for its people"
        else:
            return (
                f"its features vary too little: {found}, and about {needed:,} would do if they varied as plans assume; "
                "one of them is nearly the same throughout the group, or follows from the others there"
            )
        return f"{short}: {found}; " + (
            "no number of people would do at this delta" if needed is None else f"about {needed:,} people would do"
        )

    def _why_not_useful(self) -> tuple[str, ...]:
        """Return what is to be told of all regressions once, and of single ones with their names."""
        found = {f"{self.by_} = {group}": model.why_not_useful() for group, model in self.models_.items()}
        found[POOLED] = self.pooled_.why_not_useful()
        counts = collections.Counter(text for texts in found.values() for text in texts)
        shared = [text for text, count in counts.items() if count > 1]
        own = [f"{name}: {text}" for name, texts in found.items() for text in texts if text not in shared]
        return (*shared, *own)


def _fields(model: RidgeRegression, level: float) -> dict[str, object]:
    """Return one regression as plain data, without coefficients where the noise leaves none."""
    found = model.inference(level)
    if not found.informative:
        return {"coefficients": None, "intercept": None, **found.fields}
    return {
        "coefficients": dict(zip(model.feature_names_, model.coef_.tolist(), strict=True)),
        "intercept": model.intercept_,
        "alpha": float(model.alpha_),
        **found.fields,
    }


def _fixed(found: Inference, slopes: int) -> dict[str, object]:
    """Return common slopes, and the intercept of each group."""
    listed = {
        name: {"coefficient": value, "standard_error": error, "confidence_interval": interval}
        for name, value, error, interval in zip(
            found.feature_names,
            found.coef.tolist(),
            found.standard_errors.tolist(),
            found.confidence_intervals.tolist(),
            strict=True,
        )
    }
    names = found.feature_names
    return {
        "slopes": {name: listed[name] for name in names[:slopes]},
        "intercepts": {name: listed[name] for name in names[slopes:]},
    }
