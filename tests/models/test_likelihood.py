"""Maximum likelihood against scikit-learn's own, and against a textbook's Newton step at the optimum."""

import numpy as np
import pytest
import sklearn.linear_model

from dpmpc.models.papers.baselines.likelihood import maximum_likelihood, mean_loss, trivial_loss
from support.rejections import rejects


@pytest.fixture
def rows():
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (4000, 3))
    eta = 0.3 + X @ [1.0, -2.0, 0.5]
    return X, (rng.random(4000) < 1 / (1 + np.exp(-eta))).astype(float), rng.poisson(np.exp(eta)).astype(float)


def test_logistic_is_scikit_learns(rows):
    X, y, _ = rows
    best = sklearn.linear_model.LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(X, y)
    found = maximum_likelihood("logistic", X, y)
    assert found.converged
    assert found.coefficients == pytest.approx([*best.intercept_, *best.coef_[0]], abs=1e-5)
    loss = mean_loss("logistic", found.coefficients, X, y)
    assert loss == pytest.approx(-np.mean(np.log(np.where(y == 1, *best.predict_proba(X).T[::-1]))), rel=1e-9)
    assert (
        loss
        < trivial_loss("logistic", X, y)
        == pytest.approx(-np.log(y.mean()) * y.mean() - np.log(1 - y.mean()) * (1 - y.mean()))
    )


def test_poisson_is_scikit_learns(rows):
    X, _, y = rows
    best = sklearn.linear_model.PoissonRegressor(alpha=0, tol=1e-10, max_iter=1000).fit(X, y)
    found = maximum_likelihood("poisson", X, y)
    assert found.coefficients == pytest.approx([best.intercept_, *best.coef_], abs=1e-4)
    assert 2 * mean_loss("poisson", found.coefficients, X, y) == pytest.approx(
        (1 - best.score(X, y)) * 2 * trivial_loss("poisson", X, y), rel=1e-6
    )


def test_separated_classes_have_no_maximum():
    X = np.linspace(-1, 1, 50)[:, None]
    found = maximum_likelihood("logistic", X, (X[:, 0] > 0).astype(float))
    assert np.isfinite(found.coefficients).all()
    assert mean_loss("logistic", found.coefficients, X, (X[:, 0] > 0).astype(float)) < 1e-3


def test_other_families_are_refused(rows):
    with rejects("family", given="'probit'"):
        maximum_likelihood("probit", rows[0], rows[1])
