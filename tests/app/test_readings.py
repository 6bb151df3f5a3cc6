"""What a release can be read as: each contribution has words and a reading, and a new one is a class and two lines."""

import numpy as np
import pytest

from dpmpc import ReleaseSpec, Schema, design, simulate
from dpmpc.app.render.reading import read
from dpmpc.app.render.readings import READINGS, reading_of
from dpmpc.app.render.readings.reading import Reading
from dpmpc.app.render.released import release_text
from dpmpc.linear.contributions import CONTRIBUTIONS, Rows, SecondMoments
from dpmpc.linear.encoding.fixed_point import FixedPoint
from dpmpc.linear.proving.contributions import ProvedContribution, with_proofs
from dpmpc.release.results import Result


class Magnitudes(Rows):
    """A contribution of another package: the magnitudes of a normalised row, which are in the box, too."""

    name = "magnitudes"

    def encode(self, rows, encoding: FixedPoint):
        """Encode the magnitudes."""
        return super().encode(np.abs(rows), encoding)

    def one_pass(self, encoding: FixedPoint):
        """Return None: no kernel takes magnitudes."""
        return None


class ReadingOfMagnitudes(Reading):
    """Its reading: the mean magnitude of each column."""

    words = "the sum of their magnitudes"

    def result(self, release, level):
        """Return the means."""
        return Result(data={"means": (release.sketch[0] / release.clients).tolist()})


@pytest.fixture
def magnitudes(monkeypatch):
    """Register a contribution and its reading, for one test."""
    monkeypatch.setitem(CONTRIBUTIONS, Magnitudes.name, Magnitudes)
    monkeypatch.setitem(READINGS, Magnitudes, ReadingOfMagnitudes())


def released(contribution, rows):
    public = Schema.unit([f"x{column}" for column in range(rows.shape[1])])
    spec = ReleaseSpec.of(public, len(rows), 1.0, 1e-6, contribution=contribution, sketch="sum", simulation_seed=0)
    return simulate(design(spec), rows)


def test_a_new_contribution_is_a_class_and_two_lines(magnitudes, tmp_path):
    """Fixed seed; the noise in a mean has a standard deviation of 0.001 or less."""
    rows = np.random.default_rng(0).uniform(-1, 1, (20_000, 2))
    release = released(Magnitudes(), rows)
    release.save(tmp_path / "release.dpmpc")
    report = read(tmp_path / "release.dpmpc")
    assert report.result.data["means"] == pytest.approx([0.5, 0.5], abs=0.02)
    assert "the sum of their magnitudes" in report.released[0]
    assert list(report.noise.names) == ["all entries"]


def test_a_contribution_without_a_reading_is_read_as_sums(monkeypatch, tmp_path):
    class Unregistered(Magnitudes):
        name = "unregistered"

    monkeypatch.setitem(CONTRIBUTIONS, Unregistered.name, Unregistered)
    monkeypatch.delitem(READINGS, Rows)
    release = released(Unregistered(), np.zeros((100, 2)))
    release.save(tmp_path / "release.dpmpc")
    assert not read(tmp_path / "release.dpmpc").result.tables
    assert "the sum of their unregistered" in release_text(release.task)


@pytest.mark.parametrize("kind", CONTRIBUTIONS.values(), ids=CONTRIBUTIONS)
def test_every_contribution_has_words(kind):
    reading = next(READINGS[base] for base in kind.__mro__ if base in READINGS)
    if issubclass(kind, ProvedContribution):
        assert "proved" in reading.proved_words
    else:
        assert reading.words or kind.name == "residual-products"


def test_what_is_proved_is_read_as_what_it_takes_the_place_of():
    assert reading_of(with_proofs(SecondMoments())) is reading_of(SecondMoments())
