"""Infinitely divisible noise: each client adds a share of it, and what the sum hides is set by the sum.

`DiscreteGaussian`, `Skellam` and `DiscreteLaplace` are integer noise for data encoded in a ring or field. No
floating-point number comes between the AES key stream and the sample, and the distribution is the one named: the total
variation distance is below 2^-128 for each draw, all of it from cutting off far tails, which delta does not count
(docs/mathematics.md, section 2, says why). A parameter is rounded *up* to
what the sampler can hold, so that there is never less noise than asked for; the attributes report the value in use.
`Gaussian` and `GammaLaplace` are floating-point noise: its rounding artefacts can give data away (Mironov 2012), and so
it is for simulations only.

What is drawn depends on the stream alone: not on the number of threads, and not on how the work was cut.

Not promised: a running time that is independent of the values drawn; secrecy when the stream is not secret
(`randomness.require_secret` tells); that the sum of discrete Gaussians is a discrete Gaussian (it is nearly one, and
`privacy` accounts for it; Skellam variables are closed under sums, and `shares` draws of `DiscreteLaplace` make up a
discrete Laplace variable).
"""

from dpmpc.noise.base import BLOCK_DRAWS, MAX_SHARES, Noise
from dpmpc.noise.families import FAMILIES, family_named, noise_from
from dpmpc.noise.floating import GammaLaplace, Gaussian
from dpmpc.noise.integer import MAX_SCALE, MAX_SIGMA, MAX_VARIANCE, DiscreteGaussian, DiscreteLaplace, Skellam

__all__ = [
    "BLOCK_DRAWS",
    "FAMILIES",
    "MAX_SCALE",
    "MAX_SHARES",
    "MAX_SIGMA",
    "MAX_VARIANCE",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "GammaLaplace",
    "Gaussian",
    "Noise",
    "Skellam",
    "family_named",
    "noise_from",
]
