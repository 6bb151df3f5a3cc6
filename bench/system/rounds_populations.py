"""Populations whose regressions are known, and what a logistic regression in rounds estimates where its model is wrong.

Features are in [-1, 1]; a row is the features and then the target, in the units of `Population.schema`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable

import numpy as np
import scipy.stats

from dpmpc.base.arrays import Reals
from dpmpc.data import Column, Schema
from dpmpc.linear.contributions.scores import sigmoid

Draw = Callable[[int, int, np.random.Generator], Reals]
Law = Callable[[int, np.random.Generator], Reals]
Spread = Callable[[Reals], Reals]

MOST = 20  # public upper bound of the counts
_MEAN_WEALTH = (1 / 2 - 0.2 / 6) * math.exp(1.1**2 / 2)
RESIDUAL = 0.2  # standard deviation of a number about its mean
_EFFECTS = (0.8, -0.5, 0.3, 0.0, 0.6, -0.2, 0.4, 0.0, 0.5, -0.3)
_PEOPLE = 2_000_000  # stand for the population of a linear model
_POINTS = 13  # 2^13 points of Sobol's sequence stand for the population


def uniform(rows: int, features: int, rng: np.random.Generator) -> Reals:
    """Draw independent features."""
    return rng.uniform(-1, 1, (rows, features))


def correlated(rows: int, features: int, rng: np.random.Generator) -> Reals:
    """Draw Gaussian features, clipped at three standard deviations, with correlations of .8 to the distance."""
    root = np.linalg.cholesky(0.8 ** np.abs(np.subtract.outer(np.arange(features), np.arange(features))))
    return np.clip(rng.standard_normal((rows, features)) @ root.T / 3, -1, 1)


def skewed(rows: int, features: int, rng: np.random.Generator) -> Reals:
    """Draw features of two values, one of which has 5 to 50 %."""
    return np.where(rng.random((rows, features)) < np.linspace(0.05, 0.5, features), 1.0, -1.0)


def loose(rows: int, features: int, rng: np.random.Generator) -> Reals:
    """Draw a lognormal feature up to 50, an exponential one up to 10, and normal ones up to 4 deviations."""
    X = rng.standard_normal((rows, features)).clip(-4, 4) / 4
    X[:, 0] = np.exp(rng.standard_normal(rows)).clip(0, 50) / 25 - 1
    X[:, 1] = rng.exponential(1.0, rows).clip(0, 10) / 5 - 1
    return X


def rare(rows: int, features: int, rng: np.random.Generator) -> Reals:
    """Draw features of two values, of which one has 1 %."""
    return np.where(rng.random((rows, features)) < 0.01, 1.0, -1.0)


def pareto(rows: int, features: int, rng: np.random.Generator) -> Reals:
    """Draw a Pareto feature of exponent 1.5 up to 100, and uniform ones."""
    X = rng.uniform(-1, 1, (rows, features))
    X[:, 0] = (rng.pareto(1.5, rows) + 1).clip(1, 100) / 50 - 1
    return X


def pair(rows: int, features: int, rng: np.random.Generator) -> Reals:
    """Draw Gaussian features of which the first two have a correlation of .99."""
    X = rng.standard_normal((rows, features))
    X[:, 1] = 0.99 * X[:, 0] + math.sqrt(1 - 0.99**2) * X[:, 1]
    return np.clip(X / 3, -1, 1)


def tight(rows: int, features: int, rng: np.random.Generator) -> Reals:
    """Draw Gaussian features with a deviation of a twentieth of their bounds."""
    return np.clip(rng.standard_normal((rows, features)) / 20, -1, 1)


def one_tight(rows: int, features: int, rng: np.random.Generator) -> Reals:
    """Draw one such feature among uniform ones."""
    X = rng.uniform(-1, 1, (rows, features))
    X[:, 0] = np.clip(rng.standard_normal(rows) / 20, -1, 1)
    return X


def normal(rows: int, rng: np.random.Generator) -> Reals:
    """Draw normal errors; all laws of errors have the mean 0 and about the deviation 1."""
    return rng.standard_normal(rows)


def gamma(rows: int, rng: np.random.Generator) -> Reals:
    """Draw exponential errors."""
    return rng.exponential(1.0, rows) - 1


def lognormal(rows: int, rng: np.random.Generator) -> Reals:
    """Draw lognormal errors, skewed by 3.7."""
    return (np.exp(rng.normal(0, 0.8, rows)) - math.exp(0.32)) / 1.3


def student(rows: int, rng: np.random.Generator) -> Reals:
    """Draw errors of Student's t with 3 degrees, which have no third moment."""
    return rng.standard_t(3, rows) / math.sqrt(3)


def costs(rows: int, rng: np.random.Generator) -> Reals:
    """Draw costs that nine in ten do not have: a skewness of 8."""
    return np.where(rng.random(rows) < 0.1, rng.gamma(0.5, 4.0, rows), 0.0) - 0.2


def wealth(rows: int, rng: np.random.Generator) -> Reals:
    """Draw net wealth as in data on pensions: nothing for a third, debts for a sixth, and a lognormal tail."""
    owned = np.exp(rng.normal(0.0, 1.1, rows))
    kind = rng.random(rows)
    drawn = np.where(kind < 1 / 3, 0.0, np.where(kind < 1 / 2, -0.2 * owned, owned))
    return (drawn - _MEAN_WEALTH) / 2.1


def even(X: Reals) -> Reals:
    """Return the same spread for all."""
    return np.ones(len(X))


def proportional(X: Reals) -> Reals:
    """Return a spread in proportion to the first feature's size."""
    return math.sqrt(3) * np.abs(X[:, 0])


def growing(X: Reals) -> Reals:
    """Return a spread that grows with the first feature, from 1 up to 2.5."""
    return 1 + 0.3 * (25 * (X[:, 0] + 1)).clip(0, 5)


@dataclasses.dataclass(frozen=True)
class Population:
    """People, and the coefficients that they have."""

    model: str  # what the target is: 0 or 1, a count, a number
    draw: Draw  # draws (rows, features)
    features: int = 5  # d
    size: float = 1.0  # what the effects are multiplied by
    intercept: float = -0.3  # of the linear predictor
    # whether the linear predictor has the product of the first two features and the square of the third as well
    wrong: bool = False
    errors: Law = normal  # of a number about its mean, in units of RESIDUAL
    spread: Spread = even  # what these are multiplied by
    reach: float = 3.0  # public bound of numbers
    overdispersed: bool = False  # whether a count has the variance m + m^2 / 2
    effects: tuple[float, ...] = _EFFECTS  # coefficients, repeated for more features

    @property
    def truth(self) -> Reals:
        """Intercept and coefficients, (d + 1,), of the linear part."""
        return np.append(self.intercept, self.size * np.resize(self.effects, self.features))

    @property
    def schema(self) -> Schema:
        """Public bounds of features and target."""
        ends = {"logistic": (0.0, 1.0), "poisson": (0.0, float(MOST)), "linear": (-self.reach, self.reach)}[self.model]
        names = [f"x{feature}" for feature in range(self.features)]
        return Schema((*(Column(name, -1.0, 1.0) for name in names), Column("y", *ends)))

    def predictor(self, X: Reals) -> Reals:
        """Return the linear predictor (rows,) of features (rows, d)."""
        eta = self.truth[0] + X @ self.truth[1:]
        if self.wrong:
            eta += X[:, 0] * X[:, 1] + X[:, 2] ** 2
        return np.asarray(eta)

    def sample(self, rows: int, rng: np.random.Generator) -> Reals:
        """Draw people, (rows, d + 1)."""
        X = self.draw(rows, self.features, rng)
        eta = self.predictor(X)
        if self.model == "logistic":
            y = (rng.random(rows) < sigmoid(eta)).astype(float)
        elif self.model == "poisson":
            mean = np.exp(eta) * (rng.gamma(2.0, 0.5, rows) if self.overdispersed else 1.0)
            y = np.minimum(rng.poisson(mean), MOST).astype(float)
        else:
            y = np.clip(eta + RESIDUAL * self.spread(X) * self.errors(rows, rng), -self.reach, self.reach)
        return np.column_stack([X, y])


@functools.lru_cache(maxsize=1)
def _people(population: Population) -> Reals:
    return population.sample(_PEOPLE, np.random.default_rng(0))


def clipped_aim(population: Population, public: Schema) -> Reals:
    """Return least squares of rows that are clipped at these bounds."""
    rows = np.clip(_people(population), *np.array([[one.lower, one.upper] for one in public.columns]).T)
    x = np.column_stack([np.ones(len(rows)), rows[:, :-1]])
    return np.asarray(np.linalg.solve(x.T @ x, x.T @ rows[:, -1]))


@functools.cache
def aim(population: Population) -> Reals:
    """Return what a regression tends to with more people, where its model is wrong.

    A linear one tends to least squares of the rows as clients clip them. A logistic one has independent, uniform
    features.
    """
    if population.model == "linear":
        return clipped_aim(population, population.schema)
    points = 2 * scipy.stats.qmc.Sobol(population.features, rng=1).random_base2(_POINTS) - 1
    chances, x = sigmoid(population.predictor(points)), np.column_stack([np.ones(len(points)), points])
    theta = np.zeros(x.shape[1])
    for _ in range(8):
        q = sigmoid(x @ theta)
        theta = theta + np.linalg.solve((x * (q * (1 - q))[:, None]).T @ x, x.T @ (chances - q))
    return theta
