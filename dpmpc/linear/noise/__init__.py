"""Infinitely divisible noise: each client adds a share of it, and what the sum hides is set by the sum.

`DiscreteGaussian`, `Skellam` and `DiscreteLaplace` are integer noise for data encoded in a ring or field. No
floating-point number comes between the AES key stream and the sample, and the distribution is the one named: the total
variation distance is below 2^-128 for each draw, all of it from cutting off far tails, which delta does not count
(theorem exact-samplers). A parameter is rounded *up* to what the sampler can hold, so that there is never less noise
than requested; the attributes report the value in use. `Gaussian` and `GammaLaplace` are floating-point noise: its
rounding artefacts can give data away (Mironov 2012), and so it is for simulations only.

What is drawn depends on the stream alone: not on the number of threads, and not on how the work was cut.

Not promised: a running time that is independent of the values drawn; secrecy when the stream is not secret
(`randomness.require_secret` checks); that the sum of discrete Gaussians is a discrete Gaussian (it is nearly one, and
`privacy` accounts for it; Skellam variables are closed under sums, and `shares` draws of `DiscreteLaplace` make up a
discrete Laplace variable).
"""

import importlib
from collections.abc import Mapping
from typing import Any

from dpmpc.base import plugins
from dpmpc.base.arguments import NOISES, SIMULATED_NOISES
from dpmpc.base.errors import InputError
from dpmpc.base.plugins import Kinds
from dpmpc.base.storage.records import rebuilt
from dpmpc.linear.noise.base import Noise
from dpmpc.linear.noise.integer import DiscreteGaussian, DiscreteLaplace

__all__ = ["FAMILIES", "DiscreteGaussian", "DiscreteLaplace", "Noise"]


def _class_at(place: str) -> type[Noise]:
    module, _, name = place.partition(".")
    found: type[Noise] = getattr(importlib.import_module(f"dpmpc.linear.noise.{module}"), name)
    return found


FAMILIES = Kinds(
    plugins.NOISES, {name: _class_at(place) for name, place in (NOISES | SIMULATED_NOISES).items()}, Noise, "name"
)
"""What a saved task may name; entry points of other distributions bring more."""


def family_named(name: object) -> type[Noise]:
    """Return the noise of this name, or raise `InputError`."""
    if not isinstance(name, str) or name not in FAMILIES:
        raise InputError("noise", f"{name!r}", f"one of {', '.join(FAMILIES)}")
    found: type[Noise] = FAMILIES[name]
    return found


def noise_from(description: Mapping[str, Any]) -> Noise:
    """Make the noise that `Noise.describe` described.

    Parameters
    ----------
    description : mapping
        ``name`` and the parameters of that family, nothing else.

    Returns
    -------
    Noise

    Raises
    ------
    InputError
        If the name is unknown, or a parameter is missing, superfluous or out of range.
    """
    noise: Noise = rebuilt("noise", FAMILIES, description)
    return noise
