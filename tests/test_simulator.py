"""Servers in a simulated world (`simulator`): seeds that replay, violate nothing, and find faults that are planted."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="no library is preloaded like this elsewhere"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="a C compiler compiles what is preloaded"),
]
TESTS = Path(__file__).parent
#: A world and a seed that find each fault, and what they find; others follow where code has changed what a seed does.
FINDS = {
    "databases_are_not_synced": ("release", 1, "no release"),
    "files_are_not_synced": ("release", 11, "release files differ"),
    "each_run_has_a_salt_of_its_own": ("release", 8, "an honest server is accused: InconsistentShares"),
    "a_share_leaves_before_it_is_bound": ("release", 0, "a share leaves, and one release is not bound"),
    "a_second_call_is_an_impersonation": ("release", 22, "an honest server is accused: PartyImpersonated"),
    "a_query_point_is_not_kept": ("proved", 36, "a server answers at two points"),
    "the_point_in_the_ledger_is_not_read": ("proved", 36, "no release"),
    "a_folder_is_not_locked": ("twins", 0, "two processes of a server take part"),
    "a_dealing_seed_is_not_kept": ("dealing", 4, "a server answers at two points"),
    "dealt_noise_is_not_forgotten": ("shamir", 0, "dealt noise outlasts its release"),
    "a_report_is_answered_for_anew": ("damaged", 43, "a report is answered for in two ways"),
    "a_withdrawal_that_comes_first_is_forgotten": ("doors", 1, "withdrawn reports are released"),
    "a_withdrawal_ends_with_its_report": ("doors", 25, "a withdrawal is lost"),
    "withdrawals_are_taken_after_the_announcement": ("doors", 7, "withdrawn reports are released"),
    "a_mixed_release_is_made_anew": ("mixing", 33, "an honest server is accused: BatchMismatch"),
    "a_round_is_answered_anew": ("owners", 2, "an owner sends two answers"),
    "a_round_is_entered_anew": ("owners", 2, "no release"),
    "a_sealed_epoch_counts_as_begun": ("series", 12, "no release"),
}
SEEDS = 100  # within which a fault has to be found


def simulate(*words):
    """Run the simulator; return its exit status and what it printed."""
    path = os.pathsep.join([str(TESTS), str(TESTS.parent)])
    done = subprocess.run(
        [sys.executable, "-m", "simulator", *map(str, words)],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout


long = pytest.mark.long("2,000 seeds of releases and 500 of each other world: 50 CPU minutes")


@pytest.mark.parametrize(
    ("world", "first", "count"),
    [
        ("release", 0, 60),
        ("dealing", 0, 12),
        ("proved", 0, 12),
        ("shamir", 0, 12),
        ("damaged", 0, 12),
        ("doors", 0, 12),
        ("mixing", 0, 12),
        ("owners", 0, 12),
        ("series", 0, 12),
        ("twins", 0, 12),
        *(pytest.param("release", first, 500, marks=long) for first in range(10_000, 12_000, 500)),
        pytest.param("dealing", 10_000, 500, marks=long),
        pytest.param("proved", 10_000, 500, marks=long),
        pytest.param("shamir", 10_000, 500, marks=long),
        pytest.param("damaged", 10_000, 500, marks=long),
        pytest.param("mixing", 10_000, 500, marks=long),
        pytest.param("owners", 10_000, 500, marks=long),
        pytest.param("series", 10_000, 500, marks=long),
        pytest.param("twins", 10_000, 500, marks=long),
        *(pytest.param("doors", first, 100, marks=long) for first in range(10_000, 10_500, 100)),
    ],
)
def test_nothing_is_violated(world, first, count):
    status, printed = simulate(world, first, "--count", count)
    assert status == 0, printed
    assert re.fullmatch(rf"{count} seeds from {first}, \d+ lives of servers, 0 seeds with a violation\n", printed)


def test_a_bit_that_flips_once_others_have_bound_the_release_stops_nobody():
    """A server lost power between its sums and its binding, when two servers had bound; its sums are kept before."""
    status, printed = simulate("damaged", 40484)
    assert status == 0, printed


@pytest.mark.parametrize(("world", "seed"), [("release", 34), ("doors", 4), ("owners", 8)])
def test_a_seed_replays_alone_and_after_others(world, seed):
    """Each event at the same virtual time; keys are drawn anew, and with them digests."""

    def trace(first, count):
        status, printed = simulate(world, first, "--count", count, "--verbose")
        assert status == 0
        return re.sub(r"[0-9a-f]{16,}|dpmpc-simulator-\w+|[0-9,]+ bytes are free", "...", printed).splitlines()[:-1]

    alone = trace(seed, 1)
    assert len(alone) > 10
    assert trace(seed - 1, 2)[-len(alone) :] == alone


@pytest.mark.parametrize("fault", FINDS)
def test_a_planted_fault_is_found(fault):
    world, first, kind = FINDS[fault]
    status, printed = simulate(world, first, "--count", SEEDS, "--plant", fault)
    assert (status, printed.startswith("seed ")) == (1, True), printed
    assert f"\n  {kind}" in printed, printed
