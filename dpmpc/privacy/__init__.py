"""The only place that turns epsilon into noise, and noise into a promise.

`gaussian` holds the tight curve of the Gaussian mechanism, `accountants` one family of noise each, `exposure` who may
collude and what integers cost (`one_copy` the same where noise reaches several rows), `calibration` who adds the noise,
how much, and what it guarantees, `guarantee` and `in_words` the words, `composition` what several releases promise
together, `budget` the ledger of them. What these compute is bounded from the safe side, whatever floating point does.
Noise and words for owners of different columns are in `dpmpc.owners.columns.mixing_guarantee`.
"""

from typing import TYPE_CHECKING

from dpmpc.base.faces import face

if TYPE_CHECKING:
    from dpmpc.privacy.accountants import ACCOUNTANTS, Accountant, accountant_of, independent_rows
    from dpmpc.privacy.budget import BudgetLedger
    from dpmpc.privacy.calibration import calibrate
    from dpmpc.privacy.composition import ZCDPBudget
    from dpmpc.privacy.exposure import EffectiveNoise
    from dpmpc.privacy.gaussian import analytic_gaussian_sigma, classical_gaussian_sigma
    from dpmpc.privacy.guarantee import Guarantee
    from dpmpc.privacy.in_words import bound_in_words

__all__ = [
    "ACCOUNTANTS",
    "Accountant",
    "BudgetLedger",
    "EffectiveNoise",
    "Guarantee",
    "ZCDPBudget",
    "accountant_of",
    "analytic_gaussian_sigma",
    "bound_in_words",
    "calibrate",
    "classical_gaussian_sigma",
    "independent_rows",
]

__getattr__, __dir__ = face(
    __name__,
    {
        "accountants": ["ACCOUNTANTS", "Accountant", "accountant_of", "independent_rows"],
        "budget": ["BudgetLedger"],
        "calibration": ["calibrate"],
        "composition": ["ZCDPBudget"],
        "exposure": ["EffectiveNoise"],
        "gaussian": ["analytic_gaussian_sigma", "classical_gaussian_sigma"],
        "guarantee": ["Guarantee"],
        "in_words": ["bound_in_words"],
    },
)
