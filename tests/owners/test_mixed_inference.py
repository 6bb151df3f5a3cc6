"""Standard errors of regressions read from mixed files: their coverage, what they amount to without noise, where there
are none. `python -m bench rounds_coverage` has a thousand runs of more releases.
"""

import math

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from dpmpc.data import Table
from dpmpc.models.common.summary import UNIDENTIFIED
from dpmpc.owners.columns import BGM, DGM, RMGM
from dpmpc.owners.columns.mixed_release import MixedRelease
from support.rejections import rejects

WEIGHTS = np.array([0.4, -0.25])
SIMULATIONS = 300
# Of 300 exact 95 % intervals fewer than 267 cover with probability 1e-5, more than 297 with probability 3e-5.
LEAST, MOST = 267, 297


def people(subjects, seed, *, uneven=False):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (subjects, 2))
    spread = 1.5 * np.abs(X[:, 0]) if uneven else 1.0
    y = X @ WEIGHTS + 0.2 * spread * rng.uniform(-1, 1, subjects)
    return [X[:, :1], X[:, 1:], y[:, None]]


def covers(intervals, truth):
    return (intervals[:, 0] <= truth) & (truth <= intervals[:, 1])


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("model", "subjects", "uneven"),
    [
        (RMGM(rows=40, epsilon=4.0), 10_000, False),
        (RMGM(rows=40, epsilon=500.0), 10_000, True),
        (DGM(epsilon=8.0), 10_000, False),
        (DGM(epsilon=2_000.0), 1_000, True),
    ],
    ids=["mixed rows", "mixed rows, little noise", "noisy rows", "noisy rows, little noise"],
)
def test_coverage_is_nominal(model, subjects, uneven):
    """New people, signs and noise in each run; an exact interval leaves the bounds on a count with probability 4e-5."""
    counts = np.zeros(2)
    for seed in range(SIMULATIONS):
        found = model.set_params(simulation_seed=seed).fit(people(subjects, seed, uneven=uneven)).inference()
        assert found.informative
        counts += covers(found.confidence_intervals, WEIGHTS)
    assert LEAST <= counts.min() <= counts.max() <= MOST


def test_without_noise_worth_mentioning_errors_are_those_of_least_squares():
    """A row for each person: White's (HC0). Mixed rows: least squares on them, and the sampling of the people."""
    parts = people(4_000, 0, uneven=True)
    X, y = np.hstack(parts[:2]), parts[2][:, 0]
    inverse = np.linalg.inv(X.T @ X)
    theta = inverse @ X.T @ y
    scores = X * (y - X @ theta)[:, None]
    found = DGM(epsilon=1e5, simulation_seed=1).fit(parts).inference()
    assert found.standard_errors == pytest.approx(np.sqrt(np.diag(inverse @ scores.T @ scores @ inverse)), rel=0.01)
    assert found.coef == pytest.approx(theta, abs=found.standard_errors.min() / 10)
    fitted = RMGM(rows=50, epsilon=1e5, simulation_seed=1).fit(parts)
    rows = fitted.release_.rows
    U, v = rows[:, :2], rows[:, 2]
    inverse = np.linalg.inv(U.T @ U)
    theta = inverse @ U.T @ v
    spread = np.sum((v - U @ theta) ** 2) / 48
    variance = (spread + (1 - 1 / 50) * spread * 50 / 4_000) * np.diag(inverse)
    found = fitted.inference()
    assert found.degrees == 48
    assert found.coef == pytest.approx(theta, rel=1e-3)
    assert found.standard_errors == pytest.approx(np.sqrt(variance), rel=0.01)


def test_the_explained_share_is_that_of_the_mean_square():
    parts = people(20_000, 0)
    X, y = np.hstack(parts[:2]), parts[2][:, 0]
    theta = np.linalg.lstsq(X, y, rcond=None)[0]
    summary = DGM(epsilon=1e4, simulation_seed=1).fit(parts).summary()
    explained = 1 - np.sum((y - X @ theta) ** 2) / np.sum(y**2)
    assert summary.inference.r_squared == pytest.approx(explained, abs=0.005)
    assert summary.tests["all features"].degrees == (2, 19_998)


def test_every_reader_of_a_file_finds_the_same(tmp_path):
    fitted = DGM(epsilon=8.0, simulation_seed=3).fit(people(10_000, 3))
    fitted.release_.save(tmp_path / "mixed")
    again = BGM(ridge=0.5).fit_release(MixedRelease.load(tmp_path / "mixed"))
    first, second = fitted.inference(0.9), again.inference(0.9)
    assert np.array_equal(first.confidence_intervals, second.confidence_intervals)
    assert first.level == 0.9
    assert not np.allclose(again.coef_, second.coef)  # that fit is shrunk
    wider = fitted.inference(0.99).confidence_intervals
    assert (wider[:, 0] < first.confidence_intervals[:, 0]).all()
    assert (wider[:, 1] > first.confidence_intervals[:, 1]).all()


def test_intervals_are_in_the_units_of_the_columns():
    parts = people(10_000, 4)
    plain = RMGM(rows=40, epsilon=20.0, simulation_seed=5).fit(parts).inference()
    bounds = {"a": (0, 100), "b": (-2, 2), "c": (10, 30)}
    ends = zip(bounds.items(), parts, strict=True)
    scaled = [Table((name,), (low + high) / 2 + part * (high - low) / 2) for (name, (low, high)), part in ends]
    found = RMGM(rows=40, epsilon=20.0, simulation_seed=5, bounds=bounds).fit(scaled).inference()
    factors = np.array([10 / 50, 10 / 2])
    assert found.feature_names == ("a", "b")
    assert found.coef == pytest.approx(plain.coef * factors, rel=1e-3)
    assert found.standard_errors == pytest.approx(plain.standard_errors * factors, rel=1e-3)
    # At a = 50, b = 0 the middle of the target's bounds, 20, is predicted.
    assert found.intercept == pytest.approx(20 - 50 * found.coef[0], rel=1e-6)
    assert found.intercept_standard_error == pytest.approx(50 * found.standard_errors[0], rel=1e-6)
    assert plain.intercept == plain.intercept_standard_error == 0


@pytest.mark.parametrize("model", [RMGM(rows=40, epsilon=0.1), DGM(epsilon=0.1), RMGM(rows=2, epsilon=1e4)])
def test_there_are_none_where_noise_hides_the_hessian_or_rows_are_too_few(model):
    summary = model.set_params(simulation_seed=1).fit(people(2_000, 1)).summary()
    assert not summary.informative
    assert UNIDENTIFIED in str(summary)
    assert np.isinf(summary.inference.standard_errors).all()
    assert math.isnan(summary.inference.coef[0])
    assert summary.tests == {}


def test_only_fits_have_errors_and_only_of_a_level():
    with pytest.raises(NotFittedError):
        RMGM().inference()
    fitted = DGM(epsilon=8.0, simulation_seed=1).fit(people(1_000, 1))
    with rejects("level", given="1"):
        fitted.inference(1)
