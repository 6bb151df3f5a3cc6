"""Figure 3 to n = 10^8: products of noise that are drawn by their law have the law of those of noisy rows."""

import json

import numpy as np
import pytest
import scipy.stats

from bench.harness import RESULTS
from bench.secure_sketching import figure3_large, printed
from bench.secure_sketching.figure3_large import expected, measure, populations, turning
from bench.secure_sketching.printed import NoiseProducts, entries_name
from bench.secure_sketching.synthetic import REGIMES, regression
from bench.secure_sketching.utility import RidgeProblem
from dpmpc.data.schemas import clip_ball
from dpmpc.models.papers.baselines import SSP
from support.rejections import rejects

DRAWS = 1500


@pytest.mark.statistical
@pytest.mark.parametrize("clients", [6, 40])
def test_products_by_their_law_are_those_of_noise_on_every_entry(clients):
    """Every entry of X^T N + N^T X, N^T N and of the noisy moments, and phi - 1, of 4 columns; Kolmogorov-Smirnov.

    With 6 rows fewer of them are left for the Wishart matrix than it has columns, with 40 more. Fixed seed; 2 x 31
    tests of level 1e-5: under 7e-4 false alarms for a fresh seed.
    """
    problem = RidgeProblem(regression(clients, 3), 0.5)
    exact, upper = problem.moments, np.triu_indices(4)

    def values(products):
        noisy = products.moments(exact, 0.7)
        kept = [matrix[upper] for matrix in (products.mixed, products.square, noisy)]
        return np.append(np.concatenate(kept), problem.judge_moments(noisy))

    fast = np.array([values(NoiseProducts.of_gram(exact, clients, seed)) for seed in range(DRAWS)])
    slow = np.array(
        [values(NoiseProducts.draw(problem.rows, printed.standard_normal, DRAWS + seed)) for seed in range(DRAWS)]
    )
    assert min(scipy.stats.ks_2samp(*pair).pvalue for pair in zip(fast.T, slow.T, strict=True)) > 1e-5


def test_more_columns_than_rows_are_refused():
    with rejects("clients", given="3 given, at least 4 expected, one for each column"):
        NoiseProducts.of_gram(np.eye(4), 3, 0)


def test_moments_are_added_up_over_the_same_rows(monkeypatch):
    """A size is a prefix of the next one, whatever the chunks; clipped rows are counted apart."""
    [whole] = populations((500,))
    rows = figure3_large.regression_rows(np.random.default_rng([0, 500]), 500, 10, 0)
    np.testing.assert_allclose(whole.exact, rows.T @ rows, rtol=1e-12, atol=1e-9)
    clipped = clip_ball(rows, figure3_large.RADIUS)
    np.testing.assert_allclose(whole.clipped, clipped.T @ clipped, rtol=1e-12, atol=1e-9)
    monkeypatch.setattr(figure3_large, "CHUNK", 64)
    small, large = populations((300, 500))
    assert (small.clients, large.clients) == (300, 500)
    assert np.all(np.diag(large.exact) > np.diag(small.exact))
    assert small.exact is not large.exact


@pytest.mark.statistical
def test_the_curator_is_the_baseline():
    """SSP of the same budget on the rows themselves: medians of 200 runs within a factor of 1.3 of each other."""
    rows = regression(50_000)
    inside = clip_ball(rows, figure3_large.RADIUS)
    population = figure3_large.Population(len(rows), rows.T @ rows, inside.T @ inside)
    found = np.median(measure(population, 0.5, 200)[figure3_large.CENTRAL])
    problem = RidgeProblem(rows, figure3_large.ALPHA, radius=figure3_large.RADIUS)
    models = (SSP(10.0, 0.5, 1e-7, fit_intercept=False, radius=2.2, simulation_seed=1000 + seed) for seed in range(200))
    excess = [problem._excess(model.fit(rows[:, :-1], rows[:, -1]).coef_) for model in models]
    assert 1 / 1.3 < found / np.median(excess) < 1.3


@pytest.mark.statistical
def test_the_error_is_the_closed_form_and_falls_for_every_positive_exponent():
    """Fixed seeds, n = 2^14, 2^16, 2^18 at epsilon = .5: within .04 of (1 + h/c^2)^-2 at the last, and falling."""
    means = []
    for population in populations((2**14, 2**16, 2**18)):
        found = measure(population, 0.5, 20)
        means.append([np.mean(found[entries_name(p)]) for p in figure3_large.EXPONENTS])
    closed = [expected(2**18, 0.5, p) for p in figure3_large.EXPONENTS]
    assert means[-1] == pytest.approx(closed, abs=0.04)
    falls = np.array(figure3_large.EXPONENTS) >= 0.5
    assert np.all(np.diff(means, axis=0)[:, falls] < 0)
    assert expected(round(turning(0.5, 0.5)), 0.5, 0.5) == pytest.approx(0.25, rel=1e-6)


def test_the_stored_figure_is_that_of_rows_where_both_exist():
    """At n = 2^20 the direct simulation of Figure 3 has six runs: within five of its standard deviations."""
    large = json.loads((RESULTS / "figure3_large.json").read_text())
    direct = json.loads((RESULTS / "figure3.json").read_text())
    panels = {panel["title"].partition(":")[0]: panel for panel in direct["panels"] if "no sketch" in panel["title"]}
    assert len(large["panels"]) == len(figure3_large.CURVES)
    for panel, epsilon in zip(large["panels"], REGIMES, strict=False):
        assert panel["x"][-1] == 10**8
        other = panels[f"ε = {epsilon:g}"]
        for exponent in printed.EXPONENTS:
            name = entries_name(exponent)
            found, made = panel["series"][name][panel["x"].index(2**20)], other["series"][name][-1]
            assert found["mean"] == pytest.approx(made["mean"], abs=5 * made["sd"])
