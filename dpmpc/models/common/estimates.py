"""What a fit in rounds estimates beside what predicts: coefficients without shrinkage, and the errors of contrasts."""

from __future__ import annotations

import abc
import dataclasses
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmpc.base.arrays import Reals

FEWEST = 10  # people for each coefficient, below which outer products say too little of sampling


def why_too_few(clients: int, coefficients: int) -> str | None:
    """Return why so few people give no interval, whatever their rows are; None where they may."""
    if clients >= (least := FEWEST * coefficients):
        return None
    return f"{clients} people took part, at least {least} expected for {coefficients} coefficients"


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Estimate(abc.ABC):
    """A regression without shrinkage.

    Attributes
    ----------
    coefficients : ndarray of float64, shape (p,)
        Intercept and weights.
    weak : ndarray of float64, shape (k, p)
        Along these, coefficients may move together without anything in the releases to show it.
    why : str or None
        Why no coefficient has an interval; None where they have.
    withholds : bool
        Whether an interval that rests on a bound is withheld; else it is given with a flag.
    """

    coefficients: Reals
    weak: Reals

    why: str | None = None
    withholds: ClassVar[bool] = True

    @property
    def assumption(self) -> str:
        """What an interval that rests on the bounds assumes, in a sentence; of what withholds none, nothing."""
        return ""

    @property
    @abc.abstractmethod
    def covariance(self) -> Reals | None:
        """(p, p): of all coefficients together, bounds as if they were deviations; None where none has an interval."""

    @abc.abstractmethod
    def variances(self, contrasts: Reals) -> tuple[Reals, Reals]:
        """Return the variance of each of the contrasts (m, p), and the part of it that is a bound and no estimate."""

    @abc.abstractmethod
    def in_units(self, linear: Reals, shift: Reals | float) -> Self:
        """Return the estimate of ``linear @ coefficients + shift``."""

    def identified(self, contrasts: ArrayLike) -> NDArray[np.bool_]:
        """Return, for each of the contrasts (m, p), whether its error is mostly sampling and noise."""
        rows = np.atleast_2d(np.asarray(contrasts, dtype=np.float64))
        if self.why is not None:
            return np.zeros(len(rows), dtype=np.bool_)
        variance, bound = self.variances(rows)
        return np.asarray(2 * bound <= variance)

    @property
    def shown(self) -> NDArray[np.bool_]:
        """Which coefficients have an interval that is mostly sampling and noise."""
        return self.identified(np.eye(len(self.coefficients)))

    @property
    def deviations(self) -> Reals:
        """The standard errors of all coefficients; infinite where none has an interval."""
        side = len(self.coefficients)
        if self.why is not None:
            return np.full(side, np.inf)
        return np.sqrt(self.variances(np.eye(side))[0])
