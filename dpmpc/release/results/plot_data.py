"""The numbers that plots show, as models make them; `dpmpc.app.render.plots` draws them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence


@dataclasses.dataclass(frozen=True)
class PlotData:
    """The numbers of one plot.

    Parameters
    ----------
    kind : str
        A key of `dpmpc.app.render.plots.KINDS`, whose function has the arguments.
    arguments : mapping
        Numbers and names.
    """

    kind: str
    arguments: Mapping[str, object]


@dataclasses.dataclass(frozen=True)
class Effects:
    """Coefficients of a regression, each across the public bounds of its column."""

    target: str
    spans: Mapping[str, float]  # column -> length of its public bounds
    values: Mapping[str, float]  # column -> coefficient
    intervals: Mapping[str, Sequence[float]]  # column -> lower and upper end; empty where there are none
    level: float  # of the intervals
    ratio: str | None = None  # what exp(coefficient) is the ratio of, where that is what is shown
    unpenalised: bool = False  # whether a penalty was left out
    caption: str | None = None  # in place of that of a regression


@dataclasses.dataclass(frozen=True)
class Steps:
    """A survival curve up to where it is shown, and the people at risk from the start and from each step on."""

    name: str
    times: Sequence[float]
    survival: Sequence[float]
    band: Sequence[Sequence[float]]  # lower and upper ends
    at_risk: Sequence[float]
    error: float  # the largest standard error of these numbers
