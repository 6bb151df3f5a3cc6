"""CoinPress: the paper's constants and figures, what one row can do, the budget, and the same answer without a curator.

Statistical tests have fixed seeds. Where a mean of trials is held against a published one, the band is four standard
errors, which a right implementation leaves with probability 6e-5 for each figure.
"""

import json
import math
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from dp_accounting import dp_event
from dp_accounting.pld import pld_privacy_accountant
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from dpmpc.base.errors import GuaranteeError, InputError, UtilityWarning
from dpmpc.data import Table
from dpmpc.linear.contributions import contribution_from
from dpmpc.linear.contributions.contribution import WhitenedProducts
from dpmpc.linear.encoding.fixed_point import FixedPoint
from dpmpc.linear.noise import DiscreteGaussian
from dpmpc.models.papers.coinpress import CoinPressRegression, PrivateCovariance, PrivateMean, algorithms, steps
from dpmpc.models.papers.coinpress.summation import FRACTIONAL_BITS, Curator, Servers
from dpmpc.privacy.composition import epsilon_of_rho
from dpmpc.protocols.coinpress import Networked
from support import forks
from support.rejections import rejects

ERRORS = 4.0  # standard errors
PROGRAM = Path(__file__).parents[2] / "protocols" / "coinpress.py"
RHO = 0.5
BALL = {"center": 0.0, "radius": 20.0}  # for standardised columns: the papers' 10 sqrt(d) for four of them


def gaussian(seed, clients, columns):
    return np.random.default_rng([seed, clients, columns]).standard_normal((clients, columns))


def spread_of(values):
    return np.std(values, ddof=1) / math.sqrt(len(values))


def stretched(columns=6):
    """A covariance far from spherical, and a root of it; its axes are not the coordinates'."""
    vectors = np.linalg.qr(np.random.default_rng(3).standard_normal((columns, columns)))[0]
    values = np.geomspace(0.1, 10, columns)
    return (vectors * values) @ vectors.T, (vectors * np.sqrt(values)) @ vectors.T


def test_tail_bounds_are_the_papers():
    assert steps.tail_bound(50, 0.01) == pytest.approx(9.463556, abs=1e-6)
    assert steps.tail_bound(10, 0.1) == pytest.approx(4.919575, abs=1e-6)
    assert steps.margin(10, 3000) == pytest.approx((2 * math.sqrt(10 / 3000) + 10 / 3000) / 2, rel=1e-15)


@pytest.mark.parametrize("columns", [1, 4, 50])
@pytest.mark.statistical
def test_tail_bounds_bound(columns):
    """Exactly: the squared norm is chi-squared."""
    for failure in (0.01, 0.1):
        assert scipy.stats.chi2.sf(steps.tail_bound(columns, failure) ** 2, columns) <= failure


@pytest.mark.statistical
@pytest.mark.parametrize(("t", "published"), [(1, 1.0615), (2, 0.2829), (3, 0.2719), (4, 0.2730)])
def test_mean_error_is_the_references(t, published):
    ball = {"center": 0.0, "radius": 10 * math.sqrt(50)}
    errors = [
        np.linalg.norm(PrivateMean(RHO, t, simulation_seed=s, **ball).fit(gaussian(s, 1000, 50)).mean_)
        for s in range(60)
    ]
    assert np.mean(errors) == pytest.approx(published, abs=ERRORS * spread_of(errors))


@pytest.mark.statistical
@pytest.mark.parametrize(("d", "n", "published"), [(5, 1000, 0.195), (5, 4000, 0.080), (10, 4000, 0.146)])
def test_regression_error_is_the_references(d, n, published):
    """Algorithm 1 as printed scales z and not r, so that r is 100 sqrt(d) in units of sqrt(2 ||beta||^2 + 1)."""
    beta = np.where(np.arange(d) % 2, -0.8, 0.8)
    radius = 100 * math.sqrt(d) * math.sqrt(2 * beta @ beta + 1)
    errors = []
    for seed in range(60):
        X = gaussian(seed, n, d)
        y = X @ beta + gaussian(seed, n, 1)[:, 0]
        errors.append(
            np.linalg.norm(CoinPressRegression(RHO, radius=radius, simulation_seed=seed).fit(X, y).coef_ - beta)
        )
    assert np.mean(errors) == pytest.approx(published, abs=ERRORS * spread_of(errors))


@pytest.mark.statistical
def test_the_labels_variance_gives_the_norm_of_the_coefficients():
    """Algorithm 2 at rho = .1 (ours for the norm: .2 of .5) and ||beta||^2 = 3.2; the published mean is 3.18."""
    beta, found = np.full(5, 0.8), []
    for seed in range(60):
        X = gaussian(seed, 1000, 5)
        y = X @ beta + gaussian(seed, 1000, 1)[:, 0]
        found.append(CoinPressRegression(RHO, simulation_seed=seed).fit(X, y).squared_norm_)
    assert np.mean(found) == pytest.approx(3.18, abs=ERRORS * spread_of(found))


def printed_covariance(X, upper, rho, t, rng):
    """MVCRec in floating point, as it is printed, but for the order of the whitening matrices."""
    n, d = X.shape
    g = math.sqrt(d + 2 * math.sqrt(d * math.log(10)) + 2 * math.log(10))
    A = np.eye(d) / math.sqrt(upper)
    for share in [rho] if t == 1 else [rho / 4 / (t - 1)] * (t - 1) + [3 * rho / 4]:
        W = X @ A
        W *= np.minimum(1, g / np.linalg.norm(W, axis=1))[:, None]
        Y = np.triu(rng.standard_normal((d, d)) * g**2 / (n * math.sqrt(share)))
        values, vectors = np.linalg.eigh(W.T @ W / n + Y + np.triu(Y, 1).T)
        Z = (vectors * np.maximum(values, 0)) @ vectors.T
        found = np.linalg.inv(A).T @ Z @ np.linalg.inv(A)
        values, vectors = np.linalg.eigh(Z + (math.sqrt(d / n) + d / n / 2) * np.eye(d))
        A = A @ (vectors / np.sqrt(values)) @ vectors.T
    return found


@pytest.mark.statistical
@pytest.mark.parametrize("t", [1, 2, 3])
def test_covariance_error_is_that_of_the_printed_algorithm(t):
    d, n, upper = 10, 3000, 10 * math.sqrt(10)
    rng = np.random.default_rng(t)
    paper, joint, theirs = [], [], []
    for seed in range(40):
        X = gaussian(seed, n, d)
        paper.append(PrivateCovariance(RHO, t, calibration="paper", simulation_seed=seed).fit(X).covariance_)
        joint.append(PrivateCovariance(RHO, t, simulation_seed=seed).fit(X).covariance_)
        theirs.append(printed_covariance(X, upper, RHO, t, rng))
    paper, joint, theirs = (np.linalg.norm(np.array(m) - np.eye(d), axis=(1, 2)) for m in (paper, joint, theirs))
    band = ERRORS * math.hypot(spread_of(paper), spread_of(theirs))
    assert np.mean(paper) == pytest.approx(np.mean(theirs), abs=band)
    assert np.mean(joint) < np.mean(paper)


def whitened_by(following, Sigma, count=6, clients=3000):
    """Second moments after some rounds, of which the first is noisy: without noise all matrices commute."""
    A = np.eye(len(Sigma)) / 10
    noise = np.random.default_rng(8).standard_normal(Sigma.shape) / 100
    for number in range(count):
        Z = A.T @ Sigma @ A + (noise + noise.T) * (number == 0)
        A = following(A, steps.positive(Z), clients)
    return A.T @ Sigma @ A


def reference_order(A, Z, clients):
    """As the reference code has it."""
    return steps.inverse_root(Z + steps.margin(len(Z), clients) * np.eye(len(Z))) @ A


def test_whitening_whitens_and_the_references_order_does_not():
    Sigma, _ = stretched()
    target = np.eye(6) / (1 + steps.margin(6, 3000))
    assert whitened_by(steps.next_whitening, Sigma) == pytest.approx(target, abs=0.01)
    assert np.linalg.norm(whitened_by(reference_order, Sigma) - np.eye(6)) > 0.5


@pytest.mark.statistical
def test_the_references_order_costs_accuracy_from_the_third_round_on(monkeypatch):
    """Update and answer in the reference's order: twice the error in Mahalanobis norm at least; it is seven times."""
    _, root = stretched(10)
    inverse = np.linalg.inv(root)

    def error():
        found = [
            PrivateCovariance(RHO, 3, simulation_seed=s).fit(gaussian(s, 3000, 10) @ root).covariance_ for s in range(5)
        ]
        return np.mean([np.linalg.norm(inverse @ matrix @ inverse - np.eye(10)) for matrix in found])

    ours = error()
    monkeypatch.setattr(steps, "next_whitening", reference_order)
    monkeypatch.setattr(steps, "unwhitened", lambda A, Z: np.linalg.inv(A) @ Z @ np.linalg.inv(A).T)
    assert error() > 2 * ours


def noiseless(published, rows):
    """What the round's contributions add up to, divided by n, in normalised units."""
    encoding = FixedPoint(FRACTIONAL_BITS)
    encoded = published.contribution.encode(published.schema.normalise(rows), encoding)
    return steps.Averaged(encoding.decode(encoded.sum(axis=0)) / len(rows), 0.0, len(rows))


@pytest.mark.parametrize("value", [1e9, -1e9, 1e99, 0.0])
def test_one_row_moves_the_noiseless_mean_by_at_most_its_ball(value):
    """2 C / n: whatever the row, and by more than C / n for a row that crosses the ball."""
    X = gaussian(0, 50, 4)
    X[0] = -40.0
    moved = X.copy()
    moved[0] = value
    published = steps.mean_round("abcd", np.full(4, 0.5), 3.0, RHO)
    before, after = (steps.center_from(published, noiseless(published, rows))[0] for rows in (X, moved))
    reach = steps.clipping_radius(3.0, 4)
    assert np.linalg.norm(after - before) <= 2 * reach / 50 * (1 + 1e-9)
    if value >= 1e9:
        assert np.linalg.norm(after - before) > reach / 50


@given(
    st.lists(st.floats(-1, 1), min_size=6, max_size=6),
    st.lists(st.floats(-1, 1), min_size=6, max_size=6),
    st.floats(1e-3, 1e3),
    st.booleans(),
)
@settings(deadline=None)
def test_whitened_products_stay_within_their_sensitivity(first, second, scale, triangle):
    contribution, encoding = WhitenedProducts(scale * stretched(3)[1], triangle=triangle), FixedPoint(12)
    rows = np.array([first, second]).reshape(4, 3)
    encoded = contribution.encode(rows, encoding)
    sensitivity = contribution.sensitivity(3, encoding)
    assert np.abs(encoded).max() <= contribution.largest_entry(encoding)
    for a in encoded:
        for b in encoded:
            assert np.linalg.norm(a - b) <= sensitivity.l2
            assert np.abs(a - b).max() <= sensitivity.linf
            assert np.abs(a - b).sum() <= sensitivity.l1


def test_whitened_products_reach_their_sensitivity_and_survive_a_journey():
    for triangle in (False, True):
        contribution, encoding = WhitenedProducts(np.eye(2) * 3, triangle=triangle), FixedPoint(20)
        encoded = contribution.encode(np.eye(2), encoding)
        assert np.linalg.norm(encoded[0] - encoded[1]) >= 0.999 * contribution.sensitivity(2, encoding).l2
        assert contribution_from(json.loads(json.dumps(contribution.describe()))) == contribution
        row = np.array([[0.6, 0.2]]) / 3
        moments = encoding.decode(contribution.encode(row, encoding)[0])
        assert contribution.symmetric(moments) == pytest.approx(9 * row.T @ row, abs=1e-5)
    with rejects("matrix", expected="a square matrix"):
        WhitenedProducts([[1.0, 2.0]])
    with rejects("matrix", given="entries of magnitude at most 1e+100 expected"):
        WhitenedProducts([[math.nan]])


def every_estimator(**options):
    """Each model, with rows to fit it to."""
    X = gaussian(1, 300, 3)
    y = X.sum(axis=1) + gaussian(2, 300, 1)[:, 0]
    return [
        (PrivateMean(RHO, 3, **BALL, **options), (X,)),
        (PrivateCovariance(RHO, 3, **options), (X,)),
        (CoinPressRegression(RHO, 2, **options), (X, y)),
        (CoinPressRegression(RHO, 3, covariance="estimate", **options), (X, y)),
    ]


WAYS = [
    {},
    {"servers": 3},
    {"servers": 3, "corrupt_clients": 20},
    {"servers": 2, "noise_by": "servers"},
    {"servers": 3, "sharing": "shamir"},
]


@pytest.mark.parametrize("options", WAYS)
def test_the_budget_is_spent_and_never_exceeded(options):
    for estimator, data in every_estimator(**options):
        fitted = estimator.fit(*data)
        guarantee = fitted.guarantee_
        assert 0.9999 * RHO <= fitted.ledger_.spent <= RHO
        assert guarantee.rho == fitted.ledger_.spent
        assert guarantee.mu == pytest.approx(math.sqrt(2 * RHO), rel=1e-4)
        assert guarantee.achieved_epsilon <= guarantee.epsilon == epsilon_of_rho(RHO, 1e-6)
        assert not guarantee.simulation


def test_the_last_round_has_three_quarters():
    assert steps.split(1.0, 1) == [1.0]
    assert steps.split(1.0, 3) == [0.125, 0.125, 0.75]
    spent = [rho for _, rho in PrivateMean(1.0, 3, simulation_seed=0, **BALL).fit(gaussian(0, 100, 2)).ledger_.entries]
    assert spent == pytest.approx([0.125, 0.125, 0.75], rel=1e-6)
    for wrong in (0, 1.5, True):
        with rejects("rounds"):
            steps.split(1.0, wrong)


@pytest.mark.parametrize("options", [{}, {"servers": 3}])
def test_nothing_is_released_beyond_the_budget(options):
    total = Servers(0.1, 1e-6, **options) if options else Curator(0.1, 1e-6)
    published = steps.mean_round("ab", np.zeros(2), 1.0, 0.06)
    total(published, gaussian(0, 100, 2))
    with rejects("rho", GuaranteeError):
        total(published, gaussian(0, 100, 2))
    assert len(total.ledger.entries) == 1


def test_epsilon_agrees_with_an_independent_accountant():
    guarantee = PrivateMean(RHO, 3, simulation_seed=0, **BALL).fit(gaussian(0, 500, 3)).guarantee_
    accountant = pld_privacy_accountant.PLDAccountant()
    for share in steps.split(RHO, 3):
        accountant.compose(dp_event.GaussianDpEvent(1 / math.sqrt(2 * share)))
    assert guarantee.achieved_epsilon == pytest.approx(accountant.get_epsilon(1e-6), rel=1e-3)


def test_the_noise_is_that_of_the_share():
    """sd = (2 C / n) / sqrt(2 rho) for a mean, g^2 / (n sqrt(rho)) for the diagonal of a covariance."""
    X, n = gaussian(0, 400, 4), 400
    for total in (Curator(1.0, 1e-6), Servers(1.0, 1e-6)):
        published = steps.mean_round("abcd", np.zeros(4), 5.0, 0.3)
        deviation = steps.center_from(published, total(published, X))[1]
        assert deviation == pytest.approx(2 * steps.clipping_radius(5.0, 4) / n / math.sqrt(2 * 0.3), rel=1e-4)
        published = steps.covariance_round(list("abcd"), np.eye(4) / 3, 9.0, 0.3, triangle=False)
        deviation = steps.moments_from(published, total(published, X))[1]
        assert deviation == pytest.approx(steps.tail_bound(4, 0.1) ** 2 / (n * math.sqrt(0.3)), rel=1e-4)


@pytest.mark.statistical
@pytest.mark.parametrize("options", [{"servers": 3}, {"servers": 2, "noise_by": "servers"}])
def test_curator_and_servers_agree_in_distribution(options):
    """The same rows, fresh noise: Kolmogorov-Smirnov at 1e-4, five times in all; M servers add M times the noise."""
    X = gaussian(4, 60, 2)
    spread = math.sqrt(2) if "noise_by" in options else 1.0
    published = steps.mean_round("ab", np.zeros(2), 2.0, RHO)
    exact = noiseless(published, X).values
    for make in (lambda seed: Curator(RHO, 1e-6, seed), lambda seed: Servers(RHO, 1e-6, seed, **options)):
        draws = np.array([make(seed)(published, X).values - exact for seed in range(200)]).ravel()
        deviation = make(0)(published, X).deviation
        assert scipy.stats.kstest(draws / deviation, "norm").pvalue > 1e-4
    assert Servers(RHO, 1e-6, **options)(published, X).deviation == pytest.approx(
        spread * Curator(RHO, 1e-6)(published, X).deviation, rel=1e-4
    )
    if spread == 1.0:
        central, shared = (
            [PrivateMean(RHO, 2, simulation_seed=s, **BALL, **way).fit(X).mean_[0] for s in range(200)]
            for way in ({}, options)
        )
        assert scipy.stats.ks_2samp(central, shared).pvalue > 1e-4


def test_every_round_draws_fresh_noise(monkeypatch):
    drawn = []
    sample = DiscreteGaussian.sample

    def recording(self, *arguments, **options):
        drawn.append(sample(self, *arguments, **options))
        return drawn[-1].copy()

    monkeypatch.setattr(DiscreteGaussian, "sample", recording)
    PrivateMean(RHO, 3, servers=2, simulation_seed=5, **BALL).fit(gaussian(0, 100, 3))
    PrivateMean(RHO, 3, simulation_seed=5, **BALL).fit(gaussian(0, 100, 3))
    assert [part.shape for part in drawn] == [(100, 1, 3)] * 3 + [(3,)] * 3
    scaled = [np.ravel(part / part.std())[:3] for part in drawn]
    assert len({tuple(part) for part in scaled}) == 6


def test_guarantees_say_who_is_trusted():
    fitted = {
        way: PrivateMean(RHO, 2, **BALL, **way_options).fit(gaussian(0, 100, 2)) for way, way_options in CASES.items()
    }
    texts = {way: str(model.guarantee_) for way, model in fitted.items()}
    assert "the curator, who sees every row, is trusted" in texts["curator"]
    assert "holds even if the analyst, 2 of the 3 servers and 5 clients pool" in texts["clients"]
    assert "the noise of at least 95 honest contributions" in texts["clients"]
    assert "2 of the 3 servers and 99 clients pool" in texts["servers"]
    for text in texts.values():
        assert "for each of 100 clients" in text
        assert "one client's whole row is replaced" in text
        assert "every round draws fresh noise" in text
        assert "one release only" not in text
    seeded = PrivateMean(RHO, 2, simulation_seed=1, **BALL).fit(gaussian(0, 100, 2))
    assert str(seeded.guarantee_).startswith("SIMULATION")


CASES = {
    "curator": {},
    "clients": {"servers": 3, "corrupt_clients": 5},
    "servers": {"servers": 3, "noise_by": "servers"},
}


@pytest.mark.parametrize("value", [1e9, -1e200, 1.7e308])
def test_rows_are_left_alone_and_one_large_row_is_bounded(value):
    """An outlier in feature and label moves no answer far: each of a few rounds clips it."""
    for estimator, data in every_estimator(simulation_seed=2):
        before = [part.copy() for part in data]
        whole = estimator.fit(*data)
        found = [getattr(whole, name) for name in ("mean_", "covariance_", "coef_") if hasattr(whole, name)]
        assert all((part == copy).all() for part, copy in zip(data, before, strict=True))
        data[0][0] = value
        if len(data) == 2:
            data[1][0] = value
        table = Table.from_any(data[0])
        moved = clone(estimator).fit(table, *data[1:])
        assert (table.values[0] == value).all()
        assert data[-1].flat[0] == value
        for name, old in zip(("mean_", "covariance_", "coef_"), found, strict=False):
            new = getattr(moved, name, old)
            assert np.isfinite(new).all()
            assert np.linalg.norm(new - old) < 20


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_rows_that_are_not_finite_are_refused(bad):
    for estimator, data in every_estimator():
        for part in range(len(data)):
            spoilt = [copy.copy() for copy in data]
            spoilt[part].flat[4] = bad
            with pytest.raises(InputError, match=r"missing|finite"):
                estimator.fit(*spoilt)


@pytest.mark.parametrize(
    ("estimator", "argument"),
    [
        (PrivateMean(0.0, **BALL), "rho"),
        (PrivateMean(1e-14, 1, **BALL), "rho"),
        (PrivateMean(rounds=0, **BALL), "rounds"),
        (PrivateMean(delta=0.5, **BALL), "delta"),
        (PrivateMean(delta=0.0, **BALL), "delta"),
        (PrivateMean(), "center and radius"),
        (PrivateMean(center=0.0), "radius"),
        (PrivateMean(radius=1.0), "center"),
        (PrivateMean(bounds=(-1, 1), radius=1.0), "bounds"),
        (PrivateMean(bounds={"x0": (-1, 1)}), "bounds"),
        (PrivateMean(center=[1.0], radius=1.0), "center"),
        (PrivateMean(center=0.0, radius=-1.0), "radius"),
        (PrivateMean(center=0.0, radius=1e200), "radius"),
        (PrivateMean(**BALL, servers=1), "servers"),
        (PrivateMean(**BALL, servers=3, corrupt_clients=300), "corrupt_clients + dropouts"),
        (PrivateCovariance(upper=0.0), "upper"),
        (PrivateCovariance(calibration="best"), "calibration"),
    ],
)
def test_what_cannot_be_done_is_refused(estimator, argument):
    with rejects(argument):
        estimator.fit(gaussian(0, 300, 3))


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"covariance": "known"}, "covariance"),
        ({"upper": 3.0}, "upper"),
        ({"norm_share": 1.0}, "norm_share"),
        ({"label_upper": math.nan}, "label_upper"),
    ],
)
def test_regressions_that_cannot_be_are_refused(options, argument):
    X = gaussian(0, 300, 3)
    with rejects(argument):
        CoinPressRegression(**options).fit(X, X[:, 0])
    with rejects("y", given="shape (5,)"):
        CoinPressRegression().fit(X, X[:5, 0])


def test_a_mean_away_from_the_origin_is_found_in_its_ball():
    X = gaussian(0, 2000, 3) + np.array([100.0, -50.0, 7.0])
    fitted = PrivateMean(RHO, 3, center=[98.0, -49.0, 5.0], radius=4.0, simulation_seed=1).fit(X)
    assert np.linalg.norm(fitted.mean_ - X.mean(axis=0)) < fitted.radius_ < 0.2


@pytest.mark.statistical
def test_the_extension_finds_coefficients_of_stretched_features():
    """Five seeds at n = 20,000: a tenth of ||beta|| where the algorithm for identity covariance misses it wholly."""
    _, root = stretched(4)
    beta = np.array([0.8, -0.8, 0.8, -0.8])
    whole, naive = [], []
    for seed in range(5):
        X = gaussian(seed, 20_000, 4) @ root
        y = X @ beta + gaussian(seed, 20_000, 1)[:, 0]
        for covariance, errors in (("estimate", whole), ("identity", naive)):
            fitted = CoinPressRegression(2.0, 3, covariance=covariance, simulation_seed=seed).fit(X, y)
            errors.append(np.linalg.norm(fitted.coef_ - beta))
        assert fitted.predict(X[:2]) == pytest.approx(X[:2] @ fitted.coef_)
    assert np.mean(whole) < 0.2
    assert np.mean(naive) > 1


def test_a_singular_estimate_is_floored_before_it_is_inverted():
    found = algorithms.Covariance(np.zeros((2, 2)), np.eye(2), np.diag([1.0, 0.0]), deviation=0.01)
    expected = np.diag([1.0, 1 / math.sqrt(0.02 * math.sqrt(2))])
    assert found.inverse_root() == pytest.approx(expected, rel=1e-12)


def test_three_networked_servers_find_what_one_process_finds():
    """To the last bit, from the same seed, over mutually authenticated TLS; each round is one message a server."""
    X, network = gaussian(0, 500, 3), Networked()
    inside = PrivateMean(RHO, 2, **BALL, servers=3, simulation_seed=7).fit(X)
    across = PrivateMean(RHO, 2, **BALL, servers=3, simulation_seed=7, run=network).fit(X)
    assert (across.mean_ == inside.mean_).all()
    assert across.guarantee_ == inside.guarantee_
    assert [[spent.payload_sent for spent in servers] for servers in network.servers] == [[24] * 3] * 2


def test_the_program_prints_one_json_object():
    arguments = ["-M2", "--model", "covariance", "--clients", "2000", "--features", "2", "--rounds", "2", "--json"]
    done = forks.run(*arguments, program=[PROGRAM])
    assert done.returncode == 0, done.stderr
    fields = json.loads(done.stdout)
    assert fields["privacy"]["corrupt_servers"] == 1
    assert sum(entry["rho"] for entry in fields["ledger"]) <= 0.5
    assert len(fields["ledger"]) == len(fields["bytes_sent"]) == 2
    assert np.shape(fields["result"]["estimate"]) == (2, 2)
    assert fields["result"]["error"] < 0.5


def test_a_mean_at_the_edge_of_its_ball_is_said():
    """Ages, body mass indices and counts, for which a ball of standardised data is far too small."""
    X = gaussian(0, 4000, 3) + np.array([56.1, 27.0, 6.1])
    with pytest.warns(UtilityWarning, match=r"at the edge of the ball of radius 17\.3 .* Give a centre and a radius"):
        PrivateMean(rho=0.1, simulation_seed=0, center=0.0, radius=10 * math.sqrt(3)).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = PrivateMean(rho=0.1, simulation_seed=0, center=[50, 25, 5], radius=15.0).fit(X)
        bounded = PrivateMean(rho=0.1, simulation_seed=0, bounds={"x0": (40, 60), "x1": (15, 35), "x2": (0, 10)}).fit(X)
    assert np.abs(fitted.mean_ - [56.1, 27.0, 6.1]).max() < 0.5
    same = PrivateMean(rho=0.1, simulation_seed=0, center=[50, 25, 5], radius=15.0).fit(
        X
    )  # half the diagonal of the box
    assert np.array_equal(bounded.mean_, same.mean_)
