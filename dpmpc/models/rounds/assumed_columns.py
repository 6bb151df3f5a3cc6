"""Before any data: means and covariance of columns, as the bounds state them or as they are assumed.

A number that has `typical` is the Gaussian that it stands for. The values of a category are equally frequent and those
of a spline evenly spread, so that their columns are linked as far as this alone links them. All else has a mean of 0
and one spread. Columns of different variables are not linked.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from dpmpc.base.arguments import require_positive
from dpmpc.base.arrays import Reals
from dpmpc.data import Schema
from dpmpc.release.planning.prediction import Population

USUAL_TARGET = 0.3  # standard deviation of a target, in half-ranges


@dataclasses.dataclass(frozen=True, eq=False)
class AssumedColumns:
    """What the columns of people are taken to be, on the scale [-1, 1].

    Attributes
    ----------
    means : ndarray of float64, shape (d,)
        Of the features.
    covariance : ndarray of float64, shape (d, d)
        Of the features.
    target : float
        Standard deviation of the target.
    stated : bool
        Whether the bounds state more of some column than its ends.
    """

    means: Reals
    covariance: Reals
    target: float = USUAL_TARGET
    stated: bool = False

    @classmethod
    def alike(cls, features: int, spread: float) -> AssumedColumns:
        """Return so many features with a mean of 0 and one standard deviation, none linked with another."""
        require_positive("spread", spread, 1.0)
        return cls(np.zeros(features), spread**2 * np.eye(features))

    @classmethod
    def of(cls, public: Schema, spread: float) -> AssumedColumns:
        """Return the features of a schema whose target is last; where nothing is stated they have this spread."""
        found = cls.alike(len(public) - 1, spread)
        means, covariance, target, stated = found.means, found.covariance, USUAL_TARGET, False
        places = {name: place for place, name in enumerate(public.names)}
        for variable in public.variables:
            at = [
                places[column.name] for column in variable.term.columns[: variable.term.shown] if column.name in places
            ]
            if (law := variable.expected()) is not None and at:
                stated = True
                if at[0] == len(means):
                    target = min(law[1], 1.0)
                else:
                    means[at[0]], covariance[at[0], at[0]] = law[0], law[1] ** 2
            elif (
                len(at) == variable.term.shown
                and (values := variable.even_values()) is not None
                and len(means) not in at
            ):
                stated = True  # on the scale [-1, 1] already
                means[at], covariance[np.ix_(at, at)] = values.mean(axis=0), np.atleast_2d(np.cov(values.T, bias=True))
        return cls(means, covariance, target, stated)

    @property
    def spreads(self) -> Reals:
        """Standard deviations of the features (d,)."""
        return np.sqrt(np.diag(self.covariance))

    def population(self, explained: float) -> Population:
        """Return a population whose one spread stands for those of all features.

        Noise moves a prediction by the sum of 1/v over the features (`Regression.of_moments`), so that the variance v
        of all is the harmonic mean.
        """
        alike = float(np.mean(self.spreads**-2)) ** -0.5
        return Population(min(alike, 1.0), self.target, explained)
