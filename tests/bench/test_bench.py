"""The benchmark harness on a job too small to measure anything: figures have their meaning, tables their shape."""

import dataclasses
import json

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from bench import harness
from bench.coinpress import figures as coinpress_figures
from bench.secure_sketching import (
    coverage,
    frequency_moments,
    noising,
    plain_mpyc_runs,
    runtime_tables,
    sum_ssp,
    table3,
    table4,
    table5,
    unopened,
)
from bench.secure_sketching.setting import CLIENTS, COLUMNS, ROWS, Setting, task_of
from bench.system import (
    clients,
    dense,
    end_to_end,
    intake,
    kernels,
    projections,
    proving,
    rounds_coverage,
    rounds_populations,
    scale,
    stores,
)
from bench.system.rounds_populations import Population
from dpmpc.base.errors import BenchFailed
from dpmpc.linear.sharing.batch import SHARE_FILE, open_share
from dpmpc.linear.sketching import OSNAP
from dpmpc.linear.sketching.dense import Rademacher
from dpmpc.release.planning.cost import Prices
from support.pages import ROOT
from support.rejections import rejects


@pytest.fixture(scope="module")
def measured():
    return {**runtime_tables.measure(Setting(2000, 4, 2), runs=2), "plain_mpyc": plain_mpyc_runs.plain_mpyc(2000, 4, 2)}


def test_a_row_has_what_processes_of_the_program_spent(measured):
    """Two servers of two runs; a second pass and the peers beside them."""
    payload = 8 * ROWS * COLUMNS
    assert payload < 1e6 * measured["sent_mb"] < 1.02 * payload
    assert measured["sent_mb"] < measured["global_sent_mb"] < 1.02 * measured["sent_mb"]  # party 0 is the analyst
    assert measured["upload_bytes"] == 16 + 8 * 4 * COLUMNS
    assert measured["rounds"] == {"agree": 1, "open": 1}
    assert set(measured["phases"]) == {"read", "transform", "open", "agree"}
    for phases, runs in ((measured["phases"], 4), (measured["second_pass"], 4)):
        for clocks in phases.values():
            assert set(clocks) == {"cpu_s", "wall_s"}
            assert 0 < clocks["cpu_s"]["min"] <= clocks["cpu_s"]["mean"]
            assert clocks["cpu_s"]["runs"] == runs
    assert set(measured["peers_cpu_s"]) == {"kernel", "csc", "reading"}
    assert measured["peers_cpu_s"]["kernel"]["transform"]["runs"] == 2


def test_all_servers_read_words(tmp_path):
    """They add up to the noisy rows, and a run has a folder that no other run has used."""
    assert task_of(Setting(10_000_000, 1, 3)).guarantee.delta < 1e-7  # less than 1/n is demanded
    task = task_of(Setting(1200, 4, 3))
    runtime_tables.write_words(task, tmp_path / "shares")
    folders = [tmp_path / "shares" / f"party-{server}" for server in range(3)]
    words = [np.load(folder / SHARE_FILE) for folder in folders]
    assert all(own.shape == (1200, 4, COLUMNS) and len(np.unique(own)) > 47_000 for own in words)
    total = (words[0] + words[1] + words[2]).view(np.int64)
    assert np.abs(total).max() < 2**40  # encoded rows and noise, not masks
    fresh = runtime_tables.fresh(tmp_path / "shares", tmp_path / "run")
    assert sorted(path.name for path in (fresh / "party-2").iterdir()) == ["share", "task.json"]


def test_other_sums_are_noticed(monkeypatch):
    honest = runtime_tables.opened_by
    monkeypatch.setattr(runtime_tables, "opened_by", lambda task, shares: honest(task, shares) + 1)
    with pytest.raises(BenchFailed, match="run 0 opened other sums"):
        runtime_tables.measure(Setting(1200, 1, 2), runs=1)


def test_tables_are_written_whole(measured, tmp_path):
    content = {
        "machine": harness.machine(),
        "load": [1.0, 2.0],
        "runs": 2,
        "measured": [measured],
        "ratios": runtime_tables.ratios([measured]),
    }
    at = "(n=2000, s=4, 2 servers)"
    assert set(content["ratios"]) == {
        f"a server's read and transform / one pass of our kernel {at}",
        f"scipy csc / transform {at}",
        f"natural MPyC / read, transform and open {at}",
        f"natural MPyC / transform {at}",
        f"natural MPyC / bytes that a server sends {at}",
    }
    text = runtime_tables.render("Table", content)
    assert "| 2,000 | 4 | 2 |" in text
    assert "| 1 agree + 1 open |" in text
    assert "load average 1.0 to 2.0; Python" in text
    harness.write("table", content, text, tmp_path)
    assert json.loads((tmp_path / "table.json").read_text())["runs"] == 2
    assert (tmp_path / "table.md").read_text().startswith("# Table")


def test_a_closed_sketch_is_compared_with_an_opened_one():
    measured = unopened.measure(unopened.Setting(16, 3), clients=2000, runs=1)
    opened, closed = ({entry["program"]: entry for entry in measured}[name] for name in ("opened", "unopened"))
    assert (opened["payload_to_analyst"], opened["payload_to_servers"]) == (8 * 16, 0)
    mask, product, check = 8 * 16, 8 * 2, 8 * 17
    toss, signed = 32 + 64 + 64, 5 * (32 + 32 + 1 + 72)  # signatures of 8 to 72 bytes
    words = 2 * (mask + product + check + toss)
    assert closed["payload_to_analyst"] == 8
    assert words < closed["payload_to_servers"] <= words + 2 * signed
    content = {"machine": harness.machine(), "clients": 2000, "runs": 1, "measured": measured}
    assert "| 3 | 16 | unopened | 7 |" in unopened.render(content)


def test_mp_spdz_keeps_its_own_bytes():
    """Its first server sends .16 MB by its own report; a file that names none has none, not our bytes."""
    content = plain_mpyc_runs.stored_mp_spdz()
    assert {row["sent_mb"] for row in plain_mpyc_runs.mp_spdz_rows(content)} == {0.16}
    silent = {name: value for name, value in content.items() if name != "sent_mb"}
    assert plain_mpyc_runs.mp_spdz_rows(silent)[0]["sent_mb"] is None


def test_settings_are_the_papers():
    assert len(table3.SETTINGS) == len(table4.SETTINGS) == 12
    assert Setting(1_000_000, 4, 3) in table3.SETTINGS
    assert {setting.servers for setting in table4.SETTINGS} == {2}


def test_table_5_refers_to_the_rows_that_others_have(monkeypatch):
    """Both readings: sparsity is Table 3; of two, three and five servers only five are no rows of Tables 3 and 4."""
    told = []
    monkeypatch.setattr(runtime_tables, "main", lambda *given: told.append(given))
    table5.main(["--runs", "2"])
    ((name, _, settings, arguments, more),) = told
    assert (name, settings, arguments) == ("table5", table5.SETTINGS, ["--runs", "2"])
    assert not {*settings} & {*table3.SETTINGS, *table4.SETTINGS}
    text = " ".join(more)
    assert all(words in text for words in ("our choice", "table3.md", "table4.md", "sparsity"))
    for servers, table in ((2, table4), (3, table3)):
        assert {Setting(n, 4, servers) for n in CLIENTS} <= {*table.SETTINGS}


def test_frequency_moments_among_servers_have_the_stated_error():
    """One run of each kind, fixed seed: the error is within 5 stated standard errors (6e-7 for a fresh seed)."""
    settings = [frequency_moments.Setting("values", 400, 2, 1.0), frequency_moments.Setting("items", 400, 64, 1.0)]
    measured = [frequency_moments.measure(setting, 1) for setting in settings]
    for entry in measured:
        assert 0 < abs(entry["standardised"][0]) < 5
        assert entry["time_s"]["runs"] == 3
    assert measured[0]["local_sd"] == pytest.approx(20 * measured[0]["standard_error"]["mean"], rel=1e-3)
    page = frequency_moments.render({"machine": harness.machine(), "runs": 1, "measured": measured})
    assert "| 400 | 2 | 1 |" in page
    assert "| 400 | 64 | 1 |" in page


def test_one_quantity_varies_at_a_time():
    settings = frequency_moments.one_at_a_time("values", (1, 2, 3), (4, 5, 6), (0.7, 0.8, 0.9))
    assert len(settings) == 7
    middle = frequency_moments.Setting("values", 2, 5, 0.8)
    for one in settings:
        assert sum(getattr(one, name) != getattr(middle, name) for name in ("clients", "k", "epsilon")) <= 1


def test_summaries():
    assert harness.summary([1.0, 3.0]) == {
        "mean": 2.0,
        "sd": pytest.approx(2**0.5),
        "min": 1.0,
        "median": 2.0,
        "runs": 2,
    }
    assert harness.summary([1.0])["sd"] == 0
    assert harness.plus_minus(harness.summary([1.0])) == "1.000 ± 0.000"


def test_the_sum_is_compared_in_standard_errors():
    assert sum_ssp.difference([1.0, 3.0], [1.0, 1.0]) == pytest.approx(1.0)
    content = {"clients": 9, "epsilon": 1.0, "delta": 1e-6, "runs": 2, "trivial": 5.0}
    content |= {"phi": {"sum": [1.0, 3.0]}, "difference_in_standard_errors": 1.0}
    assert "| sum | 2.000000 | 1.000000 |" in sum_ssp.render(content)


def test_ways_to_noise_are_compared(capsys):
    noising.main(["--runs", "1", "--clients", "3000"])
    lines = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if " by the " in line]
    assert [line[2] for line in lines] == ["672", "112", "112"]  # 8 s d or 8 d bytes, and two keys
    assert float(lines[2][1]) == pytest.approx(3 * float(lines[0][1]), rel=0.1)


def test_dense_products_agree():
    for ways in dense.products(Rademacher(20, 300, seed=1), 3).values():
        for rival in ("cached", "stored"):
            np.testing.assert_allclose(ways[rival](), ways["ours"](), atol=1e-11, rtol=0)
    content = {"machine": harness.machine(), "runs": 2, "measured": [dense.measure(300, 20, 3, 2)]}
    assert "| 300 | 20 | 3 | mersenne61 |" in dense.render(content)


def test_projections_of_real_numbers_agree(capsys):
    S, X = OSNAP(20, 300, 2, seed=1), np.random.default_rng(0).normal(size=(300, 3))
    fitted = projections.SparseRandomProjection(20, density=0.1, random_state=0).fit(X.T)
    found = projections.products(S, X, fitted)
    for way, product in found.items():
        np.testing.assert_allclose(product(), S.to_csc() @ X, atol=1e-12, rtol=0, err_msg=way)
    projections.main(["--runs", "1", "--clients", "3000"])
    told = capsys.readouterr().out
    assert all(f"| {way} |" in told for way in (*found, projections.FIT))


@pytest.mark.parametrize("balanced", [False, True])
def test_peers_of_the_kernel_agree_with_it(balanced):
    setting = kernels.Setting(700, 3, 20, 2)
    found = kernels.ways(setting, balanced)
    for way in set(found) - {"read", "touch"}:
        np.testing.assert_array_equal(found[way](), found["ours"](), err_msg=way)
    S, X = OSNAP(20, 700, 2, seed=1, balanced=balanced), kernels.words(700, 3)
    few = X[np.arange(700) % -(-kernels.TOUCH_WORDS // 3)]
    np.testing.assert_array_equal(kernels.ways(setting, balanced)["touch"](), S.apply(few))
    found = kernels.headline_ways(S, X, kernels.unsigned_csc(S).tocsr())
    for way in ("scipy csr", "one thread (wall)", "two threads (wall)", "two threads"):
        np.testing.assert_array_equal(found[way](), S.apply(X), err_msg=way)
    assert found["control, one thread (wall)"]() == found["control, two threads (wall)"]()
    assert found["scikit-learn transform (float64, fit not counted)"]().shape == (3, 20)


def test_targets_of_the_kernel_are_judged():
    setting = kernels.Setting(700, 3, 20, 2)
    entries = [kernels.measure(setting, balanced, 2) for balanced in (False, True)]
    seconds = {"ours": {"median": 2.0}, "scipy csc": {"median": 5.0}}
    entries[1] = {**entries[1], "seconds": seconds}
    more, less = (kernels.Target(setting, "scipy csc", "ours", 3.0, most=most) for most in (False, True))
    assert kernels.target_row(more, entries)[4:6] == ["scipy csc / ours", "≥ 3.0"]
    assert kernels.target_row(more, entries)[-1] == "2.50 (missed)"
    assert kernels.target_row(less, entries)[-1] == "2.50"
    assert kernels.ratio(kernels.Target(setting, "numba", "ours", 1.0), entries[1]) is None
    content = {"machine": harness.machine(), "runs": 2, "measured": entries[:1]}
    assert "| 700 | 3 | 20 | 2 | independent | ours, S stored |" in kernels.render(content)


def test_two_threads_are_judged_by_a_control():
    times = {"ours": 2.0, "two threads": 2.1, "one thread (wall)": 3.0, "two threads (wall)": 2.0}
    entry = {"balanced": False, "seconds": {way: {"median": time} for way, time in times.items()}}
    assert kernels.render_threads([entry]) == []
    control = {"control, one thread (wall)": {"median": 1.6}, "control, two threads (wall)": {"median": 1.0}}
    (_, told) = kernels.render_threads([{**entry, "seconds": entry["seconds"] | control}])
    assert "1.50 times as fast" in told
    assert "1.60 times: 0.94 of it. They take 1.05 times" in told


def test_shapes_of_the_kernel_are_judged():
    assert len(kernels.GRID) == 6 * 2 * 3
    assert {shape.clients * shape.columns for shape in kernels.GRID} <= set(range(19_999_900, 20_000_001))
    shape = dataclasses.asdict(kernels.Setting(2_000_000, 10, 1000, 4))
    for csc, numba, read, touch, met in (
        (2.5, 1.2, 0.1, 0.5, "peers"),
        (2.4, 1.3, 0.76, 0.5, "reading"),
        (2.4, 1.3, 0.5, 0.91, "missed"),
        (2.5, 1.1, 0.7, 0.9, "missed"),
        (9.0, None, 0.7, 0.5, "missed"),
    ):
        seconds = {"ours": 2.0, "scipy csc": 2 * csc, "read": 2 * read, "touch": 2 * touch}
        seconds |= {"numba": 2 * numba} if numba else {}
        entry = {**shape, "seconds": {way: {"median": time} for way, time in seconds.items()}}
        row = kernels.grid_row(entry)
        assert row[:6] == ["2,000,000", "10", "1,000", "4", "2000.0", f"{csc:.2f}"]
        assert row[-2:] == [f"{touch:.2f}", met]
        assert f": {int(met != 'missed')} of 1, 30 required." in "\n".join(kernels.render_grid([entry]))


def test_the_page_states_how_many_shapes_meet_the_target():
    grid = json.loads((ROOT / "bench" / "results" / "kernels.json").read_text())["grid"]
    met = sum(kernels.grid_row(entry)[-1] != "missed" for entry in grid)
    page = " ".join((ROOT / "docs" / "benchmarks.md").read_text().split())
    assert f"Of {len(grid)} shapes" in page
    assert f"{met} met the target in this run, of which {kernels.REQUIRED} are required" in page
    single = sum(kernels.grid_row(entry)[-1] == "missed" and entry["sparsity"] == 1 for entry in grid)
    assert f"Of the {len(grid) - met} that miss it, {single} have s = 1" in page


@pytest.mark.parametrize(("ratio", "told"), [(0.81, "| 0.81 |"), (0.79, "| 0.79 (missed) |")])
def test_uploads_with_proofs_are_judged(ratio, told):
    seconds = {name: {"median": 1e-3} for name in ("bare", "dpmpc", "proved", "unproved")}
    entry = {"cpu_s": seconds, "wall_s": seconds, "bytes": {"unproved": 48, "proved": 144}, "cpu_ratio": ratio}
    content = {
        "machine": harness.machine(),
        "reports": 100,
        "connections": 2,
        "cpu_s": seconds,
        "wall_s": seconds,
        "cpu_ratio": 0.5,
        "wall_ratio": 0.5,
        "peak_mb": seconds.fromkeys(seconds, 1.0),
        "wire_bytes": dict.fromkeys(
            ("body", "request", "request_sent", "request_received", "connection_sent", "connection_received"), 1
        ),
        "proofs": {intake.BY_KEY: entry, intake.BY_WORDS: entry},
        "door": {
            "reports": 100,
            "bytes": 1756,
            "together": {
                "1": {name: {"median": 1e-3} for name in ("server", "other", "wall")},
                "100": {name: {"median": 1e-4} for name in ("server", "other", "wall")},
            },
        },
    }
    lines = intake.render(content).splitlines()
    assert "| another server, which opens and stores | 1 | 1000 | 1,000 | 1,000 |" in lines
    assert "| another server, which opens and stores | 100 | 100 | 10,000 | 10,000 |" in lines
    assert "| keys | unproved | 48 | 1,000 | 1000 |  |" in lines
    assert f"| words | proved | 144 | 1,000 | 1000 {told}" in lines


def test_uploads_are_measured_beside_a_handler_that_stores_nothing_and_through_a_door(tmp_path):
    measured = intake.measure(tmp_path, 8, 2)
    assert measured["cpu_s"].keys() == measured["wall_s"].keys() == {"dpmpc", "bare"}
    assert measured["wire_bytes"]["request"] > measured["wire_bytes"]["body"]
    door = intake.measure_door(tmp_path, 8, 2)
    assert (door["reports"], set(door["together"])) == (8, {"1", "100"})
    assert all(seconds["wall"]["median"] > 0 for seconds in door["together"].values())


def test_reports_into_a_store_are_measured_and_told(tmp_path):
    measured = stores.measure(str(tmp_path / "spool"), 1, 3, 0.05)
    assert measured["rate"] > 0
    content = {"machine": harness.machine(), "seconds": 1.0, "rows": [measured | {"rate": 1234.0, "cpu_s": 1e-5}]}
    assert "| SQLite | 1 | 3 | 1,234 | 10 |" in stores.render(content).splitlines()


def test_coverage_is_measured_and_told():
    setting = coverage.Setting("clipped", 4_000, 2, "sum", radius=0.9)
    assert np.abs(setting.truth()[1:]) == pytest.approx(np.abs(setting.weights), rel=0.2)
    measured = [coverage.measure(setting, 3), coverage.measure(coverage.Setting("few", 50, 2, "sum"), 2)]
    assert (measured[0]["finite"], measured[1]["finite"]) == (1, 0)
    assert measured[1]["coverage"] == [1, 1]
    text = coverage.render({"level": 0.95, "delta": 1e-6, "runs": 3, "measured": measured})
    assert "| clipped | 4,000 | 2 | 1 | 1 |" in text
    assert "| infinite | 0.0% |" in text


def test_coverage_in_rounds_is_measured_and_goes_on_from_a_file(tmp_path, monkeypatch):
    uniform = rounds_populations.uniform
    settings = (
        rounds_coverage.Setting("wrong", Population("logistic", uniform, features=3, wrong=True), 4_000, 3.0),
        rounds_coverage.Setting("hopeless", Population("poisson", uniform, features=3), 300, 0.1),
        rounds_coverage.Setting("real", Population("logistic", uniform, features=1), 2_000, 3.0, "real clients"),
        rounds_coverage.Setting("one", Population("linear", uniform, features=1), 2_000, 3.0, "one release"),
        rounds_coverage.Setting("linear", Population("linear", rounds_populations.tight, features=2), 300, 1.0),
        rounds_coverage.Mixed("mixed", 30, Population("linear", uniform, features=2, intercept=0.0), 5_000, 8.0),
        rounds_coverage.Mixed("rows", None, Population("linear", uniform, features=1, intercept=0.0), 5_000, 8.0),
    )
    file = tmp_path / "kept"
    measured = [entry for one in settings for entry in rounds_coverage.measure(one, 3, rounds_coverage.Kept(file))]
    assert [entry["name"] for entry in measured[:2]] == ["wrong", "hopeless"]
    assert (measured[1]["coverage"], measured[1]["without_interval"]) == (None, 1)
    assert all(len(entry["coverage"]) == entry["d"] for entry in measured if entry["coverage"])
    assert [entry["coverage_intercept"] is None for entry in measured[2:]] == [False, False, False, True, True]
    monkeypatch.setattr(rounds_coverage, "outcome", None)  # nothing is made again
    again = [entry for one in settings for entry in rounds_coverage.measure(one, 3, rounds_coverage.Kept(file))]
    assert again == measured
    text = rounds_coverage.render({"level": 0.95, "delta": 1e-6, "runs": 3, "measured": measured})
    assert "| linear | 1 | 2 | 6 |" in text
    assert "| hopeless | 300 | 3 | 0.1 | 3 |  |  |  |  |  | 100.0% |" in text
    assert measured[4]["on_bounds"] > 0.5  # these count among all lines
    assert measured[4]["without_interval"] == 0.0
    assert measured[3]["on_bounds"] == 0.0


def test_coverage_of_some_settings_is_measured_beside_that_of_the_others(tmp_path, monkeypatch, capsys):
    uniform = Population("linear", rounds_populations.uniform, features=1)
    settings = [rounds_coverage.Setting(name, uniform, 500, 3.0, "one release") for name in ("this one", "another")]
    monkeypatch.setattr(rounds_coverage, "SETTINGS", settings)
    monkeypatch.setattr(rounds_coverage, "RESULTS", tmp_path)
    before = [entry for one in settings for entry in rounds_coverage.measure(one, 3, rounds_coverage.Kept(None))]
    (tmp_path / "rounds_coverage.json").write_text(json.dumps({"measured": before}))
    rounds_coverage.main(["--runs", "2", "--only", "^this"])
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if "| 500 |" in line]
    assert [(row[0], row[4]) for row in rows] == [("| this one", "2"), ("| another", "3")]


def test_a_wrong_model_has_an_end_of_its_own():
    """The limit of maximum likelihood, here that of a large sample."""
    population = Population("logistic", rounds_populations.uniform, features=3, size=2.0, wrong=True)
    rows = population.sample(400_000, np.random.default_rng(0))
    best = LogisticRegression(C=np.inf, tol=1e-8).fit(rows[:, :-1], rows[:, -1])
    found = rounds_populations.aim(population)
    assert found == pytest.approx([*best.intercept_, *best.coef_[0]], abs=0.03)


def test_coinpress_is_compared_at_one_guarantee(tmp_path):
    """Least squares is best, and the trivial predictor has the loss of beta itself."""
    population = coinpress_figures.Population(3, stretch=4.0)
    found = coinpress_figures.losses(population, 2000, 0.5, 2)
    assert min(found, key=lambda name: sum(found[name])) == coinpress_figures.EXACT
    _, _, beta, root = population.draw(2000, 1)
    assert found[coinpress_figures.TRIVIAL][1] == pytest.approx(1 + np.sum((root @ beta) ** 2))
    assert np.linalg.cond(root) == pytest.approx(2)
    assert set(coinpress_figures.competitors(coinpress_figures.Population(3), 0.5)) == set(found) - {
        coinpress_figures.EXTENDED
    }
    charts = coinpress_figures.charts([300], [0.5], 1)
    assert [len(chart.panels) for chart in charts] == [3, 3, 2, 4, 2]
    assert all(
        "The paper's: " in chart.note and "Ours, because the axes are lost" in chart.note for chart in charts[:4]
    )
    assert "everything is ours. Sigma has drawn axes" in charts[4].note
    charts[-1].write(tmp_path)
    assert (tmp_path / "coinpress_extension.png").stat().st_size > 10_000


def test_coinpress_without_a_curator_is_compared_in_standard_errors():
    content = coinpress_figures.against_curator(2, clients=300, features=2)
    text = coinpress_figures.render(content)
    assert "| mean | curator |" in text
    assert "| regression | three servers, two corrupt clients |" in text


@pytest.mark.parametrize("clients", [25_000, pytest.param(100_000, marks=pytest.mark.long("a million clients"))])
def test_a_server_needs_no_more_memory_for_ten_times_the_clients(tmp_path, clients):
    measured = scale.measure([clients, 10 * clients], 1, tmp_path)
    for few, many in measured.values():
        assert (few["clients"], many["clients"]) == (clients, 10 * clients)
        assert many["peak_rss_mb"] - few["peak_rss_mb"] < 8  # the files differ by 18 MB, or by 72
    slopes = scale.slopes_of(measured)
    content = {
        "machine": harness.machine(),
        "runs": 1,
        "measured": measured,
        "exponents": {way: scale.exponents(entries) for way, entries in measured.items()},
        "slopes": dataclasses.asdict(slopes),
        "prices": dataclasses.asdict(Prices()),
        "modelled": scale.modelled(slopes),
    }
    text = scale.render(content)
    assert f"| {10 * clients:,} | {800 * clients / 1e9:.2f} |" in text
    assert "| sketch, one copy | 3 | 112 | 0.24 |" in text


def test_a_share_of_random_words_is_a_share(tmp_path):
    path = tmp_path / "array"
    scale.write_words(path, 1000)
    whole = np.load(path)
    assert whole.shape == (1000, 1, 10)
    assert len(np.unique(whole)) == whole.size
    shape = scale.cut(path, 300)
    assert open_share(path).shape == shape == (300, 1, 10)
    assert (np.load(path) == whole[:300]).all()
    with rejects("clients"):
        scale.write_words(path, 10**12)


def test_exponents_are_those_of_the_power():
    entries = [
        {"clients": n, "read_cpu_s": {"median": n * 1e-8}, "transform_cpu_s": {"median": n**1.5}}
        for n in (10, 99, 1000)
    ]
    assert scale.exponents(entries) == pytest.approx({"read": 1, "transform": 1.5})


def test_the_client_side_is_compared_with_its_peers(capsys):
    clients.main(["--runs", "1", "--clients", "3000", "--draws", "500"])
    lines = [line[2:-2].split(" | ") for line in capsys.readouterr().out.splitlines()]
    told = {line[0]: line for line in lines}
    assert told["read the rows"][2].strip() == "1.00"
    assert all(len(told[name]) == 4 for name in ("clip and encode, box", "clip, encode, share as keys, Z_p"))
    assert float(told["Skellam, variance 100"][2]) >= 0
    assert float(told["clip and encode, box"][1]) > 0


def test_speed_is_told_over_the_peers():
    """The same work, said to be 1000 times as much."""

    def work(threads):
        return sum(range(200_000))

    entry = clients.measure([clients.Way("peer", "", 1, work), clients.Way("ours", "peer", 1000, work)], 3, 1)[1]
    assert entry["peer"] == "peer"
    assert 100 < entry["speed_over_peer"] < 10_000
    assert entry["wall_s"] is None


def test_stages_of_a_fit_add_up_to_its_wall_clock(tmp_path):
    data = tmp_path / "people.parquet"
    end_to_end.write_population(data, 3000)
    found = end_to_end.in_process("fit", data, [*end_to_end.SETTINGS["sum"], "--simulation-seed", "1"])
    assert sum(seconds for stage, seconds in found.items() if stage != "wall") == pytest.approx(found["wall"], abs=0.01)
    assert min(found[stage] for stage in ("noise", "clip and encode", "TLS", "read the file")) > 0
    peer = end_to_end.in_process("peer", data, [])
    runs = {end_to_end.PEER: [peer], **{name: [found] for name in end_to_end.SETTINGS}}
    stages = {name: end_to_end.stages(entries) for name, entries in runs.items()}
    ratios = end_to_end.ratios(stages)
    assert ratios["sum"]["processes"] == pytest.approx((found["wall"] - found["noise"]) / peer["wall"])
    busiest = [{"function": "f", "calls": 3, "own_s": 1.0, "with_callees_s": 1.0}, {"function": "most", "calls": 3}]
    content = {"machine": harness.machine(), "runs": 1, "clients": 3000, "features": 10, "stages": stages}
    shares = {"sum": end_to_end.shares(stages["sum"])}
    assert sum(shares["sum"].values()) == pytest.approx(1)
    assert shares["sum"]["TLS"] == pytest.approx(found["TLS"] / found["wall"])
    text = end_to_end.render(content | {"ratios": ratios, "shares": shares, "busiest": {"sum": busiest}})
    assert "| fit | noise | start-up | TLS | the rest |" in text
    assert "| f | 3 | 1.000 | 1.000 |" in text


def test_a_page_compares_with_a_circuit_made_for_the_statement():
    """Other sizes, divided by that of a record's words."""
    for columns, binary, wider in ((10, 2.15, 1.84), (100, 1.25, 1.15)):
        words = 8 * proving.circuit_of(columns, 11).words
        assert round(proving.purpose_made_bytes(columns, 11, 1) / words, 2) == binary
        assert min(round(proving.purpose_made_bytes(columns, 11, digit) / words, 2) for digit in range(1, 6)) == wider
    assert round(proving.sumvec_bytes(10, 11) / 1408, 1) == 10.9
