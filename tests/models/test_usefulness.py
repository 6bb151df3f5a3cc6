"""What a fit warns of, from the release alone."""

import warnings

import numpy as np
import pytest

from bench.secure_sketching.coverage import release_of_law
from dpmpc import RidgeRegression
from dpmpc.app.cli.main import main
from dpmpc.base.errors import UNIDENTIFIED, UtilityWarning
from dpmpc.data import Codebook, Schema
from dpmpc.data.variables import Variable
from dpmpc.models.regression.usefulness import too_few, why_not_useful, wide_bounds
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning import design
from dpmpc.release.planning.advice import ReleaseAdvice
from dpmpc.release.planning.prediction import Regression

pytestmark = pytest.mark.filterwarnings("always::dpmpc.base.errors.UtilityWarning")


def released(clients=20_000, epsilon=1.0):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (clients, 2))
    data = np.column_stack([X, 0.5 * X[:, 0] + rng.uniform(-0.3, 0.3, clients)])
    spec = ReleaseSpec.of(Schema.unit(["a", "b", "y"]), clients, epsilon, 1e-6, sketch="sum", simulation_seed=0)
    return release_of_law(design(spec), data, rng)


def test_a_good_fit_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RidgeRegression().fit_release(released(), "y")


def test_a_hopeless_fit_and_a_raised_penalty_are_said_with_number_and_remedy():
    with pytest.warns(UtilityWarning) as caught:
        model = RidgeRegression().fit_release(released(200, 0.01), "y")
    (said,) = [str(each.message) for each in caught]  # once: all of it is the same noise
    assert [said] == model.why_not_useful()
    assert said.startswith(
        f"{UNIDENTIFIED} In numbers: the noise raised the penalty from 1 to {model.alpha_:.3g}, which"
    )
    assert "; 200 people given: a release like this is expected to beat predicting the mean from " in said
    assert said.count("tighter public bounds") == 1


def test_a_raised_penalty_alone_has_the_remedy():
    (said,) = why_not_useful(released(), None, requested=0.0, used=92.4)
    assert said.startswith(
        "the noise raised the penalty from 0 to 92.4, which shrinks the coefficients; more clients, "
    )


def test_the_break_even_is_that_of_the_plan():
    few, many = released(200, 0.1), released(20_000, 0.1)
    (said,) = too_few(few)
    assert f"from {ReleaseAdvice(few.task, Regression()).useful_from:,} people on" in said
    assert not too_few(many)


def test_a_large_epsilon_is_said():
    with pytest.warns(UtilityWarning, match=r"epsilon = 50 given: .* at most 10, and better 1, is usual"):
        RidgeRegression().fit_release(released(epsilon=50.0), "y")


def test_read_prints_each_once_in_a_line(tmp_path, capsys):
    released(200, 0.01).save(tmp_path / "release")
    assert main(["read", str(tmp_path / "release"), "--target", "y"]) == 0
    told = capsys.readouterr().err.splitlines()
    (line,) = told
    assert line.startswith(f"dpmpc read: {UNIDENTIFIED} In numbers: the noise raised the penalty from 1 to ")
    assert "; 200 people given: " in line


def test_fit_prints_each_in_a_line(tmp_path, capsys):
    rows = np.random.default_rng(1).uniform(-1, 1, (400, 2)).round(3)
    (tmp_path / "data.csv").write_text("a,y\n" + "".join(f"{a},{y}\n" for a, y in rows))
    assert main(["fit", str(tmp_path / "data.csv"), "--target", "y", "--epsilon", "20", "--delta", "1e-6"]) == 0
    told = capsys.readouterr().err.splitlines()
    assert any(line.startswith("dpmpc: warning: epsilon = 20 given") for line in told)
    assert not any("ridge.py" in line for line in told)


def test_bounds_that_clip_and_one_pair_for_all_are_said():
    rng = np.random.default_rng(2)
    X, y = rng.uniform(-1, 1, (2_000, 2)) * [1, 0.5], rng.uniform(-0.5, 0.5, 2_000)
    with pytest.warns(UtilityWarning) as caught:
        RidgeRegression(bounds=(-0.8, 0.8), simulation_seed=0).fit(X, y)
    said = [str(each.message) for each in caught]
    assert "bounds: one pair (-0.8, 0.8) for 3 columns" in said[0]
    assert said[1].startswith("bounds of 'x0' clip more than 5% of its cells")
    assert f"{np.mean(np.abs(X[:, 0]) > 0.8):.1%}" not in said[1]
    assert not any("'x1'" in text or "'y'" in text for text in said)


def yes_or_no(clients=5000, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (clients, 2))
    return X, (rng.random(clients) < 0.5 + 0.3 * X[:, 0]).astype(float)


@pytest.mark.parametrize("rounds", [1, 2])
@pytest.mark.parametrize("top", [1.0, 2.0])
def test_a_target_of_zeros_and_ones_is_a_linear_probability_model(rounds, top):
    """Once, whether the release shows it or only the rows: bounds of 0 and 2 hide it from the release."""
    X, y = yes_or_no()
    bounds = {"x0": (-1, 1), "x1": (-1, 1), "y": (0, top)}
    with pytest.warns(UtilityWarning) as caught:
        model = RidgeRegression(bounds=bounds, simulation_seed=2, rounds=rounds).fit(X, y)
    said = [str(each.message) for each in caught if "linear probability model" in str(each.message)]
    assert len(said) == 1
    assert said[0].startswith("the target 'y' is 0 or 1")
    assert any("linear probability" in text for text in model.why_not_useful()) == (top == 1.0)


def test_other_targets_are_no_probabilities():
    X, y = yes_or_no()
    halves = np.where(y == 1, 0.75, 0.25) + np.linspace(-0.2, 0.2, len(y))
    for target in (halves, 3 * y):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            bounds = {"x0": (-1, 1), "x1": (-1, 1), "y": (0, float(np.ceil(target.max())))}
            RidgeRegression(bounds=bounds, simulation_seed=2).fit(X, target)


def test_a_target_that_was_filled_is_told():
    """Crp has nothing to do with age, and who lacks it seems to explain it: the release shows that this may be so."""
    book = Codebook((Variable("age", 0, 100), Variable("crp", 0, 200, if_missing="indicator")))
    rng, count = np.random.default_rng(0), 20_000
    lacks = rng.random(count) < 0.2
    crp = np.where(lacks, 100.0, rng.uniform(0, 20, count))
    data = np.column_stack([rng.uniform(0, 100, count), crp, lacks])
    spec = ReleaseSpec.of(Schema.of_codebook(book), count, 1.0, 1e-6, simulation_seed=0)
    release = release_of_law(design(spec), data, rng)
    with pytest.warns(UtilityWarning, match=r"rows that lack 'crp' were given a value \(if_missing in the bounds\)"):
        model = RidgeRegression().fit_release(release, "crp")
    assert model.inference().r_squared > 0.7  # of nothing but who lacks it
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "rows that lack")
        RidgeRegression().fit_release(release, "crp=missing", features=["age"])


def test_features_that_come_from_the_target_are_told():
    """One ward is known by not being another, and age times sex tells age: R^2 is high whatever the data."""
    variables = (
        Variable("age", 0, 100),
        Variable("ward", values=("A", "B", "C")),
        Variable("sex", yes=("f",), no=("m",)),
    )
    book = Codebook(variables, products=(("age", "sex"),))
    rng, count = np.random.default_rng(0), 20_000
    age, sex, ward = rng.uniform(0, 100, count), rng.integers(0, 2, count), np.eye(3)[rng.integers(0, 3, count), 1:]
    spec = ReleaseSpec.of(Schema.of_codebook(book), count, 2.0, 1e-6, simulation_seed=0)
    release = release_of_law(design(spec), np.column_stack([age, ward, sex, age * sex]), rng)
    for target, features, told in (
        ("ward=B", ["ward=C", "age"], "ward=C: coded from ward as the target 'ward=B' is"),
        ("age", None, r"age\*sex: coded from age as the target 'age' is"),
    ):
        with pytest.warns(UtilityWarning, match=told):
            model = RidgeRegression().fit_release(release, target, features=features)
        assert model.inference().r_squared > 0.2
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*coded from")
        RidgeRegression().fit_release(release, "sex", features=["age", "ward=B", "ward=C"])


@pytest.mark.parametrize("clients", [2000, 60_000])
def test_columns_that_use_little_of_their_bounds_are_named(clients):
    """Where noise does not hide that; a rare 0/1 column is at its ends, and a target counts by itself."""
    rng = np.random.default_rng(1)
    tight = np.clip(0.2 + 0.05 * rng.standard_normal(clients), -1, 1)
    rare = np.where(rng.random(clients) < 0.002, 1.0, -1.0)
    rows = np.column_stack([tight, rare, rng.uniform(-1, 1, clients), 0.04 * rng.standard_normal(clients)])
    names = ["tight", "rare", "full", "y"]
    spec = ReleaseSpec.of(Schema.unit(names), clients, 1.0, 1e-6, sketch="sum", simulation_seed=0)
    release = release_of_law(design(spec), rows, rng)
    said = wide_bounds(release, "y")
    assert [text.split(":")[0] for text in said] == (["tight"] if clients > 2000 else [])
    if said:
        assert 0.05 < float(said[0].split("at most ")[1].split()[0]) < 0.125
        assert said[0] in RidgeRegression().fit_release(release, "y").result().notes
