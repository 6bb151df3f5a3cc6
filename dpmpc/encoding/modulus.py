"""The proof that sums of encoded rows and their noise fit the ring or field."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from dpmpc.encoding.ring import Ring, ring_named
from dpmpc.errors import InputError, OverflowRisk

_LEAST_SCALE = 2.0**-10  # of discrete Laplace noise


@dataclass(frozen=True)
class ModulusPlan:
    """Proof that no cell of an opened sum wraps around, except with probability `failure`.

    Parameters
    ----------
    bits_needed, bits_available : int
        Bits of the largest centred sum, and of the ring or field.
    magnitude : int
        Largest sum of encoded entries without noise.
    tail : float
        What the noise of every cell stays below.
    failure : float
        Probability that some cell's noise does not.
    """

    bits_needed: int
    bits_available: int
    magnitude: int
    tail: float
    failure: float


def gaussian_tail(noise_sd: float, log_cells: float, scale: float | None) -> float:
    """Return sd sqrt(2 L)."""
    return noise_sd * math.sqrt(2 * log_cells)


def skellam_tail(noise_sd: float, log_cells: float, scale: float | None) -> float:
    """Return sd sqrt(2 L) + L/3."""
    return noise_sd * math.sqrt(2 * log_cells) + log_cells / 3


def laplace_tail(noise_sd: float, log_cells: float, scale: float | None) -> float:
    """Return 2 b sinh(1/(2b)) sd sqrt(2 L) + b L."""
    if scale is None or not (math.isfinite(scale) and scale >= _LEAST_SCALE):
        raise InputError(f"scale: {scale} given, a finite number of at least 2^-10 expected")
    return noise_sd * math.sqrt(2 * log_cells) * 2 * scale * math.sinh(1 / (2 * scale)) + scale * log_cells


TAILS: dict[str, Callable[[float, float, float | None], float]] = {
    "gaussian": gaussian_tail,
    "discrete-gaussian": gaussian_tail,
    "skellam": skellam_tail,
    "discrete-laplace": laplace_tail,
}
"""What sums of a noise stay below, by its name, from their standard deviation, L and the scale (`plan_modulus`).

Whoever adds a family adds its tail here.
"""


def plan_modulus(
    ring: Ring | type[Ring] | str,
    occupancy_max: int,
    eta_int: int,
    noise_sd: float,
    cells: int,
    failure: float = 2.0**-40,
    noise: str = "gaussian",
    scale: float | None = None,
) -> ModulusPlan:
    """Check 2^bits > 2 (max_r N_r eta_f + tail) + 1 (docs/mathematics.md, section 2).

    With L = ln(2 cells / failure), a union over cells and two sides:

    - Gaussian: tail = sd sqrt(2 L). So too for sums of discrete Gaussians of parameter sigma: completing the square,
      E exp(t X) is exp(t^2 sigma^2 / 2) times a ratio of Gaussian sums over shifted and unshifted integers, and the
      unshifted sum is the largest (Canonne, Kamath, Steinke 2020, section 2).
    - Skellam of variance v, a difference of two Poisson(v/2): ln E exp(t X) = v (cosh t - 1) <= v t^2 / (2 (1 - t/3))
      for 0 < t < 3, so X is sub-gamma: tail = sqrt(2 v L) + L/3 (Boucheron, Lugosi, Massart 2013, section 2.4).
    - Discrete Laplace of scale b, r times as many shares as make one up: ln E exp(t X) = -r ln(1 - sinh^2(t/2) /
      sinh^2(1/(2b))) <= -r ln(1 - (b t)^2) <= r (b t)^2 / (1 - b t) for 0 < t < 1/b, as sinh(x)/x increases. So X is
      sub-gamma: tail = sqrt(2 v L) + b L with v = 2 r b^2, which is (2 b sinh(1/(2b)) sd)^2.

    Wrap-around would ruin the result, never privacy.

    Parameters
    ----------
    ring : Ring, class or name
        Where the sums live.
    occupancy_max : int
        Contributions in the fullest cell, max_r N_r.
    eta_int : int
        Largest absolute value of an encoded entry.
    noise_sd : float
        Standard deviation of the summed noise of a cell, in integer units.
    cells : int
        Number of cells that are opened, k p.
    failure : float
        beta, in (0, 1).
    noise : str
        One of `TAILS`: the distribution of a cell's noise.
    scale : float, optional
        b, of discrete Laplace noise.

    Returns
    -------
    ModulusPlan

    Raises
    ------
    OverflowRisk
        If the sums do not fit; the message holds the numbers.
    """
    ring = ring_named(ring)
    for name, value, least in (("occupancy_max", occupancy_max, 0), ("eta_int", eta_int, 0), ("cells", cells, 1)):
        if value < least:
            raise InputError(f"{name}: {value} given, at least {least} expected")
    if not (math.isfinite(noise_sd) and noise_sd >= 0):
        raise InputError(f"noise_sd: {noise_sd} given, a finite number of at least 0 expected")
    if not 0 < failure < 1:
        raise InputError(f"failure: {failure} given, a probability between 0 and 1 expected")
    log_cells = math.log(2 * cells) - math.log(failure)
    if noise not in TAILS:
        raise InputError(f"noise: {noise!r} given, one of {', '.join(TAILS)} expected")
    tail = TAILS[noise](noise_sd, log_cells, scale)
    magnitude = int(occupancy_max) * int(eta_int)
    bits_needed = (2 * (magnitude + math.ceil(tail)) + 1).bit_length()
    if bits_needed > ring.bits:
        raise OverflowRisk(
            f"{ring.name}: {bits_needed} bits needed, {ring.bits} available: up to {occupancy_max} contributions of at "
            f"most {eta_int} and noise of at most {tail:.6g} in each of {cells} cells; use fewer fractional bits or "
            "more rows"
        )
    return ModulusPlan(bits_needed, ring.bits, magnitude, tail, failure)
