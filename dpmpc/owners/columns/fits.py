"""The three regressions of Wu et al. 2022 as they are read from a release: DGM-OLS, BGM-OLS and RMGM-OLS.

They differ in the release (noisy rows, or noisy mixtures of rows) and in what they do about the noise's own second
moment in the Hessian. Nothing here makes a release, so that whoever only reads one needs no scikit-learn;
`dpmpc.owners.columns.mixing_estimators` adds parties and `fit`.

A `MixingOutlook` states what a fit is worth, from the release alone: the noise's part of second moments beside the
data's own. Promised: numbers that cost no privacy, because they follow from the release. Not promised: more than a
rough idea. The expected error is that of uncorrelated features that explain half of the label
(`dpmpc.owners.columns.rows`), with second moments that are estimated from the release itself.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

import numpy as np

from dpmpc.base.arguments import require_finite, require_fraction
from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.linear.contributions.noisy_gram import NoisyGram
from dpmpc.models.common.inference import Inference, Observed, infer
from dpmpc.models.common.linear_algebra import solve_ridge
from dpmpc.models.common.release_parts import chosen_columns, column_index, in_units
from dpmpc.models.common.scikit import name_features, require_fitted
from dpmpc.models.common.summary import Summary
from dpmpc.owners.columns.mixed_release import MixedRelease
from dpmpc.owners.columns.rows import EXPLAINED, expected_error


@dataclasses.dataclass(eq=False, repr=False)
class MixingFit(abc.ABC):
    """A regression on what parties with different columns released; `MixingRegression` has its attributes."""

    name: ClassVar[str]
    mixes: ClassVar[bool] = False  # whether it reads mixed rows, or those of the subjects

    _: dataclasses.KW_ONLY
    ridge: float = 1e-5

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
        """Compute standard errors and confidence intervals from the release alone.

        Their centres, `Inference.coef`, have neither penalty nor the noise's bias, and are not `coef_`: they belong to
        the regression without an intercept, in normalised units, in the population that the subjects were drawn from.
        They cover sampling, mixing and noise, and are the same whichever regression reads the release. Where noise
        hides the Hessian they are infinite.

        Parameters
        ----------
        level : float
            Nominal coverage of each interval, strictly between 0 and 1.
        """
        require_fitted(self)
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
        if (release.task.rows is not None) != self.mixes:
            given = "one row for each subject" if release.task.rows is None else f"{release.task.rows} mixed rows"
            expected = "mixed rows" if self.mixes else "one row for each subject"
            raise InputError("release", given, expected, condition=f"by {self.name}")

    @abc.abstractmethod
    def hessian(self, release: MixedRelease) -> Reals:
        """Return the second moments of all columns, divided by n, as this regression reads them from a release."""


class BGMFit(MixingFit):
    """Ordinary least squares on noisy rows, as they are."""

    name = "BGM"

    def hessian(self, release: MixedRelease) -> Reals:
        """Return (1/n) (D^bgm)^T D^bgm."""
        return release.moments()


class DGMFit(MixingFit):
    """Ordinary least squares on noisy rows, whose noise is taken off the Hessian."""

    name = "DGM"

    def hessian(self, release: MixedRelease) -> Reals:
        """Return (1/n) (D^dgm)^T D^dgm - 4 d_max sigma^2 I (Algorithm 1, step 3 of training)."""
        return release.moments() - release.task.noise_variance * np.eye(len(release.columns))


class RMGMFit(MixingFit):
    """Ordinary least squares on mixed rows."""

    name, mixes = "RMGM", True

    def hessian(self, release: MixedRelease) -> Reals:
        """Return (1/n) (D^rmgm)^T D^rmgm; the noise's share vanishes as k/n does."""
        return release.moments()


def observed_of(release: MixedRelease, names: Sequence[str]) -> Observed:
    """Return what inference reads of some columns: rows that each add up all subjects, or are one subject's each."""
    task, columns = release.task, tuple(names)
    rows = release.rows[:, [release.columns.index(name) for name in columns]]
    extended, variance = np.insert(rows, 0, 0.0, axis=1), np.full(len(rows), task.noise_variance)
    return Observed(
        schema=task.schema.select(columns),
        clients=task.subjects,
        gram=NoisyGram.of_product(extended.T @ extended, variance, columns),
        noise_variance=variance,
        rows=extended,
        sampling=0.0 if task.rows is None else 1 - 1 / task.rows,
        mixtures=task.rows is not None,
        squared_norm=float(len(columns)),
    )


TOLERABLE_ERROR = 0.5


@dataclasses.dataclass(frozen=True)
class MixingOutlook:
    """Sizes of noise and data in (1/n) (D^pub)^T D^pub, columns mapped to [-1, 1]."""

    # what the noise adds to each diagonal entry, k tau^2/n with mixing, or tau^2; what is left of it for DGM, which
    # takes it off: about 2 tau^2 sqrt(d/n) in any direction
    noise: float
    # column -> second moment of the data, an estimate; 0 where nothing stands out. Uniform data has 1/3
    data: dict[str, float]
    error: float  # expected E ||w - w*||^2 / ||w*||^2: predicting the middle of the bounds has 1

    @classmethod
    def of(
        cls, method: str, release: MixedRelease, target: str | int, features: Sequence[str] | None = None
    ) -> MixingOutlook:
        """Estimate the outlook for a column, as "rmgm", "dgm" or "bgm" would fit it to some features, or to all."""
        task, name = release.task, release.columns[column_index(release.columns, target)]
        names = chosen_columns(release.columns, name, features)
        position, count = names.index(name), len(names) - 1
        added = task.noise_variance * task.released_rows / task.subjects
        places = [release.columns.index(each) for each in names]
        moments = np.maximum(np.diag(release.moments())[places] - added, 0.0)
        label, own = float(moments[position]), float(np.delete(moments, position).mean())
        noise = 2 * added * math.sqrt(count / task.subjects) if method == "dgm" else added
        data = dict(zip(names, moments.tolist(), strict=True))
        if own == 0 or label == 0:
            return cls(noise, data, math.inf)
        if method == "dgm":
            return cls(noise, data, (noise / own) ** 2)
        if method == "bgm":
            return cls(noise, data, (noise / (own + noise)) ** 2)
        weights = EXPLAINED * label / own
        error = expected_error(
            task.released_rows,
            task.subjects,
            count,
            task.noise_variance,
            second_moment=own,
            signal=weights,
            residual=(1 - EXPLAINED) * label,
        )
        return cls(noise, data, float(error) / weights)

    @property
    def too_noisy(self) -> bool:
        """Whether most of what a fit would learn is expected to be wrong."""
        return self.error >= TOLERABLE_ERROR
