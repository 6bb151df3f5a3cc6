"""Models in rounds against statsmodels: at a budget at which noise is nothing, coefficients and HC0 errors are its own.

No row is clipped or weighted. What is left is that a step of Newton's method ends near the optimum.
"""

import numpy as np
import pytest

from dpmpc import LogisticRegression, PoissonRegression, RidgeRegression

sm = pytest.importorskip("statsmodels.api", reason="statsmodels is not installed")

CLIENTS = 20_000


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(6)
    X = rng.uniform(-1, 1, (CLIENTS, 3))
    X[:, 2] = rng.random(CLIENTS) < 0.3
    return X, 0.2 + X @ [1.0, -0.7, 0.5], rng


def options(**more):
    return {"epsilon": 200.0, "delta": 1e-6, "bounds": (-1, 1), "simulation_seed": 1, "rounds": 4, **more}


def compare(model, oracle, within, rel=0.05):
    found = model.inference()
    estimates = np.array([found.intercept, *found.coef])
    errors = np.array([found.intercept_standard_error, *found.standard_errors])
    assert np.abs(estimates - oracle.params).max() < within * oracle.bse.min()
    assert errors == pytest.approx(oracle.bse, rel=rel)
    low, high = oracle.conf_int(0.05).T
    assert found.confidence_intervals[:, 0] == pytest.approx(
        low[1:], abs=within * oracle.bse.max() + 0.05 * oracle.bse.max()
    )
    assert found.confidence_intervals[:, 1] == pytest.approx(
        high[1:], abs=within * oracle.bse.max() + 0.05 * oracle.bse.max()
    )


def test_logistic(rows):
    X, eta, rng = rows
    y = (rng.random(CLIENTS) < 1 / (1 + np.exp(-eta))).astype(float)
    oracle = sm.Logit(y, sm.add_constant(X)).fit(disp=False, cov_type="HC0")
    model = LogisticRegression(**options()).fit(X, y)
    compare(model, oracle, within=0.3)
    table = model.odds_ratios()
    assert list(table.names) == [*model.feature_names_, "intercept"]
    assert table.columns["odds ratio"][:-1] == pytest.approx(np.exp(oracle.params[1:]), rel=0.02)
    assert table.columns["to"][:-1] == pytest.approx(np.exp(oracle.conf_int(0.05)[1:, 1]), rel=0.03)
    assert table.columns["z"] == pytest.approx([*oracle.tvalues[1:], oracle.tvalues[0]], rel=0.1)
    assert np.isnan(table.columns["odds ratio"][-1])  # the intercept is no ratio for one more unit


def test_a_wrong_logistic_model_has_the_errors_of_a_sandwich(rows):
    """Odds that are not linear, and depend on what is left out: HC0 and model-based errors differ, and ours are HC0."""
    X, eta, rng = rows
    y = (rng.random(CLIENTS) < 1 / (1 + np.exp(-eta - 3 * X[:, 0] ** 2 * (X[:, 1] > 0)))).astype(float)
    oracle = sm.Logit(y, sm.add_constant(X)).fit(disp=False, cov_type="HC0")
    compare(LogisticRegression(**options()).fit(X, y), oracle, within=1.2)


def test_poisson(rows):
    X, eta, rng = rows
    y = rng.poisson(np.exp(eta)).clip(0, 30).astype(float)
    oracle = sm.GLM(y, sm.add_constant(X), family=sm.families.Poisson()).fit(cov_type="HC0")
    # noise is in proportion to the largest residual, here 30
    compare(PoissonRegression(**options(most=30, epsilon=2000.0)).fit(X, y), oracle, within=0.6, rel=0.08)


def test_linear(rows):
    """Residuals that grow with a column: errors are those of a sandwich, and coefficients the oracle's."""
    X, eta, rng = rows
    y = eta + rng.standard_normal(CLIENTS) * (0.2 + np.abs(X[:, 0]))
    oracle = sm.OLS(y, sm.add_constant(X)).fit(cov_type="HC0")
    bounds = {"x0": (-1, 1), "x1": (-1, 1), "x2": (0, 1), "y": (-8, 8)}
    model = RidgeRegression(**options(bounds=bounds)).fit(X, y)
    compare(model, oracle, within=0.6)
    assert (np.abs(model.coef_ - oracle.params[1:]) < 3 * oracle.bse[1:]).all()
