"""Fit the three regressions of Wu et al. 2022: DGM-OLS, BGM-OLS and RMGM-OLS.

They differ in the release (noisy rows, or noisy mixtures of rows) and in what they do about the noise's own second
moment in the Hessian. As in the paper there is no intercept in normalised units: columns are mapped from their
public bounds to [-1, 1], and 0, the middle of the bounds, is predicted where all features are in the middle of theirs.
`intercept_` is what that amounts to in the columns' units; nothing is fitted to it.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dpmpc.arguments import documented, require_finite, require_fraction
from dpmpc.bounds import check_table
from dpmpc.data_release.owner import DataOwner, mixing_of
from dpmpc.data_release.release import MixedRelease
from dpmpc.data_release.task import MixingTask, design
from dpmpc.errors import InputError
from dpmpc.estimators.base import LinearPredictor, chosen_columns, column_index, in_units
from dpmpc.estimators.inference import Inference, infer
from dpmpc.estimators.observed import Observed
from dpmpc.estimators.scikit import name_features
from dpmpc.estimators.summary import Summary
from dpmpc.linear_algebra import solve_ridge
from dpmpc.planning.designing import public_seed
from dpmpc.randomness import stream_for
from dpmpc.release import NoisyGram
from dpmpc.tables import Table, numeric_matrix


@dataclasses.dataclass(eq=False, repr=False)
class MixingRegression(LinearPredictor, BaseEstimator, abc.ABC):  # type: ignore[misc]
    """Base of the regressions on what parties with different columns release.

    `fit` simulates the parties in this process and then calls `fit_release`; `fit_release` alone is post-processing of
    a release that came from anywhere.

    Parameters
    ----------
    epsilon, delta : float
        Budget of the release that `fit` makes.
    ridge : float
        What is added to the diagonal of the Hessian, divided by n, in normalised units.
    guarantee : {"party", "subject"}
        Whose budget it is: that of a subject's columns at any one party, as in the paper, or of its whole row. The
        release's guarantee says both epsilons.
    calibration : {"analytic", "paper"}
        The tight curve of the Gaussian, or the paper's sigma = sqrt(2 ln(1.25/delta))/epsilon, up to epsilon = 1.
    bounds : Schema, pair, dict, path or None
        Public bounds of all columns; None where the data is already in [-1, 1].
    noise : {"discrete-gaussian", "gaussian"}
        The family; "gaussian" is floating-point noise and needs a seed: for simulations only.
    threads : int
        Threads of the sampler and of the kernel.
    simulation_seed : int, optional
        Simulations only: repeats signs and noise; the guarantee then says that nobody is protected.

    Attributes
    ----------
    coef_ : ndarray of float64, shape (d,)
        In the units of the columns.
    intercept_ : float
        In the target's units; from the bounds alone.
    feature_names_ : tuple of str
        The columns that `coef_` belongs to.
    target_ : str
        The column that is predicted.
    smallest_eigenvalue_ : float
        Smallest absolute eigenvalue of the Hessian in use, divided by n: near 0 the fit explodes.
    model_ : LinearModel
        The fit in normalised units.
    release_ : MixedRelease
        What the parties published; any other target can be fitted from it at no cost.
    """

    epsilon: float = 1.0
    delta: float = 1e-5
    _: dataclasses.KW_ONLY
    ridge: float = 1e-5
    guarantee: str = "party"
    calibration: str = "analytic"
    bounds: Any = None
    noise: str = "discrete-gaussian"
    threads: int = 1
    simulation_seed: int | None = None

    def fit(self, parties: Sequence[Any], target: str | int = -1) -> Self:
        """Simulate a release under the estimator's budget and fit it.

        Parameters
        ----------
        parties : sequence of array_like of shape (n, d_j), data frames or tables
            Each party's columns of the same n subjects, in the same order. Columns of arrays are called x0, x1, ..,
            counted over all parties.
        target : str or int
            The column to predict, by default the last of the last party.

        Raises
        ------
        InputError
            If a value is not within bounds that refuse it. That depends on the data and no guarantee covers it: the
            message is for whoever holds all rows.
        """
        self.check_parameters()
        tables = tables_of(parties)
        joined = Table(
            tuple(name for table in tables for name in table.names), np.hstack([table.values for table in tables])
        )
        check_table(joined, joined.names[column_index(joined.names, target)])
        return self.fit_release(self.release(tables), target)

    def release(self, tables: Sequence[Table]) -> MixedRelease:
        """Simulate the parties who own the tables' columns, in this process; return what they release."""
        task = self.task(tables)
        mixing = mixing_of(task, public_seed(self.simulation_seed))
        source = stream_for(self.simulation_seed)
        parts = [
            DataOwner(task, number, mixing, source.substream(number)).release(table.values, threads=self.threads)
            for number, table in enumerate(tables)
        ]
        return MixedRelease.join(task, parts)

    def task(self, tables: Sequence[Table]) -> MixingTask:
        """Return the public facts of the release of some tables."""
        return design(
            [table.names for table in tables],
            len(tables[0]),
            self.epsilon,
            self.delta,
            bounds=self.bounds,
            rows=self.mixed_rows(),
            protects=self.guarantee,
            calibration=self.calibration,
            noise=self.noise,
            simulation=self.simulation_seed is not None,
        )

    def fit_release(
        self, release: MixedRelease, target: str | int = -1, *, features: Sequence[str] | None = None
    ) -> Self:
        """Fit a release: pure post-processing.

        Parameters
        ----------
        release : MixedRelease
            With mixed rows for `RMGM`, with each subject's row for the others.
        target : str or int
            The column to predict, the last by default.
        features : sequence of str, optional
            The columns to predict it from, in the order of `coef_`; by default all others.
        """
        self.check_parameters()
        self.check_release(release)
        self.target_ = release.columns[column_index(release.columns, target)]
        names = chosen_columns(release.columns, self.target_, features)
        position, places = names.index(self.target_), [release.columns.index(name) for name in names]
        hessian = self.hessian(release)[np.ix_(places, places)]
        gram = np.pad(hessian, ((1, 0), (1, 0)))  # row and column 0 would belong to an intercept
        self.model_ = solve_ridge(gram, position, self.ridge, fit_intercept=False)
        penalised = np.delete(np.delete(hessian, position, 0), position, 1) + self.ridge * np.eye(len(hessian) - 1)
        self.smallest_eigenvalue_ = float(np.abs(np.linalg.eigvalsh(penalised)).min())
        self.release_ = release
        self.feature_names_ = tuple(name for name in names if name != self.target_)
        name_features(self, self.feature_names_)
        self.coef_, self.intercept_ = in_units(self.model_, release.task.schema.select(names), position)
        return self

    def inference(self, level: float = 0.95) -> Inference:
        """Compute standard errors and confidence intervals from the release alone (docs/mathematics.md, section 8.6).

        Their centres, `Inference.coef`, have neither penalty nor the noise's bias, and are not `coef_`: they belong to
        the regression without an intercept, in normalised units, in the population that the subjects were drawn from.
        They cover sampling, mixing and noise, and are the same whichever regression reads the release. Where noise
        hides the Hessian they are infinite.

        Parameters
        ----------
        level : float
            Nominal coverage of each interval, strictly between 0 and 1.
        """
        check_is_fitted(self)
        names = (*self.feature_names_, self.target_)
        return infer(
            observed_of(self.release_, names),
            len(names) - 1,
            fit_intercept=False,
            level=require_fraction("level", level),
            target="population",
            errors="homoscedastic",
        )

    def summary(self, level: float = 0.95, *, groups: Mapping[str, Sequence[str]] | None = None) -> Summary:
        """Return the table of the regression: estimates, standard errors, tests, intervals, R^2; from the release.

        Its coefficients are those of `inference`. As there is no intercept, R^2 is the explained share of the target's
        mean square about the middle of its bounds.

        Parameters
        ----------
        level : float
            Nominal coverage of each interval, strictly between 0 and 1.
        groups : mapping, optional
            Name -> features whose coefficients are tested together; all features always are.
        """
        return Summary.of(self.target_, self.inference(level), groups)

    def check_parameters(self) -> None:
        """Refuse parameters that no fit can use, before any data is touched."""
        require_finite("ridge", self.ridge, 0)

    def check_release(self, release: MixedRelease) -> None:
        """Refuse a release of the other kind."""
        if (release.task.rows is None) != (self.mixed_rows() is None):
            given = "one row for each subject" if release.task.rows is None else f"{release.task.rows} mixed rows"
            expected = "one row for each subject" if self.mixed_rows() is None else "mixed rows"
            raise InputError(f"release: {given} given, {expected} expected by {type(self).__name__}")

    @abc.abstractmethod
    def hessian(self, release: MixedRelease) -> NDArray[np.float64]:
        """Return the second moments of all columns, divided by n, as this regression reads them from a release."""

    def mixed_rows(self) -> int | str | None:
        """Return k or how to choose it; None where subjects' rows are not mixed."""
        return None


@documented()
class BGM(MixingRegression):
    """Biased Gaussian mechanism: noisy rows, and ordinary least squares on them (Wu et al. 2022, section 5.1).

    The noise adds 4 d_max sigma^2 to each eigenvalue of the Hessian, whatever n. At the usual budgets that is hundreds
    of times the data's own, so that the fit is about 0: a baseline, not a method.

    Parameters
    ----------
    **options
        The parameters of `MixingRegression`.
    """

    def hessian(self, release: MixedRelease) -> NDArray[np.float64]:
        """Return (1/n) (D^bgm)^T D^bgm."""
        return release.moments()


@documented()
class DGM(MixingRegression):
    """De-biased Gaussian mechanism (Wu et al. 2022, Algorithm 1): noisy rows, and their noise taken off the Hessian.

    Consistent, but eigenvalues of what is left may be near 0 even with a million subjects; the fit then explodes, and
    its error has no mean to speak of. `smallest_eigenvalue_` shows it.

    Parameters
    ----------
    **options
        The parameters of `MixingRegression`.
    """

    def hessian(self, release: MixedRelease) -> NDArray[np.float64]:
        """Return (1/n) (D^dgm)^T D^dgm - 4 d_max sigma^2 I (Algorithm 1, step 3 of training)."""
        return release.moments() - release.task.noise_variance * np.eye(len(release.columns))


@documented()
@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class RMGM(MixingRegression):
    """Random mixing prior to the Gaussian mechanism (Wu et al. 2022, Algorithm 2), and ordinary least squares.

    The parties mix the rows of all subjects with the same k x n signs before they add noise. Consistent if k grows more
    slowly than n, with a Hessian that is never indefinite.

    Parameters
    ----------
    rows : int or {"theory", "paper"}
        k, at least the number of features; "theory" takes the least expected error for a typical population, "paper"
        is floor(sqrt(n)/sigma) (`dpmpc.data_release.rows.choose_rows`). Trying several on the data needs budget for
        each.
    **options
        The parameters of `MixingRegression`.
    """

    rows: int | str = "theory"

    def hessian(self, release: MixedRelease) -> NDArray[np.float64]:
        """Return (1/n) (D^rmgm)^T D^rmgm; the noise's share vanishes as k/n does."""
        return release.moments()

    def mixed_rows(self) -> int | str:
        """Return k or how to choose it."""
        return self.rows


def observed_of(release: MixedRelease, names: Sequence[str]) -> Observed:
    """Return what inference reads of some columns: rows that each add up all subjects, or are one subject's each."""
    task, columns = release.task, tuple(names)
    rows = release.rows[:, [release.columns.index(name) for name in columns]]
    nothing, variance = np.zeros(len(rows)), np.full(len(rows), task.noise_variance)
    return Observed(
        schema=task.schema.select(columns),
        clients=task.subjects,
        gram=NoisyGram.of_rows(nothing, rows, variance, columns),
        noise_variance=variance,
        rows=np.column_stack([nothing, rows]),
        sampling=0.0 if task.rows is None else 1 - 1 / task.rows,
        mixtures=task.rows is not None,
        squared_norm=float(len(columns)),
    )


def tables_of(parties: Sequence[ArrayLike]) -> list[Table]:
    """Make a table of each party's columns; those of arrays are named x0, x1, .. over all parties.

    Raises
    ------
    InputError
        If there are fewer than two parties, or they do not all have the same number of rows.
    """
    tables: list[Table] = []
    width = 0
    for party in parties:
        names = None
        if isinstance(party, np.ndarray | list | tuple):
            names = [f"x{width + column}" for column in range(numeric_matrix("parties", party).shape[1])]
        tables.append(Table.from_any(party, names).require_public_count())
        width += len(tables[-1].names)
    if len(tables) < 2:
        raise InputError(f"parties: {len(tables)} given, at least 2 expected")
    for number, table in enumerate(tables):
        if len(table) != len(tables[0]):
            raise InputError(f"parties: party {number} has {len(table)} rows, {len(tables[0])} expected as in party 0")
    return tables
