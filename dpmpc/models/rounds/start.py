"""What second moments alone show: the coordinates of the last rounds, and a logistic fit without any round.

Rows u = (1, z) are whitened to v = T u = (1, S^(-1/2)(z - m)), so that E|v|^2 = p and the noise of a last round depends
on p and no longer on how loose the bounds are. Eigenvalues of S that the noise may
have made are raised to its operator norm.

The logistic fit takes the features for Gaussian ones (Stein's lemma; Brillinger 1982): then the coefficients have the
direction of least squares, and their length solves one equation. Elsewhere that is biased, by a few hundredths to more
than half of the effects.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.linear.contributions import SecondMoments
from dpmpc.linear.contributions.scores import sigmoid
from dpmpc.privacy.gaussian import last
from dpmpc.release.release import GramSource

GAUSS_NODES, _RAW = hermegauss(60)
GAUSS_WEIGHTS = _RAW / _RAW.sum()  # E f(N) = sum of weights times f(nodes), N standard normal
_LEAST_EIGENVALUE = 1e-9
LARGEST_SLOPE = 4.0  # a start has a linear predictor of at most this standard deviation
_FEW = 3.0  # so many standard deviations of its noise a count has to be above 0


@dataclasses.dataclass(frozen=True)
class Whitened:
    """What the second moments of features and target show, in whitened coordinates."""

    matrix: Reals  # (p, p): T, for p - 1 features
    covariance: Reals  # of the whitened features and the target t, normalised to [-1, 1]
    mean: float  # of t
    variance: float
    # standard deviation of the noise in a diagonal entry of the Gram matrix, over n; off it, over sqrt(2) too
    noise: float
    clients: int  # n

    @classmethod
    def of(cls, source: GramSource) -> Whitened:
        """Read a release of second moments, or some of its columns, of which the last is the target."""
        contribution = source.task.statistic
        if not isinstance(contribution, SecondMoments):
            raise InputError("release", f"of {contribution.name} given, of second moments expected (a sum)")
        if source.weighted:
            raise InputError("release", "with weights or rows of zeros", "neither", condition="of this model")
        clients, columns = source.clients, len(source.columns)
        gram = source.gram().matrix / clients
        noise = math.sqrt(float(source.noise_variance[0])) / clients
        mean, features = gram[0, 1:columns], gram[1:columns, 1:columns]
        eigenvalues, vectors = np.linalg.eigh(features - np.outer(mean, mean))
        raised = np.maximum(eigenvalues, max(math.sqrt(2 * (columns - 1)) * noise, _LEAST_EIGENVALUE))
        root = (vectors / np.sqrt(raised)) @ vectors.T
        matrix = np.eye(columns)
        matrix[1:, 1:] = root
        matrix[1:, 0] = -root @ mean
        target = float(gram[0, columns])
        covariance = root @ (gram[1:columns, columns] - mean * target)
        variance = float(gram[columns, columns]) - target**2
        return cls(matrix, covariance, target, variance, noise, clients)

    @property
    def few(self) -> float:
        """Deviation of a mean of t from an end of [-1, 1] below which noise alone might have made it."""
        return _FEW * self.noise / math.sqrt(2)


def scales(source: GramSource) -> Reals:
    """Return what last rounds multiply (1, z) by (p,): columns that vary less get more of the box, but not all of it.

    In a sum of rows h u of the box [-1, 1]^p, which are no longer than ``|h|``, the score of a column has noise in
    proportion to ``|h| / h_j``. With variances s_j and means m_j the squares of the standard errors of a unit of spread
    of every column, and of the mean, add up to the least where h_j^2 = s_j^(-1/2) and
    h_0^2 = (1 + sum m_j^2 / s_j)^(1/2).
    """
    clients, columns = source.clients, len(source.columns)
    gram = source.gram().matrix / clients
    noise = math.sqrt(float(source.noise_variance[0])) / clients
    mean = np.clip(gram[0, 1:columns], -1.0, 1.0)
    variance = np.clip(np.diag(gram)[1:columns] - mean**2, max(noise, _LEAST_EIGENVALUE), 1.0)
    first = math.sqrt(1 + float(np.sum(mean**2 / variance)))
    return np.append(1.0, np.sqrt(variance**-0.5 / first))


def logistic_start(whitened: Whitened) -> Reals:
    """Return the scaled least-squares fit: b E sigma'(a + b N) = |Cov(v, y)| and E sigma(a + b N) = mean of y."""
    end = min(whitened.few / 2 + 1 / whitened.clients, 0.25)
    mean = min(max((1 + whitened.mean) / 2, end), 1 - end)
    covariance = whitened.covariance / 2
    norm = float(np.linalg.norm(covariance))
    # James-Stein: the noise's share is taken off the squared length.
    excess = whitened.noise**2 / 8 * float(np.sum(whitened.matrix[1:, 1:] ** 2))
    norm = max(0.0, norm - excess / norm) if norm > 0 else 0.0

    def intercept(slope: float) -> float:
        return gaussian_intercept(slope, mean)

    def gap(slope: float) -> float:
        q = sigmoid(intercept(slope) + slope * GAUSS_NODES)
        return float(slope * (GAUSS_WEIGHTS @ (q * (1 - q)))) - norm

    slope = LARGEST_SLOPE if gap(LARGEST_SLOPE) < 0 else last(lambda slope: gap(slope) <= 0, 0.0, LARGEST_SLOPE)
    return np.array([intercept(slope), *(slope * _direction(whitened.covariance))])


def gaussian_intercept(slope: float, mean: float) -> float:
    """Return the a with E sigma(a + slope N) = mean, for a mean strictly between 0 and 1."""
    return last(lambda a: float(GAUSS_WEIGHTS @ sigmoid(a + slope * GAUSS_NODES)) <= mean, -60.0, 60.0)


def logistic_start_error(whitened: Whitened, theta: Reals) -> float:
    """Return by how much noise alone moves the linear predictor of a typical row at `logistic_start`, first order.

    With C b = c for noisy second moments, of variance v/2 off their diagonal and v on it, b moves by
    C^-1 (dc - dC b): whitened, by a vector of mean square v/2 tr(C^-1) (1 + |b|^2) and at most as much again for the
    diagonal. Coefficients are b times a number that one equation gives.
    """
    inverse_root = whitened.matrix[1:, 1:]
    least_squares = inverse_root @ whitened.covariance
    q = sigmoid(theta[0] + float(np.linalg.norm(theta[1:])) * GAUSS_NODES)
    moved = whitened.noise**2 / 2 * float(np.sum(inverse_root**2)) * (1 + 2 * float(least_squares @ least_squares))
    return math.sqrt(moved) / 2 / float(GAUSS_WEIGHTS @ (q * (1 - q)))


def _direction(vector: Reals) -> Reals:
    length = float(np.linalg.norm(vector))
    return vector / length if length > 0 else np.zeros_like(vector)
