"""The worked examples of CONTRIBUTING are short, plug in by name, and keep what they promise.

Statistical tests have a fixed seed; `ALPHA` is the probability of a false alarm of each.
"""

import contextlib
import math
import sys

import msgspec
import numpy as np
import pytest
import scipy.stats
from sklearn.base import clone
from sklearn.linear_model import ElasticNet
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.estimator_checks import estimator_checks_generator

from bench.audit import audit
from bench.audit.registry import CLIENTS, CORNERS, NAMES, ROWS
from bench.audit.sums import Sums
from dpmpc import RidgeRegression
from dpmpc.base.errors import GuaranteeError, InputError
from dpmpc.base.randomness import Stream
from dpmpc.data import Schema
from dpmpc.linear.noise import FAMILIES, noise_from
from dpmpc.models.common.private_estimator import PrivateLinearModel
from dpmpc.models.fitted import class_of
from dpmpc.privacy.accountants import released_sd
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.privacy.task import Task
from dpmpc.release.planning import design
from support import plugins
from support.pages import ROOT, load
from support.rejections import rejects

ALPHA = 1e-6
RELEASES = 5000
DILUTED = "diluted-laplace"
NO_NOISE = {"epsilon": 1e5, "delta": 1e-3, "simulation_seed": 0}


@pytest.mark.parametrize(
    ("program", "lines"),
    [("block_sketch", 69), ("private_variance", 69), ("diluted_laplace", 69), ("elastic_net", 85)],
)
def test_examples_are_short(program, lines):
    """The last one is a model of the command too."""
    assert len((ROOT / "examples" / f"{program}.py").read_text().splitlines()) <= lines


def test_the_sketch_of_the_example_is_what_its_entries_say():
    """Blocks that do not divide the clients, chunks that cross them, both rings, real numbers."""
    sketch = load(ROOT / "examples" / "block_sketch.py").BlockSketch(rows=12, columns=1003, blocks=3, seed=4)
    dense = sketch.to_csc().toarray()
    assert sketch.occupancy().sum() == 1003
    rng = np.random.default_rng(0)
    words = rng.integers(0, 2**61 - 1, (1003, 2), dtype=np.uint64)
    exact = dense.astype(object) @ words.astype(object)
    for ring, modulus in (("ring64", 2**64), ("mersenne61", 2**61 - 1)):
        sums = sketch.apply(words[:500], ring=ring)
        sketch.apply(words[500:], ring=ring, first=500, out=sums)
        assert (sums == (exact % modulus).astype(np.uint64)).all()
    reals = rng.standard_normal((1003, 2))
    assert sketch @ reals == pytest.approx(dense @ reals)
    assert type(sketch).from_facts(sketch.describe()) == sketch


# A noise


@pytest.fixture
def diluted(examples_installed):
    """The noise of the example, which a distribution brings until the test ends."""
    with plugins.available(examples_installed):
        yield sys.modules[FAMILIES[DILUTED].__module__]


def small_task(**choices):
    """Return a task of the audit's size."""
    wanted = {"epsilon": 1.0, "delta": 0.01, "sketch": "osnap", "rows": ROWS, "sparsity": 2, **choices}
    return design(ReleaseSpec.of(Schema.unit(NAMES), CLIENTS, noise=DILUTED, simulation_seed=3, **wanted))


class Bare(Sums):
    """The adversary looks for entries that nobody's noise hides."""

    def scores(self, observed, shift, direction):
        """One for a release in which an entry is exactly what an exchanged row would leave."""
        return ((observed == shift) & (shift != 0)).any(axis=1).astype(float)


@pytest.mark.parametrize("attack", [Sums, Bare])
def test_what_the_noise_claims_is_not_refuted(diluted, attack):
    found = audit(DILUTED, attack(small_task(), CORNERS), RELEASES, ALPHA, Stream.from_seed(5))
    assert found.refuted == ()


@pytest.mark.statistical
def test_half_of_the_noise_is_caught(diluted):
    """Half of those who should add noise do: an entry lacks any in a third of the releases, not in 1 %."""
    mechanism = Bare(small_task(), CORNERS)
    mechanism._task.noise._threshold //= 2
    (refuted,) = audit(DILUTED, mechanism, RELEASES, ALPHA, Stream.from_seed(5)).refuted
    assert refuted.startswith("epsilon of")


@pytest.mark.parametrize("choices", [{}, {"noise_by": "servers"}, {"corrupt_clients": 2}, {"sketch": "sum"}])
def test_a_task_names_the_noise_and_refuses_less(diluted, choices):
    wanted = {"rows": None, "sparsity": None} if "sketch" in choices else {}
    task = small_task(**wanted, **choices)
    assert Task.from_dict(task.to_dict()).verify().noise == task.noise
    assert task.guarantee.achieved_epsilon == pytest.approx(1.0, rel=1e-3)
    for name, less in (("scale", 0.99), ("chance", 0.999)):
        weaker = noise_from({**task.noise.describe(), name: getattr(task.noise, name) * less})
        with rejects("epsilon", GuaranteeError):
            msgspec.structs.replace(task, noise=weaker).verify()


def test_the_noise_is_rounded_up_and_checked(diluted):
    facts = {"name": DILUTED, **FAMILIES[DILUTED](2.0, 0.25).plugin()}
    noise = noise_from({**facts, "scale": 3.0001, "chance": 0.1})
    assert 0.1 < noise.chance < 0.1 + 2**-32
    assert noise.scale == math.ceil(3.0001 * 1024) / 1024
    assert noise_from(noise.describe()) == noise
    for chance in (0, 1.5, math.nan, "all"):
        with rejects("chance"):
            noise_from({**facts, "scale": 3, "chance": chance})
    with rejects("calibration", given="'paper'"):
        small_task(calibration="paper")


@pytest.mark.statistical
def test_draws_have_the_distribution_that_is_named(diluted):
    noise, count = diluted.DilutedLaplace(2.0, 0.25), 60_000
    drawn = noise.sample(count, Stream.from_seed(1))
    q = math.exp(-1 / 2.0)
    masses = 0.25 * (1 - q) / (1 + q) * q ** np.abs(np.arange(-9, 10))
    masses[9] += 0.75
    seen = np.array([(drawn == value).sum() for value in range(-9, 10)])
    rest = count - seen.sum(), count * (1 - masses.sum())
    assert scipy.stats.chisquare([*seen, rest[0]], [*masses * count, rest[1]]).pvalue > ALPHA
    assert noise.variance == pytest.approx(np.var(drawn), rel=0.1)
    assert (noise.sample(count, Stream.from_seed(1), threads=2) == drawn).all()


def test_the_planned_noise_is_that_of_a_task(diluted):
    task = design(
        ReleaseSpec.of(
            Schema.unit(NAMES), 20_000, 1.0, 1e-6, noise=DILUTED, sketch="countsketch", rows=40, simulation_seed=1
        )
    )
    planned = released_sd(DILUTED, l1=4.0, l2=2 * math.sqrt(2), sparsity=1, epsilon=1.0, delta=1e-6)
    assert math.sqrt(task.noise_variance.mean()) == pytest.approx(planned, rel=0.05)


# An estimator


@pytest.fixture
def net(examples_installed):
    """The estimator of the example; scikit-learn pickles it, so it has to be found by its name."""
    with plugins.available(examples_installed):
        yield class_of("elastic-net")


@pytest.fixture
def people():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (900, 4))
    return X, 0.1 + X @ [0.4, 0.0, -0.2, 0.0] + 0.05 * rng.standard_normal(900)


@pytest.mark.parametrize("l1_ratio", [1.0, 0.3])
def test_without_noise_the_fit_is_that_of_the_rows(net, people, l1_ratio):
    X, y = people
    fitted = net(0.02, l1_ratio, **NO_NOISE).fit(X, y)
    plain = ElasticNet(alpha=0.02, l1_ratio=l1_ratio).fit(X, y)
    assert fitted.coef_ == pytest.approx(plain.coef_, abs=1e-3)
    assert fitted.intercept_ == pytest.approx(plain.intercept_, abs=1e-3)
    assert (fitted.coef_[[1, 3]] == 0).all()


def test_units_are_those_of_the_columns(net, people):
    X, y = people
    scaled = net(0.02, bounds={"x0": (0, 100), **dict.fromkeys(("x1", "x2", "x3"), (-1, 1)), "y": (-3, 3)}, **NO_NOISE)
    scaled.fit(np.column_stack([50 * (X[:, 0] + 1), X[:, 1:]]), 3 * y)
    plain = net(0.02, **NO_NOISE).fit(X, y)
    assert scaled.coef_ * [50, 1, 1, 1] == pytest.approx(3 * plain.coef_, abs=1e-3)
    assert scaled.intercept_ + 50 * scaled.coef_[0] == pytest.approx(3 * plain.intercept_, abs=1e-3)


def test_a_matrix_that_noise_has_made_indefinite_is_fitted(net, people):
    X, y = people
    release = RidgeRegression(epsilon=0.05, delta=1e-6, sketch="sum", simulation_seed=2).fit(X, y).release_
    assert np.linalg.eigvalsh(release.gram().matrix)[0] < 0
    assert np.isfinite(net(0.01).fit_release(release).coef_).all()


def test_it_is_a_linear_model_of_any_column_of_a_release(net, people):
    X, y = people
    release = RidgeRegression(sketch="sum", **NO_NOISE).fit(X, y).release_
    fitted = net(1e-4).fit_release(release, target="x0")
    assert isinstance(fitted, PrivateLinearModel)
    assert fitted.feature_names_in_.tolist() == ["x1", "x2", "x3", "y"]
    assert fitted.coef_ == pytest.approx(ElasticNet(1e-4, l1_ratio=1).fit(np.c_[X[:, 1:], y], X[:, 0]).coef_, abs=1e-2)
    with rejects("target", given="'z'"):
        net().fit_release(release, target="z")


def test_it_works_in_a_pipeline(net, people):
    X, y = people
    pipeline = make_pipeline(PolynomialFeatures(2, include_bias=False), net(1e-4, **NO_NOISE)).fit(X, y)
    assert pipeline.score(X, y) > 0.9
    assert clone(pipeline).fit(X, y)[-1].coef_ == pytest.approx(pipeline[-1].coef_)


def test_scikit_learn_checks_it(net):
    """All but the one check whose reason tests/models/test_sklearn_checks.py has."""
    for estimator, check in estimator_checks_generator(net(1e-6, bounds=(-10, 10), servers=2, **NO_NOISE)):
        refused = check.func.__name__ == "check_dtype_object"
        with pytest.raises(InputError) if refused else contextlib.nullcontext():
            check(estimator)
