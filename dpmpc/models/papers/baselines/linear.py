"""What a private regression is compared with: the optimum, SSP, AdaSSP and the predictor that ignores the features.

All work on normalised data (columns mapped to [-1, 1]), with or without an intercept that is not penalised, so that
their costs and those of a private fit are the same function of the same numbers. The private ones trust a curator
with every row and protect against those who see the fit, under the relation of `dpmpc.models.papers.baselines.common`.
"""

from __future__ import annotations

import abc
import math
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from dpmpc.base.arguments import require_finite
from dpmpc.base.arrays import Reals
from dpmpc.base.randomness import Stream, stream_for
from dpmpc.data import Table
from dpmpc.data.schemas import largest_squared_norm
from dpmpc.linear.contributions.contribution import moment_sensitivity
from dpmpc.linear.noise.floating import Gaussian
from dpmpc.models.common.estimator import Regressor
from dpmpc.models.common.linear_algebra import LinearModel, exact_gram, solve_ridge
from dpmpc.models.common.scikit import remember_features, rows_like_fitted, target_of
from dpmpc.models.papers.baselines.common import normalised_rows, symmetric_noise
from dpmpc.privacy.gaussian import mu_of_budget

ADASSP_SENSITIVITY = 4 / math.sqrt(3)  # of the three releases together, replace-one, in units of B^2, B^2 and B C
ADASSP_FAILURE = 0.05  # rho: the probability that the noise of X^T X exceeds the penalty (Wang 2018, Algorithm 2)


def optimal_ridge(X: Reals, y: Reals, alpha: float, *, fit_intercept: bool = True) -> LinearModel:
    """Fit a ridge regression without any privacy: the optimum that phi divides by."""
    return solve_ridge(exact_gram(np.column_stack([X, y])), X.shape[1], alpha, fit_intercept=fit_intercept)


def trivial_predictor(features: int, y: Reals, *, fit_intercept: bool = True) -> LinearModel:
    """Return w = 0, with the target's true mean as intercept where there is one: what a release has to beat."""
    return LinearModel(np.zeros(features), float(np.mean(y)) if fit_intercept else 0.0)


class PrivateRidge(Regressor, abc.ABC):
    """Base of the private ridge regressions that a user compares with.

    Parameters
    ----------
    alpha : float
        Ridge penalty, on the weights and not on the intercept.
    epsilon, delta : float
        Replace-one budget.
    fit_intercept : bool
        Whether the extended row (1, z) or the row z is used.
    radius : float, optional
        Clip the row, target included, to this L2 norm: a public constant.
    simulation_seed : int, optional
        Simulations only: repeats the noise, which then protects no one.

    Attributes
    ----------
    model_ : LinearModel
        The fit, in normalised units; `coef_` and `intercept_` are its parts.
    sensitivity_, sigma_ : float
        How far one row moves what is released, and the noise: the release is exactly (sensitivity_/sigma_)-GDP.
    """

    def __init__(
        self,
        alpha: float = 1.0,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        fit_intercept: bool = True,
        radius: float | None = None,
        simulation_seed: int | None = None,
    ):
        self.alpha = alpha
        self.epsilon = epsilon
        self.delta = delta
        self.fit_intercept = fit_intercept
        self.radius = radius
        self.simulation_seed = simulation_seed

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit to normalised data, X (n, d) and y (n,) in [-1, 1]."""
        require_finite("alpha", self.alpha, 0)
        self._warn_if_copied()
        mu = mu_of_budget(self.epsilon, self.delta)
        features = Table.from_any(X).require_public_count().values
        rows = normalised_rows(features, target_of(self, y, len(features)), radius=self.radius)
        self.model_ = self._fit(rows, mu, stream_for(self.simulation_seed))
        self.coef_, self.intercept_ = self.model_.weights, self.model_.intercept
        remember_features(self, X)
        return self

    def predict(self, X: ArrayLike) -> Reals:
        """Predict the normalised target of normalised rows (m, d)."""
        rows = rows_like_fitted(self, X)
        return self.model_.predict(rows)

    @abc.abstractmethod
    def _fit(self, Z: Reals, mu: float, stream: Stream) -> LinearModel:
        """Fit rows (n, p) whose last column is the target, with one mu-GDP release."""


class SSP(PrivateRidge):
    """Sufficient statistics perturbation with a trusted curator.

    Vu and Slavkovic 2009; Analyze Gauss, Dwork et al. 2014. The curator adds symmetric Gaussian noise to the Gram
    matrix of (1, z), target included, so that any column can be the target: replacing a row of norm at most C moves it
    by at most sqrt(2)(1 + C^2) in Frobenius norm.
    `sigma_` is the standard deviation of the diagonal's noise. Floating-point noise: for simulations only.

    Parameters
    ----------
    alpha : float
        Ridge penalty, on the weights and not on the intercept.
    epsilon, delta : float
        Replace-one budget.
    fit_intercept : bool
        Whether the extended row (1, z) or the row z is used.
    radius : float, optional
        Clip the row, target included, to this L2 norm: a public constant.
    simulation_seed : int, optional
        Simulations only: repeats the noise, which then protects no one.
    """

    def _fit(self, Z: Reals, mu: float, stream: Stream) -> LinearModel:
        columns = Z.shape[1]
        self.sensitivity_ = moment_sensitivity(largest_squared_norm(columns, self.radius) + self.fit_intercept)
        self.sigma_ = self.sensitivity_ / mu
        noise = symmetric_noise(columns + 1, self.sigma_, stream)
        noise[0, 0] = 0.0  # the number of clients is public
        return solve_ridge(exact_gram(Z) + noise, columns - 1, self.alpha, fit_intercept=self.fit_intercept)


class AdaSSP(PrivateRidge):
    """Adaptive SSP with a trusted curator (Wang 2018, Algorithm 2), its three releases accounted jointly.

    With ``||x|| <= B`` and ``|y| <= C`` the curator adds noise of standard deviation sigma to the smallest eigenvalue
    of X^T X / B^2, to X^T X / B^2 (symmetric, sigma on the diagonal) and to X^T y / (B C), and raises the penalty where
    the first of them is small. Wang adds or removes a row and composes three budgets (epsilon/3, delta/3), which makes
    sigma = 3 sqrt(ln(6/delta))/epsilon. Here a row is replaced, the relation of every other baseline: the three
    together move by at most 4/sqrt(3) (by sqrt(3) for one row more or less; theorem adassp-sensitivity), so that
    sigma = (4/sqrt(3))/mu, which is less noise for the stronger relation. The intercept, if any, is a column of ones in
    x; it is not penalised. Floating-point noise: for simulations only.

    Parameters
    ----------
    alpha : float
        The least penalty on the weights; the mechanism raises it where the noise requires more.
    epsilon, delta : float
        Replace-one budget.
    fit_intercept : bool
        Whether the extended row (1, z) or the row z is used.
    radius : float, optional
        Clip the row, target included, to this L2 norm: a public constant.
    simulation_seed : int, optional
        Simulations only: repeats the noise, which then protects no one.

    Attributes
    ----------
    alpha_ : float
        The penalty used.
    """

    def _fit(self, Z: Reals, mu: float, stream: Stream) -> LinearModel:
        columns = Z.shape[1]
        first = 0 if self.fit_intercept else 1
        squared_B = largest_squared_norm(columns - 1, self.radius) + self.fit_intercept
        C = math.sqrt(largest_squared_norm(1, self.radius))
        self.sensitivity_ = ADASSP_SENSITIVITY
        self.sigma_ = self.sensitivity_ / mu
        scale = self.sigma_ * squared_B

        gram = exact_gram(Z)
        features = gram[first:-1, first:-1]
        d = len(features)
        # Algorithm 2, steps 1 to 3: the smallest eigenvalue, taken low, sets the penalty.
        shift = math.sqrt(math.log(6 / self.delta)) * scale
        noisy_smallest = np.linalg.eigvalsh(features)[0] + Gaussian(scale).sample(1, stream=stream)[0]
        lifted = scale * math.sqrt(d * math.log(2 * d**2 / ADASSP_FAILURE))
        self.alpha_ = max(self.alpha, lifted - max(0.0, float(noisy_smallest) - shift))
        # Steps 4 and 5; nothing exact is left in the matrix but the number of clients, which is public.
        released = np.zeros_like(gram)
        released[first:-1, first:-1] = features + symmetric_noise(d, scale, stream)
        cross = Gaussian(self.sigma_ * math.sqrt(squared_B) * C).sample(d, stream=stream)
        released[first:-1, -1] = gram[first:-1, -1] + cross
        released[0, 0] = len(Z)
        return solve_ridge(released, columns - 1, self.alpha_, fit_intercept=self.fit_intercept)
