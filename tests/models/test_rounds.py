"""The budget over rounds, starts, and whether intervals cover; releases here have one draw of noise for each number."""

import math

import msgspec
import numpy as np
import pytest

from bench.secure_sketching.simulation import exact_sums, opened
from dpmpc.base.errors import GuaranteeError
from dpmpc.base.randomness import stream_for
from dpmpc.data import Column, Schema
from dpmpc.linear.contributions import SecondMoments
from dpmpc.linear.contributions.clipped_scores import ClippedScores
from dpmpc.linear.contributions.scores import Logistic, Scores
from dpmpc.models.common.releases import Releases
from dpmpc.models.rounds import SavedReleases
from dpmpc.models.rounds.fit import _nearer_the_estimate, fit_in_rounds, rounds_of, shares_of
from dpmpc.models.rounds.last_round import LastRoundEstimate
from dpmpc.models.rounds.models import LeastSquares, LogisticModel, PoissonModel
from dpmpc.models.rounds.start import Whitened, logistic_start
from dpmpc.parties import networked
from dpmpc.privacy.composition import Cost, composed_epsilon
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release import simulation
from dpmpc.release.release import Release
from support.rejections import rejects

SCHEMA = Schema.unit(("a", "b", "y"))


def sigmoid(eta):
    return 1 / (1 + np.exp(-eta))


def releases(rows, seed=0, epsilon=1.0, delta=1e-6, schema=SCHEMA, **choices):
    """Answer tasks from a table; every release has noise of its own."""
    asked = iter(range(1000 * seed, 1000 * seed + 100))
    spec = ReleaseSpec.of(schema, len(rows), epsilon, delta, simulation_seed=seed, **choices)
    return Releases(spec, lambda task: opened(task, exact_sums(task, rows), next(asked)))


def cases(clients, seed=0, slope=1.5, base=-0.5):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (clients, 2))
    y = rng.random(clients) < sigmoid(base + slope * X[:, 0] - slope / 2 * X[:, 1])
    return np.column_stack([X, 2.0 * y - 1])


@pytest.mark.parametrize("model", [LogisticModel(), PoissonModel(10), LeastSquares()], ids=lambda m: type(m).__name__)
def test_shares_add_up_to_the_budget_and_not_beyond(model):
    """Every plan of rounds spends the budget: mu^2 of its releases is that of the whole, and their epsilon is kept."""
    rows = cases(5000)
    for rounds, intervals in ((0, True), (1, True), (2, False), (8, True), (32, False)):
        if not rounds and not model.unsteered:
            continue
        shares = shares_of(model, rounds, intervals=intervals).all
        made = releases(rows)
        for share in shares:
            made.make(share)
        assert made.guarantee.mu == pytest.approx(0.236704, rel=1e-4)
        assert 0.999 < made.guarantee.achieved_epsilon <= 1.0
        together = composed_epsilon([Cost.of(release.guarantee) for release in made.made], 1e-6)
        assert made.guarantee.achieved_epsilon == together
        with pytest.raises(GuaranteeError, match=rf"of {len(shares) + 1} releases together .* at most 1 expected"):
            made.make(0.01)
        assert len(made.made) == len(shares)


def test_a_release_beyond_the_budget_is_not_asked_for():
    def ask(task):
        raise AssertionError("asked")

    spec = ReleaseSpec.of(SCHEMA, 1000, 1.0, 1e-6)
    with rejects("epsilon", GuaranteeError):
        Releases(spec, ask).make(1.01)
    with rejects("epsilon", GuaranteeError):
        Releases(ReleaseSpec.of(SCHEMA, 1000, 1e-5, 5e-4), ask).make(0.01)


def test_the_release_of_another_task_is_refused():
    rows = cases(1000)

    def other(task: object) -> Release:
        weaker = msgspec.structs.replace(task, noise=type(task.noise)(task.noise.sigma / 2), epsilon=20.0)
        return opened(weaker, exact_sums(weaker, rows), 1)

    made = Releases(ReleaseSpec.of(SCHEMA, 1000, 1.0, 1e-6, simulation_seed=1), other)
    with rejects("ask", given="the release of another task"):
        made.make(0.5)
    assert made.made == []


def test_groups_are_refused_before_anything_is_released():
    spec = ReleaseSpec.of(SCHEMA, 1000, 1.0, 1e-6, by="a")
    with rejects("by", given="'a'"):
        Releases(spec, lambda task: pytest.fail("a release was asked for"))


def test_only_noise_that_adds_up_is_taken():
    for choice in ({"noise": "skellam"}, {"calibration": "paper"}, {"coalition": "static"}):
        (argument,) = choice
        with rejects(argument):
            releases(cases(1000), **choice)


def test_the_number_of_rounds():
    """Few rounds where the noise is small by itself, or where most of the budget goes into intervals."""
    assert rounds_of("auto", 10_000, intervals=True) == rounds_of("auto", 10**6, intervals=False) == 8
    assert rounds_of("auto", 10_000, intervals=False) == rounds_of("auto", 100_000, intervals=False) == 32
    assert rounds_of(64, 10, intervals=True) == 64
    for wrong in (0, 65, -1, 2.0, "many", True, None):
        with rejects("rounds", expected="'auto' or a whole number from 1 to 64"):
            rounds_of(wrong, 1000, intervals=True)
    one, two = (shares_of(model, 8, intervals=True) for model in (LeastSquares(), LogisticModel()))
    assert (one.first, *one.last, math.fsum(one.steering)) == pytest.approx((0.65, 0.1, 0.25))
    assert (two.first, *two.last, math.fsum(two.steering)) == pytest.approx((0.2, 0.2, 0.3, 0.3))


def test_the_start_is_right_for_gaussian_features():
    rng = np.random.default_rng(2)
    X = (rng.standard_normal((100_000, 2)) / 4).clip(-1, 1)
    rows = np.column_stack([X, 2.0 * (rng.random(len(X)) < sigmoid(-1 + X @ [4.0, -2.0])) - 1])
    whitened = Whitened.of(releases(rows, epsilon=100.0).make(1.0))
    theta = logistic_start(whitened)
    assert whitened.matrix.T @ theta == pytest.approx([-1, 4, -2], abs=0.12)


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_intervals_cover(epsilon):
    """Nominal 95 %: of all slopes that are shown, 60 or more, fewer than 84 % missed by chance below 1e-3."""
    truth = np.array([-0.5, 1.5, -0.75])
    covered, shown = np.zeros(3), np.zeros(3)
    for run in range(60):
        fit = fit_in_rounds(LogisticModel(), releases(cases(6000, seed=run), seed=run, epsilon=epsilon), 4)
        if fit.estimate is not None and fit.estimate.covariance is not None:
            known = fit.estimate.identified(np.eye(3))
            errors = np.sqrt(np.diag(fit.estimate.covariance))
            shown += known
            covered += known & (np.abs(fit.estimate.coefficients - truth) < 1.96 * errors)
    assert shown.sum() >= 60 or epsilon < 1
    assert (covered >= 0.84 * shown).all()


def skewed_cases(clients, seed):
    """A lognormal, an exponential and a normal feature, and the bounds that a user would give them."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.exp(rng.normal(0, 1, clients)), rng.exponential(1, clients), rng.normal(size=clients)])
    X = X.clip([0, 0, -4], [50, 10, 4])
    y = rng.random(clients) < sigmoid(-1 + X @ [0.3, -0.4, 0.5])
    schema = Schema((Column("a", 0, 50), Column("b", 0, 10), Column("c", -4, 4), Column("y", 0, 1)))
    return np.column_stack([X, y]), schema


def test_no_intervals_where_noise_decides_the_curvature():
    """3,000 people, epsilon .5: Newton's last round had intervals in 23 of 142 runs, with coverage .22 of a slope."""
    for run in range(20):
        rows, schema = skewed_cases(3000, run)
        fit = fit_in_rounds(LogisticModel(), releases(rows, seed=run, epsilon=0.5, schema=schema), 4)
        assert fit.estimate is None or not fit.estimate.identified(np.eye(4))[1:].any()


@pytest.mark.parametrize(("clients", "epsilon"), [(20_000, 3.0), (100_000, 3.0)])
def test_intervals_that_are_shown_cover_with_skewed_features(clients, epsilon):
    """Each slope of 30 runs: fewer than 79 % covered, where it is shown in 20 or more, by chance below 1e-3."""
    truth, slopes = np.array([0.3, -0.4, 0.5]), 2 / np.array([50, 10, 8])
    covered, shown = np.zeros(3), np.zeros(3)
    for run in range(30):
        rows, schema = skewed_cases(clients, run)
        fit = fit_in_rounds(LogisticModel(), releases(rows, seed=run, epsilon=epsilon, schema=schema), 8)
        if fit.estimate is not None and fit.estimate.covariance is not None:
            known = fit.estimate.identified(np.eye(4))[1:]
            errors = np.sqrt(np.diag(fit.estimate.covariance))[1:]
            shown += known
            covered += known & (np.abs(fit.estimate.coefficients[1:] - truth / slopes) < 1.96 * errors)
    assert shown.max() >= 20
    assert (covered > 0.79 * shown)[shown >= 20].all()


def test_separated_classes_are_predicted():
    """Features that determine the target: slopes have no end, and a prediction is what there is to have."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, (3000, 2))
    fit = fit_in_rounds(LogisticModel(), releases(np.column_stack([X, np.sign(X[:, 0])]), epsilon=1.0), intervals=False)
    assert fit.verdict is None
    right = (fit.coefficients[0] + X @ fit.coefficients[1:] > 0) == (X[:, 0] > 0)
    assert right.mean() > 0.9
    assert fit.guarantee.achieved_epsilon <= 1.0


def test_rounds_are_sums_of_scores_at_released_coefficients():
    fit = fit_in_rounds(LogisticModel(), releases(cases(20_000)), 3)
    assert [type(release.task.statistic) for release in fit.releases] == [
        SecondMoments, *[ClippedScores] * 3, *[Scores] * 2,
    ]  # fmt: skip
    first, second = (release.task.statistic for release in fit.releases[4:])
    assert isinstance(second.link, Logistic)
    assert np.array_equal(first.scales, second.scales)
    assert not np.array_equal(first.theta, second.theta)
    assert fit.rounds == 3


def test_prediction_and_estimate_are_near_where_clips_shorten_rare_errors():
    """Rare, long errors that depend on a feature: steering alone had missed its slope by .008; even errors, too."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (20_000, 2))
    rare = rng.random(len(X)) < 0.03 * (1 + X[:, 0])
    numbers = np.column_stack([X, -0.5 + X @ [0.05, -0.05] + 0.02 * rng.standard_normal(len(X)) + rare])
    best = np.linalg.lstsq(np.column_stack([np.ones(len(X)), X]), numbers[:, 2], rcond=None)[0]
    both, alone = (fit_in_rounds(LeastSquares(), releases(numbers, epsilon=3.0), 8, intervals=w) for w in (True, False))
    assert np.abs(alone.coefficients - best).max() < 0.004
    assert np.abs(both.coefficients - best).max() < 0.004
    numbers = np.column_stack([X, 0.1 + X @ [0.3, -0.2] + rng.uniform(-0.3, 0.3, len(X))])
    best = np.linalg.lstsq(np.column_stack([np.ones(len(X)), X]), numbers[:, 2], rcond=None)[0]
    fit = fit_in_rounds(LeastSquares(), releases(numbers), 8)
    assert np.abs(fit.coefficients - best).max() < 0.01
    assert not np.array_equal(fit.coefficients, fit.estimate.coefficients)


def test_the_estimate_moves_a_prediction_that_is_clearly_off():
    """By how much is normal with the estimate's covariance, or that is not all: as far as the likeliest rest says."""
    none = np.zeros((2, 2))
    estimate = LastRoundEstimate(
        coefficients=np.array([0.3, 0.2]), weak=np.zeros((0, 2)), errors=1e-6 * np.eye(2), hidden=none, left=none
    )
    whitened = Whitened(np.eye(2), np.zeros(1), 0.0, 1.0, 0.01, 1000)
    near = np.array([0.3005, 0.1993])
    assert np.array_equal(_nearer_the_estimate(near, estimate, whitened), near)
    far = _nearer_the_estimate(np.array([0.25, 0.26]), estimate, whitened)
    assert far == pytest.approx(estimate.coefficients, abs=1e-3)


@pytest.mark.parametrize(("level", "slopes"), [(-0.5, [2.0, -1.0]), (-0.5, [1.0, -0.5]), (-2.5, [2.0, -1.0])])
def test_steered_slopes_of_a_logistic_regression_are_not_too_long(level, slopes):
    """To within 5 %, where noise and sampling are 2 % or less; scores clipped as others are would make it a fifth."""
    rng = np.random.default_rng(6)
    X = rng.uniform(-1, 1, (100_000, 2))
    ones = rng.random(len(X)) < 1 / (1 + np.exp(-level - X @ slopes))
    fit = fit_in_rounds(
        LogisticModel(), releases(np.column_stack([X, 2.0 * ones - 1]), epsilon=3.0), 32, intervals=False
    )
    assert fit.coefficients[1:] == pytest.approx(slopes, rel=0.05)


def test_without_intervals_all_of_the_budget_predicts():
    rows = cases(6000)
    both, alone = (fit_in_rounds(LeastSquares(), releases(rows), 6, intervals=wanted) for wanted in (True, False))
    assert alone.estimate is None
    assert both.estimate.covariance is not None
    assert len(both.releases) == len(alone.releases) + 1
    assert both.guarantee.mu == pytest.approx(alone.guarantee.mu, rel=1e-4)


def test_three_server_processes_find_what_one_process_finds():
    """Real servers over TLS on loopback answer each round; with the same seed, the same integers."""
    rows = cases(2000)
    spec = ReleaseSpec.of(SCHEMA, len(rows), 3.0, 1e-6, simulation_seed=4)
    here, there = stream_for(4), stream_for(4)
    alone = fit_in_rounds(LogisticModel(), Releases(spec, lambda task: simulation.run(task, rows, stream=here)), 1)
    apart = fit_in_rounds(
        LogisticModel(), Releases(spec, lambda task: networked.run(task, rows, stream=there, deadline=60).release), 1
    )
    assert len(alone.releases) == 4
    for ours, theirs in zip(alone.releases, apart.releases, strict=True):
        assert np.array_equal(ours.sums, theirs.sums)
    assert np.array_equal(alone.coefficients, apart.coefficients)


def test_clients_who_leave_between_rounds_cost_precision_and_no_privacy():
    """A third is absent from the first rounds, half from the last: the fit is that of who stayed, and says how good.

    Errors in units of standard errors over 30 runs: fewer than 5 % beyond 3, and a mean square near 1 (chance < 1e-4).
    """
    counts, truth, scores = (6000, 4000, 4000, 3500, 3000), np.array([-0.5, 1.5, -0.75]), []
    for run in range(30):
        rows = cases(counts[0], seed=run)
        asked = iter(range(1000 * run, 1000 * run + 10))

        def ask(task, rows=rows, asked=asked):
            return opened(task, exact_sums(task, rows[: task.clients]), next(asked))

        spec = ReleaseSpec.of(SCHEMA, counts[0], 3.0, 1e-6, simulation_seed=run)
        fit = fit_in_rounds(LogisticModel(), Releases(spec, ask, present=counts.__getitem__), 2)
        assert tuple(release.clients for release in fit.releases) == counts
        if fit.estimate is None or fit.estimate.covariance is None:
            continue
        scores.append((fit.estimate.coefficients - truth) / np.sqrt(np.diag(fit.estimate.covariance)))
    assert len(scores) >= 15
    assert (np.abs(scores) > 3).mean() < 0.05
    assert 0.6 < np.mean(np.square(scores)) < 1.6
    promised = fit.guarantee
    assert promised.clients == counts[0]
    assert promised.achieved_epsilon <= 3.0
    assert "who takes part in a round is public" in str(promised)
    assert "at least 3,000 honest contributions" in str(promised)
    again = fit_in_rounds(LogisticModel(), SavedReleases(fit.releases, 3.0), 2)
    assert np.array_equal(again.coefficients, fit.coefficients)
    more = Releases(ReleaseSpec.of(SCHEMA, 100, 3.0, 1e-6), lambda task: None, present=lambda number: 101)
    with rejects("present(0)", expected="a whole number from 1 to 100"):
        more.make(0.3)
