"""CoinPress's extension to linear regression: its figures, the experiment that it leaves out, and rivals.

Figures 2 to 5 of Ediger 2021, whose axes are lost from the text that we have: every page says what is the paper's and
what is our choice, and has Algorithm 3 both as printed and with the repairs that
`dpmpc.models.papers.coinpress.algorithms` names. Then the experiment of its section 5.2, which has neither figures nor
a Sigma, and CoinPress among three servers against a trusted curator. Every trial draws new coefficients N(0, 1), new
rows and new noise. All competitors have one guarantee, the curve of rho-zCDP Gaussian noise, and one neighbouring
relation; the printed algorithm spends 0.55 rho.

Rivals need public bounds: features and label are clipped at 4 deviations, and a curator clips the normalised row at the
tail bound of CoinPress. The label's deviation is what CoinPress is told, 10 ("wide"), or what only the experimenter
knows, sqrt(1 + d) ("fitting"). RMGM has no curator: one party holds the features, another the label. No rival uses that
the features' covariance is the identity.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.charts import Chart, Panel, finish, options_of
from bench.harness import machine, markdown, summary, write
from bench.secure_sketching.sum_ssp import difference
from bench.secure_sketching.utility import TRIVIAL
from dpmpc.base.arrays import Reals
from dpmpc.models.papers.baselines import SSP, AdaSSP
from dpmpc.models.papers.coinpress import CoinPressRegression, PrivateCovariance, PrivateMean
from dpmpc.models.papers.coinpress.steps import COVARIANCE_FAILURE, tail_bound
from dpmpc.owners.columns import RMGM
from dpmpc.privacy.composition import epsilon_of_rho

TITLE = "CoinPress: linear regression"
RUNS, RHO, DELTA = 50, 0.5, 1e-6
SIZES = (500, 1000, 2000, 4000, 8000, 16_000)
BUDGETS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
LOW, HIGH = (2, 5, 10), (25, 35, 50)
STRETCH = 10.0  # between the largest and the smallest eigenvalue of the features' covariance in section 5.2
SPREAD, WIDE_DEVIATION = 4.0, 10.0
COINPRESS, PRINTED = "Algorithm 3, repaired", "Algorithm 3 as printed"
EXTENDED, EXACT = "CoinPress extension", "least squares"
MIXED = "RMGM, wide label bound"
LOSS = "population loss"

Fit = Callable[[Reals, Reals, int], Reals]
Error = Callable[[Reals, Reals], float]
Rival = Callable[[Reals, Reals, float, int], Reals]


@dataclasses.dataclass(frozen=True)
class Population:
    """Rows x ~ N(0, Sigma), labels N(<x, beta>, 1) with beta ~ N(0, I)."""

    features: int  # d
    # condition number of Sigma, whose axes are drawn and whose eigenvalues are spaced evenly in logarithms about 1
    stretch: float = 1.0

    def root(self, rng: np.random.Generator) -> Reals:
        """Return sigma^(1/2), symmetric."""
        vectors = np.linalg.qr(rng.standard_normal((self.features, self.features)))[0]
        scales = self.stretch ** np.linspace(-0.25, 0.25, self.features)
        return np.asarray((vectors * scales) @ vectors.T)

    def draw(self, clients: int, seed: int) -> tuple[Reals, Reals, Reals, Reals]:
        """Return rows, labels, beta and Sigma^(1/2)."""
        rng = np.random.default_rng([seed, clients, self.features])
        root = self.root(rng)
        beta = rng.standard_normal(self.features)
        X = rng.standard_normal((clients, self.features)) @ root
        return X, X @ beta + rng.standard_normal(clients), beta, root


def competitors(population: Population, rho: float) -> dict[str, Fit]:
    """Name everything that is fitted, by its coefficients."""
    largest = population.stretch**0.25

    def coinpress(**options: Any) -> Fit:
        return lambda X, y, seed: CoinPressRegression(rho, delta=DELTA, simulation_seed=seed, **options).fit(X, y).coef_

    def bounded(rival: Rival, deviation: float) -> Fit:
        return lambda X, y, seed: _rescaled(rival, X, y, SPREAD * largest, SPREAD * deviation, rho, seed)

    return {
        PRINTED: coinpress(algorithm="printed"),
        COINPRESS: coinpress(),
        **({EXTENDED: coinpress(covariance="estimate")} if population.stretch > 1 else {}),
        "SSP, wide label bound": bounded(_central(SSP), WIDE_DEVIATION),
        "SSP, fitting label bound": bounded(_central(SSP), math.sqrt(1 + population.features)),
        "AdaSSP, wide label bound": bounded(_central(AdaSSP), WIDE_DEVIATION),
        MIXED: bounded(_mixed, WIDE_DEVIATION),
        EXACT: lambda X, y, seed: np.linalg.lstsq(X, y, rcond=None)[0],
        TRIVIAL: lambda X, y, seed: np.zeros(population.features),
    }


def _rescaled(rival: Rival, X: Reals, y: Reals, bound: float, label: float, rho: float, seed: int) -> Reals:
    """Fit a rival, which takes data in [-1, 1], at the same guarantee; return its coefficients in data units."""
    found = rival(np.clip(X / bound, -1, 1), np.clip(y / label, -1, 1), epsilon_of_rho(rho, DELTA), seed)
    return np.asarray(found * label / bound)


def _central(kind: type[SSP] | type[AdaSSP]) -> Rival:
    """Return a curator's rival, whose rows are clipped at the tail bound."""

    def fit(X: Reals, y: Reals, epsilon: float, seed: int) -> Reals:
        radius = tail_bound(X.shape[1] + 1, COVARIANCE_FAILURE) / SPREAD
        return kind(0.0, epsilon, DELTA, fit_intercept=False, radius=radius, simulation_seed=seed).fit(X, y).coef_

    return fit


def _mixed(X: Reals, y: Reals, epsilon: float, seed: int) -> Reals:
    """Fit RMGM of two parties, one with the features and one with the label; the guarantee is that of a whole row."""
    return RMGM(epsilon, DELTA, guarantee="subject", simulation_seed=seed).fit([X, y[:, None]]).coef_


def losses(
    population: Population, clients: int, rho: float, runs: int, error: Error | None = None
) -> dict[str, list[float]]:
    """Measure all competitors on the same trials, by population loss unless another error is given."""
    fits = competitors(population, rho)
    found: dict[str, list[float]] = {name: [] for name in fits}
    for seed in range(runs):
        X, y, beta, root = population.draw(clients, seed)
        for name, fit in fits.items():
            off = fit(X, y, seed) - beta
            found[name].append(_loss(off, root) if error is None else error(off, root))
    return found


def _loss(off: Reals, root: Reals) -> float:
    """Return E (<x, b> - y)^2 = 1 + ||Sigma^(1/2) (b - beta)||^2 for new x, y; the paper averages 1000 new rows."""
    return 1 + float(np.sum((root @ off) ** 2))


ERRORS: dict[str, Error] = {
    "mean squared error": _loss,
    "mean absolute error": lambda off, root: math.sqrt(2 / math.pi * _loss(off, root)),
    "root mean squared error": lambda off, root: math.sqrt(_loss(off, root)),
    "||b - beta||": lambda off, root: float(np.linalg.norm(off)),
}


def by_size(features: Sequence[int], sizes: Sequence[int], runs: int, stretch: float = 1.0) -> list[Panel]:
    """Lay out one panel for each d, loss against n."""
    panels = []
    for d in features:
        panel = Panel(f"d = {d}")
        for size in sizes:
            panel.add(size, losses(Population(d, stretch), size, RHO, runs))
        panels.append(panel)
    return panels


def by_budget(features: Sequence[int], budgets: Sequence[float], clients: int, runs: int) -> list[Panel]:
    """Lay out one panel for each d, loss against rho."""
    panels = []
    for d in features:
        panel = Panel(f"d = {d}, n = {clients}")
        for rho in budgets:
            panel.add(rho, losses(Population(d), clients, rho, runs))
        panels.append(panel)
    return panels


def by_error(features: int, sizes: Sequence[int], runs: int) -> list[Panel]:
    """Lay out one panel for each error function, against n."""
    panels = []
    for name, error in ERRORS.items():
        panel = Panel(name)
        for size in sizes:
            panel.add(size, losses(Population(features), size, RHO, runs, error))
        panels.append(panel)
    return panels


def charts(sizes: Sequence[int], budgets: Sequence[float], runs: int) -> list[Chart]:
    """Measure Figures 2 to 5 and the experiment of section 5.2."""

    def note(theirs: str, ours: str) -> str:
        """Say which parameters are the paper's."""
        return (
            f"The paper's: {theirs}x, β and residuals N(0, 1), {RUNS} trials. Ours, because the axes are lost from the "
            f"text that we have: {ours}. delta = {DELTA:g}; least squares has no privacy; the loss is exact, the paper "
            "averages 1000 new rows."
        )

    n, span = "clients n", f"n from {sizes[0]:,} to {sizes[-1]:,}"
    fixed = f"rho = {RHO:g} (epsilon = {epsilon_of_rho(RHO, DELTA):.3f}), "
    low, high = (", ".join(str(d) for d in of) for of in (LOW, HIGH))
    return [
        Chart(
            "coinpress_figure2",
            "CoinPress extension, Figure 2: low dimensions",
            note(fixed, f"d = {low}, {span}"),
            n,
            LOSS,
            by_size(LOW, sizes, runs),
        ),
        Chart(
            "coinpress_figure3",
            "CoinPress extension, Figure 3: high dimensions",
            note(f"{fixed}d = {high}, ", span),
            n,
            LOSS,
            by_size(HIGH, sizes, runs),
        ),
        Chart(
            "coinpress_figure4",
            "CoinPress extension, Figure 4: effect of the budget",
            note("d = 5, 10, n = 1000, ", f"rho from {budgets[0]:g} to {budgets[-1]:g}"),
            "rho",
            LOSS,
            by_budget((5, 10), budgets, 1000, runs),
        ),
        Chart(
            "coinpress_figure5",
            "CoinPress extension, Figure 5: error functions, d = 5",
            note(f"{fixed}d = 5, ", f"the four error functions and {span}"),
            n,
            "error",
            by_error(5, sizes, runs),
        ),
        Chart(
            "coinpress_extension",
            f"CoinPress extension, section 5.2: features of condition number {STRETCH:g}",
            f"The paper has a heading and no figure: everything is ours. Sigma has drawn axes and {STRETCH:g} between "
            f"its largest and smallest eigenvalue, which are spaced evenly in logarithms about 1; {fixed}d = 5, 10, n "
            f"from {2 * sizes[0]:,} to {2 * sizes[-1]:,}, {RUNS} trials. delta = {DELTA:g}; least squares has no "
            "privacy.",
            n,
            LOSS,
            by_size((5, 10), [2 * size for size in sizes], runs, STRETCH),
        ),
    ]


def against_curator(runs: int, clients: int = 10_000, features: int = 10, rounds: int = 2) -> dict[str, Any]:
    """Return L2 errors of all three models with a curator and among three servers, fresh rows and noise each."""
    ways: dict[str, dict[str, Any]] = {
        "curator": {},
        "three servers": {"servers": 3},
        "three servers, two corrupt clients": {"servers": 3, "corrupt_clients": 2},
    }
    found: dict[str, dict[str, list[float]]] = {
        model: {way: [] for way in ways} for model in ("mean", "covariance", "regression")
    }
    radius = 10 * math.sqrt(features)  # the papers'
    for number, (way, options) in enumerate(ways.items()):
        for seed in range(runs):
            X, y, beta, _ = Population(features).draw(clients, 1000 * number + seed)
            fits = {
                "mean": PrivateMean(RHO, rounds, delta=DELTA, center=0.0, radius=radius, **options).fit(X).mean_,
                "covariance": PrivateCovariance(RHO, rounds, delta=DELTA, **options).fit(X).covariance_
                - np.eye(features),
                "regression": CoinPressRegression(RHO, rounds, delta=DELTA, **options).fit(X, y).coef_ - beta,
            }
            for model, off in fits.items():
                found[model][way].append(float(np.linalg.norm(off)))
    return {
        "machine": machine(),
        "clients": clients,
        "features": features,
        "rounds": rounds,
        "rho": RHO,
        "delta": DELTA,
        "runs": runs,
        "errors": found,
    }


def render(content: dict[str, Any]) -> str:
    """Return the Markdown page of the comparison with a curator."""
    rows = []
    for model, ways in content["errors"].items():
        for way, values in ways.items():
            told = summary(values)
            apart = "" if way == "curator" else f"{difference(values, ways['curator']):+.2f}"
            error = told["sd"] / math.sqrt(len(values))
            rows.append([model, way, f"{statistics.fmean(values):.5f}", f"{error:.5f}", apart])
    headings = ["model", "who sums", "mean L2 error", "standard error", "from the curator, in standard errors"]
    return "\n".join(
        [
            "# CoinPress without a curator",
            "",
            f"n = {content['clients']:,}, d = {content['features']}, rho = {content['rho']:g}, {content['rounds']} "
            f"rounds, {content['runs']} runs of each with rows and noise of their own.",
            "",
            markdown(headings, rows),
        ]
    )


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write all of it."""
    options = options_of("coinpress.figures", TITLE, arguments, RUNS)
    sizes, budgets = (SIZES[:2], BUDGETS[3:5]) if options.short else (SIZES, BUDGETS)
    folder: Path | None = options.out
    for chart in charts(sizes, budgets, options.runs):
        finish(chart, folder)
    content = against_curator(min(options.runs, 30), **({"clients": 1000, "features": 3} if options.short else {}))
    text = render(content)
    print(text)
    if folder is not None:
        write("coinpress_distributed", content, text, folder)
