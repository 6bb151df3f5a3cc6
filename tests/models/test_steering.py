"""Steering rounds: the rule against known answers, dense formulas and errors that simulations have.

Nothing here depends on the data sets of the benches.
"""

import itertools
import math

import numpy as np
import pytest

from bench.system.glm import answers
from dpmpc.base.randomness import Stream
from dpmpc.data import Schema
from dpmpc.linear.contributions.clipped_scores import ClippedScores
from dpmpc.linear.contributions.scores import sigmoid
from dpmpc.models.common.releases import Releases
from dpmpc.models.rounds.fit import fit_in_rounds
from dpmpc.models.rounds.models import LeastSquares, LogisticModel, PoissonModel
from dpmpc.models.rounds.steering import _SCALES, Steering, aim, clip_multiple, posterior
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release import simulation

FIRST = 0.2  # share of the second moments


def steered(model, rows, epsilon, rounds, seed, **choices):
    """A fit in integers with the noise that is shipped: its state after the rounds, and the releases."""
    spec = ReleaseSpec.of(
        Schema.unit(tuple(f"c{j}" for j in range(rows.shape[1]))),
        len(rows), epsilon, 1e-6, simulation_seed=seed, **choices,
    )  # fmt: skip
    stream = Stream.from_seed(seed)
    made = Releases(spec, lambda task: simulation.run(task, rows, stream=stream))
    first = made.make(FIRST)
    mean = float(first.gram().matrix[0, -1]) / len(rows)
    state = Steering(first, model.response(mean), made.mu_of(1 - FIRST))
    for _ in range(rounds):
        state.observe(made.make((1 - FIRST) / rounds, state.contribution()))
    return state, made


def table(clients, seed=0):
    """Uneven features, of which one is rare; and a linear predictor."""
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [rng.uniform(-1, 1, clients), 2 * rng.random(clients) ** 2 - 1, np.where(rng.random(clients) < 0.1, 1.0, -1.0)]
    )
    return rng, X, X @ [0.2, -0.1, 0.05]


def test_the_posterior_is_that_of_a_dense_solve():
    rng = np.random.default_rng(2)
    for _ in range(20):
        side = int(rng.integers(1, 6))
        precision, prior = 10.0 ** rng.uniform(-2, 4, side), rng.uniform(0.1, 2, side)
        weighted, intercept = precision * rng.normal(size=side), rng.normal(size=side)
        z, logs, means, variances = weighted / precision, [], [], []
        for scale in _SCALES:
            before = scale * np.diag(prior) + np.outer(intercept, intercept)
            total = before + np.diag(1 / precision)
            means.append(before @ np.linalg.solve(total, z))
            variances.append(np.diag(before - before @ np.linalg.solve(total, before)))
            logs.append(-0.5 * (z @ np.linalg.solve(total, z) + np.linalg.slogdet(total)[1]))
        weights = np.exp(np.array(logs) - max(logs))
        weights /= weights.sum()
        found = posterior(weighted, precision, prior, intercept)
        mean = weights @ np.array(means)
        variance = weights @ (np.array(variances) + (np.array(means) - mean) ** 2)
        assert found.weights == pytest.approx(weights, rel=1e-6, abs=1e-12)
        assert found.mean == pytest.approx(mean, rel=1e-6, abs=1e-9)
        assert found.variance == pytest.approx(variance, rel=1e-5, abs=1e-9)


def test_the_clip_is_steered_to_its_multiple_of_the_median():
    """min(1, |N| / (m median)) of normal gradients, by a formula and by simulation (error 3e-4)."""
    assert aim(1.0) == pytest.approx(0.7407, abs=5e-5)
    norm = np.abs(np.random.default_rng(0).normal(size=1_000_000))
    for multiple in (1.0, 2.5, 6.0):
        assert aim(multiple) == pytest.approx(np.minimum(1, norm / (multiple * np.median(norm))).mean(), abs=2e-3)


def test_the_clip_is_public_and_grows_with_people_and_budget():
    assert clip_multiple(100, 10, 0.1) == 1.0
    assert clip_multiple(10**5, 10, 0.1) == 6.0
    assert clip_multiple(2000, 10, 0.2) == pytest.approx(0.15 * 2000 * 0.2 / (2 * math.sqrt(2) * 10))
    multiple = clip_multiple(10**7, 10, 1.0)  # noise of all rounds, in units of the sampling deviation of a score
    assert 2 * multiple * 0.67449 / math.sqrt(10**7 / 10) == pytest.approx(0.25, rel=1e-4)


def costs(clients):
    """Four of five have none, and the others' grow with a feature, as do their spread: clips shorten just these."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, (clients, 3))
    some = np.where(rng.random(clients) < 0.8, 0, rng.gamma(2, 5, clients))
    y = np.clip(1 + X @ [1, 0.5, 0] + some * (1 + 0.5 * X[:, 0]), -5, 60)
    return X, (y + 5) / 32.5 - 1


@pytest.mark.parametrize(
    ("clients", "epsilon", "off", "level"), [(100_000, 1.0, 4e-4, 0.01), (10_000, 10.0, 4e-4, 0.01)]
)
def test_predictions_of_costs_have_the_right_level(clients, epsilon, off, level):
    """The first sum tells what clips take off: the excess was .0031 and .001, and means were 7 and 3 % too low."""
    X, y = costs(clients)
    x = np.column_stack([np.ones(clients), X])
    best = np.linalg.lstsq(x, y, rcond=None)[0]
    found = [steered(LeastSquares(), np.column_stack([X, y]), epsilon, 8, seed)[0].coefficients for seed in range(3)]
    residual = np.var(y - x @ best)
    assert np.median([np.mean((x @ (one - best)) ** 2) for one in found]) < 4e-4 * residual
    mean = np.mean(y + 1) * 32.5 - 5
    assert np.abs(np.median([np.mean(x @ one - y) * 32.5 for one in found])) < 0.01 * mean


def test_clipping_is_no_bias_in_the_end():
    """With more of the budget the excess goes to 0 and does not stay: a hundredth of what clips had left."""
    X, y = costs(20_000)
    x = np.column_stack([np.ones(len(X)), X])
    best = np.linalg.lstsq(x, y, rcond=None)[0]
    off = [
        steered(LeastSquares(), np.column_stack([X, y]), epsilon, 8, 1)[0].coefficients - best for epsilon in (3, 100)
    ]
    excess = [float(np.mean((x @ one) ** 2) / np.var(y - x @ best)) for one in off]
    assert excess[1] < 1e-5 < excess[0] < 1e-3


def test_one_fit_is_what_it_was():
    """The words that clients send in the last of three rounds, and what all of them lead to."""
    rng, X, eta = table(400)
    rows = np.column_stack([X, np.clip(eta + 0.1 * rng.normal(size=400), -1, 1)])
    state, made = steered(LeastSquares(), rows, 20.0, 3, 4)
    scores = made.made[-1].task.statistic
    assert isinstance(scores, ClippedScores)
    assert scores.encode(rows[:2], made.made[-1].task.encoding).tolist() == WORDS
    assert state.coefficients.tolist() == pytest.approx(COEFFICIENTS, rel=1e-9)
    assert made.guarantee.achieved_epsilon <= 20.0


WORDS = [[969937, 632337, -1948671, -1153505, 10124321], [2720103, -2265900, 4186369, -2267993, 4252909]]
COEFFICIENTS = [0.007973969473306735, 0.22484111558357409, -0.10412442543993328, 0.057279770548259286]


@pytest.mark.parametrize("model", [LeastSquares(), LogisticModel(), PoissonModel(20)], ids=lambda m: type(m).__name__)
def test_rounds_are_read_at_what_they_were_asked_for(model):
    """Every round asks for coefficients that the rounds before have led to, in the same coordinates."""
    rng, X, eta = table(4000, 1)
    target = {
        "LeastSquares": lambda: np.clip(eta + 0.1 * rng.normal(size=4000), -1, 1),
        "LogisticModel": lambda: 2.0 * (rng.random(4000) < sigmoid(4 * eta)) - 1,
        "PoissonModel": lambda: np.minimum(rng.poisson(np.exp(1 + 3 * eta)), 20) / 10 - 1,
    }[type(model).__name__]()
    state, made = steered(model, np.column_stack([X, target]), 3.0, 4, 2)
    asked = [release.task.statistic for release in made.made[1:]]
    assert all(isinstance(one, ClippedScores) for one in asked)
    for one, later in itertools.pairwise(asked):
        assert np.array_equal(one.matrix, later.matrix)
        assert not np.array_equal(one.theta, later.theta)
    moves = [later.clip != one.clip for one, later in itertools.pairwise(asked)]
    assert all(moves) if model.response(0.0).clip is None else not any(moves)
    assert 0 < state.noise_part < 1
    assert made.guarantee.achieved_epsilon <= 3.0
    assert (made.guarantee.mu, len(made.made)) == (pytest.approx(made.mu, rel=1e-4), 5)


def test_errors_are_those_of_the_noise():
    """Even errors, 20,000 people: the excess is what the posterior takes noise for, and shrinks with the budget.

    20 fits: the mean of chi-square variables of 4 degrees has a relative error of .16; false alarm below 1e-4.
    """
    rng, X, eta = table(20_000)
    y = np.clip(0.1 + eta + 0.1 * rng.normal(size=len(X)), -1, 1)
    x = np.column_stack([np.ones(len(X)), X])
    best = np.linalg.lstsq(x, y, rcond=None)[0]
    excess, stated, scale = [], [], []
    for seed in range(20):
        state, _ = steered(LeastSquares(), np.column_stack([X, y]), 1.0, 8, seed)
        off = state.coefficients - best
        excess.append(float(np.mean((x @ off) ** 2)))
        stated.append(state.noise_part)
        scale.append(state.residual_scale)
    assert np.mean(excess) == pytest.approx(np.mean(stated) * np.var(x @ best), rel=0.64)
    assert np.mean(excess) < 2e-6  # the variance of y is .027
    assert state.why_nothing() is None
    assert np.median(scale) == pytest.approx(0.1, rel=0.2)


def test_nothing_to_learn_tends_to_the_mean():
    """A target of noise alone, and few people: the least scale of the prior gets the most weight."""
    rng, X, _ = table(300)
    rows = np.column_stack([X, np.clip(0.3 + 0.05 * rng.normal(size=300), -1, 1)])
    state, _ = steered(LeastSquares(), rows, 0.5, 4, 1)
    assert np.abs(state.coefficients[1:]).max() < 0.2
    assert state.noise_part > 0.5
    assert "of what the features may explain" in state.why_nothing()


@pytest.mark.parametrize(("clients", "effect", "said"), [(3000, 0.0, True), (20_000, 0.003, False)])
def test_small_effects_are_no_effects_only_where_noise_hides_them(clients, effect, said):
    """The least scale of the prior is the likeliest for both; of twelve seeds each, most are as they should be."""
    rng, X, _ = table(clients)
    rows = np.column_stack([X, np.clip(0.3 + effect * X[:, 0] + 0.05 * rng.normal(size=clients), -1, 1)])
    found = [steered(LeastSquares(), rows, 1.0, 8, seed)[0].why_nothing() for seed in range(12)]
    assert sum(why is not None for why in found) >= 7 if said else not any(found)
    assert all("noise hides about" in why for why in found if why)


def test_noise_of_a_coalition_is_counted():
    """With more noise than protects, lengths and observations count less; the multiple of the clip stays."""
    rng, X, eta = table(3000)
    rows = np.column_stack([X, np.clip(eta + 0.1 * rng.normal(size=3000), -1, 1)])
    alone, _ = steered(LeastSquares(), rows, 1.0, 8, 3)
    together, made = steered(LeastSquares(), rows, 1.0, 8, 3, noise_by="servers", servers=3, corrupt_servers=2)
    assert made.guarantee.mu == pytest.approx(0.2367, rel=1e-3)
    assert together.noise_part > 1.5 * alone.noise_part


def test_what_is_wrong_of_logistic_predictions_falls_with_the_number_of_people():
    """Rare 0/1 features, whose rows a clip that stays would shorten; a fixed seed."""
    rng = np.random.default_rng(1)
    X = np.where(rng.random((20_000, 3)) < [0.02, 0.1, 0.5], 1.0, -1.0)
    eta = -0.3 + X @ [0.8, -0.5, 0.4]
    table = np.column_stack([X, 2.0 * (rng.random(len(X)) < sigmoid(eta)) - 1])
    x, y = np.column_stack([np.ones(len(X)), X]), (1 + table[:, -1]) / 2
    best = np.zeros(4)
    for _ in range(20):
        q = sigmoid(x @ best)
        best = best + np.linalg.solve((x * (q * (1 - q))[:, None]).T @ x, x.T @ (y - q))
    errors = []
    for clients in (20_000, 2_000_000):  # the same people, a hundred times over
        spec = ReleaseSpec.of(Schema.unit(["a", "b", "c", "y"]), clients, 1.0, 1e-7, simulation_seed=1)
        made = Releases(spec, answers(table, clients // len(table), 1))
        fit = fit_in_rounds(LogisticModel(), made, 8, intervals=False)
        wrong = x[:, 1:] @ (fit.coefficients[1:] - best[1:])
        errors.append(wrong.std() / (x @ best).std())
    assert errors[0] < 0.3
    assert errors[1] < 0.001  # 0.0007 with this seed
