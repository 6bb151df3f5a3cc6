"""What epsilon and delta mean, in words: the one sentence for forms, pages and reports.

(epsilon, delta)-differential privacy means P(W) <= e^epsilon P'(W) + delta for every set W of outcomes, and no more.
In particular delta is *not* the probability that likelihoods differ by more than the factor e^epsilon: for Gaussian
noise that is 20 delta at (1, 1e-6).

Promised: every number in the sentence is rounded so that the sentence is true. `Client.promised` of
dpmpc/collect/intake/web/client.mjs does the same in JavaScript, to the last letter.
"""

from __future__ import annotations

import math

_MOST_IN_DIGITS = 20.0
_ROUNDING = 2.0**-50  # of a delta that was typed in decimal digits


def bound_in_words(epsilon: float, delta: float, own: str = "your answers", other: str = "any other answers") -> str:
    """Say P <= e^epsilon P' + delta, and how often a guess between two is right.

    Parameters
    ----------
    epsilon, delta : float
        What is promised.
    own, other : str
        What neighbouring inputs are to anyone who reads this.
    """
    return (
        f"With {own}, anything that is published has at most {_factor(epsilon)} times the probability that it has with "
        f"{other}{_plus(delta)}. So nobody who thinks two of them equally likely guesses the right one with a "
        f"probability above {best_guess(epsilon, delta):g} %, whatever else they know."
    )


def best_guess(epsilon: float, delta: float) -> float:
    """Return the percentage of right guesses between two equally likely inputs, at most; rounded up to a tenth.

    (1 + TV)/2, where the total variation TV <= (e^epsilon - 1 + 2 delta)/(e^epsilon + 1) by (epsilon, delta) both ways;
    randomised response attains it (Kairouz, Oh and Viswanath 2015).
    """
    share = min(1.0, (1.0 + delta * math.exp(-epsilon)) / (1.0 + math.exp(-epsilon)))
    return math.ceil(1000 * share) / 10


def _factor(epsilon: float) -> str:
    """Write e^epsilon with three digits, rounded up."""
    if epsilon > _MOST_IN_DIGITS:
        return f"e^{math.ceil(100 * epsilon) / 100:g}"
    up = 10.0 ** (2 - math.floor(epsilon / math.log(10)))
    return f"{math.ceil(math.exp(epsilon) * up) / up:,.10g}"


def _plus(delta: float) -> str:
    """Write delta as one in so many, rounded up."""
    return f", plus 1 in {math.floor((1 + _ROUNDING) / delta):,}" if delta else ""
