"""The bench of releases of cells: what it measures, and what it refuses."""

import json

import numpy as np
import pytest

from bench.harness import RESULTS
from bench.system import cell_servers
from dpmpc.base.errors import ProtocolFailure


def test_a_release_of_cells_is_measured_and_compared_with_the_rows():
    """Two runs of server processes, whose entries are off by the noise alone; the kept page is that of its figures."""
    for proved in (False, True):
        one = cell_servers.measure(1000, proved=proved)
        assert len(one["cpu_s"]) == 3
        assert 0.5 < one["farthest"] < 7
    kept = json.loads((RESULTS / "cell_servers.json").read_text())
    assert (RESULTS / "cell_servers.md").read_text() == cell_servers.render(kept) + "\n"
    assert "met" in cell_servers.goals(kept["measured"])[0]
    slow = {"clients": cell_servers.CLIENTS, "proved": False, "cpu_s": [1.0, 11.0, 1.0]}
    assert "11.00, missed" in cell_servers.goals([slow])[0]


def test_sums_of_cells_that_are_off_are_an_error():
    task = cell_servers.task_of(1000, proved=False)
    with pytest.raises(ProtocolFailure, match="cells: an entry is off by"):
        cell_servers.farthest(task, np.zeros(640), np.zeros((1000, 10)))
