"""The plan's plot: curves of the prediction, crossings that are crossings, and a file whole or not at all."""

import dataclasses
import errno
import sys
from xml.etree import ElementTree

import pytest

from dpmpc.app.cli.main import main
from dpmpc.app.render.plan_plot import over_clients, over_epsilon
from dpmpc.data import Schema
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning import design
from dpmpc.release.planning.advice import ReleaseAdvice
from dpmpc.release.planning.prediction import LowRank, Population, Regression, Scenario, error_of

PLAN = ["plan", "--clients", "100000", "--columns", "6", "--epsilon", "1", "--delta", "1e-6"]


@pytest.fixture(scope="module", params=[Regression(), LowRank(2)], ids=["ridge", "low-rank"])
def planned(request):
    """A metric, a scenario, and the options for a release in it."""
    metric = request.param
    task = design(
        ReleaseSpec.of(Schema.unit([f"x{column}" for column in range(6)]), 100_000, 1.0, 1e-6, purpose=metric.purpose)
    )
    population = Population(explained=0.7)
    return metric, Scenario.of(task, population), ReleaseAdvice(task, metric, population).options


def error(release, noise_by, scenario, metric):
    return error_of(release, dataclasses.replace(scenario, noise_by=noise_by), metric)


def rival(name, scenario, metric):
    return metric.trivial(scenario) if name == "trivial" else metric.local(scenario)


@pytest.mark.parametrize(("over", "name"), [(over_clients, "clients"), (over_epsilon, "epsilon")])
def test_curves_are_the_predictions(planned, over, name):
    metric, scenario, options = planned
    panel = over(scenario, metric, options)
    assert panel.x == sorted(panel.x)
    assert panel.x[0] < panel.here < panel.x[-1]
    at = dataclasses.replace(scenario, **{name: type(getattr(scenario, name))(panel.x[30])})
    for (release, noise_by), errors in panel.errors.items():
        assert errors[30] == error(release, noise_by, at, metric)
    assert (panel.local[30], panel.trivial[30]) == (metric.local(at), metric.trivial(at))


@pytest.mark.parametrize(
    ("over", "name", "before"),
    [(over_clients, "clients", lambda at: at - 1), (over_epsilon, "epsilon", lambda at: at / 1.0011)],
)
def test_crossings_are_where_a_way_begins_to_win(planned, over, name, before):
    metric, scenario, options = planned
    crossings = [crossing for crossing in over(scenario, metric, options).crossings if crossing.at is not None]
    assert len(crossings) >= 2
    for crossing in crossings:
        found = []
        for value in (before(crossing.at), crossing.at):
            at = dataclasses.replace(scenario, **{name: value})
            found.append(error(crossing.release, crossing.noise_by, at, metric) < rival(crossing.rival, at, metric))
        assert found == [False, True]


def test_the_plot_is_written_and_the_crossings_are_on_it(tmp_path, capsys):
    for name in ("plan.svg", "plan.PNG"):
        assert main([*PLAN, "--verbose", "--plot", str(tmp_path / name)]) == 0
    printed = capsys.readouterr().out
    root = ElementTree.fromstring((tmp_path / "plan.svg").read_text())
    texts = {"".join(element.itertext()) for element in root.iter() if element.tag.endswith("text")}
    for number in ("716", "1,240", "41,163", "123,489", "87", "18,893"):
        assert number in texts
        assert number in printed
    assert {"local model", "sum, noise by servers", "begins to beat the trivial predictor"} <= texts
    assert (tmp_path / "plan.PNG").read_bytes().startswith(b"\x89PNG")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["plan.PNG", "plan.svg"]


@pytest.mark.parametrize(
    ("name", "message"),
    [("plan.pdf", "ends in .svg or .png"), ("no/plan.svg", "is not a directory"), ("plan", "ends in")],
)
def test_a_file_that_cannot_be_is_refused(name, message, tmp_path, capsys):
    assert main([*PLAN, "--verbose", "--plot", str(tmp_path / name)]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_takes_no_file_is_refused_before_anything_is_computed(tmp_path, capsys, monkeypatch):
    def no_room(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("tempfile.TemporaryFile", no_room)
    monkeypatch.setattr("dpmpc.release.planning.design", lambda *_, **__: pytest.fail("computed"))
    assert main([*PLAN, "--plot", str(tmp_path / "plan.svg")]) == 2
    assert "plan.svg' cannot be written: Read-only file system" in capsys.readouterr().err


def test_without_matplotlib_the_error_says_how_to_get_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main([*PLAN, "--plot", str(tmp_path / "plan.svg")]) == 2
    assert "pip install '.[plots]'" in capsys.readouterr().err
