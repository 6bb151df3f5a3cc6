"""Mutual-information privacy: tables, the repaired bound against brute force, the attack, and what the noise does."""

import math

import numpy as np
import pytest
import scipy.stats
from scipy.integrate import quad
from scipy.stats import norm
from sklearn.base import clone

from bench.datasets.mutual_information import load_mnist_4_9
from bench.mutual_information import attack as midp_attack
from bench.mutual_information import figures as midp_figures
from bench.secure_sketching.utility import TRIVIAL
from dpmpc.base.errors import GuaranteeError, InputError
from dpmpc.models.papers.mutual_information import AdditiveNoise, MutualInformationGuarantee, RandomProjection
from dpmpc.models.papers.mutual_information.attack import copied_columns, guess_entry, least_leak
from dpmpc.models.papers.mutual_information.information import (
    additive_variance,
    bits,
    delta_of_bits,
    hidden_variance,
    leak_bound,
    paper_variance,
    pinsker_delta,
    smallest_spread,
    sound_variance,
)
from dpmpc.models.papers.mutual_information.utility import (
    additive_error_bound,
    additive_failure,
    projection_error_bound,
    relative_error,
)
from support.rejections import rejects

EPSILONS = (0.1, 0.2, 0.5, 1.0)


def regression(n=60, d=3, seed=0, residual=0.5):
    generator = np.random.default_rng(seed)
    X = generator.uniform(-1, 1, (n, d))
    return X, X @ np.linspace(0.3, 0.7, d) + residual * generator.standard_normal(n)


# Bits


def test_tables_of_the_noise_and_of_delta():
    assert [additive_variance(e) for e in EPSILONS] == pytest.approx([6.725024, 3.129813, 1, 1 / 3], abs=1e-6)
    assert [pinsker_delta(e) for e in EPSILONS] == pytest.approx([0.37233, 0.52655, 0.83255, 1], abs=1e-5)
    assert [delta_of_bits(e) for e in EPSILONS] == pytest.approx([0.36796, 0.51399, 0.77994, 1], abs=1e-5)


def test_noise_and_bits_are_inverse():
    for epsilon in (1e-9, 0.3, 7.0):
        assert bits(1 / additive_variance(epsilon)) == pytest.approx(epsilon, rel=1e-9)


def test_deltas_bound_the_total_variation_of_the_gaussian_mechanism():
    """The information about a fair bit, by quadrature, never exceeds epsilon, nor its total variation either delta."""
    for epsilon in (0.05, *EPSILONS):
        sigma = math.sqrt(additive_variance(epsilon))

        def integrand(z, sigma=sigma):
            mixture = (norm.pdf(z, 1, sigma) + norm.pdf(z, -1, sigma)) / 2
            return norm.pdf(z, 1, sigma) * math.log2(norm.pdf(z, 1, sigma) / mixture)

        told = quad(integrand, 1 - 12 * sigma, 1 + 12 * sigma)[0]
        total_variation = 2 * norm.cdf(1 / sigma) - 1
        assert 0.5 * epsilon < told <= epsilon
        assert total_variation <= delta_of_bits(epsilon) <= pinsker_delta(epsilon)


# Calibration


def brute_force(X, y, variance):
    """The definition of v: a ridge regression for each entry, the row left out."""
    least = math.inf
    for i in range(len(X)):
        rows, target = np.delete(X, i, axis=0), np.delete(y, i)
        for j in range(X.shape[1]):
            others = np.column_stack([np.delete(rows, j, axis=1), target])
            ridge = math.sqrt(variance) * np.eye(X.shape[1] - 1, X.shape[1])
            A, b = np.vstack([others, ridge]), np.append(rows[:, j], np.zeros(len(ridge)))
            least = min(least, variance + float(np.square(A @ np.linalg.lstsq(A, b, rcond=None)[0] - b).sum()))
    return least


@pytest.mark.parametrize("variance", [0.0, 0.5, 10.0])
@pytest.mark.parametrize("d", [1, 4])
def test_the_hidden_variance_is_its_definition(variance, d):
    X, y = regression(15, d)
    assert hidden_variance(X, y, variance) == pytest.approx(brute_force(X, y, variance), rel=1e-9)
    assert hidden_variance(X, 0 * y, variance) == pytest.approx(brute_force(X, 0 * y, variance), rel=1e-9)


@pytest.mark.parametrize("degenerate", ["zero column", "copy of y", "too few rows", "counterexample"])
def test_rounding_never_hides_an_entry(degenerate):
    X, y = regression(12, 3)
    if degenerate == "zero column":
        X[:, 1] = 0
    elif degenerate == "copy of y":
        y = X[:, 0].copy()
    elif degenerate == "too few rows":
        X, y = X[:3], y[:3]
    else:
        X, y = copied_columns(12, -1.0, np.random.default_rng(0))
    assert hidden_variance(X, y, 0.0) == 0
    assert leak_bound(X, y, 5, 0.0) == math.inf
    assert hidden_variance(X, y, 2.0) >= 2
    assert leak_bound(X, y, 5, sound_variance(X, y, 5, 0.5)) <= 0.5 + 1e-12


def test_the_hidden_variance_is_at_most_that_of_the_paper():
    X, y = regression()
    assert hidden_variance(X, y, 1.5) < smallest_spread(X) + 1.5
    assert smallest_spread(X) == pytest.approx(min(sum(sorted(X[:, j] ** 2)[:-1]) for j in range(3)))


def test_the_sound_form_is_monotone_and_keeps_its_bound():
    X, y = regression(400, 5)
    by_epsilon = [sound_variance(X, y, 300, epsilon) for epsilon in (0.1, 0.3, 0.6, 2.0)]
    by_rows = [sound_variance(X, y, rows, 0.4) for rows in (50, 200, 300, 400)]
    assert by_epsilon == sorted(by_epsilon, reverse=True)
    assert by_rows == sorted(by_rows)
    assert by_epsilon[-1] == 0 == by_rows[0]
    for rows in (200, 400):
        variance = sound_variance(X, y, rows, 0.4)
        assert leak_bound(X, y, rows, variance) <= 0.4
        assert leak_bound(X, y, rows, 0.99 * variance) > 0.4 or variance == 0
        assert paper_variance(rows, 0.4, smallest_spread(X)) <= variance <= paper_variance(rows, 0.4)


def told_about_a_bit(X, y, rows, variance, draws=20_000):
    """I(X_11; release) in bits for a fair X_11 in {-1, 1}, by simulation of the likelihoods, and its standard error."""
    generator = np.random.default_rng(5)
    forms = []
    for entry in (-1.0, 1.0):
        M = np.column_stack([X, y])
        M[0, 0] = entry
        forms.append(M.T @ M + np.diag([variance] * X.shape[1] + [0]))
    told = []
    for true, other in (forms, forms[::-1]):
        Z = generator.standard_normal((draws, rows, len(true))) @ np.linalg.cholesky(true).T
        surplus = np.einsum("tri,ij,trj->t", Z, np.linalg.inv(true) - np.linalg.inv(other), Z) / 2
        surplus += rows * (np.linalg.slogdet(true)[1] - np.linalg.slogdet(other)[1]) / 2
        told.append(1 - np.logaddexp(0, surplus) / math.log(2))  # log2 of the true likelihood over the mixture's
    return np.mean(told), np.std(told) / math.sqrt(2 * draws)


@pytest.mark.statistical
@pytest.mark.parametrize("variance", [0.2, 4.0, 20.0])
def test_the_information_about_a_bit_is_below_the_repaired_bound(variance):
    """Fixed seed. Simulated information less five standard errors: false alarms below 1e-6."""
    for X, y in (copied_columns(60, 1.0, np.random.default_rng(0)), regression(60, 2), regression(6, 2)):
        told, error = told_about_a_bit(X, y, 4, variance)
        assert told - 5 * error <= leak_bound(X, y, 4, variance)


@pytest.mark.statistical
def test_the_information_about_a_bit_exceeds_what_the_paper_proves():
    """Fixed seed; five standard errors, false alarms below 1e-6."""
    X, y = copied_columns(60, 1.0, np.random.default_rng(0))
    told, error = told_about_a_bit(X, y, 4, 0.2)
    assert told - 5 * error > 2 * bits(4 / (0.2 + smallest_spread(X)))


# The mechanisms


def test_what_additive_noise_releases():
    X, y = regression(20_000, 3)
    model = AdditiveNoise(0.5, simulation_seed=1).fit(X, y)
    noise = model.released_X_ - X
    # Sixty thousand draws: five standard errors of the variance are 3 %; false alarms below 1e-6.
    assert noise.var() == pytest.approx(1, rel=0.03)
    assert (model.released_y_ == y).all()
    assert model.coef_ == pytest.approx(np.linalg.lstsq(model.released_X_, y, rcond=None)[0])
    assert model.guarantee_.proven


@pytest.mark.statistical
def test_rows_of_a_projection_have_their_covariance():
    """Fixed seed. 20000 independent rows of N(0, G); each entry of G within five standard errors: alarms below 1e-5."""
    X, y = regression(30, 3)
    model = RandomProjection(0.5, rows=20_000, simulation_seed=2).fit(X, y)
    released = np.column_stack([model.released_X_, model.released_y_])
    M = np.column_stack([X, y])
    G = M.T @ M + np.diag([model.sigma_**2] * 3 + [0])
    error = np.sqrt((np.outer(np.diag(G), np.diag(G)) + G**2) / 20_000)
    assert (np.abs(released.T @ released / 20_000 - G) < 5 * error).all()
    assert model.sigma_**2 == pytest.approx(20_000)


@pytest.mark.statistical
def test_without_noise_the_error_is_that_of_a_gaussian_sketch():
    """E[eta] = 1 + d/(n' - d - 1), exactly. Fixed seed; 300 runs, five standard errors: false alarms below 1e-6."""
    X, y = regression(200, 5)
    rows = 40
    found = []
    for seed in range(300):
        model = RandomProjection(20, rows=rows, calibration="paper", simulation_seed=seed).fit(X, y)
        assert model.sigma_ == 0
        found.append(relative_error(X, y, model.coef_))
    assert abs(np.mean(found) - (1 + 5 / (rows - 5 - 1))) < 5 * np.std(found) / math.sqrt(300)


@pytest.mark.statistical
def test_the_benchmarks_law_is_that_of_the_estimator():
    """Means of eta over 400 runs of each agree within five standard errors: false alarms below 1e-6."""
    X, y = regression(100, 4)
    factor = np.linalg.qr(np.column_stack([X, y]), mode="r")
    generator = np.random.default_rng(3)
    drawn = [relative_error(X, y, midp_figures.projected(factor, 30, 30.0, generator)) for _ in range(400)]
    fitted = [
        relative_error(X, y, RandomProjection(0.5, rows=30, simulation_seed=seed).fit(X, y).coef_)
        for seed in range(400)
    ]
    error = math.sqrt((np.var(drawn) + np.var(fitted)) / 400)
    assert abs(np.mean(drawn) - np.mean(fitted)) < 5 * error


def test_a_seed_repeats_and_bounds_normalise():
    X, y = regression()
    model = RandomProjection(0.5, rows=10, bounds=(-2, 2), simulation_seed=4)
    first, again = model.fit(2 * X, y), clone(model).fit(2 * X, y)
    unit = RandomProjection(0.5, rows=10, simulation_seed=4).fit(X, y)
    assert (first.coef_ == again.coef_).all()
    assert first.coef_ == pytest.approx(unit.coef_)
    assert first.predict(2 * X) == pytest.approx(X @ unit.coef_)
    assert not np.array_equal(clone(model).set_params(simulation_seed=5).fit(2 * X, y).coef_, first.coef_)


def test_what_is_promised():
    X, y = regression(200, 3)
    printed = RandomProjection(0.5, rows=20, calibration="paper").fit(X, y)
    sound = RandomProjection(0.5, rows=20).fit(X, y)
    assert not printed.guarantee_.proven
    assert "CLAIMED, WITHOUT PROOF" in str(printed.guarantee_)
    assert sound.guarantee_.proven
    assert f"{sound.sigma_:.6g}" in str(sound.guarantee_)
    for model in (printed, sound, AdditiveNoise(0.5).fit(X, y)):
        text = str(model.guarantee_)
        assert text.startswith("SIMULATION")
        assert "one entry of X becomes any other number" in text
        assert "y is not a secret" in text
        fields = model.guarantee_.to_dict()
        assert MutualInformationGuarantee.from_dict(fields) == model.guarantee_
        assert model.guarantee_.delta == delta_of_bits(0.5)


def test_a_standard_deviation_that_depends_on_the_data_is_not_told():
    X, y = regression(60, 3)
    for calibration in ("paper", "sound"):
        model = RandomProjection(0.5, rows=50, calibration=calibration, floor="data").fit(X, y)
        assert model.sigma_ > 0
        assert f"{model.sigma_:.6g}" not in str(model.guarantee_)
        assert not model.guarantee_.proven


def test_floors():
    X, y = regression(200, 3)
    floor = 0.5 * (hidden_variance(X, y, 0.0))
    model = RandomProjection(0.5, rows=60, floor=floor).fit(X, y)
    assert model.sigma_**2 == pytest.approx(60 - floor)
    assert model.guarantee_.proven
    assert not RandomProjection(0.5, rows=60, calibration="paper", floor=floor).fit(X, y).guarantee_.proven
    assert RandomProjection(0.5, rows=60, calibration="paper", floor=0).fit(X, y).guarantee_.proven
    for calibration in ("sound", "paper"):
        needed = r"floor: 100 given, but .* less variance than the 100 .*; a smaller floor, 0 at least, expected"
        with pytest.raises(GuaranteeError, match=needed) as refused:
            RandomProjection(0.5, rows=150, calibration=calibration, floor=100).fit(X, y)
        with pytest.raises(GuaranteeError) as other:
            RandomProjection(0.5, rows=150, calibration=calibration, floor=100).fit(0.9 * X, y)
        assert str(other.value) == str(refused.value)


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ({"leakage_bits": 0.0}, "leakage_bits"),
        ({"leakage_bits": math.nan}, "leakage_bits"),
        ({"leakage_bits": 1000.0}, "leakage_bits"),
        ({"rows": 0}, "rows"),
        ({"rows": 2.5}, "rows"),
        ({"rows": True}, "rows"),
        ({"rows": 2}, "rows"),
        ({"calibration": "loose"}, "calibration"),
        ({"floor": -1.0}, "floor"),
        ({"floor": "none"}, "floor"),
        ({"floor": math.inf}, "floor"),
    ],
)
def test_bad_arguments_are_named(arguments, argument):
    X, y = regression()
    with rejects(argument):
        RandomProjection(**({"leakage_bits": 0.5, "rows": 10} | arguments)).fit(X, y)


def test_bad_data_are_named():
    X, y = regression()
    for model in (AdditiveNoise(0.5), RandomProjection(0.5, rows=10)):
        with rejects("X: column 'x2', row 1"):
            model.fit(2 * X, y)
        with rejects("y", given="shape (59,)"):
            model.fit(X, y[1:])
        with rejects("y", given="row 3: nan"):
            model.fit(X, np.where(np.arange(60) == 2, np.nan, y))


# The attack


@pytest.mark.parametrize("copy", ["X", "y"])
def test_the_counterexample_is_read_off_the_printed_form_and_flagged(copy):
    found = midp_attack.attack("paper", copy, rows=20, trials=500)
    assert found["successes"] >= 0.99 * 500
    assert found["leaked_bits_at_least"] > midp_attack.EPSILON
    assert found["bound_bits"] is None
    assert not found["proven"]


@pytest.mark.statistical
@pytest.mark.parametrize("copy", ["X", "y"])
def test_the_sound_form_keeps_its_promise(copy):
    """Fixed seeds. A guess is right with a probability near 0.58; 150 of 200 have a probability below 1e-5."""
    found = midp_attack.attack("sound", copy, rows=20, trials=200)
    assert found["successes"] < 150
    assert found["bound_bits"] <= midp_attack.EPSILON + 1e-12
    assert found["proven"]


def test_the_guess_is_the_likelihood_ratio_test():
    first, second = np.array([1.0, 2.0]), np.array([0.0, 0.0])
    for variance, expected in ((1.0, -1.0), (5.0, 1.0)):
        ratio = norm.logpdf(first, 0, math.sqrt(variance)) - norm.logpdf(first, 0, math.sqrt(variance + 4))
        assert guess_entry(first, second, variance) == expected == (1.0 if ratio.sum() > 0 else -1.0)
    assert guess_entry(first, first, 0.0) == 1
    assert guess_entry(first, second, 0.0) == -1


def test_leaks_are_counted_with_confidence():
    assert least_leak(500, 500) == pytest.approx(0.8954, abs=1e-4)
    assert least_leak(250, 500) == 0 == least_leak(0, 500)
    with rejects("successes, trials", given="3, 2"):
        least_leak(3, 2)


# Utility


def test_theorem_1_holds_where_it_says_something_and_is_vacuous_on_figure_1():
    X, y = regression(500, 2)
    for seed in range(20):
        coef = AdditiveNoise(7, simulation_seed=seed).fit(X, y).coef_
        assert relative_error(X, y, coef) <= additive_error_bound(X, y, 7, 0.01)
    assert additive_error_bound(X, y, 7, 0.01) < 2
    assert additive_error_bound(X, y, 9, 1e-9) < additive_error_bound(X, y, 8, 1e-9)
    assert additive_failure(X, 7, 0.5) < 1e-6 < additive_failure(X, 0.5, 0.01) == 1
    for k in (1, 20):
        data = midp_figures.problem(midp_figures.SMALL, k, np.random.default_rng(k))
        assert additive_error_bound(*data, midp_figures.EPSILON, 1e-9) == math.inf


def test_theorem_2_as_its_proof_has_it():
    X, y = regression(50, 1)
    s, theta = float(X[:, 0] @ X[:, 0]), float(X[:, 0] @ y / (X[:, 0] @ X[:, 0]))
    r = math.sqrt(s) * abs(theta) / math.sqrt(float(np.square(X[:, 0] * theta - y).sum()))
    expected = 1.21 * (1 + 3 * s / (s + 3) ** 2 * r**2) * (1 + 3 / (s + 3) * r) ** 2
    assert projection_error_bound(X, y, 3.0, 0.1) == pytest.approx(expected)
    assert projection_error_bound(X, y, 0.0, 0.1) == pytest.approx(1.21)
    assert projection_error_bound(np.column_stack([X, 0 * X]), y, 3.0, 0.1) == math.inf
    with rejects("delta", given="0"):
        projection_error_bound(X, y, 3.0, 0)
    with rejects("variance", given="-1"):
        projection_error_bound(X, y, -1, 0.1)


def test_relative_errors_of_an_exact_fit():
    X, _ = regression(10, 2)
    assert relative_error(X, np.zeros(10), np.zeros(2)) == 1
    assert relative_error(X, np.zeros(10), np.ones(2)) == math.inf


# The figures


def test_the_figures_read_rows_through_their_gram_matrix():
    X, y = midp_figures.problem(midp_figures.Size(6, 40), 1, np.random.default_rng(0))
    data = midp_figures.data_of(X, y)
    triangle = np.linalg.qr(np.column_stack([X, y]), mode="r")
    np.testing.assert_allclose(np.abs(data.factor), np.abs(triangle), atol=1e-12)
    coef = np.linspace(-1, 1, 6)
    assert data.eta(coef) == pytest.approx(relative_error(X, y, coef), rel=1e-12)
    assert data.eta(np.linalg.lstsq(X, y, rcond=None)[0]) == pytest.approx(1)
    assert (data.spread, data.hidden) == (smallest_spread(X), hidden_variance(X, y, 0.0))


@pytest.mark.statistical
@pytest.mark.parametrize("clients", [10, 40])
def test_releases_drawn_from_the_gram_matrix_have_the_law_of_those_from_rows(clients):
    """Coefficients and eta, two-sample Kolmogorov-Smirnov tests over 1500 draws of each.

    With 10 rows of 6 features fewer noise rows are left than features, with 40 more. Fixed seed; 14 tests of level
    1e-5: under 2e-4 false alarms for a fresh seed.
    """
    generator = np.random.default_rng(5)
    X, y = regression(clients, 6)
    data, sigma, variance, rows = midp_figures.data_of(X, y), math.sqrt(additive_variance(0.5)), 2.0, 11

    def solve(noisy, targets):
        return np.linalg.lstsq(noisy, targets, rcond=None)[0]

    def noisy_rows():
        return solve(X + sigma * generator.standard_normal(X.shape), y)

    def projected_rows():
        S, N = generator.standard_normal((rows, clients)), generator.standard_normal((rows, 6))
        return solve(S @ X + math.sqrt(variance) * N, S @ y)

    for fast, slow in (
        (lambda: midp_figures.additive(data, 0.5, generator), noisy_rows),
        (lambda: midp_figures.projected(data.factor, rows, variance, generator), projected_rows),
    ):
        drawn, made = (np.array([way() for _ in range(1500)]) for way in (fast, slow))
        pairs = [*zip(drawn.T, made.T, strict=True), tuple([data.eta(coef) for coef in of] for of in (drawn, made))]
        assert min(scipy.stats.ks_2samp(*pair).pvalue for pair in pairs) > 1e-5


@pytest.mark.statistical
def test_the_scaled_figure_1():
    """At k = 20 and half a bit, means of 10 runs; fixed seeds. Standard errors are below 0.02: alarms below 1e-5."""
    runs = midp_figures.random_data(midp_figures.SMALL, 20, (0.5,), 10)[0.5]
    mean = {name: np.mean(values) for name, values in runs.items()}
    expected = {"additive noise": 1.81, "log, as printed": 1.26, "linear, as printed": 1.31, "full, as printed": 1.67}
    assert {name: mean[name] for name in expected} == pytest.approx(expected, abs=0.1)
    assert mean["log, as printed"] < mean["log, sound"] < mean["additive noise"] < mean[TRIVIAL]


def test_the_largest_projection_wins_at_a_bit_and_additive_noise_at_three():
    found = midp_figures.random_data(midp_figures.SMALL, 10, (0.1, 1.0, 3.0), 6)
    for epsilon, best in ((0.1, "log, as printed"), (1.0, "full, as printed"), (3.0, "additive noise")):
        names = ["additive noise", *(f"{size}, as printed" for size in ("log", "linear", "full"))]
        assert min(names, key=lambda name: np.mean(found[epsilon][name])) == best


def test_notes_say_what_is_the_papers_and_what_is_ours():
    note = midp_figures.random_note(midp_figures.PAPER)
    assert note.startswith("The paper's: X uniform on [-1, 1], d = 800, n = 1000 k for k from 1 to 20")
    assert "Ours, because the paper does not say: y = " in note
    assert midp_figures.random_note(midp_figures.SMALL).startswith("**Scaled**: d = 80")
    assert "The paper's: " in midp_figures.MNIST_NOTE
    assert " Ours: " in midp_figures.MNIST_NOTE


def test_a_short_run_writes_the_three_figures(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    generator = np.random.default_rng(0)
    stand_in = generator.uniform(0, 1, (1400, 310)), generator.choice([-1.0, 1.0], 1400)
    monkeypatch.setattr(midp_figures, "load_mnist_4_9", lambda: stand_in)
    midp_figures.main(["--short", "--out", str(tmp_path)])
    for number in (1, 2, 3):
        assert (tmp_path / f"midp_figure{number}.png").stat().st_size > 1000
        assert "| log, sound |" in (tmp_path / f"midp_figure{number}.md").read_text()
    capsys.readouterr()


def test_sizes_of_projections_are_the_papers():
    assert midp_figures.sizes_of(1000, 20, 20_000) == {"log": 3995, "linear": 10_500, "full": 20_000}


def test_fours_and_nines(tmp_path, monkeypatch):
    monkeypatch.setenv("DPMPC_DATA", str(tmp_path))
    with rejects("DPMPC_DATA"):
        load_mnist_4_9()
    images = np.zeros((2, 784), np.uint8)
    images[0, 3] = 255
    np.savez(tmp_path / "mnist_4_9.npz", x_train=images, y_train=np.array([4, 9]))
    loaded, labels = load_mnist_4_9()
    assert (loaded.max(), labels.tolist()) == (1.0, [1.0, -1.0])
    np.savez(tmp_path / "mnist_4_9.npz", x_train=images, y_train=np.array([4, 7]))
    with pytest.raises(InputError, match="784 pixels of each four or nine expected"):
        load_mnist_4_9()
    np.savez(tmp_path / "mnist_4_9.npz", images)
    with pytest.raises(InputError, match="x_train and y_train expected"):
        load_mnist_4_9()


def test_the_attacks_page_and_the_figures_findings(tmp_path, capsys):
    midp_attack.main(["--trials", "2", "--out", str(tmp_path)])
    assert "| paper | y | 60 | 2 of 2 |" in (tmp_path / "midp_attack.md").read_text()
    panel = midp_figures.Panel("a")
    panel.add(100, {"additive noise": [2.0], "log, as printed": [1.0], "log, sound": [3.0]})
    assert midp_figures.findings(panel) == [
        "- Best of all, at each x: 100: log, as printed.",
        "- Best of those with a proof, at each x: 100: additive noise.",
    ]
    capsys.readouterr()
    with rejects("trials", given="0"):
        midp_attack.main(["--trials", "0"])
