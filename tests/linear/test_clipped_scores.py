"""Scores that are clipped as a whole, and their lengths: by how much one client moves them, and what is read.

The theorem is that of theorem steering-round. It is checked on a grid of reals and on encoded rows, with
public numbers that somebody chose to do harm.
"""

import itertools
import json
import math

import numpy as np
import pytest

from dpmpc.base.randomness import Stream
from dpmpc.data import Schema
from dpmpc.linear.contributions import contribution_from
from dpmpc.linear.contributions.clipped_scores import LENGTH_WEIGHT, ClippedScores
from dpmpc.linear.contributions.scores import Identity, Logistic, Poisson
from dpmpc.linear.encoding.fixed_point import FixedPoint
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.privacy.task import Task
from dpmpc.release.planning import design
from dpmpc.release.simulation import run
from support.rejections import rejects

LINKS = [Logistic(), Identity(2.0), Poisson(30, 30.0)]
ROWS = np.array(list(itertools.product([-1.0, -0.3, 0.0, 1e-9, 1.0], repeat=3)))


def symmetric(rng, side, scale):
    root = rng.normal(size=(side, side)) * scale
    return (root + root.T) / 2


def test_the_length_is_free():
    """Over all lengths and angles; the weight is the largest at which it is, and the corners attain the bound."""
    grid = np.linspace(0, 1, 201)
    s, t = np.meshgrid(grid, grid)
    worst = (s + t) ** 2 + LENGTH_WEIGHT**2 * (s - t) ** 2  # opposite directions are the worst
    assert worst.max() == pytest.approx(4.0, abs=1e-12)
    assert worst[0, -1] == pytest.approx(4.0)
    assert worst[-1, -1] == pytest.approx(4.0)
    assert ((s + t) ** 2 + 3.01 * (s - t) ** 2).max() > 4


def test_a_client_who_comes_or_goes_moves_less():
    """About 1/2 the length of nobody is nothing, so that n need not be secret for the guarantee to hold."""
    s = np.linspace(0, 1, 1001)
    assert (s**2 + LENGTH_WEIGHT**2 * (0.5 - s) ** 2).max() == pytest.approx(1.75)


@pytest.mark.parametrize("link", LINKS, ids=repr)
@pytest.mark.parametrize("bits", [0, 1, 3, 24, 40])
def test_every_pair_of_encoded_rows(link, bits):
    """All rows of a grid, at matrices and clips over many decades, against the sensitivity in integers."""
    encoding, rng = FixedPoint(bits), np.random.default_rng(bits)
    for scale, clip, length in itertools.product([1e-300, 1e-8, 1.0, 1e7], [1e-8, 0.3, 1e8], [0.0, 1.0, 1e5]):
        scores = ClippedScores(symmetric(rng, 3, scale), np.clip(rng.normal(size=3), -3, 3) * length, clip, link)
        limits = scores.sensitivity(3, encoding)
        encoded = scores.encode(ROWS, encoding)
        apart = np.abs(encoded[:, None] - encoded[None]).astype(np.float64)
        assert np.sqrt(np.square(apart).sum(axis=2)).max() <= limits.l2
        assert apart.sum(axis=2).max() <= limits.l1
        assert apart.max() <= limits.linf
        assert np.abs(encoded).max() <= scores.largest_entry(encoding)
        alone = np.sqrt(np.square(encoded.astype(np.float64)).sum(axis=1))
        assert alone.max() <= limits.l2  # one who comes or goes


def test_the_bound_is_attained():
    """Opposite gradients beyond the clip are apart by the whole diameter, and so are one at the clip and none."""
    scores = ClippedScores(np.diag([1e-6, 20.0]), [0.0, 0.0], 0.01, Identity(2.0))
    encoded = scores.encode(np.array([[1.0, 1.0], [-1.0, 1.0], [1.0, 0.0]]), FixedPoint(24)) / 2.0**24
    assert np.linalg.norm(encoded[0] - encoded[1]) == pytest.approx(2.0, abs=1e-6)
    assert np.linalg.norm(encoded[0] - encoded[2]) == pytest.approx(2.0, abs=1e-6)


@pytest.mark.parametrize("link", LINKS, ids=repr)
def test_what_is_read_is_what_it_says(link):
    rng = np.random.default_rng(5)
    rows = np.column_stack([rng.uniform(-1, 1, (40, 2)), rng.choice([-1.0, 1.0], 40)])
    scores = ClippedScores(symmetric(rng, 3, 1.0), rng.normal(size=3) * 0.5, 0.8 * link.reach, link)
    sums = scores.read(scores.encode(rows, FixedPoint(30)).sum(axis=0) / 2.0**30, 0.25, 40)
    clip = scores.clip
    x = np.column_stack([np.ones(40), rows[:, :2]])
    gradient = (x @ scores.matrix) * link.residual(rows[:, 2], x @ scores.theta)[:, None]
    norm = np.linalg.norm(gradient, axis=1)
    longest = norm
    if link == Logistic():  # shortened for the larger of both residuals that y may have
        chance = 1 / (1 + np.exp(-x @ scores.theta))
        longest = np.linalg.norm(x @ scores.matrix, axis=1) * np.maximum(chance, 1 - chance)
    assert 0 < np.count_nonzero(longest < clip) < 40
    assert sums.score == pytest.approx((gradient * np.minimum(1, clip / longest)[:, None]).mean(axis=0), abs=1e-7)
    assert sums.length == pytest.approx(np.minimum(1, norm / clip).mean(), abs=1e-8)
    assert sums.score_sd == pytest.approx(0.25 * clip / 40)
    assert sums.length_sd == pytest.approx(0.25 / math.sqrt(3) / 40)


@pytest.mark.parametrize("clip", [0.05, 0.5, 2.0])
def test_clipping_leaves_a_logistic_score_its_mean_of_zero(clip):
    """At the true coefficients, over the outcomes of each row; what shortens the unlikely outcome alone would not."""
    rng = np.random.default_rng(3)
    scores = ClippedScores(symmetric(rng, 3, 1.0), rng.normal(size=3), clip, Logistic())
    features = rng.uniform(-1, 1, (200, 2))
    chance = 1 / (1 + np.exp(-(scores.theta[0] + features @ scores.theta[1:])))
    sent = {y: scores._clipped(np.column_stack([features, np.full(200, 2.0 * y - 1)])) for y in (0, 1)}
    mean = (1 - chance)[:, None] * sent[0][0] + chance[:, None] * sent[1][0]
    assert np.abs(mean).max() < 1e-15
    for score, length in sent.values():  # what makes the length free
        assert (np.linalg.norm(score, axis=1) <= length * (1 + 1e-15)).all()
    assert max(np.linalg.norm(score, axis=1).max() for score, _ in sent.values()) > min(0.5, 0.3 / clip)


def test_links_share_their_residuals():
    eta, target = np.array([-50.0, -1.0, 0.0, 2.0, 50.0]), np.array([-1.0, 1.0, 0.2, -1.0, 1.0])
    assert Identity(2.0).residual(target, eta).tolist() == [2.0, 2.0, 0.2, -2.0, -2.0]
    assert Logistic().residual(target, eta) == pytest.approx((target + 1) / 2 - 1 / (1 + np.exp(-eta)))
    means = np.array([1e-4, math.exp(-1), 1.0, math.exp(2.0), 30.0])
    assert Poisson(30, 30.0).residual(target, eta) == pytest.approx(15 * (target + 1) - means)


@pytest.mark.parametrize("link", LINKS, ids=repr)
def test_servers_sum_them_without_knowing_them(link):
    """Through task, file form, shares, servers and analyst; the noise is that of a sensitivity of 2."""
    rng = np.random.default_rng(7)
    rows = np.column_stack([rng.uniform(-1, 1, (300, 2)), rng.choice([-1.0, 1.0], 300)])
    scores = ClippedScores(symmetric(rng, 3, 1.0), [0.1, 0.2, -0.3], 1.5, link)
    schema = Schema.unit(("a", "b", "y"))
    task = design(ReleaseSpec.of(schema, 300, 1.0, 1e-6, contribution=scores, fractional_bits=24, simulation_seed=1))
    again = Task.from_dict(json.loads(json.dumps(task.to_dict())))
    assert again.digest == task.digest
    assert contribution_from(scores.describe()) == scores
    release = run(again, rows, stream=Stream.from_seed(1))
    exact = scores.encode(rows, task.encoding).sum(axis=0) * task.unit
    deviation = math.sqrt(release.noise_variance[0])
    assert deviation == pytest.approx(2 / task.guarantee.mu, rel=1e-5)
    assert np.abs(release.sketch[0] - exact).max() < 5.5 * deviation  # 4 words: a false alarm of 2e-7


@pytest.mark.parametrize(
    ("changed", "rejection"),
    [
        ({"matrix": np.ones((2, 3))}, {"argument": "matrix", "expected": "a square matrix"}),
        ({"matrix": [[1, 2], [3, 1]]}, {"argument": "matrix", "expected": "a symmetric matrix"}),
        (
            {"matrix": [[1, math.nan], [math.nan, 1]]},
            {"argument": "matrix", "given": "entries of magnitude at most 1e+08 expected"},
        ),
        (
            {"matrix": [[1e300, 0], [0, 1]]},
            {"argument": "matrix", "given": "entries of magnitude at most 1e+08 expected"},
        ),
        ({"theta": [1.0]}, {"argument": "theta", "given": "2 numbers of magnitude at most 1e+06 expected"}),
        ({"theta": [1.0, math.inf]}, {"argument": "theta", "given": "2 numbers of magnitude at most 1e+06 expected"}),
        ({"clip": 0.0}, {"argument": "clip", "given": "0.0"}),
        ({"clip": 1e-9}, {"argument": "clip", "given": "1e-09", "expected": "at least 1e-08"}),
        ({"clip": 1e9}, {"argument": "clip", "given": "1000000000.0"}),
        ({"clip": math.nan}, {"argument": "clip", "given": "nan"}),
        ({"link": {"name": "probit"}}, {"argument": "link", "given": "name: 'probit'"}),
    ],
)
def test_public_numbers_are_checked(changed, rejection):
    arguments = {"matrix": np.eye(2), "theta": [0.0, 0.0], "clip": 1.0, "link": Logistic()}
    with rejects(**rejection):
        ClippedScores(**(arguments | changed))


def test_floats_are_not_trusted_beyond_their_digits():
    scores = ClippedScores(np.eye(2), [0.0, 0.0], 1.0, Logistic())
    with rejects("fractional_bits", expected="at most 40"):
        scores.sensitivity(2, FixedPoint(41))
    with rejects("columns", expected="2"):
        scores.width(3)
