"""What a model has found: tables, notes, the numbers of its plots, and plain data.

Promised: nothing here depends on a model, so that a new one needs no line here. Not promised: that a result is a
function of releases alone; its maker states that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from dpmpc.base.arguments import require_fraction
from dpmpc.base.errors import InputError
from dpmpc.privacy import Guarantee
from dpmpc.release.results.estimates import Contrast, Estimates, Frame, frame
from dpmpc.release.results.number_tables import NumberTable
from dpmpc.release.results.plot_data import PlotData

#: The numbers of plots, by what they show; each is computed when it is called.
Plots: TypeAlias = Mapping[str, Callable[[], PlotData]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """What a model, or a description without one, shows; it prints as text.

    Attributes
    ----------
    model : str or None
        As in `dpmpc fit --model`; None where no model was asked for.
    title : str
        What was fitted; empty without a model.
    tables : sequence of NumberTable
        The numbers; none where a verdict states that there are none to rely on.
    notes, warnings : sequence of str
        What else there is to note, and what to be careful about.
    verdict : str or None
        Why nothing was learned.
    plots : mapping
        Name -> what computes the numbers of a plot.
    data : mapping
        The numbers and texts for programs, as plain data.
    parameters : mapping
        Those of the estimator.
    estimator : str
        Its name in Python.
    chosen : mapping
        What its `fit_release` was given with the release.
    features : int or None
        How many columns were used; None where all were.
    level : float
        Nominal coverage of the intervals.
    estimates : callable, optional
        ``estimates(level)`` returns the estimates with intervals of a level; None of a model that has none.
    guarantee : Guarantee, optional
        What the releases behind the result promise together.

    Examples
    --------
    >>> import numpy as np
    >>> from dpmpc import RidgeRegression
    >>> X = np.random.default_rng(0).uniform(-1, 1, (20_000, 1))
    >>> result = RidgeRegression(bounds=(-1, 1), simulation_seed=1).fit(X, X[:, 0] / 2).result()
    >>> round(result.params["x0"], 1)
    0.5
    >>> low, high = result.conf_int(0.99)["x0"]
    >>> bool(low < 0.5 < high)
    True
    >>> round(result.contrast({"x0": 2.0}).estimate, 1)
    1.0
    """

    model: str | None = None
    title: str = ""
    tables: Sequence[NumberTable] = ()
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()
    verdict: str | None = None
    plots: Plots = dataclasses.field(default_factory=dict)
    data: Mapping[str, object] = dataclasses.field(default_factory=dict)
    parameters: Mapping[str, object] = dataclasses.field(default_factory=dict)
    estimator: str = ""
    chosen: Mapping[str, object] = dataclasses.field(default_factory=dict)
    features: int | None = None
    level: float = 0.95
    estimates: Callable[[float], Estimates] | None = None
    guarantee: Guarantee | None = None

    @property
    def params(self) -> dict[str, float]:
        """The estimates by name, in the units of the table; NaN where nothing is identified."""
        found = self._estimates()
        return dict(zip(found.names, found.values.tolist(), strict=True))

    @property
    def bse(self) -> dict[str, float]:
        """Their standard errors; infinite or NaN where nothing is identified."""
        found = self._estimates()
        return dict(zip(found.names, found.errors.tolist(), strict=True))

    def conf_int(self, level: float | None = None) -> dict[str, tuple[float, float]]:
        """Return the interval of each estimate.

        Parameters
        ----------
        level : float, optional
            Nominal coverage, strictly between 0 and 1; that of the result by default.
        """
        found = self._estimates(level)
        return {name: (low, high) for name, (low, high) in zip(found.names, found.intervals.tolist(), strict=True)}

    def contrast(self, weights: Mapping[str, float], level: float | None = None) -> Contrast:
        """Return a sum of coefficients times weights: ``{"x0": 1, "x1": -1}`` is a difference.

        It may be identified where its coefficients are not.

        Parameters
        ----------
        weights : mapping of str to float
            By the names of `params`.
        level : float, optional
            Nominal coverage, strictly between 0 and 1; that of the result by default.

        Raises
        ------
        InputError
            If a name is none of these, or the model does not state how its estimates vary together.
        """
        found = self._estimates(level)
        if found.contrast is None:
            raise InputError("weights", f"given of a {self.model} model, which has no covariance of its estimates")
        return found.contrast(weights)

    def tidy(self, level: float | None = None) -> Frame:
        """Return, by estimate: term, estimate, std_error, statistic, p_value, conf_low, conf_high and on_bounds.

        Parameters
        ----------
        level : float, optional
            Nominal coverage of the intervals, strictly between 0 and 1; that of the result by default.

        Returns
        -------
        pandas.DataFrame or dict of ndarray
            A data frame where pandas is installed, otherwise the columns by name.
        """
        return frame(self._estimates(level).columns)

    def glance(self) -> Frame:
        """Return one row about the model as a whole: what it is, of how many people, at what price.

        Returns
        -------
        pandas.DataFrame or dict of ndarray
            A data frame where pandas is installed, otherwise the columns by name.
        """
        promised = self.guarantee
        facts = {
            "model": self.model,
            "target": self.data.get("target"),
            "clients": None if promised is None else promised.clients,
            "epsilon": None if promised is None else promised.epsilon,
            "delta": None if promised is None else promised.delta,
            "r_squared": self.data.get("r_squared"),
            "verdict": self.verdict,
        }
        return frame({name: np.array([value], dtype=object) for name, value in facts.items()})

    def _estimates(self, level: float | None = None) -> Estimates:
        """Return the estimates with intervals of a level, that of the result by default."""
        chosen = self.level if level is None else require_fraction("level", level)
        if self.estimates is None:
            raise InputError("estimates", f"none in a result of {self.model or 'a release'}, which has no coefficients")
        return self.estimates(chosen)

    def __str__(self) -> str:
        """Return the text that a person reads."""
        parts = [] if self.verdict is None else [f"Verdict. {self.verdict}"]
        return "\n\n".join([*parts, *map(str, self.tables), *(["\n".join(self.notes)] if self.notes else [])])

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain data for JSON; without a model the numbers stand by themselves."""
        told: dict[str, object] = {"warnings": list(self.warnings)}
        if self.model is None:
            return {**self.data, **told}
        return {"model": self.model, "parameters": dict(self.parameters), **told, "result": dict(self.data)}

    def _repr_html_(self) -> str:
        return "".join(table.to_html() for table in self.tables)
