"""Before any data: how long the intervals of a linear fit in rounds will be, by public numbers and a guess of columns.

The reading of `dpmpc.models.rounds.linear_reading` is applied to what is expected of the sums. On the scale [-1, 1] the
features have means m and a covariance C (`AssumedColumns`), so that N = n (u u^T + C) with u = (1, m). A target with a
standard deviation of 0.3 has residuals with the variance 0.045 and slopes |theta|^2 = 0.25, another one in proportion
to its variance; J = 0.045 N and R = 2. With the standard deviations sd and sd_J of the noise in the two sums, as the
fit's own tasks have them, K, P and D as in the reading, and k = K e_j for coefficient j,

    S^2 = sd^2 / 2 (1 + t) |k|^2 + D,    t = min(1, 0.25 + sum of all S^2 + 0.5 for each direction that is not seen),
    B = L max_i |P_ij|,                  L = max(1, sqrt(0.25 times the seen directions but one)),

written here for the usual target. The half-width is z sqrt((1.15 S)^2 + B^2), and the interval rests on the bounds
where B > S. The factor 1.15 is one of experience: `tests/models/test_forecast.py` holds settings to a factor of 1.5.

With private bounds m and C are those within the bounds that Gaussian columns will get; half-widths are for the declared
range all the same.

Not promised: a forecast of variables that are linked with one another, or have long tails: their intervals are longer.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import NDArray

from dpmpc.base.arguments import require_fraction, require_positive
from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.models.common.inference import normal_quantile
from dpmpc.models.common.releases import Releases
from dpmpc.models.rounds.assumed_columns import USUAL_TARGET, AssumedColumns
from dpmpc.models.rounds.fit import AUTO, shares_of, steps_of
from dpmpc.models.rounds.linear_reading import LinearEstimate
from dpmpc.models.rounds.models import LeastSquares
from dpmpc.models.rounds.private_bounds import within_private_bounds
from dpmpc.release.planning.prediction import smallest

SPREADS = (0.3, 0.1)  # of columns, in half-ranges, where nothing better is known
USEFUL = 0.25  # ranges of the target: an interval of a wider reach either way tells little
_RESIDUAL, _SLOPES, _REACH, _LONGER = 0.045, 0.25, 2.0, 1.15  # the first two of the usual target
_ITERATIONS = 30
_MOST_PEOPLE = 1 << 40


@dataclasses.dataclass(frozen=True)
class SlopesForecast:
    """What the intervals of slopes are expected to be.

    Attributes
    ----------
    half_widths : ndarray of float64, shape (d,)
        Ranges of the target, for a move over the whole range of the column.
    on_bounds : ndarray of bool, shape (d,)
        Whether the interval will rest on the bounds.
    """

    half_widths: Reals
    on_bounds: NDArray[np.bool_]

    @property
    def useful(self) -> bool:
        """Whether some interval will rest on the sums."""
        return not bool(self.on_bounds.all())


@dataclasses.dataclass(frozen=True)
class SumsNoise:
    """The public numbers of a linear fit in rounds that a forecast rests on.

    Attributes
    ----------
    clients : int
        n.
    first, second : float
        sd and sd_J: standard deviations of the noise on the diagonal of the second moments, and in the second sum in
        units of R^2.
    private_bounds : bool
        Whether counts come first that narrow the bounds of columns.
    """

    clients: int
    first: float
    second: float
    private_bounds: bool = False

    @classmethod
    def of(cls, releases: Releases, rounds: int | str = AUTO, *, private_bounds: bool = False) -> SumsNoise:
        """Read them from the tasks that a fit in so many steering rounds would ask for."""
        model, side = LeastSquares(), releases.columns
        steps = steps_of(model, rounds, releases.clients, intervals=True)
        shares = shares_of(model, steps, intervals=True, private_bounds=private_bounds)
        second = model.last(np.ones(side), np.zeros(side), 0.0)
        tasks = releases.task(shares.first), releases.task(shares.last[0], second)
        first, later = (math.sqrt(float(task.noise_variance[0])) for task in tasks)
        return cls(releases.clients, first, later, private_bounds)

    def forecast(self, columns: AssumedColumns, level: float = 0.95) -> SlopesForecast:
        """Return what is expected of such columns."""
        means, covariance, target = columns.means, columns.covariance, columns.target
        length = np.ones(len(means) + 1)  # of the bounds that count, in declared ones
        if self.private_bounds:
            spreads = np.append(columns.spreads, target)
            shifted, spreads, length = within_private_bounds(np.append(means, 0.0), spreads)
            means, target = shifted[:-1], float(spreads[-1])
            covariance = covariance / np.outer(length[:-1], length[:-1])
        residual, slopes = (usual * (target / USUAL_TARGET) ** 2 for usual in (_RESIDUAL, _SLOPES))
        u, z = np.append(1.0, means), normal_quantile((1 + require_fraction("level", level)) / 2)
        moments = self.clients * np.outer(u, u)
        moments[1:, 1:] += self.clients * covariance
        estimate = LinearEstimate.of(
            moments,
            self.first,
            np.zeros(len(u)),
            residual=residual,
            J=residual * moments,
            deviation=self.second * _REACH**2,
        )
        unseen = len(estimate.weak)
        largest = max(1.0, math.sqrt(slopes * (len(means) - unseen)))
        bounds = largest * np.max(np.abs(estimate.hidden), axis=0)
        k2, sampling = np.sum(estimate.inverse**2, axis=0), estimate.sampling(estimate.inverse)
        size, squares = slopes, sampling
        for _ in range(_ITERATIONS):
            squares = self.first**2 / 2 * (1 + size) * k2 + sampling
            size = min(1.0, slopes + float(squares[1:].sum()) + 0.5 * unseen)
        half_widths = z * np.sqrt(_LONGER**2 * squares + bounds**2)[1:]
        return SlopesForecast(half_widths * length[-1] / length[:-1], (bounds**2 > squares)[1:])

    def alike(self, features: int, spread: float, level: float = 0.95) -> SlopesForecast:
        """Return the same of so many features with a mean of 0 and one standard deviation."""
        return self.forecast(AssumedColumns.alike(features, spread), level)


def people_for(noise: SumsNoise, columns: AssumedColumns, half_width: float = USEFUL) -> int | None:
    """Return from how many people on all intervals of such columns are that short; None if 10^12 are too few.

    The noise is that of so many people as are planned now: the budget and delta stay.
    """
    require_positive("half_width", half_width)

    def short(people: int) -> bool:
        forecast = dataclasses.replace(noise, clients=people).forecast(columns)
        return forecast.useful and float(forecast.half_widths.max()) <= half_width

    return smallest(short, 0, _MOST_PEOPLE) if short(_MOST_PEOPLE) else None


def require_useful_intervals(releases: Releases, rounds: int | str = AUTO, *, private_bounds: bool = False) -> str:
    """Return what to expect of the intervals of a linear fit in rounds, in a line.

    A fit whose intervals are all expected to rest on the bounds is refused; nothing is spent.

    Raises
    ------
    InputError
        With what would give intervals.
    """
    noise = SumsNoise.of(releases, rounds, private_bounds=private_bounds)
    features, spread = releases.columns - 1, max(SPREADS)
    columns = AssumedColumns.of(releases.schema, spread)
    found = noise.forecast(columns)
    assumed = f"spread {'as the bounds state or ' if columns.stated else ''}by {spread:g} of half their bounds"
    if found.useful:
        least, most = float(found.half_widths.min()), float(found.half_widths.max())
        reach = f"± {least:.2g} to ± {most:.2g}" if columns.stated else f"± {least:.2g}"
        return f"95% intervals of {reach} ranges of the target are expected, where columns are {assumed}"
    needed = people_for(noise, columns)
    raise InputError(
        "rows",
        f"{releases.clients:,} given, of whom every interval of {features} slopes is expected to rest on "
        f"the bounds, {'' if columns.stated else 'even '}where columns are {assumed}. Nothing was spent. "
        f"{'More' if needed is None else f'About {needed:,}'} people, a larger epsilon, fewer features or "
        "narrower bounds would give intervals; --predict-only fits a prediction alone, --anyway all the "
        "same",
    )
