"""The data-release paper's experiments: moments have the law of the library's releases, files are whole."""

import json

import numpy as np
import pytest
import scipy.stats

from bench.data_release import common as mpr
from bench.data_release import figure2 as mpr_figure2
from bench.data_release import figure3 as mpr_figure3
from bench.data_release import population as mpr_population
from bench.data_release import table1 as mpr_table1
from bench.data_release.common import BGM, DGM, OLS, RMGM, SUM, THEORY, ZERO
from bench.data_release.table1 import CLIPPED, HALF, MEAN, RealData, findings
from bench.datasets.data_release import SUPERCONDUCT_BOUNDS
from bench.registry import BENCHES
from dpmpc.data import Schema, Table
from dpmpc.owners import columns as mixing
from dpmpc.owners.columns.owner import mixing_of
from support.rejections import rejects

SIZES = (2, 2, 1)
SUBJECTS = 400
FEW, AMPLE = 12, 30.0  # people and a budget at which rows, noise and degrees of freedom all show in moments
RUNS = 1000


def rows_of(subjects=SUBJECTS, columns=5, seed=0):
    rows = np.random.default_rng(seed).uniform(-1, 1, (subjects, columns))
    rows[:, -1] = 0.5 * rows[:, 0] - 0.2 * rows[:, 1]
    return rows


def parties_of(rows):
    return np.split(rows, np.cumsum(SIZES)[:-1], axis=1)


def library(kind, seed, **choices):
    return kind(1.0, mpr.DELTA, calibration="paper", simulation_seed=seed, **choices).fit(parties_of(rows_of()))


# The law of a release


@pytest.mark.parametrize("kind", [mixing.DGM, mixing.BGM])
def test_the_fit_is_the_librarys(kind):
    fitted = library(kind, 3)
    moments = fitted.release_.moments()
    debias = fitted.release_.task.noise_variance * np.eye(5) if kind is mixing.DGM else 0
    ours = mpr.fit(moments - debias)
    np.testing.assert_allclose(ours.weights, fitted.coef_, rtol=1e-9)
    assert ours.smallest == pytest.approx(fitted.smallest_eigenvalue_, rel=1e-9)


def test_noise_and_rows_are_the_librarys():
    for kind, choices in ((mixing.BGM, {}), (mixing.RMGM, {"rows": "theory"}), (mixing.RMGM, {"rows": "paper"})):
        task = kind(1.0, mpr.DELTA, calibration="paper", simulation_seed=0, **choices).task(
            [
                Table.from_any(part, [f"{at}{column}" for column in range(part.shape[1])])
                for at, part in enumerate(parties_of(rows_of(100_000)))
            ]
        )
        assert task.noise_variance == pytest.approx(mpr.noise_sd(SIZES, 1.0) ** 2, rel=1e-5)
        assert task.guarantee.subject_mu == pytest.approx(mpr.subject_mu(SIZES, 1.0), rel=1e-3)
        if task.rows:
            sd = mpr.noise_sd(SIZES, 1.0)
            expected = {"theory": mpr.theory_rows(100_000, SIZES, sd), "paper": mpr.paper_rows(100_000, SIZES, 1.0)}
            assert task.rows == expected[choices["rows"]]


@pytest.mark.statistical
def test_moments_of_noisy_rows_have_the_law_of_the_librarys():
    """Two-sample Kolmogorov-Smirnov tests of 15 moments, 4 eigenvalues of the features' block and the error of BGM.

    Fixed seed; 20 tests of level 1e-5: under 2e-4 false alarms for a fresh seed.
    """
    rows = rows_of(FEW)
    moments, rng = rows.T @ rows, np.random.default_rng(1)
    drawn = [mixing.BGM(AMPLE, mpr.DELTA, simulation_seed=seed).fit(parties_of(rows)).release_ for seed in range(RUNS)]
    sd = np.sqrt(drawn[0].task.noise_variance)
    same_law([mpr.noisy_moments(moments, FEW, sd, rng) for _ in range(RUNS)], [one.moments() for one in drawn])


@pytest.mark.statistical
def test_moments_of_mixed_rows_have_the_law_of_the_librarys():
    """As above, for k = 6 mixed rows; signs are fresh in each run."""
    rows = rows_of(FEW)
    rng = np.random.default_rng(2)
    drawn = [
        mixing.RMGM(AMPLE, mpr.DELTA, rows=6, simulation_seed=seed).fit(parties_of(rows)).release_
        for seed in range(RUNS)
    ]
    sd = np.sqrt(drawn[0].task.noise_variance)
    fast = [mpr.mixed_moments(mpr.mixed(rows, 6, RUNS + seed), FEW, sd, rng) for seed in range(RUNS)]
    same_law(fast, [one.moments() for one in drawn])


def same_law(fast, slow):
    for row, column in zip(*np.triu_indices(5), strict=True):
        entries = [[moments[row, column] for moments in drawn] for drawn in (fast, slow)]
        assert scipy.stats.ks_2samp(*entries).pvalue > 1e-5
    eigenvalues = [np.array([np.linalg.eigvalsh(moments[:-1, :-1]) for moments in drawn]) for drawn in (fast, slow)]
    assert all(
        scipy.stats.ks_2samp(*pair).pvalue > 1e-5 for pair in zip(*(drawn.T for drawn in eigenvalues), strict=True)
    )
    errors = [[np.linalg.norm(mpr.fit(moments).weights) for moments in drawn] for drawn in (fast, slow)]
    assert scipy.stats.ks_2samp(*errors).pvalue > 1e-5


def test_without_noise_moments_are_the_datas():
    rows = rows_of()
    moments, rng = rows.T @ rows, np.random.default_rng(0)
    np.testing.assert_allclose(mpr.noisy_moments(moments, SUBJECTS, 1e-9, rng), moments / SUBJECTS, atol=1e-8)
    mixture = mpr.mixed(rows, 30, 5)
    np.testing.assert_allclose(mpr.mixed_moments(mixture, SUBJECTS, 0.0, rng), mixture.T @ mixture / SUBJECTS)
    task = library(mixing.RMGM, 5, rows=30).release_.task
    signs = mixing_of(task, 5).to_csc().toarray()
    np.testing.assert_allclose(mixture, signs @ rows / np.sqrt(30), atol=1e-12)


@pytest.mark.statistical
def test_the_sum_has_the_noise_of_its_guarantee():
    """Fixed seed; variances of 500 draws within 40 %, over six standard errors: under 1e-8 false alarms."""
    draws = np.array([mpr.sum_moments(np.zeros((5, 5)), 10, 0.5, seed) for seed in range(500)]) * 10
    sigma = np.sqrt(2) * 5 / 0.5
    assert draws[:, 2, 2].var() == pytest.approx(sigma**2, rel=0.4)
    assert draws[:, 0, 3].var() == pytest.approx(sigma**2 / 2, rel=0.4)


# The experiments


@pytest.mark.statistical
def test_errors_of_the_synthetic_population():
    """Fixed seed, n = 1e5, 60 seeds: means within about six standard errors, DGM's median above half its usual 3."""
    found = [mpr_population.experiment(100_000, (1.0,), seed)[1.0] for seed in range(60)]
    error = {name: [fits[name][0] for fits in found] for name in mpr_population.SERIES}
    assert np.mean(error[RMGM]) == pytest.approx(0.226, abs=0.05)
    assert np.mean(error[BGM]) == pytest.approx(np.mean(error[ZERO]), abs=0.005)
    assert np.median(error[DGM]) > 1.5
    assert np.mean(error[SUM]) == pytest.approx(0.0021, abs=0.0004)
    assert max(error[OLS]) < 1e-4


@pytest.mark.statistical
def test_dgm_converges_beyond_the_papers_sizes():
    """Theorem 1 of Wu et al. 2022: medians of 50 fits to the population's moments, by factors that leave room.

    Fixed seed; a median is within 20 % of its expectation, each limit a factor of two away.
    """
    weights = np.full(10, 0.1 / np.sqrt(3))
    population = np.block([[np.eye(10), weights[:, None]], [weights[None], np.array([[weights @ weights]])]]) / 3
    sd, rng = mpr.noise_sd(mpr_population.PARTIES, 1.0), np.random.default_rng(4)
    median = []
    for subjects in (10**6, 10**8, 10**10):
        drawn = [mpr.noisy_moments(subjects * population, subjects, sd, rng) for _ in range(50)]
        fits = [mpr.fit(moments - sd**2 * np.eye(11)).weights for moments in drawn]
        median.append(np.median([np.linalg.norm(fitted - weights) for fitted in fits]))
    assert median[0] > 1.5
    assert 0.1 < median[1] < 0.4
    assert 0.01 < median[2] < 0.04


def small_data():
    names = ("a", "b", "c", "y")
    printed = {OLS: 0.1, **dict.fromkeys(mpr.EPSILONS, (3.0, 2.0, 1.0))}
    bounds = Schema.from_pair(names, (-1.5, 1.5))
    return RealData("Small", lambda: Table(names, rows_of(1000, 4)), bounds, 2, printed)


@pytest.mark.parametrize("bench", [mpr_figure2, mpr_figure3, mpr_table1])
def test_a_short_run_writes_three_files(bench, tmp_path, monkeypatch, capsys):
    for module in (mpr_figure3, mpr_table1):
        monkeypatch.setattr(module, "MEASURED", (small_data(),))
    bench.main(["--short", "--out", str(tmp_path)])
    assert bench.__name__.removeprefix("bench.") in BENCHES
    page = (tmp_path / f"{bench.NAME}.md").read_text()
    assert json.loads((tmp_path / f"{bench.NAME}.json").read_text())["machine"]["versions"]["dpmpc"]
    assert (tmp_path / f"{bench.NAME}.png").read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out == page


def test_figure_3_a_needs_no_data_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("DPMPC_DATA", raising=False)
    mpr_figure3.main(["--short", "--out", str(tmp_path)])
    told = capsys.readouterr()
    assert "## (a) synthetic, n = 10,000" in told.out
    assert "## (b)" not in told.out
    assert "Panel (b), Insurance, is missing: DPMPC_DATA: nothing given" in told.out
    assert "Panel (b), Insurance, is missing" in told.err
    assert (tmp_path / "mpr_figure3.png").read_bytes().startswith(b"\x89PNG")


def test_losses_are_in_units_of_the_labels_range():
    data = small_data()
    losses = mpr_table1.one_split(data, data.load().values, (50,), 0)[1.0]
    label = data.load().values[:, -1]
    spread = label.var() / (label.max() - label.min()) ** 2
    assert losses[MEAN] == pytest.approx(spread, rel=0.2)
    assert losses[OLS] < 0.2 * spread
    assert losses[SUM] < 2 * losses[MEAN]
    assert {THEORY, HALF, ZERO, DGM, BGM, f"{RMGM}, k = 50"} < set(losses)
    assert losses[CLIPPED] == min(losses[CLIPPED], 4.0) <= losses[DGM]  # labels lie in [0, 1], predictions in [-1, 1]


def test_parties_have_the_columns_evenly():
    sizes = {data.name: data.sizes for data in mpr_table1.MEASURED}
    assert sizes["Insurance"] == (2,) * 5
    assert sizes["Superconductor"] == (9, 9, *(8,) * 8)
    assert sum(sizes["Superconductor"]) == len(SUPERCONDUCT_BOUNDS) == 82


def test_findings_compare_with_the_mean_predictor():
    losses = {name: {"mean": value, "median": 9.0} for name, value in ((DGM, 1.0), (RMGM, 1.0), (BGM, 3.0), (SUM, 0.5))}
    losses |= {CLIPPED: {"mean": 0.7}, THEORY: {"mean": 2.0}, HALF: {"mean": 1.0}, MEAN: {"mean": 2.0}}
    budget = {"epsilon": 0.3, "losses": losses, "printed": {DGM: 1.0, RMGM: 3.0, BGM: 1.0}}
    dgm, rmgm, bgm, clipped, theory, half, total = findings({"data_sets": [{"name": "D", "budgets": [budget]}]})
    assert dgm.endswith("predictor at ε = none; in the paper at ε = 0.3.")
    assert rmgm.endswith("predictor at ε = 0.3; in the paper at ε = none.")
    assert bgm.endswith("predictor at ε = none; in the paper at ε = 0.3.")
    assert clipped.endswith("predictor at ε = 0.3.")
    assert (theory[-7:], half[-6:], total[-6:]) == ("= none.", "= 0.3.", "= 0.3.")


def test_points_are_described():
    points = {"x": [(1e-3, 100.0), (1e-1, 1.0), (1e1, 0.01)]}
    found = mpr_figure3.described(points)["described"]["x"]
    assert found["correlation"] == pytest.approx(-1)
    assert (found["small"], found["large"], found["large_if_small"]) == (1 / 3, 1 / 3, 1.0)


def test_betas_are_said_to_be_a_choice():
    assert "Ours, because its axes are lost from the text that we have: β = 0.1, 0.2, 0.5, 1." in mpr_figure2.NOTE


def test_no_runs_are_refused(tmp_path):
    with rejects("runs", expected="at least 1"):
        mpr_figure2.main(["--runs", "0", "--out", str(tmp_path)])
