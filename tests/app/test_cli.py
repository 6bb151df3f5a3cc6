"""The `dpmpc` command: what it prints and writes, its exit statuses, and that bad input leaves nothing behind."""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dpmpc
from dpmpc.app.cli.fit import FITTED
from dpmpc.app.cli.main import main, parser
from dpmpc.app.cli.model_options import example_of, model_of, options_by_model
from dpmpc.data import Schema, Table, write_csv
from dpmpc.linear.contributions import SecondMoments
from dpmpc.linear.proving import proved
from dpmpc.models.fitted import MODELS
from dpmpc.release.release import Release
from support.command_inputs import BOUNDS, BUDGET, NAMES, run
from support.rejections import exits
from support.waiting import wait_for


def table(clients=3000, seed=0):
    rng = np.random.default_rng(seed)
    features = rng.uniform(-2, 2, (clients, 2))
    score = 0.5 * features[:, 0] - 0.3 * features[:, 1] + 0.1 * rng.standard_normal(clients)
    return Table.from_any(np.column_stack([features, score]), names=NAMES)


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "people.csv"
    write_csv(path, table())
    (tmp_path / "bounds.toml").write_text(BOUNDS.to_toml())
    return path


def test_fit_prints_one_json_object_and_writes_everything(data, tmp_path, capsys):
    out = tmp_path / "result"
    one = ("--target", "score", "--sketch", "sum", "--bounds", tmp_path / "bounds.toml")
    status, printed, _ = run(capsys, "fit", data, *one, *BUDGET, "--json", "--out", out)
    assert status == 0
    fields = json.loads(printed)
    assert printed.count("\n") == 1
    public = {"kind", "title", "about", "clients", "features", "servers", "sketch", "privacy", "columns"}
    assert set(fields) == {*public, "model", "parameters", "timing", "result", "warnings"}
    assert (fields["model"], fields["clients"], fields["features"], fields["servers"]) == ("ridge", 3000, 2, 3)
    assert {"family", "rows", "sparsity"} <= set(fields["sketch"])
    privacy = fields["privacy"]
    assert (privacy["epsilon"], privacy["delta"], privacy["neighbouring"]) == (1.0, 1e-6, "replace-one")
    assert (privacy["corrupt_clients"], privacy["corrupt_servers"]) == (0, 2)
    assert "discrete-gaussian" in privacy["mechanism"]
    assert not privacy["simulation"]
    servers = fields["timing"]["per_server"]
    assert [entry["server"] for entry in servers] == [0, 1, 2]
    wanted = {"server", "transform_s", "open_s", "total_s", "bytes_sent", "bytes_received", "peak_rss_mb"}
    assert all(wanted <= set(entry) for entry in servers)
    assert all(fields["timing"][name] >= 0 for name in ("clients_s", "analysis_s", "wall_s"))
    assert set(fields["result"]["coefficients"]) == {"height", "weight"}
    assert "not_private" not in fields["result"]
    assert json.loads((out / "result.json").read_text()) == fields
    assert "differential privacy for each of 3,000 clients" in (out / "report.txt").read_text()
    assert Release.load(out / "release.dpmpc").clients == 3000
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["bounds.toml", "people.csv", "result"]


def test_fit_with_proofs_says_what_they_came_to_and_cost(data, tmp_path, capsys):
    """The same release as without, in the exact integers of the proofs; server time and bytes of the check apart."""
    out = tmp_path / "result"
    argv = ["fit", data, "--target", "score", "--bounds", tmp_path / "bounds.toml", *BUDGET, "--noise-by", "servers"]
    status, printed, _ = run(capsys, *argv, "--proved", "--json", "--out", out)
    assert status == 0
    fields = json.loads(printed)
    circuit = proved(SecondMoments(), 3, 9).circuit
    size = {"message_bytes": circuit.message_bytes, "words": circuit.words}
    assert fields["proofs"] == {"accepted": 3000, "refused": {}, **size}
    assert fields["sketch"]["statistic"] == "proved-second-moments"
    for server in fields["timing"]["per_server"]:
        assert server["verify_s"] > 0
        assert 2 * 3000 * circuit.message_bytes < server["verify_bytes_sent"] < server["bytes_sent"]
    assert "refused" not in fields["result"]
    text = (out / "report.txt").read_text()
    assert "Proofs: 3,000 of 3,000 reports accepted, none refused" in text
    assert "check proofs, s" in text
    page = (out / "report.html").read_text()
    assert "check proofs, s" in page
    assert "server to each other server, to check proofs" in page


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ([], "noise that a client adds cannot be proved"),
        (["--noise-by", "servers", "--sharing", "shamir"], "noise to Shamir shares in a collection with proofs only"),
        (["--noise-by", "servers", "--ring", "ring64"], "'mersenne61' expected with proofs"),
    ],
)
def test_fit_refuses_what_cannot_be_proved_with_the_reason(data, tmp_path, capsys, options, reason):
    argv = ["fit", data, "--target", "score", "--bounds", tmp_path / "bounds.toml", *BUDGET, "--proved"]
    status, _, told = run(capsys, *argv, *options)
    assert status == 2
    assert reason in told


def test_a_moment_is_proved(data, tmp_path, capsys):
    argv = ["fit", data, "--model", "moment", "--column", "score", "--bounds", tmp_path / "bounds.toml", *BUDGET]
    status, printed, _ = run(capsys, *argv, "--noise-by", "servers", "--proved", "--json", "--compare")
    assert status == 0
    fields = json.loads(printed)
    assert fields["sketch"]["statistic"] == "proved-power-sum"
    found = fields["result"]
    assert (
        abs(found["moment"] - found["not_private"]["exact_moment"]) < 7 * found["standard_error"]
    )  # false alarm 1e-11


def test_fit_says_how_far_off_the_coefficients_may_be(data, tmp_path, capsys):
    arguments = ["fit", data, "--target", "score", "--bounds", tmp_path / "bounds.toml", *BUDGET]
    out = tmp_path / "result"
    status, printed, _ = run(capsys, *arguments, "--alpha", "auto", "--json", "--out", out)
    assert status == 0
    result = json.loads(printed)["result"]
    fitted = dpmpc.RidgeRegression("auto").fit_release(Release.load(out / "release.dpmpc"), target="score")
    found = fitted.inference(result["confidence_level"])
    assert result["alpha"] == fitted.alpha_
    assert list(result["standard_errors"].values()) == pytest.approx(found.standard_errors.tolist())
    for name, (low, high) in result["confidence_intervals"].items():
        assert low < result["unpenalised_coefficients"][name] < high
    assert result["intercept_confidence_interval"] == pytest.approx(found.intercept_confidence_interval.tolist())
    assert result["unpenalised_intercept"] == pytest.approx(found.intercept)
    assert "std. error" in (out / "report.txt").read_text()
    sketched = [*arguments, "--sketch", "countsketch", "--rows", "20"]
    status, printed, _ = run(capsys, *sketched, "--json")
    assert status == 0
    result = json.loads(printed)["result"]
    assert result["confidence_intervals"] == {"height": [None, None], "weight": [None, None]}
    assert result["standard_errors"] == {"height": None, "weight": None}
    assert "Verdict. The coefficients of this model cannot be identified" in run(capsys, *sketched)[1]
    assert run(capsys, *arguments, "--alpha", "least")[0] == 2


def test_fit_tells_a_person_what_happened(data, tmp_path, capsys):
    status, printed, _ = run(
        capsys,
        *("fit", data, "--target", "score", "--bounds", tmp_path / "bounds.toml", *BUDGET),
        *("--sketch", "countsketch", "--rows", "20", "--simulation-seed", "3", "--servers", "2"),
        *("--compare", "--verbose"),
    )
    assert status == 0
    for words in ("SIMULATION", "trivial", "transform", "What is promised", "replaced by any other row"):
        assert words in printed


@pytest.mark.usefixtures("new_interpreters")
def test_networked_fit_agrees_with_the_in_process_run_of_the_same_seed(data, tmp_path, capsys):
    choices = ["--sketch", "osnap", "--rows", "16", "--sparsity", "2", "--simulation-seed", "11"]
    status, printed, _ = run(
        capsys, "fit", data, "--target", "score", "--bounds", tmp_path / "bounds.toml", *BUDGET, *choices, "--json"
    )
    assert status == 0
    values = table().values
    local = dpmpc.RidgeRegression(
        sketch="osnap", rows=16, sparsity=2, simulation_seed=11, bounds={"x0": (-2, 2), "x1": (-2, 2), "y": (-2, 2)}
    ).fit(values[:, :2], values[:, 2])
    assert list(json.loads(printed)["result"]["coefficients"].values()) == pytest.approx(list(local.coef_), rel=1e-12)


def test_networked_low_rank_agrees_with_the_in_process_run_of_the_same_seed(data, tmp_path, capsys):
    out = tmp_path / "result"
    arguments = ["fit", data, "--model", "low-rank", "--components", "2", "--bounds", tmp_path / "bounds.toml", *BUDGET]
    status, printed, _ = run(capsys, *arguments, "--simulation-seed", "3", "--json", "--compare", "--out", out)
    assert status == 0
    fields = json.loads(printed)
    assert (fields["model"], fields["features"], len(fields["timing"]["per_server"])) == ("low-rank", 3, 3)
    result = fields["result"]
    assert 0 <= result["not_private"]["psi"] < result["not_private"]["random_psi"]
    local = dpmpc.LowRankApproximation(2, simulation_seed=3, bounds=(-2, 2)).fit(table().values)
    assert [list(component) for component in result["components"]] == [list(NAMES)] * 2
    origin = dict.fromkeys(NAMES, 0.0)  # the middle of the bounds
    assert (fields["parameters"], result["origin"]) == ({"n_components": 2, "center": False}, origin)
    assert np.array([list(component.values()) for component in result["components"]]) == pytest.approx(
        local.components_, rel=1e-12
    )
    again = dpmpc.LowRankApproximation(2).fit_release(Release.load(out / "release.dpmpc"))
    assert again.components_ == pytest.approx(local.components_, rel=1e-12)
    assert json.loads((out / "not_private.json").read_text()) == result["not_private"]
    assert "not_private" not in json.loads((out / "result.json").read_text())["result"]
    assert "a random projection" not in (out / "report.txt").read_text()


@pytest.mark.parametrize(("options", "of", "order"), [(["--order", "4"], "values", 4), (["--items"], "items", 2)])
def test_networked_moments_agree_with_the_in_process_run_of_the_same_seed(options, of, order, tmp_path, capsys):
    values = np.random.default_rng(0).integers(0, 12, 3000)
    path = csv("name,age\n" + "".join(f"anon,{value}\n" for value in values))(tmp_path)
    (tmp_path / "bounds.toml").write_text(Schema.from_pair(["age", "size"], (0, 11)).to_toml())
    arguments = ["fit", path, "--model", "moment", "--column", "age", "--bounds", tmp_path / "bounds.toml", *BUDGET]
    status, printed, _ = run(capsys, *arguments, *options, "--simulation-seed", "3", "--json", "--compare")
    assert status == 0
    fields = json.loads(printed)
    assert (fields["model"], fields["features"], fields["sketch"]["family"]) == ("moment", 1, "sum")
    result = fields["result"]
    assert (result["column"], result["order"], result["of"]) == ("age", order, of)
    local = dpmpc.FrequencyMoment(order, of=of, bounds=(0, 11), simulation_seed=3).fit(values)
    assert (result["moment"], result["standard_error"]) == (local.moment_, local.standard_error_)
    exact = np.sum(values**4.0) if of == "values" else np.sum(np.bincount(values) ** 2)
    assert result["not_private"]["exact_moment"] == exact
    assert abs(result["moment"] - exact) < 5 * result["standard_error"]
    for compared in ([], ["--compare"]):
        status, printed, _ = run(
            capsys, *arguments, *options, *compared, "--servers", "2", "--sharing", "additive", "--verbose"
        )
        assert status == 0
        for words in ("std. error", "What is promised"):
            assert words in printed
        assert ("not private" in printed) == bool(compared)
        assert (f"{exact:.6g}" in printed) == bool(compared)


def test_fit_and_plan_of_pure_epsilon(data, tmp_path, capsys):
    pure = ["--bounds", tmp_path / "bounds.toml", "--epsilon", "1", "--delta", "0", "--noise", "discrete-laplace"]
    out = tmp_path / "pure"
    status, printed, _ = run(capsys, "fit", data, "--target", "score", *pure, "--json", "--out", out)
    assert status == 0
    privacy = json.loads(printed)["privacy"]
    assert (privacy["epsilon"], privacy["delta"]) == (1, 0)
    assert 0.999 < privacy["achieved_epsilon"] <= 1
    assert Release.load(out / "release.dpmpc").guarantee.delta == 0
    assert "pure 1-differential privacy" in (out / "report.txt").read_text()
    status, printed, _ = run(capsys, "plan", "--clients", "5000", *pure, "--json")
    assert status == 0
    assert json.loads(printed)["noise"]["family"] == "discrete-laplace"


def test_bounds_suggests_and_warns(data, capsys, tmp_path):
    status, printed, _ = run(capsys, "bounds", data, "--columns", "height", "score")
    assert status == 0
    assert "NOT private" in printed
    suggested = tmp_path / "suggested.toml"
    suggested.write_text(printed)
    assert Schema.from_toml(suggested).names == ("height", "score")


def test_rows_that_were_left_out_are_counted(tmp_path, capsys):
    data, bounds, out = tmp_path / "people.csv", tmp_path / "bounds.toml", tmp_path / "result"
    lines = ["a,b", *(f"{i % 7},{i % 5}" for i in range(200)), "1,", ",2"]
    data.write_text("\n".join(lines))
    bounds.write_text("[columns.a]\nlower = 0\nupper = 6\n[columns.b]\nlower = 0\nupper = 4\n")
    fit = ("fit", data, "--target", "b", "--bounds", bounds, *BUDGET, "--out", out, "--anyway")
    status, _, told = run(capsys, *fit)
    assert status == 2
    assert "--fill-missing" in told
    status, _, told = run(capsys, *fit, "--drop-missing", "--public-count", 200)
    assert status == 0
    assert all(str(out / name) in told for name in os.listdir(out))


def test_demo_shows_a_sketch_and_a_sum(capsys):
    status, printed, _ = run(capsys, "demo", "--clients", "20000", "--delta", "1e-6", "--servers", "2", "--json")
    assert status == 0
    fields = json.loads(printed)
    summed = fields.pop("sum")
    assert set(fields) == set(summed)
    assert (fields["sketch"]["family"], summed["sketch"]["family"]) == ("countsketch", "sum")
    for release in (fields, summed):
        assert release["clients"] == 20000
        assert len(release["timing"]["per_server"]) == 2
        assert len(release["result"]["coefficients"]) == 5
        assert (release["privacy"]["epsilon"], release["privacy"]["delta"]) == (1, 1e-6)
    assert (
        summed["result"]["not_private"]["approximation_factor"]
        < fields["result"]["not_private"]["approximation_factor"]
    )


def test_demo_tells_a_person_what_it_costs_to_publish_both(capsys):
    status, printed, _ = run(capsys, "demo", "--clients", "20000", "--delta", "1e-6", "--servers", "2")
    assert status == 0
    for words in ("twice the budget", "generated", "truth", "not private", "a client sends", "slowest server"):
        assert words in printed


def test_version_and_module_entry():
    done = subprocess.run([sys.executable, "-m", "dpmpc", "--version"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert done.stdout == f"dpmpc {dpmpc.__version__}\n"


def csv(text):
    def write(folder):
        path = folder / "bad.csv"
        path.write_text(text)
        return path

    return write


GOOD = "height,weight,score\n0.5,0.25,1\n0.1,0.5,-1\n0.2,-0.5,0\n"

BAD_INPUT = {
    "no such file": (lambda folder: folder / "absent.csv", [], "absent.csv"),
    "unknown ending": (lambda folder: csv(GOOD)(folder).rename(folder / "bad.xls"), [], "bad.xls"),
    "empty file": (csv(""), [], "bad.csv"),
    "header only": (csv("height,weight,score\n"), [], "bad.csv"),
    "repeated column": (csv("height,height,score\n1,0,1\n"), [], "height"),
    "ragged row": (csv(GOOD + "1,2\n"), [], "line 5"),
    "text cell": (csv(GOOD + "0.5,tall,0\n"), [], "'tall'"),
    "missing cell": (csv(GOOD + "0.5,,0\n"), [], "weight"),
    "nan cell": (csv(GOOD + "0.5,nan,0\n"), [], "weight"),
    "infinite cell": (csv(GOOD + "0.5,inf,0\n"), [], "weight"),
    "out of [-1, 1] without bounds": (csv(GOOD + "7,0,0\n"), ["--anyway"], "7"),
    "unknown target": (csv(GOOD), ["--target", "income"], "income"),
    "epsilon zero": (csv(GOOD), ["--epsilon", "0"], "epsilon: 0"),
    "epsilon negative": (csv(GOOD), ["--epsilon", "-1"], "epsilon: -1"),
    "delta too large": (csv(GOOD), ["--delta", "0.5"], "delta: 0.5"),
    "delta zero": (csv(GOOD), ["--delta", "0"], "only discrete-laplace noise"),
    "negative delta": (csv(GOOD), ["--delta", "-1", "--noise", "discrete-laplace"], "delta: -1"),
    "one server": (csv(GOOD), ["--servers", "1"], "servers: 1"),
    "more rows than clients": (csv(GOOD), ["--sketch", "countsketch", "--rows", "4"], "clients: 3 given, at least 4"),
    "too few rows": (csv(GOOD), ["--sketch", "osnap", "--rows", "2"], "rows: 2"),
    "sparsity above rows": (csv(GOOD), ["--sketch", "osnap", "--rows", "5", "--sparsity", "6"], "6"),
    "sparse countsketch": (csv(GOOD), ["--sketch", "countsketch", "--rows", "5", "--sparsity", "2"], "sparsity: 2"),
    "dense without rows": (csv(GOOD), ["--sketch", "rademacher"], "rows: None"),
    "too many copies": (
        csv(GOOD + 4 * GOOD.partition("\n")[2]),
        ["--sketch", "rademacher", "--rows", "9", "--copies", "each", "--share-limit", "6e-7"],
        "--share-limit: 600 given",
    ),
    "corrupt coalition": (csv(GOOD), ["--corrupt-clients", "3"], "corrupt_clients"),
    "negative alpha": (csv(GOOD), ["--alpha", "-1"], "alpha: -1"),
    "negative radius": (csv(GOOD), ["--radius", "-1"], "radius: -1"),
    "shamir in a ring": (csv(GOOD), ["--sharing", "shamir", "--ring", "ring64"], "ring: 'ring64'"),
    "shamir with two servers": (csv(GOOD), ["--sharing", "shamir", "--servers", "2"], "servers: 2"),
    "no bounds file": (csv(GOOD), ["--bounds", "absent.toml"], "absent.toml"),
}


@pytest.mark.parametrize("case", BAD_INPUT, ids=lambda case: case.replace(" ", "-"))
def test_bad_input_is_named_and_leaves_nothing_behind(case, tmp_path, capsys):
    make, options, message = BAD_INPUT[case]
    path = make(tmp_path)
    before = sorted(tmp_path.iterdir())
    arguments = ["--target", "score", "--epsilon", "1", "--delta", "1e-3", "--out", tmp_path / "out", *options]
    status, printed, complaint = run(capsys, "fit", path, *arguments)
    assert status == 2, complaint
    assert message in complaint
    assert printed == ""
    assert sorted(tmp_path.iterdir()) == before


BAD_MODELS = {
    "no target": ([], "target: none given"),
    "target of low rank": (
        ["--model", "low-rank", "--target", "score"],
        "'--target' is not an option",
    ),
    "rank of ridge": (
        ["--target", "score", "--components", "2"],
        "'--components' is not an option",
    ),
    "penalty of a moment": (["--model", "moment", "--column", "score", "--alpha", "2"], "'--alpha' is not"),
    "rank above columns": (["--model", "low-rank", "--components", "4"], "--components: 4"),
    "centre of a regression": (
        ["--target", "score", "--center"],
        "'--center' is not an option of this model, but of --model low-rank;",
    ),
    "rank zero": (["--model", "low-rank", "--components", "0"], "--components: 0"),
    "no column": (["--model", "moment"], "column: none given, one of height, weight, score"),
    "unknown column": (["--model", "moment", "--column", "age"], "'age'"),
    "order zero": (["--model", "moment", "--column", "score", "--order", "0"], "order: 0"),
    "order of items": (["--model", "moment", "--column", "score", "--items", "--order", "3"], "order: 3"),
    "items that are fractions": (["--model", "moment", "--column", "height", "--items"], "row 1: 0.5"),
    "sketch of a moment": (["--model", "moment", "--column", "score", "--sketch", "osnap"], "sketch: 'osnap'"),
    "rows of a power sum": (["--model", "moment", "--column", "score", "--rows", "9"], "rows: 9"),
    "radius of a moment": (["--model", "moment", "--column", "score", "--radius", "1"], "radius: 1"),
    "rank above a sketch": (["--model", "low-rank", "--sketch", "osnap", "--rows", "2"], "rows: 2"),
}


@pytest.mark.parametrize("case", BAD_MODELS, ids=lambda case: case.replace(" ", "-"))
def test_bad_choices_of_a_model_are_named_and_leave_nothing_behind(case, tmp_path, capsys):
    options, message = BAD_MODELS[case]
    path = csv(GOOD)(tmp_path)
    arguments = ["fit", path, "--epsilon", "1", "--delta", "1e-3", "--out", tmp_path / "out", *options]
    status, printed, complaint = run(capsys, *arguments)
    assert status == 2, complaint
    assert message in complaint
    assert printed == ""
    assert list(tmp_path.iterdir()) == [path]


BAD_BOUNDS = {
    "a column without bounds is not used": ("[columns.height]\nlower = 0\nupper = 1\n", "score"),
    "lower above upper": ("[columns.height]\nlower = 2\nupper = 1\n[columns.score]\nlower=0\nupper=1\n", "height"),
    "missing upper": ("[columns.height]\nlower = 0\n[columns.score]\nlower=0\nupper=1\n", "upper"),
    "unknown key": ("[columns.height]\nlower = 0\nupper = 1\nsize = 1\n[columns.score]\nlower=0\nupper=1\n", "size"),
    "not TOML": ("columns: height\n", "bounds.toml"),
    "unknown column": ("[columns.age]\nlower = 0\nupper = 1\n[columns.score]\nlower=0\nupper=1\n", "age"),
    "infinite bound": ("[columns.height]\nlower = 0\nupper = inf\n[columns.score]\nlower=0\nupper=1\n", "inf"),
}


@pytest.mark.parametrize("case", BAD_BOUNDS, ids=lambda case: case.replace(" ", "-"))
def test_bad_bounds_files(case, tmp_path, capsys):
    text, message = BAD_BOUNDS[case]
    path = csv(GOOD)(tmp_path)
    bounds = tmp_path / "bounds.toml"
    bounds.write_text(text)
    status, _, complaint = run(
        capsys, "fit", path, "--target", "score", "--epsilon", "1", "--delta", "1e-3", "--bounds", bounds
    )
    assert status == 2
    assert message in complaint


def test_results_are_never_overwritten(data, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    arguments = ["fit", data, "--target", "score", "--bounds", tmp_path / "bounds.toml", *BUDGET, "--out"]
    status, _, complaint = run(capsys, *arguments, tmp_path / "out")
    assert status == 2
    assert "exists already" in complaint
    status, _, complaint = run(capsys, *arguments, tmp_path / "no" / "such")
    assert status == 2
    assert "not a directory" in complaint


@pytest.mark.parametrize("arguments", [[], ["fit"], ["plan", "--clients", "5,000"], ["nothing"]])
def test_wrong_arguments_are_told_in_one_line_that_names_the_help(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    told = capsys.readouterr().err
    command = " ".join(["dpmpc", *arguments[:1]]) if arguments[:1] in (["fit"], ["plan"]) else "dpmpc"
    assert told.count("\n") == 1
    assert told.startswith(f"{command}: ")
    assert f"{command} --help" in told


def options_of(parser):
    """All options and positions of a parser and its commands, each with its command."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from options_of(command)
        else:
            yield parser.prog, action


def test_every_option_has_a_help():
    models = options_by_model(MODELS).items()
    listed = [*options_of(parser()), *((title, action) for title, actions in models for action in actions)]
    silent = [(prog, action.dest) for prog, action in listed if not action.help]
    assert not silent


def test_the_help_of_a_model_has_its_options_alone(capsys):
    own = {
        kind: {name for action in options for name in action.option_strings}
        for kind, options in ((title.split()[1], options) for title, options in options_by_model(MODELS).items())
    }
    for kind in FITTED:
        with exits(0):
            main(["fit", "--model", kind, "--help-all"])
        shown = set(re.findall(r"^  (--[a-z-]+)", capsys.readouterr().out, re.MULTILINE))
        assert own[kind] <= shown
        assert not (set().union(*own.values()) - own[kind]) & shown


def test_a_short_help_has_at_most_twenty_options(capsys):
    commands = next(action for action in parser()._actions if isinstance(action, argparse._SubParsersAction)).choices
    for arguments in (*([name] for name in commands), *(["fit", "--model", kind] for kind in FITTED)):
        lengths = []
        for form in ("--help", "--help-all"):
            if form == "--help-all" and not commands[arguments[0]].rare:
                continue
            with exits(0):
                main([*arguments, form])
            lengths.append(len(re.findall(r"^  -", capsys.readouterr().out, re.MULTILINE)))
        assert lengths[0] <= 20, arguments
        assert lengths == sorted(set(lengths)), arguments


def test_the_example_of_a_model_is_one_that_the_command_takes(capsys):
    for kind in FITTED:
        options = parser().parse_args(shlex.split(example_of(kind))[1:])
        assert model_of(options, kind).kind == kind
        with exits(0):
            main(["fit", "--model", kind, "--help"])
        assert example_of(kind) in " ".join(capsys.readouterr().out.split())


def test_fields_of_a_model_are_its_options_and_its_parameters():
    options = parser().parse_args(
        ["fit", "x.csv", "--model", "low-rank", "--components", "4", "--center", "--epsilon", "1", "--delta", "1e-6"]
    )
    model = model_of(options, "low-rank")
    assert model.get_params() == dpmpc.LowRankApproximation(4, center=True).get_params()


CODED = """
products = [["age", "ward"], ["age", "bmi"]]
[columns.age]
lower = 18
upper = 90
[columns.ward]
values = ["a", "b", "c"]
[columns.bmi]
lower = 10
upper = 50
[columns.stay]
lower = 0
upper = 60
"""


def test_features_that_are_named_are_all_that_is_released(tmp_path, capsys):
    """Of numbers and of a codebook, whose products stay where both factors do; plan and fit release the same."""
    rng = np.random.default_rng(0)
    lines = [f"{18 + i % 70},{'abc'[i % 3]},{20 + i % 9},{rng.integers(60)}" for i in range(300)]
    (tmp_path / "stays.csv").write_text("\n".join(["age,ward,bmi,stay", *lines]))
    plain = CODED.replace("products", "# products").replace('values = ["a", "b", "c"]', "lower = 0\nupper = 1")
    expected = {
        "age,ward": ["age", "ward=b", "ward=c", "stay", "age*ward=b", "age*ward=c"],
        "bmi": ["bmi", "stay"],
    }
    for features, bounds, columns in (
        ("age,ward", CODED, expected["age,ward"]),
        ("bmi", CODED, expected["bmi"]),
        ("bmi", plain, expected["bmi"]),
        ("bmi,age", plain, ["age", "bmi", "stay"]),
    ):
        (tmp_path / "bounds.toml").write_text(bounds)
        words = ("--bounds", tmp_path / "bounds.toml", "--target", "stay", "--features", features, *BUDGET, "--json")
        status, printed, told = run(capsys, "fit", tmp_path / "stays.csv", *words, "--anyway")
        assert status == 0, told
        fields = json.loads(printed)
        assert sorted(fields["columns"]) == sorted(columns)
        planned = json.loads(run(capsys, "plan", "--clients", 300, *words)[1])
        assert planned["features"] == fields["features"] == len(columns) - 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--features", "age,height"], "features: 'height' given, some of age, ward, bmi, stay expected"),
        (["--features", "age,stay"], "features: 'stay' given, which is the target"),
        (["--features", "age,age"], "features: 'age' given, which is named twice"),
        (["--features", "age,"], "names between commas expected"),
        (["--features", "age", "--model", "low-rank"], "'--features' is not an option of this model"),
    ],
)
def test_features_that_make_no_sense(tmp_path, capsys, words, message):
    (tmp_path / "bounds.toml").write_text(CODED)
    target = [] if "low-rank" in words else ["--target", "stay"]
    status, _, told = run(
        capsys, "plan", "--clients", 300, "--bounds", tmp_path / "bounds.toml", *target, *words, *BUDGET
    )
    assert (status, message in told) == (2, True), told


def test_arguments_that_make_no_sense_exit_with_two():
    for arguments in (["fit"], ["fit", "x.csv", "--target", "y", "--epsilon", "one", "--delta", "1e-6"], ["dance"]):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == 2


@pytest.mark.long("two million rows")
@pytest.mark.skipif("DPMPC_DATA" not in os.environ, reason="DPMPC_DATA is not set: no real data sets at hand")
def test_fit_on_household_power(capsys):
    source = os.path.join(os.environ["DPMPC_DATA"], "household_power.parquet")
    status, printed, _ = run(
        capsys,
        *("fit", source, "--target", "Global_active_power", "--bounds", "docs/household_power.toml"),
        *("--epsilon", "1", "--delta", "1e-7", "--drop-missing", "--public-count", "2049280", "--json", "--compare"),
    )
    assert status == 0
    fields = json.loads(printed)
    assert fields["clients"] == 2_049_280
    assert (
        fields["result"]["not_private"]["approximation_factor"]
        < 1.2
        < fields["result"]["not_private"]["trivial_factor"]
    )


def command(arguments, environment=None, **streams):
    """Run the command as a process of its own, with whatever standard output is given to it."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
    program = "import sys; from dpmpc.app.cli.main import main; sys.exit(main())"
    words = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(words, text=True, env={**os.environ, **(environment or {})}, check=False, **streams)


def test_a_full_disk_under_standard_output_is_one_line(data):
    with open("/dev/full", "w") as full:
        ended = command(["bounds", data], stdout=full)
    assert ended.returncode == 2
    assert ended.stderr == "dpmpc: No space left on device\n"


def test_standard_output_may_be_closed(data):
    program = 'exec "$0" -c "import sys; from dpmpc.app.cli.main import main; sys.exit(main())" bounds "$1" >&-'
    words = ["sh", "-c", program, sys.executable, data]
    closed = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (closed.returncode, closed.stderr) == (0, "")


def test_names_that_the_locale_cannot_say_are_told_in_escapes(tmp_path):
    write_csv(tmp_path / "people.csv", Table.from_any(table().values, names=("größe", "weight", "score")))
    ended = command(["bounds", tmp_path / "people.csv"], {"PYTHONIOENCODING": "ascii"})
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "gr\\xf6\\xdfe" in ended.stdout


def test_names_of_columns_are_no_markup(tmp_path, capsys):
    names = ("[bold]", "[/red]", "größe")
    write_csv(tmp_path / "people.csv", Table.from_any(table().values / 2, names=names))
    fit = ["fit", tmp_path / "people.csv", "--target", "größe", *BUDGET, "--out", tmp_path / "result"]
    status, printed, told = run(capsys, *fit)
    assert status == 0, told
    report = (tmp_path / "result" / "report.txt").read_text(encoding="utf-8")
    assert all(name in printed and name in report for name in names[:2])


@pytest.mark.parametrize("wrong", ["0", "-1", "nan", "inf", "1e300", "soon"])
@pytest.mark.parametrize(
    "command",
    [
        ["fit", "data", *BUDGET, "--deadline"],
        ["demo", "--deadline"],
        ["mix", "--prepare", "folder", "--deadline"],
        ["release", "collection", "--server", "0", "--folder", "folder", "--deadline"],
        ["release", "collection", "--server", "0", "--folder", "folder", "--connect-deadline"],
        ["submit", "collection", "data", "--seconds"],
    ],
)
def test_a_time_to_wait_is_positive_and_ends(command, wrong, capsys):
    with pytest.raises(SystemExit) as ended:
        main([*command, wrong])
    assert ended.value.code == 2
    assert f"{wrong!r} given, seconds above 0 and at most 31536000 (a year) expected" in capsys.readouterr().err


def test_a_fit_that_is_asked_to_end_leaves_nothing(data, tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = [sys.executable, "-m", "dpmpc", "fit", str(data), "--target", "score", *BUDGET, "--out", "result"]
    command += ["--bounds", "bounds.toml"]
    environment = os.environ | {"TMPDIR": str(temporary)}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as process:
        children = wait_for(lambda: started_by(process.pid) if any(temporary.glob("*/*/party.log")) else None)
        process.terminate()
        _, told = process.communicate(timeout=60)
    assert process.returncode == 143
    assert "dpmpc: ended by SIGTERM" in told
    assert list(temporary.iterdir()) == []
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["bounds.toml", "people.csv", "temporary"]
    wait_for(lambda: not any(map(still_runs, children)))  # one that was just being started ends by itself


def started_by(parent):
    """The processes that a process has started and that are still there."""
    numbers = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    return [number for number in numbers if (state := state_of(number)) is not None and int(state[1]) == parent]


def still_runs(number):
    state = state_of(number)
    return state is not None and state[0] != "Z"


def state_of(number):
    """What /proc tells of a process, from its state on."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def test_a_folder_that_cannot_be_written_is_one_line(data, capsys, monkeypatch):
    def full(*_arguments, **_options):
        raise OSError(28, "No space left on device", "/somewhere")

    monkeypatch.setattr("dpmpc.data.draft.read_cells", full)
    assert run(capsys, "bounds", data) == (2, "", "dpmpc: /somewhere: No space left on device\n")
