"""The report of a fit in rounds: well-formed, with the numbers of result.json, and safe with hostile names."""

import warnings

import numpy as np
import pytest

from dpmpc import LogisticRegression, PoissonRegression
from dpmpc.data import Column, Schema
from dpmpc.render.page import Analysed
from dpmpc.render.rounds_page import rounds_page
from dpmpc.render.rounds_text import found_in_rounds, release_file, rounds_text
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


def report(model, kind):
    result, parts = found_in_rounds(model, "ill")
    releases = model.releases_
    files = [release_file(number) for number in range(len(releases))]
    analysed = Analysed(kind, {"rounds": 1}, result)
    return result, parts, rounds_page(releases, model.guarantee_, analysed, files=files, timing={}, command="dpmpc fit")


@pytest.mark.parametrize(("kind", "ratio"), [("logistic", "odds"), ("poisson", "rate")])
def test_the_page_has_the_numbers_of_the_result(kind, ratio):
    model = fitted(kind, *((5000, 3.0) if kind == "logistic" else (20_000, 10.0)))
    result, _, text = report(model, kind)
    page = Page(text)
    for numbers in (result["coefficients"], result["standard_errors"], result[f"{ratio}_ratios"]):
        assert set(numbers.values()) <= set(page.numbers)
    for low, high in result[f"{ratio}_ratio_intervals"].values():
        assert {low, high} <= set(page.numbers)
    assert f"{ratio.capitalize()} ratios" in page.text
    assert f"{kind.capitalize()} regression of ill" in page.text
    assert "SIMULATION" in page.text
    assert HOSTILE in page.text
    assert "script" not in page.tags
    assert "SavedReleases" in page.text
    assert f"ε = {model.guarantee_.epsilon:g}" in page.text
    assert rounds_text(model.releases_) in page.text
    assert "svg" in page.tags
    assert all(task.digest.hex() in page.text for task in (release.task for release in model.releases_))


def test_a_hopeless_fit_begins_with_the_verdict_and_shows_no_coefficient():
    model = fitted("logistic", 300, 0.3)
    assert model.verdict_ is not None
    result, parts, text = report(model, "logistic")
    page = Page(text)
    assert model.verdict_ in page.text
    assert page.text.index("Verdict.") < page.text.index("Who is protected")
    assert "odds ratio" not in page.text.lower()
    assert "svg" not in page.tags
    assert result["coefficients"] is None
    assert len(parts) == 2


def test_without_errors_there_are_coefficients_alone():
    model = fitted("logistic", 5000, 3.0)
    model.covariance_, model.no_interval_ = None, "noise decides"
    result, parts, text = report(model, "logistic")
    page = Page(text)
    assert result["coefficients"] is not None
    assert result["standard_errors"] is None
    assert result["odds_ratio_intervals"] is None
    assert "no standard errors" in page.text
    assert set(result["odds_ratios"].values()) <= set(page.numbers)
    assert any("no intervals: noise decides." in str(part) for part in parts)
