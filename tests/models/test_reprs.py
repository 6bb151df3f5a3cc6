"""What consoles print of releases and guarantees: short and true."""

import numpy as np
import pytest

from dpmpc import RidgeRegression
from dpmpc.data import Schema, Table
from dpmpc.models.papers.mutual_information import AdditiveNoise
from dpmpc.owners.columns import RMGM
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning import design


@pytest.fixture(scope="module")
def release():
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, (1000, 3))
    table = Table(("a", "b", "y"), rows)
    return RidgeRegression(simulation_seed=1, sketch="sum").release(table)


def test_reprs_are_short_and_say_what_is_a_simulation(release):
    assert repr(release) == (
        "<Release of 1,000 clients: sum 1 x 9 of second-moments, epsilon=1, delta=1e-06, SIMULATION>"
    )
    assert repr(release.guarantee) == (
        "<Guarantee: (1, 1e-06)-differential privacy for each of 1,000 clients, replace-one, SIMULATION>"
    )
    real = design(ReleaseSpec.of(Schema.unit(["a"]), 100, 0.5, 0, sketch="sum", noise="discrete-laplace")).guarantee
    assert repr(real) == "<Guarantee: pure 0.5-differential privacy for each of 100 clients, replace-one>"
    assert "SIMULATION" not in str(real)


def test_other_guarantees_have_short_reprs():
    X = np.random.default_rng(0).uniform(-1, 1, (500, 2))
    mixed = RMGM(simulation_seed=1).fit([X[:, :1], X[:, 1:]]).release_.guarantee
    assert repr(mixed) == (
        "<MixingGuarantee: (1, 1e-05)-differential privacy for each of 500 subjects, party, replace-one, SIMULATION>"
    )
    bits = AdditiveNoise(0.5, simulation_seed=1).fit(X, X[:, 0]).guarantee_
    assert repr(bits) == "<MutualInformationGuarantee: 0.5 bits about one entry, proven, SIMULATION>"
    for guarantee in (mixed, bits):
        assert str(guarantee).startswith("SIMULATION")
        assert guarantee.noise_text in str(guarantee)
