"""Fit the three regressions of Wu et al. 2022: DGM-OLS, BGM-OLS and RMGM-OLS.

What is read from a release is `dpmpc.owners.columns.fits`; what `fit` adds is the release, whose parties are simulated
here. As in the paper there is no intercept in normalised units: columns are mapped from their public bounds to [-1, 1],
and 0, the middle of the bounds, is predicted where all features are in the middle of theirs. `intercept_` is what that
amounts to in the columns' units; nothing is fitted to it.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dpmpc.base.errors import InputError
from dpmpc.base.randomness import stream_for
from dpmpc.data import Table
from dpmpc.data.data_checks import check_table
from dpmpc.data.table import numeric_matrix
from dpmpc.models.common.private_estimator import LinearPredictor
from dpmpc.models.common.release_parts import column_index
from dpmpc.owners.columns.fits import BGMFit, DGMFit, MixingFit, RMGMFit
from dpmpc.owners.columns.mixed_release import MixedRelease
from dpmpc.owners.columns.mixing_task import MixingTask, design
from dpmpc.owners.columns.owner import DataOwner, mixing_of
from dpmpc.release.planning.designing import public_seed


@dataclasses.dataclass(eq=False, repr=False)
class MixingRegression(LinearPredictor, MixingFit, abc.ABC):
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
        release's guarantee states both epsilons.
    calibration : {"analytic", "paper"}
        The tight curve of the Gaussian, or the paper's sigma = sqrt(2 ln(1.25/delta))/epsilon, up to epsilon = 1.
    bounds : Schema, pair, dict, path or None
        Public bounds of all columns; None where the data is already in [-1, 1].
    noise : {"discrete-gaussian", "gaussian"}
        The family; "gaussian" is floating-point noise and needs a seed: for simulations only.
    threads : int
        Threads of the sampler and of the kernel.
    simulation_seed : int, optional
        Simulations only: repeats signs and noise; the guarantee then states that no one is protected.

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
            message is for the holder of all rows.
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

    def mixed_rows(self) -> int | str | None:
        """Return k or how to choose it; None where subjects' rows are not mixed."""
        return None


class BGM(BGMFit, MixingRegression):
    """Biased Gaussian mechanism: noisy rows, and ordinary least squares on them (Wu et al. 2022, section 5.1).

    The noise adds 4 d_max sigma^2 to each eigenvalue of the Hessian, whatever n. At the usual budgets that is hundreds
    of times the data's own, so that the fit is about 0: a baseline, not a method.

    Parameters
    ----------
    epsilon, delta : float
        Budget of the release that `fit` makes.
    ridge : float
        What is added to the diagonal of the Hessian, divided by n, in normalised units.
    guarantee : {"party", "subject"}
        Whose budget it is: that of a subject's columns at any one party, as in the paper, or of its whole row. The
        release's guarantee states both epsilons.
    calibration : {"analytic", "paper"}
        The tight curve of the Gaussian, or the paper's sigma = sqrt(2 ln(1.25/delta))/epsilon, up to epsilon = 1.
    bounds : Schema, pair, dict, path or None
        Public bounds of all columns; None where the data is already in [-1, 1].
    noise : {"discrete-gaussian", "gaussian"}
        The family; "gaussian" is floating-point noise and needs a seed: for simulations only.
    threads : int
        Threads of the sampler and of the kernel.
    simulation_seed : int, optional
        Simulations only: repeats signs and noise; the guarantee then states that no one is protected.
    """


class DGM(DGMFit, MixingRegression):
    """De-biased Gaussian mechanism (Wu et al. 2022, Algorithm 1): noisy rows, and their noise taken off the Hessian.

    Consistent, but eigenvalues of what is left may be near 0 even with a million subjects; the fit then explodes, and
    its error has no finite mean. `smallest_eigenvalue_` shows it.

    Parameters
    ----------
    epsilon, delta : float
        Budget of the release that `fit` makes.
    ridge : float
        What is added to the diagonal of the Hessian, divided by n, in normalised units.
    guarantee : {"party", "subject"}
        Whose budget it is: that of a subject's columns at any one party, as in the paper, or of its whole row. The
        release's guarantee states both epsilons.
    calibration : {"analytic", "paper"}
        The tight curve of the Gaussian, or the paper's sigma = sqrt(2 ln(1.25/delta))/epsilon, up to epsilon = 1.
    bounds : Schema, pair, dict, path or None
        Public bounds of all columns; None where the data is already in [-1, 1].
    noise : {"discrete-gaussian", "gaussian"}
        The family; "gaussian" is floating-point noise and needs a seed: for simulations only.
    threads : int
        Threads of the sampler and of the kernel.
    simulation_seed : int, optional
        Simulations only: repeats signs and noise; the guarantee then states that no one is protected.
    """


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class RMGM(RMGMFit, MixingRegression):
    """Random mixing prior to the Gaussian mechanism (Wu et al. 2022, Algorithm 2), and ordinary least squares.

    The parties mix the rows of all subjects with the same k x n signs before they add noise. Consistent if k grows more
    slowly than n, with a Hessian that is never indefinite.

    Parameters
    ----------
    epsilon, delta : float
        Budget of the release that `fit` makes.
    ridge : float
        What is added to the diagonal of the Hessian, divided by n, in normalised units.
    guarantee : {"party", "subject"}
        Whose budget it is: that of a subject's columns at any one party, as in the paper, or of its whole row. The
        release's guarantee states both epsilons.
    calibration : {"analytic", "paper"}
        The tight curve of the Gaussian, or the paper's sigma = sqrt(2 ln(1.25/delta))/epsilon, up to epsilon = 1.
    bounds : Schema, pair, dict, path or None
        Public bounds of all columns; None where the data is already in [-1, 1].
    noise : {"discrete-gaussian", "gaussian"}
        The family; "gaussian" is floating-point noise and needs a seed: for simulations only.
    threads : int
        Threads of the sampler and of the kernel.
    simulation_seed : int, optional
        Simulations only: repeats signs and noise; the guarantee then states that no one is protected.
    rows : int or {"theory", "paper"}
        k, at least the number of features; "theory" takes the least expected error for a typical population, "paper"
        is floor(sqrt(n)/sigma) (`dpmpc.owners.columns.rows.choose_rows`). Trying several on the data needs budget for
        each.
    """

    rows: int | str = "theory"

    def mixed_rows(self) -> int | str:
        """Return k or how to choose it."""
        return self.rows


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
        raise InputError("parties", f"{len(tables)}", "at least 2")
    for number, table in enumerate(tables):
        if len(table) != len(tables[0]):
            raise InputError(
                "parties", f"party {number} has {len(table)} rows, {len(tables[0])} expected as in party 0"
            )
    return tables
