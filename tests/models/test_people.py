"""Data frames of people in Python estimators: coded as a bounds file says, for fits and for predictions."""

import numpy as np
import pandas as pd
import pytest

from dpmpc import LogisticRegression, LowRankApproximation, RidgeRegression
from dpmpc.data import Codebook, Schema, Variable
from dpmpc.data.codebook import Weight
from dpmpc.models import GroupedRidgeRegression
from support.rejections import rejects

RNG = np.random.default_rng(0)
CLIENTS = 6000
FRAME = pd.DataFrame(
    {
        "age": RNG.uniform(18, 95, CLIENTS).round(1),
        "ward": RNG.choice(["A", "B", "C"], CLIENTS),
        "crp": np.exp(RNG.normal(1, 1, CLIENTS)).clip(0.1, 400),
        "admitted": pd.to_datetime(RNG.integers(0, 300, CLIENTS), unit="D", origin="2024-01-01"),
    }
)
VARIABLES = (
    Variable("age", 18, 95),
    Variable("ward", values=("A", "B", "C")),
    Variable("crp", 0.1, 500, transform="log"),
    Variable("admitted", date="%Y-%m-%d", lower="2024-01-01", upper="2024-12-31"),
)
BOOK = Codebook((*VARIABLES, Variable("y", 0, 100)), products=(("age", "ward"),))
CODED = Codebook(VARIABLES, products=BOOK.products)
Y = pd.Series(FRAME.age / 2 + 10 * (FRAME.ward == "B") + RNG.normal(0, 3, CLIENTS), name="y")
OPTIONS = {"bounds": Schema.of_codebook(BOOK), "epsilon": 3.0, "simulation_seed": 1}
MODELS = {
    "one release": lambda X, y: RidgeRegression(sketch="sum", **OPTIONS).fit(X, y),
    "rounds": lambda X, y: RidgeRegression(rounds=2, **OPTIONS).fit(X, y),
    "logistic": lambda X, y: LogisticRegression(
        rounds=1, **{**OPTIONS, "epsilon": 20.0, "bounds": Schema.of_codebook(CODED)}
    ).fit(X, y > 60),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_a_frame_of_people_is_fitted_as_its_coded_table(name):
    coded = CODED.encode(FRAME)
    people, columns = MODELS[name](FRAME, Y), MODELS[name](coded, Y)
    assert people.feature_names_ == coded.names
    assert np.array_equal(people.coef_, columns.coef_)
    assert people.feature_names_in_.tolist() == list(FRAME.columns)
    predicted = people.predict(FRAME)
    assert predicted == pytest.approx(columns.predict(coded), rel=1e-9)
    assert predicted[:5] == pytest.approx(people.predict(FRAME[:5][["admitted", "crp", "ward", "age"]]), rel=1e-9)


def test_some_variables_and_their_products_are_fitted():
    model = MODELS["one release"](FRAME[["ward", "age"]], Y)
    assert model.feature_names_ == ("ward=B", "ward=C", "age", "age*ward=B", "age*ward=C")
    again = RidgeRegression().fit_release(model.release_)
    assert np.array_equal(again.predict(FRAME), model.predict(FRAME))


def test_other_models_take_people():
    rotated = LowRankApproximation(n_components=2, **OPTIONS)
    assert rotated.fit(FRAME.assign(y=Y)).transform(FRAME.assign(y=Y)).shape == (CLIENTS, 2)
    arm = np.where(FRAME.age > 50, "old", "young")
    grouped = GroupedRidgeRegression(["old", "young"], **OPTIONS).fit(FRAME[["ward", "crp"]], Y, arm)
    assert grouped.feature_names_ == ("ward=B", "ward=C", "log(crp)")
    assert grouped.predict(FRAME, arm).shape == (CLIENTS,)


def test_predictions_do_not_read_the_bounds_file_again(tmp_path):
    for text, X in (
        (OPTIONS["bounds"].to_toml(), FRAME),
        (Schema.from_pair(["age", "y"], (0, 100)).to_toml(), FRAME[["age"]]),
    ):
        (tmp_path / "bounds.toml").write_text(text)
        model = RidgeRegression(sketch="sum", **{**OPTIONS, "bounds": tmp_path / "bounds.toml"}).fit(X, Y)
        before = model.predict(X)
        (tmp_path / "bounds.toml").unlink()
        assert np.array_equal(model.predict(X), before)


def test_what_cannot_be_coded_is_refused():
    lacking = FRAME.assign(ward=FRAME.ward.where(FRAME.index != 3))
    model = MODELS["one release"](FRAME, Y)
    assert np.flatnonzero(np.isnan(model.predict(lacking))).tolist() == [3]
    for frame, rejection in (
        (lacking, {"argument": "X: column 'ward', row 4"}),
        (FRAME.assign(ward="D"), {"argument": "X: column 'ward', row 1", "given": "D"}),
        (
            FRAME.assign(height=1.0),
            {"argument": "columns", "given": "no column 'height' in the bounds; there are age, ward, crp, admitted, y"},
        ),
    ):
        with rejects(**rejection):
            MODELS["one release"](frame, Y)
    weighted = Schema.of_codebook(Codebook((*VARIABLES, Variable("y", 0, 100)), weight=Weight("w", 2.0)))
    with rejects("bounds", given="with weights or rows of zeros"):
        RidgeRegression(**{**OPTIONS, "bounds": weighted}).fit(FRAME, Y)
