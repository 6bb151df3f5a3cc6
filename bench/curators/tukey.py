"""TukeyEM of a trusted curator (Amin, Joseph, Ribero and Vassilvitskii, ICLR 2023, arXiv:2208.07353), at replace-one.

The rows are parted at random into m equal parts; least squares is fitted to each; and a point of large approximate
Tukey depth among the m models is drawn, after a test that there are enough of them. No bounds and no clipping are
needed.

*Replace-one.* The partition does not depend on the rows' values, so replacing a row changes one model of m. q(y), the
depth, is the least over the coordinates of the number of models on either side of y; it moves by at most 1. The points
of depth i or more are a box of volume V_i, so V_(i+1)(D) <= V_i(D') for neighbours D, D'. The mechanism draws y with
density proportional to e^(a q(y)) on q(y) >= t. For neighbours D, D' that differ in one model and r = min_g
V_(t-1)/V_(t+g) e^(-ag), all of D: points of depth t, the only ones that may fall out, have probability at most r;
elsewhere the density changes by e^a, and the normaliser of D' is at most e^a (1 + r) times that of D. So for every
event

    P_D <= e^(2a) P_D' + r (1 + e^(2a)).

A set is called safe if the last term is at most delta. With R_k = min_g V_(t-1-k)/V_(t+k+g) e^(-ag), every set within k
replaced models of D is safe if R_k (1 + e^(2a)) <= delta; K, the number of such k, counted from 0 up, moves by at most
1 from neighbour to neighbour, and D is safe where K >= 1. The test passes if K + Laplace(2/epsilon) > ln(1/(2
delta))/(epsilon/2): epsilon/2 for the test, 2a = epsilon/2 for the draw, and an unsafe set passes with probability
delta at most: (epsilon, delta) in all. (The authors' released program draws with e^(2aq), which we could not prove at
replace-one.)

As in the paper t = m/4. The paper takes m = 1000; here m is the one of least median risk among `MODELS`, chosen on
these very rows, for free, where each part has at least D rows. Where no m has, the method does not fit.
"""

from __future__ import annotations

import math

import numpy as np

from bench.curators.problem import DELTA, Fits, Problem, normal
from dpmpc.base.arrays import Reals
from dpmpc.base.randomness import Stream

MODELS = (1000, 4000, 16000)
_PENALTY = 1e-8  # times a part's rows: parts in which a column is constant have an answer
_JITTER = 1e-10  # on every model: equal coordinates would leave boxes without volume


def fitting(problem: Problem) -> tuple[int, ...]:
    """Return the numbers of models that leave each at least D rows."""
    return tuple(m for m in MODELS if problem.clients // m >= problem.columns)


def tukey(problem: Problem, epsilon: float, runs: int, stream: Stream) -> Fits | None:
    """Fit TukeyEM with the best m; None where no m fits."""
    best: tuple[float, Fits] | None = None
    for m in fitting(problem):
        theta, failed = np.zeros((problem.columns, runs)), 0
        generator = np.random.default_rng(int(stream.words(1)[0]))
        for run in range(runs):
            drawn = draw(models(problem, m, generator, stream), epsilon, generator)
            if drawn is None:
                failed += 1
            else:
                theta[:, run] = drawn
        median = float(np.median(problem.excess(theta)))
        if best is None or (failed, median) < (best[1].failed, best[0]):
            best = median, Fits(theta, failed, f"m = {m}")
    return None if best is None else best[1]


def models(problem: Problem, m: int, generator: np.random.Generator, stream: Stream) -> Reals:
    """Fit least squares to m random parts; return (m, D). Rows that are left over are not used."""
    size = problem.clients // m
    order = generator.permutation(problem.clients)[: m * size]
    X = problem.X[order].reshape(m, size, -1)
    y = problem.y[order].reshape(m, size, 1)
    transposed = X.transpose(0, 2, 1)
    grams = transposed @ X
    grams += _PENALTY * size * np.eye(problem.columns)
    fitted = np.linalg.solve(grams, transposed @ y)[:, :, 0]
    return np.asarray(fitted + normal(stream, _JITTER, *fitted.shape))


def draw(fitted: Reals, epsilon: float, generator: np.random.Generator, delta: float = DELTA) -> Reals | None:
    """Test whether there are enough models and draw a point among them, (D,); None where the test fails."""
    m = len(fitted)
    t, a = m // 4, epsilon / 4
    low = np.sort(fitted, axis=0)
    sides = low[::-1][: m // 2] - low[: m // 2]  # of the box of depth i + 1
    volumes = np.log(np.maximum(sides, np.finfo(float).tiny)).sum(axis=1)
    if (
        safe_distance(volumes, t, a, delta) + generator.laplace(0.0, 2 / epsilon)
        <= 2 * math.log(1 / (2 * delta)) / epsilon
    ):
        return None
    # e^(aq) is e^(at) on the box of depth t, plus e^(ai) - e^(a(i-1)) on each box of depth i > t.
    weights = volumes[t - 1 :] + a * np.arange(t, m // 2 + 1)
    weights[1:] += math.log(-math.expm1(-a))
    depth = t + int(np.argmax(weights + generator.gumbel(size=len(weights))))
    return np.asarray(generator.uniform(low[depth - 1], low[m - depth]))


def safe_distance(volumes: Reals, t: int, a: float, delta: float) -> int:
    """Return K: how many k = 0, 1, ... in a row have R_k (1 + e^(2a)) <= delta."""
    least = math.log(delta) - math.log1p(math.exp(2 * a))
    for k in range(t - 1):
        inner = volumes[t + k - 1 :]
        if not len(inner) or np.min(volumes[t - 2 - k] - inner - a * np.arange(len(inner))) > least:
            return k
    return t - 1
