"""Two libraries beside our lines, on data of your own, where they are installed.

diffprivlib's `LinearRegression` is the functional mechanism (Zhang et al. 2012) with Laplace noise, given the same
bounds. It promises epsilon alone, delta is 0, which is more than the others promise; its noise is scaled to the range
of each coefficient of the objective, which is replace-one.

OpenDP ships no regression of several features. Its Gaussian measurement is given the second moments of (1, features,
target), off the diagonal times sqrt(2), whose replace-one distance is sqrt(2) (D + 1) at most; sigma is what OpenDP's
own conversion from zCDP finds for (epsilon, delta). What it returns is read by least squares with the norm of the noise
as penalty. It is a curator's counterpart of our one release.
"""

from __future__ import annotations

import importlib
import math
import warnings

import numpy as np

from bench.curators.moments import seed_of
from bench.curators.names import DIFFPRIVLIB, OPENDP
from bench.curators.problem import DELTA, Fits, Problem
from dpmpc.base.randomness import Stream

MODULES = {DIFFPRIVLIB: "diffprivlib.models", OPENDP: "opendp.prelude"}


def lacking(name: str) -> str | None:
    """Return why a library cannot be used here, or None."""
    try:
        importlib.import_module(MODULES[name])
    except ImportError as error:
        return f"{MODULES[name]} cannot be imported here ({error}); pip install {name.lower()}"
    return None


def diffprivlib(problem: Problem, epsilon: float, runs: int, stream: Stream) -> Fits:
    """Fit `diffprivlib.models.LinearRegression` on the normalised rows."""
    regression = importlib.import_module(MODULES[DIFFPRIVLIB]).LinearRegression
    theta = np.empty((problem.columns, runs))
    for run in range(runs):
        model = regression(epsilon=epsilon, bounds_X=(-1, 1), bounds_y=(-1, 1), random_state=seed_of(stream) % 2**32)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a noisy objective may have no minimum
            model.fit(problem.X[:, 1:], problem.y)
        theta[:, run] = [model.intercept_, *model.coef_]
    return Fits(theta, told="δ = 0")


def opendp(problem: Problem, epsilon: float, runs: int, stream: Stream) -> Fits:
    """Fit least squares to second moments that OpenDP's Gaussian measurement returns; its noise has no seed."""
    dp = importlib.import_module(MODULES[OPENDP])
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l2_distance(T=float)

    def measurement(scale: float) -> object:
        approximate = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=scale))
        return dp.c.make_fix_delta(approximate, DELTA)

    D = problem.columns
    distance = math.sqrt(2) * (D + 1)
    scale = float(dp.binary_search_param(measurement, d_in=distance, d_out=(epsilon, DELTA)))
    release = dp.m.make_gaussian(*space, scale=scale)
    upper = np.triu_indices(D + 1)
    weights = np.where(upper[0] == upper[1], 1.0, math.sqrt(2))
    exact = (problem.moments[upper] * weights).tolist()
    penalty = math.sqrt(2 * D) * scale * np.eye(D)
    theta = np.empty((D, runs))
    for run in range(runs):
        noisy = np.zeros((D + 1, D + 1))
        noisy[upper] = np.array(release(exact)) / weights
        noisy = np.triu(noisy) + np.triu(noisy, 1).T
        theta[:, run] = np.linalg.solve(noisy[:D, :D] + penalty, noisy[:D, D])
    return Fits(theta, told=f"noise {scale:.3g} on the diagonal")
