"""Fits computed again from their releases, and what a plan says before there are any."""

import math

import msgspec
import numpy as np
import pytest

from bench.secure_sketching.simulation import exact_sums, opened
from dpmpc.base.errors import GuaranteeError
from dpmpc.data import Column, Schema
from dpmpc.linear.contributions import contribution_from
from dpmpc.models.common.releases import Releases
from dpmpc.models.papers.baselines.likelihood import maximum_likelihood
from dpmpc.models.rounds import SavedReleases, outlook
from dpmpc.models.rounds.fit import fit_in_rounds, shares_of
from dpmpc.models.rounds.models import LeastSquares, LogisticModel, PoissonModel
from dpmpc.models.rounds.outlook import Assumed
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning.prediction import Population
from support.rejections import rejects

SCHEMA = Schema.unit(("a", "b", "y"))


def rows_of(clients, seed=0):
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((clients, 2)) / 3).clip(-1, 1)
    return np.column_stack([X, 2.0 * (rng.random(clients) < 1 / (1 + np.exp(1 - 3 * X[:, 0]))) - 1])


def releases(rows, epsilon=1.0, schema=SCHEMA, seed=0):
    asked = iter(range(100 * seed, 100 * seed + 100))
    spec = ReleaseSpec.of(schema, len(rows), epsilon, 1e-6, simulation_seed=seed)
    return Releases(spec, lambda task: opened(task, exact_sums(task, rows), next(asked)))


ROUNDS = 3


def logistic(made):
    return fit_in_rounds(LogisticModel(), made, ROUNDS)


@pytest.fixture(scope="module")
def fit():
    return logistic(releases(rows_of(20_000)))


def test_a_fit_is_computed_again_from_its_releases(fit):
    again = logistic(SavedReleases(fit.releases, epsilon=1.0))
    assert np.array_equal(again.coefficients, fit.coefficients)
    assert np.array_equal(again.estimate.coefficients, fit.estimate.coefficients)
    assert np.array_equal(again.estimate.covariance, fit.estimate.covariance)
    assert again.guarantee.achieved_epsilon == fit.guarantee.achieved_epsilon
    assert again.guarantee.mu == fit.guarantee.mu


@pytest.mark.parametrize("place", [2, 5])
def test_coefficients_of_another_machine_are_those_of_the_file(fit, place):
    """The last bits of a decomposition differ between machines: what was released at them is read at them."""
    one = fit.releases[place]
    theta = one.task.statistic.theta + 1e-9
    statistic = contribution_from({**one.task.statistic.describe(), "theta": theta.tolist()})
    nearly = type(one)(msgspec.structs.replace(one.task, statistic=statistic), one.sums)
    again = logistic(SavedReleases([*fit.releases[:place], nearly, *fit.releases[place + 1 :]], epsilon=1.0))
    assert again.coefficients == pytest.approx(fit.coefficients, abs=1e-6)
    assert again.estimate.coefficients == pytest.approx(fit.estimate.coefficients, abs=1e-6)
    moved = (again.coefficients, fit.coefficients) if place < 4 else (again.estimate, fit.estimate)
    assert not np.array_equal(*(getattr(one, "coefficients", one) for one in moved))


def test_other_releases_are_refused(fit):
    start, first, second, third, *last = fit.releases
    for given, rounds, argument in (
        ([], 3, "releases"),
        ([start, second, first, third, *last], 3, "releases"),
        ([first, first, second, third, *last], 3, "releases"),
        ([start, first, second, third, *last], 2, "releases"),
        ([start, first, first, third, *last], 3, "releases"),
        ([start, first, second, third, *reversed(last)], 3, "releases"),
    ):
        with rejects(argument):
            fit_in_rounds(LogisticModel(), SavedReleases(given, epsilon=1.0), rounds)
    with rejects("releases"):
        logistic(SavedReleases(fit.releases, epsilon=0.5))
    other = logistic(releases(rows_of(10_000))).releases
    with rejects("releases"):
        logistic(SavedReleases([start, *other[1:]], epsilon=1.0))


@pytest.mark.parametrize("made", [2, 4, 5])
def test_a_fit_that_ended_early_rests_on_the_sums_that_were_made(fit, made):
    """It is the posterior of its steering rounds, and says so; last rounds count together or not at all."""
    found = logistic(SavedReleases(fit.releases[:made], epsilon=1.0))
    assert found.rounds == min(made - 1, ROUNDS)
    assert found.estimate is None
    assert found.stopped == f"the rounds ended after {made} of 6 sums"
    assert np.isfinite(found.coefficients).all()
    steered = logistic(SavedReleases(fit.releases[:4], epsilon=1.0))
    assert np.array_equal(found.coefficients, steered.coefficients) == (made >= 4)
    released = math.sqrt(sum(one.guarantee.mu**2 for one in fit.releases[:made]))  # also what the fit cannot use
    assert found.guarantee.mu == pytest.approx(released)
    assert found.guarantee.achieved_epsilon < 1
    assert fit.stopped is None
    assert logistic(SavedReleases(fit.releases[:1], epsilon=1.0)).verdict is not None


def test_saved_releases_are_within_the_budget(fit):
    """Nearly the share that a fit asks for is not enough: all releases together are held to the budget."""
    last = fit.releases[-1]
    share = (last.guarantee.mu / fit.guarantee.mu) ** 2
    enough = int(1 / share)
    saved = SavedReleases([last] * (enough + 1), epsilon=1.0)
    for _ in range(enough):
        saved.make(share, last.task.statistic)
    with rejects("epsilon", GuaranteeError):
        saved.make(share, last.task.statistic)


@pytest.mark.parametrize("model", ["logistic", "poisson", "ridge"])
@pytest.mark.parametrize("intervals", [True, False])
def test_a_plan_has_the_sums_of_the_fit(model, intervals):
    """What is planned is what is asked for: shares, guarantee, noise; and the error is of the planned order."""
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
    spread = 2 * float(target.std()) if model == "ridge" else 0.4  # on [-1, 1]; features explain half of it
    assumed = Assumed(float(target.mean()), 0.2 if model == "poisson" else 1.0, top, Population(0.33, spread, 0.5))
    made = releases(np.column_stack([X, target]), schema=schema)
    fit = fit_in_rounds(kind, made, intervals=intervals)
    found = outlook(model, ReleaseSpec.of(schema, clients, 1.0, 1e-6), assumed=assumed, intervals=intervals)
    assert [one.share for one in found.sums] == list(shares_of(kind, fit.rounds, intervals=intervals).all)
    assert [one.task.statistic.name for one in found.sums] == [one.task.statistic.name for one in fit.releases]
    assert found.guarantee.achieved_epsilon == pytest.approx(fit.guarantee.achieved_epsilon, rel=1e-3)
    for planned, release in zip(found.sums, fit.releases, strict=True):
        assert planned.noise_sd == pytest.approx(math.sqrt(release.noise_variance[0]), rel=1e-6)
    assert [one.rounds for one in found.expected] == [4, 8, 32]
    assert found.rounds == (8 if intervals else 32) == fit.rounds
    assert found.planned.learned
    assert found.planned.noise_part == pytest.approx(fit.noise_part, rel=1.0)
    assert found.planned.shown == (True if intervals else None) or model != "ridge"
    if found.planned.shown and (model == "ridge" or fit.estimate.covariance is not None):
        error = math.sqrt(fit.estimate.covariance[1, 1]) * 0.33
        assert found.planned.standard_error == pytest.approx(error, rel=0.5)


def test_a_plan_foresees_errors_and_verdicts():
    """The excess over the best fit against the mean over fresh people, within a factor of 3; and 300 are too few."""
    clients = 8000
    spec = ReleaseSpec.of(SCHEMA, clients, 1.0, 1e-6)
    found = outlook("logistic", spec, 8, Assumed(mean=0.31, effect=1.0, population=Population(0.33)))
    errors = []
    for run in range(6):
        rows = rows_of(clients, run)
        fit = fit_in_rounds(LogisticModel(), releases(rows, seed=run + 1), 8, intervals=True)
        best = maximum_likelihood("logistic", rows[:, :2], (rows[:, 2] + 1) / 2).coefficients
        eta = fit.coefficients[0] - best[0] + rows[:, :2] @ (fit.coefficients[1:] - best[1:])
        errors.append(np.mean(eta**2) * 0.31 * 0.69)  # as a part of the variance of the target
    assert 1 / 3 < np.mean(errors) / found.planned.excess < 3
    assert not found.hopeless
    few = outlook("logistic", ReleaseSpec.of(SCHEMA, 300, 0.3, 1e-6), 8)
    assert few.hopeless
    assert few.learns_from > 300
    assert fit_in_rounds(LogisticModel(), releases(rows_of(300), epsilon=0.3), 8).verdict is not None
    assert not outlook("logistic", ReleaseSpec.of(SCHEMA, 2 * few.learns_from, 0.3, 1e-6), 8).hopeless
    assert outlook("logistic", spec, 8, Assumed(mean=0.001)).hopeless
    without = outlook("logistic", spec, 0, Assumed(mean=0.31))
    assert [one.rounds for one in without.expected] == [0]
    assert 0 < without.planned.start_error < 1


def test_a_plan_has_the_noise_of_its_budget():
    """With 33 times the budget, and even errors, predictions are far nearer to the best fit."""
    strong, weak = (
        outlook("ridge", ReleaseSpec.of(SCHEMA, 20_000, epsilon, 1e-6), 8, intervals=False) for epsilon in (0.3, 10.0)
    )
    assert strong.planned.excess > 50 * weak.planned.excess


def test_noise_by_servers_is_planned_with_its_variance():
    clients, servers = (
        outlook("logistic", ReleaseSpec.of(SCHEMA, 5000, 1.0, 1e-6, noise_by=who)) for who in ("clients", "servers")
    )
    for one, other in zip(clients.sums, servers.sums, strict=True):
        assert other.noise_sd == pytest.approx(math.sqrt(3) * one.noise_sd, rel=0.02)
    assert servers.planned.noise_part > 1.5 * clients.planned.noise_part


@pytest.mark.parametrize(
    ("model", "rounds", "assumed", "argument"),
    [
        ("probit", "auto", {}, "model"),
        ("logistic", 65, {}, "rounds"),
        ("poisson", 0, {}, "rounds"),
        ("logistic", "auto", {"mean": 1.5}, "mean"),
        ("poisson", "auto", {"mean": 200.0}, "mean"),
        ("logistic", "auto", {"effect": 9.0}, "effect"),
    ],
)
def test_plans_that_make_no_sense_are_refused(model, rounds, assumed, argument):
    with rejects(argument):
        outlook(model, ReleaseSpec.of(SCHEMA, 5000, 1.0, 1e-6), rounds, Assumed(**assumed))
