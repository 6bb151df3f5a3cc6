"""The programs of `protocols/` as a user starts them, and the sketch that MPyC takes over unopened.

Randomness has a fixed seed wherever an answer is judged, so that nothing here fails by chance.
"""

import ast
import importlib.util
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dpmpc.app.cli.demo import RELEASES
from dpmpc.base.errors import InconsistentShares, OverflowRisk
from dpmpc.base.randomness import Stream, stream_for
from dpmpc.data import Schema
from dpmpc.data.demo import DEMO_BOUNDS, DEMO_FEATURES, DEMO_RADIUS, DEMO_TARGET, demo_population
from dpmpc.linear.encoding.fixed_point import FixedPoint
from dpmpc.models import FrequencyMoment, LowRankApproximation, RidgeRegression
from dpmpc.owners.columns.mixing_parties import PROGRAM as MIXING
from dpmpc.parties import networked
from dpmpc.parties.mpyc.closed_tasks import require_products, require_square
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release import simulation as model
from dpmpc.release.client import share_batch
from dpmpc.release.planning import design
from dpmpc.release.release import GramRelease
from support import forks
from support.closed_sketches import UNOPENED_MOMENT, UNOPENED_RIDGE, item_task, products_task
from support.rejections import rejects
from support.unverified import unverified

PROGRAMS = Path(__file__).parents[2] / "protocols"
DEMO_CLIENTS = 30_000
CLIENTS, ITEMS, ROWS = 3000, 12, 32
SECONDS = 120


def start(program, *arguments):
    return forks.run(*arguments, program=[PROGRAMS / f"{program}.py"])


def run_anew(*arguments):
    """Start a command as a user does, with interpreters for all its processes."""
    command = [sys.executable, "-m", "dpmpc", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)


def test_the_demonstration_is_that_of_this_process():
    """Sketch and sum by three server processes, started as a user does, give the bits of one process."""
    chosen = ("--clients", DEMO_CLIENTS, "--delta", 1e-6, "--simulation-seed", 3, "--json")
    done = run_anew("demo", "-M3", *chosen)
    assert done.returncode == 0, done.stderr
    fields = json.loads(done.stdout)
    for name, answer in (("sketch", fields), ("sum", fields["sum"])):
        assert [entry["server"] for entry in answer["timing"]["per_server"]] == [0, 1, 2]
        choices = {"sketch": RELEASES[name], "radius": DEMO_RADIUS, "simulation_seed": 3}
        task = design(ReleaseSpec.of(DEMO_BOUNDS, DEMO_CLIENTS, 1.0, 1e-6, **choices))
        release = model.run(task, demo_population(DEMO_CLIENTS).table.values, stream=stream_for(3))
        fitted = RidgeRegression().fit_release(release, target=DEMO_TARGET)
        result = answer["result"]
        assert tuple(result["coefficients"]) == DEMO_FEATURES
        assert list(result["coefficients"].values()) == pytest.approx(list(fitted.coef_), rel=1e-12)
        assert result["intercept"] == pytest.approx(fitted.intercept_, rel=1e-12)
        compared = result["not_private"]
        assert 1 <= compared["approximation_factor"] < 0.6 * compared["trivial_factor"]


@pytest.mark.parametrize(
    ("program", "ratio"),
    [
        ("logistic_regression", "odds ratio"),
        pytest.param(
            "poisson_regression", "rate ratio", marks=pytest.mark.long("the other program, with its own link")
        ),
    ],
)
def test_models_in_rounds_among_three_servers(program, ratio):
    """Sums of one round beside the start, by servers of their own; what is found is near what generated the people."""
    options = ("--clients", 6000, "--rounds", 1, "--epsilon", 3, "--simulation-seed", 4)
    done = start(program, "-M3", *options)
    assert done.returncode == 0, done.stderr
    for words in (
        "truth",
        ratio,
        "second moments",
        "round 1",
        "(3, 1e-06)-differential privacy for each of 6,000",
        "s of CPU, sent ",
    ):
        assert words in done.stdout
    _, truth, found, error = next(line.split() for line in done.stdout.splitlines() if "smoker" in line)[:4]
    assert abs(float(found) - float(truth)) < 4 * float(error)


def test_data_owners_fit_their_rows_together():
    done = start("data_owners", "-M3", "--clients", 6000, "--epsilon", 5, "--delta", 1e-6)
    assert done.returncode == 0, done.stderr
    for words in ("truth", "odds ratio", "(5, 1e-06)-differential privacy for each of 6,000", "s of CPU, sent "):
        assert words in done.stdout


def test_parties_with_different_columns_release_them():
    done = start("random_mixing", "-M3", "--clients", 3000, "--epsilon", 20, "--delta", 1e-5)
    assert done.returncode == 0, done.stderr
    for words in ("Coefficients", *DEMO_FEATURES, "differential privacy"):
        assert words in done.stdout


@pytest.mark.parametrize("program", ["coinpress", "data_owners"])
def test_options_of_the_launcher_of_mpyc_lead_to_the_page(program):
    done = start(program, "-P", "a.example:1", "-I", "0")
    assert (done.returncode, done.stdout) == (2, "")
    assert "InputError: -P: given" in done.stderr
    assert "docs/how-to/mpyc.md" in done.stderr


def test_a_collection_is_released_by_another_command():
    done = start("collected_release", "-M3")
    assert (done.returncode, done.stdout) == (2, "")
    assert "dpmpc release COLLECTION --server I" in done.stderr


@pytest.mark.parametrize("program", sorted(PROGRAMS.glob("[!_]*.py")), ids=lambda path: path.stem)
def test_every_program_can_be_started_by_hand(program):
    assert 'if __name__ == "__main__":\n' in program.read_text()


@pytest.mark.parametrize("program", [networked.PROGRAM, networked.PROGRAM_WITH_PROOFS, MIXING])
def test_programs_that_are_started_by_name_exist(program):
    body = ast.parse(Path(importlib.util.find_spec(program).origin).read_text()).body
    assert [node.name for node in body if isinstance(node, ast.AsyncFunctionDef) and node.name == "main"] == ["main"]


def items():
    return np.random.default_rng(2).integers(0, ITEMS, (CLIENTS, 1)).astype(float)


@pytest.mark.parametrize("servers", [3, pytest.param(4, marks=pytest.mark.long("every number of servers")), 5])
def test_mpyc_finds_what_the_opened_sketch_shows(servers):
    """The same shares give the same integer ||z||^2; a server sends the analyst one word, others those of the check."""
    task = item_task(CLIENTS, ITEMS, rows=ROWS, servers=servers)
    release = model.run(task, items(), stream=Stream.from_seed(8))
    done = networked.run_parties(UNOPENED_MOMENT, task, networked.clients(task, items(), stream=Stream.from_seed(8)))
    assert done.answer["squared_norm"] == sum(int(z) ** 2 for z in release.sums.ravel())
    fitted = FrequencyMoment(of="items").fit_release(release)
    assert done.answer["moment"] == pytest.approx(fitted.moment_, rel=1e-12)
    assert done.answer["standard_error"] == pytest.approx(fitted.standard_error_, rel=1e-12)
    for spent in done.servers:
        assert set(spent.phases) == {"read", "transform", "multiply", "input", "open"}
        for peer, traffic in spent.peers.items():
            if peer == servers:
                assert traffic.payload.sent == 8
                continue
            mask, check, product = 8 * ROWS, 8 * (ROWS + 1), 8 * 2
            toss, signed = 32 + 64 + 64, 5 * (32 + 32 + 1 + 72)  # signatures of 8 to 72 bytes
            sent = {mask + check + made for made in (0, product)}
            assert any(words < traffic.payload.sent - toss <= words + signed for words in sent)
    assert done.analyst.payload_received == 8 * servers


def test_ridge_from_products_of_mpyc_is_ridge_from_the_opened_sketch():
    """A^T A agrees to the last bit, and so does what every estimator of second moments makes of it."""
    rows = np.random.default_rng(4).uniform(-1, 1, (CLIENTS, 3))
    rows[:, 2] = 0.5 * rows[:, 0] - 0.25 * rows[:, 1]
    task = products_task(["a", "b", "y"], CLIENTS, rows=20, sketch="osnap", sparsity=2)
    release = model.run(task, rows, stream=Stream.from_seed(9))
    done = networked.run_parties(
        UNOPENED_RIDGE,
        task,
        networked.clients(task, rows, stream=Stream.from_seed(9)),
        arguments={"target": "y", "model": {"alpha": 2.0}},
    )
    ones = np.rint(release.ones / task.sketch.scale).astype(int)
    opened = np.column_stack([ones, release.sums]).astype(object)
    assert done.answer["products"] == (opened.T @ opened).tolist()
    fitted = RidgeRegression(2.0).fit_release(release, target="y")
    assert list(done.answer["coefficients"].values()) == pytest.approx(list(fitted.coef_), rel=1e-9)
    closed = GramRelease(task, np.array(done.answer["products"]))
    assert LowRankApproximation(1).fit_release(closed).components_ == pytest.approx(
        LowRankApproximation(1).fit_release(release).components_, rel=1e-9
    )
    assert closed.guarantee == task.unopened_guarantee
    assert done.analyst.payload_received == 3 * 8 * 16


@pytest.mark.parametrize("products", [np.zeros((3, 3), np.int64), np.zeros((4, 4))])
def test_products_of_another_shape_are_refused(products):
    task = products_task(["a", "b", "y"], CLIENTS, rows=20)
    with rejects("products", expected="int64 (4, 4)"):
        GramRelease(task, products)


@pytest.mark.parametrize(("servers", "named"), [(3, None), (4, 1), (5, None)])
def test_a_wrong_share_of_the_answer_is_noticed(servers, named):
    """Of four shares on a line three show the fourth; of three on a line, or five on a parabola, nobody is sure."""
    task = item_task(CLIENTS, ITEMS, rows=ROWS, servers=servers)
    shares = share_batch(task, items(), stream=Stream.from_seed(1))
    with pytest.raises(InconsistentShares) as failure:
        networked.run_parties("network_programs.meddling_moment", task, shares)
    assert failure.value.party == named


def test_additive_shares_are_not_mpycs():
    task = design(ReleaseSpec.of(Schema.unit(["a", "b"]), CLIENTS, 1.0, 1e-6, simulation_seed=1))
    for require in (require_square, require_products):
        with rejects("sharing", expected="'shamir'"):
            require(task)
    with rejects("party 0"):
        networked.run_parties(UNOPENED_MOMENT, task, networked.clients(task, np.zeros((CLIENTS, 2))))


def test_only_items_are_squared():
    task = design(ReleaseSpec.of(Schema.unit(["a", "b"]), CLIENTS, 1.0, 1e-6, sharing="shamir", simulation_seed=1))
    with rejects("statistic", expected="'item-sketch'"):
        require_square(task)
    with rejects("statistic", expected="'rows'"):
        require_products(task)


def test_the_square_never_wraps_around():
    """The chosen fractional bits fit for batches of every size; one bit more would not, or two."""
    for clients in (100, CLIENTS, 100_000, 1_000_000):
        task = item_task(clients, 100, delta=1e-7)
        bits = task.encoding.fractional_bits
        most = clients * 2**bits + math.sqrt(task.width) * task.modulus_plan.tail
        assert most**2 < 2**61 - 1
        with pytest.raises(OverflowRisk, match=f"fractional_bits: {bits + 2} given"):
            item_task(clients, 100, delta=1e-7, fractional_bits=bits + 2)


@pytest.mark.parametrize("clients", [2_000, 100_000])
def test_the_products_never_wrap_around(clients):
    """Every client in the fullest place with the largest entry, and the noise at its bound: products stay below p/2."""
    task = products_task(["a", "y"], clients, rows=40, delta=1e-7)
    fullest = task.sketch.occupancy() * 2**task.encoding.fractional_bits + int(task.modulus_plan.tail) + 1
    assert sum(int(entry) ** 2 for entry in fullest) < 2**60
    finer = unverified(task, encoding=FixedPoint(task.encoding.fractional_bits + 12, "mersenne61"))
    with rejects("fractional_bits", OverflowRisk):
        require_products(finer)


WITHOUT_SCIPY = """
import numpy as np
from dpmpc.parties import networked
from dpmpc.release.client import share_batch
from dpmpc.data import Schema
from dpmpc.release import design
from dpmpc.privacy.specification import ReleaseSpec
task = design(ReleaseSpec.of(Schema.unit(["a", "b"]), 3000, 1.0, 1e-6))
done = networked.run_parties("network_programs.without_scipy", task, share_batch(task, np.zeros((3000, 2))))
print(done.answer)
"""


def test_a_server_and_an_analyst_do_without_scipy():
    """SciPy takes half of a party's start, and only calibration and simulations need it."""
    command, environment = (
        [sys.executable, "-c", WITHOUT_SCIPY],
        {**os.environ, "PYTHONPATH": str(PROGRAMS.parent / "tests")},
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert (done.stdout, done.returncode) == ("{'scipy': False}\n", 0), done.stderr
