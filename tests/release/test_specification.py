"""What `plan` predicts is what comes out, within the accuracy of a first-order formula."""

import numpy as np
import pytest

from dpmpc import RidgeRegression
from dpmpc.base.errors import GuaranteeError
from dpmpc.base.randomness import Stream
from dpmpc.data import Schema
from dpmpc.privacy.specification import Budget, ReleaseSpec
from dpmpc.release import simulation as model
from dpmpc.release.planning import design
from dpmpc.release.planning.prediction import Population, Regression, expected_of
from support.rejections import rejects

EXPLAINED = 0.8
MILLION = pytest.mark.long("twelve releases of a million clients")


def population(clients, features=4, seed=0):
    """Uncorrelated features and a target as `Population` assumes them: spread .4 each, R^2 = .8."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (clients, features)) * 0.4 * np.sqrt(3)
    weights = rng.choice([-1, 1], features) * np.sqrt(EXPLAINED / features)
    y = X @ weights + 0.4 * np.sqrt(1 - EXPLAINED) * rng.standard_normal(clients)
    return X, np.clip(y, -1, 1)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("sketch", "clients", "rows"),
    [("countsketch", 400_000, 60), pytest.param("countsketch", 1_000_000, 150, marks=MILLION)],
)
def test_predicted_phi_of_a_sketch_is_near_the_mean_of_runs(sketch, clients, rows):
    """Mean of 12 runs within 40 % of the predicted excess; fixed seeds."""
    X, y = population(clients)
    names = Schema.unit([*"abcd", "y"])
    factors = []
    for seed in range(12):
        task = design(
            ReleaseSpec.of(names, clients, 1.0, 1e-7, sketch=sketch, rows=rows, radius=1.6, simulation_seed=seed)
        )
        release = model.run(task, np.column_stack([X, y]), stream=Stream.from_seed(seed))
        factors.append(RidgeRegression(debias="never").fit_release(release).approximation_factor(X, y))
    predicted = expected_of(task, Regression(), Population(explained=EXPLAINED))
    assert np.mean(factors) - 1 == pytest.approx(predicted - 1, rel=0.4)


@pytest.mark.statistical
def test_predicted_phi_of_a_sum_is_near_the_mean_of_runs():
    """Mean of 15 runs within 60 % of the predicted excess; fixed seeds."""
    X, y = population(20_000)
    factors = []
    for seed in range(15):
        task = design(
            ReleaseSpec.of(
                Schema.unit([*"abcd", "y"]), 20_000, 1.0, 1e-7, sketch="sum", radius=1.6, simulation_seed=seed
            )
        )
        release = model.run(task, np.column_stack([X, y]), stream=Stream.from_seed(seed))
        factors.append(RidgeRegression(0.0).fit_release(release).approximation_factor(X, y))
    predicted = expected_of(task, Regression(), Population(explained=EXPLAINED))
    assert np.mean(factors) - 1 == pytest.approx(predicted - 1, rel=0.6)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("sketch", "clients", "rows"), [pytest.param("osnap", 1_000_000, 60, marks=MILLION), ("sum", 20_000, None)]
)
def test_predicted_phi_of_pure_epsilon_is_near_the_mean_of_runs(sketch, clients, rows):
    """Mean of 12 runs within 60 % of the predicted excess; fixed seeds."""
    X, y = population(clients)
    factors = []
    for seed in range(12):
        task = design(
            ReleaseSpec.of(
                Schema.unit([*"abcd", "y"]),
                clients,
                1.0,
                0,
                sketch=sketch,
                rows=rows,
                noise="discrete-laplace",
                simulation_seed=seed,
            )
        )
        release = model.run(task, np.column_stack([X, y]), stream=Stream.from_seed(seed))
        factors.append(RidgeRegression(0.0, debias="never").fit_release(release).approximation_factor(X, y))
    predicted = expected_of(task, Regression(), Population(explained=EXPLAINED))
    assert np.mean(factors) - 1 == pytest.approx(predicted - 1, rel=0.6)


def test_pure_epsilon_plans_without_a_delta():
    names = Schema.unit([*"abcdef"])
    tasks = [
        design(ReleaseSpec.of(names, 500_000, 1.0, 0, sketch="osnap", noise="discrete-laplace", sparsity=s))
        for s in (None, 1, 4)
    ]
    assert [task.sketch.sparsity for task in tasks] == [1, 1, 4]
    assert expected_of(tasks[0], Regression()) < expected_of(tasks[2], Regression())


def test_auto_takes_a_sketch_where_second_moments_are_too_many():
    wide = Schema.unit([f"x{i}" for i in range(130)])
    task = design(ReleaseSpec.of(wide, 300_000, 1.0, 1e-7))
    assert (task.sketch.family, task.statistic.name) == ("osnap", "rows")
    narrow = Schema.unit([f"x{i}" for i in range(120)])
    assert design(ReleaseSpec.of(narrow, 3000, 1.0, 1e-7)).sketch.family == "sum"


def test_sketch_seeds_are_fresh_unless_simulated():
    names = Schema.unit([*"ab"])
    tasks = [design(ReleaseSpec.of(names, 100, 1.0, 1e-3, sketch="countsketch", rows=5)) for _ in range(2)]
    assert tasks[0].digest != tasks[1].digest
    assert not tasks[0].simulation
    repeated = [
        design(ReleaseSpec.of(names, 100, 1.0, 1e-3, sketch="countsketch", rows=5, simulation_seed=1)).digest
        for _ in range(2)
    ]
    assert repeated[0] == repeated[1]


def test_a_task_is_the_same_whatever_types_its_numbers_came_in():
    names = Schema.unit([*"ab"])
    numpy_numbers = {"corrupt_clients": np.int64(2), "dropouts": np.uint8(1), "servers": np.int32(3)}
    coarse = np.float32(0.7)
    task = design(ReleaseSpec.of(names, np.int64(100), coarse, np.float64(1e-3), **numpy_numbers))
    plain = {"corrupt_clients": 2, "dropouts": 1, "servers": 3}
    assert task.digest == design(ReleaseSpec.of(names, 100, float(coarse), 1e-3, **plain)).digest
    assert design(ReleaseSpec.of(names, 100, 1, 1e-3)).digest == design(ReleaseSpec.of(names, 100, 1.0, 1e-3)).digest


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"epsilon": True}, "epsilon"),
        ({"clients": 0}, "clients"),
        ({"delta": 0.01}, "delta"),
        ({"purpose": "fun"}, "purpose"),
        ({"sketch": "fjlt"}, "sketch"),
        ({"sharing": "shamir", "servers": 2}, "servers"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"delta": 1e-3}, "delta"),
        ({"delta": -1e-6}, "delta"),
        ({"sketch": "osnap", "rows": 2}, "rows"),
        ({"sketch": "osnap", "rows": 8, "sparsity": 9}, "sparsity"),
        ({"sketch": "osnap", "rows": 8, "sparsity": -1}, "sparsity"),
        ({"sketch": "countsketch", "rows": 1001}, "clients"),
        ({"sketch": "countsketch", "clients": 3}, "clients"),
        ({"servers": 1}, "servers"),
        ({"noise_by": "analyst"}, "noise_by"),
        ({"corrupt_clients": -1}, "corrupt_clients"),
        ({"dropouts": -1}, "dropouts"),
    ],
)
def test_bad_designs(change, argument):
    arguments = {"clients": 1000, "epsilon": 1.0, "delta": 1e-6, **change}
    with rejects(argument):
        design(ReleaseSpec.of(Schema.unit([*"ab"]), **arguments))


@pytest.mark.parametrize("name", ["seed", "statistic", "trust", "budget", "noised_by"])
def test_flat_keywords_have_one_name_each(name):
    with rejects(name):
        ReleaseSpec.of(Schema.unit([*"ab"]), 1000, 1.0, 1e-6, **{name: 1})


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ((Schema.unit([*"ab"]), 1000, 1.0, 1e-6), "budget"),
        ((["a", "b"], 1000, Budget(1.0, 1e-6)), "schema"),
        ((Schema.unit([*"ab"]), 1000, Budget(1.0, 1e-6), "rows"), "contribution"),
    ],
)
def test_parts_of_a_specification_are_values_of_their_kind(arguments, argument):
    with rejects(argument):
        ReleaseSpec(*arguments)


@pytest.mark.parametrize("sketch", ["countsketch", "sum"])
def test_a_coalition_as_large_as_a_row_is_refused_unless_servers_add_the_noise(sketch):
    collected = 100 if sketch == "countsketch" else 1000
    rows = 10 if sketch == "countsketch" else None
    choices = {"sketch": sketch, "rows": rows, "corrupt_clients": collected}
    with rejects("corrupt_clients + dropouts", GuaranteeError):
        design(ReleaseSpec.of(Schema.unit([*"ab"]), 1000, 1.0, 1e-6, **choices))
    assert (
        design(
            ReleaseSpec.of(Schema.unit([*"ab"]), 1000, 1.0, 1e-6, noise_by="servers", **choices)
        ).guarantee.corrupt_clients
        > 0
    )


def test_a_server_that_adds_noise_is_never_trusted_not_to_take_it_off():
    """Against itself a server's noise hides nothing: M sums with 1/M of the noise each leave (M - 1)/M of it."""
    plan = {"schema": Schema.unit([*"ab"]), "clients": 1000, "epsilon": 1.0, "delta": 1e-6}
    with rejects("corrupt_servers", expected="1 to 2"):
        design(ReleaseSpec.of(**plan, noise_by="servers", corrupt_servers=0))
    assert design(ReleaseSpec.of(**plan, noise_by="clients", corrupt_servers=0)).trust.corrupt_servers == 0


@pytest.mark.parametrize("fields", [{"spread": 0}, {"target_spread": 2}, {"explained": 1}, {"explained": 0}])
def test_bad_populations(fields):
    with rejects(next(iter(fields))):
        Population(**fields)
