"""Methods of a trusted curator that perturb gradients: objective perturbation and clipped gradient descent."""

from __future__ import annotations

import itertools
import math

import numpy as np

from bench.curators.problem import DELTA, LARGEST_TARGET, Fits, Problem, normal
from dpmpc.base.arrays import Reals
from dpmpc.base.randomness import Stream
from dpmpc.privacy.gaussian import mu_of_budget

CURVATURE_SHARE = 0.5  # of epsilon, for the determinant: Kifer, Smith and Thakurta 2012, Algorithm 1
MOST_STEPS, CLOSE = 400, 1e-9  # of the minimiser: steps, and the change that ends it, over the norm

STEPS = (4, 16, 64, 256)
CLIPS = (1.0, 0.3, 0.1, 0.03)  # of B C
RATES = (0.3, 1.0, 3.0, 10.0)  # over the largest eigenvalue of X^T X
TUNING_RUNS = 3


def objective_perturbation(problem: Problem, epsilon: float, runs: int, stream: Stream) -> Fits:
    """Minimise a perturbed objective (Kifer, Smith and Thakurta 2012, Algorithm 1, Gaussian noise).

    The objective is sum_i l(y_i - x_i theta) + (lambda/2) ||theta||^2 + b theta, b ~ N(0, sigma^2 I). Its analysis
    needs bounded gradients, which squares do not have; so l is Huber's: the square up to a residual of C, linear
    beyond, so that a gradient is x times the residual clipped to C, as boosting and Hessian mixing clip it. Bounds on
    theta that would bound the square's gradients make the noise larger by their radius times B.

    Replace-one, after Redberg, Koskela and Wang (NeurIPS 2023, arXiv:2401.00583), who leave one row out. theta and b
    determine each other: b = sum x_i g_i(theta) - lambda theta. Between two data sets b differs by w = x' g' - x g,
    ``|g|, |g'| <= C``, which depends on theta, and the Jacobians' determinants by a factor of at most 1 + B^2/lambda.
    So the privacy loss is at most ln(1 + B^2/lambda) + max (2 b w + ||w||^2)/(2 sigma^2), and, because that is convex
    in (g, g'), the maximum is at one of the four corners (±C, ±C). Each corner alone is a Gaussian mechanism with a
    shift of at most 2BC; summing over the four,

        delta(epsilon) <= 4 delta_mu(epsilon - ln(1 + B^2/lambda)),    mu = 2 B C/sigma.

    lambda is such that the logarithm takes half of epsilon, as in the paper. The minimiser is taken for exact.
    """
    sigma, penalty = objective_noise(epsilon, problem.B)
    b = normal(stream, sigma, problem.columns, runs)
    inverse = np.linalg.inv(problem.gram + penalty * np.eye(problem.columns))
    theta = np.zeros_like(b)
    moving = np.arange(runs)
    for _ in range(MOST_STEPS):
        # X^T X + lambda I is above every Hessian, so that each step lowers the objective: a Newton step where no
        # residual is clipped.
        score = problem.scores(theta[:, moving], LARGEST_TARGET)
        change = inverse @ (score - penalty * theta[:, moving] - b[:, moving])
        theta[:, moving] += change
        moving = moving[np.linalg.norm(change, axis=0) > CLOSE * (1 + np.linalg.norm(theta[:, moving], axis=0))]
        if not len(moving):
            break
    return Fits(theta, told=f"{len(moving)} runs not at their minimum" if len(moving) else "")


def objective_noise(epsilon: float, B: float, delta: float = DELTA) -> tuple[float, float]:
    """Return sigma and lambda of `objective_perturbation`."""
    penalty = B**2 / math.expm1(CURVATURE_SHARE * epsilon)
    mu = mu_of_budget((1 - CURVATURE_SHARE) * epsilon, delta / 4)
    return 2 * B * LARGEST_TARGET / mu, penalty


def gradient_descent(problem: Problem, epsilon: float, runs: int, stream: Stream) -> Fits:
    """Take steps along noisy clipped gradients, with their number, clipping and rate tuned on these rows, for free.

    A step adds rate (sum_i clip_c(x_i (y_i - x_i theta)) + N(0, sigma^2 I)). Replacing a row moves a sum by at most 2c,
    so T steps with sigma = 2 c sqrt(T)/mu are exactly mu-GDP, the noise being Gaussian and independent (Dong, Roth and
    Su 2022, Corollary 2). c, T and the rate are those of least median risk over `TUNING_RUNS` other runs, in a grid of
    64. That choice reads the rows and is paid by nobody: the line is what no tuning under the budget could reach.
    """
    rate = 1 / float(np.linalg.eigvalsh(problem.gram)[-1])
    mu = mu_of_budget(epsilon, DELTA)
    choices = list(itertools.product(CLIPS, RATES))
    best, chosen = math.inf, (STEPS[0], *choices[0])
    for steps in STEPS:
        clips, rates = (np.repeat(values, TUNING_RUNS) for values in np.array(choices).T)
        theta = _descend(problem, steps, clips * problem.B * LARGEST_TARGET, rates * rate, mu, stream)
        risks = np.median(problem.excess(theta).reshape(len(choices), TUNING_RUNS), axis=1)
        if risks.min() < best:
            best, chosen = float(risks.min()), (steps, *choices[int(risks.argmin())])
    steps, clip, speed = chosen
    limits = np.full(runs, clip * problem.B * LARGEST_TARGET)
    theta = _descend(problem, steps, limits, np.full(runs, speed * rate), mu, stream)
    return Fits(theta, told=f"T = {steps}, c = {clip:g} BC, rate {speed:g}/λ_max")


def _descend(problem: Problem, steps: int, clips: Reals, rates: Reals, mu: float, stream: Stream) -> Reals:
    """Return theta after so many steps from 0, one column for each clipping norm and rate."""
    theta = np.zeros((problem.columns, len(clips)))
    sigma = 2 * clips * math.sqrt(steps) / mu
    for _ in range(steps):
        score = problem.scores(theta, clips, whole_gradient=True)
        theta += rates * (score + sigma * normal(stream, 1.0, *theta.shape))
    return theta
