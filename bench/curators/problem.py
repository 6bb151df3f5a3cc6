"""Linear regression on rows within public bounds, and how an answer is judged; what every method is given.

A method is given the rows (x, y): x = (1, features), every column mapped from its public bounds to [-1, 1] and clipped
there, so that ``||x|| <= B = sqrt(D)`` for the D = d + 1 columns of x, and ``|y| <= C = 1``. B, C, n and D are public
and the same for all; nobody sees the data's own extremes. *Neighbouring* is replace-one: one row (x, y) becomes any
other within the bounds, n is public.

The measure is the excess risk relative to the trivial predictor, for the empirical risk R(theta) = ||X theta - y||^2:

    (R(theta) - R(least squares)) / (R(mean of y) - R(least squares)),

so 0 is least squares, 1 is the predictor that ignores the features, and what is above 1 is worse than no model.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable

import numpy as np

from bench.datasets import data_release as published
from bench.datasets.mutual_information import load_mnist_4_9
from bench.datasets.secure_sketching import ELEVATION_BOUNDS, ELEVATION_TARGET, POWER_BOUNDS, POWER_TARGET, load_power
from bench.secure_sketching.real_data import elevation
from dpmpc.base.arrays import Reals
from dpmpc.base.randomness import Stream
from dpmpc.data import Column, Schema, Table
from dpmpc.linear.noise.floating import Gaussian

DELTA = 1e-6
LARGEST_TARGET = 1.0  # C
_BLOCK = 2048  # rows: their residuals of all runs stay in the cache
_POOLED = 4  # pixels to a side of what is averaged


@dataclasses.dataclass(frozen=True)
class RegressionSet:
    """A data set, its public bounds and what is predicted."""

    name: str  # in tables
    load: Callable[[], Table]  # returns the table
    bounds: Schema  # public
    target: str  # what is predicted from all other columns
    note: str  # what a reader of the table has to know
    constant: str  # where the bounds are listed
    every: int = 1  # each so many-th row is taken, from the first on

    def problem(self, most: int | None = None) -> Problem:
        """Read and normalise the rows, the first `most` of those that are taken."""
        names = [*(name for name in self.bounds.names if name != self.target), self.target]
        rows = self.load().select(names).values[:: self.every][:most]
        return Problem(rows, self.bounds.select(names))


class Problem:
    """Rows and the least squares that is sought."""

    def __init__(self, rows: Reals, schema: Schema):
        self.rows, self.schema = rows, schema
        normalised = schema.normalise(rows)
        ends = np.array([(column.lower, column.upper) for column in schema.columns]).T
        self.outside = int(np.any((rows < ends[0]) | (rows > ends[1]), axis=1).sum())
        self.X = np.column_stack([np.ones(len(rows)), normalised[:, :-1]])
        self.y = np.ascontiguousarray(normalised[:, -1])
        both = np.column_stack([self.X, self.y])
        self.moments = both.T @ both
        self.B = math.sqrt(self.X.shape[1])
        self.best = np.linalg.lstsq(self.gram, self.moments[:-1, -1], rcond=None)[0]
        trivial = np.zeros(self.columns)
        trivial[0] = self.y.mean()
        self._unit = self._above_least(trivial)

    @property
    def clients(self) -> int:
        """The number of rows, n."""
        return len(self.y)

    @property
    def columns(self) -> int:
        """D, the intercept's column among them."""
        return int(self.X.shape[1])

    @property
    def gram(self) -> Reals:
        """X^T X, (D, D)."""
        return np.asarray(self.moments[:-1, :-1])

    @property
    def r2(self) -> float:
        """R^2 of least squares."""
        direction = np.append(self.best, -1.0)
        return 1 - float(direction @ self.moments @ direction) / (self.clients * float(self.y.var()))

    @functools.cached_property
    def by_norm(self) -> tuple[Reals, Reals, Reals]:
        """X ||x||, y ||x|| and X/||x||, row by row: the residual of the first two is the gradient along the third."""
        norms = np.sqrt(np.einsum("ij,ij->i", self.X, self.X))
        return self.X * norms[:, None], self.y * norms, self.X / norms[:, None]

    def excess(self, theta: Reals) -> Reals:
        """Return the relative excess risk of each column of theta (D, runs)."""
        found = self._above_least(theta) / self._unit
        return np.where(np.isfinite(found), found, np.inf)

    def _above_least(self, theta: Reals) -> Reals:
        """Return R(theta) - R(best), which is (theta - best)^T X^T X (theta - best) by the normal equations."""
        away = (theta.T - self.best).T
        with np.errstate(all="ignore"):
            return np.asarray(np.einsum("i...,ij,j...->...", away, self.gram, away))

    def scores(self, theta: Reals, most: float | Reals, *, whole_gradient: bool = False) -> Reals:
        """Return the sums over the rows of x times the clipped residual, for each column of theta."""
        X, y, along = self.by_norm if whole_gradient else (self.X, self.y, self.X)
        total = np.zeros_like(theta)
        for first in range(0, self.clients, _BLOCK):
            block = slice(first, first + _BLOCK)
            residual = X[block] @ theta
            np.subtract(y[block, None], residual, out=residual)
            np.clip(residual, -most, most, out=residual)
            total += along[block].T @ residual
        return total


@dataclasses.dataclass
class Fits:
    """What a method returned over its runs."""

    theta: Reals  # (D, runs): in normalised units
    failed: int = 0  # runs without an answer; theta is 0 there
    told: str = ""  # what was chosen for this cell: steps, sizes


def normal(stream: Stream, sigma: float, *shape: int) -> Reals:
    """Draw N(0, sigma^2)."""
    return np.asarray(Gaussian(sigma).sample(shape, stream=stream))


def symmetric(stream: Stream, sigma: float, side: int, runs: int) -> Reals:
    """Draw symmetric matrices, (runs, side, side), of sigma on the diagonal and sigma/sqrt(2) off it."""
    upper = np.triu(normal(stream, sigma / math.sqrt(2), runs, side, side))
    return np.asarray(upper + upper.transpose(0, 2, 1) - (2 - math.sqrt(2)) * upper * np.eye(side))


def digits() -> Table:
    """Read MNIST's fours and nines, pixels averaged over squares of four by four, a public map; the label last."""
    images, labels = load_mnist_4_9()
    side = 28 // _POOLED
    pooled = images.reshape(-1, side, _POOLED, side, _POOLED).mean(axis=(2, 4)).reshape(len(images), -1)
    return Table(DIGITS_BOUNDS.names, np.column_stack([pooled, labels]))


DIGITS_BOUNDS = Schema(
    (*(Column(f"square_{number}", 0, 1) for number in range((28 // _POOLED) ** 2)), Column("four", -1, 1))
)

SETS = (
    RegressionSet(
        "Insurance",
        published.load_insurance,
        published.INSURANCE_BOUNDS,
        published.INSURANCE_TARGET,
        "whole; four regions add up to the intercept's column",
        "INSURANCE_BOUNDS",
    ),
    RegressionSet(
        "Elevation",
        elevation,
        ELEVATION_BOUNDS,
        ELEVATION_TARGET,
        "the first 5,000 rows of 434,874, which are a few roads and no sample",
        "ELEVATION_BOUNDS",
    ),
    RegressionSet(
        "MNIST 4/9",
        digits,
        DIGITS_BOUNDS,
        "four",
        "pixels averaged over 4 x 4, each in [0, 1]; the label is -1 or 1",
        "bench.curators.problem.DIGITS_BOUNDS",
    ),
    RegressionSet("Bike", published.load_bike, published.BIKE_BOUNDS, published.BIKE_TARGET, "whole", "BIKE_BOUNDS"),
    RegressionSet(
        "Superconduct",
        published.load_superconduct,
        published.SUPERCONDUCT_BOUNDS,
        published.SUPERCONDUCT_TARGET,
        "the 19,475 rows of 21,263 whose target is at hand; 81 features that nearly depend on each other",
        "SUPERCONDUCT_BOUNDS",
    ),
    RegressionSet(
        "Power",
        load_power,
        POWER_BOUNDS,
        POWER_TARGET,
        "every fortieth minute of 2,049,280",
        "POWER_BOUNDS",
        every=40,
    ),
    RegressionSet(
        "SGEMM",
        published.load_sgemm,
        published.SGEMM_BOUNDS,
        published.SGEMM_TARGET,
        "every fifth of 241,600; the logarithm of the run time",
        "SGEMM_BOUNDS",
        every=5,
    ),
)
