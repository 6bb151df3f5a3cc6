"""Table 1 of Wu et al. 2022: losses on held-out rows of real data, beside what the paper prints.

*As printed*: columns are mapped to [0, 1] by their minima and maxima, and k is the best of five on the held-out rows.
Neither is private; both are repeated to compare with the paper. *Public bounds*: columns are mapped by bounds that are
known beforehand, and k comes from public numbers. Guarantees are the same in all: that of the paper's noise for one
party's columns. On [-1, 1], as in `dpmpc.owners.columns`, that is tau; on [0, 1] columns move half as far, so it is
tau/2 (the paper adds tau). The two differ in what 0 means, because there is no intercept: the middle of the label's
bounds, or its lower bound. The `Sum` release has the guarantee that this noise gives for a whole row, an intercept, and
a penalty chosen from the release; it needs clients that hold whole rows.

DGM stands there twice. As the paper describes it, a regression on a Hessian that may be nearly singular, its loss has
no mean to speak of, and its median is shown. With predictions clipped to [-1, 1] the mean of the loss is close to what
the paper prints: that the paper clips is our inference, it does not say so.

Losses are mean squares, divided by the squared range of the label, the paper's unit.
"""

from __future__ import annotations

import dataclasses
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.charts import options_of, require_plots
from bench.data_release.common import (
    BGM,
    COLOURS,
    DELTA,
    DGM,
    EPSILONS,
    OLS,
    RMGM,
    SUM,
    THEORY,
    ZERO,
    fit,
    mixed,
    mixed_moments,
    noise_sd,
    releases,
    subject_mu,
    theory_rows,
)
from bench.datasets import data_release as published
from bench.datasets.dataset_files import data_folder
from bench.datasets.secure_sketching import SONGS_BOUNDS, SONGS_FILE, SONGS_NAMES, SONGS_TARGET, load_songs
from bench.harness import machine, markdown, save_picture, summary, write
from bench.secure_sketching.simulation import exact_sums, opened
from dpmpc.base.arrays import Reals
from dpmpc.data import Column, Schema, Table
from dpmpc.models import RidgeRegression
from dpmpc.privacy.gaussian import epsilon_of_mu
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning import design

NAME, TITLE = "mpr_table1", "Data release, Table 1: real data"
ROWS = (100, 300, 1000, 3000, 10_000)
SHORT_ROWS = (100, 300)
SHORT_SUBJECTS = 1500
RUNS = 20
MEAN = "mean predictor"
HALF = "RMGM on [0, 1], theory k"
CLIPPED = "DGM, predictions clipped to [-1, 1]"
SUM_DELTA = 1e-6  # below 1/n, which the paper's delta is not; epsilon follows, so that mu is the same
Losses = dict[str, float]


@dataclasses.dataclass(frozen=True)
class RealData:
    """A data set of the table."""

    name: str  # the paper's
    load: Callable[[], Table]  # returns the table, the label last
    bounds: Schema  # public
    parties: int  # m; columns are spread evenly
    printed: Mapping[Any, Any]  # of the paper: the loss of OLS under `OLS`, and budget -> losses of DGM, RMGM and BGM
    file: str | None = None  # UCI's own, without which the data set is left out

    @property
    def at_hand(self) -> bool:
        """Whether the data folder holds the file that is needed."""
        return self.file is None or (data_folder() / self.file).exists()

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of columns of each party, d_j."""
        return tuple(len(part) for part in np.array_split(np.arange(len(self.bounds)), self.parties))


def gpu() -> Table:
    """Read the kernel's parameters and its mean time in milliseconds: the paper predicts that, not its logarithm."""
    values = published.load_sgemm().values
    return Table(GPU_BOUNDS.names, np.column_stack([values[:, :-1], np.exp(values[:, -1])]))


def songs() -> Table:
    """Read the songs, with the label, the year, last."""
    return load_songs().select(SONGS_BOUNDS.names)


SONGS_BOUNDS = SONGS_BOUNDS.select((*SONGS_NAMES[1:], SONGS_TARGET))
GPU_BOUNDS = Schema((*published.SGEMM_BOUNDS.columns[:-1], Column("run_ms", 10, 10_000)))
MEASURED = (
    RealData(
        "Insurance",
        published.load_insurance,
        published.INSURANCE_BOUNDS,
        5,
        {OLS: 0.008, 1.0: (0.7015, 0.0791, 0.0805), 0.3: (0.7550, 0.0782, 0.0850), 0.1: (0.7263, 0.0793, 0.0832)},
    ),
    RealData(
        "Bike",
        published.load_bike,
        published.BIKE_BOUNDS,
        5,
        {OLS: 0.017, 1.0: (0.8105, 0.0581, 0.0691), 0.3: (0.9080, 0.0711, 0.0703), 0.1: (0.8792, 0.0700, 0.0707)},
    ),
    RealData(
        "Superconductor",
        published.load_superconduct,
        published.SUPERCONDUCT_BOUNDS,
        10,
        {OLS: 0.009, 1.0: (0.9794, 0.0659, 0.0670), 0.3: (1.0075, 0.0707, 0.0704), 0.1: (0.9220, 0.0699, 0.0704)},
    ),
    RealData(
        "GPU",
        gpu,
        GPU_BOUNDS,
        5,
        {OLS: 0.007, 1.0: (0.6953, 0.0137, 0.0158), 0.3: (0.7843, 0.0160, 0.0160), 0.1: (0.7822, 0.0165, 0.0160)},
    ),
    RealData(
        "Music Song",
        songs,
        SONGS_BOUNDS,
        10,
        {OLS: 0.011, 1.0: (1.0167, 0.0202, 0.7194), 0.3: (1.6462, 0.1039, 0.7479), 0.1: (1.5583, 0.5654, 0.7508)},
        SONGS_FILE,
    ),
)
_PRINTED_ORDER = (DGM, RMGM, BGM)


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write the table."""
    options = options_of("data_release.table1", TITLE, arguments, RUNS)
    content: dict[str, Any] = {"machine": machine(), "delta": DELTA, "runs": options.runs, "data_sets": []}
    for data in MEASURED[:1] if options.short else [one for one in MEASURED if one.at_hand]:
        print(data.name, file=sys.stderr)
        choices = (SHORT_SUBJECTS, SHORT_ROWS) if options.short else (None, ROWS)
        content["data_sets"].append(measure(data, options.runs, *choices))
    text = page(content)
    print(text)
    if options.out is not None:
        write(NAME, content, text, options.out)
        draw(content, options.out / f"{NAME}.png")


def measure(data: RealData, runs: int, most: int | None = None, counts: Sequence[int] = ROWS) -> dict[str, Any]:
    """Split, release and fit a data set `runs` times."""
    values = data.load().values[:most]
    found: dict[float, dict[str, list[float]]] = {epsilon: {} for epsilon in EPSILONS}
    for seed in range(runs):
        for epsilon, losses in one_split(data, values, counts, seed).items():
            for name, loss in losses.items():
                found[epsilon].setdefault(name, []).append(loss)
    budgets = [_budget(data, epsilon, found[epsilon], counts, train_size(len(values))) for epsilon in EPSILONS]
    shape = {"subjects": train_size(len(values)), "features": values.shape[1] - 1, "sizes": data.sizes}
    return {"name": data.name, **shape, "budgets": budgets}


def train_size(subjects: int) -> int:
    """Return the number of rows to train on, four fifths of all."""
    return round(0.8 * subjects)


def one_split(data: RealData, values: Reals, counts: Sequence[int], seed: int) -> dict[float, Losses]:
    """Return budget -> competitor -> loss on the held-out fifth of the rows."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(values))
    train, test = order[: train_size(len(values))], order[train_size(len(values)) :]
    printed, width = by_extremes(values)
    bounded = data.bounds.normalise(values)
    unit = float(data.bounds.slope[-1] / width[-1]) ** 2
    features, label = printed[test, :-1], printed[test, -1]
    common = {
        OLS: mean_square(features, fit(printed[train].T @ printed[train] / len(train)).weights, label),
        MEAN: float(np.mean((label - printed[train, -1].mean()) ** 2)),
        ZERO: float(np.mean(label**2)),
    }
    found = {epsilon: dict(common) for epsilon in EPSILONS}
    mixtures = {f"{RMGM}, k = {count}": mixed(printed[train], count, seed) for count in counts}
    moments = printed[train].T @ printed[train]
    for epsilon in EPSILONS:
        for name, model in releases(moments, mixtures, len(train), noise_sd(data.sizes, epsilon), rng).items():
            found[epsilon][name] = mean_square(features, model.weights, label)
            if name == DGM:
                clipped = (features @ model.weights).clip(-1, 1)
                found[epsilon][CLIPPED] = float(np.mean((clipped - label) ** 2))
        for name, loss in _bounded_losses(data, bounded[train], bounded[test], epsilon, seed, rng).items():
            found[epsilon][name] = unit * loss
    return found


def _bounded_losses(
    data: RealData, train: Reals, test: Reals, epsilon: float, seed: int, rng: np.random.Generator
) -> Losses:
    """Return losses of RMGM and the `Sum` release on rows that public bounds map to [-1, 1]."""
    sd = noise_sd(data.sizes, epsilon)
    whole = epsilon_of_mu(subject_mu(data.sizes, epsilon), SUM_DELTA)
    task = design(
        ReleaseSpec.of(Schema.unit(data.bounds.names), len(train), whole, SUM_DELTA, sketch="sum", simulation_seed=seed)
    )
    total = RidgeRegression("auto").fit_release(opened(task, exact_sums(task, train), seed)).model_
    return {
        THEORY: _mixed_loss(data, train, test, sd, seed, rng),
        HALF: 4 * _mixed_loss(data, (train + 1) / 2, (test + 1) / 2, sd / 2, seed, rng),
        SUM: float(np.mean((total.predict(test[:, :-1]) - test[:, -1]) ** 2)),
    }


def _mixed_loss(data: RealData, train: Reals, test: Reals, sd: float, seed: int, rng: np.random.Generator) -> float:
    """Return the loss of RMGM with the k of theory."""
    mixture = mixed(train, theory_rows(len(train), data.sizes, sd), seed)
    model = fit(mixed_moments(mixture, len(train), sd, rng))
    return mean_square(test[:, :-1], model.weights, test[:, -1])


def by_extremes(values: Reals) -> tuple[Reals, Reals]:
    """Map columns to [0, 1] by their minima and maxima; return them, and the differences of the two."""
    lower, upper = values.min(axis=0), values.max(axis=0)
    width = np.where(upper > lower, upper - lower, 1.0)
    return (values - lower) / width, width


def mean_square(features: Reals, weights: Reals, label: Reals) -> float:
    """Return the mean of (X w - y)^2."""
    return float(np.mean((features @ weights - label) ** 2))


def _budget(
    data: RealData, epsilon: float, losses: Mapping[str, list[float]], counts: Sequence[int], subjects: int
) -> dict[str, Any]:
    """Summarise one budget; RMGM is that of the best k."""
    best = min(counts, key=lambda count: statistics.fmean(losses[f"{RMGM}, k = {count}"]))
    kept = {name: summary(values) for name, values in losses.items()}
    return {
        "epsilon": epsilon,
        "subject_epsilon": epsilon_of_mu(subject_mu(data.sizes, epsilon), DELTA),
        "best_rows": best,
        "theory_rows": theory_rows(subjects, data.sizes, noise_sd(data.sizes, epsilon)),
        "half_rows": theory_rows(subjects, data.sizes, noise_sd(data.sizes, epsilon) / 2),
        "losses": {**kept, RMGM: kept[f"{RMGM}, k = {best}"]},
        "printed": {OLS: data.printed[OLS], **dict(zip(_PRINTED_ORDER, data.printed[epsilon], strict=True))},
    }


def page(content: dict[str, Any]) -> str:
    """Return the Markdown page; the paper's losses are in brackets."""
    headings = (
        *("data set", "ε", "whole row's ε", OLS, MEAN, ZERO, f"{DGM} (median)", CLIPPED, f"{RMGM}, best k", BGM),
    )
    rows = []
    for data in content["data_sets"]:
        for budget in data["budgets"]:
            losses, printed = budget["losses"], budget["printed"]
            both = {
                name: f"{losses[name]['median' if name == DGM else 'mean']:.4f} ({printed[name]:.4f})"
                for name in (OLS, *_PRINTED_ORDER)
            }
            rows.append(
                [
                    f"{data['name']}, n = {data['subjects']:,}, d = {data['features']}, m = {len(data['sizes'])}",
                    f"{budget['epsilon']:g}",
                    f"{budget['subject_epsilon']:.2f}",
                    both[OLS],
                    *(f"{losses[name]['mean']:.4f}" for name in (MEAN, ZERO)),
                    both[DGM],
                    f"{losses[CLIPPED]['mean']:.4f} ({printed[DGM]:.4f})",
                    f"{both[RMGM]}, k = {budget['best_rows']}",
                    both[BGM],
                    f"{losses[THEORY]['mean']:.4f}, k = {budget['theory_rows']}",
                    f"{losses[HALF]['mean']:.4f}, k = {budget['half_rows']}",
                    f"{losses[SUM]['mean']:.4f}",
                ]
            )
    note = (
        f"Losses on held-out rows, the paper's in brackets; delta = {content['delta']:g}, {content['runs']} splits. "
        "The last three columns have public bounds, the others those of the data. "
        f"Music Song is measured where the data folder holds {SONGS_FILE}. DGM with clipped predictions is "
        "our reading of the paper's column, which does not say that it clips."
    )
    ends = (f"{RMGM} on [-1, 1], public bounds, theory k", f"{RMGM} on [0, 1], the same", f"{SUM}, public bounds")
    return "\n".join([f"# {TITLE}", "", note, "", markdown((*headings, *ends), rows), "", *findings(content)])


def findings(content: dict[str, Any]) -> list[str]:
    """Say which private losses, the paper's and ours, are below the mean predictor's."""
    sentences = []
    for data in content["data_sets"]:
        for name in (*_PRINTED_ORDER, CLIPPED, THEORY, HALF, SUM):
            ours, theirs = [], []
            for budget in data["budgets"]:
                losses, mean = budget["losses"], budget["losses"][MEAN]["mean"]
                if losses[name]["median" if name == DGM else "mean"] < mean:
                    ours.append(f"{budget['epsilon']:g}")
                if budget["printed"].get(name, mean) < mean:
                    theirs.append(f"{budget['epsilon']:g}")
            paper = f"; in the paper at ε = {', '.join(theirs) or 'none'}" if name in _PRINTED_ORDER else ""
            sentences.append(
                f"- {data['name']}: {name} is better than the mean predictor at ε = {', '.join(ours) or 'none'}{paper}."
            )
    return sentences


def draw(content: dict[str, Any], path: Path) -> None:
    """Write the PNG: a panel for each data set; hollow squares are the paper's."""
    require_plots()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = content["data_sets"]
    figure = Figure(figsize=(12, 1 + 4.4 * -(-len(panels) // 2)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(-(-len(panels) // 2), 2, squeeze=False).ravel()
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    for axis, data in zip(axes, panels, strict=False):
        budgets = data["budgets"]
        x = [budget["epsilon"] for budget in budgets]
        for name, colour in {**COLOURS, CLIPPED: "#8c510a", HALF: "#e69f00", MEAN: "black"}.items():
            centre = "median" if name == DGM else "mean"
            style = ":" if name == MEAN else "--" if name in (ZERO, OLS) else "o-"
            axis.plot(x, [b["losses"][name][centre] for b in budgets], style, color=colour, label=name, markersize=4)
        for name in (OLS, *_PRINTED_ORDER):
            values = [budget["printed"][name] for budget in budgets]
            axis.plot(x, values, "s", color=COLOURS[name], fillstyle="none", markersize=8, label=f"{name}, paper")
        title = f"{data['name']}, n = {data['subjects']:,}, d = {data['features']}"
        axis.set(xscale="log", yscale="log", title=title, xlabel="ε of one party's columns", ylabel="held-out loss")
        axis.grid(which="major", color="gainsboro", linewidth=0.6)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False)
    figure.suptitle(f"{TITLE} (DGM: median)")
    save_picture(figure, path, 100)
