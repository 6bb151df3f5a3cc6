"""What stands in papers of its own, and baselines to compare with."""

from typing import TYPE_CHECKING

from dpmpc.base.faces import face

if TYPE_CHECKING:
    from dpmpc.models.papers.baselines import SSP, AdaSSP, AnalyzeGauss, LocalGaussian, ModSulq
    from dpmpc.models.papers.coinpress import CoinPressRegression, PrivateCovariance, PrivateMean
    from dpmpc.models.papers.mutual_information import AdditiveNoise, MutualInformationGuarantee, RandomProjection

__all__ = [
    "SSP",
    "AdaSSP",
    "AdditiveNoise",
    "AnalyzeGauss",
    "CoinPressRegression",
    "LocalGaussian",
    "ModSulq",
    "MutualInformationGuarantee",
    "PrivateCovariance",
    "PrivateMean",
    "RandomProjection",
]

__getattr__, __dir__ = face(
    __name__,
    {
        "baselines": ["AdaSSP", "AnalyzeGauss", "LocalGaussian", "ModSulq", "SSP"],
        "coinpress": ["CoinPressRegression", "PrivateCovariance", "PrivateMean"],
        "mutual_information": ["AdditiveNoise", "MutualInformationGuarantee", "RandomProjection"],
    },
)
