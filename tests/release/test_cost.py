"""The cost of a release: bytes that are counted, seconds and money that follow from slopes and prices."""

import dataclasses
import re
from pathlib import Path

import pytest

from dpmpc.app.cli.main import main
from dpmpc.data import Schema
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning import design
from dpmpc.release.planning.cost import MEASURED, Prices, Slopes, Workload, byte_fields, estimate
from support.rejections import rejects

SLOPES = Slopes(read=1e-9, expand=2e-9, add=3e-9)
WORK = Workload(clients=1_000_000_000, copies=1, width=10, rows=1000, sparsity=4, servers=3)


def test_a_cost_counted_by_hand():
    cost = estimate(WORK, slopes=SLOPES, prices=Prices(3600.0, 2.0, 1000.0), days=15)
    assert cost.uploaded_bytes == 10**9 * (80 + 16 + 16)
    assert cost.sent_bytes == 3 * 80_000
    assert cost.last_core_s == pytest.approx(80 + 120)
    assert cost.other_core_s == pytest.approx(160 + 120)
    assert cost.core_s == cost.compute == pytest.approx(200 + 2 * 280)
    assert cost.storage == pytest.approx(112 * 2.0 / 2)
    assert cost.transfer == pytest.approx(240_000 / 1e9 * 1000)
    assert cost.total == pytest.approx(760 + 112 + 0.24)


def test_shares_that_are_no_keys_are_read_by_all():
    cost = estimate(dataclasses.replace(WORK, seeded=False), slopes=SLOPES)
    assert cost.uploaded_bytes == 10**9 * 3 * 80
    assert cost.core_s == pytest.approx(3 * cost.last_core_s)


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
    for left_out in ("HTTP", "opening seals", "comparing ids", "157 bytes of memory a report"):
        assert left_out in said


def test_the_costs_page_compares_a_plan_with_what_was_measured():
    """The page's table, CPU seconds for a million reports without HTTP, a thousand times, against the plan."""
    page = (Path(__file__).parents[2] / "docs" / "costs.md").read_text()
    row = next(line for line in page.splitlines() if line.startswith("| **together**"))
    _, plain, keys, words = (float(cell.split("→")[1].strip(" *")) for cell in row.split("|")[2:6])
    schema = Schema.unit([f"x{column}" for column in range(10)])
    spec = ReleaseSpec.of(schema, 10**9, 1.0, 1e-10, sketch="sum", proved=True, noise_by="servers")
    planned = estimate(Workload.of(design(spec)))
    assert round(planned.last_core_s, -2) == 9400
    assert round(1000 * keys / planned.other_core_s, 1) == 0.9
    assert round(1000 * words / planned.last_core_s, 1) == 1.9
    assert "0.9 (keys) to 1.9 (words) times" in page
    spec = ReleaseSpec.of(schema, 10**9, 1.0, 1e-10, sketch="countsketch", rows=1000, noise_by="servers")
    planned = estimate(Workload.of(design(spec)))
    assert round(planned.last_core_s) == 21
    assert round(1000 * plain / planned.last_core_s, -1) == 230
