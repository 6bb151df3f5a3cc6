"""Means, deviations and correlations from a release of second moments: exact without noise, and their errors."""

import math

import numpy as np
import pytest

from bench.secure_sketching.coverage import release_of_law
from dpmpc.data import Schema
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning import design
from support.rejections import rejects

BOUNDS = Schema.unit(["a", "b", "c"])
UNITS = Schema(
    tuple(
        type(BOUNDS.columns[0])(name, lower, upper)
        for name, lower, upper in (("age", 0, 100), ("stay", -5, 45), ("cost", 0, 1))
    )
)


def people(clients, rng):
    common = rng.uniform(-0.5, 0.5, clients)
    columns = [common + rng.uniform(-0.4, 0.4, clients), 0.2 - common, rng.uniform(-0.8, 0.6, clients)]
    return np.column_stack(columns)


def released(data, schema=BOUNDS, epsilon=1.0, seed=0):
    task = design(ReleaseSpec.of(schema, len(data), epsilon, 1e-6, sketch="sum", simulation_seed=seed))
    return release_of_law(task, data, np.random.default_rng(seed))


def test_it_is_the_datas_own_where_noise_is_small():
    rng = np.random.default_rng(1)
    data = UNITS.offset + UNITS.slope * people(40_000, rng)
    found = released(data, UNITS, epsilon=500.0).describe(of="sample")
    np.testing.assert_allclose(found.means, data.mean(axis=0), rtol=2e-4)
    np.testing.assert_allclose(found.deviations, data.std(axis=0), rtol=2e-4)
    np.testing.assert_allclose(found.correlations, np.corrcoef(data.T), atol=2e-4)
    assert found.clients == len(data)


@pytest.mark.statistical
@pytest.mark.parametrize("of", ["population", "sample"])
def test_errors_are_those_of_many_releases(of):
    """400 releases: a true ratio of 1 leaves [0.85, 1.15] with probability below 1e-4 for each figure.

    Correlations and deviations of data that is not normal get 1.25, since their sampling errors assume it.
    """
    rng = np.random.default_rng(2)
    data, found = people(3_000, rng), []
    for seed in range(400):
        if of == "population":
            data = people(3_000, rng)
        found.append(released(data, seed=seed).describe(of=of))
    upper = np.triu_indices(3, 1)
    for values, errors, normal in (
        ([each.means for each in found], [each.mean_errors for each in found], False),
        ([each.deviations for each in found], [each.deviation_errors for each in found], True),
        ([each.correlations[upper] for each in found], [each.correlation_errors[upper] for each in found], True),
    ):
        ratio = np.std(values, axis=0) / np.sqrt(np.mean(np.square(errors), axis=0))
        assert np.all(ratio < 1.15)
        assert np.all(ratio > (0.6 if normal and of == "population" else 0.85))


def test_variances_are_unbiased():
    rng = np.random.default_rng(3)
    data = people(500, rng)
    found = [released(data, epsilon=4.0, seed=seed).describe(of="sample") for seed in range(300)]
    squares = np.array([each.deviations**2 for each in found])
    error = squares.std(axis=0) / math.sqrt(len(found))
    assert np.all(np.abs(squares.mean(axis=0) - data.var(axis=0)) < 4.5 * error)


def test_what_drowns_in_noise_is_not_a_number():
    found = released(people(50, np.random.default_rng(4)), epsilon=0.05).describe()
    assert np.isnan(found.deviations).any()
    assert "does not stand out of the noise" in str(found)


def test_means_outside_of_their_bounds_are_marked():
    """20 rows at epsilon = 1: noise of 73 % of the range. Without noise nothing is marked."""
    data = UNITS.offset + UNITS.slope * people(20, np.random.default_rng(4))
    found = next(each for each in (released(data, UNITS, seed=seed).describe() for seed in range(50)) if each.outside)
    low, high = UNITS.offset - UNITS.slope, UNITS.offset + UNITS.slope
    beyond = (found.means < low) | (found.means > high)
    assert list(found.outside) == [name for name, out in zip(UNITS.names, beyond, strict=True) if out]
    for text in (str(found), found.to_latex(), found._repr_html_()):
        assert "OUTSIDE OF THE PUBLIC BOUNDS" in text
    assert "OUTSIDE" not in str(released(data, UNITS, epsilon=500.0).describe())


def test_forms():
    found = released(people(5_000, np.random.default_rng(5))).describe()
    assert list(found.to_frame()["mean"]) == found.means.tolist()
    assert "a, b" in str(found)
    assert r"\toprule" in found.to_latex()
    assert "<caption>Correlations</caption>" in found._repr_html_()


def test_it_needs_second_moments():
    task = design(ReleaseSpec.of(BOUNDS, 500, 1.0, 1e-6, sketch="countsketch", rows=40, simulation_seed=0))
    rows = release_of_law(task, people(500, np.random.default_rng(6)), np.random.default_rng(0))
    with rejects("release", given="of rows given, of second moments expected (sketch='sum')"):
        rows.describe()
    with rejects("of", given="'people'"):
        released(people(100, np.random.default_rng(0))).describe(of="people")
