"""A noisy Gram matrix of (1, z): what least squares reads, whatever was summed, with the size of its noise."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from dpmpc.base.arrays import Reals

_CLEARLY = 3.0  # so many fluctuations of the noise above it, the smallest eigenvalue is safe to debias


@dataclasses.dataclass(frozen=True)
class NoisyGram:
    """The Gram matrix of (1, z), as a release shows it.

    Attributes
    ----------
    matrix : ndarray of float64, shape (p + 1, p + 1)
        Symmetric; row and column 0 belong to the intercept.
    columns : tuple of str
        Names of the other rows and columns.
    bias : float
        Expected excess of the diagonal entries of the columns over the truth.
    fluctuation : float
        Size of the noise in operator norm, about its expectation.
    """

    matrix: Reals
    columns: tuple[str, ...]
    bias: float
    fluctuation: float

    @classmethod
    def of_product(cls, matrix: Reals, noise_variance: Reals, columns: tuple[str, ...]) -> NoisyGram:
        """Take the product of noisy rows (k, p) beside an exact column; `noise_variance` (k,) is that of an entry."""
        length, width = len(noise_variance), len(columns)
        largest = float(noise_variance.max())
        return cls(
            matrix,
            columns,
            bias=float(noise_variance.sum()),
            fluctuation=largest * (2 * math.sqrt(length * width) + width),
        )

    @classmethod
    def of_sums(cls, matrix: Reals, variance: float, columns: tuple[str, ...]) -> NoisyGram:
        """Take summed second moments, with noise of this variance on the diagonal and half of it elsewhere.

        A symmetric matrix whose off-diagonal entries have variance v/2 has norm near sqrt(v/2) 2 sqrt(p).
        """
        return cls(matrix, columns, bias=0.0, fluctuation=math.sqrt(variance / 2) * 2 * math.sqrt(len(columns) + 1))

    def smallest_eigenvalue(self, target: int, *, fit_intercept: bool) -> float:
        """Return that of the features' Gram matrix, after the intercept has been projected out where there is one."""
        features = [column for column in range(1, len(self.matrix)) if column != target + 1]
        block = self.matrix[np.ix_(features, features)]
        if fit_intercept:
            block = block - np.outer(self.matrix[features, 0], self.matrix[features, 0]) / self.matrix[0, 0]
        return float(np.linalg.eigvalsh(block)[0])

    def safe_alpha(self, target: int, *, fit_intercept: bool = True, margin: float = 1.0) -> float:
        """Return a penalty that lifts the smallest eigenvalue, which may be negative, above the noise of sums.

        The idea of adaptive SSP (Wang 2018), at no cost of budget: the noisy matrix and its noise level are public.
        """
        if self.bias:
            return 0.0
        return max(0.0, margin * self.fluctuation - self.smallest_eigenvalue(target, fit_intercept=fit_intercept))

    def debiased(self, target: int, *, fit_intercept: bool) -> NoisyGram:
        """Take the noise's expectation off the diagonal where that is safe for predicting `target`; else return self.

        Safe is a smallest eigenvalue that clearly exceeds the noise's fluctuation.
        """
        lowest = self.smallest_eigenvalue(target, fit_intercept=fit_intercept)
        if self.bias == 0 or lowest - self.bias < _CLEARLY * self.fluctuation:
            return self
        matrix = self.matrix.copy()
        columns = np.arange(1, len(matrix))
        matrix[columns, columns] -= self.bias
        return dataclasses.replace(self, matrix=matrix, bias=0.0)
