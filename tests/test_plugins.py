"""Public matrices, noises and models of another distribution: who takes them, and which version is rejected."""

import json
import os
import subprocess
import sys

import msgspec
import numpy as np
import pytest

from bench.system.collection_servers import Servers
from dpmpc import ReleaseSpec, RidgeRegression, Schema, design
from dpmpc.app.cli.main import main
from dpmpc.base import plugins
from dpmpc.base.plugins import Kinds, Open, Origin
from dpmpc.collect.terms.task_file import Collection
from dpmpc.linear.encoding.ring import Mersenne61, ring_named
from dpmpc.linear.noise import FAMILIES, Noise, noise_from
from dpmpc.linear.sketching import sketch_from
from dpmpc.linear.sketching.public_matrix import PublicMatrix
from dpmpc.models.fitted import class_of
from dpmpc.privacy.task import Task
from dpmpc.release.release import Release
from support.pages import ROOT
from support.plugins import available, install
from support.rejections import rejects

NOISE, SKETCH, MODEL = "diluted-laplace", "block-countsketch", "elastic-net"
CHOICES = ["--noise", NOISE, "--sketch", SKETCH, "--rows", "40", "--epsilon", "2", "--delta", "1e-5"]


@pytest.fixture
def installed(examples_installed):
    with available(examples_installed):
        yield examples_installed


@pytest.fixture
def table(tmp_path):
    """A table of people, with its bounds file beside it."""
    X = np.random.default_rng(0).uniform(-1, 1, (4000, 3))
    X[:, 2] = 0.6 * X[:, 0] - 0.3 * X[:, 1]
    np.savetxt(tmp_path / "people.csv", X, delimiter=",", header="a,b,y", comments="")
    bounds = "".join(f"[columns.{name}]\nlower = -1.0\nupper = 1.0\n" for name in "aby")
    (tmp_path / "bounds.toml").write_text(bounds)
    return tmp_path


def a_task(**changes):
    choices = {"noise": NOISE, "sketch": SKETCH, "rows": 40, "simulation_seed": 3, **changes}
    return design(ReleaseSpec.of(Schema.unit(["a", "b", "y"]), 4000, 2.0, 1e-5, **choices))


def test_a_task_states_where_its_noise_and_its_matrix_come_from(installed):
    facts = a_task().to_dict()
    origins = [facts[what]["plugin"] for what in ("noise", "sketch")]
    assert {(one["distribution"], one["version"]) for one in origins} == {("dpmpc-examples", "1.0")}
    assert [len(one["digest"]) for one in origins] == [64, 64]
    assert Task.from_dict(facts).verify() == a_task()
    assert "plugin" not in a_task(noise="discrete-gaussian", sketch="osnap").to_dict()["noise"]


@pytest.mark.parametrize(("version", "changed"), [("2.0", ""), ("1.0", "# another line\n")], ids=["version", "code"])
def test_a_party_with_another_version_or_other_code_rejects_a_task(installed, tmp_path, version, changed):
    facts = a_task().to_dict()
    with available(install(tmp_path, version, changed)):
        for what, read in (("sketch", sketch_from), ("noise", noise_from)):
            stated = msgspec.convert(facts[what]["plugin"], Origin)
            with rejects(what, given=f"{facts[what].get('name') or facts[what].get('family')} of {stated}"):
                read(facts[what])
        with rejects("sketch"):
            Task.from_dict(facts)


def test_a_party_without_the_distribution_rejects_a_task(installed, examples_installed):
    facts, own = a_task().to_dict(), a_task(noise="discrete-gaussian", sketch="osnap").to_dict()["noise"]
    sys.path.remove(str(examples_installed))
    try:
        plugins.declared.cache_clear()
        FAMILIES.data.pop(NOISE)
        stated = msgspec.convert(facts["noise"]["plugin"], Origin)
        with rejects("noise", given=f"{NOISE} of {stated}, which is not installed here"):
            noise_from(facts["noise"])
        with rejects("noise", given="name: 'diluted-laplace'"):
            noise_from({key: value for key, value in facts["noise"].items() if key != "plugin"})
    finally:
        sys.path.insert(0, str(examples_installed))
    with rejects(
        "noise", given="discrete-gaussian of a 1 (0000000000000000...)"
    ):  # the package's own noise is no one else's
        noise_from(own | {"plugin": {"distribution": "a", "version": "1", "digest": "0" * 64}})
    with rejects("noise"):
        noise_from(own | {"plugin": {"distribution": "a", "version": "1", "digest": 0}})


class Modulo(PublicMatrix):
    """Consecutive clients have consecutive rows; `deed` is what `_add` does wrong."""

    family, deed = "modulo", None

    def __init__(self, rows, columns, sparsity=1):
        super().__init__(rows, columns, sparsity, balanced=True)

    def entries(self, first, count):
        rows = np.arange(first, first + count)[:, None] + np.arange(self.sparsity)
        return rows % self.rows, np.where(rows % 3, 1, -1).astype(np.int8)

    def _add(self, kind, first, X, Y):
        rows, signs = self.entries(first, len(X))
        X = X.reshape(len(X), -1, Y.shape[1])
        for client, copy in np.ndindex(rows.shape):
            row, sign, terms = rows[client, copy], signs[client, copy], X[client, copy % X.shape[1]]
            sign = 1 if self.deed == "a sign" and first + client == 0 else sign
            if kind == "float64":
                Y[row] = (Y[row].view(np.float64) + sign * terms.view(np.float64)).view(np.uint64)
            elif kind == "ring64" or self.deed == "not reduced":
                Y[row] += terms if sign > 0 else -terms
            else:
                Y[row] = (Y[row].astype(object) + sign * terms.astype(object)) % Mersenne61.modulus
            if self.deed == "the last one" and first + client == self.columns - 1:
                Y[row] += np.uint64(1)


@pytest.mark.parametrize("sparsity", [1, 2])
@pytest.mark.parametrize("ring", ["ring64", "mersenne61"])
def test_a_matrix_from_elsewhere_is_applied_if_its_sums_are_those_of_its_entries(ring, sparsity):
    X = np.random.default_rng(2).integers(0, 1 << 60, (300, 2), dtype=np.uint64)
    matrix = Modulo(7, 300, sparsity)
    expected = matrix.to_csc().toarray().astype(object) @ X.astype(object) % ring_named(ring).modulus
    assert np.array_equal(matrix.apply(X, ring=ring), expected)
    matrix = Modulo(7, 300, sparsity)
    for matrix.deed in ("a sign", "not reduced", "the last one"):
        vars(matrix).pop("_sums_its_entries", None)
        with rejects("sketch"):
            matrix.apply(X, ring=ring)


def test_three_server_processes_release_with_a_noise_and_a_matrix_of_another_distribution(installed, table):
    command = ["fit", str(table / "people.csv"), "--target", "y", "--bounds", str(table / "bounds.toml")]
    assert main([*command, "--rounds", "0", *CHOICES, "--out", str(table / "out")]) == 0
    release = Release.load(table / "out" / "release.dpmpc")
    assert (release.task.noise.name, release.task.sketch.family) == (NOISE, SKETCH)
    assert release.task.noise.origin.version == release.task.sketch.origin.version == "1.0"


def test_a_model_of_another_distribution_is_fitted_planned_read_and_predicts(installed, table, capsys):
    command = ["fit", str(table / "people.csv"), "--target", "y", "--bounds", str(table / "bounds.toml")]
    budget = ["--epsilon", "2", "--delta", "1e-5"]
    assert main([*command, "--model", MODEL, "--alpha", "0.02", *budget, "--out", str(table / "out")]) == 0
    result = json.loads((table / "out" / "result.json").read_text())
    assert result["model"] == MODEL
    assert result["result"]["coefficients"]["a"] == pytest.approx(0.55, abs=0.1)
    capsys.readouterr()
    assert main(["predict", str(table / "out"), str(table / "people.csv")]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "row,predicted y"
    assert main(["read", str(table / "out")]) == 0
    assert main(["plan", "--model", MODEL, "--clients", "1e4", "--columns", "3", *budget]) == 0
    assert f"Plan of {MODEL}" in capsys.readouterr().out


def test_an_mpyc_program_runs_among_three_processes(installed):
    """The parties of MPyC design the task, compare it, and draw noise and matrix of another distribution."""
    command = ["run", str(ROOT / "protocols" / "linear_transform.py"), "-M3", "--clients", "60000", *CHOICES]
    path = os.pathsep.join([str(ROOT), os.environ["PYTHONPATH"]])
    done = subprocess.run(
        [sys.executable, "-m", "dpmpc", *command],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_collection_rejects_what_another_distribution_brings(installed, tmp_path):
    for what, name in (("noise", NOISE), ("sketch", SKETCH)):
        (tmp_path / what).mkdir()
        with rejects(what, given=f"{name!r} of another distribution"):
            Servers.make(tmp_path / what, copies="each", **{what: name})


def test_a_task_file_that_names_a_plugin_is_rejected_before_its_code_is_imported(installed, tmp_path):
    facts = Servers.make(tmp_path).collection.to_dict()
    facts["task"]["noise"] = {"name": NOISE, "scale": 3, "chance": 0.5}
    with rejects("noise", given=f"{NOISE!r} of another distribution"):
        Collection.from_dict(facts)
    assert "diluted_laplace" not in sys.modules


def declare(folder, group, *points, distribution="acme", module=""):
    """Write a distribution that declares entry points, and a module `acme`."""
    own = folder / f"{distribution}-1.dist-info"
    own.mkdir(parents=True)
    (own / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1\n")
    (own / "entry_points.txt").write_text("\n".join([f"[{group}]", *points]) + "\n")
    (folder / "acme.py").write_text(module)


@pytest.mark.parametrize(
    ("point", "module", "given"),
    [
        ("odd = acme:Odd", "", "'odd' of acme 1, which cannot be imported"),
        ("odd = acme:Odd", "Odd = 3", "'odd' of acme 1: 3"),
        ("odd = acme:Odd", "from dpmpc.linear.noise import DiscreteGaussian as Odd", "'odd' for a class"),
    ],
)
def test_an_entry_point_that_brings_no_such_class_is_rejected(tmp_path, point, module, given):
    declare(tmp_path, plugins.NOISES, point, module=module)
    sys.modules.pop("acme", None)
    with available(tmp_path), rejects(plugins.NOISES) as rejected:
        noise_from({"name": "odd"})
    sys.modules.pop("acme", None)
    assert rejected.value.given.startswith(given)


def test_a_model_of_another_name_than_its_entry_point_is_rejected(tmp_path):
    declare(tmp_path, plugins.MODELS, "odd = acme:Odd", module="from dpmpc import RidgeRegression as Odd")
    with available(tmp_path), rejects(plugins.MODELS, given="'odd' for a class whose kind is 'ridge'", expected="odd"):
        class_of("odd")
    sys.modules.pop("acme", None)


def test_a_name_that_two_distributions_declare_is_rejected(tmp_path):
    for distribution in ("acme", "brand"):
        declare(tmp_path / distribution, plugins.NOISES, "odd = acme:Odd", distribution=distribution)
    with (
        available(tmp_path / "acme"),
        available(tmp_path / "brand"),
        rejects(plugins.NOISES, given="'odd' of acme and of brand"),
    ):
        noise_from({"name": "odd"})


def test_no_distribution_takes_a_name_of_the_package(tmp_path):
    declare(tmp_path, plugins.NOISES, "skellam = acme:Odd")
    with available(tmp_path):
        assert FAMILIES["skellam"].origin is None
        assert not FAMILIES.foreign("skellam")
        assert RidgeRegression(noise="skellam", epsilon=1.0, delta=1e-6).noise == "skellam"


def test_names_of_entry_points_are_no_part_of_what_is_listed(installed):
    names = Open(("skellam",), plugins.NOISES)
    assert list(names) == ["skellam"]
    assert NOISE in names
    assert "odd" not in names
    kinds = Kinds(plugins.NOISES, {}, Noise, "name")
    assert (NOISE in kinds, kinds.foreign(NOISE), list(kinds)) == (True, True, [])
