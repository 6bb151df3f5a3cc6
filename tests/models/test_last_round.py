"""Last rounds of curved links: what is neither clipped nor weighted, what cannot be distinguished, coverage."""

import itertools
import math

import numpy as np
import pytest

from bench.secure_sketching.simulation import exact_sums, noiseless, opened
from dpmpc.linear.contributions.scores import Scores
from dpmpc.models.common.linear_algebra import contrast_variances
from dpmpc.models.rounds.last_round import LastRoundEstimate, last_rounds, read_last_rounds
from dpmpc.models.rounds.models import LogisticModel, PoissonModel
from support.rejections import rejects
from support.rounds import numbers, releases

TWO = (0.2, 0.3)  # shares of the last rounds


def estimate(model, rows, coefficients, shares, *, seed=0, epsilon=3.0, answer=opened):
    """Make the first sum and the last rounds at these coefficients; return the estimate and the releases."""
    made = releases(rows, seed, epsilon, answer)
    made.make(0.2)
    return last_rounds(model, made, made.made[0], np.asarray(coefficients, dtype=float), shares), made


def incomes(clients, seed):
    """Chances that rise with income and fall again, which is no straight line of log odds; income has a long tail."""
    rng = np.random.default_rng(seed)
    income = 10 + rng.gamma(1.45, 20, clients).clip(0, 190)
    odds = -3 + 0.085 * income - 0.00042 * income**2
    ones = rng.random(clients) < 1 / (1 + np.exp(-odds))
    return np.column_stack([income / 125 - 1, rng.uniform(-1, 1, clients), 2.0 * ones - 1])


def test_intervals_are_of_maximum_likelihood_on_all_rows():
    """Where they are shown, in 10 of 20 at least: fewer than 60 % held has a chance below 1e-4; weights held none."""
    rows = incomes(2_000_000, 99)
    x, y, truth = np.column_stack([np.ones(len(rows)), rows[:, :2]]), (1 + rows[:, 2]) / 2, np.zeros(3)
    for _ in range(8):
        q = 1 / (1 + np.exp(-x @ truth))
        truth = truth + np.linalg.solve((x * (q * (1 - q))[:, None]).T @ x, x.T @ (y - q))
    held = []
    for seed in range(20):
        found, _ = estimate(LogisticModel(), incomes(100_000, seed), truth * [1.05, 0.95, 1], TWO, seed=seed)
        if found.shown[1]:
            held.append(abs(found.coefficients[1] - truth[1]) < 1.96 * math.sqrt(found.covariance[1, 1]))
    assert len(held) >= 10
    assert np.mean(held) >= 0.6


def test_a_curved_round_ends_where_the_score_is_zero():
    """Two rounds from a start that is a little off: the weighted score at the end is that of rounding."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (5000, 2))
    rows = np.column_stack([X, 2.0 * (rng.random(5000) < 1 / (1 + np.exp(0.5 - 1.5 * X[:, 0]))) - 1])
    _, made = estimate(LogisticModel(), rows, [-0.4, 1.2, 0.1], TWO, answer=noiseless)
    near = read_last_rounds(made.made[-1:], made.made[0])
    scores = made.made[-1].task.statistic
    again = Scores(scores.scales, near.coefficients, scores.link)
    release = noiseless(made.task(0.1, again), exact_sums(made.task(0.1, again), rows))
    left = read_last_rounds([release], made.made[0]).coefficients - near.coefficients
    assert np.abs(left).max() < 2e-3
    assert len(made.made) == 3


@pytest.mark.parametrize("model", [PoissonModel(7), LogisticModel()], ids=lambda m: type(m).__name__)
def test_no_residual_is_clipped(model):
    """At every corner of the box, for coefficients of all sizes, a residual grows with its target by as much."""
    rng = np.random.default_rng(2)
    unit = {"PoissonModel": 3.5, "LogisticModel": 0.5}[type(model).__name__]
    for size in (0.01, 1.0, 30.0):
        b = size * rng.normal(size=4)
        z, (low, high) = rng.choice([-1.0, 1.0], (500, 3)), np.sort(rng.uniform(-1, 1, (2, 500)), axis=0)
        link, eta = model.last(np.ones(4), b, 0.0).link, b[0] + z @ b[1:]
        for less, more in ((low, high), (np.full(500, -1.0), np.full(500, 1.0))):
            first, second = (link.residual_and_curvature(t, eta)[0] * link.reach for t in (less, more))
            assert second - first == pytest.approx(unit * (more - less), abs=1e-9)


def test_only_scores_are_read():
    first = releases(numbers(500)).make(0.5)
    with rejects("release", given="of second-moments"):
        read_last_rounds([first], first)


def test_there_is_no_interval_where_noise_decides_the_curvature():
    found, _ = estimate(LogisticModel(), np.sign(numbers(60)), [0.0, 0.0, 0.0], TWO, epsilon=0.1)
    assert found.errors is None
    assert "deviations of its noise in its strongest direction, at least 3.4 expected" in found.why


def test_there_is_no_interval_where_the_last_step_is_long():
    """A start that is far off: two steps leave more than a standard error."""
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, (60_000, 2))
    rows = np.column_stack([X, 2.0 * (rng.random(60_000) < 1 / (1 + np.exp(-3 * X[:, 0]))) - 1])
    far, _ = estimate(LogisticModel(), rows, [2.0, -3.0, 2.0], TWO)
    assert far.errors is None
    assert "standard errors of every coefficient, at most 1 expected" in far.why
    near, _ = estimate(LogisticModel(), rows, [0.0, 2.9, 0.1], TWO)
    assert near.identified(np.eye(3)).all()


def twins(clients, seed):
    """Two features that nearly coincide, and a third."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=clients) / 4
    X = np.column_stack([z, z + 0.002 * rng.normal(size=clients), rng.uniform(-1, 1, clients)]).clip(-1, 1)
    eta = X @ [1.2, 0.8, -0.5]
    return np.column_stack([X, 2.0 * (rng.random(clients) < 1 / (1 + np.exp(-eta))) - 1])


def test_what_cannot_be_told_apart_is_named_and_the_rest_holds():
    """The pair is weak, its sum and the third feature are not: of 40, fewer than 32 held has a chance of 1.3e-4."""
    contrasts = np.array([[0, 1, 0, 0], [0, 0, 1, 0], [0, 1, -1, 0], [0, 1, 1, 0], [0, 0, 0, 1.0]])
    shown, held = [], []
    for seed in range(40):
        found, _ = estimate(LogisticModel(), twins(20_000, seed), [0, 0.9, 1.0, -0.45], TWO, seed=seed)
        assert not found.shown[1:3].any()
        errors = contrasts @ found.coefficients - np.array([1.2, 0.8, 0.4, 2.0, -0.5])
        told = found.identified(contrasts)
        shown.append(told)
        variance, _ = found.variances(contrasts)
        held.append(told & (np.abs(errors) < 1.96 * np.sqrt(variance)))
        if told.tolist() == [False, False, False, True, True]:
            (weak,) = found.weak
            assert abs(weak[1] + weak[2]) < 0.1 * abs(weak[1]) > 10 * abs(weak[3]) * 0.1
    often, held_often = np.sum(shown, axis=0), np.sum(held, axis=0)
    assert not often[:3].any()
    assert (often[3:] >= 30).all()
    assert (held_often >= often - 8).all()


def test_a_contrast_is_identified_where_bounds_are_the_smaller_part():
    none = np.zeros((2, 2))
    errors, hidden = np.diag([2.0, 2.0]), np.diag([1.0, 1.01])
    found = LastRoundEstimate(coefficients=np.zeros(2), weak=np.zeros((0, 2)), errors=errors, hidden=hidden, left=none)
    assert found.identified(np.eye(2)).tolist() == [True, False]
    assert found.identified(np.array([[3.0, 0.0]])).tolist() == [True]


def test_what_a_link_leaves_of_a_contrast_is_what_corners_of_the_box_can_add():
    """No row of the box moves a contrast by more, some corner does by as much, and matrices bound all contrasts."""
    rng = np.random.default_rng(8)
    left, corners = rng.normal(size=(4, 4)), np.array(list(itertools.product([-1.0, 1.0], repeat=4)))
    contrasts = np.vstack([np.eye(4), rng.normal(size=(50, 4))])
    hidden = 4 * left @ left.T
    variance, bound = contrast_variances(contrasts, np.eye(4) + hidden, hidden, left)
    assert bound == pytest.approx(np.max(np.abs(contrasts @ left @ corners.T), axis=1) ** 2)
    assert variance - bound == pytest.approx(np.sum(contrasts**2, axis=1))
    assert (bound <= np.einsum("mi,ij,mj->m", contrasts, hidden, contrasts) + 1e-9).all()


def counts(clients, seed):
    """Counts of variance m + m^2, which a Poisson law would not have."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (clients, 2))
    X[:, 0] = rng.random(clients) < 0.2
    y = rng.poisson(np.exp(0.2 + X @ [0.5, -0.4]) * rng.gamma(1.0, 1.0, clients))
    return np.column_stack([X, np.minimum(y, 30) / 15 - 1])


def test_intervals_of_counts_assume_no_law():
    """Of 60, fewer than 50 held has a chance of 1.7e-4; centring by the Poisson law made most of them false."""
    held = []
    for seed in range(60):
        found, _ = estimate(PoissonModel(30), counts(20_000, seed), [0.2, 0.45, -0.35], TWO, seed=seed, epsilon=8.0)
        assert found.identified(np.eye(3)).all()
        held.append(np.abs(found.coefficients - [0.2, 0.5, -0.4]) < 1.96 * np.sqrt(np.diag(found.errors)))
    assert (np.sum(held, axis=0) >= 50).all()
