"""The reading of a linear fit in rounds: its identity, a slow reference, flags, and coverage of all lines together."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.secure_sketching.simulation import noiseless
from dpmpc.linear.contributions.residual_products import ResidualProducts
from dpmpc.models.rounds.fit import fit_in_rounds
from dpmpc.models.rounds.linear_reading import read_linear
from dpmpc.models.rounds.models import LeastSquares
from support.rejections import rejects
from support.rounds import numbers, releases

Z = 1.959963984540054


def bent(clients, seed=0):
    """A mean that is no straight line in a lognormal feature, of which few are long: 29 % beyond the mean square."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (clients, 3))
    skewed = np.exp(rng.normal(0, 1, clients)).clip(0, 20)
    X[:, 0] = skewed / 10 - 1
    y = np.log1p(skewed) / 3 + 0.2 * X[:, 1] + 0.1 * rng.normal(size=clients) - 0.5
    return np.column_stack([X, np.clip(y, -1, 1)])


def loose(clients, seed=0):
    """Six columns, of which one has a spread of 0.05 of its bounds and a slope of 6, and five fill theirs."""
    rng = np.random.default_rng(seed)
    X = np.clip(0.3 * rng.standard_normal((clients, 6)), -1, 1)
    X[:, 0] = np.clip(0.05 * rng.standard_normal(clients), -1, 1)
    return np.column_stack(
        [X, np.clip(6 * X[:, 0] + X[:, 1:] @ [0.1, -0.1, 0.1, 0, 0] + 0.1 * rng.standard_normal(clients), -1, 1)]
    )


def rare(clients, seed=0):
    """A column that is 1 for 2 % of the people, whose errors are ten times as wide."""
    rng = np.random.default_rng(seed)
    few = rng.random(clients) < 0.02
    X = np.column_stack([np.where(few, 1.0, -1.0), rng.uniform(-1, 1, clients)])
    y = -0.2 + X @ [0.1, 0.1] + np.where(few, 0.3, 0.03) * rng.standard_normal(clients)
    return np.column_stack([X, np.clip(y, -1, 1)])


def design(rows):
    return np.column_stack([np.ones(len(rows)), rows[:, :-1]])


def least_squares(rows):
    """On all rows, each counting as one."""
    return np.linalg.lstsq(design(rows), rows[:, -1], rcond=None)[0]


def read(rows, steered, *, seed=0, epsilon=3.0, **options):
    """Make the two sums at these coefficients; return the estimate and both releases."""
    made = releases(rows, seed, epsilon, **options)
    steered = np.asarray(steered, dtype=float)
    first, second = made.make(0.65), made.make(0.1, ResidualProducts(steered))
    return read_linear(first, second, steered), first, second


@pytest.mark.parametrize("population", [numbers, bent], ids=["straight", "bent"])
def test_without_noise_it_is_least_squares_from_every_start(population):
    rows = population(4000)
    for start in ([0.0, 0.0, 0.0], [0.4, -2.0, 3.0], [-0.9, 0.1, 0.1]):
        estimate, _, second = read(rows, np.resize(start, rows.shape[1]), answer=noiseless)
        assert estimate.coefficients == pytest.approx(least_squares(rows), abs=1e-5)
        assert second.task.statistic.reach == min(2.0, 1 + np.abs(np.resize(start, rows.shape[1])).sum())


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.05, 0.5, 3.0]), st.floats(0.0, 5.0))
def test_the_identity_is_exact(seed, epsilon, length):
    """theta - theta* = K (sum of u e + nu) + P (theta_s - theta*), whatever the noise and the start are."""
    rows, rng = loose(800, seed), np.random.default_rng(seed)
    steered, truth = (length * rng.normal(size=7) for _ in range(2))
    estimate, first, _ = read(rows, steered, seed=seed, epsilon=epsilon)
    u, gram = design(rows), first.gram().matrix
    nu = (gram[:7, 7] - u.T @ rows[:, -1]) - (gram[:7, :7] - u.T @ u) @ truth
    residuals = u.T @ (rows[:, -1] - u @ truth)
    expected = estimate.inverse @ (residuals + nu) + estimate.hidden @ (steered - truth)
    scale = np.abs(estimate.inverse).max() * np.abs(gram).max() * (1 + np.abs(steered).sum() + np.abs(truth).sum())
    assert estimate.coefficients - truth == pytest.approx(expected, abs=1e-11 * (1 + scale))
    assert estimate.hidden @ estimate.hidden == pytest.approx(estimate.hidden, abs=1e-9)


def reference(first, second, steered, contrasts):
    """The reading of `dpmpc.models.rounds.linear_reading`, term by term; return estimates, S and B of the contrasts."""
    p, n = len(steered), first.clients
    M, sd = first.gram().matrix, math.sqrt(first.noise_variance[0])
    reach = min(2, 1 + sum(abs(steered)))
    J, place = np.zeros((p, p)), 0
    for i in range(p):
        for j in range(i, p):
            J[i, j] = J[j, i] = second.sketch[0][place] * reach**2 * n / second.clients
            place += 1
    sd_J = math.sqrt(second.noise_variance[0]) * reach**2 * n / second.clients
    N, m = M[:p, :p], M[:p, p]
    K, unseen = np.zeros((p, p)), 0
    values, vectors = np.linalg.eigh(N)
    for value, vector in zip(values, vectors.T, strict=True):
        if value >= sd * math.sqrt(p / 2):
            K += np.outer(vector, vector) / value
        else:
            unseen += 1
    P = np.eye(p) - K @ N
    theta = steered + K @ (m - N @ steered)
    L = max(1, sum(abs(steered)))
    f = np.array([*-theta, 1])
    s2 = max(f @ M @ f, J[0, 0], 0) / n

    def sampling(k):
        dev = sd_J * math.sqrt(max(2 * sum(k**2) ** 2 - sum(k**4), 0))
        cap = sum(abs(k)) ** 2 * max(J[0, 0] + sd_J / 2, 0)
        return max(s2 * k @ N @ k, min(k @ J @ k + dev / 2, cap))

    D = np.diag([sampling(K[:, j]) for j in range(p)])
    answers = []
    for lead in (theta, steered):
        C, most = D, max(1, steered @ steered, theta @ theta)
        if unseen:
            most = max(most, (math.sqrt(steered @ steered) + L) ** 2)
        for _ in range(30):
            more = C + (L**2 * max(max(np.diag(P)), 0) / unseen * P if unseen else 0)
            a = min(1, max(most - lead @ lead, 0) / np.trace(more)) if np.trace(more) > 0 else 0
            E = np.outer(lead, lead) + a * more
            V = sd**2 / 2 * ((1 + np.trace(E)) * np.eye(p) + E)
            V[0, 0] -= sd**2 * E[0, 0]
            C = K @ V @ K + D
        answers.append([math.sqrt(max((K @ c) @ V @ (K @ c) + sampling(K @ c), 0)) for c in contrasts])
    return contrasts @ theta, np.max(answers, axis=0), np.array([L * max(abs(P @ c)) for c in contrasts])


@pytest.mark.parametrize(("population", "clients"), [(loose, 3000), (loose, 40_000), (bent, 20_000), (rare, 5000)])
@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_it_is_the_reference(population, clients, epsilon):
    rows = population(clients)
    p = rows.shape[1]
    steered = 0.9 * least_squares(rows) + 0.02
    contrasts = np.vstack([np.eye(p), np.random.default_rng(0).normal(size=(5, p))])
    estimate, first, second = read(rows, steered, epsilon=epsilon)
    middle, S, B = reference(first, second, steered, contrasts)
    variance, bound = estimate.variances(contrasts)
    assert contrasts @ estimate.coefficients == pytest.approx(middle)
    assert np.sqrt(variance - bound) == pytest.approx(S, rel=1e-6)
    assert np.sqrt(bound) == pytest.approx(B, abs=1e-9)
    assert estimate.identified(contrasts).tolist() == (B <= S).tolist()
    assert np.diag(estimate.covariance) == pytest.approx(variance[:p])
    assert np.linalg.eigvalsh(estimate.covariance).min() > 0


def test_in_units_every_contrast_keeps_its_error():
    rows = loose(20_000)
    estimate, *_ = read(rows, 0.9 * least_squares(rows))
    linear, shift = np.diag([2.0, 0.1, 3, 4, 5, 6, 7]) + 0.5 * np.eye(7, k=1), 0.3 * np.eye(7)[0]
    moved = estimate.in_units(linear, shift)
    contrasts = np.random.default_rng(1).normal(size=(4, 7))
    assert moved.coefficients == pytest.approx(linear @ estimate.coefficients + shift)
    assert np.array(moved.variances(contrasts)) == pytest.approx(np.array(estimate.variances(contrasts @ linear)))
    assert np.diag(moved.covariance) == pytest.approx(moved.deviations**2)


@pytest.mark.parametrize(
    ("population", "clients", "epsilon", "runs", "least"),
    [
        (bent, 30_000, 3.0, 100, 0.93),
        (numbers, 20_000, 3.0, 100, 0.92),
        (rare, 20_000, 2.0, 100, 0.92),
        (loose, 20_600, 2.0, 60, 0.93),
    ],
)
def test_all_lines_together_hold_their_level(population, clients, epsilon, runs, least):
    """Of least squares of the population, flagged lines included, through steering and the shipped integers.

    False alarm: below 1e-4 in each case, if every line held at 0.95 and those of a fit were independent; three of the
    cases hold more. A weak direction that noise lifts over the threshold is the last case.
    """
    truth, held = least_squares(population(2_000_000, 99)), []
    for seed in range(runs):
        estimate = fit_in_rounds(LeastSquares(), releases(population(clients, seed), seed, epsilon)).estimate
        held.append(np.abs(estimate.coefficients - truth) < Z * estimate.deviations)
    assert np.mean(held) >= least
    assert np.mean(held, axis=0).min() >= least - 0.08


def test_what_rests_on_the_bounds_is_flagged():
    """The weak direction mixes a little of another column in, which is flagged too; more people leave no flag."""
    few, many = (
        fit_in_rounds(LeastSquares(), releases(loose(clients, 3), 3, 1.0)).estimate for clients in (8000, 900_000)
    )
    assert few.shown.tolist() == [True, False, True, True, False, True, True]
    assert many.shown.all()
    (weak,) = few.weak
    assert np.abs(weak).argmax() == 1
    variance, bound = few.variances(np.eye(7))
    assert (2 * bound > variance).tolist() == (~few.shown).tolist()
    assert bound[1] <= few.largest**2
    assert f"{few.largest:.2g} times the range" in few.assumption


def test_who_stays_away_from_the_second_sum_widens_by_as_much():
    rows = bent(20_000)
    steered = least_squares(rows)
    whole, first, second = read(rows, steered)
    asked = releases(rows, 0, 3.0)
    half = releases(rows[:10_000], 1, 3.0).make(0.1, ResidualProducts(steered))
    assert (asked.clients, half.clients) == (20_000, 10_000)
    fewer = read_linear(first, half, steered)
    assert fewer.residuals == pytest.approx(whole.residuals, rel=0.5, abs=3 * fewer.deviation)
    assert fewer.deviation == pytest.approx(2 * whole.deviation, rel=1e-3)
    assert fewer.coefficients == pytest.approx(whole.coefficients)
    assert second.clients == 20_000


def test_few_people_have_no_interval_whatever_their_rows_are():
    estimate, *_ = read(numbers(29), [0.0, 0.0, 0.0], epsilon=100.0)
    assert estimate.why == "29 people took part, at least 30 expected for 3 coefficients"
    assert estimate.covariance is None
    assert np.isinf(estimate.deviations).all()
    assert read(numbers(30), [0.0, 0.0, 0.0], epsilon=100.0)[0].why is None


def test_only_residual_products_are_read():
    first = releases(numbers(500)).make(0.5)
    with rejects("release", given="of second-moments"):
        read_linear(first, first, np.zeros(3))
