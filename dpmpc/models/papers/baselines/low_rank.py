"""What a private low-rank approximation is compared with: the optimum, Analyze Gauss, MOD-SULQ and fixed components.

All work on normalised data (columns mapped to [-1, 1]), not centred. The private ones trust a curator with every row
and protect against those who see the components, under the relation of `dpmpc.models.papers.baselines.common`. Not
promised: that a component means anything where its eigenvalue is within the noise.
"""

from __future__ import annotations

import abc
import math
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from dpmpc.base.arrays import Reals
from dpmpc.base.errors import GuaranteeError
from dpmpc.base.randomness import Stream, stream_for
from dpmpc.data import Table
from dpmpc.data.schemas import largest_squared_norm
from dpmpc.linear.contributions.contribution import moment_sensitivity
from dpmpc.models.common.estimator import Estimator
from dpmpc.models.common.linear_algebra import top_components
from dpmpc.models.common.scikit import remember_features
from dpmpc.models.papers.baselines.common import normalised_rows, symmetric_noise
from dpmpc.privacy.gaussian import epsilon_of_mu, mu_of_budget


class PrivateComponents(Estimator, abc.ABC):
    """Base of the private low-rank approximations that a user compares with.

    Parameters
    ----------
    n_components : int
        r, from 1 to d.
    epsilon, delta : float
        Replace-one budget.
    radius : float, optional
        Clip the row to this L2 norm: a public constant.
    simulation_seed : int, optional
        Simulations only: repeats the noise, which then protects no one.

    Attributes
    ----------
    components_ : ndarray of float64, shape (r, d)
        Orthonormal, in normalised units.
    sensitivity_, sigma_ : float
        How far one row moves what is released, and the noise: the release is (sensitivity_/sigma_)-GDP.
    """

    def __init__(
        self,
        n_components: int = 3,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        radius: float | None = None,
        simulation_seed: int | None = None,
    ):
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.radius = radius
        self.simulation_seed = simulation_seed

    def fit(self, X: ArrayLike, y: None = None) -> Self:
        """Fit to normalised data, X (n, d) in [-1, 1]."""
        self._warn_if_copied()
        rows = normalised_rows(Table.from_any(X).require_public_count().values, radius=self.radius)
        moments = self._moments(rows, mu_of_budget(self.epsilon, self.delta), stream_for(self.simulation_seed))
        self.components_ = top_components(moments, self.n_components)
        remember_features(self, X)
        return self

    @abc.abstractmethod
    def _moments(self, rows: Reals, mu: float, stream: Stream) -> Reals:
        """Release the second moments (d, d), up to a factor, with one mu-GDP mechanism."""


class AnalyzeGauss(PrivateComponents):
    """Components of X^T X with symmetric Gaussian noise, from a trusted curator (Dwork et al. 2014, Algorithm 1).

    The paper adds or removes a row of norm 1 (Frobenius sensitivity 1) and gives every entry of the upper triangle the
    same noise. Here a row of norm at most C is replaced, which moves X^T X by at most sqrt(2) C^2 in Frobenius norm:
    that is what the noise hides: standard deviation `sigma_` on the diagonal, ``sigma_/sqrt(2)`` off it.
    Floating-point noise: for simulations only.

    Parameters
    ----------
    n_components : int
        r, from 1 to d.
    epsilon, delta : float
        Replace-one budget.
    radius : float, optional
        Clip the row to this L2 norm: a public constant.
    simulation_seed : int, optional
        Simulations only: repeats the noise, which then protects no one.
    """

    def _moments(self, rows: Reals, mu: float, stream: Stream) -> Reals:
        columns = rows.shape[1]
        self.sensitivity_ = moment_sensitivity(largest_squared_norm(columns, self.radius))
        self.sigma_ = self.sensitivity_ / mu
        return np.asarray(rows.T @ rows + symmetric_noise(columns, self.sigma_, stream))


class ModSulq(PrivateComponents):
    """MOD-SULQ with a trusted curator, noise as printed (Chaudhuri, Sarwate and Sinha 2013, Algorithm 1).

    Rows are divided by the largest norm that the bounds allow; every entry of the upper triangle of X^T X / n gets
    N(0, beta^2). The printed beta grows with d, which a joint analysis does not need. It is kept for reproduction, and
    its true cost is `achieved_epsilon_`: 0.0375 at (1, 1e-6) and d = 20, where `AnalyzeGauss` spends all of it and has
    a twentieth of the noise. `sigma_` is beta. Floating-point noise: for simulations only.

    Parameters
    ----------
    n_components : int
        r, from 1 to d.
    epsilon, delta : float
        Replace-one budget.
    radius : float, optional
        Clip the row to this L2 norm: a public constant.
    simulation_seed : int, optional
        Simulations only: repeats the noise, which then protects no one.

    Attributes
    ----------
    achieved_epsilon_ : float
        Upper bound, by the tight curve, on what the printed noise costs at `delta`.
    """

    def _moments(self, rows: Reals, mu: float, stream: Stream) -> Reals:
        n, d = rows.shape
        self.sigma_ = modsulq_beta(n, d, self.epsilon, self.delta)
        # The upper triangle's norm is at most the Frobenius norm.
        self.sensitivity_ = moment_sensitivity(1.0) / n
        self.achieved_epsilon_ = epsilon_of_mu(self.sensitivity_ / self.sigma_, self.delta)
        if self.sensitivity_ / self.sigma_ > mu:
            raise GuaranteeError(
                "epsilon",
                f"{self.epsilon:g} promised, but MOD-SULQ's printed noise gives epsilon = "
                f"{self.achieved_epsilon_:.6g} at delta = {self.delta:g}",
            )
        moments = rows.T @ rows / (n * largest_squared_norm(d, self.radius))
        return np.asarray(moments + symmetric_noise(d, self.sigma_, stream, off_diagonal=self.sigma_))


def modsulq_beta(n: int, d: int, epsilon: float, delta: float) -> float:
    """Return MOD-SULQ's standard deviation for rows of norm at most 1 (Chaudhuri et al. 2013, Algorithm 1).

    beta = (d + 1)/(n epsilon) sqrt(2 ln((d^2 + d)/(2 delta sqrt(2 pi)))) + 1/(n sqrt(epsilon))
    """
    logarithm = math.log((d**2 + d) / (2 * delta * math.sqrt(2 * math.pi)))
    # Where the logarithm is negative (one column, delta beyond 0.39) the formula says nothing; the caller checks.
    return (d + 1) / (n * epsilon) * math.sqrt(2 * max(logarithm, 0.0)) + 1 / (n * math.sqrt(epsilon))
