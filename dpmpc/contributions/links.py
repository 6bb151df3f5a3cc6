"""How a model's target depends on its linear predictor: what scores and their curvature are made of.

A link turns a client's target t, on the normalised scale [-1, 1], and eta = theta . v into a residual and a curvature,
both in units in which they are bounded whatever the row is: |residual| <= 1, 0 <= curvature <= `steepest`. From those
bounds alone follows by how much one client moves a sum of scores (docs/mathematics.md, section 12).
"""

from __future__ import annotations

import abc
import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmpc.arguments import require_positive, require_whole
from dpmpc.storage import Described, rebuilt

Reals = NDArray[np.float64]

MOST_COUNTS = 4096  # of a Poisson target: everybody makes a table of so many by `_MEANS` probabilities
_LEAST_MEAN, _MEANS = 1e-4, 600


class Link(Described):
    """What a score is made of.

    Attributes
    ----------
    squared_sensitivity : float
        By how much the squared norm of score, outer product and curvature moves, in the weights below.
    curvature_weight : float
        What the curvature is multiplied by beside a score of norm at most 1.
    steepest : float
        The largest curvature.
    reach, slope : float
        A residual of 1 and a curvature of 1, in the target's units.
    """

    name: str
    squared_sensitivity = 17 / 4  # Theorem 3 of docs/mathematics.md, section 12
    curvature_weight = 0.5
    steepest = 1.0
    reach: float = 1.0
    slope: float = 1.0

    @abc.abstractmethod
    def residual_and_curvature(self, target: Reals, eta: Reals) -> tuple[Reals, Reals]:
        """Return both (m,), within their bounds, for targets in [-1, 1]."""

    @abc.abstractmethod
    def expected_curvature(self, eta: Reals) -> Reals:
        """Return the curvature that the model itself expects at eta, in the target's units."""

    def parameters(self) -> dict[str, Any]:
        """Return the arguments that make an equal link, fit for JSON."""
        return {}

    def describe(self) -> dict[str, Any]:
        """Return the public facts that `link_from` rebuilds this from."""
        return {"name": self.name, **self.parameters()}


class Logistic(Link):
    """A target between 0 (t = -1) and 1 (t = 1), whose mean is q = 1 / (1 + exp(-eta)).

    The curvature q (1 - q) is small where a residual is near 1: that is why it costs nothing beside the score
    (docs/mathematics.md, section 12, Theorem 2).
    """

    name = "logistic"
    squared_sensitivity = 4.0
    curvature_weight = math.sqrt(21)
    steepest = 0.25

    def residual_and_curvature(self, target: Reals, eta: Reals) -> tuple[Reals, Reals]:
        """Return y - q and q (1 - q)."""
        q = sigmoid(eta)
        return np.clip((target + 1) / 2, 0.0, 1.0) - q, q * (1 - q)

    def expected_curvature(self, eta: Reals) -> Reals:
        """Return q (1 - q)."""
        q = sigmoid(eta)
        return np.asarray(q * (1 - q))


class Identity(Link):
    """A number t, whose mean is eta; residuals are clipped (Huber 1964).

    Parameters
    ----------
    limit : float
        Where residuals are clipped, on the normalised scale.
    """

    name = "identity"

    def __init__(self, limit: float):
        self.limit = self.reach = require_positive("limit", limit, 1e6)

    def parameters(self) -> dict[str, Any]:
        """Return the limit."""
        return {"limit": self.limit}

    def residual_and_curvature(self, target: Reals, eta: Reals) -> tuple[Reals, Reals]:
        """Return the clipped residual and ones."""
        return np.clip((target - eta) / self.limit, -1.0, 1.0), np.ones_like(eta)

    def expected_curvature(self, eta: Reals) -> Reals:
        """Return ones."""
        return np.ones_like(eta)


class Poisson(Link):
    """A count from 0 (t = -1) to `top` (t = 1), whose mean is m = exp(eta).

    The residual is clip(y - m, -c, c) less its expectation under the model, for counts capped at `top` (Cantoni and
    Ronchetti 2001): bounded, and without bias where the model holds.

    Parameters
    ----------
    top : int
        Public upper bound of the counts.
    limit : float
        c, at least 1.
    """

    name = "poisson"

    def __init__(self, top: int, limit: float):
        self.top = require_whole("top", top, 1, MOST_COUNTS)
        self.limit = require_positive("limit", limit, float(MOST_COUNTS))
        self.slope = min(float(self.top), 4 * self.limit)
        self.reach = float(self.limit + np.abs(self._table[1]).max())

    def parameters(self) -> dict[str, Any]:
        """Return the upper bound and the limit."""
        return {"top": self.top, "limit": self.limit}

    def residual_and_curvature(self, target: Reals, eta: Reals) -> tuple[Reals, Reals]:
        """Return the centred, clipped residual and Cov(clip(y - m), y), in units of their bounds."""
        grid, mean, covariance = self._table
        logarithm = np.clip(eta, grid[0], grid[-1])
        residual = np.clip(self.top * (target + 1) / 2 - np.exp(logarithm), -self.limit, self.limit)
        residual -= np.interp(logarithm, grid, mean)
        curvature = np.interp(logarithm, grid, covariance)
        return np.clip(residual / self.reach, -1.0, 1.0), np.clip(curvature / self.slope, 0.0, 1.0)

    def expected_curvature(self, eta: Reals) -> Reals:
        """Return the curvature that clients would send."""
        return self.residual_and_curvature(np.zeros_like(eta), eta)[1] * self.slope

    @functools.cached_property
    def _table(self) -> tuple[Reals, Reals, Reals]:
        """At logarithms of means: E clip(Y - m) and Cov(clip(Y - m), Y), for Poisson counts Y capped at `top`."""
        grid = np.linspace(math.log(_LEAST_MEAN), math.log(self.top), _MEANS)
        counts = np.arange(self.top + 1)
        factorials = np.cumsum(np.log(np.maximum(counts, 1)))
        chances = np.exp(np.outer(grid, counts) - np.exp(grid)[:, None] - factorials)
        chances[:, -1] += np.maximum(0.0, 1 - chances.sum(axis=1))
        deviations = counts - np.exp(grid)[:, None]
        clipped = chances * np.clip(deviations, -self.limit, self.limit)
        return grid, clipped.sum(axis=1), np.einsum("ij,ij->i", clipped, deviations)


def sigmoid(eta: Reals) -> Reals:
    """Return 1 / (1 + exp(-eta)), without overflow and within [0, 1]."""
    return np.asarray(0.5 * (1 + np.tanh(0.5 * eta)))


LINKS: dict[str, type[Link]] = {kind.name: kind for kind in (Logistic, Identity, Poisson)}
"""What saved scores may name."""


def link_from(description: Mapping[str, Any]) -> Link:
    """Rebuild a link from `Link.describe`."""
    return rebuilt("link", LINKS, description)
