"""`dpmpc read`: every release file that dpmpc writes, told apart by content, in each form."""

import csv
import io
import json
import string

import numpy as np
import pytest

from bench.secure_sketching.coverage import release_of_law
from dpmpc import FrequencyMoment, RidgeRegression
from dpmpc.base.randomness import Stream
from dpmpc.data import Column, Schema
from dpmpc.owners.columns import RMGM
from dpmpc.owners.columns import design as mixing_design
from dpmpc.owners.columns.mixed_release import MixedRelease
from dpmpc.parties.network.identity import fingerprint
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning import design
from dpmpc.release.release import Release
from support.certified_releases import certify
from support.command_inputs import status_of

PRINTABLE = set(string.printable) - set("\x0b\x0c\r")
PUBLIC = Schema(
    tuple(Column(name, *ends) for name, ends in (("age", (0, 100)), ("ward, B", (0, 1)), ("stay", (0, 30))))
)


def released(path, *, epsilon=3.0, clients=20_000, **choices):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (clients, 2)) * [100, 1]
    data = np.column_stack([X, 3 + 0.1 * X[:, 0] + 4 * X[:, 1] + rng.uniform(-5, 5, clients)])
    task = design(ReleaseSpec.of(PUBLIC, clients, epsilon, 1e-6, simulation_seed=0, **choices))
    release = release_of_law(task, data, rng)
    release.save(path)
    return release


@pytest.fixture(scope="module")
def moments(tmp_path_factory):
    path = tmp_path_factory.mktemp("moments") / "release"
    return path, released(path, sketch="sum")


@pytest.fixture(scope="module")
def collected(tmp_path_factory):
    return certify(tmp_path_factory.mktemp("collected"), 3, [], noise_by="servers", corrupt_clients=None)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """Noise alone."""
    path = tmp_path_factory.mktemp("mixed") / "mixed.dpmpc"
    task = mixing_design([["a", "b"], ["c", "y"]], 120, 1.0, 1e-5, rows=30)
    noise = task.noise.sample((30, 4), Stream.from_seed(1))
    MixedRelease(task, noise, {"method": "rmgm", "parties": ["l", "r"]}).save(path)
    return path


def run(capsys, *arguments, status=0):
    assert status_of(("read", *arguments)) == status
    return capsys.readouterr()


@pytest.mark.parametrize("kind", ["release", "collection", "mixed"])
def test_every_file_is_read_in_every_form(kind, moments, collected, mixed, capsys):
    path = {"release": moments[0], "collection": collected.path, "mixed": mixed}[kind]
    told = run(capsys, path)
    fields = json.loads(run(capsys, path, "--json").out)
    assert fields["kind"] == kind
    assert fields["title"] + "\n" in told.out
    assert "neighbouring: " in told.out
    page = run(capsys, path, "--html").out
    assert f"<title>{fields['title']}</title>" in page
    for text in fields["about"]["operators"]:
        assert text in told.out
        assert text in page


def test_collections_and_mixed_files_have_title_dates_and_operators(collected, mixed, capsys):
    fields = json.loads(run(capsys, collected.path, "--json").out)
    assert fields["title"] == "a trial"
    manifest = collected.certificate.statement.manifest
    assert fields["about"]["dates"][0] == f"opened {manifest.time}"
    key = fingerprint(collected.trial.collection.servers[2].certificate.encode())
    assert fields["about"]["operators"][2].startswith(f"server 2: server-2.example, key {key[:8]}")
    fields = json.loads(run(capsys, mixed, "--json").out)
    assert fields["title"] == "Release of 120 people by 2 parties with different columns"
    assert fields["about"]["operators"] == ["l: a, b", "r: c, y"]


def test_coefficients_of_a_collection(collected, capsys):
    path = collected.path
    told = run(capsys, path, "--target", "y")
    assert "coefficients of this model cannot be identified" in told.err
    fields = json.loads(run(capsys, path, "--target", "y", "--json").out)
    model = RidgeRegression().fit_release(Release.load(path), "y")
    assert fields["result"]["informative"] is False
    assert fields["result"]["coefficients"] == {"a": pytest.approx(model.coef_[0])}


def test_a_regression_in_every_form(moments, capsys):
    path, release = moments
    summary = RidgeRegression().fit_release(release, "stay").summary(0.9)
    asked = [path, "--target", "stay", "--level", 0.9]
    told = run(capsys, *asked)
    assert not told.err
    assert "Regression of stay" in told.out
    fields = json.loads(run(capsys, *asked, "--json").out)
    assert fields["result"]["unpenalised_coefficients"]["age"] == summary.inference.coef[0]
    assert fields["result"]["r_squared"] == summary.inference.r_squared
    rows = list(csv.reader(io.StringIO(run(capsys, *asked, "--csv").out)))
    assert [row[0] for row in rows] == ["column", "age", "ward, B", "intercept"]
    assert float(rows[1][1]) == summary.inference.coef[0]
    assert run(capsys, *asked, "--latex").out == summary.to_latex()
    page = run(capsys, *asked, "--html").out
    assert "<h1>Ridge regression of stay</h1>" in page
    assert "Noise against signal" in page


def test_some_features_and_groups(moments, capsys):
    path, release = moments
    model = RidgeRegression().fit_release(release, "stay", features=["age"])
    told = run(capsys, path, "--target", "stay", "--features", "age", "--group", "g=age", "--json")
    fields = json.loads(told.out)
    assert fields["features"] == 1
    result = fields["result"]
    assert result["coefficients"] == {"age": model.coef_[0]}
    z = result["unpenalised_coefficients"]["age"] / result["standard_errors"]["age"]
    assert result["tests"]["g"]["F"] == pytest.approx(z**2)
    page = run(capsys, path, "--target", "stay", "--features", "age", "--html").out
    assert "features=[&#39;age&#39;]" in page


def test_without_target_columns_are_described(moments, capsys):
    path, release = moments
    fields = json.loads(run(capsys, path, "--json").out)
    assert fields["description"]["age"]["mean"] == release.describe().means[0]
    assert set(fields["correlations"]) == {"age, ward, B", "age, stay", "ward, B, stay"}
    assert "Correlations" in run(capsys, path, "--html").out
    assert run(capsys, path, "--csv").out == "\n".join(table.to_csv() for table in release.describe().tables)


@pytest.mark.parametrize("of", ["values", "items"])
def test_moments_are_read(of, tmp_path, capsys):
    model = FrequencyMoment(2, of=of, epsilon=2.0, bounds=(0, 9), delta=1e-3, simulation_seed=1)
    model.fit(np.arange(400) % 10)
    model.release_.save(tmp_path / "release")
    fields = json.loads(run(capsys, tmp_path / "release", "--json").out)
    assert fields["result"]["moment"] == pytest.approx(model.moment_)
    assert fields["result"]["of"] == of
    assert run(capsys, tmp_path / "release", "--target", "x0", status=2).err.count("\n") == 1


def test_mixed_files_have_features_method_and_ridge(mixed, capsys):
    asked = [mixed, "--target", "y", "--features", "c,a", "--method", "rmgm", "--ridge", 0.5, "--json"]
    fields = json.loads(run(capsys, *asked).out)
    model = RMGM(ridge=0.5).fit_release(MixedRelease.load(mixed), "y", features=["c", "a"])
    assert fields["coefficients"] == dict(zip(["c", "a"], model.coef_.tolist(), strict=True))
    rows = MixedRelease.load(mixed).rows[:, [2, 0, 3]]
    second = rows.T @ rows / 120
    theta = np.linalg.solve(second[:2, :2] + 0.5 * np.eye(2), second[:2, 2])
    np.testing.assert_allclose(model.model_.weights, theta)
    page = run(capsys, mixed, "--target", "y", "--html").out
    assert "Verdict." in page
    assert "<svg" not in page


def test_mixed_files_have_standard_errors_and_tests(mixed, tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (5_000, 2))
    model = RMGM(rows=60, epsilon=8.0, simulation_seed=1).fit([X, (X @ [0.5, -0.3])[:, None]])
    path = tmp_path / "mixed.dpmpc"
    model.release_.save(path)
    asked = [path, "--target", "x2", "--method", "rmgm"]
    found = model.inference(0.9)
    fields = json.loads(run(capsys, *asked, "--level", 0.9, "--group", "both=x0,x1", "--json").out)
    assert fields["standard_errors"] == dict(zip(["x0", "x1"], found.standard_errors.tolist(), strict=True))
    assert fields["confidence_intervals"]["x0"] == found.confidence_intervals[0].tolist()
    assert fields["regression"]["tests"]["both"]["degrees"] == [2, 58]
    text = run(capsys, *asked).out
    assert "std. error" in text
    assert "errors cover sampling, sketch and noise" in text
    assert "std. error" in run(capsys, *asked, "--html").out
    text = run(capsys, mixed, "--target", "y").out
    assert "std. error" not in text
    assert "The noise leaves no standard errors" in text
    fields = json.loads(run(capsys, mixed, "--target", "y", "--json").out)
    assert set(fields["standard_errors"].values()) == {None}


def test_a_hopeless_fit_starts_with_its_verdict_and_draws_nothing(tmp_path, capsys):
    released(tmp_path / "release", epsilon=0.001, clients=500, sketch="sum")
    told = run(capsys, tmp_path / "release", "--target", "stay", "--html")
    assert told.out.index("Verdict.") < told.out.index("clients with 3 columns")
    assert "<svg" not in told.out
    assert "coefficients of this model cannot be identified" in told.err
    assert "0." not in run(capsys, tmp_path / "release", "--target", "stay").out.split("(0.001,")[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--features", "age"], "target: none given"),
        (["--group", "g=age"], "target: none given"),
        (["--target", "age", "--features", "age"], "features: 'age' given, some of ward, B, stay expected"),
        (["--target", "age", "--features", ","], "',' given, names between commas expected"),
        (["--target", "age", "--group", "g"], "group: 'g' given, NAME=A,B expected"),
        (["--target", "age", "--group", "g=x"], "groups: 'g' with ('x',) given"),
        (["--target", "age", "--level", "2"], "level: 2.0 given"),
        (["--target", "age", "--method", "dgm"], "method: 'dgm' given, but that is for the public files of dpmpc mix"),
        (["--ridge", "1"], "ridge: 1.0 given, but that is for"),
        (["--target", "z"], "target: 'z' given"),
    ],
)
def test_what_cannot_be_asked_is_refused(moments, arguments, message, capsys):
    assert message in run(capsys, moments[0], *arguments, status=2).err


def test_a_table_that_is_not_there_is_not_printed(mixed, capsys):
    assert "csv: given, but this release has no table" in run(capsys, mixed, "--csv", status=2).err


def test_other_files_are_refused_with_what_reads_them(tmp_path, capsys):
    (tmp_path / "task.json").write_text("x = 1\n")
    for path in (tmp_path / "task.json", tmp_path / "none"):
        assert "a release of dpmpc fit, release or mix expected" in run(capsys, path, status=2).err
    assert "result.json cannot be read: No such file" in run(capsys, tmp_path, status=2).err


def test_a_large_claim_is_not_checked_for_longer_than_asked(tmp_path, capsys):
    released(tmp_path / "release", sketch="countsketch", rows=50)
    assert "longest" in run(capsys, tmp_path / "release", "--longest", 1e-9, status=2).err


def test_no_text_of_a_file_is_printed_raw(tmp_path, capsys):
    forged = "\x1b[2Jdone\nguarantee: epsilon = 0"
    task = mixing_design([["a"], ["b"]], 400, 1.0, 1e-5, rows=10)
    told = {"method": "rmgm", "parties": [forged, "<script>"], "date": forged, "software": forged}
    MixedRelease(task, np.zeros((10, 2), np.int64), told).save(tmp_path / "public")
    for arguments in ([], ["--target", "a"], ["--target", "a", "--csv"], ["--target", "a", "--latex"], ["--json"]):
        printed = run(capsys, tmp_path / "public", *arguments)
        assert set(printed.out + printed.err) <= PRINTABLE
        assert "\nguarantee: epsilon = 0" not in printed.out
    assert "<script>" not in run(capsys, tmp_path / "public", "--html").out
