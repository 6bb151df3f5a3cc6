"""The report of a fit in rounds: well-formed, with the numbers of result.json, and safe with hostile names."""

import warnings

import numpy as np
import pytest

from dpmpc import LogisticRegression, PoissonRegression
from dpmpc.app.render.about import About
from dpmpc.app.render.page import page
from dpmpc.app.render.released import release_file, report_of, rounds_text
from dpmpc.data import Column, Schema
from support.html_page import Page

HOSTILE = "<script>alert(1)</script>"


def fitted(kind, clients, epsilon):
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (clients, 2))
    eta = -0.5 + X[:, 0]
    y = rng.random(clients) < 1 / (1 + np.exp(-eta)) if kind == "logistic" else rng.poisson(np.exp(eta)).clip(0, 9)
    bounds = Schema((Column(HOSTILE, -1, 1), Column("b", -1, 1)))
    model = LogisticRegression(classes=[0, 1]) if kind == "logistic" else PoissonRegression(most=9)
    model.set_params(bounds=bounds, epsilon=epsilon, simulation_seed=3, rounds=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(_frame(X), y.astype(int))


def _frame(X):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(X, columns=[HOSTILE, "b"])


def written(model):
    """The result, and its report as text and as a page."""
    releases, about = model.releases_, About.of_release(model.releases_[0])
    files, result = [release_file(number) for number in range(len(releases))], model.result()
    report = report_of(releases, result, about, files=files, in_rounds=True, guarantee=model.guarantee_)
    return result.data, str(report), page(report)


@pytest.mark.parametrize(("kind", "ratio"), [("logistic", "odds"), ("poisson", "rate")])
def test_the_page_has_the_numbers_of_the_result(kind, ratio):
    model = fitted(kind, *((5000, 3.0) if kind == "logistic" else (20_000, 10.0)))
    result, _, text = written(model)
    found = Page(text)
    for numbers in (result["coefficients"], result["standard_errors"], result[f"{ratio}_ratios"]):
        assert set(numbers.values()) <= set(found.numbers)
    for low, high in result[f"{ratio}_ratio_intervals"].values():
        assert {low, high} <= set(found.numbers)
    assert f"{ratio.capitalize()} ratios" in found.text
    assert f"{kind.capitalize()} regression of y" in found.text
    assert "SIMULATION" in found.text
    assert HOSTILE in found.text
    assert "script" not in found.tags
    assert "SavedReleases" in found.text
    assert f"ε = {model.guarantee_.epsilon:g}" in found.text
    assert rounds_text(model.releases_) in found.text
    assert "svg" in found.tags
    assert all(task.digest.hex() in found.text for task in (release.task for release in model.releases_))


def test_a_hopeless_fit_begins_with_the_verdict_and_shows_no_coefficient():
    model = fitted("logistic", 300, 0.3)
    assert model.verdict_ is not None
    result, said, text = written(model)
    found = Page(text)
    assert model.verdict_ in found.text
    assert found.text.index("Verdict.") < found.text.index("Who is protected")
    assert "odds ratio" not in found.text.lower()
    assert "svg" not in found.tags
    assert result["coefficients"] is None
    assert "There are no coefficients." in said
    assert "odds ratio" not in said.lower()


def test_without_errors_there_are_coefficients_alone():
    model = fitted("logistic", 5000, 3.0)
    model.estimate_, model.no_interval_ = None, "noise decides"
    result, said, text = written(model)
    found = Page(text)
    assert result["coefficients"] is not None
    assert result["standard_errors"] is None
    assert result["odds_ratio_intervals"] is None
    assert "no standard errors" in found.text
    assert set(result["odds_ratios"].values()) <= set(found.numbers)
    assert "no intervals: noise decides." in said
