"""Regressions by group from one release: exact without noise, calibrated with it, and silent where nothing is known.

Statistical tests have fixed seeds. Over all their releases a mean squared z score is beyond the chi-squared bounds, and
a share of covered intervals beyond the binomial ones, with probability 1e-6 each.
"""

import math
import warnings

import msgspec
import numpy as np
import pandas as pd
import pytest
import scipy.stats

from bench.secure_sketching.coverage import release_of_law
from dpmpc import GroupedRidgeRegression, RidgeRegression
from dpmpc.base.errors import UNIDENTIFIED, UtilityWarning
from dpmpc.data import Codebook, Schema
from dpmpc.data.codebook import Weight
from dpmpc.data.variables import Variable
from dpmpc.models.common.release_parts import Blocks, group_variable
from dpmpc.models.groups.fixed_effects import fixed_effects
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning import design
from dpmpc.release.planning.advice import groups_outlook
from dpmpc.release.release import Release
from support.rejections import rejects

RUNS = 300
WARDS = ("north", "south", "east")
CLIENTS = 6000
VARIABLES = (Variable("x", 0, 10), Variable("ward", values=WARDS), Variable("z", -5, 5), Variable("y", -40, 80))
SLOPES = {"north": (3.0, -2.0), "south": (1.0, -2.0), "east": (2.0, -2.0)}


def data(rng, shares=(0.5, 0.3, 0.2), *, slopes=SLOPES, clients=CLIENTS):
    """Return rows (x, south, east, z, y) and the groups: y = 10 + 5 group + slopes . (x, z) + noise."""
    ward = rng.choice(3, clients, p=shares)
    x, z = rng.uniform(0, 10, clients), rng.uniform(-5, 5, clients)
    ends = np.array([slopes[name] for name in WARDS])[ward]
    y = 10 + 5 * ward + ends[:, 0] * x + ends[:, 1] * z + rng.uniform(-5, 5, clients)
    return np.column_stack([x, ward == 1, ward == 2, z, y]), ward


def public(**choices):
    return Schema.of_codebook(Codebook(VARIABLES, **choices))


def task(epsilon=1.0, clients=CLIENTS, schema=None, **choices):
    spec = ReleaseSpec.of(schema or public(), clients, epsilon, 1e-6, by="ward", simulation_seed=0, **choices)
    return design(spec)


def least_squares(rows, target):
    return np.linalg.lstsq(rows, target, rcond=None)[0]


@pytest.fixture(scope="module")
def clear():
    """A release with next to no noise, and the data behind it."""
    rows, ward = data(np.random.default_rng(0))
    return release_of_law(task(1e5), rows, np.random.default_rng(1)), rows, ward


@pytest.fixture(scope="module")
def noisy():
    rows, _ = data(np.random.default_rng(0), shares=(0.6, 0.39, 0.01))
    return release_of_law(task(), rows, np.random.default_rng(1))


@pytest.mark.filterwarnings("ignore:epsilon = 100000")
def test_without_noise_everything_is_least_squares(clear):
    release, rows, ward = clear
    model = GroupedRidgeRegression(alpha=0).fit_release(release, "y")
    assert model.groups_ == WARDS
    assert (model.target_, model.feature_names_, model.by_) == ("y", ("x", "z"), "ward")
    X, y = np.column_stack([np.ones(CLIENTS), rows[:, [0, 3]]]), rows[:, 4]
    for place in range(3):
        exact = least_squares(X[ward == place], y[ward == place])
        found = [model.intercept_[place], *model.coef_[place]]
        assert found == pytest.approx(exact, abs=2e-3)
        assert model.sizes_[place] == pytest.approx(np.sum(ward == place), abs=0.1)
    pooled = [model.pooled_.intercept_, *model.pooled_.coef_]
    assert pooled == pytest.approx(least_squares(X, y), abs=2e-3)
    exact = least_squares(np.column_stack([np.eye(3)[ward], rows[:, [0, 3]]]), y)
    fixed = model.fixed_effects_
    assert fixed.feature_names == ("x", "z", "ward=north", "ward=south", "ward=east")
    assert fixed.coef == pytest.approx([*exact[3:], *exact[:3]], abs=2e-3)


@pytest.mark.filterwarnings("ignore:epsilon = 100000")
def test_standard_errors_without_noise_are_those_of_textbooks(clear):
    release, rows, ward = clear
    X = np.column_stack([rows[:, [0, 3]], np.eye(3)[ward]])
    residual = rows[:, 4] - X @ least_squares(X, rows[:, 4])
    variance = residual @ residual / (CLIENTS - 5)
    exact = np.sqrt(variance * np.diag(np.linalg.inv(X.T @ X)))
    assert fixed_effects(release, "y").standard_errors == pytest.approx(exact, rel=1e-2)
    south = RidgeRegression().fit_release(release, "y", group="south").inference()
    X = np.column_stack([np.ones(CLIENTS), rows[:, [0, 3]]])[ward == 1]
    residual = rows[ward == 1, 4] - X @ least_squares(X, rows[ward == 1, 4])
    exact = np.sqrt(residual @ residual / (len(X) - 3) * np.diag(np.linalg.inv(X.T @ X)))
    assert [south.intercept_standard_error, *south.standard_errors] == pytest.approx(exact, rel=1e-2)


@pytest.mark.statistical
@pytest.mark.parametrize("runs", [RUNS // 4, pytest.param(RUNS, marks=pytest.mark.long("300 releases, not 75"))])
def test_the_claimed_errors_are_those_of_the_noise(runs):
    """Same rows, fresh noise: a group's, and everybody's, estimates spread as is said about the rows themselves."""
    low, high = scipy.stats.chi2.ppf([1e-6, 1 - 1e-6], runs) / runs
    rows, ward = data(np.random.default_rng(0))
    here, rng = task(), np.random.default_rng(1)
    X = np.column_stack([np.ones(CLIENTS), rows[:, [0, 3]]])
    truth = {"all": least_squares(X, rows[:, 4])[1]}
    truth |= {name: least_squares(X[ward == g], rows[ward == g, 4])[1] for g, name in enumerate(WARDS)}
    scores = {name: [] for name in (*truth, "people")}
    for _ in range(runs):
        release = release_of_law(here, rows, rng)
        for name, exact in truth.items():
            group = None if name == "all" else name
            model = RidgeRegression().fit_release(release, "y", group=group)
            found = model.inference(target="sample")
            scores[name].append((found.coef[0] - exact) / found.standard_errors[0])
        sizes, error = Blocks(release).sizes()
        scores["people"].append((sizes[2] - np.sum(ward == 2)) / error)
    for name, found in scores.items():
        assert low * 0.97 < np.mean(np.square(found)) < high * 1.05, name


@pytest.mark.statistical
@pytest.mark.parametrize("runs", [RUNS // 2, pytest.param(RUNS, marks=pytest.mark.long("300 releases, not 150"))])
def test_intervals_cover_the_population(runs):
    """Fresh people and fresh noise: by group, pooled slopes of z, and fixed effects where slopes are in common."""
    rng, here, covered = np.random.default_rng(2), task(), []
    common = dict.fromkeys(WARDS, (2.0, -2.0))
    for _ in range(runs):
        release = release_of_law(here, data(rng, slopes=common)[0], rng)
        fixed = fixed_effects(release, "y")
        east = RidgeRegression().fit_release(release, "y", group="east").inference()
        ends = np.vstack([fixed.confidence_intervals, east.confidence_intervals, east.intercept_confidence_interval])
        truth = [2.0, -2.0, 10.0, 15.0, 20.0, 2.0, -2.0, 20.0]
        covered.append((ends[:, 0] <= truth) & (ends[:, 1] >= truth))
    least, most = scipy.stats.binom.ppf([1e-6, 1 - 1e-6], runs, 0.95) / runs
    for share in np.mean(covered, axis=0):
        assert least <= share <= most


@pytest.mark.statistical
def test_empty_groups_are_never_taken_for_people():
    """A group without anybody, five hundred times."""
    values = tuple(f"g{number}" for number in range(50))
    book = Codebook((Variable("x", 0, 1), Variable("y", 0, 1), Variable("g", values=values)))
    here = design(ReleaseSpec.of(Schema.of_codebook(book), 1000, 1.0, 1e-6, by="g", simulation_seed=0))
    rng = np.random.default_rng(3)
    deviation = math.sqrt(here.noise.variance * 1000)
    for _ in range(10):
        sums = np.rint(deviation * rng.standard_normal((1, here.width))).astype(np.int64)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UtilityWarning)
            model = GroupedRidgeRegression().fit_release(Release(here, sums), "y")
        assert not model.models_
        assert np.isnan(model.coef_).all()
        assert model.fixed_effects_ is None
        told = str(model.summary())
        assert UNIDENTIFIED in told or "(all: pooled)" in told
        assert "\ng7 " in told
        assert "g7: no regression, too few people: " in told


def test_a_small_group_says_so_and_shows_no_number(noisy):
    with pytest.warns(UtilityWarning, match="ward = east: no regression, too few people: [0-9]+ found, standard error"):
        model = GroupedRidgeRegression().fit_release(noisy, "y")
    assert list(model.models_) == ["north", "south"]
    assert list(model.left_out_) == ["east"]
    assert np.isnan(model.coef_[2]).all()
    assert np.isnan(model.intercept_[2])
    summary = model.summary()
    assert list(summary.coefficients) == ["x", "z", "intercept"]
    names = [*WARDS[:2], "(all: pooled)", "(all: fixed effects)"]
    assert list(summary.coefficients["x"].names) == names
    assert model.fixed_effects_.feature_names[2:] == ("ward=north", "ward=south")
    assert "about" in model.left_out_["east"]
    needed = int(model.left_out_["east"].split("about ")[1].split(" ")[0].replace(",", ""))
    assert groups_outlook(noisy.task).smallest == needed
    plain = summary.to_dict()
    assert plain["people"]["east"]["R^2"] is None
    assert "east" not in plain["coefficients"]["x"]
    assert plain["differences"]["x"]["degrees"] == 1
    assert summary._repr_html_().count("<table>") == 4


def test_a_large_group_whose_feature_does_not_vary_is_not_told_to_be_small():
    """Two thousand people, of whom all have the same answer: the message must not ask for 259."""
    rng, count = np.random.default_rng(0), 20_000
    ward = rng.choice(2, count, p=[0.9, 0.1])
    x, answer = rng.uniform(0, 1, count), np.where(ward == 1, 1, rng.integers(0, 2, count))
    book = Codebook(
        (
            Variable("x", 0, 1),
            Variable("answer", yes=("yes",), no=("no",)),
            Variable("ward", values=WARDS[:2]),
            Variable("y", 0, 1),
        )
    )
    here = task(clients=count, schema=Schema.of_codebook(book))
    rows = np.column_stack([x, answer, ward, 0.5 * x + 0.2 * answer])
    with pytest.warns(UtilityWarning, match="south: no regression, its features vary too little: 1,9[0-9]+ found"):
        model = GroupedRidgeRegression().fit_release(release_of_law(here, rows, rng), "y")
    assert "one of them is nearly the same throughout the group" in model.left_out_["south"]
    alone = RidgeRegression().fit_release(model.release_, "y", features=["x"], group="south")
    assert alone.inference().informative


def test_a_feature_called_intercept_is_not_taken_for_the_intercept():
    rng = np.random.default_rng(0)
    book = Codebook((Variable("intercept", 0, 10), VARIABLES[1], VARIABLES[3]))
    here = task(schema=Schema.of_codebook(book))
    rows = data(rng)[0]
    model = GroupedRidgeRegression().fit_release(release_of_law(here, rows[:, [0, 1, 2, 4]], rng), "y")
    tables = model.summary().coefficients
    assert list(tables) == ["intercept", "(intercept)"]
    ends = ["(all: pooled)", "(all: fixed effects)", "(all: random effects)"]
    assert list(tables["intercept"].names) == [*WARDS, *ends]
    assert list(tables["(intercept)"].names)[-3:] == [f"({name}: fixed effects)" for name in WARDS]
    assert tables["intercept"].columns["coefficient"][0] == pytest.approx(3, abs=0.5)
    assert list(model.summary().differences) == ["intercept", "(intercept)"]


def test_differences_between_groups_are_found_where_there_are_any(noisy):
    with pytest.warns(UtilityWarning):
        found = GroupedRidgeRegression().fit_release(noisy, "y").summary().differences
    assert found["x"].p_value < 1e-6
    assert found["z"].p_value > 1e-3


def test_one_group_is_read_from_its_block_alone(clear, noisy):
    """Other groups' noise and people do not matter: the same block beside other sums gives the same regression."""
    other = Release(noisy.task, noisy.sums.copy())
    width = noisy.task.statistic.block_width(5)
    other.sums[0, width : 2 * width] += 10**9
    for group, same in (("north", True), ("south", False)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UtilityWarning)
            one, two = (RidgeRegression().fit_release(r, "y", group=group).coef_ for r in (noisy, other))
        assert np.array_equal(one, two) is same


def test_the_sum_of_blocks_has_their_noise_and_a_public_count(noisy):
    everybody, two = Blocks(noisy), Blocks(noisy, ["south", "north"])
    single = float(noisy.noise_variance[0])
    assert float(everybody.noise_variance[0]) == pytest.approx(3 * single)
    assert float(two.noise_variance[0]) == pytest.approx(2 * single)
    assert (everybody.total, everybody.total_variance, everybody.weighted) == (CLIENTS, 0.0, False)
    assert two.total_variance == pytest.approx(2 * single)
    assert two.total == pytest.approx(two.sizes()[0].sum())
    assert np.allclose(two.gram().matrix[1:, 1:], two.grams.sum(axis=0)[1:, 1:])
    assert everybody.select(("y", "x")).columns == ("y", "x")
    assert everybody.describe().total is None
    assert two.describe().total == pytest.approx(two.total)
    assert RidgeRegression().fit_release(noisy, "y", group="north").alpha_ == 1.0
    auto = RidgeRegression("auto").fit_release(noisy, "y", features=["z"], group="north")
    assert auto.coef_[0] == pytest.approx(-2, abs=0.5)


def test_weights_and_rows_that_lack_a_value():
    rng = np.random.default_rng(0)
    rows, ward = data(rng)
    weights = rng.uniform(0, 4, CLIENTS)
    schema = public(weight=Weight("w", 4), incomplete="zeros")
    release = release_of_law(task(1e5, schema=schema), np.column_stack([rows, weights]), rng)
    with pytest.warns(UtilityWarning, match="epsilon = 100000"):
        model = GroupedRidgeRegression(alpha=0).fit_release(release, "y")
    assert model.sizes_ == pytest.approx([weights[ward == g].sum() / 4 for g in range(3)], abs=0.5)
    root = np.sqrt(weights)
    X = np.column_stack([np.ones(CLIENTS), rows[:, [0, 3]]]) * root[:, None]
    for group in range(3):
        mine = ward == group
        exact = least_squares(X[mine], (rows[:, 4] * root)[mine])
        assert [model.intercept_[group], *model.coef_[group]] == pytest.approx(exact, abs=5e-3)
    assert Blocks(release).weighted
    assert model.pooled_.inference().total == pytest.approx(weights.sum() / 4, abs=1.0)
    assert "in units of the largest, are counted" in str(model.summary())


def test_weights_far_below_their_bound_are_not_called_few_people():
    """Two thousand people of weight 1 where 400 are allowed count as five."""
    rows = np.column_stack([data(np.random.default_rng(0))[0], np.ones(CLIENTS)])
    release = release_of_law(task(schema=public(weight=Weight("w", 400))), rows, np.random.default_rng(1))
    with pytest.warns(UtilityWarning, match="found, weights in units of the largest, standard error"):
        GroupedRidgeRegression().fit_release(release, "y")


def test_fit_makes_one_release_and_predicts_by_group():
    rng = np.random.default_rng(0)
    rows, ward = data(rng, clients=20_000)
    labels = np.array(WARDS, dtype=object)[ward]
    X = pd.DataFrame({"x": rows[:, 0], "z": rows[:, 3]})
    y = pd.Series(rows[:, 4], name="y")
    bounds = {"x": (0, 10), "z": (-5, 5), "y": (-40, 80)}
    model = GroupedRidgeRegression(WARDS, epsilon=2.0, bounds=bounds, by="ward", simulation_seed=0)
    model.fit(X, y, groups=pd.Series(labels))
    assert model.release_.guarantee.epsilon == 2.0
    assert model.release_.task.schema.codebook.variable("ward").values == WARDS
    assert model.release_.columns == ("x", "z", "y")
    assert model.coef_ == pytest.approx(np.array([SLOPES[name] for name in WARDS]), abs=0.3)
    assert model.n_features_in_ == 2
    assert model.feature_names_in_.tolist() == ["x", "z"]
    predicted = model.predict(X.head(50), labels[:50])
    own = [model.models_[label].predict(X.iloc[[row]])[0] for row, label in enumerate(labels[:50])]
    assert predicted == pytest.approx(own)
    assert np.sqrt(np.mean((model.predict(X, labels) - rows[:, 4]) ** 2)) < 3.5
    repeated = GroupedRidgeRegression(WARDS, epsilon=2.0, bounds=bounds, by="ward", simulation_seed=0)
    assert np.array_equal(repeated.fit(X, y, groups=labels).coef_, model.coef_)


def test_predictions_of_groups_without_a_model_are_told(noisy):
    with pytest.warns(UtilityWarning):
        model = GroupedRidgeRegression().fit_release(noisy, "y")
    with pytest.warns(UtilityWarning, match="no model of east: NaN is predicted there"):
        predicted = model.predict(pd.DataFrame({"x": [1.0, 1.0], "z": [0.0, 0.0]}), ["east", "north"])
    assert np.isnan(predicted).tolist() == [True, False]


def test_a_release_keeps_its_groups(tmp_path, noisy):
    noisy.save(tmp_path / "release")
    again = Release.load(tmp_path / "release")
    assert group_variable(again).name == "ward"
    assert np.array_equal(Blocks(again).grams, Blocks(noisy).grams)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda r: RidgeRegression().fit_release(r, "y", group="west"), "group"),
        (lambda r: RidgeRegression().fit_release(r, "ward=south"), "target"),
        (lambda r: Blocks(r, ["north", "north"]), "groups"),
        (lambda r: Blocks(r, []), "groups"),
        (lambda r: r.describe(), "release"),
        (lambda r: r.gram(), "release"),
        (lambda r: fixed_effects(r, "y", features=["x", "x"]), "features"),
        (lambda r: fixed_effects(r, "y", level=1.0), "level"),
    ],
)
def test_what_is_refused_of_a_release(noisy, call, argument):
    with rejects(argument):
        call(noisy)


def test_a_release_without_groups_is_refused():
    book = Codebook((VARIABLES[0], VARIABLES[3]))
    plain = design(ReleaseSpec.of(Schema.of_codebook(book), 50, 1.0, 1e-6, simulation_seed=0))
    release = Release(plain, np.zeros((1, plain.width), np.int64))
    for call in (
        lambda: RidgeRegression().fit_release(release, "y", group="north"),
        lambda: GroupedRidgeRegression().fit_release(release, "y"),
    ):
        with rejects("group"):
            call()


def test_a_file_whose_indicators_are_not_where_it_says_is_refused(noisy):
    moved = type(noisy.task.statistic)(0, 2, noisy.task.statistic.radius)
    wrong = msgspec.structs.replace(noisy.task, statistic=moved)
    with rejects("bounds"):
        Blocks(Release(wrong, noisy.sums))


@pytest.mark.parametrize(
    ("options", "groups", "argument"),
    [
        ({}, None, "groups"),
        ({}, ["a"] * 19, "groups"),
        ({}, ["a"] * 19 + ["c"], "groups"),
        ({"values": ()}, ["a"] * 20, "values"),
        ({"values": "ab"}, ["a"] * 20, "values"),
        ({"values": ("a", "a")}, ["a"] * 20, "column 'group': values"),
        ({"values": tuple("abcdefghij" * 6)}, ["a"] * 20, "column 'group': values"),
        ({"by": "x0"}, ["a"] * 20, "columns"),
        (
            {"values": ("a", "(all: pooled)")},
            ["a"] * 20,
            "by",
        ),
        ({"values": ("a", "(a: fixed effects)")}, ["a"] * 20, "by"),
        ({"alpha": -1.0}, ["a"] * 20, "alpha"),
    ],
)
def test_what_is_refused_of_a_fit(options, groups, argument):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (20, 2)), rng.uniform(-1, 1, 20)
    model = GroupedRidgeRegression(**{"values": ("a", "b"), **options}, simulation_seed=0)
    with rejects(argument):
        model.fit(X, y, groups=groups)


def test_the_outlook_is_borne_out():
    """Expected phi of a group, from public facts, against fits: within a factor of two of what noise costs."""
    rng = np.random.default_rng(5)
    book = Codebook((*(Variable(name, -1, 1) for name in "xy"), Variable("g", values=("a", "b"))))
    here = design(ReleaseSpec.of(Schema.of_codebook(book), 4000, 1.0, 1e-6, by="g", simulation_seed=0))
    found = groups_outlook(here)
    assert list(found.expected) == [2000, 1000, 200]
    assert found.one_hot == pytest.approx(2 * (3 / 4) ** 2)
    excess = []
    for _ in range(200):
        x = rng.normal(0, 0.4, 4000).clip(-1, 1)
        y = (np.sqrt(0.5) * x + np.sqrt(0.5) * rng.normal(0, 0.4, 4000)).clip(-1, 1)
        rows = np.column_stack([x, y, np.arange(4000) % 2])
        model = RidgeRegression(0).fit_release(release_of_law(here, rows, rng), "y", group="a")
        mine = rows[::2]
        excess.append(model.compare(mine[:, :2]).approximation_factor - 1)
    expected = found.expected[2000] - 1
    assert expected / 2 < np.median(excess) * 2.2 < expected * 4  # the mean of chi-squared(1) over its median is 2.2


def test_groups_cost_what_no_groups_cost():
    """The noise of a block is that of the same columns without groups, for two groups and for fifty."""
    deviations = []
    for count in (0, 2, 50):
        values = tuple(f"g{number}" for number in range(count))
        book = Codebook((*VARIABLES[2:], *([Variable("g", values=values)] if count else [])))
        choices = {"by": "g"} if count else {}
        made = design(ReleaseSpec.of(Schema.of_codebook(book), 5000, 1.0, 1e-6, **choices))
        deviations.append(math.sqrt(made.noise_variance[0]))
    assert max(deviations) / min(deviations) == pytest.approx(1, abs=1e-3)


def test_a_pooled_regression_that_is_worth_little_says_so():
    rng = np.random.default_rng(0)
    X, ward = rng.uniform(0, 10, (60, 1)), rng.choice(["north", "south"], 60)
    bounds = {"x0": (0, 10), "y": (-5, 35)}
    with pytest.warns(UtilityWarning) as told:
        model = GroupedRidgeRegression(["north", "south"], bounds=bounds, simulation_seed=0).fit(
            X, X[:, 0], groups=ward
        )
    assert model.models_ == {}
    pooled = [text for text in model.warnings_ if text.startswith("(all: pooled): ")]
    assert [text.count("fewer features") for text in pooled if "expected to beat" in text] == [1]  # told once
    assert any(UNIDENTIFIED in text for text in pooled)
    assert set(pooled) <= {str(one.message) for one in told}
