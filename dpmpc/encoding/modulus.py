"""The proof that sums of encoded rows and their noise fit the ring or field."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from dpmpc.arguments import require_finite, require_whole
from dpmpc.encoding.ring import Ring, ring_named
from dpmpc.errors import InputError, OverflowRisk


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


def plan_modulus(
    ring: Ring | type[Ring] | str,
    occupancy_max: int,
    eta_int: int,
    tail: Callable[[float], float],
    cells: int,
    failure: float = 2.0**-40,
) -> ModulusPlan:
    """Check 2^bits > 2 (max_r N_r eta_f + tail) + 1 (docs/mathematics.md, section 2).

    Wrap-around would ruin the result, never privacy.

    Parameters
    ----------
    ring : Ring, class or name
        Where the sums live.
    occupancy_max : int
        Contributions in the fullest cell, max_r N_r.
    eta_int : int
        Largest absolute value of an encoded entry.
    tail : callable
        ``tail(L)`` is what the noise of a cell, in integer units, stays below in absolute value except with
        probability 2 exp(-L): `dpmpc.noise.Noise.tail` of so many draws.
    cells : int
        Number of cells that are opened, k p.
    failure : float
        beta, in (0, 1).

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
        require_whole(name, value, least)
    if not 0 < failure < 1:
        raise InputError(f"failure: {failure} given, a probability between 0 and 1 expected")
    log_odds = math.log(2 * cells) - math.log(failure)  # a union over cells and two sides
    noise = require_finite("noise", tail(log_odds), 0)
    magnitude = int(occupancy_max) * int(eta_int)
    bits_needed = (2 * (magnitude + math.ceil(noise)) + 1).bit_length()
    if bits_needed > ring.bits:
        raise OverflowRisk(
            f"{ring.name}: {bits_needed} bits needed, {ring.bits} available: up to {occupancy_max} contributions of at "
            f"most {eta_int} and noise of at most {noise:.6g} in each of {cells} cells; use fewer fractional bits or "
            "more rows"
        )
    return ModulusPlan(bits_needed, ring.bits, magnitude, noise, failure)
