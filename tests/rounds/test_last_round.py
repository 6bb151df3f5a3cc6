"""Last rounds: answers without noise, what is not clipped, what cannot be told apart, whether intervals cover."""

import math

import numpy as np
import pytest

from bench.secure_sketching.simulation import exact_sums, noiseless, opened
from dpmpc.contributions import Identity, Scores
from dpmpc.data import Schema
from dpmpc.errors import InputError
from dpmpc.planning import ReleaseSpec
from dpmpc.rounds import LeastSquares, LogisticModel, PoissonModel, Releases
from dpmpc.rounds.last_round import identified, last_rounds, read_last_round
from dpmpc.rounds.start import Whitened

ONE, TWO = (0.5,), (0.2, 0.3)  # shares of the last rounds: of a linear model, of a curved one


def releases(rows, seed=0, epsilon=3.0, answer=opened):
    """Answer tasks from normalised rows; every release has noise of its own."""
    asked = iter(range(1000 * seed, 1000 * seed + 100))
    schema = Schema.unit(tuple(f"c{place}" for place in range(rows.shape[1])))
    spec = ReleaseSpec.of(schema, len(rows), epsilon, 1e-6, simulation_seed=seed)

    def ask(task):
        sums = exact_sums(task, rows)
        return answer(task, sums, next(asked)) if answer is opened else answer(task, sums)

    return Releases(spec, ask)


def estimate(model, rows, coefficients, shares, *, seed=0, epsilon=3.0, answer=opened):
    """Make the first sum and the last rounds at these coefficients; return the estimate and the releases."""
    made = releases(rows, seed, epsilon, answer)
    whitened = Whitened.of(made.make(0.2))
    return last_rounds(model, made, whitened, np.asarray(coefficients, dtype=float), shares), made


def numbers(clients, seed=0, features=2):
    """A lognormal feature with errors that are skewed and grow with it, and uniform ones."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (clients, features))
    skewed = np.exp(rng.normal(0, 1, clients)).clip(0, 20)
    X[:, 0] = skewed / 10 - 1
    errors = (rng.gamma(1.0, 1.0, clients) - 1) * (1 + 0.3 * skewed.clip(0, 5)) / 30
    return np.column_stack([X, np.clip(0.1 + X @ np.resize([0.3, -0.2], features) + errors, -1, 1)])


def solved(rows, matrix, radius):
    """Weighted least squares, by the weights of `Scores`."""
    v = np.column_stack([np.ones(len(rows)), rows[:, :-1]]) @ matrix.T
    length = np.linalg.norm(v, axis=1) / radius
    w = np.minimum(np.minimum(1, 1 / length), 2 / length**2)
    return matrix.T @ np.linalg.solve((v * w[:, None]).T @ v, (v * w[:, None]).T @ rows[:, -1])


def test_a_linear_round_is_weighted_least_squares_from_every_start():
    """Nothing is clipped and the mean is linear: the answer does not depend on where the round is made."""
    rows = numbers(4000)
    found = []
    for start in ([0.0, 0.0, 0.0], [0.4, -2.0, 3.0], [-0.9, 0.1, 0.1]):
        made, releases_ = estimate(LeastSquares(), rows, start, ONE, answer=noiseless)
        scores = releases_.made[-1].task.statistic
        found.append(made.coefficients - solved(rows, scores.matrix, scores.ball))
    assert np.abs(found).max() < 1e-5


def test_a_curved_round_ends_where_the_score_is_zero():
    """Two rounds from a start that is a little off: the weighted score at the end is that of rounding."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (5000, 2))
    rows = np.column_stack([X, 2.0 * (rng.random(5000) < 1 / (1 + np.exp(0.5 - 1.5 * X[:, 0]))) - 1])
    near, made = estimate(LogisticModel(), rows, [-0.4, 1.2, 0.1], TWO, answer=noiseless)
    scores = made.made[-1].task.statistic
    again = Scores(scores.matrix, np.linalg.solve(scores.matrix.T, near.coefficients), scores.ball, scores.link)
    release = noiseless(made.task(0.1, again), exact_sums(made.task(0.1, again), rows))
    left = read_last_round(LogisticModel(), release).coefficients - near.coefficients
    assert np.abs(left).max() < 2e-4
    assert len(made.made) == 3


@pytest.mark.parametrize("model", [LeastSquares(), PoissonModel(7), LogisticModel()], ids=lambda m: type(m).__name__)
def test_no_residual_is_clipped(model):
    """At every corner of the box, for coefficients of all sizes, a residual grows with its target by as much."""
    rng = np.random.default_rng(2)
    unit = {"LeastSquares": 1.0, "PoissonModel": 3.5, "LogisticModel": 0.5}[type(model).__name__]
    for size in (0.01, 1.0, 30.0):
        b = size * rng.normal(size=4)
        z, (low, high) = rng.choice([-1.0, 1.0], (500, 3)), np.sort(rng.uniform(-1, 1, (2, 500)), axis=0)
        link, eta = model.unclipped(b, 0.0), b[0] + z @ b[1:]
        for less, more in ((low, high), (np.full(500, -1.0), np.full(500, 1.0))):
            first, second = (link.residual_and_curvature(t, eta)[0] * link.reach for t in (less, more))
            assert second - first == pytest.approx(unit * (more - less), abs=1e-9)
        if not model.curved:
            assert first == pytest.approx(-1 - eta)


def test_the_start_is_shrunk_as_far_as_the_smaller_bound_pays():
    """The part of the slopes that is kept has the least cost of all; the mean is kept."""
    rows = numbers(20_000)
    rng = np.random.default_rng(3)
    for epsilon in (0.5, 100.0):
        start = np.array([0.1, 0.3, -0.2]) * rng.uniform(0.5, 2)
        _, made = estimate(LeastSquares(), rows, start, ONE, epsilon=epsilon)
        whitened, scores = Whitened.of(made.made[0]), made.made[-1].task.statistic
        theta = np.linalg.solve(whitened.matrix.T, start)
        part = scores.theta[1:] @ theta[1:] / (theta[1:] @ theta[1:])
        assert scores.theta == pytest.approx([theta[0], *(part * theta[1:])])
        noise = 17 / 4 * (scores.ball / made.mu_of(0.5)) ** 2
        ends = [LeastSquares().unclipped(whitened.matrix.T @ [theta[0], *(a * theta[1:])], 0.0).reach for a in (0, 1)]
        parts = np.linspace(0, 1, 1001)
        squared = theta[1:] @ theta[1:]
        costs = noise * (ends[0] + parts * (ends[1] - ends[0])) ** 2
        costs += (1 - parts) ** 2 * squared * (20_000 + 8 * scores.ball**2 * noise)
        assert part == pytest.approx(parts[np.argmin(costs)], abs=2e-3)
        assert scores.link.reach == pytest.approx(1 + np.abs(scores.matrix.T @ scores.theta).sum())


def test_a_release_with_clipped_residuals_has_no_interval():
    """As those of earlier versions were: whatever the sums say, the clip is public."""
    rows = numbers(20_000)
    full, made = estimate(LeastSquares(), rows, [0.1, 0.3, -0.2], ONE)
    assert full.covariance is not None
    scores = made.made[-1].task.statistic
    clipped = Scores(scores.matrix, scores.theta, scores.ball, Identity(0.99 * scores.link.reach))
    again = releases(rows)
    found = read_last_round(LeastSquares(), again.make(0.5, clipped))
    assert found.covariance is None
    assert "residuals were clipped at" in found.why
    assert not found.identified(np.eye(3)).any()


def test_only_scores_are_read():
    with pytest.raises(InputError, match="of second-moments given, of scores expected"):
        read_last_round(LeastSquares(), releases(numbers(500)).make(0.5))


def test_there_is_no_interval_where_noise_decides_the_curvature():
    found, _ = estimate(LogisticModel(), np.sign(numbers(300)), [0.0, 0.0, 0.0], TWO, epsilon=0.5)
    assert found.covariance is None
    assert "times its noise in its strongest direction, at least 4 expected" in found.why


def test_there_is_no_interval_where_the_last_step_is_long():
    """A start that is far off: two steps leave more than a standard error."""
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, (60_000, 2))
    rows = np.column_stack([X, 2.0 * (rng.random(60_000) < 1 / (1 + np.exp(-3 * X[:, 0]))) - 1])
    far, _ = estimate(LogisticModel(), rows, [2.0, -3.0, 2.0], TWO)
    assert far.covariance is None
    assert "standard errors of every coefficient, at most 1 expected" in far.why
    near, _ = estimate(LogisticModel(), rows, [0.0, 2.9, 0.1], TWO)
    assert near.identified(np.eye(3)).all()


def twins(clients, seed, link):
    """Two features that nearly coincide, and a third."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=clients) / 4
    X = np.column_stack([z, z + 0.002 * rng.normal(size=clients), rng.uniform(-1, 1, clients)]).clip(-1, 1)
    eta = X @ [1.2, 0.8, -0.5]
    if link == "logistic":
        return np.column_stack([X, 2.0 * (rng.random(clients) < 1 / (1 + np.exp(-eta))) - 1])
    return np.column_stack([X, np.clip(eta / 4 + rng.normal(size=clients) / 10, -1, 1)])


@pytest.mark.parametrize(("link", "scale"), [("logistic", 1.0), ("identity", 0.25)])
def test_what_cannot_be_told_apart_is_named_and_the_rest_holds(link, scale):
    """The pair is weak, its sum and the third feature are not: of 40, fewer than 32 held has a chance of 1.3e-4."""
    model, shares = (LogisticModel(), TWO) if link == "logistic" else (LeastSquares(), ONE)
    contrasts = np.array([[0, 1, 0, 0], [0, 0, 1, 0], [0, 1, -1, 0], [0, 1, 1, 0], [0, 0, 0, 1.0]])
    held = []
    for seed in range(40):
        found, _ = estimate(model, twins(20_000, seed, link), scale * np.array([0, 0.9, 1.0, -0.45]), shares, seed=seed)
        assert found.identified(contrasts).tolist() == [False, False, False, True, True]
        (weak,) = found.weak
        assert abs(weak[1] + weak[2]) < 0.1 * abs(weak[1]) > 10 * abs(weak[3]) * 0.1
        errors = contrasts @ found.coefficients - scale * np.array([1.2, 0.8, 0.4, 2.0, -0.5])
        held.append(np.abs(errors) < 1.96 * np.sqrt(np.einsum("mi,ij,mj->m", contrasts, found.covariance, contrasts)))
    assert (np.sum(held, axis=0)[3:] >= 32).all()


def test_a_contrast_is_identified_where_bounds_are_the_smaller_part():
    covariance, hidden = np.diag([2.0, 2.0]), np.diag([1.0, 1.01])
    assert identified(np.eye(2), covariance, hidden).tolist() == [True, False]
    assert identified(np.array([[3.0, 0.0]]), covariance, hidden).tolist() == [True]


def test_intervals_hold_with_skewed_errors_that_grow_with_a_feature():
    """Of 100, at a level of .95 fewer than 86 held has a chance of 1.4e-4, all of three slopes below 1e-6."""
    truth, held = np.array([0.1, 0.3, -0.2]), []
    for seed in range(100):
        found, _ = estimate(LeastSquares(), numbers(20_000, seed), [0.1, 0.25, -0.2], ONE, seed=seed)
        held.append(np.abs(found.coefficients - truth) < 1.96 * np.sqrt(np.diag(found.covariance)))
    assert (np.sum(held, axis=0) >= 86).all()
    assert np.sum(held) < 300


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
        held.append(np.abs(found.coefficients - [0.2, 0.5, -0.4]) < 1.96 * np.sqrt(np.diag(found.covariance)))
    assert (np.sum(held, axis=0) >= 50).all()
    assert math.isfinite(found.curvature.sum())
