"""What is imported before it is needed, by count of modules and by time; and what is public, under which names."""

import inspect
import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import dpmpc
from dpmpc import FrequencyMoment, GroupedRidgeRegression, LogisticRegression, RidgeRegression
from dpmpc.base import errors
from dpmpc.base.randomness import Stream
from dpmpc.data import Codebook, Schema
from dpmpc.data.variables import Variable
from dpmpc.models.common.estimator import Estimator
from dpmpc.models.common.private_estimator import PrivateEstimator
from dpmpc.models.papers import baselines, coinpress, mutual_information
from dpmpc.owners import columns as data_release
from dpmpc.privacy.specification import flat_choices
from support.certified_releases import certify
from support.lints import check_each

SECONDS = 0.02  # what `import dpmpc` may take; the least of a few runs
RUNS = 15
HEAVY = ("sklearn", "scipy", "mpyc", "matplotlib", "pyarrow", "pandas", "dask", "numpy", "cryptography", "asyncio")
SLOW = ("sklearn", "pandas", "scipy.stats", "scipy.optimize")  # 1 to 3 seconds of a processor
FOR_ANALYSTS = ("sklearn", "scipy", "matplotlib", "pyarrow", "pandas", "dask", "rich")


def imported_by(module):
    """Top-level names of the modules that a fresh interpreter has after one import."""
    code = f"import {module}, json, sys; print(json.dumps(sorted({{name.split('.')[0] for name in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))  # after what MPyC logs


@pytest.mark.parametrize("module", ["dpmpc", "dpmpc.app.cli.main"])
def test_heavy_modules_are_imported_when_they_are_used(module):
    assert not imported_by(module) & set(HEAVY)


@pytest.mark.parametrize("program", ["ridge_regression", "low_rank_approximation", "frequency_moments"])
def test_a_server_imports_nothing_that_only_an_analyst_needs(program):
    assert not imported_by(f"dpmpc.parties.network.party, dpmpc.protocols.{program}") & set(FOR_ANALYSTS)


def test_the_copy_of_mpyc_of_a_party_stands_under_no_name_that_a_program_would_find():
    assert "mpyc" not in imported_by("dpmpc.parties.network.party")


def test_an_analyst_reads_a_release_without_scikit_learn():
    """What the programs' analysts import; the estimators' `fit`, which needs scikit-learn, is of no use to them."""
    modules = ", ".join(
        f"dpmpc.models.{name}"
        for name in (
            "regression.ridge_regression",
            "components.low_rank_approximation",
            "components.frequency_moment",
            "groups.grouped_ridge_regression",
            "regression.logistic_regression",
            "survival.cox_regression",
            "tables.table_one",
        )
    )
    code = f"import sys, {modules}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert not set(done.stdout.split()) & {*SLOW, "scipy.special"}


@pytest.mark.parametrize(
    "modules", ["dpmpc.app.cli.plan, dpmpc.app.render.plan", "dpmpc.app.cli.mix, dpmpc.app.render"]
)
def test_a_command_that_fits_nothing_imports_no_estimator(modules):
    """It takes a second, and `mix` is started once for each party."""
    assert not imported_by(modules) & {"sklearn", "pandas", "pyarrow"}


def loaded_by_commands(*commands):
    """Run commands one after the other in a fresh process; return of each its status and what is loaded after it."""
    code = (
        "import json, sys\nfrom dpmpc.app.cli.main import main\n"
        "for command in json.load(sys.stdin):\n"
        "    print('\\n' + json.dumps([main(command), sorted(sys.modules)]), file=sys.stderr)"
    )
    given = json.dumps([list(map(str, command)) for command in commands])
    done = subprocess.run(
        [sys.executable, "-c", code], input=given, capture_output=True, text=True, timeout=120, check=True
    )
    found = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("[")]
    assert len(found) == len(commands)
    return [(status, set(names)) for status, names in found]


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """Small releases of each kind that has regressions of its own, and rows to predict for."""
    folder = tmp_path_factory.mktemp("released")
    rng = np.random.default_rng(0)
    X, ward = rng.uniform(-1, 1, (4000, 2)), rng.choice(["north", "south"], 4000)
    y, died = X @ [0.5, -0.3], (X[:, 0] + rng.normal(0, 1, 4000) > 0).astype(int)
    choices = {"epsilon": 3.0, "bounds": (-1, 1), "simulation_seed": 1}
    RidgeRegression(sketch="sum", **choices).fit(X, y).release_.save(folder / "ridge")
    RidgeRegression(sketch="osnap", **choices).fit(X, y).release_.save(folder / "rows")
    GroupedRidgeRegression(["north", "south"], **choices).fit(X, y, groups=ward).release_.save(folder / "groups")
    LogisticRegression(rounds=0, classes=(0, 1), **choices).fit(X, died).releases_[0].save(folder / "outcomes")
    FrequencyMoment(**choices).fit(X[:, 0]).release_.save(folder / "moment")
    book = Codebook((Variable("group", values=("north", "south")), Variable("smoker", yes=("y",), no=("n",))))
    task = dpmpc.design(dpmpc.ReleaseSpec.of(Schema.of_codebook(book), 4000, 3.0, 1e-6, simulation_seed=1))
    shown = np.column_stack([ward == "south", died]).astype(float)
    dpmpc.simulate(task, shown, stream=Stream.from_seed(1)).save(folder / "categories")
    data_release.RMGM(rows=60, epsilon=8.0, simulation_seed=1).fit([X, y[:, None]]).release_.save(folder / "mixed")
    for name, sharing in (("collected", "additive"), ("shared", "shamir")):
        certified = certify(tmp_path_factory.mktemp(name), 3, [], sharing=sharing)
        shutil.copy(certified.path, folder / name)
        shutil.copy(certified.trial.task_file, folder / "collection")
    (folder / "rows.csv").write_text("x0,x1,group\n0.1,0.2,north\n")
    return folder


READING = {
    "read": ("read", "ridge"),
    "read a target": ("read", "ridge", "--target", "y", "--json"),
    "read rows": ("read", "rows", "--target", "y"),
    "read groups": ("read", "groups", "--target", "y"),
    "compare groups": ("read", "groups", "--model", "compare", "--target", "y", "--before", "x0"),
    "read a two-way table": ("read", "categories", "--crosstab", "group,smoker"),
    "read a logistic model": ("read", "outcomes", "--target", "y", "--model", "logistic"),
    "read a moment": ("read", "moment"),
    "read mixed rows": ("read", "mixed", "--target", "x2", "--method", "rmgm"),
    "read a collection": ("read", "collected", "--target", "y"),
    "predict": ("predict", "ridge", "rows.csv", "--target", "y"),
    "predict with a chosen penalty": ("predict", "ridge", "rows.csv", "--target", "y", "--alpha", "auto"),
    "predict by group": ("predict", "groups", "rows.csv", "--target", "y"),
    "predict a probability": ("predict", "outcomes", "rows.csv", "--target", "y", "--model", "logistic"),
    "verify": ("verify", "collected"),
    "verify Shamir shares": ("verify", "shared", "--json"),
    "inspect": ("inspect", "collection"),
}


@pytest.fixture(scope="module")
def after_reading(released):
    """Status and modules after each command of `READING`, all in one process: what one has loaded stays loaded."""
    commands = [
        [released / part if (released / str(part)).is_file() else part for part in command]
        for command in READING.values()
    ]
    return dict(zip(READING, loaded_by_commands(*commands), strict=True))


def test_reading_loads_neither_scikit_learn_nor_pandas(after_reading):
    """They take seconds, and a release says all that is read without them; the first that fails is who loads them."""

    def check(command):
        status, names = after_reading[command]
        assert status == 0
        assert not names & set(SLOW)

    check_each(check, READING)


def test_reading_a_sum_loads_only_what_its_answer_needs(released):
    """SciPy, a template engine and certificates take longer than all else (`bench startup`)."""
    ((status, names),) = loaded_by_commands(("read", released / "ridge", "--target", "y"))
    assert status == 0
    assert not names & {"scipy", "jinja2", "cryptography.x509", "dpmpc.collect.terms.certificate"}


def test_asking_servers_loads_no_numerical_library(released):
    ((status, names),) = loaded_by_commands(("status", released / "collection"))
    assert status == 3  # these servers are no more
    assert not names & {*SLOW, "scipy"}


def test_the_package_itself_is_imported_at_once():
    taken = []
    for _ in range(RUNS):
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-c", "import dpmpc"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        (microseconds,) = re.findall(r"\|\s*(\d+) \| dpmpc$", done.stderr, re.MULTILINE)
        taken.append(int(microseconds) / 1e6)
        if taken[-1] < SECONDS:
            break
    assert min(taken) < SECONDS


def test_only_public_names_are_shown():
    assert dir(dpmpc) == sorted(dpmpc.__all__)
    assert all(getattr(dpmpc, name) is not None for name in dir(dpmpc))
    with pytest.raises(AttributeError, match="no attribute 'ridge'"):
        _ = dpmpc.ridge


def test_every_error_that_users_meet_is_public():
    kinds = {
        name
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, Exception) and name != "BenchFailed"  # of a checkout's benches
    }
    assert kinds <= set(dpmpc.__all__)


def test_a_specification_is_designed_and_simulated_by_public_names():
    spec = dpmpc.ReleaseSpec(
        schema=dpmpc.Schema.unit(["x", "y"]),
        clients=2000,
        budget=dpmpc.Budget(1.0, 1e-6),
        trust=dpmpc.TrustModel(servers=2),
        mechanism=dpmpc.Mechanism(noise_by="servers"),
        sketch=dpmpc.Sketch("sum"),
    )
    task = dpmpc.design(spec)
    release = dpmpc.simulate(task, np.full((2000, 2), 0.5))
    assert isinstance(release, dpmpc.Release)
    assert "schema" in inspect.signature(dpmpc.ReleaseSpec).parameters
    assert release.guarantee.epsilon <= 1.0


#: Parameters that a class describes for itself, because it takes less or something else.
NARROWED: dict[str, set[str]] = {
    "FrequencyMoment": {"rows"},
    "LogisticRegression": {"epsilon", "delta", "bounds", "noise", "coalition", "calibration"},
    "PoissonRegression": {"epsilon", "delta", "bounds", "noise", "coalition", "calibration"},
}


def estimators():
    """Every estimator that a room exports, and those of the package itself."""
    for room in (dpmpc, baselines, coinpress, data_release, mutual_information):
        for name in room.__all__:
            kind = getattr(room, name)
            if inspect.isclass(kind) and issubclass(kind, Estimator):
                yield kind


def described(kind):
    """Return what the docstring of a class says of each parameter, with one blank between words."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-+$|\Z)", inspect.getdoc(kind), re.DOTALL | re.MULTILINE)
    entries = re.findall(r"^(\w[\w, ]*?) : .*\n((?:    .*(?:\n|\Z))+)", section[1], re.MULTILINE)
    named = [(name, " ".join(text.split())) for names, text in entries for name in names.split(", ")]
    assert len(dict(named)) == len(named), "documented twice"
    return dict(named)


def check_documented_parameters(kind):
    assert described(kind).keys() == inspect.signature(kind).parameters.keys()
    assert "Those of" not in kind.__doc__
    assert "**options" not in kind.__doc__


def check_described_choices(kind):
    """The words for a choice are those of the specification, and for an inherited parameter those of its class."""
    expected = described(PrivateEstimator) | {name: meta.description for name, (_, meta, _) in flat_choices().items()}
    narrowed = NARROWED.get(kind.__name__, set())
    entries = described(kind)
    assert narrowed <= entries.keys()
    different = {name for name in entries.keys() & expected if entries[name] != expected[name]}
    assert different == narrowed


def test_every_estimator_documents_every_parameter_of_its_own():
    check_each(check_documented_parameters, estimators(), name=lambda kind: f"{kind.__module__}.{kind.__name__}")


def test_estimators_describe_the_choices_of_a_release_as_it_does():
    private = [kind for kind in estimators() if issubclass(kind, PrivateEstimator)]
    check_each(check_described_choices, private, name=lambda kind: f"{kind.__module__}.{kind.__name__}")
