"""The only place that turns epsilon into noise, and noise into a promise.

`gaussian` holds the tight curve of the Gaussian mechanism, `accountants` one family of noise each, `exposure` who may
collude and what integers cost (`one_copy` the same where noise reaches several rows), `calibration` who adds the noise,
how much, and what it guarantees, `guarantee` and `in_words` the words, `composition` what several releases promise
together, `budget` the ledger of them. What these compute is bounded from the safe side, whatever floating point does.
Noise and words for owners of different columns are in `dpmpc.data_release.mixing_guarantee`.
"""

from dpmpc.privacy.accountants import (
    ACCOUNTANTS,
    Accountant,
    SearchedAccountant,
    accountant_of,
    independent_rows,
    is_pure,
    occupancy_failure,
    released_sd,
)
from dpmpc.privacy.budget import BudgetLedger
from dpmpc.privacy.calibration import CUT_OFF, Calibration, NoisePlacement, calibrate
from dpmpc.privacy.composition import Cost, ZCDPBudget, composed_epsilon, epsilon_of_rho, rho_of_sum
from dpmpc.privacy.exposure import EffectiveNoise, IndependentRowNoise
from dpmpc.privacy.gaussian import (
    analytic_gaussian_sigma,
    check_budget,
    classical_gaussian_sigma,
    delta_of_mu,
    epsilon_of_mu,
    mu_of_budget,
)
from dpmpc.privacy.guarantee import NOISE_DEALT, REPLACE_ONE, Guarantee, NoGuarantee, Preconditions
from dpmpc.privacy.in_words import best_guess, bound_in_words
from dpmpc.specification import TrustModel

__all__ = [
    "ACCOUNTANTS",
    "CUT_OFF",
    "NOISE_DEALT",
    "REPLACE_ONE",
    "Accountant",
    "BudgetLedger",
    "Calibration",
    "Cost",
    "EffectiveNoise",
    "Guarantee",
    "IndependentRowNoise",
    "NoGuarantee",
    "NoisePlacement",
    "Preconditions",
    "SearchedAccountant",
    "TrustModel",
    "ZCDPBudget",
    "accountant_of",
    "analytic_gaussian_sigma",
    "best_guess",
    "bound_in_words",
    "calibrate",
    "check_budget",
    "classical_gaussian_sigma",
    "composed_epsilon",
    "delta_of_mu",
    "epsilon_of_mu",
    "epsilon_of_rho",
    "independent_rows",
    "is_pure",
    "mu_of_budget",
    "occupancy_failure",
    "released_sd",
    "rho_of_sum",
]
