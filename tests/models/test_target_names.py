"""What the target is called in `bounds`: a Series by its own name, everything else "y"."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dpmpc import RidgeRegression, Schema
from dpmpc.models.common.private_estimator import target_name
from support.rejections import rejects

RNG = np.random.default_rng(0)
X = pd.DataFrame({"age": RNG.uniform(0, 90, 2000), "hours": RNG.uniform(0, 60, 2000)})
Y = pd.Series(RNG.uniform(0, 100, 2000), name="income")
BOUNDS = {"age": (0, 90), "hours": (0, 60), "income": (0, 100)}


@pytest.mark.parametrize("rounds", [0, 2])
@pytest.mark.parametrize("library", [pd, pl])
def test_a_series_is_bounded_by_its_own_name(library, rounds):
    y = Y if library is pd else pl.Series("income", Y.to_numpy())
    model = RidgeRegression(bounds=BOUNDS, epsilon=5.0, rounds=rounds, simulation_seed=1).fit(X, y)
    other = RidgeRegression(
        bounds={"age": (0, 90), "hours": (0, 60), "y": (0, 100)}, epsilon=5.0, rounds=rounds, simulation_seed=1
    ).fit(X, Y.to_numpy())
    np.testing.assert_array_equal(model.coef_, other.coef_)


def test_the_release_has_the_name():
    model = RidgeRegression(bounds=BOUNDS, simulation_seed=1).fit(X, Y)
    assert model.releases_[0].columns == ("age", "hours", "income")
    assert model.target_ == "income"


def test_y_goes_on_meaning_the_target(tmp_path):
    old = {"age": (0, 90), "hours": (0, 60), "y": (0, 100)}
    assert RidgeRegression(bounds=old, simulation_seed=1).fit(X, Y).target_ == "y"
    (tmp_path / "bounds.toml").write_text(Schema.from_pair(["age", "income"], (0, 1)).to_toml())
    for bounds, y, name in (
        (old, Y, "y"),
        (None, Y, "y"),
        ((0, 1), Y, "y"),
        (BOUNDS, Y.to_numpy(), "y"),
        (BOUNDS, Y.rename(None), "y"),
        (BOUNDS, Y.rename(3), "y"),
        (BOUNDS | {"y": (0, 1)}, Y, "income"),
        (tmp_path / "bounds.toml", Y, "income"),
        (Schema.from_pair(["y", "age"], (0, 1)), Y, "y"),
    ):
        assert target_name(bounds, y) == name


def test_a_target_without_bounds_is_named_as_its_series_is():
    with rejects("bounds"):
        RidgeRegression(bounds={"age": (0, 90), "hours": (0, 60)}).fit(X, Y)
