"""The audit of a whole fit in rounds: its claim stands, what is false is refuted, and nothing is lost in the bundles.

`FAILURE` is the probability with which an audit refutes a true claim, at most. Seeds are fixed.
"""

import dataclasses

import numpy as np
import pytest

from bench.audit import MECHANISMS, audit
from bench.audit.registry import STEERING_ROUNDS
from bench.audit.whole_fit import WholeFit
from dpmpc.base.randomness import Stream
from dpmpc.data import Schema
from dpmpc.linear.contributions.clipped_scores import ClippedScores
from dpmpc.models.common.releases import Releases
from dpmpc.privacy.specification import ReleaseSpec

FAILURE = 1e-3
PAIR = ((1.0, 1.0, 1.0), (1.0, 1.0, -1.0))


def fit(epsilon=8.0, bundles=12):
    spec = ReleaseSpec.of(Schema.unit(("a", "b", "target")), 12, epsilon, 1e-5, simulation_seed=3)
    return WholeFit(spec, PAIR, STEERING_ROUNDS, bundles)


@pytest.mark.parametrize(("epsilon", "least"), [(1.0, 0.8), (8.0, 1 - 1e-6)])
def test_two_scores_are_nearly_as_far_apart_as_two_can_be_in_every_round(epsilon, least):
    """At a small budget coefficients are noise, and a prediction may come close to a target."""
    mechanism = fit(epsilon)
    for seed in range(6):
        made = mechanism._fits(seed % 2 or None, 1, Stream.from_seed(seed))[1].made
        assert len(made) == STEERING_ROUNDS + 1
        for release in made[1:]:
            task = release.task
            assert isinstance(task.statistic, ClippedScores)
            first, second = task.statistic.encode(np.array(PAIR), task.encoding).astype(float)
            apart = np.linalg.norm(second - first) / 2.0 ** (task.encoding.fractional_bits + 1)
            assert least <= apart <= 1 + 1e-6


def test_the_claim_is_that_of_the_whole_fit():
    """The squares of all rounds' parameters add up to that of the budget."""
    mechanism = fit()
    releases = mechanism._fits(None, 1, Stream.from_seed(1))[1]
    assert mechanism.claim.mu**2 == pytest.approx(sum(release.task.guarantee.mu**2 for release in releases.made))
    assert mechanism.claim.mu == pytest.approx(releases.mu)
    assert 7.99 < mechanism.claim.epsilon <= 8


def test_an_exchange_moves_the_first_sum_by_one_unit():
    """In units of what it moves at most, which is the pair's own distance: means of 2,000 releases, 5 deviations."""
    still, moved = (fit().observe(whose, 2_000, Stream.from_seed(4))[:, 0] for whose in (None, 0))
    error = np.sqrt((still.var() + moved.var()) / 2_000)
    assert error < 0.1
    assert moved.mean() - still.mean() == pytest.approx(1, abs=5 * error)


@pytest.mark.statistical
def test_nine_tenths_of_mu_are_found_in_a_whole_fit():
    """Of 1.67 about 1.62 can be found: false alarms from above at most FAILURE, from below under 1e-4."""
    found = audit("steered-fit", fit(), 20_000, FAILURE, Stream.from_seed(1))
    assert found.refuted == ()
    assert 0.85 * found.claim.mu <= found.by_curve.value <= found.claim.mu


@pytest.mark.long("fits of which each is steered by its own releases")
@pytest.mark.statistical
def test_fits_that_steer_themselves_alone_are_as_hard_to_tell_apart():
    """Likelihood ratios of 150 fits with either row. False alarms: at most FAILURE from above, 1e-4 from below."""
    mechanism, each = fit(bundles=150), 150
    still, moved = (mechanism.observe(whose, each, Stream.from_seed(2 + (whose is None))) for whose in (None, 0))
    direction = 1 / np.concatenate([still, moved - 1]).var(axis=0)
    scores = [observed @ direction for observed in (still, moved)]
    deviation = np.sqrt((scores[0].var(ddof=1) + scores[1].var(ddof=1)) / 2)
    found, error = (
        (scores[1].mean() - scores[0].mean()) / deviation,
        np.sqrt(2 / each + mechanism.claim.mu**2 / (4 * each)),
    )
    assert found <= mechanism.claim.mu + 3.1 * error
    assert found >= 0.95 * mechanism.claim.mu - 3.8 * error


def halved(monkeypatch):
    """The sensitivity of adding a row, and not of replacing one."""
    whole = ClippedScores.sensitivity

    def half(self, columns, encoding):
        found = whole(self, columns, encoding)
        return dataclasses.replace(found, l2=found.l2 / 2)

    monkeypatch.setattr(ClippedScores, "sensitivity", half)


def longer(monkeypatch):
    """Scores are not shortened to norm 1 but to 1.5."""
    shortened = ClippedScores._clipped

    def long(self, rows):
        score, length = shortened(self, rows)
        return score * 1.5, length

    monkeypatch.setattr(ClippedScores, "_clipped", long)
    monkeypatch.setattr(ClippedScores, "largest_entry", lambda self, encoding: 3 << encoding.fractional_bits)


def forgotten(monkeypatch):
    """All rounds together are said to promise what the first of them promises alone."""
    monkeypatch.setattr(Releases, "promise", lambda self, tasks: tasks[0].guarantee)


@pytest.mark.statistical
@pytest.mark.parametrize("fault", [halved, longer, forgotten], ids=lambda fault: fault.__name__)
def test_a_fault_in_the_rounds_is_caught(fault, monkeypatch):
    """Fixed seeds; FAILURE would be the probability to catch what is none."""
    fault(monkeypatch)
    assert audit("steered-fit", fit(), 4000, FAILURE, Stream.from_seed(1)).refuted


def test_it_is_registered_with_its_peers():
    mechanism = MECHANISMS["steered-fit"](1.0, 1e-5, 3)
    assert isinstance(mechanism, WholeFit)
    assert mechanism.shifts.shape == (1, STEERING_ROUNDS + 1)
