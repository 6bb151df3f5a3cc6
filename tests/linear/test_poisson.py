"""dpmpc.linear.noise.poisson: the histogram covers the distribution, and what it leaves open is decided exactly."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dpmpc.linear.noise.floating
import dpmpc.linear.noise.integer
import dpmpc.linear.noise.poisson
from dpmpc.base.randomness import Stream
from dpmpc.linear.noise.integer import Skellam
from dpmpc.linear.noise.poisson import FRACTION_BITS, MAX_MEAN, SERIES_FROM, PoissonPlan
from references import samplers as reference

MEANS = [1, 2, 3, 17, 1000, SERIES_FROM - 1, SERIES_FROM, 80_023, 10**6, 5 * 10**9, MAX_MEAN]

SMALL_MEANS = [mean for mean in MEANS if mean <= 10**6]


def interesting_deviates(plan: PoissonPlan) -> list[int]:
    grid = np.linspace(-min(plan.mean, plan.limit), plan.limit, 41).astype(int).tolist()
    return sorted({*grid, 0, 1, -1, 1 << plan.width_bits, -1 << plan.width_bits})


def evaluate(plan: PoissonPlan, deviate: int) -> Decimal:
    """L as the plan encloses it."""
    low, _ = plan.enclose(deviate, 300)
    with localcontext() as context:
        context.prec = 100
        return (Decimal(plan.peak << 300) / low).ln()


@pytest.mark.parametrize("mean", [mean for mean in MEANS if mean >= SERIES_FROM])
def test_evaluated_exponent_is_within_its_proven_error(mean: int) -> None:
    plan = PoissonPlan(mean)
    assert 0 < plan.slack < 1 << 7
    for deviate in interesting_deviates(plan):
        assert abs(plan.kernel.exponent(deviate) - evaluate(plan, deviate) * (1 << FRACTION_BITS)) <= plan.slack


@pytest.mark.parametrize("mean", SMALL_MEANS)
def test_enclosures_hold_the_heights_of_the_reference(mean: int) -> None:
    plan = PoissonPlan(mean)
    with localcontext() as context:
        context.prec = reference.DIGITS
        width, *_, heights = reference.poisson_steps(mean)
        assert width == 1 << plan.width_bits
        for deviate in (y for y in interesting_deviates(plan) if y in heights):
            for bits in (0, 60, 160):
                low, high = plan.enclose(deviate, bits)
                assert low <= heights[deviate] * (1 << bits) <= high <= low + 3


@pytest.mark.parametrize("mean", MEANS)
def test_enclosures_are_nested(mean: int) -> None:
    plan = PoissonPlan(mean)
    for deviate in (-min(mean, plan.limit // 14), 0, 1, plan.limit // 4):
        coarse_low, coarse_high = plan.enclose(deviate, 100)
        low, high = plan.enclose(deviate, 1000)
        assert coarse_low << 900 <= low
        assert high <= coarse_high << 900


@pytest.mark.parametrize("mean", [1, 2, 900, SERIES_FROM - 1, SERIES_FROM, 80_023, 10**6])
def test_every_step_covers_the_distribution(mean: int) -> None:
    """Words at both ends of every step, and within it: accepted just where they lie below C f(y)."""
    with localcontext() as context:
        context.prec = reference.DIGITS
        width, first, starts, heights = reference.poisson_steps(mean)
    plan = PoissonPlan(mean)
    checked = range(0, len(starts) - 1, max(1, len(starts) // 500))
    for step in checked:
        height = (starts[step + 1] - starts[step]) // width
        for place in {0, width - 1}:
            y = first + step * width + place
            for level in {0, height // 2, max(0, math.floor(heights[y]) - 4), height - 1}:
                out = np.zeros(1, np.int64)
                word = np.array([starts[step] + level * width + place], np.uint64)
                used, drawn, question = plan.kernel.draw(word, out)
                assert used == 1
                if question is None:
                    assert drawn == (level < heights[y])
                    assert out[0] == y
                else:
                    assert question == (y, level)
                    assert abs(level - heights[y]) < 5 + heights[y] / 2**43


def test_words_beyond_the_last_step_are_rejected() -> None:
    plan, out = PoissonPlan(5), np.zeros(3, np.int64)
    assert plan.kernel.draw(np.array([2**64 - 1, 2**64 - 1], np.uint64), out) == (2, 0, None)


@pytest.mark.parametrize("mean", [2, 900, 80_023, 5 * 10**9])
def test_what_the_kernel_leaves_unsettled_changes_no_sample(mean: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = Skellam(2 * mean).sample(400, Stream.from_seed(8))
    doubtful = CountingPlan(mean, slack=1 << (FRACTION_BITS - 6))
    monkeypatch.setattr(dpmpc.linear.noise.integer, "poisson_plan", lambda _: doubtful)
    assert Skellam(2 * mean).sample(400, Stream.from_seed(8)).tolist() == expected.tolist()
    assert doubtful.finished > (20 if mean < SERIES_FROM else 0)


def test_a_histogram_that_would_overflow_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = PoissonPlan(5)
    plan.peak *= 2
    with pytest.raises(AssertionError, match="mean 5: the steps do not fit 64 bits"):
        plan._steps(*plan._single()[1:])
    monkeypatch.setattr(dpmpc.linear.noise.poisson, "_MAX_COEFFICIENTS", 0)
    with pytest.raises(AssertionError, match=f"mean {SERIES_FROM}: the exponent does not fit 64 bits"):
        PoissonPlan(SERIES_FROM)


class CountingPlan(PoissonPlan):
    finished = 0

    def finish(self, *question: Any) -> bool:
        self.finished += 1
        return super().finish(*question)


@pytest.mark.parametrize("deviate", [31, -20, 0, 100, 430])
@pytest.mark.parametrize("ties", [0, 1, 3])
def test_finish_reads_on_until_the_comparison_is_decided(deviate: int, ties: int) -> None:
    """A uniform real that agrees with C f in its first `ties` words, and then lies just below or above it."""
    plan = PoissonPlan(1000)
    low, _ = plan.enclose(deviate, 600)
    threshold = Fraction(low, 1 << 600)
    height, *digits = (math.floor(threshold * 2 ** (64 * i)) % 2 ** (64 if i else 80) for i in range(5))
    if deviate == 0:  # C f is an integer: every real from it on lies above
        assert plan.finish(deviate, plan.peak - 1, iter([1 << 60]))
        assert not plan.finish(deviate, plan.peak, iter([1 << 60]))
        return
    for last, below in ((digits[ties] - 1, True), (digits[ties] + 1, False)):
        words: Iterator[int] = iter([*digits[:ties], last, 7])
        assert plan.finish(deviate, height, words) == below
        assert list(words) == [7]
