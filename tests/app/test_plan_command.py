"""`dpmpc plan`: what a release will cost and tell, and plans that make no sense."""

import json
import math

import pytest

from support.command_inputs import BOUNDS, BUDGET, run


def test_plan_says_what_to_expect(capsys, tmp_path):
    arguments = ["plan", "--clients", "1000000", "--columns", "6", *BUDGET[:2], "--delta", "1e-7"]
    status, printed, _ = run(capsys, *arguments, "--sketch", "sum", "--json")
    assert status == 0
    fields = json.loads(printed)
    assert fields["modulus"]["bits_needed"] <= fields["modulus"]["bits_available"] == 64
    assert fields["bytes"]["client_to_other_servers"] == 16
    assert fields["expected_phi"]["sum"] < fields["expected_phi"]["sketch"] < fields["expected_phi"]["trivial"]
    assert 0 < fields["smallest_useful_batch"] < 1_000_000
    assert [(option["release"], option["noise_by"]) for option in fields["options"]] == [
        (release, who) for release in ("sum", "sketch") for who in ("clients", "servers")
    ]
    assert all(0 < option["beats_local_from"] < fields["largest_batch"] for option in fields["options"])
    assert fields["recommendation"]["release"] == "sum"
    status, printed, _ = run(capsys, *arguments, "--sketch", "osnap", "--rows", "60", "--sparsity", "4", "--verbose")
    assert status == 0
    for words in ("k = 60, s = 4", "Expected error", "Ways to release", "Recommended: sum", "the local model"):
        assert words in printed
    (tmp_path / "bounds.toml").write_text(BOUNDS.to_toml())
    few = ("--clients", "100", "--bounds", tmp_path / "bounds.toml", *BUDGET, "--sketch", "sum")
    status, printed, _ = run(capsys, "plan", *few)
    assert status == 0
    assert "Recommended: no release" in printed


def plan(capsys, *options):
    status, printed, _ = run(capsys, "plan", "--clients", "200000", "--columns", "6", *BUDGET, *options, "--json")
    assert status == 0
    return json.loads(printed)


def test_plan_of_a_low_rank_approximation(capsys):
    fields = plan(capsys, "--model", "low-rank", "--components", "2")
    assert (fields["model"], fields["features"]) == ("low-rank", 6)
    expected = fields["expected_psi"]
    assert 0 < expected["this_release"] < expected["sketch"] <= expected["local"] <= expected["trivial"]
    assert expected["trivial"] == pytest.approx(2 * ((1 + 2 / 6) / 2 * 6 / 2 - 1) * 0.16)
    sketch = plan(capsys, "--model", "low-rank", "--components", "2", "--sketch", "countsketch", "--rows", "40")
    assert sketch["expected_psi"]["this_release"] > expected["this_release"]
    status, printed, _ = run(
        capsys, *("plan", "--model", "low-rank", "--clients", "9000", "--columns", "6", *BUDGET, "--explained", "0.9")
    )
    assert status == 0
    assert "a random projection" in printed


def test_plan_counts_the_bytes_that_each_server_gets(capsys):
    osnap = ["--sketch", "osnap", "--rows", "60", "--sparsity", "4"]
    for copies, share in (("each", 8 * 4 * 6), ("one", 8 * 6)):
        size = plan(capsys, *osnap, "--copies", copies)["bytes"]
        assert (size["client_to_last_server"], size["client_to_other_servers"]) == (share, 16)
        assert size["client_to_all_servers"] == share + 2 * 16
        assert (size["spool_of_last_server"], size["spool_of_other_servers"]) == (200_000 * share, 200_000 * 16)
    size = plan(capsys, "--sharing", "shamir")["bytes"]
    assert size["client_to_last_server"] == size["client_to_other_servers"] == 8 * 27
    assert size["client_to_all_servers"] == 3 * 8 * 27


def test_plan_says_what_the_servers_cost(capsys):
    osnap = ["--sketch", "osnap", "--rows", "60", "--sparsity", "4", "--copies", "one"]
    cost, size = (plan(capsys, *osnap)[name] for name in ("cost", "bytes"))
    assert cost["uploaded_bytes"] == size["spool_of_last_server"] + 2 * size["spool_of_other_servers"]
    assert cost["sent_bytes"] == 3 * size["server_to_analyst"]
    assert (cost["days"], cost["prices"]["currency"]) == (30, "USD")
    own = plan(capsys, *osnap, "--prices", "1", "2", "3", "--currency", "EUR", "--days", "15")["cost"]
    assert own["core_s"] == cost["core_s"]
    assert own["compute"] == pytest.approx(1 * cost["core_s"] / 3600)
    assert own["storage"] == pytest.approx(2 * cost["stored_bytes"] / 1e9 / 2)
    assert own["transfer"] == pytest.approx(3 * cost["sent_bytes"] / 1e9)
    assert own["total"] == pytest.approx(own["compute"] + own["storage"] + own["transfer"])
    arguments = ["plan", "--clients", "200000", "--columns", "6", *BUDGET, *osnap, "--prices", "1", "2", "3"]
    printed = " ".join(run(capsys, *arguments, "--currency", "EUR", "--verbose")[1].split())
    assert "EUR together" in printed
    for bad, message in (
        (["--currency", "EUR"], "currency: 'EUR' given without prices"),
        (["--prices", "1", "-2", "3"], "gigabyte_month: -2.0 given"),
        (["--days", "nan"], "days: nan given"),
    ):
        status, _, told = run(capsys, "plan", "--clients", "200000", "--columns", "6", *BUDGET, *osnap, *bad)
        assert status == 2
        assert message in told


def test_plan_names_the_coalition(capsys):
    arguments = [
        "plan",
        "--clients",
        "200000",
        "--columns",
        "6",
        *BUDGET,
        "--sketch",
        "countsketch",
        "--rows",
        "60",
        "--verbose",
    ]
    assert "2 of 3 servers, 0 clients\n" in run(capsys, *arguments)[1]
    arguments += ["--corrupt-clients", "1200", "--dropouts", "7"]
    for when, words in (("adaptive", "1,200 clients chosen when all is public"), ("static", "1,200 clients fixed")):
        printed = " ".join(run(capsys, *arguments, "--coalition", when)[1].split())
        assert words in printed
        assert "anything from 7 clients in all may be missing" in printed
    assert plan(capsys, "--coalition", "static")["coalition"] == "static"


def test_plan_says_who_adds_how_much_noise(capsys):
    osnap = ["--sketch", "osnap", "--rows", "60", "--sparsity", "4"]
    noise = {
        name: plan(capsys, *osnap, *options)["noise"]
        for name, options in {
            "each": ["--copies", "each"],
            "one": ["--copies", "one"],
            "servers": ["--noise-by", "servers"],
        }.items()
    }
    assert noise["each"]["client_sd"] > noise["each"]["server_sd"] == 0
    assert noise["one"]["client_sd"] == noise["one"]["server_sd"] > 0
    assert noise["servers"]["server_sd"] > noise["servers"]["client_sd"] == 0
    assert noise["servers"]["released_sd"] == pytest.approx(3**0.5 * noise["each"]["released_sd"], rel=0.01)
    assert noise["one"]["released_sd"] == pytest.approx(noise["each"]["released_sd"], rel=0.2)


BAD_PLANS = {
    "epsilon zero": (["--epsilon", "0"], "epsilon: 0"),
    "epsilon negative": (["--epsilon", "-1"], "epsilon: -1"),
    "delta of one client": (["--delta", "1e-3"], "delta: 0.001 given for 1000 clients"),
    "no clients": (["--clients", "0"], "clients: 0"),
    "fewer clients than rows": (
        ["--clients", "30", "--sketch", "osnap", "--rows", "40"],
        "clients: 30 given, at least",
    ),
    "rows below columns": (["--sketch", "countsketch", "--rows", "6"], "rows: 6"),
    "sparsity above rows": (["--sketch", "osnap", "--rows", "8", "--sparsity", "9"], "sparsity: 9"),
    "coalition of a row": (["--sketch", "countsketch", "--rows", "10", "--corrupt-clients", "100"], "corrupt_clients"),
    "coalition of all": (["--corrupt-clients", "1000"], "corrupt_clients"),
    "one server": (["--servers", "1"], "servers: 1"),
    "rank above columns": (["--model", "low-rank", "--components", "7"], "components: 7"),
    "rank of all columns": (["--model", "low-rank", "--components", "6"], "components: 6"),
    "rank zero": (["--model", "low-rank", "--components", "0"], "components: 0"),
    "rank of ridge": (["--components", "2"], "'--components' is not an option of this model"),
    "share that any have": (["--model", "low-rank", "--components", "3", "--explained", "0.5"], "explained: 0.5"),
    "explained all": (["--explained", "1"], "explained: 1"),
    "spread zero": (["--spread", "0"], "spread: 0"),
}


@pytest.mark.parametrize("case", BAD_PLANS, ids=lambda case: case.replace(" ", "-"))
def test_bad_plans_are_named(case, capsys):
    options, message = BAD_PLANS[case]
    arguments = ["plan", "--clients", "1000", "--columns", "6", *BUDGET, *options]
    status, printed, complaint = run(capsys, *arguments)
    assert status == 2, complaint
    assert message in complaint
    assert printed == ""


SCREENS = {
    "ridge": [],
    "ridge in rounds": ["--rounds", "auto"],
    "grouped-ridge": ["--by", "town"],
    "compare": ["--by", "town"],
    "survival": ["--time", "a0", "--event", "ill", "--by", "town"],
    "cox": ["--time", "a0", "--event", "ill", "--features", "town"],
    "low-rank": [],
    "moment": ["--column", "a1"],
    "logistic": ["--rounds", "2", "--target", "ill"],
    "poisson": ["--rounds", "2"],
    "table-one": ["--by", "town"],
}


@pytest.mark.parametrize("name", SCREENS)
def test_a_plan_of_every_model_is_a_screen_that_ends_with_what_is_expected(name, capsys, tmp_path):
    columns = [f"[columns.a{place}]\nlower = 0\nupper = {10 + place}\ncells = 8" for place in range(10)]
    kinds = ['[columns.town]\nvalues = ["north", "south"]', '[columns.ill]\nyes = ["1"]\nno = ["0"]']
    (tmp_path / "bounds.toml").write_text("\n".join([*kinds, *columns]) + "\n")
    words = ["plan", "--model", name.split()[0], "--clients", "20000", "--bounds", tmp_path / "bounds.toml", *BUDGET]
    status, printed, told = run(capsys, *words, *SCREENS[name])
    assert status == 0, told
    lines = printed.rstrip("\n").split("\n")
    assert sum(max(1, math.ceil(len(line) / 100)) for line in lines) <= 40
    promised = next(line for line in lines if "differential privacy" in line)
    assert "neighbouring: " in promised
    assert "holds even if " in promised
    whole = run(capsys, *words, *SCREENS[name], "--verbose")[1]
    assert lines[-1].removeprefix("Not useful as planned. ") in whole
    assert "What is promised" in whole
    fields = json.loads(run(capsys, *words, *SCREENS[name], "--json")[1])
    assert fields["model"] == name.split()[0]
    assert fields["useful"] == (not lines[-1].startswith("Not useful as planned. "))


def test_a_plan_of_a_simulation_is_called_one(capsys):
    words = ("plan", "--clients", 5000, "--columns", 3, *BUDGET)
    assert "SIMULATION" not in run(capsys, *words)[1]
    assert run(capsys, *words, "--simulation-seed", 1)[1].startswith("SIMULATION")


def test_plan_says_what_it_assumes(capsys):
    plan = ("plan", "--clients", 5000, "--columns", 3, *BUDGET)
    assert "standard deviation of 0.4" in run(capsys, *plan, "--sketch", "sum")[1]
    assert "standard deviation of 0.2" in run(capsys, *plan, "--sketch", "sum", "--spread", 0.2)[1]
    assert "the features explain 0.5 of the variance" in run(capsys, *plan)[1]


def test_plan_needs_columns_or_bounds(capsys):
    status, _, complaint = run(capsys, "plan", "--clients", "100", "--epsilon", "1", "--delta", "1e-3")
    assert status == 2
    assert "columns, bounds" in complaint
    status, _, complaint = run(
        capsys, "plan", "--clients", "100", "--columns", "1", "--epsilon", "1", "--delta", "1e-3"
    )
    assert status == 2
    assert "columns: 1" in complaint


def test_a_plan_with_proofs_knows_its_bytes(capsys):
    argv = ["plan", "--clients", "100000", "--columns", "10", "--epsilon", "1", "--delta", "1e-6", "--proved"]
    status, printed, _ = run(capsys, *argv, "--noise-by", "servers", "--json")
    assert status == 0
    size = json.loads(printed)["bytes"]
    assert size["client_to_other_servers"] == 16 + 3 * 32
    assert size["server_to_other_server"] == 100_000 * 120
    _, printed, _ = run(capsys, *argv, "--noise-by", "servers", "--verbose")
    assert "MB to each other server to check proofs" in " ".join(printed.split())
    status, _, told = run(capsys, *argv)
    assert status == 2
    assert "cannot be proved" in told


def test_plan_of_a_model_in_rounds(capsys):
    fields = plan(capsys, "--model", "logistic", "--rounds", "2", "--mean", "0.3")
    names = ["second-moments", *["clipped-scores"] * 2, *["scores"] * 2]
    assert [one["statistic"] for one in fields["sums"]] == names
    assert [one["share"] for one in fields["sums"]] == pytest.approx([0.2, 0.15, 0.15, 0.2, 0.3])
    assert sum(one["mu"] ** 2 for one in fields["sums"]) == pytest.approx(0.236704**2, rel=1e-3)
    assert 0.99 < fields["privacy"]["achieved_epsilon"] <= 1
    assert (fields["rounds"], fields["intervals"]) == (2, True)
    assert [one["rounds"] for one in fields["expected"]] == [2, 4, 8, 32]
    for one in fields["expected"]:
        assert 0 < one["excess"] < 0.01
        assert 0 < one["noise_part"] < 0.01
        assert one["learned"]
        words = 27 + 7 * one["rounds"] + 2 * (6 + 42)  # of one client
        assert one["seconds_in_process"] == pytest.approx(1.2e-7 * 200_000 * words)
        assert one["seconds"] == pytest.approx(one["seconds_in_process"] + 1.5 + 0.05 * (one["rounds"] + 3))
    sent = {one["rounds"]: one["client_bytes"] for one in fields["expected"]}
    assert (sent[32] - sent[8]) % 24 == 0 < sent[4] < sent[8] < sent[32]
    assert sent[2] == fields["bytes"]["client_to_all_servers"]
    assert fields["learns_from"] == 200_000
    assert fields["recommendation"]["fit"] == "--model logistic --rounds 2 --noise-by clients"
    alone = plan(capsys, "--model", "logistic", "--predict-only")
    assert alone["recommendation"]["fit"] == "--model logistic --rounds 8 --predict-only --noise-by clients"
    assert {one["intervals_shown"] for one in alone["expected"]} == {None}
    assert plan(capsys, "--model", "poisson", "--most", "20", "--mean", "2")["rounds"] == 8
    bounded = plan(capsys, "--rounds", "2", "--private-bounds")
    assert [one["statistic"] for one in bounded["sums"]][:2] == ["cell-counts", "second-moments"]
    assert sum(one["share"] for one in bounded["sums"]) == pytest.approx(1)
    assert bounded["recommendation"]["fit"] == "--model ridge --rounds 2 --private-bounds --noise-by clients"
    one = [*BUDGET, "--sketch", "sum", "--private-bounds"]
    assert run(capsys, "plan", "--clients", "200000", "--columns", "6", *one)[0] == 2
    linear = plan(capsys, "--explained", "0.8")
    assert (linear["model"], linear["rounds"]) == ("ridge", 8)
    planned = next(one for one in linear["expected"] if one["rounds"] == 8)
    assert planned["intervals_shown"]
    assert 0 < planned["standard_error"] < 0.01
    wide, narrow = linear["slopes"][1:]
    assert linear["slopes"][0]["spread"] == 0.4
    assert plan(capsys, "--spread", "0.2")["slopes"][1]["spread"] == 0.2
    assert (wide["spread"], narrow["spread"]) == (0.3, 0.1)
    assert wide["half_width"] < 0.02 < narrow["half_width"] < 0.25
    assert (wide["on_bounds"], narrow["on_bounds"]) == (False, False)
    assert wide["people"] < narrow["people"] < 200_000
    assert alone["slopes"] == []
    assert 0 < planned["clip"] < 4
    status, printed, _ = run(
        capsys, "plan", "--clients", "200000", "--columns", "6", *BUDGET, "--model", "logistic", "--verbose"
    )
    assert status == 0
    for words in (
        "Sums, all within one budget",
        "second moments",
        "steering round x 8",
        "excess error",
        "Recommended: dpmpc fit",
    ):
        assert words in " ".join(printed.split())
    few = ["plan", "--clients", "400", "--columns", "6", "--epsilon", "0.5", "--delta", "1e-6", "--model", "logistic"]
    status, printed, _ = run(capsys, *few)
    assert status == 0
    assert "Recommended: no fit" in printed
    assert "No coefficients can be trusted from 400 clients" in printed


def test_plan_of_zero_rounds_says_that_it_is_an_approximation(capsys):
    fields = plan(capsys, "--model", "logistic", "--rounds", "0")
    assert [one["share"] for one in fields["sums"]] == [1.0]
    assert fields["recommendation"]["fit"] == "--model logistic --rounds 0 --noise-by clients"
    assert fields["approximation"].startswith("an approximation")
    assert plan(capsys, "--model", "logistic", "--rounds", "2")["approximation"] is None
    (expected,) = fields["expected"]
    spread = plan(capsys, "--model", "logistic", "--rounds", "0", "--spread", "0.2")["expected"][0]
    assert 2 < spread["noise_error"] / expected["noise_error"] < 4
    assert expected["intervals_shown"] is None
    options = ["--model", "logistic", "--rounds", "0"]
    status, printed, _ = run(capsys, "plan", "--clients", "200000", "--columns", "6", *BUDGET, *options)
    assert status == 0
    assert "Without rounds this is an approximation" in printed


def test_plan_of_zero_rounds_of_a_linear_model_is_that_of_one_release(capsys):
    fields = plan(capsys, "--rounds", "0")
    assert "sums" not in fields
    assert fields["expected_phi"] == plan(capsys, "--sketch", "auto", "--rounds", "0")["expected_phi"]


def test_plan_says_why_fit_has_another_default(capsys):
    status, printed, _ = run(capsys, "plan", "--clients", "9e5", "--columns", "6", *BUDGET, "--sketch", "sum")
    assert status == 0
    assert "with --sketch sum --noise-by servers. By default clients add the noise: there is the least of it" in printed


def test_plan_says_with_which_options_fit_does_what_it_recommends(capsys):
    advice = plan(capsys, "--sketch", "sum")["recommendation"]
    assert advice["fit_options"] == "--sketch sum" + ("" if advice["noise_by"] == "clients" else " --noise-by servers")
    status, printed, _ = run(capsys, "plan", "--clients", "200000", "--columns", "6", *BUDGET, "--sketch", "sum")
    assert status == 0
    assert "dpmpc fit --model ridge does that with --sketch sum" in printed
    assert "Without --sketch it takes several sums, with much less noise for one model" in printed
    low = plan(capsys, "--model", "low-rank")["recommendation"]
    assert low["fit_options"] == ("" if low["noise_by"] == "clients" else "--noise-by servers")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "low-rank", "--rounds", "2"], "'--rounds' is not an option of this model, but of --model ridge"),
        (["--rounds", "65"], "rounds: 65 given, 'auto' or a whole number from 0 to 64 expected"),
        (["--mean", "0.3"], "mean: 0.3 given, but that is assumed for --model logistic, poisson"),
        (["--model", "logistic", "--most", "5"], "most: 5 given, but that is assumed for --model poisson"),
        (["--model", "logistic", "--mean", "1.5"], "mean: 1.5 given"),
        (["--model", "logistic", "--explained", "0.5"], "explained: 0.5 given, but that is assumed for --model ridge"),
        (["--model", "logistic", "--sketch", "osnap"], "sketch: 'osnap' given"),
        (["--model", "logistic", "--proved"], "proved: given, but no proof covers the scores of a model in rounds"),
        (["--model", "logistic", "--noise", "skellam"], "noise: 'skellam' given"),
    ],
)
def test_plans_of_rounds_that_make_no_sense_are_refused(options, message, capsys):
    status, printed, told = run(capsys, "plan", "--clients", "200000", "--columns", "6", *BUDGET, *options)
    assert status == 2
    assert message in told
    assert printed == ""


ARMS = """
[columns.arm]
values = ["a", "b", "c"]
[columns.age]
lower = 0
upper = 100
[columns.spend]
lower = 0
upper = 10
"""


def test_plan_of_a_comparison(capsys, tmp_path):
    (tmp_path / "arms.toml").write_text(ARMS)
    words = ["plan", "--model", "compare", "--clients", "3000", "--bounds", tmp_path / "arms.toml", *BUDGET]
    status, printed, _ = run(capsys, *words, "--by", "arm", "--json")
    fields = json.loads(printed)
    assert (status, fields["model"], fields["groups"], fields["people_of_a_group"]) == (0, "compare", 3, 1000.0)
    spend, age = fields["differences"]["spend"], fields["differences"]["age"]
    bare = (2 * (0.4 * 5) ** 2 / 1000) ** 0.5  # of two means of 1,000 people
    assert spend["without privacy"] == pytest.approx(bare, rel=1e-3)
    assert spend["std. error"] > bare
    assert age["std. error"] == pytest.approx(10 * spend["std. error"])
    assert spend["found with power .8"] == pytest.approx(2.8 * spend["std. error"])
    assert 4 * fields["noise"]["released_sd"] < fields["smallest_group"] < 4 * fields["noise"]["released_sd"] + 2
    status, printed, _ = run(capsys, *words, "--by", "arm")
    assert "Difference of means between two groups of arm, of 1,000 people each" in printed
    assert f"A group has a mean from about {fields['smallest_group']} people on." in printed
    few = run(capsys, *words[:4], "60", *words[5:], "--by", "arm")[1]
    assert "no group is expected to have one" in few


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "by: none given, the column of groups expected"),
        (("--by", "age"), "by: 'age' given"),
        (("--by", "arm", "--explained", ".5"), "explained: 0.5 given, but that is assumed for --model ridge"),
        (("--by", "arm", "--rounds", "2"), "'--rounds' is not an option of this model"),
    ],
)
def test_plans_of_comparisons_that_make_no_sense(capsys, tmp_path, options, said):
    (tmp_path / "arms.toml").write_text(ARMS)
    words = ["plan", "--model", "compare", "--clients", "3000", "--bounds", tmp_path / "arms.toml", *BUDGET]
    status, _, error = run(capsys, *words, *options)
    assert (status, said in error) == (2, True), error
