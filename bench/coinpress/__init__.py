"""Biswas et al. (2020) and Ediger (2021): CoinPress, central and among servers."""
