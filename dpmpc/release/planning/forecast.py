"""What a fit will show, before any data: the one form of it that every model returns and every plan prints."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from dpmpc.base.arguments import require_fraction
from dpmpc.base.errors import InputError
from dpmpc.privacy import Guarantee
from dpmpc.privacy.task import Task
from dpmpc.release.planning.prediction import Population
from dpmpc.release.results.number_tables import NumberTable

EXPLAINED = 0.5  # R^2, where nothing is assumed


@dataclasses.dataclass(frozen=True)
class Assumptions:
    """What a forecast takes people to be; None stands for what a model assumes by itself.

    Parameters
    ----------
    spread : float
        Standard deviation of a column once its bounds are scaled to [-1, 1].
    explained : float, optional
        Share of the target's variance that the features explain, or of all variance that lies in the best directions.
    mean : float, optional
        Share of ones among 0/1 targets, or the mean count.
    effect : float, optional
        Standard deviation of the linear predictor: of log odds, or of log rates.
    most : int, optional
        The largest count.
    events : float, optional
        Share of people who have the event before the upper bound of the time.
    """

    spread: float = 0.4
    explained: float | None = None
    mean: float | None = None
    effect: float | None = None
    most: int | None = None
    events: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.spread <= 1:
            raise InputError("spread", self.spread, "a number in (0, 1]")
        for name in ("explained", "events"):
            if getattr(self, name) is not None:
                require_fraction(name, getattr(self, name))

    @property
    def population(self) -> Population:
        """The columns, and how much of one the others explain."""
        return Population(self.spread, self.spread, EXPLAINED if self.explained is None else self.explained)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Forecast:
    """What is expected of a fit, from public numbers and assumptions alone.

    Attributes
    ----------
    tasks : sequence of Task
        Of the sums that the fit makes, in their order.
    guarantee : Guarantee
        Of all of them together.
    features : int
        How many columns the model reads beside its target.
    useful : bool
        Whether the fit is expected to show anything.
    why : str
        What that rests on, with the numbers: sentences.
    assumed : str
        What the numbers rest on: sentences.
    tables : sequence of NumberTable
        What is expected.
    more : sequence of NumberTable
        Further numbers: the sums, other ways to release.
    data : mapping
        The same as plain data for JSON.
    """

    tasks: Sequence[Task]
    guarantee: Guarantee
    features: int
    useful: bool
    why: str
    assumed: str
    tables: Sequence[NumberTable]
    more: Sequence[NumberTable] = ()
    data: Mapping[str, object]
