"""The page on performance: its figures are those of the results, targets are judged, marks are respected."""

import json
import shutil
from pathlib import Path

import pytest

from bench.harness import markdown
from bench.secure_sketching.runtime_tables import render, seconds
from bench.system import kernels, performance_goals, performance_page, performance_plots
from bench.system.performance_goals import Goal, all_goals, read_results
from bench.system.performance_page import blocks, rewritten
from support.rejections import rejects

SOURCES = Path(__file__).parents[2]
RESULTS = SOURCES / "bench" / "results"
BEGIN, END = "<!-- {}: drawn from bench/results -->", "<!-- end of {} -->"


@pytest.fixture(scope="module")
def results():
    return read_results(RESULTS)


def test_the_page_has_the_figures_of_the_results(results):
    page = (SOURCES / performance_page.PAGE).read_text()
    assert rewritten(page, blocks(results)) == page, "`python -m bench page` draws it again"


def test_the_readme_has_the_figures_of_the_runtime_tables(results):
    """The README has those of three servers and 100,000 clients; the pages of results are drawn from them."""
    readme = " ".join((SOURCES / "README.md").read_text().split())
    for name in ("table3", "table4", "table5"):
        page = (RESULTS / f"{name}.md").read_text()
        assert render(results[name]["title"], results[name]).strip() == page.strip()
        for entry in results[name]["measured"]:
            if (name, entry["clients"], entry["sparsity"]) == ("table3", 100_000, 4):
                ours = f"{seconds(entry):.3f} s of CPU and sends {entry['sent_mb']:.2f} MB"
                plain = entry["plain_mpyc"]
                assert f"a server takes {ours}" in readme
                assert f"takes {plain['cpu_s']:.1f} s and sends {plain['sent_mb']:.1f} MB" in readme


def test_a_new_figure_comes_to_the_page_and_to_its_target(results):
    content = json.loads(json.dumps(results))
    entry = content["kernels"]["measured"][0]
    assert (entry["balanced"], entry["sparsity"]) == (False, kernels.HEADLINE.sparsity)
    entry["seconds"]["scipy csc"]["median"] = 40 * entry["seconds"]["ours"]["median"]
    at = "scipy csc / ours at (1,000,000, 10, 1,000, 4)"
    assert f"| kernel, independent | {at} |" not in blocks(content)["targets"]
    entry["seconds"]["scipy csc"]["median"] = 0.4 * entry["seconds"]["ours"]["median"]
    assert f"| kernel, independent | {at} | ≥ 3.5 | 0.40 |" in blocks(content)["targets"]


def test_a_peer_that_is_not_installed_is_said_to_be(results):
    content = json.loads(json.dumps(results))
    for entry in content["kernels"]["measured"]:
        entry["seconds"].pop("numba", None)
    for entry in content["clients"]["noise"]:
        if "OpenDP" in (entry["peer"] or ""):
            entry["peer"] = entry["speed_over_peer"] = None
    [goal] = [
        goal for goal in all_goals(content)["kernel, balanced"] if goal.what.startswith("numba / ours at (1,000,")
    ]
    assert goal.told == "peer not installed"
    assert not any("numba" in name for name in performance_plots.peer_ratios(content))


@pytest.mark.parametrize(
    ("figure", "limit", "most", "share", "told"),
    [
        (3.0, 2.0, False, 1.5, "3.00"),
        (1.0, 2.0, False, 0.5, "1.00 (missed)"),
        (1.0, 2.0, True, 2.0, "1.00"),
        (4.0, 2.0, True, 0.5, "4.00 (missed)"),
        (2.0, 2.0, True, 1.0, "2.00"),
        (None, 2.0, False, None, "peer not installed"),
    ],
)
def test_targets_are_judged(figure, limit, most, share, told):
    goal = Goal("it", figure, limit, most)
    assert (goal.share, goal.told) == (share, told)
    assert goal.reached is (share is not None and share >= 1)
    assert goal.wanted == ("≤ 2" if most else "≥ 2")


def test_goals_have_the_figures_of_the_benches(results):
    goals = all_goals(results)
    assert len(goals["kernel, balanced"]) == len(goals["kernel, independent"]) == len(kernels.TARGETS)
    rows = {entry["name"]: entry for entry in results["clients"]["rows"]}
    split = next(goal for goal in goals["clients"] if goal.what.startswith(performance_goals.SPLIT))
    assert split.figure == pytest.approx(
        results["clients"]["clients"] * 80 / rows[performance_goals.SPLIT]["cpu_s"]["median"] / 1e9
    )
    assert {goal.figure for goal in goals["fit"]} == {
        value for kinds in results["end_to_end"]["ratios"].values() for value in kinds.values()
    }


def test_only_what_is_between_marks_is_rewritten():
    page = "before\n" + BEGIN.format("a") + "\nold\n" + END.format("a") + "\nafter\n"
    new = rewritten(page, {"a": markdown(["x"], [["1"]])})
    assert new == page.replace("old", "| x |\n| --- |\n| 1 |")
    assert rewritten(new, {"a": markdown(["x"], [["1"]])}) == new


@pytest.mark.parametrize(
    ("page", "argument"),
    [
        ("no marks", "page"),
        (BEGIN.format("a") + "\n" + BEGIN.format("b"), "page"),
        (BEGIN.format("a") + END.format("a") + BEGIN.format("a"), "page"),
        (END.format("a") + BEGIN.format("a"), "page"),
    ],
)
def test_marks_must_fit(page, argument):
    with rejects(argument):
        rewritten(page, {"a": "new"})


def test_the_command_draws_page_and_plots(tmp_path, capsys):
    for name in performance_goals.SOURCES:
        shutil.copy(RESULTS / f"{name}.json", tmp_path)
    page = tmp_path / "page.md"
    with rejects("page"):
        performance_page.main(["--results", str(tmp_path), "--page", str(page)])
    page.write_text("".join(f"{BEGIN.format(name)}\n{END.format(name)}\n" for name in blocks(read_results(RESULTS))))
    performance_page.main(["--results", str(tmp_path), "--page", str(page)])
    written = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert written[-1] == page
    assert [path.stem for path in written[:-1]] == [
        performance_plots.TARGETS,
        performance_plots.PEERS,
        performance_plots.GROWTH,
    ]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written[:-1])
    assert "| 100,000,000 | 8.00 |" in page.read_text()


def test_results_that_are_missing_are_named(tmp_path):
    shutil.copy(RESULTS / "kernels.json", tmp_path)
    with rejects("results"):
        read_results(tmp_path)
