"""Regression from noisy rows or from a secret random projection, private in the sense of mutual information.

Showkatbakhsh, Karakus and Diggavi, *Privacy-Utility Trade-off of Linear Regression under Random Projections and
Additive Noise* (ISIT 2018). `information` holds bits, noise, as printed and repaired, and the guarantee,
`projection_estimators` the two mechanisms, `utility` the paper's error bounds, `attack` what breaks the printed
calibration.

Promised: how much a release tells about one entry of X, in bits, where the guarantee says that it is proven. Not
promised: privacy of y, of whole rows, or of real people, because the noise is floating-point.
"""

from dpmpc.mutual_information.attack import copied_columns, guess_entry, least_leak
from dpmpc.mutual_information.information import (
    CALIBRATIONS,
    MutualInformationGuarantee,
    additive_variance,
    bits,
    delta_of_bits,
    hidden_variance,
    leak_bound,
    paper_variance,
    pinsker_delta,
    smallest_spread,
    sound_variance,
)
from dpmpc.mutual_information.projection_estimators import AdditiveNoise, RandomProjection
from dpmpc.mutual_information.utility import (
    additive_error_bound,
    additive_failure,
    projection_error_bound,
    relative_error,
)

__all__ = [
    "CALIBRATIONS",
    "AdditiveNoise",
    "MutualInformationGuarantee",
    "RandomProjection",
    "additive_error_bound",
    "additive_failure",
    "additive_variance",
    "bits",
    "copied_columns",
    "delta_of_bits",
    "guess_entry",
    "hidden_variance",
    "leak_bound",
    "least_leak",
    "paper_variance",
    "pinsker_delta",
    "projection_error_bound",
    "relative_error",
    "smallest_spread",
    "sound_variance",
]
