"""Every bench, in the order of `python -m bench all`: what it repeats, with whom it compares, and its short form.

Nothing is imported here but what describes a bench, for the command's help is drawn from it. A short form measures too
little to be kept: it prints its page and writes none.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable

HOME_VARIABLE = "MP_SPDZ_HOME"


def _nothing() -> None:
    """Say that a bench needs nothing but this checkout."""


def _mp_spdz() -> str | None:
    """Say that no MP-SPDZ is at hand, if so."""
    return None if os.environ.get(HOME_VARIABLE) else f"no MP-SPDZ: {HOME_VARIABLE} does not name its folder"


def _root() -> str | None:
    """Say that this process may not make network namespaces, if so."""
    return None if os.geteuid() == 0 else "only root can make network namespaces"


@dataclasses.dataclass(frozen=True)
class Bench:
    """One module of this folder, named as `FOLDER.MODULE`."""

    about: str  # what it repeats or measures
    peers: str  # with what it compares in the same run
    short: tuple[str, ...] = ("--short",)  # arguments of its short form, which `--short` stands for
    brief: bool = False  # whether `python -m bench short` runs it: a matter of speed, and seconds long
    # returns what this machine lacks for the bench, or None. `python -m bench all` passes over such a bench and says
    # why; by its own name it is run, and says so itself
    lacks: Callable[[], str | None] = _nothing


_SAMPLE = ("--clients", "200000")
BENCHES = {
    "system.kernels": Bench(
        "the kernel of sparse matrices, and its targets",
        "scipy.sparse, Numba, the speed of reading",
        ("--runs", "5"),
        brief=True,
    ),
    "system.clients": Bench(
        "the client side: encode, share, noise",
        "the speed of reading, NumPy, OpenDP",
        ("--runs", "2"),
        brief=True,
    ),
    "system.projections": Bench(
        "the sparse sketch of real numbers",
        "scipy.sparse, scikit-learn's SparseRandomProjection, NumPy",
        ("--runs", "2"),
        brief=True,
    ),
    "system.proving": Bench(
        "proved reports: a client, both kinds of server, bytes",
        "unproved reports, the bytes of Prio3's SumVec",
        ("--runs", "1", "--columns", "5", "10"),
        brief=True,
    ),
    "system.dense": Bench("the dense sketch", "BLAS through NumPy", ("--runs", "2"), brief=True),
    "secure_sketching.table3": Bench(
        "Table 3: run time and bytes, three servers", "one pass of the kernel, scipy.sparse, natural MPyC", brief=True
    ),
    "secure_sketching.table4": Bench("Table 4: two servers", "one pass of the kernel, scipy.sparse, natural MPyC"),
    "secure_sketching.table5": Bench(
        "Table 5: two, three and five servers", "one pass of the kernel, scipy.sparse, natural MPyC"
    ),
    "secure_sketching.hosts": Bench(
        "Algorithm 1 on three hosts, with delay between them", "the same run without delay", lacks=_root
    ),
    "secure_sketching.mp_spdz": Bench(
        "Tables 3 and 4 on your own MP-SPDZ (--home DIR)", "our servers, the same shares", lacks=_mp_spdz
    ),
    "secure_sketching.noising": Bench(
        "who adds the noise, and to what", "the paper's s copies", ("--runs", "1"), brief=True
    ),
    "secure_sketching.unopened": Bench("F_2 of a sketch that stays closed", "the opened sketch", brief=True),
    "secure_sketching.frequency_moments": Bench(
        "section 4.1: power sums and item F_2 against n, k and ε", "the local model's error"
    ),
    "system.scale": Bench("one server, 10^6 to 10^8 clients", "itself at other n", brief=True),
    "system.end_to_end": Bench(
        "stages of `dpmpc fit`", "pyarrow and scikit-learn's Ridge", ("--runs", "1", *_SAMPLE), brief=True
    ),
    "system.cell_servers": Bench(
        "a release of cells of a million people, and a proved one: what a server spends",
        "the histograms of the rows",
        ("--clients", "20000", "--proved", "2000"),
    ),
    "system.intake": Bench("uploads to one server of a collection", "a bare aiohttp handler", brief=True),
    "system.startup": Bench("`import dpmpc` and `dpmpc read`", "importing NumPy, importing SciPy", brief=True),
    "system.stores": Bench("reports into a store, by workers and groups", "SQLite beside PostgreSQL", brief=True),
    "system.glm": Bench(
        "regressions in rounds: logistic, and linear on the household set", "the best fit; one release"
    ),
    "system.rounds_coverage": Bench(
        "coverage of intervals of models in rounds and of mixed files",
        "the nominal level, one release",
        ("--runs", "3"),
    ),
    "system.short_intervals": Bench(
        "short intervals of slopes: fits in rounds", "one release of the same budget", ("--runs", "1")
    ),
    "system.survival_coverage": Bench(
        "coverage of survival curves and hazard ratios from cells, sizes of log-rank tests",
        "the nominal level",
        ("--runs", "3"),
    ),
    "system.zero_rounds": Bench("the logistic fit without rounds: its bias, and its error with noise", "the best fit"),
    "system.cells": Bench(
        "intervals and tests of Table 1 and two-way tables, with servers' noise; medians of flights",
        "the nominal level; tests without privacy",
        ("--runs", "3"),
    ),
    "system.penalties": Bench(
        "ridge penalties from a noisy sum, on real data", "lifting, the SURE rule of version 0.2"
    ),
    "system.crash": Bench("servers killed while clients upload", "what the clients remember"),
    "system.namespaces": Bench(
        "three hosts, a bad network, one cut off; root only", "the sums of uploads", lacks=_root
    ),
    "system.audit": Bench("lower bounds on epsilon from many simulated releases", "what is claimed"),
    "system.attacks": Bench(
        "attacks on proved reports, and a million false ones of each sort", "the honest rows", ("--count", "10000")
    ),
    "system.robustness": Bench("the error of a release with liars among 100,000 clients", "the same without proofs"),
    "system.fuzz": Bench("mutated uploads, frames and requests", "the valid ones", ("--count", "10000")),
    "secure_sketching.table6": Bench("Table 6: real data sets", "the paper's sizes"),
    "secure_sketching.table7": Bench("Table 7: low-rank approximation, real data", "local noise, central MOD-SULQ"),
    "secure_sketching.table8": Bench("Table 8: ridge regression, real data", "local noise, central SSP"),
    "secure_sketching.figure2": Bench(
        "Figure 2: low-rank approximation against n", "local noise, central Analyze Gauss"
    ),
    "secure_sketching.dense_as_printed": Bench(
        "Corollary 4.10: the dense matrix with the printed noise", "the same matrix with our noise shares"
    ),
    "secure_sketching.figure3": Bench("Figure 3: ridge regression against n", "local noise, central SSP"),
    "secure_sketching.figure3_large": Bench(
        "Figure 3 to n = 10^8, noise on every entry as printed: where the error of each p turns", "central SSP"
    ),
    "secure_sketching.best_k": Bench(
        "verdicts on sketches against their number of rows k: Figure 3, SGEMM", "the trivial predictor"
    ),
    "secure_sketching.figure4": Bench("Figure 4: ridge regression, several penalties", "local noise, central SSP"),
    "secure_sketching.sum_ssp": Bench("summed moments without a curator", "central SSP", ("--runs", "2")),
    "secure_sketching.coverage": Bench("coverage of confidence intervals", "the nominal level", ("--runs", "3")),
    "data_release.figure2": Bench("data release: Figure 2", "DGM, BGM, the non-private optimum"),
    "data_release.figure3": Bench("data release: Figure 3", "DGM, BGM, the non-private optimum"),
    "data_release.table1": Bench("data release: Table 1, real data", "DGM, BGM, the non-private optimum"),
    "mutual_information.attack": Bench(
        "mutual information: an attack on the printed noise", "sound noise", ("--trials", "5")
    ),
    "mutual_information.figures": Bench("mutual information: Figures 1 to 3", "additive noise, random projections"),
    "curators.central": Bench(
        "our sums over three servers beside a trusted curator's methods, real data or your own (--data FILE)",
        "AdaSSP and its boosted form, Gaussian and Hessian mixing, objective perturbation, DP-GD, TukeyEM",
    ),
    "curators.fresh": Bench("the same on twelve data sets that nobody tuned on", "the same methods"),
    "coinpress.figures": Bench("CoinPress: regression, Figures 2 to 5", "SSP, RMGM, a trusted curator"),
}
