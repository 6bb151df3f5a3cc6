"""The local model: every client adds all the noise that hides its row, and trusts nobody.

What is left of the data after that is what secure sketching must be compared with from below.
"""

from __future__ import annotations

import math
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from dpmpc.base.arrays import Reals
from dpmpc.base.randomness import Stream, stream_for
from dpmpc.data import Table
from dpmpc.data.schemas import largest_squared_norm
from dpmpc.linear.contributions import Rows
from dpmpc.linear.contributions.noisy_gram import NoisyGram
from dpmpc.linear.noise.floating import Gaussian
from dpmpc.models.common.linear_algebra import LinearModel, solve_ridge, top_components
from dpmpc.models.common.scikit import remember_features
from dpmpc.models.papers.baselines.common import normalised_rows
from dpmpc.models.papers.baselines.linear import PrivateRidge
from dpmpc.privacy.gaussian import mu_of_budget


class LocalGaussian(PrivateRidge):
    """Row + N(0, (Delta/mu)^2 I) from each client, then ridge regression or a low-rank approximation of the noisy rows.

    Delta = 2C, C the largest norm of a row: replacing a row by any other is the relation of local differential privacy.
    The noisy rows may be published; they are read like a sketch whose matrix is the identity, with the same guarded
    correction of the noise's bias. Floating-point noise: for simulations only.

    Parameters
    ----------
    alpha : float
        Ridge penalty, on the weights and not on the intercept.
    epsilon, delta : float
        Replace-one budget.
    n_components : int
        r of the low-rank approximation.
    fit_intercept : bool
        Whether the extended row (1, z) or the row z is used.
    radius : float, optional
        Clip the row, target included, to this L2 norm: a public constant.
    simulation_seed : int, optional
        Simulations only: repeats the noise, which then protects no one.

    Attributes
    ----------
    components_ : ndarray of float64, shape (r, d)
        Where no target was given, instead of `model_`.
    debiased_ : bool
        Whether the bias was taken off.
    """

    def __init__(
        self,
        alpha: float = 1.0,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        n_components: int = 3,
        fit_intercept: bool = True,
        radius: float | None = None,
        simulation_seed: int | None = None,
    ):
        super().__init__(
            alpha, epsilon, delta, fit_intercept=fit_intercept, radius=radius, simulation_seed=simulation_seed
        )
        self.n_components = n_components

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Fit a ridge regression of y on X, both normalised, or the components of X where there is no y."""
        if y is not None:
            return super().fit(X, y)
        self._warn_if_copied()
        rows = normalised_rows(Table.from_any(X).require_public_count().values, radius=self.radius)
        noisy = self._randomize(rows, mu_of_budget(self.epsilon, self.delta), stream_for(self.simulation_seed))
        self.components_ = top_components(noisy.T @ noisy, self.n_components)
        remember_features(self, X)
        return self

    def _fit(self, Z: Reals, mu: float, stream: Stream) -> LinearModel:
        n, columns = Z.shape
        names = tuple(str(column) for column in range(columns))
        noisy = self._randomize(Z, mu, stream)
        gram = NoisyGram.of_product(Rows().gram(noisy, np.ones(n), n), np.full(n, self.sigma_**2), names)
        usable = gram.debiased(columns - 1, fit_intercept=self.fit_intercept)
        self.debiased_ = usable is not gram
        return solve_ridge(usable.matrix, columns - 1, self.alpha, fit_intercept=self.fit_intercept)

    def _randomize(self, rows: Reals, mu: float, stream: Stream) -> Reals:
        """Return the noisy rows (n, p) that the clients send."""
        self.sensitivity_ = 2 * math.sqrt(largest_squared_norm(rows.shape[1], self.radius))
        self.sigma_ = self.sensitivity_ / mu
        return np.asarray(rows + Gaussian(self.sigma_).sample(rows.shape, stream=stream))
