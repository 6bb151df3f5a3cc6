"""Counts in cells and what follows from them: Table 1, two-way tables, quantiles, tests, rows of nobody."""
