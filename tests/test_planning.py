"""What `plan` predicts is what comes out, within the accuracy of a first-order formula."""

import numpy as np
import pytest

from dpmpc import RidgeRegression, model
from dpmpc.bounds import Schema
from dpmpc.errors import InputError
from dpmpc.planning import design
from dpmpc.prediction import Population, best_rows, break_even, predict, predict_for
from dpmpc.randomness import Stream

EXPLAINED = 0.8


def population(clients, features=4, seed=0):
    """Uncorrelated features and a target as `Population` assumes them: spread .4 each, R^2 = .8."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (clients, features)) * 0.4 * np.sqrt(3)
    weights = rng.choice([-1, 1], features) * np.sqrt(EXPLAINED / features)
    y = X @ weights + 0.4 * np.sqrt(1 - EXPLAINED) * rng.standard_normal(clients)
    return X, np.clip(y, -1, 1)


@pytest.mark.statistical
@pytest.mark.parametrize(("sketch", "clients", "rows"), [("countsketch", 400_000, 60), ("countsketch", 1_000_000, 150)])
def test_predicted_phi_of_a_sketch_is_near_the_mean_of_runs(sketch, clients, rows):
    """Mean of 12 runs within 40 % of the predicted excess; fixed seeds."""
    X, y = population(clients)
    names = Schema.unit([*"abcd", "y"])
    factors = []
    for seed in range(12):
        task = design(names, clients, 1.0, 1e-7, sketch=sketch, rows=rows, radius=1.6, seed=seed)
        release = model.run(task, np.column_stack([X, y]), stream=Stream.from_seed(seed))
        factors.append(RidgeRegression(debias="never").fit_release(release).approximation_factor(X, y))
    predicted = predict(5, clients, 1.0, 1e-7, rows, radius=1.6, population=Population(explained=EXPLAINED)).sketch
    assert np.mean(factors) - 1 == pytest.approx(predicted - 1, rel=0.4)


@pytest.mark.statistical
def test_predicted_phi_of_a_sum_is_near_the_mean_of_runs():
    """Mean of 15 runs within 60 % of the predicted excess; fixed seeds."""
    X, y = population(20_000)
    factors = []
    for seed in range(15):
        task = design(Schema.unit([*"abcd", "y"]), 20_000, 1.0, 1e-7, sketch="sum", radius=1.6, seed=seed)
        release = model.run(task, np.column_stack([X, y]), stream=Stream.from_seed(seed))
        factors.append(RidgeRegression(0.0).fit_release(release).approximation_factor(X, y))
    predicted = predict(5, 20_000, 1.0, 1e-7, 60, radius=1.6, population=Population(explained=EXPLAINED)).sum
    assert np.mean(factors) - 1 == pytest.approx(predicted - 1, rel=0.6)


@pytest.mark.statistical
@pytest.mark.parametrize(("sketch", "clients", "rows"), [("osnap", 1_000_000, 60), ("sum", 20_000, None)])
def test_predicted_phi_of_pure_epsilon_is_near_the_mean_of_runs(sketch, clients, rows):
    """Mean of 12 runs within 60 % of the predicted excess; fixed seeds."""
    X, y = population(clients)
    factors = []
    for seed in range(12):
        task = design(
            Schema.unit([*"abcd", "y"]), clients, 1.0, 0, sketch=sketch, rows=rows, noise="discrete-laplace", seed=seed
        )
        release = model.run(task, np.column_stack([X, y]), stream=Stream.from_seed(seed))
        factors.append(RidgeRegression(0.0, debias="never").fit_release(release).approximation_factor(X, y))
    predicted = predict_for(task, Population(explained=EXPLAINED)).chosen(task.statistic.name)
    assert np.mean(factors) - 1 == pytest.approx(predicted - 1, rel=0.6)


def test_pure_epsilon_plans_without_a_delta():
    names = Schema.unit([*"abcdef"])
    tasks = [design(names, 500_000, 1.0, 0, sketch="osnap", noise="discrete-laplace", sparsity=s) for s in (None, 1, 4)]
    assert [task.sketch.sparsity for task in tasks] == [1, 1, 4]
    assert predict_for(tasks[0]).sketch < predict_for(tasks[2]).sketch
    assert break_even(tasks[0]) < break_even(tasks[2])


def test_best_rows_is_the_best_of_its_neighbours():
    budget = (6, 1_000_000, 1.0, 1e-7)
    best = best_rows(*budget)
    chosen = predict(*budget, best).sketch
    assert chosen <= predict(*budget, best * 2).sketch
    assert chosen <= predict(*budget, max(best // 2, 12)).sketch
    assert best_rows(6, 10, 1.0, 1e-3) == 12


def test_break_even_is_where_the_release_starts_to_be_useful():
    task = design(Schema.unit([*"abcdef"]), 500_000, 1.0, 1e-7, sketch="countsketch", rows=60)
    smallest = break_even(task)
    below, above = (
        predict(6, clients, 1.0, 1e-7, best_rows(6, clients, 1.0, 1e-7)) for clients in (smallest - 1, smallest)
    )
    assert below.sketch >= below.trivial > 0
    assert above.sketch < above.trivial
    assert break_even(task, largest=10) is None
    summed = design(Schema.unit([*"abcdef"]), 500_000, 1.0, 1e-7, sketch="sum")
    assert break_even(summed) < smallest
    assert predict_for(summed).sum < predict_for(task).sketch


def test_auto_takes_a_sketch_where_second_moments_are_too_many():
    wide = Schema.unit([f"x{i}" for i in range(130)])
    task = design(wide, 300_000, 1.0, 1e-7)
    assert (task.sketch.family, task.statistic.name) == ("osnap", "rows")
    narrow = Schema.unit([f"x{i}" for i in range(120)])
    assert design(narrow, 3000, 1.0, 1e-7).sketch.family == "sum"


def test_sketch_seeds_are_fresh_unless_simulated():
    names = Schema.unit([*"ab"])
    tasks = [design(names, 100, 1.0, 1e-3, sketch="countsketch", rows=5) for _ in range(2)]
    assert tasks[0].digest != tasks[1].digest
    assert not tasks[0].simulation
    repeated = [design(names, 100, 1.0, 1e-3, sketch="countsketch", rows=5, seed=1).digest for _ in range(2)]
    assert repeated[0] == repeated[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clients": 0}, "clients: 0"),
        ({"delta": 0.01}, r"delta: 0.01 given for 1000 clients"),
        ({"purpose": "fun"}, "purpose: 'fun'"),
        ({"sketch": "fjlt"}, "sketch: 'fjlt'"),
        ({"sharing": "shamir", "servers": 2}, "servers: 2"),
    ],
)
def test_bad_designs(change, message):
    arguments = {"clients": 1000, "epsilon": 1.0, "delta": 1e-6, **change}
    with pytest.raises(InputError, match=message):
        design(Schema.unit([*"ab"]), **arguments)


@pytest.mark.parametrize("fields", [{"spread": 0}, {"target_spread": 2}, {"explained": 1}, {"explained": 0}])
def test_bad_populations(fields):
    with pytest.raises(InputError, match=next(iter(fields))):
        Population(**fields)
