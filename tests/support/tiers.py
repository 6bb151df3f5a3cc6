"""Which tests `make test` runs, which ones `make slow` runs, and which part of the long ones a commit runs.

Slow is a test one case of which took more than `SLOW_SECONDS` when `make durations` last wrote slow.json. `make test`
leaves these out, but for one run with true processes of each kind (`TRUE_RUNS`); continuous integration runs them all.
"""

import collections
import hashlib
import json
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
LIST = TESTS / "slow.json"
SLOW_SECONDS = 0.7

#: Of each kind of run, one with processes, TLS and ports of its own, and the simulator, whatever they take.
TRUE_RUNS = {
    # the servers of a collection, and their release
    "collect/test_release.py::test_the_release_is_the_sum_of_what_clients_uploaded",
    # doors
    "collect/test_doors.py::test_reports_through_doors_are_released_and_the_keys_are_gone",
    # workers
    "collect/test_workers.py::test_all_workers_answer_at_the_door_and_one_that_is_killed_comes_back",
    # a proxy
    "collect/test_proxies.py::test_dpmpc_submit_sends_through_the_proxy",
    # PostgreSQL
    "collect/test_postgres_database.py::test_a_withdrawal_at_another_worker_than_the_upload_takes_the_report_back",
    # checks of how shares were dealt
    "collect/test_dealing_release.py::test_a_server_that_lies_in_all_check_values_is_not_listened_to",
    # proofs
    "collect/test_proved_release.py::test_liars_of_all_kinds_at_once",
    # owners of rows
    "owners/test_data_owners.py::test_all_owners_end_with_the_same_sums",
    # owners of columns
    "owners/test_random_mixing.py::test_three_processes_publish_what_one_process_would",
    # a fit
    "app/test_cli.py::test_fit_prints_one_json_object_and_writes_everything",
    # a fit in rounds
    "app/test_fit_in_rounds.py::test_ridge_in_rounds",
    # parties
    "parties/test_runtime.py::test_shares_are_summed_at_the_analyst",
    # parties on links of MPyC
    "protocols/test_mpyc_programs.py::test_parties_are_started_by_hand",
    # a program of MPyC on our links
    "app/test_run.py::test_a_program_of_mpyc_runs_as_it_stands",
    # the simulator
    "test_simulator.py::test_nothing_is_violated",
}


def name_of(nodeid):
    """Return file and function of a test, as slow.json has them: of all its cases one name."""
    return nodeid.removeprefix("tests/").partition("[")[0]


def slow_names():
    """Return the tests that `make test` leaves out."""
    return json.loads(LIST.read_text()).keys() - TRUE_RUNS


def in_slice(nodeid, which):
    """Return whether a test is in one of several parts, given as "3/12", which a hash of its name decides."""
    part, parts = map(int, re.fullmatch(r"(\d+)/(\d+)", which).groups())
    digest = hashlib.sha256(nodeid.encode()).digest()
    return int.from_bytes(digest[:8]) % parts == part % parts


class Durations:
    """Writes slow.json at the end of a run of all tests."""

    def __init__(self):
        self._seconds = collections.Counter()

    def pytest_runtest_logreport(self, report):
        """Add what one phase of a test took."""
        self._seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self, exitstatus):
        """Write the longest case of each test, unless the run was broken off: the rest would leave the list."""
        if exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            return
        longest = collections.defaultdict(float)
        for nodeid, seconds in self._seconds.items():
            longest[name_of(nodeid)] = max(longest[name_of(nodeid)], seconds)
        slow = {name: round(seconds, 1) for name, seconds in sorted(longest.items()) if seconds > SLOW_SECONDS}
        LIST.write_text(json.dumps(slow, indent=1) + "\n")
