"""What the servers open, without clients and shares: one draw of noise for each released number.

Row r of the opened sketch is (S q)_r plus the sum of the N_r shares of noise that the copies in it carry. Secret shares
cancel, so a release has the law of the exact integer sum plus one variable with the law of N_r shares of noise,
independent between entries:

- discrete Gaussian shares of parameter sigma add up to a discrete Gaussian of parameter sigma sqrt(N_r), up to the
  smoothing slack of `dpmpc.privacy.exposure`, which is below 1e-20 in the log-ratio of probabilities;
- N_r shares NB(1/m, q) - NB(1/m, q) add up to NB(N_r/m, q) - NB(N_r/m, q), exactly.

Where servers add the noise, N_r is their number. Clients who send one copy for several rows are refused: rows are then
not independent. Noise is seeded and, for discrete Laplace, NumPy's: this is for experiments and protects nobody.
Calibration, the public matrix, encoding and the overflow proof are the product's own.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from dpmpc.base.arrays import Integers, Reals
from dpmpc.base.errors import InputError
from dpmpc.base.randomness import Stream
from dpmpc.linear.noise import DiscreteGaussian, DiscreteLaplace, Noise
from dpmpc.privacy.task import Task
from dpmpc.release.client import BLOCK
from dpmpc.release.release import Release


def exact_sums(task: Task, rows: Reals) -> Integers:
    """Return S q, int64 (k, width), for rows (n, p) in the units of the schema: what would be opened without noise."""
    ring = task.encoding.ring
    sums = task.sketch.zeros(task.width)
    for first in range(0, len(rows), BLOCK):
        block = task.schema.normalise(rows[first : first + BLOCK])
        encoded = ring.embed(task.statistic.encode(block, task.encoding))
        task.sketch.apply(encoded, out=sums, ring=ring, first=first)
    return ring.lift(sums)


def opened(task: Task, sums: Integers, seed: int) -> Release:
    """Add to the exact sums what the noise in them adds up to, drawn from a seed."""
    if task.noising.reaches_several_rows(task.sketch):
        raise InputError("copies", "one for several rows", "one for each", condition="in a simulation")
    noisy = sums.copy()
    stream = Stream.from_seed(seed)
    for count in np.unique(task.noise_terms[task.noise_terms > 0]):
        rows = np.flatnonzero(task.noise_terms == count)
        noisy[rows] += total_noise(task.noise, int(count), (len(rows), task.width), stream)
    return Release(msgspec.structs.replace(task, simulation=True), noisy)


def noiseless(task: Task, sums: Integers) -> Release:
    """Return the sketch without noise as a release of a task; it is not private, whatever its task says."""
    return Release(msgspec.structs.replace(task, simulation=True), sums)


def total_noise(noise: Noise, count: int, shape: tuple[int, ...], stream: Stream) -> Integers:
    """Draw sums of `count` shares of a client's noise."""
    if isinstance(noise, DiscreteGaussian):
        return DiscreteGaussian(noise.sigma * math.sqrt(count)).sample(shape, stream=stream)
    if isinstance(noise, DiscreteLaplace):
        generator = np.random.default_rng(int(stream.words(1)[0]))
        # theorem sketch-laplace: q = exp(-1 / b)
        minuend, subtrahend = generator.negative_binomial(
            count / noise.shares, -math.expm1(-1 / noise.scale), size=(2, *shape)
        )
        return np.asarray(minuend - subtrahend)
    raise InputError("noise", noise.name, "discrete-gaussian or discrete-laplace", condition="in a simulation")


def interpolated(task: Task, exponent: float) -> Task:
    """Scale a client's noise variance from v to v (n/k)^(1 - p): between local noise and the least that a sketch needs.

    Burkhardt et al. 2025, section 6.2: the variance is proportional to n^-p. v is (Delta/mu)^2 k/n at p = 1, the
    release's own calibration, and (Delta/mu)^2 at p = 0, where each copy alone is as noisy as a locally private row.
    Noise only grows, so the task's guarantee holds for every p; that no sum wraps around is proven again.
    """
    if not 0 <= exponent <= 1:
        raise InputError("exponent", exponent, "a number from 0 (local) to 1 (sketch)")
    if not isinstance(task.noise, DiscreteGaussian):
        raise InputError("noise", task.noise.name, "discrete-gaussian")
    factor = (task.clients / task.sketch.rows) ** (1 - exponent)
    scaled = msgspec.structs.replace(task, noise=DiscreteGaussian(task.noise.sigma * math.sqrt(factor)))
    _ = scaled.modulus_plan
    return scaled
