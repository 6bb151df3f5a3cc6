"""dpmpc.linear.noise: equal to a literal reference draw for draw, and refusing what makes no sense."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import dpmpc.linear.noise.floating
import dpmpc.linear.noise.integer
import dpmpc.linear.noise.poisson
from dpmpc._kernels import samplers
from dpmpc.base.arguments import NOISES
from dpmpc.base.errors import InputError, SimulationOnly
from dpmpc.base.randomness import Label, Stream
from dpmpc.linear.noise import FAMILIES, DiscreteGaussian, DiscreteLaplace, Noise, noise_from
from dpmpc.linear.noise.base import BLOCK_DRAWS
from dpmpc.linear.noise.floating import GammaLaplace, Gaussian
from dpmpc.linear.noise.integer import Skellam, WordBuffer
from dpmpc.linear.noise.poisson import SERIES_FROM, PoissonPlan
from dpmpc.privacy.specification import flat_choices
from references import samplers as reference
from support.rejections import rejects

VECTORS = json.loads(reference.VECTORS.read_text())

CSRC = Path(__file__).parents[2] / "csrc"


def described(vector: dict[str, Any]) -> str:
    return str(vector["noise"])


@pytest.mark.parametrize("vector", [v for v in VECTORS if v["success"]], ids=described)
def test_known_answers(vector: dict[str, Any]) -> None:
    noise = noise_from(vector["noise"])
    assert noise.describe() == vector["noise"]
    draws = noise.sample(len(vector["sample"]), Stream(bytes.fromhex(vector["key"])))
    assert draws.dtype == np.int64
    assert draws.tolist() == vector["sample"]


@pytest.mark.parametrize("vector", [v for v in VECTORS if not v["success"]], ids=described)
def test_known_refusals(vector: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="expected"):
        noise_from(vector["noise"])


@settings(max_examples=25, deadline=None)
@given(key=st.binary(min_size=16, max_size=16), steps=st.integers(1, 1 << 14))
def test_discrete_gaussian_equals_reference(key: bytes, steps: int) -> None:
    noise = DiscreteGaussian(steps / 1024)
    assert noise.sample(20, Stream(key)).tolist() == reference.sample(noise.describe(), 20, Stream(key))


@settings(max_examples=25, deadline=None)
@given(key=st.binary(min_size=16, max_size=16), mean=st.integers(1, 40) | st.integers(SERIES_FROM - 9, SERIES_FROM + 9))
def test_skellam_equals_reference(key: bytes, mean: int) -> None:
    noise = Skellam(2 * mean)
    assert noise.sample(20, Stream(key)).tolist() == reference.sample(noise.describe(), 20, Stream(key))


@settings(max_examples=25, deadline=None)
@given(key=st.binary(min_size=16, max_size=16), steps=st.integers(1, 1 << 14), shares=st.integers(1, 400))
def test_discrete_laplace_equals_reference(key: bytes, steps: int, shares: int) -> None:
    noise = DiscreteLaplace(steps / 1024, shares)
    assert noise.sample(20, Stream(key)).tolist() == reference.sample(noise.describe(), 20, Stream(key))


def test_second_block_equals_reference() -> None:
    last = DiscreteGaussian(3).sample(BLOCK_DRAWS + 8, Stream(bytes(16)))[BLOCK_DRAWS:]
    call = Stream(Stream(bytes(16)).bytes(16))
    words = reference.words_of(call.substream(1, Label.NOISE))
    with localcontext() as context:
        context.prec = reference.DIGITS
        assert last.tolist() == [reference.discrete_gaussian(words, Fraction(3)) for _ in range(8)]


@pytest.mark.parametrize("chunk", [64, 100, 1001])
def test_draws_do_not_depend_on_how_the_words_are_cut(chunk: int) -> None:
    words = Stream.from_seed(5).words(1 << 14)
    poisson = PoissonPlan(50).kernel

    def gaussian(words: NDArray[np.uint64], out: NDArray[np.int64]) -> tuple[int, int]:
        return samplers.discrete_gaussian(words, out, 2500, 10)

    def deviates(words: NDArray[np.uint64], out: NDArray[np.int64]) -> tuple[int, int]:
        return poisson.draw(words, out)[:2]

    def laplace(words: NDArray[np.uint64], out: NDArray[np.int64]) -> tuple[int, int]:
        return samplers.discrete_laplace(words, out, 2500, 10, 9, 36)

    for draw in (gaussian, deviates, laplace):
        whole = np.zeros(1000, np.int64)
        used, drawn = draw(words, whole)
        assert drawn == 1000
        assert cut(draw, words, chunk, 1000) == (used, whole.tolist())


def cut(
    draw: Callable[[NDArray[np.uint64], NDArray[np.int64]], tuple[int, int]],
    words: NDArray[np.uint64],
    chunk: int,
    count: int,
) -> tuple[int, list[int]]:
    out, position, drawn = np.zeros(count, np.int64), 0, 0
    while drawn < count:
        used, more = draw(words[position : position + chunk], out[drawn:])
        position, drawn = position + used, drawn + more
    return position, out.tolist()


def test_constant_has_its_digits() -> None:
    source = re.search(r"EXP_MINUS_ONE\[4\] = \{(.*?)\}", (CSRC / "samplers_draw.c").read_text(), re.DOTALL)
    assert source is not None
    with localcontext() as context:
        context.prec = 100
        digits = math.floor(Decimal(-1).exp() * (1 << 256))
    assert [int(word, 16) for word in source[1].split(",")] == [digits >> s & (2**64 - 1) for s in (192, 128, 64, 0)]


@pytest.mark.parametrize("ties", [1, 2, 3])
@pytest.mark.parametrize("step", [-1, 1])
def test_coins_that_agree_with_exp_minus_one_for_some_words(ties: int, step: int) -> None:
    """With scale 1 two words propose the remainder 0, and the coins that count the scales come next."""
    with localcontext() as context:
        context.prec = reference.DIGITS
        digits = math.floor(Decimal(-1).exp() * (1 << 256))
        tie = [digits >> s & (2**64 - 1) for s in (192, 128, 64, 0)][: ties + 1]
        tie[ties] += step
        words = np.array([7, 7, *tie, *Stream.from_seed(6).words(100).tolist()], np.uint64)
        out = np.zeros(1, np.int64)
        used, drawn = samplers.discrete_gaussian(words, out, 1, 0)
        remaining = iter(words.tolist())
        assert (drawn, out[0]) == (1, reference.discrete_gaussian(remaining, Fraction(1)))
        assert used == words.size - len(list(remaining))


def test_kernels_take_empty_arrays() -> None:
    no_words, no_draws, words = np.zeros(0, np.uint64), np.zeros(0, np.int64), np.zeros(9, np.uint64)
    poisson = PoissonPlan(5).kernel
    assert samplers.discrete_gaussian(no_words, np.zeros(3, np.int64), 5, 0) == (0, 0)
    assert samplers.discrete_gaussian(words, no_draws, 5, 0) == (0, 0)
    assert samplers.discrete_laplace(no_words, np.zeros(3, np.int64), 5, 0, 10, 40) == (0, 0)
    assert samplers.discrete_laplace(words, no_draws, 5, 0, 10, 40) == (0, 0)
    assert poisson.draw(no_words, np.zeros(3, np.int64)) == (0, 0, None)
    assert poisson.draw(words, no_draws) == (0, 0, None)


def test_words_one_by_one_and_in_buffers_are_the_stream() -> None:
    """No word is read twice or left out, where a buffer ends included."""
    expected = Stream.from_seed(10).words(5000).tolist()
    words, read = WordBuffer(Stream.from_seed(10), 1), []
    while len(read) < 4000:
        read += words.unread[:300].tolist()
        words.skip(min(300, words.unread.size))
        read += [next(words) for _ in range(40)]
        if len(read) % 9 == 0:
            words.refill()
    assert read == expected[: len(read)]


def test_uniform_numbers_lie_strictly_between_0_and_1() -> None:
    class Extremes(Stream):
        def words(self, count: int) -> NDArray[np.uint64]:
            return np.array([0, 2**64 - 1], np.uint64)

    assert dpmpc.linear.noise.floating._uniform(Extremes(bytes(16)), 2).tolist() == [2.0**-53, 1 - 2.0**-53]


def test_kernel_refuses_an_inconsistent_plan() -> None:
    for steps, guide in (((3, 3), 4097), ((3, 2), 4096), ((0, 2), 4097)):
        with pytest.raises(ValueError, match="expected"):
            samplers.CentredPoisson(
                np.zeros(steps, np.uint64), np.zeros(guide, np.uint32), 5, 0, 0, 0, np.zeros(0, np.int64), 7
            )
    with pytest.raises(ValueError, match="half a point"):
        samplers.discrete_laplace(np.zeros(1, np.uint64), np.zeros(1, np.int64), 5, 0, 10, 39)
    with pytest.raises(ValueError, match="out of range"):
        PoissonPlan(5).kernel.exponent(1)
    with pytest.raises(ValueError, match="out of range"):
        PoissonPlan(SERIES_FROM).kernel.exponent(1 << 12)


def test_no_float_enters_the_kernels() -> None:
    floating = re.compile(r"\b(float|double)|math\.|\d\.\d")
    comment = re.compile(r"/\*.*?\*/|#.*?$|\"\"\".*?\"\"\"", re.DOTALL | re.MULTILINE)
    for source in ("samplers.h", "samplers_draw.c", "samplers.pyx"):
        assert not floating.search(comment.sub("", (CSRC / source).read_text()))


@pytest.mark.parametrize(
    "noise", [DiscreteGaussian(20), Skellam(50), DiscreteLaplace(9, 30), Gaussian(2), GammaLaplace(3, 2)], ids=repr
)
def test_threads_and_shape_do_not_change_the_draws(noise: Noise) -> None:
    count = 2 * BLOCK_DRAWS + 50
    flat = noise.sample(count, Stream.from_seed(31))
    assert flat.shape == (count,)
    table = noise.sample((count // 2, 2), Stream.from_seed(31), threads=3)
    assert table.shape == (count // 2, 2)
    np.testing.assert_array_equal(table.ravel(), flat)


def test_every_call_and_every_block_draws_anew() -> None:
    noise, stream = DiscreteGaussian(1e5), Stream.from_seed(32)
    first, second = noise.sample(2 * BLOCK_DRAWS, stream), noise.sample(2 * BLOCK_DRAWS, stream)
    assert not np.array_equal(first, second)
    assert not np.array_equal(first[:BLOCK_DRAWS], first[BLOCK_DRAWS:])


def test_default_stream_comes_from_the_operating_system() -> None:
    noise = DiscreteGaussian(2**40)
    assert not np.array_equal(noise.sample(4), noise.sample(4))


@pytest.mark.parametrize("shape", [(), 0, (0, 3), (2, 0), (1, 2, 3), np.int64(4)])
def test_shapes(shape: Any) -> None:
    assert Skellam(2).sample(shape, Stream.from_seed(0)).shape == np.empty(shape).shape


@given(st.floats(min_value=0, max_value=2**40, exclude_min=True))
def test_sigma_is_rounded_up_and_by_little(sigma: float) -> None:
    used = Fraction(DiscreteGaussian(sigma).sigma)
    step = Fraction(1, 1024) if sigma < 1024 else 1
    assert 0 <= used - Fraction(sigma) < step
    assert (used / step).denominator == 1
    assert DiscreteGaussian(float(used)).sigma == used


@given(st.floats(min_value=0, max_value=2**40, exclude_min=True))
def test_scale_is_rounded_up_and_by_little(scale: float) -> None:
    used = Fraction(DiscreteLaplace(scale).scale)
    step = Fraction(1, 1024) if scale < 1024 else 1
    assert 0 <= used - Fraction(scale) < step
    assert (used / step).denominator == 1


def test_a_scale_between_two_doubles_is_rounded_up() -> None:
    exact = 3 + Fraction(1, 2**60)
    assert GammaLaplace(exact).scale == math.nextafter(3, 4)
    assert DiscreteLaplace(exact).scale == 3 + 2**-10


@pytest.mark.parametrize("scale", [2.0**-10, 0.25, 1.0, 9.5, 300.0])
def test_variance_of_a_share(scale: float) -> None:
    z = np.arange(-20_000, 20_001, dtype=float)
    mass = np.exp(-np.abs(z) / scale)
    whole = (z**2 * mass).sum() / mass.sum()
    assert DiscreteLaplace(scale, 8).variance == pytest.approx(whole / 8, rel=1e-10, abs=1e-300)
    assert GammaLaplace(scale, 8).variance == pytest.approx(scale**2 / 4)


@given(st.floats(min_value=0, max_value=2**53, exclude_min=True) | st.integers(1, 2**53))
def test_skellam_variance_is_rounded_up_to_an_even_integer(variance: float) -> None:
    used = Skellam(variance).variance
    assert 0 <= used - Fraction(variance) < 2
    assert used % 2 == 0


@pytest.mark.parametrize("sigma", [0.01, 0.25, 0.5, 1.0, 1.9990234375, 2.0, 5.0])
def test_variance_of_the_discrete_gaussian(sigma: float) -> None:
    noise = DiscreteGaussian(sigma)
    support = np.arange(-100, 101)
    mass = np.exp(-((support / noise.sigma) ** 2) / 2)
    assert noise.variance == pytest.approx((support**2 * mass).sum() / mass.sum(), rel=1e-13, abs=1e-300)


@pytest.mark.parametrize("family", [DiscreteGaussian, Skellam, DiscreteLaplace, Gaussian, GammaLaplace])
@pytest.mark.parametrize("value", [0, -1, -1e-9, math.nan, math.inf, -math.inf, "2", None, True, 1j, np.ones(1)])
def test_bad_parameters_are_refused(family: Callable[[Any], Noise], value: Any) -> None:
    with pytest.raises(InputError, match=re.escape(repr(value))):
        family(value)


@pytest.mark.parametrize(("family", "largest"), [(DiscreteGaussian, 2**40), (Skellam, 2**53), (DiscreteLaplace, 2**40)])
def test_largest_parameters(family: Callable[[Any], Noise], largest: int) -> None:
    assert np.any(family(largest).sample(9, Stream.from_seed(1)))
    with pytest.raises(InputError, match="expected"):
        family(largest + 1)


@pytest.mark.parametrize("family", [DiscreteLaplace, GammaLaplace])
@pytest.mark.parametrize("shares", [0, -1, 1.0, math.nan, True, None, "2", 2**40 + 1])
def test_bad_numbers_of_shares_are_refused(family: Callable[..., Noise], shares: Any) -> None:
    with rejects("shares", expected="a whole number from 1 to 1099511627776"):
        family(3, shares)


@pytest.mark.parametrize("family", [DiscreteLaplace, GammaLaplace])
def test_one_draw_is_the_whole_noise_unless_shares_are_given(family: Callable[..., Noise]) -> None:
    assert family(3).describe() == family(3, 1).describe()
    assert family(3).variance == pytest.approx(2 * 3**2, rel=0.02)


@pytest.mark.parametrize("number", [np.float32(2.5), np.int64(2), Fraction(5, 2)])
def test_numbers_of_other_types_are_taken(number: Any) -> None:
    assert DiscreteGaussian(number).sigma == number


@pytest.mark.parametrize("shape", [-1, (3, -2), 2.0, (2, 2.5), "3", None, [2, 3], (True,)])
def test_bad_shapes_are_refused(shape: Any) -> None:
    with rejects("shape"):
        Skellam(2).sample(shape, Stream.from_seed(0))


@pytest.mark.parametrize("threads", [0, -1, 1.5, None, True])
def test_bad_numbers_of_threads_are_refused(threads: Any) -> None:
    with rejects("threads"):
        Skellam(2).sample(3, Stream.from_seed(0), threads=threads)


@pytest.mark.parametrize("noise", [Gaussian(2), GammaLaplace(2, 2)], ids=repr)
def test_floating_point_noise_is_for_simulations_only(noise: Noise) -> None:
    assert noise.simulation_only
    assert not noise.integer
    assert noise.variance == 4
    with pytest.raises(SimulationOnly, match="real people"):
        noise.sample(3)
    assert noise.sample(3, Stream.from_seed(0)).dtype == np.float64


@pytest.mark.parametrize(
    "noise", [DiscreteGaussian(2.5), Skellam(8), DiscreteLaplace(2.5, 4), Gaussian(0.1), GammaLaplace(0.1, 4)]
)
def test_descriptions_survive_json_and_tell_noises_apart(noise: Noise) -> None:
    again = noise_from(json.loads(json.dumps(noise.describe())))
    assert again == noise
    assert hash(again) == hash(noise)
    assert type(again) is type(noise)
    assert again != DiscreteGaussian(3)
    assert repr(noise) == repr(again)


def test_users_may_choose_every_integer_noise():
    assert [name for name, family in FAMILIES.items() if family.integer and not family.simulation_only] == list(NOISES)
    assert all(family.name == name for name, family in FAMILIES.items())
    assert flat_choices()["noise"][1].extra["options"] == tuple(NOISES)
