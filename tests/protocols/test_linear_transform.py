"""The transform among real processes: exact, silent between servers, and typed when something breaks."""

import functools
import time

import numpy as np
import pytest

from dpmpc.app.cli.main import main
from dpmpc.base.errors import PartyLost, PartyMissing
from dpmpc.base.randomness import Stream
from dpmpc.data import Schema, Table, write_csv
from dpmpc.parties import networked
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release import simulation as model
from dpmpc.release.client import Client
from dpmpc.release.planning import design
from dpmpc.release.planning.cost import byte_fields

CLIENTS, WIDTH, ROWS = 4000, 3, 50


def task_of(**choices):
    choices = {"sketch": "osnap", "rows": ROWS, "sparsity": 4, "simulation_seed": 3, **choices}
    return design(ReleaseSpec.of(Schema.unit(["a", "b", "y"]), CLIENTS, 1.0, 1e-6, **choices))


def rows():
    return np.random.default_rng(1).uniform(-1, 1, (CLIENTS, WIDTH))


@pytest.mark.parametrize(
    "choices",
    [
        {"servers": 3},
        {"servers": 5, "ring": "mersenne61"},
        {"servers": 3, "sharing": "shamir"},
        {"servers": 3, "copies": "each"},
        {"servers": 2, "noise_by": "servers"},
        {"sketch": "rademacher", "sparsity": None, "noise": "discrete-laplace"},
    ],
)
def test_a_networked_run_opens_what_the_in_process_run_opens(choices):
    task = task_of(**choices)
    done = networked.run(task, rows(), stream=Stream.from_seed(8))
    local = model.run(task, rows(), stream=Stream.from_seed(8))
    assert (done.release.sums == local.sums).all()
    assert done.release.task.digest == task.digest


def test_servers_send_their_share_of_the_sketch_and_nothing_to_each_other():
    task = task_of()
    done = networked.run(task, rows())
    analyst = task.trust.servers
    for spent in done.servers:
        assert spent.payload_sent == 8 * ROWS * WIDTH
        for peer, traffic in spent.peers.items():
            assert traffic.payload.sent == (8 * ROWS * WIDTH if peer == analyst else 0)
            assert traffic.payload.received == 0
        assert set(spent.phases) == {"read", "transform", "open"}
        if spent.tcp_info is not None:
            assert spent.tcp_info.sent == spent.bytes_sent
            assert spent.tcp_info.received == spent.bytes_received
    assert done.analyst.payload_received == analyst * 8 * ROWS * WIDTH


def test_servers_of_a_deployment_draw_their_own_noise():
    """Released from rows of zeros, without any seed: noise of the stated size, and another one each time."""
    task = design(
        ReleaseSpec.of(Schema.unit(["a", "b", "y"]), CLIENTS, 1.0, 1e-6, sketch="osnap", rows=ROWS, noise_by="servers")
    )
    first, second = (networked.run(task, np.zeros((CLIENTS, WIDTH))).release for _ in range(2))
    assert not task.simulation
    assert (first.sums != second.sums).mean() > 0.99
    spread = np.mean(first.sketch**2) / first.noise_variance.mean()
    assert spread == pytest.approx(1, abs=6 * np.sqrt(2 / first.sketch.size))


def test_bytes_sent_are_the_sketch_plus_a_constant():
    """Within 1 % of k d 8 plus what an (almost) empty sketch costs."""
    sent = {}
    for rows_of_sketch in (8, 4000):
        task = task_of(rows=rows_of_sketch, sparsity=1)
        done = networked.run(task, rows())
        sent[rows_of_sketch] = [spent.bytes_sent for spent in done.servers]
    for small, large in zip(*sent.values(), strict=True):
        payload = 8 * (4000 - 8) * WIDTH
        assert payload <= large - small <= 1.01 * payload


def test_a_server_sends_its_sketch_and_less_than_one_per_cent_more():
    """After set-up, at the papers' d = 10 and k = 1000; set-up is a few thousand bytes whatever the sketch."""
    names = [f"x{column}" for column in range(10)]
    task = design(
        ReleaseSpec.of(Schema.unit(names), CLIENTS, 1.0, 1e-6, sketch="countsketch", rows=1000, simulation_seed=3)
    )
    done = networked.run(task, np.zeros((CLIENTS, 10)))
    sketch = 8 * 1000 * 10
    for spent in done.servers:
        assert sketch < spent.bytes_sent - spent.setup_bytes_sent <= 1.01 * sketch
        assert spent.setup_bytes_sent < 6000


@pytest.mark.parametrize(("copies", "count"), [("one", 1), ("each", 4)])
def test_a_client_sends_its_words_to_one_server_and_a_key_to_each_other(copies, count):
    task = task_of(servers=5, copies=copies)
    client = Client(task, Stream.from_seed(8))
    keys, last = task.scheme.split_seeded(client.randomize(rows()[:1]), client.stream)
    size = byte_fields(task)
    assert last.nbytes == size["client_to_last_server"] == 8 * WIDTH * count
    assert [len(key) for key in keys] == [size["client_to_other_servers"]] * 4 == [16] * 4


@pytest.fixture
def command(tmp_path):
    path = tmp_path / "people.csv"
    write_csv(path, Table.from_any(rows(), names=["a", "b", "y"]))
    arguments = ["fit", path, "--target", "y", "--epsilon", "1", "--delta", "1e-6", "--out", tmp_path / "out"]
    return [str(argument) for argument in arguments]


def test_a_server_killed_in_the_middle_ends_typed(command, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(networked, "PROGRAM", "network_programs.dying_transform")
    with pytest.raises(PartyLost) as failure:
        networked.run(task_of(), rows())
    assert failure.value.party == 1
    began = time.monotonic()
    assert main(command) == 3
    assert time.monotonic() - began < 30
    assert "party 1" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_server_that_never_comes_up_ends_typed(command, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(networked, "LocalParties", functools.partial(networked.LocalParties, absent=[2]))
    monkeypatch.setattr(networked, "Agreement", functools.partial(networked.Agreement, connect_deadline=3.0))
    with pytest.raises(PartyMissing) as failure:
        networked.run(task_of(), rows())
    assert failure.value.party == 2
    assert main(command) == 3
    assert "party 2" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_server_with_another_share_shape_ends_typed(command, monkeypatch, capsys):
    other = model.share_batch(task_of(copies="each"), rows(), stream=Stream.from_seed(1))
    monkeypatch.setattr(networked, "share_batch", lambda *arguments, **options: other)
    assert main(command) == 3
    assert "BatchMismatch" in capsys.readouterr().err
