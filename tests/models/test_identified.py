"""What an inference says where only some coefficients are identified: contrasts, words, tables, JSON."""

import dataclasses
import json
import math

import numpy as np
import pandas
import pytest

from dpmpc import LogisticRegression, RidgeRegression
from dpmpc.models.common.inference import Inference
from dpmpc.models.common.summary import Summary
from dpmpc.models.rounds.last_round import LastRoundEstimate
from support.rejections import rejects


def found(weak=(1.0, -1.0), spread=100.0):
    """x0 and x1 move together along a weak direction; x2 does not."""
    names, level = ("x0", "x1", "x2"), 1.959963984540054
    direction = np.array([0.0, *weak, 0.0])
    bounded = spread * np.outer(direction, direction)
    covariance = np.diag([0.04, 0.0025, 0.0025, 0.09]) + bounded
    estimates = np.array([1.0, 0.9, -0.2, 5.0])
    hidden = 2 * np.diag(bounded) > np.diag(covariance)
    errors = np.where(hidden, math.inf, np.sqrt(np.diag(covariance)))
    intervals = np.column_stack([estimates - level * errors, estimates + level * errors])
    return Inference(
        feature_names=names,
        coef=estimates[1:],
        standard_errors=errors[1:],
        confidence_intervals=intervals[1:],
        intercept=1.0,
        intercept_standard_error=float(errors[0]),
        intercept_confidence_interval=intervals[0],
        level=0.95,
        degrees=math.inf,
        covariance=covariance,
        clients=1000,
        r_squared=math.nan,
        r_squared_standard_error=math.nan,
        robust=True,
        estimate=LastRoundEstimate(
            coefficients=estimates, weak=direction[None], errors=covariance, hidden=bounded, left=np.zeros((4, 4))
        ),
        weak=(dict(zip(names, weak, strict=False)),) if spread else (),
    )


def test_a_sum_is_identified_where_its_coefficients_are_not():
    inference = found()
    assert inference.identified == (False, False, True)
    assert inference.informative
    total = inference.contrast({"x0": 1, "x1": 1})
    assert total.identified
    assert total.estimate == pytest.approx(0.7)
    assert total.standard_error == pytest.approx(math.sqrt(0.005))
    assert total.confidence_interval == pytest.approx((0.7 - 1.96 * 0.0707107, 0.7 + 1.96 * 0.0707107), abs=1e-4)
    for weights in ({"x0": 1, "x1": -1}, {"x0": 1}, {"x1": 2, "x2": 1}):
        refused = inference.contrast(weights)
        assert not refused.identified
        assert math.isnan(refused.estimate)
        assert refused.confidence_interval == (-math.inf, math.inf)
    assert inference.contrast({"intercept": 1, "x2": -1}).estimate == pytest.approx(-4.0)


@pytest.mark.parametrize("weights", [{}, {"x9": 1.0}, {"x0": 0.0}])
def test_a_contrast_of_nothing_or_of_strangers_is_refused(weights):
    with rejects("weights", expected="numbers by intercept, x0, x1, x2"):
        found().contrast(weights)


def test_what_cannot_be_told_apart_is_said_with_the_sum_that_can():
    (said,) = found().not_told_apart
    assert said == "x0 and x1 cannot be distinguished (their sum can: 0.7 ± 0.071); predictions are not affected."
    (said,) = found((1.0, -0.5)).not_told_apart
    assert "(x0 + 2 x1 can: 0.5 ± 0.11)" in said
    (said,) = dataclasses.replace(found((1.0, 0.0)), weak=({"x0": 1.0},)).not_told_apart
    assert said.startswith("the coefficient of x0 is not identified: noise hides how far the column varies;")
    assert found(spread=0.0).not_told_apart == []


def test_a_table_shows_what_is_identified():
    summary = Summary.of("y", found(), said=["Errors cover sampling and noise."])
    table = summary.coefficients
    assert np.isnan(table.columns["coefficient"][:2]).all()
    assert table.columns["coefficient"][2:] == [5.0, 1.0]
    assert np.isnan(summary.adjusted[:2]).all()
    assert summary.adjusted[2] == summary.p_values[3]
    assert summary.tests["all features"].features == ("x2",)
    assert any("cannot be distinguished" in note for note in summary.notes)
    assert "nan" not in str(summary)
    fields = json.loads(json.dumps(summary.inference.fields, allow_nan=False))
    assert fields["unpenalised_coefficients"] == {"x0": None, "x1": None, "x2": 5.0}
    assert fields["confidence_intervals"]["x0"] == [None, None]
    json.dumps(summary.to_dict(), allow_nan=False)


def test_a_fit_says_what_cannot_be_told_apart():
    """Two features that nearly coincide: their sum has an interval; theirs are withheld or flagged; JSON is finite."""
    rng = np.random.default_rng(5)
    z = rng.normal(size=20_000) / 4
    X = np.column_stack([z, z + 0.002 * rng.normal(size=20_000), rng.uniform(-1, 1, 20_000)]).clip(-1, 1)
    names = {"a": (-1, 1), "b": (-1, 1), "c": (-1, 1)}
    chance = 1 / (1 + np.exp(-X @ [1.2, 0.8, -0.5]))
    targets = {
        "logistic": (LogisticRegression, (rng.random(20_000) < chance).astype(float), (0, 1)),
        "ridge": (RidgeRegression, (X @ [0.3, 0.2, -0.1] + rng.normal(size=20_000) / 10).clip(-1, 1), (-1, 1)),
    }
    for kind, (make, y, ends) in targets.items():
        model = make(epsilon=3.0, delta=1e-6, bounds={**names, "y": ends}, rounds=4, simulation_seed=1)
        model.fit(pandas.DataFrame(X, columns=list(names)), y)
        found = model.inference()
        assert found.told == (False, False, True), kind
        assert found.identified == ((True,) * 3 if kind == "ridge" else (False, False, True))
        assert found.contrast({"a": 1, "b": 1}).identified
        difference = found.contrast({"a": 1, "b": -1})
        assert (difference.identified, difference.rests_on_bounds) == (False, kind == "ridge")
        (weak,) = found.weak
        assert set(weak) == {"a", "b"}
        assert weak["a"] == pytest.approx(-weak["b"], rel=0.2)
        (said,) = found.not_told_apart
        assert said.startswith("a and b cannot be distinguished (")
        data = json.loads(json.dumps(model.result().data, allow_nan=False))
        assert data["identified"] == {"a": False, "b": False, "c": True}
        if kind == "ridge":  # each with its flag, in the table, its notes and the plot
            assert data["confidence_intervals"]["a"][0] < data["confidence_intervals"]["a"][1]
            assert data["on_bounds"] == ["a", "b"]
            assert list(model.summary().coefficients.names) == ["a (on bounds)", "b (on bounds)", "c", "intercept"]
            assert np.isnan(model.summary().statistics[1:3]).all()
            assert np.isnan(model.summary().p_values[1:3]).all()
            assert any(note.startswith("(on bounds): ") for note in model.summary().notes)
        else:
            assert data["confidence_intervals"]["a"] == [None, None]
            assert data["on_bounds"] == []
        assert data["confidence_intervals"]["c"][0] < data["confidence_intervals"]["c"][1]
        assert data["not_told_apart"] == [said]
        assert "cannot be distinguished" in str(model.summary())
        assert np.isfinite(model.predict(pandas.DataFrame(X[:5], columns=list(names)))).all()


def test_a_slope_that_noise_hides_has_no_interval():
    """A step in a feature of deviation .05 in [-1, 1]: its slope, 12.75, is longer than any bound."""
    rng = np.random.default_rng([1, 3000])
    X = np.column_stack([0.05 * rng.standard_normal(3000), rng.uniform(-1, 1, 3000)])
    y = 0.8 * np.sign(X[:, 0]) + 0.1 * rng.standard_normal(3000)
    bounds = {"x0": (-1, 1), "x1": (-1, 1), "y": (-1, 1)}
    for seed in range(1, 8):  # shown in .26 of whose fits held the slope
        choices = {"epsilon": 1.0, "delta": 1e-6, "bounds": bounds, "sketch": "sum"}
        model = RidgeRegression(**choices, simulation_seed=seed).fit(X, y)
        assert not model.inference().identified[0]
