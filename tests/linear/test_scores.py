"""Scores beside their outer products and curvature: by how much one client moves them, and what is read from a sum.

They lead to theorem last-rounds. They are checked on grids of reals, on every pair of encoded
rows at a few fractional bits, and against the rows that a search finds worst.
"""

import itertools
import json
import math

import numpy as np
import pytest

from dpmpc.base.randomness import Stream
from dpmpc.data import Schema
from dpmpc.linear.contributions import contribution_from
from dpmpc.linear.contributions.scores import OUTER_WEIGHT, Identity, Logistic, Poisson, Scores
from dpmpc.linear.encoding.fixed_point import FixedPoint
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.privacy.task import Task
from dpmpc.release.planning import design
from dpmpc.release.simulation import run
from support.rejections import rejects

LINKS = [Logistic(), Identity(0.5), Poisson(30, 4.0), Poisson(1, 1.0), Poisson(30, 30.0, 2.5)]
STEPS = 41
COSINES = np.linspace(-1, 1, 81)


def moved(link, score, curvature, other_score, other_curvature, cosine):
    """Squared distance of two contributions whose amplitudes and the angle between whose directions are given."""

    def apart(a, b, cosine):
        return a**2 + b**2 - 2 * a * b * cosine

    outer = apart(score**2, other_score**2, cosine**2) * OUTER_WEIGHT**2
    curved = apart(curvature, other_curvature, cosine**2) * link.curvature_weight**2
    return apart(score, other_score, cosine) + outer + curved


def amplitudes(link):
    """Scores and curvatures that a client can have: with the logistic link a large score has a small curvature."""
    scores = np.linspace(0, 1, STEPS)
    if isinstance(link, Logistic):  # curvature is at most rho (1 - rho), for some rho of at least the score
        found = [(s, part * r * (1 - r)) for r in scores for s in (r, r / 2, 0.0) for part in (0, 0.5, 1)]
    else:
        found = list(itertools.product(scores, np.linspace(0, 1, 9)))
    return np.array(found).T


@pytest.mark.parametrize("link", LINKS[:2], ids=lambda link: link.name)
def test_theorems_hold_on_a_grid(link):
    score, curvature = amplitudes(link)
    worst = 0.0
    for s, h in zip(score, curvature, strict=True):
        worst = max(worst, moved(link, s, h, score[:, None], curvature[:, None], COSINES).max())
    assert worst <= link.squared_sensitivity + 1e-12
    assert worst >= 0.998 * link.squared_sensitivity  # attained


def test_the_constant_is_nearly_the_best():
    """With 21.5 in place of 21 the curvature would no longer be free."""
    rho = np.linspace(0, 1, 20001)
    moves = (1 + rho) ** 2 + 0.5 * (1 - rho**2) ** 2
    assert (moves + 21 * (rho * (1 - rho)) ** 2).max() <= 4
    assert (moves + 21.5 * (rho * (1 - rho)) ** 2).max() > 4


@pytest.mark.parametrize("link", LINKS, ids=repr)
@pytest.mark.parametrize("bits", [0, 1, 3, 6])
def test_every_pair_of_encoded_rows(link, bits):
    """All rows of a grid, at several coefficients and scales, against the sensitivity in integers."""
    encoding = FixedPoint(bits)
    line = np.linspace(-1, 1, 9)
    rows = np.array(list(itertools.product(line, line, [-1.0, -0.5, 0.0, 1.0])))
    rng = np.random.default_rng(bits)
    for size in (0.05, 1.0, 4.0):
        for _ in range(4):
            scores = Scores([1.0, *(size * rng.uniform(0.3, 3, 2))], rng.normal(size=3) * 3, link)
            limits = scores.sensitivity(3, encoding)
            encoded = scores.encode(rows, encoding)
            apart = np.abs(encoded[:, None] - encoded[None])
            assert np.square(apart).sum(axis=2).max() <= limits.l2**2
            assert apart.sum(axis=2).max() <= limits.l1
            assert apart.max() <= limits.linf
            assert np.abs(encoded).max() <= scores.largest_entry(encoding)


@pytest.mark.parametrize("link", LINKS, ids=repr)
def test_hostile_public_numbers_move_nobody_further(link):
    encoding = FixedPoint(24)
    rows = np.array(list(itertools.product([-1.0, -1e-9, 0.0, 1.0], repeat=3)))
    for scale, length in itertools.product([1e-7, 1.0, 1e8], [0.0, 1e-6, 1e6]):
        scores = Scores([1.0, scale, 0.5 * scale], [length, -length, length], link)
        encoded = scores.encode(rows, encoding).astype(float)
        apart = np.linalg.norm(encoded[:, None] - encoded[None], axis=2)
        assert apart.max() <= scores.sensitivity(3, encoding).l2


def test_the_bound_is_attained():
    """Two cases that nobody expected, with opposite features, are apart by the score's whole diameter."""
    scores = Scores([1.0, 20.0], [-60.0, 0.0], Logistic())
    encoded = scores.encode(np.array([[1.0, 1.0], [-1.0, 1.0]]), FixedPoint(24))
    assert np.linalg.norm((encoded[0] - encoded[1]) / 2.0**24) == pytest.approx(2.0, abs=0.01)


@pytest.mark.parametrize("link", LINKS, ids=repr)
def test_what_is_read_is_what_it_says(link):
    rng = np.random.default_rng(5)
    rows = np.column_stack([rng.uniform(-1, 1, (40, 2)), rng.choice([-1.0, 1.0], 40)])
    scores = Scores([1.0, 2.0, 0.5], rng.normal(size=3) * 0.5, link)
    sums = scores.read(scores.encode(rows, FixedPoint(30)).sum(axis=0) / 2.0**30, 0.25)
    x = np.column_stack([np.ones(40), rows[:, :2]])
    residual, curvature = link.residual_and_curvature(rows[:, 2], x @ scores.theta)
    v = x * scores.scales
    g = v * (residual * link.reach)[:, None]
    assert sums.score == pytest.approx(g.sum(axis=0), abs=1e-5)
    assert sums.outer == pytest.approx(g.T @ g, abs=1e-4)
    assert sums.curvature == pytest.approx((v * (curvature * link.slope)[:, None]).T @ v, abs=1e-4)
    assert sums.score_sd == pytest.approx(0.25 * math.sqrt(5.25) * link.reach)
    assert sums.outer_sd == pytest.approx(0.25 * 5.25 * link.reach**2 * math.sqrt(2))
    assert sums.curvature_sd == pytest.approx(0.25 * 5.25 * link.slope / link.curvature_weight)


def test_no_row_of_the_box_is_shortened_or_weighted():
    """The longest rows are the corners, of any scales; what is read of one client is its own score."""
    rng = np.random.default_rng(11)
    for _ in range(20):
        scores = Scores([1.0, *rng.uniform(0.05, 20, 3)], np.zeros(4), Identity(1.0))
        row = np.append(rng.choice([-1.0, 1.0], 3), 1.0)[None]
        read = scores.read(scores.encode(row, FixedPoint(40))[0] / 2.0**40, 0.0)
        v = np.append(1.0, row[0, :-1]) * scores.scales
        assert read.score == pytest.approx(v, rel=1e-9)
        assert read.curvature == pytest.approx(np.outer(v, v), rel=1e-8)


def test_poisson_residuals_have_mean_zero_under_the_model():
    rng = np.random.default_rng(3)
    link = Poisson(60, 3.0)
    for mean in (0.05, 1.0, 9.0):
        counts = np.minimum(rng.poisson(mean, 200_000), 60)
        residual, curvature = link.residual_and_curvature(counts / 30 - 1, np.full(len(counts), math.log(mean)))
        assert abs(residual.mean()) < 5 * residual.std() / math.sqrt(len(counts))  # false alarm: below 1e-6
        covariance = np.mean(np.clip(counts - mean, -3, 3) * (counts - mean))
        assert curvature[0] * link.slope == pytest.approx(covariance, rel=0.05)


@pytest.mark.parametrize("link", LINKS, ids=repr)
def test_servers_sum_scores_without_knowing_them(link):
    """Through task, file form, shares, servers and analyst: nothing but the contribution is new."""
    rng = np.random.default_rng(7)
    rows = np.column_stack([rng.uniform(-1, 1, (300, 2)), rng.choice([-1.0, 1.0], 300)])
    scores = Scores([1.0, 1.5, 0.4], [0.1, 0.2, -0.3], link)
    schema = Schema.unit(("a", "b", "y"))
    task = design(ReleaseSpec.of(schema, 300, 1.0, 1e-6, contribution=scores, fractional_bits=24, simulation_seed=1))
    again = Task.from_dict(json.loads(json.dumps(task.to_dict())))
    assert again.digest == task.digest
    assert contribution_from(scores.describe()) == scores
    assert task.guarantee.mu == pytest.approx(0.2367, rel=0.01)
    release = run(again, rows, stream=Stream.from_seed(1))
    exact = scores.encode(rows, task.encoding).sum(axis=0) * task.unit
    deviation = math.sqrt(release.noise_variance[0])
    assert np.sqrt(np.mean((release.sketch[0] - exact) ** 2)) == pytest.approx(deviation, rel=0.6)  # 15 entries: 5 sd
    # The noise of a round is what the theorem says: the square root of 4 or 16/3, over mu.
    assert deviation == pytest.approx(math.sqrt(link.squared_sensitivity) / 0.236704, rel=1e-3)


@pytest.mark.parametrize(
    ("changed", "rejection"),
    [
        (
            {"scales": np.ones((2, 2))},
            {"argument": "scales", "expected": "a list of numbers", "condition": "of which 1 is first"},
        ),
        ({"scales": [2.0, 1.0]}, {"argument": "scales", "condition": "of which 1 is first"}),
        ({"scales": [1.0, math.nan]}, {"argument": "scales", "given": "numbers from 1e-08 to 1e+08 expected"}),
        ({"scales": [1.0, -1.0]}, {"argument": "scales", "given": "numbers from 1e-08 to 1e+08 expected"}),
        ({"scales": [1.0, 1e300]}, {"argument": "scales", "given": "numbers from 1e-08 to 1e+08 expected"}),
        ({"theta": [1.0]}, {"argument": "theta", "given": "2 numbers of magnitude at most 1e+06 expected"}),
        ({"theta": [1.0, math.inf]}, {"argument": "theta", "given": "2 numbers of magnitude at most 1e+06 expected"}),
        ({"link": {"name": "probit"}}, {"argument": "link", "given": "name: 'probit'"}),
        ({"link": {"name": "poisson", "top": 10**9, "limit": 2.0}}, {"argument": "top", "given": "1000000000"}),
        ({"link": {"name": "identity", "limit": -1.0}}, {"argument": "limit", "given": "-1.0"}),
    ],
)
def test_public_numbers_are_checked(changed, rejection):
    arguments = {"scales": [1.0, 1.0], "theta": [0.0, 0.0], "link": Logistic()}
    with rejects(**rejection):
        Scores(**(arguments | changed))


def test_floats_are_not_trusted_beyond_their_digits():
    with rejects("fractional_bits", expected="at most 40"):
        Scores([1.0, 1.0], [0.0, 0.0], Logistic()).sensitivity(2, FixedPoint(41))
    with rejects("columns", expected="2"):
        Scores([1.0, 1.0], [0.0, 0.0], Logistic()).width(3)
