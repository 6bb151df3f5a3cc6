"""Results in the names of statistical packages: params, bse, conf_int, tidy and glance."""

import importlib

import numpy as np
import pandas as pd
import pytest

from dpmpc import (
    CoxRegression,
    FrequencyMoment,
    GroupComparison,
    GroupedRidgeRegression,
    KaplanMeier,
    LogisticRegression,
    LowRankApproximation,
    PoissonRegression,
    RidgeRegression,
    Schema,
)
from dpmpc.data import Codebook, Variable
from support.rejections import rejects

OPTIONS = {"epsilon": 3.0, "delta": 1e-6, "noise_by": "servers", "simulation_seed": 2}
COLUMNS = ["term", "estimate", "std_error", "statistic", "p_value", "conf_low", "conf_high", "on_bounds"]
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (6000, 2))
MEAN = 0.4 * X[:, 0] - 0.2 * X[:, 1]
ILL = (RNG.random(6000) < 1 / (1 + np.exp(-3 * MEAN))).astype(int)
ARM = RNG.choice(["old", "new"], 6000)
TIMES = RNG.exponential(np.where(ARM == "new", 30, 20))
TRIAL = Schema.of_codebook(
    Codebook((Variable("time", 0, 50, cells=25), Variable("event", 0, 1), Variable("arm", values=("old", "new"))))
)


def cox():
    frame = {"arm": ARM}
    return CoxRegression(bounds=TRIAL, **OPTIONS).fit(frame, np.minimum(TIMES, 49.0), TIMES < 49)


MODELS = {
    "ridge": lambda: RidgeRegression(bounds=(-1, 1), **OPTIONS).fit(X, MEAN),
    "ridge in rounds": lambda: RidgeRegression(rounds=2, bounds=(-1, 1), **OPTIONS).fit(X, MEAN),
    "logistic": lambda: LogisticRegression(rounds=2, bounds=(-1, 1), **OPTIONS).fit(X, ILL),
    "poisson": lambda: PoissonRegression(rounds=2, most=9, bounds=(-1, 1), **OPTIONS).fit(X, RNG.poisson(np.exp(MEAN))),
    "grouped-ridge": lambda: GroupedRidgeRegression(["old", "new"], bounds=(-1, 1), **OPTIONS).fit(X, MEAN, ARM),
    "compare": lambda: GroupComparison(["old", "new"], bounds=(-1, 1), **OPTIONS).fit(None, MEAN, ARM),
    "cox": cox,
    "moment": lambda: FrequencyMoment(1, bounds=(-1, 1), **OPTIONS).fit(X[:, 0]),
}
NAMES = {
    "grouped-ridge": [f"{group}: {name}" for group in ("old", "new") for name in ("x0", "x1", "intercept")],
    "compare": ["new - old"],
    "cox": ["arm = new"],
    "moment": ["x0"],
}


@pytest.mark.parametrize("name", MODELS)
def test_all_forms_have_the_same_numbers(name):
    result = MODELS[name]().result()
    tidy = result.tidy()
    assert list(tidy.columns) == COLUMNS
    assert list(result.params) == list(result.bse) == list(result.conf_int()) == list(tidy.term)
    assert list(tidy.term) == NAMES.get(name, ["x0", "x1", "intercept"])
    assert tidy.estimate.tolist() == pytest.approx(list(result.params.values()), nan_ok=True)
    assert tidy.std_error.tolist() == pytest.approx(list(result.bse.values()), nan_ok=True)
    ends = np.array(list(result.conf_int().values()))
    assert np.array_equal(tidy[["conf_low", "conf_high"]].to_numpy(), ends, equal_nan=True)
    known = np.isfinite(tidy.std_error)
    assert known.any()
    assert (tidy.conf_low[known] < tidy.estimate[known]).all()
    assert (tidy.estimate[known] < tidy.conf_high[known]).all()
    wide = np.array(list(result.conf_int(0.99).values()))[known]
    assert (wide[:, 0] < tidy.conf_low[known]).all()
    assert (wide[:, 1] > tidy.conf_high[known]).all()
    if result.estimates(0.9).contrast is None:
        with rejects("weights"):
            result.contrast({next(iter(result.params)): 1.0})
    else:
        one = result.contrast({"x0": 1.0}, 0.9)
        assert (one.estimate, one.standard_error) == pytest.approx((result.params["x0"], result.bse["x0"]))
        assert one.confidence_interval == pytest.approx(result.conf_int(0.9)["x0"])
    glance = result.glance()
    assert (len(glance), glance.clients[0], glance.epsilon[0], glance.delta[0]) == (1, 6000, 3.0, 1e-6)
    assert glance.model[0] == result.model
    with rejects("level", given="1"):
        result.conf_int(1)


def test_the_table_of_a_ridge_regression_has_these_numbers():
    result = MODELS["ridge"]().result(0.9)
    table = result.tables[0]
    tidy = result.tidy()
    assert list(tidy.term) == list(table.names)
    assert tidy.estimate.tolist() == table.columns["coefficient"]
    assert tidy.std_error.tolist() == table.columns["std. error"]
    assert tidy.statistic.tolist() == table.columns["z"]
    assert tidy.p_value.tolist() == table.columns["p"]
    assert tidy.conf_low.tolist() == table.columns["90% from"]


def test_what_rests_on_the_bounds_is_flagged_and_has_no_statistic():
    bounds = {"x0": (-1, 1), "x1": (-1000, 1000), "y": (-1, 1)}
    tidy = RidgeRegression(rounds=2, bounds=bounds, **OPTIONS).fit(X, MEAN).result().tidy()
    flagged = tidy[tidy.on_bounds]
    assert "x1" in set(flagged.term)
    assert "x0" not in set(flagged.term)
    assert flagged.statistic.isna().all()
    assert flagged.p_value.isna().all()


def test_without_pandas_there_are_arrays(monkeypatch):
    result = MODELS["moment"]().result()

    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", absent)
    tidy, glance = result.tidy(), result.glance()
    assert list(tidy) == COLUMNS
    assert tidy["estimate"].tolist() == list(result.params.values())
    assert glance["clients"].tolist() == [6000]


def test_a_model_without_estimates_states_that():
    curves = KaplanMeier(bounds=(0, 50), **OPTIONS).fit(np.minimum(TIMES, 49.0), TIMES < 49).result()
    components = LowRankApproximation(1, bounds=(-1, 1), **OPTIONS).fit(pd.DataFrame(X)).result()
    for result in (curves, components):
        with rejects("estimates"):
            result.tidy()
        assert result.glance().clients[0] == 6000
