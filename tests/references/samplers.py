"""The samplers of dpmpc.linear.noise once more: slow, in Python integers, fractions and 80-digit decimals, word for
word.

Nothing is shared with the package but the key stream. Where the package is clever (fixed point with an error bound,
series, constants cut off after 256 digits), this file is literal. Run it to write
``vectors/noise.json``.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Callable, Iterator
from decimal import Decimal, getcontext
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

from dpmpc.base.randomness import Label, Stream

WORD = 1 << 64
BLOCK_DRAWS = 1 << 16
DIGITS = 80
VECTORS = Path(__file__).parents[1] / "vectors" / "noise.json"


def words_of(stream: Stream) -> Iterator[int]:
    while True:
        yield from stream.words(256).tolist()


# Uniform numbers and coins


def below(words: Iterator[int], bound: int) -> int:
    """Lemire's method for one word; two words, cut to length, for a longer bound."""
    if bound < WORD:
        while True:
            product = next(words) * bound
            if product % WORD >= WORD % bound:
                return product // WORD
    while True:
        value = next(words)
        value += WORD * (next(words) % (1 << (bound.bit_length() - 64)))
        if value < bound:
            return value


def real_coin(words: Iterator[int], probability: Decimal) -> bool:
    """Compare a uniform real with the probability, 64 binary digits at a time."""
    while True:
        probability *= WORD
        digit = math.floor(probability)
        word = next(words)
        if word != digit:
            return word < digit
        probability -= digit


def alternating(coin: Callable[[int], bool]) -> bool:
    """CKS Algorithm 1: when the k-th coin succeeds with x / k, the first that fails is odd with probability exp(-x)."""
    k = 1
    while coin(k):
        k += 1
    return k % 2 == 1


def rational_exp_coin(words: Iterator[int], numerator: int, denominator: int) -> bool:
    while numerator > denominator:
        if not real_coin(words, Decimal(-1).exp()):
            return False
        numerator -= denominator
    return alternating(lambda k: below(words, k * denominator) < numerator)


def geometric(words: Iterator[int], scale: int) -> int:
    """CKS Algorithm 2: P(x) proportional to exp(-x / scale)."""
    remainder = below(words, scale)
    while not rational_exp_coin(words, remainder, scale):
        remainder = below(words, scale)
    multiple = 0
    while real_coin(words, Decimal(-1).exp()):
        multiple += 1
    return remainder + multiple * scale


# Discrete Gaussian


def discrete_gaussian(words: Iterator[int], sigma: Fraction) -> int:
    """CKS Algorithm 3 with t = sigma."""
    a, b = sigma.numerator, sigma.denominator
    while True:
        magnitude = geometric(words, a) // b
        negative = next(words) % 2 == 1
        if negative and magnitude == 0:
            continue
        if rational_exp_coin(words, (magnitude * b - a) ** 2, 2 * a * a):
            return -magnitude if negative else magnitude


# Poisson


@lru_cache(maxsize=16)
def poisson_steps(mean: int) -> tuple[int, int, list[int], dict[int, Decimal]]:
    """The width of a step, the first deviate, where the steps start and the last one ends, and C f(y) for every y.

    The steps cover |y| <= 64 + 14 t, t the square root of the mean rounded up. From mean 2^16 on they are 2^b wide,
    where 2^(b + 6) <= t < 2^(b + 7).
    """
    scale = next(t for t in range(math.isqrt(mean), math.isqrt(mean) + 2) if t * t >= mean)
    width = 2 ** (scale.bit_length() - 7) if mean >= 2**16 else 1
    limit = math.ceil(Fraction(64 + 14 * scale, width)) * width
    f = {0: Decimal(1)}
    for y in range(1, limit + 1):
        f[y] = f[y - 1] * mean / (mean + y)
        if y <= mean:
            f[-y] = f[1 - y] * (mean - y + 1) / mean
    first = -limit if width > 1 else min(f)
    if width == 1:
        inner = list(range(first, limit + 1))
    else:
        inner = [*range(first + width, 1, width), *range(0, limit, width)]
    room = (WORD - 1) // width - 2 * len(inner)
    peak = math.floor(room / sum(f[y] for y in inner))
    starts = [0]
    for y in inner:  # where C f is an integer, its 80 digits may lie just below
        starts.append(starts[-1] + width * (math.floor(peak * f[y] + Decimal("1e-50")) + 1))
    return width, first, starts, {y: peak * value for y, value in f.items()}


def centred_poisson(words: Iterator[int], mean: int) -> int:
    width, first, starts, height_of = poisson_steps(mean)
    while True:
        word = next(words)
        step = bisect_right(starts, word) - 1
        if step == len(starts) - 1:
            continue
        height, place = divmod(word - starts[step], width)
        y = first + step * width + place
        below = height_of[y] - height
        if below >= 1 or (below > 0 and real_coin(words, below)):
            return y


# Shares of a discrete Laplace


def polya_levels(scale: Fraction) -> int:
    """The least number of levels, at least 1, that reach 128 scales."""
    levels = 1
    while 2**levels < 128 * scale:
        levels += 1
    return levels


def few(words: Iterator[int], a: int, b: int) -> int:
    """Poisson(a / b): coins of a/b / 1, a/b / 2, ... succeed n times; accept with (1 - a/b) / (1 - a/b / (n + 1))."""
    while True:
        n = 0
        while below(words, (n + 1) * b) < a:
            n += 1
        if n == 0 or below(words, (n + 1) * b - a) < (n + 1) * (b - a):
            return n


def laplace_part(words: Iterator[int], scale: Fraction, levels: int, shares: int) -> int:
    """A share of a discrete Laplace, where `shares` is at least 4 levels."""
    total = 0
    for _ in range(few(words, 2 * levels, shares)):
        level = below(words, levels)
        word = next(words)
        k = 2**level + word % 2**level
        if below(words, k) >= 2**level:
            continue
        if rational_exp_coin(words, k * scale.denominator, scale.numerator):
            total += -k if word >= WORD // 2 else k
    return total


# The arrays of dpmpc.linear.noise


def sample(description: dict[str, Any], count: int, stream: Stream) -> list[int]:
    """What ``noise_from(description).sample(count, stream)`` has to be."""
    context = getcontext()
    precision, context.prec = context.prec, DIGITS
    try:
        call = Stream(stream.bytes(16))
        values: list[int] = []
        for block in range(-(-count // BLOCK_DRAWS)):
            words = words_of(call.substream(block, Label.NOISE))
            size = min(BLOCK_DRAWS, count - block * BLOCK_DRAWS)
            if description["name"] == "discrete-gaussian":
                sigma = Fraction(description["sigma"])
                values += [discrete_gaussian(words, sigma) for _ in range(size)]
            elif description["name"] == "discrete-laplace":
                scale, shares = Fraction(description["scale"]), description["shares"]
                levels = polya_levels(scale)
                parts = math.ceil(Fraction(4 * levels, shares))
                drawn = [
                    [laplace_part(words, scale, levels, parts * shares) for _ in range(size)] for _ in range(parts)
                ]
                values += [sum(column) for column in zip(*drawn, strict=True)]
            else:
                first = [centred_poisson(words, description["variance"] // 2) for _ in range(size)]
                values += [x - centred_poisson(words, description["variance"] // 2) for x in first]
        return values
    finally:
        context.prec = precision


def main() -> None:
    sigmas = [0.0009765625, 0.5, 1.0, 3.2998046875, 1000.5, 100000.0, 2.0**30, 1.9e9, 2.0**31, 2.0**40]
    variances = [2, 10, 100, 131070, 131072, 250000, 2000000, 10**8]
    laplaces = [(2.0**-10, 1), (0.5, 1), (3.2998046875, 3), (100000.0, 1), (1e9, 40), (2.0**40, 16), (2.0**40, 2**40)]
    good: list[list[dict[str, Any]]] = [
        [{"name": "discrete-gaussian", "sigma": sigma} for sigma in sigmas],
        [{"name": "skellam", "variance": variance} for variance in variances],
        [{"name": "discrete-laplace", "scale": scale, "shares": shares} for scale, shares in laplaces],
    ]
    bad: list[tuple[str, str, list[Any]]] = [
        ("discrete-gaussian", "sigma", [0, -1, -0.5, 2.0**40 + 1, 1e300, "3", None, True, [1.0]]),
        ("skellam", "variance", [0, -2, 2**53 + 2, "2", None, False]),
        ("gaussian", "sigma", [0, -1, "1"]),
    ]
    bad_laplaces: list[tuple[Any, Any]] = [(0, 1), (-1, 1), ("3", 1), (3, 0), (3, 1.5), (3, 2**40 + 1), (3, None)]
    vectors: list[dict[str, Any]] = []
    for family in good:
        for index, noise in enumerate(family):
            key = bytes(range(index, index + 16))
            draws = sample(noise, 24, Stream(key))
            vectors.append({"key": key.hex(), "noise": noise, "success": True, "sample": draws})
    for name, parameter, values in bad:
        vectors += [{"noise": {"name": name, parameter: value}, "success": False} for value in values]
    for scale, shares in bad_laplaces:
        for name in ("discrete-laplace", "gamma-laplace"):
            noise = {"name": name, "scale": scale, "shares": shares}
            vectors.append({"noise": noise, "success": False})
    vectors += [
        {"noise": noise, "success": False} for noise in ({}, {"name": "laplace"}, {"name": "skellam", "sigma": 2})
    ]
    VECTORS.write_text("[\n" + ",\n".join(json.dumps(vector) for vector in vectors) + "\n]\n")


if __name__ == "__main__":
    main()
