"""CoinPress: mean, covariance and regression by clipping to balls that shrink from round to round.

Papers: Biswas, Dong, Kamath and Ullman, *CoinPress: Practical Private Mean and Covariance Estimation* (2020); Ediger,
*CoinPress Extension: Linear Regression* (2021). Privacy: theorem coinpress-rounds.

`steps` holds the formulas and what is published before a round, `summation` who sums and what it costs,
`algorithms` the algorithms, `coinpress_estimators` what users call.
"""

from dpmpc.models.papers.coinpress.coinpress_estimators import CoinPressRegression, PrivateCovariance, PrivateMean

__all__ = ["CoinPressRegression", "PrivateCovariance", "PrivateMean"]
