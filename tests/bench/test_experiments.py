"""The experiments: releases without shares have the law of real ones, measures are the estimators', files are whole."""

import itertools
import json
import sys

import numpy as np
import pytest
import scipy.stats
from sklearn.linear_model import Ridge

from bench import charts
from bench.registry import BENCHES
from bench.secure_sketching import (
    families,
    figure2,
    figure3,
    figure4,
    printed,
    real_data,
    synthetic,
    table6,
    table7,
    table8,
    utility,
)
from bench.secure_sketching.printed import Draws, NoiseProducts, entries_name
from bench.secure_sketching.real_data import DataSet, findings
from bench.secure_sketching.simulation import exact_sums, interpolated, noiseless, opened, total_noise
from bench.secure_sketching.utility import LowRankProblem, RidgeProblem
from dpmpc import LowRankApproximation, RidgeRegression
from dpmpc.base.randomness import Stream
from dpmpc.data import Schema, Table
from dpmpc.data.schemas import clip_ball
from dpmpc.linear.noise.integer import Skellam
from dpmpc.models.common.linear_algebra import excess_risk, ridge_cost
from dpmpc.models.papers.baselines.linear import optimal_ridge
from dpmpc.privacy.gaussian import mu_of_budget
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release import simulation as model
from dpmpc.release.planning import design
from support.rejections import rejects

RUNS = 150
CHOICES = [
    {"sketch": "osnap", "rows": 12, "sparsity": 3},
    {"sketch": "osnap", "rows": 12, "sparsity": 3, "balanced": False},
    {"sketch": "countsketch", "rows": 12, "noise": "discrete-laplace", "delta": 0.0},
    {"sketch": "countsketch", "rows": 12, "noise": "discrete-laplace", "delta": 0.0, "calibration": "paper"},
    {"sketch": "sum"},
    {"sketch": "osnap", "rows": 12, "sparsity": 3, "noise_by": "servers"},
]


def rows_of(clients=600, columns=3, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (clients, columns))


def task_of(clients=600, delta=1e-6, copies="each", **choices):
    return design(
        ReleaseSpec.of(Schema.unit(["a", "b", "y"]), clients, 1.0, delta, copies=copies, simulation_seed=7, **choices)
    )


# The law of a release


@pytest.mark.parametrize("choices", CHOICES)
def test_exact_sums_are_the_integer_sketch(choices):
    task, rows = task_of(**choices), rows_of()
    encoded = task.statistic.encode(rows, task.encoding)
    assert (exact_sums(task, rows) == task.sketch.to_csc().astype(np.int64) @ encoded).all()


@pytest.mark.statistical
@pytest.mark.parametrize("choices", CHOICES)
def test_an_opened_release_has_the_law_of_one_that_clients_made(choices):
    """Mean, variance and distribution of the noise, beside `model.run` and beside the stated variance.

    Fixed seed. Means are within five standard errors, variances within six (of the kurtosis of a Laplace variable), the
    two-sample Kolmogorov-Smirnov test has level 1e-4: under 2e-4 false alarms in each case for a fresh seed.
    """
    task, rows = task_of(**choices), rows_of()
    sums = exact_sums(task, rows)
    spread = np.sqrt(task.noise_terms * task.noise.variance)[:, None]
    fast = np.array([(opened(task, sums, seed).sums - sums) / spread for seed in range(RUNS)]).ravel()
    slow = [model.run(task, rows, stream=Stream.from_seed(seed)).sums for seed in range(RUNS, 2 * RUNS)]
    slow = np.array([(made - sums) / spread for made in slow]).ravel()
    for noise in (fast, slow):
        assert abs(noise.mean()) < 5 / np.sqrt(noise.size)
        assert abs(noise.var() - 1) < 6 * np.sqrt(5 / noise.size)
    assert scipy.stats.ks_2samp(fast, slow).pvalue > 1e-4


def test_every_run_draws_its_own_noise():
    task, rows = task_of(**CHOICES[0]), rows_of()
    sums = exact_sums(task, rows)
    assert (opened(task, sums, 1).sums == opened(task, sums, 1).sums).all()
    assert (opened(task, sums, 1).sums != opened(task, sums, 2).sums).any()
    assert (noiseless(task, sums).sums == sums).all()
    assert opened(task, sums, 1).guarantee.simulation


def test_noise_that_reaches_several_rows_is_refused():
    task = task_of(copies="one", **CHOICES[0])
    with rejects("copies", expected="one for each"):
        opened(task, exact_sums(task, rows_of()), 1)


def test_sums_of_other_noises_are_refused():
    with rejects("noise", expected="discrete-gaussian or discrete-laplace"):
        total_noise(Skellam(9.0), 3, (2, 2), Stream.from_seed(0))


# The interpolation


def test_the_interpolation_ends_at_the_local_model_and_at_the_release():
    task = task_of(clients=1200, **CHOICES[0])
    assert interpolated(task, 1.0).noise.sigma == pytest.approx(task.noise.sigma, rel=1e-6)
    local = task.sensitivity.l2 / mu_of_budget(task.epsilon, task.delta)
    assert interpolated(task, 0.0).noise.sigma == pytest.approx(local, rel=0.01)
    half = interpolated(task, 0.5)
    assert half.noise.variance == pytest.approx(task.noise.variance * (1200 / 12) ** 0.5, rel=1e-4)
    assert half.guarantee.achieved_epsilon < task.guarantee.achieved_epsilon


@pytest.mark.parametrize("exponent", [-0.1, 1.1, float("nan")])
def test_exponents_beyond_the_ends_are_refused(exponent):
    with rejects("exponent", expected="a number from 0 (local) to 1 (sketch)"):
        interpolated(task_of(**CHOICES[0]), exponent)


def test_only_gaussian_noise_is_interpolated():
    with rejects("noise", expected="discrete-gaussian"):
        interpolated(task_of(**CHOICES[2]), 0.5)


# The measures


def test_phi_is_the_cost_over_the_least():
    rows = synthetic.regression(3000)
    X, y = rows[:, :-1], rows[:, -1]
    problem = RidgeProblem(rows, 10.0)
    release = problem.design(5.0, 1e-6, sketch="sum", simulation_seed=1)
    release = opened(release, exact_sums(release, rows), 1)
    model_ = RidgeRegression(10.0, fit_intercept=False, debias="never").fit_release(release).model_
    least = ridge_cost(optimal_ridge(X, y, 10.0, fit_intercept=False), X, y, 10.0)
    assert problem.judge(release) == pytest.approx(ridge_cost(model_, X, y, 10.0) / least - 1, rel=1e-6)
    assert problem.trivial() == pytest.approx(y @ y / least - 1)


def test_psi_is_the_excess_risk():
    rows = synthetic.gapped(3000)
    problem = LowRankProblem(rows, 3)
    task = problem.design(5.0, 1e-6, sketch="osnap", rows=64, copies="each", simulation_seed=1)
    release = opened(task, exact_sums(task, rows), 1)
    components = LowRankApproximation(3).fit_release(release).components_
    assert problem.judge(release) == pytest.approx(excess_risk(components, rows), rel=1e-6)
    values = np.linalg.svd(rows, compute_uv=False)
    assert values[2] > 10 * values[3]


# The printed experiment: noise on every entry, no sketch


@pytest.mark.parametrize("draw", [printed.standard_normal, printed.laplace_share(40)])
def test_moments_are_those_of_the_noisy_matrix(draw, monkeypatch):
    """One draw, scaled: the same second moments as from the noisy n x d matrix, whatever the size of a chunk."""
    rows, scale = rows_of(300), 1.7
    noise = draw(np.random.default_rng(5), rows.shape)
    noisy = rows + scale * noise
    products = NoiseProducts.draw(rows, draw, 5)
    np.testing.assert_allclose(products.moments(rows.T @ rows, scale), noisy.T @ noisy, rtol=1e-10, atol=1e-9)
    if draw is printed.standard_normal:  # drawn value by value, row by row
        monkeypatch.setattr(printed, "CHUNK", 7)
        np.testing.assert_allclose(NoiseProducts.draw(rows, draw, 5).square, products.square)


@pytest.mark.parametrize(
    "problem", [RidgeProblem(synthetic.regression(2000), 10.0, radius=1.5), LowRankProblem(synthetic.gapped(2000), 3)]
)
def test_the_printed_measure_is_the_estimators_on_noisy_rows(problem):
    """p = 1 from the noisy matrix itself: clipped rows, noise on every entry, scikit-learn's Ridge or an SVD."""
    found = printed.measure(problem, 1.0, Draws.of(problem, 1))
    rows = problem.rows if problem.radius is None else clip_ball(problem.rows, problem.radius)
    noise = np.random.default_rng(0).standard_normal(rows.shape)
    noisy = rows + printed.gauss_scale(problem, 1.0, 1.0) * noise
    if isinstance(problem, RidgeProblem):
        X, y = problem.rows[:, :-1], problem.rows[:, -1]
        weights = Ridge(10.0, fit_intercept=False).fit(noisy[:, :-1], noisy[:, -1]).coef_
        least = ridge_cost(optimal_ridge(X, y, 10.0, fit_intercept=False), X, y, 10.0)
        expected = float(((X @ weights - y) ** 2).sum() + 10.0 * weights @ weights) / least - 1
    else:
        expected = excess_risk(np.linalg.svd(noisy, full_matrices=False)[2][:3], problem.rows)
    assert found[entries_name(1.0)] == pytest.approx([expected], rel=1e-6)


@pytest.mark.statistical
def test_the_printed_noise_has_the_stated_variance():
    """p = 0 is the local model's noise, p = 1 has n times less variance; n Laplace shares add up to one variable.

    Fixed seed. 4000 sums of 50 shares: Kolmogorov-Smirnov at level 1e-3.
    """
    problem = RidgeProblem(synthetic.regression(900), 10.0, radius=2.0)
    local = 4.0 / mu_of_budget(0.5, 1e-6)
    assert printed.gauss_scale(problem, 0.5, 0.0, 1e-6) == pytest.approx(local)
    assert printed.gauss_scale(problem, 0.5, 1.0, 1e-6) == pytest.approx(local / 30)
    assert printed.gauss_scale(problem, 0.5, 0.5, 1e-6) == pytest.approx(local / 900**0.25)
    assert printed.laplace_scale(problem, 0.5) == pytest.approx(4 * np.sqrt(11) / 0.5)
    sums = printed.laplace_share(50)(np.random.default_rng(1), (50, 4000)).sum(axis=0)
    assert scipy.stats.kstest(sums, "laplace").pvalue > 1e-3


@pytest.mark.parametrize("exponent", [-0.1, 1.1, float("nan")])
def test_exponents_of_the_printed_noise_are_checked(exponent):
    with rejects("exponent", expected="a number from 0 (local) to 1"):
        printed.gauss_scale(RidgeProblem(rows_of(), 1.0), 1.0, exponent)


def test_the_printed_experiment_approaches_the_central_model_and_a_release_does_not():
    """n = 30,000, eps = .5, fixed seed: each step is by a factor of five or more."""
    problem = RidgeProblem(synthetic.regression(30_000), 10.0, radius=2.2)
    entries = printed.measure(problem, 0.5, Draws.of(problem, 3))
    sketch = utility.compare(problem, 0.5, 3, rows=64)
    steps = [entries["central SSP"], entries[entries_name(1.0)], entries[entries_name(0.0)]]
    assert all(5 * np.mean(better) < np.mean(worse) for better, worse in itertools.pairwise(steps))
    assert np.mean(sketch[utility.GAUSS]) > np.mean(sketch[utility.TRIVIAL])
    assert entries["central SSP"] == sketch["central SSP"]


@pytest.mark.statistical
def test_the_competitors_are_in_order_where_the_budget_is_large():
    """Fixed seed, eps = 5: each step is by a factor of three or more, over six standard errors of its three runs."""
    problem = LowRankProblem(synthetic.gapped(30_000), 3, radius=2.2)
    found = utility.compare(problem, 5.0, 3, rows=64)
    mean = {name: np.mean(values) for name, values in found.items()}
    order = ["central Analyze Gauss", utility.GAUSS, utility.LOCAL]
    assert all(3 * mean[better] < mean[worse] for better, worse in itertools.pairwise(order))
    assert mean[utility.SUM] < mean[utility.GAUSS] < mean[utility.PRINTED]
    assert mean[utility.LOCAL] < 0.8 * mean[utility.TRIVIAL]


# The commands

FIGURES = {"figure2": figure2, "figure3": figure3, "figure4": figure4}
TABLES = {"table7": table7, "table8": table8}


def small_data():
    names = ("a", "b", "c", "y")
    return DataSet("Small", lambda: Table(names, rows_of(2500, 4)), Schema.from_pair(names, (-1.5, 1.5)), "y", 2)


@pytest.mark.parametrize("name", [*FIGURES, *TABLES])
def test_a_short_run_writes_three_files(name, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(real_data, "SHORT", (small_data(),))
    {**FIGURES, **TABLES}[name].main(["--short", "--out", str(tmp_path)])
    assert f"secure_sketching.{name}" in BENCHES
    content = json.loads((tmp_path / f"{name}.json").read_text())
    page = (tmp_path / f"{name}.md").read_text()
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out == page
    assert content["machine"]["versions"]["dpmpc"]
    expected = {
        families.PRINTED: {*map(entries_name, utility.EXPONENTS), printed.LAPLACE_ENTRIES, utility.TRIVIAL},
        families.SKETCH: {
            *(utility.GAUSS, utility.LAPLACE, utility.DENSE, utility.PRINTED, utility.SUM, utility.LOCAL),
            utility.TRIVIAL,
        },
    }
    labels = itertools.cycle(families.LABELS.items())  # the two families stand side by side
    assert len(content["panels"]) % 2 == 0
    for panel, (family, label) in zip(content["panels"], labels, strict=False):
        assert panel["title"].endswith(f": {label}")
        assert expected[family] < set(panel["series"])
        assert any(series.startswith("central") for series in panel["series"])
        for series in panel["series"].values():
            assert [entry["runs"] for entry in series] == [2] * len(panel["x"])
        assert f"## {panel['title']}" in page


def test_the_data_sets_are_listed(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(table6, "MEASURED", (small_data(),))
    table6.main(["--out", str(tmp_path)])
    assert "| Small |  |  | 2,500 | 3 | 2 |  |" in (tmp_path / "table6.md").read_text()
    assert "| Songs | 515,345 | 91 |" in capsys.readouterr().out


def test_one_family_is_measured_and_the_other_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(synthetic, "SHORT_SIZES", (1024,))
    out = ["--short", "--out", str(tmp_path)]
    figure3.main(out)
    first = json.loads((tmp_path / "figure3.json").read_text())["panels"]
    monkeypatch.setattr(utility, "compare", None)  # is not called
    figure3.main([*out, "--only", "printed"])
    again = json.loads((tmp_path / "figure3.json").read_text())["panels"]
    assert again == first
    monkeypatch.setattr(synthetic, "SHORT_SIZES", (2048,))
    figure3.main([*out, "--only", "printed"])
    other = json.loads((tmp_path / "figure3.json").read_text())["panels"]
    assert [panel["x"] for panel in other] == [[2048], [2048]]  # nothing kept that has other sizes


def test_data_sets_without_their_file_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setenv("DPMPC_DATA", str(tmp_path))
    by_name = {data.name: data for data in real_data.MEASURED}
    assert [data.name for data in real_data.MEASURED if not data.at_hand] == ["Songs", "Ethylene"]
    rng = np.random.default_rng(0)
    bounds = by_name["Songs"].bounds
    lower = np.array([column.lower for column in bounds.columns])
    upper = np.array([column.upper for column in bounds.columns])
    np.savetxt(tmp_path / "YearPredictionMSD.txt", rng.uniform(lower, upper, (40, 91)), delimiter=",", fmt="%.5f")
    header = "Time (seconds), CO conc (ppm), Ethylene conc (ppm), sensor readings (16 channels)"
    readings = rng.uniform(0, 20, (30, 19))
    np.savetxt(tmp_path / "ethylene_CO.txt", readings, fmt="%.2f", header=header, comments="")
    roads = np.column_stack(
        [np.full(20, 144552912), rng.uniform(8, 11, 20), rng.uniform(57, 57.5, 20), rng.uniform(0, 90, 20)]
    )
    np.savetxt(tmp_path / "3D_spatial_network.txt", roads, delimiter=",", fmt=["%d", "%.7f", "%.7f", "%.10f"])
    shapes = {name: by_name[name].rows().shape for name in ("Songs", "Ethylene", "Elevation")}
    assert all(by_name[name].at_hand for name in shapes)
    assert shapes == {"Songs": (40, 91), "Ethylene": (30, 19), "Elevation": (20, 3)}
    for name in shapes:
        assert np.abs(by_name[name].rows()).max() <= 1
    assert real_data.DataSet.rows(by_name["Songs"])[:, -1].std() > 0.1  # the year, last
    monkeypatch.setattr(table6, "MEASURED", tuple(by_name[name] for name in shapes))
    table6.main(["--out", str(tmp_path)])
    assert "| Ethylene | 4,208,261 | 19 | 30 | 18 |" in (tmp_path / "table6.md").read_text()


def test_a_short_run_leaves_the_results_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(synthetic, "SHORT_SIZES", (1024,))
    figure3.main(["--short"])
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with rejects("bench"):
        figure2.main(["--out", str(tmp_path)])


def test_no_runs_are_refused(tmp_path):
    with rejects("runs", expected="at least 1"):
        figure2.main(["--runs", "0", "--out", str(tmp_path)])


def test_findings_say_where_the_order_holds_and_what_is_useful():
    panel = charts.Panel("Data")
    panel.add(0.1, {"best": [1.0, 1.1], "worst": [2.0, 2.1], utility.SUM: [0.1, 0.1], utility.TRIVIAL: [1.5, 1.5]})
    panel.add(0.5, {"best": [3.0, 3.1], "worst": [2.0, 2.1], utility.SUM: [0.1, 0.1], utility.TRIVIAL: [9.5, 9.5]})
    order, best, worst, total = findings(panel, ("best", "worst"))
    assert order.endswith("best ≤ worst holds at ε = 0.1.")
    assert best.endswith("trivial predictor at ε = 0.1, 0.5.")
    assert worst.endswith("trivial predictor at ε = 0.5.")
    assert total.endswith("trivial predictor at ε = 0.1, 0.5.")


def test_where_laplace_noise_on_every_entry_beats_gaussian_noise():
    """The claim of Tables 7 and 8 that Laplace noise is worse than Gaussian, on the three complete sets."""
    laplace, gauss, clearly, below = "Laplace on every entry", entries_name(1.0), {}, {}
    for table in ("table7", "table8"):
        panels = json.loads((charts.RESULTS / f"{table}.json").read_text())["panels"]
        for panel in (p for p in panels if "as printed" in p["title"] and not p["title"].startswith("Elevation")):
            where = (table, panel["title"].split(",")[0])
            below[where], clearly[where] = [], []
            for x, a, b in zip(panel["x"], panel["series"][laplace], panel["series"][gauss], strict=True):
                error = np.hypot(a["sd"], b["sd"]) / np.sqrt(a["runs"])
                below[where] += [x] if a["mean"] < b["mean"] else []
                clearly[where] += [x] if a["mean"] < b["mean"] - 2 * error else []
    assert below == {
        ("table7", "Power"): [],
        ("table7", "SGEMM"): [5, 20],
        ("table7", "Bike"): [20],
        ("table8", "Power"): [0.01, 0.03, 0.05, 0.1, 0.5, 20],
        ("table8", "SGEMM"): [0.01, 0.03, 0.05],
        ("table8", "Bike"): [0.01, 0.03, 0.05, 0.1],
    }
    assert clearly["table8", "Power"] == [0.01, 20]
    assert clearly["table8", "SGEMM"] == [0.01, 0.03]
    assert clearly["table8", "Bike"] == [0.03, 0.05, 0.1]
