"""What an adversary of sums sees, in closed form: how much the noise that is really there gives away.

After subtracting all that it knows, the adversary sees the numbers

    moved_i x + draws e,

where x is what client i contributes, moved_i are its factors in these numbers, e are independent draws of a noise
of parameter sigma, and `draws` says which of them reach which number. Whoever noises what, however many releases there
are of the same reports, and whoever is missing from them: each is another `draws`. None of it comes from the formulas
of the calibration, which is what an audit is to check.

For continuous Gaussian noise the pair of inputs whose contributions differ by D is exactly as hard to tell apart as two
normal variables at distance mu,

    mu^2 = |D|^2 moved_i^T (sigma^2 draws draws^T)^-1 moved_i,

so that the tight curve of the Gaussian at mu *is* epsilon. For discrete Gaussian noise `View.least_epsilon` is a lower
bound. Let the noise have, up to a log-ratio a, the law of the lattice Gaussian of covariance parameter C. Whoever sees
it may add continuous noise of variance w^2 to each number. The sum is normal of covariance C + w^2 I, up to the
log-ratio by which a lattice Gaussian about w wide notices where its lattice lies, 2^-300 for each number: the density
at y is, with some c that depends on y,

    sum_v exp(-v^T C^-1 v / 2 - |y - v|^2 / (2 w^2))
        = exp(-y^T (C + w^2 I)^-1 y / 2) sum_v exp(-(v - c)^T (C^-1 + I / w^2) (v - c) / 2),

and by Poisson summation the last sum is constant up to that factor, for w twice the `ROUNDING_WIDTH` of the proofs and
C large beside w^2. Adding noise tells nothing new, so epsilon(mu', delta e^a) - 2 a bounds the truth from below, with
C + w^2 I in the place of C in mu'. a is the `slack` of the guarantee.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import scipy.linalg

from dpmpc.base.arrays import Integers, Reals
from dpmpc.base.errors import InputError
from dpmpc.linear.noise import DiscreteGaussian
from dpmpc.linear.noise.floating import Gaussian
from dpmpc.privacy import Guarantee
from dpmpc.privacy.exposure import ROUNDING_WIDTH
from dpmpc.privacy.gaussian import epsilon_of_mu
from dpmpc.privacy.task import Task

ROUNDING = 1e-9  # relative, by which a bound is lowered for the error of the arithmetic here
WIDTH = 2 * ROUNDING_WIDTH  # w: a lattice Gaussian of this width deviates by less than 2^-300 in each number


@dataclasses.dataclass(frozen=True)
class View:
    """What each client moves, and which draws of the noise cover it."""

    moved: Reals  # (m, candidates): by what each of m observed numbers multiplies a candidate's contribution
    # (m, N): by what it multiplies each of N independent draws of the noise that the adversary does not know
    draws: Reals

    def leverage(self, sigma: float) -> float:
        """Return the largest moved_i^T (draws draws^T + w^2/sigma^2)^-1 moved_i."""
        covariance = self.draws @ self.draws.T + (WIDTH / sigma) ** 2 * np.eye(len(self.draws))
        return float(np.einsum("mc,mc->c", self.moved, np.linalg.solve(covariance, self.moved)).max())

    def least_epsilon(self, distance: float, sigma: float, guarantee: Guarantee) -> float:
        """Return a lower bound on the true epsilon at the delta of a guarantee."""
        mu = distance * math.sqrt(self.leverage(sigma)) / sigma
        slack = guarantee.slack
        epsilon = epsilon_of_mu(mu, min(1.0, guarantee.delta * math.exp(slack)))
        return max(0.0, epsilon * (1 - ROUNDING) - 2 * slack)


def signs_of(task: Task) -> Reals:
    """Return the public matrix, unscaled: float64 (k, n)."""
    return np.asarray(task.sketch.to_csc().toarray(), np.float64)


def view_of(task: Task, honest: Integers, openings: Sequence[Reals] | None = None) -> View:
    """Return what the adversary sees of the sums that were sent."""
    openings = [signs_of(task)] if openings is None else openings
    moved = np.vstack(openings)[:, honest]
    covered = []
    if task.noising.by == "clients":
        if task.copies > 1 and len(openings) > 1:
            raise InputError("openings", f"{len(openings)}", "1", condition=f"where clients noise {task.copies} copies")
        covered.append(moved if task.copies == 1 else _apart(moved))
    if task.servers_add_noise:
        fresh = [np.tile(np.eye(len(signs)), task.noising.honest_servers(task.trust)) for signs in openings]
        covered.append(np.asarray(scipy.linalg.block_diag(*fresh), np.float64))
    return View(moved, np.hstack(covered))


def exact_epsilon(
    task: Task, honest: Integers, distance: float, openings: Sequence[Reals] | None = None
) -> float | None:
    """Return a lower bound on the true epsilon of what was sent, or None for noise that is not Gaussian."""
    if not isinstance(task.noise, DiscreteGaussian | Gaussian):
        return None
    return view_of(task, honest, openings).least_epsilon(distance, task.noise.sigma, task.guarantee)


def _apart(moved: Reals) -> Reals:
    """Spread each non-zero entry of a matrix to a column of its own: every copy has a draw of its own."""
    rows, clients = np.nonzero(moved)
    draws = np.zeros((len(moved), len(rows)))
    draws[rows, np.arange(len(rows))] = moved[rows, clients]
    return draws
