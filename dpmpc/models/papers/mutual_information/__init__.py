"""Regression from noisy rows or from a secret random projection, private in the sense of mutual information.

Showkatbakhsh, Karakus and Diggavi, *Privacy-Utility Trade-off of Linear Regression under Random Projections and
Additive Noise* (ISIT 2018). `information` holds bits, noise, as printed and repaired, and the guarantee,
`projection_estimators` the two mechanisms, `utility` the paper's error bounds, `attack` what breaks the printed
calibration.

Promised: how much a release reveals about one entry of X, in bits, where the guarantee states that it is proven. Not
promised: privacy of y, of whole rows, or of real people, because the noise is floating-point.
"""

from dpmpc.models.papers.mutual_information.information import MutualInformationGuarantee
from dpmpc.models.papers.mutual_information.projection_estimators import AdditiveNoise, RandomProjection

__all__ = ["AdditiveNoise", "MutualInformationGuarantee", "RandomProjection"]
