"""Fits computed again from their releases, and what a plan says before there are any."""

import math

import msgspec
import numpy as np
import pytest

from bench.secure_sketching.simulation import exact_sums, opened
from dpmpc.data import Column, Schema
from dpmpc.errors import GuaranteeError, InputError
from dpmpc.planning.prediction import Population
from dpmpc.rounds import (
    Assumed,
    LeastSquares,
    LogisticModel,
    PoissonModel,
    Releases,
    SavedReleases,
    fit_in_rounds,
    outlook,
)
from dpmpc.rounds.newton import HOPELESS
from dpmpc.specification import ReleaseSpec

SCHEMA = Schema.unit(("a", "b", "y"))


def rows_of(clients, seed=0):
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((clients, 2)) / 3).clip(-1, 1)
    return np.column_stack([X, 2.0 * (rng.random(clients) < 1 / (1 + np.exp(1 - 3 * X[:, 0]))) - 1])


def releases(rows, epsilon=1.0, schema=SCHEMA, seed=0):
    asked = iter(range(100 * seed, 100 * seed + 100))
    spec = ReleaseSpec.of(schema, len(rows), epsilon, 1e-6, simulation_seed=seed)
    return Releases(spec, lambda task: opened(task, exact_sums(task, rows), next(asked)))


@pytest.fixture(scope="module")
def fit():
    return fit_in_rounds(LogisticModel(), releases(rows_of(20_000)), 2)


def test_a_fit_is_computed_again_from_its_releases(fit):
    again = fit_in_rounds(LogisticModel(), SavedReleases(fit.releases, epsilon=1.0), 2)
    assert np.array_equal(again.coefficients, fit.coefficients)
    assert np.array_equal(again.covariance, fit.covariance)
    assert again.guarantee.achieved_epsilon == fit.guarantee.achieved_epsilon
    assert again.guarantee.mu == fit.guarantee.mu


def test_coefficients_of_another_machine_are_those_of_the_file(fit):
    """The last bits of a decomposition differ between machines: what was released at them is read at them."""
    second = fit.releases[2]
    scores = second.task.statistic
    moved = type(scores)(scores.matrix, scores.theta + 1e-9, scores.ball, scores.link)
    nearly = type(second)(msgspec.structs.replace(second.task, statistic=moved), second.sums)
    again = fit_in_rounds(LogisticModel(), SavedReleases([*fit.releases[:2], nearly], epsilon=1.0), 2)
    assert again.coefficients == pytest.approx(fit.coefficients, abs=1e-6)
    assert not np.array_equal(again.coefficients, fit.coefficients)


def test_other_releases_are_refused(fit):
    start, first, second = fit.releases
    for given, rounds, message in (
        ([], 2, "none given"),
        ([start, first], 2, "2 given, more expected"),
        ([start, second, first], 2, "number 1 given with another contribution"),
        ([first, first, second], 2, "number 0 given with another contribution"),
        ([start, first, second], 1, "number 0 given with another share of the budget"),
        ([start, first, first], 2, "number 2 given with another contribution"),
    ):
        with pytest.raises(InputError, match=message):
            fit_in_rounds(LogisticModel(), SavedReleases(given, epsilon=1.0), rounds)
    with pytest.raises(InputError, match="another share of the budget"):
        fit_in_rounds(LogisticModel(), SavedReleases(fit.releases, epsilon=0.5), 2)
    other = fit_in_rounds(LogisticModel(), releases(rows_of(10_000)), 2).releases
    with pytest.raises(InputError, match="number 1 given with another contribution"):
        fit_in_rounds(LogisticModel(), SavedReleases([start, *other[1:]], epsilon=1.0), 2)


def test_saved_releases_are_within_the_budget(fit):
    """Nearly the share that a fit asks for is not enough: all releases together are held to the budget."""
    saved = SavedReleases([fit.releases[2], fit.releases[2]], epsilon=1.0)
    last = fit.releases[2].task.statistic
    saved.make(0.6, last)
    with pytest.raises(GuaranteeError, match="at most 1 expected"):
        saved.make(0.6, last)


@pytest.mark.parametrize("model", ["logistic", "poisson", "ridge"])
def test_a_plan_has_the_noise_of_the_fit(model):
    """What is planned is what is asked for: shares, guarantee, and the noise of the last round for a radius of 1."""
    clients, top = 20_000, 10
    schema = Schema((*SCHEMA.columns[:2], Column("y", 0, top if model == "poisson" else 1)))
    rng = np.random.default_rng(1)
    X = (rng.standard_normal((clients, 2)) / 3).clip(-1, 1)
    target = {
        "logistic": lambda: rng.random(clients) < 1 / (1 + np.exp(1.4 - 3 * X[:, 0])),
        "poisson": lambda: rng.poisson(np.exp(0.5 * X[:, 0])).clip(0, top),
        "ridge": lambda: (0.5 + 0.3 * X[:, 0] + rng.normal(0, 0.1, clients)).clip(0, 1),
    }[model]()
    kind = {"logistic": LogisticModel(), "poisson": PoissonModel(top), "ridge": LeastSquares()}[model]
    rows = np.column_stack([X, target])
    spread = 2 * float(target.std()) if model == "ridge" else 0.4  # on [-1, 1]; features explain half of it
    effect = 0.2 if model == "poisson" else 1.0
    assumed = Assumed(float(target.mean()), effect, top, Population(0.33, spread, 0.5))
    fit = fit_in_rounds(kind, releases(rows, schema=schema))
    found = outlook(model, ReleaseSpec.of(schema, clients, 1.0, 1e-6), assumed=assumed)
    assert [one.share for one in found.sums] == list(kind.shares_of(kind.usual))
    assert found.guarantee.achieved_epsilon == pytest.approx(fit.guarantee.achieved_epsilon, rel=1e-3)
    assert found.sums[0].noise_sd == pytest.approx(math.sqrt(fit.releases[0].noise_variance[0]), rel=1e-6)
    assert found.sums[-1].epsilon_alone < 1
    assert (fit.covariance is None) == (fit.no_interval is not None)
    last = fit.releases[-1]
    read = last.task.statistic.read(last.sketch[0], math.sqrt(last.noise_variance[0]))
    # radius and residual scale are those of the released start there, and of the assumed population here
    assert found.sums[-1].noise_sd == pytest.approx(read.score_sd, rel=0.6 if model == "ridge" else 0.25)


def test_a_plan_foresees_errors_and_verdicts():
    """Noise and sampling error against the spread of fits over fresh noise and people, within a third; then too few."""
    clients = 8000
    spec = ReleaseSpec.of(SCHEMA, clients, 1.0, 1e-6)
    found = outlook("logistic", spec, 2, Assumed(mean=0.31, effect=1.0))
    errors = []
    for run in range(12):
        fit = fit_in_rounds(LogisticModel(), releases(rows_of(clients, run), seed=run + 1), 2)
        eta = fit.coefficients[0] - (-1) + rows_of(4000, 99)[:, :2] @ (fit.coefficients[1:] - [3, 0])
        errors.append(np.mean(eta**2))
    expected = math.hypot(found.noise_error, found.sampling_error)
    assert math.sqrt(np.mean(errors)) == pytest.approx(expected, rel=0.5)
    assert not found.hopeless
    few = outlook("logistic", ReleaseSpec.of(SCHEMA, 300, 0.3, 1e-6), 2)
    assert few.hopeless
    assert few.noise_error > HOPELESS
    assert few.learns_from > 300
    assert fit_in_rounds(LogisticModel(), releases(rows_of(300), epsilon=0.3), 2).verdict is not None
    enough = outlook("logistic", ReleaseSpec.of(SCHEMA, 2 * few.learns_from, 0.3, 1e-6), 2)
    assert enough.noise_error < HOPELESS
    assert not enough.hopeless
    rare = outlook("logistic", spec, 2, Assumed(mean=0.001))
    assert rare.hopeless
    longer = outlook("logistic", spec, 3, Assumed(mean=0.31, effect=1.0))  # its rounds have other shares of the budget
    assert longer.noise_error / longer.sums[-1].noise_sd == pytest.approx(found.noise_error / found.sums[-1].noise_sd)
    linear = outlook("ridge", spec)
    assert linear.phi is not None
    assert 1 < linear.phi < 1.05


def test_noise_by_servers_is_planned_with_its_variance():
    clients, servers = (
        outlook("logistic", ReleaseSpec.of(SCHEMA, 5000, 1.0, 1e-6, noise_by=who)) for who in ("clients", "servers")
    )
    assert servers.noise_error == pytest.approx(math.sqrt(3) * clients.noise_error, rel=0.02)


@pytest.mark.parametrize(
    ("model", "rounds", "assumed", "message"),
    [
        ("probit", "auto", {}, "model: 'probit' given"),
        ("logistic", 7, {}, "rounds: 7 given"),
        ("logistic", "auto", {"mean": 1.5}, "mean: 1.5 given"),
        ("poisson", "auto", {"mean": 200.0}, "mean: 200 given, less than the largest count"),
        ("logistic", "auto", {"effect": 9.0}, "effect: 9.0 given"),
    ],
)
def test_plans_that_make_no_sense_are_refused(model, rounds, assumed, message):
    with pytest.raises(InputError, match=message):
        outlook(model, ReleaseSpec.of(SCHEMA, 5000, 1.0, 1e-6), rounds, Assumed(**assumed))
