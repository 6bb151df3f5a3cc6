"""Ridge regression from a release (Burkhardt et al. 2025, section 5.1)."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmpc.baselines import LinearModel, optimal_ridge, ridge_cost, solve_ridge, trivial_predictor
from dpmpc.errors import InputError
from dpmpc.estimators.base import LinearPredictor, PrivateLinearModel, column_index, in_units, table_of
from dpmpc.estimators.inference import Inference, infer
from dpmpc.estimators.penalty import choose_alpha
from dpmpc.release import GramRelease, NoisyGram, Release

DEBIAS = ("guarded", "never")
AUTO = "auto"
_CHOSEN_MARGIN = 0.5  # the estimated risk itself shies from a singular matrix, so that half the usual margin is safe


@dataclasses.dataclass(eq=False, repr=False)
class RidgeRegression(LinearPredictor, PrivateLinearModel):
    """Differentially private ridge regression by secure sketching.

    `fit` simulates clients and servers in this process and then calls `fit_release`; `fit_release` alone is
    post-processing of a release that came from anywhere.

    Parameters
    ----------
    alpha : float or "auto"
        Penalty on the squared coefficients of the normalised columns (each mapped from its bounds to [-1, 1]). "auto"
        takes the penalty with the least prediction risk, as estimated from the release (`dpmpc.estimators.penalty`).
    fit_intercept : bool
        Whether to fit an intercept. It costs no privacy: its column of the sketch is public.
    debias : {"guarded", "never"}
        Clients' noise adds B = sum of the rows' noise variances to the Gram diagonal, in expectation, and shrinks the
        fit. "guarded" takes B off where the smallest eigenvalue clearly exceeds the noise's fluctuation, and never
        elsewhere: an unguarded correction explodes (docs/mathematics.md, section 4).
    **options
        Those of `PrivateLinearModel`.

    Attributes
    ----------
    coef_ : ndarray of float64, shape (d,)
        In the units of the columns.
    intercept_ : float
        In the target's units.
    feature_names_ : tuple of str
        The columns that `coef_` belongs to.
    release_ : Release or GramRelease
        What the servers opened; any other target can be fitted from it at no cost.
    debiased_ : bool
        Whether B was taken off.
    alpha_ : float
        The penalty used: the chosen one, or one larger than `alpha` where the noise left the Gram matrix without a
        safe inverse.
    model_ : LinearModel
        The fit in normalised units.
    """

    alpha: float | str = 1.0
    _: dataclasses.KW_ONLY
    fit_intercept: bool = True
    debias: str = "guarded"

    def fit(self, X: ArrayLike, y: ArrayLike) -> RidgeRegression:
        """Make a release of (X, y) under the estimator's budget and fit it.

        Parameters
        ----------
        X : array-like of shape (n, d), or a data frame
            One row per client.
        y : array-like of shape (n,)
            The target; it is called "y" in `bounds`.
        """
        self.check_parameters()
        table = table_of(X, y)
        return self.fit_release(self.release(table), target=table.names[-1])

    def fit_release(self, release: Release | GramRelease, target: str | int = -1) -> RidgeRegression:
        """Fit a release: pure post-processing.

        Parameters
        ----------
        release : Release or GramRelease
            Of rows or of second moments.
        target : str or int
            The column to predict, the last by default; all others are features.
        """
        self.check_parameters()
        position = column_index(release.columns, target)
        noisy = release.gram()
        gram = noisy if self.debias == "never" else noisy.debiased(position, fit_intercept=self.fit_intercept)
        self.debiased_ = gram is not noisy
        self.alpha_ = self._penalty(release, gram, position)
        self.model_ = solve_ridge(gram.matrix, position, self.alpha_, fit_intercept=self.fit_intercept)
        self.release_ = release
        self.target_ = release.columns[position]
        self.feature_names_ = tuple(name for name in release.columns if name != self.target_)
        self.n_features_in_ = len(self.feature_names_)
        self.coef_, self.intercept_ = self.in_units(self.model_)
        return self

    def inference(self, level: float = 0.95, *, target: str = "population", errors: str = "homoscedastic") -> Inference:
        """Standard errors and confidence intervals of the unpenalised coefficients, from the fitted release alone.

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
            A sketch of rows needs no such assumption (docs/mathematics.md, section 6).
        """
        return infer(
            _opened(self.release_, "inference"),
            self.release_.columns.index(self.target_),
            fit_intercept=self.fit_intercept,
            level=level,
            target=target,
            errors=errors,
        )

    def approximation_factor(self, X: ArrayLike, y: ArrayLike, model: LinearModel | None = None) -> float:
        """Phi = cost of this fit / least cost, on data at hand (not private; Burkhardt et al. 2025, section 6.2).

        Parameters
        ----------
        X, y : array-like
            Data in the columns' units; normalised and clipped as the clients do.
        model : LinearModel, optional
            Another model to judge, in normalised units.
        """
        Z, label = self.normalised(X, y)
        best = optimal_ridge(Z, label, self.cost_alpha, fit_intercept=self.fit_intercept)
        least = ridge_cost(best, Z, label, self.cost_alpha)
        if least == 0:
            raise InputError("y: the optimal fit is exact, so the approximation factor is undefined")
        return ridge_cost(model or self.model_, Z, label, self.cost_alpha) / least

    def trivial_factor(self, X: ArrayLike, y: ArrayLike) -> float:
        """Phi of the predictor that ignores the features and knows the target's mean."""
        _, label = self.normalised(X, y)
        return self.approximation_factor(
            X, y, trivial_predictor(self.n_features_in_, label, fit_intercept=self.fit_intercept)
        )

    @property
    def cost_alpha(self) -> float:
        """Penalty in the cost that `approximation_factor` compares: `alpha`, but 0 for "auto", which aims at risk."""
        return 0.0 if isinstance(self.alpha, str) else self.alpha

    def in_units(self, model: LinearModel) -> tuple[NDArray[np.float64], float]:
        """Coefficients (d,) and intercept of a normalised model in the columns' units."""
        return in_units(model, self.release_.task.schema, self.release_.columns.index(self.target_))

    def normalised(self, X: ArrayLike, y: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return features (n, d) and target (n,) mapped to [-1, 1] by the release's public bounds, and clipped to
        them.
        """
        schema = self.release_.task.schema
        features = schema.select(self.feature_names_).normalise(np.asarray(X, dtype=np.float64))
        label = schema.select([self.target_]).normalise(np.asarray(y, dtype=np.float64)[:, None])[:, 0]
        return features, label

    def check_parameters(self) -> None:
        """Refuse parameters that no fit can use, before any data is touched."""
        if self.alpha != AUTO and (isinstance(self.alpha, str) or not (np.isfinite(self.alpha) and self.alpha >= 0)):
            raise InputError(f"alpha: {self.alpha} given, a finite number >= 0 or {AUTO!r} expected")
        if self.debias not in DEBIAS:
            raise InputError(f"debias: {self.debias!r} given, one of {', '.join(DEBIAS)} expected")

    def _penalty(self, release: Release | GramRelease, gram: NoisyGram, target: int) -> float:
        """Return the penalty asked for, or the chosen one, and no less than is safe."""
        if isinstance(self.alpha, str):
            least = self._safe_alpha(gram, target, margin=_CHOSEN_MARGIN)
            opened = _opened(release, "alpha='auto'")
            return choose_alpha(opened, gram, target, fit_intercept=self.fit_intercept, least=least)
        return max(self.alpha, self._safe_alpha(gram, target))

    def _safe_alpha(self, gram: NoisyGram, target: int, margin: float = 1.0) -> float:
        """Penalty that lifts the smallest eigenvalue out of the noise of a sum, whose matrix need not be positive.

        The idea of adaptive SSP (Wang 2018), at no cost of budget: the noisy matrix and its noise level are public.
        """
        if gram.bias:
            return 0.0
        lowest = gram.smallest_eigenvalue(target, fit_intercept=self.fit_intercept)
        return max(0.0, margin * gram.fluctuation - lowest)


def _opened(release: Release | GramRelease, what: str) -> Release:
    """Expect a release whose rows can be read."""
    if isinstance(release, GramRelease):
        raise InputError(f"release: products of a closed sketch given, an opened release expected for {what}")
    return release
