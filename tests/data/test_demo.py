"""The generated population."""

import numpy as np
import pytest

from dpmpc.base.errors import InputError
from dpmpc.data.demo import DEMO_BOUNDS, DEMO_FEATURES, DEMO_RADIUS, DEMO_TARGET, demo_population
from dpmpc.data.schemas import clip_ball


def test_the_population_depends_on_its_seed_and_nothing_else():
    first, again, other = demo_population(100, seed=3), demo_population(100, seed=3), demo_population(100, seed=4)
    assert np.array_equal(first.table.values, again.table.values)
    assert not np.array_equal(first.table.values, other.table.values)
    assert first.table.names == (*DEMO_FEATURES, DEMO_TARGET) == DEMO_BOUNDS.names


def test_features_are_whole_numbers_within_their_bounds():
    features = demo_population(20_000).table.select(DEMO_FEATURES).values
    assert np.array_equal(features, np.rint(features))
    assert DEMO_BOUNDS.select(DEMO_FEATURES).clipped_fraction(features).max() == 0


@pytest.mark.statistical
def test_the_population_obeys_its_law():
    """Fixed seed; at n = 200,000 each limit is beyond six standard errors: under 1e-6 false alarms for a fresh seed."""
    table, coefficients, intercept = demo_population(200_000, seed=11)
    Z = DEMO_BOUNDS.normalise(table.values)
    assert np.abs(Z.mean(axis=0)).max() < 0.01
    assert (Z.std(axis=0)[:5] > 0.4).all()
    correlations = np.corrcoef(Z[:, :5].T)[np.triu_indices(5, 1)]
    assert ((correlations > 0.13) & (correlations < 0.18)).all()
    assert DEMO_BOUNDS.clipped_fraction(table.values).max() < 8e-3

    design = np.column_stack([table.values[:, :5], np.ones(len(table))])
    income = table.column(DEMO_TARGET)
    fitted, (squares,), _, _ = np.linalg.lstsq(design, income, rcond=None)
    spread = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * squares / len(table))
    assert (np.abs(fitted - [*coefficients, intercept]) < 6 * spread).all()
    assert 0.94 < 1 - squares / (len(table) * income.var()) < 0.955
    # Every coefficient matters: a feature's half width moves the target by a tenth of its bounds' half width or more.
    assert np.abs(coefficients * DEMO_BOUNDS.slope[:5] / DEMO_BOUNDS.slope[5]).min() > 0.1


@pytest.mark.statistical
def test_the_ball_of_the_population_costs_next_to_nothing():
    """Fixed seed; both fits see the same rows, and the fraction is over 20 standard errors from its limits."""
    Z = DEMO_BOUNDS.normalise(demo_population(200_000, seed=12).table.values)
    assert 0.29 < (np.linalg.norm(Z, axis=1) > DEMO_RADIUS).mean() < 0.31
    whole, clipped = (
        np.linalg.lstsq(np.column_stack([rows[:, :5], np.ones(len(rows))]), rows[:, 5], rcond=None)[0]
        for rows in (Z, clip_ball(Z, DEMO_RADIUS))
    )
    assert np.abs(clipped[:5] / whole[:5] - 1).max() < 2e-2


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ({"clients": 0}, ["clients", "0 given", "whole number >= 1"]),
        ({"clients": 1.5}, ["clients", "1.5 given", "whole number"]),
        ({"clients": True}, ["clients", "True given", "whole number"]),
        ({"seed": -1}, ["seed", "-1 given", "whole number >= 0"]),
        ({"seed": None}, ["seed", "None given", "whole number"]),
    ],
)
def test_bad_arguments_are_refused_and_named(arguments, parts):
    with pytest.raises(InputError) as caught:
        demo_population(**{"clients": 10, **arguments})
    for part in parts:
        assert part in str(caught.value)
