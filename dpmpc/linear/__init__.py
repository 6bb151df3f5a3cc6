"""What is added up: encoding, noise, shares, public matrices, contributions, and proofs that they are well formed."""

from typing import TYPE_CHECKING

from dpmpc.base.faces import face

if TYPE_CHECKING:
    from dpmpc.linear.contributions import Rows, SecondMoments
    from dpmpc.linear.encoding import Sensitivity
    from dpmpc.linear.noise import DiscreteGaussian, DiscreteLaplace, Noise
    from dpmpc.linear.proving import ProofServer, Prover, QueryPoint, decide, joint_randomness, proved
    from dpmpc.linear.sharing import AdditiveSharing, ShamirSharing
    from dpmpc.linear.sketching import OSNAP, BernoulliMixing, CountSketch, PublicMatrix

__all__ = [
    "OSNAP",
    "AdditiveSharing",
    "BernoulliMixing",
    "CountSketch",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Noise",
    "ProofServer",
    "Prover",
    "PublicMatrix",
    "QueryPoint",
    "Rows",
    "SecondMoments",
    "Sensitivity",
    "ShamirSharing",
    "decide",
    "joint_randomness",
    "proved",
]

__getattr__, __dir__ = face(
    __name__,
    {
        "contributions": ["Rows", "SecondMoments"],
        "encoding": ["Sensitivity"],
        "noise": ["DiscreteGaussian", "DiscreteLaplace", "Noise"],
        "proving": ["ProofServer", "Prover", "QueryPoint", "decide", "joint_randomness", "proved"],
        "sharing": ["AdditiveSharing", "ShamirSharing"],
        "sketching": ["BernoulliMixing", "CountSketch", "OSNAP", "PublicMatrix"],
    },
)
