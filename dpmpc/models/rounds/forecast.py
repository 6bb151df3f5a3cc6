"""Before any data: how long the intervals of a linear fit in rounds will be, by public numbers and a guess of columns.

On the scale [-1, 1] a column has a mean m and a variance v. A target with a standard deviation of 0.3 has residuals
with the variance 0.045 and slopes |theta|^2 = 0.25, another one in proportion to its variance; R = 2. With the standard
deviations sd and sd_J of the noise in the two sums, as the fit's own tasks have them,

    k2 = (1 + m^2) / (n v)^2,    k1 = (1 + |m|) / (n v),    even = 0.045 / (n v),
    D = max(even, min(even + sd_J R^2 k2 / sqrt(2), 0.045 n k1^2)),
    S^2 = sd^2 / 2 (1 + t) k2 + D,    t = min(1, 0.25 + sum of all S^2 + 0.5 for each weak column),

written here for the usual target, and the half-width is 1.15 z S. A column is weak if n v / (1 + m^2) < sd sqrt(p / 2):
its interval will rest on the bounds, and is z / (1 + m^2) at least. The factor 1.15 is one of experience:
`tests/models/test_forecast.py` holds seven settings to a factor of 1.5.

With private bounds m and v are those within the bounds that a Gaussian column will get; half-widths are for its
declared range all the same. Where a column of the bounds has `typical`, m and v are those that it stands for, and so
is the standard deviation of the target.

Not promised: a forecast of columns that are linked with one another, or have long tails: their intervals are longer.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import NDArray

from dpmpc.base.arguments import require_fraction, require_positive
from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.data import Schema
from dpmpc.models.common.inference import normal_quantile
from dpmpc.models.common.releases import Releases
from dpmpc.models.rounds.fit import AUTO, shares_of, steps_of
from dpmpc.models.rounds.models import LeastSquares
from dpmpc.models.rounds.private_bounds import within_private_bounds
from dpmpc.release.planning.prediction import Population, smallest

SPREADS = (0.3, 0.1)  # of columns, in half-ranges, where nothing better is known
USEFUL = 0.25  # ranges of the target: an interval of a wider reach either way tells little
USUAL_TARGET = 0.3  # standard deviation of a target, in half-ranges
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

    def forecast(
        self, means: Reals, spreads: Reals, target: float = USUAL_TARGET, level: float = 0.95
    ) -> SlopesForecast:
        """Return what is expected of features (d,) and a target with these means and deviations, on [-1, 1]."""
        columns = np.append(spreads, target)
        length = np.ones(len(columns))  # of the bounds that count, in declared ones
        if self.private_bounds:
            shifted, columns, length = within_private_bounds(np.append(means, 0.0), columns)
            means = shifted[:-1]
        spreads, part = columns[:-1], (float(columns[-1]) / USUAL_TARGET) ** 2
        residual, slopes = _RESIDUAL * part, _SLOPES * part
        n, z = self.clients, normal_quantile((1 + require_fraction("level", level)) / 2)
        v, side = spreads**2, len(means) + 1
        k2, k1, even = (1 + means**2) / (n * v) ** 2, (1 + np.abs(means)) / (n * v), residual / (n * v)
        sandwich = even + self.second * _REACH**2 * k2 / math.sqrt(2)
        sampling = np.maximum(even, np.minimum(sandwich, residual * n * k1**2))
        weak = n * v / (1 + means**2) < self.first * math.sqrt(side / 2)
        size, squares = slopes, sampling
        for _ in range(_ITERATIONS):
            squares = self.first**2 / 2 * (1 + size) * k2 + sampling
            size = min(1.0, slopes + float(squares[~weak].sum()) + 0.5 * int(weak.sum()))
        half_widths = np.where(weak, z / (1 + means**2), _LONGER * z * np.sqrt(squares))
        return SlopesForecast(np.minimum(half_widths, z) * length[-1] / length[:-1], weak)

    def alike(self, features: int, spread: float, level: float = 0.95) -> SlopesForecast:
        """Return the same of so many features with a mean of 0 and one standard deviation."""
        return self.forecast(*alike(features, spread), level=level)


def alike(features: int, spread: float) -> tuple[Reals, Reals, float]:
    """Return means of 0 and one standard deviation for so many features, and the usual one of the target."""
    require_positive("spread", spread, 1.0)
    return np.zeros(features), np.full(features, spread), USUAL_TARGET


def typical(public: Schema, spread: float) -> tuple[Reals, Reals, float] | None:
    """Return means and deviations (d,) of the features of a schema, and the deviation of its last column, on [-1, 1].

    They are those that `typical` in the bounds stands for; features without it have a mean of 0 and this spread. None
    if no column has it.
    """
    known = {one.term.columns[0].name: law for one in public.variables if (law := one.expected()) is not None}
    if not known.keys() & set(public.names):
        return None
    laws = np.array([known.get(name, (0.0, spread)) for name in public.names[:-1]])
    return laws[:, 0], laws[:, 1], min(known.get(public.names[-1], (0.0, USUAL_TARGET))[1], 1.0)


def typical_population(public: Schema, assumed: Population) -> Population | None:
    """Return a population whose one spread stands for those of a schema's features, or None if `typical` names none.

    Noise moves a prediction by the sum of 1/v over the features (`Regression.of_moments`), so that the variance v of
    all is the harmonic mean.
    """
    if (laws := typical(public, assumed.spread)) is None:
        return None
    _, spreads, target = laws
    return Population(min(float(np.mean(spreads**-2)) ** -0.5, 1.0), target, assumed.explained)


def people_for(
    noise: SumsNoise, means: Reals, spreads: Reals, target: float = USUAL_TARGET, half_width: float = USEFUL
) -> int | None:
    """Return from how many people on all intervals of such features are that short; None if 10^12 are too few.

    The noise is that of so many people as are planned now: the budget and delta stay.
    """
    require_positive("half_width", half_width)

    def short(people: int) -> bool:
        forecast = dataclasses.replace(noise, clients=people).forecast(means, spreads, target)
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
    known = typical(releases.schema, spread)
    laws = known or alike(features, spread)
    found = noise.forecast(*laws)
    assumed = "as typical" if known else f"spread by {spread:g} of half their bounds"
    if found.useful:
        least, most = float(found.half_widths.min()), float(found.half_widths.max())
        reach = f"± {least:.2g}" if known is None else f"± {least:.2g} to ± {most:.2g}"
        return f"95% intervals of {reach} ranges of the target are expected, where columns are {assumed}"
    needed = people_for(noise, *laws)
    raise InputError(
        f"rows: {releases.clients:,} given, of whom every interval of {features} slopes is expected to rest on the "
        f"bounds, {'' if known else 'even '}where columns are {assumed}. Nothing was spent. "
        f"{'More' if needed is None else f'About {needed:,}'} people, a larger epsilon, fewer features or narrower "
        "bounds would give intervals; --predict-only fits a prediction alone, --anyway all the same"
    )
