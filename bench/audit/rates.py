"""From how often a test errs to how little privacy there can be.

A test says which of two neighbouring inputs a release came from. It errs with probability alpha on the first input
(false positive) and beta on the second (false negative). What a mechanism claims bounds both from below:

- (epsilon, delta)-DP: 1 - beta <= e^epsilon alpha + delta, and the same with the inputs exchanged (Kairouz, Oh and
  Viswanath 2015, Theorem 2.1).
- mu-GDP: Phi^-1(1 - alpha) - Phi^-1(beta) <= mu (Dong, Roth and Su 2022, Definition 3 and Equation 6; used to audit by
  Nasr et al. 2023, "Tight auditing of differentially private machine learning").
- epsilon bits of mutual information about an entry: with either input half of the time, what the test says tells at
  most as much (data processing).

All three grow as alpha and beta fall. So Clopper and Pearson's (1934) upper bounds on alpha and beta give lower bounds
on epsilon, mu and bits, at any threshold that was chosen without looking at the runs that are counted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import betaincinv, entr, ndtr, ndtri

from dpmpc.base.arrays import Integers, Reals

Measure = Callable[[Reals, Reals], Reals]

LEVELS = ndtr(np.linspace(-3.8, 3.8, 153))
"""Quantiles of the training scores that are tried as thresholds."""

CHOICE = 1e-8
"""Failure probability of the bounds by which a threshold is chosen: so strict that chance alone wins nowhere."""


@dataclasses.dataclass(frozen=True)
class AuditScores:
    """What the distinguisher computed from releases of each of two inputs; large scores speak for the second."""

    first: Reals
    second: Reals


@dataclasses.dataclass(frozen=True)
class Bound:
    """A lower bound, and the rates that it comes from."""

    value: float  # the bound, at least 0
    false_positive: float  # shares of wrong decisions among the runs that were counted
    false_negative: float


def upper_rate(errors: Any, runs: int, failure: float) -> Reals:
    """Return the one-sided bound of Clopper and Pearson: above the true rate but with probability `failure`."""
    errors = np.asarray(errors)
    bound = betaincinv(errors + 1.0, np.maximum(runs - errors, 1.0), 1 - failure)
    return np.asarray(np.where(errors < runs, bound, 1.0))


def least_epsilon(delta: float) -> Measure:
    """Return the measure of (epsilon, delta)-DP."""

    def measure(alpha: Reals, beta: Reals) -> Reals:
        with np.errstate(divide="ignore", invalid="ignore"):
            first = np.log(np.maximum(1 - beta - delta, 0.0) / alpha)
            second = np.log(np.maximum(1 - alpha - delta, 0.0) / beta)
        return np.maximum(first, second)

    return measure


def least_mu(alpha: Reals, beta: Reals) -> Reals:
    """Return Phi^-1(1 - alpha) - Phi^-1(beta), the measure of mu-GDP."""
    return np.asarray(-ndtri(alpha) - ndtri(beta))


def least_bits(alpha: Reals, beta: Reals) -> Reals:
    """Return h((1 - alpha + beta)/2) - h(alpha)/2 - h(beta)/2: the bits that a decision tells about a fair coin."""
    rate = _entropy((1 - alpha + beta) / 2) - _entropy(alpha) / 2 - _entropy(beta) / 2
    return np.where(alpha + beta < 1, rate, 0.0)


def lower_bound(measure: Measure, training: AuditScores, counted: AuditScores, failure: float) -> Bound:
    """Bound a measure from below: the threshold comes from one set of runs, the rates from another."""
    thresholds = np.unique(np.quantile(np.concatenate([training.first, training.second]), LEVELS))
    found = measure(*(upper_rate(*counts, CHOICE) for counts in _errors(training, thresholds)))
    best = thresholds[[int(np.argmax(found))]]
    (positives, first), (negatives, second) = _errors(counted, best)
    value = measure(upper_rate(positives, first, failure / 2), upper_rate(negatives, second, failure / 2))
    return Bound(max(0.0, float(value[0])), float(positives[0] / first), float(negatives[0] / second))


def _errors(scores: AuditScores, thresholds: Reals) -> tuple[tuple[Integers, int], tuple[Integers, int]]:
    """Count false positives and false negatives of ``score > threshold``, each with the number of runs."""
    first, second = len(scores.first), len(scores.second)
    positives = first - np.searchsorted(np.sort(scores.first), thresholds, side="right")
    negatives = np.searchsorted(np.sort(scores.second), thresholds, side="right")
    return (positives, first), (negatives, second)


def _entropy(probability: Reals) -> Reals:
    """Return the entropy of a coin, in bits."""
    return np.asarray((entr(probability) + entr(1 - probability)) / np.log(2))
