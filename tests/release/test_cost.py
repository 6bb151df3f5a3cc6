"""The cost of a release: bytes that are counted, seconds and money that follow from slopes and prices."""

import dataclasses
import json
import re
from pathlib import Path

import pytest

from dpmpc.app.cli.main import main
from dpmpc.collect.opening.proof_checks import PIECE
from dpmpc.collect.store.blocks import _SHARE_BYTES
from dpmpc.data import Schema
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning import design
from dpmpc.release.planning.cost import MEASURED, Prices, Slopes, Workload, byte_fields, estimate
from support.rejections import rejects

SLOPES = Slopes(1e-9, 2e-9, 3e-9, check=9e-9, check_word=1e-8, handle=5e-9, handle_byte=6e-9, request=7e-9, unseal=8e-9)
WORK = Workload(clients=1_000_000_000, copies=1, width=10, rows=1000, sparsity=4, servers=3)


def test_a_cost_counted_by_hand():
    cost = estimate(WORK, slopes=SLOPES, prices=Prices(3600.0, 2.0, 1000.0), days=15)
    assert cost.uploaded_bytes == 10**9 * (80 + 16 + 16)
    assert cost.stored_bytes == 10**9 * (80 + 16 + 16 + 3 * (16 + 8 + 16 + 16))
    assert cost.sent_bytes == 3 * 80_000
    assert cost.memory_bytes == 200_000_000 + 32 * 10**9
    assert cost.last_core_s == pytest.approx(80 + 120 + 5 + 80 * 6)
    assert cost.other_core_s == pytest.approx(160 + 120 + 5 + 16 * 6)
    assert cost.request_core_s == pytest.approx(7 + 8)
    assert cost.core_s == cost.compute == pytest.approx(685 + 2 * 381 + 3 * 15)
    assert cost.storage == pytest.approx(280 * 2.0 / 2)
    assert cost.transfer == pytest.approx(240_000 / 1e9 * 1000)
    assert cost.total == pytest.approx(1492 + 280 + 0.24)


def test_a_proof_costs_a_server_with_words_more():
    schema = Schema.unit([f"x{column}" for column in range(10)])
    spec = ReleaseSpec.of(schema, 10**9, 1.0, 1e-10, sketch="sum", proved=True, noise_by="servers")
    work = Workload.of(design(spec))
    plain = dataclasses.replace(SLOPES, read=0, expand=0, add=0)
    cost = estimate(work, slopes=plain)
    words = work.proof.words
    assert cost.last_core_s == pytest.approx(9 + words * 10 + 5 + (16 + 96 + 8 * words) * 6)
    assert cost.other_core_s == pytest.approx(9 + 5 + (16 + 96) * 6)
    assert cost.stored_bytes == cost.uploaded_bytes + 3 * 10**9 * (16 + 8 + 16 + 16 + 24)


def test_shares_that_are_no_keys_are_read_by_all():
    cost = estimate(dataclasses.replace(WORK, seeded=False), slopes=SLOPES)
    assert cost.uploaded_bytes == 10**9 * 3 * 80
    assert cost.core_s == pytest.approx(3 * (cost.last_core_s + cost.request_core_s))


def test_time_and_bytes_are_linear_in_clients():
    once, twice = (estimate(dataclasses.replace(WORK, clients=n)) for n in (10**8, 2 * 10**8))
    assert twice.core_s == pytest.approx(2 * once.core_s)
    assert twice.uploaded_bytes == 2 * once.uploaded_bytes
    assert twice.sent_bytes == once.sent_bytes


@pytest.mark.parametrize("choices", [{"copies": "each"}, {"copies": "one"}, {"sharing": "shamir"}, {"sketch": "sum"}])
def test_the_workload_of_a_task_has_its_bytes(choices):
    sketch = {} if "sketch" in choices else {"sketch": "osnap", "rows": 60, "sparsity": 4}
    task = design(ReleaseSpec.of(Schema.unit([*"abcdef"]), 20_000, 1.0, 1e-6, **sketch, **choices))
    cost, size = estimate(Workload.of(task)), byte_fields(task)
    assert cost.uploaded_bytes == task.clients * size["client_to_all_servers"]
    assert cost.sent_bytes == task.trust.servers * size["server_to_analyst"]


def test_measured_slopes_are_of_a_machine_of_this_century():
    """A core reads and expands 0.5 to 50 GB/s, and adds 10^8 to 10^11 words a second."""
    assert 2e-11 < MEASURED.read < 2e-9
    assert 2e-11 < MEASURED.expand < 2e-9
    assert 1e-11 < MEASURED.add < 1e-8


@pytest.mark.parametrize("name", ["core_hour", "gigabyte_month", "gigabyte_sent"])
@pytest.mark.parametrize("price", [-1.0, float("inf"), float("nan")])
def test_bad_prices_are_named(name, price):
    with rejects(name):
        Prices(**{name: price})


def test_bad_days_are_named():
    with rejects("days", given="-1"):
        estimate(WORK, days=-1)


def test_a_cost_beyond_the_floats_is_refused():
    with rejects("prices, days"):
        estimate(WORK, prices=Prices(1e308, 1e308, 1e308))
    with rejects("prices, days"):
        estimate(WORK, prices=Prices(1e300, 1e300, 1e300), days=1e308)


def test_a_plan_says_what_its_costs_leave_out(capsys):
    budget = ["--epsilon", "1", "--delta", "1e-6"]
    assert main(["plan", "--clients", "20000", "--columns", "3", *budget, "--sketch", "sum", "--verbose"]) == 0
    said = " ".join(re.sub(r"[^\w.,:]+", " ", capsys.readouterr().out).split())
    assert "not in it" in said
    for fact in ("set up", "if each comes by itself", "GB of memory", "GB of disk"):
        assert fact in said


RESULTS = Path(__file__).parents[2] / "bench" / "results"


@pytest.mark.parametrize("kind", ["plain", "proved"])
@pytest.mark.parametrize("server", ["keys", "words"])
def test_a_plan_is_within_half_of_what_a_million_reports_took(kind, server):
    """The stored measurement of `python -m bench scale --reports 1000000`, which has no HTTP."""
    measured = json.loads((RESULTS / "scale_release.json").read_text())["measured"][kind]
    count = measured["reports"]
    schema = Schema.unit([f"x{column}" for column in range(10)])
    proved = (
        {"sketch": "sum", "proved": True} if kind == "proved" else {"sketch": "osnap", "rows": 1000, "copies": "one"}
    )
    planned = Workload.of(design(ReleaseSpec.of(schema, count, 1.0, 1e-8, noise_by="servers", **proved)))
    cost = estimate(planned)
    core_s = cost.other_core_s if server == "keys" else cost.last_core_s
    sent = planned.other_bytes if server == "keys" else planned.share_bytes
    assert sent == measured["record_bytes"][server] - 16
    assert 1 / 1.5 < core_s / sum(measured["seconds"][server].values()) < 1.5
    assert 1 / 1.5 < (sent + 40) / measured["spool_bytes"][server] < 1.5
    assert 1 / 1.5 < cost.memory_bytes / measured["peak_bytes"][server] < 1.5


def test_a_request_is_planned_within_half_of_what_was_measured():
    measured = json.loads((RESULTS / "intake.json").read_text())["cpu_s"]["dpmpc"]["median"]
    assert 1 / 1.5 < (MEASURED.request + MEASURED.unseal) / measured < 1.5


def test_the_page_has_what_was_measured():
    page = (RESULTS.parents[1] / "docs" / "benchmarks.md").read_text()
    assert f"{1e3 * (MEASURED.request + MEASURED.unseal):.1f} ms of each server" in page
    flat = " ".join(page.split())
    assert f"pieces of {PIECE:,} reports" in flat
    assert f"at most {_SHARE_BYTES >> 20} MiB of words" in flat


def test_the_page_states_what_a_cluster_took():
    page = (RESULTS.parents[1] / "docs" / "benchmarks.md").read_text()
    ratios, times = [], []
    for found in json.loads((RESULTS / "scale_cluster.json").read_text())["measured"].values():
        assert found["same_bits"]
        assert found["released_with_one_killed"] == found["reports"]
        alone, *others = found["runs"].values()
        ratios += [run["cpu_s"] / alone["cpu_s"] for run in others]
        times.append(found["runs"]["workers: 2"]["wall_s"] / alone["wall_s"])
    assert f"takes {min(ratios):.1f} to {max(ratios):.1f} times the CPU of one process" in page
    assert f"{min(times):.1f} to {max(times):.1f} of its time" in page
