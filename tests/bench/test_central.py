"""The comparison with a curator's methods: each keeps its promise at replace-one, and finds least squares if it may."""

import json
import math

import numpy as np
import pytest
from scipy import stats

from bench.curators import central, fresh, gradients, in_rounds, measuring, mixing, moments, names, tukey
from bench.curators.page import below, cells_of, draw, findings, render, verdicts
from bench.curators.problem import DELTA, SETS, Fits, Problem, symmetric
from bench.harness import RESULTS
from dpmpc.base.errors import InputError
from dpmpc.base.randomness import Stream
from dpmpc.data import Schema
from dpmpc.models.common.releases import Releases
from dpmpc.models.papers.baselines.linear import ADASSP_SENSITIVITY
from dpmpc.privacy.gaussian import delta_of_mu, mu_of_budget
from dpmpc.release import simulation
from dpmpc.release.planning import design
from support.rejections import rejects


def problem_of(clients=6000, features=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (clients, features))
    y = 0.1 + X @ np.linspace(0.2, 0.4, features) + rng.uniform(-0.2, 0.2, clients)
    return Problem(np.column_stack([X, y]), Schema.unit([*(f"x{j}" for j in range(features)), "y"]))


@pytest.fixture(scope="module")
def problem():
    return problem_of()


def test_excess_is_relative_to_the_trivial_predictor(problem):
    trivial = np.array([problem.y.mean(), 0, 0])
    theta = np.column_stack([problem.best, trivial, [0.5, 0.0, 1.0]])
    risks = ((problem.y[:, None] - problem.X @ theta) ** 2).sum(axis=0)
    expected = (risks - risks[0]) / (risks[1] - risks[0])
    assert problem.excess(theta) == pytest.approx(expected, abs=1e-12)
    assert problem.r2 == pytest.approx(1 - risks[0] / risks[1])


def test_scores_are_sums_over_rows(problem):
    theta = np.array([[0.0, 3.0], [0.1, -2.0], [0.0, 1.0]])
    residual = problem.y[:, None] - problem.X @ theta
    limit = np.array([0.1, 1.0])
    assert problem.scores(theta, limit) == pytest.approx(problem.X.T @ np.clip(residual, -limit, limit))
    each = problem.X[:, :, None] * residual[:, None, :]
    length = np.linalg.norm(each, axis=1, keepdims=True)
    clipped = (each * np.minimum(1, limit / length)).sum(axis=0)
    assert problem.scores(theta, limit, whole_gradient=True) == pytest.approx(clipped)


@pytest.mark.parametrize("method", [name for name in measuring.USUAL if name != names.MIXING])
def test_without_privacy_each_finds_least_squares(method, problem):
    """Hessian mixing keeps the distortion of its three sketches, and TukeyEM that of its small parts."""
    fits = measuring.METHODS[method].fit(problem, 60.0, 4, Stream.from_seed(1))
    most = {names.TUKEY: 0.3, names.HESSIAN: 1e-2, names.BOOSTED: 5e-3}.get(method, 2e-3)
    assert fits.failed == 0
    assert np.median(problem.excess(fits.theta)) < most


def test_one_sketch_is_as_good_as_its_rows(problem):
    """Without noise k rows leave an excess near (D/k) (1 - R^2)/R^2; the sketch has some noise still."""
    fits = mixing.gaussian_mixing(problem, 60.0, 40, Stream.from_seed(2))
    rows = mixing.sketch_rows(mixing.MIXING_ROWS, 3, 20 / DELTA)
    least = 3 / rows * (1 - problem.r2) / problem.r2
    assert least / 2 < np.median(problem.excess(fits.theta)) < 10 * least


def test_more_budget_is_less_risk(problem):
    for method in (
        names.SUM,
        names.ROUNDS_8,
        names.ADASSP,
        names.BOOSTED,
        names.HESSIAN,
        names.OBJECTIVE,
        names.DESCENT,
    ):
        risks = [
            np.median(problem.excess(measuring.METHODS[method].fit(problem, epsilon, 9, Stream.from_seed(3)).theta))
            for epsilon in (0.1, 3.0)
        ]
        assert risks[1] < risks[0] / 5, method


def test_our_line_has_the_law_of_what_clients_and_servers_make():
    """Noise that three servers open, made by clients, has the variance of the line's; 6.6 standard errors, 60 draws."""
    problem = problem_of(40)
    task = design(moments.specification(problem, 1.0))
    assert (task.trust.servers, task.sketch.rows) == (3, 1)
    exact = moments.exact_sums(task, problem.rows)
    made = np.array([simulation.run(task, problem.rows).sums - exact for _ in range(60)], float)
    line = np.array([moments.opened(task, exact, seed).sums - exact for seed in range(60)], float)
    variances = [(noise**2).mean() for noise in (made, line)]
    assert variances[0] / variances[1] == pytest.approx(1, abs=6.6 * math.sqrt(4 / made.size))
    assert made.mean() == pytest.approx(0, abs=6.6 * math.sqrt(variances[0] / made.size))


def unit_vectors(rng, side):
    for _ in range(200):
        vectors = rng.standard_normal((2, side))
        yield vectors / np.linalg.norm(vectors, axis=1, keepdims=True) * rng.choice([0.3, 1.0, 1.0], (2, 1))


def test_boosting_moves_by_no_more_than_adassp():
    """Search over rows, residuals and the other rows: (smallest eigenvalue, matrix, T scores over sqrt(T))."""
    rng, most = np.random.default_rng(0), 0.0
    for x, other in unit_vectors(rng, 3):
        rest = np.outer(x, other)
        rest = 10 * (np.eye(3) - rest @ np.linalg.pinv(rest))
        grams = [rest + np.outer(v, v) for v in (x, other)]
        smallest = [np.linalg.eigvalsh(gram)[0] for gram in grams]
        residuals = rng.choice([-1, 1], (5, 2))
        scores = residuals[:, :1] * x - residuals[:, 1:] * other
        moved = (smallest[0] - smallest[1]) ** 2 + ((grams[0] - grams[1]) ** 2).sum() + (scores**2).sum() / 5
        most = max(most, moved)
    assert most <= ADASSP_SENSITIVITY**2
    assert moments.boosted_sigma(1.0) == pytest.approx(ADASSP_SENSITIVITY / mu_of_budget(1.0, DELTA))


def test_symmetric_noise_has_the_stated_deviations():
    noise = symmetric(Stream.from_seed(0), 3.0, 2, 20_000)
    assert (noise == noise.transpose(0, 2, 1)).all()
    assert noise.std(axis=0) == pytest.approx(3 * np.array([[1, 0.5**0.5], [0.5**0.5, 1]]), rel=0.03)


def renyi(order, first, second):
    """Return the Renyi divergence of N(0, first) from N(0, second), for one row."""
    mixed = order * second + (1 - order) * first
    if np.linalg.eigvalsh(mixed)[0] <= 0:
        return math.inf
    logs = [np.linalg.slogdet(matrix)[1] for matrix in (mixed, first, second)]
    return -(logs[0] - (1 - order) * logs[1] - order * logs[2]) / (2 * (order - 1))


@pytest.mark.parametrize("order", [2.0, 3.0, 8.0])
def test_a_replaced_row_moves_a_sketch_by_no_more_than_is_counted(order):
    rng, gamma, rows = np.random.default_rng(1), 12.0, 7
    bound, most = mixing.sketch_divergence(order, rows, gamma), 0.0
    for x, other in unit_vectors(rng, 3):
        rest = (gamma - 1) * np.eye(3) + np.outer(*(2 * [rng.standard_normal(3) * rng.choice([0, 1])]))
        most = max(most, rows * renyi(order, rest + np.outer(x, x), rest + np.outer(other, other)))
    axes = np.eye(3)
    worst = [(gamma - 1) * np.eye(3) + np.outer(axes[j], axes[j]) for j in (0, 1)]
    assert most <= bound * (1 + 1e-9)
    assert rows * renyi(order, *worst) == pytest.approx(bound)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_a_sketch_of_one_column_keeps_its_promise_exactly(epsilon):
    """k rows of N(0, v) are v times a chi-square variable: delta is known, here for a row that replaces zeros."""
    rows = 36
    gamma = mixing.mixing_gamma(epsilon, rows)
    assert mixing.sketch_divergence(2.0, rows, gamma) > mixing.sketch_divergence(2.0, rows, gamma * 1.1)
    for first, second in ((gamma, gamma - 1), (gamma - 1, gamma)):
        law, other = (stats.chi2(rows, scale=v) for v in (first, second))
        where = np.linspace(0, 40 * gamma * rows, 400_001)
        gain = np.maximum(0, law.pdf(where) - math.exp(epsilon) * other.pdf(where))
        assert np.trapezoid(gain, where) <= DELTA


def test_the_eigenvalue_is_overestimated_as_rarely_as_is_counted():
    """Noise reaches gamma but with probability delta/3; here at most 1 of 20,000 draws, where 0.007 are expected."""
    grams, rows, gamma = np.diag([5.0, 300.0]), 40, 400.0
    squared = mixing._added(grams, gamma, rows, 20_000, Stream.from_seed(4))
    assert (squared + 5.0 < gamma).sum() <= 1
    assert squared.max() <= gamma


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_objective_perturbation_keeps_its_promise(epsilon):
    """One column: the density of theta follows from b's; delta is integrated for pairs of neighbours."""
    sigma, penalty = gradients.objective_noise(epsilon, 1.0)
    theta = np.linspace(-40, 40, 200_001) * sigma / penalty / 5

    def density(rows):
        score, curvature = -penalty * theta, np.full_like(theta, penalty)
        for x, y in rows:
            residual = y - x * theta
            score += x * np.clip(residual, -1, 1)
            curvature += x**2 * (np.abs(residual) < 1)
        return np.exp(-(score**2) / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi)) * curvature

    for first in ((1, 1), (1, -1), (-1, 0.5), (0.2, 1)):
        for second in ((1, -1), (-1, 1), (0, 0)):
            p, q = (density([row, (1, 0.3), (-0.5, 0.1)]) for row in (first, second))
            assert np.trapezoid(p, theta) == pytest.approx(1, abs=1e-3)
            assert np.trapezoid(np.maximum(0, p - math.exp(epsilon) * q), theta) <= DELTA


def test_the_noise_of_objective_perturbation_is_that_of_four_corners():
    sigma, penalty = gradients.objective_noise(2.0, 3.0)
    assert math.log1p(9 / penalty) == pytest.approx(1.0)
    assert 4 * delta_of_mu(2 * 3 / sigma, 1.0) == pytest.approx(DELTA, rel=1e-6)


def test_steps_of_gradient_descent_have_the_stated_noise(problem):
    clips, rates = np.full(4000, 0.5), np.full(4000, 2.0)
    theta = gradients._descend(problem, 1, clips, rates, 0.25, Stream.from_seed(5))
    assert theta.std(axis=1) == pytest.approx(np.full(3, 2.0 * 2 * 0.5 / 0.25), rel=0.06)
    still = problem.scores(np.zeros((3, 1)), 0.5, whole_gradient=True)[:, 0]
    assert theta.mean(axis=1) == pytest.approx(2.0 * still, abs=6 * 8 / math.sqrt(4000))


def volumes_of(fitted):
    low = np.sort(fitted, axis=0)
    half = len(low) // 2
    return np.log(low[::-1][:half] - low[:half]).sum(axis=1)


def test_the_distance_to_unsafe_sets_moves_by_one():
    rng = np.random.default_rng(6)
    for _ in range(200):
        fitted = rng.standard_normal((80, 2)) * rng.choice([0.2, 1.0])
        other = fitted.copy()
        other[rng.integers(80)] = rng.standard_normal(2) * rng.choice([0.1, 5.0])
        found = [tukey.safe_distance(volumes_of(one), 20, 1.5, 1e-3) for one in (fitted, other)]
        assert abs(found[0] - found[1]) <= 1


def test_a_point_among_safe_models_keeps_its_promise():
    """One column: densities are constant between neighbours' models, so that delta is a finite sum."""
    rng, a, t, delta = np.random.default_rng(7), 0.6, 25, 1e-3
    safe = 0
    for _ in range(300):
        fitted = rng.standard_normal(100)
        other = fitted.copy()
        other[rng.integers(100)] = rng.standard_normal() * 3
        if tukey.safe_distance(volumes_of(fitted[:, None]), t, a, delta) < 1:
            continue
        safe += 1
        edges = np.sort(np.concatenate([fitted, other]))
        middle, width = (edges[1:] + edges[:-1]) / 2, np.diff(edges)

        def mass(models, middle=middle, width=width):
            depth = np.minimum((models[:, None] <= middle).sum(axis=0), (models[:, None] >= middle).sum(axis=0))
            weight = width * np.exp(a * depth) * (depth >= t)
            return weight / weight.sum()

        assert np.maximum(0, mass(fitted) - math.exp(2 * a) * mass(other)).sum() <= delta
    assert safe > 20


def test_points_are_drawn_with_the_stated_density():
    rng = np.random.default_rng(8)
    fitted = np.concatenate([np.linspace(-3, 3, 1000), np.linspace(-1, 1, 1000)])[:, None]
    epsilon, m = 0.4, 2000
    drawn = np.array([tukey.draw(fitted, epsilon, rng, delta=0.3)[0] for _ in range(2000)])
    low = np.sort(fitted[:, 0])
    middle, width = (low[1:] + low[:-1]) / 2, np.diff(low)
    depth = np.minimum(np.arange(1, m), np.arange(m - 1, 0, -1))
    weight = width * np.exp(epsilon / 4 * (depth - depth.max())) * (depth >= m // 4)
    expected = (weight * np.abs(middle)).sum() / weight.sum()
    assert np.abs(drawn).mean() == pytest.approx(expected, rel=0.1)


def test_too_few_models_have_no_answer(problem):
    assert tukey.draw(np.random.default_rng(9).standard_normal((100, 3)), 0.1, np.random.default_rng(0)) is None
    assert tukey.fitting(problem_of(500)) == ()
    assert tukey.tukey(problem_of(500), 1.0, 2, Stream.from_seed(0)) is None


def test_a_cell_is_summarised(problem):
    theta = problem.best[:, None] + np.outer([1, 0, 0], 0.01 * np.arange(1, 61))
    cell = measuring.summary(problem, Fits(theta, told="k = 5"))
    risks = np.sort(problem.excess(theta))
    assert cell["median"] == pytest.approx(np.median(risks))
    assert cell["median_error"] == pytest.approx((risks[33] - risks[26]) / 2)
    assert cell["mean_error"] == pytest.approx(risks.std(ddof=1) / math.sqrt(60))


@pytest.mark.parametrize("comparison", [central.CENTRAL, fresh.FRESH], ids=lambda one: one.name)
def test_the_stored_page_is_drawn_from_the_stored_results(comparison):
    content = json.loads((RESULTS / f"{comparison.name}.json").read_text())
    assert sorted([*content["sets"], *content["missing"]]) == sorted(one.name for one in comparison.sets)
    assert (RESULTS / f"{comparison.name}.md").read_text() == render(content) + "\n"


def test_the_how_to_says_what_the_results_say():
    """Rounds have the lowest error in most cells, as docs/how-to/plan.md states."""
    cells = cells_of(json.loads((RESULTS / "central.json").read_text()))
    said = {names.ADASSP: 18, names.THRICE: 15, names.BOOSTED: 3, names.DESCENT: 6}
    assert {peer: len(below(cells, names.SUM, [peer])) for peer in said} == said
    ours = {names.SUM: 0, names.ROUNDS_8: 25, names.ROUNDS_32: 25, names.OWNERS: 17}
    assert {line: len(below(cells, line, names.PEERS)) for line in ours} == ours
    content = json.loads((RESULTS / "fresh.json").read_text())
    lowest = [len(below(cells_of(content, sets), names.ROUNDS_32, names.PEERS)) for sets in content["groups"].values()]
    assert lowest == [30, 9]


def test_a_measurement_is_written_set_by_set_and_taken_up_again(tmp_path, monkeypatch, capsys):
    first, second = SETS[1].name, SETS[2].name
    monkeypatch.setattr(measuring, "EPSILONS", (1.0, 3.0))
    both = {name: measuring.METHODS[name] for name in (names.SUM, names.ADASSP)}
    monkeypatch.setattr(measuring, "METHODS", both)
    small = {one.name: problem_of(3000, seed=number) for number, one in enumerate(SETS[1:3])}
    monkeypatch.setattr(type(SETS[0]), "problem", lambda self, most=None: small[self.name])
    central.main(["--runs", "3", "--only", second, "--out", str(tmp_path)])
    assert list(json.loads((tmp_path / "central.json").read_text())["sets"]) == [second]
    central.main(["--runs", "3", "--only", first, "--out", str(tmp_path)])
    content = json.loads((tmp_path / "central.json").read_text())
    assert list(content["sets"]) == [first, second]
    assert (tmp_path / "central.md").read_text() == render(content) + "\n"
    assert (tmp_path / "central.png").stat().st_size > 1000
    content["sets"][first]["cells"][names.SUM][0]["told"] = "kept"
    (tmp_path / "central.json").write_text(json.dumps(content))
    central.main(["--runs", "2", "--only", first, "--methods", names.ADASSP, "--out", str(tmp_path)])
    cells = json.loads((tmp_path / "central.json").read_text())["sets"][first]["cells"]
    assert (cells[names.SUM][0]["told"], cells[names.ADASSP][0]["runs"]) == ("kept", 2)
    with rejects("runs", expected="at least 2"):
        central.main(["--runs", "1"])


def test_a_set_that_is_missing_is_named_on_the_page(tmp_path, monkeypatch, capsys):
    def missing(self, most=None):
        raise InputError("package none: not installed")

    monkeypatch.setattr(type(SETS[0]), "problem", missing)
    fresh.main(["--runs", "2", "--only", "Wage", "--out", str(tmp_path)])
    assert json.loads((tmp_path / "fresh.json").read_text())["missing"] == {"Wage": "package none: not installed"}
    assert "- **Wage** was not measured: package none: not installed.\n" in (tmp_path / "fresh.md").read_text()
    assert "Wage is MISSING: package none: not installed" in capsys.readouterr().err


def test_streams_of_cells_are_all_different():
    """Also between the two benches, and the numbers of methods are not given twice."""
    numbers = [method.number for method in measuring.METHODS.values()]
    sets = [*range(len(SETS)), *range(fresh.FRESH.first_number, fresh.FRESH.first_number + len(fresh.FRESH.sets))]
    firsts = {
        int(measuring.stream_of(one, at, method).words(1)[0]) for one in sets for at in range(4) for method in numbers
    }
    assert len(firsts) == len(sets) * 4 * len(numbers)


def test_owners_noise_has_three_times_the_variance():
    """Three of whom two may pool: in the first release and in a steering round, by the tasks' own variances."""
    problem, variances = problem_of(500), []
    for trust in ({}, in_rounds.THREE_OWNERS):
        answer = in_rounds.answers(problem, Stream.from_seed(1))
        releases = Releases(moments.specification(problem, 1.0, 1, **trust), answer)
        in_rounds.steered(releases, 2)
        variances.append([float(release.noise_variance[0]) for release in releases.made])
    assert len(variances[0]) == 3
    assert np.array(variances[1]) / np.array(variances[0]) == pytest.approx(3.0, rel=1e-3)


def cell(median, failed=0):
    return {
        "median": median,
        "median_error": 0.01,
        "mean": median,
        "mean_error": 0.1,
        "runs": 10,
        "failed": failed,
        "told": "",
    }


def test_findings_say_who_is_lowest_where(tmp_path):
    found = {
        "note": "-",
        "bounds": "X",
        "target": ["y", -1, 1],
        "clients": 10,
        "columns": 4,
        "outside": 0,
        "r2": 0.5,
        "no privacy": 0.001,
        "cells": {
            names.SUM: [cell(2.0), cell(0.5), cell(0.1)],
            names.ROUNDS_32: [cell(3.0), cell(0.4), cell(0.4)],
            names.ADASSP: [cell(1.5), cell(0.49), cell(0.3)],
            names.TUKEY: [cell(0.1, failed=9), None, cell(0.9)],
        },
    }
    content = {
        "name": "central",
        "groups": {"One set": ["Set"]},
        "missing": {},
        "epsilons": [0.1, 0.3, 1.0],
        "runs": 10,
        "sets": {"Set": found},
        "delta": 1e-6,
        "machine": {"date": "now"},
    }
    sentences = findings(content)
    assert "In 1 no method is better than the trivial predictor (Set 0.1)" in sentences[0]
    assert "**Sum release** is below every curator in 1 of 3 cells (Set 1)" in sentences[1]
    assert "better than the trivial predictor in 1 (Set 0.1)" in sentences[1]
    assert "**32 rounds** is below every curator in 1 of 3 cells (Set 0.3)" in sentences[2]
    lost = [sentence for sentence in sentences if "Lost" in sentence]
    assert lost == [
        "- Lost by 32 rounds: Set at ε = 0.1, 3 against 1.5 of AdaSSP.",
        "- Lost by 32 rounds: Set at ε = 1, 0.4 against 0.3 of AdaSSP.",
    ]
    assert "**AdaSSP** is the lowest curator in 3 of 3 cells" in next(one for one in sentences if "**AdaSSP**" in one)
    assert "lowest curator in 0 of 1 cells" in next(one for one in sentences if "**TukeyEM**" in one)
    assert below(cells_of(content), names.ROUNDS_32, [names.SUM]) == [("Set", 0.3)]
    table = "\n".join(verdicts(content))
    assert "| One set: 3 cells | all curators | Sum release | AdaSSP | TukeyEM |" in table
    assert "| 32 rounds | **1** | 1 | 1 | 1 of 1 |" in table
    page = render(content)
    assert "| no answer (9 of 10) | does not fit | 0.9 (0.9 ± 0.1) |" in page
    draw(content, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").exists()
