"""The curve of the Gaussian mechanism in 60 digits."""

import mpmath


def exact_delta(mus, epsilon):
    """Return delta at an epsilon of Gaussian mechanisms together, as Balle and Wang 2018, Theorem 8, have it."""
    with mpmath.workdps(60):
        mu, epsilon = mpmath.sqrt(mpmath.fsum(mpmath.mpf(one) ** 2 for one in mus)), mpmath.mpf(epsilon)
        return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)
